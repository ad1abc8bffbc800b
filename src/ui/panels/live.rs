//! What is being recorded: a line for the log in front while it grows and until its end was seen, one for each other job.
//!
//! Always: it says how far the window is behind where that is not at once, and how a job ended.

use crate::base::{Bytes, counted, grouped};
use crate::session::capturing::{Capture, CaptureDeed};
use crate::session::live::Live;
use crate::session::{Command, Document};
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, icon, icon_button};
use egui::{Align, Button, Label, Layout, RichText, Ui};
use std::path::PathBuf;
use std::time::Duration;

/// A job that was asked to end can be killed after this.
const BEFORE_KILL: Duration = Duration::from_millis(1500);

/// What a line asks of the window.
pub enum LiveDeed {
    /// Show the page of captures.
    Page,
    /// Ask where to copy a log.
    SaveLog(PathBuf),
}

/// Whether there is anything to show.
pub fn is_needed(cx: &Cx<'_>) -> bool {
    cx.session.live_in_front().is_some() || others(cx).next().is_some()
}

/// Jobs that run and whose log is not in front.
fn others<'a>(cx: &'a Cx<'_>) -> impl Iterator<Item = &'a Capture> {
    let front = cx.session.live_in_front().map(|live| &live.path);
    cx.session
        .captures()
        .iter()
        .filter(move |capture| capture.over.is_none() && !front.is_some_and(|path| capture.logs.contains(path)))
}

/// Shows the lines.
pub fn show(ui: &mut Ui, cx: &Cx<'_>) -> Option<LiveDeed> {
    let mut deed = None;
    if let (Some(live), Some(document)) = (cx.session.live_in_front(), cx.session.active()) {
        ui.horizontal(|ui| line_of_front(ui, cx, live, document, &mut deed));
    }
    for capture in others(cx) {
        ui.horizontal(|ui| line_of_other(ui, cx, capture, &mut deed));
    }
    let moves = cx.session.live_in_front().is_some_and(Live::is_growing) || others(cx).next().is_some();
    if moves {
        // The clock goes on.
        ui.ctx().request_repaint_after(Duration::from_secs(1));
    }
    deed
}

fn line_of_front(ui: &mut Ui, cx: &Cx<'_>, live: &Live, document: &Document, deed: &mut Option<LiveDeed>) {
    let capture = cx.session.captures().iter().find(|capture| capture.logs.contains(&live.path));
    let weak = |text: String| Label::new(RichText::new(text).color(cx.tokens.weak)).selectable(false);
    match &live.ending {
        None => {
            icon(ui, Icon::Record, if live.is_held() { cx.tokens.weak } else { cx.tokens.error });
            ui.strong(if live.is_held() { "Held" } else { "Live" });
        }
        Some(ending) => {
            icon(ui, Icon::Record, if ending.is_bad() { cx.tokens.caution } else { cx.tokens.weak });
        }
    }
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        buttons(ui, cx, live, capture, deed);
        ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
            ui.set_clip_rect(ui.max_rect());
            if let Some(ending) = &live.ending {
                ui.add(Label::new(ending.sentence()).truncate());
                return;
            }
            let shown: u64 = document.snapshot.devices.as_slice().iter().map(|device| device.trace.len() as u64).sum();
            let read = live.events().max(shown);
            ui.label(counted(read, "event"));
            let mut told = match live.rate() {
                0 => "nothing new".to_owned(),
                rate => format!("{} a second", grouped(rate)),
            };
            if live.is_held() && shown < read {
                told += &format!(" · {} not shown", grouped(read - shown));
            }
            told += &format!(" · {}", Bytes(live.bytes()));
            ui.add(weak(told).truncate()).on_hover_text(live.path.display().to_string());
        });
    });
}

fn buttons(ui: &mut Ui, cx: &Cx<'_>, live: &Live, capture: Option<&Capture>, deed: &mut Option<LiveDeed>) {
    if !live.is_growing() {
        if icon_button(ui, Icon::Close, "Dismiss the end of the recording", false).on_hover_text("Dismiss").clicked() {
            cx.send(Command::DismissLive);
        }
        if ui.button("Save log as…").on_hover_text("Copies the log to another place").clicked() {
            *deed = Some(LiveDeed::SaveLog(live.path.clone()));
        }
        return;
    }
    if let Some(capture) = capture.filter(|capture| capture.over.is_none()) {
        stop_button(ui, cx, capture);
    }
    let help = "Asks the job's recorder for PyTorch's own snapshot, which is written beside the log";
    if ui.button("Snapshot now").on_hover_text(help).clicked() {
        cx.send(Command::Capture(CaptureDeed::SnapshotNow(live.path.clone())));
    }
    let (word, help) = if live.is_held() {
        ("Resume", "Goes on showing what is new (H)")
    } else {
        ("Hold", "Shows nothing new until you resume; the job goes on and all of it is logged (H)")
    };
    if ui.button(word).on_hover_text(help).clicked() {
        cx.send(Command::HoldLive(!live.is_held()));
    }
    let following = cx.session.is_following() && !live.is_held();
    let follow = ui.add(Button::selectable(following, "Follow"));
    if follow.on_hover_text("The cursor goes to the end and stays there as the recording grows (L)").clicked() {
        cx.send(Command::FollowEnd);
    }
}

/// The button that ends a job: as Ctrl+C first, at once if that was not enough.
pub fn stop_button(ui: &mut Ui, cx: &Cx<'_>, capture: &Capture) {
    let asked = capture.asked_to_end.map(|when| when.elapsed());
    if let Some(asked) = asked.filter(|asked| *asked < BEFORE_KILL) {
        // Nobody kills a job by a double click.
        ui.add_enabled(false, Button::new("Stopping…"));
        ui.ctx().request_repaint_after(BEFORE_KILL - asked);
        return;
    }
    let deed = if asked.is_some() && capture.can_be_killed() {
        let button = ui.button("Kill now").on_hover_text("Ends the job at once; what it logged stays");
        button.clicked().then_some(CaptureDeed::Kill(capture.id))
    } else {
        let (word, help) = if capture.can_be_killed() {
            ("Stop job", "Asks the job to end, as Ctrl+C does")
        } else {
            ("Stop recording", "Ends the recording; the program goes on")
        };
        let button = ui.add_enabled(asked.is_none() && capture.process.is_some(), Button::new(word)).on_hover_text(help);
        button.clicked().then_some(CaptureDeed::Stop(capture.id))
    };
    if let Some(deed) = deed {
        cx.send(Command::Capture(deed));
    }
}

fn line_of_other(ui: &mut Ui, cx: &Cx<'_>, capture: &Capture, deed: &mut Option<LiveDeed>) {
    icon(ui, Icon::Record, cx.tokens.error);
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        stop_button(ui, cx, capture);
        if ui.button("Show").on_hover_text("The page of captures: what this job says").clicked() {
            *deed = Some(LiveDeed::Page);
        }
        ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
            ui.set_clip_rect(ui.max_rect());
            ui.label("Recording");
            let what = format!("{} · {}", capture.command, state_of(capture));
            ui.add(Label::new(RichText::new(what).color(cx.tokens.weak)).truncate());
        });
    });
}

/// How far a job is, in words.
pub fn state_of(capture: &Capture) -> String {
    let since = elapsed(capture.since.elapsed());
    match (capture.process, capture.logs.len()) {
        (None, _) => "being started".to_owned(),
        (Some(_), 0) => format!("{since}, waits for the job's first use of CUDA"),
        (Some(process), 1) => format!("{since}, process {process}"),
        (Some(process), logs) => format!("{since}, process {process}, {}", counted(logs as u64, "log")),
    }
}

/// A running time: `0:07`, `12:41`, `3:05:09`.
fn elapsed(time: Duration) -> String {
    let s = time.as_secs();
    if s < 3600 { format!("{}:{:02}", s / 60, s % 60) } else { format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_time_reads_like_a_clock() {
        for (seconds, words) in [(0, "0:00"), (7, "0:07"), (761, "12:41"), (11_109, "3:05:09")] {
            assert_eq!(elapsed(Duration::from_secs(seconds)), words);
        }
    }
}
