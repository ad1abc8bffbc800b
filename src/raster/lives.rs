//! Time against address: each block a box from its birth to its death, at the place where it lay.
//!
//! Always: a pixel shows the share of its bytes and of its column's positions that blocks (and, behind them,
//! segments) cover, so a thousand blocks smaller than a pixel show as their true average and nothing flickers.
//! Lives stand in buckets by the power of two of their duration, each in order of birth: the ones a strip of
//! columns can show are one slice a bucket, found by two binary searches. While something is searched for, a pixel
//! that holds any of what was found shows mostly that.

use crate::analysis::{Asked, Query};
use crate::base::id::Id;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, DeviceMemory, Position};
use crate::raster::address::AddressMap;
use crate::raster::coverage::{BORDER_FROM_PX, BORDER_SHADE, Cell, lift, pixel};
use crate::raster::{ColourBy, ColourTable, Raster, RasterView, pool};
use rayon::prelude::*;

/// Columns rastered together: 64 columns of 1000 rows fill a megabyte, which a core's own cache holds.
const STRIP: usize = 64;
/// From so many columns on a box gets a border at its left edge.
const BORDER_FROM_COLUMNS: usize = 4;
/// The row of a life that lies in no segment.
const NOWHERE: u64 = u64::MAX;

/// The lives of one device in the order the raster wants them: 12 bytes a life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivesIndex {
    /// Where addresses stand.
    pub map: AddressMap,
    /// Row of each life's first byte.
    rows: Vec<u64>,
    /// Ids by floor(log2(duration)), each bucket in order of birth.
    buckets: Vec<Vec<u32>>,
}

impl LivesIndex {
    /// Sorts the lives of a device.
    pub fn new(memory: &DeviceMemory, progress: &Progress) -> Result<LivesIndex, Cancelled> {
        let lives = &memory.allocations;
        progress.stage("sorting lives", lives.len() as u64)?;
        let map = AddressMap::new(memory);
        let mut rows = Vec::with_capacity(lives.len());
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); 32];
        let (mut span, end) = (0, memory.end());
        for row in 0..lives.len() {
            if row.is_multiple_of(65_536) {
                progress.at(row as u64)?;
            }
            let address = lives.addresses()[row];
            // Neighbours in time mostly lie in the same span.
            let near = map.spans().get(span).filter(|near| near.address <= address && address - near.address < near.size);
            let found = match near {
                Some(near) => Some(near.row + (address - near.address)),
                None => {
                    span = map.spans().partition_point(|other| other.address <= address).saturating_sub(1);
                    map.row(address)
                }
            };
            rows.push(found.unwrap_or(NOWHERE));
            let (born, died) = (lives.born()[row], lives.died()[row].min(Position(end.0.saturating_add(1))));
            if born < died && found.is_some() {
                buckets[(31 - (died.0 - born.0).leading_zeros()) as usize].push(row as u32);
            }
        }
        buckets.iter_mut().for_each(Vec::shrink_to_fit);
        Ok(LivesIndex { map, rows, buckets })
    }
    /// Rows of lives of one bucket that can be live somewhere in `from..to`.
    fn near<'a>(&'a self, memory: &DeviceMemory, bucket: usize, from: Position, to: Position) -> &'a [u32] {
        let (ids, born) = (&self.buckets[bucket], memory.allocations.born());
        let longest = 1u64 << (bucket + 1);
        let first = ids.partition_point(|id| u64::from(born[*id as usize].0) + longest <= u64::from(from.0));
        let end = ids.partition_point(|id| born[*id as usize] < to);
        &ids[first..end.max(first)]
    }
    /// The block that lies on a row at a position, exact, from the data.
    pub fn hit(&self, memory: &DeviceMemory, at: Position, row: u64) -> Option<AllocationId> {
        let lives = &memory.allocations;
        let next = Position(at.0.saturating_add(1));
        // Short lives last: where contradictory input makes two overlap, the younger lies on top.
        (0..self.buckets.len()).find_map(|bucket| {
            let near = self.near(memory, bucket, at, next).iter().rev().map(|id| *id as usize);
            let mut hits =
                near.filter(|id| self.rows[*id] <= row && row - self.rows[*id] < lives.sizes()[*id] && at < lives.died()[*id]);
            hits.next().map(AllocationId::of_row)
        })
    }
    /// The row of a life's first byte; none where it lies in no segment.
    pub fn row_of(&self, id: AllocationId) -> Option<u64> {
        self.rows.get(id.row()).copied().filter(|row| *row != NOWHERE)
    }
    /// Rasters a view, whose bytes are rows of the map. Where `ground` is given, segments are filled with it behind
    /// their blocks; what is no segment stays transparent. Runs on the rasters' own threads.
    pub fn raster(
        &self,
        memory: &DeviceMemory,
        view: &RasterView,
        colours: &ColourTable,
        ground: Option<[u8; 3]>,
        progress: &Progress,
    ) -> Result<Raster, Cancelled> {
        let width = view.columns.len().saturating_sub(1);
        let height = view.height;
        let painter = Painter::new(self, memory, view, colours, ground);
        let strips = (0..width.div_ceil(STRIP)).into_par_iter().map_init(
            || {
                let lit = if colours.spotlight.is_some() { height } else { 0 };
                (Sheet::new(height), Sheet::new(lit))
            },
            |(sheet, lit), strip| {
                progress.check()?;
                let first = strip * STRIP;
                Ok(painter.strip(first, (width - first).min(STRIP), sheet, lit))
            },
        );
        let collect = || strips.collect::<Result<Vec<Vec<[u8; 4]>>, Cancelled>>();
        let strips = match pool() {
            Some(pool) => pool.install(collect)?,
            None => collect()?,
        };
        let mut rgba = vec![0u8; width * height * 4];
        for (strip, pixels) in strips.iter().enumerate() {
            let columns = (width - strip * STRIP).min(STRIP);
            for (row, line) in pixels.chunks_exact(columns.max(1)).enumerate() {
                let at = (row * width + strip * STRIP) * 4;
                rgba[at..at + columns * 4].copy_from_slice(line.as_flattened());
            }
        }
        Ok(Raster { width, height, rgba })
    }
}

/// What all strips of one picture share.
struct Painter<'a> {
    index: &'a LivesIndex,
    memory: &'a DeviceMemory,
    view: &'a RasterView,
    colours: &'a ColourTable,
    ground: Option<[f32; 3]>,
    /// Pixels a byte.
    scale: f64,
    /// First position of each column, and the first behind it.
    columns: Vec<(Position, Position)>,
    /// Segments that are visible at all, as birth, death, row and size.
    segments: Vec<(Position, Position, u64, u64)>,
}

/// The cells of a strip, column by column, and one column that all of it shares.
struct Sheet {
    cells: Vec<Cell>,
    base: Vec<Cell>,
}

impl Sheet {
    fn new(height: usize) -> Sheet {
        Sheet { cells: vec![[0.0; 4]; STRIP * height], base: vec![[0.0; 4]; height] }
    }
    fn clear(&mut self) {
        self.cells.fill([0.0; 4]);
        self.base.fill([0.0; 4]);
    }
    /// A cell with what it shares.
    fn cell(&self, at: usize, row: usize) -> Option<Cell> {
        let (cell, below) = (self.cells.get(at)?, self.base.get(row)?);
        Some([0, 1, 2, 3].map(|i| (cell[i] + below[i]).max(0.0)))
    }
}

/// What is added: a colour, how much of it counts as covered, and the darker edges of a large box.
#[derive(Clone, Copy)]
struct Paint {
    rgb: [f32; 3],
    edge: [f32; 3],
    alpha: f32,
    bordered: bool,
}

impl<'a> Painter<'a> {
    fn new(
        index: &'a LivesIndex,
        memory: &'a DeviceMemory,
        view: &'a RasterView,
        colours: &'a ColourTable,
        ground: Option<[u8; 3]>,
    ) -> Self {
        let columns = view.columns.windows(2).map(|ends| (ends[0], ends[1].max(Position(ends[0].0.saturating_add(1)))));
        let segments =
            memory.segments.as_slice().iter().filter_map(|s| Some((s.born, s.died, index.map.row(s.address)?, s.size)));
        Painter {
            index,
            memory,
            view,
            colours,
            ground: ground.map(|rgb| rgb.map(f32::from)),
            scale: view.height as f64 / (view.bytes.end - view.bytes.start).max(1.0),
            columns: columns.collect(),
            segments: if ground.is_some() { segments.collect() } else { Vec::new() },
        }
    }
    /// One strip as pixels, row by row from the top.
    fn strip(&self, first: usize, width: usize, sheet: &mut Sheet, lit: &mut Sheet) -> Vec<[u8; 4]> {
        let height = self.view.height;
        let mut pixels = vec![[0u8; 4]; width * height];
        let columns = &self.columns[first..first + width];
        let (Some((from, _)), Some((_, to))) = (columns.first().copied(), columns.last().copied()) else { return pixels };
        sheet.clear();
        lit.clear();
        let lives = &self.memory.allocations;
        if let Some(rgb) = self.ground {
            let paint = Paint { rgb, edge: rgb, alpha: 1.0, bordered: false };
            for (born, died, row, size) in self.segments.iter().filter(|(born, died, ..)| *born < to && from < *died) {
                self.add(columns, sheet, (*born, *died), (*row, *size), usize::MAX, &mut |_| paint);
            }
        }
        // Only age and state change while a block lives.
        let moving = matches!(self.colours.by, ColourBy::Age | ColourBy::State);
        for bucket in 0..self.index.buckets.len() {
            for id in self.index.near(self.memory, bucket, from, to) {
                let row = *id as usize;
                let (born, died) = (lives.born()[row], lives.died()[row]);
                if died <= from {
                    continue;
                }
                let (low, high) = self.pixels_of(self.index.rows[row], lives.sizes()[row]);
                if high <= 0.0 || height as f64 <= low {
                    continue;
                }
                let bordered = BORDER_FROM_PX <= high - low && self.is_wide(born, died);
                let id = AllocationId(*id);
                let paint = |at| self.paint(self.colours.of(self.memory, id, at), bordered);
                let birth =
                    if bordered { self.columns.partition_point(|(_, end)| *end <= born).wrapping_sub(first) } else { usize::MAX };
                let one = paint(born.max(from));
                let mut by_moment = |at: Position| if moving { paint(at) } else { one };
                if self.colours.is_lit(id) {
                    // All by itself: whatever lies below it is left out.
                    let mut plain = |at| Paint {
                        rgb: self.colours.of(self.memory, id, at).map(f32::from),
                        edge: [0.0; 3],
                        alpha: 1.0,
                        bordered: false,
                    };
                    self.add(columns, lit, (born, died), (self.index.rows[row], lives.sizes()[row]), usize::MAX, &mut plain);
                }
                if moving && born <= from && to <= died {
                    for (column, (start, _)) in columns.iter().enumerate() {
                        let paint = by_moment(*start);
                        add_box(&mut sheet.cells[column * height..][..height], low, high, &paint, 1.0, column == birth);
                    }
                    continue;
                }
                self.add(columns, sheet, (born, died), (self.index.rows[row], lives.sizes()[row]), birth, &mut by_moment);
            }
        }
        for x in 0..width {
            for row in 0..height {
                let at = x * height + row;
                let Some(cell) = sheet.cell(at, row) else { continue };
                let cell = lit.cell(at, row).map_or(cell, |lit| lift(cell, lit));
                pixels[(height - 1 - row) * width + x] = pixel(cell);
            }
        }
        pixels
    }
    fn pixels_of(&self, row: u64, size: u64) -> (f64, f64) {
        let low = (row as f64 - self.view.bytes.start) * self.scale;
        (low, low + size as f64 * self.scale)
    }
    fn is_wide(&self, born: Position, died: Position) -> bool {
        let first = self.columns.partition_point(|(_, end)| *end <= born);
        let end = self.columns.partition_point(|(start, _)| *start < died);
        BORDER_FROM_COLUMNS <= end.saturating_sub(first)
    }
    /// A block lies on the ground of its segment, which covers those bytes already: it only changes the colour.
    fn paint(&self, rgb: [u8; 3], bordered: bool) -> Paint {
        let rgb = rgb.map(f32::from);
        let edge = rgb.map(|value| value * BORDER_SHADE);
        match self.ground {
            None => Paint { rgb, edge, alpha: 1.0, bordered },
            Some(ground) => {
                let over = |colour: [f32; 3]| [0, 1, 2].map(|i| colour[i] - ground[i]);
                Paint { rgb: over(rgb), edge: over(edge), alpha: 0.0, bordered }
            }
        }
    }
    /// Adds a box. What spans the whole strip goes into `base`, once for all its columns.
    fn add(
        &self,
        columns: &[(Position, Position)],
        sheet: &mut Sheet,
        (born, died): (Position, Position),
        (row, size): (u64, u64),
        birth: usize,
        paint: &mut dyn FnMut(Position) -> Paint,
    ) {
        let height = self.view.height;
        let (low, high) = self.pixels_of(row, size);
        let first = columns.partition_point(|(_, end)| *end <= born);
        let end = columns.partition_point(|(start, _)| *start < died);
        if high <= 0.0 || height as f64 <= low || end <= first {
            return;
        }
        let whole = |(start, end): (Position, Position)| born <= start && end <= died;
        if first == 0 && end == columns.len() && whole(columns[0]) && whole(columns[end - 1]) && columns.len() <= birth {
            add_box(&mut sheet.base, low, high, &paint(born.max(columns[0].0)), 1.0, false);
            return;
        }
        for (column, (start, stop)) in columns.iter().enumerate().take(end).skip(first) {
            let covered = died.min(*stop).0.saturating_sub(born.max(*start).0);
            let share = covered as f32 / (stop.0 - start.0) as f32;
            let paint = paint(born.max(*start));
            add_box(&mut sheet.cells[column * height..][..height], low, high, &paint, share, column == birth);
        }
    }
}

/// Adds a box to a column whose positions it covers to a share of `weight`.
#[inline]
fn add_box(cells: &mut [Cell], low: f64, high: f64, paint: &Paint, weight: f32, is_birth: bool) {
    if !paint.bordered {
        add_plain(cells, low, high, paint.rgb, paint.alpha, weight);
    } else if is_birth {
        add_plain(cells, low, high, paint.edge, paint.alpha, weight);
    } else {
        add_plain(cells, low, high - 1.0, paint.rgb, paint.alpha, weight);
        add_plain(cells, high - 1.0, high, paint.edge, paint.alpha, weight);
    }
}

#[inline]
fn add_plain(cells: &mut [Cell], low: f64, high: f64, rgb: [f32; 3], alpha: f32, weight: f32) {
    let (low, high) = (low.max(0.0), high.min(cells.len() as f64));
    if high <= low {
        return;
    }
    let full = [rgb[0] * weight, rgb[1] * weight, rgb[2] * weight, alpha * weight];
    let add = |cell: &mut Cell, share: f32| {
        for i in 0..4 {
            cell[i] += full[i] * share;
        }
    };
    let (first, last) = (low as usize, (high.ceil() as usize).saturating_sub(1));
    if first == last {
        add(&mut cells[first], (high - low) as f32);
        return;
    }
    add(&mut cells[first], (first as f64 + 1.0 - low) as f32);
    for cell in &mut cells[first + 1..last] {
        add(cell, 1.0);
    }
    add(&mut cells[last], (high - last as f64) as f32);
}

impl Query for LivesIndex {
    const NAME: &'static str = "lives by duration";
    type Params = ();
    type Answer = LivesIndex;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<LivesIndex, Cancelled> {
        LivesIndex::new(asked.memory(), progress)
    }
}

impl HeapSize for LivesIndex {
    fn heap_size(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(HeapSize::heap_size).sum();
        self.map.heap_size() + self.rows.heap_size() + buckets + self.buckets.capacity() * size_of::<Vec<u32>>()
    }
}
