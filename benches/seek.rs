//! How long it takes to know any moment: `state_at` at random events, and the layout's size there.
//!
//! `cargo bench --bench seek [-- FILE…]`; without files the longest samples. Fails where the 99th percentile is
//! above what a view may wait for.

use fragscope::base::Progress;
use fragscope::model::Position;
use fragscope::replay::Replay;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SEEKS: usize = 4000;
const LIMIT_P99: Duration = Duration::from_millis(10);
const DEFAULT: [&str; 2] = ["fragmentation_oom", "streams"];

fn main() -> ExitCode {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.starts_with("--bench")).collect();
    if files.is_empty() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_snapshots");
        files = DEFAULT.iter().map(|name| samples.join(format!("{name}.pickle.gz"))).collect();
    }
    println!("{:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}  file", "events", "lives", "blocks", "prepare", "p50", "p99", "worst");
    let mut slow = false;
    for file in &files {
        let snapshot = match fragscope::format::open(file, &Progress::new()) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        };
        let Some(device) = snapshot.busiest_device() else { continue };
        let memory = &snapshot.devices[device];
        let start = Instant::now();
        let replay = Replay::new(memory);
        let prepare = start.elapsed();
        let (mut seed, mut blocks) = (0x2545_f491_4f6c_dd1d_u64, 0);
        let mut times: Vec<Duration> = (0..SEEKS)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let position = Position(((seed >> 33) % (memory.trace.len() as u64 + 1)) as u32);
                let start = Instant::now();
                let state = replay.state_at(memory, position);
                let took = start.elapsed();
                blocks = blocks.max(state.blocks.len());
                took
            })
            .collect();
        times.sort_unstable();
        let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
        let (p50, p99, worst) = (times[SEEKS / 2], times[SEEKS * 99 / 100], times[SEEKS - 1]);
        println!(
            "{:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}  {}",
            memory.trace.len(),
            memory.allocations.len(),
            blocks,
            ms(prepare),
            ms(p50),
            ms(p99),
            ms(worst),
            file.display()
        );
        slow |= LIMIT_P99 < p99;
    }
    if slow {
        eprintln!("too slow: the 99th percentile is above {LIMIT_P99:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
