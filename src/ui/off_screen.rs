//! A view drawn once more off-screen, at any size, for a saved picture.
//!
//! Always: it asks aside, so nothing the user chose changes; the picture is finished when nothing it asked for is on its
//! way, and it is painted by the reports' painter in a job. It says on its face what it shows.

use crate::chart::Theme;
use crate::chart::text::date_time;
use crate::paint::{Canvas, Offscreen};
use crate::ui::theme::{Tokens, UNIT, apply};
use crate::ui::views::{Cx, View, ViewClass};
use crate::ui::widgets::text::moment;
use egui::{Align2, Context, RawInput, Rect, TextStyle, Ui, UiBuilder, Vec2, pos2, vec2};
use std::time::{Duration, Instant};

/// Height of the line that says what the picture shows, in points.
pub const TITLE_PT: f32 = 8.0 * UNIT;
/// How long a picture may be in the making.
const PATIENCE: Duration = Duration::from_secs(60);
/// A layout settles in so many frames after the last answer, or it never does.
const MOST_FRAMES: u32 = 12;

/// How a picture is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureSize {
    /// Width in points.
    pub width_pt: u32,
    /// Height in points, with the title's line.
    pub height_pt: u32,
    /// Pixels a point.
    pub scale: f32,
    /// Light or dark.
    pub theme: Theme,
}

impl PictureSize {
    /// Width and height in pixels.
    pub fn pixels(&self) -> (u64, u64) {
        let pixels = |points: u32| (f64::from(points) * f64::from(self.scale)).round() as u64;
        (pixels(self.width_pt), pixels(self.height_pt))
    }
}

/// How a frame left it.
pub enum Making {
    /// More frames are needed.
    More,
    /// It is ready to be painted.
    Done(Painting),
    /// It took too long; a sentence.
    Failed(String),
}

/// A picture in the making.
pub struct OffScreen {
    context: Context,
    textures: Offscreen,
    view: Box<dyn View>,
    title: &'static str,
    size: PictureSize,
    began: Instant,
    frames: u32,
    /// Frames since everything was there.
    calm: u32,
}

impl OffScreen {
    /// Begins a picture of a view.
    pub fn new(class: &ViewClass, view: Box<dyn View>, size: PictureSize) -> OffScreen {
        let context = Context::default();
        apply(&context, size.theme);
        context.set_pixels_per_point(size.scale);
        OffScreen {
            context,
            textures: Offscreen::default(),
            view,
            title: class.title,
            size,
            began: Instant::now(),
            frames: 0,
            calm: 0,
        }
    }
    /// Draws one frame.
    pub fn step(&mut self, cx: &Cx<'_>) -> Making {
        let tokens = Tokens::of(self.size.theme);
        let inside = Cx { session: cx.session, tokens: &tokens };
        let size = vec2(self.size.width_pt as f32, self.size.height_pt as f32);
        let input = self.input(size);
        let (context, view, title) = (self.context.clone(), &mut self.view, self.title);
        let (mut output, pending) =
            cx.session.aside(|| context.run_ui(input, |ui| page(ui, &inside, size, title, view.as_mut())));
        self.textures.apply(&mut output.textures_delta);
        self.frames += 1;
        self.calm = if pending { 0 } else { self.calm + 1 };
        let restless = output.viewport_output.values().any(|viewport| viewport.repaint_delay.is_zero());
        if 2 < self.calm && (!restless || MOST_FRAMES < self.calm) {
            cx.session.forget_aside();
            let textures = std::mem::take(&mut self.textures);
            return Making::Done(Painting { context, textures, shapes: output.shapes, size: self.size });
        }
        if PATIENCE < self.began.elapsed() {
            cx.session.forget_aside();
            let sentence = "The picture was not finished within a minute, because something it shows is still being worked out. \
                            Save it again when the lines at the bottom of the window are gone.";
            return Making::Failed(sentence.to_owned());
        }
        Making::More
    }

    fn input(&self, size: Vec2) -> RawInput {
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, size)),
            // Long enough a frame that nothing is caught in an animation.
            time: Some(f64::from(self.frames) * 0.25),
            max_texture_side: Some(16_384),
            ..RawInput::default()
        };
        input.viewports.entry(egui::ViewportId::ROOT).or_default().native_pixels_per_point = Some(self.size.scale);
        input
    }
}

/// A finished picture that waits for its painter.
pub struct Painting {
    context: Context,
    textures: Offscreen,
    shapes: Vec<egui::epaint::ClippedShape>,
    size: PictureSize,
}

impl Painting {
    /// Its pixels.
    pub fn canvas(&self) -> Canvas {
        let (width, height) = self.size.pixels();
        let mut canvas = Canvas::filled(width as usize, height as usize, Tokens::of(self.size.theme).panel);
        let primitives = self.context.tessellate(self.shapes.clone(), self.size.scale);
        self.textures.paint(&mut canvas, &primitives, self.size.scale);
        canvas
    }
}

/// The title's line and the view below it.
fn page(ui: &mut Ui, cx: &Cx<'_>, size: Vec2, title: &str, view: &mut dyn View) {
    ui.painter().rect_filled(Rect::from_min_size(egui::Pos2::ZERO, size), 0.0, cx.tokens.panel);
    let line = Rect::from_min_size(egui::Pos2::ZERO, vec2(size.x, TITLE_PT));
    let painter = ui.painter_at(line.shrink2(vec2(2.0 * UNIT, 0.0)));
    let (heading, body) = (TextStyle::Heading.resolve(ui.style()), TextStyle::Body.resolve(ui.style()));
    let at = painter.text(line.left_center() + vec2(2.0 * UNIT, 0.0), Align2::LEFT_CENTER, title, heading, cx.tokens.text);
    let behind = pos2(at.max.x + 3.0 * UNIT, line.center().y);
    painter.text(behind, Align2::LEFT_CENTER, subject(cx), body, cx.tokens.weak);
    ui.painter().hline(0.0..=size.x, TITLE_PT - 1.0, egui::Stroke::new(1.0, cx.tokens.line));
    let room = Rect::from_min_max(pos2(0.0, TITLE_PT), pos2(size.x, size.y));
    ui.scope_builder(UiBuilder::new().max_rect(room), |ui| {
        ui.set_clip_rect(room);
        view.ui(ui, cx);
    });
}

/// File, device and moment, in one line.
fn subject(cx: &Cx<'_>) -> String {
    let Some((document, _, memory)) = cx.session.front() else { return String::new() };
    let moment = if memory.has_history() {
        let time = cx.cursor().event().and_then(|event| memory.trace.time_us(event));
        let time = time.map_or(String::new(), |time| format!(", {} UTC", date_time(time)));
        format!("{}{time}", moment(cx.cursor()))
    } else {
        "at the dump".to_owned()
    };
    format!("{}   {}   {moment}", document.title, memory.title())
}
