//! One thing that can be pointed at: what a click selects and a hover names.

use crate::model::allocation::AllocationId;
use crate::model::segment::SegmentId;
use crate::model::stack::StackId;
use crate::model::trace::EventIdx;

/// Something on a picture or in a table that can be selected. Ids are those of one device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// A block life.
    Allocation(AllocationId),
    /// A segment (for expandable ones: the piece with the lowest address).
    Segment(SegmentId),
    /// A free range inside a segment.
    Gap {
        /// First byte.
        address: u64,
        /// Length in bytes.
        size: u64,
    },
    /// An event of the trace.
    Event(EventIdx),
    /// All that was allocated at one stack.
    Stack(StackId),
}
