//! How much the allocator could have held, as far as a recording tells.
//!
//! Only an out-of-memory event states what was left on the device. With what was reserved then, that is all the
//! allocator could ever have held: the card less the contexts and whatever others held of it. (The card's own size is
//! in no snapshot.) Where several failures give different sums, others came or went; the last one counts.

use crate::analysis::timeline::UsageTimeline;
use crate::model::{DeviceMemory, Position};

/// Bytes reserved and left on the device at the last out-of-memory event; none without one.
pub fn at_last_oom(memory: &DeviceMemory, usage: &UsageTimeline) -> Option<u64> {
    let event = *memory.trace.ooms().last()?;
    let device_free = memory.trace.addresses()[event.0 as usize];
    usage.reserved.at(Position::after(event)).checked_add(device_free)
}

/// What a recording tells about how much the allocator could have held, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Nothing failed: at least the most that was ever reserved.
    AtLeast(u64),
    /// The last failure states it.
    Known {
        /// The most the allocator could have held at the last failure.
        bytes: u64,
        /// Of that, what was reserved.
        reserved: u64,
        /// Of that, what was left on the device.
        device_free: u64,
        /// How much less it was than at the first failure: what others on the device took meanwhile; negative where
        /// they gave back.
        taken_since_first: i128,
    },
}

impl Capacity {
    /// Reads the failures of a device.
    pub fn of(memory: &DeviceMemory, usage: &UsageTimeline) -> Capacity {
        let trace = &memory.trace;
        let parts =
            |event: &crate::model::EventIdx| (usage.reserved.at(Position::after(*event)), trace.addresses()[event.0 as usize]);
        let (Some(first), Some(last)) = (trace.ooms().first(), trace.ooms().last()) else {
            return Capacity::AtLeast(usage.reserved.peak().1);
        };
        let ((reserved, device_free), then) = (parts(last), parts(first));
        let sum = |(a, b): (u64, u64)| i128::from(a) + i128::from(b);
        match reserved.checked_add(device_free) {
            Some(bytes) => {
                let taken_since_first = sum(then) - sum((reserved, device_free));
                Capacity::Known { bytes, reserved, device_free, taken_since_first }
            }
            None => Capacity::AtLeast(usage.reserved.peak().1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Curve;
    use crate::model::{Action, StackId, StreamId, TraceEntry};

    #[test]
    fn failures_tell_what_the_device_could_hold() {
        for (ooms, reserved, expected) in [
            (vec![], vec![0, 40, 30], Capacity::AtLeast(40)),
            (vec![(1, 60)], vec![0, 40, 30], Capacity::Known { bytes: 90, reserved: 30, device_free: 60, taken_since_first: 0 }),
            (
                vec![(0, 60), (1, 50)],
                vec![0, 40, 30],
                Capacity::Known { bytes: 80, reserved: 30, device_free: 50, taken_since_first: 20 },
            ),
            (vec![(1, u64::MAX)], vec![0, 40, 30], Capacity::AtLeast(40)),
        ] {
            let mut memory = DeviceMemory::default();
            for event in 0..2 {
                let oom = ooms.iter().find(|(at, _)| *at == event);
                memory.trace.push(TraceEntry {
                    action: if oom.is_some() { Action::Oom } else { Action::SegmentFree },
                    address: oom.map_or(0, |(_, free)| *free),
                    size: 1,
                    stream: StreamId::DEFAULT,
                    time_us: None,
                    stack: StackId::ABSENT,
                    pool: None,
                    compile_context: None,
                    user_metadata: None,
                });
            }
            let reserved = Curve::from_changes(vec![0, 1, 2], reserved, memory.end());
            let usage = UsageTimeline { reserved, ..UsageTimeline::default() };
            assert_eq!(Capacity::of(&memory, &usage), expected, "{ooms:?}");
        }
    }
}
