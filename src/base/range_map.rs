//! Sorted address ranges that never overlap, each with a value.
//!
//! Always: ranges are non-empty and disjoint. [`RangeMap::cut`] removes any part of the address
//! space and hands back the pieces it took; what is left of a cut range keeps its value.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint, half-open ranges of 64-bit addresses, each with a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeMap<T>(BTreeMap<u64, (u64, T)>);

impl<T: Copy> RangeMap<T> {
    /// An empty map.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }
    /// Puts a range in. Whatever overlapped it is cut away first and handed back.
    pub fn insert(&mut self, range: Range<u64>, value: T) -> Vec<(Range<u64>, T)> {
        if range.end <= range.start {
            return Vec::new();
        }
        let cut = self.cut(range.clone());
        self.0.insert(range.start, (range.end, value));
        cut
    }
    /// Takes `range` out of the map: the parts that were covered, in address order, with their values.
    pub fn cut(&mut self, range: Range<u64>) -> Vec<(Range<u64>, T)> {
        let mut taken = Vec::new();
        while let Some((start, end, value)) = self.first_overlap(&range) {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, (range.start, value));
            }
            if range.end < end {
                self.0.insert(range.end, (end, value));
            }
            taken.push((start.max(range.start)..end.min(range.end), value));
        }
        taken.sort_unstable_by_key(|(range, _)| range.start);
        taken
    }
    /// The range that covers an address.
    pub fn at(&self, address: u64) -> Option<(Range<u64>, T)> {
        let (&start, &(end, value)) = self.0.range(..=address).next_back()?;
        (address < end).then_some((start..end, value))
    }
    /// Ranges that overlap `range`, whole, in address order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        let from = self.at(range.start).map_or(range.start, |(covering, _)| covering.start);
        self.0.range(from..range.end.max(from)).map(|(&start, &(end, value))| (start..end, value))
    }
    /// The parts of `range` that no range covers, in address order.
    pub fn holes(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut holes = Vec::new();
        let mut from = range.start;
        for (covered, _) in self.overlapping(range.clone()) {
            if from < covered.start {
                holes.push(from..covered.start);
            }
            from = from.max(covered.end);
        }
        if from < range.end {
            holes.push(from..range.end);
        }
        holes
    }
    /// All ranges in address order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        self.0.iter().map(|(&start, &(end, value))| (start..end, value))
    }
    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether no address is covered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn first_overlap(&self, range: &Range<u64>) -> Option<(u64, u64, T)> {
        let (&start, &(end, value)) = self.0.range(..range.end).next_back()?;
        (range.start < end && range.start < range.end).then_some((start, end, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map against a plain array of cells, under pseudo-random inserts and cuts.
    #[test]
    fn agrees_with_a_naive_array() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for _ in 0..200 {
            let mut map = RangeMap::new();
            let mut cells = [0u32; 64];
            for value in 1..40 {
                let a = next(64);
                let b = a + next(65 - a);
                if next(3) == 0 {
                    let taken: u64 = map.cut(a..b).iter().map(|(r, _)| r.end - r.start).sum();
                    assert_eq!(taken, cells[a as usize..b as usize].iter().filter(|c| **c != 0).count() as u64);
                    cells[a as usize..b as usize].fill(0);
                } else {
                    map.insert(a..b, value);
                    cells[a as usize..b as usize].fill(value);
                }
                for (i, cell) in cells.iter().enumerate() {
                    assert_eq!(map.at(i as u64).map_or(0, |(_, v)| v), *cell);
                }
                let holes: u64 = map.holes(0..64).iter().map(|r| r.end - r.start).sum();
                assert_eq!(holes, cells.iter().filter(|c| **c == 0).count() as u64);
            }
        }
    }
}
