//! What the colours mean, in one line, with the one place to choose their meaning.

use crate::chart::{ColourBy, Ink, Palette};
use crate::paint::colour;
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{ComboBox, Sense, Ui, vec2};

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

/// The meanings, as far as they fit.
pub fn legend(ui: &mut Ui, cx: &Cx<'_>) {
    let Some((document, ..)) = cx.session.front() else { return };
    let Answer::Ready(inks) = cx.session.inks() else { return };
    for (meaning, name) in inks.inks.legend(&document.snapshot).into_iter().take(8) {
        swatch(ui, cx.tokens.palette, Ink::Block(meaning));
        let label = ui.label(egui::RichText::new(name).small().color(cx.tokens.weak));
        if inks.inks.by() == ColourBy::Held {
            label.on_hover_text(HELD);
        }
    }
}

/// What is meant by memory that is held.
const HELD: &str = "Free memory a block holds: the free bytes of its segment, shared equally among the blocks in it that \
                    keep it from going back to the driver. The most at any time of its life counts. Whole free granules of an \
                    expandable segment could go back all the same.";

fn swatch(ui: &mut Ui, palette: Palette, ink: Ink) {
    let (rect, _) = ui.allocate_exact_size(vec2(2.5 * UNIT, 2.5 * UNIT), Sense::hover());
    ui.painter().rect_filled(rect, 0.0, colour(palette, ink));
}
