//! What is written to disk at the user's wish, in jobs.
//!
//! Always: a file is written beside its name first and then put in place, so a failure leaves no half file.

use crate::analysis::{Moment, UsageTimeline};
use crate::report::{self, Pages, ReportError, ReportOptions, ReportSubject};
use crate::session::apply::NO_DIALOG;
use crate::session::jobs::{JobError, JobSpec, Lane};
use crate::session::{Message, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) fn ask_target(&mut self, name: String) {
        let Some(dialogs) = self.dialogs.clone() else {
            self.note("There is no file dialog on this system: type the path.", true);
            return;
        };
        let spec = JobSpec { title: "choosing where to save".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let asked = Instant::now();
            match dialogs.pick_target(&name) {
                Some(path) => cx.send(Message::Target(path)),
                None if asked.elapsed() < NO_DIALOG => {
                    let text = "There is no file dialog on this system: type the path.".to_owned();
                    cx.send(Message::Note { text, is_error: true });
                }
                None => {}
            }
            Ok(())
        });
    }

    pub(super) fn export_report(&mut self, path: PathBuf) {
        let options = ReportOptions { theme: self.theme(), colour_by: self.workspace.colour_by, ..ReportOptions::paper() };
        self.export_report_with(path, None, options);
    }

    pub(super) fn export_report_with(&mut self, path: PathBuf, moment: Option<Moment>, options: ReportOptions) {
        let Some((document, device, _)) = self.front() else { return };
        let (snapshot, replays) = (Arc::clone(&document.snapshot), document.replays.clone());
        let Some(replays) = replays else {
            self.note("The file is still being read: export the report when it is done.", true);
            return;
        };
        let cursor = self.workspace.place().map(|place| place.cursor).unwrap_or_default();
        let spec = JobSpec { title: "writing the report".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
            let Some(report) = report::report_of_extension(ending) else {
                let known: Vec<_> = report::REPORTS.iter().map(|report| format!(".{}", report.extension())).collect();
                return Err(failed(&path, &format!("its name must end in one of {}", known.join(", "))));
            };
            let memory = &snapshot.devices[device];
            let position = match moment {
                None => cursor,
                Some(moment) => {
                    let timeline = UsageTimeline::of(memory, &cx.progress)?;
                    moment.position(memory, &timeline).map_err(|error| failed(&path, &error))?
                }
            };
            let pages = if report.has_pages() { options.pages } else { Pages::Tall };
            let options = ReportOptions { written_us: now_us(), pages, ..options };
            let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device, position };
            let printed = report.files(&subject, &options, &cx.progress).map_err(|error| match error {
                ReportError::Cancelled(cancelled) => JobError::from(cancelled),
                error => failed(&path, &error),
            })?;
            for (number, bytes) in printed.files.iter().enumerate() {
                let path = if pages == Pages::Tall { path.clone() } else { report::page_path(&path, number + 1) };
                write_whole(&path, bytes)?;
            }
            let text = match printed.files.len() {
                1 => format!("Report written to {}.", path.display()),
                n => format!("Report written to {n} files beside {}.", report::page_path(&path, 1).display()),
            };
            cx.send(Message::Note { text, is_error: false });
            Ok(())
        });
    }

    pub(super) fn save_picture(&mut self, path: PathBuf, width: u32, rgb: Arc<[u8]>) {
        let spec = JobSpec { title: "writing the picture".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let mut bytes = Vec::new();
            report::png::encode_rgb(width, &rgb, &mut bytes).map_err(|error| failed(&path, &error))?;
            write_whole(&path, &bytes)?;
            cx.send(Message::Note { text: format!("Picture written to {}.", path.display()), is_error: false });
            Ok(())
        });
    }
}

/// Now, in Unix µs.
fn now_us() -> Option<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    let name = path.file_name().ok_or_else(|| failed(path, &"it names no file"))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        // What was written of it, if anything, is of no use.
        let _ = std::fs::remove_file(&beside);
        failed(path, &error)
    })
}

fn failed(path: &Path, why: &dyn std::fmt::Display) -> JobError {
    JobError::Failed(format!("Could not write {}: {why}.", path.display()))
}
