//! A picture in plain numbers: what a chart lays out and what the one painter paints.
//!
//! Always: coordinates are points from the drawing's top left corner, y down; later marks lie on top of
//! earlier ones; a drawing holds at most [`MAX_MARKS`] marks (what would be more boxes than that comes
//! as one raster). Colours are meanings ([`Ink`]), never values.

use crate::base::grouped;
use crate::chart::ink::Ink;
use crate::model::Item;
use std::fmt::Write as _;

/// The most marks a drawing holds; a chart that has more to say aggregates.
pub const MAX_MARKS: usize = 20_000;

/// A rectangle in points (or, as a texture cut-out, in fractions of the texture).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x0: f32,
    /// Top edge.
    pub y0: f32,
    /// Right edge.
    pub x1: f32,
    /// Bottom edge.
    pub y1: f32,
}

impl Area {
    /// An area from its edges: left, top, right, bottom.
    pub const fn new(x0: f32, y0: f32, x1: f32, y1: f32) -> Area {
        Area { x0, y0, x1, y1 }
    }
    /// Width, never negative.
    pub fn width(self) -> f32 {
        (self.x1 - self.x0).max(0.0)
    }
    /// Height, never negative.
    pub fn height(self) -> f32 {
        (self.y1 - self.y0).max(0.0)
    }
    /// Whether a point lies in it (left and top edge included).
    pub fn contains(self, x: f32, y: f32) -> bool {
        self.x0 <= x && x < self.x1 && self.y0 <= y && y < self.y1
    }
    /// What two areas share; of zero size where they do not meet.
    pub fn intersect(self, other: Area) -> Area {
        let (x0, y0) = (self.x0.max(other.x0), self.y0.max(other.y0));
        Area { x0, y0, x1: self.x1.min(other.x1).max(x0), y1: self.y1.min(other.y1).max(y0) }
    }
    /// The area without a margin on all sides.
    pub fn shrink(self, margin: f32) -> Area {
        Area::new(self.x0 + margin, self.y0 + margin, self.x1 - margin, self.y1 - margin)
    }
}

/// Where a text's anchor point lies in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Left edge, vertically centred.
    LeftCentre,
    /// Centre of the text.
    Centre,
    /// Right edge, vertically centred.
    RightCentre,
    /// Left edge, top.
    LeftTop,
    /// Horizontally centred, top.
    CentreTop,
    /// Right edge, top.
    RightTop,
}

/// The three text sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSize {
    /// Axis labels and what stands inside boxes: 11 points.
    Small,
    /// Normal text: 13 points.
    Normal,
    /// Headings: 16 points.
    Large,
}

impl TextSize {
    /// Height in points.
    pub const fn points(self) -> f32 {
        match self {
            TextSize::Small => 11.0,
            TextSize::Normal => 13.0,
            TextSize::Large => 16.0,
        }
    }
}

/// What happens to a text that is wider than its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fit {
    /// It is painted all the same.
    Always,
    /// It is left out if wider than this many points.
    OrNothing(f32),
    /// Its end is replaced by an ellipsis so that it is at most this many points wide.
    Shorten(f32),
}

/// Which finished raster a mark shows; whoever paints hands over one texture a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RasterSlot {
    /// The visible window, freshly rastered.
    Window,
    /// The whole trace, rastered once: shown under the window's raster while that is on its way.
    Whole,
}

/// A shape, in points.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Box(Area),
    /// The inside border of a rectangle.
    Outline(Area, f32),
    /// Diagonal lines inside a rectangle.
    Hatch(Area),
    /// A line through points, of a width.
    Line(Vec<[f32; 2]>, f32),
    /// A line through points, of a width, dashed.
    Dashed(Vec<[f32; 2]>, f32),
    /// Columns of equal width side by side, each filled from `base` up to its top.
    Columns {
        /// Left edge of the first.
        x0: f32,
        /// Width of each.
        step: f32,
        /// Lower edge of all.
        base: f32,
        /// Upper edge of each.
        tops: Vec<f32>,
    },
    /// A filled triangle.
    Triangle([[f32; 2]; 3]),
    /// A text.
    Text {
        /// The anchor point.
        at: [f32; 2],
        /// Where in the text the anchor point lies.
        anchor: Anchor,
        /// Its size.
        size: TextSize,
        /// What it says; one line.
        text: String,
        /// What to do if it does not fit.
        fit: Fit,
    },
    /// A part of a finished raster.
    Raster {
        /// Which raster.
        slot: RasterSlot,
        /// Where it goes.
        area: Area,
        /// Which part of it, in fractions of its width and height.
        uv: Area,
    },
}

/// A shape with its meaning and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The shape.
    pub shape: Shape,
    /// What its colour means.
    pub ink: Ink,
    /// What a click on it selects.
    pub item: Option<Item>,
}

/// A laid-out picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Width in points.
    pub width_pt: f32,
    /// Height in points.
    pub height_pt: f32,
    /// The marks, the lowest first.
    pub marks: Vec<Mark>,
}

impl Drawing {
    /// An empty drawing of a size in points.
    pub fn new(width_pt: f32, height_pt: f32) -> Drawing {
        Drawing { width_pt, height_pt, marks: Vec::new() }
    }
    /// Adds a mark that stands for nothing; dropped once the drawing is full.
    pub fn push(&mut self, shape: Shape, ink: Ink) {
        self.push_item(shape, ink, None);
    }
    /// Adds a mark that stands for `item`; dropped once the drawing is full.
    pub fn push_item(&mut self, shape: Shape, ink: Ink, item: Option<Item>) {
        if self.marks.len() < MAX_MARKS {
            self.marks.push(Mark { shape, ink, item });
        }
    }
    /// Adds a line of text.
    pub fn text(&mut self, at: [f32; 2], anchor: Anchor, size: TextSize, text: impl Into<String>, ink: Ink, fit: Fit) {
        self.push(Shape::Text { at, anchor, size, text: text.into(), fit }, ink);
    }
    /// Adds another drawing's marks, its top left corner at a point of this one.
    pub fn append(&mut self, other: Drawing, x: f32, y: f32) {
        for Mark { shape, ink, item } in other.marks {
            self.push_item(shape.moved(x, y), ink, item);
        }
    }
    /// What lies topmost under a point: the item of the last mark that covers it and stands for something.
    pub fn pick(&self, x: f32, y: f32) -> Option<Item> {
        self.marks.iter().rev().find_map(|mark| mark.item.filter(|_| mark.shape.covers(x, y)))
    }
    /// The drawing as text, one mark a line, for golden tests.
    pub fn dump(&self) -> String {
        let mut out =
            format!("drawing {:.0} x {:.0}, {} marks\n", self.width_pt, self.height_pt, grouped(self.marks.len() as u64));
        for mark in &self.marks {
            let _ = write!(out, "{} {:?}", mark.shape.dump(), mark.ink);
            if let Some(item) = mark.item {
                let _ = write!(out, " = {item:?}");
            }
            out.push('\n');
        }
        out
    }
}

impl Shape {
    /// The shape further right and down by so many points.
    pub fn moved(self, x: f32, y: f32) -> Shape {
        let area = |a: Area| Area::new(a.x0 + x, a.y0 + y, a.x1 + x, a.y1 + y);
        let point = |p: [f32; 2]| [p[0] + x, p[1] + y];
        let line = |points: Vec<[f32; 2]>| points.into_iter().map(point).collect();
        match self {
            Shape::Box(a) => Shape::Box(area(a)),
            Shape::Outline(a, width) => Shape::Outline(area(a), width),
            Shape::Hatch(a) => Shape::Hatch(area(a)),
            Shape::Line(points, width) => Shape::Line(line(points), width),
            Shape::Dashed(points, width) => Shape::Dashed(line(points), width),
            Shape::Columns { x0, step, base, tops } => {
                let tops = tops.into_iter().map(|top| top + y).collect();
                Shape::Columns { x0: x0 + x, step, base: base + y, tops }
            }
            Shape::Triangle(corners) => Shape::Triangle(corners.map(point)),
            Shape::Text { at, anchor, size, text, fit } => Shape::Text { at: point(at), anchor, size, text, fit },
            Shape::Raster { slot, area: a, uv } => Shape::Raster { slot, area: area(a), uv },
        }
    }
    fn covers(&self, x: f32, y: f32) -> bool {
        match self {
            Shape::Box(area) | Shape::Outline(area, _) | Shape::Hatch(area) | Shape::Raster { area, .. } => area.contains(x, y),
            // Lines are thin: a point within 4 points of one counts as on it.
            Shape::Line(points, _) | Shape::Dashed(points, _) => {
                points.windows(2).any(|ends| distance(ends[0], ends[1], [x, y]) <= 4.0)
            }
            Shape::Columns { x0, step, base, tops } => {
                let column = (x - x0) / step;
                0.0 <= column && tops.get(column as usize).is_some_and(|top| *top <= y && y < *base)
            }
            Shape::Triangle(corners) => {
                let (xs, ys) = (corners.map(|c| c[0]), corners.map(|c| c[1]));
                let bounds = Area::new(min(xs), min(ys), max(xs), max(ys));
                bounds.contains(x, y)
            }
            Shape::Text { .. } => false,
        }
    }
    fn dump(&self) -> String {
        let points =
            |points: &[[f32; 2]]| points.iter().map(|p| format!("{},{}", tidy(p[0]), tidy(p[1]))).collect::<Vec<_>>().join(" ");
        match self {
            Shape::Box(area) => format!("box {}", edges(*area)),
            Shape::Outline(area, width) => format!("outline {} width {}", edges(*area), tidy(*width)),
            Shape::Hatch(area) => format!("hatch {}", edges(*area)),
            Shape::Line(line, width) => format!("line {} width {}", points(line), tidy(*width)),
            Shape::Dashed(line, width) => format!("dashed {} width {}", points(line), tidy(*width)),
            Shape::Columns { x0, step, base, tops } => {
                let tops = tops.iter().map(|top| tidy(*top)).collect::<Vec<_>>().join(" ");
                format!("columns from {} step {} base {} tops {tops}", tidy(*x0), tidy(*step), tidy(*base))
            }
            Shape::Triangle(corners) => format!("triangle {}", points(corners)),
            Shape::Text { at, anchor, size, text, fit } => {
                format!("text {text:?} at {},{} {anchor:?} {size:?} {fit:?}", tidy(at[0]), tidy(at[1]))
            }
            Shape::Raster { slot, area, uv } => {
                format!("raster {slot:?} {} uv {:.3} {:.3} {:.3} {:.3}", edges(*area), uv.x0, uv.y0, uv.x1, uv.y1)
            }
        }
    }
}

fn min(values: [f32; 3]) -> f32 {
    values.into_iter().fold(f32::INFINITY, f32::min)
}
fn max(values: [f32; 3]) -> f32 {
    values.into_iter().fold(f32::NEG_INFINITY, f32::max)
}
fn edges(area: Area) -> String {
    format!("{},{} {},{}", tidy(area.x0), tidy(area.y0), tidy(area.x1), tidy(area.y1))
}
/// One decimal, none where it would be zero.
fn tidy(value: f32) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0".to_owned(),
        whole => whole.to_owned(),
    }
}
fn distance(a: [f32; 2], b: [f32; 2], p: [f32; 2]) -> f32 {
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let length = dx * dx + dy * dy;
    let along = if length <= 0.0 { 0.0 } else { (((p[0] - a[0]) * dx + (p[1] - a[1]) * dy) / length).clamp(0.0, 1.0) };
    (p[0] - a[0] - along * dx).hypot(p[1] - a[1] - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EventIdx;

    #[test]
    fn the_topmost_item_is_picked() {
        let item = |n| Some(Item::Event(EventIdx(n)));
        let mut drawing = Drawing::new(100.0, 100.0);
        drawing.push_item(Shape::Box(Area::new(0.0, 0.0, 50.0, 50.0)), Ink::Grid, item(1));
        drawing.push_item(Shape::Box(Area::new(20.0, 20.0, 50.0, 50.0)), Ink::Grid, item(2));
        drawing.push(Shape::Box(Area::new(30.0, 30.0, 50.0, 50.0)), Ink::Grid);
        drawing.push_item(Shape::Line(vec![[60.0, 0.0], [60.0, 90.0]], 1.0), Ink::Grid, item(3));
        drawing.push_item(Shape::Columns { x0: 70.0, step: 10.0, base: 90.0, tops: vec![80.0, 20.0] }, Ink::Grid, item(4));
        for (x, y, picked) in [
            (1.0, 1.0, item(1)),
            (25.0, 25.0, item(2)),
            (40.0, 40.0, item(2)),
            (49.0, 50.0, None),
            (58.0, 30.0, item(3)),
            (75.0, 50.0, None),
            (85.0, 50.0, item(4)),
            (95.0, 50.0, None),
        ] {
            assert_eq!(drawing.pick(x, y), picked, "{x},{y}");
        }
    }

    #[test]
    fn an_appended_drawing_lies_where_it_was_put() {
        let mut inner = Drawing::new(10.0, 10.0);
        let item = Some(Item::Event(EventIdx(1)));
        inner.push_item(Shape::Box(Area::new(1.0, 2.0, 3.0, 4.0)), Ink::Grid, item);
        inner.push(Shape::Columns { x0: 0.0, step: 1.0, base: 9.0, tops: vec![5.0] }, Ink::Grid);
        inner.text([1.0, 1.0], Anchor::LeftTop, TextSize::Small, "x", Ink::Text, Fit::Always);
        let mut outer = Drawing::new(100.0, 100.0);
        outer.append(inner, 10.0, 20.0);
        assert_eq!((outer.pick(12.0, 23.0), outer.pick(2.0, 3.0)), (item, None));
        let dump = outer.dump();
        for line in ["box 11,22 13,24", "columns from 10 step 1 base 29 tops 25", "text \"x\" at 11,21"] {
            assert!(dump.contains(line), "{line} in {dump}");
        }
    }

    #[test]
    fn a_drawing_never_grows_beyond_its_limit() {
        let mut drawing = Drawing::new(1.0, 1.0);
        for _ in 0..MAX_MARKS + 5 {
            drawing.push(Shape::Box(Area::default()), Ink::Grid);
        }
        assert_eq!(drawing.marks.len(), MAX_MARKS);
    }
}
