//! Everything one can do, found by typing (Ctrl+P).

use crate::chart::{ColourBy, Theme, TimeAxis};
use crate::model::Position;
use crate::session::capturing::CaptureDeed;
use crate::session::what_if::WhatIfDeed;
use crate::session::{Command, Session, samples::SAMPLES};
use crate::ui::keys::Magnify;
use crate::ui::panels::help::HelpPage;
use crate::ui::theme::UNIT;
use crate::ui::views::VIEWS;
use crate::ui::views::view::Cx;
use egui::{Key, Modal, ScrollArea, TextEdit, Ui};

/// What a line of the palette does.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// Sends a command.
    Send(Command),
    /// Brings a view to the front, opening it if it was closed.
    ShowView(&'static str),
    /// Puts all views back where they were at first.
    ResetLayout,
    /// Opens the page of captures.
    Capture,
    /// Opens the search over all views.
    Find,
    /// Asks where to export the recording, or a stretch of it.
    ExportRecording,
    /// Asks where to save the report.
    ExportReport,
    /// Asks how to save the picture of the view under the pointer.
    ExportView,
    /// Opens a page of the help.
    Help(HelpPage),
    /// Makes everything larger or smaller.
    Magnify(Magnify),
    /// Asks for a file of categories.
    LoadCategories,
}

/// The palette while it is open.
#[derive(Default)]
pub struct CommandPalette {
    open: bool,
    text: String,
    chosen: usize,
}

impl CommandPalette {
    /// Opens it.
    pub fn open(&mut self) {
        *self = CommandPalette { open: true, ..CommandPalette::default() };
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.open
    }
    /// Shows it; what was chosen, if anything.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) -> Option<Deed> {
        if !self.open {
            return None;
        }
        let words: Vec<String> = self.text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let fits = |title: &str| words.iter().all(|word| title.to_lowercase().contains(word.as_str()));
        let deeds: Vec<_> = all(cx.session).into_iter().filter(|(title, ..)| fits(title)).collect();
        let mut done = None;
        let modal = Modal::new(egui::Id::unique("command palette")).show(ui.ctx(), |ui| {
            ui.set_width(120.0 * UNIT);
            let field = TextEdit::singleline(&mut self.text).hint_text("What to do").desired_width(f32::INFINITY);
            let field = ui.add(field);
            field.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "command"));
            if field.changed() {
                self.chosen = 0;
            }
            let (up, down, enter) =
                ui.input(|i| (i.key_pressed(Key::ArrowUp), i.key_pressed(Key::ArrowDown), i.key_pressed(Key::Enter)));
            if down {
                self.chosen = (self.chosen + 1).min(deeds.len().saturating_sub(1));
            }
            if up {
                self.chosen = self.chosen.saturating_sub(1);
            }
            field.request_focus();
            ScrollArea::vertical().max_height(90.0 * UNIT).auto_shrink([false, true]).show(ui, |ui| {
                for (i, (title, keys, deed)) in deeds.iter().enumerate() {
                    let line = if keys.is_empty() { title.clone() } else { format!("{title}   {keys}") };
                    let response = ui.selectable_label(i == self.chosen, line);
                    if (up || down) && i == self.chosen {
                        response.scroll_to_me(None);
                    }
                    if response.clicked() || (enter && i == self.chosen) {
                        done = Some(deed.clone());
                    }
                }
                if deeds.is_empty() {
                    ui.weak("Nothing is called that. Try a shorter word.");
                }
            });
        });
        if done.is_some() || modal.should_close() {
            self.open = false;
        }
        done
    }
}

/// Title, keys and deed of everything that can be done now.
fn all(session: &Session) -> Vec<(String, &'static str, Deed)> {
    let mut deeds: Vec<(String, &'static str, Deed)> = Vec::new();
    let mut add = |title: &str, keys: &'static str, deed: Deed| deeds.push((title.to_owned(), keys, deed));
    add("Open file…", "Ctrl+O", Deed::Send(Command::OpenDialog));
    add("Open folder of ranks…", "", Deed::Send(Command::OpenFolderDialog));
    add("Record a job…", "Ctrl+R", Deed::Capture);
    if let Some(live) = session.live_in_front().filter(|live| live.is_growing()) {
        add("Follow the recording", "L", Deed::Send(Command::FollowEnd));
        let held = live.is_held();
        add(if held { "Resume showing what is new" } else { "Hold what is shown" }, "H", Deed::Send(Command::HoldLive(!held)));
        let snapshot = CaptureDeed::SnapshotNow(live.path.clone());
        add("Snapshot of the job now", "", Deed::Send(Command::Capture(snapshot)));
    }
    if let Some((document, _, memory)) = session.front() {
        add("Go to the peak", "P", Deed::Send(Command::GoToPeak));
        add("Go to the last out of memory", "O", Deed::Send(Command::GoToLastOom));
        add("Go to the start", "Home", Deed::Send(Command::MoveCursor(Position::START)));
        add("Go to the end", "End", Deed::Send(Command::MoveCursor(memory.end())));
        add("Show the whole trace", "", Deed::Send(Command::Fit));
        add("Frame the selection", "F", Deed::Send(Command::FrameSelection));
        add("Clear the selection", "Esc", Deed::Send(Command::ClearSelection));
        add("Set or remove a mark at the cursor", "M", Deed::Send(Command::ToggleMark));
        add("Find in all views…", "Ctrl+F", Deed::Find);
        if session.find().terms().is_some() {
            add("Go to the next found", "F3", Deed::Send(Command::StepFind { forward: true }));
            add("Go to the previous found", "Shift+F3", Deed::Send(Command::StepFind { forward: false }));
        }
        if !session.find().text().is_empty() {
            add("End the search", "", Deed::Send(Command::SetFind(String::new())));
        }
        add("What if: try the settings that are filled in", "", Deed::Send(Command::WhatIf(WhatIfDeed::Run)));
        add("What if: try all settings", "", Deed::Send(Command::WhatIf(WhatIfDeed::Sweep)));
        for view in VIEWS {
            add(&format!("Show view: {}", view.title), "", Deed::ShowView(view.id));
        }
        for by in ColourBy::ALL {
            add(&format!("Colour by {}", by.name()), "", Deed::Send(Command::SetColourBy(by)));
        }
        add("Axis: events", "", Deed::Send(Command::SetAxis(TimeAxis::Events)));
        add("Axis: real time", "", Deed::Send(Command::SetAxis(TimeAxis::Time)));
        for device in document.used_devices() {
            let title = document.snapshot.devices.get(device).map_or(String::new(), |memory| memory.title());
            add(&format!("Show {title}"), "", Deed::Send(Command::SetDevice(device)));
        }
        for other in session.documents() {
            add(&format!("Go to file: {}", other.title), "", Deed::Send(Command::Activate(other.id)));
        }
        add("Close this file", "Ctrl+W", Deed::Send(Command::Close(document.id)));
        add("Export report…", "", Deed::ExportReport);
        add("Export the recording for other tools…", "", Deed::ExportRecording);
        add("Save a picture of this view…", "Ctrl+E", Deed::ExportView);
    }
    add("Load categories…", "", Deed::LoadCategories);
    add("Use the built-in categories", "", Deed::Send(Command::UseBuiltInCategories));
    add("Reset the layout", "", Deed::ResetLayout);
    add("Forget what is remembered of files", "", Deed::Send(Command::ForgetFiles));
    add("Keys and mouse", "F1", Deed::Help(HelpPage::Keys));
    add("Glossary", "", Deed::Help(HelpPage::Glossary));
    add("Make everything larger", "Ctrl++", Deed::Magnify(Magnify::Larger));
    add("Make everything smaller", "Ctrl+−", Deed::Magnify(Magnify::Smaller));
    add("Back to the normal size", "Ctrl+0", Deed::Magnify(Magnify::Normal));
    add("Light theme", "", Deed::Send(Command::SetTheme(Theme::Light)));
    add("Dark theme", "", Deed::Send(Command::SetTheme(Theme::Dark)));
    for sample in SAMPLES {
        add(&format!("Open sample: {}", sample.title), "", Deed::Send(Command::OpenSample(sample.name)));
    }
    add("Undo", "Ctrl+Z", Deed::Send(Command::Undo));
    add("Redo", "Ctrl+Shift+Z", Deed::Send(Command::Redo));
    deeds
}
