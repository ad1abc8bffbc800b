//! A table of blocks as CSV (RFC 4180), or parted by tabs for a clipboard.
//!
//! Always: one line a row in the table's order, numbers as bare digits, so the columns add up to the table's sums;
//! what is not known is an empty cell.

use crate::analysis::{BlockLife, BlockRow, BlockTable, FrameworkFrames, GroupBy, GroupKey, pool_of};
use crate::base::{Cancelled, Progress};
use crate::chart::block_words::key_name;
use crate::chart::ink::{pool_name, stream_name};
use crate::model::{AllocationId, DeviceMemory, Position, Snapshot, StackId};
use std::io::{self, Write};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextForm {
    /// Commas, quotes where needed, whole stacks.
    Csv,
    /// Tabs, and of each stack the frame that names it.
    Tabs,
}

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// Nobody wants it any more.
    #[error("cancelled")]
    Cancelled,
    /// The file could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Cancelled> for CsvError {
    fn from(Cancelled: Cancelled) -> Self {
        CsvError::Cancelled
    }
}

/// Writes all rows of a table, with a head line.
pub fn write(
    table: &BlockTable,
    snapshot: &Snapshot,
    memory: &DeviceMemory,
    form: TextForm,
    out: &mut dyn Write,
    progress: &Progress,
) -> Result<(), CsvError> {
    /// Rows between two looks at the progress.
    const STEP: usize = 1 << 12;
    let writer = Writer { table, snapshot, memory, form, framework: FrameworkFrames::of(&snapshot.stacks) };
    progress.stage("writing rows", table.len() as u64)?;
    let mut line = String::new();
    writer.line(writer.head().iter().copied(), &mut line);
    for (done, row) in table.rows(&memory.allocations).enumerate() {
        if done % STEP == 0 {
            progress.at(done as u64)?;
        }
        out.write_all(line.as_bytes())?;
        line.clear();
        line.push('\n');
        let cells = match row.key {
            GroupKey::Block(id) => writer.block(&row, id),
            _ => writer.group(&row),
        };
        writer.line(cells.iter().map(String::as_str), &mut line);
    }
    out.write_all(line.as_bytes())?;
    Ok(())
}

struct Writer<'a> {
    table: &'a BlockTable,
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    form: TextForm,
    framework: FrameworkFrames,
}

impl Writer<'_> {
    fn head(&self) -> Vec<&'static str> {
        match self.table.params.by {
            GroupBy::Block => vec![
                "block",
                "bytes",
                "requested",
                "born at event",
                "freed at event",
                "life in events",
                "life in µs",
                "stream",
                "pool",
                "stack",
            ],
            by => vec![by.name(), "bytes", "requested", "blocks", if by == GroupBy::Stack { "frames" } else { "stack" }],
        }
    }
    fn group(&self, row: &BlockRow) -> Vec<String> {
        let name = match row.key {
            GroupKey::Size(size) => size.to_string(),
            // A path is shortened only where room is short.
            GroupKey::File(Some(file)) => self.snapshot.stacks.strings.get(file).to_owned(),
            _ => key_name(self.snapshot, self.memory, self.table, row),
        };
        let [bytes, requested, count] = [row.sum.bytes, row.sum.requested, row.sum.count].map(|number| number.to_string());
        vec![name, bytes, requested, count, self.stack(row.stack)]
    }
    fn block(&self, row: &BlockRow, id: AllocationId) -> Vec<String> {
        let life = self.memory.allocations.get(id);
        let length = BlockLife::of(self.memory, id);
        let event = |at: Position, known: bool| at.event().filter(|_| known).map_or(String::new(), |event| event.0.to_string());
        let pool = pool_of(self.memory, id);
        vec![
            life.label(),
            row.sum.bytes.to_string(),
            row.sum.requested.to_string(),
            event(life.born, true),
            event(life.freed, life.freed <= self.memory.end()),
            if length.whole { length.events.to_string() } else { String::new() },
            length.time_us.map_or(String::new(), |time| time.to_string()),
            stream_name(self.snapshot, life.stream),
            pool.map_or(String::new(), |(pool, class)| format!("{}, {}", pool_name(self.snapshot, pool), class.name())),
            self.stack(row.stack),
        ]
    }
    fn stack(&self, stack: StackId) -> String {
        let stacks = &self.snapshot.stacks;
        let frames = stacks.frames(stack);
        match self.form {
            TextForm::Csv => frames.iter().map(|frame| stacks.line(*frame)).collect::<Vec<_>>().join("; "),
            TextForm::Tabs => self.framework.telling(frames).map_or(String::new(), |frame| stacks.line(frame)),
        }
    }
    fn line<'c>(&self, cells: impl Iterator<Item = &'c str>, line: &mut String) {
        for (place, cell) in cells.enumerate() {
            match self.form {
                TextForm::Csv => {
                    if 0 < place {
                        line.push(',');
                    }
                    if cell.contains([',', '"', '\n', '\r']) {
                        line.push('"');
                        line.push_str(&cell.replace('"', "\"\""));
                        line.push('"');
                    } else {
                        line.push_str(cell);
                    }
                }
                TextForm::Tabs => {
                    if 0 < place {
                        line.push('\t');
                    }
                    line.extend(cell.chars().map(|c| if matches!(c, '\t' | '\n' | '\r') { ' ' } else { c }));
                }
            }
        }
    }
}

/// The number of rows of a table as text, at most: more than anybody pastes, and than a clipboard takes.
pub const MOST_COPIED: usize = 100_000;

/// Rows of a table as one text.
pub fn text(
    table: &BlockTable,
    snapshot: &Snapshot,
    memory: &DeviceMemory,
    form: TextForm,
    progress: &Progress,
) -> Result<String, Cancelled> {
    let mut bytes = Vec::new();
    match write(table, snapshot, memory, form, &mut bytes, progress) {
        // What is written are whole texts, into memory.
        Ok(()) | Err(CsvError::Io(_)) => Ok(String::from_utf8(bytes).unwrap_or_default()),
        Err(CsvError::Cancelled) => Err(Cancelled),
    }
}
