//! The program as a process: what it prints, where, and how it ends. No test here needs a display.

use crate::samples;
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Every sample, and its number of events by device.
const SAMPLES: &[(&str, &[(i64, u64)])] = &[
    ("training", &[(0, 15_768)]),
    ("fragmentation_oom", &[(0, 35_573)]),
    ("expandable_segments", &[(0, 17_978)]),
    ("private_pools", &[(0, 298)]),
    ("two_devices", &[(0, 2_857), (1, 4_128)]),
    ("late_start", &[(0, 4_636)]),
    ("segments_only", &[(0, 0)]),
    ("streams", &[(0, 25_806)]),
];

/// The keys that scripts may rely on, object by object.
const FILE_KEYS: &[&str] = &["file", "bytes", "format", "written_by", "settings", "devices", "warnings"];
const DEVICE_KEYS: &[&str] = &[
    "device",
    "events",
    "events_by_action",
    "allocations",
    "unmatched_frees",
    "born_before",
    "without_stack",
    "time_us",
    "start",
    "end",
    "peak_reserved",
    "peak_allocated",
    "peak_active",
    "peak_requested",
    "ooms",
    "coverage",
];
const STATE_KEYS: &[&str] = &[
    "event",
    "time_us",
    "reserved",
    "allocated",
    "active",
    "requested",
    "pending_free",
    "free",
    "inactive_split",
    "largest_free_block",
    "segments",
    "blocks",
    "pools",
];
const POOL_KEYS: &[&str] = &["pool", "kind", "stream", "reserved", "active", "free", "largest_free_block", "segments"];
const SEGMENT_KEYS: &[&str] = &["address", "size", "stream", "pool", "kind", "expandable", "stack", "blocks"];
const BLOCK_KEYS: &[&str] = &["address", "size", "requested", "state", "stack", "alloc_event"];
const LIVE_KEYS: &[&str] = &["frames", "bytes", "requested", "count"];

/// The program with a bare environment: no display.
fn fragscope(arguments: &[&str]) -> Output {
    program(arguments).output().expect("the program starts")
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"] {
        command.env_remove(variable);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    let output = fragscope(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn path(name: &str) -> String {
    samples::sample(name).to_string_lossy().into_owned()
}

fn has_keys(value: &Value, keys: &[&str], what: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{what} is an object"));
    for key in keys {
        assert!(object.contains_key(*key), "{what} has no {key}");
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn sum(values: &Value, key: &str) -> u64 {
    items(values).map(|value| value[key].as_u64().expect("a size")).sum()
}

#[test]
fn info_as_json_keeps_its_names() {
    for (name, devices) in SAMPLES {
        let list = json(&["info", "--json", &path(name)]);
        let [file] = list.as_array().expect("a list").as_slice() else { panic!("{name}: one object a file") };
        has_keys(file, FILE_KEYS, name);
        assert_eq!(file["file"], path(name).as_str());
        assert_eq!(file["bytes"], samples::sample(name).metadata().expect("a file").len());
        let used: Vec<(i64, u64)> = items(&file["devices"])
            .map(|device| (device["device"].as_i64().expect("a number"), device["events"].as_u64().expect("a count")))
            .filter(|(ordinal, events)| 0 < *events || *ordinal == 0)
            .collect();
        assert_eq!(used, *devices, "{name}");
        for device in items(&file["devices"]) {
            has_keys(device, DEVICE_KEYS, name);
            let by_action = device["events_by_action"].as_object().expect("a map").values();
            assert_eq!(by_action.map(|n| n.as_u64().expect("a count")).sum::<u64>(), device["events"].as_u64().expect("a count"));
            let oom_states = items(&device["ooms"]).map(|oom| &oom["state"]);
            for state in [&device["start"], &device["end"]].into_iter().chain(oom_states) {
                is_state(state, name);
            }
            assert_eq!(device["start"]["event"], -1, "{name}");
            assert_eq!(device["end"]["event"].as_i64(), device["events"].as_i64().map(|n| n - 1), "{name}");
            for (peak, counter) in [
                ("peak_reserved", "reserved"),
                ("peak_allocated", "allocated"),
                ("peak_active", "active"),
                ("peak_requested", "requested"),
            ] {
                has_keys(&device[peak], &["event", "bytes"], name);
                assert!(device["end"][counter].as_u64() <= device[peak]["bytes"].as_u64(), "{name}: {peak}");
            }
            for gap in items(&device["coverage"]) {
                has_keys(gap, &["missing", "why", "sentence"], name);
            }
        }
    }
}

fn is_state(state: &Value, what: &str) {
    has_keys(state, STATE_KEYS, what);
    for pool in items(&state["pools"]) {
        has_keys(pool, POOL_KEYS, what);
        assert!(["small", "large"].contains(&pool["kind"].as_str().unwrap_or_default()), "{what}: {pool}");
    }
    for counter in ["reserved", "active", "free", "segments"] {
        assert_eq!(sum(&state["pools"], counter), state[counter].as_u64().expect("a size"), "{what}: {counter} over pools");
    }
    let size = |key: &str| state[key].as_u64().unwrap_or_else(|| panic!("{what}: {key}"));
    assert_eq!(size("allocated") + size("pending_free"), size("active"), "{what}");
    assert_eq!(size("active") + size("free"), size("reserved"), "{what}");
}

#[test]
fn at_as_json_shows_every_byte() {
    for (name, devices) in SAMPLES {
        for (device, _) in *devices {
            let at = json(&["at", &path(name), "--device", &device.to_string(), "--json"]);
            is_state(&at, name);
            has_keys(&at, &["device", "stacks", "layout", "live_by_stack"], name);
            assert_eq!(at["device"].as_i64(), Some(*device));
            let stacks = at["stacks"].as_array().expect("a list").len() as u64;
            let known = |stack: &Value| stack.is_null() || stack.as_u64().is_some_and(|stack| stack < stacks);
            let mut blocks = 0;
            for segment in items(&at["layout"]) {
                has_keys(segment, SEGMENT_KEYS, name);
                assert!(known(&segment["stack"]), "{name}: {}", segment["stack"]);
                let mut cursor = segment["address"].as_u64().expect("an address");
                for block in items(&segment["blocks"]) {
                    has_keys(block, BLOCK_KEYS, name);
                    assert_eq!(block["address"].as_u64(), Some(cursor), "{name}: blocks tile their segment");
                    assert!(known(&block["stack"]), "{name}: {}", block["stack"]);
                    cursor += block["size"].as_u64().expect("a size");
                    if block["state"] == "inactive" {
                        assert_eq!((&block["requested"], &block["stack"]), (&Value::from(0), &Value::Null), "{name}");
                    } else {
                        blocks += 1;
                    }
                }
                let end = segment["address"].as_u64().zip(segment["size"].as_u64()).map(|(address, size)| address + size);
                assert_eq!(Some(cursor), end, "{name}: blocks fill their segment");
            }
            assert_eq!(at["blocks"].as_u64(), Some(blocks), "{name}: blocks");
            assert_eq!(sum(&at["layout"], "size"), at["reserved"].as_u64().expect("a size"), "{name}: reserved");
            assert_eq!(sum(&at["live_by_stack"], "bytes"), at["allocated"].as_u64().expect("a size"), "{name}: live by stack");
            let shares: Vec<u64> = items(&at["live_by_stack"]).map(|share| share["bytes"].as_u64().expect("a size")).collect();
            assert!(shares.is_sorted_by(|a, b| b <= a), "{name}: largest first");
            items(&at["live_by_stack"]).for_each(|share| has_keys(share, LIVE_KEYS, name));
        }
    }
}

#[test]
fn moments_lead_to_their_events() {
    let info = json(&["info", "--json", &path("fragmentation_oom"), &path("training"), &path("two_devices")]);
    let event = |file: usize, device: usize, of: &str| info[file]["devices"][device][of]["event"].as_i64().expect("an event");
    for (name, flags, wanted) in [
        ("fragmentation_oom", &[][..], 35_572),
        ("fragmentation_oom", &["--oom"], 35_572),
        ("fragmentation_oom", &["--oom", "1"], 35_572),
        ("fragmentation_oom", &["--peak"], event(0, 0, "peak_allocated")),
        ("fragmentation_oom", &["--peak-reserved"], event(0, 0, "peak_reserved")),
        ("training", &[], event(1, 0, "peak_allocated")),
        ("training", &["--start"], -1),
        ("training", &["--end"], 15_767),
        ("training", &["--event", "-1"], -1),
        ("training", &["--event", "7"], 7),
        ("training", &["--time-us", "1"], -1),
        ("training", &["--time-us", "99999999999999999"], 15_767),
        ("two_devices", &["--end"], 4_127),
        ("two_devices", &["--device", "0"], event(2, 0, "peak_allocated")),
        ("two_devices", &["--device", "0", "--end"], 2_856),
        ("segments_only", &[], -1),
    ] {
        let file = path(name);
        let arguments = [&["at", &file, "--json"], flags].concat();
        assert_eq!(json(&arguments)["event"], wanted, "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.to_string_lossy().into_owned()
    };
    let missing = folder.path().join("missing.pickle").to_string_lossy().into_owned();
    let directory = folder.path().to_string_lossy().into_owned();
    let empty = put("empty.pickle", b"");
    let garbage = put("garbage.pickle", &(0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>());
    let checkpoint = put("model.pt", &checkpoint());
    let training = path("training");
    let nothing_fits = folder.path().join("*.nothing").to_string_lossy().into_owned();
    let unwritable = folder.path().join("no/such/folder/x.png").to_string_lossy().into_owned();
    for (arguments, parts) in [
        (&["info", &missing][..], &["missing.pickle"][..]),
        (&["at", &missing], &["missing.pickle"]),
        (&["report", &missing, "-o", "x.png"], &["missing.pickle"]),
        (&["open", &missing], &["missing.pickle"]),
        (&["at", &directory], &["is a folder"]),
        (&["info", &empty], &["empty.pickle is empty"]),
        (&["info", &garbage], &["garbage.pickle"]),
        (&["info", &checkpoint], &["torch.save"]),
        (&["info"], &["<FILE>"]),
        (&["inof", &training], &["inof", "info"]),
        (&["at", &training, "--event", "15768"], &["0 to 15767"]),
        (&["at", &training, "--event", "-2"], &["no event -2"]),
        (&["at", &training, "--oom"], &["no out-of-memory event"]),
        (&["at", &training, "--oom", "0"], &["0", "--oom"]),
        (&["at", &training, "--peak", "--end"], &["cannot be used with"]),
        (&["at", &training, "--device", "7"], &["no device 7", "holds 0"]),
        (&["at", &path("streams"), "--time-us", "5"], &["no time"]),
        (&["report", &training, "-o", "x.docx"], &["x.docx", ".png"]),
        (&["report", &training, "-o", &unwritable], &["cannot be written"]),
        (&["report", &training, &training, "-o", "x.png"], &["one file"]),
        (&["report", &training, "-o", "x.png", "--size", "large"], &["1600x1000"]),
        (&["report", &training, "-o", "x.png", "--size", "4294967295x4294967295"], &["too large"]),
        (&["report", &training, "-o", "x.png", "--size", "10000x10000", "--scale", "8"], &["too large"]),
        (&["report", &training, "-o", "x.md", "--pages", "a4"], &["only a picture", ".png"]),
        (&["report", &training, "-o", "x.md", "--pages", "a3"], &["a3", "16x9"]),
        (&["report", &training, "-o", "x.md", "--sections", "verdict,pictures"], &["pictures", "timeline, charts"]),
        (&["report", &training, "-o", "x.md", "--window", "5"], &["FROM..TO", "1000..5000"]),
        (&["report", &training, "-o", "x.md", "--window", "9..5"], &["ends before it begins"]),
        (&["report", &training, "-o", "x.md", "--from", "oom"], &["no OOM"]),
        (&["report", &training, "-o", "x.md", "--from", "then"], &["peak-reserved"]),
        (&["report", &training, "-o", "x.md", "--from", "peak", "--window", "1..2"], &["cannot be used with"]),
        (&["report", &training, "-o", "x.md", "--capacity", "lots"], &["80GiB"]),
        (&["report", &training, "-o", "x.md", "--log", "no.log"], &["no.log cannot be read"]),
        (&["report", &nothing_fits, "-o", "x.md"], &["no file is called"]),
        (&["report", &training, "-o", "x{}"], &["no report is called x{}"]),
        (&["report", &training, "-o", "x\u{1b}[31m\u{202e}.docx"], &["called x [31m .docx"]),
        (&["open", "--or-report", "x.png"], &["needs a file"]),
    ] {
        let output = fragscope(arguments);
        let (said, printed) = (text(&output.stderr), text(&output.stdout));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: {part} is not in: {said}");
        }
        assert!(!said.contains("panicked") && printed.is_empty(), "{arguments:?} printed {printed}, said {said}");
    }
}

/// A file as `torch.save` writes it: an archive whose `data.pkl` names classes.
fn checkpoint() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [
        ("model/data.pkl", &b"\x80\x02}q\x00X\x06\x00\x00\x00weightq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02)Rq\x03s."[..]),
        ("model/version", b"3\n"),
        ("model/data/0", &[0; 64]),
    ] {
        archive.start_file(name, stored).expect("an entry");
        archive.write_all(bytes).expect("its bytes");
    }
    archive.finish().expect("an archive").into_inner()
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    for as_json in [false, true] {
        let (good, other) = (path("private_pools"), path("segments_only"));
        let mut arguments = vec!["info", &good, "no_such_file.pickle", &other];
        arguments.extend(as_json.then_some("--json"));
        let output = fragscope(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("no_such_file.pickle"), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        if as_json {
            let list: Value = serde_json::from_str(&printed).expect("one JSON value");
            assert_eq!(list.as_array().map(Vec::len), Some(2));
        } else {
            assert!(printed.contains(&good) && printed.contains(&other), "{printed}");
        }
    }
}

#[test]
fn people_read_tables_with_exact_bytes() {
    for (arguments, parts) in [
        (
            &["info", "fragmentation_oom"][..],
            &[
                "35 573 events",
                "7.50 GiB (8 048 869 376 bytes)",
                "out of memory at event 35 572",
                "51.38 MiB (53 878 272 bytes) wanted",
            ][..],
        ),
        (&["info", "two_devices"], &["device 0: 2 857 events", "device 1: 4 128 events"]),
        (&["info", "expandable_segments"], &["expandable_segments:True"]),
        (&["info", "segments_only"], &["device 0: 0 events"]),
        (&["at", "fragmentation_oom"], &["after event 35 572 of 0 to 35 572 (oom", "27.45 MiB", "wl.py", "█"]),
        (&["at", "private_pools"], &["(0, ", "default"]),
        (&["at", "segments_only"], &["without history", "(no stack)"]),
    ] {
        let file = path(arguments[1]);
        let output = fragscope(&[arguments[0], &file]);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        for part in parts {
            assert!(printed.contains(part), "{arguments:?}: {part} is not in\n{printed}");
        }
        assert!(printed.lines().all(|line| line == line.trim_end()), "{arguments:?}: no blanks at line ends");
    }
}

#[test]
fn which_device_was_taken_is_said() {
    for (flags, said) in [(&[][..], true), (&["--device", "0"], false)] {
        let file = path("two_devices");
        let output = fragscope(&[&["at", &file, "--json"], flags].concat());
        assert_eq!(text(&output.stderr).contains("taking device 1"), said, "{}", text(&output.stderr));
    }
}

#[test]
fn without_a_display_there_is_a_sentence_or_a_report() {
    let training = path("training");
    for arguments in [&["open", &training][..], &[&training], &[]] {
        let output = fragscope(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for part in ["no display", "report", "info"] {
            assert!(said.contains(part), "{arguments:?}: {said}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("report.png");
    let output = fragscope(&["open", &training, "--or-report", &out.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("report.png"), "it says what it did: {}", text(&output.stderr));
    is_png(&out);
}

#[test]
fn a_report_is_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, flags) in [
        ("segments_only", &[][..]),
        ("two_devices", &["--device", "0", "--peak", "--size", "1200x900", "--scale", "0.5", "--theme", "dark"]),
    ] {
        let out = folder.path().join(format!("{name}.png")).to_string_lossy().into_owned();
        let output = fragscope(&[&["report", &path(name), "-o", &out], flags].concat());
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        is_png(Path::new(&out));
    }
}

#[test]
fn many_files_have_a_page_each_and_an_overview() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (good, other) = (path("private_pools"), path("fragmentation_oom"));
    let one_letter_off = other.replace("fragmentation_oom", "fragmentation_oo?");
    for (out, pages, overview) in [
        (at("html/"), &["html/private_pools.html", "html/fragmentation_oom.html"][..], "html/index.html"),
        (at("md/{}.md"), &["md/private_pools.md", "md/fragmentation_oom.md"], "md/index.md"),
        (at("png/p-{}.png"), &["png/p-private_pools.png", "png/p-fragmentation_oom.png"], "png/index.html"),
        (at("json/{}.json"), &["json/private_pools.json", "json/fragmentation_oom.json"], "json/index.json"),
    ] {
        let output = fragscope(&["report", &good, "no_such_file.pickle", &one_letter_off, "-o", &out, "--scale", "0.5"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no_such_file.pickle") && said.contains(overview), "{said}");
        let index = std::fs::read_to_string(folder.path().join(overview)).expect("an overview");
        for page in pages {
            assert!(folder.path().join(page).is_file(), "{page}: {said}");
            let name = page.rsplit('/').next().unwrap_or_default();
            assert!(index.contains(name), "{name} in {index}");
        }
        assert!(index.contains("no_such_file.pickle") && index.contains("ragmentation"), "{index}");
    }
    let same = fragscope(&["report", &good, &good, "-o", &at("twice/{}.md")]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    for name in ["private_pools.md", "private_pools-2.md", "index.md"] {
        assert!(folder.path().join("twice").join(name).is_file(), "{name}");
    }
    let alone = fragscope(&["report", &good, "-o", &at("alone/{}.md")]);
    assert!(alone.status.success() && !folder.path().join("alone/index.md").exists());
    let pages = fragscope(&["report", &good, "-o", &at("p.png"), "--pages", "16x9", "--scale", "0.5"]);
    assert!(pages.status.success() && !folder.path().join("p.png").exists());
    is_png(&folder.path().join("p-1.png"));
    is_png(&folder.path().join("p-2.png"));
}

#[test]
fn a_report_knows_what_the_log_and_the_user_know() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r.json");
    let (file, to) = (path("fragmentation_oom"), out.to_string_lossy().into_owned());
    let arguments = [
        &["report", &file, "-o", &to][..],
        &["--capacity", "8GiB", "--note", "node 14", "--sections", "accounting,verdict", "--window", "start..oom"],
    ];
    let output = program(&arguments.concat()).env("SOURCE_DATE_EPOCH", "86400").output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page: Value = serde_json::from_slice(&std::fs::read(&out).expect("written")).expect("JSON");
    assert_eq!(page["report"]["written_us"], 86_400_000_000u64);
    assert_eq!((&page["note"], &page["accounting"]["capacity"]), (&Value::from("node 14"), &Value::from(8u64 << 30)));
    assert_eq!((&page["window"]["from_event"], &page["window"]["to_event"]), (&Value::from(-1), &Value::from(35_572)));
    assert!(page["stacks"].is_null() && page["verdict"]["of_moment"] == true);
    let why = json(&["why", &file, "--json", "--capacity", "8GiB"]);
    assert_eq!(page["why"], why, "the same objects as `why`");
}

fn is_png(path: &Path) {
    let bytes = std::fs::read(path).expect("a file was written");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && 1000 < bytes.len(), "{} is no picture", path.display());
}

/// Who pipes into `head` has read enough: no complaint, no panic.
#[test]
fn a_closed_pipe_is_no_failure() {
    let file = path("fragmentation_oom");
    let mut child = program(&["at", &file, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn help_names_every_subcommand() {
    let output = fragscope(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for command in fragscope::cli::COMMANDS {
        assert!(help.contains(command.name), "{help}");
        let output = fragscope(&[command.name, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{}", command.name);
        assert!(text(&output.stdout).starts_with(|c: char| c.is_uppercase()), "{}", command.name);
    }
}
