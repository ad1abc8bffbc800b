//! What taking memory from the driver costs: how often, how much, and how long it can have taken at most.
//!
//! PyTorch writes `segment_alloc`, `segment_map` and `segment_unmap` when the driver's call has returned, and
//! `segment_free` before it is made. So the call lies between the event before and the segment event, or between
//! `segment_free` and the event after it, together with whatever else the program did there: the time is an upper
//! bound. A stretch that two segment events share counts once.
//!
//! Always: all curves only grow; they count events of the recording, so what was taken before it is not in them.

use crate::analysis::curve::Curve;
use crate::analysis::fragmentation::Group;
use crate::analysis::gaps::PoolKey;
use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{Action, DeviceMemory, EventIdx, Position};
use rustc_hash::FxHashMap;

/// Sums since the beginning of the trace, at every position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCost {
    /// `segment_alloc` and `segment_map` so far.
    pub taken: Curve,
    /// Their bytes.
    pub taken_bytes: Curve,
    /// `segment_free` and `segment_unmap` so far.
    pub given_back: Curve,
    /// Their bytes.
    pub given_back_bytes: Curve,
    /// The time around them in µs, at most; none where the events carry no times.
    pub time_us: Option<Curve>,
}

impl SegmentCost {
    /// Counts the segment events of a group. An event whose segment no life tells belongs to the device only.
    pub fn of(device: &DeviceMemory, group: Group, progress: &Progress) -> Result<SegmentCost, Cancelled> {
        let trace = &device.trace;
        progress.stage("counting segments", trace.len() as u64)?;
        let keys = if group == Group::Device { FxHashMap::default() } else { keys_of_events(device) };
        let mut curves: [(Vec<u32>, Vec<u64>); 5] = Default::default();
        let mut sums = [0u64; 5];
        // The end of the last stretch that was counted, as an event.
        let mut counted = 0u32;
        for event in trace.events() {
            if event.0.is_multiple_of(1 << 16) {
                progress.at(u64::from(event.0))?;
            }
            let action = trace.actions()[event.0 as usize];
            let (taken, stretch) = match action {
                Action::SegmentAlloc | Action::SegmentMap => (true, event.0.saturating_sub(1)..event.0),
                Action::SegmentUnmap => (false, event.0.saturating_sub(1)..event.0),
                Action::SegmentFree => (false, event.0..event.0 + 1),
                _ => continue,
            };
            if group != Group::Device && !keys.get(&event).is_some_and(|key| group.has(*key)) {
                continue;
            }
            let place = if taken { 0 } else { 2 };
            sums[place] += 1;
            sums[place + 1] = sums[place + 1].saturating_add(trace.sizes()[event.0 as usize]);
            let from = stretch.start.max(counted);
            if let (Some(from), Some(to)) = (trace.time_us(EventIdx(from)), trace.time_us(EventIdx(stretch.end)))
                && stretch.start <= stretch.end
            {
                sums[4] = sums[4].saturating_add(u64::try_from(to.saturating_sub(from)).unwrap_or(0));
            }
            counted = counted.max(stretch.end);
            for (curve, sum) in curves.iter_mut().zip(sums) {
                if curve.1.last().copied().unwrap_or(0) != sum {
                    curve.0.push(Position::after(event).0);
                    curve.1.push(sum);
                }
            }
        }
        let [taken, taken_bytes, given_back, given_back_bytes, time_us] =
            curves.map(|(positions, values)| Curve::from_changes(positions, values, device.end()));
        let time_us = trace.has_times().then_some(time_us);
        Ok(SegmentCost { taken, taken_bytes, given_back, given_back_bytes, time_us })
    }
}

/// Pool, half and stream of each segment event, from the lives of the segments.
fn keys_of_events(device: &DeviceMemory) -> FxHashMap<EventIdx, PoolKey> {
    let mut keys = FxHashMap::default();
    for segment in device.segments.as_slice() {
        for event in [segment.born, segment.died].into_iter().filter(|at| *at <= device.end()).filter_map(Position::event) {
            keys.entry(event).or_insert((segment.pool, segment.class, segment.stream));
        }
    }
    keys
}

impl Query for SegmentCost {
    const NAME: &'static str = "cost of segments";
    type Params = Group;
    type Answer = SegmentCost;

    fn answer(asked: &Asked<'_>, group: &Group, progress: &Progress) -> Result<SegmentCost, Cancelled> {
        SegmentCost::of(asked.memory(), *group, progress)
    }
}

impl HeapSize for SegmentCost {
    fn heap_size(&self) -> usize {
        let Self { taken, taken_bytes, given_back, given_back_bytes, time_us } = self;
        [taken, taken_bytes, given_back, given_back_bytes].into_iter().chain(time_us).map(Curve::heap_size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{StackId, StreamId, TraceEntry};

    #[test]
    fn time_around_segment_events_is_counted_once() {
        use Action::{Alloc, FreeRequested, SegmentAlloc, SegmentFree, SegmentUnmap};
        for (events, taken, given_back, us) in [
            // The program waited 5, cudaMalloc took at most 20.
            (vec![(FreeRequested, 0), (Alloc, 5), (SegmentAlloc, 25), (Alloc, 26)], 1, 0, 20),
            // From the first release to the new segment, in one piece; what came before it is not meant.
            (vec![(Alloc, 0), (SegmentFree, 100), (SegmentFree, 130), (SegmentAlloc, 150), (Alloc, 151)], 1, 2, 50),
            // An unmapping is written when it is done, and a release at the end has no event after it.
            (vec![(Alloc, 0), (SegmentUnmap, 7), (Alloc, 9), (SegmentFree, 12)], 0, 2, 7),
            (vec![(SegmentAlloc, 3)], 1, 0, 0),
            (vec![], 0, 0, 0),
        ] {
            let mut device = DeviceMemory::default();
            for (action, time) in &events {
                device.trace.push(TraceEntry {
                    action: *action,
                    address: 0,
                    size: 512,
                    stream: StreamId::DEFAULT,
                    time_us: Some(1_000_000 + time),
                    stack: StackId::ABSENT,
                    pool: None,
                    compile_context: None,
                    user_metadata: None,
                });
            }
            let cost = SegmentCost::of(&device, Group::Device, &Progress::new()).expect("nobody cancels");
            let last = |curve: &Curve| curve.peak().1;
            assert_eq!((last(&cost.taken), last(&cost.given_back)), (taken, given_back), "{events:?}");
            assert_eq!((last(&cost.taken_bytes), last(&cost.given_back_bytes)), (taken * 512, given_back * 512), "{events:?}");
            assert_eq!(cost.time_us.map_or(0, |curve| last(&curve)), us, "{events:?}");
        }
    }
}
