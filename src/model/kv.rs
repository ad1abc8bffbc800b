//! What a log of KV-cache events tells of a paged cache beside the lives of its blocks: who stored them, for how many
//! tokens, and behind which other block.
//!
//! Always: `blocks` are in the order in which they were stored, and each names the event that is its allocation;
//! a parent is an earlier row; the blocks of one sequence follow each other, each the parent of the next.

use crate::base::StringId;
use crate::model::trace::EventIdx;
use std::ops::Range;

/// The blocks of one paged KV cache over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvLog {
    /// Bytes of a block, where the user said; none: nothing tells, and a block counts as one byte.
    pub block_bytes: Option<u64>,
    /// One row a stored block, in the order of storing.
    pub blocks: Vec<KvBlock>,
    /// One row a sequence: a run of blocks of which each is stored behind the one before.
    pub sequences: Vec<KvSequence>,
    /// One row an event of the log, in its order.
    pub steps: Vec<KvStep>,
}

/// One block that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvBlock {
    /// The event of the trace that stored it.
    pub event: EventIdx,
    /// Its hash, as text.
    pub hash: StringId,
    /// The block it continues.
    pub parent: KvParent,
    /// Tokens in it.
    pub tokens: u32,
    /// Tokens it has room for.
    pub capacity: u32,
    /// The sequence it belongs to, by row in [`KvLog::sequences`].
    pub sequence: u32,
    /// Which block of the whole text it is, 0 for the first one; counted from where the log begins to know it.
    pub depth: u32,
    /// The log has stored this hash before, and removed it since.
    pub again: bool,
    /// A block of this hash was there already.
    pub twice: bool,
}

/// What a block is stored behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvParent {
    /// Nothing: it is the first of a text.
    Root,
    /// Another block, by row in [`KvLog::blocks`].
    Block(u32),
    /// A block that this log did not store: it begins later.
    Older,
}

/// A run of blocks of which each continues the one before: what one request added to the cache. A new one begins where
/// a block continues nothing, or a block that another one continues already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSequence {
    /// Its first own block, by row in [`KvLog::blocks`].
    pub first: u32,
    /// Its last own block so far.
    pub last: u32,
    /// Its own blocks.
    pub own: u32,
    /// Blocks of its text that another sequence had stored: it found and re-used them.
    pub shared: u32,
    /// The sequence that had.
    pub behind: Option<u32>,
}

/// What an event of the log did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvDeed {
    /// `BlockStored`.
    Stored,
    /// `BlockRemoved`.
    Removed,
    /// `AllBlocksCleared`.
    Cleared,
}

/// An event of the log: one or more events of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvStep {
    /// What it did.
    pub deed: KvDeed,
    /// Its events in the trace.
    pub events: Range<u32>,
}

impl KvLog {
    /// Bytes that a block counts as: what the user said, else one.
    pub fn unit(&self) -> u64 {
        self.block_bytes.unwrap_or(1)
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<KvBlock>()
            + self.sequences.capacity() * size_of::<KvSequence>()
            + self.steps.capacity() * size_of::<KvStep>()
    }
}
