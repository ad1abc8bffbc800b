//! The line above the usage picture: the counters at the cursor, and how the picture is drawn.

use crate::analysis::DeviceUse;
use crate::base::{Bytes, counted, grouped};
use crate::chart::TimeAxis;
use crate::model::DeviceMemory;
use crate::model::glossary::{DEVICE_USE, meaning};
use crate::session::Command;
use crate::session::lookups::RangeTotals;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::legend::Legend;
use egui::{Align, Layout, RichText, Ui};

/// Shows the line.
pub fn header(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory) {
    let legend = Legend::now(cx);
    let mut below = false;
    ui.horizontal(|ui| {
        ui.add_space(UNIT);
        counters(ui, cx);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add_space(UNIT);
            axis_switch(ui, cx, memory);
            ui.add_space(UNIT);
            below = !legend.show_beside(ui, cx);
        });
    });
    if below {
        legend.show_below(ui, cx);
    }
    device_line(ui, cx);
    if let Some(range) = cx.place().and_then(|place| place.range.clone()) {
        let totals = cx.ask::<RangeTotals>((range.start, range.end));
        let events = counted(u64::from(range.end.0.saturating_sub(range.start.0)), "event");
        let told = totals.value().map(|totals| range_sentence(totals));
        ui.horizontal(|ui| {
            ui.add_space(UNIT);
            ui.label(RichText::new(format!("Selected {events}")).color(cx.tokens.accent));
            if let Some(told) = told {
                ui.label(told);
            }
        });
    }
}

/// What the whole device holds at the cursor and by whom, where somebody looked while the job ran.
fn device_line(ui: &mut Ui, cx: &Cx<'_>) {
    let (device, state) = (cx.ask::<DeviceUse>(()), cx.state());
    let (Some(device), Some(state), Some(place)) = (device.value(), state.value(), cx.place()) else { return };
    let Some(sentence) = device.sentence(place.cursor, state.totals.reserved) else { return };
    ui.horizontal_top(|ui| {
        ui.add_space(UNIT);
        let text = RichText::new(sentence).color(cx.tokens.weak);
        ui.add(egui::Label::new(text).wrap()).on_hover_text(DEVICE_USE);
    });
}

/// Allocated, reserved and largest free block at the cursor, each copied by a click.
pub fn counters(ui: &mut Ui, cx: &Cx<'_>) {
    let state = cx.state();
    let Some(state) = state.value() else {
        ui.label(" ");
        return;
    };
    let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
    ui.spacing_mut().item_spacing.x = UNIT;
    let parts = [
        ("allocated", state.totals.allocated),
        ("reserved", state.totals.reserved),
        ("largest free block", state.largest_free_block),
    ];
    // Of segments that nothing tells of there is no sum, and no gap.
    let unknown = cx.session.front().is_some_and(|(_, _, memory)| !memory.tells_segments());
    let known = if unknown { 1 } else { parts.len() };
    for (i, (what, bytes)) in parts.into_iter().take(known).enumerate() {
        if 0 < i {
            ui.label(weak("·"));
        }
        byte_label(ui, what, bytes);
        let label = ui.label(weak(what));
        if let Some(meaning) = meaning(what) {
            label.on_hover_text(meaning);
        }
    }
}

fn axis_switch(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory) {
    let axis = cx.session.workspace().axis;
    let timed = memory.trace.has_times();
    for (value, name, help) in [
        (TimeAxis::Time, "Time", "The axis shows real time"),
        (TimeAxis::Events, "Events", "The axis shows events, evenly spaced"),
    ] {
        let possible = timed || value == TimeAxis::Events;
        let chosen = if timed { axis } else { TimeAxis::Events };
        let button = ui.add_enabled(possible, egui::Button::selectable(value == chosen, name));
        let button =
            button.on_hover_text(help).on_disabled_hover_text("The events of this file carry no time (PyTorch before 2.2)");
        if button.clicked() {
            cx.send(Command::SetAxis(value));
        }
    }
}

fn range_sentence(totals: &RangeTotals) -> String {
    let RangeTotals { allocs, alloc_bytes, frees, free_bytes, segments, ooms, born_and_alive, born_and_alive_bytes } = *totals;
    let mut sentence = format!(
        "{} allocations ({}), {} frees ({}), {} of the new blocks still active at its end ({})",
        grouped(allocs),
        Bytes(alloc_bytes),
        grouped(frees),
        Bytes(free_bytes),
        grouped(born_and_alive),
        Bytes(born_and_alive_bytes)
    );
    if 0 < segments {
        sentence += &format!(", {} segment events", grouped(segments));
    }
    if 0 < ooms {
        sentence += &format!(", {} out of memory", grouped(ooms));
    }
    sentence
}
