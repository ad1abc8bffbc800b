//! The page of ranks: which file of a job is the odd one, and why.
//!
//! Always: odd ones stand first, with their reasons in words; all small curves share one scale of bytes, so that they can be
//! compared by eye; the page is complete at any moment of the reading, with what was read so far.

use crate::analysis::{RankFigures, RankReading};
use crate::base::{Bytes, grouped};
use crate::session::Command;
use crate::session::ranks::RankSet;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort};
use egui::{Label, ProgressBar, Rect, RichText, Sense, Stroke, TextStyle, Ui, WidgetInfo, pos2, vec2};
use std::cmp::Reverse;

/// Size of a card with a small picture.
const CARD: egui::Vec2 = vec2(55.0 * UNIT, 28.0 * UNIT);

/// What the page remembers while it is shown.
pub struct RanksPage {
    table: Table,
    sort: TableSort,
    /// The selected row; none: the first.
    selected: Option<usize>,
    /// The set the selection belongs to.
    number: u64,
}

impl Default for RanksPage {
    fn default() -> Self {
        RanksPage { table: Table::default(), sort: TableSort { column: WHY, descending: true }, selected: None, number: 0 }
    }
}

const WHY: usize = 8;
const OVER_TIME: usize = 2;

const COLUMNS: [TableColumn; 9] = [
    column("rank", "The rank its name tells.", 27.0, false, true),
    column("file", "The file.", 45.0, false, true),
    column(
        "allocated over events",
        "What was allocated, from the first event to the last; all rows have one scale.",
        40.0,
        false,
        false,
    ),
    column("peak allocated", "Most allocated.", 23.0, true, true),
    column("peak reserved", "Most reserved.", 23.0, true, true),
    column("allocated at end", "Allocated after the last event.", 25.0, true, true),
    column("free at peak", "The largest free block where most is allocated.", 22.0, true, true),
    column("OOMs", "Failures.", 12.0, true, true),
    column("what is odd", "How it differs from the median of all; the oddest first.", 0.0, false, true),
];

const fn column(title: &'static str, help: &'static str, units: f32, number: bool, sorts: bool) -> TableColumn {
    TableColumn { title, help, width: units * UNIT, number, sorts }
}

/// Columns that go where there is no room for what is odd, in this order.
const GO_FIRST: [usize; 6] = [6, 5, OVER_TIME, 4, 7, 1];
/// What the last column needs at least.
const LEAST_WHY: f32 = 60.0 * UNIT;

/// The columns for which there is room.
fn shown_columns(width: f32) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    for column in GO_FIRST {
        let needed: f32 = shown.iter().map(|column| COLUMNS[*column].width + 3.0 * UNIT).sum();
        if needed + LEAST_WHY <= width {
            break;
        }
        shown.retain(|other| *other != column);
    }
    shown
}

/// A row with these of its cells.
fn in_columns(row: TableRow, shown: &[usize]) -> TableRow {
    let cells = shown.iter().map(|column| row.cells.get(*column).cloned().unwrap_or_default()).collect();
    let at = shown.iter().position(|column| *column == OVER_TIME);
    let line = at.and_then(|at| row.line.map(|(_, values)| (at, values)));
    TableRow { cells, line, ..row }
}

impl RanksPage {
    /// Shows the page; whether another page was asked for.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        let Some(set) = cx.session.ranks() else { return true };
        if self.number != set.number {
            *self = RanksPage { number: set.number, ..RanksPage::default() };
        }
        let chosen = self.selected.or_else(|| set.verdicts.order.first().copied()).filter(|row| *row < set.files.len());
        let mut left = false;
        egui::Frame::new().inner_margin(egui::Margin::same(4 * UNIT as i8)).show(ui, |ui| {
            head(ui, cx, set);
            ui.add_space(2.0 * UNIT);
            left |= cards(ui, cx, set);
            ui.add_space(2.0 * UNIT);
            if let Some(row) = chosen {
                left |= deeds(ui, cx, set, row);
            }
            ui.add_space(UNIT);
            left |= self.rows(ui, cx, set, chosen);
        });
        left
    }

    fn rows(&mut self, ui: &mut Ui, cx: &Cx<'_>, set: &RankSet, chosen: Option<usize>) -> bool {
        let order = ordered(set, self.sort);
        let most = scale(set);
        let shown = shown_columns(ui.available_width());
        let columns: Vec<TableColumn> = shown.iter().map(|column| COLUMNS[*column]).collect();
        // An order by a column that has no room now is kept.
        let column = shown.iter().position(|column| *column == self.sort.column).unwrap_or(usize::MAX);
        let sort = TableSort { column, ..self.sort };
        let content = TableContent { name: "ranks", columns: &columns, sort, rows: order.len() };
        let touch = self.table.show(ui, cx, &content, |place| {
            let row = order.get(place).copied().unwrap_or_default();
            in_columns(row_of(set, row, most, chosen == Some(row)), &shown)
        });
        if let Some(sort) = touch.sorted {
            self.sort = TableSort { column: shown.get(sort.column).copied().unwrap_or(WHY), ..sort };
        }
        let clicked = touch.clicked.and_then(|place| order.get(place).copied());
        if let Some(row) = clicked {
            // A second click on what is selected opens it.
            if self.selected == Some(row) {
                return open(cx, set, row);
            }
            self.selected = Some(row);
        }
        false
    }
}

/// Opens a rank; whether it is there at once. What has to be read takes the page away when it arrives.
fn open(cx: &Cx<'_>, set: &RankSet, row: usize) -> bool {
    if matches!(set.readings.get(row), Some(RankReading::Unreadable(_))) {
        return false;
    }
    cx.send(Command::ShowRank(row));
    is_open(cx, set, row)
}

fn is_open(cx: &Cx<'_>, set: &RankSet, row: usize) -> bool {
    let path = set.files.get(row).map(|file| &file.path);
    cx.session.documents().iter().any(|document| document.path.as_ref() == path)
}

fn head(ui: &mut Ui, cx: &Cx<'_>, set: &RankSet) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    ui.horizontal(|ui| {
        ui.heading("Ranks");
        ui.label(weak(crate::chart::text::short_path(&set.title, 80))).on_hover_text(&set.title);
    });
    let running = cx.session.running().into_iter().find(|job| job.id == set.job());
    let (done, all) = (set.done(), set.files.len());
    match running {
        Some(job) if done < all => {
            ui.horizontal(|ui| {
                let share = done as f32 / all.max(1) as f32;
                let bar = ProgressBar::new(share).desired_width(60.0 * UNIT).text(format!("{done} of {all} read"));
                ui.add(bar);
                if ui.button("Stop").on_hover_text("Stop reading; what was read stays").clicked() {
                    cx.send(Command::Cancel(job.id));
                }
            });
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
        }
        _ if done < all => drop(ui.label(weak(format!("Stopped: {done} of {all} files were read.")))),
        _ => {}
    }
    let mut words = set.verdicts.sentence();
    if let (Some(medians), Some(median)) = (set.verdicts.medians, set.verdicts.median.and_then(|row| set.files.get(row))) {
        words.push_str(&format!(
            " Median: {} allocated and {} reserved at the peaks, largest free block {} where most is allocated; {} is the \
             nearest to that.",
            Bytes(medians.peak_allocated),
            Bytes(medians.peak_reserved),
            Bytes(medians.free_at_peak),
            median.title()
        ));
    }
    if 0 < done {
        ui.add(Label::new(words).wrap());
    }
}

/// Small pictures of the usual rank and of the first ones; whether one was opened.
fn cards(ui: &mut Ui, cx: &Cx<'_>, set: &RankSet) -> bool {
    let mut left = false;
    let median = set.verdicts.median;
    let others = set.verdicts.order.iter().copied().filter(|row| Some(*row) != median);
    let shown = median.into_iter().chain(others).filter(|row| set.readings[*row].figures().is_some());
    let most = scale(set);
    let fits = ((ui.available_width() + 2.0 * UNIT) / (CARD.x + 2.0 * UNIT)).floor().max(1.0) as usize;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
        for row in shown.take(fits) {
            left |= card(ui, cx, set, row, most);
        }
    });
    left
}

fn card(ui: &mut Ui, cx: &Cx<'_>, set: &RankSet, row: usize, most: u64) -> bool {
    let Some(figures) = set.readings[row].figures() else { return false };
    let (rect, response) = ui.allocate_exact_size(CARD, Sense::click());
    let is_median = set.verdicts.median == Some(row);
    let title = set.files[row].title();
    let name = format!("Open {title}{}", if is_median { ", the median rank" } else { "" });
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Button, true, &name));
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 0.0, if response.hovered() { cx.tokens.hovered_row } else { cx.tokens.paper });
    let small = TextStyle::Small.resolve(ui.style());
    let inside = rect.shrink(2.0 * UNIT);
    let odd = set.verdicts.words(row);
    let colour = if odd.is_empty() { cx.tokens.text } else { cx.tokens.error };
    let line = |y: f32, text: &str, colour| {
        let mut job = egui::text::LayoutJob::simple_singleline(text.to_owned(), small.clone(), colour);
        job.wrap = egui::text::TextWrapping::truncate_at_width(inside.width());
        painter.galley(pos2(inside.min.x, y), painter.layout_job(job), colour);
    };
    line(inside.min.y, &if is_median { format!("{title} (median)") } else { title }, colour);
    let below = if odd.is_empty() { format!("peak {}", Bytes(figures.peak_allocated.bytes)) } else { odd.clone() };
    line(inside.max.y - 3.0 * UNIT, &below, cx.tokens.weak);
    let plot = Rect::from_min_max(inside.min + vec2(0.0, 4.5 * UNIT), inside.max - vec2(0.0, 4.5 * UNIT));
    curves(&painter, cx, plot, figures, most);
    let told = format!("{}\n{}\n{odd}", set.files[row].path.display(), figures_in_words(figures));
    let response = response.on_hover_text(told.trim_end().to_owned());
    response.clicked() && open(cx, set, row)
}

/// Allocated as an area, reserved as a line, on a scale up to `most`.
fn curves(painter: &egui::Painter, cx: &Cx<'_>, plot: Rect, figures: &RankFigures, most: u64) {
    painter.hline(plot.x_range(), plot.max.y, Stroke::new(1.0, cx.tokens.line));
    let y = |bytes: u64| plot.max.y - plot.height() * (bytes as f64 / most.max(1) as f64) as f32;
    let steps = figures.allocated.len().max(1) as f32;
    let x = |place: usize| plot.min.x + plot.width() * place as f32 / steps;
    let area = cx.tokens.accent.gamma_multiply(0.35);
    for (place, bytes) in figures.allocated.iter().enumerate() {
        let column = Rect::from_min_max(pos2(x(place), y(*bytes)), pos2(x(place + 1), plot.max.y));
        painter.rect_filled(column, 0.0, area);
    }
    let line = figures.reserved.iter().enumerate();
    let line = line.flat_map(|(place, bytes)| [pos2(x(place), y(*bytes)), pos2(x(place + 1), y(*bytes))]);
    painter.add(egui::Shape::line(line.collect(), Stroke::new(1.0, cx.tokens.weak)));
}

/// The selected rank and what can be done with it; whether another page was asked for.
fn deeds(ui: &mut Ui, cx: &Cx<'_>, set: &RankSet, row: usize) -> bool {
    let mut left = false;
    ui.horizontal(|ui| {
        let title = set.files[row].title();
        ui.strong(&title);
        let is_read = set.readings[row].figures().is_some();
        ui.add_enabled_ui(is_read, |ui| {
            if ui.button("Open").on_hover_text("Opens it as a file of its own; so does a second click on its row").clicked() {
                left |= open(cx, set, row);
            }
        });
        let median = set.verdicts.median.filter(|median| *median != row && is_read);
        ui.add_enabled_ui(median.is_some(), |ui| {
            let help =
                "Opens both and compares their peaks, matched by stack: what only this one holds, and what it holds more of";
            if ui.button("Compare with the median rank").on_hover_text(help).clicked() {
                cx.send(Command::CompareRank(row));
                left |= is_open(cx, set, row) && median.is_some_and(|median| is_open(cx, set, median));
            }
        });
        let (words, colour) = match &set.readings[row] {
            RankReading::Waiting => ("not read yet".to_owned(), cx.tokens.weak),
            RankReading::Unreadable(_) => (set.verdicts.words(row), cx.tokens.error),
            RankReading::Read(figures) => {
                let odd = set.verdicts.words(row);
                (if odd.is_empty() { figures_in_words(figures) } else { odd }, cx.tokens.text)
            }
        };
        ui.add(Label::new(RichText::new(words).color(colour)).truncate());
    });
    left
}

fn figures_in_words(figures: &RankFigures) -> String {
    format!(
        "device {}: peak {} allocated, {} reserved; {} events",
        figures.device,
        Bytes(figures.peak_allocated.bytes),
        Bytes(figures.peak_reserved.bytes),
        grouped(figures.events)
    )
}

/// The bytes at the top of all small pictures.
fn scale(set: &RankSet) -> u64 {
    set.readings.iter().filter_map(RankReading::figures).map(|figures| figures.peak_reserved.bytes).max().unwrap_or(0)
}

fn row_of(set: &RankSet, row: usize, most: u64, selected: bool) -> TableRow {
    let (Some(file), Some(reading)) = (set.files.get(row), set.readings.get(row)) else { return TableRow::default() };
    let median = if set.verdicts.median == Some(row) { " (median)" } else { "" };
    let rank = file.rank.map_or_else(String::new, |rank| rank.to_string());
    let why = match reading {
        RankReading::Waiting => TableCell::text("not read yet").weak(),
        RankReading::Read(_) | RankReading::Unreadable(_) => TableCell::text(set.verdicts.words(row)),
    };
    let name = TableCell { text: file.name(), exact: file.path.display().to_string(), weak: false };
    let mut cells = vec![TableCell::text(format!("{rank}{median}").trim_start()), name, TableCell::default()];
    match reading.figures() {
        Some(figures) => cells.extend([
            TableCell::bytes(figures.peak_allocated.bytes),
            TableCell::bytes(figures.peak_reserved.bytes),
            TableCell::bytes(figures.end_allocated),
            TableCell::bytes(figures.free_at_peak),
            TableCell::number(grouped(figures.ooms)),
        ]),
        None => cells.resize(WHY, TableCell::default()),
    }
    cells.push(why);
    TableRow {
        name: format!("{} {}", file.title(), set.verdicts.words(row)).trim_end().to_owned(),
        cells,
        selected,
        failed: matches!(reading, RankReading::Unreadable(_)),
        line: reading.figures().map(|figures| (OVER_TIME, figures.allocated.to_vec())),
        line_most: most,
        ..TableRow::default()
    }
}

/// Rows in the order of a column; what was not read comes last in every order but that of oddity.
fn ordered(set: &RankSet, sort: TableSort) -> Vec<usize> {
    let mut order = set.verdicts.order.clone();
    let by_bytes = |order: &mut Vec<usize>, pick: fn(&RankFigures) -> u64| {
        let value = |row: &usize| set.readings[*row].figures().map(pick);
        if sort.descending {
            order.sort_by_key(|row| Reverse(value(row)));
        } else {
            order.sort_by_key(|row| (value(row).is_none(), value(row)));
        }
    };
    match sort.column {
        0 => order.sort(),
        1 => order.sort_by_key(|row| set.files[*row].name()),
        3 => by_bytes(&mut order, |of| of.peak_allocated.bytes),
        4 => by_bytes(&mut order, |of| of.peak_reserved.bytes),
        5 => by_bytes(&mut order, |of| of.end_allocated),
        6 => by_bytes(&mut order, |of| of.free_at_peak),
        7 => by_bytes(&mut order, |of| of.ooms),
        _ if !sort.descending => order.reverse(),
        _ => {}
    }
    if sort.descending && sort.column < 2 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_odd_has_room_at_any_width() {
        for (width, columns) in [(1400.0, 9), (1150.0, 8), (850.0, 6), (400.0, 3), (0.0, 3)] {
            let shown = shown_columns(width);
            assert_eq!((shown.len(), shown.last()), (columns, Some(&WHY)), "{width}");
        }
    }
}
