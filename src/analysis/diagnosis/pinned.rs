//! Who pins the holes: each half-used segment charged to the live blocks in it, by stack; and the cheapest hole, the
//! fewest live bytes whose end would leave a gap that serves the request.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{ByStack, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{AllocationId, Item};
use crate::replay::StateBlock;

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "pinned", title: "who pins free memory", look };

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let mut mapped = false;
    let (mut charged, mut held, mut segments, mut pins) = (ByStack::default(), 0u64, 0u64, 0u64);
    let mut cheapest: Option<Hole> = None;
    for (segment, blocks) in facts.segments().filter(|(segment, _)| facts.is_own(segment)) {
        progress.check()?;
        let free = blocks.iter().filter(|block| block.allocation.is_none()).fold(0u64, |sum, gap| sum.saturating_add(gap.size));
        let live: Vec<&StateBlock> = blocks.iter().filter(|block| block.allocation.is_some()).collect();
        if free == 0 || live.is_empty() {
            continue;
        }
        mapped |= segment.expandable;
        (held, segments, pins) = (held.saturating_add(free), segments + 1, pins + live.len() as u64);
        // Any live block keeps the whole segment, whatever its size: all are charged alike, the first with the rest.
        let (each, rest) = (free / live.len() as u64, free % live.len() as u64);
        for (place, block) in live.iter().enumerate() {
            charged.add(facts.stack_of(block), each + if place == 0 { rest } else { 0 });
        }
        if let Some(request) = &facts.request
            && request.requested <= segment.size
            && let Some(hole) = Hole::cheapest_in(blocks, request.requested)
            && cheapest.as_ref().is_none_or(|known| hole.live < known.live)
        {
            cheapest = Some(hole);
        }
    }
    if segments == 0 {
        return Ok(Vec::new());
    }
    let worth = verdict == Verdict::Fragmentation || facts.state.totals.reserved / 20 <= held;
    if !worth {
        return Ok(Vec::new());
    }
    let stacks = charged.most();
    let first = stacks.first().map_or(String::new(), |row| {
        format!(
            " The largest share, {}, is charged to {} ({} {}).",
            Bytes(row.bytes),
            facts.name_of(row.stack),
            grouped(row.count),
            plural(row.count, "block")
        )
    });
    let severity = if verdict == Verdict::Fragmentation { Severity::Warning } else { Severity::Note };
    let sentence = format!(
        "{} live {} in {} half-used {} {} {} of free memory: {}.{first}",
        grouped(pins),
        plural(pins, "block"),
        grouped(segments),
        plural(segments, if mapped { "mapped range" } else { "segment" }),
        if pins == 1 { "pins" } else { "pin" },
        Bytes(held),
        match (mapped, segments) {
            (true, _) => "granules with a live block in them cannot go back to the driver",
            (false, 1) => "the segment cannot go back to the driver",
            (false, _) => "none of these segments can go back to the driver",
        },
    );
    let mut found = vec![Finding::new(severity, sentence, held).of_stacks(stacks)];
    if let (Some(hole), Some(request), Verdict::Fragmentation) = (cheapest, &facts.request, verdict) {
        let mut by_stack = ByStack::default();
        for id in &hole.blocks {
            let life = facts.memory.allocations.get(*id);
            let stack =
                if facts.snapshot.stacks.frames(life.stack).is_empty() { crate::model::StackId::EMPTY } else { life.stack };
            by_stack.add(stack, life.size);
        }
        let stacks = by_stack.most();
        let from = stacks.first().map_or(String::new(), |row| format!(", from {}", facts.name_of(row.stack)));
        let count = hole.blocks.len() as u64;
        let sentence = format!(
            "The cheapest hole: without {} live {} ({}{from}) {} would lie free in one piece, enough for the {} wanted.",
            grouped(count),
            plural(count, "block"),
            Bytes(hole.live),
            Bytes(hole.whole),
            Bytes(request.requested),
        );
        let evidence = hole.blocks.iter().take(MOST_EVIDENCE).map(|id| Item::Allocation(*id)).collect();
        found.push(
            Finding::new(Severity::Warning, sentence, hole.live)
                .of_stacks(stacks)
                .shown_by(evidence)
                .advise("Free these blocks earlier, allocate them before the large ones, or keep them in a place of their own."),
        );
    }
    Ok(found)
}

/// A stretch of one segment that would be one gap if the live blocks in it were gone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hole {
    /// Bytes of the live blocks in it.
    live: u64,
    /// All its bytes.
    whole: u64,
    blocks: Vec<AllocationId>,
}

impl Hole {
    /// The stretch of neighbours that holds `wanted` bytes and the fewest live ones; the first of equal ones.
    fn cheapest_in(blocks: &[StateBlock], wanted: u64) -> Option<Hole> {
        let live_of = |block: &StateBlock| if block.allocation.is_some() { block.size } else { 0 };
        let (mut from, mut whole, mut live) = (0, 0u64, 0u64);
        let mut best: Option<(u64, u64, std::ops::Range<usize>)> = None;
        for (to, block) in blocks.iter().enumerate() {
            whole = whole.saturating_add(block.size);
            live = live.saturating_add(live_of(block));
            while wanted <= whole - blocks[from].size.min(whole) && from < to {
                whole -= blocks[from].size;
                live -= live_of(&blocks[from]).min(live);
                from += 1;
            }
            if wanted <= whole && best.as_ref().is_none_or(|(known, ..)| live < *known) {
                best = Some((live, whole, from..to + 1));
            }
        }
        let (live, whole, range) = best?;
        Some(Hole { live, whole, blocks: blocks[range].iter().filter_map(|block| block.allocation).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BlockState;

    #[test]
    fn the_cheapest_hole_has_the_fewest_live_bytes() {
        // Positive: a gap; negative: a live block.
        for (sizes, wanted, expected) in [
            (&[30, -5, 30, -20, 40][..], 60, Some((5, 65, 1))),
            (&[30, -5, 30, -20, 40], 66, Some((20, 90, 1))),
            (&[-100, 10, -1, 10, -1, 10, -100], 30, Some((2, 32, 2))),
            (&[-8], 8, Some((8, 8, 1))),
            (&[50], 20, Some((0, 50, 0))),
            (&[10, -10], 21, None),
            (&[], 1, None),
        ] {
            let mut address = 0;
            let mut blocks = Vec::new();
            for (row, size) in (0..).zip(sizes) {
                let bytes = i64::unsigned_abs(*size);
                let (state, allocation) =
                    if *size < 0 { (BlockState::ActiveAllocated, Some(AllocationId(row))) } else { (BlockState::Inactive, None) };
                blocks.push(StateBlock { address, size: bytes, requested: 0, state, allocation });
                address += bytes;
            }
            let hole = Hole::cheapest_in(&blocks, wanted).map(|hole| (hole.live, hole.whole, hole.blocks.len()));
            assert_eq!(hole, expected, "{sizes:?} for {wanted}");
        }
    }
}
