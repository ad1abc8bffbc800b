//! Pairs the events of a trace into block lives, and ties them to the file's segments.
//!
//! Always, when done: lives are ordered by birth, those older than the trace first, the longest lived at
//! the front; every event about a block names its life; at the end of the trace the live blocks are
//! those of the file's segments wherever trace and file agree, with their stated sizes. Sizes that no
//! file states are inferred by [`sizes`]. Each contradiction is a warning, none a failure.

use crate::base::{Cancelled, Column, Progress};
use crate::model::snapshot::NO_SUBJECT;
use crate::model::{
    Action, Allocation, AllocationFlags, Allocations, AllocatorSettings, BlockState, DeviceMemory, EventIdx, PoolId, Position,
    Segment, SegmentId, SizeClass, StackId, StreamId, Trace, WarningKind, Warnings,
};
use crate::replay::builder::{BlockRecord, DeviceRecord, SegmentRecord, note};
use crate::replay::pieces::{self, Pieces};
use crate::replay::{sizes, time_order};
use rustc_hash::FxHashMap;

/// What came to light while pairing, for the judgement of coverage.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Blocks of the trace's end that the file's segments do not hold, and segments likewise.
    pub missing_at_end: u64,
    /// Blocks in no known segment.
    pub without_segment: u64,
    /// Lives whose size is neither stated nor follows from a known gap: older than the trace and freed in it.
    pub sizes_guessed: u64,
    /// The rounding that was inferred from the file's blocks because its settings are not stated; 0: none.
    pub roundup_guessed: u64,
}

/// A device's memory with what came to light while inferring it.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// The memory.
    pub memory: DeviceMemory,
    /// What came to light.
    pub findings: Findings,
}

/// Infers the lives of one device; `tells_segments` where its source tells of segments at all.
pub fn infer(
    ordinal: i32,
    record: DeviceRecord,
    tells_segments: bool,
    settings: &AllocatorSettings,
    warnings: &mut Warnings,
    progress: &Progress,
) -> Result<Lives, Cancelled> {
    let DeviceRecord { mut trace, mut segments, segments_known, block_sizes, mut start, start_is_exact, .. } = record;
    progress.stage("pairing events", trace.len() as u64)?;
    // A source that knows its blocks' sizes is no ring.
    let ordered = if block_sizes.is_empty() { time_order::in_order(&trace) } else { None };
    if let Some((ordered, runs)) = ordered {
        warnings.push(WarningKind::RingOutOfOrder, || format!("device {ordinal}: {runs} runs of events"));
        trace = ordered;
    }
    segments.sort_by_key(|segment| segment.address);
    for segment in segments.iter_mut().chain(&mut start) {
        segment.size = fitting(segment.address, segment.size);
    }
    let (exact, told) = if start_is_exact { (start, Vec::new()) } else { (Vec::new(), start) };
    let mut pieces = pieces::infer(ordinal, &trace, &exact, &segments, segments_known, warnings);
    pieces::tie_to_start(&mut pieces, &told, segments_known);
    let mut pairing = Pairing::new(ordinal, &trace, &block_sizes, warnings);
    pairing.begin_with(&exact);
    pairing.walk(progress)?;
    pairing.tie_to_end(&segments, segments_known);
    pairing.tie_to_start(&told, segments_known);
    let Pairing { rows, subjects, unmatched_frees, missing_at_end, .. } = pairing;

    progress.stage("inferring sizes", trace.len() as u64)?;
    let mut findings = Findings { missing_at_end: missing_at_end + pieces.missing_at_end, ..Findings::default() };
    let mut work = Work { ordinal, rows, subjects, pieces, tells_segments };
    sizes::infer(&mut work, &trace, &segments, settings, &mut findings, warnings, progress)?;
    let Work { rows, subjects, pieces, .. } = work;

    let (segments, segment_ids) = in_order_of_birth(pieces.rows);
    let (allocations, subjects) = freeze(rows, subjects, &segment_ids);
    let mut memory = DeviceMemory {
        ordinal,
        trace,
        allocations,
        segments,
        subjects,
        unmatched_frees,
        start_stated: start_is_exact,
        ..DeviceMemory::default()
    };
    memory.trace.shrink_to_fit();
    check_snapshot_totals(&memory, warnings);
    Ok(Lives { memory, findings })
}

/// Compares the active bytes that the trace's first snapshot events state with the lives: an independent
/// check of the inferred sizes. (Each costs a walk over the lives, hence only the first few.)
fn check_snapshot_totals(memory: &DeviceMemory, warnings: &mut Warnings) {
    const CHECKED: usize = 8;
    let snapshots = memory.trace.events().filter(|event| memory.trace.actions()[event.0 as usize] == Action::Snapshot);
    for event in snapshots.take(CHECKED) {
        let position = Position::after(event);
        let lives = &memory.allocations;
        let born = lives.born_by(position);
        let alive = |row: &usize| position < lives.died()[*row];
        let active: u64 = (0..born).filter(alive).map(|row| lives.sizes()[row]).fold(0, u64::saturating_add);
        let stated = memory.trace.sizes()[event.0 as usize];
        if active != stated {
            let ordinal = memory.ordinal;
            warnings.push(WarningKind::SnapshotTotalDiffers, || {
                format!("device {ordinal}, event {}: the file states {stated} active bytes, the replay has {active}", event.0)
            });
        }
    }
}

/// Lives in order of discovery, before they are frozen into columns.
pub(crate) struct Work {
    /// The device, for messages.
    pub ordinal: i32,
    /// Block lives.
    pub rows: Vec<Allocation>,
    /// The life of each event, by row.
    pub subjects: Vec<u32>,
    /// Segment lives.
    pub pieces: Pieces,
    /// Whether the source tells of segments: where it does not, a block in none is no contradiction.
    pub tells_segments: bool,
}

/// A piece no block is tied to yet.
pub(crate) const NO_PIECE: SegmentId = SegmentId(u32::MAX);

struct Pairing<'a> {
    ordinal: i32,
    trace: &'a Trace,
    /// The size of the block of each event, where the source knows it; empty where it knows none.
    block_sizes: &'a [u64],
    warnings: &'a mut Warnings,
    rows: Vec<Allocation>,
    subjects: Vec<u32>,
    /// Of each address ever seen: its latest life, and how many lives it had before that one.
    seen: FxHashMap<u64, Seen>,
    unmatched_frees: u64,
    missing_at_end: u64,
    /// Which of the two free actions the recording holds at all: `skip_actions` can leave one out.
    has_requests: bool,
    has_completions: bool,
    has_allocs: bool,
}

#[derive(Clone, Copy)]
struct Seen {
    row: u32,
    uses: u32,
    open: bool,
    /// A block of the file's segments is this life.
    tied: bool,
}

impl<'a> Pairing<'a> {
    fn new(ordinal: i32, trace: &'a Trace, block_sizes: &'a [u64], warnings: &'a mut Warnings) -> Self {
        let has = |action| trace.actions().contains(&action);
        let allocs = trace.actions().iter().filter(|action| **action == Action::Alloc).count();
        Self {
            ordinal,
            trace,
            block_sizes,
            warnings,
            rows: Vec::with_capacity(allocs + allocs / 16),
            subjects: vec![NO_SUBJECT; trace.len()],
            seen: FxHashMap::default(),
            unmatched_frees: 0,
            missing_at_end: 0,
            has_requests: has(Action::FreeRequested),
            has_completions: has(Action::FreeCompleted),
            has_allocs: has(Action::Alloc),
        }
    }

    /// Opens the lives that the source states for the start.
    fn begin_with(&mut self, start: &[SegmentRecord]) {
        for segment in start {
            for (address, block) in addressed(segment).filter(|(_, block)| block.state != BlockState::Inactive) {
                if self.seen.contains_key(&address) {
                    let ordinal = self.ordinal;
                    self.warnings
                        .push(WarningKind::BadLayout, || format!("device {ordinal}, two blocks at 0x{address:x} at the start"));
                    continue;
                }
                let pending = block.state == BlockState::ActivePendingFree;
                self.open(Allocation {
                    address,
                    size: block.size,
                    requested: block.requested.unwrap_or(block.size),
                    born: Position::START,
                    freed: if pending { Position::START } else { Position::NEVER },
                    died: Position::NEVER,
                    stream: segment.stream,
                    segment: NO_PIECE,
                    stack: block.stack,
                    use_number: 0,
                    flags: AllocationFlags::SIZE_STATED,
                });
            }
        }
    }

    fn walk(&mut self, progress: &Progress) -> Result<(), Cancelled> {
        let mut latest_us = i64::MIN;
        for event in self.trace.events() {
            if event.0 % 65_536 == 0 {
                progress.at(u64::from(event.0))?;
            }
            if let Some(time_us) = self.trace.time_us(event) {
                if time_us < latest_us {
                    let ordinal = self.ordinal;
                    self.warnings.push(WarningKind::TimeBackwards, || format!("device {ordinal}, event {}", event.0));
                }
                latest_us = latest_us.max(time_us);
            }
            match self.trace.actions()[event.0 as usize] {
                Action::Alloc => self.alloc(event),
                Action::FreeRequested => self.free(event, self.has_completions),
                Action::FreeCompleted => self.free_completed(event),
                Action::Annotate => {
                    if let Some(seen) = self.seen.get(&self.trace.addresses()[event.0 as usize]).filter(|seen| seen.open) {
                        self.subjects[event.0 as usize] = seen.row;
                    }
                }
                Action::SegmentAlloc
                | Action::SegmentFree
                | Action::SegmentMap
                | Action::SegmentUnmap
                | Action::Snapshot
                | Action::Oom
                | Action::Unknown => {}
            }
        }
        Ok(())
    }

    fn alloc(&mut self, event: EventIdx) {
        let i = event.0 as usize;
        let position = Position::after(event);
        let address = self.trace.addresses()[i];
        let (size, mut flags) = self.stated_size(i);
        flags.set(AllocationFlags::ALLOC_SEEN);
        let life = Allocation {
            address,
            size,
            requested: self.trace.sizes()[i],
            born: position,
            freed: Position::NEVER,
            died: Position::NEVER,
            stream: self.trace.streams()[i],
            segment: NO_PIECE,
            stack: self.trace.stacks()[i],
            use_number: 0,
            flags,
        };
        if let Some(seen) = self.seen.get(&address).copied().filter(|seen| seen.open) {
            note(self.warnings, WarningKind::AlreadyLive, self.ordinal, event.0, "block allocated twice", address);
            let older = &mut self.rows[seen.row as usize];
            older.freed = older.freed.min(position);
            older.died = position;
            older.flags.set(AllocationFlags::IMPLIED);
        }
        self.subjects[i] = self.open(life);
    }

    /// The size of the block an event is about, with the flag that says so; 0 without it where the source does not tell.
    fn stated_size(&self, event: usize) -> (u64, AllocationFlags) {
        match self.block_sizes.get(event).copied().unwrap_or(0) {
            0 => (0, AllocationFlags::default()),
            size => (fitting(self.trace.addresses()[event], size), AllocationFlags::SIZE_STATED),
        }
    }

    /// Adds a life and makes it the current one of its address.
    fn open(&mut self, life: Allocation) -> u32 {
        let row = self.rows.len() as u32;
        let uses = self.seen.get(&life.address).map_or(0, |seen| seen.uses + 1);
        self.rows.push(Allocation { use_number: uses, ..life });
        self.seen.insert(life.address, Seen { row, uses, open: true, tied: false });
        row
    }

    /// The life a free is about; made up when it is older than the trace.
    fn freed_life(&mut self, event: EventIdx) -> Option<u32> {
        let i = event.0 as usize;
        let address = self.trace.addresses()[i];
        let born = match self.seen.get(&address) {
            Some(seen) if seen.open => return Some(seen.row),
            None => Position::START,
            // Allocs were left out of the recording: every free implies one since the last free.
            Some(seen) if !self.has_allocs => self.rows[seen.row as usize].died,
            Some(_) => {
                note(self.warnings, WarningKind::FreeWithoutAlloc, self.ordinal, event.0, "free of a free block", address);
                return None;
            }
        };
        self.unmatched_frees += 1;
        let (size, mut flags) = self.stated_size(i);
        if born != Position::START {
            flags.set(AllocationFlags::IMPLIED);
        }
        Some(self.open(Allocation {
            address,
            size,
            requested: self.trace.sizes()[i],
            born,
            freed: Position::NEVER,
            died: Position::NEVER,
            stream: self.trace.streams()[i],
            segment: NO_PIECE,
            stack: StackId::ABSENT,
            use_number: 0,
            flags,
        }))
    }

    /// `free_requested`; where completions were not recorded it stands for both.
    fn free(&mut self, event: EventIdx, completes_later: bool) {
        let Some(row) = self.freed_life(event) else { return };
        let position = Position::after(event);
        self.subjects[event.0 as usize] = row;
        let life = &mut self.rows[row as usize];
        if life.freed != Position::NEVER {
            let address = life.address;
            note(self.warnings, WarningKind::FreeWithoutAlloc, self.ordinal, event.0, "block freed twice", address);
            return;
        }
        life.freed = position;
        life.flags.set(AllocationFlags::FREE_SEEN);
        if !completes_later {
            self.close(row, position);
        }
    }

    fn free_completed(&mut self, event: EventIdx) {
        let known = self.rows.len();
        let Some(row) = self.freed_life(event) else { return };
        let position = Position::after(event);
        self.subjects[event.0 as usize] = row;
        let older_and_pending = row as usize == known && self.has_requests;
        let life = &mut self.rows[row as usize];
        if life.freed == Position::NEVER {
            // A completion as first sight: the request came before the trace, unless requests are not recorded.
            // In a trace of one event nothing tells the two apart; pending is what PyTorch's order implies.
            let pending_from_start = older_and_pending || (row as usize == known && self.trace.len() == 1);
            life.freed = if pending_from_start { life.born } else { position };
            life.flags.set(AllocationFlags::FREE_SEEN);
        }
        self.close(row, position);
    }

    fn close(&mut self, row: u32, position: Position) {
        let life = &mut self.rows[row as usize];
        life.died = position;
        if let Some(seen) = self.seen.get_mut(&life.address) {
            seen.open = false;
        }
    }

    /// Ties the live blocks of the trace's end to those of the file.
    fn tie_to_end(&mut self, segments: &[SegmentRecord], known: bool) {
        let mut tied = 0u64;
        for segment in segments {
            self.check_totals(segment);
            let end = segment.address.saturating_add(segment.size);
            for (address, block) in addressed(segment) {
                if address < segment.address || end < address.saturating_add(block.size) {
                    let ordinal = self.ordinal;
                    self.warnings
                        .push(WarningKind::BadLayout, || format!("device {ordinal}, block at 0x{address:x} leaves its segment"));
                }
                if block.state != BlockState::Inactive {
                    tied += u64::from(self.tie(segment, address, block));
                }
            }
        }
        let open = self.seen.values().filter(|seen| seen.open).count() as u64;
        if known && tied < open {
            self.missing_at_end = open - tied;
            let ordinal = self.ordinal;
            for _ in tied..open {
                self.warnings.push(WarningKind::EndMismatch, || format!("device {ordinal}"));
            }
        }
    }

    /// Ties what is older than the trace to the blocks that the source states for its start: their sizes and stacks are
    /// known then, and where nothing states the end, those that no event is about are live throughout.
    fn tie_to_start(&mut self, start: &[SegmentRecord], end_known: bool) {
        if start.is_empty() {
            return;
        }
        let older = self.rows.iter().enumerate().filter(|(_, life)| life.born == Position::START);
        let older: FxHashMap<u64, u32> = older.map(|(row, life)| (life.address, row as u32)).collect();
        for segment in start {
            for (address, block) in addressed(segment).filter(|(_, block)| block.state != BlockState::Inactive) {
                let requested = block.requested.unwrap_or(block.size);
                let pending = block.state == BlockState::ActivePendingFree;
                if let Some(row) = older.get(&address) {
                    let life = &mut self.rows[*row as usize];
                    if !life.flags.has(AllocationFlags::SIZE_STATED) {
                        (life.size, life.requested, life.stream) = (block.size, requested, segment.stream);
                        life.flags.set(AllocationFlags::SIZE_STATED);
                    }
                    if life.stack == StackId::ABSENT {
                        life.stack = block.stack;
                    }
                } else if !end_known && !self.seen.contains_key(&address) {
                    let mut flags = AllocationFlags::default();
                    flags.set(AllocationFlags::SIZE_STATED);
                    self.open(Allocation {
                        address,
                        size: block.size,
                        requested,
                        born: Position::START,
                        freed: if pending { Position::START } else { Position::NEVER },
                        died: Position::NEVER,
                        stream: segment.stream,
                        segment: NO_PIECE,
                        stack: block.stack,
                        use_number: 0,
                        flags,
                    });
                }
            }
        }
    }

    /// Compares what the file states of a segment with the sum of its blocks.
    fn check_totals(&mut self, segment: &SegmentRecord) {
        let sum = |wanted: &dyn Fn(&BlockRecord) -> bool, bytes: &dyn Fn(&BlockRecord) -> u64| -> u64 {
            segment.blocks.iter().filter(|block| wanted(block)).map(bytes).fold(0, u64::saturating_add)
        };
        let active = |block: &BlockRecord| block.state != BlockState::Inactive;
        let sums = [
            sum(&|block| block.state == BlockState::ActiveAllocated, &|block| block.size),
            sum(&active, &|block| block.size),
            sum(&active, &|block| block.requested.unwrap_or(block.size)),
        ];
        let whole = segment.blocks.is_empty() || sum(&|_| true, &|block| block.size) == segment.size;
        let differs = segment.stated_totals.iter().zip(sums).any(|(stated, sum)| stated.is_some_and(|stated| stated != sum));
        if differs || !whole {
            let (ordinal, address) = (self.ordinal, segment.address);
            self.warnings.push(WarningKind::TotalsDiffer, || format!("device {ordinal}, segment at 0x{address:x}"));
        }
    }

    /// Ties one active block of the file to its life, or gives it one; false where the file repeats an address.
    fn tie(&mut self, segment: &SegmentRecord, address: u64, block: BlockRecord) -> bool {
        let pending = block.state == BlockState::ActivePendingFree;
        let requested = block.requested.unwrap_or(block.size);
        match self.seen.get(&address).copied() {
            Some(seen) if seen.open => {
                if seen.tied {
                    let ordinal = self.ordinal;
                    self.warnings.push(WarningKind::BadLayout, || format!("device {ordinal}, two blocks at 0x{address:x}"));
                    return false;
                }
                self.seen.insert(address, Seen { tied: true, ..seen });
                let life = &mut self.rows[seen.row as usize];
                life.size = block.size;
                life.requested = requested;
                life.flags.set(AllocationFlags::SIZE_STATED);
                if life.stack == StackId::ABSENT {
                    life.stack = block.stack;
                }
                if pending && life.freed == Position::NEVER {
                    life.freed = self.trace.end();
                    life.flags.set(AllocationFlags::IMPLIED);
                }
                true
            }
            before => {
                // Never seen: live throughout. Seen and freed: allocated again after the trace's last event.
                let mut flags = AllocationFlags::SIZE_STATED;
                let born = if before.is_none() { Position::START } else { self.trace.end() };
                if before.is_some() {
                    flags.set(AllocationFlags::IMPLIED);
                    let ordinal = self.ordinal;
                    self.warnings.push(WarningKind::NewerThanTrace, || format!("device {ordinal}, block at 0x{address:x}"));
                }
                let row = self.open(Allocation {
                    address,
                    size: block.size,
                    requested,
                    born,
                    freed: if pending { born } else { Position::NEVER },
                    died: Position::NEVER,
                    stream: segment.stream,
                    segment: NO_PIECE,
                    stack: block.stack,
                    use_number: 0,
                    flags,
                });
                self.seen.entry(address).and_modify(|seen| seen.tied = seen.row == row);
                true
            }
        }
    }
}

/// A segment's blocks with their addresses; files before 2.1 leave them out, blocks then tile their segment.
pub(crate) fn addressed(segment: &SegmentRecord) -> impl Iterator<Item = (u64, BlockRecord)> + '_ {
    let mut cursor = segment.address;
    segment.blocks.iter().map(move |block| {
        let address = block.address.unwrap_or(cursor);
        let size = fitting(address, block.size);
        cursor = address + size;
        (address, BlockRecord { size, ..*block })
    })
}

/// What of a size lies below the last address there is: so sums over what does not overlap never pass 64 bits.
pub(crate) fn fitting(address: u64, size: u64) -> u64 {
    size.min(u64::MAX - address)
}

/// Sorts segment lives by birth and address; gives the new id of each old row.
fn in_order_of_birth(rows: Vec<Segment>) -> (Column<SegmentId, Segment>, Vec<SegmentId>) {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|row| (rows[*row as usize].born, rows[*row as usize].address));
    let mut ids = vec![SegmentId(0); rows.len()];
    for (id, row) in order.iter().enumerate() {
        ids[*row as usize] = SegmentId(id as u32);
    }
    (order.iter().map(|row| rows[*row as usize]).collect::<Vec<_>>().into(), ids)
}

/// Puts lives in order of birth and renames them in `subjects`. Of those older than the trace the longest
/// lived come first, so that in the stacked picture what never moves lies at the bottom.
fn freeze(rows: Vec<Allocation>, mut subjects: Vec<u32>, segment_ids: &[SegmentId]) -> (Allocations, Vec<u32>) {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|row| {
        let life = &rows[*row as usize];
        let older = life.born == Position::START;
        let longest_first = if older { std::cmp::Reverse(life.died.0) } else { std::cmp::Reverse(0) };
        (life.born, longest_first, if older { life.address } else { u64::from(*row) })
    });
    let mut renamed = vec![0u32; rows.len()];
    let mut allocations = Allocations::with_capacity(rows.len());
    for row in &order {
        let life = rows[*row as usize];
        let segment = segment_ids.get(life.segment.0 as usize).copied().unwrap_or(life.segment);
        renamed[*row as usize] = allocations.push(Allocation { segment, ..life }).0;
    }
    for subject in subjects.iter_mut().filter(|subject| **subject != NO_SUBJECT) {
        *subject = renamed[*subject as usize];
    }
    (allocations, subjects)
}

/// A segment made up around a block that lies in none.
pub(crate) fn own_segment(life: &Allocation) -> Segment {
    Segment {
        address: life.address,
        size: life.size,
        born: life.born,
        died: life.died,
        stream: if life.stream.0 == u32::MAX { StreamId::DEFAULT } else { life.stream },
        pool: PoolId::DEFAULT,
        class: if life.size <= crate::model::settings::SMALL_LIMIT { SizeClass::Small } else { SizeClass::Large },
        expandable: false,
        stack: StackId::ABSENT,
        inferred: true,
    }
}
