//! Two moments compared: the question, the command line with its pages, and the view, all with the same numbers.

use crate::samples::{open, sample};
use crate::tables::{click, click_at, open_tab, rows};
use crate::window::{Window_, opened, rest, settle, with_sample};
use egui_kittest::kittest::Queryable;
use fragscope::analysis::{
    Asked, DiffParams, DiffRow, DiffSide, LiveByStack, Query, SnapshotDiff, Subject, UsageTimeline, diff_words,
};
use fragscope::base::Progress;
use fragscope::model::{DeviceId, Item, Position, Snapshot};
use fragscope::replay::Replay;
use fragscope::session::comparison::ComparisonOf;
use fragscope::session::{Answer, Command};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Output;

/// A snapshot with its replays, and the moments of one device that are looked at.
struct Laid {
    snapshot: Snapshot,
    replays: Vec<Replay>,
    device: DeviceId,
    moments: Vec<Position>,
}

impl Laid {
    fn of(name: &str) -> Laid {
        let snapshot = open(&sample(name));
        let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        let device = snapshot.busiest_device().expect("a device");
        let memory = &snapshot.devices[device];
        let peak = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels").allocated.peak().0;
        let moments = vec![Position::START, Position(memory.end().0 / 3), peak, memory.end()];
        Laid { snapshot, replays, device, moments }
    }
    fn subject(&self) -> Subject<'_> {
        Subject { snapshot: &self.snapshot, replays: &self.replays }
    }
    /// Bytes and blocks by the text of the stack.
    fn live(&self, at: Position) -> BTreeMap<Vec<String>, (u64, u64)> {
        let memory = &self.snapshot.devices[self.device];
        let state = self.replays[self.device.0 as usize].state_at(memory, at);
        let stacks = &self.snapshot.stacks;
        let live = LiveByStack::of(&state, &memory.allocations, stacks);
        let frames = |stack| stacks.frames(stack).iter().map(|frame| stacks.line(*frame)).collect();
        live.shares.iter().map(|share| (frames(share.stack), (share.bytes, share.count))).collect()
    }
    fn allocated(&self, at: Position) -> i128 {
        let memory = &self.snapshot.devices[self.device];
        self.replays[self.device.0 as usize].state_at(memory, at).totals.allocated.into()
    }
}

fn compare(a: &Laid, at_a: Position, b: &Laid, at_b: Position, ignore_lines: bool) -> SnapshotDiff {
    let asked = Asked { subject: b.subject(), baseline: Some(a.subject()), device: b.device };
    let params = DiffParams { device_a: a.device, at_a, at_b, ignore_lines };
    SnapshotDiff::answer(&asked, &params, &Progress::new()).expect("nobody cancels")
}

#[test]
fn differences_add_up_and_are_those_of_the_states() {
    let laid = ["training", "private_pools", "expandable_segments", "late_start", "segments_only"].map(Laid::of);
    for (a, b) in laid.iter().flat_map(|a| laid.iter().map(move |b| (a, b))) {
        for (at_a, at_b) in a.moments.iter().flat_map(|at| b.moments.iter().map(move |other| (*at, *other))) {
            let diff = compare(a, at_a, b, at_b, false);
            let (live_a, live_b) = (a.live(at_a), b.live(at_b));
            let total = b.allocated(at_b) - a.allocated(at_a);
            let sum = |rows: &[DiffRow]| rows.iter().map(DiffRow::delta).sum::<i128>();
            let name = format!("{} {} {} {}", a.snapshot.origin.name, at_a.0, b.snapshot.origin.name, at_b.0);
            assert_eq!((diff.total_delta(), sum(&diff.by_size)), (total, total), "{name}");
            // Every row is what both states hold, and what is in no row holds the same.
            // Bytes and count of each side.
            type Sides = ((u64, u64), (u64, u64));
            let mut left: BTreeMap<&Vec<String>, Sides> = BTreeMap::new();
            for frames in live_a.keys().chain(live_b.keys()) {
                let of = |live: &BTreeMap<Vec<String>, (u64, u64)>| live.get(frames).copied().unwrap_or_default();
                left.insert(frames, (of(&live_a), of(&live_b)));
            }
            left.retain(|_, (a, b)| a != b);
            assert_eq!(diff.by_stack.len(), left.len(), "{name}");
            for row in &diff.by_stack {
                let frames: Vec<String> = diff.stacks.frames(row.stack).iter().map(|frame| diff.stacks.line(*frame)).collect();
                let held = ((row.a.bytes, row.a.count), (row.b.bytes, row.b.count));
                assert_eq!(left.get(&frames), Some(&held), "{name}: {frames:?}");
                let in_sizes = diff.by_size.iter().filter(|other| other.stack == row.stack);
                assert_eq!(in_sizes.map(DiffRow::delta).sum::<i128>(), row.delta(), "{name}");
            }
            let loose = compare(a, at_a, b, at_b, true);
            assert_eq!((loose.total_delta(), sum(&loose.by_size)), (total, total), "{name} without lines");
            assert!(loose.by_stack.len() <= diff.by_stack.len());
            let back = compare(b, at_b, a, at_a, false);
            assert_eq!(back.total_delta(), -total, "{name}");
            assert_eq!(back.side(DiffSide::OnlyA).count(), diff.side(DiffSide::OnlyB).count(), "{name}");
            let pools = |side: fn(&fragscope::analysis::PoolDiff) -> u64| diff.pools.iter().map(side).sum::<u64>();
            assert_eq!(pools(|pool| pool.a.map_or(0, |pool| pool.reserved)), diff.a.totals.reserved, "{name}");
            assert_eq!(diff.gaps.iter().map(|class| class.b.bytes).sum::<u64>(), diff.b.totals.free(), "{name}");
            if std::ptr::eq(a, b) && at_a == at_b {
                assert!(diff.is_empty() && diff.settings.is_empty(), "{name}");
                assert!(diff_words::verdict(&diff)[0].starts_with("A and B hold the same"), "{name}");
            }
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_fragscope");
    std::process::Command::new(program).arg("diff").args(arguments).env("SOURCE_DATE_EPOCH", "0").output().expect("it runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

fn bytes(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn the_command_line_prints_the_lists_and_their_sum() {
    let [a, b] = ["training", "expandable_segments"].map(|name| sample(name).to_string_lossy().into_owned());
    for (arguments, empty) in [
        (vec![a.as_str(), &b], false),
        (vec![&a, &a], true),
        (vec![&a, "--a", "start", "--b", "peak"], false),
        (vec![&a, "--a", "event:7", "--b", "event:7", &a], true),
        (vec![&a, &b, "--a", "end", "--b", "end", "--ignore-lines"], false),
    ] {
        let value = json(&arguments);
        let mut sum = 0;
        for (list, has_a, has_b) in [("only_a", true, false), ("only_b", false, true), ("changed", true, true)] {
            let rows = value[list].as_array().expect("a list");
            assert!(!empty || rows.is_empty(), "{arguments:?} {list}");
            let deltas: Vec<i64> = rows.iter().map(|row| bytes(row, "bytes_b") - bytes(row, "bytes_a")).collect();
            assert!(deltas.is_sorted_by_key(|delta| -delta.abs()), "{arguments:?} {list}: the largest first");
            for row in rows {
                assert_eq!((0 < bytes(row, "count_a"), 0 < bytes(row, "count_b")), (has_a, has_b), "{list} {row}");
                assert!(row["frames"].is_array() && row.get("size").is_none(), "{row}");
            }
            sum += deltas.iter().sum::<i64>();
            let of_sizes = value["by_size"][list].as_array().expect("a list");
            assert!(of_sizes.iter().all(|row| row["size"].is_u64()), "{list}");
        }
        assert_eq!(sum, bytes(&value, "total_delta"), "{arguments:?}");
        assert_eq!(sum, bytes(&value["b"], "allocated") - bytes(&value["a"], "allocated"), "{arguments:?}");
    }
}

#[test]
fn pages_are_written_and_wrong_words_are_one_sentence() {
    let folder = std::env::temp_dir().join(format!("fragscope-diff-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let [a, b] = ["private_pools", "training"].map(|name| sample(name).to_string_lossy().into_owned());
    let delta = bytes(&json(&[&a, &b]), "total_delta");
    for (ending, part) in [("png", ""), ("html", "Two snapshots compared"), ("md", "| reserved |"), ("json", "total_delta")] {
        let out = folder.join(format!("x.{ending}")).to_string_lossy().into_owned();
        let output = run(&[&a, &b, "-o", &out, "--scale", "1"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let written = std::fs::read(&out).expect("written");
        if ending == "png" {
            let picture = image::load_from_memory(&written).expect("a picture");
            assert_eq!(picture.width(), 1120);
        } else {
            let text = String::from_utf8(written).expect("text");
            assert!(text.contains(part), "{ending}");
            assert!(ending == "json" || text.contains(&diff_words::signed(delta.into())), "{ending} tells the difference");
        }
    }
    for (arguments, part) in [
        (vec![a.as_str()], "name both with --a WHEN and --b WHEN"),
        (vec![&a, "--a", "peak", "--b", "peak"], "at another moment"),
        (vec![&a, &b, "-o", "x.gif"], "its ending must be one of .png"),
        (vec![&a, &b, "--a", "oom"], "no out-of-memory event"),
        (vec![&a, &b, "--device", "9"], "no device 9"),
        (vec![&a, "nothing.pickle"], "cannot read"),
    ] {
        let output = run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(told.contains(part) && output.stdout.is_empty(), "{arguments:?}: {told}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// The comparison that the view shows for the two files that are open.
fn shown(window: &mut Window_<'_>, ignore_lines: bool) -> std::sync::Arc<fragscope::session::comparison::Comparison> {
    rest(window);
    let session = &window.state().session;
    let (front, device, _) = session.front().expect("open");
    let other = session.documents().iter().find(|document| document.id != front.id).expect("another");
    let device_a = other.snapshot.busiest_device().expect("a device");
    let peak = |document, device| match session.ask_about::<UsageTimeline>("", (document, device), None, ()) {
        Answer::Ready(usage) => usage.allocated.peak().0,
        other => panic!("not there: {:?}", other.status()),
    };
    let params = DiffParams { device_a, at_a: peak(other, device_a), at_b: peak(front, device), ignore_lines };
    match session.ask_about::<ComparisonOf>("compare", (front, device), Some((other, device_a)), (params, true)) {
        Answer::Ready(comparison) => comparison,
        other => panic!("the view has not asked for it: {:?}", other.status()),
    }
}

#[test]
fn the_view_shows_the_rows_and_a_click_selects_on_both_sides() {
    let mut window = with_sample("training");
    window.state_mut().session.send(Command::OpenSample("expandable_segments"));
    rest(&mut window);
    open_tab(&mut window, "Compare");
    let comparison = shown(&mut window, false);
    let listed = rows(&window, "differences");
    assert!(!listed.is_empty());
    assert!(listed.len() <= comparison.diff.by_stack.len());
    for sentence in diff_words::verdict(&comparison.diff) {
        window.get_by_label(&sentence);
    }
    click_at(&mut window, listed[0].1);
    let places = comparison.diff.places[comparison.diff.by_stack[0].stack.0 as usize];
    let session = &window.state().session;
    for (document, stack) in session.documents().iter().zip(places) {
        let device = document.snapshot.busiest_device().expect("a device");
        let selected = session.workspace().places.get(&(document.id, device)).and_then(|place| place.selected());
        assert_eq!(selected, stack.map(Item::Stack), "{}", document.title);
    }
    for page in ["By stack and size", "Flame", "States and settings", "Gaps and segments", "By stack"] {
        if page == "Flame" {
            // The flame view's own tab is called so too: the lower one is meant.
            let lowest = window.get_all_by_label("Flame").max_by(|a, b| a.rect().min.y.total_cmp(&b.rect().min.y));
            let at = lowest.expect("there").rect().center();
            click_at(&mut window, at);
            window.get_by_label("difference flame graph");
        } else {
            click(&mut window, page);
        }
    }
    let only_b = comparison.diff.side(DiffSide::OnlyB).count();
    click(&mut window, &format!("only in B {only_b}"));
    assert!(rows(&window, "differences").len() <= only_b);
    click(&mut window, "Ignore line numbers");
    assert!(shown(&mut window, true).diff.ignore_lines);
}

#[test]
fn one_file_is_compared_with_itself_and_closing_the_other_is_survived() {
    let mut window = with_sample("private_pools");
    open_tab(&mut window, "Compare");
    window.get_by_label_contains("Only this file is open");
    click(&mut window, "Over time");
    window.get_by_label("two timelines");
    window.state_mut().session.send(Command::OpenSample("segments_only"));
    rest(&mut window);
    window.get_by_label_contains("Reserved memory");
    let front = window.state().session.active().expect("open").id;
    window.state_mut().session.send(Command::Close(front));
    rest(&mut window);
    window.get_by_label_contains("Only this file is open");
}

#[test]
fn a_comparison_goes_when_either_document_is_closed() {
    let mut session = opened(&["training", "private_pools"]);
    let ids: Vec<_> = session.documents().iter().map(|document| document.id).collect();
    let params = DiffParams { device_a: DeviceId(0), at_a: Position(9), at_b: Position(9), ignore_lines: false };
    let ask = |session: &fragscope::session::Session| {
        let [a, b] = [&session.documents()[0], &session.documents()[1]];
        session.ask_about::<ComparisonOf>("test", (b, DeviceId(0)), Some((a, DeviceId(0))), (params, false)).value().cloned()
    };
    assert!(ask(&session).is_none(), "a job works it out");
    settle(&mut session);
    assert!(ask(&session).is_some());
    session.apply(Command::SelectIn(ids[0], DeviceId(0), Item::Stack(fragscope::model::StackId(u32::MAX - 1))));
    let place = session.workspace().places.get(&(ids[0], DeviceId(0))).expect("a place");
    assert_eq!(place.selected(), None, "what is not there is not selected");
    session.apply(Command::Close(ids[0]));
    settle(&mut session);
    assert_eq!(session.documents().len(), 1);
}
