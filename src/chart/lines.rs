//! Counters over time as lines on paper: the same series as the window's charts, with their values written out.
//!
//! Always: lines pass through the true extremes of every column; the plot stands exactly under the usage picture of
//! the same width; the key names every line with its value at the moment.

use crate::base::Bytes;
use crate::chart::axis::{Clock, Scale};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::moments::{Moments, RIGHT_PT};
use crate::chart::series::{Series, Unit, value_ticks};
use crate::chart::usage::LEFT_PT;
use crate::model::{DeviceMemory, Position};
use std::ops::Range;

/// All that the picture depends on.
#[derive(Clone, Debug)]
pub struct LinesInput<'a> {
    /// The lines, of one unit, the lowest first.
    pub series: &'a [Series<'a>],
    /// Their unit.
    pub unit: Unit,
    /// The device.
    pub memory: &'a DeviceMemory,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// The visible window in units of the clock; empty: the whole trace.
    pub time: Range<f64>,
    /// The moment that is told about.
    pub cursor: Option<Position>,
    /// A value to compare with, and what it is: a request that failed.
    pub level: Option<(u64, &'a str)>,
    /// Whether the time axis is written below; left out where another plot stands under this one.
    pub axis: bool,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points, the key included.
    pub height_pt: f32,
}

/// Height of the key above the plot.
const KEY_PT: f32 = 20.0;
/// Height of the axis labels.
const AXIS_PT: f32 = 18.0;

/// Lays out the picture.
pub fn draw(input: &LinesInput<'_>) -> Drawing {
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let below = if input.axis { AXIS_PT } else { 4.0 };
    let right = (input.width_pt - RIGHT_PT).max(LEFT_PT + 10.0);
    let plot = Area::new(LEFT_PT, KEY_PT, right, (input.height_pt - below).max(KEY_PT + 10.0));
    let span = if input.time.start < input.time.end { input.time.clone() } else { input.clock.span() };
    let time = Scale::new(span.clone(), plot.x0, plot.x1);
    let top = input.series.iter().map(|series| series.highest(input.clock, &span)).max().unwrap_or(0);
    let top = top.max(input.level.map_or(0, |(value, _)| value)).max(1) as f64 * 1.08;
    let values = Scale::new(0.0..top, plot.y1, plot.y0);
    drawing.push(Shape::Box(plot), Ink::Background);
    for tick in value_ticks(input.unit, 0.0..top, plot.height()) {
        let y = values.point(tick.at);
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let label = [plot.x0 - 6.0, y.clamp(plot.y0 + 5.0, plot.y1 - 4.0)];
        drawing.text(label, Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, Fit::Always);
    }
    for series in input.series {
        // A column a point: as sharp as an eye resolves.
        let points = series.points(input.clock, &span, plot.width().round().max(1.0) as usize);
        let points = points.iter().map(|[unit, value]| [time.point(*unit), values.point(*value)]).collect();
        drawing.push(Shape::Line(points, 1.5), series.ink);
    }
    if let Some((value, _)) = input.level {
        let y = values.point(value as f64);
        drawing.push(Shape::Dashed(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Oom);
    }
    let moments = Moments {
        trace: &input.memory.trace,
        clock: input.clock,
        cursor: input.cursor,
        range: None,
        marks: &[],
        selected_item: None,
    };
    if input.axis {
        moments.draw_time_axis(&mut drawing, plot, &time);
    } else {
        drawing.push(Shape::Line(vec![[plot.x0, plot.y1], [plot.x1, plot.y1]], 1.0), Ink::SegmentBorder);
    }
    moments.draw_moments(&mut drawing, plot, &time);
    draw_key(&mut drawing, input, plot);
    drawing
}

/// What the lines mean, above the plot, with their values at the moment.
fn draw_key(drawing: &mut Drawing, input: &LinesInput<'_>, plot: Area) {
    // A letter of the small size is at most about this wide.
    const LETTER_PT: f32 = 6.0;
    const LINE_PT: f32 = 16.0;
    let y = 7.0;
    let mut entries: Vec<(String, Ink)> = Vec::new();
    for series in input.series {
        let value = input.cursor.map(|at| series.value_at(input.clock, input.clock.unit(at)));
        let words = match (value, input.unit) {
            (Some(bytes), Unit::Bytes) => format!("{} {}", series.name, Bytes(bytes)),
            (Some(_), _) => format!(
                "{} {}",
                series.name,
                input.cursor.map_or(String::new(), |at| series.label_at(input.clock, input.clock.unit(at)))
            ),
            (None, _) => series.name.to_owned(),
        };
        entries.push((words, series.ink));
    }
    if let Some((value, name)) = input.level {
        entries.push((format!("{name} {}", Bytes(value)), Ink::Oom));
    }
    let mut x = plot.x0;
    for (words, ink) in entries {
        let width = LINE_PT + 6.0 + words.chars().count() as f32 * LETTER_PT + 14.0;
        if plot.x1 < x + width {
            break;
        }
        let line = vec![[x, y], [x + LINE_PT, y]];
        drawing.push(if ink == Ink::Oom { Shape::Dashed(line, 1.5) } else { Shape::Line(line, 2.0) }, ink);
        drawing.text([x + LINE_PT + 6.0, y], Anchor::LeftCentre, TextSize::Small, words, Ink::AxisText, Fit::Always);
        x += width;
    }
}
