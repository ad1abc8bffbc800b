//! What is live at the cursor, as a table: grouped, filtered, sorted, copied.
//!
//! Always: rows come from a job and add up to the state's `allocated` where no filter is set; the foot says
//! both sums where one is.

use crate::analysis::framework::FrameworkFrames;
use crate::analysis::{Found, LiveBy, LiveKey, LiveOrder, LiveRow, LiveSum, LiveTable, LiveTableParams};
use crate::base::id::Id as _;
use crate::base::{Bytes, StringId, grouped};
use crate::chart::ink::{pool_name, stream_name};
use crate::chart::text::short_path;
use crate::model::{DeviceMemory, Item, Snapshot, StackId, StackTable};
use crate::session::Command;
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, TableTouch, lines};
use crate::ui::widgets::text::{moment, no_stack, telling_line};
use egui::{Align, ComboBox, Layout, Rect, RichText, TextEdit, Ui, UiBuilder, pos2};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "live_set",
    title: "Live set",
    help: "Who holds the allocated memory at the cursor: by stack, block, size, stream, pool, function or file.",
    open: || Box::new(LiveSet { by: LiveBy::Stack, order: LiveOrder::Bytes, descending: true, ..LiveSet::default() }),
};

#[derive(Default)]
struct LiveSet {
    by: LiveBy,
    filter: String,
    order: LiveOrder,
    descending: bool,
    table: Table,
}

const fn column(title: &'static str, help: &'static str, width: f32, number: bool, sorts: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts }
}

const BYTES: TableColumn = column("Bytes", "Sizes of the blocks in use, rounding included.", 84.0, true, true);
const SHARE: TableColumn = column("Share", "Part of all that is allocated at this moment.", 56.0, true, false);
const REQUESTED: TableColumn = column("Requested", "What the program asked for, before rounding.", 84.0, true, true);
const BLOCKS: TableColumn = column("Blocks", "Number of blocks.", 64.0, true, true);

/// The columns of a grouping, each with what it orders by.
fn columns(by: LiveBy) -> Vec<(TableColumn, LiveOrder)> {
    let name = |title, width| (column(title, "What the blocks of a row have in common.", width, false, true), LiveOrder::Name);
    let mut columns = match by {
        LiveBy::Stack => Vec::new(),
        LiveBy::Block => vec![name("Block", 150.0)],
        LiveBy::Size => vec![name("Size", 84.0)],
        LiveBy::Stream => vec![name("Stream", 130.0)],
        LiveBy::Pool => vec![name("Pool", 190.0)],
        LiveBy::Function => vec![name("Function", 230.0)],
        LiveBy::File => vec![name("File", 300.0)],
    };
    columns.push((BYTES, LiveOrder::Bytes));
    columns.push((SHARE, LiveOrder::Bytes));
    columns.push((REQUESTED, LiveOrder::Requested));
    columns.push((BLOCKS, LiveOrder::Count));
    columns.push(match by {
        LiveBy::Stack => {
            let help = "The frame of your program that asked for the memory; the whole stack is in the details.";
            (column("Stack", help, 0.0, false, true), LiveOrder::Name)
        }
        LiveBy::Block => (column("Allocated at", "Where the block was allocated.", 0.0, false, false), LiveOrder::Name),
        _ => (column("Mostly from", "The stack that holds most of the row.", 0.0, false, false), LiveOrder::Name),
    });
    columns
}

impl View for LiveSet {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.empty(ui, "No file is open. Open one from the File menu, or drop it onto the window.");
        };
        let LiveSet { by, order, descending, .. } = *self;
        let answer = cx.ask::<LiveTable>(LiveTableParams {
            at: cx.cursor(),
            by,
            filter: self.filter.trim().to_owned(),
            order,
            descending,
        });
        self.bar(ui, cx, &document.snapshot, memory, answer.value().map(|table| &**table));
        cx.show(ui, &answer, |ui, live| {
            if live.total.count == 0 {
                let sentence =
                    format!("Nothing is allocated at {}. Move the cursor to a moment when something is.", moment(live.at));
                return cx.empty(ui, &sentence);
            }
            if live.rows.is_empty() {
                return cx.empty(ui, "No live block passes this filter. Clear the text.");
            }
            self.list(ui, cx, &document.snapshot, memory, live);
        });
    }
}

impl LiveSet {
    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, live: Option<&LiveTable>) {
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            let label = ui.label("Group by");
            let combo = ComboBox::from_id_salt("live by").selected_text(self.by.name()).width(20.0 * UNIT).show_ui(ui, |ui| {
                for by in LiveBy::ALL {
                    if ui.selectable_label(by == self.by, by.name()).clicked() {
                        self.by = by;
                        self.table = Table::default();
                    }
                }
            });
            combo.response.labelled_by(label.id);
            let label = ui.label("Holding");
            let field = TextEdit::singleline(&mut self.filter)
                .id(egui::Id::unique("live set filter"))
                .hint_text("function, file or block")
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(45.0 * UNIT);
            if ui.add(field).labelled_by(label.id).changed() {
                self.table = Table::default();
            }
            if !self.filter.is_empty() && ui.button("Clear filter").clicked() {
                self.filter.clear();
            }
            let Some(live) = live.filter(|live| !live.rows.is_empty()) else { return };
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.add_space(UNIT);
                for (title, csv) in [("Copy CSV", true), ("Copy table", false)] {
                    let help = if csv { "Copies all rows as CSV, with whole stacks." } else { "Copies all rows as text." };
                    if ui.button(title).on_hover_text(help).clicked() {
                        ui.copy_text(copied(live, self.by, snapshot, memory, csv));
                    }
                }
                ui.label(RichText::new(moment(live.at)).color(cx.tokens.weak));
            });
        });
    }

    fn list(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, live: &LiveTable) {
        let columns = columns(self.by);
        let shown = columns.iter().position(|(column, order)| *order == self.order && column.sorts);
        let heads: Vec<TableColumn> = columns.iter().map(|(column, _)| *column).collect();
        let sort = TableSort { column: shown.unwrap_or(usize::MAX), descending: self.descending };
        let content = TableContent { name: "live set", columns: &heads, sort, rows: live.rows.len() };
        let (rows, foot) = with_foot(ui);
        let touch = ui
            .scope_builder(UiBuilder::new().max_rect(rows), |ui| {
                self.table.show(ui, cx, &content, |place| row(cx, snapshot, memory, live, &live.rows[place]))
            })
            .inner;
        let TableTouch { hovered, clicked, folded: _, sorted } = touch;
        if let Some(row) = hovered.and_then(|place| live.rows.get(place)) {
            cx.session.set_hovered(item(row));
        }
        if let Some(row) = clicked.and_then(|place| live.rows.get(place)) {
            cx.send(Command::Select(item(row)));
        }
        if let Some(sorted) = sorted {
            (self.order, self.descending) = (columns[sorted.column].1, sorted.descending);
            self.table = Table::default();
        }
        ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
            ui.add_space(2.0 * UNIT);
            totals(ui, cx, live);
        });
    }
}

/// The room for rows, and one line below it.
pub fn with_foot(ui: &Ui) -> (Rect, Rect) {
    let room = ui.available_rect_before_wrap();
    let at = (room.max.y - ROW - UNIT).max(room.min.y);
    (Rect::from_min_max(room.min, pos2(room.max.x, at)), Rect::from_min_max(pos2(room.min.x, at), room.max))
}

fn totals(ui: &mut Ui, cx: &Cx<'_>, live: &LiveTable) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    ui.spacing_mut().item_spacing.x = UNIT;
    let LiveSum { bytes, requested, count } = live.shown;
    ui.label(weak(format!("{} rows, {} blocks:", grouped(live.rows.len() as u64), grouped(count))));
    byte_label(ui, "allocated, in these rows", bytes);
    ui.label(weak("allocated,".to_owned()));
    byte_label(ui, "requested, in these rows", requested);
    ui.label(weak("requested".to_owned()));
    if live.shown != live.total {
        ui.label(weak("of all".to_owned()));
        byte_label(ui, "allocated at this moment", live.total.bytes);
        ui.label(weak(format!("in {} blocks", grouped(live.total.count))));
    }
}

/// What a click on a row selects, everywhere.
fn item(row: &LiveRow) -> Item {
    match row.key {
        LiveKey::Block(id) => Item::Allocation(id),
        _ => Item::Stack(row.stack),
    }
}

fn row(cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, live: &LiveTable, row: &LiveRow) -> TableRow {
    let LiveSum { bytes, requested, count } = row.sum;
    let mut cells = Vec::with_capacity(6);
    let mut name = key_name(snapshot, memory, row);
    if !matches!(row.key, LiveKey::Stack(_)) {
        cells.push(TableCell::text(name.clone()));
    }
    cells.push(TableCell::bytes(bytes));
    cells.push(TableCell::number(share(bytes, live.total.bytes)).weak());
    cells.push(TableCell::bytes(requested).weak());
    cells.push(TableCell::number(grouped(count)));
    cells.push(stack_cell(&snapshot.stacks, row.stack));
    name = format!("{name}, {}", Bytes(bytes));
    let item = item(row);
    let its = |other: Item| match other {
        Item::Allocation(id) => matches!(row.key, LiveKey::Stack(stack)
            if memory.allocations.stacks().get(id.row()).is_some_and(|other| snapshot.stacks.are_alike(*other, stack))),
        Item::Stack(other) => {
            matches!(row.key, LiveKey::Stack(_) | LiveKey::Block(_)) && snapshot.stacks.are_alike(other, row.stack)
        }
        _ => false,
    };
    let own = matches!(row.key, LiveKey::Stack(_)) && matches!(cx.selected(), Some(other @ Item::Stack(_)) if its(other));
    let selected = own || (cx.selected() == Some(item) && matches!(row.key, LiveKey::Block(_)));
    let related = cx.selected().is_some_and(its) || cx.hovered().is_some_and(its);
    let found = cx.session.found().and_then(|found| holds_found(cx, row, &found));
    TableRow { name, cells, selected, related, found, ..TableRow::default() }
}

/// Whether a row holds what was found. Rows of several stacks are known by the largest of them.
fn holds_found(cx: &Cx<'_>, row: &LiveRow, found: &Found) -> Option<bool> {
    let here = cx.session.found_here()?;
    let here = here.value()?;
    Some(match row.key {
        LiveKey::Block(id) => found.has(id),
        LiveKey::Size(size) => here.has_size(size),
        _ => here.has_stack(found, row.stack),
    })
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

fn key_name(snapshot: &Snapshot, memory: &DeviceMemory, row: &LiveRow) -> String {
    let text =
        |id: Option<StringId>| id.map_or_else(|| no_stack(row.stack).to_owned(), |id| snapshot.stacks.strings.get(id).to_owned());
    match row.key {
        LiveKey::Stack(stack) => telling_line(&snapshot.stacks, stack).unwrap_or_else(|| no_stack(stack).to_owned()),
        LiveKey::Block(id) => memory.allocations.get(id).label(),
        LiveKey::Size(size) => Bytes(size).to_string(),
        LiveKey::Stream(stream) => stream_name(snapshot, stream),
        LiveKey::Pool(Some((pool, class))) => format!("{}, {}", pool_name(snapshot, pool), class.name()),
        LiveKey::Pool(None) => "in no known segment".to_owned(),
        LiveKey::Function(name) => text(name),
        LiveKey::File(name) => name.map_or_else(|| text(None), |id| short_path(snapshot.stacks.strings.get(id), 60)),
    }
}

/// A share in percent.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// All rows as text or CSV.
fn copied(live: &LiveTable, by: LiveBy, snapshot: &Snapshot, memory: &DeviceMemory, csv: bool) -> String {
    let stacks = &snapshot.stacks;
    let framework = FrameworkFrames::of(stacks);
    let rows = live.rows.iter().map(|row| {
        let frames = stacks.frames(row.stack);
        let stack: Vec<String> = if csv {
            frames.iter().map(|frame| stacks.line(*frame)).collect()
        } else {
            framework.telling(frames).into_iter().map(|frame| stacks.line(frame)).collect()
        };
        let numbers = [row.sum.bytes, row.sum.requested, row.sum.count].map(|number| number.to_string());
        let name = if by == LiveBy::Size {
            row.sum.bytes.checked_div(row.sum.count).unwrap_or(0).to_string()
        } else {
            key_name(snapshot, memory, row)
        };
        [name].into_iter().chain(numbers).chain([stack.join("; ")]).collect()
    });
    lines(&[by.name(), "bytes", "requested", "blocks", if by == LiveBy::Stack { "frames" } else { "stack" }], rows, csv)
}
