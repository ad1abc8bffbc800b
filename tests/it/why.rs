//! Why it failed: the verdict against what is known of each file, its account against the allocator's books, and
//! its figures against PyTorch's own message.
//!
//! `tests/causes` holds one small recording a cause, made by `causes.py` beside them, with the message of the failure.

use crate::samples;
use fragscope::analysis::diagnosis::{
    Card, Case, Diagnosis, DiagnosisParams, Facts, OomMessage, PoolFrom, RULES, Severity, Verdict,
};
use fragscope::analysis::{Asked, Query, Subject};
use fragscope::base::Progress;
use fragscope::model::{EventIdx, Position, Snapshot};
use fragscope::replay::Replay;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file, its verdict with the snapshot alone, the rules that must speak, with their severity.
type Row = (&'static str, Verdict, &'static [(&'static str, Severity)]);

use Severity::{Cause, Note, Warning};

const CAUSES: &[Row] = &[
    ("limit", Verdict::Limit, &[("limit", Cause)]),
    ("trapped_stream", Verdict::Trapped, &[("trapped", Cause)]),
    ("trapped_pool", Verdict::Trapped, &[("trapped", Cause)]),
    ("other_half", Verdict::Trapped, &[("trapped", Cause)]),
    ("leak", Verdict::Live, &[("live", Cause), ("growth", Warning)]),
    ("private_live", Verdict::Live, &[("live", Cause)]),
    ("clash", Verdict::Live, &[("settings", Warning)]),
    ("empty_cache", Verdict::None, &[("live", Note)]),
    ("first_huge", Verdict::Live, &[("live", Cause)]),
    ("in_pool", Verdict::Trapped, &[("trapped", Cause)]),
    ("in_pool_expandable", Verdict::Trapped, &[("trapped", Cause)]),
    ("pool_gone", Verdict::Trapped, &[("trapped", Cause)]),
    ("pending", Verdict::Trapped, &[("trapped", Cause)]),
    ("retry_loop", Verdict::Live, &[("live", Cause)]),
    ("others_move", Verdict::Live, &[("live", Cause)]),
    ("expandable_pieces", Verdict::Fragmentation, &[("fragmentation", Cause), ("pinned", Warning)]),
    ("fraction_setting", Verdict::Limit, &[("limit", Cause), ("settings", Note)]),
    ("shared_segments", Verdict::Fragmentation, &[("fragmentation", Cause)]),
    ("numbered_steps", Verdict::Live, &[("live", Cause), ("growth", Warning)]),
    ("overwritten", Verdict::None, &[]),
    ("no_segments", Verdict::Unknown, &[("coverage", Warning)]),
];

/// The samples; where nothing failed, nothing is a cause and nothing warns.
const SAMPLES: &[Row] = &[
    ("training", Verdict::None, &[]),
    ("fragmentation_oom", Verdict::Fragmentation, &[("fragmentation", Cause), ("pinned", Warning), ("sizes", Warning)]),
    ("expandable_segments", Verdict::None, &[]),
    ("private_pools", Verdict::None, &[]),
    ("two_devices", Verdict::None, &[]),
    ("late_start", Verdict::None, &[]),
    ("segments_only", Verdict::None, &[]),
    ("streams", Verdict::None, &[]),
];

/// What is true of the larger collection: with the snapshot alone, and with the card's size.
const COLLECTION: &[(&str, Verdict, Verdict)] = &[
    ("frag_oom_", Verdict::Fragmentation, Verdict::Fragmentation),
    ("oom_live_expandable", Verdict::Live, Verdict::Live),
    ("oom_live", Verdict::Fragmentation, Verdict::Fragmentation),
    ("oom_other", Verdict::Fragmentation, Verdict::Outside),
    ("train_tight_roundup", Verdict::Fragmentation, Verdict::Fragmentation),
];

fn causes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/causes")
}

fn cases(snapshot: &Snapshot, params: &DiagnosisParams) -> Vec<Case> {
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let subject = Subject { snapshot, replays: &replays };
    let mut all = Vec::new();
    for (device, memory) in snapshot.devices.iter() {
        let asked = Asked { subject, baseline: None, device };
        let found = Diagnosis::answer(&asked, params, &Progress::new()).expect("nobody cancels");
        assert_eq!(found.cases.len(), memory.trace.ooms().len().max(1), "one case a failure, one where nothing failed");
        for case in &found.cases {
            let state = replays[device.0 as usize].state_at(memory, case.at);
            let account = &case.accounting;
            // Blocks in no known segment are live and not reserved.
            if state.segments.iter().all(|segment| !segment.inferred) {
                assert_eq!(account.held(), state.totals.reserved, "{}: {account:?}", memory.title());
            }
            assert_eq!(account.live(), state.totals.allocated);
            if let (Some(capacity), Some(_)) = (account.capacity, &case.request) {
                assert_eq!(account.sum(), capacity, "{account:?}");
            }
            for finding in &case.findings {
                assert!(RULES.iter().any(|rule| rule.name == finding.rule));
                assert!(!finding.sentence.is_empty() && finding.sentence.ends_with(['.', ')']), "{}", finding.sentence);
            }
            assert!(case.findings.is_sorted_by(|a, b| b.severity <= a.severity), "the gravest first");
        }
        all.extend(found.cases);
    }
    all
}

fn check(folder: &Path, rows: &[Row]) {
    for (name, verdict, rules) in rows {
        let snapshot = samples::open(&folder.join(format!("{name}.pickle.gz")));
        let cases = cases(&snapshot, &DiagnosisParams::default());
        for case in &cases {
            assert_eq!(case.verdict, *verdict, "{name}: {}", case.sentence);
            let alarms: Vec<_> = case.findings.iter().filter(|finding| Note < finding.severity).collect();
            assert!(*verdict != Verdict::None || alarms.is_empty(), "{name}: a false alarm: {alarms:#?}");
            assert_eq!(
                case.findings.iter().any(|f| f.severity == Cause),
                !matches!(verdict, Verdict::None | Verdict::Unknown),
                "{name}: {:#?}",
                case.findings
            );
            for (rule, severity) in *rules {
                let there = case.findings.iter().any(|finding| finding.rule == *rule && finding.severity == *severity);
                assert!(there, "{name}: {rule} says nothing, or less: {:#?}", case.findings);
            }
        }
    }
}

/// PyTorch's message beside a recording, if it failed; of several failures the last.
fn message_of(path: &Path) -> Option<(String, OomMessage)> {
    let text = std::fs::read_to_string(samples::counters_of(path)).ok()?;
    let beside: Value = serde_json::from_str(&text).expect("JSON");
    let text = beside["oom"].as_str()?.to_owned();
    Some((text.clone(), read(&text)))
}

/// All messages beside a recording, in order.
fn messages_of(path: &Path) -> Vec<OomMessage> {
    let text = std::fs::read_to_string(samples::counters_of(path)).expect("counters");
    let beside: Value = serde_json::from_str(&text).expect("JSON");
    let last = std::slice::from_ref(&beside["oom"]);
    beside["ooms"].as_array().map_or(last, Vec::as_slice).iter().filter_map(Value::as_str).map(read).collect()
}

fn read(text: &str) -> OomMessage {
    OomMessage::all_of(text).pop().unwrap_or_else(|| panic!("{text}: not read"))
}

/// What is found with all messages beside a recording.
fn cases_with_messages(path: &Path) -> Vec<Case> {
    cases(&samples::open(path), &DiagnosisParams { messages: messages_of(path).into(), ..DiagnosisParams::default() })
}

/// With its message each failure agrees to the last printed digit, and the card's bytes add up.
fn check_messages(files: &[PathBuf]) -> usize {
    let mut checked = 0;
    for path in files {
        let Some((_, message)) = message_of(path) else { continue };
        for case in cases_with_messages(path) {
            let log: Vec<_> = case.findings.iter().filter(|finding| finding.rule == "log").collect();
            let agrees = log.iter().any(|finding| finding.sentence.starts_with("PyTorch's message and the snapshot agree"));
            assert!(agrees, "{}: {log:#?}\n{message:?}", path.display());
            assert_eq!(case.accounting.capacity, message.total, "{}", path.display());
        }
        checked += 1;
    }
    checked
}

#[test]
fn each_cause_gets_its_verdict() {
    check(&causes(), CAUSES);
}

#[test]
fn the_samples_get_theirs_and_no_false_alarm() {
    check(&samples::folder(), SAMPLES);
}

#[test]
fn figures_are_those_of_pytorchs_message() {
    assert_eq!(check_messages(&samples::pairs(&causes())), 18);
    assert_eq!(check_messages(&samples::pairs(&samples::folder())), 1);
}

/// Set `FRAGSCOPE_TRUTH_DIR` to the folder of snapshots with their counters to check what is known of them.
#[test]
fn a_folder_of_snapshots_gets_the_verdicts_that_are_true() {
    let Some(folder) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of snapshots with their counters");
        return;
    };
    let files = samples::pairs(Path::new(&folder));
    for path in &files {
        let name = samples::stem(path);
        let known = COLLECTION.iter().find(|(start, ..)| name.starts_with(start)).filter(|_| message_of(path).is_some());
        let (alone, with_card) = known.map_or((Verdict::None, Verdict::None), |(_, alone, with_card)| (*alone, *with_card));
        if name.starts_with("big_5m") {
            continue;
        }
        let snapshot = samples::open(path);
        let total = message_of(path).and_then(|(_, message)| message.total);
        for (card, expected) in [(Card::default(), alone), (Card { total, ..Card::default() }, with_card)] {
            for case in cases(&snapshot, &DiagnosisParams { card, ..DiagnosisParams::default() }) {
                assert_eq!(case.verdict, expected, "{}: {}", path.display(), case.sentence);
                let alarm = case.findings.iter().find(|finding| Note < finding.severity);
                assert!(expected != Verdict::None || alarm.is_none(), "{}: a false alarm: {alarm:#?}", path.display());
            }
        }
    }
    assert!(0 < check_messages(&files), "no failure with its message below {}", folder.display());
}

/// The driver's requests as they were, in MiB: the segment, or what is still to map.
#[test]
fn what_the_driver_was_asked_for() {
    for (name, requested, needed) in [
        ("shared_segments", 5, 20),
        ("first_huge", 102_400, 102_400),
        ("expandable_pieces", 2000, 2000),
        ("in_pool_expandable", 4500, 4500),
        ("pending", 4000, 4000),
    ] {
        let snapshot = samples::open(&causes().join(format!("{name}.pickle.gz")));
        let cases = cases(&snapshot, &DiagnosisParams::default());
        let asked: Vec<_> = cases.iter().filter_map(|case| case.request).map(|r| (r.requested >> 20, r.needed >> 20)).collect();
        assert_eq!(asked, [(requested, needed)], "{name}");
    }
}

/// Several failures in one recording, each with its own message: other processes came and went.
#[test]
fn each_failure_has_its_own_message() {
    let verdicts: Vec<Verdict> =
        cases_with_messages(&causes().join("others_move.pickle.gz")).iter().map(|case| case.verdict).collect();
    assert_eq!(verdicts, [Verdict::Outside, Verdict::Live, Verdict::Outside]);
}

#[test]
fn a_failure_that_was_overwritten_is_not_denied() {
    let cases = cases_with_messages(&causes().join("overwritten.pickle.gz"));
    assert!(cases[0].sentence.starts_with("The log tells of a failure, but none is in this file"), "{}", cases[0].sentence);
}

/// The figures of the free memory that a request in a capture cannot have: all but its own pool's.
#[test]
fn a_request_in_a_private_pool_is_told_from_what_lay_free() {
    for (name, trapped, own, advice) in [
        ("in_pool", 6001, 0, "empty_cache() before"),
        ("in_pool_expandable", 3001, 10, "empty_cache() before"),
        ("pool_gone", 3601, 0, "Share one pool"),
    ] {
        let snapshot = samples::open(&causes().join(format!("{name}.pickle.gz")));
        let case = &cases(&snapshot, &DiagnosisParams::default())[0];
        let account = &case.accounting;
        assert_eq!((account.free_trapped >> 20, (account.free_usable + account.free_too_small) >> 20), (trapped, own), "{name}");
        let cause = case.findings.iter().find(|finding| finding.severity == Cause).expect("a cause");
        assert!(cause.suggestion.contains(advice), "{name}: {cause:#?}");
    }
}

#[test]
fn steps_that_the_program_marked_tell_old_from_new() {
    let snapshot = samples::open(&causes().join("numbered_steps.pickle.gz"));
    let case = &cases(&snapshot, &DiagnosisParams::default())[0];
    for (rule, words) in [("live", "steps (step_#)"), ("growth", "steps (step_#)")] {
        assert!(case.findings.iter().any(|f| f.rule == rule && f.sentence.contains(words)), "{rule}: {:#?}", case.findings);
    }
}

#[test]
fn others_on_the_card_decide_where_its_size_is_known() {
    let path = causes().join("limit.pickle.gz");
    let snapshot = samples::open(&path);
    for (total, verdict, outside) in [
        (None, Verdict::Limit, None),
        (Some(8u64 << 30), Verdict::Limit, Some(512u64 << 20)),
        // A card smaller than what is reserved and left: nothing is outside, and it is said.
        (Some(1 << 30), Verdict::Limit, Some(0)),
        // One byte less than what is reserved and left together.
        (Some((8u64 << 30) - (512 << 20) - 1), Verdict::Limit, Some(0)),
    ] {
        let params = DiagnosisParams { card: Card { total, ..Card::default() }, ..DiagnosisParams::default() };
        let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        let device = snapshot.busiest_device().expect("a device");
        let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device };
        let found = Diagnosis::answer(&asked, &params, &Progress::new()).expect("nobody cancels");
        let case = &found.cases[0];
        assert_eq!((case.verdict, case.accounting.outside), (verdict, outside), "{total:?}");
        let beyond = case.findings.iter().any(|finding| finding.sentence.contains("behind the allocator's back"));
        assert_eq!(beyond, outside == Some(0), "{total:?}");
    }
}

fn why(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fragscope")).arg("why").args(arguments).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_subcommand_says_it_in_words_and_in_json() {
    let sample = samples::sample("fragmentation_oom");
    let sample = sample.to_str().expect("a name");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    let (text, _) = message_of(Path::new(sample)).expect("a message");
    std::fs::write(&log, format!("step 1\nTraceback …\ntorch.OutOfMemoryError: {text}\n")).expect("written");
    let log = log.to_str().expect("a name");

    let (code, out, _) = why(&[sample]);
    assert_eq!(code, 0);
    for words in ["Fragmentation: 52.00 MiB", "972.67 MiB", "179 gaps", "27.45 MiB", "28.00 MiB are left", "card", "unknown"] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (code, out, _) = why(&[sample, "--json", "--log", log]);
    assert_eq!(code, 0);
    let list: Value = serde_json::from_str(&out).expect("one JSON value");
    let case = &list[0];
    for key in ["device", "event", "requested", "needed", "verdict", "sentence", "accounting", "capacity", "findings"] {
        assert!(case.get(key).is_some(), "{key}");
    }
    assert_eq!(case["verdict"], "fragmentation");
    assert_eq!((case["event"].as_u64(), case["needed"].as_u64()), (Some(35_572), Some(52 << 20)));
    let accounting = case["accounting"].as_object().expect("an object");
    let names =
        ["live_requested", "rounding", "pending_free", "free_usable", "free_too_small", "free_trapped", "outside", "device_free"];
    assert_eq!(accounting.keys().map(String::as_str).collect::<std::collections::BTreeSet<_>>(), names.into());
    assert_eq!(accounting.values().filter_map(Value::as_u64).sum::<u64>(), 8 << 30);
    assert_eq!(case["capacity"].as_u64(), Some(8 << 30));
    for finding in case["findings"].as_array().expect("a list") {
        for key in ["rule", "severity", "certainty", "sentence", "bytes", "stacks", "suggestion"] {
            assert!(finding.get(key).is_some(), "{key}: {finding}");
        }
    }
    // Nothing failed: one object, its event null.
    let calm = samples::sample("training");
    let (_, out, _) = why(&[calm.to_str().expect("a name"), "--json"]);
    let list: Value = serde_json::from_str(&out).expect("one JSON value");
    assert_eq!((list.as_array().map(Vec::len), &list[0]["event"], &list[0]["verdict"]), (Some(1), &Value::Null, &"none".into()));
}

#[test]
fn misuse_gets_a_sentence() {
    let sample = samples::sample("fragmentation_oom");
    let sample = sample.to_str().expect("a name");
    for (arguments, words) in [
        (&["/nowhere.pickle"][..], "/nowhere.pickle"),
        (&[sample, "--log", "/nowhere.log"], "/nowhere.log cannot be read"),
        (&[sample, "--capacity", "much"], "80GiB"),
        (&[sample, "--capacity", "0"], "80GiB"),
        (&[sample, "--device", "7"], "no device 7"),
        (&[], "FILE"),
    ] {
        let (code, out, complaint) = why(arguments);
        assert_eq!(code, 2, "{arguments:?}: {out}");
        assert!(complaint.contains(words), "{arguments:?}: {complaint}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("empty.log");
    std::fs::write(&log, b"\xff\xfe nothing").expect("written");
    let (code, _, complaint) = why(&[sample, "--log", log.to_str().expect("a name")]);
    assert_eq!(code, 0);
    assert!(complaint.contains("no out-of-memory message"), "{complaint}");
}

/// What many failures are told from one walk is what each is told from its whole state. Any event will do as one.
#[test]
fn a_failure_in_brief_has_the_figures_of_its_state() {
    let (mut compared, params) = (0, DiagnosisParams::default());
    for path in samples::pairs(&samples::folder()).into_iter().chain(samples::pairs(&causes())) {
        let snapshot = samples::open(&path);
        let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        for (device, memory) in snapshot.devices.iter() {
            let (_, timeline, _) = samples::prepare(&snapshot, device);
            let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device };
            let events: Vec<EventIdx> = memory.trace.events().step_by(1 + memory.trace.len() / 300).collect();
            let mut all = events.iter();
            let served = Facts::in_brief(&asked, &timeline, &params, &events, &Progress::new(), |brief| {
                let event = *all.next().expect("one an event");
                let whole = Facts::at(&asked, &timeline, &params, Position::after(event), Some(event));
                let told = |facts: &Facts<'_>| {
                    let verdict = Verdict::of(facts);
                    let gaps = (facts.gaps, facts.own, facts.walled.clone());
                    (facts.request, facts.accounting, gaps, facts.state.totals, verdict, verdict.sentence(facts))
                };
                // What would have served the request puts its pool in doubt, and then the state is asked.
                if whole.unstated.is_empty() && whole.request.is_none_or(|request| request.pool_from != PoolFrom::Gaps) {
                    assert_eq!(told(brief), told(&whole), "{} {} event {}", path.display(), memory.title(), event.0);
                    compared += 1;
                }
            });
            assert!(!served.expect("nobody cancels") || all.next().is_none(), "{}: some were left out", path.display());
        }
    }
    assert!(1000 < compared, "only {compared} were told in brief");
}

#[test]
fn many_failures_are_told_quickly_and_not_all_written_out() {
    let (count, folder) = (3000u64, tempfile::tempdir().expect("a folder"));
    let (base, size) = (1u64 << 40, 1u64 << 21);
    let mut trace =
        vec![serde_json::json!({"action": "segment_alloc", "addr": base, "size": count * size, "stream": 0, "frames": []})];
    for row in 0..count {
        trace.push(serde_json::json!({"action": "alloc", "addr": base + row * size, "size": size, "stream": 0, "frames": []}));
        trace.push(
            serde_json::json!({"action": "oom", "size": (count - row) * size, "device_free": 4096, "stream": 0, "frames": []}),
        );
    }
    let block = serde_json::json!({"size": size, "requested_size": size, "state": "active_allocated", "frames": []});
    let segment = serde_json::json!({
        "device": 0, "address": base, "total_size": count * size, "stream": 0, "segment_type": "large",
        "frames": [], "blocks": vec![block; count as usize],
    });
    let path = folder.path().join("many.json");
    let whole = serde_json::json!({"segments": [segment], "device_traces": [trace]});
    std::fs::write(&path, whole.to_string()).expect("written");
    let path = path.to_str().expect("a name");
    let (code, out, _) = why(&[path]);
    assert_eq!(code, 0);
    assert!(out.contains("2 984 failures before the last 16, which follow"), "{}", out.lines().next().unwrap_or_default());
    assert_eq!(out.matches("could not be allocated").count(), 16);
    let (code, out, _) = why(&[path, "--json"]);
    let list: Value = serde_json::from_str(&out).expect("one JSON value");
    assert_eq!((code, list.as_array().map(Vec::len)), (0, Some(count as usize)));
    for (row, case) in list.as_array().expect("a list").iter().enumerate() {
        let live = (row as u64 + 1) * size;
        // One block more is wanted than lies free.
        assert_eq!((&case["verdict"], &case["accounting"]["live_requested"]), (&"live".into(), &live.into()), "{row}");
    }
}
