//! What all rules look at, counted once: the state, the request, the gaps, the account.
//!
//! Always: what a request could have used is decided by the allocator's own rules (`get_free_block`): one pool, one
//! half, one stream, and the limits of `max_split_size_mb`.

use crate::analysis::block_sums::BlockSums;
use crate::analysis::diagnosis::account::Accounting;
use crate::analysis::diagnosis::steps::Steps;
use crate::analysis::diagnosis::{DiagnosisParams, OomMessage, Tried};
use crate::analysis::gaps::{Gaps, MappedRange, PoolKey};
use crate::analysis::query::Asked;
use crate::analysis::timeline::UsageTimeline;
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::{
    Action, AllocatorSettings, BlockState, DeviceMemory, EventIdx, Missing, PoolId, Position, Segment, SegmentId, SizeClass,
    Snapshot, StackId, StreamId,
};
use crate::replay::{MemoryState, Replay, StateBlock, StateSegment, Totals};

/// The card, as far as somebody knows it; a snapshot does not hold its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Card {
    /// All its memory, in bytes.
    pub total: Option<u64>,
    /// The memory fraction that was set, in parts per million of the total.
    pub fraction_ppm: Option<u32>,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The event.
    pub event: EventIdx,
    /// Bytes wanted, as the event says (PyTorch has rounded them).
    pub requested: u64,
    /// What PyTorch's message names as wanted: the segment that such a request takes.
    pub tried: u64,
    /// What the driver was asked for: the segment's size; with expandable segments the granules still to map.
    pub needed: u64,
    /// What the driver had left, as the event says.
    pub device_free: u64,
    /// The pool it was for; none: a private one that held nothing yet.
    pub pool: Option<PoolId>,
    /// How its pool is known.
    pub pool_from: PoolFrom,
    /// Its half.
    pub class: SizeClass,
    /// Its stream.
    pub stream: StreamId,
    /// Where it was asked for.
    pub stack: StackId,
}

/// How the pool of a request is known: events name it from PyTorch 2.12 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFrom {
    /// The event names it.
    Event,
    /// What lay free in the default pool would have served it, or would have gone back to the driver: it was for a
    /// private one.
    Gaps,
    /// Nothing speaks against the default pool.
    Assumed,
}

/// Some gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapSums {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest, in bytes.
    pub largest: u64,
}

impl Request {
    /// What was wanted, as PyTorch's message has it, with the request behind it where that is less.
    pub fn words(&self) -> String {
        let (tried, requested) = (Bytes(self.tried).to_string(), Bytes(self.requested).to_string());
        if tried == requested { tried } else { format!("{tried} (for a request of {requested})") }
    }
}

impl GapSums {
    fn add(&mut self, gaps: &SameGaps) {
        self.count += gaps.count;
        self.bytes = self.bytes.saturating_add(gaps.bytes());
        self.largest = self.largest.max(gaps.size);
    }
}

/// Why a gap cannot serve the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wall {
    /// It belongs to another stream.
    Stream,
    /// It belongs to a private pool, or the request does.
    Pool,
    /// It lies in the other half of the pool.
    Half,
    /// A setting keeps it for other sizes.
    Setting,
}

/// Gaps of one size behind one wall.
struct SameGaps {
    wall: Option<Wall>,
    size: u64,
    count: u64,
}

impl SameGaps {
    fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count)
    }
}

/// All that rules look at.
pub struct Facts<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub memory: &'a DeviceMemory,
    /// Its states.
    pub replay: &'a Replay,
    /// Its counters over time.
    pub timeline: &'a UsageTimeline,
    /// The card.
    pub card: Card,
    /// What PyTorch's own message says of this failure.
    pub message: Option<&'a OomMessage>,
    /// What came of serving the requests under other settings, where somebody did.
    pub tried: Option<&'a Tried>,
    /// The state at the moment.
    pub state: MemoryState,
    /// What failed; none where nothing did.
    pub request: Option<Request>,
    /// Segments that must have been of private pools at the failure though the file does not say so: what lay free in
    /// them would have served the request, or gone back to the driver.
    pub unstated: Vec<SegmentId>,
    /// All gaps.
    pub gaps: GapSums,
    /// The gaps that are the request's own and that no setting keeps from it.
    pub own: GapSums,
    /// The gaps behind each wall.
    pub walled: Vec<(Wall, GapSums)>,
    /// Where every byte is.
    pub accounting: Accounting,
    /// A message of a failure was given, and the recording of that device holds none.
    pub has_lost_failure: bool,
    /// The program's own steps up to the moment, where it marked them.
    pub steps: Option<Steps>,
}

impl<'a> Facts<'a> {
    /// Gathers the facts of one moment; `oom` is the failure that led to it.
    pub fn at(
        asked: &Asked<'a>,
        timeline: &'a UsageTimeline,
        params: &'a DiagnosisParams,
        at: Position,
        oom: Option<EventIdx>,
    ) -> Facts<'a> {
        let (memory, settings) = (asked.memory(), &asked.subject.snapshot.settings);
        let state = asked.replay().state_at(memory, at);
        let (request, unstated) = oom.map(|event| request_of(event, memory, &state, settings)).unzip();
        let mut facts = Facts { unstated: unstated.unwrap_or_default(), ..Facts::new(asked, timeline, params, state, request) };
        let live = facts.state.blocks.iter().filter(|block| block.state == BlockState::ActiveAllocated);
        let live_requested = live.fold(0u64, |sum, block| sum.saturating_add(block.requested));
        let gap_of =
            |(segment, gap): (&StateSegment, &StateBlock)| SameGaps { wall: facts.wall(segment, gap), size: gap.size, count: 1 };
        let gaps = facts.segments().flat_map(|(segment, blocks)| blocks.iter().map(move |block| (segment, block)));
        let gaps: Vec<SameGaps> = gaps.filter(|(_, block)| block.allocation.is_none()).map(gap_of).collect();
        facts.account(live_requested, &gaps);
        facts.steps = Steps::of(&facts);
        facts
    }
    /// The facts of many failures from one walk over the lives, as far as verdict and account rest on them: their
    /// states have totals, but neither segments nor blocks. Calls `found` with each, in order; false where only a
    /// whole state tells, and then nothing was called.
    pub fn in_brief(
        asked: &Asked<'a>,
        timeline: &'a UsageTimeline,
        params: &'a DiagnosisParams,
        ooms: &[EventIdx],
        progress: &Progress,
        mut found: impl FnMut(&Facts<'a>),
    ) -> Result<bool, Cancelled> {
        let (memory, settings) = (asked.memory(), &asked.subject.snapshot.settings);
        // Whether a gap is of the other kind is known of its segment only; blocks in no segment have made-up ones.
        let both_kinds = settings.stated && !settings.expandable_segments;
        // Where events name no pool and there are private ones, only a whole state tells whose a request was.
        let unnamed = ooms.iter().any(|event| memory.trace.entry(*event).pool.is_none());
        let needs_state = |segment: &Segment| {
            segment.inferred || both_kinds && segment.expandable || unnamed && segment.pool != PoolId::DEFAULT
        };
        if memory.segments.as_slice().iter().any(needs_state) {
            return Ok(false);
        }
        let mut wanted = ooms.iter().copied().peekable();
        let (mut last_growth, mut seen) = (None, 0);
        Gaps::new(memory).follow(progress, |position, _, gaps, sums| {
            while let Some(event) = wanted.next_if(|event| Position::after(*event) <= position) {
                let since = &memory.trace.actions()[seen..event.0 as usize];
                last_growth = since.iter().rev().copied().find(|action| is_growth(*action)).or(last_growth);
                seen = event.0 as usize;
                let expandable = settings_expandable(settings).unwrap_or(last_growth == Some(Action::SegmentMap));
                let request = as_recorded(event, memory, settings);
                let request = with_growth(request, settings, expandable, |key| gaps.mapped_ranges(key));
                found(&Facts::of_books(asked, timeline, params, request, gaps, sums));
            }
        })?;
        Ok(true)
    }

    fn of_books(
        asked: &Asked<'a>,
        timeline: &'a UsageTimeline,
        params: &'a DiagnosisParams,
        request: Request,
        gaps: &Gaps<'_>,
        sums: &BlockSums,
    ) -> Facts<'a> {
        let totals =
            Totals { reserved: gaps.reserved, allocated: sums.allocated(), active: sums.active(), requested: sums.requested() };
        let state = MemoryState { position: Position::after(request.event), totals, ..MemoryState::default() };
        let mut facts = Facts::new(asked, timeline, params, state, Some(request));
        let mut same = Vec::new();
        for ((pool, class, stream), sums) in gaps.keys.iter().zip(&gaps.pools) {
            let wall = |size| wall_of(facts.settings(), &request, (*pool, *class, *stream), false, size);
            same.extend(sums.gaps().map(|(size, count)| SameGaps { wall: wall(size), size, count: u64::from(count) }));
        }
        facts.account(sums.live_requested(), &same);
        facts
    }

    fn new(
        asked: &Asked<'a>,
        timeline: &'a UsageTimeline,
        params: &'a DiagnosisParams,
        state: MemoryState,
        request: Option<Request>,
    ) -> Facts<'a> {
        let (snapshot, memory, replay) = (asked.subject.snapshot, asked.memory(), asked.replay());
        let message = request.as_ref().and_then(|request| message_of(request, memory, &state.totals, &params.messages));
        // Any message names the card; the one of this failure is the one to trust.
        let by_message = || message.or(params.messages.last())?.total;
        // A capture writes down the card, a snapshot of PyTorch does not.
        let total = params.card.total.or_else(by_message).or_else(|| snapshot.job.total(memory.ordinal));
        Facts {
            snapshot,
            memory,
            replay,
            timeline,
            card: Card { total, ..params.card },
            message,
            tried: params.tried.as_deref(),
            state,
            request,
            unstated: Vec::new(),
            gaps: GapSums::default(),
            own: GapSums::default(),
            walled: [Wall::Stream, Wall::Pool, Wall::Half, Wall::Setting].map(|wall| (wall, GapSums::default())).to_vec(),
            accounting: Accounting::default(),
            has_lost_failure: request.is_none() && params.messages.iter().any(|message| here(message, memory)),
            steps: None,
        }
    }
    /// The settings the file states.
    pub fn settings(&self) -> &'a AllocatorSettings {
        &self.snapshot.settings
    }
    /// The memory fraction, as far as somebody tells: the caller, the settings, or the cap that the message names.
    pub fn fraction(&self) -> Option<f64> {
        let told = self.card.fraction_ppm.map(|ppm| f64::from(ppm) / 1e6);
        let by_message = || Some(self.message?.allowed? as f64 / self.card.total.filter(|total| 0 < *total)? as f64);
        told.or(self.settings().per_process_memory_fraction).or_else(by_message)
    }
    /// What keeps a gap from the request; none where it is the request's own. Where nothing failed, private pools are
    /// walled off from everybody else.
    pub fn wall(&self, segment: &StateSegment, gap: &StateBlock) -> Option<Wall> {
        let Some(request) = &self.request else {
            return (segment.pool != PoolId::DEFAULT).then_some(Wall::Pool);
        };
        if self.unstated.contains(&segment.id) {
            return Some(Wall::Pool);
        }
        wall_of(self.settings(), request, (segment.pool, segment.class, segment.stream), segment.expandable, gap.size)
    }
    /// Whether a segment is of the request's pool, half and stream; where nothing failed, of the default pool.
    pub fn is_own(&self, segment: &StateSegment) -> bool {
        !segment.inferred
            && match &self.request {
                Some(request) => {
                    (Some(segment.pool), segment.class, segment.stream) == (request.pool, request.class, request.stream)
                        && !self.unstated.contains(&segment.id)
                }
                None => segment.pool == PoolId::DEFAULT,
            }
    }
    /// The segments the file names, each with its blocks and gaps.
    pub fn segments(&self) -> impl Iterator<Item = (&StateSegment, &[StateBlock])> {
        self.state.segments.iter().filter(|segment| !segment.inferred).map(|segment| (segment, self.state.blocks_of(segment)))
    }
    /// The stack of a block; [`StackId::EMPTY`] where none was kept.
    pub fn stack_of(&self, block: &StateBlock) -> StackId {
        let stack = block.allocation.map_or(StackId::EMPTY, |id| self.memory.allocations.stacks()[id.row()]);
        if self.snapshot.stacks.frames(stack).is_empty() { StackId::EMPTY } else { stack }
    }
    /// How a stack is called in a sentence: `forward  mlp.py:41`.
    pub fn name_of(&self, stack: StackId) -> String {
        match crate::analysis::framework::telling_frame(&self.snapshot.stacks, stack) {
            Some((frame, _)) => {
                let stacks = &self.snapshot.stacks;
                let file = stacks.file(frame);
                let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
                // Names of C++ carry their arguments, which a sentence has no room for.
                let name = stacks.function(frame).split('(').next().unwrap_or_default();
                match (file.is_empty() || file == "??", stacks.frame(frame).line) {
                    (true, _) => name.to_owned(),
                    (false, line) if 0 < line => format!("{name} ({file}:{line})"),
                    (false, _) => format!("{name} ({file})"),
                }
            }
            None => "blocks without a stack".to_owned(),
        }
    }
    /// A share of all that the device could give, in percent.
    pub fn percent(&self, bytes: u64) -> f64 {
        let within = self.accounting.within();
        if within == 0 { 0.0 } else { bytes as f64 * 100.0 / within as f64 }
    }

    fn account(&mut self, live_requested: u64, same: &[SameGaps]) {
        let mut account = Accounting::default();
        let totals = self.state.totals;
        account.live_requested = live_requested.min(totals.allocated);
        account.rounding = totals.allocated - account.live_requested;
        account.pending_free = totals.pending_free();
        let (mut gaps, mut own, mut walled) = (GapSums::default(), GapSums::default(), self.walled.clone());
        for some in same {
            gaps.add(some);
            match some.wall {
                Some(wall) => {
                    account.free_trapped = account.free_trapped.saturating_add(some.bytes());
                    for (_, sums) in walled.iter_mut().filter(|(other, _)| *other == wall) {
                        sums.add(some);
                    }
                }
                None => {
                    own.add(some);
                    let fits = self.request.is_none_or(|request| request.requested <= some.size);
                    let part = if fits { &mut account.free_usable } else { &mut account.free_too_small };
                    *part = part.saturating_add(some.bytes());
                }
            }
        }
        account.device_free = self.request.map(|request| request.device_free);
        account.capacity = self.card.total;
        account.free_unknown = !self.memory.tells_segments();
        account.outside = match (self.card.total, account.device_free) {
            (Some(total), Some(device_free)) => Some(total.saturating_sub(account.held().saturating_add(device_free))),
            // Without a failure nothing tells what the driver had left and what others held: it is one sum.
            _ => None,
        };
        (self.gaps, self.own, self.walled, self.accounting) = (gaps, own, walled, account);
    }
}

/// The message of a failure: it wants as much and, where it says so, is of this device; of several, a loop that tries
/// again writes many, the one whose other figures are those of the state, the last of equal ones.
fn message_of<'a>(
    request: &Request,
    memory: &DeviceMemory,
    totals: &Totals,
    messages: &'a [OomMessage],
) -> Option<&'a OomMessage> {
    let reads = |says: Option<u64>, is: u64| says.is_some_and(|says| Bytes(says).to_string() == Bytes(is).to_string());
    let rank = |message: &OomMessage| {
        let agrees = [
            reads(message.free, request.device_free),
            reads(message.allocated, totals.allocated),
            reads(message.reserved_in_all(), totals.reserved),
        ];
        (here(message, memory), agrees.iter().filter(|agrees| **agrees).count())
    };
    messages.iter().filter(|message| reads(Some(message.requested), request.tried)).max_by_key(|message| rank(message))
}

/// Whether a message may be of this device.
fn here(message: &OomMessage, memory: &DeviceMemory) -> bool {
    message.device.is_none_or(|device| device == memory.ordinal)
}

/// What keeps a gap from a request: its pool, stream and half, then the settings.
fn wall_of(settings: &AllocatorSettings, request: &Request, key: PoolKey, expandable: bool, gap: u64) -> Option<Wall> {
    let (pool, class, stream) = key;
    if Some(pool) != request.pool {
        Some(Wall::Pool)
    } else if stream != request.stream {
        Some(Wall::Stream)
    } else if class != request.class {
        Some(Wall::Half)
    } else {
        kept_by_setting(settings, request.requested, expandable, gap).then_some(Wall::Setting)
    }
}

/// The rules about oversize blocks (`get_free_block`), and ranges that only the other kind of segment serves.
fn kept_by_setting(settings: &AllocatorSettings, wanted: u64, expandable: bool, gap: u64) -> bool {
    if expandable && !settings.expandable_segments && settings.stated {
        return true;
    }
    let Some(limit) = settings.max_split_size else { return false };
    if wanted < limit { limit <= gap } else { wanted.saturating_add(settings.max_non_split_rounding) <= gap }
}

/// The failed request, and the segments that must have been of private pools though the file does not say so.
fn request_of(
    event: EventIdx,
    memory: &DeviceMemory,
    state: &MemoryState,
    settings: &AllocatorSettings,
) -> (Request, Vec<SegmentId>) {
    let mut unstated = Vec::new();
    let mut request = as_recorded(event, memory, settings);
    if request.pool_from == PoolFrom::Assumed && !memory.coverage.lacks(Missing::Sizes) {
        let strangers = strangers(&request, memory, state, settings);
        // No graph is captured on the legacy stream: there, segments whose pool is unknown are the private ones.
        let private = |id: &SegmentId| request.stream != StreamId::DEFAULT || pool_is_stated(memory, *id);
        if strangers.iter().any(private) {
            (request.pool, request.pool_from) = (private_pool_of(&request, memory, state), PoolFrom::Gaps);
        } else {
            unstated = strangers;
        }
    }
    let expandable = settings_expandable(settings).unwrap_or_else(|| {
        let before = &memory.trace.actions()[..event.0 as usize];
        before.iter().rev().find(|action| is_growth(**action)) == Some(&Action::SegmentMap)
    });
    let request = with_growth(request, settings, expandable, |key| mapped_ranges(state, key));
    (request, unstated)
}

/// The failed request as its event has it.
fn as_recorded(event: EventIdx, memory: &DeviceMemory, settings: &AllocatorSettings) -> Request {
    let entry = memory.trace.entry(event);
    let rounded = settings.round(entry.size);
    Request {
        event,
        requested: entry.size,
        tried: settings.segment_size(rounded),
        needed: settings.segment_size(rounded),
        device_free: entry.address,
        pool: Some(entry.pool.unwrap_or(PoolId::DEFAULT)),
        pool_from: if entry.pool.is_some() { PoolFrom::Event } else { PoolFrom::Assumed },
        class: AllocatorSettings::class(rounded),
        stream: entry.stream,
        stack: entry.stack,
    }
}

/// With what the driver was asked for. `expandable` says whether new memory was mapped rather than allocated when it
/// failed; `ranges` gives the mapped ranges of one pool, half and stream at that moment, in address order.
fn with_growth(
    request: Request,
    settings: &AllocatorSettings,
    expandable: bool,
    ranges: impl Fn(PoolKey) -> Vec<MappedRange>,
) -> Request {
    if !expandable {
        return request;
    }
    let ranges = request.pool.map(|pool| ranges((pool, request.class, request.stream))).unwrap_or_default();
    let needed = still_to_map(&ranges, settings.round(request.requested), settings.granule(request.class));
    Request { needed, ..request }
}

/// Segments of the default pool that prove a request to be of another one, where its event does not say: a gap that fits
/// would have served it, and before it fails, all that lies wholly free goes back to the driver
/// (`release_cached_blocks`); not so while a graph is captured.
fn strangers(request: &Request, memory: &DeviceMemory, state: &MemoryState, settings: &AllocatorSettings) -> Vec<SegmentId> {
    // What the failing attempt itself mapped stays behind, free.
    let before = memory.trace.actions()[..request.event.0 as usize].iter().rev();
    let mut grown = before.take_while(|action| {
        matches!(action, Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap)
    });
    let mapped = grown.any(|action| *action == Action::SegmentMap);
    let proves = |segment: &StateSegment| {
        let own = (segment.class, segment.stream) == (request.class, request.stream);
        let mut gaps = state.blocks_of(segment).iter().filter(|block| block.allocation.is_none());
        // A gap of two granules holds a whole one, wherever it begins.
        let releasable = |gap: &StateBlock| match segment.expandable {
            true => !mapped && settings.granule(segment.class).saturating_mul(2) <= gap.size,
            false => gap.size == segment.size,
        };
        gaps.any(|gap| {
            let fits = own
                && request.requested <= gap.size
                && !kept_by_setting(settings, request.requested, segment.expandable, gap.size);
            fits || releasable(gap)
        })
    };
    let segments = state.segments.iter().filter(|segment| !segment.inferred && segment.pool == PoolId::DEFAULT);
    segments.filter(|segment| proves(segment)).map(|segment| segment.id).collect()
}

/// Whether the file states the pool of a segment whose events do not: it does for those that are there at the dump.
fn pool_is_stated(memory: &DeviceMemory, segment: SegmentId) -> bool {
    memory.segments.get(segment).is_some_and(|segment| segment.died == Position::NEVER)
}

/// The private pool that a request was for which was not for the default one: that which served its stream last.
fn private_pool_of(request: &Request, memory: &DeviceMemory, state: &MemoryState) -> Option<PoolId> {
    let lives = &memory.allocations;
    let served = (0..lives.born_by(state.position)).rev().find(|row| lives.streams()[*row] == request.stream)?;
    let pool = memory.segments.get(lives.segments()[served])?.pool;
    (pool != PoolId::DEFAULT).then_some(pool)
}

/// Whether new memory is mapped rather than allocated, where the file states it; else the last growth before a failure
/// tells.
fn settings_expandable(settings: &AllocatorSettings) -> Option<bool> {
    settings.stated.then_some(settings.expandable_segments)
}

fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}

fn mapped_ranges(state: &MemoryState, key: PoolKey) -> Vec<MappedRange> {
    let gap = |block: Option<&StateBlock>| block.filter(|block| block.allocation.is_none()).map_or(0, |block| block.size);
    let segments = state
        .segments
        .iter()
        .filter(|segment| segment.expandable && !segment.inferred && (segment.pool, segment.class, segment.stream) == key);
    let range = |segment: &StateSegment| {
        let blocks = state.blocks_of(segment);
        let (front, back) = (gap(blocks.first()), gap(blocks.last()));
        MappedRange { address: segment.address, size: segment.size, front, back }
    };
    segments.map(range).collect()
}

/// What an expandable segment would have to map for a request (`try_allocate_expandable_block`): the first unmapped
/// stretch, with the gap in front of it, from which so many bytes lie together. The stretch behind the last mapped byte
/// has no end that a file tells.
fn still_to_map(ranges: &[MappedRange], rounded: u64, granule: u64) -> u64 {
    let whole = |bytes: u64| bytes.checked_next_multiple_of(granule.max(1)).unwrap_or(u64::MAX);
    for (place, range) in ranges.iter().enumerate() {
        let (mut free, mut mapped) = (range.back, 0u64);
        for (left, right) in ranges[place..].iter().zip(ranges[place..].iter().skip(1)) {
            let hole = right.address.saturating_sub(left.address.saturating_add(left.size));
            let part = whole(rounded.saturating_sub(free)).min(hole);
            (free, mapped) = (free.saturating_add(part), mapped.saturating_add(part));
            free = free.saturating_add(right.front);
            if rounded <= free {
                return mapped;
            }
            // Only a range that is one gap leads on to the next stretch.
            if right.front < right.size {
                break;
            }
        }
        if place + 1 == ranges.len() {
            return whole(rounded.saturating_sub(free));
        }
    }
    whole(rounded)
}
