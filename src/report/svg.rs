//! A drawing as inline SVG for a page that a browser shows.
//!
//! Always: colours are named by number and defined once a page for light and dark; all text is escaped; the widths of
//! letters are the browser's, so what must fit is measured generously.

use crate::chart::{Anchor, Area, Drawing, Fit, Ink, Mark, Palette, Shape, TextSize};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

/// The inks of a page, each with a number.
#[derive(Clone, Debug, Default)]
pub struct Colours {
    rows: FxHashMap<Ink, usize>,
    inks: Vec<Ink>,
    /// Inks that hatch something.
    hatches: Vec<usize>,
}

impl Colours {
    /// How an ink is named in an attribute.
    pub fn name(&mut self, ink: Ink) -> String {
        format!("var(--c{})", self.row(ink))
    }
    fn row(&mut self, ink: Ink) -> usize {
        let inks = &mut self.inks;
        *self.rows.entry(ink).or_insert_with(|| {
            inks.push(ink);
            inks.len() - 1
        })
    }
    /// The definitions of all names for one theme.
    pub fn css(&self, palette: Palette) -> String {
        let mut css = String::new();
        for (row, ink) in self.inks.iter().enumerate() {
            let _ = write!(css, "--c{row}:{};", value(*ink, palette));
        }
        css
    }
    /// The hatchings, for all pictures of the page.
    pub fn patterns(&self) -> String {
        let mut defs = String::from("<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>");
        for row in &self.hatches {
            let _ = write!(
                defs,
                "<pattern id=\"h{row}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
                 <path d=\"M-1 6L6 -1M-1 1L1 -1M4 6L6 4\" stroke=\"var(--c{row})\" fill=\"none\"/></pattern>"
            );
        }
        defs.push_str("</defs></svg>");
        defs
    }
}

/// The value of an ink as CSS has it.
pub fn value(ink: Ink, palette: Palette) -> String {
    let [r, g, b, a] = palette.rgba(ink);
    let alpha = if a == 255 { String::new() } else { format!("{a:02x}") };
    format!("#{r:02x}{g:02x}{b:02x}{alpha}")
}

/// A drawing as an `svg` element. `raster` holds the addresses of its raster in light and dark, where it has one.
pub fn svg(drawing: &Drawing, name: &str, colours: &mut Colours, raster: Option<[&str; 2]>) -> String {
    let (width, height) = (drawing.width_pt, drawing.height_pt);
    let mut out =
        format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", number(width), number(height), escaped(name));
    // Boxes of one ink in a row are one path.
    let mut boxes = Boxes::default();
    for mark in &drawing.marks {
        match &mark.shape {
            Shape::Box(area) => boxes.add(mark.ink, *area, colours, &mut out),
            Shape::Columns { x0, step, base, tops } => {
                for (column, top) in tops.iter().enumerate() {
                    let left = x0 + step * column as f32;
                    boxes.add(mark.ink, Area::new(left, *top, left + step, *base), colours, &mut out);
                }
            }
            _ => {
                boxes.flush(colours, &mut out);
                one(mark, colours, raster, &mut out);
            }
        }
    }
    boxes.flush(colours, &mut out);
    out.push_str("</svg>");
    out
}

#[derive(Default)]
struct Boxes {
    ink: Option<Ink>,
    path: String,
}

impl Boxes {
    fn add(&mut self, ink: Ink, area: Area, colours: &mut Colours, out: &mut String) {
        if area.width() <= 0.0 || area.height() <= 0.0 {
            return;
        }
        if self.ink != Some(ink) {
            self.flush(colours, out);
            self.ink = Some(ink);
        }
        let (width, height) = (number(area.width()), number(area.height()));
        let _ = write!(self.path, "M{} {}h{width}v{height}h-{width}z", number(area.x0), number(area.y0));
    }
    fn flush(&mut self, colours: &mut Colours, out: &mut String) {
        if let Some(ink) = self.ink.take() {
            let _ = write!(out, "<path fill=\"{}\" d=\"{}\"/>", colours.name(ink), self.path);
            self.path.clear();
        }
    }
}

fn one(mark: &Mark, colours: &mut Colours, raster: Option<[&str; 2]>, out: &mut String) {
    let row = colours.row(mark.ink);
    match &mark.shape {
        Shape::Box(_) | Shape::Columns { .. } => {}
        Shape::Outline(area, width) => {
            let inner = area.shrink(width / 2.0);
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"var(--c{row})\" stroke-width=\"{}\"/>",
                number(inner.x0),
                number(inner.y0),
                number(inner.width()),
                number(inner.height()),
                number(*width)
            );
        }
        Shape::Hatch(area) => {
            if !colours.hatches.contains(&row) {
                colours.hatches.push(row);
            }
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#h{row})\"/>",
                number(area.x0),
                number(area.y0),
                number(area.width()),
                number(area.height())
            );
        }
        Shape::Line(points, width) | Shape::Dashed(points, width) => {
            let dashes = if matches!(mark.shape, Shape::Dashed(..)) { " stroke-dasharray=\"6 4\"" } else { "" };
            let _ = write!(
                out,
                "<polyline fill=\"none\" stroke=\"var(--c{row})\" stroke-width=\"{}\"{dashes} points=\"{}\"/>",
                number(*width),
                pairs(points)
            );
        }
        Shape::Triangle(corners) => {
            let _ = write!(out, "<polygon fill=\"var(--c{row})\" points=\"{}\"/>", pairs(corners));
        }
        Shape::Text { at, anchor, size, text, fit } => {
            let Some(words) = fitted(text, *size, *fit) else { return };
            let (anchor, shift) = match anchor {
                Anchor::LeftCentre => ("start", ".35em"),
                Anchor::Centre => ("middle", ".35em"),
                Anchor::RightCentre => ("end", ".35em"),
                Anchor::LeftTop => ("start", ".9em"),
                Anchor::CentreTop => ("middle", ".9em"),
                Anchor::RightTop => ("end", ".9em"),
            };
            let _ = write!(
                out,
                "<text x=\"{}\" y=\"{}\" dy=\"{shift}\" text-anchor=\"{anchor}\" font-size=\"{}\" fill=\"var(--c{row})\">{}</text>",
                number(at[0]),
                number(at[1]),
                number(size.points() * 0.95),
                escaped(&words)
            );
        }
        // The raster of a page shows exactly the window it was made for.
        Shape::Raster { area, .. } => {
            for (address, theme) in raster.into_iter().flatten().zip(["light", "dark"]) {
                let _ = write!(
                    out,
                    "<image class=\"{theme}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" href=\"{address}\"/>",
                    number(area.x0),
                    number(area.y0),
                    number(area.width()),
                    number(area.height())
                );
            }
        }
    }
}

/// What of a text is shown; none where it has no room.
fn fitted(text: &str, size: TextSize, fit: Fit) -> Option<String> {
    let (room, shorten) = match fit {
        Fit::Always => return Some(text.to_owned()),
        Fit::OrNothing(room) => (room, false),
        Fit::Shorten(room) => (room, true),
    };
    let width = |text: &str| text.chars().map(letter).sum::<f32>() * size.points();
    if width(text) <= room {
        return Some(text.to_owned());
    }
    if !shorten {
        return None;
    }
    let room = room / size.points() - letter('…');
    let mut used = 0.0;
    let kept: String = text
        .chars()
        .take_while(|c| {
            used += letter(*c);
            used <= room
        })
        .collect();
    (!kept.is_empty()).then(|| format!("{kept}…"))
}

/// The width of a letter in heights, as a usual sans serif has it or a little more.
fn letter(c: char) -> f32 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' => 0.30,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '[' | ']' | '/' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.92,
        'A'..='Z' | '_' | '<' | '>' | '+' | '=' => 0.68,
        c if c.is_ascii() => 0.58,
        _ => 1.05,
    }
}

fn pairs(points: &[[f32; 2]]) -> String {
    let mut text = String::new();
    for [x, y] in points {
        let _ = write!(text, "{}{},{}", if text.is_empty() { "" } else { " " }, number(*x), number(*y));
    }
    text
}

/// Two decimals at most, no zeros at the end; what is no number is 0.
fn number(value: f32) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A text that is safe between tags and in attributes: markup is escaped, and what would control the page's text
/// (control characters, marks that turn the direction of writing) is a space.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        for (text, safe) in [
            ("<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
            ("a & \"b\"", "a &amp; &quot;b&quot;"),
            ("x\u{202e}gpj\0\u{1b}\u{ffff}", "x gpj   "),
            ("模型 β\n", "模型 β\n"),
        ] {
            assert_eq!(escaped(text), safe);
        }
    }

    #[test]
    fn texts_fit_or_are_shortened() {
        for (fit, shown) in [
            (Fit::Always, Some("forward mlp.py")),
            (Fit::OrNothing(20.0), None),
            (Fit::OrNothing(200.0), Some("forward mlp.py")),
            (Fit::Shorten(40.0), Some("forw…")),
            (Fit::Shorten(3.0), None),
        ] {
            assert_eq!(fitted("forward mlp.py", TextSize::Small, fit).as_deref(), shown, "{fit:?}");
        }
    }

    #[test]
    fn drawings_become_elements() {
        let mut drawing = Drawing::new(10.0, 5.5);
        drawing.push(Shape::Box(Area::new(0.0, 0.0, 1.0, 2.0)), Ink::Grid);
        drawing.push(Shape::Box(Area::new(1.0, 0.0, 2.5, 2.0)), Ink::Grid);
        drawing.push(Shape::Hatch(Area::new(1.0, 0.0, 2.0, 2.0)), Ink::TooSmall);
        drawing.push(Shape::Line(vec![[0.0, 1.0], [2.0, f32::NAN]], 1.5), Ink::Oom);
        drawing.text([1.0, 1.0], Anchor::Centre, TextSize::Small, "<a>", Ink::Text, Fit::Always);
        let mut colours = Colours::default();
        let svg = svg(&drawing, "a \"b\"", &mut colours, None);
        for part in [
            "<svg viewBox=\"0 0 10 5.5\" role=\"img\" aria-label=\"a &quot;b&quot;\">",
            "<path fill=\"var(--c0)\" d=\"M0 0h1v2h-1zM1 0h1.5v2h-1.5z\"/>",
            "fill=\"url(#h1)\"",
            "points=\"0,1 2,0\"",
            ">&lt;a&gt;</text></svg>",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(colours.patterns().contains("<pattern id=\"h1\""));
        assert!(colours.css(Palette::LIGHT).contains("--c2:#c81e1e;"), "{}", colours.css(Palette::LIGHT));
    }
}
