//! The curves people can look at, as plain data: name, meaning, unit, group. Window and report show the same.
//!
//! Always: a line at pixel resolution passes through the true minimum and maximum of every pixel column and
//! leaves each column at its true value, so no peak and no drop vanishes however far one zooms out;
//! zoomed in far enough it is the curve itself, drawn in steps.

use crate::analysis::fragmentation::WHOLE_PPM;
use crate::analysis::{Curve, Extremes, Fragmentation, UsageTimeline};
use crate::base::{Bytes, grouped};
use crate::chart::axis::{Clock, Tick, TimeAxis, byte_ticks, count_ticks};
use crate::chart::ink::{Ink, pool_name, stream_name};
use crate::model::glossary::{
    ACTIVE, ACTIVE_BLOCKS, ALLOCATED, EXTERNAL, FREE, INACTIVE_SPLIT, INTERNAL, LARGEST_FREE, LARGEST_REQUEST, PENDING_FREE,
    REQUESTED, RESERVED, SEGMENTS,
};
use crate::model::{DeviceMemory, Position, Snapshot};
use std::ops::Range;

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// How many.
    Count,
    /// Parts per million of a whole, shown in percent.
    Share,
}

/// Whose values a series has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The whole device.
    Device,
    /// One pool, half and stream, by name.
    Pool(String),
}

/// One curve with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a> {
    /// PyTorch's word for it.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Its colour.
    pub ink: Ink,
    /// What its values are.
    pub unit: Unit,
    /// Whose they are.
    pub group: Group,
    /// Whether it is shown unless somebody asks otherwise.
    pub shown: bool,
    /// The values at every position.
    pub curve: &'a Curve,
}

impl Series<'_> {
    /// Its value at a position as people read it, exact.
    pub fn label_at(&self, position: Position) -> String {
        value_label(self.unit, self.curve.at(position))
    }
}

/// All series of a device: those of the device first, then pool by pool.
pub fn all_series<'a>(snapshot: &Snapshot, usage: &'a UsageTimeline, fragmentation: &'a Fragmentation) -> Vec<Series<'a>> {
    let UsageTimeline { reserved, allocated, active, requested } = usage;
    let Fragmentation {
        pending_free,
        free,
        inactive_split,
        largest_free_block,
        largest_request,
        segments,
        active_blocks,
        external,
        internal,
        pools,
    } = fragmentation;
    use Unit::{Bytes, Count, Share};
    let device = [
        ("reserved", RESERVED, Ink::Reserved, Bytes, true, reserved),
        ("active", ACTIVE, Ink::Series(7), Bytes, false, active),
        ("allocated", ALLOCATED, Ink::Series(0), Bytes, true, allocated),
        ("requested", REQUESTED, Ink::Series(1), Bytes, false, requested),
        ("free", FREE, Ink::Series(2), Bytes, true, free),
        ("largest free block", LARGEST_FREE, Ink::Series(3), Bytes, true, largest_free_block),
        ("largest request", LARGEST_REQUEST, Ink::Series(4), Bytes, false, largest_request),
        ("inactive split", INACTIVE_SPLIT, Ink::Series(5), Bytes, false, inactive_split),
        ("pending free", PENDING_FREE, Ink::Series(6), Bytes, false, pending_free),
        ("rounding and remainders", INTERNAL, Ink::Series(8), Bytes, false, internal),
        ("external fragmentation", EXTERNAL, Ink::Series(3), Share, true, external),
        ("segments", SEGMENTS, Ink::Series(2), Count, true, segments),
        ("active blocks", ACTIVE_BLOCKS, Ink::Series(0), Count, true, active_blocks),
    ];
    let series = |(name, help, ink, unit, shown, curve), group| Series { name, help, ink, unit, group, shown, curve };
    let mut all: Vec<Series<'a>> = device.into_iter().map(|row| series(row, Group::Device)).collect();
    for curves in pools {
        let names = [pool_name(snapshot, curves.pool), curves.class.name().to_owned(), stream_name(snapshot, curves.stream)];
        let rows = [
            ("reserved", RESERVED, Ink::Reserved, Bytes, true, &curves.reserved),
            ("active", ACTIVE, Ink::Series(7), Bytes, false, &curves.active),
            ("allocated", ALLOCATED, Ink::Series(0), Bytes, true, &curves.allocated),
            ("largest free block", LARGEST_FREE, Ink::Series(3), Bytes, true, &curves.largest_free_block),
            ("largest request", LARGEST_REQUEST, Ink::Series(4), Bytes, false, &curves.largest_request),
        ];
        all.extend(rows.into_iter().map(|row| series(row, Group::Pool(names.join(", ")))));
    }
    all
}

/// A moment marked across all series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where.
    pub position: Position,
    /// Its colour.
    pub ink: Ink,
    /// What happened.
    pub name: String,
}

/// Failures and snapshots of a device, in order.
pub fn markers(memory: &DeviceMemory) -> Vec<Marker> {
    use crate::model::{Action, EventIdx};
    let actions = memory.trace.actions().iter().zip(0u32..);
    let marked = actions.filter(|(action, _)| matches!(action, Action::Oom | Action::Snapshot));
    marked
        .map(|(action, event)| {
            let position = Position::after(EventIdx(event));
            let size = memory.trace.sizes()[event as usize];
            match action {
                Action::Oom => Marker { position, ink: Ink::Oom, name: format!("out of memory: {} wanted", Bytes(size)) },
                _ => Marker { position, ink: Ink::WeakText, name: "snapshot".to_owned() },
            }
        })
        .collect()
}

/// A value as people read it, exact.
pub fn value_label(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Bytes => Bytes(value).exact(),
        Unit::Count => grouped(value),
        Unit::Share => format!("{:.2} %", value as f64 * 100.0 / WHOLE_PPM as f64),
    }
}

/// Ticks of a value axis at round values: binary for bytes, decimal for the rest.
pub fn value_ticks(unit: Unit, range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    match unit {
        Unit::Bytes => byte_ticks(range, length_pt),
        Unit::Count => count_ticks(range, length_pt),
        Unit::Share => {
            let percent = WHOLE_PPM as f64 / 100.0;
            let ticks = count_ticks(range.start / percent..range.end / percent, length_pt).into_iter();
            ticks.map(|tick| Tick { at: tick.at * percent, label: format!("{} %", tick.label) }).collect()
        }
    }
}

/// The highest value in a window of the clock.
pub fn highest(curve: &Curve, clock: &Clock, window: &Range<f64>) -> u64 {
    let (from, to) = (clock.position(window.start), Position(clock.position(window.end).0.saturating_add(1)));
    curve.max_in(from, to).1
}

/// A curve as the points of a line over a window of the clock, at most four a column.
pub fn step_points(curve: &Curve, clock: &Clock, window: &Range<f64>, columns: usize) -> Vec<[f64; 2]> {
    let columns = columns.max(1);
    let (first, last) = (clock.position(window.start), clock.position(window.end));
    let mut line = Steps::default();
    if (last.0 - first.0) as usize <= 2 * columns {
        for (position, value) in curve.steps(first, Position(last.0.saturating_add(1))) {
            line.step(clock.unit(position).max(window.start), value as f64);
        }
        line.to(window.end);
        return line.points;
    }
    let width = (window.end - window.start) / columns as f64;
    let mut boundaries = clock.columns(window.clone(), columns);
    if clock.axis() == TimeAxis::Events && 256 * columns <= (last.0 - first.0) as usize {
        // Where a column holds hundreds of positions, its edges may lie where the curve's runs begin: that moves
        // them by less than a sixteenth of a pixel and halves the work.
        boundaries.iter_mut().skip(1).for_each(|position| *position = Position(position.0 / 16 * 16).max(first));
    }
    if let Some(end) = boundaries.last_mut() {
        // The state that has begun last in the window is part of it.
        *end = if clock.unit(last) < window.end { Position(last.0.saturating_add(1)) } else { last };
    }
    for (column, ends) in boundaries.windows(2).enumerate() {
        let (from, to) = (ends[0], ends[1].max(Position(ends[0].0.saturating_add(1))));
        let left = window.start + width * column as f64;
        let Extremes { low, high, high_at, last } = curve.extremes_in(from, to);
        if low == high {
            line.step(left, high as f64);
            continue;
        }
        // One stroke in the middle of the column: from where the line comes, over both extremes, to where it goes on.
        // The highest first or the lowest: that nearer to the edge it lies at.
        let extremes = if high_at.0 - from.0 < (to.0 - from.0) / 2 { [high, low] } else { [low, high] };
        for value in extremes.into_iter().chain([last]) {
            line.step(left + width / 2.0, value as f64);
        }
    }
    line.to(window.end);
    line.points
}

/// A line of steps; runs of one value are one piece.
#[derive(Default)]
struct Steps {
    points: Vec<[f64; 2]>,
}

impl Steps {
    fn step(&mut self, x: f64, value: f64) {
        if self.points.last().is_some_and(|last| last[1] == value) {
            return;
        }
        self.to(x);
        self.points.push([x, value]);
    }
    /// Goes on to a place at the last value.
    fn to(&mut self, x: f64) {
        if let Some([at, value]) = self.points.last().copied()
            && at < x
        {
            self.points.push([x, value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, StackId, StreamId, Trace, TraceEntry};

    fn clock(events: usize) -> Clock {
        let mut trace = Trace::default();
        for _ in 0..events {
            trace.push(TraceEntry {
                action: Action::Alloc,
                address: 0,
                size: 1,
                stream: StreamId::DEFAULT,
                time_us: None,
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        Clock::new(&trace, TimeAxis::Events)
    }

    #[test]
    fn zoomed_in_a_line_is_the_curve_in_steps() {
        let curve = Curve::from_deltas(&[5, 0, 3, -8, 0, 0]);
        for (window, expected) in [
            (0.0..6.0, vec![[0.0, 5.0], [2.0, 5.0], [2.0, 8.0], [3.0, 8.0], [3.0, 0.0], [6.0, 0.0]]),
            (2.5..3.5, vec![[2.5, 8.0], [3.0, 8.0], [3.0, 0.0], [3.5, 0.0]]),
            (4.0..5.0, vec![[4.0, 0.0], [5.0, 0.0]]),
        ] {
            assert_eq!(step_points(&curve, &clock(5), &window, 100), expected, "{window:?}");
        }
    }

    #[test]
    fn no_peak_vanishes_however_far_one_zooms_out() {
        let mut deltas = vec![0i64; 100_001];
        deltas[0] = 1000;
        deltas[100_000] = 5;
        for (at, height) in [(777usize, 50i64), (50_000, -900), (99_998, 1_000_000)] {
            deltas[at] += height;
            deltas[at + 1] -= height;
        }
        let (curve, clock) = (Curve::from_deltas(&deltas), clock(100_000));
        for columns in [1, 7, 100, 1900] {
            let points = step_points(&curve, &clock, &clock.span(), columns);
            assert!(points.len() <= 4 * columns + 2, "{} points in {columns} columns", points.len());
            assert!(points.is_sorted_by(|a, b| a[0] <= b[0]), "{columns} columns");
            let values: Vec<f64> = points.iter().map(|point| point[1]).collect();
            assert!(values.contains(&1_001_000.0) && values.contains(&100.0), "{columns} columns");
            assert_eq!(values.contains(&1050.0), 1 < columns, "{columns} columns");
            assert_eq!(values[values.len() - 1], 1005.0, "the last state of all");
        }
    }

    #[test]
    fn values_read_exactly() {
        for (unit, value, label) in [
            (Unit::Bytes, 1 << 30, "1.00 GiB (1 073 741 824 bytes)"),
            (Unit::Count, 12_345, "12 345"),
            (Unit::Share, 971_234, "97.12 %"),
        ] {
            assert_eq!(value_label(unit, value), label);
        }
        let labels =
            |unit, range, length| value_ticks(unit, range, length).into_iter().map(|t| t.label).collect::<Vec<_>>().join(" | ");
        assert_eq!(labels(Unit::Share, 0.0..1e6, 200.0), "0 % | 20 % | 40 % | 60 % | 80 % | 100 %");
        assert_eq!(labels(Unit::Count, 0.0..3500.0, 160.0), "0 | 1 000 | 2 000 | 3 000");
        assert_eq!(labels(Unit::Count, 0.0..1.0, 160.0), "0 | 1");
    }
}
