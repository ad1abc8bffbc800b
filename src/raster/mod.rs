//! Floor 5: millions of boxes become one picture, with exact coverage, on a thread pool of its own.
//!
//! A raster knows no toolkit and no clock: it gets pixel columns as positions, rows as bytes and colours as
//! a table, and hands back plain RGBA. Every box adds the exact share of each pixel it covers, so a
//! thousand blocks smaller than a pixel show as their true average and nothing flickers. Only what a search
//! found wins its pixels, however little of them it covers.

pub mod address;
pub mod colour;
pub mod coverage;
pub mod lives;
pub mod stack;

pub use address::{AddressMap, AddressSpan};
pub use colour::{ColourBy, ColourTable, Spotlight, age_class, faded, held_class, size_class};
pub use lives::LivesIndex;
pub use stack::{StackOutline, StackRaster};

use crate::model::Position;
use std::ops::Range;
use std::sync::OnceLock;

/// Which part of a device's history a raster shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasterView {
    /// Pixel columns as positions: width + 1 boundaries, never decreasing (see `Clock::columns`).
    pub columns: Vec<Position>,
    /// Bytes at the lower and the upper edge.
    pub bytes: Range<f64>,
    /// Pixel rows.
    pub height: usize,
}

/// A finished picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raster {
    /// Pixels a row.
    pub width: usize,
    /// Rows, the top one first.
    pub height: usize,
    /// Red, green, blue, alpha of each pixel, premultiplied, row by row.
    pub rgba: Vec<u8>,
}

/// The pool rasters run on: all cores but one, so that the thread that paints is never kept waiting, and never the
/// global pool. None where the system gives no threads: rasters then run on the caller's.
fn pool() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        rayon::ThreadPoolBuilder::new()
            .num_threads(cores.saturating_sub(1).max(1))
            .thread_name(|i| format!("raster-{i}"))
            .build()
            .ok()
    })
    .as_ref()
}
