//! One canvas for all pictures: zoom, pan, pick, range, with the same hand everywhere.
//!
//! Always: one egui response a canvas, whatever it shows; positions are points from its top left corner,
//! as in drawings. The canvas only tells what the hand did; the view decides what that means.

use egui::{Modifiers, PointerButton, Pos2, Rect, Response, Role, Sense, Ui, Vec2, WidgetInfo};

/// What the hand did on a canvas in this frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gesture {
    /// Show `factor` times as much along the axis, keeping what is under the point in place.
    Zoom {
        /// The point.
        at: [f32; 2],
        /// Below 1: closer.
        factor: f64,
    },
    /// The same up the byte axis.
    ZoomBytes {
        /// The point.
        at: [f32; 2],
        /// Below 1: closer.
        factor: f64,
    },
    /// The picture is moved by so many points.
    Pan([f32; 2]),
    /// A drag without modifier goes on: where it began, where it is, how far it moved since the last frame.
    Drag {
        /// Where it began.
        from: [f32; 2],
        /// Where it is.
        to: [f32; 2],
        /// Movement in this frame.
        by: [f32; 2],
    },
    /// A range is being drawn with shift, from one point to another.
    Range([f32; 2], [f32; 2]),
    /// The range is done.
    RangeDone,
    /// The middle button measures from one point to another.
    Measure([f32; 2], [f32; 2]),
    /// A click.
    Click([f32; 2]),
    /// A double click.
    DoubleClick([f32; 2]),
}

/// A canvas of this frame.
pub struct Canvas {
    /// Where it lies on the screen.
    pub rect: Rect,
    /// Its response, for tooltips and menus.
    pub response: Response,
    /// The pointer, while it is on the canvas.
    pub pointer: Option<[f32; 2]>,
    /// What the hand did.
    pub gestures: Vec<Gesture>,
}

/// What the hand can do on pictures, for the page that lists it: each is one of the [`Gesture`]s.
pub const HAND: &[(&str, &str)] = &[
    ("Wheel", "Zooms time at the pointer"),
    ("Ctrl and wheel", "Zooms bytes, addresses or a flame at the pointer"),
    ("Shift and wheel", "Moves earlier or later"),
    ("Drag", "Moves the picture"),
    ("Shift and drag", "Selects a stretch of time"),
    ("Drag below the picture", "Selects a stretch of time"),
    ("Middle button and drag", "Measures time and bytes"),
    ("Click", "Selects what is under the pointer"),
    ("Double click", "Shows everything; on the layout one segment alone"),
    ("Right click on a row", "Copies the row or one of its values"),
];

/// Wheel points for a zoom by a factor of e.
const WHEEL_POINTS: f64 = 200.0;

/// Takes a place in the layout for a picture. `name` is what assistive tools and tests call it.
pub fn canvas(ui: &mut Ui, name: &str, size: Vec2) -> Canvas {
    let (rect, _) = ui.allocate_exact_size(size.max(Vec2::splat(1.0)), Sense::hover());
    let response = ui.interact(rect, ui.scope_id().with(name), Sense::click_and_drag());
    over(ui, response, rect, name)
}

/// What the hand did on a picture that has its response already, such as a plot: the same gestures.
pub fn over(ui: &Ui, response: Response, rect: Rect, name: &str) -> Canvas {
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, name));
    let local = |pos: Pos2| [pos.x - rect.min.x, pos.y - rect.min.y];
    // What a question lies over tells nothing, though the pointer has not moved since the question was opened.
    let covered = ui.memory(|memory| memory.top_modal_layer()).is_some_and(|layer| layer != ui.layer_id());
    let pointer = response.hover_pos().filter(|_| !covered).map(local);
    let mut gestures = Vec::new();
    if let Some(at) = pointer.filter(|_| response.contains_pointer()) {
        wheel(ui, at, &mut gestures);
    }
    drag(ui, &response, &local, &mut gestures);
    if let Some(at) = response.interact_pointer_pos().or(response.hover_pos()).map(local) {
        if response.double_clicked() {
            gestures.push(Gesture::DoubleClick(at));
        } else if response.clicked() {
            gestures.push(Gesture::Click(at));
        }
    }
    Canvas { rect, response, pointer, gestures }
}

fn wheel(ui: &Ui, at: [f32; 2], gestures: &mut Vec<Gesture>) {
    // egui turns the wheel with ctrl into a zoom, and smooths it over frames in which ctrl may be up again;
    // a pinch comes as a zoom event or as touches.
    let (scroll, zoom, pinched) = ui.input(|input| {
        let pinched = input.multi_touch().is_some() || input.events.iter().any(|event| matches!(event, egui::Event::Zoom(_)));
        (input.smooth_scroll_delta(), input.zoom_delta(), pinched)
    });
    if zoom != 1.0 {
        let factor = 1.0 / f64::from(zoom);
        gestures.push(if pinched { Gesture::Zoom { at, factor } } else { Gesture::ZoomBytes { at, factor } });
    }
    if scroll.y != 0.0 {
        gestures.push(Gesture::Zoom { at, factor: (-f64::from(scroll.y) / WHEEL_POINTS).exp() });
    }
    if scroll.x != 0.0 {
        gestures.push(Gesture::Pan([scroll.x, 0.0]));
    }
}

fn drag(ui: &Ui, response: &Response, local: &dyn Fn(Pos2) -> [f32; 2], gestures: &mut Vec<Gesture>) {
    // Whether a drag draws a range is decided when it begins: letting go of shift midway changes nothing.
    let key = response.id.with("range");
    if response.drag_started_by(PointerButton::Primary) {
        let ranging = ui.input(|input| input.modifiers.contains(Modifiers::SHIFT));
        ui.data_mut(|data| data.insert_temp(key, ranging));
    }
    let ranging = ui.data(|data| data.get_temp::<bool>(key)).unwrap_or(false);
    let from = ui.input(|input| input.pointer.press_origin()).map(local);
    let now = response.interact_pointer_pos().map(local);
    if let (Some(from), Some(now)) = (from, now)
        && response.dragged_by(PointerButton::Primary)
    {
        let by = response.drag_delta();
        if ranging {
            gestures.push(Gesture::Range(from, now));
        } else if by != Vec2::ZERO {
            gestures.push(Gesture::Drag { from, to: now, by: [by.x, by.y] });
        }
    }
    if let (Some(from), Some(now)) = (from, now)
        && response.dragged_by(PointerButton::Middle)
    {
        gestures.push(Gesture::Measure(from, now));
    }
    if ranging && response.drag_stopped_by(PointerButton::Primary) {
        gestures.push(Gesture::RangeDone);
        ui.data_mut(|data| data.remove::<bool>(key));
    }
}

/// A range after a zoom by `factor` that keeps `at` where it is.
pub fn zoomed(range: &std::ops::Range<f64>, at: f64, factor: f64) -> std::ops::Range<f64> {
    at - (at - range.start) * factor..at + (range.end - at) * factor
}
