//! What is live, by whom, how much of it is old: the cause when memory is simply full, context when it is not.

use crate::analysis::categories::Categories;
use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{BlockState, Item};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "live", title: "what is live", look };

/// The share of the events up to the moment whose blocks count as old, where the program marked no steps.
const OLD_SHARE: u32 = 10;
/// With fewer events than this it has no old and no new.
const ENOUGH: u32 = 100;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let live = facts.accounting.live();
    let too_large = facts.request.filter(|request| verdict == Verdict::Live && facts.accounting.within() < request.requested);
    if let Some(request) = too_large {
        let sentence = format!(
            "{} were wanted, more than the {} that PyTorch could have had with nothing live at all.",
            request.words(),
            Bytes(facts.accounting.within())
        );
        let finding = Finding::new(Severity::Cause, sentence, request.requested).shown_by(vec![Item::Event(request.event)]);
        return Ok(vec![finding.advise(
            "Look at the size of this request: a shape gone wrong (broadcasting, a missing mask or slice), or a batch or \
             sequence far too large for the card.",
        )]);
    }
    if live == 0 {
        return Ok(Vec::new());
    }
    let lives = &facts.memory.allocations;
    let at = facts.state.position;
    let first_step = facts.steps.as_ref().and_then(|steps| steps.ends.first()).map(|end| end.0);
    let old_before = first_step.unwrap_or(at.0 / OLD_SHARE);
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
    let largest = stacks.first().map_or(String::new(), |row| {
        let name = facts.name_of(row.stack);
        if row.bytes == live {
            format!(" All of it comes from {name}.")
        } else {
            format!(" The most, {}, comes from {name}.", Bytes(row.bytes))
        }
    });
    let (old, new) = (Bytes(old), Bytes(live.saturating_sub(old)));
    let ages = match &facts.steps {
        Some(steps) => format!(
            ": {old} were there after the first of {} steps ({}), {new} came since",
            grouped(steps.ends.len() as u64),
            steps.name
        ),
        // A state alone does not tell what is old.
        None if ENOUGH <= at.0 => format!(": {old} were there after the first tenth of the events up to here, {new} came later"),
        None => String::new(),
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
        Severity::Cause => format!(
            "Allocator settings will not help. A smaller batch or shorter sequences shrink what came later; activation \
             checkpointing drops what forward passes keep; offloading and sharding (parameters, gradients, optimizer state) \
             shrink what is old.{}",
            by_kind(facts)
        ),
        _ => String::new(),
    };
    Ok(vec![Finding::new(severity, sentence, live).of_stacks(stacks).shown_by(evidence).advise(advice)])
}

/// What live memory is for as its stacks tell, so that each remedy has its bytes; empty where they tell nothing.
fn by_kind(facts: &Facts<'_>) -> String {
    let categories = Categories::built_in();
    let of = categories.of(&facts.snapshot.stacks);
    let mut sums = vec![0u64; categories.names().len()];
    for block in facts.state.blocks.iter().filter(|block| block.state == BlockState::ActiveAllocated) {
        let kind = of.get(facts.stack_of(block).row()).copied().unwrap_or(categories.other());
        if let Some(sum) = sums.get_mut(usize::from(kind.0)) {
            *sum = sum.saturating_add(block.size);
        }
    }
    let other = usize::from(categories.other().0);
    let mut known: Vec<(u64, &str)> =
        sums.iter().copied().zip(categories.names().iter().map(String::as_str)).take(other).collect();
    known.retain(|(bytes, _)| 0 < *bytes);
    known.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    if known.is_empty() {
        return " The bytes by stack above say what each would touch.".to_owned();
    }
    let known: Vec<String> = known.iter().map(|(bytes, name)| format!("{name} {}", Bytes(*bytes))).collect();
    format!(" By the stacks, live are: {}, of no known kind {}.", known.join(", "), Bytes(sums.get(other).copied().unwrap_or(0)))
}
