//! How large blocks are and how long they live, what is allocated only to be freed, and what only grows.
//!
//! Always: everything is about the window of time all views share, and counted by jobs; the foot of a page states
//! the whole that its parts add up to.

use crate::analysis::{Churn, LeakParams, LeakSuspects, LifetimeParams, Lifetimes, Slices, StackChurn, StackGrowth, Sum};
use crate::base::id::Id as _;
use crate::base::{Bytes, StringId, counted, grouped};
use crate::chart::axis::duration_label;
use crate::chart::{HistogramInput, Ink, TimeAxis, Unit, histogram};
use crate::model::{DeviceMemory, Item, Position, Snapshot, StackId};
use crate::paint;
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::{share, stack_cell, with_foot};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::canvas::canvas;
use crate::ui::widgets::table::{Table, TableCell, TableColumn, TableContent, TableRow, TableSort, copy_buttons, lines};
use crate::ui::widgets::text::{no_stack, telling_line};
use egui::{Align, ComboBox, Layout, RichText, Ui, UiBuilder, vec2};
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "sizes",
    title: "Sizes",
    help: "Sizes and lifetimes of the blocks in the window, churn by stack, and stacks whose memory only grows.",
    open: || Box::new(Sizes::default()),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Histograms,
    Churn,
    Growth,
}

#[derive(Clone)]
struct Sizes {
    page: Page,
    bytes: bool,
    slices: Slices,
    churn: Ordered<Churn>,
    growth: Ordered<LeakSuspects>,
}

impl Default for Sizes {
    fn default() -> Self {
        let slices = Slices::Equal(SLICES);
        Sizes { page: Page::Histograms, bytes: true, slices, churn: Ordered::default(), growth: Ordered::default() }
    }
}

/// A table with the order of its rows.
#[derive(Clone)]
struct Ordered<A> {
    table: Table,
    sort: TableSort,
    /// The order, with what it follows from.
    order: Option<(Arc<A>, TableSort, Vec<usize>)>,
}

impl<A> Default for Ordered<A> {
    fn default() -> Self {
        Ordered { table: Table::default(), sort: TableSort { column: 0, descending: true }, order: None }
    }
}

/// Slices of the window that growth is looked for in.
const SLICES: u32 = 8;

const fn column(title: &'static str, help: &'static str, width: f32, number: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts: number }
}

const CHURN: [TableColumn; 6] = [
    column("Churned", "Bytes allocated in the window and freed in it again.", 90.0, true),
    column("Share", "Part of all that was churned in the window.", 56.0, true),
    column("Times", "How often.", 70.0, true),
    column("Kept", "Bytes allocated in the window and still in use at its end.", 90.0, true),
    column("Blocks kept", "Number of blocks still in use at the end of the window.", 80.0, true),
    column("Stack", "The frame of your program that asked for the memory.", 0.0, false),
];

const GROWTH: [TableColumn; 6] = [
    column("Gained", "Allocated bytes at the last moment less those at the first.", 90.0, true),
    column("At first", "Allocated at the first moment compared.", 90.0, true),
    column("At last", "Allocated at the last moment compared.", 90.0, true),
    column("Steps grown", "From how many moments to the next it grew; it never shrank.", 84.0, true),
    column("Over the window", "Its allocated bytes from the begin of the window to its end, from zero up.", 110.0, false),
    column("Stack", "The frame of your program that asked for the memory.", 0.0, false),
];

impl View for Sizes {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let window = if memory.has_history() {
            let Some(clock) = cx.session.clock() else {
                return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
            };
            let shown = cx.session.window(&clock.clock);
            let (from, to) = (clock.clock.position(shown.start), clock.clock.position(shown.end));
            LifetimeParams { from, to: Position(to.0.saturating_add(1)) }
        } else {
            LifetimeParams::ALL
        };
        self.bar(ui, cx, &document.snapshot, memory);
        match self.page {
            Page::Histograms => self.histograms(ui, cx, memory, window),
            Page::Churn | Page::Growth if !memory.has_history() => {
                cx.empty(ui, "This device has no history: what was allocated and freed before the dump is not known.");
            }
            Page::Churn => self.churn(ui, cx, window),
            Page::Growth => self.growth(ui, cx, window),
        }
    }
}

impl Sizes {
    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory) {
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            let pages =
                [(Page::Histograms, "Sizes and lifetimes"), (Page::Churn, "Churn by stack"), (Page::Growth, "What only grows")];
            for (page, name) in pages {
                if ui.selectable_label(page == self.page, name).clicked() {
                    self.page = page;
                }
            }
            ui.add_space(2.0 * UNIT);
            match self.page {
                Page::Histograms => {
                    for (bytes, name) in [(true, "by bytes"), (false, "by count")] {
                        if ui.selectable_label(bytes == self.bytes, name).clicked() {
                            self.bytes = bytes;
                        }
                    }
                }
                Page::Churn => {}
                Page::Growth => {
                    let label = ui.label("Compared at the ends of");
                    let name = |slices: Slices| match slices {
                        Slices::Equal(count) => format!("{count} equal slices"),
                        Slices::Annotation(name) => snapshot.stacks.strings.get(name).to_owned(),
                    };
                    let combo = ComboBox::from_id_salt("growth slices").selected_text(name(self.slices)).show_ui(ui, |ui| {
                        let mut names: Vec<StringId> = memory.annotations.iter().map(|span| span.name).collect();
                        names.sort_unstable();
                        names.dedup();
                        let all = [Slices::Equal(SLICES)].into_iter().chain(names.into_iter().map(Slices::Annotation));
                        for slices in all.take(MOST_CHOICES) {
                            if ui.selectable_label(slices == self.slices, name(slices)).clicked() {
                                self.slices = slices;
                            }
                        }
                    });
                    combo.response.labelled_by(label.id);
                }
            }
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.add_space(UNIT);
                ui.label(RichText::new("in the visible window").color(cx.tokens.weak));
            });
        });
    }

    fn histograms(&mut self, ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, window: LifetimeParams) {
        let answer = cx.ask::<Lifetimes>(window);
        let timed = cx.session.workspace().axis == TimeAxis::Time && memory.trace.has_times();
        cx.show(ui, &answer, |ui, lives| {
            if lives.total.count == 0 {
                return cx.empty(ui, "No block was in use in the visible window. Zoom out or move it.");
            }
            let (rows, foot) = with_foot(ui);
            let width = (rows.width() - 2.0 * UNIT) / 2.0;
            let size = vec2(width.max(1.0), rows.height());
            let (lifetimes, label): (&[Sum], fn(usize) -> String) =
                if timed { (&lives.micros, micros_label) } else { (&lives.events, events_label) };
            ui.scope_builder(UiBuilder::new().max_rect(rows).layout(Layout::left_to_right(Align::Min)), |ui| {
                ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                let sizes = if self.bytes { "bytes by block size" } else { "blocks by size" };
                self.histogram(ui, cx, ("histogram of sizes", sizes), &lives.sizes, size_label, Ink::Series(0), size);
                if lifetimes.is_empty() {
                    let room = ui.available_rect_before_wrap();
                    let mut beside = ui.new_child(UiBuilder::new().max_rect(room));
                    return cx.empty(&mut beside, "No block of this window was both allocated and freed in the trace.");
                }
                let lived = match (self.bytes, timed) {
                    (true, true) => "bytes by time lived, of blocks born and freed in the trace",
                    (false, true) => "blocks by time lived, of those born and freed in the trace",
                    (true, false) => "bytes by events lived, of blocks born and freed in the trace",
                    (false, false) => "blocks by events lived, of those born and freed in the trace",
                };
                self.histogram(ui, cx, ("histogram of lifetimes", lived), lifetimes, label, Ink::Series(2), size);
            });
            ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
                ui.add_space(2.0 * UNIT);
                ui.spacing_mut().item_spacing.x = UNIT;
                let known = lives.events.iter().copied().fold(Sum::default(), Sum::and);
                let parts = [
                    ("blocks:", lives.total),
                    ("born and freed in the trace,", known),
                    ("older than the trace,", lives.older),
                    ("outlive it,", lives.outliving),
                    ("live throughout", lives.throughout),
                ];
                for (text, sum) in parts {
                    ui.label(grouped(sum.count)).on_hover_text(format!(
                        "{} {text} {}",
                        grouped(sum.count),
                        Bytes(sum.bytes).exact()
                    ));
                    ui.label(RichText::new(text).color(cx.tokens.weak));
                }
                right(ui, |ui| {
                    copy_buttons(ui, "Copies both histograms.", |csv| {
                        let all =
                            [("size", &lives.sizes[..], size_label as fn(usize) -> String), ("time lived", lifetimes, label)];
                        let rows = all.into_iter().flat_map(|(what, buckets, label)| {
                            buckets.iter().enumerate().filter(|(_, sum)| 0 < sum.count).map(move |(place, sum)| {
                                let numbers = [sum.count, sum.bytes].map(|number| number.to_string());
                                [what.to_owned(), label(place), label(place + 1)].into_iter().chain(numbers).collect()
                            })
                        });
                        lines(&["of", "from", "to", "blocks", "bytes"], rows, csv)
                    });
                });
            });
        });
    }

    #[expect(clippy::too_many_arguments, reason = "what differs between the two histograms of the page")]
    fn histogram(
        &self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        (name, title): (&'static str, &str),
        buckets: &[Sum],
        label: fn(usize) -> String,
        ink: Ink,
        size: egui::Vec2,
    ) {
        let first = buckets.iter().position(|sum| 0 < sum.count).unwrap_or(0);
        let value = |sum: &Sum| if self.bytes { sum.bytes } else { sum.count };
        let bars: Vec<(String, u64)> =
            buckets.iter().enumerate().skip(first).map(|(bucket, sum)| (label(bucket), value(sum))).collect();
        let unit = if self.bytes { Unit::Bytes } else { Unit::Count };
        let canvas = canvas(ui, name, size);
        let mut input = HistogramInput { title, bars: &bars, unit, ink, hovered: None, width_pt: size.x, height_pt: size.y };
        input.hovered = canvas.pointer.and_then(|at| histogram::bar_at(&input, at[0], at[1]));
        paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &histogram::draw(&input), cx.tokens.palette, &|_| None);
        if let Some(bucket) = input.hovered.map(|place| place + first) {
            let Some(sum) = buckets.get(bucket) else { return };
            canvas.response.on_hover_ui_at_pointer(|ui| {
                ui.strong(format!("{} to {}", label(bucket), label(bucket + 1)));
                ui.label(counted(sum.count, "block"));
                ui.label(Bytes(sum.bytes).exact());
            });
        }
    }

    fn churn(&mut self, ui: &mut Ui, cx: &Cx<'_>, window: LifetimeParams) {
        let answer = cx.ask::<Churn>(window);
        let Some(churn) = answer.value().cloned() else { return cx.show(ui, &answer, |_, _| {}) };
        cx.show(ui, &answer, |ui, _| {
            if churn.stacks.is_empty() {
                return cx.empty(ui, "Nothing was allocated in the visible window. Zoom out or move it.");
            }
            let value = |row: usize, column: usize| {
                let StackChurn { churned, kept, .. } = churn.stacks[row];
                [churned.bytes, churned.bytes, churned.count, kept.bytes, kept.count][column.min(4)]
            };
            let content = ("churn", &CHURN[..], churn.stacks.len());
            let (rows, foot) = with_foot(ui);
            ui.scope_builder(UiBuilder::new().max_rect(rows), |ui| {
                self.churn.show(ui, cx, content, &churn, value, |row| {
                    let StackChurn { stack, churned, kept } = churn.stacks[row];
                    let cells = vec![
                        TableCell::bytes(churned.bytes),
                        TableCell::number(share(churned.bytes, churn.churned.bytes)).weak(),
                        TableCell::number(grouped(churned.count)),
                        TableCell::bytes(kept.bytes),
                        TableCell::number(grouped(kept.count)),
                    ];
                    (stack, churned.bytes, cells, None)
                });
            });
            ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
                ui.add_space(2.0 * UNIT);
                ui.spacing_mut().item_spacing.x = UNIT;
                for (what, sum) in
                    [("allocated and freed in the window", churn.churned), ("allocated in it and kept", churn.kept)]
                {
                    byte_label(ui, what, sum.bytes);
                    ui.label(RichText::new(format!("{what}, in {}", counted(sum.count, "block"))).color(cx.tokens.weak));
                    ui.add_space(UNIT);
                }
                right(ui, |ui| {
                    copy_buttons(ui, "Copies all stacks, most churned first.", |csv| {
                        let Some((document, ..)) = cx.session.front() else { return String::new() };
                        let rows = churn.stacks.iter().map(|StackChurn { stack, churned, kept }| {
                            let numbers = [churned.bytes, churned.count, kept.bytes, kept.count].map(|number| number.to_string());
                            numbers.into_iter().chain([whole_stack(&document.snapshot, *stack)]).collect()
                        });
                        lines(&["churned", "times", "kept", "blocks kept", "stack"], rows, csv)
                    });
                });
            });
        });
    }

    fn growth(&mut self, ui: &mut Ui, cx: &Cx<'_>, window: LifetimeParams) {
        let answer = cx.ask::<LeakSuspects>(LeakParams { window, slices: self.slices });
        let Some(found) = answer.value().cloned() else { return cx.show(ui, &answer, |_, _| {}) };
        cx.show(ui, &answer, |ui, _| {
            if found.moments.len() < 3 {
                return cx.empty(ui, "Growth shows between three moments or more: zoom out, or compare at other moments.");
            }
            if found.suspects.is_empty() {
                return cx.empty(ui, &format!("No stack only grows over these {} moments.", found.moments.len()));
            }
            let ends = |growth: &StackGrowth| {
                let bytes = |sum: Option<&Sum>| sum.map_or(0, |sum| sum.bytes);
                (bytes(growth.live.first()), bytes(growth.live.last()))
            };
            let value = |row: usize, column: usize| {
                let growth = &found.suspects[row];
                let (first, last) = ends(growth);
                [growth.gained(), first, last, u64::from(growth.grew)][column.min(3)]
            };
            let content = ("growth", &GROWTH[..], found.suspects.len());
            let (rows, foot) = with_foot(ui);
            ui.scope_builder(UiBuilder::new().max_rect(rows), |ui| {
                self.growth.show(ui, cx, content, &found, value, |row| {
                    let growth = &found.suspects[row];
                    let (first, last) = ends(growth);
                    let steps = format!("{} of {}", growth.grew, found.moments.len() - 1);
                    let cells = vec![
                        TableCell::bytes(growth.gained()),
                        TableCell::bytes(first),
                        TableCell::bytes(last),
                        TableCell::number(steps),
                        TableCell::default(),
                    ];
                    (growth.stack, growth.gained(), cells, Some((LINE_COLUMN, growth.line.clone())))
                });
            });
            ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
                ui.add_space(2.0 * UNIT);
                ui.spacing_mut().item_spacing.x = UNIT;
                let gained = found.suspects.iter().map(StackGrowth::gained).fold(0, u64::saturating_add);
                let told = match found.suspects.len() {
                    1 => "1 stack only grows, by".to_owned(),
                    many => format!("{} stacks only grow, by", grouped(many as u64)),
                };
                ui.label(RichText::new(told).color(cx.tokens.weak));
                byte_label(ui, "gained by these stacks", gained);
                let total = found.total.last().map_or(0, |sum| sum.bytes);
                ui.label(RichText::new("in all; allocated at the last moment:").color(cx.tokens.weak));
                byte_label(ui, "allocated at the last moment compared", total);
                right(ui, |ui| {
                    copy_buttons(ui, "Copies all suspects with their bytes at each moment.", |csv| {
                        let Some((document, ..)) = cx.session.front() else { return String::new() };
                        let moments: Vec<String> = found.moments.iter().map(|at| format!("at {}", at.0)).collect();
                        let head: Vec<&str> =
                            ["gained"].into_iter().chain(moments.iter().map(String::as_str)).chain(["stack"]).collect();
                        let rows = found.suspects.iter().map(|growth| {
                            let live = growth.live.iter().map(|sum| sum.bytes.to_string());
                            let stack = whole_stack(&document.snapshot, growth.stack);
                            [growth.gained().to_string()].into_iter().chain(live).chain([stack]).collect()
                        });
                        lines(&head, rows, csv)
                    });
                });
            });
        });
    }
}

/// What stands at the right end of a line.
fn right(ui: &mut Ui, show: impl FnOnce(&mut Ui)) {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        ui.add_space(UNIT);
        show(ui);
    });
}

/// All frames of a stack in one line, innermost first.
fn whole_stack(snapshot: &Snapshot, stack: StackId) -> String {
    let frames = snapshot.stacks.frames(stack);
    if frames.is_empty() {
        return no_stack(stack).to_owned();
    }
    frames.iter().map(|frame| snapshot.stacks.line(*frame)).collect::<Vec<_>>().join("; ")
}

/// The cells of a stack's row before the last, what it weighs, and a line in one of them.
type StackCells = (StackId, u64, Vec<TableCell>, Option<(usize, Vec<u64>)>);

/// Where the line of a suspect stands.
const LINE_COLUMN: usize = 4;

/// Most annotations offered.
const MOST_CHOICES: usize = 200;

impl<A> Ordered<A> {
    /// Shows rows of stacks, ordered by a column's value; a click selects the stack.
    fn show(
        &mut self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        (name, columns, rows): (&'static str, &[TableColumn], usize),
        answer: &Arc<A>,
        value: impl Fn(usize, usize) -> u64,
        row: impl Fn(usize) -> StackCells,
    ) {
        let Some((document, _, memory)) = cx.session.front() else { return };
        let stacks = &document.snapshot.stacks;
        if !self.order.as_ref().is_some_and(|(of, sort, _)| Arc::ptr_eq(of, answer) && *sort == self.sort) {
            let mut order: Vec<usize> = (0..rows).collect();
            if self.sort.descending {
                order.sort_by_key(|row| std::cmp::Reverse(value(*row, self.sort.column)));
            } else {
                order.sort_by_key(|row| value(*row, self.sort.column));
            }
            self.order = Some((Arc::clone(answer), self.sort, order));
        }
        let Some((_, _, order)) = &self.order else { return };
        let content = TableContent { name, columns, sort: self.sort, rows };
        let touch = self.table.show(ui, cx, &content, |place| {
            let (stack, bytes, mut cells, line) = row(order[place]);
            cells.push(stack_cell(stacks, stack));
            let told = telling_line(stacks, stack).unwrap_or_else(|| no_stack(stack).to_owned());
            let its = |item: Item| match item {
                Item::Stack(other) => stacks.are_alike(stack, other),
                Item::Allocation(id) => {
                    memory.allocations.stacks().get(id.row()).is_some_and(|other| stacks.are_alike(stack, *other))
                }
                Item::Segment(_) | Item::Gap { .. } | Item::Event(_) => false,
            };
            let selected = matches!(cx.selected(), Some(item @ Item::Stack(_)) if its(item));
            let related = cx.selected().is_some_and(its) || cx.hovered().is_some_and(its);
            let found = cx.session.found().map(|found| found.has_stack(stack));
            let name = format!("{told}, {}", Bytes(bytes));
            TableRow { name, cells, line, selected, related, found, ..TableRow::default() }
        });
        let item = |place: usize| order.get(place).map(|place| Item::Stack(row(*place).0));
        if let Some(item) = touch.hovered.and_then(item) {
            cx.session.set_hovered(item);
        }
        if let Some(item) = touch.clicked.and_then(item) {
            cx.send(Command::Select(item));
        }
        if let Some(sorted) = touch.sorted {
            self.sort = sorted;
            self.table = Table::default();
        }
    }
}

/// Where a bucket of sizes begins; the first holds zero too.
fn size_label(bucket: usize) -> String {
    match 1u64.checked_shl(bucket as u32) {
        Some(bytes) if bytes < 1024 => format!("{bytes} B"),
        Some(bytes) => Bytes(bytes).to_string().replace(".00", ""),
        None => "16 EiB".to_owned(),
    }
}

fn events_label(bucket: usize) -> String {
    1u64.checked_shl(bucket as u32).map_or_else(|| "no end".to_owned(), grouped)
}

fn micros_label(bucket: usize) -> String {
    1u64.checked_shl(bucket as u32).map_or_else(|| "no end".to_owned(), duration_label)
}
