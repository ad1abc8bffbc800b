//! A recorded layout: what the allocator held at a moment. It is put in the allocator's place at the start of a
//! recording that begins mid-run, and after the allocator went another way than the recording.
//!
//! Always: what a recording does not hold is taken in one way. Segments older than the recording come in address order
//! (under PyTorch 2.12 their blocks do); a reserved range begins at the lowest address mapped for its stream and half
//! of a pool while it held anything.

use crate::model::{
    Action, AllocationId, AllocatorSettings, BlockState, DeviceMemory, PoolId, Position, SizeClass, Snapshot, StreamId,
};
use crate::replay::state::MemoryState;
use crate::simulator::caching::{Block, Caching, NONE, State};
use crate::simulator::device::{Driver, range_size};
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::request::Wanted;
use crate::simulator::scenario::TieBreak;
use rustc_hash::FxHashMap;

type Group = (StreamId, PoolId, SizeClass);

/// What the allocator held at a moment of a recording.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Its segments, in address order.
    pub segments: Vec<LaidSegment>,
}

/// A segment of a layout: one `cudaMalloc`, or a contiguous mapped part of a reserved range.
#[derive(Clone, Debug)]
pub struct LaidSegment {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// First byte of its reserved range; its own first byte where it is no part of one.
    pub base: u64,
    /// When it was made; those older than the recording stand in front.
    pub born: Position,
    /// Its place among those older than the recording, as far as the recording showed it later: 0 where it did not.
    pub rank: u64,
    /// The stream's handle.
    pub stream: u64,
    /// Its pool.
    pub pool: PoolId,
    /// The half of its pool.
    pub class: SizeClass,
    /// Whether it is a mapped part of a reserved range.
    pub expandable: bool,
    /// What tiles it, in address order.
    pub blocks: Vec<LaidBlock>,
}

/// A block of a layout, in use or free.
#[derive(Clone, Copy, Debug)]
pub struct LaidBlock {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes the program asked for.
    pub requested: u64,
    /// In use, waiting for another stream, or free.
    pub state: BlockState,
    /// Whose block it is.
    pub life: Option<AllocationId>,
}

impl Layout {
    /// The layout of a device in a state of its recording.
    pub fn of(snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState) -> Layout {
        let bases = bases(memory, state.position);
        let segments = state.segments.iter().map(|segment| {
            let group = (segment.stream, segment.pool, segment.class);
            let base = bases.get(&group).copied().filter(|base| segment.expandable && *base <= segment.address);
            let blocks = state.blocks_of(segment).iter().map(|block| LaidBlock {
                address: block.address,
                size: block.size,
                requested: block.requested,
                state: block.state,
                life: block.allocation,
            });
            LaidSegment {
                address: segment.address,
                size: segment.size,
                base: base.unwrap_or(segment.address),
                born: memory.segments.get(segment.id).map_or(Position::START, |life| life.born),
                rank: 0,
                stream: snapshot.streams.handle(segment.stream).cast_unsigned(),
                pool: segment.pool,
                class: segment.class,
                expandable: segment.expandable,
                blocks: blocks.collect(),
            }
        });
        Layout { segments: segments.collect() }
    }
    /// Puts the segments older than the recording into the order it showed: their numbers, by where they begin.
    pub(crate) fn rank(&mut self, ties: &FxHashMap<u64, u64>) {
        for segment in &mut self.segments {
            segment.rank = ties.get(&segment.base).copied().unwrap_or_default();
        }
    }
    /// Takes blocks out as if they had never been asked for: neighbours that are free become one, and a segment that holds
    /// nothing else any more was never made.
    pub(crate) fn leave_out(&mut self, gone: impl Fn(AllocationId) -> bool) {
        for segment in &mut self.segments {
            if !segment.blocks.iter().any(|block| block.life.is_some_and(&gone)) {
                continue;
            }
            let mut blocks: Vec<LaidBlock> = Vec::with_capacity(segment.blocks.len());
            for block in segment.blocks.drain(..) {
                let block = if block.life.is_some_and(&gone) {
                    LaidBlock { requested: 0, state: BlockState::Inactive, life: None, ..block }
                } else {
                    block
                };
                match blocks.last_mut() {
                    Some(last) if last.state == BlockState::Inactive && block.state == BlockState::Inactive => {
                        last.size = last.size.saturating_add(block.size);
                    }
                    _ => blocks.push(block),
                }
            }
            if blocks.iter().all(|block| block.state == BlockState::Inactive) {
                blocks.clear();
            }
            segment.blocks = blocks;
        }
        self.segments.retain(|segment| !segment.blocks.is_empty());
    }
    /// Bytes of its segments.
    pub fn reserved(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }
    /// The blocks that are not free, each with its segment, in address order.
    pub fn active(&self) -> impl Iterator<Item = (&LaidSegment, &LaidBlock)> {
        let blocks = self.segments.iter().flat_map(|segment| segment.blocks.iter().map(move |block| (segment, block)));
        blocks.filter(|(_, block)| block.state != BlockState::Inactive)
    }
}

/// The lowest address mapped for each stream and half of a pool, from when nothing was mapped there before the moment
/// until nothing is again: where the reserved range that is there at the moment begins, as far as the recording shows.
fn bases(memory: &DeviceMemory, at: Position) -> FxHashMap<Group, u64> {
    let mut changes: FxHashMap<Group, Vec<(Position, bool, u64, u64)>> = FxHashMap::default();
    for segment in memory.segments.as_slice().iter().filter(|segment| segment.expandable) {
        let group = changes.entry((segment.stream, segment.pool, segment.class)).or_default();
        group.push((segment.born, true, segment.address, segment.size));
        group.push((segment.died, false, segment.address, segment.size));
    }
    let base = |mut changes: Vec<(Position, bool, u64, u64)>| {
        // What a partial unmapping leaves is there at once: growth first.
        changes.sort_unstable_by_key(|(position, grows, ..)| (*position, !*grows));
        let (mut mapped, mut lowest) = (0u64, u64::MAX);
        for (position, grows, address, size) in changes {
            if grows {
                mapped = mapped.saturating_add(size);
                lowest = lowest.min(address);
                continue;
            }
            mapped = mapped.saturating_sub(size);
            if mapped == 0 {
                if at < position {
                    break;
                }
                lowest = u64::MAX;
            }
        }
        lowest
    };
    changes.into_iter().map(|(group, changes)| (group, base(changes))).collect()
}

impl<D: Driver, J: Journal> Caching<D, J> {
    /// Forgets all it holds and takes over a layout of the recording, on a card of `total` bytes. What it held at the
    /// same address keeps its number.
    pub(crate) fn adopt(&mut self, layout: &Layout, total: Option<u64>) {
        let by_block = self.rules.tie == TieBreak::Block;
        let known: FxHashMap<u64, u64> =
            self.present().map(|block| (if by_block { block.address } else { block.base }, block.tie)).collect();
        let older = std::mem::take(&mut self.older_ties);
        self.clear();
        let mut order: Vec<usize> = (0..layout.segments.len()).collect();
        order.sort_by_key(|place| {
            let LaidSegment { born, rank, address, .. } = layout.segments[*place];
            (born, rank, address)
        });
        let mut ties: FxHashMap<u64, u64> = FxHashMap::default();
        for segment in order.into_iter().map(|place| &layout.segments[place]) {
            let blocks = segment.blocks.iter().map(|block| block.address).filter(|_| by_block);
            for address in blocks.chain([segment.base]) {
                let older = older.get(&address).filter(|_| segment.born == Position::START && !by_block);
                let tie = ties.get(&address).or(older).or(known.get(&address)).copied().unwrap_or_else(|| self.number());
                ties.insert(address, tie);
            }
        }
        // The last block of each range so far.
        let mut ranges: FxHashMap<(u32, u64, u64), u32> = FxHashMap::default();
        for segment in &layout.segments {
            let LaidSegment { base, stream, expandable, .. } = *segment;
            let half = self.half(segment.pool, segment.class);
            let place = Place { stream, pool: segment.pool, class: segment.class };
            let action = if expandable { Action::SegmentMap } else { Action::SegmentAlloc };
            self.journal.segment(action, segment.address, segment.size, place);
            let tie_at = |address: u64| ties.get(if by_block { &address } else { &base }).copied().unwrap_or_default();
            let mut last = NONE;
            if expandable {
                last = ranges.get(&(half, stream, base)).copied().unwrap_or(NONE);
                let from = self.blocks.get(last as usize).map_or(base, |block| block.address + block.size);
                if from < segment.address {
                    let gap = Block { base, ..Block::unmapped(from, segment.address - from, stream, half, tie_at(base)) };
                    last = self.append(last, gap);
                }
            }
            for laid in &segment.blocks {
                let block = Block {
                    address: laid.address,
                    size: laid.size,
                    requested: laid.requested,
                    state: if laid.state == BlockState::Inactive { State::Free } else { State::Allocated },
                    mapped: true,
                    expandable,
                    base,
                    ..Block::unmapped(base, 0, stream, half, tie_at(laid.address))
                };
                last = self.append(last, block);
                let pending = laid.state == BlockState::ActivePendingFree;
                if laid.state != BlockState::Inactive {
                    self.count_held(laid.size, laid.requested, pending);
                }
                if let Some(life) = laid.life {
                    let LaidBlock { address, size, requested, .. } = *laid;
                    self.journal.alloc(life, Given { address, size, requested, place });
                    self.give_to(life, last);
                    if pending {
                        self.journal.free_requested(life);
                        self.wait_for(life, last);
                    }
                }
            }
            self.take_over(segment.address, segment.size, expandable);
            if expandable {
                ranges.insert((half, stream, base), last);
            }
        }
        for ((half, stream, base), last) in ranges {
            let Block { address, size, tie, .. } = self.blocks[last as usize];
            let end = address + size;
            let granule = self.settings.granule(self.halves[half as usize].class);
            let rest = base.saturating_add(range_size(total, granule)).saturating_sub(end);
            if 0 < rest {
                let tie = self.tie_of_part(tie);
                self.append(last, Block { base, ..Block::unmapped(end, rest, stream, half, tie) });
            }
        }
        self.older_ties = older;
    }
    /// Takes over what was there when the recording began.
    pub(crate) fn begin_with(&mut self, start: &Layout, total: Option<u64>) {
        self.adopt(start, total);
        self.older = self.numbered;
        self.older_ties = self.present().map(|block| (block.base, block.tie)).collect();
    }
    /// Counts a segment that is there already.
    fn take_over(&mut self, address: u64, size: u64, expandable: bool) {
        self.driver.hold(address, size, expandable);
        self.counters.reserved.add(size);
        self.counters.segments.add(u64::from(!expandable));
    }
    /// Counts a block that is in use already, or waits for another stream.
    fn count_held(&mut self, size: u64, requested: u64, pending: bool) {
        self.counters.allocated.add(if pending { 0 } else { size });
        self.counters.active.add(size);
        self.counters.requested.add(requested);
    }
    /// Where the block that would be taken and the one at `address` are twins, equal and both older than the recording,
    /// which of them is the older one is not known: moves the latter in front. Whether there was such a twin.
    pub(crate) fn prefer(&mut self, wanted: &Wanted, address: u64) -> bool {
        let size = self.settings.round(wanted.size);
        let half = self.half(wanted.pool, AllocatorSettings::class(size));
        let Some((first, _)) = self.candidate(half, wanted.stream, size) else { return false };
        if self.rules.tie == TieBreak::Address || first.address == address || self.older < first.tie {
            return false;
        }
        let behind = self.halves[half as usize].free.range(first..).map(|(key, _)| *key);
        let mut equal = behind.take_while(|key| (key.stream, key.size) == (first.stream, first.size));
        let Some(twin) = equal.find(|key| key.address == address).filter(|key| first.tie < key.tie && key.tie <= self.older)
        else {
            return false;
        };
        for tie in self.blocks.iter_mut().map(|block| &mut block.tie).chain(self.older_ties.values_mut()) {
            if *tie == twin.tie {
                *tie = first.tie;
            } else if (first.tie..twin.tie).contains(tie) {
                *tie += 1;
            }
        }
        for half in 0..self.halves.len() {
            let free = std::mem::take(&mut self.halves[half].free);
            self.halves[half].free = free.into_values().map(|block| (self.key(block), block)).collect();
        }
        true
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
}
