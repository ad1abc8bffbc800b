//! How large blocks are, how long they live, who allocates only to free, and whose memory only grows.
//!
//! Always: nothing falls between the buckets: counts and bytes of each part add up to the whole, which is
//! stated beside them. Stacks that read alike are one; blocks without a stack are one group,
//! [`StackId::EMPTY`].

use crate::analysis::query::{Asked, Query};
use crate::base::id::Id;
use crate::base::{Cancelled, HeapSize, Progress, StringId};
use crate::model::{Allocations, DeviceMemory, Frame, Position, StackId, StackTable};
use crate::replay::Replay;
use rustc_hash::FxHashMap;

/// How many, and how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of block lives.
    pub count: u64,
    /// Their sizes, in bytes.
    pub bytes: u64,
}

impl Sum {
    /// Adds one life.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
    /// Both together.
    pub fn and(self, other: Sum) -> Sum {
        Sum { count: self.count + other.count, bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// Which lives a question is about: those active at some position of `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LifetimeParams {
    /// First position of the window.
    pub from: Position,
    /// First position behind it; [`Position::NEVER`] for all to the end.
    pub to: Position,
}

impl LifetimeParams {
    /// The whole trace.
    pub const ALL: LifetimeParams = LifetimeParams { from: Position::START, to: Position::NEVER };

    /// The rows of the lives that are active at some position of the window.
    fn rows<'a>(&self, lives: &'a Allocations) -> impl Iterator<Item = usize> + use<'a> {
        let LifetimeParams { from, to } = *self;
        let known = lives.born().partition_point(|born| *born < to);
        let (born, died) = (lives.born(), lives.died());
        (0..known).filter(move |row| from < died[*row] && born[*row] < died[*row])
    }
}

/// Histograms by powers of two: row `i` holds values from `2^i` up to but not including `2^(i + 1)`; row 0 holds
/// zero too. Rows behind the last one in use are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// By block size in bytes.
    pub sizes: Vec<Sum>,
    /// By life in events, of lives whose birth and death the trace holds.
    pub events: Vec<Sum>,
    /// The same lives by life in µs; where events carry no time, [`Lifetimes::untimed`] holds them.
    pub micros: Vec<Sum>,
    /// Lives counted in `events` but not in `micros`.
    pub untimed: Sum,
    /// Lives older than the trace, which die in it.
    pub older: Sum,
    /// Lives born in the trace, which outlive it.
    pub outliving: Sum,
    /// Lives older than the trace, which outlive it.
    pub throughout: Sum,
    /// All lives of the window.
    pub total: Sum,
}

impl Lifetimes {
    /// Sorts the lives of a window into buckets.
    pub fn of(device: &DeviceMemory, params: &LifetimeParams, progress: &Progress) -> Result<Lifetimes, Cancelled> {
        let lives = &device.allocations;
        let mut found = Lifetimes::default();
        for (done, row) in params.rows(lives).enumerate() {
            if done.is_multiple_of(65_536) {
                progress.check()?;
            }
            let (born, died, size) = (lives.born()[row], lives.died()[row], lives.sizes()[row]);
            found.total.add(size);
            add_to(&mut found.sizes, size, size);
            let ends = died <= device.end();
            match (born.event(), ends) {
                (None, true) => found.older.add(size),
                (Some(_), false) => found.outliving.add(size),
                (None, false) => found.throughout.add(size),
                (Some(birth), true) => {
                    add_to(&mut found.events, u64::from(died.0 - born.0), size);
                    let time = |event| device.trace.time_us(event);
                    match (time(birth), died.event().and_then(time)) {
                        (Some(from), Some(to)) => {
                            add_to(&mut found.micros, u64::try_from(to.saturating_sub(from)).unwrap_or(0), size)
                        }
                        _ => found.untimed.add(size),
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Puts a life into the bucket of a value.
fn add_to(buckets: &mut Vec<Sum>, value: u64, bytes: u64) {
    let bucket = (63 - value.max(1).leading_zeros()) as usize;
    if buckets.len() <= bucket {
        buckets.resize(bucket + 1, Sum::default());
    }
    buckets[bucket].add(bytes);
}

impl Query for Lifetimes {
    const NAME: &'static str = "sizes and lifetimes";
    type Params = LifetimeParams;
    type Answer = Lifetimes;

    fn answer(asked: &Asked<'_>, params: &LifetimeParams, progress: &Progress) -> Result<Lifetimes, Cancelled> {
        Lifetimes::of(asked.memory(), params, progress)
    }
}

/// What one stack allocated in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackChurn {
    /// The stack.
    pub stack: StackId,
    /// Allocated and freed inside the window.
    pub churned: Sum,
    /// Allocated inside it and kept beyond its end.
    pub kept: Sum,
}

/// What was allocated only to be freed again, by stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    /// One row a stack, most churned bytes first, equal ones by stack.
    pub stacks: Vec<StackChurn>,
    /// Over all stacks: churned and kept.
    pub churned: Sum,
    /// Over all stacks.
    pub kept: Sum,
}

impl Churn {
    /// Groups the lives born inside a window. A life counts as churned if it was freed (requested) before its end.
    pub fn of(
        device: &DeviceMemory,
        stacks: &StackTable,
        params: &LifetimeParams,
        progress: &Progress,
    ) -> Result<Churn, Cancelled> {
        let lives = &device.allocations;
        let mut alike = Alike::new(stacks);
        let mut rows: FxHashMap<StackId, StackChurn> = FxHashMap::default();
        let mut churn = Churn::default();
        // What is older than the trace was not allocated in it, whatever the window says.
        let from = params.from.max(Position(1));
        let end = params.to.min(Position(device.end().0.saturating_add(1)));
        let first = lives.born().partition_point(|born| *born < from);
        let known = lives.born().partition_point(|born| *born < end);
        for row in first..known.max(first) {
            if row.is_multiple_of(65_536) {
                progress.check()?;
            }
            if lives.died()[row] <= lives.born()[row] {
                continue;
            }
            let (stack, size) = (alike.of(lives.stacks()[row]), lives.sizes()[row]);
            let entry = rows.entry(stack).or_insert(StackChurn { stack, churned: Sum::default(), kept: Sum::default() });
            if lives.freed()[row] < end {
                entry.churned.add(size);
                churn.churned.add(size);
            } else {
                entry.kept.add(size);
                churn.kept.add(size);
            }
        }
        churn.stacks = rows.into_values().collect();
        churn.stacks.sort_unstable_by_key(|row| (std::cmp::Reverse(row.churned.bytes), row.stack));
        Ok(churn)
    }
}

impl Query for Churn {
    const NAME: &'static str = "churn by stack";
    type Params = LifetimeParams;
    type Answer = Churn;

    fn answer(asked: &Asked<'_>, params: &LifetimeParams, progress: &Progress) -> Result<Churn, Cancelled> {
        Churn::of(asked.memory(), &asked.subject.snapshot.stacks, params, progress)
    }
}

/// At which moments growth is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slices {
    /// The ends of so many slices of the window, equal in events.
    Equal(u32),
    /// The ends of the spans of this name.
    Annotation(StringId),
}

/// What a search for leaks is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakParams {
    /// The window searched.
    pub window: LifetimeParams,
    /// The moments compared.
    pub slices: Slices,
}

/// A stack whose live bytes never shrink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackGrowth {
    /// The stack.
    pub stack: StackId,
    /// Its allocated bytes at each moment.
    pub live: Vec<Sum>,
    /// From how many moments to the next it grew.
    pub grew: u32,
    /// Its allocated bytes at [`LINE_POINTS`] moments spread evenly over the window, from its begin to its end.
    pub line: Vec<u64>,
}

impl StackGrowth {
    /// Bytes gained from the first moment to the last.
    pub fn gained(&self) -> u64 {
        let bytes = |sum: Option<&Sum>| sum.map_or(0, |sum| sum.bytes);
        bytes(self.live.last()).saturating_sub(bytes(self.live.first()))
    }
}

/// Stacks whose live bytes only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeakSuspects {
    /// The moments compared, ascending.
    pub moments: Vec<Position>,
    /// Stacks that never shrink and grow at least in every second step, twice or more; most gained first.
    pub suspects: Vec<StackGrowth>,
    /// All other stacks together, at each moment.
    pub others: Vec<Sum>,
    /// All stacks together: the allocated bytes of each moment.
    pub total: Vec<Sum>,
}

/// Points of the line of a suspect.
pub const LINE_POINTS: usize = 40;

/// Most moments compared; of more repetitions evenly spread ones are taken.
pub const MOST_MOMENTS: usize = 64;

impl LeakSuspects {
    /// Compares what lives at the moments that `params` name.
    pub fn of(
        device: &DeviceMemory,
        replay: &Replay,
        stacks: &StackTable,
        params: &LeakParams,
        progress: &Progress,
    ) -> Result<LeakSuspects, Cancelled> {
        LeakSuspects::between(device, replay, stacks, params.window, moments_of(device, params), progress)
    }

    /// Compares what lives at moments of the window; of more than [`MOST_MOMENTS`] evenly spread ones are taken.
    pub fn between(
        device: &DeviceMemory,
        replay: &Replay,
        stacks: &StackTable,
        window: LifetimeParams,
        moments: Vec<Position>,
        progress: &Progress,
    ) -> Result<LeakSuspects, Cancelled> {
        let moments = spread(moments);
        let lives = &device.allocations;
        let mut alike = Alike::new(stacks);
        let mut by_stack: FxHashMap<StackId, Vec<Sum>> = FxHashMap::default();
        let mut total = vec![Sum::default(); moments.len()];
        let mut ids = Vec::new();
        for (place, moment) in moments.iter().enumerate() {
            progress.check()?;
            replay.live_at(device, *moment, &mut ids);
            for id in ids.iter().filter(|id| *moment < lives.freed()[id.row()]) {
                let (stack, size) = (alike.of(lives.stacks()[id.row()]), lives.sizes()[id.row()]);
                by_stack.entry(stack).or_insert_with(|| vec![Sum::default(); moments.len()])[place].add(size);
                total[place].add(size);
            }
        }
        let mut found = LeakSuspects { others: vec![Sum::default(); moments.len()], moments, suspects: Vec::new(), total };
        let mut rows: Vec<(StackId, Vec<Sum>)> = by_stack.into_iter().collect();
        rows.sort_unstable_by_key(|(stack, _)| *stack);
        for (stack, live) in rows {
            let steps = live.windows(2).map(|pair| pair[0].bytes.cmp(&pair[1].bytes));
            let grew = steps.clone().filter(|step| step.is_lt()).count() as u32;
            let shrank = steps.clone().any(std::cmp::Ordering::is_gt);
            if !shrank && 2 <= grew && steps.len() as u32 <= 2 * grew {
                found.suspects.push(StackGrowth { stack, live, grew, line: vec![0; LINE_POINTS] });
            } else {
                for (sum, own) in found.others.iter_mut().zip(live) {
                    *sum = sum.and(own);
                }
            }
        }
        found.suspects.sort_by_key(|growth| (std::cmp::Reverse(growth.gained()), growth.stack));
        found.draw_lines(device, &mut alike, window, progress)?;
        Ok(found)
    }

    /// Fills in the lines of the suspects.
    fn draw_lines(
        &mut self,
        device: &DeviceMemory,
        alike: &mut Alike<'_>,
        window: LifetimeParams,
        progress: &Progress,
    ) -> Result<(), Cancelled> {
        let places: FxHashMap<StackId, usize> =
            self.suspects.iter().enumerate().map(|(place, growth)| (growth.stack, place)).collect();
        if places.is_empty() {
            return Ok(());
        }
        let points = line_points(device, window);
        let lives = &device.allocations;
        for row in 0..lives.len() {
            if row.is_multiple_of(65_536) {
                progress.check()?;
            }
            let Some(place) = places.get(&alike.of(lives.stacks()[row])) else { continue };
            let first = points.partition_point(|point| *point < lives.born()[row]);
            let end = points.partition_point(|point| *point < lives.freed()[row]);
            let line = &mut self.suspects[*place].line;
            line.iter_mut().take(end).skip(first).for_each(|sum| *sum = sum.saturating_add(lives.sizes()[row]));
        }
        Ok(())
    }
}

/// The moments of a suspect's line, ascending; in a short window some are equal.
fn line_points(device: &DeviceMemory, window: LifetimeParams) -> Vec<Position> {
    let from = window.from.min(device.end());
    let last = Position(window.to.0.saturating_sub(1)).min(device.end()).max(from);
    let length = u64::from(last.0 - from.0);
    (0..LINE_POINTS as u64).map(|point| Position(from.0 + (length * point / (LINE_POINTS as u64 - 1)) as u32)).collect()
}

/// The moments that `params` name, inside the window.
fn moments_of(device: &DeviceMemory, params: &LeakParams) -> Vec<Position> {
    let LeakParams { window: LifetimeParams { from, to }, slices } = *params;
    let (from, last) = (from.min(device.end()), Position(to.0.saturating_sub(1)).min(device.end()));
    let mut moments: Vec<Position> = match slices {
        Slices::Equal(count) => {
            let count = u64::from(count).clamp(1, MOST_MOMENTS as u64);
            let length = u64::from(last.0.saturating_sub(from.0));
            (1..=count).map(|slice| Position(from.0 + (length * slice / count) as u32)).collect()
        }
        Slices::Annotation(name) => {
            let spans = device.annotations.iter().filter(|span| span.name == name);
            spans.filter_map(|span| Some(device.trace.position_at_time(span.end_us?))).collect()
        }
    };
    moments.retain(|moment| from <= *moment && *moment <= last);
    moments
}

/// Moments ascending, no two equal, at most [`MOST_MOMENTS`].
fn spread(mut moments: Vec<Position>) -> Vec<Position> {
    moments.sort_unstable();
    moments.dedup();
    if MOST_MOMENTS < moments.len() {
        let all = moments.len() - 1;
        moments = (0..MOST_MOMENTS).map(|i| moments[i * all / (MOST_MOMENTS - 1)]).collect();
    }
    moments
}

impl Query for LeakSuspects {
    const NAME: &'static str = "leak suspects";
    type Params = LeakParams;
    type Answer = LeakSuspects;

    fn answer(asked: &Asked<'_>, params: &LeakParams, progress: &Progress) -> Result<LeakSuspects, Cancelled> {
        LeakSuspects::of(asked.memory(), asked.replay(), &asked.subject.snapshot.stacks, params, progress)
    }
}

/// One id for all stacks that read alike; frames that differ only in extra keys have ids of their own.
pub(super) struct Alike<'a> {
    stacks: &'a StackTable,
    known: FxHashMap<StackId, StackId>,
    first: FxHashMap<Vec<Frame>, StackId>,
}

impl<'a> Alike<'a> {
    pub(super) fn new(stacks: &'a StackTable) -> Alike<'a> {
        Alike { stacks, known: FxHashMap::default(), first: FxHashMap::default() }
    }
    /// The first met of the stacks that read like this one; lives are met in order of birth, so it is always the same.
    pub(super) fn of(&mut self, stack: StackId) -> StackId {
        let Alike { stacks, known, first } = self;
        *known.entry(stack).or_insert_with(|| {
            let frames = stacks.frames(stack);
            if frames.is_empty() {
                return StackId::EMPTY;
            }
            *first.entry(frames.iter().map(|frame| stacks.frame(*frame)).collect()).or_insert(stack)
        })
    }
}

impl HeapSize for Lifetimes {
    fn heap_size(&self) -> usize {
        self.sizes.heap_size() + self.events.heap_size() + self.micros.heap_size()
    }
}
impl HeapSize for Churn {
    fn heap_size(&self) -> usize {
        self.stacks.heap_size()
    }
}
impl HeapSize for LeakSuspects {
    fn heap_size(&self) -> usize {
        let suspects: usize =
            self.suspects.iter().map(|growth| growth.live.heap_size() + growth.line.heap_size() + size_of::<StackGrowth>()).sum();
        suspects + self.moments.heap_size() + self.others.heap_size() + self.total.heap_size()
    }
}
