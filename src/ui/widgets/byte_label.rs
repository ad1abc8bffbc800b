//! A size that reads short, tells the exact bytes on hover, and is copied by a click.

use crate::base::Bytes;
use crate::model::glossary::meaning;
use egui::{Response, RichText, Sense, Ui};

/// Shows a size; `what` names it for the tooltip, which explains it where it is a word of the glossary.
pub fn byte_label(ui: &mut Ui, what: &str, bytes: u64) -> Response {
    let mut told = format!("{what}: {}", Bytes(bytes).exact());
    if let Some(meaning) = meaning(what) {
        told = format!("{told}\n{meaning}");
    }
    copyable(ui, RichText::new(Bytes(bytes).to_string()), &told, &bytes.to_string())
}

/// Shows a size with its exact bytes written out.
pub fn exact_label(ui: &mut Ui, bytes: u64) -> Response {
    copyable(ui, RichText::new(Bytes(bytes).exact()), "", &bytes.to_string())
}

/// Shows a text that a click copies as `copied`.
pub fn copyable(ui: &mut Ui, text: RichText, hover: &str, copied: &str) -> Response {
    let response = ui.add(egui::Label::new(text).sense(Sense::click()).selectable(false));
    if response.clicked() {
        ui.copy_text(copied.to_owned());
    }
    response.on_hover_ui(|ui| {
        if !hover.is_empty() {
            ui.label(hover);
        }
        ui.weak("Click to copy");
    })
}
