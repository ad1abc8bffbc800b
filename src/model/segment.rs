//! Lives of segments, and the three states a block can be in.
//!
//! A row is one range of device memory from the moment the driver gave it until it took it back.
//! For expandable segments a row is one *piece*: a range that is mapped and unmapped as a whole.
//! What users call a segment is then a run of neighbouring pieces (`replay::state` joins them).

use crate::base::Column;
use crate::model::pool::{PoolId, SizeClass, StreamId};
use crate::model::stack::StackId;
use crate::model::trace::Position;

crate::define_id! {
    /// One segment life (for expandable segments: one piece), by row in [`Segments`].
    SegmentId
}

/// State of a block, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockState {
    /// In use.
    ActiveAllocated,
    /// Given back by the program, still waiting for another stream.
    ActivePendingFree,
    /// Free: a gap.
    Inactive,
}

impl BlockState {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            BlockState::ActiveAllocated => "active_allocated",
            BlockState::ActivePendingFree => "active_pending_free",
            BlockState::Inactive => "inactive",
        }
    }
    /// The state of a word in a file; `active_awaiting_free` is what PyTorch's docstrings say.
    pub fn of_name(name: &str) -> Option<BlockState> {
        match name {
            "active_allocated" => Some(BlockState::ActiveAllocated),
            "active_pending_free" | "active_awaiting_free" => Some(BlockState::ActivePendingFree),
            "inactive" => Some(BlockState::Inactive),
            _ => None,
        }
    }
}

/// One segment life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// First position at which it exists; [`Position::START`] if it is older than the trace.
    pub born: Position,
    /// First position at which it is gone; [`Position::NEVER`] if it outlives the trace.
    pub died: Position,
    /// The stream it serves.
    pub stream: StreamId,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Small or large half of the pool.
    pub class: SizeClass,
    /// Whether it is a mapped range of an expandable segment.
    pub expandable: bool,
    /// Where it was created.
    pub stack: StackId,
    /// The file does not name it; it was inferred from blocks that lie in no known segment.
    pub inferred: bool,
}

impl Segment {
    /// First byte behind it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
    /// Whether it exists at a position.
    pub fn exists_at(&self, position: Position) -> bool {
        self.born <= position && position < self.died
    }
}

/// All segment lives of one device, ordered by birth, then address.
pub type Segments = Column<SegmentId, Segment>;
