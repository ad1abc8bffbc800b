//! Fragmentation over time: what is free, in pieces how large, and what would still fit.
//!
//! Always: every curve equals [`crate::replay::Replay::state_at`] at every position; gaps are kept up to date in
//! one pass over the lives ([`crate::analysis::gaps`]), never searched for again. The curves of a pool, a stream or one
//! half of a pool on one stream are made when somebody asks for them ([`GroupCurves`]), by the same pass.

use crate::analysis::block_sums::BlockSums;
use crate::analysis::curve::Curve;
use crate::analysis::gaps::{Gaps, PoolKey};
use crate::analysis::query::{Asked, Query};
use crate::analysis::timeline::UsageTimeline;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocatorSettings, DeviceMemory, PoolId, Position, SizeClass, StreamId};
use std::collections::BTreeSet;

/// One whole in [`Fragmentation::external`]: parts per million.
pub const WHOLE_PPM: u64 = 1_000_000;

/// Whose memory is meant. The segments of a device belong to one pool, one half of it and one stream each; blocks in
/// no segment belong to the device only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// All of the device.
    #[default]
    Device,
    /// One pool, all halves and streams.
    Pool(PoolId),
    /// One stream, in all pools.
    Stream(StreamId),
    /// One half of a pool on one stream: the space in which a free block can serve a request.
    Half(PoolId, SizeClass, StreamId),
}

impl Group {
    /// Whether a segment of this pool, half and stream belongs to it.
    pub fn has(self, (pool, class, stream): PoolKey) -> bool {
        match self {
            Group::Device => true,
            Group::Pool(own) => own == pool,
            Group::Stream(own) => own == stream,
            Group::Half(own, half, on) => (own, half, on) == (pool, class, stream),
        }
    }
    /// All groups of a device: itself, its pools, its streams, then each half of a pool on each stream, in that order.
    pub fn all(device: &DeviceMemory) -> Vec<Group> {
        let keys: BTreeSet<PoolKey> = device.segments.as_slice().iter().map(|s| (s.pool, s.class, s.stream)).collect();
        let mut all: BTreeSet<Group> = BTreeSet::from([Group::Device]);
        for (pool, class, stream) in keys {
            all.extend([Group::Pool(pool), Group::Stream(stream), Group::Half(pool, class, stream)]);
        }
        all.into_iter().collect()
    }
}

/// How the free memory of a group is cut up, at every position. Bytes unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Given back by the program and still waiting for another stream.
    pub pending_free: Curve,
    /// Reserved but not active.
    pub free: Curve,
    /// PyTorch's counter: free parts of `cudaMalloc` segments that also hold active blocks.
    pub inactive_split: Curve,
    /// The largest gap.
    pub largest_free_block: Curve,
    /// The largest request served without a new segment, by the rules of rounding and of the pool's halves: for the
    /// device one to the default pool on the default stream, for a group the largest of its halves and streams.
    pub largest_request: Curve,
    /// Number of segments, neighbouring ranges of an expandable segment being one.
    pub segments: Curve,
    /// Number of active blocks.
    pub active_blocks: Curve,
    /// External fragmentation, 1 − largest gap / free, in parts per million; zero where nothing is free.
    pub external: Curve,
    /// Internal fragmentation: active − requested, what rounding added and what was not split off.
    pub internal: Curve,
}

impl Fragmentation {
    /// The curves of the whole device.
    pub fn of(device: &DeviceMemory, settings: &AllocatorSettings, progress: &Progress) -> Result<Fragmentation, Cancelled> {
        GroupCurves::walk(device, settings, Group::Device, progress).map(|curves| curves.fragmentation)
    }
}

/// All curves of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCurves {
    /// Whose they are.
    pub group: Group,
    /// Its counters.
    pub usage: UsageTimeline,
    /// How its free memory is cut up.
    pub fragmentation: Fragmentation,
}

impl GroupCurves {
    /// Walks the lives of a device once, and keeps the curves of one group.
    pub fn of(
        device: &DeviceMemory,
        settings: &AllocatorSettings,
        group: Group,
        progress: &Progress,
    ) -> Result<GroupCurves, Cancelled> {
        let mut curves = GroupCurves::walk(device, settings, group, progress)?;
        if group == Group::Device {
            curves.usage = UsageTimeline::of(device, progress)?;
        }
        Ok(curves)
    }
    /// As [`GroupCurves::of`], but the device's own counters, which need no gaps, are left out.
    fn walk(
        device: &DeviceMemory,
        settings: &AllocatorSettings,
        group: Group,
        progress: &Progress,
    ) -> Result<GroupCurves, Cancelled> {
        let mut gaps = Gaps::new(device);
        let mut record = Record::new(&gaps.keys, settings, device.ordinal < 0, group);
        gaps.follow(progress, |position, changed, gaps, sums| {
            if changed {
                record.take(position, gaps, sums);
            }
        })?;
        progress.stage("drawing curves", 0)?;
        Ok(record.finish(device.end()))
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
    fn curve(self, last: Position) -> Curve {
        Curve::from_changes(self.positions, self.values, last)
    }
}

/// Sums over a group at one position, bytes unless said otherwise.
#[derive(Clone, Copy, Default)]
struct Values {
    reserved: u64,
    allocated: u64,
    active: u64,
    requested: u64,
    inactive_split: u64,
    largest: u64,
    request: u64,
    segments: u64,
    blocks: u64,
}

/// All curves while they grow.
struct Record<'a> {
    settings: &'a AllocatorSettings,
    /// Pinned host memory rounds to powers of two and has no halves: a gap serves what it holds.
    host: bool,
    group: Group,
    keys: Vec<PoolKey>,
    /// Rows of pool, half and stream that belong to the group.
    rows: Vec<usize>,
    /// Largest request of each pool, half and stream now.
    requests: Vec<u64>,
    /// Reserved, allocated, active, requested; empty for the device.
    usage: [Changes; 4],
    cut_up: [Changes; 9],
}

impl<'a> Record<'a> {
    fn new(keys: &[PoolKey], settings: &'a AllocatorSettings, host: bool, group: Group) -> Record<'a> {
        let rows = (0..keys.len()).filter(|row| group.has(keys[*row])).collect();
        let (keys, requests) = (keys.to_vec(), vec![0; keys.len()]);
        Record { settings, host, group, keys, rows, requests, usage: Default::default(), cut_up: Default::default() }
    }
    fn take(&mut self, position: Position, gaps: &mut Gaps<'_>, sums: &BlockSums) {
        let mut touched = self.group == Group::Device;
        gaps.take_touched(|row, pool| {
            let largest = pool.largest_free_block();
            let (_, class, _) = self.keys[row];
            self.requests[row] = if self.host { largest } else { self.settings.largest_request(largest, class) };
            touched |= self.group.has(self.keys[row]);
        });
        if !touched {
            return;
        }
        let values = if self.group == Group::Device { self.of_device(gaps, sums) } else { self.of_group(gaps) };
        if self.group != Group::Device {
            let usage = [values.reserved, values.allocated, values.active, values.requested];
            self.usage.iter_mut().zip(usage).for_each(|(changes, value)| changes.set(position, value));
        }
        let free = values.reserved.saturating_sub(values.active);
        let cut_up = [
            values.active.saturating_sub(values.allocated),
            free,
            values.inactive_split,
            values.largest,
            values.request,
            values.segments,
            values.blocks,
            external_ppm(values.largest, free),
            values.active.saturating_sub(values.requested),
        ];
        self.cut_up.iter_mut().zip(cut_up).for_each(|(changes, value)| changes.set(position, value));
    }
    fn of_device(&self, gaps: &Gaps<'_>, sums: &BlockSums) -> Values {
        let is_default = |key: &PoolKey| key.0 == PoolId::DEFAULT && key.2 == StreamId::DEFAULT;
        let requests = self.keys.iter().zip(&self.requests).filter(|(key, _)| is_default(key)).map(|(_, request)| *request);
        Values {
            reserved: gaps.reserved,
            allocated: sums.allocated(),
            active: sums.active(),
            requested: sums.requested(),
            inactive_split: gaps.inactive_split,
            largest: gaps.largest_free_block(),
            request: requests.max().unwrap_or(0),
            segments: gaps.segments(),
            blocks: gaps.active_blocks(),
        }
    }
    fn of_group(&self, gaps: &Gaps<'_>) -> Values {
        self.rows.iter().fold(Values::default(), |sum, row| {
            let pool = &gaps.pools[*row];
            Values {
                reserved: sum.reserved.saturating_add(pool.reserved),
                allocated: sum.allocated.saturating_add(pool.allocated),
                active: sum.active.saturating_add(pool.active),
                requested: sum.requested.saturating_add(pool.requested),
                inactive_split: sum.inactive_split.saturating_add(pool.inactive_split),
                largest: sum.largest.max(pool.largest_free_block()),
                request: sum.request.max(self.requests[*row]),
                segments: sum.segments + pool.segments,
                blocks: sum.blocks + pool.blocks,
            }
        })
    }
    fn finish(self, last: Position) -> GroupCurves {
        let [reserved, allocated, active, requested] = self.usage.map(|changes| changes.curve(last));
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
        ] = self.cut_up.map(|changes| changes.curve(last));
        GroupCurves {
            group: self.group,
            usage: UsageTimeline { reserved, allocated, active, requested },
            fragmentation: Fragmentation {
                pending_free,
                free,
                inactive_split,
                largest_free_block,
                largest_request,
                segments,
                active_blocks,
                external,
                internal,
            },
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

impl Query for GroupCurves {
    const NAME: &'static str = "curves of a pool or stream";
    type Params = Group;
    type Answer = GroupCurves;

    fn answer(asked: &Asked<'_>, group: &Group, progress: &Progress) -> Result<GroupCurves, Cancelled> {
        GroupCurves::of(asked.memory(), &asked.subject.snapshot.settings, *group, progress)
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
        } = self;
        let all = [
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
        all.into_iter().map(Curve::heap_size).sum()
    }
}

impl HeapSize for GroupCurves {
    fn heap_size(&self) -> usize {
        let Self { group: _, usage, fragmentation } = self;
        usage.heap_size() + fragmentation.heap_size()
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
