//! Remainders: a cached segment was taken for a smaller request, and what was left over has served nobody since.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Certainty, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::id::Id as _;
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::settings::LARGE_OWN_SEGMENT;
use crate::model::{Item, Position};
use crate::replay::StateBlock;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "stranded", title: "stranded remainders", look };

/// A remainder below this is not worth a line, in bytes.
const WORTH: u64 = 1 << 20;

/// A gap behind a live block, and when that block came.
struct Remainder {
    gap: StateBlock,
    before: StateBlock,
    born: Position,
    /// The last birth inside the gap's range.
    used: Position,
}

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let lives = &facts.memory.allocations;
    let mut remainders: Vec<Remainder> = Vec::new();
    for (segment, blocks) in facts.segments().filter(|(segment, _)| facts.is_own(segment)) {
        // A segment of its own size was made for one request; the others are shared from the start.
        if segment.expandable || segment.size < LARGE_OWN_SEGMENT {
            continue;
        }
        for pair in blocks.windows(2) {
            if let [before, gap] = pair
                && let Some(id) = before.allocation
                && gap.allocation.is_none()
                && WORTH <= gap.size
            {
                remainders.push(Remainder { gap: *gap, before: *before, born: lives.born()[id.row()], used: Position::START });
            }
        }
    }
    remainders.sort_unstable_by_key(|remainder| remainder.gap.address);
    for row in 0..lives.born_by(facts.state.position) {
        if row.is_multiple_of(65_536) {
            progress.check()?;
        }
        let (address, born) = (lives.addresses()[row], lives.born()[row]);
        let end = address.saturating_add(lives.sizes()[row]);
        let from = remainders.partition_point(|remainder| remainder.gap.address.saturating_add(remainder.gap.size) <= address);
        for remainder in remainders[from..].iter_mut().take_while(|remainder| remainder.gap.address < end) {
            remainder.used = remainder.used.max(born);
        }
    }
    remainders.retain(|remainder| Position::START < remainder.born && remainder.used < remainder.born);
    let bytes = remainders.iter().fold(0u64, |sum, remainder| sum.saturating_add(remainder.gap.size));
    if bytes < WORTH || bytes < facts.state.totals.reserved / 50 {
        return Ok(Vec::new());
    }
    remainders.sort_by_key(|remainder| (std::cmp::Reverse(remainder.gap.size), remainder.gap.address));
    let mut by_stack = ByStack::default();
    for remainder in &remainders {
        by_stack.add(facts.stack_of(&remainder.before), remainder.gap.size);
    }
    let largest = remainders.first().map_or(String::new(), |remainder| {
        let whole = remainder.before.size.saturating_add(remainder.gap.size);
        format!(
            " The largest: {} of {} serve {}, {} lie idle.",
            Bytes(remainder.before.size),
            Bytes(whole),
            facts.name_of(facts.stack_of(&remainder.before)),
            Bytes(remainder.gap.size)
        )
    });
    let count = remainders.len() as u64;
    let sentence = format!(
        "{} are stranded in {} {}: a cached segment was taken for a smaller request, and the rest has served nobody since.{largest}",
        Bytes(bytes),
        grouped(count),
        plural(count, "remainder"),
    );
    let evidence = remainders
        .iter()
        .take(MOST_EVIDENCE)
        .map(|remainder| Item::Gap { address: remainder.gap.address, size: remainder.gap.size })
        .collect();
    let severity = if verdict == Verdict::Fragmentation { Severity::Warning } else { Severity::Note };
    Ok(vec![
        Finding::new(severity, sentence, bytes)
            .of_stacks(by_stack.most())
            .shown_by(evidence)
            .sure(Certainty::Likely, "No block was placed there since; it may still be used later.")
            .advise(
                "max_split_size_mb keeps large cached segments whole for requests of their own size; expandable_segments:True \
                 avoids such segments.",
            ),
    ])
}
