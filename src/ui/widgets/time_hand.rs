//! What the hand does to the time axis, the same on every picture over time.

use crate::base::{Bytes, counted};
use crate::chart::axis::duration_label;
use crate::chart::{Clock, Scale};
use crate::model::{DeviceMemory, Position};
use crate::session::Command;
use crate::ui::views::view::Cx;
use crate::ui::widgets::canvas::{Canvas, Gesture, zoomed};
use egui::{CursorIcon, Rect, Stroke, TextStyle, Ui, WidgetText, vec2};

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
        Gesture::ZoomBytes { .. } | Gesture::RangeDone | Gesture::Measure(..) | Gesture::Click(_) => {}
    }
}

/// The distance between two points of a picture: events, time, bytes. `scales` are those of time and of bytes.
pub fn measure_words(from: [f32; 2], to: [f32; 2], scales: (&Scale, &Scale), clock: &Clock, memory: &DeviceMemory) -> String {
    let (time, bytes) = scales;
    let within = |x: f32| time.unit(x.clamp(time.start_pt, time.end_pt.max(time.start_pt)));
    let [a, b] = [from, to].map(|at| clock.position(within(at[0])));
    let moment = |position: Position| position.event().and_then(|event| memory.trace.time_us(event));
    let height = (bytes.unit(to[1]) - bytes.unit(from[1])).abs() as u64;
    let span = match (moment(a.min(b)), moment(a.max(b))) {
        (Some(from), Some(to)) if from <= to => format!(", {}", duration_label((to - from) as u64)),
        _ => String::new(),
    };
    format!("{}{span}\n{}", counted(u64::from(a.0.abs_diff(b.0)), "event"), Bytes(height).exact())
}

/// Draws what the middle button measures: a line, and words beside the pointer, on the side where there is room.
pub fn draw_measure(ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, (from, to): ([f32; 2], [f32; 2]), words: String) {
    let ends = [from, to].map(|at| canvas.rect.min + vec2(at[0], at[1]));
    let painter = ui.painter_at(canvas.rect);
    painter.line_segment(ends, Stroke::new(1.0, cx.tokens.accent));
    let text = WidgetText::from(words).into_galley(ui, None, f32::INFINITY, TextStyle::Body);
    let left = if canvas.rect.right() < ends[1].x + text.size().x + 16.0 { text.size().x + 12.0 } else { -12.0 };
    let place = Rect::from_min_size(ends[1] - vec2(left, 0.0), text.size());
    painter.rect_filled(place.expand(4.0), 2.0, cx.tokens.panel);
    painter.galley(place.min, text, cx.tokens.text);
}
