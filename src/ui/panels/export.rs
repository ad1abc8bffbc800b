//! Asks where to save the report, and the field for a place that all such questions share.

use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{Key, Modal, TextEdit, Ui};
use std::path::PathBuf;

/// The place a file is to be written to.
#[derive(Default)]
pub struct TargetField {
    path: String,
    seen: u64,
    /// Opened just now: the field takes the keys.
    fresh: bool,
}

impl TargetField {
    /// Suggests a name after the file in front: `resnet50-report.png`.
    pub fn suggest(what: &str, cx: &Cx<'_>) -> TargetField {
        let title = cx.session.active().map_or("snapshot", |document| document.title.as_str());
        let stem: String =
            title.split('.').next().unwrap_or(title).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let seen = cx.session.target().map_or(0, |(number, _)| *number);
        TargetField { path: format!("{stem}-{what}.png"), seen, fresh: true }
    }
    /// Shows the field below its heading; whether it was left with Enter.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, heading: &str) -> bool {
        if let Some((number, path)) = cx.session.target().filter(|(number, _)| self.seen < *number) {
            self.seen = *number;
            self.path = path.display().to_string();
        }
        let label = ui.strong(heading);
        let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY)).labelled_by(label.id);
        if std::mem::take(&mut self.fresh) {
            field.request_focus();
        }
        field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter))
    }
    /// The button that asks the system for a place.
    pub fn choose_button(&self, ui: &mut Ui, cx: &Cx<'_>) {
        if ui.button("Choose…").clicked() {
            cx.send(Command::AskTarget(self.path.clone()));
        }
    }
    /// The place, where one was named.
    pub fn path(&self) -> Option<PathBuf> {
        let path = self.path.trim();
        (!path.is_empty()).then(|| super::welcome::expand_home(path))
    }
}

/// The question where to save the report, while it is open.
#[derive(Default)]
pub struct ExportDialog {
    target: Option<TargetField>,
}

impl ExportDialog {
    /// Opens the question with a suggestion.
    pub fn open(&mut self, cx: &Cx<'_>) {
        self.target = Some(TargetField::suggest("report", cx));
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.target.is_some()
    }
    /// Shows it; where to save, once that is known.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) -> Option<PathBuf> {
        let target = self.target.as_mut()?;
        let (mut save, mut cancel) = (false, false);
        let modal = Modal::new(egui::Id::unique("export")).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width(120.0 * UNIT);
            save = target.show(ui, cx, "Save the report of this moment as");
            ui.horizontal(|ui| {
                save |= ui.button("Save").clicked();
                target.choose_button(ui, cx);
                cancel = ui.button("Cancel").clicked();
            });
        });
        let path = target.path().filter(|_| save);
        if path.is_some() || cancel || modal.should_close() {
            self.target = None;
        }
        path
    }
}
