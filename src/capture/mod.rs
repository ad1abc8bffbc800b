//! Floor 5: a running job becomes a log of its events, `.fsl`.
//!
//! A capture is a child process, or one that is attached to: it writes the log, and this program only prepares it, waits
//! for it and reads what it wrote. Whatever happens to the job cannot happen to this program, and the other way round.
//! Its standard input, output and error stay the user's.

pub mod attach;
pub mod child;
pub mod logs;
pub mod processes;
pub mod recorder;
pub mod source;
pub mod torch;

pub use child::{Running, Surroundings, Watch};
pub use source::{CaptureError, CaptureSource, Prepared, Request, Stacks};

/// All ways to capture.
pub const SOURCES: &[&dyn CaptureSource] = &[&torch::Torch];
