//! The recorded events of one device, as columns.
//!
//! Always: all non-optional columns have the same length; an optional column is either empty
//! (no event has the value) or of that length too. Rows are in recording order, which is the only clock.

use crate::base::{Column, StringId};
use crate::model::pool::{PoolId, StreamId};
use crate::model::stack::StackId;

crate::define_id! {
    /// The index of an event in its device's trace, 0-based.
    EventIdx
}

/// A moment: how many events have been applied. `Position(0)` is the state before the first event,
/// `Position(i + 1)` the state after event `i` (what the command line calls the state at event `i`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u32);

impl Position {
    /// Before the first event.
    pub const START: Position = Position(0);
    /// Never: the end of a life that the trace does not see ending.
    pub const NEVER: Position = Position(u32::MAX);
    /// The state after this event.
    pub fn after(event: EventIdx) -> Position {
        Position(event.0 + 1)
    }
    /// The event whose application led here, none at the start.
    pub fn event(self) -> Option<EventIdx> {
        self.0.checked_sub(1).map(EventIdx)
    }
    /// The event number as the command line counts it: −1 before the first event.
    pub fn event_number(self) -> i64 {
        i64::from(self.0) - 1
    }
}

/// What an event did. Names are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Action {
    /// A block was handed out; size is what was requested.
    Alloc,
    /// The program gave the block back.
    FreeRequested,
    /// The block became free for others.
    FreeCompleted,
    /// The driver gave a segment.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// A range of an expandable segment was mapped.
    SegmentMap,
    /// A range of an expandable segment was unmapped.
    SegmentUnmap,
    /// Somebody took a snapshot; size is the active bytes then.
    Snapshot,
    /// An allocation failed; size is the rounded request.
    Oom,
    /// A note on a live allocation.
    Annotate,
    /// An action this version does not know; its name is kept as an [`Extra`] under `action`.
    Unknown,
}

impl Action {
    /// All known actions, in PyTorch's order.
    pub const KNOWN: [Action; 10] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Snapshot,
        Action::Oom,
        Action::Annotate,
    ];
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
            Action::SegmentMap => "segment_map",
            Action::SegmentUnmap => "segment_unmap",
            Action::Snapshot => "snapshot",
            Action::Oom => "oom",
            Action::Annotate => "annotate",
            Action::Unknown => "unknown",
        }
    }
    /// The action of a word in a file.
    pub fn of_name(name: &str) -> Option<Action> {
        Action::KNOWN.into_iter().find(|action| action.name() == name)
    }
}

/// One event, as read or as written: a row of [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What happened.
    pub action: Action,
    /// Block or segment address; for [`Action::Oom`] the device's free bytes (`device_free`).
    pub address: u64,
    /// Bytes; the meaning depends on the action.
    pub size: u64,
    /// The stream, by its row in the snapshot's stream table.
    pub stream: StreamId,
    /// Unix time in µs, where recorded (PyTorch 2.2 and later).
    pub time_us: Option<i64>,
    /// The stack; [`StackId::ABSENT`] where none was kept.
    pub stack: StackId,
    /// The pool, where recorded (PyTorch 2.12 and later).
    pub pool: Option<PoolId>,
    /// `compile_context`, where there is one other than `N/A` or the empty text.
    pub compile_context: Option<StringId>,
    /// `user_metadata`, where not empty.
    pub user_metadata: Option<StringId>,
}

/// A key of an event that this version has no column for, with its value as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The event.
    pub event: EventIdx,
    /// The key in the file.
    pub key: StringId,
    /// The value as text.
    pub value: StringId,
}

/// The events of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    action: Column<EventIdx, Action>,
    address: Column<EventIdx, u64>,
    size: Column<EventIdx, u64>,
    stream: Column<EventIdx, StreamId>,
    stack: Column<EventIdx, StackId>,
    time_us: Optional<i64>,
    pool: Optional<u32>,
    compile_context: Optional<u32>,
    user_metadata: Optional<u32>,
    /// What had no column, in event order.
    pub extras: Vec<Extra>,
    /// Positions of the out-of-memory events.
    ooms: Vec<EventIdx>,
}

/// A column that costs nothing while no row has a value.
#[derive(Clone, Debug, PartialEq)]
struct Optional<T>(Vec<T>);

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

trait Sentinel: Copy + PartialEq {
    const NONE: Self;
}
impl Sentinel for i64 {
    const NONE: i64 = i64::MIN;
}
impl Sentinel for u32 {
    const NONE: u32 = u32::MAX;
}

impl<T: Sentinel> Optional<T> {
    fn push(&mut self, rows_before: usize, value: Option<T>) {
        match value {
            Some(value) => {
                self.0.resize(rows_before, T::NONE);
                self.0.push(value);
            }
            None if self.0.is_empty() => {}
            None => self.0.push(T::NONE),
        }
    }
    fn get(&self, event: EventIdx) -> Option<T> {
        self.0.get(event.0 as usize).copied().filter(|value| *value != T::NONE)
    }
    fn slice(&self, rows: &std::ops::Range<usize>) -> Self {
        if self.0.is_empty() { Self::default() } else { Self(self.0[rows.clone()].to_vec()) }
    }
    fn append(&mut self, rows_before: usize, other: &Self, other_rows: usize) {
        if self.0.is_empty() && other.0.is_empty() {
            return;
        }
        self.0.resize(rows_before, T::NONE);
        self.0.extend_from_slice(&other.0);
        self.0.resize(rows_before + other_rows, T::NONE);
    }
}

impl Trace {
    /// Appends an event.
    pub fn push(&mut self, entry: TraceEntry) -> EventIdx {
        let TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata } = entry;
        let rows = self.action.len();
        let event = self.action.push(action);
        self.address.push(address);
        self.size.push(size);
        self.stream.push(stream);
        self.stack.push(stack);
        self.time_us.push(rows, time_us);
        self.pool.push(rows, pool.map(|pool| pool.0));
        self.compile_context.push(rows, compile_context.map(|text| text.0));
        self.user_metadata.push(rows, user_metadata.map(|text| text.0));
        if action == Action::Oom {
            self.ooms.push(event);
        }
        event
    }
    /// The event at an index; panics beyond the end.
    pub fn entry(&self, event: EventIdx) -> TraceEntry {
        TraceEntry {
            action: self.action[event],
            address: self.address[event],
            size: self.size[event],
            stream: self.stream[event],
            time_us: self.time_us(event),
            stack: self.stack[event],
            pool: self.pool.get(event).map(PoolId),
            compile_context: self.compile_context.get(event).map(StringId),
            user_metadata: self.user_metadata.get(event).map(StringId),
        }
    }
    /// Says of an event without a stack which it was: some recordings learn that later.
    pub fn name_stack(&mut self, event: EventIdx, stack: StackId) {
        if (event.0 as usize) < self.len() {
            self.stack[event] = stack;
        }
    }
    /// Number of events.
    pub fn len(&self) -> usize {
        self.action.len()
    }
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }
    /// The state after the last event.
    pub fn end(&self) -> Position {
        Position(self.len() as u32)
    }
    /// All events, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = EventIdx> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(EventIdx)
    }
    /// What each event did.
    pub fn actions(&self) -> &[Action] {
        self.action.as_slice()
    }
    /// Each event's address column.
    pub fn addresses(&self) -> &[u64] {
        self.address.as_slice()
    }
    /// Each event's size column, in bytes.
    pub fn sizes(&self) -> &[u64] {
        self.size.as_slice()
    }
    /// Each event's stream.
    pub fn streams(&self) -> &[StreamId] {
        self.stream.as_slice()
    }
    /// Each event's stack.
    pub fn stacks(&self) -> &[StackId] {
        self.stack.as_slice()
    }
    /// Whether an event has a note: `compile_context` or `user_metadata`.
    pub fn has_notes(&self) -> bool {
        !self.compile_context.0.is_empty() || !self.user_metadata.0.is_empty()
    }
    /// The notes of an event: its `compile_context` and its `user_metadata`.
    pub fn notes(&self, event: EventIdx) -> [Option<StringId>; 2] {
        [self.compile_context.get(event).map(StringId), self.user_metadata.get(event).map(StringId)]
    }
    /// Whether events say in which pool they were.
    pub fn has_pools(&self) -> bool {
        !self.pool.0.is_empty()
    }
    /// Whether events carry times.
    pub fn has_times(&self) -> bool {
        !self.time_us.0.is_empty()
    }
    /// Unix time of an event in µs, where recorded.
    pub fn time_us(&self, event: EventIdx) -> Option<i64> {
        self.time_us.get(event)
    }
    /// `user_metadata` of an event, where not empty.
    pub fn user_metadata(&self, event: EventIdx) -> Option<StringId> {
        self.user_metadata.get(event).map(StringId)
    }
    /// Whether any event has `user_metadata`.
    pub fn has_user_metadata(&self) -> bool {
        !self.user_metadata.0.is_empty()
    }
    /// `compile_context` of an event, where there is one.
    pub fn compile_context(&self, event: EventIdx) -> Option<StringId> {
        self.compile_context.get(event).map(StringId)
    }
    /// Whether any event has a `compile_context`.
    pub fn has_compile_contexts(&self) -> bool {
        !self.compile_context.0.is_empty()
    }
    /// First and last recorded time in µs.
    pub fn time_span_us(&self) -> Option<(i64, i64)> {
        let first = self.time_us.0.iter().find(|t| **t != i64::MIN)?;
        let last = self.time_us.0.iter().rev().find(|t| **t != i64::MIN)?;
        Some((*first, *last))
    }
    /// The first position whose event is at or after a time, by the label alone; for a trace without times the start.
    pub fn position_at_time(&self, time_us: i64) -> Position {
        Position(self.time_us.0.partition_point(|t| *t < time_us) as u32)
    }
    /// The out-of-memory events, in order.
    pub fn ooms(&self) -> &[EventIdx] {
        &self.ooms
    }
    /// The rows of `rows` as a trace of their own.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Trace {
        let start = rows.start as u32;
        let inside = |event: &EventIdx| rows.contains(&(event.0 as usize));
        Trace {
            action: self.action.as_slice()[rows.clone()].to_vec().into(),
            address: self.address.as_slice()[rows.clone()].to_vec().into(),
            size: self.size.as_slice()[rows.clone()].to_vec().into(),
            stream: self.stream.as_slice()[rows.clone()].to_vec().into(),
            stack: self.stack.as_slice()[rows.clone()].to_vec().into(),
            time_us: self.time_us.slice(&rows),
            pool: self.pool.slice(&rows),
            compile_context: self.compile_context.slice(&rows),
            user_metadata: self.user_metadata.slice(&rows),
            extras: self
                .extras
                .iter()
                .filter(|extra| inside(&extra.event))
                .map(|extra| Extra { event: EventIdx(extra.event.0 - start), ..*extra })
                .collect(),
            ooms: self.ooms.iter().filter(|e| inside(e)).map(|e| EventIdx(e.0 - start)).collect(),
        }
    }
    /// Appends all rows of another trace of the same snapshot.
    pub fn append(&mut self, other: &Trace) {
        let rows = self.len();
        let extend = |event: EventIdx| EventIdx(event.0 + rows as u32);
        self.extras.extend(other.extras.iter().map(|extra| Extra { event: extend(extra.event), ..*extra }));
        self.ooms.extend(other.ooms.iter().map(|event| extend(*event)));
        self.time_us.append(rows, &other.time_us, other.len());
        self.pool.append(rows, &other.pool, other.len());
        self.compile_context.append(rows, &other.compile_context, other.len());
        self.user_metadata.append(rows, &other.user_metadata, other.len());
        for event in other.events() {
            self.action.push(other.action[event]);
            self.address.push(other.address[event]);
            self.size.push(other.size[event]);
            self.stream.push(other.stream[event]);
            self.stack.push(other.stack[event]);
        }
    }
    /// Extras of one event.
    pub fn extras_of(&self, event: EventIdx) -> &[Extra] {
        let from = self.extras.partition_point(|extra| extra.event < event);
        let to = self.extras.partition_point(|extra| extra.event <= event);
        &self.extras[from..to]
    }
    /// Gives back unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.action.shrink_to_fit();
        self.address.shrink_to_fit();
        self.size.shrink_to_fit();
        self.stream.shrink_to_fit();
        self.stack.shrink_to_fit();
        self.time_us.0.shrink_to_fit();
        self.pool.0.shrink_to_fit();
        self.compile_context.0.shrink_to_fit();
        self.user_metadata.0.shrink_to_fit();
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.action.heap_bytes()
            + self.address.heap_bytes()
            + self.size.heap_bytes()
            + self.stream.heap_bytes()
            + self.stack.heap_bytes()
            + self.time_us.0.capacity() * 8
            + (self.pool.0.capacity() + self.compile_context.0.capacity() + self.user_metadata.0.capacity()) * 4
            + self.extras.capacity() * size_of::<Extra>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_columns_stay_in_step() {
        let mut trace = Trace::default();
        for i in 0..6_i64 {
            trace.push(TraceEntry {
                action: if i == 4 { Action::Oom } else { Action::Alloc },
                address: i as u64,
                size: 1,
                stream: StreamId(0),
                time_us: (i % 2 == 1).then_some(i),
                stack: StackId::ABSENT,
                pool: (3 <= i).then_some(PoolId(0)),
                compile_context: None,
                user_metadata: None,
            });
        }
        let mut joined = trace.slice(0..2);
        joined.append(&trace.slice(2..6));
        assert_eq!(joined, trace);
        assert_eq!(trace.slice(3..6).ooms(), [EventIdx(1)]);
        assert_eq!(trace.entry(EventIdx(2)).pool, None);
        assert_eq!(trace.entry(EventIdx(3)).time_us, Some(3));
    }
}
