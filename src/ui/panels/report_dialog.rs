//! Asks what the report shall hold, how it shall look, and where it goes.
//!
//! Always: the ending of the name says which kind it is; what a kind has no use for is not asked.

use crate::analysis::Moment;
use crate::base::grouped;
use crate::chart::Theme;
use crate::report::{Pages, REPORTS, ReportOptions, Section, Sections, report_of_extension};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{ComboBox, Grid, Modal, ScrollArea, TextEdit, Ui};

/// The question while it is open.
pub struct ReportDialog {
    is_open: bool,
    path: String,
    seen: u64,
    /// Opened just now: the field takes the keys.
    fresh: bool,
    /// The field was left with Enter in this frame.
    entered: bool,
    when: When,
    /// Pictures over time show what the window shows, instead of the whole recording.
    windowed: bool,
    sections: Sections,
    note: String,
    theme: Theme,
    scale: f32,
    pages: Pages,
}

/// The moment one can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Cursor,
    LastOom,
    Peak,
    Dump,
}

impl Default for ReportDialog {
    fn default() -> Self {
        ReportDialog {
            is_open: false,
            path: String::new(),
            seen: 0,
            fresh: false,
            entered: false,
            when: When::Cursor,
            windowed: false,
            sections: Sections::ALL,
            note: String::new(),
            theme: Theme::Light,
            scale: ReportOptions::PAPER_SCALE,
            pages: Pages::Tall,
        }
    }
}

impl ReportDialog {
    /// Opens the question with a suggestion; what was chosen before stays, but for the note, which was about another
    /// moment.
    pub fn open(&mut self, cx: &Cx<'_>) {
        let ending = self.path.rsplit_once('.').map_or("png", |(_, ending)| ending).to_owned();
        let title = cx.session.active().map_or("snapshot", |document| document.title.as_str());
        let stem: String =
            title.split('.').next().unwrap_or(title).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        self.path = format!("{stem}-report.{ending}");
        self.seen = cx.session.target().map_or(0, |(number, _)| *number);
        self.note.clear();
        self.theme = cx.session.theme();
        self.when = When::Cursor;
        (self.is_open, self.fresh) = (true, true);
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.is_open
    }
    /// Shows it; the command to send, once everything is known.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) -> Option<Command> {
        if !self.is_open {
            return None;
        }
        if let Some((number, path)) = cx.session.target().filter(|(number, _)| self.seen < *number) {
            self.seen = *number;
            self.path = path.display().to_string();
        }
        let (mut save, mut cancel) = (false, false);
        let modal = Modal::new(egui::Id::unique("report")).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width(134.0 * UNIT);
            ui.strong("Save a report");
            ui.add_space(UNIT);
            // A low window scrolls the questions, never the buttons.
            let room = (ui.ctx().content_rect().height() - 40.0 * UNIT).max(30.0 * UNIT);
            ScrollArea::vertical().max_height(room).show(ui, |ui| self.questions(ui, cx));
            ui.add_space(2.0 * UNIT);
            ui.horizontal(|ui| {
                save = ui.add_enabled(self.kind().is_some(), egui::Button::new("Save")).clicked();
                save |= self.entered && self.kind().is_some();
                if ui.button("Choose…").clicked() {
                    cx.send(Command::AskTarget(self.path.clone()));
                }
                cancel = ui.button("Cancel").clicked();
                if self.kind().is_none() {
                    let known: Vec<String> = REPORTS.iter().map(|report| format!(".{}", report.extension())).collect();
                    ui.weak(format!("The name must end in one of {}.", known.join(", ")));
                }
            });
        });
        if save && !self.path.trim().is_empty() {
            self.is_open = false;
            return Some(self.command(cx));
        }
        if cancel || modal.should_close() {
            self.is_open = false;
        }
        None
    }

    fn kind(&self) -> Option<&'static dyn crate::report::Report> {
        report_of_extension(self.path.trim().rsplit_once('.')?.1)
    }

    fn questions(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let kind = self.kind().map(|kind| kind.extension());
        let label = ui.label("File");
        let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY)).labelled_by(label.id);
        if std::mem::take(&mut self.fresh) {
            field.request_focus();
        }
        self.entered = field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        ui.horizontal(|ui| {
            for report in REPORTS {
                let chosen = kind == Some(report.extension());
                if ui.selectable_label(chosen, format!(".{}  {}", report.extension(), report.name())).clicked() {
                    let stem = self.path.rsplit_once('.').map_or(self.path.as_str(), |(stem, _)| stem);
                    self.path = format!("{stem}.{}", report.extension());
                }
            }
        });
        ui.add_space(2.0 * UNIT);
        Grid::new("report options").num_columns(2).spacing([4.0 * UNIT, 1.5 * UNIT]).show(ui, |ui| {
            let label = ui.label("Moment");
            let has_oom = cx.session.front().is_some_and(|(_, _, memory)| !memory.trace.ooms().is_empty());
            let combo = ComboBox::from_id_salt("report moment").selected_text(self.when.words(cx)).show_ui(ui, |ui| {
                for when in [When::Cursor, When::LastOom, When::Peak, When::Dump] {
                    if when != When::LastOom || has_oom {
                        ui.selectable_value(&mut self.when, when, when.words(cx));
                    }
                }
            });
            combo.response.labelled_by(label.id);
            ui.end_row();
            ui.label("Over time");
            ui.horizontal(|ui| {
                ui.selectable_value(&mut self.windowed, false, "the whole recording");
                ui.selectable_value(&mut self.windowed, true, "what the window shows");
            });
            ui.end_row();
            if matches!(kind, Some("png" | "html")) {
                ui.label("Theme");
                ui.horizontal(|ui| {
                    ui.selectable_value(&mut self.theme, Theme::Light, "light");
                    ui.selectable_value(&mut self.theme, Theme::Dark, "dark");
                });
                ui.end_row();
            }
            if kind == Some("png") {
                ui.label("Pages");
                ui.horizontal(|ui| {
                    for (pages, words) in [(Pages::Tall, "one tall page"), (Pages::A4, "A4"), (Pages::Wide, "16:9")] {
                        ui.selectable_value(&mut self.pages, pages, words);
                    }
                });
                ui.end_row();
                ui.label("Pixels");
                ui.horizontal(|ui| {
                    for (scale, words) in [(1.0, "1×"), (2.0, "2×"), (3.0, "3×")] {
                        ui.selectable_value(&mut self.scale, scale, words);
                    }
                });
                ui.end_row();
            }
        });
        ui.add_space(2.0 * UNIT);
        ui.label("Parts");
        Grid::new("report parts").num_columns(3).spacing([4.0 * UNIT, UNIT]).show(ui, |ui| {
            for (place, section) in Section::ALL.into_iter().enumerate() {
                let mut shown = self.sections.has(section);
                if ui.checkbox(&mut shown, section.title()).changed() {
                    self.sections = self.sections.with(section, shown);
                }
                if place % 3 == 2 {
                    ui.end_row();
                }
            }
        });
        ui.add_space(2.0 * UNIT);
        let label = ui.label("Note");
        let note = TextEdit::multiline(&mut self.note).desired_width(f32::INFINITY).desired_rows(2);
        ui.add(note).labelled_by(label.id);
    }

    fn command(&self, cx: &Cx<'_>) -> Command {
        let window = if self.windowed { cx.session.clock() } else { None }.map(|clock| {
            let window = cx.session.window(&clock.clock);
            let end = clock.clock.position(window.end);
            clock.clock.position(window.start)..crate::model::Position(end.0.saturating_add(1))
        });
        let options = ReportOptions {
            scale: self.scale,
            theme: self.theme,
            follow_reader: false,
            colour_by: cx.session.workspace().colour_by,
            categories: cx.session.categories().clone(),
            known: cx.session.card(),
            pages: self.pages,
            sections: self.sections,
            window,
            note: self.note.clone(),
            ..ReportOptions::paper()
        };
        let moment = match self.when {
            When::Cursor => None,
            When::LastOom => Some(Moment::Oom(None)),
            When::Peak => Some(Moment::Peak),
            When::Dump => Some(Moment::End),
        };
        let path = super::welcome::expand_home(self.path.trim());
        Command::ExportReport { path, moment, options: Box::new(options) }
    }
}

impl When {
    fn words(self, cx: &Cx<'_>) -> String {
        match self {
            When::Cursor => match cx.cursor().event() {
                Some(event) => format!("at the cursor, event {}", grouped(u64::from(event.0))),
                None => "at the cursor".to_owned(),
            },
            When::LastOom => "the last failure".to_owned(),
            When::Peak => "where most was allocated".to_owned(),
            When::Dump => "when the file was written".to_owned(),
        }
    }
}
