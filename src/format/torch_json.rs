//! PyTorch's snapshot as JSON: the same structure, tuples as arrays, integers exact.
//!
//! The values drive the same bench as a pickle's, one by one; no tree of them exists.

use crate::base::Progress;
use crate::format::assembly::{Assembly, Fault};
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::pickle::value::Value;
use crate::format::source::Source;
use crate::format::torch_pickle::complete;
use crate::format::watched::{self, TICK};
use crate::model::VersionRange;
use crate::replay::SnapshotBuilder;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::io::Read;

/// See the head of this file.
#[derive(Debug)]
pub struct TorchJson;

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
        let name = source.name().to_owned();
        watched::through(source, progress, |reader, at| read_json(name, reader, at, builder))
    }
}

fn read_json(
    name: String,
    reader: &mut dyn Read,
    at: &Cell<u64>,
    builder: &mut SnapshotBuilder,
) -> Result<Option<VersionRange>, FormatError> {
    let fault = RefCell::new(None);
    let mut bench = Assembly::new(builder);
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(1 << 16, reader));
    let state = State { at, checked: Cell::new(0), fault: &fault };
    let read = Node { bench: &mut bench, state: &state }.deserialize(&mut json);
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
