//! The curves of memory over time: reserved, allocated, active, requested.

use crate::analysis::curve::Curve;
use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceMemory, Position};
use crate::replay::Totals;

/// The four counters at every position of one device, exact, with their maxima at every scale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageTimeline {
    /// Sum of segments.
    pub reserved: Curve,
    /// Sizes of blocks in use.
    pub allocated: Curve,
    /// Allocated and pending free: what the stacked picture stacks.
    pub active: Curve,
    /// What the program asked for, over active blocks.
    pub requested: Curve,
}

/// A change of a counter, wide enough for the sum of all sizes of a recording.
trait Delta: Copy + Default + PartialEq + Into<i128> + std::ops::AddAssign + std::ops::SubAssign {
    fn of(bytes: u64) -> Self;
}

impl Delta for i64 {
    fn of(bytes: u64) -> i64 {
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}
impl Delta for i128 {
    fn of(bytes: u64) -> i128 {
        i128::from(bytes)
    }
}

impl UsageTimeline {
    /// Adds up the lives of a device.
    pub fn of(memory: &DeviceMemory, progress: &Progress) -> Result<UsageTimeline, Cancelled> {
        let lives = &memory.allocations;
        let all = |bytes: &mut dyn Iterator<Item = u64>| bytes.map(u128::from).sum::<u128>();
        let sums = [
            all(&mut memory.segments.as_slice().iter().map(|segment| segment.size)),
            all(&mut lives.sizes().iter().copied()),
            all(&mut lives.requested().iter().copied()),
        ];
        // No real recording adds up to 2^63 bytes; one that claims to is still shown exactly, at twice the memory.
        if sums.iter().all(|sum| *sum <= i64::MAX as u128) {
            Self::add_up::<i64>(memory, progress)
        } else {
            Self::add_up::<i128>(memory, progress)
        }
    }
    fn add_up<D: Delta>(memory: &DeviceMemory, progress: &Progress) -> Result<UsageTimeline, Cancelled> {
        let lives = &memory.allocations;
        let slots = memory.trace.len() + 1;
        progress.stage("adding up", 4)?;
        let mut deltas = vec![D::default(); slots];
        let mut sum = |done: u64, rows: &mut dyn Iterator<Item = (Position, Position, u64)>| -> Result<Curve, Cancelled> {
            deltas.fill(D::default());
            for (from, to, bytes) in rows {
                // A life that ends where it begins, or outside the trace, is never seen.
                if from < to && (from.0 as usize) < slots {
                    deltas[from.0 as usize] += D::of(bytes);
                    if let Some(end) = deltas.get_mut(to.0 as usize) {
                        *end -= D::of(bytes);
                    }
                }
            }
            progress.at(done)?;
            Ok(Curve::from_deltas(&deltas))
        };
        let columns = |ends: &'static str| {
            let to = if ends == "freed" { lives.freed() } else { lives.died() };
            lives.born().iter().copied().zip(to.iter().copied())
        };
        Ok(UsageTimeline {
            reserved: sum(1, &mut memory.segments.as_slice().iter().filter(|s| !s.inferred).map(|s| (s.born, s.died, s.size)))?,
            allocated: sum(2, &mut columns("freed").zip(lives.sizes()).map(|((a, b), s)| (a, b, *s)))?,
            active: sum(3, &mut columns("died").zip(lives.sizes()).map(|((a, b), s)| (a, b, *s)))?,
            requested: sum(4, &mut columns("died").zip(lives.requested()).map(|((a, b), s)| (a, b, *s)))?,
        })
    }
    /// The counters at a position.
    pub fn totals_at(&self, position: Position) -> Totals {
        Totals {
            reserved: self.reserved.at(position),
            allocated: self.allocated.at(position),
            active: self.active.at(position),
            requested: self.requested.at(position),
        }
    }
}

impl Query for UsageTimeline {
    const NAME: &'static str = "usage timeline";
    type Params = ();
    type Answer = UsageTimeline;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<UsageTimeline, Cancelled> {
        UsageTimeline::of(asked.memory(), progress)
    }
}

impl HeapSize for UsageTimeline {
    fn heap_size(&self) -> usize {
        let Self { reserved, allocated, active, requested } = self;
        reserved.heap_size() + allocated.heap_size() + active.heap_size() + requested.heap_size()
    }
}
