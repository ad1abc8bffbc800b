//! A recording as text that a person reads, and that `diff` and `grep` take: one line an event, each stack once.
//!
//! Always: what the lines mean stands at the head of the file; a stack is written before the first line that names it.

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject, Exporter};
use crate::model::{Action, BlockState, DeviceMemory, EventIdx, Snapshot, StackId};
use crate::replay::{SegmentRecord, recorded};
use std::fmt::Write as _;
use std::io::Write;

const HEAD: &str = "\
# fragscope trace 1
# device D              what follows is about this device; -1 is pinned host memory
# stack N               a stack of allocations or frees; its frames follow, the innermost first
# start | end           the segments before the first event, and after the last
# segment ADDRESS SIZE  small or large half, pool, stream, where it was made
# block ADDRESS SIZE    bytes it occupies, bytes asked for, state, where it was allocated; what lies between is free
# EVENT ACTION ADDRESS SIZE   an event by its number; sizes of alloc and free are what was asked for
# All sizes are bytes, addresses hexadecimal, times Unix microseconds.
";

/// See the head of this file.
pub struct TraceFile;

impl Exporter for TraceFile {
    fn name(&self) -> &'static str {
        "trace"
    }
    fn about(&self) -> &'static str {
        "text to read: one line an event, each stack once"
    }
    fn write(
        &self,
        subject: &ExportSubject<'_>,
        _part: &str,
        out: &mut (dyn Write + Send),
        progress: &Progress,
    ) -> Result<(), ExportError> {
        let snapshot = subject.snapshot;
        let records = recorded::recorded(snapshot, progress)?;
        let mut text = Text { snapshot, told: vec![false; snapshot.stacks.len()], line: HEAD.to_owned() };
        if snapshot.settings.stated {
            text.settings();
        }
        let events = snapshot.devices.as_slice().iter().map(|memory| memory.trace.len() as u64).sum();
        progress.stage("writing", events)?;
        let mut done = 0;
        for (ordinal, record) in records.devices() {
            let _ = writeln!(text.line, "\ndevice {ordinal}");
            if let Some(memory) = snapshot.device_of_ordinal(ordinal).map(|id| &snapshot.devices[id]) {
                text.annotations(memory);
            }
            if record.start_is_exact {
                text.segments("start", &record.start);
            }
            for event in record.trace.events() {
                if event.0 % (1 << 13) == 0 {
                    progress.at(done + u64::from(event.0))?;
                    out.write_all(text.line.as_bytes())?;
                    text.line.clear();
                }
                text.event(&record.trace, event);
            }
            done += record.trace.len() as u64;
            text.segments("end", &record.segments);
            out.write_all(text.line.as_bytes())?;
            text.line.clear();
        }
        out.flush()?;
        Ok(())
    }
}

struct Text<'a> {
    snapshot: &'a Snapshot,
    /// The stacks that were written.
    told: Vec<bool>,
    /// What is still to be written; writing into a text cannot fail.
    line: String,
}

impl Text<'_> {
    fn settings(&mut self) {
        let settings = &self.snapshot.settings;
        let _ = writeln!(self.line, "\nsettings {:?}", settings.conf);
        for (key, value) in &settings.other {
            let _ = writeln!(self.line, "  {key} {value:?}");
        }
    }
    fn annotations(&mut self, memory: &DeviceMemory) {
        let time = |time: Option<i64>| time.map_or_else(|| "?".to_owned(), |time| time.to_string());
        for span in &memory.annotations {
            let name = self.snapshot.stacks.strings.get(span.name);
            let _ = writeln!(self.line, "span {} {} {name:?}", time(span.start_us), time(span.end_us));
        }
    }
    fn segments(&mut self, which: &str, segments: &[SegmentRecord]) {
        for segment in segments {
            self.stack(segment.stack);
            let active = segment.blocks.iter().filter(|block| block.state != BlockState::Inactive);
            active.for_each(|block| self.stack(block.stack));
        }
        let _ = writeln!(self.line, "{which}");
        for segment in segments {
            let (a, b) = self.snapshot.pools.pair(segment.pool);
            let stream = self.snapshot.streams.handle(segment.stream);
            let _ = write!(
                self.line,
                "  segment 0x{:x} {} {} pool {a}.{b} stream {stream}{}",
                segment.address,
                segment.size,
                segment.class.name(),
                if segment.expandable { " expandable" } else { "" }
            );
            self.name_stack(segment.stack);
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Inactive) {
                let address = block.address.unwrap_or(segment.address);
                let requested = block.requested.unwrap_or(block.size);
                let _ = write!(self.line, "    block 0x{address:x} {} {requested} {}", block.size, block.state.name());
                self.name_stack(block.stack);
            }
        }
    }
    fn event(&mut self, trace: &crate::model::Trace, event: EventIdx) {
        let entry = trace.entry(event);
        let strings = &self.snapshot.stacks.strings;
        self.stack(entry.stack);
        let action = match entry.action {
            Action::Unknown => {
                let named = trace.extras_of(event).iter().find(|extra| strings.get(extra.key) == "action");
                named.map_or("unknown", |named| strings.get(named.value))
            }
            known => known.name(),
        };
        let _ = write!(self.line, "{} {action}", event.0);
        let _ = match entry.action {
            Action::Oom => write!(self.line, " device_free {} {}", entry.address, entry.size),
            _ => write!(self.line, " 0x{:x} {}", entry.address, entry.size),
        };
        let stream = self.snapshot.streams.handle(entry.stream);
        if stream != 0 {
            let _ = write!(self.line, " stream {stream}");
        }
        if let Some(pool) = entry.pool.filter(|pool| *pool != crate::model::PoolId::DEFAULT) {
            let (a, b) = self.snapshot.pools.pair(pool);
            let _ = write!(self.line, " pool {a}.{b}");
        }
        if let Some(time_us) = entry.time_us {
            let _ = write!(self.line, " at {time_us}");
        }
        for (name, note) in [("compiled", entry.compile_context), ("note", entry.user_metadata)] {
            if let Some(note) = note {
                let _ = write!(self.line, " {name} {:?}", strings.get(note));
            }
        }
        for extra in trace.extras_of(event).iter().filter(|extra| strings.get(extra.key) != "action") {
            let _ = write!(self.line, " {} {:?}", strings.get(extra.key), strings.get(extra.value));
        }
        self.name_stack(entry.stack);
    }
    /// Writes a stack that was not written yet.
    fn stack(&mut self, stack: StackId) {
        let Some(told) = self.told.get_mut(stack.0 as usize) else { return };
        let frames = self.snapshot.stacks.frames(stack);
        if std::mem::replace(told, true) || frames.is_empty() {
            return;
        }
        let _ = writeln!(self.line, "stack {}", stack.0);
        for frame in frames {
            let plain: String = self.snapshot.stacks.line(*frame).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = writeln!(self.line, "  {plain}");
        }
    }
    /// Ends a line with the stack it is about.
    fn name_stack(&mut self, stack: StackId) {
        if self.snapshot.stacks.frames(stack).is_empty() {
            self.line.push('\n');
        } else {
            let _ = writeln!(self.line, " stack {}", stack.0);
        }
    }
}
