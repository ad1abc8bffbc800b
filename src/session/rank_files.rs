//! Names of many files: a folder, a pattern, or a long list become the snapshots they stand for.
//!
//! Always: files come in the order of their ranks, those without one by name; of a folder only what looks like a snapshot
//! is taken, of a pattern and of a list everything.

use crate::analysis::{RankName, rank_of_path};
use std::path::{Path, PathBuf};

/// More files than this are looked at as the ranks of a job, not one by one.
pub const MANY_FILES: usize = 8;
/// Folders within a folder that are looked into.
const DEPTH: usize = 3;
/// Files that are taken of a folder or pattern.
const MOST_FILES: usize = 100_000;

/// One file of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFile {
    /// Where it is.
    pub path: PathBuf,
    /// The rank its name tells.
    pub rank: Option<RankName>,
}

impl RankFile {
    /// A file and its rank.
    pub fn of(path: PathBuf) -> RankFile {
        let rank = rank_of_path(&path.to_string_lossy());
        RankFile { path, rank }
    }
    /// The short name: the rank, else the file.
    pub fn title(&self) -> String {
        self.rank.map_or_else(|| self.name(), |rank| rank.to_string())
    }
    /// The file's name without its folder.
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }
}

/// Files in the order of their ranks.
pub fn by_rank(paths: Vec<PathBuf>) -> Vec<RankFile> {
    let mut files: Vec<RankFile> = paths.into_iter().map(RankFile::of).collect();
    files.sort_by(|a, b| (a.rank.is_none(), a.rank, &a.path).cmp(&(b.rank.is_none(), b.rank, &b.path)));
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// Whether a path stands for several files: a folder, or a pattern where no file is called so.
pub fn is_many(path: &Path) -> bool {
    path.is_dir() || is_pattern(path)
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?']) && !path.exists()
}

/// The files a path stands for, by name: those of a folder, those that fit a pattern, else itself. The error is a sentence.
pub fn filled_in(path: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    if path.is_dir() {
        let kinds = [&["pickle", "pkl", "fsl"][..], &["json", "html"]];
        // A folder of snapshots may hold a report or settings beside them: these are no ranks.
        for endings in kinds {
            look_into(path, DEPTH, endings, &mut found)?;
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            return Err(format!(
                "no snapshot is in {}: files ending in .pickle, .pkl, .fsl, .json or .html are looked for, packed or not; others \
                 are named by a pattern, {}",
                path.display(),
                path.join("*").display()
            ));
        }
    } else if is_pattern(path) {
        let parts: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        fit_into(PathBuf::new(), &parts, &mut found)?;
        if found.is_empty() {
            return Err(format!("no file is called {}: check the folder and the pattern", path.display()));
        }
    } else {
        found.push(path.to_owned());
    }
    found.sort();
    Ok(found)
}

fn unreadable(folder: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be read: {error}", folder.display())
}

fn look_into(folder: &Path, depth: usize, endings: &[&str], found: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?.flatten() {
        let path = entry.path();
        // Links are followed to files, not to folders: those may lead in a circle.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && 0 < depth {
            // What may not be looked into further down holds up nothing.
            look_into(&path, depth - 1, endings, found).unwrap_or_default();
        } else if found.len() < MOST_FILES && ends_in(&path, endings) && path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

fn ends_in(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let mut rest = name.as_str();
    while let Some((before, ending)) = rest.rsplit_once('.') {
        if endings.contains(&ending) {
            return !before.is_empty();
        }
        if !["gz", "zst", "xz", "bz2", "zip"].contains(&ending) {
            return false;
        }
        rest = before;
    }
    false
}

fn fit_into(base: PathBuf, parts: &[String], found: &mut Vec<PathBuf>) -> Result<(), String> {
    let Some((part, rest)) = parts.split_first() else {
        if base.is_file() && found.len() < MOST_FILES {
            found.push(base);
        }
        return Ok(());
    };
    if !part.contains(['*', '?']) {
        return fit_into(base.join(part), rest, found);
    }
    let folder = if base.as_os_str().is_empty() { Path::new(".") } else { base.as_path() };
    let pattern: Vec<char> = part.chars().collect();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // Below a star most folders hold something else.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let letters: Vec<char> = name.to_string_lossy().chars().collect();
        let is_hidden = letters.first() == Some(&'.') && pattern.first() != Some(&'.');
        if !is_hidden && fits(&pattern, &letters) {
            fit_into(base.join(&name), rest, found)?;
        }
    }
    Ok(())
}

/// Whether a name fits a pattern of letters, `?` for any letter and `*` for any run of them.
fn fits(pattern: &[char], name: &[char]) -> bool {
    // The last star, and what of the name it has taken so far: on a misfit it takes one letter more.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        for (pattern, name, wanted) in [
            ("*.pickle", "a.pickle", true),
            ("*.pickle", "a.pickle.gz", false),
            ("a*b*c", "aXbYbZc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a**", "a", true),
        ] {
            assert_eq!(fits(&letters(pattern), &letters(name)), wanted, "{pattern} {name}");
        }
        for (name, wanted) in [
            ("a.pickle", true),
            ("a.PKL.gz", true),
            ("a.txt", false),
            (".pickle", false),
            ("a.pickle.txt", false),
            ("a.gz", false),
        ] {
            assert_eq!(ends_in(Path::new(name), &["pickle", "pkl"]), wanted, "{name}");
        }
    }

    #[test]
    fn files_come_in_the_order_of_their_ranks() {
        let names = ["x/rank10.pickle", "x/rank9.pickle", "x/notes.pickle", "x/node1_gpu0.pickle", "x/rank9.pickle"];
        let files = by_rank(names.map(PathBuf::from).to_vec());
        let titles: Vec<String> = files.iter().map(RankFile::title).collect();
        assert_eq!(titles, ["rank 9", "rank 10", "node 1 gpu 0", "notes.pickle"]);
    }
}
