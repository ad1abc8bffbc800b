//! Who holds the memory at a moment: allocated blocks grouped by the stack that asked for them.
//!
//! Always: the groups' bytes add up to `allocated` at that moment, blocks without a stack included as one
//! group with [`StackId::EMPTY`]; blocks pending free belong to nobody and are left out. Two groups never
//! show the same frames. Largest group first; equal ones by stack id.

use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{Allocations, BlockState, Frame, Position, StackId, StackTable};
use crate::replay::MemoryState;
use rustc_hash::FxHashMap;

/// What one stack holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackShare {
    /// The stack; [`StackId::EMPTY`] for all blocks without one.
    pub stack: StackId,
    /// Sizes of its blocks, in bytes.
    pub bytes: u64,
    /// What the program asked for, in bytes.
    pub requested: u64,
    /// Number of its blocks.
    pub count: u64,
}

/// Allocated memory at a moment by stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveByStack {
    /// One row a stack, largest first.
    pub shares: Vec<StackShare>,
}

impl LiveByStack {
    /// Groups the allocated blocks of a state.
    pub fn of(state: &MemoryState, allocations: &Allocations, stacks: &StackTable) -> LiveByStack {
        let mut by_stack: FxHashMap<StackId, StackShare> = FxHashMap::default();
        for block in state.blocks.iter().filter(|block| block.state == BlockState::ActiveAllocated) {
            let stack = block.allocation.map_or(StackId::EMPTY, |id| allocations.stacks()[id.0 as usize]);
            let stack = if stacks.frames(stack).is_empty() { StackId::EMPTY } else { stack };
            let share = by_stack.entry(stack).or_insert(StackShare { stack, bytes: 0, requested: 0, count: 0 });
            share.bytes = share.bytes.saturating_add(block.size);
            share.requested = share.requested.saturating_add(block.requested);
            share.count += 1;
        }
        let mut rows: Vec<StackShare> = by_stack.into_values().collect();
        rows.sort_unstable_by_key(|share| share.stack);
        // Frames that differ only in extra keys (`fx_node_op` …) have ids of their own but read alike.
        let mut seen: FxHashMap<Vec<Frame>, usize> = FxHashMap::default();
        let mut shares: Vec<StackShare> = Vec::with_capacity(rows.len());
        for row in rows {
            let frames = stacks.frames(row.stack).iter().map(|frame| stacks.frame(*frame)).collect();
            let place = *seen.entry(frames).or_insert(shares.len());
            match shares.get_mut(place) {
                Some(known) => {
                    known.bytes = known.bytes.saturating_add(row.bytes);
                    known.requested = known.requested.saturating_add(row.requested);
                    known.count += row.count;
                }
                None => shares.push(row),
            }
        }
        shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.stack));
        LiveByStack { shares }
    }
}

impl Query for LiveByStack {
    const NAME: &'static str = "live bytes by stack";
    type Params = Position;
    type Answer = LiveByStack;

    fn answer(asked: &Asked<'_>, position: &Position, progress: &Progress) -> Result<LiveByStack, Cancelled> {
        let state = asked.replay().state_at(asked.memory(), *position);
        progress.check()?;
        Ok(LiveByStack::of(&state, &asked.memory().allocations, &asked.subject.snapshot.stacks))
    }
}

impl HeapSize for LiveByStack {
    fn heap_size(&self) -> usize {
        self.shares.heap_size()
    }
}
