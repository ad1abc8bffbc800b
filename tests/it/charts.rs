//! Charts and what they rest on: fragmentation over time, lifetimes, pins, address over time, series.
//!
//! The oracle is the state at a position, which is built from the lives directly and knows nothing of curves.

use crate::samples;
use fragscope::analysis::fragmentation::external_ppm;
use fragscope::analysis::{
    Churn, Fragmentation, LeakParams, LeakSuspects, LifetimeParams, Lifetimes, Pins, Slices, Sum, UsageTimeline,
};
use fragscope::base::Progress;
use fragscope::model::{AllocatorSettings, BlockState, DeviceMemory, PoolId, Position, Snapshot, StreamId};
use fragscope::replay::{MemoryState, Replay};

/// Calls `check` with every device of every sample that holds anything.
fn each_device(mut check: impl FnMut(&str, &Snapshot, &DeviceMemory, &Replay)) {
    let mut seen = 0;
    for path in samples::pairs(&samples::folder()) {
        let snapshot = samples::open(&path);
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()) {
            let place = format!("{}, {}", samples::stem(&path), memory.title());
            check(&place, &snapshot, memory, &Replay::new(memory));
            seen += 1;
        }
    }
    assert!(5 < seen, "only {seen} devices in the samples");
}

/// Every curve against the state of one position.
fn compare(place: &str, curves: &Fragmentation, state: &MemoryState, settings: &AllocatorSettings, host: bool) {
    let at = state.position;
    let totals = &state.totals;
    for (name, curve, expected) in [
        ("pending free", &curves.pending_free, totals.pending_free()),
        ("free", &curves.free, totals.free()),
        ("inactive split", &curves.inactive_split, state.inactive_split),
        ("largest free block", &curves.largest_free_block, state.largest_free_block),
        ("segments", &curves.segments, state.segments.len() as u64),
        ("active blocks", &curves.active_blocks, state.active_blocks),
        ("external", &curves.external, external_ppm(state.largest_free_block, totals.free())),
        ("internal", &curves.internal, totals.active.saturating_sub(totals.requested)),
    ] {
        assert_eq!(curve.at(at), expected, "{place}: {name} at {at:?}");
    }
    let mut default_request = 0;
    for pool in &curves.pools {
        let key = (pool.pool, pool.class, pool.stream);
        let known = state.pools.iter().find(|known| (known.pool, known.class, known.stream) == key);
        let segments = state.segments.iter().filter(|segment| (segment.pool, segment.class, segment.stream) == key);
        let blocks = segments.flat_map(|segment| state.blocks_of(segment));
        let allocated: u64 = blocks.filter(|block| block.state == BlockState::ActiveAllocated).map(|block| block.size).sum();
        let largest = known.map_or(0, |known| known.largest_free_block);
        let request = if host { largest } else { settings.largest_request(largest, pool.class) };
        for (name, curve, expected) in [
            ("reserved", &pool.reserved, known.map_or(0, |known| known.reserved)),
            ("active", &pool.active, known.map_or(0, |known| known.active)),
            ("allocated", &pool.allocated, allocated),
            ("largest free block", &pool.largest_free_block, largest),
            ("largest request", &pool.largest_request, request),
        ] {
            assert_eq!(curve.at(at), expected, "{place}: {name} of {key:?} at {at:?}");
        }
        if pool.pool == PoolId::DEFAULT && pool.stream == StreamId::DEFAULT {
            default_request = default_request.max(request);
        }
    }
    assert_eq!(curves.largest_request.at(at), default_request, "{place}: largest request at {at:?}");
    for known in &state.pools {
        let key = (known.pool, known.class, known.stream);
        assert!(curves.pools.iter().any(|pool| (pool.pool, pool.class, pool.stream) == key), "{place}: {key:?} has no curves");
    }
}

#[test]
fn fragmentation_equals_the_state_at_every_event() {
    each_device(|place, snapshot, memory, replay| {
        let curves = Fragmentation::of(memory, &snapshot.settings, &Progress::new()).expect("nobody cancels");
        let halves = [0, 1].map(|half| (half..=memory.end().0).step_by(2));
        std::thread::scope(|scope| {
            for half in halves {
                let curves = &curves;
                scope.spawn(move || {
                    for position in half.map(Position) {
                        let state = replay.state_at(memory, position);
                        compare(place, curves, &state, &snapshot.settings, memory.ordinal < 0);
                    }
                });
            }
        });
    });
}

/// `FRAGSCOPE_BIG=a.pickle[:b.pickle…] cargo test --release --test it -- --ignored fragmentation_of_big --nocapture`
#[test]
#[ignore = "needs large files, named in FRAGSCOPE_BIG"]
fn fragmentation_of_big_files_equals_the_state() {
    let files = std::env::var("FRAGSCOPE_BIG").expect("FRAGSCOPE_BIG names files");
    for file in files.split(':') {
        let snapshot = samples::open(std::path::Path::new(file));
        let memory = &snapshot.devices[snapshot.busiest_device().expect("a device")];
        let replay = Replay::new(memory);
        let start = std::time::Instant::now();
        let curves = Fragmentation::of(memory, &snapshot.settings, &Progress::new()).expect("nobody cancels");
        let took = start.elapsed();
        use fragscope::base::HeapSize;
        println!(
            "{file}: {} events, {} lives, {} segments, {} pools: {took:.2?}, {:.1} MB",
            memory.trace.len(),
            memory.allocations.len(),
            memory.segments.len(),
            curves.pools.len(),
            curves.heap_size() as f64 / 1e6
        );
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let position = Position(((seed >> 33) % (memory.trace.len() as u64 + 1)) as u32);
            compare(file, &curves, &replay.state_at(memory, position), &snapshot.settings, memory.ordinal < 0);
        }
    }
}

fn sum_of(buckets: &[Sum]) -> Sum {
    buckets.iter().fold(Sum::default(), |sum, bucket| sum.and(*bucket))
}

#[test]
fn lifetimes_churn_and_growth_add_up_to_the_whole() {
    each_device(|place, snapshot, memory, replay| {
        let progress = Progress::new();
        let (lives, end) = (&memory.allocations, memory.end());
        let middle = LifetimeParams { from: Position(end.0 / 3), to: Position(end.0 / 3 * 2 + 1) };
        for params in [LifetimeParams::ALL, middle] {
            let found = Lifetimes::of(memory, &params, &progress).expect("nobody cancels");
            let mut whole = Sum::default();
            for life in lives.ids().map(|id| lives.get(id)) {
                if life.born < life.died && life.born < params.to && params.from < life.died {
                    whole.add(life.size);
                }
            }
            assert_eq!(found.total, whole, "{place}: total of {params:?}");
            assert_eq!(sum_of(&found.sizes), whole, "{place}: sizes of {params:?}");
            let by_end = sum_of(&found.events).and(found.older).and(found.outliving).and(found.throughout);
            assert_eq!(by_end, whole, "{place}: lifetimes of {params:?}");
            assert_eq!(sum_of(&found.micros).and(found.untimed), sum_of(&found.events), "{place}: µs of {params:?}");

            let churn = Churn::of(memory, &snapshot.stacks, &params, &progress).expect("nobody cancels");
            let born_inside = lives.ids().map(|id| lives.get(id)).filter(|life| {
                life.born != Position::START && life.born < life.died && params.from <= life.born && life.born < params.to
            });
            assert_eq!(churn.churned.count + churn.kept.count, born_inside.count() as u64, "{place}: born in {params:?}");
            let rows = churn.stacks.iter().fold([Sum::default(); 2], |[a, b], row| [a.and(row.churned), b.and(row.kept)]);
            assert_eq!(rows, [churn.churned, churn.kept], "{place}: churn of {params:?}");
        }
        let usage = UsageTimeline::of(memory, &progress).expect("nobody cancels");
        let names: std::collections::BTreeSet<_> = memory.annotations.iter().map(|span| span.name).collect();
        let slices = [Slices::Equal(1), Slices::Equal(7), Slices::Equal(1000)].into_iter();
        for slices in slices.chain(names.into_iter().map(Slices::Annotation)) {
            let params = LeakParams { window: LifetimeParams::ALL, slices };
            let found = LeakSuspects::of(memory, replay, &snapshot.stacks, &params, &progress).expect("nobody cancels");
            assert!(found.moments.is_sorted(), "{place}");
            for (row, moment) in found.moments.iter().enumerate() {
                let suspects = found.suspects.iter().fold(Sum::default(), |sum, growth| sum.and(growth.live[row]));
                assert_eq!(suspects.and(found.others[row]), found.total[row], "{place}: at {moment:?}");
                assert_eq!(found.total[row].bytes, usage.allocated.at(*moment), "{place}: at {moment:?}");
            }
            for growth in &found.suspects {
                assert!(growth.live.is_sorted_by_key(|sum| sum.bytes) && 0 < growth.gained(), "{place}: {growth:?}");
            }
        }
    });
}

#[test]
fn pins_hold_every_byte_of_their_segments() {
    each_device(|place, snapshot, memory, replay| {
        for share in 0..=20u64 {
            let position = Position((u64::from(memory.end().0) * share / 20) as u32);
            let state = replay.state_at(memory, position);
            let pins = Pins::of(&state, memory, &snapshot.settings);
            assert_eq!(pins.segments.len(), state.segments.len(), "{place} at {position:?}");
            for segment in &pins.segments {
                let what = format!("{place}: segment 0x{:x} at {position:?}", segment.address);
                assert_eq!(segment.active + segment.free, segment.size, "{what}");
                assert_eq!(segment.pins.iter().map(|pin| pin.size).sum::<u64>(), segment.active, "{what}");
                assert!(segment.pins.is_sorted_by(|a, b| b.size <= a.size), "{what}");
                assert!(segment.releasable <= segment.free && segment.largest_gap <= segment.free, "{what}");
                assert!(segment.pins.iter().all(|pin| pin.age_events.is_none_or(|age| age < position.0)), "{what}");
                if segment.pins.is_empty() && !segment.expandable {
                    assert_eq!(segment.releasable, segment.size, "{what}");
                }
            }
        }
    });
}
