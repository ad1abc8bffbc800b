//! A recording made ready to be served again, as the command line, the report and the window all do it; and what the
//! verdict quotes of it.
//!
//! Always: what is quoted is the first row of the sweep that `whatif --sweep` shows.

use crate::analysis::diagnosis::{DiagnosisParams, Tried, TriedBest, TriedResult};
use crate::analysis::{Asked, Query, Releases};
use crate::base::{Cancelled, Progress};
use crate::model::{Action, AllocatorSettings, EventIdx};
use crate::simulator::{CapacityTold, Fidelity, Recorded, RequestStream, Scenario, SweepRow, sweep};
use std::sync::Arc;

/// Cards come in whole units of this.
const CARD_UNIT: u64 = 1 << 30;

/// Requests up to which the verdict waits for other settings to be tried: a few seconds.
const MOST_REQUESTS: usize = 1_000_000;

/// Why a recording cannot be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// It was no longer wanted.
    #[error("cancelled")]
    Cancelled,
    /// Pinned host memory.
    #[error("it is served by another allocator")]
    Host,
    /// There are no requests.
    #[error("there is no history, so there are no requests to serve again")]
    NoHistory,
    /// No rules are known for what wrote it.
    #[error("the release that wrote the file is not known")]
    NoRelease,
}

impl From<Cancelled> for WhatIfError {
    fn from(Cancelled: Cancelled) -> Self {
        WhatIfError::Cancelled
    }
}

/// A recording ready to be served again.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// What the program asked for.
    pub asked: RequestStream,
    /// What it ran with, its card as far as it is known or told.
    pub recorded: Recorded,
    /// How far the recorded settings reproduce it.
    pub fidelity: Fidelity,
    /// What others hold of the card, bytes.
    pub outside: u64,
    /// What the recording tells of the card, where nobody else told its size.
    pub told: Option<CapacityTold>,
}

impl WhatIf {
    /// Makes a device ready. Where the card is not known, it is taken to be of whole GiB, at least what failures and retries
    /// tell; what others hold of it, where nobody says, is what lies between the two.
    pub fn prepare(
        asked: &Asked<'_>,
        recorded: Recorded,
        outside: Option<u64>,
        progress: &Progress,
    ) -> Result<WhatIf, WhatIfError> {
        let (memory, replay, snapshot) = (asked.memory(), asked.replay(), asked.subject.snapshot);
        if memory.ordinal < 0 || memory.kv.is_some() {
            return Err(WhatIfError::Host);
        }
        if !memory.has_history() {
            return Err(WhatIfError::NoHistory);
        }
        let releases = Releases::answer(asked, &(), progress)?;
        let told = CapacityTold::of(memory, replay, &releases, &recorded.settings);
        let is_told = recorded.total.is_none();
        let total = recorded.total.or(told.and_then(|told| told.bytes.checked_next_multiple_of(CARD_UNIT)));
        let recorded = Recorded { total, ..recorded };
        let caches: Vec<_> = releases.empty_caches().map(|run| run.events.clone()).collect();
        let mut requests = RequestStream::of(snapshot, asked.device, &caches);
        let fidelity = Fidelity::of(snapshot, asked.device, replay, &mut requests, &recorded, progress)?;
        let fidelity = fidelity.ok_or(WhatIfError::NoRelease)?;
        let between = || total.zip(told).map_or(0, |(total, told)| total.saturating_sub(told.bytes));
        let told = told.filter(|_| is_told);
        Ok(WhatIf { asked: requests, recorded, fidelity, outside: outside.unwrap_or_else(between), told })
    }
    /// Settings on a card of `total` bytes, or on the recorded one; all else as recorded.
    pub fn scenario(&self, settings: AllocatorSettings, total: Option<u64>) -> Scenario {
        let total = total.or(self.recorded.total);
        let capacity = total.map(|total| total.saturating_sub(self.outside));
        Scenario { capacity, total, ..Scenario::new(settings, self.fidelity.rules) }
    }
    /// Whether the recorded settings reproduce the recording to the last address.
    pub fn is_exact(&self) -> bool {
        self.fidelity.first_divergence.is_none() && self.fidelity.placed_as_recorded == self.fidelity.allocations
    }
}

/// What the verdict of a device's failures quotes: other settings, tried on the card as far as it is known. None where
/// nothing failed, or the recording cannot be served again.
pub fn tried(asked: &Asked<'_>, known: &DiagnosisParams, progress: &Progress) -> Result<Option<Tried>, Cancelled> {
    let memory = asked.memory();
    if memory.trace.ooms().is_empty() {
        return Ok(None);
    }
    let device = memory.ordinal;
    let is_request = |action: &&Action| !action.name().starts_with("segment");
    let requests = memory.trace.actions().iter().filter(is_request).count();
    if MOST_REQUESTS < requests {
        return Ok(Some(Tried { device, result: TriedResult::TooMany(requests as u64) }));
    }
    let mut settings = asked.subject.snapshot.settings.clone();
    if let Some(ppm) = known.card.fraction_ppm {
        settings.per_process_memory_fraction = Some(f64::from(ppm) / 1e6);
    }
    let total = known.card.total.or_else(|| known.messages.last()?.total);
    let what_if = match WhatIf::prepare(asked, Recorded { settings, total }, None, progress) {
        Ok(what_if) => what_if,
        Err(WhatIfError::Cancelled) => return Err(Cancelled),
        Err(WhatIfError::Host | WhatIfError::NoHistory | WhatIfError::NoRelease) => return Ok(None),
    };
    let base = what_if.scenario(what_if.recorded.settings.clone(), None);
    let rows = sweep(&what_if.asked, &base, &asked.subject.snapshot.origin, progress)?;
    let result = quoted(&rows, memory.trace.ooms()[0], base.capacity, &what_if);
    Ok(result.map(|result| Tried { device, result }))
}

/// What is known, with what came of other settings where that was not told.
pub fn with_tried(asked: &Asked<'_>, known: &DiagnosisParams, progress: &Progress) -> Result<DiagnosisParams, Cancelled> {
    let tried = match &known.tried {
        Some(told) => Some(Arc::clone(told)),
        None => tried(asked, known, progress)?.map(Arc::new),
    };
    Ok(DiagnosisParams { tried, ..known.clone() })
}

fn quoted(rows: &[SweepRow], failed: EventIdx, capacity: Option<u64>, what_if: &WhatIf) -> Option<TriedResult> {
    let recorded = rows.iter().find(|row| row.is_recorded)?;
    // Where the model does not fail as the recording did, something is at work that it does not know.
    if recorded.outcome.failure.is_none_or(|failure| failure.event != failed) {
        return Some(TriedResult::NotReproduced);
    }
    let best = rows.first()?;
    let serving = rows.iter().filter(|row| row.completes()).count() as u32;
    let best = best.completes().then(|| TriedBest { conf: best.conf.clone(), reserved: best.outcome.counters.reserved.peak });
    Some(TriedResult::Ranked { tried: rows.len() as u32, serving, best, capacity: capacity?, is_exact: what_if.is_exact() })
}
