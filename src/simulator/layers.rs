//! Passes changed: layers that run again, activations that wait on the host, passes that come several times.
//!
//! Always: what is made again is asked for in the order of its first making, between the recorded requests.

use crate::analysis::{Role, Round, Workload};
use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, EventIdx, Position, StackId};
use crate::simulator::edit::{Edit, scaled};
use crate::simulator::request::{Request, Wanted};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks made after an activation until it is no longer used in the forward pass: its consumer's, and one more.
const USED: usize = 2;
/// A layer's input is the last of so many activations in front of it that is no statistics of another.
const INPUT: usize = 3;
/// What is so many times smaller than an activation is statistics of it.
const STATISTICS: u64 = 16;

fn rounds(workload: &Workload) -> impl Iterator<Item = &Round> {
    workload.steps.rows.iter().flat_map(|step| &step.rounds)
}

fn born_in(lives: &Allocations, from: Position, to: Position) -> impl Iterator<Item = AllocationId> + use<> {
    (lives.born_by(from)..lives.born_by(to)).map(AllocationId::of_row)
}

/// The event in front of the one that led to a position.
fn in_front(position: Position) -> EventIdx {
    EventIdx(position.0.saturating_sub(2))
}

/// In front of the last request that was made before a position.
fn for_last_call(lives: &Allocations, position: Position) -> EventIdx {
    let before = Position(position.0.saturating_sub(1));
    let last = lives.born_by(before).checked_sub(1).map_or(before, |row| lives.born()[row]);
    in_front(last)
}

/// Ends lives that go from a forward pass into its backward pass when they are used, and brings them back for the call
/// that frees them.
pub(super) fn move_out(edit: &mut Edit<'_>, workload: &Workload, chosen: impl Fn(AllocationId) -> bool) {
    let lives = edit.lives;
    for round in rounds(workload) {
        let crossing: Vec<AllocationId> = born_in(lives, round.from, round.turn)
            .filter(|id| chosen(*id) && round.turn < lives.freed()[id.row()] && lives.freed()[id.row()] <= round.to)
            .collect();
        for (place, id) in crossing.iter().enumerate() {
            let used = crossing.get(place + USED).map_or(round.turn, |next| lives.born()[next.row()]);
            let ends = EventIdx(used.0.saturating_sub(1));
            let back = for_last_call(lives, lives.freed()[id.row()]).max(ends);
            let Some(wanted) = edit.wanted(*id).filter(|_| !edit.is_renamed(*id)) else { continue };
            edit.put(ends, Request::Free(*id));
            let again = edit.ask(back, wanted);
            edit.rename_free(*id, again);
        }
    }
    edit.settle();
}

/// Where layers lie in a pass, and how many lives each has.
type Layers = (Range<usize>, usize);

/// A stretch of a forward pass that repeats.
struct Repeats {
    start: usize,
    period: usize,
    times: usize,
}

/// Passes up to this many lives are searched for every period; longer ones for those that equal lives suggest.
const EVERY_PERIOD_UP_TO: usize = 2048;
/// Equal lives behind one whose distances suggest a period: as often as one kind may come in a layer.
const SUGGESTED_BY: usize = 8;
/// Periods that are looked at in a long pass.
const SUGGESTIONS: usize = 64;

/// The longest stretch that repeats with one period.
fn repeats(keys: &[(StackId, u64)]) -> Option<Repeats> {
    if keys.len() <= EVERY_PERIOD_UP_TO {
        return repeats_of(keys, 3..=keys.len() / 2);
    }
    // The distances at which lives are equal, by how often; a layer's own comes once for all but the last layer's lives.
    let mut seen: FxHashMap<(StackId, u64), VecDeque<usize>> = FxHashMap::default();
    let mut distances: FxHashMap<usize, usize> = FxHashMap::default();
    for (place, key) in keys.iter().enumerate() {
        let before = seen.entry(*key).or_default();
        for earlier in before.iter() {
            *distances.entry(place - earlier).or_insert(0) += 1;
        }
        if SUGGESTED_BY <= before.len() {
            before.pop_front();
        }
        before.push_back(place);
    }
    // One kind of block over and over is no layer.
    let mut often: Vec<(usize, usize)> = distances.into_iter().filter(|(distance, _)| 2 < *distance).collect();
    often.sort_unstable_by_key(|(distance, times)| (Reverse(*times), *distance));
    let mut periods: Vec<usize> = often.into_iter().take(SUGGESTIONS).map(|(distance, _)| distance).collect();
    periods.sort_unstable();
    repeats_of(keys, periods)
}

/// The longest stretch that repeats with one of some periods, each above 2, in ascending order.
fn repeats_of(keys: &[(StackId, u64)], periods: impl IntoIterator<Item = usize>) -> Option<Repeats> {
    let mut best: Option<(usize, Repeats)> = None;
    for period in periods.into_iter().filter(|period| *period <= keys.len() / 2) {
        let mut run = 0usize;
        for at in 0..=keys.len() - period {
            if at < keys.len() - period && keys[at] == keys[at + period] {
                run += 1;
                continue;
            }
            let times = run / period + 1;
            let covered = times * period;
            if 2 <= times && best.as_ref().is_none_or(|(most, _)| *most < covered) {
                best = Some((covered, Repeats { start: at - run, period, times }));
            }
            run = 0;
        }
    }
    best.map(|(_, repeats)| repeats)
}

/// Checkpoints each layer that repeats. Gives the most layers a pass has.
pub(super) fn checkpoint(edit: &mut Edit<'_>, workload: &Workload) -> usize {
    let lives = edit.lives;
    let mut most = 0;
    let mut known: FxHashMap<Vec<(StackId, u64)>, Option<Layers>> = FxHashMap::default();
    for round in rounds(workload) {
        let ids: Vec<AllocationId> = born_in(lives, round.from, round.turn)
            .filter(|id| workload.role(*id) != Role::Kept && edit.wanted(*id).is_some())
            .collect();
        let keys: Vec<(StackId, u64)> = ids.iter().map(|id| (lives.stacks()[id.row()], lives.requested()[id.row()])).collect();
        let found = known
            .entry(keys.clone())
            .or_insert_with(|| repeats(&keys).map(|found| (found.start..found.start + found.period * found.times, found.period)));
        let Some((range, period)) = found.clone() else { continue };
        most = most.max(range.len() / period);
        checkpoint_round(edit, workload, round, &ids, range, period);
    }
    edit.settle();
    most
}

fn checkpoint_round(
    edit: &mut Edit<'_>,
    workload: &Workload,
    round: &Round,
    ids: &[AllocationId],
    range: Range<usize>,
    period: usize,
) {
    let lives = edit.lives;
    let freed = |id: AllocationId| lives.freed()[id.row()];
    let crosses = |id: &AllocationId| round.turn < freed(*id) && freed(*id) <= round.to;
    let inputs = inputs(lives, workload, ids, &range, period, crosses);
    for start in range.step_by(period) {
        let layer = &ids[start..start + period];
        let held: Vec<AllocationId> = layer.iter().copied().filter(|id| crosses(id) && !inputs.contains(id)).collect();
        let is_held: FxHashSet<AllocationId> = held.iter().copied().collect();
        let (Some(first), Some(last)) = (held.iter().map(|id| freed(*id)).min(), held.iter().map(|id| freed(*id)).max()) else {
            continue;
        };
        let end = ids.get(start + period).map_or(round.turn, |next| lives.born()[next.row()]);
        for id in &held {
            let ends = if workload.role(*id) == Role::WeightCasts { round.turn } else { end };
            edit.put(EventIdx(ends.0.saturating_sub(2)), Request::Free(*id));
        }
        // The layer runs again in front of the first call of its backward pass.
        let again = for_last_call(lives, first).max(EventIdx(round.turn.0.saturating_sub(1)));
        let mut changes: Vec<(Position, bool, AllocationId)> = Vec::with_capacity(layer.len() * 2);
        for id in layer {
            changes.push((lives.born()[id.row()], true, *id));
            if !is_held.contains(id) && freed(*id) <= end {
                changes.push((freed(*id), false, *id));
            }
        }
        changes.sort_unstable();
        let mut made: FxHashMap<AllocationId, AllocationId> = FxHashMap::default();
        for (_, born, id) in changes {
            if born && let Some(wanted) = edit.wanted(id) {
                made.insert(id, edit.ask(again, wanted));
            } else if let Some(new) = made.remove(&id) {
                edit.put(again, Request::Free(new));
            }
        }
        let mut made: Vec<(AllocationId, AllocationId)> = made.into_iter().collect();
        made.sort_unstable();
        for (old, new) in made {
            if is_held.contains(&old) {
                edit.rename_free(old, new);
            } else {
                // Its output is held while its backward pass runs; other temporaries go with it.
                let goes = if inputs.contains(&old) { EventIdx(last.0.saturating_sub(1)) } else { again };
                edit.put(goes, Request::Free(new));
            }
        }
    }
}

/// The input of each layer, and what the last one gives: the last of the activations in front of it that is no statistics.
fn inputs(
    lives: &Allocations,
    workload: &Workload,
    ids: &[AllocationId],
    range: &Range<usize>,
    period: usize,
    crosses: impl Fn(&AllocationId) -> bool,
) -> FxHashSet<AllocationId> {
    let mut found = FxHashSet::default();
    let mut last: VecDeque<AllocationId> = VecDeque::with_capacity(INPUT + 1);
    for place in 0..=range.end {
        if range.start <= place && (place - range.start).is_multiple_of(period) {
            let size = |id: &AllocationId| lives.requested()[id.row()];
            let largest = last.iter().map(size).max().unwrap_or(0);
            found.extend(last.iter().rev().find(|id| largest <= size(id).saturating_mul(STATISTICS)));
        }
        let Some(id) = ids.get(place).filter(|id| workload.role(**id) == Role::Activations && crosses(id)) else { continue };
        last.push_back(*id);
        if INPUT < last.len() {
            last.pop_front();
        }
    }
    found
}

/// Each pass comes once for each share of its step's batch: gradients stay from the first on. The recorded pass has the
/// size of the first share already.
pub(super) fn accumulate<'s>(edit: &mut Edit<'_>, workload: &Workload, shares_of: impl Fn(usize) -> &'s Vec<f64>) {
    let known = edit.lives.len();
    let role = |id: AllocationId| if id.row() < known { workload.role(id) } else { Role::Unknown };
    let passes = workload.steps.rows.iter().enumerate().flat_map(|(row, step)| step.rounds.iter().map(move |round| (row, round)));
    // What is put behind one round stands in front of the next, so all are copied from what was there before the first.
    let all = edit.requests().to_vec();
    for (row, round) in passes {
        let shares = shares_of(row);
        let (from, to) = (EventIdx(round.from.0), EventIdx(round.to.0.saturating_sub(1)));
        let rows = all.partition_point(|(event, _)| *event < from)..all.partition_point(|(event, _)| *event <= to);
        let pass: Vec<Request> = all[rows].iter().map(|(_, request)| *request).collect();
        for share in shares.iter().skip(1) {
            let smaller = share / shares[0];
            let mut names: FxHashMap<AllocationId, AllocationId> = FxHashMap::default();
            let mut added: Option<AllocationId> = None;
            for request in &pass {
                if let Some(gradient) = added.take() {
                    edit.put(to, Request::Free(gradient));
                }
                match *request {
                    Request::Alloc(life, wanted) if role(life) != Role::Kept && role(life) != Role::OptimizerState => {
                        let grows = workload.growth.get(life.row()).is_some_and(|growth| growth.batch != 0);
                        let size = if grows && smaller < 1.0 { scaled(wanted.size, smaller) } else { wanted.size };
                        let new = edit.ask(to, Wanted { size, ..wanted });
                        if role(life) == Role::Gradients {
                            added = Some(new);
                        } else {
                            names.insert(life, new);
                        }
                    }
                    Request::Free(life) | Request::FreeCompleted(life) | Request::CompletedInRetry(life) => {
                        if let Some(new) = names.remove(&life) {
                            edit.put(to, Request::Free(new));
                        }
                    }
                    Request::Alloc(..)
                    | Request::FreeRequested(_)
                    | Request::Failed(_)
                    | Request::PoolEnds(_)
                    | Request::EmptyCache => {}
                }
            }
            let mut left: Vec<AllocationId> = names.into_values().chain(added).collect();
            left.sort_unstable();
            for life in left {
                edit.put(to, Request::Free(life));
            }
        }
    }
    edit.settle();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A beginning, a layer so many times, an end. Kinds of a layer below `kinds` come again and again in it.
    fn pass(layer: usize, times: usize, kinds: u32) -> Vec<(StackId, u64)> {
        let odd = |size: u64| (StackId(7), size);
        let of_layer = (0..layer).map(|place| (StackId(place as u32 * 31 % kinds), 1 + place as u64 * 7 % u64::from(kinds)));
        let of_layer: Vec<_> = of_layer.collect();
        [(0..5).map(odd).collect(), of_layer.repeat(times), (9..12).map(odd).collect()].concat()
    }

    #[test]
    fn layers_are_found_in_short_and_in_long_passes() {
        for (layer, times, kinds) in
            [(3, 2, 90), (40, 24, 900), (40, 24, 11), (5000, 40, 100_000), (50_000, 4, 9000), (8, 25_000, 90)]
        {
            let keys = pass(layer, times, kinds);
            let found = repeats(&keys).map(|found| (found.start, found.period, found.times));
            // What comes again within a layer may be its period.
            let (start, period, times_found) = found.expect("layers");
            assert!(
                start <= 5 && layer.is_multiple_of(period) && layer * times <= times_found * period + period,
                "{layer} {found:?}"
            );
            assert!(kinds < layer as u32 || (period, times_found) == (layer, times), "{layer} {found:?}");
        }
        // Nothing repeats, or one kind over and over.
        assert!(repeats(&(0..200_000).map(|size| (StackId(1), size)).collect::<Vec<_>>()).is_none());
        assert!(repeats(&pass(1, 2, 90)).is_none());
    }

    #[test]
    fn a_long_pass_is_searched_as_a_short_one() {
        for (layer, times, kinds) in [(37, 3, 90), (37, 40, 12), (300, 5, 40), (9, 100, 90), (20, 60, 5)] {
            let keys = pass(layer, times, kinds);
            let every = repeats_of(&keys, 3..=keys.len() / 2).map(|found| (found.start, found.period, found.times));
            // Another, longer pass behind it that repeats nothing.
            let longer: Vec<_> = keys.iter().copied().chain((0..3000).map(|size| (StackId(8), 1000 + size))).collect();
            assert_eq!(repeats(&longer).map(|found| (found.start, found.period, found.times)), every, "{layer} {times} {kinds}");
        }
    }
}
