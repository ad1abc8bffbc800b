//! A job as a child process: started, told what signals say, waited for.
//!
//! Always: what was put down for the job is taken away again when it is over; a signal to this program goes on to the
//! job and does not end this program before it.

use crate::capture::logs;
use crate::capture::sampling::Sampling;
use crate::capture::source::{CaptureError, CaptureSource, Request};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Between two looks at the child.
const LOOK: Duration = Duration::from_millis(20);

/// A job that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: Folder,
    out: PathBuf,
    sampling: Sampling,
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new one that only this user can enter: what lies in it is run by the job.
    pub(super) fn new() -> Result<Folder, CaptureError> {
        let mut last = None;
        for attempt in 0..100 {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
            let path = std::env::temp_dir().join(format!("fragscope-{}-{now:x}-{attempt}", std::process::id()));
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(source) => last = Some(CaptureError::Write { path, source }),
            }
        }
        Err(last.unwrap_or_else(|| CaptureError::Attach("no folder could be made".to_owned())))
    }
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be taken away stays in the folder for temporary files, where it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a job ended, and what it left.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// The logs it wrote, the main one first.
    pub logs: Vec<PathBuf>,
    /// What recorders could not write into a log.
    pub complaints: Vec<String>,
}

impl Running {
    /// Starts a job by a way to capture.
    pub fn start(source: &dyn CaptureSource, request: &Request) -> Result<Running, CaptureError> {
        if let Some(path) = logs::of(&request.out).into_iter().next() {
            return Err(CaptureError::Exists { path });
        }
        let folder = Folder::new()?;
        let prepared = source.prepare(request, folder.path())?;
        let Some((program, arguments)) = request.command.split_first() else {
            return Err(CaptureError::Attach("no command was named".to_owned()));
        };
        let started = Command::new(program).args(arguments).envs(prepared.environment).spawn();
        let child = started.map_err(|source| CaptureError::Start { program: program.to_string_lossy().into_owned(), source })?;
        Ok(Running { child, folder, out: request.out.clone(), sampling: Sampling::new() })
    }
    /// The job's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
    /// Whether the job is over, without waiting. Whoever asks keeps looking at the cards by it.
    pub fn is_over(&mut self) -> bool {
        self.sampling.look(&self.out);
        !matches!(self.child.try_wait(), Ok(None))
    }
    /// Ends the job at once.
    pub fn kill(&mut self) {
        // It may be over already.
        let _ = self.child.kill();
    }
    /// Waits until the job is over, and hands on signals meanwhile.
    pub fn wait(mut self) -> std::io::Result<Ended> {
        let mut signals = Signals::new()?;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            signals.pass_on(self.child.id());
            self.sampling.look(&self.out);
            std::thread::sleep(LOOK);
        };
        let Running { child, folder, out, .. } = self;
        drop(folder);
        let found = logs::of(&out);
        for log in &found {
            logs::end(log, Some((child.id(), status)));
        }
        Ok(Ended { status, logs: found, complaints: logs::complaints(&out) })
    }
}

/// Signals that go on to the job.
#[cfg(unix)]
struct Signals {
    waiting: signal_hook::iterator::Signals,
    terminal: bool,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        let waiting = signal_hook::iterator::Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])?;
        Ok(Signals { waiting, terminal: std::io::IsTerminal::is_terminal(&std::io::stdin()) })
    }
    fn pass_on(&mut self, process: u32) {
        use signal_hook::consts::{SIGINT, SIGQUIT};
        for number in self.waiting.pending() {
            // A terminal tells the whole group: the job has heard of its keys already.
            if self.terminal && matches!(number, SIGINT | SIGQUIT) {
                continue;
            }
            let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
            if let (Some(process), Some(signal)) = (process, rustix::process::Signal::from_named_raw(number)) {
                // It may be over already.
                let _ = rustix::process::kill_process(process, signal);
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals)
    }
    fn pass_on(&mut self, _: u32) {}
}
