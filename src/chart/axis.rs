//! Axes: bytes, events and time to points and back, with ticks at round values.
//!
//! Always: the event index is the only clock. A [`Clock`] maps positions to axis units without ever going
//! backwards: on the event axis the state at `Position(p)` fills `p..p + 1`; on the time axis it begins when
//! the latest time seen up to its event was reached. Bytes tick at powers of two, time and events at 1, 2, 5.

use crate::analysis::{SpanKind, Spans};
use crate::base::{Progress, StringId, grouped};
use crate::model::{DeviceMemory, Position, Trace};
use std::ops::Range;

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeAxis {
    /// Events, evenly spaced.
    #[default]
    Events,
    /// Recorded time in µs since the first event.
    Time,
}

/// Positions to units of the horizontal axis and back; made once per device and axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    axis: TimeAxis,
    /// Time axis only: µs since the start at each event, never decreasing.
    since_start_us: Vec<u64>,
    start_us: i64,
    events: u32,
    /// The named spans of time, by their beginning; worked out once, as each asks the trace for two places.
    spans: Vec<Span>,
    lanes: usize,
}

/// A named span of time on an axis; one open at a side reaches the axis' end there.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: StringId,
    /// What it comes from.
    pub kind: SpanKind,
    /// Where it lies, in axis units.
    pub units: Range<f64>,
    /// Its row on the picture, 0 the uppermost: a span inside another stands lower, kinds stand one below the other.
    pub lane: usize,
    /// Whether it began before and ended after the recording.
    pub open: (bool, bool),
    /// Its row in [`crate::analysis::Spans`].
    pub row: usize,
}

impl Clock {
    /// The clock of a device's trace with its named spans.
    pub fn of(memory: &DeviceMemory, axis: TimeAxis) -> Clock {
        // Nobody can cancel a progress that nobody else has.
        let spans = Spans::of(memory, &Progress::new()).unwrap_or_default();
        Clock::with_spans(memory, axis, &spans)
    }
    /// The clock of a device's trace with spans that are known already.
    pub fn with_spans(memory: &DeviceMemory, axis: TimeAxis, spans: &Spans) -> Clock {
        let mut clock = Clock::new(&memory.trace, axis);
        let whole = clock.span();
        let mut first_lane = 0;
        for kind in SpanKind::ALL {
            let rows = spans.of_kind(kind);
            let first_row = spans.rows.partition_point(|span| span.kind < kind);
            for (row, span) in rows.iter().enumerate() {
                let unit = |position: Position, time: Option<i64>| match (clock.axis, time) {
                    // Annotations lie between events: real time knows where.
                    (TimeAxis::Time, Some(time)) if kind == SpanKind::Annotation => {
                        (time.saturating_sub(clock.start_us) as f64).clamp(whole.start, whole.end)
                    }
                    _ => clock.unit(position),
                };
                let start = if span.open_start { whole.start } else { unit(span.from, span.start_us) };
                let end = if span.open_end { whole.end } else { unit(span.to, span.end_us) };
                clock.spans.push(Span {
                    name: span.name,
                    kind,
                    units: start..end.max(start),
                    lane: first_lane + span.lane as usize,
                    open: (span.open_start, span.open_end),
                    row: first_row + row,
                });
            }
            first_lane += rows.iter().map(|span| span.lane as usize + 1).max().unwrap_or(0);
        }
        clock.lanes = first_lane;
        clock.spans.sort_by(|a, b| a.units.start.total_cmp(&b.units.start));
        clock
    }
    /// A clock of so many even steps, such as the buckets of a rate.
    pub fn even(steps: u32) -> Clock {
        Clock { axis: TimeAxis::Events, since_start_us: Vec::new(), start_us: 0, events: steps, spans: Vec::new(), lanes: 0 }
    }
    /// How many rows the spans need.
    pub fn lanes(&self) -> usize {
        self.lanes
    }
    /// The named spans of time, by their beginning.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.since_start_us.capacity() * size_of::<u64>() + self.spans.capacity() * size_of::<Span>()
    }
    /// The clock of a trace, without spans. A trace without times falls back to events: ask [`Clock::axis`].
    pub fn new(trace: &Trace, axis: TimeAxis) -> Clock {
        let events = trace.len() as u32;
        let by_events = Clock::even(events);
        let Some((start_us, _)) = trace.time_span_us() else { return by_events };
        if axis == TimeAxis::Events {
            return Clock { start_us, ..by_events };
        }
        let mut latest = 0;
        let since_start_us = trace
            .events()
            .map(|event| {
                let since = trace.time_us(event).map_or(0, |time| time.saturating_sub(start_us));
                latest = latest.max(u64::try_from(since).unwrap_or(0));
                latest
            })
            .collect();
        Clock { axis, since_start_us, start_us, ..by_events }
    }
    /// What the axis counts in fact.
    pub fn axis(&self) -> TimeAxis {
        self.axis
    }
    /// Unix time of the axis' zero in µs; 0 where the trace has no times.
    pub fn start_us(&self) -> i64 {
        self.start_us
    }
    /// The whole trace in axis units, never empty; its last state keeps a little room.
    pub fn span(&self) -> Range<f64> {
        match self.axis {
            TimeAxis::Events => 0.0..f64::from(self.events) + 1.0,
            TimeAxis::Time => {
                let last = self.since_start_us.last().copied().unwrap_or(0) as f64;
                0.0..last + (last / 100.0).ceil().max(1.0)
            }
        }
    }
    /// Where the state at a position begins, in axis units; beyond the trace the end of the axis.
    pub fn unit(&self, position: Position) -> f64 {
        if self.events < position.0 {
            return self.span().end;
        }
        match self.axis {
            TimeAxis::Events => f64::from(position.0),
            TimeAxis::Time => match position.0 {
                0 => 0.0,
                p => self.since_start_us.get(p as usize - 1).copied().unwrap_or(0) as f64,
            },
        }
    }
    /// Where a moment lies that is known by its Unix time in µs, and falls at a position.
    pub fn unit_at(&self, time_us: i64, position: Position) -> f64 {
        match self.axis {
            TimeAxis::Events => self.unit(position),
            TimeAxis::Time => {
                let whole = self.span();
                (time_us.saturating_sub(self.start_us) as f64).clamp(whole.start, whole.end)
            }
        }
    }
    /// The last position that has begun at a point of the axis.
    pub fn position(&self, unit: f64) -> Position {
        let position = match self.axis {
            TimeAxis::Events => unit.max(0.0).floor().min(f64::from(self.events)) as u32,
            TimeAxis::Time => self.since_start_us.partition_point(|since| *since as f64 <= unit) as u32,
        };
        Position(position.min(self.events))
    }
    /// Pixel columns as positions: `columns + 1` boundaries over `window`, never decreasing. Column `c` shows the
    /// positions from boundary `c` up to boundary `c + 1`, at least the first one.
    pub fn columns(&self, window: Range<f64>, columns: usize) -> Vec<Position> {
        let step = (window.end - window.start) / columns.max(1) as f64;
        let mut boundaries: Vec<_> = (0..=columns).map(|c| self.position(window.start + step * c as f64)).collect();
        // What begins inside of the last column has no column after it to stand in.
        if let Some(last) = boundaries.last_mut()
            && self.unit(*last) < window.end
        {
            last.0 = last.0.saturating_add(1);
        }
        boundaries
    }
    /// Ticks of a window that is `length_pt` points wide.
    pub fn ticks(&self, window: Range<f64>, length_pt: f32) -> Vec<Tick> {
        match self.axis {
            TimeAxis::Events => event_ticks(window, length_pt),
            TimeAxis::Time => time_ticks(window, length_pt),
        }
    }
}

/// A straight axis: units to points and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Unit at the first end.
    pub from: f64,
    /// Unit at the other end.
    pub to: f64,
    /// Point of `from`.
    pub start_pt: f32,
    /// Point of `to`; smaller than `start_pt` for axes that grow upwards.
    pub end_pt: f32,
}

impl Scale {
    /// An axis from a range of units to a range of points; an empty range of units is widened by one unit.
    pub fn new(units: Range<f64>, start_pt: f32, end_pt: f32) -> Scale {
        let to = if units.start < units.end { units.end } else { units.start + 1.0 };
        Scale { from: units.start, to, start_pt, end_pt }
    }
    /// The point of a unit; not limited to the axis.
    pub fn point(&self, unit: f64) -> f32 {
        let share = (unit - self.from) / (self.to - self.from);
        (f64::from(self.start_pt) + share * f64::from(self.end_pt - self.start_pt)) as f32
    }
    /// The unit of a point; not limited to the axis.
    pub fn unit(&self, point: f32) -> f64 {
        let length = f64::from(self.end_pt - self.start_pt);
        let share = if length == 0.0 { 0.0 } else { f64::from(point - self.start_pt) / length };
        self.from + share * (self.to - self.from)
    }
    /// Units one point spans.
    pub fn units_per_point(&self) -> f64 {
        (self.to - self.from) / f64::from((self.end_pt - self.start_pt).abs()).max(1.0)
    }
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// In axis units.
    pub at: f64,
    /// What stands there.
    pub label: String,
}

/// Room a label needs along a horizontal axis, in points.
const LABEL_WIDTH_PT: f64 = 90.0;
/// Room a label needs along the byte axis, in points.
const LABEL_HEIGHT_PT: f64 = 32.0;

/// Ticks of a byte axis: multiples of a power of two, labelled `256 MiB`, `1.5 GiB`.
pub fn byte_ticks(range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    let least = (range.end - range.start) * LABEL_HEIGHT_PT / f64::from(length_pt).max(1.0);
    let step = least.max(1.0).log2().ceil().min(60.0).exp2();
    multiples(range, step).map(|at| Tick { at, label: byte_label(at as u64, step as u64) }).collect()
}

/// Ticks of an axis that counts, at 1, 2, 5 times a power of ten.
pub fn count_ticks(range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    let least = (range.end - range.start) * LABEL_HEIGHT_PT / f64::from(length_pt).max(1.0);
    multiples(range, decimal_step(least)).map(|at| Tick { at, label: grouped(at as u64) }).collect()
}

/// Ticks of an event axis; the label is the event whose state begins there (its position is one higher).
fn event_ticks(range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    let least = (range.end - range.start) * LABEL_WIDTH_PT / f64::from(length_pt).max(1.0);
    let step = decimal_step(least);
    multiples(range.start - 1.0..range.end - 1.0, step).map(|at| Tick { at: at + 1.0, label: grouped(at as u64) }).collect()
}

/// Ticks of a time axis in µs since the start.
fn time_ticks(range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    const MINUTE_STEPS: [f64; 10] = [10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0];
    let least = (range.end - range.start) * LABEL_WIDTH_PT / f64::from(length_pt).max(1.0);
    let step = if least <= 5e6 {
        decimal_step(least)
    } else {
        let hours = || (least / 3600e6).ceil() * 3600e6;
        MINUTE_STEPS.iter().map(|s| s * 1e6).find(|s| least <= *s).unwrap_or_else(hours)
    };
    multiples(range, step).map(|at| Tick { at, label: time_label(at as u64, step as u64) }).collect()
}

/// Ticks of an axis of durations in µs, at 1, 2, 5 times a power of ten.
pub fn duration_ticks(range: Range<f64>, length_pt: f32) -> Vec<Tick> {
    let least = (range.end - range.start) * LABEL_HEIGHT_PT / f64::from(length_pt).max(1.0);
    let step = decimal_step(least);
    multiples(range, step).map(|at| Tick { at, label: time_label(at as u64, step as u64) }).collect()
}

/// The smallest of 1, 2, 5, 10, 20 … that is at least `least`.
pub fn decimal_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|factor| factor * power).find(|step| least <= *step).unwrap_or(power * 10.0)
}

/// Multiples of a step inside a range, from zero up; at most a thousand.
fn multiples(range: Range<f64>, step: f64) -> impl Iterator<Item = f64> {
    let first = (range.start.max(0.0) / step).ceil();
    (0..1000).map(move |i| (first + f64::from(i)) * step).take_while(move |at| *at <= range.end)
}

/// A tick's bytes, exact, in the largest unit that needs at most three decimals.
fn byte_label(bytes: u64, step: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    if bytes == 0 {
        return "0".to_owned();
    }
    match UNITS.into_iter().find(|(_, unit)| *unit <= bytes && *unit / 8 <= step) {
        Some((name, unit)) => format!("{} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A tick's time in the unit that suits it, exact.
fn time_label(us: u64, step: u64) -> String {
    match us {
        0 => "0".to_owned(),
        _ if 60_000_000 <= step => format!("{} min", us as f64 / 60e6),
        _ if us < 1000 => format!("{us} µs"),
        _ if us < 1_000_000 => format!("{} ms", us as f64 / 1e3),
        _ => format!("{} s", us as f64 / 1e6),
    }
}

/// A span of time for people: `840 µs`, `12.50 ms`, `3.25 s`, `4 min 05 s`, `2 h 10 min`.
pub fn duration_label(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        60_000_000..3_600_000_000 => format!("{} min {:02} s", us / 60_000_000, us / 1_000_000 % 60),
        _ => format!("{} h {:02} min", us / 3_600_000_000, us / 60_000_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, StackId, StreamId, TraceEntry};

    fn labels(ticks: Vec<Tick>) -> String {
        ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" | ")
    }

    fn trace(times: &[Option<i64>]) -> Trace {
        let mut trace = Trace::default();
        for time_us in times {
            trace.push(TraceEntry {
                action: Action::Alloc,
                address: 0,
                size: 1,
                stream: StreamId::DEFAULT,
                time_us: *time_us,
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        trace
    }

    #[test]
    fn byte_ticks_are_round_binary_values() {
        const G: f64 = (1u64 << 30) as f64;
        for (from, to, length, expected) in [
            (0.0, 4.0 * G, 160.0, "0 | 1 GiB | 2 GiB | 3 GiB | 4 GiB"),
            (0.0, 1.2 * G, 160.0, "0 | 256 MiB | 512 MiB | 768 MiB | 1 GiB"),
            (G, 1.5 * G, 160.0, "1 GiB | 1.125 GiB | 1.25 GiB | 1.375 GiB | 1.5 GiB"),
            (0.0, 1000.0, 80.0, "0 | 512 B"),
            (0.0, 0.0, 100.0, "0"),
            (4096.0, 4100.0, 200.0, "4096 B | 4097 B | 4098 B | 4099 B | 4100 B"),
            (1536.0 * G, 3072.0 * G, 100.0, "1.5 TiB | 2 TiB | 2.5 TiB | 3 TiB"),
        ] {
            assert_eq!(labels(byte_ticks(from..to, length)), expected, "{from}..{to}");
        }
    }

    #[test]
    fn event_and_time_ticks_are_round_decimal_values() {
        let clock = |n: usize, last_us: i64, axis| {
            let times: Vec<_> = (0..n).map(|i| Some(last_us * i as i64 / (n - 1).max(1) as i64)).collect();
            Clock::new(&trace(&times), axis)
        };
        let events = clock(35_573, 1, TimeAxis::Events);
        assert_eq!(labels(events.ticks(events.span(), 400.0)), "0 | 10 000 | 20 000 | 30 000");
        assert_eq!(events.ticks(events.span(), 400.0)[1].at, 10_001.0);
        assert_eq!(labels(events.ticks(10.0..14.0, 400.0)), "9 | 10 | 11 | 12 | 13");
        for (last, length, expected) in [
            (30, 400.0, "0 | 10 µs | 20 µs | 30 µs"),
            (2500, 400.0, "0 | 1 ms | 2 ms"),
            (1_500_000, 400.0, "0 | 500 ms | 1 s | 1.5 s"),
            (100_000_000, 400.0, "0 | 30 s | 60 s | 90 s"),
            (600_000_000, 400.0, "0 | 5 min | 10 min"),
            (36_000_000_000, 400.0, "0 | 180 min | 360 min | 540 min"),
        ] {
            let time = clock(50, last, TimeAxis::Time);
            assert_eq!(labels(time.ticks(time.span(), length)), expected, "{last} µs");
        }
    }

    #[test]
    fn the_clock_never_runs_backwards() {
        let times = [Some(100), None, Some(150), Some(120), Some(150), Some(400)];
        let clock = Clock::new(&trace(&times), TimeAxis::Time);
        let units: Vec<f64> = (0..=6).map(|p| clock.unit(Position(p))).collect();
        assert_eq!(units, [0.0, 0.0, 0.0, 50.0, 50.0, 50.0, 300.0]);
        for (unit, position) in [(-5.0, 0), (0.0, 2), (49.0, 2), (50.0, 5), (299.0, 5), (300.0, 6), (1e9, 6)] {
            assert_eq!(clock.position(unit), Position(position), "{unit}");
        }
        assert_eq!(clock.columns(0.0..303.0, 3), [2, 5, 5, 7].map(Position));
        assert_eq!(Clock::new(&trace(&[None, None]), TimeAxis::Time).axis(), TimeAxis::Events);
        assert_eq!(Clock::new(&trace(&[]), TimeAxis::Time).span(), 0.0..1.0);
    }

    #[test]
    fn a_scale_maps_both_ways() {
        let scale = Scale::new(100.0..300.0, 50.0, 10.0);
        for (unit, point) in [(100.0, 50.0), (300.0, 10.0), (200.0, 30.0), (350.0, 0.0)] {
            assert_eq!(scale.point(unit), point);
            assert!((scale.unit(point) - unit).abs() < 1e-6);
        }
        assert_eq!(Scale::new(5.0..5.0, 0.0, 10.0).point(5.0), 0.0);
    }
}
