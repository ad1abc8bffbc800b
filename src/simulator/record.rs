//! A simulated run as a snapshot of its own, so that all that reads recordings reads it.
//!
//! Always: what the snapshot counts is what the run counted. Each event carries the stack, the time and the notes of the
//! recorded event it stems from; growth and releases inside an allocation carry that allocation's. A life that a change of
//! the job makes again carries the stacks of the life it copies, at the time of the event it stands behind.

use crate::base::id::Id as _;
use crate::base::{Cancelled, Progress, RangeMap, grouped};
use crate::model::{
    Action, AllocationId, AllocatorSettings, BlockState, DeviceId, DeviceMemory, EventIdx, Extra, Origin, OriginKind, PoolId,
    Pools, Position, SizeClass, Snapshot, StackId, Streams, Trace, TraceEntry, WarningKind,
};
use crate::replay::builder::DeviceRecord;
use crate::replay::{BlockRecord, SegmentRecord, SnapshotBuilder};
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::policy::{POLICIES, PolicyKind};
use crate::simulator::request::{Request, RequestStream};
use crate::simulator::scenario::{AtRecordedFailure, Outcome, Scenario, Start, simulate_telling};
use rustc_hash::FxHashMap;

/// Serves all requests of a device under a scenario, as [`simulate`](crate::simulator::simulate) does, and keeps a record:
/// a snapshot with that device alone, of the kind [`OriginKind::Simulation`].
pub fn record(
    snapshot: &Snapshot,
    device: DeviceId,
    asked: &RequestStream,
    scenario: &Scenario,
    progress: &Progress,
) -> Result<(Outcome, Snapshot), Cancelled> {
    let recorded = &snapshot.devices[device];
    let mut builder = SnapshotBuilder::default();
    builder.stacks = snapshot.stacks.clone();
    builder.streams = snapshot.streams.clone();
    builder.pools = snapshot.pools.clone();
    builder.settings = AllocatorSettings { stated: true, ..scenario.settings.clone() };
    progress.stage("simulating", asked.requests.len() as u64)?;
    let mut recorder = Recorder::new(recorded, asked, scenario, &mut builder.streams, &mut builder.pools);
    let outcome = simulate_telling(&mut recorder, asked, scenario, AtRecordedFailure::AsScenario, progress)?;
    let stopped = outcome.failure.map(|failure| failure.event).filter(|event| recorder.now == Some(*event));
    if stopped.or(outcome.served_instead.filter(|event| recorder.now == Some(*event))).is_none() {
        recorder.carry_until(recorded.trace.len() as u32);
    }
    *builder.device(recorded.ordinal) = recorder.finish();
    builder.warnings.push(WarningKind::Note, || about(&outcome, asked, scenario));
    let mut simulated = builder.finish(origin(&snapshot.origin, asked, scenario), progress)?;
    for memory in simulated.devices.as_mut_slice() {
        memory.annotations.clone_from(&recorded.annotations);
    }
    Ok((outcome, simulated))
}

/// What a scenario is called: its settings string, or the model's name.
pub fn name_of(scenario: &Scenario) -> String {
    if scenario.policy != PolicyKind::Caching {
        return POLICIES.iter().find(|info| info.kind == scenario.policy).map_or("another model", |info| info.name).to_owned();
    }
    let conf = &scenario.settings.conf;
    if conf.is_empty() { "PyTorch's defaults".to_owned() } else { conf.clone() }
}

fn origin(recorded: &Origin, asked: &RequestStream, scenario: &Scenario) -> Origin {
    let changed = asked.change.as_ref().map_or(String::new(), |change| format!(", {change}"));
    Origin {
        name: format!("{}{changed}, {}", recorded.name, name_of(scenario)),
        bytes: 0,
        format: "simulation".to_owned(),
        kind: OriginKind::Simulation,
        written_by: recorded.written_by.clone(),
    }
}

/// What a reader of the snapshot must know.
fn about(outcome: &Outcome, asked: &RequestStream, scenario: &Scenario) -> String {
    let event = |event: EventIdx| grouped(u64::from(event.0));
    let mut about = format!("simulated from a recording, under {}", name_of(scenario));
    if let Some(change) = &asked.change {
        about += &format!("; the job is changed: {change}");
    }
    if asked.start.is_some() {
        about += match scenario.start {
            Start::Recorded => "; it begins mid-run, with the recorded layout whatever the settings",
            Start::Empty => "; the recording begins mid-run, and what is older than it is absent here",
        };
    }
    match (outcome.failure, outcome.served_instead) {
        (Some(failure), _) => about += &format!("; out of memory at event {} of the recording", event(failure.event)),
        (None, Some(served)) => about += &format!("; it serves what failed at event {} of the recording", event(served)),
        (None, None) => {}
    }
    about
}

/// A block in use.
#[derive(Clone, Copy)]
struct Held {
    given: Given,
    pending: bool,
    stack: StackId,
}

/// A segment, or a mapped part of a reserved range.
#[derive(Clone, Copy)]
struct Grown {
    place: Place,
    expandable: bool,
    stack: StackId,
}

/// Keeps the record of a run.
struct Recorder<'a> {
    recorded: &'a DeviceMemory,
    streams: &'a mut Streams,
    pools: &'a mut Pools,
    /// The most the allocator can hold, bytes.
    capacity: Option<u64>,
    trace: Trace,
    /// The size of the block each event is about.
    block_sizes: Vec<u64>,
    /// The event of the recording whose request is being served; none before the first.
    now: Option<EventIdx>,
    /// The first event of the recording that was not looked at for being carried over.
    carried: u32,
    held: FxHashMap<AllocationId, Held>,
    /// The recorded life that a life copies, where the recording does not know it.
    copies: FxHashMap<AllocationId, AllocationId>,
    grown: Vec<Grown>,
    segments: RangeMap<u32>,
    /// Bytes of active blocks.
    active: u64,
}

impl<'a> Recorder<'a> {
    fn new(
        recorded: &'a DeviceMemory,
        asked: &RequestStream,
        scenario: &Scenario,
        streams: &'a mut Streams,
        pools: &'a mut Pools,
    ) -> Recorder<'a> {
        let known = recorded.allocations.len();
        let copied = asked.requests.iter().filter_map(|(_, request)| match request {
            Request::Alloc(life, wanted) if known <= life.row() => Some((*life, recorded.subject(wanted.source)?)),
            _ => None,
        });
        Recorder {
            copies: copied.collect(),
            recorded,
            streams,
            pools,
            capacity: scenario.capacity.or(scenario.total),
            trace: Trace::default(),
            block_sizes: Vec::with_capacity(recorded.trace.len()),
            now: None,
            carried: 0,
            held: FxHashMap::default(),
            grown: Vec::new(),
            segments: RangeMap::new(),
            active: 0,
        }
    }
    /// The stack of a recorded event.
    fn stack_of(&self, source: Option<EventIdx>) -> StackId {
        let stacks = self.recorded.trace.stacks();
        source.and_then(|source| stacks.get(source.0 as usize)).copied().unwrap_or(StackId::ABSENT)
    }
    /// Adds an event that stems from a recorded one. What happens before the first request is older than the record.
    fn push(&mut self, source: Option<EventIdx>, action: Action, address: u64, size: u64, place: Place, block_size: u64) {
        if self.now.is_none() {
            return;
        }
        while self.pools.len() <= place.pool.0 as usize {
            // A private pool that the recording does not name.
            let first = self.pools.len() as i64;
            let unused = (first..).find(|id| (0..first as u32).all(|pool| self.pools.pair(PoolId(pool)) != (0, *id)));
            self.pools.intern((0, unused.unwrap_or(first)));
        }
        let stream = self.streams.intern(place.stream.cast_signed());
        let is_known = |event: &EventIdx| (event.0 as usize) < self.recorded.trace.len();
        let known = source.filter(is_known);
        let like = known.map(|source| self.recorded.trace.entry(source));
        // What stands behind another event happens when that did: time goes on only forward.
        let now = self.now.filter(|now| known.is_none_or(|source| source.0 + 1 < now.0 || now.0 < source.0));
        let timed = now.filter(is_known).map(|now| self.recorded.trace.entry(now)).or(like);
        let event = self.trace.push(TraceEntry {
            action,
            address,
            size,
            stream,
            time_us: timed.and_then(|timed| timed.time_us),
            stack: like.map_or(StackId::ABSENT, |like| like.stack),
            pool: Some(place.pool),
            compile_context: like.and_then(|like| like.compile_context),
            user_metadata: like.and_then(|like| like.user_metadata),
        });
        self.block_sizes.push(block_size);
        if let Some(source) = known.filter(|_| like.is_some_and(|like| like.action == action)) {
            let extras = self.recorded.trace.extras_of(source);
            self.trace.extras.extend(extras.iter().map(|extra| Extra { event, ..*extra }));
        }
    }
    /// Carries over what no request stands for: snapshots taken, and notes on blocks that are there.
    fn carry_until(&mut self, end: u32) {
        let end = end.min(self.recorded.trace.len() as u32);
        let from = self.carried.min(end);
        self.carried = self.carried.max(end);
        let Some(now) = self.now else { return };
        for row in from..end {
            let source = EventIdx(row);
            self.now = Some(source);
            let entry = self.recorded.trace.entry(source);
            let place = Place { stream: 0, pool: PoolId::DEFAULT, class: SizeClass::Small };
            match entry.action {
                Action::Snapshot => self.push(Some(source), entry.action, entry.address, self.active, place, 0),
                Action::Annotate => {
                    let held = self.recorded.subject(source).and_then(|life| self.held.get(&life)).copied();
                    if let Some(Held { given, .. }) = held {
                        self.push(Some(source), entry.action, given.address, entry.size, given.place, 0);
                    }
                }
                _ => {}
            }
        }
        self.now = Some(now);
    }
    /// The event at which the program gave a block back, where that was over at once.
    fn request_of_free(&self, life: AllocationId) -> Option<EventIdx> {
        let now = self.now?;
        let before = EventIdx(now.0.checked_sub(1)?);
        let actions = self.recorded.trace.actions();
        let at_once = actions.get(now.0 as usize) == Some(&Action::FreeCompleted)
            && actions.get(before.0 as usize) == Some(&Action::FreeRequested)
            && self.recorded.subject(before) == Some(self.recorded_life(life));
        if !at_once && !self.is_about(life) {
            return self.recorded_end(life, self.recorded.allocations.freed());
        }
        Some(if at_once { before } else { now })
    }
    /// The life itself, or the recorded one that it copies.
    fn recorded_life(&self, life: AllocationId) -> AllocationId {
        self.copies.get(&life).copied().unwrap_or(life)
    }
    /// Whether the recorded event that is being served is about a life, and not one that a change put something behind.
    fn is_about(&self, life: AllocationId) -> bool {
        self.now.and_then(|now| self.recorded.subject(now)) == Some(self.recorded_life(life))
    }
    /// The event behind which a life was over in the recording, of the positions where lives are given back or end.
    fn recorded_end(&self, life: AllocationId, ends: &[Position]) -> Option<EventIdx> {
        let end = ends.get(self.recorded_life(life).row()).copied().filter(|end| *end != Position::NEVER)?;
        end.event()
    }
    /// The event whose stack and notes an allocation has.
    fn source_of_alloc(&self, life: AllocationId) -> Option<EventIdx> {
        let now = self.now?;
        // A request that failed in the recording is nobody's life there; it is served at its own event.
        if life.row() < self.recorded.allocations.len() || !self.copies.contains_key(&life) {
            return Some(now);
        }
        let born = self.recorded.allocations.born().get(self.recorded_life(life).row()).copied()?;
        born.event()
    }
    /// The event whose stack and notes the end of a life has.
    fn source_of_end(&self, life: AllocationId) -> Option<EventIdx> {
        if self.is_about(life) { self.now } else { self.recorded_end(life, self.recorded.allocations.died()) }
    }
    /// The segments at the end with what tiles them, and all that was written down.
    fn finish(self) -> DeviceRecord {
        let Recorder { streams, trace, block_sizes, held, grown, segments, .. } = self;
        let mut held: Vec<Held> = held.into_values().collect();
        held.sort_unstable_by_key(|held| held.given.address);
        let mut held = held.into_iter().peekable();
        let mut records: Vec<SegmentRecord> = Vec::new();
        for (range, row) in segments.iter() {
            let Grown { place, expandable, stack } = grown[row as usize];
            let stream = streams.intern(place.stream.cast_signed());
            let joins = |record: &&mut SegmentRecord| {
                expandable
                    && record.expandable
                    && record.address + record.size == range.start
                    && (record.stream, record.pool, record.class) == (stream, place.pool, place.class)
            };
            match records.last_mut().filter(joins) {
                Some(record) => record.size += range.end - range.start,
                None => records.push(SegmentRecord {
                    address: range.start,
                    size: range.end - range.start,
                    stream,
                    pool: place.pool,
                    class: place.class,
                    expandable,
                    stack,
                    blocks: Vec::new(),
                    stated_totals: [None; 3],
                }),
            }
        }
        for record in &mut records {
            let end = record.address + record.size;
            let mut at = record.address;
            let gap = |from: u64, to: u64| BlockRecord {
                address: Some(from),
                size: to - from,
                requested: None,
                state: BlockState::Inactive,
                stack: StackId::ABSENT,
            };
            while let Some(Held { given, pending, stack }) = held.next_if(|held| held.given.address < end) {
                if at < given.address {
                    record.blocks.push(gap(at, given.address));
                }
                record.blocks.push(BlockRecord {
                    address: Some(given.address),
                    size: given.size,
                    requested: Some(given.requested),
                    state: if pending { BlockState::ActivePendingFree } else { BlockState::ActiveAllocated },
                    stack,
                });
                at = given.address + given.size;
            }
            if at < end {
                record.blocks.push(gap(at, end));
            }
        }
        DeviceRecord { trace, segments: records, segments_known: true, block_sizes, ..DeviceRecord::default() }
    }
}

impl Journal for Recorder<'_> {
    fn at(&mut self, event: EventIdx) {
        self.now = Some(event);
        self.carry_until(event.0);
    }
    fn segment(&mut self, action: Action, address: u64, size: u64, place: Place) {
        let range = address..address.saturating_add(size);
        if matches!(action, Action::SegmentAlloc | Action::SegmentMap) {
            let row = self.grown.len() as u32;
            let expandable = action == Action::SegmentMap;
            self.grown.push(Grown { place, expandable, stack: self.stack_of(self.now) });
            self.segments.insert(range, row);
        } else {
            self.segments.cut(range);
        }
        self.push(self.now, action, address, size, place, 0);
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        // What was there before the run has the stack of its life.
        let stack = match self.now {
            Some(_) => self.stack_of(self.source_of_alloc(life)),
            None => self.recorded.allocations.stacks().get(life.0 as usize).copied().unwrap_or(StackId::ABSENT),
        };
        self.held.insert(life, Held { given, pending: false, stack });
        self.active += given.size;
        self.push(self.source_of_alloc(life), Action::Alloc, given.address, given.requested, given.place, given.size);
    }
    fn free_requested(&mut self, life: AllocationId) {
        let Some(held) = self.held.get_mut(&life) else { return };
        held.pending = true;
        let given = held.given;
        let source = self.request_of_free(life);
        self.push(source, Action::FreeRequested, given.address, given.requested, given.place, given.size);
    }
    fn free_completed(&mut self, life: AllocationId) {
        let Some(Held { given, .. }) = self.held.remove(&life) else { return };
        self.active -= given.size;
        self.push(self.source_of_end(life), Action::FreeCompleted, given.address, given.requested, given.place, given.size);
    }
    fn oom(&mut self, size: u64, place: Place, reserved: u64) {
        let free = self.capacity.map_or(0, |capacity| capacity.saturating_sub(reserved));
        self.push(self.now, Action::Oom, free, size, place, 0);
    }
}
