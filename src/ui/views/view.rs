//! The contract of a view.
//!
//! To add one: one file with its [`View`] and its [`ViewClass`], one line in the register. A view reads
//! the session through its [`Cx`], asks anew each frame, and changes things only by sending commands.

use crate::analysis::Query;
use crate::model::{DeviceMemory, Item, Missing, Position};
use crate::replay::MemoryState;
use crate::session::{Answer, Command, JobStatus, Place, Session};
use crate::ui::theme::{Tokens, UNIT};
use std::time::Duration;

/// A tile's content.
pub trait View: Twin {
    /// Shows it. Called once a frame while visible.
    fn ui(&mut self, ui: &mut egui::Ui, cx: &Cx<'_>);
}

/// A view can be doubled with all that was chosen in it, so that it is shown elsewhere: in a saved picture.
/// Every view that is `Clone` can.
pub trait Twin {
    /// The same view once more.
    fn twin(&self) -> Box<dyn View>;
}

impl<V: View + Clone + 'static> Twin for V {
    fn twin(&self) -> Box<dyn View> {
        Box::new(self.clone())
    }
}

/// A kind of view.
#[derive(Clone, Copy)]
pub struct ViewClass {
    /// Stable name, for the saved arrangement.
    pub id: &'static str,
    /// What its tab says.
    pub title: &'static str,
    /// What it is for, in a sentence.
    pub help: &'static str,
    /// Makes one.
    pub open: fn() -> Box<dyn View>,
}

/// All a view gets.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// What is open, asked and chosen; read only.
    pub session: &'a Session,
    /// Colours and spacing.
    pub tokens: &'a Tokens,
}

impl<'a> Cx<'a> {
    /// Asks for a change; it takes effect before the next frame.
    pub fn send(&self, command: Command) {
        self.session.send(command);
    }
    /// Brings a view to the front in the next frame.
    pub fn show_view(&self, context: &egui::Context, id: &'static str) {
        if !self.session.is_aside() {
            context.data_mut(|data| data.insert_temp(egui::Id::unique("wanted view"), id));
            context.request_repaint();
        }
    }
    /// The view that was to be brought to the front.
    pub fn take_wanted_view(&self, context: &egui::Context) -> Option<&'static str> {
        context.data_mut(|data| data.remove_temp(egui::Id::unique("wanted view")))
    }
    /// Asks a question about the device in front; ask anew each frame.
    pub fn ask<Q: Query>(&self, params: Q::Params) -> Answer<Q::Answer> {
        self.session.ask::<Q>(params)
    }
    /// The state at the cursor.
    pub fn state(&self) -> Answer<MemoryState> {
        self.session.state()
    }
    /// Where one is on the device in front.
    pub fn place(&self) -> Option<&'a Place> {
        self.session.workspace().place()
    }
    /// The moment all views show.
    pub fn cursor(&self) -> Position {
        self.place().map(|place| place.cursor).unwrap_or_default()
    }
    /// The leading selected thing.
    pub fn selected(&self) -> Option<Item> {
        self.place()?.selected()
    }
    /// What the pointer is on, in whichever view.
    pub fn hovered(&self) -> Option<Item> {
        self.session.hovered()
    }
    /// A sentence in an empty view.
    pub fn empty(&self, ui: &mut egui::Ui, sentence: &str) {
        let room = ui.available_rect_before_wrap();
        let width = (room.width() - 8.0 * UNIT).clamp(1.0, 120.0 * UNIT);
        let height = (room.height() / 2.0 - 4.0 * UNIT).max(0.0);
        ui.vertical_centered(|ui| {
            ui.add_space(height);
            ui.set_max_width(width);
            ui.add(egui::Label::new(egui::RichText::new(sentence).color(self.tokens.weak)).wrap());
        });
    }
    /// Why there is no picture of places: this file does not tell where blocks lie. None where it does.
    pub fn no_places<'m>(&self, memory: &'m DeviceMemory) -> Option<&'m str> {
        memory.coverage.gaps.iter().find(|gap| gap.missing == Missing::Addresses).map(|gap| gap.sentence.as_str())
    }
    /// What stands in a view while no device is in front.
    pub fn nothing(&self, ui: &mut egui::Ui) {
        self.empty(
            ui,
            if self.session.live_in_front().is_some_and(|live| live.is_growing()) {
                "The job has not allocated anything yet: this fills as soon as it does."
            } else if self.session.active().is_some() {
                "This file names no device: it holds neither segments nor events. Call \
                 torch.cuda.memory._record_memory_history() before the part of interest and save it again."
            } else {
                "No file is open. Open one from the File menu, or drop it onto the window."
            },
        );
    }
    /// What stands where an answer is not there yet: nothing at first, then how far it is.
    pub fn pending(&self, ui: &mut egui::Ui, status: &JobStatus) {
        let waited = status.since.elapsed();
        if waited < PATIENCE {
            ui.ctx().request_repaint_after(PATIENCE - waited);
            return;
        }
        let stage = status.progress.stage_name();
        let stage = if stage.is_empty() { status.title.as_str() } else { stage };
        let share = status.progress.fraction().map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
        self.empty(ui, &format!("{stage}{share} …"));
        ui.ctx().request_repaint_after(Duration::from_millis(100));
    }
    /// Shows an answer's value, or what stands in its place; a stale value is dimmed once it is old.
    pub fn show<T>(&self, ui: &mut egui::Ui, answer: &Answer<T>, show: impl FnOnce(&mut egui::Ui, &T)) {
        match answer {
            Answer::Ready(value) => show(ui, value),
            Answer::Stale(value, status) => {
                let waited = status.since.elapsed();
                if waited < PATIENCE {
                    ui.ctx().request_repaint_after(PATIENCE - waited);
                } else {
                    ui.set_opacity(0.5);
                }
                show(ui, value);
            }
            Answer::Pending(status) => self.pending(ui, status),
            Answer::Failed(error) => self.empty(ui, &error.to_string()),
        }
    }
}

/// How long an older answer stands undimmed, and an empty place stays quiet.
const PATIENCE: Duration = Duration::from_millis(300);
