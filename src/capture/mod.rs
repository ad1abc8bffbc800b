//! Floor 5: a running job becomes a log of its events, `.fsl`.
//!
//! A capture is a child process, or one that is attached to: it writes the log, and this program only prepares it, waits
//! for it and reads what it wrote. Whatever happens to the job cannot happen to this program, and the other way round.
//! Its standard input, output and error stay the user's. What the cards hold meanwhile is looked at from outside and
//! written into the same log. The built-in workloads are jobs too: this program again, as a child of itself.

pub mod attach;
pub mod child;
pub mod driver;
pub mod gpus;
pub mod logs;
pub mod processes;
pub mod recorder;
mod sampling;
pub mod source;
pub mod torch;
pub mod workload;

pub use child::{Running, Surroundings, Watch};
pub use source::{CaptureError, CaptureSource, Prepared, Request, Stacks};

/// All ways to capture.
pub const SOURCES: &[&dyn CaptureSource] = &[&torch::Torch, &driver::Driver];
