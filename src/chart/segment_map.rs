//! The layout of memory at one moment: every segment with its blocks and gaps, widths true to scale.
//!
//! Always: one scale of bytes for all rows, so that big and small compare; segments stand in address order
//! under a header line per pool, size class and stream; what is narrower than a cell is summed by coverage.

use crate::analysis::Found;
use crate::base::{Bytes, grouped};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, Shape, TextSize};
use crate::chart::ink::{BlockColour, Ink, Inks, pool_name, stream_name};
use crate::model::{AllocationId, BlockState, DeviceMemory, Item, PoolId, SizeClass, Snapshot, StreamId};
use crate::replay::{MemoryState, PoolState, StateBlock, StateSegment};
use std::collections::BTreeMap;
use std::ops::Range;

/// All that the layout picture depends on.
#[derive(Clone, Copy, Debug)]
pub struct SegmentMapInput<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device's memory.
    pub memory: &'a DeviceMemory,
    /// Its state at the moment.
    pub state: &'a MemoryState,
    /// Colours of blocks.
    pub inks: &'a Inks,
    /// Width in points.
    pub width_pt: f32,
    /// Height of what is visible, in points.
    pub height_pt: f32,
    /// How far it is scrolled down, in points.
    pub scroll_pt: f32,
    /// Bytes a row holds; none: as many as bring everything into the height, if rows get no thinner than readable.
    pub bytes_per_row: Option<u64>,
    /// Only the segment that holds this address.
    pub focus: Option<u64>,
    /// A request in bytes: gaps smaller than it are hatched.
    pub request: Option<u64>,
    /// What is selected.
    pub selected: Option<Item>,
    /// What the pointer is on.
    pub hovered: Option<Item>,
    /// What was searched for: all other blocks fade.
    pub found: Option<&'a Found>,
}

/// The laid-out picture with what scrolling needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentMapDrawing {
    /// What is visible.
    pub drawing: Drawing,
    /// Height of everything, in points.
    pub content_height_pt: f32,
    /// Bytes a row holds.
    pub bytes_per_row: u64,
}

/// Left and right margin.
const MARGIN_PT: f32 = 8.0;
/// Height of a group's header line.
const HEADER_PT: f32 = 24.0;
/// Space below a group.
const GROUP_GAP_PT: f32 = 6.0;
/// Space below a row.
const ROW_GAP_PT: f32 = 4.0;
/// Row heights: as planned, and how far rows may grow where there is room.
const ROW_PT: f32 = 17.0;
const TALLEST_ROW_PT: f32 = 36.0;
/// Space between segments of a row.
const SEGMENT_GAP_PT: f32 = 3.0;
/// About as many cells as a drawing may spend on what is visible.
const CELLS: f32 = 12_000.0;
/// Most outlines drawn for what one selection touches.
const MOST_OUTLINES: usize = 500;

/// Lays out the picture.
pub fn draw(input: &SegmentMapInput<'_>) -> SegmentMapDrawing {
    let groups = groups(input);
    let usable = (input.width_pt - 2.0 * MARGIN_PT).max(10.0);
    let room = input.height_pt - groups.len() as f32 * (HEADER_PT + GROUP_GAP_PT);
    let (bytes_per_row, plan) = match input.bytes_per_row {
        Some(bytes) => (bytes.max(1), pack_all(&groups, usable, bytes.max(1))),
        None => fit(input, &groups, usable, room),
    };
    let rows: usize = plan.iter().map(|group| group.rows).sum();
    let row = (room / rows.max(1) as f32 - ROW_GAP_PT).floor().clamp(ROW_PT, TALLEST_ROW_PT);
    let mut canvas = Canvas::new(input, usable / bytes_per_row as f32, row);
    let mut top = -input.scroll_pt;
    for (group, pieces) in groups.iter().zip(&plan) {
        let height = HEADER_PT + pieces.rows as f32 * (row + ROW_GAP_PT) + GROUP_GAP_PT;
        if 0.0 < top + height && top < input.height_pt {
            canvas.header(group, top);
            canvas.rows(&pieces.pieces, top + HEADER_PT);
        }
        top += height;
    }
    SegmentMapDrawing { drawing: canvas.finish(), content_height_pt: top + input.scroll_pt, bytes_per_row }
}

/// One pool, half and stream, with its segments by their place in the state.
struct Group<'a> {
    sums: PoolState,
    gaps: usize,
    segments: Vec<&'a StateSegment>,
}

fn groups<'a>(input: &SegmentMapInput<'a>) -> Vec<Group<'a>> {
    let state = input.state;
    let focus = input.focus.and_then(|address| state.segment_at(address));
    let mut of: BTreeMap<(PoolId, SizeClass, StreamId), Group<'a>> = BTreeMap::new();
    for (place, segment) in state.segments.iter().enumerate() {
        if focus.is_some_and(|focus| focus != place) {
            continue;
        }
        let (pool, class, stream) = (segment.pool, segment.class, segment.stream);
        let empty = PoolState { pool, class, stream, reserved: 0, active: 0, free: 0, largest_free_block: 0, segments: 0 };
        let group = of.entry((pool, class, stream)).or_insert_with(|| Group { sums: empty, gaps: 0, segments: Vec::new() });
        let sums = &mut group.sums;
        sums.reserved += segment.size;
        sums.segments += 1;
        for block in state.blocks_of(segment) {
            if block.state == BlockState::Inactive {
                sums.free += block.size;
                sums.largest_free_block = sums.largest_free_block.max(block.size);
                group.gaps += 1;
            } else {
                sums.active += block.size;
            }
        }
        group.segments.push(segment);
    }
    of.into_values().collect()
}

/// A stretch of a segment in one row.
struct Piece<'a> {
    segment: &'a StateSegment,
    /// Bytes of the segment, from its start.
    bytes: Range<u64>,
    row: usize,
    x0: f32,
}

struct Packed<'a> {
    pieces: Vec<Piece<'a>>,
    rows: usize,
}

/// The finest scale at which everything fits into `room`, if rows keep their planned height.
fn fit<'a>(input: &SegmentMapInput<'a>, groups: &[Group<'a>], usable: f32, room: f32) -> (u64, Vec<Packed<'a>>) {
    let rows = ((room / (ROW_PT + ROW_GAP_PT)).floor() as usize).max(groups.len()).max(1);
    let total: u64 = groups.iter().map(|group| group.sums.reserved).sum();
    let largest = groups.iter().flat_map(|group| &group.segments).filter(|s| !s.expandable).map(|s| s.size).max().unwrap_or(0);
    // Segments had better not wrap, unless that leaves most of the room empty; inside one segment finer is welcome.
    let least = if input.focus.is_some() { 64 << 10 } else { largest.min(total / 8).max(2 << 20) };
    let mut bytes = (total / rows as u64).max(least);
    loop {
        // Three binary digits: a figure one can say.
        let step = (bytes.max(8).ilog2() - 2).min(60);
        bytes = bytes.div_ceil(1 << step) << step;
        let plan = pack_all(groups, usable, bytes);
        let needed: usize = plan.iter().map(|group| group.rows).sum();
        if needed <= rows || total.saturating_mul(2) < bytes {
            return (bytes, plan);
        }
        bytes += 1;
    }
}

fn pack_all<'a>(groups: &[Group<'a>], usable: f32, bytes_per_row: u64) -> Vec<Packed<'a>> {
    groups.iter().map(|group| pack(&group.segments, usable, bytes_per_row)).collect()
}

/// Fills rows in address order. A segment that does not fit into the rest of a row begins a new one; one that is
/// longer than a row goes on in the next.
fn pack<'a>(segments: &[&'a StateSegment], usable: f32, bytes_per_row: u64) -> Packed<'a> {
    let scale = usable / bytes_per_row as f32;
    let (mut pieces, mut row, mut x) = (Vec::with_capacity(segments.len()), 0, 0f32);
    for &segment in segments {
        let width = segment.size as f32 * scale;
        if 0.0 < x && usable + 0.5 < x + width {
            (row, x) = (row + 1, 0.0);
        }
        let mut start = 0;
        while start < segment.size {
            let end = segment.size.min(start.saturating_add(bytes_per_row));
            if 0 < start {
                (row, x) = (row + 1, 0.0);
            }
            pieces.push(Piece { segment, bytes: start..end, row, x0: x });
            x += (end - start) as f32 * scale;
            start = end;
        }
        // Slivers stand close: a gap wider than the segments would lie about how much there is.
        x += SEGMENT_GAP_PT.min(0.3 * width);
    }
    let rows = if pieces.is_empty() { 0 } else { row + 1 };
    Packed { pieces, rows }
}

/// The drawing in the making.
struct Canvas<'a, 'b> {
    input: &'b SegmentMapInput<'a>,
    drawing: Drawing,
    scale: f32,
    row: f32,
    /// Width of a cell in which narrower blocks are summed.
    cell: f32,
    outlines: Vec<(Area, Ink, f32)>,
    /// The mark that is the ground of the narrow segments drawn last.
    ground: Option<usize>,
}

/// Sums of one cell.
#[derive(Default)]
struct Cell {
    index: i64,
    filled: f32,
    colours: Vec<(BlockColour, f32)>,
    largest: f32,
    item: Option<Item>,
    /// Whether it holds a block that was found: then only those give it its colour.
    lit: bool,
}

impl<'a, 'b> Canvas<'a, 'b> {
    fn new(input: &'b SegmentMapInput<'a>, scale: f32, row: f32) -> Self {
        let visible_rows = (input.height_pt / (row + ROW_GAP_PT)).ceil();
        let cell = (visible_rows * input.width_pt / CELLS).max(1.0);
        let mut drawing = Drawing::new(input.width_pt, input.height_pt);
        drawing.push(Shape::Box(Area::new(0.0, 0.0, input.width_pt, input.height_pt)), Ink::Background);
        Self { input, drawing, scale, row, cell, outlines: Vec::new(), ground: None }
    }
    fn header(&mut self, group: &Group<'_>, top: f32) {
        let sums = &group.sums;
        let snapshot = self.input.snapshot;
        let name = format!("{} · {} · {}", pool_name(snapshot, sums.pool), sums.class.name(), stream_name(snapshot, sums.stream));
        let figures = format!(
            "{} {}   reserved {}   active {}   free {} in {} {}   largest free block {}",
            grouped(sums.segments),
            if sums.segments == 1 { "segment" } else { "segments" },
            Bytes(sums.reserved),
            Bytes(sums.active),
            Bytes(sums.free),
            grouped(group.gaps as u64),
            if group.gaps == 1 { "gap" } else { "gaps" },
            Bytes(sums.largest_free_block),
        );
        let y = top + HEADER_PT / 2.0 + 1.0;
        // No font is known here: letters of 13 points are a little under 7 points wide on average.
        let names_end = MARGIN_PT + name.chars().count() as f32 * 6.6 + 14.0;
        self.drawing.text([MARGIN_PT, y], Anchor::LeftCentre, TextSize::Normal, name, Ink::Text, Fit::Shorten(names_end));
        let room = self.input.width_pt - names_end - MARGIN_PT;
        self.drawing.text([names_end, y], Anchor::LeftCentre, TextSize::Small, figures, Ink::WeakText, Fit::Shorten(room));
    }
    fn rows(&mut self, pieces: &[Piece<'_>], top: f32) {
        let pitch = self.row + ROW_GAP_PT;
        let first_row = ((-top / pitch).floor().max(0.0)) as usize;
        let first = pieces.partition_point(|piece| piece.row < first_row);
        let mut cell = Cell::default();
        let mut row = usize::MAX;
        for piece in &pieces[first..] {
            let y0 = top + piece.row as f32 * pitch;
            if self.input.height_pt <= y0 {
                break;
            }
            if piece.row != row {
                self.flush(&mut cell, top + row.min(1 << 20) as f32 * pitch);
                row = piece.row;
            }
            self.piece(piece, y0, &mut cell);
        }
        self.flush(&mut cell, top + row.min(1 << 20) as f32 * pitch);
    }
    fn piece(&mut self, piece: &Piece<'_>, y0: f32, cell: &mut Cell) {
        let Piece { segment, bytes, x0, .. } = piece;
        let (x0, width) = (MARGIN_PT + x0, (bytes.end - bytes.start) as f32 * self.scale);
        let item = Item::Segment(segment.id);
        let area = Area::new(x0, y0, x0 + width, y0 + self.row);
        if (2.0 * self.cell).max(2.0) <= width {
            self.flush(cell, y0);
            let found = self.input.found.is_some_and(|found| found.has_segment(segment.id));
            let (ink, line) = if found { (Ink::Text, 1.5) } else { (Ink::SegmentBorder, 1.0) };
            self.drawing.push_item(Shape::Outline(area, line), ink, Some(item));
        } else {
            self.sliver(area, item);
        }
        self.mark_if_meant(item, area);
        let blocks = self.input.state.blocks_of(segment);
        let start = segment.address.saturating_add(bytes.start);
        let end = segment.address.saturating_add(bytes.end);
        let from = blocks.partition_point(|block| block.address.saturating_add(block.size) <= start);
        for block in blocks[from..].iter().take_while(|block| block.address < end) {
            let low = block.address.max(start);
            let high = block.address.saturating_add(block.size).min(end);
            let x = |address: u64| x0 + (address - start) as f32 * self.scale;
            let exact = Area::new(x(low), y0 + 1.0, x(high), y0 + self.row - 1.0);
            // Whole points keep the lines between blocks equally sharp; what is narrower than a cell stays exact.
            let narrow = exact.width() < self.cell.max(1.0);
            let place = if narrow { exact } else { Area { x0: exact.x0.round(), x1: exact.x1.round(), ..exact } };
            match block.allocation {
                None => self.gap(block, place),
                Some(id) if narrow => self.sum(cell, id, place, y0),
                Some(id) => {
                    // Rounding lies at the block's end; a piece of it may lie in this row.
                    let asked = block.address.saturating_add(block.requested).clamp(low, high);
                    self.block(block, id, place, x(asked).round());
                }
            }
        }
    }
    /// The ground of a segment too narrow for a border; neighbours share one, or ten thousand would need a mark each.
    fn sliver(&mut self, area: Area, item: Item) {
        if let Some(at) = self.ground
            && let Some(mark) = self.drawing.marks.get_mut(at)
            && let Shape::Box(ground) = &mut mark.shape
            && ground.y0 == area.y0
            && area.x0 <= ground.x1 + SEGMENT_GAP_PT
        {
            ground.x1 = area.x1;
            mark.item = None;
            return;
        }
        self.ground = Some(self.drawing.marks.len());
        self.drawing.push_item(Shape::Box(area), Ink::Grid, Some(item));
    }
    fn gap(&mut self, gap: &StateBlock, place: Area) {
        if place.width() < self.cell {
            return;
        }
        let item = Item::Gap { address: gap.address, size: gap.size };
        // Inside of the segment's border, which must not end where a segment is free at its edge.
        let inside = Area::new(place.x0 + 1.25, place.y0 + 0.25, place.x1 - 1.25, place.y1 - 0.25);
        self.drawing.push_item(Shape::Box(inside), Ink::Background, Some(item));
        if self.input.request.is_some_and(|request| gap.size < request) && 3.0 <= place.width() {
            self.drawing.push_item(Shape::Hatch(inside), Ink::TooSmall, Some(item));
        } else {
            self.label(gap.size, place, Ink::WeakText);
        }
        self.mark_if_meant(item, place);
    }
    fn block(&mut self, block: &StateBlock, id: AllocationId, place: Area, asked_x: f32) {
        let colour = self.input.inks.block(self.input.memory, id, self.input.state.position);
        let item = Some(Item::Allocation(id));
        let faded = self.fades(id);
        let (ink, rounding_ink) =
            if faded { (Ink::Faded(colour), Ink::Faded(colour)) } else { (Ink::Block(colour), Ink::Rounding(colour)) };
        // A point of ground between neighbours, where they are wide enough to spare it.
        let right = if 4.0 <= place.width() { place.x1 - 1.0 } else { place.x1 };
        let rounding = asked_x.clamp(place.x0, right);
        self.drawing.push_item(Shape::Box(Area { x1: right, ..place }), ink, item);
        if 1.0 <= right - rounding {
            self.drawing.push_item(Shape::Box(Area { x0: rounding, x1: right, ..place }), rounding_ink, item);
        }
        if block.state == BlockState::ActivePendingFree {
            let area = Area { x1: right, ..place };
            self.drawing.push_item(Shape::Hatch(area), Ink::Pending, item);
            self.drawing.push_item(Shape::Outline(area, 1.0), Ink::Pending, item);
        } else {
            self.label(block.size, place, if faded { Ink::WeakText } else { Ink::OnBlock });
        }
        self.mark_if_meant(Item::Allocation(id), Area { x1: right, ..place });
    }
    /// Whether a block is not what is searched for.
    fn fades(&self, id: AllocationId) -> bool {
        self.input.found.is_some_and(|found| !found.has(id))
    }
    fn label(&mut self, size: u64, place: Area, ink: Ink) {
        if place.width() < 46.0 || place.height() < 12.0 {
            return;
        }
        let middle = [(place.x0 + place.x1) / 2.0, (place.y0 + place.y1) / 2.0];
        let fit = Fit::OrNothing(place.width() - 6.0);
        self.drawing.text(middle, Anchor::Centre, TextSize::Small, Bytes(size).to_string(), ink, fit);
    }
    /// Adds a block narrower than a cell to the cells it touches.
    fn sum(&mut self, cell: &mut Cell, id: AllocationId, place: Area, y0: f32) {
        let colour = self.input.inks.block(self.input.memory, id, self.input.state.position);
        let lit = self.input.found.is_some_and(|found| found.has(id));
        let mut from = place.x0;
        while from < place.x1 {
            let index = (from / self.cell).floor() as i64;
            if index != cell.index {
                self.flush(cell, y0);
                cell.index = index;
            }
            let to = place.x1.min((index + 1) as f32 * self.cell);
            // A hair beyond a cell's edge still belongs to it; without this a width of zero would not end.
            let part = (to - from).max(0.0);
            cell.filled += part;
            if lit && !cell.lit {
                // What was found wins the cell.
                (cell.lit, cell.largest) = (true, 0.0);
                cell.colours.clear();
            }
            if cell.lit && !lit {
                if to <= from {
                    break;
                }
                from = to;
                continue;
            }
            match cell.colours.iter_mut().find(|(known, _)| *known == colour) {
                Some((_, width)) => *width += part,
                None => cell.colours.push((colour, part)),
            }
            if cell.largest <= part {
                (cell.largest, cell.item) = (part, Some(Item::Allocation(id)));
            }
            if to <= from {
                break;
            }
            from = to;
        }
        self.mark_if_meant(Item::Allocation(id), Area { x1: place.x1.max(place.x0 + 1.0), ..place });
    }
    fn flush(&mut self, cell: &mut Cell, y0: f32) {
        let dominant = cell.colours.iter().fold(None, |best: Option<(BlockColour, f32)>, next| match best {
            Some(best) if next.1 <= best.1 => Some(best),
            _ => Some(*next),
        });
        if let Some((colour, _)) = dominant {
            let mut share = (cell.filled / self.cell * 255.0).round().clamp(0.0, 255.0) as u8;
            if self.input.found.is_some() {
                share = if cell.lit { share.max(192) } else { share / 5 };
            }
            let x0 = cell.index as f32 * self.cell;
            let area = Area::new(x0, y0 + 1.0, x0 + self.cell, y0 + self.row - 1.0);
            // What is there is seen: at least an eighth of full colour, less where it was not found.
            let least = if self.input.found.is_some() { 16 } else { 32 };
            let ink = if 250 <= share { Ink::Block(colour) } else { Ink::Part(colour, share.max(least)) };
            self.drawing.push_item(Shape::Box(area), ink, cell.item);
        }
        cell.colours.clear();
        (cell.filled, cell.largest, cell.item, cell.lit) = (0.0, 0.0, None, false);
    }
    /// Notes an outline if the item is selected or hovered, or belongs to what is.
    fn mark_if_meant(&mut self, item: Item, area: Area) {
        let touches = |meant: Item| match (meant, item) {
            (Item::Stack(stack), Item::Allocation(id)) => {
                let own = self.input.memory.allocations.stacks().get(id.0 as usize);
                own.is_some_and(|own| self.input.snapshot.stacks.are_alike(*own, stack))
            }
            (Item::Event(event), Item::Allocation(id)) => self.input.memory.subject(event) == Some(id),
            _ => meant == item,
        };
        let selected = self.input.selected.is_some_and(touches);
        if (selected || self.input.hovered.is_some_and(touches)) && self.outlines.len() < MOST_OUTLINES {
            let (ink, width) = if selected { (Ink::Selected, 2.0) } else { (Ink::Hovered, 1.0) };
            self.outlines.push((area, ink, width));
        }
    }
    fn finish(mut self) -> Drawing {
        for (area, ink, width) in self.outlines {
            // A sliver's outline lies around it, or it would hide what it shows.
            let area = if area.width() < 6.0 { area.shrink(-width) } else { area };
            self.drawing.push(Shape::Outline(area, width), ink);
        }
        self.drawing
    }
}
