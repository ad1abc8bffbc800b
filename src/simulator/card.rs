//! The smallest card on which everything that was recorded is served.
//!
//! Always: the size found serves, and two MiB less do not; both were tried. Whether a card serves does not rise evenly
//! with its size, for a retry at another moment leaves other gaps: below the size found lie at least
//! [`LOOKED_AT_BELOW`] sizes that were tried and fail, further down one that serves by chance cannot be excluded.

use crate::base::{Cancelled, Progress};
use crate::simulator::request::{Request, RequestStream};
use crate::simulator::scenario::{AtFailure, AtRecordedFailure, Outcome, Scenario, Start, simulate_as};

/// Cards are told apart in steps of this, bytes: all memory is taken in multiples of it.
const STEP: u64 = 2 << 20;
/// How many sizes below the one found are tried, one after the other.
pub const LOOKED_AT_BELOW: u64 = 8;
/// No card has more, bytes.
const NO_CARD: u64 = 1 << 50;

/// The smallest card.
#[derive(Clone, Debug)]
pub struct SmallestCard {
    /// The least that the allocator must be able to hold, bytes, in whole MiB.
    pub capacity: u64,
    /// The same with what others hold of the card.
    pub total: u64,
    /// What was counted on it.
    pub outcome: Outcome,
    /// How many sizes were tried.
    pub tried: u32,
}

/// The smallest card that serves all requests under a scenario, the one on which the recording failed among them; none
/// where no card does, for a memory fraction can be too small for any. What others hold of the card stays as much as
/// the scenario says: what lies between its total and its capacity.
///
/// Found by halving between the most that was live at once, below which nothing can serve, and a size that serves.
pub fn smallest_card(asked: &RequestStream, scenario: &Scenario, progress: &Progress) -> Result<Option<SmallestCard>, Cancelled> {
    let others = match (scenario.total, scenario.capacity) {
        (Some(total), Some(capacity)) => total.saturating_sub(capacity),
        _ => 0,
    };
    let mut tried = 0;
    let mut serves = |steps: u64| -> Result<Option<Outcome>, Cancelled> {
        tried += 1;
        let capacity = steps * STEP;
        let (capacity, total) = (Some(capacity), Some(capacity.saturating_add(others)));
        let on_it = Scenario { capacity, total, at_failure: AtFailure::Stop, ..scenario.clone() };
        let outcome = simulate_as(asked, &on_it, AtRecordedFailure::ToBeServed, progress)?;
        Ok(outcome.failure.is_none().then_some(outcome))
    };
    progress.stage("looking for the smallest card", asked.requests.len() as u64)?;
    let least = least(asked, scenario).div_ceil(STEP);
    let (mut fails, mut at) = (least.saturating_sub(1), least.max(1));
    let mut best = loop {
        if NO_CARD / STEP < at {
            return Ok(None);
        }
        if let Some(outcome) = serves(at)? {
            break (at, outcome);
        }
        fails = at;
        // What is reserved is seldom more than a little above what is live: far steps come late.
        at += ((at - least.min(at)) * 2).max(at / 16).max(1);
    };
    loop {
        while 1 < best.0 - fails {
            let middle = fails + (best.0 - fails) / 2;
            match serves(middle)? {
                Some(outcome) => best = (middle, outcome),
                None => fails = middle,
            }
        }
        let mut lower = None;
        for below in 2..=LOOKED_AT_BELOW {
            let Some(at) = best.0.checked_sub(below).filter(|at| least <= *at && 0 < *at) else { break };
            if let Some(outcome) = serves(at)? {
                lower = Some((at, outcome));
                break;
            }
        }
        let Some(lower) = lower else { break };
        (best, fails) = (lower, least.saturating_sub(1));
        // Only what lies directly below is looked at again.
        fails = fails.max(best.0.saturating_sub(LOOKED_AT_BELOW + 1));
    }
    let capacity = best.0 * STEP;
    Ok(Some(SmallestCard { capacity, total: capacity.saturating_add(others), outcome: best.1, tried }))
}

/// Bytes below which no card can serve: what is there at the start, and the most that rounded requests come to at once.
fn least(asked: &RequestStream, scenario: &Scenario) -> u64 {
    let mut sizes = vec![0u64; asked.lives];
    let (mut live, mut most) = (0u64, 0u64);
    if let Some(start) = asked.start.as_ref().filter(|_| scenario.start == Start::Recorded) {
        most = start.reserved();
        for (_, block) in start.active() {
            if let Some(size) = block.life.and_then(|life| sizes.get_mut(life.0 as usize)) {
                *size = scenario.settings.round(block.requested).min(block.size);
                live = live.saturating_add(*size);
            }
        }
    }
    for (_, request) in &asked.requests {
        match request {
            Request::Alloc(life, wanted) => {
                let size = scenario.settings.round(wanted.size);
                live = live.saturating_add(size);
                if let Some(known) = sizes.get_mut(life.0 as usize) {
                    *known = size;
                }
            }
            Request::Failed(wanted) => most = most.max(live.saturating_add(scenario.settings.round(wanted.size))),
            Request::Free(life) | Request::FreeRequested(life) => {
                let size = sizes.get_mut(life.0 as usize).map(std::mem::take).unwrap_or_default();
                live = live.saturating_sub(size);
            }
            Request::FreeCompleted(_) | Request::CompletedInRetry(_) | Request::PoolEnds(_) | Request::EmptyCache => {}
        }
        most = most.max(live);
    }
    most
}
