//! Free memory that this request cannot use: other streams, private pools, the other half, settings, pending frees.

use crate::analysis::diagnosis::facts::{Facts, PoolFrom, Request, Wall};
use crate::analysis::diagnosis::rule::{ByStack, Certainty, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{BlockState, Item, PoolId};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "trapped", title: "free, but trapped", look };

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let mut found = Vec::new();
    // A twentieth of what is reserved is worth a line.
    let worth = |bytes: u64| 0 < bytes && facts.state.totals.reserved / 20 <= bytes;
    let severity = if verdict == Verdict::Trapped { Severity::Cause } else { Severity::Note };
    for (wall, sums) in &facts.walled {
        if !worth(sums.bytes) {
            continue;
        }
        let gaps = format!("{} in {} {}", Bytes(sums.bytes), grouped(sums.count), plural(sums.count, "gap"));
        let own_pool = facts.request.is_none_or(|request| request.pool == Some(PoolId::DEFAULT));
        let (sentence, advice) = match wall {
            Wall::Stream => (
                format!("{gaps} belong to other streams: free memory is only used again on the stream it was allocated on."),
                "Allocate on one stream, or call torch.cuda.empty_cache() when a side stream is done.",
            ),
            Wall::Pool if own_pool => (
                format!("{gaps} belong to private pools (CUDA graphs, MemPool), which nobody else can use while they live."),
                "Share one pool between graphs (pool=graph.pool()), capture the largest graph first, or drop graphs no longer replayed.",
            ),
            Wall::Pool => (
                format!("{gaps} lie outside the private pool this request is for."),
                "Call torch.cuda.empty_cache() before the capture, or before that pool is used, so that the driver has this memory to give.",
            ),
            Wall::Half => (
                format!(
                    "{gaps} lie in the other half of the pool: requests of up to 1 MiB and larger ones never share segments."
                ),
                "torch.cuda.empty_cache() gives back those segments that are wholly free.",
            ),
            Wall::Setting if facts.settings().max_split_size.is_none() => (
                format!("{gaps} lie in expandable segments, which serve nobody while expandable_segments is off."),
                "Set expandable_segments once, before the first allocation, and leave it.",
            ),
            Wall::Setting => (
                format!("{gaps} are kept from this request by the settings (max_split_size_mb, or segments of the other kind)."),
                "Raise max_split_size_mb, or leave it out.",
            ),
        };
        let evidence = facts
            .segments()
            .filter(|(segment, blocks)| {
                blocks.iter().any(|block| block.allocation.is_none() && facts.wall(segment, block) == Some(*wall))
            })
            .map(|(segment, _)| Item::Segment(segment.id))
            .take(MOST_EVIDENCE)
            .collect();
        let finding = Finding::new(severity, sentence, sums.bytes).shown_by(evidence).advise(advice);
        found.push(match facts.request {
            Some(Request { pool_from: PoolFrom::Assumed, .. }) if *wall == Wall::Pool => finding.sure(
                Certainty::Likely,
                "The event does not say which pool it was for (PyTorch before 2.12): the default one is assumed.",
            ),
            Some(Request { pool_from: PoolFrom::Gaps, .. }) => finding.sure(
                Certainty::Likely,
                "The event does not say which pool it was for (PyTorch before 2.12); what lay free would have served it or gone \
                 back to the driver in its own pool, so it was for another one.",
            ),
            _ => finding,
        });
    }
    let pending = facts.accounting.pending_free;
    if worth(pending) {
        let mut by_stack = ByStack::default();
        let blocks: Vec<_> = facts.state.blocks.iter().filter(|block| block.state == BlockState::ActivePendingFree).collect();
        for block in &blocks {
            by_stack.add(facts.stack_of(block), block.size);
        }
        let evidence = blocks.iter().filter_map(|block| block.allocation).take(MOST_EVIDENCE).map(Item::Allocation).collect();
        let count = blocks.len() as u64;
        let sentence = format!(
            "{} in {} {} were given back and still wait for another stream (record_stream): they cannot be used until its work is done.",
            Bytes(pending),
            grouped(count),
            plural(count, "block"),
        );
        found.push(
            Finding::new(severity, sentence, pending)
                .of_stacks(by_stack.most())
                .shown_by(evidence)
                .advise("Let the streams wait for each other more often (wait_stream, events), so that fewer frees pile up."),
        );
    }
    Ok(found)
}
