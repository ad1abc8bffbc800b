//! The one value in the middle: everything a file, a capture or a simulation tells.
//!
//! A `Snapshot` never changes. It is shared behind an `Arc`; new data is a new `Snapshot`.

use crate::base::Column;
use crate::model::allocation::Allocations;
use crate::model::annotation::Annotation;
use crate::model::coverage::{Coverage, Gap, Missing};
use crate::model::job::Job;
use crate::model::kv::KvLog;
use crate::model::pool::{Pools, Streams};
use crate::model::segment::Segments;
use crate::model::settings::AllocatorSettings;
use crate::model::stack::StackTable;
use crate::model::trace::{Position, Trace};
use crate::model::warning::Warnings;

crate::define_id! {
    /// A device of a snapshot, by row (not by ordinal: pinned host memory is a device too).
    DeviceId
}

/// Where a snapshot came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// What the user called it: a path, or a name for what is not a file.
    pub name: String,
    /// Size of the source in bytes, as it lies on disk.
    pub bytes: u64,
    /// The importer's name (`torch-pickle`, …) with its container, if any.
    pub format: String,
    /// File, capture or simulation.
    pub kind: OriginKind,
    /// Which PyTorch wrote it, as far as its keys tell.
    pub written_by: Option<VersionRange>,
}

impl Origin {
    /// The oldest release of PyTorch that may have written it: major and minor number; none where its keys do not tell.
    pub fn at_least(&self) -> Option<(u32, u32)> {
        let (major, rest) = self.written_by.as_ref()?.at_least.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// What kind of source a snapshot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OriginKind {
    /// A file somebody wrote.
    #[default]
    File,
    /// A running job.
    Capture,
    /// Another snapshot under other settings.
    Simulation,
}

/// PyTorch releases a file may come from, inclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest release that writes these keys.
    pub at_least: String,
    /// The newest known release that writes exactly these; none: open-ended.
    pub at_most: Option<String>,
}

/// Everything a source tells, frozen.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Where it came from.
    pub origin: Origin,
    /// The allocator's settings.
    pub settings: AllocatorSettings,
    /// All stacks, frames and texts.
    pub stacks: StackTable,
    /// All stream handles.
    pub streams: Streams,
    /// All pool ids.
    pub pools: Pools,
    /// The devices, GPUs by ordinal first, pinned host memory last.
    pub devices: Column<DeviceId, DeviceMemory>,
    /// The job it is a recording of, where that is known.
    pub job: Job,
    /// What was wrong in the input.
    pub warnings: Warnings,
}

/// The memory of one device over the recording.
#[derive(Clone, Debug, Default)]
pub struct DeviceMemory {
    /// Device number as PyTorch counts; −1 for pinned host memory, below that other memory with a `name`.
    pub ordinal: i32,
    /// What it is called where it is no device of PyTorch's; empty: by its number.
    pub name: String,
    /// One row an event.
    pub trace: Trace,
    /// One row a block life.
    pub allocations: Allocations,
    /// One row a segment life.
    pub segments: Segments,
    /// The life each event is about: an allocation for alloc, frees and annotate, else [`NO_SUBJECT`].
    pub subjects: Vec<u32>,
    /// Named spans of time.
    pub annotations: Vec<Annotation>,
    /// What this recording cannot tell.
    pub coverage: Coverage,
    /// Lives whose first sight in the trace is a free.
    pub unmatched_frees: u64,
    /// The source states what there was before the first event: a window that was cut from a longer recording.
    pub start_stated: bool,
    /// The blocks of a paged KV cache, where this is one.
    pub kv: Option<KvLog>,
}

/// An event that is about no allocation.
pub const NO_SUBJECT: u32 = u32::MAX;

impl DeviceMemory {
    /// The state after the last event.
    pub fn end(&self) -> Position {
        self.trace.end()
    }
    /// The name people know: `device 0`, or `pinned host memory`.
    pub fn title(&self) -> String {
        match self.name.as_str() {
            "" if self.ordinal < 0 => "pinned host memory".to_owned(),
            "" => format!("device {}", self.ordinal),
            name => name.to_owned(),
        }
    }
    /// Whether anything is known of this device at all.
    pub fn is_used(&self) -> bool {
        !self.trace.is_empty() || !self.segments.is_empty()
    }
    /// Whether there is a history to scrub: more than one event.
    pub fn has_history(&self) -> bool {
        1 < self.trace.len()
    }
    /// Whether the source tells of segments at all; where it does not, nothing is known of what was reserved or free.
    pub fn tells_segments(&self) -> bool {
        self.coverage.gaps.iter().all(|gap| gap.missing != Missing::Segments || gap.why != Gap::BY_NATURE)
    }
    /// The allocation an event is about.
    pub fn subject(&self, event: crate::model::trace::EventIdx) -> Option<crate::model::allocation::AllocationId> {
        let row = *self.subjects.get(event.0 as usize)?;
        (row != NO_SUBJECT).then_some(crate::model::allocation::AllocationId(row))
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.trace.heap_bytes()
            + self.allocations.heap_bytes()
            + self.segments.heap_bytes()
            + self.subjects.capacity() * 4
            + self.annotations.capacity() * size_of::<Annotation>()
            + self.kv.as_ref().map_or(0, KvLog::heap_bytes)
    }
}

impl Snapshot {
    /// The row of a device ordinal.
    pub fn device_of_ordinal(&self, ordinal: i32) -> Option<DeviceId> {
        self.devices.iter().find(|(_, device)| device.ordinal == ordinal).map(|(id, _)| id)
    }
    /// The device with the most events (then segments), which commands take when none is named.
    pub fn busiest_device(&self) -> Option<DeviceId> {
        self.devices
            .iter()
            .max_by_key(|(id, device)| (device.trace.len(), device.segments.len(), std::cmp::Reverse(*id)))
            .map(|(id, _)| id)
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.stacks.heap_bytes() + self.devices.as_slice().iter().map(DeviceMemory::heap_bytes).sum::<usize>()
    }
}
