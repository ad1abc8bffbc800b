//! What is filled in to record a job, and what that asks of a capture.
//!
//! Always: what cannot be started is said in one sentence before anything is touched.

use crate::capture::{CaptureSource, Request, SOURCES, Stacks, Surroundings, logs};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is filled in; what is left empty is as the recorder and this program have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureForm {
    /// The way to capture, by its name; empty: the first.
    pub source: String,
    /// The command line, as a shell has it: quotes and backslashes, no more.
    pub command: String,
    /// The working directory.
    pub folder: String,
    /// Variables of the environment: `NAME=value` with spaces between.
    pub environment: String,
    /// Allocator settings, as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub settings: String,
    /// Which stacks, by name; empty: those of Python.
    pub stacks: String,
    /// Longest time between two looks at the job, in ms.
    pub interval_ms: Option<u32>,
    /// Entries of the allocator's own history.
    pub max_entries: Option<u32>,
    /// Events by the slower way only, which asks nothing of PyTorch's inside.
    pub only_ring: bool,
    /// The log; empty: the first free `capture-1.fsl` … in the working directory.
    pub out: String,
}

/// What is to be started.
#[derive(Clone)]
pub struct Wanted {
    /// The way to capture.
    pub source: &'static dyn CaptureSource,
    /// What is asked of it.
    pub request: Request,
    /// What surrounds the job.
    pub around: Surroundings,
}

impl CaptureForm {
    /// The words of the command line.
    pub fn words(&self) -> Result<Vec<OsString>, String> {
        let words = shlex::split(self.command.trim()).ok_or("The command has a quote that is not closed.")?;
        if words.is_empty() {
            return Err("There is no command: type what starts the job, for example `python train.py`.".to_owned());
        }
        Ok(words.into_iter().map(OsString::from).collect())
    }
    /// Which stacks.
    pub fn stacks(&self) -> Stacks {
        Stacks::of_name(&self.stacks).unwrap_or_default()
    }
    /// The way to capture.
    pub fn source(&self) -> Option<&'static dyn CaptureSource> {
        if self.source.is_empty() {
            return SOURCES.first().copied();
        }
        SOURCES.iter().copied().find(|source| source.name() == self.source)
    }
    /// What it asks for, where that can be tried.
    pub fn wanted(&self) -> Result<Wanted, String> {
        let command = self.words()?;
        let source = self.source().ok_or_else(|| format!("There is no way to capture called {}.", self.source))?;
        if let Some(why) = source.unavailable() {
            return Err(why);
        }
        let folder = self.place()?;
        let out = self.log(&folder)?;
        let mut output = out.clone().into_os_string();
        output.push(".out");
        let around = Surroundings { environment: self.variables()?, output: Some(output.into()), folder: Some(folder) };
        Ok(Wanted { source, request: Request { command, ..self.request(out) }, around })
    }
    /// As [`CaptureForm::wanted`], of a process that runs already: what is asked of its recorder.
    pub fn wanted_of_running(&self) -> Result<Request, String> {
        let folder = self.place()?;
        Ok(self.request(self.log(&folder)?))
    }

    fn request(&self, out: PathBuf) -> Request {
        Request {
            command: Vec::new(),
            out,
            stacks: self.stacks(),
            max_entries: self.max_entries,
            interval_ms: self.interval_ms,
            settings: Some(self.settings.trim().to_owned()).filter(|settings| !settings.is_empty()),
            only_ring: self.only_ring,
        }
    }
    fn place(&self) -> Result<PathBuf, String> {
        let typed = self.folder.trim();
        let folder = if typed.is_empty() { std::env::current_dir() } else { std::path::absolute(at_home(typed)) };
        let folder = folder.map_err(|error| format!("There is no working directory: {error}."))?;
        if folder.is_dir() { Ok(folder) } else { Err(format!("The working directory is not there: {}", folder.display())) }
    }
    fn variables(&self) -> Result<Vec<(OsString, OsString)>, String> {
        let words = shlex::split(self.environment.trim()).ok_or("The environment has a quote that is not closed.")?;
        let pair = |word: String| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((OsString::from(name), OsString::from(value))),
            _ => Err(format!("The environment is a list of NAME=value, and this is none: {word}")),
        };
        words.into_iter().map(pair).collect()
    }
    fn log(&self, folder: &Path) -> Result<PathBuf, String> {
        let typed = self.out.trim();
        let out = if typed.is_empty() { logs::free_name_in(folder) } else { folder.join(at_home(typed)) };
        let parent = out.parent().unwrap_or(folder);
        if !parent.is_dir() {
            return Err(format!("The folder of the log is not there: {}", parent.display()));
        }
        if let Some(there) = logs::of(&out).first() {
            return Err(format!("{} is there already: name another log, or remove it.", there.display()));
        }
        // What cannot be written is said now, and not by a job that runs unrecorded.
        let mut probe = out.clone().into_os_string();
        probe.push(format!(".{}.part", std::process::id()));
        let written = std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe));
        written.map_err(|error| format!("No log can be written into {}: {error}.", parent.display()))?;
        Ok(out)
    }
}

/// `~/x` as the shell would have it.
fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_what_is_wrong_with_it_or_what_to_start() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().display().to_string();
        let form = CaptureForm { command: "python 'my train.py' --x=1".into(), folder, ..CaptureForm::default() };
        let wanted = form.wanted().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(wanted.request.command, ["python", "my train.py", "--x=1"]);
        assert_eq!(wanted.request.out, place.path().join("capture-1.fsl"));
        assert_eq!(std::fs::read_dir(place.path()).expect("there").count(), 0, "trying leaves nothing behind");
        std::fs::write(place.path().join("capture-1.fsl"), "").expect("written");
        assert_eq!(form.wanted().map(|w| w.request.out).ok(), Some(place.path().join("capture-2.fsl")));
        type Change = fn(&mut CaptureForm);
        let wrong: [(Change, &str); 8] = [
            (|form| form.command = "  ".into(), "There is no command"),
            (|form| form.command = "python 'x".into(), "quote that is not closed"),
            (|form| form.folder = "/no/such/folder".into(), "working directory is not there"),
            (|form| form.environment = "A=1 B".into(), "this is none: B"),
            (|form| form.environment = "=1".into(), "this is none"),
            (|form| form.out = "capture-1.fsl".into(), "is there already"),
            (|form| form.out = "no/such/x.fsl".into(), "folder of the log is not there"),
            (|form| form.source = "crystal ball".into(), "no way to capture called crystal ball"),
        ];
        for (change, sentence) in wrong {
            let mut form = form.clone();
            change(&mut form);
            let why = form.wanted().err().unwrap_or_default();
            assert!(why.contains(sentence), "{why}");
        }
        let two = CaptureForm { environment: "A=1 B='x y'".into(), ..form };
        let around = two.wanted().map(|wanted| wanted.around.environment).unwrap_or_default();
        assert_eq!(around, [("A".into(), "1".into()), ("B".into(), "x y".into())]);
    }
}
