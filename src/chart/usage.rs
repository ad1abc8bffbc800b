//! Memory over time: stacked live allocations, the reserved line above them, failures, spans, the cursor.
//!
//! Always: what stands in a pixel column is the moment of its highest `active`; reserved is the true maximum
//! of the column. The stack itself is a raster made elsewhere ([`crate::raster::StackRaster`]); the drawing
//! places the rasters that are finished, moved and scaled to the window one sees.

use crate::analysis::UsageTimeline;
use crate::chart::axis::{Clock, Scale};
use crate::chart::drawing::{Area, Drawing, RasterSlot};
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
    /// The device's capacity in bytes, where known.
    pub capacity: Option<u64>,
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
}

/// Where the parts of the usage picture lie, and its axes: maps the pointer to moment and bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageFrame {
    /// The plot itself.
    pub plot: Area,
    /// The row of annotation spans; of no height where there are none.
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

/// Lays out the parts.
pub fn frame(_input: &UsageInput<'_>) -> UsageFrame {
    UsageFrame {
        plot: Area::default(),
        spans: Area::default(),
        overview: Area::default(),
        time: Scale::new(0.0..1.0, 0.0, 1.0),
        bytes: Scale::new(0.0..1.0, 0.0, 1.0),
        overview_time: Scale::new(0.0..1.0, 0.0, 1.0),
    }
}

/// What to ask the raster for so that it fills the plot at a density of pixels, and where the result goes.
pub fn wanted_raster(_input: &UsageInput<'_>, _pixels_per_point: f32) -> (RasterView, PlacedRaster) {
    (RasterView::default(), PlacedRaster { slot: RasterSlot::Window, time: 0.0..1.0, bytes: 0.0..1.0 })
}

/// Lays out the picture.
pub fn draw(input: &UsageInput<'_>) -> Drawing {
    Drawing::new(input.width_pt, input.height_pt)
}
