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
