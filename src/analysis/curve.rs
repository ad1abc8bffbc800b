//! A step curve over positions with its maxima and minima at every scale.
//!
//! Always: the curve holds from a position until the next change; the pyramids give the exact maximum and
//! minimum over any range of positions, and the first position that reaches the maximum, in logarithmic time.

use crate::base::HeapSize;
use crate::model::Position;

/// A value at every position `0..=n`, stored densely or as changes, whichever is smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Positions of changes, ascending, the first at 0; empty when dense.
    changes: Vec<u32>,
    /// One value a change, or one a position when dense.
    rows: Rows,
    /// The last position.
    last: u32,
}

const FAN: usize = 16;

/// The values of a curve. Blocks and segments come in multiples of a power of two, and counts are small: most curves
/// fit in half the bytes once their common power of two is taken out. Order is the same either way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rows {
    /// Each value is `narrow << shift`.
    Narrow { levels: Levels<u32>, shift: u32 },
    /// As they are.
    Wide(Levels<u64>),
}

impl Default for Rows {
    fn default() -> Self {
        Rows::Narrow { levels: Levels::default(), shift: 0 }
    }
}

impl Rows {
    fn of(values: Vec<u64>) -> Rows {
        let bits = values.iter().fold(0, |bits, value| bits | value);
        let shift = if bits == 0 { 0 } else { bits.trailing_zeros() };
        if bits >> shift <= u64::from(u32::MAX) {
            // Allocated to measure: the iterator's length is known.
            let narrow = values.iter().map(|value| (value >> shift) as u32).collect();
            return Rows::Narrow { levels: Levels::of(narrow), shift };
        }
        Rows::Wide(Levels::of(values))
    }
    fn len(&self) -> usize {
        match self {
            Rows::Narrow { levels, .. } => levels.values.len(),
            Rows::Wide(levels) => levels.values.len(),
        }
    }
    fn get(&self, row: usize) -> u64 {
        match self {
            Rows::Narrow { levels, shift } => levels.values.get(row).map_or(0, |value| u64::from(*value) << shift),
            Rows::Wide(levels) => levels.values.get(row).copied().unwrap_or(0),
        }
    }
    /// The first row of the highest value of rows `first..end`, and the value.
    fn highest(&self, first: usize, end: usize) -> (usize, u64) {
        match self {
            Rows::Narrow { levels, shift } => {
                let (row, value) = levels.highest(first, end);
                (row, u64::from(value) << shift)
            }
            Rows::Wide(levels) => levels.highest(first, end),
        }
    }
    /// The lowest value of rows `first..end`.
    fn lowest(&self, first: usize, end: usize) -> u64 {
        match self {
            Rows::Narrow { levels, shift } => u64::from(levels.lowest(first, end)) << shift,
            Rows::Wide(levels) => levels.lowest(first, end),
        }
    }
}

/// Values with their maxima and minima at every scale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Levels<V> {
    values: Vec<V>,
    /// Maxima of each run of 16 rows of the level below; the first level over `values`.
    highs: Vec<Highs<V>>,
    /// Minima likewise.
    lows: Vec<Vec<V>>,
}

/// One level of maxima. Values stand beside their rows: a frame asks for thousands of ranges, and one cache line
/// then answers for many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Highs<V> {
    /// The first row that reaches each maximum.
    rows: Vec<u32>,
    values: Vec<V>,
}

/// What a curve does over a range of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The lowest value.
    pub low: u64,
    /// The highest value.
    pub high: u64,
    /// The first position that reaches it.
    pub high_at: Position,
    /// The value at the last position of the range.
    pub last: u64,
}

impl Curve {
    /// A curve from the change of its value at each position; `deltas[0]` is its value at the start.
    /// Sums below zero (contradictory input) are floored at zero.
    pub fn from_deltas<D: Copy + Default + PartialEq + Into<i128>>(deltas: &[D]) -> Curve {
        let last = deltas.len().saturating_sub(1) as u32;
        let changing = deltas.iter().skip(1).filter(|delta| **delta != D::default()).count();
        let dense = deltas.len() < 3 * changing;
        let (mut changes, mut values) = (Vec::new(), Vec::new());
        if dense {
            values.reserve_exact(deltas.len());
        }
        let mut sum = 0i128;
        for (position, delta) in deltas.iter().enumerate() {
            sum += (*delta).into();
            if dense || position == 0 || *delta != D::default() {
                if !dense {
                    changes.push(position as u32);
                }
                values.push(u64::try_from(sum.max(0)).unwrap_or(u64::MAX));
            }
        }
        Curve { changes, rows: Rows::of(values), last }
    }
    /// A curve from its changes, as (position, value), positions ascending; it ends at `last`. Where no change
    /// stands at the start it is zero until the first; a change beyond `last` is left out.
    pub fn from_changes(mut changes: Vec<u32>, mut values: Vec<u64>, last: Position) -> Curve {
        let known = changes.partition_point(|position| *position <= last.0).min(values.len());
        changes.truncate(known);
        values.truncate(known);
        if changes.first() != Some(&0) {
            changes.insert(0, 0);
            values.insert(0, 0);
        }
        let slots = last.0 as usize + 1;
        if slots < 3 * (changes.len() - 1) {
            let mut dense = Vec::with_capacity(slots);
            let ends = changes.iter().skip(1).map(|end| *end as usize).chain([slots]);
            for (value, end) in values.iter().zip(ends) {
                dense.resize(end, *value);
            }
            (changes, values) = (Vec::new(), dense);
        }
        changes.shrink_to_fit();
        values.shrink_to_fit();
        Curve { changes, rows: Rows::of(values), last: last.0 }
    }
    /// The last position.
    pub fn last(&self) -> Position {
        Position(self.last)
    }
    /// The value at a position; beyond the end the last one.
    pub fn at(&self, position: Position) -> u64 {
        self.rows.get(self.row_of(position.0))
    }
    /// The maximum over positions `from..to` (at least `from` itself) and the first position that reaches it.
    pub fn max_in(&self, from: Position, to: Position) -> (Position, u64) {
        if self.is_empty() {
            return (from, 0);
        }
        let first = self.row_of(from.0);
        let end = self.row_of(to.0.saturating_sub(1).max(from.0)) + 1;
        let (row, value) = self.rows.highest(first, end);
        (Position(self.position_of(row).max(from.0.min(self.last))), value)
    }
    /// The maximum of all and the first position that reaches it.
    pub fn peak(&self) -> (Position, u64) {
        self.max_in(Position::START, Position(self.last.saturating_add(1)))
    }
    /// The minimum over positions `from..to` (at least `from` itself).
    pub fn min_in(&self, from: Position, to: Position) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let first = self.row_of(from.0);
        let end = self.row_of(to.0.saturating_sub(1).max(from.0)) + 1;
        self.rows.lowest(first, end)
    }
    /// Lowest, highest and last value over positions `from..to` (at least `from` itself) in one go.
    pub fn extremes_in(&self, from: Position, to: Position) -> Extremes {
        if self.is_empty() {
            return Extremes { high_at: from, ..Extremes::default() };
        }
        let first = self.row_of(from.0);
        let end = self.row_of(to.0.saturating_sub(1).max(from.0)) + 1;
        let (row, high) = self.rows.highest(first, end);
        let high_at = Position(self.position_of(row).max(from.0.min(self.last)));
        Extremes { low: self.rows.lowest(first, end), high, high_at, last: self.rows.get(end - 1) }
    }
    /// Number of rows: changes, or positions where it is stored densely.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }
    /// Changes inside positions `from..to`, as (position, value), the one that holds at `from` first.
    pub fn steps(&self, from: Position, to: Position) -> impl Iterator<Item = (Position, u64)> + '_ {
        let first = self.row_of(from.0);
        let end = if self.is_empty() { first } else { self.row_of(to.0.saturating_sub(1).max(from.0)) + 1 };
        (first..end).map(move |row| (Position(self.position_of(row).max(from.0)), self.rows.get(row)))
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
    fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }
}

impl<V: Copy + Ord + Default> Levels<V> {
    fn of(values: Vec<V>) -> Levels<V> {
        let mut levels = Levels { values, highs: Vec::new(), lows: Vec::new() };
        let row_of_first_max = |values: &[V]| {
            let mut best = 0;
            for (row, value) in values.iter().enumerate() {
                if values[best] < *value {
                    best = row;
                }
            }
            best
        };
        loop {
            let (rows, below, lows) = match (levels.highs.last(), levels.lows.last()) {
                (Some(highs), Some(lows)) => (Some(&highs.rows), &highs.values, lows),
                _ => (None, &levels.values, &levels.values),
            };
            if below.len() <= FAN {
                return levels;
            }
            let runs = below.len().div_ceil(FAN);
            let mut level = Highs { rows: Vec::with_capacity(runs), values: Vec::with_capacity(runs) };
            for (run, values) in below.chunks(FAN).enumerate() {
                let best = run * FAN + row_of_first_max(values);
                level.rows.push(rows.map_or(best as u32, |rows| rows[best]));
                level.values.push(below[best]);
            }
            let low = lows.chunks(FAN).map(|values| values.iter().copied().min().unwrap_or_default()).collect();
            levels.highs.push(level);
            levels.lows.push(low);
        }
    }
    /// The first row of the highest value of rows `first..end`, and the value.
    fn highest(&self, first: usize, end: usize) -> (usize, V) {
        let (mut best, mut highest) = (first, self.values[first]);
        self.visit(0, first, end, &mut |level, runs| {
            let values = level.map_or(&self.values, |level| &self.highs[level].values);
            for run in runs {
                if highest < values[run] {
                    highest = values[run];
                    best = level.map_or(run, |level| self.highs[level].rows[run] as usize);
                }
            }
        });
        (best, highest)
    }
    /// The lowest value of rows `first..end`.
    fn lowest(&self, first: usize, end: usize) -> V {
        let mut lowest = self.values[first];
        self.visit(0, first, end, &mut |level, runs| {
            let values = level.map_or(&self.values, |level| &self.lows[level]);
            lowest = values[runs].iter().fold(lowest, |lowest, value| lowest.min(*value));
        });
        lowest
    }
    /// Cuts `from..to` of the level `height` (0: rows) into as few runs as may be, and calls `visit` with them in
    /// order: the level of the pyramids (none: rows themselves) and the runs in it.
    fn visit(&self, height: usize, from: usize, to: usize, visit: &mut impl FnMut(Option<usize>, std::ops::Range<usize>)) {
        let level = height.checked_sub(1);
        let (from_up, to_up) = (from.div_ceil(FAN), to / FAN);
        if height == self.highs.len() || to_up <= from_up {
            return visit(level, from..to);
        }
        visit(level, from..from_up * FAN);
        self.visit(height + 1, from_up, to_up, visit);
        visit(level, to_up * FAN..to);
    }
    fn heap_size(&self) -> usize {
        let highs: usize =
            self.highs.iter().map(|level| level.rows.capacity() * 4 + level.values.capacity() * size_of::<V>()).sum();
        let lows: usize = self.lows.iter().map(Vec::capacity).sum();
        highs + (self.values.capacity() + lows) * size_of::<V>()
    }
}

impl HeapSize for Curve {
    fn heap_size(&self) -> usize {
        let rows = match &self.rows {
            Rows::Narrow { levels, shift: _ } => levels.heap_size(),
            Rows::Wide(levels) => levels.heap_size(),
        };
        self.changes.capacity() * 4 + rows
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
                let min = *naive[from..to].iter().min().expect("not empty");
                assert_eq!(curve.min_in(Position(from as u32), Position(to as u32)), min);
                let high_at = Position(first as u32);
                let expected = Extremes { low: min, high: max, high_at, last: naive[to - 1] };
                assert_eq!(curve.extremes_in(Position(from as u32), Position(to as u32)), expected);
            }
            assert_eq!(curve.peak().1, *naive.iter().max().expect("not empty"));
            let changes = (0..3000u32).filter(|p| *p == 0 || naive[*p as usize] != naive[*p as usize - 1]);
            let (positions, values) = changes.map(|p| (p, naive[p as usize])).unzip();
            let of_changes = Curve::from_changes(positions, values, Position(2999));
            for position in (0..3000).map(Position) {
                assert_eq!(of_changes.at(position), curve.at(position));
            }
            assert_eq!((of_changes.peak(), of_changes.last()), (curve.peak(), curve.last()));
        }
    }

    #[test]
    fn values_come_back_as_they_were_however_wide() {
        let whole = [0u64, 512, 1 << 40, (1 << 40) + 512, 3 << 39, 512];
        let odd = [1u64 << 40, 1, 0, (1 << 40) + 1, 7, u64::MAX];
        let small = [3u64, 0, 1, 4_000_000_000, 5, 6];
        for (values, narrow) in [(whole, true), (odd, false), (small, true), ([0; 6], true)] {
            let curve = Curve::from_changes((0..6).collect(), values.to_vec(), Position(5));
            assert_eq!(matches!(curve.rows, Rows::Narrow { .. }), narrow, "{values:?}");
            assert_eq!([0, 1, 2, 3, 4, 5].map(|p| curve.at(Position(p))), values);
            assert_eq!(curve.peak().1, values.into_iter().max().expect("six"));
            assert_eq!(curve.min_in(Position(1), Position(4)), values[1..4].iter().copied().min().expect("three"));
            let steps: Vec<u64> = curve.steps(Position(0), Position(6)).map(|step| step.1).collect();
            assert!(steps == values || curve.rows() < 6, "{values:?}");
        }
    }

    #[test]
    fn changes_make_a_whole_curve() {
        for (changes, values, last, expected) in [
            (vec![], vec![], 3, vec![0, 0, 0, 0]),
            (vec![0], vec![7], 0, vec![7]),
            (vec![2], vec![5], 3, vec![0, 0, 5, 5]),
            (vec![0, 1, 9], vec![1, 2, 3], 2, vec![1, 2, 2]),
            (vec![0, 1, 2, 3], vec![4, 3, 2, 1], 3, vec![4, 3, 2, 1]),
        ] {
            let curve = Curve::from_changes(changes, values, Position(last));
            let all: Vec<u64> = (0..=last).map(|p| curve.at(Position(p))).collect();
            assert_eq!(all, expected);
            assert_eq!(curve.at(Position(last + 100)), expected[last as usize]);
            assert_eq!(curve.min_in(Position(0), Position(last + 1)), *expected.iter().min().expect("not empty"));
        }
    }
}
