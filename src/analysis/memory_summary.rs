//! PyTorch's own counters at any moment: what `torch.cuda.memory_stats()` returned and `memory_summary()` printed there.
//!
//! Always: what stands under *current* is the state of [`crate::replay::Replay::state_at`]. Peaks and totals are counted from
//! the recording's start, by the rules of the allocator (`c10/cuda/CUDACachingAllocator.cpp`): a change of the inactive
//! parts of a segment counts with its net effect, expandable segments are no segments and never split. A figure
//! that the recording cannot tell is none, never a guess; where it begins mid-run, [`SummaryReach`] says so.

use crate::analysis::gaps::by_position;
use crate::analysis::pressure::Pressure;
use crate::analysis::query::{Asked, Query};
use crate::base::id::Id;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{
    Action, AllocationId, AllocatorSettings, BlockState, DeviceMemory, Missing, Position, Segment, SegmentId, SizeClass, Snapshot,
};
use crate::replay::{MemoryState, Replay};
use std::collections::BTreeMap;

/// A counter that PyTorch keeps for the small and the large pool, in the order of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Sizes of blocks in use.
    AllocatedBytes,
    /// Sizes of blocks in use or pending free.
    ActiveBytes,
    /// What the program asked for, over active blocks.
    RequestedBytes,
    /// Taken from the driver.
    ReservedBytes,
    /// Free parts of `cudaMalloc` segments that also hold active blocks.
    InactiveSplitBytes,
    /// Blocks in use.
    Allocation,
    /// Blocks in use or pending free.
    Active,
    /// `cudaMalloc` segments.
    Segment,
    /// Number of the free parts.
    InactiveSplit,
}

impl Metric {
    /// All, in the order of PyTorch's table.
    pub const ALL: [Metric; 9] = [
        Metric::AllocatedBytes,
        Metric::ActiveBytes,
        Metric::RequestedBytes,
        Metric::ReservedBytes,
        Metric::InactiveSplitBytes,
        Metric::Allocation,
        Metric::Active,
        Metric::Segment,
        Metric::InactiveSplit,
    ];
    /// The name in `memory_stats()`.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::AllocatedBytes => "allocated_bytes",
            Metric::ActiveBytes => "active_bytes",
            Metric::RequestedBytes => "requested_bytes",
            Metric::ReservedBytes => "reserved_bytes",
            Metric::InactiveSplitBytes => "inactive_split_bytes",
            Metric::Allocation => "allocation",
            Metric::Active => "active",
            Metric::Segment => "segment",
            Metric::InactiveSplit => "inactive_split",
        }
    }
    /// Whether it counts bytes, not things.
    pub const fn is_bytes(self) -> bool {
        (self as usize) < Metric::Allocation as usize
    }
}

/// Which part of the memory a counter is about, in the order of PyTorch's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatScope {
    /// Both pools.
    All,
    /// What serves requests over 1 MiB.
    LargePool,
    /// What serves requests up to 1 MiB.
    SmallPool,
}

impl StatScope {
    /// All, in the order of PyTorch's table.
    pub const ALL: [StatScope; 3] = [StatScope::All, StatScope::LargePool, StatScope::SmallPool];
    /// The name in `memory_stats()`.
    pub const fn name(self) -> &'static str {
        match self {
            StatScope::All => "all",
            StatScope::LargePool => "large_pool",
            StatScope::SmallPool => "small_pool",
        }
    }
    const fn of(class: SizeClass) -> StatScope {
        match class {
            SizeClass::Small => StatScope::SmallPool,
            SizeClass::Large => StatScope::LargePool,
        }
    }
}

/// The four figures of a counter; none where the recording cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFigures {
    /// At the moment.
    pub current: Option<u64>,
    /// The most there ever was.
    pub peak: Option<u64>,
    /// All that was ever added.
    pub allocated: Option<u64>,
    /// All that was ever taken away.
    pub freed: Option<u64>,
}

impl StatFigures {
    /// With their names in `memory_stats()`, in the order of PyTorch's table.
    pub const fn named(self) -> [(&'static str, Option<u64>); 4] {
        [("current", self.current), ("peak", self.peak), ("allocated", self.allocated), ("freed", self.freed)]
    }
}

/// How far back peaks and totals reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryReach {
    /// To the first allocation of the process.
    #[default]
    Whole,
    /// To the start of the recording, which began mid-run or lost its oldest events.
    Recording,
    /// Nowhere: there is no history, only the state at the dump.
    Nothing,
}

/// PyTorch's counters of one device at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySummary {
    /// The moment.
    pub position: Position,
    /// The device's number.
    pub device: i32,
    /// How far back peaks and totals reach.
    pub reach: SummaryReach,
    /// Sizes of blocks are inferred: figures in bytes of what was allocated may be off.
    pub sizes_inferred: bool,
    /// By [`Metric`], then [`StatScope`].
    pub metrics: [[StatFigures; 3]; 9],
    /// Allocations of at least `max_split_size`, which are never split.
    pub oversize_allocations: StatFigures,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: StatFigures,
    /// Failed allocations.
    pub ooms: Option<u64>,
    /// Times the cache was given back for a `cudaMalloc` that had failed, and it was tried again.
    pub retries: Option<u64>,
    /// Times the driver was asked for memory: `cudaMalloc`s and mappings.
    pub device_allocs: Option<u64>,
    /// Times memory went back to the driver: `cudaFree`s and unmappings.
    pub device_frees: Option<u64>,
    /// The setting in bytes, −1: no limit; none where the file does not state it.
    pub max_split_size: Option<i128>,
}

impl MemorySummary {
    /// The figures of a counter.
    pub fn figures(&self, metric: Metric, scope: StatScope) -> StatFigures {
        self.metrics[metric as usize][scope as usize]
    }
    /// All as `memory_stats()` has them: its names in its order (sorted), none where the recording cannot tell.
    pub fn stats(&self) -> Vec<(String, Option<i128>)> {
        let mut stats: Vec<(String, Option<i128>)> = Vec::with_capacity(128);
        let mut put = |prefix: &str, figures: StatFigures| {
            stats.extend(figures.named().map(|(name, value)| (format!("{prefix}.{name}"), value.map(i128::from))));
        };
        for metric in Metric::ALL {
            for scope in StatScope::ALL {
                put(&format!("{}.{}", metric.name(), scope.name()), self.figures(metric, scope));
            }
        }
        put("oversize_allocations", self.oversize_allocations);
        put("oversize_segments", self.oversize_segments);
        for (name, value) in [
            ("num_alloc_retries", self.retries.map(i128::from)),
            ("num_ooms", self.ooms.map(i128::from)),
            ("num_device_alloc", self.device_allocs.map(i128::from)),
            ("num_device_free", self.device_frees.map(i128::from)),
            // An `empty_cache()` that finds nothing to release synchronises too, and leaves no mark.
            ("num_sync_all_streams", None),
            ("max_split_size", self.max_split_size),
        ] {
            stats.push((name.to_owned(), value));
        }
        stats.sort();
        stats
    }
    /// The counters at a position; a trace is walked up to it.
    pub fn of(
        snapshot: &Snapshot,
        memory: &DeviceMemory,
        replay: &Replay,
        position: Position,
        progress: &Progress,
    ) -> Result<MemorySummary, Cancelled> {
        let settings = &snapshot.settings;
        let position = position.min(memory.end());
        let state = replay.state_at(memory, position);
        let current = Current::of(&state, settings);
        let reach = if memory.coverage.lacks(Missing::History) || !memory.has_history() {
            SummaryReach::Nothing
        } else if memory.coverage.lacks(Missing::Start) {
            SummaryReach::Recording
        } else {
            SummaryReach::Whole
        };
        let mut summary = MemorySummary {
            position,
            device: memory.ordinal,
            reach,
            sizes_inferred: memory.coverage.lacks(Missing::Sizes),
            max_split_size: settings.stated.then(|| settings.max_split_size.map_or(-1, i128::from)),
            ..MemorySummary::default()
        };
        let books = if reach == SummaryReach::Nothing {
            None
        } else {
            let pressure = Pressure::of(snapshot, memory, replay, progress)?;
            let books = Books::until(memory, settings, position, progress)?;
            let count = |wanted: &[Action]| {
                let events = &memory.trace.actions()[..position.0 as usize];
                events.iter().filter(|action| wanted.contains(action)).count() as u64
            };
            summary.ooms = Some(count(&[Action::Oom]));
            summary.retries = pressure.retries_until(position);
            summary.device_allocs = Some(count(&[Action::SegmentAlloc, Action::SegmentMap]));
            summary.device_frees = Some(count(&[Action::SegmentFree, Action::SegmentUnmap]));
            Some(books)
        };
        let figures = |current: u64, flow: Option<&Flow>| StatFigures {
            current: Some(current),
            peak: flow.map(|flow| flow.peak.max(current)),
            allocated: flow.map(|flow| flow.allocated),
            freed: flow.map(|flow| flow.freed),
        };
        for metric in Metric::ALL {
            for scope in StatScope::ALL {
                let (row, column) = (metric as usize, scope as usize);
                let flow = books.as_ref().map(|books| &books.metrics[row][column]);
                summary.metrics[row][column] = figures(current.metrics[row][column], flow);
            }
        }
        if settings.stated {
            summary.oversize_allocations = figures(current.oversize_allocations, books.as_ref().map(|b| &b.oversize_allocations));
            summary.oversize_segments = figures(current.oversize_segments, books.as_ref().map(|b| &b.oversize_segments));
        }
        Ok(summary)
    }
}

/// The counters of a state.
#[derive(Default)]
struct Current {
    metrics: [[u64; 3]; 9],
    oversize_allocations: u64,
    oversize_segments: u64,
}

impl Current {
    fn of(state: &MemoryState, settings: &AllocatorSettings) -> Current {
        let mut current = Current::default();
        let oversize = |size: u64| u64::from(settings.max_split_size.is_some_and(|limit| limit <= size));
        for segment in &state.segments {
            let blocks = state.blocks_of(segment);
            let mut add = |metric: Metric, amount: u64| {
                for scope in [StatScope::All, StatScope::of(segment.class)] {
                    let sum = &mut current.metrics[metric as usize][scope as usize];
                    *sum = sum.saturating_add(amount);
                }
            };
            let splits = !segment.expandable && blocks.iter().any(|block| block.state != BlockState::Inactive);
            for block in blocks {
                match block.state {
                    BlockState::Inactive if splits => {
                        add(Metric::InactiveSplitBytes, block.size);
                        add(Metric::InactiveSplit, 1);
                    }
                    BlockState::Inactive => {}
                    BlockState::ActiveAllocated | BlockState::ActivePendingFree => {
                        add(Metric::ActiveBytes, block.size);
                        add(Metric::Active, 1);
                        add(Metric::RequestedBytes, block.requested);
                        if block.state == BlockState::ActiveAllocated {
                            add(Metric::AllocatedBytes, block.size);
                            add(Metric::Allocation, 1);
                            current.oversize_allocations += oversize(block.size);
                        }
                    }
                }
            }
            if !segment.inferred {
                add(Metric::ReservedBytes, segment.size);
                if !segment.expandable {
                    add(Metric::Segment, 1);
                    current.oversize_segments += oversize(segment.size);
                }
            }
        }
        current
    }
}

/// What went through a counter.
#[derive(Clone, Copy, Default)]
struct Flow {
    current: u64,
    peak: u64,
    allocated: u64,
    freed: u64,
}

impl Flow {
    fn change(&mut self, by: i128) {
        let amount = u64::try_from(by.unsigned_abs()).unwrap_or(u64::MAX);
        if 0 <= by {
            self.current = self.current.saturating_add(amount);
            self.peak = self.peak.max(self.current);
            self.allocated = self.allocated.saturating_add(amount);
        } else {
            self.current = self.current.saturating_sub(amount);
            self.freed = self.freed.saturating_add(amount);
        }
    }
}

/// All counters while the trace is walked.
struct Books<'a> {
    memory: &'a DeviceMemory,
    settings: &'a AllocatorSettings,
    metrics: [[Flow; 3]; 9],
    oversize_allocations: Flow,
    oversize_segments: Flow,
    /// What this position adds to the reserved bytes of the small and the large pool. An expandable range that is unmapped in
    /// part ends as one piece and goes on as another; only the difference went to the driver.
    reserving: [i128; 2],
    /// Active blocks of `cudaMalloc` segments: first byte and first byte behind.
    split: BTreeMap<u64, u64>,
}

impl<'a> Books<'a> {
    fn until(
        memory: &'a DeviceMemory,
        settings: &'a AllocatorSettings,
        position: Position,
        progress: &Progress,
    ) -> Result<Books<'a>, Cancelled> {
        let mut books = Books {
            memory,
            settings,
            metrics: Default::default(),
            oversize_allocations: Flow::default(),
            oversize_segments: Flow::default(),
            reserving: [0; 2],
            split: BTreeMap::new(),
        };
        let slots = position.0 as usize + 1;
        progress.stage("keeping the books", slots as u64)?;
        let (lives, segments) = (&memory.allocations, memory.segments.as_slice());
        let (born, freed, died) = (lives.born(), lives.freed(), lives.died());
        let mut frees = by_position::<AllocationId>(freed.iter().copied(), slots).into_iter().peekable();
        let mut deaths = by_position::<AllocationId>(died.iter().copied(), slots).into_iter().peekable();
        let mut births = (0..lives.born_by(position)).peekable();
        let mut unmaps = by_position::<SegmentId>(segments.iter().map(|s| s.died), slots).into_iter().peekable();
        let mut maps = by_position::<SegmentId>(segments.iter().map(|s| s.born), slots).into_iter().peekable();
        for at in (0..slots as u32).map(Position) {
            // What a life goes through in one event happens in the order of the allocator: freed, then reused.
            while let Some(id) = frees.next_if(|id| freed[id.row()] <= at) {
                if born[id.row()] < freed[id.row()] {
                    books.free(id);
                }
            }
            while let Some(id) = deaths.next_if(|id| died[id.row()] <= at) {
                if born[id.row()] < died[id.row()] {
                    books.complete(id);
                }
            }
            while let Some(id) = unmaps.next_if(|id| segments[id.row()].died <= at) {
                books.segment(&segments[id.row()], -1);
            }
            while let Some(id) = maps.next_if(|id| segments[id.row()].born <= at) {
                books.segment(&segments[id.row()], 1);
            }
            books.reserve();
            while let Some(row) = births.next_if(|row| born[*row] <= at) {
                if born[row] < died[row] {
                    books.alloc(AllocationId(row as u32), born[row] < freed[row]);
                }
            }
            if at == Position::START {
                books.open();
            }
            if at.0.is_multiple_of(8192) {
                progress.at(u64::from(at.0))?;
            }
        }
        Ok(books)
    }

    /// What is there before the first event is no flow.
    fn open(&mut self) {
        let flows = self.metrics.iter_mut().flatten().chain([&mut self.oversize_allocations, &mut self.oversize_segments]);
        for flow in flows {
            *flow = Flow { current: flow.current, peak: flow.current, ..Flow::default() };
        }
    }
    fn change(&mut self, metric: Metric, class: SizeClass, by: i128) {
        for scope in [StatScope::All, StatScope::of(class)] {
            self.metrics[metric as usize][scope as usize].change(by);
        }
    }
    fn is_oversize(&self, size: u64) -> bool {
        self.settings.max_split_size.is_some_and(|limit| limit <= size)
    }
    /// A `cudaMalloc` or a mapping (`sign` 1), or its end (−1).
    fn segment(&mut self, segment: &Segment, sign: i128) {
        if segment.inferred || segment.died <= segment.born {
            return;
        }
        self.reserving[segment.class as usize] += sign * i128::from(segment.size);
        if !segment.expandable {
            self.change(Metric::Segment, segment.class, sign);
            if self.is_oversize(segment.size) {
                self.oversize_segments.change(sign);
            }
        }
    }
    /// Books what the pieces of one position add up to.
    fn reserve(&mut self) {
        let [small, large] = std::mem::take(&mut self.reserving);
        for (class, by) in [(SizeClass::Small, small), (SizeClass::Large, large)] {
            if by != 0 {
                self.change(Metric::ReservedBytes, class, by);
            }
        }
    }
    /// The segment of a life; what is known of none counts as the half that serves its size.
    fn segment_of(&self, id: AllocationId) -> (SizeClass, Option<Segment>) {
        let row = id.row();
        match self.memory.segments.get(self.memory.allocations.segments()[row]) {
            Some(segment) => (segment.class, Some(*segment)),
            None => (AllocatorSettings::class(self.memory.allocations.sizes()[row]), None),
        }
    }
    fn alloc(&mut self, id: AllocationId, is_allocated: bool) {
        let lives = &self.memory.allocations;
        let (size, requested, address) = (lives.sizes()[id.row()], lives.requested()[id.row()], lives.addresses()[id.row()]);
        let (class, segment) = self.segment_of(id);
        self.change(Metric::ActiveBytes, class, i128::from(size));
        self.change(Metric::Active, class, 1);
        self.change(Metric::RequestedBytes, class, i128::from(requested));
        if is_allocated {
            self.change(Metric::AllocatedBytes, class, i128::from(size));
            self.change(Metric::Allocation, class, 1);
            if self.is_oversize(size) {
                self.oversize_allocations.change(1);
            }
        }
        let Some(segment) = segment.filter(|segment| !segment.expandable && !segment.inferred) else { return };
        let gap = self.gap(&segment, address);
        let end = address.saturating_add(size);
        self.split.insert(address, end);
        let before = if gap.is_whole { [0, 0] } else { [gap.end.saturating_sub(gap.start), 0] };
        let after = [address.saturating_sub(gap.start), gap.end.saturating_sub(end)];
        self.resplit(class, before, after);
    }
    /// The program gives a block back.
    fn free(&mut self, id: AllocationId) {
        let size = self.memory.allocations.sizes()[id.row()];
        let (class, _) = self.segment_of(id);
        self.change(Metric::AllocatedBytes, class, -i128::from(size));
        self.change(Metric::Allocation, class, -1);
        if self.is_oversize(size) {
            self.oversize_allocations.change(-1);
        }
    }
    /// A block becomes free for others and joins the gaps beside it.
    fn complete(&mut self, id: AllocationId) {
        let lives = &self.memory.allocations;
        let (size, requested, address) = (lives.sizes()[id.row()], lives.requested()[id.row()], lives.addresses()[id.row()]);
        let (class, segment) = self.segment_of(id);
        self.change(Metric::ActiveBytes, class, -i128::from(size));
        self.change(Metric::Active, class, -1);
        self.change(Metric::RequestedBytes, class, -i128::from(requested));
        let Some(segment) = segment.filter(|segment| !segment.expandable && !segment.inferred) else { return };
        let Some(end) = self.split.remove(&address) else { return };
        let gap = self.gap(&segment, address);
        let before = [address.saturating_sub(gap.start), gap.end.saturating_sub(end)];
        let after = if gap.is_whole { [0, 0] } else { [gap.end.saturating_sub(gap.start), 0] };
        self.resplit(class, before, after);
    }
    /// Free parts became others; what counts is the net change (`free_block`, `alloc_found_block`).
    fn resplit(&mut self, class: SizeClass, before: [u64; 2], after: [u64; 2]) {
        let bytes = |parts: [u64; 2]| parts.iter().map(|part| i128::from(*part)).sum::<i128>();
        let count = |parts: [u64; 2]| parts.iter().filter(|part| 0 < **part).count() as i128;
        self.change(Metric::InactiveSplitBytes, class, bytes(after) - bytes(before));
        self.change(Metric::InactiveSplit, class, count(after) - count(before));
    }
    /// The free range around an address at which no block begins.
    fn gap(&self, segment: &Segment, address: u64) -> FreeRange {
        let before = self.split.range(..address).next_back().filter(|(start, _)| segment.address <= **start);
        let after = self.split.range(address..).next().filter(|(start, _)| **start < segment.end());
        FreeRange {
            start: before.map_or(segment.address, |(_, end)| *end),
            end: after.map_or(segment.end(), |(start, _)| *start),
            is_whole: before.is_none() && after.is_none(),
        }
    }
}

/// A free range of a segment.
struct FreeRange {
    start: u64,
    end: u64,
    /// It is all of the segment, so no split.
    is_whole: bool,
}

impl Query for MemorySummary {
    const NAME: &'static str = "memory summary";
    type Params = Position;
    type Answer = MemorySummary;

    fn answer(asked: &Asked<'_>, position: &Position, progress: &Progress) -> Result<MemorySummary, Cancelled> {
        MemorySummary::of(asked.subject.snapshot, asked.memory(), asked.replay(), *position, progress)
    }
}

impl HeapSize for MemorySummary {
    fn heap_size(&self) -> usize {
        0
    }
}
