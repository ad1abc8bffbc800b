//! The way back: a snapshot, or a window of it, as the records it could have been read from.
//!
//! Always: finishing these records again gives the same states: at both ends of a window exactly those of the whole
//! snapshot at these positions. What lies between them follows from the same events; only sizes of blocks that live
//! and die inside the window are inferred once more, by the same rules.

use crate::base::{Cancelled, Progress};
use crate::model::{
    AllocationFlags, Annotation, AnnotationMark, BlockState, DeviceId, DeviceMemory, EventIdx, MarkStage, Missing, PoolId,
    Position, Segment, SegmentId, SizeClass, Snapshot, StackId, Trace,
};
use crate::replay::builder::{BlockRecord, SegmentRecord, SnapshotBuilder};
use crate::replay::checkpoint::Replay;
use crate::replay::state::StateBlock;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The stretch of one device's trace that a window keeps: the events behind `from` up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The device.
    pub device: DeviceId,
    /// The position the window starts at.
    pub from: Position,
    /// The position it ends at.
    pub to: Position,
}

impl Cut {
    /// All of a device.
    pub fn whole(snapshot: &Snapshot, device: DeviceId) -> Cut {
        Cut { device, from: Position::START, to: snapshot.devices[device].end() }
    }
    /// Whether nothing is left out.
    fn is_whole(&self, memory: &DeviceMemory) -> bool {
        self.from == Position::START && self.to == memory.end()
    }
    /// The same window on every device: cut by the times of the first and last event of `at` on another device. Devices
    /// without times cannot be cut alike and are left out, as are idle ones of a window.
    pub fn on_all_devices(snapshot: &Snapshot, at: Cut) -> Vec<Cut> {
        let own = &snapshot.devices[at.device];
        let span = times_of(own, at.from, at.to);
        let mut cuts = Vec::new();
        for (device, memory) in snapshot.devices.iter() {
            if device == at.device {
                cuts.push(at);
            } else if let Some((first, last)) = span.filter(|_| memory.trace.has_times()) {
                let (from, to) = (memory.trace.position_at_time(first), memory.trace.position_at_time(last.saturating_add(1)));
                cuts.push(Cut { device, from: from.min(to), to });
            }
        }
        cuts
    }
}

/// First and last time of the events behind `from` up to `to`; for a window without events the time of the last event
/// before it, which is what the state at that position belongs to.
fn times_of(memory: &DeviceMemory, from: Position, to: Position) -> Option<(i64, i64)> {
    let mut times = (from.0..to.0).filter_map(|event| memory.trace.time_us(EventIdx(event)));
    match times.next() {
        Some(first) => Some((first, times.next_back().unwrap_or(first))),
        // Nothing happens in it: everything later than this stays out of other devices too.
        None => from.event().and_then(|event| memory.trace.time_us(event)).map(|time| (time.saturating_add(1), time)),
    }
}

/// The records of a whole snapshot.
pub fn recorded(snapshot: &Snapshot, progress: &Progress) -> Result<SnapshotBuilder, Cancelled> {
    let whole: Vec<Cut> = snapshot.devices.iter().map(|(device, _)| Cut::whole(snapshot, device)).collect();
    window(snapshot, &whole, progress)
}

/// The records of a window: of each named device the events inside, with the segments as they were at both ends.
pub fn window(snapshot: &Snapshot, cuts: &[Cut], progress: &Progress) -> Result<SnapshotBuilder, Cancelled> {
    let mut builder = SnapshotBuilder::default();
    builder.stacks = snapshot.stacks.clone();
    builder.streams = snapshot.streams.clone();
    builder.pools = snapshot.pools.clone();
    builder.settings = snapshot.settings.clone();
    builder.job = snapshot.job.clone();
    // PyTorch's files state the end and nothing of the start; other sources need not have a dump, and may know the start.
    let from_pytorch = snapshot.origin.format.starts_with("torch-");
    for cut in cuts {
        let memory = &snapshot.devices[cut.device];
        progress.stage("laying out", memory.trace.len() as u64)?;
        let replay = Replay::new(memory);
        builder.marks.extend(marks(memory, cut));
        let record = builder.device(memory.ordinal);
        record.name.clone_from(&memory.name);
        record.segments = segments_at(memory, &replay, cut.to, from_pytorch && cut.is_whole(memory));
        record.segments_known = true;
        record.trace = if cut.is_whole(memory) { memory.trace.clone() } else { slice(&memory.trace, cut) };
        if memory.start_stated || cut.from != Position::START || (!from_pytorch && has_older(memory)) {
            record.start = start_at(memory, &replay, cut.from);
            record.start_is_exact = true;
        }
        progress.check()?;
    }
    // As they were recorded: spans that lie in each other end from the inside out.
    builder.marks.sort_by_key(|mark| mark.time_us.unwrap_or(i64::MIN));
    Ok(builder)
}

/// Whether anything is older than the trace.
fn has_older(memory: &DeviceMemory) -> bool {
    0 < memory.allocations.born_by(Position::START) || memory.segments.iter().any(|(_, piece)| piece.born == Position::START)
}

fn slice(trace: &Trace, cut: &Cut) -> Trace {
    trace.slice(cut.from.0 as usize..cut.to.0.max(cut.from.0) as usize)
}

/// The segments of a state as a dump states them: neighbouring pieces joined, blocks and gaps tiling each. Made-up
/// segments are no part of it, nor, in a dump `as_stated`, blocks of the trace's end that the source's dump did not hold.
fn segments_at(memory: &DeviceMemory, replay: &Replay, position: Position, as_stated: bool) -> Vec<SegmentRecord> {
    let state = replay.state_at(memory, position);
    let life = |block: &StateBlock| block.allocation.map(|id| memory.allocations.get(id));
    let stated = |block: &StateBlock| life(block).is_none_or(|life| life.flags.has(AllocationFlags::SIZE_STATED));
    // A source that states no blocks at all has no dump to be true to.
    let as_stated =
        as_stated && memory.coverage.lacks(Missing::End) && state.blocks.iter().any(|b| life(b).is_some() && stated(b));
    let named = state.segments.iter().filter(|segment| !segment.inferred);
    named
        .map(|segment| {
            let blocks = state.blocks_of(segment).iter().map(|block| BlockRecord {
                address: Some(block.address),
                size: block.size,
                requested: Some(block.requested),
                state: if as_stated && !stated(block) { BlockState::Inactive } else { block.state },
                stack: life(block).map_or(StackId::EMPTY, |life| life.stack),
            });
            SegmentRecord {
                address: segment.address,
                size: segment.size,
                stream: segment.stream,
                pool: segment.pool,
                class: segment.class,
                expandable: segment.expandable,
                stack: segment.stack,
                blocks: blocks.collect(),
                stated_totals: [None; 3],
            }
        })
        .collect()
}

/// What there is at a position, piece by piece with the active blocks that begin in each; blocks in no named segment in
/// records of no bytes.
fn start_at(memory: &DeviceMemory, replay: &Replay, position: Position) -> Vec<SegmentRecord> {
    let mut live = Vec::new();
    replay.live_at(memory, position, &mut live);
    let born = memory.segments.as_slice().partition_point(|piece| piece.born <= position);
    let there = memory.segments.iter().take(born).filter(|(_, piece)| position < piece.died && !piece.inferred);
    let mut pieces: Vec<(SegmentId, &Segment)> = there.collect();
    pieces.sort_by_key(|(_, piece)| piece.address);
    let mut blocks: FxHashMap<SegmentId, Vec<BlockRecord>> = FxHashMap::default();
    let mut outside = Vec::new();
    for id in live {
        let life = memory.allocations.get(id);
        let block = BlockRecord {
            address: Some(life.address),
            size: life.size,
            requested: Some(life.requested),
            state: life.state_at(position),
            stack: life.stack,
        };
        if block.state == BlockState::Inactive {
            continue;
        }
        let before = pieces.partition_point(|(_, piece)| piece.address <= life.address).checked_sub(1);
        let piece = before.map(|row| pieces[row]).filter(|(_, piece)| life.address < piece.end());
        match piece {
            Some((piece, _)) => blocks.entry(piece).or_default().push(block),
            None => outside.push((life, block)),
        }
    }
    let mut records = Vec::new();
    for (id, piece) in pieces {
        let mut blocks = blocks.remove(&id).unwrap_or_default();
        blocks.sort_unstable_by_key(|block| block.address);
        records.push(SegmentRecord {
            address: piece.address,
            size: piece.size,
            stream: piece.stream,
            pool: piece.pool,
            class: piece.class,
            expandable: piece.expandable,
            stack: piece.stack,
            blocks,
            stated_totals: [None; 3],
        });
    }
    records.extend(outside.into_iter().map(|(life, block)| SegmentRecord {
        address: life.address,
        size: 0,
        stream: life.stream,
        pool: PoolId::DEFAULT,
        class: SizeClass::Large,
        expandable: false,
        stack: StackId::ABSENT,
        blocks: vec![block],
        stated_totals: [None; 3],
    }));
    records.sort_by_key(|record| record.address);
    records
}

/// The marks of the spans that touch a window, in the order of their times.
fn marks(memory: &DeviceMemory, cut: &Cut) -> Vec<AnnotationMark> {
    let span: Option<Range<i64>> = match times_of(memory, cut.from, cut.to) {
        Some((first, last)) if !cut.is_whole(memory) => Some(first..last.saturating_add(1)),
        _ => None,
    };
    let touches = |mark: &&Annotation| match &span {
        Some(span) => mark.start_us.is_none_or(|start| start < span.end) && mark.end_us.is_none_or(|end| span.start <= end),
        None => true,
    };
    let mark = |of: &Annotation, stage, time_us| AnnotationMark { name: of.name, stage, device: memory.ordinal, time_us };
    let mut marks = Vec::new();
    for annotation in memory.annotations.iter().filter(touches) {
        // A span whose marks carry no time was there all the same.
        if annotation.start_us.is_some() || annotation.end_us.is_none() {
            marks.push(mark(annotation, MarkStage::Start, annotation.start_us));
        }
        if annotation.end_us.is_some() {
            marks.push(mark(annotation, MarkStage::End, annotation.end_us));
        }
    }
    marks
}
