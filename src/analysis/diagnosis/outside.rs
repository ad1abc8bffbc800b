//! Memory the allocator does not own: contexts, libraries, other processes; and counters beyond the card.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "outside", title: "memory outside PyTorch", look };

/// What contexts and libraries usually take; less is not worth a line.
const USUAL: u64 = 1 << 30;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let mut found = Vec::new();
    let account = &facts.accounting;
    if let Some(capacity) = account.capacity {
        let (reserved, left) = (facts.state.totals.reserved, account.device_free.unwrap_or(0));
        let known = reserved.saturating_add(left);
        if capacity < known {
            let also = if left == 0 { String::new() } else { format!(" and {} were left", Bytes(left)) };
            let sentence = format!(
                "{} are reserved{also} on a card of {}: memory was released behind the allocator's back (sleep modes, unmapped \
                 ranges), or the card is another one.",
                Bytes(reserved),
                Bytes(capacity)
            );
            found.push(Finding::new(Severity::Warning, sentence, known - capacity));
        }
    }
    if let (Some(outside), Some(capacity)) = (account.outside, account.capacity)
        && (verdict == Verdict::Outside || USUAL <= outside)
    {
        let sentence = format!(
            "{} of the card's {} are held outside PyTorch's allocator: CUDA contexts, NCCL and other libraries, other processes.",
            Bytes(outside),
            Bytes(capacity)
        );
        let severity = if verdict == Verdict::Outside { Severity::Cause } else { Severity::Note };
        let advice = "nvidia-smi names the processes; each process's context takes some hundred MiB, and libraries allocate beside PyTorch.";
        found.push(Finding::new(severity, sentence, outside).advise(advice));
    }
    Ok(found)
}
