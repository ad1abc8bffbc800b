//! The ranks of a job: hundreds of files read beside each other, of each only its figures kept.
//!
//! Always: at most [`READERS`] files are in memory at once, and together no more than [`BUDGET`] bytes of content, unless a
//! single one is larger: that one is then read alone. A file that cannot be read is a row with its sentence.

use crate::analysis::{RankFigures, RankReading, RankVerdicts};
use crate::base::{Cancelled, Progress};
use crate::format;
use crate::model::Snapshot;
use crate::session::document::DocumentId;
use crate::session::jobs::{JobContext, JobId, JobSpec, Lane, panic_text};
use crate::session::rank_files::{self, MANY_FILES, RankFile};
use crate::session::{Command, Message, Session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Files that are read at once, at most.
const READERS: usize = 4;
/// Bytes of unpacked content that are read at once: a snapshot and its replay take up to four times as much.
const BUDGET: u64 = 256 << 20;
/// How much larger than its file a packed snapshot may be taken to be: gzip packs them about twelvefold.
const PACKED: u64 = 12;

/// The ranks of a job, as far as they were read.
#[derive(Clone, Debug)]
pub struct RankSet {
    /// Grows with each set that is opened.
    pub number: u64,
    /// Where they come from: a folder, a pattern.
    pub title: String,
    /// The files, in the order of their ranks.
    pub files: Vec<RankFile>,
    /// How far each is.
    pub readings: Vec<RankReading>,
    /// What is odd, of those that were read.
    pub verdicts: RankVerdicts,
    /// Whether the verdicts are older than the readings.
    stale: bool,
    job: JobId,
}

impl RankSet {
    /// Files that were read, or could not be.
    pub fn done(&self) -> usize {
        self.verdicts.read + self.verdicts.unreadable
    }
    /// The job that reads them.
    pub fn job(&self) -> JobId {
        self.job
    }
}

/// Two documents that are to be compared: the one in front with a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedComparison {
    /// Grows with each asking.
    pub number: u64,
    /// What is looked at.
    pub front: DocumentId,
    /// What it is compared with.
    pub baseline: DocumentId,
}

/// The figures of a file, or the sentence why there are none.
pub fn reading_of(read: Result<&Snapshot, String>, progress: &Progress) -> Result<RankReading, Cancelled> {
    match read {
        Err(why) => Ok(RankReading::Unreadable(why)),
        Ok(snapshot) => Ok(match RankFigures::of(snapshot, progress)? {
            Some(figures) => RankReading::Read(figures),
            None => RankReading::Unreadable("it names no device: it holds neither segments nor events".to_owned()),
        }),
    }
}

/// Reads many files, a few at once, and hands each to `work` with its place in the list, from any thread and in any order;
/// what `work` was given is gone before the next file is read.
pub fn read_each(
    paths: &[&Path],
    progress: &Progress,
    work: impl Fn(usize, Result<Snapshot, String>, &Progress) -> Result<(), Cancelled> + Sync,
) -> Result<(), Cancelled> {
    progress.stage("reading files", paths.len() as u64)?;
    let readers = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, READERS).min(paths.len());
    let (next, done, room) = (AtomicUsize::new(0), AtomicU64::new(0), Room::default());
    let read = || -> Result<(), Cancelled> {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(place) else { return Ok(()) };
            progress.check()?;
            let weight = weight_of(path);
            let held = room.enter(weight);
            let part = progress.part();
            // A defect that one file brings to light leaves the others their rows.
            let result = catch_unwind(AssertUnwindSafe(|| work(place, open(path, &part)?, &part)));
            let result = result.unwrap_or_else(|panic| {
                let told = format!("reading it met a defect in Fragscope: {}", panic_text(&*panic));
                work(place, Err(told), &part)
            });
            drop(held);
            result?;
            progress.at(done.fetch_add(1, Ordering::Relaxed) + 1)?;
        }
    };
    std::thread::scope(|threads| {
        let others: Vec<_> = (1..readers).map(|_| threads.spawn(read)).collect();
        let mine = read();
        let ended =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        others.into_iter().map(ended).chain([mine]).collect()
    })
}

fn open(path: &Path, progress: &Progress) -> Result<Result<Snapshot, String>, Cancelled> {
    let read = format::open(path, progress);
    progress.check()?;
    let name = path.display().to_string();
    // The row names the file already.
    Ok(read.map_err(|error| {
        let text = error.to_string();
        match text.strip_prefix(&name) {
            Some(rest) if rest.starts_with(':') => rest.trim_start_matches([':', ' ']).to_owned(),
            Some(rest) => format!("it{rest}"),
            None => text,
        }
    }))
}

/// What a file weighs against the budget: about its unpacked size.
fn weight_of(path: &Path) -> u64 {
    let bytes = std::fs::metadata(path).map_or(0, |facts| facts.len());
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_packed = ["gz", "zst", "xz", "bz2", "zip"].contains(&ending.as_str());
    bytes.saturating_mul(if is_packed { PACKED } else { 1 })
}

/// Room for files up to the budget; a file that is larger has it alone.
#[derive(Default)]
struct Room {
    /// Bytes and files inside.
    inside: Mutex<(u64, usize)>,
    left: Condvar,
}

impl Room {
    /// Waits until there is room; it is given back when what this returns is dropped.
    fn enter(&self, weight: u64) -> Held<'_> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |inside: &mut (u64, usize)| 0 < inside.1 && BUDGET < inside.0.saturating_add(weight);
        let mut inside = self.left.wait_while(inside, full).unwrap_or_else(PoisonError::into_inner);
        *inside = (inside.0.saturating_add(weight), inside.1 + 1);
        Held { room: self, weight }
    }
}

/// Room that a file takes.
struct Held<'a> {
    room: &'a Room,
    weight: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut inside = self.room.inside.lock().unwrap_or_else(PoisonError::into_inner);
        *inside = (inside.0.saturating_sub(self.weight), inside.1.saturating_sub(1));
        drop(inside);
        self.room.left.notify_all();
    }
}

impl Session {
    /// The ranks that were opened together last.
    pub fn ranks(&self) -> Option<&RankSet> {
        self.ranks.as_ref()
    }
    /// The comparison that was asked for last.
    pub fn wanted_comparison(&self) -> Option<WantedComparison> {
        self.wanted_comparison
    }
    /// Opens what paths stand for: a few files each as a document, a folder, a pattern or many files as ranks.
    pub(super) fn open_all(&mut self, paths: Vec<PathBuf>) {
        let spec = JobSpec { title: "looking for snapshots".into(), slot: None, lane: Lane::Own, listed: true };
        self.jobs.start(spec, move |cx| {
            look_for(&paths, cx);
            Ok(())
        });
    }
    pub(super) fn open_ranks(&mut self, title: String, files: Vec<RankFile>) {
        self.close_ranks();
        let number = self.next_ranks + 1;
        self.next_ranks = number;
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let spec = JobSpec { title: format!("reading the ranks of {title}"), slot: None, lane: Lane::Own, listed: true };
        let status = self.jobs.start(spec, move |cx| {
            let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            read_each(&paths, &cx.progress, |place, read, progress| {
                let reading = reading_of(read.as_ref().map_err(Clone::clone), progress)?;
                drop(read);
                cx.send(Message::Rank(number, place, Box::new(reading)));
                Ok(())
            })?;
            Ok(())
        });
        let readings = vec![RankReading::Waiting; files.len()];
        let verdicts = RankVerdicts::of(&readings);
        self.ranks = Some(RankSet { number, title, files, readings, verdicts, stale: false, job: status.id });
    }
    pub(super) fn close_ranks(&mut self) {
        if let Some(ranks) = self.ranks.take() {
            self.jobs.cancel(ranks.job);
        }
    }
    pub(super) fn arrive_rank(&mut self, number: u64, place: usize, reading: RankReading) {
        let Some(ranks) = self.ranks.as_mut().filter(|ranks| ranks.number == number) else { return };
        if let Some(row) = ranks.readings.get_mut(place) {
            *row = reading;
            ranks.stale = true;
        }
    }
    /// Judges what arrived, once a tick.
    pub(super) fn judge_ranks(&mut self) {
        if let Some(ranks) = self.ranks.as_mut().filter(|ranks| ranks.stale) {
            ranks.verdicts = RankVerdicts::of(&ranks.readings);
            ranks.stale = false;
        }
    }
    /// Opens a rank as a document, or brings it to the front.
    pub(super) fn show_rank(&mut self, row: usize) -> Option<DocumentId> {
        let path = self.ranks.as_ref()?.files.get(row)?.path.clone();
        let open = self.documents.iter().find(|document| document.path.as_ref() == Some(&path)).map(|document| document.id);
        if let Some(id) = open {
            self.workspace.active = Some(id);
            return open;
        }
        Some(self.open(crate::session::opening::Source::Path(path)))
    }
    /// Opens a rank and the usual one, and asks for their comparison.
    pub(super) fn compare_rank(&mut self, row: usize) {
        let Some(median) = self.ranks.as_ref().and_then(|ranks| ranks.verdicts.median).filter(|median| *median != row) else {
            return;
        };
        let (Some(baseline), Some(front)) = (self.show_rank(median), self.show_rank(row)) else { return };
        let number = self.wanted_comparison.map_or(0, |wanted| wanted.number) + 1;
        self.wanted_comparison = Some(WantedComparison { number, front, baseline });
    }
    /// A baseline that was opened after what is compared with it stays behind it.
    pub(super) fn keep_compared_in_front(&mut self, arrived: DocumentId) {
        let Some(wanted) = self.wanted_comparison.filter(|wanted| wanted.baseline == arrived) else { return };
        if self.documents.iter().any(|document| document.id == wanted.front) {
            self.workspace.active = Some(wanted.front);
        }
    }
}

/// Finds files and sends the commands that open them.
fn look_for(paths: &[PathBuf], cx: &JobContext<Message>) {
    let mut found = Vec::new();
    let several = paths.iter().any(|path| rank_files::is_many(path));
    for path in paths {
        match rank_files::filled_in(path) {
            Ok(files) => found.extend(files),
            Err(why) => {
                let text = match why.chars().next() {
                    Some(first) if path.to_string_lossy().starts_with(first) => why,
                    Some(first) => first.to_uppercase().chain(why.chars().skip(1)).collect(),
                    None => why,
                };
                cx.send(Message::Note { text: format!("{text}."), is_error: true });
            }
        }
    }
    let as_ranks = (several && 1 < found.len()) || MANY_FILES < found.len();
    let title = match paths {
        [one] => one.display().to_string(),
        _ => format!("{} files", found.len()),
    };
    cx.send(Message::Commands(if as_ranks {
        vec![Command::OpenRanks { title, files: rank_files::by_rank(found) }]
    } else {
        found.into_iter().map(Command::Open).collect()
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_have_the_room_alone() {
        let room = Room::default();
        drop(room.enter(BUDGET * 3));
        let halves = [room.enter(BUDGET / 2), room.enter(BUDGET / 2)];
        assert_eq!(*room.inside.lock().expect("nobody panicked"), (BUDGET, 2));
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| room.enter(BUDGET));
            drop(halves);
            let whole = waiting.join().expect("it enters");
            assert_eq!(*room.inside.lock().expect("nobody panicked"), (BUDGET, 1));
            drop(whole);
        });
        assert_eq!(*room.inside.lock().expect("nobody panicked"), (0, 0));
    }
}
