//! Two histograms as one: for each class a bar of A and a bar of B, side by side.
//!
//! Always: bars stand on zero; a class that holds anything is at least one point high; A is blue and B orange.

use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::overlay::{INK_A, INK_B};
use crate::chart::series::{Unit, value_ticks};

/// What it shows.
#[derive(Clone, Debug)]
pub struct PairedBarsInput<'a> {
    /// What the classes are of.
    pub title: &'a str,
    /// The name of each class, with its values in A and in B.
    pub bars: &'a [(String, [u64; 2])],
    /// What is counted.
    pub unit: Unit,
    /// The class the pointer is on.
    pub hovered: Option<usize>,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points.
    pub height_pt: f32,
}

const LEFT_PT: f32 = 62.0;
const TOP_PT: f32 = 22.0;
const BOTTOM_PT: f32 = 18.0;
const LABEL_PT: f32 = 62.0;

fn plot(input: &PairedBarsInput<'_>) -> Area {
    Area::new(LEFT_PT, TOP_PT, (input.width_pt - 8.0).max(LEFT_PT), (input.height_pt - BOTTOM_PT).max(TOP_PT))
}

/// The class under a point.
pub fn bar_at(input: &PairedBarsInput<'_>, x: f32, y: f32) -> Option<usize> {
    let plot = plot(input);
    if !plot.contains(x, y) || input.bars.is_empty() {
        return None;
    }
    let place = ((x - plot.x0) / plot.width() * input.bars.len() as f32) as usize;
    (place < input.bars.len()).then_some(place)
}

/// Lays it out.
pub fn draw(input: &PairedBarsInput<'_>) -> Drawing {
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let plot = plot(input);
    drawing.text([LEFT_PT, 4.0], Anchor::LeftTop, TextSize::Small, input.title, Ink::WeakText, Fit::Shorten(plot.width()));
    if plot.width() < 1.0 || plot.height() < 1.0 || input.bars.is_empty() {
        return drawing;
    }
    drawing.push(Shape::Box(plot), Ink::Background);
    let most = input.bars.iter().flat_map(|(_, values)| values).copied().max().unwrap_or(0);
    let top = (most as f64 * 1.05).max(1.0);
    for tick in value_ticks(input.unit, 0.0..top, plot.height()) {
        let y = plot.y1 - (tick.at / top) as f32 * plot.height();
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let fit = Fit::OrNothing(LEFT_PT - 6.0);
        drawing.text([plot.x0 - 6.0, y], Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, fit);
    }
    let step = plot.width() / input.bars.len() as f32;
    let every = (LABEL_PT / step).ceil().max(1.0) as usize;
    for (place, (label, values)) in input.bars.iter().enumerate() {
        let x = plot.x0 + step * place as f32;
        let gap = (step * 0.12).min(6.0);
        let half = (step - 2.0 * gap) / 2.0;
        for (side, (value, ink)) in values.iter().zip([INK_A, INK_B]).enumerate() {
            if 0 < *value {
                let height = ((*value as f64 / top) as f32 * plot.height()).max(1.0);
                let left = x + gap + half * side as f32;
                drawing.push(Shape::Box(Area::new(left, plot.y1 - height, left + half, plot.y1)), ink);
            }
        }
        if input.hovered == Some(place) {
            drawing.push(Shape::Outline(Area::new(x, plot.y0, x + step, plot.y1), 1.0), Ink::Hovered);
        }
        if place % every == 0 {
            let at = [x + step / 2.0, plot.y1 + 4.0];
            drawing.text(at, Anchor::CentreTop, TextSize::Small, label, Ink::AxisText, Fit::OrNothing(step * every as f32));
        }
    }
    drawing.push(Shape::Line(vec![[plot.x0, plot.y1], [plot.x1, plot.y1]], 1.0), Ink::SegmentBorder);
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_its_bar() {
        let bars = [("1.00 MiB".to_owned(), [4, 0]), ("2.00 MiB".to_owned(), [1, 8])];
        let (title, unit) = ("gaps", Unit::Count);
        let input = PairedBarsInput { title, bars: &bars, unit, hovered: None, width_pt: 270.0, height_pt: 140.0 };
        let drawing = draw(&input);
        let count = |ink| drawing.marks.iter().filter(|mark| mark.ink == ink && matches!(mark.shape, Shape::Box(_))).count();
        assert_eq!((count(INK_A), count(INK_B)), (2, 1));
        assert_eq!([70.0, 200.0, 300.0].map(|x| bar_at(&input, x, 60.0)), [Some(0), Some(1), None]);
    }
}
