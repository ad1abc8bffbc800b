//! Where each block lay from its birth to its death: the picture of fragmentation.
//!
//! Always: blocks are a raster made by a job, moved and scaled until a fresh one is there; a frame lays out segments
//! and axes, and asks the index what lies under the pointer. Time is the window all views share; the visible
//! addresses belong to the place where one is, so they are undone with it.

use crate::base::{Bytes, grouped};
use crate::chart::address_time::{self as chart, AddressTimeFrame, AddressTimeInput};
use crate::chart::axis::Span;
use crate::chart::{Clock, PlacedRaster, RasterSlot, spans};
use crate::model::{DeviceMemory, Item, Position, Snapshot};
use crate::paint;
use crate::raster::LivesIndex;
use crate::session::lookups::BlocksOf;
use crate::session::pictures::PictureOf;
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::usage::{lifetime, no_history};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas, zoomed};
use crate::ui::widgets::legend::Legend;
use crate::ui::widgets::pictures::{Pictures, density};
use crate::ui::widgets::span_hand;
use crate::ui::widgets::text::{moment, no_stack, telling_line};
use crate::ui::widgets::time_hand::{act_on_time, draw_measure, measure_words};
use egui::{Align, Layout, RichText, Ui};
use std::ops::Range;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "addresses",
    title: "Address over time",
    help: "Where each block lay from its birth to its death, segments stacked without the gaps between them; what is free \
           inside a segment stays empty. Wheel zooms time, ctrl and wheel zooms addresses, drag pans, click selects.",
    open: || Box::new(AddressTime { pictures: Pictures::of(PictureOf::Addresses) }),
};

/// The part of the address axis that no zoom goes below, in bytes: the smallest block there is.
const SHORTEST_ROWS: f64 = 512.0;

#[derive(Clone)]
struct AddressTime {
    pictures: Pictures,
}

impl View for AddressTime {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if !memory.has_history() {
            return cx.empty(ui, &no_history(memory));
        }
        if let Some(why) = cx.no_places(memory) {
            return cx.empty(ui, &format!("There are no addresses to show. {why}"));
        }
        if memory.segments.is_empty() {
            return cx.empty(ui, "This recording names no segments, so no address can be shown.");
        }
        let index = cx.ask::<LivesIndex>(());
        let Some(index) = index.value() else {
            return cx.show(ui, &index, |_, _| {});
        };
        let Some(clock) = cx.session.clock() else {
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
            return;
        };
        self.header(ui, cx, memory, index);
        let canvas = canvas(ui, "address over time", ui.available_size());
        self.show(ui, cx, &canvas, &Shown { snapshot: &document.snapshot, memory, index, clock: &clock.clock });
    }
}

/// What one frame shows.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    index: &'a LivesIndex,
    clock: &'a Clock,
}

impl AddressTime {
    fn header(&self, ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, index: &LivesIndex) {
        let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
        let legend = Legend::now(cx);
        let mut below = false;
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            ui.spacing_mut().item_spacing.x = UNIT;
            let (all, spans) = (index.map.rows(), index.map.spans().len() as u64);
            if let Some(rows) = cx.place().and_then(|place| place.rows.clone()) {
                if ui.button("All addresses").on_hover_text("Shows every address again").clicked() {
                    cx.send(Command::SetRows(None));
                }
                byte_label(ui, "visible addresses", (rows.end - rows.start).max(0.0) as u64);
                ui.label(weak("visible of".to_owned()));
            }
            byte_label(ui, "addresses that were ever a segment", all);
            let ranges = if spans == 1 { "one range".to_owned() } else { format!("{} ranges", grouped(spans)) };
            let what = if memory.tells_segments() { "ever reserved" } else { "ever in use" };
            ui.label(weak(format!("{what}, in {ranges} of addresses")));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.add_space(UNIT);
                below = !legend.show_beside(ui, cx);
            });
        });
        if below {
            legend.show_below(ui, cx);
        }
    }

    fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, canvas: &Canvas, shown: &Shown<'_>) {
        let Some(place) = cx.place() else { return };
        let marks: Vec<(char, Position)> = ('A'..='Z').zip(place.marks.iter().copied()).collect();
        // Of a selected stack its largest blocks are outlined.
        let mut selected = place.selection.clone();
        if let Some(Item::Stack(stack)) = place.selected()
            && let Answer::Ready(largest) = cx.ask::<BlocksOf>(stack)
        {
            selected.extend(largest.blocks.iter().copied().map(Item::Allocation));
        }
        let mut input = AddressTimeInput {
            snapshot: shown.snapshot,
            memory: shown.memory,
            index: shown.index,
            clock: shown.clock,
            width_pt: canvas.rect.width(),
            height_pt: canvas.rect.height(),
            time: cx.session.window(shown.clock),
            rows: place.rows.clone().unwrap_or(0.0..0.0),
            rasters: &[],
            cursor: Some(place.cursor),
            range: place.range.clone(),
            marks: &marks,
            selected: &selected,
            hovered: cx.hovered(),
            hovered_span: None,
        };
        let rasters = self.rasters(ui, cx, &input);
        input.rasters = &rasters;
        let frame = chart::frame(&input);
        let span = canvas.pointer.and_then(|at| spans::hit(shown.clock, frame.spans, &frame.time, at[0], at[1]));
        input.hovered_span = span.map(|span| span.row);
        let drawing = chart::draw(&input);
        let textures = |slot| self.pictures.texture(slot);
        paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &textures);
        let inside = canvas.pointer.filter(|at| frame.plot.contains(at[0], at[1]));
        let under = inside.and_then(|at| chart::hit(&input, at[0], at[1]));
        if let Some(item) = under {
            cx.session.set_hovered(item);
        }
        self.act(ui, cx, canvas, &frame, shown, (under, span));
        if let Some(span) = span {
            canvas.response.clone().on_hover_ui_at_pointer(|ui| span_hand::tooltip(ui, cx, shown.snapshot, span));
        }
        if let Some(at) = inside {
            let moment = shown.clock.position(frame.time.unit(at[0]));
            let address = shown.index.map.address(frame.rows.unit(at[1]).max(0.0) as u64);
            canvas.response.clone().on_hover_ui_at_pointer(|ui| tooltip(ui, cx, shown, under, moment, address));
        }
    }

    /// The finished pictures: all addresses of the whole trace below, what one sees above it.
    fn rasters(&mut self, ui: &Ui, cx: &Cx<'_>, input: &AddressTimeInput<'_>) -> Vec<PlacedRaster> {
        let density = density(ui, [input.width_pt, input.height_pt]);
        let whole = AddressTimeInput { time: 0.0..0.0, rows: 0.0..0.0, ..input.clone() };
        let is_zoomed = input.time != input.clock.span() || input.rows.start < input.rows.end;
        self.pictures.place(ui, cx, input.clock, |slot| match slot {
            RasterSlot::Whole => Some(chart::wanted_raster(&whole, density)),
            RasterSlot::Window => is_zoomed.then(|| chart::wanted_raster(input, density)),
        })
    }

    fn act(
        &mut self,
        ui: &Ui,
        cx: &Cx<'_>,
        canvas: &Canvas,
        frame: &AddressTimeFrame,
        shown: &Shown<'_>,
        (under, span): (Option<Item>, Option<&Span>),
    ) {
        let (rows, all) = (frame.rows.from..frame.rows.to, shown.index.map.rows() as f64);
        for gesture in &canvas.gestures {
            if span_hand::act(ui, cx, shown.clock, span, gesture) {
                continue;
            }
            match *gesture {
                Gesture::ZoomBytes { at, factor } => {
                    let at = at[1].clamp(frame.plot.y0, frame.plot.y1);
                    cx.send(Command::SetRows(limited(zoomed(&rows, frame.rows.unit(at), factor), all)));
                }
                // Below the picture lie the ticks.
                Gesture::Drag { from, to, .. } if frame.plot.y1 < from[1] && frame.plot.x0 <= from[0] => {
                    act_on_time(ui, cx, shown.clock, &frame.time, &Gesture::Range(from, to));
                }
                Gesture::Measure(from, to) => {
                    let words = measure_words(from, to, (&frame.time, &frame.rows), shown.clock, shown.memory);
                    draw_measure(ui, cx, canvas, (from, to), words);
                }
                Gesture::Drag { by: [_, dy], .. } => {
                    act_on_time(ui, cx, shown.clock, &frame.time, gesture);
                    let up = f64::from(dy) * frame.rows.units_per_point();
                    if up != 0.0 && cx.place().is_some_and(|place| place.rows.is_some()) {
                        cx.send(Command::SetRows(limited(rows.start + up..rows.end + up, all)));
                    }
                }
                Gesture::Click(at) if frame.plot.contains(at[0], at[1]) => {
                    cx.send(Command::MoveCursor(shown.clock.position(frame.time.unit(at[0]))));
                    if let Some(item) = under {
                        cx.send(Command::Select(item));
                    }
                }
                Gesture::Zoom { .. }
                | Gesture::DoubleClick(_)
                | Gesture::Pan(_)
                | Gesture::Range(..)
                | Gesture::RangeDone
                | Gesture::Click(_) => {
                    act_on_time(ui, cx, shown.clock, &frame.time, gesture);
                }
            }
        }
    }
}

/// Rows that exist, at least so many that something can be seen; none for all of them.
fn limited(rows: Range<f64>, all: f64) -> Option<Range<f64>> {
    let length = (rows.end - rows.start).max(SHORTEST_ROWS);
    let start = rows.start.clamp(0.0, (all - length).max(0.0));
    (start.is_finite() && length < all).then_some(start..start + length)
}

fn tooltip(ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, under: Option<Item>, at: Position, address: Option<u64>) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    let place = address.map_or(String::new(), |address| format!("0x{address:x}, "));
    match under {
        Some(Item::Allocation(id)) if (id.0 as usize) < shown.memory.allocations.len() => {
            let life = shown.memory.allocations.get(id);
            ui.strong(format!("{}  {}", Bytes(life.size), life.label()));
            ui.label(telling_line(&shown.snapshot.stacks, life.stack).unwrap_or_else(|| no_stack(life.stack).to_owned()));
            ui.label(weak(lifetime(shown.memory, id)));
        }
        Some(Item::Segment(id)) => {
            if let Some(segment) = shown.memory.segments.get(id) {
                ui.strong("free");
                ui.label(format!("in a segment of {} at 0x{:x}", Bytes(segment.size), segment.address));
            }
        }
        _ => {
            ui.strong("no segment");
            ui.label("Nothing was reserved at this address then.");
        }
    }
    ui.label(weak(format!("{place}{}", moment(at))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_rows_stay_inside_what_there_is() {
        for (rows, limited_to) in [
            (0.0..4096.0, None),
            (-10.0..5000.0, None),
            (-1000.0..1000.0, Some(0.0..2000.0)),
            (3000.0..5000.0, Some(2096.0..4096.0)),
            (100.0..101.0, Some(100.0..612.0)),
            (f64::NAN..1.0, None),
        ] {
            assert_eq!(limited(rows.clone(), 4096.0), limited_to, "{rows:?}");
        }
        assert_eq!(limited(0.0..1.0, 300.0), None, "less than the shortest");
    }
}
