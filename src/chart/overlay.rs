//! Two recordings on one time axis: the same counter of both as two lines, and a moment of each that stands at zero.
//!
//! Always: A is blue and B orange, as shrinkage and growth are in the flame graph of a difference; lines pass through the
//! true extremes of every column; where a recording has not begun or has ended there is no line.

use crate::analysis::Curve;
use crate::base::{Bytes, grouped};
use crate::chart::axis::{Clock, Scale, TimeAxis, decimal_step, duration_label};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::moments::RIGHT_PT;
use crate::chart::series::{Unit, highest, step_points, value_ticks};
use crate::chart::usage::LEFT_PT;
use crate::model::Position;
use std::ops::Range;

/// The ink of what belongs to A.
pub const INK_A: Ink = Ink::Series(0);
/// The ink of what belongs to B.
pub const INK_B: Ink = Ink::Series(4);

/// One of the two recordings.
#[derive(Clone, Copy, Debug)]
pub struct OverlaySide<'a> {
    /// The counter, in bytes.
    pub curve: &'a Curve,
    /// Its own time axis; both count the same.
    pub clock: &'a Clock,
    /// Its moment that stands at zero.
    pub anchor: Position,
    /// Its moment that is compared.
    pub at: Position,
}

impl OverlaySide<'_> {
    fn zero(&self) -> f64 {
        self.clock.unit(self.anchor)
    }
    /// Where it lies on the common axis.
    fn span(&self) -> Range<f64> {
        let (span, zero) = (self.clock.span(), self.zero());
        span.start - zero..span.end - zero
    }
    /// The part of it in a window of the common axis, on its own axis; empty where there is none.
    fn part(&self, window: &Range<f64>) -> Range<f64> {
        let (span, zero) = (self.clock.span(), self.zero());
        (window.start + zero).max(span.start)..(window.end + zero).min(span.end)
    }
    /// Its position at a place of the common axis, if it lies in the recording.
    pub fn position(&self, unit: f64) -> Option<Position> {
        let own = unit + self.zero();
        let span = self.clock.span();
        (span.start <= own && own <= span.end).then(|| self.clock.position(own))
    }
}

/// All that the picture depends on.
#[derive(Clone, Debug)]
pub struct OverlayInput<'a> {
    /// What the lines are.
    pub name: &'a str,
    /// A and B.
    pub sides: [OverlaySide<'a>; 2],
    /// The visible part of the common axis; empty: all of it.
    pub window: Range<f64>,
    /// Whether the time axis is written below.
    pub axis: bool,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points, the key included.
    pub height_pt: f32,
}

const KEY_PT: f32 = 20.0;
const AXIS_PT: f32 = 18.0;

/// All of the common axis.
pub fn whole(sides: &[OverlaySide<'_>; 2]) -> Range<f64> {
    let [a, b] = [sides[0].span(), sides[1].span()];
    a.start.min(b.start)..a.end.max(b.end)
}

/// The scale of the common axis, in points.
pub fn scale(input: &OverlayInput<'_>) -> Scale {
    let window = if input.window.start < input.window.end { input.window.clone() } else { whole(&input.sides) };
    Scale::new(window, LEFT_PT, (input.width_pt - RIGHT_PT).max(LEFT_PT + 10.0))
}

/// Lays out the picture.
pub fn draw(input: &OverlayInput<'_>) -> Drawing {
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let time = scale(input);
    let window = time.from..time.to;
    let below = if input.axis { AXIS_PT } else { 4.0 };
    let plot = Area::new(time.start_pt, KEY_PT, time.end_pt, (input.height_pt - below).max(KEY_PT + 10.0));
    let parts = [0, 1].map(|side| input.sides[side].part(&window));
    let top = (0..2).filter(|side| parts[*side].start < parts[*side].end);
    let top = top.map(|side| highest(input.sides[side].curve, input.sides[side].clock, &parts[side])).max().unwrap_or(0);
    let values = Scale::new(0.0..top.max(1) as f64 * 1.08, plot.y1, plot.y0);
    drawing.push(Shape::Box(plot), Ink::Background);
    for tick in value_ticks(Unit::Bytes, 0.0..values.to, plot.height()) {
        let y = values.point(tick.at);
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let label = [plot.x0 - 6.0, y.clamp(plot.y0 + 5.0, plot.y1 - 4.0)];
        drawing.text(label, Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, Fit::Always);
    }
    for (side, (part, ink)) in input.sides.iter().zip(parts.iter().zip([INK_A, INK_B])) {
        let columns = ((part.end - part.start) / time.units_per_point()).round();
        if columns < 1.0 {
            continue;
        }
        let points = step_points(side.curve, side.clock, part, columns as usize);
        let zero = side.zero();
        let points = points.iter().map(|[unit, value]| [time.point(*unit - zero), values.point(*value)]).collect();
        drawing.push(Shape::Line(points, 1.5), ink);
        let x = time.point(side.clock.unit(side.at) - zero);
        if plot.x0 <= x && x <= plot.x1 {
            drawing.push(Shape::Dashed(vec![[x, plot.y0], [x, plot.y1]], 1.0), ink);
        }
    }
    drawing.push(Shape::Line(vec![[plot.x0, plot.y1], [plot.x1, plot.y1]], 1.0), Ink::SegmentBorder);
    if input.axis {
        draw_axis(&mut drawing, plot, &time, input.sides[0].clock.axis());
    }
    draw_key(&mut drawing, input, plot);
    drawing
}

/// Ticks that count from the moment at zero, to both sides.
fn draw_axis(drawing: &mut Drawing, plot: Area, time: &Scale, axis: TimeAxis) {
    /// Room a label needs, in points.
    const LABEL_PT: f64 = 90.0;
    let step = decimal_step((time.units_per_point() * LABEL_PT).max(1.0));
    let mut at = (time.from / step).ceil() * step;
    while at <= time.to {
        let x = time.point(at);
        drawing.push(Shape::Line(vec![[x, plot.y1], [x, plot.y1 + 4.0]], 1.0), Ink::SegmentBorder);
        let size = at.abs().round() as u64;
        let words = match axis {
            TimeAxis::Events => grouped(size),
            TimeAxis::Time => duration_label(size),
        };
        let label = if at < -0.5 { format!("−{words}") } else { words };
        let (x, anchor) = if plot.x1 - 28.0 < x { (plot.x1 + RIGHT_PT - 2.0, Anchor::RightTop) } else { (x, Anchor::CentreTop) };
        drawing.text([x, plot.y1 + 4.0], anchor, TextSize::Small, label, Ink::AxisText, Fit::Always);
        at += step;
    }
    let name = match axis {
        TimeAxis::Events => "events",
        TimeAxis::Time => "time",
    };
    drawing.text([plot.x0 - 22.0, plot.y1 + 4.0], Anchor::RightTop, TextSize::Small, name, Ink::AxisText, Fit::Always);
}

/// What the lines are, with their values at the compared moments.
fn draw_key(drawing: &mut Drawing, input: &OverlayInput<'_>, plot: Area) {
    const LETTER_PT: f32 = 6.0;
    const LINE_PT: f32 = 16.0;
    let (mut x, y) = (plot.x0, 7.0);
    for (side, (name, ink)) in input.sides.iter().zip([("A", INK_A), ("B", INK_B)]) {
        let words = format!("{} in {name} {}", input.name, Bytes(side.curve.at(side.at)));
        let width = LINE_PT + 6.0 + words.chars().count() as f32 * LETTER_PT + 14.0;
        if plot.x1 < x + width {
            break;
        }
        drawing.push(Shape::Line(vec![[x, y], [x + LINE_PT, y]], 2.0), ink);
        drawing.text([x + LINE_PT + 6.0, y], Anchor::LeftCentre, TextSize::Small, words, Ink::AxisText, Fit::Always);
        x += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_axis_holds_both_and_zero_is_where_they_meet() {
        let (clock_a, clock_b) = (Clock::even(100), Clock::even(40));
        let (curve_a, curve_b) =
            (Curve::from_changes(vec![10], vec![5], Position(100)), Curve::from_changes(vec![30], vec![7], Position(40)));
        let at = Position(40);
        let sides = |a: u32, b: u32| {
            [
                OverlaySide { curve: &curve_a, clock: &clock_a, anchor: Position(a), at },
                OverlaySide { curve: &curve_b, clock: &clock_b, anchor: Position(b), at },
            ]
        };
        assert_eq!(whole(&sides(0, 0)), 0.0..101.0);
        let aligned = sides(10, 30);
        assert_eq!(whole(&aligned), -30.0..91.0);
        assert_eq!(aligned.map(|side| side.position(0.0)), [Some(Position(10)), Some(Position(30))]);
        assert_eq!(aligned.map(|side| side.position(-20.0)), [None, Some(Position(10))]);
        assert_eq!(aligned.map(|side| side.position(60.0)), [Some(Position(70)), None]);
    }
}
