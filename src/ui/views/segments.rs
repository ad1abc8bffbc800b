//! The segments at the cursor, and who pins each: the live blocks that keep it from going back to the driver.
//!
//! Always: sizes add up to the state's `reserved`, pins to its `active`; the foot says so.

use crate::analysis::pins::Pin;
use crate::analysis::{Found, Pins, SegmentPins};
use crate::base::{Bytes, counted, grouped};
use crate::chart::axis::duration_label;
use crate::chart::ink::{pool_name, stream_name};
use crate::model::{BlockState, Item, SegmentId, Snapshot, StreamId};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::{share, stack_cell, with_foot};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::table::{
    Table, TableCell, TableColumn, TableContent, TableRow, TableSort, TableTouch, copy_buttons, lines,
};
use crate::ui::widgets::text::{known_moment, moment, telling_line};
use egui::{Align, Layout, RichText, Ui, UiBuilder};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "segments",
    title: "Segments",
    help: "Each segment at the cursor, how full it is, and the live blocks that pin it. Unfold a row to see them.",
    open: || Box::new(Segments { sort: TableSort { column: 3, descending: true }, ..Segments::default() }),
};

#[derive(Clone)]
struct Segments {
    sort: TableSort,
    unfolded: BTreeSet<SegmentId>,
    table: Table,
    /// The rows of the last frame, with what they follow from.
    rows: Option<(Arc<Pins>, TableSort, Vec<Place>)>,
}

impl Default for Segments {
    fn default() -> Self {
        let sort = TableSort { column: 0, descending: false };
        Segments { sort, unfolded: BTreeSet::new(), table: Table::default(), rows: None }
    }
}

/// What a row shows: a segment, or one of its pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: usize,
    pin: Option<usize>,
}

const fn column(title: &'static str, help: &'static str, width: f32, number: bool, sorts: bool) -> TableColumn {
    TableColumn { title, help, width, number, sorts }
}

/// The place of the pool among the columns.
const POOL: usize = 7;
/// From this width on names of pools have more room than `default pool, large` needs.
const ROOM_FOR_NAMES: f32 = 1000.0;

const COLUMNS: [TableColumn; 9] = [
    column("Segment", "Its first address. Unfold it to see who pins it.", 136.0, false, true),
    column("Size", "Bytes taken from the driver.", 84.0, true, true),
    column("Occupied", "Part of it that blocks occupy.", 60.0, true, true),
    column("Free", "Bytes in its gaps.", 84.0, true, true),
    column("Largest gap", "The largest request it could still hold.", 84.0, true, true),
    column("Blocks", "Number of live blocks that keep it from going back to the driver.", 56.0, true, true),
    column("Age", "Events since it was created.", 104.0, true, true),
    column("Pool", "Its pool, half and stream.", 116.0, false, false),
    column("Created at", "The stack that made the allocator ask the driver.", 0.0, false, false),
];

impl View for Segments {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, ..)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let answer = cx.ask::<Pins>(cx.cursor());
        let pins = answer.value().cloned();
        cx.show(ui, &answer, |ui, _| {
            let Some(pins) = pins else { return };
            if pins.segments.is_empty() {
                let sentence =
                    format!("The allocator holds no segment at {}. Move the cursor to a later moment.", moment(pins.position));
                return cx.empty(ui, &sentence);
            }
            self.list(ui, cx, &document.snapshot, &pins);
        });
    }
}

impl Segments {
    fn list(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, pins: &Arc<Pins>) {
        if !self.rows.as_ref().is_some_and(|(of, sort, _)| Arc::ptr_eq(of, pins) && *sort == self.sort) {
            self.rows = Some((Arc::clone(pins), self.sort, places(pins, self.sort, &self.unfolded)));
        }
        let Some((_, _, places)) = &self.rows else { return };
        let mut columns = COLUMNS;
        // Where there is room, long names of pools and streams have it too.
        columns[POOL].width += ((ui.available_width() - ROOM_FOR_NAMES) / 2.0).clamp(0.0, 150.0);
        let content = TableContent { name: "segments", columns: &columns, sort: self.sort, rows: places.len() };
        let (rows, foot) = with_foot(ui);
        let table = &mut self.table;
        let touch = ui.scope_builder(UiBuilder::new().max_rect(rows), |ui| {
            table.show(ui, cx, &content, |row| match places[row] {
                Place { segment, pin: None } => {
                    let segment = &pins.segments[segment];
                    segment_row(cx, snapshot, segment, self.unfolded.contains(&segment.segment))
                }
                Place { segment, pin: Some(pin) } => {
                    pin_row(cx, snapshot, &pins.segments[segment], &pins.segments[segment].pins[pin])
                }
            })
        });
        let TableTouch { hovered, clicked, folded, sorted } = touch.inner;
        let item = |row: usize| -> Option<Item> {
            let Place { segment, pin } = *places.get(row)?;
            let segment = &pins.segments[segment];
            Some(pin.map_or(Item::Segment(segment.segment), |pin| Item::Allocation(segment.pins[pin].allocation)))
        };
        if let Some(item) = hovered.and_then(item) {
            cx.session.set_hovered(item);
        }
        if let Some(item) = clicked.and_then(item) {
            cx.send(Command::Select(item));
        }
        let folded = folded.and_then(|row| places.get(row)).map(|place| pins.segments[place.segment].segment);
        if let Some(id) = folded {
            if !self.unfolded.remove(&id) {
                self.unfolded.insert(id);
            }
            self.rows = None;
        }
        if let Some(sorted) = sorted {
            self.sort = sorted;
            self.table = Table::default();
        }
        ui.scope_builder(UiBuilder::new().max_rect(foot).layout(Layout::left_to_right(Align::Center)), |ui| {
            ui.add_space(2.0 * UNIT);
            totals(ui, cx, snapshot, pins);
        });
    }
}

fn places(pins: &Pins, sort: TableSort, unfolded: &BTreeSet<SegmentId>) -> Vec<Place> {
    let mut order: Vec<usize> = (0..pins.segments.len()).collect();
    let value = |row: &usize| -> u64 {
        let segment = &pins.segments[*row];
        match sort.column {
            1 => segment.size,
            2 => (segment.occupancy() * 1e9) as u64,
            3 => segment.free,
            4 => segment.largest_gap,
            5 => segment.pins.len() as u64,
            6 => segment.age_events.map_or(u64::MAX, u64::from),
            _ => segment.address,
        }
    };
    // Equal ones stay in address order, whichever way the order goes.
    if sort.descending {
        order.sort_by_key(|row| std::cmp::Reverse(value(row)));
    } else {
        order.sort_by_key(value);
    }
    let mut places = Vec::with_capacity(order.len());
    for segment in order {
        places.push(Place { segment, pin: None });
        if unfolded.contains(&pins.segments[segment].segment) {
            places.extend((0..pins.segments[segment].pins.len()).map(|pin| Place { segment, pin: Some(pin) }));
        }
    }
    places
}

fn segment_row(cx: &Cx<'_>, snapshot: &Snapshot, segment: &SegmentPins, open: bool) -> TableRow {
    let SegmentPins { address, size, free, largest_gap, stack, .. } = *segment;
    let inside = |item: Item| match item {
        Item::Allocation(id) => segment.pins.iter().any(|pin| pin.allocation == id),
        Item::Gap { address: at, .. } => address <= at && at - address < size,
        Item::Stack(other) => segment.pins.iter().any(|pin| snapshot.stacks.are_alike(pin.stack, other)),
        Item::Segment(_) | Item::Event(_) => false,
    };
    let holds = |found: &Found| found.has_segment(segment.segment) || segment.pins.iter().any(|pin| found.has(pin.allocation));
    let kind = match (segment.inferred, segment.expandable) {
        (true, _) => "\nMade up around blocks in no known segment; not counted in reserved.",
        (_, true) => "\nA mapped range of an expandable segment.",
        _ => "",
    };
    let address_cell = TableCell { text: format!("      0x{address:x}"), exact: format!("0x{address:x}{kind}"), weak: false };
    let pool = pool_text(snapshot, segment);
    TableRow {
        name: format!("segment 0x{address:x}, {}", Bytes(size)),
        cells: vec![
            address_cell,
            TableCell::bytes(size),
            TableCell::number(share(segment.active, size)),
            TableCell::bytes(free),
            TableCell::bytes(largest_gap),
            TableCell::number(grouped(segment.pins.len() as u64)),
            age_cell(segment.age_events, segment.age_us),
            TableCell::text(pool).weak(),
            stack_cell(&snapshot.stacks, stack),
        ],
        selected: cx.selected() == Some(Item::Segment(segment.segment)),
        related: cx.selected().is_some_and(inside) || cx.hovered().is_some_and(inside),
        found: cx.session.found().map(|found| holds(&found)),
        unfolded: (!segment.pins.is_empty()).then_some(open),
        ..TableRow::default()
    }
}

fn pin_row(cx: &Cx<'_>, snapshot: &Snapshot, segment: &SegmentPins, pin: &Pin) -> TableRow {
    let state = match pin.state {
        BlockState::ActivePendingFree => "waits for another stream",
        _ => "in use",
    };
    let item = Some(Item::Allocation(pin.allocation));
    let its_stack = matches!(cx.selected(), Some(Item::Stack(other)) if snapshot.stacks.are_alike(pin.stack, other));
    TableRow {
        name: format!("pin 0x{:x}, {}", pin.address, Bytes(pin.size)),
        cells: vec![
            TableCell::text(format!("      0x{:x}", pin.address)),
            TableCell {
                exact: format!("{}\n{} requested", Bytes(pin.size).exact(), Bytes(pin.requested).exact()),
                ..TableCell::bytes(pin.size)
            },
            TableCell::number(share(pin.size, segment.size)),
            TableCell::default(),
            TableCell::default(),
            TableCell::default(),
            age_cell(pin.age_events, pin.age_us),
            TableCell::number(state).weak(),
            stack_cell(&snapshot.stacks, pin.stack),
        ],
        selected: cx.selected() == item,
        related: cx.hovered() == item || its_stack,
        found: cx.session.found().map(|found| found.has(pin.allocation)),
        depth: 1,
        ..TableRow::default()
    }
}

fn pool_text(snapshot: &Snapshot, segment: &SegmentPins) -> String {
    let mut text = format!("{}, {}", pool_name(snapshot, segment.pool), segment.class.name());
    if segment.stream != StreamId::DEFAULT {
        text = format!("{text}, {}", stream_name(snapshot, segment.stream));
    }
    text
}

fn age_cell(events: Option<u32>, us: Option<u64>) -> TableCell {
    match events {
        None => TableCell::number("before the trace").weak(),
        Some(events) => {
            let text = counted(u64::from(events), "event");
            let exact = us.map_or_else(|| text.clone(), |us| format!("{text}, {}", duration_label(us)));
            TableCell { text, exact, weak: false }
        }
    }
}

fn totals(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, pins: &Pins) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    ui.spacing_mut().item_spacing.x = UNIT;
    let sum = |of: fn(&SegmentPins) -> u64| pins.segments.iter().map(of).fold(0, u64::saturating_add);
    let named = |segment: &SegmentPins| if segment.inferred { 0 } else { segment.size };
    let when = cx.session.front().map_or(String::new(), |(_, _, memory)| known_moment(memory, pins.position));
    ui.label(weak(format!("{} at {when}:", counted(pins.segments.len() as u64, "segment"))));
    let parts = [
        ("reserved", "reserved,", sum(named)),
        ("in blocks", "in blocks,", sum(|segment| segment.active)),
        ("free", "free,", sum(|segment| segment.free)),
        ("what empty_cache() could give back", "could go back to the driver", sum(|segment| segment.releasable)),
    ];
    for (what, text, bytes) in parts {
        byte_label(ui, what, bytes);
        ui.label(weak(text.to_owned()));
    }
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        ui.add_space(UNIT);
        copy_buttons(ui, "Copies all segments, without who pins them.", |csv| copied(snapshot, pins, csv));
    });
}

fn copied(snapshot: &Snapshot, pins: &Pins, csv: bool) -> String {
    let rows = pins.segments.iter().map(|segment| {
        let numbers =
            [segment.size, segment.active, segment.free, segment.largest_gap, segment.releasable, segment.pins.len() as u64];
        let mut cells = vec![format!("0x{:x}", segment.address)];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(segment.age_events.map_or(String::new(), |events| events.to_string()));
        cells.push(pool_text(snapshot, segment));
        cells.push(telling_line(&snapshot.stacks, segment.stack).unwrap_or_default());
        cells
    });
    let head =
        ["address", "size", "active", "free", "largest gap", "releasable", "blocks", "age in events", "pool", "created at"];
    lines(&head, rows, csv)
}
