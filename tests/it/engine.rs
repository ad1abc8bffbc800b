//! Traces in, states out: what the engine makes of complete, cut and contradictory recordings.
//!
//! A trace is a text: one event a line, `action address size`, addresses and sizes with K/M suffixes.
//! Behind `--` stand the segments of the dump: `segment address size class`, then its blocks
//! `block size state [requested]`, which tile it, or `over address size state`, which lie anywhere.

use fragscope::analysis::UsageTimeline;
use fragscope::base::Progress;
use fragscope::model::{
    Action, AllocationFlags, AllocatorSettings, BlockState, DeviceMemory, Missing, Origin, PoolId, Position, SizeClass, Snapshot,
    StackId, StreamId, TraceEntry, WarningKind,
};
use fragscope::replay::{BlockRecord, Replay, SegmentRecord, SnapshotBuilder};

fn bytes(text: &str) -> u64 {
    let (number, factor) = match text.strip_suffix(['K', 'M']) {
        Some(number) => (number, if text.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (text, 1),
    };
    number.parse::<u64>().expect("a number") * factor
}

fn stated() -> AllocatorSettings {
    AllocatorSettings { stated: true, ..AllocatorSettings::default() }
}

fn snapshot_of(text: &str, settings: AllocatorSettings) -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    builder.settings = settings;
    let (events, dump) = text.split_once("--").map_or((text, None), |(events, dump)| (events, Some(dump)));
    let record = builder.device(0);
    for line in events.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        record.trace.push(TraceEntry {
            action: Action::of_name(words[0]).unwrap_or(Action::Unknown),
            address: bytes(words[1]),
            size: bytes(words[2]),
            stream: StreamId::DEFAULT,
            time_us: None,
            stack: StackId::ABSENT,
            pool: None,
            compile_context: None,
            user_metadata: None,
        });
    }
    for line in dump.unwrap_or("").lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "segment" => record.segments.push(SegmentRecord {
                address: bytes(words[1]),
                size: bytes(words[2]),
                stream: StreamId::DEFAULT,
                pool: PoolId::DEFAULT,
                class: if words[3] == "small" { SizeClass::Small } else { SizeClass::Large },
                expandable: words.get(4) == Some(&"expandable"),
                stack: StackId::ABSENT,
                blocks: Vec::new(),
                stated_totals: [None; 3],
            }),
            _ => record.segments.last_mut().expect("a segment first").blocks.push(BlockRecord {
                address: (words[0] == "over").then(|| bytes(words[1])),
                size: bytes(words[1 + usize::from(words[0] == "over")]),
                requested: words.get(3 + usize::from(words[0] == "over")).map(|w| bytes(w)),
                state: BlockState::of_name(words[2 + usize::from(words[0] == "over")]).expect("a state"),
                stack: StackId::ABSENT,
            }),
        }
    }
    record.segments_known = dump.is_some();
    builder.finish(Origin::default(), &Progress::new()).expect("not cancelled")
}

/// Reserved, allocated, active, requested, largest free at every position.
fn states(device: &DeviceMemory) -> Vec<[u64; 5]> {
    let replay = Replay::new(device);
    (0..=device.end().0)
        .map(|position| {
            let state = replay.state_at(device, Position(position));
            let t = state.totals;
            [t.reserved, t.allocated, t.active, t.requested, state.largest_free_block]
        })
        .collect()
}

/// What must hold at every position of every recording, however broken.
fn check_invariants(snapshot: &Snapshot) {
    let device = &snapshot.devices.as_slice()[0];
    // Overlapping segments and blocks outside them are shown as far as an address can be shown once.
    let impossible = [WarningKind::NoSegment, WarningKind::BadLayout, WarningKind::TotalsDiffer, WarningKind::SegmentMismatch];
    let possible = impossible.iter().all(|kind| snapshot.warnings.count(*kind) == 0);
    let replay = Replay::new(device);
    let timeline = UsageTimeline::of(device, &Progress::new()).expect("not cancelled");
    let lives = &device.allocations;
    assert!(lives.born().is_sorted(), "lives in order of birth");
    for id in lives.ids() {
        let life = lives.get(id);
        assert!(life.born <= life.freed && life.freed <= life.died, "{life:?}");
    }
    for position in (0..=device.end().0).map(Position) {
        let state = replay.state_at(device, position);
        assert_eq!(timeline.totals_at(position), state.totals, "{position:?}");
        if !possible {
            continue;
        }
        let mut before_end = 0;
        let (mut reserved, mut active) = (0, 0);
        for segment in &state.segments {
            assert!(before_end <= segment.address, "segments overlap at {position:?}");
            before_end = segment.address + segment.size;
            reserved += segment.size;
            let mut cursor = segment.address;
            let mut after_gap = false;
            for block in state.blocks_of(segment) {
                assert_eq!(block.address, cursor, "blocks tile their segment at {position:?}");
                cursor += block.size;
                let gap = block.state == BlockState::Inactive;
                assert!(!(gap && after_gap), "two gaps in a row");
                after_gap = gap;
                if !gap {
                    active += block.size;
                }
            }
            assert_eq!(cursor, before_end, "blocks fill their segment at {position:?}");
        }
        assert_eq!((reserved, active), (state.totals.reserved, state.totals.active), "{position:?}");
        assert_eq!(state.pools.iter().map(|p| p.free).sum::<u64>(), state.totals.free());
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn states_follow_the_allocators_rules() {
    // Each row of a table: reserved, allocated, active, requested, largest free, from the start on.
    let cases: &[(&str, &str, &[[u64; 5]])] = &[
        (
            "a block is rounded to 512 and taken from the low end",
            "segment_alloc 0 2M\nalloc 0 1000\nfree_requested 0 1000\nfree_completed 0 1000",
            &[
                [0, 0, 0, 0, 0],
                [2 * MIB, 0, 0, 0, 2 * MIB],
                [2 * MIB, 1024, 1024, 1000, 2 * MIB - 1024],
                [2 * MIB, 0, 1024, 1000, 2 * MIB - 1024],
                [2 * MIB, 0, 0, 0, 2 * MIB],
            ],
        ),
        (
            "a large block keeps a rest of up to 1 MiB",
            "segment_alloc 0 20M\nalloc 0 8M\nalloc 8M 11M\nfree_requested 8M 11M\nfree_completed 8M 11M\nalloc 8M 10M",
            &[
                [0; 5],
                [20 * MIB, 0, 0, 0, 20 * MIB],
                [20 * MIB, 8 * MIB, 8 * MIB, 8 * MIB, 12 * MIB],
                [20 * MIB, 20 * MIB, 20 * MIB, 19 * MIB, 0],
                [20 * MIB, 8 * MIB, 20 * MIB, 19 * MIB, 0],
                [20 * MIB, 8 * MIB, 8 * MIB, 8 * MIB, 12 * MIB],
                [20 * MIB, 18 * MIB, 18 * MIB, 18 * MIB, 2 * MIB],
            ],
        ),
        (
            "expandable ranges grow, join, and are cut by unmapping",
            "segment_map 0 20M\nsegment_map 20M 20M\nalloc 0 30M\nfree_requested 0 30M\nfree_completed 0 30M\nsegment_unmap 10M 10M",
            &[
                [0; 5],
                [20 * MIB, 0, 0, 0, 20 * MIB],
                [40 * MIB, 0, 0, 0, 40 * MIB],
                [40 * MIB, 30 * MIB, 30 * MIB, 30 * MIB, 10 * MIB],
                [40 * MIB, 0, 30 * MIB, 30 * MIB, 10 * MIB],
                [40 * MIB, 0, 0, 0, 40 * MIB],
                [30 * MIB, 0, 0, 0, 20 * MIB],
            ],
        ),
        ("a free of an older block: its peak is at the start", "free_completed 0 100", &[[0, 0, 512, 100, 0], [0; 5]]),
        (
            "an address allocated twice counts once",
            "segment_alloc 0 2M\nalloc 0 512\nalloc 0 1024",
            &[
                [0; 5],
                [2 * MIB, 0, 0, 0, 2 * MIB],
                [2 * MIB, 512, 512, 512, 2 * MIB - 512],
                [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024],
            ],
        ),
        (
            "an allocation into a live one ends it",
            "segment_alloc 0 2M\nalloc 0 1024\nalloc 512 512",
            &[
                [0; 5],
                [2 * MIB, 0, 0, 0, 2 * MIB],
                [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024],
                [2 * MIB, 512, 512, 512, 2 * MIB - 1024],
            ],
        ),
        (
            "a segment that goes back takes its blocks along",
            "segment_alloc 0 2M\nalloc 0 1024\nsegment_free 0 2M\nfree_requested 0 1024",
            &[[0; 5], [2 * MIB, 0, 0, 0, 2 * MIB], [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024], [0; 5], [0; 5]],
        ),
        (
            "without free_completed events a request completes at once",
            "segment_alloc 0 2M\nalloc 0 1024\nfree_requested 0 1024",
            &[[0; 5], [2 * MIB, 0, 0, 0, 2 * MIB], [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024], [2 * MIB, 0, 0, 0, 2 * MIB]],
        ),
        (
            "live throughout: in the dump, in no event; pending ones are active",
            "alloc 1024 512\n--\nsegment 0 2M small\nblock 512 active_allocated 100\nblock 512 active_pending_free 400\nblock 512 active_allocated 512\nblock 2095616 inactive 999",
            &[[2 * MIB, 512, 1024, 500, 2 * MIB - 1024], [2 * MIB, 1024, 1536, 1012, 2 * MIB - 1536]],
        ),
        (
            "a block newer than the trace waits for its end",
            "alloc 0 1024\nfree_requested 0 1024\nfree_completed 0 1024\nalloc 2048 512\n--\nsegment 0 2M small\nblock 512 active_allocated 512\nblock 1536 inactive\nblock 512 active_allocated 512\nblock 2094592 inactive",
            &[
                [2 * MIB, 0, 0, 0, 2 * MIB],
                [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024],
                [2 * MIB, 0, 1024, 1024, 2 * MIB - 1024],
                [2 * MIB, 0, 0, 0, 2 * MIB],
                [2 * MIB, 1024, 1024, 1024, 2 * MIB - 2560],
            ],
        ),
        (
            "a trace cut at its end keeps what it knows",
            "segment_alloc 0 2M\nalloc 0 1024\n--\nsegment 0 2M small\nblock 2M inactive",
            &[[0; 5], [2 * MIB, 0, 0, 0, 2 * MIB], [2 * MIB, 1024, 1024, 1024, 2 * MIB - 1024]],
        ),
        (
            "an older large block owns the small gap behind it",
            "free_requested 0 5M\nfree_completed 0 5M\n--\nsegment 0 20M large\nblock 6M inactive\nblock 14M active_allocated 14M",
            &[
                [20 * MIB, 20 * MIB, 20 * MIB, 19 * MIB, 0],
                [20 * MIB, 14 * MIB, 20 * MIB, 19 * MIB, 0],
                [20 * MIB, 14 * MIB, 14 * MIB, 14 * MIB, 6 * MIB],
            ],
        ),
        (
            "blocks outside every segment are shown and not counted in reserved",
            "alloc 4M 1000\nfree_requested 4M 1000\nfree_completed 4M 1000",
            &[[0; 5], [0, 1024, 1024, 1000, 0], [0, 0, 1024, 1000, 0], [0; 5]],
        ),
        (
            "no events: the dump alone",
            "--\nsegment 0 20M large\nblock 9M active_allocated 8M\nblock 11M inactive 30M",
            &[[20 * MIB, 9 * MIB, 9 * MIB, 8 * MIB, 11 * MIB]],
        ),
    ];
    for (what, text, table) in cases {
        let snapshot = snapshot_of(text, stated());
        let device = &snapshot.devices.as_slice()[0];
        assert_eq!(&states(device), table, "{what}");
        check_invariants(&snapshot);
    }
}

#[test]
fn contradictions_are_counted_and_coverage_is_said() {
    use Missing::{End, History, Segments, Settings, Sizes, Start};
    let cases: &[(&str, bool, &[WarningKind], &[Missing])] = &[
        (
            "segment_alloc 0 2M\nalloc 0 512\n--\nsegment 0 2M small\nblock 512 active_allocated 512\nblock 2096640 inactive",
            true,
            &[],
            &[],
        ),
        ("segment_alloc 0 2M\nalloc 0 512\nalloc 0 512", true, &[WarningKind::AlreadyLive], &[End]),
        (
            "segment_alloc 0 2M\nalloc 0 512\nfree_completed 0 512\nfree_completed 0 512",
            true,
            &[WarningKind::FreeWithoutAlloc],
            &[End],
        ),
        ("segment_alloc 0 2M\nsegment_alloc 0 2M", true, &[WarningKind::SegmentMismatch], &[End]),
        ("segment_alloc 0 2M\nalloc 0 512\n--\nsegment 0 2M small\nblock 2M inactive", true, &[WarningKind::EndMismatch], &[End]),
        ("alloc 0 512\nalloc 4096 512", true, &[WarningKind::NoSegment], &[End, Segments]),
        ("free_completed 0 512\n--", true, &[WarningKind::NoSegment], &[History, Segments, Sizes]),
        ("--\nsegment 0 2M small\nblock 2M inactive", true, &[], &[History]),
        (
            "free_completed 0 512\nalloc 0 512\n--\nsegment 0 2M small\nblock 512 active_allocated\nblock 2096640 inactive",
            false,
            &[],
            &[Start, Sizes, Settings],
        ),
    ];
    for (text, settings_stated, kinds, missing) in cases {
        let snapshot = snapshot_of(text, AllocatorSettings { stated: *settings_stated, ..stated() });
        let device = &snapshot.devices.as_slice()[0];
        let found: Vec<WarningKind> = snapshot.warnings.iter().map(|(kind, ..)| kind).collect();
        assert_eq!(&found, kinds, "{text}");
        let mut lacks: Vec<Missing> = device.coverage.gaps.iter().map(|gap| gap.missing).collect();
        lacks.retain(|missing| !matches!(missing, Missing::Stacks | Missing::Time));
        assert_eq!(&lacks, missing, "{text}");
    }
}

#[test]
fn files_without_settings_tell_their_rounding_by_their_blocks() {
    let text = "segment_alloc 0 20M\nalloc 0 1200K\nfree_requested 0 1200K\nfree_completed 0 1200K\nalloc 0 1100K\n--\n\
                segment 0 20M large\nblock 1152K active_allocated 1100K\nblock 19328K inactive";
    let snapshot = snapshot_of(text, AllocatorSettings::default());
    let device = &snapshot.devices.as_slice()[0];
    assert_eq!(device.allocations.sizes()[0], 1280 << 10, "by eighths of 1 MiB, as the stated block was");
    let said = device.coverage.gaps.iter().find(|gap| gap.missing == Missing::Sizes).expect("said");
    assert!(said.sentence.contains("roundup_power2_divisions:8"), "{}", said.sentence);
}

#[test]
fn lives_carry_labels_and_events() {
    let text = "segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512\nalloc 0 512\nannotate 0 512";
    let snapshot = snapshot_of(text, stated());
    let device = &snapshot.devices.as_slice()[0];
    let lives: Vec<_> = device.allocations.ids().map(|id| device.allocations.get(id)).collect();
    assert_eq!(lives.iter().map(|life| life.label()).collect::<Vec<_>>(), ["b0_0", "b0_1"]);
    assert_eq!(lives[0].free_event().map(|event| event.0), Some(2));
    assert_eq!(lives[1].alloc_event().map(|event| event.0), Some(4));
    assert!(lives[1].flags.has(AllocationFlags::ALLOC_SEEN));
    let subjects: Vec<_> = device.trace.events().map(|event| device.subject(event).map(|id| id.0)).collect();
    assert_eq!(subjects, [None, Some(0), Some(0), Some(0), Some(1), Some(1)]);
}

/// Blocks of the file that the trace cannot have held from its start are there at its end, and none is there twice.
#[test]
fn what_only_the_end_knows_is_shown_at_the_end() {
    use WarningKind::{BadLayout, NewerThanTrace};
    for (text, active_by_position, kind) in [
        // Two blocks of the file overlap: one of them is shown, with and without a trace.
        ("--\nsegment 0 2M small\nblock 512 active_allocated 512\nover 256 512 active_allocated", &[512][..], BadLayout),
        (
            "snapshot 0 0\n--\nsegment 0 2M small\nblock 512 active_allocated 512\nover 256 512 active_allocated",
            &[512, 512],
            BadLayout,
        ),
        (
            "oom 0 1\n--\nsegment 0 2M small\nblock 512 active_allocated\nover 256 512 active_allocated\nover 300 512 active_allocated",
            &[512, 512],
            BadLayout,
        ),
        // The trace is cut before the alloc: its segment was given in it, or taken and given again.
        (
            "segment_alloc 0 2M\noom 0 1\n--\nsegment 0 2M small\nblock 512 active_allocated\nblock 2096640 inactive",
            &[0, 0, 512],
            NewerThanTrace,
        ),
        (
            "segment_free 0 2M\nsegment_alloc 0 2M\noom 0 1\n--\nsegment 0 2M small\nblock 512 active_allocated\nblock 2096640 inactive",
            &[0, 0, 0, 512],
            NewerThanTrace,
        ),
    ] {
        let snapshot = snapshot_of(text, stated());
        let device = &snapshot.devices.as_slice()[0];
        let active: Vec<u64> = states(device).iter().map(|state| state[2]).collect();
        assert_eq!(active, active_by_position, "{text}");
        assert!(0 < snapshot.warnings.count(kind), "{text}: {:?}", snapshot.warnings);
        assert!(device.segments.as_slice().iter().all(|segment| !segment.inferred), "{text}");
        check_invariants(&snapshot);
    }
}

/// Sizes and sums near 2^64 neither wrap nor differ between the curves and the states.
#[test]
fn sums_beyond_64_bits_stand_at_the_largest_number() {
    const MOST: u64 = u64::MAX;
    for big in [1 << 62, (1 << 63) - 1, 1 << 63, MOST] {
        for text in [
            format!("segment_alloc 0 {big}\nalloc 0 {big}\nalloc 512 {big}\nfree_completed 512 {big}\nsegment_free 0 {big}"),
            format!("alloc {MOST} {big}\nalloc 18446744073709551000 {big}\nfree_completed {MOST} {big}"),
            format!("free_completed 0 {big}\nfree_completed 4096 {big}\nsegment_unmap 0 {big}\nsegment_map 8192 {big}"),
            format!(
                "snapshot 0 {big}\n--\nsegment 4096 {big} large\nblock 512 active_allocated {big}\nblock 512 active_allocated {big}\n\
                 block {big} active_pending_free {big}\nblock {big} active_allocated"
            ),
        ] {
            check_invariants(&snapshot_of(&text, stated()));
        }
    }
    let snapshot = snapshot_of(
        "--\nsegment 0 2M small\nblock 512 active_allocated 18446744073709551615\nblock 512 active_allocated 1",
        stated(),
    );
    assert_eq!(states(&snapshot.devices.as_slice()[0]), [[2 << 20, 1024, 1024, MOST, (2 << 20) - 1024]]);
}

/// Random recordings, most of them impossible, keep every law and never panic.
#[test]
fn any_recording_keeps_the_laws() {
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut next = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    for round in 0..400 {
        let mut text = String::new();
        for _ in 0..next(60) {
            let (action, address, size) = match next(9) {
                0 => ("segment_alloc", next(6) * 2048, 2048),
                1 => ("segment_free", next(6) * 2048, 2048),
                2 => ("segment_map", 20_000 + next(4) * 2048, 2048 * (1 + next(2))),
                3 => ("segment_unmap", 20_000 + next(4) * 2048, 2048 * (1 + next(2))),
                4 | 5 => ("alloc", next(60) * 512, 1 + next(1500)),
                6 => ("free_requested", next(60) * 512, 1 + next(1500)),
                7 => ("free_completed", next(60) * 512, 1 + next(1500)),
                _ => ("annotate", next(60) * 512, 1),
            };
            text += &format!("{action} {address} {size}\n");
        }
        if round % 3 != 0 {
            text += "--\n";
            for i in 0..next(5) {
                text += &format!("segment {} 2048 small\n", i * 2048 + if next(9) == 0 { 512 } else { 0 });
                for _ in 0..4 {
                    let state = ["inactive", "active_allocated", "active_pending_free"][next(3) as usize];
                    text += &format!("block 512 {state} {}\n", next(600));
                }
            }
        }
        let snapshot = snapshot_of(&text, stated());
        let result = std::panic::catch_unwind(|| check_invariants(&snapshot));
        assert!(result.is_ok(), "round {round}:\n{text}");
    }
}

/// The recording of a device as if it had begun `cut` events later, made from what the snapshot shows.
fn cut(snapshot: &Snapshot, device: &DeviceMemory, cut: usize) -> Snapshot {
    let end = Replay::new(device).state_at(device, device.end());
    let mut builder = SnapshotBuilder::default();
    builder.settings = snapshot.settings.clone();
    builder.stacks = snapshot.stacks.clone();
    builder.streams = snapshot.streams.clone();
    builder.pools = snapshot.pools.clone();
    let record = builder.device(0);
    record.trace = device.trace.slice(cut..device.trace.len());
    record.segments_known = true;
    record.segments = end
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
            blocks: end
                .blocks_of(segment)
                .iter()
                .map(|block| BlockRecord {
                    address: Some(block.address),
                    size: block.size,
                    requested: Some(block.requested),
                    state: block.state,
                    stack: block.allocation.map_or(StackId::EMPTY, |id| device.allocations.stacks()[id.0 as usize]),
                })
                .collect(),
            stated_totals: [None; 3],
        })
        .collect();
    builder.finish(Origin::default(), &Progress::new()).expect("not cancelled")
}

/// A recording that starts late shows the same states as the whole one: reserved, requested and who lives
/// exactly, block sizes up to what one older block may own behind it.
#[test]
fn a_late_start_shows_the_same_states() {
    for name in ["training", "fragmentation_oom", "expandable_segments", "private_pools", "streams", "two_devices"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sample_snapshots/{name}.pickle.gz"));
        let whole = fragscope::format::open(&path, &Progress::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let device = &whole.devices.as_slice()[0];
        let truth = UsageTimeline::of(device, &Progress::new()).expect("not cancelled");
        for share in [0, 7, 3, 2] {
            let from = device.trace.len().checked_div(share).unwrap_or(0);
            let late = cut(&whole, device, from);
            let late_device = &late.devices.as_slice()[0];
            let timeline = UsageTimeline::of(late_device, &Progress::new()).expect("not cancelled");
            let older = late_device.allocations.born_by(Position::START) as u64;
            let mut inexact = 0;
            for position in 0..=late_device.end().0 {
                let (a, b) = (timeline.totals_at(Position(position)), truth.totals_at(Position(position + from as u32)));
                assert_eq!((a.reserved, a.requested), (b.reserved, b.requested), "{name} from {from} at {position}");
                let off = a.allocated.abs_diff(b.allocated).max(a.active.abs_diff(b.active));
                assert!(off <= older * MIB, "{name} from {from} at {position}: off by {off}");
                inexact += u32::from(off != 0);
            }
            assert!(inexact * 10 <= late_device.end().0, "{name} from {from}: {inexact} positions inexact");
            assert!(share != 0 || inexact == 0, "{name}: a complete recording is exact");
            let (late_replay, replay) = (Replay::new(late_device), Replay::new(device));
            for step in 0..=8 {
                let position = late_device.end().0 / 8 * step;
                let who = |state: fragscope::replay::MemoryState| -> Vec<(u64, u64, BlockState)> {
                    let live = state.blocks.iter().filter(|block| block.allocation.is_some());
                    live.map(|block| (block.address, block.requested, block.state)).collect()
                };
                assert_eq!(
                    who(late_replay.state_at(late_device, Position(position))),
                    who(replay.state_at(device, Position(position + from as u32))),
                    "{name} from {from} at {position}"
                );
            }
        }
    }
}
