//! What the program holds of the driver, and the one log that is told of it.
//!
//! Always: one thread at a time; a block is told as given back before the driver is asked, so that nobody else's new
//! block at its address can be told first, and told as given again where the driver refused.

use crate::log::{Caller, Event, Log, NO_STACK, Severity, action, json, now_us};
use crate::{real, stacks};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the log goes; without it nothing is recorded.
pub const OUT: &str = "FRAGSCOPE_DRIVER_OUT";
/// `none`: no stacks.
const STACKS: &str = "FRAGSCOPE_DRIVER_STACKS";
/// Between two looks at what a device holds …
const SAMPLE_US: i64 = 50_000;
/// … unless so many bytes came and went since the last one.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Sizes are told in whole units of this, which all blocks of the driver begin at.
const UNIT: u64 = 512;

/// From where a block came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory of its own.
    Plain,
    /// Memory mapped into reserved addresses.
    Mapped,
}

/// A block the program holds.
#[derive(Clone)]
pub struct Block {
    address: u64,
    size: u64,
    device: i32,
    pool: u64,
    stream: u64,
    kind: Kind,
    /// The context it goes with; 0: with none.
    context: usize,
}

/// Memory that is mapped, or will be.
struct Physical {
    size: u64,
    device: i32,
    maps: u32,
    released: bool,
}

/// The books of one process.
#[derive(Default)]
pub struct Books {
    process: u32,
    log: Option<Log>,
    /// Nothing is recorded any more.
    over: bool,
    out: Option<String>,
    with_stacks: bool,
    blocks: BTreeMap<u64, Block>,
    physical: HashMap<u64, Physical>,
    /// Mapped ranges: their end, and what lies there.
    mapped: BTreeMap<u64, (u64, u64)>,
    pools: HashMap<u64, i32>,
    devices: BTreeMap<i32, String>,
    contexts: HashSet<(i32, usize)>,
    /// When each device was last looked at, and bytes that came and went since.
    sampled: HashMap<i32, (i64, u64)>,
    complained: HashSet<(&'static str, i32)>,
    modules: u64,
    module_bytes: u64,
    unknown_frees: u64,
}

/// Failures of this library, all that did no more than end a recording.
static FAILURES: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);

struct Shared(std::cell::UnsafeCell<Option<Books>>);
// SAFETY: looked at by whoever holds the lock.
unsafe impl Sync for Shared {}
static BOOKS: Shared = Shared(std::cell::UnsafeCell::new(None));

thread_local! {
    /// How many functions of this library the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn pthread_atfork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> c_int;
    fn atexit(each: extern "C" fn()) -> c_int;
}

/// A call that is under way.
pub struct Call {
    name: &'static str,
    outermost: bool,
}

impl Call {
    /// A call by the program, or by the driver to itself.
    pub fn begin(name: &'static str) -> Call {
        let depth = DEPTH.try_with(|depth| depth.replace(depth.get() + 1)).unwrap_or(1);
        Call { name, outermost: depth == 0 }
    }
    /// Tells the books something; nothing where the driver called itself, or nothing is recorded.
    pub fn tell<T>(&self, what: impl FnOnce(&mut Books, Caller) -> T) -> Option<T> {
        if !self.outermost {
            return None;
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let locked = Locked::now();
            // SAFETY: the lock is held.
            let slot = unsafe { &mut *BOOKS.0.get() };
            let books = slot.get_or_insert_with(Books::begin);
            if books.process != std::process::id() {
                // A child that began without the C library's knowledge.
                std::mem::forget(std::mem::replace(books, Books::begin()));
            }
            if books.over || books.out.is_none() {
                return None;
            }
            let addresses = if books.with_stacks { stacks::addresses() } else { Vec::new() };
            let told = what(books, (self.name, addresses));
            books.flush();
            drop(locked);
            Some(told)
        }));
        done.unwrap_or_else(|_| {
            FAILURES.fetch_add(1, Ordering::Relaxed);
            None
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

struct Locked;

impl Locked {
    fn now() -> Locked {
        while BUSY.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Locked
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}

extern "C" fn before_fork() {
    std::mem::forget(Locked::now());
}

extern "C" fn after_fork() {
    BUSY.store(false, Ordering::Release);
}

/// A child has nothing of what its parent holds, and a log of its own.
extern "C" fn in_child() {
    // SAFETY: the only thread there is.
    unsafe {
        if let Some(books) = (*BOOKS.0.get()).as_mut() {
            std::mem::forget(std::mem::replace(books, Books::of_environment()));
        }
    }
    BUSY.store(false, Ordering::Release);
}

extern "C" fn at_end() {
    Call { name: "exit", outermost: true }.tell(|books, _| books.end());
}

impl Books {
    fn of_environment() -> Books {
        let with_stacks = std::env::var(STACKS).map_or(true, |word| word != "none");
        Books { process: std::process::id(), out: std::env::var(OUT).ok(), with_stacks, ..Books::default() }
    }
    /// The first of the process.
    fn begin() -> Books {
        static ONCE: AtomicBool = AtomicBool::new(false);
        if !ONCE.swap(true, Ordering::Relaxed) {
            // What goes wrong here is not the program's to print.
            std::panic::set_hook(Box::new(|_| {}));
            // SAFETY: functions that stay for as long as the process.
            unsafe { pthread_atfork(before_fork, after_fork, in_child) };
        }
        Books::of_environment()
    }
    /// The log, begun when there is something to say.
    fn log(&mut self) -> Option<&mut Log> {
        if self.log.is_none() && !self.over {
            let out = self.out.clone()?;
            match Log::begin(&out) {
                Ok(log) => {
                    self.log = Some(log);
                    let facts = self.facts();
                    if let Some(log) = self.log.as_mut() {
                        log.facts(&facts);
                    }
                    // SAFETY: it stays for as long as the process.
                    unsafe { atexit(at_end) };
                }
                Err(error) => self.give_up(&format!("{out}: {error}")),
            }
        }
        self.log.as_mut()
    }
    fn flush(&mut self) {
        if let Some(Err(error)) = self.log.as_mut().map(Log::flush) {
            self.give_up(&format!("the log was written up to here only: {error}"));
        }
    }
    /// Ends the recording, and leaves word beside the log.
    fn give_up(&mut self, why: &str) {
        FAILURES.fetch_add(1, Ordering::Relaxed);
        self.over = true;
        self.log = None;
        if let Some(out) = &self.out {
            use std::io::Write as _;
            let file = std::fs::OpenOptions::new().append(true).create(true).open(format!("{out}.error"));
            // Where this cannot be written either, nobody can be told.
            let _ = file.and_then(|mut file| writeln!(file, "process {}: {why}", std::process::id()));
        }
    }
    fn facts(&self) -> String {
        let argv: Vec<String> = std::env::args_os().map(|word| json(&word.to_string_lossy())).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let cwd = std::env::current_dir().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
        let mut version = 0;
        let version = if real::cuDriverGetVersion(&mut version) == 0 { version } else { 0 };
        format!(
            "{{\"source\":\"driver\",\"way\":\"preload\",\"host\":{},\"pid\":{},\"argv\":[{}],\"cwd\":{},\"started_us\":{},\
             \"cuda\":\"{}.{}\",\"starts_empty\":true,\"stacks\":\"{}\",\
             \"allocator_settings\":{{\"allocator\":\"the driver itself: each call is a block\"}}}}",
            json(host.trim()),
            self.process,
            argv.join(","),
            json(&cwd),
            now_us(),
            version / 1000,
            version % 1000 / 10,
            if self.with_stacks { "native" } else { "none" },
        )
    }
    /// Writes down what a device is, once.
    fn meet(&mut self, device: i32) {
        if device < 0 || self.devices.contains_key(&device) {
            return;
        }
        let (mut name, mut total, mut uuid) = ([0u8; 256], 0usize, [0u8; 16]);
        if real::cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) != 0 {
            name = [0; 256];
        }
        let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        let mut facts = format!("{{\"ordinal\":{device},\"name\":{}", json(&name));
        if real::cuDeviceTotalMem_v2(&mut total, device) == 0 {
            facts.push_str(&format!(",\"total\":{total}"));
        }
        if real::cuDeviceGetUuid(&mut uuid, device) == 0 {
            let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
            facts.push_str(&format!(",\"uuid\":\"GPU-{parts}\""));
        }
        facts.push('}');
        self.devices.insert(device, facts);
        let all = self.devices.values().cloned().collect::<Vec<_>>().join(",");
        if let Some(log) = self.log() {
            log.facts(&format!("{{\"devices\":[{all}]}}"));
        }
    }
    /// Looks at what the current device holds, where that was not done just now.
    pub fn look(&mut self, device: i32, at_once: bool) -> Option<u64> {
        if device < 0 || real::current_device() != Some(device) {
            return None;
        }
        let now = now_us();
        let (last_us, moved) = self.sampled.get(&device).copied().unwrap_or((i64::MIN, 0));
        if !at_once && moved < SAMPLE_BYTES && now < last_us.saturating_add(SAMPLE_US) {
            return None;
        }
        let (free, total) = real::memory_info()?;
        self.sampled.insert(device, (now, 0));
        self.log()?.sample(device, free, total);
        Some(free)
    }
    fn event(&mut self, action: u8, block: &Block, size: u64, caller: Option<&Caller>) {
        self.meet(block.device);
        let with_stacks = self.with_stacks;
        let Some(log) = self.log() else { return };
        let stack = caller.filter(|_| with_stacks).map_or(NO_STACK, |caller| log.stack(caller));
        let pool = log.pool(block.pool);
        log.event(&Event { action, device: block.device, pool, stack, address: block.address, size, stream: block.stream });
    }
    fn moved(&mut self, block: &Block) {
        let moved = &mut self.sampled.entry(block.device).or_insert((i64::MIN, 0)).1;
        *moved = moved.saturating_add(block.size);
    }
    fn give(&mut self, block: Block, caller: Option<&Caller>) {
        let whole = block.size.next_multiple_of(UNIT);
        self.moved(&block);
        let grown = if block.kind == Kind::Mapped { action::SEGMENT_MAP } else { action::SEGMENT_ALLOC };
        self.event(grown, &block, whole, caller);
        self.event(action::ALLOC, &block, block.size, caller);
        self.blocks.insert(block.address, block);
    }
    fn take(&mut self, address: u64, caller: Option<&Caller>) -> Option<Block> {
        let block = self.blocks.remove(&address)?;
        let whole = block.size.next_multiple_of(UNIT);
        self.moved(&block);
        self.event(action::FREE_REQUESTED, &block, block.size, caller);
        self.event(action::FREE_COMPLETED, &block, block.size, caller);
        let gone = if block.kind == Kind::Mapped { action::SEGMENT_UNMAP } else { action::SEGMENT_FREE };
        self.event(gone, &block, whole, caller);
        Some(block)
    }
    /// What a call for device memory came to.
    pub fn asked(&mut self, answer: i32, address: u64, size: u64, stream: u64, pool: u64, device: Option<i32>, caller: &Caller) {
        let Some(device) = device.or_else(real::current_device) else { return };
        // What comes of a pool goes with the pool, not with a context.
        let context = if pool == 0 { real::current_context() } else { 0 };
        let block = Block { address, size, device, pool, stream, kind: Kind::Plain, context };
        match answer {
            0 if address != 0 => {
                self.give(block, Some(caller));
                self.look(device, false);
            }
            0 => {}
            real::OUT_OF_MEMORY => self.out_of_memory(block, caller),
            other => self.complain(caller.0, other),
        }
    }
    fn out_of_memory(&mut self, block: Block, caller: &Caller) {
        let free = self.look(block.device, true).unwrap_or(0);
        let (size, failed) = (block.size, Block { address: free, ..block });
        self.event(action::OOM, &failed, size, Some(caller));
        let floating: u64 = self.physical.values().filter(|physical| physical.maps == 0).map(|physical| physical.size).sum();
        if 0 < floating
            && let Some(log) = self.log()
        {
            log.note(
                Severity::Info,
                &format!("when memory ran out, {floating} bytes were made by cuMemCreate and mapped nowhere"),
            );
        }
    }
    /// What a call for pinned host memory came to.
    pub fn pinned(&mut self, answer: i32, address: u64, size: u64, caller: &Caller) {
        if answer == 0 && address != 0 {
            let block =
                Block { address, size, device: -1, pool: 0, stream: 0, kind: Kind::Plain, context: real::current_context() };
            self.give(block, Some(caller));
        } else if answer != 0 {
            self.complain(caller.0, answer);
        }
    }
    /// A block is about to be given back.
    pub fn release(&mut self, address: u64, stream: Option<u64>, caller: &Caller) -> Option<Block> {
        if let (Some(stream), Some(block)) = (stream, self.blocks.get_mut(&address)) {
            block.stream = stream;
        }
        let taken = self.take(address, Some(caller));
        if taken.is_none() && address != 0 {
            self.unknown_frees += 1;
        }
        taken
    }
    /// What giving it back came to.
    pub fn released(&mut self, answer: i32, blocks: Vec<Block>, caller: &Caller) {
        if answer != 0 {
            self.complain(caller.0, answer);
            for block in blocks {
                self.give(block, None);
            }
            return;
        }
        if let Some(block) = blocks.last() {
            self.look(block.device, false);
        }
    }
    /// Notes an error of the driver, each kind once.
    pub fn complain(&mut self, call: &'static str, answer: i32) {
        // Errors that only say that there is nothing yet.
        if answer == 0 || !self.complained.insert((call, answer)) {
            return;
        }
        let text = format!("{call} answered {}", real::error_name(answer));
        if let Some(log) = self.log() {
            log.note(Severity::Warning, &text);
        }
    }
    /// Memory was made that is to be mapped.
    pub fn created(&mut self, answer: i32, handle: u64, size: u64, device: i32, caller: &Caller) {
        match answer {
            0 => {
                self.physical.insert(handle, Physical { size, device, maps: 0, released: false });
            }
            real::OUT_OF_MEMORY => {
                let block = Block { address: 0, size, device, pool: 0, stream: 0, kind: Kind::Mapped, context: 0 };
                self.out_of_memory(block, caller);
            }
            other => self.complain(caller.0, other),
        }
    }
    /// Memory is let go of: it stays for as long as it is mapped.
    pub fn let_go(&mut self, handle: u64) {
        let gone = self.physical.get_mut(&handle).is_some_and(|physical| {
            physical.released = true;
            physical.maps == 0
        });
        if gone {
            self.physical.remove(&handle);
        }
    }
    /// Memory was mapped.
    pub fn mapped(&mut self, answer: i32, address: u64, size: u64, handle: u64, caller: &Caller) {
        if answer != 0 {
            return self.complain(caller.0, answer);
        }
        let device = match self.physical.get_mut(&handle) {
            Some(physical) => {
                physical.maps += 1;
                Some(physical.device)
            }
            None => real::current_device(),
        };
        let Some(device) = device else { return };
        self.mapped.insert(address, (address + size, handle));
        self.give(Block { address, size, device, pool: 0, stream: 0, kind: Kind::Mapped, context: 0 }, Some(caller));
        self.look(device, false);
    }
    /// A range is about to be unmapped.
    pub fn unmap(&mut self, address: u64, size: u64, caller: &Caller) -> Vec<Block> {
        let within: Vec<u64> = self.blocks.range(address..address.saturating_add(size)).map(|(at, _)| *at).collect();
        let mut taken = Vec::new();
        for at in within {
            let is_mapped = self.blocks.get(&at).is_some_and(|block| block.kind == Kind::Mapped);
            taken.extend(is_mapped.then(|| self.take(at, Some(caller))).flatten());
        }
        taken
    }
    /// What unmapping came to.
    pub fn unmapped(&mut self, answer: i32, blocks: Vec<Block>, caller: &Caller) {
        if answer == 0 {
            for block in &blocks {
                let Some((_, handle)) = self.mapped.remove(&block.address) else { continue };
                let gone = self.physical.get_mut(&handle).is_some_and(|physical| {
                    physical.maps = physical.maps.saturating_sub(1);
                    physical.maps == 0 && physical.released
                });
                if gone {
                    self.physical.remove(&handle);
                }
            }
        }
        self.released(answer, blocks, caller);
    }
    /// A moment that is worth a mark, at the current device.
    pub fn mark(&mut self, device: Option<i32>, text: &str) {
        let Some(device) = device.or_else(real::current_device) else { return };
        self.meet(device);
        if let Some(log) = self.log() {
            log.mark(device, text);
        }
    }
    /// A pool of the program's own.
    pub fn pool_made(&mut self, answer: i32, handle: u64, device: i32, caller: &Caller) {
        if answer != 0 {
            return self.complain(caller.0, answer);
        }
        self.pools.insert(handle, device);
        self.meet(device);
        let Some(log) = self.log() else { return };
        let number = log.pool(handle);
        log.mark(device, &format!("pool {} made", number - 1));
    }
    /// The device of a pool.
    pub fn device_of_pool(&self, handle: u64) -> Option<i32> {
        self.pools.get(&handle).copied()
    }
    /// Something happened to a pool: trimmed, destroyed.
    pub fn pool_changed(&mut self, answer: i32, handle: u64, what: &str, caller: &Caller) {
        if answer != 0 {
            return self.complain(caller.0, answer);
        }
        let device = self.device_of_pool(handle);
        let Some(log) = self.log() else { return };
        let text = format!("pool {} {what}", log.pool(handle) - 1);
        self.mark(device, &text);
        if let Some(device) = device.or_else(real::current_device) {
            self.look(device, true);
        }
    }
    /// A context came to be, or was asked for again.
    pub fn context(&mut self, answer: i32, device: i32, context: usize, caller: &Caller) {
        if answer != 0 {
            return self.complain(caller.0, answer);
        }
        if !self.contexts.insert((device, context)) {
            return;
        }
        self.meet(device);
        self.mark(Some(device), &format!("context of device {device}"));
        // What it takes itself is seen from inside it.
        let mut old = 0;
        if real::cuCtxPushCurrent_v2(context) == 0 {
            self.look(device, true);
            real::cuCtxPopCurrent_v2(&mut old);
        }
    }
    /// A context is about to end, and all its memory with it.
    pub fn context_ends(&mut self, fits: impl Fn(usize, i32) -> bool, caller: &Caller) -> Vec<Block> {
        let its: Vec<u64> = self
            .blocks
            .values()
            .filter(|block| block.context != 0 && fits(block.context, block.device))
            .map(|block| block.address)
            .collect();
        self.contexts.retain(|(device, context)| !fits(*context, *device));
        its.into_iter().filter_map(|address| self.take(address, Some(caller))).collect()
    }
    /// The primary context of a device ended.
    pub fn primary_ended(&mut self, device: i32, caller: &Caller) {
        let primary: HashSet<usize> = self.contexts.iter().filter(|(of, _)| *of == device).map(|(_, context)| *context).collect();
        self.context_ends(|context, of| of == device && primary.contains(&context), caller);
    }
    /// Code was loaded; `before` were the free bytes of the device.
    pub fn module(&mut self, answer: i32, before: Option<(u64, u64)>, caller: &Caller) {
        if answer != 0 {
            return self.complain(caller.0, answer);
        }
        self.modules += 1;
        let (Some(device), Some((before, _)), Some((after, _))) = (real::current_device(), before, real::memory_info()) else {
            return;
        };
        let taken = before.saturating_sub(after);
        self.module_bytes += taken;
        if 0 < taken {
            self.mark(Some(device), &format!("code loaded by {}: {taken} bytes", caller.0));
            self.look(device, true);
        }
    }
    fn end(&mut self) {
        let (modules, bytes, unknown) = (self.modules, self.module_bytes, self.unknown_frees);
        let held: u64 = self.blocks.values().filter(|block| 0 <= block.device).map(|block| block.size).sum();
        let mut emptied: Vec<i32> =
            self.sampled.keys().copied().filter(|of| self.blocks.values().all(|block| block.device != *of)).collect();
        emptied.sort_unstable();
        let Some(log) = self.log.as_mut() else { return };
        for device in emptied {
            log.holds_nothing(device);
        }
        if 0 < modules {
            log.note(Severity::Info, &format!("{modules} modules of code were loaded, which took {bytes} bytes of the device"));
        }
        if 0 < unknown {
            log.note(Severity::Warning, &format!("{unknown} addresses were given back that this recording never saw given"));
        }
        let failures = FAILURES.load(Ordering::Relaxed);
        if 0 < failures {
            log.note(Severity::Warning, &format!("the recorder failed {failures} times, and left out what it was about"));
        }
        log.end(&if held == 0 {
            String::new()
        } else {
            format!("it ended with {held} bytes of device memory that it never gave back")
        });
    }
}
