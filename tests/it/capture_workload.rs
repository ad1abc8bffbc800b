//! `capture --workload` as a process, over a stand-in for the driver (`tests/capture/driver/stub_cuda.c`): what the logs
//! hold is compared with what the stand-in gave and took.

use crate::capture_driver::compiled;
use fragscope::base::Progress;
use fragscope::capture::workload::WORKLOADS;
use fragscope::format;
use fragscope::model::{Action, DeviceMemory, Position, Snapshot, WarningKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

struct Run {
    folder: tempfile::TempDir,
    built: &'static Path,
}

impl Run {
    fn new() -> Option<Run> {
        Some(Run { folder: tempfile::tempdir().expect("a folder"), built: compiled()? })
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn command(&self, driver: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", self.built.join(driver)).env("STUB_CUDA_TRUTH", self.path("truth"));
        command.env("STUB_CUDA_MIB", "1024").envs(variables.iter().copied());
        command.args(["capture", "--out", "run.fsl"]).args(arguments);
        command
    }
    fn run(&self, arguments: &[&str]) -> Output {
        self.command("new", &[], arguments).output().expect("it runs")
    }
    fn log(&self) -> Snapshot {
        format::open(&self.path("run.fsl"), &Progress::new()).unwrap_or_else(|error| panic!("{error}"))
    }
    /// What the driver gave (+) and took (−), in order.
    fn truth(&self) -> Vec<(u64, i64)> {
        let text = std::fs::read_to_string(self.path("truth")).unwrap_or_default();
        let row = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let (at, size): (u64, i64) = (words[2].parse().expect("a number"), words[3].parse().expect("a number"));
            match words[1] {
                "alloc" | "map" => Some((at, size)),
                "free" | "unmap" => Some((at, -size)),
                _ => None,
            }
        };
        text.lines().filter_map(row).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn memory(snapshot: &Snapshot) -> &DeviceMemory {
    &snapshot.devices.as_slice()[0]
}

/// What a log says of segments, in order.
fn segments(snapshot: &Snapshot) -> Vec<(u64, i64)> {
    let trace = &memory(snapshot).trace;
    let rows = trace.events().map(|event| trace.entry(event));
    rows.filter_map(|entry| match entry.action {
        Action::SegmentAlloc | Action::SegmentMap => Some((entry.address, entry.size as i64)),
        Action::SegmentFree | Action::SegmentUnmap => Some((entry.address, -(entry.size as i64))),
        _ => None,
    })
    .collect()
}

fn assert_sound(snapshot: &Snapshot) {
    for kind in [WarningKind::RecorderTrouble, WarningKind::BadRow, WarningKind::EventsMissed, WarningKind::Truncated] {
        assert_eq!(snapshot.warnings.count(kind), 0, "{:?}", snapshot.warnings);
    }
}

#[test]
fn each_workload_is_served_from_the_device_and_gives_all_back() {
    for workload in WORKLOADS.iter().filter(|workload| workload.name != "fragment") {
        let Some(run) = Run::new() else { return };
        let done = run.run(&["--workload", workload.name, "--share", "50"]);
        assert_eq!(done.status.code(), Some(0), "{}: {}", workload.name, stderr(&done));
        let log = run.log();
        assert_sound(&log);
        assert_eq!(segments(&log), run.truth(), "{}", workload.name);
        assert_eq!(run.truth().iter().map(|(_, size)| size).sum::<i64>(), 0, "{}", workload.name);
        let memory = memory(&log);
        assert!(memory.allocations.ids().all(|id| memory.allocations.get(id).died != Position::NEVER), "{}", workload.name);
        let steps = memory.annotations.iter().filter(|mark| log.stacks.strings.get(mark.name).starts_with("step ")).count();
        assert_eq!(steps, workload.steps as usize, "{}", workload.name);
        // It is no toy: it fills a good part of what it may take, and no more than that.
        let reserved: Vec<i64> = segments(&log)
            .iter()
            .scan(0, |sum, (_, size)| {
                *sum += size;
                Some(*sum)
            })
            .collect();
        let most = *reserved.iter().max().expect("it took memory");
        let budget = (1024 - 64) / 2 * MIB as i64;
        assert!(budget / 2 < most && most <= budget, "{}: {} MiB", workload.name, most / MIB as i64);
        assert_eq!(log.job.fact("source"), Some("workload"));
        assert_eq!(log.job.fact("way"), Some(workload.name));
        assert_eq!(log.job.total(0), Some((64 + 480) * MIB));
        assert!(!log.job.samples.is_empty());
        let stack = memory.allocations.get(memory.allocations.ids().next().expect("a block")).stack;
        let lines: Vec<String> = log.stacks.frames(stack).iter().map(|frame| log.stacks.line(*frame)).collect();
        assert!(lines.last().is_some_and(|line| line.ends_with(workload.name)), "{lines:?}");
        assert!(lines[0].contains("src/capture/workload/"), "{lines:?}");
    }
}

#[test]
fn expandable_segments_are_mapped_on_the_device() {
    let Some(run) = Run::new() else { return };
    let done = run.run(&["--workload", "train-variable", "--set", "expandable_segments:True", "--steps", "15"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = run.log();
    assert_sound(&log);
    assert!(log.settings.expandable_segments);
    assert!(memory(&log).trace.actions().contains(&Action::SegmentMap));
    assert!(!memory(&log).trace.actions().contains(&Action::SegmentAlloc));
    // The device maps granule by granule what the log tells in one row.
    let sum = |rows: &[(u64, i64)], sign: i64| rows.iter().map(|(_, size)| (size * sign).max(0)).sum::<i64>();
    for sign in [1, -1] {
        assert_eq!(sum(&segments(&log), sign), sum(&run.truth(), sign));
    }
    assert_eq!(run.truth().iter().map(|(_, size)| size).sum::<i64>(), 0);
}

#[test]
fn the_worst_case_ends_by_fragmentation() {
    let Some(run) = Run::new() else { return };
    let done = run.run(&["--workload", "fragment", "--share", "50"]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("out of memory: 16.00 MiB were asked for"), "{}", stderr(&done));
    let log = run.log();
    assert_eq!(memory(&log).trace.ooms().len(), 1);
    let truth: i64 = run.truth().iter().map(|(_, size)| size).sum();
    assert_eq!(truth, 0, "a run that fails gives its memory back too");
    let why = Command::new(env!("CARGO_BIN_EXE_fragscope")).args(["why", "--json"]).arg(run.path("run.fsl")).output();
    let why: serde_json::Value = serde_json::from_slice(&why.expect("it runs").stdout).expect("JSON");
    assert_eq!(why[0]["verdict"], "fragmentation", "{why}");
    assert_eq!(why[0]["capacity"], (64 + 480) * MIB, "{why}");
    assert_eq!(why[0]["accounting"]["outside"], 64 * MIB, "{why}");
}

#[test]
fn a_run_that_is_interrupted_gives_all_back() {
    let Some(run) = Run::new() else { return };
    let arguments = ["--workload", "train", "--pace", "20", "--steps", "100000"];
    let mut running = run.command("new", &[], &arguments).stderr(Stdio::piped()).spawn().expect("it runs");
    let began = Instant::now();
    while run.truth().len() < 10 {
        assert!(began.elapsed() < Duration::from_secs(20), "it did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = Command::new("kill").args(["-INT", &running.id().to_string()]).status().expect("kill runs");
    assert!(told.success());
    let status = running.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(run.truth().iter().map(|(_, size)| size).sum::<i64>(), 0);
    let log = run.log();
    assert_sound(&log);
    assert_eq!(log.job.ended.as_ref().map(|end| end.text.as_str()), Some("it was asked to stop"));
}

#[test]
fn what_cannot_be_is_said_in_one_sentence() {
    let Some(run) = Run::new() else { return };
    let train = ["--workload", "train"];
    let mapped = ["--workload", "train", "--set", "expandable_segments:True"];
    for (driver, variables, arguments, said) in [
        ("new", &[("STUB_CUDA_DEVICES", "0")][..], &train[..], "the NVIDIA driver cannot be used: CUDA_ERROR_NO_DEVICE"),
        ("old", &[], &mapped, "is too old for expandable_segments:True: it has no cuMemAddressReserve"),
        ("new", &[("STUB_CUDA_MIB", "200")], &train, "and a workload needs 64.00 MiB"),
        ("new", &[], &["--workload", "train", "--set", "max_split_size_mb:x"], "--set: `x` does not do for max_split_size_mb"),
        ("new", &[], &["--workload", "nobody"], "invalid value 'nobody'"),
    ] {
        let done = run.command(driver, variables, arguments).output().expect("it runs");
        assert_eq!(done.status.code(), Some(2), "{said}: {}", stderr(&done));
        assert!(stderr(&done).contains(said), "{said}: {}", stderr(&done));
        assert!(!stderr(&done).contains("panicked"), "{}", stderr(&done));
        assert!(!run.path("run.fsl").exists());
    }
    if !Path::new("/dev/nvidiactl").exists() {
        let done = run.command("nowhere", &[], &train).output().expect("it runs");
        assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
        assert_eq!(stderr(&done).lines().count(), 1, "{}", stderr(&done));
        assert!(stderr(&done).contains("this machine has no NVIDIA driver (libcuda.so.1 was not found)"), "{}", stderr(&done));
    }
    // A driver that only lacks what is not used will do.
    let done = run.command("old", &[], &["--workload", "train", "--steps", "2"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
}

#[test]
fn a_device_that_is_lost_ends_the_run_and_not_the_log() {
    let Some(run) = Run::new() else { return };
    let done = run.command("new", &[("STUB_CUDA_LOST", "12")], &["--workload", "train"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("CUDA_ERROR_UNKNOWN"), "{}", stderr(&done));
    let log = run.log();
    assert!(memory(&log).trace.ooms().is_empty(), "a lost device is no want of memory");
    assert!(log.job.ended.as_ref().is_some_and(|end| end.text.contains("CUDA_ERROR_UNKNOWN")), "{:?}", log.job.ended);
}

#[test]
fn the_help_names_all_workloads() {
    let help = Command::new(env!("CARGO_BIN_EXE_fragscope")).args(["capture", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(WORKLOADS.iter().all(|workload| help.contains(workload.name)), "{help}");
    assert!(!help.contains("run-here"));
}
