//! A step curve over positions with its maxima at every scale.
//!
//! Always: the curve holds from a position until the next change; the pyramid gives the exact maximum
//! over any range of positions, and the first position that reaches it, in logarithmic time.

use crate::base::HeapSize;
use crate::model::Position;

/// A value at every position `0..=n`, stored densely or as changes, whichever is smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Positions of changes, ascending, the first at 0; empty when dense.
    changes: Vec<u32>,
    /// One value a change, or one a position when dense.
    values: Vec<u64>,
    /// Row of the maximum of each run of 16 rows of the level below; level 0 over `values`.
    pyramid: Vec<Vec<u32>>,
    /// The last position.
    last: u32,
}

const FAN: usize = 16;

impl Curve {
    /// A curve from the change of its value at each position; `deltas[0]` is its value at the start.
    /// Sums below zero (contradictory input) are floored at zero.
    pub fn from_deltas(deltas: &[i64]) -> Curve {
        let last = deltas.len().saturating_sub(1) as u32;
        let changing = deltas.iter().skip(1).filter(|delta| **delta != 0).count();
        let dense = deltas.len() < 3 * changing;
        let (mut changes, mut values) = (Vec::new(), Vec::new());
        if dense {
            values.reserve_exact(deltas.len());
        }
        let mut sum = 0i128;
        for (position, delta) in deltas.iter().enumerate() {
            sum += i128::from(*delta);
            if dense || position == 0 || *delta != 0 {
                if !dense {
                    changes.push(position as u32);
                }
                values.push(u64::try_from(sum.max(0)).unwrap_or(u64::MAX));
            }
        }
        let mut curve = Curve { changes, values, pyramid: Vec::new(), last };
        curve.build_pyramid();
        curve
    }
    /// The last position.
    pub fn last(&self) -> Position {
        Position(self.last)
    }
    /// The value at a position; beyond the end the last one.
    pub fn at(&self, position: Position) -> u64 {
        self.values.get(self.row_of(position.0)).copied().unwrap_or(0)
    }
    /// The maximum over positions `from..to` (at least `from` itself) and the first position that reaches it.
    pub fn max_in(&self, from: Position, to: Position) -> (Position, u64) {
        if self.values.is_empty() {
            return (from, 0);
        }
        let first = self.row_of(from.0);
        let end = self.row_of(to.0.saturating_sub(1).max(from.0)) + 1;
        let row = self.max_row(first, end);
        (Position(self.position_of(row).max(from.0.min(self.last))), self.values[row])
    }
    /// The maximum of all and the first position that reaches it.
    pub fn peak(&self) -> (Position, u64) {
        self.max_in(Position::START, Position(self.last.saturating_add(1)))
    }
    /// The minimum over positions `from..to`; walks the rows, so meant for narrow ranges or few changes.
    pub fn min_in(&self, from: Position, to: Position) -> u64 {
        let first = self.row_of(from.0);
        let end = self.row_of(to.0.saturating_sub(1).max(from.0)) + 1;
        self.values.get(first..end).and_then(|values| values.iter().min()).copied().unwrap_or(0)
    }
    /// Changes inside positions `from..to`, as (position, value), the one that holds at `from` first.
    pub fn steps(&self, from: Position, to: Position) -> impl Iterator<Item = (Position, u64)> + '_ {
        let first = self.row_of(from.0);
        let end = if self.values.is_empty() { first } else { self.row_of(to.0.saturating_sub(1).max(from.0)) + 1 };
        (first..end).map(move |row| (Position(self.position_of(row).max(from.0)), self.values[row]))
    }

    fn row_of(&self, position: u32) -> usize {
        let position = position.min(self.last);
        if self.changes.is_empty() {
            position as usize
        } else {
            self.changes.partition_point(|change| *change <= position).saturating_sub(1)
        }
    }
    fn position_of(&self, row: usize) -> u32 {
        if self.changes.is_empty() { row as u32 } else { self.changes[row] }
    }
    fn build_pyramid(&mut self) {
        let mut below: Vec<u32> = (0..self.values.len() as u32).collect();
        while FAN < below.len() {
            below = below.chunks(FAN).map(|run| self.first_max(run.iter().copied())).collect();
            self.pyramid.push(below.clone());
        }
    }
    fn first_max(&self, rows: impl Iterator<Item = u32>) -> u32 {
        let mut best: Option<u32> = None;
        for row in rows {
            if best.is_none_or(|best| self.values[best as usize] < self.values[row as usize]) {
                best = Some(row);
            }
        }
        best.unwrap_or(0)
    }
    fn max_row(&self, first: usize, end: usize) -> usize {
        // Climb while both ends can be made whole runs. What sticks out on the left comes later at each level, what
        // sticks out on the right earlier; a picture asks this thousands of times a frame, so nothing is collected.
        let (mut left, mut right): (Option<u32>, Option<u32>) = (None, None);
        let beats = |row: u32, best: Option<u32>| best.is_none_or(|best| self.values[best as usize] < self.values[row as usize]);
        let (mut from, mut to) = (first, end);
        let mut level = 0;
        loop {
            let row_at = |i: usize| if level == 0 { i as u32 } else { self.pyramid[level - 1][i] };
            let (from_up, to_up) = (from.div_ceil(FAN), to / FAN);
            let last = level == self.pyramid.len() || to_up <= from_up;
            for row in (from..if last { to } else { from_up * FAN }).map(row_at) {
                if beats(row, left) {
                    left = Some(row);
                }
            }
            if last {
                break;
            }
            if to_up * FAN < to {
                let outer = self.first_max((to_up * FAN..to).map(row_at));
                if right.is_none_or(|best| self.values[best as usize] <= self.values[outer as usize]) {
                    right = Some(outer);
                }
            }
            (from, to) = (from_up, to_up);
            level += 1;
        }
        right.filter(|right| beats(*right, left)).or(left).unwrap_or(0) as usize
    }
}

impl HeapSize for Curve {
    fn heap_size(&self) -> usize {
        self.changes.capacity() * 4
            + self.values.capacity() * 8
            + self.pyramid.iter().map(|level| level.capacity() * 4).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pyramid_equals_the_naive_maximum() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for sparse in [1, 2, 40] {
            let deltas: Vec<i64> = (0..3000).map(|_| if next(sparse) == 0 { next(9) as i64 - 4 } else { 0 }).collect();
            let curve = Curve::from_deltas(&deltas);
            let mut sum = 0i64;
            let naive: Vec<u64> = deltas
                .iter()
                .map(|d| {
                    sum += d;
                    sum.max(0) as u64
                })
                .collect();
            for _ in 0..2000 {
                let from = next(3000) as usize;
                let to = from + 1 + next(3000 - from as u64) as usize;
                let max = *naive[from..to].iter().max().expect("not empty");
                let first = from + naive[from..to].iter().position(|v| *v == max).expect("there");
                assert_eq!(curve.max_in(Position(from as u32), Position(to as u32)), (Position(first as u32), max));
                assert_eq!(curve.at(Position(from as u32)), naive[from]);
            }
            assert_eq!(curve.peak().1, *naive.iter().max().expect("not empty"));
        }
    }
}
