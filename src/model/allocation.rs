//! The life of one block: from alloc to free_completed. Nearly every question is about lives.
//!
//! Always: rows are ordered by birth, so the lives born up to a position are a prefix of the table;
//! `born <= freed <= died`. Lives older than the trace come first, the longest lived at the front.

use crate::base::Column;
use crate::model::pool::StreamId;
use crate::model::segment::{BlockState, SegmentId};
use crate::model::stack::StackId;
use crate::model::trace::{EventIdx, Position};

crate::define_id! {
    /// One block life, by row in [`Allocations`].
    AllocationId
}

/// What is known of a life only by inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationFlags(pub u8);

impl AllocationFlags {
    /// The trace holds its alloc event.
    pub const ALLOC_SEEN: AllocationFlags = AllocationFlags(1);
    /// The block's size is stated by the source (in files: it outlives the trace), not inferred.
    pub const SIZE_STATED: AllocationFlags = AllocationFlags(2);
    /// Its birth or death was inferred from a contradiction, not recorded.
    pub const IMPLIED: AllocationFlags = AllocationFlags(4);
    /// A free event of it is in the trace.
    pub const FREE_SEEN: AllocationFlags = AllocationFlags(8);

    /// Whether all of `other` are set.
    pub fn has(self, other: AllocationFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Sets flags.
    pub fn set(&mut self, other: AllocationFlags) {
        self.0 |= other.0;
    }
}

/// One block life: a row of [`Allocations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First byte of the block.
    pub address: u64,
    /// Bytes the block occupies (after rounding, with what was not split off).
    pub size: u64,
    /// Bytes the program asked for.
    pub requested: u64,
    /// First position at which it is live; [`Position::START`] if older than the trace.
    pub born: Position,
    /// First position at which it is no longer allocated (free requested).
    pub freed: Position,
    /// First position at which it is no longer active (free completed).
    pub died: Position,
    /// The stream it was allocated on.
    pub stream: StreamId,
    /// The segment (piece) its first byte lies in.
    pub segment: SegmentId,
    /// Where it was allocated; absent or empty where no stack was kept.
    pub stack: StackId,
    /// How often this address was handed out before in this trace: the `3` in `b7f…_3`.
    pub use_number: u32,
    /// What is inferred.
    pub flags: AllocationFlags,
}

impl Allocation {
    /// First byte behind the block.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
    /// Whether it is allocated or pending at a position.
    pub fn is_active_at(&self, position: Position) -> bool {
        self.born <= position && position < self.died
    }
    /// Its state at a position; inactive before birth and after death.
    pub fn state_at(&self, position: Position) -> BlockState {
        if !self.is_active_at(position) {
            BlockState::Inactive
        } else if position < self.freed {
            BlockState::ActiveAllocated
        } else {
            BlockState::ActivePendingFree
        }
    }
    /// The alloc event, if the trace holds it.
    pub fn alloc_event(&self) -> Option<EventIdx> {
        if self.flags.has(AllocationFlags::ALLOC_SEEN) { self.born.event() } else { None }
    }
    /// The event at which the program freed it, if the trace holds it.
    pub fn free_event(&self) -> Option<EventIdx> {
        if self.flags.has(AllocationFlags::FREE_SEEN) && self.freed != Position::NEVER { self.freed.event() } else { None }
    }
    /// The label people know from PyTorch's page: `b7f3c00000000_3`.
    pub fn label(&self) -> String {
        format!("b{:x}_{}", self.address, self.use_number)
    }
}

/// All block lives of one device, as columns: 53 bytes a row.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    address: Column<AllocationId, u64>,
    size: Column<AllocationId, u64>,
    requested: Column<AllocationId, u64>,
    born: Column<AllocationId, Position>,
    freed: Column<AllocationId, Position>,
    died: Column<AllocationId, Position>,
    stream: Column<AllocationId, StreamId>,
    segment: Column<AllocationId, SegmentId>,
    stack: Column<AllocationId, StackId>,
    use_number: Column<AllocationId, u32>,
    flags: Column<AllocationId, AllocationFlags>,
}

impl Allocations {
    /// An empty table with room for so many lives.
    pub fn with_capacity(lives: usize) -> Self {
        Self {
            address: Vec::with_capacity(lives).into(),
            size: Vec::with_capacity(lives).into(),
            requested: Vec::with_capacity(lives).into(),
            born: Vec::with_capacity(lives).into(),
            freed: Vec::with_capacity(lives).into(),
            died: Vec::with_capacity(lives).into(),
            stream: Vec::with_capacity(lives).into(),
            segment: Vec::with_capacity(lives).into(),
            stack: Vec::with_capacity(lives).into(),
            use_number: Vec::with_capacity(lives).into(),
            flags: Vec::with_capacity(lives).into(),
        }
    }
    /// Appends a life. Whoever fills the table keeps its order (only `replay` does).
    pub fn push(&mut self, allocation: Allocation) -> AllocationId {
        let Allocation { address, size, requested, born, freed, died, stream, segment, stack, use_number, flags } = allocation;
        self.address.push(address);
        self.size.push(size);
        self.requested.push(requested);
        self.born.push(born);
        self.freed.push(freed);
        self.died.push(died);
        self.stream.push(stream);
        self.segment.push(segment);
        self.stack.push(stack);
        self.use_number.push(use_number);
        self.flags.push(flags)
    }
    /// Writes a life back.
    pub fn set(&mut self, id: AllocationId, allocation: Allocation) {
        let Allocation { address, size, requested, born, freed, died, stream, segment, stack, use_number, flags } = allocation;
        self.address[id] = address;
        self.size[id] = size;
        self.requested[id] = requested;
        self.born[id] = born;
        self.freed[id] = freed;
        self.died[id] = died;
        self.stream[id] = stream;
        self.segment[id] = segment;
        self.stack[id] = stack;
        self.use_number[id] = use_number;
        self.flags[id] = flags;
    }
    /// A life; panics beyond the end.
    #[inline]
    pub fn get(&self, id: AllocationId) -> Allocation {
        Allocation {
            address: self.address[id],
            size: self.size[id],
            requested: self.requested[id],
            born: self.born[id],
            freed: self.freed[id],
            died: self.died[id],
            stream: self.stream[id],
            segment: self.segment[id],
            stack: self.stack[id],
            use_number: self.use_number[id],
            flags: self.flags[id],
        }
    }
    /// Number of lives.
    pub fn len(&self) -> usize {
        self.born.len()
    }
    /// Whether there is no life.
    pub fn is_empty(&self) -> bool {
        self.born.is_empty()
    }
    /// All ids, in order of birth.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = AllocationId> + ExactSizeIterator + use<> {
        self.born.ids()
    }
    /// Number of lives born up to a position: ids below it are these.
    pub fn born_by(&self, position: Position) -> usize {
        self.born.as_slice().partition_point(|born| *born <= position)
    }
    /// First bytes.
    pub fn addresses(&self) -> &[u64] {
        self.address.as_slice()
    }
    /// Block sizes in bytes.
    pub fn sizes(&self) -> &[u64] {
        self.size.as_slice()
    }
    /// Requested sizes in bytes.
    pub fn requested(&self) -> &[u64] {
        self.requested.as_slice()
    }
    /// Births, ascending.
    pub fn born(&self) -> &[Position] {
        self.born.as_slice()
    }
    /// Positions at which they stop being allocated.
    pub fn freed(&self) -> &[Position] {
        self.freed.as_slice()
    }
    /// Positions at which they stop being active.
    pub fn died(&self) -> &[Position] {
        self.died.as_slice()
    }
    /// Allocation stacks.
    pub fn stacks(&self) -> &[StackId] {
        self.stack.as_slice()
    }
    /// Segments.
    pub fn segments(&self) -> &[SegmentId] {
        self.segment.as_slice()
    }
    /// Streams.
    pub fn streams(&self) -> &[StreamId] {
        self.stream.as_slice()
    }
    /// Gives back unused capacity.
    pub fn shrink_to_fit(&mut self) {
        let Self { address, size, requested, born, freed, died, stream, segment, stack, use_number, flags } = self;
        address.shrink_to_fit();
        size.shrink_to_fit();
        requested.shrink_to_fit();
        born.shrink_to_fit();
        freed.shrink_to_fit();
        died.shrink_to_fit();
        stream.shrink_to_fit();
        segment.shrink_to_fit();
        stack.shrink_to_fit();
        use_number.shrink_to_fit();
        flags.shrink_to_fit();
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.address.heap_bytes() * 3 + self.born.heap_bytes() * 7 + self.flags.heap_bytes()
    }
}
