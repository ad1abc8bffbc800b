//! Sizes that never repeat: each leaves a gap that fits nobody; and what a coarser rounding would merge.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::settings::SMALL_LIMIT;
use crate::model::{AllocatorSettings, Position, StackId};
use rustc_hash::FxHashMap;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "sizes", title: "sizes that never repeat", look };

/// Fewer large allocations than this make no pattern.
const ENOUGH: u64 = 200;
/// Distinct sizes per hundred large allocations from which sizes count as varied.
const VARIED_PERCENT: u64 = 5;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let lives = &facts.memory.allocations;
    let settings = facts.settings();
    let eighths = AllocatorSettings { roundup_power2_divisions: [8; 16], ..settings.clone() };
    let mut sizes: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
    let mut merged: FxHashMap<u64, u64> = FxHashMap::default();
    let (mut count, mut asked, mut extra) = (0u64, 0u64, 0u64);
    let first = lives.born_by(Position::START);
    for row in first..lives.born_by(facts.state.position) {
        if row.is_multiple_of(65_536) {
            progress.check()?;
        }
        let requested = lives.requested()[row];
        let rounded = settings.round(requested);
        if rounded <= SMALL_LIMIT {
            continue;
        }
        let seen = sizes.entry(rounded).or_default();
        (seen.0, seen.1) = (seen.0 + 1, seen.1.saturating_add(requested));
        let coarse = eighths.round(requested);
        *merged.entry(coarse).or_default() += 1;
        (count, asked) = (count + 1, asked.saturating_add(requested));
        extra = extra.saturating_add(coarse.saturating_sub(rounded));
    }
    let distinct = sizes.len() as u64;
    if count < ENOUGH {
        return Ok(Vec::new());
    }
    let off = settings.roundup_power2_divisions.iter().all(|divisions| *divisions <= 1);
    let price = extra as f64 * 100.0 / asked.max(1) as f64;
    if distinct * 100 < count * VARIED_PERCENT {
        // Sizes that come again and again, and lie so close that one gap could serve them all.
        let merged = merged.len() as u64;
        if verdict != Verdict::Fragmentation || !off || distinct < 2 || distinct < merged.saturating_mul(2) {
            return Ok(Vec::new());
        }
        let sentence = format!(
            "{} large allocations take turns among {} sizes, of which many lie close together: a gap that one leaves may just miss the next.",
            grouped(count),
            grouped(distinct)
        );
        let advice = format!(
            "roundup_power2_divisions:8 would merge them into {} {} for about {price:.1} % more memory in large blocks; whether that pays must be tried.",
            grouped(merged),
            plural(merged, "size")
        );
        return Ok(vec![
            Finding::new(Severity::Note, sentence, asked)
                .sure(Certainty::Possible, "That they lie close together does not prove that they caused these gaps.")
                .advise(advice),
        ]);
    }
    let once = sizes.values().filter(|(count, _)| *count == 1).count() as u64;
    // A model has many sizes, each of which comes in every step.
    if verdict != Verdict::Fragmentation && once * 2 < distinct {
        return Ok(Vec::new());
    }
    // Who asks for the sizes that came once.
    let mut by_stack = ByStack::default();
    for row in first..lives.born_by(facts.state.position) {
        let requested = lives.requested()[row];
        if sizes.get(&settings.round(requested)).is_some_and(|(count, _)| *count == 1) {
            let stack = lives.stacks()[row];
            by_stack.add(if facts.snapshot.stacks.frames(stack).is_empty() { StackId::EMPTY } else { stack }, requested);
        }
    }
    let bytes = sizes.values().filter(|(count, _)| *count == 1).fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let once = match once {
        0 => String::new(),
        once => format!("; {} sizes came once, {} in all", grouped(once), Bytes(bytes)),
    };
    let sentence = format!(
        "{} large allocations have {} different sizes{once}: a freed block rarely fits the next request (variable batch or sequence length).",
        grouped(count),
        grouped(distinct),
    );
    let advice = if off {
        format!(
            "Pad to a few lengths. roundup_power2_divisions:8 would leave {} sizes for about {:.1} % more memory in large blocks; whether that pays must be tried.",
            grouped(merged.len() as u64),
            price
        )
    } else {
        "Pad to a few lengths, so that sizes repeat.".to_owned()
    };
    let severity = if verdict == Verdict::Fragmentation { Severity::Warning } else { Severity::Note };
    Ok(vec![
        Finding::new(severity, sentence, bytes)
            .of_stacks(by_stack.most())
            .sure(Certainty::Likely, "Varied sizes favour gaps; they alone do not prove that they caused these.")
            .advise(advice),
    ])
}
