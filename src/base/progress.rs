//! How far a long piece of work is, and whether it is still wanted.
//!
//! One value is shared between the worker and whoever watches: a stage, two counters, a flag.
//! Workers report every few thousand rows; the `?` behind the report is the cancel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The work was cancelled; nothing else can go wrong in a pure question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Shared progress of one piece of work. Clones watch the same work.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: Arc<AtomicBool>,
    stage: Mutex<&'static str>,
}

impl Progress {
    /// Progress of work that has not begun.
    pub fn new() -> Self {
        Self::default()
    }
    /// Progress of a part of this work: cancelled with it, and its stages are its own.
    pub fn part(&self) -> Self {
        Self(Arc::new(Shared { cancelled: Arc::clone(&self.0.cancelled), ..Shared::default() }))
    }
    /// A new stage begins, with `total` steps to do (0: unknown).
    pub fn stage(&self, name: &'static str, total: u64) -> Result<(), Cancelled> {
        if let Ok(mut stage) = self.0.stage.lock() {
            *stage = name;
        }
        self.0.done.store(0, Ordering::Relaxed);
        self.0.total.store(total, Ordering::Relaxed);
        self.check()
    }
    /// `done` steps of this stage are done.
    pub fn at(&self, done: u64) -> Result<(), Cancelled> {
        self.0.done.store(done, Ordering::Relaxed);
        self.check()
    }
    /// Stops the work with an error if it is no longer wanted.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.0.cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }
    /// Asks the worker to stop at its next report.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
    /// The stage's name, empty before the first.
    pub fn stage_name(&self) -> &'static str {
        self.0.stage.lock().map_or("", |stage| *stage)
    }
    /// Share of the stage that is done, 0 to 1, or none where the total is unknown.
    pub fn fraction(&self) -> Option<f32> {
        let total = self.0.total.load(Ordering::Relaxed);
        let done = self.0.done.load(Ordering::Relaxed);
        (0 < total).then(|| (done as f32 / total as f32).min(1.0))
    }
}
