//! Memory over time: stacked live allocations, the reserved line above them, what the whole device held, failures, spans,
//! the cursor.
//!
//! Always: what stands in a pixel column is the moment of its highest `active`; reserved is the true maximum
//! of the column. The stack itself is a raster made elsewhere ([`crate::raster::StackRaster`]); the drawing
//! places the rasters that are finished, moved and scaled to the window one sees.

use crate::analysis::{Curve, DeviceLook, DeviceUse, UsageTimeline};
use crate::base::Bytes;
use crate::chart::axis::{Clock, Scale, byte_ticks};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, RasterSlot, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::moments::{self, Moments, RIGHT_PT};
use crate::chart::spans;
use crate::model::{DeviceMemory, Item, Position, Snapshot};
use crate::raster::{RasterView, StackOutline};
use std::ops::Range;

/// A finished raster and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRaster {
    /// Which texture it is.
    pub slot: RasterSlot,
    /// What it was rastered for, in units of the clock it was made with (the drawing's clock).
    pub time: Range<f64>,
    /// Bytes at its lower and upper edge.
    pub bytes: Range<f64>,
}

/// All that the usage picture depends on.
#[derive(Clone, Debug)]
pub struct UsageInput<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device's memory.
    pub memory: &'a DeviceMemory,
    /// Its curves.
    pub usage: &'a UsageTimeline,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points, overview included.
    pub height_pt: f32,
    /// Whether the overview of the whole trace stands below.
    pub overview: bool,
    /// The visible window in units of the clock; empty: the whole trace.
    pub time: Range<f64>,
    /// Visible bytes; empty: from zero to a little above the highest reserved in the window.
    pub bytes: Range<f64>,
    /// Finished rasters, the lowest first.
    pub rasters: &'a [PlacedRaster],
    /// The most the allocator could have held in bytes, where known.
    pub capacity: Option<u64>,
    /// What the whole device held, where somebody looked.
    pub device: Option<&'a DeviceUse>,
    /// The moment the other views show.
    pub cursor: Option<Position>,
    /// A selected range.
    pub range: Option<Range<Position>>,
    /// Marks the user set, with their letters.
    pub marks: &'a [(char, Position)],
    /// Outlines of selected allocations.
    pub selected: &'a [StackOutline],
    /// Outline of the hovered allocation.
    pub hovered: Option<&'a StackOutline>,
    /// What is selected otherwise: an event gets a mark on the axis.
    pub selected_item: Option<Item>,
    /// Row of the span the pointer is on.
    pub hovered_span: Option<usize>,
}

/// Where the parts of the usage picture lie, and its axes: maps the pointer to moment and bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageFrame {
    /// The plot itself.
    pub plot: Area,
    /// The rows of spans; of no height where there are none.
    pub spans: Area,
    /// The overview; of no height where it is switched off.
    pub overview: Area,
    /// Clock units along the plot.
    pub time: Scale,
    /// Bytes up the plot.
    pub bytes: Scale,
    /// Clock units along the overview.
    pub overview_time: Scale,
}

/// Room for the byte labels at the left.
pub(crate) const LEFT_PT: f32 = 68.0;
/// Room above the plot, for the heads of marks.
const TOP_PT: f32 = 14.0;
/// Height of the axis labels.
const AXIS_PT: f32 = 18.0;
/// Height of the overview, and the gap above it.
const OVERVIEW_PT: f32 = 36.0;
const OVERVIEW_GAP_PT: f32 = 6.0;

/// Lays out the parts.
pub fn frame(input: &UsageInput<'_>) -> UsageFrame {
    let (left, right) = (LEFT_PT, (input.width_pt - RIGHT_PT).max(LEFT_PT + 10.0));
    let spans_height = spans::height_pt(input.clock, input.height_pt);
    let overview_height = if input.overview { OVERVIEW_PT + OVERVIEW_GAP_PT } else { 0.0 };
    let bottom = (input.height_pt - AXIS_PT - spans_height - overview_height).max(TOP_PT + 10.0);
    let spans_top = bottom + AXIS_PT;
    let overview_top = spans_top + spans_height + OVERVIEW_GAP_PT;
    let overview_bottom = if input.overview { overview_top + OVERVIEW_PT } else { overview_top };
    let window = visible_time(input);
    UsageFrame {
        plot: Area::new(left, TOP_PT, right, bottom),
        spans: Area::new(left, spans_top, right, spans_top + spans_height),
        overview: Area::new(left, overview_top, right, overview_bottom),
        bytes: Scale::new(visible_bytes(input, window.clone()), bottom, TOP_PT),
        time: Scale::new(window, left, right),
        overview_time: Scale::new(input.clock.span(), left, right),
    }
}

/// What to ask the raster for so that it fills the plot at a density of pixels, and where the result goes.
pub fn wanted_raster(input: &UsageInput<'_>, pixels_per_point: f32) -> (RasterView, PlacedRaster) {
    let frame = frame(input);
    let pixels = |points: f32| (points * pixels_per_point).round().clamp(1.0, 8192.0) as usize;
    let (time, bytes) = (frame.time.from..frame.time.to, frame.bytes.from..frame.bytes.to);
    let view = RasterView {
        columns: input.clock.columns(time.clone(), pixels(frame.plot.width())),
        bytes: bytes.clone(),
        height: pixels(frame.plot.height()),
    };
    (view, PlacedRaster { slot: RasterSlot::Window, time, bytes })
}

/// Lays out the picture.
pub fn draw(input: &UsageInput<'_>) -> Drawing {
    let frame = frame(input);
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let plot = frame.plot;
    // One column a point: the lines are as sharp as an eye resolves, and the marks stay few.
    let columns = input.clock.columns(frame.time.from..frame.time.to, plot.width().round().max(1.0) as usize);
    drawing.push(Shape::Box(plot), Ink::Background);
    draw_byte_axis(&mut drawing, &frame);
    if input.rasters.is_empty() {
        let tops = columns.windows(2).map(|ends| frame.bytes.point(input.usage.active.max_in(ends[0], ends[1]).1 as f64));
        let tops = tops.map(|top| top.clamp(plot.y0, plot.y1)).collect();
        let step = plot.width() / (columns.len() - 1).max(1) as f32;
        drawing.push(Shape::Columns { x0: plot.x0, step, base: plot.y1, tops }, Ink::Usage);
    }
    for raster in input.rasters {
        moments::place_raster(&mut drawing, plot, &frame.time, &frame.bytes, raster);
    }
    let shown = moments(input);
    shown.draw_range(&mut drawing, plot, &frame.time);
    let reserved = curve_line(&input.usage.reserved, &columns, plot, |bytes| frame.bytes.point(bytes as f64));
    drawing.push(Shape::Line(reserved, 1.5), Ink::Reserved);
    draw_device(&mut drawing, input, &frame);
    draw_capacity(&mut drawing, input, &frame);
    draw_key(&mut drawing, input, &frame);
    draw_outlines(&mut drawing, input, &frame, &columns);
    shown.draw_time_axis(&mut drawing, plot, &frame.time);
    spans::draw(&mut drawing, input.snapshot, input.clock, frame.spans, &frame.time, input.hovered_span);
    if input.overview {
        draw_overview(&mut drawing, input, &frame);
    }
    shown.draw_ooms(&mut drawing, plot, &frame.time);
    shown.draw_moments(&mut drawing, plot, &frame.time);
    drawing
}

fn moments<'a>(input: &UsageInput<'a>) -> Moments<'a> {
    Moments {
        trace: &input.memory.trace,
        clock: input.clock,
        cursor: input.cursor,
        range: input.range.clone(),
        marks: input.marks,
        selected_item: input.selected_item,
    }
}

fn visible_time(input: &UsageInput<'_>) -> Range<f64> {
    if input.time.start < input.time.end { input.time.clone() } else { input.clock.span() }
}

fn visible_bytes(input: &UsageInput<'_>, window: Range<f64>) -> Range<f64> {
    if input.bytes.start < input.bytes.end {
        return input.bytes.clone();
    }
    let (from, to) = (input.clock.position(window.start), Position(input.clock.position(window.end).0.saturating_add(1)));
    let highest = input.usage.reserved.max_in(from, to).1.max(input.usage.active.max_in(from, to).1) as f64;
    // A tenth of headroom holds the key; a capacity not far above is worth showing to scale, and so is the device.
    let device = device_points(input, &window).map(|point| point.1).max();
    let near = [input.capacity, device].into_iter().flatten().map(|bytes| bytes as f64).filter(|bytes| *bytes <= highest * 1.5);
    let top = near.fold(highest, f64::max) * 1.12;
    0.0..top.max(1024.0)
}

/// The looks at the device in a window, as axis units and bytes, the last one before it at its beginning.
fn device_points<'a>(input: &'a UsageInput<'_>, window: &Range<f64>) -> impl Iterator<Item = (f64, u64)> + 'a {
    let looks = input.device.map_or(&[][..], DeviceUse::looks);
    let units = |look: &DeviceLook| input.clock.unit_at(look.time_us, look.position);
    let (from, to) = (window.start, window.end);
    let first = looks.partition_point(|look| units(look) <= from).saturating_sub(1);
    let behind = looks.partition_point(|look| units(look) < to);
    looks[first.min(behind)..behind].iter().map(move |look| (units(look).max(from), look.used))
}

/// The line of what the whole device held: between looks as at the last one, in each point of width the most.
fn draw_device(drawing: &mut Drawing, input: &UsageInput<'_>, frame: &UsageFrame) {
    let plot = frame.plot;
    let mut line: Vec<[f32; 2]> = Vec::new();
    let mut now = None;
    for (unit, used) in device_points(input, &(frame.time.from..frame.time.to)) {
        let (x, y) = (frame.time.point(unit).clamp(plot.x0, plot.x1), frame.bytes.point(used as f64).clamp(plot.y0, plot.y1));
        match line.last_mut() {
            // Looks that share a point of width show as their highest.
            Some(last) if x - last[0] < 1.0 => last[1] = last[1].min(y),
            Some(last) => {
                let [x0, before] = *last;
                let before = now.unwrap_or(before);
                line.extend([[x0, before], [x, before], [x, y]]);
            }
            None => line.push([x, y]),
        }
        now = Some(y);
    }
    if let Some(y) = now {
        line.push([plot.x1, y]);
        drawing.push(Shape::Line(line, 1.5), Ink::DeviceUse);
    }
}

fn draw_byte_axis(drawing: &mut Drawing, frame: &UsageFrame) {
    let plot = frame.plot;
    for tick in byte_ticks(frame.bytes.from..frame.bytes.to, plot.height()) {
        let y = frame.bytes.point(tick.at);
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let label = [plot.x0 - 6.0, y.clamp(plot.y0 + 5.0, plot.y1 - 4.0)];
        drawing.text(label, Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, Fit::Always);
    }
}

/// The maxima of a curve as a line of steps, cut to an area; runs of equal height are one step.
fn curve_line(curve: &Curve, columns: &[Position], area: Area, y: impl Fn(u64) -> f32) -> Vec<[f32; 2]> {
    let step = area.width() / (columns.len() - 1).max(1) as f32;
    let mut line: Vec<[f32; 2]> = Vec::new();
    for (column, ends) in columns.windows(2).enumerate() {
        let height = y(curve.max_in(ends[0], ends[1]).1).clamp(area.y0, area.y1);
        let (left, right) = (area.x0 + step * column as f32, area.x0 + step * (column + 1) as f32);
        match line.last_mut() {
            Some(last) if last[1] == height => last[0] = right,
            _ => line.extend([[left, height], [right, height]]),
        }
    }
    line
}

fn draw_capacity(drawing: &mut Drawing, input: &UsageInput<'_>, frame: &UsageFrame) {
    let Some(capacity) = input.capacity else { return };
    let (plot, y) = (frame.plot, frame.bytes.point(capacity as f64));
    if plot.y0 <= y && y <= plot.y1 {
        drawing.push(Shape::Dashed(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Capacity);
    }
}

/// What the lines mean, in the headroom.
fn draw_key(drawing: &mut Drawing, input: &UsageInput<'_>, frame: &UsageFrame) {
    // A letter of the small size is about this wide; the key only has to stay clear of the edges.
    const LETTER_PT: f32 = 5.4;
    const LINE_PT: f32 = 16.0;
    let plot = frame.plot;
    let y = plot.y0 + 8.0;
    let reserved = format!("reserved, at most {}", Bytes(input.usage.reserved.peak().1));
    let mut entries = vec![(reserved, Ink::Reserved)];
    // Of segments that nothing tells of there is no sum.
    if !input.memory.tells_segments() {
        entries.clear();
    }
    if let Some(peak) = input.device.and_then(DeviceUse::peak) {
        entries.push((format!("whole device, at most {}", Bytes(peak)), Ink::DeviceUse));
    }
    if let Some(capacity) = input.capacity {
        entries.push((format!("most the allocator could hold, {}", Bytes(capacity)), Ink::Capacity));
    }
    let width = |text: &String| LINE_PT + 6.0 + text.chars().count() as f32 * LETTER_PT + 12.0;
    if entries.is_empty() {
        return;
    }
    while plot.width() < entries.iter().map(|(text, _)| width(text)).sum::<f32>() + 24.0 || plot.height() < 80.0 {
        if entries.pop().is_none() {
            return;
        }
    }
    let total: f32 = entries.iter().map(|(text, _)| width(text)).sum();
    // At the right, where curves that grow leave room too late; at the left while the cursor stands there.
    let beside_cursor = input.cursor.is_some_and(|cursor| plot.x1 - total - 30.0 < frame.time.point(input.clock.unit(cursor)));
    let mut x = if beside_cursor { plot.x0 + 8.0 } else { plot.x1 - total };
    for (text, ink) in entries {
        let (line, after) = (vec![[x, y], [x + LINE_PT, y]], x + width(&text));
        drawing.push(if ink == Ink::Capacity { Shape::Dashed(line, 1.5) } else { Shape::Line(line, 1.5) }, ink);
        drawing.text([x + LINE_PT + 6.0, y], Anchor::LeftCentre, TextSize::Small, text, Ink::AxisText, Fit::Always);
        x = after;
    }
}

fn draw_outlines(drawing: &mut Drawing, input: &UsageInput<'_>, frame: &UsageFrame, columns: &[Position]) {
    let selected = input.selected.iter().map(|outline| (outline, Ink::Selected, 2.0));
    let hovered = input.hovered.iter().map(|outline| (*outline, Ink::Hovered, 1.0));
    let moments: Vec<Position> = if input.selected.is_empty() && input.hovered.is_none() {
        return;
    } else {
        columns.windows(2).map(|ends| input.usage.active.max_in(ends[0], ends[1]).0).collect()
    };
    for (outline, ink, width) in selected.chain(hovered) {
        let line = outline_line(outline, &moments, input, frame);
        if !line.is_empty() {
            drawing.push_item(Shape::Line(line, width), ink, Some(Item::Allocation(outline.id)));
        }
    }
}

/// The true outline of an allocation in the stack over the visible columns; for one so brief that no column shows
/// it, a stroke at its birth.
fn outline_line(outline: &StackOutline, moments: &[Position], input: &UsageInput<'_>, frame: &UsageFrame) -> Vec<[f32; 2]> {
    let plot = frame.plot;
    let step = plot.width() / moments.len().max(1) as f32;
    let y = |bytes: u64| frame.bytes.point(bytes as f64).clamp(plot.y0, plot.y1);
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    for (column, moment) in moments.iter().enumerate() {
        let Some(offset) = outline.offset(*moment) else { continue };
        let (left, right) = (plot.x0 + step * column as f32, plot.x0 + step * (column + 1) as f32);
        let (low, high) = (y(offset), y(offset.saturating_add(outline.size)));
        for (side, height) in [(&mut lower, low), (&mut upper, high)] {
            match side.last_mut() {
                Some(last) if *last == [left, height] => *last = [right, height],
                _ => side.extend([[left, height], [right, height]]),
            }
        }
    }
    if lower.is_empty() {
        let x = frame.time.point(input.clock.unit(outline.born));
        let Some((_, offset)) = outline.steps.first().filter(|_| plot.x0 <= x && x <= plot.x1) else { return Vec::new() };
        return vec![[x, y(*offset)], [x, y(offset.saturating_add(outline.size)).min(y(*offset) - 2.0)]];
    }
    lower.extend(upper.into_iter().rev());
    lower.push(lower[0]);
    lower
}

fn draw_overview(drawing: &mut Drawing, input: &UsageInput<'_>, frame: &UsageFrame) {
    let area = frame.overview;
    let columns = input.clock.columns(input.clock.span(), area.width().round().max(1.0) as usize);
    let highest = input.usage.reserved.peak().1.max(input.usage.active.peak().1).max(1);
    let y = |bytes: u64| area.y1 - area.height() * (bytes as f64 / highest as f64) as f32;
    drawing.push(Shape::Box(area), Ink::Background);
    let tops = columns.windows(2).map(|ends| y(input.usage.active.max_in(ends[0], ends[1]).1)).collect();
    let step = area.width() / (columns.len() - 1).max(1) as f32;
    drawing.push(Shape::Columns { x0: area.x0, step, base: area.y1, tops }, Ink::Usage);
    drawing.push(Shape::Line(curve_line(&input.usage.reserved, &columns, area, y), 1.0), Ink::Reserved);
    let at = |unit: f64| frame.overview_time.point(unit).clamp(area.x0, area.x1);
    for event in input.memory.trace.ooms().iter().take(500) {
        let x = at(input.clock.unit(Position::after(*event)));
        drawing.push_item(Shape::Line(vec![[x, area.y0], [x, area.y1]], 1.0), Ink::Oom, Some(Item::Event(*event)));
    }
    let (x0, x1) = (at(frame.time.from), at(frame.time.to));
    drawing.push(Shape::Box(Area::new(area.x0, area.y0, x0, area.y1)), Ink::Shade);
    drawing.push(Shape::Box(Area::new(x1, area.y0, area.x1, area.y1)), Ink::Shade);
    drawing.push(Shape::Outline(Area::new(x0, area.y0, x1.max(x0 + 2.0), area.y1), 1.0), Ink::WeakText);
    if let Some(cursor) = input.cursor {
        let x = at(input.clock.unit(cursor));
        drawing.push(Shape::Line(vec![[x, area.y0], [x, area.y1]], 1.0), Ink::Cursor);
    }
}
