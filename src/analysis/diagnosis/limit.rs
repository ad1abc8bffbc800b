//! A cap: the driver had the memory, and yet the request was refused.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::Item;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "limit", title: "a cap", look };

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let (Verdict::Limit, Some(request)) = (verdict, &facts.request) else { return Ok(Vec::new()) };
    let reserved = facts.state.totals.reserved;
    let asked = format!("The driver had {} left, and {} were asked of it", Bytes(request.device_free), Bytes(request.needed));
    let found = |sentence: String| {
        Finding::new(Severity::Cause, sentence, request.device_free).shown_by(vec![Item::Event(request.event)])
    };
    let stated = facts.settings().per_process_memory_fraction.filter(|fraction| *fraction < 1.0);
    Ok(vec![match (facts.message.and_then(|message| message.allowed), stated) {
        (Some(allowed), _) => found(format!(
            "{asked}; PyTorch's message says that {} are allowed, and {} were reserved already.",
            Bytes(allowed),
            Bytes(reserved)
        ))
        .advise("Raise the memory fraction (set_per_process_memory_fraction, per_process_memory_fraction)."),
        (None, Some(fraction)) => {
            found(format!("{asked}; per_process_memory_fraction:{fraction} caps what PyTorch may reserve."))
                .advise("Raise the memory fraction.")
        }
        (None, None) => found(format!(
            "{asked}: what refused is a cap (set_per_process_memory_fraction, a container or MIG limit) or the driver itself. \
             PyTorch had reserved {}.",
            Bytes(reserved)
        ))
        .sure(Certainty::Likely, "A fraction set by a call is not in the file; PyTorch's message (--log) names it.")
        .advise("Look for set_per_process_memory_fraction in the program and raise it; else look at limits of the container."),
    }])
}
