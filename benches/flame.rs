//! How long a flame graph takes: the tree of tens of thousands of stacks, and one frame of its picture.
//!
//! `cargo bench --bench flame [-- FILE…]`; made-up stacks first, then the files or the largest samples. A tree is
//! built in a job; its picture is laid out on every frame and has its share of 8 ms. The fastest of ten counts.

use fragscope::analysis::{FlameDirection, FlameMatches, FlameNodeId, FlameOf, FlameParams, FlameTree, LiveCounter};
use fragscope::base::Progress;
use fragscope::chart::flame::{FlameColour, FlameInks, FlameInput, draw};
use fragscope::model::{Action, Frame, Origin, Snapshot, StackId, StreamId, TraceEntry};
use fragscope::replay::{Replay, SnapshotBuilder};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const STACKS: u64 = 50_000;
const ROUNDS: usize = 10;

fn main() -> ExitCode {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.starts_with("--bench")).collect();
    if files.is_empty() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_snapshots");
        files = ["training", "streams"].iter().map(|name| samples.join(format!("{name}.pickle.gz"))).collect();
    }
    println!("{:>8} {:>8} {:>9} {:>9} {:>9} {:>7}  of", "stacks", "nodes", "tree ms", "search ms", "frame ms", "marks");
    let Some(snapshot) = made_up() else { return ExitCode::from(2) };
    measure("made up", &snapshot);
    for file in &files {
        match fragscope::format::open(file, &Progress::new()) {
            Ok(snapshot) => measure(&file.to_string_lossy(), &snapshot),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

fn measure(name: &str, snapshot: &Snapshot) {
    let Some(device) = snapshot.busiest_device() else { return };
    let memory = &snapshot.devices[device];
    let replay = Replay::new(memory);
    let inks = FlameInks::new(&snapshot.stacks, FlameColour::Stack);
    let of = FlameOf::Live { at: memory.end(), counter: LiveCounter::Allocated };
    for (direction, fold_framework) in [
        (FlameDirection::TopDown, false),
        (FlameDirection::TopDown, true),
        (FlameDirection::BottomUp, false),
        (FlameDirection::BottomUp, true),
    ] {
        let params = FlameParams { of, direction, fold_framework };
        let build = || FlameTree::of(memory, &replay, &snapshot.stacks, &params, &Progress::new());
        let Ok(tree) = build() else { return };
        let tree_time = fastest(|| drop(build()));
        let found = FlameMatches::of(&tree, &snapshot.stacks, "layer7");
        let search_time = fastest(|| drop(FlameMatches::of(&tree, &snapshot.stacks, "layer7")));
        let whole = FlameInput::whole(&tree, &snapshot.stacks, &inks, 2560.0, 1400.0);
        // The slowest of the whole, a branch, and a zoom with everything else dimmed.
        let branch = tree.children(FlameNodeId::ROOT).next().unwrap_or(FlameNodeId::ROOT);
        let frames = [
            whole.clone(),
            FlameInput { focus: branch, ..whole.clone() },
            FlameInput { visible: 0.4..0.6, matches: Some(&found), ..whole },
        ];
        let frame_time = frames.iter().map(|input| fastest(|| drop(draw(input)))).max().unwrap_or_default();
        let marks = frames.iter().map(|input| draw(input).drawing.marks.len()).max().unwrap_or_default();
        println!(
            "{:8} {:8} {:9.2} {:9.2} {:9.2} {marks:7}  {name}, {direction:?}{}",
            tree.root().ends,
            tree.nodes.len(),
            milliseconds(tree_time),
            milliseconds(search_time),
            milliseconds(frame_time),
            if fold_framework { ", folded" } else { "" },
        );
    }
}

fn fastest(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// As many distinct stacks as large files hold, thirty frames deep, half of them PyTorch's.
fn made_up() -> Option<Snapshot> {
    let mut builder = SnapshotBuilder::default();
    let mut stacks: Vec<StackId> = Vec::new();
    for i in 0..STACKS {
        let mut frames = Vec::new();
        for level in 0..30u64 {
            // Outer levels have few variants, inner ones many.
            let variant = i >> (14u64.saturating_sub(level / 2));
            let file = if level % 2 == 0 { "/x/site-packages/torch/nn/modules/module.py" } else { "/home/user/model.py" };
            let name = builder.stacks.strings.intern(&format!("layer{}", variant % 97));
            let filename = builder.stacks.strings.intern(file);
            frames.push(builder.stacks.intern_frame(Frame { name, filename, line: (level * 10 + variant % 89) as i64 }));
        }
        frames.reverse();
        stacks.push(builder.stacks.intern(&frames));
    }
    for (i, stack) in (0u64..).zip(stacks) {
        builder.device(0).trace.push(TraceEntry {
            action: Action::Alloc,
            address: 0x7000_0000_0000 + i * 65_536,
            size: 512 * (1 + i % 128),
            stream: StreamId::DEFAULT,
            time_us: None,
            stack,
            pool: None,
            compile_context: None,
            user_metadata: None,
        });
    }
    builder.finish(Origin::default(), &Progress::new()).ok()
}
