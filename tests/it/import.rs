//! Other tools' files: what they turn into equals the numbers those tools count themselves (`tests/import`, written by
//! `make.py` there), and broken ones get a sentence that says where.

use crate::samples::prepare;
use fragscope::base::Progress;
use fragscope::format::{FormatError, open_bytes};
use fragscope::model::{Action, DeviceId, DeviceMemory, Missing, Position, Snapshot, WarningKind};
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Every file in `tests/import` that opens, and its format.
const FILES: &[(&str, &str)] = &[
    ("timeline.json.gz", "torch-memory-timeline in gzip"),
    ("timeline.raw.json.gz", "torch-memory-timeline in gzip"),
    ("trace.json.gz", "chrome-trace in gzip"),
    ("rmm.dev0.csv.gz", "rmm-csv in gzip"),
    ("jax.prof.gz", "jax-pprof in gzip"),
    ("kv_array.msgpack.gz", "vllm-kv in gzip"),
    ("kv_map.msgpack.gz", "vllm-kv in gzip"),
    ("kv_array.jsonl.gz", "vllm-kv in gzip"),
    ("kv_map.jsonl.gz", "vllm-kv in gzip"),
];

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import")
}

pub(crate) fn file(name: &str) -> Snapshot {
    crate::samples::open(&folder().join(name))
}

/// A file's content, unpacked.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let packed = std::fs::read(folder().join(name)).expect("there");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip");
    bytes
}

pub(crate) fn numbers(of: &str) -> Value {
    let text = std::fs::read_to_string(folder().join("numbers.json")).expect("there");
    serde_json::from_str::<Value>(&text).expect("JSON")[of].clone()
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Snapshot, FormatError> {
    open_bytes("test", bytes, &Progress::new())
}

/// Allocated bytes at each position.
fn allocated(snapshot: &Snapshot, id: DeviceId) -> Vec<u64> {
    let (_, timeline, _) = prepare(snapshot, id);
    (0..=snapshot.devices[id].end().0).map(|at| timeline.allocated.at(Position(at))).collect()
}

fn device(snapshot: &Snapshot, ordinal: i32) -> (DeviceId, &DeviceMemory) {
    let id = snapshot.device_of_ordinal(ordinal).unwrap_or_else(|| panic!("device {ordinal}"));
    (id, &snapshot.devices[id])
}

fn lacks(memory: &DeviceMemory, all: &[Missing]) {
    for missing in all {
        assert!(memory.coverage.lacks(*missing), "{missing:?} is said: {:?}", memory.coverage.gaps);
    }
}

#[test]
fn each_file_says_what_it_is_and_what_it_lacks() {
    for (name, format) in FILES {
        let snapshot = file(name);
        assert_eq!(snapshot.origin.format, *format, "{name}");
        let used: Vec<_> = snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()).collect();
        assert!(!used.is_empty(), "{name}");
        for memory in used {
            lacks(memory, &[Missing::Segments]);
            assert!(!memory.coverage.lacks(Missing::Settings) && !memory.coverage.lacks(Missing::End), "{name}: moot");
            let (_, _, summary) = prepare(&snapshot, snapshot.device_of_ordinal(memory.ordinal).expect("there"));
            assert_eq!(summary.peak_reserved.bytes, 0, "{name}: nothing is reserved by guess");
        }
        assert_eq!(snapshot.warnings.count(WarningKind::NoSegment), 0, "{name}: no contradiction");
        assert_eq!(snapshot.warnings.count(WarningKind::BadRow), 0, "{name}");
    }
}

#[test]
fn a_memory_timeline_has_the_profilers_sums_at_every_time() {
    let snapshot = file("timeline.json.gz");
    let (id, memory) = device(&snapshot, 0);
    lacks(memory, &[Missing::Addresses, Missing::Stacks]);
    let curve = allocated(&snapshot, id);
    let stated: (Vec<i64>, Vec<Vec<u64>>) = serde_json::from_slice(&unpacked("timeline.json.gz")).expect("as written");
    for (row, (time, sizes)) in stated.0.iter().zip(&stated.1).enumerate() {
        if stated.0.get(row + 1) == Some(time) {
            continue;
        }
        let at = memory.trace.position_at_time(time + 1);
        assert_eq!(curve[at.0 as usize], sizes.iter().sum::<u64>(), "time {time}");
    }
    let told = numbers("timeline");
    assert_eq!(curve.iter().max().copied(), Some(number(&told, "peak")));
    assert_eq!(curve.last().copied(), Some(number(&told, "end")));
    assert_eq!(stated.0.len() as u64, number(&told, "times"));
}

#[test]
fn a_raw_timeline_has_the_profilers_peak_and_end() {
    let snapshot = file("timeline.raw.json.gz");
    let (id, memory) = device(&snapshot, 0);
    lacks(memory, &[Missing::Addresses, Missing::Stacks, Missing::Start]);
    let (curve, told) = (allocated(&snapshot, id), numbers("timeline_raw"));
    assert_eq!(curve.iter().max().copied(), Some(number(&told, "peak")));
    assert_eq!(curve.last().copied(), Some(number(&told, "end")));
    assert_eq!(memory.allocations.born_by(Position::START) as u64, number(&told["by_action"], "1"), "what was there before");
    assert_eq!(memory.unmatched_frees, 0);
}

#[test]
fn a_trace_has_the_allocators_own_total_after_each_event() {
    let snapshot = file("trace.json.gz");
    let (id, memory) = device(&snapshot, 0);
    let (curve, told) = (allocated(&snapshot, id), numbers("trace"));
    let key = snapshot.stacks.strings.find("total_allocated").expect("kept");
    let mut compared = 0;
    for extra in memory.trace.extras.iter().filter(|extra| extra.key == key) {
        let stated: u64 = snapshot.stacks.strings.get(extra.value).parse().expect("a number");
        assert_eq!(curve[extra.event.0 as usize + 1], stated, "event {}", extra.event.0);
        compared += 1;
    }
    assert_eq!(compared, number(&told, "events"));
    assert_eq!(memory.trace.len() as u64, number(&told, "events"));
    assert_eq!(curve.iter().max().copied(), Some(number(&told, "peak_total_allocated")));
    assert_eq!(curve.last().copied(), Some(number(&told, "allocator_after")));
    assert_eq!(curve[0], number(&told, "older_bytes"));
    assert_eq!(curve.iter().max().copied(), Some(number(&told, "allocator_peak")), "what the allocator itself counts");
    // Python's frames and the operators around an allocation.
    let lines: Vec<String> = memory
        .allocations
        .stacks()
        .iter()
        .flat_map(|stack| snapshot.stacks.frames(*stack))
        .map(|frame| snapshot.stacks.line(*frame))
        .collect();
    for part in ["make.py:", "aten::", "forward"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}");
    }
    let (_, host) = device(&snapshot, -2);
    assert_eq!(host.title(), "host memory");
}

#[test]
fn a_jax_profile_is_one_moment_with_its_buffers() {
    let snapshot = file("jax.prof.gz");
    let (_, memory) = device(&snapshot, 0);
    lacks(memory, &[Missing::History, Missing::Addresses]);
    assert!(memory.trace.is_empty());
    let buffers: u64 = memory.allocations.sizes().iter().sum();
    assert_eq!(buffers, number(&numbers("jax"), "live_arrays"), "its executables weigh nothing on this device");
    let functions = memory.allocations.stacks().iter().flat_map(|stack| snapshot.stacks.frames(*stack));
    let functions: Vec<&str> = functions.map(|frame| snapshot.stacks.function(*frame)).collect();
    assert!(functions.contains(&"table") && functions.contains(&"build"), "the program's own frames are there");
    let tables = memory.allocations.sizes().iter().filter(|size| **size == 1 << 20).count();
    assert_eq!(tables, 4, "a sample of three buffers is three blocks");
}

#[test]
fn an_rmm_log_goes_on_over_midnight() {
    let snapshot = file("rmm.dev0.csv.gz");
    let (id, memory) = device(&snapshot, 0);
    let (curve, told) = (allocated(&snapshot, id), numbers("rmm"));
    assert_eq!(curve.iter().max().copied(), Some(number(&told, "peak")));
    assert_eq!(curve.last().copied(), Some(number(&told, "end")));
    assert_eq!(memory.trace.len() as u64, number(&told, "rows"));
    let times: Vec<i64> = memory.trace.events().filter_map(|event| memory.trace.time_us(event)).collect();
    assert!(times.is_sorted() && 86_400_000_000 < times[times.len() - 1], "midnight is passed");
    assert_eq!(snapshot.warnings.count(WarningKind::TimeBackwards), 0);
    assert!(memory.trace.ooms().is_empty() && memory.trace.actions().contains(&Action::Unknown), "a failure has no account");
    assert!(snapshot.warnings.iter().any(|(kind, _, first)| kind == WarningKind::Note && first.contains("1 request failed")));
    assert_eq!(memory.annotations.len(), 1, "and is marked");
    let path = folder().join("rmm.dev0.csv.gz").to_string_lossy().into_owned();
    let told = String::from_utf8_lossy(&fragscope(&["why", "--json", &path]).stdout).into_owned();
    let why: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(why[0]["verdict"], "unknown", "{told}");
    assert_eq!(why[0]["accounting"]["free_usable"], Value::Null);
}

#[test]
fn all_encodings_of_kv_events_are_the_same_cache() {
    let told = numbers("kv");
    let mut first: Option<Vec<u64>> = None;
    for (name, _) in FILES.iter().filter(|(name, _)| name.starts_with("kv_")) {
        let snapshot = file(name);
        let (id, memory) = device(&snapshot, 0);
        assert_eq!(memory.title(), "KV cache");
        lacks(memory, &[Missing::Addresses, Missing::Stacks, Missing::Sizes]);
        let log = memory.kv.as_ref().expect("a cache");
        assert_eq!(log.blocks.len() as u64, number(&told, "stored"), "{name}");
        let curve = allocated(&snapshot, id);
        assert_eq!(curve.iter().max().copied(), Some(number(&told, "peak")), "{name}");
        assert_eq!(curve.last().copied(), Some(number(&told, "end")), "{name}");
        assert_eq!(first.get_or_insert(curve.clone()), &curve, "{name}");
        // The lowest free place: never more places than blocks at once.
        let addresses = memory.allocations.ids().map(|id| memory.allocations.get(id).address);
        let (low, high) = addresses.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        assert_eq!(high - low + 1, number(&told, "peak"), "{name}");
    }
}

#[test]
fn broken_files_say_what_is_wrong_and_where() {
    let kv = |event: &str| format!("{{\"ts\": 1.5, \"events\": [{event}]}}\n").into_bytes();
    let stored = r#"{"type":"BlockStored","block_hashes":[1],"parent_block_hash":null,"token_ids":[1],"block_size":1}"#;
    for (bytes, parts) in [
        (b"[[1, 2], [[0, 1], [0, 2]]]".to_vec(), &["memory timeline", "row 0 of its sizes"][..]),
        (b"[[1], [[0, 1, 2, 3, 4, 5, 6, 7, -8]]]".to_vec(), &["row 0", "-8 bytes of Unknown"]),
        (b"[[1, \"x\"], [[0]]]".to_vec(), &["whole number", "line 1 column"]),
        (b"[[1.5, 2, 3, 4]]".to_vec(), &["whole number", "line 1 column"]),
        (b"[[1, 18446744073709551615, 3, 4]]".to_vec(), &["beyond 2^63"]),
        (b"[[1, 2, 3, 99]]".to_vec(), &["none of its items is an allocation"]),
        (
            b"[[1, 2, 9223372036854775807, 1], [1, 2, 9223372036854775807, 1], [1, 2, 9223372036854775807, 1]]".to_vec(),
            &["more than 64 bits"],
        ),
        (b"[[1, 2".to_vec(), &["ends early, at byte 6"]),
        (b"{\"schemaVersion\": 1, \"traceEvents\": []}".to_vec(), &["profiler trace", "profile_memory=True"]),
        (b"{\"traceEvents\": [{\"ph\": 3}]}".to_vec(), &["not well formed", "line 1 column"]),
        (b"{\"traceEvents\": [{\"name\": \"[memory]\", \"ph\": \"i\"}]}".to_vec(), &["without a time"]),
        (b"{\"traceEvents\": [{\"name\"".to_vec(), &["ends early"]),
        (b"Thread,Time,Action,Pointer,Size,Stream\n".to_vec(), &["NVIDIA RMM", "no line after its head"]),
        (
            b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,allocate,0x7f,-8,0\n".to_vec(),
            &["line 2", "its size is no number of bytes: -8"],
        ),
        (b"Time,Action,Pointer,Size\n10:00:00.0,grow,0x7f,8\n".to_vec(), &["line 2", "its action is not known: grow"]),
        (b"Action,Pointer,Size\nallocate,0xZZ,8\n".to_vec(), &["line 2", "its pointer is no address: 0xZZ"]),
        (b"Action,Pointer,Size\nallocate,\xff\xfe,8\n".to_vec(), &["line 2", "its pointer is no text"]),
        (b"Action,Pointer,Size\nallocate,0x1,99999999999999999999999\n".to_vec(), &["line 2", "no number of bytes"]),
        (kv(r#"{"type":"BlockStored"}"#), &["line 1", "event 0", "BlockStored without `block_hashes`"]),
        (kv(r#"{"type":"BlockStored","block_hashes":5}"#), &["`block_hashes` of BlockStored is a whole number, no list"]),
        (kv(r#"{"type":"BlockRemoved","block_hashes":[{}]}"#), &["a block hash of BlockRemoved that is a map"]),
        (kv(r#"["BlockStored",[1],null,7,16]"#), &["`token_ids` is a whole number, no list"]),
        (kv(r#"["BlockStored",[1],null,[7],-16]"#), &["`block_size` is a whole number, no number of tokens"]),
        (kv("\"AllBlocksCleared\""), &["text where an event should be"]),
        (b"\x92\xcb\x41\xd9\x00\x00\x00\x00\x00\x00\x91\x91\xb0AllBlocksClear".to_vec(), &["is of no kind"]),
        (b"\x92\xc1AllBlocksCleared".to_vec(), &["record 1, at byte 0", "no MessagePack"]),
        (b"\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x01\x01\x12\x01\x07\x32\x00\x32\x05space".to_vec(), &["its samples are of"]),
        (b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05count\x12\x7f\x0a".to_vec(), &["pprof profile", "damaged"]),
    ] {
        match read(&bytes) {
            Ok(snapshot) => panic!("{} opens as {}", String::from_utf8_lossy(&bytes), snapshot.origin.format),
            Err(error) => {
                let error = error.to_string();
                for part in parts {
                    assert!(error.contains(part), "{error:?} lacks {part:?}");
                }
            }
        }
    }
    // Of a log that is good elsewhere, only the bad line goes.
    let mut log = kv(stored);
    log.extend(b"{\"ts\": 2, \"events\": [{\"type\": \"BlockMoved\"}]}\nnot JSON\n");
    log.extend(kv(stored).strip_suffix(b"}\n").expect("a line"));
    let snapshot = read(&log).expect("opens");
    assert_eq!(snapshot.warnings.count(WarningKind::BadRow), 2);
    assert_eq!(snapshot.warnings.count(WarningKind::Truncated), 1);
    let mut lines = b"Action,Pointer,Size\nallocate,0x100,8\nbad\nfree,0x100,8\n".to_vec();
    lines.extend(b"allocate,0x2");
    let snapshot = read(&lines).expect("opens");
    assert_eq!((snapshot.devices.as_slice()[0].trace.len(), snapshot.warnings.count(WarningKind::BadRow)), (2, 2));
}

/// Numbers without a plan, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }
}

#[test]
fn whatever_is_cut_or_changed_there_is_a_sentence_and_no_panic() {
    let mut dice = Dice(11);
    for (name, _) in FILES {
        let whole = unpacked(name);
        for round in 0..60 {
            let mut bytes = whole.clone();
            if round % 3 == 0 {
                bytes.truncate(dice.below(whole.len()));
            } else {
                for _ in 0..=dice.below(4) {
                    let at = dice.below(bytes.len());
                    match dice.below(4) {
                        0 => bytes[at] = dice.below(256) as u8,
                        1 => bytes[at] = b"0123456789-\",:[]{}."[dice.below(19)],
                        2 => drop(bytes.drain(at..(at + dice.below(9)).min(whole.len().min(bytes.len())))),
                        _ => bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff]).for_each(drop),
                    }
                }
            }
            match read(&bytes) {
                Ok(snapshot) => {
                    let id = snapshot.busiest_device().expect("a device");
                    prepare(&snapshot, id);
                }
                Err(error) => assert!(error.to_string().starts_with("test "), "{name}: {error}"),
            }
        }
    }
}

fn fragscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.args(arguments).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").output().expect("the program starts")
}

#[test]
fn the_program_opens_all_of_them() {
    let out = tempfile::tempdir().expect("a folder");
    for (name, format) in FILES {
        let path = folder().join(name).to_string_lossy().into_owned();
        let told = fragscope(&["info", &path]);
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        assert_eq!(told.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&told.stderr));
        assert!(
            text.contains(format) && !text.contains("\n  reserved ") && !text.contains("allocator settings"),
            "{name}: {text}"
        );
        for arguments in [vec!["at", &path], vec!["why", &path], vec!["info", "--json", &path]] {
            let done = fragscope(&arguments);
            assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let page = out.path().join(format!("{name}.png")).to_string_lossy().into_owned();
        let done = fragscope(&["report", &path, "-o", &page]);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(image::open(&page).is_ok(), "{name}");
    }
    let kv = folder().join("kv_map.jsonl.gz").to_string_lossy().into_owned();
    let done = fragscope(&["info", "--json", "--block-bytes", "2MiB", &kv]);
    let info: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let peak = number(&numbers("kv"), "peak");
    assert_eq!(info[0]["devices"][0]["peak_allocated"]["bytes"], peak << 21);
    assert_eq!(info[0]["devices"][0]["kv_cache"]["peak_blocks"], peak);
    assert_eq!(info[0]["devices"][0]["kv_cache"]["block_bytes"], 2 << 20);
    assert_eq!(fragscope(&["info", "--block-bytes", "0", &kv]).status.code(), Some(2));
}
