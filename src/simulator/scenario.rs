//! A scenario: the settings, the card and the release's rules a recording's requests are served under; and the
//! figures that come out.
//!
//! Always: unless it is to go on, a run stops at the first request that fails where the recording's did not, and at the
//! first that is served where the recording's failed: what the program would have done next is not known.

use crate::base::{Cancelled, Progress};
use crate::model::{AllocationId, AllocatorSettings, EventIdx, Origin};
use crate::simulator::caching::Caching;
use crate::simulator::device::{Placement, Vram};
use crate::simulator::journal::Journal;
use crate::simulator::paged::Paged;
use crate::simulator::policy::{Policy, PolicyKind};
use crate::simulator::request::{Request, RequestStream, Wanted};
use crate::simulator::stream_ordered::StreamOrdered;
use std::sync::Arc;

/// Which of several free blocks of one size is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TieBreak {
    /// The lowest address: up to PyTorch 2.11.
    Address,
    /// The block made first: PyTorch 2.12.
    Block,
    /// The segment made first, then the lowest address: PyTorch 2.13 and later.
    Segment,
}

/// In what the releases of PyTorch differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Which of several free blocks of one size is taken.
    pub tie: TieBreak,
    /// Whether private pools grow in expandable segments too (PyTorch 2.5 and later).
    pub private_expandable: bool,
    /// Whether a memory fraction of 1 is a limit too, and parts of bytes are cut off (PyTorch 2.6 and earlier).
    pub whole_is_limit: bool,
}

impl Rules {
    /// The rules a source may have been recorded under, as far as its keys tell; the likeliest first.
    pub fn of(origin: &Origin) -> Vec<Rules> {
        let release = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        };
        let range = origin.written_by.as_ref();
        let oldest = range.and_then(|range| release(&range.at_least)).unwrap_or((0, 0));
        let newest =
            range.and_then(|range| range.at_most.as_deref().map_or(Some((u32::MAX, 0)), release)).unwrap_or((u32::MAX, 0));
        let (private_expandable, whole_is_limit) = ((2, 5) <= newest, newest <= (2, 6));
        [(TieBreak::Segment, (2, 13), (u32::MAX, 0)), (TieBreak::Block, (2, 12), (2, 12)), (TieBreak::Address, (0, 0), (2, 11))]
            .into_iter()
            .filter(|(_, from, to)| *from <= newest && oldest <= *to)
            .map(|(tie, ..)| Rules { tie, private_expandable, whole_is_limit })
            .collect()
    }
}

/// A figure that rises and falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Its value.
    pub now: u64,
    /// The most it has been.
    pub peak: u64,
}

impl Gauge {
    /// Raises it.
    pub fn add(&mut self, by: u64) {
        self.now = self.now.saturating_add(by);
        self.peak = self.peak.max(self.now);
    }
    /// Lowers it.
    pub fn sub(&mut self, by: u64) {
        self.now = self.now.saturating_sub(by);
    }
}

/// What the allocator counts, in PyTorch's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes taken from the driver.
    pub reserved: Gauge,
    /// Bytes of blocks in use.
    pub allocated: Gauge,
    /// Bytes of blocks in use or waiting for another stream.
    pub active: Gauge,
    /// Bytes the program asked for, over active blocks.
    pub requested: Gauge,
    /// Segments; expandable ones do not count.
    pub segments: Gauge,
    /// Requests for which the cache was given back before they were tried again.
    pub retries: u64,
    /// Requests that failed.
    pub ooms: u64,
    /// Calls that took memory from the driver.
    pub device_allocs: u64,
    /// Calls that gave memory back to it.
    pub device_frees: u64,
}

impl Counters {
    /// Bytes of active blocks that nobody asked for: lost to rounding, to unsplit ends, to last pages.
    pub fn unasked(&self) -> u64 {
        self.active.now.saturating_sub(self.requested.now)
    }
}

/// Which calls of `torch.cuda.empty_cache()` are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EmptyCaches {
    /// Those of the recording.
    #[default]
    Recorded,
    /// None.
    Without,
    /// One after each of these events, in ascending order, and no other: the ends of steps.
    After(Arc<[EventIdx]>),
}

/// What happens when a request fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AtFailure {
    /// The run stops, as the program most likely did.
    #[default]
    Stop,
    /// The run goes on, from there on as if memory had no end: figures are of all that was recorded. Where the recording
    /// failed and its request is served here, the memory is given back at once, for nothing was done with it.
    Endless,
}

/// With what a run begins, where the recording begins mid-run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// With the segments and blocks that were there, at their addresses, whatever the settings.
    #[default]
    Recorded,
    /// With nothing: what is older than the recording is absent, and giving it back does nothing.
    Empty,
}

/// What the requests are served under.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The allocator.
    pub policy: PolicyKind,
    /// Its settings, where it is PyTorch's.
    pub settings: AllocatorSettings,
    /// The release's rules.
    pub rules: Rules,
    /// The most the allocator can hold, bytes; none: no end.
    pub capacity: Option<u64>,
    /// The card's size in bytes, where it is known.
    pub total: Option<u64>,
    /// Where the driver puts new segments.
    pub placement: Placement,
    /// Which calls of `empty_cache()` are made.
    pub empty_caches: EmptyCaches,
    /// What happens when a request fails.
    pub at_failure: AtFailure,
    /// With what the run begins.
    pub start: Start,
}

impl Scenario {
    /// PyTorch's allocator under settings, on a card without end; all else as recorded.
    pub fn new(settings: AllocatorSettings, rules: Rules) -> Scenario {
        Scenario {
            policy: PolicyKind::default(),
            settings,
            rules,
            capacity: None,
            total: None,
            placement: Placement::default(),
            empty_caches: EmptyCaches::default(),
            at_failure: AtFailure::default(),
            start: Start::default(),
        }
    }
}

/// The memory fraction in bytes, where the settings and the card's size tell (`setMemoryFraction`). The whole card is a
/// limit up to PyTorch 2.6 only: one that garbage is collected by.
pub fn limit(settings: &AllocatorSettings, rules: Rules, total: Option<u64>) -> Option<u64> {
    let fraction = settings.per_process_memory_fraction.filter(|fraction| *fraction < 1.0 || rules.whole_is_limit)?;
    let bytes = fraction * total? as f64;
    Some(if rules.whole_is_limit { bytes } else { bytes.round() } as u64)
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its event in the recording.
    pub event: EventIdx,
    /// Bytes it asked for, as PyTorch's own `oom` event says it: rounded as the settings say.
    pub requested: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was counted.
    pub counters: Counters,
    /// The first request that failed.
    pub failure: Option<Failure>,
    /// The recorded failure that was served here: from there on the recording tells nothing.
    pub served_instead: Option<EventIdx>,
}

/// Serves all requests under a scenario.
pub fn simulate(asked: &RequestStream, scenario: &Scenario, progress: &Progress) -> Result<Outcome, Cancelled> {
    progress.stage("simulating", asked.requests.len() as u64)?;
    simulate_as(asked, scenario, AtRecordedFailure::AsScenario, progress)
}

/// What happens where the recording failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtRecordedFailure {
    /// Another failure is as recorded; where it is served, the scenario says how it goes on.
    AsScenario,
    /// It is to be served like all others, and its memory is given back at once.
    ToBeServed,
}

/// As [`simulate`], within a stage of somebody else.
pub(crate) fn simulate_as(
    asked: &RequestStream,
    scenario: &Scenario,
    recorded: AtRecordedFailure,
    progress: &Progress,
) -> Result<Outcome, Cancelled> {
    simulate_telling((), asked, scenario, recorded, progress)
}

/// As [`simulate_as`], telling a journal what happens.
pub(crate) fn simulate_telling(
    journal: impl Journal,
    asked: &RequestStream,
    scenario: &Scenario,
    recorded: AtRecordedFailure,
    progress: &Progress,
) -> Result<Outcome, Cancelled> {
    let driver = Vram::new(scenario.capacity, scenario.total, scenario.placement);
    let limit = limit(&scenario.settings, scenario.rules, scenario.total);
    match scenario.policy {
        PolicyKind::Caching => {
            // One life more, for what was not served in the recording.
            let lives = asked.lives + 1;
            let mut memory = Caching::telling(journal, scenario.settings.clone(), scenario.rules, limit, driver, lives);
            serve(asked, scenario, recorded, &mut memory, progress)
        }
        PolicyKind::StreamOrdered { release_threshold } => {
            serve(asked, scenario, recorded, &mut StreamOrdered::new(journal, release_threshold, driver), progress)
        }
        PolicyKind::Paged { page } => serve(asked, scenario, recorded, &mut Paged::new(journal, page, driver), progress),
    }
}

/// Serves all requests by an allocator.
fn serve(
    asked: &RequestStream,
    scenario: &Scenario,
    recorded: AtRecordedFailure,
    memory: &mut impl Policy,
    progress: &Progress,
) -> Result<Outcome, Cancelled> {
    if let Some(start) = asked.start.as_ref().filter(|_| scenario.start == Start::Recorded) {
        memory.begin(start, scenario.total);
    }
    let failed = |event: &EventIdx, wanted: &Wanted| {
        let requested = if scenario.policy == PolicyKind::Caching { scenario.settings.round(wanted.size) } else { wanted.size };
        Some(Failure { event: *event, requested })
    };
    let ends: &[EventIdx] = if let EmptyCaches::After(events) = &scenario.empty_caches { events } else { &[] };
    let mut ends = ends.iter().peekable();
    let (mut failure, mut served_instead, mut stopped) = (None, None, false);
    let mut waiting = Vec::new();
    for (done, (event, request)) in asked.requests.iter().enumerate() {
        if done.is_multiple_of(1 << 14) {
            progress.at(done as u64)?;
        }
        while let Some(end) = ends.next_if(|end| **end < *event) {
            memory.journal().at(*end);
            memory.give_back(&Request::EmptyCache);
        }
        memory.journal().at(*event);
        match request {
            Request::CompletedInRetry(life) => {
                waiting.push(*life);
                continue;
            }
            // It stands between a retry's frees and the request.
            Request::PoolEnds(_) => {
                memory.give_back(request);
                continue;
            }
            Request::Alloc(life, wanted) => {
                if memory.allocate(Some(*life), wanted, &waiting).is_none() {
                    failure = failure.or(failed(event, wanted));
                    stopped = scenario.at_failure == AtFailure::Stop;
                    if stopped {
                        break;
                    }
                    memory.lift();
                    memory.allocate(Some(*life), wanted, &[]);
                }
            }
            Request::Failed(wanted) => {
                let extra = AllocationId(asked.lives as u32);
                let is_served = memory.allocate(Some(extra), wanted, &waiting).is_some();
                let to_be_served = recorded == AtRecordedFailure::ToBeServed;
                if is_served {
                    served_instead = served_instead.or(Some(*event));
                    stopped = !to_be_served && scenario.at_failure == AtFailure::Stop;
                    if stopped {
                        break;
                    }
                    memory.give_back(&Request::Free(extra));
                } else {
                    failure = failure.or(failed(event, wanted));
                    stopped = to_be_served;
                    if stopped {
                        break;
                    }
                }
            }
            Request::EmptyCache if scenario.empty_caches != EmptyCaches::Recorded => {}
            other => memory.give_back(other),
        }
        waiting.clear();
    }
    for end in ends.filter(|_| !stopped) {
        memory.journal().at(*end);
        memory.give_back(&Request::EmptyCache);
    }
    Ok(Outcome { counters: *memory.counters(), failure, served_instead })
}
