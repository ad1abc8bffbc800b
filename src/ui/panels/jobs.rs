//! What is under way, with a cancel, and what went wrong.

use crate::session::{Command, JobStatus};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, icon_button};
use egui::{Label, ProgressBar, RichText, Ui};
use std::time::Duration;

/// Jobs shorter than this are never shown.
const PATIENCE: Duration = Duration::from_millis(300);

/// The jobs worth showing now; asks for a repaint when another one becomes so.
pub fn visible(ui: &Ui, cx: &Cx<'_>) -> Vec<JobStatus> {
    let listed: Vec<_> = cx.session.running().into_iter().filter(|job| job.listed).collect();
    if !listed.is_empty() {
        ui.ctx().request_repaint_after(Duration::from_millis(100));
    }
    listed.into_iter().filter(|job| PATIENCE <= job.since.elapsed()).collect()
}

/// Shows jobs and messages, one line each.
pub fn show(ui: &mut Ui, cx: &Cx<'_>, jobs: &[JobStatus]) {
    for job in jobs {
        ui.horizontal(|ui| {
            let cancel = icon_button(ui, Icon::Close, &format!("Cancel {}", job.title), false).on_hover_text("Cancel");
            if cancel.clicked() {
                cx.send(Command::Cancel(job.id));
            }
            let stage = job.progress.stage_name();
            let text = if stage.is_empty() { job.title.clone() } else { format!("{}: {stage}", job.title) };
            ui.label(text);
            match job.progress.fraction() {
                Some(share) => {
                    drop(ui.add(ProgressBar::new(share).desired_width(50.0 * UNIT).text(format!("{:.0} %", share * 100.0))))
                }
                None => drop(ui.label(RichText::new("…").color(cx.tokens.weak))),
            }
        });
    }
    for note in cx.session.notes() {
        ui.horizontal_top(|ui| {
            let dismiss = icon_button(ui, Icon::Close, "Dismiss message", false).on_hover_text("Dismiss");
            if dismiss.clicked() {
                cx.send(Command::Dismiss(note.id));
            }
            let colour = if note.is_error { cx.tokens.error } else { cx.tokens.text };
            ui.add(Label::new(RichText::new(&note.text).color(colour)).wrap());
        });
    }
}
