//! PyTorch's caching allocator (`c10/cuda/CUDACachingAllocator.cpp`): pools, best fit, splitting, merging, releases.
//!
//! Always: the blocks of a segment tile it in address order and no two free neighbours of one kind touch; free blocks
//! stand in their half of their pool by stream, size and tie-break; reserved = active + free.
//! What grows inside reserved ranges of addresses is in `expandable.rs`, what goes back to the driver in `releasing.rs`.

use crate::model::{Action, AllocationId, AllocatorSettings, PoolId, SizeClass};
use crate::simulator::device::Driver;
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::layout::Layout;
use crate::simulator::policy::Policy;
use crate::simulator::request::{Request, Wanted};
use crate::simulator::scenario::{Counters, Rules, TieBreak};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Allocated,
    /// Given back, but another stream is not done; the number is its place among those that wait.
    Pending(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) stream: u64,
    pub(crate) half: u32,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    pub(crate) state: State,
    pub(crate) mapped: bool,
    pub(crate) expandable: bool,
    /// First byte of its reserved range, for expandable ones.
    pub(crate) base: u64,
    /// Number of its segment or of itself, where that breaks ties.
    pub(crate) tie: u64,
    /// Searches of its half when it became free.
    pub(crate) free_since: u64,
}

impl Block {
    /// A reserved range in which nothing is mapped yet.
    pub(crate) fn unmapped(base: u64, size: u64, stream: u64, half: u32, tie: u64) -> Block {
        let (prev, next, state) = (NONE, NONE, State::Free);
        Block {
            address: base,
            size,
            requested: 0,
            stream,
            half,
            prev,
            next,
            state,
            mapped: false,
            expandable: true,
            base,
            tie,
            free_since: 0,
        }
    }
}

/// The order of free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) stream: u64,
    pub(crate) size: u64,
    pub(crate) tie: u64,
    pub(crate) address: u64,
}

impl Key {
    pub(crate) fn from(stream: u64, size: u64) -> Key {
        Key { stream, size, tie: 0, address: 0 }
    }
}

/// The small or the large half of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Half {
    pub(crate) pool: PoolId,
    pub(crate) class: SizeClass,
    pub(crate) free: BTreeMap<Key, u32>,
    /// Unmapped parts of expandable segments, by stream and address.
    pub(crate) unmapped: BTreeMap<(u64, u64), u32>,
    /// Searches so far, while garbage is collected.
    pub(crate) searches: u64,
}

/// The allocator of one device over a driver, which tells a journal what it does.
#[derive(Clone, Debug)]
pub struct Caching<D, J = ()> {
    pub(crate) journal: J,
    pub(crate) settings: AllocatorSettings,
    pub(crate) rules: Rules,
    /// The memory fraction in bytes.
    limit: Option<u64>,
    pub(crate) driver: D,
    pub(crate) blocks: Vec<Block>,
    spare: Vec<u32>,
    pub(crate) halves: Vec<Half>,
    pub(crate) half_of: FxHashMap<(PoolId, SizeClass), u32>,
    /// Private pools that nothing uses any more.
    ended: BTreeSet<PoolId>,
    /// Blocks that wait for another stream, and whose lives they are, in the order they were given back.
    pending: BTreeMap<u64, (u32, AllocationId)>,
    waited: u64,
    pub(crate) numbered: u64,
    /// Numbers up to this one were given to what is older than the recording: their order is a guess.
    pub(crate) older: u64,
    /// The numbers of the segments older than the recording, by where they or their reserved ranges begin.
    pub(crate) older_ties: FxHashMap<u64, u64>,
    /// The block of each life.
    held: Vec<u32>,
    pub(crate) counters: Counters,
}

impl<D: Driver, J: Journal> Policy for Caching<D, J> {
    type Journal = J;
    fn journal(&mut self) -> &mut J {
        &mut self.journal
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn begin(&mut self, start: &Layout, total: Option<u64>) {
        self.begin_with(start, total);
    }
    fn lift(&mut self) {
        self.limit = None;
        self.driver.lift();
    }
    /// `malloc`.
    fn allocate(&mut self, life: Option<AllocationId>, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let size = self.settings.round(wanted.size);
        let half = self.half(wanted.pool, AllocatorSettings::class(size));
        self.ended.remove(&wanted.pool);
        let found = self.obtain(half, wanted, size, waiting);
        let Wanted { stream, pool, .. } = *wanted;
        let class = AllocatorSettings::class(size);
        let place = Place { stream, pool, class };
        let Some(found) = found else {
            self.complete_all(waiting);
            self.counters.ooms += 1;
            self.journal.oom(size, place, self.counters.reserved.now);
            return None;
        };
        let block = self.split(found, size);
        let (address, block_size) = {
            let block = &mut self.blocks[block as usize];
            block.state = State::Allocated;
            block.requested = wanted.size;
            (block.address, block.size)
        };
        if let Some(life) = life {
            self.give_to(life, block);
            self.journal.alloc(life, Given { address, size: block_size, requested: wanted.size, place });
        }
        self.counters.allocated.add(block_size);
        self.counters.active.add(block_size);
        self.counters.requested.add(wanted.size);
        // Without a retry they are noticed later: now the block is in use, and no neighbour takes it in.
        self.complete_all(waiting);
        Some(address)
    }
    fn give_back(&mut self, request: &Request) {
        match request {
            Request::Free(life) => self.free_at_once(*life),
            Request::FreeRequested(life) => self.free_requested(*life),
            Request::FreeCompleted(life) | Request::CompletedInRetry(life) => self.free_completed(*life),
            Request::PoolEnds(pool) => {
                self.ended.insert(*pool);
            }
            Request::EmptyCache => self.empty_cache(&[]),
            Request::Alloc(..) | Request::Failed(_) => {}
        }
    }
}

impl<D: Driver> Caching<D> {
    /// An allocator that holds nothing. `limit` is the memory fraction in bytes; lives are numbered below `lives`.
    pub fn new(settings: AllocatorSettings, rules: Rules, limit: Option<u64>, driver: D, lives: usize) -> Caching<D> {
        Caching::telling((), settings, rules, limit, driver, lives)
    }
}

impl<D: Driver, J: Journal> Caching<D, J> {
    /// As [`Caching::new`], telling a journal.
    pub fn telling(
        journal: J,
        settings: AllocatorSettings,
        rules: Rules,
        limit: Option<u64>,
        driver: D,
        lives: usize,
    ) -> Caching<D, J> {
        Caching {
            journal,
            settings,
            rules,
            limit,
            driver,
            blocks: Vec::new(),
            spare: Vec::new(),
            halves: Vec::new(),
            half_of: FxHashMap::default(),
            ended: BTreeSet::new(),
            pending: BTreeMap::new(),
            waited: 0,
            numbered: 0,
            older: 0,
            older_ties: FxHashMap::default(),
            held: vec![NONE; lives],
            counters: Counters::default(),
        }
    }
    /// A block given back that another stream still uses.
    fn free_requested(&mut self, life: AllocationId) {
        let block = self.block_of(life);
        if block == NONE || self.blocks[block as usize].state != State::Allocated {
            return;
        }
        self.counters.allocated.sub(self.blocks[block as usize].size);
        self.journal.free_requested(life);
        self.wait_for(life, block);
    }
    /// The other stream is done; nothing happens where that was waited for before.
    fn free_completed(&mut self, life: AllocationId) {
        let block = self.block_of(life);
        if block != NONE
            && let State::Pending(place) = self.blocks[block as usize].state
        {
            self.pending.remove(&place);
            self.complete(life, block);
        }
    }
    fn complete_all(&mut self, lives: &[AllocationId]) {
        for life in lives {
            self.free_completed(*life);
        }
    }
    /// A block given back that nobody waits for, or that was waited for since before the recording.
    fn free_at_once(&mut self, life: AllocationId) {
        let block = self.block_of(life);
        if block != NONE && self.blocks[block as usize].state == State::Allocated {
            self.counters.allocated.sub(self.blocks[block as usize].size);
            self.journal.free_requested(life);
            self.complete(life, block);
        } else {
            self.free_completed(life);
        }
    }
    fn complete(&mut self, life: AllocationId, block: u32) {
        self.journal.free_completed(life);
        self.free(block);
        self.forget(life);
    }
    /// `release_cached_blocks`: waits for all that is pending, in the given order first, and gives the cache back.
    fn empty_cache(&mut self, waiting: &[AllocationId]) {
        self.complete_all(waiting);
        for (block, life) in std::mem::take(&mut self.pending).into_values() {
            self.complete(life, block);
        }
        let mut halves = vec![(PoolId::DEFAULT, SizeClass::Large), (PoolId::DEFAULT, SizeClass::Small)];
        halves.extend(self.ended.iter().flat_map(|pool| [(*pool, SizeClass::Small), (*pool, SizeClass::Large)]));
        for half in halves {
            if let Some(half) = self.half_of.get(&half) {
                self.release_half(*half);
            }
        }
    }

    fn block_of(&self, life: AllocationId) -> u32 {
        self.held.get(life.0 as usize).copied().unwrap_or(NONE)
    }
    pub(crate) fn give_to(&mut self, life: AllocationId, block: u32) {
        if let Some(held) = self.held.get_mut(life.0 as usize) {
            *held = block;
        }
    }
    pub(crate) fn wait_for(&mut self, life: AllocationId, block: u32) {
        self.waited += 1;
        self.blocks[block as usize].state = State::Pending(self.waited);
        self.pending.insert(self.waited, (block, life));
    }
    /// Forgets all blocks; numbers and what was counted stay.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.spare.clear();
        self.pending.clear();
        self.held.fill(NONE);
        for half in &mut self.halves {
            half.free.clear();
            half.unmapped.clear();
        }
        let Counters { reserved, allocated, active, requested, segments, .. } = &mut self.counters;
        for gauge in [reserved, allocated, active, requested, segments] {
            gauge.now = 0;
        }
    }
    /// The blocks there are.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Block> {
        let spare: FxHashSet<u32> = self.spare.iter().copied().collect();
        self.blocks.iter().enumerate().filter(move |(row, _)| !spare.contains(&(*row as u32))).map(|(_, block)| block)
    }
    fn forget(&mut self, life: AllocationId) {
        if let Some(held) = self.held.get_mut(life.0 as usize) {
            *held = NONE;
        }
    }
    pub(crate) fn half(&mut self, pool: PoolId, class: SizeClass) -> u32 {
        let halves = &mut self.halves;
        *self.half_of.entry((pool, class)).or_insert_with(|| {
            halves.push(Half { pool, class, free: BTreeMap::new(), unmapped: BTreeMap::new(), searches: 0 });
            halves.len() as u32 - 1
        })
    }
    /// The limit under which garbage is collected, and the bytes from which on.
    fn collects_from(&self) -> Option<u64> {
        let threshold = self.settings.garbage_collection_threshold;
        self.limit.filter(|_| 0.0 < threshold).map(|limit| (threshold * limit as f64) as u64)
    }
    /// A free block of at least `size` bytes, taken out of its half: found, or made by ever harder means.
    fn obtain(&mut self, half: u32, wanted: &Wanted, size: u64, waiting: &[AllocationId]) -> Option<u32> {
        let collects = self.collects_from();
        if collects.is_some() {
            self.halves[half as usize].searches += 1;
        }
        if let Some(block) = self.find(half, wanted.stream, size) {
            return Some(block);
        }
        if let Some(from) = collects {
            self.collect_garbage(from);
        }
        if let Some(block) = self.grow(half, wanted.stream, size) {
            return Some(block);
        }
        if self.release_available(half, wanted.stream, size)
            && let Some(block) = self.grow(half, wanted.stream, size)
        {
            return Some(block);
        }
        // In the capture of a graph, which private pools are taken for, nothing may be waited for.
        if wanted.pool != PoolId::DEFAULT {
            return None;
        }
        self.empty_cache(waiting);
        self.counters.retries += 1;
        self.grow(half, wanted.stream, size)
    }
    /// `get_free_block`: best fit within the stream; only the first candidate is examined for being oversize.
    fn find(&mut self, half: u32, stream: u64, size: u64) -> Option<u32> {
        let (key, block) = self.candidate(half, stream, size)?;
        if !self.settings.may_take(size, key.size) {
            return None;
        }
        self.halves[half as usize].free.remove(&key);
        Some(block)
    }
    /// The one block that is looked at for a size.
    pub(crate) fn candidate(&self, half: u32, stream: u64, size: u64) -> Option<(Key, u32)> {
        let range = self.halves[half as usize].free.range(Key::from(stream, size)..);
        let mut candidates = range.take_while(|(key, _)| key.stream == stream).map(|(key, block)| (*key, *block));
        let (mut key, mut block) = candidates.next()?;
        if self.settings.expandable_segments {
            let reach = |block: u32| {
                let block = &self.blocks[block as usize];
                let next = self.blocks.get(block.next as usize).filter(|next| !next.mapped);
                block.size.saturating_add(next.map_or(0, |next| next.size))
            };
            while self.blocks[block as usize].expandable
                && let Some((next_key, next)) = candidates.next()
                && reach(next) < reach(block)
            {
                (key, block) = (next_key, next);
            }
        } else {
            while self.blocks[block as usize].expandable {
                (key, block) = candidates.next()?;
            }
        }
        Some((key, block))
    }
    /// `alloc_block`: asks the driver.
    fn grow(&mut self, half: u32, stream: u64, size: u64) -> Option<u32> {
        let segment = self.settings.segment_size(size);
        if self.limit.is_some_and(|limit| limit < self.counters.reserved.now.saturating_add(segment)) {
            return None;
        }
        let of_default_pool = self.halves[half as usize].pool == PoolId::DEFAULT;
        if self.settings.expandable_segments && (of_default_pool || self.rules.private_expandable) {
            return self.grow_expandable(half, stream, size);
        }
        let address = self.driver.allocate(segment, self.counters.reserved.now)?;
        let place = Place { stream, ..self.place_of(half) };
        self.journal.segment(Action::SegmentAlloc, address, segment, place);
        self.counters.device_allocs += 1;
        self.counters.reserved.add(segment);
        self.counters.segments.add(1);
        let tie = self.number();
        Some(self.new_block(Block {
            address,
            size: segment,
            requested: 0,
            stream,
            half,
            prev: NONE,
            next: NONE,
            state: State::Free,
            mapped: true,
            expandable: false,
            base: address,
            tie,
            free_since: 0,
        }))
    }
    /// Whom a half serves, by no stream.
    pub(crate) fn place_of(&self, half: u32) -> Place {
        let Half { pool, class, .. } = self.halves[half as usize];
        Place { stream: 0, pool, class }
    }
    /// The next number of a segment, or of a block.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }
    /// The number of a block cut from another: its segment's, or its own.
    pub(crate) fn tie_of_part(&mut self, whole: u64) -> u64 {
        if self.rules.tie == TieBreak::Block { self.number() } else { whole }
    }
    pub(crate) fn new_block(&mut self, block: Block) -> u32 {
        match self.spare.pop() {
            Some(row) => {
                self.blocks[row as usize] = block;
                row
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        }
    }
    /// A block behind or before another, made of a part of it: same stream, half and range.
    pub(crate) fn part_of(&self, block: u32, address: u64, size: u64) -> Block {
        Block { address, size, requested: 0, ..self.blocks[block as usize].clone() }
    }
    /// `alloc_found_block`: the low end is handed out, the rest goes back.
    fn split(&mut self, found: u32, size: u64) -> u32 {
        let class = self.halves[self.blocks[found as usize].half as usize].class;
        let whole = self.blocks[found as usize].size;
        if self.settings.block_size(size, whole, class, self.settings.expandable_segments) == whole {
            return found;
        }
        // The low end is the new object, the rest keeps the old one.
        let mut low = self.part_of(found, self.blocks[found as usize].address, size);
        low.tie = self.tie_of_part(low.tie);
        low.next = found;
        let prev = low.prev;
        let low = self.new_block(low);
        if prev != NONE {
            self.blocks[prev as usize].next = low;
        }
        let rest = &mut self.blocks[found as usize];
        rest.prev = low;
        rest.address += size;
        rest.size -= size;
        self.insert(found);
        low
    }
    pub(crate) fn key(&self, block: u32) -> Key {
        let block = &self.blocks[block as usize];
        let tie = if self.rules.tie == TieBreak::Address { 0 } else { block.tie };
        Key { stream: block.stream, size: block.size, tie, address: block.address }
    }
    /// Puts a free block where it is found again.
    pub(crate) fn insert(&mut self, block: u32) {
        let key = self.key(block);
        let half = self.blocks[block as usize].half as usize;
        if self.blocks[block as usize].mapped {
            self.blocks[block as usize].free_since = self.halves[half].searches;
            self.halves[half].free.insert(key, block);
        } else {
            self.halves[half].unmapped.insert((key.stream, key.address), block);
        }
    }
    pub(crate) fn take_out(&mut self, block: u32) {
        let key = self.key(block);
        let half = &mut self.halves[self.blocks[block as usize].half as usize];
        if self.blocks[block as usize].mapped {
            half.free.remove(&key);
        } else {
            half.unmapped.remove(&(key.stream, key.address));
        }
    }
    /// `free_block`: the block is free for others.
    fn free(&mut self, block: u32) {
        let (size, requested) = (self.blocks[block as usize].size, self.blocks[block as usize].requested);
        self.counters.active.sub(size);
        self.counters.requested.sub(requested);
        self.blocks[block as usize].state = State::Free;
        self.merge_neighbours(block);
        self.insert(block);
    }
    /// Takes the free neighbours of the same kind into a block that stands in no set.
    pub(crate) fn merge_neighbours(&mut self, block: u32) {
        for other in [self.blocks[block as usize].prev, self.blocks[block as usize].next] {
            let fits = other != NONE
                && self.blocks[other as usize].state == State::Free
                && self.blocks[other as usize].mapped == self.blocks[block as usize].mapped;
            if !fits {
                continue;
            }
            self.take_out(other);
            let Block { address, size, prev, next, .. } = self.blocks[other as usize];
            let is_before = next == block;
            let into = &mut self.blocks[block as usize];
            into.size += size;
            if is_before {
                into.address = address;
                into.prev = prev;
                if prev != NONE {
                    self.blocks[prev as usize].next = block;
                }
            } else {
                into.next = next;
                if next != NONE {
                    self.blocks[next as usize].prev = block;
                }
            }
            self.drop_block(other);
        }
    }
    pub(crate) fn drop_block(&mut self, block: u32) {
        self.spare.push(block);
    }
}

#[cfg(test)]
mod tests;
