//! Memory given back to the driver: oversize blocks for a request, old garbage, whole halves of pools.
//!
//! Always: a segment is given back whole, when nothing in it is in use; blocks go in the order of their set.

use crate::model::{Action, PoolId, SizeClass};
use crate::simulator::caching::{Block, Caching, Key, NONE};
use crate::simulator::device::Driver;
use crate::simulator::journal::{Journal, Place};

impl<D: Driver, J: Journal> Caching<D, J> {
    fn is_split(&self, block: u32) -> bool {
        let block = &self.blocks[block as usize];
        block.prev != NONE || block.next != NONE
    }
    /// Gives the segment of a free, unsplit block back to the driver.
    fn release(&mut self, block: u32) {
        self.take_out(block);
        let Block { address, size, stream, half, .. } = self.blocks[block as usize];
        self.driver.release(address, size);
        let place = Place { stream, ..self.place_of(half) };
        self.journal.segment(Action::SegmentFree, address, size, place);
        self.counters.device_frees += 1;
        self.counters.reserved.sub(size);
        self.counters.segments.sub(1);
        self.drop_block(block);
    }
    /// `release_available_cached_blocks`: whether enough oversize blocks of the stream were given back.
    pub(crate) fn release_available(&mut self, half: u32, stream: u64, size: u64) -> bool {
        let Some(limit) = self.settings.max_split_size else { return false };
        let needed = size.max(limit);
        let free = &self.halves[half as usize].free;
        let first = free.range(Key::from(stream, needed)..).next();
        if let Some((key, block)) = first
            && key.stream == stream
            && !self.blocks[*block as usize].expandable
        {
            let block = *block;
            self.release(block);
            return true;
        }
        let below = free.range(..Key::from(stream, needed)).rev();
        let oversize = below.take_while(|(key, _)| limit <= key.size && key.stream == stream);
        let whole = oversize.map(|(_, block)| *block).filter(|block| !self.blocks[*block as usize].expandable);
        let (mut released, mut chosen) = (0u64, Vec::new());
        for block in whole {
            if needed <= released {
                break;
            }
            released += self.blocks[block as usize].size;
            chosen.push(block);
        }
        for block in chosen {
            self.release(block);
        }
        needed <= released
    }
    /// `garbage_collect_cached_blocks`: unsplit blocks of the default large half, the oldest first.
    pub(crate) fn collect_garbage(&mut self, from: u64) {
        let Some(target) = self.counters.reserved.now.checked_sub(from).filter(|target| 0 < *target) else { return };
        let Some(&half) = self.half_of.get(&(PoolId::DEFAULT, SizeClass::Large)) else { return };
        let searches = self.halves[half as usize].searches;
        let blocks: Vec<u32> = self.halves[half as usize].free.values().copied().filter(|block| !self.is_split(*block)).collect();
        let age = |all: &Self, block: u32| (searches - all.blocks[block as usize].free_since) as f64;
        let mut total: f64 = blocks.iter().map(|block| age(self, *block)).sum();
        let (mut count, mut reclaimed, mut freed) = (blocks.len(), 0u64, true);
        let mut left: Vec<u32> = blocks.into_iter().filter(|block| !self.blocks[*block as usize].expandable).collect();
        while reclaimed < target && freed && 0 < count {
            let threshold = total / count as f64;
            freed = false;
            let (old, young): (Vec<u32>, Vec<u32>) = left.iter().partition(|block| threshold <= age(self, **block));
            for block in old {
                freed = true;
                reclaimed += self.blocks[block as usize].size;
                total -= age(self, block);
                count -= 1;
                self.release(block);
            }
            left = young;
        }
    }
    /// Gives back what is whole in a half; expandable blocks after the others.
    pub(crate) fn release_half(&mut self, half: u32) {
        let free: Vec<u32> = self.halves[half as usize].free.values().copied().collect();
        for block in &free {
            if !self.blocks[*block as usize].expandable && !self.is_split(*block) {
                self.release(*block);
            }
        }
        for block in free {
            if self.blocks[block as usize].expandable {
                self.unmap(block);
            }
        }
    }
}
