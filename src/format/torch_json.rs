//! PyTorch's snapshot as JSON: the same structure, tuples as arrays, integers exact.
//!
//! The values drive the same bench as a pickle's, one by one; no tree of them exists.

use crate::base::Progress;
use crate::format::assembly::{Assembly, Fault};
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::pickle::value::Value;
use crate::format::source::{Body, Source};
use crate::format::torch_pickle::complete;
use crate::model::VersionRange;
use crate::replay::SnapshotBuilder;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::io::Read;

/// See the head of this file.
#[derive(Debug)]
pub struct TorchJson;

/// Between two looks at the progress and the budget, in bytes.
const TICK: u64 = 256 << 10;

impl Importer for TorchJson {
    fn name(&self) -> &'static str {
        "torch-json"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        match text.first() {
            Some(b'{' | b'[') => {}
            _ => return Confidence::No,
        }
        let holds = |key: &[u8]| text.windows(key.len()).any(|window| window == key);
        if holds(b"\"segments\"") || holds(b"\"device_traces\"") || holds(b"\"total_size\"") {
            Confidence::Likely
        } else {
            Confidence::Possible
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
            Body::Slice(bytes) => read_json(name, *bytes, |read| read, builder, progress),
            Body::Stream(stream) => {
                let on_disk = stream.on_disk();
                let read = read_json(name.clone(), stream.as_mut(), |_| on_disk.get(), builder, progress);
                match stream.bomb() {
                    Some(limit) => Err(FormatError::Bomb { name, limit }),
                    None => read,
                }
            }
        }
    }
}

/// Reads through, counting, and stops where the work is no longer wanted.
struct Watched<'a, R, P> {
    reader: R,
    on_disk: P,
    at: &'a Cell<u64>,
    next: u64,
    progress: &'a Progress,
    cancelled: &'a Cell<bool>,
}

impl<R: Read, P: Fn(u64) -> u64> Read for Watched<'_, R, P> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(out)?;
        let at = self.at.get() + read as u64;
        self.at.set(at);
        if self.next <= at {
            self.next = at + TICK;
            if self.progress.at((self.on_disk)(at)).is_err() {
                self.cancelled.set(true);
                return Err(std::io::Error::other("cancelled"));
            }
        }
        Ok(read)
    }
}

fn read_json<R: Read>(
    name: String,
    mut reader: R,
    on_disk: impl Fn(u64) -> u64,
    builder: &mut SnapshotBuilder,
    progress: &Progress,
) -> Result<Option<VersionRange>, FormatError> {
    let (at, cancelled, fault) = (Cell::new(0), Cell::new(false), RefCell::new(None));
    // A byte order mark is no JSON, but editors write it.
    let mut mark = [0; 3];
    let got = read_some(&mut reader, &mut mark);
    let start = &mark[..got];
    let start = if start == b"\xef\xbb\xbf" { &[][..] } else { start };
    let reader = start.chain(reader);
    let watched = Watched { reader, on_disk, at: &at, next: TICK, progress, cancelled: &cancelled };
    let mut bench = Assembly::new(builder);
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(1 << 16, watched));
    let state = State { at: &at, checked: Cell::new(0), fault: &fault };
    let read = Node { bench: &mut bench, state: &state }.deserialize(&mut json);
    if cancelled.get() {
        return Err(FormatError::Cancelled);
    }
    let fault: Option<Fault> = fault.into_inner();
    match (read, fault) {
        (_, Some(fault)) => Err(FormatError::Broken { name, what: format!("the JSON {fault}"), offset: at.get() }),
        (Ok(()), None) => {
            let root = bench.pop().ok();
            complete(name, bench, root, None)
        }
        (Err(error), None) if error.is_eof() || error.is_io() => {
            let root = bench.salvage();
            complete(name, bench, root, Some(at.get()))
        }
        (Err(error), None) => Err(FormatError::BadJson { name, why: error.to_string() }),
    }
}

fn read_some(reader: &mut impl Read, out: &mut [u8]) -> usize {
    let mut got = 0;
    while got < out.len() {
        match reader.read(&mut out[got..]) {
            Ok(0) | Err(_) => break,
            Ok(read) => got += read,
        }
    }
    got
}

/// What all nodes of one file share.
struct State<'s> {
    at: &'s Cell<u64>,
    checked: Cell<u64>,
    fault: &'s RefCell<Option<Fault>>,
}

impl State<'_> {
    /// Keeps a fault of the bench aside; JSON's own error only unwinds.
    fn pass<E: Error>(&self, done: Result<(), Fault>) -> Result<(), E> {
        done.map_err(|fault| {
            *self.fault.borrow_mut() = Some(fault);
            E::custom("not possible")
        })
    }
}

/// One value, put on the bench's stack.
struct Node<'n, 'b, 's> {
    bench: &'n mut Assembly<'b>,
    state: &'n State<'s>,
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.bench.push(Value::None);
        Ok(())
    }
    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        self.bench.push(Value::Bool(truth));
        Ok(())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.bench.push(Value::Int(number));
        Ok(())
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.bench.push(i64::try_from(number).map_or(Value::Big(number), Value::Int));
        Ok(())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.bench.push(Value::Float(number));
        Ok(())
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.bench.push_text(text.as_bytes());
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Node { bench, state } = self;
        state.pass(bench.empty_list().and_then(|()| bench.mark()))?;
        while items.next_element_seed(Node { bench: &mut *bench, state })?.is_some() {}
        state.pass(bench.appends())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        let Node { bench, state } = self;
        if state.checked.get() + TICK <= state.at.get() {
            state.checked.set(state.at.get());
            state.pass(bench.check_budget(state.at.get()))?;
        }
        state.pass(bench.empty_dict().and_then(|()| bench.mark()))?;
        while pairs.next_key_seed(Node { bench: &mut *bench, state })?.is_some() {
            pairs.next_value_seed(Node { bench: &mut *bench, state })?;
        }
        state.pass(bench.set_items())
    }
}
