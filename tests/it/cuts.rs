//! Recordings that begin mid-run: traces cut short at their front. The simulator starts from the layout that follows from
//! what is left, and reproduces the rest but for what nothing in it tells.

use crate::samples;
use crate::simulator::{CONTEXT, asked, card, counters_of, files, recorded};
use fragscope::analysis::Workload;
use fragscope::base::Progress;
use fragscope::model::{DeviceId, EventIdx, Missing, Position, Snapshot};
use fragscope::replay::{BlockRecord, Replay, SegmentRecord, SnapshotBuilder};
use fragscope::simulator::{Change, Chosen, Fidelity, Scenario, Start, capacity_told, change, simulate};

/// The snapshot that a ring without the first `from` events would have left.
fn cut(snapshot: &Snapshot, id: DeviceId, from: u32) -> Snapshot {
    let memory = &snapshot.devices[id];
    let mut builder = SnapshotBuilder::default();
    builder.stacks = snapshot.stacks.clone();
    builder.streams = snapshot.streams.clone();
    builder.pools = snapshot.pools.clone();
    builder.settings = snapshot.settings.clone();
    let state = Replay::new(memory).state_at(memory, memory.end());
    let device = builder.device(memory.ordinal);
    for event in from..memory.trace.len() as u32 {
        device.trace.push(memory.trace.entry(EventIdx(event)));
    }
    device.segments_known = true;
    device.segments = state
        .segments
        .iter()
        .map(|segment| SegmentRecord {
            address: segment.address,
            size: segment.size,
            stream: segment.stream,
            pool: segment.pool,
            class: segment.class,
            expandable: segment.expandable,
            stack: segment.stack,
            blocks: state
                .blocks_of(segment)
                .iter()
                .map(|block| BlockRecord {
                    address: Some(block.address),
                    size: block.size,
                    requested: Some(block.requested),
                    state: block.state,
                    stack: fragscope::model::StackId::ABSENT,
                })
                .collect(),
            stated_totals: [None; 3],
        })
        .collect();
    builder.finish(snapshot.origin.clone(), &Progress::new()).expect("nobody cancels")
}

/// Where traces are cut.
const CUTS: [(&str, u32, u32); 4] = [("1/7", 1, 7), ("1/3", 1, 3), ("1/2", 1, 2), ("5/7", 5, 7)];

/// With the recorded settings every allocation of a cut recording comes to lie where it lay; served again from what was
/// there, without anything recorded behind that, the same is counted as was.
#[test]
fn cut_recordings_are_reproduced() {
    let (mut all, mut placed, mut taught, mut exact, mut runs, mut counted_as_was) = (0, 0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for path in files() {
        let (snapshot, counters) = (samples::open(&path), counters_of(&path));
        for (id, memory) in snapshot.devices.iter().filter(|(_, memory)| memory.has_history() && 0 <= memory.ordinal) {
            // The large ones repeat what the others show.
            if 120_000 < memory.trace.len() || memory.coverage.lacks(Missing::Start) {
                continue;
            }
            let whole = Replay::new(memory);
            let capacity = capacity_told(memory, &whole).unwrap_or(card(&counters) - CONTEXT);
            for (share, part, of) in CUTS {
                let cut = cut(&snapshot, id, (memory.trace.len() as u64 * u64::from(part) / u64::from(of)) as u32);
                let device = cut.busiest_device().expect("a device");
                let (replay, _, summary) = samples::prepare(&cut, device);
                let mut asked = asked(&cut, device, &replay);
                let recorded = recorded(&cut, &counters);
                let found = Fidelity::of(&cut, device, &replay, &mut asked, &recorded, &Progress::new());
                let found = found.expect("nobody cancels").expect("a release");
                runs += 1;
                exact += u64::from(found.first_divergence.is_none());
                (all, placed, taught) = (all + found.allocations, placed + found.placed_as_recorded, taught + found.taught);
                let said = format!(
                    "{:60} {share} {:>9} of {:>9} {:?} taught {} first divergence {:?}",
                    path.display(),
                    found.placed_as_recorded,
                    found.allocations,
                    found.rules.tie,
                    found.taught,
                    found.first_divergence,
                );
                // How long garbage lay at the start is not known, nor which of two equal segments is the older one before it
                // shows: they may be given back in another order. Where everything is expandable neither matters.
                let misplaced = found.allocations - found.placed_as_recorded;
                let allowed = match (recorded.settings.expandable_segments, recorded.settings.garbage_collection_threshold) {
                    (true, _) => 0,
                    (false, 0.0) => found.allocations / 100,
                    (false, _) => found.allocations / 20,
                };
                if allowed < misplaced {
                    wrong.push(said.clone());
                }
                let settings = recorded.settings.clone();
                let scenario =
                    Scenario { capacity: Some(capacity), total: recorded.total, ..Scenario::new(settings, found.rules) };
                let outcome = simulate(&asked, &scenario, &Progress::new()).expect("nobody cancels");
                let ours = [outcome.counters.reserved.peak, outcome.counters.allocated.peak, outcome.counters.active.peak];
                let theirs = [summary.peak_reserved.bytes, summary.peak_allocated.bytes, summary.peak_active.bytes];
                counted_as_was += u64::from(ours == theirs);
                println!("{said}{}", if ours == theirs { String::new() } else { format!(" counted {ours:?} not {theirs:?}") });
            }
        }
    }
    println!(
        "{placed} of {all} allocations in {runs} runs, {taught} of them taught; {exact} runs exact, {counted_as_was} counted as was"
    );
    assert!((all - placed) * 1000 <= all, "more than a thousandth of {all} allocations lie elsewhere");
    assert!(wrong.is_empty(), "cut recordings not reproduced:\n{}", wrong.join("\n"));
}

/// Blocks that were there when the recording began are left out like those that it shows being made: without all of them a
/// run is what it is on an empty card.
#[test]
fn what_is_older_than_a_recording_can_be_left_out() {
    let path = samples::sample("late_start");
    let snapshot = samples::open(&path);
    let device = snapshot.busiest_device().expect("a device");
    let memory = &snapshot.devices[device];
    let (replay, progress) = (Replay::new(memory), Progress::new());
    let mut asked = asked(&snapshot, device, &replay);
    let recorded = recorded(&snapshot, &counters_of(&path));
    let found = Fidelity::of(&snapshot, device, &replay, &mut asked, &recorded, &progress);
    let found = found.expect("nobody cancels").expect("a release");
    let held = asked.start.as_ref().expect("it begins mid-run").active().count();
    assert!(0 < held);
    let lives = memory.allocations.born().iter().map(|born| *born == Position::START).collect();
    let older = Change::Drop(Chosen { words: "older".to_owned(), lives });
    let workload = Workload::of(&snapshot, device, &progress).expect("nobody cancels");
    let changed = change(&asked, &memory.allocations, &workload, &[older]).expect("some are found");
    assert!(changed.assumption.contains("older than the recording"), "{}", changed.assumption);
    let start = changed.asked.start.as_ref().expect("it still begins mid-run");
    let before = asked.start.as_ref().map_or(0, |start| start.segments.len());
    // Segments that held nothing stay in the cache.
    assert_eq!(start.active().count(), 0);
    assert!(start.segments.len() < before, "{} of {before} segments", start.segments.len());
    let scenario = Scenario::new(recorded.settings.clone(), found.rules);
    let left_out = simulate(&changed.asked, &scenario, &progress).expect("nobody cancels");
    let empty = Scenario { start: Start::Empty, ..scenario };
    let empty = simulate(&asked, &empty, &progress).expect("nobody cancels");
    assert_eq!(left_out.counters.requested, empty.counters.requested);
    // Blocks of segments that were there are not split alike.
    let (one, other) = (left_out.counters.allocated.peak, empty.counters.allocated.peak);
    assert!(one.abs_diff(other) < other / 100, "{one} and {other}");
}
