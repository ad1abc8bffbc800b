//! After a gap: what must have happened in it, so that the books are right again.
//!
//! Always: the events made up here lead from what the trace before the gap adds up to, to what the state behind it says
//! less the events between. They are as few as that takes; nobody saw them, and whoever asks for them says so.

use crate::base::RangeMap;
use crate::model::{Action, BlockState, PoolId, StackId, StreamId, Trace, TraceEntry};
use crate::replay::SegmentRecord;
use std::collections::BTreeMap;

/// What the books hold of a block.
#[derive(Clone, Copy)]
struct Block {
    /// What was asked for, where that is known.
    requested: Option<u64>,
    /// Given back, and still waiting.
    pending: bool,
    stream: StreamId,
    stack: StackId,
    pool: Option<PoolId>,
}

/// What the books hold of a reserved range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reserved {
    expandable: bool,
    stream: StreamId,
    stack: StackId,
    pool: Option<PoolId>,
}

/// What is live and what is reserved, by address.
struct Books {
    blocks: BTreeMap<u64, Block>,
    reserved: RangeMap<Reserved>,
}

/// The events that must have happened at row `gap` of a trace that began with `start` and has led to `state`.
pub(super) fn missing_events(
    trace: &Trace,
    gap: usize,
    start: &[SegmentRecord],
    state: &[SegmentRecord],
    time_us: Option<i64>,
) -> Vec<TraceEntry> {
    let rows = || trace.events().map(|event| trace.entry(event));
    let mut before = Books::of(start);
    for entry in rows().take(gap) {
        before.apply(&entry);
    }
    let mut after = Books::of(state);
    let requests_are_seen = trace.actions().contains(&Action::FreeRequested);
    for entry in rows().skip(gap).rev() {
        after.undo(&entry, requests_are_seen);
    }
    let mut events = before.until(&after, time_us);
    if !trace.has_pools() {
        for event in &mut events {
            event.pool = None;
        }
    }
    events
}

fn range_of(address: u64, size: u64) -> std::ops::Range<u64> {
    address..address.saturating_add(size)
}

impl Books {
    fn of(segments: &[SegmentRecord]) -> Books {
        let mut books = Books { blocks: BTreeMap::new(), reserved: RangeMap::new() };
        for segment in segments {
            let SegmentRecord { expandable, stream, stack, .. } = *segment;
            let pool = Some(segment.pool);
            if 0 < segment.size {
                books.reserved.insert(range_of(segment.address, segment.size), Reserved { expandable, stream, stack, pool });
            }
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                let Some(address) = block.address else { continue };
                let pending = block.state == BlockState::ActivePendingFree;
                let requested = Some(block.requested.unwrap_or(block.size));
                books.blocks.insert(address, Block { requested, pending, stream, stack: block.stack, pool });
            }
        }
        books
    }

    fn give(&mut self, entry: &TraceEntry, pending: bool) {
        let TraceEntry { stream, stack, pool, size, .. } = *entry;
        self.blocks.insert(entry.address, Block { requested: Some(size), pending, stream, stack, pool });
    }

    fn reserve(&mut self, entry: &TraceEntry) {
        let expandable = matches!(entry.action, Action::SegmentMap | Action::SegmentUnmap);
        let TraceEntry { stream, stack, pool, .. } = *entry;
        if 0 < entry.size {
            self.reserved.insert(range_of(entry.address, entry.size), Reserved { expandable, stream, stack, pool });
        }
    }

    fn apply(&mut self, entry: &TraceEntry) {
        match entry.action {
            Action::Alloc => self.give(entry, false),
            Action::FreeRequested => {
                if let Some(block) = self.blocks.get_mut(&entry.address) {
                    block.pending = true;
                }
            }
            Action::FreeCompleted => {
                self.blocks.remove(&entry.address);
            }
            Action::SegmentAlloc | Action::SegmentMap => self.reserve(entry),
            Action::SegmentFree | Action::SegmentUnmap => {
                self.reserved.cut(range_of(entry.address, entry.size));
            }
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => {}
        }
    }

    fn undo(&mut self, entry: &TraceEntry, requests_are_seen: bool) {
        match entry.action {
            Action::Alloc => {
                self.blocks.remove(&entry.address);
            }
            Action::FreeRequested => {
                if let Some(block) = self.blocks.get_mut(&entry.address) {
                    block.pending = false;
                }
            }
            Action::FreeCompleted => {
                // Who freed it is no answer to who allocated it.
                self.give(&TraceEntry { stack: StackId::ABSENT, ..*entry }, requests_are_seen);
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                self.reserved.cut(range_of(entry.address, entry.size));
            }
            Action::SegmentFree | Action::SegmentUnmap => self.reserve(&TraceEntry { stack: StackId::ABSENT, ..*entry }),
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => {}
        }
    }

    /// The fewest events that lead from these books to others.
    fn until(&self, after: &Books, time_us: Option<i64>) -> Vec<TraceEntry> {
        let event = |action, address, size, stream, stack, pool| TraceEntry {
            action,
            address,
            size,
            stream,
            time_us,
            stack,
            pool,
            compile_context: None,
            user_metadata: None,
        };
        let stays = |address: u64, block: &Block| {
            after.blocks.get(&address).is_some_and(|now| {
                let alike = block.requested.zip(now.requested).is_none_or(|(then, now)| then == now);
                alike && (!block.pending || now.pending)
            })
        };
        let mut events = Vec::new();
        for (address, block) in self.blocks.iter().filter(|(address, block)| !stays(**address, block)) {
            let gone = |action| event(action, *address, block.requested.unwrap_or(0), block.stream, StackId::ABSENT, block.pool);
            if !block.pending {
                events.push(gone(Action::FreeRequested));
            }
            events.push(gone(Action::FreeCompleted));
        }
        for (range, reserved) in self.reserved.iter() {
            let holes = after.reserved.holes(range.clone());
            let whole = holes == [range];
            for hole in holes {
                let action = if reserved.expandable || !whole { Action::SegmentUnmap } else { Action::SegmentFree };
                events.push(event(action, hole.start, hole.end - hole.start, reserved.stream, StackId::ABSENT, reserved.pool));
            }
        }
        for (range, reserved) in after.reserved.iter() {
            let action = if reserved.expandable { Action::SegmentMap } else { Action::SegmentAlloc };
            for hole in self.reserved.holes(range) {
                events.push(event(action, hole.start, hole.end - hole.start, reserved.stream, reserved.stack, reserved.pool));
            }
        }
        for (address, block) in &after.blocks {
            let born = |action| event(action, *address, block.requested.unwrap_or(0), block.stream, block.stack, block.pool);
            let known = self.blocks.get(address).filter(|then| stays(*address, then));
            if known.is_none() {
                events.push(born(Action::Alloc));
            }
            if block.pending && known.is_none_or(|then| !then.pending) {
                events.push(born(Action::FreeRequested));
            }
        }
        events
    }
}
