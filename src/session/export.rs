//! What is written to disk at the user's wish, in jobs.
//!
//! Always: a file is written beside its name first and then put in place, so a failure leaves no half file.

use crate::paint::Canvas;
use crate::report::{self, ReportOptions, ReportSubject};
use crate::session::apply::NO_DIALOG;
use crate::session::jobs::{JobError, JobSpec, Lane};
use crate::session::{Message, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What paints a picture once a job asks for it.
#[derive(Clone)]
pub struct PictureWork(Arc<dyn Fn() -> Canvas + Send + Sync>);

impl PictureWork {
    /// Work that gives these pixels, all opaque.
    pub fn new(paint: impl Fn() -> Canvas + Send + Sync + 'static) -> PictureWork {
        PictureWork(Arc::new(paint))
    }
}

impl std::fmt::Debug for PictureWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PictureWork")
    }
}

impl PartialEq for PictureWork {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

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
        let Some((document, device, _)) = self.front() else { return };
        let (snapshot, replays) = (Arc::clone(&document.snapshot), document.replays.clone());
        let Some(replays) = replays else {
            self.note("The file is still being read: export the report when it is done.", true);
            return;
        };
        let position = self.workspace.place().map(|place| place.cursor).unwrap_or_default();
        let options = ReportOptions { theme: self.theme(), colour_by: self.workspace.colour_by, ..ReportOptions::default() };
        let spec = JobSpec { title: "writing the report".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
            let Some(report) = report::report_of_extension(ending) else {
                let known: Vec<_> = report::REPORTS.iter().map(|report| format!(".{}", report.extension())).collect();
                return Err(failed(&path, &format!("its name must end in one of {}", known.join(", "))));
            };
            let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device, position };
            let mut bytes = Vec::new();
            report.write(&subject, &options, &mut bytes).map_err(|error| failed(&path, &error))?;
            write_whole(&path, &bytes)?;
            cx.send(Message::Note { text: format!("Report written to {}.", path.display()), is_error: false });
            Ok(())
        });
    }

    pub(super) fn save_picture(&mut self, path: PathBuf, picture: PictureWork) {
        let spec = JobSpec { title: "writing the picture".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            cx.progress.stage("painting", 0)?;
            let canvas = (picture.0)();
            cx.progress.stage("packing", 0)?;
            let rgb: Vec<u8> = canvas.pixels.iter().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
            let mut bytes = Vec::new();
            report::png::encode_rgb(canvas.width as u32, &rgb, &mut bytes).map_err(|error| failed(&path, &error))?;
            cx.progress.check()?;
            write_whole(&path, &bytes)?;
            cx.send(Message::Note { text: format!("Picture written to {}.", path.display()), is_error: false });
            Ok(())
        });
    }
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
