//! The memory of one device at one position: segments, blocks and gaps, in address order.
//!
//! Always: the blocks of a segment and its gaps tile it, in address order, no two gaps adjacent;
//! reserved = active + free; allocated + pending = active. Where the file contradicts itself, by blocks that
//! overlap or lie in no segment, free is floored at zero and a warning stands in the snapshot.

use crate::model::{AllocationId, BlockState, PoolId, Position, SegmentId, SizeClass, StackId, StreamId};
use std::ops::Range;

/// Sums over a device, in bytes; the words are PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sum of the segments the file names.
    pub reserved: u64,
    /// Sizes of blocks in use.
    pub allocated: u64,
    /// Allocated and pending free.
    pub active: u64,
    /// What the program asked for, over active blocks.
    pub requested: u64,
}

impl Totals {
    /// Blocks given back that still wait for another stream.
    pub fn pending_free(&self) -> u64 {
        self.active.saturating_sub(self.allocated)
    }
    /// Reserved but not active.
    pub fn free(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }
}

/// A block or gap of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBlock {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// Bytes asked for; 0 for a gap.
    pub requested: u64,
    /// Allocated, pending free, or a gap.
    pub state: BlockState,
    /// Whose block it is; none for a gap.
    pub allocation: Option<AllocationId>,
}

/// A segment of a state: one `cudaMalloc`, or one contiguous mapped range of an expandable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSegment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// The life it is; for expandable ones the piece with the lowest address.
    pub id: SegmentId,
    /// The stream it serves.
    pub stream: StreamId,
    /// Its pool.
    pub pool: PoolId,
    /// Small or large half of the pool.
    pub class: SizeClass,
    /// Whether it is a mapped range of an expandable segment.
    pub expandable: bool,
    /// Where it was created.
    pub stack: StackId,
    /// The file does not name it: made up around a block in no known segment, and not counted in reserved.
    pub inferred: bool,
    /// Its blocks and gaps, as rows of [`MemoryState::blocks`].
    pub blocks: Range<usize>,
}

/// Sums over one pool, size class and stream: the space in which free blocks can serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// The pool.
    pub pool: PoolId,
    /// Its half.
    pub class: SizeClass,
    /// The stream.
    pub stream: StreamId,
    /// Sum of its segments, bytes.
    pub reserved: u64,
    /// Its active blocks, bytes.
    pub active: u64,
    /// Its gaps, bytes.
    pub free: u64,
    /// Its largest gap, bytes.
    pub largest_free_block: u64,
    /// Number of its segments.
    pub segments: u64,
}

/// Everything a device's memory holds at one position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The moment.
    pub position: Position,
    /// Segments in address order.
    pub segments: Vec<StateSegment>,
    /// Blocks and gaps of all segments, segment by segment, in address order.
    pub blocks: Vec<StateBlock>,
    /// Sums.
    pub totals: Totals,
    /// PyTorch's counter: free parts of `cudaMalloc` segments that also hold active blocks.
    pub inactive_split: u64,
    /// The largest gap over all pools, bytes.
    pub largest_free_block: u64,
    /// Number of active blocks.
    pub active_blocks: u64,
    /// Sums per pool, half and stream, ordered by pool, half, stream.
    pub pools: Vec<PoolState>,
}

impl MemoryState {
    /// The blocks and gaps of one segment.
    pub fn blocks_of(&self, segment: &StateSegment) -> &[StateBlock] {
        &self.blocks[segment.blocks.clone()]
    }
    /// The segment that holds an address, by its place in [`MemoryState::segments`].
    pub fn segment_at(&self, address: u64) -> Option<usize> {
        let after = self.segments.partition_point(|segment| segment.address <= address);
        let place = after.checked_sub(1)?;
        (address - self.segments[place].address < self.segments[place].size).then_some(place)
    }
    /// The block or gap that holds an address, by its place in [`MemoryState::blocks`].
    pub fn block_at(&self, address: u64) -> Option<usize> {
        let segment = &self.segments[self.segment_at(address)?];
        let blocks = self.blocks_of(segment);
        let place = blocks.partition_point(|block| block.address <= address).checked_sub(1)?;
        (address - blocks[place].address < blocks[place].size).then_some(segment.blocks.start + place)
    }
}
