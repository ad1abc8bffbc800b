//! A job as a child process: started, told what signals say, waited for.
//!
//! Always: what was put down for the job is taken away again when it is over; a signal to this program goes on to the
//! job and does not end this program before it. If this program ends first, whatever ends it, the job goes on.

use crate::capture::logs;
use crate::capture::sampling::Sampling;
use crate::capture::source::{CaptureError, CaptureSource, Request};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at the child.
const LOOK: Duration = Duration::from_millis(20);

/// What surrounds a job; what is left out is as it is around this program.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Its working directory.
    pub folder: Option<PathBuf>,
    /// Variables of its environment besides those there are.
    pub environment: Vec<(OsString, OsString)>,
    /// The file that takes its output and its errors, so that both outlive this program; it reads nothing then, and the
    /// terminal's keys do not reach it.
    pub output: Option<PathBuf>,
}

/// A job that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: Folder,
    out: PathBuf,
    sampling: Sampling,
    /// It leads a group of processes of its own.
    apart: bool,
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
        Running::start_in(source, request, &Surroundings::default())
    }
    /// Starts a job by a way to capture, in surroundings of its own.
    pub fn start_in(source: &dyn CaptureSource, request: &Request, around: &Surroundings) -> Result<Running, CaptureError> {
        if let Some(path) = logs::of(&request.out).into_iter().next() {
            return Err(CaptureError::Exists { path });
        }
        let folder = Folder::new()?;
        let prepared = source.prepare(request, folder.path())?;
        let Some((program, arguments)) = request.command.split_first() else {
            return Err(CaptureError::Attach("no command was named".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(around.environment.iter().map(|(name, value)| (name, value)));
        command.envs(prepared.environment.into_iter().map(|(name, value)| {
            let value = joined(&name, value, &around.environment);
            (name, value)
        }));
        if let Some(at) = &around.folder {
            command.current_dir(at);
        }
        if let Some(path) = &around.output {
            let failed = |source| CaptureError::Write { path: path.clone(), source };
            let file = std::fs::File::create(path).map_err(failed)?;
            command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let child = command.spawn().map_err(|source| {
            // What it would have said has no reader.
            around.output.as_ref().map(std::fs::remove_file);
            CaptureError::Start { program: program.to_string_lossy().into_owned(), source }
        })?;
        Ok(Running { child, folder, out: request.out.clone(), sampling: Sampling::new(), apart: around.output.is_some() })
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
    pub fn wait(self) -> std::io::Result<Ended> {
        let signals = Signals::new()?;
        self.wait_with(Some(signals))
    }
    /// Has a thread wait for the job. Whether signals to this program go on to the job is for whoever started it to say.
    pub fn watched(self, hand_on_signals: bool) -> std::io::Result<Watch> {
        let signals = if hand_on_signals { Some(Signals::new()?) } else { None };
        let Running { child, out, apart, .. } = &self;
        let watched = Watched {
            process: child.id(),
            out: out.clone(),
            apart: *apart,
            over: Mutex::default(),
            ended: Condvar::new(),
            told: Mutex::default(),
        };
        let watch = Watch(Arc::new(watched));
        let own = watch.clone();
        let waiting = std::thread::Builder::new().name("waiting for a job".into());
        waiting.spawn(move || own.finish(self.wait_with(signals)))?;
        Ok(watch)
    }
    fn wait_with(mut self, mut signals: Option<Signals>) -> std::io::Result<Ended> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if let Some(signals) = &mut signals {
                signals.pass_on(self.child.id());
            }
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

/// What a job needs beside what the user set of the same name: ours first on paths, ours last of settings.
fn joined(name: &OsStr, ours: OsString, theirs: &[(OsString, OsString)]) -> OsString {
    let Some((_, set)) = theirs.iter().find(|(other, value)| other == name && !value.is_empty()) else { return ours };
    let (first, mark, last) = match name.to_str() {
        Some("PYTHONPATH" | "LD_PRELOAD") => (ours, if cfg!(windows) { ";" } else { ":" }, set.clone()),
        Some("PYTORCH_CUDA_ALLOC_CONF") => (set.clone(), ",", ours),
        _ => return ours,
    };
    let mut joined = first;
    joined.push(mark);
    joined.push(last);
    joined
}

/// A job that a thread waits for. Clones are the same job; when all of them are gone, the job goes on.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Watched>);

struct Watched {
    process: u32,
    out: PathBuf,
    apart: bool,
    over: Mutex<Option<Arc<std::io::Result<Ended>>>>,
    ended: Condvar,
    told: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, out, apart, over, ended: _, told: _ } = self;
        f.debug_struct("Watched").field("process", process).field("out", out).field("apart", apart).field("over", over).finish()
    }
}

impl Watch {
    /// The job's process.
    pub fn process(&self) -> u32 {
        self.0.process
    }
    /// The log that was asked for; ranks write theirs beside it.
    pub fn out(&self) -> &Path {
        &self.0.out
    }
    /// How it ended; none while it runs.
    pub fn over(&self) -> Option<Arc<std::io::Result<Ended>>> {
        locked(&self.0.over).clone()
    }
    /// Has `told` called when the job is over, from another thread, or at once if it is.
    pub fn tell(&self, told: impl Fn() + Send + 'static) {
        let over = locked(&self.0.over);
        if over.is_some() {
            told();
        } else {
            *locked(&self.0.told) = Some(Box::new(told));
        }
    }
    /// Asks the job to end, as Ctrl+C does: a program of Python leaves with what it has to put in order.
    pub fn interrupt(&self) {
        self.signal(false);
    }
    /// Ends the job at once.
    pub fn kill(&self) {
        self.signal(true);
    }
    /// Waits until the job is over.
    pub fn wait(&self) -> Arc<std::io::Result<Ended>> {
        let mut over = locked(&self.0.over);
        loop {
            if let Some(ended) = &*over {
                return Arc::clone(ended);
            }
            over = self.0.ended.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, ended: std::io::Result<Ended>) {
        let mut over = locked(&self.0.over);
        *over = Some(Arc::new(ended));
        self.0.ended.notify_all();
        let told = locked(&self.0.told).take();
        drop(over);
        if let Some(told) = told {
            told();
        }
    }

    #[cfg(unix)]
    fn signal(&self, at_once: bool) {
        use rustix::process::{Pid, Signal, kill_process, kill_process_group};
        // The number of a process that was waited for may be somebody else's by now.
        if locked(&self.0.over).is_some() {
            return;
        }
        let signal = if at_once { Signal::KILL } else { Signal::INT };
        let process = i32::try_from(self.0.process).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // It may be over already.
            let _ = if self.0.apart { kill_process_group(process, signal) } else { kill_process(process, signal) };
        }
    }

    #[cfg(windows)]
    fn signal(&self, at_once: bool) {
        let process = self.0.process.to_string();
        let how: &[&str] = if at_once { &["/F", "/T", "/PID"] } else { &["/T", "/PID"] };
        // It may be over already.
        let _ = Command::new("taskkill").args(how).arg(process).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
