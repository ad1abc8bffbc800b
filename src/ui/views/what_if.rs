//! What if: the recorded requests served again under other settings or on another card, beside the recording.
//!
//! Always: figures are those of `whatif` on the command line; how far the model reproduces the recording stands beside
//! them; a frame only shows what jobs found.

use crate::base::{Bytes, grouped};
use crate::report::what_if::WhatIf;
use crate::report::what_if_words as words;
use crate::session::Command;
use crate::session::what_if::{Try, WhatIfDeed};
use crate::simulator::{PolicyKind, conf};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::views::what_if_chart::{MOST_LINES, WhatIfChart};
use crate::ui::views::what_if_form as form;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, copy_buttons, lines};
use egui::text::{LayoutJob, TextFormat};
use egui::{RichText, ScrollArea, TextStyle, Ui, Vec2, vec2};
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "what-if",
    title: "What if",
    help: "The job's requests served again under other allocator settings or on another card: would it have fitted, and with \
           how much to spare?",
    open: || {
        let (table, chart) = (Table::default(), WhatIfChart::default());
        Box::new(WhatIfView { table, sort: BY_NUMBER, chosen: None, newest: None, is_new: false, chart })
    },
};

const BY_NUMBER: TableSort = TableSort { column: 0, descending: false };
/// Width of the form, in points.
const FORM_PT: f32 = 84.0 * UNIT;
/// The table shows at least so many rows, if there are.
const LEAST_ROWS: f32 = 4.0;
/// The chart is at least so high, with its legend, in points.
const LEAST_CHART_PT: f32 = 150.0;
/// From this width on the chart can stand beside the table, in points.
const BESIDE_PT: f32 = 560.0;
/// What the table gets of the width then.
const TABLE_SHARE: f32 = 0.58;
/// In a narrow view of at least this height form and results are scrolled each for itself, in points.
const HALVES_PT: f32 = 640.0;
/// Results in a narrow, low view are at least so high, in points.
const LEAST_RESULTS_PT: f32 = 400.0;

#[derive(Clone)]
struct WhatIfView {
    table: Table,
    sort: TableSort,
    /// The number of the row that was clicked last.
    chosen: Option<u32>,
    /// The number of the row that was asked for last, when this was shown last.
    newest: Option<u32>,
    /// Whether that row is to be brought into view.
    is_new: bool,
    chart: WhatIfChart,
}

const fn column(title: &'static str, width: f32, number: bool, help: &'static str) -> TableColumn {
    TableColumn { title, help, width, number, sorts: true }
}

const COLUMNS: [TableColumn; 10] = [
    column("No.", 26.0, true, "In the order in which they were tried"),
    column("What was tried", 180.0, false, "How the job was changed, where it was, and the settings string of the run"),
    column("Reserved", 110.0, true, "Most bytes taken from the driver"),
    column("Spare", 76.0, true, "What is left of the memory the allocator can hold where most is reserved"),
    column("Ends", 160.0, false, "How the run ends"),
    column("Allocated", 76.0, true, "Most bytes of blocks in use"),
    column("Segments", 60.0, true, "Most segments; expandable ones do not count"),
    column("Retries", 52.0, true, "Requests for which the cache was given back before they were tried again"),
    column("Driver gave", 74.0, true, "Calls that took memory from the driver"),
    column("Took back", 68.0, true, "Calls that gave memory back to the driver"),
];

impl View for WhatIfView {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if memory.ordinal < 0 || memory.kv.is_some() {
            return cx.empty(ui, "This memory is served by another allocator than the card's: choose a GPU at the top.");
        }
        if !memory.has_history() {
            return cx.empty(
                ui,
                "This device has no history, so there are no requests to serve again. Call \
                 torch.cuda.memory._record_memory_history() before the part of interest and save the snapshot again.",
            );
        }
        let Some(place) = cx.place() else { return };
        let mut filled = place.what_if.clone();
        let error = filled.read(&document.snapshot).err();
        let room = ui.available_size();
        let mut fields = |ui: &mut Ui| {
            egui::Frame::new().inner_margin(2.0 * UNIT).show(ui, |ui| {
                buttons(ui, cx, error.as_deref());
                ui.add_space(UNIT);
                form::show(ui, cx, &document.snapshot, memory, &mut filled);
            });
        };
        let scrolled = |ui: &mut Ui, name: &str, height: f32, fill: &mut dyn FnMut(&mut Ui)| {
            ScrollArea::vertical().id_salt(name).max_height(height).auto_shrink(false).show(ui, fill);
        };
        if 2.0 * FORM_PT < room.x {
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing.x = 0.0;
                column_of(ui, vec2(FORM_PT, room.y), |ui| {
                    ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                    scrolled(ui, "what if form", room.y, &mut fields);
                });
                let size = vec2(room.x - FORM_PT, room.y);
                column_of(ui, size, |ui| {
                    ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                    scrolled(ui, "what if results", room.y, &mut |ui| self.results(ui, cx, size));
                });
            });
        } else if HALVES_PT <= room.y {
            let size = vec2(room.x, room.y * 0.5);
            scrolled(ui, "what if form", size.y, &mut fields);
            scrolled(ui, "what if results", size.y, &mut |ui| self.results(ui, cx, size));
        } else {
            scrolled(ui, "what if", room.y, &mut |ui| {
                fields(ui);
                let top = ui.cursor().min;
                let size = vec2(room.x, room.y.max(LEAST_RESULTS_PT));
                column_of(ui, size, |ui| self.results(ui, cx, size));
                // What came out last is below the form: it is shown.
                if self.is_new {
                    ui.scroll_to_rect(egui::Rect::from_min_size(top, size), Some(egui::Align::Min));
                }
            });
        }
        self.is_new = false;
        if filled != place.what_if {
            cx.send(Command::SetWhatIf(Box::new(filled)));
        }
    }
}

/// What can be done, what is under way, and why something does not do.
fn buttons(ui: &mut Ui, cx: &Cx<'_>, error: Option<&str>) {
    let running = cx.session.trying();
    ui.horizontal_wrapped(|ui| {
        ui.add_enabled_ui(error.is_none() && running.is_none(), |ui| {
            let help = "Serves the recorded requests again as filled in below, and adds a row to the table";
            if ui.button("Try it").on_hover_text(help).clicked() {
                cx.send(Command::WhatIf(WhatIfDeed::Run));
            }
            let help = "All sensible settings that the recording's release knows, on this card, the best first";
            if ui.button("Try all settings").on_hover_text(help).clicked() {
                cx.send(Command::WhatIf(WhatIfDeed::Sweep));
            }
        });
        if let Some(status) = &running {
            if ui.button("Cancel").clicked() {
                cx.send(Command::Cancel(status.id));
            }
            let share = status.progress.fraction().map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
            ui.label(RichText::new(format!("{}{share}", status.progress.stage_name())).color(cx.tokens.weak));
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
        }
    });
    if let Some(error) = error {
        ui.add(egui::Label::new(RichText::new(error).color(cx.tokens.error)).wrap());
    }
}

/// How results stand in their room, in points.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arranged {
    /// The chart under the table, with the heights of both.
    Stacked(f32, f32),
    /// The chart beside the table, with the table's width and the height of both.
    Beside(f32, f32),
}

/// Finds place for table, text and chart below the line of buttons: all of it is seen at once where there is room; where
/// there is none, what is left over is scrolled to.
fn arrange(room: Vec2, rows: usize, told: f32) -> Arranged {
    let rows = rows as f32;
    let least = ROW * (1.5 + rows.min(LEAST_ROWS));
    let for_both = room.y - told;
    if for_both < least + LEAST_CHART_PT && BESIDE_PT <= room.x {
        return Arranged::Beside(room.x * TABLE_SHARE, room.y.max(least + told));
    }
    let table = (ROW * (rows + 1.5)).min(for_both * 0.5).max(least);
    Arranged::Stacked(table, (for_both - table).max(LEAST_CHART_PT))
}

impl WhatIfView {
    fn results(&mut self, ui: &mut Ui, cx: &Cx<'_>, room: Vec2) {
        let rows = cx.session.tries().map_or(&[][..], |tries| tries.rows());
        let Some(last) = rows.last() else {
            return cx.empty(
                ui,
                "Nothing was tried yet. Change a setting, the card or the job itself and try it, or try all settings: the \
                 requests are served again, and each run becomes a row here beside the recording.",
            );
        };
        let newest = cx.session.tries().and_then(|tries| tries.newest());
        if self.newest != newest || self.chosen.is_none() {
            (self.newest, self.chosen) = (newest, newest);
            self.is_new = true;
        }
        self.chart.retain(rows);
        let mut sorted: Vec<&Try> = rows.iter().collect();
        sort(&mut sorted, self.sort);
        let chosen = rows.iter().find(|row| Some(row.number) == self.chosen).unwrap_or(last);
        if self.is_new
            && let Some(place) = sorted.iter().position(|row| row.number == chosen.number)
        {
            self.table.reveal(place);
        }
        ui.add_space(UNIT);
        let top = ui.cursor().min.y;
        self.actions(ui, cx, chosen, &sorted);
        // Between table, text and chart there is space too.
        let between = UNIT + 4.0 * ui.spacing().item_spacing.y;
        let room = vec2(room.x, room.y - (ui.cursor().min.y - top) - between);
        let told = |ui: &Ui, width: f32| ui.painter().layout_job(told(ui, cx, chosen, width - 4.0 * UNIT));
        let whole = told(ui, room.x);
        match arrange(room, rows.len(), whole.size().y + 2.0 * UNIT) {
            Arranged::Stacked(table, chart) => {
                self.rows(ui, cx, &sorted, chosen, vec2(room.x, table));
                tell(ui, chosen, whole);
                self.chart.show(ui, cx, rows, chosen, vec2(room.x, chart));
            }
            Arranged::Beside(width, height) => {
                let text = told(ui, width);
                let table = (height - text.size().y - 3.0 * UNIT).max(ROW * (1.5 + LEAST_ROWS.min(rows.len() as f32)));
                ui.horizontal_top(|ui| {
                    ui.spacing_mut().item_spacing.x = 0.0;
                    column_of(ui, vec2(width, height), |ui| {
                        self.rows(ui, cx, &sorted, chosen, vec2(width, table));
                        tell(ui, chosen, text);
                    });
                    let size = vec2(room.x - width, height);
                    column_of(ui, size, |ui| self.chart.show(ui, cx, rows, chosen, size));
                });
            }
        }
    }

    /// The table, which is scrolled sideways where it is wider than its room.
    fn rows(&mut self, ui: &mut Ui, cx: &Cx<'_>, sorted: &[&Try], chosen: &Try, size: Vec2) {
        let (rect, _) = ui.allocate_exact_size(size, egui::Sense::hover());
        let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(rect).layout(egui::Layout::top_down(egui::Align::Min)));
        let least: f32 = COLUMNS.iter().map(|column| column.width + 3.0 * UNIT).sum();
        let width = size.x.max(least);
        // Names are cut first, so they get what is left over.
        let mut columns = COLUMNS;
        columns[1].width += width - least;
        ScrollArea::horizontal().id_salt("what if table").auto_shrink(false).show(&mut inside, |ui| {
            column_of(ui, vec2(width, size.y), |ui| {
                let content = TableContent { name: "what was tried", columns: &columns, sort: self.sort, rows: sorted.len() };
                let touch = self.table.show(ui, cx, &content, |place| {
                    sorted.get(place).map_or_else(TableRow::default, |row| TableRow {
                        selected: row.number == chosen.number,
                        mark: self.chart.colour(cx, row.number, chosen.number),
                        ..as_row(row)
                    })
                });
                if let Some(clicked) = touch.clicked.and_then(|place| sorted.get(place)) {
                    if ui.input(|input| input.modifiers.command) {
                        self.chart.toggle(clicked.number);
                    } else {
                        self.chosen = Some(clicked.number);
                    }
                }
                self.sort = touch.sorted.unwrap_or(self.sort);
            });
        });
    }

    /// What can be done with the row in front, and with all.
    fn actions(&mut self, ui: &mut Ui, cx: &Cx<'_>, chosen: &Try, sorted: &[&Try]) {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(2.0 * UNIT);
            ui.strong(format!("No. {}", chosen.number));
            let help = "A simulated snapshot in a tab of its own, which every view shows and every report tells of";
            if ui.small_button("Open as document").on_hover_text(help).clicked() {
                cx.send(Command::WhatIf(WhatIfDeed::Open(chosen.number)));
            }
            if let Some((_, line)) = copies(chosen)
                && ui.small_button("Copy setting").on_hover_text(&line).clicked()
            {
                ui.copy_text(line);
            }
            let mut keeps = self.chart.keeps(chosen.number);
            let help = format!(
                "Its line stays when another row is in front: up to {} rows beside the recording. Ctrl+click on a row does the same.",
                MOST_LINES - 1
            );
            ui.add_enabled_ui(keeps || self.chart.has_room(), |ui| {
                if ui.checkbox(&mut keeps, "Keep in chart").on_hover_text(help).changed() {
                    self.chart.toggle(chosen.number);
                }
            });
            ui.separator();
            copy_buttons(ui, "All rows, with exact bytes", |csv| as_text(sorted, csv));
            if ui.small_button("Clear").on_hover_text("Takes all rows away").clicked() {
                cx.send(Command::WhatIf(WhatIfDeed::Clear));
            }
        });
    }
}

/// A room of exactly this size, filled from the top.
fn column_of<R>(ui: &mut Ui, size: Vec2, fill: impl FnOnce(&mut Ui) -> R) {
    ui.allocate_ui_with_layout(size, egui::Layout::top_down(egui::Align::Min), |ui| {
        ui.set_min_size(size);
        ui.set_max_size(size);
        fill(ui);
    });
}

/// What can be copied of a row's settings: what the menu calls it, and the line.
fn copies(row: &Try) -> Option<(String, String)> {
    let is_pytorch = row.row.scenario.policy == PolicyKind::Caching;
    is_pytorch.then(|| ("Copy as setting".to_owned(), format!("{}={}", conf::VARIABLE, row.row.settings)))
}

/// What a row stands for: the smallest card, how the job was changed and what that takes for granted, and how far the
/// figures can be trusted.
fn told(ui: &Ui, cx: &Cx<'_>, chosen: &Try, width: f32) -> LayoutJob {
    let fidelity = &chosen.what_if.fidelity;
    let mut job = LayoutJob::default();
    job.wrap.max_width = width.max(1.0);
    let font = TextStyle::Body.resolve(ui.style());
    let mut add = |text: &str, colour| job.append(text, 0.0, TextFormat::simple(font.clone(), colour));
    match &chosen.row.smallest {
        Some(Some(card)) => add(
            &format!(
                "The smallest card that serves all: {} for the allocator, {} with what others hold. ",
                Bytes(card.capacity),
                Bytes(card.total)
            ),
            cx.tokens.text,
        ),
        Some(None) => add("No card serves all: the memory fraction is too small for any. ", cx.tokens.text),
        None => {}
    }
    if let Some(change) = &chosen.row.change {
        add(&format!("The job is changed: {}. ", change.brief()), cx.tokens.text);
        add(&format!("{} ", change.assumption.replace(char::is_control, " ")), cx.tokens.weak);
    }
    let (placed, all) = (grouped(fidelity.placed_as_recorded), grouped(fidelity.allocations));
    let as_it_is = if chosen.row.change.is_some() { "As recorded, " } else { "" };
    let mut text = format!("{as_it_is}{placed} of {all} allocations lie where they lay in the recording");
    let colour = match confidence(&chosen.what_if) {
        None => cx.tokens.weak,
        Some(words) => {
            text += words;
            cx.tokens.caution
        }
    };
    if let Some(event) = fidelity.first_divergence {
        text += &format!("; first divergence at event {}", grouped(u64::from(event.0)));
    }
    add(&format!("{text}. "), colour);
    let underline = egui::Stroke::new(1.0, cx.tokens.weak);
    job.append("What is assumed", 0.0, TextFormat { underline, ..TextFormat::simple(font, cx.tokens.weak) });
    job
}

/// The text of a row, with all that is assumed on hover.
fn tell(ui: &mut Ui, chosen: &Try, text: Arc<egui::Galley>) {
    let assumed = words::rests_on([&chosen.row], &chosen.what_if, "“Recorded with”");
    ui.add_space(UNIT);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        ui.add_space(2.0 * UNIT);
        ui.label(text).on_hover_text(assumed);
    });
    ui.add_space(UNIT);
}

/// Words for less than full confidence.
fn confidence(what_if: &WhatIf) -> Option<&'static str> {
    let fidelity = &what_if.fidelity;
    if what_if.is_exact() {
        None
    } else if fidelity.placed_as_recorded * 100 < fidelity.allocations * 99 {
        Some(": take the figures as a rough guide")
    } else {
        Some(": take the figures as close, not exact")
    }
}

/// What a row is called: how the job was changed, the settings, the card where it is another.
pub fn name_of(row: &Try) -> String {
    let ran = if row.row.scenario.policy != PolicyKind::Caching {
        row.row.policy().to_owned()
    } else if row.row.settings.is_empty() {
        "PyTorch's defaults".to_owned()
    } else {
        row.row.settings.clone()
    };
    let mut name = if row.row.is_recorded { format!("{ran} (as recorded)") } else { ran };
    if let Some(change) = &row.row.change {
        name = format!("{}; {name}", change.brief());
    }
    if let Some(total) = row.row.scenario.total.filter(|total| Some(*total) != row.what_if.recorded.total) {
        name += &format!(", {} card", Bytes(total));
    }
    name
}

/// The name of a row, with what a change of the job takes for granted on hover.
fn what_was_tried(row: &Try) -> TableCell {
    let cell = TableCell::text(name_of(row));
    match &row.row.change {
        Some(change) => TableCell { exact: format!("{}\n{}", cell.text, change.assumption), ..cell },
        None => cell,
    }
}

fn cells(row: &Try) -> Vec<TableCell> {
    let (counters, range) = (&row.row.outcome.counters, row.row.range.as_ref());
    let bytes = |value, range| {
        let exact = TableCell::bytes(value).exact;
        TableCell { text: words::bytes(value, range), exact, weak: false }
    };
    let count = |value, range| TableCell::number(words::count(value, range));
    vec![
        TableCell::number(row.number.to_string()),
        what_was_tried(row),
        bytes(counters.reserved.peak, range.map(|range| &range.reserved)),
        row.row.spare().map_or_else(|| TableCell::number("no end").weak(), TableCell::bytes),
        TableCell::text(words::end(&row.row.outcome, range)),
        bytes(counters.allocated.peak, range.map(|range| &range.allocated)),
        count(counters.segments.peak, range.map(|range| &range.segments)),
        count(counters.retries, range.map(|range| &range.retries)),
        count(counters.device_allocs, range.map(|range| &range.device_allocs)),
        count(counters.device_frees, range.map(|range| &range.device_frees)),
    ]
}

fn as_row(row: &Try) -> TableRow {
    TableRow {
        name: format!("No. {}: {}", row.number, name_of(row)),
        cells: cells(row),
        copies: copies(row),
        failed: row.row.outcome.failure.is_some(),
        ..TableRow::default()
    }
}

fn as_text(rows: &[&Try], csv: bool) -> String {
    let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
    let copied = |row: &&Try| -> Vec<String> {
        let mut texts: Vec<String> = cells(row).iter().map(TableCell::copied).collect();
        // What is taken for granted is told on hover, and stays out of the table.
        texts[1] = name_of(row);
        texts
    };
    lines(&titles, rows.iter().map(copied), csv)
}

fn sort(rows: &mut [&Try], by: TableSort) {
    let key = |row: &Try| {
        let counters = &row.row.outcome.counters;
        match by.column {
            2 => counters.reserved.peak,
            3 => row.row.spare().unwrap_or(u64::MAX),
            5 => counters.allocated.peak,
            6 => counters.segments.peak,
            7 => counters.retries,
            8 => counters.device_allocs,
            9 => counters.device_frees,
            4 => row.row.outcome.failure.map_or(u64::MAX, |failure| u64::from(failure.event.0)),
            _ => u64::from(row.number),
        }
    };
    if by.column == 1 {
        rows.sort_by_key(|row| name_of(row));
    } else {
        rows.sort_by_key(|row| key(row));
    }
    if by.descending {
        rows.reverse();
    }
}
