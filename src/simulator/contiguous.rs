//! What the requests of a paged KV cache would have taken without pages: a buffer of its own for each sequence, in one
//! piece, as serving engines had before paging.
//!
//! A model, and a mild one: each buffer has exactly the length its sequence reaches in the end, though nobody knows that
//! beforehand (engines reserve the longest text there may be); nothing is shared, as one piece of memory cannot be part
//! of another; a buffer stays from the sequence's first own block to the removal of its last one, since events do not
//! tell when a request was done. Buffers lie in one range of addresses, each at the lowest place where it fits.
//!
//! Always: what is written is at most what is reserved, and that at most the end of the range; all in the units of
//! [`crate::model::KvLog::unit`].

use crate::analysis::kv::KvCache;
use crate::analysis::{Asked, Curve, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceMemory, KvLog, Position};
use std::collections::BTreeMap;

/// A paged cache, and the same without pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvCompared {
    /// The cache as it was.
    pub paged: KvCache,
    /// The same with a buffer for each sequence.
    pub contiguous: Contiguous,
}

/// What buffers in one piece would have taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contiguous {
    /// What would be written in them at each position: the texts of all sequences, each in full.
    pub written: Curve,
    /// What they would take: each its final length from its first block on.
    pub reserved: Curve,
    /// Where the last of them would end: gaps between them included.
    pub end: Curve,
}

impl KvCompared {
    /// Compares a device's cache; none where it is no KV cache.
    pub fn of(memory: &DeviceMemory, progress: &Progress) -> Result<Option<KvCompared>, Cancelled> {
        let (Some(paged), Some(log)) = (KvCache::of(memory, progress)?, &memory.kv) else { return Ok(None) };
        let contiguous = Contiguous::of(&paged, log, memory, progress)?;
        Ok(Some(KvCompared { paged, contiguous }))
    }
    /// What paging saved at the most each of both took; negative where it cost more.
    pub fn saved(&self) -> i128 {
        i128::from(self.contiguous.end.peak().1) - i128::from(self.paged.peak().1)
    }
}

/// Something that happens to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Ends,
    Begins,
}

impl Contiguous {
    fn of(paged: &KvCache, log: &KvLog, memory: &DeviceMemory, progress: &Progress) -> Result<Contiguous, Cancelled> {
        let unit = i128::from(log.unit());
        let slots = memory.trace.len() + 1;
        let (mut written, mut reserved) = (vec![0i128; slots], vec![0i128; slots]);
        let mut changes: Vec<(Position, Change, u32)> = Vec::with_capacity(paged.sequences.len() * 2);
        for block in &log.blocks {
            written[Position::after(block.event).0 as usize] += unit;
        }
        for (row, run) in paged.sequences.iter().enumerate() {
            let length = unit * i128::from(run.length());
            changes.push((run.born, Change::Begins, row as u32));
            written[run.born.0 as usize] += unit * i128::from(run.shared);
            reserved[run.born.0 as usize] += length;
            if (run.died.0 as usize) < slots {
                changes.push((run.died, Change::Ends, row as u32));
                written[run.died.0 as usize] -= length;
                reserved[run.died.0 as usize] -= length;
            }
        }
        changes.sort_unstable();
        progress.stage("laying buffers", changes.len() as u64)?;
        let (mut range, mut starts) = (Range::default(), vec![0u64; paged.sequences.len()]);
        let (mut at, mut ends): (Vec<u32>, Vec<u64>) = (Vec::new(), Vec::new());
        for (done, (position, change, row)) in changes.into_iter().enumerate() {
            if done % 256 == 0 {
                progress.at(done as u64)?;
            }
            let length = paged.sequences[row as usize].length();
            match change {
                Change::Begins => starts[row as usize] = range.take(length),
                Change::Ends => range.give(starts[row as usize], length),
            }
            if at.last() == Some(&position.0) {
                at.pop();
                ends.pop();
            }
            at.push(position.0);
            ends.push(range.end.saturating_mul(log.unit()));
        }
        Ok(Contiguous {
            written: Curve::from_deltas(&written),
            reserved: Curve::from_deltas(&reserved),
            end: Curve::from_changes(at, ends, memory.end()),
        })
    }
}

/// A range of places, in blocks.
#[derive(Clone, Debug, Default)]
struct Range {
    /// Free pieces by where they begin; none touches another or the end.
    free: BTreeMap<u64, u64>,
    /// Where the last buffer ends.
    end: u64,
}

impl Range {
    /// The lowest place for so many.
    fn take(&mut self, length: u64) -> u64 {
        let found = self.free.iter().find(|(_, free)| length <= **free).map(|(start, free)| (*start, *free));
        let Some((start, free)) = found else {
            let start = self.end;
            self.end = start.saturating_add(length);
            return start;
        };
        self.free.remove(&start);
        if length < free {
            self.free.insert(start + length, free - length);
        }
        start
    }
    /// Gives back what was taken.
    fn give(&mut self, mut start: u64, length: u64) {
        let mut end = start.saturating_add(length);
        if let Some((&before, &free)) = self.free.range(..start).next_back()
            && before + free == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(free) = self.free.remove(&end) {
            end += free;
        }
        if end == self.end {
            self.end = start;
        } else if start < end {
            self.free.insert(start, end - start);
        }
    }
}

impl Query for KvCompared {
    const NAME: &'static str = "KV cache with and without pages";
    type Params = ();
    type Answer = Option<KvCompared>;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Option<KvCompared>, Cancelled> {
        KvCompared::of(asked.memory(), progress)
    }
}

impl HeapSize for KvCompared {
    fn heap_size(&self) -> usize {
        let Contiguous { written, reserved, end } = &self.contiguous;
        self.paged.heap_size() + written.heap_size() + reserved.heap_size() + end.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_the_lowest_place_and_gaps_close() {
        let mut range = Range::default();
        assert_eq!([range.take(4), range.take(2), range.take(3)], [0, 4, 6]);
        range.give(0, 4);
        assert_eq!((range.take(5), range.end), (9, 14), "what is free is too small");
        range.give(4, 2);
        assert_eq!((range.take(5), range.end), (0, 14), "two gaps are one");
        range.give(9, 5);
        assert_eq!(range.end, 9);
        range.give(6, 3);
        assert_eq!(range.end, 5, "the gap before the last goes with it");
        range.give(0, 5);
        assert_eq!((range.end, range.free.len()), (0, 0));
    }
}
