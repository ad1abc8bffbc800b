//! What happens while requests are served, told as it happens: for whoever keeps a record of a run.
//!
//! Always: a segment is told before the blocks in it, a block's end before that of its segment; what is told before the
//! first [`Journal::at`] was there when the run began. Who keeps no record pays nothing.

use crate::model::{Action, AllocationId, EventIdx, PoolId, SizeClass};

/// Whom memory serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stream's handle.
    pub stream: u64,
    /// Its pool.
    pub pool: PoolId,
    /// The half of its pool.
    pub class: SizeClass,
}

/// A block that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// First byte.
    pub address: u64,
    /// Bytes it occupies.
    pub size: u64,
    /// Bytes the program asked for.
    pub requested: u64,
    /// Whom it serves.
    pub place: Place,
}

/// Is told what an allocator does. Addresses and sizes are bytes.
pub trait Journal {
    /// All that follows is done for the request that was over at this event of the recording.
    fn at(&mut self, _event: EventIdx) {}
    /// The driver gave or took memory: one of the four segment actions.
    fn segment(&mut self, _action: Action, _address: u64, _size: u64, _place: Place) {}
    /// A life got a block.
    fn alloc(&mut self, _life: AllocationId, _given: Given) {}
    /// The program gave a block back.
    fn free_requested(&mut self, _life: AllocationId) {}
    /// The block is free for others.
    fn free_completed(&mut self, _life: AllocationId) {}
    /// A request failed: its rounded size, and what the allocator held then.
    fn oom(&mut self, _size: u64, _place: Place, _reserved: u64) {}
}

/// No record is kept.
impl Journal for () {}

impl<J: Journal> Journal for &mut J {
    fn at(&mut self, event: EventIdx) {
        (**self).at(event);
    }
    fn segment(&mut self, action: Action, address: u64, size: u64, place: Place) {
        (**self).segment(action, address, size, place);
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        (**self).alloc(life, given);
    }
    fn free_requested(&mut self, life: AllocationId) {
        (**self).free_requested(life);
    }
    fn free_completed(&mut self, life: AllocationId) {
        (**self).free_completed(life);
    }
    fn oom(&mut self, size: u64, place: Place, reserved: u64) {
        (**self).oom(size, place, reserved);
    }
}
