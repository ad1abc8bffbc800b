//! Single fields of rows: numbers, texts, pools, states and stacks out of whatever the file holds there.
//!
//! Always: what cannot be meant is counted as a bad field and read as zero or nothing.

use crate::base::StringId;
use crate::format::assembly::{Assembly, Fault, dict, list};
use crate::format::pickle::value::{PACKED_MAX, Packed, Value};
use crate::model::{BlockState, Frame, FrameId, PoolId, StackId, StreamId, WarningKind};

/// A text made from a value is cut here: shared parts could otherwise multiply without end.
const MAX_TEXT: usize = 64 << 10;

impl Assembly<'_> {
    pub(super) fn bad_field(&mut self, row: &str, key: StringId) {
        let strings = &self.builder.stacks.strings;
        self.builder.warnings.push(WarningKind::BadField, || format!("`{}` of {row} is of an unexpected type", strings.get(key)));
    }
    pub(super) fn unknown_key(&mut self, row: &str, key: StringId) {
        let strings = &self.builder.stacks.strings;
        self.builder.warnings.push(WarningKind::UnknownKey, || {
            let name: String = strings.get(key).chars().take(80).collect();
            format!("`{name}` of {row}")
        });
    }
    /// An address: unsigned, but C++ writes it signed.
    pub(super) fn address(&mut self, value: Value, row: &str, key: StringId) -> u64 {
        match value {
            Value::Int(signed) => signed as u64,
            Value::Big(unsigned) => unsigned,
            _ => self.whole_number(value, row, key),
        }
    }
    /// A size in bytes: never negative.
    pub(super) fn size(&mut self, value: Value, row: &str, key: StringId) -> u64 {
        match value {
            Value::Int(signed) if 0 <= signed => signed as u64,
            Value::Big(unsigned) => unsigned,
            _ => self.whole_number(value, row, key),
        }
    }
    pub(super) fn stream(&mut self, value: Value, row: &str, key: StringId) -> StreamId {
        match integer(value) {
            Some(0) => StreamId::DEFAULT,
            Some(handle) => self.builder.streams.intern(handle),
            None => {
                self.bad_field(row, key);
                StreamId::DEFAULT
            }
        }
    }
    pub(super) fn whole_number(&mut self, value: Value, row: &str, key: StringId) -> u64 {
        match value {
            Value::Float(number) if 0.0 <= number && number.fract() == 0.0 && number < 9e18 => number as u64,
            Value::Bool(truth) => u64::from(truth),
            _ => {
                self.bad_field(row, key);
                0
            }
        }
    }
    pub(super) fn state(&mut self, value: Value) -> BlockState {
        let text = self.text_of(value);
        let strings = &self.builder.stacks.strings;
        BlockState::of_name(strings.get(text)).unwrap_or_else(|| {
            self.builder.warnings.push(WarningKind::UnknownState, || strings.get(text).chars().take(80).collect());
            BlockState::Inactive
        })
    }
    /// A pool id from a tuple, or from the array it is in JSON.
    pub(super) fn pool_of(&mut self, value: Value) -> Option<PoolId> {
        let pair = match value {
            Value::Pair(row) => *self.pairs.get(row as usize)?,
            Value::List(row) => {
                let state = self.lists[row as usize];
                if state.kind() != list::OPEN {
                    return None;
                }
                let [Value::Int(a), Value::Int(b)] = *self.open_lists.get(state.number()) else { return None };
                // JSON shares nothing, so the array has done its work.
                let items = self.take_items(state.number());
                self.recycle_items(items);
                self.lists[row as usize] = Packed::new(list::EMPTY, 0);
                (a, b)
            }
            _ => return None,
        };
        Some(self.builder.pools.intern(pair))
    }
    /// The text of a note, none where it says that there is none.
    pub(super) fn note_text(&mut self, value: Value) -> Option<StringId> {
        let text = match value {
            Value::Str(text) => text,
            Value::None => return None,
            other => self.text_of(other),
        };
        (text != self.words.empty && text != self.words.not_available).then_some(text)
    }
    pub(super) fn text_of_field(&mut self, value: Value) -> StringId {
        match value {
            Value::Str(text) => text,
            Value::None => self.words.empty,
            other => self.text_of(other),
        }
    }
    /// Any value as text; lists of texts are joined, other lists and dicts only described.
    pub(super) fn text_of(&mut self, value: Value) -> StringId {
        let text = match value {
            Value::Str(text) => return text,
            Value::None => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Big(number) => number.to_string(),
            Value::Wide => "an integer of more than 64 bits".to_owned(),
            Value::Float(number) => format!("{number:?}"),
            Value::Bytes => "bytes".to_owned(),
            Value::Set => "a set".to_owned(),
            Value::Pair(row) => self.pairs.get(row as usize).map_or(String::new(), |(a, b)| format!("({a}, {b})")),
            Value::Dict(row) => match self.dicts[row as usize] {
                state if state.kind() == dict::OPEN => format!("a dict of {} keys", self.open_dicts.get(state.number()).len()),
                _ => "a dict".to_owned(),
            },
            Value::List(row) => return self.text_of_list(row),
        };
        self.builder.stacks.strings.intern(&text)
    }
    pub(super) fn text_of_list(&mut self, row: u32) -> StringId {
        let state = self.lists[row as usize];
        let text = match state.kind() {
            list::TEXT => return StringId(state.number()),
            list::EMPTY => String::new(),
            list::OPEN => {
                let items = self.open_lists.get(state.number());
                let strings = &self.builder.stacks.strings;
                match items {
                    [Value::Int(a), Value::Int(b)] => format!("({a}, {b})"),
                    _ if items.iter().all(|item| matches!(item, Value::Str(_))) => {
                        let mut text = String::new();
                        for item in items {
                            let Value::Str(item) = item else { continue };
                            if MAX_TEXT <= text.len() {
                                text.push('…');
                                break;
                            }
                            text.push_str(strings.get(*item));
                        }
                        text
                    }
                    _ => format!("a list of {} items", items.len()),
                }
            }
            _ => "a list".to_owned(),
        };
        let id = self.builder.stacks.strings.intern(&text);
        if state.kind() == list::OPEN && id.0 < PACKED_MAX {
            let items = self.take_items(state.number());
            self.recycle_items(items);
            self.lists[row as usize] = Packed::new(list::TEXT, id.0);
        }
        id
    }
    /// The stack of a list of frames.
    pub(super) fn stack_of(&mut self, value: Value) -> Result<StackId, Fault> {
        let row = match value {
            Value::List(row) => row,
            Value::None => return Ok(StackId::ABSENT),
            _ => {
                self.builder.warnings.push(WarningKind::BadField, || "`frames` is no list".to_owned());
                return Ok(StackId::ABSENT);
            }
        };
        let state = self.lists[row as usize];
        match state.kind() {
            list::EMPTY => Ok(StackId::EMPTY),
            list::STACK => Ok(StackId(state.number())),
            list::OPEN => {
                let items = self.take_items(state.number());
                let mut frames = Vec::with_capacity(items.len());
                for item in &items {
                    match *item {
                        Value::Dict(inner) if self.settle(inner)?.kind() == dict::FRAME => {
                            frames.push(FrameId(self.dicts[inner as usize].number()));
                        }
                        Value::Str(name) => {
                            let frame = Frame { name, filename: self.words.empty, line: 0 };
                            frames.push(self.builder.stacks.intern_frame(frame));
                        }
                        _ => self
                            .builder
                            .warnings
                            .push(WarningKind::BadField, || "an item of `frames` that is no frame".to_owned()),
                    }
                }
                self.recycle_items(items);
                self.make_stack(row, &frames)
            }
            _ => {
                self.builder.warnings.push(WarningKind::BadField, || "`frames` holds something else".to_owned());
                Ok(StackId::ABSENT)
            }
        }
    }
    /// Puts the C++ frames of PyTorch 2.0, which are one text, one frame a line, before the Python ones.
    pub(super) fn with_cpp_frames(&mut self, stack: StackId, value: Value) -> Result<StackId, Fault> {
        let Value::Str(text) = value else { return Ok(stack) };
        if let Some(known) = self.cpp_stacks.get(&(text, stack)) {
            return Ok(*known);
        }
        let all = self.builder.stacks.strings.get(text).to_owned();
        let mut frames = Vec::new();
        for line in all.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let name = self.builder.stacks.strings.intern(line);
            frames.push(self.builder.stacks.intern_frame(Frame { name, filename: self.words.empty, line: 0 }));
        }
        frames.extend_from_slice(self.builder.stacks.frames(stack));
        let joined = self.builder.stacks.intern(&frames);
        self.spend(frames.len() as u64 * 4)?;
        self.cpp_stacks.insert((text, stack), joined);
        Ok(joined)
    }
}

/// An integer as signed 64 bits; 2^64 − 1 is −1, as PyTorch stores some line numbers.
pub(super) fn integer(value: Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(number),
        Value::Big(number) => Some(number as i64),
        Value::Bool(truth) => Some(i64::from(truth)),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e18 => Some(number as i64),
        _ => None,
    }
}
