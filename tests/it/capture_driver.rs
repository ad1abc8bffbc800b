//! `capture --source driver` as a process, around a small program (`tests/capture/driver/job.c`) and a stand-in for the
//! driver (`stub_cuda.c`) that are compiled here: what the logs hold is compared with what the stand-in wrote down.

use fragscope::base::Progress;
use fragscope::format;
use fragscope::model::{Action, Missing, Position, Snapshot, WarningKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const MIB: u64 = 1 << 20;

/// The stand-ins and programs, compiled once: in `new/` and `old/` the drivers.
pub fn compiled() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) || Command::new("cc").arg("--version").output().is_err() {
            eprintln!("no C compiler, or not Linux on x86-64: the driver's logger is not tried");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capture/driver");
        let cc = |arguments: &[&str], source: &str, out: &str| {
            let mut command = Command::new("cc");
            command.current_dir(folder.path()).args(["-w", "-O1", "-rdynamic", "-o", out]).arg(sources.join(source));
            let done = command.args(arguments).args(["-lpthread", "-ldl"]).output().expect("cc runs");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        for (name, more) in [("new", "-DNEW"), ("old", "-DOLD")] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
            let library = format!("{name}/libcuda.so.1");
            cc(&["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", more], "stub_cuda.c", &library);
            // Who looks for a driver tries this name first.
            std::fs::copy(folder.path().join(&library), folder.path().join(name).join("libcuda.so")).expect("a file");
            cc(&["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"], "stub_nvml.c", &format!("{name}/libnvidia-ml.so.1"));
            std::fs::copy(folder.path().join(name).join("libnvidia-ml.so.1"), folder.path().join(name).join("libnvidia-ml.so"))
                .expect("a file");
        }
        cc(&[], "job.c", "job");
        cc(&["-DLINKED", "-Lnew", "-l:libcuda.so.1"], "job.c", "linked");
        Some(folder)
    });
    built.as_ref().map(tempfile::TempDir::path)
}

struct Job {
    folder: tempfile::TempDir,
    built: &'static Path,
    variables: Vec<(&'static str, String)>,
}

impl Job {
    fn new() -> Option<Job> {
        Some(Job { folder: tempfile::tempdir().expect("a folder"), built: compiled()?, variables: Vec::new() })
    }
    fn with(mut self, name: &'static str, value: &str) -> Job {
        self.variables.push((name, value.to_owned()));
        self
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn capture_on(&self, driver: &str, options: &[&str], how: &str, what: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", self.built.join(driver)).env("STUB_CUDA_TRUTH", self.path("truth"));
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        command.args(["capture", "--source", "driver", "--out", "job.fsl"]).args(options).arg("--");
        command.arg(self.built.join(if how == "linked" { "linked" } else { "job" })).args([how, what]);
        command.output().expect("the program runs")
    }
    fn capture(&self, how: &str, what: &str) -> Output {
        self.capture_on("new", &[], how, what)
    }
    fn log(&self) -> Snapshot {
        open(&self.path("job.fsl"))
    }
    /// What the driver wrote down of giving and taking: whether it gave, where, how much. Host memory is told apart.
    fn truth(&self, wanted: &[(&str, bool)]) -> Vec<(bool, u64, u64)> {
        let text = std::fs::read_to_string(self.path("truth")).unwrap_or_default();
        let row = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let gave = wanted.iter().find(|(word, _)| *word == words[1])?.1;
            Some((gave, words[2].parse().expect("a number"), words[3].parse().expect("a number")))
        };
        text.lines().filter_map(row).collect()
    }
}

fn open(path: &Path) -> Snapshot {
    format::open(path, &Progress::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn device(snapshot: &Snapshot, ordinal: i32) -> &fragscope::model::DeviceMemory {
    snapshot.devices.as_slice().iter().find(|device| device.ordinal == ordinal).expect("the device")
}

/// What a log says of blocks: given or taken, where, how much.
fn told(snapshot: &Snapshot, ordinal: i32) -> Vec<(bool, u64, u64)> {
    let trace = &device(snapshot, ordinal).trace;
    let rows = trace.events().map(|event| trace.entry(event));
    rows.filter_map(|entry| match entry.action {
        Action::Alloc => Some((true, entry.address, entry.size)),
        Action::FreeCompleted => Some((false, entry.address, entry.size)),
        _ => None,
    })
    .collect()
}

const DEVICE: [(&str, bool); 4] = [("alloc", true), ("free", false), ("map", true), ("unmap", false)];

fn assert_sound(snapshot: &Snapshot) {
    for kind in [WarningKind::RecorderTrouble, WarningKind::BadRow, WarningKind::EventsMissed, WarningKind::Truncated] {
        assert_eq!(snapshot.warnings.count(kind), 0, "{:?}", snapshot.warnings);
    }
}

#[test]
fn every_way_to_find_the_driver_is_logged() {
    for how in ["linked", "dlsym", "default", "proc1", "proc2"] {
        let Some(job) = Job::new() else { return };
        let done = job.capture(how, "all");
        assert_eq!(done.status.code(), Some(0), "{how}: {}", stderr(&done));
        assert_eq!(String::from_utf8_lossy(&done.stdout), "done all\n", "standard output is the job's");
        let log = job.log();
        assert_sound(&log);
        // A range of several maps is given back in one call, and their order says nothing.
        let sorted = |mut rows: Vec<(bool, u64, u64)>| {
            let end = rows.len().saturating_sub(2);
            rows[end..].sort_unstable();
            rows
        };
        assert_eq!(sorted(told(&log, 0)), sorted(job.truth(&DEVICE)), "{how}");
        let pinned: Vec<_> = told(&log, -1).iter().map(|(gave, at, _)| (*gave, *at)).collect();
        let truth = job.truth(&[("pin", true), ("unpin", false)]);
        assert_eq!(pinned, truth.iter().map(|(gave, at, _)| (*gave, *at)).collect::<Vec<_>>(), "{how}");
        assert_eq!(log.job.fact("source"), Some("driver"));
        assert_eq!(log.job.fact("cuda"), Some("12.4"));
        assert_eq!(log.job.devices[0].name, "Stub Card 0");
        assert_eq!(log.job.total(0), Some(256 * MIB));
        assert_eq!(log.job.ended.as_ref().map(|end| (end.code, end.text.as_str())), Some((Some(0), "")));
        assert!(!log.job.samples.is_empty());
        assert!(log.devices.as_slice().iter().all(|device| !device.coverage.lacks(Missing::End)), "its end is known");
        let memory = device(&log, 0);
        assert_eq!(memory.annotations.iter().filter(|mark| log.stacks.strings.get(mark.name).starts_with("pool ")).count(), 3);
        let actions = memory.trace.actions();
        assert!(actions.contains(&Action::SegmentMap) && actions.contains(&Action::SegmentUnmap));
        // The innermost frame is the driver's function, the next is who called it.
        let stack = memory.trace.stacks()[0];
        let lines: Vec<String> = log.stacks.frames(stack).iter().map(|frame| log.stacks.line(*frame)).collect();
        assert!(lines[0].contains("libcuda.so.1") && lines[0].ends_with("cuMemAlloc_v2"), "{lines:?}");
        assert!(lines[1].ends_with("take_memory"), "{how}: {lines:?}");
        assert!(lines.iter().any(|line| line.ends_with(" main")), "{lines:?}");
    }
}

#[test]
fn what_is_about_pytorch_alone_is_refused() {
    let Some(job) = Job::new() else { return };
    let done = job.capture_on("new", &["--ring"], "dlsym", "all");
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("--ring is about PyTorch's own history"), "{}", stderr(&done));
}

#[test]
fn a_program_that_never_asks_leaves_no_log() {
    let Some(job) = Job::new() else { return };
    let done = job.capture("dlsym", "nothing");
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("nothing was recorded: no process of the job asked the CUDA driver"), "{}", stderr(&done));
    assert!(!job.path("job.fsl").exists());
}

#[test]
fn what_the_driver_lacks_stays_lacking() {
    let Some(job) = Job::new() else { return };
    for how in ["dlsym", "default"] {
        let done = job.capture_on("old", &["--stacks", "none"], how, "old");
        assert_eq!(done.status.code(), Some(0), "{how}: {}", stderr(&done));
        let log = job.log();
        assert_sound(&log);
        assert_eq!(told(&log, 0), job.truth(&DEVICE));
        assert!(device(&log, 0).trace.stacks().iter().all(|stack| log.stacks.frames(*stack).is_empty()));
        std::fs::remove_file(job.path("job.fsl")).expect("a file");
        std::fs::remove_file(job.path("truth")).expect("a file");
    }
    let Some(job) = Job::new() else { return };
    let done = job.capture_on("nowhere", &[], "dlsym", "all");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("no driver") && stderr(&done).contains("the job failed"), "{}", stderr(&done));
}

#[test]
fn running_out_of_memory_is_recorded_with_the_state_at_it() {
    let Some(job) = Job::new() else { return };
    let job = job.with("STUB_CUDA_MIB", "512").with("STUB_CUDA_OTHERS", "100");
    let done = job.capture("proc2", "oom");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = job.log();
    let memory = device(&log, 0);
    let ooms = memory.trace.ooms();
    assert_eq!(ooms.len(), 1, "{:?}", log.warnings);
    let oom = memory.trace.entry(ooms[0]);
    // 512 MiB less 100 of others and 64 of the context hold 17 blocks of 20 MiB; 8 MiB are left.
    assert_eq!((oom.size, oom.address), (20 * MIB, 8 * MIB));
    let at = Position::after(ooms[0]);
    let live = memory.allocations.ids().map(|id| memory.allocations.get(id)).filter(|life| life.born <= at && at < life.died);
    assert_eq!(live.map(|life| life.size).sum::<u64>(), 17 * 20 * MIB);
    // The driver's own figures, taken at the failure; NVML's stand among them.
    assert!(log.job.samples.iter().any(|s| (s.total, s.free) == (Some(512 * MIB), Some(8 * MIB))), "{:?}", log.job.samples);
    let why = Command::new(env!("CARGO_BIN_EXE_fragscope")).args(["why", "--json"]).arg(job.path("job.fsl")).output();
    let why = String::from_utf8(why.expect("it runs").stdout).expect("JSON is text");
    let why: serde_json::Value = serde_json::from_str(&why).expect("JSON");
    assert_eq!(why[0]["verdict"], "live", "{why}");
    assert_eq!(why[0]["capacity"], 512 * MIB, "{why}");
    assert_eq!(why[0]["accounting"]["outside"], 164 * MIB, "{why}");
    assert_eq!(why[0]["accounting"]["device_free"], 8 * MIB, "{why}");
}

#[test]
fn a_lost_device_is_noted_and_the_program_goes_on() {
    let Some(job) = Job::new() else { return };
    let job = job.with("STUB_CUDA_LOST", "5");
    let done = job.capture("dlsym", "lost");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "answered 999\ndone lost\n");
    let log = job.log();
    assert_eq!(told(&log, 0).len(), 5);
    assert_eq!(log.warnings.count(WarningKind::RecorderTrouble), 1, "{:?}", log.warnings);
    assert!(format!("{:?}", log.warnings).contains("cuMemAlloc_v2 answered 999 (CUDA_ERROR_UNKNOWN)"), "{:?}", log.warnings);
}

#[test]
fn threads_forks_kills_and_exits_leave_whole_logs() {
    let Some(job) = Job::new() else { return };
    let done = job.capture("dlsym", "threads");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = job.log();
    assert_sound(&log);
    assert_eq!(told(&log, 0).len(), 4 * 200 * 2);
    assert!(device(&log, 0).allocations.ids().all(|id| device(&log, 0).allocations.get(id).died != Position::NEVER));

    let Some(job) = Job::new() else { return };
    let done = job.capture("dlsym", "fork");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let logs = fragscope::capture::logs::of(&job.path("job.fsl"));
    assert_eq!(logs.len(), 2, "{logs:?}");
    let mut sizes: Vec<Vec<u64>> = logs
        .iter()
        .map(|path| {
            let log = open(path);
            assert_sound(&log);
            told(&log, 0).iter().map(|(_, _, size)| *size / MIB).collect()
        })
        .collect();
    sizes.sort();
    assert_eq!(sizes, [vec![3; 4], vec![5; 2]]);

    for (what, code, signal, exit) in [("killed", None, Some(9), 1), ("leaves", Some(3), None, 1)] {
        let Some(job) = Job::new() else { return };
        let done = job.capture("proc1", what);
        assert_eq!(done.status.code(), Some(exit), "{}", stderr(&done));
        let log = job.log();
        assert_sound(&log);
        let end = log.job.ended.clone().expect("somebody saw it end");
        assert_eq!((end.code, end.signal), (code, signal), "{what}");
        assert_eq!(told(&log, 0), job.truth(&DEVICE), "{what}");
    }

    let Some(job) = Job::new() else { return };
    let done = job.capture("linked", "context");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = job.log();
    assert_eq!(told(&log, 0).len(), 2, "what a context held goes with it");
    assert_eq!(log.job.ended.as_ref().map(|end| end.text.as_str()), Some(""));
}

#[test]
fn what_the_cards_hold_is_written_down_and_explained() {
    let Some(job) = Job::new() else { return };
    let job = job.with("STUB_NVML_PROCESSES", "1:30,2:?").with("STUB_NVML_USED", "150");
    let done = job.capture("dlsym", "slow");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = job.log();
    assert_sound(&log);
    let whole = |used: u64| log.job.samples.iter().filter(|s| s.process.is_none() && s.used == Some(used)).count();
    assert!(0 < whole(74 * MIB), "from inside: a context and a block of 10 MiB: {:?}", log.job.samples);
    assert!(1 < whole(150 * MIB), "from outside: {:?}", log.job.samples);
    let of = |process: u32| log.job.samples.iter().find(|s| s.process == Some(process)).expect("it is on the card").used;
    assert_eq!((of(1), of(2)), (Some(30 * MIB), None));
    let memory = device(&log, 0);
    let found = fragscope::analysis::DeviceUse::of(&log.job, memory);
    assert_eq!(found.peak(), Some(150 * MIB));
    let sentence = found.sentence(memory.end(), 10 * MIB).expect("somebody looked");
    assert!(sentence.contains("30.00 MiB of 1 other process"), "{sentence}");
}

#[test]
fn the_cards_and_who_is_on_them_are_listed() {
    let Some(job) = Job::new() else { return };
    let list = |folder: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
        command.env("LD_LIBRARY_PATH", job.built.join(folder)).envs(variables.iter().copied());
        command.args(["capture", "--gpus"]).output().expect("it runs")
    };
    let two = list("new", &[("STUB_CUDA_DEVICES", "2"), ("STUB_NVML_PROCESSES", "77:30,78:?")]);
    assert_eq!(two.status.code(), Some(0), "{}", stderr(&two));
    let text = String::from_utf8_lossy(&two.stdout).into_owned();
    for line in ["0  Stub Card 0  200.00 MiB of 256.00 MiB in use", "   process 77  30.00 MiB", "   process 78  not told"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let lost = list("new", &[("STUB_NVML_ANSWER", "15")]);
    assert_eq!(lost.status.code(), Some(2));
    assert_eq!(stderr(&lost).lines().count(), 1, "{}", stderr(&lost));
    assert!(stderr(&lost).contains("what is on the cards cannot be told"), "{}", stderr(&lost));
    if !Path::new("/dev/nvidiactl").exists() {
        let none = list("nowhere", &[]);
        assert_eq!(none.status.code(), Some(2));
        assert!(stderr(&none).contains("this machine has no NVIDIA driver"), "{}", stderr(&none));
    }
}

#[test]
fn a_log_that_cannot_be_written_is_said_and_the_job_goes_on() {
    let Some(job) = Job::new() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.current_dir(job.folder.path()).stdin(Stdio::null()).env("LD_LIBRARY_PATH", job.built.join("new"));
    command.args(["capture", "--source", "driver", "--out", "nowhere/job.fsl", "--"]);
    let done = command.arg(job.built.join("job")).args(["dlsym", "all"]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "done all\n");
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
}
