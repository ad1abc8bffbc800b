//! Memory given back to the driver: runs of releases, and why each happened.
//!
//! Nothing in a recording names `empty_cache()`. What tells (see `c10/cuda/CUDACachingAllocator.cpp`): releases that no
//! allocation follows were not made for one. Where one follows, a release made inside it carries its stack, since
//! PyTorch 2.3; before, and without stacks, a cache that could have served the request, or room for it under the most
//! that was ever reserved, show that the releases were not made for its sake. Where garbage is collected, room shows
//! nothing of releases that may be garbage.
//!
//! Always: runs come in order, do not overlap and hold every `segment_free` and `segment_unmap` of the trace.

use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::settings::SMALL_SEGMENT;
use crate::model::{
    Action, AllocatorSettings, BlockState, DeviceMemory, EventIdx, PoolId, Position, SizeClass, StackId, StackTable, StreamId,
    Trace,
};
use crate::replay::Replay;
use std::ops::Range;

/// Why memory was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// The program asked for it: `torch.cuda.empty_cache()`, or a pool of its own that ended.
    EmptyCache,
    /// An allocation did not fit: the allocator gave back its cache and tried again (or collected garbage).
    Retry,
}

/// A run of releases without anything else between them but frees that were waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The first release, and the event behind the last one.
    pub events: Range<u32>,
    /// Why.
    pub reason: ReleaseReason,
    /// How many releases.
    pub count: u32,
    /// What was given back, bytes.
    pub bytes: u64,
}

/// All runs of releases of a device, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Releases {
    /// The runs.
    pub runs: Vec<Release>,
}

impl Releases {
    /// Finds the runs of a device. States are only looked at where no stack tells.
    pub fn of(
        memory: &DeviceMemory,
        replay: &Replay,
        settings: &AllocatorSettings,
        stacks: &StackTable,
        progress: &Progress,
    ) -> Result<Releases, Cancelled> {
        let trace = &memory.trace;
        progress.stage("looking for releases", trace.len() as u64)?;
        let mut runs: Vec<Release> = Vec::new();
        let mut most_reserved = None;
        let told = stacks_tell(trace, settings, stacks);
        let (mut at, end) = (0u32, trace.len() as u32);
        while at < end {
            if at.is_multiple_of(1 << 16) {
                progress.at(u64::from(at))?;
            }
            if !is_release(trace.actions()[at as usize]) {
                at += 1;
                continue;
            }
            let mut run = run_from(trace, at, told);
            let (first, follower) = (EventIdx(at), follower(trace, run.events.end));
            at = run.events.end;
            if let Some(follower) = follower {
                progress.check()?;
                let (own, its) = (trace.stacks()[first.0 as usize], trace.stacks()[follower.0 as usize]);
                run.reason = match (told, own == its) {
                    (true, true) => ReleaseReason::Retry,
                    (true, false) => ReleaseReason::EmptyCache,
                    (false, _) => {
                        let most = *most_reserved.get_or_insert_with(|| most_ever_reserved(memory));
                        reason_by_state(memory, replay, settings, most, &run, follower)
                    }
                };
            }
            runs.push(run);
        }
        Ok(Releases { runs })
    }
    /// The runs the program asked for, in order.
    pub fn empty_caches(&self) -> impl Iterator<Item = &Release> {
        self.runs.iter().filter(|run| run.reason == ReleaseReason::EmptyCache)
    }
}

fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

/// The run that begins with a release; it ends where something else happens, or where somebody else releases (`told`:
/// stacks say who does).
fn run_from(trace: &Trace, first: u32, told: bool) -> Release {
    let mut run = Release { events: first..first, reason: ReleaseReason::EmptyCache, count: 0, bytes: 0 };
    let stack = trace.stacks()[first as usize];
    for event in first as usize..trace.len() {
        match trace.actions()[event] {
            action if is_release(action) && (!told || trace.stacks()[event] == stack) => {
                run.events.end = event as u32 + 1;
                run.count += 1;
                run.bytes = run.bytes.saturating_add(trace.sizes()[event]);
            }
            _ => break,
        }
    }
    run
}

/// The allocation that comes next, or its failure, with only releases and growth between.
fn follower(trace: &Trace, from: u32) -> Option<EventIdx> {
    for event in from as usize..trace.len() {
        match trace.actions()[event] {
            Action::Alloc | Action::Oom => return Some(EventIdx(event as u32)),
            Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap => {}
            Action::FreeRequested | Action::FreeCompleted | Action::Snapshot | Action::Annotate | Action::Unknown => {
                return None;
            }
        }
    }
    None
}

/// Whether releases carry the stack of who released: since PyTorch 2.3, which states its settings too, and only where
/// stacks were recorded at all. Before, a release carries the stack of its segment's creation.
fn stacks_tell(trace: &Trace, settings: &AllocatorSettings, stacks: &StackTable) -> bool {
    // A trace that has stacks has some early on.
    let some = trace.stacks().iter().take(100_000).any(|stack| *stack != StackId::ABSENT && !stacks.frames(*stack).is_empty());
    settings.stated && some
}

/// The most that was ever reserved, bytes.
pub fn most_ever_reserved(memory: &DeviceMemory) -> u64 {
    let mut changes: Vec<(Position, bool, u64)> = Vec::new();
    for segment in memory.segments.as_slice().iter().filter(|segment| !segment.inferred && segment.born < segment.died) {
        changes.push((segment.born, true, segment.size));
        changes.push((segment.died, false, segment.size));
    }
    // At one position what goes goes first.
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, 0u64);
    for (_, grows, size) in changes {
        now = if grows { now.saturating_add(size) } else { now.saturating_sub(size) };
        most = most.max(now);
    }
    most
}

/// What the state before the run says: whether the allocation that follows needed it.
fn reason_by_state(
    memory: &DeviceMemory,
    replay: &Replay,
    settings: &AllocatorSettings,
    most_reserved: u64,
    run: &Release,
    follower: EventIdx,
) -> ReleaseReason {
    let entry = memory.trace.entry(follower);
    let size = settings.round(entry.size);
    let class = AllocatorSettings::class(size);
    let before = replay.state_at(memory, Position(run.events.start));
    let serves = |pool: PoolId, half: SizeClass, stream: StreamId| {
        pool == entry.pool.unwrap_or(PoolId::DEFAULT) && half == class && stream == entry.stream
    };
    let own = before.segments.iter().filter(|segment| serves(segment.pool, segment.class, segment.stream));
    let free = own.flat_map(|segment| before.blocks_of(segment)).filter(|block| block.state == BlockState::Inactive);
    let smallest = free.map(|block| block.size).filter(|free| size <= *free).min();
    let fits = smallest.is_some_and(|free| settings.may_take(size, free));
    let growth: u64 = (run.events.end..follower.0)
        .filter(|event| matches!(memory.trace.actions()[*event as usize], Action::SegmentAlloc | Action::SegmentMap))
        .map(|event| memory.trace.sizes()[event as usize])
        .sum();
    let need = if 0 < growth { growth } else { size };
    let had_room = before.totals.reserved.saturating_add(need) <= most_reserved;
    // Garbage is collected before memory runs out, but large segments only.
    let mut released = run.events.clone().map(|event| event as usize);
    let is_large = |event| memory.trace.actions()[event] == Action::SegmentFree && SMALL_SEGMENT < memory.trace.sizes()[event];
    let may_be_garbage = 0.0 < settings.garbage_collection_threshold && released.all(is_large);
    if fits || (had_room && !may_be_garbage) { ReleaseReason::EmptyCache } else { ReleaseReason::Retry }
}

impl Query for Releases {
    const NAME: &'static str = "releases";
    type Params = ();
    type Answer = Releases;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Releases, Cancelled> {
        let snapshot = asked.subject.snapshot;
        Releases::of(asked.memory(), asked.replay(), &snapshot.settings, &snapshot.stacks, progress)
    }
}

impl HeapSize for Releases {
    fn heap_size(&self) -> usize {
        let Self { runs } = self;
        runs.capacity() * size_of::<Release>()
    }
}
