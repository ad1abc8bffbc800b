//! A model of a pool of physical pages of one size, as paged KV caches use and as virtual-memory mapping allows: no
//! reproduction of any allocator.
//!
//! The rules: any free page serves any request, whatever its stream and pool, and pages of one block need not be
//! neighbours, so what is free is never in the way of a request: the largest free block is all that is free in whole
//! pages. A request of more than half a page takes whole pages; a smaller one a slot of the next power of two (512 bytes
//! at least) in a page cut into such slots, which serves one stream of one pool, and is a free page again when its last
//! slot is free. Pages are asked of the driver one by one, only when none is free, and go back at `empty_cache()`.
//! What is wasted lies inside last pages and slots: [`Counters::unasked`].
//!
//! Assumed: a page given back serves others as soon as the recording saw its streams done; mapping takes no memory.
//! Addresses are made up: a block lies in a row where it was mapped, free pages lie in a row of their own, and no
//! address is used twice by two blocks of whole pages.
//!
//! Always: reserved = active + free slots + free pages.

use crate::model::{Action, AllocationId, PoolId, SizeClass};
use crate::simulator::device::Driver;
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::policy::Policy;
use crate::simulator::request::{Request, Wanted};
use crate::simulator::scenario::Counters;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest slot.
const SMALLEST: u64 = 512;
/// Where free pages lie.
const FREE_FROM: u64 = 0x1000_0000_0000;
/// Where blocks are mapped from on.
const BLOCKS_FROM: u64 = 0x7000_0000_0000;

/// Whose page is cut into slots of which size.
type Cut = (PoolId, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Held {
    address: u64,
    size: u64,
    requested: u64,
    place: Place,
    /// Whether it is a slot of a page.
    slot: bool,
}

/// The pages of one device over a driver.
#[derive(Clone, Debug)]
pub struct Paged<D, J = ()> {
    journal: J,
    driver: D,
    page: u64,
    /// Pages that nothing is in.
    free: u64,
    /// First address that no block had.
    next: u64,
    /// Free slots.
    slots: FxHashMap<Cut, BTreeSet<u64>>,
    /// Slots in use of each page that is cut.
    used: BTreeMap<u64, u64>,
    held: FxHashMap<AllocationId, Held>,
    pending: BTreeSet<AllocationId>,
    counters: Counters,
}

impl<D: Driver, J: Journal> Paged<D, J> {
    /// A pool that holds nothing, of pages of `page` bytes: at least 512, else pages are of 512.
    pub fn new(journal: J, page: u64, driver: D) -> Paged<D, J> {
        Paged {
            journal,
            driver,
            page: page.max(SMALLEST),
            free: 0,
            next: BLOCKS_FROM,
            slots: FxHashMap::default(),
            used: BTreeMap::new(),
            held: FxHashMap::default(),
            pending: BTreeSet::new(),
            counters: Counters::default(),
        }
    }
    /// Bytes of free pages: the largest request that needs nothing of the driver.
    pub fn largest_free(&self) -> u64 {
        self.free * self.page
    }
    /// Where the free pages end.
    fn free_end(&self) -> u64 {
        FREE_FROM + self.free * self.page
    }
    /// Maps so many free pages into a row of their own, asking the driver for those that lack; none where it has none.
    fn map(&mut self, pages: u64, place: Place) -> Option<u64> {
        let size = pages.checked_mul(self.page)?;
        let next = self.next.checked_add(size)?;
        let lacking = pages.saturating_sub(self.free);
        let address = self.free_end();
        if 0 < lacking {
            let grown = lacking * self.page;
            if !self.driver.map(address, grown, self.counters.reserved.now) {
                return None;
            }
            self.counters.device_allocs += lacking;
            self.counters.reserved.add(grown);
            self.journal.segment(Action::SegmentMap, address, grown, place);
            self.free += lacking;
        }
        self.free -= pages;
        self.journal.segment(Action::SegmentUnmap, self.free_end(), size, place);
        let address = self.next;
        self.next = next;
        self.journal.segment(Action::SegmentMap, address, size, place);
        Some(address)
    }
    /// Makes mapped pages free pages.
    fn unmap(&mut self, address: u64, size: u64, place: Place) {
        self.journal.segment(Action::SegmentUnmap, address, size, place);
        self.journal.segment(Action::SegmentMap, self.free_end(), size, place);
        self.free += size / self.page;
    }
    /// A free slot, in a page cut for it where there is none.
    fn slot(&mut self, place: Place, size: u64) -> Option<u64> {
        let cut = (place.pool, place.stream, size);
        let lowest = |all: &mut Self| all.slots.get_mut(&cut).and_then(BTreeSet::pop_first);
        let address = match lowest(self) {
            Some(address) => address,
            None => {
                let page = self.map(1, place)?;
                self.used.insert(page, 0);
                let slots = (0..self.page / size).map(|slot| page + slot * size);
                self.slots.entry(cut).or_default().extend(slots);
                lowest(self)?
            }
        };
        if let Some((_, used)) = self.used.range_mut(..=address).next_back() {
            *used += 1;
        }
        Some(address)
    }
    fn free_slot(&mut self, Held { address, size, place, .. }: Held) {
        let cut = (place.pool, place.stream, size);
        let Some((&page, used)) = self.used.range_mut(..=address).next_back() else { return };
        *used -= 1;
        let is_empty = *used == 0;
        let slots = self.slots.entry(cut).or_default();
        slots.insert(address);
        if is_empty {
            for slot in 0..self.page / size {
                slots.remove(&(page + slot * size));
            }
            self.used.remove(&page);
            self.unmap(page, self.page, place);
        }
    }
    fn free_requested(&mut self, life: AllocationId) {
        if let Some(held) = self.held.get(&life)
            && self.pending.insert(life)
        {
            self.counters.allocated.sub(held.size);
            self.journal.free_requested(life);
        }
    }
    fn free_completed(&mut self, life: AllocationId) {
        if !self.pending.remove(&life) {
            return;
        }
        let Some(held) = self.held.remove(&life) else { return };
        self.journal.free_completed(life);
        self.counters.active.sub(held.size);
        self.counters.requested.sub(held.requested);
        if held.slot {
            self.free_slot(held);
        } else {
            self.unmap(held.address, held.size, held.place);
        }
    }
    fn complete_all(&mut self, lives: &[AllocationId]) {
        for life in lives {
            self.free_completed(*life);
        }
    }
    fn wait_for_all(&mut self, waiting: &[AllocationId]) {
        self.complete_all(waiting);
        while let Some(life) = self.pending.first().copied() {
            self.free_completed(life);
        }
    }
    fn empty_cache(&mut self) {
        self.wait_for_all(&[]);
        let (pages, size) = (self.free, self.free * self.page);
        if pages == 0 {
            return;
        }
        self.free = 0;
        self.driver.unmap(FREE_FROM, size);
        let place = Place { stream: 0, pool: PoolId::DEFAULT, class: SizeClass::Large };
        self.journal.segment(Action::SegmentUnmap, FREE_FROM, size, place);
        self.counters.device_frees += pages;
        self.counters.reserved.sub(size);
    }
    /// A block for a request: its address and its size.
    fn obtain(&mut self, wanted: &Wanted, place: Place) -> Option<(u64, u64, bool)> {
        let slot = wanted.size.max(SMALLEST).checked_next_power_of_two()?;
        if slot <= self.page / 2 {
            return self.slot(place, slot).map(|address| (address, slot, true));
        }
        let pages = wanted.size.div_ceil(self.page).max(1);
        self.map(pages, place).map(|address| (address, pages * self.page, false))
    }
}

impl<D: Driver, J: Journal> Policy for Paged<D, J> {
    type Journal = J;
    fn journal(&mut self) -> &mut J {
        &mut self.journal
    }
    fn allocate(&mut self, life: Option<AllocationId>, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let place = Place { stream: wanted.stream, pool: wanted.pool, class: SizeClass::Large };
        let mut found = self.obtain(wanted, place);
        if found.is_none() {
            // Free pages are in nobody's way: there is only what is pending to wait for.
            self.counters.retries += 1;
            self.wait_for_all(waiting);
            found = self.obtain(wanted, place);
        }
        let Some((address, size, slot)) = found else {
            self.complete_all(waiting);
            self.counters.ooms += 1;
            self.journal.oom(wanted.size, place, self.counters.reserved.now);
            return None;
        };
        if let Some(life) = life {
            self.held.insert(life, Held { address, size, requested: wanted.size, place, slot });
            self.journal.alloc(life, Given { address, size, requested: wanted.size, place });
        }
        self.counters.allocated.add(size);
        self.counters.active.add(size);
        self.counters.requested.add(wanted.size);
        self.complete_all(waiting);
        Some(address)
    }
    fn give_back(&mut self, request: &Request) {
        match request {
            Request::Free(life) => {
                self.free_requested(*life);
                self.free_completed(*life);
            }
            Request::FreeRequested(life) => self.free_requested(*life),
            Request::FreeCompleted(life) | Request::CompletedInRetry(life) => self.free_completed(*life),
            Request::EmptyCache => self.empty_cache(),
            Request::PoolEnds(_) | Request::Alloc(..) | Request::Failed(_) => {}
        }
    }
    fn lift(&mut self) {
        self.driver.lift();
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}
