//! Whether a block, a segment or an event is what a search asks for.
//!
//! Always: texts are looked for once a stack and once a note, never once a life; what is left for a life are a few
//! comparisons of its columns.

use crate::analysis::find_words::{FindNumber, FindPool, FindTerms, FindWhat};
use crate::base::id::Id as _;
use crate::base::{Cancelled, Progress, StringId};
use crate::model::{
    Action, AllocationId, DeviceMemory, EventIdx, FrameId, PoolId, Position, SegmentId, Snapshot, StackId, StreamId,
};
use rustc_hash::FxHashMap;

/// A search with all that can be worked out once.
pub(super) struct Search<'a> {
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
    pub(super) fn new(
        snapshot: &'a Snapshot,
        memory: &'a DeviceMemory,
        terms: &FindTerms,
        progress: &Progress,
    ) -> Result<Self, Cancelled> {
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
    pub(super) fn finds_life(&self, row: usize) -> bool {
        let lives = &self.memory.allocations;
        lives.born()[row] < lives.died()[row]
            && self.tests.iter().all(|(exclude, test)| test.finds_life(self.memory, row) != *exclude)
    }
    pub(super) fn finds_segment(&self, id: SegmentId) -> bool {
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
    pub(super) fn finds_event(&self, event: EventIdx) -> bool {
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
