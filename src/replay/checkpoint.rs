//! Random access: what one device's memory held at any position.
//!
//! A checkpoint is the list of live ids at a position; lives are ordered by birth, so the live set at
//! a position is: the nearest checkpoint's ids that have not died, then the ids born since. Nothing is
//! stepped forward or back, and a state is the same however one came to it.

use crate::model::{AllocationId, DeviceMemory, Position};
use crate::replay::state::MemoryState;

/// Checkpoints over one device's lives.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Positions of the checkpoints, ascending; the first is the start.
    positions: Vec<Position>,
    /// Live ids of all checkpoints, one after the other, each in order of birth.
    live: Vec<AllocationId>,
    /// Where each checkpoint's ids end in `live`.
    ends: Vec<usize>,
}

impl Replay {
    /// Walks the lives once and lays checkpoints.
    pub fn new(_device: &DeviceMemory) -> Replay {
        unimplemented!()
    }
    /// The ids active at a position (allocated or pending), in order of birth, into `ids`.
    pub fn live_at(&self, _device: &DeviceMemory, _position: Position, _ids: &mut Vec<AllocationId>) {
        unimplemented!()
    }
    /// The whole state at a position; positions beyond the trace are its end.
    pub fn state_at(&self, _device: &DeviceMemory, _position: Position) -> MemoryState {
        unimplemented!()
    }
}
