//! Flame graphs: trees against the allocator's books, files against trees, pictures as text, the subcommand.
//!
//! Texts are compared with `tests/expected/`; `BLESS=1` writes them anew.

use crate::samples;
use fragscope::analysis::{
    FlameDirection, FlameLabel, FlameMatches, FlameNodeId, FlameOf, FlameParams, FlameTree, LiveByStack, LiveCounter,
    UsageTimeline, WindowSum,
};
use fragscope::base::Progress;
use fragscope::chart::drawing::MAX_MARKS;
use fragscope::chart::flame::{FlameColour, FlameHit, FlameInks, FlameInput, FlameShape, LEVEL_PT, draw};
use fragscope::model::{Action, DeviceMemory, Frame, Item, Origin, Position, Snapshot, StackId, StreamId, TraceEntry};
use fragscope::replay::{Replay, SnapshotBuilder};
use fragscope::report::{FLAMES, FlameSubject, ReportOptions, flame_of_extension};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A device with all that trees are built from.
struct Grown<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    replay: Replay,
}

impl Grown<'_> {
    fn of(snapshot: &Snapshot) -> Vec<Grown<'_>> {
        let devices = snapshot.devices.as_slice().iter();
        devices.map(|memory| Grown { snapshot, memory, replay: Replay::new(memory) }).collect()
    }
    fn tree(&self, of: FlameOf, direction: FlameDirection, fold_framework: bool) -> FlameTree {
        let params = FlameParams { of, direction, fold_framework };
        FlameTree::of(self.memory, &self.replay, &self.snapshot.stacks, &params, &Progress::new()).expect("nobody cancels")
    }
    fn live(&self, at: Position, counter: LiveCounter) -> FlameTree {
        self.tree(FlameOf::Live { at, counter }, FlameDirection::TopDown, false)
    }
    fn written(&self, tree: &FlameTree, extension: &str) -> Vec<u8> {
        let form = flame_of_extension(extension).expect("a form of flame graph");
        let mut bytes = Vec::new();
        let subject = FlameSubject { snapshot: self.snapshot, device: "device 0", tree };
        form.write(&subject, &ReportOptions::default(), &mut bytes).expect("memory takes it");
        bytes
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut seed = seed | 1;
    move |n| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n.max(1)
    }
}

fn every_shape() -> impl Iterator<Item = (FlameDirection, bool)> {
    [FlameDirection::TopDown, FlameDirection::BottomUp].into_iter().flat_map(|way| [(way, false), (way, true)])
}

/// What holds in every tree.
fn check_tree(tree: &FlameTree, what: &str) {
    assert_eq!(tree.root().parent, FlameNodeId::ROOT);
    for (id, node) in tree.nodes.iter() {
        let children: Vec<_> = tree.children(id).map(|child| tree.nodes[child]).collect();
        let sum = |part: &dyn Fn(&fragscope::analysis::FlameNode) -> i128| children.iter().map(part).sum::<i128>();
        assert_eq!(node.value, node.self_value + sum(&|child| child.value), "{what}: {node:?}");
        let widths = node.self_value.unsigned_abs() as i128 + sum(&|child| child.weight as i128);
        assert_eq!(node.weight as i128, widths, "{what}: {node:?}");
        assert_eq!(i128::from(node.ends), i128::from(node.self_value != 0) + sum(&|child| child.ends.into()), "{what}");
        assert!(children.iter().all(|child| child.parent == id && child.depth == node.depth + 1 && 0 < child.weight));
        assert!(children.is_sorted_by(|a, b| b.weight <= a.weight), "{what}: widest first");
        let mut labels: Vec<_> = children.iter().map(|child| child.label).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), children.len(), "{what}: a frame stands once under its parent");
        assert!(id == FlameNodeId::ROOT || node.parent < id, "{what}: parents come first");
    }
}

#[test]
fn a_tree_is_the_allocators_books() {
    let mut next = random(3);
    for path in samples::pairs(&samples::folder()) {
        let (name, snapshot) = (samples::stem(&path), samples::open(&path));
        for device in Grown::of(&snapshot) {
            let end = u64::from(device.memory.end().0);
            let mut moments: Vec<u32> = (0..6).map(|_| next(end + 1) as u32).collect();
            moments.extend([0, end as u32, u32::MAX]);
            for at in moments.into_iter().map(Position) {
                let state = device.replay.state_at(device.memory, at);
                let live = LiveByStack::of(&state, &device.memory.allocations, &snapshot.stacks);
                for counter in LiveCounter::ALL {
                    let booked = match counter {
                        LiveCounter::Allocated => live.shares.iter().map(|share| share.bytes).sum(),
                        LiveCounter::Requested => state.totals.requested,
                        LiveCounter::Active => state.totals.active,
                    };
                    for (direction, fold) in every_shape() {
                        let what = format!("{name} at {at:?}, {counter:?}, {direction:?}, folded: {fold}");
                        let tree = device.tree(FlameOf::Live { at, counter }, direction, fold);
                        assert_eq!(tree.root().value, i128::from(booked), "{what}");
                        check_tree(&tree, &what);
                        let no_stack = tree.children(FlameNodeId::ROOT).find(|n| tree.nodes[*n].label == FlameLabel::NoStack);
                        if counter == LiveCounter::Allocated {
                            let share = live.shares.iter().find(|share| share.stack == StackId::EMPTY).map_or(0, |s| s.bytes);
                            assert_eq!(no_stack.map_or(0, |n| tree.nodes[n].value), i128::from(share), "{what}: no stack");
                            assert_eq!(i128::from(tree.root().blocks), live.shares.iter().map(|s| i128::from(s.count)).sum());
                        }
                        if counter == LiveCounter::Allocated && !fold && direction == FlameDirection::TopDown {
                            assert_eq!(state.totals.allocated, booked, "{what}");
                            assert_eq!(tree.root().ends as usize, live.shares.len(), "{what}: one end a stack");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn differences_and_windows_add_up() {
    let mut next = random(5);
    for path in samples::pairs(&samples::folder()) {
        let (name, snapshot) = (samples::stem(&path), samples::open(&path));
        for device in Grown::of(&snapshot) {
            let memory = device.memory;
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            let end = u64::from(memory.end().0);
            for _ in 0..4 {
                let (a, b) = (Position(next(end + 1) as u32), Position(next(end + 1) as u32));
                let what = format!("{name} from {a:?} to {b:?}");
                for (direction, fold) in every_shape() {
                    for (counter, curve) in LiveCounter::ALL.into_iter().zip([&usage.allocated, &usage.requested, &usage.active])
                    {
                        let difference = |from, to| device.tree(FlameOf::Difference { from, to, counter }, direction, fold);
                        let tree = difference(a, b);
                        check_tree(&tree, &what);
                        assert_eq!(tree.root().value, i128::from(curve.at(b)) - i128::from(curve.at(a)), "{what}");
                        let own: i128 = tree.nodes.as_slice().iter().map(|node| node.self_value).sum();
                        assert_eq!(own, tree.root().value, "{what}: deltas sum");
                        assert_eq!(difference(b, a).root().value, -tree.root().value, "{what}");
                        let same = difference(a, a);
                        assert!(same.is_empty() && same.nodes.len() == 1 && same.root().value == 0, "{what}: with itself");
                    }
                    let (from, to) = (a.min(b), a.max(b));
                    let window = |sum| device.tree(FlameOf::Window { from, to, sum }, direction, fold);
                    let lives = &memory.allocations;
                    let born = || lives.ids().map(|id| lives.get(id)).filter(|life| from < life.born && life.born <= to);
                    let area: i128 = (from.0..to.0).map(|p| i128::from(usage.allocated.at(Position(p)))).sum();
                    for (sum, booked) in [
                        (WindowSum::Allocated, born().map(|life| i128::from(life.size)).sum::<i128>()),
                        (WindowSum::Count, born().count() as i128),
                        (WindowSum::ByteEvents, area),
                    ] {
                        let tree = window(sum);
                        check_tree(&tree, &what);
                        assert_eq!(tree.root().value, booked, "{what}: {sum:?}");
                    }
                }
            }
            let all = FlameOf::Window { from: Position::START, to: Position(u32::MAX), sum: WindowSum::ByteEvents };
            let area: i128 = (0..=memory.end().0).map(|p| i128::from(usage.allocated.at(Position(p)))).sum();
            assert_eq!(device.tree(all, FlameDirection::TopDown, false).root().value, area, "{name}: the whole area");
        }
    }
}

#[test]
fn every_form_sums_to_the_counter() {
    for path in samples::pairs(&samples::folder()) {
        let (name, snapshot) = (samples::stem(&path), samples::open(&path));
        for device in Grown::of(&snapshot) {
            for counter in LiveCounter::ALL {
                let tree = device.live(device.memory.end(), counter);
                let root = tree.root().value;
                let folded = String::from_utf8(device.written(&tree, "folded")).expect("UTF-8");
                let values = folded.lines().map(|line| {
                    let (stack, value) = line.rsplit_once(' ').expect("a value at the end");
                    assert!(stack.starts_with("root;"), "{name}: {line}");
                    value.parse::<i128>().expect("a number")
                });
                assert_eq!(values.sum::<i128>(), root, "{name}: folded");
                let json: Value = serde_json::from_slice(&device.written(&tree, "json")).expect("JSON");
                let profile = &json["profiles"][0];
                let weights = profile["weights"].as_array().expect("a list");
                let sum: u64 = weights.iter().map(|weight| weight.as_u64().expect("bytes")).sum();
                assert_eq!(i128::from(sum), root, "{name}: speedscope");
                assert_eq!(profile["endValue"], sum);
                let frames = json["shared"]["frames"].as_array().expect("a list").len() as u64;
                let samples = profile["samples"].as_array().expect("a list");
                assert_eq!(samples.len(), weights.len());
                let mut rows = samples.iter().flat_map(|sample| sample.as_array().expect("a list"));
                assert!(rows.all(|row| row.as_u64().is_some_and(|row| row < frames)), "{name}: frames are known");
                let svg = String::from_utf8(device.written(&tree, "SVG")).expect("UTF-8");
                let shown = if root == 0 { "Nothing is".to_owned() } else { format!("fg:w=\"{root}\"") };
                assert!(svg.contains(&shown) && svg.trim_end().ends_with("</svg>"), "{name}: no {shown}");
            }
            let png = device.written(&device.live(device.memory.end(), LiveCounter::Allocated), "png");
            let picture = image::load_from_memory(&png).expect("a PNG").to_rgb8();
            assert_eq!(picture.width(), ReportOptions::default().width_pt);
        }
    }
    assert!(FLAMES.iter().all(|form| flame_of_extension(form.extension()).is_some()) && flame_of_extension("docx").is_none());
}

#[test]
fn folded_lines_stay_as_they_are() {
    for (name, fold) in [("fragmentation_oom", false), ("training", true)] {
        let snapshot = samples::open(&samples::sample(name));
        let device = &Grown::of(&snapshot)[0];
        let of = FlameOf::Live { at: device.memory.end(), counter: LiveCounter::Allocated };
        let tree = device.tree(of, FlameDirection::TopDown, fold);
        let folded = String::from_utf8(device.written(&tree, "folded")).expect("UTF-8");
        check_expected(&format!("flame_{name}.folded"), &folded);
    }
}

fn check_expected(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{name} differs; if it is right, run with BLESS=1. Now:\n{text}");
}

/// Blocks by stack, innermost frame (name, file) first; never freed.
fn by_hand(blocks: &[(&[(&str, &str)], u64)]) -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    let mut address = 0x7000_0000_0000;
    for (stack, size) in blocks {
        let frames: Vec<_> = stack
            .iter()
            .map(|(name, file)| {
                let (name, filename) = (builder.stacks.strings.intern(name), builder.stacks.strings.intern(file));
                builder.stacks.intern_frame(Frame { name, filename, line: 7 })
            })
            .collect();
        let stack = builder.stacks.intern(&frames);
        builder.device(0).trace.push(TraceEntry {
            action: Action::Alloc,
            address,
            size: *size,
            stream: StreamId::DEFAULT,
            time_us: None,
            stack,
            pool: None,
            compile_context: None,
            user_metadata: None,
        });
        address += (*size).next_multiple_of(512);
    }
    builder.finish(Origin { name: "by hand".into(), ..Origin::default() }, &Progress::new()).expect("not cancelled")
}

const TORCH: &str = "/x/site-packages/torch/nn.py";
const MIB: u64 = 1 << 20;

fn tiny() -> Snapshot {
    let (main, forward, loss) = (("main", "run.py"), ("forward", "mlp.py"), ("loss", "mlp.py"));
    by_hand(&[
        (&[("linear", TORCH), forward, ("call", TORCH), main], 6 * MIB),
        (&[forward, ("call", TORCH), main], MIB),
        (&[("linear", TORCH), loss, main], 2 * MIB),
        (&[("empty", TORCH)], MIB),
        (&[], 2 * MIB),
    ])
}

/// The tree in indented lines.
fn dump(snapshot: &Snapshot, tree: &FlameTree) -> String {
    let mut lines = Vec::new();
    let mut open = vec![FlameNodeId::ROOT];
    while let Some(id) = open.pop() {
        let node = tree.nodes[id];
        let name = match node.label {
            FlameLabel::All => "all",
            FlameLabel::NoStack => "<no stack>",
            FlameLabel::Frame(frame) => snapshot.stacks.function(frame),
        };
        let own = if node.self_value == 0 { String::new() } else { format!(" ({})", node.self_value / MIB as i128) };
        lines.push(format!("{}{name} {}{own}", " ".repeat(node.depth as usize), node.value / MIB as i128));
        open.extend(tree.children(id).rev());
    }
    lines.join("\n")
}

#[test]
fn trees_turn_and_fold() {
    let snapshot = tiny();
    let device = &Grown::of(&snapshot)[0];
    let of = FlameOf::Live { at: device.memory.end(), counter: LiveCounter::Allocated };
    for (direction, fold, expected) in [
        (
            FlameDirection::TopDown,
            false,
            "all 12\n main 9\n  call 7\n   forward 7 (1)\n    linear 6 (6)\n  loss 2\n   linear 2 (2)\n <no stack> 2 (2)\n empty 1 (1)",
        ),
        (FlameDirection::TopDown, true, "all 12\n main 9\n  forward 7 (7)\n  loss 2 (2)\n <no stack> 2 (2)\n empty 1 (1)"),
        (
            FlameDirection::BottomUp,
            false,
            "all 12\n linear 8\n  forward 6\n   call 6\n    main 6 (6)\n  loss 2\n   main 2 (2)\n <no stack> 2 (2)\n \
             forward 1\n  call 1\n   main 1 (1)\n empty 1 (1)",
        ),
        (
            FlameDirection::BottomUp,
            true,
            "all 12\n forward 7\n  main 7 (7)\n <no stack> 2 (2)\n loss 2\n  main 2 (2)\n empty 1 (1)",
        ),
    ] {
        assert_eq!(dump(&snapshot, &device.tree(of, direction, fold)), expected, "{direction:?}, folded: {fold}");
    }
    let tree = device.tree(of, FlameDirection::TopDown, false);
    for (text, hits, mib) in
        [("LINEAR", 2, 8), ("mlp.py:7", 2, 9), ("no stack", 1, 2), ("", 0, 0), ("main", 1, 9), ("nn.py", 4, 10)]
    {
        let found = FlameMatches::of(&tree, &snapshot.stacks, text);
        assert_eq!((found.hits, found.value), (hits, i128::from(mib * MIB)), "{text:?}");
    }
    let forward = node(&snapshot, &tree, "forward");
    let folded = device.tree(of, FlameDirection::TopDown, true);
    let cut = device.tree(FlameOf::Live { at: Position::START, counter: LiveCounter::Active }, FlameDirection::TopDown, false);
    assert_eq!(tree.same_in(&tree, forward), forward);
    assert_eq!(folded.same_in(&tree, forward), node(&snapshot, &folded, "main"), "as near as the other tree goes");
    assert_eq!(cut.same_in(&tree, forward), FlameNodeId::ROOT);
}

fn node(snapshot: &Snapshot, tree: &FlameTree, function: &str) -> FlameNodeId {
    let is = |label| matches!(label, FlameLabel::Frame(frame) if snapshot.stacks.function(frame) == function);
    tree.nodes.iter().find(|(_, node)| is(node.label)).expect("such a node").0
}

#[test]
fn names_of_any_kind_are_written_safely() {
    let wild = [("a;b\n<c> & \"d\"\u{1}", "x;y.py"), ("# operator new 12", ""), ("", "??"), ("]]>", "m.py")];
    let snapshot = by_hand(&[(&wild, MIB), (&wild[1..], MIB), (&wild[3..], 3 * MIB), (&[], 4096)]);
    let device = &Grown::of(&snapshot)[0];
    let tree = device.live(device.memory.end(), LiveCounter::Allocated);
    let folded = String::from_utf8(device.written(&tree, "folded")).expect("UTF-8");
    assert_eq!(
        folded,
        "root;]]> (m.py:7);_;_# operator new_12;a,b <c> & \"d\"  (x,y.py:7) 1048576\n\
         root;]]> (m.py:7);_;_# operator new_12 1048576\nroot;]]> (m.py:7) 3145728\nroot;<no stack> 4096\n"
    );
    let svg = String::from_utf8(device.written(&tree, "svg")).expect("UTF-8");
    for part in ["a,b &lt;c&gt; &amp;", "fg:w=\"5246976\"", "&lt;no stack&gt; (4,096 bytes"] {
        assert!(svg.contains(part), "{part} in {svg}");
    }
    assert!(!svg.contains('\u{1}') && !svg.contains("<c>"));
    let json: Value = serde_json::from_slice(&device.written(&tree, "json")).expect("JSON");
    let frames = json["shared"]["frames"].as_array().expect("a list");
    assert!(frames.iter().any(|frame| frame["name"] == wild[0].0 && frame["file"] == "x;y.py" && frame["line"] == 7));
}

#[test]
fn a_drawing_of_a_flame_graph_stays_as_it_is() {
    let snapshot = tiny();
    let device = &Grown::of(&snapshot)[0];
    let tree = device.live(device.memory.end(), LiveCounter::Allocated);
    let inks = FlameInks::new(&snapshot.stacks, FlameColour::Stack);
    let found = FlameMatches::of(&tree, &snapshot.stacks, "forward");
    let forward = node(&snapshot, &tree, "forward");
    let whole = FlameInput::whole(&tree, &snapshot.stacks, &inks, 600.0, 120.0);
    check_expected("flame_whole.txt", &draw(&whole).drawing.dump());
    let searched = FlameInput { matches: Some(&found), hovered: Some(forward), shape: FlameShape::Flame, ..whole.clone() };
    check_expected("flame_search.txt", &draw(&searched).drawing.dump());
    let focused = FlameInput { focus: forward, selected: Some(forward), ..whole.clone() };
    check_expected("flame_focus.txt", &draw(&focused).drawing.dump());
    let of = FlameOf::Difference { from: device.memory.end(), to: Position(2), counter: LiveCounter::Allocated };
    let difference = device.tree(of, FlameDirection::TopDown, false);
    let shrunk = FlameInput { tree: &difference, ..whole.clone() };
    check_expected("flame_difference.txt", &draw(&shrunk).drawing.dump());

    let drawing = draw(&focused);
    let level = |n: f32| n * LEVEL_PT + 3.0;
    for (x, y, wanted) in [
        (300.0, level(0.0), Some(FlameHit::Node(FlameNodeId::ROOT))),
        (599.0, level(1.0), Some(FlameHit::Node(node(&snapshot, &tree, "main")))),
        (300.0, level(3.0), Some(FlameHit::Node(forward))),
        (100.0, level(4.0), tree.children(forward).next().map(FlameHit::Node)),
        (590.0, level(4.0), None),
    ] {
        assert_eq!(drawing.pick(x, y), wanted, "{x},{y}");
    }
    assert_eq!(drawing.content_height_pt, 5.0 * LEVEL_PT);
    let stack = snapshot.devices.as_slice()[0].allocations.stacks()[1];
    assert_eq!(drawing.drawing.pick(300.0, level(3.0)), Some(Item::Stack(stack)), "the stack that ends there");
    assert_eq!(drawing.area_of(forward).map(|area| area.x1), Some(599.5));
}

#[test]
fn any_tree_fits_a_drawing() {
    let names: Vec<String> = (0..40_000).map(|i| format!("f{i}")).collect();
    let file = "wide.py";
    // 12 000 equal siblings; forty levels of a thousand branches; one branch deeper than any screen.
    let wide: Vec<Vec<(&str, &str)>> = names[..12_000].iter().map(|name| vec![(name.as_str(), file), ("main", file)]).collect();
    let deep: Vec<Vec<(&str, &str)>> =
        (0..1000).map(|i| (0..40).map(|level| (names[40 * i + level].as_str(), file)).collect()).collect();
    let deepest: Vec<(&str, &str)> = names[..3000].iter().map(|name| (name.as_str(), file)).collect();
    for (stacks, what) in [(wide, "wide"), (deep, "deep"), (vec![deepest], "deepest"), (vec![], "empty")] {
        let blocks: Vec<(&[(&str, &str)], u64)> = stacks.iter().map(|stack| (stack.as_slice(), 512)).collect();
        let snapshot = by_hand(&blocks);
        let Some(device) = Grown::of(&snapshot).pop() else { continue };
        let tree = device.live(device.memory.end(), LiveCounter::Allocated);
        let inks = FlameInks::new(&snapshot.stacks, FlameColour::Module);
        let whole = FlameInput::whole(&tree, &snapshot.stacks, &inks, 2560.0, 1400.0);
        let drawing = draw(&whole);
        assert!(drawing.drawing.marks.len() <= MAX_MARKS && 1 < drawing.drawing.marks.len(), "{what}");
        let in_reach = |x0: f32, x1: f32| (0.0..=2560.0).contains(&x0) && (0.0..=2560.0).contains(&x1);
        if what == "wide" {
            let Some(FlameHit::Rest { first, count }) = drawing.pick(1280.0, 2.0 * LEVEL_PT + 3.0) else { panic!("one rest") };
            assert_eq!((tree.nodes[first].depth, count), (2, 12_000));
            // Zoomed in, what was a rest is seen apart, and what lies left of the view is not drawn.
            let zoomed = draw(&FlameInput { visible: 0.5..0.51, ..whole.clone() });
            let Some(FlameHit::Node(node)) = zoomed.pick(1280.0, 2.0 * LEVEL_PT + 3.0) else { panic!("a node") };
            let area = zoomed.area_of(node).expect("it is drawn");
            assert!(in_reach(area.x0, area.x1) && 20.0 < area.width(), "{area:?}");
            assert!(zoomed.drawing.marks.len() < 1000, "{}", zoomed.drawing.marks.len());
        }
        if what == "deepest" {
            assert_eq!(drawing.content_height_pt, 3001.0 * LEVEL_PT);
            let bottom = draw(&FlameInput { scroll_pt: 3001.0 * LEVEL_PT - 1400.0, ..whole.clone() });
            assert!(matches!(bottom.pick(5.0, 1390.0), Some(FlameHit::Node(node)) if tree.nodes[node].children == 0));
        }
    }
}

#[test]
fn the_subcommand_writes_what_its_ending_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
        command.arg("flame").args(arguments).stdin(Stdio::null()).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        let output = command.output().expect("the program starts");
        assert!(output.stdout.is_empty(), "answers go to the file");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let sample = |name: &str| samples::sample(name).to_string_lossy().into_owned();
    let streams = samples::open(&samples::sample("streams"));
    let device = &Grown::of(&streams)[0];
    let pending = (0..=device.memory.end().0)
        .map(Position)
        .find(|at| 0 < device.replay.state_at(device.memory, *at).totals.pending_free())
        .expect("a pending free");
    let totals = device.replay.state_at(device.memory, pending).totals;
    let event = pending.event_number().to_string();
    for (counter, booked) in [
        (&[][..], totals.allocated),
        (&["--counter", "allocated"], totals.allocated),
        (&["--counter", "active"], totals.active),
        (&["--counter", "requested", "--fold"], totals.requested),
    ] {
        let out = file("x.folded");
        let file = sample("streams");
        let (code, said) = run(&[&[file.as_str(), "--event", &event, "-o", &out], counter].concat());
        assert_eq!(code, Some(0), "{said}");
        let text = std::fs::read_to_string(&out).expect("it was written");
        let sum: u64 = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
        assert_eq!(sum, booked, "{counter:?}");
    }
    let training = sample("training");
    // Narrower than its own margins.
    let (code, said) = run(&[&training, "-o", &file("narrow.svg"), "--size", "1x1"]);
    assert_eq!(code, Some(0), "{said}");
    for (out, begins) in [("a.svg", &b"<?xml"[..]), ("b.json", b"{"), ("c.PNG", b"\x89PNG"), ("d.folded", b"root;")] {
        let (code, said) = run(&[&training, "--peak", "--out", &file(out)]);
        assert_eq!(code, Some(0), "{said}");
        assert!(std::fs::read(file(out)).expect("it was written").starts_with(begins), "{out}");
    }
    for (arguments, size, dark) in [
        (&["--size", "900x700"][..], [900, 700], false),
        (&["--size", "900x700", "--scale", "2", "--theme", "dark"], [1800, 1400], true),
    ] {
        let out = file("sized.png");
        let (code, said) = run(&[&[training.as_str(), "--peak", "-o", &out], arguments].concat());
        assert_eq!(code, Some(0), "{said}");
        let picture = image::open(&out).expect("a picture").to_rgb8();
        assert_eq!(picture.width(), size[0], "{arguments:?}");
        assert!(size[1] <= picture.height(), "{arguments:?}: no lower than asked for");
        assert_eq!(picture.get_pixel(1, 1).0[0] < 128, dark, "{arguments:?}");
    }
    for (arguments, parts) in [
        (&[&training, "-o", "x.png", "--size", "12"][..], &["1600x1000"][..]),
        (&[&training, "-o", "x.png", "--scale", "99"], &["0.25 to 8"]),
        (&[&training, "-o", "x.png", "--size", "60000x60000"], &["too large"]),
        (&[&training, "-o", "x.docx"], &["x.docx", ".svg", ".folded", ".json (speedscope)", ".png"]),
        (&[&training, "-o", "x"], &["x", ".svg"]),
        (&[&training], &["--out <OUT>"]),
        (&[&training, "-o", "x.svg", "--counter", "reserved"], &["allocated", "requested", "active"]),
        (&[&training, "-o", "x.svg", "--device", "7"], &["no device 7"]),
        (&[&training, "-o", "x.svg", "--oom"], &["no out-of-memory event"]),
        (&["missing.pickle", "-o", "x.svg"], &["missing.pickle"]),
        (&[&training, "-o", &file("no/such/x.svg")], &["cannot be written"]),
    ] {
        let (code, said) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)) && !said.contains("panicked"), "{arguments:?} said: {said}");
    }
}
