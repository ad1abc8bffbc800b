//! JAX's `save_device_memory_profile`: a pprof profile of the buffers and executables at one moment.
//!
//! Always: the sums by stack are the file's; what names no device is in no picture unless there is but one device.

use crate::base::{Bytes, Progress, counted};
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::neighbour::{self, Places};
use crate::format::source::Source;
use crate::format::watched;
use crate::model::{
    BlockState, Frame, FrameId, JobDevice, Missing, PoolId, SizeClass, StackId, StreamId, VersionRange, WarningKind,
};
use crate::replay::SnapshotBuilder;
use crate::replay::builder::{BlockRecord, SegmentRecord};
use prost::Message;
use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Debug)]
pub struct JaxPprof;

const KIND: &str = "a pprof profile";
/// More buffers than one process has: beyond it a sample stays one block.
const MOST_BLOCKS: i64 = 1 << 22;

/// `Profile` of pprof's `profile.proto`, as far as it is needed here.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    string_table: Vec<Vec<u8>>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

impl Importer for JaxPprof {
    fn name(&self) -> &'static str {
        "jax-pprof"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        if is_pprof(head) { Confidence::Likely } else { Confidence::No }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let name = source.name().to_owned();
        let (bytes, failure) = watched::whole(source, progress)?;
        let profile = Profile::decode(bytes.as_slice()).map_err(|error| match failure {
            Some(why) => {
                neighbour::useless(&name, KIND, format!("it ends early, at byte {}: {why}; get a fresh copy", bytes.len()))
            }
            None => {
                neighbour::useless(&name, KIND, format!("it is damaged: {error} ({} bytes read); get a fresh copy", bytes.len()))
            }
        })?;
        progress.stage("laying out", 0)?;
        Filling::new(&profile, builder).fill().map_err(|why| neighbour::useless(&name, KIND, why))?;
        Ok(None)
    }
}

/// A sample that is a number of equal buffers, or an executable.
struct Held {
    device: Option<String>,
    count: i64,
    bytes: i64,
    stack: StackId,
}

struct Filling<'a> {
    profile: &'a Profile,
    builder: &'a mut SnapshotBuilder,
    /// The frames of each location, innermost first.
    locations: BTreeMap<u64, Vec<FrameId>>,
}

impl<'a> Filling<'a> {
    fn new(profile: &'a Profile, builder: &'a mut SnapshotBuilder) -> Self {
        let mut filling = Self { profile, builder, locations: BTreeMap::new() };
        let functions: BTreeMap<u64, &Function> = profile.function.iter().map(|function| (function.id, function)).collect();
        for location in &profile.location {
            let frames = location.line.iter().map(|line| {
                let function = functions.get(&line.function_id);
                let name = function.map_or_else(String::new, |function| filling.text(function.name));
                let file = function.map_or_else(String::new, |function| filling.text(function.filename));
                let stacks = &mut filling.builder.stacks;
                let frame = Frame { name: stacks.strings.intern(&name), filename: stacks.strings.intern(&file), line: line.line };
                stacks.intern_frame(frame)
            });
            let frames = frames.collect();
            filling.locations.insert(location.id, frames);
        }
        filling
    }

    fn text(&self, row: i64) -> String {
        let bytes = usize::try_from(row).ok().and_then(|row| self.profile.string_table.get(row));
        bytes.map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn fill(mut self) -> Result<(), String> {
        let types: Vec<(String, String)> =
            self.profile.sample_type.iter().map(|kind| (self.text(kind.kind), self.text(kind.unit))).collect();
        let place = |unit: &str| types.iter().position(|(_, of)| of == unit);
        let (Some(counts), Some(sizes)) = (place("count"), place("bytes")) else {
            let types: Vec<String> = types.iter().map(|(kind, unit)| format!("{kind} in {unit}")).collect();
            return Err(format!(
                "its samples are of {}, not of numbers and bytes; of JAX, jax.profiler.save_device_memory_profile writes these",
                if types.is_empty() { "nothing".to_owned() } else { types.join(" and ") }
            ));
        };
        let mut all = Vec::new();
        for (row, sample) in self.profile.sample.iter().enumerate() {
            let value = |place: usize| sample.value.get(place).copied().filter(|value| 0 <= *value);
            let (Some(count), Some(bytes)) = (value(counts), value(sizes)) else {
                self.builder
                    .warnings
                    .push(WarningKind::BadRow, || format!("sample {row} has no number and bytes, or negative ones"));
                continue;
            };
            let held = self.held(sample, count, bytes);
            all.push(held);
        }
        let ordinals = self.devices(&all);
        self.lay(all, &ordinals)
    }

    fn held(&mut self, sample: &Sample, count: i64, bytes: i64) -> Held {
        let label = |key: &str| sample.label.iter().find(|label| self.text(label.key) == key).map(|label| self.text(label.text));
        let (device, kind) = (label("device"), label("kind"));
        let mut frames: Vec<FrameId> =
            sample.location_id.iter().filter_map(|id| self.locations.get(id)).flatten().copied().collect();
        if kind.as_deref() == Some("executable") {
            // Compiled code beside the buffers that the same line holds.
            let stacks = &mut self.builder.stacks;
            let frame =
                Frame { name: stacks.strings.intern("compiled executable"), filename: stacks.strings.intern("JAX"), line: 0 };
            frames.insert(0, stacks.intern_frame(frame));
        }
        Held { device, count, bytes, stack: self.builder.stacks.intern(&frames) }
    }

    /// A number for each device: the one its name ends with where all differ, else in the order of names.
    fn devices(&mut self, all: &[Held]) -> BTreeMap<String, i32> {
        let mut names: Vec<&str> = all.iter().filter_map(|held| held.device.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let stated: Vec<Option<i32>> = names.iter().map(|name| number_in(name)).collect();
        let mut distinct: Vec<i32> = stated.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let usable = distinct.len() == names.len();
        let ordinals = names.iter().zip(stated).enumerate();
        let ordinals: BTreeMap<String, i32> =
            ordinals.map(|(row, (name, stated))| ((*name).to_owned(), stated.filter(|_| usable).unwrap_or(row as i32))).collect();
        for (name, ordinal) in &ordinals {
            self.builder.job.devices.push(JobDevice { ordinal: *ordinal, name: name.clone(), total: None });
        }
        ordinals
    }

    fn lay(self, all: Vec<Held>, ordinals: &BTreeMap<String, i32>) -> Result<(), String> {
        let only = match ordinals.len() {
            0 => Some(0),
            1 => ordinals.values().next().copied(),
            _ => None,
        };
        let mut blocks: BTreeMap<i32, (Places, Vec<BlockRecord>)> = BTreeMap::new();
        let (mut homeless, mut homeless_bytes, mut laid) = (0u64, 0i64, 0i64);
        for Held { device, count, bytes, stack } in all {
            let ordinal = device.as_ref().and_then(|device| ordinals.get(device)).copied().or(only);
            let Some(ordinal) = ordinal else {
                (homeless, homeless_bytes) = (homeless + 1, homeless_bytes.saturating_add(bytes));
                continue;
            };
            // A sample is so many buffers of one size; one that does not divide stays one block of its sum.
            let even = 0 < count && bytes % count == 0 && count < MOST_BLOCKS - laid;
            let (count, size) = if even { (count, bytes / count) } else { (1, bytes) };
            laid += count;
            if size == 0 {
                continue;
            }
            let size = size.unsigned_abs();
            let (places, blocks) = blocks.entry(ordinal).or_default();
            for _ in 0..count {
                let address = places.take(size).ok_or("its sizes add up to more than 64 bits hold")?;
                blocks.push(BlockRecord {
                    address: Some(address),
                    size,
                    requested: Some(size),
                    state: BlockState::ActiveAllocated,
                    stack,
                });
            }
        }
        if blocks.is_empty() {
            return Err("it holds no buffers: nothing was on a device when it was saved".to_owned());
        }
        if 0 < homeless {
            let bytes = Bytes(homeless_bytes.unsigned_abs());
            self.builder.warnings.push(WarningKind::Note, || {
                format!("{} of {bytes} name no device and are in no picture", counted(homeless, "executable"))
            });
        }
        for (ordinal, (_, blocks)) in blocks {
            let device = self.builder.device(ordinal);
            device.start_is_exact = true;
            device.start = vec![SegmentRecord {
                address: 0,
                size: 0,
                stream: StreamId::DEFAULT,
                pool: PoolId::DEFAULT,
                class: SizeClass::Large,
                expandable: false,
                stack: StackId::ABSENT,
                blocks,
                stated_totals: [None; 3],
            }];
            device.untold = vec![
                neighbour::untold(Missing::History, "No history: a device memory profile of JAX is one moment."),
                neighbour::untold(
                    Missing::Addresses,
                    "A device memory profile of JAX holds no addresses: the places of blocks are made up.",
                ),
                neighbour::untold(
                    Missing::Segments,
                    "A device memory profile of JAX holds what is in use: what was reserved is not known.",
                ),
            ];
        }
        Ok(())
    }
}

/// The last number in a device's name: `cuda:1`, `TFRT_CPU_0`, `CudaDevice(id=3)`.
fn number_in(name: &str) -> Option<i32> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    name.get(start..end)?.parse().ok()
}

/// A protobuf whose fields are those of `Profile`, beginning with a sample type.
fn is_pprof(head: &[u8]) -> bool {
    let mut rest = head;
    let mut fields = 0;
    while fields < 8 {
        let Some((tag, tail)) = varint(rest) else { break };
        let (field, wire) = (tag >> 3, tag & 7);
        if (fields == 0 && field != 1) || field == 0 || 14 < field {
            return false;
        }
        let Some((value, tail)) = varint(tail) else { break };
        rest = match wire {
            0 => tail,
            2 if fields == 0 && 16 < value => return false,
            2 => match usize::try_from(value).ok().and_then(|len| tail.get(len..)) {
                Some(tail) => tail,
                None => return 2 <= fields,
            },
            _ => return false,
        };
        fields += 1;
        if rest.is_empty() {
            break;
        }
    }
    3 <= fields
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_by_their_names() {
        for (name, expected) in
            [("cuda:1", Some(1)), ("TFRT_CPU_0", Some(0)), ("CudaDevice(id=3)", Some(3)), ("tpu", None), ("12", Some(12))]
        {
            assert_eq!(number_in(name), expected, "{name}");
        }
    }
}
