//! After a gap: what must have happened in it, so that the books are right again.
//!
//! Always: the events made up here lead from what the trace adds up to, to what the state says. They are as few as
//! that takes; nobody saw them, and whoever asks for them says so.

use crate::base::RangeMap;
use crate::model::{Action, BlockState, EventIdx, StackId, Trace, TraceEntry};
use crate::replay::SegmentRecord;
use std::collections::BTreeMap;

/// What the books hold.
#[derive(Default)]
struct Books {
    /// Live blocks by address: what was asked for, where that is known, and whether it was given back.
    blocks: BTreeMap<u64, (Option<u64>, bool)>,
    /// Reserved ranges; whether they can grow.
    reserved: RangeMap<bool>,
}

/// The events that must have happened between a trace (begun at `start`) and `state`.
pub(super) fn missing_events(
    trace: &Trace,
    start: &[SegmentRecord],
    state: &[SegmentRecord],
    time_us: Option<i64>,
) -> Vec<TraceEntry> {
    let books = Books::after(trace, start);
    let mut events = Vec::new();
    let blank = TraceEntry {
        action: Action::Unknown,
        address: 0,
        size: 0,
        stream: crate::model::StreamId::DEFAULT,
        time_us,
        stack: StackId::ABSENT,
        pool: None,
        compile_context: None,
        user_metadata: None,
    };
    let stated: BTreeMap<u64, (Option<u64>, BlockState)> = state
        .iter()
        .flat_map(|segment| &segment.blocks)
        .filter(|block| block.state != BlockState::Inactive)
        .filter_map(|block| Some((block.address?, (block.requested, block.state))))
        .collect();
    let same = |address: u64, requested: Option<u64>, freed: bool| {
        stated.get(&address).is_some_and(|(now, state)| {
            let alike = requested.zip(*now).is_none_or(|(before, now)| before == now);
            alike && (!freed || *state == BlockState::ActivePendingFree)
        })
    };
    for (address, (requested, freed)) in &books.blocks {
        if !same(*address, *requested, *freed) {
            let gone = TraceEntry { address: *address, size: requested.unwrap_or(0), ..blank };
            if !freed {
                events.push(TraceEntry { action: Action::FreeRequested, ..gone });
            }
            events.push(TraceEntry { action: Action::FreeCompleted, ..gone });
        }
    }
    let mut wanted = RangeMap::new();
    for segment in state {
        wanted.insert(segment.address..segment.address.saturating_add(segment.size), segment.expandable);
    }
    for (range, expandable) in books.reserved.iter() {
        let whole = wanted.holes(range.clone()) == [range.clone()];
        for hole in wanted.holes(range) {
            let action = if expandable || !whole { Action::SegmentUnmap } else { Action::SegmentFree };
            events.push(TraceEntry { action, address: hole.start, size: hole.end - hole.start, ..blank });
        }
    }
    for segment in state {
        let of_segment = TraceEntry { stream: segment.stream, pool: Some(segment.pool), stack: segment.stack, ..blank };
        let range = segment.address..segment.address.saturating_add(segment.size);
        for hole in books.reserved.holes(range) {
            let action = if segment.expandable { Action::SegmentMap } else { Action::SegmentAlloc };
            events.push(TraceEntry { action, address: hole.start, size: hole.end - hole.start, ..of_segment });
        }
        for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
            let Some(address) = block.address else { continue };
            let before = books.blocks.get(&address).copied().filter(|(requested, freed)| same(address, *requested, *freed));
            let of_block = TraceEntry { address, size: block.requested.unwrap_or(block.size), stack: block.stack, ..of_segment };
            if before.is_none() {
                events.push(TraceEntry { action: Action::Alloc, ..of_block });
            }
            if block.state == BlockState::ActivePendingFree && before.is_none_or(|(_, freed)| !freed) {
                events.push(TraceEntry { action: Action::FreeRequested, ..of_block });
            }
        }
    }
    if !trace.has_pools() {
        for event in &mut events {
            event.pool = None;
        }
    }
    events
}

impl Books {
    fn after(trace: &Trace, start: &[SegmentRecord]) -> Books {
        let mut books = Books::default();
        for segment in start {
            books.reserved.insert(segment.address..segment.address.saturating_add(segment.size), segment.expandable);
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                if let Some(address) = block.address {
                    books.blocks.insert(address, (block.requested, block.state == BlockState::ActivePendingFree));
                }
            }
        }
        for event in trace.events() {
            let EventIdx(row) = event;
            let (address, size) = (trace.addresses()[row as usize], trace.sizes()[row as usize]);
            let range = address..address.saturating_add(size);
            match trace.actions()[row as usize] {
                Action::Alloc => {
                    books.blocks.insert(address, (Some(size), false));
                }
                Action::FreeRequested => {
                    if let Some(block) = books.blocks.get_mut(&address) {
                        block.1 = true;
                    }
                }
                Action::FreeCompleted => {
                    books.blocks.remove(&address);
                }
                Action::SegmentAlloc if !range.is_empty() => {
                    books.reserved.insert(range, false);
                }
                Action::SegmentMap if !range.is_empty() => {
                    books.reserved.insert(range, true);
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    books.reserved.cut(range);
                }
                _ => {}
            }
        }
        books
    }
}
