//! Expandable segments: one reserved range of addresses a stream and half of a pool, in which memory is mapped.
//!
//! Always: mapped and unmapped parts of a range tile it; growth and release come in whole granules from its base.

use crate::model::Action;
use crate::simulator::caching::{Block, Caching, NONE, State};
use crate::simulator::device::Driver;
use crate::simulator::journal::{Journal, Place};

impl<D: Driver, J: Journal> Caching<D, J> {
    /// `try_allocate_expandable_block`: a mapped free block of at least `size` bytes, in no set. What was mapped before
    /// memory ran out stays mapped and free.
    pub(crate) fn grow_expandable(&mut self, half: u32, stream: u64, size: u64) -> Option<u32> {
        let mut block = self.place(half, stream, size)?;
        if !self.blocks[block as usize].mapped && !self.map(block, size) {
            return None;
        }
        while self.blocks[block as usize].size < size {
            let next = self.blocks[block as usize].next;
            if next == NONE || !self.map(next, size - self.blocks[block as usize].size) {
                return None;
            }
            block = next;
        }
        self.take_out(block);
        Some(block)
    }
    /// `find_expandable_block`: where neighbouring free and unmapped parts reach `size`, else the start of a new range.
    fn place(&mut self, half: u32, stream: u64, size: u64) -> Option<u32> {
        let is_free = |block: u32| block != NONE && self.blocks[block as usize].state == State::Free;
        for (_, &unmapped) in self.halves[half as usize].unmapped.range((stream, 0)..=(stream, u64::MAX)) {
            let before = self.blocks[unmapped as usize].prev;
            let start = if is_free(before) { before } else { unmapped };
            let (mut reach, mut at) = (0u64, start);
            while reach < size && is_free(at) {
                reach = reach.saturating_add(self.blocks[at as usize].size);
                at = self.blocks[at as usize].next;
            }
            if size <= reach {
                return Some(start);
            }
        }
        let granule = self.settings.granule(self.halves[half as usize].class);
        let (base, length) = self.driver.reserve(granule)?;
        let tie = self.number();
        let block = self.new_block(Block::unmapped(base, length, stream, half, tie));
        self.insert(block);
        // A range smaller than the request never serves it.
        (size <= length).then_some(block)
    }
    /// `map_block`: maps the first bytes of an unmapped part, rounded up to granules, and merges them with what is free
    /// around them; false where there is no memory.
    fn map(&mut self, block: u32, wanted: u64) -> bool {
        let Block { address, size: whole, stream, half, .. } = self.blocks[block as usize];
        let granule = self.settings.granule(self.halves[half as usize].class);
        // A part taken over from a recording with other granules need not be a multiple of these.
        let Some(size) = wanted.min(whole).checked_next_multiple_of(granule).map(|size| size.min(whole)) else { return false };
        if !self.driver.map(address, size, self.counters.reserved.now) {
            return false;
        }
        let place = Place { stream, ..self.place_of(half) };
        self.journal.segment(Action::SegmentMap, address, size, place);
        self.counters.device_allocs += 1;
        self.counters.reserved.add(size);
        self.take_out(block);
        if size < whole {
            let rest = self.part_of(block, address + size, whole - size);
            self.put_behind(block, rest);
            self.blocks[block as usize].size = size;
        }
        self.blocks[block as usize].mapped = true;
        self.merge_neighbours(block);
        self.insert(block);
        true
    }
    /// `unmap_block`: takes the whole granules out of a free block; a range that holds nothing more is dropped.
    pub(crate) fn unmap(&mut self, block: u32) {
        let Block { address, size, stream, half, base, .. } = self.blocks[block as usize];
        let granule = self.settings.granule(self.halves[half as usize].class);
        let from = base + (address - base).next_multiple_of(granule);
        let to = base + (address + size - base) / granule * granule;
        if to <= from {
            return;
        }
        self.driver.unmap(from, to - from);
        let place = Place { stream, ..self.place_of(half) };
        self.journal.segment(Action::SegmentUnmap, from, to - from, place);
        self.counters.device_frees += 1;
        self.counters.reserved.sub(to - from);
        self.take_out(block);
        if address < from {
            let front = self.part_of(block, address, from - address);
            self.put_before(block, front);
        }
        if to < address + size {
            let rest = self.part_of(block, to, address + size - to);
            self.put_behind(block, rest);
        }
        let part = &mut self.blocks[block as usize];
        (part.address, part.size, part.mapped) = (from, to - from, false);
        self.merge_neighbours(block);
        let Block { prev, next, .. } = self.blocks[block as usize];
        if prev == NONE && next == NONE {
            self.drop_block(block);
        } else {
            self.insert(block);
        }
    }
    /// Links a new part behind a block and puts it into its set.
    fn put_behind(&mut self, block: u32, mut part: Block) {
        let next = self.blocks[block as usize].next;
        (part.prev, part.next) = (block, next);
        part.tie = self.tie_of_part(part.tie);
        let part = self.new_block(part);
        self.blocks[block as usize].next = part;
        if next != NONE {
            self.blocks[next as usize].prev = part;
        }
        self.insert(part);
    }
    /// Links a new part before a block and puts it into its set.
    fn put_before(&mut self, block: u32, mut part: Block) {
        let prev = self.blocks[block as usize].prev;
        (part.prev, part.next) = (prev, block);
        part.tie = self.tie_of_part(part.tie);
        let part = self.new_block(part);
        self.blocks[block as usize].prev = part;
        if prev != NONE {
            self.blocks[prev as usize].next = part;
        }
        self.insert(part);
    }
}
