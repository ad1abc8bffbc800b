//! Infers what the trace does not say: how large each block was, and which segment it lay in.
//!
//! An event tells the requested size only. A block alive at the dump has its size stated; any other takes
//! the low end of a free range, so its size follows from that range by the allocator's own split rule
//! (`AllocatorSettings::block_size`). Ranges are known exactly as long as every neighbour is; a block that
//! is older than the trace and freed in it is guessed from its neighbours and corrected by whatever is
//! allocated next to it later. (Rules and how they were tried on real traces: a large block owns a gap of
//! at most 1 MiB behind it, since a larger rest would have been split off.)
//!
//! Always, when done: no two live blocks overlap, and every block lies in a piece or in one of its own.

use crate::base::{Cancelled, Progress, RangeMap};
use crate::model::settings::{MIN_BLOCK, SMALL_LIMIT};
use crate::model::{
    Action, Allocation, AllocationFlags, AllocatorSettings, BlockState, Position, SegmentId, SizeClass, Trace, WarningKind,
    Warnings,
};
use crate::replay::builder::SegmentRecord;
use crate::replay::checkpoint::joins;
use crate::replay::lives::{Findings, Work, addressed, fitting, own_segment};
use std::collections::BTreeMap;

/// Infers sizes and segments of all lives.
pub(crate) fn infer(
    work: &mut Work,
    trace: &Trace,
    records: &[SegmentRecord],
    settings: &AllocatorSettings,
    findings: &mut Findings,
    warnings: &mut Warnings,
    progress: &Progress,
) -> Result<(), Cancelled> {
    let mut settings = settings.clone();
    if !settings.stated && 0 <= work.ordinal {
        findings.roundup_guessed = guess_roundup(records, &settings);
        settings.roundup_power2_divisions = [findings.roundup_guessed; 16];
    }
    let mut births: Vec<(Position, u32)> =
        work.pieces.rows.iter().enumerate().map(|(row, piece)| (piece.born, row as u32)).collect();
    births.sort_unstable();
    let mut walk = Walk {
        births,
        host: work.ordinal < 0,
        work,
        settings,
        findings,
        warnings,
        live: BTreeMap::new(),
        mapped: BTreeMap::new(),
        late: BTreeMap::new(),
        end: trace.end(),
    };
    walk.start();
    walk.events(trace, progress)?;
    walk.finish();
    Ok(())
}

/// The scalar `roundup_power2_divisions` that explains the stated sizes of the file's blocks where the default
/// does not; 0 where the default explains as many. (Files before PyTorch 2.3 do not hold their settings.)
fn guess_roundup(records: &[SegmentRecord], settings: &AllocatorSettings) -> u64 {
    let blocks: Vec<(u64, u64)> = records
        .iter()
        .flat_map(addressed)
        .filter(|(_, block)| block.state != BlockState::Inactive)
        .filter_map(|(_, block)| Some((block.requested?, block.size)))
        .collect();
    let explained = |divisions: u64| {
        let rule = AllocatorSettings { roundup_power2_divisions: [divisions; 16], ..settings.clone() };
        blocks.iter().filter(|(requested, size)| rule.round(*requested) == *size).count()
    };
    let plain = explained(0);
    [2, 4, 8, 16, 32]
        .into_iter()
        .filter(|d| plain < explained(*d))
        .max_by_key(|d| (explained(*d), std::cmp::Reverse(*d)))
        .unwrap_or(0)
}

struct Walk<'a> {
    host: bool,
    work: &'a mut Work,
    settings: AllocatorSettings,
    findings: &'a mut Findings,
    warnings: &'a mut Warnings,
    /// Live blocks by address: row and end.
    live: BTreeMap<u64, (u64, u32)>,
    /// Pieces that exist now, by address: row and end.
    mapped: BTreeMap<u64, (u64, u32)>,
    /// Lives to begin later than their events say, because something else held their place.
    late: BTreeMap<Position, Vec<u32>>,
    /// When each piece begins to exist, ascending.
    births: Vec<(Position, u32)>,
    end: Position,
}

impl Walk<'_> {
    /// Lays out what is older than the trace.
    fn start(&mut self) {
        for row in 0..self.work.pieces.rows.len() {
            self.map(row as u32, Position::START);
        }
        let older = |life: &Allocation| life.born == Position::START;
        for (row, life) in self.work.rows.iter().enumerate() {
            if !older(life) && !life.flags.has(AllocationFlags::ALLOC_SEEN) {
                self.late.entry(life.born).or_default().push(row as u32);
            }
        }
        let mut rows: Vec<u32> = (0..self.work.rows.len() as u32).filter(|row| older(&self.work.rows[*row as usize])).collect();
        rows.sort_by_key(|row| self.work.rows[*row as usize].address);
        // A block that never appears in the trace is only known from its end: where it contradicts a block
        // that does appear, it must be the newer one. So those that appear are laid first.
        let mut given_later = RangeMap::new();
        for piece in self.work.pieces.rows.iter().filter(|piece| piece.born != Position::START && piece.died == Position::NEVER) {
            given_later.insert(piece.address..piece.end(), ());
        }
        let (ghosts, seen): (Vec<u32>, Vec<u32>) = rows.into_iter().partition(|row| self.is_ghost(*row));
        for row in seen.iter().chain(&ghosts) {
            let life = self.work.rows[*row as usize];
            if self.is_ghost(*row) && self.piece_at(life.address).is_none() && given_later.at(life.address).is_some() {
                // The trace gave its segment first.
                self.move_birth(*row, self.end);
                continue;
            }
            let size = if life.flags.has(AllocationFlags::SIZE_STATED) { life.size } else { self.least_size(&life) };
            if let Some(other) = self.overlapping(life.address, life.address.saturating_add(size)) {
                self.postpone(*row, other);
            } else {
                self.work.rows[*row as usize].size = size;
                self.live.insert(life.address, (life.address.saturating_add(size), *row));
            }
        }
        // Only now are all neighbours known.
        for row in seen {
            let life = self.work.rows[row as usize];
            if life.flags.has(AllocationFlags::SIZE_STATED) || self.live.get(&life.address).is_none_or(|(_, r)| *r != row) {
                continue;
            }
            self.findings.sizes_guessed += 1;
            let rounded = self.least_size(&life);
            let Some(bound) = self.free_end(life.address, rounded) else { continue };
            let class = AllocatorSettings::class(rounded);
            let expandable = self.piece_at(life.address).is_some_and(|piece| self.work.pieces.rows[piece as usize].expandable);
            let size = if self.host {
                life.requested
            } else {
                self.settings.block_size(rounded, bound - life.address, class, expandable)
            };
            self.resize(row, size.min(bound - life.address));
        }
        for (_, (_, row)) in self.live.clone() {
            self.settle(row);
        }
    }

    fn events(&mut self, trace: &Trace, progress: &Progress) -> Result<(), Cancelled> {
        let pieces = &self.work.pieces.rows;
        let mut changes: Vec<(Position, bool, u32)> = Vec::new();
        for (row, piece) in pieces.iter().enumerate() {
            for (position, born) in [(piece.died, false), (piece.born, true)] {
                if position != Position::START && position != Position::NEVER {
                    changes.push((position, born, row as u32));
                }
            }
        }
        changes.sort_unstable();
        let mut changes = changes.into_iter().peekable();
        for event in trace.events() {
            if event.0 % 65_536 == 0 {
                progress.at(u64::from(event.0))?;
            }
            let position = Position::after(event);
            while let Some((_, born, row)) = changes.next_if(|(when, ..)| *when <= position) {
                if born { self.map(row, position) } else { self.unmap(row, position) }
            }
            match trace.actions()[event.0 as usize] {
                Action::Alloc => {
                    if let Some(row) = self.subject(event.0) {
                        self.begin(row, position);
                    }
                }
                Action::FreeRequested | Action::FreeCompleted => {
                    if let Some(row) = self.subject(event.0).filter(|row| self.work.rows[*row as usize].died == position) {
                        self.release(row);
                    }
                }
                Action::SegmentAlloc
                | Action::SegmentFree
                | Action::SegmentMap
                | Action::SegmentUnmap
                | Action::Snapshot
                | Action::Oom
                | Action::Annotate
                | Action::Unknown => {}
            }
            while let Some(rows) = self.late.first_entry().filter(|entry| *entry.key() <= position).map(|entry| entry.remove()) {
                for row in rows {
                    self.begin(row, position);
                }
            }
        }
        Ok(())
    }

    /// Begins what only the end knows, and gives blocks outside every piece one of their own.
    fn finish(&mut self) {
        let waiting: Vec<u32> = std::mem::take(&mut self.late).into_values().flatten().collect();
        for row in waiting {
            self.begin(row, self.end);
        }
        for row in 0..self.work.rows.len() as u32 {
            let life = self.work.rows[row as usize];
            if life.segment.0 == u32::MAX && life.born < life.died {
                let ordinal = self.work.ordinal;
                self.findings.without_segment += 1;
                if self.work.tells_segments {
                    self.warnings.push(WarningKind::NoSegment, || format!("device {ordinal}, block at 0x{:x}", life.address));
                }
                if life.size == 0 {
                    self.work.rows[row as usize].size = self.least_size(&life);
                }
                self.work.rows[row as usize].segment = SegmentId(self.work.pieces.rows.len() as u32);
                self.work.pieces.rows.push(own_segment(&self.work.rows[row as usize]));
                self.work.pieces.class_guessed.push(false);
            }
        }
    }

    /// A life begins: its size from the gap it takes, its neighbours corrected where they stand in its way.
    fn begin(&mut self, row: u32, position: Position) {
        let life = self.work.rows[row as usize];
        let rounded = self.least_size(&life);
        let least = if life.flags.has(AllocationFlags::SIZE_STATED) { life.size } else { life.requested.max(1) };
        self.make_room(row, life.address, life.address.saturating_add(least), position);
        if !life.flags.has(AllocationFlags::SIZE_STATED) {
            let class = AllocatorSettings::class(rounded);
            let size = match (self.free_end(life.address, rounded), self.piece_at(life.address)) {
                (Some(bound), Some(piece)) if !self.host => {
                    let piece = piece as usize;
                    if std::mem::take(&mut self.work.pieces.class_guessed[piece]) {
                        self.work.pieces.rows[piece].class = class;
                    }
                    let free = bound - life.address;
                    self.settings.block_size(rounded, free, class, self.work.pieces.rows[piece].expandable).min(free)
                }
                (Some(bound), _) => rounded.min(bound - life.address),
                (None, _) => rounded,
            };
            self.work.rows[row as usize].size = size;
        }
        let life = self.work.rows[row as usize];
        self.live.insert(life.address, (life.end(), row));
        self.settle(row);
    }

    /// Clears `[address, end)` of live blocks for the life of `row`, by the mildest explanation for each.
    fn make_room(&mut self, row: u32, address: u64, end: u64, position: Position) {
        while let Some(other) = self.overlapping(address, end) {
            let life = self.work.rows[other as usize];
            let stated = life.flags.has(AllocationFlags::SIZE_STATED);
            if !stated && life.address < address && life.requested <= address - life.address {
                // It was smaller than guessed: what reaches in is a rest that had been split off.
                self.resize(other, address - life.address);
                self.corrected(&life);
            } else if self.is_ghost(other) && self.is_ghost(row) {
                self.live.remove(&life.address);
                self.keep_out(other);
            } else if self.is_ghost(other) {
                // Known from the end only, so it must have come after all that is recorded here.
                self.live.remove(&life.address);
                self.move_birth(other, self.end);
            } else {
                let ordinal = self.work.ordinal;
                let event = position.event_number();
                self.warnings.push(WarningKind::AlreadyLive, || {
                    format!("device {ordinal}, event {event}: block at 0x{address:x} over the one at 0x{:x}", life.address)
                });
                self.live.remove(&life.address);
                self.kill(other, position);
            }
        }
        // A gap between the block before and this one would have served this one from its start: the block
        // before must own it.
        let Some((&before, &(before_end, row))) = self.live.range(..address).next_back() else { return };
        let life = self.work.rows[row as usize];
        let gap = address - before_end;
        if gap == 0 || life.flags.has(AllocationFlags::SIZE_STATED) || SMALL_LIMIT < gap || self.host {
            return;
        }
        let (Some(piece), Some(own)) = (self.piece_at(before), self.piece_at(address)) else { return };
        let may_own = AllocatorSettings::class(self.least_size(&life)) == SizeClass::Large
            && !self.work.pieces.rows[piece as usize].expandable;
        if piece == own && may_own {
            self.resize(row, address - before);
            self.corrected(&life);
        }
    }

    fn corrected(&mut self, life: &Allocation) {
        let (ordinal, address) = (self.work.ordinal, life.address);
        self.warnings.push(WarningKind::SizeCorrected, || format!("device {ordinal}, block at 0x{address:x}"));
    }

    /// A life older than the trace cannot be where another is: it begins when that one ends.
    fn postpone(&mut self, row: u32, other: u32) {
        let until = if self.is_ghost(row) { self.end } else { self.work.rows[other as usize].died };
        let both_only_at_end = self.is_ghost(row) && self.is_ghost(other);
        if both_only_at_end || until == Position::NEVER || self.work.rows[row as usize].died <= until {
            self.keep_out(row);
        } else {
            self.move_birth(row, until);
        }
    }

    /// A life that could never begin, because the file lists overlapping blocks: it is kept out of every state.
    fn keep_out(&mut self, row: u32) {
        let life = &mut self.work.rows[row as usize];
        (life.born, life.freed, life.died) = (self.end, self.end, self.end);
        let (ordinal, address) = (self.work.ordinal, life.address);
        self.warnings.push(WarningKind::BadLayout, || format!("device {ordinal}, overlapping block at 0x{address:x}"));
    }

    fn move_birth(&mut self, row: u32, to: Position) {
        let life = &mut self.work.rows[row as usize];
        life.born = to;
        life.freed = life.freed.max(to);
        life.died = life.died.max(to);
        life.flags.set(AllocationFlags::IMPLIED);
        let (ordinal, address) = (self.work.ordinal, life.address);
        self.warnings.push(WarningKind::NewerThanTrace, || format!("device {ordinal}, block at 0x{address:x}"));
        self.late.entry(to).or_default().push(row);
    }

    fn kill(&mut self, row: u32, position: Position) {
        let life = &mut self.work.rows[row as usize];
        life.freed = life.freed.min(position);
        life.died = position;
        life.flags.set(AllocationFlags::IMPLIED);
    }

    fn release(&mut self, row: u32) {
        let address = self.work.rows[row as usize].address;
        if self.live.get(&address).is_some_and(|(_, live)| *live == row) {
            self.live.remove(&address);
        }
    }

    fn resize(&mut self, row: u32, size: u64) {
        let life = &mut self.work.rows[row as usize];
        life.size = size;
        self.live.insert(life.address, (life.end(), row));
    }

    /// Ties a live block to the piece its first byte lies in.
    fn settle(&mut self, row: u32) {
        if let Some(piece) = self.piece_at(self.work.rows[row as usize].address) {
            self.work.rows[row as usize].segment = SegmentId(piece);
        }
    }

    fn map(&mut self, row: u32, position: Position) {
        let piece = &self.work.pieces.rows[row as usize];
        if piece.born <= position && position < piece.died {
            self.mapped.insert(piece.address, (piece.end(), row));
        }
    }

    fn unmap(&mut self, row: u32, position: Position) {
        let piece = self.work.pieces.rows[row as usize];
        if self.mapped.get(&piece.address).is_some_and(|(_, mapped)| *mapped == row) {
            self.mapped.remove(&piece.address);
        }
        // A piece that was cut goes on as its parts at this same position; blocks in those live on.
        let parts: Vec<std::ops::Range<u64>> = if piece.expandable {
            let part = |other: &&crate::model::Segment| other.address < piece.end() && piece.address < other.end();
            let now = self.births.partition_point(|(born, _)| *born < position);
            let born_now = self.births[now..].iter().take_while(|(born, _)| *born == position);
            let others = born_now.map(|(_, row)| &self.work.pieces.rows[*row as usize]);
            others.filter(part).map(|other| other.address..other.end()).collect()
        } else {
            Vec::new()
        };
        let inside: Vec<(u64, u32)> = self.live.range(piece.address..piece.end()).map(|(a, (_, r))| (*a, *r)).collect();
        for (address, live) in inside {
            if !parts.iter().any(|part| part.contains(&address)) {
                if self.is_ghost(live) {
                    // The file has it at the end, so it lies in what was given at this place later.
                    self.live.remove(&address);
                    self.move_birth(live, self.end);
                    continue;
                }
                let (ordinal, event) = (self.work.ordinal, position.event_number());
                self.warnings.push(WarningKind::BlocksInFreedSegment, || {
                    format!("device {ordinal}, event {event}: block at 0x{address:x}")
                });
                self.live.remove(&address);
                self.kill(live, position);
            }
        }
    }

    fn subject(&self, event: u32) -> Option<u32> {
        let row = self.work.subjects[event as usize];
        (row != crate::model::snapshot::NO_SUBJECT).then_some(row)
    }

    /// Known from the file's segments alone: no event of the trace is about it.
    fn is_ghost(&self, row: u32) -> bool {
        let flags = self.work.rows[row as usize].flags;
        !flags.has(AllocationFlags::ALLOC_SEEN) && !flags.has(AllocationFlags::FREE_SEEN)
    }

    /// The size without anything left unsplit.
    fn least_size(&self, life: &Allocation) -> u64 {
        let asked = life.requested.max(1);
        fitting(life.address, if self.host { asked } else { self.settings.round(asked).max(MIN_BLOCK) })
    }

    fn piece_at(&self, address: u64) -> Option<u32> {
        let (_, (end, row)) = self.mapped.range(..=address).next_back()?;
        (address < *end).then_some(*row)
    }

    fn overlapping(&self, address: u64, end: u64) -> Option<u32> {
        let (_, (other_end, row)) = self.live.range(..end).next_back()?;
        (address < *other_end).then_some(*row)
    }

    /// Where the free range that starts at or holds `address` ends: at the next live block, or at the end of
    /// the segment. None outside every piece. In an expandable segment, where any rest is split off, it is not
    /// followed further than a block of `wanted` bytes and the smallest rest.
    fn free_end(&self, address: u64, wanted: u64) -> Option<u64> {
        let (_, (mut end, mut row)) = self.mapped.range(..=address).next_back().map(|(a, e)| (*a, *e))?;
        if end <= address {
            return None;
        }
        let next = self.live.range(address.saturating_add(1)..).next().map_or(u64::MAX, |(next, _)| *next);
        let rows = &self.work.pieces.rows;
        let enough = address.saturating_add(wanted).saturating_add(MIN_BLOCK);
        while end < next.min(enough) && rows[row as usize].expandable {
            match self.mapped.get(&end) {
                Some((next_end, next_row)) if joins(&rows[row as usize], &rows[*next_row as usize]) => {
                    (end, row) = (*next_end, *next_row)
                }
                _ => break,
            }
        }
        Some(end.min(next))
    }
}
