//! A spike: what is live at the moment and was not at the low before it.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{BlockState, Item, Position};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "rise", title: "the rise before it", look };

/// Shorter traces make no pattern, in events.
const ENOUGH: u32 = 200;
/// The share of the trace before the moment in which the low is looked for, where the program marked no steps.
const BEFORE: u32 = 5;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let at = facts.state.position;
    // One step back, where the program marked its steps; the one under way has no end yet.
    let step = facts.steps.as_ref().and_then(|steps| steps.begins.last()).filter(|begin| **begin < at);
    let from = step.copied().unwrap_or(Position(at.0 - at.0 / BEFORE));
    if at.0 < ENOUGH {
        return Ok(Vec::new());
    }
    let low = facts.timeline.allocated.min_in(from, at);
    let now = facts.state.totals.allocated;
    // The last moment at the low: what came since is what the rise consists of.
    let steps: Vec<(Position, u64)> = facts.timeline.allocated.steps(from, at).collect();
    let Some(low_at) = steps.iter().rev().find(|(_, value)| *value == low).map(|(position, _)| *position) else {
        return Ok(Vec::new());
    };
    // Where nothing failed, a climb without a dip before it is what a program does that loads.
    if verdict == Verdict::None && low_at == from {
        return Ok(Vec::new());
    }
    let rise = now.saturating_sub(low);
    if rise < now / 5 || rise == 0 {
        return Ok(Vec::new());
    }
    let lives = &facts.memory.allocations;
    let mut by_stack = ByStack::default();
    let mut young: Vec<_> = facts
        .state
        .blocks
        .iter()
        .filter(|block| block.state == BlockState::ActiveAllocated)
        .filter(|block| block.allocation.is_some_and(|id| low_at < lives.born()[id.row()]))
        .collect();
    let bytes = young.iter().fold(0u64, |sum, block| sum.saturating_add(block.size));
    for block in &young {
        by_stack.add(facts.stack_of(block), block.size);
    }
    young.sort_by_key(|block| (std::cmp::Reverse(block.size), block.address));
    let evidence = young.iter().filter_map(|block| block.allocation).take(MOST_EVIDENCE).map(Item::Allocation).collect();
    let stacks = by_stack.most();
    let first = stacks
        .first()
        .map_or(String::new(), |row| format!(" The most, {}, from {}.", Bytes(row.bytes), facts.name_of(row.stack)));
    let sentence = format!(
        "{} events earlier (event {}) only {} were live; {} in {} {} came since.{first}",
        grouped(u64::from(at.0 - low_at.0)),
        grouped(u64::try_from(low_at.event_number()).unwrap_or(0)),
        Bytes(low),
        Bytes(bytes),
        grouped(young.len() as u64),
        plural(young.len() as u64, "block"),
    );
    let severity = if verdict == Verdict::Live { Severity::Warning } else { Severity::Note };
    let advice = if verdict == Verdict::Live {
        "This is what a smaller batch, shorter sequences or activation checkpointing would shrink."
    } else {
        ""
    };
    Ok(vec![Finding::new(severity, sentence, bytes).of_stacks(stacks).shown_by(evidence).advise(advice)])
}
