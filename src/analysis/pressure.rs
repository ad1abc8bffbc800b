//! Why memory went back to the driver, and what that cost: retries of failed `cudaMalloc`s, garbage collection, large
//! blocks released for one request, `empty_cache()`; and how much of it was taken from the driver again.
//!
//! The runs of releases are those of [`Releases`]; here those made for an allocation are told apart by what each may
//! release (`CUDACachingAllocator.cpp`). A retry gives back all that is free in the default pools. Garbage is collected
//! from the large pool alone, and blocks over `max_split_size` are released until the request is covered: what stays
//! free after such a run says that it was no retry. A failed allocation was always retried, whether or not anything
//! was left to release.
//!
//! Always: runs come in order and hold every release of the trace; each failure has its retry.

use crate::analysis::query::{Asked, Query};
use crate::analysis::releases::{Release, ReleaseReason, Releases};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{
    Action, AllocatorSettings, BlockState, DeviceMemory, EventIdx, PoolId, Position, Segment, SizeClass, Snapshot, Trace,
};
use crate::replay::Replay;
use std::ops::Range;

/// What made the allocator give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseCause {
    /// The program asked for it: `torch.cuda.empty_cache()`, or a pool of its own that ended.
    EmptyCache,
    /// A `cudaMalloc` failed: the whole cache was given back and it was tried again.
    Retry,
    /// `garbage_collection_threshold`: blocks that were long unused went before the driver was asked.
    Collection,
    /// `max_split_size_mb`: a `cudaMalloc` failed, and large blocks that cover the request went first.
    Oversize,
}

/// What was taken from the driver again after a release, before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regained {
    /// Number of segments or ranges.
    pub count: u32,
    /// Bytes, at most what was released.
    pub bytes: u64,
    /// The event with which all that was released had been taken again, if it was.
    pub complete: Option<EventIdx>,
    /// Time in µs that passed at the events that took it: from the event before each to it. The driver took no
    /// more than this; the program's own work in between is in it. None where events carry no time.
    pub at_most_us: Option<u64>,
}

/// Memory given back to the driver for one reason, or in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureRelease {
    /// The first release, and the event behind the last one; empty, at the failure, where a retry found nothing to release.
    pub events: Range<u32>,
    /// Why.
    pub cause: ReleaseCause,
    /// Whether nothing else can have made it; a retry may have been a garbage collection that left nothing.
    pub certain: bool,
    /// Number of releases.
    pub count: u32,
    /// What was given back, in bytes.
    pub bytes: u64,
    /// The allocation, or its failure, for which it was done; none for `empty_cache()`.
    pub request: Option<EventIdx>,
    /// Whether that allocation failed all the same.
    pub failed: bool,
    /// Time in µs from the first to the last release, where events carry times: the driver took at least this.
    pub at_least_us: Option<u64>,
    /// What was taken from the driver again.
    pub regained: Regained,
}

impl PressureRelease {
    /// The position from which it is over.
    pub fn end(&self) -> Position {
        if self.events.is_empty() { Position(self.events.end.saturating_add(1)) } else { Position(self.events.end) }
    }
}

/// All releases of a device and why they happened, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// In order of events.
    pub releases: Vec<PressureRelease>,
}

impl Pressure {
    /// Finds them.
    pub fn of(snapshot: &Snapshot, memory: &DeviceMemory, replay: &Replay, progress: &Progress) -> Result<Pressure, Cancelled> {
        let settings = &snapshot.settings;
        let start = memory.segments.as_slice().iter().filter(|s| s.exists_at(Position::START) && !s.inferred).map(|s| s.size);
        let start = start.fold(0, u64::saturating_add);
        let runs = Releases::of(memory, replay, settings, &snapshot.stacks, progress)?.runs;
        let mut releases: Vec<PressureRelease> = Vec::with_capacity(runs.len());
        let mut most_reserved = None;
        for run in &runs {
            progress.check()?;
            let request = if run.reason == ReleaseReason::Retry { follower(&memory.trace, run.events.end) } else { None };
            let (cause, certain) = match request {
                None => (ReleaseCause::EmptyCache, true),
                Some(request) => {
                    let most = || *most_reserved.get_or_insert_with(|| most_ever_reserved(&memory.trace, start));
                    cause(memory, replay, settings, run, request, most)
                }
            };
            releases.push(PressureRelease { certain, ..release(&memory.trace, run, cause, request) });
        }
        add_vain_retries(&memory.trace, &mut releases);
        regain(&memory.trace, &mut releases);
        Ok(Pressure { releases })
    }
    /// Those of one cause, in order.
    pub fn of_cause(&self, cause: ReleaseCause) -> impl Iterator<Item = &PressureRelease> {
        self.releases.iter().filter(move |release| release.cause == cause)
    }
    /// PyTorch's `num_alloc_retries` at a position, from the recording's start; none where retries cannot be told for
    /// certain.
    pub fn retries_until(&self, position: Position) -> Option<u64> {
        let retries = || self.of_cause(ReleaseCause::Retry).filter(|release| release.end() <= position);
        retries().all(|retry| retry.certain).then(|| retries().count() as u64)
    }
}

fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}

/// The allocation or failure that comes next, with only releases and growth between.
fn follower(trace: &Trace, from: u32) -> Option<EventIdx> {
    let rest = trace.actions().get(from as usize..)?;
    let place = rest.iter().position(|action| !is_release(*action) && !is_growth(*action))?;
    matches!(rest[place], Action::Alloc | Action::Oom).then_some(EventIdx(from + place as u32))
}

/// The most that was ever reserved, in bytes; `start` is what was before the first event.
fn most_ever_reserved(trace: &Trace, start: u64) -> u64 {
    let (mut now, mut most) = (start, start);
    for (action, size) in trace.actions().iter().zip(trace.sizes()) {
        if is_growth(*action) {
            now = now.saturating_add(*size);
            most = most.max(now);
        } else if is_release(*action) {
            now = now.saturating_sub(*size);
        }
    }
    most
}

fn release(trace: &Trace, run: &Release, cause: ReleaseCause, request: Option<EventIdx>) -> PressureRelease {
    let time = |event: u32| trace.time_us(EventIdx(event));
    let span = time(run.events.start).zip(time(run.events.end.saturating_sub(1)));
    PressureRelease {
        events: run.events.clone(),
        cause,
        certain: true,
        count: run.count,
        bytes: run.bytes,
        request,
        failed: request.is_some_and(|request| trace.actions()[request.0 as usize] == Action::Oom),
        at_least_us: span.map(|(first, last)| u64::try_from(last.saturating_sub(first)).unwrap_or(0)),
        regained: Regained::default(),
    }
}

/// Which step of an allocation made a run of releases, and whether that is certain.
fn cause(
    memory: &DeviceMemory,
    replay: &Replay,
    settings: &AllocatorSettings,
    run: &Release,
    request: EventIdx,
    most_reserved: impl FnOnce() -> u64,
) -> (ReleaseCause, bool) {
    let collects = 0.0 < settings.garbage_collection_threshold;
    if !collects && settings.max_split_size.is_none() {
        return (ReleaseCause::Retry, true);
    }
    let (trace, entry) = (&memory.trace, memory.trace.entry(request));
    let size = settings.round(entry.size);
    let released = || memory.segments.as_slice().iter().filter(|s| run.events.start < s.died.0 && s.died.0 <= run.events.end);
    if let Some(limit) = settings.max_split_size {
        let (pool, need) = (entry.pool.unwrap_or(PoolId::DEFAULT), limit.max(size));
        let own = |s: &Segment| s.pool == pool && s.stream == entry.stream && !s.expandable && limit <= s.size;
        // It stops as soon as the request is covered; a retry goes on.
        let last = run.events.end.checked_sub(1).map_or(0, |last| trace.sizes()[last as usize]);
        let just_covers = need <= run.bytes && run.bytes - last.min(run.bytes) < need;
        if released().all(own) && just_covers && AllocatorSettings::class(size) == SizeClass::Large {
            return (ReleaseCause::Oversize, true);
        }
    }
    let collectable = collects && released().all(|s| s.pool == PoolId::DEFAULT && s.class == SizeClass::Large && !s.expandable);
    if !collectable {
        return (ReleaseCause::Retry, true);
    }
    // A retry leaves nothing in the default pools that could still go, and happens only where there is no room.
    let after = replay.state_at(memory, Position(run.events.end));
    let is_left = after.segments.iter().any(|segment| {
        let whole = after.blocks_of(segment).iter().all(|block| block.state == BlockState::Inactive);
        segment.pool == PoolId::DEFAULT && !segment.expandable && !segment.inferred && whole
    });
    let grown: u64 = (run.events.end..request.0)
        .filter(|event| is_growth(trace.actions()[*event as usize]))
        .map(|event| trace.sizes()[event as usize])
        .fold(0, u64::saturating_add);
    let before = after.totals.reserved.saturating_add(run.bytes);
    if is_left || (0 < grown && before.saturating_add(grown) <= most_reserved()) {
        return (ReleaseCause::Collection, true);
    }
    (ReleaseCause::Retry, trace.actions()[request.0 as usize] == Action::Oom)
}

/// Adds the retries of failures that had nothing to release.
fn add_vain_retries(trace: &Trace, releases: &mut Vec<PressureRelease>) {
    for oom in trace.ooms() {
        let known = |release: &PressureRelease| release.cause == ReleaseCause::Retry && release.request == Some(*oom);
        let place = releases.partition_point(|release| release.events.end <= oom.0);
        // Its own releases stand directly before it.
        if releases[..place].iter().rev().take(4).any(known) {
            continue;
        }
        let vain = PressureRelease {
            events: oom.0..oom.0,
            cause: ReleaseCause::Retry,
            certain: true,
            count: 0,
            bytes: 0,
            request: Some(*oom),
            failed: true,
            at_least_us: None,
            regained: Regained::default(),
        };
        releases.insert(place, vain);
    }
}

/// Counts what came back after each release, until the next that released anything.
fn regain(trace: &Trace, releases: &mut [PressureRelease]) {
    let starts: Vec<u32> = releases.iter().filter(|release| 0 < release.count).map(|release| release.events.start).collect();
    let ends = starts.into_iter().skip(1).chain([trace.len() as u32]);
    for (release, end) in releases.iter_mut().filter(|release| 0 < release.count).zip(ends) {
        let mut regained = Regained { at_most_us: trace.has_times().then_some(0), ..Regained::default() };
        let after = release.events.end as usize;
        for event in (after..end as usize).filter(|event| is_growth(trace.actions()[*event])) {
            if release.bytes <= regained.bytes {
                break;
            }
            let event = EventIdx(event as u32);
            regained.count += 1;
            regained.bytes = regained.bytes.saturating_add(trace.sizes()[event.0 as usize]).min(release.bytes);
            if regained.bytes == release.bytes {
                regained.complete = Some(event);
            }
            let times = event.0.checked_sub(1).and_then(|before| trace.time_us(EventIdx(before))).zip(trace.time_us(event));
            let took = times.map(|(before, at)| u64::try_from(at.saturating_sub(before)).unwrap_or(0));
            regained.at_most_us = regained.at_most_us.zip(took).map(|(sum, took)| sum.saturating_add(took));
        }
        release.regained = regained;
    }
}

impl Query for Pressure {
    const NAME: &'static str = "pressure";
    type Params = ();
    type Answer = Pressure;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Pressure, Cancelled> {
        Pressure::of(asked.subject.snapshot, asked.memory(), asked.replay(), progress)
    }
}

impl HeapSize for Pressure {
    fn heap_size(&self) -> usize {
        let Self { releases } = self;
        releases.capacity() * size_of::<PressureRelease>()
    }
}
