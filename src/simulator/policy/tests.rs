//! Random requests for every policy of the register, against a plain book of what it tells: nothing is lost and nothing
//! overlaps.

use super::*;
use crate::model::{Action, AllocatorSettings, EventIdx, PoolId};
use crate::simulator::caching::Caching;
use crate::simulator::device::{Placement, Vram};
use crate::simulator::journal::{Given, Place};
use crate::simulator::paged::Paged;
use crate::simulator::scenario::{Rules, TieBreak};
use crate::simulator::stream_ordered::StreamOrdered;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Segments and blocks as they are told, byte ranges by their first byte.
#[derive(Default)]
struct Book {
    mapped: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, (u64, u64)>,
    lives: BTreeMap<AllocationId, u64>,
}

impl Book {
    fn overlaps<T>(of: &BTreeMap<u64, T>, size: impl Fn(&T) -> u64, from: u64, to: u64) -> bool {
        of.range(..to).next_back().is_some_and(|(at, other)| from < at + size(other))
    }
}

impl Journal for Book {
    fn segment(&mut self, action: Action, address: u64, size: u64, _place: Place) {
        let end = address + size;
        if matches!(action, Action::SegmentAlloc | Action::SegmentMap) {
            assert!(!Book::overlaps(&self.mapped, |size| *size, address, end), "mapped twice");
            self.mapped.insert(address, size);
            return;
        }
        assert!(!Book::overlaps(&self.blocks, |(size, _)| *size, address, end), "a block loses its memory");
        let touched: Vec<(u64, u64)> =
            self.mapped.range(..end).rev().map(|(at, size)| (*at, *size)).take_while(|(at, size)| address < at + size).collect();
        let mut gone = 0;
        for (at, length) in touched {
            self.mapped.remove(&at);
            gone += length;
            for (from, to) in [(at, address.max(at)), (end.min(at + length), at + length)] {
                if from < to {
                    self.mapped.insert(from, to - from);
                    gone -= to - from;
                }
            }
        }
        assert_eq!(gone, size, "only what is mapped is given back");
    }
    fn alloc(&mut self, life: AllocationId, given: Given) {
        let (mut at, end) = (given.address, given.address + given.size);
        assert!(given.requested <= given.size && !Book::overlaps(&self.blocks, |(size, _)| *size, at, end), "blocks overlap");
        while at < end {
            let (from, size) = self.mapped.range(..=at).next_back().map_or((0, 0), |(from, size)| (*from, *size));
            assert!(at < from + size, "a block lies in mapped memory");
            at = from + size;
        }
        self.blocks.insert(given.address, (given.size, given.requested));
        self.lives.insert(life, given.address);
    }
    fn free_completed(&mut self, life: AllocationId) {
        let block = self.lives.remove(&life).and_then(|address| self.blocks.remove(&address));
        assert!(block.is_some(), "what ends has begun");
    }
}

fn check(memory: &mut impl Policy<Journal = Book>, capacity: u64, said: &str) {
    let counted = *memory.counters();
    let book = memory.journal();
    let sum = |which: fn(&(u64, u64)) -> u64| book.blocks.values().map(which).sum::<u64>();
    assert_eq!(counted.reserved.now, book.mapped.values().sum::<u64>(), "{said}: reserved");
    assert_eq!((counted.active.now, counted.requested.now), (sum(|block| block.0), sum(|block| block.1)), "{said}");
    assert!(counted.allocated.now <= counted.active.now && counted.active.now <= counted.reserved.now, "{said}");
    assert!(counted.reserved.peak <= capacity, "{said}: beyond the card");
}

fn run(mut memory: impl Policy<Journal = Book>, capacity: u64, name: &str, seed: u64) -> Counters {
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    // Lives that were not given back, and lives whose other stream is not done.
    let (mut live, mut pending): (Vec<AllocationId>, Vec<AllocationId>) = Default::default();
    for step in 0..3000u32 {
        let size = match below(4) {
            0 => 1 + below(4 * MIB),
            1 => 1 + below(40 * MIB),
            _ => 1 + below(5000),
        };
        let wanted = Wanted { size, stream: below(3), pool: PoolId(u32::from(below(8) == 0)), source: EventIdx(step) };
        let life = AllocationId(step);
        let waiting: Vec<AllocationId> = if below(5) == 0 { pending.drain(..pending.len() / 2).collect() } else { Vec::new() };
        if memory.allocate(Some(life), &wanted, &waiting).is_some() {
            live.push(life);
        }
        for _ in 0..below(3) {
            if live.is_empty() {
                break;
            }
            let life = live.swap_remove(below(live.len() as u64) as usize);
            if below(3) == 0 {
                memory.give_back(&Request::FreeRequested(life));
                pending.push(life);
            } else {
                memory.give_back(&Request::Free(life));
            }
        }
        match below(60) {
            0 => memory.give_back(&Request::EmptyCache),
            1..20 => pending.drain(..).for_each(|life| memory.give_back(&Request::FreeCompleted(life))),
            _ => {}
        }
        check(&mut memory, capacity, &format!("{name}, seed {seed}, step {step}"));
    }
    // Nothing of a life that is unknown or over is given back twice.
    for life in (0..3100).map(AllocationId) {
        memory.give_back(&Request::Free(life));
        memory.give_back(&Request::FreeCompleted(life));
    }
    check(&mut memory, capacity, &format!("{name}, seed {seed}, all given back"));
    let counted = *memory.counters();
    assert_eq!((counted.allocated.now, counted.active.now, counted.unasked()), (0, 0, 0), "{name}");
    counted
}

#[test]
fn every_policy_keeps_its_books() {
    let capacity = 160 * MIB;
    for info in POLICIES {
        let (mut retries, mut ooms) = (0, 0);
        for seed in 1..5 {
            let driver = Vram::new(Some(capacity), None, Placement::Lowest);
            let book = Book::default();
            let counted = match info.kind {
                PolicyKind::Caching => {
                    let rules = Rules { tie: TieBreak::Segment, private_expandable: true, whole_is_limit: false };
                    let memory = Caching::telling(book, AllocatorSettings::default(), rules, None, driver, 3000);
                    run(memory, capacity, info.name, seed)
                }
                PolicyKind::StreamOrdered { release_threshold } => {
                    run(StreamOrdered::new(book, release_threshold, driver), capacity, info.name, seed)
                }
                PolicyKind::Paged { page } => run(Paged::new(book, page, driver), capacity, info.name, seed),
            };
            retries += counted.retries;
            ooms += counted.ooms;
        }
        assert!(0 < retries && 0 < ooms, "{}: memory never ran short", info.name);
    }
}
