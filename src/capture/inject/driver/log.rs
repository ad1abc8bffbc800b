//! Writes the log: the records of `.fsl` (`src/format/fsl/format.md`), as far as they are needed here.
//!
//! Always: what one call tells goes out in one write at the end of the file, so that a log is whole whoever ends the
//! process; what cannot be written ends the recording.

use crate::stacks;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

const FACTS: u16 = 1;
const TEXTS: u16 = 2;
const FRAMES: u16 = 3;
const STACKS: u16 = 4;
const POOLS: u16 = 5;
const EVENTS: u16 = 6;
const SAMPLES: u16 = 8;
const STATE: u16 = 9;
const MARKS: u16 = 10;
const NOTE: u16 = 11;
const END: u16 = 14;

/// Numbers of actions.
pub mod action {
    /// A block was handed out.
    pub const ALLOC: u8 = 0;
    /// It was given back …
    pub const FREE_REQUESTED: u8 = 1;
    /// … and is free.
    pub const FREE_COMPLETED: u8 = 2;
    /// The driver gave memory.
    pub const SEGMENT_ALLOC: u8 = 3;
    /// It took memory back.
    pub const SEGMENT_FREE: u8 = 4;
    /// Memory was mapped into reserved addresses.
    pub const SEGMENT_MAP: u8 = 5;
    /// It was taken out of them.
    pub const SEGMENT_UNMAP: u8 = 6;
    /// There was no memory.
    pub const OOM: u8 = 8;
}

/// A stack that was not kept.
pub const NO_STACK: u32 = u32::MAX;

/// How bad it is what is said.
#[derive(Clone, Copy)]
pub enum Severity {
    /// Worth knowing.
    Info = 0,
    /// Something is missing, or the driver answered with an error.
    Warning = 1,
}

/// One event.
pub struct Event {
    /// Its action.
    pub action: u8,
    /// Its device; −1 is pinned host memory.
    pub device: i32,
    /// Number of its pool + 1.
    pub pool: u16,
    /// Its stack.
    pub stack: u32,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its stream.
    pub stream: u64,
}

/// Who calls: a function of the driver, and the return addresses behind it.
pub type Caller = (&'static str, Vec<usize>);

/// The log of one process.
pub struct Log {
    file: File,
    /// What the current call has told so far.
    waiting: Vec<u8>,
    /// Its last events, which share a record.
    events: Vec<u8>,
    texts: HashMap<String, u32>,
    frames: HashMap<(u32, u32), u32>,
    addresses: HashMap<usize, u32>,
    stacks: HashMap<Caller, u32>,
    pools: HashMap<u64, u16>,
}

/// Unix time in µs.
pub fn now_us() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as i64
}

/// A text as JSON has it.
pub fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Log {
    /// Begins a log: at `wanted`, or beside it where another process of the job was faster.
    pub fn begin(wanted: &str) -> std::io::Result<Log> {
        let base = wanted.strip_suffix(".fsl").unwrap_or(wanted);
        let process = std::process::id();
        let beside = |number: u32| match number {
            0 => PathBuf::from(wanted),
            1 => PathBuf::from(format!("{base}.pid{process}.fsl")),
            number => PathBuf::from(format!("{base}.pid{process}.{number}.fsl")),
        };
        let mut number = 0;
        let mut file = loop {
            let opened = OpenOptions::new().append(true).create_new(true).open(beside(number));
            match opened {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                opened => break opened?,
            }
        };
        let mut preamble = [0; 16];
        preamble[..8].copy_from_slice(b"\x89FSL\r\n\x1a\n");
        preamble[8] = 1;
        file.write_all(&preamble)?;
        let stacks = HashMap::new();
        Ok(Log {
            file,
            waiting: Vec::new(),
            events: Vec::new(),
            texts: HashMap::new(),
            frames: HashMap::new(),
            addresses: HashMap::new(),
            stacks,
            pools: HashMap::new(),
        })
    }
    /// Writes what waits.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.close_events();
        let written = if self.waiting.is_empty() { Ok(()) } else { self.file.write_all(&self.waiting) };
        self.waiting.clear();
        written
    }
    /// Makes a record of the events that wait.
    fn close_events(&mut self) {
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            self.put(EVENTS, &events);
            self.events = events;
            self.events.clear();
        }
    }
    fn record(&mut self, kind: u16, payload: &[u8]) {
        self.close_events();
        self.put(kind, payload);
    }
    fn put(&mut self, kind: u16, payload: &[u8]) {
        let at = self.waiting.len();
        self.waiting.extend([0xf5, 0x1c, 0x10, 0x9a]);
        self.waiting.extend((payload.len() as u32).to_le_bytes());
        self.waiting.extend([0; 4]);
        self.waiting.extend(kind.to_le_bytes());
        self.waiting.extend([0; 2]);
        self.waiting.extend(payload);
        let sum = checksum(&self.waiting[at + 12..]);
        self.waiting[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    }
    /// Facts of the job.
    pub fn facts(&mut self, json: &str) {
        self.record(FACTS, json.as_bytes());
    }
    /// An event, now.
    pub fn event(&mut self, event: &Event) {
        let out = &mut self.events;
        out.push(event.action);
        out.extend((event.device as i8).to_le_bytes());
        out.extend(event.pool.to_le_bytes());
        out.extend(event.stack.to_le_bytes());
        out.extend(event.address.to_le_bytes());
        out.extend(event.size.to_le_bytes());
        out.extend(event.stream.to_le_bytes());
        out.extend(now_us().to_le_bytes());
    }
    /// What a device holds: free and all bytes.
    pub fn sample(&mut self, device: i32, free: u64, total: u64) {
        let mut payload = device.to_le_bytes().to_vec();
        payload.extend([0; 4]);
        for size in [total, total.saturating_sub(free), free] {
            payload.extend(size.to_le_bytes());
        }
        payload.extend(now_us().to_le_bytes());
        self.record(SAMPLES, &payload);
    }
    /// A device holds nothing at the end of the recording.
    pub fn holds_nothing(&mut self, device: i32) {
        let mut payload = device.to_le_bytes().to_vec();
        payload.extend([1, 0, 0, 0]);
        payload.extend(now_us().to_le_bytes());
        payload.extend([0; 8]);
        self.record(STATE, &payload);
    }
    /// A moment of a device that is worth a mark.
    pub fn mark(&mut self, device: i32, text: &str) {
        let text = self.text(text);
        let mut payload = now_us().to_le_bytes().to_vec();
        payload.extend(device.to_le_bytes());
        payload.extend(text.to_le_bytes());
        payload.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        self.record(MARKS, &payload);
    }
    /// What there is to say.
    pub fn note(&mut self, severity: Severity, text: &str) {
        let mut payload = now_us().to_le_bytes().to_vec();
        payload.extend([severity as u8, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend(text.as_bytes());
        self.record(NOTE, &payload);
    }
    /// The process is about to end.
    pub fn end(&mut self, text: &str) {
        let mut payload = now_us().to_le_bytes().to_vec();
        payload.extend((-1i32).to_le_bytes());
        payload.extend((-1i32).to_le_bytes());
        payload.extend(text.as_bytes());
        self.record(END, &payload);
    }
    /// The number + 1 of a pool: 0 is what serves plain allocations.
    pub fn pool(&mut self, handle: u64) -> u16 {
        if let Some(known) = self.pools.get(&handle) {
            return known + 1;
        }
        let number = self.pools.len() as u16;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend([0; 6]);
        // As PyTorch's pairs have it: (0, 0) is what is no pool of the program's own.
        let own = if handle == 0 { 0 } else { self.pools.keys().filter(|known| **known != 0).count() as i64 + 1 };
        payload.extend(0i64.to_le_bytes());
        payload.extend(own.to_le_bytes());
        self.record(POOLS, &payload);
        self.pools.insert(handle, number);
        number + 1
    }
    /// The number of a stack.
    pub fn stack(&mut self, caller: &Caller) -> u32 {
        if let Some(known) = self.stacks.get(caller) {
            return *known;
        }
        let (call, addresses) = caller;
        let mut frames = vec![self.frame(call, "libcuda.so.1")];
        for address in addresses {
            let frame = match self.addresses.get(address) {
                Some(known) => *known,
                None => {
                    let (function, file) = stacks::words(*address);
                    let frame = self.frame(&function, &file);
                    self.addresses.insert(*address, frame);
                    frame
                }
            };
            frames.push(frame);
        }
        // Stack 0 is the one without frames.
        let number = self.stacks.len() as u32 + 1;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend((frames.len() as u32).to_le_bytes());
        payload.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
        self.record(STACKS, &payload);
        self.stacks.insert(caller.clone(), number);
        number
    }
    fn frame(&mut self, function: &str, file: &str) -> u32 {
        let key = (self.text(function), self.text(file));
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        let number = self.frames.len() as u32;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend(key.0.to_le_bytes());
        payload.extend(key.1.to_le_bytes());
        payload.extend(0i64.to_le_bytes());
        self.record(FRAMES, &payload);
        self.frames.insert(key, number);
        number
    }
    fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.texts.len() as u32;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend((text.len() as u32).to_le_bytes());
        payload.extend(text.as_bytes());
        self.record(TEXTS, &payload);
        self.texts.insert(text.to_owned(), number);
        number
    }
}

/// CRC-32 as zlib has it.
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut i = 0;
        while i < 256 {
            let (mut word, mut bit) = (i as u32, 0);
            while bit < 8 {
                word = if word & 1 == 1 { 0xedb8_8320 ^ (word >> 1) } else { word >> 1 };
                bit += 1;
            }
            table[i] = word;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |sum, byte| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8))
}
