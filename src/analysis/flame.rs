//! Who holds the memory, as a tree of frames: the flame view's question.
//!
//! Always: the root's value is the chosen counter at that moment (or the sum of the window or the set, or the difference
//! of two moments) to the byte, blocks without a stack included under a node of their own; a node's value is its own
//! plus its children's; parents come before their children, children of one node lie side by side, widest
//! first, equal ones in the order of the file. Frames that read alike are one, whatever their extra keys.

use crate::analysis::find::Found;
use crate::analysis::framework::FrameworkFrames;
use crate::analysis::query::{Asked, Query};
use crate::analysis::which::Which;
use crate::base::id::Id as _;
use crate::base::{Cancelled, Column, HeapSize, Progress};
use crate::model::{AllocationId, Allocations, DeviceMemory, Frame, FrameId, Position, StackId, StackTable};
use crate::replay::Replay;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::Range;

crate::define_id! {
    /// One node of a [`FlameTree`].
    FlameNodeId
}

impl FlameNodeId {
    /// The root of every tree.
    pub const ROOT: FlameNodeId = FlameNodeId(0);
}

/// Which bytes of the blocks live at a moment are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveCounter {
    /// Sizes of blocks in use.
    #[default]
    Allocated,
    /// What the program asked for, over active blocks.
    Requested,
    /// Sizes of blocks in use or pending free.
    Active,
}

impl LiveCounter {
    /// All counters, in the order a menu shows them.
    pub const ALL: [LiveCounter; 3] = [LiveCounter::Allocated, LiveCounter::Requested, LiveCounter::Active];
    /// PyTorch's word.
    pub const fn name(self) -> &'static str {
        match self {
            LiveCounter::Allocated => "allocated",
            LiveCounter::Requested => "requested",
            LiveCounter::Active => "active",
        }
    }
}

/// What is summed over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowSum {
    /// Sizes of the blocks born in it, in bytes.
    #[default]
    Allocated,
    /// Sizes times the number of its positions at which the block is in use, in bytes × events: the area
    /// under the curve of allocated memory.
    ByteEvents,
    /// Number of blocks born in it.
    Count,
}

/// What the tree counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlameOf {
    /// The blocks live at a moment.
    Live {
        /// The moment.
        at: Position,
        /// Which of their bytes.
        counter: LiveCounter,
    },
    /// The blocks of a window: born by the events that lead from the state at `from` to that at `to`; for
    /// [`WindowSum::ByteEvents`] those in use at the positions `from <= p < to`.
    Window {
        /// Where it begins.
        from: Position,
        /// Where it ends.
        to: Position,
        /// What is summed.
        sum: WindowSum,
    },
    /// What is live at `to` less what is live at `from`; values are signed.
    Difference {
        /// The moment that is subtracted.
        from: Position,
        /// The moment that is subtracted from.
        to: Position,
        /// Which bytes.
        counter: LiveCounter,
    },
    /// The sizes of the blocks of a set.
    Set(Which),
}

impl FlameOf {
    /// Whether values are differences, with a sign.
    pub fn is_difference(self) -> bool {
        matches!(self, FlameOf::Difference { .. })
    }
}

/// Which end of the stacks is the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlameDirection {
    /// The outermost frame: who calls whom.
    #[default]
    TopDown,
    /// The innermost frame: who is called by whom.
    BottomUp,
}

/// What one asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlameParams {
    /// What is counted.
    pub of: FlameOf,
    /// Which end is the root.
    pub direction: FlameDirection,
    /// Leaves out frames of PyTorch, Python and the system; a stack of nothing else keeps the one that
    /// names it.
    pub fold_framework: bool,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlameLabel {
    /// Everything.
    All,
    /// Blocks without a stack: `<no stack>`.
    NoStack,
    /// A frame, under the frames of the nodes above.
    Frame(FrameId),
}

/// The name of what has no stack.
pub const NO_STACK: &str = "<no stack>";

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameNode {
    /// What it stands for.
    pub label: FlameLabel,
    /// The node above; the root's own id for the root.
    pub parent: FlameNodeId,
    /// The first of its children, which follow one another; meaningless without any.
    pub first_child: FlameNodeId,
    /// Number of its children.
    pub children: u32,
    /// Nodes above it.
    pub depth: u32,
    /// Bytes, bytes × events, or a count; below zero only in differences.
    pub value: i128,
    /// The part of the value whose stacks end here.
    pub self_value: i128,
    /// How wide it is: the value; in differences the growths and shrinkages of its stacks added up without sign.
    pub weight: u128,
    /// Number of blocks; in differences how many more.
    pub blocks: i64,
    /// Nodes of its subtree at which stacks end: with one, all of it is one stack.
    pub ends: u32,
    /// The stack with the largest share of it (the one whose value is farthest from zero).
    pub stack: StackId,
    /// The same among the stacks that end here; [`StackId::ABSENT`] where none does.
    pub self_stack: StackId,
}

impl FlameNode {
    /// The one stack this node stands for: the one that ends here, else the only one that passes; none for the
    /// whole and for frames that several stacks only pass through.
    pub fn its_stack(&self) -> Option<StackId> {
        match self.label {
            FlameLabel::All | FlameLabel::NoStack => None,
            FlameLabel::Frame(_) if self.self_value != 0 => Some(self.self_stack),
            FlameLabel::Frame(_) => (self.ends == 1).then_some(self.stack),
        }
    }
}

/// The answer: a tree of frames.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameTree {
    /// What was asked for.
    pub params: FlameParams,
    /// The nodes, level by level; the root, which is always there, first. Nodes of no width are left out.
    pub nodes: Column<FlameNodeId, FlameNode>,
}

impl FlameTree {
    /// Builds the tree of one device.
    pub fn of(
        memory: &DeviceMemory,
        replay: &Replay,
        stacks: &StackTable,
        params: &FlameParams,
        progress: &Progress,
    ) -> Result<FlameTree, Cancelled> {
        FlameTree::of_found(memory, replay, stacks, params, None, progress)
    }
    /// Builds the tree of stacks that are summed up already, each with its value and number of blocks.
    pub fn of_sums(
        stacks: &StackTable,
        sums: impl Iterator<Item = (StackId, i128, i64)>,
        params: &FlameParams,
        progress: &Progress,
    ) -> Result<FlameTree, Cancelled> {
        let mut all = Sums::new(stacks, None);
        sums.for_each(|(stack, value, blocks)| all.add(stack, value, blocks));
        grow(&all, stacks, params, progress)
    }
    /// The same of nothing but the blocks found; none: of all.
    pub fn of_found(
        memory: &DeviceMemory,
        replay: &Replay,
        stacks: &StackTable,
        params: &FlameParams,
        found: Option<&Found>,
        progress: &Progress,
    ) -> Result<FlameTree, Cancelled> {
        progress.stage("adding up stacks", 0)?;
        let mut sums = Sums::new(stacks, found);
        match params.of {
            FlameOf::Live { at, counter } => sums.add_live(memory, replay, at, counter, 1),
            FlameOf::Difference { from, to, counter } => {
                sums.add_live(memory, replay, to, counter, 1);
                sums.add_live(memory, replay, from, counter, -1);
            }
            FlameOf::Window { from, to, sum } => sums.add_window(memory, from..to, sum, progress)?,
            FlameOf::Set(which) => {
                let lives = &memory.allocations;
                which.visit(memory, replay, progress, |id| {
                    sums.add(lives.stacks()[id.row()], i128::from(lives.sizes()[id.row()]), 1);
                })?;
            }
        }
        grow(&sums, stacks, params, progress)
    }
    /// The root: everything.
    pub fn root(&self) -> &FlameNode {
        &self.nodes[FlameNodeId::ROOT]
    }
    /// The children of a node, widest first.
    pub fn children(&self, node: FlameNodeId) -> impl DoubleEndedIterator<Item = FlameNodeId> + ExactSizeIterator + use<> {
        let FlameNode { first_child, children, .. } = self.nodes[node];
        (first_child.0..first_child.0 + children).map(FlameNodeId)
    }
    /// A node and the nodes above it, the root first.
    pub fn path(&self, node: FlameNodeId) -> Vec<FlameNodeId> {
        let mut path = vec![node];
        let mut at = node;
        while at != FlameNodeId::ROOT {
            at = self.nodes[at].parent;
            path.push(at);
        }
        path.reverse();
        path
    }
    /// Number of levels, the root's included.
    pub fn levels(&self) -> u32 {
        self.nodes.as_slice().last().map_or(0, |deepest| deepest.depth + 1)
    }
    /// Whether nothing has any width: no live block, no birth, no difference.
    pub fn is_empty(&self) -> bool {
        self.root().weight == 0
    }
    /// The node that shows the same frames in this tree as `node` does in another one, or the nearest above it
    /// that is there: keeps a focus when moment or counter change.
    pub fn same_in(&self, other: &FlameTree, node: FlameNodeId) -> FlameNodeId {
        let mut found = FlameNodeId::ROOT;
        for above in other.path(node).into_iter().skip(1) {
            match self.children(found).find(|child| self.nodes[*child].label == other.nodes[above].label) {
                Some(child) => found = child,
                None => break,
            }
        }
        found
    }
}

impl Query for FlameTree {
    const NAME: &'static str = "flame graph";
    type Params = FlameParams;
    type Answer = FlameTree;

    fn answer(asked: &Asked<'_>, params: &FlameParams, progress: &Progress) -> Result<FlameTree, Cancelled> {
        FlameTree::of(asked.memory(), asked.replay(), &asked.subject.snapshot.stacks, params, progress)
    }
}

impl HeapSize for FlameTree {
    fn heap_size(&self) -> usize {
        self.nodes.heap_bytes()
    }
}

/// What each stack holds.
#[derive(Clone, Copy, Default)]
struct Share {
    value: i128,
    blocks: i64,
}

/// Shares by row of the stack table; row 0 is for all blocks without a stack.
struct Sums<'a> {
    shares: Vec<Share>,
    /// Whether the row has frames.
    touched: Vec<u32>,
    seen: Vec<bool>,
    /// Only these blocks count; none: all.
    found: Option<&'a Found>,
}

impl<'a> Sums<'a> {
    fn new(stacks: &StackTable, found: Option<&'a Found>) -> Sums<'a> {
        Sums { shares: vec![Share::default(); stacks.len()], touched: Vec::new(), seen: vec![false; stacks.len()], found }
    }
    fn counts(&self, row: usize) -> bool {
        self.found.is_none_or(|found| found.has(AllocationId::of_row(row)))
    }
    fn add(&mut self, stack: StackId, value: i128, blocks: i64) {
        let row = if stack.row() < self.shares.len() { stack.row() } else { 0 };
        if !std::mem::replace(&mut self.seen[row], true) {
            self.touched.push(row as u32);
        }
        let share = &mut self.shares[row];
        share.value = share.value.saturating_add(value);
        share.blocks = share.blocks.saturating_add(blocks);
    }
    /// From the ids, not from the laid-out state: contradictory files may hold blocks in no segment.
    fn add_live(&mut self, memory: &DeviceMemory, replay: &Replay, at: Position, counter: LiveCounter, sign: i64) {
        let at = at.min(memory.end());
        let mut ids = Vec::new();
        replay.live_at(memory, at, &mut ids);
        let lives = &memory.allocations;
        let sizes = if counter == LiveCounter::Requested { lives.requested() } else { lives.sizes() };
        for row in ids.iter().map(|id| id.row()) {
            if self.counts(row) && (counter != LiveCounter::Allocated || at < lives.freed()[row]) {
                self.add(lives.stacks()[row], i128::from(sizes[row]) * i128::from(sign), sign);
            }
        }
    }
    fn add_window(
        &mut self,
        memory: &DeviceMemory,
        window: Range<Position>,
        sum: WindowSum,
        progress: &Progress,
    ) -> Result<(), Cancelled> {
        /// Lives between two looks at the progress.
        const STEP: usize = 1 << 16;
        let lives = &memory.allocations;
        // The last state there is is that at the trace's end.
        let to = window.end.min(memory.end());
        let until = if memory.end() < window.end { Position(memory.end().0.saturating_add(1)) } else { window.end };
        let rows = match sum {
            WindowSum::Allocated | WindowSum::Count => lives.born_by(window.start)..lives.born_by(to),
            WindowSum::ByteEvents => 0..lives.born().partition_point(|born| *born < until),
        };
        for row in rows {
            if row % STEP == 0 {
                progress.check()?;
            }
            let size = i128::from(lives.sizes()[row]);
            let value = match sum {
                WindowSum::Allocated => size,
                WindowSum::Count => 1,
                WindowSum::ByteEvents => size * i128::from(positions_in(lives, row, window.start..until)),
            };
            if self.counts(row) && (value != 0 || sum != WindowSum::ByteEvents) {
                self.add(lives.stacks()[row], value, 1);
            }
        }
        Ok(())
    }
}

/// At how many positions of a window a life is in use.
fn positions_in(lives: &Allocations, row: usize, window: Range<Position>) -> u32 {
    let from = lives.born()[row].max(window.start);
    lives.freed()[row].min(window.end).0.saturating_sub(from.0)
}

/// A tree while it grows: nodes in the order of the sorted stacks, so parents come first.
#[derive(Default)]
struct Sprout {
    buds: Vec<Bud>,
    /// Stacks with the node each ends at.
    ends: Vec<(u32, StackId, Share)>,
}

struct Bud {
    label: FlameLabel,
    parent: u32,
    depth: u32,
}

impl Sprout {
    fn push(&mut self, label: FlameLabel, parent: u32, depth: u32) -> u32 {
        self.buds.push(Bud { label, parent, depth });
        (self.buds.len() - 1) as u32
    }
}

/// Sums of one node; together, because nodes are visited in an order that no cache foresees.
#[derive(Clone, Copy)]
struct Sum {
    value: i128,
    own: i128,
    weight: u128,
    /// Farthest from zero among the stacks that end at or below it, and which one that is.
    best: u128,
    stack: StackId,
    own_stack: StackId,
    blocks: i64,
    ends: u32,
}

impl Sum {
    const NOTHING: Sum =
        Sum { value: 0, own: 0, weight: 0, best: 0, stack: StackId::ABSENT, own_stack: StackId::ABSENT, blocks: 0, ends: 0 };

    fn better(&mut self, size: u128, stack: StackId) {
        if (self.best, Reverse(self.stack)) < (size, Reverse(stack)) {
            (self.best, self.stack) = (size, stack);
        }
    }
    fn add(&mut self, below: &Sum) {
        self.value = self.value.saturating_add(below.value);
        self.weight = self.weight.saturating_add(below.weight);
        self.blocks = self.blocks.saturating_add(below.blocks);
        self.ends += below.ends;
        self.better(below.best, below.stack);
    }
}

/// The way of one stack from the root.
struct Way {
    /// Where its frames lie among those of all ways.
    frames: Range<usize>,
    stack: StackId,
}

fn grow(sums: &Sums<'_>, stacks: &StackTable, params: &FlameParams, progress: &Progress) -> Result<FlameTree, Cancelled> {
    let alike = alike(stacks);
    let folded = if params.fold_framework { FrameworkFrames::of(stacks) } else { FrameworkFrames::default() };
    let mut sprout = Sprout::default();
    let root = sprout.push(FlameLabel::All, 0, 0);
    let (mut frames, mut ways): (Vec<FrameId>, Vec<Way>) = (Vec::new(), Vec::new());
    let mut touched = sums.touched.clone();
    touched.sort_unstable();
    for stack in touched.into_iter().map(StackId) {
        let whole = stacks.frames(stack);
        let Some(telling) = folded.telling(whole) else {
            let node = sprout.push(FlameLabel::NoStack, root, 1);
            sprout.ends.push((node, stack, sums.shares[stack.row()]));
            continue;
        };
        let from = frames.len();
        frames.extend(whole.iter().filter(|frame| !folded.has(**frame)).map(|frame| alike[frame.row()]));
        if frames.len() == from {
            frames.push(alike[telling.row()]);
        }
        if params.direction == FlameDirection::TopDown {
            frames[from..].reverse();
        }
        ways.push(Way { frames: from..frames.len(), stack });
    }
    progress.check()?;
    // Sorted, every way shares with the one before it all that it shares with any: no node is ever looked up. The
    // table is nearly in order, which a stable sort makes use of.
    let way = |way: &Way| &frames[way.frames.clone()];
    ways.sort_by(|a, b| way(a).cmp(way(b)));
    let mut last: &[FrameId] = &[];
    let mut nodes: Vec<u32> = Vec::new();
    for (done, next) in ways.iter().enumerate() {
        if done % 4096 == 0 {
            progress.check()?;
        }
        let path = way(next);
        let common = path.iter().zip(last).take_while(|(a, b)| a == b).count();
        nodes.truncate(common);
        for frame in &path[common..] {
            let parent = nodes.last().copied().unwrap_or(root);
            nodes.push(sprout.push(FlameLabel::Frame(*frame), parent, nodes.len() as u32 + 1));
        }
        sprout.ends.push((nodes.last().copied().unwrap_or(root), next.stack, sums.shares[next.stack.row()]));
        last = path;
    }
    progress.check()?;
    Ok(FlameTree { params: *params, nodes: order(&sprout) })
}

/// For each frame the first one that reads the same.
fn alike(stacks: &StackTable) -> Vec<FrameId> {
    let mut first: FxHashMap<Frame, FrameId> = FxHashMap::default();
    let ids = (0..stacks.frame_count()).map(FrameId::of_row);
    ids.map(|id| *first.entry(stacks.frame(id)).or_insert(id)).collect()
}

/// Sums up the tree and lays its nodes out level by level, children by width; what has no width is left out.
fn order(sprout: &Sprout) -> Column<FlameNodeId, FlameNode> {
    let buds = &sprout.buds;
    let sums = sums(sprout);
    // Children by parent: counted, then placed.
    let shown = |node: &usize| sums[*node].weight != 0;
    let mut starts = vec![0u32; buds.len() + 1];
    for node in (1..buds.len()).filter(shown) {
        starts[buds[node].parent as usize + 1] += 1;
    }
    for node in 0..buds.len() {
        starts[node + 1] += starts[node];
    }
    let mut children = vec![0u32; starts[buds.len()] as usize];
    let mut places = starts.clone();
    for node in (1..buds.len()).filter(shown) {
        let place = &mut places[buds[node].parent as usize];
        children[*place as usize] = node as u32;
        *place += 1;
    }
    let mut queue: Vec<(u32, FlameNodeId)> = Vec::with_capacity(children.len() + 1);
    queue.push((0, FlameNodeId::ROOT));
    let mut nodes: Vec<FlameNode> = Vec::with_capacity(children.len() + 1);
    while let Some((node, parent)) = queue.get(nodes.len()).copied() {
        let (row, id) = (node as usize, FlameNodeId(nodes.len() as u32));
        let of_node = &mut children[starts[row] as usize..starts[row + 1] as usize];
        of_node.sort_unstable_by_key(|child| {
            let sum = &sums[*child as usize];
            (Reverse(sum.weight), Reverse(sum.value), buds[*child as usize].label)
        });
        let Sum { value, own, weight, best: _, stack, own_stack, blocks, ends } = sums[row];
        nodes.push(FlameNode {
            label: buds[row].label,
            parent,
            first_child: FlameNodeId(queue.len() as u32),
            children: of_node.len() as u32,
            depth: buds[row].depth,
            value,
            self_value: own,
            weight,
            blocks,
            ends,
            stack,
            self_stack: own_stack,
        });
        queue.extend(of_node.iter().map(|child| (*child, id)));
    }
    nodes.into()
}

/// The sums of all nodes, from the stacks that end at them and from below.
fn sums(sprout: &Sprout) -> Vec<Sum> {
    let mut sums = vec![Sum::NOTHING; sprout.buds.len()];
    for (node, stack, share) in &sprout.ends {
        let sum = &mut sums[*node as usize];
        sum.own = sum.own.saturating_add(share.value);
        sum.blocks = sum.blocks.saturating_add(share.blocks);
        sum.better(share.value.unsigned_abs(), *stack);
        sum.own_stack = sum.stack;
    }
    for node in (0..sums.len()).rev() {
        // All that lies below, which came later, is in already; its own part is still missing.
        let sum = &mut sums[node];
        sum.value = sum.value.saturating_add(sum.own);
        sum.weight = sum.weight.saturating_add(sum.own.unsigned_abs());
        sum.ends += u32::from(sum.own != 0);
        let sum = *sum;
        if node != 0 {
            sums[sprout.buds[node].parent as usize].add(&sum);
        }
    }
    sums
}
