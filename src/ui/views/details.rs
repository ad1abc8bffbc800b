//! Everything known of what is selected: an allocation, a gap, a segment, an event, a stack; of nothing,
//! the account of the moment at the cursor.
//!
//! Always: every size is exact and copied by a click; every moment named is a button that goes there.

use crate::base::grouped;
use crate::chart::ink::{pool_name, stream_name};
use crate::chart::text::date_time;
use crate::model::glossary::meaning;
use crate::model::{
    Action, AllocationFlags, AllocationId, BlockState, DeviceMemory, EventIdx, Item, Position, SegmentId, Snapshot,
};
use crate::replay::{MemoryState, StateBlock};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::usage::lifetime;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::{byte_label, copyable, exact_label};
use crate::ui::widgets::stack_list::stack_list;
use crate::ui::widgets::text::{moment, telling_line, time_of_day};
use egui::{Grid, RichText, ScrollArea, Ui};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "details",
    title: "Details",
    help: "All fields, the stack and the neighbours of what is selected; the account of the moment where nothing is.",
    open: || Box::new(Details),
};

#[derive(Clone)]
struct Details;

impl View for Details {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let snapshot = &document.snapshot;
        ScrollArea::vertical().id_salt("details").auto_shrink(false).show(ui, |ui| {
            egui::Frame::new().inner_margin(2.0 * UNIT).show(ui, |ui| match cx.selected() {
                Some(Item::Allocation(id)) if (id.0 as usize) < memory.allocations.len() => {
                    allocation(ui, cx, snapshot, memory, id)
                }
                Some(Item::Segment(id)) if (id.0 as usize) < memory.segments.len() => segment(ui, cx, snapshot, memory, id),
                Some(Item::Event(event)) if (event.0 as usize) < memory.trace.len() => {
                    event_fields(ui, cx, snapshot, memory, event)
                }
                Some(Item::Gap { address, .. }) => gap(ui, cx, snapshot, memory, address),
                Some(Item::Stack(stack)) => stack_list(ui, cx, &snapshot.stacks, stack, "stack"),
                Some(Item::Allocation(_) | Item::Segment(_) | Item::Event(_)) | None => account(ui, cx, snapshot),
            });
        });
    }
}

fn allocation(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, id: AllocationId) {
    let life = memory.allocations.get(id);
    let what = match life.state_at(cx.cursor()) {
        BlockState::ActiveAllocated => "allocated at the cursor",
        BlockState::ActivePendingFree => "pending free at the cursor",
        BlockState::Inactive => "not live at the cursor",
    };
    title(ui, cx, &life.label(), &with_found(what, cx.session.found().is_some_and(|found| found.has(id))));
    go_buttons(ui, cx, &[("Go to alloc", life.alloc_event()), ("Go to free", life.free_event())]);
    fields(ui, cx, "allocation", |row| {
        row.bytes("Size", life.size);
        row.bytes("Requested", life.requested);
        row.bytes("Lost to rounding", life.size.saturating_sub(life.requested));
        row.text("Address", &format!("0x{:x}", life.address));
        row.text("Life", &lifetime(memory, id));
        row.moment("Allocated", memory, life.alloc_event(), "before the trace");
        row.moment(
            "Freed",
            memory,
            life.free_event(),
            if life.freed <= memory.end() { "not recorded" } else { "not within the trace" },
        );
        if life.freed != life.died && life.died <= memory.end() {
            row.moment("Free for others", memory, life.died.event(), "not within the trace");
        }
        row.text("Stream", &stream_name(snapshot, life.stream));
        if let Some(segment) = memory.segments.get(life.segment) {
            row.text("Pool", &format!("{}, {}", pool_name(snapshot, segment.pool), segment.class.name()));
            row.link("Segment", &format!("0x{:x}", segment.address), Command::Select(Item::Segment(life.segment)));
        }
        if !life.flags.has(AllocationFlags::SIZE_STATED) {
            row.text("Size known by", "the allocator's rounding rules (the file states sizes only of blocks live at its end)");
        }
        if life.flags.has(AllocationFlags::IMPLIED) {
            row.text("Note", "its begin or end was inferred from a contradiction in the trace");
        }
    });
    ui.add_space(2.0 * UNIT);
    stack_list(ui, cx, &snapshot.stacks, life.stack, "allocation");
    if let Some(event) = life.free_event() {
        let stack = memory.trace.stacks()[event.0 as usize];
        if !snapshot.stacks.frames(stack).is_empty() {
            ui.add_space(2.0 * UNIT);
            ui.label(RichText::new("Freed at").color(cx.tokens.weak));
            stack_list(ui, cx, &snapshot.stacks, stack, "free");
        }
    }
    if let Some(state) = cx.state().value() {
        neighbours(ui, cx, snapshot, memory, state, life.address);
    }
}

fn segment(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, id: SegmentId) {
    let Some(segment) = memory.segments.get(id) else { return };
    let kind = if segment.expandable { "expandable segment, one mapped piece" } else { "segment" };
    let found = cx.session.found().is_some_and(|found| found.has_segment(id));
    title(ui, cx, &format!("0x{:x}", segment.address), &with_found(kind, found));
    let born = (segment.born != Position::START).then(|| segment.born.event()).flatten();
    let died = (segment.died <= memory.end()).then(|| segment.died.event()).flatten();
    go_buttons(ui, cx, &[("Go to begin", born), ("Go to end", died)]);
    let state = cx.state();
    let here = state.value().and_then(|state| Some((state, &state.segments[state.segment_at(segment.address)?])));
    fields(ui, cx, "segment", |row| {
        row.bytes("Size", segment.size);
        if let Some((state, here)) = here {
            let blocks = state.blocks_of(here);
            let gaps = || blocks.iter().filter(|block| block.allocation.is_none());
            if here.size != segment.size {
                row.bytes("Mapped range", here.size);
            }
            row.bytes("Free at the cursor", gaps().map(|gap| gap.size).sum());
            row.bytes("Largest gap", gaps().map(|gap| gap.size).max().unwrap_or(0));
            row.text("Blocks", &grouped((blocks.len() - gaps().count()) as u64));
        } else {
            row.text("At the cursor", "it does not exist");
        }
        row.text("Pool", &format!("{}, {}", pool_name(snapshot, segment.pool), segment.class.name()));
        row.text("Stream", &stream_name(snapshot, segment.stream));
        row.moment("From the driver", memory, born, "before the trace");
        row.moment("Back to the driver", memory, died, "not within the trace");
        if segment.inferred {
            row.text("Note", "the file does not name it; it was inferred from blocks outside every known segment");
        }
    });
    ui.add_space(2.0 * UNIT);
    stack_list(ui, cx, &snapshot.stacks, segment.stack, "segment");
}

fn event_fields(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, event: EventIdx) {
    let entry = memory.trace.entry(event);
    let strings = &snapshot.stacks.strings;
    let found = cx.session.found().is_some_and(|found| found.has_event(memory, event));
    title(ui, cx, &moment(Position::after(event)), &with_found(entry.action.name(), found));
    fields(ui, cx, "event", |row| {
        match entry.action {
            Action::Oom => {
                row.bytes("Wanted", entry.size);
                row.bytes("Left on the device", entry.address);
            }
            Action::Snapshot => row.bytes("Active then", entry.size),
            Action::Alloc => {
                row.bytes("Requested", entry.size);
                row.text("Address", &format!("0x{:x}", entry.address));
            }
            _ => {
                row.bytes("Size", entry.size);
                row.text("Address", &format!("0x{:x}", entry.address));
            }
        }
        if let Some(time) = entry.time_us {
            row.text("Time (UTC)", &format!("{}, {}", date_time(time), time_of_day(time)));
        }
        row.text("Stream", &stream_name(snapshot, entry.stream));
        if let Some(pool) = entry.pool {
            row.text("Pool", &pool_name(snapshot, pool));
        }
        if let Some(id) = memory.subject(event) {
            row.link("Block", &memory.allocations.get(id).label(), Command::Select(Item::Allocation(id)));
        }
        if let Some(text) = entry.compile_context {
            row.text("Compile context", strings.get(text));
        }
        if let Some(text) = entry.user_metadata {
            row.text("User metadata", strings.get(text));
        }
        for extra in memory.trace.extras_of(event) {
            row.text(strings.get(extra.key), strings.get(extra.value));
        }
    });
    ui.add_space(2.0 * UNIT);
    let own = !snapshot.stacks.frames(entry.stack).is_empty();
    let alloc = memory.subject(event).map(|id| memory.allocations.get(id).stack);
    match alloc {
        Some(stack) if !own && !snapshot.stacks.frames(stack).is_empty() => {
            ui.label(RichText::new("The event has no stack of its own. Its block was allocated at").color(cx.tokens.weak));
            stack_list(ui, cx, &snapshot.stacks, stack, "event");
        }
        _ => stack_list(ui, cx, &snapshot.stacks, entry.stack, "event"),
    }
}

fn gap(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, address: u64) {
    let state = cx.state();
    let Some(state) = state.value() else { return };
    let found = state.block_at(address).map(|place| state.blocks[place]).filter(|block| block.allocation.is_none());
    let Some(block) = found else {
        title(ui, cx, &format!("0x{address:x}"), "no gap at the cursor");
        ui.label("The gap that was selected is not free at this moment. Move the cursor back, or click another one.");
        return;
    };
    title(ui, cx, &format!("0x{:x}", block.address), "gap: free memory inside a segment");
    fields(ui, cx, "gap", |row| {
        row.bytes("Size", block.size);
        row.text("Address", &format!("0x{:x}", block.address));
        if let Some(place) = state.segment_at(address) {
            let segment = &state.segments[place];
            row.link("Segment", &format!("0x{:x}", segment.address), Command::Select(Item::Segment(segment.id)));
            row.text(
                "Serves only",
                &format!(
                    "{}, {}, {}",
                    pool_name(snapshot, segment.pool),
                    segment.class.name(),
                    stream_name(snapshot, segment.stream)
                ),
            );
        }
    });
    neighbours(ui, cx, snapshot, memory, state, block.address);
}

/// The blocks or gaps left and right in the same segment.
fn neighbours(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState, address: u64) {
    let (Some(segment), Some(block)) = (state.segment_at(address), state.block_at(address)) else { return };
    let blocks = &state.segments[segment].blocks;
    let before = block.checked_sub(1).filter(|place| blocks.contains(place));
    let after = Some(block + 1).filter(|place| blocks.contains(place));
    ui.add_space(2.0 * UNIT);
    ui.strong("Neighbours");
    for (side, place) in [("before", before), ("after", after)] {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 1.5 * UNIT;
            ui.label(RichText::new(side).color(cx.tokens.weak));
            match place.map(|place| state.blocks[place]) {
                Some(neighbour) => neighbour_line(ui, cx, snapshot, memory, neighbour),
                None => drop(ui.label("the segment's edge")),
            }
        });
    }
}

fn neighbour_line(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, block: StateBlock) {
    match block.allocation {
        Some(id) => {
            let life = memory.allocations.get(id);
            byte_label(ui, "size", block.size);
            if ui.link(life.label()).clicked() {
                cx.send(Command::Select(Item::Allocation(id)));
            }
            if let Some(frame) = telling_line(&snapshot.stacks, life.stack) {
                ui.add(egui::Label::new(RichText::new(frame).color(cx.tokens.weak)).truncate());
            }
        }
        None => {
            byte_label(ui, "size", block.size);
            if ui.link("gap").clicked() {
                cx.send(Command::Select(Item::Gap { address: block.address, size: block.size }));
            }
        }
    }
}

/// Nothing is selected: the account of the moment.
fn account(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot) {
    let state = cx.state();
    cx.show(ui, &state, |ui, state| {
        let front = cx.session.front().map(|(_, _, memory)| memory);
        let history = front.is_some_and(|memory| memory.has_history());
        // Of segments that nothing tells of there are no sums.
        let segments = front.is_none_or(|memory| memory.tells_segments());
        let name = if history { moment(state.position) } else { "At the dump".to_owned() };
        title(ui, cx, &name, "the account of this moment");
        fields(ui, cx, "account", |row| {
            if segments {
                row.bytes("Reserved", state.totals.reserved);
            }
            row.bytes("Allocated", state.totals.allocated);
            row.bytes("Active", state.totals.active);
            row.bytes("Requested", state.totals.requested);
            row.bytes("Pending free", state.totals.pending_free());
            if segments {
                row.bytes("Free", state.totals.free());
                row.bytes("Inactive split", state.inactive_split);
                row.bytes("Largest free block", state.largest_free_block);
                row.text("Segments", &grouped(state.segments.len() as u64));
            }
            row.text("Blocks", &grouped(state.active_blocks));
        });
        if !segments {
            return;
        }
        ui.add_space(2.0 * UNIT);
        ui.strong("By pool and stream");
        for (i, pool) in state.pools.iter().enumerate() {
            ui.add_space(UNIT);
            ui.label(format!(
                "{}, {}, {}",
                pool_name(snapshot, pool.pool),
                pool.class.name(),
                stream_name(snapshot, pool.stream)
            ));
            Grid::new(("pool", i)).num_columns(4).min_col_width(18.0 * UNIT).spacing([2.0 * UNIT, 0.0]).show(ui, |ui| {
                let parts = [
                    ("reserved", pool.reserved),
                    ("active", pool.active),
                    ("free", pool.free),
                    ("largest free", pool.largest_free_block),
                ];
                for (what, bytes) in parts {
                    byte_label(ui, what, bytes);
                }
                ui.end_row();
                for (what, _) in parts {
                    ui.label(RichText::new(what).small().color(cx.tokens.weak));
                }
                ui.end_row();
            });
        }
        ui.add_space(2.0 * UNIT);
        ui.label(RichText::new("Click a block, a gap, a segment or an event to see all of it here.").color(cx.tokens.weak));
    });
}

fn title(ui: &mut Ui, cx: &Cx<'_>, name: &str, what: &str) {
    copyable(ui, RichText::new(name).heading(), "", name);
    ui.label(RichText::new(what).color(cx.tokens.weak));
    ui.add_space(UNIT);
}

/// What something is, and whether the search found it.
fn with_found(what: &str, found: bool) -> String {
    if found { format!("{what} · found by the search") } else { what.to_owned() }
}

fn go_buttons(ui: &mut Ui, cx: &Cx<'_>, buttons: &[(&str, Option<EventIdx>)]) {
    ui.horizontal(|ui| {
        for (name, event) in buttons {
            if ui
                .add_enabled(event.is_some(), egui::Button::new(*name))
                .on_disabled_hover_text("The trace does not hold it")
                .clicked()
                && let Some(event) = event
            {
                cx.send(Command::MoveCursor(Position::after(*event)));
            }
        }
    });
    ui.add_space(UNIT);
}

/// Rows of a table of fields.
struct Rows<'a, 'b> {
    ui: &'a mut Ui,
    cx: &'a Cx<'b>,
}

fn fields(ui: &mut Ui, cx: &Cx<'_>, salt: &str, add: impl FnOnce(&mut Rows<'_, '_>)) {
    Grid::new(salt).num_columns(2).min_row_height(5.0 * UNIT).spacing([3.0 * UNIT, 0.0]).show(ui, |ui| add(&mut Rows { ui, cx }));
}

impl Rows<'_, '_> {
    fn key(&mut self, key: &str) {
        let label = self.ui.label(RichText::new(key).color(self.cx.tokens.weak));
        if let Some(meaning) = meaning(key) {
            label.on_hover_text(meaning);
        }
    }
    fn bytes(&mut self, key: &str, bytes: u64) {
        self.key(key);
        exact_label(self.ui, bytes);
        self.ui.end_row();
    }
    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.ui.add(egui::Label::new(text).wrap()).context_menu(|ui| {
            if ui.button(format!("Copy {key}")).clicked() {
                ui.copy_text(text.to_owned());
                ui.close();
            }
        });
        self.ui.end_row();
    }
    fn link(&mut self, key: &str, text: &str, command: Command) {
        self.key(key);
        if self.ui.link(text).clicked() {
            self.cx.send(command);
        }
        self.ui.end_row();
    }
    fn moment(&mut self, key: &str, memory: &DeviceMemory, event: Option<EventIdx>, otherwise: &str) {
        self.key(key);
        match event {
            Some(event) => {
                let time = memory.trace.time_us(event).map_or(String::new(), |time| format!("  {}", time_of_day(time)));
                if self.ui.link(format!("{}{time}", moment(Position::after(event)))).clicked() {
                    self.cx.send(Command::MoveCursor(Position::after(event)));
                    self.cx.send(Command::Select(Item::Event(event)));
                }
            }
            None => drop(self.ui.label(otherwise)),
        }
        self.ui.end_row();
    }
}
