//! The models of a stream-ordered pool and of a pool of pages against plain lists written from their stated rules: the same
//! addresses, the same counters, and books that balance after each of many random requests.

use crate::random_requests::{Dice, MIB, Told};
use fragscope::model::{AllocationId, EventIdx, PoolId};
use fragscope::simulator::device::{Driver, Placement, Vram};
use fragscope::simulator::paged::Paged;
use fragscope::simulator::stream_ordered::StreamOrdered;
use fragscope::simulator::{Counters, Policy, Request, Wanted};

/// A model as a plain list.
trait Plain {
    fn allocate(&mut self, life: AllocationId, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64>;
    fn free_requested(&mut self, life: AllocationId);
    fn free_completed(&mut self, life: AllocationId);
    fn empty_cache(&mut self);
    fn counted(&self) -> &Counters;
    /// Bytes reserved, in use and free, added up from the list.
    fn sums(&self) -> [u64; 3];
}

#[derive(Clone, Copy)]
struct Part {
    address: u64,
    size: u64,
    /// First byte of its chunk, and the chunk's size.
    chunk: (u64, u64),
    pool: PoolId,
    /// Who gave it back, as long as nothing was waited for.
    stream: Option<u64>,
    used: Option<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    life: AllocationId,
    stream: u64,
    requested: u64,
    pending: bool,
}

struct Pool {
    threshold: Option<u64>,
    driver: Vram,
    /// In address order.
    parts: Vec<Part>,
    counted: Counters,
}

impl Pool {
    fn find(&self, wanted: &Wanted, size: u64) -> Option<usize> {
        let rank = |part: &Part| match part.stream {
            Some(stream) if stream == wanted.stream => 0,
            None => 1,
            Some(_) => 2,
        };
        let fits = |part: &Part| part.used.is_none() && part.pool == wanted.pool && size <= part.size;
        let rows = (0..self.parts.len()).filter(|row| fits(&self.parts[*row]));
        rows.min_by_key(|row| (rank(&self.parts[*row]), self.parts[*row].size, self.parts[*row].address))
    }
    fn grow(&mut self, wanted: &Wanted, size: u64) -> Option<usize> {
        let size = size.div_ceil(32 * MIB) * 32 * MIB;
        let address = self.driver.allocate(size, self.counted.reserved.now)?;
        self.counted.device_allocs += 1;
        self.counted.reserved.add(size);
        self.counted.segments.add(1);
        self.parts.push(Part { address, size, chunk: (address, size), pool: wanted.pool, stream: None, used: None });
        self.parts.sort_by_key(|part| part.address);
        self.parts.iter().position(|part| part.address == address)
    }
    /// Joins all free neighbours of one chunk that the same stream gave back.
    fn merge(&mut self) {
        let mut row = 0;
        while row + 1 < self.parts.len() {
            let (a, b) = (self.parts[row], self.parts[row + 1]);
            if a.used.is_none() && b.used.is_none() && a.chunk == b.chunk && a.stream == b.stream {
                self.parts[row].size += b.size;
                self.parts.remove(row + 1);
            } else {
                row += 1;
            }
        }
    }
    fn synchronise(&mut self, keep: Option<u64>) {
        let pending: Vec<AllocationId> =
            self.parts.iter().filter_map(|part| part.used).filter(|held| held.pending).map(|held| held.life).collect();
        pending.into_iter().for_each(|life| self.free_completed(life));
        self.parts.iter_mut().filter(|part| part.used.is_none()).for_each(|part| part.stream = None);
        self.merge();
        let Some(keep) = keep else { return };
        while keep < self.counted.reserved.now {
            let whole = |part: &Part| part.used.is_none() && part.chunk == (part.address, part.size);
            let Some(row) = self.parts.iter().position(whole) else { return };
            let part = self.parts.remove(row);
            self.driver.release(part.address, part.size);
            self.counted.device_frees += 1;
            self.counted.reserved.sub(part.size);
            self.counted.segments.sub(1);
        }
    }
}

impl Plain for Pool {
    fn allocate(&mut self, life: AllocationId, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let size = wanted.size.div_ceil(512) * 512;
        let mut found = self.find(wanted, size).or_else(|| self.grow(wanted, size));
        if found.is_none() {
            self.counted.retries += 1;
            self.synchronise(None);
            found = self.find(wanted, size);
        }
        if found.is_none() {
            self.synchronise(Some(0));
            found = self.grow(wanted, size);
        }
        let Some(row) = found else {
            self.counted.ooms += 1;
            return None;
        };
        let part = self.parts[row];
        let held = Held { life, stream: wanted.stream, requested: wanted.size, pending: false };
        self.parts[row] = Part { size, used: Some(held), stream: None, ..part };
        if size < part.size {
            self.parts.insert(row + 1, Part { address: part.address + size, size: part.size - size, ..part });
        }
        self.counted.allocated.add(size);
        self.counted.active.add(size);
        self.counted.requested.add(wanted.size);
        waiting.iter().for_each(|life| self.free_completed(*life));
        Some(part.address)
    }
    fn free_requested(&mut self, life: AllocationId) {
        for part in &mut self.parts {
            if let Some(held) = part.used.as_mut().filter(|held| held.life == life && !held.pending) {
                held.pending = true;
                self.counted.allocated.sub(part.size);
            }
        }
    }
    fn free_completed(&mut self, life: AllocationId) {
        let is_it = |part: &Part| part.used.is_some_and(|held| held.life == life && held.pending);
        let Some(row) = self.parts.iter().position(is_it) else { return };
        let held = self.parts[row].used.take().expect("it is in use");
        self.counted.active.sub(self.parts[row].size);
        self.counted.requested.sub(held.requested);
        self.parts[row].stream = Some(held.stream);
        self.merge();
    }
    fn empty_cache(&mut self) {
        self.synchronise(self.threshold);
    }
    fn counted(&self) -> &Counters {
        &self.counted
    }
    fn sums(&self) -> [u64; 3] {
        let sum = |used: bool| self.parts.iter().filter(|part| part.used.is_some() == used).map(|part| part.size).sum::<u64>();
        let tiles = self.parts.windows(2).all(|pair| pair[0].address + pair[0].size <= pair[1].address);
        assert!(tiles, "parts overlap");
        [sum(true) + sum(false), sum(true), sum(false)]
    }
}

const PAGE: u64 = 2 * MIB;

/// A block of pages, or a page cut into slots.
struct Mapped {
    address: u64,
    pages: u64,
    /// Whose slots of which size; none: one block.
    slots: Option<(PoolId, u64, u64)>,
    held: Vec<Option<Held>>,
}

struct Pages {
    driver: Vram,
    free: u64,
    next: u64,
    mapped: Vec<Mapped>,
    counted: Counters,
}

impl Pages {
    fn map(&mut self, pages: u64, slots: Option<(PoolId, u64, u64)>) -> Option<usize> {
        let lacking = pages.saturating_sub(self.free);
        if 0 < lacking && !self.driver.map(0, lacking * PAGE, self.counted.reserved.now) {
            return None;
        }
        self.counted.device_allocs += lacking;
        self.counted.reserved.add(lacking * PAGE);
        self.free = self.free + lacking - pages;
        let count = slots.map_or(1, |(.., size)| PAGE / size) as usize;
        self.mapped.push(Mapped { address: self.next, pages, slots, held: vec![None; count] });
        self.next += pages * PAGE;
        Some(self.mapped.len() - 1)
    }
    fn obtain(&mut self, wanted: &Wanted) -> Option<(usize, usize, u64)> {
        let slot = wanted.size.max(512).next_power_of_two();
        if PAGE / 2 < slot {
            let pages = wanted.size.div_ceil(PAGE);
            return self.map(pages, None).map(|row| (row, 0, pages * PAGE));
        }
        let cut = (wanted.pool, wanted.stream, slot);
        let has_room = |mapped: &Mapped| mapped.slots == Some(cut) && mapped.held.iter().any(Option::is_none);
        let row = match self.mapped.iter().position(has_room) {
            Some(row) => row,
            None => self.map(1, Some(cut))?,
        };
        let place = self.mapped[row].held.iter().position(Option::is_none).expect("a free slot");
        Some((row, place, slot))
    }
    fn size(mapped: &Mapped) -> u64 {
        mapped.slots.map_or(mapped.pages * PAGE, |(.., size)| size)
    }
    fn wait_for_all(&mut self) {
        let held = self.mapped.iter().flat_map(|mapped| mapped.held.iter().flatten());
        let pending: Vec<AllocationId> = held.filter(|held| held.pending).map(|held| held.life).collect();
        pending.into_iter().for_each(|life| self.free_completed(life));
    }
}

impl Plain for Pages {
    fn allocate(&mut self, life: AllocationId, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let mut found = self.obtain(wanted);
        if found.is_none() {
            self.counted.retries += 1;
            self.wait_for_all();
            found = self.obtain(wanted);
        }
        let Some((row, place, size)) = found else {
            self.counted.ooms += 1;
            return None;
        };
        let address = self.mapped[row].address + place as u64 * size;
        self.mapped[row].held[place] = Some(Held { life, stream: wanted.stream, requested: wanted.size, pending: false });
        self.counted.allocated.add(size);
        self.counted.active.add(size);
        self.counted.requested.add(wanted.size);
        waiting.iter().for_each(|life| self.free_completed(*life));
        Some(address)
    }
    fn free_requested(&mut self, life: AllocationId) {
        for mapped in &mut self.mapped {
            let size = Pages::size(mapped);
            for held in mapped.held.iter_mut().flatten().filter(|held| held.life == life && !held.pending) {
                held.pending = true;
                self.counted.allocated.sub(size);
            }
        }
    }
    fn free_completed(&mut self, life: AllocationId) {
        let is_it = |held: &Option<Held>| held.is_some_and(|held| held.life == life && held.pending);
        let Some(row) = self.mapped.iter().position(|mapped| mapped.held.iter().any(is_it)) else { return };
        let mapped = &mut self.mapped[row];
        let place = mapped.held.iter().position(is_it).expect("it is held");
        let held = mapped.held[place].take().expect("it is held");
        self.counted.active.sub(Pages::size(mapped));
        self.counted.requested.sub(held.requested);
        if mapped.held.iter().all(Option::is_none) {
            self.free += mapped.pages;
            self.mapped.remove(row);
        }
    }
    fn empty_cache(&mut self) {
        self.wait_for_all();
        self.counted.device_frees += self.free;
        self.counted.reserved.sub(self.free * PAGE);
        self.free = 0;
    }
    fn counted(&self) -> &Counters {
        &self.counted
    }
    fn sums(&self) -> [u64; 3] {
        let used = |mapped: &Mapped| mapped.held.iter().flatten().count() as u64 * Pages::size(mapped);
        let active: u64 = self.mapped.iter().map(used).sum();
        let reserved = (self.free + self.mapped.iter().map(|mapped| mapped.pages).sum::<u64>()) * PAGE;
        let slots: u64 = self.mapped.iter().map(|mapped| mapped.pages * PAGE - used(mapped)).sum();
        [reserved, active, slots + self.free * PAGE]
    }
}

fn compare(mut ours: impl Policy<Journal = Told>, mut plain: impl Plain, seed: u64, name: &str) {
    let mut dice = Dice(seed);
    let (mut live, mut pending): (Vec<AllocationId>, Vec<AllocationId>) = Default::default();
    for step in 0..2500u32 {
        let said = format!("{name}, seed {seed}, step {step}");
        let size = match dice.below(6) {
            0 => 1 + dice.below(4 * MIB),
            1 => 1 + dice.below(40 * MIB),
            2 => MIB - 1 + dice.below(3),
            _ => 1 + dice.below(5000),
        };
        let wanted = Wanted { size, stream: dice.below(3), pool: PoolId(u32::from(dice.below(8) == 0)), source: EventIdx(0) };
        let life = AllocationId(step);
        let waiting: Vec<AllocationId> =
            if dice.below(6) == 0 { pending.drain(..pending.len() / 2).collect() } else { Vec::new() };
        let at = ours.allocate(Some(life), &wanted, &waiting);
        assert_eq!(at, plain.allocate(life, &wanted, &waiting), "{said}: where {size} bytes lie");
        live.extend(at.map(|_| life));
        for _ in 0..dice.below(3).min(live.len() as u64) {
            let life = live.swap_remove(dice.below(live.len() as u64) as usize);
            plain.free_requested(life);
            if dice.below(4) == 0 {
                ours.give_back(&Request::FreeRequested(life));
                pending.push(life);
            } else {
                ours.give_back(&Request::Free(life));
                plain.free_completed(life);
            }
        }
        match dice.below(60) {
            0 => {
                ours.give_back(&Request::EmptyCache);
                plain.empty_cache();
            }
            1..15 => {
                for life in pending.drain(..) {
                    ours.give_back(&Request::FreeCompleted(life));
                    plain.free_completed(life);
                }
            }
            _ => {}
        }
        assert_eq!(ours.counters(), plain.counted(), "{said}");
        let [reserved, active, free] = plain.sums();
        let counted = ours.counters();
        assert_eq!((counted.reserved.now, counted.active.now, reserved), (reserved, active, active + free), "{said}: the books");
    }
    let counted = ours.counters();
    assert!(0 < counted.retries && 0 < counted.ooms && 0 < counted.device_frees, "{name}: memory never ran short");
}

#[test]
fn the_models_keep_to_their_rules() {
    for seed in 1..5 {
        let driver = || Vram::new(Some(200 * MIB), None, Placement::Lowest);
        for (threshold, name) in
            [(Some(0), "stream-ordered"), (None, "stream-ordered, keeping"), (Some(80 * MIB), "stream-ordered, 80 MiB")]
        {
            let plain = Pool { threshold, driver: driver(), parts: Vec::new(), counted: Counters::default() };
            compare(StreamOrdered::new(Told::default(), threshold, driver()), plain, seed, name);
        }
        let plain = Pages { driver: driver(), free: 0, next: 0x7000_0000_0000, mapped: Vec::new(), counted: Counters::default() };
        compare(Paged::new(Told::default(), PAGE, driver()), plain, seed, "pages");
    }
}
