//! The JSON of `whatif`: one object a scenario. Its names are a promise to scripts.

use crate::simulator::{Fidelity, Outcome};
use serde::Serialize;
use std::io::{self, Write};

/// A scenario and what came out.
pub struct ScenarioRow {
    /// Its settings, as a settings string.
    pub settings: String,
    /// The card's memory in bytes; none where it has no end.
    pub capacity: Option<u64>,
    /// What came out.
    pub outcome: Outcome,
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
    fidelity: FidelityInfo,
    /// Over the placements a driver could have chosen: not looked at.
    range: Option<()>,
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
            capacity: row.capacity,
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
            fidelity: FidelityInfo {
                placed_as_recorded: fidelity.placed_as_recorded,
                allocations: fidelity.allocations,
                first_divergence: fidelity.first_divergence.map(|event| event.0),
            },
            range: None,
        }
    }
}
