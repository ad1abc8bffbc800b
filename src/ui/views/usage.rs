//! Memory over time: what was live, stacked, with the reserved line above and the whole trace below.
//!
//! Always: nothing here walks events. Curves, clock and rasters come from jobs; a frame lays out the
//! visible pixels and moves the last finished raster to where the window is.

use crate::analysis::{DeviceUse, UsageTimeline, capacity};
use crate::base::{Bytes, counted};
use crate::chart::axis::{Span, duration_label};
use crate::chart::spans;
use crate::chart::usage::{self as chart, UsageFrame, UsageInput};
use crate::chart::{Clock, PlacedRaster, RasterSlot};
use crate::model::{AllocationId, DeviceId, DeviceMemory, Item, Position, Snapshot};
use crate::paint;
use crate::raster::{StackOutline, StackRaster};
use crate::session::lookups::{BlocksOf, OutlineOf};
use crate::session::pictures::PictureOf;
use crate::session::{Answer, Command, Document};
use crate::ui::views::usage_header::header;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas, zoomed};
use crate::ui::widgets::pictures::{Pictures, density};
use crate::ui::widgets::span_hand;
use crate::ui::widgets::text::{moment, no_stack, telling_line, time_of_day};
use crate::ui::widgets::time_hand::{act_on_time, draw_measure, measure_words};
use egui::Ui;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "usage",
    title: "Usage",
    help: "Live allocations stacked over time. Wheel zooms, drag pans, click selects, shift and drag measures a range.",
    open: || Box::new(Usage { pictures: Pictures::of(PictureOf::Usage) }),
};

#[derive(Clone)]
struct Usage {
    pictures: Pictures,
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
            return cx.nothing(ui);
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
        let mut selected: Vec<StackOutline> = exact(outline("selected", place.selected())).into_iter().collect();
        // Of a selected stack its largest blocks are outlined.
        if let Some(Item::Stack(stack)) = place.selected()
            && let Answer::Ready(largest) = cx.ask::<BlocksOf>(stack)
        {
            selected.extend(largest.outlines.iter().cloned());
        }
        let hovered = exact(outline("hovered", cx.hovered()));
        let device = cx.ask::<DeviceUse>(());
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
            device: device.value().map(|device| &**device),
            cursor: Some(place.cursor),
            range: place.range.clone(),
            marks: &marks,
            selected: &selected,
            hovered: hovered.as_ref(),
            selected_item: place.selected(),
            hovered_span: None,
        };
        let rasters = self.rasters(ui, cx, &input);
        input.rasters = &rasters;
        let began = std::time::Instant::now();
        let frame = chart::frame(&input);
        let span = canvas.pointer.and_then(|at| spans::hit(shown.clock, frame.spans, &frame.time, at[0], at[1]));
        input.hovered_span = span.map(|span| span.row);
        let drawing = chart::draw(&input);
        crate::ui::frame_times::note("usage, laying out", began.elapsed());
        paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &|slot| {
            self.pictures.texture(slot)
        });
        let hover = canvas.pointer.and_then(|at| under_pointer(at, &frame, shown, ui.ctx().pixels_per_point()));
        if let Some(id) = hover.as_ref().and_then(|hover| hover.allocation) {
            cx.session.set_hovered(Item::Allocation(id));
        }
        act(ui, cx, canvas, &frame, shown, (hover.as_ref(), span));
        if let Some(span) = span {
            canvas.response.clone().on_hover_ui_at_pointer(|ui| span_hand::tooltip(ui, cx, shown.snapshot(), span));
        }
        if let Some(hover) = hover {
            canvas.response.clone().on_hover_ui_at_pointer(|ui| tooltip(ui, cx, shown, &hover));
        }
    }

    /// The finished pictures: the whole trace below, the window above it.
    fn rasters(&mut self, ui: &Ui, cx: &Cx<'_>, input: &UsageInput<'_>) -> Vec<PlacedRaster> {
        let density = density(ui, [input.width_pt, input.height_pt]);
        let whole = UsageInput { time: 0.0..0.0, bytes: 0.0..0.0, ..input.clone() };
        let zoomed = input.time != input.clock.span() || input.bytes.start < input.bytes.end;
        self.pictures.place(ui, cx, input.clock, |slot| match slot {
            RasterSlot::Whole => Some(chart::wanted_raster(&whole, density)),
            RasterSlot::Window => zoomed.then(|| chart::wanted_raster(input, density)),
        })
    }
}

/// What the file says about its missing history.
pub fn no_history(memory: &DeviceMemory) -> String {
    let told = memory.coverage.gaps.iter().find(|gap| gap.missing == crate::model::Missing::History);
    match told {
        Some(gap) if !memory.tells_segments() => {
            format!("{} The flame graph and the live set show what was in use.", gap.sentence)
        }
        Some(gap) => format!("{} The layout shows the memory at the dump.", gap.sentence),
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

fn act(ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, frame: &UsageFrame, shown: &Shown<'_>, under: (Option<&Hover>, Option<&Span>)) {
    let (hover, span) = under;
    let window = cx.session.window(shown.clock);
    let bytes = frame.bytes.from..frame.bytes.to;
    let in_overview = |at: [f32; 2]| frame.overview.contains(at[0], at[1]);
    // Between picture and overview lie the ticks.
    let on_axis = |at: [f32; 2]| frame.plot.y1 < at[1] && !in_overview(at) && frame.plot.x0 <= at[0];
    let centre = |x: f32| {
        let (middle, half) = (frame.overview_time.unit(x), (window.end - window.start) / 2.0);
        Command::SetWindow(middle - half..middle + half)
    };
    for gesture in &canvas.gestures {
        if span_hand::act(ui, cx, shown.clock, span, gesture) {
            continue;
        }
        match *gesture {
            Gesture::Zoom { at, .. } if in_overview(at) => act_on_time(ui, cx, shown.clock, &frame.overview_time, gesture),
            Gesture::ZoomBytes { at, factor } => {
                cx.send(Command::SetBytes(Some(zoomed(&bytes, frame.bytes.unit(at[1]).max(0.0), factor))));
            }
            Gesture::Drag { from, by, .. } if in_overview(from) => {
                let by = f64::from(by[0]) * frame.overview_time.units_per_point();
                cx.send(Command::SetWindow(window.start + by..window.end + by));
            }
            Gesture::Drag { from, to, .. } if on_axis(from) => {
                act_on_time(ui, cx, shown.clock, &frame.time, &Gesture::Range(from, to));
            }
            Gesture::Measure(from, to) => {
                let words = measure_words(from, to, (&frame.time, &frame.bytes), shown.clock, shown.memory);
                draw_measure(ui, cx, canvas, (from, to), words);
            }
            Gesture::Drag { by: [_, dy], .. } => {
                act_on_time(ui, cx, shown.clock, &frame.time, gesture);
                if cx.place().is_some_and(|place| place.bytes.is_some()) && dy != 0.0 {
                    let up = f64::from(dy) * frame.bytes.units_per_point();
                    cx.send(Command::SetBytes(Some(bytes.start + up..bytes.end + up)));
                }
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
            Gesture::Zoom { .. } | Gesture::Pan(_) | Gesture::Range(..) | Gesture::RangeDone | Gesture::DoubleClick(_) => {
                act_on_time(ui, cx, shown.clock, &frame.time, gesture);
            }
        }
    }
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
    let events = counted(u64::from(last.0.saturating_sub(life.born.0)), "event");
    let time = |position: Position| position.event().and_then(|event| memory.trace.time_us(event));
    let span = match (life.alloc_event().and_then(|event| memory.trace.time_us(event)), time(last)) {
        (Some(from), Some(to)) if from <= to => format!(", {}", duration_label((to - from) as u64)),
        _ => String::new(),
    };
    let old = if life.alloc_event().is_none() { ", older than the trace" } else { "" };
    format!("{verb} {events}{span}{old}")
}
