//! How much free memory each block held: who is to blame for fragmentation.
//!
//! A segment goes back to the driver only when no block is left in it, so its free bytes are held by its live blocks,
//! each by an equal share. What counts is the most a block held at any position of its life: one that sat alone in a
//! segment for a while held all of it. Whole free granules of an expandable segment could go back all the same: there
//! the figure is an upper bound.
//!
//! Always: at every position the shares of a segment's blocks add up to its free bytes, less what is lost to rounding
//! down.

use crate::analysis::gaps::Gaps;
use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, DeviceMemory, Position};
use rustc_hash::FxHashMap;

/// The most free memory each block held in its life, by row, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    bytes: Vec<u64>,
}

impl Held {
    /// Follows the gaps of a device once.
    pub fn of(device: &DeviceMemory, progress: &Progress) -> Result<Held, Cancelled> {
        let mut gaps = Gaps::with_book(device);
        gaps.follow(progress, |_, _, _, _| {})?;
        Ok(Held { bytes: gaps.into_book().map(|book| book.held).unwrap_or_default() })
    }
    /// The most a block held, in bytes; 0 for one that lies in no segment.
    pub fn of_block(&self, id: AllocationId) -> u64 {
        self.bytes.get(id.0 as usize).copied().unwrap_or(0)
    }
    /// By row.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }
}

/// What blocks held so far, kept while the gaps change.
#[derive(Debug)]
pub(crate) struct HeldBook {
    /// The most each block held until it was last closed.
    held: Vec<u64>,
    /// Since when each block lies in its run as that is laid now.
    since: Vec<Position>,
    now: Position,
    /// Runs that changed at this position, by their start.
    changed: Vec<u64>,
    /// The share of a block in each run over time, as far as it can still be a maximum: of two entries the older is
    /// the larger. So the most since a position is the first entry from there on.
    shares: FxHashMap<u64, Vec<(Position, u64)>>,
}

impl HeldBook {
    pub(crate) fn new(device: &DeviceMemory) -> HeldBook {
        HeldBook {
            held: vec![0; device.allocations.len()],
            since: device.allocations.born().to_vec(),
            now: Position::START,
            changed: Vec::new(),
            shares: FxHashMap::default(),
        }
    }
    /// A run changes at the position under way.
    pub(crate) fn mark(&mut self, start: u64) {
        self.changed.push(start);
    }
    /// A position is done. `run` gives the free bytes and the number of blocks of a run that still exists.
    pub(crate) fn settle(&mut self, position: Position, run: impl Fn(u64) -> Option<(u64, u64)>) {
        self.now = position;
        let mut changed = std::mem::take(&mut self.changed);
        for start in changed.drain(..) {
            let Some((free, blocks)) = run(start) else { continue };
            let share = free.checked_div(blocks).unwrap_or(0);
            let shares = self.shares.entry(start).or_default();
            while shares.last().is_some_and(|(_, smaller)| *smaller <= share) {
                shares.pop();
            }
            shares.push((position, share));
        }
        self.changed = changed;
    }
    /// A block leaves a run, or the run is laid anew under it.
    pub(crate) fn close(&mut self, start: u64, row: u32) {
        let row = row as usize;
        let Some(shares) = self.shares.get(&start) else { return };
        let first = shares.partition_point(|(position, _)| *position < self.since[row]);
        if let Some((_, most)) = shares.get(first) {
            self.held[row] = self.held[row].max(*most);
        }
        // What the run was until the last position is told; what it becomes at this one is another entry.
        self.since[row] = Position(self.now.0.saturating_add(1)).max(self.since[row]);
    }
    /// A run is gone.
    pub(crate) fn forget(&mut self, start: u64) {
        self.shares.remove(&start);
    }
}

impl Query for Held {
    const NAME: &'static str = "free memory that blocks hold";
    type Params = ();
    type Answer = Held;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Held, Cancelled> {
        Held::of(asked.memory(), progress)
    }
}

impl HeapSize for Held {
    fn heap_size(&self) -> usize {
        let Self { bytes } = self;
        bytes.capacity() * size_of::<u64>()
    }
}
