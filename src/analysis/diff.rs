//! Two moments compared: of two recordings, or of one.
//!
//! A is the baseline, B the subject; without a baseline both are moments of the subject. Always: what is compared is
//! matched by the text of its stack and by size, never by address; the differences of all rows add up to the
//! difference of `allocated`, by stack and by stack and size alike; a moment compared with itself has no row. Rows
//! stand by how much they differ, the largest first; equal ones in the order in which their stacks appear.

use crate::analysis::lifetime::Sum;
use crate::analysis::query::{Asked, Query, Subject};
use crate::analysis::summary::Counters;
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, HeapSize, Progress, StringId};
use crate::model::{AllocatorSettings, BlockState, DeviceId, DeviceMemory, Frame, FrameId, Position, Snapshot, StackId};
use crate::model::{SizeClass, StackTable};
use crate::replay::{MemoryState, PoolState, Replay};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Which moments are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DiffParams {
    /// The device of the baseline.
    pub device_a: DeviceId,
    /// The moment of the baseline.
    pub at_a: Position,
    /// The moment of the subject.
    pub at_b: Position,
    /// Whether frames match whatever their line: lines move from one version of a program to the next.
    pub ignore_lines: bool,
}

/// What one stack, or the blocks of one size at it, hold on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffRow {
    /// The stack in [`SnapshotDiff::stacks`]; [`StackId::EMPTY`] for all blocks without one.
    pub stack: StackId,
    /// The size of the blocks; none: blocks of all sizes.
    pub size: Option<u64>,
    /// Number of blocks and bytes in A.
    pub a: Sum,
    /// Number of blocks and bytes in B.
    pub b: Sum,
}

/// On which side a row has blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiffSide {
    /// Only in A: it is gone.
    OnlyA,
    /// Only in B: it is new.
    OnlyB,
    /// In both, but not the same.
    Both,
}

impl DiffSide {
    /// All sides, in the order of the tables.
    pub const ALL: [DiffSide; 3] = [DiffSide::OnlyA, DiffSide::OnlyB, DiffSide::Both];
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            DiffSide::OnlyA => "only in A",
            DiffSide::OnlyB => "only in B",
            DiffSide::Both => "in both",
        }
    }
}

impl DiffRow {
    /// How many bytes more B holds.
    pub fn delta(&self) -> i128 {
        i128::from(self.b.bytes) - i128::from(self.a.bytes)
    }
    /// How many blocks more B holds.
    pub fn count_delta(&self) -> i64 {
        i64::try_from(i128::from(self.b.count) - i128::from(self.a.count)).unwrap_or(i64::MAX)
    }
    /// On which side it has blocks.
    pub fn side(&self) -> DiffSide {
        match (self.a.count, self.b.count) {
            (_, 0) => DiffSide::OnlyA,
            (0, _) => DiffSide::OnlyB,
            _ => DiffSide::Both,
        }
    }
}

/// One half of a pool on one stream, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolDiff {
    /// PyTorch's pair for the pool.
    pub pool: (i64, i64),
    /// Its half.
    pub class: SizeClass,
    /// The stream, counted as streams appear in the recording; 0 is the default one. Handles are addresses and tell
    /// nothing across recordings.
    pub stream: u32,
    /// What it holds in A; none where it has no segment.
    pub a: Option<PoolState>,
    /// What it holds in B.
    pub b: Option<PoolState>,
}

/// How many of one class of sizes there are on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassDiff {
    /// The least size of the class, a power of two; it ends before the next.
    pub from: u64,
    /// Those in A.
    pub a: Sum,
    /// Those in B.
    pub b: Sum,
}

/// A setting that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDiff {
    /// Its name.
    pub name: String,
    /// Its value in A.
    pub a: String,
    /// Its value in B.
    pub b: String,
}

/// The answer.
#[derive(Clone, Default)]
pub struct SnapshotDiff {
    /// Whether frames were matched whatever their line; a frame then stands with the first line seen.
    pub ignore_lines: bool,
    /// The stacks of both sides, frames that read alike being one.
    pub stacks: StackTable,
    /// For each stack of the table the one that reads so in A and in B, where there is one with blocks.
    pub places: Vec<[Option<StackId>; 2]>,
    /// Stacks that do not hold the same.
    pub by_stack: Vec<DiffRow>,
    /// Sizes at stacks of which there are not as many.
    pub by_size: Vec<DiffRow>,
    /// Number of stacks that hold the same on both sides.
    pub same_stacks: usize,
    /// What these hold.
    pub same: Sum,
    /// The state in A.
    pub a: Counters,
    /// The state in B.
    pub b: Counters,
    /// Halves of pools, by pool, half and stream.
    pub pools: Vec<PoolDiff>,
    /// Gaps inside segments, the smallest class first.
    pub gaps: Vec<ClassDiff>,
    /// Segments, the smallest class first.
    pub segments: Vec<ClassDiff>,
    /// Settings that differ.
    pub settings: Vec<SettingDiff>,
}

impl SnapshotDiff {
    /// How many bytes more B has allocated: the sum over all rows.
    pub fn total_delta(&self) -> i128 {
        self.by_stack.iter().map(DiffRow::delta).sum()
    }
    /// Whether both sides hold the same blocks, as far as stacks and sizes tell.
    pub fn is_empty(&self) -> bool {
        self.by_stack.is_empty() && self.by_size.is_empty()
    }
    /// The stacks of one side, the largest difference first.
    pub fn side(&self, side: DiffSide) -> impl Iterator<Item = &DiffRow> {
        self.by_stack.iter().filter(move |row| row.side() == side)
    }
    /// The stack of this table that reads like one of A (row 0) or B (row 1).
    pub fn stack_of(&self, side: usize, stack: StackId) -> Option<StackId> {
        let row = self.places.iter().position(|places| places.get(side) == Some(&Some(stack)))?;
        Some(StackId::of_row(row))
    }
}

impl Query for SnapshotDiff {
    const NAME: &'static str = "comparison";
    type Params = DiffParams;
    type Answer = SnapshotDiff;

    fn answer(asked: &Asked<'_>, params: &DiffParams, progress: &Progress) -> Result<SnapshotDiff, Cancelled> {
        let Some(a) = baseline(asked, params.device_a) else { return Ok(SnapshotDiff::default()) };
        let b = Side { snapshot: asked.subject.snapshot, memory: asked.memory(), replay: asked.replay() };
        progress.stage("comparing stacks", 2)?;
        let mut held = Blocks { ignore_lines: params.ignore_lines, ..Blocks::default() };
        held.add(0, &a, params.at_a);
        progress.at(1)?;
        held.add(1, &b, params.at_b);
        progress.stage("comparing states", 0)?;
        let [state_a, state_b] = [(&a, params.at_a), (&b, params.at_b)].map(|(side, at)| side.state(at));
        progress.check()?;
        let mut diff = held.finish();
        (diff.a, diff.b) = (Counters::of(&state_a, &a.memory.trace), Counters::of(&state_b, &b.memory.trace));
        diff.pools = pools([(&a, &state_a), (&b, &state_b)]);
        diff.gaps = classes([&state_a, &state_b].map(|state| {
            let gaps = state.blocks.iter().filter(|block| block.state == BlockState::Inactive);
            gaps.map(|block| block.size).collect()
        }));
        diff.segments = classes([&state_a, &state_b].map(|state| {
            let named = state.segments.iter().filter(|segment| !segment.inferred);
            named.map(|segment| segment.size).collect()
        }));
        diff.settings = settings(&a.snapshot.settings, &b.snapshot.settings);
        Ok(diff)
    }
}

/// One side of a comparison.
struct Side<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    replay: &'a Replay,
}

impl Side<'_> {
    fn state(&self, at: Position) -> MemoryState {
        self.replay.state_at(self.memory, at.min(self.memory.end()))
    }
}

/// The baseline's device, if there is such a one.
fn baseline<'a>(asked: &Asked<'a>, device: DeviceId) -> Option<Side<'a>> {
    let Subject { snapshot, replays } = asked.baseline.unwrap_or(asked.subject);
    Some(Side { snapshot, memory: snapshot.devices.get(device)?, replay: replays.get(device.row())? })
}

/// Allocated blocks of both sides, by stack and size.
#[derive(Default)]
struct Blocks {
    ignore_lines: bool,
    /// With lines ignored, the frame of each function and file.
    functions: FxHashMap<(StringId, StringId), FrameId>,
    stacks: StackTable,
    places: Vec<[Option<StackId>; 2]>,
    sums: FxHashMap<(StackId, u64), [Sum; 2]>,
}

impl Blocks {
    /// From the ids, not from the laid-out state: contradictory files may hold blocks in no segment.
    fn add(&mut self, side: usize, of: &Side<'_>, at: Position) {
        let at = at.min(of.memory.end());
        let mut ids = Vec::new();
        of.replay.live_at(of.memory, at, &mut ids);
        let lives = &of.memory.allocations;
        let from = &of.snapshot.stacks;
        let mut frames: FxHashMap<FrameId, FrameId> = FxHashMap::default();
        let mut known: FxHashMap<StackId, StackId> = FxHashMap::default();
        let mut written = Vec::new();
        for row in ids.iter().map(|id| id.row()).filter(|row| at < lives.freed()[*row]) {
            let (own, size) = (lives.stacks()[row], lives.sizes()[row]);
            let stack = *known.entry(own).or_insert_with(|| {
                written.clear();
                for frame in from.frames(own) {
                    written.push(*frames.entry(*frame).or_insert_with(|| {
                        let Frame { line, .. } = from.frame(*frame);
                        let name = self.stacks.strings.intern(from.function(*frame));
                        let filename = self.stacks.strings.intern(from.file(*frame));
                        let new = self.stacks.intern_frame(Frame { name, filename, line });
                        if self.ignore_lines { *self.functions.entry((name, filename)).or_insert(new) } else { new }
                    }));
                }
                self.stacks.intern(&written)
            });
            if self.places.len() <= stack.row() {
                self.places.resize(stack.row() + 1, [None; 2]);
            }
            self.places[stack.row()][side].get_or_insert(own);
            self.sums.entry((stack, size)).or_default()[side].add(size);
        }
    }
    fn finish(mut self) -> SnapshotDiff {
        self.places.resize(self.stacks.len(), [None; 2]);
        let mut by_stack = vec![[Sum::default(); 2]; self.stacks.len()];
        let mut by_size = Vec::new();
        for ((stack, size), sums) in self.sums {
            for (sum, one) in by_stack[stack.row()].iter_mut().zip(sums) {
                sum.bytes = sum.bytes.saturating_add(one.bytes);
                sum.count += one.count;
            }
            let [a, b] = sums;
            by_size.extend((a != b).then_some(DiffRow { stack, size: Some(size), a, b }));
        }
        let rows = by_stack.iter().enumerate().map(|(row, [a, b])| (StackId::of_row(row), *a, *b));
        let ignore_lines = self.ignore_lines;
        let mut diff =
            SnapshotDiff { ignore_lines, stacks: self.stacks, places: self.places, by_size, ..SnapshotDiff::default() };
        for (stack, a, b) in rows {
            if a != b {
                diff.by_stack.push(DiffRow { stack, size: None, a, b });
            } else if 0 < a.count {
                diff.same_stacks += 1;
                diff.same.bytes = diff.same.bytes.saturating_add(a.bytes);
                diff.same.count += a.count;
            }
        }
        for rows in [&mut diff.by_stack, &mut diff.by_size] {
            rows.sort_unstable_by_key(|row| {
                (Reverse(row.delta().unsigned_abs()), Reverse(row.count_delta().unsigned_abs()), row.stack, row.size)
            });
        }
        diff
    }
}

/// Halves of pools that have a segment on either side.
fn pools(sides: [(&Side<'_>, &MemoryState); 2]) -> Vec<PoolDiff> {
    let mut found: BTreeMap<((i64, i64), SizeClass, u32), [Option<PoolState>; 2]> = BTreeMap::new();
    for (place, (side, state)) in sides.into_iter().enumerate() {
        for pool in &state.pools {
            let key = (side.snapshot.pools.pair(pool.pool), pool.class, pool.stream.0);
            found.entry(key).or_default()[place] = Some(*pool);
        }
    }
    found.into_iter().map(|((pool, class, stream), [a, b])| PoolDiff { pool, class, stream, a, b }).collect()
}

/// Sizes of both sides by power of two.
fn classes(sizes: [Vec<u64>; 2]) -> Vec<ClassDiff> {
    let mut found: BTreeMap<u64, [Sum; 2]> = BTreeMap::new();
    for (side, sizes) in sizes.into_iter().enumerate() {
        for size in sizes {
            found.entry(1 << size.max(1).ilog2()).or_default()[side].add(size);
        }
    }
    found.into_iter().map(|(from, [a, b])| ClassDiff { from, a, b }).collect()
}

/// Settings that differ, by PyTorch's names.
fn settings(a: &AllocatorSettings, b: &AllocatorSettings) -> Vec<SettingDiff> {
    const UNKNOWN: &str = "not in the file";
    if a.stated != b.stated {
        let words = |of: &AllocatorSettings| match (of.stated, of.conf.as_str()) {
            (false, _) => UNKNOWN.to_owned(),
            (true, "") => "defaults".to_owned(),
            (true, conf) => conf.to_owned(),
        };
        return vec![SettingDiff { name: "settings".to_owned(), a: words(a), b: words(b) }];
    }
    let (rows_a, rows_b) = (named(a), named(b));
    let value = |rows: &[(String, String)], name: &str| {
        rows.iter().find(|(known, _)| known == name).map_or_else(|| UNKNOWN.to_owned(), |(_, value)| value.clone())
    };
    let new = rows_b.iter().filter(|(name, _)| rows_a.iter().all(|(known, _)| known != name));
    let names = rows_a.iter().chain(new).map(|(name, _)| name);
    let rows = names.map(|name| SettingDiff { name: name.clone(), a: value(&rows_a, name), b: value(&rows_b, name) });
    rows.filter(|row| row.a != row.b).collect()
}

/// All settings with their values as people write them.
fn named(of: &AllocatorSettings) -> Vec<(String, String)> {
    let size = |bytes: u64| Bytes(bytes).to_string();
    let share = |share: f64| if share == 0.0 { "off".to_owned() } else { share.to_string() };
    let divisions = match of.roundup_power2_divisions {
        [first, ref rest @ ..] if rest.iter().all(|other| *other == first) => match first {
            0 => "off".to_owned(),
            number => number.to_string(),
        },
        all => all.map(|number| number.to_string()).join(", "),
    };
    let mut rows: Vec<(String, String)> = [
        ("max_split_size", of.max_split_size.map_or_else(|| "no limit".to_owned(), size)),
        ("expandable_segments", of.expandable_segments.to_string()),
        ("garbage_collection_threshold", share(of.garbage_collection_threshold)),
        ("roundup_power2_divisions", divisions),
        ("large_segment_size", size(of.large_segment_size)),
        ("max_non_split_rounding", size(of.max_non_split_rounding)),
        (
            "per_process_memory_fraction",
            of.per_process_memory_fraction.map_or_else(|| "not stated".to_owned(), |share| share.to_string()),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    rows.extend(of.other.iter().cloned());
    rows
}

impl HeapSize for SnapshotDiff {
    fn heap_size(&self) -> usize {
        self.stacks.heap_bytes()
            + self.places.capacity() * size_of::<[Option<StackId>; 2]>()
            + (self.by_stack.capacity() + self.by_size.capacity()) * size_of::<DiffRow>()
            + self.pools.capacity() * size_of::<PoolDiff>()
            + (self.gaps.capacity() + self.segments.capacity()) * size_of::<ClassDiff>()
            + (self.a.pools.len() + self.b.pools.len()) * size_of::<PoolState>()
            + self.settings.iter().map(|row| row.name.capacity() + row.a.capacity() + row.b.capacity()).sum::<usize>()
    }
}
