//! A set of block lives as rows of a table: grouped, filtered, sorted.
//!
//! Always: every life of the set is in exactly one group, so without a filter the rows add up to the set; for the
//! blocks live at a moment that is `allocated`. Blocks pending free belong to nobody and are left out. Equal rows
//! come in one order always.

use crate::analysis::categories::{Categories, CategoryId};
use crate::analysis::framework::FrameworkFrames;
use crate::analysis::lifetime::Alike;
use crate::analysis::module_name::module_of;
use crate::analysis::open_spans::OpenSpans;
use crate::analysis::query::{Asked, Query};
use crate::analysis::which::{BlockSum, Which};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress, StringId};
use crate::model::{Allocation, AllocationId, Allocations, DeviceMemory, FrameId, PoolId, Position, SizeClass, Snapshot};
use crate::model::{StackId, StackTable, StreamId};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::{Ordering, Reverse};

/// What blocks are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupBy {
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
    /// The module of that file.
    Module,
    /// What they are for, by the rules in force.
    Category,
    /// The innermost annotation that was open when they were born.
    Annotation,
    /// The compile context of the event that made them.
    CompileContext,
    /// The user metadata of that event.
    UserMetadata,
}

impl GroupBy {
    /// All groupings, in the order a menu shows them.
    pub const ALL: [GroupBy; 12] = [
        GroupBy::Stack,
        GroupBy::Block,
        GroupBy::Size,
        GroupBy::Stream,
        GroupBy::Pool,
        GroupBy::Function,
        GroupBy::File,
        GroupBy::Module,
        GroupBy::Category,
        GroupBy::Annotation,
        GroupBy::CompileContext,
        GroupBy::UserMetadata,
    ];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            GroupBy::Stack => "stack",
            GroupBy::Block => "block",
            GroupBy::Size => "size",
            GroupBy::Stream => "stream",
            GroupBy::Pool => "pool",
            GroupBy::Function => "function",
            GroupBy::File => "file",
            GroupBy::Module => "module",
            GroupBy::Category => "category",
            GroupBy::Annotation => "annotation",
            GroupBy::CompileContext => "compile context",
            GroupBy::UserMetadata => "user metadata",
        }
    }
}

/// What a group has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
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
    /// A module, by its row in [`BlockTable::modules`]; none where no file is named.
    Module(Option<u32>),
    /// A category of the rules; none for blocks without a stack.
    Category(Option<CategoryId>),
    /// An annotation; none where none was open, or the time of birth is not known.
    Annotation(Option<StringId>),
    /// A compile context.
    CompileContext(Option<StringId>),
    /// User metadata.
    UserMetadata(Option<StringId>),
}

/// By what rows are ordered. Groups know the first four; by the others they are ordered by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockOrder {
    /// What the group has in common; of single blocks the address.
    Name,
    /// Sizes of its blocks.
    #[default]
    Bytes,
    /// What the program asked for.
    Requested,
    /// Number of blocks.
    Count,
    /// The birth.
    Born,
    /// When the program freed it.
    Freed,
    /// The life in events.
    Life,
    /// The life in µs.
    Time,
    /// The stream.
    Stream,
    /// The pool and its half.
    Pool,
    /// The frame that names the stack.
    Stack,
}

/// What a table of blocks is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockTableParams {
    /// Which blocks.
    pub which: Which,
    /// What they are grouped by.
    pub by: GroupBy,
    /// Text looked for in functions, in `file:line`, in the labels of blocks, and in their annotation, compile
    /// context, user metadata and category; letter case is ignored. Empty: all.
    pub filter: String,
    /// The order.
    pub order: BlockOrder,
    /// The largest first.
    pub descending: bool,
    /// What categories there are.
    pub categories: Categories,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// What its blocks have in common.
    pub key: GroupKey,
    /// Their sums.
    pub sum: BlockSum,
    /// The stack that holds most of it; [`StackId::EMPTY`] where blocks without a stack hold most.
    pub stack: StackId,
}

/// The rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTable {
    /// What was asked for, with moments in order.
    pub params: BlockTableParams,
    /// The groups, in the order asked for; empty where each block is a row.
    groups: Vec<BlockRow>,
    /// The blocks, in the order asked for, where each is a row: millions of them take four bytes each.
    blocks: Vec<AllocationId>,
    /// Names of modules, by the row that [`GroupKey::Module`] names.
    pub modules: Vec<String>,
    /// All rows together.
    pub shown: BlockSum,
    /// All blocks of the set, filtered or not.
    pub total: BlockSum,
}

impl BlockTable {
    /// Groups the blocks of a set.
    pub fn of(asked: &Asked<'_>, params: &BlockTableParams, progress: &Progress) -> Result<BlockTable, Cancelled> {
        let (snapshot, memory) = (asked.subject.snapshot, asked.memory());
        let (lives, stacks) = (&memory.allocations, &snapshot.stacks);
        let which = params.which.within(memory.end());
        let mut facts = Facts::new(snapshot, memory, params);
        let mut wanted = Wanted::new(params, &facts);
        let mut alike = Alike::new(stacks);
        let params = BlockTableParams { which, ..params.clone() };
        let by = params.by;
        let mut found = BlockTable {
            params,
            groups: Vec::new(),
            blocks: Vec::new(),
            modules: Vec::new(),
            shown: BlockSum::default(),
            total: BlockSum::default(),
        };
        let mut parts: FxHashMap<(GroupKey, StackId), BlockSum> = FxHashMap::default();
        which.visit(memory, asked.replay(), progress, |id| {
            let sum = BlockSum::one(lives, id);
            found.total.add(sum);
            if !wanted.finds(&facts, id) {
                return;
            }
            found.shown.add(sum);
            if by == GroupBy::Block {
                found.blocks.push(id);
            } else {
                let stack = alike.of(lives.stacks()[id.row()]);
                parts.entry((facts.key(by, id, stack), stack)).or_default().add(sum);
            }
        })?;
        let mut parts: Vec<((GroupKey, StackId), BlockSum)> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|((key, stack), sum)| (*key, Reverse(sum.bytes), *stack));
        for ((key, stack), sum) in parts {
            // The first part of a group is its largest.
            match found.groups.last_mut().filter(|row| row.key == key) {
                Some(row) => row.sum.add(sum),
                None => found.groups.push(BlockRow { key, sum, stack }),
            }
        }
        found.modules = std::mem::take(&mut facts.modules.names);
        progress.stage("sorting", 0)?;
        found.sort_groups(snapshot);
        found.sort_blocks(snapshot, memory);
        progress.check()?;
        Ok(found)
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.groups.len() + self.blocks.len()
    }
    /// Whether no block is shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A row by its place.
    pub fn row(&self, lives: &Allocations, place: usize) -> Option<BlockRow> {
        if let Some(group) = self.groups.get(place) {
            return Some(*group);
        }
        let id = *self.blocks.get(place)?;
        Some(BlockRow { key: GroupKey::Block(id), sum: BlockSum::one(lives, id), stack: lives.stacks()[id.row()] })
    }
    /// All rows, in order.
    pub fn rows<'a>(&'a self, lives: &'a Allocations) -> impl ExactSizeIterator<Item = BlockRow> + 'a {
        let one = |id: &AllocationId| BlockRow {
            key: GroupKey::Block(*id),
            sum: BlockSum::one(lives, *id),
            stack: lives.stacks()[id.row()],
        };
        (0..self.len()).map(move |place| self.groups.get(place).copied().unwrap_or_else(|| one(&self.blocks[place])))
    }

    fn sort_groups(&mut self, snapshot: &Snapshot) {
        let BlockTableParams { order, descending, categories, .. } = &self.params;
        let (order, descending) = (*order, *descending);
        let value = |row: &BlockRow| match order {
            BlockOrder::Name => 0,
            BlockOrder::Requested => row.sum.requested,
            BlockOrder::Count => row.sum.count,
            _ => row.sum.bytes,
        };
        let way = |order: Ordering| if descending { order.reverse() } else { order };
        let rows = std::mem::take(&mut self.groups);
        let mut named: Vec<(Name, BlockRow)> = match order {
            BlockOrder::Name => {
                let framework = FrameworkFrames::of(&snapshot.stacks);
                let name = |row: &BlockRow| Name::of(row, snapshot, &framework, &self.modules, categories);
                rows.into_iter().map(|row| (name(&row), row)).collect()
            }
            _ => rows.into_iter().map(|row| (Name::Number(0), row)).collect(),
        };
        named.sort_by(|(a_name, a), (b_name, b)| {
            way(value(a).cmp(&value(b)).then_with(|| a_name.cmp(b_name)))
                .then_with(|| b.sum.bytes.cmp(&a.sum.bytes))
                .then_with(|| a.key.cmp(&b.key))
        });
        self.groups = named.into_iter().map(|(_, row)| row).collect();
    }

    fn sort_blocks(&mut self, snapshot: &Snapshot, memory: &DeviceMemory) {
        let (order, descending) = (self.params.order, self.params.descending);
        if self.blocks.is_empty() {
            return;
        }
        let lives = &memory.allocations;
        let names = if order == BlockOrder::Stack { stack_ranks(snapshot, lives, &self.blocks) } else { Vec::new() };
        let value = |id: AllocationId| -> u64 {
            let row = id.row();
            match order {
                BlockOrder::Name => lives.addresses()[row],
                BlockOrder::Bytes => lives.sizes()[row],
                BlockOrder::Requested => lives.requested()[row],
                BlockOrder::Count => 1,
                BlockOrder::Born => lives.born()[row].0.into(),
                BlockOrder::Freed => lives.freed()[row].0.into(),
                BlockOrder::Life => BlockLife::of(memory, id).events.into(),
                // Lives whose time is not known come before the shortest.
                BlockOrder::Time => BlockLife::of(memory, id).time_us.map_or(0, |time| time.saturating_add(1)),
                BlockOrder::Stream => snapshot.streams.handle(lives.streams()[row]) as u64,
                BlockOrder::Pool => match pool_of(memory, id) {
                    Some((pool, class)) => 2 * u64::from(pool.0) + u64::from(class == SizeClass::Large),
                    None => u64::MAX,
                },
                BlockOrder::Stack => names.get(lives.stacks()[row].row()).copied().unwrap_or(u32::MAX).into(),
            }
        };
        let way = |value: u64| if descending { !value } else { value };
        let mut keyed: Vec<(u64, Reverse<u64>, AllocationId)> =
            self.blocks.par_iter().map(|id| (way(value(*id)), Reverse(lives.sizes()[id.row()]), *id)).collect();
        keyed.par_sort_unstable();
        self.blocks = keyed.into_par_iter().map(|(.., id)| id).collect();
    }
}

/// How long a block was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLife {
    /// Events from its birth to its being freed, as far as the trace reaches.
    pub events: u32,
    /// Whether the trace holds both ends.
    pub whole: bool,
    /// Time between both in µs, where both are recorded.
    pub time_us: Option<u64>,
}

impl BlockLife {
    /// The life of a block.
    pub fn of(memory: &DeviceMemory, id: AllocationId) -> BlockLife {
        let life = memory.allocations.get(id);
        let freed = life.freed.min(memory.end());
        let time = |event| memory.trace.time_us(event);
        let (born_us, freed_us) = (life.alloc_event().and_then(time), life.free_event().and_then(time));
        BlockLife {
            events: freed.0.saturating_sub(life.born.0),
            whole: life.born != Position::START && life.freed <= memory.end(),
            time_us: born_us.zip(freed_us).map(|(from, to)| u64::try_from(to.saturating_sub(from)).unwrap_or(0)),
        }
    }
}

/// The pool of a block and its half; none where the file names no segment around it.
pub fn pool_of(memory: &DeviceMemory, id: AllocationId) -> Option<(PoolId, SizeClass)> {
    let segment = memory.segments.get(memory.allocations.segments()[id.row()])?;
    (!segment.inferred).then_some((segment.pool, segment.class))
}

/// By stack: its place among the stacks of these blocks, ordered by the frame that names each; those without last.
fn stack_ranks(snapshot: &Snapshot, lives: &Allocations, blocks: &[AllocationId]) -> Vec<u32> {
    let stacks = &snapshot.stacks;
    let framework = FrameworkFrames::of(stacks);
    let mut used = vec![false; stacks.len()];
    for id in blocks {
        if let Some(used) = used.get_mut(lives.stacks()[id.row()].row()) {
            *used = true;
        }
    }
    let used = (0..stacks.len()).filter(|row| used[*row]).map(StackId::of_row);
    let mut named: Vec<(Name, StackId)> = used.map(|stack| (Name::of_stack(stack, stacks, &framework), stack)).collect();
    named.sort_unstable();
    let mut ranks = vec![u32::MAX; stacks.len()];
    for (rank, (name, stack)) in (0..).zip(&named) {
        ranks[stack.row()] = if *name == Name::None { u32::MAX } else { rank };
    }
    ranks
}

/// What is worked out once for all blocks.
struct Facts<'a> {
    memory: &'a DeviceMemory,
    snapshot: &'a Snapshot,
    framework: Option<FrameworkFrames>,
    spans: Option<OpenSpans>,
    /// By stack.
    categories: Vec<CategoryId>,
    modules: Modules,
}

/// Modules by file, named once each.
#[derive(Default)]
struct Modules {
    by_file: FxHashMap<StringId, Option<u32>>,
    by_name: FxHashMap<String, u32>,
    names: Vec<String>,
}

impl Modules {
    fn of(&mut self, file: StringId, snapshot: &Snapshot) -> Option<u32> {
        let Modules { by_file, by_name, names } = self;
        *by_file.entry(file).or_insert_with(|| {
            let name = module_of(snapshot.stacks.strings.get(file))?;
            Some(*by_name.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                (names.len() - 1) as u32
            }))
        })
    }
}

impl<'a> Facts<'a> {
    fn new(snapshot: &'a Snapshot, memory: &'a DeviceMemory, params: &BlockTableParams) -> Facts<'a> {
        let (by, filtered) = (params.by, !params.filter.trim().is_empty());
        let named = matches!(by, GroupBy::Function | GroupBy::File | GroupBy::Module);
        let annotated = !memory.annotations.is_empty() && (filtered || by == GroupBy::Annotation);
        Facts {
            memory,
            snapshot,
            framework: named.then(|| FrameworkFrames::of(&snapshot.stacks)),
            spans: annotated.then(|| OpenSpans::of(&memory.annotations)),
            categories: if filtered || by == GroupBy::Category { params.categories.of(&snapshot.stacks) } else { Vec::new() },
            modules: Modules::default(),
        }
    }
    fn life(&self, id: AllocationId) -> Allocation {
        self.memory.allocations.get(id)
    }
    fn annotation(&self, id: AllocationId) -> Option<StringId> {
        let spans = self.spans.as_ref()?;
        spans.at(self.memory.trace.time_us(self.life(id).alloc_event()?)?)
    }
    fn compile_context(&self, id: AllocationId) -> Option<StringId> {
        self.memory.trace.compile_context(self.life(id).alloc_event()?)
    }
    fn user_metadata(&self, id: AllocationId) -> Option<StringId> {
        self.memory.trace.user_metadata(self.life(id).alloc_event()?)
    }
    fn category(&self, stack: StackId) -> Option<CategoryId> {
        if self.snapshot.stacks.frames(stack).is_empty() { None } else { self.categories.get(stack.row()).copied() }
    }
    /// What a block has in common with those of its group; `stack` is the first that reads like its own.
    fn key(&mut self, by: GroupBy, id: AllocationId, stack: StackId) -> GroupKey {
        let stacks = &self.snapshot.stacks;
        let telling = |framework: &Option<FrameworkFrames>| {
            let frame = framework.as_ref().and_then(|rule| rule.telling(stacks.frames(stack)))?;
            Some(stacks.frame(frame))
        };
        match by {
            GroupBy::Stack => GroupKey::Stack(stack),
            GroupBy::Block => GroupKey::Block(id),
            GroupBy::Size => GroupKey::Size(self.memory.allocations.sizes()[id.row()]),
            GroupBy::Stream => GroupKey::Stream(self.memory.allocations.streams()[id.row()]),
            GroupBy::Pool => GroupKey::Pool(pool_of(self.memory, id)),
            GroupBy::Function => GroupKey::Function(telling(&self.framework).map(|frame| frame.name)),
            GroupBy::File => GroupKey::File(telling(&self.framework).map(|frame| frame.filename)),
            GroupBy::Module => {
                let file = telling(&self.framework).map(|frame| frame.filename);
                GroupKey::Module(file.and_then(|file| self.modules.of(file, self.snapshot)))
            }
            GroupBy::Category => GroupKey::Category(self.category(stack)),
            GroupBy::Annotation => GroupKey::Annotation(self.annotation(id)),
            GroupBy::CompileContext => GroupKey::CompileContext(self.compile_context(id)),
            GroupBy::UserMetadata => GroupKey::UserMetadata(self.user_metadata(id)),
        }
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
    fn of_stack(stack: StackId, stacks: &StackTable, framework: &FrameworkFrames) -> Name {
        framework.telling(stacks.frames(stack)).map_or(Name::None, |frame| {
            let frame = stacks.frame(frame);
            Name::Text(stacks.strings.get(frame.name).to_lowercase(), frame.line)
        })
    }
    fn of(row: &BlockRow, snapshot: &Snapshot, framework: &FrameworkFrames, modules: &[String], categories: &Categories) -> Name {
        let text = |text: &str| Name::Text(text.to_lowercase(), 0);
        match row.key {
            GroupKey::Stack(stack) => Name::of_stack(stack, &snapshot.stacks, framework),
            GroupKey::Block(id) => Name::Number(id.0.into()),
            GroupKey::Size(size) => Name::Number(size),
            GroupKey::Stream(stream) => Name::Pair(snapshot.streams.handle(stream), 0),
            GroupKey::Pool(Some((pool, _))) => {
                let (a, b) = snapshot.pools.pair(pool);
                Name::Pair(a, b)
            }
            GroupKey::Pool(None) => Name::None,
            GroupKey::Module(module) => module.and_then(|row| modules.get(row as usize)).map_or(Name::None, |name| text(name)),
            GroupKey::Category(category) => category.map_or(Name::None, |category| text(categories.name(category))),
            GroupKey::Function(id)
            | GroupKey::File(id)
            | GroupKey::Annotation(id)
            | GroupKey::CompileContext(id)
            | GroupKey::UserMetadata(id) => id.map_or(Name::None, |id| text(snapshot.stacks.strings.get(id))),
        }
    }
}

/// What is looked for, worked out once for all blocks.
struct Wanted {
    text: String,
    /// By stack: whether one of its frames or its category matches; none: everything is shown.
    stacks: Option<Vec<bool>>,
    /// Whether the text can be a part of a label at all.
    labels: bool,
    texts: FxHashMap<StringId, bool>,
}

impl Wanted {
    fn new(params: &BlockTableParams, facts: &Facts<'_>) -> Wanted {
        let text = params.filter.trim().to_lowercase();
        let labels = text.chars().all(|c| c.is_ascii_hexdigit() || c == '_');
        if text.is_empty() {
            return Wanted { text, stacks: None, labels, texts: FxHashMap::default() };
        }
        let stacks = &facts.snapshot.stacks;
        let matches = |hay: &str| hay.to_lowercase().contains(&text);
        let frames: Vec<bool> = (0..stacks.frame_count())
            .map(FrameId::of_row)
            .map(|frame| {
                matches(stacks.function(frame)) || matches(&format!("{}:{}", stacks.file(frame), stacks.frame(frame).line))
            })
            .collect();
        let categories: Vec<bool> = params.categories.names().iter().map(|name| matches(name)).collect();
        let hit = |stack: StackId| {
            let category = facts.category(stack).and_then(|category| categories.get(usize::from(category.0)));
            category.copied().unwrap_or(false) || stacks.frames(stack).iter().any(|frame| frames[frame.row()])
        };
        let stacks = (0..stacks.len()).map(StackId::of_row).map(hit).collect();
        Wanted { text, stacks: Some(stacks), labels, texts: FxHashMap::default() }
    }
    fn finds(&mut self, facts: &Facts<'_>, id: AllocationId) -> bool {
        let Some(stacks) = &self.stacks else { return true };
        if stacks.get(facts.memory.allocations.stacks()[id.row()].row()).copied().unwrap_or(false) {
            return true;
        }
        if self.labels && facts.life(id).label().contains(&self.text) {
            return true;
        }
        [facts.annotation(id), facts.compile_context(id), facts.user_metadata(id)].into_iter().flatten().any(|name| {
            let hay = || facts.snapshot.stacks.strings.get(name).to_lowercase();
            *self.texts.entry(name).or_insert_with(|| hay().contains(&self.text))
        })
    }
}

impl Query for BlockTable {
    const NAME: &'static str = "table of blocks";
    type Params = BlockTableParams;
    type Answer = BlockTable;

    fn answer(asked: &Asked<'_>, params: &BlockTableParams, progress: &Progress) -> Result<BlockTable, Cancelled> {
        BlockTable::of(asked, params, progress)
    }
}

impl HeapSize for BlockTable {
    fn heap_size(&self) -> usize {
        self.groups.heap_size() + self.blocks.heap_size() + self.modules.iter().map(|name| name.capacity() + 24).sum::<usize>()
    }
}
