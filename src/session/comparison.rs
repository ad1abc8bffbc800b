//! The window's comparison of two moments: the tables, what moved as a flame graph, and its colours, as one answer.
//!
//! Always: tree and tables are of one comparison, however fast the moments change.

use crate::analysis::{Asked, DiffParams, FlameDirection, FlameTree, Query, SnapshotDiff};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::chart::{FlameColour, FlameInks};
use crate::report::diff_model::flame_of;

/// Asks for a comparison with the baseline; without one, of two moments of one recording.
pub struct ComparisonOf;

/// A comparison as the window shows it.
pub struct Comparison {
    /// Its tables.
    pub diff: SnapshotDiff,
    /// What moved, by stack.
    pub flame: FlameTree,
    /// The colours of its frames.
    pub inks: FlameInks,
}

impl Query for ComparisonOf {
    const NAME: &'static str = "comparison";
    /// The moments, and whether frames of the framework are folded in the flame graph.
    type Params = (DiffParams, bool);
    type Answer = Comparison;

    fn answer(asked: &Asked<'_>, (params, fold): &Self::Params, progress: &Progress) -> Result<Comparison, Cancelled> {
        let diff = SnapshotDiff::answer(asked, params, progress)?;
        let flame = flame_of(&diff, [params.at_a, params.at_b], FlameDirection::TopDown, *fold, progress)?;
        let inks = FlameInks::new(&diff.stacks, FlameColour::Stack);
        Ok(Comparison { diff, flame, inks })
    }
}

impl HeapSize for Comparison {
    fn heap_size(&self) -> usize {
        self.diff.heap_size() + self.flame.heap_size() + self.diff.stacks.len() * size_of::<u32>()
    }
}
