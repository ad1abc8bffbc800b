//! The block table of a paged KV cache over time: a bar for each block from its storing to its removal.
//!
//! Blocks stand in the order of the prefix tree: a sequence's blocks from the bottom up, above them the sequences that
//! begin behind them, so that what is shared lies below those who share it. All that begins with the same blocks has one
//! colour.
//!
//! Always: blocks of a sequence that were stored together and went together are one bar; where more bars than rows of
//! pixels would lie over one another, the one that lived longest is drawn.

use crate::analysis::KvCache;
use crate::base::grouped;
use crate::chart::axis::{Clock, Scale};
use crate::chart::drawing::{Anchor, Area, Drawing, Fit, MAX_MARKS, Shape, TextSize};
use crate::chart::ink::{BlockColour, Ink};
use crate::chart::moments::{Moments, RIGHT_PT};
use crate::chart::series::{Unit, value_ticks};
use crate::chart::usage::LEFT_PT;
use crate::model::{DeviceMemory, Item, KvLog, Position};
use std::ops::Range;

/// All that the picture depends on.
#[derive(Clone, Debug)]
pub struct KvTableInput<'a> {
    /// The device.
    pub memory: &'a DeviceMemory,
    /// Its log.
    pub log: &'a KvLog,
    /// What it adds up to.
    pub cache: &'a KvCache,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// The visible window in units of the clock; empty: the whole trace.
    pub time: Range<f64>,
    /// The moment that is told about.
    pub cursor: Option<Position>,
    /// What is selected: its bar is outlined.
    pub selected: Option<Item>,
    /// Width in points.
    pub width_pt: f32,
    /// Height in points.
    pub height_pt: f32,
}

/// Height of the words above the plot.
const KEY_PT: f32 = 20.0;
/// Height of the axis labels.
const AXIS_PT: f32 = 18.0;

/// A bar: blocks of one sequence with one life.
#[derive(Clone, Copy, Debug)]
struct Bar {
    sequence: u32,
    rows: (u32, u32),
    born: Position,
    died: Position,
    item: Option<Item>,
}

/// The plot without its labels.
pub fn plot(width_pt: f32, height_pt: f32) -> Area {
    let right = (width_pt - RIGHT_PT).max(LEFT_PT + 10.0);
    Area::new(LEFT_PT, KEY_PT, right, (height_pt - AXIS_PT).max(KEY_PT + 10.0))
}

/// The horizontal scale of a picture.
pub fn time_scale(clock: &Clock, time: &Range<f64>, width_pt: f32, height_pt: f32) -> Scale {
    let plot = plot(width_pt, height_pt);
    let span = if time.start < time.end { time.clone() } else { clock.span() };
    Scale::new(span, plot.x0, plot.x1)
}

/// Lays out the picture.
pub fn draw(input: &KvTableInput<'_>) -> Drawing {
    let mut drawing = Drawing::new(input.width_pt, input.height_pt);
    let plot = plot(input.width_pt, input.height_pt);
    let time = time_scale(input.clock, &input.time, input.width_pt, input.height_pt);
    let all = input.cache.rows.len().max(1) as f64;
    let rows = Scale::new(0.0..all, plot.y1, plot.y0);
    drawing.push(Shape::Box(plot), Ink::Background);
    let words = "blocks in the order of the prefix tree, one bar from storing to removal; one colour for all that begins alike";
    drawing.text([plot.x0, 7.0], Anchor::LeftCentre, TextSize::Small, words, Ink::WeakText, Fit::Shorten(plot.width()));
    for tick in value_ticks(Unit::Count, 0.0..all, plot.height()) {
        let y = rows.point(tick.at);
        drawing.push(Shape::Line(vec![[plot.x0, y], [plot.x1, y]], 1.0), Ink::Grid);
        let label = [plot.x0 - 6.0, y.clamp(plot.y0 + 5.0, plot.y1 - 4.0)];
        drawing.text(label, Anchor::RightCentre, TextSize::Small, tick.label, Ink::AxisText, Fit::Always);
    }
    // Room is left for axes and moments.
    let bars = thinned(bars(input), &rows, MAX_MARKS * 3 / 4);
    let end = input.clock.span().end;
    let inks = inks(input.cache);
    for bar in &bars {
        let from = time.point(input.clock.unit(bar.born));
        let to = if bar.died == Position::NEVER { time.point(end) } else { time.point(input.clock.unit(bar.died)) };
        let (top, base) = (rows.point(f64::from(bar.rows.1)), rows.point(f64::from(bar.rows.0)));
        let gap = if 4.0 <= base - top { 0.5 } else { 0.0 };
        let area = Area::new(from, top + gap, to.max(from + 1.0), base.max(top + 0.5)).intersect(plot);
        if area.width() <= 0.0 || area.height() <= 0.0 {
            continue;
        }
        let ink = inks.get(bar.sequence as usize).copied().unwrap_or(Ink::Usage);
        drawing.push_item(Shape::Box(area), ink, bar.item);
        if bar.item.is_some() && bar.item == input.selected {
            drawing.push(Shape::Outline(area, 2.0), Ink::Selected);
        }
    }
    let moments = Moments {
        trace: &input.memory.trace,
        clock: input.clock,
        cursor: input.cursor,
        range: None,
        marks: &[],
        selected_item: None,
    };
    moments.draw_time_axis(&mut drawing, plot, &time);
    moments.draw_moments(&mut drawing, plot, &time);
    if bars.is_empty() {
        let centre = [(plot.x0 + plot.x1) / 2.0, (plot.y0 + plot.y1) / 2.0];
        drawing.text(centre, Anchor::Centre, TextSize::Normal, "No block was stored.", Ink::WeakText, Fit::Always);
    }
    drawing
}

/// The colour of each sequence: that of the first of all it stands behind. What lies side by side differs.
fn inks(cache: &KvCache) -> Vec<Ink> {
    let (mut ranks, mut roots) = (Vec::with_capacity(cache.sequences.len()), 0u32);
    for (row, run) in cache.sequences.iter().enumerate() {
        // What a sequence stands behind comes before it.
        let rank = match ranks.get(run.root as usize) {
            Some(rank) if (run.root as usize) < row => *rank,
            _ => {
                roots += 1;
                roots - 1
            }
        };
        ranks.push(rank);
    }
    ranks.into_iter().map(|rank| Ink::Block(BlockColour::Stack(rank.wrapping_mul(7)))).collect()
}

/// All bars, from the bottom up.
fn bars(input: &KvTableInput<'_>) -> Vec<Bar> {
    let lives = &input.memory.allocations;
    let mut bars: Vec<Bar> = Vec::new();
    let mut order: Vec<u32> = (0..input.log.blocks.len() as u32).collect();
    order.sort_unstable_by_key(|row| input.cache.rows[*row as usize]);
    for row in order {
        let block = &input.log.blocks[row as usize];
        let life = input.memory.subject(block.event);
        let died = life.map_or(Position::NEVER, |life| lives.get(life).died);
        let (born, place) = (Position::after(block.event), input.cache.rows[row as usize]);
        // Stored by one event of the log: consecutive events at one time.
        let time = |at: Position| input.clock.unit(at);
        if let Some(last) = bars.last_mut()
            && last.sequence == block.sequence
            && last.rows.1 == place
            && last.died == died
            && time(last.born) == time(born)
        {
            last.rows.1 = place + 1;
            continue;
        }
        let item = life.map(Item::Allocation);
        bars.push(Bar { sequence: block.sequence, rows: (place, place + 1), born, died, item });
    }
    bars
}

/// At most `most` bars: of those that begin in one half of a point, the one that lived longest.
fn thinned(bars: Vec<Bar>, rows: &Scale, most: usize) -> Vec<Bar> {
    if bars.len() <= most {
        return bars;
    }
    let mut kept: Vec<Bar> = Vec::new();
    let step = |bar: &Bar| (rows.point(f64::from(bar.rows.0)) * 2.0) as i32;
    for bar in bars {
        let length = |bar: &Bar| bar.died.0 - bar.born.0.min(bar.died.0);
        match kept.last_mut() {
            Some(last) if step(last) == step(&bar) => {
                if length(last) < length(&bar) {
                    *last = bar;
                }
            }
            _ => kept.push(bar),
        }
    }
    kept.truncate(most);
    kept
}

/// What a block is, for a tooltip: its place in its text, its sequence, its tokens.
pub fn words(log: &KvLog, row: u32) -> Vec<String> {
    let Some(block) = log.blocks.get(row as usize) else { return Vec::new() };
    let sequence = &log.sequences[block.sequence as usize];
    let mut words = vec![format!("block {} of sequence {}", grouped(u64::from(block.depth)), block.sequence)];
    if 0 < sequence.shared {
        let behind = sequence.behind.map_or(String::new(), |behind| format!(" of sequence {behind}"));
        words.push(format!("which re-uses {}{behind}", crate::base::counted(u64::from(sequence.shared), "block")));
    }
    if 0 < block.capacity {
        words.push(format!("{} of {} tokens", block.tokens, block.capacity));
    }
    if block.again {
        words.push("stored before and removed since".to_owned());
    }
    if block.twice {
        words.push("stored while one of this hash was there".to_owned());
    }
    words
}
