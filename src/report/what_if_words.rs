//! Figures of `whatif` in words: one value, or from the lowest to the highest over the placements a driver could choose.
//!
//! Always: a range is written only where its ends read differently.

use crate::base::{Bytes, grouped};
use crate::report::what_if::WhatIf;
use crate::report::whatif_json::{ChangeNote, ScenarioRow};
use crate::simulator::{AtFailure, CapacityTold, EmptyCaches, FigureRange, Outcome, POLICIES, PolicyKind, Start, TieBreak};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// `10.47 to 10.49 GiB`, or the value where there is no range.
pub fn bytes(value: u64, range: Option<&RangeInclusive<u64>>) -> String {
    from_to(value, range, |value| Bytes(value).to_string())
}

/// `3 to 5`, or the value where there is no range.
pub fn count(value: u64, range: Option<&RangeInclusive<u64>>) -> String {
    from_to(value, range, grouped)
}

fn from_to(value: u64, range: Option<&RangeInclusive<u64>>, words: impl Fn(u64) -> String) -> String {
    let Some(range) = range else { return words(value) };
    let (low, high) = (words(*range.start()), words(*range.end()));
    if low == high {
        return high;
    }
    // One unit is enough for both.
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// How a run ends.
pub fn end(outcome: &Outcome, range: Option<&FigureRange>) -> String {
    let event = |event: crate::model::EventIdx| grouped(u64::from(event.0));
    let end = match (outcome.failure, outcome.served_instead) {
        (Some(failure), _) => {
            format!("out of memory at event {}: {} wanted", event(failure.event), Bytes(failure.requested))
        }
        (None, Some(served)) => format!("serves what failed at event {}", event(served)),
        (None, None) => "serves all".to_owned(),
    };
    match range.map(|range| range.failure) {
        Some((Some(first), None)) => format!("{end} (by addresses: from event {} on, or never)", event(first)),
        Some((Some(first), Some(last))) if first != last => {
            format!("{end} (by addresses: event {} to {})", event(first), event(last))
        }
        _ => end,
    }
}

/// On what the figures rest: how far the model reproduces the recording, and what is taken to stay; a sentence a line.
/// `tell` is where the user says what the file does not hold. Writing into a text cannot fail, so results of `write!` are
/// dropped here.
pub fn rests_on<'a>(rows: impl IntoIterator<Item = &'a ScenarioRow>, what_if: &WhatIf, tell: &str) -> String {
    let rows: Vec<&ScenarioRow> = rows.into_iter().collect();
    let fidelity = &what_if.fidelity;
    let mut text = format!(
        "With the recorded settings {} of {} allocations lie where they lay.\n",
        grouped(fidelity.placed_as_recorded),
        grouped(fidelity.allocations)
    );
    if let Some(event) = fidelity.first_divergence {
        let _ = writeln!(
            text,
            "From event {} on the model went another way: settings the file does not hold ({tell}) may be why.",
            grouped(u64::from(event.0))
        );
    }
    if fidelity.rules.tie == TieBreak::Address {
        text.push_str(
            "Up to PyTorch 2.11 the addresses of new segments decide: ranges are over the places a driver could give them.\n",
        );
    }
    let Some(scenario) = rows.first().map(|row| &row.scenario) else { return text };
    if let Some(told) = what_if.told.filter(|_| scenario.total == what_if.recorded.total) {
        let _ = writeln!(text, "The card's size is not in the file: {}.", told_words(&told));
    }
    if what_if.asked.start.is_some() {
        text.push_str(match scenario.start {
            Start::Recorded => {
                "The recording begins mid-run: every row begins with the segments and blocks that were there, at their addresses, \
                 whatever its settings, and counts from there on.\n"
            }
            Start::Empty => "The recording begins mid-run: what is older than it is absent in every row.\n",
        });
    }
    if scenario.policy != PolicyKind::Caching
        && let Some(info) = POLICIES.iter().find(|info| info.kind == scenario.policy)
    {
        let _ = writeln!(text, "{}: {}. A model, not a reproduction.", info.name, info.about);
    }
    match &scenario.empty_caches {
        EmptyCaches::Recorded => {}
        EmptyCaches::Without => text.push_str("No call of empty_cache() is made.\n"),
        EmptyCaches::After(ends) => {
            let _ = writeln!(
                text,
                "empty_cache() is called at the end of each of {} steps, and nowhere else.",
                grouped(ends.len() as u64)
            );
        }
    }
    if scenario.at_failure == AtFailure::Endless {
        text.push_str("Behind the first failure memory has no end: figures are of all that was recorded.\n");
    } else if rows.iter().any(|row| row.outcome.served_instead.is_some()) {
        text.push_str("Behind a failure that is served here the recording tells nothing: figures are up to there.\n");
    }
    let mut changes: Vec<&ChangeNote> = rows.iter().filter_map(|row| row.change.as_ref()).collect();
    changes.dedup();
    for change in &changes {
        let _ = writeln!(text, "The job is changed: {}. {}", change.brief(), change.assumption.replace(char::is_control, " "));
    }
    if !changes.is_empty() {
        text.push_str("Streams, order and pools of the other requests stay as recorded.\n");
        return text;
    }
    text.push_str(
        "Sizes, streams, order and pools of the requests stay as recorded; a program that reacts to failures or asks how much \
         memory is free would go another way.\n",
    );
    text
}

fn told_words(told: &CapacityTold) -> String {
    let retries = match told.retries {
        1 => "a retry tells".to_owned(),
        several => format!("{} retries tell", grouped(u64::from(several))),
    };
    match told.below {
        Some(below) => format!(
            "{retries} that PyTorch could have at least {} and less than {}; the least is taken",
            Bytes(told.bytes),
            Bytes(below)
        ),
        None => format!("the last failure tells that PyTorch could have {}", Bytes(told.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_as_people_say_them() {
        let gib = |share: f64| (share * (1u64 << 30) as f64) as u64;
        for (range, words) in [
            (gib(10.47)..=gib(10.49), "10.47 to 10.49 GiB"),
            (gib(0.5)..=gib(1.25), "512.00 MiB to 1.25 GiB"),
            (gib(2.0)..=gib(2.0) + 1, "2.00 GiB"),
        ] {
            assert_eq!(bytes(0, Some(&range)), words);
        }
        assert_eq!((count(3, Some(&(3..=12_000))), count(7, None)), (format!("3 to {}", grouped(12_000)), "7".to_owned()));
    }
}
