//! A recording as a trace of events for Perfetto's page and `chrome://tracing`: counters, spans and marks on one time axis.
//!
//! Always: a device is a process, a counter takes every change, at the value the window shows; times count from the
//! first event of the file, and events of one µs stand a ns apart, so that none hides another. Where nothing was timed,
//! an event is a µs, and the file says so.

use crate::analysis::{Curve, Fragmentation, Releases, UsageTimeline};
use crate::base::Progress;
use crate::model::{Action, DeviceMemory, EventIdx, Position, Snapshot};
use crate::replay::Replay;
use crate::report::report::ReportError;
use serde::Serialize;
use std::io::{self, Write};

/// Events of one µs that can be told apart, a ns each.
const APART: u32 = 998;

/// Writes all devices that were used.
pub fn write(snapshot: &Snapshot, out: &mut dyn Write, progress: &Progress) -> Result<(), ReportError> {
    let used = || snapshot.devices.as_slice().iter().filter(|memory| memory.is_used());
    let base = used().filter_map(|memory| memory.trace.time_span_us().map(|(first, _)| first)).min();
    let mut writer = Writer { out, first: true };
    let about = About {
        name: &snapshot.origin.name,
        written_by: concat!("fragscope ", env!("CARGO_PKG_VERSION")),
        time_0_unix_us: base,
        time: if base.is_some() { "µs since the first event of the file" } else { "no times were recorded: an event is a µs" },
    };
    write!(writer.out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    serde_json::to_writer(&mut *writer.out, &about).map_err(io::Error::from)?;
    write!(writer.out, ",\"traceEvents\":[")?;
    for memory in used() {
        device(snapshot, memory, base, &mut writer, progress)?;
    }
    writeln!(writer.out, "\n]}}")?;
    writer.out.flush()?;
    Ok(())
}

#[derive(Serialize)]
struct About<'a> {
    name: &'a str,
    written_by: &'static str,
    time_0_unix_us: Option<i64>,
    time: &'static str,
}

/// An event of the form; what it leaves out stays unwritten.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    pid: i64,
    tid: i64,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Name { name: &'a str },
    Bytes { bytes: u64 },
    Oom { event: u32, requested: u64, device_free: u64 },
    Sum { event: u32, bytes: u64 },
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl Writer<'_> {
    fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }
}

fn device(
    snapshot: &Snapshot,
    memory: &DeviceMemory,
    base: Option<i64>,
    writer: &mut Writer<'_>,
    progress: &Progress,
) -> Result<(), ReportError> {
    let pid = i64::from(memory.ordinal) + 1;
    let title = memory.title();
    let plain = |ph, name, ts| Event { ph, name, pid, tid: 0, ts, cat: None, id: None, s: None, args: None };
    writer.put(&Event { args: Some(Args::Name { name: &title }), ..plain("M", "process_name", 0.0) })?;
    let times = Times::of(memory, base);

    let usage = UsageTimeline::of(memory, progress)?;
    let cut = Fragmentation::of(memory, &snapshot.settings, progress)?;
    let curves: [(&str, &Curve); 8] = [
        ("reserved", &usage.reserved),
        ("allocated", &usage.allocated),
        ("active", &usage.active),
        ("requested", &usage.requested),
        ("free", &cut.free),
        ("largest free block", &cut.largest_free_block),
        ("inactive split", &cut.inactive_split),
        ("pending free", &cut.pending_free),
    ];
    for (row, (name, curve)) in curves.into_iter().enumerate() {
        progress.stage("writing counters", curves.len() as u64)?;
        progress.at(row as u64)?;
        let mut last = None;
        let steps = curve.steps(Position::START, Position(memory.end().0.saturating_add(1)));
        for (position, bytes) in steps {
            if last.replace(bytes) != Some(bytes) {
                writer.put(&Event { args: Some(Args::Bytes { bytes }), ..plain("C", name, times.at(position)) })?;
            }
        }
        // A counter ends where its last value stands: without this the last stretch would not be drawn.
        if let Some(bytes) = last.filter(|_| 0 < memory.end().0) {
            writer.put(&Event { args: Some(Args::Bytes { bytes }), ..plain("C", name, times.at(memory.end())) })?;
        }
    }

    for (row, span) in (0u64..).zip(&memory.annotations) {
        let name = snapshot.stacks.strings.get(span.name);
        let id = Some(((memory.ordinal as u32 as u64) << 40) + row);
        let (first, last) = (times.at(Position::START), times.at(memory.end()));
        let from = span.start_us.map_or(first, |time| times.of_time(time));
        let to = span.end_us.map_or(last.max(from), |time| times.of_time(time));
        let part = |ph, ts| Event { cat: Some("annotation"), id, ..plain(ph, name, ts) };
        writer.put(&part("b", from))?;
        writer.put(&part("e", to.max(from)))?;
    }

    let mark = |name, event: EventIdx, args| Event {
        cat: Some("allocator"),
        s: Some("p"),
        args: Some(args),
        ..plain("i", name, times.at(Position::after(event)))
    };
    for event in memory.trace.ooms() {
        let entry = memory.trace.entry(*event);
        let args = Args::Oom { event: event.0, requested: entry.size, device_free: entry.address };
        writer.put(&mark("out of memory", *event, args))?;
    }
    for event in memory.trace.events().filter(|event| memory.trace.actions()[event.0 as usize] == Action::Snapshot) {
        writer.put(&mark("snapshot", event, Args::Sum { event: event.0, bytes: memory.trace.sizes()[event.0 as usize] }))?;
    }
    let releases = Releases::of(memory, &Replay::new(memory), &snapshot.settings, &snapshot.stacks, progress)?;
    for run in releases.empty_caches() {
        writer.put(&mark("empty_cache", EventIdx(run.events.start), Args::Sum { event: run.events.start, bytes: run.bytes }))?;
    }
    Ok(())
}

/// Where positions stand on the time axis, in µs.
struct Times<'a> {
    memory: &'a DeviceMemory,
    base: Option<i64>,
    /// Which event of its µs each event is.
    nth: Vec<u32>,
}

impl<'a> Times<'a> {
    fn of(memory: &'a DeviceMemory, base: Option<i64>) -> Times<'a> {
        let base = base.filter(|_| memory.trace.has_times());
        let (mut nth, mut before): (Vec<u32>, _) = (Vec::new(), None);
        if base.is_some() {
            nth.reserve(memory.trace.len());
            for event in memory.trace.events() {
                let time = memory.trace.time_us(event);
                let place = match nth.last() {
                    Some(last) if before == time => (last + 1).min(APART),
                    _ => 0,
                };
                nth.push(place);
                before = time;
            }
        }
        Times { memory, base, nth }
    }
    fn of_time(&self, time_us: i64) -> f64 {
        time_us.saturating_sub(self.base.unwrap_or(0)) as f64
    }
    /// The time of the state at a position: that of the event that led there, and a ns more, so that the start, which
    /// stands with the first event, is before it.
    fn at(&self, position: Position) -> f64 {
        let Some(event) = position.event() else {
            let first = self.memory.trace.time_span_us().map(|(first, _)| first);
            return first.filter(|_| self.base.is_some()).map_or(0.0, |first| self.of_time(first));
        };
        match (self.base, self.memory.trace.time_us(event), self.nth.get(event.0 as usize)) {
            (Some(_), Some(time), Some(nth)) => self.of_time(time) + f64::from(nth + 1) / 1000.0,
            _ => f64::from(position.0),
        }
    }
}
