//! Records become batches, batches become events: both encodings of vLLM's structs, lists by place and maps by name.
//!
//! Always: an event that is taken is whole; what is wrong with one that is not is a sentence.

use crate::format::vllm_kv::value::{self, Value};

/// Events of one time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batch<'a> {
    /// Unix time in seconds, where stated.
    pub seconds: Option<f64>,
    /// The data-parallel rank, where stated.
    pub rank: Option<i128>,
    /// Its events, as they stand.
    pub events: Vec<&'a Value>,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event<'a> {
    Stored(Stored<'a>),
    Removed { hashes: &'a [Value], medium: Option<&'a str>, group: Option<i128> },
    Cleared,
}

/// `BlockStored`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored<'a> {
    pub hashes: &'a [Value],
    pub parent: Option<&'a Value>,
    /// How many tokens are in the blocks.
    pub tokens: usize,
    /// Tokens a block has room for.
    pub block_size: u32,
    /// Where the blocks are: `GPU`, or another tier.
    pub medium: Option<&'a str>,
    pub group: Option<i128>,
    /// The adapter they were made with.
    pub lora: Option<String>,
}

/// Whether a record holds batches or events.
pub(super) fn is_record(record: &Value) -> bool {
    match record {
        Value::Map(_) => ["events", "type", "payload"].iter().any(|key| record.get(key).is_some()),
        Value::List(items) => match items.as_slice() {
            [first, Value::List(_), ..] if first.number().is_some() => true,
            [first, ..] if first.text().is_some_and(is_event_name) => true,
            [_, _, Value::Bytes(_)] => true,
            [first, ..] => matches!(first, Value::Map(_) | Value::List(_)) && is_record(first),
            [] => false,
        },
        _ => false,
    }
}

fn is_event_name(name: &str) -> bool {
    matches!(name, "BlockStored" | "BlockRemoved" | "AllBlocksCleared")
}

/// Hands all batches of a record on; the error is a sentence.
pub(super) fn batches(record: &Value, take: &mut dyn FnMut(Batch<'_>)) -> Result<(), String> {
    match record {
        Value::Map(_) => {
            if let Some(payload) = record.get("payload") {
                return payload_of(payload, take);
            }
            let seconds = ["ts", "timestamp"].iter().find_map(|key| record.get(key)).and_then(Value::number);
            let rank = ["data_parallel_rank", "dp_rank"].iter().find_map(|key| record.get(key)).and_then(Value::int);
            if record.get("type").is_some() {
                take(Batch { seconds, rank, events: vec![record] });
                return Ok(());
            }
            let events = record.get("events").ok_or("a map without `events` or `type`")?;
            let events = events.list().ok_or_else(|| format!("its `events` are {}, no list", events.what()))?;
            take(Batch { seconds, rank, events: events.iter().collect() });
            Ok(())
        }
        Value::List(items) => match items.as_slice() {
            [time, Value::List(events), rest @ ..] if time.number().is_some() => {
                let rank = rest.first().and_then(Value::int);
                take(Batch { seconds: time.number(), rank, events: events.iter().collect() });
                Ok(())
            }
            [name, ..] if name.text().is_some_and(is_event_name) => {
                take(Batch { seconds: None, rank: None, events: vec![record] });
                Ok(())
            }
            // What ZeroMQ delivers: topic, number, payload.
            [_, _, payload @ Value::Bytes(_)] => payload_of(payload, take),
            all => all.iter().try_for_each(|item| match item {
                Value::Map(_) | Value::List(_) => batches(item, take),
                other => Err(format!("{} where a batch of events should be", other.what())),
            }),
        },
        other => Err(format!("{} where a batch of events should be", other.what())),
    }
}

fn payload_of(payload: &Value, take: &mut dyn FnMut(Batch<'_>)) -> Result<(), String> {
    match payload {
        // The mark that a replay of missed batches is over.
        Value::Bytes(bytes) if bytes.is_empty() => Ok(()),
        Value::Bytes(bytes) => {
            let (inner, _) = value::packed(bytes).map_err(|fault| format!("its payload is {fault}"))?;
            batches(&inner, take)
        }
        inner => batches(inner, take),
    }
}

/// An event as it stands; the error is a sentence.
pub(super) fn event(value: &Value) -> Result<Event<'_>, String> {
    let fields = Fields::of(value)?;
    match fields.name {
        "BlockStored" => fields.stored().map(Event::Stored),
        "BlockRemoved" => Ok(Event::Removed {
            hashes: fields.hashes()?,
            medium: fields.medium(2),
            group: fields.get(3, "group_idx").and_then(Value::int),
        }),
        "AllBlocksCleared" => Ok(Event::Cleared),
        other => Err(format!("an event of type `{other}`, which is not known")),
    }
}

/// The fields of an event, by place or by name.
struct Fields<'a> {
    name: &'a str,
    value: &'a Value,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value) -> Result<Fields<'a>, String> {
        let name = match value {
            Value::List(items) => items.first(),
            Value::Map(_) => value.get("type"),
            other => return Err(format!("{} where an event should be", other.what())),
        };
        let name = name.and_then(Value::text).ok_or("an event without its type")?;
        Ok(Fields { name, value })
    }
    /// A field; what is left out or nothing is none.
    fn get(&self, place: usize, key: &str) -> Option<&'a Value> {
        let value = match self.value {
            Value::List(items) => items.get(place),
            other => other.get(key),
        };
        value.filter(|value| **value != Value::Nothing)
    }
    fn hashes(&self) -> Result<&'a [Value], String> {
        let hashes = self.get(1, "block_hashes").ok_or_else(|| format!("{} without `block_hashes`", self.name))?;
        let list = hashes.list().ok_or_else(|| format!("`block_hashes` of {} is {}, no list", self.name, hashes.what()))?;
        let odd = list.iter().find(|hash| !matches!(hash, Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::Bytes(_)));
        odd.map_or(Ok(list), |odd| Err(format!("a block hash of {} that is {}", self.name, odd.what())))
    }
    fn medium(&self, place: usize) -> Option<&'a str> {
        self.get(place, "medium").and_then(Value::text)
    }
    fn stored(&self) -> Result<Stored<'a>, String> {
        let hashes = self.hashes()?;
        let parent = self.get(2, "parent_block_hash");
        if let Some(odd @ (Value::List(_) | Value::Map(_) | Value::Truth(_))) = parent {
            return Err(format!("`parent_block_hash` is {}", odd.what()));
        }
        let tokens = match self.get(3, "token_ids") {
            None => 0,
            Some(tokens) => tokens.list().ok_or_else(|| format!("`token_ids` is {}, no list", tokens.what()))?.len(),
        };
        let block_size = match self.get(4, "block_size") {
            None => 0,
            Some(size) => {
                let number = size.int().and_then(|size| u32::try_from(size).ok());
                number.ok_or_else(|| format!("`block_size` is {}, no number of tokens", size.what()))?
            }
        };
        let lora = match (self.get(7, "lora_name"), self.get(5, "lora_id")) {
            (Some(name), _) if name.text().is_some() => name.text().map(str::to_owned),
            (_, Some(id)) => id.int().map(|id| id.to_string()),
            _ => None,
        };
        let group = self.get(9, "group_idx").and_then(Value::int);
        Ok(Stored { hashes, parent, tokens, block_size, medium: self.medium(6), group, lora })
    }
}
