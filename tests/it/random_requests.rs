//! Random requests, served by the simulator's caching allocator and by a plain list over drivers that answer alike.
//!
//! Every address, every segment event, every counter must be the same, and at each step the books must balance: blocks tile
//! their segments without a gap, no two free ones touch, reserved is active and free together, and nothing overlaps.

use crate::naive_allocator::{Naive, Use};
use fragscope::model::{Action, AllocationId, AllocatorSettings, EventIdx, PoolId};
use fragscope::simulator::caching::Caching;
use fragscope::simulator::device::{Placement, Vram};
use fragscope::simulator::journal::{Given, Journal, Place};
use fragscope::simulator::{Counters, Policy, Request, Rules, TieBreak, Wanted};
use std::collections::BTreeMap;

pub const MIB: u64 = 1 << 20;

/// Numbers that look random and are the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What was told: segment events, and which life got which block.
#[derive(Default)]
pub struct Told {
    pub segments: Vec<(Action, u64, u64)>,
    pub blocks: BTreeMap<AllocationId, Given>,
}

impl Journal for Told {
    fn segment(&mut self, action: Action, address: u64, size: u64, _place: Place) {
        self.segments.push((action, address, size));
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        assert!(self.blocks.insert(life, given).is_none(), "{life:?} is served twice");
    }
    fn free_completed(&mut self, life: AllocationId) {
        assert!(self.blocks.remove(&life).is_some(), "{life:?} ends twice");
    }
}

/// One random request after another, for both.
fn compare(settings: &AllocatorSettings, rules: Rules, limit: Option<u64>, seed: u64, steps: u32, name: &str) -> Counters {
    let driver = || Vram::new(Some(300 * MIB), Some(310 * MIB), Placement::Lowest);
    let mut ours = Caching::telling(Told::default(), settings.clone(), rules, limit, driver(), steps as usize);
    let mut naive = Naive::new(settings.clone(), rules, limit, driver());
    let mut dice = Dice(seed);
    let (mut live, mut pending): (Vec<AllocationId>, Vec<AllocationId>) = Default::default();
    let mut seen = 0;
    for step in 0..steps {
        let said = format!("{name}, {:?}, seed {seed}, step {step}", rules.tie);
        let size = match dice.below(8) {
            0 | 1 => 1 + dice.below(4 * MIB),
            2 | 3 => 1 + dice.below(40 * MIB),
            // Sizes that come again make equal blocks, which ties are about.
            4 => 5 * MIB * (1 + dice.below(4)),
            5 => 600 * (1 + dice.below(3)),
            _ => 1 + dice.below(5000),
        };
        let stream = dice.below(2);
        let pool = PoolId((dice.below(8) == 0) as u32 * (1 + dice.below(2) as u32));
        let wanted = Wanted { size, stream, pool, source: EventIdx(0) };
        let life = AllocationId(step);
        let waiting: Vec<AllocationId> =
            if dice.below(5) == 0 { pending.drain(..pending.len() / 2).collect() } else { Vec::new() };
        let at = ours.allocate(Some(life), &wanted, &waiting);
        assert_eq!(at, naive.malloc(life, &wanted, &waiting), "{said}: where a block of {size} bytes lies");
        live.extend(at.map(|_| life));
        for _ in 0..dice.below(4).min(live.len() as u64) {
            let life = live.swap_remove(dice.below(live.len() as u64) as usize);
            if dice.below(4) == 0 {
                ours.give_back(&Request::FreeRequested(life));
                naive.free_requested(life);
                pending.push(life);
            } else {
                ours.give_back(&Request::Free(life));
                naive.free(life);
            }
        }
        match dice.below(80) {
            0 => {
                ours.give_back(&Request::EmptyCache);
                naive.release_cached(&[]);
            }
            1 => {
                ours.give_back(&Request::PoolEnds(PoolId(1)));
                naive.ended.push(PoolId(1));
            }
            2..20 => {
                for life in pending.drain(..) {
                    ours.give_back(&Request::FreeCompleted(life));
                    naive.free_completed(life);
                }
            }
            _ => {}
        }
        assert_eq!(*ours.counters(), naive.counted, "{said}");
        assert_eq!(ours.journal().segments[seen..], naive.segments[seen..], "{said}");
        seen = naive.segments.len();
        naive.check(&said);
        let blocks: Vec<(u64, u64, u64)> = {
            let mut blocks: Vec<_> =
                ours.journal().blocks.values().map(|given| (given.address, given.size, given.requested)).collect();
            blocks.sort_unstable();
            blocks
        };
        let used = naive.blocks.iter().filter(|block| block.used != Use::Free);
        assert!(blocks.into_iter().eq(used.map(|block| (block.address, block.size, block.requested))), "{said}: blocks in use");
    }
    for life in (0..steps).map(AllocationId) {
        ours.give_back(&Request::Free(life));
        ours.give_back(&Request::FreeCompleted(life));
    }
    for pool in [1, 2] {
        ours.give_back(&Request::PoolEnds(PoolId(pool)));
    }
    ours.give_back(&Request::EmptyCache);
    let counted = *ours.counters();
    assert_eq!((counted.reserved.now, counted.active.now, counted.requested.now), (0, 0, 0), "{name}: all goes back");
    counted
}

#[test]
fn random_requests_are_served_as_by_a_plain_list() {
    let plain = AllocatorSettings::default();
    let list = [8, 8, 8, 8, 8, 4, 2, 0, 4, 2, 1, 1, 1, 1, 1, 1];
    let expandable = AllocatorSettings { expandable_segments: true, ..plain.clone() };
    let collected = AllocatorSettings { garbage_collection_threshold: 0.6, ..plain.clone() };
    let split = |mib: u64| AllocatorSettings { max_split_size: Some(mib * MIB), ..plain.clone() };
    let large = AllocatorSettings { large_segment_size: 32 * MIB, max_non_split_rounding: 32 * MIB, ..plain.clone() };
    let kinds = [
        ("native", plain.clone()),
        ("expandable", expandable.clone()),
        ("max_split", split(24)),
        ("max_split, little slack", AllocatorSettings { max_non_split_rounding: 4 * MIB, ..split(20) }),
        ("roundup", AllocatorSettings { roundup_power2_divisions: [4; 16], ..plain.clone() }),
        ("roundup by list", AllocatorSettings { roundup_power2_divisions: list, ..plain.clone() }),
        ("roundup, expandable", AllocatorSettings { roundup_power2_divisions: [8; 16], ..expandable.clone() }),
        ("gc", collected.clone()),
        ("gc, max_split", AllocatorSettings { max_split_size: Some(24 * MIB), ..collected.clone() }),
        ("gc, expandable", AllocatorSettings { expandable_segments: true, ..collected }),
        ("large segments", large.clone()),
        ("large segments, expandable", AllocatorSettings { expandable_segments: true, ..large }),
        ("max_split, expandable", AllocatorSettings { expandable_segments: true, ..split(24) }),
    ];
    for (name, settings) in &kinds {
        let (mut retries, mut ooms, mut given_back) = (0, 0, 0);
        for (seed, tie) in (1u64..).zip([TieBreak::Address, TieBreak::Block, TieBreak::Segment].repeat(2)) {
            let rules = Rules { tie, private_expandable: seed % 2 == 0, whole_is_limit: false };
            let limit = (0.0 < settings.garbage_collection_threshold).then_some(280 * MIB);
            let counted = compare(settings, rules, limit, seed, 1200, name);
            retries += counted.retries;
            ooms += counted.ooms;
            given_back += counted.device_frees;
        }
        assert!(0 < retries && 0 < ooms && 100 < given_back, "{name}: memory never ran short");
    }
    // A small limit below the card's capacity.
    let rules = Rules { tie: TieBreak::Segment, private_expandable: true, whole_is_limit: false };
    assert!(0 < compare(&plain, rules, Some(100 * MIB), 9, 1200, "limit").ooms);
}
