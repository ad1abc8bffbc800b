//! Address over time: where each block lay from its birth to its death, segments stacked with the gaps closed.
//!
//! Always: free memory inside a segment is the paper, what is no segment at that time is the colour around
//! pictures; a row is the same byte of the same address in every window. The blocks themselves are a raster made
//! elsewhere ([`crate::raster::LivesIndex`], with [`GROUND`] as its ground).

use crate::chart::axis::{Clock, Scale, byte_ticks};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, RasterSlot, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::moments::{self, Moments, RIGHT_PT};
use crate::chart::spans;
use crate::chart::usage::PlacedRaster;
use crate::model::{AllocationId, DeviceMemory, Item, Position, SegmentId, Snapshot};
use crate::raster::{LivesIndex, RasterView};
use std::ops::Range;

/// The ink of free memory inside segments: hand its value to the raster.
pub const GROUND: Ink = Ink::Background;

/// All that the picture depends on.
#[derive(Clone, Debug)]
pub struct AddressTimeInput<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device's memory.
    pub memory: &'a DeviceMemory,
    /// Where its addresses and lives stand.
    pub index: &'a LivesIndex,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points.
    pub height_pt: f32,
    /// The visible window in units of the clock; empty: the whole trace.
    pub time: Range<f64>,
    /// Visible rows (bytes of segment memory); empty: all.
    pub rows: Range<f64>,
    /// Finished rasters, the lowest first.
    pub rasters: &'a [PlacedRaster],
    /// The moment the other views show.
    pub cursor: Option<Position>,
    /// A selected range.
    pub range: Option<Range<Position>>,
    /// Marks the user set, with their letters.
    pub marks: &'a [(char, Position)],
    /// What is selected.
    pub selected: &'a [Item],
    /// What the pointer is on.
    pub hovered: Option<Item>,
    /// Row of the span the pointer is on.
    pub hovered_span: Option<usize>,
}

/// Where the plot lies, and its axes: maps the pointer to moment and row.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressTimeFrame {
    /// The plot itself.
    pub plot: Area,
    /// The rows of spans below it; of no height where there are none.
    pub spans: Area,
    /// Clock units along the plot.
    pub time: Scale,
    /// Rows up the plot.
    pub rows: Scale,
}

/// Room for addresses at the left.
const LEFT_PT: f32 = 104.0;
/// Room above the plot, for the heads of marks.
const TOP_PT: f32 = 14.0;
/// Height of the axis labels.
const AXIS_PT: f32 = 18.0;
/// Segments get a border from this height on, so that thousands of small ones do not become one grey.
const BORDER_FROM_PT: f32 = 6.0;
/// Most segment borders drawn.
const MOST_BORDERS: usize = 6_000;
/// Room one label needs at the left.
const LABEL_PT: f32 = 14.0;

/// Lays out the parts.
pub fn frame(input: &AddressTimeInput<'_>) -> AddressTimeFrame {
    let (left, right) = (LEFT_PT, (input.width_pt - RIGHT_PT).max(LEFT_PT + 10.0));
    let spans_height = spans::height_pt(input.clock, input.height_pt);
    let bottom = (input.height_pt - AXIS_PT - spans_height).max(TOP_PT + 10.0);
    let time = if input.time.start < input.time.end { input.time.clone() } else { input.clock.span() };
    let all = 0.0..(input.index.map.rows() as f64).max(1.0);
    let rows = if input.rows.start < input.rows.end { input.rows.clone() } else { all };
    AddressTimeFrame {
        plot: Area::new(left, TOP_PT, right, bottom),
        spans: Area::new(left, bottom + AXIS_PT, right, bottom + AXIS_PT + spans_height),
        time: Scale::new(time, left, right),
        rows: Scale::new(rows, bottom, TOP_PT),
    }
}

/// What to ask the raster for so that it fills the plot at a density of pixels, and where the result goes.
pub fn wanted_raster(input: &AddressTimeInput<'_>, pixels_per_point: f32) -> (RasterView, PlacedRaster) {
    let frame = frame(input);
    let pixels = |points: f32| (points * pixels_per_point).round().clamp(1.0, 8192.0) as usize;
    let (time, bytes) = (frame.time.from..frame.time.to, frame.rows.from..frame.rows.to);
    let view = RasterView {
        columns: input.clock.columns(time.clone(), pixels(frame.plot.width())),
        bytes: bytes.clone(),
        height: pixels(frame.plot.height()),
    };
    (view, PlacedRaster { slot: RasterSlot::Window, time, bytes })
}

/// What lies under a point of the drawing: a block, else the segment that holds the address then.
pub fn hit(input: &AddressTimeInput<'_>, x: f32, y: f32) -> Option<Item> {
    let frame = frame(input);
    let row = frame.rows.unit(y);
    if !frame.plot.contains(x, y) || row < 0.0 {
        return None;
    }
    let (at, row) = (input.clock.position(frame.time.unit(x)), row as u64);
    if let Some(id) = input.index.hit(input.memory, at, row) {
        return Some(Item::Allocation(id));
    }
    let address = input.index.map.address(row)?;
    let holds = |segment: &crate::model::Segment| segment.exists_at(at) && segment.address <= address && address < segment.end();
    input.memory.segments.iter().find(|(_, segment)| holds(segment)).map(|(id, _)| Item::Segment(id))
}

/// Lays out the picture.
pub fn draw(input: &AddressTimeInput<'_>) -> Drawing {
    let frame = frame(input);
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let plot = frame.plot;
    drawing.push(Shape::Box(plot), Ink::Panel);
    if input.index.map.rows() == 0 {
        let words = "This recording names no segments, so no address can be shown.";
        let centre = [(plot.x0 + plot.x1) / 2.0, (plot.y0 + plot.y1) / 2.0];
        drawing.text(centre, Anchor::Centre, TextSize::Normal, words, Ink::WeakText, Fit::Shorten(plot.width()));
        return drawing;
    }
    let segments = visible_segments(input, &frame);
    if input.rasters.is_empty() {
        for (_, area) in &segments {
            drawing.push(Shape::Box(*area), GROUND);
        }
    }
    for raster in input.rasters {
        moments::place_raster(&mut drawing, plot, &frame.time, &frame.rows, raster);
    }
    let with_border = |area: &Area| BORDER_FROM_PT <= area.height() && 3.0 <= area.width();
    for (_, area) in segments.iter().filter(|(_, area)| with_border(area)).take(MOST_BORDERS) {
        // Without its lower edge, which is the upper one of the segment below.
        let Area { x0, y0, x1, y1 } = *area;
        drawing.push(Shape::Line(vec![[x0, y1], [x0, y0], [x1, y0], [x1, y1]], 1.0), Ink::SegmentBorder);
    }
    draw_addresses(&mut drawing, input, &frame);
    let shown = Moments {
        trace: &input.memory.trace,
        clock: input.clock,
        cursor: input.cursor,
        range: input.range.clone(),
        marks: input.marks,
        selected_item: input.selected.iter().copied().find(|item| matches!(item, Item::Event(_))),
    };
    shown.draw_range(&mut drawing, plot, &frame.time);
    for item in input.selected {
        outline(&mut drawing, input, &frame, *item, Ink::Selected, 2.0);
    }
    if let Some(item) = input.hovered {
        outline(&mut drawing, input, &frame, item, Ink::Hovered, 1.0);
    }
    shown.draw_time_axis(&mut drawing, plot, &frame.time);
    spans::draw(&mut drawing, input.snapshot, input.clock, frame.spans, &frame.time, input.hovered_span);
    shown.draw_ooms(&mut drawing, plot, &frame.time);
    shown.draw_moments(&mut drawing, plot, &frame.time);
    drawing
}

/// Where segments lie in the plot, those that are visible.
fn visible_segments(input: &AddressTimeInput<'_>, frame: &AddressTimeFrame) -> Vec<(SegmentId, Area)> {
    let areas = input.memory.segments.iter().filter_map(|(id, segment)| {
        let row = input.index.map.row(segment.address)?;
        Some((id, area_of(input, frame, segment.born..segment.died, row, segment.size)))
    });
    let mut areas: Vec<(SegmentId, Area)> = areas.filter(|(_, area)| 0.0 < area.width() && 0.0 < area.height()).collect();
    // Where there are more than can be drawn, the largest tell most.
    if MOST_BORDERS < areas.len() {
        areas.sort_by(|(_, a), (_, b)| (b.width() * b.height()).total_cmp(&(a.width() * a.height())));
        areas.truncate(MOST_BORDERS);
    }
    areas
}

/// A box in time and rows, cut to the plot.
fn area_of(input: &AddressTimeInput<'_>, frame: &AddressTimeFrame, life: Range<Position>, row: u64, size: u64) -> Area {
    let x = |position: Position| frame.time.point(input.clock.unit(position));
    let (low, high) = (frame.rows.point(row as f64), frame.rows.point(row.saturating_add(size) as f64));
    Area::new(x(life.start), high, x(life.end), low).intersect(frame.plot)
}

/// The outline of an item where it is a box here; of at least a point, so that the briefest life can be seen.
fn outline(drawing: &mut Drawing, input: &AddressTimeInput<'_>, frame: &AddressTimeFrame, item: Item, ink: Ink, width: f32) {
    let found = match item {
        Item::Allocation(id) => allocation_area(input, frame, id),
        Item::Segment(id) => input.memory.segments.get(id).and_then(|segment| {
            let row = input.index.map.row(segment.address)?;
            Some(area_of(input, frame, segment.born..segment.died, row, segment.size))
        }),
        Item::Gap { .. } | Item::Event(_) | Item::Stack(_) => None,
    };
    let Some(area) = found else { return };
    let plot = frame.plot;
    let hidden = (area.width() <= 0.0 && (area.x0 <= plot.x0 || plot.x1 <= area.x0))
        || (area.height() <= 0.0 && (area.y0 <= plot.y0 || plot.y1 <= area.y0));
    if !hidden {
        let widest = |from: f32, to: f32| {
            ((from + to) / 2.0 - (to - from).max(2.0 * width) / 2.0, (from + to) / 2.0 + (to - from).max(2.0 * width) / 2.0)
        };
        let ((x0, x1), (y0, y1)) = (widest(area.x0, area.x1), widest(area.y0, area.y1));
        drawing.push_item(Shape::Outline(Area::new(x0, y0, x1, y1), width), ink, Some(item));
    }
}

fn allocation_area(input: &AddressTimeInput<'_>, frame: &AddressTimeFrame, id: AllocationId) -> Option<Area> {
    if input.memory.allocations.len() <= id.0 as usize {
        return None;
    }
    let life = input.memory.allocations.get(id);
    let row = input.index.row_of(id)?;
    Some(area_of(input, frame, life.born..life.died, row, life.size))
}

/// Addresses of the spans at the left where there is room, offsets inside tall spans, lines where gaps are closed.
fn draw_addresses(drawing: &mut Drawing, input: &AddressTimeInput<'_>, frame: &AddressTimeFrame) {
    let (plot, mut taken) = (frame.plot, f32::INFINITY);
    for span in input.index.map.spans() {
        let (low, high) = (frame.rows.point(span.row as f64), frame.rows.point(span.row.saturating_add(span.size) as f64));
        if plot.y1 < high || low < plot.y0 {
            continue;
        }
        if low < plot.y1 - 0.5 && BORDER_FROM_PT <= low - high {
            drawing.push(Shape::Line(vec![[plot.x0, low], [plot.x1, low]], 1.0), Ink::SegmentBorder);
        }
        // The lowest visible byte is named, so that a label stands there even when the span begins far below.
        let (mut at, mut address) = (low - LABEL_PT / 2.0, span.address);
        if plot.y1 < low {
            at = plot.y1 - LABEL_PT / 2.0;
            address = span.address.saturating_add((frame.rows.from - span.row as f64).max(0.0) as u64);
        }
        if at + LABEL_PT <= taken && plot.y0 <= at {
            label(drawing, plot, at, format!("0x{address:x}"));
            taken = at;
        }
        let visible = (frame.rows.from - span.row as f64).max(0.0)..(frame.rows.to - span.row as f64).min(span.size as f64);
        let height = low.min(plot.y1) - high.max(plot.y0);
        if height < 3.0 * LABEL_PT {
            continue;
        }
        for tick in byte_ticks(visible, height) {
            let y = frame.rows.point(span.row as f64 + tick.at);
            if 0.0 < tick.at && y + LABEL_PT <= taken && high + LABEL_PT / 2.0 <= y && plot.y0 <= y {
                drawing.push(Shape::Line(vec![[plot.x0 - 4.0, y], [plot.x0, y]], 1.0), Ink::SegmentBorder);
                label(drawing, plot, y, format!("+{}", tick.label));
                taken = y;
            }
        }
    }
}

fn label(drawing: &mut Drawing, plot: Area, y: f32, text: String) {
    drawing.text([plot.x0 - 6.0, y], Anchor::RightCentre, TextSize::Small, text, Ink::AxisText, Fit::Always);
}
