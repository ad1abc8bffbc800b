//! One moment alone: the list of segments that `torch.cuda.memory_snapshot()` gives, every stack in full.
//!
//! Small next to a trace, and what scripts of people hold in their hands; so it shares nothing, and the keys are always
//! those of today.

use crate::base::Progress;
use crate::format::export::exporter::ExportError;
use crate::model::{BlockState, SizeClass, Snapshot, StackId, StackTable};
use crate::replay::{BlockRecord, SegmentRecord, SnapshotBuilder, recorded};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Writes the segments at a snapshot's end as a pickle.
pub(crate) fn write_pickle(snapshot: &Snapshot, out: &mut dyn Write, progress: &Progress) -> Result<(), ExportError> {
    let records = recorded::recorded(snapshot, progress)?;
    progress.stage("writing", 0)?;
    serde_pickle::to_writer(&mut &mut *out, &Segments(&records), serde_pickle::SerOptions::new()).map_err(
        |error| match error {
            serde_pickle::Error::Io(error) => ExportError::Io(error),
            error => ExportError::Writer(error.to_string()),
        },
    )?;
    out.flush()?;
    Ok(())
}

/// Writes the segments at a snapshot's end as JSON.
pub(crate) fn write_json(snapshot: &Snapshot, out: &mut dyn Write, progress: &Progress) -> Result<(), ExportError> {
    let records = recorded::recorded(snapshot, progress)?;
    progress.stage("writing", 0)?;
    serde_json::to_writer(&mut *out, &Segments(&records)).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

struct Segments<'a>(&'a SnapshotBuilder);

impl Serialize for Segments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = self.0.devices().map(|(_, record)| record.segments.len()).sum();
        let mut list = serializer.serialize_seq(Some(count))?;
        for (ordinal, record) in self.0.devices() {
            for segment in &record.segments {
                list.serialize_element(&Segment { records: self.0, ordinal, segment })?;
            }
        }
        list.end()
    }
}

struct Segment<'a> {
    records: &'a SnapshotBuilder,
    ordinal: i32,
    segment: &'a SegmentRecord,
}

impl Serialize for Segment<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { records, ordinal, segment } = self;
        let stacks = &records.stacks;
        let active = || segment.blocks.iter().filter(|block| block.state != BlockState::Inactive);
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0u64, u64::saturating_add);
        let allocated = sum(&mut active().filter(|block| block.state == BlockState::ActiveAllocated).map(|block| block.size));
        let mut map = serializer.serialize_map(Some(12))?;
        map.serialize_entry("device", ordinal)?;
        map.serialize_entry("address", &segment.address)?;
        map.serialize_entry("total_size", &segment.size)?;
        map.serialize_entry("allocated_size", &allocated)?;
        map.serialize_entry("active_size", &sum(&mut active().map(|block| block.size)))?;
        map.serialize_entry("requested_size", &sum(&mut active().map(|block| block.requested.unwrap_or(block.size))))?;
        map.serialize_entry("stream", &records.streams.handle(segment.stream))?;
        map.serialize_entry("segment_type", if segment.class == SizeClass::Small { "small" } else { "large" })?;
        map.serialize_entry("segment_pool_id", &records.pools.pair(segment.pool))?;
        map.serialize_entry("is_expandable", &segment.expandable)?;
        map.serialize_entry("frames", &Frames { stacks, stack: segment.stack })?;
        map.serialize_entry("blocks", &Blocks { stacks, blocks: &segment.blocks })?;
        map.end()
    }
}

struct Blocks<'a> {
    stacks: &'a StackTable,
    blocks: &'a [BlockRecord],
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.blocks.iter().map(|block| Block { stacks: self.stacks, block }))
    }
}

struct Block<'a> {
    stacks: &'a StackTable,
    block: &'a BlockRecord,
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { stacks, block } = self;
        let active = block.state != BlockState::Inactive;
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("address", &block.address.unwrap_or(0))?;
        map.serialize_entry("size", &block.size)?;
        map.serialize_entry("requested_size", &if active { block.requested.unwrap_or(block.size) } else { 0 })?;
        map.serialize_entry("state", block.state.name())?;
        map.serialize_entry("frames", &Frames { stacks, stack: if active { block.stack } else { StackId::EMPTY } })?;
        map.end()
    }
}

struct Frames<'a> {
    stacks: &'a StackTable,
    stack: StackId,
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let frames = self.stacks.frames(self.stack);
        serializer.collect_seq(frames.iter().map(|frame| FrameOf {
            name: self.stacks.function(*frame),
            filename: self.stacks.file(*frame),
            line: self.stacks.frame(*frame).line,
        }))
    }
}

#[derive(Serialize)]
struct FrameOf<'a> {
    name: &'a str,
    filename: &'a str,
    line: i64,
}
