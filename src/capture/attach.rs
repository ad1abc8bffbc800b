//! A Python program that runs already: Python 3.14 and later lets another process run a file inside it.
//!
//! Always: where that is not possible it is said in one sentence, and the program is not touched.

use crate::capture::child::Folder;
use crate::capture::processes::is_alive;
use crate::capture::source::{CaptureError, Request};
use crate::capture::{logs, recorder, torch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a program may take until it runs what it was handed: it does so between two steps of its own.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What it records, in one sentence without its stop.
pub const ABOUT: &str = "A Python program that runs already, from now on: Python 3.14 and later";

/// Why no program can be attached to on this machine, in one sentence; none where it is tried.
pub fn unavailable() -> Option<String> {
    if cfg!(target_os = "linux") {
        return None;
    }
    Some("What a process runs can be told on Linux only; elsewhere `fragscope attach PID --python PROGRAM` names it.".to_owned())
}

/// A program that was handed the recorder.
#[derive(Debug)]
pub struct Attached {
    process: u32,
    out: PathBuf,
    /// The recorder is read from here when the program gets to it.
    _folder: Folder,
}

impl Attached {
    /// Hands the recorder to a process. `python` is its own program where that cannot be found out.
    pub fn to(process: u32, python: Option<&Path>, request: &Request) -> Result<Attached, CaptureError> {
        if let Some(path) = logs::of(&request.out).into_iter().next() {
            return Err(CaptureError::Exists { path });
        }
        let python = python_of(process, python)?;
        let folder = Folder::new()?;
        recorder::write_for_job(folder.path())?;
        let script = folder.path().join("attach.py");
        let text = format!(
            "import json, sys\nsys.path.insert(0, {0})\ntry:\n    import fragscope_record\nfinally:\n    sys.path.remove({0})\n\
             fragscope_record.attach(json.loads({1}))\n",
            python_text(&folder.path().to_string_lossy()),
            python_text(&torch::settings(request)),
        );
        std::fs::write(&script, text).map_err(|source| CaptureError::Write { path: script.clone(), source })?;
        let call = format!("import sys; sys.remote_exec({process}, {})", python_text(&script.to_string_lossy()));
        let done = ask(&python, &call)?;
        if let Err(why) = done {
            return Err(CaptureError::Attach(format!(
                "process {process} did not take the recorder: {why}; it must be your own (or you root), and run with \
                 remote debugging allowed"
            )));
        }
        Ok(Attached { process, out: request.out.clone(), _folder: folder })
    }
    /// Waits until the recording has begun; an error where it does not.
    pub fn wait_for_begin(&self) -> Result<(), CaptureError> {
        let began = Instant::now();
        while logs::of(&self.out).is_empty() {
            if let Some(complaint) = logs::complaints(&self.out).into_iter().next() {
                return Err(CaptureError::Attach(format!("process {}: {complaint}", self.process)));
            }
            if !is_alive(self.process) {
                return Err(CaptureError::Attach(format!("process {} ended before its recording began", self.process)));
            }
            if PATIENCE < began.elapsed() {
                return Err(CaptureError::Attach(format!(
                    "process {} took the recorder and did not run it within {} s: it may be busy in one long step",
                    self.process,
                    PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
    /// Whether the program runs and is still recorded.
    pub fn goes_on(&self) -> bool {
        is_alive(self.process) && logs::of(&self.out).iter().any(|log| !logs::has_end(log))
    }
    /// Waits until the program or its recording is over.
    pub fn wait(self) -> Vec<PathBuf> {
        while self.goes_on() {
            std::thread::sleep(LOOK);
        }
        let found = logs::of(&self.out);
        for log in &found {
            logs::end(log, None);
        }
        found
    }
}

/// The Python of a process, if it can be attached to.
fn python_of(process: u32, given: Option<&Path>) -> Result<PathBuf, CaptureError> {
    if !is_alive(process) {
        return Err(CaptureError::Attach(format!("there is no process {process}")));
    }
    let python = match given {
        Some(given) => given.to_owned(),
        None => std::fs::read_link(format!("/proc/{process}/exe")).map_err(|error| {
            CaptureError::Attach(format!("cannot tell what process {process} runs ({error}); name its Python with --python"))
        })?,
    };
    let question = "import sys; print(sys.version.split()[0], hasattr(sys, 'remote_exec'))";
    let answer = ask(&python, question)?.ok();
    let answer = answer.as_deref().map(str::trim).and_then(|line| line.rsplit_once(' '));
    match answer {
        Some((_, "True")) => Ok(python),
        Some((version, "False")) => Err(CaptureError::Attach(format!(
            "process {process} runs Python {version}, and only Python 3.14 and later can be attached to; start the job with \
             `fragscope capture -- …` instead"
        ))),
        _ => Err(CaptureError::Attach(format!(
            "process {process} runs {}, which does not answer like Python; only Python programs can be attached to",
            python.display()
        ))),
    }
}

/// Runs a line of Python: what it printed, or its last line of error.
fn ask(python: &Path, line: &str) -> Result<Result<String, String>, CaptureError> {
    let started = Command::new(python).args(["-I", "-S", "-c", line]).stdin(std::process::Stdio::null()).output();
    let output = started.map_err(|source| CaptureError::Start { program: python.display().to_string(), source })?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let error = String::from_utf8_lossy(&output.stderr).trim_end().lines().last().unwrap_or("it failed").to_owned();
    Ok(Err(error))
}

/// A text as Python has it.
fn python_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
