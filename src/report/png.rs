//! The page as a PNG.
//!
//! Always: eight bits a channel, no transparency; the same snapshot and options give the same bytes.

use crate::report::page::render_report;
use crate::report::report::{Report, ReportError, ReportOptions, ReportSubject};
use image::ImageEncoder as _;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use std::io::Write;

/// Writes the page as PNG.
pub struct Png;

impl Report for Png {
    fn name(&self) -> &'static str {
        "picture"
    }
    fn extension(&self) -> &'static str {
        "png"
    }
    fn write(&self, subject: &ReportSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let page = render_report(subject.snapshot, subject.replays, subject.device, subject.position, options)?;
        let rgb: Vec<u8> = page.pixels().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        encode_rgb(page.width(), &rgb, out)
    }
}

/// Writes a picture of `width` pixels a row as PNG; what is left of a last row is dropped.
pub fn encode_rgb(width: u32, rgb: &[u8], out: &mut dyn Write) -> Result<(), ReportError> {
    let row = (width as usize * 3).max(1);
    let height = rgb.len() / row;
    // Adaptive filters halve the file of a page with rasters at a few milliseconds more.
    let encoder = PngEncoder::new_with_quality(out, CompressionType::Default, FilterType::Adaptive);
    encoder.write_image(&rgb[..height * row], width, height as u32, image::ExtendedColorType::Rgb8)?;
    Ok(())
}
