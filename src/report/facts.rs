//! The words and figures of the page: what happened, the counters, who holds what, what is unknown.
//!
//! Always: every figure is one of the replay's; a long name is shortened in the middle, its file and line stay.

use crate::analysis::{LiveByStack, UsageTimeline};
use crate::base::{Bytes, grouped};
use crate::chart::axis::duration_label;
use crate::chart::ink::content_hashes;
use crate::chart::text::{date_time, file_name, own_frames, short_path, telling_frame};
use crate::model::{Action, BlockState, DeviceMemory, EventIdx, Position, Snapshot, StackId, Warnings};
use crate::replay::MemoryState;

/// All that the page says in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The file's name.
    pub title: String,
    /// Name and value of what is known about the source.
    pub origin: Vec<(&'static str, String)>,
    /// One sentence: what the moment is.
    pub headline: String,
    /// More sentences below it.
    pub account: Vec<String>,
    /// Whether the moment is a failure.
    pub failed: bool,
    /// The moment in two or three words: `at event 35 572`, `when the snapshot was taken`.
    pub moment: String,
    /// The request that failed at the moment, in bytes.
    pub request: Option<u64>,
    /// Counters at the moment.
    pub counters: Vec<Counter>,
    /// Top stacks by allocated bytes, then what is left.
    pub stacks: Vec<StackRow>,
    /// What the file cannot tell.
    pub notes: Vec<String>,
    /// What was wrong in the file.
    pub warnings: Vec<String>,
    /// Whether there is a history to draw.
    pub has_history: bool,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in PyTorch's words.
    pub name: &'static str,
    /// Its value for reading.
    pub value: String,
    /// Its value to the byte.
    pub exact: String,
}

/// One row of the table of stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Content hash for the colour; none for the row of what is left.
    pub colour: Option<u32>,
    /// Whether frames are known.
    pub is_stack: bool,
    /// Allocated bytes.
    pub bytes: String,
    /// Share of all allocated bytes.
    pub share: String,
    /// Number of blocks.
    pub count: String,
    /// The frame that names it.
    pub place: String,
    /// Who called it.
    pub callers: String,
}

/// Rows of the table of stacks.
const STACK_ROWS: usize = 12;

/// Collects the facts of one device at the state's moment.
pub fn collect(snapshot: &Snapshot, memory: &DeviceMemory, curves: &UsageTimeline, state: &MemoryState) -> Facts {
    let oom = oom_at(memory, state.position);
    let moment = moment(memory, state.position);
    Facts {
        title: short_path(file_name(&snapshot.origin.name), 90),
        origin: origin(snapshot, memory, curves),
        headline: headline(snapshot, memory, curves, state, &moment),
        account: account(state, oom.map(|oom| memory.trace.sizes()[oom.0 as usize])),
        failed: oom.is_some(),
        request: oom.map(|oom| memory.trace.sizes()[oom.0 as usize]),
        moment,
        counters: counters(memory, state),
        stacks: stacks(snapshot, memory, state),
        notes: memory.coverage.gaps.iter().map(|gap| gap.sentence.clone()).collect(),
        warnings: snapshot.warnings.iter().map(|(kind, count, first)| Warnings::message(kind, count, first)).collect(),
        has_history: memory.has_history(),
    }
}

fn oom_at(memory: &DeviceMemory, position: Position) -> Option<EventIdx> {
    let event = position.event()?;
    (memory.trace.actions().get(event.0 as usize) == Some(&Action::Oom)).then_some(event)
}

fn moment(memory: &DeviceMemory, position: Position) -> String {
    match position.event() {
        _ if !memory.has_history() => "when the snapshot was taken".to_owned(),
        None => "before the first event".to_owned(),
        Some(event) => format!("at event {}", grouped(u64::from(event.0))),
    }
}

fn origin(snapshot: &Snapshot, memory: &DeviceMemory, curves: &UsageTimeline) -> Vec<(&'static str, String)> {
    let origin = &snapshot.origin;
    let mut facts = vec![("file", short_path(&origin.name, 100))];
    if 0 < origin.bytes {
        facts.push(("size", Bytes(origin.bytes).to_string()));
    }
    if !origin.format.is_empty() {
        facts.push(("format", origin.format.clone()));
    }
    if let Some(range) = &origin.written_by {
        let to = range.at_most.as_ref().map_or_else(|| " or later".to_owned(), |most| format!(" to {most}"));
        let same = range.at_most.as_ref() == Some(&range.at_least);
        facts.push(("PyTorch", if same { range.at_least.clone() } else { format!("{}{to}", range.at_least) }));
    }
    let settings = match (&snapshot.settings.conf, snapshot.settings.stated) {
        (conf, true) if !conf.is_empty() => short_path(conf, 160),
        (_, true) => "defaults".to_owned(),
        (_, false) => "not in the file".to_owned(),
    };
    facts.push(("allocator settings", settings));
    facts.push(("device", memory.title().replace("device ", "")));
    facts.push(("events", grouped(memory.trace.len() as u64)));
    if let Some((first, last)) = memory.trace.time_span_us() {
        let lasted = u64::try_from(last.saturating_sub(first)).unwrap_or(0);
        facts.push(("recorded", format!("{} UTC, over {}", date_time(first), duration_label(lasted))));
    }
    if memory.has_history() {
        facts.push(("peak allocated", Bytes(curves.allocated.peak().1).to_string()));
        facts.push(("peak reserved", Bytes(curves.reserved.peak().1).to_string()));
        facts.push(("OOMs", grouped(memory.trace.ooms().len() as u64)));
    }
    facts
}

fn headline(snapshot: &Snapshot, memory: &DeviceMemory, curves: &UsageTimeline, state: &MemoryState, moment: &str) -> String {
    let totals = state.totals;
    if let Some(event) = oom_at(memory, state.position) {
        let entry = memory.trace.entry(event);
        // PyTorch's own message names the segment it asked the driver for, the event the rounded request.
        let segment = snapshot.settings.segment_size(entry.size);
        let asked = if segment == entry.size { String::new() } else { format!(" (a new segment of {})", Bytes(segment)) };
        return format!(
            "Out of memory {moment}: {}{asked} wanted, {} allocated of {} reserved, {} left on the device.",
            Bytes(entry.size),
            Bytes(totals.allocated),
            Bytes(totals.reserved),
            Bytes(entry.address),
        );
    }
    if !memory.is_used() {
        return format!("This snapshot holds neither events nor segments of {}.", memory.title());
    }
    let sums = format!("{} allocated of {} reserved", Bytes(totals.allocated), Bytes(totals.reserved));
    if !memory.has_history() {
        return format!("The memory {moment}: {sums}. There is no history in this file.");
    }
    let is_peak = state.position == curves.allocated.peak().0;
    let words = if is_peak { "The most memory was allocated" } else { "The memory" };
    format!("{words} {moment} of {}: {sums}.", grouped(memory.trace.len() as u64))
}

/// Where the bytes that are reserved and not in use lie, and whether the failed request fits into any of them.
fn account(state: &MemoryState, request: Option<u64>) -> Vec<String> {
    let gaps = state.blocks.iter().filter(|block| block.state == BlockState::Inactive).count() as u64;
    if state.totals.reserved == 0 {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    let free = Bytes(state.totals.free());
    if gaps == 0 {
        sentences.push("Nothing inside the segments is free.".to_owned());
    } else {
        let spread = if gaps == 1 { "one gap".to_owned() } else { format!("{} gaps", grouped(gaps)) };
        let largest = Bytes(state.largest_free_block);
        sentences.push(format!("{free} inside the segments is free, in {spread}; the largest is {largest}."));
    }
    if let Some(request) = request
        && state.largest_free_block < request
        && request <= state.totals.free()
    {
        let sentence =
            "What is free would be enough in sum, but no gap is large enough, and a gap serves only its own pool and stream.";
        sentences.push(sentence.to_owned());
    }
    sentences
}

fn counters(memory: &DeviceMemory, state: &MemoryState) -> Vec<Counter> {
    if !memory.is_used() {
        return Vec::new();
    }
    let totals = state.totals;
    let bytes = |name, value: u64| Counter {
        name,
        value: Bytes(value).to_string(),
        exact: if value < 1024 { String::new() } else { format!("{} bytes", grouped(value)) },
    };
    let count = |name, value: u64, exact: String| Counter { name, value: grouped(value), exact };
    vec![
        bytes("reserved", totals.reserved),
        bytes("allocated", totals.allocated),
        bytes("active (with pending frees)", totals.active),
        bytes("requested by the program", totals.requested),
        bytes("pending free", totals.pending_free()),
        bytes("free inside segments", totals.free()),
        bytes("inactive split", state.inactive_split),
        bytes("largest free block", state.largest_free_block),
        count("segments", state.segments.len() as u64, format!("{} active blocks", grouped(state.active_blocks))),
    ]
}

/// Allocated bytes by stack; stacks that read alike are one row.
fn stacks(snapshot: &Snapshot, memory: &DeviceMemory, state: &MemoryState) -> Vec<StackRow> {
    let hashes = content_hashes(&snapshot.stacks);
    let shares = LiveByStack::of(state, &memory.allocations, &snapshot.stacks).shares;
    let all = state.totals.allocated.max(1);
    let row = |colour, is_stack, (bytes, count): (u64, u64), place: String, callers: String| StackRow {
        colour,
        is_stack,
        bytes: Bytes(bytes).to_string(),
        share: format!("{:.1} %", bytes as f64 / all as f64 * 100.0),
        count: format!("{} {}", grouped(count), if count == 1 { "block" } else { "blocks" }),
        place,
        callers,
    };
    // One row more is shown instead of a rest of one.
    let shown = if shares.len() <= STACK_ROWS + 1 { shares.len() } else { STACK_ROWS };
    let mut table: Vec<StackRow> = shares[..shown]
        .iter()
        .map(|share| {
            let is_stack = !snapshot.stacks.frames(share.stack).is_empty();
            let (hash, (place, callers)) = if is_stack {
                (hashes.get(share.stack.0 as usize).copied().unwrap_or(0), named(snapshot, share.stack))
            } else {
                (0, ("<no stack>".to_owned(), no_stack_reason().to_owned()))
            };
            row(Some(hash), is_stack, (share.bytes, share.count), place, callers)
        })
        .collect();
    if shown < shares.len() {
        let rest = shares[shown..].iter().fold((0, 0), |sum, share| (sum.0 + share.bytes, sum.1 + share.count));
        let place = format!("{} further stacks", grouped((shares.len() - shown) as u64));
        table.push(row(None, false, rest, place, String::new()));
    }
    table
}

const fn no_stack_reason() -> &'static str {
    "    no frames were recorded with these allocations"
}

/// A stack by its telling frame, and up to three of the user's frames that called it.
fn named(snapshot: &Snapshot, stack: StackId) -> (String, String) {
    let stacks = &snapshot.stacks;
    let Some((frame, folded)) = telling_frame(stacks, stack) else { return ("<no stack>".to_owned(), String::new()) };
    let place = |frame| {
        let (file, line) = (file_name(stacks.file(frame)), stacks.frame(frame).line);
        format!("{}  {}:{line}", short_name(stacks.function(frame)), short_path(file, 60))
    };
    let callers = own_frames(stacks, stack, 4).into_iter().filter(|caller| *caller != frame).take(3);
    let callers: String = callers.map(|caller| format!("  ‹ {}", place(caller))).collect();
    let folded = match folded {
        0 => String::new(),
        1 => "    1 framework frame".to_owned(),
        n => format!("    {n} framework frames"),
    };
    (place(frame), format!("{callers}{folded}"))
}

/// A function's name without what makes C++ names endless: parameters, and namespaces where it is still long.
fn short_name(function: &str) -> String {
    const LIMIT: usize = 60;
    let plain = function.replace("(anonymous namespace)::", "");
    let name = plain.split('(').next().filter(|name| !name.trim().is_empty()).unwrap_or(&plain);
    if name.chars().count() <= LIMIT {
        return name.to_owned();
    }
    let own = name.rsplit("::").next().filter(|own| !own.is_empty()).unwrap_or(name);
    match own.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &own[..end]),
        None => own.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_readable() {
        let endless = "x".repeat(100);
        for (function, short) in [
            ("forward", "forward"),
            ("<lambda>", "<lambda>"),
            ("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", "at::_ops::mm::call"),
            ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "torch::cuda::gather_with_cpp"),
            (
                "torch::autograd::generated::NllLossBackward0_apply_functional_of_everything(int)",
                "NllLossBackward0_apply_functional_of_everything",
            ),
            ("(odd)", "(odd)"),
            ("", ""),
            (endless.as_str(), &format!("{}…", "x".repeat(60))),
        ] {
            assert_eq!(short_name(function), short, "{function}");
        }
    }
}
