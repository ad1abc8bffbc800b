//! A flame graph: frames as boxes on top of one another, as wide as what they hold.
//!
//! Always: a box is as wide as its share of the focused node; the nodes above the focus run over the whole width;
//! siblings too narrow to see are drawn as one rest, never left out; a box has the colour of the stack that ends
//! in it or alone passes through it, the same as everywhere else, and is grey where several only pass. What is
//! laid out per frame is what can be seen, however large the tree.

use crate::analysis::flame::{FlameLabel, FlameNodeId, FlameOf, FlameTree};
use crate::analysis::flame_search::{FlameMatch, FlameMatches};
use crate::base::grouped;
use crate::base::id::Id as _;
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, MAX_MARKS, Shape, TextSize};
use crate::chart::flame_words::{empty_sentence, node_name, share_text, value_text};
use crate::chart::ink::{BlockColour, Ink, content_hashes, text_hash};
use crate::model::{FrameId, Item, StackId, StackTable};
use std::ops::Range;

/// Where the root lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlameShape {
    /// At the top; the graph hangs down.
    #[default]
    Icicle,
    /// At the bottom; the graph rises.
    Flame,
}

/// What the colour of a frame means, except in differences, which show growth and shrinkage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlameColour {
    /// Its stack; frames that several stacks only pass through are neutral.
    #[default]
    Stack,
    /// The file it stands in.
    Module,
}

/// Colours of the frames of one snapshot; made once per snapshot and meaning.
#[derive(Clone, Debug)]
pub struct FlameInks {
    by: FlameColour,
    stacks: Vec<u32>,
    modules: Vec<u32>,
}

impl FlameInks {
    /// Prepares the colours of a snapshot's frames.
    pub fn new(stacks: &StackTable, by: FlameColour) -> FlameInks {
        let modules = match by {
            FlameColour::Stack => Vec::new(),
            FlameColour::Module => (0..stacks.frame_count()).map(|row| text_hash(stacks.file(FrameId::of_row(row)))).collect(),
        };
        FlameInks { by, stacks: content_hashes(stacks), modules }
    }
    /// The colour of a node.
    pub fn of(&self, tree: &FlameTree, node: FlameNodeId) -> Ink {
        let row = &tree.nodes[node];
        if tree.params.of.is_difference() {
            // How much of what moved went the same way.
            let share = row.value as f64 / (row.weight as f64).max(1.0);
            return Ink::Delta((share * 127.0).round() as i8);
        }
        match (row.label, self.by) {
            (FlameLabel::All, _) => Ink::Shared,
            (FlameLabel::NoStack, _) => Ink::Block(BlockColour::NoStack),
            (FlameLabel::Frame(_), FlameColour::Stack) => {
                row.its_stack().map_or(Ink::Shared, |stack| Ink::Block(BlockColour::Stack(self.stack(stack))))
            }
            (FlameLabel::Frame(frame), FlameColour::Module) => {
                Ink::Block(BlockColour::Stack(self.modules.get(frame.row()).copied().unwrap_or(0)))
            }
        }
    }
    fn stack(&self, stack: StackId) -> u32 {
        self.stacks.get(stack.row()).copied().unwrap_or(0)
    }
}

/// All that the picture depends on.
#[derive(Clone, Debug)]
pub struct FlameInput<'a> {
    /// The tree.
    pub tree: &'a FlameTree,
    /// Names of its frames.
    pub stacks: &'a StackTable,
    /// Colours of its frames.
    pub inks: &'a FlameInks,
    /// Where the root lies.
    pub shape: FlameShape,
    /// The node that fills the width; the root shows everything.
    pub focus: FlameNodeId,
    /// Which part of the focus' width is seen, in shares of it: `0.0..1.0` is all.
    pub visible: Range<f64>,
    /// Width in points.
    pub width_pt: f32,
    /// Height of what is visible, in points.
    pub height_pt: f32,
    /// How far it is scrolled away from the root, in points.
    pub scroll_pt: f32,
    /// What was searched for: all but the matches dims.
    pub matches: Option<&'a FlameMatches>,
    /// The node that is selected.
    pub selected: Option<FlameNodeId>,
    /// The stack that is selected elsewhere.
    pub selected_stack: Option<StackId>,
    /// The node the pointer is on.
    pub hovered: Option<FlameNodeId>,
}

impl<'a> FlameInput<'a> {
    /// The whole of a tree in a size, nothing selected.
    pub fn whole(tree: &'a FlameTree, stacks: &'a StackTable, inks: &'a FlameInks, width_pt: f32, height_pt: f32) -> Self {
        FlameInput {
            tree,
            stacks,
            inks,
            shape: FlameShape::Icicle,
            focus: FlameNodeId::ROOT,
            visible: 0.0..1.0,
            width_pt,
            height_pt,
            scroll_pt: 0.0,
            matches: None,
            selected: None,
            selected_stack: None,
            hovered: None,
        }
    }
}

/// What lies under a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlameHit {
    /// A node; a click makes it the focus. Nodes above the focus lead back.
    Node(FlameNodeId),
    /// Siblings too narrow to be seen apart: a click may focus their parent, zooming shows them.
    Rest {
        /// The first of them; the others follow.
        first: FlameNodeId,
        /// How many.
        count: u32,
    },
}

/// The laid-out picture with what pointing and scrolling need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameDrawing {
    /// What is visible.
    pub drawing: Drawing,
    /// Height of everything, in points.
    pub content_height_pt: f32,
    boxes: Vec<(Area, FlameHit)>,
}

impl FlameDrawing {
    /// What lies under a point of the drawing.
    pub fn pick(&self, x: f32, y: f32) -> Option<FlameHit> {
        self.boxes.iter().find(|(area, _)| area.contains(x, y)).map(|(_, hit)| *hit)
    }
    /// Where a node lies, if it is drawn.
    pub fn area_of(&self, node: FlameNodeId) -> Option<Area> {
        self.boxes.iter().find(|(_, hit)| *hit == FlameHit::Node(node)).map(|(area, _)| *area)
    }
}

/// Height of a level, the gap below it included.
pub const LEVEL_PT: f32 = 19.0;
/// Narrowest box that is drawn by itself; doubled until the picture is not too full.
const LEAST_WIDTH_PT: f32 = 1.5;
/// Narrowest rest that is drawn.
const LEAST_REST_PT: f32 = 0.75;
/// Narrowest box with a name in it, and with its value at the right end.
const NAME_FROM_PT: f32 = 34.0;
const VALUE_FROM_PT: f32 = 260.0;
/// Room kept for a value.
const VALUE_PT: f32 = 150.0;
/// Space left and right of a text.
const PAD_PT: f32 = 4.0;
/// Marks kept free for outlines.
const SPARE_MARKS: usize = 200;

/// Lays out the picture.
pub fn draw(input: &FlameInput<'_>) -> FlameDrawing {
    let mut least = LEAST_WIDTH_PT;
    loop {
        if let Some(drawing) = draw_from(input, least) {
            return drawing;
        }
        least *= 2.0;
    }
}

/// Lays out boxes that are at least so wide; none if they are too many.
fn draw_from(input: &FlameInput<'_>, least: f32) -> Option<FlameDrawing> {
    let tree = input.tree;
    let mut canvas = Canvas::new(input);
    if tree.is_empty() {
        let middle = [input.width_pt / 2.0, input.height_pt / 2.0];
        let sentence = empty_sentence(tree.params.of);
        let room = Fit::Shorten(input.width_pt - 2.0 * PAD_PT);
        canvas.texts.push((middle, Anchor::Centre, sentence, Ink::WeakText, room));
        return Some(canvas.finish(0));
    }
    let focus = if input.focus.row() < tree.nodes.len() { input.focus } else { FlameNodeId::ROOT };
    let visible = if input.visible.start < input.visible.end { input.visible.clone() } else { 0.0..1.0 };
    let path = tree.path(focus);
    for above in path.iter().take(path.len() - 1) {
        canvas.node(*above, 0.0..f64::from(input.width_pt), true);
    }
    let scale = f64::from(input.width_pt) / (visible.end - visible.start);
    let per_weight = scale / (tree.nodes[focus].weight as f64).max(1.0);
    let start = -visible.start * scale;
    let mut levels = tree.nodes[focus].depth + 1;
    let mut open = vec![(focus, start)];
    canvas.node(focus, start..start + scale, false);
    while let Some((parent, mut x)) = open.pop() {
        if canvas.is_full() {
            return None;
        }
        let mut left = tree.nodes[parent].children;
        for child in tree.children(parent) {
            let row = &tree.nodes[child];
            let width = row.weight as f64 * per_weight;
            if f64::from(input.width_pt) <= x {
                break;
            }
            if width < f64::from(least) {
                // Children come widest first: all that follow are narrower still.
                let weight = (child.0..child.0 + left).map(|id| tree.nodes[FlameNodeId(id)].weight).sum::<u128>();
                canvas.rest(child, left, weight, row.depth, x..x + weight as f64 * per_weight);
                levels = levels.max(row.depth + 1);
                break;
            }
            if canvas.is_full() {
                return None;
            }
            if 0.0 < x + width {
                canvas.node(child, x..x + width, false);
                levels = levels.max(row.depth + 1);
                if 0 < row.children {
                    open.push((child, x));
                }
            }
            x += width;
            left -= 1;
        }
    }
    Some(canvas.finish(levels))
}

/// The drawing in the making. Boxes come first and texts last, so that all boxes are one mesh.
struct Canvas<'a, 'b> {
    input: &'b FlameInput<'a>,
    drawing: Drawing,
    boxes: Vec<(Area, FlameHit)>,
    texts: Vec<([f32; 2], Anchor, String, Ink, Fit)>,
    outlines: Vec<(Area, Ink, f32)>,
    selected_hash: Option<u32>,
}

impl<'a, 'b> Canvas<'a, 'b> {
    fn new(input: &'b FlameInput<'a>) -> Self {
        let mut drawing = Drawing::new(input.width_pt, input.height_pt);
        drawing.push(Shape::Box(Area::new(0.0, 0.0, input.width_pt, input.height_pt)), Ink::Background);
        let selected_hash = input.selected_stack.map(|stack| input.inks.stack(stack));
        Self { input, drawing, boxes: Vec::new(), texts: Vec::new(), outlines: Vec::new(), selected_hash }
    }
    fn is_full(&self) -> bool {
        MAX_MARKS < self.drawing.marks.len() + self.texts.len() + self.outlines.len() + SPARE_MARKS
    }
    /// Where a level's box lies; none if it is out of sight.
    fn place(&self, depth: u32, x: Range<f64>) -> Option<Area> {
        let from_root = depth as f32 * LEVEL_PT - self.input.scroll_pt;
        let y = match self.input.shape {
            FlameShape::Icicle => from_root,
            FlameShape::Flame => self.input.height_pt - from_root - LEVEL_PT + 1.0,
        };
        let seen = -LEVEL_PT < y && y < self.input.height_pt && 0.0 < x.end && x.start < f64::from(self.input.width_pt);
        let x0 = x.start.max(0.0) as f32;
        let x1 = x.end.min(f64::from(self.input.width_pt)) as f32;
        // Half a point of ground between neighbours, where they are wide enough to spare it.
        let x1 = if 3.0 <= x1 - x0 && x.end <= f64::from(self.input.width_pt) { x1 - 0.5 } else { x1 };
        seen.then_some(Area::new(x0, y, x1, y + LEVEL_PT - 1.0))
    }
    fn node(&mut self, node: FlameNodeId, x: Range<f64>, above_focus: bool) {
        let (tree, inks) = (self.input.tree, self.input.inks);
        let row = &tree.nodes[node];
        let Some(area) = self.place(row.depth, x) else { return };
        let item = row.its_stack().map(Item::Stack);
        let dim = self.input.matches.and_then(|found| found.nodes.get(node)).is_some_and(|found| *found == FlameMatch::No);
        let ink = if above_focus { Ink::Shared } else { inks.of(tree, node) };
        self.drawing.push_item(Shape::Box(area), ink, item);
        if dim {
            self.drawing.push_item(Shape::Box(area), Ink::Shade, item);
        }
        self.boxes.push((area, FlameHit::Node(node)));
        self.words(node, area, if dim || above_focus { Ink::WeakText } else { text_ink(ink) });
        if self.input.matches.and_then(|found| found.nodes.get(node)) == Some(&FlameMatch::Hit) && 3.0 <= area.width() {
            self.outlines.push((area, Ink::Selected, 1.0));
        }
        // The node at which the selected stack ends, be it selected in another view.
        let hash = |stack| inks.stack(stack);
        let same_stack = row.self_value != 0 && row.its_stack().map(hash) == self.selected_hash;
        if self.input.selected == Some(node) || (self.selected_hash.is_some() && same_stack) {
            self.outlines.push((area, Ink::Selected, 2.0));
        } else if self.input.hovered == Some(node) {
            self.outlines.push((area, Ink::Hovered, 1.0));
        }
    }
    fn words(&mut self, node: FlameNodeId, area: Area, ink: Ink) {
        if area.width() < NAME_FROM_PT {
            return;
        }
        let tree = self.input.tree;
        let row = &tree.nodes[node];
        let y = (area.y0 + area.y1) / 2.0;
        let mut room = area.width() - 2.0 * PAD_PT;
        if VALUE_FROM_PT <= area.width() {
            let of = tree.params.of;
            let value = match of {
                FlameOf::Difference { .. } => value_text(of, row.value),
                FlameOf::Live { .. } | FlameOf::Window { .. } | FlameOf::Set(_) => {
                    format!("{}   {}", value_text(of, row.value), share_text(row.weight, tree.root().weight))
                }
            };
            self.texts.push(([area.x1 - PAD_PT, y], Anchor::RightCentre, value, ink, Fit::Shorten(VALUE_PT)));
            room -= VALUE_PT + 2.0 * PAD_PT;
        }
        // Names in C++ can be endless; no letter is narrower than a quarter of its height.
        let mut name = node_name(self.input.stacks, row.label);
        let most = (room / (TextSize::Small.points() / 4.0)) as usize;
        if let Some((cut, _)) = name.char_indices().nth(most) {
            name.truncate(cut);
            name.push('…');
        }
        self.texts.push(([area.x0 + PAD_PT, y], Anchor::LeftCentre, name, ink, Fit::Shorten(room)));
    }
    fn rest(&mut self, first: FlameNodeId, count: u32, weight: u128, depth: u32, x: Range<f64>) {
        if x.end - x.start < f64::from(LEAST_REST_PT) {
            return;
        }
        let Some(area) = self.place(depth, x) else { return };
        self.drawing.push(Shape::Box(area), Ink::Grid);
        self.boxes.push((area, FlameHit::Rest { first, count }));
        if NAME_FROM_PT * 2.0 <= area.width() {
            let of = self.input.tree.params.of;
            // In a difference the widths are growth and shrinkage together, which is no value.
            let sum = if of.is_difference() { String::new() } else { format!("   {}", value_text(of, weight as i128)) };
            let words = format!("{} more{sum}", grouped(count.into()));
            let y = (area.y0 + area.y1) / 2.0;
            let room = Fit::Shorten(area.width() - 2.0 * PAD_PT);
            self.texts.push(([area.x0 + PAD_PT, y], Anchor::LeftCentre, words, Ink::WeakText, room));
        }
    }
    fn finish(mut self, levels: u32) -> FlameDrawing {
        for (area, ink, width) in self.outlines {
            self.drawing.push(Shape::Outline(area, width), ink);
        }
        for (at, anchor, text, ink, fit) in self.texts {
            self.drawing.text(at, anchor, TextSize::Small, text, ink, fit);
        }
        FlameDrawing { drawing: self.drawing, content_height_pt: levels as f32 * LEVEL_PT, boxes: self.boxes }
    }
}

/// What text stands on a box in.
const fn text_ink(ground: Ink) -> Ink {
    match ground {
        Ink::Shared => Ink::Text,
        _ => Ink::OnBlock,
    }
}
