//! What comes out of the simulator: a run as a snapshot, all settings at once, and what the command line and the verdict
//! say of them.

use crate::samples;
use crate::simulator::{CONTEXT, asked, counters_of, files, recorded};
use fragscope::analysis::diagnosis::{Diagnosis, DiagnosisParams, Verdict};
use fragscope::analysis::{Asked, Query as _, Subject, UsageTimeline, Workload};
use fragscope::base::Progress;
use fragscope::model::{
    Action, AllocatorSettings, DeviceId, DeviceMemory, EventIdx, OriginKind, Position, Snapshot, WarningKind,
};
use fragscope::replay::{MemoryState, Replay};
use fragscope::report::what_if_job::{ChangedJob, JobWords, Naming};
use fragscope::simulator::{
    AtFailure, EmptyCaches, Fidelity, Outcome, Recorded, Request, RequestStream, Scenario, capacity_told, conf, record, simulate,
    sweep,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A recording ready to be served again.
struct Job {
    name: String,
    path: PathBuf,
    snapshot: Snapshot,
    id: DeviceId,
    asked: RequestStream,
    recorded: Recorded,
    fidelity: Fidelity,
}

/// All devices with a history of the samples and of the collection.
fn jobs() -> impl Iterator<Item = Job> {
    files().into_iter().flat_map(|path| {
        let (snapshot, counters) = (samples::open(&path), counters_of(&path));
        let with_history = |memory: &DeviceMemory| memory.has_history() && 0 <= memory.ordinal;
        let ids: Vec<DeviceId> = snapshot.devices.iter().filter(|(_, memory)| with_history(memory)).map(|(id, _)| id).collect();
        ids.into_iter().map(move |id| {
            let replay = Replay::new(&snapshot.devices[id]);
            let mut asked = asked(&snapshot, id, &replay);
            let recorded = recorded(&snapshot, &counters);
            let fidelity = Fidelity::of(&snapshot, id, &replay, &mut asked, &recorded, &Progress::new());
            let fidelity = fidelity.expect("nobody cancels").expect("a release");
            let name = format!("{} device {}", path.display(), snapshot.devices[id].ordinal);
            Job { name, path: path.clone(), snapshot: snapshot.clone(), id, asked, recorded, fidelity }
        })
    })
}

impl Job {
    fn memory(&self) -> &DeviceMemory {
        &self.snapshot.devices[self.id]
    }
    /// As it was recorded, on the card its failures tell, else its environment.
    fn as_recorded(&self) -> Scenario {
        let capacity = capacity_told(self.memory(), &Replay::new(self.memory()));
        let total = self.recorded.total;
        let capacity = capacity.or(total.map(|total| total - CONTEXT));
        Scenario { capacity, total, ..Scenario::new(self.recorded.settings.clone(), self.fidelity.rules) }
    }
    fn under(&self, text: &str) -> Scenario {
        let mut settings = AllocatorSettings { conf: text.to_owned(), ..AllocatorSettings::default() };
        settings.per_process_memory_fraction = self.recorded.settings.per_process_memory_fraction;
        conf::read(&mut settings, text, &self.snapshot.origin).expect("settings");
        Scenario { settings, ..self.as_recorded() }
    }
    fn record(&self, scenario: &Scenario) -> (Outcome, Snapshot) {
        record(&self.snapshot, self.id, &self.asked, scenario, &Progress::new()).expect("nobody cancels")
    }
}

/// What a state counts: reserved, allocated, active, requested, largest free block, segments.
fn counted(state: &MemoryState) -> [u64; 6] {
    let totals = state.totals;
    let segments = state.segments.len() as u64;
    [totals.reserved, totals.allocated, totals.active, totals.requested, state.largest_free_block, segments]
}

/// The only device of a simulated snapshot.
fn simulated(snapshot: &Snapshot) -> &DeviceMemory {
    assert_eq!((snapshot.devices.len(), snapshot.origin.kind), (1, OriginKind::Simulation));
    &snapshot.devices.as_slice()[0]
}

/// Warnings of a snapshot but the one that says what it is.
fn warned(snapshot: &Snapshot) -> Vec<String> {
    let warnings =
        snapshot.warnings.iter().filter(|(kind, ..)| *kind != WarningKind::Note && *kind != WarningKind::TimeBackwards);
    warnings.map(|(kind, count, first)| format!("{} {count}: {first}", kind.name())).collect()
}

/// Checks states at this many positions of a trace, and the first and the last.
const POSITIONS: u32 = 400;

#[test]
fn a_run_as_recorded_is_the_recording() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for job in jobs() {
        let memory = job.memory();
        // Where blocks older than the trace are equal, their order is not known; where settings changed, nothing is.
        if job.fidelity.first_divergence.is_some() || 0 < job.fidelity.taught {
            continue;
        }
        compared += 1;
        let (outcome, snapshot) = job.record(&job.as_recorded());
        let again = simulated(&snapshot);
        let (ours, theirs) = (again.trace.actions(), memory.trace.actions());
        let left_out = |action: &Action| *action == Action::Unknown;
        let kept: Vec<EventIdx> = memory.trace.events().filter(|event| !left_out(&theirs[event.0 as usize])).collect();
        let differs = kept.iter().zip(again.trace.events()).find(|(there, here)| {
            let (was, is) = (memory.trace.entry(**there), again.trace.entry(*here));
            let of_segment = was.action.name().starts_with("segment");
            (was.action, was.size, was.stream) != (is.action, is.size, is.stream)
                || (!of_segment && (was.stack, was.time_us, was.user_metadata) != (is.stack, is.time_us, is.user_metadata))
        });
        if let Some((there, here)) = differs.filter(|_| kept.len() == ours.len()) {
            let (was, is) = (memory.trace.entry(*there), again.trace.entry(here));
            wrong.push(format!("{}: event {} {was:?} came out as {is:?}", job.name, there.0));
            continue;
        }
        if kept.len() != ours.len() {
            let at = kept.iter().zip(ours).position(|(there, is)| theirs[there.0 as usize] != *is);
            wrong.push(format!("{}: {} events of {}, other from {at:?}; {outcome:?}", job.name, ours.len(), kept.len()));
            continue;
        }
        if !warned(&snapshot).is_empty() {
            wrong.push(format!("{}: {:?}", job.name, warned(&snapshot)));
        }
        let (replay, replay_again) = (Replay::new(memory), Replay::new(again));
        for step in 0..=POSITIONS {
            let at = (kept.len() as u64 * u64::from(step) / u64::from(POSITIONS)) as usize;
            let there = at.checked_sub(1).map_or(Position::START, |row| Position::after(kept[row]));
            let was = counted(&replay.state_at(memory, there));
            let is = counted(&replay_again.state_at(again, Position(at as u32)));
            if was != is {
                wrong.push(format!("{}: at {at} {was:?} came out as {is:?}", job.name));
                break;
            }
        }
    }
    println!("{compared} runs compared");
    assert!(5 <= compared, "the samples alone are more");
    assert!(wrong.is_empty(), "{} runs are not the recording:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_run_counts_what_its_snapshot_counts() {
    let mut wrong = Vec::new();
    for job in jobs().filter(|job| job.memory().trace.len() < 400_000) {
        let small = job.as_recorded().capacity.unwrap_or(u64::MAX).min(4 << 30) * 3 / 4;
        let plain = job.under("");
        let scenarios = [
            job.under("expandable_segments:True"),
            Scenario { capacity: Some(small), ..job.under("max_split_size_mb:64,roundup_power2_divisions:4") },
            Scenario { capacity: Some(small), at_failure: AtFailure::Endless, ..job.under("expandable_segments:True") },
            Scenario { empty_caches: EmptyCaches::Without, capacity: Some(small), ..plain },
        ];
        for scenario in scenarios {
            let (outcome, snapshot) = job.record(&scenario);
            let plainly = simulate(&job.asked, &scenario, &Progress::new()).expect("nobody cancels");
            assert_eq!((plainly.counters, plainly.failure), (outcome.counters, outcome.failure), "{}", job.name);
            let memory = simulated(&snapshot);
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            let peaks = [&usage.reserved, &usage.allocated, &usage.active, &usage.requested].map(|curve| curve.peak().1);
            let counters = &outcome.counters;
            let gauges = [counters.reserved, counters.allocated, counters.active, counters.requested].map(|gauge| gauge.peak);
            let count = |action: Action| memory.trace.actions().iter().filter(|is| **is == action).count() as u64;
            let calls = [
                count(Action::SegmentAlloc) + count(Action::SegmentMap),
                count(Action::SegmentFree) + count(Action::SegmentUnmap),
                count(Action::Oom),
            ];
            let counted = [counters.device_allocs, counters.device_frees, counters.ooms];
            if peaks != gauges || calls != counted {
                wrong.push(format!(
                    "{} {:?}: peaks {peaks:?} not {gauges:?}, calls {calls:?} not {counted:?}",
                    job.name, scenario.settings.conf
                ));
            }
            if !warned(&snapshot).is_empty() {
                wrong.push(format!("{} {:?}: {:?}", job.name, scenario.settings.conf, warned(&snapshot)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_sweep_ranks_what_each_setting_does_alone() {
    let mut recorded_rows = 0;
    for job in jobs().filter(|job| job.memory().trace.len() < 100_000) {
        let base = job.as_recorded();
        let rows = sweep(&job.asked, &base, &job.snapshot.origin, &Progress::new()).expect("nobody cancels");
        assert!(4 <= rows.len(), "{}", job.name);
        let mut seen = std::collections::BTreeSet::new();
        for row in &rows {
            let said = format!("{} {}", job.name, row.conf);
            let scenario = Scenario { settings: row.settings.clone(), ..base.clone() };
            let alone = simulate(&job.asked, &scenario, &Progress::new()).expect("nobody cancels");
            assert_eq!((alone.counters, alone.failure), (row.outcome.counters, row.outcome.failure), "{said}");
            assert!(seen.insert(row.conf.clone()), "{said}: twice");
            // What is to be pasted stands for what was simulated.
            let mut pasted = AllocatorSettings::default();
            conf::read(&mut pasted, &row.conf, &job.snapshot.origin).expect("settings of the release");
            let placing = |settings: &AllocatorSettings| AllocatorSettings {
                conf: String::new(),
                stated: false,
                other: Vec::new(),
                per_process_memory_fraction: None,
                ..settings.clone()
            };
            assert_eq!(placing(&pasted), placing(&row.settings), "{said}");
            recorded_rows += usize::from(row.is_recorded);
        }
        let ranks: Vec<_> = rows.iter().map(|row| (!row.completes(), row.outcome.counters.reserved.peak)).collect();
        let completing = ranks.iter().take_while(|(fails, _)| !fails).count();
        assert!(ranks[..completing].is_sorted() && ranks[completing..].iter().all(|(fails, _)| *fails), "{}", job.name);
        recorded_rows -= 1;
    }
    assert_eq!(recorded_rows, 0, "each sweep holds the recorded settings once");
}

fn fragscope(arguments: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_fragscope")).args(arguments).output().expect("the program runs")
}

fn json_of(arguments: &[&str]) -> Value {
    let output = fragscope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

fn text_of(arguments: &[&str]) -> String {
    let output = fragscope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_simulated_failure_is_explained_as_a_recorded_one() {
    let path = samples::sample("training");
    let job = jobs().find(|job| job.path == path).expect("the sample");
    let scenario = Scenario { capacity: Some(9 << 30), ..job.under("max_split_size_mb:64") };
    let (outcome, snapshot) = job.record(&scenario);
    let failure = outcome.failure.expect("9 GiB are too few");
    let memory = simulated(&snapshot);
    let replays = [Replay::new(memory)];
    let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device: DeviceId(0) };
    let found = Diagnosis::answer(&asked, &DiagnosisParams::default(), &Progress::new()).expect("nobody cancels");
    let [case] = &found.cases[..] else { panic!("one failure: {found:?}") };
    let request = case.request.expect("a request");
    assert!(!matches!(case.verdict, Verdict::None | Verdict::Unknown), "{:?}", case.verdict);
    assert_eq!(request.requested, scenario.settings.round(failure.requested));
    assert_eq!(case.accounting.capacity.or(Some(case.accounting.within())), Some(9 << 30), "all that it could have");
    assert!(!snapshot.stacks.frames(request.stack).is_empty(), "it has the stack of the request");
    assert!(snapshot.origin.name.ends_with("training.pickle.gz, max_split_size_mb:64"), "{}", snapshot.origin.name);
    // Every allocation has the stack it was recorded with, every event behind the first a time.
    let recorded = job.memory();
    let lives = memory.allocations.stacks().iter().zip(recorded.allocations.stacks());
    assert!(lives.clone().all(|(ours, theirs)| ours == theirs) && 0 < lives.len());
    assert_eq!(memory.trace.time_span_us().is_some(), recorded.trace.has_times());
    assert_eq!(memory.annotations, recorded.annotations);

    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("run.json");
    let (file, out) = (path.to_string_lossy().into_owned(), page.to_string_lossy().into_owned());
    let set = ["whatif", &file, "--set", "max_split_size_mb:64", "--capacity", "9GiB", "--json", "--report", &out];
    let rows = json_of(&set);
    assert_eq!(rows[0]["completed"], false);
    let text = std::fs::read_to_string(&page).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert!(report.to_string().contains("training.pickle.gz, max_split_size_mb:64"), "it names the run");
    for ending in ["html", "md"] {
        let out = folder.path().join(format!("run.{ending}")).to_string_lossy().into_owned();
        let words = ["whatif", &file, "--set", "max_split_size_mb:64", "--capacity", "9GiB", "--report", &out];
        assert!(text_of(&words).contains("out of memory at event"));
        let text = std::fs::read_to_string(&out).expect("a report");
        assert!(text.contains("out of memory at event") && text.contains("max_split_size_mb:64"), "{ending}");
    }
}

#[test]
fn the_verdict_quotes_the_first_row_of_the_sweep() {
    let file = samples::sample("fragmentation_oom").to_string_lossy().into_owned();
    let rows = json_of(&["whatif", &file, "--sweep", "--json"]);
    let rows = rows.as_array().expect("a list");
    let serving = rows.iter().filter(|row| row["completed"] == true).count();
    assert_eq!((rows[0]["settings"].as_str(), rows[0]["completed"].as_bool()), (Some("expandable_segments:True"), Some(true)));
    assert_eq!(rows.iter().filter(|row| row["recorded"] == true).count(), 1);
    let reserved = fragscope::base::Bytes(rows[0]["peak_reserved"].as_u64().expect("bytes"));
    let spare = rows[0]["spare"].as_u64().expect("bytes");
    let holds = fragscope::base::Bytes(reserved.0 + spare);
    let quoted = |arguments: &[&str]| -> Value {
        let cases = json_of(&[&["why", &file, "--json"], arguments].concat());
        let findings = cases[0]["findings"].as_array().cloned().expect("a list");
        findings.into_iter().find(|finding| finding["rule"] == "what_if").unwrap_or_default()
    };
    let finding = quoted(&[]);
    let sentence = finding["sentence"].as_str().expect("a sentence");
    let said = format!("With expandable_segments:True the request that failed is served, and all before it: at most {reserved}");
    assert!(sentence.starts_with(&said) && sentence.contains(&format!("of the {holds} that PyTorch could have")), "{sentence}");
    assert!(sentence.contains(&format!("{serving} of {} settings", rows.len())), "{sentence}");
    assert!(finding["suggestion"].as_str().is_some_and(|text| text.contains("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")));
    let text = text_of(&["whatif", &file, "--sweep"]);
    assert!(text.contains("\n  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"), "{text}");
    // On a card so large, nothing explains the failure.
    let finding = quoted(&["--capacity", "24GiB"]);
    assert!(finding["sentence"].as_str().is_some(), "{finding}");
    // Without a failure nothing is tried.
    let training = samples::sample("training").to_string_lossy().into_owned();
    let cases = json_of(&["why", &training, "--json"]);
    assert!(!cases.to_string().contains("what_if"));
}

#[test]
fn scenarios_differ_in_more_than_settings() {
    let file = |name: &str| samples::sample(name).to_string_lossy().into_owned();
    let (oom, training, late) = (file("fragmentation_oom"), file("training"), file("late_start"));
    let stopped = json_of(&["whatif", &oom, "--capacity", "4GiB", "--json"]);
    let endless = json_of(&["whatif", &oom, "--capacity", "4GiB", "--endless", "--json"]);
    assert_eq!(stopped[0]["oom"], endless[0]["oom"]);
    assert!(stopped[0]["peak_requested"].as_u64() < endless[0]["peak_requested"].as_u64());
    let smallest = json_of(&["whatif", &oom, "--set", "expandable_segments:True", "--smallest-card", "--json"]);
    let card = smallest[0]["smallest_card"]["capacity"].as_u64().expect("a card");
    for (capacity, serves) in [(card, true), (card - (2 << 20), false)] {
        let capacity = capacity.to_string();
        let row = json_of(&["whatif", &oom, "--set", "expandable_segments:True", "--capacity", &capacity, "--json"]);
        assert_eq!(row[0]["completed"], serves, "{capacity}");
    }
    let steps = text_of(&["whatif", &training, "--empty-cache", "each-step"]);
    assert!(steps.contains("empty_cache() is called at the end of each of"), "{steps}");
    let each = json_of(&["whatif", &training, "--empty-cache", "each-step", "--json"]);
    let never = json_of(&["whatif", &training, "--empty-cache", "never", "--json"]);
    assert!(never[0]["device_frees"].as_u64() < each[0]["device_frees"].as_u64());
    let (full, empty) = (json_of(&["whatif", &late, "--json"]), json_of(&["whatif", &late, "--from-empty", "--json"]));
    assert!(empty[0]["peak_allocated"].as_u64() < full[0]["peak_allocated"].as_u64());
    for policy in fragscope::simulator::POLICIES {
        let rows = json_of(&["whatif", &training, "--policy", policy.name, "--json"]);
        assert_eq!((rows[0]["policy"].as_str(), rows[0]["completed"].as_bool()), (Some(policy.name), Some(true)));
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("none.png").to_string_lossy().into_owned();
    for (arguments, sentence) in [
        (vec!["whatif", &oom, "--sweep", "--set", "max_split_size_mb:64"], "cannot be used with"),
        (vec!["whatif", &oom, "--policy", "perfect"], "possible values"),
        (vec!["whatif", &oom, "--empty-cache", "sometimes"], "possible values"),
        (vec!["whatif", &oom, "--set", "max_split_size_mb:64", "--set", "", "--report", &out], "a report is of one run"),
        (vec!["whatif", &oom, "--report", "run.docx"], "no report is called"),
    ] {
        let output = fragscope(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
}

/// A job changed as the command line and the window change it.
fn changed(job: &Job, words: &JobWords) -> ChangedJob {
    let given = words.read(Naming::Options).expect("read");
    let workload = Workload::of(&job.snapshot, job.id, &Progress::new()).expect("nobody cancels");
    given.change(&job.asked, &job.snapshot, job.id, &workload, &Progress::new()).expect("changed")
}

#[test]
fn a_changed_job_is_recorded_to_the_byte_with_the_stacks_of_what_it_copies() {
    let path = samples::sample("training");
    let job = jobs().find(|job| job.path == path).expect("the sample");
    let recorded = job.memory();
    let scenario = Scenario { capacity: None, total: None, ..job.as_recorded() };
    let words = |set: fn(&mut JobWords)| {
        let mut words = JobWords::default();
        set(&mut words);
        words
    };
    for words in [
        words(|words| words.checkpoint = true),
        words(|words| words.accumulate = "3".into()),
        words(|words| words.batch = "2".into()),
        words(|words| (words.batch, words.checkpoint, words.accumulate) = ("2".into(), true, "2".into())),
        words(|words| (words.offload_activations, words.without_optimizer) = (true, true)),
    ] {
        let changed = changed(&job, &words);
        let run = record(&job.snapshot, job.id, &changed.asked, &scenario, &Progress::new());
        let (outcome, snapshot) = run.expect("nobody cancels");
        let memory = simulated(&snapshot);
        let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
        let peaks = [&usage.reserved, &usage.allocated, &usage.active, &usage.requested].map(|curve| curve.peak().1);
        let counters = &outcome.counters;
        let gauges = [counters.reserved, counters.allocated, counters.active, counters.requested].map(|gauge| gauge.peak);
        assert_eq!(peaks, gauges, "{words:?}");
        assert_eq!(warned(&snapshot), Vec::<String>::new(), "{words:?}");
        let back = snapshot.warnings.iter().find(|(kind, ..)| *kind == WarningKind::TimeBackwards);
        assert!(back.is_none(), "{words:?}: time goes on only forward: {back:?}");
        assert!(snapshot.origin.name.contains(&changed.note.what) && snapshot.origin.name.contains("(estimate)"));
        // What each request copies: so many lives of a stack, so many requests that stem from its lives.
        let mut wanted = std::collections::BTreeMap::<u32, i64>::new();
        for (_, request) in &changed.asked.requests {
            if let Request::Alloc(_, asked) = request {
                let stack = recorded.trace.stacks()[asked.source.0 as usize];
                *wanted.entry(stack.0).or_default() += 1;
            }
        }
        for stack in memory.allocations.stacks() {
            *wanted.entry(stack.0).or_default() -= 1;
        }
        assert!(wanted.values().all(|left| *left == 0), "{words:?}: {wanted:?}");
    }
}

#[test]
fn a_report_of_a_changed_job_says_what_was_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = samples::sample("training").to_string_lossy().into_owned();
    for ending in ["json", "html", "md", "png"] {
        let out = folder.path().join(format!("run.{ending}")).to_string_lossy().into_owned();
        let words = ["whatif", &file, "--batch", "2", "--checkpoint", "--accumulate", "2", "--report", &out];
        let text = text_of(&words);
        assert!(text.contains("its requests, batch ×2, each layer checkpointed, gradients accumulated over 2 parts (estimate),"));
        let report = std::fs::read(&out).expect("a report");
        if ending != "png" {
            let report = String::from_utf8(report).expect("text");
            assert!(report.contains("batch ×2") && report.contains("(estimate)"), "{ending}");
        }
    }
    for (options, sentence) in [
        (&["--accumulate", "1"][..], "--accumulate: 1 is no number of parts: 2 to 1024"),
        (&["--batch", "big"], "--batch: big is no number"),
        (&["--batch", ""], "--batch: nothing is given"),
        (&["--scale", "forward=-1"], "--scale forward: -1 is no factor"),
        (&["--drop", ""], "--drop: the pattern is empty"),
        (&["--offload", "optimizer-state", "--without", "optimizer-state"], "give one of them"),
    ] {
        let output = fragscope(&[&["whatif", &file], options].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(sentence), "{options:?}: {said}");
    }
}
