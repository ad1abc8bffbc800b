//! How soon the first complete usage picture stands, and in how much memory, beside Python's `pickle.load` of the
//! same file, which then has drawn nothing yet.
//!
//! `cargo bench --bench first_picture [-- FILE…]`; without files one of a million events is made. Every run is a
//! process of its own, ours and Python's in turn, the median of each counts; memory is the peak of anonymous pages.
//! Fails where the picture is less than four times sooner, or takes more than half of Python's memory.

mod made;
#[path = "made/memory.rs"]
mod memory;

use fragscope::analysis::UsageTimeline;
use fragscope::base::Progress;
use fragscope::chart::{Clock, ColourBy, Inks, Palette, Theme, TimeAxis};
use fragscope::raster::{RasterView, StackRaster};
use fragscope::replay::Replay;
use memory::PeakMemory;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const ROUNDS: usize = 5;
const MADE_ALLOCATIONS: u32 = 335_000;
const WIDTH: usize = 1920;
const HEIGHT: usize = 1000;
/// Loads, then says how long it took and the peak of its anonymous memory in kB: all but the page cache of the file.
const PYTHON: &str = "import pickle,sys,time,re
t=time.perf_counter()
d=pickle.load(open(sys.argv[1],'rb'))
t=time.perf_counter()-t
s=open('/proc/self/status').read()
print(t,int(re.search(r'RssAnon:\\s+(\\d+)',s).group(1))*1024)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let result = match arguments.as_slice() {
        [flag, file] if flag == "--picture" => first_picture(Path::new(file)),
        files => compare(files.iter().map(PathBuf::from).collect()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The measured process: file to finished picture.
fn first_picture(file: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let peak = PeakMemory::watch();
    let start = Instant::now();
    let progress = Progress::new();
    let snapshot = fragscope::format::open(file, &progress)?;
    let device = snapshot.busiest_device().ok_or("no device in the file")?;
    let memory = &snapshot.devices[device];
    let replay = Replay::new(memory);
    let usage = UsageTimeline::of(memory, &progress)?;
    let clock = Clock::new(&memory.trace, TimeAxis::Events);
    let colours = Inks::new(&snapshot, ColourBy::Stack).table(Palette { theme: Theme::Light });
    let top = usage.reserved.peak().1.max(usage.active.peak().1) as f64;
    let view = RasterView { columns: clock.columns(clock.span(), WIDTH), bytes: 0.0..top, height: HEIGHT };
    let picture = StackRaster::new(memory, &replay, &usage).raster(&view, &colours, &progress)?;
    let took = start.elapsed();
    std::hint::black_box(&picture);
    println!("{} {} {}", took.as_secs_f64(), peak.stop(), memory.trace.len());
    Ok(ExitCode::SUCCESS)
}

fn compare(mut files: Vec<PathBuf>) -> Result<ExitCode, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    if files.is_empty() {
        let file = folder.path().join("made.pickle");
        made::write_snapshot(&file, MADE_ALLOCATIONS)?;
        files.push(file);
    }
    let python = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !python {
        println!("python3 is not here: pickle.load is not timed");
    }
    println!(
        "{:>8} {:>9} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}  file",
        "MB", "events", "picture s", "python s", "sooner", "memory MB", "python MB", "share"
    );
    let mut missed = false;
    for file in &files {
        let (mut ours, mut pythons, mut events) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..ROUNDS {
            let run = measured(Command::new(std::env::current_exe()?).arg("--picture").arg(file))?;
            events = run.get(2).copied().unwrap_or(0.0);
            ours.push(run);
            if python {
                pythons.push(measured(Command::new("python3").args(["-c", PYTHON]).arg(file))?);
            }
        }
        let bytes = std::fs::metadata(file)?.len() as f64;
        let (seconds, memory) = (median(&ours, 0), median(&ours, 1));
        let (python_s, python_bytes) = (median(&pythons, 0), median(&pythons, 1));
        let (sooner, share) = (python_s / seconds, memory / python_bytes);
        missed |= python && (sooner < 4.0 || 0.5 < share);
        println!(
            "{:8.1} {events:9} {seconds:10.3} {python_s:10.3} {sooner:6.1}x {:10.1} {:10.1} {share:7.2}  {}",
            bytes / 1e6,
            memory / 1e6,
            python_bytes / 1e6,
            file.display()
        );
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The figures a process prints.
fn measured(command: &mut Command) -> Result<Vec<f64>, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

fn median(runs: &[Vec<f64>], figure: usize) -> f64 {
    let mut figures: Vec<f64> = runs.iter().filter_map(|run| run.get(figure).copied()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
