//! The log of a capture: what is written is read, whatever is cut off or flipped takes one record, and it opens while it
//! grows.

use crate::samples;
use fragscope::base::Progress;
use fragscope::format::fsl::{
    self, End, Event, Filling, LogWriter, NO_STACK, Severity, StateBlock, StateRecord, StateSegment, Tail,
};
use fragscope::format::{self, FormatError};
use fragscope::model::{
    Action, AllocationFlags, BlockState, DeviceSample, Origin, Position, SizeClass, Snapshot, StackId, WarningKind,
};
use fragscope::replay::SnapshotBuilder;
use std::io::Write as _;

const MIB: u64 = 1 << 20;

fn open(bytes: &[u8]) -> Result<Snapshot, FormatError> {
    format::open_bytes("x.fsl", bytes, &Progress::new())
}

fn event(action: Action, address: u64, size: u64, stack: u32, time_us: i64) -> Event {
    Event { action: action as u8, device: 0, pool: 0, stack, address, size, stream: 0, time_us }
}

/// A small log: two blocks in one segment, one freed, each kind of record once.
fn small() -> Vec<u8> {
    let mut log = LogWriter::new(Vec::new()).expect("memory takes all");
    let write = |log: &mut LogWriter<Vec<u8>>| -> std::io::Result<()> {
        log.facts(
            r#"{"source":"torch","torch":"2.11.0+cu130","pid":77,"rank":3,"argv":["python","train.py"],"starts_empty":true,
                "devices":[{"ordinal":0,"name":"A","total":1000000000}],
                "allocator_settings":{"PYTORCH_CUDA_ALLOC_CONF":"","max_split_size":-1,"expandable_segments":false}}"#,
        )?;
        let frame = log.frame("forward", "model.py", 41)?;
        let stack = log.stack(&[frame])?;
        log.event(&event(Action::SegmentAlloc, 0x1000_0000, 2 * MIB, stack, 1_000))?;
        log.event(&event(Action::Alloc, 0x1000_0000, 1000, stack, 1_001))?;
        log.flush()?;
        let later = 40;
        log.event(&event(Action::Alloc, 0x1000_0400, 512, later, 1_002))?;
        log.flush()?;
        log.record(fsl::kind::STACKS, &[later.to_le_bytes(), 1u32.to_le_bytes(), frame.to_le_bytes()].concat())?;
        log.mark(1_000, 0, "step", 0)?;
        log.mark(1_003, 0, "step", 1)?;
        log.samples(&[DeviceSample { device: 0, process: None, total: Some(10), used: Some(4), free: None, time_us: 1_002 }])?;
        log.note(1_003, Severity::Warning, "the ring wrapped")?;
        log.event(&event(Action::FreeRequested, 0x1000_0000, 1000, NO_STACK, 1_004))?;
        log.event(&event(Action::FreeCompleted, 0x1000_0000, 1000, NO_STACK, 1_004))?;
        log.end(&End { time_us: Some(1_005), code: Some(0), signal: None, text: String::new() })
    };
    write(&mut log).expect("memory takes all");
    let mut bytes = Vec::new();
    std::mem::swap(&mut bytes, log.get_mut());
    bytes
}

#[test]
fn what_is_written_is_read() {
    let snapshot = open(&small()).expect("a log");
    assert_eq!(snapshot.origin.format, "fsl");
    assert_eq!(snapshot.origin.written_by.as_ref().map(|range| range.at_least.as_str()), Some("2.11.0"));
    assert!(snapshot.settings.stated);
    assert_eq!(snapshot.job.fact("argv"), Some("python train.py"));
    assert_eq!(snapshot.job.fact("rank"), Some("3"));
    assert_eq!(snapshot.job.total(0), Some(1_000_000_000));
    assert_eq!(snapshot.job.samples.len(), 1);
    assert_eq!(snapshot.job.ended.as_ref().and_then(|end| end.code), Some(0));
    let device = &snapshot.devices.as_slice()[0];
    assert_eq!(device.trace.len(), 5);
    assert_eq!(device.allocations.sizes(), [1024, 512]);
    assert_eq!(device.trace.time_span_us(), Some((1_000, 1_004)));
    assert_eq!(device.annotations.len(), 1);
    let named = |row: usize| snapshot.stacks.frames(device.allocations.stacks()[row]);
    assert_eq!(snapshot.stacks.line(named(0)[0]), "model.py:41 forward");
    assert_eq!(named(0), named(1), "a stack may be defined after the events that name it");
    assert_eq!(snapshot.warnings.count(WarningKind::RecorderTrouble), 1);
    assert_eq!(snapshot.warnings.count(WarningKind::Truncated), 0);
}

#[test]
fn a_log_that_is_cut_loses_its_last_record_only() {
    let whole = small();
    let mut most = 0;
    for cut in 0..=whole.len() {
        let opened = open(&whole[..cut]);
        if cut < fsl::PREAMBLE {
            let error = opened.expect_err("no preamble").to_string();
            assert!(error.contains("x.fsl"), "{cut}: {error}");
            continue;
        }
        let snapshot = opened.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let events = snapshot.devices.as_slice().first().map_or(0, |device| device.trace.len());
        assert!(most <= events && events <= 5, "cut at {cut}: {events} events after {most}");
        most = events;
        assert_eq!(snapshot.warnings.count(WarningKind::BadRow), 0, "cut at {cut}");
        let ended = snapshot.job.ended.is_some();
        assert_eq!(ended, cut == whole.len());
    }
    assert_eq!(most, 5);
    let torn = open(&whole[..whole.len() - 1]).expect("a torn log");
    assert_eq!(torn.warnings.count(WarningKind::Truncated), 1);
}

#[test]
fn a_flipped_byte_takes_one_record() {
    let whole = small();
    let most_in_one = 2;
    for at in 0..whole.len() {
        for flip in [1u8, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            match open(&bytes) {
                Err(error) => assert!(at < fsl::PREAMBLE, "byte {at}: {error}"),
                Ok(snapshot) => {
                    let events = snapshot.devices.as_slice().first().map_or(0, |device| device.trace.len());
                    assert!(5 - most_in_one <= events, "byte {at}: {events} events are left");
                    let said = snapshot.warnings.count(WarningKind::BadRow) + snapshot.warnings.count(WarningKind::Truncated);
                    assert!(0 < said || at < fsl::PREAMBLE, "byte {at}: nothing was said");
                }
            }
        }
    }
}

#[test]
fn unhappy_logs_say_what_they_are() {
    let preamble = &small()[..fsl::PREAMBLE];
    let mut newer = preamble.to_vec();
    newer[8] = 2;
    for (bytes, sentence) in [
        (&b""[..], "is empty"),
        (&b"\x89FSL"[..], "ends early"),
        (&newer, "written by a newer Fragscope"),
        (&b"\x89FSL and something else"[..], "not those of a log"),
    ] {
        let error = open(bytes).expect_err("no log").to_string();
        assert!(error.contains(sentence), "{error}");
    }
    let nothing = open(preamble).expect("a log without records");
    assert!(nothing.devices.is_empty());
    assert_eq!(nothing.warnings.count(WarningKind::Note), 1, "it has no end");
    let mut unknown = preamble.to_vec();
    unknown.extend(fsl::writer::record(999, b"what is this"));
    unknown.extend(fsl::writer::record(fsl::kind::EVENTS, &[0; 39]));
    unknown.extend(&small()[fsl::PREAMBLE..]);
    let opened = open(&unknown).expect("a log with records of tomorrow");
    assert_eq!(opened.devices.as_slice()[0].trace.len(), 5);
    assert_eq!(opened.warnings.count(WarningKind::UnknownKey), 1);
    assert_eq!(opened.warnings.count(WarningKind::BadRow), 1);
}

#[test]
fn a_packed_log_opens_too() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&small()).expect("memory takes all");
    let snapshot = open(&packed.finish().expect("memory takes all")).expect("a packed log");
    assert_eq!(snapshot.origin.format, "fsl in gzip");
    assert_eq!(snapshot.devices.as_slice()[0].trace.len(), 5);
}

/// Every sample, written as a log and read back, is the same recording.
#[test]
fn a_snapshot_as_a_log_is_the_same_recording() {
    for name in ["training", "expandable_segments", "two_devices", "late_start", "private_pools"] {
        let path = samples::sample(name);
        let mut builder = SnapshotBuilder::default();
        format::read(&path, &mut builder, &Progress::new()).expect("a sample");
        let log = as_log(&mut builder);
        let before = format::open(&path, &Progress::new()).expect("a sample");
        let after = open(&log).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(before.devices.len(), after.devices.len(), "{name}");
        for (before_device, after_device) in before.devices.as_slice().iter().zip(after.devices.as_slice()) {
            assert_eq!(before_device.trace.actions(), after_device.trace.actions(), "{name}");
            assert_eq!(before_device.trace.addresses(), after_device.trace.addresses(), "{name}");
            assert_eq!(before_device.trace.time_span_us(), after_device.trace.time_span_us(), "{name}");
            let (a, b) = (&before_device.allocations, &after_device.allocations);
            assert_eq!(a.sizes(), b.sizes(), "{name}");
            assert_eq!(a.died(), b.died(), "{name}");
            assert_eq!(before_device.segments.len(), after_device.segments.len(), "{name}");
            let lines = |snapshot: &Snapshot, stack: StackId| -> Vec<String> {
                snapshot.stacks.frames(stack).iter().map(|frame| snapshot.stacks.line(*frame)).collect()
            };
            for (x, y) in a.stacks().iter().zip(b.stacks()).step_by(97) {
                assert_eq!(lines(&before, *x), lines(&after, *y), "{name}");
            }
        }
    }
}

/// Writes what a file holds as a log.
fn as_log(builder: &mut SnapshotBuilder) -> Vec<u8> {
    let mut log = LogWriter::new(Vec::new()).expect("memory takes all");
    let table = builder.stacks.clone();
    let stack_number = |log: &mut LogWriter<Vec<u8>>, stack: StackId| {
        if stack == StackId::ABSENT {
            return NO_STACK;
        }
        let frames = table.frames(stack).iter().map(|frame| {
            log.frame(table.function(*frame), table.file(*frame), table.frame(*frame).line).expect("memory takes all")
        });
        let frames: Vec<u32> = frames.collect();
        log.stack(&frames).expect("memory takes all")
    };
    let ordinals: Vec<i32> = builder.devices().map(|(ordinal, _)| ordinal).collect();
    for ordinal in ordinals {
        let record = builder.device(ordinal).clone();
        for row in record.trace.events() {
            let entry = record.trace.entry(row);
            let stack = stack_number(&mut log, entry.stack);
            let pool = match entry.pool {
                Some(pool) => log.pool(builder.pools.pair(pool)).expect("memory takes all"),
                None => 0,
            };
            let event = Event {
                action: entry.action as u8,
                device: ordinal as i8,
                pool,
                stack,
                address: entry.address,
                size: entry.size,
                stream: builder.streams.handle(entry.stream),
                time_us: entry.time_us.unwrap_or(fsl::NO_TIME),
            };
            log.event(&event).expect("memory takes all");
        }
        let mut segments = Vec::new();
        for segment in &record.segments {
            let mut blocks = Vec::new();
            for block in &segment.blocks {
                blocks.push(StateBlock {
                    address: block.address.expect("written since 2.1"),
                    size: block.size,
                    requested: block.requested,
                    stack: stack_number(&mut log, block.stack),
                    state: match block.state {
                        BlockState::Inactive => 0,
                        BlockState::ActiveAllocated => 1,
                        BlockState::ActivePendingFree => 2,
                    },
                });
            }
            segments.push(StateSegment {
                address: segment.address,
                size: segment.size,
                stream: builder.streams.handle(segment.stream),
                stack: stack_number(&mut log, segment.stack),
                pool: log.pool(builder.pools.pair(segment.pool)).expect("memory takes all"),
                large: segment.class == SizeClass::Large,
                expandable: segment.expandable,
                blocks,
            });
        }
        let state = StateRecord { device: ordinal, when: fsl::When::End, time_us: None, segments };
        log.state(&state).expect("memory takes all");
    }
    log.flush().expect("memory takes all");
    std::mem::take(log.get_mut())
}

fn segment_of(blocks: &[(u64, u64, u8)]) -> StateSegment {
    let block = |(address, size, state): &(u64, u64, u8)| StateBlock {
        address: *address,
        size: *size,
        requested: (*state != 0).then_some(size - 100),
        stack: NO_STACK,
        state: *state,
    };
    StateSegment {
        address: 0x2000_0000,
        size: 20 * MIB,
        stream: 0,
        stack: NO_STACK,
        pool: 0,
        large: true,
        expandable: false,
        blocks: blocks.iter().map(block).collect(),
    }
}

#[test]
fn a_recording_that_begins_mid_run_knows_what_was_there() {
    let (first, second, third) = (0x2000_0000, 0x2000_0000 + 3 * MIB, 0x2000_0000 + 8 * MIB);
    let rest = (0x2000_0000 + 12 * MIB, 8 * MIB, 0);
    let mut log = LogWriter::new(Vec::new()).expect("memory takes all");
    let segments = vec![segment_of(&[(first, 3 * MIB, 1), (second, 5 * MIB, 1), (third, 4 * MIB, 2), rest])];
    log.state(&StateRecord { device: 0, when: fsl::When::Start, time_us: None, segments }).expect("memory takes all");
    for action in [Action::FreeRequested, Action::FreeCompleted] {
        log.event(&event(action, second, 5 * MIB - 100, NO_STACK, 5)).expect("memory takes all");
    }
    log.flush().expect("memory takes all");
    let snapshot = open(log.get_mut()).expect("a log");
    let device = &snapshot.devices.as_slice()[0];
    let lives: Vec<(u64, u64, Position)> =
        device.allocations.ids().map(|id| device.allocations.get(id)).map(|l| (l.address, l.size, l.died)).collect();
    assert!(lives.contains(&(first, 3 * MIB, Position::NEVER)), "{lives:?}");
    assert!(lives.contains(&(second, 5 * MIB, Position(2))), "{lives:?}");
    assert!(lives.contains(&(third, 4 * MIB, Position::NEVER)), "{lives:?}");
    assert!(device.allocations.ids().all(|id| device.allocations.get(id).flags.has(AllocationFlags::SIZE_STATED)));
    assert_eq!(device.segments.len(), 1);
}

#[test]
fn after_a_gap_the_books_are_right_again() {
    let (first, second, third) = (0x2000_0000, 0x2000_0000 + 3 * MIB, 0x2000_0000 + 8 * MIB);
    let mut log = LogWriter::new(Vec::new()).expect("memory takes all");
    let mut write = || -> std::io::Result<()> {
        log.event(&event(Action::SegmentAlloc, 0x2000_0000, 20 * MIB, NO_STACK, 1))?;
        log.event(&event(Action::Alloc, first, 3 * MIB - 100, NO_STACK, 2))?;
        log.event(&event(Action::Alloc, second, 5 * MIB - 100, NO_STACK, 3))?;
        log.gap(0, "the ring wrapped", Some(17), Some(4))?;
        let segments = vec![segment_of(&[
            (first, 3 * MIB, 1),
            (second, 5 * MIB, 0),
            (third, 4 * MIB, 1),
            (0x2000_0000 + 12 * MIB, 8 * MIB, 0),
        ])];
        log.state(&StateRecord { device: 0, when: fsl::When::AfterGap, time_us: Some(4), segments: segments.clone() })?;
        log.event(&event(Action::FreeRequested, third, 4 * MIB - 100, NO_STACK, 5))?;
        log.event(&event(Action::FreeCompleted, third, 4 * MIB - 100, NO_STACK, 5))?;
        log.flush()
    };
    write().expect("memory takes all");
    let snapshot = open(log.get_mut()).expect("a log");
    let device = &snapshot.devices.as_slice()[0];
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc};
    let actions = [SegmentAlloc, Alloc, Alloc, FreeRequested, FreeCompleted, Alloc, FreeRequested, FreeCompleted];
    assert_eq!(device.trace.actions(), actions);
    assert_eq!(snapshot.job.missed[0].count, Some(17));
    assert_eq!(snapshot.warnings.count(WarningKind::EventsMissed), 1);
    assert_eq!(snapshot.warnings.count(WarningKind::FreeWithoutAlloc), 0);
    assert_eq!(device.unmatched_frees, 0);
}

#[test]
fn a_log_opens_while_it_grows() {
    let whole = small();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.fsl");
    std::fs::write(&path, b"").expect("a file");
    let mut tail = Tail::open(&path).expect("an empty file");
    let mut filling = Filling::default();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("a file");
    let mut seen = 0;
    for piece in whole.chunks(7) {
        file.write_all(piece).expect("room on the disk");
        assert_eq!(tail.fill(&mut filling, u64::MAX).expect("a log"), piece.len() as u64);
        assert!(seen <= filling.events());
        seen = filling.events();
        let now = filling.clone().finish().finish(Origin::default(), &Progress::new()).expect("not cancelled");
        assert_eq!(now.devices.as_slice().first().map_or(0, |device| device.trace.len()) as u64, seen);
    }
    assert_eq!(seen, 5);
    assert!(filling.ended());
    assert_eq!(tail.fill(&mut filling, u64::MAX).expect("a log"), 0);
    std::fs::write(&path, &whole[..30]).expect("a file");
    assert!(tail.fill(&mut filling, u64::MAX).expect_err("another file").to_string().contains("shorter"));
}
