//! How far the recorded settings reproduce the recording: the allocator run against what the driver answered then.
//!
//! Always: the allocator is told the addresses of new segments and when the driver had nothing left, and nothing else
//! that was recorded; but where the recording begins mid-run, with the layout it begins with, and with which of two equal
//! blocks older than it comes first, as soon as it shows. Where the allocator goes another way, the recorded layout is
//! put in its place and the run goes on.

use crate::base::{Cancelled, Progress};
use crate::model::{Action, AllocatorSettings, DeviceId, DeviceMemory, EventIdx, PoolId, Position, Snapshot, Trace};
use crate::replay::Replay;
use crate::simulator::caching::Caching;
use crate::simulator::device::{Driver, range_size};
use crate::simulator::layout::Layout;
use crate::simulator::policy::Policy;
use crate::simulator::request::{Request, RequestStream};
use crate::simulator::scenario::{Rules, TieBreak, limit};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What the recording ran with.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The allocator's settings.
    pub settings: AllocatorSettings,
    /// The card's size in bytes, where it is known.
    pub total: Option<u64>,
}

/// How well the allocator reproduces a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fidelity {
    /// The rules that reproduce most.
    pub rules: Rules,
    /// Allocations that came to lie at their recorded address.
    pub placed_as_recorded: u64,
    /// Those among them that came to lie there because the recording showed which of two equal blocks, both older than
    /// it, comes first (PyTorch 2.12 and later): nothing else can tell.
    pub taught: u64,
    /// Allocations in all.
    pub allocations: u64,
    /// The first event at which the allocator went another way.
    pub first_divergence: Option<EventIdx>,
}

impl Fidelity {
    /// Runs a recording under its own settings, by each of the rules its keys allow, and keeps the best. Where the
    /// pools of segments that are gone are not recorded, private ones among them are found on the way, and what was
    /// asked is routed to them; where the recording begins mid-run and shows which of its first segments are older, they
    /// are put into that order.
    pub fn of(
        snapshot: &Snapshot,
        device: DeviceId,
        replay: &Replay,
        asked: &mut RequestStream,
        recorded: &Recorded,
        progress: &Progress,
    ) -> Result<Option<Fidelity>, Cancelled> {
        if !snapshot.devices[device].trace.has_pools()
            && let Some(rules) = Rules::of(&snapshot.origin).first()
        {
            find_private_pools(snapshot, device, replay, asked, recorded, *rules, progress)?;
        }
        let mut best: Option<(Fidelity, FxHashMap<u64, u64>)> = None;
        for rules in Rules::of(&snapshot.origin) {
            let found = reproduce(snapshot, device, replay, asked, recorded, rules, progress)?;
            if best.as_ref().is_none_or(|(best, _)| best.placed_as_recorded < found.0.placed_as_recorded) {
                best = Some(found);
            }
        }
        let Some((best, ties)) = best else { return Ok(None) };
        if let Some(start) = asked.start.as_mut().filter(|_| best.rules.tie == TieBreak::Segment && 0 < best.taught) {
            Arc::make_mut(start).rank(&ties);
        }
        Ok(Some(best))
    }
}

/// How many segments are looked at for being of a private pool: captures have few.
const PRIVATE_SEGMENTS: usize = 64;

/// A segment made although the pool had a block that fits belongs to another, private pool, which gets a name of its
/// own; kept only where the recording is then followed further.
fn find_private_pools(
    snapshot: &Snapshot,
    device: DeviceId,
    replay: &Replay,
    asked: &mut RequestStream,
    recorded: &Recorded,
    rules: Rules,
    progress: &Progress,
) -> Result<(), Cancelled> {
    let memory = &snapshot.devices[device];
    let (first, mut named) = (snapshot.pools.len() as u32, 0u32);
    let (mut found, _) = reproduce(snapshot, device, replay, asked, recorded, rules, progress)?;
    'segments: for _ in 0..PRIVATE_SEGMENTS {
        let Some(event) = found.first_divergence else { return Ok(()) };
        let before = event.0.checked_sub(1).map(|before| memory.trace.actions()[before as usize]);
        let Some(life) = memory.subject(event).filter(|_| before == Some(Action::SegmentAlloc)) else { return Ok(()) };
        let row = memory.allocations.segments()[life.0 as usize];
        // Files that name pools name them for the segments that are left.
        let is_named = 1 < first && memory.segments.get(row).is_none_or(|segment| segment.died == Position::NEVER);
        if is_named {
            return Ok(());
        }
        let one_more = named;
        for pool in 0..=one_more {
            let mut tried = asked.clone();
            tried.route(|life| memory.allocations.segments()[life.0 as usize] == row, PoolId(first + pool));
            let (now, _) = reproduce(snapshot, device, replay, &tried, recorded, rules, progress)?;
            if now.first_divergence.is_none_or(|later| event < later) {
                *asked = tried;
                found = now;
                named = named.max(pool + 1);
                continue 'segments;
            }
        }
        return Ok(());
    }
    Ok(())
}

/// How far the allocator goes with the recording, and the numbers of the segments older than it in the order it showed.
fn reproduce(
    snapshot: &Snapshot,
    device: DeviceId,
    replay: &Replay,
    asked: &RequestStream,
    recorded: &Recorded,
    rules: Rules,
    progress: &Progress,
) -> Result<(Fidelity, FxHashMap<u64, u64>), Cancelled> {
    progress.stage("reproducing the recording", asked.requests.len() as u64)?;
    let memory = &snapshot.devices[device];
    let mut found = Fidelity { rules, placed_as_recorded: 0, taught: 0, allocations: 0, first_divergence: None };
    let driver = Tape::new(memory, recorded.total);
    let limit = limit(&recorded.settings, rules, recorded.total);
    let mut allocator = Caching::new(recorded.settings.clone(), rules, limit, driver, asked.lives);
    if let Some(start) = &asked.start {
        allocator.begin(start, recorded.total);
    }
    let mut waiting = Vec::new();
    for (done, (event, request)) in asked.requests.iter().enumerate() {
        if done.is_multiple_of(1 << 14) {
            progress.at(done as u64)?;
        }
        allocator.driver.wind_to(*event);
        let as_recorded = match request {
            Request::CompletedInRetry(life) => {
                waiting.push(*life);
                continue;
            }
            // A pool ends in front of the releases it allows, which belong to a later request.
            Request::PoolEnds(_) => {
                allocator.give_back(request);
                continue;
            }
            Request::Alloc(life, wanted) => {
                let there = memory.allocations.addresses()[life.0 as usize];
                let taught = asked.start.is_some() && allocator.prefer(wanted, there);
                let placed = allocator.allocate(Some(*life), wanted, &waiting) == Some(there);
                found.taught += u64::from(placed && taught);
                found.allocations += 1;
                found.placed_as_recorded += u64::from(placed);
                placed
            }
            Request::Failed(wanted) => allocator.allocate(None, wanted, &waiting).is_none(),
            other => {
                allocator.give_back(other);
                true
            }
        };
        waiting.clear();
        if as_recorded && allocator.driver.was_followed() {
            continue;
        }
        found.first_divergence = found.first_divergence.or(Some(*event));
        allocator.driver.skip_to_end();
        let state = replay.state_at(memory, Position::after(*event));
        allocator.adopt(&Layout::of(snapshot, memory, &state), recorded.total);
    }
    Ok((found, allocator.older_ties))
}

/// What the driver did in the recording, read back in order.
struct Tape<'a> {
    trace: &'a Trace,
    /// The events of segments, in order.
    events: Vec<EventIdx>,
    /// The next of them.
    next: usize,
    /// The first that belongs to a later request.
    end: usize,
    /// Something was given back that was not given back then.
    strayed: bool,
    /// The card's size: reserved ranges follow from it.
    total: Option<u64>,
}

impl<'a> Tape<'a> {
    fn new(memory: &'a DeviceMemory, total: Option<u64>) -> Tape<'a> {
        let trace = &memory.trace;
        let is_of_segment = |event: &EventIdx| {
            matches!(
                trace.actions()[event.0 as usize],
                Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap
            )
        };
        Tape { trace, events: trace.events().filter(is_of_segment).collect(), next: 0, end: 0, strayed: false, total }
    }
    /// Lets the request that was over at this event see what the driver did for it.
    fn wind_to(&mut self, event: EventIdx) {
        while self.events.get(self.end).is_some_and(|next| *next <= event) {
            self.end += 1;
        }
    }
    /// Whether all that the driver did for the request was asked of it again.
    fn was_followed(&self) -> bool {
        self.next == self.end && !self.strayed
    }
    fn skip_to_end(&mut self) {
        (self.next, self.strayed) = (self.end, false);
    }
    /// The next event, if it is of this kind: its address and size.
    fn peek(&self, action: Action) -> Option<(u64, u64)> {
        let row = self.events[self.next..self.end].first()?.0 as usize;
        (self.trace.actions()[row] == action).then(|| (self.trace.addresses()[row], self.trace.sizes()[row]))
    }
    /// Goes on if the next event is this one.
    fn follow(&mut self, action: Action, address: u64, size: u64) -> bool {
        let same = self.peek(action) == Some((address, size));
        self.next += usize::from(same);
        same
    }
}

impl Driver for Tape<'_> {
    fn allocate(&mut self, size: u64, _reserved: u64) -> Option<u64> {
        let (address, recorded) = self.peek(Action::SegmentAlloc)?;
        (recorded == size).then(|| {
            self.next += 1;
            address
        })
    }
    fn release(&mut self, address: u64, size: u64) {
        self.strayed |= !self.follow(Action::SegmentFree, address, size);
    }
    fn reserve(&mut self, granule: u64) -> Option<(u64, u64)> {
        self.peek(Action::SegmentMap).map(|(address, _)| (address, range_size(self.total, granule)))
    }
    fn map(&mut self, address: u64, size: u64, _reserved: u64) -> bool {
        self.follow(Action::SegmentMap, address, size)
    }
    fn unmap(&mut self, address: u64, size: u64) {
        self.strayed |= !self.follow(Action::SegmentUnmap, address, size);
    }
    fn hold(&mut self, _address: u64, _size: u64, _expandable: bool) {}
    fn lift(&mut self) {}
}
