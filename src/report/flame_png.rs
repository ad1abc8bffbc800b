//! A flame graph as a picture, painted by the one painter: what the window shows, on paper.
//!
//! Always: nothing is cut off; the picture is as high as the graph, up to a limit that it names, and no lower than asked for.

use crate::chart::flame::{self, FlameColour, FlameInks, FlameInput, LEVEL_PT};
use crate::chart::flame_words::{exact_value, heading};
use crate::chart::text::{file_name, short_path};
use crate::chart::{Anchor, Area, Drawing, Fit, Ink, Palette, Shape, TextSize};
use crate::paint;
use crate::report::flame::{FlameReport, FlameSubject};
use crate::report::png;
use crate::report::report::{ReportError, ReportOptions};
use std::io::Write;

/// Writes PNG.
pub struct FlamePng;

/// Space around everything, in points.
const MARGIN_PT: f32 = 16.0;
/// Height of the heading.
const HEADING_PT: f32 = 50.0;
/// The narrowest picture on which the heading has its room.
const LEAST_WIDTH_PT: f32 = 640.0;
/// The highest graph; what lies deeper is counted in a sentence.
const MOST_GRAPH_PT: f32 = 500.0 * LEVEL_PT;
/// Most pixels, in millions.
const MOST_MEGAPIXELS: u64 = 100;

impl FlameReport for FlamePng {
    fn name(&self) -> &'static str {
        "picture"
    }
    fn extension(&self) -> &'static str {
        "png"
    }
    fn write(&self, subject: &FlameSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let drawing = lay_out(subject, (options.width_pt as f32).max(LEAST_WIDTH_PT), options.height_pt as f32);
        let scale = if options.scale.is_finite() { options.scale.clamp(0.25, 8.0) } else { 1.0 };
        let pixels = |points: f32| (points * scale).round() as u64;
        let (width, height) = (pixels(drawing.width_pt), pixels(drawing.height_pt));
        if MOST_MEGAPIXELS * 1_000_000 < width * height {
            return Err(ReportError::TooLarge { width, height, limit: MOST_MEGAPIXELS });
        }
        let canvas = paint::picture(&drawing, scale, Palette { theme: options.theme });
        let rgb: Vec<u8> = canvas.pixels.iter().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        png::encode_rgb(canvas.width as u32, &rgb, out)
    }
}

/// The heading and the whole graph below it.
fn lay_out(subject: &FlameSubject<'_>, width: f32, least_height: f32) -> Drawing {
    let (tree, stacks) = (subject.tree, &subject.snapshot.stacks);
    let inks = FlameInks::new(stacks, FlameColour::Stack);
    let inner = width - 2.0 * MARGIN_PT;
    let most = (tree.levels() as f32 * LEVEL_PT).clamp(4.0 * LEVEL_PT, MOST_GRAPH_PT);
    // What is too narrow to be drawn is often the deepest: the first layout tells the height that is needed.
    let needed = flame::draw(&FlameInput::whole(tree, stacks, &inks, inner, most)).content_height_pt;
    let graph = flame::draw(&FlameInput::whole(tree, stacks, &inks, inner, needed.clamp(4.0 * LEVEL_PT, MOST_GRAPH_PT)));
    let cut = (needed - MOST_GRAPH_PT).max(0.0) / LEVEL_PT;
    let below = if 0.0 < cut { 24.0 } else { 0.0 };
    let height = MARGIN_PT * 2.0 + HEADING_PT + graph.drawing.height_pt + below;
    let mut page = Drawing::new(width, height.max(least_height));
    page.push(Shape::Box(Area::new(0.0, 0.0, page.width_pt, page.height_pt)), Ink::Background);
    let of = tree.params.of;
    let title = format!("{}: {}", short_path(file_name(&subject.snapshot.origin.name), 80), heading(of));
    let room = Fit::Shorten(inner);
    page.text([MARGIN_PT, MARGIN_PT], Anchor::LeftTop, TextSize::Large, title, Ink::Text, room);
    let words = if of.is_difference() {
        "orange grew, blue shrank; as wide as what moved"
    } else {
        "root on top; one colour a stack, grey where several only pass through"
    };
    let sums = format!("{}, {}      {words}", subject.device, exact_value(of, tree.root().value));
    page.text([MARGIN_PT, MARGIN_PT + 23.0], Anchor::LeftTop, TextSize::Normal, sums, Ink::WeakText, room);
    page.append(graph.drawing, MARGIN_PT, MARGIN_PT + HEADING_PT);
    if 0.0 < cut {
        let sentence = format!("{cut:.0} deeper levels have no room in this picture; the window and the other forms hold them.");
        let at = [MARGIN_PT, page.height_pt - MARGIN_PT];
        page.text(at, Anchor::LeftCentre, TextSize::Normal, sentence, Ink::WeakText, room);
    }
    page
}
