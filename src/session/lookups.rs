//! Small questions of the window: what a view needs beside the analyses, and what is too long for a frame.

use crate::analysis::{
    Asked, Categories, FlameMatches, FlameParams, FlameTree, FoundKey, Held, Query, Releases, Spans, UsageTimeline,
};
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::chart::{Clock, ColourBy, FlameColour, FlameInks, Inks, Marker, TimeAxis, series};
use crate::model::{Action, AllocationId, Position, StackId};
use crate::raster::{StackOutline, StackRaster};

/// Asks for the [`Clock`] of a device: real time of five million events is not for the UI thread.
pub struct ClockOf;

/// A clock, with what it weighs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeighedClock {
    /// The clock.
    pub clock: Clock,
}

impl Query for ClockOf {
    const NAME: &'static str = "time axis";
    type Params = TimeAxis;
    type Answer = WeighedClock;

    fn answer(asked: &Asked<'_>, axis: &TimeAxis, progress: &Progress) -> Result<WeighedClock, Cancelled> {
        progress.check()?;
        Ok(WeighedClock { clock: Clock::of(asked.memory(), *axis) })
    }
}

impl HeapSize for WeighedClock {
    fn heap_size(&self) -> usize {
        self.clock.heap_bytes()
    }
}

/// Asks for the moments that charts mark.
pub struct MarkersOf;

/// Moments that are marked, with what they weigh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeighedMarkers {
    /// The moments, by position.
    pub markers: Vec<Marker>,
}

impl Query for MarkersOf {
    const NAME: &'static str = "marked moments";
    type Params = ();
    type Answer = WeighedMarkers;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<WeighedMarkers, Cancelled> {
        let (spans, releases) = (Spans::answer(asked, &(), progress)?, Releases::answer(asked, &(), progress)?);
        Ok(WeighedMarkers { markers: series::markers(asked.subject.snapshot, asked.memory(), &spans, &releases) })
    }
}

impl HeapSize for WeighedMarkers {
    fn heap_size(&self) -> usize {
        let names: usize = self.markers.iter().map(|marker| marker.name.capacity()).sum();
        self.markers.capacity() * size_of::<Marker>() + names
    }
}

/// Asks for the colours of a snapshot's blocks by one meaning.
pub struct InksOf;

/// Colours, with what they weigh.
#[derive(Clone, Debug)]
pub struct WeighedInks {
    /// The colours.
    pub inks: Inks,
    bytes: usize,
}

impl Query for InksOf {
    const NAME: &'static str = "colours";
    /// The meaning, and what categories there are.
    type Params = (ColourBy, Categories);
    type Answer = WeighedInks;

    fn answer(asked: &Asked<'_>, (by, rules): &Self::Params, progress: &Progress) -> Result<WeighedInks, Cancelled> {
        progress.check()?;
        let snapshot = asked.subject.snapshot;
        let inks = Inks::with_categories(snapshot, *by, rules);
        if *by == ColourBy::Held {
            let held = Held::of(asked.memory(), progress)?;
            return Ok(WeighedInks { inks: inks.with_held(&held), bytes: held.bytes().len() });
        }
        Ok(WeighedInks { inks, bytes: snapshot.stacks.len() * size_of::<u32>() })
    }
}

impl HeapSize for WeighedInks {
    fn heap_size(&self) -> usize {
        self.bytes
    }
}

/// Asks for the colours of the frames of a snapshot: one hash a stack.
pub struct FlameInksOf;

/// Colours of frames, with what they weigh.
#[derive(Clone, Debug)]
pub struct WeighedFlameInks {
    /// The colours.
    pub inks: FlameInks,
    bytes: usize,
}

impl Query for FlameInksOf {
    const NAME: &'static str = "colours of frames";
    type Params = FlameColour;
    type Answer = WeighedFlameInks;

    fn answer(asked: &Asked<'_>, by: &FlameColour, progress: &Progress) -> Result<WeighedFlameInks, Cancelled> {
        progress.check()?;
        let stacks = &asked.subject.snapshot.stacks;
        let bytes = (stacks.len() + stacks.frame_count()) * size_of::<u32>();
        Ok(WeighedFlameInks { inks: FlameInks::new(stacks, *by), bytes })
    }
}

impl HeapSize for WeighedFlameInks {
    fn heap_size(&self) -> usize {
        self.bytes
    }
}

/// Asks for a flame graph with what a search finds in it: tree and matches belong together, however fast the
/// cursor moves.
pub struct FlameSearch;

/// A flame graph and the matches in it.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchedFlame {
    /// The tree.
    pub tree: FlameTree,
    /// What was found in it.
    pub matches: FlameMatches,
}

impl Query for FlameSearch {
    const NAME: &'static str = "flame graph search";
    /// What the tree counts, and the text.
    type Params = (FlameParams, String);
    type Answer = SearchedFlame;

    fn answer(asked: &Asked<'_>, (params, text): &Self::Params, progress: &Progress) -> Result<SearchedFlame, Cancelled> {
        let tree = FlameTree::answer(asked, params, progress)?;
        progress.stage("searching", 0)?;
        let matches = FlameMatches::of(&tree, &asked.subject.snapshot.stacks, text);
        Ok(SearchedFlame { tree, matches })
    }
}

/// Asks for a flame graph with what of it the search of all views found.
pub struct FlameFound;

impl Query for FlameFound {
    const NAME: &'static str = "flame graph search";
    /// What the tree counts, and what was found.
    type Params = (FlameParams, FoundKey);
    type Answer = SearchedFlame;

    fn answer(
        asked: &Asked<'_>,
        (params, FoundKey(found)): &Self::Params,
        progress: &Progress,
    ) -> Result<SearchedFlame, Cancelled> {
        let tree = FlameTree::answer(asked, params, progress)?;
        let stacks = &asked.subject.snapshot.stacks;
        let part = FlameTree::of_found(asked.memory(), asked.replay(), stacks, params, Some(found), progress)?;
        Ok(SearchedFlame { matches: FlameMatches::of_part(&tree, &part), tree })
    }
}

impl HeapSize for SearchedFlame {
    fn heap_size(&self) -> usize {
        self.tree.heap_size() + self.matches.heap_size()
    }
}

/// Asks where an allocation lies in the stacked picture throughout its life.
pub struct OutlineOf;

/// An outline, if the allocation exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaybeOutline(pub Option<StackOutline>);

impl Query for OutlineOf {
    const NAME: &'static str = "outline";
    type Params = AllocationId;
    type Answer = MaybeOutline;

    fn answer(asked: &Asked<'_>, id: &AllocationId, progress: &Progress) -> Result<MaybeOutline, Cancelled> {
        progress.check()?;
        let memory = asked.memory();
        if memory.allocations.len() <= id.0 as usize {
            return Ok(MaybeOutline(None));
        }
        // An outline follows from the lives alone; the curves only serve the picture's columns.
        let curves = UsageTimeline::default();
        Ok(MaybeOutline(Some(StackRaster::new(memory, asked.replay(), &curves).outline(*id))))
    }
}

impl HeapSize for MaybeOutline {
    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, |outline| outline.steps.capacity() * size_of::<(Position, u64)>())
    }
}

/// Asks for the blocks of a stack (and of all that read like it) that fill most of the pictures over time.
pub struct BlocksOf;

/// Some blocks, the largest in bytes and events first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargestBlocks {
    /// The blocks.
    pub blocks: Vec<AllocationId>,
    /// Where the first of them lie in the stacked picture.
    pub outlines: Vec<StackOutline>,
}

/// Most blocks of one stack that are outlined.
const MOST_BLOCKS: usize = 400;
/// Most of them that are outlined in the stacked picture, where each is a long line.
const MOST_STACKED: usize = 24;

impl Query for BlocksOf {
    const NAME: &'static str = "blocks of a stack";
    type Params = StackId;
    type Answer = LargestBlocks;

    fn answer(asked: &Asked<'_>, stack: &StackId, progress: &Progress) -> Result<LargestBlocks, Cancelled> {
        let (memory, stacks) = (asked.memory(), &asked.subject.snapshot.stacks);
        let (lives, end) = (&memory.allocations, memory.end());
        progress.stage("looking for blocks", lives.len() as u64)?;
        // One answer a stack: lives are many, stacks few.
        let alike: Vec<bool> = (0..stacks.len()).map(|row| stacks.are_alike(StackId::of_row(row), *stack)).collect();
        let bare = stacks.frames(*stack).is_empty();
        let mut found = Vec::new();
        for (row, of) in lives.stacks().iter().enumerate() {
            if row.is_multiple_of(1 << 16) {
                progress.at(row as u64)?;
            }
            if alike.get(of.row()).copied().unwrap_or(bare) {
                let events = u64::from(lives.died()[row].min(end).0.saturating_sub(lives.born()[row].0)) + 1;
                found.push((u128::from(lives.sizes()[row]) * u128::from(events), AllocationId::of_row(row)));
            }
        }
        let largest = |(area, id): &(u128, AllocationId)| (std::cmp::Reverse(*area), *id);
        if MOST_BLOCKS < found.len() {
            found.select_nth_unstable_by_key(MOST_BLOCKS, largest);
            found.truncate(MOST_BLOCKS);
        }
        found.sort_unstable_by_key(largest);
        let blocks: Vec<AllocationId> = found.into_iter().map(|(_, id)| id).collect();
        let curves = UsageTimeline::default();
        let raster = StackRaster::new(memory, asked.replay(), &curves);
        let mut outlines = Vec::new();
        for id in blocks.iter().take(MOST_STACKED) {
            progress.check()?;
            outlines.push(raster.outline(*id));
        }
        Ok(LargestBlocks { blocks, outlines })
    }
}

impl HeapSize for LargestBlocks {
    fn heap_size(&self) -> usize {
        let steps: usize = self.outlines.iter().map(|outline| outline.steps.capacity() * size_of::<(Position, u64)>()).sum();
        self.blocks.heap_size() + self.outlines.capacity() * size_of::<StackOutline>() + steps
    }
}

/// What happened in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotals {
    /// Blocks handed out in it.
    pub allocs: u64,
    /// What was asked for with them, bytes.
    pub alloc_bytes: u64,
    /// Blocks given back in it.
    pub frees: u64,
    /// Bytes given back, as the events state them.
    pub free_bytes: u64,
    /// Segments that came and went.
    pub segments: u64,
    /// Allocations that failed.
    pub ooms: u64,
    /// Blocks born in it and still active at its end.
    pub born_and_alive: u64,
    /// Their bytes.
    pub born_and_alive_bytes: u64,
}

impl Query for RangeTotals {
    const NAME: &'static str = "totals of a range";
    /// First and last position.
    type Params = (Position, Position);
    type Answer = RangeTotals;

    fn answer(asked: &Asked<'_>, (from, to): &(Position, Position), progress: &Progress) -> Result<RangeTotals, Cancelled> {
        let memory = asked.memory();
        let trace = &memory.trace;
        let mut totals = RangeTotals::default();
        // The events that lead from one position to the other.
        let (first, last) = (from.0.min(to.0) as usize, (to.0 as usize).min(trace.len()));
        progress.stage("adding up", (last.saturating_sub(first)) as u64)?;
        for i in first..last {
            if i.is_multiple_of(1 << 16) {
                progress.at((i - first) as u64)?;
            }
            let size = trace.sizes()[i];
            match trace.actions()[i] {
                Action::Alloc => {
                    totals.allocs += 1;
                    totals.alloc_bytes = totals.alloc_bytes.saturating_add(size);
                }
                Action::FreeRequested => {
                    totals.frees += 1;
                    totals.free_bytes = totals.free_bytes.saturating_add(size);
                }
                Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap => totals.segments += 1,
                Action::Oom => totals.ooms += 1,
                Action::FreeCompleted | Action::Snapshot | Action::Annotate | Action::Unknown => {}
            }
        }
        let lives = &memory.allocations;
        let rows = lives.born_by(*from)..lives.born_by(*to);
        for row in rows {
            if *to < lives.died()[row] {
                totals.born_and_alive += 1;
                totals.born_and_alive_bytes = totals.born_and_alive_bytes.saturating_add(lives.sizes()[row]);
            }
        }
        Ok(totals)
    }
}

impl HeapSize for RangeTotals {
    fn heap_size(&self) -> usize {
        0
    }
}
