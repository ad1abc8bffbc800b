//! What a search finds: blocks over their whole lives, segments, and events that are about no block.
//!
//! Always: a block is found by what is true of its whole life, never of one moment, so what is found does not
//! change while the cursor moves; lives that no position sees are not counted. Events are found through their
//! block; those without one (out of memory, segments) by their own address, size, stack and stream. Stacks that
//! read alike are found together.

use crate::analysis::find_match::Search;
use crate::analysis::find_words::FindTerms;
use crate::analysis::lifetime::{Alike, Sum};
use crate::analysis::query::{Asked, Query};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{Action, AllocationId, DeviceMemory, EventIdx, Item, Position, SegmentId, Snapshot, StackId};
use rayon::prelude::*;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was found on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What was searched for.
    pub terms: Arc<FindTerms>,
    /// One bit a life.
    lives: Vec<u64>,
    /// By stack: which one stands for all that read like it.
    alike: Vec<StackId>,
    /// By stack: whether a block found was allocated there.
    stacks: Vec<bool>,
    /// Segments, ascending.
    pub segments: Vec<SegmentId>,
    /// Out-of-memory and segment events, ascending.
    pub events: Vec<EventIdx>,
    /// Blocks over the whole trace, and their sizes.
    pub sum: Sum,
}

/// What was found, as a part of a question: on one device equal terms find the same.
#[derive(Clone, Debug)]
pub struct FoundKey(pub Arc<Found>);

impl PartialEq for FoundKey {
    fn eq(&self, other: &FoundKey) -> bool {
        self.0.terms == other.0.terms
    }
}
impl Eq for FoundKey {}
impl Hash for FoundKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.terms.hash(state);
    }
}

/// The next thing found, in order of birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundStep {
    /// The first moment that shows it.
    pub at: Position,
    /// A block, or an event that is about none.
    pub item: Item,
    /// Whether it was reached around the end of the trace.
    pub wrapped: bool,
}

/// Lives that one piece of the work looks at.
const PIECE: usize = 1 << 16;

impl Found {
    /// Searches a device.
    pub fn of(
        snapshot: &Snapshot,
        memory: &DeviceMemory,
        terms: &Arc<FindTerms>,
        progress: &Progress,
    ) -> Result<Found, Cancelled> {
        let search = Search::new(snapshot, memory, terms, progress)?;
        let lives = &memory.allocations;
        progress.stage("searching", lives.len() as u64)?;
        let done = AtomicU64::new(0);
        let pieces = (0..lives.len().div_ceil(PIECE)).into_par_iter().map(|piece| {
            let rows = piece * PIECE..lives.len().min((piece + 1) * PIECE);
            progress.at(done.fetch_add(rows.len() as u64, Ordering::Relaxed))?;
            let mut bits = vec![0u64; rows.len().div_ceil(64)];
            let first = rows.start;
            for row in rows.filter(|row| search.finds_life(*row)) {
                bits[(row - first) / 64] |= 1 << (row % 64);
            }
            Ok(bits)
        });
        let bits: Vec<u64> = pieces.collect::<Result<Vec<Vec<u64>>, Cancelled>>()?.concat();
        let mut alike = Alike::new(&snapshot.stacks);
        let mut found = Found {
            terms: Arc::clone(terms),
            lives: bits,
            alike: (0..snapshot.stacks.len()).map(|stack| alike.of(StackId::of_row(stack))).collect(),
            stacks: vec![false; snapshot.stacks.len()],
            segments: memory.segments.iter().filter(|(id, _)| search.finds_segment(*id)).map(|(id, _)| id).collect(),
            events: Vec::new(),
            sum: Sum::default(),
        };
        let mut touched = vec![false; snapshot.stacks.len()];
        let mut sum = Sum::default();
        for id in found.lives() {
            sum.add(lives.sizes()[id.row()]);
            let stack = lives.stacks()[id.row()].row();
            let row = if stack < touched.len() { stack } else { 0 };
            touched[row] = true;
        }
        found.sum = sum;
        for (stack, _) in touched.iter().enumerate().filter(|(_, touched)| **touched) {
            let row = found.alike[stack].row();
            found.stacks[row] = true;
        }
        progress.check()?;
        let own = |action: &Action| {
            matches!(action, Action::Oom | Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap)
        };
        let own = memory.trace.events().zip(memory.trace.actions()).filter(|(_, action)| own(action));
        found.events = own.map(|(event, _)| event).filter(|event| search.finds_event(*event)).collect();
        Ok(found)
    }
    /// Whether a block was found.
    #[inline]
    pub fn has(&self, id: AllocationId) -> bool {
        self.lives.get(id.row() / 64).is_some_and(|bits| bits >> (id.row() % 64) & 1 == 1)
    }
    /// Whether a segment was found.
    pub fn has_segment(&self, id: SegmentId) -> bool {
        self.segments.binary_search(&id).is_ok()
    }
    /// Whether an event was found: through its block, or by itself where it is about none.
    pub fn has_event(&self, memory: &DeviceMemory, event: EventIdx) -> bool {
        match memory.subject(event) {
            Some(id) => self.has(id),
            None => self.events.binary_search(&event).is_ok(),
        }
    }
    /// Whether a block found was allocated at a stack, or at one that reads alike, at any time.
    pub fn has_stack(&self, stack: StackId) -> bool {
        self.stacks.get(self.leading(stack).row()).copied().unwrap_or(false)
    }
    /// The stack that stands for all that read like this one.
    fn leading(&self, stack: StackId) -> StackId {
        self.alike.get(stack.row()).copied().unwrap_or(StackId::EMPTY)
    }
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.sum.count == 0 && self.segments.is_empty() && self.events.is_empty()
    }
    /// The blocks found, in order of birth.
    pub fn lives(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.lives.iter().enumerate().flat_map(|(place, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(AllocationId::of_row(place * 64 + bit as usize))
            })
        })
    }
    /// The first block found from a row on.
    fn next_life(&self, row: usize) -> Option<AllocationId> {
        let first = self.lives.get(row / 64).copied().unwrap_or(0) & (u64::MAX << (row % 64));
        let later = self.lives.iter().copied().enumerate().skip(row / 64 + 1);
        let (place, bits) = std::iter::once((row / 64, first)).chain(later).find(|(_, bits)| *bits != 0)?;
        Some(AllocationId::of_row(place * 64 + bits.trailing_zeros() as usize))
    }
    /// The last block found before a row.
    fn last_life(&self, row: usize) -> Option<AllocationId> {
        let end = row.min(self.lives.len() * 64);
        let part = self.lives.get(end / 64).copied().unwrap_or(0) & !(u64::MAX << (end % 64));
        let earlier = self.lives[..end / 64].iter().copied().enumerate().rev();
        let (place, bits) = std::iter::once((end / 64, part)).chain(earlier).find(|(_, bits)| *bits != 0)?;
        Some(AllocationId::of_row(place * 64 + 63 - bits.leading_zeros() as usize))
    }
    /// The next (or previous) thing found as seen from a moment; among several of one moment, from what is selected.
    /// Behind the last comes the first. None where nothing was found that has a place in time.
    pub fn step(&self, memory: &DeviceMemory, from: Position, selected: Option<Item>, forward: bool) -> Option<FoundStep> {
        let born = memory.allocations.born();
        let moment = |event: &EventIdx| Position::after(*event);
        // Rows and places behind and before where one stands. Of one moment blocks come first, then its event.
        let first_life = born.partition_point(|born| *born < from);
        let (next_life, next_event, last_life, last_event) = match selected {
            Some(Item::Allocation(id)) if self.has(id) && born[id.row()] == from => {
                let events = self.events.partition_point(|event| moment(event) < from);
                (id.row() + 1, events, id.row(), events)
            }
            Some(Item::Event(event)) if moment(&event) == from && self.events.binary_search(&event).is_ok() => {
                let behind = memory.allocations.born_by(from);
                let events = self.events.partition_point(|event| moment(event) <= from);
                (behind, events, behind, events.saturating_sub(1))
            }
            // At the very start one has not seen yet what is older than the trace.
            _ if from == Position::START => (0, 0, 0, 0),
            _ => {
                let before = self.events.partition_point(|event| moment(event) < from);
                let behind = self.events.partition_point(|event| moment(event) <= from);
                (memory.allocations.born_by(from), behind, first_life, before)
            }
        };
        let life = |id: AllocationId| (born[id.row()], Item::Allocation(id));
        let event = |event: &EventIdx| (moment(event), Item::Event(*event));
        // Which comes first in the direction; on a tie, blocks come before events.
        let sooner = |life: Option<(Position, Item)>, event: Option<(Position, Item)>| match (life, event) {
            (Some(life), Some(event)) if (life.0 <= event.0) == forward => Some(life),
            (Some(_), Some(event)) => Some(event),
            (life, event) => life.or(event),
        };
        let (ahead, around) = if forward {
            let ahead = sooner(self.next_life(next_life).map(life), self.events.get(next_event).map(event));
            (ahead, sooner(self.next_life(0).map(life), self.events.first().map(event)))
        } else {
            let before = self.events[..last_event.min(self.events.len())].last();
            let ahead = sooner(self.last_life(last_life).map(life), before.map(event));
            (ahead, sooner(self.last_life(born.len()).map(life), self.events.last().map(event)))
        };
        let wrapped = ahead.is_none();
        ahead.or(around).map(|(at, item)| FoundStep { at, item, wrapped })
    }
}

impl Query for Found {
    const NAME: &'static str = "search";
    type Params = Arc<FindTerms>;
    type Answer = Found;

    fn answer(asked: &Asked<'_>, terms: &Arc<FindTerms>, progress: &Progress) -> Result<Found, Cancelled> {
        Found::of(asked.subject.snapshot, asked.memory(), terms, progress)
    }
}

impl HeapSize for Found {
    fn heap_size(&self) -> usize {
        self.lives.heap_size()
            + self.alike.heap_size()
            + self.stacks.heap_size()
            + self.segments.heap_size()
            + self.events.heap_size()
    }
}

/// What of it is allocated at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundHere {
    /// The moment.
    pub at: Position,
    /// Blocks, and their sizes.
    pub sum: Sum,
    /// Their stacks, ascending, each standing for all that read like it.
    stacks: Vec<StackId>,
    /// Their sizes, ascending, each once.
    sizes: Vec<u64>,
}

impl FoundHere {
    /// Whether one of them was allocated at a stack.
    pub fn has_stack(&self, found: &Found, stack: StackId) -> bool {
        self.stacks.binary_search(&found.leading(stack)).is_ok()
    }
    /// Whether one of them has a size.
    pub fn has_size(&self, size: u64) -> bool {
        self.sizes.binary_search(&size).is_ok()
    }
}

impl Query for FoundHere {
    const NAME: &'static str = "what is found at a moment";
    type Params = (FoundKey, Position);
    type Answer = FoundHere;

    fn answer(
        asked: &Asked<'_>,
        (FoundKey(found), at): &(FoundKey, Position),
        progress: &Progress,
    ) -> Result<FoundHere, Cancelled> {
        let (lives, mut ids) = (&asked.memory().allocations, Vec::new());
        asked.replay().live_at(asked.memory(), *at, &mut ids);
        progress.check()?;
        let mut here = FoundHere { at: *at, ..FoundHere::default() };
        let at = (*at).min(asked.memory().end());
        for row in ids.iter().filter(|id| found.has(**id)).map(|id| id.row()).filter(|row| at < lives.freed()[*row]) {
            here.sum.add(lives.sizes()[row]);
            here.stacks.push(found.leading(lives.stacks()[row]));
            here.sizes.push(lives.sizes()[row]);
        }
        here.stacks.sort_unstable();
        here.stacks.dedup();
        here.sizes.sort_unstable();
        here.sizes.dedup();
        Ok(here)
    }
}

impl HeapSize for FoundHere {
    fn heap_size(&self) -> usize {
        self.stacks.heap_size() + self.sizes.heap_size()
    }
}
