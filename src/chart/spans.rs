//! Named spans under a picture over time: rows of boxes, one below the other, names where there is room.
//!
//! Always: a span open at a side is drawn with an arrow there; spans narrower than a point merge with what is drawn
//! there already, so there are never more marks than points; rows beyond [`MOST_ROWS`] are one row that shows how much
//! of it they fill.

use crate::chart::axis::{Clock, Scale, Span};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::model::Snapshot;

/// Height of one row.
pub const ROW_PT: f32 = 16.0;
/// Most rows of their own; what lies deeper shares one more.
pub const MOST_ROWS: usize = 4;
/// Height of the row for what lies deeper.
const DEEPER_PT: f32 = 5.0;
/// Room for less of a name than a few letters stays empty: it would tell nothing.
const LEAST_NAME_PT: f32 = 30.0;
/// How far an arrow reaches out of an open end.
const ARROW_PT: f32 = 6.0;

/// How high the rows of a clock's spans are together, in points, in a picture that is `room_pt` high: a fifth of it at
/// most, but one row; zero where there are no spans.
pub fn height_pt(clock: &Clock, room_pt: f32) -> f32 {
    let most = ((room_pt / 5.0 / ROW_PT) as usize).clamp(1, MOST_ROWS);
    let own = clock.lanes().min(most) as f32 * ROW_PT;
    own + if most < clock.lanes() { DEEPER_PT } else { 0.0 }
}

/// How many rows of their own there are in an area.
fn rows_of(area: Area) -> usize {
    ((area.height() / ROW_PT) as usize).min(MOST_ROWS)
}

/// Draws the spans in `area`, whose horizontal axis is `time`.
pub fn draw(drawing: &mut Drawing, snapshot: &Snapshot, clock: &Clock, area: Area, time: &Scale, hovered: Option<usize>) {
    let rows = rows_of(area);
    let mut drawn_to = [f32::NEG_INFINITY; MOST_ROWS + 1];
    let mut parity = [false; MOST_ROWS + 1];
    let behind = clock.spans().partition_point(|span| span.units.start <= time.to);
    for span in &clock.spans()[..behind] {
        let lane = span.lane.min(rows);
        let (x0, x1) = (time.point(span.units.start), time.point(span.units.end));
        if x1 < area.x0 || area.x1 < x0 || x1 < drawn_to[lane] + 1.0 {
            continue;
        }
        drawn_to[lane] = x1;
        parity[lane] = !parity[lane];
        let top = area.y0 + ROW_PT * lane as f32;
        let height = if lane == rows { DEEPER_PT } else { ROW_PT };
        let place = Area::new(x0, top, x1.max(x0 + 1.0), top + height - 1.0).intersect(area);
        let boxed = Area::new(place.x0, place.y0, (place.x1 - 0.5).max(place.x0 + 0.5), place.y1);
        drawing.push(Shape::Box(boxed), Ink::Annotation(parity[lane]));
        if lane == rows {
            continue;
        }
        if hovered == Some(span.row) {
            drawing.push(Shape::Outline(boxed, 1.0), Ink::Hovered);
        }
        draw_open_ends(drawing, span, boxed);
        let (left, right) = ends_of_text(span, &place);
        if LEAST_NAME_PT <= right - left {
            let words = snapshot.stacks.strings.get(span.name);
            let at = [left, (place.y0 + place.y1) / 2.0];
            drawing.text(at, Anchor::LeftCentre, TextSize::Small, words, Ink::Text, Fit::Shorten(right - left));
        }
    }
}

/// Where text may stand in a span: clear of its arrows.
fn ends_of_text(span: &Span, place: &Area) -> (f32, f32) {
    let (before, after) = span.open;
    let room = |open: bool| if open { 4.0 + ARROW_PT } else { 4.0 };
    (place.x0 + room(before), place.x1 - room(after))
}

/// An arrow where a span goes on beyond the recording.
fn draw_open_ends(drawing: &mut Drawing, span: &Span, area: Area) {
    if area.width() < 2.0 * ARROW_PT {
        return;
    }
    let (middle, half) = ((area.y0 + area.y1) / 2.0, 3.5);
    if span.open.0 {
        let tip = area.x0 + 1.0;
        let head = [[tip + ARROW_PT, middle - half], [tip + ARROW_PT, middle + half], [tip, middle]];
        drawing.push(Shape::Triangle(head), Ink::WeakText);
    }
    if span.open.1 {
        let tip = area.x1 - 1.0;
        let head = [[tip - ARROW_PT, middle - half], [tip - ARROW_PT, middle + half], [tip, middle]];
        drawing.push(Shape::Triangle(head), Ink::WeakText);
    }
}

/// The span under a point of the picture, if its row has one there. Of brief spans the nearest within two points.
pub fn hit<'a>(clock: &'a Clock, area: Area, time: &Scale, x: f32, y: f32) -> Option<&'a Span> {
    if y < area.y0 || area.y1 <= y || x < area.x0 - 2.0 || area.x1 + 2.0 < x {
        return None;
    }
    let lane = ((y - area.y0) / ROW_PT) as usize;
    if rows_of(area) <= lane {
        return None;
    }
    let near = 2.0 * time.units_per_point();
    let at = time.unit(x);
    let behind = clock.spans().partition_point(|span| span.units.start <= at + near);
    let in_lane = clock.spans()[..behind].iter().filter(|span| span.lane == lane);
    let distance = |span: &Span| (span.units.start - at).max(at - span.units.end).max(0.0);
    in_lane.filter(|span| distance(span) <= near).min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{SpanKind, Spans};
    use crate::chart::TimeAxis;
    use crate::model::{Action, Annotation, DeviceMemory, StackId, StreamId, TraceEntry};

    fn device(annotations: &[(Option<i64>, Option<i64>)], snapshot: &mut Snapshot) -> DeviceMemory {
        let mut memory = DeviceMemory::default();
        for event in 0..100 {
            memory.trace.push(TraceEntry {
                action: Action::Alloc,
                address: 0,
                size: 512,
                stream: StreamId::DEFAULT,
                time_us: Some(1000 + 10 * event),
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        let spans = annotations.iter().enumerate().map(|(n, (start_us, end_us))| Annotation {
            name: snapshot.stacks.strings.intern(&format!("span {n}")),
            start_us: *start_us,
            end_us: *end_us,
        });
        memory.annotations = spans.collect();
        memory
    }

    #[test]
    fn a_point_of_a_lane_is_the_span_drawn_there() {
        let mut snapshot = Snapshot::default();
        let spans = [
            (Some(1000), Some(1400)),
            (Some(1100), Some(1200)),
            (Some(1500), None),
            (None, Some(1050)),
            (Some(1600), Some(1601)),
        ];
        let memory = device(&spans, &mut snapshot);
        for axis in [TimeAxis::Events, TimeAxis::Time] {
            let clock = Clock::of(&memory, axis);
            let area = Area::new(50.0, 100.0, 1050.0, 100.0 + height_pt(&clock, 1000.0));
            let time = Scale::new(clock.span(), area.x0, area.x1);
            let mut drawing = Drawing::new(1100.0, 200.0);
            draw(&mut drawing, &snapshot, &clock, area, &time, None);
            let text = drawing.dump();
            assert!(text.contains("span 0") && text.contains("span 2"), "{axis:?}: {text}");
            assert_eq!(text.matches("triangle").count(), 2, "both open ends have an arrow, {axis:?}: {text}");
            let mut found = 0;
            for span in clock.spans() {
                let middle = time.point((span.units.start + span.units.end) / 2.0);
                let y = area.y0 + ROW_PT * (span.lane as f32 + 0.5);
                let hit = hit(&clock, area, &time, middle, y).map(|span| span.row);
                assert_eq!(hit, Some(span.row), "{axis:?}: {span:?}");
                found += 1;
            }
            assert_eq!(found, 5);
            let below = area.y1 + 1.0;
            assert!(hit(&clock, area, &time, 500.0, below).is_none());
        }
    }

    #[test]
    fn what_lies_too_deep_shares_a_row() {
        let mut snapshot = Snapshot::default();
        let nested: Vec<_> = (0..9).map(|n| (Some(1000 + n), Some(1900 - n))).collect();
        let memory = device(&nested, &mut snapshot);
        let found = Spans::of(&memory, &crate::base::Progress::new()).expect("nobody cancels");
        assert_eq!(found.of_kind(SpanKind::Annotation).len(), 9);
        let clock = Clock::with_spans(&memory, TimeAxis::Time, &found);
        assert_eq!((clock.lanes(), height_pt(&clock, 1000.0)), (9, MOST_ROWS as f32 * ROW_PT + DEEPER_PT));
        let area = Area::new(0.0, 0.0, 500.0, height_pt(&clock, 1000.0));
        let time = Scale::new(clock.span(), area.x0, area.x1);
        assert!(hit(&clock, area, &time, 200.0, area.y1 - 1.0).is_none());
        let mut drawing = Drawing::new(500.0, 100.0);
        draw(&mut drawing, &snapshot, &clock, area, &time, Some(0));
        for mark in &drawing.marks {
            if let Shape::Box(area) = mark.shape {
                assert!(area.y1 <= height_pt(&clock, 1000.0), "{mark:?}");
            }
        }
    }
}
