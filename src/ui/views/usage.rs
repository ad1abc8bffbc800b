//! Memory over time: what was live, stacked, with the reserved line above and the whole trace below.
//!
//! Always: nothing here walks events. Curves, clock and rasters come from jobs; a frame lays out the
//! visible pixels and moves the last finished raster to where the window is.

use crate::analysis::{UsageTimeline, capacity};
use crate::base::{Bytes, grouped};
use crate::chart::axis::duration_label;
use crate::chart::usage::{self as chart, UsageFrame, UsageInput};
use crate::chart::{Area, Clock, PlacedRaster, RasterSlot};
use crate::model::{AllocationId, DeviceId, DeviceMemory, Item, Position, Snapshot};
use crate::paint;
use crate::raster::{StackOutline, StackRaster};
use crate::session::lookups::OutlineOf;
use crate::session::pictures::{Look, Picture};
use crate::session::{Answer, Command, Document};
use crate::ui::views::usage_header::header;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas, zoomed};
use crate::ui::widgets::text::{moment, no_stack, telling_line, time_of_day};
use egui::{TextureHandle, TextureId, TextureOptions, Ui};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "usage",
    title: "Usage",
    help: "Live allocations stacked over time. Wheel zooms, drag pans, click selects, shift and drag measures a range.",
    open: || Box::new(Usage::default()),
};

#[derive(Default)]
struct Usage {
    /// Uploaded pictures with their serials.
    textures: BTreeMap<RasterSlot, (u64, TextureHandle)>,
}

/// What lies under the pointer.
struct Hover {
    position: Position,
    bytes: u64,
    allocation: Option<AllocationId>,
}

impl View for Usage {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, device, memory)) = cx.session.front() else {
            return cx.empty(ui, "No file is open. Open one from the File menu, or drop it onto the window.");
        };
        if !memory.has_history() {
            return cx.empty(ui, &no_history(memory));
        }
        header(ui, cx, memory);
        let usage = cx.ask::<UsageTimeline>(());
        let Some(usage) = usage.value() else {
            return cx.show(ui, &usage, |_, _| {});
        };
        let Some(clock) = cx.session.clock() else {
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
            return;
        };
        let size = ui.available_size();
        let canvas = canvas(ui, "usage timeline", size);
        self.show(ui, cx, &canvas, &Shown { document, device, memory, usage, clock: &clock.clock });
    }
}

/// What one frame shows.
struct Shown<'a> {
    document: &'a Document,
    device: DeviceId,
    memory: &'a DeviceMemory,
    usage: &'a Arc<UsageTimeline>,
    clock: &'a Clock,
}

impl Shown<'_> {
    fn snapshot(&self) -> &Snapshot {
        &self.document.snapshot
    }
    fn stack(&self) -> Option<StackRaster<'_>> {
        let replay = self.document.replays.as_ref()?.get(self.device.0 as usize)?;
        Some(StackRaster::new(self.memory, replay, self.usage))
    }
}

impl Usage {
    fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, canvas: &Canvas, shown: &Shown<'_>) {
        let Some(place) = cx.place() else { return };
        let marks: Vec<(char, Position)> = ('A'..='Z').zip(place.marks.iter().copied()).collect();
        let outline = |slot, item: Option<Item>| match item {
            Some(Item::Allocation(id)) => cx.session.ask_in::<OutlineOf>(slot, id),
            _ => Answer::Failed(Arc::new(crate::session::jobs::JobError::Cancelled)),
        };
        let exact = |answer: Answer<crate::session::lookups::MaybeOutline>| match answer {
            Answer::Ready(outline) => outline.0.clone(),
            Answer::Stale(..) | Answer::Pending(_) | Answer::Failed(_) => None,
        };
        let selected: Vec<StackOutline> = exact(outline("selected", place.selected())).into_iter().collect();
        let hovered = exact(outline("hovered", cx.hovered()));
        let mut input = UsageInput {
            snapshot: shown.snapshot(),
            memory: shown.memory,
            usage: shown.usage,
            clock: shown.clock,
            width_pt: canvas.rect.width(),
            height_pt: canvas.rect.height(),
            overview: 120.0 <= canvas.rect.height(),
            time: cx.session.window(shown.clock),
            bytes: place.bytes.clone().unwrap_or(0.0..0.0),
            rasters: &[],
            capacity: capacity::at_last_oom(shown.memory, shown.usage),
            cursor: Some(place.cursor),
            range: place.range.clone(),
            marks: &marks,
            selected: &selected,
            hovered: hovered.as_ref(),
            selected_item: place.selected(),
        };
        let rasters = self.rasters(ui, cx, &input);
        input.rasters = &rasters;
        let began = std::time::Instant::now();
        let frame = chart::frame(&input);
        let drawing = chart::draw(&input);
        crate::ui::frame_times::note("usage, laying out", began.elapsed());
        let textures = |slot: RasterSlot| -> Option<TextureId> { self.textures.get(&slot).map(|(_, texture)| texture.id()) };
        paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &textures);
        let hover = canvas.pointer.and_then(|at| under_pointer(at, &frame, shown, ui.ctx().pixels_per_point()));
        if let Some(id) = hover.as_ref().and_then(|hover| hover.allocation) {
            cx.session.set_hovered(Item::Allocation(id));
        }
        act(ui, cx, canvas, &frame, shown, hover.as_ref());
        if let Some(hover) = hover {
            canvas.response.clone().on_hover_ui_at_pointer(|ui| tooltip(ui, cx, shown, &hover));
        }
    }

    /// The finished pictures, uploaded: the whole trace below, the window above it.
    fn rasters(&mut self, ui: &Ui, cx: &Cx<'_>, input: &UsageInput<'_>) -> Vec<PlacedRaster> {
        let side = ui.input(|input| input.max_texture_side) as f32;
        let density = ui.ctx().pixels_per_point().min(side / input.width_pt.max(1.0)).min(side / input.height_pt.max(1.0));
        let whole = UsageInput { time: 0.0..0.0, bytes: 0.0..0.0, ..input.clone() };
        let zoomed = input.time != input.clock.span() || input.bytes.start < input.bytes.end;
        let mut placed = Vec::new();
        for (slot, input) in [(RasterSlot::Whole, &whole), (RasterSlot::Window, input)] {
            if slot == RasterSlot::Window && !zoomed {
                self.textures.remove(&slot);
                continue;
            }
            let (view, to) = chart::wanted_raster(input, density);
            let look = Look {
                placed: PlacedRaster { slot, ..to },
                size_px: (view.columns.len().saturating_sub(1), view.height),
                axis: input.clock.axis(),
                colour_by: cx.session.workspace().colour_by,
                theme: cx.tokens.palette.theme,
            };
            if look.size_px.0 == 0 || look.size_px.1 == 0 {
                continue;
            }
            match cx.session.picture(&look, || view) {
                Some(picture) => {
                    self.upload(ui, slot, &picture);
                    placed.push(picture.look.placed.clone());
                }
                None => drop(self.textures.remove(&slot)),
            }
        }
        placed
    }

    fn upload(&mut self, ui: &Ui, slot: RasterSlot, picture: &Picture) {
        if self.textures.get(&slot).is_some_and(|(serial, _)| *serial == picture.serial) {
            return;
        }
        let image = paint::texture_image(&picture.raster);
        match self.textures.get_mut(&slot) {
            Some((serial, texture)) => {
                texture.set(image, TextureOptions::NEAREST);
                *serial = picture.serial;
            }
            None => {
                let texture = ui.ctx().load_texture(format!("usage {slot:?}"), image, TextureOptions::NEAREST);
                self.textures.insert(slot, (picture.serial, texture));
            }
        }
    }
}

/// What the file says about its missing history.
fn no_history(memory: &DeviceMemory) -> String {
    let told = memory.coverage.gaps.iter().find(|gap| gap.missing == crate::model::Missing::History);
    match told {
        Some(gap) => format!("{} The layout below shows the memory at the dump.", gap.sentence),
        None => "This device has no history: nothing was recorded on it. The layout shows its memory at the dump.".to_owned(),
    }
}

fn under_pointer(at: [f32; 2], frame: &UsageFrame, shown: &Shown<'_>, pixels_per_point: f32) -> Option<Hover> {
    if !frame.plot.contains(at[0], at[1]) {
        return None;
    }
    // The picture shows one moment a pixel column: that one is meant.
    let column = ((at[0] - frame.plot.x0) * pixels_per_point).floor() / pixels_per_point + frame.plot.x0;
    let from = shown.clock.position(frame.time.unit(column));
    let to = shown.clock.position(frame.time.unit(column + 1.0 / pixels_per_point));
    let bytes = frame.bytes.unit(at[1]).max(0.0) as u64;
    let (position, allocation) = match shown.stack() {
        Some(stack) => {
            let position = stack.shown(from, to);
            (position, stack.hit(position, bytes))
        }
        None => (from, None),
    };
    Some(Hover { position, bytes, allocation })
}

fn act(ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, frame: &UsageFrame, shown: &Shown<'_>, hover: Option<&Hover>) {
    let window = cx.session.window(shown.clock);
    let bytes = frame.bytes.from..frame.bytes.to;
    let in_overview = |at: [f32; 2]| frame.overview.contains(at[0], at[1]);
    // Between picture and overview lie the ticks.
    let on_axis = |at: [f32; 2]| frame.plot.y1 < at[1] && !in_overview(at) && frame.plot.x0 <= at[0];
    let centre = |x: f32| {
        let (middle, half) = (frame.overview_time.unit(x), (window.end - window.start) / 2.0);
        Command::SetWindow(middle - half..middle + half)
    };
    let position = |x: f32| shown.clock.position(frame.time.unit(x.clamp(frame.plot.x0, frame.plot.x1)));
    for gesture in &canvas.gestures {
        match *gesture {
            Gesture::Zoom { at, factor } => {
                let time = if in_overview(at) { &frame.overview_time } else { &frame.time };
                cx.send(Command::SetWindow(zoomed(&window, time.unit(clamped(at[0], frame.plot)), factor)));
            }
            Gesture::ZoomBytes { at, factor } => {
                cx.send(Command::SetBytes(Some(zoomed(&bytes, frame.bytes.unit(at[1]).max(0.0), factor))));
            }
            Gesture::Pan([dx, _]) => {
                let by = -f64::from(dx) * frame.time.units_per_point();
                cx.send(Command::SetWindow(window.start + by..window.end + by));
            }
            Gesture::Drag { from, by, .. } if in_overview(from) => {
                let by = f64::from(by[0]) * frame.overview_time.units_per_point();
                cx.send(Command::SetWindow(window.start + by..window.end + by));
            }
            Gesture::Drag { from, to, .. } if on_axis(from) => {
                let (a, b) = (position(from[0]), position(to[0]));
                cx.send(Command::SelectRange(a.min(b)..a.max(b)));
            }
            Gesture::Drag { by: [dx, dy], .. } => {
                let by = -f64::from(dx) * frame.time.units_per_point();
                cx.send(Command::SetWindow(window.start + by..window.end + by));
                if cx.place().is_some_and(|place| place.bytes.is_some()) && dy != 0.0 {
                    let up = f64::from(dy) * frame.bytes.units_per_point();
                    cx.send(Command::SetBytes(Some(bytes.start + up..bytes.end + up)));
                }
                ui.ctx().set_cursor_icon(egui::CursorIcon::Grabbing);
            }
            Gesture::Range(from, to) => {
                let (a, b) = (position(from[0]), position(to[0]));
                cx.send(Command::SelectRange(a.min(b)..a.max(b)));
            }
            Gesture::RangeDone => {}
            Gesture::Measure(from, to) => {
                let ends = [from, to].map(|at| canvas.rect.min + egui::vec2(at[0], at[1]));
                let painter = ui.painter_at(canvas.rect);
                painter.line_segment(ends, egui::Stroke::new(1.0, cx.tokens.accent));
                let text = egui::WidgetText::from(measure_words(from, to, frame, shown));
                let text = text.into_galley(ui, None, f32::INFINITY, egui::TextStyle::Body);
                // Beside the pointer, on the side where there is room.
                let left = if canvas.rect.right() < ends[1].x + text.size().x + 16.0 { text.size().x + 12.0 } else { -12.0 };
                let place = egui::Rect::from_min_size(ends[1] - egui::vec2(left, 0.0), text.size());
                painter.rect_filled(place.expand(4.0), 2.0, cx.tokens.panel);
                painter.galley(place.min, text, cx.tokens.text);
            }
            Gesture::Click(at) if in_overview(at) => cx.send(centre(at[0])),
            Gesture::Click(_) => match hover {
                Some(Hover { position, allocation: Some(id), .. }) => {
                    cx.send(Command::MoveCursor(*position));
                    cx.send(Command::Select(Item::Allocation(*id)));
                }
                Some(Hover { position, .. }) => cx.send(Command::MoveCursor(*position)),
                None => {}
            },
            Gesture::DoubleClick(_) => cx.send(Command::Fit),
        }
    }
}

/// The distance between two points of the picture: events, time, bytes.
fn measure_words(from: [f32; 2], to: [f32; 2], frame: &UsageFrame, shown: &Shown<'_>) -> String {
    let [a, b] = [from, to].map(|at| shown.clock.position(frame.time.unit(clamped(at[0], frame.plot))));
    let time = |position: Position| position.event().and_then(|event| shown.memory.trace.time_us(event));
    let bytes = (frame.bytes.unit(to[1]) - frame.bytes.unit(from[1])).abs() as u64;
    let span = match (time(a.min(b)), time(a.max(b))) {
        (Some(from), Some(to)) if from <= to => format!(", {}", duration_label((to - from) as u64)),
        _ => String::new(),
    };
    format!("{} events{span}\n{}", grouped(u64::from(a.0.abs_diff(b.0))), Bytes(bytes).exact())
}

fn clamped(x: f32, plot: Area) -> f32 {
    x.clamp(plot.x0, plot.x1)
}

fn tooltip(ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, hover: &Hover) {
    let weak = |text: String| egui::RichText::new(text).color(cx.tokens.weak);
    let when = hover.position.event().and_then(|event| shown.memory.trace.time_us(event)).map(time_of_day);
    let when = when.map_or(String::new(), |time| format!("  {time}"));
    match hover.allocation {
        Some(id) => {
            let life = shown.memory.allocations.get(id);
            ui.strong(format!("{}  {}", Bytes(life.size), life.label()));
            let stacks = &shown.snapshot().stacks;
            ui.label(telling_line(stacks, life.stack).unwrap_or_else(|| no_stack(life.stack).to_owned()));
            ui.label(weak(lifetime(shown.memory, id)));
        }
        None => {
            let totals = shown.usage.totals_at(hover.position);
            let free = totals.reserved.saturating_sub(totals.active);
            if hover.bytes < totals.reserved {
                ui.strong(format!("{} reserved but free", Bytes(free)));
            }
            ui.label(format!("{} allocated of {} reserved", Bytes(totals.allocated), Bytes(totals.reserved)));
        }
    }
    ui.label(weak(format!("{}{when}", moment(hover.position))));
}

/// How long a block lived: `lived 1 204 events, 12.50 ms`.
pub fn lifetime(memory: &DeviceMemory, id: AllocationId) -> String {
    let life = memory.allocations.get(id);
    let end = memory.end();
    let verb = if life.died <= end { "lived" } else { "alive at the end, after" };
    let last = life.died.min(end);
    let events = grouped(u64::from(last.0.saturating_sub(life.born.0)));
    let time = |position: Position| position.event().and_then(|event| memory.trace.time_us(event));
    let span = match (life.alloc_event().and_then(|event| memory.trace.time_us(event)), time(last)) {
        (Some(from), Some(to)) if from <= to => format!(", {}", duration_label((to - from) as u64)),
        _ => String::new(),
    };
    let old = if life.alloc_event().is_none() { ", older than the trace" } else { "" };
    format!("{verb} {events} events{span}{old}")
}
