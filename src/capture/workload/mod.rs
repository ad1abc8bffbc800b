//! Built-in GPU workloads: small models of jobs that ask for memory as such jobs do, on a real device.
//!
//! Each is a program of requests ([`WORKLOADS`]); [`program`] serves them by PyTorch's allocator as the simulator has it,
//! over memory that [`gpu`] takes from the driver, fills every block with a value so that the memory is really there, and
//! writes all of it into a log. To add one: one file, one row.
//! Always: this runs in a child process, so that neither a driver that is missing nor one that fails can touch the program
//! that watches; whatever ends a run, all memory is given back.

mod fragment;
mod gpu;
mod model;
mod program;
mod serve;
mod train;

use crate::capture::source::{CaptureError, CaptureSource, Prepared, Request};
use crate::model::{AllocatorSettings, Origin, OriginKind};
use crate::simulator::conf;
use program::{Program, Stop};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What a workload begins each step with: whether there is to be one.
type Next<'a> = &'a mut dyn FnMut(&mut Program) -> Result<bool, Stop>;

/// A workload one can choose.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// Steps it runs where nothing is said.
    pub steps: u32,
    run: fn(&mut Program, Next<'_>) -> Result<(), Stop>,
}

/// All of them.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "train",
        about: "training steps of a small transformer: activations, gradients, and an optimizer's state from the first step on",
        steps: 20,
        run: train::even,
    },
    Workload {
        name: "train-variable",
        about: "the same with batches of changing length, which leave gaps",
        steps: 40,
        run: train::variable,
    },
    Workload {
        name: "serve-contiguous",
        about: "serving long contexts, each sequence's keys and values in one growing block a layer",
        steps: 200,
        run: serve::contiguous,
    },
    Workload {
        name: "serve-paged",
        about: "serving the same sequences, keys and values in pages of one size",
        steps: 200,
        run: serve::paged,
    },
    Workload {
        name: "fragment",
        about: "the worst case: most memory is free and no request fits, until it runs out of memory",
        steps: 10_000,
        run: fragment::run,
    },
];

/// The workload of a name.
pub fn by_name(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// How a workload runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Allocator settings, as `PYTORCH_CUDA_ALLOC_CONF` has them; empty: the defaults.
    pub settings: String,
    /// Steps; none: as many as the workload has by itself.
    pub steps: Option<u32>,
    /// The part of the device's free memory it may take, in percent.
    pub share_percent: u32,
    /// The least time a step takes, in ms.
    pub pace_ms: u32,
}

/// The part of the free memory that is taken where nothing is said, in percent.
pub const SHARE_PERCENT: u32 = 25;

impl Default for Options {
    fn default() -> Self {
        Options { settings: String::new(), steps: None, share_percent: SHARE_PERCENT, pace_ms: 0 }
    }
}

/// A run of a workload as a child process of this program.
#[derive(Debug)]
pub struct Child;

impl CaptureSource for Child {
    fn name(&self) -> &'static str {
        "workload"
    }
    fn about(&self) -> &'static str {
        "a built-in workload on the GPU"
    }
    fn unavailable(&self) -> Option<String> {
        None
    }
    fn why_nothing(&self) -> &'static str {
        "the workload did not begin"
    }
    fn prepare(&self, _: &Request, _: &Path) -> Result<Prepared, CaptureError> {
        Ok(Prepared::default())
    }
}

/// The command line of this program that runs a workload in place, for a child process.
pub fn command(workload: &Workload, options: &Options, out: &Path) -> std::io::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![std::env::current_exe()?.into_os_string()];
    words.extend(["capture", "--run-here", "--workload", workload.name].map(OsString::from));
    if !options.settings.is_empty() {
        words.extend([OsString::from("--set"), OsString::from(&options.settings)]);
    }
    if let Some(steps) = options.steps {
        words.extend([OsString::from("--steps"), steps.to_string().into()]);
    }
    words.extend([OsString::from("--share"), options.share_percent.to_string().into()]);
    words.extend([OsString::from("--pace"), options.pace_ms.to_string().into()]);
    words.extend([OsString::from("--out"), out.as_os_str().to_owned()]);
    Ok(words)
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps were run.
    Done,
    /// It was asked to stop.
    Stopped,
    /// It ran out of memory, or the device failed: in one sentence.
    Failed(String),
}

/// The settings a string stands for.
pub fn settings_of(text: &str) -> Result<AllocatorSettings, String> {
    let none =
        Origin { name: String::new(), bytes: 0, format: "workload".to_owned(), kind: OriginKind::Capture, written_by: None };
    let mut settings = AllocatorSettings { stated: true, ..AllocatorSettings::default() };
    conf::read(&mut settings, text, &none)?;
    settings.conf = text.to_owned();
    Ok(settings)
}

/// Runs a workload in this process, which must be a child of its own; a sentence where it cannot begin.
pub fn run_here(workload: &Workload, options: &Options, out: &Path) -> Result<Ended, String> {
    let settings = settings_of(&options.settings)?;
    let gpu = gpu::Gpu::open(options.share_percent, settings.expandable_segments)?;
    let steps = options.steps.unwrap_or(workload.steps);
    let mut program = Program::begin(workload.name, settings, gpu, out)?;
    let pace = Duration::from_millis(u64::from(options.pace_ms));
    let mut done = 0;
    let mut next = |program: &mut Program| -> Result<bool, Stop> {
        if steps <= done {
            return Ok(false);
        }
        program.step(done, pace)?;
        done += 1;
        Ok(true)
    };
    let came_to = (workload.run)(&mut program, &mut next);
    program.end(came_to.err())
}
