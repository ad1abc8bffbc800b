//! The paged KV cache: what it held over time beside what buffers in one piece would have taken, its block table, and
//! its figures.
//!
//! Always: figures and pictures are those of `info` and of the report; the axis is the window all views share.

use crate::base::grouped;
use crate::chart::axis::duration_label;
use crate::chart::{Clock, HistogramInput, Ink, Unit, histogram, kv_table};
use crate::model::{DeviceMemory, Item, KvLog};
use crate::paint;
use crate::report::kv::{self, KvPicture};
use crate::session::Command;
use crate::simulator::contiguous::KvCompared;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas};
use crate::ui::widgets::text::moment;
use crate::ui::widgets::time_hand::act_on_time;
use egui::{Align, Grid, Layout, RichText, ScrollArea, Ui, UiBuilder, vec2};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "kv",
    title: "KV cache",
    help: "The paged KV cache of a log of its events: what it held beside what buffers in one piece would have taken, the \
           block table in the order of the prefix tree, and how old blocks were when they went.",
    open: || Box::new(KvView::default()),
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Page {
    #[default]
    OverTime,
    Table,
    Figures,
}

#[derive(Clone, Default)]
struct KvView {
    page: Page,
}

/// Whether the device in front is a KV cache.
pub fn is_for(cx: &Cx<'_>) -> bool {
    cx.session.front().is_some_and(|(_, _, memory)| memory.kv.is_some())
}

impl View for KvView {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((_, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let Some(log) = &memory.kv else {
            return cx.empty(
                ui,
                "This device is no KV cache. Open a log of KV-cache events, as vLLM publishes them (MessagePack, or JSON one a line).",
            );
        };
        let answer = cx.ask::<KvCompared>(());
        let Some(compared) = answer.value().cloned() else { return cx.show(ui, &answer, |_, _| {}) };
        let Some(compared) = compared.as_ref() else { return };
        let Some(clock) = cx.session.clock() else {
            return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
        };
        self.bar(ui, cx, compared);
        match self.page {
            Page::OverTime => over_time(ui, cx, memory, &clock.clock, compared),
            Page::Table => table(ui, cx, memory, log, &clock.clock, compared),
            Page::Figures => figures(ui, cx, compared),
        }
    }
}

impl KvView {
    fn bar(&mut self, ui: &mut Ui, cx: &Cx<'_>, compared: &KvCompared) {
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            for (page, name) in [(Page::OverTime, "Over time"), (Page::Table, "Block table"), (Page::Figures, "Figures")] {
                if ui.selectable_label(page == self.page, name).clicked() {
                    self.page = page;
                }
            }
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.add_space(UNIT);
                let text = format!("saved by paging: {}", kv::saving(compared));
                ui.add(egui::Label::new(RichText::new(text).color(cx.tokens.weak)).truncate());
            });
        });
    }
}

fn picture<'a>(cx: &Cx<'_>, memory: &'a DeviceMemory, clock: &'a Clock, size: egui::Vec2) -> KvPicture<'a> {
    KvPicture {
        memory,
        clock,
        time: cx.session.window(clock),
        cursor: Some(cx.cursor()),
        selected: cx.selected(),
        size_pt: [size.x, size.y],
    }
}

fn over_time(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, clock: &Clock, compared: &KvCompared) {
    let canvas = canvas(ui, "KV cache over time", ui.available_size());
    let picture = picture(cx, memory, clock, canvas.rect.size());
    let drawing = kv::draw_lines(compared, &picture);
    paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &|_| None);
    act(ui, cx, &canvas, &picture, None);
    let Some(at) = inside(&canvas, &picture) else { return };
    let time = kv_table::time_scale(clock, &picture.time, picture.size_pt[0], picture.size_pt[1]);
    let unit = time.unit(at[0]);
    canvas.response.clone().on_hover_ui_at_pointer(|ui| {
        ui.strong(moment(clock.position(unit)));
        Grid::new("KV lines at the pointer").num_columns(2).show(ui, |ui| {
            for series in kv::series(compared) {
                ui.label(RichText::new(series.name).color(paint::colour(cx.tokens.palette, series.ink)));
                ui.label(kv::amount(compared, series.value_at(clock, unit)));
                ui.end_row();
            }
        });
    });
}

fn table(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, log: &KvLog, clock: &Clock, compared: &KvCompared) {
    let canvas = canvas(ui, "KV block table", ui.available_size());
    let picture = picture(cx, memory, clock, canvas.rect.size());
    let Some(drawing) = kv::draw_table(compared, &picture) else { return };
    let under = inside(&canvas, &picture).and_then(|at| drawing.pick(at[0], at[1]));
    paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &|_| None);
    if let Some(item) = under {
        cx.session.set_hovered(item);
    }
    act(ui, cx, &canvas, &picture, under);
    if let Some(Item::Allocation(id)) = under
        && let Some(event) = memory.allocations.get(id).alloc_event()
    {
        let row = log.blocks.partition_point(|block| block.event < event);
        canvas.response.clone().on_hover_ui_at_pointer(|ui| {
            for (place, words) in kv_table::words(log, row as u32).into_iter().enumerate() {
                if place == 0 {
                    ui.strong(words)
                } else {
                    ui.label(words)
                };
            }
            ui.label(RichText::new(crate::ui::views::usage::lifetime(memory, id)).color(cx.tokens.weak));
        });
    }
}

/// The pointer, where it is on the plot.
fn inside(canvas: &Canvas, picture: &KvPicture<'_>) -> Option<[f32; 2]> {
    let plot = kv_table::plot(picture.size_pt[0], picture.size_pt[1]);
    canvas.pointer.filter(|at| plot.contains(at[0], at[1]))
}

fn act(ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, picture: &KvPicture<'_>, under: Option<Item>) {
    let plot = kv_table::plot(picture.size_pt[0], picture.size_pt[1]);
    let time = kv_table::time_scale(picture.clock, &picture.time, picture.size_pt[0], picture.size_pt[1]);
    for gesture in &canvas.gestures {
        match *gesture {
            Gesture::Click(at) if plot.contains(at[0], at[1]) => {
                cx.send(Command::MoveCursor(picture.clock.position(time.unit(at[0]))));
                if let Some(item) = under {
                    cx.send(Command::Select(item));
                }
            }
            // Below the picture lie the ticks.
            Gesture::Drag { from, to, .. } if plot.y1 < from[1] && plot.x0 <= from[0] => {
                act_on_time(ui, cx, picture.clock, &time, &Gesture::Range(from, to));
            }
            Gesture::Zoom { .. }
            | Gesture::ZoomBytes { .. }
            | Gesture::Pan(_)
            | Gesture::Drag { .. }
            | Gesture::Range(..)
            | Gesture::RangeDone
            | Gesture::Measure(..)
            | Gesture::DoubleClick(_)
            | Gesture::Click(_) => act_on_time(ui, cx, picture.clock, &time, gesture),
        }
    }
}

fn figures(ui: &mut Ui, cx: &Cx<'_>, compared: &KvCompared) {
    let room = ui.available_rect_before_wrap();
    let left = egui::Rect::from_min_size(room.min, vec2((room.width() * 0.5).max(1.0), room.height()));
    let right = egui::Rect::from_min_max(egui::pos2(left.max.x + 2.0 * UNIT, room.min.y), room.max);
    ui.scope_builder(UiBuilder::new().max_rect(left), |ui| {
        ScrollArea::vertical().id_salt("KV figures").auto_shrink(false).show(ui, |ui| {
            Grid::new("KV figures").num_columns(2).spacing([4.0 * UNIT, UNIT]).show(ui, |ui| {
                for row in kv::rows(compared, cx.cursor()) {
                    ui.horizontal(|ui| {
                        ui.add_space(2.0 * UNIT);
                        ui.label(RichText::new(row.name).color(cx.tokens.weak)).on_hover_text(row.help);
                    });
                    ui.label(row.text);
                    ui.end_row();
                }
            });
        });
    });
    ui.scope_builder(UiBuilder::new().max_rect(right), |ui| ages(ui, cx, compared));
}

fn ages(ui: &mut Ui, cx: &Cx<'_>, compared: &KvCompared) {
    let paged = &compared.paged;
    if paged.ages.is_empty() {
        return cx.empty(ui, "No block was removed to make room.");
    }
    let label = |step: usize| {
        let from = paged.age_step.saturating_mul(step as u64);
        if paged.by_time { duration_label(from) } else { grouped(from) }
    };
    let bars: Vec<(String, u64)> = paged.ages.iter().enumerate().map(|(bucket, count)| (label(bucket), *count)).collect();
    let size = ui.available_size();
    let canvas = canvas(ui, "KV ages", size);
    let title = if paged.by_time { "blocks by age when removed" } else { "blocks by age in events when removed" };
    let (unit, ink) = (Unit::Count, Ink::Series(2));
    let mut input = HistogramInput { title, bars: &bars, unit, ink, hovered: None, width_pt: size.x, height_pt: size.y };
    input.hovered = canvas.pointer.and_then(|at| histogram::bar_at(&input, at[0], at[1]));
    paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &histogram::draw(&input), cx.tokens.palette, &|_| None);
    if let Some((from, count)) = input.hovered.and_then(|place| bars.get(place)) {
        canvas.response.on_hover_ui_at_pointer(|ui| {
            ui.strong(format!("from {from} on"));
            ui.label(crate::base::counted(*count, "block"));
        });
    }
}
