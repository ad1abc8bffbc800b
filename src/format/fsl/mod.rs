//! The log of a capture, `.fsl`: read here, written by [`writer`] and by the recorder that runs inside a job.
//!
//! Always: what one bad byte takes away is one record; a log that is still being written opens, and [`Tail`] reads on
//! as it grows. The format itself:
#![doc = include_str!("format.md")]

mod decode;
mod fill;
mod resync;
mod settings;
mod split;
pub mod tail;
pub mod writer;

pub use decode::{BadRecord, End, Event, GapRecord, Record, Severity, StateBlock, StateRecord, StateSegment, When};
pub use fill::Filling;
pub use settings::{devices_named, fact};
pub use split::{Piece, Splitter};
pub use tail::Tail;
pub use writer::LogWriter;

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::source::{Body, Source};
use crate::model::VersionRange;
use crate::replay::SnapshotBuilder;
use std::io::Read as _;

/// The first eight bytes of a log.
pub const MAGIC: [u8; 8] = *b"\x89FSL\r\n\x1a\n";
/// The version this reads and writes.
pub const VERSION: u16 = 1;
/// Length of the preamble in bytes.
pub const PREAMBLE: usize = 16;
/// The bytes at which a record begins.
pub const MARKER: [u8; 4] = [0xf5, 0x1c, 0x10, 0x9a];
/// Length of a record's head in bytes: marker, length, checksum, kind, zero.
pub const HEAD: usize = 16;
/// The longest payload there is.
pub const MAX_PAYLOAD: usize = 16 << 20;
/// A stack that was not kept.
pub const NO_STACK: u32 = u32::MAX;
/// A size that is not known.
pub const UNKNOWN: u64 = u64::MAX;
/// A time that is not known.
pub const NO_TIME: i64 = i64::MIN;

/// The kinds of records, by their numbers in a file.
pub mod kind {
    /// Facts of the job.
    pub const FACTS: u16 = 1;
    /// Texts.
    pub const TEXTS: u16 = 2;
    /// Frames.
    pub const FRAMES: u16 = 3;
    /// Stacks.
    pub const STACKS: u16 = 4;
    /// Pools.
    pub const POOLS: u16 = 5;
    /// Events.
    pub const EVENTS: u16 = 6;
    /// Missed events.
    pub const GAP: u16 = 7;
    /// Samples of a device.
    pub const SAMPLES: u16 = 8;
    /// Segments and blocks of a device.
    pub const STATE: u16 = 9;
    /// Marks on the time axis.
    pub const MARKS: u16 = 10;
    /// A word of the recorder.
    pub const NOTE: u16 = 11;
    /// A snapshot was written beside the log.
    pub const SAVED: u16 = 12;
    /// Notes on events.
    pub const EXTRAS: u16 = 13;
    /// The job is over.
    pub const END: u16 = 14;
}

/// See the head of this file.
#[derive(Debug)]
pub struct Fsl;

/// What is read at once.
const CHUNK: usize = 1 << 20;

impl Importer for Fsl {
    fn name(&self) -> &'static str {
        "fsl"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        if head.starts_with(&MAGIC[..4]) { Confidence::Certain } else { Confidence::No }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let (name, size) = (source.name().to_owned(), source.size());
        progress.stage("reading", size)?;
        let mut reading =
            Reading { name, splitter: Splitter::default(), filling: Filling::into_builder(std::mem::take(builder)) };
        match source.body() {
            Body::Slice(bytes) => {
                let mut done = 0;
                for chunk in bytes.chunks(CHUNK) {
                    done += chunk.len() as u64;
                    reading.take(chunk)?;
                    progress.at(done)?;
                }
            }
            Body::Stream(stream) => {
                let on_disk = stream.on_disk();
                let mut chunk = vec![0; CHUNK];
                loop {
                    // Whatever unpacking fails with, what came before is read.
                    let read = stream.read(&mut chunk).unwrap_or(0);
                    if read == 0 {
                        break;
                    }
                    reading.take(&chunk[..read])?;
                    progress.at(on_disk.get())?;
                }
                if let Some(limit) = stream.bomb() {
                    return Err(FormatError::Bomb { name: reading.name, limit });
                }
                if let Some(failure) = stream.failure() {
                    let failure = failure.to_owned();
                    reading.filling.cut(format!("unpacking ended with: {failure}"));
                }
            }
        }
        let Reading { name, mut splitter, mut filling } = reading;
        splitter.finish();
        drain(&name, &mut splitter, &mut filling)?;
        if !splitter.begun() {
            return Err(FormatError::EndsEarly { name, offset: splitter.offset() });
        }
        if let Some(at) = splitter.torn_at() {
            filling.torn(at);
        }
        let written_by = filling.written_by();
        *builder = filling.finish();
        Ok(written_by)
    }
}

struct Reading {
    name: String,
    splitter: Splitter,
    filling: Filling,
}

impl Reading {
    fn take(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.splitter.feed(bytes);
        drain(&self.name, &mut self.splitter, &mut self.filling)
    }
}

fn drain(name: &str, splitter: &mut Splitter, filling: &mut Filling) -> Result<(), FormatError> {
    while let Some(piece) = splitter.next_piece() {
        match piece {
            Piece::Record { kind, payload, at } => filling.take(kind, payload, at),
            Piece::Damage { from, to } => filling.damage(from, to),
            Piece::Foreign => {
                return Err(FormatError::Broken {
                    name: name.to_owned(),
                    what: "the first bytes are not those of a log".to_owned(),
                    offset: 0,
                });
            }
            Piece::Newer(version) => {
                return Err(FormatError::NewerLog { name: name.to_owned(), version, known: VERSION });
            }
        }
    }
    Ok(())
}
