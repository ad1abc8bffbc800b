//! All events, as a list of which only the visible rows exist.
//!
//! Always: the row right before the cursor comes into view when the cursor moves or the filter changes.

use crate::base::{Bytes, counted, grouped};
use crate::model::{Action, DeviceMemory, EventIdx, Item, Position, Snapshot, StackId};
use crate::session::event_rows::EventRows;
use crate::session::{Answer, Command, EventFilter};
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::stack_cell;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, copy_buttons, lines};
use crate::ui::widgets::text::time_of_day;
use egui::{Align, Key, Layout, RichText, TextEdit, Ui};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "events",
    title: "Events",
    help: "Every event of the trace. Filter by action and text, go to an event by its number.",
    open: || Box::new(Events::default()),
};

#[derive(Clone, Default)]
struct Events {
    table: Table,
    /// Where the cursor was: when it moves, the list follows.
    followed: Option<(EventFilter, Position)>,
    go_to: String,
}

const TIME: &str = "Time (UTC)";

const fn column(title: &'static str, help: &'static str, width: f32, number: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts: false }
}

const COLUMNS: [TableColumn; 7] = [
    column("Event", "Its place in the recording.", 80.0, true),
    column(TIME, "When it was recorded.", 130.0, false),
    column("Action", "What the allocator did.", 108.0, false),
    column("Size", "Bytes asked for, given back, or taken from the driver.", 84.0, true),
    column("Address", "Where; at an out of memory, what the driver had left.", 120.0, false),
    column("Stream", "The stream it was for.", 104.0, false),
    column("Stack", "The frame of your program that caused it.", 0.0, false),
];

/// Most rows copied at once.
const MOST_COPIED: usize = 10_000;

impl View for Events {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if memory.trace.is_empty() && !memory.tells_segments() {
            return cx.empty(ui, "No events: this kind of file holds one moment.");
        }
        if memory.trace.is_empty() {
            return cx.empty(
                ui,
                "No events: recording was not switched on (torch.cuda.memory._record_memory_history) before this dump.",
            );
        }
        let filter = cx.session.workspace().filter.clone();
        let rows = cx.ask::<EventRows>(filter.clone());
        self.bar(ui, cx, memory, &filter, &rows);
        cx.show(ui, &rows, |ui, rows| {
            if rows.is_empty() {
                return cx.empty(ui, "No event passes this filter. Clear the text or show more actions.");
            }
            self.list(ui, cx, &document.snapshot, memory, rows, &filter);
        });
    }
}

impl Events {
    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, filter: &EventFilter, rows: &Answer<EventRows>) {
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            let mut text = filter.text.clone();
            let label = ui.label("Filter");
            let field = TextEdit::singleline(&mut text)
                .id(egui::Id::unique("event filter text"))
                .hint_text("function, file, address or label")
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(55.0 * UNIT);
            if ui.add(field).labelled_by(label.id).changed() {
                cx.send(Command::SetFilter(EventFilter { text, ..filter.clone() }));
            }
            let hidden = Action::KNOWN.into_iter().filter(|action| filter.hidden.has(*action)).count();
            let title = if hidden == 0 { "All actions".to_owned() } else { format!("{} of {} actions", 10 - hidden, 10) };
            ui.menu_button(title, |ui| {
                for action in Action::KNOWN {
                    let mut shown = !filter.hidden.has(action);
                    if ui.checkbox(&mut shown, action.name()).changed() {
                        cx.send(Command::SetFilter(EventFilter { hidden: filter.hidden.toggled(action), ..filter.clone() }));
                    }
                }
            });
            if !filter.is_open() && ui.button("Clear").clicked() {
                cx.send(Command::SetFilter(EventFilter::default()));
            }
            let label = ui.label("Go to");
            let field = ui.add(
                TextEdit::singleline(&mut self.go_to)
                    .hint_text("event")
                    .align(egui::Align2::LEFT_CENTER)
                    .desired_width(18.0 * UNIT),
            );
            let field = field.labelled_by(label.id);
            if field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
                let digits: String = self.go_to.chars().filter(char::is_ascii_digit).collect();
                if let Ok(event) = digits.parse::<u32>() {
                    let last = memory.trace.len() as u32 - 1;
                    go_to(cx, EventIdx(event.min(last)));
                }
            }
            if let Some(rows) = rows.value().filter(|rows| !rows.is_empty()) {
                // Where nothing is searched for, F3 goes to the next event that passes, and from the last to the first.
                if ui.input(|input| input.key_pressed(Key::F3)) {
                    let next = cx.cursor().event().map_or(0, |event| rows.row_behind(event));
                    if let Some(event) = rows.event(next) {
                        go_to(cx, event);
                    }
                }
                let all = memory.trace.len();
                let shown = rows.len();
                let text = if shown == all {
                    counted(all as u64, "event")
                } else {
                    format!("{} of {}", grouped(shown as u64), counted(all as u64, "event"))
                };
                ui.label(RichText::new(text).color(cx.tokens.weak));
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    ui.add_space(UNIT);
                    let help = format!(
                        "Copies the events that pass the filter, from the cursor on, at most {}.",
                        grouped(MOST_COPIED as u64)
                    );
                    copy_buttons(ui, &help, |csv| {
                        let Some((document, ..)) = cx.session.front() else { return String::new() };
                        let from = cx.cursor().event().map_or(0, |event| rows.row_of(event));
                        copied(&document.snapshot, memory, rows, from, csv)
                    });
                });
            }
        });
    }

    fn list(
        &mut self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        snapshot: &Snapshot,
        memory: &DeviceMemory,
        rows: &EventRows,
        filter: &EventFilter,
    ) {
        self.follow(cx, rows, filter);
        let timed = memory.trace.has_times();
        let columns: Vec<TableColumn> = COLUMNS.into_iter().filter(|column| timed || column.title != TIME).collect();
        let sort = TableSort { column: usize::MAX, descending: false };
        let content = TableContent { name: "events", columns: &columns, sort, rows: rows.len() };
        let touch = self.table.show(ui, cx, &content, |row| match rows.event(row) {
            Some(event) => event_row(cx, snapshot, memory, event),
            None => TableRow::default(),
        });
        let event = |row: Option<usize>| row.and_then(|row| rows.event(row));
        if let Some(id) = event(touch.hovered).and_then(|event| memory.subject(event)) {
            cx.session.set_hovered(Item::Allocation(id));
        }
        if let Some(event) = event(touch.clicked) {
            go_to(cx, event);
        }
    }

    /// When the cursor moved or the filter changed, its row comes into view.
    fn follow(&mut self, cx: &Cx<'_>, rows: &EventRows, filter: &EventFilter) {
        let now = (filter.clone(), cx.cursor());
        if self.followed.as_ref() != Some(&now) {
            self.table.reveal(cx.cursor().event().map_or(0, |event| rows.row_of(event)));
            self.followed = Some(now);
        }
    }
}

fn event_row(cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, event: EventIdx) -> TableRow {
    let entry = memory.trace.entry(event);
    let item = Some(Item::Event(event));
    let subject = memory.subject(event).map(Item::Allocation);
    let its_stack = |item: Option<Item>| match (item, memory.subject(event)) {
        (Some(Item::Stack(stack)), Some(id)) => snapshot.stacks.are_alike(memory.allocations.stacks()[id.0 as usize], stack),
        _ => false,
    };
    let own = entry.stack.0 != StackId::ABSENT.0 && !snapshot.stacks.frames(entry.stack).is_empty();
    let allocated = memory.subject(event).map(|id| memory.allocations.stacks()[id.0 as usize]);
    let stack = if own { entry.stack } else { allocated.unwrap_or(entry.stack) };
    let address = match entry.action {
        Action::Oom => TableCell { text: format!("{} left", Bytes(entry.address)), ..TableCell::bytes(entry.address) },
        Action::Snapshot => TableCell::default(),
        _ => TableCell::number(format!("{:x}", entry.address)),
    };
    let stream = match snapshot.streams.handle(entry.stream) {
        small @ 0..4096 => small.to_string(),
        handle => format!("0x{handle:x}"),
    };
    let time = memory.trace.has_times().then(|| entry.time_us.map(time_of_day).unwrap_or_default());
    let cells = [TableCell::number(grouped(u64::from(event.0))).weak()]
        .into_iter()
        .chain(time.map(|time| TableCell::number(time).weak()))
        .chain([
            TableCell::number(entry.action.name()),
            TableCell::bytes(entry.size),
            address.weak(),
            TableCell::number(stream).weak(),
            stack_cell(&snapshot.stacks, stack),
        ])
        .collect();
    TableRow {
        name: format!("event {} {} {}", event.0, entry.action.name(), Bytes(entry.size)),
        cells,
        selected: cx.cursor() == Position::after(event),
        related: cx.selected() == item
            || (subject.is_some() && (cx.selected() == subject || cx.hovered() == subject || its_stack(cx.selected()))),
        found: cx.session.found().map(|found| found.has_event(memory, event)),
        failed: entry.action == Action::Oom,
        ..TableRow::default()
    }
}

/// The rows from one on, as text or CSV.
fn copied(snapshot: &Snapshot, memory: &DeviceMemory, rows: &EventRows, from: usize, csv: bool) -> String {
    let stacks = &snapshot.stacks;
    let events = (from..rows.len()).take(MOST_COPIED).filter_map(|row| rows.event(row));
    let lines_of = events.map(|event| {
        let entry = memory.trace.entry(event);
        let stack = stacks.frames(entry.stack).iter().map(|frame| stacks.line(*frame)).collect::<Vec<_>>().join("; ");
        let time = entry.time_us.map_or(String::new(), |time| time.to_string());
        let (size, address) = (entry.size.to_string(), format!("0x{:x}", entry.address));
        let stream = snapshot.streams.handle(entry.stream).to_string();
        vec![event.0.to_string(), time, entry.action.name().to_owned(), size, address, stream, stack]
    });
    lines(&["event", "time in microseconds", "action", "size", "address", "stream", "stack"], lines_of, csv)
}

/// Puts the cursor right behind an event and selects it.
fn go_to(cx: &Cx<'_>, event: EventIdx) {
    cx.send(Command::MoveCursor(Position::after(event)));
    cx.send(Command::Select(Item::Event(event)));
}
