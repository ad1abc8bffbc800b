//! Drawings to egui shapes: neighbouring boxes become one mesh, text is laid out only where it may fit.
//!
//! Always: marks are painted in their order; a box is a plain quad without feathering, so boxes that touch
//! leave no seam. Where a raster's texture is not there yet its mark paints nothing.

use crate::chart::{Anchor, Area, Drawing, Fit, Ink, Palette, RasterSlot, Shape, TextSize};
use crate::raster::Raster;
use egui::epaint::Vertex;
use egui::{Align2, Color32, ColorImage, FontId, Mesh, Painter, Pos2, Rect, Stroke, StrokeKind, TextureId, Vec2, pos2, vec2};

/// Paints a drawing with its top left corner at `origin`. `textures` names the texture of each finished raster.
pub fn paint(
    painter: &Painter,
    origin: Pos2,
    drawing: &Drawing,
    palette: Palette,
    textures: &dyn Fn(RasterSlot) -> Option<TextureId>,
) {
    let rect = Rect::from_min_size(origin, vec2(drawing.width_pt, drawing.height_pt));
    let painter = painter.with_clip_rect(rect.intersect(painter.clip_rect()));
    let at = |p: [f32; 2]| origin + vec2(p[0], p[1]);
    let mut boxes = Mesh::default();
    for mark in &drawing.marks {
        let colour = colour(palette, mark.ink);
        match &mark.shape {
            Shape::Box(area) => quad(&mut boxes, place(origin, *area), colour),
            Shape::Columns { x0, step, base, tops } => {
                for (column, top) in tops.iter().enumerate() {
                    let left = x0 + step * column as f32;
                    quad(&mut boxes, place(origin, Area::new(left, *top, left + step, *base)), colour);
                }
            }
            shape => {
                flush(&painter, &mut boxes);
                match shape {
                    Shape::Box(_) | Shape::Columns { .. } => {}
                    Shape::Outline(area, width) => {
                        painter.rect_stroke(place(origin, *area), 0.0, Stroke::new(*width, colour), StrokeKind::Inside);
                    }
                    Shape::Hatch(area) => hatch(&painter, place(origin, *area), colour),
                    Shape::Line(points, width) => {
                        painter.line(points.iter().map(|p| at(*p)).collect(), Stroke::new(*width, colour));
                    }
                    Shape::Dashed(points, width) => {
                        let path: Vec<Pos2> = points.iter().map(|p| at(*p)).collect();
                        painter.extend(egui::Shape::dashed_line(&path, Stroke::new(*width, colour), 6.0, 4.0));
                    }
                    Shape::Triangle(corners) => {
                        let corners = corners.iter().map(|p| at(*p)).collect();
                        painter.add(egui::Shape::convex_polygon(corners, colour, Stroke::NONE));
                    }
                    Shape::Text { at: anchor_at, anchor, size, text: words, fit } => {
                        text(&painter, at(*anchor_at), *anchor, *size, words, *fit, colour);
                    }
                    Shape::Raster { slot, area, uv } => {
                        if let Some(texture) = textures(*slot) {
                            let uv = Rect::from_min_max(pos2(uv.x0, uv.y0), pos2(uv.x1, uv.y1));
                            painter.image(texture, place(origin, *area), uv, Color32::WHITE);
                        }
                    }
                }
            }
        }
    }
    flush(&painter, &mut boxes);
}

/// The value of an ink for egui.
pub fn colour(palette: Palette, ink: Ink) -> Color32 {
    let [r, g, b, a] = palette.rgba(ink);
    Color32::from_rgba_unmultiplied(r, g, b, a)
}

/// A finished raster as an image to upload. Upload it with nearest-neighbour sampling so that pixels stay sharp.
pub fn texture_image(raster: &Raster) -> ColorImage {
    ColorImage::from_rgba_premultiplied([raster.width, raster.height], &raster.rgba)
}

/// The font of a text size.
pub fn font(size: TextSize) -> FontId {
    FontId::proportional(size.points())
}

fn place(origin: Pos2, area: Area) -> Rect {
    Rect::from_min_max(origin + vec2(area.x0, area.y0), origin + vec2(area.x1, area.y1))
}

fn quad(mesh: &mut Mesh, rect: Rect, color: Color32) {
    if rect.max.x <= rect.min.x || rect.max.y <= rect.min.y {
        return;
    }
    let first = mesh.vertices.len() as u32;
    let uv = egui::epaint::WHITE_UV;
    let corners = [rect.left_top(), rect.right_top(), rect.left_bottom(), rect.right_bottom()];
    mesh.vertices.extend(corners.map(|pos| Vertex { pos, uv, color }));
    mesh.indices.extend([0, 1, 2, 2, 1, 3].map(|i| first + i));
}

fn flush(painter: &Painter, boxes: &mut Mesh) {
    if !boxes.is_empty() {
        painter.add(egui::Shape::mesh(std::mem::take(boxes)));
    }
}

/// Diagonals five points apart, fixed to the screen so that neighbouring areas hatch as one.
fn hatch(painter: &Painter, rect: Rect, color: Color32) {
    const GAP: f32 = 5.0;
    let stroke = Stroke::new(1.0, color);
    let mut sum = ((rect.min.x + rect.min.y) / GAP).ceil() * GAP;
    while sum < rect.max.x + rect.max.y {
        let left = rect.min.x.max(sum - rect.max.y);
        let right = rect.max.x.min(sum - rect.min.y);
        if left < right {
            painter.line_segment([pos2(left, sum - left), pos2(right, sum - right)], stroke);
        }
        sum += GAP;
    }
}

fn text(painter: &Painter, at: Pos2, anchor: Anchor, size: TextSize, words: &str, fit: Fit, color: Color32) {
    let room = match fit {
        Fit::Always => f32::INFINITY,
        Fit::OrNothing(room) | Fit::Shorten(room) => room,
    };
    // No letter is narrower than an eighth of its height on average: spares the layout of what can never fit.
    let hopeless = room < words.chars().count() as f32 * size.points() / 8.0;
    if room < size.points() * 0.6 || (hopeless && matches!(fit, Fit::OrNothing(_))) {
        return;
    }
    let galley = match fit {
        Fit::Shorten(room) => {
            let mut job = egui::text::LayoutJob::simple_singleline(words.to_owned(), font(size), color);
            job.wrap = egui::text::TextWrapping { max_width: room, max_rows: 1, break_anywhere: true, ..Default::default() };
            painter.layout_job(job)
        }
        Fit::Always | Fit::OrNothing(_) => painter.layout_no_wrap(words.to_owned(), font(size), color),
    };
    if matches!(fit, Fit::OrNothing(room) if room < galley.size().x) {
        return;
    }
    let align = match anchor {
        Anchor::LeftCentre => Align2::LEFT_CENTER,
        Anchor::Centre => Align2::CENTER_CENTER,
        Anchor::RightCentre => Align2::RIGHT_CENTER,
        Anchor::LeftTop => Align2::LEFT_TOP,
        Anchor::CentreTop => Align2::CENTER_TOP,
        Anchor::RightTop => Align2::RIGHT_TOP,
    };
    let rect: Rect = align.anchor_size(at, Vec2::new(galley.size().x, galley.size().y));
    painter.galley(rect.min, galley, color);
}
