//! Asks how large a picture of a view is to be and where to save it, and has it made.
//!
//! Always: while the picture is in the making the question stays in front, so what it shows cannot change; then a job
//! paints and writes it.

use crate::chart::Theme;
use crate::session::Command;
use crate::session::export::PictureWork;
use crate::ui::off_screen::{Making, OffScreen, PictureSize, TITLE_PT};
use crate::ui::panels::export::TargetField;
use crate::ui::theme::UNIT;
use crate::ui::views::{Cx, View, ViewClass};
use egui::{ComboBox, DragValue, Label, Modal, RichText, Ui};
use std::ops::RangeInclusive;

/// Sizes offered, in points.
const SIZES: [(u32, u32); 3] = [(1280, 800), (1920, 1080), (2560, 1440)];
/// Points a side may have.
const SIDE_PT: RangeInclusive<u32> = 200..=8192;
/// Most pixels, in millions.
const MOST_MEGAPIXELS: u64 = 100;

/// The question while it is open.
#[derive(Default)]
pub struct SavePicture {
    asked: Option<Asked>,
    /// Scale and theme chosen last.
    last: Option<(f32, Theme)>,
}

struct Asked {
    class: &'static ViewClass,
    target: TargetField,
    /// Its size on the screen, in points, with the title's line.
    on_screen: (u32, u32),
    size: PictureSize,
    making: Option<OffScreen>,
    problem: String,
}

impl SavePicture {
    /// Opens the question for a view that is so large on the screen.
    pub fn open(&mut self, class: &'static ViewClass, on_screen: egui::Vec2, cx: &Cx<'_>) {
        let points = |length: f32| (length.round() as u32).clamp(*SIDE_PT.start(), *SIDE_PT.end());
        let (width_pt, height_pt) = (points(on_screen.x), points(on_screen.y + TITLE_PT));
        let (scale, theme) = self.last.unwrap_or((2.0, cx.session.theme()));
        self.asked = Some(Asked {
            class,
            target: TargetField::suggest(class.id, "png", cx),
            on_screen: (width_pt, height_pt),
            size: PictureSize { width_pt, height_pt, scale, theme },
            making: None,
            problem: String::new(),
        });
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.asked.is_some()
    }
    /// Shows it. `twin` is the view once more, with all that was chosen in it.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>, twin: impl Fn(&ViewClass) -> Box<dyn View>) {
        let Some(asked) = &mut self.asked else { return };
        let (mut save, mut cancel) = (false, false);
        let modal = Modal::new(egui::Id::unique("save picture")).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width(130.0 * UNIT);
            if asked.making.is_some() {
                making_line(ui, cx, asked.class.title);
                cancel = ui.button("Cancel").clicked();
                return;
            }
            save = asked.target.show(ui, cx, &format!("Save a picture of {} as", asked.class.title));
            asked.size_fields(ui, cx);
            if !asked.problem.is_empty() {
                ui.add(Label::new(RichText::new(&asked.problem).color(cx.tokens.error)).wrap());
            }
            ui.horizontal(|ui| {
                save |= ui.button("Save").clicked();
                asked.target.choose_button(ui, cx);
                cancel = ui.button("Cancel").clicked();
            });
        });
        if cancel || modal.should_close() {
            cx.session.forget_aside();
            self.asked = None;
            return;
        }
        if save {
            self.last = Some((asked.size.scale, asked.size.theme));
            asked.problem = asked.why_not().unwrap_or_default();
            if asked.problem.is_empty() {
                asked.making = Some(OffScreen::new(asked.class, twin(asked.class), asked.size));
            }
        }
        let Some(making) = &mut asked.making else { return };
        ui.ctx().request_repaint();
        match (making.step(cx), asked.target.path()) {
            (Making::Done(painting), Some(path)) => {
                cx.send(Command::SavePicture { path, picture: PictureWork::new(move || painting.canvas()) });
                self.asked = None;
            }
            (Making::Failed(sentence), _) => (asked.problem, asked.making) = (sentence, None),
            (Making::More | Making::Done(_), _) => {}
        }
    }
}

impl Asked {
    fn size_fields(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let named = |(width, height): (u32, u32)| format!("{width} × {height}");
        let sizes = [self.on_screen].into_iter().chain(SIZES);
        let name = |place: usize, size| if place == 0 { format!("as on the screen, {}", named(size)) } else { named(size) };
        let size = &mut self.size;
        let chosen = (size.width_pt, size.height_pt);
        let now = sizes.clone().enumerate().find(|(_, size)| *size == chosen);
        egui::Grid::new("picture size").num_columns(2).spacing([3.0 * UNIT, UNIT]).show(ui, |ui| {
            let label = ui.label("Size");
            ui.horizontal(|ui| {
                let text = now.map_or_else(|| "another".to_owned(), |(place, size)| name(place, size));
                let combo = ComboBox::from_id_salt("picture size").selected_text(text).width(50.0 * UNIT).show_ui(ui, |ui| {
                    for (place, preset) in sizes.enumerate() {
                        if ui.selectable_label(preset == chosen, name(place, preset)).clicked() {
                            (size.width_pt, size.height_pt) = preset;
                        }
                    }
                });
                combo.response.labelled_by(label.id);
                for (value, name) in [(&mut size.width_pt, "Width"), (&mut size.height_pt, "Height")] {
                    let field = ui.add(DragValue::new(value).range(SIDE_PT).speed(4.0));
                    field.on_hover_text(format!("{name} in points")).widget_info(|| {
                        egui::WidgetInfo::labeled(egui::Role::SpinButton, true, format!("{name} of the picture in points"))
                    });
                }
            });
            ui.end_row();
            ui.label("Pixels a point");
            ui.horizontal(|ui| {
                for scale in [1.0, 2.0, 3.0] {
                    ui.selectable_value(&mut size.scale, scale, format!("{scale} ×"));
                }
                let (width, height) = size.pixels();
                ui.label(RichText::new(format!("makes {width} × {height} pixels")).color(cx.tokens.weak));
            });
            ui.end_row();
            ui.label("Colours");
            ui.horizontal(|ui| {
                ui.selectable_value(&mut size.theme, Theme::Light, "Light");
                ui.selectable_value(&mut size.theme, Theme::Dark, "Dark");
            });
            ui.end_row();
        });
    }

    /// Why it cannot be made, in a sentence.
    fn why_not(&self) -> Option<String> {
        if self.target.path().is_none() {
            return Some("Type where to save the picture.".to_owned());
        }
        let (width, height) = self.size.pixels();
        (MOST_MEGAPIXELS * 1_000_000 < width.saturating_mul(height)).then(|| {
            format!("{width} × {height} pixels are more than the {MOST_MEGAPIXELS} million a picture may have: choose fewer.")
        })
    }
}

/// What the picture waits for.
fn making_line(ui: &mut Ui, cx: &Cx<'_>, title: &str) {
    ui.strong(format!("Making the picture of {title}"));
    let job = cx.session.running().into_iter().next();
    let text = job.map_or_else(
        || "laying it out …".to_owned(),
        |job| {
            let share = job.progress.fraction().map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
            format!("{}{share} …", job.title)
        },
    );
    ui.label(RichText::new(text).color(cx.tokens.weak));
}
