//! The contract of a way to capture, and what is asked of it.

use std::ffi::OsString;
use std::path::PathBuf;

/// Which stacks are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// Those of Python.
    #[default]
    Python,
    /// Those of C++ too, which cost much.
    All,
    /// None.
    None,
}

impl Stacks {
    /// The word of the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Stacks::Python => "python",
            Stacks::All => "all",
            Stacks::None => "none",
        }
    }
    /// The stacks of a word of the command line.
    pub fn of_name(name: &str) -> Option<Stacks> {
        [Stacks::Python, Stacks::All, Stacks::None].into_iter().find(|stacks| stacks.name() == name)
    }
}

/// What is to be captured, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The log; several processes put their rank or number before its ending.
    pub out: PathBuf,
    /// Which stacks.
    pub stacks: Stacks,
    /// Entries of the allocator's own history; none: what the recorder finds right.
    pub max_entries: Option<u32>,
    /// Between two looks at the job, in ms; none: what the recorder finds right.
    pub interval_ms: Option<u32>,
    /// Allocator settings to run with, as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub settings: Option<String>,
    /// Whether events come by the slower way only, which asks nothing of PyTorch's inside.
    pub only_ring: bool,
}

/// What a job needs to be captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Variables to set in its environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a capture did not begin: one sentence that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A file or folder.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The log is there already.
    #[error("{} is there already; name another with --out, or remove it", path.display())]
    Exists {
        /// The log.
        path: PathBuf,
    },
    /// The program did not start.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The process cannot be attached to.
    #[error("{0}")]
    Attach(String),
}

/// A way to capture.
pub trait CaptureSource: Sync {
    /// Its stable name: `torch` …
    fn name(&self) -> &'static str;
    /// What it records, in one sentence.
    fn about(&self) -> &'static str;
    /// Why it is not possible on this machine, in one sentence; none where it is.
    fn unavailable(&self) -> Option<String>;
    /// Why a job may have left no log, in one sentence.
    fn why_nothing(&self) -> &'static str;
    /// Puts what the job needs into `folder`, which stays for as long as the job.
    fn prepare(&self, request: &Request, folder: &std::path::Path) -> Result<Prepared, CaptureError>;
}
