//! How long a what-if takes: a recording of a million events served again, once, under all sensible settings, and as
//! another job; and in how much memory.
//!
//! `cargo bench --bench what_if [-- FILE…]`; without files one training step is made, with a forward pass of 200 000
//! lives. Each figure is the fastest of three runs, on one core but for the sweep. Fails where one scenario takes more than
//! a second or, with its requests, twice the memory of the event columns; where a sweep does not use the cores; or where a
//! pass is searched for its layers for longer than a second.

#[path = "made/memory.rs"]
mod memory;

use fragscope::analysis::Workload;
use fragscope::base::Progress;
use fragscope::model::{
    Action, AllocatorSettings, BlockState, DeviceId, Frame, Origin, PoolId, SizeClass, Snapshot, StackId, StreamId, TraceEntry,
};
use fragscope::replay::{BlockRecord, SegmentRecord, SnapshotBuilder};
use fragscope::simulator::{Change, RequestStream, Rules, Scenario, change, simulate, sweep};
use memory::PeakMemory;
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const MOST: Duration = Duration::from_secs(1);
/// A sweep on `n` cores takes no more than `1 / (n × this)` of its runs one after the other.
const USES_CORES: f64 = 0.6;
const LAYERS: usize = 40;
const OF_A_LAYER: usize = 5000;

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.starts_with("--bench")).collect();
    let result = if files.is_empty() {
        made().ok_or_else(|| "nobody cancels".into()).and_then(|snapshot| measure(Path::new("made up"), &snapshot))
    } else {
        files.iter().try_fold(true, |good, file| {
            let snapshot = fragscope::format::open(file, &Progress::new())?;
            Ok(measure(file, &snapshot)? && good)
        })
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Says how long it took; whether that is good enough.
fn measure(file: &Path, snapshot: &Snapshot) -> Result<bool, Box<dyn Error>> {
    let device = snapshot.busiest_device().ok_or("no device in the file")?;
    let memory = &snapshot.devices[device];
    let (events, progress) = (memory.trace.len(), Progress::new());
    println!("{}: {events} events, {} lives", file.display(), memory.allocations.len());
    let mut complaints = Vec::new();

    let peak = PeakMemory::watch();
    let start = Instant::now();
    let asked = RequestStream::of(snapshot, device, &[]);
    let taken = start.elapsed();
    let rules = Rules::of(&snapshot.origin)[0];
    let scenario = |expandable| {
        let settings = AllocatorSettings { expandable_segments: expandable, ..AllocatorSettings::default() };
        Scenario::new(settings, rules)
    };
    simulate(&asked, &scenario(false), &progress)?;
    simulate(&asked, &scenario(true), &progress)?;
    let used = peak.stop();
    let columns = columns(snapshot, device);
    println!("  requests taken in {:>6.3} s", taken.as_secs_f64());
    println!("  {:>6.1} MiB used, event columns are {:.1} MiB", mib(used), mib(columns));
    if columns * 2 < used {
        complaints.push("memory is above twice the event columns");
    }
    for expandable in [false, true] {
        let scenario = scenario(expandable);
        let (time, outcome) = fastest(|| simulate(&asked, &scenario, &progress));
        let reserved = outcome?.counters.reserved.peak;
        let name = if expandable { "expandable segments" } else { "one scenario" };
        println!("  {name:<20} {:>6.3} s, {:.1} GiB reserved", time.as_secs_f64(), mib(reserved) / 1024.0);
        if MOST < time {
            complaints.push("a scenario takes more than a second");
        }
    }

    let base = scenario(false);
    let start = Instant::now();
    let rows = sweep(&asked, &base, &snapshot.origin, &progress)?;
    let wall = start.elapsed();
    let start = Instant::now();
    for row in &rows {
        simulate(&asked, &Scenario { settings: row.settings.clone(), ..base.clone() }, &progress)?;
    }
    let one_by_one = start.elapsed();
    let cores = std::thread::available_parallelism()?.get();
    println!(
        "  sweep of {} settings {:>6.3} s, one by one {:.3} s: {:.2} of {cores} cores",
        rows.len(),
        wall.as_secs_f64(),
        one_by_one.as_secs_f64(),
        one_by_one.as_secs_f64() / wall.as_secs_f64()
    );
    if one_by_one.as_secs_f64() < wall.as_secs_f64() * cores as f64 * USES_CORES {
        complaints.push("the sweep does not use all cores");
    }

    let (time, workload) = fastest(|| Workload::of(snapshot, device, &progress));
    let workload = workload?;
    println!("  roles told           {:>6.3} s, {} steps", time.as_secs_f64(), workload.steps.rows.len());
    for changed in [Change::Checkpoint, Change::OffloadActivations, Change::Batch(2.0), Change::Accumulate(2)] {
        let name = format!("{changed:?}");
        let (time, done) = fastest(|| change(&asked, &memory.allocations, &workload, std::slice::from_ref(&changed)));
        match done {
            Ok(done) => println!("  {name:<20} {:>6.3} s, {} requests", time.as_secs_f64(), done.asked.requests.len()),
            Err(sentence) => println!("  {name:<20} {sentence}"),
        }
        if MOST < time {
            complaints.push("the job is changed for more than a second");
        }
    }
    complaints.dedup();
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    Ok(complaints.is_empty())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn fastest<T>(mut what: impl FnMut() -> T) -> (Duration, T) {
    let mut run = || {
        let start = Instant::now();
        let done = what();
        (start.elapsed(), done)
    };
    let first = run();
    (1..ROUNDS).fold(first, |best, _| {
        let next = run();
        if next.0 < best.0 { next } else { best }
    })
}

/// Bytes of the columns that every event has, and its time.
fn columns(snapshot: &Snapshot, device: DeviceId) -> u64 {
    let event = size_of::<Action>() + 2 * size_of::<u64>() + size_of::<StreamId>() + size_of::<StackId>() + size_of::<i64>();
    (event * snapshot.devices[device].trace.len()) as u64
}

/// Blocks by size, and where new ones come.
#[derive(Default)]
struct Heap {
    free: HashMap<u64, Vec<u64>>,
    end: u64,
}

const BASE: u64 = 0x7f00_0000_0000;

struct Job {
    builder: SnapshotBuilder,
    heap: Heap,
}

impl Job {
    fn stack(&mut self, frames: &[(&str, &str, i64)]) -> StackId {
        let frames: Vec<_> = frames
            .iter()
            .map(|(function, file, line)| {
                let stacks = &mut self.builder.stacks;
                let (name, filename) = (stacks.strings.intern(function), stacks.strings.intern(file));
                stacks.intern_frame(Frame { name, filename, line: *line })
            })
            .collect();
        self.builder.stacks.intern(&frames)
    }
    fn event(&mut self, action: Action, address: u64, size: u64, stack: StackId) {
        let trace = &mut self.builder.device(0).trace;
        let time_us = Some(1_790_000_000_000_000 + trace.len() as i64 * 3);
        let (stream, pool, compile_context, user_metadata) = (StreamId::DEFAULT, None, None, None);
        trace.push(TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata });
    }
    fn ask(&mut self, size: u64, stack: StackId) -> (u64, u64) {
        let address = self.heap.free.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| {
            self.heap.end += size;
            BASE + self.heap.end - size
        });
        self.event(Action::Alloc, address, size, stack);
        (address, size)
    }
    fn give(&mut self, (address, size): (u64, u64)) {
        self.event(Action::FreeRequested, address, size, StackId::EMPTY);
        self.event(Action::FreeCompleted, address, size, StackId::EMPTY);
        self.heap.free.entry(size).or_default().push(address);
    }
}

/// One step of training: parameters, 40 layers of 5000 blocks each, half of which are held for the backward pass.
fn made() -> Option<Snapshot> {
    let mut job = Job { builder: SnapshotBuilder::default(), heap: Heap::default() };
    let setup = job.stack(&[("__init__", "/job/model.py", 10)]);
    let optimizer = job.stack(&[("step", "/lib/torch/optim/adam.py", 200), ("train", "/job/train.py", 5)]);
    let backward = job.stack(&[("backward", "/lib/torch/_tensor.py", 500), ("train", "/job/train.py", 4)]);
    let forward: Vec<StackId> =
        (0..300).map(|line| job.stack(&[("forward", "/job/model.py", 100 + line), ("train", "/job/train.py", 3)])).collect();
    let sizes = |place: usize| 512 * (1 + (place as u64 * 7919) % 977);
    // What lasts is known to the file's end.
    job.event(Action::SegmentMap, BASE, 64 << 30, setup);
    let parameters: Vec<_> = (0..100).map(|place| job.ask(sizes(place) * 8, setup)).collect();
    let mut held = Vec::new();
    for _layer in 0..LAYERS {
        let mut open = None;
        for place in 0..OF_A_LAYER {
            let life = job.ask(sizes(place), forward[place * 31 % forward.len()]);
            if place % 2 == 0 {
                held.push(life);
            } else if let Some(before) = open.replace(life) {
                job.give(before);
            }
        }
        open.into_iter().for_each(|life| job.give(life));
    }
    let (mut gradients, between) = (Vec::new(), held.len() / parameters.len());
    for (place, life) in held.into_iter().rev().enumerate() {
        let temporary = job.ask(sizes(place), backward);
        if place % between == 0 && gradients.len() < parameters.len() {
            gradients.push(job.ask(parameters[gradients.len()].1, backward));
        }
        job.give(temporary);
        job.give(life);
    }
    let state: Vec<_> = parameters.iter().map(|(_, size)| job.ask(size * 2, optimizer)).collect();
    gradients.into_iter().for_each(|life| job.give(life));
    let mut live = [parameters, state].concat();
    live.sort_unstable();
    let mut cursor = BASE;
    let mut blocks = Vec::new();
    let block = |address, size, state| {
        let requested = Some(if state == BlockState::Inactive { 0 } else { size });
        BlockRecord { address: Some(address), size, requested, state, stack: StackId::ABSENT }
    };
    for (address, size) in live {
        if cursor < address {
            blocks.push(block(cursor, address - cursor, BlockState::Inactive));
        }
        blocks.push(block(address, size, BlockState::ActiveAllocated));
        cursor = address + size;
    }
    let (address, size) = (BASE, 64 << 30);
    blocks.push(block(cursor, BASE + size - cursor, BlockState::Inactive));
    let device = job.builder.device(0);
    device.segments_known = true;
    device.segments = vec![SegmentRecord {
        address,
        size,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        class: SizeClass::Large,
        expandable: true,
        stack: setup,
        blocks,
        stated_totals: [None; 3],
    }];
    job.builder.finish(Origin::default(), &Progress::new()).ok()
}
