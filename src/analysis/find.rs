//! What a search finds: blocks over their whole lives, segments, and events that are about no block.
//!
//! Always: a block is found by what is true of its whole life, never of one moment, so what is found does not
//! change while the cursor moves; lives that no position sees are not counted. Events are found through their
//! block; those without one (out of memory, segments) by their own address, size, stack and stream. Stacks that
//! read alike are found together.

use crate::analysis::find_words::{FindNumber, FindPool, FindTerms, FindWhat};
use crate::analysis::lifetime::{Alike, Sum};
use crate::analysis::query::{Asked, Query};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress, StringId};
use crate::model::{
    Action, AllocationId, DeviceMemory, EventIdx, FrameId, Item, PoolId, Position, SegmentId, Snapshot, StackId, StreamId,
};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
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

/// A search with all that can be worked out once.
struct Search<'a> {
    memory: &'a DeviceMemory,
    /// Whether each must not hold, and what it tests.
    tests: Vec<(bool, Test)>,
}

enum Test {
    Text(Text),
    Address(u64, Option<Text>),
    Label(Prefix, Option<u32>, Text),
    Range(FindNumber, u64, u64),
    Stream(StreamId),
    /// By pool.
    Pool(Vec<bool>),
    Alive,
    Older,
    Never,
}

/// Where a text was found.
struct Text {
    /// By stack.
    stacks: Vec<bool>,
    /// Notes that hold it.
    notes: Notes,
    /// One bit a life: a note of one of its events holds it. Empty where none does.
    noted: Vec<u64>,
    /// Stretches in which an annotation of this name lasts, ascending and apart: first position and last.
    spans: Vec<(Position, Position)>,
}

/// Which texts of the snapshot hold what is looked for; each is looked at once.
struct Notes {
    wanted: String,
    known: FxHashMap<StringId, bool>,
}

impl Notes {
    fn hold(&mut self, snapshot: &Snapshot, note: StringId) -> bool {
        let Notes { wanted, known } = self;
        *known.entry(note).or_insert_with(|| snapshot.stacks.strings.get(note).to_lowercase().contains(wanted.as_str()))
    }
}

impl Text {
    fn new(snapshot: &Snapshot, memory: &DeviceMemory, wanted: &str, progress: &Progress) -> Result<Text, Cancelled> {
        let table = &snapshot.stacks;
        let holds = |hay: &str| hay.to_lowercase().contains(wanted);
        let frames: Vec<bool> = (0..table.frame_count())
            .map(FrameId::of_row)
            .map(|frame| holds(table.function(frame)) || holds(&format!("{}:{}", table.file(frame), table.frame(frame).line)))
            .collect();
        progress.check()?;
        let in_stack = |stack: usize| table.frames(StackId::of_row(stack)).iter().any(|frame| frames[frame.row()]);
        let stacks = (0..table.len()).map(in_stack).collect();
        let mut notes = Notes { wanted: wanted.to_owned(), known: FxHashMap::default() };
        let mut noted = Vec::new();
        let mut note_life = |event: EventIdx| {
            if let Some(id) = memory.subject(event) {
                noted.resize(memory.allocations.len().div_ceil(64), 0u64);
                noted[id.row() / 64] |= 1 << (id.row() % 64);
            }
        };
        if memory.trace.has_notes() {
            for event in memory.trace.events() {
                if event.0.is_multiple_of(1 << 16) {
                    progress.check()?;
                }
                if memory.trace.notes(event).into_iter().flatten().any(|note| notes.hold(snapshot, note)) {
                    note_life(event);
                }
            }
        }
        for extra in &memory.trace.extras {
            if notes.hold(snapshot, extra.value) {
                note_life(extra.event);
            }
        }
        Ok(Text { stacks, noted, spans: spans(snapshot, memory, &mut notes), notes })
    }
    fn finds(&self, stack: StackId, born: Position) -> bool {
        self.stacks.get(stack.row()).copied().unwrap_or(false) || self.in_span(born)
    }
    fn in_span(&self, at: Position) -> bool {
        let behind = self.spans.partition_point(|(first, _)| *first <= at);
        behind.checked_sub(1).is_some_and(|place| at <= self.spans[place].1)
    }
    fn finds_life(&self, memory: &DeviceMemory, row: usize) -> bool {
        let lives = &memory.allocations;
        self.finds(lives.stacks()[row], lives.born()[row])
            || self.noted.get(row / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }
    fn finds_note(&self, notes: [Option<StringId>; 2]) -> bool {
        notes.into_iter().flatten().any(|note| self.notes.known.get(&note).copied().unwrap_or(false))
    }
}

/// The positions that the events of annotations of a name lead to, joined where they overlap.
fn spans(snapshot: &Snapshot, memory: &DeviceMemory, notes: &mut Notes) -> Vec<(Position, Position)> {
    let trace = &memory.trace;
    if !trace.has_times() {
        return Vec::new();
    }
    let named = memory.annotations.iter().filter(|span| notes.hold(snapshot, span.name));
    let mut spans: Vec<(Position, Position)> = named
        .map(|span| {
            let first = span.start_us.map_or(Position::START, |start| trace.position_at_time(start));
            let last = span.end_us.map_or(memory.end(), |end| trace.position_at_time(end.saturating_add(1)));
            // Of the events from the first on, the first leads to the position behind its own number.
            (Position(first.0.saturating_add(1)), last)
        })
        .filter(|(first, last)| first <= last)
        .collect();
    spans.sort_unstable();
    let mut joined: Vec<(Position, Position)> = Vec::new();
    for (first, last) in spans {
        match joined.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// How a number begins, in hex digits.
#[derive(Clone, Copy)]
struct Prefix {
    value: u64,
    digits: u32,
}

impl Prefix {
    /// None where no number is written so: with zeros in front.
    fn new(digits: &str) -> Option<Prefix> {
        let value = u64::from_str_radix(digits, 16).ok()?;
        let prefix = Prefix { value, digits: digits.len() as u32 };
        (hex_digits(value) == prefix.digits).then_some(prefix)
    }
    fn begins(self, number: u64) -> bool {
        hex_digits(number).checked_sub(self.digits).is_some_and(|more| number >> (4 * more) == self.value)
    }
}

fn hex_digits(number: u64) -> u32 {
    (64 - number.leading_zeros()).div_ceil(4).max(1)
}

/// What is known of a segment, or of an event that is about no block.
struct Thing {
    bytes: u64,
    requested: Option<u64>,
    /// Where it lies; none: nowhere.
    range: Option<(u64, u64)>,
    stack: StackId,
    stream: StreamId,
    pool: Option<PoolId>,
    /// Where it begins.
    born: Position,
    /// Events it lasts; none: it happens at once.
    life: Option<u64>,
    notes: [Option<StringId>; 2],
    alive: bool,
    older: bool,
}

impl<'a> Search<'a> {
    fn new(snapshot: &'a Snapshot, memory: &'a DeviceMemory, terms: &FindTerms, progress: &Progress) -> Result<Self, Cancelled> {
        progress.stage("searching stacks", 0)?;
        let text = |wanted: &str| Text::new(snapshot, memory, wanted, progress);
        let tests = terms.words.iter().map(|word| {
            let test = match &word.what {
                FindWhat::Text(wanted) => Test::Text(text(wanted)?),
                FindWhat::Address { address, text: wanted } => {
                    Test::Address(*address, wanted.as_ref().map(|wanted| text(wanted)).transpose()?)
                }
                FindWhat::Label { digits, use_number, text: wanted } => match Prefix::new(digits) {
                    Some(prefix) => Test::Label(prefix, *use_number, text(wanted)?),
                    None => Test::Text(text(wanted)?),
                },
                FindWhat::Range { of, low, high } => Test::Range(*of, *low, *high),
                FindWhat::Stream(handle) => (0..snapshot.streams.len())
                    .map(StreamId::of_row)
                    .find(|stream| snapshot.streams.handle(*stream) == *handle)
                    .map_or(Test::Never, Test::Stream),
                FindWhat::Pool(pool) => Test::Pool(
                    (0..snapshot.pools.len())
                        .map(|row| {
                            let pair = snapshot.pools.pair(PoolId::of_row(row));
                            match *pool {
                                FindPool::Default => pair == (0, 0),
                                FindPool::Private => pair != (0, 0),
                                FindPool::Pair(a, b) => pair == (a, b),
                            }
                        })
                        .collect(),
                ),
                FindWhat::Alive => Test::Alive,
                FindWhat::Older => Test::Older,
            };
            Ok((word.exclude, test))
        });
        Ok(Search { memory, tests: tests.collect::<Result<_, Cancelled>>()? })
    }
    fn finds_life(&self, row: usize) -> bool {
        let lives = &self.memory.allocations;
        lives.born()[row] < lives.died()[row]
            && self.tests.iter().all(|(exclude, test)| test.finds_life(self.memory, row) != *exclude)
    }
    fn finds_segment(&self, id: SegmentId) -> bool {
        let Some(segment) = self.memory.segments.get(id) else { return false };
        let end = self.memory.end();
        let thing = Thing {
            bytes: segment.size,
            requested: None,
            range: Some((segment.address, segment.size)),
            stack: segment.stack,
            stream: segment.stream,
            pool: (!segment.inferred).then_some(segment.pool),
            born: segment.born,
            life: Some(u64::from(segment.died.min(end).0.saturating_sub(segment.born.0))),
            notes: [None; 2],
            alive: segment.exists_at(end),
            older: segment.born == Position::START,
        };
        self.tests.iter().all(|(exclude, test)| test.finds(&thing) != *exclude)
    }
    fn finds_event(&self, event: EventIdx) -> bool {
        let entry = self.memory.trace.entry(event);
        let failed = entry.action == Action::Oom;
        let thing = Thing {
            bytes: entry.size,
            requested: failed.then_some(entry.size),
            range: (!failed).then_some((entry.address, entry.size)),
            stack: entry.stack,
            stream: entry.stream,
            pool: entry.pool,
            born: Position::after(event),
            life: None,
            notes: [entry.compile_context, entry.user_metadata],
            alive: false,
            older: false,
        };
        self.tests.iter().all(|(exclude, test)| test.finds(&thing) != *exclude)
    }
}

fn holds((start, size): (u64, u64), address: u64) -> bool {
    start <= address && address - start < size
}

impl Test {
    fn finds_life(&self, memory: &DeviceMemory, row: usize) -> bool {
        let lives = &memory.allocations;
        let place = || (lives.addresses()[row], lives.sizes()[row]);
        match self {
            Test::Text(text) => text.finds_life(memory, row),
            Test::Address(address, text) => {
                holds(place(), *address) || text.as_ref().is_some_and(|text| text.finds_life(memory, row))
            }
            Test::Label(prefix, use_number, text) => {
                let used = || use_number.is_none_or(|wanted| lives.get(AllocationId::of_row(row)).use_number == wanted);
                (prefix.begins(lives.addresses()[row]) && used()) || text.finds_life(memory, row)
            }
            Test::Range(of, low, high) => {
                let value = match of {
                    FindNumber::Size => lives.sizes()[row],
                    FindNumber::Requested => lives.requested()[row],
                    FindNumber::Life => u64::from(lives.died()[row].min(memory.end()).0.saturating_sub(lives.born()[row].0)),
                };
                *low <= value && value <= *high
            }
            Test::Stream(stream) => lives.streams()[row] == *stream,
            Test::Pool(pools) => {
                let segment = memory.segments.get(lives.segments()[row]).filter(|segment| !segment.inferred);
                segment.is_some_and(|segment| pools.get(segment.pool.row()).copied().unwrap_or(false))
            }
            Test::Alive => memory.end() < lives.freed()[row],
            Test::Older => lives.born()[row] == Position::START,
            Test::Never => false,
        }
    }
    fn finds(&self, thing: &Thing) -> bool {
        let text = |text: &Text| text.finds(thing.stack, thing.born) || text.finds_note(thing.notes);
        match self {
            Test::Text(wanted) | Test::Label(_, _, wanted) => text(wanted),
            Test::Address(address, wanted) => {
                thing.range.is_some_and(|range| holds(range, *address)) || wanted.as_ref().is_some_and(text)
            }
            Test::Range(of, low, high) => {
                let value = match of {
                    FindNumber::Size => Some(thing.bytes),
                    FindNumber::Requested => thing.requested,
                    FindNumber::Life => thing.life,
                };
                value.is_some_and(|value| *low <= value && value <= *high)
            }
            Test::Stream(stream) => thing.stream == *stream,
            Test::Pool(pools) => thing.pool.is_some_and(|pool| pools.get(pool.row()).copied().unwrap_or(false)),
            Test::Alive => thing.alive,
            Test::Older => thing.older,
            Test::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_begin_as_they_are_written() {
        for (digits, number, begins) in [
            ("7f3c", 0x7f3c_0000_0000, true),
            ("7f3c", 0x7f3c, true),
            ("7f3c", 0x7f3, false),
            ("7f3d", 0x7f3c_0000_0000, false),
            ("f3c0", 0x7f3c_0000_0000, false),
            ("ffffffffffffffff", u64::MAX, true),
            ("1000", u64::MAX, false),
        ] {
            let prefix = Prefix::new(digits).expect("a number");
            assert_eq!(prefix.begins(number), begins, "{digits} {number:x}");
            assert_eq!(format!("{number:x}").starts_with(digits), begins);
        }
        assert!(Prefix::new("0001").is_none(), "no label is written so");
    }
}
