//! The four tables of a snapshot: one row an event, an allocation, a segment, a stack. What Parquet and CSV hold.
//!
//! Always: every table has the columns listed here, in this order; sizes are bytes, times are Unix µs, events count from
//! 0 in their device, and what is not known is null. Rows join by (`file`, `device`, `allocation`), (`file`, `device`,
//! `segment`) and (`file`, `stack`).

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject};
use crate::model::{
    Action, Allocation, AllocationFlags, DeviceMemory, EventIdx, PoolId, Position, Segment, SegmentId, Snapshot, StackId,
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole number; sizes too, so that they can be subtracted.
    Int,
    /// An address: 64 bits without a sign.
    Address,
    /// A truth value.
    Truth,
    /// A text.
    Text,
    /// A row of the table of stacks.
    Stack,
    /// A list of texts.
    Texts,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether a row may have nothing here.
    pub(crate) optional: bool,
}

/// A value of a row; it fits its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Address(u64),
    Truth(bool),
    Text(&'a str),
    Stack(StackId),
    Texts(Vec<String>),
}

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Events,
    Allocations,
    Segments,
    Stacks,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: false }
}
const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: true }
}

const EVENTS: &[Column] = &[
    column("file", Kind::Text),
    column("device", Kind::Int),
    column("event", Kind::Int),
    column("action", Kind::Text),
    optional("address", Kind::Address),
    column("size", Kind::Int),
    optional("device_free", Kind::Int),
    column("stream", Kind::Int),
    optional("time_us", Kind::Int),
    optional("pool_a", Kind::Int),
    optional("pool_b", Kind::Int),
    optional("compile_context", Kind::Text),
    optional("user_metadata", Kind::Text),
    optional("stack", Kind::Stack),
    optional("allocation", Kind::Int),
];
const ALLOCATIONS: &[Column] = &[
    column("file", Kind::Text),
    column("device", Kind::Int),
    column("allocation", Kind::Int),
    column("address", Kind::Address),
    column("size", Kind::Int),
    column("requested", Kind::Int),
    column("size_stated", Kind::Truth),
    column("stream", Kind::Int),
    optional("segment", Kind::Int),
    optional("pool_a", Kind::Int),
    optional("pool_b", Kind::Int),
    optional("kind", Kind::Text),
    optional("stack", Kind::Stack),
    optional("alloc_event", Kind::Int),
    optional("free_requested_event", Kind::Int),
    optional("free_completed_event", Kind::Int),
    optional("alloc_time_us", Kind::Int),
    optional("free_requested_time_us", Kind::Int),
    optional("free_completed_time_us", Kind::Int),
];
const SEGMENTS: &[Column] = &[
    column("file", Kind::Text),
    column("device", Kind::Int),
    column("segment", Kind::Int),
    column("address", Kind::Address),
    column("size", Kind::Int),
    column("stream", Kind::Int),
    column("pool_a", Kind::Int),
    column("pool_b", Kind::Int),
    column("kind", Kind::Text),
    column("expandable", Kind::Truth),
    column("stated", Kind::Truth),
    optional("stack", Kind::Stack),
    optional("alloc_event", Kind::Int),
    optional("free_event", Kind::Int),
    optional("alloc_time_us", Kind::Int),
    optional("free_time_us", Kind::Int),
];
const STACKS: &[Column] = &[
    column("file", Kind::Text),
    column("stack", Kind::Int),
    column("depth", Kind::Int),
    column("innermost", Kind::Text),
    column("frames", Kind::Texts),
];

impl Table {
    /// All tables.
    pub(crate) const ALL: [Table; 4] = [Table::Events, Table::Allocations, Table::Segments, Table::Stacks];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::Events => "events",
            Table::Allocations => "allocations",
            Table::Segments => "segments",
            Table::Stacks => "stacks",
        }
    }
    /// The table of a name.
    pub(crate) fn of_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }
    /// Its columns.
    pub(crate) const fn columns(self) -> &'static [Column] {
        match self {
            Table::Events => EVENTS,
            Table::Allocations => ALLOCATIONS,
            Table::Segments => SEGMENTS,
            Table::Stacks => STACKS,
        }
    }
    /// Hands every row to `take`, in the order of the columns.
    pub(crate) fn rows(
        self,
        subject: &ExportSubject<'_>,
        progress: &Progress,
        take: &mut dyn FnMut(&[Cell<'_>]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let snapshot = subject.snapshot;
        let rows = |memory: &DeviceMemory| match self {
            Table::Events => memory.trace.len(),
            Table::Allocations => memory.allocations.len(),
            Table::Segments | Table::Stacks => memory.segments.len(),
        };
        let all = snapshot.devices.as_slice().iter().map(rows).sum::<usize>();
        progress.stage("writing rows", all as u64)?;
        let mut walk = Walk { snapshot, file: Cell::Text(subject.title), progress, done: 0, take };
        for memory in snapshot.devices.as_slice() {
            match self {
                Table::Events => walk.events(memory)?,
                Table::Allocations => walk.allocations(memory)?,
                Table::Segments => walk.segments(memory)?,
                Table::Stacks => {}
            }
        }
        if self == Table::Stacks { walk.stacks() } else { Ok(()) }
    }
}

/// Rows between two looks at the progress.
const STEP: u64 = 1 << 13;

struct Walk<'a, 't> {
    snapshot: &'a Snapshot,
    file: Cell<'a>,
    progress: &'a Progress,
    done: u64,
    take: &'t mut dyn FnMut(&[Cell<'_>]) -> Result<(), ExportError>,
}

impl Walk<'_, '_> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        if self.done.is_multiple_of(STEP) {
            self.progress.at(self.done)?;
        }
        self.done += 1;
        (self.take)(cells)
    }
    fn events(&mut self, memory: &DeviceMemory) -> Result<(), ExportError> {
        let snapshot = self.snapshot;
        let text = |id| match id {
            Some(id) => Cell::Text(snapshot.stacks.strings.get(id)),
            None => Cell::Null,
        };
        for event in memory.trace.events() {
            let entry = memory.trace.entry(event);
            let oom = entry.action == Action::Oom;
            let named = memory.trace.extras_of(event).iter().find(|extra| snapshot.stacks.strings.get(extra.key) == "action");
            let [pool_a, pool_b] = entry.pool.map_or([Cell::Null, Cell::Null], |pool| self.pool(pool));
            self.row(&[
                self.file.clone(),
                Cell::Int(i64::from(memory.ordinal)),
                Cell::Int(i64::from(event.0)),
                match named.filter(|_| entry.action == Action::Unknown) {
                    Some(named) => Cell::Text(snapshot.stacks.strings.get(named.value)),
                    None => Cell::Text(entry.action.name()),
                },
                if oom { Cell::Null } else { Cell::Address(entry.address) },
                size(entry.size),
                if oom { size(entry.address) } else { Cell::Null },
                Cell::Int(snapshot.streams.handle(entry.stream)),
                int(entry.time_us),
                pool_a,
                pool_b,
                text(entry.compile_context),
                text(entry.user_metadata),
                stack(entry.stack),
                int(memory.subject(event).map(|id| i64::from(id.0))),
            ])?;
        }
        Ok(())
    }
    fn allocations(&mut self, memory: &DeviceMemory) -> Result<(), ExportError> {
        for id in memory.allocations.ids() {
            let life = memory.allocations.get(id);
            let segment = memory.segments.get(life.segment);
            let [pool_a, pool_b] = segment.map_or([Cell::Null, Cell::Null], |segment| self.pool(segment.pool));
            let Allocation { born, freed, died, .. } = life;
            self.row(&[
                self.file.clone(),
                Cell::Int(i64::from(memory.ordinal)),
                Cell::Int(i64::from(id.0)),
                Cell::Address(life.address),
                size(life.size),
                size(life.requested),
                Cell::Truth(life.flags.has(AllocationFlags::SIZE_STATED)),
                Cell::Int(self.snapshot.streams.handle(life.stream)),
                int(segment.map(|_| i64::from(life.segment.0))),
                pool_a,
                pool_b,
                segment.map_or(Cell::Null, |segment| Cell::Text(segment.class.name())),
                stack(life.stack),
                event_at(born, memory),
                event_at(freed, memory),
                event_at(died, memory),
                time_at(born, memory),
                time_at(freed, memory),
                time_at(died, memory),
            ])?;
        }
        Ok(())
    }
    fn segments(&mut self, memory: &DeviceMemory) -> Result<(), ExportError> {
        for (id, segment) in memory.segments.iter() {
            let Segment { address, size: bytes, born, died, stream, pool, class, expandable, stack: made_at, inferred } =
                *segment;
            let SegmentId(row) = id;
            let [pool_a, pool_b] = self.pool(pool);
            self.row(&[
                self.file.clone(),
                Cell::Int(i64::from(memory.ordinal)),
                Cell::Int(i64::from(row)),
                Cell::Address(address),
                size(bytes),
                Cell::Int(self.snapshot.streams.handle(stream)),
                pool_a,
                pool_b,
                Cell::Text(class.name()),
                Cell::Truth(expandable),
                Cell::Truth(!inferred),
                stack(made_at),
                event_at(born, memory),
                event_at(died, memory),
                time_at(born, memory),
                time_at(died, memory),
            ])?;
        }
        Ok(())
    }
    /// The stacks that something in the snapshot has.
    fn stacks(&mut self) -> Result<(), ExportError> {
        let stacks = &self.snapshot.stacks;
        let mut used = vec![false; stacks.len()];
        let mut mark = |stack: &StackId| {
            if let Some(used) = used.get_mut(stack.0 as usize) {
                *used = true;
            }
        };
        for memory in self.snapshot.devices.as_slice() {
            memory.trace.stacks().iter().for_each(&mut mark);
            memory.allocations.stacks().iter().for_each(&mut mark);
            memory.segments.as_slice().iter().for_each(|segment| mark(&segment.stack));
        }
        for row in (0..stacks.len()).filter(|row| used[*row]) {
            let frames: Vec<String> = stacks.frames(StackId(row as u32)).iter().map(|frame| stacks.line(*frame)).collect();
            let innermost = frames.first().cloned().unwrap_or_default();
            self.row(&[
                self.file.clone(),
                Cell::Int(row as i64),
                Cell::Int(frames.len() as i64),
                Cell::Text(&innermost),
                Cell::Texts(frames),
            ])?;
        }
        Ok(())
    }
    fn pool(&self, pool: PoolId) -> [Cell<'static>; 2] {
        let (a, b) = self.snapshot.pools.pair(pool);
        [Cell::Int(a), Cell::Int(b)]
    }
}

/// Bytes; no real size passes 63 bits.
fn size(bytes: u64) -> Cell<'static> {
    Cell::Int(i64::try_from(bytes).unwrap_or(i64::MAX))
}
fn int(number: Option<i64>) -> Cell<'static> {
    number.map_or(Cell::Null, Cell::Int)
}
fn stack(stack: StackId) -> Cell<'static> {
    if stack == StackId::ABSENT { Cell::Null } else { Cell::Stack(stack) }
}
/// The event that led to a position; none before the first and for what never came.
fn event_of(position: Position, memory: &DeviceMemory) -> Option<EventIdx> {
    position.event().filter(|_| position <= memory.end())
}
fn event_at(position: Position, memory: &DeviceMemory) -> Cell<'static> {
    int(event_of(position, memory).map(|event| i64::from(event.0)))
}
fn time_at(position: Position, memory: &DeviceMemory) -> Cell<'static> {
    int(event_of(position, memory).and_then(|event| memory.trace.time_us(event)))
}
