//! The state at a moment, as a question.

use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::Position;
use crate::replay::{MemoryState, StateBlock, StateSegment};

/// Asks for the whole [`MemoryState`] at a position.
pub struct StateAt;

impl Query for StateAt {
    const NAME: &'static str = "layout";
    type Params = Position;
    type Answer = MemoryState;

    fn answer(asked: &Asked<'_>, position: &Position, progress: &Progress) -> Result<MemoryState, Cancelled> {
        progress.check()?;
        Ok(asked.replay().state_at(asked.memory(), *position))
    }
}

impl HeapSize for MemoryState {
    fn heap_size(&self) -> usize {
        self.segments.capacity() * size_of::<StateSegment>()
            + self.blocks.capacity() * size_of::<StateBlock>()
            + self.pools.capacity() * 64
    }
}
