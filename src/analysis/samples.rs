//! How many samples the batch of a step has.
//!
//! Steps whose batches and lengths both differ tell it by their proportions: batches of 16, 4 and 27 samples stand as
//! 16 : 4 : 27, and are taken to be no multiples of that unless the lengths themselves show it. Else the smallest blocks
//! that a step holds for its backward pass tell it: all others are whole multiples of them, and they hold a number for
//! each sample, or one class of 8 bytes where there is one such block alone.
//! Always: what is no count of samples is a count of something finer (tokens, pixels), so that rounding to whole ones is
//! never coarser than what the recording shows.

use crate::analysis::growth::Growth;
use crate::analysis::steps::Steps;
use crate::analysis::workload::Role;
use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, Position};
use rustc_hash::FxHashSet;

/// Numbers of a step rather than of a sample take no more bytes than this.
const SCALAR: u64 = 8;
/// Bytes of a number for each sample.
const NUMBER: u64 = 4;
/// Bytes of a class for each sample.
const CLASS: u64 = 8;
/// No batch has more samples.
const MOST: u128 = 1 << 20;

/// The samples of passes by the proportions of what grows with batch and length; none where length is not told from
/// batch. Passes that are not compared are none.
pub(super) fn by_proportions(
    lives: &Allocations,
    passes: &[Option<&[AllocationId]>],
    places: &[Option<Growth>],
) -> Option<Vec<Option<u64>>> {
    let smallest = |batch: u8, length: u8| {
        let alike = |growth: &Option<Growth>| growth.is_some_and(|growth| (growth.batch, growth.length) == (batch, length));
        let first = passes.iter().flatten().next()?;
        let rows = (0..places.len()).filter(|row| alike(&places[*row]));
        rows.min_by_key(|row| lives.requested()[first[*row].row()])
    };
    let tokens = smallest(1, 1)?;
    let (length, square) = (smallest(0, 1), smallest(1, 2));
    let size = |ids: &[AllocationId], place: usize| u128::from(lives.requested()[ids[place].row()]);
    // Batch by batch and length, over length.
    let batch = |ids: &[AllocationId]| -> Option<(u128, u128)> {
        let tokens = size(ids, tokens);
        match (length, square) {
            (Some(length), _) => Some((tokens, size(ids, length))),
            (None, Some(square)) => Some((tokens.checked_mul(tokens)?, size(ids, square))),
            (None, None) => None,
        }
    };
    let mut compared = passes.iter().flatten();
    let first = batch(compared.next()?)?;
    // In lowest terms against the first, then on one denominator.
    let mut shares: Vec<Option<(u128, u128)>> = Vec::with_capacity(passes.len());
    let mut denominator = 1u128;
    for pass in passes {
        let Some(ids) = pass else {
            shares.push(None);
            continue;
        };
        let (a, b) = lowest(batch(ids)?)?;
        let (c, d) = lowest(first)?;
        let (over, under) = lowest((a.checked_mul(d)?, b.checked_mul(c)?))?;
        denominator = denominator.checked_mul(under / gcd_wide(denominator, under))?;
        if MOST < denominator || MOST < over {
            return None;
        }
        shares.push(Some((over, under)));
    }
    let counts: Vec<Option<u128>> = shares.iter().map(|share| share.map(|(over, under)| over * (denominator / under))).collect();
    let common = counts.iter().flatten().fold(0, |a, b| gcd_wide(a, *b)).max(1);
    // A number for each token, over one for each place: the first batch itself, where both are alike.
    let shown = length.map_or(1, |_| first.0 / first.1.max(1));
    let times = counts.iter().flatten().next().map_or(1, |count| (shown / (count / common).max(1)).max(1));
    let counts = counts.iter().map(|count| count.and_then(|count| u64::try_from(count / common * times).ok()));
    Some(counts.collect())
}

fn lowest((a, b): (u128, u128)) -> Option<(u128, u128)> {
    let common = gcd_wide(a, b);
    (0 < a && 0 < b).then(|| (a / common, b / common))
}

fn gcd_wide(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd_wide(b, a % b) }
}

/// The samples of each step: by proportions where these tell them, else by its smallest blocks.
pub(super) fn of_steps(
    lives: &Allocations,
    steps: &Steps,
    roles: &[Role],
    growth: &[Growth],
    by_proportions: Option<Vec<Option<u64>>>,
) -> Vec<Option<u64>> {
    if let Some(told) = by_proportions {
        return told;
    }
    let older = |id: &AllocationId| lives.born()[id.row()] == Position::START || roles[id.row()] == Role::Parameters;
    let parameters: FxHashSet<u64> = lives.ids().filter(older).map(|id| lives.requested()[id.row()]).chain([0]).collect();
    let any_told = growth.iter().any(|growth| growth.told && growth.batch != 0);
    let mut sizes: Vec<Vec<u64>> = vec![Vec::new(); steps.rows.len()];
    for id in lives.ids() {
        let (row, role, size) = (id.row(), roles[id.row()], lives.requested()[id.row()]);
        let grows = match role {
            Role::Activations => growth[row].batch != 0 && (growth[row].told || !any_told),
            Role::Inputs => true,
            _ => false,
        };
        // What is as large as a parameter is a number for each channel.
        let is_of_samples = SCALAR < size && (any_told || !parameters.contains(&size));
        if let Some(step) = batch_of(lives, steps, role, id).filter(|_| grows && is_of_samples) {
            sizes[step].push(size);
        }
    }
    let count = |sizes: Vec<u64>| {
        let smallest = sizes.iter().copied().min()?;
        let times = sizes.iter().filter(|size| **size == smallest).count();
        let unit = if times == 1 && smallest.is_multiple_of(CLASS) { CLASS } else { NUMBER };
        let divides_all = smallest.is_multiple_of(unit) && sizes.iter().all(|size| size.is_multiple_of(smallest));
        divides_all.then_some(smallest / unit)
    };
    sizes.into_iter().map(count).collect()
}

/// The step whose batch a life is of: that of its birth, or the next one's for an input that was made ahead.
pub(super) fn batch_of(lives: &Allocations, steps: &Steps, role: Role, id: AllocationId) -> Option<usize> {
    let made_first = steps.rows.first().is_some_and(|first| lives.born()[id.row()] <= first.from);
    if role == Role::Inputs && made_first {
        return Some(0);
    }
    let row = steps.at(lives.born()[id.row()])?;
    let ahead = role == Role::Inputs && steps.rows[row].to < lives.freed()[id.row()];
    Some(if ahead && row + 1 < steps.rows.len() { row + 1 } else { row })
}
