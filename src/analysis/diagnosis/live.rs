//! What is live, by whom, how much of it is old: the cause when memory is simply full, context when it is not.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::{BlockState, Item};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "live", title: "what is live", look };

/// The share of the trace at its begin whose blocks count as old.
const OLD_SHARE: u32 = 10;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let live = facts.accounting.live();
    if live == 0 {
        return Ok(Vec::new());
    }
    let lives = &facts.memory.allocations;
    let old_before = facts.memory.end().0 / OLD_SHARE;
    let (mut by_stack, mut old) = (ByStack::default(), 0u64);
    let mut blocks: Vec<_> = facts.state.blocks.iter().filter(|block| block.state == BlockState::ActiveAllocated).collect();
    for block in &blocks {
        by_stack.add(facts.stack_of(block), block.size);
        if block.allocation.is_some_and(|id| lives.born()[id.row()].0 <= old_before) {
            old = old.saturating_add(block.size);
        }
    }
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.size), block.address));
    let evidence = blocks.iter().filter_map(|block| block.allocation).take(MOST_EVIDENCE).map(Item::Allocation).collect();
    let stacks = by_stack.most();
    let largest = stacks
        .first()
        .map_or(String::new(), |row| format!(" Most of it, {}, comes from {}.", Bytes(row.bytes), facts.name_of(row.stack)));
    // A state alone does not tell what is old.
    let ages = if facts.memory.has_history() {
        format!(": {} are as old as the first tenth of the recording, {} came later", Bytes(old), Bytes(live.saturating_sub(old)))
    } else {
        String::new()
    };
    let sentence = format!(
        "{} are live ({:.0} % of {}){ages}.{largest}",
        Bytes(live),
        facts.percent(live),
        Bytes(facts.accounting.within()),
    );
    let severity = match verdict {
        Verdict::Live => Severity::Cause,
        Verdict::None | Verdict::Unknown | Verdict::Limit => Severity::Note,
        _ if 90.0 <= facts.percent(live) => Severity::Warning,
        _ => Severity::Note,
    };
    let advice = match severity {
        Severity::Cause => {
            "Allocator settings will not help. A smaller batch or shorter sequences shrink what came later; activation \
             checkpointing drops what forward passes keep; offloading and sharding (parameters, gradients, optimizer state) \
             shrink what is old. The bytes by stack above say what each would touch."
        }
        _ => "",
    };
    Ok(vec![Finding::new(severity, sentence, live).of_stacks(stacks).shown_by(evidence).advise(advice)])
}
