//! vLLM's KV-cache events (`vllm/distributed/kv_events.py`): batches of `BlockStored`, `BlockRemoved` and
//! `AllBlocksCleared`, as MessagePack one behind the other or each behind its length, or as JSON, one a line.
//!
//! There is no standard file: programs write down what vLLM publishes. Both encodings of its structs are read, as
//! lists and as maps, and look-alikes of other servers with them.
//!
//! Always: what a cache holds after each event is what was stored less what was removed, block by block; a record that
//! cannot be used is counted with its place and left out.

mod events;
mod fill;
mod value;

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::foreign::{holds, is_json};
use crate::format::importer::{Confidence, Importer};
use crate::format::neighbour;
use crate::format::source::Source;
use crate::format::watched;
use crate::model::{VersionRange, WarningKind};
use crate::replay::SnapshotBuilder;
use fill::Filling;
use value::Value;

/// See the head of this file.
#[derive(Debug)]
pub struct VllmKv;

const KIND: &str = "a log of KV-cache events (as vLLM publishes them)";

impl Importer for VllmKv {
    fn name(&self) -> &'static str {
        "vllm-kv"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        let words = [&b"BlockStored"[..], b"BlockRemoved", b"AllBlocksCleared"];
        if words.into_iter().any(|word| holds(head, word)) { Confidence::Certain } else { Confidence::No }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let name = source.name().to_owned();
        let (bytes, failure) = watched::whole(source, progress)?;
        if let Some(why) = failure {
            builder.warnings.push(WarningKind::Truncated, || format!("at byte {}: unpacking ended with: {why}", bytes.len()));
        }
        progress.stage("reading events", bytes.len() as u64)?;
        let mut filling = Filling::new(builder);
        if is_json(&bytes) {
            lines(&bytes, &mut filling, progress)?
        } else {
            packed(&bytes, &mut filling, progress)?
        }
        filling.finish().map_err(|why| neighbour::useless(&name, KIND, why))?;
        Ok(None)
    }
}

/// JSON, one record a line; else one value behind the other, over lines as it comes.
fn lines(bytes: &[u8], filling: &mut Filling<'_>, progress: &Progress) -> Result<(), FormatError> {
    let first = bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    if serde_json::from_slice::<Value>(first).is_err_and(|error| error.is_eof()) {
        return values(bytes, filling, progress);
    }
    let mut offset = 0;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let place = || format!("line {}", number + 1);
        if number % 1024 == 0 {
            progress.at(offset as u64)?;
        }
        offset += line.len() + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => filling.record(&value, &place),
            // The last line of a log that is still being written, or was cut.
            Err(error) if error.is_eof() && bytes.len() < offset => filling.cut(bytes.len() as u64, &place()),
            Err(error) => filling.bad(|| format!("{}: no JSON: {error}", place())),
        }
    }
    Ok(())
}

fn values(bytes: &[u8], filling: &mut Filling<'_>, progress: &Progress) -> Result<(), FormatError> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut number = 0u64;
    loop {
        let offset = stream.byte_offset();
        progress.at(offset as u64)?;
        number += 1;
        match stream.next() {
            None => return Ok(()),
            Some(Ok(value)) => filling.record(&value, &|| format!("record {number}, at byte {offset}")),
            Some(Err(error)) if error.is_eof() => {
                filling.cut(bytes.len() as u64, &format!("record {number}"));
                return Ok(());
            }
            Some(Err(error)) => {
                filling.bad(|| format!("record {number}: no JSON: {error}; what follows is not read"));
                return Ok(());
            }
        }
    }
}

/// How MessagePack records stand one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Nothing between them.
    None,
    /// A length of so many bytes before each, the most significant first or last.
    Length { bytes: usize, little: bool },
}

const FRAMINGS: [Framing; 5] = [
    Framing::None,
    Framing::Length { bytes: 4, little: false },
    Framing::Length { bytes: 4, little: true },
    Framing::Length { bytes: 8, little: false },
    Framing::Length { bytes: 8, little: true },
];

impl Framing {
    /// The record at the start of some bytes and all that it takes up; for one with a length the record may be broken.
    fn next(self, bytes: &[u8]) -> Result<(Result<Value, value::Fault>, usize), value::Fault> {
        match self {
            Framing::None => value::packed(bytes).map(|(value, len)| (Ok(value), len)),
            Framing::Length { bytes: width, little } => {
                let head = bytes.get(..width).ok_or(value::Fault::Ends)?;
                let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
                let len = if little { head.iter().rev().fold(0, add) } else { head.iter().fold(0, add) };
                let len = usize::try_from(len).ok().and_then(|len| len.checked_add(width)).ok_or(value::Fault::Ends)?;
                let body = bytes.get(width..len).ok_or(value::Fault::Ends)?;
                Ok((value::packed(body).map(|(value, _)| value), len))
            }
        }
    }
    /// Whether some bytes begin with a record so framed that holds events.
    fn fits(self, bytes: &[u8]) -> bool {
        self.next(bytes).is_ok_and(|(record, _)| record.is_ok_and(|record| events::is_record(&record)))
    }
}

fn packed(bytes: &[u8], filling: &mut Filling<'_>, progress: &Progress) -> Result<(), FormatError> {
    let framing = FRAMINGS.into_iter().find(|framing| framing.fits(bytes)).unwrap_or(Framing::None);
    let (mut at, mut number) = (0, 0u64);
    while at < bytes.len() {
        if number % 1024 == 0 {
            progress.at(at as u64)?;
        }
        number += 1;
        let place = || format!("record {number}, at byte {at}");
        match framing.next(&bytes[at..]) {
            Ok((Ok(value), len)) => {
                filling.record(&value, &place);
                at += len.max(1);
            }
            Ok((Err(fault), len)) => {
                filling.bad(|| format!("{}: {fault}", place()));
                at += len.max(1);
            }
            Err(value::Fault::Ends) => {
                filling.cut(bytes.len() as u64, &place());
                break;
            }
            Err(fault) => {
                filling.bad(|| format!("{}: {fault}; what follows is not read", place()));
                break;
            }
        }
    }
    Ok(())
}
