//! The curves people can look at, as plain data: name, meaning, unit, group. Window and report show the same.
//!
//! Always: a line at pixel resolution passes through the true minimum and maximum of every pixel column and
//! leaves each column at its true value, so no peak and no drop vanishes however far one zooms out;
//! zoomed in far enough it is the curve itself, drawn in steps.

pub use crate::analysis::Group;
use crate::analysis::fragmentation::WHOLE_PPM;
use crate::analysis::{Capacity, Curve, Extremes, Fragmentation, Rates, Releases, SegmentCost, SpanKind, Spans, UsageTimeline};
use crate::base::{Bytes, grouped};
use crate::chart::axis::{Clock, Tick, TimeAxis, byte_ticks, count_ticks, decimal_step, duration_label, duration_ticks};
use crate::chart::ink::{Ink, pool_name, stream_name};
use crate::model::glossary::{
    ACTIVE, ACTIVE_BLOCKS, ALLOCATED, EXTERNAL, FREE, INACTIVE_SPLIT, INTERNAL, LARGEST_FREE, LARGEST_REQUEST, PENDING_FREE,
    REQUESTED, RESERVED, SEGMENTS,
};
use crate::model::{Action, DeviceMemory, EventIdx, Position, Snapshot};
use std::ops::Range;

/// What a rate counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Per {
    /// Per second.
    Second,
    /// Per bucket of events.
    Bucket,
}

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// How many.
    Count,
    /// Parts per million of a whole, shown in percent.
    Share,
    /// Bytes in a stretch of time.
    ByteRate(Per),
    /// How many in a stretch of time.
    CountRate(Per),
    /// Time in µs.
    Micros,
}

/// One curve with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a> {
    /// PyTorch's word for it.
    pub name: &'static str,
    /// What it is called beside the pointer, where the name does not tell it from others.
    pub label: Option<String>,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Its colour.
    pub ink: Ink,
    /// What its values are.
    pub unit: Unit,
    /// Whose they are.
    pub group: Group,
    /// Whether it is shown unless somebody asks otherwise.
    pub shown: bool,
    /// The values at every position, or in every bucket.
    pub curve: &'a Curve,
    /// Where the rows of the curve are buckets: how many units of the clock each holds.
    pub bucket: Option<f64>,
}

impl Series<'_> {
    /// Its value at a place of the clock's axis.
    pub fn value_at(&self, clock: &Clock, unit: f64) -> u64 {
        match self.bucket {
            None => self.curve.at(clock.position(unit)),
            Some(width) => self.curve.at(Position((unit / width).max(0.0) as u32)),
        }
    }
    /// The same as people read it, exact.
    pub fn label_at(&self, clock: &Clock, unit: f64) -> String {
        value_label(self.unit, self.value_at(clock, unit))
    }
    /// The highest value in a window of the clock.
    pub fn highest(&self, clock: &Clock, window: &Range<f64>) -> u64 {
        match self.bucket {
            None => highest(self.curve, clock, window),
            Some(width) => highest(self.curve, &self.buckets(), &(window.start / width..window.end / width)),
        }
    }
    /// The points of its line over a window of the clock, at most four a column.
    pub fn points(&self, clock: &Clock, window: &Range<f64>, columns: usize) -> Vec<[f64; 2]> {
        let Some(width) = self.bucket else { return step_points(self.curve, clock, window, columns) };
        let mut points = step_points(self.curve, &self.buckets(), &(window.start / width..window.end / width), columns);
        points.iter_mut().for_each(|point| point[0] *= width);
        points
    }
    fn buckets(&self) -> Clock {
        Clock::even(self.curve.last().0)
    }
}

/// The name of a group.
pub fn group_name(snapshot: &Snapshot, group: Group) -> String {
    match group {
        Group::Device => "whole device".to_owned(),
        Group::Pool(pool) => pool_name(snapshot, pool),
        Group::Stream(stream) => stream_name(snapshot, stream),
        Group::Half(pool, class, stream) => {
            format!("{}, {}, {}", pool_name(snapshot, pool), class.name(), stream_name(snapshot, stream))
        }
    }
}

/// What is known of one group; what is missing is not shown.
#[derive(Clone, Copy, Debug)]
pub struct GroupData<'a> {
    /// Whose it is.
    pub group: Group,
    /// Its counters.
    pub usage: &'a UsageTimeline,
    /// How its free memory is cut up.
    pub fragmentation: Option<&'a Fragmentation>,
    /// What its segments cost.
    pub cost: Option<&'a SegmentCost>,
    /// How fast it allocates and frees.
    pub rates: Option<&'a Rates>,
}

/// All series of a group, in the order a legend shows them.
pub fn all_series<'a>(data: &GroupData<'a>) -> Vec<Series<'a>> {
    use Unit::{Bytes, Count, Micros, Share};
    let GroupData { group, usage, fragmentation, cost, rates } = *data;
    let UsageTimeline { reserved, allocated, active, requested } = usage;
    let request = if group == Group::Device { LARGEST_REQUEST } else { LARGEST_REQUEST_OF_GROUP };
    let mut rows: Vec<(&'static str, &'static str, Ink, Unit, bool, &'a Curve)> = vec![
        ("reserved", RESERVED, Ink::Reserved, Bytes, true, reserved),
        ("active", ACTIVE, Ink::Series(7), Bytes, false, active),
        ("allocated", ALLOCATED, Ink::Series(0), Bytes, true, allocated),
        ("requested", REQUESTED, Ink::Series(1), Bytes, false, requested),
    ];
    if let Some(fragmentation) = fragmentation {
        let Fragmentation {
            pending_free,
            free,
            inactive_split,
            largest_free_block,
            largest_request,
            segments,
            active_blocks,
            external,
            internal,
        } = fragmentation;
        rows.extend([
            ("free", FREE, Ink::Series(2), Bytes, true, free),
            ("largest free block", LARGEST_FREE, Ink::Series(3), Bytes, true, largest_free_block),
            ("largest request", request, Ink::Series(4), Bytes, false, largest_request),
            ("inactive split", INACTIVE_SPLIT, Ink::Series(5), Bytes, false, inactive_split),
            ("pending free", PENDING_FREE, Ink::Series(6), Bytes, false, pending_free),
            ("rounding and remainders", INTERNAL, Ink::Series(8), Bytes, false, internal),
            ("external fragmentation", EXTERNAL, Ink::Series(3), Share, true, external),
            ("segments", SEGMENTS, Ink::Series(2), Count, true, segments),
            ("active blocks", ACTIVE_BLOCKS, Ink::Series(0), Count, true, active_blocks),
        ]);
    }
    if let Some(SegmentCost { taken, taken_bytes, given_back, given_back_bytes, time_us }) = cost {
        rows.extend([
            ("taken from the driver", TAKEN_BYTES, Ink::Series(1), Bytes, false, taken_bytes),
            ("given back to the driver", GIVEN_BACK_BYTES, Ink::Series(4), Bytes, false, given_back_bytes),
            ("segments taken", TAKEN, Ink::Series(1), Count, false, taken),
            ("segments given back", GIVEN_BACK, Ink::Series(4), Count, false, given_back),
        ]);
        rows.extend(time_us.iter().map(|time| ("time around driver calls", DRIVER_TIME, Ink::Series(1), Micros, true, time)));
    }
    let series = |(name, help, ink, unit, shown, curve), bucket| Series {
        name,
        label: None,
        help,
        ink,
        unit,
        group,
        shown,
        curve,
        bucket,
    };
    let mut all: Vec<Series<'a>> = rows.into_iter().map(|row| series(row, None)).collect();
    if let Some(Rates { by_time, bucket, allocated, freed, allocations, frees }) = rates {
        let per = if *by_time { Per::Second } else { Per::Bucket };
        let rows = [
            ("allocation rate", ALLOCATION_RATE, Ink::Series(0), Unit::ByteRate(per), true, allocated),
            ("free rate", FREE_RATE, Ink::Series(4), Unit::ByteRate(per), true, freed),
            ("allocations", ALLOCATIONS, Ink::Series(0), Unit::CountRate(per), true, allocations),
            ("frees", FREES, Ink::Series(4), Unit::CountRate(per), true, frees),
        ];
        all.extend(rows.into_iter().map(|row| series(row, Some(*bucket as f64))));
    }
    all
}

/// The length of a bucket for rates over a window of the clock: about three hundred of them, at a round length in µs or
/// events.
pub fn bucket_of(window: &Range<f64>) -> u64 {
    decimal_step((window.end - window.start) / 300.0).max(1.0) as u64
}

/// What stands beside rates: over what they are averages.
pub fn bucket_words(rates: &Rates) -> String {
    match (rates.by_time, rates.bucket) {
        (true, bucket) => format!("averages over buckets of {}", duration_label(bucket)),
        (false, 1) => "sums of single events".to_owned(),
        (false, bucket) => format!("sums over buckets of {} events", grouped(bucket)),
    }
}

/// What the recording tells of the device's capacity, in sentences: short, and in full.
pub fn capacity_words(capacity: Capacity) -> (String, String) {
    match capacity {
        Capacity::AtLeast(bytes) => (
            "capacity not known".to_owned(),
            format!(
                "Only an out-of-memory event states what was left on the device, and this recording has none. The allocator could \
                 hold at least {}, the most it ever reserved. How much others use on the device is in no snapshot.",
                Bytes(bytes).exact()
            ),
        ),
        Capacity::Known { bytes, reserved, device_free, taken_since_first } => {
            let others = match taken_since_first {
                0 => String::new(),
                more if 0 < more => format!(
                    " Since the first failure that has shrunk by {}: so much more is used outside the allocator.",
                    Bytes(u64::try_from(more).unwrap_or(u64::MAX))
                ),
                less => format!(
                    " Since the first failure that has grown by {}: so much less is used outside the allocator.",
                    Bytes(u64::try_from(-less).unwrap_or(u64::MAX))
                ),
            };
            let full = format!(
                "At the last failure {} was reserved and {} left on the device: {} is the most the allocator could hold then.{others} \
                 The rest of the device is used outside the allocator (contexts, libraries, other processes); its size is in no \
                 snapshot.",
                Bytes(reserved).exact(),
                Bytes(device_free).exact(),
                Bytes(bytes).exact()
            );
            (format!("most the allocator could hold: {}", Bytes(bytes)), full)
        }
    }
}

const LARGEST_REQUEST_OF_GROUP: &str =
    "The largest request that one of its pools, halves and streams would serve without a new segment, after rounding.";
const TAKEN: &str = "How often segments were allocated or ranges mapped since the recording began.";
const TAKEN_BYTES: &str = "What all segments and mapped ranges taken since the recording began add up to.";
const GIVEN_BACK: &str = "How often segments were freed or ranges unmapped since the recording began.";
const GIVEN_BACK_BYTES: &str = "What all segments and ranges given back since the recording began add up to.";
const DRIVER_TIME: &str = "Time since the recording began that lies around segment events: from the event before a segment_alloc, \
                           segment_map or segment_unmap to it, and from a segment_free to the event after it. The driver's calls \
                           are in there with whatever else the program did, so they took at most so long.";
const ALLOCATION_RATE: &str = "Bytes of blocks allocated in each bucket of the axis; by time per second, by events as they are.";
const FREE_RATE: &str = "Bytes of blocks given back in each bucket of the axis; by time per second, by events as they are.";
const ALLOCATIONS: &str = "Blocks allocated in each bucket of the axis; by time per second, by events as they are.";
const FREES: &str = "Blocks given back in each bucket of the axis; by time per second, by events as they are.";

/// Why a moment is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkerKind {
    /// An allocation failed.
    Oom,
    /// The program gave its cache back.
    EmptyCache,
    /// Somebody took a snapshot.
    Snapshot,
    /// An annotation began.
    Annotation,
    /// The user set a mark.
    User,
}

impl MarkerKind {
    /// All kinds that a recording makes, in the order a legend shows them.
    pub const RECORDED: [MarkerKind; 4] = [MarkerKind::Oom, MarkerKind::EmptyCache, MarkerKind::Snapshot, MarkerKind::Annotation];
    /// What people call them.
    pub const fn name(self) -> &'static str {
        match self {
            MarkerKind::Oom => "failures",
            MarkerKind::EmptyCache => "empty_cache",
            MarkerKind::Snapshot => "snapshots",
            MarkerKind::Annotation => "annotations",
            MarkerKind::User => "marks",
        }
    }
    /// How it is known, in a sentence.
    pub const fn help(self) -> &'static str {
        match self {
            MarkerKind::Oom => "Allocations that failed.",
            MarkerKind::EmptyCache => {
                "Where the program gave its cache back, such as by empty_cache(). No event says so: these are releases that no \
                 allocation asked for."
            }
            MarkerKind::Snapshot => "Where somebody took a snapshot.",
            MarkerKind::Annotation => "Where an annotation begins.",
            MarkerKind::User => "What you marked.",
        }
    }
    /// Its colour.
    pub const fn ink(self) -> Ink {
        match self {
            MarkerKind::Oom => Ink::Oom,
            MarkerKind::EmptyCache => Ink::Capacity,
            MarkerKind::Snapshot => Ink::WeakText,
            MarkerKind::Annotation => Ink::SegmentBorder,
            MarkerKind::User => Ink::UserMark,
        }
    }
}

/// A moment marked across all series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where.
    pub position: Position,
    /// Why.
    pub kind: MarkerKind,
    /// What happened.
    pub name: String,
}

/// Failures, snapshots, caches given back and beginnings of annotations of a device, by position.
pub fn markers(snapshot: &Snapshot, memory: &DeviceMemory, spans: &Spans, releases: &Releases) -> Vec<Marker> {
    let actions = memory.trace.actions().iter().zip(0u32..);
    let marked = actions.filter(|(action, _)| matches!(action, Action::Oom | Action::Snapshot));
    let mut all: Vec<Marker> = marked
        .map(|(action, event)| {
            let position = Position::after(EventIdx(event));
            let size = memory.trace.sizes()[event as usize];
            match action {
                Action::Oom => Marker { position, kind: MarkerKind::Oom, name: format!("out of memory: {} wanted", Bytes(size)) },
                _ => Marker { position, kind: MarkerKind::Snapshot, name: "snapshot".to_owned() },
            }
        })
        .collect();
    all.extend(releases.empty_caches().map(|run| Marker {
        position: Position(run.events.end),
        kind: MarkerKind::EmptyCache,
        name: format!("cache given back: {} in {}", Bytes(run.bytes), pieces(run.count)),
    }));
    let begun = spans.of_kind(SpanKind::Annotation).iter().filter(|span| !span.open_start);
    all.extend(begun.map(|span| Marker {
        position: span.from,
        kind: MarkerKind::Annotation,
        name: format!("{} begins", snapshot.stacks.strings.get(span.name)),
    }));
    all.sort_by_key(|marker| (marker.position, marker.kind));
    all
}

fn pieces(count: u32) -> String {
    if count == 1 { "one piece".to_owned() } else { format!("{} pieces", grouped(u64::from(count))) }
}

/// A value as people read it, exact.
pub fn value_label(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Bytes => Bytes(value).exact(),
        Unit::Count => grouped(value),
        Unit::Share => format!("{:.2} %", value as f64 * 100.0 / WHOLE_PPM as f64),
        Unit::ByteRate(per) => format!("{} {}", Bytes(value), per.words()),
        Unit::CountRate(per) => format!("{} {}", grouped(value), per.words()),
        Unit::Micros => duration_label(value),
    }
}

impl Per {
    const fn words(self) -> &'static str {
        match self {
            Per::Second => "a second",
            Per::Bucket => "a bucket",
        }
    }
}

/// Ticks of a value axis at round values: binary for bytes, decimal for the rest.
pub fn value_ticks(unit: Unit, range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    match unit {
        Unit::Bytes | Unit::ByteRate(_) => byte_ticks(range, length_pt),
        Unit::Count | Unit::CountRate(_) => count_ticks(range, length_pt),
        Unit::Micros => duration_ticks(range, length_pt),
        Unit::Share => {
            let percent = WHOLE_PPM as f64 / 100.0;
            let ticks = count_ticks(range.start / percent..range.end / percent, length_pt).into_iter();
            ticks.map(|tick| Tick { at: tick.at * percent, label: format!("{} %", tick.label) }).collect()
        }
    }
}

/// The highest value in a window of the clock.
pub fn highest(curve: &Curve, clock: &Clock, window: &Range<f64>) -> u64 {
    let (from, to) = (clock.position(window.start), Position(clock.position(window.end).0.saturating_add(1)));
    curve.max_in(from, to).1
}

/// A curve as the points of a line over a window of the clock, at most four a column.
pub fn step_points(curve: &Curve, clock: &Clock, window: &Range<f64>, columns: usize) -> Vec<[f64; 2]> {
    let columns = columns.max(1);
    let (first, last) = (clock.position(window.start), clock.position(window.end));
    let mut line = Steps::default();
    if (last.0 - first.0) as usize <= 2 * columns {
        for (position, value) in curve.steps(first, Position(last.0.saturating_add(1))) {
            line.step(clock.unit(position).max(window.start), value as f64);
        }
        line.to(window.end);
        return line.points;
    }
    let width = (window.end - window.start) / columns as f64;
    let mut boundaries = clock.columns(window.clone(), columns);
    if clock.axis() == TimeAxis::Events && 256 * columns <= (last.0 - first.0) as usize {
        // Where a column holds hundreds of positions, its edges may lie where the curve's runs begin: that moves
        // them by less than a sixteenth of a pixel and halves the work.
        boundaries.iter_mut().skip(1).for_each(|position| *position = Position(position.0 / 16 * 16).max(first));
    }
    if let Some(end) = boundaries.last_mut() {
        // The state that has begun last in the window is part of it.
        *end = if clock.unit(last) < window.end { Position(last.0.saturating_add(1)) } else { last };
    }
    for (column, ends) in boundaries.windows(2).enumerate() {
        let (from, to) = (ends[0], ends[1].max(Position(ends[0].0.saturating_add(1))));
        let left = window.start + width * column as f64;
        let Extremes { low, high, high_at, last } = curve.extremes_in(from, to);
        if low == high {
            line.step(left, high as f64);
            continue;
        }
        // One stroke in the middle of the column: from where the line comes, over both extremes, to where it goes on.
        // The highest first or the lowest: that nearer to the edge it lies at.
        let extremes = if high_at.0 - from.0 < (to.0 - from.0) / 2 { [high, low] } else { [low, high] };
        for value in extremes.into_iter().chain([last]) {
            line.step(left + width / 2.0, value as f64);
        }
    }
    line.to(window.end);
    line.points
}

/// A line of steps; runs of one value are one piece.
#[derive(Default)]
struct Steps {
    points: Vec<[f64; 2]>,
}

impl Steps {
    fn step(&mut self, x: f64, value: f64) {
        if self.points.last().is_some_and(|last| last[1] == value) {
            return;
        }
        self.to(x);
        self.points.push([x, value]);
    }
    /// Goes on to a place at the last value.
    fn to(&mut self, x: f64) {
        if let Some([at, value]) = self.points.last().copied()
            && at < x
        {
            self.points.push([x, value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, StackId, StreamId, Trace, TraceEntry};

    fn clock(events: usize) -> Clock {
        let mut trace = Trace::default();
        for _ in 0..events {
            trace.push(TraceEntry {
                action: Action::Alloc,
                address: 0,
                size: 1,
                stream: StreamId::DEFAULT,
                time_us: None,
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        Clock::new(&trace, TimeAxis::Events)
    }

    #[test]
    fn zoomed_in_a_line_is_the_curve_in_steps() {
        let curve = Curve::from_deltas(&[5, 0, 3, -8, 0, 0]);
        for (window, expected) in [
            (0.0..6.0, vec![[0.0, 5.0], [2.0, 5.0], [2.0, 8.0], [3.0, 8.0], [3.0, 0.0], [6.0, 0.0]]),
            (2.5..3.5, vec![[2.5, 8.0], [3.0, 8.0], [3.0, 0.0], [3.5, 0.0]]),
            (4.0..5.0, vec![[4.0, 0.0], [5.0, 0.0]]),
        ] {
            assert_eq!(step_points(&curve, &clock(5), &window, 100), expected, "{window:?}");
        }
    }

    #[test]
    fn no_peak_vanishes_however_far_one_zooms_out() {
        let mut deltas = vec![0i64; 100_001];
        deltas[0] = 1000;
        deltas[100_000] = 5;
        for (at, height) in [(777usize, 50i64), (50_000, -900), (99_998, 1_000_000)] {
            deltas[at] += height;
            deltas[at + 1] -= height;
        }
        let (curve, clock) = (Curve::from_deltas(&deltas), clock(100_000));
        for columns in [1, 7, 100, 1900] {
            let points = step_points(&curve, &clock, &clock.span(), columns);
            assert!(points.len() <= 4 * columns + 2, "{} points in {columns} columns", points.len());
            assert!(points.is_sorted_by(|a, b| a[0] <= b[0]), "{columns} columns");
            let values: Vec<f64> = points.iter().map(|point| point[1]).collect();
            assert!(values.contains(&1_001_000.0) && values.contains(&100.0), "{columns} columns");
            assert_eq!(values.contains(&1050.0), 1 < columns, "{columns} columns");
            assert_eq!(values[values.len() - 1], 1005.0, "the last state of all");
        }
    }

    #[test]
    fn values_read_exactly() {
        for (unit, value, label) in [
            (Unit::Bytes, 1 << 30, "1.00 GiB (1 073 741 824 bytes)"),
            (Unit::Count, 12_345, "12 345"),
            (Unit::Share, 971_234, "97.12 %"),
        ] {
            assert_eq!(value_label(unit, value), label);
        }
        let labels =
            |unit, range, length| value_ticks(unit, range, length).into_iter().map(|t| t.label).collect::<Vec<_>>().join(" | ");
        assert_eq!(labels(Unit::Share, 0.0..1e6, 200.0), "0 % | 20 % | 40 % | 60 % | 80 % | 100 %");
        assert_eq!(labels(Unit::Count, 0.0..3500.0, 160.0), "0 | 1 000 | 2 000 | 3 000");
        assert_eq!(labels(Unit::Count, 0.0..1.0, 160.0), "0 | 1");
    }
}
