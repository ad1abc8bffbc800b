//! Floor 5: answers become drawings, in plain numbers. No toolkit, no files, no state.
//!
//! A chart is a pure function from an input struct to a [`Drawing`]; the window paints it on the screen,
//! the report off-screen, through the same painter. To add a chart: one file and one `pub mod` line here.

pub mod address_time;
pub mod axis;
pub mod block_words;
pub mod drawing;
pub mod flame;
pub mod flame_words;
pub mod histogram;
pub mod ink;
pub mod kv_table;
pub mod lines;
pub mod moments;
pub mod overlay;
pub mod paired_bars;
pub mod palette;
pub mod parts_bar;
pub mod segment_map;
pub mod series;
pub mod spans;
pub mod text;
pub mod usage;

pub use address_time::{AddressTimeFrame, AddressTimeInput};
pub use axis::{Clock, Scale, Tick, TimeAxis};
pub use drawing::{Anchor, Area, Drawing, Fit, Mark, RasterSlot, Shape, TextSize};
pub use flame::{FlameColour, FlameDrawing, FlameHit, FlameInks, FlameInput, FlameShape};
pub use histogram::HistogramInput;
pub use ink::{BlockColour, ColourBy, Ink, Inks, Palette, Theme};
pub use kv_table::KvTableInput;
pub use lines::LinesInput;
pub use parts_bar::PartLook;
pub use segment_map::{SegmentMapDrawing, SegmentMapInput};
pub use series::{Group, GroupData, Marker, MarkerKind, Per, Series, Unit};
pub use usage::{PlacedRaster, UsageFrame, UsageInput};
