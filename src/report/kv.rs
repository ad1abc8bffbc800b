//! The paged KV cache in words and lines: the same figures in window, command line and on paper.
//!
//! Always: every figure is one of [`KvCompared`]; bytes are only named where the user said what a block has.

use crate::base::{Bytes, counted, grouped};
use crate::chart::axis::duration_label;
use crate::chart::kv_table::{self, KvTableInput};
use crate::chart::{Clock, Drawing, Group, Ink, LinesInput, Series, Unit, lines};
use crate::model::{DeviceMemory, Position};
use crate::simulator::contiguous::KvCompared;
use std::ops::Range;

/// A figure with its name and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvRow {
    /// Its name.
    pub name: &'static str,
    /// The figure.
    pub text: String,
    /// What it means, in a sentence.
    pub help: &'static str,
}

const HELD: &str = "Blocks in the cache: what was stored less what was removed.";
const SHARED: &str = "Blocks in the cache that more than one sequence uses.";
const WRITTEN: &str = "What buffers in one piece would have held: the text of every sequence in full, nothing shared.";
const RESERVED: &str = "What they would have taken: each its final length from its first block on.";
const END: &str = "Where the last of them would have ended, the gaps between them included.";

/// An amount of the cache: in blocks, and in bytes where a block's are known.
pub fn amount(compared: &KvCompared, value: u64) -> String {
    match compared.paged.block_bytes {
        None => counted(value, "block"),
        Some(bytes) => format!("{} ({})", Bytes(value), counted(value / bytes.max(1), "block")),
    }
}

/// All figures, those at a moment among them.
pub fn rows(compared: &KvCompared, at: Position) -> Vec<KvRow> {
    let KvCompared { paged, contiguous } = compared;
    let (peak_at, peak) = paged.peak();
    let row = |name, text, help| KvRow { name, text, help };
    let event = |position: Position| match position.event() {
        None => "before the first event".to_owned(),
        Some(event) => format!("event {}", grouped(u64::from(event.0))),
    };
    let mut rows = vec![
        row("held at the cursor", format!("{}, {}", amount(compared, paged.held.at(at)), event(at)), HELD),
        row("held at most", format!("{}, {}", amount(compared, peak), event(peak_at)), HELD),
        row("shared at most", amount(compared, paged.shared.peak().1), SHARED),
        row("stored", counted(paged.stored, "block"), "Blocks that were announced as stored."),
        row("removed", counted(paged.removed, "block"), "Blocks that were removed one by one: evicted to make room."),
    ];
    if 0 < paged.clears {
        let text = format!("{}, {}", counted(paged.cleared, "block"), counted(paged.clears, "time"));
        rows.push(row("cleared", text, "Blocks that went when the whole cache was cleared."));
    }
    if 0 < paged.older {
        rows.push(row(
            "older than the log",
            counted(paged.older, "block"),
            "Blocks that were removed and never stored in this log.",
        ));
    }
    rows.push(row(
        "re-used by prefix",
        counted(paged.reused, "block"),
        "Blocks that a new sequence found stored and did not compute again. One that finds all it needs leaves no event.",
    ));
    rows.push(row("sequences", grouped(paged.sequences.len() as u64), "Runs of blocks, each stored behind the one before."));
    rows.push(row(
        "stored again",
        counted(paged.again, "block"),
        "Blocks that had been removed and were computed a second time: a larger cache would have kept them.",
    ));
    if 0 < paged.twice {
        rows.push(row("stored twice", counted(paged.twice, "block"), "Blocks stored while one of the same hash was there."));
    }
    let empty = if paged.tokens == 0 {
        "not known: the log names no tokens".to_owned()
    } else {
        match paged.empty_tokens.at(peak_at) {
            0 => "none: every announced block is full".to_owned(),
            tokens => format!("{} at the peak, of {} a block", counted(tokens, "token"), paged.block_tokens),
        }
    };
    rows.push(row(
        "empty in last pages",
        empty,
        "Room for tokens inside the blocks held. Servers announce a block once it is full, so what a running request has not \
         filled yet is in no event.",
    ));
    let label = |age: u64| if paged.by_time { duration_label(age) } else { counted(age, "event") };
    rows.push(row(
        "age when removed",
        match paged.age {
            None => "nothing was removed".to_owned(),
            Some([least, middle, most]) => format!("{} ({} to {})", label(middle), label(least), label(most)),
        },
        "From storing to removal: the middle of all, the least and the most.",
    ));
    rows.push(row("without pages, written", amount(compared, contiguous.written.peak().1), WRITTEN));
    rows.push(row("without pages, reserved", amount(compared, contiguous.reserved.peak().1), RESERVED));
    rows.push(row("without pages, with gaps", amount(compared, contiguous.end.peak().1), END));
    rows.push(row(
        "saved by paging",
        saving(compared),
        "The most that buffers in one piece would have needed, gaps included, less the most that the pages took.",
    ));
    rows
}

/// What paging saved, in words.
pub fn saving(compared: &KvCompared) -> String {
    let saved = compared.saved();
    let size = u64::try_from(saved.unsigned_abs()).unwrap_or(u64::MAX);
    let without = compared.contiguous.end.peak().1;
    match saved {
        0 => "nothing".to_owned(),
        saved if saved < 0 => format!("nothing: pages took {} more", amount(compared, size)),
        _ => format!("{}, {:.1} %", amount(compared, size), size as f64 * 100.0 / without.max(1) as f64),
    }
}

/// The lines over time.
pub fn series(compared: &KvCompared) -> Vec<Series<'_>> {
    let KvCompared { paged, contiguous } = compared;
    let unit = unit(compared);
    let rows = [
        ("held in pages", HELD, Ink::Series(0), &paged.held),
        ("shared", SHARED, Ink::Series(2), &paged.shared),
        ("without pages, reserved", RESERVED, Ink::Series(4), &contiguous.reserved),
        ("without pages, with gaps", END, Ink::Series(3), &contiguous.end),
    ];
    let series = |(name, help, ink, curve)| Series {
        name,
        label: None,
        help,
        ink,
        unit,
        group: Group::Device,
        shown: true,
        curve,
        bucket: None,
    };
    rows.into_iter().map(series).collect()
}

/// What the lines are in.
pub fn unit(compared: &KvCompared) -> Unit {
    if compared.paged.block_bytes.is_some() { Unit::Bytes } else { Unit::Count }
}

/// Where and when a picture is.
#[derive(Clone, Debug)]
pub struct KvPicture<'a> {
    /// The device.
    pub memory: &'a DeviceMemory,
    /// The horizontal axis.
    pub clock: &'a Clock,
    /// The visible window in units of the clock.
    pub time: Range<f64>,
    /// The moment.
    pub cursor: Option<Position>,
    /// What is selected.
    pub selected: Option<crate::model::Item>,
    /// Size in points.
    pub size_pt: [f32; 2],
}

/// The lines over time as a picture.
pub fn draw_lines(compared: &KvCompared, picture: &KvPicture<'_>) -> Drawing {
    lines::draw(&LinesInput {
        series: &series(compared),
        unit: unit(compared),
        memory: picture.memory,
        clock: picture.clock,
        time: picture.time.clone(),
        cursor: picture.cursor,
        level: None,
        axis: true,
        width_pt: picture.size_pt[0],
        height_pt: picture.size_pt[1],
    })
}

/// The block table as a picture; none where the device is no KV cache.
pub fn draw_table(compared: &KvCompared, picture: &KvPicture<'_>) -> Option<Drawing> {
    let log = picture.memory.kv.as_ref()?;
    Some(kv_table::draw(&KvTableInput {
        memory: picture.memory,
        log,
        cache: &compared.paged,
        clock: picture.clock,
        time: picture.time.clone(),
        cursor: picture.cursor,
        selected: picture.selected,
        width_pt: picture.size_pt[0],
        height_pt: picture.size_pt[1],
    }))
}
