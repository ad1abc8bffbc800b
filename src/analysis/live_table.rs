//! What is live at a moment as rows of a table: grouped, filtered, sorted.
//!
//! Always: every allocated block is in exactly one group, so without a filter the rows add up to `allocated` at
//! that moment; blocks pending free belong to nobody and are left out. Equal rows come in one order always.

use crate::analysis::framework::FrameworkFrames;
use crate::analysis::lifetime::Alike;
use crate::analysis::query::{Asked, Query};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress, StringId};
use crate::model::{
    AllocationId, BlockState, DeviceMemory, FrameId, PoolId, Position, SizeClass, Snapshot, StackId, StackTable, StreamId,
};
use crate::replay::MemoryState;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// What live blocks are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveBy {
    /// The stack they were allocated at.
    #[default]
    Stack,
    /// Nothing: each block is a row.
    Block,
    /// Their size.
    Size,
    /// Their stream.
    Stream,
    /// Their pool and its half.
    Pool,
    /// The function that names their stack.
    Function,
    /// The file that names their stack.
    File,
}

impl LiveBy {
    /// All groupings.
    pub const ALL: [LiveBy; 7] =
        [LiveBy::Stack, LiveBy::Block, LiveBy::Size, LiveBy::Stream, LiveBy::Pool, LiveBy::Function, LiveBy::File];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            LiveBy::Stack => "stack",
            LiveBy::Block => "block",
            LiveBy::Size => "size",
            LiveBy::Stream => "stream",
            LiveBy::Pool => "pool",
            LiveBy::Function => "function",
            LiveBy::File => "file",
        }
    }
}

/// What a group has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LiveKey {
    /// The stack; [`StackId::EMPTY`] for all blocks without one.
    Stack(StackId),
    /// One block.
    Block(AllocationId),
    /// A size in bytes.
    Size(u64),
    /// A stream.
    Stream(StreamId),
    /// A pool and its half; none where the file names no segment around the block.
    Pool(Option<(PoolId, SizeClass)>),
    /// A function; none for blocks without a stack.
    Function(Option<StringId>),
    /// A file; none for blocks without a stack.
    File(Option<StringId>),
}

/// By what rows are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveOrder {
    /// What the group has in common.
    Name,
    /// Sizes of its blocks.
    #[default]
    Bytes,
    /// What the program asked for.
    Requested,
    /// Number of blocks.
    Count,
}

/// What a table of live blocks is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveTableParams {
    /// The moment.
    pub at: Position,
    /// What blocks are grouped by.
    pub by: LiveBy,
    /// Text looked for in functions, in `file:line` and in the labels of blocks; letter case is ignored. Empty: all.
    pub filter: String,
    /// The order.
    pub order: LiveOrder,
    /// The largest first.
    pub descending: bool,
}

/// Sums over some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSum {
    /// Their sizes, in bytes.
    pub bytes: u64,
    /// What the program asked for, in bytes.
    pub requested: u64,
    /// Their number.
    pub count: u64,
}

impl LiveSum {
    fn add(&mut self, other: LiveSum) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requested = self.requested.saturating_add(other.requested);
        self.count += other.count;
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRow {
    /// What its blocks have in common.
    pub key: LiveKey,
    /// Their sums.
    pub sum: LiveSum,
    /// The stack that holds most of it; [`StackId::EMPTY`] where blocks without a stack hold most.
    pub stack: StackId,
}

/// The rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveTable {
    /// The moment.
    pub at: Position,
    /// The rows, in the order asked for.
    pub rows: Vec<LiveRow>,
    /// All rows together.
    pub shown: LiveSum,
    /// All live blocks, filtered or not.
    pub total: LiveSum,
}

impl LiveTable {
    /// Groups the allocated blocks of a state.
    pub fn of(
        state: &MemoryState,
        device: &DeviceMemory,
        snapshot: &Snapshot,
        params: &LiveTableParams,
        progress: &Progress,
    ) -> Result<LiveTable, Cancelled> {
        let stacks = &snapshot.stacks;
        let wanted = Wanted::new(&params.filter, stacks);
        let framework = matches!(params.by, LiveBy::Function | LiveBy::File).then(|| FrameworkFrames::of(stacks));
        let telling = |stack: StackId| framework.as_ref().and_then(|rule| rule.telling(stacks.frames(stack)));
        let mut alike = Alike::new(stacks);
        let mut found = LiveTable { at: state.position, ..LiveTable::default() };
        let mut parts: FxHashMap<(LiveKey, StackId), LiveSum> = FxHashMap::default();
        for segment in &state.segments {
            progress.check()?;
            let blocks = state.blocks_of(segment).iter().filter(|block| block.state == BlockState::ActiveAllocated);
            for block in blocks {
                let Some(id) = block.allocation else { continue };
                let sum = LiveSum { bytes: block.size, requested: block.requested, count: 1 };
                found.total.add(sum);
                let own = device.allocations.stacks()[id.row()];
                if !wanted.finds(own, || device.allocations.get(id).label()) {
                    continue;
                }
                found.shown.add(sum);
                let stack = alike.of(own);
                let key = match params.by {
                    LiveBy::Stack => LiveKey::Stack(stack),
                    LiveBy::Block => {
                        found.rows.push(LiveRow { key: LiveKey::Block(id), sum, stack: own });
                        continue;
                    }
                    LiveBy::Size => LiveKey::Size(block.size),
                    LiveBy::Stream => LiveKey::Stream(segment.stream),
                    LiveBy::Pool => LiveKey::Pool((!segment.inferred).then_some((segment.pool, segment.class))),
                    LiveBy::Function => LiveKey::Function(telling(stack).map(|frame| stacks.frame(frame).name)),
                    LiveBy::File => LiveKey::File(telling(stack).map(|frame| stacks.frame(frame).filename)),
                };
                parts.entry((key, stack)).or_default().add(sum);
            }
        }
        let mut parts: Vec<((LiveKey, StackId), LiveSum)> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|((key, stack), sum)| (*key, std::cmp::Reverse(sum.bytes), *stack));
        for ((key, stack), sum) in parts {
            // The first part of a group is its largest.
            match found.rows.last_mut().filter(|row| row.key == key) {
                Some(row) => row.sum.add(sum),
                None => found.rows.push(LiveRow { key, sum, stack }),
            }
        }
        progress.check()?;
        found.sort(device, snapshot, params);
        Ok(found)
    }

    fn sort(&mut self, device: &DeviceMemory, snapshot: &Snapshot, params: &LiveTableParams) {
        let value = |row: &LiveRow| match params.order {
            LiveOrder::Name => 0,
            LiveOrder::Bytes => row.sum.bytes,
            LiveOrder::Requested => row.sum.requested,
            LiveOrder::Count => row.sum.count,
        };
        let way = |order: Ordering| if params.descending { order.reverse() } else { order };
        let rows = std::mem::take(&mut self.rows);
        let mut named: Vec<(Name, LiveRow)> = match params.order {
            LiveOrder::Name => {
                let framework = FrameworkFrames::of(&snapshot.stacks);
                rows.into_iter().map(|row| (Name::of(&row, device, snapshot, &framework), row)).collect()
            }
            _ => rows.into_iter().map(|row| (Name::Number(0), row)).collect(),
        };
        named.sort_by(|(a_name, a), (b_name, b)| {
            way(value(a).cmp(&value(b)).then_with(|| a_name.cmp(b_name)))
                .then_with(|| b.sum.bytes.cmp(&a.sum.bytes))
                .then_with(|| a.key.cmp(&b.key))
        });
        self.rows = named.into_iter().map(|(_, row)| row).collect();
    }
}

/// What rows are compared by when they are ordered by name: numbers before texts, nothing last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Number(u64),
    Pair(i64, i64),
    Text(String, i64),
    None,
}

impl Name {
    fn of(row: &LiveRow, device: &DeviceMemory, snapshot: &Snapshot, framework: &FrameworkFrames) -> Name {
        let strings = &snapshot.stacks.strings;
        let text = |id: Option<StringId>| id.map_or(Name::None, |id| Name::Text(strings.get(id).to_lowercase(), 0));
        match row.key {
            LiveKey::Stack(stack) => {
                let telling = framework.telling(snapshot.stacks.frames(stack));
                telling.map_or(Name::None, |frame| {
                    let frame = snapshot.stacks.frame(frame);
                    Name::Text(strings.get(frame.name).to_lowercase(), frame.line)
                })
            }
            LiveKey::Block(id) => Name::Number(device.allocations.addresses()[id.row()]),
            LiveKey::Size(size) => Name::Number(size),
            LiveKey::Stream(stream) => Name::Pair(snapshot.streams.handle(stream), 0),
            LiveKey::Pool(Some((pool, _))) => {
                let (a, b) = snapshot.pools.pair(pool);
                Name::Pair(a, b)
            }
            LiveKey::Pool(None) => Name::None,
            LiveKey::Function(name) | LiveKey::File(name) => text(name),
        }
    }
}

/// What is looked for, worked out once for all blocks.
struct Wanted {
    /// By stack: whether one of its frames matches; none: everything is shown.
    stacks: Option<Vec<bool>>,
    text: String,
}

impl Wanted {
    fn new(filter: &str, stacks: &StackTable) -> Wanted {
        let text = filter.trim().to_lowercase();
        if text.is_empty() {
            return Wanted { stacks: None, text };
        }
        let matches = |hay: &str| hay.to_lowercase().contains(&text);
        let frames: Vec<bool> = (0..stacks.frame_count())
            .map(FrameId::of_row)
            .map(|frame| {
                matches(stacks.function(frame)) || matches(&format!("{}:{}", stacks.file(frame), stacks.frame(frame).line))
            })
            .collect();
        let hit = |stack: usize| stacks.frames(StackId::of_row(stack)).iter().any(|frame| frames[frame.row()]);
        Wanted { stacks: Some((0..stacks.len()).map(hit).collect()), text }
    }
    fn finds(&self, stack: StackId, label: impl FnOnce() -> String) -> bool {
        let Some(stacks) = &self.stacks else { return true };
        stacks.get(stack.row()).copied().unwrap_or(false) || label().contains(&self.text)
    }
}

impl Query for LiveTable {
    const NAME: &'static str = "live set";
    type Params = LiveTableParams;
    type Answer = LiveTable;

    fn answer(asked: &Asked<'_>, params: &LiveTableParams, progress: &Progress) -> Result<LiveTable, Cancelled> {
        let state = asked.replay().state_at(asked.memory(), params.at);
        LiveTable::of(&state, asked.memory(), asked.subject.snapshot, params, progress)
    }
}

impl HeapSize for LiveTable {
    fn heap_size(&self) -> usize {
        self.rows.heap_size()
    }
}
