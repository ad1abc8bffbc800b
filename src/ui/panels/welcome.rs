//! The start page: samples, recent files, a path to type.

use crate::chart::text::short_path;
use crate::session::{Command, samples::SAMPLES};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{Align, Key, Layout, RichText, ScrollArea, TextEdit, Ui};
use std::path::PathBuf;

/// What the page remembers while it is shown.
#[derive(Default)]
pub struct Welcome {
    path: String,
}

impl Welcome {
    /// Shows the page; whether a job is to be recorded.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        let mut record = false;
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            let width = (160.0 * UNIT).min(ui.available_width() - 8.0 * UNIT);
            let margin = ((ui.available_width() - width) / 2.0).max(0.0);
            ui.add_space(10.0 * UNIT);
            ui.horizontal_top(|ui| {
                ui.add_space(margin);
                ui.vertical(|ui| {
                    ui.set_width(width);
                    record = self.page(ui, cx);
                });
            });
        });
        record
    }

    fn page(&mut self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
        ui.heading("Where does the GPU's memory go?");
        ui.label(weak("Open a snapshot that PyTorch wrote with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")."));
        ui.add_space(3.0 * UNIT);
        ui.horizontal(|ui| {
            if ui.button("Open…").clicked() {
                cx.send(Command::OpenDialog);
            }
            if ui.button("Open folder…").on_hover_text("All ranks of a job, side by side").clicked() {
                cx.send(Command::OpenFolderDialog);
            }
            let label = ui.label("or type a path");
            let room = (ui.available_width() - 16.0 * UNIT).max(40.0 * UNIT);
            let field = ui.add(
                TextEdit::singleline(&mut self.path)
                    .hint_text("/path/to/snapshot.pickle")
                    .align(egui::Align2::LEFT_CENTER)
                    .desired_width(room),
            );
            let field = field.labelled_by(label.id);
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if (ui.button("Open").clicked() || entered) && !self.path.trim().is_empty() {
                cx.send(Command::Open(expand_home(self.path.trim())));
            }
        });
        ui.add_space(UNIT);
        ui.label(weak("Files can also be dropped onto this window. Pickle, JSON and HTML are read, also inside gzip, zstd, xz, bzip2 or zip."));
        ui.add_space(3.0 * UNIT);
        let record = ui
            .horizontal(|ui| {
                let clicked = ui.button("Record a job…").on_hover_text("Ctrl+R").clicked();
                ui.label(weak("Runs a PyTorch job unchanged and shows its memory while it runs."));
                clicked
            })
            .inner;
        if !cx.session.saved().recent.is_empty() {
            ui.add_space(6.0 * UNIT);
            ui.horizontal(|ui| {
                ui.strong("Recent files");
                if ui.small_button("Forget").on_hover_text("Empties this list").clicked() {
                    cx.send(Command::ForgetRecent);
                }
            });
            for path in &cx.session.saved().recent {
                let text = path.display().to_string();
                if ui.link(short_path(&text, 90)).on_hover_text(&text).clicked() {
                    cx.send(Command::Open(path.clone()));
                }
            }
        }
        ui.add_space(6.0 * UNIT);
        ui.strong("Samples");
        ui.label(weak("Real recordings, compiled into this program."));
        ui.add_space(UNIT);
        for sample in SAMPLES {
            ui.with_layout(Layout::top_down(Align::LEFT), |ui| {
                if ui.link(sample.title).clicked() {
                    cx.send(Command::OpenSample(sample.name));
                }
                ui.add(egui::Label::new(weak(sample.what)).wrap());
            });
            ui.add_space(UNIT);
        }
        record
    }
}

/// `~/x` as the shell would have it.
pub fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
