//! Pairs segment events into lives of segments and mapped pieces.
//!
//! Always: no two pieces overlap at any position; at the end of the trace the pieces cover exactly the
//! file's segments wherever trace and file agree. A range that is given back without having been seen
//! given was there before the trace; a range the file states and no event made was there throughout.

use crate::base::RangeMap;
use crate::model::settings::SMALL_SEGMENT;
use crate::model::{Action, PoolId, Position, Segment, SizeClass, StackId, Trace, TraceEntry, WarningKind, Warnings};
use crate::replay::builder::{SegmentRecord, note};

/// Segment lives in order of discovery, with what was guessed about them.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// The lives.
    pub rows: Vec<Segment>,
    /// Lives whose size class no file and no size tells; decided by what is allocated in them.
    pub class_guessed: Vec<bool>,
    /// Pieces in the trace's end that the file's segments do not hold.
    pub missing_at_end: u64,
}

/// Walks the segment events of a trace from what the source states for its start, then ties the result to the file's
/// segments (sorted by address).
pub fn infer(
    ordinal: i32,
    trace: &Trace,
    start: &[SegmentRecord],
    records: &[SegmentRecord],
    known: bool,
    warnings: &mut Warnings,
) -> Pieces {
    let mut walk = Walk { ordinal, pieces: Pieces::default(), open: RangeMap::new(), gone: RangeMap::new(), warnings };
    walk.begin_with(start);
    for event in trace.events() {
        let position = Position::after(event);
        match trace.actions()[event.0 as usize] {
            Action::SegmentAlloc => walk.given(position, trace.entry(event), false),
            Action::SegmentMap => walk.given(position, trace.entry(event), true),
            Action::SegmentFree => walk.taken(position, trace.entry(event), false),
            Action::SegmentUnmap => walk.taken(position, trace.entry(event), true),
            Action::Alloc
            | Action::FreeRequested
            | Action::FreeCompleted
            | Action::Snapshot
            | Action::Oom
            | Action::Annotate
            | Action::Unknown => {}
        }
    }
    walk.tie_to_end(records, known);
    walk.guess_classes();
    walk.pieces
}

/// Ties what is older than the trace to the segments that the source states for its start; where nothing states the
/// end, those that no event is about are there throughout.
pub fn tie_to_start(pieces: &mut Pieces, start: &[SegmentRecord], end_known: bool) {
    let mut older: RangeMap<usize> = RangeMap::new();
    for (row, piece) in pieces.rows.iter().enumerate().filter(|(_, piece)| piece.born == Position::START) {
        older.insert(piece.address..piece.end(), row);
    }
    for record in start {
        let range = record.address..record.address.saturating_add(record.size);
        for (_, row) in older.overlapping(range.clone()) {
            let piece = &mut pieces.rows[row];
            (piece.stream, piece.pool, piece.class) = (record.stream, record.pool, record.class);
            if piece.stack == StackId::ABSENT {
                piece.stack = record.stack;
            }
            pieces.class_guessed[row] = false;
        }
        for hole in older.holes(range).into_iter().filter(|_| !end_known) {
            pieces.rows.push(Segment {
                address: hole.start,
                size: hole.end - hole.start,
                born: Position::START,
                died: Position::NEVER,
                stream: record.stream,
                pool: record.pool,
                class: record.class,
                expandable: record.expandable,
                stack: record.stack,
                inferred: false,
            });
            pieces.class_guessed.push(false);
        }
    }
}

struct Walk<'a> {
    ordinal: i32,
    pieces: Pieces,
    /// Rows of the pieces that exist now.
    open: RangeMap<usize>,
    /// Where memory was given back, and when last.
    gone: RangeMap<u32>,
    warnings: &'a mut Warnings,
}

impl Walk<'_> {
    fn push(&mut self, piece: Segment, class_guessed: bool) -> usize {
        self.pieces.rows.push(piece);
        self.pieces.class_guessed.push(class_guessed);
        self.pieces.rows.len() - 1
    }

    fn begin_with(&mut self, start: &[SegmentRecord]) {
        for record in start {
            let range = record.address..record.address.saturating_add(record.size);
            if range.is_empty() {
                continue;
            }
            if self.open.overlapping(range.clone()).next().is_some() {
                self.mismatch(Position::START, "segment stated twice at the start", record.address);
                continue;
            }
            let row = self.push(stated(record), false);
            self.open.insert(range, row);
        }
    }

    /// `segment_alloc`, `segment_map`.
    fn given(&mut self, position: Position, entry: TraceEntry, expandable: bool) {
        let range = entry.address..entry.address.saturating_add(entry.size);
        if range.is_empty() {
            return self.mismatch(position, "segment of no bytes", entry.address);
        }
        if !self.end_pieces(position, range.clone()).is_empty() {
            self.mismatch(position, "segment given twice", entry.address);
        }
        let small = entry.size == SMALL_SEGMENT;
        let row = self.push(
            Segment {
                address: entry.address,
                size: range.end - range.start,
                born: position,
                died: Position::NEVER,
                stream: entry.stream,
                pool: entry.pool.unwrap_or(PoolId::DEFAULT),
                class: if small { SizeClass::Small } else { SizeClass::Large },
                expandable,
                stack: entry.stack,
                inferred: false,
            },
            false,
        );
        self.open.insert(range, row);
    }

    /// `segment_free`, `segment_unmap`.
    fn taken(&mut self, position: Position, entry: TraceEntry, expandable: bool) {
        let range = entry.address..entry.address.saturating_add(entry.size);
        if range.is_empty() {
            return self.mismatch(position, "segment of no bytes", entry.address);
        }
        let ended = self.end_pieces(position, range.clone());
        let mut covered = RangeMap::new();
        for piece in ended {
            covered.insert(piece, ());
        }
        let guessed = expandable && entry.size != SMALL_SEGMENT;
        let class = if entry.size == SMALL_SEGMENT { SizeClass::Small } else { SizeClass::Large };
        for hole in covered.holes(range.clone()) {
            for (part, born) in self.unseen(hole) {
                if born != Position::START {
                    self.mismatch(position, "segment given back twice", part.start);
                }
                let piece = Segment {
                    address: part.start,
                    size: part.end - part.start,
                    born,
                    died: position,
                    stream: entry.stream,
                    pool: entry.pool.unwrap_or(PoolId::DEFAULT),
                    class,
                    expandable,
                    stack: StackId::ABSENT,
                    inferred: false,
                };
                self.push(piece, guessed);
            }
        }
        self.gone.insert(range, position.0);
    }

    /// A range that nothing is known to have covered, cut by when parts of it were last given back:
    /// a part never given back is older than the trace.
    fn unseen(&self, hole: std::ops::Range<u64>) -> Vec<(std::ops::Range<u64>, Position)> {
        let mut parts: Vec<_> = self.gone.holes(hole.clone()).into_iter().map(|part| (part, Position::START)).collect();
        for (range, when) in self.gone.overlapping(hole.clone()) {
            parts.push((range.start.max(hole.start)..range.end.min(hole.end), Position(when)));
        }
        parts.sort_unstable_by_key(|(part, _)| part.start);
        parts
    }

    /// Ends whatever exists in a range; what sticks out of it goes on as a piece of its own.
    fn end_pieces(&mut self, position: Position, range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        let mut ended = Vec::new();
        for (whole, row) in self.open.overlapping(range.clone()).collect::<Vec<_>>() {
            let piece = self.pieces.rows[row];
            self.pieces.rows[row].died = position;
            self.open.cut(whole.clone());
            self.gone.insert(whole.start.max(range.start)..whole.end.min(range.end), position.0);
            ended.push(whole.start.max(range.start)..whole.end.min(range.end));
            for rest in [whole.start..range.start.min(whole.end), range.end.max(whole.start)..whole.end] {
                if !rest.is_empty() {
                    let rest_piece = Segment { address: rest.start, size: rest.end - rest.start, born: position, ..piece };
                    let rest_row = self.push(rest_piece, self.pieces.class_guessed[row]);
                    self.open.insert(rest, rest_row);
                }
            }
        }
        ended
    }

    fn tie_to_end(&mut self, records: &[SegmentRecord], known: bool) {
        let mut covered = RangeMap::new();
        for record in records {
            let range = record.address..record.address.saturating_add(record.size);
            let stated = stated(record);
            for (piece, row) in self.open.overlapping(range.clone()).collect::<Vec<_>>() {
                let found = &mut self.pieces.rows[row];
                if piece.start < range.start || range.end < piece.end || (!record.expandable && piece != range) {
                    let place = piece.start;
                    self.mismatch(Position(u32::MAX), "segment in the file differs from the trace", place);
                    continue;
                }
                (found.stream, found.pool, found.class) = (stated.stream, stated.pool, stated.class);
                found.expandable = stated.expandable;
                if found.stack == StackId::ABSENT {
                    found.stack = stated.stack;
                }
                self.pieces.class_guessed[row] = false;
            }
            for hole in self.open.holes(range.clone()) {
                for (part, born) in self.unseen(hole) {
                    if born != Position::START {
                        self.mismatch(Position(u32::MAX), "segment in the file that the trace gave back", part.start);
                    }
                    let row = self.push(Segment { address: part.start, size: part.end - part.start, born, ..stated }, false);
                    self.open.insert(part, row);
                }
            }
            covered.insert(range, ());
        }
        if known {
            let strays = self.open.iter().filter(|(piece, _)| !covered.holes(piece.clone()).is_empty());
            let strays: Vec<u64> = strays.map(|(piece, _)| piece.start).collect();
            self.pieces.missing_at_end = strays.len() as u64;
            for address in strays {
                self.mismatch(Position(u32::MAX), "segment of the trace's end that the file does not hold", address);
            }
        }
    }

    /// Mapped ranges of one half lie together: what was never seen mapped is of the half of the nearest that was.
    fn guess_classes(&mut self) {
        let rows = self.pieces.rows.iter().zip(&self.pieces.class_guessed);
        let told: Vec<Segment> = rows.filter(|(row, guessed)| row.expandable && !**guessed).map(|(row, _)| *row).collect();
        for (row, guessed) in self.pieces.rows.iter_mut().zip(&self.pieces.class_guessed) {
            let distance =
                |other: &&Segment| other.address.saturating_sub(row.end()).max(row.address.saturating_sub(other.end()));
            let near = told.iter().filter(|other| *guessed && other.stream == row.stream).min_by_key(distance);
            row.class = near.map_or(row.class, |near| near.class);
        }
    }

    fn mismatch(&mut self, position: Position, what: &str, address: u64) {
        let ordinal = self.ordinal;
        if position == Position::NEVER {
            self.warnings.push(WarningKind::SegmentMismatch, || format!("device {ordinal}, at the end: {what} at 0x{address:x}"));
        } else {
            note(self.warnings, WarningKind::SegmentMismatch, ordinal, position.0.saturating_sub(1), what, address);
        }
    }
}

/// A segment that a record states, as if it had always been there.
fn stated(record: &SegmentRecord) -> Segment {
    Segment {
        address: record.address,
        size: record.size,
        born: Position::START,
        died: Position::NEVER,
        stream: record.stream,
        pool: record.pool,
        class: record.class,
        expandable: record.expandable,
        stack: record.stack,
        inferred: false,
    }
}
