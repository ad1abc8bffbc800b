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
    /// Light or dark.
    Theme,
    /// More is hidden here.
    Folded,
    /// What was hidden is shown.
    Unfolded,
    /// To look for something.
    Find,
    /// Something to know.
    Caution,
    /// Save it.
    Save,
    /// Being recorded.
    Record,
    /// That is so.
    Done,
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

/// A line of text with a sign that tells whether something is folded away; whether it was clicked.
pub fn fold_line(ui: &mut Ui, open: bool, text: &str, colour: Color32) -> bool {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = UNIT / 2.0;
        icon(ui, if open { Icon::Unfolded } else { Icon::Folded }, colour);
        let label = egui::Label::new(egui::RichText::new(text).color(colour)).sense(Sense::click()).selectable(false);
        ui.add(label).on_hover_cursor(egui::CursorIcon::PointingHand).clicked()
    })
    .inner
}

/// A sign among text.
pub fn icon(ui: &mut Ui, icon: Icon, colour: Color32) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(4.0 * UNIT, 4.0 * UNIT), Sense::hover());
    draw(ui.painter(), rect.center(), icon, colour);
    response
}

/// Draws a sign around a point.
pub fn draw(painter: &Painter, at: Pos2, icon: Icon, colour: Color32) {
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
        Icon::Theme => {
            let half =
                (0..=16).map(|i| std::f32::consts::PI * (i as f32 / 16.0 - 0.5)).map(|a| at + 5.5 * vec2(a.cos(), a.sin()));
            painter.circle_stroke(at, 5.5, Stroke::new(1.2, colour));
            painter.add(Shape::convex_polygon(half.collect(), colour, Stroke::NONE));
        }
        Icon::Folded => {
            painter.add(Shape::convex_polygon(vec![p(3.0, 0.0), p(-2.0, -4.0), p(-2.0, 4.0)], colour, Stroke::NONE));
        }
        Icon::Unfolded => {
            painter.add(Shape::convex_polygon(vec![p(0.0, 3.0), p(-4.0, -2.0), p(4.0, -2.0)], colour, Stroke::NONE));
        }
        Icon::Save => {
            painter.line_segment([p(0.0, -5.0), p(0.0, 2.0)], stroke);
            painter.line_segment([p(-3.5, -1.5), p(0.0, 2.0)], stroke);
            painter.line_segment([p(3.5, -1.5), p(0.0, 2.0)], stroke);
            painter.line_segment([p(-5.0, 5.0), p(5.0, 5.0)], stroke);
        }
        Icon::Record => {
            painter.circle_filled(at, 4.5, colour);
        }
        Icon::Done => {
            painter.line_segment([p(-4.5, 0.5), p(-1.5, 3.5)], Stroke::new(1.8, colour));
            painter.line_segment([p(-1.5, 3.5), p(4.5, -3.5)], Stroke::new(1.8, colour));
        }
        Icon::Find => {
            painter.circle_stroke(p(-1.2, -1.2), 4.0, Stroke::new(1.4, colour));
            painter.line_segment([p(1.8, 1.8), p(5.4, 5.4)], Stroke::new(1.8, colour));
        }
        Icon::Caution => {
            painter.add(Shape::closed_line(vec![p(0.0, -6.0), p(6.5, 5.5), p(-6.5, 5.5)], Stroke::new(1.3, colour)));
            painter.line_segment([p(0.0, -2.0), p(0.0, 1.8)], stroke);
            painter.circle_filled(p(0.0, 3.7), 0.9, colour);
        }
    }
}
