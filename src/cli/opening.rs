//! Opening a file and picking its device, with progress on a terminal.

use crate::analysis::{Asked, Query, Summary, UsageTimeline};
use crate::base::{Bytes, Cancelled, Progress};
use crate::cli::output;
use crate::format::Told;
use crate::model::{DeviceId, DeviceMemory, Snapshot};
use crate::replay::Replay;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

/// How long work runs before its progress is worth a line.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often the line is renewed.
const REFRESH: Duration = Duration::from_millis(100);

/// What this process was told of the files it opens: set once, from its arguments.
static TOLD: OnceLock<Told> = OnceLock::new();

/// Adds the arguments that say what files do not say themselves.
pub fn arguments(command: clap::Command) -> clap::Command {
    command.arg(
        clap::Arg::new("block-bytes")
            .long("block-bytes")
            .value_name("SIZE")
            .value_parser(|text: &str| match Bytes::parse(text) {
                Some(Bytes(0)) | None => Err("a size such as 2MiB or 2097152 is needed".to_owned()),
                Some(Bytes(bytes)) => Ok(bytes),
            })
            .help("Bytes of one block of a KV cache, for logs of KV-cache events: they count in blocks"),
    )
}

/// Takes what the arguments say of files.
pub fn listen(matches: &clap::ArgMatches) {
    let block_bytes = matches.try_get_one::<u64>("block-bytes").ok().flatten().copied();
    // A process has its arguments once.
    let _ = TOLD.set(Told { block_bytes });
}

/// What this process was told of the files it opens.
pub fn told() -> Told {
    TOLD.get().copied().unwrap_or_default()
}

/// Reads a file; the error is the sentence for the user.
pub fn open(path: &Path) -> anyhow::Result<Snapshot> {
    let snapshot = watched(|progress| crate::format::open_told(path, told(), progress))?;
    Ok(snapshot)
}

/// What is asked about one device: its replay and its curves.
pub struct Device<'a> {
    /// Its row in the snapshot.
    pub id: DeviceId,
    /// Its memory.
    pub memory: &'a DeviceMemory,
    /// Random access to its states.
    pub replay: Replay,
    /// Its counters over time.
    pub timeline: UsageTimeline,
}

impl<'a> Device<'a> {
    /// Prepares a device for questions.
    pub fn prepare(snapshot: &'a Snapshot, id: DeviceId) -> anyhow::Result<Device<'a>> {
        let memory = &snapshot.devices[id];
        let timeline = watched(|progress| UsageTimeline::of(memory, progress))?;
        Ok(Device { id, memory, replay: Replay::new(memory), timeline })
    }
    /// Its figures.
    pub fn summary(&self, snapshot: &Snapshot) -> Result<Summary, Cancelled> {
        Summary::of(self.memory, &self.replay, &snapshot.stacks, &self.timeline, &Progress::new())
    }
    /// The device of this ordinal; left open the one with most events, which is said where there is a choice.
    pub fn pick(snapshot: &'a Snapshot, ordinal: Option<i32>) -> anyhow::Result<Device<'a>> {
        let file = &snapshot.origin.name;
        let used: Vec<&DeviceMemory> = snapshot.devices.as_slice().iter().filter(|device| device.is_used()).collect();
        let id = match ordinal {
            Some(ordinal) => snapshot.device_of_ordinal(ordinal).ok_or_else(|| {
                let there: Vec<String> = snapshot.devices.as_slice().iter().map(|d| d.ordinal.to_string()).collect();
                let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
                anyhow::anyhow!("no device {ordinal} in {file}: it holds {there}; name one of these with --device")
            })?,
            None => snapshot.busiest_device().ok_or_else(|| {
                anyhow::anyhow!("no device in {file}: nothing was allocated when it was written, so there is no state to show")
            })?,
        };
        if ordinal.is_none() && 1 < used.len() {
            let others: Vec<String> =
                used.iter().filter(|d| d.ordinal != snapshot.devices[id].ordinal).map(|d| d.title()).collect();
            let title = snapshot.devices[id].title();
            output::note(&format!("taking {title}, which has the most events; --device picks {}", others.join(" or ")));
        }
        Device::prepare(snapshot, id)
    }
}

/// Asks a question, with a progress line where it takes long.
pub fn answer<Q: Query>(asked: &Asked<'_>, params: &Q::Params) -> Result<Q::Answer, Cancelled> {
    watched(|progress| Q::answer(asked, params, progress))
}

/// Runs work with a progress line on standard error, where that is a terminal.
pub fn watched<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::new();
    if !io::stderr().is_terminal() {
        return work(&progress);
    }
    let (done, waiting) = mpsc::channel::<()>();
    let watched = progress.clone();
    // The watcher only reads the progress and ends when the work drops its side of the channel.
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let (mut wait, mut shown) = (PATIENCE, false);
            let mut terminal = io::stderr();
            while waiting.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
                let share = watched.fraction().map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
                let _ = write!(terminal, "\r\x1b[2K{}{share}", watched.stage_name());
                let _ = terminal.flush();
                (wait, shown) = (REFRESH, true);
            }
            if shown {
                let _ = write!(terminal, "\r\x1b[2K");
            }
        });
        let answer = work(&progress);
        drop(done);
        answer
    })
}
