//! What a post-mortem page says, as plain data: the one source of all kinds of report.
//!
//! Always: every figure is a whole number from the replay or from the diagnosis, so PNG, HTML, Markdown and JSON agree
//! by construction; what no chosen section shows is none; names in the file are kept as they are, and each kind of
//! report makes them harmless in its own way. Field names are those of the JSON.

use crate::analysis::diagnosis::Severity;
use crate::base::{Bytes, grouped};
use crate::chart::axis::duration_label;
use crate::chart::text::{date_time, file_name};
use crate::chart::{BlockColour, PartLook};
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
        // Something in use and nothing reserved: the file tells nothing of segments, so it is of another tool.
        let other_tool = self.peak_reserved.bytes == 0 && 0 < self.peak_allocated.bytes;
        if !other_tool {
            facts.push((
                "allocator settings",
                match &self.settings {
                    Some(conf) if conf.is_empty() => "defaults".to_owned(),
                    Some(conf) => conf.clone(),
                    None => "not in the file".to_owned(),
                },
            ));
        }
        facts.push(("events", grouped(self.events)));
        if let Some((first, last)) = self.time_us {
            let lasted = u64::try_from(last.saturating_sub(first)).unwrap_or(0);
            facts.push(("recorded", format!("{} UTC, over {}", date_time(first), duration_label(lasted))));
        }
        if 1 < self.events {
            facts.push(("peak allocated", Bytes(self.peak_allocated.bytes).to_string()));
            if !other_tool {
                facts.push(("peak reserved", Bytes(self.peak_reserved.bytes).to_string()));
            }
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
}
