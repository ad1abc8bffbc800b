//! The contract of a report: a snapshot at one moment, written to a file of one kind.
//!
//! To add a kind: one file with its [`Report`], one line in the register.

use crate::analysis::Categories;
use crate::model::{DeviceId, Position, Snapshot};
use crate::raster::ColourBy;
use crate::replay::Replay;
use std::io::{self, Write};

pub use crate::chart::Theme;

/// How a page looks.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportOptions {
    /// Width of the page in points; widened if less than what a page needs.
    pub width_pt: u32,
    /// Height of the page in points, filled by its pictures; it grows if its content needs more (nothing is ever
    /// cut off), and is less where there is no picture to fill it.
    pub height_pt: u32,
    /// Pixels a point.
    pub scale: f32,
    /// Light or dark.
    pub theme: Theme,
    /// What the colour of blocks means.
    pub colour_by: ColourBy,
    /// What categories there are.
    pub categories: Categories,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            width_pt: 1600,
            height_pt: 2000,
            scale: 1.0,
            theme: Theme::Light,
            colour_by: ColourBy::Stack,
            categories: Categories::built_in(),
        }
    }
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct ReportSubject<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// One replay a device, by row.
    pub replays: &'a [Replay],
    /// The device in question.
    pub device: DeviceId,
    /// The moment in question.
    pub position: Position,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file could not be written.
    #[error("the report could not be written: {0}")]
    Io(#[from] io::Error),
    /// The picture could not be encoded.
    #[error("the picture could not be encoded as PNG: {0}")]
    Png(#[from] image::ImageError),
    /// The wanted picture is beyond what is sensible.
    #[error(
        "a picture of {width} x {height} pixels is too large: at most {limit} million pixels are drawn; lower --size or --scale"
    )]
    TooLarge {
        /// Wanted width in pixels.
        width: u64,
        /// Wanted height in pixels.
        height: u64,
        /// The limit in millions of pixels.
        limit: u64,
    },
    /// The snapshot holds no such device.
    #[error("the snapshot holds no device in row {0}")]
    NoDevice(u32),
}

/// One kind of report.
pub trait Report: Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;
    /// The extension of its files, without the dot.
    fn extension(&self) -> &'static str;
    /// Writes it.
    fn write(&self, subject: &ReportSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError>;
}
