//! The page as a PNG, or one a page.
//!
//! Always: eight bits a channel, no transparency in pages; the same snapshot and options give the same bytes.

use crate::base::Progress;
use crate::report::page::render_pages;
use crate::report::page_model::Printed;
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
    fn has_pages(&self) -> bool {
        true
    }
    fn files(&self, subject: &ReportSubject<'_>, options: &ReportOptions, progress: &Progress) -> Result<Printed, ReportError> {
        let mut files = Vec::new();
        let (model, pages) = render_pages(subject, options, progress)?;
        for page in pages {
            progress.stage("compressing the picture", 0)?;
            let rgb: Vec<u8> = page.pixels().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
            let mut bytes = Vec::new();
            encode_rgb(page.width(), &rgb, &mut bytes)?;
            files.push(bytes);
        }
        Ok(Printed { model, files })
    }
}

/// Writes a picture of `width` pixels a row as PNG; what is left of a last row is dropped.
pub fn encode_rgb(width: u32, rgb: &[u8], out: &mut dyn Write) -> Result<(), ReportError> {
    encode(width, rgb, 3, image::ExtendedColorType::Rgb8, out)
}

/// Writes a raster with its transparency, premultiplied as rasters are; of no size, it is one empty pixel.
pub fn encode_rgba(width: u32, premultiplied: &[u8], out: &mut dyn Write) -> Result<(), ReportError> {
    if premultiplied.is_empty() || width == 0 {
        return encode(1, &[0; 4], 4, image::ExtendedColorType::Rgba8, out);
    }
    let mut rgba = premultiplied.to_vec();
    for pixel in rgba.as_chunks_mut::<4>().0 {
        let alpha = u32::from(pixel[3]);
        if 0 < alpha && alpha < 255 {
            for channel in &mut pixel[..3] {
                *channel = ((u32::from(*channel) * 255 + alpha / 2) / alpha).min(255) as u8;
            }
        }
    }
    encode(width, &rgba, 4, image::ExtendedColorType::Rgba8, out)
}

fn encode(
    width: u32,
    bytes: &[u8],
    channels: usize,
    colour: image::ExtendedColorType,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let row = (width as usize * channels).max(1);
    let height = bytes.len() / row;
    // Adaptive filters halve the file of a page with rasters at a few milliseconds more.
    let encoder = PngEncoder::new_with_quality(out, CompressionType::Default, FilterType::Adaptive);
    encoder.write_image(&bytes[..height * row], width, height as u32, colour)?;
    Ok(())
}
