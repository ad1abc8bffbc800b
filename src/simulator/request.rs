//! What the program asked for, in order, without a single recorded address: all that a simulation is fed with, but for
//! the layout that a recording begins with where it begins mid-run.
//!
//! Always: requests stand in the order of their events; a life is asked for once and given back at most once.
//! Frees that were waited for directly in front of the releases of a retry belong to that retry: they come as
//! [`Request::CompletedInRetry`], for they happened after the first search had failed.

use crate::model::{Action, AllocationId, BlockState, DeviceId, EventIdx, Missing, PoolId, Position, Snapshot};
use crate::replay::Replay;
use crate::simulator::layout::Layout;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::Arc;

/// What an allocation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes.
    pub size: u64,
    /// The stream's handle: free blocks are ordered by it.
    pub stream: u64,
    /// The pool it goes to; the routing is taken over from the recording.
    pub pool: PoolId,
    /// The recorded event that asks for it. A request that a change of the job makes again keeps that of the one it copies.
    pub source: EventIdx,
}

/// One thing the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asked for memory, and got it.
    Alloc(AllocationId, Wanted),
    /// Asked for memory, and the recording says it failed.
    Failed(Wanted),
    /// Gave a block back that nothing waited for.
    Free(AllocationId),
    /// Gave a block back that another stream still used.
    FreeRequested(AllocationId),
    /// The other stream was seen to be done.
    FreeCompleted(AllocationId),
    /// The other stream was waited for inside the retry of the next request.
    CompletedInRetry(AllocationId),
    /// Nothing uses a private pool any more: its cache may be released from here on.
    PoolEnds(PoolId),
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
}

/// The requests of one device.
#[derive(Clone, Debug, Default)]
pub struct RequestStream {
    /// Each with the event at which it was over.
    pub requests: Vec<(EventIdx, Request)>,
    /// Number of lives: ids are below.
    pub lives: usize,
    /// What was there before the first of them, where the recording begins mid-run.
    pub start: Option<Arc<Layout>>,
    /// How the job was changed, in words; none: it is the recorded one.
    pub change: Option<Arc<str>>,
}

impl RequestStream {
    /// The requests of a device. `empty_caches` are the runs of releases the program asked for, in order.
    pub fn of(snapshot: &Snapshot, device: DeviceId, empty_caches: &[Range<u32>]) -> RequestStream {
        let memory = &snapshot.devices[device];
        let trace = &memory.trace;
        let start = memory.coverage.lacks(Missing::Start).then(|| {
            let state = Replay::new(memory).state_at(memory, Position::START);
            Arc::new(Layout::of(snapshot, memory, &state))
        });
        let mut asked =
            RequestStream { requests: Vec::with_capacity(trace.len()), lives: memory.allocations.len(), start, change: None };
        let mut retry = Retry { actions: trace.actions(), empty_caches, looked: 0..0, answer: false };
        let mut caches = empty_caches.iter().peekable();
        let mut ends = pool_ends(snapshot, device);
        // What waited when the recording began is given back already.
        let held = asked.start.iter().flat_map(|start| start.active());
        let waited = held.filter(|(_, block)| block.state == BlockState::ActivePendingFree);
        let mut pending: FxHashSet<AllocationId> = waited.filter_map(|(_, block)| block.life).collect();
        let mut skip = None;
        for event in trace.events() {
            if skip.take() == Some(event) {
                continue;
            }
            let wanted = |pool: PoolId| {
                let row = event.0 as usize;
                let stream = snapshot.streams.handle(trace.streams()[row]).cast_unsigned();
                Wanted { size: trace.sizes()[row], stream, pool, source: event }
            };
            match trace.actions()[event.0 as usize] {
                Action::Alloc => {
                    if let Some(life) = memory.subject(event) {
                        let by_segment = || {
                            let segment = memory.allocations.segments()[life.0 as usize];
                            memory.segments.get(segment).map_or(PoolId::DEFAULT, |segment| segment.pool)
                        };
                        let pool = trace.entry(event).pool.unwrap_or_else(by_segment);
                        asked.requests.push((event, Request::Alloc(life, wanted(pool))));
                    }
                }
                Action::Oom => {
                    let pool = trace.entry(event).pool.unwrap_or(PoolId::DEFAULT);
                    asked.requests.push((event, Request::Failed(wanted(pool))));
                }
                Action::FreeRequested => {
                    let Some(life) = memory.subject(event) else { continue };
                    let next = EventIdx(event.0 + 1);
                    let at_once = trace.actions().get(next.0 as usize) == Some(&Action::FreeCompleted)
                        && memory.subject(next) == Some(life);
                    if at_once {
                        skip = Some(next);
                        asked.requests.push((next, Request::Free(life)));
                    } else {
                        pending.insert(life);
                        asked.requests.push((event, Request::FreeRequested(life)));
                    }
                }
                Action::FreeCompleted => {
                    let Some(life) = memory.subject(event) else { continue };
                    let request = match (pending.remove(&life), retry.holds(event.0)) {
                        (false, _) => Request::Free(life),
                        (true, false) => Request::FreeCompleted(life),
                        (true, true) => Request::CompletedInRetry(life),
                    };
                    asked.requests.push((event, request));
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    if let Some(pools) = ends.remove(&event) {
                        asked.requests.extend(pools.into_iter().map(|pool| (event, Request::PoolEnds(pool))));
                    }
                    if caches.next_if(|run| run.end == event.0 + 1).is_some() {
                        asked.requests.push((event, Request::EmptyCache));
                    }
                }
                Action::SegmentAlloc | Action::SegmentMap | Action::Snapshot | Action::Annotate | Action::Unknown => {}
            }
        }
        asked
    }
    /// Sends the requests of some lives to another pool.
    pub fn route(&mut self, chosen: impl Fn(AllocationId) -> bool, pool: PoolId) {
        for (_, request) in &mut self.requests {
            if let Request::Alloc(life, wanted) = request
                && chosen(*life)
            {
                wanted.pool = pool;
            }
        }
    }
}

/// The event at which a private pool first lost a segment: from there on nothing uses it.
fn pool_ends(snapshot: &Snapshot, device: DeviceId) -> FxHashMap<EventIdx, Vec<PoolId>> {
    let mut first: FxHashMap<PoolId, EventIdx> = FxHashMap::default();
    for segment in snapshot.devices[device].segments.as_slice() {
        if segment.pool == PoolId::DEFAULT || segment.died == Position::NEVER {
            continue;
        }
        if let Some(event) = segment.died.event() {
            let known = first.entry(segment.pool).or_insert(event);
            *known = event.min(*known);
        }
    }
    let mut ends: FxHashMap<EventIdx, Vec<PoolId>> = FxHashMap::default();
    for (pool, event) in first {
        ends.entry(event).or_default().push(pool);
    }
    ends
}

/// Tells whether a completed free belongs to a retry; runs of completed frees are looked at once.
struct Retry<'a> {
    actions: &'a [Action],
    empty_caches: &'a [Range<u32>],
    looked: Range<u32>,
    answer: bool,
}

impl Retry<'_> {
    fn holds(&mut self, event: u32) -> bool {
        if !self.looked.contains(&event) {
            let is_free = |action: &&Action| matches!(action, Action::FreeCompleted);
            let end = event + self.actions[event as usize..].iter().take_while(is_free).count() as u32;
            self.looked = event..end;
            let behind = event.checked_sub(1).is_some_and(|before| self.is_retry(before));
            self.answer = behind || self.is_retry(end);
        }
        self.answer
    }
    fn is_retry(&self, event: u32) -> bool {
        let release = matches!(self.actions.get(event as usize), Some(Action::SegmentFree | Action::SegmentUnmap));
        let run = self.empty_caches.partition_point(|run| run.end <= event);
        release && !self.empty_caches.get(run).is_some_and(|run| run.contains(&event))
    }
}
