//! Growth that never returns: stacks whose live bytes only rise up to the moment.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, MOST_STACKS, Rule, Severity, StackBytes};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::analysis::lifetime::{LeakParams, LeakSuspects, LifetimeParams, Slices};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{Item, Position};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "growth", title: "growth that never returns", look };

/// Moments compared where the program marked no steps.
const SLICES: u32 = 16;
/// With fewer frees than this part of the allocations nothing repeats yet.
const KEPT_SHARE: usize = 10;
/// Shorter traces make no pattern, in events.
const ENOUGH: u32 = 200;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let at = facts.state.position;
    if at.0 < ENOUGH || is_build_up(facts) {
        return Ok(Vec::new());
    }
    let window = LifetimeParams { from: Position::START, to: Position(at.0.saturating_add(1)) };
    let params = LeakParams { window, slices: Slices::Equal(SLICES) };
    let (device, stacks) = (facts.memory, &facts.snapshot.stacks);
    let step = facts.steps.as_ref();
    let found = match step {
        Some(steps) => LeakSuspects::between(device, facts.replay, stacks, window, steps.ends.clone(), progress)?,
        None => LeakSuspects::of(device, facts.replay, stacks, &params, progress)?,
    };
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
        Some(steps) => format!("{} steps ({})", grouped(steps.ends.len() as u64), steps.name),
        None => format!("{} evenly spread moments", found.moments.len()),
    };
    let names = match (stacks.as_slice(), found.suspects.len()) {
        ([row], 1) => format!("One stack only grows, {}", facts.name_of(row.stack)),
        ([row, ..], count) => {
            format!(
                "{} stacks only grow, most of all {}, by {}",
                grouped(count as u64),
                facts.name_of(row.stack),
                Bytes(row.bytes)
            )
        }
        ([], _) => return Ok(Vec::new()),
    };
    let sentence = format!("{names}: {} more over {over}, never less.", Bytes(gained));
    let severity = if matches!(verdict, Verdict::Live | Verdict::Fragmentation) { Severity::Warning } else { Severity::Note };
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

/// Whether hardly anything was freed up to the moment: a model being loaded grows, and is no leak.
fn is_build_up(facts: &Facts<'_>) -> bool {
    let lives = &facts.memory.allocations;
    let (first, last) = (lives.born_by(Position::START), lives.born_by(facts.state.position));
    let freed = lives.freed()[first..last].iter().filter(|freed| **freed <= facts.state.position).count();
    freed < (last - first) / KEPT_SHARE
}
