//! Floor 3, the engine: recorded rows become lives, lives become the state at any moment.
//!
//! [`SnapshotBuilder`] is the only door through which a [`crate::model::Snapshot`] comes to be. It does the
//! hard thinking once: it pairs frees with allocs, gives a life to what is older than the trace, infers
//! block sizes, and notes every contradiction as a warning. [`Replay`] then answers what the memory held
//! at any position from those lives alone, without stepping through events.

pub mod builder;
pub mod checkpoint;
pub mod coverage;
pub mod lives;
pub mod pieces;
pub mod recorded;
pub mod sizes;
pub mod state;
mod time_order;

pub use builder::{BlockRecord, SegmentRecord, SnapshotBuilder};
pub use checkpoint::Replay;
pub use recorded::Cut;
pub use state::{MemoryState, PoolState, StateBlock, StateSegment, Totals};
