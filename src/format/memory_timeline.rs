//! torch.profiler's `export_memory_timeline`: sums by category over time (`.json`), or single events (`raw.json`).
//!
//! A timeline holds levels and no allocations: each category's level is laid in layers, the last laid the first to go,
//! so that at every time the sums are the file's to the byte. What shrinks at a time goes before what grows.
//!
//! A raw timeline holds allocations by size and category alone: which of several equal ones a free is about it does not
//! say; the oldest is taken.
//!
//! Always: at each time the sum of a category is what the file states.

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::foreign::starts_with_numbers;
use crate::format::importer::{Confidence, Importer};
use crate::format::neighbour::{self, Places, Plain};
use crate::format::source::Source;
use crate::format::watched;
use crate::model::{Action, BlockState, Missing, PoolId, SizeClass, StackId, StreamId, VersionRange, WarningKind};
use crate::replay::SnapshotBuilder;
use crate::replay::builder::{BlockRecord, SegmentRecord};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufReader, Read};

/// See the head of this file.
#[derive(Debug)]
pub struct MemoryTimeline;

/// The profiler's categories, in the order of its columns (`_memory_profiler.py`).
const CATEGORIES: [&str; 8] =
    ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "Unknown"];
const KIND: &str = "a memory timeline of torch.profiler";
const EXPORT_AGAIN: &str = "export it once more with prof.export_memory_timeline(path)";
/// More layers at once than any timeline has: a bound on what a few numbers may unfold to.
const MOST_PIECES: usize = 1 << 26;

impl Importer for MemoryTimeline {
    fn name(&self) -> &'static str {
        "torch-memory-timeline"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        if starts_with_numbers(head) { Confidence::Likely } else { Confidence::No }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let name = source.name().to_owned();
        let mut found = Found::default();
        let end = watched::through(source, progress, |reader, at| Ok((parse(reader, &mut found), at.get())))?;
        progress.stage("laying out", 0)?;
        match end {
            (Ok(()), _) => {}
            (Err(error), offset) if error.is_eof() || error.is_io() => {
                if found.is_empty() {
                    return Err(FormatError::EndsEarly { name, offset });
                }
                neighbour::cut(&mut builder.warnings, offset, "inside the timeline");
            }
            (Err(error), _) => {
                return Err(neighbour::useless(&name, KIND, format!("not as written by it: {error}; {EXPORT_AGAIN}")));
            }
        }
        let fill = if found.rows.is_empty() && !found.items.is_empty() { raw } else { levels };
        fill(found, builder).map_err(|why| neighbour::useless(&name, KIND, format!("{why}; {EXPORT_AGAIN}")))?;
        Ok(None)
    }
}

/// All numbers of a file so far.
#[derive(Debug, Default)]
struct Found {
    /// Lists of numbers at the top: the times, or the items of a raw timeline.
    items: Vec<Vec<i64>>,
    /// The rows of the second list of a timeline.
    rows: Vec<Vec<i64>>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.items.iter().all(|item| item.len() != 4) && self.rows.is_empty()
    }
}

fn parse(reader: &mut dyn Read, found: &mut Found) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, reader));
    Top(found).deserialize(&mut json)?;
    json.end()
}

/// The whole file.
struct Top<'f>(&'f mut Found);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of lists of numbers")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Row(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// A list at the top: numbers, or rows of numbers.
struct Row<'f>(&'f mut Found);

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of numbers, or of lists of them")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut numbers = Vec::new();
        while let Some(value) = items.next_element()? {
            match value {
                Cell::Number(number) => numbers.push(number),
                Cell::List(row) => self.0.rows.push(row),
            }
        }
        self.0.items.push(numbers);
        Ok(())
    }
}

enum Cell {
    Number(i64),
    List(Vec<i64>),
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cell, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Cell;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number, or a list of whole numbers")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Cell, E> {
                Ok(Cell::Number(number))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Cell, E> {
                i64::try_from(number).map(Cell::Number).map_err(|_| E::custom("a number beyond 2^63"))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Cell, A::Error> {
                let mut row = Vec::with_capacity(9);
                while let Some(number) = items.next_element::<i64>()? {
                    row.push(number);
                }
                Ok(Cell::List(row))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A layer of a category's level.
#[derive(Clone, Copy, Debug)]
struct Piece {
    born: usize,
    died: usize,
    size: u64,
    category: usize,
}

const NEVER: usize = usize::MAX;

/// Cuts levels into layers: one is laid where the level rises and goes where it falls below, the last laid first.
fn layers(times: &[i64], rows: &[Vec<i64>]) -> Result<Vec<Piece>, String> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open: [Vec<usize>; 8] = Default::default();
    let mut levels = [0u64; 8];
    for (at, row) in rows.iter().enumerate().take(times.len()) {
        // A leading zero, the base that the levels are stacked on, makes nine.
        let [base, columns @ ..] = row.as_slice() else { return Err(format!("row {at} of its sizes is empty")) };
        if columns.len() != CATEGORIES.len() || *base != 0 {
            return Err(format!("row {at} of its sizes does not hold 0 and the eight categories"));
        }
        for (category, stated) in columns.iter().enumerate() {
            let level = u64::try_from(*stated)
                .map_err(|_| format!("row {at} of its sizes holds {stated} bytes of {}", CATEGORIES[category]))?;
            let (open, now) = (&mut open[category], &mut levels[category]);
            if *now < level {
                open.push(pieces.len());
                pieces.push(Piece { born: at, died: NEVER, size: level - *now, category });
            }
            let mut over = now.saturating_sub(level);
            while 0 < over
                && let Some(top) = open.pop()
            {
                let piece = &mut pieces[top];
                if piece.size <= over {
                    over -= piece.size;
                    piece.died = at;
                } else {
                    // Only its upper part goes.
                    piece.size -= over;
                    let born = piece.born;
                    open.push(top);
                    pieces.push(Piece { born, died: at, size: over, category });
                    over = 0;
                }
            }
            *now = level;
        }
        if MOST_PIECES < pieces.len() {
            return Err("its levels change more often than any run's".to_owned());
        }
    }
    Ok(pieces)
}

fn levels(found: Found, builder: &mut SnapshotBuilder) -> Result<(), String> {
    let Found { items, rows } = found;
    let times = items.into_iter().next().unwrap_or_default();
    if times.is_empty() || rows.is_empty() {
        return Err("it holds no times, or no sizes".to_owned());
    }
    if times.len() != rows.len() {
        let (times, rows) = (times.len(), rows.len());
        builder
            .warnings
            .push(WarningKind::BadRow, || format!("{times} times, {rows} rows of sizes; what has no partner was left out"));
    }
    let pieces = layers(&times, &rows)?;
    let mut changes: Vec<(usize, bool, usize)> = Vec::with_capacity(pieces.len() * 2);
    for (row, piece) in pieces.iter().enumerate() {
        if piece.died != NEVER {
            changes.push((piece.died, false, row));
        }
        changes.push((piece.born, true, row));
    }
    changes.sort_unstable();
    let stacks = category_stacks(builder);
    let (mut places, mut addresses) = (Places::default(), vec![0; pieces.len()]);
    let device = builder.device(0);
    for (at, born, row) in changes {
        let piece = &pieces[row];
        if born {
            addresses[row] = places.take(piece.size).ok_or("its sizes add up to more than 64 bits hold")?;
        }
        let action = if born { Action::Alloc } else { Action::FreeRequested };
        let stack = if born { stacks[piece.category] } else { StackId::ABSENT };
        let (address, size, time_us) = (addresses[row], piece.size, Some(times[at]));
        neighbour::push(device, Plain { action, address, size, stream: StreamId::DEFAULT, time_us, stack });
    }
    device.untold = vec![
        neighbour::untold(
            Missing::Addresses,
            "A memory timeline holds sums by category and no single allocations: each block here is a layer of its category's \
             sum, and its place is made up.",
        ),
        neighbour::untold(Missing::Stacks, "A memory timeline holds no stacks: the category stands in their place."),
        neighbour::untold(Missing::Segments, "A memory timeline holds nothing of segments: what was reserved is not known."),
        neighbour::untold(Missing::Start, "What is older than the profile is part of the first sums."),
    ];
    Ok(())
}

fn category_stacks(builder: &mut SnapshotBuilder) -> [StackId; 8] {
    CATEGORIES.map(|category| neighbour::named_stack(&mut builder.stacks, category, "profiler category"))
}

/// Live blocks by category and size, the oldest first.
type Live = BTreeMap<(usize, u64), VecDeque<u64>>;

fn raw(found: Found, builder: &mut SnapshotBuilder) -> Result<(), String> {
    let stacks = category_stacks(builder);
    let (mut places, mut live, mut older) = (Places::default(), Live::new(), Vec::new());
    let SnapshotBuilder { warnings, .. } = builder;
    let mut events: Vec<Plain> = Vec::with_capacity(found.items.len());
    let mut unmatched = 0u64;
    let mut items = found.items.iter().enumerate().peekable();
    while let Some((at, item)) = items.next() {
        let [time_ns, action, bytes, category] = *item.as_slice() else {
            warnings.push(WarningKind::BadRow, || format!("item {at} of the timeline does not hold four numbers"));
            continue;
        };
        let place = usize::try_from(category).ok().filter(|category| *category < CATEGORIES.len());
        let (Some(category), size) = (place, bytes.unsigned_abs()) else {
            warnings
                .push(WarningKind::BadRow, || format!("item {at} of the timeline is of category {category}, which there is not"));
            continue;
        };
        let time_us = (0 <= time_ns).then(|| time_ns.div_euclid(1000));
        let mut push = |action, address, stack| {
            events.push(Plain { action, address, size, stream: StreamId::DEFAULT, time_us, stack });
        };
        // Action 4 takes away, whichever sign its bytes have; a new version moves bytes from one category to another.
        let takes = action == 4 || (action == 3 && bytes < 0);
        match action {
            1..=4 if size == 0 => {}
            1..=4 if takes => {
                let known = live.get_mut(&(category, size)).and_then(VecDeque::pop_front);
                let same = |next: &[i64]| next == [time_ns, 3, -bytes, category as i64];
                if action == 3
                    && let Some(address) = known
                    && items.next_if(|(_, next)| same(next)).is_some()
                {
                    // A new version in the same category: nothing moves.
                    live.entry((category, size)).or_default().push_front(address);
                    push(Action::Annotate, address, StackId::ABSENT);
                    continue;
                }
                unmatched += u64::from(known.is_none());
                let address = match known {
                    Some(address) => address,
                    None => places.take(size).ok_or("its sizes add up to more than 64 bits hold")?,
                };
                push(Action::FreeRequested, address, StackId::ABSENT);
            }
            1..=4 => {
                let address = places.take(size).ok_or("its sizes add up to more than 64 bits hold")?;
                live.entry((category, size)).or_default().push_back(address);
                if action == 1 {
                    older.push(BlockRecord {
                        address: Some(address),
                        size,
                        requested: Some(size),
                        state: BlockState::ActiveAllocated,
                        stack: stacks[category],
                    });
                } else {
                    push(Action::Alloc, address, stacks[category]);
                }
            }
            other => warnings.push(WarningKind::UnknownAction, || format!("item {at} of the timeline has action number {other}")),
        }
    }
    if events.is_empty() && older.is_empty() {
        return Err("none of its items is an allocation".to_owned());
    }
    if 0 < unmatched {
        warnings.push(WarningKind::Note, || {
            format!(
                "{} of a size and category that nothing live had: such a block is taken to be older than the profile",
                crate::base::counted(unmatched, "free")
            )
        });
    }
    let blocks = crate::base::counted(older.len() as u64, "block");
    let device = builder.device(0);
    for event in events {
        neighbour::push(device, event);
    }
    if !older.is_empty() {
        device.start_is_exact = true;
        device.start = vec![SegmentRecord {
            address: 0,
            size: 0,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            class: SizeClass::Large,
            expandable: false,
            stack: StackId::ABSENT,
            blocks: older,
            stated_totals: [None; 3],
        }];
    }
    device.untold = vec![
        neighbour::untold(
            Missing::Addresses,
            "A memory timeline holds no addresses: places are made up, and of several equal blocks the oldest is taken to be \
             freed first, so how long each lived is not certain; sums are exact.",
        ),
        neighbour::untold(Missing::Stacks, "A memory timeline holds no stacks: the category stands in their place."),
        neighbour::untold(Missing::Segments, "A memory timeline holds nothing of segments: what was reserved is not known."),
        neighbour::untold(
            Missing::Start,
            &format!("Starts mid-run: {blocks} are older than the profile; it states their sizes."),
        ),
    ];
    Ok(())
}
