//! Charts and what they rest on: fragmentation over time, lifetimes, pins, address over time, series.
//!
//! The oracle is the state at a position, which is built from the lives directly and knows nothing of curves.

use crate::samples;
use fragscope::analysis::fragmentation::external_ppm;
use fragscope::analysis::lifetime::LINE_POINTS;
use fragscope::analysis::{
    Churn, Fragmentation, GroupCurves, LeakParams, LeakSuspects, LifetimeParams, Lifetimes, Pins, RateParams, Rates, Releases,
    SegmentCost, Slices, Spans, Sum, UsageTimeline,
};
use fragscope::base::{HeapSize, Progress};
use fragscope::chart::TimeAxis;
use fragscope::chart::{
    AddressTimeInput, Clock, ColourBy, Group, GroupData, Inks, MarkerKind, Palette, Series, Unit, address_time, series,
};
use fragscope::model::{AllocationId, AllocatorSettings, BlockState, DeviceMemory, Item, PoolId, Position, Snapshot, StreamId};
use fragscope::paint::SeriesView;
use fragscope::raster::{ColourTable, LivesIndex, RasterView};
use fragscope::replay::{MemoryState, Replay};
use std::fmt::Write as _;

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

/// What the curves of a group must be at a state, worked out from its segments and blocks alone.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    reserved: u64,
    allocated: u64,
    active: u64,
    requested: u64,
    inactive_split: u64,
    largest: u64,
    request: u64,
    segments: u64,
    blocks: u64,
}

fn expected(state: &MemoryState, group: Group, settings: &AllocatorSettings, host: bool) -> Expected {
    let mut sums = Expected::default();
    for segment in state.segments.iter().filter(|s| group.has((s.pool, s.class, s.stream))) {
        sums.segments += 1;
        sums.reserved += if segment.inferred { 0 } else { segment.size };
        let (mut free, mut active) = (0, 0);
        for block in state.blocks_of(segment) {
            if block.allocation.is_none() {
                free += block.size;
                sums.largest = sums.largest.max(block.size);
                let fits = if host { block.size } else { settings.largest_request(block.size, segment.class) };
                let is_meant = group != Group::Device || (segment.pool == PoolId::DEFAULT && segment.stream == StreamId::DEFAULT);
                sums.request = sums.request.max(if is_meant { fits } else { 0 });
                continue;
            }
            active += block.size;
            sums.blocks += 1;
            sums.requested += block.requested;
            sums.allocated += if block.state == BlockState::ActiveAllocated { block.size } else { 0 };
        }
        sums.active += active;
        sums.inactive_split += if !segment.expandable && 0 < active { free } else { 0 };
    }
    if group == Group::Device {
        // Blocks in no segment belong to the device too.
        let totals = &state.totals;
        let (allocated, active, requested) = (totals.allocated, totals.active, totals.requested);
        sums = Expected { reserved: totals.reserved, allocated, active, requested, blocks: state.active_blocks, ..sums };
        assert_eq!((sums.inactive_split, sums.largest), (state.inactive_split, state.largest_free_block));
    }
    sums
}

/// Every curve of a group against the state of one position.
fn compare(place: &str, curves: &GroupCurves, state: &MemoryState, settings: &AllocatorSettings, host: bool) {
    let at = state.position;
    let GroupCurves { group, usage, fragmentation: cut_up } = curves;
    let sums = expected(state, *group, settings, host);
    let free = sums.reserved.saturating_sub(sums.active);
    for (name, curve, expected) in [
        ("reserved", &usage.reserved, sums.reserved),
        ("allocated", &usage.allocated, sums.allocated),
        ("active", &usage.active, sums.active),
        ("requested", &usage.requested, sums.requested),
        ("pending free", &cut_up.pending_free, sums.active.saturating_sub(sums.allocated)),
        ("free", &cut_up.free, free),
        ("inactive split", &cut_up.inactive_split, sums.inactive_split),
        ("largest free block", &cut_up.largest_free_block, sums.largest),
        ("largest request", &cut_up.largest_request, sums.request),
        ("segments", &cut_up.segments, sums.segments),
        ("active blocks", &cut_up.active_blocks, sums.blocks),
        ("external", &cut_up.external, external_ppm(sums.largest, free)),
        ("internal", &cut_up.internal, sums.active.saturating_sub(sums.requested)),
    ] {
        assert_eq!(curve.at(at), expected, "{place}: {name} of {group:?} at {at:?}");
    }
    for pool in &state.pools {
        let key = (pool.pool, pool.class, pool.stream);
        if *group == Group::Half(pool.pool, pool.class, pool.stream) {
            let known = (pool.reserved, pool.active, pool.largest_free_block, pool.segments);
            assert_eq!(known, (sums.reserved, sums.active, sums.largest, sums.segments), "{place}: {key:?} at {at:?}");
        }
    }
}

fn curves_of(snapshot: &Snapshot, memory: &DeviceMemory, group: Group) -> GroupCurves {
    GroupCurves::of(memory, &snapshot.settings, group, &Progress::new()).expect("nobody cancels")
}

#[test]
fn curves_equal_the_state_at_every_event_for_every_group() {
    let mut groups_seen = 0;
    each_device(|place, snapshot, memory, replay| {
        let curves: Vec<GroupCurves> = Group::all(memory).into_iter().map(|group| curves_of(snapshot, memory, group)).collect();
        groups_seen += curves.len();
        let own = Fragmentation::of(memory, &snapshot.settings, &Progress::new()).expect("nobody cancels");
        assert_eq!(own, curves[0].fragmentation, "{place}: the device is a group too");
        let halves = [0, 1].map(|half| (half..=memory.end().0).step_by(2));
        std::thread::scope(|scope| {
            for half in halves {
                let curves = &curves;
                scope.spawn(move || {
                    for position in half.map(Position) {
                        let state = replay.state_at(memory, position);
                        // The device at every position, its groups at every tenth: a state costs more than a look.
                        for curves in curves.iter().filter(|c| c.group == Group::Device || position.0 % 10 < 2) {
                            compare(place, curves, &state, &snapshot.settings, memory.ordinal < 0);
                        }
                    }
                });
            }
        });
        // Groups of one sort share the device out.
        for sort in 0..3 {
            let parts: Vec<&GroupCurves> = curves
                .iter()
                .filter(|c| match c.group {
                    Group::Device => false,
                    Group::Pool(_) => sort == 0,
                    Group::Stream(_) => sort == 1,
                    Group::Half(..) => sort == 2,
                })
                .collect();
            for share in 0..=100u64 {
                let at = Position((u64::from(memory.end().0) * share / 100) as u32);
                for (name, curve) in ADDITIVE {
                    let sum: u64 = parts.iter().map(|part| curve(part).at(at)).sum();
                    assert_eq!(sum, curve(&curves[0]).at(at), "{place}: {name} of all groups at {at:?}");
                }
                let largest = parts.iter().map(|part| part.fragmentation.largest_free_block.at(at)).max().unwrap_or(0);
                assert_eq!(largest, curves[0].fragmentation.largest_free_block.at(at), "{place} at {at:?}");
            }
        }
    });
    assert!(40 < groups_seen, "only {groups_seen} groups in the samples");
}

type CurveOf = fn(&GroupCurves) -> &fragscope::analysis::Curve;
/// What the groups of a device add up to.
const ADDITIVE: [(&str, CurveOf); 10] = [
    ("reserved", |c| &c.usage.reserved),
    ("allocated", |c| &c.usage.allocated),
    ("active", |c| &c.usage.active),
    ("requested", |c| &c.usage.requested),
    ("pending free", |c| &c.fragmentation.pending_free),
    ("free", |c| &c.fragmentation.free),
    ("inactive split", |c| &c.fragmentation.inactive_split),
    ("segments", |c| &c.fragmentation.segments),
    ("active blocks", |c| &c.fragmentation.active_blocks),
    ("internal", |c| &c.fragmentation.internal),
];

/// `FRAGSCOPE_BIG=a.pickle[:b.pickle…] cargo test --release --test it curves_of_big -- --nocapture`
#[test]
fn curves_of_big_files_equal_the_state() {
    let Ok(files) = std::env::var("FRAGSCOPE_BIG") else {
        println!("FRAGSCOPE_BIG names no large files: only the samples are compared");
        return;
    };
    for file in files.split(':') {
        let snapshot = samples::open(std::path::Path::new(file));
        let memory = &snapshot.devices[snapshot.busiest_device().expect("a device")];
        let replay = Replay::new(memory);
        for group in Group::all(memory) {
            let start = std::time::Instant::now();
            let curves = curves_of(&snapshot, memory, group);
            println!(
                "{file}: {} events, {} lives, {} segments, {group:?}: {:.2?}, {:.1} MB, {:.1} MB of them fragmentation",
                memory.trace.len(),
                memory.allocations.len(),
                memory.segments.len(),
                start.elapsed(),
                curves.heap_size() as f64 / 1e6,
                curves.fragmentation.heap_size() as f64 / 1e6
            );
            let mut seed = 0x2545_f491_4f6c_dd1d_u64;
            for _ in 0..500 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let position = Position(((seed >> 33) % (memory.trace.len() as u64 + 1)) as u32);
                compare(file, &curves, &replay.state_at(memory, position), &snapshot.settings, memory.ordinal < 0);
            }
        }
    }
}

fn sum_of(buckets: &[Sum]) -> Sum {
    buckets.iter().fold(Sum::default(), |sum, bucket| sum.and(*bucket))
}

#[test]
fn lifetimes_churn_and_growth_add_up_to_the_whole() {
    let mut lines = 0;
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
        let slices = [1, 3, 7, 13, 1000].map(Slices::Equal).into_iter();
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
                assert_eq!(growth.line.len(), LINE_POINTS);
                // Slices that divide the line end at points of it.
                if let Slices::Equal(count @ (3 | 13)) = slices
                    && growth.live.len() == count as usize
                {
                    let points = growth.line.iter().step_by((LINE_POINTS - 1) / count as usize).skip(1);
                    assert!(points.copied().eq(growth.live.iter().map(|sum| sum.bytes)), "{place}: {growth:?}");
                    lines += 1;
                }
            }
        }
    });
    assert!(0 < lines, "no line was compared");
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

/// What the raster must show in one column, pixel by pixel from the bottom: premultiplied colour and coverage, by
/// looking at every position, every live block and every pixel.
fn naive_column(
    replay: &Replay,
    memory: &DeviceMemory,
    index: &LivesIndex,
    view: &RasterView,
    column: usize,
    colours: &ColourTable,
    ground: [u8; 3],
) -> Vec<[f64; 4]> {
    let width = view.columns.len() - 1;
    let ends: Vec<(u32, u32)> = view.columns.windows(2).map(|ends| (ends[0].0, ends[1].0.max(ends[0].0 + 1))).collect();
    let (from, to) = ends[column];
    let bytes_a_pixel = (view.bytes.end - view.bytes.start) / view.height as f64;
    let mut cells = vec![[0f64; 4]; view.height];
    let mut ids = Vec::new();
    for at in (from..to).map(Position) {
        let share = 1.0 / f64::from(to - from);
        let mut fill = |low: f64, high: f64, colour: [f64; 3], alpha: f64| {
            for (pixel, cell) in cells.iter_mut().enumerate() {
                let covered = high.min(pixel as f64 + 1.0) - low.max(pixel as f64);
                for i in 0..3 {
                    cell[i] += covered.max(0.0) * share * colour[i];
                }
                cell[3] += covered.max(0.0) * share * alpha;
            }
        };
        let pixels = |row: u64, size: u64| {
            let low = (row as f64 - view.bytes.start) / bytes_a_pixel;
            (low, low + size as f64 / bytes_a_pixel)
        };
        for segment in memory.segments.as_slice().iter().filter(|segment| segment.exists_at(at)) {
            let (low, high) = pixels(index.map.row(segment.address).expect("segments are on the map"), segment.size);
            fill(low, high, ground.map(f64::from), 1.0);
        }
        replay.live_at(memory, at, &mut ids);
        for id in &ids {
            let life = memory.allocations.get(*id);
            let (low, high) = pixels(index.map.row(life.address).expect("blocks are on the map"), life.size);
            let columns = (0..width).filter(|column| life.born.0 < ends[*column].1 && ends[*column].0 < life.died.0).count();
            let is_birth = ends.iter().position(|(_, end)| life.born.0 < *end) == Some(column);
            let colour = colours.of(memory, *id, life.born.max(Position(from))).map(f64::from);
            let over = |shade: f64| [0, 1, 2].map(|i| (colour[i] * shade) - f64::from(ground[i]));
            let edge = f64::from(fragscope::raster::coverage::BORDER_SHADE);
            if high - low < 4.0 || columns < 4 {
                fill(low, high, over(1.0), 0.0);
            } else if is_birth {
                fill(low, high, over(edge), 0.0);
            } else {
                fill(low, high - 1.0, over(1.0), 0.0);
                fill(high - 1.0, high, over(edge), 0.0);
            }
        }
    }
    cells
}

#[test]
fn the_address_raster_equals_a_look_at_every_pixel() {
    let mut seed = 11u64;
    let mut next = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n.max(1)
    };
    let ground = [250, 240, 230];
    each_device(|place, snapshot, memory, replay| {
        let index = LivesIndex::new(memory, &Progress::new()).expect("nobody cancels");
        let held = fragscope::analysis::Held::of(memory, &Progress::new()).expect("nobody cancels");
        let (rows, end) = (index.map.rows() as f64, u64::from(memory.end().0));
        if rows < 1.0 {
            return;
        }
        for round in 0..7u64 {
            // From single positions wider than a column to many in one; from everything to a few rows.
            let span = [3, 60, 400, 900, 130, 2, 500][round as usize].min(end + 1);
            let from = next(end + 1 - span.min(end));
            let width = [70, 65, 40, 30, 130, 5, 60][round as usize];
            let columns = (0..=width).map(|c| Position((from + span * c / width) as u32)).collect();
            let height = [50, 20, 64, 7][round as usize % 4];
            let low = if round < 3 { 0.0 } else { next(rows as u64) as f64 };
            let high = if round < 2 { rows } else { low + (rows - low) / (1 + next(50)) as f64 + 512.0 };
            let view = RasterView { columns, bytes: low..high, height };
            let by = ColourBy::ALL[round as usize % ColourBy::ALL.len()];
            let colours = Inks::new(snapshot, by).with_held(&held).table(Palette::LIGHT);
            let raster = index.raster(memory, &view, &colours, Some(ground), &Progress::new()).expect("nobody cancels");
            assert_eq!((raster.width, raster.height), (width as usize, height), "{place}");
            for column in [0, 1, width as usize / 2, width as usize - 1] {
                let expected = naive_column(replay, memory, &index, &view, column, &colours, ground);
                for (pixel, expected) in expected.iter().enumerate() {
                    let at = ((height - 1 - pixel) * raster.width + column) * 4;
                    let found = &raster.rgba[at..at + 4];
                    let expected = [expected[0], expected[1], expected[2], expected[3] * 255.0];
                    for (found, expected) in found.iter().zip(expected) {
                        let close = (f64::from(*found) - expected).abs() < 1.6;
                        assert!(
                            close,
                            "{place}, round {round}, by {by:?}: pixel {pixel} of column {column}: {found:?} for {expected:?}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn a_point_of_the_address_picture_is_what_lies_there() {
    let mut hits = 0;
    each_device(|place, snapshot, memory, replay| {
        let index = LivesIndex::new(memory, &Progress::new()).expect("nobody cancels");
        let clock = Clock::new(&memory.trace, TimeAxis::Events);
        for share in 0..=10u64 {
            let at = Position((u64::from(memory.end().0) * share / 10) as u32);
            let state = replay.state_at(memory, at);
            for block in state.blocks.iter().step_by(1 + state.blocks.len() / 300) {
                for address in [block.address, block.address + block.size / 2, block.address + block.size - 1] {
                    let row = index.map.row(address).expect("segments are on the map");
                    assert_eq!(index.map.address(row), Some(address), "{place}");
                    assert_eq!(index.hit(memory, at, row), block.allocation, "{place}: 0x{address:x} at {at:?}");
                    hits += usize::from(block.allocation.is_some());
                }
            }
            assert_eq!(index.hit(memory, at, index.map.rows()), None, "{place}");
        }
        let input = address_input(snapshot, memory, &index, &clock);
        let frame = address_time::frame(&input);
        assert_eq!(address_time::hit(&input, frame.plot.x0 - 5.0, frame.plot.y0 + 5.0), None, "{place}: left of the plot");
    });
    assert!(1000 < hits, "only {hits} blocks were hit");
}

fn address_input<'a>(
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    index: &'a LivesIndex,
    clock: &'a Clock,
) -> AddressTimeInput<'a> {
    AddressTimeInput {
        snapshot,
        memory,
        index,
        clock,
        width_pt: 900.0,
        height_pt: 420.0,
        time: 0.0..0.0,
        rows: 0.0..0.0,
        rasters: &[],
        cursor: None,
        range: None,
        marks: &[],
        selected: &[],
        hovered: None,
        hovered_span: None,
    }
}

#[test]
fn address_pictures_stay_inside_their_frame_and_labels_apart() {
    use fragscope::chart::{Area, Shape, drawing::MAX_MARKS};
    each_device(|place, snapshot, memory, _| {
        let index = LivesIndex::new(memory, &Progress::new()).expect("nobody cancels");
        let rows = index.map.rows() as f64;
        for (axis, width_pt, height_pt) in
            [(TimeAxis::Events, 1280.0, 800.0), (TimeAxis::Time, 2560.0, 1440.0), (TimeAxis::Events, 60.0, 20.0)]
        {
            let clock = Clock::new(&memory.trace, axis);
            let end = clock.span().end;
            for (time, part) in
                [(0.0..0.0, 0.0..0.0), (end * 0.3..end * 0.31, rows * 0.2..rows * 0.7), (end..end * 2.0, rows..rows * 2.0)]
            {
                let input =
                    AddressTimeInput { width_pt, height_pt, time, rows: part, ..address_input(snapshot, memory, &index, &clock) };
                let drawing = address_time::draw(&input);
                assert!(drawing.marks.len() < MAX_MARKS, "{place}: {} marks", drawing.marks.len());
                let plot = address_time::frame(&input).plot;
                let mut labels = Vec::new();
                for mark in &drawing.marks {
                    match &mark.shape {
                        Shape::Box(Area { x0, y0, x1, y1 }) => {
                            assert!(plot.x0 <= *x0 && *x1 <= plot.x1 && plot.y0 <= *y0 && *y1 <= plot.y1, "{place}: {mark:?}");
                        }
                        Shape::Text { at, anchor: fragscope::chart::Anchor::RightCentre, .. } => labels.push(at[1]),
                        _ => {}
                    }
                }
                labels.sort_by(f32::total_cmp);
                assert!(labels.windows(2).all(|pair| pair[0] + 13.0 <= pair[1]), "{place}: labels at {labels:?}");
            }
        }
    });
}

/// Compares with a file in `tests/expected`; `BLESS=1` writes it.
fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write into");
        std::fs::write(&path, text).expect("a golden that can be written");
        return;
    }
    let expected =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 writes it", path.display()));
    assert_eq!(text, expected, "{} differs; BLESS=1 renews it", path.display());
}

#[test]
fn the_address_picture_is_laid_out_as_before() {
    let snapshot = samples::open(&samples::sample("private_pools"));
    let memory = &snapshot.devices[snapshot.busiest_device().expect("a device")];
    let index = LivesIndex::new(memory, &Progress::new()).expect("nobody cancels");
    let clock = Clock::new(&memory.trace, TimeAxis::Events);
    let whole = address_input(&snapshot, memory, &index, &clock);
    let selected = [Item::Allocation(AllocationId(0))];
    let part = AddressTimeInput {
        time: 20.0..60.0,
        rows: (1u64 << 20) as f64..(5u64 << 20) as f64,
        cursor: Some(Position(31)),
        range: Some(Position(40)..Position(45)),
        marks: &[('A', Position(25))],
        selected: &selected,
        ..whole.clone()
    };
    golden("address_time.txt", &format!("{}\n{}", address_time::draw(&whole).dump(), address_time::draw(&part).dump()));
    let (empty, none) = (DeviceMemory::default(), LivesIndex::default());
    let clock = Clock::new(&empty.trace, TimeAxis::Events);
    let words = address_time::draw(&address_input(&snapshot, &empty, &none, &clock)).dump();
    assert!(words.contains("This recording names no segments"), "{words}");
}

#[test]
fn series_are_what_they_were() {
    let mut text = String::new();
    for name in ["fragmentation_oom", "private_pools"] {
        let snapshot = samples::open(&samples::sample(name));
        let memory = &snapshot.devices[snapshot.busiest_device().expect("a device")];
        let progress = Progress::new();
        let replay = Replay::new(memory);
        let spans = Spans::of(memory, &progress).expect("nobody cancels");
        let releases = Releases::of(memory, &replay, &snapshot.settings, &snapshot.stacks, &progress).expect("nobody cancels");
        let markers = series::markers(&snapshot, memory, &spans, &releases);
        let _ = writeln!(text, "{name}: {} markers", markers.len());
        for marker in markers.iter().filter(|marker| marker.kind != MarkerKind::Annotation) {
            let _ = writeln!(text, "event {}: {}", marker.position.event_number(), marker.name);
        }
        for group in Group::all(memory) {
            let curves = curves_of(&snapshot, memory, group);
            let cost = SegmentCost::of(memory, group, &progress).expect("nobody cancels");
            let rates = RateParams { group, by_time: true, bucket: 100_000 };
            let rates = Rates::of(memory, &rates, &progress).expect("nobody cancels");
            let data = GroupData {
                group,
                usage: &curves.usage,
                fragmentation: Some(&curves.fragmentation),
                cost: Some(&cost),
                rates: Some(&rates),
            };
            for Series { name, ink, unit, group, curve, bucket, .. } in &series::all_series(&data) {
                let group = series::group_name(&snapshot, *group);
                let (at, peak) = curve.peak();
                let (peak, last) = (series::value_label(*unit, peak), series::value_label(*unit, curve.at(curve.last())));
                let place = match bucket {
                    None => format!("after event {}", at.event_number()),
                    Some(_) => format!("in bucket {}", at.0),
                };
                let _ = writeln!(text, "{group}: {name}: at most {peak} {place}, at last {last}, {ink:?}");
            }
        }
    }
    golden("series.txt", &text);
}

/// All words of a frame with where they stand.
fn words(shapes: &[egui::epaint::ClippedShape]) -> Vec<(String, egui::Rect)> {
    fn collect(shape: &egui::Shape, found: &mut Vec<(String, egui::Rect)>) {
        match shape {
            egui::Shape::Text(text) => found.push((text.galley.text().to_owned(), text.visual_bounding_rect())),
            egui::Shape::Vec(shapes) => shapes.iter().for_each(|shape| collect(shape, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    shapes.iter().for_each(|clipped| collect(&clipped.shape, &mut found));
    found
}

#[test]
fn the_plot_tells_exact_values_of_what_is_not_hidden() {
    let snapshot = samples::open(&samples::sample("fragmentation_oom"));
    let memory = &snapshot.devices[snapshot.busiest_device().expect("a device")];
    let progress = Progress::new();
    let usage = UsageTimeline::of(memory, &progress).expect("nobody cancels");
    let curves = Fragmentation::of(memory, &snapshot.settings, &progress).expect("nobody cancels");
    let data = GroupData { group: Group::Device, usage: &usage, fragmentation: Some(&curves), cost: None, rates: None };
    let device: Vec<Series<'_>> = series::all_series(&data);
    let markers = series::markers(&snapshot, memory, &Spans::default(), &Releases::default());
    let clock = Clock::new(&memory.trace, TimeAxis::Events);
    let hidden = std::collections::BTreeSet::from(["requested"]);
    let view = SeriesView {
        id: egui::Id::unique("device"),
        series: &device,
        unit: Unit::Bytes,
        clock: &clock,
        time: 0.0..0.0,
        markers: &markers,
        level: None,
        labels: true,
        pointer: None,
        range: None,
        hidden: &hidden,
        cursor: Some(Position(100)),
        palette: Palette::LIGHT,
        size: egui::vec2(900.0, 300.0),
    };
    let context = egui::Context::default();
    let mut seen = None;
    let mut frame = |events: Vec<egui::Event>, time: f64| {
        let screen = egui::Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(900.0, 300.0));
        let input = egui::RawInput { screen_rect: Some(screen), time: Some(time), events, ..Default::default() };
        let mut output = context.run_ui(input, |ui| {
            let shown = fragscope::paint::series::show(ui, &view);
            seen = Some((shown.plot, shown.pointer_unit));
        });
        output.textures_delta.clear();
        (words(&output.shapes), seen.expect("a frame"))
    };
    frame(Vec::new(), 0.0);
    let (text, (plot, _)) = frame(Vec::new(), 0.1);
    let is_binary = |word: &str| word.ends_with(" GiB") && word.len() < 9;
    assert!(text.iter().any(|(word, _)| is_binary(word)), "no byte labels: {text:?}");
    let pointer = egui::pos2(plot.center().x, plot.center().y);
    let (text, (_, unit)) = {
        frame(vec![egui::Event::PointerMoved(pointer)], 0.2);
        frame(vec![egui::Event::PointerMoved(pointer)], 0.3)
    };
    let unit = unit.expect("the pointer is on the plot");
    let position = clock.position(unit);
    assert!((unit - (clock.span().end / 2.0)).abs() < clock.span().end / 100.0, "{unit}");
    let exact = device[0].label_at(&clock, unit);
    assert_eq!(exact, series::value_label(Unit::Bytes, usage.reserved.at(position)));
    assert!(text.iter().any(|(word, _)| word.contains(&exact)), "{exact} is not told: {text:?}");
    let tells = |name: &str| text.iter().any(|(word, _)| word.contains(&format!("\n{name}  ")));
    assert!(tells("reserved") && tells("allocated") && !tells("requested"), "{text:?}");
}
