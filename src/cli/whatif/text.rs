//! The scenarios for people: a table, the line to copy, and on what the figures rest.

use crate::base::Bytes;
use crate::cli::output;
use crate::cli::table::{Align, Table};
use crate::model::{DeviceMemory, Snapshot};
use crate::report::what_if::WhatIf;
use crate::report::what_if_words as words;
use crate::report::whatif_json::ScenarioRow;
use crate::simulator::{PolicyKind, conf};
use std::fmt::Write as _;

/// What all rows have in common.
pub struct Told<'a> {
    /// The file, in one line.
    pub file: &'a str,
    /// The recording.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub memory: &'a DeviceMemory,
    /// What was served again.
    pub what_if: &'a WhatIf,
    /// Whether the rows are ranked settings.
    pub is_sweep: bool,
}

/// All of it. Writing into a text cannot fail, so results of `write!` are dropped here.
pub fn of(rows: &[ScenarioRow], told: &Told<'_>) -> String {
    let Told { file, memory, what_if, .. } = told;
    let mut text = String::new();
    let card = match rows.first().and_then(|row| row.scenario.total) {
        Some(total) if 0 < what_if.outside => {
            format!("a card of {}, {} of it held by others", Bytes(total), Bytes(what_if.outside))
        }
        Some(total) => format!("a card of {}", Bytes(total)),
        None => "a card without end".to_owned(),
    };
    let job = rows.first().and_then(|row| row.change.as_ref()).map_or(String::new(), |change| format!(", {},", change.brief()));
    let _ = writeln!(text, "{file}, {}: its requests{job} on {card}\n", memory.title());
    text.push_str(&table(rows).lines(2));
    for row in rows {
        if let Some(smallest) = &row.smallest {
            let name = name_of(row);
            let _ = match smallest {
                Some(card) => writeln!(
                    text,
                    "\nThe smallest card that serves all under {name}: {} for the allocator{}; {} sizes were tried.",
                    Bytes(card.capacity),
                    if card.total == card.capacity {
                        String::new()
                    } else {
                        format!(", {} with what others hold", Bytes(card.total))
                    },
                    card.tried
                ),
                None => writeln!(text, "\nNo card serves all under {name}: its memory fraction is too small for any."),
            };
        }
    }
    if told.is_sweep {
        text.push_str(&best(rows, told));
    }
    text.push('\n');
    text.push_str(&words::rests_on(rows, told.what_if, "--recorded"));
    text
}

fn name_of(row: &ScenarioRow) -> String {
    if row.scenario.policy != PolicyKind::Caching {
        return row.policy().to_owned();
    }
    let name = if row.settings.is_empty() { "PyTorch's defaults".to_owned() } else { output::one_line(&row.settings) };
    if row.is_recorded { format!("{name} (as recorded)") } else { name }
}

fn table(rows: &[ScenarioRow]) -> Table {
    let has_spare = rows.iter().any(|row| row.spare().is_some());
    let mut aligns = vec![Align::Left];
    aligns.extend([Align::Right; 7]);
    aligns.push(Align::Left);
    let mut table = Table::new(&aligns);
    let spare = if has_spare { "spare" } else { "" };
    table.row(["settings", "reserved", spare, "allocated", "segments", "retries", "driver gave", "took back", "ends"]);
    for row in rows {
        let counters = &row.outcome.counters;
        let range = row.range.as_ref();
        table.row([
            name_of(row),
            words::bytes(counters.reserved.peak, range.map(|range| &range.reserved)),
            row.spare().map_or(String::new(), |spare| Bytes(spare).to_string()),
            words::bytes(counters.allocated.peak, range.map(|range| &range.allocated)),
            words::count(counters.segments.peak, range.map(|range| &range.segments)),
            words::count(counters.retries, range.map(|range| &range.retries)),
            words::count(counters.device_allocs, range.map(|range| &range.device_allocs)),
            words::count(counters.device_frees, range.map(|range| &range.device_frees)),
            words::end(&row.outcome, range),
        ]);
    }
    table
}

/// The best settings as a line to copy.
fn best(rows: &[ScenarioRow], told: &Told<'_>) -> String {
    let Some(row) = rows.first() else { return String::new() };
    if row.outcome.failure.is_some() {
        return format!("\nNone of these {} settings serves all that was recorded.\n", rows.len());
    }
    if row.is_recorded {
        return "\nNo other settings do better than the recorded ones.\n".to_owned();
    }
    if row.settings.is_empty() {
        return format!("\nBest are PyTorch's defaults: leave {} unset.\n", conf::VARIABLE);
    }
    let mut text = format!("\nBest, to copy:\n  {}={}\n", conf::VARIABLE, output::one_line(&row.settings));
    if conf::knows_newer_variable(&told.snapshot.origin) {
        let _ = writeln!(text, "(or {}, which is read where {} is not set)", conf::NEWER_VARIABLE, conf::VARIABLE);
    }
    text
}
