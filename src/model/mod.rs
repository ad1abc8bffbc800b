//! Floor 2: the words of the field, frozen. Nothing here acts: no IO, no threads, no serde, no printing.
//!
//! Start at [`snapshot::Snapshot`]. Time is counted in [`trace::Position`]s, the number of events
//! applied; microseconds are only a label. Everything is columnar and addressed by typed ids.

pub mod allocation;
pub mod annotation;
pub mod coverage;
pub mod glossary;
pub mod item;
pub mod job;
pub mod kv;
pub mod pool;
pub mod segment;
pub mod settings;
pub mod snapshot;
pub mod stack;
pub mod trace;
pub mod warning;

pub use allocation::{Allocation, AllocationFlags, AllocationId, Allocations};
pub use annotation::{Annotation, AnnotationMark, MarkStage};
pub use coverage::{Coverage, Gap, Missing};
pub use item::Item;
pub use job::{DeviceSample, Job, JobDevice, JobEnd, MissedEvents};
pub use kv::{KvBlock, KvDeed, KvLog, KvParent, KvSequence, KvStep};
pub use pool::{PoolId, Pools, SizeClass, StreamId, Streams};
pub use segment::{BlockState, Segment, SegmentId, Segments};
pub use settings::AllocatorSettings;
pub use snapshot::{DeviceId, DeviceMemory, Origin, OriginKind, Snapshot, VersionRange};
pub use stack::{Frame, FrameId, StackId, StackTable};
pub use trace::{Action, EventIdx, Extra, Position, Trace, TraceEntry};
pub use warning::{Severity, WarningKind, Warnings};
