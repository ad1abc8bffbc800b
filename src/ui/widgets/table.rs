//! A table of which only the visible rows exist: sorted by its headers, followed by the pointer.
//!
//! Always: rows are addressed by number, never by a height in points, so that a hundred thousand rows cost what
//! one screen of them costs; what a cell leaves out (exact bytes, the end of a long path) is told on hover.

use crate::base::Bytes;
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, draw};
use egui::{Align2, Painter, Rect, Response, Role, Sense, TextStyle, Ui, Vec2, WidgetInfo, pos2, vec2};

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    /// What stands above it.
    pub title: &'static str,
    /// What it means, in a sentence.
    pub help: &'static str,
    /// Its width in points; the last takes what is left.
    pub width: f32,
    /// Whether it holds numbers, which stand right.
    pub number: bool,
    /// Whether rows can be ordered by it.
    pub sorts: bool,
}

/// By which column rows are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableSort {
    /// The column's place.
    pub column: usize,
    /// The largest first.
    pub descending: bool,
}

/// What stands in a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCell {
    /// The text.
    pub text: String,
    /// What is told on hover; empty: nothing.
    pub exact: String,
    /// Text of second rank.
    pub weak: bool,
}

impl TableCell {
    /// A text that is shown in full on hover.
    pub fn text(text: impl Into<String>) -> TableCell {
        let text = text.into();
        TableCell { exact: text.clone(), text, weak: false }
    }
    /// A size, exact on hover.
    pub fn bytes(bytes: u64) -> TableCell {
        TableCell { text: Bytes(bytes).to_string(), exact: Bytes(bytes).exact(), weak: false }
    }
    /// A number that needs no explanation.
    pub fn number(text: impl Into<String>) -> TableCell {
        TableCell { text: text.into(), exact: String::new(), weak: false }
    }
    /// What is copied of it: a size or a count as bare digits, anything else in full.
    pub fn copied(&self) -> String {
        let full = if self.exact.is_empty() { &self.text } else { &self.exact };
        let inside = full.split_once(" (").map_or(full.as_str(), |(_, inside)| inside.trim_end_matches(')'));
        let number = inside.trim_end_matches("s").trim_end_matches(" byte");
        let digits: String = number.chars().filter(char::is_ascii_digit).collect();
        let is_number = !digits.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c.is_whitespace());
        if is_number { digits } else { full.clone() }
    }
    /// The same in second rank.
    #[must_use]
    pub fn weak(self) -> TableCell {
        TableCell { weak: true, ..self }
    }
}

/// A row.
#[derive(Clone, Debug, Default)]
pub struct TableRow {
    /// What assistive tools and tests call it.
    pub name: String,
    /// One cell a column.
    pub cells: Vec<TableCell>,
    /// Whether it is selected.
    pub selected: bool,
    /// Whether it belongs to what the pointer is on, in whichever view.
    pub related: bool,
    /// Whether it tells of a failure.
    pub failed: bool,
    /// A small line in one of its cells, by the column's place: values from left to right.
    pub line: Option<(usize, Vec<u64>)>,
    /// The value at the top of that line's cell, where rows share a scale; 0: its own largest.
    pub line_most: u64,
    /// Whether it holds what is searched for; none: nothing is searched for, or it can hold nothing of the kind.
    pub found: Option<bool>,
    /// Whether it can be unfolded, and is.
    pub unfolded: Option<bool>,
    /// How far it stands in, in levels.
    pub depth: u8,
    /// The colour it is drawn with elsewhere.
    pub mark: Option<egui::Color32>,
    /// What else can be copied of it: what the menu calls it, and the text.
    pub copies: Option<(String, String)>,
}

/// What the hand did to a table in this frame, by row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableTouch {
    /// The row under the pointer.
    pub hovered: Option<usize>,
    /// The row that was clicked.
    pub clicked: Option<usize>,
    /// The row that was folded or unfolded.
    pub folded: Option<usize>,
    /// The new order, where a header was clicked.
    pub sorted: Option<TableSort>,
}

/// Where a table is scrolled to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Table {
    /// The first visible row, with its fraction.
    top: f64,
    /// A row that is to come into view.
    wanted: Option<usize>,
}

/// What a table shows.
pub struct TableContent<'a> {
    /// What assistive tools and tests call it.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'a [TableColumn],
    /// How its rows are ordered.
    pub sort: TableSort,
    /// How many rows there are.
    pub rows: usize,
}

const BAR: f32 = 3.0 * UNIT;

impl Table {
    /// Brings a row into view in the next frame, if it is out of it.
    pub fn reveal(&mut self, row: usize) {
        self.wanted = Some(row);
    }
    /// Shows rows in all the room there is; `row` is called for the visible ones.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        content: &TableContent<'_>,
        mut row: impl FnMut(usize) -> TableRow,
    ) -> TableTouch {
        let mut touch = TableTouch::default();
        let area = ui.available_rect_before_wrap();
        let body = Rect::from_min_max(pos2(area.min.x, area.min.y + ROW), pos2(area.max.x - BAR, area.max.y));
        if body.height() < ROW || body.width() < ROW {
            return touch;
        }
        let fits = f64::from(body.height() / ROW).floor().max(1.0);
        let highest = (content.rows as f64 - fits).max(0.0);
        ui.painter().rect_filled(Rect::from_min_max(pos2(area.min.x, body.min.y), area.max), 0.0, cx.tokens.paper);
        let background = ui.interact(body, ui.scope_id().with(content.name), Sense::hover());
        background.widget_info(|| WidgetInfo::labeled(Role::ListBox, true, content.name));
        if background.contains_pointer() {
            let by = ui.input(|input| input.smooth_scroll_delta().y);
            let top = (self.top - f64::from(by / ROW)).clamp(0.0, highest);
            // What moves this does not move what it lies in.
            if top != self.top {
                ui.input_mut(|input| input.smooth_scroll_delta.y = 0.0);
            }
            self.top = top;
        }
        if let Some(row) = self.wanted.take().map(|row| row as f64)
            && (row < self.top || self.top + fits - 1.0 < row)
        {
            self.top = row - (fits / 2.0).floor();
        }
        let rail = Rect::from_min_max(pos2(body.max.x, body.min.y), area.max);
        self.scroll_bar(ui, cx, rail, highest, fits, content);
        self.top = self.top.clamp(0.0, highest);
        touch.sorted = head(ui, cx, Rect::from_min_max(area.min, pos2(body.max.x, body.min.y)), content);
        let first = self.top.floor() as usize;
        let shift = (self.top.fract() * f64::from(ROW)) as f32;
        let clip = ui.painter().clip_rect();
        ui.set_clip_rect(body.intersect(clip));
        for (i, place) in (first..content.rows).take(fits as usize + 2).enumerate() {
            let rect = Rect::from_min_size(pos2(body.min.x, body.min.y + i as f32 * ROW - shift), vec2(body.width(), ROW));
            if rect.min.y < body.max.y {
                show_row(ui, cx, rect, content, place, &row(place), &mut touch);
            }
        }
        ui.set_clip_rect(clip);
        ui.advance_cursor_after_rect(area);
        touch
    }

    fn scroll_bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, rail: Rect, highest: f64, fits: f64, content: &TableContent<'_>) {
        if highest <= 0.0 {
            return;
        }
        let rail = rail.shrink(1.0);
        let share = (fits / content.rows as f64) as f32;
        let handle = (rail.height() * share).max(6.0 * UNIT).min(rail.height());
        let run = (rail.height() - handle).max(1.0);
        let response = ui.interact(rail, ui.scope_id().with((content.name, "scroll bar")), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::slider(true, self.top, format!("scroll {}", content.name)));
        if let Some(at) = response.interact_pointer_pos() {
            let share = f64::from(((at.y - rail.min.y - handle / 2.0) / run).clamp(0.0, 1.0));
            self.top = (share * highest).round();
        }
        let y = rail.min.y + run * (self.top.clamp(0.0, highest) / highest) as f32;
        let colour = if response.hovered() || response.dragged() { cx.tokens.weak } else { cx.tokens.line };
        ui.painter().rect_filled(Rect::from_min_size(pos2(rail.min.x, y), vec2(rail.width(), handle)), UNIT / 2.0, colour);
    }
}

/// The cells of a row; the last takes what is left.
fn cells(rect: Rect, columns: &[TableColumn]) -> impl Iterator<Item = Rect> {
    let mut x = rect.min.x + 2.0 * UNIT;
    columns.iter().enumerate().map(move |(place, column)| {
        let left = (rect.max.x - x - UNIT).max(0.0);
        let width = if place + 1 == columns.len() { left } else { column.width.min(left) };
        let cell = Rect::from_min_size(pos2(x, rect.min.y), vec2(width, rect.height()));
        x += width + 3.0 * UNIT;
        cell
    })
}

fn head(ui: &mut Ui, cx: &Cx<'_>, rect: Rect, content: &TableContent<'_>) -> Option<TableSort> {
    let font = TextStyle::Small.resolve(ui.style());
    let mut sorted = None;
    for (place, (column, cell)) in content.columns.iter().zip(cells(rect, content.columns)).enumerate() {
        let by_this = content.sort.column == place && column.sorts;
        let sense = if column.sorts { Sense::click() } else { Sense::hover() };
        let response = ui.interact(cell.expand2(vec2(UNIT, 0.0)), ui.scope_id().with((content.name, "head", place)), sense);
        let name = if column.sorts { format!("sort {} by {}", content.name, column.title) } else { column.title.to_owned() };
        response.widget_info(|| WidgetInfo::labeled(if column.sorts { Role::Button } else { Role::Label }, true, name.as_str()));
        let lit = by_this || (column.sorts && response.hovered());
        let colour = if lit { cx.tokens.text } else { cx.tokens.weak };
        let painter = ui.painter_at(cell.expand2(vec2(3.0 * UNIT, 0.0)));
        let (at, align) = place_of(cell, column.number);
        let text = painter.text(at, align, column.title, font.clone(), colour);
        if by_this {
            let x = if column.number { text.min.x - 1.5 * UNIT } else { text.max.x + 1.5 * UNIT };
            let way = if content.sort.descending { 1.0 } else { -1.0 };
            let centre = pos2(x, cell.center().y);
            let corners = [vec2(-3.0, -1.5 * way), vec2(3.0, -1.5 * way), vec2(0.0, 2.5 * way)].map(|by: Vec2| centre + by);
            painter.add(egui::Shape::convex_polygon(corners.to_vec(), colour, egui::Stroke::NONE));
        }
        if response.clicked() {
            let descending = if by_this { !content.sort.descending } else { column.number };
            sorted = Some(TableSort { column: place, descending });
        }
        response.on_hover_text(column.help);
    }
    sorted
}

fn place_of(cell: Rect, number: bool) -> (egui::Pos2, Align2) {
    if number { (cell.right_center(), Align2::RIGHT_CENTER) } else { (cell.left_center(), Align2::LEFT_CENTER) }
}

fn show_row(
    ui: &mut Ui,
    cx: &Cx<'_>,
    rect: Rect,
    content: &TableContent<'_>,
    place: usize,
    row: &TableRow,
    touch: &mut TableTouch,
) {
    // What is out of sight, in a table that is wider than its room, is no target.
    let seen = rect.intersect(ui.clip_rect());
    let target = if seen.is_positive() { seen } else { rect };
    let response = ui.interact(target, ui.scope_id().with((content.name, place)), Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, row.selected, &row.name));
    if row.found == Some(true) {
        ui.painter().rect_filled(rect, 0.0, cx.tokens.found_row);
    }
    if row.selected || row.related {
        ui.painter().rect_filled(rect, 0.0, cx.tokens.selected_row);
    } else if response.hovered() {
        ui.painter().rect_filled(rect, 0.0, cx.tokens.hovered_row);
    }
    if row.selected {
        let bar = Rect::from_min_size(rect.min, vec2(UNIT / 2.0, rect.height()));
        ui.painter().rect_filled(bar, 0.0, cx.tokens.accent);
    }
    if let Some(mark) = row.mark {
        let at = Rect::from_center_size(pos2(rect.min.x + 1.5 * UNIT, rect.center().y), vec2(1.5 * UNIT, 2.5 * UNIT));
        ui.painter().rect_filled(at, 1.0, mark);
    }
    let pointer = response.hover_pos();
    let mut told = None;
    for (i, ((column, cell), shown)) in content.columns.iter().zip(cells(rect, content.columns)).zip(&row.cells).enumerate() {
        let mut cell = cell;
        if i == 0 {
            cell.min.x += f32::from(row.depth) * 4.0 * UNIT;
            if let Some(open) = row.unfolded {
                let sign = Rect::from_min_size(cell.min, vec2(4.0 * UNIT, ROW));
                if fold(ui, cx, sign, content, place, row, open).clicked() {
                    touch.folded = Some(place);
                }
            }
        }
        if pointer.is_some_and(|at| cell.contains(at)) && !shown.exact.is_empty() {
            told = Some(shown.exact.clone());
        }
        if let Some((_, values)) = row.line.as_ref().filter(|(place, _)| *place == i) {
            draw_line(ui.painter(), cx, cell, values, row.line_most);
        }
        let colour = match (shown.weak || row.found == Some(false), row.failed) {
            (true, _) => cx.tokens.weak,
            (false, true) => cx.tokens.error,
            (false, false) => cx.tokens.text,
        };
        write(ui.painter(), ui, cell, column.number, shown, colour);
    }
    if response.hovered() {
        touch.hovered = Some(place);
    }
    if response.clicked() {
        touch.clicked = Some(place);
    }
    // The menu lies over the cell it was opened on, so that is kept.
    let key = response.id.with("asked cell");
    if response.secondary_clicked() {
        let asked = pointer.and_then(|at| cells(rect, content.columns).position(|cell| cell.contains(at)));
        ui.data_mut(|data| data.insert_temp(key, asked));
    }
    response.context_menu(|ui| {
        if let Some((words, text)) = &row.copies
            && ui.button(words).clicked()
        {
            ui.copy_text(text.clone());
            ui.close();
        }
        if ui.button("Copy row").clicked() {
            let texts: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
            ui.copy_text(texts.join("\t"));
            ui.close();
        }
        let asked = ui.data(|data| data.get_temp::<Option<usize>>(key)).flatten();
        let asked = asked.and_then(|place| row.cells.get(place).zip(content.columns.get(place)));
        if let Some((cell, column)) = asked.filter(|(cell, _)| !cell.text.is_empty())
            && ui.button(format!("Copy {}", column.title)).clicked()
        {
            ui.copy_text(cell.copied());
            ui.close();
        }
    });
    if let Some(told) = told {
        response.on_hover_text_at_pointer(told);
    }
}

/// Values as a line that fills its cell, zero at the bottom.
fn draw_line(painter: &Painter, cx: &Cx<'_>, cell: Rect, values: &[u64], most: u64) {
    let room = cell.shrink2(vec2(0.0, UNIT));
    let most = values.iter().copied().max().unwrap_or(0).max(most).max(1) as f64;
    let steps = (values.len().max(2) - 1) as f32;
    let at = |(place, value): (usize, &u64)| {
        let share = (*value as f64 / most) as f32;
        pos2(room.min.x + room.width() * place as f32 / steps, room.max.y - room.height() * share)
    };
    painter.hline(room.x_range(), room.max.y, egui::Stroke::new(1.0, cx.tokens.line));
    painter.add(egui::Shape::line(values.iter().enumerate().map(at).collect(), egui::Stroke::new(1.5, cx.tokens.accent)));
}

fn fold(ui: &Ui, cx: &Cx<'_>, sign: Rect, content: &TableContent<'_>, place: usize, row: &TableRow, open: bool) -> Response {
    let response = ui.interact(sign, ui.scope_id().with((content.name, "fold", place)), Sense::click());
    let name = format!("{} {}", if open { "fold" } else { "unfold" }, row.name);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
    draw(ui.painter(), sign.center(), if open { Icon::Unfolded } else { Icon::Folded }, cx.tokens.weak);
    response
}

/// A text cut to its cell; one that does not fit ends in an ellipsis.
fn write(painter: &Painter, ui: &Ui, cell: Rect, number: bool, shown: &TableCell, colour: egui::Color32) {
    if shown.text.is_empty() || cell.width() < UNIT {
        return;
    }
    let mut job = egui::text::LayoutJob::simple_singleline(shown.text.clone(), TextStyle::Body.resolve(ui.style()), colour);
    job.wrap = egui::text::TextWrapping::truncate_at_width(cell.width());
    let galley = painter.layout_job(job);
    let (at, align) = place_of(cell, number);
    let at = align.anchor_size(at, galley.size()).min;
    painter.galley(at, galley, colour);
}

/// The two buttons that copy a whole table, from right to left; `copied` makes the text, as CSV if so asked.
pub fn copy_buttons(ui: &mut Ui, help: &str, copied: impl Fn(bool) -> String) {
    for (title, csv) in [("Copy CSV", true), ("Copy table", false)] {
        if ui.small_button(title).on_hover_text(help).clicked() {
            ui.copy_text(copied(csv));
        }
    }
}

/// Lines of a table for the clipboard: parted by tabs, or as CSV (RFC 4180).
pub fn lines(head: &[&str], rows: impl Iterator<Item = Vec<String>>, csv: bool) -> String {
    let line = |cells: &[&str]| -> String {
        let quoted = cells.iter().map(|cell| match cell {
            cell if csv && cell.contains([',', '"', '\n']) => format!("\"{}\"", cell.replace('"', "\"\"")),
            cell => (*cell).to_owned(),
        });
        quoted.collect::<Vec<_>>().join(if csv { "," } else { "\t" })
    };
    let mut text = line(head);
    for row in rows {
        text.push('\n');
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_copied_bare() {
        for (cell, copied) in [
            (TableCell::bytes(1_610_612_736), "1610612736"),
            (TableCell::bytes(512), "512"),
            (TableCell::bytes(1), "1"),
            (TableCell::number(crate::base::grouped(12_345)), "12345"),
            (TableCell::number("1.50 GiB"), "1.50 GiB"),
            (TableCell::text("forward (x)"), "forward (x)"),
            (TableCell::number("12 %"), "12 %"),
        ] {
            assert_eq!(cell.copied(), copied);
        }
    }

    #[test]
    fn lines_are_csv_where_that_is_asked() {
        let rows = || [vec!["1".to_owned(), "a, \"b\"".to_owned()]].into_iter();
        for (csv, text) in [(false, "bytes\tstack\n1\ta, \"b\""), (true, "bytes,stack\n1,\"a, \"\"b\"\"\"")] {
            assert_eq!(lines(&["bytes", "stack"], rows(), csv), text);
        }
    }
}
