//! Fragmentation over time: what is free, in pieces how large, and what would still fit.
//!
//! Always: every curve equals [`crate::replay::Replay::state_at`] at every position; gaps are kept up to date in
//! one pass over the lives ([`crate::analysis::gaps`]), never searched for again.

use crate::analysis::curve::Curve;
use crate::analysis::gaps::{Gaps, PoolKey, by_position};
use crate::analysis::query::{Asked, Query};
use crate::base::id::Id;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, AllocatorSettings, DeviceMemory, PoolId, Position, SegmentId, SizeClass, StreamId};

/// One whole in [`Fragmentation::external`]: parts per million.
pub const WHOLE_PPM: u64 = 1_000_000;

/// The curves of one pool, half and stream, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolCurves {
    /// The pool.
    pub pool: PoolId,
    /// Its half.
    pub class: SizeClass,
    /// The stream.
    pub stream: StreamId,
    /// Sum of its segments.
    pub reserved: Curve,
    /// Its blocks in use or pending free.
    pub active: Curve,
    /// Its blocks in use.
    pub allocated: Curve,
    /// Its largest gap.
    pub largest_free_block: Curve,
    /// The largest request its gaps can serve, by the rules of rounding and of the pool's halves.
    pub largest_request: Curve,
}

/// How the free memory of one device is cut up, at every position. Bytes unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Given back by the program and still waiting for another stream.
    pub pending_free: Curve,
    /// Reserved but not active.
    pub free: Curve,
    /// PyTorch's counter: free parts of `cudaMalloc` segments that also hold active blocks.
    pub inactive_split: Curve,
    /// The largest gap over all pools.
    pub largest_free_block: Curve,
    /// The largest request that the default pool would serve on the default stream without a new segment.
    pub largest_request: Curve,
    /// Number of segments, neighbouring ranges of an expandable segment being one.
    pub segments: Curve,
    /// Number of active blocks.
    pub active_blocks: Curve,
    /// External fragmentation, 1 − largest gap / free, in parts per million; zero where nothing is free.
    pub external: Curve,
    /// Internal fragmentation: active − requested, what rounding added and what was not split off.
    pub internal: Curve,
    /// The curves of each pool, half and stream, in that order.
    pub pools: Vec<PoolCurves>,
}

impl Fragmentation {
    /// Walks the lives of a device once.
    pub fn of(device: &DeviceMemory, settings: &AllocatorSettings, progress: &Progress) -> Result<Fragmentation, Cancelled> {
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

        let mut gaps = Gaps::new(device);
        let mut sums = Sums::default();
        let mut record = Record::new(&gaps.keys, settings, device.ordinal < 0);
        for position in (0..slots as u32).map(Position) {
            let mut changed = false;
            while let Some(id) = deaths.next_if(|id| died[id.row()] <= position) {
                let row = id.row();
                if born[row] < died[row] {
                    changed = true;
                    sums.end(lives.sizes()[row], lives.requested()[row], freed[row] == died[row] && born[row] < freed[row]);
                    gaps.end(id.0, lives.addresses()[row]);
                }
            }
            while let Some(id) = unmaps.next_if(|id| segments[id.row()].died <= position) {
                changed = true;
                // A piece that never existed was never mapped.
                if segments[id.row()].born < segments[id.row()].died {
                    gaps.unmap(id);
                }
            }
            while let Some(id) = maps.next_if(|id| segments[id.row()].born <= position) {
                changed = true;
                if segments[id.row()].born < segments[id.row()].died {
                    gaps.map(id);
                }
            }
            while let Some(id) = frees.next_if(|id| freed[id.row()] <= position) {
                let row = id.row();
                if born[row] < freed[row] && freed[row] < died[row] {
                    changed = true;
                    sums.allocated -= i128::from(lives.sizes()[row]);
                    gaps.wait(id.0, lives.addresses()[row]);
                }
            }
            while let Some(row) = births.next_if(|row| born[*row] <= position) {
                if born[row] < died[row] {
                    changed = true;
                    let is_allocated = born[row] < freed[row];
                    sums.begin(lives.sizes()[row], lives.requested()[row], is_allocated);
                    gaps.begin(row as u32, lives.addresses()[row], lives.sizes()[row], is_allocated);
                }
            }
            if changed {
                record.take(position, &mut gaps, &sums);
            }
            if position.0.is_multiple_of(8192) {
                progress.at(u64::from(position.0))?;
            }
        }
        progress.stage("drawing curves", 0)?;
        Ok(record.finish(device.end()))
    }
}

/// Sums over all blocks, those in no segment included.
#[derive(Default)]
struct Sums {
    active: i128,
    allocated: i128,
    requested: i128,
}

impl Sums {
    fn begin(&mut self, size: u64, requested: u64, is_allocated: bool) {
        self.active += i128::from(size);
        self.requested += i128::from(requested);
        self.allocated += if is_allocated { i128::from(size) } else { 0 };
    }
    fn end(&mut self, size: u64, requested: u64, was_allocated: bool) {
        self.active -= i128::from(size);
        self.requested -= i128::from(requested);
        self.allocated -= if was_allocated { i128::from(size) } else { 0 };
    }
}

/// The changes of one curve.
#[derive(Default)]
struct Changes {
    positions: Vec<u32>,
    values: Vec<u64>,
}

impl Changes {
    #[inline]
    fn set(&mut self, position: Position, value: u64) {
        if self.values.last().copied().unwrap_or(0) != value {
            self.positions.push(position.0);
            self.values.push(value);
        }
    }
    fn curve(&mut self, last: Position) -> Curve {
        let Changes { positions, values } = std::mem::take(self);
        Curve::from_changes(positions, values, last)
    }
}

/// All curves while they grow.
struct Record<'a> {
    settings: &'a AllocatorSettings,
    /// Pinned host memory rounds to powers of two and has no halves: a gap serves what it holds.
    host: bool,
    device: [Changes; 9],
    keys: Vec<PoolKey>,
    /// Reserved, active, allocated, largest gap, largest request.
    pools: Vec<[Changes; 5]>,
    /// Largest request of each pool, half and stream now.
    requests: Vec<u64>,
}

impl<'a> Record<'a> {
    fn new(keys: &[PoolKey], settings: &'a AllocatorSettings, host: bool) -> Record<'a> {
        let pools = keys.iter().map(|_| Default::default()).collect();
        Record { settings, host, device: Default::default(), keys: keys.to_vec(), pools, requests: vec![0; keys.len()] }
    }
    fn take(&mut self, position: Position, gaps: &mut Gaps<'_>, sums: &Sums) {
        gaps.take_touched(|row, pool| {
            let largest = pool.largest_free_block();
            let (_, class, _) = self.keys[row];
            let request = if self.host { largest } else { self.settings.largest_request(largest, class) };
            self.requests[row] = request;
            let values = [pool.reserved, pool.active, pool.allocated, largest, request];
            for (changes, value) in self.pools[row].iter_mut().zip(values) {
                changes.set(position, value);
            }
        });
        let own = |sum: i128| u64::try_from(sum.max(0)).unwrap_or(u64::MAX);
        let active = own(sums.active);
        let free = gaps.reserved.saturating_sub(active);
        let largest = gaps.largest_free_block();
        let is_default = |key: &PoolKey| key.0 == PoolId::DEFAULT && key.2 == StreamId::DEFAULT;
        let requests = self.keys.iter().zip(&self.requests).filter(|(key, _)| is_default(key)).map(|(_, request)| *request);
        let values = [
            active.saturating_sub(own(sums.allocated)),
            free,
            gaps.inactive_split,
            largest,
            requests.max().unwrap_or(0),
            gaps.segments(),
            gaps.active_blocks(),
            external_ppm(largest, free),
            active.saturating_sub(own(sums.requested)),
        ];
        for (changes, value) in self.device.iter_mut().zip(values) {
            changes.set(position, value);
        }
    }
    fn finish(mut self, last: Position) -> Fragmentation {
        let [
            pending_free,
            free,
            inactive_split,
            largest_free_block,
            largest_request,
            segments,
            active_blocks,
            external,
            internal,
        ] = std::mem::take(&mut self.device).map(|mut changes| changes.curve(last));
        let pools = self.keys.iter().zip(self.pools).map(|((pool, class, stream), changes)| {
            let [reserved, active, allocated, largest_free_block, largest_request] =
                changes.map(|mut changes| changes.curve(last));
            let (pool, class, stream) = (*pool, *class, *stream);
            PoolCurves { pool, class, stream, reserved, active, allocated, largest_free_block, largest_request }
        });
        let pools = pools.collect();
        Fragmentation {
            pending_free,
            free,
            inactive_split,
            largest_free_block,
            largest_request,
            segments,
            active_blocks,
            external,
            internal,
            pools,
        }
    }
}

/// 1 − largest gap / free, in parts per million; zero where nothing is free.
pub fn external_ppm(largest: u64, free: u64) -> u64 {
    if free == 0 {
        return 0;
    }
    let share = u128::from(largest.min(free)) * u128::from(WHOLE_PPM) / u128::from(free);
    WHOLE_PPM - share as u64
}

impl Query for Fragmentation {
    const NAME: &'static str = "fragmentation";
    type Params = ();
    type Answer = Fragmentation;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Fragmentation, Cancelled> {
        Fragmentation::of(asked.memory(), &asked.subject.snapshot.settings, progress)
    }
}

impl HeapSize for Fragmentation {
    fn heap_size(&self) -> usize {
        let Self {
            pending_free,
            free,
            inactive_split,
            largest_free_block,
            largest_request,
            segments,
            active_blocks,
            external,
            internal,
            pools,
        } = self;
        let device = [
            pending_free,
            free,
            inactive_split,
            largest_free_block,
            largest_request,
            segments,
            active_blocks,
            external,
            internal,
        ];
        let of_pool = |curves: &PoolCurves| {
            let PoolCurves { pool: _, class: _, stream: _, reserved, active, allocated, largest_free_block, largest_request } =
                curves;
            [reserved, active, allocated, largest_free_block, largest_request].map(Curve::heap_size).iter().sum::<usize>()
        };
        device.into_iter().map(Curve::heap_size).sum::<usize>()
            + pools.iter().map(|curves| size_of::<PoolCurves>() + of_pool(curves)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_free_block_is_no_fragmentation() {
        for (largest, free, ppm) in
            [(0, 0, 0), (100, 100, 0), (25, 100, 750_000), (0, 100, 1_000_000), (200, 100, 0), (u64::MAX / 2, u64::MAX, 500_001)]
        {
            assert_eq!(external_ppm(largest, free), ppm, "{largest} of {free}");
        }
    }
}
