//! Every number against PyTorch's own counters, to the byte.
//!
//! Beside each snapshot `X.pickle.gz` stands `X.json` with what `torch.cuda.memory_stats()` said when it was
//! written. What a file cannot know, because it was not recorded, stands in the tables below with its reason.

use crate::samples;
use fragscope::analysis::Summary;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Recordings that do not cover the whole life of their process: what came before them is not in the file.
const NOT_FROM_THE_START: &[(&str, &str)] = &[
    ("late", "recording began in the middle of the run"),
    ("late_start", "recording began in the middle of the run"),
    ("ring_1000", "only the newest 1000 events were kept"),
    ("stopped", "an earlier recording was cleared"),
    ("enabled_state", "only the state was recorded, with one stray event"),
    ("segments_only", "nothing was recorded"),
];

/// Devices without a recording: name, PyTorch release, ordinal, reason.
const NOT_RECORDED: &[(&str, &str, i32, &str)] = &[("multi_device", "2.0.", 1, "PyTorch 2.0 records one device")];

/// Settings that decide block sizes; before 2.3 the file does not hold them, so sizes that vanished are inferred.
const SIZING_SETTINGS: &[&str] = &["roundup_power2_divisions", "max_split_size_mb"];

#[test]
fn the_samples_agree_with_pytorch() {
    let files = samples::pairs(&samples::folder());
    assert_eq!(files.len(), 8, "samples with counters");
    check_all(&files);
}

/// Set `FRAGSCOPE_TRUTH_DIR` to a folder of such pairs, at any depth, to check them all.
#[test]
fn a_folder_of_snapshots_agrees_with_pytorch() {
    let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of snapshots with their counters");
        return;
    };
    let files = samples::pairs(Path::new(&folder));
    assert!(!files.is_empty(), "no X.pickle.gz with its X.json below {}", folder.display());
    check_all(&files);
}

fn check_all(files: &[std::path::PathBuf]) {
    let mut wrong = String::new();
    for path in files {
        check(path, &mut wrong);
    }
    assert!(wrong.is_empty(), "numbers that differ from PyTorch's, of {} files:\n{wrong}", files.len());
}

fn check(path: &Path, wrong: &mut String) {
    let counters = std::fs::read_to_string(samples::counters_of(path)).expect("readable counters");
    let counters: Value = serde_json::from_str(&counters).expect("counters are JSON");
    let (name, torch) = (samples::stem(path), counters["torch"].as_str().unwrap_or_default().to_owned());
    let snapshot = samples::open(path);
    let mut ooms = Vec::new();
    for (ordinal, device) in (0i32..).zip(counters["devices"].as_array().into_iter().flatten()) {
        let summary = match snapshot.device_of_ordinal(ordinal) {
            Some(id) => samples::prepare(&snapshot, id).2,
            None => Summary::default(),
        };
        let stat = |key: &str| device["stats"][key].as_u64();
        let mut compare = |what: &str, ours: u64, theirs: Option<u64>| {
            // Old releases lack some counters.
            if theirs.is_some_and(|theirs| theirs != ours) {
                let theirs = theirs.unwrap_or_default();
                let off = i128::from(ours) - i128::from(theirs);
                let _ =
                    writeln!(wrong, "{}: device {ordinal}: {what} is {ours}, PyTorch says {theirs} ({off:+})", path.display());
            }
        };
        // An observer writes its file at the failure, the counters are from after it.
        if counters["observer"].is_null() {
            let end = &summary.end;
            compare("reserved at the end", end.totals.reserved, stat("reserved_bytes.all.current"));
            compare("allocated at the end", end.totals.allocated, stat("allocated_bytes.all.current"));
            compare("active at the end", end.totals.active, stat("active_bytes.all.current"));
            compare("requested at the end", end.totals.requested, stat("requested_bytes.all.current"));
            compare("inactive split at the end", end.inactive_split, stat("inactive_split_bytes.all.current"));
        }
        let unrecorded = NOT_RECORDED.iter().any(|(n, t, d, _)| *n == name && torch.starts_with(t) && *d == ordinal);
        if unrecorded || NOT_FROM_THE_START.iter().any(|(partial, _)| *partial == name) {
            continue;
        }
        compare("peak reserved", summary.peak_reserved.bytes, stat("reserved_bytes.all.peak"));
        compare("peak requested", summary.peak_requested.bytes, stat("requested_bytes.all.peak"));
        let sizes_follow = snapshot.settings.stated || !sizing_settings(&counters);
        if sizes_follow {
            compare("peak allocated", summary.peak_allocated.bytes, stat("allocated_bytes.all.peak"));
            compare("peak active", summary.peak_active.bytes, stat("active_bytes.all.peak"));
        }
        compare("number of OOMs", summary.ooms.len() as u64, stat("num_ooms"));
        ooms.extend(summary.ooms.iter().map(|oom| (ordinal, oom.device_free)));
    }
    if let (Some(device), Some(free)) = (counters["observer"]["device"].as_i64(), counters["observer"]["device_free"].as_u64()) {
        let told = i32::try_from(device).map(|device| (device, free));
        if told.map_or(true, |told| ooms.last() != Some(&told)) {
            let _ = writeln!(wrong, "{}: the observer was told {free} bytes are free, the trace holds {ooms:?}", path.display());
        }
    }
}

/// Whether the recording ran with settings that decide block sizes.
fn sizing_settings(counters: &Value) -> bool {
    let conf = counters["env"]["PYTORCH_CUDA_ALLOC_CONF"].as_str().unwrap_or_default();
    SIZING_SETTINGS.iter().any(|setting| conf.contains(setting))
}
