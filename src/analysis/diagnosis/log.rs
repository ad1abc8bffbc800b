//! PyTorch's own message beside the snapshot: the same figures, or what explains that they differ; and what only the
//! message tells, who holds the memory outside.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::message::OomMessage;
use crate::analysis::diagnosis::rule::{Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};
use crate::model::PoolId;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "log", title: "PyTorch's own message", look };

fn look(facts: &Facts<'_>, _verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let (Some(message), Some(request)) = (facts.message, &facts.request) else { return Ok(Vec::new()) };
    let totals = facts.state.totals;
    let mut differ = Vec::new();
    let mut compare = |what: &str, says: Option<u64>, is: u64| {
        if let Some(says) = says
            && Bytes(says).to_string() != Bytes(is).to_string()
        {
            differ.push(format!("{what}: the message says {}, the snapshot {}", Bytes(says), Bytes(is)));
        }
    };
    // Since 2.1 the message counts the free blocks of private pools as allocated, if there are any.
    let private = facts
        .segments()
        .filter(|(segment, _)| segment.pool != PoolId::DEFAULT || facts.unstated.contains(&segment.id))
        .flat_map(|(_, blocks)| blocks.iter().filter(|block| block.allocation.is_none()))
        .fold(0u64, |sum, gap| sum.saturating_add(gap.size));
    let private = if message.in_private_pools.is_some() { private } else { 0 };
    let allocated = totals.allocated.saturating_add(private);
    let unallocated = totals.reserved.saturating_sub(allocated);
    compare("allocated", message.allocated, allocated);
    compare("free in private pools", message.in_private_pools, private);
    compare("reserved but unallocated", message.unallocated, unallocated);
    compare("reserved", message.reserved, totals.reserved);
    compare("left on the device", message.free, request.device_free);
    let mut found = Vec::new();
    if differ.is_empty() {
        let sentence = format!(
            "PyTorch's message and the snapshot agree: {} wanted, {} allocated, {} reserved but unallocated, {} left on the device.",
            Bytes(request.tried),
            Bytes(allocated),
            Bytes(unallocated),
            Bytes(request.device_free)
        );
        let sentence = if private == 0 {
            sentence
        } else {
            format!("{sentence} (Its allocated includes {} that are free in private pools.)", Bytes(private))
        };
        found.push(Finding::new(Severity::Note, sentence, 0));
    } else {
        let sentence = format!(
            "PyTorch's message and the snapshot differ ({}). The message is written a little later than the event: other threads, \
             other processes or inferred sizes account for that; a large difference means the log is of another run.",
            differ.join("; ")
        );
        found.push(Finding::new(Severity::Warning, sentence, 0).sure(Certainty::Likely, "Both figures are as written."));
    }
    if let Some(sentence) = who_is_outside(message) {
        let bytes = message.others.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        found.push(Finding::new(Severity::Note, sentence, bytes).sure(Certainty::Certain, "PyTorch's message names them."));
    }
    Ok(found)
}

fn who_is_outside(message: &OomMessage) -> Option<String> {
    let others: Vec<String> =
        message.others.iter().map(|(pid, bytes)| format!("process {pid} holds {}", Bytes(*bytes))).collect();
    // In a container the driver's process numbers are not the program's, and the process itself stands among the others.
    let Some(process) = message.process else {
        let named = "which does not name this process (in a container it may be one of these)";
        return (!others.is_empty()).then(|| format!("By the message, {named}: {}.", others.join(", ")));
    };
    let beside = process.checked_sub(message.reserved_in_all()?)?;
    let others = if others.is_empty() { "no other process is named".to_owned() } else { others.join(", ") };
    Some(format!("By the message, this process holds {} beside the allocator (context, libraries), and {others}.", Bytes(beside)))
}
