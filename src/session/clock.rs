//! The clock of a time axis, as a question: real time of five million events is not for the UI thread.

use crate::analysis::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::chart::{Clock, TimeAxis};

/// Asks for the [`Clock`] of a device.
pub struct ClockOf;

/// A clock, with what it weighs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeighedClock {
    /// The clock.
    pub clock: Clock,
    bytes: usize,
}

impl Query for ClockOf {
    const NAME: &'static str = "time axis";
    type Params = TimeAxis;
    type Answer = WeighedClock;

    fn answer(asked: &Asked<'_>, axis: &TimeAxis, progress: &Progress) -> Result<WeighedClock, Cancelled> {
        progress.check()?;
        let trace = &asked.memory().trace;
        let clock = Clock::new(trace, *axis);
        let bytes = if clock.axis() == TimeAxis::Time { trace.len() * size_of::<u64>() } else { 0 };
        Ok(WeighedClock { clock, bytes })
    }
}

impl HeapSize for WeighedClock {
    fn heap_size(&self) -> usize {
        self.bytes
    }
}
