//! Time against stacked bytes: who is live in each pixel column, the oldest at the bottom.
//!
//! Always: a column shows the moment inside it at which most memory was active, so no peak vanishes however
//! narrow it is; the coverage of a column sums to the active bytes of that moment. Offsets change at every
//! free, so nothing is stored: each moment asks the replay for its live lives, which come in stack order.
//! While something is searched for, a pixel that holds any of what was found shows mostly that.

use crate::analysis::UsageTimeline;
use crate::base::id::Id;
use crate::base::{Cancelled, Progress};
use crate::model::{AllocationId, DeviceMemory, Position};
use crate::raster::coverage::{Cell, add_box, add_plain, lift, pixel};
use crate::raster::{ColourTable, Raster, RasterView, pool};
use crate::replay::Replay;
use rayon::prelude::*;

/// Columns rastered together: neighbours share most of what is live.
const STRIP: usize = 16;

/// Rasters and answers questions about the stacked picture of one device; costs nothing to make.
#[derive(Clone, Copy, Debug)]
pub struct StackRaster<'a> {
    memory: &'a DeviceMemory,
    replay: &'a Replay,
    usage: &'a UsageTimeline,
}

/// Where one allocation lies in the stack throughout its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackOutline {
    /// Whose outline it is.
    pub id: AllocationId,
    /// First position at which it is active.
    pub born: Position,
    /// First position at which it no longer is.
    pub died: Position,
    /// Its height in bytes.
    pub size: u64,
    /// Bytes below it from a position on: the value at birth first, then each fall.
    pub steps: Vec<(Position, u64)>,
}

impl StackOutline {
    /// Bytes stacked below it at a position; none where it is not active.
    pub fn offset(&self, at: Position) -> Option<u64> {
        if at < self.born || self.died <= at {
            return None;
        }
        let step = self.steps.partition_point(|(from, _)| *from <= at).checked_sub(1)?;
        Some(self.steps[step].1)
    }
}

/// What a strip stacks: one life, or several small ones that live throughout the strip.
struct Layer {
    born: Position,
    died: Position,
    size: u64,
    colour: Colour,
    /// Whether it stands out; the merged all do or none.
    lit: bool,
}

enum Colour {
    One(AllocationId),
    /// Red, green, blue, averaged by bytes.
    Mixed([f32; 3]),
}

/// The cells of a column, and what in them stands out once more; nothing where nothing does.
struct Cells {
    all: Vec<Cell>,
    lit: Vec<Cell>,
}

impl Cells {
    fn new(height: usize, is_lit: bool) -> Cells {
        Cells { all: vec![[0.0; 4]; height], lit: vec![[0.0; 4]; if is_lit { height } else { 0 }] }
    }
    fn clear(&mut self) {
        self.all.fill([0.0; 4]);
        self.lit.fill([0.0; 4]);
    }
    fn add_box(&mut self, low: f64, high: f64, colour: [u8; 3], lit: bool) {
        add_box(&mut self.all, low, high, colour);
        if lit {
            add_plain(&mut self.lit, low, high, colour, 1.0);
        }
    }
    fn add_plain(&mut self, low: f64, high: f64, colour: [u8; 3], lit: bool) {
        add_plain(&mut self.all, low, high, colour, 1.0);
        if lit {
            add_plain(&mut self.lit, low, high, colour, 1.0);
        }
    }
    fn pixel(&self, row: usize) -> [u8; 4] {
        pixel(self.lit.get(row).map_or(self.all[row], |lit| lift(self.all[row], *lit)))
    }
}

impl<'a> StackRaster<'a> {
    /// The stacked picture of a device.
    pub fn new(memory: &'a DeviceMemory, replay: &'a Replay, usage: &'a UsageTimeline) -> Self {
        Self { memory, replay, usage }
    }
    /// The moment a pixel column from one boundary to the next shows: the first of its highest `active`.
    pub fn shown(&self, from: Position, to: Position) -> Position {
        self.usage.active.max_in(from, to).0
    }
    /// The allocation at a height in the stack at a position, exact, from the data.
    pub fn hit(&self, at: Position, bytes: u64) -> Option<AllocationId> {
        let mut ids = Vec::new();
        self.replay.live_at(self.memory, at, &mut ids);
        let sizes = self.memory.allocations.sizes();
        let mut below = 0u64;
        ids.into_iter().find(|id| {
            below = below.saturating_add(sizes[id.row()]);
            bytes < below
        })
    }
    /// Where an allocation lies throughout its life. What lies below it only ever falls: whatever is born later lies above.
    pub fn outline(&self, id: AllocationId) -> StackOutline {
        let lives = &self.memory.allocations;
        let life = lives.get(id);
        let mut ids = Vec::new();
        self.replay.live_at(self.memory, life.born, &mut ids);
        let below = ids.iter().take_while(|other| **other < id);
        let mut offset: u64 = below.clone().fold(0, |sum, other| sum.saturating_add(lives.sizes()[other.row()]));
        let mut falls: Vec<(Position, u64)> = below
            .map(|other| (lives.died()[other.row()], lives.sizes()[other.row()]))
            .filter(|(died, _)| *died < life.died)
            .collect();
        falls.sort_unstable();
        let mut steps = vec![(life.born, offset)];
        for (at, size) in falls {
            offset = offset.saturating_sub(size);
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = offset,
                _ => steps.push((at, offset)),
            }
        }
        StackOutline { id, born: life.born, died: life.died, size: life.size, steps }
    }
    /// Rasters a view. Runs on the rasters' own threads; stops between strips when cancelled.
    pub fn raster(&self, view: &RasterView, colours: &ColourTable, progress: &Progress) -> Result<Raster, Cancelled> {
        let width = view.columns.len().saturating_sub(1);
        let height = view.height;
        let strips = (0..width.div_ceil(STRIP)).into_par_iter().map_init(
            || (Cells::new(height, colours.spotlight.is_some()), Vec::new(), Vec::new()),
            |(cells, ids, layers), strip| {
                progress.check()?;
                let first = strip * STRIP;
                let columns = &view.columns[first..(first + STRIP).min(width) + 1];
                Ok(self.strip(columns, view, colours, cells, ids, layers))
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

    /// One strip as pixels, row by row from the top.
    fn strip(
        &self,
        columns: &[Position],
        view: &RasterView,
        colours: &ColourTable,
        cells: &mut Cells,
        ids: &mut Vec<AllocationId>,
        layers: &mut Vec<Layer>,
    ) -> Vec<[u8; 4]> {
        let width = columns.len() - 1;
        let height = view.height;
        let mut pixels = vec![[0u8; 4]; width * height];
        let scale = height as f64 / (view.bytes.end - view.bytes.start).max(1.0);
        let moments: Vec<Position> = columns.windows(2).map(|ends| self.shown(ends[0], ends[1])).collect();
        let (Some(first), Some(last)) = (moments.iter().min().copied(), moments.iter().max().copied()) else { return pixels };
        let lives = &self.memory.allocations;
        let newer = lives.born_by(last) - lives.born_by(first);
        // Where few lives begin inside the strip, they and what is live at its left edge are gathered once.
        self.replay.live_at(self.memory, first, ids);
        let gathered = newer <= 2 * ids.len() + 256;
        if gathered {
            self.gather(ids, first..last, scale, colours, layers);
        }
        for (x, moment) in moments.iter().enumerate() {
            if 0 < x && moments[x - 1] == *moment {
                for row in pixels.chunks_exact_mut(width) {
                    row[x] = row[x - 1];
                }
                continue;
            }
            cells.clear();
            let mut below = 0u64;
            let mut stack = |size: u64, paint: &mut dyn FnMut(&mut Cells, f64, f64)| {
                let low = (below as f64 - view.bytes.start) * scale;
                below = below.saturating_add(size);
                let high = (below as f64 - view.bytes.start) * scale;
                if 0.0 < high && low < height as f64 {
                    paint(cells, low, high);
                }
                low < height as f64
            };
            if gathered {
                for layer in layers.iter().filter(|layer| layer.born <= *moment && *moment < layer.died) {
                    let goes_on = stack(layer.size, &mut |cells, low, high| match layer.colour {
                        Colour::One(id) => cells.add_box(low, high, colours.of(self.memory, id, *moment), layer.lit),
                        Colour::Mixed(rgb) => cells.add_plain(low, high, rgb.map(|c| (c + 0.5) as u8), layer.lit),
                    });
                    if !goes_on {
                        break;
                    }
                }
            } else {
                self.replay.live_at(self.memory, *moment, ids);
                for id in ids.iter() {
                    let size = lives.sizes()[id.row()];
                    let goes_on = stack(size, &mut |cells, low, high| {
                        cells.add_box(low, high, colours.of(self.memory, *id, *moment), colours.is_lit(*id));
                    });
                    if !goes_on {
                        break;
                    }
                }
            }
            for row in 0..height {
                pixels[row * width + x] = cells.pixel(height - 1 - row);
            }
        }
        pixels
    }

    /// The layers of a strip, in stack order. Neighbours that live throughout it and together are under an eighth of a
    /// pixel are merged: so many layers at most, and no colour moves by more than that.
    fn gather(
        &self,
        live: &[AllocationId],
        moments: std::ops::Range<Position>,
        scale: f64,
        colours: &ColourTable,
        layers: &mut Vec<Layer>,
    ) {
        let lives = &self.memory.allocations;
        let eighth = (0.125 / scale) as u64;
        layers.clear();
        let newer = (lives.born_by(moments.start)..lives.born_by(moments.end)).map(AllocationId::of_row);
        for id in live.iter().copied().chain(newer) {
            let row = id.row();
            let (born, died, size) = (lives.born()[row], lives.died()[row], lives.sizes()[row]);
            if died <= moments.start {
                continue;
            }
            let lit = colours.is_lit(id);
            let throughout = |born: Position, died: Position| born <= moments.start && moments.end < died;
            if let Some(last) = layers.last_mut()
                && throughout(born, died)
                && throughout(last.born, last.died)
                && last.lit == lit
                && last.size.saturating_add(size) <= eighth
            {
                let of_last = match last.colour {
                    Colour::One(id) => colours.of(self.memory, id, moments.start).map(f32::from),
                    Colour::Mixed(rgb) => rgb,
                };
                let own = colours.of(self.memory, id, moments.start).map(f32::from);
                let share = size as f32 / (last.size + size).max(1) as f32;
                last.size += size;
                last.colour = Colour::Mixed(std::array::from_fn(|i| of_last[i] * (1.0 - share) + own[i] * share));
                continue;
            }
            layers.push(Layer { born, died, size, colour: Colour::One(id), lit });
        }
    }
}
