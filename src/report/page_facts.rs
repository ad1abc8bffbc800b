//! The answers put into words: how a [`PageModel`] comes to be.
//!
//! Always: every figure is one of the replay's or of the diagnosis'; a stack is named as everywhere else.

use crate::analysis::diagnosis::{Case, Finding, StackBytes};
use crate::analysis::{Counters, LiveByStack, Spans};
use crate::base::{Bytes, grouped};
use crate::chart::ink::content_hashes;
use crate::chart::series::markers;
use crate::chart::text::{file_name, own_frames, short_path, telling_frame};
use crate::chart::{BlockColour, PartLook};
use crate::model::{DeviceMemory, FrameId, Item, Position, StackId, StackTable, Warnings};
use crate::replay::MemoryState;
use crate::report::material::Material;
use crate::report::memory_summary;
use crate::report::page_model::{
    AccountInfo, CoverageInfo, FindingInfo, FindingsInfo, MOST_MARKERS, MOST_STACKS, MarkerInfo, MomentInfo, PageModel, PartInfo,
    Peak, PinnedInfo, Program, StackRow, StacksInfo, State, StatesInfo, VerdictInfo, Versions, WarningInfo, WindowInfo,
};
use crate::report::report::{ReportOptions, Section};

impl PageModel {
    /// Words the answers.
    pub fn of(material: &Material<'_>, options: &ReportOptions) -> PageModel {
        let Material { snapshot, memory, curves, state, .. } = material;
        let origin = &snapshot.origin;
        let wants = |section| options.sections.has(section);
        let peak = |(position, bytes): (Position, u64)| Peak { event: position.event_number(), bytes };
        let namer = Namer::new(&snapshot.stacks);
        let case = case_of(material);
        let note = options.note.trim();
        PageModel {
            report: Program { program: "fragscope", version: env!("CARGO_PKG_VERSION"), written_us: options.written_us },
            file: origin.name.clone(),
            bytes: origin.bytes,
            format: origin.format.clone(),
            written_by: origin
                .written_by
                .as_ref()
                .map(|range| Versions { at_least: range.at_least.clone(), at_most: range.at_most.clone() }),
            settings: snapshot.settings.stated.then(|| snapshot.settings.conf.clone()),
            device: memory.ordinal,
            device_title: memory.title(),
            events: memory.trace.len() as u64,
            time_us: memory.trace.time_span_us(),
            peak_allocated: peak(curves.allocated.peak()),
            peak_reserved: peak(curves.reserved.peak()),
            ooms: memory.trace.ooms().len() as u64,
            moment: moment(material),
            note: (!note.is_empty()).then(|| note.to_owned()),
            largest_free_block: state.largest_free_block,
            verdict: case.filter(|_| wants(Section::Verdict)).map(|case| VerdictInfo {
                verdict: case.verdict.name(),
                title: case.verdict.title(),
                sentence: case.sentence.clone(),
                event: case.at.event_number(),
                of_moment: case.at == state.position,
                failed: case.request.is_some(),
            }),
            accounting: (wants(Section::Accounting) && memory.is_used()).then(|| account(material)),
            window: window(material),
            findings: case.filter(|_| wants(Section::Findings)).map(|case| FindingsInfo {
                aside: aside(case, state.position),
                rows: case.findings.iter().map(|finding| namer.finding(finding, memory)).collect(),
            }),
            stacks: (wants(Section::Stacks) && memory.is_used()).then(|| namer.stacks(memory, state)),
            pinned: case.filter(|_| wants(Section::Pinned)).and_then(|case| {
                let finding = case.findings.iter().find(|finding| finding.rule == "pinned")?;
                Some(PinnedInfo {
                    sentence: with_aside(&finding.sentence, &aside(case, state.position)),
                    bytes: finding.bytes,
                    rows: finding.stacks.iter().map(|row| namer.row(row)).collect(),
                })
            }),
            states: (wants(Section::States) && memory.is_used()).then(|| StatesInfo {
                moment: State::of(&Counters::of(state, &memory.trace)),
                dump: State::of(&Counters::of(&material.dump, &memory.trace)),
            }),
            memory_summary: material.summary.as_ref().map(|summary| {
                let notes: String = memory_summary::notes(summary).iter().map(|note| format!("{note}\n")).collect();
                format!("{}{notes}", memory_summary::text(summary))
            }),
            coverage: wants(Section::Coverage).then(|| {
                let gaps = memory.coverage.gaps.iter();
                gaps.map(|gap| CoverageInfo { missing: gap.missing.name(), sentence: gap.sentence.clone() }).collect()
            }),
            warnings: wants(Section::Coverage).then(|| {
                let info = |(kind, count, first): (crate::model::WarningKind, u64, _)| WarningInfo {
                    kind: kind.name(),
                    count,
                    message: Warnings::message(kind, count, first),
                };
                snapshot.warnings.iter().map(info).collect()
            }),
        }
    }
}

impl State {
    /// The counters of a state.
    pub fn of(counters: &Counters) -> State {
        State {
            event: counters.position.event_number(),
            reserved: counters.totals.reserved,
            allocated: counters.totals.allocated,
            active: counters.totals.active,
            requested: counters.totals.requested,
            pending_free: counters.totals.pending_free(),
            free: counters.totals.free(),
            inactive_split: counters.inactive_split,
            largest_free_block: counters.largest_free_block,
            segments: counters.segments,
            blocks: counters.blocks,
        }
    }
}

/// The case of the moment, else the last one.
fn case_of<'a>(material: &'a Material<'_>) -> Option<&'a Case> {
    let cases = &material.diagnosis.cases;
    cases.iter().find(|case| case.at == material.position()).or(cases.last()).filter(|_| material.memory.is_used())
}

fn aside(case: &Case, position: Position) -> String {
    if case.at == position {
        return String::new();
    }
    let event = grouped(u64::try_from(case.at.event_number()).unwrap_or(0));
    if case.request.is_some() {
        format!("of the last failure, at event {event}")
    } else {
        format!("of the peak, at event {event}")
    }
}

fn with_aside(sentence: &str, aside: &str) -> String {
    if aside.is_empty() { sentence.to_owned() } else { format!("{sentence} (This is {aside}.)") }
}

fn moment(material: &Material<'_>) -> MomentInfo {
    let Material { snapshot, memory, curves, state, .. } = material;
    let position = state.position;
    let words = match position.event() {
        _ if !memory.has_history() => "when the snapshot was taken".to_owned(),
        None => "before the first event".to_owned(),
        Some(event) => format!("at event {}", grouped(u64::from(event.0))),
    };
    let is_peak = position == curves.allocated.peak().0;
    let kind = match position.event() {
        _ if material.oom().is_some() => "failure",
        _ if !memory.has_history() => "dump",
        None => "start",
        Some(_) if is_peak => "peak",
        Some(_) if position == memory.end() => "dump",
        Some(_) => "event",
    };
    let totals = state.totals;
    let sums = match memory.tells_segments() {
        true => format!("{} allocated of {} reserved", Bytes(totals.allocated), Bytes(totals.reserved)),
        false => format!("{} allocated", Bytes(totals.allocated)),
    };
    let sentence = if let Some(event) = material.oom() {
        let entry = memory.trace.entry(event);
        // PyTorch's own message names the segment it asked the driver for, the event the rounded request.
        let segment = snapshot.settings.segment_size(entry.size);
        let asked = if segment == entry.size { String::new() } else { format!(" (a new segment of {})", Bytes(segment)) };
        format!(
            "Out of memory {words}: {}{asked} wanted, {sums}, {} left on the device.",
            Bytes(entry.size),
            Bytes(entry.address)
        )
    } else if !memory.is_used() {
        format!("This snapshot holds neither events nor segments of {}.", memory.title())
    } else if !memory.has_history() {
        format!("The memory {words}: {sums}. There is no history in this file.")
    } else {
        let what = if is_peak { "The most memory was allocated" } else { "The memory" };
        format!("{what} {words} of {}: {sums}.", grouped(memory.trace.len() as u64))
    };
    MomentInfo {
        event: position.event_number(),
        time_us: position.event().and_then(|event| memory.trace.time_us(event)),
        kind,
        words,
        requested: material.request(),
        sentence,
    }
}

fn account(material: &Material<'_>) -> AccountInfo {
    let account = &material.accounting;
    let parts = account.parts().map(|(name, bytes)| {
        let (label, meaning, look) = part_words(name, account.device_free.is_some());
        PartInfo { name, label, meaning, bytes, look }
    });
    let rest = account.within().saturating_sub(account.sum());
    AccountInfo { within: account.within(), capacity: account.capacity, parts: parts.to_vec(), rest }
}

fn part_words(name: &'static str, failed: bool) -> (&'static str, &'static str, PartLook) {
    match name {
        "free_usable" if !failed => ("free", "gaps of the default pool", PartLook::Usable),
        "free_trapped" if !failed => ("free in private pools", "gaps that serve only their own pool", PartLook::Trapped),
        "live_requested" => ("live", "what the program asked for, in blocks in use", PartLook::Live),
        "rounding" => ("rounding", "added to these blocks, or not split off", PartLook::Rounding),
        "pending_free" => ("pending free", "given back, still waiting for another stream", PartLook::Pending),
        "free_usable" => ("free, usable", "gaps that could serve the request", PartLook::Usable),
        "free_too_small" => ("free, too small", "gaps of the request's own pool and stream, smaller than it", PartLook::TooSmall),
        "free_trapped" => ("free, trapped", "gaps of other pools and streams, or kept by a setting", PartLook::Trapped),
        "outside" => ("outside PyTorch", "contexts, libraries and other processes on the card", PartLook::Outside),
        "device_free" => ("left on the device", "what the driver could still give", PartLook::Untouched),
        other => (other, "", PartLook::Outside),
    }
}

fn window(material: &Material<'_>) -> WindowInfo {
    let Material { memory, clock, window, .. } = material;
    let from = clock.position(window.start);
    let to = clock.position(window.end).min(memory.end());
    let all = markers(material.snapshot, memory, &Spans::default(), &material.releases);
    let shown = all.into_iter().filter(|marker| from <= marker.position && marker.position <= to);
    WindowInfo {
        from_event: from.event_number(),
        to_event: to.event_number(),
        markers: shown
            .take(MOST_MARKERS)
            .map(|marker| MarkerInfo { event: marker.position.event_number(), what: marker.name })
            .collect(),
    }
}

/// Names stacks and things.
pub(super) struct Namer<'a> {
    stacks: &'a StackTable,
    /// Content hash of each stack, by row.
    hashes: Vec<u32>,
}

impl<'a> Namer<'a> {
    pub(super) fn new(stacks: &'a StackTable) -> Namer<'a> {
        Namer { stacks, hashes: content_hashes(stacks) }
    }
    pub(super) fn row(&self, row: &StackBytes) -> StackRow {
        let stacks = self.stacks;
        let frames = stacks.frames(row.stack);
        let (place, callers) = self.named(row.stack);
        let hash = self.hashes.get(row.stack.0 as usize).copied().unwrap_or(0);
        StackRow {
            frames: frames.iter().map(|frame| stacks.line(*frame)).collect(),
            bytes: row.bytes,
            count: row.count,
            place,
            callers,
            colour: if frames.is_empty() { BlockColour::NoStack } else { BlockColour::Stack(hash) },
        }
    }
    /// Allocated bytes by stack; stacks that read alike are one row.
    fn stacks(&self, memory: &DeviceMemory, state: &MemoryState) -> StacksInfo {
        let shares = LiveByStack::of(state, &memory.allocations, self.stacks).shares;
        let shown = shares.len().min(MOST_STACKS);
        let rest = shares[shown..].iter().fold((0u64, 0u64), |sum, share| (sum.0 + share.bytes, sum.1 + share.count));
        StacksInfo {
            allocated: state.totals.allocated,
            rows: shares[..shown]
                .iter()
                .map(|share| self.row(&StackBytes { stack: share.stack, bytes: share.bytes, count: share.count }))
                .collect(),
            further_stacks: (shares.len() - shown) as u64,
            further_bytes: rest.0,
            further_count: rest.1,
        }
    }
    fn finding(&self, finding: &Finding, memory: &DeviceMemory) -> FindingInfo {
        FindingInfo {
            rule: finding.rule,
            severity: finding.severity,
            certainty: finding.certainty.name(),
            because: finding.because,
            sentence: finding.sentence.clone(),
            suggestion: finding.suggestion.clone(),
            stacks: finding.stacks.iter().map(|row| self.row(row)).collect(),
            evidence: finding.evidence.iter().map(|item| self.item(*item, memory)).collect(),
        }
    }
    fn item(&self, item: Item, memory: &DeviceMemory) -> String {
        match item {
            Item::Allocation(id) => {
                let life = memory.allocations.get(id);
                let state = if life.died == Position::NEVER { "" } else { ", freed later" };
                format!("block {} of {}{state}", life.label(), Bytes(life.size))
            }
            Item::Segment(id) => match memory.segments.get(id) {
                Some(segment) => format!("segment 0x{:x} of {}", segment.address, Bytes(segment.size)),
                None => format!("segment {}", id.0),
            },
            Item::Gap { address, size } => format!("gap 0x{address:x} of {}", Bytes(size)),
            Item::Event(event) => format!("event {}", grouped(u64::from(event.0))),
            Item::Stack(stack) => self.named(stack).0,
        }
    }
    /// A stack by its telling frame, and up to three of the user's frames that called it.
    fn named(&self, stack: StackId) -> (String, String) {
        let stacks = self.stacks;
        let Some((frame, folded)) = telling_frame(stacks, stack) else {
            return ("<no stack>".to_owned(), "no frames were recorded with these allocations".to_owned());
        };
        let place = |frame: FrameId| {
            let (file, line) = (file_name(stacks.file(frame)), stacks.frame(frame).line);
            format!("{}  {}:{line}", short_name(stacks.function(frame)), short_path(file, 60))
        };
        let callers = own_frames(stacks, stack, 4).into_iter().filter(|caller| *caller != frame).take(3);
        let mut callers: Vec<String> = callers.map(|caller| format!("‹ {}", place(caller))).collect();
        match folded {
            0 => {}
            1 => callers.push("  1 framework frame".to_owned()),
            n => callers.push(format!("  {n} framework frames")),
        }
        (place(frame), callers.join("  "))
    }
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
