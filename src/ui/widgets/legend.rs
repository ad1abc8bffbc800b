//! What the colours mean, in one line, with the one place to choose their meaning.

use crate::chart::{ColourBy, Ink};
use crate::paint::colour;
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::text::{LayoutJob, TextFormat};
use egui::{Align, Color32, ComboBox, Label, Layout, Rect, TextStyle, Ui, Vec2, pos2, vec2};

/// The chooser of what colours mean.
pub fn chooser(ui: &mut Ui, cx: &Cx<'_>) {
    let now = cx.session.workspace().colour_by;
    let combo = ComboBox::from_id_salt("colour by").selected_text(now.name()).width(20.0 * UNIT).show_ui(ui, |ui| {
        for by in ColourBy::ALL {
            if ui.selectable_label(by == now, by.name()).clicked() {
                cx.send(Command::SetColourBy(by));
            }
        }
    });
    // The bar is filled from the right.
    let label = ui.label("Colour by");
    combo.response.labelled_by(label.id);
}

/// The colours with their meanings, the first eight.
pub struct Legend {
    entries: Vec<(Ink, String)>,
    help: Option<&'static str>,
}

impl Legend {
    /// What the colours of the device in front mean now.
    pub fn now(cx: &Cx<'_>) -> Legend {
        let (Some((document, ..)), Answer::Ready(inks)) = (cx.session.front(), cx.session.inks()) else {
            return Legend { entries: Vec::new(), help: None };
        };
        let meanings = inks.inks.legend(&document.snapshot).into_iter().take(8);
        let entries = meanings.map(|(meaning, name)| (Ink::Block(meaning), name.to_string())).collect();
        Legend { entries, help: (inks.inks.by() == ColourBy::Held).then_some(HELD) }
    }
    /// Shows it at the end of a line that is filled from the right; whether it fits there.
    pub fn show_beside(&self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        let width = self.width(ui);
        let fits = width + 4.0 * UNIT <= ui.available_width();
        if fits {
            let size = vec2(width, ui.available_height());
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| self.show(ui, cx));
        }
        fits
    }
    /// Shows it in lines of its own.
    pub fn show_below(&self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(UNIT);
            self.show(ui, cx);
        });
    }
    /// Its width in one line, in points.
    fn width(&self, ui: &Ui) -> f32 {
        let width = |(_, name): &(Ink, String)| ui.painter().layout_job(words(ui, name, Color32::PLACEHOLDER)).size().x;
        self.entries.iter().map(|entry| width(entry) + ui.spacing().item_spacing.x).sum()
    }
    fn show(&self, ui: &mut Ui, cx: &Cx<'_>) {
        for (ink, name) in &self.entries {
            let response = ui.add(Label::new(words(ui, name, cx.tokens.weak)).extend());
            let corner = pos2(response.rect.min.x, response.rect.center().y - SWATCH / 2.0);
            ui.painter().rect_filled(Rect::from_min_size(corner, Vec2::splat(SWATCH)), 0.0, colour(cx.tokens.palette, *ink));
            if let Some(help) = self.help {
                response.on_hover_text(help);
            }
        }
    }
}

/// Side of a patch of colour, in points.
const SWATCH: f32 = 2.5 * UNIT;

/// A name with room for its colour before it: the two never stand on different lines.
fn words(ui: &Ui, name: &str, colour: Color32) -> LayoutJob {
    let mut job = LayoutJob::default();
    job.append(name, SWATCH + UNIT, TextFormat::simple(TextStyle::Small.resolve(ui.style()), colour));
    job
}

/// What is meant by memory that is held.
const HELD: &str = "Free memory a block holds: the free bytes of its segment, shared equally among the blocks in it that \
                    keep it from going back to the driver. The most at any time of its life counts. Whole free granules of an \
                    expandable segment could go back all the same.";
