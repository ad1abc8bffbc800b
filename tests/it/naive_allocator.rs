//! The simulator's caching allocator against one that anybody can check by reading: one list of blocks in address order,
//! searched from end to end for every question, written from the description of PyTorch's allocator and not from the
//! simulator's code.
//!
//! Both serve the same random requests over drivers that answer alike. Every address, every segment event, every counter
//! must be the same, and at each step the books must balance: blocks tile their segments without a gap, no two free ones
//! touch, reserved is active and free together, and nothing overlaps.

use fragscope::model::{Action, AllocationId, AllocatorSettings, PoolId};
use fragscope::simulator::caching::Caching;
use fragscope::simulator::device::{Driver, Placement, Vram};
use fragscope::simulator::journal::{Given, Journal, Place};
use fragscope::simulator::{Counters, Policy, Request, Rules, TieBreak, Wanted};
use std::collections::BTreeMap;

pub const MIB: u64 = 1 << 20;

/// Numbers that look random and are the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What was told: segment events, and which life got which block.
#[derive(Default)]
pub struct Told {
    pub segments: Vec<(Action, u64, u64)>,
    pub blocks: BTreeMap<AllocationId, Given>,
}

impl Journal for Told {
    fn segment(&mut self, action: Action, address: u64, size: u64, _place: Place) {
        self.segments.push((action, address, size));
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        assert!(self.blocks.insert(life, given).is_none(), "{life:?} is served twice");
    }
    fn free_completed(&mut self, life: AllocationId) {
        assert!(self.blocks.remove(&life).is_some(), "{life:?} ends twice");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Allocated,
    Pending,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    address: u64,
    size: u64,
    requested: u64,
    stream: u64,
    pool: PoolId,
    small: bool,
    used: Use,
    life: Option<AllocationId>,
    mapped: bool,
    /// First byte of its segment or reservation: blocks of another are no neighbours.
    base: u64,
    expandable: bool,
    /// Its own number, or its segment's.
    tie: u64,
    /// Calls of its half's search when it became free.
    since: u64,
}

/// The plain allocator.
struct Naive {
    settings: AllocatorSettings,
    rules: Rules,
    limit: Option<u64>,
    driver: Vram,
    /// In address order.
    blocks: Vec<Block>,
    /// In the order they were given back.
    pending: Vec<AllocationId>,
    ended: Vec<PoolId>,
    searches: BTreeMap<(PoolId, bool), u64>,
    numbers: u64,
    segments: Vec<(Action, u64, u64)>,
    counted: Counters,
}

impl Naive {
    fn new(settings: AllocatorSettings, rules: Rules, limit: Option<u64>, driver: Vram) -> Naive {
        Naive {
            settings,
            rules,
            limit,
            driver,
            blocks: Vec::new(),
            pending: Vec::new(),
            ended: Vec::new(),
            searches: BTreeMap::new(),
            numbers: 0,
            segments: Vec::new(),
            counted: Counters::default(),
        }
    }
    fn round(&self, n: u64) -> u64 {
        if n < 512 {
            return 512;
        }
        let log = (0..64).rev().find(|bit| n >> bit & 1 == 1).unwrap_or(0);
        let divisions = self.settings.roundup_power2_divisions[(log - 20i64).clamp(0, 15) as usize];
        if divisions > 1 && n > 512 * divisions {
            let power = 1u64 << log;
            if n == power {
                return n;
            }
            let unit = power / divisions;
            return if unit == 0 { 2 * power } else { n.div_ceil(unit) * unit };
        }
        n.div_ceil(512) * 512
    }
    fn segment_size(&self, size: u64) -> u64 {
        match size {
            _ if size <= MIB => 2 * MIB,
            _ if size < 10 * MIB => self.settings.large_segment_size,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        }
    }
    fn granule(&self, small: bool) -> u64 {
        if small { 2 * MIB } else { self.settings.large_segment_size }
    }
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
    /// A new object's number: its segment's where segments are numbered.
    fn object(&mut self, of: u64) -> u64 {
        if self.rules.tie == TieBreak::Block { self.number() } else { of }
    }
    fn place(&self, address: u64) -> usize {
        self.blocks.iter().position(|block| block.address == address).expect("a block")
    }
    fn is_before(a: &Block, b: &Block) -> bool {
        a.base == b.base && a.expandable == b.expandable && a.address + a.size == b.address
    }
    fn next(&self, at: usize) -> Option<usize> {
        (at + 1 < self.blocks.len() && Naive::is_before(&self.blocks[at], &self.blocks[at + 1])).then_some(at + 1)
    }
    fn prev(&self, at: usize) -> Option<usize> {
        (0 < at && Naive::is_before(&self.blocks[at - 1], &self.blocks[at])).then(|| at - 1)
    }
    fn is_whole(&self, at: usize) -> bool {
        self.next(at).is_none() && self.prev(at).is_none()
    }
    fn add(&mut self, block: Block) {
        let at = self.blocks.iter().position(|other| block.address < other.address).unwrap_or(self.blocks.len());
        self.blocks.insert(at, block);
    }
    /// The free mapped blocks of a half, in the order of its set.
    fn free_of(&self, pool: PoolId, small: bool) -> Vec<Block> {
        let in_it = |block: &&Block| block.used == Use::Free && block.mapped && (block.pool, block.small) == (pool, small);
        let mut free: Vec<Block> = self.blocks.iter().filter(in_it).copied().collect();
        let tie = |block: &Block| if self.rules.tie == TieBreak::Address { 0 } else { block.tie };
        free.sort_by_key(|block| (block.stream, block.size, tie(block), block.address));
        free
    }
    fn calls(&self, pool: PoolId, small: bool) -> u64 {
        self.searches.get(&(pool, small)).copied().unwrap_or(0)
    }
    fn collects(&self) -> Option<f64> {
        let threshold = self.settings.garbage_collection_threshold;
        self.limit.filter(|_| threshold > 0.0).map(|limit| threshold * limit as f64)
    }

    fn malloc(&mut self, life: AllocationId, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let size = self.round(wanted.size);
        let small = size <= MIB;
        self.ended.retain(|pool| *pool != wanted.pool);
        if self.collects().is_some() {
            *self.searches.entry((wanted.pool, small)).or_insert(0) += 1;
        }
        let mut found = self.free_block(wanted.pool, small, wanted.stream, size);
        if found.is_none() {
            self.collect_garbage();
            found = self.get_memory(wanted.pool, small, wanted.stream, size);
        }
        if found.is_none() && self.settings.max_split_size.is_some() && self.release_available(wanted, small, size) {
            found = self.get_memory(wanted.pool, small, wanted.stream, size);
        }
        if found.is_none() && wanted.pool == PoolId::DEFAULT {
            self.release_cached(waiting);
            self.counted.retries += 1;
            found = self.get_memory(wanted.pool, small, wanted.stream, size);
        }
        let Some(address) = found else {
            self.counted.ooms += 1;
            waiting.iter().for_each(|life| self.free_completed(*life));
            return None;
        };
        let at = self.place(address);
        let block = self.blocks[at];
        let rest = block.size - size;
        let splits = if small || self.settings.expandable_segments {
            512 <= rest
        } else {
            self.settings.max_split_size.is_none_or(|most| size < most) && MIB < rest
        };
        if splits {
            let tie = self.object(block.tie);
            self.blocks[at] = Block { address: address + size, size: rest, since: self.calls(block.pool, small), ..block };
            self.add(Block { size, tie, ..block });
        }
        let block = &mut self.blocks[at];
        (block.used, block.requested, block.life) = (Use::Allocated, wanted.size, Some(life));
        let block_size = block.size;
        self.counted.allocated.add(block_size);
        self.counted.active.add(block_size);
        self.counted.requested.add(wanted.size);
        waiting.iter().for_each(|life| self.free_completed(*life));
        Some(address)
    }
    /// The address of a free block that serves, by the first one of the order alone.
    fn free_block(&self, pool: PoolId, small: bool, stream: u64, size: u64) -> Option<u64> {
        let mut fitting = self.free_of(pool, small).into_iter().filter(|block| block.stream == stream && size <= block.size);
        let mut first = fitting.next()?;
        if self.settings.expandable_segments {
            let reach = |block: &Block| {
                let next = self.next(self.place(block.address)).map(|next| &self.blocks[next]).filter(|next| !next.mapped);
                block.size + next.map_or(0, |next| next.size)
            };
            while first.expandable {
                match fitting.next() {
                    Some(next) if reach(&next) < reach(&first) => first = next,
                    _ => break,
                }
            }
        }
        let most = self.settings.max_split_size.unwrap_or(u64::MAX);
        let oversize = if size < most { most <= first.size } else { size + self.settings.max_non_split_rounding <= first.size };
        (!oversize).then_some(first.address)
    }
    /// Memory from the driver: the address of a free block that is large enough.
    fn get_memory(&mut self, pool: PoolId, small: bool, stream: u64, size: u64) -> Option<u64> {
        let segment = self.segment_size(size);
        if self.limit.is_some_and(|limit| limit < self.counted.reserved.now + segment) {
            return None;
        }
        if self.settings.expandable_segments && (pool == PoolId::DEFAULT || self.rules.private_expandable) {
            return self.get_expandable(pool, small, stream, size);
        }
        let address = self.driver.allocate(segment, self.counted.reserved.now)?;
        self.segments.push((Action::SegmentAlloc, address, segment));
        self.counted.device_allocs += 1;
        self.counted.reserved.add(segment);
        self.counted.segments.add(1);
        let tie = self.number();
        let (used, life) = (Use::Free, None);
        self.add(Block {
            address,
            size: segment,
            requested: 0,
            stream,
            pool,
            small,
            used,
            life,
            mapped: true,
            base: address,
            expandable: false,
            tie,
            since: 0,
        });
        Some(address)
    }
    fn get_expandable(&mut self, pool: PoolId, small: bool, stream: u64, size: u64) -> Option<u64> {
        let mut start = None;
        for (at, block) in self.blocks.iter().enumerate() {
            if block.mapped || (block.pool, block.small, block.stream) != (pool, small, stream) {
                continue;
            }
            let first = self.prev(at).filter(|before| self.blocks[*before].used == Use::Free).unwrap_or(at);
            let (mut total, mut on) = (0, Some(first));
            while let Some(part) = on.filter(|part| self.blocks[*part].used == Use::Free) {
                total += self.blocks[part].size;
                on = self.next(part);
            }
            if size <= total {
                start = Some(self.blocks[first].address);
                break;
            }
        }
        let mut address = match start {
            Some(address) => address,
            None => {
                let (base, length) = self.driver.reserve(self.granule(small))?;
                let tie = self.number();
                let (used, life) = (Use::Free, None);
                self.add(Block {
                    address: base,
                    size: length,
                    requested: 0,
                    stream,
                    pool,
                    small,
                    used,
                    life,
                    mapped: false,
                    base,
                    expandable: true,
                    tie,
                    since: 0,
                });
                base
            }
        };
        if !self.blocks[self.place(address)].mapped {
            address = self.map(address, size)?;
        }
        loop {
            let block = self.blocks[self.place(address)];
            if size <= block.size {
                return Some(address);
            }
            address = self.map(block.address + block.size, size - block.size)?;
        }
    }
    /// Maps the first bytes of an unmapped block; the address of the free block they are in then.
    fn map(&mut self, address: u64, wanted: u64) -> Option<u64> {
        let at = self.place(address);
        let block = self.blocks[at];
        let granule = self.granule(block.small);
        let size = wanted.min(block.size).div_ceil(granule) * granule;
        if !self.driver.map(address, size, self.counted.reserved.now) {
            return None;
        }
        self.segments.push((Action::SegmentMap, address, size));
        self.counted.device_allocs += 1;
        self.counted.reserved.add(size);
        if size < block.size {
            let tie = self.object(block.tie);
            self.blocks[at].size = size;
            self.add(Block { address: address + size, size: block.size - size, tie, ..block });
        }
        self.blocks[at].mapped = true;
        Some(self.merge(address))
    }
    /// Joins a block with its free neighbours of its kind; its number stays. Gives its address.
    fn merge(&mut self, address: u64) -> u64 {
        let mut at = self.place(address);
        let joins = |a: &Block, b: &Block| b.used == Use::Free && a.mapped == b.mapped;
        if let Some(next) = self.next(at).filter(|next| joins(&self.blocks[at], &self.blocks[*next])) {
            self.blocks[at].size += self.blocks[next].size;
            self.blocks.remove(next);
        }
        if let Some(prev) = self.prev(at).filter(|prev| joins(&self.blocks[at], &self.blocks[*prev])) {
            self.blocks[at].address = self.blocks[prev].address;
            self.blocks[at].size += self.blocks[prev].size;
            self.blocks.remove(prev);
            at = prev;
        }
        self.blocks[at].since = self.calls(self.blocks[at].pool, self.blocks[at].small);
        self.blocks[at].address
    }
    fn of_life(&self, life: AllocationId) -> Option<usize> {
        self.blocks.iter().position(|block| block.life == Some(life))
    }
    fn free_requested(&mut self, life: AllocationId) {
        let Some(at) = self.of_life(life).filter(|at| self.blocks[*at].used == Use::Allocated) else { return };
        self.blocks[at].used = Use::Pending;
        self.counted.allocated.sub(self.blocks[at].size);
        self.pending.push(life);
    }
    fn free_completed(&mut self, life: AllocationId) {
        let Some(at) = self.of_life(life).filter(|at| self.blocks[*at].used == Use::Pending) else { return };
        self.pending.retain(|other| *other != life);
        let block = &mut self.blocks[at];
        (block.used, block.life) = (Use::Free, None);
        let Block { address, size, requested, .. } = *block;
        self.counted.active.sub(size);
        self.counted.requested.sub(requested);
        self.merge(address);
    }
    fn free(&mut self, life: AllocationId) {
        self.free_requested(life);
        self.free_completed(life);
    }
    fn release(&mut self, address: u64) {
        let at = self.place(address);
        let size = self.blocks.remove(at).size;
        self.driver.release(address, size);
        self.segments.push((Action::SegmentFree, address, size));
        self.counted.device_frees += 1;
        self.counted.reserved.sub(size);
        self.counted.segments.sub(1);
    }
    /// Oversize blocks for a request: one that is large enough, else the largest until they are.
    fn release_available(&mut self, wanted: &Wanted, small: bool, size: u64) -> bool {
        let most = self.settings.max_split_size.expect("only with it");
        let needed = size.max(most);
        let free = self.free_of(wanted.pool, small);
        let behind = free.iter().position(|block| (wanted.stream, needed) <= (block.stream, block.size));
        if let Some(block) = behind.map(|at| free[at]).filter(|block| block.stream == wanted.stream && !block.expandable) {
            self.release(block.address);
            return true;
        }
        let mut freed = 0;
        for block in free[..behind.unwrap_or(free.len())].iter().rev() {
            if needed <= freed || block.size < most || block.stream != wanted.stream {
                break;
            }
            if !block.expandable {
                freed += block.size;
                self.release(block.address);
            }
        }
        needed <= freed
    }
    fn collect_garbage(&mut self) {
        let Some(from) = self.collects() else { return };
        let from = from as u64;
        if self.counted.reserved.now <= from {
            return;
        }
        let target = self.counted.reserved.now - from;
        let calls = self.calls(PoolId::DEFAULT, false);
        let mut freed = 0;
        loop {
            let unsplit: Vec<Block> = self.free_of(PoolId::DEFAULT, false);
            let unsplit: Vec<Block> = unsplit.into_iter().filter(|block| self.is_whole(self.place(block.address))).collect();
            let ages: Vec<u64> = unsplit.iter().map(|block| calls - block.since).collect();
            if target <= freed || unsplit.is_empty() {
                return;
            }
            let average = ages.iter().sum::<u64>() as f64 / ages.len() as f64;
            let old = unsplit.iter().zip(&ages).filter(|(block, age)| average <= **age as f64 && !block.expandable);
            let old: Vec<Block> = old.map(|(block, _)| *block).collect();
            if old.is_empty() {
                return;
            }
            for block in old {
                freed += block.size;
                self.release(block.address);
            }
        }
    }
    fn release_cached(&mut self, waiting: &[AllocationId]) {
        waiting.iter().for_each(|life| self.free_completed(*life));
        for life in self.pending.clone() {
            self.free_completed(life);
        }
        let mut ended = self.ended.clone();
        ended.sort();
        let halves = [(PoolId::DEFAULT, false), (PoolId::DEFAULT, true)];
        let private = ended.into_iter().flat_map(|pool| [(pool, true), (pool, false)]);
        for (pool, small) in halves.into_iter().chain(private) {
            let free = self.free_of(pool, small);
            for block in free.iter().filter(|block| !block.expandable) {
                if self.is_whole(self.place(block.address)) {
                    self.release(block.address);
                }
            }
            for block in free.iter().filter(|block| block.expandable) {
                self.unmap(block.address);
            }
        }
    }
    fn unmap(&mut self, address: u64) {
        let at = self.place(address);
        let block = self.blocks[at];
        let granule = self.granule(block.small);
        let from = block.base + (address - block.base).div_ceil(granule) * granule;
        let to = block.base + (address + block.size - block.base) / granule * granule;
        if to <= from {
            return;
        }
        self.driver.unmap(from, to - from);
        self.segments.push((Action::SegmentUnmap, from, to - from));
        self.counted.device_frees += 1;
        self.counted.reserved.sub(to - from);
        let since = self.calls(block.pool, block.small);
        self.blocks[at] = Block { address: from, size: to - from, mapped: false, ..block };
        if address < from {
            let tie = self.object(block.tie);
            self.add(Block { size: from - address, tie, since, ..block });
        }
        if to < address + block.size {
            let tie = self.object(block.tie);
            self.add(Block { address: to, size: address + block.size - to, tie, since, ..block });
        }
        let merged = self.merge(from);
        let at = self.place(merged);
        if self.is_whole(at) {
            self.blocks.remove(at);
        }
    }
    /// What must hold of the list at any time.
    fn check(&self, said: &str) {
        let (mut reserved, mut active, mut free) = (0, 0, 0);
        for (at, block) in self.blocks.iter().enumerate() {
            if let Some(next) = self.blocks.get(at + 1) {
                assert!(block.address + block.size <= next.address, "{said}: blocks overlap");
                let touch = Naive::is_before(block, next) && block.mapped == next.mapped;
                assert!(!touch || block.used != Use::Free || next.used != Use::Free, "{said}: two free blocks touch");
            }
            let first = self.prev(at).is_none();
            assert!(!first || block.address == block.base, "{said}: a gap at the start of a segment");
            match (block.mapped, block.used) {
                (false, used) => assert_eq!(used, Use::Free, "{said}"),
                (true, Use::Free) => free += block.size,
                (true, _) => active += block.size,
            }
            reserved += if block.mapped { block.size } else { 0 };
        }
        assert_eq!((self.counted.reserved.now, self.counted.active.now), (reserved, active), "{said}");
        assert_eq!(reserved, active + free, "{said}");
    }
}

/// One random request after another, for both.
fn compare(settings: &AllocatorSettings, rules: Rules, limit: Option<u64>, seed: u64, steps: u32, name: &str) -> Counters {
    let driver = || Vram::new(Some(300 * MIB), Some(310 * MIB), Placement::Lowest);
    let mut ours = Caching::telling(Told::default(), settings.clone(), rules, limit, driver(), steps as usize);
    let mut naive = Naive::new(settings.clone(), rules, limit, driver());
    let mut dice = Dice(seed);
    let (mut live, mut pending): (Vec<AllocationId>, Vec<AllocationId>) = Default::default();
    let mut seen = 0;
    for step in 0..steps {
        let said = format!("{name}, {:?}, seed {seed}, step {step}", rules.tie);
        let size = match dice.below(8) {
            0 | 1 => 1 + dice.below(4 * MIB),
            2 | 3 => 1 + dice.below(40 * MIB),
            // Sizes that come again make equal blocks, which ties are about.
            4 => 5 * MIB * (1 + dice.below(4)),
            5 => 600 * (1 + dice.below(3)),
            _ => 1 + dice.below(5000),
        };
        let wanted =
            Wanted { size, stream: dice.below(2), pool: PoolId((dice.below(8) == 0) as u32 * (1 + dice.below(2) as u32)) };
        let life = AllocationId(step);
        let waiting: Vec<AllocationId> =
            if dice.below(5) == 0 { pending.drain(..pending.len() / 2).collect() } else { Vec::new() };
        let at = ours.allocate(Some(life), &wanted, &waiting);
        assert_eq!(at, naive.malloc(life, &wanted, &waiting), "{said}: where a block of {size} bytes lies");
        live.extend(at.map(|_| life));
        for _ in 0..dice.below(4).min(live.len() as u64) {
            let life = live.swap_remove(dice.below(live.len() as u64) as usize);
            if dice.below(4) == 0 {
                ours.give_back(&Request::FreeRequested(life));
                naive.free_requested(life);
                pending.push(life);
            } else {
                ours.give_back(&Request::Free(life));
                naive.free(life);
            }
        }
        match dice.below(80) {
            0 => {
                ours.give_back(&Request::EmptyCache);
                naive.release_cached(&[]);
            }
            1 => {
                ours.give_back(&Request::PoolEnds(PoolId(1)));
                naive.ended.push(PoolId(1));
            }
            2..20 => {
                for life in pending.drain(..) {
                    ours.give_back(&Request::FreeCompleted(life));
                    naive.free_completed(life);
                }
            }
            _ => {}
        }
        assert_eq!(*ours.counters(), naive.counted, "{said}");
        assert_eq!(ours.journal().segments[seen..], naive.segments[seen..], "{said}");
        seen = naive.segments.len();
        naive.check(&said);
        let blocks: Vec<(u64, u64, u64)> = {
            let mut blocks: Vec<_> =
                ours.journal().blocks.values().map(|given| (given.address, given.size, given.requested)).collect();
            blocks.sort_unstable();
            blocks
        };
        let used = naive.blocks.iter().filter(|block| block.used != Use::Free);
        assert!(blocks.into_iter().eq(used.map(|block| (block.address, block.size, block.requested))), "{said}: blocks in use");
    }
    for life in (0..steps).map(AllocationId) {
        ours.give_back(&Request::Free(life));
        ours.give_back(&Request::FreeCompleted(life));
    }
    for pool in [1, 2] {
        ours.give_back(&Request::PoolEnds(PoolId(pool)));
    }
    ours.give_back(&Request::EmptyCache);
    let counted = *ours.counters();
    assert_eq!((counted.reserved.now, counted.active.now, counted.requested.now), (0, 0, 0), "{name}: all goes back");
    counted
}

#[test]
fn random_requests_are_served_as_by_a_plain_list() {
    let plain = AllocatorSettings::default();
    let list = [8, 8, 8, 8, 8, 4, 2, 0, 4, 2, 1, 1, 1, 1, 1, 1];
    let expandable = AllocatorSettings { expandable_segments: true, ..plain.clone() };
    let collected = AllocatorSettings { garbage_collection_threshold: 0.6, ..plain.clone() };
    let split = |mib: u64| AllocatorSettings { max_split_size: Some(mib * MIB), ..plain.clone() };
    let large = AllocatorSettings { large_segment_size: 32 * MIB, max_non_split_rounding: 32 * MIB, ..plain.clone() };
    let kinds = [
        ("native", plain.clone()),
        ("expandable", expandable.clone()),
        ("max_split", split(24)),
        ("max_split, little slack", AllocatorSettings { max_non_split_rounding: 4 * MIB, ..split(20) }),
        ("roundup", AllocatorSettings { roundup_power2_divisions: [4; 16], ..plain.clone() }),
        ("roundup by list", AllocatorSettings { roundup_power2_divisions: list, ..plain.clone() }),
        ("roundup, expandable", AllocatorSettings { roundup_power2_divisions: [8; 16], ..expandable.clone() }),
        ("gc", collected.clone()),
        ("gc, max_split", AllocatorSettings { max_split_size: Some(24 * MIB), ..collected.clone() }),
        ("gc, expandable", AllocatorSettings { expandable_segments: true, ..collected }),
        ("large segments", large.clone()),
        ("large segments, expandable", AllocatorSettings { expandable_segments: true, ..large }),
        ("max_split, expandable", AllocatorSettings { expandable_segments: true, ..split(24) }),
    ];
    for (name, settings) in &kinds {
        let (mut retries, mut ooms, mut given_back) = (0, 0, 0);
        for (seed, tie) in (1u64..).zip([TieBreak::Address, TieBreak::Block, TieBreak::Segment].repeat(2)) {
            let rules = Rules { tie, private_expandable: seed % 2 == 0, whole_is_limit: false };
            let limit = (0.0 < settings.garbage_collection_threshold).then_some(280 * MIB);
            let counted = compare(settings, rules, limit, seed, 1200, name);
            retries += counted.retries;
            ooms += counted.ooms;
            given_back += counted.device_frees;
        }
        assert!(0 < retries && 0 < ooms && 100 < given_back, "{name}: memory never ran short");
    }
    // A small limit below the card's capacity.
    let rules = Rules { tie: TieBreak::Segment, private_expandable: true, whole_is_limit: false };
    assert!(0 < compare(&plain, rules, Some(100 * MIB), 9, 1200, "limit").ooms);
}
