//! Asks for a file: where to save a table, or where to read rules of categories from; and the field for a place that
//! such questions share.

use crate::base::grouped;
use crate::model::Position;
use crate::session::Command;
use crate::session::export::recording_endings;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{Checkbox, Key, Modal, TextEdit, Ui};
use std::ops::Range;
use std::path::PathBuf;

/// The place of a file, as it is typed or picked.
#[derive(Clone, Default)]
pub struct TargetField {
    path: String,
    seen: u64,
    /// Opened just now: the field takes the keys.
    fresh: bool,
}

impl TargetField {
    /// Suggests a name after the file in front: `resnet50-report.png`.
    pub fn suggest(what: &str, ending: &str, cx: &Cx<'_>) -> TargetField {
        let title = cx.session.active().map_or("snapshot", |document| document.title.as_str());
        let stem: String =
            title.split('.').next().unwrap_or(title).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        TargetField::at(format!("{stem}-{}.{ending}", what.replace(' ', "_")), cx)
    }
    /// Suggests a path.
    pub fn at(path: String, cx: &Cx<'_>) -> TargetField {
        let seen = cx.session.target().map_or(0, |(number, _)| *number);
        TargetField { path, seen, fresh: true }
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

/// What is to be saved, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// A table of blocks, by the name of its view.
    Table(&'static str),
    /// The recording, for other tools.
    Recording,
    /// Nothing: rules of categories are to be read.
    Categories,
}

/// The question for a file, while it is open.
#[derive(Clone, Default)]
pub struct ExportDialog {
    asked: Option<(Export, TargetField)>,
    /// Only the stretch of time that is selected, or else on screen.
    part: bool,
    redact: bool,
}

impl ExportDialog {
    /// Opens the question with a suggestion.
    pub fn open(&mut self, what: Export, cx: &Cx<'_>) {
        let target = match what {
            Export::Table(name) => TargetField::suggest(name, "csv", cx),
            Export::Recording => TargetField::suggest("copy", "pickle", cx),
            Export::Categories => {
                let known = cx.session.saved().categories.as_ref();
                TargetField::at(known.map_or(String::new(), |path| path.display().to_string()), cx)
            }
        };
        *self = ExportDialog { asked: Some((what, target)), part: false, redact: false };
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.asked.is_some()
    }
    /// Shows it; what to save or read and where, once that is known.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) -> Option<(Export, PathBuf)> {
        let (what, target) = self.asked.as_mut()?;
        let what = *what;
        let (part, is_selected) = part_of_time(cx);
        let (mut save, mut cancel) = (false, false);
        let name = if let Export::Table(name) = what { name } else { "" };
        let id = egui::Id::unique(("export", name));
        let modal = Modal::new(id).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width(120.0 * UNIT);
            let heading = match what {
                Export::Table(_) => "Save all rows of this table as",
                Export::Recording => "Export the recording as",
                Export::Categories => "Load the rules of categories from",
            };
            save = target.show(ui, cx, heading);
            if what == Export::Recording {
                ui.weak(format!("The ending says for whom: {}. A further .gz or .zst packs it.", recording_endings()));
                let whose = if is_selected { "selected" } else { "on screen" };
                let text = match &part {
                    Some(part) => format!("Only the stretch {whose}, {}", stretch(part)),
                    None => "Only a stretch of time".to_owned(),
                };
                ui.add_enabled(part.is_some(), Checkbox::new(&mut self.part, text));
                ui.checkbox(&mut self.redact, "Hide paths, names of functions, spans and notes");
            }
            ui.horizontal(|ui| {
                let reads = what == Export::Categories;
                save |= ui.button(if reads { "Load" } else { "Save" }).clicked();
                if reads {
                    if ui.button("Choose…").clicked() {
                        cx.send(Command::AskSource);
                    }
                } else {
                    target.choose_button(ui, cx);
                }
                cancel = ui.button("Cancel").clicked();
            });
        });
        if save && let Some(path) = target.path() {
            self.asked = None;
            if what == Export::Recording {
                let window = part.filter(|_| self.part);
                cx.send(Command::ExportRecording { path, window, redact: self.redact });
                return None;
            }
            return Some((what, path));
        }
        if cancel || modal.should_close() {
            self.asked = None;
        }
        None
    }
}

/// The stretch of time that is selected, or else the one on screen where that is not all; and whether it is selected.
fn part_of_time(cx: &Cx<'_>) -> (Option<Range<Position>>, bool) {
    if let Some(range) = cx.session.workspace().place().and_then(|place| place.range.clone()) {
        return (Some(range), true);
    }
    let Some(clock) = cx.session.clock() else { return (None, false) };
    let units = cx.session.window(&clock.clock);
    let whole = clock.clock.span();
    let part = clock.clock.position(units.start)..clock.clock.position(units.end);
    (Some(part).filter(|_| units != whole), false)
}

/// A stretch of time in the words of the event list.
fn stretch(part: &Range<Position>) -> String {
    let event =
        |at: Position| at.event().map_or("the start".to_owned(), |event| format!("event {}", grouped(u64::from(event.0))));
    format!("from {} to {}", event(part.start), event(part.end))
}
