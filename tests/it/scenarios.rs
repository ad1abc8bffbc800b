//! What a scenario can say besides settings: which caches are emptied, what a failure does, with what a run begins, where
//! the driver puts segments; and the smallest card.

use crate::samples;
use crate::simulator::asked;
use fragscope::base::Progress;
use fragscope::model::{AllocationId, AllocatorSettings, EventIdx, Origin, PoolId, Snapshot, VersionRange};
use fragscope::replay::Replay;
use fragscope::simulator::scenario::limit;
use fragscope::simulator::{
    AtFailure, EmptyCaches, Outcome, Placement, Request, RequestStream, Rules, Scenario, Start, TieBreak, Wanted,
    placement_range, simulate, smallest_card,
};

const MIB: u64 = 1 << 20;

/// Requests from words: `a3 30` asks for 30 MiB as life 3, `f3` gives it back, `e` empties the cache, `x 40` asks for 40
/// MiB where the recording failed.
fn requests(words: &str) -> RequestStream {
    let mut asked = RequestStream::default();
    for (event, word) in words.split(',').map(str::trim).enumerate() {
        let (head, size) = word.split_once(' ').unwrap_or((word, "0"));
        let (kind, life) = head.split_at(1);
        let life = AllocationId(life.parse().unwrap_or_default());
        let size = size.parse::<u64>().expect("a size in MiB") * MIB;
        let wanted = Wanted { size, stream: 0, pool: PoolId::DEFAULT, source: EventIdx(event as u32) };
        let request = match kind {
            "a" => Request::Alloc(life, wanted),
            "f" => Request::Free(life),
            "e" => Request::EmptyCache,
            _ => Request::Failed(wanted),
        };
        asked.lives = asked.lives.max(life.0 as usize + 1);
        asked.requests.push((EventIdx(event as u32), request));
    }
    asked
}

fn rules(release: &str) -> Rules {
    let range = VersionRange { at_least: release.to_owned(), at_most: Some(release.to_owned()) };
    let origin = Origin { written_by: Some(range), ..Origin::default() };
    Rules::of(&origin)[0]
}

fn plain(release: &str) -> Scenario {
    Scenario::new(AllocatorSettings::default(), rules(release))
}

fn run(asked: &RequestStream, scenario: &Scenario) -> Outcome {
    simulate(asked, scenario, &Progress::new()).expect("nobody cancels")
}

#[test]
fn caches_are_emptied_as_recorded_never_or_at_the_ends_of_steps() {
    // Two steps; the recording emptied the cache in the middle of the second.
    let asked = requests("a0 30, f0, a1 40, e, f1, a2 50, f2");
    for (empty_caches, reserved, given_back) in [
        (EmptyCaches::Recorded, 90, 1),
        (EmptyCaches::Without, 120, 0),
        (EmptyCaches::After([EventIdx(1), EventIdx(6)].into()), 90, 3),
        (EmptyCaches::After([EventIdx(1), EventIdx(4)].into()), 50, 2),
    ] {
        let said = format!("{empty_caches:?}");
        let counted = run(&asked, &Scenario { empty_caches, ..plain("2.14") }).counters;
        assert_eq!((counted.reserved.peak / MIB, counted.device_frees), (reserved, given_back), "{said}");
    }
}

#[test]
fn a_run_stops_at_a_failure_or_goes_on_without_end() {
    let asked = requests("a0 30, a1 40, a2 50, f0, f1, f2");
    let small = Scenario { capacity: Some(80 * MIB), ..plain("2.14") };
    let stopped = run(&asked, &small);
    assert_eq!(stopped.failure.map(|failure| (failure.event.0, failure.requested)), Some((2, 50 * MIB)));
    assert_eq!((stopped.counters.requested.peak / MIB, stopped.counters.ooms), (70, 1));
    let endless = run(&asked, &Scenario { at_failure: AtFailure::Endless, ..small });
    assert_eq!(endless.failure, stopped.failure);
    assert_eq!((endless.counters.requested.peak / MIB, endless.counters.requested.now), (120, 0));

    // Where the recording failed nothing was done with the memory: served here, it is given back at once.
    let failed = requests("a0 30, x 40, f0, a1 70, f1");
    let stopped = run(&failed, &plain("2.14"));
    assert_eq!((stopped.served_instead, stopped.counters.requested.now / MIB), (Some(EventIdx(1)), 70));
    let endless = run(&failed, &Scenario { at_failure: AtFailure::Endless, ..plain("2.14") });
    assert_eq!((endless.served_instead, endless.counters.requested.now), (Some(EventIdx(1)), 0));
    let as_recorded = run(&failed, &Scenario { capacity: Some(60 * MIB), at_failure: AtFailure::Endless, ..plain("2.14") });
    assert_eq!((as_recorded.failure.map(|failure| failure.event.0), as_recorded.served_instead), (Some(1), None));
}

#[test]
fn the_smallest_card_serves_and_the_next_below_does_not() {
    for (words, mib) in
        [("a0 30, a1 40, f0, a2 20, f1, f2", 70), ("a0 30, x 40, f0", 70), ("a0 30, f0, a1 31, f1", 32), ("f0", 2)]
    {
        let found = smallest_card(&requests(words), &plain("2.14"), &Progress::new()).expect("nobody cancels");
        assert_eq!(found.map(|found| found.capacity / MIB), Some(mib), "{words}");
    }
    // Half of the card may be used.
    let half = AllocatorSettings { per_process_memory_fraction: Some(0.5), ..AllocatorSettings::default() };
    let scenario = Scenario { capacity: Some(80 * MIB), total: Some(90 * MIB), ..Scenario::new(half, rules("2.14")) };
    let found = smallest_card(&requests("a0 30, f0"), &scenario, &Progress::new()).expect("nobody cancels").expect("a card");
    assert_eq!((found.capacity / MIB, found.total / MIB), (50, 60));

    for name in ["fragmentation_oom", "training", "streams", "expandable_segments"] {
        let (snapshot, id, asked) = sample(name);
        let scenario = Scenario::new(snapshot.settings.clone(), Rules::of(&snapshot.origin)[0]);
        let found = smallest_card(&asked, &scenario, &Progress::new()).expect("nobody cancels").expect("a card");
        let on = |capacity: u64| {
            let at_failure = AtFailure::Endless;
            run(&asked, &Scenario { capacity: Some(capacity), total: Some(capacity), at_failure, ..scenario.clone() })
        };
        println!("{name}: {} MiB, {} sizes tried", found.capacity / MIB, found.tried);
        assert!(found.capacity.is_multiple_of(MIB));
        assert_eq!(on(found.capacity).failure, None, "{name} serves");
        assert!(on(found.capacity - 2 * MIB).failure.is_some(), "{name}: the next below fails");
        let ooms = snapshot.devices[id].trace.ooms();
        assert_eq!(found.outcome.served_instead.as_slice(), ooms, "{name}: the recorded failure is served too");
    }
}

fn sample(name: &str) -> (Snapshot, fragscope::model::DeviceId, RequestStream) {
    let snapshot = samples::open(&samples::sample(name));
    let id = snapshot.busiest_device().expect("a device");
    let replay = Replay::new(&snapshot.devices[id]);
    let asked = asked(&snapshot, id, &replay);
    (snapshot, id, asked)
}

#[test]
fn a_recording_that_begins_mid_run_is_served_from_what_was_there_or_from_nothing() {
    let (snapshot, id, asked) = sample("late_start");
    let (_, _, summary) = samples::prepare(&snapshot, id);
    let scenario = Scenario::new(snapshot.settings.clone(), Rules::of(&snapshot.origin)[0]);
    let counted = run(&asked, &scenario).counters;
    assert_eq!(
        [counted.reserved.peak, counted.allocated.peak, counted.requested.peak],
        [summary.peak_reserved.bytes, summary.peak_allocated.bytes, summary.peak_requested.bytes]
    );
    assert_eq!(counted.requested.now, summary.end.totals.requested);
    let empty = run(&asked, &Scenario { start: Start::Empty, ..scenario }).counters;
    assert!(empty.reserved.peak < counted.reserved.peak && empty.requested.now <= counted.requested.now);
}

/// Two gaps of one size: behind one of them more becomes free, so that a later request fits there or nowhere.
const TWINS: &str = "a0 30, a1 30, f0, a2 20, f1, a3 20, a4 10, f2, a5 30";

#[test]
fn placements_give_a_range_where_addresses_break_ties() {
    let asked = requests(TWINS);
    let of = |placement: Placement, release: &str| run(&asked, &Scenario { placement, ..plain(release) }).counters;
    for (placement, by_address) in [(Placement::Lowest, 90), (Placement::Ascending, 90), (Placement::BySize, 60)] {
        assert_eq!(of(placement, "2.11").reserved.peak / MIB, by_address, "{placement:?}");
        assert_eq!(of(placement, "2.14").reserved.peak / MIB, 90, "{placement:?}: the older segment, wherever it lies");
    }
    let range = |release: &str| placement_range(&asked, &plain(release), &Progress::new()).expect("nobody cancels");
    let by_address = range("2.11").expect("addresses decide");
    assert_eq!((by_address.reserved, by_address.segments), (60 * MIB..=90 * MIB, 2..=3));
    assert_eq!((by_address.requested, by_address.failure), (60 * MIB..=60 * MIB, (None, None)));
    assert_eq!(range("2.14"), None);
}

#[test]
fn the_whole_card_is_a_limit_for_old_releases() {
    let total = Some(10_000_000_001);
    for (fraction, release, bytes) in [
        (None, "2.6", None),
        (Some(1.0), "2.6", Some(10_000_000_001)),
        (Some(1.0), "2.8", None),
        (Some(0.25), "2.6", Some(2_500_000_000)),
        (Some(0.75), "2.6", Some(7_500_000_000)),
        (Some(0.75), "2.11", Some(7_500_000_001)),
    ] {
        let settings = AllocatorSettings { per_process_memory_fraction: fraction, ..AllocatorSettings::default() };
        assert_eq!(limit(&settings, rules(release), total), bytes, "{fraction:?} under {release}");
    }
    assert_eq!((rules("2.11").tie, rules("2.12").tie), (TieBreak::Address, TieBreak::Block));
}
