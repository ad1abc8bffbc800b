//! The simulator against recordings of real PyTorch: with the recorded settings it places every allocation where it
//! lay, and from one recording it predicts what other settings of the same job counted.

use crate::samples;
use fragscope::analysis::Releases;
use fragscope::base::Progress;
use fragscope::model::{AllocatorSettings, DeviceId, Missing, Snapshot};
use fragscope::replay::Replay;
use fragscope::simulator::{Fidelity, Recorded, RequestStream, Scenario, conf, simulate};
use serde_json::Value;
use std::path::{Path, PathBuf};

const GIB: f64 = (1u64 << 30) as f64;

/// The samples, and the snapshots of the folder in `FRAGSCOPE_TRUTH_DIR` where there is one.
pub fn files() -> Vec<PathBuf> {
    let mut files = samples::pairs(&samples::folder());
    files.extend(std::env::var_os("FRAGSCOPE_TRUTH_DIR").map(|folder| samples::pairs(Path::new(&folder))).unwrap_or_default());
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

/// The card of a recording in bytes, as its environment says.
pub fn card(counters: &Value) -> u64 {
    let gib = counters["env"]["FAKE_CUDA_MEM_GB"].as_str().and_then(|text| text.parse::<f64>().ok()).unwrap_or(80.0);
    (gib * GIB) as u64
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

/// How the members of a family are called behind its name, and whose recording predicts them.
const MEMBERS: [&str; 7] = ["expandable", "maxsplit128", "roundup8", "rounduplist", "gc08", "maxsplit_gc", "default_fraction"];
const FAMILIES: [&str; 6] = ["train", "train_tight", "frag_oom", "oom_live", "trimmed", "graphs"];
/// What the driver's context takes of the card.
const CONTEXT: u64 = 512 << 20;

/// From the recording under default settings alone: what PyTorch counted for the same job under others. A recording
/// that ends before the other job did cannot tell; everything else is exact.
#[test]
fn one_recording_predicts_the_other_settings() {
    let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of families");
        return;
    };
    let files = samples::pairs(Path::new(&folder));
    let (mut exact, mut beyond, mut wrong) = (0, 0, Vec::new());
    for path in &files {
        let stem = samples::stem(path);
        let split = FAMILIES.iter().flat_map(|family| MEMBERS.map(|member| (*family, member)));
        let Some((family, member)) = split.into_iter().find(|(family, member)| stem == format!("{family}_{member}")) else {
            continue;
        };
        let counters = counters_of(path);
        let fraction = counters["options"]["fraction"].is_string() && member != "default_fraction";
        let bases =
            [fraction.then(|| format!("{family}_default_fraction")), Some(format!("{family}_default")), Some(family.into())];
        let beside = |name: String| Some(path.with_file_name(format!("{name}.pickle.gz"))).filter(|path| path.is_file());
        let Some(base) = bases.into_iter().flatten().find_map(beside) else { continue };
        let row = predict(&base, &counters);
        let name = format!("{}/{stem}", counters["torch"].as_str().unwrap_or_default());
        println!("{name:40} {}", row.shown);
        match row.verdict {
            Verdict::Exact => exact += 1,
            Verdict::Beyond => beyond += 1,
            Verdict::Wrong => wrong.push(format!("{name} {}", row.shown)),
        }
    }
    println!("{exact} exact, {beyond} beyond what was recorded, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "predictions that are not what PyTorch counted:\n{}", wrong.join("\n"));
}

enum Verdict {
    Exact,
    /// The recording fails where the other job went on.
    Beyond,
    Wrong,
}

struct Row {
    shown: String,
    verdict: Verdict,
}

fn predict(base: &Path, member: &Value) -> Row {
    let (snapshot, of_base) = (samples::open(base), counters_of(base));
    let id = snapshot.busiest_device().expect("a device");
    let replay = Replay::new(&snapshot.devices[id]);
    let mut asked = asked(&snapshot, id, &replay);
    let progress = Progress::new();
    let found = Fidelity::of(&snapshot, id, &replay, &mut asked, &recorded(&snapshot, &of_base), &progress);
    let rules = found.expect("nobody cancels").expect("a release").rules;
    let mut settings = AllocatorSettings::default();
    let conf = member["env"]["PYTORCH_CUDA_ALLOC_CONF"].as_str().unwrap_or_default();
    conf::read(&mut settings, conf, &snapshot.origin).expect("settings PyTorch ran with");
    settings.per_process_memory_fraction = member["options"]["fraction"].as_str().and_then(|text| text.parse().ok());
    let total = card(member);
    let scenario = Scenario { capacity: Some(total - CONTEXT), total: Some(total), ..Scenario::new(settings, rules) };
    let outcome = simulate(&asked, &scenario, &progress).expect("nobody cancels");
    let counted = outcome.counters;
    let figures = [
        ("reserved", counted.reserved.peak, "reserved_bytes.all.peak"),
        ("allocated", counted.allocated.peak, "allocated_bytes.all.peak"),
        ("requested", counted.requested.peak, "requested_bytes.all.peak"),
        ("segments", counted.segments.peak, "segment.all.peak"),
        ("retries", counted.retries, "num_alloc_retries"),
        ("ooms", counted.ooms, "num_ooms"),
        ("device allocs", counted.device_allocs, "num_device_alloc"),
        ("device frees", counted.device_frees, "num_device_free"),
    ];
    let mut shown = String::new();
    let mut same = true;
    for (name, ours, key) in figures {
        let theirs = member["devices"][0]["stats"][key].as_u64();
        // Old releases lack some counters.
        let differs = theirs.is_some_and(|theirs| theirs != ours);
        same &= !differs;
        shown += &if differs { format!("{name} {ours} not {} ", theirs.unwrap_or_default()) } else { format!("{name} {ours} ") };
    }
    // The other job went on behind the failure that ends this recording.
    let recorded_failure = snapshot.devices[id].trace.ooms().first();
    let went_on = outcome.served_instead.is_some()
        || (recorded_failure.is_some() && outcome.failure.map(|failure| failure.event) == recorded_failure.copied());
    let verdict = match (same, went_on) {
        (true, _) => Verdict::Exact,
        (false, true) => Verdict::Beyond,
        (false, false) => Verdict::Wrong,
    };
    let word = match verdict {
        Verdict::Exact => "exact",
        Verdict::Beyond => "beyond the recording",
        Verdict::Wrong => "WRONG",
    };
    Row { shown: format!("{word}: {shown}"), verdict }
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
    assert!(row["fidelity"]["first_divergence"].is_null() && row["range"].is_null());

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
        (vec![file.as_str(), "--recorded", "total:much"], "a size is written"),
        (vec![file.as_str(), "--device", "7"], "no device 7"),
        (vec![samples::sample("segments_only").to_string_lossy().into_owned().leak()], "no history"),
    ] {
        let output = whatif(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence) && output.stdout.is_empty(), "{arguments:?}: {said}");
    }
}
