//! The job that reads a log on while it grows, and makes a new snapshot of all of it now and then.
//!
//! Always: nothing is read twice; a new snapshot is begun only when the one before is on the screen, and never sooner
//! than [`SHORTEST`] or [`REST`] times what the last one cost, so that a long recording is renewed less often and takes
//! half of one core at most; while it is held, reading goes on and nothing is lost.

use crate::base::Progress;
use crate::capture::{logs, processes};
use crate::format::fsl::{Filling, MAGIC, Tail};
use crate::model::{DeviceMemory, Missing, Origin, OriginKind, Snapshot};
use crate::replay::{Replay, SnapshotBuilder};
use crate::session::Message;
use crate::session::document::DocumentId;
use crate::session::jobs::{JobContext, JobError};
use crate::session::live::{Ending, News};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Between two looks at the log.
const LOOK: Duration = Duration::from_millis(40);
/// Between two new snapshots, at least.
const SHORTEST: Duration = Duration::from_millis(250);
/// A new snapshot waits this many times as long as the last one took.
const REST: u32 = 1;
/// What is read between two looks at what else there is to do, in bytes.
const SLICE: u64 = 4 << 20;
/// A log whose reader is behind is shown as far as it was read after this time.
const CATCHING_UP: Duration = Duration::from_secs(2);
/// A log without a process that could be looked at is over when its end was written and nothing came for so long.
const QUIET: Duration = Duration::from_secs(3);
/// What comes after the end of a job is waited for so long: its exit code is written by whoever started it.
const LINGER: Duration = Duration::from_millis(700);
/// A log that nobody's process tells of is taken for growing when it was changed this lately.
const LATELY: Duration = Duration::from_secs(10);
/// How often the window hears how much was read.
const TOLD: Duration = Duration::from_millis(500);

/// What the window and the job of one live document tell each other without waiting.
#[derive(Debug, Default)]
pub struct Control {
    /// No new snapshots are made.
    pub held: AtomicBool,
    /// The newest snapshot is on the screen, with what was asked about it.
    pub taken: AtomicBool,
    /// What taking it cost besides, in µs.
    pub taking_us: AtomicU64,
    /// Events that were read.
    pub events: AtomicU64,
    /// Bytes that were read.
    pub bytes: AtomicU64,
    /// Events a second, of the last second or two.
    pub rate: AtomicU64,
}

/// A log with what was read of it.
pub struct Reading {
    path: PathBuf,
    tail: Tail,
    filling: Filling,
    /// The process that writes it, where it runs on this machine.
    writer: Option<u32>,
}

/// A snapshot of all that was read so far.
#[derive(Clone, Debug)]
pub struct Built {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// One replay a device.
    pub replays: Arc<Vec<Replay>>,
    /// Rows of blocks and segments mean what they meant in the snapshot before.
    pub keeps_rows: bool,
}

/// Whether a file is a log that somebody still writes.
pub fn is_live(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return false };
    let Ok(facts) = std::fs::metadata(path) else { return false };
    if !facts.is_file() {
        return false;
    }
    let mut head = [0; 8];
    let begins = std::fs::File::open(path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    let is_log = if begins == 0 { name.ends_with(".fsl") } else { head[..begins] == MAGIC[..begins] };
    if !is_log || logs::has_end(path) {
        return false;
    }
    let age = facts.modified().ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
    logs::writer(path).is_some_and(processes::is_alive) || age.is_some_and(|age| age < LATELY)
}

impl Reading {
    /// Opens a log and reads what there is.
    pub fn begin(path: &Path, progress: &Progress) -> Result<Reading, JobError> {
        let failed = |error: crate::format::FormatError| JobError::Failed(error.to_string());
        let size = std::fs::metadata(path).map_or(0, |facts| facts.len());
        let tail = Tail::open(path).map_err(failed)?;
        let mut reading = Reading { path: path.to_owned(), tail, filling: Filling::default(), writer: None };
        progress.stage("reading", size)?;
        while reading.read().map_err(failed)? != 0 {
            progress.at(reading.tail.bytes_read())?;
        }
        progress.stage("replaying", 0)?;
        Ok(reading)
    }
    /// What was read so far as a snapshot.
    pub fn build(&self, before: Option<&Built>, progress: &Progress) -> Result<Built, JobError> {
        let mut built = self.finish(self.filling.so_far(), before, progress)?;
        // The end is not there yet: that it is not stated is no news.
        if let Some(snapshot) = Arc::get_mut(&mut built.snapshot) {
            for device in snapshot.devices.as_mut_slice() {
                device.coverage.gaps.retain(|gap| gap.missing != Missing::End);
            }
        }
        Ok(built)
    }

    fn read(&mut self) -> Result<u64, crate::format::FormatError> {
        let read = self.tail.fill(&mut self.filling, SLICE)?;
        if self.writer.is_none() && read != 0 {
            self.writer = self.filling.job().fact("pid").and_then(|pid| pid.parse().ok()).filter(|_| self.is_here());
        }
        Ok(read)
    }
    /// Whether the job runs on this machine, as far as its log tells.
    fn is_here(&self) -> bool {
        match (self.filling.job().fact("host"), processes::host()) {
            (Some(host), Some(own)) => host == own,
            (Some(_), None) | (None, _) => true,
        }
    }
    fn finish(&self, builder: SnapshotBuilder, before: Option<&Built>, progress: &Progress) -> Result<Built, JobError> {
        let origin = Origin {
            name: self.path.display().to_string(),
            bytes: self.tail.bytes_read(),
            format: "fsl".to_owned(),
            kind: OriginKind::Capture,
            written_by: self.filling.written_by(),
        };
        let snapshot = builder.finish(origin, progress)?;
        let replays = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        let keeps_rows = before.is_none_or(|before| keeps_rows(&before.snapshot, &snapshot));
        Ok(Built { snapshot: Arc::new(snapshot), replays: Arc::new(replays), keeps_rows })
    }
    fn is_writer_gone(&self) -> bool {
        self.writer.is_some_and(|writer| !processes::is_alive(writer))
    }
}

/// Reads a log on until it is over.
pub fn follow(
    mut reading: Reading,
    mut shown: Built,
    id: DocumentId,
    control: &Control,
    cx: &JobContext<Message>,
) -> Result<(), JobError> {
    let mut pace = Pace::new(&mut reading);
    let news = |news| cx.send(Message::Live(Box::new(news)));
    loop {
        cx.progress.check()?;
        let read = match reading.read() {
            Ok(read) => read,
            Err(error) => {
                news(News::Over(id, None, Ending::Unreadable(error.to_string())));
                return Ok(());
            }
        };
        if pace.note(read, &mut reading, control) {
            news(News::Told);
        }
        if read == 0 && pace.is_over(&reading) {
            break;
        }
        if pace.is_due(read, &reading, control) {
            let began = Instant::now();
            shown = reading.build(Some(&shown), &cx.progress)?;
            control.taken.store(false, Ordering::Release);
            news(News::Built(id, shown.clone()));
            pace.built(began.elapsed(), &reading);
        }
        if read == 0 {
            std::thread::sleep(LOOK);
        }
    }
    let torn = !reading.filling.ended();
    let Reading { tail, filling, .. } = &mut reading;
    tail.end(filling);
    let ending = match &filling.job().ended {
        Some(end) => Ending::Ended(end.clone()),
        None if torn => Ending::Gone(reading.writer),
        None => Ending::Ended(crate::model::JobEnd::default()),
    };
    let last = reading.finish(reading.filling.clone().finish(), Some(&shown), &cx.progress)?;
    news(News::Over(id, Some(last), ending));
    Ok(())
}

/// When the next snapshot is due, and when nothing more will come.
struct Pace {
    /// Not before this.
    next: Instant,
    /// When the last one was made, and of how many bytes.
    built: (Instant, u64),
    last_new: Instant,
    gone_since: Option<Instant>,
    told: (Instant, u64),
    counted: (Instant, u64),
}

impl Pace {
    fn new(reading: &mut Reading) -> Pace {
        let now = Instant::now();
        let read = (now, reading.tail.bytes_read());
        let counted = (now, reading.filling.events());
        Pace { next: now, built: read, last_new: now, gone_since: None, told: read, counted }
    }
    /// Takes note of what was read; whether it is time to tell the window.
    fn note(&mut self, read: u64, reading: &mut Reading, control: &Control) -> bool {
        let (now, bytes) = (Instant::now(), reading.tail.bytes_read());
        if read != 0 {
            self.last_new = now;
        }
        let events = reading.filling.events();
        control.events.store(events, Ordering::Relaxed);
        control.bytes.store(bytes, Ordering::Relaxed);
        let counted_for = now.duration_since(self.counted.0);
        let mut tell = self.told.1 != bytes && TOLD <= now.duration_since(self.told.0);
        if Duration::from_secs(1) <= counted_for {
            let rate = events.saturating_sub(self.counted.1) as f64 / counted_for.as_secs_f64();
            let rate = rate.round() as u64;
            tell |= control.rate.swap(rate, Ordering::Relaxed) != rate;
            self.counted = (now, events);
        }
        if tell {
            self.told = (now, bytes);
        }
        tell
    }
    fn is_due(&self, read: u64, reading: &Reading, control: &Control) -> bool {
        let now = Instant::now();
        let caught_up = read < SLICE || CATCHING_UP <= now.duration_since(self.built.0);
        let rest = REST * Duration::from_micros(control.taking_us.load(Ordering::Relaxed));
        self.built.1 != reading.tail.bytes_read()
            && caught_up
            && self.next + rest <= now
            && control.taken.load(Ordering::Acquire)
            && !control.held.load(Ordering::Relaxed)
    }
    fn built(&mut self, cost: Duration, reading: &Reading) {
        let now = Instant::now();
        self.next = now + SHORTEST.max(REST * cost);
        self.built = (now, reading.tail.bytes_read());
    }
    /// Whether nothing more will come.
    fn is_over(&mut self, reading: &Reading) -> bool {
        let now = Instant::now();
        let quiet = now.duration_since(self.last_new);
        if reading.is_writer_gone() {
            let since = *self.gone_since.get_or_insert(now);
            let told = reading.filling.job().ended.as_ref().is_some_and(|end| end.code.is_some() || end.signal.is_some());
            return told || LINGER <= now.duration_since(since).min(quiet);
        }
        reading.filling.ended() && QUIET <= quiet
    }
}

/// Whether each row of blocks and segments of the older snapshot is the same in the newer one.
fn keeps_rows(older: &Snapshot, newer: &Snapshot) -> bool {
    let pairs = older.devices.as_slice().iter().zip(newer.devices.as_slice());
    older.devices.len() <= newer.devices.len() && pairs.into_iter().all(|(older, newer)| keeps_rows_of(older, newer))
}

fn keeps_rows_of(older: &DeviceMemory, newer: &DeviceMemory) -> bool {
    let (lives, segments) = (older.allocations.len(), older.segments.len());
    let (a, b) = (&older.allocations, &newer.allocations);
    older.ordinal == newer.ordinal
        && older.trace.len() <= newer.trace.len()
        && lives <= b.len()
        && segments <= newer.segments.len()
        && a.addresses() == &b.addresses()[..lives]
        && a.born() == &b.born()[..lives]
        && (older.segments.as_slice().iter().zip(newer.segments.as_slice()))
            .all(|(older, newer)| (older.address, older.born) == (newer.address, newer.born))
}
