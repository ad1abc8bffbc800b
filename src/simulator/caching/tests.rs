//! Random requests, checked against a naive list of lives: nothing is lost and nothing overlaps.

use super::*;
use crate::model::EventIdx;
use crate::simulator::device::{Placement, Vram};

const MIB: u64 = 1 << 20;

/// A stream of numbers that looks random and is the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// All that must hold of an allocator, against what a naive list of its lives says.
fn check<D: Driver>(memory: &Caching<D>, lives: &BTreeMap<u32, (u64, u64, bool)>, said: &str) {
    let spare: BTreeSet<u32> = memory.spare.iter().copied().collect();
    let there = (0..memory.blocks.len() as u32).filter(|row| !spare.contains(row));
    let (mut reserved, mut active, mut allocated, mut free) = (0, 0, 0, 0);
    let mut ranges = Vec::new();
    for row in there {
        let block = &memory.blocks[row as usize];
        ranges.push((block.address, block.address + block.size));
        if block.next != NONE {
            let next = &memory.blocks[block.next as usize];
            assert_eq!((next.prev, next.address), (row, block.address + block.size), "{said}: neighbours");
            let both_free = block.state == State::Free && next.state == State::Free;
            assert!(!both_free || block.mapped != next.mapped, "{said}: free neighbours are one block");
        }
        if block.mapped {
            reserved += block.size;
            let in_use = block.state != State::Free;
            active += if in_use { block.size } else { 0 };
            allocated += if block.state == State::Allocated { block.size } else { 0 };
            free += usize::from(!in_use);
        }
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{said}: blocks overlap");
    let counted = memory.counters();
    assert_eq!((counted.reserved.now, counted.active.now, counted.allocated.now), (reserved, active, allocated), "{said}");
    assert_eq!(memory.halves.iter().map(|half| half.free.len()).sum::<usize>(), free, "{said}: free blocks that are found");
    assert_eq!(counted.requested.now, lives.values().map(|(_, size, _)| size).sum::<u64>(), "{said}: requested");
    let mut ends = 0;
    let mut placed: Vec<(u64, u64)> = lives.values().map(|(address, size, _)| (*address, *size)).collect();
    placed.sort_unstable();
    for (address, size) in placed {
        assert!(ends <= address, "{said}: two lives overlap");
        ends = address + size;
    }
}

#[test]
fn nothing_is_lost_and_nothing_overlaps() {
    let plain = AllocatorSettings::default();
    let expandable = AllocatorSettings { expandable_segments: true, ..plain.clone() };
    let split = AllocatorSettings { max_split_size: Some(24 * MIB), ..plain.clone() };
    let collected = AllocatorSettings { garbage_collection_threshold: 0.5, ..plain.clone() };
    let rounded = AllocatorSettings { roundup_power2_divisions: [4; 16], ..expandable.clone() };
    let both = AllocatorSettings { max_split_size: Some(24 * MIB), ..collected.clone() };
    for (kind, settings) in [plain, expandable, split, collected, rounded, both].into_iter().enumerate() {
        for (seed, tie) in (0u64..).zip([TieBreak::Address, TieBreak::Block, TieBreak::Segment, TieBreak::Address]) {
            let rules = Rules { tie, private_expandable: seed == 0, whole_is_limit: false };
            let limit = (0.0 < settings.garbage_collection_threshold).then_some(280 * MIB);
            let mut memory =
                Caching::new(settings.clone(), rules, limit, Vram::new(Some(300 * MIB), None, Placement::default()), 3000);
            // Each life's address, requested size, and whether it waits for another stream.
            let mut lives: BTreeMap<u32, (u64, u64, bool)> = BTreeMap::new();
            let mut dice = Dice(seed + 17 * kind as u64);
            for life in 0..3000u32 {
                let said = format!("settings {kind}, seed {seed}, step {life}");
                let size = match dice.below(4) {
                    0 => 1 + dice.below(4 * MIB),
                    1 => 1 + dice.below(40 * MIB),
                    _ => 1 + dice.below(5000),
                };
                let pool = PoolId(u32::from(dice.below(8) == 0));
                let wanted = Wanted { size, stream: dice.below(2), pool, source: EventIdx(0) };
                let retries = memory.counters().retries;
                let address = memory.allocate(Some(AllocationId(life)), &wanted, &[]);
                if retries < memory.counters().retries {
                    lives.retain(|_, (_, _, waits)| !*waits);
                }
                if let Some(address) = address {
                    lives.insert(life, (address, size, false));
                }
                for _ in 0..dice.below(4) {
                    let chosen = lives.keys().nth(dice.below(lives.len().max(1) as u64) as usize).copied();
                    let Some(chosen) = chosen else { continue };
                    let (_, _, waits) = lives[&chosen];
                    let waits_now = !waits && dice.below(5) == 0;
                    let request = match (waits, waits_now) {
                        (true, _) => Request::FreeCompleted(AllocationId(chosen)),
                        (false, true) => Request::FreeRequested(AllocationId(chosen)),
                        (false, false) => Request::Free(AllocationId(chosen)),
                    };
                    memory.give_back(&request);
                    if waits_now {
                        lives.entry(chosen).and_modify(|life| life.2 = true);
                    } else {
                        lives.remove(&chosen);
                    }
                }
                if dice.below(200) == 0 {
                    memory.give_back(&Request::PoolEnds(PoolId(1)));
                    memory.give_back(&Request::EmptyCache);
                    lives.retain(|_, (_, _, waits)| !*waits);
                }
                check(&memory, &lives, &said);
            }
            for life in std::mem::take(&mut lives).into_keys() {
                memory.give_back(&Request::FreeCompleted(AllocationId(life)));
                memory.give_back(&Request::Free(AllocationId(life)));
            }
            memory.give_back(&Request::PoolEnds(PoolId(1)));
            memory.give_back(&Request::EmptyCache);
            check(&memory, &lives, "at the end");
            assert_eq!(memory.counters().reserved.now, 0, "all goes back to the driver");
        }
    }
}
