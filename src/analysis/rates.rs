//! How fast memory is allocated and freed, bucket by bucket along the time axis.
//!
//! The axis is cut into buckets of one length, from its beginning on. By time a value is what happened in a bucket
//! divided by its length, per second; by events it is what happened in the bucket itself.
//!
//! Always: bytes are the sizes of blocks, as `allocated` counts them: what was allocated in a bucket less what was freed
//! in it is by how much `allocated` grew. An event without a time counts at the latest time seen before it.

use crate::analysis::curve::Curve;
use crate::analysis::fragmentation::Group;
use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceMemory, Position};

/// Most buckets along one axis: finer ones than the axis holds are made longer.
const MOST_BUCKETS: u64 = 1 << 16;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateParams {
    /// Whose blocks.
    pub group: Group,
    /// Buckets of time in µs; else of events.
    pub by_time: bool,
    /// Length of a bucket in µs or events, at least 1.
    pub bucket: u64,
}

/// Rates bucket by bucket: the "positions" of the curves are buckets, 0 the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Whether buckets are of time.
    pub by_time: bool,
    /// Length of a bucket in µs or events, as it was in fact.
    pub bucket: u64,
    /// Bytes allocated, a second or a bucket.
    pub allocated: Curve,
    /// Bytes given back by the program, a second or a bucket.
    pub freed: Curve,
    /// Blocks allocated, a second or a bucket.
    pub allocations: Curve,
    /// Blocks given back, a second or a bucket.
    pub frees: Curve,
}

impl Rates {
    /// Adds up the lives of a group.
    pub fn of(device: &DeviceMemory, params: &RateParams, progress: &Progress) -> Result<Rates, Cancelled> {
        let RateParams { group, by_time, bucket } = *params;
        let trace = &device.trace;
        progress.stage("counting by buckets", device.allocations.len() as u64)?;
        // The unit of the axis at which each position begins.
        let start = trace.time_span_us().map_or(0, |(start, _)| start);
        let mut latest = 0;
        let mut unit_of = |position: u32| match position.checked_sub(1) {
            _ if !by_time => u64::from(position),
            None => 0,
            Some(event) => {
                let since = trace.time_us(crate::model::EventIdx(event)).map_or(0, |time| time.saturating_sub(start));
                latest = latest.max(u64::try_from(since).unwrap_or(0));
                latest
            }
        };
        let units: Vec<u64> = (0..=device.end().0).map(&mut unit_of).collect();
        let last = units.last().copied().unwrap_or(0);
        let bucket = bucket.max(1).max(last / MOST_BUCKETS);
        let buckets = (last / bucket) as usize + 1;
        let mut sums = vec![[0u64; 4]; buckets];
        let lives = &device.allocations;
        for row in 0..lives.len() {
            if row.is_multiple_of(1 << 16) {
                progress.at(row as u64)?;
            }
            let (born, freed) = (lives.born()[row], lives.freed()[row]);
            let key = device.segments.get(lives.segments()[row]).map(|s| (s.pool, s.class, s.stream));
            if freed <= born || !(group == Group::Device || key.is_some_and(|key| group.has(key))) {
                continue;
            }
            let mut add = |at: Position, place: usize| {
                if let Some(unit) = units.get(at.0 as usize).filter(|_| at != Position::START) {
                    let sum = &mut sums[(unit / bucket) as usize];
                    sum[place] = sum[place].saturating_add(lives.sizes()[row]);
                    sum[place + 1] += 1;
                }
            };
            add(born, 0);
            add(freed, 2);
        }
        let rate = |sum: u64| match by_time {
            true => u64::try_from(u128::from(sum) * 1_000_000 / u128::from(bucket)).unwrap_or(u64::MAX),
            false => sum,
        };
        let curve = |place: usize| {
            let values = sums.iter().map(|sum| rate(sum[place])).collect();
            Curve::from_changes((0..buckets as u32).collect(), values, Position(buckets as u32 - 1))
        };
        Ok(Rates { by_time, bucket, allocated: curve(0), allocations: curve(1), freed: curve(2), frees: curve(3) })
    }
}

impl Query for Rates {
    const NAME: &'static str = "allocation rates";
    type Params = RateParams;
    type Answer = Rates;

    fn answer(asked: &Asked<'_>, params: &RateParams, progress: &Progress) -> Result<Rates, Cancelled> {
        Rates::of(asked.memory(), params, progress)
    }
}

impl HeapSize for Rates {
    fn heap_size(&self) -> usize {
        let Self { by_time: _, bucket: _, allocated, freed, allocations, frees } = self;
        [allocated, freed, allocations, frees].into_iter().map(Curve::heap_size).sum()
    }
}
