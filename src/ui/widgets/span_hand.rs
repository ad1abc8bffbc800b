//! What the hand does to named spans, the same under every picture over time.
//!
//! A click makes a span the window; with shift, or with a double click, it becomes the selected range.

use crate::base::counted;
use crate::chart::Clock;
use crate::chart::axis::{Span, duration_label};
use crate::model::Snapshot;
use crate::session::Command;
use crate::ui::views::view::Cx;
use crate::ui::widgets::canvas::Gesture;
use egui::Ui;

/// Acts on a gesture over a span; whether it was one for spans.
pub fn act(ui: &Ui, cx: &Cx<'_>, clock: &Clock, span: Option<&Span>, gesture: &Gesture) -> bool {
    let Some(span) = span else { return false };
    let shift = ui.input(|input| input.modifiers.shift);
    match gesture {
        Gesture::Click(_) if !shift => cx.send(Command::SetWindow(span.units.clone())),
        Gesture::Click(_) | Gesture::DoubleClick(_) => {
            cx.send(Command::SelectRange(clock.position(span.units.start)..clock.position(span.units.end)));
        }
        Gesture::Zoom { .. }
        | Gesture::ZoomBytes { .. }
        | Gesture::Pan(_)
        | Gesture::Drag { .. }
        | Gesture::Range(..)
        | Gesture::RangeDone
        | Gesture::Measure(..) => return false,
    }
    true
}

/// A span in words: name, kind, events, time, open ends.
pub fn tooltip(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, span: &Span) {
    let Some((_, _, memory)) = cx.session.front() else { return };
    let weak = |text: String| egui::RichText::new(text).color(cx.tokens.weak);
    let name: String = snapshot.stacks.strings.get(span.name).chars().take(400).collect();
    ui.strong(name);
    let found = cx.ask::<crate::analysis::Spans>(());
    let row = found.value().and_then(|spans| spans.rows.get(span.row));
    if let Some(row) = row {
        let events = match row.events() {
            0 => "no event in it".to_owned(),
            1 => "1 event".to_owned(),
            events => counted(u64::from(events), "event"),
        };
        let time = row.duration_us().map_or(String::new(), |us| format!(", {}", duration_label(us)));
        ui.label(format!("{events}{time}"));
    }
    let open = match span.open {
        (true, true) => ", began before and ended after the recording",
        (true, false) => ", began before the recording",
        (false, true) => ", did not end in the recording",
        (false, false) => "",
    };
    ui.label(weak(format!("{}{open}", span.kind.name())));
    if memory.has_history() {
        ui.label(weak("Click makes it the window, shift and click selects it".to_owned()));
    }
}
