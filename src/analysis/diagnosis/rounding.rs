//! What rounding adds to live blocks and what was not split off.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Certainty, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::{BlockState, Item, Missing};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "rounding", title: "rounding and remainders", look };

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let bytes = facts.accounting.rounding;
    let share = bytes as f64 * 100.0 / facts.accounting.live().max(1) as f64;
    if share < 3.0 {
        return Ok(Vec::new());
    }
    let mut by_stack = ByStack::default();
    let mut blocks: Vec<_> = facts
        .state
        .blocks
        .iter()
        .filter(|block| block.state == BlockState::ActiveAllocated && block.requested < block.size)
        .collect();
    for block in &blocks {
        by_stack.add(facts.stack_of(block), block.size - block.requested);
    }
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.size - block.requested), block.address));
    let evidence = blocks.iter().filter_map(|block| block.allocation).take(MOST_EVIDENCE).map(Item::Allocation).collect();
    let divisions = facts.settings().roundup_power2_divisions.iter().any(|divisions| 1 < *divisions);
    let why = if divisions {
        "roundup_power2_divisions rounds requests up"
    } else {
        "rounding to 512 bytes, and remainders of up to 1 MiB that are not split off"
    };
    let sentence =
        format!("{} of the live {} ({share:.1} %) were never asked for: {why}.", Bytes(bytes), Bytes(facts.accounting.live()));
    let enough = facts.request.is_some_and(|request| request.requested <= bytes);
    let severity = if divisions && enough && verdict != Verdict::Limit { Severity::Warning } else { Severity::Note };
    let finding = Finding::new(severity, sentence, bytes).of_stacks(by_stack.most()).shown_by(evidence);
    let finding =
        if divisions { finding.advise("Finer divisions, or none, give this memory back to the gaps.") } else { finding };
    Ok(vec![if facts.memory.coverage.lacks(Missing::Sizes) {
        finding.sure(Certainty::Likely, "Block sizes are inferred in this file.")
    } else {
        finding
    }])
}
