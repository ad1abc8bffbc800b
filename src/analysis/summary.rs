//! What is in a recording, in figures: counts, peaks, the states at start, end and every failure.
//!
//! Always: peaks are the first position that reaches them, the state before the first event included;
//! every state is the replay's own, so its sums agree with every other view of that position.

use crate::analysis::gaps::Gaps;
use crate::analysis::query::{Asked, Query};
use crate::analysis::timeline::UsageTimeline;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{Action, DeviceMemory, EventIdx, Position, StackTable, Trace};
use crate::replay::{MemoryState, PoolState, Replay, Totals};
use std::sync::Arc;

/// A state without its layout: the counters PyTorch has, and sums per pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The moment.
    pub position: Position,
    /// Unix time in µs of the event that led here, where recorded.
    pub time_us: Option<i64>,
    /// Sums, in bytes.
    pub totals: Totals,
    /// Free parts of split `cudaMalloc` segments, in bytes.
    pub inactive_split: u64,
    /// The largest gap over all pools, in bytes.
    pub largest_free_block: u64,
    /// Number of segments the file names.
    pub segments: u64,
    /// Number of active blocks.
    pub blocks: u64,
    /// Sums per pool, half and stream.
    pub pools: Arc<[PoolState]>,
}

impl Counters {
    /// The counters of a state.
    pub fn of(state: &MemoryState, trace: &Trace) -> Counters {
        Counters {
            position: state.position,
            time_us: state.position.event().and_then(|event| trace.time_us(event)),
            totals: state.totals,
            inactive_split: state.inactive_split,
            largest_free_block: state.largest_free_block,
            segments: state.segments.iter().filter(|segment| !segment.inferred).count() as u64,
            blocks: state.active_blocks,
            pools: state.pools.as_slice().into(),
        }
    }
    /// The counters of many positions, ascending, from one walk over the lives: what a state costs does not count for
    /// each of them.
    pub fn at_all(memory: &DeviceMemory, positions: &[Position], progress: &Progress) -> Result<Vec<Counters>, Cancelled> {
        let mut wanted = positions.iter().copied().peekable();
        let mut found = Vec::with_capacity(positions.len());
        let mut gaps = Gaps::new(memory);
        gaps.follow(progress, |position, _, gaps, sums| {
            while wanted.next_if(|wanted| *wanted <= position).is_some() {
                let pools = gaps.keys.iter().zip(&gaps.pools).filter(|(_, pool)| 0 < pool.segments);
                let pools = pools.map(|((pool, class, stream), sums)| PoolState {
                    pool: *pool,
                    class: *class,
                    stream: *stream,
                    reserved: sums.reserved,
                    active: sums.active,
                    free: sums.free,
                    largest_free_block: sums.largest_free_block(),
                    segments: sums.segments,
                });
                found.push(Counters {
                    position,
                    time_us: position.event().and_then(|event| memory.trace.time_us(event)),
                    totals: Totals {
                        reserved: gaps.reserved,
                        allocated: sums.allocated(),
                        active: sums.active(),
                        requested: sums.requested(),
                    },
                    inactive_split: gaps.inactive_split,
                    largest_free_block: gaps.largest_free_block(),
                    segments: gaps.named_segments(),
                    blocks: gaps.active_blocks(),
                    pools: pools.collect(),
                });
            }
        })?;
        Ok(found)
    }
}

/// The most a counter ever held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The first position that reaches it.
    pub position: Position,
    /// Its value.
    pub bytes: u64,
}

/// One failed allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomEvent {
    /// The event.
    pub event: EventIdx,
    /// Bytes wanted, as the event says.
    pub requested: u64,
    /// Bytes the device had left, as the event says.
    pub device_free: u64,
    /// The counters at it.
    pub state: Counters,
}

/// What one device's recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of events.
    pub events: u64,
    /// How many of each action, those that occur, in PyTorch's order; unknown actions by the file's name, last.
    pub events_by_action: Vec<(String, u64)>,
    /// Block lives, those older than the trace included.
    pub allocations: u64,
    /// Frees whose allocation the trace does not hold.
    pub unmatched_frees: u64,
    /// Lives older than the trace.
    pub born_before: u64,
    /// Lives without a stack.
    pub without_stack: u64,
    /// First and last recorded Unix time in µs.
    pub time_us: Option<(i64, i64)>,
    /// Before the first event.
    pub start: Counters,
    /// After the last event.
    pub end: Counters,
    /// Most reserved.
    pub peak_reserved: Peak,
    /// Most allocated.
    pub peak_allocated: Peak,
    /// Most active.
    pub peak_active: Peak,
    /// Most requested.
    pub peak_requested: Peak,
    /// Failures, in order.
    pub ooms: Vec<OomEvent>,
}

impl Summary {
    /// Sums up one device.
    pub fn of(
        memory: &DeviceMemory,
        replay: &Replay,
        stacks: &StackTable,
        timeline: &UsageTimeline,
        progress: &Progress,
    ) -> Result<Summary, Cancelled> {
        let counters_at = |position| Counters::of(&replay.state_at(memory, position), &memory.trace);
        let peak = |curve: &crate::analysis::Curve| {
            let (position, bytes) = curve.peak();
            Peak { position, bytes }
        };
        let lives = &memory.allocations;
        let mut ooms: Vec<OomEvent> = Vec::with_capacity(memory.trace.ooms().len());
        // Where memory fails again and again, one walk is less than as many states.
        let places: Vec<Position> = memory.trace.ooms().iter().map(|event| Position::after(*event)).collect();
        let known = if places.len() <= MOST_STATES { Vec::new() } else { Counters::at_all(memory, &places, progress)? };
        let mut known = known.into_iter();
        for event in memory.trace.ooms() {
            progress.check()?;
            let entry = memory.trace.entry(*event);
            let position = Position::after(*event);
            // A job that tries again and again fails in one and the same state.
            let state = match ooms.last() {
                _ if MOST_STATES < places.len() => known.next().unwrap_or_default(),
                Some(OomEvent { event: last, state, .. })
                    if position < memory.end() && is_still(&memory.trace, *last, *event) =>
                {
                    Counters { position, time_us: memory.trace.time_us(*event), ..state.clone() }
                }
                _ => counters_at(position),
            };
            ooms.push(OomEvent { event: *event, requested: entry.size, device_free: entry.address, state });
        }
        Ok(Summary {
            events: memory.trace.len() as u64,
            events_by_action: count_actions(&memory.trace, stacks),
            allocations: lives.len() as u64,
            unmatched_frees: memory.unmatched_frees,
            born_before: lives.born_by(Position::START) as u64,
            without_stack: lives.stacks().iter().filter(|stack| stacks.frames(**stack).is_empty()).count() as u64,
            time_us: memory.trace.time_span_us(),
            start: counters_at(Position::START),
            end: counters_at(memory.end()),
            peak_reserved: peak(&timeline.reserved),
            peak_allocated: peak(&timeline.allocated),
            peak_active: peak(&timeline.active),
            peak_requested: peak(&timeline.requested),
            ooms,
        })
    }
}

/// Failures up to so many are looked at one by one.
const MOST_STATES: usize = 200;

/// Whether no event from `first` to `last` changes memory.
fn is_still(trace: &Trace, first: EventIdx, last: EventIdx) -> bool {
    let still = [Action::Oom, Action::Snapshot, Action::Annotate, Action::Unknown];
    trace.actions()[first.0 as usize..=last.0 as usize].iter().all(|action| still.contains(action))
}

/// Counts events by action; an unknown action goes by the name that the trace keeps as an extra.
fn count_actions(trace: &Trace, stacks: &StackTable) -> Vec<(String, u64)> {
    let mut known = [0u64; Action::KNOWN.len() + 1];
    for action in trace.actions() {
        known[*action as usize] += 1;
    }
    let mut counts: Vec<(String, u64)> = Action::KNOWN
        .iter()
        .map(|action| (action.name().to_owned(), known[*action as usize]))
        .filter(|(_, count)| 0 < *count)
        .collect();
    let mut unnamed = known[Action::Unknown as usize];
    if 0 < unnamed {
        let mut named = std::collections::BTreeMap::<&str, u64>::new();
        for extra in trace.extras.iter().filter(|extra| stacks.strings.get(extra.key) == "action") {
            *named.entry(stacks.strings.get(extra.value)).or_default() += 1;
            unnamed = unnamed.saturating_sub(1);
        }
        if 0 < unnamed {
            *named.entry(Action::Unknown.name()).or_default() += unnamed;
        }
        counts.extend(named.into_iter().map(|(name, count)| (name.to_owned(), count)));
    }
    counts
}

impl Query for Summary {
    const NAME: &'static str = "summary";
    type Params = ();
    type Answer = Summary;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Summary, Cancelled> {
        let timeline = UsageTimeline::of(asked.memory(), progress)?;
        Summary::of(asked.memory(), asked.replay(), &asked.subject.snapshot.stacks, &timeline, progress)
    }
}

impl HeapSize for Summary {
    fn heap_size(&self) -> usize {
        let pools = |counters: &Counters| size_of_val(&*counters.pools);
        pools(&self.start)
            + pools(&self.end)
            + self.ooms.iter().map(|oom| pools(&oom.state) + size_of::<OomEvent>()).sum::<usize>()
            + self.events_by_action.iter().map(|(name, _)| name.capacity() + 32).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extra, StackId, StreamId, TraceEntry};

    #[test]
    fn unknown_actions_are_counted_by_the_name_in_the_file() {
        let mut stacks = StackTable::default();
        let (key, name) = (stacks.strings.intern("action"), stacks.strings.intern("segment_swap"));
        let mut trace = Trace::default();
        for action in [Action::Oom, Action::Unknown, Action::Alloc, Action::Unknown, Action::Alloc, Action::Unknown] {
            let (stream, stack) = (StreamId::DEFAULT, StackId::ABSENT);
            let (time_us, pool, compile_context, user_metadata) = (None, None, None, None);
            trace.push(TraceEntry { action, address: 0, size: 0, stream, time_us, stack, pool, compile_context, user_metadata });
        }
        trace.extras = [1, 3].map(|event| Extra { event: EventIdx(event), key, value: name }).to_vec();
        let counts = [("alloc", 2), ("oom", 1), ("segment_swap", 2), ("unknown", 1)];
        assert_eq!(count_actions(&trace, &stacks), counts.map(|(name, count)| (name.to_owned(), count)));
    }
}
