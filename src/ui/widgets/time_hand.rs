//! What the hand does to the time axis, the same on every picture over time.

use crate::chart::{Clock, Scale};
use crate::session::Command;
use crate::ui::views::view::Cx;
use crate::ui::widgets::canvas::{Gesture, zoomed};
use egui::{CursorIcon, Ui};

/// Zooms, pans and measures along `time`, the scale of the picture the hand is on. Clicks and the byte axis are
/// the view's own.
pub fn act_on_time(ui: &Ui, cx: &Cx<'_>, clock: &Clock, time: &Scale, gesture: &Gesture) {
    let window = cx.session.window(clock);
    let within = |x: f32| time.unit(x.clamp(time.start_pt, time.end_pt.max(time.start_pt)));
    let moved = |points: f32| {
        let by = -f64::from(points) * time.units_per_point();
        Command::SetWindow(window.start + by..window.end + by)
    };
    match *gesture {
        Gesture::Zoom { at, factor } => cx.send(Command::SetWindow(zoomed(&window, within(at[0]), factor))),
        Gesture::Pan([dx, _]) => cx.send(moved(dx)),
        Gesture::Drag { by: [dx, _], .. } => {
            cx.send(moved(dx));
            ui.ctx().set_cursor_icon(CursorIcon::Grabbing);
        }
        Gesture::Range(from, to) => {
            let (a, b) = (clock.position(within(from[0])), clock.position(within(to[0])));
            cx.send(Command::SelectRange(a.min(b)..a.max(b)));
        }
        Gesture::DoubleClick(_) => cx.send(Command::Fit),
        Gesture::ZoomBytes { .. } | Gesture::RangeDone | Gesture::Click(_) => {}
    }
}
