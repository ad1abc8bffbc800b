//! Who holds the memory, as a flame graph: at the cursor, at the peak, over the window, between two marks.
//!
//! Always: trees, colours and matches come from jobs; a frame lays out the boxes one can see. The value in the header
//! is the root of the tree that is drawn, to the byte, and its heading names the moment of that very tree.

use crate::analysis::{
    FlameDirection, FlameLabel, FlameMatches, FlameNodeId, FlameOf, FlameParams, FlameTree, FoundKey, LiveCounter, UsageTimeline,
    WindowSum,
};
use crate::base::grouped;
use crate::chart::flame as chart;
use crate::chart::flame_words::{describe, empty_sentence, exact_value, heading, node_name, share_text, value_text};
use crate::chart::{FlameColour, FlameDrawing, FlameHit, FlameInks, FlameInput, FlameShape};
use crate::model::{DeviceMemory, Item, StackId, StackTable};
use crate::paint;
use crate::session::lookups::{FlameFound, FlameInksOf, FlameSearch};
use crate::session::{Answer, Command, NoSet};
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::copyable;
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas, zoomed};
use crate::ui::widgets::icon::{Icon, icon_button};
use crate::ui::widgets::set_chooser::set_chooser;
use egui::{ComboBox, Label, Rect, RichText, ScrollArea, TextEdit, Ui, UiBuilder, vec2};
use std::ops::Range;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "flame",
    title: "Flame",
    help: "Memory by stack, each frame as wide as what it holds: at the cursor, at the peak, over the window or between two \
           marks. Click shows a frame alone and selects its stack, ctrl and wheel widens, double click shows everything.",
    open: || Box::new(Flame::default()),
};

/// What is counted when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum When {
    #[default]
    Cursor,
    Peak,
    Window,
    Marks,
    /// The set of blocks that the allocations view shows too.
    Set,
}

impl When {
    const ALL: [When; 5] = [When::Cursor, When::Peak, When::Window, When::Marks, When::Set];

    const fn name(self) -> &'static str {
        match self {
            When::Cursor => "at the cursor",
            When::Peak => "at the peak",
            When::Window => "over the window",
            When::Marks => "between marks",
            When::Set => "a set of blocks",
        }
    }
}

/// What the tree counts, or why there is none.
enum Wanted {
    Of(FlameOf),
    NotYet,
    Nothing(&'static str),
}

#[derive(Clone)]
struct Flame {
    when: When,
    counter: LiveCounter,
    sum: WindowSum,
    /// The number of the last set that was asked to be shown here.
    shown_set: u64,
    /// Which two of the marks are compared, from and to.
    marks: (usize, usize),
    shape: FlameShape,
    direction: FlameDirection,
    fold_framework: bool,
    text: String,
    /// The frames from the root to the focus. It comes back when a tree has them again.
    focus: Vec<FlameLabel>,
    /// Which part of the focus' width one sees.
    visible: Range<f64>,
    /// What the pointer was on in the last frame.
    hovered: Option<FlameNodeId>,
    /// Height of everything in the last frame.
    content_height_pt: f32,
}

impl Default for Flame {
    fn default() -> Self {
        Flame {
            when: When::default(),
            counter: LiveCounter::default(),
            sum: WindowSum::default(),
            shown_set: 0,
            marks: (0, 1),
            shape: FlameShape::default(),
            direction: FlameDirection::default(),
            fold_framework: false,
            text: String::new(),
            focus: Vec::new(),
            visible: 0.0..1.0,
            hovered: None,
            content_height_pt: 0.0,
        }
    }
}

impl View for Flame {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if let Some((number, "flame")) = cx.session.shown_set().filter(|(number, _)| self.shown_set < *number) {
            (self.shown_set, self.when) = (number, When::Set);
        }
        self.controls(ui, cx);
        let of = match self.wanted(cx, memory) {
            Wanted::Of(of) => of,
            Wanted::NotYet => return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50)),
            Wanted::Nothing(sentence) => return cx.empty(ui, sentence),
        };
        let params = FlameParams { of, direction: self.direction, fold_framework: self.fold_framework };
        let Answer::Ready(inks) = cx.ask::<FlameInksOf>(FlameColour::Stack) else { return };
        let text = self.text.trim().to_owned();
        let stacks = &document.snapshot.stacks;
        if !text.is_empty() {
            let searched = cx.ask::<FlameSearch>((params, text));
            if searched.value().is_some() {
                return cx.show(ui, &searched, |ui, found| {
                    self.show(
                        ui,
                        cx,
                        &Shown {
                            memory,
                            tree: &found.tree,
                            stacks,
                            inks: &inks.inks,
                            matches: Some(&found.matches),
                            of_all_views: false,
                        },
                    );
                });
            }
        }
        // Without a search of its own it shows what the search of all views found.
        if self.text.trim().is_empty()
            && let Some(found) = cx.session.found()
        {
            let searched = cx.ask::<FlameFound>((params, FoundKey(found)));
            if searched.value().is_some() {
                return cx.show(ui, &searched, |ui, found| {
                    let matches = Some(&found.matches);
                    self.show(
                        ui,
                        cx,
                        &Shown { memory, tree: &found.tree, stacks, inks: &inks.inks, matches, of_all_views: true },
                    );
                });
            }
        }
        let tree = cx.ask::<FlameTree>(params);
        cx.show(ui, &tree, |ui, tree| {
            self.show(ui, cx, &Shown { memory, tree, stacks, inks: &inks.inks, matches: None, of_all_views: false })
        });
    }
}

/// What one frame shows.
struct Shown<'a> {
    memory: &'a DeviceMemory,
    tree: &'a FlameTree,
    stacks: &'a StackTable,
    inks: &'a FlameInks,
    matches: Option<&'a FlameMatches>,
    /// The matches are what the search of all views found, not what was typed here.
    of_all_views: bool,
}

impl Flame {
    fn wanted(&self, cx: &Cx<'_>, memory: &DeviceMemory) -> Wanted {
        let counter = self.counter;
        match self.when {
            When::Cursor => Wanted::Of(FlameOf::Live { at: cx.cursor(), counter }),
            When::Peak => match cx.ask::<UsageTimeline>(()).value() {
                Some(usage) => Wanted::Of(FlameOf::Live { at: usage.allocated.peak().0, counter }),
                None => Wanted::NotYet,
            },
            When::Window if !memory.has_history() => {
                Wanted::Nothing("This device has no history: nothing was recorded on it, so there is no window to add up.")
            }
            When::Window => match cx.session.clock() {
                Some(clock) => {
                    let window = cx.session.window(&clock.clock);
                    let (from, to) = (clock.clock.position(window.start), clock.clock.position(window.end));
                    Wanted::Of(FlameOf::Window { from, to, sum: self.sum })
                }
                None => Wanted::NotYet,
            },
            When::Set => match cx.session.which() {
                Ok(which) => Wanted::Of(FlameOf::Set(which)),
                Err(NoSet::NotYet) => Wanted::NotYet,
                Err(NoSet::Choose(sentence)) => Wanted::Nothing(sentence),
            },
            When::Marks => {
                let marks = cx.place().map_or(&[][..], |place| &place.marks);
                match (marks.get(self.marks.0), marks.get(self.marks.1)) {
                    (Some(from), Some(to)) => Wanted::Of(FlameOf::Difference { from: *from, to: *to, counter }),
                    _ => Wanted::Nothing(
                        "Two marks are compared, and they are not set yet. Put the cursor at a moment and press M, then at another.",
                    ),
                }
            }
        }
    }

    fn controls(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(UNIT);
            let marks = cx.place().map_or(0, |place| place.marks.len()).min(26);
            choice(ui, "Show", When::ALL.map(|when| (when, when.name())), &mut self.when);
            match self.when {
                When::Window => {
                    let sums = [
                        (WindowSum::Allocated, "bytes allocated"),
                        (WindowSum::ByteEvents, "bytes × events in use"),
                        (WindowSum::Count, "allocations"),
                    ];
                    choice(ui, "Count", sums, &mut self.sum);
                }
                When::Set => set_chooser(ui, cx),
                When::Cursor | When::Peak | When::Marks => {
                    choice(ui, "Count", LiveCounter::ALL.map(|counter| (counter, counter.name())), &mut self.counter);
                }
            }
            if self.when == When::Marks && 2 <= marks {
                let letters = |n: usize| ('A'..='Z').nth(n).map(String::from).unwrap_or_default();
                let names: Vec<String> = (0..marks).map(letters).collect();
                let named = || names.iter().enumerate().map(|(n, name)| (n, name.as_str()));
                choice(ui, "from", named(), &mut self.marks.0);
                choice(ui, "to", named(), &mut self.marks.1);
            }
            ui.separator();
            for (shape, name, help) in [
                (FlameShape::Icicle, "Icicle", "The root is at the top and the graph hangs down"),
                (FlameShape::Flame, "Rising", "The root is at the bottom and the graph rises"),
            ] {
                if ui.selectable_label(self.shape == shape, name).on_hover_text(help).clicked() {
                    self.shape = shape;
                }
            }
            ui.separator();
            for (direction, name, help) in [
                (FlameDirection::TopDown, "Top-down", "The outermost frame is next to the root: who calls whom"),
                (FlameDirection::BottomUp, "Bottom-up", "The innermost frame is next to the root: who is called by whom"),
            ] {
                if ui.selectable_label(self.direction == direction, name).on_hover_text(help).clicked() {
                    self.direction = direction;
                    self.focus_on(Vec::new());
                }
            }
            ui.separator();
            ui.checkbox(&mut self.fold_framework, "Fold framework")
                .on_hover_text("Leaves out frames of PyTorch, Python and the system");
            let label = ui.label("Find");
            let field = TextEdit::singleline(&mut self.text)
                .hint_text("function or file")
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(30.0 * UNIT);
            ui.add(field).labelled_by(label.id);
            if !self.text.is_empty() && icon_button(ui, Icon::Close, "End the search", false).clicked() {
                self.text.clear();
            }
        });
    }

    fn focus_on(&mut self, focus: Vec<FlameLabel>) {
        if self.focus != focus {
            (self.focus, self.visible) = (focus, 0.0..1.0);
        }
    }

    fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let (tree, memory) = (shown.tree, shown.memory);
        header(ui, cx, shown, memory);
        if tree.is_empty() {
            return cx.empty(ui, &empty_sentence(tree.params.of));
        }
        if tree.root().children == 1 && tree.children(FlameNodeId::ROOT).all(|id| tree.nodes[id].label == FlameLabel::NoStack) {
            return cx.empty(
                ui,
                "None of these blocks has a stack: recording ran without stacks (context=None), or only backward threads, which \
                 have no Python stack, allocated them. Recording with stacks=\"all\" keeps the C++ frames.",
            );
        }
        let focus = node_of(tree, &self.focus);
        self.breadcrumb(ui, cx, shown, focus);
        self.scroll(ui, cx, shown, focus);
    }

    /// The way back from the focus to the root.
    fn breadcrumb(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, focus: FlameNodeId) {
        /// Names at the end of a long way that are spelled out.
        const LAST: usize = 4;
        if focus == FlameNodeId::ROOT {
            return;
        }
        let tree = shown.tree;
        let path = tree.path(focus);
        ui.horizontal_wrapped(|ui| {
            ui.add_space(UNIT);
            ui.spacing_mut().item_spacing.x = UNIT;
            let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
            for (depth, node) in path.iter().enumerate() {
                if 0 < depth && depth + LAST < path.len() {
                    if depth == 1 {
                        ui.label(weak("› …"));
                    }
                    continue;
                }
                if 0 < depth {
                    ui.label(weak("›"));
                }
                let name: String = node_name(shown.stacks, tree.nodes[*node].label).chars().take(48).collect();
                if *node == focus {
                    ui.add(Label::new(name).selectable(false));
                } else if ui.link(name).on_hover_text("Shows this frame with all it holds").clicked() {
                    let way = labels(tree, *node);
                    self.focus_on(way);
                }
            }
            let row = &tree.nodes[focus];
            let share = if tree.params.of.is_difference() { String::new() } else { share_text(row.weight, tree.root().weight) };
            let share = if share.is_empty() { share } else { format!(", {share} of all") };
            ui.label(weak(&format!("·  {}{share}", exact_value(tree.params.of, row.value))));
        });
    }

    fn scroll(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, focus: FlameNodeId) {
        let size = ui.available_size();
        let rising = self.shape == FlameShape::Flame;
        let area = ScrollArea::vertical().id_salt(("flame", rising)).auto_shrink(false).stick_to_bottom(rising);
        area.show_viewport(ui, |ui, viewport| {
            let height = self.content_height_pt.max(size.y);
            ui.set_height(height);
            let top = viewport.min.y.max(0.0);
            let input = FlameInput {
                shape: self.shape,
                focus,
                visible: self.visible.clone(),
                scroll_pt: if rising { (height - top - size.y).max(0.0) } else { top },
                matches: shown.matches,
                selected_stack: selected_stack(cx),
                hovered: self.hovered,
                ..FlameInput::whole(shown.tree, shown.stacks, shown.inks, ui.available_width().min(size.x), size.y)
            };
            let began = std::time::Instant::now();
            let drawn = chart::draw(&input);
            crate::ui::frame_times::note("flame, laying out", began.elapsed());
            if self.content_height_pt != drawn.content_height_pt {
                self.content_height_pt = drawn.content_height_pt;
                ui.ctx().request_repaint();
            }
            let at = ui.min_rect().min + vec2(0.0, top);
            let room = vec2(input.width_pt, size.y);
            let mut here = ui.new_child(UiBuilder::new().max_rect(Rect::from_min_size(at, room)));
            let canvas = canvas(&mut here, "flame graph", room);
            paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawn.drawing, cx.tokens.palette, &|_| None);
            self.act(ui, cx, &canvas, shown, &drawn);
        });
    }

    fn act(&mut self, ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, shown: &Shown<'_>, drawn: &FlameDrawing) {
        let tree = shown.tree;
        let hit = canvas.pointer.and_then(|at| drawn.pick(at[0], at[1]));
        let hovered = match hit {
            Some(FlameHit::Node(node)) => Some(node),
            Some(FlameHit::Rest { .. }) | None => None,
        };
        if self.hovered != hovered {
            self.hovered = hovered;
            ui.ctx().request_repaint();
        }
        if let Some(stack) = hovered.and_then(|node| tree.nodes[node].its_stack()) {
            cx.session.set_hovered(Item::Stack(stack));
        }
        let width = f64::from(canvas.rect.width().max(1.0));
        let share = |x: f32| f64::from(x) / width * (self.visible.end - self.visible.start);
        let panned = |dx: f32| limited(self.visible.start - share(dx)..self.visible.end - share(dx));
        for gesture in &canvas.gestures {
            match *gesture {
                Gesture::Click(at) => match drawn.pick(at[0], at[1]) {
                    Some(FlameHit::Node(node)) => {
                        let way = labels(tree, node);
                        if let Some(stack) = tree.nodes[node].its_stack() {
                            cx.send(Command::Select(Item::Stack(stack)));
                        }
                        return self.focus_on(way);
                    }
                    Some(FlameHit::Rest { first, .. }) => return self.focus_on(labels(tree, tree.nodes[first].parent)),
                    None => {}
                },
                Gesture::DoubleClick(_) => {
                    self.visible = 0.0..1.0;
                    return self.focus_on(Vec::new());
                }
                Gesture::ZoomBytes { at, factor } => {
                    self.visible = limited(zoomed(&self.visible, self.visible.start + share(at[0]), factor));
                    return;
                }
                Gesture::Pan([dx, _]) | Gesture::Drag { by: [dx, _], .. } => {
                    self.visible = panned(dx);
                    return;
                }
                Gesture::Zoom { .. } | Gesture::Range(..) | Gesture::RangeDone | Gesture::Measure(..) => {}
            }
        }
        if let Some(hit) = hit {
            canvas.response.clone().on_hover_ui_at_pointer(|ui| tooltip(ui, cx, shown, hit));
        }
    }
}

/// What all of it comes to, of what, and what the search found.
fn header(ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, memory: &DeviceMemory) {
    let (of, root) = (shown.tree.params.of, shown.tree.root());
    ui.horizontal_wrapped(|ui| {
        ui.add_space(UNIT);
        ui.spacing_mut().item_spacing.x = UNIT;
        copyable(ui, RichText::new(exact_value(of, root.value)), "", &root.value.to_string());
        let told = match of {
            FlameOf::Live { counter, .. } if !memory.has_history() => format!("{} by stack at the dump", counter.name()),
            _ => heading(of),
        };
        ui.label(RichText::new(told).color(cx.tokens.weak));
        let Some(found) = shown.matches else { return };
        ui.label(RichText::new("·").color(cx.tokens.weak));
        if found.hits == 0 {
            ui.label(if shown.of_all_views { "nothing of what was found" } else { "no frame matches" });
            return;
        }
        let frames = match (found.hits, shown.of_all_views) {
            (1, true) => "found at 1 stack".to_owned(),
            (hits, true) => format!("found at {} stacks", grouped(hits.into())),
            (1, false) => "1 box matches".to_owned(),
            (hits, false) => format!("{} boxes match", grouped(hits.into())),
        };
        let share = if of.is_difference() { String::new() } else { format!(", {}", share_text(found.weight, root.weight)) };
        let sum = format!("{frames}, together {}{share}", exact_value(of, found.value));
        copyable(ui, RichText::new(sum).color(cx.tokens.accent), "", &found.value.to_string());
    });
}

fn tooltip(ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, hit: FlameHit) {
    let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
    match hit {
        FlameHit::Node(node) => {
            let lines = describe(shown.tree, shown.stacks, node);
            for (n, line) in lines.iter().enumerate() {
                match n {
                    0 => drop(ui.strong(line)),
                    _ => drop(ui.label(line)),
                }
            }
            ui.label(weak("Click shows it alone"));
        }
        FlameHit::Rest { first, count } => {
            let nodes = (first.0..first.0.saturating_add(count)).map_while(|id| shown.tree.nodes.get(FlameNodeId(id)));
            let value = nodes.map(|node| node.value).sum::<i128>();
            ui.strong(format!("{} frames too narrow to be seen apart", grouped(count.into())));
            ui.label(format!("{} together", value_text(shown.tree.params.of, value)));
            ui.label(weak("Ctrl and wheel widens"));
        }
    }
}

/// A labelled choice of one among several.
fn choice<'a, T: Copy + PartialEq>(ui: &mut Ui, name: &str, all: impl IntoIterator<Item = (T, &'a str)>, chosen: &mut T) {
    let all: Vec<(T, &str)> = all.into_iter().collect();
    let now = all.iter().find(|(value, _)| value == chosen).map_or("", |(_, name)| *name);
    let label = ui.label(name);
    let combo = ComboBox::from_id_salt(name).selected_text(now).width(0.0).show_ui(ui, |ui| {
        for (value, name) in &all {
            ui.selectable_value(chosen, *value, *name);
        }
    });
    combo.response.labelled_by(label.id);
}

/// The frames from the root to a node.
fn labels(tree: &FlameTree, node: FlameNodeId) -> Vec<FlameLabel> {
    tree.path(node).into_iter().skip(1).map(|above| tree.nodes[above].label).collect()
}

/// The node under these frames, or the nearest above it that is there.
fn node_of(tree: &FlameTree, way: &[FlameLabel]) -> FlameNodeId {
    let mut found = FlameNodeId::ROOT;
    for label in way {
        match tree.children(found).find(|child| tree.nodes[*child].label == *label) {
            Some(child) => found = child,
            None => break,
        }
    }
    found
}

/// The stack that is selected, itself or through one of its blocks.
fn selected_stack(cx: &Cx<'_>) -> Option<StackId> {
    match cx.selected()? {
        Item::Stack(stack) => Some(stack),
        Item::Allocation(id) => cx.session.front()?.2.allocations.stacks().get(id.0 as usize).copied(),
        Item::Segment(_) | Item::Gap { .. } | Item::Event(_) => None,
    }
}

/// A part of a width that lies inside it.
fn limited(part: Range<f64>) -> Range<f64> {
    let length = (part.end - part.start).clamp(1e-6, 1.0);
    let start = part.start.clamp(0.0, 1.0 - length);
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visible_part_stays_inside_the_focus() {
        for (part, inside) in [
            (0.0..1.0, 0.0..1.0),
            (-1.0..2.0, 0.0..1.0),
            (-0.25..0.25, 0.0..0.5),
            (0.75..1.25, 0.5..1.0),
            (0.25..0.25, 0.25..0.25 + 1e-6),
        ] {
            assert_eq!(limited(part.clone()), inside, "{part:?}");
        }
    }
}
