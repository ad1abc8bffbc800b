//! Sums over the blocks of a device, kept up to date while lives begin and end.
//!
//! Always: exact whatever the sizes are; below zero (contradictory input) reads as zero, beyond 64 bits as their most.

/// Sums over all blocks of a device, those in no segment included.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockSums {
    active: i128,
    allocated: i128,
    requested: i128,
    live_requested: i128,
}

impl BlockSums {
    /// Blocks in use or pending, bytes.
    pub fn active(&self) -> u64 {
        bytes(self.active)
    }
    /// Blocks in use, bytes.
    pub fn allocated(&self) -> u64 {
        bytes(self.allocated)
    }
    /// What the program asked for with active blocks, bytes.
    pub fn requested(&self) -> u64 {
        bytes(self.requested)
    }
    /// What the program asked for with blocks in use, bytes.
    pub fn live_requested(&self) -> u64 {
        bytes(self.live_requested)
    }
    /// A block becomes active.
    pub(super) fn begin(&mut self, size: u64, requested: u64, is_allocated: bool) {
        self.active += i128::from(size);
        self.requested += i128::from(requested);
        if is_allocated {
            self.allocated += i128::from(size);
            self.live_requested += i128::from(requested);
        }
    }
    /// A block is no longer active.
    pub(super) fn end(&mut self, size: u64, requested: u64, was_allocated: bool) {
        self.active -= i128::from(size);
        self.requested -= i128::from(requested);
        if was_allocated {
            self.wait(size, requested);
        }
    }
    /// A block is given back and waits for another stream.
    pub(super) fn wait(&mut self, size: u64, requested: u64) {
        self.allocated -= i128::from(size);
        self.live_requested -= i128::from(requested);
    }
}

fn bytes(sum: i128) -> u64 {
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}
