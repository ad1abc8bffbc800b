//! What a comparison says, as plain data: the one source of its text, its JSON and its pages.
//!
//! Always: the names of the fields are those of the JSON, a promise to scripts: add freely, rename nothing. Every figure
//! is one of the comparison; lists stand by how much they differ, the largest first; what is equal is in none.

use crate::analysis::diagnosis::StackBytes;
use crate::analysis::diff_words::{figures, hint, scattered, signed, signed_count, verdict};
use crate::analysis::{
    AlignBy, Asked, ClassDiff, CommonSteps, DiffParams, DiffRow, DiffSide, FlameDirection, FlameOf, FlameParams, FlameTree,
    LiveCounter, PoolDiff, Query as _, SettingDiff, SnapshotDiff, Subject, UsageTimeline,
};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::chart::BlockColour;
use crate::chart::block_words::bare_moment;
use crate::chart::text::{date_time, file_name};
use crate::model::{DeviceId, DeviceMemory, Position, Snapshot, StackId};
use crate::replay::{PoolState, Replay};
use crate::report::page_facts::Namer;
use crate::report::page_model::{Program, State};
use crate::report::report::ReportOptions;
use serde::Serialize;
use std::io::{self, Write};

/// One side of a comparison, prepared.
#[derive(Clone, Copy)]
pub struct ComparedSide<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// One replay a device, by row.
    pub replays: &'a [Replay],
    /// The device.
    pub device: DeviceId,
    /// The moment.
    pub at: Position,
    /// The device's counters over time.
    pub curves: &'a UsageTimeline,
}

impl<'a> ComparedSide<'a> {
    /// The device's memory.
    pub fn memory(&self) -> &'a DeviceMemory {
        &self.snapshot.devices[self.device]
    }
    /// What stands for it in words: `run.pickle, device 0, event 35 572`.
    pub fn words(&self) -> String {
        let memory = self.memory();
        let moment = if memory.has_history() { bare_moment(self.at) } else { "the dump".to_owned() };
        format!("{}, {}, {moment}", file_name(&self.snapshot.origin.name), memory.title())
    }
}

/// All answers about a comparison.
pub struct Compared<'a> {
    /// The baseline.
    pub a: ComparedSide<'a>,
    /// The other side.
    pub b: ComparedSide<'a>,
    /// The comparison.
    pub diff: SnapshotDiff,
    /// Steps that both name.
    pub steps: CommonSteps,
    /// What moved, by stack, frames of the framework folded.
    pub flame: FlameTree,
}

impl<'a> Compared<'a> {
    /// Compares.
    pub fn of(
        a: ComparedSide<'a>,
        b: ComparedSide<'a>,
        ignore_lines: bool,
        progress: &Progress,
    ) -> Result<Compared<'a>, Cancelled> {
        let subject = |side: &ComparedSide<'a>| Subject { snapshot: side.snapshot, replays: side.replays };
        let asked = Asked { subject: subject(&b), baseline: Some(subject(&a)), device: b.device };
        let params = DiffParams { device_a: a.device, at_a: a.at, at_b: b.at, ignore_lines };
        let diff = SnapshotDiff::answer(&asked, &params, progress)?;
        let steps = CommonSteps::answer(&asked, &a.device, progress)?;
        let flame = flame_of(&diff, [a.at, b.at], FlameDirection::TopDown, true, progress)?;
        Ok(Compared { a, b, diff, steps, flame })
    }
    /// The moments that stand above one another.
    pub fn anchors(&self, by: AlignBy) -> [Position; 2] {
        self.steps.anchors(by, [self.a.curves.allocated.peak().0, self.b.curves.allocated.peak().0])
    }
}

/// What moved between the two sides as a flame graph over [`SnapshotDiff::stacks`].
pub fn flame_of(
    diff: &SnapshotDiff,
    [from, to]: [Position; 2],
    direction: FlameDirection,
    fold_framework: bool,
    progress: &Progress,
) -> Result<FlameTree, Cancelled> {
    let of = FlameOf::Difference { from, to, counter: LiveCounter::Allocated };
    let sums = diff.by_stack.iter().map(|row| (row.stack, row.delta(), row.count_delta()));
    FlameTree::of_sums(&diff.stacks, sums, &FlameParams { of, direction, fold_framework }, progress)
}

/// All that a comparison says.
#[derive(Clone, Debug, Serialize)]
pub struct DiffModel {
    /// The baseline.
    pub a: SideInfo,
    /// The other side.
    pub b: SideInfo,
    /// The sum of all `bytes_b − bytes_a`.
    pub total_delta: i128,
    /// Stacks that hold something in A only.
    pub only_a: Vec<RowInfo>,
    /// Stacks that hold something in B only.
    pub only_b: Vec<RowInfo>,
    /// Stacks that hold something else on both sides.
    pub changed: Vec<RowInfo>,
    /// The same by stack and size.
    pub by_size: BySize,
    /// What is the same on both sides.
    pub unchanged: Unchanged,
    /// What grew and where; whether reserved memory follows and which side is more fragmented.
    pub verdict: [String; 2],
    /// Whether frames were matched whatever their line.
    pub ignore_lines: bool,
    /// What to try where hardly any stack reads alike.
    pub hint: Option<&'static str>,
    /// Halves of pools on each stream.
    pub pools: Vec<PoolInfo>,
    /// Gaps inside segments by size, each class up to twice its least size.
    pub gaps: Vec<ClassInfo>,
    /// Segments by size.
    pub segments: Vec<ClassInfo>,
    /// Settings that differ.
    pub settings: Vec<SettingInfo>,
    /// Who wrote it, and when.
    pub report: Program,
    /// What the user adds.
    pub note: Option<String>,
}

/// One side.
#[derive(Clone, Debug, Serialize)]
pub struct SideInfo {
    /// The file as it was named.
    pub file: String,
    /// The device's number.
    pub device: i32,
    /// The settings as stated; none where the file does not state them.
    pub settings: Option<String>,
    /// Number of events.
    pub events: u64,
    /// Time of the moment, where recorded.
    pub time_us: Option<i64>,
    /// The most allocated at any moment.
    pub peak_allocated: u64,
    /// The most reserved at any moment.
    pub peak_reserved: u64,
    /// Free memory outside the largest free block.
    pub scattered: u64,
    /// The counters at the moment.
    #[serde(flatten)]
    pub state: State,
    /// File, device and moment in words.
    #[serde(skip)]
    pub words: String,
}

/// A stack, or blocks of one size at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowInfo {
    /// The frames, innermost first; empty where none were kept.
    pub frames: Vec<String>,
    /// The size of the blocks; all sizes where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Bytes in A.
    pub bytes_a: u64,
    /// Bytes in B.
    pub bytes_b: u64,
    /// Blocks in A.
    pub count_a: u64,
    /// Blocks in B.
    pub count_b: u64,
    /// The frame that names it.
    #[serde(skip)]
    pub place: String,
    /// Who called that.
    #[serde(skip)]
    pub callers: String,
    /// Its colour in all pictures.
    #[serde(skip)]
    pub colour: BlockColour,
}

impl RowInfo {
    /// How many bytes more B holds.
    pub fn delta(&self) -> i128 {
        i128::from(self.bytes_b) - i128::from(self.bytes_a)
    }
    /// How many blocks more B holds.
    pub fn count_delta(&self) -> i64 {
        i64::try_from(i128::from(self.count_b) - i128::from(self.count_a)).unwrap_or(i64::MAX)
    }
}

/// The lists by stack and size.
#[derive(Clone, Debug, Serialize)]
pub struct BySize {
    /// In A only.
    pub only_a: Vec<RowInfo>,
    /// In B only.
    pub only_b: Vec<RowInfo>,
    /// Not as many in both.
    pub changed: Vec<RowInfo>,
}

/// What is the same.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Unchanged {
    /// Number of stacks.
    pub stacks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their blocks.
    pub count: u64,
}

/// A half of a pool on one stream.
#[derive(Clone, Debug, Serialize)]
pub struct PoolInfo {
    /// PyTorch's pair.
    pub pool: [i64; 2],
    /// Its half.
    pub kind: &'static str,
    /// The stream, counted as streams appear; 0 is the default one.
    pub stream: u32,
    /// In A; none where it has no segment.
    pub a: Option<PoolFigures>,
    /// In B.
    pub b: Option<PoolFigures>,
}

impl PoolInfo {
    /// Its figures.
    pub fn of(row: &PoolDiff) -> PoolInfo {
        let figures = |of: Option<PoolState>| {
            of.map(|of| PoolFigures {
                reserved: of.reserved,
                active: of.active,
                free: of.free,
                largest_free_block: of.largest_free_block,
                segments: of.segments,
            })
        };
        let (kind, stream) = (row.class.name(), row.stream);
        PoolInfo { pool: [row.pool.0, row.pool.1], kind, stream, a: figures(row.a), b: figures(row.b) }
    }
    /// Its name: `default pool, large, default stream`.
    pub fn name(&self) -> String {
        let pool = match self.pool {
            [0, 0] => "default pool".to_owned(),
            [a, b] => format!("private pool ({a}, {b})"),
        };
        let stream = if self.stream == 0 { "default stream".to_owned() } else { format!("side stream {}", self.stream) };
        format!("{pool}, {}, {stream}", self.kind)
    }
}

/// Sums over a half of a pool.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PoolFigures {
    /// Its segments, bytes.
    pub reserved: u64,
    /// Its active blocks, bytes.
    pub active: u64,
    /// Its gaps, bytes.
    pub free: u64,
    /// Its largest gap.
    pub largest_free_block: u64,
    /// Number of its segments.
    pub segments: u64,
}

/// A class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassInfo {
    /// The least size; it ends before twice that.
    pub from: u64,
    /// Bytes in A.
    pub bytes_a: u64,
    /// Bytes in B.
    pub bytes_b: u64,
    /// How many in A.
    pub count_a: u64,
    /// How many in B.
    pub count_b: u64,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingInfo {
    /// Its name.
    pub name: String,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
}

impl DiffModel {
    /// Words a comparison.
    pub fn of(compared: &Compared<'_>, options: &ReportOptions) -> DiffModel {
        let diff = &compared.diff;
        let namer = Namer::new(&diff.stacks);
        let list = |rows: &[DiffRow], side| -> Vec<RowInfo> {
            rows.iter().filter(|row| row.side() == side).map(|row| row_info(&namer, row)).collect()
        };
        let note = options.note.trim();
        DiffModel {
            a: side_info(&compared.a, diff, 0),
            b: side_info(&compared.b, diff, 1),
            total_delta: diff.total_delta(),
            only_a: list(&diff.by_stack, DiffSide::OnlyA),
            only_b: list(&diff.by_stack, DiffSide::OnlyB),
            changed: list(&diff.by_stack, DiffSide::Both),
            by_size: BySize {
                only_a: list(&diff.by_size, DiffSide::OnlyA),
                only_b: list(&diff.by_size, DiffSide::OnlyB),
                changed: list(&diff.by_size, DiffSide::Both),
            },
            unchanged: Unchanged { stacks: diff.same_stacks as u64, bytes: diff.same.bytes, count: diff.same.count },
            verdict: verdict(diff),
            ignore_lines: diff.ignore_lines,
            hint: hint(diff),
            pools: diff.pools.iter().map(PoolInfo::of).collect(),
            gaps: diff.gaps.iter().map(class_info).collect(),
            segments: diff.segments.iter().map(class_info).collect(),
            settings: diff.settings.iter().map(setting_info).collect(),
            report: Program { program: "fragscope", version: env!("CARGO_PKG_VERSION"), written_us: options.written_us },
            note: (!note.is_empty()).then(|| note.to_owned()),
        }
    }
    /// Writes it as JSON with a line end.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
    /// Name, A, B and difference of every figure of the states, as people read them.
    pub fn figure_rows(diff: &SnapshotDiff) -> Vec<[String; 4]> {
        figures(diff)
            .into_iter()
            .map(|(name, a, b, is_bytes)| {
                let value = |value: u64| if is_bytes { Bytes(value).to_string() } else { grouped(value) };
                [name.to_owned(), value(a), value(b), difference(a, b, is_bytes)]
            })
            .collect()
    }
    /// The three lists with their names, in the order of the page.
    pub fn lists(&self) -> [(&'static str, &[RowInfo]); 3] {
        [("only in A", &self.only_a), ("only in B", &self.only_b), ("in both, but not the same", &self.changed)]
    }
    /// Who wrote it and when, on one line.
    pub fn imprint(&self) -> String {
        let version = self.report.version;
        match self.report.written_us {
            Some(us) => format!("Fragscope {version}, {} UTC", date_time(us)),
            None => format!("Fragscope {version}"),
        }
    }
    /// What is the same, in a sentence; none where nothing is.
    pub fn same(&self) -> Option<String> {
        let Unchanged { stacks, bytes, count } = self.unchanged;
        let blocks = crate::base::counted(count, "block");
        match stacks {
            0 => None,
            1 => Some(format!("One stack holds the same on both sides: {} in {blocks}.", Bytes(bytes))),
            _ => Some(format!("{} stacks hold the same on both sides: {} in {blocks}.", grouped(stacks), Bytes(bytes))),
        }
    }
}

/// How much more B is, with its sign.
pub fn difference(a: u64, b: u64, is_bytes: bool) -> String {
    let delta = i128::from(b) - i128::from(a);
    if is_bytes { signed(delta) } else { signed_count(i64::try_from(delta).unwrap_or(i64::MAX)) }
}

/// The name of a class of sizes: `1.00 MiB to 2.00 MiB`.
pub fn class_name(from: u64) -> String {
    format!("{} to {}", Bytes(from), Bytes(from.saturating_mul(2)))
}

fn side_info(side: &ComparedSide<'_>, diff: &SnapshotDiff, place: usize) -> SideInfo {
    let (memory, counters) = (side.memory(), if place == 0 { &diff.a } else { &diff.b });
    SideInfo {
        file: side.snapshot.origin.name.clone(),
        device: memory.ordinal,
        settings: side.snapshot.settings.stated.then(|| side.snapshot.settings.conf.clone()),
        events: memory.trace.len() as u64,
        time_us: counters.time_us,
        peak_allocated: side.curves.allocated.peak().1,
        peak_reserved: side.curves.reserved.peak().1,
        scattered: scattered(counters),
        state: State::of(counters),
        words: side.words(),
    }
}

fn row_info(namer: &Namer<'_>, row: &DiffRow) -> RowInfo {
    let stack: StackId = row.stack;
    let named = namer.row(&StackBytes { stack, bytes: row.b.bytes, count: row.b.count });
    RowInfo {
        frames: named.frames,
        size: row.size,
        bytes_a: row.a.bytes,
        bytes_b: row.b.bytes,
        count_a: row.a.count,
        count_b: row.b.count,
        place: named.place,
        callers: named.callers,
        colour: named.colour,
    }
}

fn class_info(row: &ClassDiff) -> ClassInfo {
    let ClassDiff { from, a, b } = *row;
    ClassInfo { from, bytes_a: a.bytes, bytes_b: b.bytes, count_a: a.count, count_b: b.count }
}

fn setting_info(row: &SettingDiff) -> SettingInfo {
    SettingInfo { name: row.name.clone(), a: row.a.clone(), b: row.b.clone() }
}
