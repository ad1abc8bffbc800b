//! What a post-mortem page says, as plain data: the one source of all kinds of report.
//!
//! Always: every figure is a whole number from the replay or from the diagnosis, so PNG, HTML, Markdown and JSON agree
//! by construction; what no chosen section shows is none; names in the file are kept as they are, and each kind of
//! report makes them harmless in its own way. Field names are those of the JSON.

use crate::analysis::diagnosis::{Case, Finding, Severity, StackBytes};
use crate::analysis::{Counters, LiveByStack};
use crate::base::{Bytes, grouped};
use crate::chart::axis::duration_label;
use crate::chart::ink::content_hashes;
use crate::chart::series::markers;
use crate::chart::text::{date_time, file_name, own_frames, short_path, telling_frame};
use crate::chart::{BlockColour, PartLook};
use crate::model::{DeviceMemory, FrameId, Item, Position, Snapshot, StackId, Warnings};
use crate::replay::MemoryState;
use crate::report::material::Material;
use crate::report::report::{ReportOptions, Section};
use serde::Serialize;

/// All that a page says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageModel {
    /// Who wrote the report, and when.
    pub report: Program,
    /// The file as it was named.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Name of its importer.
    pub format: String,
    /// Which PyTorch wrote it, as far as its keys tell.
    pub written_by: Option<Versions>,
    /// The allocator's settings as stated; none where the file does not state them.
    pub settings: Option<String>,
    /// The device's number; −1 is pinned host memory.
    pub device: i32,
    /// Its name.
    pub device_title: String,
    /// Number of its events.
    pub events: u64,
    /// Time of the first and the last event.
    pub time_us: Option<(i64, i64)>,
    /// The most that was allocated.
    pub peak_allocated: Peak,
    /// The most that was reserved.
    pub peak_reserved: Peak,
    /// Number of failures.
    pub ooms: u64,
    /// The moment the page is about.
    pub moment: MomentInfo,
    /// What the user adds.
    pub note: Option<String>,
    /// The largest gap at the moment.
    pub largest_free_block: u64,
    /// Why it failed.
    pub verdict: Option<VerdictInfo>,
    /// Where every byte is.
    pub accounting: Option<AccountInfo>,
    /// What pictures over time show.
    pub window: WindowInfo,
    /// What was found, the gravest first; in the JSON it stands in `why`.
    #[serde(skip)]
    pub findings: Option<FindingsInfo>,
    /// Who holds the memory.
    pub stacks: Option<StacksInfo>,
    /// Who keeps half-used segments from the driver.
    pub pinned: Option<PinnedInfo>,
    /// The moment and the dump side by side.
    pub states: Option<StatesInfo>,
    /// PyTorch's `memory_summary` of the moment.
    pub memory_summary: Option<String>,
    /// What the file cannot tell.
    pub coverage: Option<Vec<CoverageInfo>>,
    /// What was wrong in the file.
    pub warnings: Option<Vec<WarningInfo>>,
}

/// A report as it is handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// What it says.
    pub model: PageModel,
    /// Its files: one, or one a page.
    pub files: Vec<Vec<u8>>,
}

/// The program and the date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Its name.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
    /// When the report was written.
    pub written_us: Option<i64>,
}

/// A range of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// The earliest.
    pub at_least: String,
    /// The latest, if there is one.
    pub at_most: Option<String>,
}

/// The most a counter held, and the first event that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// The event; −1 is before the first.
    pub event: i64,
    /// Its value.
    pub bytes: u64,
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MomentInfo {
    /// After this event; −1 is before the first.
    pub event: i64,
    /// Its time, where recorded.
    pub time_us: Option<i64>,
    /// `failure`, `peak`, `event`, `start` or `dump`.
    pub kind: &'static str,
    /// In two or three words: `at event 35 572`, `when the snapshot was taken`.
    pub words: String,
    /// The bytes that could not be had.
    pub requested: Option<u64>,
    /// One sentence: what the moment is, with its sums.
    pub sentence: String,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictInfo {
    /// Its word, as in `why`.
    pub verdict: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// In one or two sentences.
    pub sentence: String,
    /// The event it is about.
    pub event: i64,
    /// Whether that is the moment of the page; otherwise it is the last failure, or the peak where none failed.
    pub of_moment: bool,
    /// Whether something failed there.
    pub failed: bool,
}

/// The account of all bytes at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountInfo {
    /// What the parts are measured against: the card, else what PyTorch could have had.
    pub within: u64,
    /// The card's size, if known.
    pub capacity: Option<u64>,
    /// The parts, in the order of the bar.
    pub parts: Vec<PartInfo>,
    /// What no part accounts for: with the card known and nothing failed, what others hold or the driver has left.
    pub rest: u64,
}

/// One part of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartInfo {
    /// Its word, as in `why`.
    pub name: &'static str,
    /// What people call it.
    #[serde(skip)]
    pub label: &'static str,
    /// What it is good for.
    #[serde(skip)]
    pub meaning: &'static str,
    /// Its bytes; none where nothing tells.
    pub bytes: Option<u64>,
    /// How it looks.
    #[serde(skip)]
    pub look: PartLook,
}

/// A window of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowInfo {
    /// The first event in it; −1 is the state before the first.
    pub from_event: i64,
    /// The last event in it.
    pub to_event: i64,
    /// Failures and snapshots in it, the first [`MOST_MARKERS`].
    pub markers: Vec<MarkerInfo>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MarkerInfo {
    /// The event.
    pub event: i64,
    /// What it was.
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingsInfo {
    /// Which moment it is about, where that is not the page's.
    pub aside: String,
    /// The findings.
    pub rows: Vec<FindingInfo>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingInfo {
    /// The rule's name.
    pub rule: &'static str,
    /// How grave.
    pub severity: Severity,
    /// How sure, as a word.
    pub certainty: &'static str,
    /// Why it is no surer.
    pub because: &'static str,
    /// What was found.
    pub sentence: String,
    /// What to try; empty where nothing is advised.
    pub suggestion: String,
    /// Whose bytes they are.
    pub stacks: Vec<StackRow>,
    /// Blocks, segments and events to look at.
    pub evidence: Vec<String>,
}

/// Allocated bytes by stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StacksInfo {
    /// All allocated bytes.
    pub allocated: u64,
    /// The top stacks, at most [`MOST_STACKS`].
    pub rows: Vec<StackRow>,
    /// How many more there are.
    pub further_stacks: u64,
    /// Their bytes.
    pub further_bytes: u64,
    /// Their blocks.
    pub further_count: u64,
}

/// Free memory that live blocks pin, charged to their stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinnedInfo {
    /// What it is, in a sentence.
    pub sentence: String,
    /// All bytes that are pinned.
    pub bytes: u64,
    /// The stacks charged with most.
    pub rows: Vec<StackRow>,
}

/// One stack with bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// The frames, innermost first: `file:line function`; empty where none were kept.
    pub frames: Vec<String>,
    /// Its bytes.
    pub bytes: u64,
    /// Number of its blocks.
    pub count: u64,
    /// The frame that names it.
    #[serde(skip)]
    pub place: String,
    /// Who called that.
    #[serde(skip)]
    pub callers: String,
    /// Its colour in the pictures.
    #[serde(skip)]
    pub colour: BlockColour,
}

/// Two states side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatesInfo {
    /// At the moment of the page.
    pub moment: State,
    /// When the file was written: after Python has unwound, where it was a failure.
    pub dump: State,
}

/// The counters of a state, as `at --json` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// After this event.
    pub event: i64,
    /// Sum of segments.
    pub reserved: u64,
    /// Blocks in use.
    pub allocated: u64,
    /// With pending frees.
    pub active: u64,
    /// What the program asked for.
    pub requested: u64,
    /// Given back, still waiting.
    pub pending_free: u64,
    /// Reserved less active.
    pub free: u64,
    /// PyTorch's counter.
    pub inactive_split: u64,
    /// The largest gap.
    pub largest_free_block: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of active blocks.
    pub blocks: u64,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoverageInfo {
    /// What, in a word.
    pub missing: &'static str,
    /// In a sentence.
    pub sentence: String,
}

/// Something that was mended or left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WarningInfo {
    /// Its kind.
    pub kind: &'static str,
    /// How often.
    pub count: u64,
    /// In a sentence.
    pub message: String,
}

/// Stacks of the table, at most.
pub const MOST_STACKS: usize = 40;
/// Markers of the window, at most.
pub const MOST_MARKERS: usize = 100;

impl PageModel {
    /// Words the answers.
    pub fn of(material: &Material<'_>, options: &ReportOptions) -> PageModel {
        let Material { snapshot, memory, curves, state, .. } = material;
        let origin = &snapshot.origin;
        let wants = |section| options.sections.has(section);
        let peak = |(position, bytes): (Position, u64)| Peak { event: position.event_number(), bytes };
        let namer = Namer { snapshot, hashes: content_hashes(&snapshot.stacks) };
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
            memory_summary: options.memory_summary.clone().filter(|_| wants(Section::Summary)),
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
    /// The file's own name.
    pub fn title(&self) -> &str {
        file_name(&self.file)
    }
    /// Name and value of what is known about the source, for reading.
    pub fn origin(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("device", self.device_title.replace("device ", ""))];
        facts.push(("moment", self.moment_in_full()));
        if let Some(Versions { at_least, at_most }) = &self.written_by {
            facts.push((
                "PyTorch",
                match at_most {
                    Some(most) if most == at_least => at_least.clone(),
                    Some(most) => format!("{at_least} to {most}"),
                    None => format!("{at_least} or later"),
                },
            ));
        }
        facts.push((
            "allocator settings",
            match &self.settings {
                Some(conf) if conf.is_empty() => "defaults".to_owned(),
                Some(conf) => conf.clone(),
                None => "not in the file".to_owned(),
            },
        ));
        facts.push(("events", grouped(self.events)));
        if let Some((first, last)) = self.time_us {
            let lasted = u64::try_from(last.saturating_sub(first)).unwrap_or(0);
            facts.push(("recorded", format!("{} UTC, over {}", date_time(first), duration_label(lasted))));
        }
        if 1 < self.events {
            facts.push(("peak allocated", Bytes(self.peak_allocated.bytes).to_string()));
            facts.push(("peak reserved", Bytes(self.peak_reserved.bytes).to_string()));
            facts.push(("failures", grouped(self.ooms)));
        }
        facts.push(("file", self.file.clone()));
        if 0 < self.bytes {
            facts.push(("size", Bytes(self.bytes).to_string()));
        }
        if !self.format.is_empty() {
            facts.push(("format", self.format.clone()));
        }
        facts
    }
    /// The sentence that stands on top, and what comes below it.
    pub fn headline(&self) -> (String, Vec<String>) {
        match &self.verdict {
            Some(verdict) if verdict.of_moment => {
                let (first, rest) = first_sentence(&verdict.sentence);
                (first.to_owned(), (!rest.is_empty()).then(|| rest.to_owned()).into_iter().collect())
            }
            Some(verdict) => {
                let which = if verdict.failed { "The last failure" } else { "The peak" };
                let event = grouped(u64::try_from(verdict.event).unwrap_or(0));
                (self.moment.sentence.clone(), vec![format!("{which}, at event {event}: {}", verdict.sentence)])
            }
            None => (self.moment.sentence.clone(), Vec::new()),
        }
    }
    /// Who wrote it and when, on one line.
    pub fn imprint(&self) -> String {
        let version = self.report.version;
        match self.report.written_us {
            Some(us) => format!("Fragscope {version}, {} UTC", date_time(us)),
            None => format!("Fragscope {version}"),
        }
    }
    /// Whether something failed at the moment.
    pub fn failed(&self) -> bool {
        self.moment.requested.is_some()
    }
    fn moment_in_full(&self) -> String {
        let time = self.moment.time_us.map_or(String::new(), |us| format!(", {} UTC", date_time(us)));
        format!("{}{time}", self.moment.words)
    }
}

impl AccountInfo {
    /// A part's share of the whole, as people read it.
    pub fn share(&self, bytes: u64) -> String {
        share_of(bytes, self.within)
    }
    /// What the whole is.
    pub fn whole(&self) -> String {
        match self.capacity {
            Some(capacity) => format!("the card's {}", Bytes(capacity)),
            None => format!("the {} that PyTorch could have", Bytes(self.within)),
        }
    }
    /// The parts worth a line: those that hold something, and after a failure those that nobody knows.
    pub fn shown(&self) -> Vec<PartInfo> {
        let failed = self.parts.iter().any(|part| part.name == "device_free" && part.bytes.is_some());
        let is_shown = |part: &&PartInfo| part.bytes.map_or(failed, |bytes| 0 < bytes);
        let rest = PartInfo {
            name: "rest",
            label: "others, or left",
            meaning: "held by others on the card, or still to be had from the driver",
            bytes: Some(self.rest),
            look: PartLook::Untouched,
        };
        self.parts.iter().filter(is_shown).copied().chain((0 < self.rest).then_some(rest)).collect()
    }
    /// Whether to say that the card's size would tell more.
    pub fn lacks_card(&self) -> bool {
        self.capacity.is_none() && self.shown().iter().any(|part| part.bytes.is_none())
    }
}

impl StacksInfo {
    /// The first `most` rows, and what is left: how many stacks, their bytes and blocks.
    pub fn top(&self, most: usize) -> (&[StackRow], (u64, u64, u64)) {
        // One row more is shown instead of a rest of one.
        let all = self.rows.len() as u64 + self.further_stacks;
        let shown = if all <= most as u64 + 1 { self.rows.len() } else { most.min(self.rows.len()) };
        let rest = &self.rows[shown..];
        let sum = |of: fn(&StackRow) -> u64| rest.iter().fold(0u64, |sum, row| sum.saturating_add(of(row)));
        let further = (
            rest.len() as u64 + self.further_stacks,
            sum(|row| row.bytes).saturating_add(self.further_bytes),
            sum(|row| row.count).saturating_add(self.further_count),
        );
        (&self.rows[..shown], further)
    }
}

impl State {
    fn of(counters: &Counters) -> State {
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
    /// Name, value, and whether it is bytes.
    pub fn rows(&self) -> [(&'static str, u64, bool); 10] {
        [
            ("reserved", self.reserved, true),
            ("allocated", self.allocated, true),
            ("active (with pending frees)", self.active, true),
            ("requested by the program", self.requested, true),
            ("pending free", self.pending_free, true),
            ("free inside segments", self.free, true),
            ("inactive split", self.inactive_split, true),
            ("largest free block", self.largest_free_block, true),
            ("segments", self.segments, false),
            ("active blocks", self.blocks, false),
        ]
    }
}

/// A share in percent with one decimal.
pub fn share_of(bytes: u64, whole: u64) -> String {
    format!("{:.1} %", bytes as f64 * 100.0 / whole.max(1) as f64)
}

/// `1 block`, `2 blocks`.
pub fn blocks(count: u64) -> String {
    format!("{} {}", grouped(count), if count == 1 { "block" } else { "blocks" })
}

/// A value as people read it.
pub fn value(value: u64, is_bytes: bool) -> String {
    if is_bytes { Bytes(value).to_string() } else { grouped(value) }
}

/// A text up to the end of its first sentence, and the rest.
fn first_sentence(text: &str) -> (&str, &str) {
    match text.find(". ") {
        Some(end) => (&text[..=end], &text[end + 2..]),
        None => (text, ""),
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
    let sums = format!("{} allocated of {} reserved", Bytes(totals.allocated), Bytes(totals.reserved));
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
    let shown = markers(memory).into_iter().filter(|marker| from <= marker.position && marker.position <= to);
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
struct Namer<'a> {
    snapshot: &'a Snapshot,
    /// Content hash of each stack, by row.
    hashes: Vec<u32>,
}

impl Namer<'_> {
    fn row(&self, row: &StackBytes) -> StackRow {
        let stacks = &self.snapshot.stacks;
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
        let shares = LiveByStack::of(state, &memory.allocations, &self.snapshot.stacks).shares;
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
        let stacks = &self.snapshot.stacks;
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
    fn a_sentence_ends_where_it_ends() {
        for (text, first, rest) in [
            ("Live: 1.50 GiB wanted. It holds 22.55 GiB.", "Live: 1.50 GiB wanted.", "It holds 22.55 GiB."),
            ("One only.", "One only.", ""),
            ("", "", ""),
        ] {
            assert_eq!(first_sentence(text), (first, rest));
        }
    }

    #[test]
    fn a_rest_of_one_is_shown() {
        let row = |bytes| StackRow {
            frames: Vec::new(),
            bytes,
            count: 1,
            place: String::new(),
            callers: String::new(),
            colour: BlockColour::NoStack,
        };
        for (rows, further, shown, rest) in
            [(3, 0, 3, (0, 0, 0)), (4, 0, 4, (0, 0, 0)), (5, 0, 3, (2, 1, 2)), (4, 7, 3, (8, 101, 10))]
        {
            let info = StacksInfo {
                allocated: 0,
                rows: (0..rows).rev().map(row).collect(),
                further_stacks: further,
                further_bytes: if further == 0 { 0 } else { 101 },
                further_count: if further == 0 { 0 } else { 9 },
            };
            let (top, left) = info.top(3);
            assert_eq!((top.len(), left), (shown, rest), "{rows} rows");
        }
    }

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
