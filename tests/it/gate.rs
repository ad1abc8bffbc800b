//! `check` and `info --summary` as processes: what they say, and how they end.

use crate::samples;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn fragscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.args(arguments).stdin(Stdio::null()).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.output().expect("the program starts")
}

fn path(name: &str) -> String {
    samples::sample(name).to_string_lossy().into_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Runs a command line in which samples go by their names, and looks at its end and its words.
fn says(line: &str, code: i32, printed: &[&str], said: &[&str]) {
    let names = ["training", "fragmentation_oom", "two_devices", "segments_only", "late_start", "private_pools", "streams"];
    let words = line.split_whitespace().map(|word| if names.contains(&word) { path(word) } else { word.to_owned() });
    let words: Vec<String> = words.collect();
    let output = fragscope(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{line}: {out}{err}");
    assert!(!err.contains("panicked"), "{line}: {err}");
    for part in printed {
        assert!(out.contains(part), "{line}: {part} is not in what it printed: {out}");
    }
    for part in said {
        assert!(err.contains(part), "{line}: {part} is not in what it said: {err}");
    }
    assert!(!printed.is_empty() || out.is_empty(), "{line} printed {out}");
}

#[test]
fn a_gate_holds_fails_or_cannot_be_looked_at() {
    for (line, code, printed, said) in [
        ("check training --max-peak 9.5GiB", 0, &["ok: ", "device 0: peak allocated 9.47 GiB ≤ 9.50 GiB\n"][..], &[][..]),
        (
            "check training --max-peak 9GiB",
            1,
            &[
                "failed: ",
                "peak allocated 9.47 GiB > 9.00 GiB after event ",
                "; most is held there by ",
                "models.py:23 attend: 4.60 GiB",
            ],
            &[],
        ),
        // Kept to the byte: 10 166 958 080.
        ("check training --max-peak 10166958080", 0, &["ok: "], &[]),
        ("check training --max-peak 10166958079", 1, &["9.47 GiB (10 166 958 080 bytes) > 9.47 GiB (10 166 958 079 bytes)"], &[]),
        (
            "check training --max-reserved 12GiB --max-peak 10GiB",
            0,
            &["peak allocated", "peak reserved 11.29 GiB ≤ 12.00 GiB"],
            &[],
        ),
        ("check training --max-reserved 11GiB --max-peak 10GiB", 1, &["ok: ", "failed: ", "reserved 11.29 GiB > 11.00 GiB"], &[]),
        ("check fragmentation_oom --max-fragmentation 98", 0, &["fragmentation 97.", "% ≤ 98.00 %"], &[]),
        (
            "check fragmentation_oom --max-fragmentation 12.5%",
            1,
            &["% > 12.50 % after event 35 572; ", "the largest block of it 27.45 MiB; most is held there by "],
            &[],
        ),
        ("check fragmentation_oom --max-fragmentation 0 --start", 0, &["0.00 % ≤ 0.00 %"], &[]),
        ("check fragmentation_oom --min-largest-free 27MiB", 0, &["27.45 MiB ≥ 27.00 MiB"], &[]),
        ("check fragmentation_oom --min-largest-free 28MiB --oom 1", 1, &["largest free block 27.45 MiB < 28.00 MiB"], &[]),
        ("check two_devices --max-peak 1GiB", 0, &["device 0: ", "device 1: "], &[]),
        ("check two_devices --max-peak 1GiB --device 1", 0, &["device 1: "], &[]),
        ("check two_devices training --max-peak 1GiB", 1, &["ok: ", "failed: "], &[]),
        ("check late_start --max-peak 10GiB", 0, &["; the recording starts mid-run"], &[]),
        // Without a history a passed limit is certain, a kept one is not.
        ("check segments_only --max-peak 10GiB", 2, &[], &["--max-peak cannot be checked on device 0", "without a history"]),
        ("check segments_only --max-reserved 1", 1, &["failed: ", "as it was written"], &[]),
        ("check segments_only --min-largest-free 1", 0, &["ok: "], &[]),
        ("check training --max-outside-steps 1GiB", 2, &[], &["no annotations of the program's own", "record_function"]),
        ("check streams --max-outside-steps 1GiB", 2, &[], &["carry no time"]),
        ("check segments_only --max-outside-steps 1GiB", 2, &[], &["nothing was recorded"]),
        ("check training no_such_file.pickle --max-peak 1GiB", 2, &["failed: "], &["no_such_file.pickle"]),
        ("check training --min-largest-free 1 --event 99999999", 2, &[], &["no event 99999999"]),
        ("check training --max-peak 10GiB --device 7", 2, &[], &["no device 7"]),
        ("check training", 2, &[], &["--max-peak"]),
        ("check --max-peak 1GiB", 2, &[], &["<FILE>"]),
        ("check training --max-peak much", 2, &[], &["say a size"]),
        ("check training --max-fragmentation 101", 2, &[], &["0 to 100"]),
        ("check training --max-fragmentation -1", 2, &[], &["-1"]),
        ("check training --max-peak 1GiB --peak --end", 2, &[], &["--peak"]),
    ] {
        says(line, code, printed, said);
    }
}

#[test]
fn bytes_outside_steps_are_those_that_stay() {
    let annotated = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/snapshots/2.15.0/annotated.pickle.gz");
    if !annotated.is_file() {
        println!("skipped: {} is not there", annotated.display());
        return;
    }
    let file = annotated.to_string_lossy().into_owned();
    let output = fragscope(&["check", &file, "--max-outside-steps", "1", "--max-peak", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let checks: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (peak, outside) = (checks[0]["value"].as_u64(), checks[1]["value"].as_u64());
    assert!(Some(0) < outside && outside <= peak, "{checks}");
    let output = fragscope(&["check", &file, "--max-outside-steps", &outside.expect("a size").to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn a_gate_as_json_keeps_its_names() {
    let output = fragscope(&[
        "check",
        &path("fragmentation_oom"),
        "--max-peak",
        "1GiB",
        "--max-fragmentation",
        "12.5",
        "--min-largest-free",
        "1MiB",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let checks: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = checks.as_array().expect("a list");
    let limits: Vec<_> = rows.iter().map(|row| (row["limit"].as_str().expect("a name"), row["holds"].as_bool())).collect();
    assert_eq!(limits, [("max-peak", Some(false)), ("max-fragmentation", Some(false)), ("min-largest-free", Some(true))]);
    for row in rows {
        for key in ["file", "device", "limit", "bound", "value", "holds", "event", "stack", "sentence"] {
            assert!(row.get(key).is_some(), "no {key} in {row}");
        }
        assert_eq!(row["stack"].as_array().map(Vec::is_empty), row["holds"].as_bool(), "{row}");
    }
    assert_eq!((&rows[0]["bound"], &rows[1]["bound"]), (&Value::from(1u64 << 30), &Value::from(12.5)));
}

#[test]
fn the_summary_is_pytorchs_table() {
    for name in ["training", "private_pools", "expandable_segments"] {
        let printed = std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/expected/memory_summary_{name}.txt")),
        )
        .expect("the table PyTorch printed");
        for flags in [&["--summary", "--end"][..], &["--summary=end"], &["--summary", "end"]] {
            let output = fragscope(&[&["info", &path(name)], flags].concat());
            let out = text(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
            assert_eq!(out.split_once('\n').map(|(_, table)| table), Some(printed.as_str()), "{name} {flags:?}");
        }
    }
}

#[test]
fn the_summary_says_what_it_is_of() {
    for (line, code, printed, said) in [
        ("info fragmentation_oom --summary", 0, &["after event 35 572", "CUDA OOMs: 1 ", "cudaMalloc retries: 5 "][..], &[][..]),
        ("info fragmentation_oom --summary=start", 0, &["before the first event", "CUDA OOMs: 0 "], &[]),
        ("info two_devices --summary", 0, &["device ID 0", "device ID 1"], &[]),
        ("info two_devices --summary --device 1", 0, &["device ID 1"], &[]),
        (
            "info late_start --summary",
            0,
            &["Peak Usage*", "Tot Alloc*", "* Peaks, totals and counts are those in the recording"],
            &[],
        ),
        ("info segments_only --summary", 0, &["CUDA OOMs: – ", "|     –      |", "are not known"], &[]),
        ("info streams --summary", 0, &["does not state max_split_size_mb"], &[]),
        ("info training private_pools --summary=peak", 0, &["PyTorch CUDA memory summary"], &[]),
        ("info training --summary=noon", 2, &[], &["names no moment"]),
        ("info training --summary=peak --end", 2, &[], &["more than one moment"]),
        ("info training --summary=oom", 2, &[], &["no out-of-memory event"]),
        ("info training --peak", 2, &[], &["--summary"]),
        ("info training --summary --device 9", 2, &[], &["no device 9"]),
        ("info --summary peak", 2, &[], &["no file was named"]),
    ] {
        says(line, code, printed, said);
    }
}

#[test]
fn the_summary_as_json_is_flat_and_by_pytorchs_names() {
    for name in ["training", "segments_only"] {
        let output = fragscope(&["info", "--json", &path(name), "--summary=end"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let device = &list[0]["devices"][0];
        let counters: Value =
            serde_json::from_str(&std::fs::read_to_string(samples::counters_of(&samples::sample(name))).expect("counters"))
                .expect("JSON");
        for (key, theirs) in counters["devices"][0]["stats"].as_object().expect("counters") {
            let ours = device["summary"].get(key).unwrap_or_else(|| panic!("{name}: no {key}"));
            let is_known = name == "training" || key.ends_with("current");
            assert_eq!(ours, if is_known { theirs } else { &Value::Null }, "{name}: {key}");
        }
        assert_eq!(device["summary_event"].as_i64(), device["events"].as_i64().map(|n| n - 1));
    }
    let output = fragscope(&["info", "--json", &path("training")]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(list[0]["devices"][0].get("summary").is_none(), "only where it is asked for");
}
