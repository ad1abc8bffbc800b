//! `state_at` against a replay that anybody can check by reading: plain maps, one event at a time.
//!
//! The naive replay knows nothing of lives, checkpoints or inferred sizes. It takes what the file holds at the
//! end and undoes the recorded events from the last to the first, address by address. Block sizes are not
//! recorded in events, so they are the one thing taken from the allocation table.

use crate::samples;
use fragscope::analysis::UsageTimeline;
use fragscope::model::{Action, BlockState, DeviceMemory, Position, Snapshot, TraceEntry};
use fragscope::replay::MemoryState;
use std::collections::BTreeMap;
use std::path::Path;

/// Recordings up to this length are checked at every event.
const EVERY_EVENT_UP_TO: usize = 20_000;
/// Longer ones at this many, pseudo-random.
const CHECKS_OF_LONG_ONES: usize = 2_000;

#[test]
fn the_samples_replay_as_the_naive_way() {
    let files = samples::pairs(&samples::folder());
    assert!(!files.is_empty());
    for path in &files {
        let snapshot = samples::open(path);
        check(path, &snapshot);
    }
}

/// The same over a folder of snapshots, at fewer events.
#[test]
fn a_folder_of_snapshots_replays_as_the_naive_way() {
    let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of snapshots with their counters");
        return;
    };
    for path in samples::pairs(Path::new(&folder)) {
        check(&path, &samples::open(&path));
    }
}

/// What one device holds at a position, in plain maps.
#[derive(Default)]
struct Naive {
    /// Reserved ranges, start to end, none touching another.
    reserved: BTreeMap<u64, u64>,
    /// Live blocks: requested bytes, and whether the program gave them back already.
    live: BTreeMap<u64, (u64, bool)>,
}

impl Naive {
    /// What the file says of the end.
    fn at_end(memory: &DeviceMemory) -> Naive {
        let mut naive = Naive::default();
        for (_, segment) in memory.segments.iter().filter(|(_, segment)| segment.died == Position::NEVER) {
            naive.reserve(segment.address, segment.size);
        }
        let end = memory.end();
        for id in memory.allocations.ids() {
            let life = memory.allocations.get(id);
            if life.born <= end && end < life.died {
                naive.live.insert(life.address, (life.requested, life.freed <= end));
            }
        }
        naive
    }
    /// Takes one event back.
    fn undo(&mut self, entry: TraceEntry) {
        match entry.action {
            Action::Alloc => {
                let gone = self.live.remove(&entry.address);
                assert_eq!(gone, Some((entry.size, false)), "an alloc of {entry:?} that is not live after it");
            }
            Action::FreeCompleted => {
                let before = self.live.insert(entry.address, (entry.size, true));
                assert_eq!(before, None, "a block is live after the end of its free: {entry:?}");
            }
            Action::FreeRequested => {
                let block = self.live.get_mut(&entry.address);
                let block = block.unwrap_or_else(|| panic!("a block is gone before the end of its free: {entry:?}"));
                assert_eq!(*block, (entry.size, true), "{entry:?}");
                block.1 = false;
            }
            Action::SegmentAlloc | Action::SegmentMap => self.release(entry.address, entry.size),
            Action::SegmentFree | Action::SegmentUnmap => self.reserve(entry.address, entry.size),
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => {}
        }
    }
    /// Adds a range and joins it with its neighbours.
    fn reserve(&mut self, address: u64, size: u64) {
        let (mut from, mut to) = (address, address + size);
        if let Some((&start, &end)) = self.reserved.range(..=from).next_back() {
            assert!(end <= from, "reserved twice: 0x{address:x}");
            if end == from {
                self.reserved.remove(&start);
                from = start;
            }
        }
        if let Some(end) = self.reserved.remove(&to) {
            to = end;
        }
        self.reserved.insert(from, to);
    }
    /// Takes a range out.
    fn release(&mut self, address: u64, size: u64) {
        let (&start, &end) = self.reserved.range(..=address).next_back().expect("released what was not reserved");
        assert!(address + size <= end, "released what was not reserved: 0x{address:x}");
        self.reserved.remove(&start);
        if start < address {
            self.reserved.insert(start, address);
        }
        if address + size < end {
            self.reserved.insert(address + size, end);
        }
    }
}

fn check(path: &Path, snapshot: &Snapshot) {
    for id in snapshot.devices.ids() {
        let memory = &snapshot.devices[id];
        let (replay, timeline, _) = samples::prepare(snapshot, id);
        let place = |position: Position| format!("{}, {}, {position:?}", path.display(), memory.title());
        let mut naive = Naive::at_end(memory);
        let compare = |naive: &Naive, position: Position| {
            let state = replay.state_at(memory, position);
            assert_eq!(state.position, position);
            agrees(naive, &state, &place(position));
            is_sound(&state, &timeline, &place(position));
        };
        compare(&naive, memory.end());
        let one_in = memory.trace.len().div_ceil(CHECKS_OF_LONG_ONES) as u64;
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for event in memory.trace.events().rev() {
            naive.undo(memory.trace.entry(event));
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if memory.trace.len() <= EVERY_EVENT_UP_TO || event.0 == 0 || (seed >> 33).is_multiple_of(one_in) {
                compare(&naive, Position(event.0));
            }
        }
    }
}

/// Reserved ranges, live blocks, their requested bytes and their being pending are the same.
fn agrees(naive: &Naive, state: &MemoryState, place: &str) {
    let reserved: u64 = naive.reserved.iter().map(|(start, end)| end - start).sum();
    assert_eq!(state.totals.reserved, reserved, "{place}: reserved");
    let requested: u64 = naive.live.values().map(|(requested, _)| requested).sum();
    assert_eq!(state.totals.requested, requested, "{place}: requested");
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for segment in &state.segments {
        match joined.last_mut() {
            Some((_, end)) if *end == segment.address => *end += segment.size,
            _ => joined.push((segment.address, segment.address + segment.size)),
        }
    }
    assert!(joined.iter().copied().eq(naive.reserved.iter().map(|(start, end)| (*start, *end))), "{place}: segments");
    let blocks = state.blocks.iter().filter(|block| block.state != BlockState::Inactive);
    let blocks: Vec<_> =
        blocks.map(|block| (block.address, (block.requested, block.state == BlockState::ActivePendingFree))).collect();
    assert!(blocks.iter().copied().eq(naive.live.iter().map(|(address, block)| (*address, *block))), "{place}: live blocks");
}

/// What holds of every state, whoever made it.
fn is_sound(state: &MemoryState, timeline: &UsageTimeline, place: &str) {
    let (mut reserved, mut allocated, mut active, mut split) = (0u64, 0u64, 0u64, 0u64);
    let mut largest = 0;
    for segment in &state.segments {
        let mut cursor = segment.address;
        let (mut held, mut gaps, mut was_gap) = (0u64, 0u64, false);
        for block in state.blocks_of(segment) {
            assert_eq!(block.address, cursor, "{place}: blocks and gaps tile their segment");
            assert!(0 < block.size && block.requested <= block.size, "{place}: {block:?}");
            cursor += block.size;
            let is_gap = block.state == BlockState::Inactive;
            assert!(!(is_gap && was_gap), "{place}: two gaps side by side at 0x{:x}", block.address);
            assert_eq!(is_gap, block.allocation.is_none(), "{place}: {block:?}");
            if is_gap {
                gaps += block.size;
                largest = largest.max(block.size);
            } else {
                held += block.size;
            }
            if block.state == BlockState::ActiveAllocated {
                allocated += block.size;
            }
            was_gap = is_gap;
        }
        assert_eq!(cursor, segment.address + segment.size, "{place}: blocks and gaps fill their segment");
        assert_eq!(held + gaps, segment.size, "{place}: active and gaps make the segment");
        assert!(!segment.inferred, "{place}: these files name all their segments");
        reserved += segment.size;
        active += held;
        if 0 < held && !segment.expandable {
            split += gaps;
        }
    }
    let totals = state.totals;
    assert_eq!((totals.reserved, totals.allocated, totals.active), (reserved, allocated, active), "{place}: sums");
    assert_eq!((state.largest_free_block, state.inactive_split), (largest, split), "{place}: gaps");
    assert_eq!(timeline.totals_at(state.position), totals, "{place}: timeline");
    let pools = |sum: fn(&fragscope::replay::PoolState) -> u64| state.pools.iter().map(sum).sum::<u64>();
    assert_eq!((pools(|p| p.reserved), pools(|p| p.active), pools(|p| p.free)), (reserved, active, reserved - active), "{place}");
    assert_eq!(state.pools.iter().map(|p| p.largest_free_block).max().unwrap_or(0), largest, "{place}");
}
