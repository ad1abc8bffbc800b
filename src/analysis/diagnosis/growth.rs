//! Growth that never returns: stacks whose live bytes only rise up to the moment.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, MOST_STACKS, Rule, Severity, StackBytes};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::analysis::lifetime::{LeakParams, LeakSuspects, LifetimeParams, Slices};
use crate::base::{Bytes, Cancelled, Progress, StringId, grouped};
use crate::model::{Item, Position};
use rustc_hash::FxHashMap;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "growth", title: "growth that never returns", look };

/// Moments compared where no annotation repeats.
const SLICES: u32 = 16;
/// Shorter traces make no pattern, in events.
const ENOUGH: u32 = 200;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let at = facts.state.position;
    if at.0 < ENOUGH {
        return Ok(Vec::new());
    }
    let window = LifetimeParams { from: Position::START, to: Position(at.0.saturating_add(1)) };
    let step = repeated(facts);
    let slices = step.map_or(Slices::Equal(SLICES), Slices::Annotation);
    let params = LeakParams { window, slices };
    let found = LeakSuspects::of(facts.memory, facts.replay, &facts.snapshot.stacks, &params, progress)?;
    let gained = found.suspects.iter().fold(0u64, |sum, growth| sum.saturating_add(growth.gained()));
    if gained < facts.accounting.live() / 20 || gained == 0 {
        return Ok(Vec::new());
    }
    let stacks: Vec<StackBytes> = found
        .suspects
        .iter()
        .take(MOST_STACKS)
        .map(|growth| StackBytes {
            stack: growth.stack,
            bytes: growth.gained(),
            count: growth.live.last().map_or(0, |sum| sum.count),
        })
        .collect();
    let over = match step {
        Some(name) => {
            format!("{} repetitions of {}", grouped(found.moments.len() as u64), facts.snapshot.stacks.strings.get(name))
        }
        None => format!("{} moments", found.moments.len()),
    };
    let first =
        stacks.first().map_or(String::new(), |row| format!(" Most, {}, at {}.", Bytes(row.bytes), facts.name_of(row.stack)));
    let count = found.suspects.len() as u64;
    let sentence =
        format!("{} grew and never shrank over {over}, at {} {}.{first}", Bytes(gained), grouped(count), plural(count, "stack"));
    let severity = if verdict == Verdict::Live { Severity::Warning } else { Severity::Note };
    let evidence = stacks.iter().map(|row| Item::Stack(row.stack)).collect();
    let because = if step.is_some() {
        "It repeats with the program's own steps; caches and optimizer state made in the first steps look the same."
    } else {
        "The trace is cut evenly, not at the program's steps; caches and optimizer state made in the first steps look the same."
    };
    let certainty = if step.is_some() { Certainty::Likely } else { Certainty::Possible };
    Ok(vec![Finding::new(severity, sentence, gained).of_stacks(stacks).shown_by(evidence).sure(certainty, because).advise(
        "Look for references kept across steps: losses appended without .item() or .detach(), lists of outputs, caches.",
    )])
}

/// The annotation that repeats most often up to the moment, three times or more.
fn repeated(facts: &Facts<'_>) -> Option<StringId> {
    let mut counts: FxHashMap<StringId, u32> = FxHashMap::default();
    for span in &facts.memory.annotations {
        let ended = span.end_us.map(|end| facts.memory.trace.position_at_time(end));
        if ended.is_some_and(|end| end <= facts.state.position) {
            *counts.entry(span.name).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .filter(|(_, count)| 3 <= *count)
        .max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)))
        .map(|(name, _)| name)
}
