//! Which block lives a question is about.
//!
//! Always: a life is allocated at the positions `born <= p < freed`. The births of a window are those made by the
//! events that lead from the state at its start to the state at its end: `from < born <= to`. So, in bytes,
//! requested bytes and numbers alike: kept + gone = live at `from`; kept + grown = live at `to`;
//! born = grown + born and freed. What is older than the trace was born in no window.

use crate::analysis::query::{Asked, Query};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, Allocations, DeviceMemory, Position};
use crate::replay::Replay;

/// A set of block lives. Moments in the wrong order are put in order, and those behind the trace are its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// Allocated at a moment.
    Live {
        /// The moment.
        at: Position,
    },
    /// Born in a window.
    Born {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
    },
    /// Born in a window and no longer allocated at its end.
    BornAndFreed {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
    },
    /// Born in a window and still allocated at its end.
    Grown {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
    },
    /// Allocated at both ends of a window: born by its start and still there at its end.
    Kept {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
    },
    /// Allocated at the start of a window and no longer at its end.
    Gone {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
    },
    /// Born in a window and still allocated at a moment after it.
    Lasting {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
        /// The moment.
        at: Position,
    },
}

impl Which {
    /// The same set with its moments in order and inside a trace that ends at `end`.
    #[must_use]
    pub fn within(self, end: Position) -> Which {
        let ordered = |a: Position, b: Position| (a.min(b).min(end), a.max(b).min(end));
        match self {
            Which::Live { at } => Which::Live { at: at.min(end) },
            Which::Born { from, to } => {
                let (from, to) = ordered(from, to);
                Which::Born { from, to }
            }
            Which::BornAndFreed { from, to } => {
                let (from, to) = ordered(from, to);
                Which::BornAndFreed { from, to }
            }
            Which::Grown { from, to } => {
                let (from, to) = ordered(from, to);
                Which::Grown { from, to }
            }
            Which::Kept { from, to } => {
                let (from, to) = ordered(from, to);
                Which::Kept { from, to }
            }
            Which::Gone { from, to } => {
                let (from, to) = ordered(from, to);
                Which::Gone { from, to }
            }
            Which::Lasting { from, to, at } => {
                let mut moments = [from.min(end), to.min(end), at.min(end)];
                moments.sort_unstable();
                let [from, to, at] = moments;
                Which::Lasting { from, to, at }
            }
        }
    }
    /// Whether a life is in the set, by the positions at which it begins and ceases to be allocated.
    pub fn has(self, born: Position, freed: Position) -> bool {
        let live = |at: Position| born <= at && at < freed;
        let born_in = |from: Position, to: Position| from < born && born <= to;
        match self {
            Which::Live { at } => live(at),
            Which::Born { from, to } => born_in(from, to),
            Which::BornAndFreed { from, to } => born_in(from, to) && freed <= to,
            Which::Grown { from, to } => born_in(from, to) && to < freed,
            Which::Kept { from, to } => live(from) && live(to),
            Which::Gone { from, to } => live(from) && !live(to),
            Which::Lasting { from, to, at } => born_in(from, to) && live(at),
        }
    }
    /// Calls `visit` with each life of the set, in order of birth.
    pub fn visit(
        self,
        memory: &DeviceMemory,
        replay: &Replay,
        progress: &Progress,
        mut visit: impl FnMut(AllocationId),
    ) -> Result<(), Cancelled> {
        /// Lives between two looks at the progress.
        const STEP: usize = 1 << 16;
        let which = self.within(memory.end());
        let lives = &memory.allocations;
        let mut of = |ids: &mut dyn ExactSizeIterator<Item = AllocationId>| {
            progress.stage("looking through the allocations", ids.len() as u64)?;
            for (done, id) in ids.enumerate() {
                if done % STEP == 0 {
                    progress.at(done as u64)?;
                }
                if which.has(lives.born()[id.row()], lives.freed()[id.row()]) {
                    visit(id);
                }
            }
            Ok(())
        };
        match which {
            Which::Live { at: from } | Which::Kept { from, .. } | Which::Gone { from, .. } => {
                let mut ids = Vec::new();
                replay.live_at(memory, from, &mut ids);
                of(&mut ids.into_iter())
            }
            Which::Born { from, to }
            | Which::BornAndFreed { from, to }
            | Which::Grown { from, to }
            | Which::Lasting { from, to, .. } => of(&mut (lives.born_by(from)..lives.born_by(to)).map(AllocationId::of_row)),
        }
    }
}

/// Sums over some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSum {
    /// Their sizes, in bytes.
    pub bytes: u64,
    /// What the program asked for, in bytes.
    pub requested: u64,
    /// Their number.
    pub count: u64,
}

impl BlockSum {
    /// One block.
    pub fn one(lives: &Allocations, id: AllocationId) -> BlockSum {
        BlockSum { bytes: lives.sizes()[id.row()], requested: lives.requested()[id.row()], count: 1 }
    }
    /// Puts others to it.
    pub fn add(&mut self, other: BlockSum) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requested = self.requested.saturating_add(other.requested);
        self.count += other.count;
    }
}

/// The sums of several sets, in the order asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSums(pub Vec<BlockSum>);

impl Query for SetSums {
    const NAME: &'static str = "sums of sets";
    type Params = Vec<Which>;
    type Answer = SetSums;

    fn answer(asked: &Asked<'_>, sets: &Vec<Which>, progress: &Progress) -> Result<SetSums, Cancelled> {
        let lives = &asked.memory().allocations;
        let sum = |which: &Which| {
            let mut sum = BlockSum::default();
            which.visit(asked.memory(), asked.replay(), progress, |id| sum.add(BlockSum::one(lives, id)))?;
            Ok(sum)
        };
        Ok(SetSums(sets.iter().map(sum).collect::<Result<_, Cancelled>>()?))
    }
}

impl HeapSize for SetSums {
    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every short life against every window: the sets divide one another as their definitions say.
    #[test]
    fn sets_divide_one_another() {
        const END: u32 = 7;
        let positions = || (0..=END).map(Position);
        for (from, to) in positions().flat_map(|from| positions().map(move |to| (from, to))) {
            let set = |which: Which| which.within(Position(END));
            for (born, freed) in positions().flat_map(|born| (born.0..=END + 1).map(move |freed| (born, Position(freed)))) {
                let has = |which: Which| u32::from(set(which).has(born, freed));
                let (low, high) = (from.min(to), from.max(to));
                let place = format!("{born:?}..{freed:?} in {from:?}..{to:?}");
                let kept = has(Which::Kept { from, to });
                assert_eq!(kept + has(Which::Gone { from, to }), has(Which::Live { at: low }), "{place}");
                assert_eq!(kept + has(Which::Grown { from, to }), has(Which::Live { at: high }), "{place}");
                let born_in = has(Which::Born { from, to });
                assert_eq!(has(Which::Grown { from, to }) + has(Which::BornAndFreed { from, to }), born_in, "{place}");
                assert_eq!(has(Which::Lasting { from, to, at: high }), has(Which::Grown { from, to }), "{place}");
                for at in (high.0..=END).map(Position) {
                    let lasting = has(Which::Lasting { from, to, at });
                    assert_eq!(lasting, born_in & has(Which::Live { at }), "{place}, {at:?}");
                }
            }
        }
    }

    #[test]
    fn moments_are_ordered_and_end_with_the_trace() {
        let (a, b, c, end) = (Position(9), Position(2), Position(5), Position(7));
        for (which, within) in [
            (Which::Live { at: a }, Which::Live { at: end }),
            (Which::Born { from: a, to: b }, Which::Born { from: b, to: end }),
            (Which::Gone { from: c, to: b }, Which::Gone { from: b, to: c }),
            (Which::Lasting { from: a, to: b, at: c }, Which::Lasting { from: b, to: c, at: end }),
        ] {
            assert_eq!(which.within(end), within);
            assert_eq!(within.within(end), within);
        }
    }
}
