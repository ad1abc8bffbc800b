//! PyTorch's snapshot: which keys stand where, in any notation.
//!
//! Always: a file has the keys of the release that wrote its source, so that it reads back as the same release; blocks
//! and totals are those of the states, an event is as it was recorded. A window of a longer recording has one key more
//! than PyTorch knows, `start_segments`: what there was before its first event, which no file of PyTorch holds.

use crate::base::Progress;
use crate::format::export::exporter::ExportError;
use crate::format::export::tree::Tree;
use crate::model::{
    Action, AllocatorSettings, BlockState, EventIdx, MarkStage, Origin, Pools, SizeClass, StackId, StackTable, Streams, Trace,
};
use crate::replay::builder::DeviceRecord;
use crate::replay::{BlockRecord, SegmentRecord, SnapshotBuilder};
use std::io;

/// Devices of a file, by their ordinals, beyond which an idle one is left out.
const MAX_IDLE: i32 = 4096;
/// Events between two looks at the progress.
const STEP: u32 = 1 << 14;

/// Which keys a file has: those of PyTorch 2.`minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    minor: u32,
}

impl Release {
    /// The newest one.
    const NEWEST: Release = Release { minor: 15 };
    /// The one that wrote a source, as far as that is known; before 2.0 there was no history, and a list alone opens in no
    /// viewer, so such a source is written as 2.0 would have.
    pub(crate) fn of(origin: &Origin) -> Release {
        let Some(range) = &origin.written_by else { return Release::NEWEST };
        let minor = range.at_least.strip_prefix("2.").and_then(|minor| minor.parse().ok());
        Release { minor: minor.unwrap_or(0) }
    }
    fn since(self, minor: u32) -> bool {
        minor <= self.minor
    }
    /// Whether blocks carry their stacks themselves; before, their histories did.
    pub(crate) fn has_block_stacks(self) -> bool {
        self.since(1)
    }
}

/// Writes everything a builder holds.
pub(crate) fn write(
    tree: &mut dyn Tree,
    records: &SnapshotBuilder,
    release: Release,
    progress: &Progress,
) -> Result<(), ExportError> {
    let events = records.devices().map(|(_, record)| record.trace.len() as u64).sum();
    progress.stage("writing", events)?;
    let SnapshotBuilder { stacks, streams, pools, settings, marks, .. } = records;
    let mut writer = Writer { tree, stacks, streams, pools, release, done: 0 };
    let gpus = || records.devices().filter(|(ordinal, _)| *ordinal != -1);
    let host = records.devices().find(|(ordinal, _)| *ordinal == -1).map(|(_, record)| record);
    writer.tree.open_dict()?;
    writer.tree.key("segments")?;
    writer.segments(gpus().flat_map(|(ordinal, record)| record.segments.iter().map(move |segment| (ordinal, segment))))?;
    writer.tree.key("device_traces")?;
    writer.traces(gpus(), progress)?;
    if settings.stated {
        writer.tree.key("allocator_settings")?;
        writer.settings(settings)?;
    }
    if release.since(5) || !marks.is_empty() {
        writer.tree.key("external_annotations")?;
        writer.tree.open_list()?;
        for mark in marks {
            writer.mark(mark)?;
        }
        writer.tree.close_list()?;
    }
    if release.since(14) || host.is_some() {
        writer.tree.key("host_segments")?;
        writer.segments(host.into_iter().flat_map(|record| record.segments.iter().map(|segment| (-1, segment))))?;
        writer.tree.key("host_traces")?;
        match host {
            Some(record) => writer.trace(&record.trace, true, progress)?,
            None => writer.empty_list()?,
        }
    }
    if records.devices().any(|(_, record)| record.start_is_exact) {
        writer.tree.key("start_segments")?;
        writer.segments(
            records.devices().flat_map(|(ordinal, record)| record.start.iter().map(move |segment| (ordinal, segment))),
        )?;
    }
    writer.tree.close_dict()?;
    Ok(())
}

struct Writer<'a> {
    tree: &'a mut dyn Tree,
    stacks: &'a StackTable,
    streams: &'a Streams,
    pools: &'a Pools,
    release: Release,
    /// Events written so far, of all devices.
    done: u64,
}

impl Writer<'_> {
    fn int(&mut self, key: &'static str, number: impl Into<i128>) -> io::Result<()> {
        self.tree.key(key)?;
        self.tree.int(number.into())
    }
    fn word(&mut self, key: &'static str, word: &'static str) -> io::Result<()> {
        self.tree.key(key)?;
        self.tree.word(word)
    }
    fn empty_list(&mut self) -> io::Result<()> {
        self.tree.open_list()?;
        self.tree.close_list()
    }

    fn segments<'s>(&mut self, segments: impl Iterator<Item = (i32, &'s SegmentRecord)>) -> io::Result<()> {
        self.tree.open_list()?;
        for (ordinal, segment) in segments {
            self.segment(ordinal, segment)?;
        }
        self.tree.close_list()
    }
    fn segment(&mut self, ordinal: i32, segment: &SegmentRecord) -> io::Result<()> {
        let active = || segment.blocks.iter().filter(|block| block.state != BlockState::Inactive);
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0u64, u64::saturating_add);
        let allocated = sum(&mut active().filter(|block| block.state == BlockState::ActiveAllocated).map(|block| block.size));
        let requested = sum(&mut active().map(|block| block.requested.unwrap_or(block.size)));
        self.tree.open_dict()?;
        self.int("device", ordinal)?;
        self.int("address", segment.address)?;
        self.int("total_size", segment.size)?;
        self.int("allocated_size", allocated)?;
        self.int("active_size", sum(&mut active().map(|block| block.size)))?;
        self.int("requested_size", requested)?;
        self.int("stream", self.streams.handle(segment.stream))?;
        self.word(
            "segment_type",
            match segment.class {
                SizeClass::Small => "small",
                SizeClass::Large => "large",
            },
        )?;
        if self.release.since(1) {
            self.tree.key("segment_pool_id")?;
            self.tree.pair(self.pools.pair(segment.pool))?;
            self.tree.key("is_expandable")?;
            self.tree.truth(segment.expandable)?;
            self.tree.key("frames")?;
            self.tree.stack(segment.stack, self.stacks)?;
        }
        self.tree.key("blocks")?;
        self.tree.open_list()?;
        let mut cursor = segment.address;
        for block in &segment.blocks {
            let address = block.address.unwrap_or(cursor);
            // Where blocks carry no address they tile their segment.
            if !self.release.has_block_stacks() && cursor < address {
                self.block(cursor, &gap(address - cursor))?;
            }
            self.block(address, block)?;
            cursor = address.saturating_add(block.size);
        }
        self.tree.close_list()?;
        self.tree.close_dict()
    }
    fn block(&mut self, address: u64, block: &BlockRecord) -> io::Result<()> {
        let active = block.state != BlockState::Inactive;
        let requested = if active { block.requested.unwrap_or(block.size) } else { 0 };
        self.tree.open_dict()?;
        if self.release.has_block_stacks() {
            self.int("address", address)?;
        }
        self.int("size", block.size)?;
        self.int("requested_size", requested)?;
        self.word("state", block.state.name())?;
        if self.release.has_block_stacks() {
            self.tree.key("frames")?;
            self.tree.stack(if active { block.stack } else { StackId::EMPTY }, self.stacks)?;
        } else if active && block.stack != StackId::ABSENT {
            self.tree.key("history")?;
            self.tree.open_list()?;
            self.tree.open_dict()?;
            self.int("addr", address)?;
            self.int("real_size", requested)?;
            self.tree.key("frames")?;
            self.tree.stack(block.stack, self.stacks)?;
            self.tree.close_dict()?;
            self.tree.close_list()?;
        }
        self.tree.close_dict()
    }

    /// The traces of the GPUs, each at the place of its ordinal.
    fn traces<'d>(
        &mut self,
        devices: impl Iterator<Item = (i32, &'d DeviceRecord)>,
        progress: &Progress,
    ) -> Result<(), ExportError> {
        self.tree.open_list()?;
        let mut next = 0;
        for (ordinal, record) in devices {
            if ordinal < 0 || (MAX_IDLE <= ordinal && record.trace.is_empty()) {
                continue;
            }
            for _ in next..ordinal {
                self.empty_list()?;
            }
            self.trace(&record.trace, false, progress)?;
            next = ordinal + 1;
        }
        self.tree.close_list()?;
        Ok(())
    }
    fn trace(&mut self, trace: &Trace, host: bool, progress: &Progress) -> Result<(), ExportError> {
        self.tree.open_list()?;
        for event in trace.events() {
            if event.0 % STEP == 0 {
                progress.at(self.done + u64::from(event.0))?;
            }
            self.event(trace, event, host)?;
        }
        self.done += trace.len() as u64;
        self.tree.close_list()?;
        Ok(())
    }
    fn event(&mut self, trace: &Trace, event: EventIdx, host: bool) -> io::Result<()> {
        let entry = trace.entry(event);
        let extras = trace.extras_of(event);
        self.tree.open_dict()?;
        self.tree.key("action")?;
        // The name of an action that is not known here is kept beside the event.
        let named = extras.iter().find(|extra| self.stacks.strings.get(extra.key) == "action");
        match named.filter(|_| entry.action == Action::Unknown) {
            Some(named) => self.tree.shared_text(named.value, self.stacks)?,
            None => self.tree.word(entry.action.name())?,
        }
        self.int(if entry.action == Action::Oom { "device_free" } else { "addr" }, entry.address)?;
        self.int("size", entry.size)?;
        self.int("stream", self.streams.handle(entry.stream))?;
        if let Some(time_us) = entry.time_us {
            self.int("time_us", time_us)?;
        }
        if self.release.since(8) || entry.compile_context.is_some() {
            self.tree.key("compile_context")?;
            match entry.compile_context {
                Some(text) => self.tree.shared_text(text, self.stacks)?,
                None => self.tree.word(if host { "" } else { "N/A" })?,
            }
        }
        if self.release.since(10) || entry.user_metadata.is_some() {
            self.tree.key("user_metadata")?;
            match entry.user_metadata {
                Some(text) => self.tree.shared_text(text, self.stacks)?,
                None => self.tree.word("")?,
            }
        }
        if let Some(pool) = entry.pool {
            self.tree.key("pool_id")?;
            self.tree.pair(self.pools.pair(pool))?;
        }
        if entry.stack != StackId::ABSENT {
            self.tree.key("frames")?;
            self.tree.stack(entry.stack, self.stacks)?;
        }
        for extra in extras {
            match self.stacks.strings.get(extra.key) {
                "action" => {}
                "forward_frames" => {
                    self.tree.key("forward_frames")?;
                    self.tree.open_list()?;
                    for line in self.stacks.strings.get(extra.value).split_inclusive('\n') {
                        self.tree.text(line)?;
                    }
                    self.tree.close_list()?;
                }
                key => {
                    self.tree.named_key(key)?;
                    self.tree.shared_text(extra.value, self.stacks)?;
                }
            }
        }
        self.tree.close_dict()
    }

    fn settings(&mut self, settings: &AllocatorSettings) -> io::Result<()> {
        let AllocatorSettings {
            conf,
            max_split_size,
            roundup_power2_divisions,
            garbage_collection_threshold,
            expandable_segments,
            other,
            stated: _,
            // These the text of the settings holds.
            large_segment_size: _,
            max_non_split_rounding: _,
            per_process_memory_fraction: _,
        } = settings;
        self.tree.open_dict()?;
        self.tree.key("PYTORCH_CUDA_ALLOC_CONF")?;
        self.tree.text(conf)?;
        self.int("max_split_size", max_split_size.map_or(-1, i128::from))?;
        self.tree.key("garbage_collection_threshold")?;
        self.tree.float(*garbage_collection_threshold)?;
        self.tree.key("expandable_segments")?;
        self.tree.truth(*expandable_segments)?;
        for (key, value) in other {
            self.tree.named_key(key)?;
            match (value.as_str(), value.parse::<i64>(), value.parse::<f64>()) {
                ("True", ..) => self.tree.truth(true)?,
                ("False", ..) => self.tree.truth(false)?,
                (_, Ok(number), _) => self.tree.int(i128::from(number))?,
                (_, _, Ok(number)) if number.is_finite() => self.tree.float(number)?,
                _ => self.tree.text(value)?,
            }
        }
        self.tree.key("roundup_power2_divisions")?;
        self.tree.open_dict()?;
        for (class, divisions) in roundup_power2_divisions.iter().enumerate() {
            self.tree.named_key(&(1u64 << class).to_string())?;
            self.tree.int(i128::from(*divisions))?;
        }
        self.tree.close_dict()?;
        self.tree.close_dict()
    }
    fn mark(&mut self, mark: &crate::model::AnnotationMark) -> io::Result<()> {
        self.tree.open_dict()?;
        self.word(
            "stage",
            match mark.stage {
                MarkStage::Start => "START",
                MarkStage::End => "END",
            },
        )?;
        self.tree.key("name")?;
        self.tree.shared_text(mark.name, self.stacks)?;
        self.int("device", mark.device)?;
        if let Some(time_us) = mark.time_us {
            self.int("time_us", time_us)?;
        }
        self.tree.close_dict()
    }
}

fn gap(size: u64) -> BlockRecord {
    BlockRecord { address: None, size, requested: None, state: BlockState::Inactive, stack: StackId::EMPTY }
}
