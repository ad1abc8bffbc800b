//! What all pictures over time share: the time axis, failures, marks, the cursor, a selected range, rasters in place.
//!
//! Always: a moment stands at the same place in every picture of the same clock and window.

use crate::chart::axis::{Clock, Scale, TimeAxis};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::usage::PlacedRaster;
use crate::model::{Item, Position, Trace};
use std::ops::Range;

/// Room at the right of a plot, so that the last label is not cut.
pub(crate) const RIGHT_PT: f32 = 14.0;

/// The moments a picture shows.
#[derive(Clone, Debug)]
pub(crate) struct Moments<'a> {
    /// Whose failures are shown.
    pub trace: &'a Trace,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// The moment the other views show.
    pub cursor: Option<Position>,
    /// A selected range.
    pub range: Option<Range<Position>>,
    /// Marks the user set, with their letters.
    pub marks: &'a [(char, Position)],
    /// An event that is selected gets a mark on the axis.
    pub selected_item: Option<Item>,
}

impl Moments<'_> {
    /// The axis below a plot.
    pub fn draw_time_axis(&self, drawing: &mut Drawing, plot: Area, time: &Scale) {
        drawing.push(Shape::Line(vec![[plot.x0, plot.y1], [plot.x1, plot.y1]], 1.0), Ink::SegmentBorder);
        for tick in self.clock.ticks(time.from..time.to, plot.width()) {
            let x = time.point(tick.at);
            if x < plot.x0 - 0.5 || plot.x1 + 0.5 < x {
                continue;
            }
            drawing.push(Shape::Line(vec![[x, plot.y1], [x, plot.y1 + 4.0]], 1.0), Ink::SegmentBorder);
            // A label is centred under its tick unless the drawing's edge would cut it.
            let (at, anchor) =
                if plot.x1 - 28.0 < x { (plot.x1 + RIGHT_PT - 2.0, Anchor::RightTop) } else { (x, Anchor::CentreTop) };
            drawing.text([at, plot.y1 + 4.0], anchor, TextSize::Small, tick.label, Ink::AxisText, Fit::Always);
        }
        let name = match self.clock.axis() {
            TimeAxis::Events => "event",
            TimeAxis::Time => "time",
        };
        drawing.text([plot.x0 - 22.0, plot.y1 + 4.0], Anchor::RightTop, TextSize::Small, name, Ink::AxisText, Fit::Always);
    }
    /// The selected range as a shade.
    pub fn draw_range(&self, drawing: &mut Drawing, plot: Area, time: &Scale) {
        if let Some(range) = &self.range {
            let (x0, x1) = (time.point(self.clock.unit(range.start)), time.point(self.clock.unit(range.end)));
            let area = Area::new(x0, plot.y0, x1.max(x0 + 1.0), plot.y1).intersect(plot);
            drawing.push(Shape::Box(area), Ink::Range);
        }
    }
    /// Failures: a line through the plot with a head; those closer than a head are one.
    pub fn draw_ooms(&self, drawing: &mut Drawing, plot: Area, time: &Scale) {
        let mut last = f32::NEG_INFINITY;
        for event in self.trace.ooms() {
            let x = time.point(self.clock.unit(Position::after(*event)));
            if x < plot.x0 || plot.x1 < x || x < last + 3.0 {
                continue;
            }
            last = x;
            let item = Some(Item::Event(*event));
            drawing.push_item(Shape::Line(vec![[x, plot.y0], [x, plot.y1]], 1.0), Ink::Oom, item);
            let head = [[x - 5.0, plot.y0 - 9.0], [x + 5.0, plot.y0 - 9.0], [x, plot.y0]];
            drawing.push_item(Shape::Triangle(head), Ink::Oom, item);
        }
    }
    /// A selected event, the user's marks and the cursor.
    pub fn draw_moments(&self, drawing: &mut Drawing, plot: Area, time: &Scale) {
        let place = |position: Position| {
            let x = time.point(self.clock.unit(position));
            (plot.x0 - 0.5 <= x && x <= plot.x1 + 0.5).then_some(x)
        };
        if let Some(Item::Event(event)) = self.selected_item
            && let Some(x) = place(Position::after(event))
        {
            let head = [[x - 4.0, plot.y1 + 7.0], [x + 4.0, plot.y1 + 7.0], [x, plot.y1]];
            drawing.push(Shape::Triangle(head), Ink::Selected);
        }
        for (letter, position) in self.marks {
            if let Some(x) = place(*position) {
                drawing.push(Shape::Dashed(vec![[x, plot.y0], [x, plot.y1]], 1.0), Ink::UserMark);
                let label = [x + 3.0, plot.y0 + 8.0];
                drawing.text(label, Anchor::LeftCentre, TextSize::Small, letter.to_string(), Ink::UserMark, Fit::Always);
            }
        }
        let Some(cursor) = self.cursor else { return };
        if let Some(x) = place(cursor) {
            // Zoomed in far enough a state has a width: it is shaded, the line stands where it begins.
            let next = time.point(self.clock.unit(Position(cursor.0.saturating_add(1)))).min(plot.x1);
            if x + 6.0 <= next {
                drawing.push(Shape::Box(Area::new(x, plot.y0, next, plot.y1)), Ink::Range);
            }
            drawing.push(Shape::Line(vec![[x, plot.y0 - 2.0], [x, plot.y1 + 2.0]], 1.5), Ink::Cursor);
        }
    }
}

/// Moves and scales a finished raster to the window one sees, and cuts it to the plot.
pub(crate) fn place_raster(drawing: &mut Drawing, plot: Area, time: &Scale, bytes: &Scale, raster: &PlacedRaster) {
    let whole = Area::new(
        time.point(raster.time.start),
        bytes.point(raster.bytes.end),
        time.point(raster.time.end),
        bytes.point(raster.bytes.start),
    );
    let area = whole.intersect(plot);
    if area.width() <= 0.0 || area.height() <= 0.0 {
        return;
    }
    let uv = Area::new(
        (area.x0 - whole.x0) / whole.width(),
        (area.y0 - whole.y0) / whole.height(),
        (area.x1 - whole.x0) / whole.width(),
        (area.y1 - whole.y0) / whole.height(),
    );
    drawing.push(Shape::Raster { slot: raster.slot, area, uv }, Ink::Usage);
}
