//! PyTorch's table of its counters at the cursor, to compare with what a program printed.
//!
//! Always: rows and figures are those of `torch.cuda.memory_summary()`; what is copied is that table, letter by letter.

use crate::analysis::{MemorySummary, StatScope, SummaryReach};
use crate::base::{Bytes, grouped};
use crate::model::DeviceMemory;
use crate::report::memory_summary::{self, SummaryRow};
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::with_foot;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort};
use crate::ui::widgets::text::known_moment;
use egui::{Align, Label, Layout, RichText, Ui, UiBuilder};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "memory_summary",
    title: "Memory summary",
    help: "The table that torch.cuda.memory_summary() printed at the cursor, to compare with a log.",
    open: || Box::new(MemorySummaryView::default()),
};

#[derive(Clone, Default)]
struct MemorySummaryView {
    table: Table,
}

const fn column(title: &'static str, help: &'static str, width: f32) -> TableColumn {
    TableColumn { title, help, width, number: true, sorts: false }
}

const METRIC: TableColumn =
    TableColumn { number: false, ..column("Metric", "PyTorch's name for it. Point at a row to read what it means.", 170.0) };
const NOW: TableColumn = column("Cur Usage", "At the cursor.", 92.0);
const REST: TableColumn = column("", "", 0.0);

/// Columns where the recording holds the life of the process.
const WHOLE: [TableColumn; 6] = [
    METRIC,
    NOW,
    column("Peak Usage", "The most up to the cursor, unless the program reset its peaks.", 92.0),
    column("Tot Alloc", "All that was added up to the cursor.", 92.0),
    column("Tot Freed", "All that was taken away up to the cursor.", 92.0),
    REST,
];

/// Columns where it began later, or holds no history.
const PART: [TableColumn; 6] = [
    METRIC,
    NOW,
    column("Peak*", "The most from the start of the recording to the cursor. What came before it is not in the file.", 92.0),
    column("Alloc*", "All that was added from the start of the recording to the cursor.", 92.0),
    column("Freed*", "All that was taken away from the start of the recording to the cursor.", 92.0),
    REST,
];

impl View for MemorySummaryView {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((_, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if memory.ordinal < 0 {
            return cx.empty(ui, "PyTorch's memory summary counts GPU memory. Choose a GPU above to see its own.");
        }
        if !memory.tells_segments() {
            return cx.empty(ui, "PyTorch's memory summary counts segments, and this file tells nothing of them.");
        }
        let answer = cx.ask::<MemorySummary>(cx.cursor());
        cx.show(ui, &answer, |ui, summary| self.list(ui, cx, memory, summary));
    }
}

impl MemorySummaryView {
    fn list(&mut self, ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, summary: &MemorySummary) {
        let rows = memory_summary::rows(summary);
        let columns = if summary.reach == SummaryReach::Whole { &WHOLE } else { &PART };
        let sort = TableSort { column: usize::MAX, descending: false };
        let content = TableContent { name: "memory summary", columns, sort, rows: rows.len() };
        let (body, foot) = with_foot(ui);
        ui.scope_builder(UiBuilder::new().max_rect(body), |ui| {
            self.table.show(ui, cx, &content, |row| table_row(&rows, row));
        });
        ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::right_to_left(Align::Center)), |ui| {
            ui.spacing_mut().item_spacing.x = UNIT;
            ui.add_space(UNIT);
            let help = "Copies the table as torch.cuda.memory_summary() prints it.";
            if ui.small_button("Copy as text").on_hover_text(help).clicked() {
                ui.copy_text(memory_summary::text(summary));
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.add_space(2.0 * UNIT);
                totals(ui, cx, memory, summary);
            });
        });
    }
}

fn table_row(rows: &[SummaryRow], place: usize) -> TableRow {
    let row = &rows[place];
    let is_part = row.metric.is_some_and(|(_, scope)| scope != StatScope::All);
    let figure = |value: Option<u64>| {
        let cell = match value {
            None => TableCell { exact: "The recording cannot tell.".to_owned(), ..TableCell::number("–") },
            Some(value) if row.is_bytes => TableCell::bytes(value),
            Some(value) => TableCell::number(grouped(value)),
        };
        if is_part { cell.weak() } else { cell }
    };
    let title = row.title.trim_start();
    let key = row.metric.map_or_else(|| row.key.to_owned(), |(_, scope)| format!("{}.{}", row.key, scope.name()));
    let name = TableCell { text: title.to_owned(), exact: format!("{}\n{key} in memory_stats()", row.help), weak: is_part };
    let mut cells = vec![name];
    cells.extend(row.figures.named().map(|(_, value)| figure(value)));
    let told = row.figures.current.map_or_else(|| "–".to_owned(), |value| told(row, value));
    TableRow { name: format!("{key}, {told}"), cells, depth: u8::from(is_part), ..TableRow::default() }
}

fn told(row: &SummaryRow, value: u64) -> String {
    if row.is_bytes { Bytes(value).to_string() } else { grouped(value) }
}

/// The head of PyTorch's table, and what it cannot tell.
fn totals(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, summary: &MemorySummary) {
    let count = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), grouped);
    let head = format!(
        "Device {} at {}: CUDA OOMs {}, cudaMalloc retries {}",
        summary.device,
        known_moment(memory, summary.position),
        count(summary.ooms),
        count(summary.retries)
    );
    let notes = memory_summary::notes(summary);
    let text = std::iter::once(head.as_str()).chain(notes.iter().copied()).collect::<Vec<_>>().join(". ");
    let label = Label::new(RichText::new(text).color(cx.tokens.weak)).truncate().show_tooltip_when_elided(false);
    let hover = std::iter::once(head.as_str()).chain(notes).collect::<Vec<_>>().join("\n");
    ui.add(label).on_hover_text(hover);
}
