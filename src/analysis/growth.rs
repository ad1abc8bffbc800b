//! How a life grows with the batch and with the length of its sequences.
//!
//! Steps of different shapes in one recording tell it: lives at the same place of each step whose sizes stand in the same
//! proportions grow alike, and the proportions multiply: what grows with batch × length², say, is as many times larger than
//! what grows with batch × length as the length is. Where all steps have one shape, roles and sizes decide, which is an
//! assumption ([`Told::shapes`] is 1 then).
//! Always: parameters, their state, their gradients and casts do not grow.

use crate::analysis::samples;
use crate::analysis::steps::{Step, StepWay, Steps};
use crate::analysis::workload::Role;
use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, Position, StackId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// The powers a life's size grows with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Of the batch: 0 or 1.
    pub batch: u8,
    /// Of the length: 0, 1 or 2.
    pub length: u8,
    /// Steps of different shapes told it.
    pub told: bool,
}

impl Growth {
    const FIXED: Growth = Growth { batch: 0, length: 0, told: false };
    const TOKENS: Growth = Growth { batch: 1, length: 1, told: false };
    const SQUARE: Growth = Growth { batch: 1, length: 2, told: false };
}

/// How the growth is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Steps of different shapes that were compared.
    pub shapes: usize,
    /// Whether they tell length from batch.
    pub length: bool,
    /// Whether what differs between them is one measure alone, batch or length.
    pub one_measure: bool,
    /// Bytes, over all lives that grow by assumption alone with the square of the length.
    pub guessed_square: u64,
}

/// Most steps that are compared: more tell no more.
const COMPARED: usize = 16;
/// A vector of parameters takes no more bytes than this.
const VECTOR: u64 = 1 << 17;
/// No layer of a model is narrower than this.
const NARROW: u64 = 16;
/// Births between a gradient as it is computed and as it is kept.
const NEAR: usize = 4;
/// Two logarithms closer than this are one: sizes are whole numbers.
const SAME: f64 = 1e-6;

/// The lives of a step that come again in each, of its forward passes and of its backward passes.
fn sequences(lives: &Allocations, roles: &[Role], step: &Step) -> [Vec<AllocationId>; 2] {
    let end = step.rounds.last().map_or(step.to, |round| round.to);
    let again = |id: &AllocationId| !matches!(roles[id.row()], Role::Kept | Role::OptimizerState | Role::Unknown);
    let is_backward = |born: Position| step.rounds.iter().any(|round| round.turn < born && born <= round.to);
    (lives.born_by(step.from)..lives.born_by(end)).map(AllocationId::of_row).filter(again).fold(
        [Vec::new(), Vec::new()],
        |mut passes, id| {
            passes[usize::from(is_backward(lives.born()[id.row()]))].push(id);
            passes
        },
    )
}

/// How each life grows, how that is known, and the samples of each step where they are told.
pub(super) fn growths(lives: &Allocations, steps: &Steps, roles: &[Role]) -> (Vec<Growth>, Told, Vec<Option<u64>>) {
    let mut growth = by_role(lives, roles);
    let mut told = Told::default();
    let mut batches = None;
    let mut passes: Vec<[Vec<AllocationId>; 2]> = steps.rows.iter().map(|step| sequences(lives, roles, step)).collect();
    // Where memory alone tells the passes apart, they meet at another place in each step.
    if steps.way == Some(StepWay::LowWater) {
        for [forward, backward] in &mut passes {
            forward.append(backward);
        }
    }
    for pass in 0..2 {
        let of_pass: Vec<(&Vec<AllocationId>, bool)> =
            passes.iter().zip(&steps.rows).map(|(passes, step)| (&passes[pass], step.complete)).collect();
        let (now, found) = compare(lives, &of_pass, &mut growth);
        told.shapes = told.shapes.max(now.shapes);
        told.length |= now.length;
        told.one_measure |= now.one_measure;
        // The pass that tells the samples of most steps.
        let known = |batches: &Option<Vec<Option<u64>>>| batches.as_ref().map_or(0, |all| all.iter().flatten().count());
        if known(&batches) < known(&found) {
            batches = found;
        }
    }
    told.one_measure &= !told.length;
    if !told.length {
        for step in &steps.rows {
            let ids = lives.born_by(step.from)..lives.born_by(step.to);
            told.guessed_square = told.guessed_square.saturating_add(guess_squares(lives, roles, ids, &mut growth));
        }
    }
    for [forward, backward] in &passes {
        by_size(lives, roles, forward, backward, &mut growth);
    }
    let samples = samples::of_steps(lives, steps, roles, &growth, batches);
    (growth, told, samples)
}

/// What of a backward pass is as large as something of its forward pass grows like it, unless more is known of it.
fn by_size(lives: &Allocations, roles: &[Role], forward: &[AllocationId], backward: &[AllocationId], growth: &mut [Growth]) {
    let mut known: FxHashMap<u64, Growth> = FxHashMap::default();
    for id in forward.iter().filter(|id| growth[id.row()].batch != 0) {
        known.entry(lives.requested()[id.row()]).or_insert(growth[id.row()]);
    }
    for id in backward {
        let row = id.row();
        if roles[row] == Role::BackwardTemporaries
            && !growth[row].told
            && growth[row] != Growth::FIXED
            && let Some(alike) = known.get(&lives.requested()[row])
        {
            growth[row] = *alike;
        }
    }
}

/// Compares a pass over the steps: those with as many lives as most have, and the others by their stacks.
/// Gives, besides, how many samples each of the passes has, where length is told from batch.
fn compare(
    lives: &Allocations,
    passes: &[(&Vec<AllocationId>, bool)],
    growth: &mut [Growth],
) -> (Told, Option<Vec<Option<u64>>>) {
    let mut lengths: FxHashMap<usize, FxHashSet<u128>> = FxHashMap::default();
    let shape = |ids: &[AllocationId]| ids.iter().map(|id| u128::from(lives.requested()[id.row()])).sum::<u128>();
    for (ids, _) in passes.iter().filter(|(ids, complete)| *complete && !ids.is_empty()) {
        lengths.entry(ids.len()).or_default().insert(shape(ids));
    }
    let usual = lengths.iter().max_by_key(|(length, shapes)| (shapes.len(), **length)).map_or(0, |(length, _)| *length);
    let alike: Vec<&Vec<AllocationId>> =
        passes.iter().map(|(ids, _)| *ids).filter(|ids| ids.len() == usual && 0 < usual).collect();
    // Of steps of one shape one will do.
    let mut shapes = FxHashSet::default();
    let compared: Vec<&Vec<AllocationId>> =
        alike.iter().copied().filter(|ids| shapes.insert(shape(ids))).take(COMPARED).collect();
    let mut told = Told { shapes: compared.len(), ..Told::default() };
    if compared.len() < 2 {
        return (told, None);
    }
    let places = places(lives, &compared, &mut told);
    let like_usual: Vec<Option<&[AllocationId]>> =
        passes.iter().map(|(ids, _)| (ids.len() == usual).then_some(ids.as_slice())).collect();
    let batches = samples::by_proportions(lives, &like_usual, &places);
    for ids in &alike {
        for (id, place) in ids.iter().zip(&places) {
            if let Some(place) = place {
                growth[id.row()] = *place;
            }
        }
    }
    // A step of another make: what comes from the same stack for the same time grows alike.
    let mut known: FxHashMap<_, Vec<Option<Growth>>> = FxHashMap::default();
    for (id, place) in compared[0].iter().zip(&places) {
        known.entry(lives.stacks()[id.row()]).or_default().push(*place);
    }
    for (ids, _) in passes.iter().filter(|(ids, _)| ids.len() != usual) {
        let mut uses: FxHashMap<_, usize> = FxHashMap::default();
        for id in *ids {
            let stack = lives.stacks()[id.row()];
            let use_number = uses.entry(stack).or_insert(0);
            let place = known.get(&stack).and_then(|places| places.get(*use_number)).copied().flatten();
            *use_number += 1;
            if let Some(place) = place
                && stack != StackId::EMPTY
                && stack != StackId::ABSENT
            {
                growth[id.row()] = place;
            }
        }
    }
    (told, batches)
}

/// What a role grows with where nothing else is known.
fn by_role(lives: &Allocations, roles: &[Role]) -> Vec<Growth> {
    let mut growth: Vec<Growth> = roles
        .iter()
        .map(|role| match role {
            Role::Activations | Role::Inputs | Role::ForwardTemporaries | Role::BackwardTemporaries => Growth::TOKENS,
            Role::Parameters
            | Role::OptimizerState
            | Role::Gradients
            | Role::WeightCasts
            | Role::OptimizerTemporaries
            | Role::Kept
            | Role::Unknown => Growth::FIXED,
        })
        .collect();
    // A gradient in fewer bits, or in another layout, stands just in front of the gradient it becomes.
    for id in lives.ids().filter(|id| roles[id.row()] == Role::Gradients) {
        let size = lives.requested()[id.row()];
        for row in (id.row().saturating_sub(NEAR)..id.row()).rev() {
            let earlier = lives.requested()[row];
            let meets = lives.born()[id.row()] <= lives.freed()[row];
            if roles[row] == Role::BackwardTemporaries && meets && (earlier == size || earlier.saturating_mul(2) == size) {
                growth[row] = Growth::FIXED;
                break;
            }
        }
    }
    growth
}

/// The growth at each place of the steps that are compared; none where their sizes stand in no such proportion.
fn places(lives: &Allocations, compared: &[&Vec<AllocationId>], told: &mut Told) -> Vec<Option<Growth>> {
    let length = compared[0].len();
    let sizes = |place: usize| compared.iter().map(move |ids| lives.requested()[ids[place].row()]);
    // Proportions in lowest terms, each with the number of places that have it.
    let mut classes: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
    let class: Vec<Vec<u64>> = (0..length)
        .map(|place| {
            let divisor = sizes(place).fold(0, gcd).max(1);
            let proportions: Vec<u64> = sizes(place).map(|size| size / divisor).collect();
            *classes.entry(proportions.clone()).or_insert(0) += 1;
            proportions
        })
        .collect();
    let moves = |proportions: &[u64]| proportions.iter().any(|one| *one != proportions[0]);
    let mut moving: Vec<(&Vec<u64>, usize)> =
        classes.iter().filter(|(proportions, _)| moves(proportions)).map(|(proportions, count)| (proportions, *count)).collect();
    moving.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let Some((tokens, _)) = moving.first() else { return vec![Some(Growth { told: true, ..Growth::FIXED }); length] };
    let log = |proportions: &[u64]| -> Vec<f64> {
        let first = proportions[0].max(1) as f64;
        proportions.iter().map(|one| ((*one).max(1) as f64 / first).ln()).collect()
    };
    let t = log(tokens);
    let combine = |a: f64, x: &[f64], b: f64, y: &[f64]| -> Vec<f64> { x.iter().zip(y).map(|(x, y)| a * x + b * y).collect() };
    let same = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| (x - y).abs() < SAME);
    let zero = vec![0.0; t.len()];
    // What each length would explain: batch × length, batch × length², length, batch, length².
    let kinds = |s: &[f64]| -> [(Vec<f64>, Growth); 6] {
        [
            (zero.clone(), Growth::FIXED),
            (t.clone(), Growth::TOKENS),
            (combine(1.0, &t, 1.0, s), Growth::SQUARE),
            (s.to_vec(), Growth { batch: 0, length: 1, told: true }),
            (combine(1.0, &t, -1.0, s), Growth { batch: 1, length: 0, told: true }),
            (combine(2.0, s, 0.0, s), Growth { batch: 0, length: 2, told: true }),
        ]
    };
    let all: usize = moving.iter().map(|row| row.1).sum();
    let mut best: Option<(usize, Vec<f64>)> = None;
    for (other, _) in moving.iter().skip(1) {
        let c = log(other);
        for s in [combine(1.0, &c, -1.0, &t), combine(1.0, &t, -1.0, &c), c] {
            let known = kinds(&s);
            let explained = || moving.iter().filter(|(one, _)| known.iter().any(|(kind, _)| same(kind, &log(one))));
            let (explains, others) = (explained().map(|row| row.1).sum::<usize>(), explained().count() - 1);
            // A workspace of a library explains itself as well: a length is told by two kinds of blocks that agree on it, or
            // by one that is all there is besides, over steps enough to see that it is no workspace.
            let agreed = 2 <= others || (3 <= t.len() && all <= explains && !is_affine(tokens, other));
            if agreed && !same(&s, &zero) && best.as_ref().is_none_or(|(most, _)| *most < explains) {
                best = Some((explains, s));
            }
        }
    }
    told.length = best.is_some();
    told.one_measure = best.is_none();
    let known: Vec<(Vec<f64>, Growth)> = match &best {
        Some((_, s)) => kinds(s).to_vec(),
        None => vec![(zero.clone(), Growth::FIXED), (t.clone(), Growth::TOKENS)],
    };
    let explained: FxHashMap<&Vec<u64>, Option<Growth>> = classes
        .keys()
        .map(|one| {
            let found = known.iter().find(|(kind, _)| same(kind, &log(one)));
            (one, found.map(|(_, growth)| Growth { told: true, ..*growth }))
        })
        .collect();
    class.iter().map(|one| explained.get(one).copied().flatten()).collect()
}

/// Whether proportions are a fixed part and one that goes with others, as a library's workspace is.
fn is_affine(with: &[u64], of: &[u64]) -> bool {
    let at = |row: usize| (i128::from(with[row]), i128::from(of[row]));
    let (x, y) = at(0);
    let Some((x1, y1)) = (1..with.len()).map(at).find(|(other, _)| *other != x) else { return false };
    let on_line = (1..with.len()).map(at).all(|(x2, y2)| (y2 - y) * (x1 - x) == (y1 - y) * (x2 - x));
    on_line && y * (x1 - x) != x * (y1 - y)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Which activations and temporaries may grow with the square of the length, where all steps have one length: those that
/// are no whole multiple of a width of the model for each token, and no smaller than the usual ones. Gives their bytes.
fn guess_squares(lives: &Allocations, roles: &[Role], step: Range<usize>, growth: &mut [Growth]) -> u64 {
    let sizes_of = |rows: Range<usize>, wanted: Role| {
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for id in rows.map(AllocationId::of_row).filter(|id| roles[id.row()] == wanted) {
            *counts.entry(lives.requested()[id.row()]).or_insert(0) += 1;
        }
        let mut counts: Vec<(u64, usize)> = counts.into_iter().filter(|(size, _)| 0 < *size).collect();
        counts.sort_unstable();
        counts
    };
    let parameters = sizes_of(0..step.start, Role::Parameters);
    let activations = sizes_of(step.clone(), Role::Activations);
    // Widths in bytes for each token: those of vectors, and what matrices over vectors are wide.
    let mut widths: FxHashSet<u64> = FxHashSet::default();
    for (size, _) in &parameters {
        for (other, _) in parameters.iter().filter(|(other, _)| *other <= VECTOR) {
            let width = size / other;
            if size.is_multiple_of(*other) && NARROW <= width {
                widths.extend([width, width * 2, width * 4]);
            }
        }
        if *size <= VECTOR {
            widths.extend([*size, size / 2, size / 4]);
        }
    }
    // One number, and one index, for each token.
    widths.extend([4, 8]);
    let mut candidates: FxHashSet<u64> = FxHashSet::default();
    for (size, _) in &activations {
        candidates.extend(widths.iter().filter(|width| 0 < **width && size.is_multiple_of(**width)).map(|width| size / width));
    }
    let explains = |tokens: u64, size: u64| size.is_multiple_of(tokens) && widths.contains(&(size / tokens));
    let score = |tokens: u64| activations.iter().filter(|(size, _)| explains(tokens, *size)).map(|row| row.1).sum::<usize>();
    let Some(tokens) = candidates.into_iter().filter(|tokens| 1 < *tokens).max_by_key(|tokens| (score(*tokens), *tokens)) else {
        return 0;
    };
    let usual =
        activations.iter().filter(|(size, _)| explains(tokens, *size)).max_by_key(|row| (row.1, row.0)).map_or(0, |row| row.0);
    let mut guessed = 0u64;
    for row in step {
        let growth = &mut growth[row];
        let size = lives.requested()[row];
        let grows =
            0 < growth.batch && matches!(roles[row], Role::Activations | Role::ForwardTemporaries | Role::BackwardTemporaries);
        if grows && usual <= size && 0 < usual && !explains(tokens, size) {
            *growth = Growth { told: growth.told, ..Growth::SQUARE };
            guessed = guessed.saturating_add(size);
        }
    }
    guessed
}
