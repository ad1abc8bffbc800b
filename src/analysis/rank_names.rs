//! Which rank of a job wrote a file, by the names that people and frameworks give such files.
//!
//! Always: a number with a label (`rank`, `gpu`, `node` …) goes before one without; a name that tells nothing has no rank,
//! and neither has a date.

use std::fmt;

/// Who wrote a file, as its name tells. Ordered by node, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankName {
    /// The node, where the name tells one.
    pub node: Option<u32>,
    /// The rank; where the name tells a device only, that one's number.
    pub number: u32,
    /// Whether the number is that of a device, not of a rank.
    pub is_device: bool,
}

impl fmt::Display for RankName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_device { "gpu" } else { "rank" };
        match self.node {
            Some(node) => write!(f, "node {node} {kind} {}", self.number),
            None => write!(f, "{kind} {}", self.number),
        }
    }
}

/// Endings that tell what a file is, not who wrote it.
const ENDINGS: [&str; 12] = ["gz", "zst", "xz", "bz2", "zip", "pickle", "pkl", "json", "html", "htm", "fsl", "snapshot"];
/// No job has more ranks: what is larger is a date, a process or a step.
const MOST_RANKS: u32 = 200_000;

/// What one label in front of a number says.
enum Label {
    Rank,
    Device,
    Node,
}

impl Label {
    fn of(word: &str) -> Option<Label> {
        match word {
            "rank" | "r" | "globalrank" => Some(Label::Rank),
            "gpu" | "device" | "dev" | "cuda" | "localrank" => Some(Label::Device),
            "node" | "host" => Some(Label::Node),
            _ => None,
        }
    }
}

/// Letters or digits in a row.
enum Piece<'a> {
    Word(&'a str),
    Digits(&'a str),
}

/// The rank in a path: in the file's name, else by a label in that of its folder.
pub fn rank_of_path(path: &str) -> Option<RankName> {
    let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty());
    let name = stem(parts.next()?).to_ascii_lowercase();
    let folder = parts.next().unwrap_or_default().to_ascii_lowercase();
    let (here, around) = (labelled(&name), labelled(&folder));
    let node = here.node.or(around.node);
    let named = |number, is_device| Some(RankName { node, number, is_device });
    if let Some(number) = here.rank {
        return named(number, false);
    }
    if let Some(number) = here.device {
        return named(number, true);
    }
    if let Some(number) = around.rank {
        return named(number, false);
    }
    if let Some(number) = around.device {
        return named(number, true);
    }
    // The last number that stands alone: `snapshot_12`, `12_memory`. With a letter before it, it is part of a word: `h100`.
    let mut alone = name.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(number);
    alone.next_back().and_then(|number| named(number, false))
}

/// A file's name without its endings.
fn stem(name: &str) -> &str {
    let mut stem = name;
    while let Some((rest, ending)) = stem.rsplit_once('.') {
        if rest.is_empty() || !ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            break;
        }
        stem = rest;
    }
    stem
}

#[derive(Default)]
struct Labelled {
    rank: Option<u32>,
    device: Option<u32>,
    node: Option<u32>,
}

fn labelled(name: &str) -> Labelled {
    let pieces = pieces(name);
    let mut found = Labelled::default();
    for (at, pair) in pieces.windows(2).enumerate() {
        let [Piece::Word(word), Piece::Digits(digits)] = pair else { continue };
        let before = at.checked_sub(1).and_then(|at| pieces.get(at));
        let label = match before {
            Some(Piece::Word(before)) if matches!(*before, "local" | "global") => Label::of(&format!("{before}{word}")),
            _ => Label::of(word),
        };
        let (Some(label), Some(number)) = (label, number(digits)) else { continue };
        let place = match label {
            Label::Rank => &mut found.rank,
            Label::Device => &mut found.device,
            Label::Node => &mut found.node,
        };
        place.get_or_insert(number);
    }
    found
}

fn pieces(name: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for part in name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut rest = part;
        while let Some(first) = rest.chars().next() {
            let is_digits = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_digits).unwrap_or(rest.len());
            let (piece, behind) = rest.split_at(end);
            pieces.push(if is_digits { Piece::Digits(piece) } else { Piece::Word(piece) });
            rest = behind;
        }
    }
    pieces
}

fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number < MOST_RANKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_tell_their_rank() {
        for (path, told) in [
            ("rank0.pickle", "rank 0"),
            ("rank_0.pickle", "rank 0"),
            ("runs/snapshot_0.pickle", "rank 0"),
            ("mem-r3.pickle.gz", "rank 3"),
            ("node2_gpu5.pickle", "node 2 gpu 5"),
            ("node1/rank7.pickle", "node 1 rank 7"),
            ("training_rank12.pickle", "rank 12"),
            ("snapshot_12.pickle.gz", "rank 12"),
            ("RANK-3.PKL", "rank 3"),
            ("rank=511.pickle", "rank 511"),
            ("rank3_step100.pickle", "rank 3"),
            ("step_100_rank_3.pickle", "rank 3"),
            ("rank7_20260512_pid12345.pickle", "rank 7"),
            ("run.rank0.fsl", "rank 0"),
            ("run.rank4.oom1.pickle", "rank 4"),
            ("memory_trace_0.json", "rank 0"),
            ("local_rank_2.pickle", "gpu 2"),
            ("global_rank_9_local_rank_1.pickle", "rank 9"),
            ("cuda:3.pickle", "gpu 3"),
            ("rank_3/snapshot.pickle", "rank 3"),
            ("rank_3/iteration_10.pickle", "rank 3"),
            ("8gpu_rank5.pickle", "rank 5"),
            ("3_memory.pickle", "rank 3"),
            ("C:\\runs\\rank4.pickle", "rank 4"),
            ("snapshot_20260512.pickle", ""),
            ("h100.pickle", ""),
            ("snapshot.pickle", ""),
            ("rank99999999999.pickle", ""),
            ("rang3é.pickle", ""),
            ("", ""),
        ] {
            let found = rank_of_path(path).map_or_else(String::new, |rank| rank.to_string());
            assert_eq!(found, told, "{path}");
        }
    }
}
