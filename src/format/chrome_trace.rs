//! A Chrome trace of torch.profiler (Kineto) with memory events, as `profile_memory=True` records them.
//!
//! Always: the sum after each event is the trace's own `Total Allocated` wherever its events add up to that; what was
//! there before the first event is one block of the size the trace states; a block's stack is what encloses its event
//! on the same thread: Python functions and operators.

use crate::base::{Bytes, Progress, StringId, counted};
use crate::format::error::FormatError;
use crate::format::foreign::{holds, is_json};
use crate::format::importer::{Confidence, Importer};
use crate::format::neighbour::{self, HOST, Plain};
use crate::format::source::Source;
use crate::format::watched;
use crate::model::{
    Action, AnnotationMark, BlockState, Extra, Frame, FrameId, JobDevice, MarkStage, Missing, PoolId, SizeClass, StackId,
    StreamId, VersionRange, WarningKind,
};
use crate::replay::SnapshotBuilder;
use crate::replay::builder::{BlockRecord, SegmentRecord};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};

/// See the head of this file.
#[derive(Debug)]
pub struct ChromeTrace;

const KIND: &str = "a profiler trace (Chrome or Kineto format)";
const RECORD_MEMORY: &str = "it holds no memory events: record it with torch.profiler.profile(profile_memory=True), or record a snapshot with torch.cuda.memory._record_memory_history()";

impl Importer for ChromeTrace {
    fn name(&self) -> &'static str {
        "chrome-trace"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        let event = || holds(head, b"\"ph\"") && holds(head, b"\"ts\"") && holds(head, b"\"name\"");
        if is_json(head) && (holds(head, b"\"traceEvents\"") || holds(head, b"\"schemaVersion\"") || event()) {
            Confidence::Certain
        } else {
            Confidence::No
        }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let name = source.name().to_owned();
        let mut trace = Trace::new(builder);
        let end = watched::through(source, progress, |reader, at| Ok((parse(reader, &mut trace), at.get())))?;
        match end {
            (Ok(()), _) => {}
            (Err(error), offset) if error.is_eof() || error.is_io() => {
                if trace.memory.is_empty() {
                    return Err(FormatError::EndsEarly { name, offset });
                }
                neighbour::cut(&mut trace.builder.warnings, offset, "inside the trace");
            }
            (Err(error), _) => {
                return Err(neighbour::useless(&name, KIND, format!("it is not well formed: {error}; export it once more")));
            }
        }
        if trace.memory.is_empty() {
            return Err(neighbour::useless(&name, KIND, RECORD_MEMORY.to_owned()));
        }
        progress.stage("naming stacks", trace.memory.len() as u64)?;
        trace.finish(progress)?;
        Ok(None)
    }
}

/// A number or a text: a process, a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
enum Name {
    Number(i64),
    Text(String),
    Other(IgnoredName),
}

/// A name of another type: all of them are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IgnoredName;

impl<'de> Deserialize<'de> for IgnoredName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| IgnoredName)
    }
}

/// One event, as far as it is needed here.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    pid: Option<Name>,
    tid: Option<Name>,
    ts: Option<f64>,
    dur: Option<f64>,
    args: Option<Args>,
}

/// What a memory event says; other events have other arguments.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Args {
    #[serde(rename = "Device Type")]
    device_type: Option<Whole>,
    #[serde(rename = "Device Id")]
    device: Option<Whole>,
    #[serde(rename = "Addr")]
    address: Option<Whole>,
    #[serde(rename = "Bytes")]
    bytes: Option<Whole>,
    #[serde(rename = "Total Allocated")]
    allocated: Option<Whole>,
    #[serde(rename = "Total Reserved")]
    reserved: Option<Whole>,
}

/// A whole number; what is none is kept as such, since arguments of other events may have these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole(Option<i128>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Unsigned(u64),
            Signed(i64),
            Other(IgnoredName),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Unsigned(number) => Whole(Some(number.into())),
            Either::Signed(number) => Whole(Some(number.into())),
            Either::Other(IgnoredName) => Whole(None),
        })
    }
}

/// A device of the head of the trace.
#[derive(Debug, Deserialize)]
struct Properties {
    #[serde(default)]
    id: i32,
    #[serde(default)]
    name: String,
    #[serde(rename = "totalGlobalMem")]
    total: Option<u64>,
}

/// A stretch of time in which a function or operator ran.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: u32,
    from_ns: i64,
    to_ns: i64,
    frame: FrameId,
}

/// A memory event.
#[derive(Clone, Copy, Debug)]
struct Memory {
    ordinal: i32,
    thread: u32,
    at_ns: i64,
    address: u64,
    /// Negative: given back.
    bytes: i128,
    allocated: Option<u64>,
    reserved: Option<u64>,
    failed: bool,
}

struct Trace<'b> {
    builder: &'b mut SnapshotBuilder,
    base_ns: i64,
    threads: FxHashMap<(Option<Name>, Option<Name>), u32>,
    running: Vec<Running>,
    memory: Vec<Memory>,
}

fn parse(reader: &mut dyn Read, trace: &mut Trace<'_>) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, reader));
    Root(trace).deserialize(&mut json)
}

/// The whole file: an object with `traceEvents`, or the bare list of them.
struct Root<'t, 'b>(&'t mut Trace<'b>);

impl<'de> DeserializeSeed<'de> for Root<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Root<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a trace: an object with `traceEvents`, or a list of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(event) = items.next_element::<Event>()? {
            self.0.take(event).map_err(A::Error::custom)?;
        }
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        while let Some(key) = pairs.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => pairs.next_value_seed(Events(&mut *self.0))?,
                "baseTimeNanoseconds" => self.0.base_ns = pairs.next_value::<i64>()?,
                "deviceProperties" => {
                    for Properties { id, name, total } in pairs.next_value::<Vec<Properties>>()? {
                        self.0.builder.job.devices.push(JobDevice { ordinal: id, name, total });
                    }
                }
                _ => drop(pairs.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The list of events.
struct Events<'t, 'b>(&'t mut Trace<'b>);

impl<'de> DeserializeSeed<'de> for Events<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(Root(self.0))
    }
}

/// Milliseconds and less have their place in 64 bits; a time that has none is no time.
fn nanos(micros: f64) -> Option<i64> {
    let nanos = (micros * 1000.0).round();
    (nanos.abs() < 9.0e18).then_some(nanos as i64)
}

impl<'b> Trace<'b> {
    fn new(builder: &'b mut SnapshotBuilder) -> Self {
        Self { builder, base_ns: 0, threads: FxHashMap::default(), running: Vec::new(), memory: Vec::new() }
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        let Event { ph, cat, name, pid, tid, ts, dur, args } = event;
        let runs = ph == "X" && matches!(cat.as_str(), "python_function" | "cpu_op");
        let failed = name == "[OutOfMemory]";
        let is_memory = failed || name == "[memory]";
        if !runs && !is_memory {
            return Ok(());
        }
        let Some(at_ns) = ts.and_then(nanos) else {
            return Err(format!("an event `{name}` without a time in µs"));
        };
        let threads = self.threads.len() as u32;
        let thread = *self.threads.entry((pid, tid)).or_insert(threads);
        if runs {
            let to_ns = at_ns.saturating_add(dur.and_then(nanos).unwrap_or(0).max(0));
            let frame = self.frame(&name);
            self.running.push(Running { thread, from_ns: at_ns, to_ns, frame });
            return Ok(());
        }
        let number = |value: Option<Whole>| value.and_then(|Whole(number)| number);
        let unsigned = |value: Option<Whole>| number(value).and_then(|number| u64::try_from(number).ok());
        let args = args.unwrap_or_default();
        let row = self.memory.len();
        let (Some(bytes), Some(kind)) = (number(args.bytes), number(args.device_type)) else {
            self.builder.warnings.push(WarningKind::BadRow, || format!("memory event {row} has no `Bytes` or `Device Type`"));
            return Ok(());
        };
        // Older releases write addresses as signed numbers.
        let signed = |number: i128| i64::try_from(number).map(|number| u64::from_ne_bytes(number.to_ne_bytes())).ok();
        let address = number(args.address).and_then(|number| u64::try_from(number).ok().or_else(|| signed(number)));
        if address.is_none() && !failed {
            self.builder.warnings.push(WarningKind::BadRow, || format!("memory event {row} has no `Addr`"));
            return Ok(());
        }
        // 0 is the host in PyTorch's enumeration of devices; all others have numbers of their own.
        let device = number(args.device).and_then(|device| i32::try_from(device).ok()).filter(|device| 0 <= *device);
        let ordinal = if kind == 0 { HOST } else { device.unwrap_or(0) };
        let (allocated, reserved) = (unsigned(args.allocated), unsigned(args.reserved));
        self.memory.push(Memory { ordinal, thread, at_ns, address: address.unwrap_or(0), bytes, allocated, reserved, failed });
        Ok(())
    }

    /// The frame of a name: `file.py(12): function` of Python, or an operator.
    fn frame(&mut self, name: &str) -> FrameId {
        let python = || {
            let (place, function) = name.split_once("): ")?;
            let (file, line) = place.rsplit_once('(')?;
            Some((file, line.parse::<i64>().ok()?, function))
        };
        let (file, line, function) = python().unwrap_or(("??", 0, name));
        let stacks = &mut self.builder.stacks;
        let frame = Frame { name: stacks.strings.intern(function), filename: stacks.strings.intern(file), line };
        stacks.intern_frame(frame)
    }

    fn finish(mut self, progress: &Progress) -> Result<(), FormatError> {
        // The file is in order of threads in places; memory has one order, that of time.
        self.memory.sort_by_key(|memory| memory.at_ns);
        let stacks = self.stacks(progress)?;
        let memory = std::mem::take(&mut self.memory);
        let ordinals: BTreeSet<i32> = memory.iter().map(|memory| memory.ordinal).collect();
        for ordinal in ordinals {
            let rows: Vec<(Memory, StackId)> =
                memory.iter().copied().zip(stacks.iter().copied()).filter(|(memory, _)| memory.ordinal == ordinal).collect();
            self.device(ordinal, &rows);
        }
        Ok(())
    }

    /// What encloses each memory event on its thread.
    fn stacks(&mut self, progress: &Progress) -> Result<Vec<StackId>, FormatError> {
        self.running.sort_by_key(|running| (running.thread, running.from_ns, std::cmp::Reverse(running.to_ns)));
        let mut order: Vec<usize> = (0..self.memory.len()).collect();
        order.sort_by_key(|row| (self.memory[*row].thread, self.memory[*row].at_ns));
        let mut stacks = vec![StackId::EMPTY; self.memory.len()];
        let (mut open, mut next): (Vec<Running>, usize) = (Vec::new(), 0);
        for (done, row) in order.into_iter().enumerate() {
            if done % 4096 == 0 {
                progress.at(done as u64)?;
            }
            let memory = &self.memory[row];
            while let Some(running) = self.running.get(next).filter(|r| (r.thread, r.from_ns) <= (memory.thread, memory.at_ns)) {
                open.retain(|outer| outer.thread == running.thread && running.from_ns < outer.to_ns);
                open.push(*running);
                next += 1;
            }
            open.retain(|outer| outer.thread == memory.thread && memory.at_ns <= outer.to_ns);
            let frames: Vec<FrameId> = open.iter().rev().map(|running| running.frame).collect();
            stacks[row] = self.builder.stacks.intern(&frames);
        }
        Ok(stacks)
    }

    fn device(&mut self, ordinal: i32, rows: &[(Memory, StackId)]) {
        let before = older_bytes(rows);
        let (mut expected, mut differs, mut first_differs) = (before.map(|(bytes, _)| i128::from(bytes)), 0u64, 0);
        let (mut reserved, mut failures) = (None, 0u64);
        let keys = ["total_allocated", "total_reserved", "action"].map(|key| self.builder.stacks.strings.intern(key));
        let [allocated_key, reserved_key, action_key] = keys;
        let failure = self.builder.stacks.strings.intern("OutOfMemory");
        for (row, (memory, stack)) in rows.iter().enumerate() {
            let time_us = Some(self.base_ns.saturating_add(memory.at_ns).div_euclid(1000));
            let size = u64::try_from(memory.bytes.unsigned_abs()).unwrap_or(u64::MAX);
            let action = match (memory.failed, memory.bytes < 0) {
                (true, _) => Action::Unknown,
                // Nothing came and nothing went.
                (false, _) if memory.bytes == 0 => Action::Annotate,
                (false, true) => Action::FreeRequested,
                (false, false) => Action::Alloc,
            };
            if memory.failed {
                failures += 1;
                let name = self.builder.stacks.strings.intern(&format!("out of memory, {} asked for", Bytes(size)));
                for stage in [MarkStage::Start, MarkStage::End] {
                    self.builder.marks.push(AnnotationMark { name, stage, device: ordinal, time_us });
                }
            } else if let Some(sum) = expected.as_mut() {
                *sum += memory.bytes;
                if memory.allocated.is_some_and(|stated| i128::from(stated) != *sum) {
                    (differs, first_differs) = (differs + 1, if differs == 0 { row } else { first_differs });
                    *sum = memory.allocated.map_or(*sum, i128::from);
                }
            }
            reserved = reserved.max(memory.reserved);
            let said: Vec<(StringId, StringId)> = [(allocated_key, memory.allocated), (reserved_key, memory.reserved)]
                .into_iter()
                .filter_map(|(key, value)| Some((key, self.builder.stacks.strings.intern(&value?.to_string()))))
                .chain(memory.failed.then_some((action_key, failure)))
                .collect();
            let device = self.builder.device(ordinal);
            let (address, stream, stack) = (memory.address, StreamId::DEFAULT, *stack);
            let event = neighbour::push(device, Plain { action, address, size, stream, time_us, stack });
            device.trace.extras.extend(said.into_iter().map(|(key, value)| Extra { event, key, value }));
        }
        self.older(ordinal, rows, before);
        let warnings = &mut self.builder.warnings;
        if 0 < differs {
            warnings.push(WarningKind::SnapshotTotalDiffers, || {
                format!(
                    "{}, of {} `Total Allocated` is not the sum of the events before: some are not in the trace; the first is event {first_differs}",
                    title(ordinal),
                    counted(differs, "memory event")
                )
            });
        }
        if 0 < failures {
            warnings.push(WarningKind::Note, || {
                format!(
                    "{} failed on {}; the trace does not hold what was left there, so there is no account of it",
                    counted(failures, "request"),
                    title(ordinal)
                )
            });
        }
        let device = self.builder.device(ordinal);
        if ordinal == HOST {
            device.name = title(ordinal);
        }
        let reserved = reserved.filter(|bytes| 0 < *bytes).map_or_else(String::new, |bytes| {
            format!(" Their sum, which each event states, was {} at most.", Bytes(bytes).exact())
        });
        let sentence = format!("A profiler trace holds blocks and no segments: the layout around them is not known.{reserved}");
        device.untold.push(neighbour::untold(Missing::Segments, &sentence));
    }

    /// What the trace states to be older, less what is seen to be: one block, so that sums are right.
    fn older(&mut self, ordinal: i32, rows: &[(Memory, StackId)], before: Option<(u64, u64)>) {
        let Some((bytes, freed)) = before else {
            return;
        };
        let rest = bytes.saturating_sub(freed);
        if bytes == 0 {
            return;
        }
        let stack = neighbour::named_stack(&mut self.builder.stacks, "allocated before the trace", "profiler");
        let end = rows.iter().map(|(memory, _)| memory.address).max().unwrap_or(0);
        // Behind all that the trace names, so that it is in nothing's way.
        let address = end.saturating_add(1 << 40).min(u64::MAX - rest);
        let device = self.builder.device(ordinal);
        if 0 < rest {
            device.start = vec![SegmentRecord {
                address: 0,
                size: 0,
                stream: StreamId::DEFAULT,
                pool: PoolId::DEFAULT,
                class: SizeClass::Large,
                expandable: false,
                stack: StackId::ABSENT,
                blocks: vec![BlockRecord {
                    address: Some(address),
                    size: rest,
                    requested: Some(rest),
                    state: BlockState::ActiveAllocated,
                    stack,
                }],
                stated_totals: [None; 3],
            }];
        }
        let sentence = format!(
            "Starts mid-run: {} were allocated before the trace. {} of it are freed in it, the rest stands as one block at a \
             made-up place.",
            Bytes(bytes).exact(),
            Bytes(freed.min(bytes))
        );
        device.untold.push(neighbour::untold(Missing::Start, &sentence));
    }
}

fn title(ordinal: i32) -> String {
    if ordinal == HOST { "host memory".to_owned() } else { format!("device {ordinal}") }
}

/// Bytes that the first event with a sum states to have been there before it, and how much of it the trace frees; none
/// where no event states a sum.
fn older_bytes(rows: &[(Memory, StackId)]) -> Option<(u64, u64)> {
    let (at, first) = rows.iter().map(|(memory, _)| memory).enumerate().find(|(_, m)| m.allocated.is_some() && !m.failed)?;
    let seen: i128 = rows[..=at].iter().filter(|(m, _)| !m.failed).map(|(m, _)| m.bytes).sum();
    let bytes = u64::try_from(i128::from(first.allocated?) - seen).unwrap_or(0);
    let (mut live, mut freed) = (BTreeMap::new(), 0u64);
    for (memory, _) in rows.iter().filter(|(memory, _)| !memory.failed) {
        if 0 <= memory.bytes {
            live.insert(memory.address, ());
        } else if live.remove(&memory.address).is_none() {
            freed = freed.saturating_add(u64::try_from(memory.bytes.unsigned_abs()).unwrap_or(u64::MAX));
        }
    }
    Some((bytes, freed))
}
