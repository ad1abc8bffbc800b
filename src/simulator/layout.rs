//! Puts a recorded layout in the allocator's place: at the start of a recording that begins mid-run, and after the
//! allocator went another way.
//!
//! Always: what a recording does not hold is taken in one way. Segments older than the recording come in address order;
//! a reserved range begins at the lowest address ever mapped for its stream and half of a pool.

use crate::model::{AllocationId, BlockState, DeviceMemory, PoolId, SizeClass, Snapshot, StreamId};
use crate::replay::state::MemoryState;
use crate::simulator::caching::{Block, Caching, NONE, State};
use crate::simulator::device::{Driver, range_size};
use rustc_hash::FxHashMap;

type Group = (StreamId, PoolId, SizeClass);

impl<D: Driver> Caching<D> {
    /// Forgets all it holds and takes over a state of the recording, on a card of `total` bytes.
    pub(crate) fn adopt(&mut self, snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState, total: Option<u64>) {
        self.clear();
        let mut bases: FxHashMap<Group, u64> = FxHashMap::default();
        for segment in memory.segments.as_slice().iter().filter(|segment| segment.expandable) {
            let base = bases.entry((segment.stream, segment.pool, segment.class)).or_insert(segment.address);
            *base = segment.address.min(*base);
        }
        let mut order: Vec<usize> = (0..state.segments.len()).collect();
        order.sort_by_key(|place| {
            let segment = &state.segments[*place];
            (memory.segments.get(segment.id).map(|life| life.born), segment.address)
        });
        // The last block of each range so far, and the range's base and number.
        let mut ranges: FxHashMap<Group, (u32, u64, u64)> = FxHashMap::default();
        let mut numbers = vec![0; state.segments.len()];
        for place in order {
            numbers[place] = self.number();
        }
        for (place, segment) in state.segments.iter().enumerate() {
            let half = self.half(segment.pool, segment.class);
            let stream = snapshot.streams.handle(segment.stream).cast_unsigned();
            let group = (segment.stream, segment.pool, segment.class);
            let (mut last, base, tie) = match ranges.get(&group) {
                Some(range) if segment.expandable => *range,
                _ if segment.expandable => (NONE, bases.get(&group).copied().unwrap_or(segment.address), numbers[place]),
                _ => (NONE, segment.address, numbers[place]),
            };
            if segment.expandable {
                let from = self.blocks.get(last as usize).map_or(base, |block| block.address + block.size);
                if from < segment.address {
                    let gap = Block { base, ..Block::unmapped(from, segment.address - from, stream, half, tie) };
                    last = self.append(last, gap);
                }
            }
            for part in state.blocks_of(segment) {
                let block = Block {
                    address: part.address,
                    size: part.size,
                    requested: part.requested,
                    state: if part.state == BlockState::Inactive { State::Free } else { State::Allocated },
                    mapped: true,
                    expandable: segment.expandable,
                    base,
                    ..Block::unmapped(base, 0, stream, half, tie)
                };
                last = self.append(last, block);
                if let Some(life) = part.allocation {
                    self.hold(life, last, part.state == BlockState::ActivePendingFree);
                }
            }
            self.take_over(segment.size, segment.expandable);
            if segment.expandable {
                ranges.insert(group, (last, base, tie));
            }
        }
        for (last, base, tie) in ranges.into_values() {
            let Block { address, size, stream, half, .. } = self.blocks[last as usize];
            let end = address + size;
            let granule = self.settings.granule(self.halves[half as usize].class);
            let rest = base.saturating_add(range_size(total, granule)).saturating_sub(end);
            if 0 < rest {
                self.append(last, Block { base, ..Block::unmapped(end, rest, stream, half, tie) });
            }
        }
    }
    /// Links a block behind another and puts it into its set where it is free.
    fn append(&mut self, last: u32, mut block: Block) -> u32 {
        block.prev = last;
        let free = block.state == State::Free;
        let row = self.new_block(block);
        if last != NONE {
            self.blocks[last as usize].next = row;
        }
        if free {
            self.insert(row);
        }
        row
    }
    fn hold(&mut self, life: AllocationId, block: u32, pending: bool) {
        self.give_to(life, block);
        if pending {
            self.wait_for(life, block);
        }
    }
}
