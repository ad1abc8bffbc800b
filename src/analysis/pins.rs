//! Who pins each segment at a moment: the live blocks that keep it from going back to the driver.
//!
//! Always: a segment's pins are all its active blocks, the largest first; their sizes add up to its `active`,
//! and active + free is its size (where blocks overlap, free is what no block covers). Segments come in
//! address order.

use crate::analysis::query::{Asked, Query};
use crate::base::id::Id;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{
    AllocationId, AllocatorSettings, BlockState, DeviceMemory, PoolId, Position, SegmentId, SizeClass, StackId, StreamId,
};
use crate::replay::{MemoryState, StateSegment};

/// One live block in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The block.
    pub allocation: AllocationId,
    /// Its first byte.
    pub address: u64,
    /// Bytes it occupies.
    pub size: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// In use, or pending free.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: StackId,
    /// Events since its birth; none if it is older than the trace.
    pub age_events: Option<u32>,
    /// Microseconds since its birth, where the trace tells.
    pub age_us: Option<u64>,
}

/// One segment with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPins {
    /// The segment; for expandable ones the piece with the lowest address.
    pub segment: SegmentId,
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// Its pool.
    pub pool: PoolId,
    /// Its half.
    pub class: SizeClass,
    /// Its stream.
    pub stream: StreamId,
    /// Whether it is a mapped range of an expandable segment.
    pub expandable: bool,
    /// Not named by the file.
    pub inferred: bool,
    /// Where it was created.
    pub stack: StackId,
    /// Events since it was created (its first piece was mapped); none if it is older than the trace.
    pub age_events: Option<u32>,
    /// Microseconds since then, where the trace tells.
    pub age_us: Option<u64>,
    /// Bytes of active blocks.
    pub active: u64,
    /// Bytes of gaps.
    pub free: u64,
    /// The largest gap.
    pub largest_gap: u64,
    /// Number of gaps.
    pub gaps: u32,
    /// What `empty_cache()` could give back now: all of an empty segment, the whole granules inside the gaps of an
    /// expandable one (reckoned from its lowest mapped byte).
    pub releasable: u64,
    /// Its active blocks, the largest first, equal ones by address.
    pub pins: Vec<Pin>,
}

impl SegmentPins {
    /// Active share, 0 to 1; 1 for a segment of no bytes.
    pub fn occupancy(&self) -> f64 {
        if self.size == 0 { 1.0 } else { self.active as f64 / self.size as f64 }
    }
}

/// All segments at a moment with who pins them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// The moment.
    pub position: Position,
    /// The segments, in address order.
    pub segments: Vec<SegmentPins>,
}

impl Pins {
    /// Reads a state.
    pub fn of(state: &MemoryState, device: &DeviceMemory, settings: &AllocatorSettings) -> Pins {
        let age = Age::at(device, state.position);
        let segments = state.segments.iter().map(|segment| pins_of(segment, state, device, settings, &age)).collect();
        Pins { position: state.position, segments }
    }
}

/// Ages at one moment.
struct Age<'a> {
    device: &'a DeviceMemory,
    now: Position,
    now_us: Option<i64>,
}

impl<'a> Age<'a> {
    fn at(device: &'a DeviceMemory, now: Position) -> Age<'a> {
        Age { device, now, now_us: now.event().and_then(|event| device.trace.time_us(event)) }
    }
    /// Events and µs since a birth; none for what is older than the trace.
    fn since(&self, born: Position) -> (Option<u32>, Option<u64>) {
        let Some(event) = born.event() else { return (None, None) };
        let us = match (self.device.trace.time_us(event), self.now_us) {
            (Some(then), Some(now)) => u64::try_from(now.saturating_sub(then)).ok(),
            _ => None,
        };
        (Some(self.now.0.saturating_sub(born.0)), us)
    }
}

fn pins_of(
    segment: &StateSegment,
    state: &MemoryState,
    device: &DeviceMemory,
    settings: &AllocatorSettings,
    age: &Age<'_>,
) -> SegmentPins {
    let StateSegment { address, size, id, stream, pool, class, expandable, stack, inferred, blocks: _ } = *segment;
    let (age_events, age_us) = device.segments.get(id).map_or((None, None), |piece| age.since(piece.born));
    let (mut active, mut free, mut largest_gap, mut gaps, mut releasable) = (0u64, 0u64, 0u64, 0u32, 0u64);
    let granule = settings.granule(class);
    let mut pins = Vec::new();
    for block in state.blocks_of(segment) {
        match block.allocation {
            None => {
                free += block.size;
                largest_gap = largest_gap.max(block.size);
                gaps += 1;
                if expandable {
                    let from = (block.address - address).div_ceil(granule);
                    let to = (block.address + block.size - address) / granule;
                    releasable += to.saturating_sub(from) * granule;
                }
            }
            Some(allocation) => {
                let row = allocation.row();
                let (age_events, age_us) = age.since(device.allocations.born()[row]);
                active = active.saturating_add(block.size);
                pins.push(Pin {
                    allocation,
                    address: block.address,
                    size: block.size,
                    requested: block.requested,
                    state: block.state,
                    stack: device.allocations.stacks()[row],
                    age_events,
                    age_us,
                });
            }
        }
    }
    if !expandable && pins.is_empty() {
        releasable = size;
    }
    pins.sort_by_key(|pin| (std::cmp::Reverse(pin.size), pin.address));
    SegmentPins {
        segment: id,
        address,
        size,
        pool,
        class,
        stream,
        expandable,
        inferred,
        stack,
        age_events,
        age_us,
        active,
        free,
        largest_gap,
        gaps,
        releasable,
        pins,
    }
}

impl Query for Pins {
    const NAME: &'static str = "who pins segments";
    type Params = Position;
    type Answer = Pins;

    fn answer(asked: &Asked<'_>, position: &Position, progress: &Progress) -> Result<Pins, Cancelled> {
        let state = asked.replay().state_at(asked.memory(), *position);
        progress.check()?;
        Ok(Pins::of(&state, asked.memory(), &asked.subject.snapshot.settings))
    }
}

impl HeapSize for Pins {
    fn heap_size(&self) -> usize {
        let pins: usize = self.segments.iter().map(|segment| segment.pins.heap_size()).sum();
        pins + self.segments.capacity() * size_of::<SegmentPins>()
    }
}
