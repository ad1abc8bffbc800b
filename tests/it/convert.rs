//! Out to other tools: what is written reads back as the same, a window shows the states of the whole, and what is to
//! be hidden is nowhere.

use crate::{format, samples};
use fragscope::base::Progress;
use fragscope::format::export::{EXPORTERS, ExportSubject, exporter_of_name, redacted};
use fragscope::format::open_bytes;
use fragscope::model::{Action, DeviceMemory, EventIdx, Position, Snapshot, StackId};
use fragscope::replay::{Cut, MemoryState, Replay, recorded};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod tables;

/// From this size on, packed, a file repeats what smaller ones show: telling all of it would take gigabytes.
const LARGE_BYTES: u64 = 2 << 20;

/// The samples, and the snapshots of the folder in `FRAGSCOPE_TRUTH_DIR` where there is one, but for large ones.
fn files() -> Vec<PathBuf> {
    let mut files = samples::pairs(&samples::folder());
    files.extend(std::env::var_os("FRAGSCOPE_TRUTH_DIR").map(|folder| samples::pairs(Path::new(&folder))).unwrap_or_default());
    files.retain(|path| std::fs::metadata(path).expect("there").len() < LARGE_BYTES);
    files
}

fn written(snapshot: &Snapshot, kind: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let subject = ExportSubject { snapshot, title: "test", table: None };
    let exporter = exporter_of_name(kind).expect("a known kind");
    exporter.write(&subject, "", &mut bytes, &Progress::new()).expect("memory takes all");
    bytes
}

fn reread(bytes: &[u8]) -> Snapshot {
    open_bytes("test", bytes, &Progress::new()).expect("what is written opens")
}

/// Everything told of a snapshot but its first line, which is who wrote it and the settings.
fn told(snapshot: &Snapshot) -> (Option<fragscope::model::VersionRange>, String) {
    let mut snapshot = snapshot.clone();
    let written_by = snapshot.origin.written_by.take();
    // A stack that is not there and one without frames are the same to a block, which always has the key.
    (written_by, format::told(&snapshot))
}

#[test]
fn a_pickle_reads_back_as_the_snapshot_it_was_written_from() {
    let mut wrong = Vec::new();
    for path in files() {
        let snapshot = samples::open(&path);
        let bytes = written(&snapshot, "pickle");
        let back = reread(&bytes);
        let ((range, content), (back_range, back_content)) = (told(&snapshot), told(&back));
        if content != back_content {
            let differs = content.lines().zip(back_content.lines()).find(|(a, b)| a != b);
            wrong.push(format!("{}: {differs:?}", path.display()));
        }
        // A list of segments alone is written as a snapshot, which viewers open; it then has a younger look.
        if snapshot.settings.stated && range != back_range {
            wrong.push(format!("{}: {range:?} became {back_range:?}", path.display()));
        }
        let mut plain = Vec::new();
        let packed = std::fs::File::open(&path).expect("there");
        flate2::read::GzDecoder::new(packed).read_to_end(&mut plain).expect("gzip");
        if plain.len() + plain.len() / 10 < bytes.len() {
            wrong.push(format!("{}: {} bytes became {}", path.display(), plain.len(), bytes.len()));
        }
        // The second time around nothing changes any more.
        assert!(bytes == written(&back, "pickle"), "{}: not the same bytes again", path.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_reads_back_as_the_snapshot_it_was_written_from() {
    for path in samples::pairs(&samples::folder()) {
        let snapshot = samples::open(&path);
        let back = reread(&written(&snapshot, "json"));
        assert_eq!(back.origin.format, "torch-json");
        assert!(told(&snapshot).1 == told(&back).1, "{}", path.display());
    }
}

/// Every field that a format can hold, unknown ones too.
#[test]
fn what_no_sample_holds_survives_as_well() {
    let snapshot = reread(format::fixtures::JSON.as_bytes());
    for kind in ["pickle", "json"] {
        let back = reread(&written(&snapshot, kind));
        assert_eq!(told(&snapshot).1, told(&back).1, "{kind}");
    }
}

/// A state without ids, which differ between two readings.
fn shown(snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState) -> String {
    let mut text = String::new();
    let stack = |id: StackId| -> Vec<String> { snapshot.stacks.frames(id).iter().map(|f| snapshot.stacks.line(*f)).collect() };
    let _ = writeln!(text, "{:?} {} {} {}", state.totals, state.inactive_split, state.largest_free_block, state.active_blocks);
    for segment in &state.segments {
        let _ = writeln!(
            text,
            "{:x} {} {} {:?} {:?} {} {} {:?}",
            segment.address,
            segment.size,
            snapshot.streams.handle(segment.stream),
            snapshot.pools.pair(segment.pool),
            segment.class,
            segment.expandable,
            segment.inferred,
            stack(segment.stack)
        );
        for block in state.blocks_of(segment) {
            let of = block.allocation.map(|id| stack(memory.allocations.get(id).stack));
            let _ = writeln!(text, "  {:x} {} {} {:?} {of:?}", block.address, block.size, block.requested, block.state);
        }
    }
    text
}

/// Positions that differ from run to run of no test: a fixed walk.
struct Walk(u64);

impl Walk {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 11) * u128::from(end)) >> 53) as u32
    }
}

#[test]
fn a_window_shows_at_both_ends_what_the_whole_shows_there() {
    let mut windows = 0;
    for path in files() {
        let snapshot = samples::open(&path);
        let mut walk = Walk(7);
        for (device, memory) in snapshot.devices.iter().filter(|(_, memory)| memory.is_used()) {
            let replay = Replay::new(memory);
            let end = memory.end().0;
            let mut spans = vec![(0, end), (end / 2, end), (0, end / 2), (end / 3, end / 3), (end, end)];
            for _ in 0..if memory.trace.len() < 20_000 { 6 } else { 2 } {
                let (a, b) = (walk.below(end + 1), walk.below(end + 1));
                spans.push((a.min(b), a.max(b)));
            }
            for (from, to) in spans {
                let (from, to) = (Position(from), Position(to));
                let cuts = [Cut { device, from, to }];
                let records = recorded::window(&snapshot, &cuts, &Progress::new()).expect("nobody cancels");
                let cut = records.finish(snapshot.origin.clone(), &Progress::new()).expect("nobody cancels");
                let back = reread(&written(&cut, "pickle"));
                let (id, part) = back.devices.iter().find(|(_, part)| part.ordinal == memory.ordinal).expect("the device");
                assert_eq!(part.trace.len() as u32, to.0 - from.0, "{}", path.display());
                let part_replay = Replay::new(part);
                for (at, place) in [(Position::START, from), (part.end(), to)] {
                    let wanted = shown(&snapshot, memory, &replay.state_at(memory, place));
                    let found = shown(&back, part, &part_replay.state_at(part, at));
                    if wanted != found {
                        let differs = wanted.lines().zip(found.lines()).find(|(a, b)| a != b);
                        panic!("{} {id:?} {from:?} to {to:?} at {place:?}: {differs:?}", path.display());
                    }
                }
                windows += 1;
            }
        }
    }
    assert!(80 < windows, "{windows} windows were looked at");
}

#[test]
fn a_window_of_a_window_is_a_window() {
    let snapshot = samples::open(&samples::sample("late_start"));
    let device = snapshot.busiest_device().expect("a device");
    let part = |snapshot: &Snapshot, from: u32, to: u32| {
        let cut = Cut { device, from: Position(from), to: Position(to) };
        let records = recorded::window(snapshot, &[cut], &Progress::new()).expect("nobody cancels");
        records.finish(snapshot.origin.clone(), &Progress::new()).expect("nobody cancels")
    };
    let once = part(&snapshot, 1500, 2500);
    let twice = part(&reread(&written(&part(&snapshot, 1000, 3000), "pickle")), 500, 1500);
    let state = |snapshot: &Snapshot, at: u32| {
        let memory = &snapshot.devices[device];
        shown(snapshot, memory, &Replay::new(memory).state_at(memory, Position(at)))
    };
    for at in [0, 1000] {
        assert_eq!(state(&once, at), state(&twice, at), "at {at}");
    }
}

/// All texts of a job in a snapshot: what redacting has to hide.
fn job_texts(snapshot: &Snapshot) -> BTreeSet<String> {
    let stacks = &snapshot.stacks;
    let mut texts = BTreeSet::new();
    for row in 0..stacks.len() as u32 {
        for frame in stacks.frames(StackId(row)) {
            texts.extend([stacks.function(*frame).to_owned(), stacks.file(*frame).to_owned()]);
            texts.extend(stacks.extras(*frame).map(|(_, value)| value.to_owned()));
        }
    }
    for memory in snapshot.devices.as_slice() {
        texts.extend(memory.annotations.iter().map(|span| stacks.strings.get(span.name).to_owned()));
        for event in 0..memory.trace.len() as u32 {
            texts.extend(
                memory.trace.notes(EventIdx(event)).into_iter().flatten().map(|note| stacks.strings.get(note).to_owned()),
            );
        }
        texts.extend(memory.trace.extras.iter().map(|extra| stacks.strings.get(extra.value).to_owned()));
    }
    // These tell nothing, and one is nowhere not to be found.
    texts.retain(|text| !matches!(text.as_str(), "" | "??" | "N/A"));
    texts
}

/// Every text of a JSON value, keys left out.
fn values(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(texts.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| values(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| values(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn what_is_redacted_is_nowhere() {
    let named = files().into_iter().map(|p| (p.display().to_string(), samples::open(&p)));
    let fixture = ("fixture".to_owned(), reread(format::fixtures::JSON.as_bytes()));
    for (name, snapshot) in named.chain([fixture]) {
        let texts = job_texts(&snapshot);
        let hidden = redacted(snapshot.clone());
        let pickle = written(&hidden, "pickle");
        for text in texts.iter().filter(|text| 6 <= text.len()) {
            let found = pickle.windows(text.len()).any(|window| window == text.as_bytes());
            // PyTorch's own words stay: actions, states and keys.
            let own = ["segment_alloc", "segment_free", "inactive", "action", "filename", "category", "forward_frames"];
            assert!(!found || own.iter().any(|word| word.contains(text.as_str())), "{name}: {text:?} is still there");
        }
        if texts.len() < 400 {
            let json: Value = serde_json::from_slice(&written(&hidden, "json")).expect("JSON");
            let mut kept = BTreeSet::new();
            values(&json, &mut kept);
            let left: Vec<_> = kept.intersection(&texts).filter(|text| Action::of_name(text).is_none()).collect();
            assert!(left.is_empty(), "{name}: {left:?}");
        }
        // What is not a name is as it was: so are the figures, and equal stacks are still equal.
        let back = reread(&pickle);
        for (before, after) in snapshot.devices.as_slice().iter().zip(back.devices.as_slice()) {
            assert_eq!(before.trace.sizes(), after.trace.sizes(), "{name}");
            assert_eq!(before.trace.addresses(), after.trace.addresses(), "{name}");
            let distinct = |memory: &DeviceMemory| memory.trace.stacks().iter().collect::<BTreeSet<_>>().len();
            assert_eq!(distinct(before), distinct(after), "{name}");
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fragscope")).args(arguments).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_kind_is_written_by_its_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = samples::sample("private_pools").display().to_string();
    let place = |name: &str| folder.path().join(name).display().to_string();
    for (name, begins) in [
        ("a.pickle", &b"\x80\x04\x95"[..]),
        ("a.pickle.gz", b"\x1f\x8b"),
        ("a.pickle.zst", b"\x28\xb5\x2f\xfd"),
        ("a.json", b"{\"segments\":"),
        ("a.csv", b"file,device,event,action,"),
        ("a.trace", b"# fragscope trace 1\n"),
        ("a.folded", b"root;"),
        ("a.speedscope.json", b"{\"$schema\""),
        ("a.pb.gz", b"\x1f\x8b"),
        ("a.svg", b"<?xml"),
        ("a.perfetto.json", b"{\"displayTimeUnit\""),
        ("a.chrome.json.gz", b"\x1f\x8b"),
    ] {
        let output = run(&["convert", &sample, &place(name)]);
        assert!(output.status.success(), "{name}: {}", said(&output));
        assert!(output.stdout.is_empty(), "{name}");
        let bytes = std::fs::read(place(name)).expect("written");
        assert!(bytes.starts_with(begins), "{name}: {:?}", &bytes[..8]);
    }
    for table in ["allocations", "segments", "stacks"] {
        let output = run(&["convert", &sample, &place("t.csv"), "--table", table]);
        assert!(output.status.success(), "{}", said(&output));
        let text = std::fs::read_to_string(place("t.csv")).expect("written");
        assert!(text.starts_with("file,") && 5 < text.lines().count(), "{table}");
    }
    // A folder of its own tables is replaced.
    for _ in 0..2 {
        let output = run(&["convert", &sample, &place("a.parquet")]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let mut parts: Vec<_> = std::fs::read_dir(place("a.parquet")).expect("a folder").flatten().map(|e| e.file_name()).collect();
    parts.sort();
    assert_eq!(parts, ["allocations.parquet", "events.parquet", "segments.parquet", "stacks.parquet"]);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "no half file: {left:?}");
    assert!(EXPORTERS.iter().all(|exporter| exporter_of_name(exporter.name()).is_some()));
}

#[test]
fn the_command_cuts_picks_and_hides() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let sample = |name: &str| samples::sample(name).display().to_string();
    let open = |name: &str| samples::open(&folder.path().join(name));
    let ok = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    };

    ok(&["convert", &sample("fragmentation_oom"), &place("w.pickle"), "--from", "event:35000", "--to", "oom"]);
    let window = open("w.pickle");
    let memory = &window.devices.as_slice()[0];
    assert_eq!((memory.trace.len(), memory.trace.ooms().len(), memory.start_stated), (572, 1, true));
    assert!(memory.coverage.gaps.iter().any(|gap| gap.why.contains("window")), "{:?}", memory.coverage);

    // The other device is cut at the same times.
    ok(&["convert", &sample("two_devices"), &place("two.pickle"), "--device", "1", "--from", "event:1000", "--to", "event:2000"]);
    let (both, whole) = (open("two.pickle"), samples::open(&samples::sample("two_devices")));
    let picked = &both.devices.as_slice()[1].trace;
    assert_eq!(picked.len(), 1000);
    let (first, last) = picked.time_span_us().expect("times");
    let inside = |event: &EventIdx| whole.devices.as_slice()[0].trace.time_us(*event).is_some_and(|t| first <= t && t <= last);
    let wanted = whole.devices.as_slice()[0].trace.events().filter(inside).count();
    assert_eq!(both.devices.as_slice()[0].trace.len(), wanted);

    ok(&["convert", &sample("two_devices"), &place("one.pickle"), "--device", "0"]);
    assert_eq!(open("one.pickle").devices.as_slice().iter().filter(|memory| memory.is_used()).count(), 1);

    // One moment: a list of segments in two notations.
    for name in ["m.pickle", "m.json", "m.pickle.gz"] {
        ok(&["convert", &sample("training"), &place(name), "--at", "peak"]);
        let moment = open(name);
        let memory = &moment.devices.as_slice()[0];
        assert!(memory.trace.is_empty() && !memory.start_stated, "{name}");
        assert_eq!(Replay::new(memory).state_at(memory, Position::START).totals.allocated, 10_166_958_080, "{name}");
    }
    let list: Value = serde_json::from_slice(&std::fs::read(place("m.json")).expect("written")).expect("JSON");
    assert!(list.is_array());

    ok(&["convert", &sample("training"), &place("r.trace"), "--redact"]);
    let text = std::fs::read_to_string(place("r.trace")).expect("written");
    assert!(text.contains("file_") && !text.contains("wl.py") && !text.contains("/home/user"), "names are hidden");
}

#[test]
fn what_cannot_be_converted_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let sample = samples::sample("private_pools").display().to_string();
    let copy = place("copy.pickle.gz");
    std::fs::copy(samples::sample("private_pools"), &copy).expect("a copy");
    std::fs::create_dir(place("own.parquet")).expect("a folder");
    std::fs::write(folder.path().join("own.parquet/notes.txt"), "mine").expect("a file");
    std::fs::write(place("file.parquet"), "mine").expect("a file");
    for (arguments, says) in [
        (vec![sample.clone(), place("x.docx")], "does not say what to write"),
        (vec![copy.clone(), copy.clone()], "is the file that is read"),
        (vec![sample.clone(), place("no/such/x.pickle")], "cannot be written"),
        (vec![sample.clone(), place("own.parquet")], "notes.txt"),
        (vec![sample.clone(), place("file.parquet")], "there is a file of that name"),
        (vec![sample.clone(), place("x.parquet.gz")], "is to be a folder"),
        (vec![sample.clone(), place("x.pickle"), "--table".into(), "events".into()], "only a .csv"),
        (vec![sample.clone(), place("x.pickle"), "--counter".into(), "active".into()], "only a graph of stacks"),
        (vec![sample.clone(), place("x.svg"), "--from".into(), "start".into()], "one moment"),
        (vec![sample.clone(), place("x.pickle"), "--from".into(), "event:99999".into()], "has no event 99999"),
        (
            vec![sample.clone(), place("x.pickle"), "--from".into(), "end".into(), "--to".into(), "start".into()],
            "end before it starts",
        ),
        (vec![sample.clone(), place("x.pickle"), "--from".into(), "noon".into()], "names no moment"),
        (vec![sample.clone(), place("x.pickle"), "--device".into(), "7".into()], "no device 7"),
        (vec![place("nothing.pickle"), place("x.pickle")], "cannot read"),
    ] {
        let arguments: Vec<&str> = std::iter::once("convert").chain(arguments.iter().map(String::as_str)).collect();
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(says), "{arguments:?}: {}", said(&output));
        assert!(!Path::new(&place("x.pickle")).exists() && !Path::new(&place("x.svg")).exists(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("own.parquet/notes.txt")).expect("kept"), "mine");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "no half file: {left:?}");
}

/// The trace of Perfetto by its own rules: every counter step, every span and every mark, in order of its own kind.
#[test]
fn the_event_trace_holds_every_change_span_and_mark() {
    use fragscope::analysis::UsageTimeline;
    for (name, ooms) in [("training", 0), ("fragmentation_oom", 1), ("two_devices", 0), ("segments_only", 0)] {
        let snapshot = samples::open(&samples::sample(name));
        let mut bytes = Vec::new();
        fragscope::report::perfetto::write(&snapshot, &mut bytes, &Progress::new()).expect("memory takes all");
        let trace: Value = serde_json::from_slice(&bytes).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        for event in events {
            assert!(
                event["ph"].is_string() && event["pid"].is_i64() && event["ts"].as_f64().is_some_and(|ts| 0.0 <= ts),
                "{event}"
            );
        }
        let of = |ph: &str, pid: i64| events.iter().filter(move |e| e["ph"] == ph && e["pid"] == pid).collect::<Vec<_>>();
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()) {
            let pid = i64::from(memory.ordinal) + 1;
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            for (counter, curve) in [("reserved", &usage.reserved), ("allocated", &usage.allocated)] {
                let steps: Vec<_> = of("C", pid).into_iter().filter(|e| e["name"] == counter).collect();
                let peak = steps.iter().filter_map(|e| e["args"]["bytes"].as_u64()).max();
                assert_eq!(peak, Some(curve.peak().1), "{name} {counter}");
                let last = steps.last().and_then(|e| e["args"]["bytes"].as_u64());
                assert_eq!(last, Some(curve.at(memory.end())), "{name} {counter}");
                let times: Vec<f64> = steps.iter().filter_map(|e| e["ts"].as_f64()).collect();
                assert!(times.is_sorted(), "{name} {counter}");
            }
            assert_eq!(of("b", pid).len(), memory.annotations.len(), "{name}");
            assert_eq!(of("e", pid).len(), memory.annotations.len(), "{name}");
            let marks = of("i", pid);
            assert_eq!(marks.iter().filter(|e| e["name"] == "out of memory").count(), ooms, "{name}");
        }
    }
}
