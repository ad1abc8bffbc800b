//! `capture` around real PyTorch: `FRAGSCOPE_TORCH_PYTHONS` names Python programs (`:` between them) whose PyTorch can use
//! CUDA, or something that passes for it. Without it these tests say so and check nothing.

use fragscope::base::Progress;
use fragscope::format;
use fragscope::model::{Action, Position, Snapshot, WarningKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn pythons() -> Vec<PathBuf> {
    let named = std::env::var("FRAGSCOPE_TORCH_PYTHONS").unwrap_or_default();
    let pythons: Vec<PathBuf> = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if pythons.is_empty() {
        eprintln!("FRAGSCOPE_TORCH_PYTHONS names no Python with PyTorch: real jobs are not recorded");
    }
    pythons
}

struct Job {
    folder: tempfile::TempDir,
    python: PathBuf,
}

impl Job {
    fn new(python: &Path) -> Job {
        Job { folder: tempfile::tempdir().expect("a folder"), python: python.to_owned() }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn capture(&self, options: &[&str], arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capture/real/train.py");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
        command.current_dir(self.folder.path()).args(["capture", "--out", "job.fsl", "--max-entries", "1000000"]);
        command.args(options).arg("--").arg(&self.python).arg(script).args(arguments);
        command.env("FAKE_CUDA_MEM_GB", "8").envs(environment.iter().copied());
        let done = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(String::from_utf8_lossy(&done.stdout).ends_with("done\n"), "{}: {said}", self.python.display());
        done
    }
    fn open(&self, name: &str) -> Snapshot {
        format::open(&self.path(name), &Progress::new()).unwrap_or_else(|error| panic!("{}: {error}", self.python.display()))
    }
    /// The log's events, stacks and lives are those of PyTorch's own snapshot at the end.
    fn assert_whole(&self) -> Snapshot {
        let (log, dump) = (self.open("job.fsl"), self.open("job.exit.pickle"));
        let name = self.python.display();
        assert_eq!(log.warnings.count(WarningKind::EventsMissed), 0, "{name}: {:?}", log.warnings);
        assert_eq!(log.warnings.count(WarningKind::RecorderTrouble), 0, "{name}: {:?}", log.warnings);
        let used = |snapshot: &Snapshot| snapshot.devices.as_slice().iter().filter(|device| device.is_used()).count();
        assert_eq!(used(&log), used(&dump), "{name}");
        for dumped in dump.devices.as_slice().iter().filter(|device| device.is_used()) {
            let logged = log.devices.iter().find(|(_, device)| device.ordinal == dumped.ordinal).expect("the device").1;
            // The dump also holds the entries that the recorder's own looks left.
            let rows = |snapshot: &Snapshot, trace: &fragscope::model::Trace| -> Vec<(Action, u64, u64, i64, Vec<String>)> {
                let entries = trace.events().map(|event| trace.entry(event)).filter(|entry| entry.action != Action::Snapshot);
                let row = |entry: fragscope::model::TraceEntry| {
                    let frames = snapshot.stacks.frames(entry.stack).iter().map(|frame| snapshot.stacks.line(*frame)).collect();
                    (entry.action, entry.address, entry.size, snapshot.streams.handle(entry.stream), frames)
                };
                entries.map(row).collect()
            };
            let (a, b) = (rows(&log, &logged.trace), rows(&dump, &dumped.trace));
            assert_eq!(a.len(), b.len(), "{name}, device {}", dumped.ordinal);
            for (row, (logged, dumped)) in a.iter().zip(&b).enumerate() {
                assert_eq!(logged, dumped, "{name}, event {row}");
            }
            assert_eq!(logged.allocations.sizes(), dumped.allocations.sizes(), "{name}");
            assert_eq!(logged.segments.len(), dumped.segments.len(), "{name}");
        }
        log
    }
}

#[test]
fn a_training_script_is_recorded_whole_by_both_ways() {
    for python in pythons() {
        for options in [&[][..], &["--ring"]] {
            let job = Job::new(&python);
            let done = job.capture(options, &["20", "streams"], &[]);
            assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
            let log = job.assert_whole();
            let version = log.job.fact("torch").unwrap_or_default().to_owned();
            let ring = !options.is_empty() || version.starts_with("2.1.") || version.starts_with("2.0");
            assert_eq!(log.job.fact("way"), Some(if ring { "ring" } else { "tracker" }), "{version}: {:?}", log.warnings);
        }
    }
}

#[test]
fn expandable_segments_and_several_devices_are_recorded_whole() {
    for python in pythons() {
        let job = Job::new(&python);
        job.capture(&["--set", "expandable_segments:True"], &["10", "devices"], &[("FAKE_CUDA_DEVICES", "2")]);
        let log = job.assert_whole();
        assert!(log.devices.as_slice()[0].trace.actions().contains(&Action::SegmentMap));
    }
}

#[test]
fn a_script_that_runs_out_of_memory_keeps_the_state_of_the_failure() {
    for python in pythons() {
        let job = Job::new(&python);
        job.capture(&[], &["5", "oom"], &[]);
        let log = job.assert_whole();
        let failure = job.open("job.oom1.pickle");
        let (then, whole) = (&failure.devices.as_slice()[0], &log.devices.as_slice()[0]);
        assert_eq!(then.trace.actions().last(), Some(&Action::Oom));
        let oom = whole.trace.ooms()[0];
        let live = |snapshot: &Snapshot, at: Position| -> Vec<(u64, u64)> {
            let lives = &snapshot.devices.as_slice()[0].allocations;
            let mut live: Vec<_> = lives
                .ids()
                .map(|id| lives.get(id))
                .filter(|l| l.born <= at && at < l.died)
                .map(|l| (l.address, l.size))
                .collect();
            live.sort_unstable();
            live
        };
        assert_eq!(live(&log, Position::after(oom)), live(&failure, then.end()), "{}", python.display());
        assert_eq!(log.job.samples.len(), 1);
    }
}

#[test]
fn without_stacks_every_event_is_there() {
    for python in pythons() {
        let job = Job::new(&python);
        job.capture(&["--stacks", "none"], &["10"], &[]);
        let log = job.assert_whole();
        assert!(log.devices.as_slice()[0].trace.stacks().iter().all(|stack| log.stacks.frames(*stack).is_empty()));
    }
}
