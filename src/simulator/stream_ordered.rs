//! A model of a stream-ordered pool, as `cudaMallocAsync` serves from: no reproduction of it, for the driver's placement
//! is not published.
//!
//! Documented by NVIDIA (CUDA Programming Guide, "Stream-Ordered Memory Allocator"; `cudaMemPoolAttr`): one pool a
//! device; what a stream gave back serves that stream at once; it serves others when it is done, and before that too
//! where the driver makes them wait, which is on by default; above the release threshold (default 0) memory goes back to
//! the driver at the next synchronisation.
//!
//! Assumed: blocks are multiples of 512 bytes, the smallest that fits is taken, of equal ones the lowest, with the
//! stream's own before those of nobody and those before others'; the pool grows by whole chunks of 32 MiB, neighbours
//! merge within a chunk only, and a chunk goes back when all of it is free. Private pools of the recording are pools of
//! their own. A block that another stream still used is free when the recording saw that stream done. A recording holds
//! no synchronisation but `empty_cache()`, so that is where one takes place; where memory runs out all is waited for,
//! every free chunk goes back, and the request is tried once more.
//!
//! Always: the parts of a chunk tile it; free neighbours of one stream are one part; reserved = active + free.

use crate::model::{Action, AllocationId, PoolId, SizeClass};
use crate::simulator::device::Driver;
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::policy::Policy;
use crate::simulator::request::{Request, Wanted};
use crate::simulator::scenario::Counters;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Unit of blocks.
const UNIT: u64 = 512;
/// Unit by which the pool grows.
const CHUNK: u64 = 32 << 20;

/// A part of a chunk, in use or free.
#[derive(Clone, Copy, Debug)]
struct Part {
    size: u64,
    /// First byte of its chunk.
    chunk: u64,
    used: bool,
    /// The stream that gave it back, as long as nothing was waited for.
    stream: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    size: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    address: u64,
    requested: u64,
    stream: u64,
}

/// The pool of one device over a driver.
#[derive(Clone, Debug)]
pub struct StreamOrdered<D, J = ()> {
    journal: J,
    driver: D,
    /// Bytes that stay at a synchronisation; none: all.
    threshold: Option<u64>,
    parts: BTreeMap<u64, Part>,
    chunks: FxHashMap<u64, Chunk>,
    /// Chunks all of which is free.
    whole: BTreeSet<u64>,
    /// Free parts by pool, who gave them back, size and address.
    by_stream: BTreeSet<(PoolId, Option<u64>, u64, u64)>,
    /// Free parts by pool, size and address.
    by_size: BTreeSet<(PoolId, u64, u64)>,
    held: FxHashMap<AllocationId, Held>,
    /// Lives given back that another stream still uses.
    pending: BTreeSet<AllocationId>,
    counters: Counters,
}

impl<D: Driver, J: Journal> StreamOrdered<D, J> {
    /// A pool that holds nothing, and keeps `threshold` bytes at a synchronisation; none: all.
    pub fn new(journal: J, threshold: Option<u64>, driver: D) -> StreamOrdered<D, J> {
        StreamOrdered {
            journal,
            driver,
            threshold,
            parts: BTreeMap::new(),
            chunks: FxHashMap::default(),
            whole: BTreeSet::new(),
            by_stream: BTreeSet::new(),
            by_size: BTreeSet::new(),
            held: FxHashMap::default(),
            pending: BTreeSet::new(),
            counters: Counters::default(),
        }
    }
    /// The smallest free part that fits: the stream's own, nobody's, another's.
    fn find(&self, pool: PoolId, stream: u64, size: u64) -> Option<u64> {
        let of = |who: Option<u64>| {
            let range = (pool, who, size, 0)..=(pool, who, u64::MAX, u64::MAX);
            self.by_stream.range(range).next().map(|(.., address)| *address)
        };
        let others = || self.by_size.range((pool, size, 0)..=(pool, u64::MAX, u64::MAX)).next().map(|(.., address)| *address);
        of(Some(stream)).or_else(|| of(None)).or_else(others)
    }
    fn grow(&mut self, wanted: &Wanted, size: u64) -> Option<u64> {
        let size = size.checked_next_multiple_of(CHUNK)?;
        let address = self.driver.allocate(size, self.counters.reserved.now)?;
        let place = Place { stream: wanted.stream, pool: wanted.pool, class: SizeClass::Large };
        self.journal.segment(Action::SegmentAlloc, address, size, place);
        self.counters.device_allocs += 1;
        self.counters.reserved.add(size);
        self.counters.segments.add(1);
        self.chunks.insert(address, Chunk { size, place });
        self.put(address, Part { size, chunk: address, used: false, stream: None });
        Some(address)
    }
    /// Notes a free part.
    fn put(&mut self, address: u64, part: Part) {
        if let Some(chunk) = self.chunks.get(&part.chunk) {
            self.by_stream.insert((chunk.place.pool, part.stream, part.size, address));
            self.by_size.insert((chunk.place.pool, part.size, address));
            if chunk.size == part.size {
                self.whole.insert(address);
            }
        }
        self.parts.insert(address, part);
    }
    /// Takes a free part out of the sets.
    fn take(&mut self, address: u64) -> Option<Part> {
        let part = self.parts.remove(&address)?;
        if let Some(chunk) = self.chunks.get(&part.chunk) {
            self.by_stream.remove(&(chunk.place.pool, part.stream, part.size, address));
            self.by_size.remove(&(chunk.place.pool, part.size, address));
            self.whole.remove(&address);
        }
        Some(part)
    }
    /// Notes a free part together with the free neighbours that the same stream gave back.
    fn put_merged(&mut self, mut address: u64, mut part: Part) {
        let joins = |other: &Part| !other.used && other.chunk == part.chunk && other.stream == part.stream;
        let before = self.parts.range(..address).next_back().filter(|(_, other)| joins(other)).map(|(at, _)| *at);
        let behind = self.parts.get(&(address + part.size)).filter(|other| joins(other)).map(|_| address + part.size);
        if let Some(other) = behind.and_then(|behind| self.take(behind)) {
            part.size += other.size;
        }
        if let Some((at, other)) = before.and_then(|before| Some((before, self.take(before)?))) {
            address = at;
            part.size += other.size;
        }
        self.put(address, part);
    }
    fn free_requested(&mut self, life: AllocationId) -> bool {
        let Some(part) = self.held.get(&life).and_then(|held| self.parts.get(&held.address)) else { return false };
        let first = self.pending.insert(life);
        if first {
            self.counters.allocated.sub(part.size);
            self.journal.free_requested(life);
        }
        first
    }
    fn free_completed(&mut self, life: AllocationId) {
        if !self.pending.remove(&life) {
            return;
        }
        let Some(Held { address, requested, stream }) = self.held.remove(&life) else { return };
        let Some(part) = self.parts.remove(&address) else { return };
        self.journal.free_completed(life);
        self.counters.active.sub(part.size);
        self.counters.requested.sub(requested);
        self.put_merged(address, Part { used: false, stream: Some(stream), ..part });
    }
    fn complete_all(&mut self, lives: &[AllocationId]) {
        for life in lives {
            self.free_completed(*life);
        }
    }
    /// All that is pending is over, and what is free is nobody's; chunks go back until `keep` bytes are left.
    fn synchronise(&mut self, waiting: &[AllocationId], keep: Option<u64>) {
        self.complete_all(waiting);
        while let Some(life) = self.pending.first().copied() {
            self.free_completed(life);
        }
        let owned: Vec<u64> =
            self.by_stream.iter().filter(|(_, stream, ..)| stream.is_some()).map(|(.., address)| *address).collect();
        for address in owned {
            if let Some(part) = self.take(address) {
                self.put_merged(address, Part { stream: None, ..part });
            }
        }
        let Some(keep) = keep else { return };
        while keep < self.counters.reserved.now {
            let Some(address) = self.whole.first().copied() else { return };
            self.take(address);
            let Some(chunk) = self.chunks.remove(&address) else { return };
            self.driver.release(address, chunk.size);
            self.journal.segment(Action::SegmentFree, address, chunk.size, chunk.place);
            self.counters.device_frees += 1;
            self.counters.reserved.sub(chunk.size);
            self.counters.segments.sub(1);
        }
    }
}

impl<D: Driver, J: Journal> Policy for StreamOrdered<D, J> {
    type Journal = J;
    fn journal(&mut self) -> &mut J {
        &mut self.journal
    }
    fn allocate(&mut self, life: Option<AllocationId>, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64> {
        let size = wanted.size.max(1).checked_next_multiple_of(UNIT)?;
        let (pool, stream) = (wanted.pool, wanted.stream);
        let mut found = self.find(pool, stream, size).or_else(|| self.grow(wanted, size));
        if found.is_none() {
            self.counters.retries += 1;
            self.synchronise(waiting, None);
            found = self.find(pool, stream, size);
        }
        if found.is_none() {
            self.synchronise(&[], Some(0));
            found = self.grow(wanted, size);
        }
        let place = Place { stream, pool, class: SizeClass::Large };
        let Some((address, part)) = found.and_then(|address| Some((address, self.take(address)?))) else {
            self.complete_all(waiting);
            self.counters.ooms += 1;
            self.journal.oom(size, place, self.counters.reserved.now);
            return None;
        };
        if size < part.size {
            self.put(address + size, Part { size: part.size - size, ..part });
        }
        self.parts.insert(address, Part { size, used: true, stream: None, ..part });
        if let Some(life) = life {
            self.held.insert(life, Held { address, requested: wanted.size, stream });
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
            Request::FreeRequested(life) => {
                self.free_requested(*life);
            }
            Request::FreeCompleted(life) | Request::CompletedInRetry(life) => self.free_completed(*life),
            Request::EmptyCache => self.synchronise(&[], self.threshold),
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
