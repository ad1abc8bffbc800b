//! The page as a picture: words and drawings one below the other, on one tall page or cut into fixed ones.
//!
//! Always: it shows what the window would show, through the same charts and the same painter; it needs no display.
//! Nothing is cut off: a tall page grows until its content fits, and fixed pages break between blocks, a heading never
//! parted from what it heads. Three text sizes; red only for what failed. What the page says is
//! [`crate::report::page_model`]; here it only gets its places.

use crate::base::Progress;
use crate::chart::Palette;
use crate::model::{DeviceId, Position, Snapshot};
use crate::replay::Replay;
use crate::report::flow::cut;
use crate::report::material::Material;
use crate::report::page_model::PageModel;
use crate::report::report::{Pages, ReportError, ReportOptions, ReportSubject, Section};
use crate::report::sheet::{FOOT_PT, LEAST_WIDTH_PT, MARGIN_PT, Sheet, in_pixels};
use image::RgbaImage;

/// Heights of the pictures, where no page height asks for more.
const TIMELINE_PT: f32 = 280.0;
const CHARTS_PT: f32 = 250.0;
const LAYOUT_PT: f32 = 320.0;
const FLAME_PT: f32 = 306.0;
/// The tallest layout picture; a file with more groups than that holds says how many are left out.
const MOST_LAYOUT_PT: f32 = 4000.0;

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

/// One page with all that it is made from.
pub(super) struct Page<'a> {
    pub(super) model: PageModel,
    pub(super) material: &'a Material<'a>,
    pub(super) options: &'a ReportOptions,
    pub(super) palette: Palette,
    pub(super) scale: f32,
    pub(super) width: f32,
    pub(super) progress: &'a Progress,
}

/// Most heights of the pictures.
#[derive(Clone, Copy)]
pub(super) struct Heights {
    pub(super) timeline: f32,
    pub(super) charts: f32,
    pub(super) layout: f32,
    pub(super) most_layout: f32,
    pub(super) flame: f32,
}

impl Page<'_> {
    /// Width without margins.
    pub(super) fn inner(&self) -> f32 {
        self.width - 2.0 * MARGIN_PT
    }
    fn sheet(&self) -> Sheet {
        Sheet { palette: self.palette, scale: self.scale, width: self.width }
    }

    fn tall(&self, wanted: f32) -> Result<RgbaImage, ReportError> {
        let mut heights =
            Heights { timeline: TIMELINE_PT, charts: CHARTS_PT, layout: LAYOUT_PT, most_layout: MOST_LAYOUT_PT, flame: FLAME_PT };
        let mut flow = self.flow(heights)?;
        let mut used = self.sheet().height(&flow);
        if used < wanted {
            // What the layout does not take of its share goes to the picture over time.
            let has_timeline = self.shows(Section::Timeline) && self.material.memory.has_history();
            heights.layout += ((wanted - used) * if has_timeline { 0.6 } else { 1.0 }).floor();
            flow = self.flow(heights)?;
            used = self.sheet().height(&flow);
            if has_timeline {
                heights.timeline += (wanted - used).max(0.0).floor();
                flow = self.flow(heights)?;
                used = self.sheet().height(&flow);
            }
        }
        in_pixels(self.width, used, self.scale)?;
        self.sheet().paint(&flow, 0..flow.blocks.len(), used, &self.foot(None))
    }

    fn fixed(&self, height: f32) -> Result<Vec<RgbaImage>, ReportError> {
        let room = height - 2.0 * MARGIN_PT - FOOT_PT;
        // A picture shares its page with its heading and what explains it.
        let most = (room - 110.0).max(120.0);
        // On a low page the two pictures over time stand one below the other.
        let (timeline, charts) = if room < 800.0 { (235.0, 220.0) } else { (TIMELINE_PT, CHARTS_PT) };
        let flow =
            self.flow(Heights { timeline, charts, layout: LAYOUT_PT.min(most), most_layout: most, flame: FLAME_PT.min(most) })?;
        let pages = cut(&flow.blocks, &self.sheet().measure(&flow), room);
        let count = pages.len();
        let mut pictures = Vec::with_capacity(count);
        for (number, blocks) in pages.into_iter().enumerate() {
            self.progress.check()?;
            pictures.push(self.sheet().paint(&flow, blocks, height, &self.foot(Some((number + 1, count))))?);
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
}
