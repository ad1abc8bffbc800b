//! The steps a recording repeats, with what of each is forward, backward and the optimizer's.
//!
//! Steps are read from annotations (`ProfilerStep#3`, `step_3`) where there are any, else from the stacks of the optimizer or
//! of the backward pass, else from the returns of live memory to its low-water mark; [`StepWay`] says which.
//! Always: steps are in order and do not overlap; the first may begin behind a setup, and the last may be cut off by
//! the recording's end.

use crate::analysis::parts::{Part, Parts};
use crate::analysis::query::{Asked, Query};
use crate::analysis::spans::{SpanKind, Spans};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, Allocations, DeviceId, DeviceMemory, EventIdx, Position, Snapshot};
use std::ops::Range;

/// What told the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepWay {
    /// Annotations with a number at the end of their name.
    Annotations,
    /// Stacks in an optimizer; a step ends where memory is lowest behind them.
    Optimizer,
    /// Stacks of the backward pass, likewise.
    Backward,
    /// Live memory came back to the lowest it is ever again.
    LowWater,
}

impl StepWay {
    /// In a sentence: `steps are told by …`.
    pub const fn words(self) -> &'static str {
        match self {
            StepWay::Annotations => "the recording's annotations",
            StepWay::Optimizer => "the stacks of the optimizer",
            StepWay::Backward => "the stacks of the backward pass",
            StepWay::LowWater => "the returns of memory in use to its low-water mark",
        }
    }
}

/// A forward pass and the backward pass that belongs to it: one a step, several where gradients are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Before the forward pass.
    pub from: Position,
    /// Between the two.
    pub turn: Position,
    /// Behind the backward pass.
    pub to: Position,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state before its first event.
    pub from: Position,
    /// The state after its last event.
    pub to: Position,
    /// Its passes; none where no backward pass was seen.
    pub rounds: Vec<Round>,
    /// Where the optimizer's part begins; `to` where there is none.
    pub optimizer: Position,
    /// Whether the recording holds it to its end.
    pub complete: bool,
}

impl Step {
    /// Whether an event of the step led to this state.
    pub fn has(&self, position: Position) -> bool {
        self.from < position && position <= self.to
    }
}

/// The steps of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// In order.
    pub rows: Vec<Step>,
    /// What told them; none where there are none.
    pub way: Option<StepWay>,
}

/// An excursion of live memory counts as a step from this part of the largest one on.
const RISE: f64 = 0.1;
/// What may be left of what the forward pass held when its backward pass is over.
const LEFT: f64 = 0.03;
/// Levels of live memory this part of the whole apart are one.
const LEVEL: f64 = 0.01;

impl Steps {
    /// Finds the steps of a device.
    pub fn of(snapshot: &Snapshot, device: DeviceId, progress: &Progress) -> Result<Steps, Cancelled> {
        let memory = &snapshot.devices[device];
        let parts = Parts::of(snapshot, memory);
        let (level, lives) = (levels(memory, progress)?, &memory.allocations);
        let spans = Spans::of(memory, progress)?;
        let named = named_steps(snapshot, &spans);
        progress.check()?;
        let (way, mut bounds) = if named.is_empty() {
            let (optimizer, backward) = (clusters(lives, &parts, Part::Optimizer), clusters(lives, &parts, Part::Backward));
            // An optimizer may allocate in its first step alone, its state: then it tells no steps.
            let told = match (optimizer.as_slice(), backward.last()) {
                ([], _) => false,
                ([only], Some(last)) => last.0 < only.1,
                _ => true,
            };
            if told {
                (StepWay::Optimizer, behind_clusters(memory, &level, &optimizer, false))
            } else if !backward.is_empty() {
                (StepWay::Backward, behind_clusters(memory, &level, &backward, true))
            } else {
                (StepWay::LowWater, low_waters(memory, &level))
            }
        } else {
            (StepWay::Annotations, named)
        };
        bounds.retain(|bound| bound.start < bound.end);
        let mut steps = Steps { rows: Vec::with_capacity(bounds.len() + 1), way: Some(way).filter(|_| !bounds.is_empty()) };
        for bound in &bounds {
            let step = shape(memory, &parts, bound.clone(), true);
            // Without stacks what rises behind the passes is their optimizer's.
            let part = way == StepWay::LowWater && step.rounds.is_empty();
            match steps.rows.last_mut().filter(|last| part && !last.rounds.is_empty()) {
                Some(last) => last.to = step.to,
                None => steps.rows.push(step),
            }
        }
        if way == StepWay::LowWater && !are_alike(&steps.rows) {
            return Ok(Steps::default());
        }
        // What lies behind the last step is the beginning of one that was cut off, where memory rises again.
        if let Some(last) = bounds.last() {
            let base = level[last.end.row()];
            let peak = |range: Range<Position>| level[range.start.row()..=range.end.row()].iter().max().copied().unwrap_or(0);
            let tail = last.end..memory.end();
            let rise = peak(last.clone()).saturating_sub(base) as f64 * RISE;
            if way != StepWay::LowWater && rise.max(1.0) < peak(tail.clone()).saturating_sub(base) as f64 {
                steps.rows.push(shape(memory, &parts, tail, false));
            }
        }
        Ok(steps)
    }
    /// The step whose events led to a state, by its row.
    pub fn at(&self, position: Position) -> Option<usize> {
        let row = self.rows.partition_point(|step| step.to < position);
        self.rows.get(row).filter(|step| step.has(position)).map(|_| row)
    }
}

/// The last event of each complete step, ascending.
pub fn step_ends(snapshot: &Snapshot, device: DeviceId, progress: &Progress) -> Result<Vec<EventIdx>, Cancelled> {
    let steps = Steps::of(snapshot, device, progress)?;
    Ok(steps.rows.iter().filter(|step| step.complete).filter_map(|step| step.to.event()).collect())
}

/// Whether rises of memory repeat: there is a backward pass, or most hold about as many events as the one in the middle.
fn are_alike(steps: &[Step]) -> bool {
    let mut events: Vec<u32> = steps.iter().map(|step| step.to.0 - step.from.0).collect();
    events.sort_unstable();
    let middle = events.get(events.len() / 2).copied().unwrap_or(0);
    let alike = events.iter().filter(|events| middle <= **events * 2 && **events <= middle.saturating_mul(2)).count();
    steps.iter().any(|step| !step.rounds.is_empty()) || 3 <= alike && steps.len() < alike * 2
}

trait Row {
    fn row(self) -> usize;
}
impl Row for Position {
    fn row(self) -> usize {
        self.0 as usize
    }
}

/// Bytes the program had asked for and not given back, at each position.
fn levels(memory: &DeviceMemory, progress: &Progress) -> Result<Vec<u64>, Cancelled> {
    progress.stage("looking for steps", memory.allocations.len() as u64)?;
    let lives = &memory.allocations;
    let mut level = vec![0u64; memory.trace.len() + 1];
    // Differences wrap around; their running sum is right again.
    for (done, id) in lives.ids().enumerate() {
        if done.is_multiple_of(1 << 16) {
            progress.at(done as u64)?;
        }
        let (born, freed, size) = (lives.born()[id.row()].row(), lives.freed()[id.row()].row(), lives.requested()[id.row()]);
        if let Some(at) = level.get_mut(born) {
            *at = at.wrapping_add(size);
        }
        if let Some(at) = level.get_mut(freed) {
            *at = at.wrapping_sub(size);
        }
    }
    let mut now = 0u64;
    for at in &mut level {
        now = now.wrapping_add(*at);
        *at = now;
    }
    Ok(level)
}

/// Annotations of one name but for the number at its end, apart from one another, at least two.
fn named_steps(snapshot: &Snapshot, spans: &Spans) -> Vec<Range<Position>> {
    let rows = spans.of_kind(SpanKind::Annotation);
    let stem = |name: &str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem.len() < name.len() && stem.to_lowercase().contains("step")).then(|| stem.to_owned())
    };
    let stems: Vec<Option<String>> = rows.iter().map(|span| stem(snapshot.stacks.strings.get(span.name))).collect();
    let profiler = stems.iter().flatten().find(|stem| stem.starts_with("ProfilerStep"));
    let Some(wanted) = profiler.or_else(|| stems.iter().flatten().next()) else { return Vec::new() };
    let of_stem = rows.iter().zip(&stems).filter(|(_, stem)| stem.as_ref() == Some(wanted));
    let mut found: Vec<Range<Position>> = of_stem.map(|(span, _)| span.from..span.to).collect();
    if found.len() < 2 || found.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Vec::new();
    }
    // What happens between two belongs to the former.
    for row in 1..found.len() {
        found[row - 1].end = found[row].start;
    }
    found
}

/// First and last birth of runs of lives of a part, apart by a backward pass, or by any pass where none is told.
fn clusters(lives: &Allocations, parts: &Parts, wanted: Part) -> Vec<(Position, Position)> {
    let between = if wanted == Part::Optimizer && parts.tells(Part::Backward) { Part::Backward } else { Part::Forward };
    let (mut found, mut apart) = (Vec::<(Position, Position)>::new(), true);
    for id in lives.ids() {
        let (part, born) = (parts.of_life(lives, id), lives.born()[id.row()]);
        if part == wanted {
            match found.last_mut().filter(|_| !apart) {
                Some(last) => last.1 = born,
                None => found.push((born, born)),
            }
            apart = false;
        } else if part == between {
            apart = true;
        }
    }
    found
}

/// Steps that end where memory is lowest behind each cluster; `lasting`: only where it is as low as it ever is again, for
/// gradients that wait for a further pass end no step.
fn behind_clusters(
    memory: &DeviceMemory,
    level: &[u64],
    clusters: &[(Position, Position)],
    lasting: bool,
) -> Vec<Range<Position>> {
    let lowest = |from: Position, to: Position| {
        let range = from.row()..=to.row();
        let row = range.clone().rev().min_by_key(|row| level[*row]).unwrap_or(*range.end());
        Position(row as u32)
    };
    let mut ends: Vec<Position> = clusters.windows(2).map(|pair| lowest(pair[0].1, pair[1].0)).collect();
    let Some(last) = clusters.last() else { return Vec::new() };
    if lasting {
        let slack = (level.iter().max().copied().unwrap_or(0) as f64 * LEVEL) as u64;
        let mut lowest = u64::MAX;
        let mut kept: Vec<Position> = Vec::with_capacity(ends.len());
        for end in ends.iter().rev() {
            if level[end.row()] <= lowest.saturating_add(slack) {
                kept.push(*end);
            }
            lowest = lowest.min(level[end.row()]);
        }
        kept.reverse();
        ends = kept;
    }
    let low = ends.last().map(|end| level[end.row()]);
    ends.push(back_at(memory, level, last.1, low).unwrap_or_else(|| lowest(last.1, memory.end())));
    let mut from = first_start(memory, clusters[0].0, ends[0]);
    let steps = ends.iter().map(|to| {
        let step = from..*to;
        from = *to;
        step
    });
    steps.collect()
}

/// The first position behind another at which memory is back at a level.
fn back_at(memory: &DeviceMemory, level: &[u64], from: Position, low: Option<u64>) -> Option<Position> {
    let low = low? as f64 * (1.0 + LEVEL);
    let row = (from.row()..=memory.end().row()).find(|row| level[*row] as f64 <= low)?;
    Some(Position(row as u32))
}

/// Where the first step begins: the last moment before its passes are through at which nothing is held that the step frees.
fn first_start(memory: &DeviceMemory, before: Position, end: Position) -> Position {
    let lives = &memory.allocations;
    let mut changes: Vec<(Position, bool)> = Vec::new();
    for id in lives.ids() {
        let (born, freed) = (lives.born()[id.row()], lives.freed()[id.row()]);
        if before <= born {
            break;
        }
        if freed <= end {
            changes.extend([(born, true), (freed, false)]);
        }
    }
    changes.sort_unstable();
    let (mut held, mut start) = (0usize, Position::START);
    for (at, born) in changes {
        if before < at {
            break;
        }
        if born && held == 0 {
            start = Position(at.0.saturating_sub(1));
        }
        held = if born { held + 1 } else { held.saturating_sub(1) };
    }
    start
}

/// Steps between the positions at which memory is as low as it ever is again.
fn low_waters(memory: &DeviceMemory, level: &[u64]) -> Vec<Range<Position>> {
    let lives = &memory.allocations;
    // Behind the last allocation memory only falls: the program ends.
    let Some(last) = lives.born().last().copied().filter(|born| *born != Position::START) else { return Vec::new() };
    let top = level.iter().max().copied().unwrap_or(0);
    let slack = (top as f64 * LEVEL) as u64;
    let mut lows = Vec::new();
    let mut lowest = u64::MAX;
    for row in (0..last.row().min(level.len())).rev() {
        if level[row] <= lowest.saturating_add(slack) {
            lows.push(row);
        }
        lowest = lowest.min(level[row]);
    }
    lows.reverse();
    let rise = (top.saturating_sub(lowest) as f64 * RISE) as u64;
    let mut bounds: Vec<Range<Position>> = Vec::new();
    for pair in lows.windows(2) {
        let highest = level[pair[0]..=pair[1]].iter().max().copied().unwrap_or(0);
        if level[pair[0]].max(level[pair[1]]).saturating_add(rise) < highest {
            bounds.push(Position(pair[0] as u32)..Position(pair[1] as u32));
        }
    }
    // What lies between two excursions belongs to the former.
    for row in 1..bounds.len() {
        bounds[row - 1].end = bounds[row].start;
    }
    let tail = bounds.last().map_or(Position::START, |step| step.end);
    let low = level[tail.row()];
    let highest = level[tail.row()..].iter().max().copied().unwrap_or(0);
    if bounds.last().is_some() && low.saturating_add(rise) < highest {
        bounds.push(tail..back_at(memory, level, last, Some(low)).unwrap_or_else(|| memory.end()));
    }
    if let Some(first) = bounds.first_mut() {
        let peak = (first.start.row()..=first.end.row()).max_by_key(|row| level[*row]).unwrap_or(0);
        first.start = first_start(memory, Position(peak as u32), first.end).min(first.end);
    }
    bounds
}

/// Tells a step's passes apart: by stacks where these tell, else by the peak of what the step frees again.
fn shape(memory: &DeviceMemory, parts: &Parts, bound: Range<Position>, complete: bool) -> Step {
    let lives = &memory.allocations;
    let mut step = Step { from: bound.start, to: bound.end, rounds: Vec::new(), optimizer: bound.end, complete };
    let ids = || (lives.born_by(bound.start)..lives.born_by(bound.end)).map(AllocationId::of_row);
    if !parts.tells(Part::Backward) {
        return if parts.tells(Part::Forward) { step } else { shape_by_peak(memory, step) };
    }
    // Runs of one pass: which, where it begins, how many lives.
    let mut runs: Vec<(Part, Position, usize)> = Vec::new();
    for id in ids() {
        let (part, before) = (parts.of_life(lives, id), Position(lives.born()[id.row()].0.saturating_sub(1)));
        match runs.last_mut().filter(|run| run.0 == part) {
            Some(run) => run.2 += 1,
            None => runs.push((part, before, 1)),
        }
    }
    let last_backward = runs.iter().rposition(|run| run.0 == Part::Backward);
    let Some(last_backward) = last_backward else { return step };
    let behind = runs[last_backward + 1..].iter().find(|run| run.0 == Part::Optimizer);
    let rest = runs.get(last_backward + 1).map(|run| run.1);
    step.optimizer = behind.or(runs.get(last_backward + 1)).map_or(bound.end, |run| run.1);
    // A few lives of other code inside of the backward pass are no forward pass of their own.
    let passes = &runs[..=last_backward];
    let most = passes.iter().filter(|run| run.0 == Part::Forward).map(|run| run.2).max().unwrap_or(0);
    let is_forward = |run: &&(Part, Position, usize)| run.0 == Part::Forward && most <= run.2.saturating_mul(4);
    let mut forward = false;
    for run in passes {
        if is_forward(&run) {
            if !forward {
                let from = if step.rounds.is_empty() { bound.start } else { run.1 };
                step.rounds.push(Round { from, turn: run.1, to: run.1 });
            }
            forward = true;
        } else if run.0 == Part::Backward {
            if step.rounds.is_empty() {
                step.rounds.push(Round { from: bound.start, turn: run.1, to: run.1 });
                forward = true;
            }
            if forward && let Some(round) = step.rounds.last_mut() {
                round.turn = run.1;
            }
            forward = false;
        }
    }
    let ends: Vec<Position> = step.rounds.iter().skip(1).map(|round| round.from).collect();
    let end = rest.unwrap_or(step.optimizer).min(step.optimizer);
    for (round, to) in step.rounds.iter_mut().zip(ends.into_iter().chain([end])) {
        round.to = to;
    }
    step
}

/// A step whose stacks say nothing: forward is up to the peak of what the step frees again; backward is over when nearly all
/// that was born in the first half of forward and held at the peak is given back, for what comes first goes last. Where
/// little is born in it and outlives it, there was no backward pass.
fn shape_by_peak(memory: &DeviceMemory, mut step: Step) -> Step {
    let lives = &memory.allocations;
    let ids: Vec<AllocationId> = (lives.born_by(step.from)..lives.born_by(step.to)).map(AllocationId::of_row).collect();
    let mut changes: Vec<(Position, i128)> = Vec::with_capacity(ids.len() * 2);
    for id in &ids {
        let (born, freed, size) = (lives.born()[id.row()], lives.freed()[id.row()], i128::from(lives.requested()[id.row()]));
        if freed <= step.to {
            changes.extend([(born, size), (freed, -size)]);
        }
    }
    changes.sort_unstable();
    let (mut now, mut peak, mut turn) = (0i128, 0i128, step.from);
    for (at, change) in changes {
        now += change;
        if peak < now {
            (peak, turn) = (now, at);
        }
    }
    let at = |id: &AllocationId| (lives.born()[id.row()], lives.freed()[id.row()], lives.requested()[id.row()]);
    // What is given back behind the last allocation is not waited for: the step's input goes when the next one comes.
    let last = ids.last().map_or(step.to, |id| lives.born()[id.row()]);
    let half = Position(step.from.0.midpoint(turn.0));
    let mut held: Vec<(Position, u64)> = ids
        .iter()
        .map(at)
        .filter(|(born, freed, _)| *born <= half && turn < *freed && *freed <= last)
        .map(|(_, freed, size)| (freed, size))
        .collect();
    held.sort_unstable();
    let all: u64 = held.iter().map(|(_, size)| size).sum();
    let (mut left, mut over) = (all, step.to);
    for (freed, size) in held {
        left -= size;
        if left as f64 <= all as f64 * LEFT {
            over = freed;
            break;
        }
    }
    let kept: u64 =
        ids.iter().map(at).filter(|(born, freed, _)| turn < *born && *born <= over && over < *freed).map(|row| row.2).sum();
    if all == 0 || (kept as f64) < all as f64 * LEVEL {
        return step;
    }
    step.optimizer = over;
    step.rounds.push(Round { from: step.from, turn, to: over });
    step
}

impl Query for Steps {
    const NAME: &'static str = "steps";
    type Params = ();
    type Answer = Steps;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Steps, Cancelled> {
        Steps::of(asked.subject.snapshot, asked.device, progress)
    }
}

impl HeapSize for Steps {
    fn heap_size(&self) -> usize {
        self.rows.capacity() * size_of::<Step>()
            + self.rows.iter().map(|step| step.rounds.capacity() * size_of::<Round>()).sum::<usize>()
    }
}
