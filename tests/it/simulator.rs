//! The simulator against recordings of real PyTorch: with the recorded settings it places every allocation where it
//! lay. What it predicts for other settings is in `pairs.rs`.

use crate::samples;
use fragscope::analysis::Releases;
use fragscope::base::Progress;
use fragscope::model::{DeviceId, Missing, Snapshot};
use fragscope::replay::Replay;
use fragscope::simulator::{Fidelity, Recorded, RequestStream};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the driver's context takes of the card.
pub const CONTEXT: u64 = 512 << 20;
const GIB: f64 = (1u64 << 30) as f64;

/// The samples, a job recorded twice, and the snapshots of the folders in `FRAGSCOPE_TRUTH_DIR` where there are any.
pub fn files() -> Vec<PathBuf> {
    let mut files = samples::pairs(&samples::folder());
    files.extend(samples::pairs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pairs")));
    let folders = std::env::var_os("FRAGSCOPE_TRUTH_DIR").unwrap_or_default();
    let folders = std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty());
    files.extend(folders.flat_map(|folder| samples::pairs(&folder)));
    files
}

pub fn counters_of(path: &Path) -> Value {
    let text = std::fs::read_to_string(samples::counters_of(path)).expect("readable counters");
    serde_json::from_str(&text).expect("counters are JSON")
}

/// What the program asked for on a device.
pub fn asked(snapshot: &Snapshot, id: DeviceId, replay: &Replay) -> RequestStream {
    let memory = &snapshot.devices[id];
    let releases = Releases::of(memory, replay, &snapshot.settings, &snapshot.stacks, &Progress::new()).expect("nobody cancels");
    let caches: Vec<_> = releases.empty_caches().map(|run| run.events.clone()).collect();
    RequestStream::of(snapshot, id, &caches)
}

/// The card of a recording in bytes, as its environment says; memory comes in pages of 2 MiB.
pub fn card(counters: &Value) -> u64 {
    let gib = counters["env"]["FAKE_CUDA_MEM_GB"].as_str().and_then(|text| text.parse::<f64>().ok()).unwrap_or(80.0);
    (gib * GIB) as u64 >> 21 << 21
}

/// What a recording ran with: its file, and what the file does not hold.
pub fn recorded(snapshot: &Snapshot, counters: &Value) -> Recorded {
    let mut settings = snapshot.settings.clone();
    if !settings.stated {
        settings.expandable_segments =
            counters["env"]["PYTORCH_CUDA_ALLOC_CONF"].as_str().is_some_and(|conf| conf.contains("expandable_segments:True"));
    }
    if let Some(fraction) = counters["options"]["fraction"].as_str().and_then(|text| text.parse().ok()) {
        settings.per_process_memory_fraction = Some(fraction);
    }
    Recorded { settings, total: Some(card(counters)) }
}

#[test]
fn the_recorded_settings_reproduce_the_recording() {
    let mut wrong = Vec::new();
    for path in files() {
        let (snapshot, counters) = (samples::open(&path), counters_of(&path));
        for (id, memory) in snapshot.devices.iter().filter(|(_, memory)| memory.has_history() && 0 <= memory.ordinal) {
            let replay = Replay::new(memory);
            let mut asked = asked(&snapshot, id, &replay);
            let found = Fidelity::of(&snapshot, id, &replay, &mut asked, &recorded(&snapshot, &counters), &Progress::new());
            let found = found.expect("nobody cancels").expect("a release");
            let partial = memory.coverage.lacks(Missing::Start);
            println!(
                "{:60} device {} {:>9} of {:>9} {:?} first divergence {:?} {}",
                path.display(),
                memory.ordinal,
                found.placed_as_recorded,
                found.allocations,
                found.rules.tie,
                found.first_divergence,
                if partial { "starts mid-run" } else { "" }
            );
            if !partial && (found.placed_as_recorded != found.allocations || found.first_divergence.is_some()) {
                wrong.push(format!("{}: {found:?}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "recordings not reproduced:\n{}", wrong.join("\n"));
}

fn whatif(arguments: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_fragscope");
    std::process::Command::new(program).arg("whatif").args(arguments).output().expect("the program runs")
}

#[test]
fn the_command_line_says_what_would_be() {
    let file = samples::sample("fragmentation_oom");
    let counters = counters_of(&file);
    let stat = |key: &str| counters["devices"][0]["stats"][key].clone();
    let file = file.to_string_lossy().into_owned();
    let output = whatif(&[&file, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let row = &rows[0];
    for (ours, theirs) in [
        ("peak_reserved", "reserved_bytes.all.peak"),
        ("peak_allocated", "allocated_bytes.all.peak"),
        ("segments_peak", "segment.all.peak"),
        ("retries", "num_alloc_retries"),
        ("device_allocs", "num_device_alloc"),
        ("device_frees", "num_device_free"),
    ] {
        // The sample keeps some of the counters.
        assert!(stat(theirs).is_null() || row[ours] == stat(theirs), "{ours}: {} not {}", row[ours], stat(theirs));
    }
    assert_eq!(row["completed"], false);
    assert_eq!(row["oom"]["requested"], 53_878_272);
    assert_eq!(row["fidelity"]["placed_as_recorded"], row["fidelity"]["allocations"]);
    assert!(row["fidelity"]["first_divergence"].is_null());
    // Its release breaks ties by address.
    let span = &row["range"]["peak_reserved"];
    assert!(span[0].as_u64() <= row["peak_reserved"].as_u64() && row["peak_reserved"].as_u64() <= span[1].as_u64(), "{span}");

    let sets = ["--set", "expandable_segments:True", "--set", "roundup_power2_divisions:[64:8,256:4]", "--capacity", "24GiB"];
    let output = whatif(&[&[file.as_str(), "--json"], &sets[..]].concat());
    let rows: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
    assert_eq!((&rows[0]["segments_peak"], &rows[0]["completed"]), (&Value::from(0), &Value::from(true)));
    assert_eq!(rows[0]["capacity"], 24u64 << 30);
    let output = whatif(&[&[file.as_str()], &sets[..]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let all = fragscope::base::grouped(11_930);
    assert!(text.contains(&format!("{all} of {all} allocations lie where they lay")), "{text}");
    assert!(text.contains("serves what failed"), "{text}");

    let late = samples::sample("late_start").to_string_lossy().into_owned();
    let output = whatif(&[&late, "--set", "expandable_segments:True"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("begins mid-run: every row begins with the segments and blocks that were there"), "{text}");

    for (arguments, sentence) in [
        (vec![file.as_str(), "--set", "colour:blue"], "no setting colour"),
        (vec![file.as_str(), "--set", "max_split_size_mb:1"], "at least"),
        (vec![file.as_str(), "--recorded", "total:much"], "a size like total:80GiB"),
        (vec![file.as_str(), "--device", "7"], "no device 7"),
        (vec![samples::sample("segments_only").to_string_lossy().into_owned().leak()], "no history"),
    ] {
        let output = whatif(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence) && output.stdout.is_empty(), "{arguments:?}: {said}");
    }
}
