//! The pictures of a comparison, as drawings: one source for PNG and HTML.
//!
//! Always: they are the window's own charts.

use crate::analysis::{AlignBy, Curve, UsageTimeline};
use crate::base::Bytes;
use crate::chart::flame::{self, FlameColour, FlameInks, FlameInput, LEVEL_PT};
use crate::chart::overlay::{self, OverlayInput, OverlaySide};
use crate::chart::paired_bars::{self, PairedBarsInput};
use crate::chart::{Clock, Drawing, TimeAxis, Unit};
use crate::report::diff_model::{ClassInfo, Compared};

/// Allocated and reserved of both sides over events, aligned at their beginnings; none where neither has a history.
pub fn timelines(compared: &Compared<'_>, width_pt: f32, height_pt: f32) -> Option<Drawing> {
    let sides = [&compared.a, &compared.b];
    if sides.iter().all(|side| !side.memory().has_history()) {
        return None;
    }
    let clocks = sides.map(|side| Clock::new(&side.memory().trace, TimeAxis::Events));
    let anchors = compared.anchors(AlignBy::Start);
    let upper = (height_pt * 0.55).round();
    let mut drawing = Drawing::new(width_pt, height_pt);
    let plots: [(&str, fn(&UsageTimeline) -> &Curve); 2] =
        [("allocated", |curves| &curves.allocated), ("reserved", |curves| &curves.reserved)];
    for (row, (name, curve)) in plots.into_iter().enumerate() {
        let side = |place: usize| OverlaySide {
            curve: curve(sides[place].curves),
            clock: &clocks[place],
            anchor: anchors[place],
            at: sides[place].at,
        };
        let (axis, height_pt) = if row == 0 { (false, upper) } else { (true, height_pt - upper) };
        let plot = overlay::draw(&OverlayInput { name, sides: [side(0), side(1)], window: 0.0..0.0, axis, width_pt, height_pt });
        drawing.append(plot, 0.0, upper * row as f32);
    }
    Some(drawing)
}

/// What moved, as a flame graph of at most `most` points of height, and how many levels have no room; none where nothing
/// moved.
pub fn flame(compared: &Compared<'_>, width_pt: f32, most: f32) -> Option<(Drawing, u32)> {
    let (tree, stacks) = (&compared.flame, &compared.diff.stacks);
    if tree.is_empty() {
        return None;
    }
    let inks = FlameInks::new(stacks, FlameColour::Stack);
    let whole = (tree.levels() as f32 * LEVEL_PT).clamp(LEVEL_PT, 500.0 * LEVEL_PT);
    let needed = flame::draw(&FlameInput::whole(tree, stacks, &inks, width_pt, whole)).content_height_pt;
    let height = needed.clamp(LEVEL_PT, (most / LEVEL_PT).floor().max(1.0) * LEVEL_PT);
    let drawn = flame::draw(&FlameInput::whole(tree, stacks, &inks, width_pt, height));
    Some((drawn.drawing, ((needed - height).max(0.0) / LEVEL_PT).round() as u32))
}

/// Two histograms side by side: gaps and segments by size, both sides; none where there are no segments.
pub fn bars(gaps: &[ClassInfo], segments: &[ClassInfo], width_pt: f32, height_pt: f32) -> Option<Drawing> {
    if segments.is_empty() {
        return None;
    }
    let half = (width_pt / 2.0).floor();
    let mut drawing = Drawing::new(width_pt, height_pt);
    for (place, (title, rows)) in
        [("bytes in gaps, by the size of the gap", gaps), ("bytes in segments, by the size of the segment", segments)]
            .into_iter()
            .enumerate()
    {
        let bars: Vec<(String, [u64; 2])> =
            rows.iter().map(|row| (Bytes(row.from).to_string(), [row.bytes_a, row.bytes_b])).collect();
        let input = PairedBarsInput { title, bars: &bars, unit: Unit::Bytes, hovered: None, width_pt: half - 8.0, height_pt };
        drawing.append(paired_bars::draw(&input), (half + 8.0) * place as f32, 0.0);
    }
    Some(drawing)
}
