//! Small signs, drawn rather than taken from a font: they look alike on every system.

use egui::{Color32, Painter, Pos2, Rect, Response, Role, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};

use crate::ui::theme::UNIT;

/// A sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    /// A cross.
    Close,
    /// A plus.
    Plus,
    /// To the beginning.
    First,
    /// One back.
    Previous,
    /// One on.
    Next,
    /// To the end.
    Last,
    /// Dark theme.
    Moon,
    /// Light theme.
    Sun,
    /// Something to know.
    Caution,
}

/// A button that shows a sign; `name` is what assistive tools and tests call it.
pub fn icon_button(ui: &mut Ui, icon: Icon, name: &str, framed: bool) -> Response {
    let side = if framed { ui.spacing().interact_size.y } else { 4.0 * UNIT };
    let width = if framed { side + UNIT } else { side };
    let (rect, response) = ui.allocate_exact_size(vec2(width, side), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, name));
    let visuals = ui.style().interact(&response);
    if framed || response.hovered() || response.has_focus() {
        ui.painter().rect_filled(rect, visuals.corner_radius, visuals.weak_bg_fill);
    }
    draw(ui.painter(), rect.center(), icon, visuals.fg_stroke.color);
    response
}

/// A sign among text.
pub fn icon(ui: &mut Ui, icon: Icon, colour: Color32) {
    let (rect, _) = ui.allocate_exact_size(vec2(4.0 * UNIT, 4.0 * UNIT), Sense::hover());
    draw(ui.painter(), rect.center(), icon, colour);
}

fn draw(painter: &Painter, at: Pos2, icon: Icon, colour: Color32) {
    let p = |x: f32, y: f32| pos2(at.x + x, at.y + y);
    let stroke = Stroke::new(1.5, colour);
    let triangle = |x: f32, way: f32| {
        let corners = vec![p(x + 3.5 * way, 0.0), p(x - 3.0 * way, -4.5), p(x - 3.0 * way, 4.5)];
        painter.add(Shape::convex_polygon(corners, colour, Stroke::NONE));
    };
    let bar = |x: f32| painter.rect_filled(Rect::from_center_size(p(x, 0.0), vec2(1.5, 9.0)), 0.0, colour);
    match icon {
        Icon::Close => {
            painter.line_segment([p(-3.5, -3.5), p(3.5, 3.5)], stroke);
            painter.line_segment([p(-3.5, 3.5), p(3.5, -3.5)], stroke);
        }
        Icon::Plus => {
            painter.line_segment([p(-4.5, 0.0), p(4.5, 0.0)], stroke);
            painter.line_segment([p(0.0, -4.5), p(0.0, 4.5)], stroke);
        }
        Icon::First => {
            bar(-4.0);
            triangle(1.0, -1.0);
        }
        Icon::Previous => triangle(0.0, -1.0),
        Icon::Next => triangle(0.0, 1.0),
        Icon::Last => {
            triangle(-1.0, 1.0);
            bar(4.0);
        }
        Icon::Moon => {
            // The outer circle one way, the inner one back.
            let arc = |centre: Pos2, radius: f32, from: f32, to: f32| {
                (0..=12).map(move |i| from + (to - from) * i as f32 / 12.0).map(move |a| centre + radius * vec2(a.cos(), a.sin()))
            };
            let points: Vec<Pos2> =
                arc(p(0.0, 0.0), 5.5, -1.2, 4.4 - std::f32::consts::TAU).chain(arc(p(2.5, -1.5), 4.2, 3.6, -0.4)).collect();
            painter.add(Shape::closed_line(points, Stroke::new(1.2, colour)));
        }
        Icon::Sun => {
            painter.circle_stroke(at, 3.0, stroke);
            for i in 0..8 {
                let a = i as f32 * std::f32::consts::FRAC_PI_4;
                let way = vec2(a.cos(), a.sin());
                painter.line_segment([at + 4.8 * way, at + 6.5 * way], Stroke::new(1.2, colour));
            }
        }
        Icon::Caution => {
            painter.add(Shape::closed_line(vec![p(0.0, -6.0), p(6.5, 5.5), p(-6.5, 5.5)], Stroke::new(1.3, colour)));
            painter.line_segment([p(0.0, -2.0), p(0.0, 1.8)], stroke);
            painter.circle_filled(p(0.0, 3.7), 0.9, colour);
        }
    }
}
