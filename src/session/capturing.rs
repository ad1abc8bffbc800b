//! Jobs that are recorded from the window: started, attached to, watched, stopped.
//!
//! Always: a job belongs to itself. It writes its log and its output into files, so that closing the window, or whatever
//! else ends this program, leaves it running and loses nothing.

use crate::capture::attach::{self, Attached};
use crate::capture::processes::{CudaProcess, cuda_processes};
use crate::capture::{Running, SOURCES, Watch, logs};
use crate::session::capture_form::CaptureForm;
use crate::session::jobs::{JobContext, JobError, JobSpec, Lane, Slot};
use crate::session::opening::Source;
use crate::session::{Message, Session};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at what a job wrote.
const LOOK: Duration = Duration::from_millis(100);
/// Of a job's output this much is shown, in bytes.
const SHOWN: u64 = 16 << 10;
/// Commands that are remembered.
const REMEMBERED: usize = 12;

/// A job that was recorded from this window; numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureId(pub u64);

/// A job that was started with the window.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// The job.
    pub watch: Watch,
    /// Its command line.
    pub command: String,
}

/// A job that is recorded, or was.
#[derive(Debug)]
pub struct Capture {
    /// Which.
    pub id: CaptureId,
    /// Its command line, or what it is.
    pub command: String,
    /// The log that was asked for; ranks write theirs beside it.
    pub out: PathBuf,
    /// Where its output goes; none: to the terminal it was started from.
    pub output: Option<PathBuf>,
    /// When it was started.
    pub since: Instant,
    /// The logs there are.
    pub logs: Vec<PathBuf>,
    /// The end of its output.
    pub said: String,
    /// When it was asked to end, if it was.
    pub asked_to_end: Option<Instant>,
    /// How it ended; none while it runs.
    pub over: Option<CaptureEnd>,
    /// Its process; none while it is being started.
    pub process: Option<u32>,
    watch: Option<Watch>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureEnd {
    /// A sentence.
    pub sentence: String,
    /// Whether something went wrong.
    pub is_bad: bool,
}

/// What this machine can record, and what runs on it.
#[derive(Clone, Debug)]
pub struct Around {
    /// The ways to capture.
    pub ways: Vec<Way>,
    /// Programs that have loaded the CUDA driver, or why nobody can tell.
    pub processes: Result<Vec<CudaProcess>, String>,
}

/// A way to capture, as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// What it records.
    pub about: &'static str,
    /// Why it is not possible here and what to do; none where it is.
    pub unavailable: Option<String>,
}

impl Way {
    /// Whether a job is started by it; else it is for programs that run already.
    pub fn starts_jobs(&self) -> bool {
        self.name != ATTACH
    }
}

/// The way that starts nothing.
const ATTACH: &str = "attach";

impl Capture {
    /// Whether the job is this program's own, so that it can be ended.
    pub fn can_be_killed(&self) -> bool {
        self.watch.is_some()
    }
}

/// What a capture can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum CaptureDeed {
    /// Start a job.
    Start(Box<CaptureForm>),
    /// Record a process that runs already.
    Attach(u32, Box<CaptureForm>),
    /// Ask a job to end, as Ctrl+C does.
    Stop(CaptureId),
    /// End a job at once.
    Kill(CaptureId),
    /// Take a job that is over off the list.
    Forget(CaptureId),
    /// Look what this machine can record, and what runs on it.
    LookAround,
    /// Have the recorder of a log write PyTorch's own snapshot beside it.
    SnapshotNow(PathBuf),
    /// Copy a log.
    SaveLog(PathBuf, PathBuf),
}

/// What the jobs of this program deliver of a capture.
pub(crate) enum Report {
    Started(CaptureId, Watch, Option<PathBuf>, Box<CaptureForm>),
    Attached(CaptureId, u32, PathBuf),
    Refused(CaptureId, String),
    Logs(CaptureId, Vec<PathBuf>),
    Said(CaptureId, String),
    Over(CaptureId, CaptureEnd),
    Around(Box<Around>),
}

impl Session {
    /// The jobs that are recorded from this window, and those that were, oldest first.
    pub fn captures(&self) -> &[Capture] {
        &self.captures
    }
    /// What this machine can record; none before somebody asked.
    pub fn around(&self) -> Option<&Around> {
        self.around.as_ref()
    }
    /// Why the last job could not be started.
    pub fn capture_refused(&self) -> Option<&str> {
        self.capture_refused.as_deref()
    }
    /// Takes care of a job that was started with the window.
    pub fn adopt(&mut self, adopted: Adopted) {
        let Adopted { watch, command } = adopted;
        let id = self.new_capture(command, watch.out().to_owned(), None);
        self.look_after(id, watch);
    }

    pub(super) fn capture(&mut self, deed: CaptureDeed) {
        match deed {
            CaptureDeed::Start(form) => self.start_capture(*form),
            CaptureDeed::Attach(process, form) => self.attach(process, *form),
            CaptureDeed::Stop(id) => {
                let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) else { return };
                capture.asked_to_end = Some(Instant::now());
                match (&capture.watch, capture.logs.clone()) {
                    (Some(watch), _) => watch.interrupt(),
                    // A program that was only attached to goes on; its recording ends.
                    (None, logs) => logs.iter().for_each(|log| self.ask_recorder(log, "stop")),
                }
            }
            CaptureDeed::Kill(id) => {
                if let Some(watch) = self.captures.iter().find(|capture| capture.id == id).and_then(|c| c.watch.as_ref()) {
                    watch.kill();
                }
            }
            CaptureDeed::Forget(id) => self.captures.retain(|capture| capture.id != id || capture.over.is_none()),
            CaptureDeed::LookAround => {
                let slot = Some(Slot::of(&"looking around"));
                let spec = JobSpec { title: "looking around".into(), slot, lane: Lane::Shared, listed: false };
                self.jobs.start(spec, |cx| {
                    cx.send(Message::Capturing(Report::Around(Box::new(look_around()))));
                    Ok(())
                });
            }
            CaptureDeed::SnapshotNow(log) => self.ask_recorder(&log, "snapshot"),
            CaptureDeed::SaveLog(from, to) => self.save_log(from, to),
        }
    }

    pub(super) fn arrive_report(&mut self, report: Report) {
        match report {
            Report::Started(id, watch, output, form) => {
                if let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) {
                    capture.out = watch.out().to_owned();
                    capture.output = output;
                }
                self.saved.captures.retain(|other| (&other.command, &other.folder) != (&form.command, &form.folder));
                self.saved.captures.insert(0, *form);
                self.saved.captures.truncate(REMEMBERED);
                self.save();
                self.look_after(id, watch);
            }
            Report::Attached(id, process, out) => {
                if let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) {
                    (capture.process, capture.out) = (Some(process), out);
                }
            }
            Report::Refused(id, why) => {
                self.captures.retain(|capture| capture.id != id);
                self.capture_refused = Some(as_sentence(&why));
            }
            Report::Logs(id, logs) => {
                let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) else { return };
                let first = capture.logs.is_empty();
                capture.logs = logs;
                // Of several ranks the first comes up by itself; the others wait on the list.
                if let Some(log) = capture.logs.first().filter(|_| first).cloned() {
                    self.open(Source::Path(log));
                }
            }
            Report::Around(around) => self.around = Some(*around),
            Report::Said(id, said) => {
                if let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) {
                    capture.said = said;
                }
            }
            Report::Over(id, end) => {
                if let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) {
                    capture.over = Some(end);
                }
            }
        }
    }

    fn new_capture(&mut self, command: String, out: PathBuf, output: Option<PathBuf>) -> CaptureId {
        self.next_capture += 1;
        let id = CaptureId(self.next_capture);
        self.captures.push(Capture {
            id,
            command,
            out,
            output,
            since: Instant::now(),
            logs: Vec::new(),
            said: String::new(),
            asked_to_end: None,
            over: None,
            process: None,
            watch: None,
        });
        id
    }

    fn start_capture(&mut self, form: CaptureForm) {
        self.capture_refused = None;
        let id = self.new_capture(form.command.trim().to_owned(), PathBuf::new(), None);
        let spec = JobSpec { title: "starting a job".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let started = form.wanted().and_then(|wanted| {
                let job = Running::start_in(wanted.source, &wanted.request, &wanted.around).map_err(|error| error.to_string())?;
                let watch = job.watched(false).map_err(|error| error.to_string())?;
                Ok((watch, wanted.around.output))
            });
            cx.send(Message::Capturing(match started {
                Ok((watch, output)) => Report::Started(id, watch, output, Box::new(form)),
                Err(why) => Report::Refused(id, why),
            }));
            Ok(())
        });
    }

    /// Follows what a job of ours writes until it is over.
    fn look_after(&mut self, id: CaptureId, watch: Watch) {
        let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) else { return };
        capture.process = Some(watch.process());
        capture.watch = Some(watch.clone());
        let (out, output) = (capture.out.clone(), capture.output.clone());
        let spec = JobSpec { title: "looking after a job".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let mut seen = Seen::default();
            loop {
                let over = watch.over();
                seen.look(id, &out, output.as_deref(), cx);
                if let Some(over) = over {
                    cx.send(Message::Capturing(Report::Over(id, end_of(&over))));
                    return Ok(());
                }
                cx.progress.check()?;
                std::thread::sleep(LOOK);
            }
        });
    }

    fn attach(&mut self, process: u32, form: CaptureForm) {
        self.capture_refused = None;
        let id = self.new_capture(format!("process {process}"), PathBuf::new(), None);
        let spec = JobSpec { title: format!("attaching to process {process}"), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let begun = form.wanted_of_running().and_then(|request| {
                let attached = Attached::to(process, None, &request).map_err(|error| error.to_string())?;
                attached.wait_for_begin().map_err(|error| error.to_string())?;
                Ok((attached, request.out))
            });
            match begun {
                Ok((attached, out)) => {
                    cx.send(Message::Capturing(Report::Attached(id, process, out.clone())));
                    watch_attached(id, attached, &out, cx)
                }
                Err(why) => {
                    cx.send(Message::Capturing(Report::Refused(id, why)));
                    Ok(())
                }
            }
        });
    }

    fn ask_recorder(&mut self, log: &Path, what: &'static str) {
        let log = log.to_owned();
        let spec = JobSpec { title: "asking the recorder".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |_| {
            let failed = |error| JobError::Failed(format!("The recorder of {} cannot be asked: {error}.", log.display()));
            logs::ask(&log, what).map_err(failed)
        });
    }

    fn save_log(&mut self, from: PathBuf, to: PathBuf) {
        let spec = JobSpec { title: format!("copying {}", from.display()), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            let failed = |error| JobError::Failed(format!("Could not copy {} to {}: {error}.", from.display(), to.display()));
            if crate::format::export::place::is_same(&from, &to) {
                return Err(JobError::Failed(format!("{} is that log itself: choose another name.", to.display())));
            }
            let mut part = to.clone().into_os_string();
            part.push(".part");
            std::fs::copy(&from, &part).and_then(|_| std::fs::rename(&part, &to)).map_err(failed)?;
            cx.send(Message::Note { text: format!("The log as it is now was copied to {}.", to.display()), is_error: false });
            Ok(())
        });
    }
}

/// With a large letter in front and a stop behind.
fn as_sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

fn look_around() -> Around {
    let mut ways: Vec<Way> = SOURCES
        .iter()
        .map(|source| Way { name: source.name(), about: source.about(), unavailable: source.unavailable() })
        .collect();
    ways.push(Way { name: ATTACH, about: attach::ABOUT, unavailable: attach::unavailable() });
    Around { ways, processes: cuda_processes() }
}

/// Waits for a recording of a program that was attached to.
fn watch_attached(id: CaptureId, attached: Attached, out: &Path, cx: &JobContext<Message>) -> Result<(), JobError> {
    let mut seen = Seen::default();
    while attached.goes_on() {
        seen.look(id, out, None, cx);
        cx.progress.check()?;
        std::thread::sleep(LOOK);
    }
    let found = attached.wait();
    seen.look(id, out, None, cx);
    let sentence = format!("The recording is over; {}.", crate::base::counted(found.len() as u64, "log"));
    cx.send(Message::Capturing(Report::Over(id, CaptureEnd { sentence, is_bad: false })));
    Ok(())
}

/// What was seen of a job's files.
#[derive(Default)]
struct Seen {
    logs: Vec<PathBuf>,
    output_bytes: u64,
}

impl Seen {
    fn look(&mut self, id: CaptureId, out: &Path, output: Option<&Path>, cx: &JobContext<Message>) {
        let found = logs::of(out);
        if found != self.logs {
            self.logs.clone_from(&found);
            cx.send(Message::Capturing(Report::Logs(id, found)));
        }
        if let Some((bytes, said)) = output.and_then(|path| tail_of(path, self.output_bytes)) {
            self.output_bytes = bytes;
            cx.send(Message::Capturing(Report::Said(id, said)));
        }
    }
}

/// The size and the end of a text file, where it has another size than before.
fn tail_of(path: &Path, before: u64) -> Option<(u64, String)> {
    let mut file = std::fs::File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    if bytes == before {
        return None;
    }
    file.seek(SeekFrom::Start(bytes.saturating_sub(SHOWN))).ok()?;
    let mut end = Vec::new();
    file.take(SHOWN).read_to_end(&mut end).ok()?;
    let text = String::from_utf8_lossy(&end);
    // Progress bars go back to the start of their line again and again.
    let lines = text.lines().map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default());
    Some((bytes, lines.collect::<Vec<_>>().join("\n")))
}

fn end_of(over: &std::io::Result<crate::capture::child::Ended>) -> CaptureEnd {
    let ended = match over {
        Ok(ended) => ended,
        Err(error) => return CaptureEnd { sentence: format!("The job cannot be waited for: {error}."), is_bad: true },
    };
    let mut sentence = match ended.status.code() {
        Some(0) => "The job ended well.".to_owned(),
        Some(code) => format!("The job ended with exit code {code}."),
        None => format!("The job was ended by {}.", ended.status.to_string().replacen("signal: ", "signal ", 1)),
    };
    let is_bad = !ended.status.success() || !ended.complaints.is_empty() || ended.logs.is_empty();
    for complaint in &ended.complaints {
        sentence += &format!(" The recorder: {complaint}.");
    }
    if ended.logs.is_empty() && ended.complaints.is_empty() {
        sentence += " Nothing was recorded: no process of it used CUDA through PyTorch, or its Python ran with -S, -I or -E, \
                     which leave out what is put on its path.";
    }
    CaptureEnd { sentence, is_bad }
}
