//! The bench on which values become rows: a stack, a memo, and tables of lists and dicts.
//!
//! Both writers of the format drive it, the pickle machine and the JSON reader, by the same few moves, so
//! that twins of one snapshot cannot differ. Always: a dict that is complete and known is a row of its kind
//! at once (event, frame, block, segment …) and its pairs are gone; a list of frames is one [`StackId`], a list
//! of events one [`Trace`]. What is still loose is bounded by [`Assembly::check_budget`].

mod filling;

use crate::base::StringId;
use crate::format::pickle::value::{Memo, PACKED_MAX, Packed, Value};
use crate::format::version::Evidence;
use crate::format::words::{Key, Words};
use crate::model::{AnnotationMark, Frame, FrameId, StackId, Trace, TraceEntry, WarningKind};
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
/// Memo numbers that may be skipped, for a writer that keeps the low ones for its words.
const KEPT_NUMBERS: u64 = 1024;

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
    /// Memoises the top value under a number; `consumed` bytes were read so far and bound it, but for the few numbers
    /// that a writer may keep for its words.
    pub(crate) fn put(&mut self, index: u64, consumed: u64) -> Result<(), Fault> {
        let value = self.top()?;
        if consumed.saturating_add(KEPT_NUMBERS) < index {
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
