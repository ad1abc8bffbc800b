//! A flame graph as SVG that a browser opens: hover shows bytes, click zooms, Ctrl+F searches.
//!
//! Always: branches lie as in the window, widest first, root on top; a frame has the colour of its file, because the
//! form knows one colour a name. Text is escaped by the writer; what XML cannot hold is left out of names.

use crate::analysis::flame::FlameLabel;
use crate::chart::flame_words::{empty_sentence, exact_value, heading};
use crate::chart::ink::text_hash;
use crate::chart::text::{file_name, short_path};
use crate::chart::{BlockColour, Ink, Palette};
use crate::report::flame::{FlameReport, FlameSubject};
use crate::report::folded;
use crate::report::report::{ReportError, ReportOptions};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, StrokeColor};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};
use std::io::Write;

/// The narrowest graph, in points: the writer's margins and its title must fit. A browser scales it.
const LEAST_WIDTH_PT: u32 = 320;

/// Writes SVG.
pub struct FlameSvg;

impl FlameReport for FlameSvg {
    fn name(&self) -> &'static str {
        "flame graph for browsers"
    }
    fn extension(&self) -> &'static str {
        "svg"
    }
    fn write(&self, subject: &FlameSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let of = subject.tree.params.of;
        let lines: Vec<String> = folded::lines(subject)
            .into_iter()
            .filter_map(|(line, value)| u64::try_from(value).ok().map(|value| format!("{line} {value}")))
            .collect();
        if lines.is_empty() {
            // The form has no word for an empty graph.
            let sentence = empty_sentence(of);
            writeln!(
                out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"60\"><text x=\"20\" y=\"36\" \
                 font-family=\"sans-serif\" font-size=\"16\">{sentence}</text></svg>"
            )?;
            return Ok(());
        }
        // Its text is black whatever the theme.
        let palette = Palette::LIGHT;
        let mut colours = colours(subject, palette);
        let mut svg = Options::default();
        svg.title = xml_safe(&format!("{}: {}", short_path(file_name(&subject.snapshot.origin.name), 80), heading(of)));
        svg.subtitle = Some(format!("{}, {}", subject.device, exact_value(of, subject.tree.root().value)));
        svg.count_name = "bytes".to_owned();
        svg.name_type = "Frame:".to_owned();
        svg.image_width = Some(options.width_pt.max(LEAST_WIDTH_PT) as usize);
        svg.direction = Direction::Inverted;
        svg.text_truncate_direction = TextTruncateDirection::Right;
        svg.font_type = "sans-serif".to_owned();
        svg.frame_height = 18;
        svg.bgcolors = Some(BackgroundColor::Flat(colour(palette, Ink::Background)));
        svg.stroke_color = StrokeColor::Color(colour(palette, Ink::Background));
        svg.uicolor = colour(palette, Ink::Text);
        // Only as a chart over time lines may stand in the tree's order; such a chart is read from its end.
        svg.flame_chart = true;
        svg.palette_map = Some(&mut colours);
        svg.deterministic = true;
        flamegraph::from_lines(&mut svg, lines.iter().rev().map(String::as_str), out)?;
        Ok(())
    }
}

/// The colour of each name.
fn colours(subject: &FlameSubject<'_>, palette: Palette) -> PaletteMap {
    let stacks = &subject.snapshot.stacks;
    let mut colours = PaletteMap::default();
    // The whole, which has no name.
    colours.insert("", colour(palette, Ink::Shared));
    for node in subject.tree.nodes.as_slice() {
        let block = match node.label {
            FlameLabel::All => continue,
            FlameLabel::NoStack => BlockColour::NoStack,
            FlameLabel::Frame(frame) => BlockColour::Stack(text_hash(stacks.file(frame))),
        };
        colours.insert(folded::name(stacks, node.label), colour(palette, Ink::Block(block)));
    }
    colours
}

fn colour(palette: Palette, ink: Ink) -> Color {
    let [r, g, b, _] = palette.rgba(ink);
    Color { r, g, b }
}

/// A text without what XML cannot hold even escaped.
fn xml_safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { ' ' } else { c }).collect()
}
