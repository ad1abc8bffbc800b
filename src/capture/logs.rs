//! The logs that the processes of one job write: their names, their ends, what is asked of their writers.

use crate::format::fsl::{self, End, LogWriter, Piece, Record, Splitter, writer};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// A log that is named by nobody: the first free one of `capture-1.fsl`, `capture-2.fsl` … in the current folder.
pub fn free_name() -> PathBuf {
    free_name_in(Path::new(""))
}

/// As [`free_name`], in a folder.
pub fn free_name_in(folder: &Path) -> PathBuf {
    let mut names = (1u32..).map(|number| folder.join(format!("capture-{number}.fsl")));
    names.find(|path| of(path).is_empty()).unwrap_or_else(|| folder.join("capture.fsl"))
}

/// The logs there are of a job that was told to write `out`: its own, those of ranks, those of further processes.
pub fn of(out: &Path) -> Vec<PathBuf> {
    let Some(stem) = stem(out) else { return Vec::new() };
    let mut found: Vec<PathBuf> = beside(out)
        .into_iter()
        .filter(|(name, _)| {
            let rest = name.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".fsl"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".rank") || rest.starts_with(".pid"))
        })
        .map(|(_, path)| path)
        // A pipe is somebody's to read.
        .filter(|path| path.is_file())
        .collect();
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    found
}

/// What recorders of a job could not write into a log, line by line; the file that held it goes.
pub fn complaints(out: &Path) -> Vec<String> {
    let mut path = out.as_os_str().to_owned();
    path.push(".error");
    let Ok(text) = std::fs::read_to_string(&path) else { return Vec::new() };
    // It was read.
    let _ = std::fs::remove_file(&path);
    if text.is_empty() {
        return vec!["something could not be written, and there was no room to say what: the disk is full".to_owned()];
    }
    text.lines().map(str::to_owned).collect()
}

/// Asks the recorder that writes a log: `snapshot [FILE]`, `mark NAME`, `stop`.
pub fn ask(log: &Path, request: &str) -> std::io::Result<()> {
    let mut path = log.as_os_str().to_owned();
    path.push(".ask");
    let mut part = path.clone();
    part.push(".part");
    std::fs::write(&part, format!("{request}\n"))?;
    std::fs::rename(part, path)
}

/// Writes down how the job ended, where its recorder could not: what it was killed by, and its exit code.
pub(super) fn end(log: &Path, ended: Option<(u32, ExitStatus)>) {
    let mut known = known_of(log);
    let (code, signal) = match ended {
        Some((process, status)) if known.process == Some(process) => (status.code(), signal_of(status)),
        _ => (None, None),
    };
    if known.ended && code.is_none() && signal.is_none() {
        return;
    }
    let text = if known.ended { std::mem::take(&mut known.text) } else { "its recorder did not see the end".to_owned() };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok();
    let end = End { time_us: now.and_then(|now| i64::try_from(now.as_micros()).ok()), code, signal, text };
    let written = std::fs::OpenOptions::new().append(true).open(log).and_then(|mut file| {
        let mut record = Vec::new();
        LogWriter::appending(&mut record).end(&end)?;
        file.write_all(&record)
    });
    // A log that cannot be written to is still whole.
    let _ = written;
}

/// Whether a log's writer has ended it.
pub fn has_end(log: &Path) -> bool {
    known_of(log).ended
}

/// The devices that a log's beginning names, each with its unchanging name where that is known.
pub(super) fn devices_of(log: &Path) -> Option<Vec<(i32, Option<String>)>> {
    let devices = known_of(log).devices;
    (!devices.is_empty()).then_some(devices)
}
/// The process that writes a log, where it says so and ran on this machine.
pub fn writer(log: &Path) -> Option<u32> {
    let Known { process, host, .. } = known_of(log);
    let is_here = host.is_none() || host == crate::capture::processes::host();
    process.filter(|_| is_here)
}

#[derive(Default)]
struct Known {
    devices: Vec<(i32, Option<String>)>,
    process: Option<u32>,
    host: Option<String>,
    ended: bool,
    text: String,
}

/// Of a log's beginning and its end, this much is looked at.
const LOOKED_AT: u64 = 64 << 10;

/// The process that wrote a log, and whether the log has an end.
fn known_of(log: &Path) -> Known {
    let mut known = Known::default();
    // What cannot be read has nothing to say.
    let Ok((head, tail)) = both_ends(log) else { return known };
    let preamble = writer::preamble();
    for pieces in [[&[][..], &head], [&preamble[..], &tail]] {
        let mut splitter = Splitter::default();
        for bytes in pieces {
            splitter.feed(bytes);
        }
        splitter.finish();
        while let Some(piece) = splitter.next_piece() {
            let Piece::Record { kind, payload, .. } = piece else { continue };
            match Record::decode(kind, payload) {
                Ok(Record::Facts(json)) => {
                    let devices = fsl::devices_named(&json);
                    if !devices.is_empty() {
                        known.devices = devices;
                    }
                    known.process = fsl::fact(&json, "pid").and_then(|number| number.parse().ok()).or(known.process);
                    known.host = fsl::fact(&json, "host").or(known.host);
                }
                Ok(Record::End(end)) => (known.ended, known.text) = (true, end.text),
                _ => {}
            }
        }
    }
    known
}

fn both_ends(log: &Path) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let mut file = std::fs::File::open(log)?;
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    std::io::Read::by_ref(&mut file).take(LOOKED_AT).read_to_end(&mut head)?;
    let size = file.metadata()?.len();
    file.seek(std::io::SeekFrom::Start(size.saturating_sub(LOOKED_AT)))?;
    file.read_to_end(&mut tail)?;
    Ok((head, tail))
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

fn stem(out: &Path) -> Option<String> {
    let name = out.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(".fsl").map_or(name.clone(), str::to_owned))
}

fn beside(out: &Path) -> Vec<(String, PathBuf)> {
    let folder = out.parent().unwrap_or(Path::new(""));
    let looked_in = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(looked_in).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), folder.join(entry.file_name()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_of_a_job_are_found_by_name() {
        let folder = tempfile::tempdir().expect("a test's own");
        for name in ["a.fsl", "a.rank0.fsl", "a.rank10.fsl", "a.pid7.fsl", "ab.fsl", "a.exit.pickle", "a.x.fsl", "b.rank0.fsl"] {
            std::fs::write(folder.path().join(name), b"").expect("a test's own");
        }
        let found = of(&folder.path().join("a.fsl"));
        let names: Vec<_> =
            found.iter().map(|path| path.file_name().expect("a test's own").to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a.fsl", "a.pid7.fsl", "a.rank0.fsl", "a.rank10.fsl"]);
        assert!(of(&folder.path().join("c.fsl")).is_empty());
    }
}
