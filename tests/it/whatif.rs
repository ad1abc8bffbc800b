//! What comes out of the simulator: a run as a snapshot, all settings at once, and what the command line and the verdict
//! say of them.

use crate::samples;
use crate::simulator::{CONTEXT, asked, counters_of, files, recorded};
use fragscope::analysis::UsageTimeline;
use fragscope::base::Progress;
use fragscope::model::{
    Action, AllocatorSettings, DeviceId, DeviceMemory, EventIdx, OriginKind, Position, Snapshot, WarningKind,
};
use fragscope::replay::{MemoryState, Replay};
use fragscope::simulator::{
    AtFailure, EmptyCaches, Fidelity, Outcome, Recorded, RequestStream, Scenario, capacity_told, conf, record, simulate, sweep,
};

/// A recording ready to be served again.
struct Job {
    name: String,
    snapshot: Snapshot,
    id: DeviceId,
    asked: RequestStream,
    recorded: Recorded,
    fidelity: Fidelity,
}

/// All devices with a history of the samples and of the collection.
fn jobs() -> impl Iterator<Item = Job> {
    files().into_iter().flat_map(|path| {
        let (snapshot, counters) = (samples::open(&path), counters_of(&path));
        let with_history = |memory: &DeviceMemory| memory.has_history() && 0 <= memory.ordinal;
        let ids: Vec<DeviceId> = snapshot.devices.iter().filter(|(_, memory)| with_history(memory)).map(|(id, _)| id).collect();
        ids.into_iter().map(move |id| {
            let replay = Replay::new(&snapshot.devices[id]);
            let mut asked = asked(&snapshot, id, &replay);
            let recorded = recorded(&snapshot, &counters);
            let fidelity = Fidelity::of(&snapshot, id, &replay, &mut asked, &recorded, &Progress::new());
            let fidelity = fidelity.expect("nobody cancels").expect("a release");
            let name = format!("{} device {}", path.display(), snapshot.devices[id].ordinal);
            Job { name, snapshot: snapshot.clone(), id, asked, recorded, fidelity }
        })
    })
}

impl Job {
    fn memory(&self) -> &DeviceMemory {
        &self.snapshot.devices[self.id]
    }
    /// As it was recorded, on the card its failures tell, else its environment.
    fn as_recorded(&self) -> Scenario {
        let capacity = capacity_told(self.memory(), &Replay::new(self.memory()));
        let total = self.recorded.total;
        let capacity = capacity.or(total.map(|total| total - CONTEXT));
        Scenario { capacity, total, ..Scenario::new(self.recorded.settings.clone(), self.fidelity.rules) }
    }
    fn under(&self, text: &str) -> Scenario {
        let mut settings = AllocatorSettings { conf: text.to_owned(), ..AllocatorSettings::default() };
        settings.per_process_memory_fraction = self.recorded.settings.per_process_memory_fraction;
        conf::read(&mut settings, text, &self.snapshot.origin).expect("settings");
        Scenario { settings, ..self.as_recorded() }
    }
    fn record(&self, scenario: &Scenario) -> (Outcome, Snapshot) {
        record(&self.snapshot, self.id, &self.asked, scenario, &Progress::new()).expect("nobody cancels")
    }
}

/// What a state counts: reserved, allocated, active, requested, largest free block, segments.
fn counted(state: &MemoryState) -> [u64; 6] {
    let totals = state.totals;
    let segments = state.segments.len() as u64;
    [totals.reserved, totals.allocated, totals.active, totals.requested, state.largest_free_block, segments]
}

/// The only device of a simulated snapshot.
fn simulated(snapshot: &Snapshot) -> &DeviceMemory {
    assert_eq!((snapshot.devices.len(), snapshot.origin.kind), (1, OriginKind::Simulation));
    &snapshot.devices.as_slice()[0]
}

/// Warnings of a snapshot but the one that says what it is.
fn warned(snapshot: &Snapshot) -> Vec<String> {
    let warnings =
        snapshot.warnings.iter().filter(|(kind, ..)| *kind != WarningKind::Note && *kind != WarningKind::TimeBackwards);
    warnings.map(|(kind, count, first)| format!("{} {count}: {first}", kind.name())).collect()
}

/// Checks states at this many positions of a trace, and the first and the last.
const POSITIONS: u32 = 400;

#[test]
fn a_run_as_recorded_is_the_recording() {
    let mut wrong = Vec::new();
    for job in jobs() {
        let memory = job.memory();
        // Where blocks older than the trace are equal, their order is not known; where settings changed, nothing is.
        if job.fidelity.first_divergence.is_some() || 0 < job.fidelity.taught {
            continue;
        }
        let (outcome, snapshot) = job.record(&job.as_recorded());
        let again = simulated(&snapshot);
        let (ours, theirs) = (again.trace.actions(), memory.trace.actions());
        let left_out = |action: &Action| *action == Action::Unknown;
        let kept: Vec<EventIdx> = memory.trace.events().filter(|event| !left_out(&theirs[event.0 as usize])).collect();
        let differs = kept.iter().zip(again.trace.events()).find(|(there, here)| {
            let (was, is) = (memory.trace.entry(**there), again.trace.entry(*here));
            let of_segment = was.action.name().starts_with("segment");
            (was.action, was.size, was.stream) != (is.action, is.size, is.stream)
                || (!of_segment && (was.stack, was.time_us, was.user_metadata) != (is.stack, is.time_us, is.user_metadata))
        });
        if let Some((there, here)) = differs.filter(|_| kept.len() == ours.len()) {
            let (was, is) = (memory.trace.entry(*there), again.trace.entry(here));
            wrong.push(format!("{}: event {} {was:?} came out as {is:?}", job.name, there.0));
            continue;
        }
        if kept.len() != ours.len() {
            let at = kept.iter().zip(ours).position(|(there, is)| theirs[there.0 as usize] != *is);
            wrong.push(format!("{}: {} events of {}, other from {at:?}; {outcome:?}", job.name, ours.len(), kept.len()));
            continue;
        }
        if !warned(&snapshot).is_empty() {
            wrong.push(format!("{}: {:?}", job.name, warned(&snapshot)));
        }
        let (replay, replay_again) = (Replay::new(memory), Replay::new(again));
        for step in 0..=POSITIONS {
            let at = (kept.len() as u64 * u64::from(step) / u64::from(POSITIONS)) as usize;
            let there = at.checked_sub(1).map_or(Position::START, |row| Position::after(kept[row]));
            let was = counted(&replay.state_at(memory, there));
            let is = counted(&replay_again.state_at(again, Position(at as u32)));
            if was != is {
                wrong.push(format!("{}: at {at} {was:?} came out as {is:?}", job.name));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} runs are not the recording:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_run_counts_what_its_snapshot_counts() {
    let mut wrong = Vec::new();
    for job in jobs().filter(|job| job.memory().trace.len() < 400_000) {
        let small = job.as_recorded().capacity.unwrap_or(u64::MAX).min(4 << 30) * 3 / 4;
        let plain = job.under("");
        let scenarios = [
            job.under("expandable_segments:True"),
            Scenario { capacity: Some(small), ..job.under("max_split_size_mb:64,roundup_power2_divisions:4") },
            Scenario { capacity: Some(small), at_failure: AtFailure::Endless, ..job.under("expandable_segments:True") },
            Scenario { empty_caches: EmptyCaches::Without, capacity: Some(small), ..plain },
        ];
        for scenario in scenarios {
            let (outcome, snapshot) = job.record(&scenario);
            let plainly = simulate(&job.asked, &scenario, &Progress::new()).expect("nobody cancels");
            assert_eq!((plainly.counters, plainly.failure), (outcome.counters, outcome.failure), "{}", job.name);
            let memory = simulated(&snapshot);
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            let peaks = [&usage.reserved, &usage.allocated, &usage.active, &usage.requested].map(|curve| curve.peak().1);
            let counters = &outcome.counters;
            let gauges = [counters.reserved, counters.allocated, counters.active, counters.requested].map(|gauge| gauge.peak);
            let count = |action: Action| memory.trace.actions().iter().filter(|is| **is == action).count() as u64;
            let calls = [
                count(Action::SegmentAlloc) + count(Action::SegmentMap),
                count(Action::SegmentFree) + count(Action::SegmentUnmap),
                count(Action::Oom),
            ];
            let counted = [counters.device_allocs, counters.device_frees, counters.ooms];
            if peaks != gauges || calls != counted {
                wrong.push(format!(
                    "{} {:?}: peaks {peaks:?} not {gauges:?}, calls {calls:?} not {counted:?}",
                    job.name, scenario.settings.conf
                ));
            }
            if !warned(&snapshot).is_empty() {
                wrong.push(format!("{} {:?}: {:?}", job.name, scenario.settings.conf, warned(&snapshot)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_sweep_ranks_what_each_setting_does_alone() {
    let mut recorded_rows = 0;
    for job in jobs().filter(|job| job.memory().trace.len() < 100_000) {
        let base = job.as_recorded();
        let rows = sweep(&job.asked, &base, &job.snapshot.origin, &Progress::new()).expect("nobody cancels");
        assert!(4 <= rows.len(), "{}", job.name);
        let mut seen = std::collections::BTreeSet::new();
        for row in &rows {
            let said = format!("{} {}", job.name, row.conf);
            let scenario = Scenario { settings: row.settings.clone(), ..base.clone() };
            let alone = simulate(&job.asked, &scenario, &Progress::new()).expect("nobody cancels");
            assert_eq!((alone.counters, alone.failure), (row.outcome.counters, row.outcome.failure), "{said}");
            assert!(seen.insert(row.conf.clone()), "{said}: twice");
            // What is to be pasted stands for what was simulated.
            let mut pasted = AllocatorSettings::default();
            conf::read(&mut pasted, &row.conf, &job.snapshot.origin).expect("settings of the release");
            let placing = |settings: &AllocatorSettings| AllocatorSettings {
                conf: String::new(),
                stated: false,
                other: Vec::new(),
                per_process_memory_fraction: None,
                ..settings.clone()
            };
            assert_eq!(placing(&pasted), placing(&row.settings), "{said}");
            recorded_rows += usize::from(row.is_recorded);
        }
        let ranks: Vec<_> = rows.iter().map(|row| (!row.completes(), row.outcome.counters.reserved.peak)).collect();
        let completing = ranks.iter().take_while(|(fails, _)| !fails).count();
        assert!(ranks[..completing].is_sorted() && ranks[completing..].iter().all(|(fails, _)| *fails), "{}", job.name);
        recorded_rows -= 1;
    }
    assert_eq!(recorded_rows, 0, "each sweep holds the recorded settings once");
}
