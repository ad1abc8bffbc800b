//! The only door in: every producer (file, capture, simulator) fills a `SnapshotBuilder`.
//!
//! Producers hand over what was recorded, as recorded: traces, the segments at the dump, settings,
//! marks, warnings. [`SnapshotBuilder::finish`] turns that into lives. Producers never infer.
//!
//! ```
//! use fragscope::base::Progress;
//! use fragscope::model::{Action, Origin, StackId, StreamId, Trace, TraceEntry};
//! use fragscope::replay::SnapshotBuilder;
//!
//! let mut builder = SnapshotBuilder::default();
//! let mut trace = Trace::default();
//! for (action, size) in [(Action::SegmentAlloc, 2 << 20), (Action::Alloc, 1000)] {
//!     let stream = builder.streams.intern(0);
//!     trace.push(TraceEntry {
//!         action, address: 0x7000_0000, size, stream, time_us: None, stack: StackId::ABSENT,
//!         pool: None, compile_context: None, user_metadata: None,
//!     });
//! }
//! builder.device(0).trace = trace;
//! let snapshot = builder.finish(Origin::default(), &Progress::new()).unwrap();
//! let device = &snapshot.devices.as_slice()[0];
//! assert_eq!(device.allocations.sizes(), [1024]);
//! # assert_eq!(StreamId(0), StreamId::DEFAULT);
//! ```

use crate::base::{Cancelled, Column, Progress};
use crate::model::AllocatorSettings;
use crate::model::{
    Annotation, AnnotationMark, BlockState, Gap, Job, KvLog, MarkStage, Missing, Origin, PoolId, Pools, SizeClass, Snapshot,
    StackId, StackTable, StreamId, Streams, Trace, WarningKind, Warnings,
};
use crate::replay::{coverage, lives};
use std::collections::BTreeMap;

/// A segment as the file states it, at the moment of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// First byte.
    pub address: u64,
    /// Length in bytes (`total_size`).
    pub size: u64,
    /// The stream it serves.
    pub stream: StreamId,
    /// The pool it belongs to; the default one where the file does not say.
    pub pool: PoolId,
    /// Small or large half; where the file does not say, whoever reads decides by size (2 MiB: small).
    pub class: SizeClass,
    /// Whether it is a mapped range of an expandable segment.
    pub expandable: bool,
    /// Where it was created.
    pub stack: StackId,
    /// Its blocks in file order, free ones too.
    pub blocks: Vec<BlockRecord>,
    /// The totals the file states: allocated, active, requested; none where absent. Only compared.
    pub stated_totals: [Option<u64>; 3],
}

/// A block as the file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// First byte; none in files before 2.1: blocks then tile their segment.
    pub address: Option<u64>,
    /// Bytes it occupies.
    pub size: u64,
    /// Bytes asked for; only meaningful while active. None where the file does not say (the size is taken).
    pub requested: Option<u64>,
    /// Its state.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: StackId,
}

/// What was recorded of one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceRecord {
    /// The trace.
    pub trace: Trace,
    /// The segments at the dump, in file order.
    pub segments: Vec<SegmentRecord>,
    /// Whether the file states segments at all (an empty list is a statement; a truncated file makes none).
    pub segments_known: bool,
    /// The size of the block that each event hands out or takes back, in bytes, 0 where it is not known; empty where
    /// none is, as in all files: they hold requested sizes only.
    pub block_sizes: Vec<u64>,
    /// The segments before the first event, where the source states them: what is older than the trace.
    pub start: Vec<SegmentRecord>,
    /// `start` is all there was at that very event, cut from a snapshot: one record a piece of memory that the driver
    /// gave, with its active blocks; a record of no bytes holds blocks in no segment. Else it may be from a little later
    /// or earlier, and only tells of what the events show to be older.
    pub start_is_exact: bool,
    /// What it is called where it is no device of PyTorch's; empty: by its number.
    pub name: String,
    /// What a source of this kind never tells, in its reader's words. A gap that is judged from the events gives way to
    /// one of the same kind that stands here.
    pub untold: Vec<Gap>,
    /// The blocks of a paged KV cache, where this is one.
    pub kv: Option<KvLog>,
}

/// Collects what a source recorded and turns it into a [`Snapshot`].
#[derive(Clone, Debug, Default)]
pub struct SnapshotBuilder {
    /// All stacks, frames and texts; producers intern into it.
    pub stacks: StackTable,
    /// All stream handles; producers intern into it.
    pub streams: Streams,
    /// All pool ids; producers intern into it.
    pub pools: Pools,
    /// The allocator's settings; leave `stated` false where the source does not hold them.
    pub settings: AllocatorSettings,
    /// Marks on the time axis, in file order.
    pub marks: Vec<AnnotationMark>,
    /// The job, where the source knows it.
    pub job: Job,
    /// Bytes of one block of a KV cache, where the user said: logs of KV caches count in blocks.
    pub block_bytes: Option<u64>,
    /// What was wrong while reading.
    pub warnings: Warnings,
    devices: BTreeMap<i32, DeviceRecord>,
}

impl SnapshotBuilder {
    /// The record of a device by its ordinal (−1: pinned host memory), made at first use.
    pub fn device(&mut self, ordinal: i32) -> &mut DeviceRecord {
        self.devices.entry(ordinal).or_default()
    }
    /// The records of all devices by their ordinal, ascending.
    pub fn devices(&self) -> impl Iterator<Item = (i32, &DeviceRecord)> {
        self.devices.iter().map(|(ordinal, record)| (*ordinal, record))
    }
    /// Builds the snapshot: pairs events, infers lives and sizes, judges coverage.
    pub fn finish(self, origin: Origin, progress: &Progress) -> Result<Snapshot, Cancelled> {
        let Self { stacks, streams, pools, settings, marks, job, block_bytes: _, mut warnings, devices } = self;
        let mut built = Column::new();
        let (host, gpus): (Vec<_>, Vec<_>) = devices.into_iter().partition(|(ordinal, _)| *ordinal < 0);
        for (ordinal, mut record) in gpus.into_iter().chain(host) {
            let segments_known = record.segments_known;
            let untold = std::mem::take(&mut record.untold);
            let (name, kv) = (std::mem::take(&mut record.name), record.kv.take());
            let tells_segments = untold.iter().all(|gap| gap.missing != Missing::Segments);
            let mut lives = lives::infer(ordinal, record, tells_segments, &settings, &mut warnings, progress)?;
            let annotations = pair_marks(marks.iter().filter(|mark| mark.device == ordinal));
            let gaps = coverage::judge(&lives.memory, &stacks, &settings, segments_known, &lives.findings);
            lives.memory.coverage = coverage::with_untold(gaps, untold);
            (lives.memory.name, lives.memory.kv) = (name, kv);
            lives.memory.annotations = annotations;
            built.push(lives.memory);
        }
        Ok(Snapshot { origin, settings, stacks, streams, pools, devices: built, job, warnings })
    }
}

/// Pairs START and END marks by name, innermost first; what has no partner stays open at that side.
fn pair_marks<'a>(marks: impl Iterator<Item = &'a AnnotationMark>) -> Vec<Annotation> {
    let mut open: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut spans = Vec::new();
    for mark in marks {
        let started = open.entry(mark.name.0).or_default();
        match mark.stage {
            MarkStage::Start => {
                started.push(spans.len());
                spans.push(Annotation { name: mark.name, start_us: mark.time_us, end_us: None });
            }
            MarkStage::End => match started.pop() {
                Some(span) => spans[span].end_us = mark.time_us,
                None => spans.push(Annotation { name: mark.name, start_us: None, end_us: mark.time_us }),
            },
        }
    }
    spans.sort_by_key(|span| (span.start_us.unwrap_or(i64::MIN), std::cmp::Reverse(span.end_us.unwrap_or(i64::MAX)), span.name));
    spans
}

/// Notes a contradiction with its place.
pub(crate) fn note(warnings: &mut Warnings, kind: WarningKind, ordinal: i32, event: u32, what: &str, address: u64) {
    warnings.push(kind, || format!("device {ordinal}, event {event}: {what} at 0x{address:x}"));
}
