//! What an allocator held over time, told by the events of the recording: so that runs lie over one another.
//!
//! Always: the value at a position is what was reserved when all requests before it were served.

use crate::base::{Cancelled, Progress};
use crate::model::{Action, EventIdx, Position};
use crate::simulator::journal::{Journal, Place};
use crate::simulator::request::RequestStream;
use crate::simulator::scenario::{AtRecordedFailure, Outcome, Scenario, simulate_telling};

/// Bytes reserved, by position in the recording: each change and the value from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedOverTime {
    /// Where it changed, ascending.
    pub changes: Vec<Position>,
    /// The value from there on, bytes.
    pub values: Vec<u64>,
    at: Position,
}

impl Journal for ReservedOverTime {
    fn at(&mut self, event: EventIdx) {
        self.at = Position::after(event);
    }
    fn segment(&mut self, action: Action, _address: u64, size: u64, _place: Place) {
        let before = self.values.last().copied().unwrap_or(0);
        let after = match action {
            Action::SegmentAlloc | Action::SegmentMap => before.saturating_add(size),
            _ => before.saturating_sub(size),
        };
        match (self.changes.last(), self.values.last_mut()) {
            (Some(last), Some(value)) if *last == self.at => *value = after,
            _ => {
                self.changes.push(self.at);
                self.values.push(after);
            }
        }
    }
}

/// As [`simulate`](crate::simulator::simulate), with what was reserved over time.
pub fn simulate_over_time(
    asked: &RequestStream,
    scenario: &Scenario,
    progress: &Progress,
) -> Result<(Outcome, ReservedOverTime), Cancelled> {
    progress.stage("simulating", asked.requests.len() as u64)?;
    let mut reserved = ReservedOverTime::default();
    let outcome = simulate_telling(&mut reserved, asked, scenario, AtRecordedFailure::AsScenario, progress)?;
    Ok((outcome, reserved))
}
