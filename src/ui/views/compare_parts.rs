//! What the comparison shows below its curves: tables of stacks and sizes, what moved as a flame graph, the states.

use crate::analysis::diff_words::{signed, signed_count};
use crate::analysis::{ClassDiff, DiffRow, DiffSide, FlameLabel, FlameNodeId, FlameTree, SnapshotDiff};
use crate::base::{Bytes, counted, grouped};
use crate::chart::Unit;
use crate::chart::block_words::{no_stack, telling_line};
use crate::chart::flame::{self, FlameHit, FlameInput};
use crate::chart::flame_words::{describe, exact_value};
use crate::chart::paired_bars::{self, PairedBarsInput};
use crate::chart::text::own_frames;
use crate::model::{DeviceId, Item, StackId};
use crate::paint;
use crate::report::diff_model::{DiffModel, PoolInfo, class_name, difference};
use crate::session::comparison::Comparison;
use crate::session::{Command, DocumentId};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::Cx;
use crate::ui::widgets::canvas::{Gesture, canvas};
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, copy_buttons, lines};
use egui::{Align, Grid, Label, Layout, Rect, RichText, ScrollArea, TextEdit, Ui, UiBuilder, vec2};
use std::cmp::Reverse;
use std::sync::Arc;

/// What is shown in one frame.
pub(super) struct Shown<'a> {
    pub(super) comparison: &'a Arc<Comparison>,
    /// Document and device of A and of B.
    pub(super) sides: [(DocumentId, DeviceId); 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Page {
    #[default]
    Stacks,
    Sizes,
    Flame,
    States,
    Bars,
    /// The curves, where they have no place of their own.
    Curves,
}

impl Page {
    const ALL: [(Page, &'static str); 6] = [
        (Page::Curves, "Over time"),
        (Page::Stacks, "By stack"),
        (Page::Sizes, "By stack and size"),
        (Page::Flame, "Flame"),
        (Page::States, "States and settings"),
        (Page::Bars, "Gaps and segments"),
    ];
}

/// What the order of the rows follows from.
type OrderKey = (Page, Option<DiffSide>, String, TableSort);

/// The pages below the curves.
#[derive(Clone)]
pub(super) struct Pages {
    page: Page,
    /// Whether frames of the framework are folded in the flame graph.
    pub(super) fold: bool,
    side: Option<DiffSide>,
    text: String,
    table: Table,
    sort: TableSort,
    order: Option<(Arc<Comparison>, OrderKey, Arc<Vec<usize>>)>,
    focus: Vec<FlameLabel>,
    hovered: Option<FlameNodeId>,
    content_height_pt: f32,
}

impl Default for Pages {
    fn default() -> Self {
        Pages {
            page: Page::default(),
            fold: true,
            side: None,
            text: String::new(),
            table: Table::default(),
            sort: TableSort { column: 0, descending: true },
            order: None,
            focus: Vec::new(),
            hovered: None,
            content_height_pt: 0.0,
        }
    }
}

const fn column(title: &'static str, help: &'static str, width: f32, number: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts: true }
}

const COLUMNS: [TableColumn; 8] = [
    column("B − A", "How many bytes more B has allocated. A click on the head orders by how much it moved.", 92.0, true),
    column("In A", "Allocated in A.", 84.0, true),
    column("In B", "Allocated in B.", 84.0, true),
    column("Blocks", "How many blocks more B has.", 64.0, true),
    column("A", "Number of blocks in A.", 56.0, true),
    column("B", "Number of blocks in B.", 56.0, true),
    column("Size", "Size of the blocks; empty where blocks of all sizes are one row.", 80.0, true),
    column("Stack", "The frame that names the stack, and who called it.", 0.0, false),
];

/// The page of stacks has no sizes.
const STACK_COLUMNS: [TableColumn; 7] = [COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3], COLUMNS[4], COLUMNS[5], COLUMNS[7]];

impl Pages {
    pub(super) fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        match self.page {
            // A tile that grew shows the curves above, and below them the rows.
            Page::Stacks | Page::Sizes | Page::Curves => self.rows(ui, cx, shown),
            Page::Flame => self.flame(ui, cx, shown),
            Page::States => states(ui, cx, &shown.comparison.diff),
            Page::Bars => bars(ui, cx, &shown.comparison.diff),
        }
    }

    /// The pages to choose from, and what belongs to the one that is shown; whether that is the curves.
    pub(super) fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, with_curves: bool) -> bool {
        if self.page == Page::Curves && !with_curves {
            self.page = Page::Stacks;
        }
        ui.horizontal_wrapped(|ui| {
            ui.add_space(2.0 * UNIT);
            for (page, name) in Page::ALL.into_iter().filter(|(page, _)| with_curves || *page != Page::Curves) {
                if ui.selectable_label(self.page == page, name).clicked() {
                    (self.page, self.table) = (page, Table::default());
                }
            }
            if matches!(self.page, Page::Stacks | Page::Sizes | Page::Flame) {
                ui.separator();
            }
            match self.page {
                Page::Stacks | Page::Sizes => self.filters(ui, cx, shown),
                Page::Flame => {
                    ui.checkbox(&mut self.fold, "Fold framework")
                        .on_hover_text("Leaves out frames of PyTorch, Python and the system");
                    let tree = &shown.comparison.flame;
                    let total = exact_value(tree.params.of, tree.root().value);
                    ui.label(RichText::new(format!("{total}, orange grew, blue shrank")).color(cx.tokens.weak));
                    if !self.focus.is_empty() && ui.button("Show all").clicked() {
                        self.focus.clear();
                    }
                }
                Page::States | Page::Bars | Page::Curves => {}
            }
        });
        self.page == Page::Curves
    }

    fn filters(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let diff = &shown.comparison.diff;
        let rows = rows_of(diff, self.page);
        let before = (self.side, self.text.clone());
        ui.selectable_value(&mut self.side, None, format!("all {}", grouped(rows.len() as u64)));
        for side in DiffSide::ALL {
            let number = rows.iter().filter(|row| row.side() == side).count() as u64;
            ui.selectable_value(&mut self.side, Some(side), format!("{} {}", side.name(), grouped(number)));
        }
        let label = ui.label("Find");
        let field = TextEdit::singleline(&mut self.text)
            .hint_text("function or file")
            .align(egui::Align2::LEFT_CENTER)
            .desired_width(30.0 * UNIT);
        ui.add(field).labelled_by(label.id);
        if before != (self.side, self.text.clone()) {
            self.table = Table::default();
        }
        let order = self.order(shown);
        let sum: i128 = order.iter().map(|row| rows[*row].delta()).sum();
        let sum = format!("{}, {}", counted(order.len() as u64, "row"), signed(sum));
        ui.add(Label::new(RichText::new(sum).color(cx.tokens.weak)).extend());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add_space(UNIT);
            copy_buttons(ui, "Copies the rows shown, exact", |csv| copied(diff, rows, &order, csv));
        });
    }

    /// The rows that are shown, in their order.
    fn order(&mut self, shown: &Shown<'_>) -> Arc<Vec<usize>> {
        let key: OrderKey = (self.page, self.side, self.text.trim().to_lowercase(), self.sort);
        if let Some((of, known, order)) = &self.order
            && Arc::ptr_eq(of, shown.comparison)
            && *known == key
        {
            return Arc::clone(order);
        }
        let diff = &shown.comparison.diff;
        let rows = rows_of(diff, self.page);
        let mut order: Vec<usize> = (0..rows.len())
            .filter(|row| self.side.is_none_or(|side| rows[*row].side() == side))
            .filter(|row| key.2.is_empty() || reads(diff, rows[*row].stack, &key.2))
            .collect();
        let number = |row: usize| {
            let row = &rows[row];
            match self.sort.column {
                1 => i128::from(row.a.bytes),
                2 => i128::from(row.b.bytes),
                3 => i128::from(row.count_delta()),
                4 => i128::from(row.a.count),
                5 => i128::from(row.b.count),
                _ => row.size.map_or(0, i128::from),
            }
        };
        let by_name = self.sort.column + 1 == columns(self.page).len();
        match (self.sort.column, self.sort.descending) {
            // As the comparison has them: by how much they differ.
            (0, true) => {}
            (0, false) => order.sort_by_key(|row| rows[*row].delta()),
            (_, true) if by_name => order.sort_by_cached_key(|row| Reverse(stack_name(diff, rows[*row].stack))),
            (_, false) if by_name => order.sort_by_cached_key(|row| stack_name(diff, rows[*row].stack)),
            (_, true) => order.sort_by_key(|row| Reverse(number(*row))),
            (_, false) => order.sort_by_key(|row| number(*row)),
        }
        let order = Arc::new(order);
        self.order = Some((Arc::clone(shown.comparison), key, Arc::clone(&order)));
        order
    }

    fn rows(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let diff = &shown.comparison.diff;
        let rows = rows_of(diff, self.page);
        let order = self.order(shown);
        if rows.is_empty() {
            return cx.empty(ui, "Nothing differs: every stack holds the same bytes in as many blocks on both sides.");
        }
        if order.is_empty() {
            return cx.empty(ui, "No row has this in its frames. Clear the text or show all sides.");
        }
        let selected = selected(cx, shown);
        let with_size = self.page == Page::Sizes;
        let content = TableContent { name: "differences", columns: columns(self.page), sort: self.sort, rows: order.len() };
        let touch = self.table.show(ui, cx, &content, |place| {
            let row = &rows[order[place]];
            let mut cells = vec![
                TableCell { text: signed(row.delta()), exact: exact(row.delta()), weak: false },
                TableCell::bytes(row.a.bytes).weak(),
                TableCell::bytes(row.b.bytes).weak(),
                TableCell::number(signed_count(row.count_delta())),
                TableCell::number(grouped(row.a.count)).weak(),
                TableCell::number(grouped(row.b.count)).weak(),
            ];
            if with_size {
                cells.push(row.size.map_or_else(TableCell::default, TableCell::bytes));
            }
            let name = stack_name(diff, row.stack);
            cells.push(TableCell::text(&name));
            TableRow { name, cells, selected: selected == Some(row.stack), ..TableRow::default() }
        });
        if let Some(sorted) = touch.sorted {
            (self.sort, self.table) = (sorted, Table::default());
        }
        if let Some(row) = touch.hovered.and_then(|place| order.get(place)) {
            let stack = diff.places.get(rows[*row].stack.0 as usize).and_then(|places| places[1]);
            stack.into_iter().for_each(|stack| cx.session.set_hovered(Item::Stack(stack)));
        }
        if let Some(row) = touch.clicked.and_then(|place| order.get(place)) {
            select(cx, shown, rows[*row].stack);
        }
    }

    fn flame(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let Comparison { diff, flame: tree, inks } = &**shown.comparison;
        if tree.is_empty() {
            return cx.empty(ui, "Nothing moved: every stack holds the same bytes on both sides.");
        }
        let size = ui.available_size();
        ScrollArea::vertical().id_salt("compare flame").auto_shrink(false).show_viewport(ui, |ui, viewport| {
            let height = self.content_height_pt.max(size.y);
            ui.set_height(height);
            let top = viewport.min.y.max(0.0);
            let input = FlameInput {
                focus: node_of(tree, &self.focus),
                scroll_pt: top,
                selected_stack: selected(cx, shown),
                hovered: self.hovered,
                ..FlameInput::whole(tree, &diff.stacks, inks, ui.available_width().min(size.x), size.y)
            };
            let drawn = flame::draw(&input);
            if self.content_height_pt != drawn.content_height_pt {
                self.content_height_pt = drawn.content_height_pt;
                ui.ctx().request_repaint();
            }
            let room = vec2(input.width_pt, size.y);
            let place = Rect::from_min_size(ui.min_rect().min + vec2(0.0, top), room);
            let mut here = ui.new_child(UiBuilder::new().max_rect(place));
            let canvas = canvas(&mut here, "difference flame graph", room);
            paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawn.drawing, cx.tokens.palette, &|_| None);
            let hit = canvas.pointer.and_then(|at| drawn.pick(at[0], at[1]));
            self.hovered = match hit {
                Some(FlameHit::Node(node)) => Some(node),
                Some(FlameHit::Rest { .. }) | None => None,
            };
            for gesture in &canvas.gestures {
                match *gesture {
                    Gesture::Click(at) => match drawn.pick(at[0], at[1]) {
                        Some(FlameHit::Node(node)) => {
                            self.focus = labels(tree, node);
                            if let Some(stack) = tree.nodes[node].its_stack() {
                                select(cx, shown, stack);
                            }
                        }
                        Some(FlameHit::Rest { first, .. }) => self.focus = labels(tree, tree.nodes[first].parent),
                        None => {}
                    },
                    Gesture::DoubleClick(_) => self.focus.clear(),
                    _ => {}
                }
            }
            if let Some(node) = self.hovered {
                canvas.response.on_hover_ui_at_pointer(|ui| {
                    for line in describe(tree, &diff.stacks, node) {
                        ui.label(line);
                    }
                });
            }
        });
    }
}

fn rows_of(diff: &SnapshotDiff, page: Page) -> &[DiffRow] {
    if page == Page::Sizes { &diff.by_size } else { &diff.by_stack }
}

const fn columns(page: Page) -> &'static [TableColumn] {
    match page {
        Page::Sizes => &COLUMNS,
        _ => &STACK_COLUMNS,
    }
}

fn exact(bytes: i128) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{} bytes", grouped(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
}

/// The frame that names a stack, and up to two of the user's frames that called it.
fn stack_name(diff: &SnapshotDiff, stack: StackId) -> String {
    let stacks = &diff.stacks;
    let Some(name) = telling_line(stacks, stack) else { return no_stack(stack).to_owned() };
    let callers = own_frames(stacks, stack, 4).into_iter().map(|frame| {
        let file = crate::chart::text::file_name(stacks.file(frame));
        format!("{}  {file}:{}", stacks.function(frame), stacks.frame(frame).line)
    });
    let callers: Vec<String> = callers.filter(|caller| *caller != name).take(2).collect();
    [vec![name], callers].concat().join("  ‹ ")
}

fn reads(diff: &SnapshotDiff, stack: StackId, text: &str) -> bool {
    let stacks = &diff.stacks;
    stacks.frames(stack).iter().any(|frame| stacks.line(*frame).to_lowercase().contains(text))
}

fn copied(diff: &SnapshotDiff, rows: &[DiffRow], order: &[usize], csv: bool) -> String {
    let head = ["delta_bytes", "bytes_a", "bytes_b", "delta_count", "count_a", "count_b", "size", "side", "stack"];
    let rows = order.iter().map(|row| {
        let row = &rows[*row];
        let frames: Vec<String> = diff.stacks.frames(row.stack).iter().map(|frame| diff.stacks.line(*frame)).collect();
        vec![
            row.delta().to_string(),
            row.a.bytes.to_string(),
            row.b.bytes.to_string(),
            row.count_delta().to_string(),
            row.a.count.to_string(),
            row.b.count.to_string(),
            row.size.map_or(String::new(), |size| size.to_string()),
            row.side().name().to_owned(),
            frames.join(" < "),
        ]
    });
    lines(&head, rows, csv)
}

/// Selects a stack on both sides, where each has it.
fn select(cx: &Cx<'_>, shown: &Shown<'_>, stack: StackId) {
    let Some(places) = shown.comparison.diff.places.get(stack.0 as usize) else { return };
    for ((document, device), stack) in shown.sides.into_iter().zip(places) {
        if let Some(stack) = stack {
            cx.send(Command::SelectIn(document, device, Item::Stack(*stack)));
        }
    }
}

/// The stack that is selected on either side.
fn selected(cx: &Cx<'_>, shown: &Shown<'_>) -> Option<StackId> {
    let mut found = (0..2).rev().filter_map(|side| {
        let place = cx.session.workspace().places.get(&shown.sides[side])?;
        let Some(Item::Stack(stack)) = place.selected() else { return None };
        shown.comparison.diff.stack_of(side, stack)
    });
    found.next()
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

/// Every figure of the states, pools, and settings that differ.
fn states(ui: &mut Ui, cx: &Cx<'_>, diff: &SnapshotDiff) {
    ScrollArea::both().id_salt("compare states").auto_shrink(false).show(ui, |ui| {
        ui.add_space(UNIT);
        ui.horizontal_top(|ui| {
            ui.add_space(2.0 * UNIT);
            let right = |ui: &mut Ui, text: RichText| {
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(text));
            };
            let grid = |name| Grid::new(name).spacing(vec2(6.0 * UNIT, 0.0)).min_row_height(ROW).min_col_width(18.0 * UNIT);
            let head = |ui: &mut Ui, titles: &[&str]| {
                for (place, title) in titles.iter().enumerate() {
                    let text = RichText::new(*title).small().color(cx.tokens.weak);
                    if place == 0 { drop(ui.label(text)) } else { right(ui, text) }
                }
                ui.end_row();
            };
            ui.vertical(|ui| {
                grid("compared states").show(ui, |ui| {
                    head(ui, &["Counter", "A", "B", "B − A"]);
                    for [name, a, b, more] in DiffModel::figure_rows(diff) {
                        ui.label(name);
                        [a, b, more].into_iter().for_each(|text| right(ui, text.into()));
                        ui.end_row();
                    }
                });
            });
            ui.add_space(8.0 * UNIT);
            ui.vertical(|ui| {
                grid("compared pools").show(ui, |ui| {
                    head(ui, &["Pool", "Reserved in A", "In B", "B − A", "Largest free in A", "In B"]);
                    for pool in diff.pools.iter().map(PoolInfo::of) {
                        ui.label(pool.name());
                        let [a, b] = [pool.a, pool.b].map(Option::unwrap_or_default);
                        let size = |bytes: u64| Bytes(bytes).to_string();
                        let more = difference(a.reserved, b.reserved, true);
                        let (free_a, free_b) = (a.largest_free_block, b.largest_free_block);
                        [size(a.reserved), size(b.reserved), more, size(free_a), size(free_b)]
                            .into_iter()
                            .for_each(|text| right(ui, text.into()));
                        ui.end_row();
                    }
                });
                ui.add_space(3.0 * UNIT);
                if diff.settings.is_empty() {
                    ui.label(
                        RichText::new("The allocator's settings are the same, as far as the files tell.").color(cx.tokens.weak),
                    );
                    return;
                }
                Grid::new("compared settings").spacing(vec2(6.0 * UNIT, 0.0)).min_row_height(ROW).show(ui, |ui| {
                    for title in ["Setting", "A", "B"] {
                        ui.label(RichText::new(title).small().color(cx.tokens.weak));
                    }
                    ui.end_row();
                    for row in &diff.settings {
                        [&row.name, &row.a, &row.b].into_iter().for_each(|text| drop(ui.label(text)));
                        ui.end_row();
                    }
                });
            });
        });
    });
}

/// Gaps and segments by size, A and B side by side.
fn bars(ui: &mut Ui, cx: &Cx<'_>, diff: &SnapshotDiff) {
    if diff.segments.is_empty() {
        return cx.empty(ui, "Neither side has a segment at its moment, so nothing is cut up.");
    }
    let size = vec2((ui.available_width() / 2.0 - 2.0 * UNIT).max(1.0), ui.available_height().max(1.0));
    ui.horizontal_top(|ui| {
        for (name, title, what, rows) in [
            ("gaps compared", "bytes in gaps, by the size of the gap; blue is A, orange is B", "gap", &diff.gaps),
            ("segments compared", "bytes in segments, by the size of the segment", "segment", &diff.segments),
        ] {
            let bars: Vec<(String, [u64; 2])> =
                rows.iter().map(|ClassDiff { from, a, b }| (Bytes(*from).to_string(), [a.bytes, b.bytes])).collect();
            let canvas = canvas(ui, name, size);
            let mut input =
                PairedBarsInput { title, bars: &bars, unit: Unit::Bytes, hovered: None, width_pt: size.x, height_pt: size.y };
            input.hovered = canvas.pointer.and_then(|at| paired_bars::bar_at(&input, at[0], at[1]));
            let drawing = paired_bars::draw(&input);
            paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &|_| None);
            if let Some(row) = input.hovered.and_then(|place| rows.get(place)) {
                canvas.response.on_hover_ui_at_pointer(|ui| {
                    ui.strong(class_name(row.from));
                    for (name, sum) in [("A", row.a), ("B", row.b)] {
                        ui.label(format!("{name}  {}, {}", counted(sum.count, what), Bytes(sum.bytes)));
                    }
                });
            }
        }
    });
}
