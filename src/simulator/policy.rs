//! What serves requests: the contract of every allocator the simulator knows, and their register.
//!
//! Always: a policy sees requests and a driver's answers, never a recorded address; what it counts is in bytes.

use crate::model::{AllocationId, BlockState, EventIdx};
use crate::simulator::journal::Journal;
use crate::simulator::layout::Layout;
use crate::simulator::request::{Request, Wanted};
use crate::simulator::scenario::Counters;

/// An allocator: PyTorch's own, or a model of another.
pub trait Policy {
    /// Who is told what it does.
    type Journal: Journal;
    /// Whom it tells what it does.
    fn journal(&mut self) -> &mut Self::Journal;
    /// The address of a new block, or none where memory ran out. `life` names it for later, `waiting` are the frees
    /// that a retry would wait for first, in order.
    fn allocate(&mut self, life: Option<AllocationId>, wanted: &Wanted, waiting: &[AllocationId]) -> Option<u64>;
    /// Serves what is no allocation; those have [`Policy::allocate`].
    fn give_back(&mut self, request: &Request);
    /// Takes over what was there when a recording began mid-run, on a card of `total` bytes. A model that has no such
    /// layout is asked for the older blocks anew, in address order.
    fn begin(&mut self, start: &Layout, _total: Option<u64>) {
        for (segment, block) in start.active() {
            let (stream, pool) = (segment.stream, segment.pool);
            // Asked for before the first event.
            let wanted = Wanted { size: block.requested, stream, pool, source: EventIdx(0) };
            self.allocate(block.life, &wanted, &[]);
            if let Some(life) = block.life.filter(|_| block.state == BlockState::ActivePendingFree) {
                self.give_back(&Request::FreeRequested(life));
            }
        }
    }
    /// From here on memory has no end.
    fn lift(&mut self);
    /// What was counted so far.
    fn counters(&self) -> &Counters;
}

/// An allocator one can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// PyTorch's caching allocator, reproduced.
    #[default]
    Caching,
    /// A model of a stream-ordered pool, as `cudaMallocAsync` serves from.
    StreamOrdered {
        /// Bytes that stay in the pool at a synchronisation; none: all.
        release_threshold: Option<u64>,
    },
    /// A model of a pool of pages of one size.
    Paged {
        /// Bytes of a page.
        page: u64,
    },
}

/// Bytes of a page where nothing else is said: the unit in which drivers map memory.
pub const PAGE: u64 = 2 << 20;

/// A row of the register.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Which it is.
    pub kind: PolicyKind,
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// What it is, in one sentence: whether it reproduces an allocator or is a model of one.
    pub about: &'static str,
}

/// All of them.
pub const POLICIES: [PolicyInfo; 4] = [
    PolicyInfo { kind: PolicyKind::Caching, name: "caching", about: "PyTorch's caching allocator, reproduced call by call" },
    PolicyInfo {
        kind: PolicyKind::StreamOrdered { release_threshold: Some(0) },
        name: "stream_ordered",
        about: "a model, no reproduction, of a stream-ordered pool (cudaMallocAsync) that gives what is free back when it is waited for",
    },
    PolicyInfo {
        kind: PolicyKind::StreamOrdered { release_threshold: None },
        name: "stream_ordered_keeping",
        about: "a model, no reproduction, of a stream-ordered pool (cudaMallocAsync) that keeps what is free",
    },
    PolicyInfo {
        kind: PolicyKind::Paged { page: PAGE },
        name: "paged",
        about: "a model, no reproduction, of a pool of pages of 2 MiB, any of which serves any request",
    },
];

#[cfg(test)]
mod tests;
