//! The JSON of the command line. Its names are a promise to scripts: add freely, rename nothing.
//!
//! All sizes are integers in bytes, all times integers in Unix µs, all event numbers 0-based per device;
//! the state at event i is the state after it, and −1 is the state before the first event.

use crate::analysis::{Counters, LiveByStack, MemorySummary, OomEvent, Peak, RankName, RankVerdicts, Summary};
use crate::model::{BlockState, DeviceId, DeviceMemory, Pools, Position, Snapshot, StackId, StackTable, Streams, Warnings};
use crate::replay::{MemoryState, PoolState};
use crate::report::kv_json::KvInfo;
use crate::simulator::contiguous::KvCompared;
use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use std::sync::Arc;

/// One file in the list that `info --json` prints. It owns all it says, so the snapshot can go.
#[derive(Debug, Serialize)]
pub struct FileInfo {
    file: String,
    bytes: u64,
    format: String,
    written_by: Option<WrittenBy>,
    settings: Settings,
    devices: Vec<DeviceInfo>,
    warnings: Vec<WarningInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<RankInfo>,
}

/// How a file stands between others, where many are looked at together.
#[derive(Clone, Debug, Serialize)]
pub struct RankInfo {
    /// The rank its name tells.
    rank: Option<u32>,
    /// The node its name tells.
    node: Option<u32>,
    /// Whether it is the one nearest to the medians of all.
    median: bool,
    /// What is odd about it, the strongest first; empty where nothing is.
    odd: Vec<ReasonInfo>,
}

#[derive(Clone, Debug, Serialize)]
struct ReasonInfo {
    kind: &'static str,
    sentence: String,
}

impl RankInfo {
    /// How a row of judged files stands.
    pub fn of(name: Option<RankName>, verdicts: &RankVerdicts, row: usize) -> RankInfo {
        let reasons = verdicts.reasons.get(row).into_iter().flatten();
        RankInfo {
            rank: name.map(|name| name.number),
            node: name.and_then(|name| name.node),
            median: verdicts.median == Some(row),
            odd: reasons.map(|reason| ReasonInfo { kind: reason.kind, sentence: reason.words.clone() }).collect(),
        }
    }
}

impl FileInfo {
    /// What is in a snapshot; `summaries` are those of its devices, in their order.
    pub fn of(snapshot: &Snapshot, summaries: &[Summary]) -> FileInfo {
        let names = Names { pools: &snapshot.pools, streams: &snapshot.streams };
        let origin = &snapshot.origin;
        FileInfo {
            file: origin.name.clone(),
            bytes: origin.bytes,
            format: origin.format.clone(),
            written_by: origin
                .written_by
                .as_ref()
                .map(|range| WrittenBy { at_least: range.at_least.clone(), at_most: range.at_most.clone() }),
            settings: Settings::of(snapshot),
            devices: snapshot
                .devices
                .as_slice()
                .iter()
                .zip(summaries)
                .map(|(memory, summary)| DeviceInfo::of(memory, summary, names))
                .collect(),
            warnings: snapshot
                .warnings
                .iter()
                .map(|(kind, count, first)| WarningInfo {
                    kind: kind.name(),
                    severity: kind.severity().name(),
                    count,
                    message: Warnings::message(kind, count, first),
                })
                .collect(),
            rank: None,
        }
    }
}

impl FileInfo {
    /// Adds how it stands between other files, as `rank`.
    #[must_use]
    pub fn with_rank(self, rank: RankInfo) -> FileInfo {
        FileInfo { rank: Some(rank), ..self }
    }
    /// Adds PyTorch's counters to the devices that `summaries` are of: `memory_stats()` as `summary`, flat, by PyTorch's
    /// names; what the recording cannot tell is null.
    #[must_use]
    pub fn with_memory_summaries(mut self, summaries: &[MemorySummary]) -> FileInfo {
        for summary in summaries {
            for device in self.devices.iter_mut().filter(|device| device.device == summary.device) {
                device.memory_summary = Some(MemorySummaryInfo {
                    summary: summary.stats(),
                    summary_event: summary.position.event_number(),
                    summary_notes: crate::report::memory_summary::notes(summary),
                });
            }
        }
        self
    }
}

impl FileInfo {
    /// Adds what KV caches held, and what buffers in one piece would have taken; one a device, in their order.
    #[must_use]
    pub fn with_kv_caches(mut self, caches: &[Option<KvCompared>]) -> FileInfo {
        for (device, compared) in self.devices.iter_mut().zip(caches) {
            device.kv_cache = compared.as_ref().map(KvInfo::of);
        }
        self
    }
}

/// Writes the list of `check --json` and a line end.
pub fn write_checks(checks: &[CheckInfo], out: &mut dyn Write) -> io::Result<()> {
    write(&checks, out)
}

/// A size or a share.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum CheckNumber {
    /// In bytes.
    Bytes(u64),
    /// In percent.
    Percent(f64),
}

/// One limit in the list that `check --json` prints.
#[derive(Debug, Serialize)]
pub struct CheckInfo {
    /// The file, as given.
    pub file: String,
    /// The device's number.
    pub device: i32,
    /// The limit's name: `max-peak`.
    pub limit: &'static str,
    /// Bytes, or percent for `max-fragmentation`.
    pub bound: CheckNumber,
    /// What was found, in the same unit.
    pub value: CheckNumber,
    /// Whether the limit is kept.
    pub holds: bool,
    /// The event after which it was found; −1: before the first.
    pub event: i64,
    /// The frames that hold most there, innermost first.
    pub stack: Vec<String>,
    /// All that in words.
    pub sentence: String,
}

/// Writes the list of `info --json` and a line end.
pub fn write_info(files: &[FileInfo], out: &mut dyn Write) -> io::Result<()> {
    write(&files, out)
}

/// Writes the object of `at --json` and a line end: one device's whole state at one moment.
pub fn write_at(
    snapshot: &Snapshot,
    device: DeviceId,
    state: &MemoryState,
    live: &LiveByStack,
    out: &mut dyn Write,
) -> io::Result<()> {
    let memory = &snapshot.devices[device];
    let names = Names { pools: &snapshot.pools, streams: &snapshot.streams };
    let mut stacks = StackList { table: &snapshot.stacks, rows: FxHashMap::default(), frames: Vec::new() };
    let layout = layout(state, memory, names, &mut stacks);
    let live_by_stack = live
        .shares
        .iter()
        .map(|share| LiveInfo {
            frames: frames_of(&snapshot.stacks, share.stack),
            bytes: share.bytes,
            requested: share.requested,
            count: share.count,
        })
        .collect();
    let at = AtInfo {
        file: &snapshot.origin.name,
        device: memory.ordinal,
        state: StateInfo::of(&Counters::of(state, &memory.trace), names),
        stacks: stacks.frames,
        layout,
        live_by_stack,
    };
    write(&at, out)
}

fn write(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// What ids of pools and streams stand for.
#[derive(Clone, Copy)]
struct Names<'a> {
    pools: &'a Pools,
    streams: &'a Streams,
}

#[derive(Debug, Serialize)]
struct WrittenBy {
    at_least: String,
    at_most: Option<String>,
}

#[derive(Debug, Serialize)]
struct Settings {
    /// Whether the file states its settings at all; where not, the values are PyTorch's defaults.
    stated: bool,
    #[serde(rename = "PYTORCH_CUDA_ALLOC_CONF")]
    conf: String,
    max_split_size: Option<u64>,
    garbage_collection_threshold: f64,
    expandable_segments: bool,
    #[serde(serialize_with = "divisions")]
    roundup_power2_divisions: [u64; 16],
    large_segment_size: u64,
    max_non_split_rounding: u64,
    per_process_memory_fraction: Option<f64>,
    #[serde(serialize_with = "as_map")]
    other: Vec<(String, String)>,
}

impl Settings {
    fn of(snapshot: &Snapshot) -> Settings {
        let settings = snapshot.settings.clone();
        Settings {
            stated: settings.stated,
            conf: settings.conf,
            max_split_size: settings.max_split_size,
            garbage_collection_threshold: settings.garbage_collection_threshold,
            expandable_segments: settings.expandable_segments,
            roundup_power2_divisions: settings.roundup_power2_divisions,
            large_segment_size: settings.large_segment_size,
            max_non_split_rounding: settings.max_non_split_rounding,
            per_process_memory_fraction: settings.per_process_memory_fraction,
            other: settings.other,
        }
    }
}

/// Divisions by the lower bound of their size class in MiB, as the file has them.
fn divisions<S: Serializer>(divisions: &[u64; 16], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(divisions.iter().enumerate().map(|(class, divisions)| ((1u64 << class).to_string(), divisions)))
}

/// Shared rows as a list.
fn as_list<S: Serializer, V: Serialize>(rows: &Arc<[V]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter())
}

/// Pairs as a map, in their order.
fn as_map<S: Serializer, V: Serialize>(pairs: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

#[derive(Debug, Serialize)]
struct WarningInfo {
    kind: &'static str,
    severity: &'static str,
    count: u64,
    message: String,
}

#[derive(Debug, Serialize)]
struct DeviceInfo {
    device: i32,
    events: u64,
    #[serde(serialize_with = "as_map")]
    events_by_action: Vec<(String, u64)>,
    allocations: u64,
    unmatched_frees: u64,
    born_before: u64,
    without_stack: u64,
    time_us: Option<(i64, i64)>,
    start: StateInfo,
    end: StateInfo,
    peak_reserved: PeakInfo,
    peak_allocated: PeakInfo,
    peak_active: PeakInfo,
    peak_requested: PeakInfo,
    ooms: Vec<OomInfo>,
    coverage: Vec<CoverageInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_cache: Option<KvInfo>,
    #[serde(flatten)]
    memory_summary: Option<MemorySummaryInfo>,
}

#[derive(Debug, Serialize)]
struct MemorySummaryInfo {
    #[serde(serialize_with = "as_map")]
    summary: Vec<(String, Option<i128>)>,
    summary_event: i64,
    summary_notes: Vec<&'static str>,
}

impl DeviceInfo {
    fn of(memory: &DeviceMemory, summary: &Summary, names: Names<'_>) -> DeviceInfo {
        DeviceInfo {
            device: memory.ordinal,
            events: summary.events,
            events_by_action: summary.events_by_action.clone(),
            allocations: summary.allocations,
            unmatched_frees: summary.unmatched_frees,
            born_before: summary.born_before,
            without_stack: summary.without_stack,
            time_us: summary.time_us,
            start: StateInfo::of(&summary.start, names),
            end: StateInfo::of(&summary.end, names),
            peak_reserved: PeakInfo::of(summary.peak_reserved),
            peak_allocated: PeakInfo::of(summary.peak_allocated),
            peak_active: PeakInfo::of(summary.peak_active),
            peak_requested: PeakInfo::of(summary.peak_requested),
            ooms: ooms(&summary.ooms, names),
            coverage: memory
                .coverage
                .gaps
                .iter()
                .map(|gap| CoverageInfo { missing: gap.missing.name(), why: gap.why.clone(), sentence: gap.sentence.clone() })
                .collect(),
            kv_cache: None,
            memory_summary: None,
        }
    }
}

#[derive(Debug, Serialize)]
struct PeakInfo {
    event: i64,
    bytes: u64,
}

impl PeakInfo {
    fn of(peak: Peak) -> PeakInfo {
        PeakInfo { event: peak.position.event_number(), bytes: peak.bytes }
    }
}

#[derive(Debug, Serialize)]
struct OomInfo {
    event: i64,
    requested: u64,
    device_free: u64,
    state: StateInfo,
}

impl OomInfo {
    fn of(oom: &OomEvent, pools: Arc<[PoolInfo]>) -> OomInfo {
        OomInfo {
            event: Position::after(oom.event).event_number(),
            requested: oom.requested,
            device_free: oom.device_free,
            state: StateInfo { pools, ..StateInfo::without_pools(&oom.state) },
        }
    }
}

/// All failures of a device; those that happened in one state share what is said of its pools.
fn ooms(ooms: &[OomEvent], names: Names<'_>) -> Vec<OomInfo> {
    let mut infos: Vec<OomInfo> = Vec::with_capacity(ooms.len());
    for (row, oom) in ooms.iter().enumerate() {
        let known = row.checked_sub(1).filter(|last| Arc::ptr_eq(&ooms[*last].state.pools, &oom.state.pools));
        let pools = known.map_or_else(|| pools_of(&oom.state, names), |last| Arc::clone(&infos[last].state.pools));
        infos.push(OomInfo::of(oom, pools));
    }
    infos
}

#[derive(Debug, Serialize)]
struct CoverageInfo {
    missing: &'static str,
    why: String,
    sentence: String,
}

#[derive(Debug, Serialize)]
struct StateInfo {
    event: i64,
    time_us: Option<i64>,
    reserved: u64,
    allocated: u64,
    active: u64,
    requested: u64,
    pending_free: u64,
    free: u64,
    inactive_split: u64,
    largest_free_block: u64,
    segments: u64,
    blocks: u64,
    #[serde(serialize_with = "as_list")]
    pools: Arc<[PoolInfo]>,
}

impl StateInfo {
    fn of(counters: &Counters, names: Names<'_>) -> StateInfo {
        StateInfo { pools: pools_of(counters, names), ..StateInfo::without_pools(counters) }
    }
    fn without_pools(counters: &Counters) -> StateInfo {
        StateInfo {
            event: counters.position.event_number(),
            time_us: counters.time_us,
            reserved: counters.totals.reserved,
            allocated: counters.totals.allocated,
            active: counters.totals.active,
            requested: counters.totals.requested,
            pending_free: counters.totals.pending_free(),
            free: counters.totals.free(),
            inactive_split: counters.inactive_split,
            largest_free_block: counters.largest_free_block,
            segments: counters.segments,
            blocks: counters.blocks,
            pools: Arc::default(),
        }
    }
}

fn pools_of(counters: &Counters, names: Names<'_>) -> Arc<[PoolInfo]> {
    let info = |pool: &PoolState| PoolInfo {
        pool: names.pools.pair(pool.pool),
        kind: pool.class.name(),
        stream: names.streams.handle(pool.stream),
        reserved: pool.reserved,
        active: pool.active,
        free: pool.free,
        largest_free_block: pool.largest_free_block,
        segments: pool.segments,
    };
    counters.pools.iter().map(info).collect()
}

#[derive(Debug, Serialize)]
struct PoolInfo {
    pool: (i64, i64),
    kind: &'static str,
    stream: i64,
    reserved: u64,
    active: u64,
    free: u64,
    largest_free_block: u64,
    segments: u64,
}

#[derive(Serialize)]
struct AtInfo<'a> {
    file: &'a str,
    device: i32,
    #[serde(flatten)]
    state: StateInfo,
    stacks: Vec<Vec<String>>,
    layout: Vec<SegmentInfo>,
    live_by_stack: Vec<LiveInfo>,
}

#[derive(Serialize)]
struct SegmentInfo {
    address: u64,
    size: u64,
    stream: i64,
    pool: (i64, i64),
    kind: &'static str,
    expandable: bool,
    /// The file does not name it: made up around a block that lies in none, and not counted in `reserved`.
    inferred: bool,
    stack: Option<usize>,
    blocks: Vec<BlockInfo>,
}

#[derive(Serialize)]
struct BlockInfo {
    address: u64,
    size: u64,
    requested: u64,
    state: &'static str,
    stack: Option<usize>,
    alloc_event: Option<u32>,
}

#[derive(Serialize)]
struct LiveInfo {
    frames: Vec<String>,
    bytes: u64,
    requested: u64,
    count: u64,
}

fn layout(state: &MemoryState, memory: &DeviceMemory, names: Names<'_>, stacks: &mut StackList<'_>) -> Vec<SegmentInfo> {
    let mut segments = Vec::with_capacity(state.segments.len());
    for segment in &state.segments {
        let stack = stacks.row(segment.stack);
        let blocks = state.blocks_of(segment).iter().map(|block| {
            let life = block.allocation.map(|id| memory.allocations.get(id));
            BlockInfo {
                address: block.address,
                size: block.size,
                requested: if block.state == BlockState::Inactive { 0 } else { block.requested },
                state: block.state.name(),
                stack: life.and_then(|life| stacks.row(life.stack)),
                alloc_event: life.and_then(|life| life.alloc_event()).map(|event| event.0),
            }
        });
        let blocks = blocks.collect();
        segments.push(SegmentInfo {
            address: segment.address,
            size: segment.size,
            stream: names.streams.handle(segment.stream),
            pool: names.pools.pair(segment.pool),
            kind: segment.class.name(),
            expandable: segment.expandable,
            inferred: segment.inferred,
            stack,
            blocks,
        });
    }
    segments
}

/// The stacks of one state, each once, in order of first use.
struct StackList<'a> {
    table: &'a StackTable,
    rows: FxHashMap<StackId, usize>,
    frames: Vec<Vec<String>>,
}

impl StackList<'_> {
    /// The row of a stack; none for a stack without frames.
    fn row(&mut self, stack: StackId) -> Option<usize> {
        if self.table.frames(stack).is_empty() {
            return None;
        }
        if let Some(row) = self.rows.get(&stack) {
            return Some(*row);
        }
        self.frames.push(frames_of(self.table, stack));
        self.rows.insert(stack, self.frames.len() - 1);
        Some(self.frames.len() - 1)
    }
}

/// The lines of a stack, innermost first.
fn frames_of(table: &StackTable, stack: StackId) -> Vec<String> {
    table.frames(stack).iter().map(|frame| table.line(*frame)).collect()
}
