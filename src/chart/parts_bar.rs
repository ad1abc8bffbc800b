//! One bar of all bytes, part after part, as wide as what each holds.
//!
//! Always: the parts stand in their order and fill the bar exactly where they add up to the whole; a part that is not
//! empty is at least a point wide, at the cost of the widest.

use crate::chart::drawing::{Area, Drawing, Shape};
use crate::chart::ink::{BlockColour, Ink};
use crate::model::BlockState;

/// How a part looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartLook {
    /// Memory in use.
    Live,
    /// What rounding added to it.
    Rounding,
    /// Given back, still waiting.
    Pending,
    /// Free, and of use.
    Usable,
    /// Free, but too small.
    TooSmall,
    /// Free, but for others.
    Trapped,
    /// Held by others.
    Outside,
    /// Never taken from the driver.
    Untouched,
}

impl PartLook {
    /// The ink it is filled with, and that of the hatching on it.
    pub const fn inks(self) -> (Ink, Option<Ink>) {
        match self {
            PartLook::Live => (Ink::Block(BlockColour::State(BlockState::ActiveAllocated)), None),
            PartLook::Rounding => (Ink::Rounding(BlockColour::State(BlockState::ActiveAllocated)), None),
            PartLook::Pending => (Ink::Block(BlockColour::State(BlockState::ActivePendingFree)), None),
            PartLook::Usable => (Ink::Annotation(false), None),
            PartLook::TooSmall => (Ink::Background, Some(Ink::TooSmall)),
            PartLook::Trapped => (Ink::Annotation(true), Some(Ink::TooSmall)),
            PartLook::Outside => (Ink::WeakText, None),
            PartLook::Untouched => (Ink::Background, None),
        }
    }
    /// A patch of it, for a legend.
    pub fn patch(self, area: Area, drawing: &mut Drawing) {
        let (fill, hatch) = self.inks();
        drawing.push(Shape::Box(area), fill);
        if let Some(hatch) = hatch {
            drawing.push(Shape::Hatch(area), hatch);
        }
        if fill == Ink::Background {
            drawing.push(Shape::Outline(area, 1.0), Ink::SegmentBorder);
        }
    }
}

/// Lays out the bar over its whole size.
pub fn draw(parts: &[(PartLook, u64)], width_pt: f32, height_pt: f32) -> Drawing {
    let mut drawing = Drawing::new(width_pt, height_pt);
    let mut x = 0.0;
    for ((look, _), width) in parts.iter().zip(widths(parts, width_pt)) {
        if 0.0 < width {
            let right = if 3.0 < width { x + width - 1.0 } else { x + width };
            look.patch(Area::new(x, 0.0, right, height_pt), &mut drawing);
        }
        x += width;
    }
    drawing
}

/// The width of each part, in points.
fn widths(parts: &[(PartLook, u64)], width_pt: f32) -> Vec<f32> {
    let sum = parts.iter().fold(0u128, |sum, (_, bytes)| sum + u128::from(*bytes)).max(1) as f64;
    let share = |bytes: u64| (bytes as f64 / sum * f64::from(width_pt)) as f32;
    let mut widths: Vec<f32> = parts.iter().map(|(_, bytes)| if *bytes == 0 { 0.0 } else { share(*bytes).max(1.0) }).collect();
    let too_much = widths.iter().sum::<f32>() - width_pt;
    let widest = widths.iter_mut().max_by(|a, b| a.total_cmp(b));
    if let Some(widest) = widest.filter(|widest| 0.0 < too_much && too_much < **widest) {
        *widest -= too_much;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_bar_and_none_vanishes() {
        for (bytes, expected) in [
            (&[50, 50][..], &[50.0, 50.0][..]),
            (&[0, 10, 30], &[0.0, 25.0, 75.0]),
            (&[1_000_000, 1, 0, 1], &[98.0, 1.0, 0.0, 1.0]),
            (&[0, 0], &[0.0, 0.0]),
            (&[u64::MAX, u64::MAX], &[50.0, 50.0]),
        ] {
            let parts: Vec<_> = bytes.iter().map(|bytes| (PartLook::Live, *bytes)).collect();
            let widths = widths(&parts, 100.0);
            assert!(widths.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{bytes:?}: {widths:?}");
        }
    }
}
