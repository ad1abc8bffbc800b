//! A set of blocks as a table: grouped, filtered, sorted, copied and saved. The live set and the allocations share it.
//!
//! Always: rows come from a job and add up to the set where no filter is set; the foot says both sums where one is;
//! texts of many rows are made in a job too.

use crate::analysis::{
    BlockLife, BlockOrder, BlockRow, BlockSum, BlockTable, BlockTableParams, Found, GroupBy, GroupKey, Which, pool_of,
};
use crate::base::id::Id as _;
use crate::base::{Bytes, counted, grouped};
use crate::chart::block_words::{duration_words, key_name, life_words, which_words};
use crate::chart::ink::{pool_name, stream_name};
use crate::chart::text::short_path;
use crate::model::{AllocationId, DeviceMemory, EventIdx, Item, Position, Snapshot, StackId, StackTable};
use crate::report::block_csv::{MOST_COPIED, TextForm};
use crate::session::block_text::BlockText;
use crate::session::{Answer, Command};
use crate::ui::panels::export::{Export, ExportDialog};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::Cx;
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, TableTouch};
use crate::ui::widgets::text::{no_stack, telling_line, time_of_day};
use egui::{Align, ComboBox, Layout, Rect, RichText, TextEdit, Ui, UiBuilder, pos2};

/// A table of blocks, with what the user chose in it.
#[derive(Clone)]
pub struct BlockList {
    /// What assistive tools and tests call it; the place that asks.
    name: &'static str,
    by: GroupBy,
    filter: String,
    order: BlockOrder,
    descending: bool,
    table: Table,
    export: ExportDialog,
    /// What is to be copied as soon as its text is there.
    copying: Option<(BlockTableParams, TextForm)>,
}

/// What a list shows.
#[derive(Clone, Copy)]
struct Shown<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    table: &'a BlockTable,
}

const fn column(title: &'static str, help: &'static str, width: f32, number: bool, sorts: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts }
}

const BYTES: TableColumn = column("Bytes", "Sizes of the blocks, rounding included.", 84.0, true, true);
const SHARE: TableColumn = column("Share", "Part of the bytes of all blocks of the set.", 56.0, true, false);
const REQUESTED: TableColumn = column("Requested", "What the program asked for, before rounding.", 84.0, true, true);
const BLOCKS: TableColumn = column("Blocks", "Number of blocks.", 64.0, true, true);
const BORN: TableColumn = column("Born", "The event that made the block.", 68.0, true, true);
const FREED: TableColumn = column("Freed", "The event at which the program gave it back.", 68.0, true, true);
const LIFE: TableColumn = column("Events", "Events between the two, as far as the trace reaches.", 76.0, true, true);
const TIME: TableColumn = column("Time", "Time between the two, where both are recorded.", 72.0, true, true);
const STREAM: TableColumn = column("Stream", "The stream it was allocated on.", 104.0, false, true);
const POOL: TableColumn = column("Pool", "The pool it lies in, and which half of it.", 136.0, false, true);
/// Below these widths streams and pools, which are the same in most rows, make room for the stacks.
const ROOM_FOR_POOLS: f32 = 1240.0;
const ROOM_FOR_STREAMS: f32 = 1060.0;

/// The columns of a grouping, each with what it orders by.
fn columns(by: GroupBy, has_times: bool, width: f32) -> Vec<(TableColumn, BlockOrder)> {
    let name = |title, width| (column(title, "What the blocks of a row have in common.", width, false, true), BlockOrder::Name);
    let stack = "The frame of your program that asked for the memory; the whole stack is in the details.";
    let mut columns = match by {
        GroupBy::Stack => Vec::new(),
        GroupBy::Block => {
            let mut columns = vec![name("Block", 140.0), (BYTES, BlockOrder::Bytes), (REQUESTED, BlockOrder::Requested)];
            columns.extend([(BORN, BlockOrder::Born), (FREED, BlockOrder::Freed), (LIFE, BlockOrder::Life)]);
            columns.extend(has_times.then_some((TIME, BlockOrder::Time)));
            columns.extend((ROOM_FOR_STREAMS <= width).then_some((STREAM, BlockOrder::Stream)));
            columns.extend((ROOM_FOR_POOLS <= width).then_some((POOL, BlockOrder::Pool)));
            columns.push((column("Allocated at", stack, 0.0, false, true), BlockOrder::Stack));
            return columns;
        }
        GroupBy::Size => vec![name("Size", 84.0)],
        GroupBy::Stream => vec![name("Stream", 130.0)],
        GroupBy::Pool => vec![name("Pool", 190.0)],
        GroupBy::Function => vec![name("Function", 230.0)],
        GroupBy::File => vec![name("File", 300.0)],
        GroupBy::Module => vec![name("Module", 190.0)],
        GroupBy::Category => vec![name("Category", 150.0)],
        GroupBy::Annotation => vec![name("Annotation", 190.0)],
        GroupBy::CompileContext => vec![name("Compile context", 190.0)],
        GroupBy::UserMetadata => vec![name("User metadata", 230.0)],
    };
    columns.push((BYTES, BlockOrder::Bytes));
    columns.push((SHARE, BlockOrder::Bytes));
    columns.push((REQUESTED, BlockOrder::Requested));
    columns.push((BLOCKS, BlockOrder::Count));
    columns.push(match by {
        GroupBy::Stack => (column("Stack", stack, 0.0, false, true), BlockOrder::Name),
        _ => (column("Mostly from", "The stack that holds most of the row.", 0.0, false, false), BlockOrder::Name),
    });
    columns
}

impl BlockList {
    /// A list, the largest rows first.
    pub fn new(name: &'static str, by: GroupBy) -> BlockList {
        BlockList {
            name,
            by,
            filter: String::new(),
            order: BlockOrder::Bytes,
            descending: true,
            table: Table::default(),
            export: ExportDialog::default(),
            copying: None,
        }
    }
    /// Shows a set; `empty` says why there is nothing in it.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, which: Which, empty: impl FnOnce(Which) -> String) {
        let Some((document, _, memory)) = cx.session.front() else { return };
        let params = BlockTableParams {
            which,
            by: self.by,
            filter: self.filter.trim().to_owned(),
            order: self.order,
            descending: self.descending,
            categories: cx.session.categories().clone(),
        };
        let answer = cx.session.ask_in::<BlockTable>(self.name, params);
        self.bar(ui, cx, answer.value().map(|table| &**table));
        self.copy(ui, cx);
        if let (Some((_, path)), Some(table)) = (self.export.show(ui, cx), answer.value()) {
            cx.send(Command::SaveTable { path, params: Box::new(table.params.clone()) });
        }
        cx.show(ui, &answer, |ui, table| {
            if table.total.count == 0 {
                return cx.empty(ui, &empty(table.params.which));
            }
            if table.is_empty() {
                return cx.empty(ui, "No block of this set passes this filter. Clear the text.");
            }
            self.list(ui, cx, &Shown { snapshot: &document.snapshot, memory, table });
        });
    }

    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, table: Option<&BlockTable>) {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(UNIT);
            let label = ui.label("Group by");
            let combo = ComboBox::from_id_salt((self.name, "by")).selected_text(self.by.name()).width(26.0 * UNIT);
            let combo = combo.height(120.0 * UNIT).show_ui(ui, |ui| {
                for by in GroupBy::ALL {
                    if ui.selectable_label(by == self.by, by.name()).clicked() {
                        self.by = by;
                        self.table = Table::default();
                        // What the new rows cannot be ordered by shows in no header.
                        if by != GroupBy::Block && !is_of_groups(self.order) {
                            (self.order, self.descending) = (BlockOrder::Bytes, true);
                        }
                    }
                }
            });
            combo.response.labelled_by(label.id);
            let label = ui.label("Holding");
            let field = TextEdit::singleline(&mut self.filter)
                .id(egui::Id::unique((self.name, "filter")))
                .hint_text("function, file, block or label")
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(45.0 * UNIT);
            let help =
                "Text of functions, files with lines, block names, categories, annotations, compile contexts or user metadata.";
            if ui.add(field).on_hover_text(help).labelled_by(label.id).changed() {
                self.table = Table::default();
            }
            if !self.filter.is_empty() && ui.button("Clear filter").clicked() {
                self.filter.clear();
            }
            let Some(table) = table.filter(|table| !table.is_empty()) else { return };
            self.texts(ui, cx, table);
            let history = cx.session.front().is_some_and(|(_, _, memory)| memory.has_history());
            let words = if history { which_words(table.params.which) } else { "allocated at the dump".to_owned() };
            ui.label(RichText::new(words).color(cx.tokens.weak));
        });
    }

    /// The buttons that copy and save.
    fn texts(&mut self, ui: &mut Ui, cx: &Cx<'_>, table: &BlockTable) {
        ui.add_enabled_ui(table.len() <= MOST_COPIED, |ui| {
            for (title, form, help) in [
                ("Copy table", TextForm::Tabs, "Copies all rows as text."),
                ("Copy CSV", TextForm::Csv, "Copies all rows as CSV, with whole stacks."),
            ] {
                let many = format!("More than {} rows are too many for the clipboard: save them.", grouped(MOST_COPIED as u64));
                if ui.button(title).on_hover_text(help).on_disabled_hover_text(many).clicked() {
                    self.copying = Some((table.params.clone(), form));
                }
            }
        });
        if ui.button("Save CSV…").on_hover_text("Writes all rows to a file, with whole stacks.").clicked() {
            self.export.open(Export::Table(self.name), cx);
        }
        if self.copying.is_some() {
            ui.spinner().on_hover_text("The text is being made.");
        }
    }

    fn copy(&mut self, ui: &Ui, cx: &Cx<'_>) {
        let Some(asked) = self.copying.take() else { return };
        match cx.session.ask_in::<BlockText>(self.name, asked.clone()) {
            Answer::Ready(text) => ui.copy_text(text.0.clone()),
            Answer::Stale(..) | Answer::Pending(_) => self.copying = Some(asked),
            // The job's own message says why.
            Answer::Failed(_) => {}
        }
    }

    fn list(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let table = shown.table;
        let by = table.params.by;
        let columns = columns(by, shown.memory.trace.has_times(), ui.available_width());
        let sorted = columns.iter().position(|(column, order)| *order == self.order && column.sorts);
        let heads: Vec<TableColumn> = columns.iter().map(|(column, _)| *column).collect();
        let sort = TableSort { column: sorted.unwrap_or(usize::MAX), descending: self.descending };
        let content = TableContent { name: self.name, columns: &heads, sort, rows: table.len() };
        let (rows, foot) = with_foot(ui);
        let lives = &shown.memory.allocations;
        let touch = ui
            .scope_builder(UiBuilder::new().max_rect(rows), |ui| {
                self.table.show(ui, cx, &content, |place| match table.row(lives, place) {
                    Some(BlockRow { key: GroupKey::Block(id), sum, stack }) => block_row(cx, shown, &columns, id, sum, stack),
                    Some(row) => group_row(cx, shown, &row),
                    None => TableRow::default(),
                })
            })
            .inner;
        let TableTouch { hovered, clicked, folded: _, sorted } = touch;
        if let Some(row) = hovered.and_then(|place| table.row(lives, place)) {
            cx.session.set_hovered(item(&row));
        }
        if let Some(row) = clicked.and_then(|place| table.row(lives, place)) {
            cx.send(Command::Select(item(&row)));
        }
        if let Some(sorted) = sorted {
            (self.order, self.descending) = (columns[sorted.column].1, sorted.descending);
            self.table = Table::default();
        }
        ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
            ui.add_space(2.0 * UNIT);
            totals(ui, cx, table);
        });
    }
}

/// Whether groups can be ordered by it.
fn is_of_groups(order: BlockOrder) -> bool {
    matches!(order, BlockOrder::Name | BlockOrder::Bytes | BlockOrder::Requested | BlockOrder::Count)
}

/// The room for rows, and one line below it.
pub fn with_foot(ui: &Ui) -> (Rect, Rect) {
    let room = ui.available_rect_before_wrap();
    let at = (room.max.y - ROW - UNIT).max(room.min.y);
    (Rect::from_min_max(room.min, pos2(room.max.x, at)), Rect::from_min_max(pos2(room.min.x, at), room.max))
}

fn totals(ui: &mut Ui, cx: &Cx<'_>, table: &BlockTable) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    ui.spacing_mut().item_spacing.x = UNIT;
    let BlockSum { bytes, requested, count } = table.shown;
    let rows = grouped(table.len() as u64);
    let blocks = counted(count, "block");
    ui.label(weak(match table.params.by {
        GroupBy::Block => format!("{blocks}:"),
        _ => format!("{rows} {}, {blocks}:", if table.len() == 1 { "row" } else { "rows" }),
    }));
    byte_label(ui, "sizes of the blocks in these rows", bytes);
    let live = matches!(table.params.which, Which::Live { .. });
    ui.label(weak(if live { "allocated," } else { "in size," }.to_owned()));
    byte_label(ui, "requested, in these rows", requested);
    ui.label(weak("requested".to_owned()));
    if table.shown != table.total {
        ui.label(weak("of all".to_owned()));
        byte_label(ui, "sizes of all blocks of the set", table.total.bytes);
        ui.label(weak(format!("in {}", counted(table.total.count, "block"))));
    }
}

/// What a click on a row selects, everywhere.
fn item(row: &BlockRow) -> Item {
    match row.key {
        GroupKey::Block(id) => Item::Allocation(id),
        _ => Item::Stack(row.stack),
    }
}

fn group_row(cx: &Cx<'_>, shown: &Shown<'_>, row: &BlockRow) -> TableRow {
    let Shown { snapshot, memory, table } = *shown;
    let BlockSum { bytes, requested, count } = row.sum;
    let mut cells = Vec::with_capacity(6);
    let name = key_name(snapshot, memory, table, row);
    if !matches!(row.key, GroupKey::Stack(_)) {
        cells.push(TableCell::text(name.clone()));
    }
    cells.push(TableCell::bytes(bytes));
    cells.push(TableCell::number(share(bytes, table.total.bytes)).weak());
    cells.push(TableCell::bytes(requested).weak());
    cells.push(TableCell::number(grouped(count)));
    cells.push(stack_cell(&snapshot.stacks, row.stack));
    let its = |other: Item| match other {
        Item::Allocation(id) => matches!(row.key, GroupKey::Stack(stack)
            if memory.allocations.stacks().get(id.row()).is_some_and(|other| snapshot.stacks.are_alike(*other, stack))),
        Item::Stack(other) => matches!(row.key, GroupKey::Stack(_)) && snapshot.stacks.are_alike(other, row.stack),
        _ => false,
    };
    let selected = matches!(cx.selected(), Some(other @ Item::Stack(_)) if its(other));
    let related = cx.selected().is_some_and(its) || cx.hovered().is_some_and(its);
    let found = cx.session.found().map(|found| holds_found(cx, table, row, &found));
    TableRow { name: format!("{name}, {}", Bytes(bytes)), cells, selected, related, found, ..TableRow::default() }
}

fn block_row(
    cx: &Cx<'_>,
    shown: &Shown<'_>,
    columns: &[(TableColumn, BlockOrder)],
    id: AllocationId,
    sum: BlockSum,
    stack: StackId,
) -> TableRow {
    let Shown { snapshot, memory, .. } = *shown;
    let life = memory.allocations.get(id);
    let length = BlockLife::of(memory, id);
    let cell = |order: BlockOrder| match order {
        BlockOrder::Name => TableCell::text(life.label()),
        BlockOrder::Bytes | BlockOrder::Count => TableCell::bytes(sum.bytes),
        BlockOrder::Requested => TableCell::bytes(sum.requested).weak(),
        BlockOrder::Born => match life.born {
            Position::START => told("older", "It is older than the trace.").weak(),
            born => event_cell(memory, born.event()),
        },
        BlockOrder::Freed if memory.end() < life.freed => told("never", "The trace ends before it is freed.").weak(),
        BlockOrder::Freed => event_cell(memory, life.freed.event()),
        BlockOrder::Life => TableCell::number(life_words(length)),
        BlockOrder::Time => length.time_us.map_or(TableCell::default(), |us| {
            let exact = format!("{} µs", grouped(us));
            TableCell { text: duration_words(us), exact, weak: false }
        }),
        BlockOrder::Stream => TableCell::text(stream_name(snapshot, life.stream)).weak(),
        BlockOrder::Pool => match pool_of(memory, id) {
            Some((pool, class)) => TableCell::text(format!("{}, {}", pool_name(snapshot, pool), class.name())).weak(),
            None => TableCell::text("in no known segment").weak(),
        },
        BlockOrder::Stack => stack_cell(&snapshot.stacks, stack),
    };
    let item = Some(Item::Allocation(id));
    TableRow {
        name: format!("{}, {}", life.label(), Bytes(sum.bytes)),
        cells: columns.iter().map(|(_, order)| cell(*order)).collect(),
        selected: cx.selected() == item,
        related: cx.hovered() == item
            || matches!(cx.selected(), Some(Item::Stack(other)) if snapshot.stacks.are_alike(stack, other)),
        found: cx.session.found().map(|found| found.has(id)),
        ..TableRow::default()
    }
}

fn told(text: &str, exact: &str) -> TableCell {
    TableCell { text: text.to_owned(), exact: exact.to_owned(), weak: false }
}

/// An event, with its time of day on hover.
fn event_cell(memory: &DeviceMemory, event: Option<EventIdx>) -> TableCell {
    let Some(event) = event else { return TableCell::default() };
    let number = grouped(event.0.into());
    let exact = memory.trace.time_us(event).map_or(String::new(), |time| format!("event {number}, {} UTC", time_of_day(time)));
    TableCell { text: number, exact, weak: false }
}

/// Whether a row holds what was found. Rows of several stacks are known by the largest of them.
fn holds_found(cx: &Cx<'_>, table: &BlockTable, row: &BlockRow, found: &Found) -> bool {
    let here = if table.params.which == (Which::Live { at: cx.cursor() }) { cx.session.found_here() } else { None };
    match (row.key, here.as_ref().and_then(|here| here.value())) {
        (GroupKey::Block(id), _) => found.has(id),
        (GroupKey::Size(size), Some(here)) => here.has_size(size),
        (_, Some(here)) => here.has_stack(found, row.stack),
        (_, None) => found.has_stack(row.stack),
    }
}

/// Where something was allocated, its innermost frames told on hover.
pub fn stack_cell(stacks: &StackTable, stack: StackId) -> TableCell {
    match telling_line(stacks, stack) {
        Some(text) => {
            let frames = stacks.frames(stack);
            let mut lines: Vec<String> =
                frames.iter().take(MOST_TOLD).map(|frame| short_path(&stacks.line(*frame), 110)).collect();
            if MOST_TOLD < frames.len() {
                lines.push(format!("and {} frames more", frames.len() - MOST_TOLD));
            }
            TableCell { text, exact: lines.join("\n"), weak: false }
        }
        None => TableCell::number(no_stack(stack)).weak(),
    }
}

/// Most frames told on hover.
const MOST_TOLD: usize = 12;

/// A share in percent.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}
