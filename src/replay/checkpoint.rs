//! Random access: what one device's memory held at any position.
//!
//! A checkpoint is the list of live ids at a position. Lives are ordered by birth, so the live set at a
//! position is: the nearest checkpoint's ids that have not died, then the ids born since. Nothing is
//! stepped forward or back, and a state is the same however one came to it.
//! Always: checkpoints together weigh at most about four bytes an event, because the next one is laid
//! only after as many events as the last one has ids (and never sooner than 1024).

use crate::model::{AllocationId, BlockState, DeviceMemory, PoolId, Position, Segment, SegmentId, SizeClass, StreamId};
use crate::replay::state::{MemoryState, PoolState, StateBlock, StateSegment, Totals};
use std::collections::BTreeMap;

/// Fewest events between two checkpoints: replaying fewer than this costs less than finding a checkpoint.
const SHORTEST_INTERVAL: u32 = 1024;

/// Checkpoints over one device's lives.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Positions of the checkpoints, ascending; the first is the start.
    positions: Vec<Position>,
    /// Live ids of all checkpoints, one after the other, each in order of birth.
    live: Vec<AllocationId>,
    /// Where each checkpoint's ids end in `live`.
    ends: Vec<usize>,
}

impl Replay {
    /// Walks the lives once and lays checkpoints.
    pub fn new(device: &DeviceMemory) -> Replay {
        let mut replay = Replay::default();
        let (died, end) = (device.allocations.died(), device.end());
        let (mut position, mut born) = (Position::START, 0);
        let mut live: Vec<AllocationId> = Vec::new();
        loop {
            let now_born = device.allocations.born_by(position);
            live.retain(|id| position < died[id.0 as usize]);
            live.extend((born..now_born).filter(|row| position < died[*row]).map(|row| AllocationId(row as u32)));
            born = now_born;
            replay.positions.push(position);
            replay.live.extend_from_slice(&live);
            replay.ends.push(replay.live.len());
            position = Position(position.0.saturating_add(SHORTEST_INTERVAL.max(live.len() as u32)));
            if end < position {
                return replay;
            }
        }
    }
    /// The ids active at a position (allocated or pending), in order of birth, into `ids`.
    pub fn live_at(&self, device: &DeviceMemory, position: Position, ids: &mut Vec<AllocationId>) {
        ids.clear();
        let position = position.min(device.end());
        let Some(nearest) = self.positions.partition_point(|checkpoint| *checkpoint <= position).checked_sub(1) else {
            return;
        };
        let died = device.allocations.died();
        let start = if nearest == 0 { 0 } else { self.ends[nearest - 1] };
        ids.extend(self.live[start..self.ends[nearest]].iter().filter(|id| position < died[id.0 as usize]));
        let born = device.allocations.born();
        let first = born.partition_point(|born| *born <= self.positions[nearest]);
        let since = born[first..].iter().take_while(|born| **born <= position).count();
        ids.extend((first..first + since).filter(|row| position < died[*row]).map(|row| AllocationId(row as u32)));
    }
    /// The whole state at a position; positions beyond the trace are its end.
    pub fn state_at(&self, device: &DeviceMemory, position: Position) -> MemoryState {
        let position = position.min(device.end());
        let mut ids = Vec::new();
        self.live_at(device, position, &mut ids);
        let addresses = device.allocations.addresses();
        ids.sort_unstable_by_key(|id| (addresses[id.0 as usize], *id));
        let mut laying = Laying { device, state: MemoryState { position, ..MemoryState::default() }, pools: BTreeMap::new() };
        laying.lay(&ids);
        laying.state
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        (self.positions.capacity() + self.live.capacity()) * 4 + self.ends.capacity() * size_of::<usize>()
    }
}

/// A state while it is being laid out.
struct Laying<'a> {
    device: &'a DeviceMemory,
    state: MemoryState,
    pools: BTreeMap<(PoolId, SizeClass, StreamId), PoolState>,
}

impl Laying<'_> {
    fn lay(&mut self, ids: &[AllocationId]) {
        let mut ids = ids.iter().copied().peekable();
        let position = self.state.position;
        let exists = |piece: &&Segment| !piece.inferred && piece.exists_at(position);
        // From the lives, like every other total: where contradictory input makes segments overlap, the
        // layout below shows each byte once.
        self.state.totals.reserved =
            self.device.segments.as_slice().iter().filter(exists).fold(0, |sum: u64, piece| sum.saturating_add(piece.size));
        for (id, piece, end) in runs(self.device, self.state.position) {
            // A block outside every segment is given one of its own by `lives`; a stray one is still counted.
            while let Some(stray) = ids.next_if(|id| self.device.allocations.addresses()[id.0 as usize] < piece.address) {
                self.count(stray);
            }
            let first = self.state.blocks.len();
            let (mut cursor, mut active, mut free, mut largest) = (piece.address, 0u64, 0u64, 0u64);
            let mut gap = |blocks: &mut Vec<StateBlock>, from: u64, to: u64| {
                if from < to {
                    free += to - from;
                    largest = largest.max(to - from);
                    let state = BlockState::Inactive;
                    blocks.push(StateBlock { address: from, size: to - from, requested: 0, state, allocation: None });
                }
            };
            while let Some(id) = ids.next_if(|id| self.device.allocations.addresses()[id.0 as usize] < end) {
                let block = self.count(id);
                gap(&mut self.state.blocks, cursor, block.address);
                cursor = cursor.max(block.address.saturating_add(block.size));
                active = active.saturating_add(block.size);
                self.state.blocks.push(block);
            }
            gap(&mut self.state.blocks, cursor, end);
            let size = end - piece.address;
            self.state.largest_free_block = self.state.largest_free_block.max(largest);
            if !piece.expandable && 0 < active {
                self.state.inactive_split += free;
            }
            let Segment { address, stream, pool, class, expandable, stack, inferred, .. } = piece;
            let blocks = first..self.state.blocks.len();
            self.state.segments.push(StateSegment {
                address,
                size,
                id,
                stream,
                pool,
                class,
                expandable,
                stack,
                inferred,
                blocks,
            });
            let sums = self.pools.entry((pool, class, stream)).or_insert(PoolState {
                pool,
                class,
                stream,
                reserved: 0,
                active: 0,
                free: 0,
                largest_free_block: 0,
                segments: 0,
            });
            sums.reserved += if inferred { 0 } else { size };
            sums.active = sums.active.saturating_add(active);
            sums.free += free;
            sums.largest_free_block = sums.largest_free_block.max(largest);
            sums.segments += u64::from(!inferred);
        }
        for stray in ids {
            self.count(stray);
        }
        self.state.pools = std::mem::take(&mut self.pools).into_values().collect();
    }

    fn count(&mut self, id: AllocationId) -> StateBlock {
        let life = self.device.allocations.get(id);
        let state = life.state_at(self.state.position);
        let Totals { reserved: _, allocated, active, requested } = &mut self.state.totals;
        if state == BlockState::ActiveAllocated {
            *allocated = allocated.saturating_add(life.size);
        }
        *active = active.saturating_add(life.size);
        // What blocks say they were asked for is bounded by nothing.
        *requested = requested.saturating_add(life.requested);
        self.state.active_blocks += 1;
        StateBlock { address: life.address, size: life.size, requested: life.requested, state, allocation: Some(id) }
    }
}

/// The segments at a position in address order, neighbouring pieces of one expandable segment joined:
/// first piece, its row, and where the run ends.
fn runs(device: &DeviceMemory, position: Position) -> Vec<(SegmentId, Segment, u64)> {
    let born = device.segments.as_slice().partition_point(|piece| piece.born <= position);
    let mut pieces: Vec<(SegmentId, Segment)> =
        device.segments.iter().take(born).filter(|(_, piece)| position < piece.died).map(|(id, piece)| (id, *piece)).collect();
    pieces.sort_unstable_by_key(|(id, piece)| (piece.address, *id));
    let mut runs: Vec<(SegmentId, Segment, u64)> = Vec::with_capacity(pieces.len());
    for (id, piece) in pieces {
        match runs.last_mut() {
            Some((_, first, end)) if *end == piece.address && joins(first, &piece) => *end = piece.end(),
            // Overlapping segments contradict each other; the later one keeps what is left of it.
            Some((_, _, end)) if piece.address < *end => {
                if *end < piece.end() {
                    let rest = Segment { address: *end, size: piece.end() - *end, ..piece };
                    runs.push((id, rest, rest.end()));
                }
            }
            _ => runs.push((id, piece, piece.end())),
        }
    }
    runs
}

/// Whether two neighbouring pieces are one segment to PyTorch: same expandable reservation.
/// Two reservations of one stream and pool are taken for one where they touch.
pub(crate) fn joins(a: &Segment, b: &Segment) -> bool {
    a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool && a.class == b.class
}
