//! Recordings that begin mid-run: traces cut short at their front. The simulator starts from the layout that follows from
//! what is left, and reproduces the rest but for what nothing in it tells.

use crate::samples;
use crate::simulator::{asked, counters_of, files, recorded};
use fragscope::base::Progress;
use fragscope::model::{DeviceId, EventIdx, Missing, Snapshot};
use fragscope::replay::{BlockRecord, Replay, SegmentRecord, SnapshotBuilder};
use fragscope::simulator::Fidelity;

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

#[test]
fn cut_recordings_are_reproduced() {
    let (mut all, mut placed, mut taught, mut exact, mut runs) = (0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for path in files() {
        let (snapshot, counters) = (samples::open(&path), counters_of(&path));
        for (id, memory) in snapshot.devices.iter().filter(|(_, memory)| memory.has_history() && 0 <= memory.ordinal) {
            // The large ones repeat what the others show.
            if 200_000 < memory.trace.len() || memory.coverage.lacks(Missing::Start) {
                continue;
            }
            for (share, from) in [("1/3", memory.trace.len() as u32 / 3), ("1/2", memory.trace.len() as u32 / 2)] {
                let cut = cut(&snapshot, id, from);
                let (device, rest) = cut.devices.iter().next().expect("a device");
                let replay = Replay::new(rest);
                let mut asked = asked(&cut, device, &replay);
                let recorded = recorded(&cut, &counters);
                let found = Fidelity::of(&cut, device, &replay, &mut asked, &recorded, &Progress::new());
                let found = found.expect("nobody cancels").expect("a release");
                runs += 1;
                exact += u64::from(found.first_divergence.is_none());
                (all, placed, taught) = (all + found.allocations, placed + found.placed_as_recorded, taught + found.taught);
                println!(
                    "{:60} {share} {:>9} of {:>9} {:?} taught {} first divergence {:?}",
                    path.display(),
                    found.placed_as_recorded,
                    found.allocations,
                    found.rules.tie,
                    found.taught,
                    found.first_divergence,
                );
                // A hundredth: what was freed in the recording and never shown again has an end nobody knows.
                if (found.allocations - found.placed_as_recorded) * 100 > found.allocations {
                    wrong.push(format!("{} from {share}: {found:?}", path.display()));
                }
            }
        }
    }
    println!("{placed} of {all} allocations in {runs} runs, {taught} of them taught; {exact} runs exact");
    assert!(wrong.is_empty(), "cut recordings not reproduced:\n{}", wrong.join("\n"));
}
