//! The bench on which values become rows: a stack, a memo, and tables of lists and dicts.
//!
//! Both writers of the format drive it, the pickle machine and the JSON reader, by the same few moves, so
//! that twins of one snapshot cannot differ. Always: a dict that is complete and known is a row of its kind
//! at once (event, frame, block, segment …) and its pairs are gone; a list of frames is one [`StackId`], a list
//! of events one [`Trace`]. What is still loose is bounded by [`Assembly::check_budget`].

use crate::base::StringId;
use crate::format::pickle::value::{Memo, PACKED_MAX, Packed, Value};
use crate::format::version::Evidence;
use crate::format::words::{Key, Words};
use crate::model::{AnnotationMark, EventIdx, Extra, Frame, FrameId, StackId, Trace, TraceEntry, WarningKind};
use crate::replay::{BlockRecord, SegmentRecord, SnapshotBuilder};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Loose values may always take this much.
const BUDGET_FLOOR: u64 = 64 << 20;
/// And beyond that this many bytes for each byte read. A real file needs less than one.
const BUDGET_PER_BYTE: u64 = 4;
/// What one copied row counts against the budget.
const ROW_COST: u64 = 64;
/// Marks that may be open at once; a snapshot needs about ten.
const MAX_DEPTH: usize = 512;

/// A move that is not possible. The caller knows the byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("takes more values from the stack than there are")]
    Underflow,
    #[error("needs a MARK and there is none")]
    NoMark,
    #[error("refers to memo entry {0}, which was never stored")]
    NoMemo(u64),
    #[error("stores memo entry {0}, far beyond what the file can hold")]
    MemoTooFar(u64),
    #[error("needs a list on the stack and finds something else")]
    NotList,
    #[error("needs a dict on the stack and finds something else")]
    NotDict,
    #[error("has a key without a value")]
    OddItems,
    #[error("nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("needs far more memory than a file of this size may (more than {0} bytes of unfinished values)")]
    Budget(u64),
    #[error("exceeds the 2^28 lists, dicts or events this reader can number")]
    TooMany,
    #[error("takes back a row that was recorded already")]
    PopRow,
}

/// What became of a list.
pub(super) mod list {
    pub(crate) const EMPTY: u8 = 0;
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const TRACE: u8 = 2;
    pub(crate) const STACK: u8 = 3;
    pub(crate) const TEXT: u8 = 4;
}

/// What became of a dict.
pub(super) mod dict {
    pub(crate) const EMPTY: u8 = 0;
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const EVENT: u8 = 2;
    pub(crate) const LOOSE_EVENT: u8 = 3;
    pub(crate) const FRAME: u8 = 4;
    pub(crate) const BLOCK: u8 = 5;
    pub(crate) const SEGMENT: u8 = 6;
    pub(crate) const HISTORY: u8 = 7;
    pub(crate) const ANNOTATION: u8 = 8;
}

/// An open MARK: where the stack was, and how many values behind it are events that were recorded early.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: usize,
    early: usize,
}

/// An event that belongs to no trace yet.
#[derive(Clone, Debug)]
pub(super) struct LooseEvent {
    pub(super) entry: TraceEntry,
    pub(super) extras: Vec<(StringId, StringId)>,
}

/// Events numbered one after another that lie one after another in a trace.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    trace: u32,
    row: u32,
}

/// Vectors that are used again and again.
#[derive(Debug)]
pub(super) struct Pool<T> {
    rows: Vec<Vec<T>>,
    free: Vec<u32>,
    items: usize,
}

impl<T: Copy> Pool<T> {
    fn new() -> Self {
        Self { rows: Vec::new(), free: Vec::new(), items: 0 }
    }
    fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.rows.push(Vec::new());
            self.rows.len() as u32 - 1
        })
    }
    fn extend(&mut self, row: u32, items: &[T]) {
        self.items += items.len();
        self.rows[row as usize].extend_from_slice(items);
    }
    pub(super) fn get(&self, row: u32) -> &[T] {
        &self.rows[row as usize]
    }
    /// Takes the items and frees the row; hand the vector back with `recycle`.
    fn close(&mut self, row: u32) -> Vec<T> {
        let items = std::mem::take(&mut self.rows[row as usize]);
        self.items -= items.len();
        self.free.push(row);
        items
    }
    fn recycle(&mut self, mut items: Vec<T>) {
        if let Some(row) = self.free.last()
            && items.capacity() <= 4096
        {
            items.clear();
            self.rows[*row as usize] = items;
        }
    }
    fn heap_bytes(&self) -> usize {
        self.items * size_of::<T>() + self.rows.len() * size_of::<Vec<T>>()
    }
}

/// The values of one file while it is read. See the head of this file.
pub(crate) struct Assembly<'b> {
    pub(super) builder: &'b mut SnapshotBuilder,
    pub(super) words: Words,
    pub(super) evidence: Evidence,
    stack: Vec<Value>,
    marks: Vec<Mark>,
    memo: Memo,
    pub(super) lists: Vec<Packed>,
    pub(super) dicts: Vec<Packed>,
    pub(super) open_lists: Pool<Value>,
    pub(super) open_dicts: Pool<(StringId, Value)>,
    pub(super) pairs: Vec<(i64, i64)>,
    pair_rows: HashMap<(i64, i64), u32>,
    pub(super) traces: Vec<Trace>,
    runs: Vec<Run>,
    events: u32,
    pub(super) loose: Vec<LooseEvent>,
    pub(super) segments: Vec<(i32, SegmentRecord)>,
    pub(super) blocks: Vec<BlockRecord>,
    pub(super) histories: Vec<(StackId, Option<u64>)>,
    pub(super) annotations: Vec<AnnotationMark>,
    pub(super) rich_frames: HashMap<(Frame, Vec<(StringId, StringId)>), FrameId>,
    pub(super) cpp_stacks: HashMap<(StringId, StackId), StackId>,
    frame_scratch: Vec<FrameId>,
    pair_scratch: Vec<(StringId, Value)>,
    recent: Box<[(u64, u32, StringId); 256]>,
    /// Whether the file states the segments of its GPUs, and of host memory.
    pub(super) segments_stated: [bool; 2],
    /// Traces that were handed to a device.
    pub(super) taken: BTreeMap<u32, i32>,
    /// Devices the file names.
    pub(super) ordinals: BTreeSet<i32>,
    spent: u64,
    allowed: u64,
}

impl<'b> Assembly<'b> {
    /// An empty bench whose rows go to `builder`.
    pub(crate) fn new(builder: &'b mut SnapshotBuilder) -> Self {
        let words = Words::new(&mut builder.stacks.strings);
        let empty = words.empty;
        Self {
            builder,
            words,
            evidence: Evidence::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            lists: Vec::new(),
            dicts: Vec::new(),
            open_lists: Pool::new(),
            open_dicts: Pool::new(),
            pairs: Vec::new(),
            pair_rows: HashMap::new(),
            traces: Vec::new(),
            runs: Vec::new(),
            events: 0,
            loose: Vec::new(),
            segments: Vec::new(),
            blocks: Vec::new(),
            histories: Vec::new(),
            annotations: Vec::new(),
            rich_frames: HashMap::new(),
            cpp_stacks: HashMap::new(),
            frame_scratch: Vec::new(),
            pair_scratch: Vec::new(),
            recent: Box::new([(0, 0, empty); 256]),
            segments_stated: [false; 2],
            taken: BTreeMap::new(),
            ordinals: BTreeSet::new(),
            spent: 0,
            allowed: BUDGET_FLOOR,
        }
    }

    // ---- stack and memo

    /// Puts a value on the stack.
    #[inline]
    pub(crate) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }
    /// Puts a text on the stack. Equal texts are one.
    #[inline]
    pub(crate) fn push_text(&mut self, bytes: &[u8]) {
        let id = self.text(bytes);
        self.stack.push(Value::Str(id));
    }
    /// The number of a text; the few short ones a file repeats are found without hashing.
    #[inline]
    pub(super) fn text(&mut self, bytes: &[u8]) -> StringId {
        if bytes.len() <= 8 {
            let mut key = [0; 8];
            key[..bytes.len()].copy_from_slice(bytes);
            let key = u64::from_le_bytes(key);
            let mixed = (key ^ bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let slot = (mixed >> 56) as usize;
            // The stored length is one more than the text's, so that an unused slot matches nothing.
            let len = bytes.len() as u32 + 1;
            let (known, known_len, id) = self.recent[slot];
            if known == key && known_len == len {
                return id;
            }
            let id = self.intern(bytes);
            self.recent[slot] = (key, len, id);
            return id;
        }
        self.intern(bytes)
    }
    fn intern(&mut self, bytes: &[u8]) -> StringId {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.builder.stacks.strings.intern(text),
            Err(_) => {
                let text = String::from_utf8_lossy(bytes);
                self.builder.warnings.push(WarningKind::BadText, || text.chars().take(80).collect());
                self.builder.stacks.strings.intern(&text)
            }
        }
    }
    /// Takes the top value.
    pub(crate) fn pop(&mut self) -> Result<Value, Fault> {
        self.top()?;
        if let Some(mark) = self.marks.last()
            && 0 < mark.early
            && self.stack.len() <= mark.at + mark.early
        {
            return Err(Fault::PopRow);
        }
        self.stack.pop().ok_or(Fault::Underflow)
    }
    /// The top value, which must lie above the last MARK.
    #[inline]
    pub(crate) fn top(&self) -> Result<Value, Fault> {
        if self.stack.len() <= self.marks.last().map_or(0, |mark| mark.at) {
            return Err(Fault::Underflow);
        }
        self.stack.last().copied().ok_or(Fault::Underflow)
    }
    /// Opens a MARK.
    pub(crate) fn mark(&mut self) -> Result<(), Fault> {
        if MAX_DEPTH <= self.marks.len() {
            return Err(Fault::TooDeep);
        }
        self.marks.push(Mark { at: self.stack.len(), early: 0 });
        Ok(())
    }
    /// Drops everything above the last MARK and the mark.
    pub(crate) fn pop_mark(&mut self) -> Result<(), Fault> {
        let mark = self.whole_mark()?;
        self.stack.truncate(mark.at);
        Ok(())
    }
    /// Closes the last MARK, behind which nothing may be recorded yet.
    fn whole_mark(&mut self) -> Result<Mark, Fault> {
        let mark = self.marks.pop().ok_or(Fault::NoMark)?;
        if 0 < mark.early { Err(Fault::PopRow) } else { Ok(mark) }
    }
    /// Memoises the top value under the next number.
    #[inline]
    pub(crate) fn memoize(&mut self) -> Result<(), Fault> {
        let value = self.top()?;
        self.memo.push(value);
        Ok(())
    }
    /// Memoises the top value under a number; `consumed` bytes were read so far and bound it.
    pub(crate) fn put(&mut self, index: u64, consumed: u64) -> Result<(), Fault> {
        let value = self.top()?;
        if consumed < index {
            return Err(Fault::MemoTooFar(index));
        }
        self.memo.put(index as usize, value);
        Ok(())
    }
    /// Puts a memoised value on the stack.
    #[inline]
    pub(crate) fn get(&mut self, index: u64) -> Result<(), Fault> {
        let value = usize::try_from(index).ok().and_then(|index| self.memo.get(index)).ok_or(Fault::NoMemo(index))?;
        self.stack.push(value);
        Ok(())
    }

    // ---- lists, tuples and dicts

    /// Puts an empty list or tuple on the stack.
    #[inline]
    pub(crate) fn empty_list(&mut self) -> Result<(), Fault> {
        let row = self.new_list()?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    fn new_list(&mut self) -> Result<u32, Fault> {
        let row = numbered(self.lists.len())?;
        self.lists.push(Packed::new(list::EMPTY, 0));
        Ok(row)
    }
    /// Puts an empty dict on the stack.
    #[inline]
    pub(crate) fn empty_dict(&mut self) -> Result<(), Fault> {
        let row = numbered(self.dicts.len())?;
        self.dicts.push(Packed::new(dict::EMPTY, 0));
        self.stack.push(Value::Dict(row));
        Ok(())
    }
    /// Puts a set of unknown content on the stack.
    pub(crate) fn opaque_since_mark(&mut self) -> Result<(), Fault> {
        self.pop_mark()?;
        self.stack.push(Value::Set);
        Ok(())
    }
    /// Makes a tuple of the top `n` values.
    pub(crate) fn tuple(&mut self, n: usize) -> Result<(), Fault> {
        let mark = self.marks.last().copied().unwrap_or(Mark { at: 0, early: 0 });
        if self.stack.len() < mark.at + mark.early + n {
            return Err(Fault::Underflow);
        }
        self.tuple_from(self.stack.len() - n)
    }
    /// Makes a tuple or a list of everything above the last MARK.
    pub(crate) fn list_since_mark(&mut self, tuple: bool) -> Result<(), Fault> {
        let mark = self.whole_mark()?;
        if tuple {
            return self.tuple_from(mark.at);
        }
        let row = self.new_list()?;
        self.append_from(row, mark.at, 0)?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    fn tuple_from(&mut self, from: usize) -> Result<(), Fault> {
        if let [Value::Int(a), Value::Int(b)] = self.stack[from..] {
            let row = match self.pair_rows.get(&(a, b)) {
                Some(row) => *row,
                None => {
                    let row = numbered(self.pairs.len())?;
                    self.pairs.push((a, b));
                    self.pair_rows.insert((a, b), row);
                    row
                }
            };
            self.stack.truncate(from);
            self.stack.push(Value::Pair(row));
            return Ok(());
        }
        let row = self.new_list()?;
        self.append_from(row, from, 0)?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    /// Makes a dict of everything above the last MARK.
    pub(crate) fn dict_since_mark(&mut self) -> Result<(), Fault> {
        let mark = self.whole_mark()?;
        let row = numbered(self.dicts.len())?;
        self.dicts.push(Packed::new(dict::EMPTY, 0));
        self.stack.insert(mark.at, Value::Dict(row));
        self.set_from(mark.at + 1)
    }
    /// Appends the top value to the list below it.
    pub(crate) fn append(&mut self) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(1).ok_or(Fault::Underflow)?;
        self.pop_guard(at)?;
        let Some(Value::List(row)) = at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotList) };
        self.append_from(row, at, 0)
    }
    /// Appends everything above the last MARK to the list below it.
    pub(crate) fn appends(&mut self) -> Result<(), Fault> {
        let mark = self.marks.pop().ok_or(Fault::NoMark)?;
        let Some(Value::List(row)) = mark.at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotList) };
        self.append_from(row, mark.at, mark.early)
    }
    /// Sets the top value under the key below it in the dict below that.
    pub(crate) fn set_item(&mut self) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(2).ok_or(Fault::Underflow)?;
        self.pop_guard(at)?;
        let Some(Value::Dict(row)) = at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotDict) };
        let mut pairs = self.take_pairs(at)?;
        self.add_pairs(row, &pairs)?;
        pairs.clear();
        self.pair_scratch = pairs;
        Ok(())
    }
    /// Sets everything above the last MARK, key by key, in the dict below it.
    #[inline]
    pub(crate) fn set_items(&mut self) -> Result<(), Fault> {
        let mark = self.marks.pop().ok_or(Fault::NoMark)?;
        self.set_from(mark.at)
    }

    fn set_from(&mut self, at: usize) -> Result<(), Fault> {
        let Some(below) = at.checked_sub(1) else { return Err(Fault::Underflow) };
        let Value::Dict(row) = self.stack[below] else { return Err(Fault::NotDict) };
        let mut pairs = self.take_pairs(at)?;
        if self.dicts[row as usize].kind() == dict::EMPTY {
            // A dict that arrives in one piece is complete: make it a row now, so that a list of a million
            // events is never a million open dicts, and a file that ends here still has them.
            let known = self.row_of(&pairs)?;
            match known {
                Some(state) => {
                    self.dicts[row as usize] = state;
                    self.record_early(row, below)?;
                }
                None if pairs.is_empty() => {}
                None => self.add_pairs(row, &pairs)?,
            }
        } else {
            self.add_pairs(row, &pairs)?;
        }
        pairs.clear();
        self.pair_scratch = pairs;
        Ok(())
    }
    /// Puts an event into the trace it is about to be appended to, if all before it in this batch are there too.
    fn record_early(&mut self, row: u32, at: usize) -> Result<(), Fault> {
        if self.dicts[row as usize].kind() != dict::LOOSE_EVENT {
            return Ok(());
        }
        let Some(mark) = self.marks.last().copied() else { return Ok(()) };
        if mark.at + mark.early != at {
            return Ok(());
        }
        let Some(Value::List(target)) = mark.at.checked_sub(1).map(|below| self.stack[below]) else { return Ok(()) };
        if let Some(trace) = self.trace_of_list(target) {
            self.record(row, trace)?;
            if let Some(mark) = self.marks.last_mut() {
                mark.early += 1;
            }
        }
        Ok(())
    }
    /// The trace a list is or can become.
    fn trace_of_list(&mut self, target: u32) -> Option<u32> {
        let state = self.lists[target as usize];
        match state.kind() {
            list::TRACE => Some(state.number()),
            list::EMPTY => {
                let trace = self.traces.len() as u32;
                self.traces.push(Trace::default());
                self.lists[target as usize] = Packed::new(list::TRACE, trace);
                Some(trace)
            }
            _ => None,
        }
    }
    /// Moves the loose event of a dict into a trace.
    fn record(&mut self, row: u32, trace: u32) -> Result<(), Fault> {
        let number = self.dicts[row as usize].number() as usize;
        let last = number + 1 == self.loose.len();
        let event = if last { self.loose.pop() } else { self.loose.get(number).cloned() };
        let Some(event) = event else { return Ok(()) };
        let at = self.push_event(trace, &event)?;
        let number = self.events;
        if PACKED_MAX <= number {
            return Err(Fault::TooMany);
        }
        self.events += 1;
        match self.runs.last() {
            Some(run) if run.trace == trace && number - run.first == at.wrapping_sub(run.row) => {}
            _ => self.runs.push(Run { first: number, trace, row: at }),
        }
        self.dicts[row as usize] = Packed::new(dict::EVENT, number);
        Ok(())
    }
    fn push_event(&mut self, trace: u32, event: &LooseEvent) -> Result<u32, Fault> {
        let trace = &mut self.traces[trace as usize];
        if PACKED_MAX as usize <= trace.len() {
            return Err(Fault::TooMany);
        }
        let at = trace.push(event.entry);
        trace.extras.extend(event.extras.iter().map(|(key, value)| Extra { event: at, key: *key, value: *value }));
        Ok(at.0)
    }
    /// The event of a dict, wherever it lies.
    pub(super) fn event_of(&self, state: Packed) -> Option<LooseEvent> {
        match state.kind() {
            dict::LOOSE_EVENT => self.loose.get(state.number() as usize).cloned(),
            dict::EVENT => {
                let run = self.runs[..self.runs.partition_point(|run| run.first <= state.number())].last()?;
                let trace = &self.traces[run.trace as usize];
                let at = EventIdx(run.row + (state.number() - run.first));
                let extras = trace.extras_of(at).iter().map(|extra| (extra.key, extra.value)).collect();
                (at.0 < trace.len() as u32).then(|| LooseEvent { entry: trace.entry(at), extras })
            }
            _ => None,
        }
    }
    fn take_pairs(&mut self, at: usize) -> Result<Vec<(StringId, Value)>, Fault> {
        let mut pairs = std::mem::take(&mut self.pair_scratch);
        pairs.clear();
        if !(self.stack.len() - at).is_multiple_of(2) {
            return Err(Fault::OddItems);
        }
        for item in at..self.stack.len() {
            if !(item - at).is_multiple_of(2) {
                continue;
            }
            let (key, value) = (self.stack[item], self.stack[item + 1]);
            let key = match key {
                Value::Str(key) => key,
                other => self.text_of(other),
            };
            pairs.push((key, value));
        }
        self.stack.truncate(at);
        Ok(pairs)
    }
    fn add_pairs(&mut self, row: u32, pairs: &[(StringId, Value)]) -> Result<(), Fault> {
        let state = self.dicts[row as usize];
        let open = match state.kind() {
            dict::OPEN => state.number(),
            dict::EMPTY => {
                let open = self.open_dicts.open();
                self.dicts[row as usize] = Packed::new(dict::OPEN, open);
                open
            }
            _ => {
                let strings = &self.builder.stacks.strings;
                self.builder.warnings.push(WarningKind::BadField, || {
                    let keys: Vec<_> = pairs.iter().map(|(key, _)| strings.get(*key)).take(8).collect();
                    format!("keys added to a finished row and ignored: {}", keys.join(", "))
                });
                return Ok(());
            }
        };
        self.open_dicts.extend(open, pairs);
        Ok(())
    }
    /// Makes a row of a dict that was filled key by key, now that something holds it.
    pub(super) fn settle(&mut self, row: u32) -> Result<Packed, Fault> {
        let state = self.dicts[row as usize];
        if state.kind() != dict::OPEN {
            return Ok(state);
        }
        let open = state.number();
        if !self.is_row(self.open_dicts.get(open)) {
            return Ok(state);
        }
        let pairs = self.open_dicts.close(open);
        if let Some(known) = self.row_of(&pairs)? {
            self.dicts[row as usize] = known;
        }
        self.open_dicts.recycle(pairs);
        Ok(self.dicts[row as usize])
    }
    /// Appends the stack from `at` on, of which the first `early` are recorded already, to a list.
    fn append_from(&mut self, row: u32, at: usize, early: usize) -> Result<(), Fault> {
        let from = (at + early).min(self.stack.len());
        if from < self.stack.len() && !self.append_frames(row, from)? {
            for item in from..self.stack.len() {
                let value = self.stack[item];
                if let Value::Dict(inner) = value {
                    let state = self.settle(inner)?;
                    if matches!(state.kind(), dict::EVENT | dict::LOOSE_EVENT)
                        && let Some(trace) = self.trace_of_list(row)
                    {
                        self.append_event(inner, state, trace)?;
                        continue;
                    }
                }
                self.append_value(row, value);
            }
        }
        self.stack.truncate(at);
        Ok(())
    }
    fn append_event(&mut self, inner: u32, state: Packed, trace: u32) -> Result<(), Fault> {
        if state.kind() == dict::LOOSE_EVENT {
            return self.record(inner, trace);
        }
        self.spend(ROW_COST)?;
        if let Some(event) = self.event_of(state) {
            self.push_event(trace, &event)?;
        }
        Ok(())
    }
    fn append_value(&mut self, row: u32, value: Value) {
        let state = self.lists[row as usize];
        let open = match state.kind() {
            list::OPEN => state.number(),
            list::EMPTY => self.open_lists.open(),
            list::STACK => {
                let open = self.open_lists.open();
                let frames = self.builder.stacks.frames(StackId(state.number())).to_vec();
                for frame in frames {
                    let inner = self.dicts.len() as u32;
                    self.dicts.push(Packed::new(dict::FRAME, frame.0));
                    self.open_lists.extend(open, &[Value::Dict(inner)]);
                }
                open
            }
            _ => {
                self.builder.warnings.push(WarningKind::BadRow, || "an item of a trace that is no event".to_owned());
                return;
            }
        };
        self.lists[row as usize] = Packed::new(list::OPEN, open);
        self.open_lists.extend(open, &[value]);
    }
    /// Makes a stack of a list that gets nothing but frames in one piece.
    fn append_frames(&mut self, row: u32, from: usize) -> Result<bool, Fault> {
        if self.lists[row as usize].kind() != list::EMPTY {
            return Ok(false);
        }
        let mut frames = std::mem::take(&mut self.frame_scratch);
        frames.clear();
        for item in from..self.stack.len() {
            let Value::Dict(inner) = self.stack[item] else { break };
            let state = self.settle(inner)?;
            if state.kind() != dict::FRAME {
                break;
            }
            frames.push(FrameId(state.number()));
        }
        let all = frames.len() == self.stack.len() - from;
        if all {
            self.make_stack(row, &frames)?;
        }
        self.frame_scratch = frames;
        Ok(all)
    }
    /// Turns a list into the stack of these frames.
    pub(super) fn make_stack(&mut self, row: u32, frames: &[FrameId]) -> Result<StackId, Fault> {
        let known = self.builder.stacks.slot_count();
        let stack = self.builder.stacks.intern(frames);
        // Slots that a file names by reference cost two bytes there and four here; what is more counts.
        self.spend((self.builder.stacks.slot_count() - known) as u64 / 4)?;
        if PACKED_MAX < stack.0 {
            return Err(Fault::TooMany);
        }
        self.lists[row as usize] = Packed::new(list::STACK, stack.0);
        Ok(stack)
    }
    /// Takes the items of an open list; the list is then empty until its state is set.
    pub(super) fn take_items(&mut self, open: u32) -> Vec<Value> {
        self.open_lists.close(open)
    }
    /// Hands a vector of [`Self::take_items`] back.
    pub(super) fn recycle_items(&mut self, items: Vec<Value>) {
        self.open_lists.recycle(items);
    }
    fn pop_guard(&self, at: usize) -> Result<(), Fault> {
        match self.marks.last() {
            Some(mark) if at <= mark.at + mark.early => Err(Fault::Underflow),
            _ => Ok(()),
        }
    }

    // ---- bounds

    /// Checks what is unfinished against what `consumed` bytes of input may need:
    /// 64 MiB, and four bytes for each byte read.
    pub(crate) fn check_budget(&mut self, consumed: u64) -> Result<(), Fault> {
        self.allowed = BUDGET_FLOOR.saturating_add(consumed.saturating_mul(BUDGET_PER_BYTE));
        let loose = self.stack.len() * size_of::<Value>()
            + self.open_lists.heap_bytes()
            + self.open_dicts.heap_bytes()
            + self.memo.heap_bytes()
            + (self.lists.len() + self.dicts.len()) * 4
            + self.loose.len() * size_of::<LooseEvent>();
        if self.allowed < self.spent.saturating_add(loose as u64) { Err(Fault::Budget(self.allowed)) } else { Ok(()) }
    }
    /// Counts memory that the file asks for by reference, which its size does not bound.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), Fault> {
        self.spent = self.spent.saturating_add(bytes);
        if self.allowed < self.spent { Err(Fault::Budget(self.allowed)) } else { Ok(()) }
    }
    /// Counts the copy of a row, or of a whole trace.
    pub(super) fn spend_rows(&mut self, rows: usize) -> Result<(), Fault> {
        self.spend(rows as u64 * ROW_COST)
    }

    /// Ends the reading in the middle: whatever is complete is put where it was about to go, and the value
    /// at the bottom is what the file would have been.
    pub(crate) fn salvage(&mut self) -> Option<Value> {
        while let Some(mark) = self.marks.last().copied() {
            let below = mark.at.checked_sub(1).map(|below| self.stack[below]);
            let done = match below {
                Some(Value::List(_)) => {
                    self.drop_unfinished(mark.at + mark.early);
                    self.appends()
                }
                Some(Value::Dict(row)) if self.dicts[row as usize].kind() == dict::OPEN || self.is_outer(mark.at) => {
                    if !(self.stack.len() - mark.at).is_multiple_of(2) {
                        self.stack.pop();
                    }
                    self.set_items()
                }
                // A row in the making: it is not complete, so it is left out.
                _ => {
                    self.marks.pop();
                    self.stack.truncate(mark.at.saturating_sub(1));
                    Ok(())
                }
            };
            if done.is_err() {
                break;
            }
        }
        // What lies above the bottom was about to be set in it, one by one.
        while 1 < self.stack.len() {
            let set = match self.stack[..] {
                [.., Value::Dict(_), Value::Str(_), _] => self.set_item(),
                [.., Value::List(_), Value::List(_)] => self.append(),
                _ => Err(Fault::Underflow),
            };
            if set.is_err() {
                self.stack.pop();
            }
        }
        self.stack.pop()
    }
    /// Whether the pairs behind a mark are those of the snapshot itself, not of a row.
    fn is_outer(&self, at: usize) -> bool {
        self.stack[at..].iter().step_by(2).any(|key| match key {
            Value::Str(key) => matches!(self.words.key(*key), Key::Segments | Key::DeviceTraces | Key::HostTraces),
            _ => false,
        })
    }
    /// Drops a dict at the top that was begun but holds nothing yet or not all.
    fn drop_unfinished(&mut self, floor: usize) {
        if floor < self.stack.len()
            && let Some(Value::Dict(row)) = self.stack.last()
            && matches!(self.dicts[*row as usize].kind(), dict::EMPTY | dict::OPEN)
        {
            self.stack.pop();
        }
    }
}

fn numbered(rows: usize) -> Result<u32, Fault> {
    u32::try_from(rows).ok().filter(|row| *row < PACKED_MAX).ok_or(Fault::TooMany)
}
