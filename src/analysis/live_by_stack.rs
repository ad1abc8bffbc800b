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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, Frame, StreamId, Trace, TraceEntry};
    use crate::replay::{Replay, SnapshotBuilder};

    /// One alloc a row at the stack named, all in one segment; the last row of `freed` waits for another stream.
    #[test]
    fn stacks_that_read_alike_are_one_and_pending_blocks_are_nobodys() {
        let mut builder = SnapshotBuilder::default();
        let name = builder.stacks.strings.intern("forward");
        let filename = builder.stacks.strings.intern("model.py");
        let key = builder.stacks.strings.intern("fx_node_op");
        let frame = Frame { name, filename, line: 7 };
        let plain = builder.stacks.intern_frame(frame);
        let annotated = builder.stacks.push_frame_with_extras(frame, &[(key, name)]);
        let stacks = [vec![plain], vec![annotated], vec![], vec![plain, plain]].map(|frames| builder.stacks.intern(&frames));
        let mut trace = Trace::default();
        let mut push = |action, address: u64, size, stack| {
            let address = (1 << 40) + address;
            let (stream, time_us, pool, compile_context, user_metadata) = (StreamId::DEFAULT, None, None, None, None);
            trace.push(TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata });
        };
        push(Action::SegmentAlloc, 0, 2 << 20, StackId::ABSENT);
        push(Action::Alloc, 0, 1000, stacks[0]);
        push(Action::Alloc, 1024, 512, stacks[1]);
        push(Action::Alloc, 1536, 100, stacks[2]);
        push(Action::Alloc, 2048, 512, StackId::ABSENT);
        push(Action::Alloc, 2560, 4096, stacks[3]);
        push(Action::FreeRequested, 2560, 4096, StackId::ABSENT);
        push(Action::Alloc, 8192, 512, StackId::ABSENT);
        push(Action::FreeRequested, 8192, 512, StackId::ABSENT);
        push(Action::FreeCompleted, 8192, 512, StackId::ABSENT);
        builder.device(0).trace = trace;
        let snapshot = builder.finish(Default::default(), &Progress::new()).expect("nobody cancels");
        let memory = &snapshot.devices.as_slice()[0];
        let state = Replay::new(memory).state_at(memory, memory.end());
        let live = LiveByStack::of(&state, &memory.allocations, &snapshot.stacks);
        let share = |stack, bytes, requested, count| StackShare { stack, bytes, requested, count };
        assert_eq!(live.shares, [share(stacks[0], 1536, 1512, 2), share(StackId::EMPTY, 1024, 612, 2)]);
        assert_eq!(live.shares.iter().map(|share| share.bytes).sum::<u64>(), state.totals.allocated);
        assert_eq!(state.totals.pending_free(), 4096);
    }
}
