//! The layout of memory at the cursor: every segment with its blocks and gaps, true to scale.

use crate::base::{Bytes, counted};
use crate::chart::segment_map::{self as chart, SegmentMapInput};
use crate::model::{Action, BlockState, DeviceMemory, Item, Snapshot};
use crate::paint;
use crate::replay::MemoryState;
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas};
use crate::ui::widgets::text::{no_stack, telling_line};
use egui::{RichText, ScrollArea, Ui, vec2};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "layout",
    title: "Layout",
    help: "Segments, blocks and gaps at the cursor. Click selects, double click shows one segment alone.",
    open: || Box::new(SegmentMap::default()),
};

#[derive(Clone, Default)]
struct SegmentMap {
    /// An address in the one segment shown alone.
    focus: Option<u64>,
    /// Bytes a row holds; none: whatever shows everything.
    bytes_per_row: Option<u64>,
    /// Height of everything in the last frame.
    content_height_pt: f32,
}

impl View for SegmentMap {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if !memory.tells_segments() {
            return cx.empty(ui, "This file tells nothing of segments, so there is no layout to show.");
        }
        let state = cx.state();
        cx.show(ui, &state, |ui, state| {
            if state.segments.is_empty() {
                let text = if memory.segments.is_empty() {
                    "The file holds no segments for this device: nothing was reserved on it."
                } else {
                    "No segment exists at this moment yet. Move the cursor to a later event."
                };
                return cx.empty(ui, text);
            }
            self.focus = self.focus.filter(|address| state.segment_at(*address).is_some());
            self.header(ui, cx, state);
            let Answer::Ready(inks) = cx.session.inks() else { return };
            let size = ui.available_size();
            let found = cx.session.found();
            let input = SegmentMapInput {
                snapshot: &document.snapshot,
                memory,
                state,
                inks: &inks.inks,
                width_pt: size.x,
                height_pt: size.y,
                scroll_pt: 0.0,
                bytes_per_row: self.bytes_per_row,
                focus: self.focus,
                request: failed_request(memory, state),
                selected: cx.selected(),
                hovered: cx.hovered(),
                found: found.as_deref(),
            };
            self.scroll(ui, cx, &document.snapshot, input);
        });
    }
}

impl SegmentMap {
    fn header(&mut self, ui: &mut Ui, cx: &Cx<'_>, state: &MemoryState) {
        let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            ui.spacing_mut().item_spacing.x = UNIT;
            if let Some(place) = self.focus.and_then(|address| state.segment_at(address)) {
                let segment = &state.segments[place];
                let free: u64 = state.blocks_of(segment).iter().filter(|b| b.allocation.is_none()).map(|b| b.size).sum();
                if ui.button("All segments").clicked() {
                    self.focus = None;
                }
                ui.label(format!("Segment 0x{:x}", segment.address));
                byte_label(ui, "segment", segment.size);
                ui.label(weak("of which".to_owned()));
                byte_label(ui, "free", free);
                ui.label(weak("free".to_owned()));
                return;
            }
            ui.label(counted(state.segments.len() as u64, "segment"));
            ui.label(weak("·".to_owned()));
            ui.label(counted(state.active_blocks, "block"));
            let parts = [
                ("free in gaps", state.totals.free()),
                ("pending free", state.totals.pending_free()),
                ("lost to rounding", state.totals.active.saturating_sub(state.totals.requested)),
            ];
            for (what, bytes) in parts.into_iter().filter(|(_, bytes)| 0 < *bytes) {
                ui.label(weak("·".to_owned()));
                byte_label(ui, what, bytes);
                ui.label(weak(what.to_owned()));
            }
        });
    }

    fn scroll(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, input: SegmentMapInput<'_>) {
        let (size, memory, state) = (vec2(input.width_pt, input.height_pt), input.memory, input.state);
        ScrollArea::vertical().id_salt("layout").auto_shrink(false).show_viewport(ui, |ui, viewport| {
            ui.set_height(self.content_height_pt.max(1.0));
            let scrolled = chart::draw(&SegmentMapInput { scroll_pt: viewport.min.y.max(0.0), ..input });
            if self.content_height_pt != scrolled.content_height_pt {
                self.content_height_pt = scrolled.content_height_pt;
                ui.ctx().request_repaint();
            }
            let at = ui.min_rect().min + vec2(0.0, viewport.min.y.max(0.0));
            let mut here = ui.new_child(egui::UiBuilder::new().max_rect(egui::Rect::from_min_size(at, size)));
            let canvas = canvas(&mut here, "memory layout", size);
            paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &scrolled.drawing, cx.tokens.palette, &|_| None);
            let hover = canvas.pointer.and_then(|at| scrolled.drawing.pick(at[0], at[1]));
            if let Some(item) = hover {
                cx.session.set_hovered(item);
            }
            self.act(cx, &canvas, state, memory, hover, scrolled.bytes_per_row);
            if let Some(item) = hover {
                canvas.response.clone().on_hover_ui_at_pointer(|ui| tooltip(ui, cx, snapshot, memory, state, item));
            }
        });
    }

    fn act(
        &mut self,
        cx: &Cx<'_>,
        canvas: &Canvas,
        state: &MemoryState,
        memory: &DeviceMemory,
        hover: Option<Item>,
        per_row: u64,
    ) {
        for gesture in &canvas.gestures {
            match *gesture {
                Gesture::Click(_) => match hover {
                    Some(item) => cx.send(Command::Select(item)),
                    None => cx.send(Command::ClearSelection),
                },
                Gesture::DoubleClick(_) => {
                    let address = hover.and_then(|item| address_of(memory, item));
                    self.focus = match (self.focus, address.and_then(|address| state.segment_at(address))) {
                        (None, Some(place)) => Some(state.segments[place].address),
                        _ => None,
                    };
                }
                Gesture::ZoomBytes { factor, .. } => {
                    let largest = state.segments.iter().map(|segment| segment.size).max().unwrap_or(1);
                    let wanted = (per_row as f64 * factor).clamp(65_536.0, (largest as f64 * 64.0).max(65_536.0));
                    self.bytes_per_row = Some(wanted as u64);
                }
                Gesture::Zoom { .. }
                | Gesture::Pan(_)
                | Gesture::Drag { .. }
                | Gesture::Range(..)
                | Gesture::RangeDone
                | Gesture::Measure(..) => {}
            }
        }
    }
}

/// The size that could not be had, when the cursor stands at an out-of-memory event.
fn failed_request(memory: &DeviceMemory, state: &MemoryState) -> Option<u64> {
    let event = state.position.event()?;
    let row = event.0 as usize;
    (memory.trace.actions().get(row) == Some(&Action::Oom)).then(|| memory.trace.sizes().get(row).copied()).flatten()
}

fn address_of(memory: &DeviceMemory, item: Item) -> Option<u64> {
    match item {
        Item::Allocation(id) => memory.allocations.addresses().get(id.0 as usize).copied(),
        Item::Segment(id) => memory.segments.get(id).map(|segment| segment.address),
        Item::Gap { address, .. } => Some(address),
        Item::Event(_) | Item::Stack(_) => None,
    }
}

fn tooltip(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState, item: Item) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    match item {
        Item::Allocation(id) if (id.0 as usize) < memory.allocations.len() => {
            let life = memory.allocations.get(id);
            ui.strong(format!("{}  {}", Bytes(life.size), life.label()));
            ui.label(telling_line(&snapshot.stacks, life.stack).unwrap_or_else(|| no_stack(life.stack).to_owned()));
            if life.state_at(state.position) == BlockState::ActivePendingFree {
                ui.label("freed, but waits for another stream");
            }
            ui.label(weak(super::usage::lifetime(memory, id)));
        }
        Item::Gap { address, size } => {
            ui.strong(format!("{} free", Bytes(size)));
            ui.label(weak(format!("gap at 0x{address:x}")));
        }
        Item::Segment(id) => {
            if let Some(segment) = memory.segments.get(id) {
                ui.strong(format!("{} segment", Bytes(segment.size)));
                ui.label(weak(format!("0x{:x}, {}", segment.address, segment.class.name())));
                ui.label(weak("Double click shows it alone".to_owned()));
            }
        }
        Item::Allocation(_) | Item::Event(_) | Item::Stack(_) => {}
    }
}
