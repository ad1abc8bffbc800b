//! Snapshots in, pictures out: rasters against a naive reference, drawings as text, pages as pixels.
//!
//! Drawings are compared with `tests/expected/`; `BLESS=1` writes them anew.

use egui_kittest::TestRenderer;
use fragscope::analysis::{DeviceUse, UsageTimeline};
use fragscope::base::Progress;
use fragscope::chart::{
    Clock, ColourBy, Drawing, Ink, Inks, Palette, SegmentMapInput, Shape, Theme, TimeAxis, UsageInput, drawing::MAX_MARKS,
    segment_map, usage,
};
use fragscope::format::fsl::{Event, LogWriter, NO_STACK};
use fragscope::model::{
    Action, AllocationId, BlockState, DeviceId, DeviceMemory, DeviceSample, Frame, Item, MarkStage, Origin, PoolId, Position,
    SizeClass, Snapshot, StackId, StreamId, TraceEntry,
};
use fragscope::paint::{Canvas, Offscreen};
use fragscope::raster::{ColourTable, RasterView, StackRaster};
use fragscope::replay::{BlockRecord, MemoryState, Replay, SegmentRecord, SnapshotBuilder};
use fragscope::report::{REPORTS, ReportError, ReportOptions, ReportSubject, render_report, report_of_extension};

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7000_0000_0000;

/// Events by hand: action, address relative to a base, size.
fn entry(action: Action, address: u64, size: u64, time_us: i64, stack: StackId) -> TraceEntry {
    let address = if action == Action::Oom { address } else { BASE + address };
    let stream = StreamId::DEFAULT;
    TraceEntry {
        action,
        address,
        size,
        stream,
        time_us: Some(time_us),
        stack,
        pool: None,
        compile_context: None,
        user_metadata: None,
    }
}

fn stack(builder: &mut SnapshotBuilder, frames: &[(&str, &str, i64)]) -> StackId {
    let frames: Vec<_> = frames
        .iter()
        .map(|(name, file, line)| {
            let (name, filename) = (builder.stacks.strings.intern(name), builder.stacks.strings.intern(file));
            builder.stacks.intern_frame(Frame { name, filename, line: *line })
        })
        .collect();
    builder.stacks.intern(&frames)
}

/// Two segments, five blocks, a pending free, a failure, two nested spans.
fn tiny() -> Snapshot {
    use Action::{Alloc, FreeCompleted, FreeRequested, Oom, SegmentAlloc};
    let mut builder = SnapshotBuilder::default();
    builder.settings.stated = true;
    let forward = stack(&mut builder, &[("linear", "/x/torch/nn/linear.py", 7), ("forward", "/home/u/mlp.py", 41)]);
    let backward = stack(&mut builder, &[("backward", "/home/u/mlp.py", 60)]);
    let events = [
        (SegmentAlloc, 0, 20 * MIB, forward),
        (Alloc, 0, 8 * MIB, forward),
        (Alloc, 8 * MIB, 4 * MIB, backward),
        (Alloc, 12 * MIB, 3 * MIB, forward),
        (FreeRequested, 8 * MIB, 4 * MIB, backward),
        (FreeCompleted, 8 * MIB, 4 * MIB, backward),
        (SegmentAlloc, 32 * MIB, 2 * MIB, backward),
        (Alloc, 32 * MIB, 1000, StackId::EMPTY),
        (Alloc, 32 * MIB + 1024, MIB / 2, backward),
        (FreeRequested, 12 * MIB, 3 * MIB, forward),
        (Oom, 1 << 20, 16 * MIB, forward),
    ];
    for (i, (action, address, size, stack)) in events.into_iter().enumerate() {
        builder.device(0).trace.push(entry(action, address, size, 1_000_000 + 500 * i as i64, stack));
    }
    let names = ["step", "forward"].map(|name| builder.stacks.strings.intern(name));
    for (name, stage, time) in
        [(0, MarkStage::Start, 0), (1, MarkStage::Start, 1), (1, MarkStage::End, 4), (0, MarkStage::End, 9)]
    {
        let (name, time_us) = (names[name], Some(1_000_000 + 500 * time));
        builder.marks.push(fragscope::model::AnnotationMark { name, stage, device: 0, time_us });
    }
    let origin = Origin { name: "/data/a run/tiny.pickle".into(), bytes: 1234, format: "by hand".into(), ..Origin::default() };
    builder.finish(origin, &Progress::new()).expect("not cancelled")
}

/// Blocks laid one behind the other, freed at random.
fn random(seed: u64, events: usize, most: u64) -> Snapshot {
    let mut seed = seed | 1;
    let mut next = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut builder = SnapshotBuilder::default();
    let stacks: Vec<_> = (0..9).map(|line| stack(&mut builder, &[("f", "a.py", line)])).collect();
    let (mut live, mut end) = (Vec::new(), 0);
    let trace = &mut builder.device(0).trace;
    trace.push(entry(Action::SegmentAlloc, 0, 1 << 40, 0, StackId::EMPTY));
    while trace.len() < events {
        let time = trace.len() as i64 * 3;
        if live.is_empty() || next(20) < 11 {
            let size = 512 * (1 + next(most));
            trace.push(entry(Action::Alloc, end, size, time, stacks[next(9) as usize]));
            live.push((end, size));
            end += size;
        } else {
            let (address, size) = live.swap_remove(next(live.len() as u64) as usize);
            trace.push(entry(Action::FreeRequested, address, size, time, StackId::EMPTY));
            trace.push(entry(Action::FreeCompleted, address, size, time, StackId::EMPTY));
        }
    }
    builder.finish(Origin::default(), &Progress::new()).expect("not cancelled")
}

/// A snapshot's first device with all that pictures are drawn from.
struct Drawn {
    snapshot: Snapshot,
    replay: Replay,
    usage: UsageTimeline,
}

impl Drawn {
    fn new(snapshot: Snapshot) -> Drawn {
        let memory = &snapshot.devices.as_slice()[0];
        let (replay, usage) = (Replay::new(memory), UsageTimeline::of(memory, &Progress::new()).expect("not cancelled"));
        Drawn { snapshot, replay, usage }
    }
    fn memory(&self) -> &DeviceMemory {
        &self.snapshot.devices.as_slice()[0]
    }
    fn stack(&self) -> StackRaster<'_> {
        StackRaster::new(self.memory(), &self.replay, &self.usage)
    }
    /// Ids active at a position by looking at every life.
    fn live(&self, at: Position) -> Vec<AllocationId> {
        let lives = &self.memory().allocations;
        lives.ids().filter(|id| lives.get(*id).is_active_at(at)).collect()
    }
    /// The first position of the highest active sum in a column, by looking at every position.
    fn shown(&self, from: Position, to: Position) -> Position {
        let sum = |p: u32| self.live(Position(p)).iter().map(|id| self.memory().allocations.get(*id).size).sum::<u64>();
        let mut best = (from, sum(from.0));
        for p in from.0 + 1..to.0 {
            if best.1 < sum(p) {
                best = (Position(p), sum(p));
            }
        }
        best.0
    }
}

#[test]
fn the_raster_equals_a_naive_one() {
    // Events, largest block in 512 bytes, columns, rows, a window of time, a window of bytes as shares of the peak.
    for (events, most, width, height, time, bytes) in [
        (60, 40, 23, 50, (0.0, 1.0), (0.0, 1.05)),
        (400, 40, 37, 64, (0.0, 1.0), (0.0, 1.05)),
        (400, 400, 90, 40, (0.3, 0.45), (0.2, 0.7)),
        (1500, 9, 33, 30, (0.5, 1.0), (0.0, 1.0)),
        (300, 5, 64, 80, (0.98, 1.0), (0.5, 0.52)),
    ] {
        let drawn = Drawn::new(random(events as u64, events, most));
        let (memory, lives) = (drawn.memory(), &drawn.memory().allocations);
        let clock = Clock::new(&memory.trace, TimeAxis::Events);
        let (span, peak) = (clock.span().end, drawn.usage.active.peak().1 as f64);
        let columns = clock.columns(time.0 * span..time.1 * span, width);
        let view = RasterView { columns, bytes: bytes.0 * peak..bytes.1 * peak, height };
        let colours: Vec<[u8; 3]> = (0..10).map(|i| [25 * i, 255 - 25 * i, 100]).collect();
        let table = ColourTable {
            by: ColourBy::Stack,
            colours: colours.clone(),
            other: [1, 2, 3],
            held: Default::default(),
            spotlight: None,
        };
        let raster = drawn.stack().raster(&view, &table, &Progress::new()).expect("not cancelled");
        assert_eq!((raster.width, raster.height, raster.rgba.len()), (width, height, width * height * 4));
        let scale = height as f64 / (view.bytes.end - view.bytes.start);
        for column in 0..width {
            let moment = drawn.shown(view.columns[column], view.columns[column + 1]);
            let mut cells = vec![[0f64; 4]; height];
            let (mut below, mut all_small) = (0u64, true);
            for id in drawn.live(moment) {
                let life = lives.get(id);
                let low = (below as f64 - view.bytes.start) * scale;
                below += life.size;
                let high = (below as f64 - view.bytes.start) * scale;
                all_small &= high - low < 4.0;
                for (row, cell) in cells.iter_mut().enumerate() {
                    let share = (high.min(row as f64 + 1.0) - low.max(row as f64)).max(0.0);
                    for (sum, value) in cell.iter_mut().zip(colours[life.stack.0 as usize].into_iter().chain([255])) {
                        *sum += share * f64::from(value);
                    }
                }
            }
            for (row, expected) in cells.iter().rev().enumerate() {
                let at = (row * width + column) * 4;
                let channels = if all_small { 0..4 } else { 3..4 };
                for channel in channels {
                    let (is, should) = (f64::from(raster.rgba[at + channel]), expected[channel]);
                    assert!(
                        (is - should).abs() <= 2.0,
                        "{events} events, column {column}, row {row}, channel {channel}: {is}, not {should:.1}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_peak_vanishes_however_narrow() {
    let drawn = Drawn::new(random(5, 4000, 60));
    let memory = drawn.memory();
    let clock = Clock::new(&memory.trace, TimeAxis::Events);
    let peak = drawn.usage.active.peak();
    for width in [1, 7, 100, 900] {
        let columns = clock.columns(clock.span(), width);
        let moments: Vec<_> = columns.windows(2).map(|ends| drawn.stack().shown(ends[0], ends[1])).collect();
        let highest = moments.iter().map(|at| drawn.usage.active.at(*at)).max();
        assert_eq!(highest, Some(peak.1), "{width} columns");
        let view = RasterView { columns, bytes: 0.0..peak.1 as f64, height: 100 };
        let table =
            ColourTable { by: ColourBy::Stack, colours: Vec::new(), other: [9, 9, 9], held: Default::default(), spotlight: None };
        let raster = drawn.stack().raster(&view, &table, &Progress::new()).expect("not cancelled");
        assert!(raster.rgba.chunks_exact(4).take(width).any(|pixel| 250 <= pixel[3]), "{width} columns: top row empty");
    }
}

#[test]
fn a_hit_is_the_box_that_is_drawn_there() {
    let drawn = Drawn::new(random(11, 700, 50));
    let lives = &drawn.memory().allocations;
    let mut hits = 0;
    for position in (0..=drawn.memory().end().0).step_by(37).map(Position) {
        let mut below = 0;
        for id in drawn.live(position) {
            let size = lives.get(id).size;
            for bytes in [below, below + size / 2, below + size - 1] {
                assert_eq!(drawn.stack().hit(position, bytes), Some(id), "{position:?} {bytes}");
                hits += 1;
            }
            assert_eq!(drawn.stack().outline(id).offset(position), Some(below), "{position:?} {id:?}");
            below += size;
        }
        assert_eq!(drawn.stack().hit(position, below), None);
    }
    assert!(300 < hits);
    let first = drawn.stack().outline(AllocationId(0));
    assert_eq!((first.offset(Position::START), first.offset(first.died)), (None, None));
}

#[test]
fn a_cancelled_raster_stops() {
    let drawn = Drawn::new(random(3, 100, 9));
    let progress = Progress::new();
    progress.cancel();
    let view = RasterView { columns: vec![Position(0); 100], bytes: 0.0..1.0, height: 5 };
    let table =
        ColourTable { by: ColourBy::Stack, colours: Vec::new(), other: [0; 3], held: Default::default(), spotlight: None };
    assert!(drawn.stack().raster(&view, &table, &progress).is_err());
}

fn check_expected(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{name} differs; if it is right, run with BLESS=1. Now:\n{text}");
}

fn usage_input<'a>(drawn: &'a Drawn, clock: &'a Clock) -> UsageInput<'a> {
    UsageInput {
        snapshot: &drawn.snapshot,
        memory: drawn.memory(),
        usage: &drawn.usage,
        clock,
        width_pt: 200.0,
        height_pt: 200.0,
        overview: true,
        time: 0.0..0.0,
        bytes: 0.0..0.0,
        rasters: &[],
        capacity: Some(24 * MIB),
        device: None,
        cursor: Some(Position(4)),
        range: Some(Position(2)..Position(5)),
        marks: &[('A', Position(3))],
        selected: &[],
        hovered: None,
        selected_item: None,
        hovered_span: None,
    }
}

#[test]
fn the_usage_picture_as_text() {
    let drawn = Drawn::new(tiny());
    let outline = drawn.stack().outline(AllocationId(1));
    for (axis, name) in [(TimeAxis::Events, "usage_events.txt"), (TimeAxis::Time, "usage_time.txt")] {
        let clock = Clock::of(drawn.memory(), axis);
        let input = UsageInput { selected: std::slice::from_ref(&outline), ..usage_input(&drawn, &clock) };
        check_expected(name, &usage::draw(&input).dump());
    }
}

#[test]
fn a_raster_is_moved_to_the_window_one_sees() {
    let drawn = Drawn::new(tiny());
    let clock = Clock::of(drawn.memory(), TimeAxis::Events);
    let whole = usage_input(&drawn, &clock);
    let (view, placed) = usage::wanted_raster(&whole, 2.0);
    let plot = usage::frame(&whole).plot;
    assert_eq!((view.columns.len() - 1, view.height), ((plot.width() * 2.0) as usize, (plot.height() * 2.0) as usize));
    let rasters = [placed];
    let zoomed = UsageInput { time: 3.0..6.0, bytes: whole.bytes.clone(), rasters: &rasters, ..whole };
    let drawing = usage::draw(&zoomed);
    let uv = drawing.marks.iter().find_map(|mark| match &mark.shape {
        Shape::Raster { area, uv, .. } => Some((*area, *uv)),
        _ => None,
    });
    let (area, uv) = uv.expect("the raster is placed");
    assert_eq!(area.x0, plot.x0);
    assert!((uv.x0 - 3.0 / 12.0).abs() < 1e-4 && (uv.x1 - 6.0 / 12.0).abs() < 1e-4, "{uv:?}");
}

fn map_input<'a>(drawn: &'a Drawn, state: &'a MemoryState, inks: &'a Inks) -> SegmentMapInput<'a> {
    SegmentMapInput {
        snapshot: &drawn.snapshot,
        memory: drawn.memory(),
        state,
        inks,
        width_pt: 400.0,
        height_pt: 160.0,
        scroll_pt: 0.0,
        bytes_per_row: None,
        focus: None,
        request: Some(5 * MIB),
        selected: Some(Item::Allocation(AllocationId(0))),
        hovered: None,
        found: None,
    }
}

#[test]
fn the_segment_map_as_text() {
    let drawn = Drawn::new(tiny());
    let inks = Inks::new(&drawn.snapshot, ColourBy::Stack);
    let state = drawn.replay.state_at(drawn.memory(), drawn.memory().end());
    let map = segment_map::draw(&map_input(&drawn, &state, &inks));
    check_expected("segment_map.txt", &map.drawing.dump());
    let focused = segment_map::draw(&SegmentMapInput { focus: Some(BASE + 33 * MIB), ..map_input(&drawn, &state, &inks) });
    check_expected("segment_map_focus.txt", &focused.drawing.dump());
}

/// Ten thousand segments of ten blocks each, as a file states them.
fn huge() -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    let stack = stack(&mut builder, &[("f", "a.py", 1)]);
    let record = builder.device(0);
    record.segments_known = true;
    for i in 0..10_000u64 {
        let block = |size, state| BlockRecord { address: None, size, requested: Some(size), state, stack };
        let blocks = (0..10).map(|b| block(209_715, if b % 3 == 0 { BlockState::Inactive } else { BlockState::ActiveAllocated }));
        record.segments.push(SegmentRecord {
            address: BASE + i * 4 * MIB,
            size: 2_097_150,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            class: if i % 2 == 0 { SizeClass::Small } else { SizeClass::Large },
            expandable: false,
            stack,
            blocks: blocks.collect(),
            stated_totals: [None; 3],
        });
    }
    builder.finish(Origin::default(), &Progress::new()).expect("not cancelled")
}

/// Area times share of all that is painted as blocks.
fn painted(drawing: &Drawing) -> f64 {
    use fragscope::chart::Ink;
    let area = |mark: &fragscope::chart::Mark, share: f64| match mark.shape {
        Shape::Box(area) => f64::from(area.width() * area.height()) * share,
        _ => 0.0,
    };
    drawing
        .marks
        .iter()
        .map(|mark| match mark.ink {
            Ink::Block(_) => area(mark, 1.0),
            Ink::Part(_, share) => area(mark, f64::from(share) / 255.0),
            _ => 0.0,
        })
        .sum()
}

#[test]
fn ten_thousand_segments_stay_within_the_marks_and_keep_their_share() {
    let drawn = Drawn::new(huge());
    let inks = Inks::new(&drawn.snapshot, ColourBy::Stack);
    let state = drawn.replay.state_at(drawn.memory(), drawn.memory().end());
    assert_eq!(state.segments.len(), 10_000);
    for (bytes_per_row, scroll_pt) in [(None, 0.0), (Some(64 * MIB), 0.0), (Some(64 * MIB), 900.0), (Some(2 * MIB), 40_000.0)] {
        let input =
            SegmentMapInput { width_pt: 1000.0, height_pt: 700.0, bytes_per_row, scroll_pt, ..map_input(&drawn, &state, &inks) };
        let map = segment_map::draw(&input);
        assert!(map.drawing.marks.len() < MAX_MARKS, "{bytes_per_row:?}: {} marks", map.drawing.marks.len());
        assert!(100 < map.drawing.marks.len());
        if bytes_per_row.is_none() {
            assert!(map.content_height_pt <= 700.5, "{} high", map.content_height_pt);
            // Six tenths of the bytes are active; three tenths of a narrow segment's width stay free behind it.
            let (rows, row) = (map.content_height_pt - 60.0, 17.0);
            let share = painted(&map.drawing) / f64::from(rows * 984.0 * (row - 2.0) / (row + 4.0));
            assert!((0.6 / 1.3 - 0.03..0.6 / 1.3).contains(&share), "{share}");
        }
    }
}

/// The CPU painter as the test harness's renderer: no display, GL or Vulkan in any test.
#[derive(Default)]
pub struct Cpu(Offscreen);

impl TestRenderer for Cpu {
    fn handle_delta(&mut self, delta: &mut egui::TexturesDelta) {
        self.0.apply(delta);
    }
    fn render(&mut self, context: &egui::Context, output: &egui::FullOutput) -> Result<image::RgbaImage, String> {
        let scale = context.pixels_per_point();
        let size = context.content_rect().size() * scale;
        let mut canvas = Canvas::filled(size.x.round() as usize, size.y.round() as usize, egui::Color32::BLACK);
        self.0.paint(&mut canvas, &context.tessellate(output.shapes.clone(), scale), scale);
        image::RgbaImage::from_raw(canvas.width as u32, canvas.height as u32, canvas.bytes().to_vec())
            .ok_or_else(|| "size".into())
    }
}

#[test]
fn drawings_are_painted_where_they_say() {
    let mut drawing = Drawing::new(60.0, 40.0);
    drawing.push(Shape::Box(fragscope::chart::Area::new(10.0, 10.0, 30.0, 20.0)), fragscope::chart::Ink::Oom);
    let paint = |ui: &mut egui::Ui| {
        fragscope::paint::paint(ui.painter(), egui::pos2(5.0, 5.0), &drawing, Palette::LIGHT, &|_| None);
    };
    let mut harness = egui_kittest::Harness::builder().with_size([80.0, 60.0]).renderer(Cpu::default()).build_ui(paint);
    let image = harness.render().expect("the CPU painter needs nothing");
    let [r, g, b, _] = Palette::LIGHT.rgba(fragscope::chart::Ink::Oom);
    for (x, y, inside) in [(15, 15, true), (34, 24, true), (35, 24, false), (34, 25, false), (14, 15, false)] {
        assert_eq!(image.get_pixel(x, y).0 == [r, g, b, 255], inside, "{x},{y}");
    }
}

/// Colours that occur in a page, and how many of them.
fn distinct(image: &image::RgbaImage) -> usize {
    image.pixels().map(|pixel| pixel.0).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn a_page_is_written_whatever_the_file_holds() {
    let mut segments_only = huge();
    segments_only.origin.name = format!("/{}/x.pickle", "very_long_folder/".repeat(40));
    let mut empty = SnapshotBuilder::default();
    empty.device(0);
    let empty = empty.finish(Origin::default(), &Progress::new()).expect("not cancelled");
    for (name, snapshot, least_height) in [("tiny", tiny(), 1200), ("segments only", segments_only, 700), ("empty", empty, 80)] {
        let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        for (theme, colour_by, scale) in [(Theme::Light, ColourBy::Stack, 1.0), (Theme::Dark, ColourBy::State, 0.5)] {
            let options = ReportOptions { width_pt: 900, height_pt: 1200, scale, theme, colour_by, ..ReportOptions::default() };
            let subject =
                ReportSubject { snapshot: &snapshot, replays: &replays, device: DeviceId(0), position: Position::NEVER };
            let mut file = Vec::new();
            REPORTS[0].write(&subject, &options, &mut file).expect("written");
            let image = image::load_from_memory(&file).expect("a PNG").to_rgba8();
            assert_eq!(image.width(), (900.0 * scale) as u32);
            assert!(((least_height as f32 * scale) as u32) <= image.height(), "{name}: {} high", image.height());
            assert!(8 < distinct(&image), "{name}: blank");
            let margin = image.rows().flat_map(|row| row.rev().take(8).map(|pixel| pixel.0).collect::<Vec<_>>());
            assert_eq!(margin.collect::<std::collections::BTreeSet<_>>().len(), 1, "{name}: something reaches the right edge");
        }
    }
}

#[test]
fn a_page_refuses_what_cannot_be() {
    let snapshot = tiny();
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let huge = ReportOptions { width_pt: 60_000, height_pt: 60_000, scale: 4.0, ..ReportOptions::default() };
    let too_large = render_report(&snapshot, &replays, DeviceId(0), Position(1), &huge);
    assert!(matches!(too_large, Err(ReportError::TooLarge { .. })));
    let missing = render_report(&snapshot, &replays, DeviceId(7), Position(1), &ReportOptions::default());
    assert!(matches!(missing, Err(ReportError::NoDevice(7))));
    assert_eq!(report_of_extension("PNG").map(|report| report.name()), Some("picture"));
    assert!(report_of_extension("docx").is_none());
}

#[test]
fn what_the_whole_device_held_is_a_line_above() {
    let mut log = LogWriter::new(Vec::new()).expect("memory takes all");
    for (row, time_us) in [1_000, 2_000, 3_000].into_iter().enumerate() {
        let address = 0x7000_0000_0000 + row as u64 * 20 * MIB;
        for action in [Action::SegmentAlloc, Action::Alloc] {
            let event =
                Event { action: action as u8, device: 0, pool: 0, stack: NO_STACK, address, size: 20 * MIB, stream: 0, time_us };
            log.event(&event).expect("memory takes all");
        }
    }
    log.flush().expect("memory takes all");
    let look = |time_us: i64, mib: u64| DeviceSample {
        device: 0,
        process: None,
        total: None,
        used: Some(mib * MIB),
        free: None,
        time_us,
    };
    log.samples(&[look(500, 10), look(2_500, 45), look(2_600, 48), look(3_010, 70)]).expect("memory takes all");
    let bytes = std::mem::take(log.get_mut());
    let drawn = Drawn::new(fragscope::format::open_bytes("x.fsl", &bytes, &Progress::new()).expect("a log"));
    let device = DeviceUse::of(&drawn.snapshot.job, drawn.memory());
    assert_eq!(device.looks().iter().map(|look| look.position.0).collect::<Vec<_>>(), [0, 4, 4, 6]);
    for axis in [TimeAxis::Events, TimeAxis::Time] {
        let clock = Clock::of(drawn.memory(), axis);
        let input = UsageInput { device: Some(&device), capacity: None, width_pt: 600.0, ..usage_input(&drawn, &clock) };
        let (drawing, frame) = (usage::draw(&input), usage::frame(&input));
        let line = drawing.marks.iter().find_map(|mark| match &mark.shape {
            Shape::Line(points, _) if mark.ink == Ink::DeviceUse && 2 < points.len() => Some(points),
            _ => None,
        });
        let line = line.expect("the line is drawn");
        let heights: Vec<f32> = [10, 45, 48, 70].map(|mib: u64| frame.bytes.point((mib * MIB) as f64)).to_vec();
        assert_eq!((line[0][1], line[line.len() - 1]), (heights[0], [frame.plot.x1, heights[3]]), "{axis:?}");
        assert!(line.windows(2).all(|ends| ends[0][0] <= ends[1][0]), "{axis:?}: {line:?}");
        assert!(line.iter().all(|point| heights.contains(&point[1])), "{axis:?}: {line:?}");
        assert!(drawing.dump().contains("whole device, at most 70.00 MiB"), "{}", drawing.dump());
    }
}
