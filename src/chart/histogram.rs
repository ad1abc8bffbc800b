//! A histogram by powers of two: one bar a bucket, labelled by where the bucket begins.
//!
//! Always: bars stand on zero and in equal widths; a bucket that holds anything is at least one point high.

use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::Ink;
use crate::chart::series::{Unit, value_ticks};

/// What a histogram shows.
#[derive(Clone, Debug)]
pub struct HistogramInput<'a> {
    /// What the buckets are of, in a few words.
    pub title: &'a str,
    /// Where each bucket begins, as people read it, and what it holds.
    pub bars: &'a [(String, u64)],
    /// What is counted.
    pub unit: Unit,
    /// The colour of bars.
    pub ink: Ink,
    /// The bar the pointer is on.
    pub hovered: Option<usize>,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points.
    pub height_pt: f32,
}

const LEFT_PT: f32 = 62.0;
const TOP_PT: f32 = 22.0;
const BOTTOM_PT: f32 = 18.0;
/// Room a label under the bars takes.
const LABEL_PT: f32 = 62.0;

/// The plot without its labels.
fn plot(input: &HistogramInput<'_>) -> Area {
    Area::new(LEFT_PT, TOP_PT, (input.width_pt - 8.0).max(LEFT_PT), (input.height_pt - BOTTOM_PT).max(TOP_PT))
}

/// The bar of a column of points.
pub fn bar_at(input: &HistogramInput<'_>, x: f32, y: f32) -> Option<usize> {
    let plot = plot(input);
    if !plot.contains(x, y) || input.bars.is_empty() {
        return None;
    }
    let place = ((x - plot.x0) / plot.width() * input.bars.len() as f32) as usize;
    (place < input.bars.len()).then_some(place)
}

/// Lays it out.
pub fn draw(input: &HistogramInput<'_>) -> Drawing {
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let plot = plot(input);
    drawing.text([LEFT_PT, 4.0], Anchor::LeftTop, TextSize::Small, input.title, Ink::WeakText, Fit::Shorten(plot.width()));
    if plot.width() < 1.0 || plot.height() < 1.0 || input.bars.is_empty() {
        return drawing;
    }
    drawing.push(Shape::Box(plot), Ink::Background);
    let most = input.bars.iter().map(|(_, value)| *value).max().unwrap_or(0);
    let top = (most as f64 * 1.05).max(1.0);
    for tick in value_ticks(input.unit, 0.0..top, plot.height()) {
        let y = plot.y1 - (tick.at / top) as f32 * plot.height();
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let fit = Fit::OrNothing(LEFT_PT - 6.0);
        drawing.text([plot.x0 - 6.0, y], Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, fit);
    }
    let step = plot.width() / input.bars.len() as f32;
    let every = (LABEL_PT / step).ceil().max(1.0) as usize;
    for (place, (label, value)) in input.bars.iter().enumerate() {
        let x = plot.x0 + step * place as f32;
        if 0 < *value {
            let height = ((*value as f64 / top) as f32 * plot.height()).max(1.0);
            let gap = (step * 0.1).min(2.0);
            let bar = Area::new(x + gap, plot.y1 - height, x + step - gap, plot.y1);
            drawing.push(Shape::Box(bar), input.ink);
            if input.hovered == Some(place) {
                drawing.push(Shape::Outline(bar, 1.0), Ink::Hovered);
            }
        }
        if place.is_multiple_of(every) {
            drawing.push(Shape::Line(vec![[x, plot.y1], [x, plot.y1 + 3.0]], 1.0), Ink::AxisText);
            let fit = Fit::OrNothing(LABEL_PT);
            drawing.text([x, plot.y1 + 4.0], Anchor::LeftTop, TextSize::Small, label.clone(), Ink::AxisText, fit);
        }
    }
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_that_holds_anything_is_seen_and_found() {
        let bars: Vec<(String, u64)> = [1, 0, 1_000_000, 3].into_iter().map(|value| (format!("from {value}"), value)).collect();
        let input = HistogramInput {
            title: "sizes",
            bars: &bars,
            unit: Unit::Count,
            ink: Ink::Usage,
            hovered: None,
            width_pt: 270.0,
            height_pt: 120.0,
        };
        let boxes: Vec<Area> = draw(&input)
            .marks
            .iter()
            .filter_map(|mark| match mark.shape {
                Shape::Box(area) if mark.ink == Ink::Usage => Some(area),
                _ => None,
            })
            .collect();
        assert_eq!(boxes.len(), 3, "the empty bucket has no bar");
        assert!(boxes.iter().all(|bar| 1.0 <= bar.height()), "{boxes:?}");
        for (bar, place) in boxes.iter().zip([0, 2, 3]) {
            assert_eq!(bar_at(&input, (bar.x0 + bar.x1) / 2.0, 60.0), Some(place));
        }
        assert_eq!(bar_at(&input, 10.0, 60.0), None, "left of the plot");
        for (width_pt, height_pt) in [(0.0, 0.0), (70.0, 10.0), (5000.0, 2000.0)] {
            draw(&HistogramInput { width_pt, height_pt, ..input.clone() });
            draw(&HistogramInput { bars: &[], width_pt, height_pt, ..input.clone() });
        }
    }
}
