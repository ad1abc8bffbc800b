//! Blocks of a flow put on paper: measured, then painted, by the one painter.
//!
//! Always: what is measured is what is painted; nothing is cut off inside a block.

use crate::chart::{Area, BlockColour, Drawing, Ink, Palette};
use crate::paint;
use crate::raster::Raster;
use crate::report::flow::{Cell, Flow, HANG_PT, NORMAL, Patch, Run, SMALL, What};
use crate::report::report::ReportError;
use egui::text::{LayoutJob, TextFormat, TextWrapping};
use egui::{FontFamily, FontId, Galley, Pos2, TextureHandle, TextureOptions, Ui, pos2, vec2};
use image::RgbaImage;
use std::sync::Arc;

/// Space around the page's content, in points.
pub(super) const MARGIN_PT: f32 = 40.0;
/// Room for the line at the foot of a page.
pub(super) const FOOT_PT: f32 = 28.0;
/// The narrowest page on which every line has its room.
pub(super) const LEAST_WIDTH_PT: f32 = 800.0;
/// Most pixels of a page, in millions: 400 MB while it is painted.
const MOST_MEGAPIXELS: u64 = 100;

/// Whether a page of this size in points has a sensible number of pixels.
pub(super) fn in_pixels(width: f32, height: f32, scale: f32) -> Result<(), ReportError> {
    let (width, height) = ((width * scale).round() as u64, (height * scale).round() as u64);
    if MOST_MEGAPIXELS * 1_000_000 < width.saturating_mul(height) {
        return Err(ReportError::TooLarge { width, height, limit: MOST_MEGAPIXELS });
    }
    Ok(())
}

/// The paper: how wide, how sharp, in which colours.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    pub(super) palette: Palette,
    pub(super) scale: f32,
    pub(super) width: f32,
}

impl Sheet {
    /// Width without margins.
    pub(super) fn inner(&self) -> f32 {
        self.width - 2.0 * MARGIN_PT
    }
    /// The height of a page that holds all blocks.
    pub(super) fn height(&self, flow: &Flow) -> f32 {
        (self.measure(flow).iter().sum::<f32>() + 2.0 * MARGIN_PT + FOOT_PT).ceil()
    }

    pub(super) fn measure(&self, flow: &Flow) -> Vec<f32> {
        let mut heights = Vec::new();
        paint::offscreen::measure(vec2(self.width, 4000.0), self.scale, |ui| {
            heights = flow.blocks.iter().map(|block| self.place(ui, None, &block.what, &[])).collect();
        });
        heights
    }

    pub(super) fn paint(
        &self,
        flow: &Flow,
        range: std::ops::Range<usize>,
        height: f32,
        foot: &[String; 2],
    ) -> Result<RgbaImage, ReportError> {
        let ground = paint::colour(self.palette, Ink::Background);
        let mut textures: Vec<TextureHandle> = Vec::new();
        let canvas = paint::render(vec2(self.width, height), self.scale, ground, |ui| {
            if textures.is_empty() {
                let load =
                    |raster: &Raster| ui.ctx().load_texture("raster", paint::texture_image(raster), TextureOptions::NEAREST);
                textures = flow.rasters.iter().map(load).collect();
            }
            let mut y = MARGIN_PT;
            for block in &flow.blocks[range.clone()] {
                y += self.place(ui, Some(y), &block.what, &textures);
            }
            let foot_y = height - MARGIN_PT - SMALL;
            let room = self.inner() - 120.0;
            let left = self.one_line(ui, &[(foot[0].clone(), SMALL, Ink::WeakText)], room);
            ui.painter().galley(pos2(MARGIN_PT, foot_y), left, egui::Color32::PLACEHOLDER);
            let right = self.one_line(ui, &[(foot[1].clone(), SMALL, Ink::WeakText)], 110.0);
            let at = pos2(self.width - MARGIN_PT - right.size().x, foot_y);
            ui.painter().galley(at, right, egui::Color32::PLACEHOLDER);
        });
        let (width, height) = (canvas.width as u32, canvas.height as u32);
        RgbaImage::from_raw(width, height, canvas.pixels.into_flattened()).ok_or(ReportError::TooLarge {
            width: u64::from(width),
            height: u64::from(height),
            limit: MOST_MEGAPIXELS,
        })
    }

    /// The height of a block; painted too where its top is given.
    fn place(&self, ui: &mut Ui, top: Option<f32>, what: &What, textures: &[TextureHandle]) -> f32 {
        let at = |x: f32, y: f32| top.map(|top| pos2(MARGIN_PT + x, top + y));
        match what {
            What::Space(height) => *height,
            What::Rule => {
                if let Some(at) = at(0.0, 0.0) {
                    let stroke = egui::Stroke::new(1.0, paint::colour(self.palette, Ink::Grid));
                    ui.painter().hline(at.x..=at.x + self.inner(), at.y, stroke);
                }
                1.0
            }
            What::Words { runs, indent, stroke } => {
                let galley = self.wrapped(ui, runs, self.inner() - indent);
                let height = galley.size().y;
                if let (Some(place), Some(edge)) = (at(*indent, 0.0), at(1.0, 0.0)) {
                    if *stroke {
                        let stroke = egui::Stroke::new(2.0, paint::colour(self.palette, Ink::SegmentBorder));
                        ui.painter().vline(edge.x, edge.y..=edge.y + height, stroke);
                    }
                    ui.painter().galley(place, galley, egui::Color32::PLACEHOLDER);
                }
                height
            }
            What::Hanging { lead, runs } => {
                let galley = self.wrapped(ui, runs, self.inner() - HANG_PT);
                let height = galley.size().y;
                if let (Some(edge), Some(place)) = (at(0.0, 0.0), at(HANG_PT, 0.0)) {
                    let lead = self.one_line(ui, std::slice::from_ref(lead), HANG_PT);
                    ui.painter().galley(edge, lead, egui::Color32::PLACEHOLDER);
                    ui.painter().galley(place, galley, egui::Color32::PLACEHOLDER);
                }
                height
            }
            What::Pairs(pairs) => self.pairs(ui, at(0.0, 0.0), pairs),
            What::Row { patch, cells, rest } => self.row(ui, at(0.0, 0.0), *patch, cells, rest),
            What::Picture { drawing, raster } => {
                if let Some(at) = at(0.0, 0.0) {
                    let texture = raster.and_then(|row| textures.get(row)).map(TextureHandle::id);
                    paint::paint(ui.painter(), at, drawing, self.palette, &|_| texture);
                }
                drawing.height_pt
            }
            What::Legend(entries) => self.legend(ui, at(0.0, 0.0), entries),
        }
    }

    fn pairs(&self, ui: &mut Ui, at: Option<Pos2>, pairs: &[Vec<Run>]) -> f32 {
        const GAP_PT: f32 = 18.0;
        const LINE_GAP_PT: f32 = 3.0;
        let (mut x, mut y, mut line) = (0.0, 0.0, 0.0f32);
        for runs in pairs {
            // It goes to the next line as a whole; only what is longer than a line breaks inside.
            let galley = self.wrapped(ui, runs, self.inner());
            let size = galley.size();
            if 0.0 < x && self.inner() < x + size.x {
                (x, y, line) = (0.0, y + line + LINE_GAP_PT, 0.0);
            }
            if let Some(at) = at {
                ui.painter().galley(at + vec2(x, y), galley, egui::Color32::PLACEHOLDER);
            }
            (x, line) = (x + size.x + GAP_PT, line.max(size.y));
        }
        y + line
    }

    fn row(&self, ui: &mut Ui, at: Option<Pos2>, patch: Option<Patch>, cells: &[Cell], rest: &[Run]) -> f32 {
        const HEIGHT_PT: f32 = 19.0;
        const PATCH_PT: f32 = 12.0;
        let Some(at) = at else { return HEIGHT_PT };
        let mut x = 0.0;
        if let Some(patch) = patch {
            let area = Area::new(0.0, 0.0, PATCH_PT, PATCH_PT);
            let mut drawing = Drawing::new(PATCH_PT, PATCH_PT);
            match patch {
                Patch::Block(colour) => drawing.push(crate::chart::Shape::Box(area), Ink::Block(colour)),
                Patch::Part(look) => look.patch(area, &mut drawing),
                Patch::None => {}
            }
            paint::paint(ui.painter(), at + vec2(0.0, 2.5), &drawing, self.palette, &|_| None);
            x += PATCH_PT + 8.0;
        }
        for cell in cells {
            let galley = self.one_line(ui, &[(cell.words.clone(), NORMAL, cell.ink)], cell.width.max(1.0));
            let shift = if cell.is_right { cell.width - galley.size().x } else { 0.0 };
            ui.painter().galley(at + vec2(x + shift, 0.0), galley, egui::Color32::PLACEHOLDER);
            x += cell.width + if cell.is_right { 12.0 } else { 0.0 };
        }
        let galley = self.one_line(ui, rest, (self.inner() - x).max(50.0));
        ui.painter().galley(at + vec2(x, 0.0), galley, egui::Color32::PLACEHOLDER);
        HEIGHT_PT
    }

    fn legend(&self, ui: &mut Ui, at: Option<Pos2>, entries: &[(BlockColour, String)]) -> f32 {
        let (mut x, mut y) = (0.0, 0.0);
        for (block, name) in entries {
            let galley = self.one_line(ui, &[(name.clone(), SMALL, Ink::WeakText)], self.inner() - 18.0);
            let width = 18.0 + galley.size().x + 14.0;
            if 0.0 < x && self.inner() < x + width {
                (x, y) = (0.0, y + 18.0);
            }
            if let Some(at) = at {
                let patch = egui::Rect::from_min_size(at + vec2(x, y + 2.0), vec2(12.0, 12.0));
                ui.painter().rect_filled(patch, 0.0, paint::colour(self.palette, Ink::Block(*block)));
                ui.painter().galley(at + vec2(x + 18.0, y), galley, egui::Color32::PLACEHOLDER);
            }
            x += width;
        }
        y + 20.0
    }

    fn job(&self, runs: &[Run]) -> LayoutJob {
        let mut job = LayoutJob::default();
        for (words, size, ink) in runs {
            // A negative size asks for letters of equal width.
            let family = if *size < 0.0 { FontFamily::Monospace } else { FontFamily::Proportional };
            let font = FontId::new(size.abs(), family);
            job.append(&plain(words), 0.0, TextFormat::simple(font, paint::colour(self.palette, *ink)));
        }
        job
    }
    fn wrapped(&self, ui: &mut Ui, runs: &[Run], room: f32) -> Arc<Galley> {
        let mut job = self.job(runs);
        job.wrap = TextWrapping { max_width: room, ..Default::default() };
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    }
    fn one_line(&self, ui: &mut Ui, runs: &[Run], room: f32) -> Arc<Galley> {
        let mut job = self.job(runs);
        job.wrap = TextWrapping { max_width: room, max_rows: 1, break_anywhere: true, ..Default::default() };
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    }
}

/// A text without what would move other text: control characters other than line ends.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
