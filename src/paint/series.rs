//! Series as lines of a plot: steps at pixel resolution, markers, a crosshair with exact values.
//!
//! Always: a frame touches pixels, not events (see [`crate::chart::series::step_points`]); the horizontal range is
//! the caller's, so that all pictures over time stand under one another; the vertical one holds what is visible.

use crate::base::grouped;
use crate::chart::axis::{Clock, TimeAxis, duration_label};
use crate::chart::series::{Marker, MarkerKind, Series, Unit, value_ticks};
use crate::chart::{Ink, Palette};
use crate::model::Position;
use crate::paint::colour;
use egui::{Align2, Color32, Id, Rect, Response, Sense, Stroke, TextStyle, Ui, Vec2};
use egui_plot::{GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoint, PlotPoints, Span, Text, VLine};
use std::collections::BTreeSet;
use std::ops::Range;

/// A plot of series of one unit.
#[derive(Clone, Debug)]
pub struct SeriesView<'a> {
    /// Names the plot among others.
    pub id: Id,
    /// The series; those of another unit than `unit` are left out.
    pub series: &'a [Series<'a>],
    /// The unit of the vertical axis.
    pub unit: Unit,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// The visible window in units of the clock; empty: the whole trace.
    pub time: Range<f64>,
    /// Failures, snapshots and the like, by position.
    pub markers: &'a [Marker],
    /// A value to draw a line at, with its colour; left out where it is far above everything else.
    pub level: Option<(u64, Ink)>,
    /// Whether the horizontal axis has labels: of plots one above the other the lowest has.
    pub labels: bool,
    /// Where the pointer is on a plot with the same horizontal axis, in units of the clock.
    pub pointer: Option<f64>,
    /// The moment the other views show.
    pub cursor: Option<Position>,
    /// A selected stretch of time.
    pub range: Option<Range<Position>>,
    /// Names of series that are not drawn; the caller's legend decides.
    pub hidden: &'a BTreeSet<&'static str>,
    /// Light or dark.
    pub palette: Palette,
    /// Size in points, axes included.
    pub size: Vec2,
}

/// What the pointer did on a plot.
#[derive(Clone, Debug)]
pub struct SeriesResponse {
    /// Of the plot without its axes: click, drag, hover.
    pub response: Response,
    /// Where the plot lies without its axes.
    pub plot: Rect,
    /// Clock units under the pointer, where it is on the plot.
    pub pointer_unit: Option<f64>,
}

/// Width of the value axis, the same in every plot so that plots stand exactly under one another.
pub const VALUE_AXIS_PT: f32 = 68.0;
/// Room at the right, so that the last label is not cut.
pub const RIGHT_PT: f32 = 14.0;
/// From so near the pointer tells what a marker is, in points.
const NEAR_PT: f64 = 4.0;
/// Most markers drawn; those of one pixel are one.
const MOST_MARKERS: usize = 500;
/// Where spans begin nearer together, their marks are as faint as the grid.
const CROWDED_PT: f32 = 24.0;
/// Height of the labels of the horizontal axis.
pub const LABELS_PT: f32 = 20.0;

/// Shows a plot.
pub fn show(ui: &mut Ui, view: &SeriesView<'_>) -> SeriesResponse {
    let span = view.clock.span();
    let time = if view.time.start < view.time.end { view.time.clone() } else { span };
    let series: Vec<&Series<'_>> = view.series.iter().filter(|series| series.unit == view.unit).collect();
    let is_hidden = |series: &Series<'_>| view.hidden.contains(series.name);
    let visible: Vec<&Series<'_>> = series.iter().copied().filter(|series| !is_hidden(series)).collect();
    let top = visible.iter().map(|series| series.highest(view.clock, &time)).max().unwrap_or(0) as f64;
    // A level not far above everything else is worth showing to scale.
    let level = view.level.filter(|(value, _)| !visible.is_empty() && *value as f64 <= top * 1.5);
    let top = level.map_or(top, |(value, _)| top.max(value as f64));
    let bounds = 0.0..top_of_axis(view.unit, top);
    let (clock, unit, palette) = (view.clock, view.unit, view.palette);
    let (width, height) =
        ((view.size.x - VALUE_AXIS_PT - RIGHT_PT).max(1.0), (view.size.y - if view.labels { LABELS_PT } else { 0.0 }).max(1.0));
    let columns = (width * ui.ctx().pixels_per_point()).ceil() as usize;
    let near_units = NEAR_PT * (time.end - time.start) / f64::from(width);
    let paper = ui.painter().add(egui::Shape::Noop);
    let from = view.markers.partition_point(|marker| clock.unit(marker.position) < time.start - near_units);
    let to = view.markers.partition_point(|marker| clock.unit(marker.position) <= time.end + near_units);
    let seen = &view.markers[from..to.max(from)];
    let crosshair = |hover: &HoverPosition<'_>| {
        let (HoverPosition::NearDataPoint { position, .. } | HoverPosition::Elsewhere { position }) = hover;
        let near = |marker: &&Marker| (clock.unit(marker.position) - position.x).abs() <= near_units;
        let marker = seen.iter().find(near).map(|marker| marker.name.as_str());
        Some(values_at(&visible, clock, position.x, marker))
    };
    let (mut x_ticks, y_ticks) = (clock.ticks(time.clone(), width), value_ticks(unit, bounds.clone(), height * 1.05));
    // A label that would be cut at the right is left out; its line stays.
    let font = TextStyle::Body.resolve(ui.style());
    for tick in x_ticks.iter_mut().rev().take(1) {
        let half = ui.painter().layout_no_wrap(tick.label.clone(), font.clone(), Color32::PLACEHOLDER).size().x / 2.0;
        let at = (tick.at - time.start) / (time.end - time.start) * f64::from(width);
        if f64::from(width + RIGHT_PT) < at + f64::from(half) {
            tick.label.clear();
        }
    }
    let marks = |ticks: &[crate::chart::Tick]| {
        let step = ticks.windows(2).map(|pair| pair[1].at - pair[0].at).next().unwrap_or(1.0);
        ticks.iter().map(|tick| GridMark { value: tick.at, step_size: step }).collect::<Vec<_>>()
    };
    let label = |ticks: &[crate::chart::Tick], mark: GridMark| {
        ticks.iter().find(|tick| tick.at == mark.value).map(|tick| tick.label.clone()).unwrap_or_default()
    };
    let (x_marks, y_marks) = (marks(&x_ticks), marks(&y_ticks));
    let plot = Plot::new(view.id)
        .id(view.id)
        .width((view.size.x - RIGHT_PT).max(1.0))
        .height(view.size.y)
        .sense(Sense::click_and_drag())
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .allow_axis_zoom_drag(false)
        .set_margin_fraction(Vec2::ZERO)
        .y_axis_min_width(VALUE_AXIS_PT)
        .show_axes([view.labels, true])
        .show_background(false)
        .grid_color(colour(palette, Ink::Grid))
        .cursor_color(colour(palette, Ink::WeakText))
        .x_grid_spacer(move |_| x_marks.clone())
        .y_grid_spacer(move |_| y_marks.clone())
        .x_axis_formatter(move |mark, _| label(&x_ticks, mark))
        .y_axis_formatter(move |mark, _| label(&y_ticks, mark))
        .label_formatter(crosshair);
    let shown = plot.show(ui, |plot| {
        plot.set_plot_bounds_x(time.start..=time.end);
        plot.set_plot_bounds_y(bounds.start..=bounds.end);
        if let Some(range) = view.range.as_ref().filter(|range| range.start < range.end) {
            let (from, to) = (clock.unit(range.start).max(time.start), clock.unit(range.end).min(time.end));
            if from < to {
                plot.span(Span::new("", from..=to).fill(colour(palette, Ink::Range)).border_width(0.0));
            }
        }
        for series in &visible {
            let points = series.points(clock, &time, columns);
            let line = Line::new(series.name, PlotPoints::from(points))
                .id((series.name, series.group))
                .allow_hover(false)
                .allow_band(false);
            plot.line(line.color(colour(palette, series.ink)).width(1.5));
        }
        if let Some((value, ink)) = level {
            let stroke = Stroke::new(1.5, colour(palette, ink));
            plot.hline(
                HLine::new("", value as f64).id("level").stroke(stroke).allow_hover(false).style(LineStyle::dashed_dense()),
            );
        }
        let pixel = (time.end - time.start) / columns as f64;
        let mut last = f64::NEG_INFINITY;
        let mut drawn = 0;
        // Spans by the dozen would hide the lines.
        let is_span = |marker: &&Marker| marker.kind == MarkerKind::Annotation;
        let crowded = width < CROWDED_PT * seen.iter().filter(is_span).count() as f32;
        for (row, marker) in seen.iter().enumerate() {
            let x = clock.unit(marker.position);
            if x < time.start || time.end < x || x < last + pixel * 3.0 || MOST_MARKERS <= drawn {
                continue;
            }
            (last, drawn) = (x, drawn + 1);
            let ink = if crowded && is_span(&marker) { Ink::Grid } else { marker.kind.ink() };
            let stroke = Stroke::new(1.0, colour(palette, ink));
            plot.vline(VLine::new("", x).id(("marker", row)).stroke(stroke).allow_hover(false).style(LineStyle::dashed_dense()));
        }
        if let Some(cursor) = view.cursor {
            let stroke = Stroke::new(1.5, colour(palette, Ink::Cursor));
            plot.vline(VLine::new("", clock.unit(cursor)).id("cursor").stroke(stroke).allow_hover(false));
        }
        if let Some(pointer) = view.pointer.filter(|at| time.contains(at)) {
            let stroke = Stroke::new(1.0, colour(palette, Ink::WeakText));
            plot.vline(VLine::new("", pointer).id("pointer").stroke(stroke).allow_hover(false));
        }
        if visible.is_empty() {
            let centre = PlotPoint::new((time.start + time.end) / 2.0, bounds.end / 2.0);
            let words = if series.is_empty() {
                "Nothing of this kind was recorded."
            } else {
                "All series are hidden: click one in the legend to see it."
            };
            plot.text(
                Text::new("", centre, words).id("empty").color(colour(palette, Ink::WeakText)).anchor(Align2::CENTER_CENTER),
            );
        }
        plot.pointer_coordinate()
    });
    let frame = *shown.transform.frame();
    ui.painter().set(paper, egui::Shape::rect_filled(frame, 0.0, colour(palette, Ink::Background)));
    let pointer_unit = shown.inner.filter(|_| shown.response.contains_pointer()).map(|point| point.x);
    SeriesResponse { response: shown.response, plot: frame, pointer_unit }
}

/// A little above the highest value, so that its line is not cut; never an empty range.
fn top_of_axis(unit: Unit, top: f64) -> f64 {
    match unit {
        Unit::Bytes | Unit::ByteRate(_) => (top * 1.06).max(1024.0),
        Unit::Count | Unit::CountRate(_) => (top * 1.06).max(4.0),
        Unit::Micros => (top * 1.06).max(10.0),
        Unit::Share => (top * 1.06).clamp(100_000.0, 1_040_000.0),
    }
}

/// What stands beside the pointer: the moment, then every visible series with its exact value.
fn values_at(visible: &[&Series<'_>], clock: &Clock, unit: f64, marker: Option<&str>) -> String {
    let position = clock.position(unit);
    let mut text = match position.event() {
        None => "before the first event".to_owned(),
        Some(event) => format!("event {}", grouped(u64::from(event.0))),
    };
    if clock.axis() == TimeAxis::Time {
        text = format!("{}, {text}", duration_label(clock.unit(position) as u64));
    }
    if let Some(marker) = marker {
        text = format!("{text}\n{marker}");
    }
    for series in visible {
        let name = series.label.as_deref().unwrap_or(series.name);
        text = format!("{text}\n{name}  {}", series.label_at(clock, unit));
    }
    text
}
