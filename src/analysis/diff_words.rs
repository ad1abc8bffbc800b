//! A comparison in words: what grew and where, whether reserved memory follows, which side is more fragmented.
//!
//! Always: every figure is one of the comparison; the sides are called A and B, whatever they are.

use crate::analysis::diff::{DiffRow, DiffSide, SnapshotDiff};
use crate::analysis::framework::telling_frame;
use crate::analysis::summary::Counters;
use crate::base::{Bytes, counted};
use crate::model::{StackId, StackTable};

/// A difference with its sign: `+27.50 MiB`, `−512 bytes`, `0 bytes`.
pub fn signed(bytes: i128) -> String {
    let sign = match bytes {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", size(bytes))
}

/// A difference of numbers with its sign: `+12`, `−3`, `0`.
pub fn signed_count(number: i64) -> String {
    let sign = match number {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", crate::base::grouped(number.unsigned_abs()))
}

/// A figure of a state, in A and in B, and whether it is bytes.
pub type Figure = (&'static str, u64, u64, bool);

/// Every figure of the two states, in PyTorch's words.
pub fn figures(diff: &SnapshotDiff) -> [Figure; 10] {
    let both = |name, is_bytes, of: fn(&Counters) -> u64| (name, of(&diff.a), of(&diff.b), is_bytes);
    [
        both("reserved", true, |of| of.totals.reserved),
        both("allocated", true, |of| of.totals.allocated),
        both("active", true, |of| of.totals.active),
        both("requested", true, |of| of.totals.requested),
        both("pending free", true, |of| of.totals.pending_free()),
        both("free", true, |of| of.totals.free()),
        both("inactive split", true, |of| of.inactive_split),
        both("largest free block", true, |of| of.largest_free_block),
        both("segments", false, |of| of.segments),
        both("active blocks", false, |of| of.blocks),
    ]
}

/// What to try where hardly any stack reads alike on both sides: a line that moved is another stack. None where they are
/// matched by function already, or where half of the bytes are at stacks that both sides have.
pub fn hint(diff: &SnapshotDiff) -> Option<&'static str> {
    let one_sided = diff.by_stack.iter().filter(|row| row.side() != DiffSide::Both);
    let moved: u128 = one_sided.clone().map(|row| u128::from(row.a.bytes) + u128::from(row.b.bytes)).sum();
    let all = u128::from(diff.a.totals.allocated) + u128::from(diff.b.totals.allocated);
    let both = [DiffSide::OnlyA, DiffSide::OnlyB].iter().all(|side| one_sided.clone().any(|row| row.side() == *side));
    (!diff.ignore_lines && both && all < 2 * moved).then_some(
        "Few stacks read alike on both sides. If lines moved between two versions of the program, compare without line numbers.",
    )
}

/// The verdict in two sentences: what grew and where; whether reserved memory follows and which side is more fragmented.
pub fn verdict(diff: &SnapshotDiff) -> [String; 2] {
    [what_grew(diff), what_follows(diff)]
}

fn what_grew(diff: &SnapshotDiff) -> String {
    let (a, b) = (diff.a.totals.allocated, diff.b.totals.allocated);
    let delta = i128::from(b) - i128::from(a);
    if diff.is_empty() && delta == 0 {
        return format!("A and B hold the same: {} allocated, by the same stacks in blocks of the same sizes.", Bytes(b));
    }
    let grown = diff.by_stack.iter().find(|row| 0 < row.delta());
    let shrunk = diff.by_stack.iter().find(|row| row.delta() < 0);
    let place = |row: &DiffRow| format!("{}, {}{}", stack_words(&diff.stacks, row.stack), signed(row.delta()), in_blocks(row));
    let both = format!("{} against {}", Bytes(b), Bytes(a));
    match delta {
        0 => match (grown, shrunk) {
            (Some(grown), Some(shrunk)) => format!(
                "A and B both have {} allocated, but not by the same stacks: the largest changes are {} and {}.",
                Bytes(b),
                place(grown),
                place(shrunk)
            ),
            _ => format!("A and B both have {} allocated, but in other blocks.", Bytes(b)),
        },
        1.. => {
            let lead = format!("B has {} more allocated than A ({both})", size(delta));
            match (grown, shrunk) {
                (Some(grown), Some(shrunk)) => {
                    format!("{lead}; the most came at {}, the most went at {}.", place(grown), place(shrunk))
                }
                (Some(grown), None) => format!("{lead}; the most came at {}.", place(grown)),
                (None, _) => format!("{lead}."),
            }
        }
        _ => {
            let lead = format!("B has {} less allocated than A ({both})", size(delta));
            match (shrunk, grown) {
                (Some(shrunk), Some(grown)) => {
                    format!("{lead}; the most went at {}, the most came at {}.", place(shrunk), place(grown))
                }
                (Some(shrunk), None) => format!("{lead}; the most went at {}.", place(shrunk)),
                (None, _) => format!("{lead}."),
            }
        }
    }
}

fn in_blocks(row: &DiffRow) -> String {
    let number = row.count_delta();
    match number {
        0 => " in as many blocks".to_owned(),
        1.. => format!(" in {}", counted(number.unsigned_abs(), "more block")),
        _ => format!(" in {}", counted(number.unsigned_abs(), "fewer block")),
    }
}

fn what_follows(diff: &SnapshotDiff) -> String {
    let (a, b) = (&diff.a, &diff.b);
    let allocated = i128::from(b.totals.allocated) - i128::from(a.totals.allocated);
    let reserved = i128::from(b.totals.reserved) - i128::from(a.totals.reserved);
    let both = format!("{} against {}", Bytes(b.totals.reserved), Bytes(a.totals.reserved));
    let lead = match (allocated.signum(), reserved.signum()) {
        (0, 0) => format!("Reserved memory is the same too, {}", Bytes(b.totals.reserved)),
        (_, 0) => format!("Reserved memory does not follow, it is {} in both", Bytes(b.totals.reserved)),
        (0, 1) => format!("Reserved memory is {} more all the same ({both})", size(reserved)),
        (0, _) => format!("Reserved memory is {} less all the same ({both})", size(reserved)),
        (x, y) if x == y => {
            let more = if reserved < 0 { "less" } else { "more" };
            // Segments are coarser than blocks: from half of the way to twice of it is taken for following.
            let (by, wanted) = (reserved.unsigned_abs(), allocated.unsigned_abs());
            let follows = match (by * 2 < wanted, wanted * 2 < by) {
                (true, _) => "hardly follows",
                (_, true) => "goes the same way and further",
                _ => "follows",
            };
            format!("Reserved memory {follows}, {} {more} ({both})", size(reserved))
        }
        _ => {
            let more = if reserved < 0 { "less" } else { "more" };
            format!("Reserved memory goes the other way, {} {more} ({both})", size(reserved))
        }
    };
    format!("{lead}; {}.", fragmentation(a, b))
}

/// What is free besides the largest free block: memory that no single request can have. It decides which side is the more
/// fragmented, because shares of little free memory say little.
pub fn scattered(of: &Counters) -> u64 {
    of.totals.free().saturating_sub(of.largest_free_block)
}

fn fragmentation(a: &Counters, b: &Counters) -> String {
    let (in_a, in_b) = (scattered(a), scattered(b));
    let told = |side: &str, of: &Counters, bytes: u64, other: &str, other_bytes: u64| {
        format!(
            "{side} is the more fragmented, with {} of its {} free outside its largest free block against {} in {other}",
            Bytes(bytes),
            Bytes(of.totals.free()),
            Bytes(other_bytes)
        )
    };
    match in_a.cmp(&in_b) {
        std::cmp::Ordering::Less => told("B", b, in_b, "A", in_a),
        std::cmp::Ordering::Greater => told("A", a, in_a, "B", in_b),
        std::cmp::Ordering::Equal if in_a == 0 => {
            "neither has free memory outside its largest free block, so neither is fragmented".to_owned()
        }
        std::cmp::Ordering::Equal => {
            format!("both are as fragmented, with {} free outside the largest free block", Bytes(in_a))
        }
    }
}

/// The frame that names a stack, as sentences have it: `forward (mlp.py:41)`.
pub fn stack_words(stacks: &StackTable, stack: StackId) -> String {
    let Some((frame, _)) = telling_frame(stacks, stack) else { return "blocks without a stack".to_owned() };
    let (function, file) = (stacks.function(frame), stacks.file(frame));
    match file.rsplit(['/', '\\']).next().unwrap_or(file) {
        "" | "??" => function.to_owned(),
        name => format!("{function} ({name}:{})", stacks.frame(frame).line),
    }
}

fn size(bytes: i128) -> Bytes {
    Bytes(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Totals;

    fn counters(reserved: u64, allocated: u64, largest_free_block: u64) -> Counters {
        let totals = Totals { reserved, allocated, active: allocated, requested: allocated };
        Counters { totals, largest_free_block, ..Counters::default() }
    }

    #[test]
    fn sentences_say_who_follows_and_who_is_more_fragmented() {
        for (a, b, part) in [
            ((100, 80, 20), (100, 80, 20), "the same too, 100 bytes; neither has free memory outside"),
            ((100, 80, 20), (100, 90, 5), "does not follow, it is 100 bytes in both; B is the more fragmented, with 5 bytes"),
            ((100, 80, 10), (120, 90, 30), "follows, 20 bytes more (120 bytes against 100 bytes); A is the more fragmented"),
            ((100, 80, 20), (60, 50, 10), "memory follows, 40 bytes less"),
            ((100, 80, 20), (60, 75, 0), "goes the same way and further, 40 bytes less"),
            ((100, 80, 20), (102, 90, 10), "hardly follows, 2 bytes more"),
            ((100, 80, 10), (150, 60, 80), "goes the other way, 50 bytes more"),
            ((100, 80, 10), (90, 80, 0), "is 10 bytes less all the same (90 bytes against 100 bytes); both are as fragmented"),
        ] {
            let of = |(reserved, allocated, largest)| counters(reserved, allocated, largest);
            let diff = SnapshotDiff { a: of(a), b: of(b), ..SnapshotDiff::default() };
            let [_, sentence] = verdict(&diff);
            assert!(sentence.contains(part), "{sentence}");
        }
        for (bytes, text) in [(0, "0 bytes"), (1 << 20, "+1.00 MiB"), (-512, "−512 bytes")] {
            assert_eq!(signed(bytes), text);
        }
    }
}
