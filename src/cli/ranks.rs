//! `info` over many files: one row each, the odd ones first, and the usual one named.
//!
//! Always: the rows are those of the window's page of ranks; a file that cannot be read is a row with its sentence, is said on
//! standard error too, and the exit code tells.

use crate::analysis::{RankReading, RankVerdicts};
use crate::base::{Bytes, counted, grouped};
use crate::cli::command::Outcome;
use crate::cli::opening::{self, Device};
use crate::cli::output;
use crate::cli::table::{Align, Table};
use crate::model::Snapshot;
use crate::report::json::{self, FileInfo, RankInfo};
use crate::session::rank_files::{self, MANY_FILES, RankFile};
use crate::session::ranks;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files that names stand for, folders and patterns filled in; and whether they are to be looked at together.
pub fn named<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> anyhow::Result<(Vec<PathBuf>, bool)> {
    let (mut files, mut together) = (Vec::new(), false);
    for path in paths {
        let found = rank_files::filled_in(path).map_err(anyhow::Error::msg)?;
        together |= rank_files::is_many(path) && 1 < found.len();
        files.extend(found);
    }
    let many = MANY_FILES < files.len();
    Ok((files, together || many))
}

/// What is kept of a file.
type Kept = (RankReading, Option<FileInfo>);

/// Prints the table, or the list of `--json`.
pub fn print(paths: Vec<PathBuf>, as_json: bool) -> anyhow::Result<Outcome> {
    let files = rank_files::by_rank(paths);
    let paths: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let kept: Mutex<Vec<Kept>> = Mutex::new(files.iter().map(|_| (RankReading::Waiting, None)).collect());
    opening::watched(|progress| {
        ranks::read_each(&paths, progress, |place, read, progress| {
            let reading = ranks::reading_of(read.as_ref().map_err(Clone::clone), progress)?;
            let info = match &read {
                Ok(snapshot) if as_json => Some(info_of(snapshot)?),
                Ok(_) | Err(_) => None,
            };
            kept.lock().unwrap_or_else(PoisonError::into_inner)[place] = (reading, info);
            Ok(())
        })
    })?;
    let (readings, infos): (Vec<RankReading>, Vec<Option<FileInfo>>) =
        kept.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().unzip();
    let verdicts = RankVerdicts::of(&readings);
    let mut out = output::answers();
    if as_json {
        let mut list: Vec<Option<FileInfo>> = infos
            .into_iter()
            .enumerate()
            .map(|(row, info)| Some(info?.with_rank(RankInfo::of(files[row].rank, &verdicts, row))))
            .collect();
        let list: Vec<FileInfo> = verdicts.order.iter().filter_map(|row| list.get_mut(*row)?.take()).collect();
        json::write_info(&list, &mut out)?;
    } else {
        out.write_all(text(&files, &readings, &verdicts).as_bytes())?;
    }
    out.flush()?;
    let mut outcome = Outcome::Done;
    for (file, reading) in files.iter().zip(&readings) {
        if let RankReading::Unreadable(why) = reading {
            output::note(&format!("{}: {why}", file.path.display()));
            outcome = Outcome::Incomplete;
        }
    }
    Ok(outcome)
}

fn info_of(snapshot: &Snapshot) -> Result<FileInfo, crate::base::Cancelled> {
    let mut summaries = Vec::with_capacity(snapshot.devices.len());
    for id in snapshot.devices.ids() {
        summaries.push(Device::prepare(snapshot, id).map_err(|_| crate::base::Cancelled)?.summary(snapshot)?);
    }
    Ok(FileInfo::of(snapshot, &summaries))
}

fn text(files: &[RankFile], readings: &[RankReading], verdicts: &RankVerdicts) -> String {
    let mut text = format!("{}: {}\n", counted(files.len() as u64, "file"), verdicts.sentence());
    let usual = verdicts.median.and_then(|row| files.get(row));
    if let (Some(medians), Some(file)) = (verdicts.medians, usual) {
        text.push_str(&format!(
            "median: peak {} allocated, {} reserved, largest free block {} at the peak; nearest to it: {}\n",
            Bytes(medians.peak_allocated),
            Bytes(medians.peak_reserved),
            Bytes(medians.free_at_peak),
            output::one_line(&file.path.display().to_string())
        ));
    }
    text.push('\n');
    let right = Align::Right;
    let mut table = Table::new(&[Align::Left, Align::Left, right, right, right, right, right, right, Align::Left]);
    table.row(["rank", "file", "peak allocated", "peak reserved", "end", "free at peak", "OOMs", "events", "what is odd"]);
    for row in &verdicts.order {
        let (file, median) = (&files[*row], verdicts.median == Some(*row));
        let rank = file.rank.map_or_else(String::new, |rank| rank.to_string());
        let mut cells = vec![rank, output::one_line(&file.name())];
        match readings[*row].figures() {
            Some(of) => cells.extend([
                Bytes(of.peak_allocated.bytes).to_string(),
                Bytes(of.peak_reserved.bytes).to_string(),
                Bytes(of.end_allocated).to_string(),
                Bytes(of.free_at_peak).to_string(),
                grouped(of.ooms),
                grouped(of.events),
            ]),
            None => cells.extend(std::iter::repeat_n(String::new(), 6)),
        }
        cells.push(if median { "(the median rank)".to_owned() } else { output::one_line(&verdicts.words(*row)) });
        table.row(cells);
    }
    text.push_str(&table.lines(0));
    text
}
