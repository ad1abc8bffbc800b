//! Passes changed: layers that run again, activations that wait on the host, passes that come several times.
//!
//! Always: what is made again is asked for in the order of its first making, between the recorded requests.

use crate::analysis::{Role, Round, Workload};
use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, EventIdx, Position, StackId};
use crate::simulator::edit::Edit;
use crate::simulator::request::Request;
use rustc_hash::{FxHashMap, FxHashSet};
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

/// The longest stretch that repeats with one period.
fn repeats(keys: &[(StackId, u64)]) -> Option<Repeats> {
    let mut best: Option<(usize, Repeats)> = None;
    for period in 1..=keys.len() / 2 {
        let mut run = 0usize;
        for at in 0..=keys.len() - period {
            if at < keys.len() - period && keys[at] == keys[at + period] {
                run += 1;
                continue;
            }
            let times = run / period + 1;
            let covered = times * period;
            // One kind of block over and over is no layer.
            if 2 <= times && 2 < period && best.as_ref().is_none_or(|(most, _)| *most < covered) {
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
    let inputs: FxHashSet<AllocationId> = range
        .clone()
        .step_by(period)
        .chain([range.end])
        .filter_map(|start| {
            let before = ids[..start].iter().rev().filter(|id| workload.role(**id) == Role::Activations && crosses(id));
            let last: Vec<AllocationId> = before.take(INPUT).copied().collect();
            let largest = last.iter().map(|id| lives.requested()[id.row()]).max()?;
            last.into_iter().find(|id| largest <= lives.requested()[id.row()].saturating_mul(STATISTICS))
        })
        .collect();
    for start in range.step_by(period) {
        let layer = &ids[start..start + period];
        let held: Vec<AllocationId> = layer.iter().copied().filter(|id| crosses(id) && !inputs.contains(id)).collect();
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
            if !held.contains(id) && freed(*id) <= end {
                changes.push((freed(*id), false, *id));
            }
        }
        changes.sort_unstable();
        let mut made: Vec<(AllocationId, AllocationId)> = Vec::with_capacity(layer.len());
        for (_, born, id) in changes {
            if born && let Some(wanted) = edit.wanted(id) {
                made.push((id, edit.ask(again, wanted)));
            } else if let Some(place) = made.iter().position(|(old, _)| *old == id) {
                let (_, new) = made.swap_remove(place);
                edit.put(again, Request::Free(new));
            }
        }
        for (old, new) in made {
            if held.contains(&old) {
                edit.rename_free(old, new);
            } else {
                // Its output is held while its backward pass runs; other temporaries go with it.
                let goes = if inputs.contains(&old) { EventIdx(last.0.saturating_sub(1)) } else { again };
                edit.put(goes, Request::Free(new));
            }
        }
    }
}

/// Each pass comes so many times: gradients stay from the first on.
pub(super) fn accumulate(edit: &mut Edit<'_>, workload: &Workload, parts: u32) {
    let known = edit.lives.len();
    let role = |id: AllocationId| if id.row() < known { workload.role(id) } else { Role::Unknown };
    for round in rounds(workload) {
        let (from, to) = (EventIdx(round.from.0), EventIdx(round.to.0.saturating_sub(1)));
        let all = edit.requests();
        let rows = all.partition_point(|(event, _)| *event < from)..all.partition_point(|(event, _)| *event <= to);
        let pass: Vec<Request> = all[rows].iter().map(|(_, request)| *request).collect();
        for _ in 1..parts {
            let mut names: FxHashMap<AllocationId, AllocationId> = FxHashMap::default();
            let mut added: Option<AllocationId> = None;
            for request in &pass {
                if let Some(gradient) = added.take() {
                    edit.put(to, Request::Free(gradient));
                }
                match *request {
                    Request::Alloc(life, wanted) if role(life) != Role::Kept && role(life) != Role::OptimizerState => {
                        let new = edit.ask(to, wanted);
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
