//! PyTorch's snapshot as a pickle, written by Python or by C++, 1.13 to today.

use crate::base::Progress;
use crate::format::assembly::Assembly;
use crate::format::error::FormatError;
use crate::format::finish::Found;
use crate::format::importer::{Confidence, Importer};
use crate::format::pickle::machine::{self, Ending, Trouble};
use crate::format::pickle::opcode;
use crate::format::source::{Body, Input, Slice, Source};
use crate::model::{VersionRange, WarningKind};
use crate::replay::SnapshotBuilder;
use std::io::Read as _;

/// See the head of this file.
#[derive(Debug)]
pub struct TorchPickle;

impl Importer for TorchPickle {
    fn name(&self) -> &'static str {
        "torch-pickle"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        match head {
            [opcode::PROTO, 0..=5, opcode::FRAME, ..] => Confidence::Certain,
            [opcode::PROTO, 0..=5, ..] => Confidence::Likely,
            // Protocols 0 and 1 have no header: a MARK with DICT or LIST, or an empty one.
            [opcode::MARK, opcode::DICT | opcode::LIST, ..] => Confidence::Likely,
            [opcode::EMPTY_DICT | opcode::EMPTY_LIST, opcode::BINPUT | opcode::LONG_BINPUT | opcode::PUT, ..] => {
                Confidence::Likely
            }
            _ => Confidence::No,
        }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let (name, size) = (source.name().to_owned(), source.size());
        progress.stage("reading", size)?;
        match source.body() {
            Body::Slice(bytes) => {
                let mut input = Slice::new(bytes);
                let read = read_pickle(&name, &mut input, builder, progress);
                let rest = input.rest();
                if read.is_ok() && rest.iter().any(|byte| *byte != 0) {
                    trailing(builder, input.offset(), rest.len());
                }
                read
            }
            Body::Stream(stream) => {
                let read = read_pickle(&name, stream.as_mut(), builder, progress);
                if let Some(limit) = stream.bomb() {
                    return Err(FormatError::Bomb { name, limit });
                }
                let stopped = stream.offset();
                let mut rest = Vec::new();
                // What comes behind is only counted, so a little of it is enough.
                let counted = stream.by_ref().take(64 << 10).read_to_end(&mut rest);
                if read.is_ok() && counted.is_ok() && rest.iter().any(|byte| *byte != 0) {
                    trailing(builder, stopped, rest.len());
                }
                if read.is_ok()
                    && builder.warnings.count(WarningKind::Truncated) == 0
                    && let Some(failure) = stream.failure()
                {
                    let failure = failure.to_owned();
                    builder.warnings.push(WarningKind::Truncated, || format!("unpacking ended with: {failure}"));
                }
                read
            }
        }
    }
}

fn trailing(builder: &mut SnapshotBuilder, at: u64, count: usize) {
    builder.warnings.push(WarningKind::TrailingBytes, || format!("{count} bytes from byte {at} on"));
}

/// Reads one pickle from any input into the builder.
pub(crate) fn read_pickle<I: Input>(
    name: &str,
    input: &mut I,
    builder: &mut SnapshotBuilder,
    progress: &Progress,
) -> Result<Option<VersionRange>, FormatError> {
    let name = || name.to_owned();
    let mut bench = Assembly::new(builder);
    let (root, end) = match machine::run(input, &mut bench, progress) {
        Ok(Ending::Whole(root)) => (Some(root), None),
        Ok(Ending::Early(at)) => (bench.salvage(), Some(at)),
        Err(Trouble::Cancelled) => return Err(FormatError::Cancelled),
        Err(Trouble::Refused { opcode, at }) => return Err(FormatError::Refused { name: name(), opcode, offset: at }),
        Err(Trouble::NoOpcode { byte, at }) => {
            return Err(FormatError::Broken { name: name(), what: format!("0x{byte:02x} is no pickle opcode"), offset: at });
        }
        Err(Trouble::Fault { opcode, at, fault }) => {
            return Err(FormatError::Broken { name: name(), what: format!("opcode {opcode} {fault}"), offset: at });
        }
        Err(Trouble::BadArgument { opcode, at }) => {
            let what = format!("the argument of opcode {opcode} is not readable");
            return Err(FormatError::Broken { name: name(), what, offset: at });
        }
    };
    complete(name(), bench, root, end)
}

/// Hands what was read to the builder; `end` is the byte at which the input was over too early.
pub(crate) fn complete(
    name: String,
    mut bench: Assembly,
    root: Option<crate::format::pickle::value::Value>,
    end: Option<u64>,
) -> Result<Option<VersionRange>, FormatError> {
    let Some(root) = root else {
        return Err(FormatError::EndsEarly { name, offset: end.unwrap_or(0) });
    };
    let found = bench.finish(root, end.is_none());
    let found = match found {
        Ok(found) => found,
        Err(fault) => return Err(FormatError::Broken { name, what: format!("it {fault}"), offset: end.unwrap_or(0) }),
    };
    match (found, end) {
        (Found::Snapshot(range), None) => Ok(Some(range)),
        (Found::Snapshot(range), Some(at)) => {
            if !bench.holds_rows() {
                return Err(FormatError::EndsEarly { name, offset: at });
            }
            bench.warn_truncated(at);
            Ok(Some(range))
        }
        (Found::Other(_), Some(offset)) => Err(FormatError::EndsEarly { name, offset }),
        (Found::Other(holds), None) => Err(FormatError::NotASnapshot { name, holds }),
    }
}
