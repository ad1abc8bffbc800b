//! Puts a trace into the order in which it was recorded where the ring it comes from was resized while it was full:
//! PyTorch then writes the oldest entries into the middle of the list.
//!
//! Always: a trace is moved in a few whole runs, and only where that makes its times rise throughout and leaves fewer
//! contradictions (a block handed out twice or given back twice) than the order it came in.

use crate::model::{Action, EventIdx, Trace};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A ring is resized a few times at most; more steps back in time come from the clock.
const MOST_RUNS: usize = 8;

/// The trace in order of time, with the number of runs it was put together from; none where it stays as it is.
pub(crate) fn in_order(trace: &Trace) -> Option<(Trace, usize)> {
    let runs = rising_runs(trace)?;
    let sorted = merged(trace, &runs)?;
    let better = contradictions(trace, &sorted) < contradictions(trace, &runs);
    better.then(|| {
        let mut ordered = Trace::default();
        for run in &sorted {
            ordered.append(&trace.slice(run.clone()));
        }
        (ordered, sorted.len())
    })
}

/// The runs cut and put one behind another so that times rise; none where that takes too many pieces.
fn merged(trace: &Trace, runs: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
    // An event without a time goes with the one before it.
    let time = |row: usize| trace.time_us(EventIdx(row as u32));
    let mut heads = runs.to_vec();
    let mut pieces = Vec::new();
    loop {
        heads.retain(|run| !run.is_empty());
        heads.sort_by_key(|run| time(run.start));
        let Some(first) = heads.first().cloned() else { return Some(pieces) };
        let until = heads.get(1).and_then(|next| time(next.start));
        let end = first.clone().find(|row| until.is_some_and(|until| time(*row).is_some_and(|at| until < at)));
        let end = end.unwrap_or(first.end);
        pieces.push(first.start..end);
        heads[0].start = end;
        if MOST_RUNS < pieces.len() {
            return None;
        }
    }
}

/// The runs between steps back in time; none where there is one only, or too many to be a ring's doing.
fn rising_runs(trace: &Trace) -> Option<Vec<Range<usize>>> {
    if !trace.has_times() {
        return None;
    }
    let (mut runs, mut start, mut last) = (Vec::new(), 0, None);
    for event in trace.events() {
        let time = trace.time_us(event);
        if time.is_some() && time < last {
            runs.push(start..event.0 as usize);
            start = event.0 as usize;
            if MOST_RUNS <= runs.len() {
                return None;
            }
        }
        last = time.or(last);
    }
    runs.push(start..trace.len());
    (1 < runs.len()).then_some(runs)
}

/// How often a block is handed out while it is live, or given back while it is free, in this order of runs.
fn contradictions(trace: &Trace, runs: &[Range<usize>]) -> u64 {
    let mut live: FxHashMap<u64, bool> = FxHashMap::default();
    let mut found = 0;
    for row in runs.iter().cloned().flatten() {
        let now = match trace.actions()[row] {
            Action::Alloc => true,
            Action::FreeCompleted => false,
            _ => continue,
        };
        found += u64::from(live.insert(trace.addresses()[row], now) == Some(now));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{StackId, StreamId, TraceEntry};

    fn trace_of(rows: &[(Action, u64, i64)]) -> Trace {
        let mut trace = Trace::default();
        for &(action, address, time) in rows {
            trace.push(TraceEntry {
                action,
                address,
                size: 512,
                stream: StreamId::DEFAULT,
                time_us: Some(time),
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        trace
    }

    #[test]
    fn a_resized_ring_is_put_in_order_and_a_clock_set_back_is_not() {
        use Action::{Alloc, FreeCompleted as Free};
        // The newer half of the full ring, its older half, then what was recorded after it was made larger.
        let ring = [(Free, 1, 30), (Alloc, 2, 40), (Alloc, 1, 10), (Free, 2, 20), (Alloc, 1, 50), (Free, 2, 60)];
        let (ordered, runs) = in_order(&trace_of(&ring)).expect("out of order");
        let times: Vec<_> = ordered.events().filter_map(|event| ordered.time_us(event)).collect();
        assert_eq!((runs, times), (3, vec![10, 20, 30, 40, 50, 60]));
        // In order already; a clock set back, where moving would contradict; runs that reach into each other.
        for kept in [
            vec![(Alloc, 1, 10), (Free, 1, 20)],
            vec![(Alloc, 1, 1000), (Free, 1, 1010), (Alloc, 1, 500), (Free, 1, 510)],
            vec![(Alloc, 1, 1000), (Free, 1, 500)],
            vec![(Free, 1, 10), (Alloc, 1, 30), (Alloc, 1, 20), (Free, 1, 40)],
        ] {
            assert!(in_order(&trace_of(&kept)).is_none(), "{kept:?}");
        }
    }
}
