//! Figures of `whatif` in words: one value, or from the lowest to the highest over the placements a driver could choose.
//!
//! Always: a range is written only where its ends read differently.

use crate::base::{Bytes, grouped};
use crate::simulator::{FigureRange, Outcome};
use std::ops::RangeInclusive;

/// `10.47 to 10.49 GiB`, or the value where there is no range.
pub fn bytes(value: u64, range: Option<&RangeInclusive<u64>>) -> String {
    from_to(value, range, |value| Bytes(value).to_string())
}

/// `3 to 5`, or the value where there is no range.
pub fn count(value: u64, range: Option<&RangeInclusive<u64>>) -> String {
    from_to(value, range, grouped)
}

fn from_to(value: u64, range: Option<&RangeInclusive<u64>>, words: impl Fn(u64) -> String) -> String {
    let Some(range) = range else { return words(value) };
    let (low, high) = (words(*range.start()), words(*range.end()));
    if low == high {
        return high;
    }
    // One unit is enough for both.
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// How a run ends.
pub fn end(outcome: &Outcome, range: Option<&FigureRange>) -> String {
    let event = |event: crate::model::EventIdx| grouped(u64::from(event.0));
    let end = match (outcome.failure, outcome.served_instead) {
        (Some(failure), _) => {
            format!("out of memory at event {}: {} wanted", event(failure.event), Bytes(failure.requested))
        }
        (None, Some(served)) => format!("serves what failed at event {}", event(served)),
        (None, None) => "serves all".to_owned(),
    };
    match range.map(|range| range.failure) {
        Some((Some(first), None)) => format!("{end} (by addresses: from event {} on, or never)", event(first)),
        Some((Some(first), Some(last))) if first != last => {
            format!("{end} (by addresses: event {} to {})", event(first), event(last))
        }
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_as_people_say_them() {
        let gib = |share: f64| (share * (1u64 << 30) as f64) as u64;
        for (range, words) in [
            (gib(10.47)..=gib(10.49), "10.47 to 10.49 GiB"),
            (gib(0.5)..=gib(1.25), "512.00 MiB to 1.25 GiB"),
            (gib(2.0)..=gib(2.0) + 1, "2.00 GiB"),
        ] {
            assert_eq!(bytes(0, Some(&range)), words);
        }
        assert_eq!((count(3, Some(&(3..=12_000))), count(7, None)), (format!("3 to {}", grouped(12_000)), "7".to_owned()));
    }
}
