//! What if: the recorded requests served again under other settings or on another card, beside the recording.
//!
//! Always: figures are those of `whatif` on the command line; how far the model reproduces the recording stands beside
//! them; a frame only shows what jobs found.

use crate::analysis::UsageTimeline;
use crate::base::{Bytes, grouped};
use crate::chart::{Group, Ink, Series, Unit};
use crate::paint::{SeriesView, series as plot};
use crate::report::what_if::WhatIf;
use crate::report::what_if_words as words;
use crate::session::Command;
use crate::session::what_if::{Try, WhatIfDeed};
use crate::simulator::{PolicyKind, conf};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::views::what_if_form as form;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, copy_buttons, lines};
use egui::{Id, RichText, ScrollArea, Ui, vec2};
use std::collections::BTreeSet;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "what-if",
    title: "What if",
    help: "The job's requests served again under other allocator settings or on another card: would it have fitted, and with \
           how much to spare?",
    open: || {
        Box::new(WhatIfView { table: Table::default(), sort: BY_NUMBER, chosen: None, newest: None, unseen: BTreeSet::new() })
    },
};

const BY_NUMBER: TableSort = TableSort { column: 0, descending: false };
/// Width of the form, in points.
const FORM_PT: f32 = 84.0 * UNIT;
/// The table has at least these rows before there is room for the chart.
const LEAST_ROWS: f32 = 5.0;
/// Height from which on the chart is worth drawing, in points.
const LEAST_CHART_PT: f32 = 110.0;

#[derive(Clone)]
struct WhatIfView {
    table: Table,
    sort: TableSort,
    /// The number of the row that was clicked last.
    chosen: Option<u32>,
    /// The number of the row that was asked for last, when this was shown last.
    newest: Option<u32>,
    /// No line of the chart is hidden; it asks for a set.
    unseen: BTreeSet<&'static str>,
}

const fn column(title: &'static str, width: f32, number: bool, help: &'static str) -> TableColumn {
    TableColumn { title, help, width, number, sorts: true }
}

const COLUMNS: [TableColumn; 10] = [
    column("No.", 24.0, true, "In the order in which they were tried"),
    column("Settings", 190.0, false, "The settings string of the run"),
    column("Ends", 170.0, false, "How the run ends"),
    column("Reserved", 110.0, true, "Most bytes taken from the driver"),
    column("Spare", 76.0, true, "What is left of the memory the allocator can hold where most is reserved"),
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
        let wide = 2.0 * FORM_PT < ui.available_width();
        let height = ui.available_height();
        let mut fields = |ui: &mut Ui, height: f32| {
            ScrollArea::vertical().id_salt("what if form").max_height(height).auto_shrink(false).show(ui, |ui| {
                egui::Frame::new().inner_margin(2.0 * UNIT).show(ui, |ui| {
                    buttons(ui, cx, error.as_deref());
                    ui.add_space(UNIT);
                    form::show(ui, cx, &document.snapshot, memory, &mut filled);
                });
            });
        };
        if wide {
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing.x = 0.0;
                let room = vec2(FORM_PT, height);
                ui.allocate_ui_with_layout(room, egui::Layout::top_down(egui::Align::Min), |ui| {
                    ui.set_min_size(room);
                    ui.set_max_width(FORM_PT);
                    ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                    fields(ui, height);
                });
                ui.vertical(|ui| {
                    ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                    self.results(ui, cx);
                });
            });
        } else {
            fields(ui, height * 0.5);
            self.results(ui, cx);
        }
        if filled != place.what_if {
            cx.send(Command::SetWhatIf(Box::new(filled)));
        }
    }
}

/// What can be done, what is under way, and why something does not do.
fn buttons(ui: &mut Ui, cx: &Cx<'_>, error: Option<&str>) {
    let running = cx.session.trying();
    ui.horizontal(|ui| {
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

impl WhatIfView {
    fn results(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let rows = cx.session.tries().map_or(&[][..], |tries| tries.rows());
        let Some(last) = rows.last() else {
            return cx.empty(
                ui,
                "Nothing was tried yet. Change a setting or the card and try it, or try all settings: the recorded requests are \
                 served again, and each run becomes a row here beside the recording.",
            );
        };
        let newest = cx.session.tries().and_then(|tries| tries.newest());
        if self.newest != newest || self.chosen.is_none() {
            (self.newest, self.chosen) = (newest, newest);
        }
        let mut sorted: Vec<&Try> = rows.iter().collect();
        sort(&mut sorted, self.sort);
        let chosen = rows.iter().find(|row| Some(row.number) == self.chosen).unwrap_or(last);
        ui.add_space(UNIT);
        actions(ui, cx, chosen, &sorted);
        tell(ui, cx, chosen);
        let room = ui.available_height();
        let wanted = ROW * (sorted.len() as f32 + 1.5).max(LEAST_ROWS);
        let chart = room - wanted.min(room * 0.5).max(ROW * LEAST_ROWS);
        let chart = if LEAST_CHART_PT <= chart { chart } else { 0.0 };
        ui.allocate_ui(vec2(ui.available_width(), (room - chart).max(1.0)), |ui| {
            ui.set_min_height((room - chart).max(1.0));
            let content = TableContent { name: "what was tried", columns: &COLUMNS, sort: self.sort, rows: sorted.len() };
            let touch = self.table.show(ui, cx, &content, |place| {
                sorted.get(place).map_or_else(TableRow::default, |row| as_row(row, row.number == chosen.number))
            });
            if let Some(clicked) = touch.clicked.and_then(|place| sorted.get(place)) {
                self.chosen = Some(clicked.number);
            }
            self.sort = touch.sorted.unwrap_or(self.sort);
        });
        if 0.0 < chart {
            self.chart(ui, cx, chosen, chart);
        }
    }

    /// What was reserved over time: recorded, and by the row in front.
    fn chart(&self, ui: &mut Ui, cx: &Cx<'_>, chosen: &Try, height: f32) {
        let usage = cx.ask::<UsageTimeline>(());
        let (Some(usage), Some(clock), Some(place)) = (usage.value(), cx.session.clock(), cx.place()) else { return };
        let Some(reserved) = &chosen.reserved else {
            ui.horizontal(|ui| {
                ui.add_space(2.0 * UNIT);
                if ui.button("Draw it over time").on_hover_text("Beside the recording, by its events").clicked() {
                    cx.send(Command::WhatIf(WhatIfDeed::Draw(chosen.number)));
                }
            });
            return;
        };
        let line = |name, help, ink, curve| Series {
            name,
            help,
            ink,
            unit: Unit::Bytes,
            group: Group::Device,
            shown: true,
            curve,
            bucket: None,
        };
        let series = [
            line("recorded", "What was reserved in the recording", Ink::Reserved, &usage.reserved),
            line("what if", "What the row in front reserves", Ink::Series(1), reserved),
        ];
        let capacity = chosen.row.scenario.capacity;
        let key = ROW;
        ui.horizontal(|ui| {
            ui.add_space(2.0 * UNIT);
            ui.label(RichText::new("Reserved over time:").color(cx.tokens.weak));
            for (ink, text) in [
                (Ink::Reserved, "recorded".to_owned()),
                (Ink::Series(1), format!("No. {}", chosen.number)),
                (Ink::Capacity, capacity.map_or(String::new(), |bytes| format!("what the allocator can hold, {}", Bytes(bytes)))),
            ] {
                if !text.is_empty() {
                    ui.label(RichText::new(format!("— {text}")).color(crate::paint::colour(cx.tokens.palette, ink)));
                }
            }
        });
        let view = SeriesView {
            id: Id::unique("what if over time"),
            series: &series,
            unit: Unit::Bytes,
            clock: &clock.clock,
            time: cx.session.window(&clock.clock),
            markers: &[],
            level: capacity.map(|bytes| (bytes, Ink::Capacity)),
            labels: true,
            pointer: None,
            cursor: Some(place.cursor),
            range: None,
            hidden: &self.unseen,
            palette: cx.tokens.palette,
            size: vec2(ui.available_width(), (height - key - 2.0 * UNIT).max(20.0)),
        };
        plot::show(ui, &view);
    }
}

/// What can be done with the row in front, and with all.
fn actions(ui: &mut Ui, cx: &Cx<'_>, chosen: &Try, sorted: &[&Try]) {
    ui.horizontal_wrapped(|ui| {
        ui.add_space(2.0 * UNIT);
        ui.strong(format!("No. {}", chosen.number));
        let help = "A simulated snapshot in a tab of its own, which every view shows and every report tells of";
        if ui.small_button("Open as document").on_hover_text(help).clicked() {
            cx.send(Command::WhatIf(WhatIfDeed::Open(chosen.number)));
        }
        let line = format!("{}={}", conf::VARIABLE, chosen.row.settings);
        if chosen.row.scenario.policy == PolicyKind::Caching && !chosen.row.settings.is_empty() {
            if ui.small_button("Copy setting").on_hover_text(&line).clicked() {
                ui.copy_text(line);
            }
        } else if chosen.row.scenario.policy == PolicyKind::Caching {
            ui.label(RichText::new(format!("PyTorch's defaults: leave {} unset.", conf::VARIABLE)).color(cx.tokens.weak));
        }
        ui.separator();
        copy_buttons(ui, "All rows, with exact bytes", |csv| as_text(sorted, csv));
        if ui.small_button("Clear").on_hover_text("Takes all rows away").clicked() {
            cx.send(Command::WhatIf(WhatIfDeed::Clear));
        }
    });
}

/// How far the figures can be trusted, the smallest card, and what is assumed.
fn tell(ui: &mut Ui, cx: &Cx<'_>, chosen: &Try) {
    let fidelity = &chosen.what_if.fidelity;
    let (placed, all) = (grouped(fidelity.placed_as_recorded), grouped(fidelity.allocations));
    let mut text = format!("{placed} of {all} allocations lie where they lay in the recording");
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
    text.push('.');
    if let Some(smallest) = &chosen.row.smallest {
        text = match smallest {
            Some(card) => format!(
                "The smallest card that serves all: {} for the allocator, {} with what others hold. {text}",
                Bytes(card.capacity),
                Bytes(card.total)
            ),
            None => format!("No card serves all: the memory fraction is too small for any. {text}"),
        };
    }
    let assumed = words::rests_on([&chosen.row], &chosen.what_if, "“Recorded with”");
    ui.horizontal_wrapped(|ui| {
        ui.add_space(2.0 * UNIT);
        ui.label(RichText::new(text).color(colour)).on_hover_text(&assumed);
        ui.label(RichText::new("What is assumed").color(cx.tokens.weak).underline()).on_hover_text(assumed);
    });
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

fn name_of(row: &Try) -> String {
    let ran = if row.row.scenario.policy != PolicyKind::Caching {
        row.row.policy().to_owned()
    } else if row.row.settings.is_empty() {
        "PyTorch's defaults".to_owned()
    } else {
        row.row.settings.clone()
    };
    let mut name = if row.row.is_recorded { format!("{ran} (as recorded)") } else { ran };
    if let Some(total) = row.row.scenario.total.filter(|total| Some(*total) != row.what_if.recorded.total) {
        name += &format!(", {} card", Bytes(total));
    }
    name
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
        TableCell::text(name_of(row)),
        TableCell::text(words::end(&row.row.outcome, range)),
        bytes(counters.reserved.peak, range.map(|range| &range.reserved)),
        row.row.spare().map_or_else(|| TableCell::number("no end").weak(), TableCell::bytes),
        bytes(counters.allocated.peak, range.map(|range| &range.allocated)),
        count(counters.segments.peak, range.map(|range| &range.segments)),
        count(counters.retries, range.map(|range| &range.retries)),
        count(counters.device_allocs, range.map(|range| &range.device_allocs)),
        count(counters.device_frees, range.map(|range| &range.device_frees)),
    ]
}

fn as_row(row: &Try, selected: bool) -> TableRow {
    TableRow {
        name: format!("No. {}: {}", row.number, name_of(row)),
        cells: cells(row),
        selected,
        failed: row.row.outcome.failure.is_some(),
        ..TableRow::default()
    }
}

fn as_text(rows: &[&Try], csv: bool) -> String {
    let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
    lines(&titles, rows.iter().map(|row| cells(row).iter().map(TableCell::copied).collect()), csv)
}

fn sort(rows: &mut [&Try], by: TableSort) {
    let key = |row: &Try| {
        let counters = &row.row.outcome.counters;
        match by.column {
            3 => counters.reserved.peak,
            4 => row.row.spare().unwrap_or(u64::MAX),
            5 => counters.allocated.peak,
            6 => counters.segments.peak,
            7 => counters.retries,
            8 => counters.device_allocs,
            9 => counters.device_frees,
            2 => row.row.outcome.failure.map_or(u64::MAX, |failure| u64::from(failure.event.0)),
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
