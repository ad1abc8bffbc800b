//! Writes a log from Rust: for producers that are no PyTorch job.
//!
//! Always: every record goes out in one write, so that a log is whole up to its last record whoever ends the process;
//! a text, a frame, a stack and a pool are written once, before the first event that names them.

use crate::format::fsl::decode::{End, Event, Severity, StateRecord};
use crate::format::fsl::{HEAD, MAGIC, MARKER, MAX_PAYLOAD, NO_TIME, UNKNOWN, VERSION, kind};
use crate::model::DeviceSample;
use flate2::Crc;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Events that are held back before they are written, at most.
const EVENTS_HELD: usize = 4096;

/// See the head of this file.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: W,
    texts: FxHashMap<String, u32>,
    frames: FxHashMap<(u32, u32, i64), u32>,
    stacks: FxHashMap<Vec<u32>, u32>,
    pools: FxHashMap<(i64, i64), u16>,
    events: Vec<u8>,
}

/// A whole record as bytes.
pub fn record(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend(MARKER);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(payload);
    let mut crc = Crc::new();
    crc.update(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.sum().to_le_bytes());
    bytes
}

/// The sixteen bytes a log begins with.
pub fn preamble() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

impl<W: Write> LogWriter<W> {
    /// Begins a log.
    pub fn new(mut out: W) -> std::io::Result<Self> {
        out.write_all(&preamble())?;
        Ok(Self::appending(out))
    }
    /// Goes on with a log whose preamble is written and that defines no texts, frames, stacks or pools by this writer.
    pub fn appending(out: W) -> Self {
        let none = Vec::new();
        let stacks = FxHashMap::from_iter([(none, 0)]);
        Self {
            out,
            texts: FxHashMap::default(),
            frames: FxHashMap::default(),
            stacks,
            pools: FxHashMap::default(),
            events: Vec::new(),
        }
    }
    /// What is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }
    /// Writes one record. A payload above 16 MiB is an error.
    pub fn record(&mut self, kind: u16, payload: &[u8]) -> std::io::Result<()> {
        if MAX_PAYLOAD < payload.len() {
            return Err(std::io::Error::other("a record above 16 MiB"));
        }
        self.out.write_all(&record(kind, payload))
    }
    /// Facts of the job: a JSON object.
    pub fn facts(&mut self, json: &str) -> std::io::Result<()> {
        self.record(kind::FACTS, json.as_bytes())
    }
    /// The number of a text.
    pub fn text(&mut self, text: &str) -> std::io::Result<u32> {
        if let Some(known) = self.texts.get(text) {
            return Ok(*known);
        }
        let number = self.texts.len() as u32;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend((text.len() as u32).to_le_bytes());
        payload.extend(text.as_bytes());
        self.record(kind::TEXTS, &payload)?;
        self.texts.insert(text.to_owned(), number);
        Ok(number)
    }
    /// The number of a frame.
    pub fn frame(&mut self, function: &str, file: &str, line: i64) -> std::io::Result<u32> {
        let key = (self.text(function)?, self.text(file)?, line);
        if let Some(known) = self.frames.get(&key) {
            return Ok(*known);
        }
        let number = self.frames.len() as u32;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend(key.0.to_le_bytes());
        payload.extend(key.1.to_le_bytes());
        payload.extend(line.to_le_bytes());
        self.record(kind::FRAMES, &payload)?;
        self.frames.insert(key, number);
        Ok(number)
    }
    /// The number of a stack of frames, innermost first.
    pub fn stack(&mut self, frames: &[u32]) -> std::io::Result<u32> {
        if let Some(known) = self.stacks.get(frames) {
            return Ok(*known);
        }
        let number = self.stacks.len() as u32;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend((frames.len() as u32).to_le_bytes());
        payload.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
        self.record(kind::STACKS, &payload)?;
        self.stacks.insert(frames.to_vec(), number);
        Ok(number)
    }
    /// The number + 1 of a pool, as events have it.
    pub fn pool(&mut self, pair: (i64, i64)) -> std::io::Result<u16> {
        if let Some(known) = self.pools.get(&pair) {
            return Ok(known + 1);
        }
        let number = self.pools.len() as u16;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend([0; 6]);
        payload.extend(pair.0.to_le_bytes());
        payload.extend(pair.1.to_le_bytes());
        self.record(kind::POOLS, &payload)?;
        self.pools.insert(pair, number);
        Ok(number + 1)
    }
    /// An event. It waits for others; [`LogWriter::flush`] writes what waits.
    pub fn event(&mut self, event: &Event) -> std::io::Result<()> {
        event.encode(&mut self.events);
        if EVENTS_HELD * Event::BYTES <= self.events.len() { self.write_events() } else { Ok(()) }
    }
    /// Events that were missed.
    pub fn gap(&mut self, device: i32, reason: &str, missed: Option<u64>, time_us: Option<i64>) -> std::io::Result<()> {
        let reason = self.text(reason)?;
        let mut payload = device.to_le_bytes().to_vec();
        payload.extend(reason.to_le_bytes());
        payload.extend(missed.unwrap_or(UNKNOWN).to_le_bytes());
        payload.extend(time_us.unwrap_or(NO_TIME).to_le_bytes());
        self.write_events()?;
        self.record(kind::GAP, &payload)
    }
    /// What devices hold.
    pub fn samples(&mut self, samples: &[DeviceSample]) -> std::io::Result<()> {
        let mut payload = Vec::new();
        for sample in samples {
            payload.extend(sample.device.to_le_bytes());
            payload.extend(sample.process.unwrap_or(0).to_le_bytes());
            for size in [sample.total, sample.used, sample.free] {
                payload.extend(size.unwrap_or(UNKNOWN).to_le_bytes());
            }
            payload.extend(sample.time_us.to_le_bytes());
        }
        self.record(kind::SAMPLES, &payload)
    }
    /// Segments and blocks of a device.
    pub fn state(&mut self, state: &StateRecord) -> std::io::Result<()> {
        self.write_events()?;
        self.record(kind::STATE, &state.encode())
    }
    /// A mark on the time axis; stage 0 begin, 1 end, 2 a moment.
    pub fn mark(&mut self, time_us: i64, device: i32, name: &str, stage: u8) -> std::io::Result<()> {
        let text = self.text(name)?;
        let mut payload = time_us.to_le_bytes().to_vec();
        payload.extend(device.to_le_bytes());
        payload.extend(text.to_le_bytes());
        payload.extend([stage, 0, 0, 0, 0, 0, 0, 0]);
        self.record(kind::MARKS, &payload)
    }
    /// A word of the recorder.
    pub fn note(&mut self, time_us: i64, severity: Severity, text: &str) -> std::io::Result<()> {
        let severity = match severity {
            Severity::Info => 0,
            Severity::Warning => 1,
            Severity::Error => 2u8,
        };
        let mut payload = time_us.to_le_bytes().to_vec();
        payload.extend([severity, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend(text.as_bytes());
        self.record(kind::NOTE, &payload)
    }
    /// The job is over.
    pub fn end(&mut self, end: &End) -> std::io::Result<()> {
        let mut payload = end.time_us.unwrap_or(NO_TIME).to_le_bytes().to_vec();
        payload.extend(end.code.unwrap_or(-1).to_le_bytes());
        payload.extend(end.signal.unwrap_or(-1).to_le_bytes());
        payload.extend(end.text.as_bytes());
        self.write_events()?;
        self.record(kind::END, &payload)?;
        self.out.flush()
    }
    /// Writes what waits.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.write_events()?;
        self.out.flush()
    }
    fn write_events(&mut self) -> std::io::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let written = self.out.write_all(&record(kind::EVENTS, &self.events));
        self.events.clear();
        written
    }
}
