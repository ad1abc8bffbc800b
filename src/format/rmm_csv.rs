//! The log of RAPIDS RMM's `logging_resource_adaptor`: one line an allocation or free, with address and size.
//!
//! Always: columns are found by their names in the first line; a line that cannot be used is counted with its number and
//! left out; sizes are what was asked of the adaptor that logs.

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::neighbour::{self, Plain};
use crate::format::source::Source;
use crate::format::watched;
use crate::model::{Action, AnnotationMark, EventIdx, Extra, MarkStage, Missing, StackId, VersionRange, WarningKind};
use crate::replay::SnapshotBuilder;
use csv::ByteRecord;

/// See the head of this file.
#[derive(Debug)]
pub struct RmmCsv;

const KIND: &str = "an allocation log of NVIDIA RMM (CSV)";
const DAY_US: i64 = 86_400_000_000;

impl Importer for RmmCsv {
    fn name(&self) -> &'static str {
        "rmm-csv"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let columns: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let has = |name: &[u8]| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        if [&b"Action"[..], b"Pointer", b"Size"].into_iter().all(has) { Confidence::Likely } else { Confidence::No }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let name = source.name().to_owned();
        let ordinal = device_of(&name);
        watched::through(source, progress, |reader, at| {
            let mut lines = csv::ReaderBuilder::new().flexible(true).quoting(false).from_reader(reader);
            let head = lines.byte_headers().map_err(|error| neighbour::useless(&name, KIND, error.to_string()))?;
            let columns = Columns::of(head);
            let mut log = Log { builder, columns, ordinal, clock: Clock::default(), failures: 0 };
            let mut line = ByteRecord::new();
            loop {
                match lines.read_byte_record(&mut line) {
                    Ok(true) => log.take(&line),
                    Ok(false) => break,
                    Err(error) => {
                        log.builder.warnings.push(WarningKind::Truncated, || format!("at byte {}: {error}", at.get()));
                        break;
                    }
                }
            }
            log.finish(&name)
        })?;
        Ok(None)
    }
}

/// The device in the name that RMM's Python gives: `log.dev1.csv`; 0 where there is none.
fn device_of(name: &str) -> i32 {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    file.rsplit_once(".dev").and_then(|(_, rest)| digits(rest).parse().ok()).unwrap_or(0)
}

/// Where each column stands.
#[derive(Clone, Copy, Debug)]
struct Columns {
    thread: Option<usize>,
    time: Option<usize>,
    action: Option<usize>,
    pointer: Option<usize>,
    size: Option<usize>,
    stream: Option<usize>,
}

impl Columns {
    fn of(head: &ByteRecord) -> Columns {
        let find = |name: &[u8]| head.iter().position(|column| column.trim_ascii().eq_ignore_ascii_case(name));
        Columns {
            thread: find(b"Thread"),
            time: find(b"Time"),
            action: find(b"Action"),
            pointer: find(b"Pointer"),
            size: find(b"Size"),
            stream: find(b"Stream"),
        }
    }
}

/// A time of day that goes on over midnight.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    days: i64,
    last_us: Option<i64>,
}

impl Clock {
    /// µs since the midnight before the first line. A step back of more than half a day is midnight.
    fn at(&mut self, text: &str) -> Option<i64> {
        let time_us = time_of_day(text)?;
        if self.last_us.is_some_and(|last| time_us + DAY_US / 2 < last) {
            self.days += 1;
        }
        self.last_us = Some(time_us);
        Some(self.days * DAY_US + time_us)
    }
}

/// µs since midnight of `HH:MM:SS.ffffff`, or with a colon before the fraction, as older releases write it.
fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (seconds, fraction) = rest.split_once(['.', ':']).unwrap_or((rest, ""));
    let number = |text: &str, below: i64| text.parse::<i64>().ok().filter(|number| (0..below).contains(number));
    let seconds = number(hours, 24)? * 3600 + number(minutes, 60)? * 60 + number(seconds, 61)?;
    let digits = fraction.get(..fraction.len().min(6))?;
    let micros = if digits.is_empty() { 0 } else { number(digits, 1_000_000)? * 10i64.pow(6 - digits.len() as u32) };
    Some(seconds * 1_000_000 + micros)
}

/// A number in hexadecimal, with or without its prefix; `(nil)` is 0.
fn hexadecimal(text: &str) -> Option<u64> {
    if text == "(nil)" {
        return Some(0);
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).ok()
}

struct Log<'b> {
    builder: &'b mut SnapshotBuilder,
    columns: Columns,
    ordinal: i32,
    clock: Clock,
    failures: u64,
}

impl Log<'_> {
    fn take(&mut self, line: &ByteRecord) {
        let number = line.position().map_or(0, csv::Position::line);
        if let Err(why) = self.row(line) {
            self.builder.warnings.push(WarningKind::BadRow, || format!("line {number}: {why}"));
        }
    }

    fn row(&mut self, line: &ByteRecord) -> Result<(), String> {
        let text = |column: Option<usize>, what: &str| {
            let bytes = column.and_then(|column| line.get(column)).ok_or_else(|| format!("it has no {what}"))?;
            std::str::from_utf8(bytes).map(str::trim).map_err(|_| format!("its {what} is no text"))
        };
        let action = text(self.columns.action, "action")?;
        let size = text(self.columns.size, "size")?;
        let size: u64 = size.parse().map_err(|_| format!("its size is no number of bytes: {size}"))?;
        let pointer = text(self.columns.pointer, "pointer")?;
        let address = hexadecimal(pointer).ok_or_else(|| format!("its pointer is no address: {pointer}"))?;
        let time_us = match self.columns.time {
            Some(_) => {
                let time = text(self.columns.time, "time")?;
                Some(self.clock.at(time).ok_or_else(|| format!("its time is not of a day: {time}"))?)
            }
            None => None,
        };
        let stream = match self.columns.stream {
            Some(_) => {
                let stream = text(self.columns.stream, "stream")?;
                hexadecimal(stream).ok_or_else(|| format!("its stream is no handle: {stream}"))?
            }
            None => 0,
        };
        let thread = self.columns.thread.and_then(|_| text(self.columns.thread, "thread").ok());
        // Handles are compared, never added to.
        let stream = self.builder.streams.intern(i64::from_ne_bytes(stream.to_ne_bytes()));
        let plain = |action| Plain { action, address, size, stream, time_us, stack: StackId::ABSENT };
        let device = self.builder.device(self.ordinal);
        let event = match action {
            "allocate" => neighbour::push(device, plain(Action::Alloc)),
            "free" | "deallocate" => neighbour::push(device, plain(Action::FreeRequested)),
            "allocate failure" => {
                self.failures += 1;
                let event = neighbour::push(device, plain(Action::Unknown));
                self.failed(event, size, time_us);
                event
            }
            other => return Err(format!("its action is not known: {other}")),
        };
        if let Some(thread) = thread {
            let strings = &mut self.builder.stacks.strings;
            let (key, value) = (strings.intern("thread"), strings.intern(thread));
            self.builder.device(self.ordinal).trace.extras.push(Extra { event, key, value });
        }
        Ok(())
    }

    /// A request that failed changes nothing; what the device had left is not in the log, so it is no OOM event with an
    /// account, but named and marked.
    fn failed(&mut self, event: EventIdx, size: u64, time_us: Option<i64>) {
        let strings = &mut self.builder.stacks.strings;
        let (key, value) = (strings.intern("action"), strings.intern("allocate failure"));
        let name = strings.intern(&format!("allocate failure, {}", crate::base::Bytes(size)));
        self.builder.device(self.ordinal).trace.extras.push(Extra { event, key, value });
        if time_us.is_some() {
            for stage in [MarkStage::Start, MarkStage::End] {
                self.builder.marks.push(AnnotationMark { name, stage, device: self.ordinal, time_us });
            }
        }
    }

    fn finish(self, name: &str) -> Result<(), FormatError> {
        let bad = self.builder.warnings.iter().find(|(kind, ..)| *kind == WarningKind::BadRow);
        let first = bad.map_or_else(
            || "it holds no line after its head".to_owned(),
            |(.., first)| format!("none of its lines can be used; {first}"),
        );
        let device = self.builder.device(self.ordinal);
        if device.trace.is_empty() {
            return Err(neighbour::useless(name, KIND, first));
        }
        device.untold = vec![
            neighbour::untold(
                Missing::Segments,
                "A log of RMM holds what was asked of the resource that logs: what lies under it, and what that reserved, is not known.",
            ),
            neighbour::untold(Missing::Stacks, "A log of RMM holds no stacks."),
            neighbour::untold(
                Missing::Time,
                "A log of RMM holds the local time of day and no date: the day it begins on stands as 1 January 1970.",
            ),
        ];
        if 0 < self.failures {
            let failures = crate::base::counted(self.failures, "request");
            self.builder.warnings.push(WarningKind::Note, || {
                format!("{failures} failed; the log does not hold what the device had left, so there is no account of it")
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_go_on_over_midnight() {
        let mut clock = Clock::default();
        for (text, expected) in [
            ("23:59:59.999999", Some(DAY_US - 1)),
            ("00:00:00.000001", Some(DAY_US + 1)),
            ("00:00:00:5", Some(DAY_US + 500_000)),
            ("00:00:00.4", Some(DAY_US + 400_000)),
            ("24:00:00.0", None),
            ("-1:00:00.0", None),
            ("1:2", None),
            ("00:00:01.ä", None),
        ] {
            assert_eq!(clock.at(text), expected, "{text}");
        }
    }

    #[test]
    fn handles_are_hexadecimal_with_and_without_prefix() {
        for (text, expected) in
            [("0x1f", Some(31)), ("1f", Some(31)), ("0", Some(0)), ("(nil)", Some(0)), ("x", None), ("", None)]
        {
            assert_eq!(hexadecimal(text), expected, "{text}");
        }
        for (name, expected) in [("log.dev3.csv", 3), ("/a.dev1.d/log.csv", 0), ("log.csv", 0), ("x.dev12.txt.gz", 12)] {
            assert_eq!(device_of(name), expected, "{name}");
        }
    }
}
