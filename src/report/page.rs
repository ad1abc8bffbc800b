//! The page as a picture: words and drawings one below the other, on one tall page or cut into fixed ones.
//!
//! Always: it shows what the window would show, through the same charts and the same painter; it needs no display.
//! Nothing is cut off: a tall page grows until its content fits, and fixed pages break between blocks, a heading never
//! parted from what it heads. Three text sizes; red only for what failed. What the page says is
//! [`crate::report::page_model`]; here it only gets its places.

use crate::analysis::diagnosis::Severity;
use crate::base::{Bytes, Progress, grouped};
use crate::chart::{Area, BlockColour, ColourBy, Drawing, Ink, Palette, PartLook};
use crate::model::{DeviceId, Position, Snapshot};
use crate::paint;
use crate::raster::Raster;
use crate::replay::Replay;
use crate::report::material::Material;
use crate::report::page_model::{PageModel, StackRow, StacksInfo, blocks, share_of, value};
use crate::report::pictures;
use crate::report::report::{Pages, ReportError, ReportOptions, ReportSubject, Section};
use egui::text::{LayoutJob, TextFormat, TextWrapping};
use egui::{Align, FontFamily, FontId, Galley, Pos2, TextureHandle, TextureOptions, Ui, pos2, vec2};
use image::RgbaImage;
use std::sync::Arc;

/// Space around the page's content, in points.
const MARGIN_PT: f32 = 40.0;
/// Room for the line at the foot of a page.
const FOOT_PT: f32 = 28.0;
/// The narrowest page on which every line has its room.
const LEAST_WIDTH_PT: f32 = 800.0;
/// Heights of the pictures, where no page height asks for more.
const TIMELINE_PT: f32 = 280.0;
const CHARTS_PT: f32 = 250.0;
const LAYOUT_PT: f32 = 320.0;
const FLAME_PT: f32 = 306.0;
/// The tallest layout picture; a file with more groups than that holds says how many are left out.
const MOST_LAYOUT_PT: f32 = 4000.0;
/// Most names in the legend: hundreds of streams would fill the page.
const MOST_LEGEND: usize = 24;
/// Rows of the table of stacks, and of those of a finding.
const STACK_ROWS: usize = 12;
const FINDING_STACKS: usize = 2;
/// Most pixels of a page, in millions: 400 MB while it is painted.
const MOST_MEGAPIXELS: u64 = 100;

/// Room for the word at the left of a finding.
const HANG_PT: f32 = 62.0;
/// The three text sizes.
const LARGE: f32 = 19.0;
const NORMAL: f32 = 13.0;
const SMALL: f32 = 11.5;

/// Lays out and paints the page of one device at one moment, as one picture. Pure: callable from any thread.
pub fn render_report(
    snapshot: &Snapshot,
    replays: &[Replay],
    device: DeviceId,
    position: Position,
    options: &ReportOptions,
) -> Result<RgbaImage, ReportError> {
    let subject = ReportSubject { snapshot, replays, device, position };
    let options = ReportOptions { pages: Pages::Tall, ..options.clone() };
    let (_, mut pages) = render_pages(&subject, &options, &Progress::new())?;
    pages.pop().ok_or(ReportError::NoDevice(device.0))
}

/// Lays out and paints the page, cut as the options say.
pub fn render_pages(
    subject: &ReportSubject<'_>,
    options: &ReportOptions,
    progress: &Progress,
) -> Result<(PageModel, Vec<RgbaImage>), ReportError> {
    let scale = if options.scale.is_finite() { options.scale.clamp(0.25, 8.0) } else { 1.0 };
    let (width, height) = options.pages.size_pt().unwrap_or((options.width_pt, options.height_pt));
    let width = (width as f32).max(LEAST_WIDTH_PT);
    // Asked before anything is laid out: to measure a page takes as long as it is large.
    in_pixels(width, height as f32, scale)?;
    let material = Material::gather(subject, options, progress)?;
    let page = Page {
        model: PageModel::of(&material, options),
        material: &material,
        options,
        palette: Palette { theme: options.theme },
        scale,
        width,
        progress,
    };
    progress.stage("drawing the page", 0)?;
    let pictures = match options.pages {
        Pages::Tall => vec![page.tall(options.height_pt as f32)?],
        Pages::A4 | Pages::Wide => page.fixed(height as f32)?,
    };
    Ok((page.model, pictures))
}

/// Whether a page of this size in points has a sensible number of pixels.
fn in_pixels(width: f32, height: f32, scale: f32) -> Result<(), ReportError> {
    let (width, height) = ((width * scale).round() as u64, (height * scale).round() as u64);
    if MOST_MEGAPIXELS * 1_000_000 < width.saturating_mul(height) {
        return Err(ReportError::TooLarge { width, height, limit: MOST_MEGAPIXELS });
    }
    Ok(())
}

struct Page<'a> {
    model: PageModel,
    material: &'a Material<'a>,
    options: &'a ReportOptions,
    palette: Palette,
    scale: f32,
    width: f32,
    progress: &'a Progress,
}

/// Most heights of the pictures.
#[derive(Clone, Copy)]
struct Heights {
    timeline: f32,
    charts: f32,
    layout: f32,
    most_layout: f32,
    flame: f32,
}

/// Words of one size and ink.
type Run = (String, f32, Ink);

/// A piece of the page that is never parted.
struct Block {
    what: What,
    /// Whether it stays on the page of the block after it.
    keep: bool,
}

enum What {
    Space(f32),
    /// A thin line across.
    Rule,
    /// Words that wrap, behind so much room at the left; with a stroke at their left for what the user said.
    Words {
        runs: Vec<Run>,
        indent: f32,
        stroke: bool,
    },
    /// Words that wrap, with a word that stands alone at their left.
    Hanging {
        lead: Run,
        runs: Vec<Run>,
    },
    /// Words that stay together pair by pair.
    Pairs(Vec<Vec<Run>>),
    /// A row of a table.
    Row {
        patch: Option<Patch>,
        cells: Vec<Cell>,
        rest: Vec<Run>,
    },
    /// A picture, and the raster in it.
    Picture {
        drawing: Drawing,
        raster: Option<usize>,
    },
    /// Patches of colour with their names.
    Legend(Vec<(BlockColour, String)>),
}

#[derive(Clone, Copy)]
enum Patch {
    Block(BlockColour),
    Part(PartLook),
    /// Room for one.
    None,
}

struct Cell {
    width: f32,
    words: String,
    ink: Ink,
    align: Align,
}

/// Blocks and the rasters their pictures show.
#[derive(Default)]
struct Flow {
    blocks: Vec<Block>,
    rasters: Vec<Raster>,
}

impl Flow {
    fn put(&mut self, what: What) {
        self.blocks.push(Block { what, keep: false });
    }
    fn keep(&mut self, what: What) {
        self.blocks.push(Block { what, keep: true });
    }
    fn words(&mut self, words: impl Into<String>, size: f32, ink: Ink) {
        self.put(What::Words { runs: vec![(words.into(), size, ink)], indent: 0.0, stroke: false });
    }
    /// A heading, and in smaller words what it is about.
    fn head(&mut self, title: &str, aside: &str) {
        self.keep(What::Space(26.0));
        let runs = vec![(title.to_owned(), LARGE, Ink::Text)];
        self.keep(What::Words { runs, indent: 0.0, stroke: false });
        if !aside.is_empty() {
            self.keep(What::Space(1.0));
            let runs = vec![(aside.to_owned(), SMALL, Ink::WeakText)];
            self.keep(What::Words { runs, indent: 0.0, stroke: false });
        }
        self.keep(What::Space(8.0));
    }
}

impl Page<'_> {
    fn inner(&self) -> f32 {
        self.width - 2.0 * MARGIN_PT
    }

    fn tall(&self, wanted: f32) -> Result<RgbaImage, ReportError> {
        let mut heights =
            Heights { timeline: TIMELINE_PT, charts: CHARTS_PT, layout: LAYOUT_PT, most_layout: MOST_LAYOUT_PT, flame: FLAME_PT };
        let mut flow = self.flow(heights)?;
        let mut used = self.height(&flow);
        if used < wanted {
            // What the layout does not take of its share goes to the picture over time.
            let has_timeline = self.shows(Section::Timeline) && self.material.memory.has_history();
            heights.layout += ((wanted - used) * if has_timeline { 0.6 } else { 1.0 }).floor();
            flow = self.flow(heights)?;
            used = self.height(&flow);
            if has_timeline {
                heights.timeline += (wanted - used).max(0.0).floor();
                flow = self.flow(heights)?;
                used = self.height(&flow);
            }
        }
        in_pixels(self.width, used, self.scale)?;
        self.paint(&flow, 0..flow.blocks.len(), used, &self.foot(None))
    }

    /// The height of a page that holds all blocks.
    fn height(&self, flow: &Flow) -> f32 {
        (self.measure(flow).iter().sum::<f32>() + 2.0 * MARGIN_PT + FOOT_PT).ceil()
    }

    fn fixed(&self, height: f32) -> Result<Vec<RgbaImage>, ReportError> {
        let room = height - 2.0 * MARGIN_PT - FOOT_PT;
        // A picture shares its page with its heading and what explains it.
        let most = (room - 110.0).max(120.0);
        // On a low page the two pictures over time stand one below the other.
        let (timeline, charts) = if room < 800.0 { (235.0, 220.0) } else { (TIMELINE_PT, CHARTS_PT) };
        let flow =
            self.flow(Heights { timeline, charts, layout: LAYOUT_PT.min(most), most_layout: most, flame: FLAME_PT.min(most) })?;
        let pages = cut(&flow.blocks, &self.measure(&flow), room);
        let count = pages.len();
        let mut pictures = Vec::with_capacity(count);
        for (number, blocks) in pages.into_iter().enumerate() {
            self.progress.check()?;
            pictures.push(self.paint(&flow, blocks, height, &self.foot(Some((number + 1, count))))?);
        }
        Ok(pictures)
    }

    fn foot(&self, page: Option<(usize, usize)>) -> [String; 2] {
        let left = self.model.imprint();
        match page {
            Some((number, count)) => [format!("{}  ·  {left}", self.model.title()), format!("page {number} of {count}")],
            None => [left, String::new()],
        }
    }

    fn measure(&self, flow: &Flow) -> Vec<f32> {
        let mut heights = Vec::new();
        paint::offscreen::measure(vec2(self.width, 4000.0), self.scale, |ui| {
            heights = flow.blocks.iter().map(|block| self.place(ui, None, &block.what, &[])).collect();
        });
        heights
    }

    fn paint(
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

    fn shows(&self, section: Section) -> bool {
        self.options.sections.has(section)
    }

    /// All blocks of the page, from top to bottom.
    fn flow(&self, heights: Heights) -> Result<Flow, ReportError> {
        let mut flow = Flow::default();
        self.header(&mut flow);
        self.accounting(&mut flow);
        self.timeline(&mut flow, heights)?;
        self.charts(&mut flow, heights);
        self.layout(&mut flow, heights);
        self.findings(&mut flow);
        self.stacks(&mut flow);
        self.pinned(&mut flow);
        self.flame(&mut flow, heights);
        self.states(&mut flow);
        self.summary(&mut flow);
        self.coverage(&mut flow);
        flow.put(What::Space(14.0));
        Ok(flow)
    }

    fn header(&self, flow: &mut Flow) {
        let model = &self.model;
        let title = crate::chart::text::short_path(model.title(), 90);
        flow.keep(What::Words { runs: vec![(title, LARGE, Ink::Text)], indent: 0.0, stroke: false });
        flow.keep(What::Space(4.0));
        let short = |name: &str, text: String| match name {
            "file" => crate::chart::text::short_path(&text, 110),
            "allocator settings" => middle(&text, 160),
            _ => text,
        };
        let pair = |(name, text): (&'static str, String)| {
            vec![(format!("{name} "), SMALL, Ink::WeakText), (short(name, text), SMALL, Ink::Text)]
        };
        flow.keep(What::Pairs(model.origin().into_iter().map(pair).collect()));
        flow.keep(What::Space(14.0));
        flow.keep(What::Rule);
        flow.keep(What::Space(14.0));
        let (headline, more) = model.headline();
        // Only the cause is red: what was wanted and what was there are plain figures.
        let runs = match headline.split_once(": ") {
            Some((cause, rest)) if model.failed() => {
                vec![(format!("{cause}: "), LARGE, Ink::Oom), (rest.to_owned(), LARGE, Ink::Text)]
            }
            _ => vec![(headline, LARGE, Ink::Text)],
        };
        flow.put(What::Words { runs, indent: 0.0, stroke: false });
        for sentence in more {
            flow.put(What::Space(6.0));
            flow.words(sentence, NORMAL, Ink::Text);
        }
        if let Some(note) = &model.note {
            flow.put(What::Space(12.0));
            let runs = vec![(note.clone(), NORMAL, Ink::Text)];
            flow.put(What::Words { runs, indent: 12.0, stroke: true });
        }
    }

    fn accounting(&self, flow: &mut Flow) {
        let Some(account) = &self.model.accounting else { return };
        flow.head(Section::Accounting.title(), &format!("{}, in shares of {}", self.model.moment.words, account.whole()));
        flow.keep(What::Picture { drawing: pictures::bar(account, self.inner()), raster: None });
        flow.keep(What::Space(8.0));
        for part in account.shown() {
            let (bytes, share) = match part.bytes {
                Some(bytes) => (Bytes(bytes).to_string(), account.share(bytes)),
                None => ("unknown".to_owned(), String::new()),
            };
            let exact = part.bytes.filter(|bytes| 1024 <= *bytes).map_or(String::new(), |b| format!("{} bytes", grouped(b)));
            flow.put(What::Row {
                patch: Some(Patch::Part(part.look)),
                cells: vec![
                    left(124.0, part.label, Ink::Text),
                    right(86.0, bytes, Ink::Text),
                    right(58.0, share, Ink::WeakText),
                    right(150.0, exact, Ink::WeakText),
                ],
                rest: vec![(part.meaning.to_owned(), NORMAL, Ink::WeakText)],
            });
        }
        if account.lacks_card() {
            flow.put(What::Space(4.0));
            let words =
                "The card's size is not in the snapshot: a log of the failure or the size itself would tell what others held.";
            flow.words(words, SMALL, Ink::WeakText);
        }
    }

    fn timeline(&self, flow: &mut Flow, heights: Heights) -> Result<(), ReportError> {
        if !self.shows(Section::Timeline) {
            return Ok(());
        }
        let drawn = pictures::timeline(self.material, self.inner(), heights.timeline, self.scale, self.palette, self.progress)?;
        let Some((drawing, raster)) = drawn else { return Ok(()) };
        let colours = match self.material.inks.by() {
            ColourBy::Stack => "one colour a stack, the same in every picture and file".to_owned(),
            by => format!("coloured by {}", by.name()),
        };
        let aside = format!("live allocations stacked by age, the oldest at the bottom; {colours}; the blue line is the moment");
        flow.head(Section::Timeline.title(), &aside);
        let mut legend = self.material.inks.legend(self.material.snapshot);
        if !legend.is_empty() {
            let left_out = legend.len().saturating_sub(MOST_LEGEND);
            legend.truncate(MOST_LEGEND);
            flow.keep(What::Legend(legend));
            if 0 < left_out {
                let runs = vec![(format!("and {left_out} more"), SMALL, Ink::WeakText)];
                flow.keep(What::Words { runs, indent: 0.0, stroke: false });
            }
        }
        let has_raster = 0 < raster.width * raster.height;
        flow.rasters.extend(has_raster.then_some(raster));
        flow.put(What::Picture { drawing, raster: has_raster.then(|| flow.rasters.len() - 1) });
        Ok(())
    }

    fn charts(&self, flow: &mut Flow, heights: Heights) {
        if !self.shows(Section::Charts) {
            return;
        }
        let Some(drawing) = pictures::charts(self.material, self.inner(), heights.charts) else { return };
        let aside = "counters over the same stretch, with their values at the moment; a request above the largest free block needs memory from the driver";
        flow.head(Section::Charts.title(), aside);
        flow.put(What::Picture { drawing, raster: None });
    }

    fn layout(&self, flow: &mut Flow, heights: Heights) {
        if !self.shows(Section::Layout) {
            return;
        }
        let Some(layout) = pictures::layout(self.material, self.inner(), heights.layout, heights.most_layout) else { return };
        let small = if self.model.failed() { ", hatched where too small for the request" } else { "" };
        let aside = format!(
            "every segment to scale, a full row is {}; blocks in colour, rounding paler, pending frees hatched; free memory is blank{small}",
            Bytes(layout.bytes_per_row)
        );
        flow.head(&format!("{} {}", Section::Layout.title(), self.model.moment.words), &aside);
        flow.put(What::Picture { drawing: layout.drawing, raster: None });
        if layout.is_cut {
            flow.words("Not all pools and streams have room on this page; the window shows them all.", SMALL, Ink::WeakText);
        }
    }

    fn findings(&self, flow: &mut Flow) {
        let Some(findings) = self.model.findings.as_ref().filter(|findings| !findings.rows.is_empty()) else { return };
        flow.head(Section::Findings.title(), &findings.aside);
        for (place, finding) in findings.rows.iter().enumerate() {
            if 0 < place {
                flow.put(What::Space(9.0));
            }
            let ink = match finding.severity {
                Severity::Cause if self.model.failed() => Ink::Oom,
                _ => Ink::WeakText,
            };
            let first = flow.blocks.len();
            let lead = (finding.severity.name().to_owned(), NORMAL, ink);
            flow.put(What::Hanging { lead, runs: vec![(finding.sentence.clone(), NORMAL, Ink::Text)] });
            for row in finding.stacks.iter().take(FINDING_STACKS).filter(|_| finding.rule != "pinned") {
                flow.put(self.stack_row(row, None, HANG_PT));
            }
            if !finding.suggestion.is_empty() {
                let runs = vec![("Try: ".to_owned(), NORMAL, Ink::WeakText), (finding.suggestion.clone(), NORMAL, Ink::Text)];
                flow.put(What::Space(2.0));
                flow.put(What::Words { runs, indent: HANG_PT, stroke: false });
            }
            if finding.certainty != "certain" {
                let words = format!("{}: {}", capitalised(finding.certainty), finding.because);
                flow.put(What::Space(2.0));
                flow.put(What::Words { runs: vec![(words, SMALL, Ink::WeakText)], indent: HANG_PT, stroke: false });
            }
            // What belongs to one finding stays on one page.
            let last = flow.blocks.len().saturating_sub(1);
            flow.blocks[first..last].iter_mut().for_each(|block| block.keep = true);
        }
    }

    fn stacks(&self, flow: &mut Flow) {
        let Some(stacks) = self.model.stacks.as_ref().filter(|stacks| !stacks.rows.is_empty()) else { return };
        let aside =
            format!("allocated bytes by allocating stack, {}; frames of PyTorch and Python are folded", self.model.moment.words);
        flow.head(Section::Stacks.title(), &aside);
        let StacksInfo { allocated, .. } = *stacks;
        let (rows, (further, bytes, count)) = stacks.top(STACK_ROWS);
        for row in rows {
            flow.put(self.stack_row(row, Some(allocated), 0.0));
        }
        if 0 < further {
            let mut cells = vec![
                right(86.0, Bytes(bytes).to_string(), Ink::Text),
                right(58.0, share_of(bytes, allocated), Ink::WeakText),
                right(96.0, blocks(count), Ink::WeakText),
            ];
            cells.push(left(8.0, "", Ink::Text));
            let words = format!("{} further stacks", grouped(further));
            flow.put(What::Row { patch: Some(Patch::None), cells, rest: vec![(words, NORMAL, Ink::WeakText)] });
        }
    }

    fn pinned(&self, flow: &mut Flow) {
        let Some(pinned) = self.model.pinned.as_ref().filter(|pinned| !pinned.rows.is_empty()) else { return };
        flow.head(Section::Pinned.title(), "free memory of half-used segments, charged to the live blocks that keep it there");
        flow.keep(What::Words { runs: vec![(pinned.sentence.clone(), NORMAL, Ink::Text)], indent: 0.0, stroke: false });
        flow.keep(What::Space(6.0));
        for row in &pinned.rows {
            flow.put(self.stack_row(row, Some(pinned.bytes), 0.0));
        }
    }

    /// A stack's bytes, share, blocks and name; `of` is what it is a share of.
    fn stack_row(&self, row: &StackRow, of: Option<u64>, indent: f32) -> What {
        let patch = if self.material.inks.by() == ColourBy::Stack { Patch::Block(row.colour) } else { Patch::None };
        let mut cells = vec![right(86.0, Bytes(row.bytes).to_string(), Ink::Text)];
        cells.extend(of.map(|whole| right(58.0, share_of(row.bytes, whole), Ink::WeakText)));
        cells.push(right(96.0, blocks(row.count), Ink::WeakText));
        cells.push(left(8.0, "", Ink::Text));
        if 0.0 < indent {
            cells[0].width = 72.0;
            cells.insert(0, left(indent, "", Ink::Text));
        }
        let rest = vec![(format!("{}   ", row.place), NORMAL, Ink::Text), (row.callers.clone(), NORMAL, Ink::WeakText)];
        What::Row { patch: Some(patch).filter(|_| indent == 0.0), cells, rest }
    }

    fn flame(&self, flow: &mut Flow, heights: Heights) {
        if !self.shows(Section::Flame) {
            return;
        }
        let Some((drawing, cut)) = pictures::flame(self.material, self.inner(), heights.flame) else { return };
        let aside = format!(
            "allocated bytes {} by stack, outermost frame on top; as wide as what is live; one colour a stack, grey where several only pass through",
            self.model.moment.words
        );
        flow.head(Section::Flame.title(), &aside);
        flow.put(What::Picture { drawing, raster: None });
        if 0 < cut {
            let levels = if cut == 1 { "One deeper level has".to_owned() } else { format!("{cut} deeper levels have") };
            flow.words(format!("{levels} no room on this page."), SMALL, Ink::WeakText);
        }
    }

    fn states(&self, flow: &mut Flow) {
        let Some(states) = &self.model.states else { return };
        let same = states.moment.event == states.dump.event;
        let aside = match (same, self.model.failed()) {
            (true, _) => "the file was written at this moment".to_owned(),
            (false, true) => {
                "once an exception is caught, Python frees what its frames held: the dump tells little about the failure"
                    .to_owned()
            }
            (false, false) => format!("{} and when the file was written", self.model.moment.words),
        };
        flow.head(Section::States.title(), &aside);
        let column = |words: String, ink| right(130.0, words, ink);
        if !same {
            let moment = if self.model.failed() { "at the failure" } else { "at the moment" };
            let cells = vec![
                left(220.0, "", Ink::WeakText),
                column(moment.to_owned(), Ink::WeakText),
                column("at the dump".to_owned(), Ink::WeakText),
            ];
            flow.keep(What::Row { patch: None, cells, rest: Vec::new() });
        }
        for ((name, here, is_bytes), (_, there, _)) in states.moment.rows().into_iter().zip(states.dump.rows()) {
            let mut cells = vec![left(220.0, name, Ink::Text), column(value(here, is_bytes), Ink::Text)];
            if !same {
                cells.push(column(value(there, is_bytes), Ink::Text));
            }
            let exact = if is_bytes && 1024 <= here { format!("      {} bytes", grouped(here)) } else { String::new() };
            flow.put(What::Row { patch: None, cells, rest: vec![(exact, NORMAL, Ink::WeakText)] });
        }
    }

    fn summary(&self, flow: &mut Flow) {
        let Some(summary) = &self.model.memory_summary else { return };
        flow.head(Section::Summary.title(), &self.model.moment.words);
        for line in summary.lines() {
            flow.put(What::Words { runs: vec![(line.to_owned(), -SMALL, Ink::Text)], indent: 0.0, stroke: false });
        }
    }

    fn coverage(&self, flow: &mut Flow) {
        let gaps = self.model.coverage.iter().flatten().map(|gap| &gap.sentence).collect::<Vec<_>>();
        let warnings = self.model.warnings.iter().flatten().map(|warning| &warning.message).collect::<Vec<_>>();
        for (title, sentences) in [(Section::Coverage.title(), gaps), ("What was mended or left out", warnings)] {
            for (place, sentence) in sentences.into_iter().enumerate() {
                if place == 0 {
                    flow.head(title, "");
                }
                flow.words(format!("•  {sentence}"), NORMAL, Ink::Text);
                flow.put(What::Space(3.0));
            }
        }
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
            let shift = if cell.align == Align::Max { cell.width - galley.size().x } else { 0.0 };
            ui.painter().galley(at + vec2(x + shift, 0.0), galley, egui::Color32::PLACEHOLDER);
            x += cell.width + if cell.align == Align::Max { 12.0 } else { 0.0 };
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

fn left(width: f32, words: impl Into<String>, ink: Ink) -> Cell {
    Cell { width, words: words.into(), ink, align: Align::Min }
}
fn right(width: f32, words: impl Into<String>, ink: Ink) -> Cell {
    Cell { width, words: words.into(), ink, align: Align::Max }
}

/// A text of at most `limit` letters, its middle left out.
fn middle(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let (head, tail) = (limit / 2, limit - limit / 2 - 1);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}")
}

/// A text without what would move other text: control characters other than line ends.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Which blocks stand on which page: as many as have room, a block that is kept with the next one together with it.
fn cut(blocks: &[Block], heights: &[f32], room: f32) -> Vec<std::ops::Range<usize>> {
    let mut pages = Vec::new();
    let (mut from, mut used, mut at) = (0, 0.0, 0);
    while at < blocks.len() {
        let mut end = at;
        while end + 1 < blocks.len() && blocks[end].keep {
            end += 1;
        }
        let group: f32 = heights[at..=end].iter().sum();
        if from < at && room < used + group {
            pages.push(from..at);
            (from, used) = (at, 0.0);
        }
        // Space is for between blocks: a page does not begin with it.
        if from == at && matches!(blocks[at].what, What::Space(_)) && !pages.is_empty() {
            (from, at) = (at + 1, at + 1);
            continue;
        }
        used += group;
        at = end + 1;
    }
    if from < blocks.len() && blocks[from..].iter().any(|block| !matches!(block.what, What::Space(_))) {
        pages.push(from..blocks.len());
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_break_between_blocks_and_after_no_heading() {
        let block = |keep| Block { what: What::Rule, keep };
        let space = || Block { what: What::Space(10.0), keep: false };
        let keep = [false, true, false, true, true, false];
        let blocks: Vec<Block> = keep.into_iter().map(block).collect();
        for (heights, room, pages) in [
            ([10.0; 6], 100.0, vec![0..6]),
            ([10.0; 6], 30.0, vec![0..3, 3..6]),
            ([10.0; 6], 20.0, vec![0..1, 1..3, 3..6]),
            ([10.0, 10.0, 500.0, 1.0, 1.0, 1.0], 50.0, vec![0..1, 1..3, 3..6]),
        ] {
            assert_eq!(cut(&blocks, &heights, room), pages, "{heights:?} in {room}");
        }
        let spaced = vec![block(false), space(), block(false), space()];
        assert_eq!(cut(&spaced, &[30.0, 10.0, 30.0, 10.0], 30.0), vec![0..1, 2..3]);
        assert!(cut(&[], &[], 10.0).is_empty());
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        for (text, limit, short) in [("abc", 3, "abc"), ("abcdef", 5, "ab…ef"), ("äöüß", 3, "ä…ß"), ("", 2, "")] {
            assert_eq!(middle(text, limit), short);
        }
        assert_eq!((capitalised("likely"), capitalised("")), ("Likely".to_owned(), String::new()));
    }
}
