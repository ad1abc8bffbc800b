//! Which cause decides: the first that holds, at the event itself.

use crate::analysis::diagnosis::facts::{Facts, Request};
use crate::base::{Bytes, grouped};
use crate::model::{Action, Missing, Position};

/// Memory held by others that is worth a verdict: over this, and over a tenth of the card.
const OUTSIDE_MIN: u64 = 2 << 30;

/// Segments that nobody names are worth a verdict up to this part of all.
const UNNAMED_SHARE: u64 = 10;

/// Why an allocation failed; the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The driver had enough left: a cap, or the driver itself, refused.
    Limit,
    /// Others hold so much of the card that without them the driver could have given it.
    Outside,
    /// Enough is free for this request, but in pieces.
    Fragmentation,
    /// Enough is free, but it belongs to other streams or pools, waits, or a setting keeps it.
    Trapped,
    /// Live memory fills the device.
    Live,
    /// It failed, and the file does not hold the state at that event.
    Unknown,
    /// Nothing failed.
    None,
}

impl Verdict {
    /// The word in the command line's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Limit => "limit",
            Verdict::Outside => "outside",
            Verdict::Fragmentation => "fragmentation",
            Verdict::Trapped => "trapped",
            Verdict::Live => "live",
            Verdict::Unknown => "unknown",
            Verdict::None => "none",
        }
    }
    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Verdict::Limit => "A limit",
            Verdict::Outside => "Memory outside PyTorch",
            Verdict::Fragmentation => "Fragmentation",
            Verdict::Trapped => "Trapped memory",
            Verdict::Live => "Live memory",
            Verdict::Unknown => "Unknown",
            Verdict::None => "No failure",
        }
    }
    /// Decides.
    pub fn of(facts: &Facts<'_>) -> Verdict {
        let Some(request) = &facts.request else {
            return if failed_without_account(facts) { Verdict::Unknown } else { Verdict::None };
        };
        if !state_is_known(facts) {
            return Verdict::Unknown;
        }
        let account = &facts.accounting;
        let device_free = request.device_free;
        let enough = |bytes: u64| request.requested <= bytes.saturating_add(device_free);
        let own = account.free_usable.saturating_add(account.free_too_small);
        let elsewhere = account.free_trapped.saturating_add(account.pending_free);
        if request.needed <= device_free {
            Verdict::Limit
        } else if outside_decides(facts, request) {
            Verdict::Outside
        } else if enough(own) {
            Verdict::Fragmentation
        } else if enough(own.saturating_add(elsewhere)) {
            Verdict::Trapped
        } else {
            Verdict::Live
        }
    }
    /// The verdict in words, with its figures; whatever it is, it says how much of the device is live.
    pub fn sentence(self, facts: &Facts<'_>) -> String {
        let account = &facts.accounting;
        let live = live_share(facts);
        let Some(request) = &facts.request else {
            let gaps = grouped(facts.gaps.count);
            let when = if facts.has_lost_failure {
                "The log tells of a failure, but none is in this file: the event was overwritten or not recorded, or it was another run. At the peak that is left"
            } else if !facts.memory.has_history() {
                "Nothing failed as far as the file tells. When it was written"
            } else {
                "Nothing failed in this recording. At its peak"
            };
            if failed_without_account(facts) {
                return format!(
                    "Requests failed (they are marked on the time axis), but this kind of file holds no account of what was left \
                     then. At the peak {} are live; what is free is not known.",
                    Bytes(account.live())
                );
            }
            if account.free_unknown {
                return format!("{when} {} are live; what is free is not known.", Bytes(account.live()));
            }
            return format!(
                "{when} {} are live; {} are free in {gaps} {}, at most {} in one.{}",
                Bytes(account.live()),
                Bytes(account.free()),
                plural(facts.gaps.count, "gap"),
                Bytes(facts.gaps.largest),
                if account.capacity.is_some() { format!(" {live}") } else { String::new() },
            );
        };
        let wanted = request.words();
        let left = match request.device_free {
            0 => "nothing is left on the device".to_owned(),
            bytes => format!("{} are left on the device", Bytes(bytes)),
        };
        match self {
            Verdict::Limit => format!(
                "A limit, not a lack of memory: {wanted} were wanted, which takes {} from the driver, and the driver had {} left. A memory fraction, another cap, or the driver itself refused. {live}",
                Bytes(request.needed),
                Bytes(request.device_free),
            ),
            Verdict::Outside => format!(
                "Memory outside PyTorch: others hold {} of the {} card (contexts, libraries, other processes). {wanted} were wanted, {left}; with what they hold the driver could have given it. {live}",
                Bytes(account.outside.unwrap_or(0)),
                Bytes(account.capacity.unwrap_or(0)),
            ),
            Verdict::Fragmentation if facts.own.count == 0 => format!(
                "Fragmentation: {} were wanted and {left}, but the driver is asked for {} at a time for such a request, and no gap is free. {live}{}",
                Bytes(request.requested),
                Bytes(request.needed),
                little_to_gain(facts),
            ),
            Verdict::Fragmentation => {
                let own = account.free_usable.saturating_add(account.free_too_small);
                format!(
                    "Fragmentation: {wanted} were wanted and {} are free, but in {} {} of at most {}; {left}. {live}{}",
                    Bytes(own),
                    grouped(facts.own.count),
                    plural(facts.own.count, "gap"),
                    Bytes(facts.own.largest),
                    little_to_gain(facts),
                )
            }
            Verdict::Trapped => {
                let parts = [
                    (account.free_trapped, "are free where this request cannot use them"),
                    (account.pending_free, "were given back and wait for another stream"),
                    (facts.own.bytes, "lie in gaps of its own that are too small"),
                ];
                let parts: Vec<String> = parts
                    .iter()
                    .filter(|(bytes, _)| 0 < *bytes)
                    .map(|(bytes, what)| format!("{} {what}", Bytes(*bytes)))
                    .collect();
                format!("Trapped memory: {wanted} were wanted; {}; {left}. {live}", parts.join(", "))
            }
            Verdict::Live => {
                let free = match account.free().saturating_add(account.pending_free) {
                    0 => "no gap is free".to_owned(),
                    bytes => format!("{} are free in gaps of all kinds", Bytes(bytes)),
                };
                // A request for more than all that is not live fails on a nearly empty device too.
                let what = if account.within() < request.requested {
                    "The request alone is larger than all that PyTorch could have"
                } else if account.live() < account.within() / 2 {
                    "There is not enough memory for this request, however it lies"
                } else {
                    "Live memory fills the device"
                };
                format!("{what}: {wanted} were wanted, {free}, {left}. {live}")
            }
            Verdict::Unknown => format!(
                "{wanted} could not be had with {} left on the device, but the file does not hold the state at that event, so the cause cannot be told.",
                Bytes(request.device_free),
            ),
            Verdict::None => String::new(),
        }
    }
}

/// Whether the file holds the state at the event. It does not where blocks lie in segments that nobody names, over a
/// share of what is known; nor where the file states no segments and its trace begins in the middle of a run, so that
/// what is older and was not touched is nowhere.
fn state_is_known(facts: &Facts<'_>) -> bool {
    let memory = facts.memory;
    let unnamed = facts.state.segments.iter().filter(|segment| segment.inferred);
    let unnamed = unnamed.fold(0u64, |sum, segment| sum.saturating_add(segment.size));
    let reserved = facts.state.totals.reserved;
    if reserved.saturating_add(unnamed) / UNNAMED_SHARE < unnamed {
        return false;
    }
    let stated = memory.segments.as_slice().iter().any(|segment| segment.died == Position::NEVER && !segment.inferred);
    let from_the_first = memory
        .trace
        .actions()
        .first()
        .is_none_or(|action| matches!(action, Action::SegmentAlloc | Action::SegmentMap | Action::Oom));
    stated || from_the_first || !memory.coverage.lacks(Missing::End)
}

fn outside_decides(facts: &Facts<'_>, request: &Request) -> bool {
    let (Some(outside), Some(capacity)) = (facts.accounting.outside, facts.accounting.capacity) else { return false };
    OUTSIDE_MIN < outside && capacity / 10 < outside && request.needed <= outside.saturating_add(request.device_free)
}

/// Whether requests failed in a file that says no more of them than that: other tools' files have events of their own for
/// it, and tell nothing of segments.
fn failed_without_account(facts: &Facts<'_>) -> bool {
    !facts.memory.tells_segments() && facts.memory.trace.actions().contains(&Action::Unknown)
}

/// How much of the device is live, as a sentence.
fn live_share(facts: &Facts<'_>) -> String {
    let account = &facts.accounting;
    let (live, within) = (account.live(), account.within());
    let share = if within == 0 { 0.0 } else { live as f64 * 100.0 / within as f64 };
    let of = match account.capacity {
        Some(capacity) => format!("the {} card", Bytes(capacity)),
        None => format!("the {} that PyTorch could have", Bytes(within)),
    };
    format!("Live memory holds {} ({share:.0} %) of {of}.", Bytes(live))
}

fn little_to_gain(facts: &Facts<'_>) -> String {
    let account = &facts.accounting;
    if account.live() < account.within() / 10 * 9 {
        return String::new();
    }
    let most = account.free().saturating_add(account.device_free.unwrap_or(0));
    format!(" So there is little to gain: without a single gap in between, {} would be free.", Bytes(most))
}

/// The word for so many.
pub(super) fn plural(count: u64, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}
