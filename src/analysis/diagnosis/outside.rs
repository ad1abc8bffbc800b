//! Memory the allocator does not own: contexts, libraries, other processes; caps; and counters beyond the card.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::Item;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "outside", look };

/// What contexts and libraries usually take; less is not worth a line.
const USUAL: u64 = 1 << 30;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let mut found = Vec::new();
    let account = &facts.accounting;
    if let Some(capacity) = account.capacity {
        let reserved = facts.state.totals.reserved;
        if capacity < reserved {
            let sentence = format!(
                "{} are reserved on a card of {}: memory was released behind the allocator's back (sleep modes, unmapped ranges), \
                 or the card is another one.",
                Bytes(reserved),
                Bytes(capacity)
            );
            found.push(Finding::new(Severity::Warning, sentence, reserved - capacity));
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
    if let (Verdict::Limit, Some(request)) = (verdict, &facts.request) {
        let sentence = format!(
            "The driver had {} left, and {} were asked of it: what refused is a cap (set_per_process_memory_fraction, a \
             container or MIG limit) or the driver itself.",
            Bytes(request.device_free),
            Bytes(request.needed)
        );
        let fraction = facts
            .settings()
            .per_process_memory_fraction
            .map(|fraction| format!("{fraction}"))
            .or_else(|| facts.card.fraction_ppm.map(|ppm| format!("{}", f64::from(ppm) / 1e6)));
        let finding = Finding::new(Severity::Cause, sentence, request.device_free).shown_by(vec![Item::Event(request.event)]);
        found.push(match fraction {
            Some(fraction) => finding.advise(format!("The memory fraction is {fraction}: raise it.")),
            None => finding.sure(Certainty::Likely, "A fraction set by a call is not in the file.").advise(
                "Look for set_per_process_memory_fraction in the program and raise it; else look at limits of the container.",
            ),
        });
    }
    Ok(found)
}
