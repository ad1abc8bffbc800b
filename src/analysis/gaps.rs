//! The gaps of a device's memory, kept up to date while lives begin and end.
//!
//! Always: between two changes the segments, gaps and sums are those of [`crate::replay::Replay::state_at`]:
//! pieces of one expandable segment joined, overlapping segments cut, blocks in no segment counted but in no
//! pool. Input that contradicts itself (blocks that overlap) costs a walk over the segment in question at each
//! of its changes, never a wrong figure.

use crate::analysis::block_sums::BlockSums;
use crate::analysis::held::HeldBook;
use crate::base::id::Id;
use crate::base::{Cancelled, Progress};
use crate::model::{AllocationId, DeviceMemory, PoolId, Position, Segment, SegmentId, SizeClass, StreamId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What walls off free memory: pool, half and stream.
pub type PoolKey = (PoolId, SizeClass, StreamId);

/// Sums over one pool, half and stream.
#[derive(Clone, Debug, Default)]
pub struct PoolSums {
    /// Its segments that the file names, bytes.
    pub reserved: u64,
    /// Its blocks in use or pending, bytes.
    pub active: u64,
    /// Its blocks in use, bytes.
    pub allocated: u64,
    /// What the program asked for with its active blocks, bytes.
    pub requested: u64,
    /// Its gaps, bytes.
    pub free: u64,
    /// Its part of PyTorch's counter: free parts of `cudaMalloc` segments that also hold active blocks, bytes.
    pub inactive_split: u64,
    /// Number of its segments.
    pub segments: u64,
    /// Number of its active blocks.
    pub blocks: u64,
    /// Its gaps: how many there are of each size.
    gaps: BTreeMap<u64, u32>,
}

impl PoolSums {
    /// Its largest gap in bytes.
    pub fn largest_free_block(&self) -> u64 {
        self.gaps.last_key_value().map_or(0, |(size, _)| *size)
    }
    /// Its gaps: each size, and how many there are of it, ascending.
    pub fn gaps(&self) -> impl Iterator<Item = (u64, u32)> {
        self.gaps.iter().map(|(size, count)| (*size, *count))
    }
    fn add_gap(&mut self, size: u64) {
        if 0 < size {
            *self.gaps.entry(size).or_insert(0) += 1;
        }
    }
    fn take_gap(&mut self, size: u64) {
        if let Some(count) = self.gaps.get_mut(&size) {
            *count -= 1;
            if *count == 0 {
                self.gaps.remove(&size);
            }
        }
    }
}

/// A mapped range of an expandable segment, as far as a request that maps more looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// The gap at its begin in bytes; 0 where a block lies there.
    pub front: u64,
    /// The gap at its end in bytes; 0 where a block lies there.
    pub back: u64,
}

/// A segment as people count them: one `cudaMalloc`, or neighbouring pieces of one expandable segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Its first piece, whose properties it has.
    first: SegmentId,
    end: u64,
    /// Row of its pool in [`Gaps::pools`].
    pool: usize,
    expandable: bool,
    inferred: bool,
    active: u64,
    allocated: u64,
    requested: u64,
    blocks: u64,
    free: u64,
    /// Some of its blocks overlap or reach over its end: its gaps are found by walking.
    tangled: bool,
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Live {
    end: u64,
    is_allocated: bool,
}

/// The gaps of one device between two changes.
#[derive(Debug)]
pub struct Gaps<'a> {
    device: &'a DeviceMemory,
    /// One row a pool, half and stream that any segment belongs to, in that order.
    pub keys: Vec<PoolKey>,
    /// The sums of each row of `keys`.
    pub pools: Vec<PoolSums>,
    /// Rows of `pools` that changed since the last [`Gaps::take_touched`].
    touched: Vec<bool>,
    runs: BTreeMap<u64, Run>,
    pieces: BTreeSet<(u64, SegmentId)>,
    live: BTreeMap<(u64, u32), Live>,
    /// PyTorch's counter, in bytes.
    pub inactive_split: u64,
    /// Sum of the pieces that the file names, bytes.
    pub reserved: u64,
    /// Number of segments that the file does not name.
    inferred: u64,
    /// How much free memory each block held, where that is asked for.
    held: Option<HeldBook>,
}

impl<'a> Gaps<'a> {
    /// A device before anything exists.
    pub fn new(device: &'a DeviceMemory) -> Gaps<'a> {
        let keys: BTreeSet<PoolKey> = device.segments.as_slice().iter().map(|s| (s.pool, s.class, s.stream)).collect();
        let keys: Vec<PoolKey> = keys.into_iter().collect();
        Gaps {
            device,
            pools: vec![PoolSums::default(); keys.len()],
            touched: vec![false; keys.len()],
            keys,
            runs: BTreeMap::new(),
            pieces: BTreeSet::new(),
            live: BTreeMap::new(),
            inactive_split: 0,
            reserved: 0,
            inferred: 0,
            held: None,
        }
    }
    /// The same, keeping book of how much free memory each block holds.
    pub(crate) fn with_book(device: &'a DeviceMemory) -> Gaps<'a> {
        Gaps { held: Some(HeldBook::new(device)), ..Gaps::new(device) }
    }
    /// The book, closed at the end of the trace.
    pub(crate) fn into_book(mut self) -> Option<HeldBook> {
        let starts: Vec<u64> = self.runs.keys().copied().collect();
        starts.into_iter().for_each(|start| self.close(start));
        self.held
    }
    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.runs.len() as u64
    }
    /// Number of segments that the file names.
    pub fn named_segments(&self) -> u64 {
        self.segments() - self.inferred
    }
    /// Number of active blocks.
    pub fn active_blocks(&self) -> u64 {
        self.live.len() as u64
    }
    /// The largest gap over all pools, bytes.
    pub fn largest_free_block(&self) -> u64 {
        self.pools.iter().map(PoolSums::largest_free_block).max().unwrap_or(0)
    }
    /// The mapped ranges of expandable segments that the file names in one pool, half and stream, in address order.
    pub fn mapped_ranges(&self, key: PoolKey) -> Vec<MappedRange> {
        let Ok(pool) = self.keys.binary_search(&key) else { return Vec::new() };
        let runs = self.runs.iter().filter(|(_, run)| run.expandable && !run.inferred && run.pool == pool);
        let range = |(start, run): (&u64, &Run)| {
            let mut blocks = self.live.range((*start, 0)..(run.end, 0));
            let front = blocks.clone().next().map_or(run.end, |((address, _), _)| *address) - start;
            // Without overlaps the last block reaches furthest.
            let last =
                if run.tangled { blocks.map(|(_, block)| block.end).max() } else { blocks.next_back().map(|(_, b)| b.end) };
            let back = run.end.saturating_sub(last.unwrap_or(*start));
            MappedRange { address: *start, size: run.end - start, front, back }
        };
        runs.map(range).collect()
    }
    /// Calls `visit` with each pool that changed since the last call.
    pub fn take_touched(&mut self, mut visit: impl FnMut(usize, &PoolSums)) {
        for (row, touched) in self.touched.iter_mut().enumerate() {
            if std::mem::take(touched) {
                visit(row, &self.pools[row]);
            }
        }
    }

    /// A segment or piece begins to exist.
    pub fn map(&mut self, id: SegmentId) {
        let piece = self.device.segments[id];
        self.reserved = self.reserved.saturating_add(if piece.inferred { 0 } else { piece.size });
        self.pieces.insert((piece.address, id));
        self.relay(piece.address..piece.end());
    }
    /// A segment or piece is gone.
    pub fn unmap(&mut self, id: SegmentId) {
        let piece = self.device.segments[id];
        self.reserved = self.reserved.saturating_sub(if piece.inferred { 0 } else { piece.size });
        self.pieces.remove(&(piece.address, id));
        self.relay(piece.address..piece.end());
    }
    /// A block becomes active.
    pub fn begin(&mut self, row: u32, address: u64, size: u64, is_allocated: bool) {
        let block = Live { end: address.saturating_add(size), is_allocated };
        let Some((start, mut run)) = self.run_at(address) else {
            self.live.insert((address, row), block);
            return;
        };
        let requested = self.requested(row);
        let (before, after) = self.neighbours(start, &run, (address, row));
        if run.tangled || address < before || after < block.end {
            self.withdraw(start);
            self.live.insert((address, row), block);
            self.contribute(start);
            return;
        }
        self.live.insert((address, row), block);
        let pool = self.touch(run.pool);
        pool.take_gap(after - before);
        pool.add_gap(address - before);
        pool.add_gap(after - block.end);
        pool.active += size;
        pool.allocated += if is_allocated { size } else { 0 };
        pool.requested = pool.requested.saturating_add(requested);
        pool.blocks += 1;
        pool.free -= size;
        let split = run.inactive_split();
        run.active += size;
        run.allocated += if is_allocated { size } else { 0 };
        run.requested = run.requested.saturating_add(requested);
        run.blocks += 1;
        run.free -= size;
        self.change_split(&run, split);
        self.runs.insert(start, run);
        self.mark(start);
    }
    /// A block is given back and waits for another stream.
    pub fn wait(&mut self, row: u32, address: u64) {
        let Some(block) = self.live.get_mut(&(address, row)) else { return };
        let size = if std::mem::take(&mut block.is_allocated) { block.end - address } else { 0 };
        if let Some((start, mut run)) = self.run_at(address) {
            run.allocated = run.allocated.saturating_sub(size);
            let pool = self.touch(run.pool);
            pool.allocated = pool.allocated.saturating_sub(size);
            self.runs.insert(start, run);
        }
    }
    /// A block is no longer active.
    pub fn end(&mut self, row: u32, address: u64) {
        let Some((start, mut run)) = self.run_at(address) else {
            self.live.remove(&(address, row));
            return;
        };
        if run.tangled {
            self.withdraw(start);
            self.live.remove(&(address, row));
            self.contribute(start);
            return;
        }
        let Some(block) = self.live.remove(&(address, row)) else { return };
        if let Some(book) = &mut self.held {
            book.close(start, row);
        }
        let requested = self.requested(row);
        let (before, after) = self.neighbours(start, &run, (address, row));
        let size = block.end - address;
        let pool = self.touch(run.pool);
        pool.take_gap(address - before);
        pool.take_gap(after - block.end);
        pool.add_gap(after - before);
        pool.active -= size;
        pool.allocated -= if block.is_allocated { size } else { 0 };
        pool.requested = pool.requested.saturating_sub(requested);
        pool.blocks -= 1;
        pool.free += size;
        let split = run.inactive_split();
        run.active -= size;
        run.allocated -= if block.is_allocated { size } else { 0 };
        run.requested = run.requested.saturating_sub(requested);
        run.blocks -= 1;
        run.free += size;
        self.change_split(&run, split);
        self.runs.insert(start, run);
        self.mark(start);
    }
    /// All changes of a position are made: what blocks hold from now on is that of the runs as they are.
    fn settle(&mut self, position: Position) {
        let Some(book) = &mut self.held else { return };
        book.settle(position, |start| self.runs.get(&start).map(|run| (run.free, run.blocks)));
    }

    fn requested(&self, row: u32) -> u64 {
        self.device.allocations.requested().get(row as usize).copied().unwrap_or(0)
    }
    fn mark(&mut self, start: u64) {
        if let Some(book) = &mut self.held {
            book.mark(start);
        }
    }
    /// A run is laid anew or is gone: what its blocks held in it so far is kept with them.
    fn close(&mut self, start: u64) {
        let (Some(run), Some(book)) = (self.runs.get(&start), &mut self.held) else { return };
        for ((_, row), _) in self.live.range((start, 0)..(run.end, 0)) {
            book.close(start, *row);
        }
        book.forget(start);
    }
    /// Takes a run's change of PyTorch's counter into the sums; `before` is what it added so far.
    fn change_split(&mut self, run: &Run, before: u64) {
        let now = run.inactive_split();
        self.inactive_split = self.inactive_split - before + now;
        let pool = &mut self.pools[run.pool];
        pool.inactive_split = pool.inactive_split - before + now;
    }

    fn touch(&mut self, pool: usize) -> &mut PoolSums {
        self.touched[pool] = true;
        &mut self.pools[pool]
    }
    fn run_at(&self, address: u64) -> Option<(u64, Run)> {
        let (start, run) = self.runs.range(..=address).next_back()?;
        (address < run.end).then_some((*start, *run))
    }
    /// Where the free range around a place in a run without overlaps begins and ends, its own block aside.
    fn neighbours(&self, start: u64, run: &Run, own: (u64, u32)) -> (u64, u64) {
        let before = self.live.range(..own).next_back().filter(|((address, _), _)| start <= *address);
        let after = self.live.range((own.0, own.1.saturating_add(1))..).next().filter(|((address, _), _)| *address < run.end);
        (before.map_or(start, |(_, block)| block.end), after.map_or(run.end, |((address, _), _)| *address))
    }
    /// Walks the blocks of a run: calls `gap` with each gap, and says whether blocks overlap or reach out.
    fn walk(&self, start: u64, end: u64, mut gap: impl FnMut(u64)) -> Walked {
        let (mut cursor, mut walked) = (start, Walked::default());
        for ((address, row), block) in self.live.range((start, 0)..(end, 0)) {
            if cursor < *address {
                gap(address - cursor);
                walked.free += address - cursor;
            }
            walked.tangled |= *address < cursor;
            cursor = cursor.max(block.end);
            let size = block.end - address;
            walked.active = walked.active.saturating_add(size);
            walked.allocated = walked.allocated.saturating_add(if block.is_allocated { size } else { 0 });
            walked.requested = walked.requested.saturating_add(self.requested(*row));
            walked.blocks += 1;
        }
        if cursor < end {
            gap(end - cursor);
            walked.free += end - cursor;
        }
        walked.tangled |= end < cursor;
        walked
    }
    /// Takes what a run adds to its pool out of the sums; the run stays, with its figures out of date.
    fn withdraw(&mut self, start: u64) {
        let Some(run) = self.runs.get(&start).copied() else { return };
        let mut gaps = Vec::new();
        self.walk(start, run.end, |gap| gaps.push(gap));
        self.close(start);
        self.inferred -= u64::from(run.inferred);
        self.inactive_split -= run.inactive_split();
        let pool = self.touch(run.pool);
        gaps.into_iter().for_each(|gap| pool.take_gap(gap));
        pool.inactive_split -= run.inactive_split();
        pool.free -= run.free;
        pool.segments -= 1;
        pool.blocks -= run.blocks;
        pool.requested = pool.requested.saturating_sub(run.requested);
        pool.reserved -= if run.inferred { 0 } else { run.end - start };
        pool.active = pool.active.saturating_sub(run.active);
        pool.allocated = pool.allocated.saturating_sub(run.allocated);
    }
    /// Reckons a run anew and adds it to its pool.
    fn contribute(&mut self, start: u64) {
        let Some(mut run) = self.runs.get(&start).copied() else { return };
        let mut gaps = Vec::new();
        let Walked { active, allocated, requested, blocks, free, tangled } = self.walk(start, run.end, |gap| gaps.push(gap));
        run = Run { active, allocated, requested, blocks, free, tangled, ..run };
        self.runs.insert(start, run);
        self.mark(start);
        self.inferred += u64::from(run.inferred);
        self.inactive_split += run.inactive_split();
        let pool = self.touch(run.pool);
        gaps.into_iter().for_each(|gap| pool.add_gap(gap));
        pool.inactive_split += run.inactive_split();
        pool.free += free;
        pool.segments += 1;
        pool.blocks += blocks;
        pool.requested = pool.requested.saturating_add(requested);
        pool.reserved += if run.inferred { 0 } else { run.end - start };
        pool.active = pool.active.saturating_add(active);
        pool.allocated = pool.allocated.saturating_add(allocated);
    }
    /// Lays the runs in and next to a range anew, after a piece of just that range came or went.
    fn relay(&mut self, changed: Range<u64>) {
        let segments = &self.device.segments;
        let extent = |start: u64, run: &Run| start.min(segments[run.first].address)..run.end;
        // What touches the range may join or part; whatever overlaps that was cut because of it.
        let mut region = changed.clone();
        let mut touching = true;
        let affected = loop {
            let reach = |end: u64, start: u64| if touching { start <= end } else { start < end };
            let before = self.runs.range(..=region.end).rev();
            let near = before.take_while(|(_, run)| reach(run.end, region.start)).filter(|(start, _)| reach(region.end, **start));
            let near: Vec<(u64, Run)> = near.map(|(start, run)| (*start, *run)).collect();
            let grown = near
                .iter()
                .map(|(start, run)| extent(*start, run))
                .fold(region.clone(), |all, one| all.start.min(one.start)..all.end.max(one.end));
            if grown == region && !touching {
                break near;
            }
            (region, touching) = (grown, false);
        };
        for (start, _) in &affected {
            self.withdraw(*start);
            self.runs.remove(start);
        }
        // Pieces that begin before the region and reach into it have a run there, so the region holds them.
        let inside: Vec<(u64, SegmentId)> =
            self.pieces.range((region.start, SegmentId(0))..(region.end, SegmentId(0))).copied().collect();
        let mut laid: Vec<(u64, SegmentId, u64)> = Vec::new();
        for (address, id) in inside {
            let piece = &segments[id];
            match laid.last_mut() {
                Some((_, first, end)) if *end == address && joins(&segments[*first], piece) => *end = piece.end(),
                Some((_, _, end)) if address < *end => {
                    let from = *end;
                    if from < piece.end() {
                        laid.push((from, id, piece.end()));
                    }
                }
                _ => laid.push((address, id, piece.end())),
            }
        }
        for (start, first, end) in laid {
            let Segment { pool, class, stream, expandable, inferred, .. } = self.device.segments[first];
            let pool = self.keys.partition_point(|key| *key < (pool, class, stream));
            let empty = Walked::default();
            let Walked { active, allocated, requested, blocks, free, tangled } = empty;
            let run = Run { first, end, pool, expandable, inferred, active, allocated, requested, blocks, free, tangled };
            self.runs.insert(start, run);
            self.contribute(start);
        }
    }
}

/// What a walk over a run's blocks finds, in bytes.
#[derive(Default)]
struct Walked {
    active: u64,
    allocated: u64,
    requested: u64,
    blocks: u64,
    free: u64,
    tangled: bool,
}

impl Run {
    /// What it adds to PyTorch's counter: free parts of a `cudaMalloc` segment that also holds blocks.
    fn inactive_split(&self) -> u64 {
        if !self.expandable && 0 < self.active { self.free } else { 0 }
    }
}

/// Whether two neighbouring pieces are one segment (see `replay::checkpoint`).
fn joins(a: &Segment, b: &Segment) -> bool {
    a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool && a.class == b.class
}

impl Gaps<'_> {
    /// Walks the lives of the device once. `visit` is called after each position's changes, with whether there were any.
    pub fn follow(
        &mut self,
        progress: &Progress,
        mut visit: impl FnMut(Position, bool, &mut Gaps<'_>, &BlockSums),
    ) -> Result<(), Cancelled> {
        let device = self.device;
        let slots = device.end().0 as usize + 1;
        progress.stage("following the gaps", slots as u64)?;
        let lives = &device.allocations;
        let (born, freed, died) = (lives.born(), lives.freed(), lives.died());
        let mut frees = by_position::<AllocationId>(freed.iter().copied(), slots).into_iter().peekable();
        let mut deaths = by_position::<AllocationId>(died.iter().copied(), slots).into_iter().peekable();
        let mut births = (0..born.len()).peekable();
        let segments = device.segments.as_slice();
        let mut unmaps = by_position::<SegmentId>(segments.iter().map(|s| s.died), slots).into_iter().peekable();
        let mut maps = by_position::<SegmentId>(segments.iter().map(|s| s.born), slots).into_iter().peekable();
        let mut sums = BlockSums::default();
        for position in (0..slots as u32).map(Position) {
            let mut changed = false;
            while let Some(id) = deaths.next_if(|id| died[id.row()] <= position) {
                let row = id.row();
                if born[row] < died[row] {
                    changed = true;
                    sums.end(lives.sizes()[row], lives.requested()[row], freed[row] == died[row] && born[row] < freed[row]);
                    self.end(id.0, lives.addresses()[row]);
                }
            }
            while let Some(id) = unmaps.next_if(|id| segments[id.row()].died <= position) {
                changed = true;
                // A piece that never existed was never mapped.
                if segments[id.row()].born < segments[id.row()].died {
                    self.unmap(id);
                }
            }
            while let Some(id) = maps.next_if(|id| segments[id.row()].born <= position) {
                changed = true;
                if segments[id.row()].born < segments[id.row()].died {
                    self.map(id);
                }
            }
            while let Some(id) = frees.next_if(|id| freed[id.row()] <= position) {
                let row = id.row();
                if born[row] < freed[row] && freed[row] < died[row] {
                    changed = true;
                    sums.wait(lives.sizes()[row], lives.requested()[row]);
                    self.wait(id.0, lives.addresses()[row]);
                }
            }
            while let Some(row) = births.next_if(|row| born[*row] <= position) {
                if born[row] < died[row] {
                    changed = true;
                    let is_allocated = born[row] < freed[row];
                    sums.begin(lives.sizes()[row], lives.requested()[row], is_allocated);
                    self.begin(row as u32, lives.addresses()[row], lives.sizes()[row], is_allocated);
                }
            }
            if changed {
                self.settle(position);
            }
            visit(position, changed, self, &sums);
            if position.0.is_multiple_of(8192) {
                progress.at(u64::from(position.0))?;
            }
        }
        Ok(())
    }
}

/// Ids sorted by a position of theirs (counting sort), those at or beyond `slots` left out.
pub(crate) fn by_position<I: Id>(positions: impl Iterator<Item = Position> + Clone, slots: usize) -> Vec<I> {
    let mut starts = vec![0u32; slots + 1];
    for position in positions.clone().filter(|position| (position.0 as usize) < slots) {
        starts[position.0 as usize + 1] += 1;
    }
    for slot in 1..starts.len() {
        starts[slot] += starts[slot - 1];
    }
    let mut sorted = vec![I::of_row(0); starts[slots] as usize];
    for (row, position) in positions.enumerate().filter(|(_, position)| (position.0 as usize) < slots) {
        let place = &mut starts[position.0 as usize];
        sorted[*place as usize] = I::of_row(row);
        *place += 1;
    }
    sorted
}
