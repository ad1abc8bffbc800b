//! One page that tells the story of a moment top down, laid out with egui off-screen.
//!
//! Always: it shows what the window would show, through the same charts and the same painter; it needs no
//! display. Nothing is cut off: the page grows until its content fits. Words and figures are collected in
//! [`crate::report::facts`]; here they only get their places.

use crate::analysis::{Held, UsageTimeline, capacity};
use crate::base::{Bytes, Progress};
use crate::chart::usage::{self, PlacedRaster};
use crate::chart::{
    BlockColour, Clock, ColourBy, Drawing, Ink, Inks, Palette, SegmentMapInput, TimeAxis, UsageInput, segment_map,
};
use crate::model::{DeviceId, DeviceMemory, Position, Snapshot};
use crate::paint;
use crate::raster::{Raster, StackRaster};
use crate::replay::{MemoryState, Replay};
use crate::report::facts::{self, Facts};
use crate::report::report::{ReportError, ReportOptions};
use egui::{FontId, RichText, TextureHandle, TextureOptions, Ui, vec2};
use image::RgbaImage;

/// Space around the page's content, in points.
const MARGIN_PT: f32 = 32.0;
/// The narrowest page on which every line has its room.
const LEAST_WIDTH_PT: f32 = 800.0;
/// Least heights of the two pictures; what the page has left over is shared between them.
const LEAST_USAGE_PT: f32 = 260.0;
const LEAST_LAYOUT_PT: f32 = 160.0;
/// The tallest layout picture; a file with more groups than that holds says how many are left out.
const MOST_LAYOUT_PT: f32 = 4000.0;
/// Most names in the legend: hundreds of streams would fill the page.
const MOST_LEGEND: usize = 24;
/// Most pixels of a page, in millions: 400 MB while it is painted.
const MOST_MEGAPIXELS: u64 = 100;

/// Lays out and paints the page of one device at one moment. Pure: callable from any thread.
pub fn render_report(
    snapshot: &Snapshot,
    replays: &[Replay],
    device: DeviceId,
    position: Position,
    options: &ReportOptions,
) -> Result<RgbaImage, ReportError> {
    let missing = ReportError::NoDevice(device.0);
    let (Some(memory), Some(replay)) = (snapshot.devices.get(device), replays.get(device.0 as usize)) else {
        return Err(missing);
    };
    let position = position.min(memory.end());
    // Nobody can cancel here: the progress is our own.
    let Ok(curves) = UsageTimeline::of(memory, &Progress::new()) else { return Err(missing) };
    let state = replay.state_at(memory, position);
    let palette = Palette { theme: options.theme };
    let page = Page {
        snapshot,
        memory,
        replay,
        state: &state,
        facts: facts::collect(snapshot, memory, &curves, &state),
        clock: Clock::of(memory, TimeAxis::Events),
        inks: inks_of(snapshot, memory, options),
        curves: &curves,
        palette,
        scale: if options.scale.is_finite() { options.scale.clamp(0.25, 8.0) } else { 1.0 },
        width: (options.width_pt as f32).max(LEAST_WIDTH_PT),
    };
    page.paint(options.height_pt as f32)
}

fn inks_of(snapshot: &Snapshot, memory: &DeviceMemory, options: &ReportOptions) -> Inks {
    let inks = Inks::with_categories(snapshot, options.colour_by, &options.categories);
    if options.colour_by != ColourBy::Held {
        return inks;
    }
    inks.with_held(&Held::of(memory, &Progress::new()).unwrap_or_default())
}

struct Page<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    replay: &'a Replay,
    state: &'a MemoryState,
    facts: Facts,
    clock: Clock,
    inks: Inks,
    curves: &'a UsageTimeline,
    palette: Palette,
    scale: f32,
    width: f32,
}

/// Heights of the two pictures, and the layout's scale.
#[derive(Clone, Copy)]
struct Heights {
    usage: f32,
    layout: f32,
    bytes_per_row: u64,
}

impl Page<'_> {
    fn paint(&self, wanted_height: f32) -> Result<RgbaImage, ReportError> {
        // Asked before anything is laid out: to measure a page takes as long as it is large.
        self.in_pixels(wanted_height)?;
        let usage = if self.facts.has_history { LEAST_USAGE_PT } else { 0.0 };
        let mut heights = Heights { usage, layout: 0.0, bytes_per_row: 1 };
        let has_layout = !self.state.segments.is_empty();
        if has_layout {
            heights = self.fit_layout(heights, LEAST_LAYOUT_PT, MOST_LAYOUT_PT);
        }
        let size = vec2(self.width, 20_000.0);
        let measure = |heights| paint::offscreen::measure(size, self.scale, |ui| self.lay_out(ui, heights, &mut None)).ceil();
        let used = measure(heights);
        let left_over = (wanted_height - used).max(0.0);
        if has_layout && 0.0 < left_over {
            let share = if 0.0 < usage { 0.6 } else { 1.0 };
            let room = heights.layout + (left_over * share).floor();
            heights = self.fit_layout(heights, room, room);
        }
        // What the layout does not need goes to the usage picture; a page without one is as long as its content.
        let used = measure(heights);
        if 0.0 < usage {
            heights.usage += (wanted_height - used).max(0.0).floor();
        }
        let height = measure(heights);
        self.in_pixels(height)?;
        let ground = paint::colour(self.palette, Ink::Panel);
        let mut texture = None;
        let canvas = paint::render(vec2(self.width, height), self.scale, ground, |ui| self.lay_out(ui, heights, &mut texture));
        let (width, height) = (canvas.width as u32, canvas.height as u32);
        RgbaImage::from_raw(width, height, canvas.pixels.into_flattened()).ok_or(ReportError::TooLarge {
            width: u64::from(width),
            height: u64::from(height),
            limit: MOST_MEGAPIXELS,
        })
    }

    /// Whether a page of this height in points has a sensible number of pixels.
    fn in_pixels(&self, height: f32) -> Result<(), ReportError> {
        let (width, height) = ((self.width * self.scale).round() as u64, (height * self.scale).round() as u64);
        if MOST_MEGAPIXELS * 1_000_000 < width.saturating_mul(height) {
            return Err(ReportError::TooLarge { width, height, limit: MOST_MEGAPIXELS });
        }
        Ok(())
    }

    fn lay_out(&self, ui: &mut Ui, heights: Heights, texture: &mut Option<TextureHandle>) {
        let spacing = &mut ui.style_mut().spacing;
        spacing.item_spacing = vec2(8.0, 4.0);
        let inner = self.width - 2.0 * MARGIN_PT;
        let margin = egui::Margin::same(MARGIN_PT as i8);
        egui::Frame::new().inner_margin(margin).show(ui, |ui| {
            ui.set_width(inner);
            self.header(ui);
            self.counters(ui);
            if 0.0 < heights.usage {
                self.usage(ui, heights.usage, texture);
            }
            if 0.0 < heights.layout {
                self.layout(ui, heights);
            }
            self.stacks(ui);
            self.notes(ui);
        });
    }

    fn text(&self, words: impl Into<String>, size: f32, ink: Ink) -> RichText {
        RichText::new(words).font(FontId::proportional(size)).color(paint::colour(self.palette, ink))
    }
    fn section(&self, ui: &mut Ui, title: &str, aside: &str) {
        ui.add_space(18.0);
        ui.horizontal_wrapped(|ui| {
            ui.label(self.text(title, 18.0, Ink::Text));
            ui.add_space(6.0);
            ui.label(self.text(aside, 13.0, Ink::WeakText));
        });
        ui.add_space(2.0);
    }
    fn header(&self, ui: &mut Ui) {
        ui.label(self.text(&self.facts.title, 26.0, Ink::Text));
        ui.horizontal_wrapped(|ui| {
            for (name, value) in &self.facts.origin {
                // Name and value stay together: they are one label.
                let mut job = egui::text::LayoutJob::default();
                for (words, ink) in [(format!("{name} "), Ink::WeakText), (value.clone(), Ink::Text)] {
                    let format = egui::TextFormat::simple(FontId::proportional(13.0), paint::colour(self.palette, ink));
                    job.append(&words, 0.0, format);
                }
                // It goes to the next line as a whole; only what is longer than a line breaks inside.
                let room = self.width - 2.0 * MARGIN_PT;
                job.wrap.max_width = room;
                let galley = ui.fonts_mut(|fonts| fonts.layout_job(job));
                ui.add(egui::Label::new(galley).extend());
                ui.add_space(10.0);
            }
        });
        ui.add_space(12.0);
        let ink = if self.facts.failed { Ink::Oom } else { Ink::Text };
        ui.label(self.text(&self.facts.headline, 20.0, ink));
        for sentence in &self.facts.account {
            ui.label(self.text(sentence, 14.0, Ink::Text));
        }
    }
    fn counters(&self, ui: &mut Ui) {
        ui.add_space(10.0);
        let cell = 168.0;
        let across = ((self.width - 2.0 * MARGIN_PT) / cell).floor().max(1.0) as usize;
        let counters = &self.facts.counters;
        if counters.is_empty() {
            return;
        }
        // As many rows as needed, each as full as the others.
        let rows = counters.len().div_ceil(across);
        for row in counters.chunks(counters.len().div_ceil(rows)) {
            ui.horizontal(|ui| {
                for counter in row {
                    ui.allocate_ui_with_layout(vec2(cell - 8.0, 58.0), egui::Layout::top_down(egui::Align::Min), |ui| {
                        ui.set_min_size(vec2(cell - 8.0, 58.0));
                        ui.spacing_mut().item_spacing.y = 1.0;
                        ui.label(self.text(counter.name, 12.0, Ink::WeakText));
                        ui.label(self.text(&counter.value, 19.0, Ink::Text));
                        ui.label(self.text(&counter.exact, 11.0, Ink::WeakText));
                    });
                }
            });
        }
    }
    fn usage(&self, ui: &mut Ui, height: f32, texture: &mut Option<TextureHandle>) {
        let colours = match self.inks.by() {
            ColourBy::Stack => "one colour a stack, the same in every picture and file".to_owned(),
            by => format!("coloured by {}", by.name()),
        };
        let aside =
            format!("live allocations stacked by age, the oldest at the bottom; {colours}; the blue line is the moment below");
        self.section(ui, "Memory over time", &aside);
        self.legend(ui);
        let width = self.width - 2.0 * MARGIN_PT;
        let none = UsageInput {
            snapshot: self.snapshot,
            memory: self.memory,
            usage: self.curves,
            clock: &self.clock,
            width_pt: width,
            height_pt: height,
            overview: false,
            time: 0.0..0.0,
            bytes: 0.0..0.0,
            rasters: &[],
            capacity: capacity::at_last_oom(self.memory, self.curves),
            cursor: Some(self.state.position),
            range: None,
            marks: &[],
            selected: &[],
            hovered: None,
            selected_item: None,
            hovered_span: None,
        };
        let (view, placed) = usage::wanted_raster(&none, self.scale);
        if texture.is_none() {
            let stack = StackRaster::new(self.memory, self.replay, self.curves);
            let raster =
                stack.raster(&view, &self.inks.table(self.palette), &Progress::new()).unwrap_or_else(|_| Raster::default());
            if 0 < raster.width * raster.height {
                *texture = Some(ui.ctx().load_texture("usage", paint::texture_image(&raster), TextureOptions::NEAREST));
            }
        }
        let rasters: &[PlacedRaster] = if texture.is_some() { &[placed] } else { &[] };
        let drawing = usage::draw(&UsageInput { rasters, ..none });
        self.picture(ui, &drawing, texture.as_ref());
    }
    /// The layout's height and scale if it may be `room` high, or as high as its groups need, up to `most`.
    fn fit_layout(&self, heights: Heights, room: f32, most: f32) -> Heights {
        let map = segment_map::draw(&self.layout_input(room, None));
        let layout = map.content_height_pt.ceil().min(most.max(room));
        Heights { layout, bytes_per_row: map.bytes_per_row, ..heights }
    }
    fn layout_input(&self, height: f32, bytes_per_row: Option<u64>) -> SegmentMapInput<'_> {
        SegmentMapInput {
            snapshot: self.snapshot,
            memory: self.memory,
            state: self.state,
            inks: &self.inks,
            width_pt: self.width - 2.0 * MARGIN_PT,
            height_pt: height,
            scroll_pt: 0.0,
            bytes_per_row,
            focus: None,
            request: self.facts.request,
            selected: None,
            hovered: None,
            found: None,
        }
    }
    fn layout(&self, ui: &mut Ui, heights: Heights) {
        let map = segment_map::draw(&self.layout_input(heights.layout, Some(heights.bytes_per_row)));
        let small = if self.facts.request.is_some() { ", hatched where too small for the request" } else { "" };
        let aside = format!(
            "every segment to scale, a full row is {}; blocks in colour, rounding paler, pending frees hatched; free memory is blank{small}",
            Bytes(map.bytes_per_row)
        );
        self.section(ui, &format!("Layout {}", self.facts.moment), &aside);
        self.picture(ui, &map.drawing, None);
        if heights.layout + 1.0 < map.content_height_pt {
            let sentence = "Not all pools and streams have room on this page; the window shows them all.";
            ui.label(self.text(sentence, 12.0, Ink::WeakText));
        }
    }
    fn picture(&self, ui: &mut Ui, drawing: &Drawing, texture: Option<&TextureHandle>) {
        let (rect, _) = ui.allocate_exact_size(vec2(drawing.width_pt, drawing.height_pt), egui::Sense::hover());
        let textures = |_| texture.map(TextureHandle::id);
        paint::paint(ui.painter(), rect.min, drawing, self.palette, &textures);
    }
    fn stacks(&self, ui: &mut Ui) {
        if self.facts.stacks.is_empty() {
            return;
        }
        let aside =
            format!("allocated bytes by allocating stack, {}; frames of PyTorch and Python are folded", self.facts.moment);
        self.section(ui, "Who holds the memory", &aside);
        for row in &self.facts.stacks {
            ui.horizontal(|ui| {
                if self.inks.by() == ColourBy::Stack {
                    let block = match row.colour {
                        Some(hash) if row.is_stack => Some(BlockColour::Stack(hash)),
                        Some(_) => Some(BlockColour::NoStack),
                        None => None,
                    };
                    self.swatch(ui, block);
                }
                self.cell(ui, 86.0, &row.bytes, Ink::Text, egui::Align::Max);
                self.cell(ui, 52.0, &row.share, Ink::WeakText, egui::Align::Max);
                self.cell(ui, 96.0, &row.count, Ink::WeakText, egui::Align::Max);
                ui.add_space(8.0);
                let mut job = egui::text::LayoutJob::default();
                for (words, ink) in [(&row.place, Ink::Text), (&row.callers, Ink::WeakText)] {
                    let format = egui::TextFormat::simple(FontId::proportional(13.0), paint::colour(self.palette, ink));
                    job.append(words, 0.0, format);
                }
                let max_width = ui.available_width().max(100.0);
                job.wrap = egui::text::TextWrapping { max_width, max_rows: 1, break_anywhere: true, ..Default::default() };
                let galley = ui.fonts_mut(|fonts| fonts.layout_job(job));
                ui.add(egui::Label::new(galley).extend());
            });
        }
    }
    /// A patch of a block's colour; an empty place for none.
    fn swatch(&self, ui: &mut Ui, block: Option<BlockColour>) {
        let (patch, _) = ui.allocate_exact_size(vec2(12.0, 12.0), egui::Sense::hover());
        if let Some(block) = block {
            ui.painter().rect_filled(patch, 2.0, paint::colour(self.palette, Ink::Block(block)));
        }
    }
    /// What the colours mean, where they do not mean stacks (those are named in the table).
    fn legend(&self, ui: &mut Ui) {
        let mut legend = self.inks.legend(self.snapshot);
        if legend.is_empty() {
            return;
        }
        let left_out = legend.len().saturating_sub(MOST_LEGEND);
        legend.truncate(MOST_LEGEND);
        ui.horizontal_wrapped(|ui| {
            for (block, name) in legend {
                self.swatch(ui, Some(block));
                ui.add(egui::Label::new(self.text(name, 12.0, Ink::WeakText)).extend());
                ui.add_space(8.0);
            }
            if 0 < left_out {
                ui.label(self.text(format!("and {left_out} more"), 12.0, Ink::WeakText));
            }
        });
    }
    fn cell(&self, ui: &mut Ui, width: f32, words: &str, ink: Ink, align: egui::Align) {
        ui.allocate_ui_with_layout(vec2(width, 16.0), egui::Layout::top_down(align), |ui| {
            ui.set_min_width(width);
            ui.label(self.text(words, 13.0, ink));
        });
    }
    fn notes(&self, ui: &mut Ui) {
        if !self.facts.notes.is_empty() {
            self.section(ui, "What this file cannot tell", "");
            for note in &self.facts.notes {
                ui.label(self.text(format!("•  {note}"), 13.0, Ink::Text));
            }
        }
        if !self.facts.warnings.is_empty() {
            self.section(ui, "What was mended or left out", "");
            for warning in &self.facts.warnings {
                ui.label(self.text(format!("•  {warning}"), 13.0, Ink::Text));
            }
        }
    }
}
