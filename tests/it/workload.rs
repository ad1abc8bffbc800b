//! The job changed: from one recording, the peaks of the same job with another batch, another length, or less to hold.
//!
//! `FRAGSCOPE_TRUTH_DIR` names a folder of folders of recordings; each that holds `train_default` (or `default`) is a
//! family whose other members are predicted from it alone.

use crate::samples;
use fragscope::analysis::{Role, Workload};
use fragscope::base::Progress;
use fragscope::model::{AllocatorSettings, Position, Snapshot};
use fragscope::simulator::{Bound, Change, Changed, Counters, Request, RequestStream, Rules, Scenario, change, simulate};
use std::path::{Path, PathBuf};

const GIB: f64 = (1u64 << 30) as f64;

/// Members, the change each is, and how far off a peak may be.
fn members() -> Vec<(&'static str, Change, f64)> {
    vec![
        ("batch_half", Change::Batch(0.5), 0.01),
        ("batch_double", Change::Batch(2.0), 0.01),
        ("seq_half", Change::Length(0.5), 0.1),
        ("seq_x15", Change::Length(1.5), 0.1),
        ("checkpoint", Change::Checkpoint, 0.1),
        ("offload_act", Change::OffloadActivations, 0.1),
        ("offload_optim", Change::OffloadOptimizerState, 0.1),
        ("accum2", Change::Accumulate(2), 0.1),
        ("sgd", Change::WithoutOptimizerState, 0.1),
    ]
}

/// A recording and what its lives are for.
struct Job {
    snapshot: Snapshot,
    workload: Workload,
    asked: RequestStream,
}

impl Job {
    fn open(path: &Path) -> Job {
        let snapshot = samples::open(path);
        let device = snapshot.busiest_device().expect("a device");
        let workload = Workload::of(&snapshot, device, &Progress::new()).expect("nobody cancels");
        let asked = RequestStream::of(&snapshot, device, &[]);
        Job { snapshot, workload, asked }
    }
    fn lives(&self) -> &fragscope::model::Allocations {
        &self.snapshot.devices[self.snapshot.busiest_device().expect("a device")].allocations
    }
    fn changed(&self, changes: &[Change]) -> Changed {
        change(&self.asked, self.lives(), &self.workload, changes).expect("a change that can be made")
    }
    fn serve(&self, asked: &RequestStream) -> Counters {
        let rules = Rules::of(&self.snapshot.origin)[0];
        let scenario = Scenario::new(AllocatorSettings::default(), rules);
        simulate(asked, &scenario, &Progress::new()).expect("nobody cancels").counters
    }
    /// Requested bytes of a role at a position, in GiB.
    fn held(&self, role: Role, at: Position) -> f64 {
        self.workload.at(self.lives(), at)[role as usize].requested as f64 / GIB
    }
    /// Where requested bytes are highest.
    fn peak(&self) -> Position {
        let end = self.snapshot.devices[self.snapshot.busiest_device().expect("a device")].end();
        let mut level = vec![0i64; end.0 as usize + 2];
        for id in self.lives().ids() {
            let life = self.lives().get(id);
            level[life.born.0 as usize] += life.requested as i64;
            level[(life.freed.0.min(end.0 + 1)) as usize] -= life.requested as i64;
        }
        let mut now = 0;
        let sums: Vec<i64> = level
            .iter()
            .map(|change| {
                now += change;
                now
            })
            .collect();
        Position((0..=end.0).max_by_key(|at| sums[*at as usize]).unwrap_or(0))
    }
}

/// Where the recordings of families lie: each base with the beginning of its members' names.
fn families() -> Vec<(PathBuf, PathBuf, &'static str)> {
    let Some(root) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else { return Vec::new() };
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).expect("a folder").flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let mut found = Vec::new();
    for folder in folders {
        for (prefix, base) in [("train_", "train_default"), ("", "default"), ("", "nostacks")] {
            if let Some(path) = recording(&folder, base) {
                found.push((folder.clone(), path, prefix));
            }
        }
    }
    found
}

fn recording(folder: &Path, name: &str) -> Option<PathBuf> {
    ["pickle", "pickle.gz"].iter().map(|end| folder.join(format!("{name}.{end}"))).find(|path| path.is_file())
}

fn truth(folder: &Path, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("readable counters");
    let counters: serde_json::Value = serde_json::from_str(&text).expect("counters are JSON");
    counters["devices"][0]["stats"].clone()
}

#[test]
fn one_recording_predicts_the_job_with_one_thing_changed() {
    let mut wrong = Vec::new();
    for (folder, base, prefix) in families() {
        let mut job = None;
        for (member, changed, within) in members() {
            let name = format!("{prefix}{member}");
            if recording(&folder, &name).is_none() {
                continue;
            }
            let job: &Job = job.get_or_insert_with(|| Job::open(&base));
            let changed = match change(&job.asked, job.lives(), &job.workload, std::slice::from_ref(&changed)) {
                Ok(changed) => changed,
                Err(sentence) => {
                    println!("{:60} {name:20} {sentence}", base.display());
                    continue;
                }
            };
            let counters = job.serve(&changed.asked);
            let truth = truth(&folder, &name);
            let error = |predicted: u64, key: &str| {
                let true_peak = truth[key].as_f64().expect("a peak");
                (true_peak / GIB, predicted as f64 / true_peak - 1.0)
            };
            let (allocated, off) = error(counters.allocated.peak, "allocated_bytes.all.peak");
            let (requested, requested_off) = error(counters.requested.peak, "requested_bytes.all.peak");
            println!(
                "{:60} {name:20} allocated {:7.3} true {allocated:7.3} {:+6.2} %  requested {:7.3} true {requested:7.3} {:+6.2} %  {}",
                base.display(),
                counters.allocated.peak as f64 / GIB,
                off * 100.0,
                counters.requested.peak as f64 / GIB,
                requested_off * 100.0,
                changed.bound.name()
            );
            let holds = |off: f64| match changed.bound {
                Bound::Estimate => off.abs() <= within,
                Bound::Lower => off <= 0.0,
                Bound::Upper => 0.0 <= off,
            };
            if !holds(off) || !holds(requested_off) {
                wrong.push(format!("{} {name}: {:+.2} %, {:+.2} %", base.display(), off * 100.0, requested_off * 100.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The shares of requested memory at the peak, as the notes of the collection state them in GiB.
#[test]
fn roles_at_the_peak_are_those_of_the_job() {
    for (folder, base, prefix) in families() {
        if prefix != "train_" || folder.file_name().is_none_or(|name| name != "2.11.0") {
            continue;
        }
        let job = Job::open(&base);
        let peak = job.peak();
        for (role, gib) in [
            (Role::Parameters, 0.52),
            (Role::OptimizerState, 1.03),
            (Role::Gradients, 0.0),
            (Role::WeightCasts, 0.22),
            (Role::Activations, 7.06),
            (Role::BackwardTemporaries, 0.61),
        ] {
            assert!((job.held(role, peak) - gib).abs() < 0.01, "{role:?} {}", job.held(role, peak));
        }
    }
}

#[test]
fn every_life_of_the_sample_has_a_role_and_a_changed_job_adds_up() {
    let job = Job::open(&samples::sample("training"));
    let peak = job.peak();
    assert!(3 <= job.workload.steps.rows.len(), "{:?}", job.workload.steps);
    let sums = job.workload.at(job.lives(), peak);
    let live = job.lives().ids().map(|id| job.lives().get(id)).filter(|life| life.born <= peak && peak < life.freed);
    assert_eq!(sums.iter().map(|sum| sum.requested).sum::<u64>(), live.map(|life| life.requested).sum::<u64>());
    assert_eq!(sums[Role::Unknown as usize].count, 0, "{sums:?}");
    let state = sums[Role::OptimizerState as usize].requested;
    // Adam keeps two numbers for each parameter.
    assert!((state as f64 / sums[Role::Parameters as usize].requested as f64 - 2.0).abs() < 0.05, "{sums:?}");

    let recorded = job.serve(&job.asked);
    let one = job.changed(&[Change::Batch(1.0)]);
    assert_eq!(job.serve(&one.asked), recorded, "a factor of one changes nothing");
    let peaks: Vec<u64> =
        [Change::Batch(0.5), Change::Batch(2.0), Change::Checkpoint, Change::OffloadActivations, Change::Accumulate(2)]
            .into_iter()
            .map(|change| job.serve(&job.changed(&[change]).asked).requested.peak)
            .collect();
    let whole = recorded.requested.peak;
    assert!(peaks[0] < whole && whole < peaks[1], "{peaks:?} {whole}");
    assert!(peaks[2..].iter().all(|peak| *peak < whole), "{peaks:?} {whole}");
    // Twice and half the batch lie on one line with the batch itself.
    let line = peaks[0] as f64 + (peaks[1] as f64 - peaks[0] as f64) / 3.0;
    assert!((line / whole as f64 - 1.0).abs() < 0.05, "{line} {whole}");
    for changed in [Change::Checkpoint, Change::Accumulate(3), Change::OffloadActivations, Change::WithoutOptimizerState] {
        let asked = job.changed(&[changed]).asked;
        let (mut born, mut gone) = (std::collections::HashSet::new(), std::collections::HashSet::new());
        for (_, request) in &asked.requests {
            match request {
                Request::Alloc(life, _) => assert!(born.insert(*life) && (life.0 as usize) < asked.lives),
                Request::Free(life) => {
                    assert!(born.contains(life) && gone.insert(*life), "{life:?} was given back twice or never asked for")
                }
                _ => {}
            }
        }
    }
}

#[test]
fn the_command_line_changes_the_job() {
    let file = samples::sample("training");
    let whatif = |options: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_fragscope"))
            .arg("whatif")
            .arg(&file)
            .args(options)
            .output()
            .expect("the program starts")
    };
    let json = |options: &[&str]| -> serde_json::Value {
        let output = whatif(&[options, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let plain = json(&[]);
    assert!(plain[0]["change"].is_null());
    let twice = json(&["--batch", "2"]);
    assert_eq!(twice[0]["change"]["what"], "batch ×2");
    assert_eq!(twice[0]["change"]["bound"], "estimate");
    assert!(plain[0]["peak_allocated"].as_u64() < twice[0]["peak_allocated"].as_u64());
    let less = json(&["--without", "optimizer-state", "--accumulate", "2"]);
    assert!(less[0]["peak_allocated"].as_u64() < plain[0]["peak_allocated"].as_u64());
    let text = whatif(&["--checkpoint"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("The job is changed: each layer checkpointed (estimate)."));
    for (options, sentence) in [
        (&["--drop", "no_such_function"][..], "no block is found by it"),
        (&["--scale", "forward"], "write a pattern, =, and a factor"),
        (&["--batch=-1"], "it must be above 0"),
        (&["--checkpoint", "--offload", "activations"], "give one of them"),
    ] {
        let output = whatif(options);
        assert!(
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains(sentence),
            "{options:?}: {output:?}"
        );
    }
}
