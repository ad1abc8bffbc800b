//! The reading room from outside: bytes in, a snapshot or a sentence out, and never a panic.
//!
//! One small snapshot in every dialect, container and wrapping must be the same snapshot; broken, hostile
//! and foreign files must each get their own answer.

pub(crate) mod fixtures;
mod writer;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fragscope::base::Progress;
use fragscope::format::{Confidence, FormatError, IMPORTERS, open, open_bytes};
use fragscope::model::{Action, BlockState, EventIdx, Snapshot, WarningKind};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use writer::{DIALECTS, Dialect, pickle};

fn read(bytes: &[u8]) -> Result<Snapshot, FormatError> {
    open_bytes("test", bytes, &Progress::new())
}
fn fixture() -> Value {
    serde_json::from_str(fixtures::JSON).expect("the fixture is JSON")
}
fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/sample_snapshots/{name}.pickle.gz", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(path).expect("the sample is there");
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut whole).expect("the sample unpacks");
    whole
}

/// Everything a snapshot tells, as text; only the container's name is left out.
pub(crate) fn told(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let stacks = &snapshot.stacks;
    let stack = |id| {
        let lines: Vec<_> = stacks
            .frames(id)
            .iter()
            .map(|frame| format!("{}{:?}", stacks.line(*frame), stacks.extras(*frame).collect::<Vec<_>>()))
            .collect();
        format!("{}{lines:?}", if id == fragscope::model::StackId::ABSENT { "absent" } else { "" })
    };
    let word = |id: Option<_>| id.map(|id| stacks.strings.get(id));
    let _ = writeln!(text, "{:?}\n{:?}", snapshot.origin.written_by, snapshot.settings);
    for device in snapshot.devices.as_slice() {
        let _ = writeln!(text, "device {}", device.ordinal);
        for event in device.trace.events() {
            let e = device.trace.entry(event);
            let extras: Vec<_> = device.trace.extras_of(event).iter().map(|x| (word(Some(x.key)), word(Some(x.value)))).collect();
            let _ = writeln!(
                text,
                "{:?} {:x} {} {} {:?} {:?} {:?} {:?} {} {extras:?}",
                e.action,
                e.address,
                e.size,
                snapshot.streams.handle(e.stream),
                e.time_us,
                e.pool.map(|pool| snapshot.pools.pair(pool)),
                word(e.compile_context),
                word(e.user_metadata),
                stack(e.stack)
            );
        }
        for id in device.allocations.ids() {
            let a = device.allocations.get(id);
            let _ = writeln!(text, "{} {} {} {:?} {}", a.label(), a.size, a.requested, (a.born, a.freed, a.died), stack(a.stack));
        }
        for segment in device.segments.as_slice() {
            let pool = snapshot.pools.pair(segment.pool);
            let _ =
                writeln!(text, "{:x} {} {pool:?} {:?} {}", segment.address, segment.size, segment.class, stack(segment.stack));
        }
        let spans: Vec<_> = device.annotations.iter().map(|a| (word(Some(a.name)), a.start_us, a.end_us)).collect();
        let _ = writeln!(text, "{spans:?} {:?}", device.coverage);
    }
    let _ = writeln!(text, "{:?}", snapshot.warnings);
    text
}

#[test]
fn every_protocol_and_dialect_is_the_same_snapshot() {
    let from_json = read(fixtures::JSON.as_bytes()).expect("the JSON form opens");
    assert_eq!(from_json.origin.format, "torch-json");
    let wanted = told(&from_json);
    for (protocol, text) in fixtures::PICKLES {
        let snapshot = read(&STANDARD.decode(text).expect("base64")).expect("a pickle by CPython opens");
        assert_eq!(told(&snapshot), wanted, "protocol {protocol}");
        assert_eq!(snapshot.origin.format, "torch-pickle");
        assert_eq!(snapshot.stacks.len(), 2, "protocol {protocol}: no stack but the empty one and the shared one");
    }
    for dialect in DIALECTS {
        let snapshot = read(&pickle(&fixture(), dialect)).expect("a pickle by the test's writer opens");
        assert_eq!(told(&snapshot), wanted, "{dialect:?}");
    }
}

#[test]
fn every_field_arrives() {
    let snapshot = read(&STANDARD.decode(fixtures::PICKLES[4].1).expect("base64")).expect("it opens");
    let base = 18_446_720_620_317_114_368;
    let trace = &snapshot.devices.as_slice()[0].trace;
    assert_eq!(snapshot.devices.len(), 2, "the idle device is listed too");
    let actions = [Action::SegmentAlloc, Action::Alloc, Action::Alloc, Action::FreeRequested, Action::Unknown, Action::Oom];
    assert_eq!(trace.actions(), actions);
    assert_eq!(trace.addresses(), [base, base, base + 1024, base + 1024, 0, 4096], "an oom has the free bytes for address");
    assert_eq!(trace.sizes(), [2 << 20, 1000, 512, 512, 0, 1 << 40]);
    let text = |id| snapshot.stacks.strings.get(id);
    let extras = |event| trace.extras_of(EventIdx(event)).iter().map(|e| (text(e.key), text(e.value))).collect::<Vec<_>>();
    assert_eq!(extras(1), [("forward_frames", "a\nb\n")]);
    assert_eq!(extras(2), [("novel", "3.5")]);
    assert_eq!(extras(4), [("action", "teleport")]);
    let alloc = trace.entry(EventIdx(1));
    assert_eq!(alloc.compile_context.map(text), Some("Torch-Compiled Region: 0/1"));
    assert_eq!(alloc.user_metadata.map(text), Some("β"));
    assert_eq!(trace.entry(EventIdx(0)).compile_context, None, "N/A is no context");
    assert_eq!(snapshot.streams.handle(trace.streams()[2]), -7);
    assert_eq!(trace.entry(EventIdx(2)).pool.map(|pool| snapshot.pools.pair(pool)), Some((1, 2)));
    let lines: Vec<_> = snapshot.stacks.frames(alloc.stack).iter().map(|frame| snapshot.stacks.line(*frame)).collect();
    assert_eq!(lines, ["/job/model.py:41 forward", "fake.py:-1 init"], "2^64 - 1 is the line -1");
    let settings = &snapshot.settings;
    assert!(settings.stated);
    assert_eq!((settings.max_split_size, settings.garbage_collection_threshold), (Some(64 << 20), 0.5));
    assert_eq!(settings.roundup_power2_divisions, [0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (kind, count) in [(WarningKind::UnknownKey, 1), (WarningKind::UnknownAction, 1), (WarningKind::BadField, 0)] {
        assert_eq!(snapshot.warnings.count(kind), count, "{kind:?}");
    }
}

fn packed(container: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match container {
        "gzip" => {
            let mut writer = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
            writer.write_all(bytes).and_then(|()| writer.finish().map(drop)).expect("gzip");
        }
        "zstd" => out = zstd::encode_all(bytes, 3).expect("zstd"),
        "xz" => {
            let mut writer = liblzma::write::XzEncoder::new(&mut out, 1);
            writer.write_all(bytes).and_then(|()| writer.finish().map(drop)).expect("xz");
        }
        "bzip2" => {
            let mut writer = bzip2::write::BzEncoder::new(&mut out, bzip2::Compression::fast());
            writer.write_all(bytes).and_then(|()| writer.finish().map(drop)).expect("bzip2");
        }
        _ => out = zipped(&[("notes.txt", b"what was recorded"), ("run/snapshot.pickle", bytes)]),
    }
    out
}
fn zipped(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).expect("zip");
        archive.write_all(bytes).expect("zip");
    }
    archive.finish().expect("zip").into_inner()
}
fn page(files: &[(&str, &[u8])]) -> Vec<u8> {
    let files: Vec<_> = files.iter().map(|(name, bytes)| json!({"name": name, "base64": STANDARD.encode(bytes)})).collect();
    format!(
        "\n<!DOCTYPE html>\n<html>\n<body>\n<script type=\"module\">\nimport {{add_local_files}} from \
         \"https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js\"\nconst local_files = {}\n\
         add_local_files(local_files, \"Active Memory Timeline\")\n</script>\n</body>\n",
        serde_json::to_string(&files).expect("json")
    )
    .into_bytes()
}

#[test]
fn wrappings_change_nothing() {
    let plain = sample("private_pools");
    let wanted = told(&read(&plain).expect("the sample opens"));
    let mut with_zeros = plain.clone();
    with_zeros.extend([0, 0]);
    let html = page(&[("snapshot.pickle", &with_zeros)]);
    for (bytes, format) in [
        (packed("gzip", &plain), "torch-pickle in gzip"),
        (packed("zstd", &plain), "torch-pickle in zstd"),
        (packed("xz", &plain), "torch-pickle in xz"),
        (packed("bzip2", &plain), "torch-pickle in bzip2"),
        (packed("zip", &plain), "torch-pickle in zip"),
        (packed("zip", &packed("gzip", &plain)), "torch-pickle in gzip in zip"),
        (packed("gzip", &packed("zip", &plain)), "torch-pickle in zip in gzip"),
        (html.clone(), "torch-html"),
        (packed("gzip", &html), "torch-html in gzip"),
    ] {
        let snapshot = read(&bytes).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(snapshot.origin.format, format);
        assert_eq!(snapshot.origin.bytes, bytes.len() as u64);
        assert_eq!(told(&snapshot), wanted, "{format}");
    }
    let json = packed("gzip", fixtures::JSON.as_bytes());
    assert_eq!(read(&json).expect("JSON in gzip opens").origin.format, "torch-json in gzip");
    let two = read(&page(&[("rank0.pickle", &with_zeros), ("rank1.pickle", &with_zeros)])).expect("a page with two opens");
    assert_eq!(two.warnings.count(WarningKind::Note), 1);
    let note = two.warnings.iter().find(|(kind, ..)| *kind == WarningKind::Note).map(|(_, _, first)| first.to_owned());
    assert_eq!(note.as_deref(), Some("the page holds 2 snapshots; `rank0.pickle` is shown, not rank1.pickle"));
}

#[test]
fn older_and_smaller_forms_open() {
    let frame = json!({"filename": "a.py", "name": "f", "line": 1});
    let history = json!([{"addr": 4096, "real_size": 100, "frames": [frame], "cpp_frames": "at::empty\nat::zeros\n"},
                         {"addr": 4096, "real_size": 7, "frames": []}]);
    let segment = json!({"device": 1, "address": 4096, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512, "stream": 0,
        "segment_type": "small", "blocks": [{"size": 512, "state": "active_allocated", "history": history},
                                            {"size": (2 << 20) - 512, "state": "inactive", "history": history}]});
    for (form, version) in [(json!([segment]), "1.13"), (json!({"segments": [segment], "device_traces": []}), "1.13 or 2.0")] {
        for dialect in DIALECTS {
            let snapshot = read(&pickle(&form, dialect)).expect("it opens");
            let device = snapshot.devices.as_slice().iter().find(|device| device.ordinal == 1).expect("device 1");
            let block = device.allocations.get(device.allocations.ids().next().expect("one block"));
            assert_eq!((block.address, block.size, block.requested), (4096, 512, 100), "{version} {dialect:?}");
            let names: Vec<_> =
                snapshot.stacks.frames(block.stack).iter().map(|frame| snapshot.stacks.function(*frame)).collect();
            assert_eq!(names, ["at::empty", "at::zeros", "f"], "{version} {dialect:?}");
            assert_eq!(device.allocations.len(), 1, "what a free block held before is over");
        }
    }
    let host = json!({"segments": [], "device_traces": [[]], "host_segments": [], "host_traces": [
        {"action": "segment_alloc", "addr": 64, "size": 256, "stream": 0}, {"action": "alloc", "addr": 64, "size": 256, "stream": 0}]});
    let snapshot = read(&pickle(&host, Dialect::Python(4))).expect("it opens");
    let ordinals: Vec<_> = snapshot.devices.as_slice().iter().map(|device| (device.ordinal, device.trace.len())).collect();
    assert_eq!(ordinals, [(0, 0), (-1, 2)]);
    let state = json!({"segments": [{"device": 0, "address": 0, "total_size": 512, "stream": 0, "blocks":
        [{"address": 0, "size": 512, "state": "evaporated"}]}], "device_traces": []});
    let snapshot = read(&pickle(&state, Dialect::Cpp)).expect("it opens");
    assert_eq!(snapshot.warnings.count(WarningKind::UnknownState), 1);
    assert_eq!(BlockState::of_name("active_awaiting_free"), Some(BlockState::ActivePendingFree));
}

#[test]
fn rows_named_twice_are_there_twice() {
    // [e, e] in one list, and the list itself for two devices: all by memo.
    let mut bytes = b"\x80\x02}(X\x08\0\0\0segmentsX\x0d\0\0\0device_tracesh\0hN".to_vec();
    bytes.clear();
    bytes.extend(
        b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x40",
    );
    bytes.extend(b"X\x04\0\0\0sizeK\x08X\x06\0\0\0streamK\0uq\x01h\x01eq\x02h\x02eu.");
    let snapshot = read(&bytes).expect("it opens");
    let lengths: Vec<_> = snapshot.devices.as_slice().iter().map(|device| device.trace.len()).collect();
    assert_eq!(lengths, [2, 2]);
    let first = &snapshot.devices.as_slice()[1].trace;
    assert_eq!(first.entry(EventIdx(0)), first.entry(EventIdx(1)));
}

#[test]
fn nothing_in_a_pickle_is_run() {
    for (bytes, opcode, offset) in [
        (&b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."[..], "GLOBAL", 2),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL", 14),
        (b"\x80\x02}(X\x01\0\0\0a(ios\nsystem\nu.", "INST", 11),
        (b"\x80\x02(K\x01o.", "OBJ", 5),
        (b"\x80\x02]]\x81.", "NEWOBJ", 4),
        (b"\x80\x04]]}\x92.", "NEWOBJ_EX", 5),
        (b"\x80\x02])R.", "REDUCE", 4),
        (b"\x80\x02]}b.", "BUILD", 4),
        (b"\x80\x02\x82\x01.", "EXT1", 2),
        (b"\x80\x02\x83\x01\x00.", "EXT2", 2),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4", 2),
        (b"\x80\x02Pid\n.", "PERSID", 2),
        (b"\x80\x02K\x01Q.", "BINPERSID", 4),
        (b"\x80\x05\x97.", "NEXT_BUFFER", 2),
    ] {
        match read(bytes) {
            Err(FormatError::Refused { opcode: found, offset: at, .. }) => assert_eq!((found, at), (opcode, offset)),
            other => panic!("{opcode}: {:?}", other.map(|snapshot| snapshot.origin)),
        }
    }
}

#[test]
fn damage_is_named_with_its_byte() {
    for (bytes, part) in [
        (&b"\x80\x02]a."[..], "opcode APPEND needs a list on the stack and finds something else at byte 3"),
        (b"\x80\x02}u.", "opcode SETITEMS needs a MARK and there is none at byte 3"),
        (b"\x80\x02h\x07.", "memo entry 7, which was never stored at byte 2"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", "memo entry 2147483647, far beyond"),
        (b"\x80\x02}(K\x01u.", "a key without a value"),
        (b"\x80\x02K\x01K\x02a.", "needs a list"),
        (b"\x80\x02]K\x01K\x02s.", "needs a dict"),
        (b"\x80\x02\xff.", "0xff is no pickle opcode at byte 2"),
        (b"\x80\x02\x8b\xff\xff\xff\xff.", "argument of opcode LONG4"),
        (b"\x80\x02Iabc\n.", "argument of opcode INT"),
        (b"\x80\x02.", "opcode STOP takes more values"),
        (b"\x80\x02K\x01.", "top level holds one integer"),
        (b"\x80\x02X\x02\0\0\0hi.", "top level holds one text"),
        (b"\x80\x02}(X\x05\0\0\0modelK\x01X\x05\0\0\0epochK\x02u.", "a dict with the keys `model`, `epoch`"),
        (b"\x80\x02](K\x01K\x02e.", "a list of 2 items, the first one integer"),
        (b"\x80\x02}(X\x04\0\0\0name", "ends early, at byte 13"),
        (b"{\"a\": [1, 2}", "not well formed"),
        (b"{\"a\": 1}", "a dict with the keys `a`"),
        (b"[\"segments\"", "ends early"),
    ] {
        let error = read(bytes).expect_err(part).to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
}

#[test]
fn bombs_fail_fast() {
    let event = b"}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x40X\x04\0\0\0sizeK\x08uq\x01";
    let repeated = |start: &[u8], part: &[u8], times: usize| {
        let mut bytes = start.to_vec();
        bytes.extend(part.repeat(times));
        bytes
    };
    let rows = [&b"\x80\x02](]("[..], event].concat();
    let mut laughs = b"\x80\x02]q\0".to_vec();
    for level in 0..60 {
        laughs.extend([b']', b'q', level + 1, b'(', b'h', level, b'h', level, b'e']);
    }
    laughs.push(b'.');
    for (what, bytes) in [
        ("marks", repeated(b"\x80\x02", b"(", 1000)),
        ("lists", packed("gzip", &repeated(b"\x80\x04", b"]", 30_000_000))),
        ("tuples in zstd", packed("zstd", &repeated(b"\x80\x04", b")", 60_000_000))),
        ("one event again and again", packed("gzip", &repeated(&rows, b"h\x01", 20_000_000))),
        ("a text of 2^60 bytes", b"\x80\x04\x8d\0\0\0\0\0\0\0\x10x".to_vec()),
        ("bytes of 2^63", packed("gzip", b"\x80\x04\x8e\0\0\0\0\0\0\0\x80x")),
        ("an integer of 2^31 bytes", b"\x80\x04\x8b\xff\xff\xff\x7fx".to_vec()),
        ("a memo of 2^31", b"\x80\x04]r\xff\xff\xff\x7f".to_vec()),
        ("laughs", laughs),
        ("arrays in JSON", b"[".repeat(100_000)),
        ("zeros in zstd", packed("zstd", &repeated(b"\x80\x04C\x01", &[0; 1 << 20], 200))),
        ("gzip in gzip in gzip", packed("gzip", &packed("gzip", &packed("gzip", &packed("gzip", &packed("gzip", b"\x80\x04")))))),
    ] {
        let start = Instant::now();
        let error = read(&bytes).expect_err(what);
        assert!(start.elapsed() < Duration::from_secs(5), "{what} took {:?}: {error}", start.elapsed());
        assert!(error.to_string().len() < 400, "{what}: {error}");
    }
}

/// Cuts a file at many places: what opens must say that it was cut, and hold ever more events.
fn cut(whole: &[u8], step: usize, what: &str) {
    let (mut before, mut opened, packed) = (0, 0, what.contains(" in "));
    for end in (1..whole.len()).step_by(step) {
        match read(&whole[..end]) {
            Ok(snapshot) => {
                assert_eq!(snapshot.warnings.count(WarningKind::Truncated), 1, "{what} cut at {end}");
                let events = snapshot.devices.as_slice().iter().map(|device| device.trace.len()).sum::<usize>();
                assert!(before <= events, "{what} cut at {end}: {events} events after {before}");
                (before, opened) = (events, opened + 1);
            }
            // What is packed ends at a byte of the unpacked content, or is cut in its own header.
            Err(FormatError::EndsEarly { offset, .. }) => {
                assert!(packed || offset == end as u64, "{what} cut at {end}: {offset}")
            }
            Err(error) => assert!(end < 3 || packed, "{what} cut at {end}: {error}"),
        }
    }
    assert!(0 < opened && 0 < before, "{what}: nothing of it opens when cut");
}

#[test]
fn a_cut_file_opens_as_far_as_it_was_whole() {
    for (protocol, text) in &fixtures::PICKLES[2..] {
        cut(&STANDARD.decode(text).expect("base64"), 1, &format!("protocol {protocol}"));
    }
    cut(&pickle(&fixture(), Dialect::Cpp), 1, "C++");
    let plain = sample("private_pools");
    cut(&plain, 41, "the sample");
    cut(&packed("gzip", &plain), 29, "the sample in gzip");
    let last = &plain[..plain.len() - 1];
    let snapshot = read(last).expect("all but the STOP");
    let whole = read(&plain).expect("the sample");
    assert_eq!(snapshot.devices.as_slice()[0].trace, whole.devices.as_slice()[0].trace);
    assert_eq!(snapshot.devices.as_slice()[0].segments, whole.devices.as_slice()[0].segments);
}

#[test]
fn bytes_behind_the_end_are_counted() {
    let mut bytes = sample("segments_only");
    bytes.extend(b"\0\0");
    assert_eq!(read(&bytes).expect("it opens").warnings.count(WarningKind::TrailingBytes), 0, "zeros are padding");
    bytes.extend(b"more");
    for bytes in [bytes.clone(), packed("gzip", &bytes)] {
        assert_eq!(read(&bytes).expect("it opens").warnings.count(WarningKind::TrailingBytes), 1);
    }
}

#[test]
fn random_damage_never_panics_and_never_takes_long() {
    let sources =
        [STANDARD.decode(fixtures::PICKLES[4].1).expect("base64"), fixtures::JSON.as_bytes().to_vec(), sample("private_pools")];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for round in 0..3000 {
        let source = &sources[if round % 10 == 0 { 2 } else { round % 2 }];
        let mut bytes = source.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes[at] ^= 1 << random(8),
                2 => {
                    let to = (at + random(40)).min(bytes.len());
                    let copy = bytes[at..to].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => {
                    let to = (at + random(8)).min(bytes.len() - 1);
                    bytes.drain(at..to);
                }
            }
        }
        let start = Instant::now();
        let outcome = read(&bytes).map(drop);
        assert!(start.elapsed() < Duration::from_secs(2), "round {round} took {:?}: {outcome:?}", start.elapsed());
    }
}

#[test]
fn foreign_files_get_a_sentence_that_says_what_they_are() {
    let checkpoint = zipped(&[("model/data.pkl", b"\x80\x02}."), ("model/version", b"3\n"), ("model/data/0", b"0000")]);
    let mut tensors = 40_u64.to_le_bytes().to_vec();
    tensors.extend(b"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}      \0\0\0\0");
    let profile =
        packed("gzip", b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x12\x06\x0a\x01\x01\x12\x01\x07\x32\x00\x32\x05space");
    for (bytes, part) in [
        (checkpoint, "a checkpoint that torch.save wrote"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02".to_vec(), "torch.save's old format"),
        (tensors, "safetensors"),
        (b"{\"schemaVersion\": 1, \"traceEvents\": []}".to_vec(), "a profiler trace"),
        (
            packed("gzip", b"{\n \"schemaVersion\": 1,\"deviceProperties\": [], \"traceEvents\": [{\"segments\": 1}]}"),
            "a profiler trace",
        ),
        (b"[[1, 2], [[0, 1], [0, 2]]]".to_vec(), "a memory timeline of torch.profiler, but row 0"),
        (b"<html>\n<head><title>GPU Memory Timeline HTML</title></head>".to_vec(), "a picture in a web page"),
        (b"<!DOCTYPE html>\n<script>let alloc_data = {\"actions\": []}".to_vec(), "2.0's _memory_viz.py"),
        (b"<!doctype HTML>\n<title>Sign in</title>".to_vec(), "a web page"),
        (b"{\"ts\": 1.0, \"events\": [{\"type\": \"BlockStored\"}]}\n".to_vec(), "vLLM"),
        (b"\x93\xcb\x41\x91\x9aBlockStored\x91\x01".to_vec(), "vLLM"),
        (profile, "a pprof profile"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n".to_vec(), "a Git LFS pointer"),
        (b"SQLite format 3\0....".to_vec(), "an SQLite database"),
        (b"Traceback (most recent call last):\n  File \"a.py\"\n".to_vec(), "plain text"),
        (b"\x89PNG\r\n\x1a\n".to_vec(), "a picture"),
        (b"\x00\x01\x02\x03".to_vec(), "of no kind that is known"),
        (Vec::new(), "is empty"),
        (packed("gzip", b""), "is empty"),
        (zipped(&[]), "holds no files"),
        (b"\x1f\x8b\x08garbage".to_vec(), "is a gzip file that cannot be unpacked"),
        (packed("bzip2", b"text")[..10].to_vec(), "is a bzip2 file that cannot be unpacked"),
        (packed("xz", b"text")[..10].to_vec(), "is a xz file that cannot be unpacked"),
        (packed("zstd", b"text")[..6].to_vec(), "is a zstd file that cannot be unpacked"),
        (packed("gzip", &packed("bzip2", b"text")[..10]), "is a bzip2 file that cannot be unpacked"),
    ] {
        let error = read(&bytes).expect_err(part).to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
        assert!(error.starts_with("test "), "{error:?} begins with the file's name");
    }
    let folder = tempfile::tempdir().expect("a folder");
    assert!(matches!(open(folder.path(), &Progress::new()), Err(FormatError::Directory { .. })));
    assert!(matches!(open(&folder.path().join("none"), &Progress::new()), Err(FormatError::Io { .. })));
    let file = folder.path().join("empty.pickle");
    std::fs::write(&file, b"").expect("a file");
    assert!(matches!(open(&file, &Progress::new()), Err(FormatError::Empty { .. })));
}

#[test]
fn reading_is_cancelled_and_reports_how_far_it_is() {
    let progress = Progress::new();
    progress.cancel();
    for bytes in [sample("private_pools"), fixtures::JSON.as_bytes().to_vec(), page(&[("a", &sample("segments_only"))])] {
        assert!(matches!(open_bytes("test", &bytes, &progress), Err(FormatError::Cancelled)));
    }
    let progress = Progress::new();
    open_bytes("test", &sample("training"), &progress).expect("it opens");
    assert_ne!(progress.stage_name(), "");
}

#[test]
fn every_sample_is_claimed_by_exactly_one_importer() {
    for name in
        ["training", "fragmentation_oom", "expandable_segments", "private_pools", "two_devices", "late_start", "segments_only"]
    {
        let bytes = sample(name);
        let claims =
            IMPORTERS.iter().filter(|importer| Confidence::No < importer.sniff(&bytes[..bytes.len().min(65536)])).count();
        assert_eq!(claims, 1, "{name}");
    }
}

/// A writer that knows nothing of this format or its sharing: no memo, map keys in another order, lists for tuples.
#[test]
fn pickles_of_another_library_are_the_same_snapshot() {
    let truth = told(&read(fixtures::JSON.as_bytes()).expect("the JSON form opens"));
    let protocols = [serde_pickle::SerOptions::new(), serde_pickle::SerOptions::new().proto_v2()];
    for (options, protocol) in protocols.into_iter().zip([3, 2]) {
        let bytes = serde_pickle::to_vec(&fixture(), options).expect("the fixture can be written");
        assert_eq!(bytes[..2], [0x80, protocol]);
        let snapshot = read(&bytes).unwrap_or_else(|error| panic!("protocol {protocol}: {error}"));
        assert_eq!(told(&snapshot), truth, "protocol {protocol}");
    }
}
