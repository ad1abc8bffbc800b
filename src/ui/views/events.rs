//! All events, as a list of which only the visible rows exist.
//!
//! Always: rows are addressed by number, never by a height in points: a list of five million rows is a
//! hundred million points high, where `f32` has steps of eight. The scroll bar maps to row numbers too.

use crate::analysis::Found;
use crate::base::{Bytes, grouped};
use crate::model::{Action, DeviceMemory, EventIdx, Item, Position, Snapshot};
use crate::session::event_rows::EventRows;
use crate::session::{Answer, Command, EventFilter};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::text::{no_stack, telling_line, time_of_day};
use egui::{Align2, Key, Rect, RichText, Role, Sense, TextEdit, TextStyle, Ui, WidgetInfo, pos2, vec2};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "events",
    title: "Events",
    help: "Every event of the trace. Filter by action and text, go to an event by its number.",
    open: || Box::new(Events::default()),
};

#[derive(Default)]
struct Events {
    /// The first visible row, with its fraction.
    top: f64,
    /// Where the cursor was: when it moves, the list follows.
    followed: Option<(EventFilter, Position)>,
    go_to: String,
}

/// Columns: title, width in points, whether numbers stand right.
const COLUMNS: [(&str, f32, bool); 7] = [
    ("Event", 80.0, true),
    ("Time (UTC)", 130.0, false),
    ("Action", 108.0, false),
    ("Size", 84.0, true),
    ("Address", 120.0, false),
    ("Stream", 104.0, false),
    ("Stack", f32::INFINITY, false),
];

impl View for Events {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.empty(ui, "No file is open. Open one from the File menu, or drop it onto the window.");
        };
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
                    format!("{} events", grouped(all as u64))
                } else {
                    format!("{} of {} events", grouped(shown as u64), grouped(all as u64))
                };
                ui.label(RichText::new(text).color(cx.tokens.weak));
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
        let area = ui.available_rect_before_wrap();
        let (bar_width, head) = (3.0 * UNIT, ROW);
        let body = Rect::from_min_max(pos2(area.min.x, area.min.y + head), pos2(area.max.x - bar_width, area.max.y));
        if body.height() < ROW || body.width() < ROW {
            return;
        }
        let fits = f64::from(body.height() / ROW).floor().max(1.0);
        let highest = (rows.len() as f64 - fits).max(0.0);
        ui.painter().rect_filled(Rect::from_min_max(pos2(area.min.x, body.min.y), area.max), 0.0, cx.tokens.paper);
        let background = ui.interact(body, ui.scope_id().with("rows"), Sense::hover());
        background.widget_info(|| WidgetInfo::labeled(Role::ListBox, true, "events"));
        if background.contains_pointer() {
            self.top -= f64::from(ui.input(|input| input.smooth_scroll_delta().y) / ROW);
        }
        self.follow(cx, rows, filter, fits);
        self.scroll_bar(ui, cx, Rect::from_min_max(pos2(body.max.x, body.min.y), area.max), highest, fits, rows.len());
        self.top = self.top.clamp(0.0, highest);
        head_row(ui, cx, Rect::from_min_max(area.min, pos2(body.max.x, body.min.y)), memory);
        let first = self.top.floor() as usize;
        let shift = (self.top.fract() * f64::from(ROW)) as f32;
        let clip = ui.painter().clip_rect();
        let found = cx.session.found();
        ui.set_clip_rect(body.intersect(clip));
        for (i, row) in (first..rows.len()).take(fits as usize + 2).enumerate() {
            let Some(event) = rows.event(row) else { break };
            let min = pos2(body.min.x, body.min.y + i as f32 * ROW - shift);
            let rect = Rect::from_min_size(min, vec2(body.width(), ROW));
            if rect.min.y < body.max.y {
                event_row(ui, cx, rect, (snapshot, memory), event, found.as_deref());
            }
        }
        ui.set_clip_rect(clip);
        ui.advance_cursor_after_rect(area);
    }

    /// When the cursor moved or the filter changed, its row comes into view.
    fn follow(&mut self, cx: &Cx<'_>, rows: &EventRows, filter: &EventFilter, fits: f64) {
        let now = (filter.clone(), cx.cursor());
        if self.followed.as_ref() == Some(&now) {
            return;
        }
        let row = cx.cursor().event().map_or(0, |event| rows.row_of(event)) as f64;
        if row < self.top || self.top + fits - 1.0 < row {
            self.top = row - (fits / 2.0).floor();
        }
        self.followed = Some(now);
    }

    fn scroll_bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, rail: Rect, highest: f64, fits: f64, rows: usize) {
        if highest <= 0.0 {
            return;
        }
        let rail = rail.shrink(1.0);
        let share = (fits / rows as f64) as f32;
        let handle = (rail.height() * share).max(6.0 * UNIT).min(rail.height());
        let run = (rail.height() - handle).max(1.0);
        let response = ui.interact(rail, ui.scope_id().with("scroll bar"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::slider(true, self.top, "scroll events"));
        if let Some(at) = response.interact_pointer_pos() {
            let share = f64::from(((at.y - rail.min.y - handle / 2.0) / run).clamp(0.0, 1.0));
            self.top = (share * highest).round();
        }
        let y = rail.min.y + run * (self.top.clamp(0.0, highest) / highest) as f32;
        let colour = if response.hovered() || response.dragged() { cx.tokens.weak } else { cx.tokens.line };
        ui.painter().rect_filled(Rect::from_min_size(pos2(rail.min.x, y), vec2(rail.width(), handle)), UNIT / 2.0, colour);
    }
}

fn head_row(ui: &Ui, cx: &Cx<'_>, rect: Rect, memory: &DeviceMemory) {
    let font = TextStyle::Small.resolve(ui.style());
    for_columns(rect, memory, |i, cell| {
        let (title, _, right) = COLUMNS[i];
        let (at, align) =
            if right { (cell.right_center(), Align2::RIGHT_CENTER) } else { (cell.left_center(), Align2::LEFT_CENTER) };
        ui.painter_at(cell).text(at, align, title, font.clone(), cx.tokens.weak);
    });
}

/// The cells of a row; without times their column takes no room.
fn for_columns(rect: Rect, memory: &DeviceMemory, mut cell: impl FnMut(usize, Rect)) {
    let mut x = rect.min.x + 2.0 * UNIT;
    for (i, (_, width, _)) in COLUMNS.iter().enumerate() {
        if i == 1 && !memory.trace.has_times() {
            continue;
        }
        let width = width.min((rect.max.x - x - UNIT).max(0.0));
        cell(i, Rect::from_min_size(pos2(x, rect.min.y), vec2(width, rect.height())));
        x += width + 3.0 * UNIT;
    }
}

fn event_row(
    ui: &mut Ui,
    cx: &Cx<'_>,
    rect: Rect,
    (snapshot, memory): (&Snapshot, &DeviceMemory),
    event: EventIdx,
    found: Option<&Found>,
) {
    let entry = memory.trace.entry(event);
    let response = ui.interact(rect, ui.scope_id().with(("event", event.0)), Sense::click());
    let here = cx.cursor() == Position::after(event);
    let selected = cx.selected() == Some(Item::Event(event));
    let subject = memory.subject(event).map(Item::Allocation);
    let its_stack = |item: Option<Item>| match (item, memory.subject(event)) {
        (Some(Item::Stack(stack)), Some(id)) => snapshot.stacks.are_alike(memory.allocations.stacks()[id.0 as usize], stack),
        _ => false,
    };
    let related = subject.is_some() && (cx.selected() == subject || cx.hovered() == subject || its_stack(cx.selected()));
    let found = found.map(|found| found.has_event(memory, event));
    let painter = ui.painter();
    if found == Some(true) {
        painter.rect_filled(rect, 0.0, cx.tokens.found_row);
    }
    if here || selected || related {
        painter.rect_filled(rect, 0.0, cx.tokens.selected_row);
    } else if response.hovered() {
        painter.rect_filled(rect, 0.0, cx.tokens.hovered_row);
    }
    if here {
        painter.rect_filled(Rect::from_min_size(rect.min, vec2(UNIT / 2.0, rect.height())), 0.0, cx.tokens.accent);
    }
    let stack = if entry.stack.0 == crate::model::StackId::ABSENT.0 || snapshot.stacks.frames(entry.stack).is_empty() {
        memory.subject(event).map_or(entry.stack, |id| memory.allocations.stacks()[id.0 as usize])
    } else {
        entry.stack
    };
    let told = telling_line(&snapshot.stacks, stack);
    let has_stack = told.is_some();
    let address = match entry.action {
        Action::Oom => format!("{} left", Bytes(entry.address)),
        Action::Snapshot => String::new(),
        _ => format!("{:x}", entry.address),
    };
    let texts = [
        grouped(u64::from(event.0)),
        entry.time_us.map(time_of_day).unwrap_or_default(),
        entry.action.name().to_owned(),
        Bytes(entry.size).to_string(),
        address,
        match snapshot.streams.handle(entry.stream) {
            small @ 0..4096 => small.to_string(),
            handle => format!("0x{handle:x}"),
        },
        told.unwrap_or_else(|| no_stack(stack).to_owned()),
    ];
    let label = format!("event {} {} {}", event.0, entry.action.name(), texts[3]);
    response.widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, here, &label));
    let font = TextStyle::Body.resolve(ui.style());
    for_columns(rect, memory, |i, cell| {
        let colour = match i {
            2 | 3 if entry.action == Action::Oom => cx.tokens.error,
            6 if !has_stack => cx.tokens.weak,
            0 | 1 | 4 | 5 => cx.tokens.weak,
            _ if found == Some(false) => cx.tokens.weak,
            _ => cx.tokens.text,
        };
        let (at, align) =
            if COLUMNS[i].2 { (cell.right_center(), Align2::RIGHT_CENTER) } else { (cell.left_center(), Align2::LEFT_CENTER) };
        painter.with_clip_rect(cell.intersect(painter.clip_rect())).text(at, align, &texts[i], font.clone(), colour);
    });
    if response.hovered()
        && let Some(item) = subject
    {
        cx.session.set_hovered(item);
    }
    if response.clicked() {
        go_to(cx, event);
    }
    response.context_menu(|ui| {
        if ui.button("Copy row").clicked() {
            ui.copy_text(texts.join("\t"));
            ui.close();
        }
    });
}

/// Puts the cursor right behind an event and selects it.
fn go_to(cx: &Cx<'_>, event: EventIdx) {
    cx.send(Command::MoveCursor(Position::after(event)));
    cx.send(Command::Select(Item::Event(event)));
}
