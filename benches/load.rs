//! How fast a snapshot is read, and how much memory that takes: bytes to rows, then rows to lives.
//!
//! `cargo bench --bench load [-- FILE…]`; without files the longest samples. Each file is read three times, the
//! fastest counts; memory is the peak of the process's anonymous pages, which a mapped file is
//! not part of, over reading and replaying.

#[path = "made/memory.rs"]
mod memory;

use fragscope::base::Progress;
use fragscope::replay::SnapshotBuilder;
use memory::PeakMemory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const DEFAULT: [&str; 2] = ["fragmentation_oom", "streams"];
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.starts_with("--bench")).collect();
    if files.is_empty() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_snapshots");
        files = DEFAULT.iter().map(|name| samples.join(format!("{name}.pickle.gz"))).collect();
    }
    println!(
        "{:>9} {:>9} {:>8} {:>10} {:>9} {:>9} {:>9}  file",
        "MB", "events", "read s", "events/s", "MB/s", "replay s", "peak MB"
    );
    for file in &files {
        let peak = PeakMemory::watch();
        let mut best: Option<(Duration, Duration, usize)> = None;
        for _ in 0..ROUNDS {
            let mut builder = SnapshotBuilder::default();
            let start = Instant::now();
            let origin = match fragscope::format::read(file, &mut builder, &Progress::new()) {
                Ok(origin) => origin,
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::from(2);
                }
            };
            let read = start.elapsed();
            let start = Instant::now();
            let Ok(snapshot) = builder.finish(origin, &Progress::new()) else { return ExitCode::from(2) };
            let replayed = start.elapsed();
            let events = snapshot.devices.as_slice().iter().map(|device| device.trace.len()).sum();
            drop(snapshot);
            if best.is_none_or(|(fastest, ..)| read < fastest) {
                best = Some((read, replayed, events));
            }
        }
        let bytes = std::fs::metadata(file).map_or(0, |facts| facts.len()) as f64 / 1e6;
        if let Some((read, replayed, events)) = best {
            let seconds = read.as_secs_f64();
            println!(
                "{bytes:9.1} {events:9} {seconds:8.3} {:10.0} {:9.0} {:9.3} {:9.1}  {}",
                events as f64 / seconds,
                bytes / seconds,
                replayed.as_secs_f64(),
                peak.stop() as f64 / 1e6,
                file.display()
            );
        }
    }
    ExitCode::SUCCESS
}
