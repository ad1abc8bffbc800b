//! What a workload is written against: blocks that are asked for and given back, scopes that name who asks, steps.
//!
//! Always: every event of the allocator goes into the log in its order, with the scopes that are open then as its stack;
//! the log is written out at every step and at a failure.

use crate::base::Bytes;
use crate::capture::torch::json_text;
use crate::capture::workload::Ended;
use crate::capture::workload::gpu::{Gpu, Trouble};
use crate::format::fsl::{End, Event, LogWriter, NO_STACK, Severity, StateRecord, When};
use crate::model::{Action, AllocationId, AllocatorSettings, DeviceSample, EventIdx, PoolId};
use crate::simulator::caching::Caching;
use crate::simulator::journal::{Given, Journal, Place};
use crate::simulator::scenario::{Rules, TieBreak};
use crate::simulator::{Policy, Request, Wanted};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Blocks that are held at once, at most.
const MOST_BLOCKS: u32 = 1 << 20;

/// Why a workload goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There was no memory for so many bytes.
    OutOfMemory(u64),
    /// It was asked to.
    Asked,
    /// The device failed, or the log could not be written.
    Failed(String),
}

/// A block a workload holds.
#[derive(Debug)]
pub(super) struct Block {
    life: AllocationId,
    /// Bytes that were asked for.
    pub(super) size: u64,
}

/// See the head of this file.
pub(super) struct Program {
    allocator: Caching<Gpu, Recorder>,
    free_lives: Vec<AllocationId>,
    next_life: u32,
    began_step: Option<Instant>,
    stop: Arc<AtomicBool>,
}

impl Program {
    /// Begins a run and its log; a sentence where that cannot be.
    pub(super) fn begin(name: &str, settings: AllocatorSettings, gpu: Gpu, out: &Path) -> Result<Program, String> {
        let stop = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| format!("signals cannot be heard: {error}"))?;
        }
        let failed = |error: std::io::Error| format!("{} cannot be written: {error}", out.display());
        let file = File::options().append(true).create_new(true).open(out).map_err(failed)?;
        let mut log = LogWriter::new(file).map_err(failed)?;
        log.facts(&facts(name, &settings, &gpu)).map_err(failed)?;
        let share = format!(
            "the workload keeps to {} of the device's {}: that and what was in use before, {}, stand as the card's memory",
            Bytes(gpu.budget),
            Bytes(gpu.total),
            Bytes(gpu.used_before)
        );
        log.note(now_us(), Severity::Info, &share).map_err(failed)?;
        let trouble = gpu.trouble();
        let recorder = Recorder {
            log,
            trouble,
            budget: gpu.budget,
            scopes: vec![(name.to_owned(), Location::caller())],
            stack: None,
            held: FxHashMap::default(),
            sampled: None,
        };
        let rules = Rules { tie: TieBreak::Segment, private_expandable: true, whole_is_limit: false };
        let allocator = Caching::telling(recorder, settings, rules, None, gpu, MOST_BLOCKS as usize);
        Ok(Program { allocator, free_lives: Vec::new(), next_life: 0, began_step: None, stop })
    }
    /// The most it may take, in bytes.
    pub(super) fn budget(&self) -> u64 {
        self.allocator.journal.budget
    }
    /// Asks for a block and fills it.
    #[track_caller]
    pub(super) fn alloc(&mut self, size: u64) -> Result<Block, Stop> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stop::Asked);
        }
        let caller = Location::caller();
        let life = match self.free_lives.pop() {
            Some(life) => life,
            None if self.next_life < MOST_BLOCKS => {
                self.next_life += 1;
                AllocationId(self.next_life - 1)
            }
            None => return Err(Stop::Failed(format!("more than {MOST_BLOCKS} blocks are held at once"))),
        };
        let wanted = Wanted { size, stream: 0, pool: PoolId::DEFAULT, source: EventIdx(0) };
        let scope = self.allocator.journal.move_to(caller);
        let address = self.allocator.allocate(Some(life), &wanted, &[]);
        self.allocator.journal.move_to(scope);
        self.check()?;
        let Some(address) = address else {
            self.allocator.journal.flush();
            return Err(Stop::OutOfMemory(size));
        };
        self.allocator.driver.touch(address, size).map_err(Stop::Failed)?;
        Ok(Block { life, size })
    }
    /// Gives a block back.
    pub(super) fn free(&mut self, block: Block) {
        self.allocator.give_back(&Request::Free(block.life));
        self.free_lives.push(block.life);
    }
    /// Gives blocks back, the last first.
    pub(super) fn free_all(&mut self, blocks: Vec<Block>) {
        for block in blocks.into_iter().rev() {
            self.free(block);
        }
    }
    /// Does something under a name that stacks show.
    #[track_caller]
    pub(super) fn within<T>(&mut self, name: &str, what: impl FnOnce(&mut Program) -> T) -> T {
        self.allocator.journal.enter(name, Location::caller());
        let result = what(self);
        self.allocator.journal.leave();
        result
    }
    /// Begins a step: the one before is over, and took at least the time it is to take.
    pub(super) fn step(&mut self, number: u32, pace: Duration) -> Result<(), Stop> {
        if let Some(rest) = self.began_step.and_then(|began| pace.checked_sub(began.elapsed())) {
            std::thread::sleep(rest);
        }
        self.began_step = Some(Instant::now());
        self.allocator.journal.step(number);
        self.check()?;
        if self.stop.load(Ordering::Relaxed) { Err(Stop::Asked) } else { Ok(()) }
    }
    fn check(&self) -> Result<(), Stop> {
        self.allocator.journal.trouble.borrow().clone().map_or(Ok(()), |why| Err(Stop::Failed(why)))
    }
    /// Ends the run: gives all memory back and closes the log. How it ended; a sentence where the log is not whole.
    pub(super) fn end(mut self, stop: Option<Stop>) -> Result<Ended, String> {
        let counters = *self.allocator.counters();
        let ended = match stop {
            None => Ended::Done,
            Some(Stop::Asked) => Ended::Stopped,
            Some(Stop::Failed(why)) => Ended::Failed(why),
            Some(Stop::OutOfMemory(size)) => Ended::Failed(format!(
                "out of memory: {} were asked for with {} allocated and {} reserved, of {} that it may take",
                Bytes(size),
                Bytes(counters.allocated.now),
                Bytes(counters.reserved.now),
                Bytes(self.budget())
            )),
        };
        if !matches!(ended, Ended::Failed(_)) {
            // What failed is looked at as it was then; all else ends with nothing held.
            self.allocator.journal.forget_scopes();
            let held: Vec<AllocationId> = self.allocator.journal.lives();
            for life in held {
                self.allocator.give_back(&Request::Free(life));
            }
            self.allocator.give_back(&Request::EmptyCache);
        }
        let text = match &ended {
            Ended::Done => String::new(),
            Ended::Stopped => "it was asked to stop".to_owned(),
            Ended::Failed(why) => why.clone(),
        };
        let code = if matches!(ended, Ended::Failed(_)) { 1 } else { 0 };
        let end = End { time_us: Some(now_us()), code: Some(code), signal: None, text };
        let counters_now = *self.allocator.counters();
        let recorder = &mut self.allocator.journal;
        recorder.sample(true);
        let emptied = StateRecord { device: 0, when: When::End, time_us: Some(now_us()), segments: Vec::new() };
        let state =
            if recorder.held.is_empty() && counters_now.reserved.now == 0 { recorder.log.state(&emptied) } else { Ok(()) };
        let written = state.and_then(|()| recorder.log.end(&end)).map_err(|error| format!("the log is not whole: {error}"));
        let lost = recorder.trouble.borrow().clone();
        match (written, ended) {
            (Err(why), _) => Err(why),
            (Ok(()), Ended::Done) if lost.is_some() => Ok(Ended::Failed(lost.unwrap_or_default())),
            (Ok(()), ended) => Ok(ended),
        }
    }
}

/// Writes what the allocator does into the log.
struct Recorder {
    log: LogWriter<File>,
    trouble: Trouble,
    budget: u64,
    /// What is open, the outermost first: its name, and where in this program it was opened.
    scopes: Vec<(String, &'static Location<'static>)>,
    /// The stack of what is open, once it was needed.
    stack: Option<u32>,
    held: FxHashMap<AllocationId, Given>,
    sampled: Option<Instant>,
}

/// Between two looks at the device.
const BETWEEN: Duration = Duration::from_millis(20);

impl Recorder {
    fn enter(&mut self, name: &str, place: &'static Location<'static>) {
        self.scopes.push((name.to_owned(), place));
        self.stack = None;
    }
    fn leave(&mut self) {
        self.scopes.pop();
        self.stack = None;
    }
    /// Moves the innermost scope to another place in this program; where it was.
    fn move_to(&mut self, place: &'static Location<'static>) -> &'static Location<'static> {
        self.stack = None;
        self.scopes.last_mut().map_or(place, |scope| std::mem::replace(&mut scope.1, place))
    }
    fn forget_scopes(&mut self) {
        self.scopes.truncate(1);
        self.stack = None;
    }
    fn lives(&self) -> Vec<AllocationId> {
        let mut lives: Vec<AllocationId> = self.held.keys().copied().collect();
        lives.sort_unstable();
        lives
    }
    fn note(&mut self, done: std::io::Result<()>) {
        if let Err(error) = done {
            self.trouble.borrow_mut().get_or_insert(format!("the log cannot be written: {error}"));
        }
    }
    fn stack(&mut self) -> u32 {
        if let Some(known) = self.stack {
            return known;
        }
        let frame = |log: &mut LogWriter<File>, (name, place): &(String, &Location<'_>)| {
            log.frame(name, place.file(), i64::from(place.line()))
        };
        let frames: std::io::Result<Vec<u32>> = self.scopes.iter().rev().map(|scope| frame(&mut self.log, scope)).collect();
        let stack = match frames.and_then(|frames| self.log.stack(&frames)) {
            Ok(stack) => stack,
            Err(error) => {
                self.note(Err(error));
                NO_STACK
            }
        };
        *self.stack.insert(stack)
    }
    fn event(&mut self, action: Action, address: u64, size: u64, place: Place) {
        let stack = self.stack();
        let stream = place.stream.cast_signed();
        let event = Event { action: action as u8, device: 0, pool: 0, stack, address, size, stream, time_us: now_us() };
        let done = self.log.event(&event);
        self.note(done);
    }
    fn step(&mut self, number: u32) {
        let name = format!("step {number}");
        let done = self.log.flush().and_then(|()| self.log.mark(now_us(), 0, &name, 2));
        self.note(done);
        self.sample(false);
    }
    fn flush(&mut self) {
        let done = self.log.flush();
        self.note(done);
    }
    /// Looks at what the device holds.
    fn sample(&mut self, at_once: bool) {
        if !at_once && self.sampled.is_some_and(|last| last.elapsed() < BETWEEN) {
            return;
        }
        let Some((free, total)) = super::gpu::memory_info() else { return };
        self.sampled = Some(Instant::now());
        let sample = DeviceSample {
            device: 0,
            process: None,
            total: Some(total),
            used: Some(total.saturating_sub(free)),
            free: Some(free),
            time_us: now_us(),
        };
        let done = self.log.samples(&[sample]);
        self.note(done);
    }
}

impl Journal for Recorder {
    fn segment(&mut self, action: Action, address: u64, size: u64, place: Place) {
        self.event(action, address, size, place);
        if matches!(action, Action::SegmentAlloc | Action::SegmentMap) {
            self.sample(false);
        }
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        self.event(Action::Alloc, given.address, given.requested, given.place);
        self.held.insert(life, given);
    }
    fn free_requested(&mut self, life: AllocationId) {
        if let Some(given) = self.held.get(&life).copied() {
            self.event(Action::FreeRequested, given.address, given.requested, given.place);
        }
    }
    fn free_completed(&mut self, life: AllocationId) {
        if let Some(given) = self.held.remove(&life) {
            self.event(Action::FreeCompleted, given.address, given.requested, given.place);
        }
    }
    fn oom(&mut self, size: u64, place: Place, reserved: u64) {
        // A device that failed has not run out of memory.
        if self.trouble.borrow().is_some() {
            return;
        }
        let left = self.budget.saturating_sub(reserved);
        self.event(Action::Oom, left, size, place);
        self.sample(true);
    }
}

fn facts(name: &str, settings: &AllocatorSettings, gpu: &Gpu) -> String {
    let argv: Vec<String> = std::env::args_os().map(|word| json_text(&word.to_string_lossy())).collect();
    format!(
        "{{\"source\":\"workload\",\"way\":{},\"pid\":{},\"argv\":[{}],\"started_us\":{},\"cuda\":\"{}\",\"starts_empty\":true,\
         \"devices\":[{{\"ordinal\":0,\"name\":{},\"total\":{},\"uuid\":{}}}],\
         \"allocator_settings\":{{\"PYTORCH_CUDA_ALLOC_CONF\":{},\"max_split_size\":{},\"garbage_collection_threshold\":{},\
         \"expandable_segments\":{},\"roundup_power2_divisions\":{{{}}}}}}}",
        json_text(name),
        std::process::id(),
        argv.join(","),
        now_us(),
        gpu.version,
        json_text(&gpu.name),
        gpu.used_before.saturating_add(gpu.budget),
        json_text(&gpu.uuid),
        json_text(&settings.conf),
        settings.max_split_size.map_or_else(|| "-1".to_owned(), |size| size.to_string()),
        settings.garbage_collection_threshold,
        settings.expandable_segments,
        settings
            .roundup_power2_divisions
            .iter()
            .enumerate()
            .map(|(row, divisions)| format!("\"{}\":{divisions}", 1u64 << row))
            .collect::<Vec<_>>()
            .join(","),
    )
}

fn now_us() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
