//! What happens when: spans and their figures, releases, rates, the cost of segments, and who held free memory.
//!
//! The oracle looks at every life, or at the state of every position, and knows nothing of sums kept on the way.

use crate::samples;
use fragscope::analysis::{
    Counters, Group, Held, RateParams, Rates, ReleaseReason, Releases, SegmentCost, SpanFigures, SpanKind, Spans, UsageTimeline,
};
use fragscope::base::Progress;
use fragscope::model::{Action, AllocationId, DeviceMemory, Position, Snapshot};
use fragscope::replay::Replay;
use std::path::PathBuf;

/// The samples, and the snapshots of the folder in `FRAGSCOPE_TRUTH_DIR` where there is one.
fn files() -> Vec<PathBuf> {
    let mut files = samples::pairs(&samples::folder());
    if let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") {
        files.extend(samples::pairs(std::path::Path::new(&folder)));
    }
    files
}

fn each_device(mut check: impl FnMut(&str, &Snapshot, &DeviceMemory, &Replay)) {
    for path in files() {
        let snapshot = samples::open(&path);
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()) {
            // What takes every position of a large file is for the samples.
            if memory.trace.len() <= 60_000 {
                let folder = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
                let place = format!("{folder}/{}, {}", samples::stem(&path), memory.title());
                check(&place, &snapshot, memory, &Replay::new(memory));
            }
        }
    }
}

#[test]
fn figures_of_spans_equal_a_look_at_every_life() {
    let (mut annotations, mut runs) = (0, 0);
    each_device(|place, _, memory, replay| {
        let figures = SpanFigures::of(memory, &Progress::new()).expect("nobody cancels");
        assert_eq!(figures.spans, Spans::of(memory, &Progress::new()).expect("nobody cancels"), "{place}");
        let step = 1 + figures.spans.rows.len() / 60;
        for (span, sums) in figures.spans.rows.iter().zip(&figures.sums).step_by(step) {
            let what = format!("{place}: {span:?}");
            assert!(span.from <= span.to && span.to <= memory.end(), "{what}");
            match span.kind {
                SpanKind::Annotation => annotations += 1,
                SpanKind::Metadata | SpanKind::Note | SpanKind::Compile => runs += 1,
            }
            let inside = |at: Position| span.from < at && at <= span.to;
            let lives = memory.allocations.ids().map(|id| memory.allocations.get(id)).filter(|life| life.born < life.freed);
            let (mut allocated, mut freed) = ((0, 0), (0, 0));
            for life in lives {
                if inside(life.born) {
                    allocated = (allocated.0 + 1, allocated.1 + life.size);
                }
                if inside(life.freed) {
                    freed = (freed.0 + 1, freed.1 + life.size);
                }
            }
            assert_eq!((sums.allocations, sums.allocated), allocated, "{what}");
            assert_eq!((sums.frees, sums.freed), freed, "{what}");
            assert_eq!(sums.change(), i128::from(sums.allocated) - i128::from(sums.freed), "{what}");
            let at = |position| replay.state_at(memory, position).totals.allocated;
            assert_eq!((sums.at_start, sums.at_end), (at(span.from), at(span.to)), "{what}");
            assert_eq!(sums.peak, at(sums.peak_at), "{what}");
            let step = 1 + span.events() as usize / 200;
            for position in (span.from.0..=span.to.0).step_by(step).map(Position) {
                assert!(at(position) <= sums.peak, "{what} at {position:?}");
            }
        }
        let grouped: usize = figures.groups.iter().map(|group| group.rows.len()).sum();
        assert_eq!(grouped, figures.spans.rows.len(), "{place}: every span is in one group");
        for group in &figures.groups {
            let peaks: Vec<u64> = group.rows.iter().map(|row| figures.sums[*row as usize].peak).collect();
            let ends = (peaks.iter().copied().min(), peaks.iter().copied().max());
            assert_eq!(ends, (Some(group.peak.least), Some(group.peak.most)), "{place}: {group:?}");
            assert!(group.rows.iter().all(|row| figures.spans.rows[*row as usize].name == group.name), "{place}");
        }
        // Lanes never hold two at once.
        for kind in SpanKind::ALL {
            let mut ends = std::collections::BTreeMap::new();
            for span in figures.spans.of_kind(kind) {
                let end = ends.insert(span.lane, span.to).unwrap_or_default();
                assert!(end <= span.from, "{place}: {span:?} begins before {end:?}");
            }
        }
    });
    assert!(10 < annotations, "{annotations} annotations and {runs} runs in the samples");
}

#[test]
fn counters_of_many_positions_are_those_of_each() {
    each_device(|place, _, memory, replay| {
        let positions: Vec<Position> =
            (0..=200u64).map(|share| Position((u64::from(memory.end().0) * share / 200) as u32)).collect();
        let found = Counters::at_all(memory, &positions, &Progress::new()).expect("nobody cancels");
        assert_eq!(found.len(), positions.len(), "{place}");
        for (position, found) in positions.into_iter().zip(found) {
            assert_eq!(found, Counters::of(&replay.state_at(memory, position), &memory.trace), "{place} at {position:?}");
        }
    });
}

#[test]
fn rates_add_up_to_what_was_allocated_and_freed() {
    each_device(|place, _, memory, _| {
        let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
        for (by_time, bucket) in [(false, 1), (false, 7), (false, 500), (true, 1000), (true, 1_000_000)] {
            let params = RateParams { group: Group::Device, by_time, bucket };
            let rates = Rates::of(memory, &params, &Progress::new()).expect("nobody cancels");
            let buckets = rates.allocated.last().0;
            if !by_time {
                let mut grown = i128::from(usage.allocated.at(Position::START));
                for bucket in (0..=buckets).map(Position) {
                    grown += i128::from(rates.allocated.at(bucket)) - i128::from(rates.freed.at(bucket));
                    let end = u64::from(bucket.0 + 1) * rates.bucket - 1;
                    let end = Position(u32::try_from(end).unwrap_or(u32::MAX)).min(memory.end());
                    assert_eq!(grown, i128::from(usage.allocated.at(end)), "{place}: {bucket:?} of {params:?}");
                }
                let groups = Group::all(memory).into_iter().filter(|group| matches!(group, Group::Half(..)));
                let parts: Vec<Rates> = groups
                    .map(|group| Rates::of(memory, &RateParams { group, ..params }, &Progress::new()).expect("nobody cancels"))
                    .collect();
                for bucket in (0..=buckets).step_by(1 + buckets as usize / 50).map(Position) {
                    let sum: u64 = parts.iter().map(|part| part.allocations.at(bucket)).sum();
                    assert_eq!(sum, rates.allocations.at(bucket), "{place}: groups in {bucket:?} of {params:?}");
                }
            }
            let lives = memory.allocations.ids().map(|id| memory.allocations.get(id)).filter(|life| life.born < life.freed);
            let born = lives.filter(|life| life.born != Position::START).count() as f64;
            let per_bucket = if by_time { rates.bucket as f64 / 1e6 } else { 1.0 };
            let found: f64 = (0..=buckets).map(|bucket| rates.allocations.at(Position(bucket)) as f64 * per_bucket).sum();
            let lost = if by_time { f64::from(buckets + 1) * per_bucket } else { 0.5 };
            assert!((found - born).abs() <= lost + 1e-6, "{place}: {found} of {born} allocations, {params:?}");
        }
    });
}

#[test]
fn segments_taken_less_given_back_is_what_reserved_grew() {
    let mut timed = 0;
    each_device(|place, _, memory, _| {
        let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
        let cost = SegmentCost::of(memory, Group::Device, &Progress::new()).expect("nobody cancels");
        let actions = memory.trace.actions();
        let count = |wanted: [Action; 2]| actions.iter().filter(|action| wanted.contains(action)).count() as u64;
        assert_eq!(cost.taken.at(memory.end()), count([Action::SegmentAlloc, Action::SegmentMap]), "{place}");
        assert_eq!(cost.given_back.at(memory.end()), count([Action::SegmentFree, Action::SegmentUnmap]), "{place}");
        let start = usage.reserved.at(Position::START);
        for share in 0..=100u64 {
            let at = Position((u64::from(memory.end().0) * share / 100) as u32);
            let grown = start + cost.taken_bytes.at(at) - cost.given_back_bytes.at(at);
            assert_eq!(grown, usage.reserved.at(at), "{place} at {at:?}");
        }
        let groups = Group::all(memory).into_iter().filter(|group| matches!(group, Group::Pool(_)));
        let of_pools = groups.map(|group| SegmentCost::of(memory, group, &Progress::new()).expect("nobody cancels"));
        let taken: u64 = of_pools.map(|cost| cost.taken.at(memory.end())).sum();
        assert_eq!(taken, cost.taken.at(memory.end()), "{place}: all pools");
        if let (Some(time), Some((first, last))) = (&cost.time_us, memory.trace.time_span_us()) {
            assert!(time.at(memory.end()) <= u64::try_from(last - first).unwrap_or(0), "{place}: longer than the recording");
            timed += 1;
        }
    });
    assert!(3 < timed);
}

/// Settings under which releases are not all `empty_cache()` or counted retries.
const MORE_RELEASES: [&str; 2] = ["gc", "maxsplit"];
/// Recordings that do not hold all of their process.
const PARTIAL: [&str; 5] = ["late", "ring_1000", "stopped", "enabled_state", "segments_only"];

#[test]
fn releases_are_told_from_retries() {
    let (mut caches, mut retries_seen) = (0, 0);
    for path in files() {
        let name = samples::stem(&path);
        let counters = std::fs::read_to_string(samples::counters_of(&path)).expect("readable counters");
        let counters: serde_json::Value = serde_json::from_str(&counters).expect("counters are JSON");
        let snapshot = samples::open(&path);
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used() && 0 <= memory.ordinal) {
            let replay = Replay::new(memory);
            let found = Releases::of(memory, &replay, &snapshot.settings, &snapshot.stacks, &Progress::new());
            let found = found.expect("nobody cancels");
            let place = format!("{}, {}", path.display(), memory.title());
            let released = memory.trace.actions().iter().filter(|a| matches!(a, Action::SegmentFree | Action::SegmentUnmap));
            assert_eq!(found.runs.iter().map(|run| run.count as usize).sum::<usize>(), released.count(), "{place}");
            assert!(found.runs.is_sorted_by(|a, b| a.events.end <= b.events.start), "{place}");
            let retried = found.runs.iter().filter(|run| run.reason == ReleaseReason::Retry).count() as u64;
            let stats = &counters["devices"][memory.ordinal as usize]["stats"];
            let retries = stats["num_alloc_retries"].as_u64().unwrap_or_default();
            let skipped = MORE_RELEASES.iter().any(|setting| name.contains(setting)) || PARTIAL.iter().any(|p| name.contains(p));
            // A retry that finds nothing to release leaves no trace.
            assert!(skipped || retried <= retries, "{place}: {retried} runs for {retries} retries: {:?}", found.runs);
            retries_seen += retried;
            for run in found.empty_caches() {
                caches += 1;
                // Nothing that could have gone is left: no empty segment of the default pool.
                let state = replay.state_at(memory, Position(run.events.end));
                let left = state.segments.iter().filter(|segment| {
                    let empty = state.blocks_of(segment).iter().all(|block| block.allocation.is_none());
                    segment.pool == fragscope::model::PoolId::DEFAULT && empty && !segment.expandable && !segment.inferred
                });
                let next = memory.trace.actions().get(run.events.end as usize);
                let of_default = next.is_none_or(|action| *action != Action::SegmentFree);
                assert!(!of_default || left.count() == 0 || name.contains("graphs"), "{place}: {run:?}");
            }
        }
    }
    println!("{caches} caches given back, {retries_seen} retries");
    assert!(0 < retries_seen, "no retry in the samples");
}

#[test]
fn held_memory_equals_a_look_at_every_position() {
    let mut most = 0;
    each_device(|place, _, memory, replay| {
        if 12_000 < memory.trace.len() {
            return;
        }
        let held = Held::of(memory, &Progress::new()).expect("nobody cancels");
        let mut expected = vec![0u64; memory.allocations.len()];
        for position in (0..=memory.end().0).map(Position) {
            let state = replay.state_at(memory, position);
            for segment in &state.segments {
                let blocks = state.blocks_of(segment);
                let free: u64 = blocks.iter().filter(|block| block.allocation.is_none()).map(|block| block.size).sum();
                let count = blocks.iter().filter(|block| block.allocation.is_some()).count() as u64;
                for id in blocks.iter().filter_map(|block| block.allocation) {
                    let most = &mut expected[id.0 as usize];
                    *most = (*most).max(free / count);
                }
            }
        }
        for (row, expected) in expected.iter().enumerate() {
            let id = AllocationId(row as u32);
            assert_eq!(held.of_block(id), *expected, "{place}: {:?}", memory.allocations.get(id));
        }
        most = most.max(expected.iter().copied().max().unwrap_or(0));
    });
    assert!(0 < most);
}
