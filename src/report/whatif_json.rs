//! The JSON of `whatif`: one object a scenario. Its names are a promise to scripts.

use crate::simulator::{Changed, Fidelity, FigureRange, Outcome, POLICIES, Scenario, SmallestCard};
use serde::Serialize;
use std::io::{self, Write};
use std::ops::RangeInclusive;

/// A scenario and what came out.
#[derive(Clone, Debug)]
pub struct ScenarioRow {
    /// Its settings, as a settings string.
    pub settings: String,
    /// All that it was served under.
    pub scenario: Scenario,
    /// Whether its settings are what the recording ran with.
    pub is_recorded: bool,
    /// What came out.
    pub outcome: Outcome,
    /// The smallest card that serves, where that was asked: none in it where no card does.
    pub smallest: Option<Option<SmallestCard>>,
    /// From the lowest to the highest over the placements a driver could choose, where they decide.
    pub range: Option<FigureRange>,
    /// How the job itself was changed, where it was.
    pub change: Option<ChangeNote>,
}

/// A change of the job, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeNote {
    /// What was changed.
    pub what: String,
    /// What is taken for granted.
    pub assumption: String,
    /// `estimate`, `lower bound` or `upper bound`.
    pub bound: &'static str,
}

impl ChangeNote {
    /// The words of a change.
    pub fn of(changed: &Changed) -> ChangeNote {
        ChangeNote { what: changed.what.clone(), assumption: changed.assumption.clone(), bound: changed.bound.name() }
    }
    /// What was changed, and how sure that is: `batch ×2 (estimate)`, on one line.
    pub fn brief(&self) -> String {
        format!("{} ({})", self.what.replace(char::is_control, " "), self.bound)
    }
}

impl ScenarioRow {
    /// What is left of the capacity where most is reserved, bytes; none where memory has no end.
    pub fn spare(&self) -> Option<u64> {
        self.scenario.capacity.map(|capacity| capacity.saturating_sub(self.outcome.counters.reserved.peak))
    }
    /// The name of the allocator.
    pub fn policy(&self) -> &'static str {
        POLICIES.iter().find(|info| info.kind == self.scenario.policy).map_or("", |info| info.name)
    }
}

/// Writes the list of `whatif --json` and a line end; the fidelity is that of the recorded settings.
pub fn write_whatif(rows: &[ScenarioRow], fidelity: &Fidelity, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<ScenarioInfo<'_>> = rows.iter().map(|row| ScenarioInfo::of(row, fidelity)).collect();
    serde_json::to_writer(&mut *out, &rows)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct ScenarioInfo<'a> {
    settings: &'a str,
    policy: &'static str,
    /// Whether the recording ran with these settings.
    recorded: bool,
    /// The card's total.
    capacity: Option<u64>,
    completed: bool,
    oom: Option<FailureInfo>,
    peak_reserved: u64,
    peak_allocated: u64,
    peak_active: u64,
    peak_requested: u64,
    segments_peak: u64,
    retries: u64,
    ooms: u64,
    device_allocs: u64,
    device_frees: u64,
    /// The recorded failure that was served here: the recording tells nothing behind it.
    served_instead: Option<u32>,
    /// What is left where most is reserved, of what the allocator can hold.
    spare: Option<u64>,
    /// The smallest card that serves; null where none does, or it was not asked.
    smallest_card: Option<CardInfo>,
    fidelity: FidelityInfo,
    /// Over the placements a driver could have chosen; null where they decide nothing.
    range: Option<RangeInfo>,
    /// How the job itself was changed; null where its requests are the recorded ones.
    change: Option<&'a ChangeNote>,
}

/// The lowest and the highest of each figure.
#[derive(Serialize)]
struct RangeInfo {
    peak_reserved: [u64; 2],
    peak_allocated: [u64; 2],
    peak_active: [u64; 2],
    peak_requested: [u64; 2],
    segments_peak: [u64; 2],
    retries: [u64; 2],
    ooms: [u64; 2],
    device_allocs: [u64; 2],
    device_frees: [u64; 2],
    /// The earliest and the latest; null: all is served.
    oom_event: [Option<u32>; 2],
}

impl RangeInfo {
    fn of(range: &FigureRange) -> RangeInfo {
        let ends = |figure: &RangeInclusive<u64>| [*figure.start(), *figure.end()];
        RangeInfo {
            peak_reserved: ends(&range.reserved),
            peak_allocated: ends(&range.allocated),
            peak_active: ends(&range.active),
            peak_requested: ends(&range.requested),
            segments_peak: ends(&range.segments),
            retries: ends(&range.retries),
            ooms: ends(&range.ooms),
            device_allocs: ends(&range.device_allocs),
            device_frees: ends(&range.device_frees),
            oom_event: [range.failure.0, range.failure.1].map(|event| event.map(|event| event.0)),
        }
    }
}

#[derive(Serialize)]
struct CardInfo {
    /// The least that the allocator must be able to hold.
    holds: u64,
    /// The same with what others hold of the card.
    capacity: u64,
}

#[derive(Serialize)]
struct FailureInfo {
    event: u32,
    requested: u64,
}

#[derive(Serialize)]
struct FidelityInfo {
    placed_as_recorded: u64,
    allocations: u64,
    first_divergence: Option<u32>,
}

impl<'a> ScenarioInfo<'a> {
    fn of(row: &'a ScenarioRow, fidelity: &Fidelity) -> ScenarioInfo<'a> {
        let counters = &row.outcome.counters;
        ScenarioInfo {
            settings: &row.settings,
            policy: row.policy(),
            recorded: row.is_recorded,
            capacity: row.scenario.total,
            completed: row.outcome.failure.is_none(),
            oom: row.outcome.failure.map(|failure| FailureInfo { event: failure.event.0, requested: failure.requested }),
            peak_reserved: counters.reserved.peak,
            peak_allocated: counters.allocated.peak,
            peak_active: counters.active.peak,
            peak_requested: counters.requested.peak,
            segments_peak: counters.segments.peak,
            retries: counters.retries,
            ooms: counters.ooms,
            device_allocs: counters.device_allocs,
            device_frees: counters.device_frees,
            served_instead: row.outcome.served_instead.map(|event| event.0),
            spare: row.spare(),
            smallest_card: row
                .smallest
                .as_ref()
                .and_then(Option::as_ref)
                .map(|card| CardInfo { holds: card.capacity, capacity: card.total }),
            fidelity: FidelityInfo {
                placed_as_recorded: fidelity.placed_as_recorded,
                allocations: fidelity.allocations,
                first_divergence: fidelity.first_divergence.map(|event| event.0),
            },
            range: row.range.as_ref().map(RangeInfo::of),
            change: row.change.as_ref(),
        }
    }
}
