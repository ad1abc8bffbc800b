//! PyTorch's caching allocator as anybody can check it by reading: one list of blocks in address order, searched from end
//! to end for every question, written from the description of the allocator and not from the simulator's code.
//!
//! What is served by it and by the simulator is in `random_requests.rs`.

use fragscope::model::{Action, AllocationId, AllocatorSettings, PoolId};
use fragscope::simulator::device::{Driver, Vram};
use fragscope::simulator::{Counters, Rules, TieBreak, Wanted};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Free,
    Allocated,
    Pending,
}

#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub address: u64,
    pub size: u64,
    pub requested: u64,
    stream: u64,
    pool: PoolId,
    small: bool,
    pub used: Use,
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
pub struct Naive {
    settings: AllocatorSettings,
    rules: Rules,
    limit: Option<u64>,
    driver: Vram,
    /// In address order.
    pub blocks: Vec<Block>,
    /// In the order they were given back.
    pending: Vec<AllocationId>,
    pub ended: Vec<PoolId>,
    searches: BTreeMap<(PoolId, bool), u64>,
    numbers: u64,
    pub segments: Vec<(Action, u64, u64)>,
    pub counted: Counters,
}

impl Naive {
    pub fn new(settings: AllocatorSettings, rules: Rules, limit: Option<u64>, driver: Vram) -> Naive {
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

    pub fn malloc(&mut self, life: AllocationId, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
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
    pub fn free_requested(&mut self, life: AllocationId) {
        let Some(at) = self.of_life(life).filter(|at| self.blocks[*at].used == Use::Allocated) else { return };
        self.blocks[at].used = Use::Pending;
        self.counted.allocated.sub(self.blocks[at].size);
        self.pending.push(life);
    }
    pub fn free_completed(&mut self, life: AllocationId) {
        let Some(at) = self.of_life(life).filter(|at| self.blocks[*at].used == Use::Pending) else { return };
        self.pending.retain(|other| *other != life);
        let block = &mut self.blocks[at];
        (block.used, block.life) = (Use::Free, None);
        let Block { address, size, requested, .. } = *block;
        self.counted.active.sub(size);
        self.counted.requested.sub(requested);
        self.merge(address);
    }
    pub fn free(&mut self, life: AllocationId) {
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
    pub fn release_cached(&mut self, waiting: &[AllocationId]) {
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
    pub fn check(&self, said: &str) {
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
