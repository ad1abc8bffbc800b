//! Payloads of records as values, and back.
//!
//! Always: what `encode` writes `decode` reads as the same; no count in a file makes anything larger than the payload
//! it stands in.

use crate::format::fsl::{NO_TIME, UNKNOWN, kind};
use std::borrow::Cow;

/// A payload that contradicts its kind, in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRecord(pub &'static str);

/// One event, as it lies in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The action by its number: an index into [`crate::model::Action::KNOWN`], or unknown.
    pub action: u8,
    /// Device number; −1 is pinned host memory.
    pub device: i8,
    /// Number of the pool + 1; 0 where it is not known.
    pub pool: u16,
    /// The stack; [`crate::format::fsl::NO_STACK`] where none was kept.
    pub stack: u32,
    /// Address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Stream handle.
    pub stream: i64,
    /// Unix time in µs; [`NO_TIME`] where it is not known.
    pub time_us: i64,
}

impl Event {
    /// Bytes of an event in a log.
    pub const BYTES: usize = 40;
    /// As it lies in a log.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.action);
        out.extend(self.device.to_le_bytes());
        out.extend(self.pool.to_le_bytes());
        out.extend(self.stack.to_le_bytes());
        out.extend(self.address.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        out.extend(self.stream.to_le_bytes());
        out.extend(self.time_us.to_le_bytes());
    }
}

/// Events that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRecord {
    /// The device.
    pub device: i32,
    /// Why, by text number.
    pub reason: u32,
    /// How many, where known.
    pub missed: Option<u64>,
    /// When it was noticed.
    pub time_us: Option<i64>,
}

/// When a state holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the first event.
    Start,
    /// After the last event.
    End,
    /// After a gap, which it mends.
    AfterGap,
    /// At some moment between.
    Between,
}

/// The memory of one device at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRecord {
    /// The device.
    pub device: i32,
    /// Which moment.
    pub when: When,
    /// When it was taken.
    pub time_us: Option<i64>,
    /// Its segments.
    pub segments: Vec<StateSegment>,
}

/// A segment of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSegment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// Stream handle.
    pub stream: i64,
    /// Stack of its creation.
    pub stack: u32,
    /// Number of the pool + 1; 0: the default one.
    pub pool: u16,
    /// Whether it is of the large half.
    pub large: bool,
    /// Whether it can grow.
    pub expandable: bool,
    /// Its blocks, free ones too.
    pub blocks: Vec<StateBlock>,
}

/// A block of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBlock {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// What was asked for, where known.
    pub requested: Option<u64>,
    /// Stack of its allocation.
    pub stack: u32,
    /// 0 free, 1 allocated, 2 pending free.
    pub state: u8,
}

/// How bad it is what a recorder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something is missing.
    Warning,
    /// Something failed.
    Error,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub time_us: Option<i64>,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What there is to say.
    pub text: String,
}

/// A record with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// Facts of the job, JSON.
    Facts(Cow<'a, str>),
    /// Texts from a number on.
    Texts(u32, Vec<Cow<'a, str>>),
    /// Frames from a number on: text of the function, text of the file, line.
    Frames(u32, Vec<(u32, u32, i64)>),
    /// Stacks: their number, their frames.
    Stacks(Vec<(u32, Vec<u32>)>),
    /// Pools from a number on.
    Pools(u16, Vec<(i64, i64)>),
    /// Events; whole ones only.
    Events(&'a [u8]),
    /// Missed events.
    Gap(GapRecord),
    /// Samples of devices.
    Samples(Vec<crate::model::DeviceSample>),
    /// The memory of a device.
    State(StateRecord),
    /// Marks: time, device, text, stage.
    Marks(Vec<(i64, i32, u32, u8)>),
    /// A word of the recorder.
    Note(i64, Severity, Cow<'a, str>),
    /// A snapshot was written: time, reason, path.
    Saved(i64, Cow<'a, str>, Cow<'a, str>),
    /// Notes on events to come: device, text of the key, text of the value, how many events ahead.
    Extras(Vec<(i32, u32, u32, u32)>),
    /// The job is over.
    End(End),
    /// A kind this version does not know.
    Unknown(u16),
}

impl<'a> Record<'a> {
    /// The record of a payload.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let mut rest = Rest(payload);
        Ok(match kind {
            kind::FACTS => Record::Facts(String::from_utf8_lossy(payload)),
            kind::TEXTS => {
                let first = rest.u32()?;
                let mut texts = Vec::new();
                while !rest.0.is_empty() {
                    let len = rest.u32()? as usize;
                    texts.push(String::from_utf8_lossy(rest.take(len)?));
                }
                Record::Texts(first, texts)
            }
            kind::FRAMES => {
                let first = rest.u32()?;
                let mut frames = Vec::new();
                while !rest.0.is_empty() {
                    frames.push((rest.u32()?, rest.u32()?, rest.i64()?));
                }
                Record::Frames(first, frames)
            }
            kind::STACKS => {
                let mut stacks = Vec::new();
                while !rest.0.is_empty() {
                    let (stack, len) = (rest.u32()?, rest.u32()? as usize);
                    let frames = rest.take(len.checked_mul(4).ok_or(SHORT)?)?;
                    stacks.push((stack, frames.chunks_exact(4).map(|f| u32::from_le_bytes([f[0], f[1], f[2], f[3]])).collect()));
                }
                Record::Stacks(stacks)
            }
            kind::POOLS => {
                let first = rest.u16()?;
                rest.take(6)?;
                let mut pools = Vec::new();
                while !rest.0.is_empty() {
                    pools.push((rest.i64()?, rest.i64()?));
                }
                Record::Pools(first, pools)
            }
            kind::EVENTS if payload.len().is_multiple_of(Event::BYTES) => Record::Events(payload),
            kind::EVENTS => return Err(BadRecord("its length is not that of whole events")),
            kind::GAP => Record::Gap(GapRecord {
                device: rest.i32()?,
                reason: rest.u32()?,
                missed: known(rest.u64()?),
                time_us: time(rest.i64()?),
            }),
            kind::SAMPLES => {
                let mut samples = Vec::new();
                while !rest.0.is_empty() {
                    samples.push(crate::model::DeviceSample {
                        device: rest.i32()?,
                        process: Some(rest.u32()?).filter(|process| *process != 0),
                        total: known(rest.u64()?),
                        used: known(rest.u64()?),
                        free: known(rest.u64()?),
                        time_us: rest.i64()?,
                    });
                }
                Record::Samples(samples)
            }
            kind::STATE => Record::State(state(&mut rest)?),
            kind::MARKS => {
                let mut marks = Vec::new();
                while !rest.0.is_empty() {
                    let mark = (rest.i64()?, rest.i32()?, rest.u32()?, rest.u8()?);
                    rest.take(7)?;
                    marks.push(mark);
                }
                Record::Marks(marks)
            }
            kind::NOTE => {
                let (when, severity) = (rest.i64()?, rest.u8()?);
                rest.take(7)?;
                let severity = match severity {
                    0 => Severity::Info,
                    1 => Severity::Warning,
                    _ => Severity::Error,
                };
                Record::Note(when, severity, String::from_utf8_lossy(rest.0))
            }
            kind::SAVED => {
                let when = rest.i64()?;
                let len = rest.u32()? as usize;
                let reason = String::from_utf8_lossy(rest.take(len)?);
                Record::Saved(when, reason, String::from_utf8_lossy(rest.0))
            }
            kind::EXTRAS => {
                let mut extras = Vec::new();
                while !rest.0.is_empty() {
                    extras.push((rest.i32()?, rest.u32()?, rest.u32()?, rest.u32()?));
                }
                Record::Extras(extras)
            }
            kind::END => Record::End(End {
                time_us: time(rest.i64()?),
                code: Some(rest.i32()?).filter(|code| *code != -1),
                signal: Some(rest.i32()?).filter(|signal| *signal != -1),
                text: String::from_utf8_lossy(rest.0).into_owned(),
            }),
            other => Record::Unknown(other),
        })
    }
}

/// The events of an [`Record::Events`].
pub fn events(payload: &[u8]) -> impl Iterator<Item = Event> + '_ {
    payload.chunks_exact(Event::BYTES).map(|row| {
        let word = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| row[at + i]));
        let first = word(0);
        Event {
            action: first as u8,
            device: (first >> 8) as i8,
            pool: (first >> 16) as u16,
            stack: (first >> 32) as u32,
            address: word(8),
            size: word(16),
            stream: word(24) as i64,
            time_us: word(32) as i64,
        }
    })
}

fn state(rest: &mut Rest<'_>) -> Result<StateRecord, BadRecord> {
    let device = rest.i32()?;
    let when = match rest.u8()? {
        0 => When::Start,
        1 => When::End,
        2 => When::AfterGap,
        _ => When::Between,
    };
    rest.take(3)?;
    let time_us = time(rest.i64()?);
    let count = rest.u32()?;
    rest.take(4)?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let (address, size, stream, stack) = (rest.u64()?, rest.u64()?, rest.i64()?, rest.u32()?);
        let (blocks, pool, large, expandable) = (rest.u32()?, rest.u16()?, rest.u8()? != 0, rest.u8()? != 0);
        rest.take(4)?;
        let mut segment = StateSegment { address, size, stream, stack, pool, large, expandable, blocks: Vec::new() };
        for _ in 0..blocks {
            let (address, size, requested) = (rest.u64()?, rest.u64()?, known(rest.u64()?));
            segment.blocks.push(StateBlock { address, size, requested, stack: rest.u32()?, state: rest.u8()? });
            rest.take(3)?;
        }
        segments.push(segment);
    }
    Ok(StateRecord { device, when, time_us, segments })
}

impl StateRecord {
    /// As it lies in a log.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.device.to_le_bytes());
        let when = match self.when {
            When::Start => 0,
            When::End => 1,
            When::AfterGap => 2,
            When::Between => 3u8,
        };
        out.extend([when, 0, 0, 0]);
        out.extend(self.time_us.unwrap_or(NO_TIME).to_le_bytes());
        out.extend((self.segments.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        for segment in &self.segments {
            out.extend(segment.address.to_le_bytes());
            out.extend(segment.size.to_le_bytes());
            out.extend(segment.stream.to_le_bytes());
            out.extend(segment.stack.to_le_bytes());
            out.extend((segment.blocks.len() as u32).to_le_bytes());
            out.extend(segment.pool.to_le_bytes());
            out.extend([u8::from(segment.large), u8::from(segment.expandable), 0, 0, 0, 0]);
            for block in &segment.blocks {
                out.extend(block.address.to_le_bytes());
                out.extend(block.size.to_le_bytes());
                out.extend(block.requested.unwrap_or(UNKNOWN).to_le_bytes());
                out.extend(block.stack.to_le_bytes());
                out.extend([block.state, 0, 0, 0]);
            }
        }
        out
    }
}

const SHORT: BadRecord = BadRecord("it is shorter than what it announces");

/// What of a payload is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadRecord> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRecord> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }
    fn u8(&mut self) -> Result<u8, BadRecord> {
        self.array().map(u8::from_le_bytes)
    }
    fn u16(&mut self) -> Result<u16, BadRecord> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Result<u32, BadRecord> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, BadRecord> {
        self.array().map(u64::from_le_bytes)
    }
    fn i32(&mut self) -> Result<i32, BadRecord> {
        self.array().map(i32::from_le_bytes)
    }
    fn i64(&mut self) -> Result<i64, BadRecord> {
        self.array().map(i64::from_le_bytes)
    }
}

fn known(size: u64) -> Option<u64> {
    (size != UNKNOWN).then_some(size)
}

/// A time that is one.
pub(super) fn time(time_us: i64) -> Option<i64> {
    (time_us != NO_TIME).then_some(time_us)
}
