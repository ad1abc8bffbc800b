//! PyTorch's table and counters, line by line and to the byte, against what PyTorch printed when a file was written.

use crate::samples;
use fragscope::analysis::{MemorySummary, Metric, Pressure, ReleaseCause, StatScope, SummaryReach, UsageTimeline};
use fragscope::base::Progress;
use fragscope::model::{Action, DeviceId, Missing, Position, Snapshot};
use fragscope::replay::Replay;
use fragscope::report::memory_summary;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn summary_at(snapshot: &Snapshot, id: DeviceId, position: Position) -> MemorySummary {
    let memory = &snapshot.devices[id];
    MemorySummary::of(snapshot, memory, &Replay::new(memory), position, &Progress::new()).expect("nobody cancels")
}

/// What PyTorch printed of the devices of a file, one table after the other, where it is at hand.
fn printed(path: &Path, counters: &Value) -> Option<String> {
    let tables: Vec<&str> = counters["devices"]
        .as_array()?
        .iter()
        .filter_map(|device| Some(device["summary"].as_str()?.trim_matches('\n')))
        .collect();
    if !tables.is_empty() {
        return Some(tables.join("\n\n"));
    }
    let name = format!("tests/expected/memory_summary_{}.txt", samples::stem(path));
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).ok()
}

fn counters(path: &Path) -> Value {
    let text = std::fs::read_to_string(samples::counters_of(path)).expect("readable counters");
    serde_json::from_str(&text).expect("counters are JSON")
}

#[test]
fn the_samples_end_as_pytorch_printed_them() {
    check_all(&samples::pairs(&samples::folder()), 8);
}

/// Set `FRAGSCOPE_TRUTH_DIR` to a folder of such pairs, at any depth, to check them all.
#[test]
fn a_folder_of_snapshots_ends_as_pytorch_printed_it() {
    let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of snapshots with their counters");
        return;
    };
    check_all(&samples::pairs(Path::new(&folder)), 1);
}

fn check_all(files: &[PathBuf], at_least: usize) {
    assert!(at_least <= files.len(), "{} files", files.len());
    let mut wrong = String::new();
    let mut whole = 0;
    for path in files {
        whole += check(path, &mut wrong);
    }
    assert!(0 < whole, "no table was compared");
    assert!(wrong.is_empty(), "{whole} tables were compared, these differ from PyTorch's:\n{wrong}");
}

/// Compares each device's table at the end with the printed one; says how many could be compared whole.
fn check(path: &Path, wrong: &mut String) -> usize {
    let (counters, snapshot) = (counters(path), samples::open(path));
    let printed = printed(path, &counters);
    let mut whole = 0;
    for (ordinal, device) in (0i32..).zip(counters["devices"].as_array().into_iter().flatten()) {
        let Some(id) = snapshot.device_of_ordinal(ordinal) else { continue };
        let memory = &snapshot.devices[id];
        if !memory.is_used() || memory.trace.is_empty() && memory.segments.is_empty() {
            continue;
        }
        let summary = summary_at(&snapshot, id, memory.end());
        let place = format!("{}: device {ordinal}", path.display());
        let collects = 0.0 < snapshot.settings.garbage_collection_threshold;
        assert!(summary.retries.is_some() || collects || summary.reach == SummaryReach::Nothing, "{place}: retries are known");
        // An observer writes its file at the failure; the counters are from after the exception.
        let moved_on = !counters["observer"].is_null();
        let is_whole = summary.reach == SummaryReach::Whole;
        let sizes_follow = !memory.coverage.lacks(Missing::Sizes) || counters["env"]["PYTORCH_CUDA_ALLOC_CONF"].is_null();
        if let (Some(retries), Some(synchronised), true) =
            (summary.retries, device["stats"]["num_sync_all_streams"].as_u64(), is_whole)
        {
            // Each retry and each `empty_cache()` synchronises once, those that find nothing to release included.
            let pressure = Pressure::of(&snapshot, memory, &Replay::new(memory), &Progress::new()).expect("nobody cancels");
            let emptied = pressure.of_cause(ReleaseCause::EmptyCache).count() as u64;
            if synchronised < retries + emptied {
                let _ = writeln!(wrong, "{place}: {retries} retries and {emptied} empty_cache, {synchronised} synchronisations");
            }
        }
        for (name, ours) in summary.stats() {
            let Some(theirs) = device["stats"][name.as_str()].as_i64().map(i128::from) else { continue };
            let of_now = name.ends_with("current");
            let of_freed = name.ends_with("freed") || name.starts_with("num_device_free");
            let skipped = match (of_now, moved_on) {
                (true, true) => true,
                (true, false) => false,
                (false, moved_on) => !is_whole || !sizes_follow || (moved_on && (of_freed || name.starts_with("inactive_split"))),
            };
            if !skipped && ours.is_some_and(|ours| ours != theirs) {
                let _ = writeln!(wrong, "{place}: {name} is {ours:?}, PyTorch says {theirs}");
            }
        }
        let table = printed.as_ref().and_then(|text| text.split("\n\n").nth(ordinal as usize));
        if let Some(table) = table.filter(|_| is_whole && sizes_follow && !moved_on) {
            whole += 1;
            let text = memory_summary::text(&summary);
            assert_eq!(text.lines().count(), table.lines().count(), "{place}");
            for (ours, theirs) in text.lines().zip(table.lines()) {
                // Settings that the file does not state leave these two rows open.
                let oversize = !snapshot.settings.stated && theirs.starts_with("| Oversize");
                // A garbage collection that left nothing releasable looks like a retry.
                let collected = summary.retries.is_none() && theirs.contains("cudaMalloc retries");
                let open = oversize || collected;
                if ours != theirs && !open {
                    let _ = writeln!(wrong, "{place}:\n  {ours}\n  {theirs}");
                }
            }
        }
    }
    whole
}

#[test]
fn figures_agree_with_the_state_and_the_curves_at_every_moment() {
    for path in samples::pairs(&samples::folder()) {
        let snapshot = samples::open(&path);
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used() && 0 <= memory.ordinal) {
            let replay = Replay::new(memory);
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            let end = memory.end().0;
            for at in (0..6).map(|i| Position(end * i / 5)) {
                let place = format!("{}, device {}, {at:?}", path.display(), memory.ordinal);
                let state = replay.state_at(memory, at);
                let summary = MemorySummary::of(&snapshot, memory, &replay, at, &Progress::new()).expect("nobody cancels");
                let totals = state.totals;
                for (metric, now, curve) in [
                    (Metric::AllocatedBytes, totals.allocated, Some(&usage.allocated)),
                    (Metric::ActiveBytes, totals.active, Some(&usage.active)),
                    (Metric::RequestedBytes, totals.requested, Some(&usage.requested)),
                    (Metric::ReservedBytes, totals.reserved, Some(&usage.reserved)),
                    (Metric::InactiveSplitBytes, state.inactive_split, None),
                    (Metric::Active, state.active_blocks, None),
                ] {
                    let all = summary.figures(metric, StatScope::All);
                    assert_eq!(all.current, Some(now), "{place}: {metric:?}");
                    let most = curve.map(|curve| curve.max_in(Position::START, Position(at.0 + 1)).1);
                    if let (Some(most), Some(peak)) = (most, all.peak) {
                        assert_eq!(peak, most, "{place}: peak of {metric:?}");
                    }
                }
                for metric in Metric::ALL {
                    let [all, large, small] = StatScope::ALL.map(|scope| summary.figures(metric, scope).named().map(|(_, v)| v));
                    for column in [0, 2, 3] {
                        let sum = large[column].zip(small[column]).map(|(large, small)| large + small);
                        assert_eq!(all[column], sum, "{place}: {metric:?}, column {column}");
                    }
                    let [now, peak, added, gone] = all;
                    assert_eq!(peak.is_none(), summary.reach == SummaryReach::Nothing, "{place}: {metric:?}");
                    assert!(peak.is_none_or(|peak| now <= Some(peak)), "{place}: {metric:?}");
                    if summary.reach == SummaryReach::Whole {
                        assert_eq!(added.zip(gone).map(|(added, gone)| added - gone), now, "{place}: {metric:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_release_has_its_reason() {
    let mut files = samples::pairs(&samples::folder());
    files.extend(std::env::var_os("FRAGSCOPE_TRUTH_DIR").map(|folder| samples::pairs(Path::new(&folder))).unwrap_or_default());
    for path in files {
        let snapshot = samples::open(&path);
        for memory in snapshot.devices.as_slice() {
            let pressure = Pressure::of(&snapshot, memory, &Replay::new(memory), &Progress::new()).expect("nobody cancels");
            let place = format!("{}, device {}", path.display(), memory.ordinal);
            let actions = memory.trace.actions();
            let is_release = |action: &&Action| matches!(action, Action::SegmentFree | Action::SegmentUnmap);
            let found: u64 = pressure.releases.iter().map(|release| u64::from(release.count)).sum();
            assert_eq!(found, actions.iter().filter(is_release).count() as u64, "{place}");
            for pair in pressure.releases.windows(2) {
                assert!(pair[0].events.end <= pair[1].events.start, "{place}: {pair:?}");
            }
            for release in &pressure.releases {
                assert!(release.regained.bytes <= release.bytes, "{place}: {release:?}");
                assert_eq!(
                    release.regained.complete.is_some(),
                    0 < release.bytes && release.regained.bytes == release.bytes,
                    "{place}: {release:?}"
                );
                assert_eq!(release.request.is_none(), release.cause == ReleaseCause::EmptyCache, "{place}: {release:?}");
            }
            let failed = pressure.of_cause(ReleaseCause::Retry).filter(|release| release.failed).count();
            assert!(failed <= memory.trace.ooms().len() && memory.trace.ooms().is_empty() == (failed == 0), "{place}");
        }
    }
}

/// Causes that the recordings are known to hold.
#[test]
fn retries_collections_and_empty_caches_are_told_apart() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/snapshots");
    for (name, retries, collections, oversize, empty_caches) in [
        ("2.11.0/train_tight_default", 2, 0, 0, 0),
        ("2.11.0/frag_oom_default", 5, 0, 0, 0),
        ("2.11.0/frag_oom_expandable", 6, 0, 0, 0),
        ("2.11.0/trimmed", 0, 0, 0, 4),
        ("2.11.0/trimmed_expandable", 0, 0, 0, 4),
        ("2.15.0/trimmed", 0, 0, 0, 4),
    ] {
        let path = shared.join(format!("{name}.pickle.gz"));
        if !path.is_file() {
            println!("skipped: {} is not there", path.display());
            continue;
        }
        let snapshot = samples::open(&path);
        let memory = &snapshot.devices.as_slice()[0];
        let pressure = Pressure::of(&snapshot, memory, &Replay::new(memory), &Progress::new()).expect("nobody cancels");
        let count = |cause| pressure.of_cause(cause).count();
        let found = (
            count(ReleaseCause::Retry),
            count(ReleaseCause::Collection),
            count(ReleaseCause::Oversize),
            count(ReleaseCause::EmptyCache),
        );
        assert_eq!(found, (retries, collections, oversize, empty_caches), "{name}: {:?}", pressure.releases);
    }
}
