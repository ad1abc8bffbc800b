//! Asks where to save the report, a picture of a view or a table, and where to read rules of categories from.

use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{Key, Modal, TextEdit, Ui};
use std::path::PathBuf;

/// What is to be saved, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// The one-page report.
    Report,
    /// A view, as it is on the screen.
    View(&'static str),
    /// A table of blocks, by the name of its view.
    Table(&'static str),
    /// Nothing: rules of categories are to be read.
    Categories,
}

/// The question while it is open.
#[derive(Default)]
pub struct ExportDialog {
    what: Option<Export>,
    path: String,
    seen: u64,
    /// Opened just now: the field takes the keys.
    fresh: bool,
}

impl ExportDialog {
    /// Opens the question with a suggestion.
    pub fn open(&mut self, what: Export, cx: &Cx<'_>) {
        let name = match what {
            Export::Report => "report",
            Export::View(id) | Export::Table(id) => id,
            Export::Categories => "",
        };
        let ending = if matches!(what, Export::Table(_)) { "csv" } else { "png" };
        let title = cx.session.active().map_or("snapshot", |document| document.title.as_str());
        let stem: String =
            title.split('.').next().unwrap_or(title).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        self.path = match what {
            Export::Categories => cx.session.saved().categories.as_ref().map_or(String::new(), |path| path.display().to_string()),
            _ => format!("{stem}-{}.{ending}", name.replace(' ', "_")),
        };
        self.seen = cx.session.target().map_or(0, |(number, _)| *number);
        self.what = Some(what);
        self.fresh = true;
    }
    fn title(&self) -> &'static str {
        if let Some(Export::Table(name)) = self.what { name } else { "" }
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.what.is_some()
    }
    /// Shows it; what to save and where, once that is known.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) -> Option<(Export, PathBuf)> {
        let what = self.what?;
        if let Some((number, path)) = cx.session.target().filter(|(number, _)| self.seen < *number) {
            self.seen = *number;
            self.path = path.display().to_string();
        }
        let (mut save, mut cancel) = (false, false);
        let modal = Modal::new(egui::Id::unique(("export", self.title()))).show(ui.ctx(), |ui| {
            ui.set_width(120.0 * UNIT);
            let label = ui.strong(match what {
                Export::Report => "Save the report of this moment as",
                Export::View(_) => "Save a picture of this view as",
                Export::Table(_) => "Save all rows of this table as",
                Export::Categories => "Load the rules of categories from",
            });
            let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY)).labelled_by(label.id);
            if std::mem::take(&mut self.fresh) {
                field.request_focus();
            }
            save = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            ui.horizontal(|ui| {
                let reads = what == Export::Categories;
                save |= ui.button(if reads { "Load" } else { "Save" }).clicked();
                if ui.button("Choose…").clicked() {
                    cx.send(if reads { Command::AskSource } else { Command::AskTarget(self.path.clone()) });
                }
                cancel = ui.button("Cancel").clicked();
            });
        });
        if save && !self.path.trim().is_empty() {
            self.what = None;
            return Some((what, super::welcome::expand_home(self.path.trim())));
        }
        if cancel || modal.should_close() {
            self.what = None;
        }
        None
    }
}
