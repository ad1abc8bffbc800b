//! The one cursor of all views: a slider over the whole trace, step buttons, the moment in words.

use crate::base::grouped;
use crate::chart::text::date_time;
use crate::model::{DeviceMemory, Position};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, icon_button};
use crate::ui::widgets::text::time_of_day;
use egui::{Align, Button, Layout, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};

/// Shows the scrubber of the device in front.
pub fn show(ui: &mut Ui, cx: &Cx<'_>) {
    let Some((_, _, memory)) = cx.session.front() else { return };
    let cursor = cx.cursor();
    ui.horizontal(|ui| {
        if !memory.has_history() {
            ui.label(
                RichText::new("This device has no history to go through: the state at the dump is shown.").color(cx.tokens.weak),
            );
            return;
        }
        ui.spacing_mut().item_spacing.x = UNIT;
        for (sign, name, help, command) in [
            (Icon::First, "first event", "Before the first event (Home)", Command::MoveCursor(Position::START)),
            (Icon::Previous, "previous event", "One event back (Left; with shift 100)", Command::StepCursor(-1)),
            (Icon::Next, "next event", "One event on (Right; with shift 100)", Command::StepCursor(1)),
            (Icon::Last, "last event", "After the last event (End)", Command::MoveCursor(memory.end())),
        ] {
            let button = icon_button(ui, sign, name, true).on_hover_text(help);
            if button.clicked() {
                cx.send(command);
            }
        }
        let ooms = memory.trace.ooms().len();
        if ui.button("Peak").on_hover_text("Where most is allocated (P)").clicked() {
            cx.send(Command::GoToPeak);
        }
        let oom = ui.add_enabled(0 < ooms, Button::new("OOM")).on_hover_text("The last out-of-memory event (O)");
        if oom.on_disabled_hover_text("No allocation failed in this trace").clicked() {
            cx.send(Command::GoToLastOom);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            moment_label(ui, cx, memory, cursor);
            slider(ui, cx, memory, cursor);
        });
    });
}

fn moment_label(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, cursor: Position) {
    let last = grouped(memory.trace.len().saturating_sub(1) as u64);
    let text = match cursor.event() {
        Some(event) => format!("event {} of {last}", grouped(u64::from(event.0))),
        None => format!("before event 0 of {last}"),
    };
    ui.label(text);
    if let Some(time) = cursor.event().and_then(|event| memory.trace.time_us(event)) {
        ui.label(RichText::new(time_of_day(time)).color(cx.tokens.weak)).on_hover_text(format!("{} UTC", date_time(time)));
    }
}

fn slider(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, cursor: Position) {
    let width = ui.available_width().max(10.0 * UNIT);
    let (rect, response) = ui.allocate_exact_size(vec2(width, 5.0 * UNIT), Sense::click_and_drag());
    let end = memory.end().0.max(1);
    response.widget_info(|| WidgetInfo::slider(true, f64::from(cursor.0), "cursor"));
    let rail = Rect::from_center_size(rect.center(), vec2(rect.width() - 2.0 * UNIT, UNIT));
    let x = |position: u32| rail.min.x + rail.width() * (f64::from(position) / f64::from(end)) as f32;
    if let Some(at) = response.interact_pointer_pos() {
        let share = f64::from(((at.x - rail.min.x) / rail.width().max(1.0)).clamp(0.0, 1.0));
        let to = Position((share * f64::from(end)).round() as u32);
        if to != cursor {
            cx.send(Command::MoveCursor(to));
        }
    }
    let painter = ui.painter();
    painter.rect_filled(rail, UNIT / 2.0, cx.tokens.line);
    // Thousands of failures share few pixels: one line a pixel.
    let mut drawn = f32::NEG_INFINITY;
    for oom in memory.trace.ooms().iter().take(100_000) {
        let at = x(Position::after(*oom).0).round();
        if drawn < at {
            painter.vline(
                at,
                rect.center().y - 1.5 * UNIT..=rect.center().y + 1.5 * UNIT,
                egui::Stroke::new(1.0, cx.tokens.error),
            );
            drawn = at;
        }
    }
    let handle = Rect::from_center_size(pos2(x(cursor.0), rect.center().y), vec2(1.5 * UNIT, 4.0 * UNIT));
    painter.rect_filled(handle, UNIT / 2.0, cx.tokens.accent);
}
