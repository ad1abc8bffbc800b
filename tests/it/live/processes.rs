//! Viewer and job as processes: whoever is killed, nothing that was logged is lost. Ends in `on_a_display` where a window
//! must open.

use super::open;
use fragscope::capture::logs;
use fragscope::capture::processes::is_alive;
use fragscope::model::WarningKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capture")
}

/// A viewer with its job, that ends with the test.
struct Viewer(Child);

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().expect("kill runs").success());
}

fn live(folder: &Path, job: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.current_dir(folder).args(["capture", "--live", "--out", "job.fsl", "--interval", "20", "--", "python3"]);
    command.arg(here().join("job.py")).args(job).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env("PYTHONPATH", here()).env("PYTHONDONTWRITEBYTECODE", "1").env("FAKE_TRUTH", folder.join("truth"));
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "FRAGSCOPE_CONFIG_DIR"] {
        command.env(variable, folder);
    }
    command
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |facts| facts.len())
}

fn start_on_a_display(test: &str, folder: &Path, job: &[&str]) -> Option<Viewer> {
    if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
        println!("skipped: {test} needs a display (DISPLAY is not set)");
        return None;
    }
    Some(Viewer(live(folder, job).spawn().expect("the program starts")))
}

/// The log holds all that the job did.
fn assert_whole(folder: &Path) {
    let (log, truth) = (open(&folder.join("job.fsl")), open(&folder.join("truth.main")));
    let (a, b) = (&log.devices.as_slice()[0], &truth.devices.as_slice()[0]);
    assert_eq!(a.trace.len(), b.trace.len(), "{:?}", log.warnings);
    assert_eq!(a.trace.actions(), b.trace.actions(), "{:?}", log.warnings);
    assert_eq!(a.trace.addresses(), b.trace.addresses());
    assert_eq!(a.allocations.died(), b.allocations.died());
    assert_eq!(log.warnings.count(WarningKind::EventsMissed), 0);
}

#[test]
fn without_a_display_the_job_is_not_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = live(folder.path(), &["train", "3"]);
    let done =
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env_remove("WAYLAND_SOCKET").output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("There is no display") && said.contains("leave out --live"), "{said}");
    assert!(!folder.path().join("truth.main").exists(), "the job did not run");
}

/// A display that is named and not there shows only when a window is tried: the job runs already then, and is recorded.
#[test]
fn a_window_that_fails_leaves_the_recording_with_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = live(folder.path(), &["slow", "200"]);
    command.env("DISPLAY", ":4711").env_remove("WAYLAND_DISPLAY").env_remove("WAYLAND_SOCKET");
    let done = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("is recorded into job.fsl all the same"), "{said}");
    assert_whole(folder.path());
}

/// Killed without a word while both run: the job goes on, and its log is whole.
#[test]
fn a_viewer_that_is_killed_leaves_job_and_log_on_a_display() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = "a_viewer_that_is_killed_leaves_job_and_log_on_a_display";
    let Some(mut viewer) = start_on_a_display(test, folder.path(), &["slow", "2500"]) else { return };
    let log = folder.path().join("job.fsl");
    wait_until("events are logged", || 20_000 < size(&log));
    viewer.0.kill().expect("it runs");
    viewer.0.wait().expect("it ends");
    let then = size(&log);
    wait_until("the job goes on", || then + 20_000 < size(&log));
    wait_until("the job ends", || logs::has_end(&log) && !logs::writer(&log).is_some_and(is_alive));
    assert_whole(folder.path());
}

/// Ctrl+C at the terminal reaches the job through the viewer; its recorder puts everything in order.
#[test]
fn an_interrupt_ends_the_job_and_keeps_the_log_on_a_display() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = "an_interrupt_ends_the_job_and_keeps_the_log_on_a_display";
    let Some(viewer) = start_on_a_display(test, folder.path(), &["slow", "100000"]) else { return };
    let log = folder.path().join("job.fsl");
    wait_until("events are logged", || 20_000 < size(&log));
    signal(viewer.0.id(), "INT");
    wait_until("the job ends", || logs::has_end(&log) && !logs::writer(&log).is_some_and(is_alive));
    assert_whole(folder.path());
}

/// The job is killed while the window shows it: the window goes on and the log says how it ended.
#[test]
fn a_job_that_is_killed_leaves_its_log_on_a_display() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = "a_job_that_is_killed_leaves_its_log_on_a_display";
    let Some(mut viewer) = start_on_a_display(test, folder.path(), &["kill", "400"]) else { return };
    let log = folder.path().join("job.fsl");
    wait_until("its end is written down", || size(&log) != 0 && logs::has_end(&log));
    let snapshot = open(&log);
    assert_eq!(snapshot.job.ended.as_ref().and_then(|end| end.signal), Some(9));
    assert_eq!(snapshot.devices.as_slice()[0].trace.len(), 1 + 10 + 400 * 30, "all of it came before the half second of rest");
    assert!(viewer.0.try_wait().expect("a child").is_none(), "the window is still there");
}
