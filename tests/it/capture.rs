//! `capture` and `attach` as processes, around jobs that use a stand-in for PyTorch (`tests/capture/`), so that they run
//! wherever there is a Python: what the logs hold is compared with what the stand-in itself wrote down.

use fragscope::base::Progress;
use fragscope::capture::logs;
use fragscope::format;
use fragscope::model::{Action, Snapshot, WarningKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The folder of the stand-in and its job.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capture")
}

struct Job {
    folder: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Job {
    fn new() -> Job {
        let folder = tempfile::tempdir().expect("a folder");
        let truth = folder.path().join("truth");
        let environment = vec![
            ("PYTHONPATH", here().display().to_string()),
            ("FAKE_TRUTH", truth.display().to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ];
        Job { folder, environment }
    }
    fn with(mut self, name: &'static str, value: &str) -> Job {
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.to_owned()));
        self
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null()).env_remove("RANK").env_remove("WORLD_SIZE");
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }
    fn capture(&self, options: &[&str], job: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_fragscope"));
        command.args(["capture", "--out", "job.fsl"]).args(options).args(["--", "python3"]);
        command.arg(here().join("job.py")).args(job).output().expect("the program runs")
    }
    fn log(&self) -> Snapshot {
        open(&self.path("job.fsl"))
    }
    fn truth(&self) -> Snapshot {
        open(&self.path("truth.main"))
    }
}

fn open(path: &Path) -> Snapshot {
    format::open(path, &Progress::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every event and every life of the log is that of the truth.
fn assert_same(log: &Snapshot, truth: &Snapshot) {
    let (a, b) = (&log.devices.as_slice()[0], &truth.devices.as_slice()[0]);
    assert_eq!(a.trace.len(), b.trace.len(), "{:?}", log.warnings);
    assert_eq!(a.trace.actions(), b.trace.actions());
    assert_eq!(a.trace.addresses(), b.trace.addresses());
    assert_eq!(a.trace.sizes(), b.trace.sizes());
    assert_eq!(a.trace.time_span_us(), b.trace.time_span_us());
    assert_eq!(a.allocations.sizes(), b.allocations.sizes());
    assert_eq!(a.allocations.died(), b.allocations.died());
    let lines = |snapshot: &Snapshot, row: usize| -> Vec<String> {
        let stack = snapshot.devices.as_slice()[0].trace.stacks()[row];
        snapshot.stacks.frames(stack).iter().map(|frame| snapshot.stacks.line(*frame)).collect()
    };
    for row in (0..a.trace.len()).step_by(7) {
        assert_eq!(lines(log, row), lines(truth, row), "event {row}");
    }
    let missed = log.warnings.count(WarningKind::EventsMissed) + log.warnings.count(WarningKind::RecorderTrouble);
    assert_eq!(missed, 0, "{:?}", log.warnings);
}

#[test]
fn a_job_is_recorded_whole_with_python() {
    let job = Job::new();
    let done = job.capture(&["--set", "expandable_segments:False"], &["train", "300"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "done train\n", "standard output is the job's");
    assert!(stderr(&done).contains("job.fsl ("), "{}", stderr(&done));
    let log = job.log();
    assert_same(&log, &job.truth());
    assert_eq!(log.settings.conf, "expandable_segments:False");
    assert_eq!(log.job.fact("way"), Some("ring"));
    assert_eq!(log.job.total(0), Some(2 << 30));
    assert_eq!(log.job.ended.as_ref().and_then(|end| end.code), Some(0));
    assert!(!job.path("job.fsl.error").exists());
    let again = job.capture(&[], &["train", "3"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("is there already"), "{}", stderr(&again));
}

#[test]
fn a_small_ring_is_followed_with_python() {
    for old in [false, true] {
        let job = if old { Job::new().with("FAKE_TORCH", "2.1") } else { Job::new() };
        let done = job.capture(&["--max-entries", "2000", "--interval", "20"], &["slow", "500"]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        let log = job.log();
        assert!(10_000 < log.devices.as_slice()[0].trace.len());
        assert_eq!(log.devices.as_slice()[0].trace.has_times(), !old);
        assert_same(&log, &job.truth());
    }
}

#[test]
fn what_a_ring_lost_is_said_and_mended_with_python() {
    let job = Job::new();
    let done = job.capture(&["--max-entries", "100", "--interval", "500"], &["train", "3000"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let (log, truth) = (job.log(), job.truth());
    assert!(0 < log.warnings.count(WarningKind::EventsMissed));
    assert!(!log.job.missed.is_empty());
    let (a, b) = (&log.devices.as_slice()[0], &truth.devices.as_slice()[0]);
    assert!(a.trace.len() < b.trace.len());
    let live = |snapshot: &Snapshot| -> Vec<(u64, u64)> {
        let device = &snapshot.devices.as_slice()[0];
        let mut live: Vec<_> = device
            .allocations
            .ids()
            .map(|id| device.allocations.get(id))
            .filter(|l| device.end() < l.died)
            .map(|l| (l.address, l.size))
            .collect();
        live.sort_unstable();
        live
    };
    assert_eq!(live(&log), live(&truth), "the end is the allocator's");
    assert_eq!(log.warnings.count(WarningKind::AlreadyLive), 0, "{:?}", log.warnings);
    assert_eq!(log.warnings.count(WarningKind::FreeWithoutAlloc), 0, "{:?}", log.warnings);
}

#[test]
fn a_failure_is_kept_as_it_was_with_python() {
    let job = Job::new();
    let done = job.capture(&[], &["oom", "50"]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("the job failed: exit status: 3"), "{}", stderr(&done));
    let (log, truth, failure) = (job.log(), job.truth(), open(&job.path("job.oom1.pickle")));
    assert_same(&log, &truth);
    assert_eq!(log.job.ended.as_ref().and_then(|end| end.code), Some(3));
    let at = log.devices.as_slice()[0].trace.ooms()[0].0 as usize;
    let then = &failure.devices.as_slice()[0];
    assert_eq!(then.trace.actions().last(), Some(&Action::Oom), "the snapshot ends in the failure");
    assert_eq!(then.trace.len(), at + 1);
    let live = then.allocations.died().iter().filter(|died| then.end() < **died).count();
    assert_eq!(live, 10, "nothing was given back yet");
    assert!(log.job.saved.iter().any(|(reason, _)| reason.starts_with("out of memory")));
    assert_eq!(log.job.samples.len(), 1);
}

#[test]
fn a_killed_job_leaves_what_was_logged_with_python() {
    let job = Job::new();
    let done = job.capture(&["--interval", "20"], &["kill", "100"]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let log = job.log();
    assert_eq!(log.job.ended.as_ref().and_then(|end| end.signal), Some(9));
    assert_eq!(log.devices.as_slice()[0].trace.len(), 1 + 10 + 100 * 30, "all of it came before the half second of rest");
    assert_eq!(log.warnings.count(WarningKind::Truncated), 0);
}

#[test]
fn ranks_write_a_log_each_with_python() {
    let job = Job::new();
    let done = job.capture(&[], &["ranks", "40"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let names: Vec<_> = logs::of(&job.path("job.fsl")).iter().map(|path| path.file_name().map(|n| n.to_owned())).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for rank in 0..2 {
        let log = open(&job.path(&format!("job.rank{rank}.fsl")));
        assert_eq!(log.job.fact("rank"), Some(rank.to_string().as_str()));
        assert_same(&log, &open(&job.path(&format!("truth.{rank}"))));
    }
}

#[test]
fn a_fork_is_the_parents_recording_with_python() {
    let job = Job::new();
    let done = job.capture(&[], &["fork", "40"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_same(&job.log(), &job.truth());
}

#[test]
fn a_programs_own_history_stays_within_ours_with_python() {
    let job = Job::new();
    let done = job.capture(&[], &["history", "30"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let log = job.log();
    assert_eq!(log.devices.as_slice()[0].trace.len(), 2 + 30 + 3 * 30 * 30 - 1);
}

#[test]
fn a_recording_that_comes_late_begins_with_a_state_with_python() {
    let job = Job::new();
    let written =
        job.command(env!("CARGO_BIN_EXE_fragscope")).args(["capture", "--write-recorder", "by-hand"]).output().expect("it runs");
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    let job = job.with("RECORDER", "by-hand").with("LOG", "job.fsl");
    let done = job.command("python3").arg(here().join("job.py")).args(["late", "30"]).output().expect("it runs");
    assert!(done.status.success(), "{}", stderr(&done));
    let (log, truth) = (job.log(), job.truth());
    let device = &log.devices.as_slice()[0];
    assert_eq!(device.trace.actions(), truth.devices.as_slice()[0].trace.actions(), "{:?}", log.warnings);
    assert_eq!(device.allocations.born_by(fragscope::model::Position::START), 10);
    assert_eq!(device.segments.len(), 1);
}

#[test]
fn a_full_disk_ends_the_log_and_not_the_job_with_python() {
    let job = Job::new();
    let script = format!(
        "ulimit -f 100; exec {} capture --out job.fsl --interval 20 -- python3 {} slow 600",
        env!("CARGO_BIN_EXE_fragscope"),
        here().join("job.py").display()
    );
    let done = job.command("bash").args(["-c", &script]).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "done slow\n", "{}", stderr(&done));
    let log = job.log();
    let events = log.devices.as_slice()[0].trace.len();
    assert!(100 < events && events < 1 + 10 + 600 * 30, "{events} events");
    assert_eq!(log.warnings.count(WarningKind::Truncated), 0, "what did not fit was taken back");
    assert_eq!(log.warnings.count(WarningKind::BadRow), 0);
}

#[test]
fn what_cannot_be_recorded_is_said_with_python() {
    let job = Job::new();
    let plain = job.capture(&[], &["plain"]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(stderr(&plain).contains("nothing was recorded"), "{}", stderr(&plain));
    let absent =
        job.command(env!("CARGO_BIN_EXE_fragscope")).args(["capture", "--", "/no/such/program"]).output().expect("it runs");
    assert_eq!(absent.status.code(), Some(2));
    assert!(stderr(&absent).contains("cannot start /no/such/program"), "{}", stderr(&absent));
    let nowhere = job
        .command(env!("CARGO_BIN_EXE_fragscope"))
        .args(["capture", "--out", "/no/such/folder/x.fsl", "--", "python3"])
        .arg(here().join("job.py"))
        .args(["train", "3"])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&nowhere.stdout), "done train\n", "the job goes on: {}", stderr(&nowhere));
}

#[test]
fn the_users_own_sitecustomize_runs_with_python() {
    let job = Job::new();
    let own = job.path("own");
    std::fs::create_dir(&own).expect("a folder");
    std::fs::write(own.join("sitecustomize.py"), "import sys\nsys.stdout.write('own site\\n')\n").expect("a file");
    let path = format!("{}:{}", own.display(), here().display());
    let job = job.with("PYTHONPATH", &path);
    let done = job.capture(&[], &["train", "5"]);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "own site\ndone train\n", "{}", stderr(&done));
    assert_same(&job.log(), &job.truth());
}

/// A pipe that is read slowly, and one that nobody reads: the job goes on.
#[test]
fn a_slow_pipe_does_not_stop_the_job_with_python() {
    let job = Job::new();
    assert!(job.command("mkfifo").arg("job.fsl").status().expect("mkfifo runs").success());
    let unread = job.capture(&[], &["train", "30"]);
    assert_eq!(String::from_utf8_lossy(&unread.stdout), "done train\n", "{}", stderr(&unread));
    assert!(stderr(&unread).contains("the log cannot be begun"), "{}", stderr(&unread));
    let mut reader = job
        .command("bash")
        .args(["-c", "exec 3<>job.fsl; sleep 1.5; timeout 3 cat <&3 >read.fsl; true"])
        .spawn()
        .expect("bash runs");
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let slow = job.capture(&["--interval", "20"], &["slow", "300"]);
    assert_eq!(String::from_utf8_lossy(&slow.stdout), "done slow\n", "{}", stderr(&slow));
    assert!(began.elapsed() < Duration::from_secs(20));
    reader.wait().expect("it ends");
    let read = open(&job.path("read.fsl"));
    assert!(!read.devices.as_slice()[0].trace.is_empty());
}

#[test]
fn attaching_says_where_it_cannot_with_python() {
    let job = Job::new();
    let attach = |arguments: &[&str]| {
        job.command(env!("CARGO_BIN_EXE_fragscope")).arg("attach").args(arguments).output().expect("it runs")
    };
    let nobody = attach(&["4194000"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(stderr(&nobody).contains("there is no process 4194000"), "{}", stderr(&nobody));
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let other = attach(&[&sleeper.id().to_string()]);
    assert!(stderr(&other).contains("does not answer like Python"), "{}", stderr(&other));
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
    let old = job.path("old-python");
    stand_in(&old, "echo 3.11.7 False");
    let older = attach(&[&std::process::id().to_string(), "--python", &old.display().to_string()]);
    assert!(stderr(&older).contains("runs Python 3.11.7, and only Python 3.14"), "{}", stderr(&older));
    let refusing = job.path("refusing-python");
    stand_in(&refusing, "case \"$4\" in *print*) echo 3.14.0 True;; *) echo 'PermissionError: not yours' >&2; exit 1;; esac");
    let refused = attach(&[&std::process::id().to_string(), "--python", &refusing.display().to_string()]);
    assert!(stderr(&refused).contains("did not take the recorder: PermissionError: not yours"), "{}", stderr(&refused));
}

/// A stand-in for Python 3.14 puts the file down where the job looks for it.
#[test]
fn a_running_job_is_attached_to_with_python() {
    let job = Job::new();
    let place = job.path("handed-over.py");
    let mut running =
        job.command("python3").arg(here().join("job.py")).args(["wait", "100"]).arg(&place).spawn().expect("python3 runs");
    let python = job.path("python");
    let hand_over = format!(
        "case \"$4\" in *print*) echo 3.14.0 True;; *) p=${{4#*\\\"}}; p=${{p%\\\"*}}; cp \"$p\" {0}.part; mv {0}.part {0};; esac",
        place.display()
    );
    stand_in(&python, &hand_over);
    let attached = job
        .command(env!("CARGO_BIN_EXE_fragscope"))
        .args(["attach", &running.id().to_string(), "--out", "job.fsl", "--python"])
        .arg(&python)
        .output()
        .expect("it runs");
    assert!(running.wait().expect("it ends").success());
    assert_eq!(attached.status.code(), Some(0), "{}", stderr(&attached));
    let (log, truth) = (job.log(), job.truth());
    assert_eq!(log.devices.as_slice()[0].trace.actions(), truth.devices.as_slice()[0].trace.actions());
}

fn stand_in(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).expect("a file");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a file of our own");
}

#[test]
fn a_snapshot_is_written_on_request_with_python() {
    let job = Job::new();
    let mut running = job
        .command(env!("CARGO_BIN_EXE_fragscope"))
        .args(["capture", "--out", "job.fsl", "--interval", "20", "--", "python3"])
        .arg(here().join("job.py"))
        .args(["slow", "600"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let log = job.path("job.fsl");
    let waited = |what: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(20), "it did not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    waited(&|| log.exists());
    logs::ask(&log, "mark here").expect("a folder of our own");
    let asked = log.with_extension("fsl.ask");
    waited(&|| !asked.exists());
    logs::ask(&log, "snapshot").expect("a folder of our own");
    waited(&|| job.path("job.1.pickle").exists());
    assert!(running.wait().expect("it ends").success());
    let snapshot = open(&job.path("job.1.pickle"));
    assert!(!snapshot.devices.as_slice()[0].trace.is_empty());
    let whole = job.log();
    assert_same(&whole, &job.truth());
    assert_eq!(whole.devices.as_slice()[0].annotations.len(), 1);
}
