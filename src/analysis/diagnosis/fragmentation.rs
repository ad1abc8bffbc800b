//! Enough is free, but in pieces: the gaps against the request, or where nothing failed, against what is free.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::Item;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "fragmentation", title: "free memory in pieces", look };

/// Where nothing failed: free memory of this share of what is reserved, cut so that the largest gap holds less than half
/// of it, is worth a note.
const FREE_SHARE: u64 = 10;

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let own = facts.own;
    let worth = match (&facts.request, verdict) {
        (_, Verdict::Fragmentation) => true,
        (Some(request), _) => request.requested <= own.bytes,
        (None, _) => facts.state.totals.reserved / FREE_SHARE < own.bytes && own.largest < own.bytes / 2,
    };
    if let (Verdict::Fragmentation, 0, Some(request)) = (verdict, own.count, &facts.request) {
        let sentence = format!(
            "{} are left on the device, enough for the {} wanted, but such a request takes {} from the driver; no gap is free in its own pool and stream.",
            Bytes(request.device_free),
            Bytes(request.requested),
            Bytes(request.needed),
        );
        let advice = "The device is full but for this rest: free memory, or ask for less. Settings gain nothing here.";
        let finding = Finding::new(Severity::Cause, sentence, request.device_free).shown_by(vec![Item::Event(request.event)]);
        return Ok(vec![finding.advise(advice)]);
    }
    if !worth || own.count == 0 {
        return Ok(Vec::new());
    }
    let external = 100.0 - own.largest as f64 * 100.0 / own.bytes as f64;
    let mut gaps: Vec<(u64, u64)> = facts
        .segments()
        .filter(|(segment, _)| facts.is_own(segment))
        .flat_map(|(segment, blocks)| blocks.iter().map(move |block| (segment, block)))
        .filter(|(segment, block)| block.allocation.is_none() && facts.wall(segment, block).is_none())
        .map(|(_, block)| (block.size, block.address))
        .collect();
    gaps.sort_unstable_by_key(|(size, address)| (std::cmp::Reverse(*size), *address));
    let evidence = gaps.iter().take(MOST_EVIDENCE).map(|(size, address)| Item::Gap { address: *address, size: *size }).collect();
    let what = match &facts.request {
        Some(request) => format!(
            "{} are free in the request's own pool and stream, in {} {}; the largest holds {}, and {} were wanted",
            Bytes(own.bytes),
            grouped(own.count),
            plural(own.count, "gap"),
            Bytes(own.largest),
            Bytes(request.requested),
        ),
        None => format!(
            "{} are free in {} {} of at most {}",
            Bytes(own.bytes),
            grouped(own.count),
            plural(own.count, "gap"),
            Bytes(own.largest)
        ),
    };
    let severity = if verdict == Verdict::Fragmentation { Severity::Cause } else { Severity::Note };
    let sentence = format!("{what} (external fragmentation {external:.1} %).");
    Ok(vec![Finding::new(severity, sentence, own.bytes).shown_by(evidence).advise(advice(facts, verdict))])
}

fn advice(facts: &Facts<'_>, verdict: Verdict) -> String {
    if verdict != Verdict::Fragmentation {
        return String::new();
    }
    let settings = facts.settings();
    if settings.expandable_segments {
        return "expandable_segments is on already, so the gaps lie inside mapped ranges: free or move the blocks that pin \
                them, or make sizes repeat (fixed batch and sequence length, padding to a few lengths)."
            .to_owned();
    }
    let most = facts.own.bytes.saturating_add(facts.accounting.device_free.unwrap_or(0));
    format!(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may help: it joins free memory of whole granules; at best the {} \
         that are free here could serve the request. Making sizes repeat (padding to a few lengths) keeps gaps reusable.",
        Bytes(most)
    )
}
