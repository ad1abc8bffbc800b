//! What refusals of the driver tell of the memory the allocator could have, where the card's size is not known.
//!
//! Always: what is told is what the driver gave at least; it is never more than what it refused.

use crate::analysis::{ReleaseReason, Releases, most_ever_reserved};
use crate::model::{Action, AllocatorSettings, DeviceMemory, Position};
use crate::replay::Replay;

/// The memory the allocator could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityTold {
    /// At least so much, bytes: exactly this where a failure tells.
    pub bytes: u64,
    /// Less than this, bytes, where only retries tell.
    pub below: Option<u64>,
    /// Retries that tell it.
    pub retries: u32,
}

impl CapacityTold {
    /// By the last failure; without one, between the most that was reserved and the least that was refused in front of a
    /// retry: whatever lies between them would have made the same recording. None where nothing was refused, or where
    /// more was given than was refused at another time, so that others must have held more then.
    pub fn of(memory: &DeviceMemory, replay: &Replay, releases: &Releases, settings: &AllocatorSettings) -> Option<CapacityTold> {
        if let Some(bytes) = capacity_told(memory, replay) {
            return Some(CapacityTold { bytes, below: None, retries: 0 });
        }
        // Garbage goes back before the driver is asked, so it tells nothing of what it would have said.
        if 0.0 < settings.garbage_collection_threshold {
            return None;
        }
        let actions = memory.trace.actions();
        let (mut below, mut retries) = (u64::MAX, 0);
        for run in releases.runs.iter().filter(|run| run.reason == ReleaseReason::Retry) {
            let grows = |event: &usize| matches!(actions[*event], Action::SegmentAlloc | Action::SegmentMap);
            let growth = (run.events.end as usize..actions.len()).take_while(grows);
            let needed = growth.fold(0, |sum: u64, event| sum.saturating_add(memory.trace.sizes()[event]));
            if needed == 0 {
                continue;
            }
            let before = replay.state_at(memory, Position(run.events.start)).totals.reserved;
            below = below.min(before.saturating_add(needed));
            retries += 1;
        }
        let bytes = most_ever_reserved(memory);
        (0 < retries && bytes < below).then_some(CapacityTold { bytes, below: Some(below), retries })
    }
}

/// The most the allocator could hold, bytes, as the last failure tells: what was free then and what it had.
pub fn capacity_told(memory: &DeviceMemory, replay: &Replay) -> Option<u64> {
    let last = *memory.trace.ooms().last()?;
    let reserved = replay.state_at(memory, Position::after(last)).totals.reserved;
    reserved.checked_add(memory.trace.entry(last).address)
}
