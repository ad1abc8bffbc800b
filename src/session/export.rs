//! What is written to disk at the user's wish, in jobs.
//!
//! Always: a file is written beside its name first and then put in place, so a failure leaves no half file.

use crate::analysis::{Asked, BlockTable, BlockTableParams, Moment, Query as _, Subject, UsageTimeline};
use crate::base::grouped;
use crate::format::export::place::{self, is_same};
use crate::format::export::{EXPORTERS, ExportError, ExportSubject, export, exporter_of_file, redacted, title_of};
use crate::model::Position;
use crate::paint::Canvas;
use crate::replay::{Cut, recorded};
use crate::report::block_csv::{self, CsvError, TextForm};
use crate::report::{self, Pages, ReportError, ReportOptions, ReportSubject};
use crate::session::apply::NO_DIALOG;
use crate::session::jobs::{JobError, JobSpec, Lane};
use crate::session::{Message, Session};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
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

    pub(super) fn export_report(&mut self, path: PathBuf, moment: Option<Moment>, options: ReportOptions) {
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

    pub(super) fn export_recording(&mut self, path: PathBuf, window: Option<Range<Position>>, redact: bool) {
        let Some((document, device, _)) = self.front() else { return };
        let (snapshot, source) = (Arc::clone(&document.snapshot), document.path.clone());
        if document.replays.is_none() {
            self.note("The file is still being read: export it when it is done.", true);
            return;
        }
        let spec = JobSpec { title: "writing the recording".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let Some((exporter, packing)) = exporter_of_file(&name) else {
                return Err(failed(&path, &format!("its name must end in one of {}", recording_endings())));
            };
            if source.is_some_and(|source| is_same(&source, &path)) {
                return Err(failed(&path, &"it is the file that is open"));
            }
            let mut part = None;
            if let Some(window) = window {
                let cuts = Cut::on_all_devices(&snapshot, Cut { device, from: window.start, to: window.end });
                part = Some(recorded::window(&snapshot, &cuts, &cx.progress)?.finish(snapshot.origin.clone(), &cx.progress)?);
            }
            if redact {
                part = Some(redacted(part.unwrap_or_else(|| (*snapshot).clone())));
            }
            let title = title_of(&path);
            let subject = ExportSubject { snapshot: part.as_ref().unwrap_or(&snapshot), title: &title, table: None };
            export(exporter, packing, &subject, &path, false, &cx.progress).map_err(|error| match error {
                ExportError::Cancelled => JobError::Cancelled,
                error => failed(&path, &error),
            })?;
            let lost = exporter.leaves_out(subject.snapshot).map_or(String::new(), |lost| format!(" Not in it: {lost}."));
            cx.send(Message::Note { text: format!("Recording written to {}.{lost}", path.display()), is_error: false });
            Ok(())
        });
    }

    pub(super) fn ask_source(&mut self) {
        let Some(dialogs) = self.dialogs.clone() else {
            self.note("There is no file dialog on this system: type the path.", true);
            return;
        };
        let spec = JobSpec { title: "choosing a file".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let asked = Instant::now();
            match dialogs.pick_files().into_iter().next() {
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

    /// Row by row: a table of millions of rows with their stacks is larger than memory.
    pub(super) fn save_table(&mut self, path: PathBuf, params: BlockTableParams) {
        let Some((document, device, _)) = self.front() else { return };
        let (snapshot, replays) = (Arc::clone(&document.snapshot), document.replays.clone());
        let Some(replays) = replays else {
            self.note("The file is still being read: save the table when it is done.", true);
            return;
        };
        let spec = JobSpec { title: "writing the table".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device };
            let table = BlockTable::answer(&asked, &params, &cx.progress)?;
            write_beside(&path, |file| {
                let mut out = BufWriter::new(file);
                let written = block_csv::write(&table, &snapshot, asked.memory(), TextForm::Csv, &mut out, &cx.progress);
                written.and_then(|()| Ok(out.flush()?)).map_err(|error| match error {
                    CsvError::Cancelled => JobError::Cancelled,
                    CsvError::Io(error) => failed(&path, &error),
                })
            })?;
            let rows = grouped(table.len() as u64);
            cx.send(Message::Note { text: format!("Table of {rows} rows written to {}.", path.display()), is_error: false });
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

/// Now, in Unix µs.
fn now_us() -> Option<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    write_beside(path, |file| file.write_all(bytes).map_err(|error| failed(path, &error)))
}

fn write_beside(path: &Path, write: impl FnOnce(&mut File) -> Result<(), JobError>) -> Result<(), JobError> {
    place::write_beside(path, |error| failed(path, &error), write)
}

/// How the files end that a recording can be written to.
pub fn recording_endings() -> String {
    let endings: Vec<String> = EXPORTERS.iter().map(|exporter| format!(".{}", exporter.name())).collect();
    endings.join(", ")
}

fn failed(path: &Path, why: &dyn std::fmt::Display) -> JobError {
    JobError::Failed(format!("Could not write {}: {why}.", path.display()))
}
