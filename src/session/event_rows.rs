//! Which events a filter lets through, as a question.
//!
//! Text is looked for in the functions and files of an event's stack and of the stack at which its block
//! was allocated (a free is found by who allocated), in the address (also inside a block's range), in the
//! block's label, and in the notes of the event. Case is ignored.

use crate::analysis::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceMemory, EventIdx, Snapshot, StackId};
use crate::session::workspace::EventFilter;

/// The events that pass a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRows {
    /// All of this many.
    All(u32),
    /// These, ascending.
    Some(Vec<EventIdx>),
}

impl EventRows {
    /// How many pass.
    pub fn len(&self) -> usize {
        match self {
            EventRows::All(count) => *count as usize,
            EventRows::Some(rows) => rows.len(),
        }
    }
    /// Whether none passes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The event in a row of the list.
    pub fn event(&self, row: usize) -> Option<EventIdx> {
        match self {
            EventRows::All(count) => (row < *count as usize).then_some(EventIdx(row as u32)),
            EventRows::Some(rows) => rows.get(row).copied(),
        }
    }
    /// The row of an event, or of the next one that passes.
    pub fn row_of(&self, event: EventIdx) -> usize {
        match self {
            EventRows::All(count) => event.0.min(count.saturating_sub(1)) as usize,
            EventRows::Some(rows) => rows.partition_point(|other| *other < event).min(rows.len().saturating_sub(1)),
        }
    }
    /// The row of the first event behind this one that passes; the first row behind the last.
    pub fn row_behind(&self, event: EventIdx) -> usize {
        let behind = match self {
            EventRows::All(_) => event.0 as usize + 1,
            EventRows::Some(rows) => rows.partition_point(|other| *other <= event),
        };
        if behind < self.len() { behind } else { 0 }
    }
}

impl HeapSize for EventRows {
    fn heap_size(&self) -> usize {
        match self {
            EventRows::All(_) => 0,
            EventRows::Some(rows) => rows.heap_size(),
        }
    }
}

impl Query for EventRows {
    const NAME: &'static str = "event filter";
    type Params = EventFilter;
    type Answer = EventRows;

    fn answer(asked: &Asked<'_>, filter: &EventFilter, progress: &Progress) -> Result<EventRows, Cancelled> {
        let memory = asked.memory();
        if filter.is_open() {
            return Ok(EventRows::All(memory.trace.len() as u32));
        }
        let needle = Needle::new(&filter.text, asked.subject.snapshot);
        progress.stage("filtering events", memory.trace.len() as u64)?;
        let mut rows = Vec::new();
        for (i, (event, action)) in memory.trace.events().zip(memory.trace.actions()).enumerate() {
            if i.is_multiple_of(1 << 14) {
                progress.at(i as u64)?;
            }
            if !filter.hidden.has(*action) && needle.as_ref().is_none_or(|needle| needle.finds(memory, event)) {
                rows.push(event);
            }
        }
        rows.shrink_to_fit();
        Ok(EventRows::Some(rows))
    }
}

/// What is looked for, worked out once for all events.
struct Needle {
    /// By stack: whether one of its frames matches.
    stacks: Vec<bool>,
    /// By text of the snapshot: whether it matches (only asked of notes).
    text: String,
    notes: rustc_hash::FxHashSet<crate::base::StringId>,
    /// Digits of an address, where the text could be one.
    digits: Option<String>,
    address: Option<u64>,
    use_number: Option<u32>,
}

impl Needle {
    fn new(text: &str, snapshot: &Snapshot) -> Option<Needle> {
        let text = text.trim().to_lowercase();
        if text.is_empty() {
            return None;
        }
        let table = &snapshot.stacks;
        let matches = |hay: &str| hay.to_lowercase().contains(&text);
        let frames: Vec<bool> = (0..table.frame_count() as u32)
            .map(crate::model::FrameId)
            .map(|frame| matches(table.function(frame)) || matches(&format!("{}:{}", table.file(frame), table.frame(frame).line)))
            .collect();
        let stacks = (0..table.len() as u32)
            .map(|stack| table.frames(StackId(stack)).iter().any(|frame| frames[frame.0 as usize]))
            .collect();
        let mut notes = rustc_hash::FxHashSet::default();
        for memory in snapshot.devices.as_slice() {
            for extra in &memory.trace.extras {
                if matches(table.strings.get(extra.value)) {
                    notes.insert(extra.value);
                }
            }
        }
        // `b7f3c00_3`, `0x7f3c00` and `7f3c00` all mean the address 7f3c00.
        let (label, use_number) = match text.rsplit_once('_') {
            Some((label, number)) if number.parse::<u32>().is_ok() => (label, number.parse().ok()),
            _ => (text.as_str(), None),
        };
        let digits = label.strip_prefix("0x").or_else(|| label.strip_prefix('b').filter(|rest| 4 <= rest.len())).unwrap_or(label);
        let digits = (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| digits.to_owned());
        let address = digits.as_ref().and_then(|d| u64::from_str_radix(d, 16).ok());
        Some(Needle { stacks, notes, digits, address, use_number, text })
    }
    fn finds(&self, memory: &DeviceMemory, event: EventIdx) -> bool {
        let entry = memory.trace.entry(event);
        let in_stack = |stack: StackId| self.stacks.get(stack.0 as usize).copied().unwrap_or(false);
        let subject = memory.subject(event).map(|id| memory.allocations.get(id));
        if in_stack(entry.stack) || subject.is_some_and(|life| in_stack(life.stack)) {
            return true;
        }
        let address_fits = match self.use_number {
            // A label names one block.
            Some(number) => subject.is_some_and(|life| life.use_number == number && Some(life.address) == self.address),
            None => self.digits.as_ref().is_some_and(|digits| {
                let long_enough = 6 <= digits.len();
                let inside = self.address.is_some_and(|at| entry.address <= at && at - entry.address < entry.size);
                (long_enough && inside) || format!("{:x}", entry.address).contains(digits.as_str())
            }),
        };
        let note_fits = || memory.trace.extras_of(event).iter().any(|extra| self.notes.contains(&extra.value));
        address_fits || note_fits() || entry.action.name().contains(&self.text)
    }
}
