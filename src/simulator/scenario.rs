//! A scenario: the settings, the card and the release's rules a recording's requests are served under; and the
//! figures that come out.
//!
//! Always: a run stops at the first request that fails where the recording's did not, and at the first that is served
//! where the recording's failed: what the program would have done next is not known.

use crate::base::{Cancelled, Progress};
use crate::model::{AllocatorSettings, EventIdx, Origin};
use crate::simulator::caching::Caching;
use crate::simulator::device::Vram;
use crate::simulator::policy::{Policy, PolicyKind};
use crate::simulator::request::{Request, RequestStream};

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
        let private_expandable = (2, 5) <= newest;
        [(TieBreak::Segment, (2, 13), (u32::MAX, 0)), (TieBreak::Block, (2, 12), (2, 12)), (TieBreak::Address, (0, 0), (2, 11))]
            .into_iter()
            .filter(|(_, from, to)| *from <= newest && oldest <= *to)
            .map(|(tie, ..)| Rules { tie, private_expandable })
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
}

impl Scenario {
    /// PyTorch's allocator under settings, on a card without end.
    pub fn new(settings: AllocatorSettings, rules: Rules) -> Scenario {
        Scenario { policy: PolicyKind::Caching, settings, rules, capacity: None, total: None }
    }
}

/// The memory fraction in bytes, where the settings and the card's size tell; the whole card is no limit.
pub fn limit(settings: &AllocatorSettings, total: Option<u64>) -> Option<u64> {
    let fraction = settings.per_process_memory_fraction.filter(|fraction| *fraction < 1.0)?;
    Some((fraction * total? as f64).round() as u64)
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its event in the recording.
    pub event: EventIdx,
    /// Bytes it asked for.
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
    let driver = Vram::new(scenario.capacity, scenario.total);
    let limit = limit(&scenario.settings, scenario.total);
    match scenario.policy {
        PolicyKind::Caching => {
            serve(asked, &mut Caching::new(scenario.settings.clone(), scenario.rules, limit, driver, asked.lives), progress)
        }
    }
}

/// Serves all requests by an allocator.
fn serve(asked: &RequestStream, memory: &mut impl Policy, progress: &Progress) -> Result<Outcome, Cancelled> {
    progress.stage("simulating", asked.requests.len() as u64)?;
    let (mut failure, mut served_instead) = (None, None);
    let mut waiting = Vec::new();
    for (done, (event, request)) in asked.requests.iter().enumerate() {
        if done.is_multiple_of(1 << 14) {
            progress.at(done as u64)?;
        }
        let (wanted, recorded_failure) = match request {
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
                let served = memory.allocate(Some(*life), wanted, &waiting).is_some();
                (if served { None } else { Some(wanted) }, false)
            }
            Request::Failed(wanted) => {
                if memory.allocate(None, wanted, &waiting).is_some() {
                    served_instead = Some(*event);
                    break;
                }
                (Some(wanted), true)
            }
            other => {
                memory.give_back(other);
                (None, false)
            }
        };
        waiting.clear();
        if let Some(wanted) = wanted {
            failure = failure.or(Some(Failure { event: *event, requested: wanted.size }));
            if !recorded_failure {
                break;
            }
        }
    }
    Ok(Outcome { counters: *memory.counters(), failure, served_instead })
}
