//! Named spans of a device: annotations, runs of events with one metadata, notes on allocations, compiled regions.
//!
//! Always: spans come by kind, then by beginning; two spans of one lane never overlap, and a span inside another lies in
//! a lower lane. An event at the very µs at which an annotation ends lies behind it. A span's state at its beginning is that before its first event, its state at its end that after its
//! last one. Figures follow from curves and lives: what was allocated less what was freed is the change of `allocated`.

use crate::analysis::query::{Asked, Query};
use crate::analysis::timeline::UsageTimeline;
use crate::base::{Cancelled, HeapSize, Progress, StringId};
use crate::model::{Action, DeviceMemory, EventIdx, Position, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// What a span comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanKind {
    /// `external_annotations`: a range the program or PyTorch named, by time.
    Annotation,
    /// Events in a row with the same `user_metadata`.
    Metadata,
    /// `annotate` events in a row with the same text: notes on live allocations.
    Note,
    /// Events in a row with the same `compile_context`.
    Compile,
}

impl SpanKind {
    /// All kinds, in order.
    pub const ALL: [SpanKind; 4] = [SpanKind::Annotation, SpanKind::Metadata, SpanKind::Note, SpanKind::Compile];
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            SpanKind::Annotation => "annotation",
            SpanKind::Metadata => "user metadata",
            SpanKind::Note => "note",
            SpanKind::Compile => "compiled region",
        }
    }
}

/// A named stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: StringId,
    /// What it comes from.
    pub kind: SpanKind,
    /// Before its first event; the start of the trace where it began earlier.
    pub from: Position,
    /// After its last event; the end of the trace where it ended later.
    pub to: Position,
    /// When it began, Unix µs; none where it began before the recording, or where no time was recorded.
    pub start_us: Option<i64>,
    /// When it ended, Unix µs, likewise.
    pub end_us: Option<i64>,
    /// It began before the recording.
    pub open_start: bool,
    /// It ended after the recording.
    pub open_end: bool,
    /// Its row among the spans of its kind, 0 the uppermost.
    pub lane: u32,
}

impl Span {
    /// How many events lie in it.
    pub fn events(&self) -> u32 {
        self.to.0.saturating_sub(self.from.0)
    }
    /// How long it took in µs, where both ends have a time.
    pub fn duration_us(&self) -> Option<u64> {
        u64::try_from(self.end_us?.saturating_sub(self.start_us?)).ok()
    }
}

/// The spans of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// By kind, then by beginning.
    pub rows: Vec<Span>,
    /// Annotations that cannot be placed, as no event carries a time.
    pub unplaced: usize,
    /// Annotations that ended before the first event or began after the last one.
    pub outside: usize,
    /// Spans left out because there are too many; the shortest of their kind.
    pub left_out: usize,
}

/// Most spans of one kind.
const MOST: usize = 100_000;

impl Spans {
    /// Collects the spans of a device.
    pub fn of(memory: &DeviceMemory, progress: &Progress) -> Result<Spans, Cancelled> {
        let trace = &memory.trace;
        let mut spans = Spans::default();
        let annotations = spans.annotations(memory);
        spans.add(annotations);
        let is_note = |event: EventIdx| trace.actions()[event.0 as usize] == Action::Annotate;
        if trace.has_user_metadata() {
            progress.stage("collecting user metadata", trace.len() as u64)?;
            spans.add(runs(
                trace,
                SpanKind::Metadata,
                progress,
                |event| {
                    if is_note(event) { None } else { trace.user_metadata(event) }
                },
            )?);
            spans.add(runs(
                trace,
                SpanKind::Note,
                progress,
                |event| {
                    if is_note(event) { trace.user_metadata(event) } else { None }
                },
            )?);
        }
        if trace.has_compile_contexts() {
            progress.stage("collecting compiled regions", trace.len() as u64)?;
            spans.add(runs(trace, SpanKind::Compile, progress, |event| trace.compile_context(event))?);
        }
        spans.rows.shrink_to_fit();
        Ok(spans)
    }
    /// The rows of one kind.
    pub fn of_kind(&self, kind: SpanKind) -> &[Span] {
        let from = self.rows.partition_point(|span| span.kind < kind);
        let to = self.rows.partition_point(|span| span.kind <= kind);
        &self.rows[from..to]
    }

    fn annotations(&mut self, memory: &DeviceMemory) -> Vec<Span> {
        let trace = &memory.trace;
        let Some((first, last)) = trace.time_span_us() else {
            self.unplaced = memory.annotations.len();
            return Vec::new();
        };
        let mut found = Vec::with_capacity(memory.annotations.len());
        for annotation in &memory.annotations {
            let (start_us, end_us) = (annotation.start_us, annotation.end_us);
            if end_us.is_some_and(|end| end < first) || start_us.is_some_and(|start| last < start) {
                self.outside += 1;
                continue;
            }
            let from = start_us.map_or(Position::START, |time| trace.position_at_time(time));
            let to = end_us.map_or(memory.end(), |time| trace.position_at_time(time)).max(from);
            found.push(Span {
                name: annotation.name,
                kind: SpanKind::Annotation,
                from,
                to,
                start_us,
                end_us,
                open_start: start_us.is_none(),
                open_end: end_us.is_none(),
                lane: 0,
            });
        }
        found
    }
    /// Adds the spans of one kind: the longest that fit, by beginning, each in its lane.
    fn add(&mut self, mut found: Vec<Span>) {
        if MOST < found.len() {
            found.sort_by_key(|span| Reverse(span.events()));
            self.left_out += found.len() - MOST;
            found.truncate(MOST);
        }
        // Of two that begin together the longer one is the outer one.
        let start = |span: &Span| span.start_us.filter(|_| span.kind == SpanKind::Annotation).unwrap_or(i64::MIN);
        let end = |span: &Span| span.end_us.filter(|_| span.kind == SpanKind::Annotation).unwrap_or(i64::MAX);
        found.sort_by_key(|span| (start(span), span.from, Reverse((end(span), span.to))));
        let mut open: BinaryHeap<Reverse<(i64, Position, u32)>> = BinaryHeap::new();
        let (mut free, mut lanes) = (BTreeSet::new(), 0u32);
        for span in &mut found {
            while let Some(Reverse((ends_us, ends, lane))) = open.peek().copied() {
                let ended = if span.kind == SpanKind::Annotation { ends_us <= start(span) } else { ends <= span.from };
                if !ended {
                    break;
                }
                open.pop();
                free.insert(lane);
            }
            span.lane = free.pop_first().unwrap_or_else(|| {
                lanes += 1;
                lanes - 1
            });
            open.push(Reverse((end(span), span.to, span.lane)));
        }
        self.rows.extend(found);
    }
}

/// Runs of events in a row with the same text.
fn runs(
    trace: &Trace,
    kind: SpanKind,
    progress: &Progress,
    text: impl Fn(EventIdx) -> Option<StringId>,
) -> Result<Vec<Span>, Cancelled> {
    let mut found: Vec<Span> = Vec::new();
    let mut last = None;
    for event in trace.events() {
        if event.0.is_multiple_of(1 << 16) {
            progress.at(u64::from(event.0))?;
        }
        let now = text(event);
        if let Some(name) = now {
            let end_us = trace.time_us(event);
            match found.last_mut() {
                Some(run) if last == now => (run.to, run.end_us) = (Position::after(event), end_us),
                _ => found.push(Span {
                    name,
                    kind,
                    from: Position(event.0),
                    to: Position::after(event),
                    start_us: end_us,
                    end_us,
                    open_start: false,
                    open_end: false,
                    lane: 0,
                }),
            }
        }
        last = now;
    }
    Ok(found)
}

/// What happened in a span, bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanSums {
    /// Allocated before its first event.
    pub at_start: u64,
    /// Allocated after its last event.
    pub at_end: u64,
    /// The most allocated at any position from its beginning to its end.
    pub peak: u64,
    /// Where that was reached first.
    pub peak_at: Position,
    /// Number of blocks allocated in it.
    pub allocations: u64,
    /// Number of blocks given back in it.
    pub frees: u64,
    /// Blocks allocated in it.
    pub allocated: u64,
    /// Blocks given back in it.
    pub freed: u64,
}

impl SpanSums {
    /// By how much `allocated` grew.
    pub fn change(&self) -> i128 {
        i128::from(self.at_end) - i128::from(self.at_start)
    }
}

/// The least, the middle and the most of a figure; of an even number the lower middle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread<T> {
    /// The least.
    pub least: T,
    /// As many are less as are more.
    pub middle: T,
    /// The most.
    pub most: T,
}

impl<T: Ord + Copy> Spread<T> {
    /// Of some figures; none where there are none.
    pub fn of(figures: impl Iterator<Item = T>) -> Option<Spread<T>> {
        let mut figures: Vec<T> = figures.collect();
        figures.sort_unstable();
        let (least, most) = (*figures.first()?, *figures.last()?);
        Some(Spread { least, middle: figures[(figures.len() - 1) / 2], most })
    }
}

/// Spans of one name, such as the steps of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanGroup {
    /// Their name.
    pub name: StringId,
    /// What they come from.
    pub kind: SpanKind,
    /// Their rows among the spans, by beginning.
    pub rows: Vec<u32>,
    /// How long they took in µs; none where no span has both its times.
    pub duration_us: Option<Spread<u64>>,
    /// The most allocated in them, bytes.
    pub peak: Spread<u64>,
    /// By how much `allocated` grew in them, bytes.
    pub change: Spread<i128>,
    /// What was allocated in them, bytes.
    pub allocated: Spread<u64>,
}

/// The spans of a device with what happened in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFigures {
    /// The spans.
    pub spans: Spans,
    /// One a row of the spans.
    pub sums: Vec<SpanSums>,
    /// The spans by name, the most frequent first.
    pub groups: Vec<SpanGroup>,
}

impl SpanFigures {
    /// Adds up the lives of a device.
    pub fn of(memory: &DeviceMemory, progress: &Progress) -> Result<SpanFigures, Cancelled> {
        let spans = Spans::of(memory, progress)?;
        let usage = UsageTimeline::of(memory, progress)?;
        let mut bounds: Vec<Position> = spans.rows.iter().flat_map(|span| [span.from, span.to]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        // What happened up to each bound since the one before.
        let mut sums = vec![[0u64; 4]; bounds.len() + 1];
        let lives = &memory.allocations;
        progress.stage("adding up spans", lives.len() as u64)?;
        for row in 0..lives.len() {
            if row.is_multiple_of(1 << 16) {
                progress.at(row as u64)?;
            }
            let (born, freed) = (lives.born()[row], lives.freed()[row]);
            if freed <= born {
                continue;
            }
            for (at, place) in [(born, 0), (freed, 2)] {
                if at != Position::START && at <= memory.end() {
                    let sum = &mut sums[bounds.partition_point(|bound| *bound < at)];
                    sum[place] += 1;
                    sum[place + 1] = sum[place + 1].saturating_add(lives.sizes()[row]);
                }
            }
        }
        for bound in 1..sums.len() {
            let before = sums[bound - 1];
            sums[bound].iter_mut().zip(before).for_each(|(sum, before)| *sum = sum.saturating_add(before));
        }
        let up_to = |at: Position| sums[bounds.partition_point(|bound| *bound < at)];
        let of_span = |span: &Span| {
            let (before, after) = (up_to(span.from), up_to(span.to));
            let [allocations, allocated, frees, freed] = [0, 1, 2, 3].map(|place| after[place].saturating_sub(before[place]));
            let (peak_at, peak) = usage.allocated.max_in(span.from, Position(span.to.0.saturating_add(1)));
            let (at_start, at_end) = (usage.allocated.at(span.from), usage.allocated.at(span.to));
            SpanSums { at_start, at_end, peak, peak_at, allocations, frees, allocated, freed }
        };
        let sums: Vec<SpanSums> = spans.rows.iter().map(of_span).collect();
        let groups = groups(&spans, &sums);
        Ok(SpanFigures { spans, sums, groups })
    }
}

fn groups(spans: &Spans, sums: &[SpanSums]) -> Vec<SpanGroup> {
    let mut by_name: BTreeMap<(SpanKind, StringId), Vec<u32>> = BTreeMap::new();
    for (row, span) in spans.rows.iter().enumerate() {
        by_name.entry((span.kind, span.name)).or_default().push(row as u32);
    }
    let mut groups: Vec<SpanGroup> = by_name
        .into_iter()
        .map(|((kind, name), rows)| {
            let figures = || rows.iter().map(|row| &sums[*row as usize]);
            SpanGroup {
                name,
                kind,
                duration_us: Spread::of(rows.iter().filter_map(|row| spans.rows[*row as usize].duration_us())),
                peak: Spread::of(figures().map(|sum| sum.peak)).unwrap_or_default(),
                change: Spread::of(figures().map(SpanSums::change)).unwrap_or_default(),
                allocated: Spread::of(figures().map(|sum| sum.allocated)).unwrap_or_default(),
                rows,
            }
        })
        .collect();
    groups.sort_by_key(|group| Reverse(group.rows.len()));
    groups
}

impl Query for Spans {
    const NAME: &'static str = "spans";
    type Params = ();
    type Answer = Spans;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Spans, Cancelled> {
        Spans::of(asked.memory(), progress)
    }
}

impl Query for SpanFigures {
    const NAME: &'static str = "figures of spans";
    type Params = ();
    type Answer = SpanFigures;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<SpanFigures, Cancelled> {
        SpanFigures::of(asked.memory(), progress)
    }
}

impl HeapSize for Spans {
    fn heap_size(&self) -> usize {
        let Self { rows, unplaced: _, outside: _, left_out: _ } = self;
        rows.capacity() * size_of::<Span>()
    }
}

impl HeapSize for SpanFigures {
    fn heap_size(&self) -> usize {
        let Self { spans, sums, groups } = self;
        let rows: usize = groups.iter().map(|group| size_of::<SpanGroup>() + group.rows.capacity() * 4).sum();
        spans.heap_size() + sums.capacity() * size_of::<SpanSums>() + rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Annotation, StackId, StreamId, TraceEntry};

    fn device(events: &[(i64, Action, Option<u32>, Option<u32>)], timed: bool) -> DeviceMemory {
        let mut memory = DeviceMemory::default();
        for (time, action, metadata, compiled) in events {
            memory.trace.push(TraceEntry {
                action: *action,
                address: 0,
                size: 512,
                stream: StreamId::DEFAULT,
                time_us: timed.then_some(*time),
                stack: StackId::ABSENT,
                pool: None,
                compile_context: compiled.map(StringId),
                user_metadata: metadata.map(StringId),
            });
        }
        memory
    }

    #[test]
    fn a_spread_is_least_middle_and_most() {
        for (figures, expected) in
            [(vec![], None), (vec![3], Some((3, 3, 3))), (vec![9, 1, 5], Some((1, 5, 9))), (vec![4, 1, 2, 3], Some((1, 2, 4)))]
        {
            let spread = Spread::of(figures.into_iter()).map(|spread| (spread.least, spread.middle, spread.most));
            assert_eq!(spread, expected);
        }
    }

    #[test]
    fn runs_end_where_the_text_changes() {
        use Action::{Alloc, Annotate, FreeRequested};
        let (a, b) = (Some(7), Some(8));
        let events = [
            (0, Alloc, a, None),
            (1, Alloc, a, b),
            (2, FreeRequested, None, b),
            (3, Alloc, a, None),
            (4, Alloc, b, None),
            (5, Annotate, b, None),
            (6, Annotate, b, b),
        ];
        let found = Spans::of(&device(&events, true), &Progress::new()).expect("nobody cancels");
        let told = |kind| found.of_kind(kind).iter().map(|s| (s.name.0, s.from.0, s.to.0)).collect::<Vec<_>>();
        assert_eq!(told(SpanKind::Metadata), [(7, 0, 2), (7, 3, 4), (8, 4, 5)]);
        assert_eq!(told(SpanKind::Note), [(8, 5, 7)]);
        assert_eq!(told(SpanKind::Compile), [(8, 1, 3), (8, 6, 7)]);
        assert!(found.rows.iter().all(|span| span.lane == 0), "runs of one kind follow one another");
        assert_eq!(found.of_kind(SpanKind::Metadata)[0].duration_us(), Some(1));
    }

    #[test]
    fn annotations_nest_and_open_ones_reach_the_end() {
        let events: Vec<_> = (0..10).map(|time| (100 + 10 * time, Action::Alloc, None, None)).collect();
        let mut memory = device(&events, true);
        let span = |name, start_us, end_us| Annotation { name: StringId(name), start_us, end_us };
        memory.annotations = vec![
            span(0, Some(105), Some(165)),
            span(1, Some(110), Some(125)),
            // Overlaps the first and outlives it: what begins before it ends may not share its lane.
            span(2, Some(120), Some(185)),
            span(3, Some(140), Some(150)),
            span(4, None, Some(100)),
            span(5, Some(170), None),
            span(6, Some(20), Some(30)),
            span(7, Some(500), None),
            span(8, Some(141), Some(142)),
        ];
        let found = Spans::of(&memory, &Progress::new()).expect("nobody cancels");
        let mut told: Vec<_> = found.rows.iter().map(|s| (s.name.0, s.from.0, s.to.0, s.lane)).collect();
        told.sort_unstable();
        // An event at the µs of its end lies behind it.
        assert_eq!(told, [(0, 1, 7, 0), (1, 1, 3, 1), (2, 2, 9, 2), (3, 4, 5, 1), (4, 0, 0, 0), (5, 7, 10, 0), (8, 5, 5, 3)],);
        assert_eq!((found.outside, found.unplaced), (2, 0));
        let open: Vec<_> = found.rows.iter().filter(|s| s.open_start || s.open_end).map(|s| s.name.0).collect();
        assert_eq!(open, [4, 5]);
        let mut untimed = device(&events, false);
        untimed.annotations = memory.annotations;
        let found = Spans::of(&untimed, &Progress::new()).expect("nobody cancels");
        assert_eq!((found.rows.len(), found.unplaced), (0, 9), "without times there is no place for them");
    }
}
