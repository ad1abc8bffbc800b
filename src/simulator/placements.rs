//! How far the driver's choice of addresses decides what comes out. Up to PyTorch 2.11 the allocator takes, of several
//! free blocks of one size, the one at the lowest address: where the driver puts new segments then matters.
//!
//! Always: the figures of every placement lie within the range; each placement is a whole run.

use crate::base::{Cancelled, Progress};
use crate::model::EventIdx;
use crate::simulator::device::{PLACEMENTS, Placement};
use crate::simulator::policy::PolicyKind;
use crate::simulator::request::RequestStream;
use crate::simulator::scenario::{AtRecordedFailure, Counters, Outcome, Scenario, TieBreak, simulate_as};
use rayon::prelude::*;
use std::ops::RangeInclusive;

/// From the lowest to the highest of each figure, over the placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureRange {
    /// Most bytes reserved.
    pub reserved: RangeInclusive<u64>,
    /// Most bytes allocated.
    pub allocated: RangeInclusive<u64>,
    /// Most bytes active.
    pub active: RangeInclusive<u64>,
    /// Most bytes the program asked for.
    pub requested: RangeInclusive<u64>,
    /// Most segments.
    pub segments: RangeInclusive<u64>,
    /// Retries.
    pub retries: RangeInclusive<u64>,
    /// Requests that failed.
    pub ooms: RangeInclusive<u64>,
    /// Calls that took memory from the driver.
    pub device_allocs: RangeInclusive<u64>,
    /// Calls that gave memory back to it.
    pub device_frees: RangeInclusive<u64>,
    /// The earliest and the latest event of the first failure; none: all is served.
    pub failure: (Option<EventIdx>, Option<EventIdx>),
}

impl FigureRange {
    /// The range of some outcomes; none where there are none.
    fn of(outcomes: &[Outcome]) -> Option<FigureRange> {
        let over = |figure: fn(&Counters) -> u64| {
            let all = outcomes.iter().map(|outcome| figure(&outcome.counters));
            Some(all.clone().min()?..=all.max()?)
        };
        // No failure is later than any.
        let failures = outcomes.iter().map(|outcome| outcome.failure.map_or(u32::MAX, |failure| failure.event.0));
        let event = |event: u32| (event != u32::MAX).then_some(EventIdx(event));
        Some(FigureRange {
            reserved: over(|counters| counters.reserved.peak)?,
            allocated: over(|counters| counters.allocated.peak)?,
            active: over(|counters| counters.active.peak)?,
            requested: over(|counters| counters.requested.peak)?,
            segments: over(|counters| counters.segments.peak)?,
            retries: over(|counters| counters.retries)?,
            ooms: over(|counters| counters.ooms)?,
            device_allocs: over(|counters| counters.device_allocs)?,
            device_frees: over(|counters| counters.device_frees)?,
            failure: (event(failures.clone().min()?), event(failures.max()?)),
        })
    }
}

/// Runs a scenario under each placement, in parallel: the range of what comes out. None where no address decides
/// anything: from PyTorch 2.12 on, and for other allocators.
pub fn placement_range(
    asked: &RequestStream,
    scenario: &Scenario,
    progress: &Progress,
) -> Result<Option<FigureRange>, Cancelled> {
    if scenario.policy != PolicyKind::Caching || scenario.rules.tie != TieBreak::Address {
        return Ok(None);
    }
    progress.stage("simulating other placements", asked.requests.len() as u64)?;
    let run = |placement: &Placement| {
        let scenario = Scenario { placement: *placement, ..scenario.clone() };
        simulate_as(asked, &scenario, AtRecordedFailure::AsScenario, progress)
    };
    let outcomes = PLACEMENTS.par_iter().map(run).collect::<Result<Vec<_>, _>>()?;
    Ok(FigureRange::of(&outcomes))
}
