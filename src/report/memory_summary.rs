//! PyTorch's table of its counters, as `torch.cuda.memory_summary()` prints it.
//!
//! Always: where the recording holds the whole life of the process, the lines are PyTorch's own, to the blank.
//! Where it does not, figures that were counted from the recording's start stand under a starred head, and what
//! cannot be known is a dash.

use crate::analysis::{MemorySummary, Metric, StatFigures, StatScope, SummaryReach};

/// Blanks and bars of a line.
const INNER: usize = 75;
const UNKNOWN: &str = "–";

/// A row of the table: PyTorch's words for it, and its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// What PyTorch calls it.
    pub title: &'static str,
    /// Its meaning, in a sentence.
    pub help: &'static str,
    /// Its name in `memory_stats()`.
    pub key: &'static str,
    /// The counter and its scope; none for those of oversize blocks.
    pub metric: Option<(Metric, StatScope)>,
    /// The figures.
    pub figures: StatFigures,
    /// Whether they are bytes.
    pub is_bytes: bool,
}

/// The rows of PyTorch's table, in its order.
pub fn rows(summary: &MemorySummary) -> Vec<SummaryRow> {
    let mut rows = Vec::with_capacity(29);
    for metric in Metric::ALL {
        for scope in StatScope::ALL {
            let (title, help) = match scope {
                StatScope::All => words(metric),
                StatScope::LargePool => ("      from large pool", "The part that serves requests over 1 MiB."),
                StatScope::SmallPool => ("      from small pool", "The part that serves requests up to 1 MiB."),
            };
            let figures = summary.figures(metric, scope);
            rows.push(SummaryRow {
                title,
                help,
                key: metric.name(),
                metric: Some((metric, scope)),
                figures,
                is_bytes: metric.is_bytes(),
            });
        }
    }
    for (title, help, key, figures) in [
        (
            "Oversize allocations",
            "Blocks in use of at least max_split_size_mb, which are never split.",
            "oversize_allocations",
            summary.oversize_allocations,
        ),
        (
            "Oversize GPU segments",
            "cudaMalloc segments of at least max_split_size_mb.",
            "oversize_segments",
            summary.oversize_segments,
        ),
    ] {
        rows.push(SummaryRow { title, help, key, metric: None, figures, is_bytes: false });
    }
    rows
}

/// What PyTorch calls a counter, and what it means.
const fn words(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::AllocatedBytes => ("Allocated memory", "Blocks in use, rounding included."),
        Metric::ActiveBytes => ("Active memory", "Blocks in use, and those given back that still wait for another stream."),
        Metric::RequestedBytes => ("Requested memory", "What the program asked for, over active blocks: before rounding."),
        Metric::ReservedBytes => ("GPU reserved memory", "Taken from the driver: cudaMalloc segments and mapped ranges."),
        Metric::InactiveSplitBytes => (
            "Non-releasable memory",
            "Free parts of cudaMalloc segments that live blocks keep from going back to the driver. Expandable segments do not count.",
        ),
        Metric::Allocation => ("Allocations", "Number of blocks in use."),
        Metric::Active => ("Active allocs", "Number of blocks in use or waiting for another stream."),
        Metric::Segment => ("GPU reserved segments", "Number of cudaMalloc segments. Expandable segments do not count."),
        Metric::InactiveSplit => {
            ("Non-releasable allocs", "Number of free parts of cudaMalloc segments that also hold live blocks.")
        }
    }
}

/// The table, line by line, with a line end behind each.
pub fn text(summary: &MemorySummary) -> String {
    let star = if summary.reach == SummaryReach::Whole { " " } else { "*" };
    let count = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
    let starred = |value: Option<u64>| {
        let star = if summary.reach == SummaryReach::Recording { "*" } else { "" };
        format!("{}{star}", count(value))
    };
    let (double, single) = ("=".repeat(INNER), "-".repeat(INNER));
    let mut lines = vec![
        double.clone(),
        format!(" {:16} PyTorch CUDA memory summary, device ID {:<17} ", "", summary.device),
        single.clone(),
        format!(
            "  {:9} CUDA OOMs: {:<12} | {:6} cudaMalloc retries: {:<8}  ",
            "",
            starred(summary.ooms),
            "",
            starred(summary.retries)
        ),
        double.clone(),
        format!("        Metric         | Cur Usage  | Peak Usage{star}| Tot Alloc{star} | Tot Freed{star} "),
    ];
    // One unit a column and counter: that of its first line.
    let mut units = [0u64; 4];
    for row in rows(summary) {
        let figures = row.figures.named().map(|(_, value)| value);
        if row.metric.is_none_or(|(_, scope)| scope == StatScope::All) {
            lines.push(single.clone());
            units = figures.map(|value| value.unwrap_or(0));
        }
        let cells = [0, 1, 2, 3].map(|i| cell(figures[i], units[i], row.is_bytes));
        lines.push(format!(" {:<21} | {} | {} | {} | {} ", row.title, cells[0], cells[1], cells[2], cells[3]));
    }
    lines.push(double);
    let mut text = String::with_capacity(lines.len() * (INNER + 3));
    for line in lines {
        text.push('|');
        text.push_str(&line);
        text.push_str("|\n");
    }
    text
}

/// What the table cannot tell, one sentence each; none where it is PyTorch's own.
pub fn notes(summary: &MemorySummary) -> Vec<&'static str> {
    let mut notes = Vec::new();
    match summary.reach {
        SummaryReach::Whole => {}
        SummaryReach::Recording => notes.push(
            "* Peaks, totals and counts are those in the recording, which does not reach back to the start of the process; the current usage is complete.",
        ),
        SummaryReach::Nothing => {
            notes.push("* Peaks, totals and counts are not known: the file holds the state at the dump without history.");
        }
    }
    if summary.sizes_inferred {
        notes.push("Sizes of some blocks are inferred, so bytes allocated and active, and what is split off, may be off.");
    }
    if summary.oversize_allocations.current.is_none() {
        notes.push("Oversize blocks are not known: the file does not state max_split_size_mb.");
    }
    notes
}

/// Ten letters, in the unit of `unit_of`.
fn cell(value: Option<u64>, unit_of: u64, is_bytes: bool) -> String {
    let Some(mut value) = value else { return format!("{UNKNOWN:^10}") };
    // A unit is left when its figures would have more than six digits, which is how PyTorch fills its columns.
    let (units, step, limit): (&[&str], u64, u64) = if is_bytes {
        (&["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024, 768 * 1024)
    } else {
        (&[" ", "K", "M"], 1000, 750 * 1000)
    };
    let mut shown = unit_of as f64;
    let mut row = 0;
    while row + 1 < units.len() && limit as f64 <= shown {
        value /= step;
        shown /= step as f64;
        row += 1;
    }
    if is_bytes { format!("{value:6} {}", units[row]) } else { format!("{value:7} {} ", units[row]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_take_the_unit_of_their_first_line() {
        for (value, unit_of, is_bytes, text) in [
            (Some(0), 0, true, "     0 B  "),
            (Some(786_431), 786_431, true, "786431 B  "),
            (Some(786_432), 786_432, true, "   768 KiB"),
            (Some(572_170_240), 572_170_240, true, "558760 KiB"),
            (Some(1_482_752), 572_170_240, true, "  1448 KiB"),
            (Some(0), 10_166_958_080, true, "     0 MiB"),
            (Some(749_999), 749_999, false, " 749999   "),
            (Some(750_000), 750_000, false, "    750 K "),
            (Some(u64::MAX), u64::MAX, false, "18446744073709 M "),
            (None, 7, true, "    –     "),
        ] {
            assert_eq!(cell(value, unit_of, is_bytes), text, "{value:?} in the unit of {unit_of}");
        }
    }
}
