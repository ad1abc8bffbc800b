//! The named spans of a device as a table, by name, and two of them side by side.
//!
//! Always: figures come from a job and are those of the charts at the ends of each span; a span is the same here and
//! under the pictures over time.

use crate::analysis::{Span, SpanFigures, SpanGroup, SpanKind, SpanSums, Spread};
use crate::base::{Bytes, StringId, grouped};
use crate::chart::axis::duration_label;
use crate::model::{DeviceMemory, Position, Snapshot};
use crate::session::Command;
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, lines};
use crate::ui::widgets::text::moment;
use egui::{Align, Grid, Layout, Rect, RichText, ScrollArea, TextEdit, Ui, UiBuilder, pos2};
use std::cmp::Reverse;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "spans",
    title: "Spans",
    help: "Annotations, user metadata, notes and compiled regions: how long each took, what it allocated and what it kept. \
           Click selects a span as a range, a double click makes it the window, ctrl and click compares it with another.",
    open: || Box::new(SpansView::default()),
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Page {
    #[default]
    Each,
    ByName,
}

#[derive(Clone, Default)]
struct SpansView {
    page: Page,
    filter: String,
    each: Ordered,
    by_name: Ordered,
    /// The figures that `picked` is about.
    of: Option<Arc<SpanFigures>>,
    /// The span that was clicked, and the one it is compared with.
    picked: (Option<usize>, Option<usize>),
    /// What was said about the marks that were set.
    told: Option<&'static str>,
}

/// A table with the order of its rows.
#[derive(Clone)]
struct Ordered {
    table: Table,
    sort: TableSort,
    /// The order, with what it follows from.
    order: Option<(TableSort, String, Vec<usize>)>,
}

impl Default for Ordered {
    fn default() -> Self {
        Ordered { table: Table::default(), sort: TableSort { column: 0, descending: false }, order: None }
    }
}

const fn column(title: &'static str, help: &'static str, width: f32, number: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts: true }
}

const EACH: [TableColumn; 10] = [
    column("Begins", "The first event of the span.", 74.0, true),
    column("Took", "Time from its beginning to its end.", 78.0, true),
    column("Events", "How many events lie in it.", 60.0, true),
    column("At start", "Allocated before its first event.", 78.0, true),
    column("At end", "Allocated after its last event.", 78.0, true),
    column("Change", "What was allocated in it and not freed, less what was older and freed in it.", 84.0, true),
    column("Peak", "The most allocated at any moment of it.", 78.0, true),
    column("Allocations", "Blocks allocated in it.", 76.0, true),
    column("Allocated", "Sizes of the blocks allocated in it.", 78.0, true),
    column("Name", "What the program called it, and what it comes from on hover.", 0.0, false),
];

const BY_NAME: [TableColumn; 9] = [
    column("Spans", "How many spans have this name.", 54.0, true),
    column("Shortest", "The shortest of them.", 78.0, true),
    column("Middle", "As many took less time as took more.", 78.0, true),
    column("Longest", "The longest of them.", 78.0, true),
    column("Middle peak", "As many peak lower as peak higher.", 84.0, true),
    column("Highest peak", "The highest peak in any of them.", 86.0, true),
    column("Middle change", "As many kept less as kept more.", 94.0, true),
    column("Most kept", "The largest change in any of them.", 84.0, true),
    column("Name", "What the program called them, and what they come from on hover.", 0.0, false),
];

/// What the view is about in one frame.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    figures: &'a Arc<SpanFigures>,
}

impl Shown<'_> {
    fn name(&self, name: StringId) -> &str {
        self.snapshot.stacks.strings.get(name)
    }
}

impl View for SpansView {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if !memory.has_history() {
            return cx.empty(ui, "This device has no history, so there is nothing that a span could hold.");
        }
        let answer = cx.ask::<SpanFigures>(());
        let Some(figures) = answer.value() else { return cx.show(ui, &answer, |_, _| {}) };
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, figures)) {
            self.of = Some(Arc::clone(figures));
            (self.picked, self.told) = ((None, None), None);
            (self.each.order, self.by_name.order) = (None, None);
        }
        let shown = Shown { snapshot: &document.snapshot, memory, figures };
        if figures.spans.rows.is_empty() {
            return cx.empty(ui, &nothing(&shown));
        }
        self.bar(ui, cx, &shown);
        if let Some(words) = missing(&shown) {
            ui.horizontal_wrapped(|ui| {
                ui.add_space(UNIT);
                ui.label(RichText::new(words).color(cx.tokens.weak));
            });
        }
        let room = ui.available_rect_before_wrap();
        let panel = match self.picked {
            (Some(first), Some(second)) => Some((first, second)),
            (Some(_), None) | (None, _) => None,
        };
        // Two spans side by side need some ten lines; the table keeps at least as much.
        let below = if panel.is_some() { (12.0 * ROW).min(room.height() / 2.0) } else { 0.0 };
        let rows = Rect::from_min_max(room.min, pos2(room.max.x, room.max.y - below));
        ui.scope_builder(UiBuilder::new().max_rect(rows), |ui| match self.page {
            Page::Each => self.each(ui, cx, &shown),
            Page::ByName => self.by_name(ui, cx, &shown),
        });
        if let Some((first, second)) = panel {
            let place = Rect::from_min_max(pos2(room.min.x, rows.max.y + UNIT), room.max);
            ui.scope_builder(UiBuilder::new().max_rect(place), |ui| self.compare(ui, cx, &shown, first, second));
        }
    }
}

/// What the file says where it has no spans.
fn nothing(shown: &Shown<'_>) -> String {
    let untimed = shown.figures.spans.unplaced;
    if 0 < untimed {
        return format!(
            "This recording has {} annotations, but its events carry no times, so they cannot be placed among them.",
            grouped(untimed as u64)
        );
    }
    "This recording names no spans. Annotations (torch.profiler.record_function with global_record_annotations=True, since \
     PyTorch 2.5), user metadata and compiled regions would stand here."
        .to_owned()
}

/// What is not in the table.
fn missing(shown: &Shown<'_>) -> Option<String> {
    let spans = &shown.figures.spans;
    let mut words = Vec::new();
    if 0 < spans.unplaced {
        words.push(format!("{} annotations cannot be placed, as the events carry no times.", grouped(spans.unplaced as u64)));
    }
    if 0 < spans.outside {
        words.push(format!("{} annotations lie outside the recorded events.", grouped(spans.outside as u64)));
    }
    if 0 < spans.left_out {
        words.push(format!("{} of the briefest are left out.", grouped(spans.left_out as u64)));
    }
    (!words.is_empty()).then(|| words.join(" "))
}

impl SpansView {
    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            for (page, name) in [(Page::Each, "Each span"), (Page::ByName, "By name")] {
                if ui.selectable_label(page == self.page, name).clicked() {
                    self.page = page;
                }
            }
            let label = ui.label("Named");
            let field = TextEdit::singleline(&mut self.filter)
                .id(egui::Id::unique("spans filter"))
                .hint_text("part of a name")
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(36.0 * UNIT);
            if ui.add(field).labelled_by(label.id).changed() {
                (self.each.table, self.by_name.table) = (Table::default(), Table::default());
            }
            if !self.filter.is_empty() && ui.button("Clear filter").clicked() {
                self.filter.clear();
            }
            if let (Page::Each, Some(row)) = (self.page, self.picked.0) {
                self.deeds(ui, cx, shown, row);
            }
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.add_space(UNIT);
                for (title, csv) in [("Copy CSV", true), ("Copy table", false)] {
                    if self.page == Page::Each && ui.button(title).on_hover_text("Copies all spans, exact").clicked() {
                        ui.copy_text(copied(shown, csv));
                    }
                }
            });
        });
    }

    /// What can be done with the span that was clicked.
    fn deeds(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, row: usize) {
        let Some(span) = shown.figures.spans.rows.get(row) else { return };
        if ui.button("Make it the window").on_hover_text("All views show just this span").clicked() {
            show_span(cx, span);
        }
        let rows = &shown.figures.spans.rows;
        let later = |other: &usize| row < *other && rows[*other].kind == span.kind;
        // Steps have one name, or a number each in one row.
        let next = (0..rows.len())
            .filter(later)
            .find(|other| rows[*other].name == span.name)
            .or_else(|| (0..rows.len()).filter(later).find(|other| rows[*other].lane == span.lane));
        if let Some(next) = next
            && ui
                .button("Compare with the next")
                .on_hover_text("With the next span of the same name, or else the next one in its row")
                .clicked()
        {
            (self.picked.1, self.told) = (Some(next), None);
        }
        if self.picked.1.is_some() && ui.button("Close the comparison").clicked() {
            (self.picked.1, self.told) = (None, None);
        }
    }

    fn each(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let figures = shown.figures;
        let Ordered { table, sort, order } = &mut self.each;
        if !order.as_ref().is_some_and(|(by, filter, _)| by == sort && *filter == self.filter) {
            let mut rows: Vec<usize> = (0..figures.spans.rows.len())
                .filter(|row| is_named(shown, figures.spans.rows[*row].name, &self.filter))
                .collect();
            sort_rows(&mut rows, *sort, |row| {
                let (span, sums) = (&figures.spans.rows[row], &figures.sums[row]);
                match sort.column {
                    0 => Value::Number(span.from.0.into()),
                    1 => Value::Number(span.duration_us().map_or(-1, i128::from)),
                    2 => Value::Number(span.events().into()),
                    3 => Value::Number(sums.at_start.into()),
                    4 => Value::Number(sums.at_end.into()),
                    5 => Value::Number(sums.change()),
                    6 => Value::Number(sums.peak.into()),
                    7 => Value::Number(sums.allocations.into()),
                    8 => Value::Number(sums.allocated.into()),
                    _ => Value::Text(shown.name(span.name).to_owned()),
                }
            });
            *order = Some((*sort, self.filter.clone(), rows));
        }
        let Some((_, _, order)) = &order else { return };
        if order.is_empty() {
            return cx.empty(ui, "No span has this in its name. Clear the text.");
        }
        let content = TableContent { name: "spans", columns: &EACH, sort: *sort, rows: order.len() };
        let (first, second) = self.picked;
        let touch = table.show(ui, cx, &content, |place| {
            let row = order[place];
            let (span, sums) = (&figures.spans.rows[row], &figures.sums[row]);
            let name = shown.name(span.name);
            TableRow {
                name: format!("{name}, {}", moment(Position(span.from.0.saturating_add(1)))),
                cells: vec![
                    begins(span),
                    span.duration_us().map_or_else(TableCell::default, |us| TableCell::number(duration_label(us))),
                    TableCell::number(grouped(u64::from(span.events()))),
                    TableCell::bytes(sums.at_start),
                    TableCell::bytes(sums.at_end),
                    change(sums.change()),
                    TableCell::bytes(sums.peak),
                    TableCell::number(grouped(sums.allocations)),
                    TableCell::bytes(sums.allocated),
                    named(name, span.kind),
                ],
                selected: first == Some(row),
                related: second == Some(row),
                ..TableRow::default()
            }
        });
        if let Some(sorted) = touch.sorted {
            (*sort, *table) = (sorted, Table::default());
        }
        let Some(row) = touch.clicked.and_then(|place| order.get(place).copied()) else { return };
        let Some(span) = figures.spans.rows.get(row) else { return };
        let (with, twice) =
            ui.input(|input| (input.modifiers.command, input.pointer.button_double_clicked(egui::PointerButton::Primary)));
        self.told = None;
        match self.picked.0 {
            Some(first) if with && first != row => self.picked.1 = Some(row),
            _ if twice => show_span(cx, span),
            _ => {
                self.picked.0 = Some(row);
                cx.send(Command::SelectRange(span.from..span.to));
            }
        }
    }

    fn by_name(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let groups = &shown.figures.groups;
        let Ordered { table, sort, order } = &mut self.by_name;
        if !order.as_ref().is_some_and(|(by, filter, _)| by == sort && *filter == self.filter) {
            let mut rows: Vec<usize> = (0..groups.len()).filter(|row| is_named(shown, groups[*row].name, &self.filter)).collect();
            sort_rows(&mut rows, *sort, |row| {
                let SpanGroup { name, kind: _, rows, duration_us, peak, change, allocated: _ } = &groups[row];
                let time = |of: fn(&Spread<u64>) -> u64| Value::Number(duration_us.as_ref().map_or(-1, |all| of(all).into()));
                match sort.column {
                    0 => Value::Number(rows.len() as i128),
                    1 => time(|all| all.least),
                    2 => time(|all| all.middle),
                    3 => time(|all| all.most),
                    4 => Value::Number(peak.middle.into()),
                    5 => Value::Number(peak.most.into()),
                    6 => Value::Number(change.middle),
                    7 => Value::Number(change.most),
                    _ => Value::Text(shown.name(*name).to_owned()),
                }
            });
            *order = Some((*sort, self.filter.clone(), rows));
        }
        let Some((_, _, order)) = &order else { return };
        if order.is_empty() {
            return cx.empty(ui, "No span has this in its name. Clear the text.");
        }
        let content = TableContent { name: "spans by name", columns: &BY_NAME, sort: *sort, rows: order.len() };
        let touch = table.show(ui, cx, &content, |place| {
            let SpanGroup { name, kind, rows, duration_us, peak, change: kept, allocated: _ } = &groups[order[place]];
            let time = |of: fn(&Spread<u64>) -> u64| {
                duration_us.as_ref().map_or_else(TableCell::default, |all| TableCell::number(duration_label(of(all))))
            };
            TableRow {
                name: format!("{}, {} spans", shown.name(*name), rows.len()),
                cells: vec![
                    TableCell::number(grouped(rows.len() as u64)),
                    time(|all| all.least),
                    time(|all| all.middle),
                    time(|all| all.most),
                    TableCell::bytes(peak.middle),
                    TableCell::bytes(peak.most),
                    change(kept.middle),
                    change(kept.most),
                    named(shown.name(*name), *kind),
                ],
                ..TableRow::default()
            }
        });
        if let Some(sorted) = touch.sorted {
            (*sort, *table) = (sorted, Table::default());
        }
        // A name leads to its spans.
        if let Some(group) = touch.clicked.and_then(|place| groups.get(*order.get(place)?)) {
            self.filter = shown.name(group.name).to_owned();
            self.page = Page::Each;
            self.each.table = Table::default();
            self.picked = (group.rows.first().map(|row| *row as usize), None);
        }
    }

    /// Two spans side by side.
    fn compare(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, first: usize, second: usize) {
        let figures = shown.figures;
        let at = |row: usize| figures.spans.rows.get(row).zip(figures.sums.get(row));
        let (Some(a), Some(b)) = (at(first), at(second)) else { return };
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            let help = "Sets marks at the ends of both: the flame graph between these marks shows which stacks hold more or less";
            if ui.button("Mark both ends for the flame graph").on_hover_text(help).clicked() {
                self.told = Some(mark_both(cx, a.0.to, b.0.to));
            }
            if let Some(told) = self.told {
                ui.label(RichText::new(told).color(cx.tokens.weak));
            }
        });
        ScrollArea::vertical().id_salt("comparison of spans").auto_shrink(false).show(ui, |ui| {
            Grid::new("compared spans").num_columns(4).spacing([6.0 * UNIT, UNIT]).show(ui, |ui| {
                let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
                let short = |span: &Span| shown.name(span.name).chars().take(40).collect::<String>();
                ui.label("");
                for span in [a.0, b.0] {
                    let first = Position(span.from.0.saturating_add(1).min(shown.memory.end().0));
                    ui.strong(format!("{} from {}", short(span), moment(first)));
                }
                ui.strong("Difference");
                ui.end_row();
                for (name, text, value) in ROWS {
                    let values = [value(a), value(b)];
                    ui.label(weak(name));
                    for value in values {
                        ui.label(value.map_or_else(String::new, |value| text(value, false)));
                    }
                    if let [Some(a), Some(b)] = values {
                        ui.label(text(b - a, true));
                    }
                    ui.end_row();
                }
            });
        });
    }
}

type Figures<'a> = (&'a Span, &'a SpanSums);
/// A figure of a comparison: its name, how it reads (with a sign where it is a difference), and what it is.
type Row = (&'static str, fn(i128, bool) -> String, fn(Figures<'_>) -> Option<i128>);
const ROWS: [Row; 9] = [
    ("Took", time_text, |(span, _)| span.duration_us().map(i128::from)),
    ("Events", count_text, |(span, _)| Some(span.events().into())),
    ("Allocated at its start", bytes_text, |(_, sums)| Some(sums.at_start.into())),
    ("Allocated at its end", bytes_text, |(_, sums)| Some(sums.at_end.into())),
    ("Change", signed_bytes, |(_, sums)| Some(sums.change())),
    ("Peak", bytes_text, |(_, sums)| Some(sums.peak.into())),
    ("Allocations", count_text, |(_, sums)| Some(sums.allocations.into())),
    ("Frees", count_text, |(_, sums)| Some(sums.frees.into())),
    ("Bytes allocated", bytes_text, |(_, sums)| Some(sums.allocated.into())),
];

fn sign(value: i128, signed: bool) -> &'static str {
    match value.signum() {
        -1 => "−",
        1 if signed => "+",
        _ => "",
    }
}

fn magnitude(value: i128) -> u64 {
    u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX)
}

fn bytes_text(value: i128, signed: bool) -> String {
    format!("{}{}", sign(value, signed), Bytes(magnitude(value)).exact())
}

fn signed_bytes(value: i128, _: bool) -> String {
    bytes_text(value, true)
}

fn count_text(value: i128, signed: bool) -> String {
    format!("{}{}", sign(value, signed), grouped(magnitude(value)))
}

fn time_text(value: i128, signed: bool) -> String {
    format!("{}{}", sign(value, signed), duration_label(magnitude(value)))
}

/// A change of bytes with its sign, exact on hover.
fn change(value: i128) -> TableCell {
    let text = format!("{}{}", sign(value, true), Bytes(magnitude(value)));
    TableCell { text, exact: bytes_text(value, true), weak: false }
}

/// The first event of a span; that it began earlier is said on hover.
fn begins(span: &Span) -> TableCell {
    let open = match (span.open_start, span.open_end) {
        (true, true) => "Began before the recording and ended after it",
        (true, false) => "Began before the recording",
        (false, true) => "Did not end in the recording",
        (false, false) => "",
    };
    let text = if span.open_start { "earlier".to_owned() } else { grouped(u64::from(span.from.0)) };
    TableCell { text, exact: open.to_owned(), weak: !open.is_empty() }
}

/// A name; what it comes from is told on hover.
fn named(name: &str, kind: SpanKind) -> TableCell {
    TableCell { text: name.to_owned(), exact: format!("{}: {name}", kind.name()), weak: false }
}

fn is_named(shown: &Shown<'_>, name: StringId, filter: &str) -> bool {
    let filter = filter.trim();
    filter.is_empty() || shown.name(name).to_lowercase().contains(&filter.to_lowercase())
}

/// What rows are ordered by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i128),
    Text(String),
}

fn sort_rows(rows: &mut [usize], sort: TableSort, value: impl Fn(usize) -> Value) {
    if sort.descending {
        rows.sort_by_cached_key(|row| Reverse(value(*row)));
    } else {
        rows.sort_by_cached_key(|row| value(*row));
    }
}

/// Makes a span the window of all views.
fn show_span(cx: &Cx<'_>, span: &Span) {
    let Some(clock) = cx.session.clock() else { return };
    cx.send(Command::SetWindow(clock.clock.unit(span.from)..clock.clock.unit(span.to)));
}

/// Sets a mark at each of two moments that has none, and says what to do with them.
fn mark_both(cx: &Cx<'_>, first: Position, second: Position) -> &'static str {
    let marks = cx.place().map_or(&[][..], |place| &place.marks);
    for moment in [first, second] {
        if !marks.contains(&moment) {
            cx.send(Command::MoveCursor(moment));
            cx.send(Command::ToggleMark);
        }
    }
    "Both ends are marked: in the flame graph, show what lies between these marks."
}

/// All spans for the clipboard, exact.
fn copied(shown: &Shown<'_>, csv: bool) -> String {
    let head = [
        "name",
        "kind",
        "first event",
        "events",
        "µs",
        "allocated at start",
        "allocated at end",
        "peak",
        "allocations",
        "frees",
        "bytes allocated",
        "bytes freed",
    ];
    let rows = shown.figures.spans.rows.iter().zip(&shown.figures.sums).map(|(span, sums)| {
        let numbers = [sums.at_start, sums.at_end, sums.peak, sums.allocations, sums.frees, sums.allocated, sums.freed];
        let mut cells = vec![
            shown.name(span.name).to_owned(),
            span.kind.name().to_owned(),
            span.from.0.to_string(),
            span.events().to_string(),
            span.duration_us().map_or_else(String::new, |us| us.to_string()),
        ];
        cells.extend(numbers.map(|number| number.to_string()));
        cells
    });
    lines(&head, rows, csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_and_values_have_none() {
        for (text, value, signed, expected) in [
            (bytes_text as fn(i128, bool) -> String, 2048, false, "2.00 KiB (2 048 bytes)"),
            (bytes_text, -512, true, "−512 bytes"),
            (signed_bytes, 512, false, "+512 bytes"),
            (count_text, 12_345, true, "+12 345"),
            (count_text, 0, true, "0"),
            (time_text, -1500, true, "−1.50 ms"),
        ] {
            assert_eq!(text(value, signed), expected);
        }
    }

    #[test]
    fn rows_are_ordered_by_numbers_as_numbers() {
        let values = [5i128, -1, 40];
        for (descending, expected) in [(false, [1, 0, 2]), (true, [2, 0, 1])] {
            let mut rows = vec![0, 1, 2];
            sort_rows(&mut rows, TableSort { column: 1, descending }, |row| Value::Number(values[row]));
            assert_eq!(rows, expected);
        }
    }
}
