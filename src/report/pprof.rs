//! A flame graph as a pprof profile: `pprof -http`, Grafana, Parca and Go's tools read it.
//!
//! The form is a protobuf message of six small kinds, packed with gzip (`proto/profile.proto` of google/pprof); the
//! dozen lines that write one stand here, since a protobuf library would bring a code generator for them. Always: one
//! sample a stack, innermost frame first; values sum to the tree's root.

use crate::analysis::flame::{FlameLabel, FlameOf, NO_STACK, WindowSum};
use crate::base::id::Id as _;
use crate::chart::flame_words::heading;
use crate::model::StackTable;
use crate::report::flame::{FlameReport, FlameSubject, for_each_end};
use crate::report::report::{ReportError, ReportOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Writes pprof's profile.
pub struct Pprof;

impl FlameReport for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }
    fn extension(&self) -> &'static str {
        "pb.gz"
    }
    fn write(&self, subject: &FlameSubject<'_>, _options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut packer = GzEncoder::new(out, Compression::default());
        packer.write_all(&Profile::of(subject))?;
        packer.finish()?;
        Ok(())
    }
}

/// Numbers of the fields of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const COMMENT: u32 = 13;
}

/// What is collected before it is written: places, functions and texts, each once.
struct Profile {
    samples: Message,
    locations: Message,
    functions: Message,
    texts: Vec<String>,
    text_rows: FxHashMap<String, u64>,
    rows: FxHashMap<FlameLabel, u64>,
}

impl Profile {
    fn of(subject: &FlameSubject<'_>) -> Vec<u8> {
        let mut profile = Profile {
            samples: Message::default(),
            locations: Message::default(),
            functions: Message::default(),
            // The first text is the empty one.
            texts: vec![String::new()],
            text_rows: FxHashMap::from_iter([(String::new(), 0)]),
            rows: FxHashMap::default(),
        };
        let (tree, stacks) = (subject.tree, &subject.snapshot.stacks);
        for_each_end(tree, |path, value| {
            let (mut places, mut values) = (Vec::new(), Vec::new());
            for node in path.iter().rev() {
                varint(profile.location(stacks, tree.nodes[*node].label), &mut places);
            }
            let value = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
            varint(value as u64, &mut values);
            let mut sample = Message::default();
            sample.bytes(1, &places);
            sample.bytes(2, &values);
            profile.samples.bytes(profile::SAMPLE, &sample.0);
        });
        let (kind, unit) = match tree.params.of {
            FlameOf::Live { counter, .. } | FlameOf::Difference { counter, .. } => (counter.name(), "bytes"),
            FlameOf::Window { sum: WindowSum::Count, .. } => ("blocks", "count"),
            FlameOf::Window { .. } | FlameOf::Set(_) => ("allocated", "bytes"),
        };
        let mut sample_type = Message::default();
        sample_type.number(1, profile.text(kind));
        sample_type.number(2, profile.text(unit));
        let about = format!("{}, {}: {}", subject.snapshot.origin.name, subject.device, heading(tree.params.of));
        let about = profile.text(&about);
        let mut whole = Message::default();
        whole.bytes(profile::SAMPLE_TYPE, &sample_type.0);
        whole.0.extend(&profile.samples.0);
        whole.0.extend(&profile.locations.0);
        whole.0.extend(&profile.functions.0);
        for text in &profile.texts {
            whole.bytes(profile::STRING_TABLE, text.as_bytes());
        }
        whole.number(profile::COMMENT, about);
        whole.0
    }
    /// The number of a frame's place, from 1.
    fn location(&mut self, stacks: &StackTable, label: FlameLabel) -> u64 {
        if let Some(row) = self.rows.get(&label) {
            return *row;
        }
        let row = self.rows.len() as u64 + 1;
        self.rows.insert(label, row);
        let (name, file, line) = match label {
            FlameLabel::All => ("all", "", 0),
            FlameLabel::Frame(frame) if frame.row() < stacks.frame_count() => {
                (stacks.function(frame), stacks.file(frame), stacks.frame(frame).line.max(0))
            }
            FlameLabel::NoStack | FlameLabel::Frame(_) => (NO_STACK, "", 0),
        };
        let (name, file) = (self.text(name), self.text(file));
        let mut function = Message::default();
        function.number(1, row);
        function.number(2, name);
        function.number(3, name);
        function.number(4, file);
        self.functions.bytes(profile::FUNCTION, &function.0);
        let mut at = Message::default();
        at.number(1, row);
        at.number(2, line as u64);
        let mut location = Message::default();
        location.number(1, row);
        location.bytes(4, &at.0);
        self.locations.bytes(profile::LOCATION, &location.0);
        row
    }
    fn text(&mut self, text: &str) -> u64 {
        if let Some(row) = self.text_rows.get(text) {
            return *row;
        }
        let row = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.text_rows.insert(text.to_owned(), row);
        row
    }
}

/// A protobuf message: fields one after the other.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, number: u64) {
        varint(u64::from(field << 3), &mut self.0);
        varint(number, &mut self.0);
    }
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        varint(u64::from(field << 3 | 2), &mut self.0);
        varint(bytes.len() as u64, &mut self.0);
        self.0.extend(bytes);
    }
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn varint(mut number: u64, out: &mut Vec<u8>) {
    while 0x80 <= number {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_as_protobuf_has_them() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            varint(number, &mut out);
            assert_eq!(out, bytes);
        }
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        assert_eq!(message.0, b"\x08\x96\x01\x12\x07testing");
    }
}
