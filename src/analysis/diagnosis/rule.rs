//! The contract of a rule, and what it finds.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Cancelled, Progress};
use crate::model::{Item, StackId};

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// It costs memory or time, or may do so next.
    Warning,
    /// It is why the allocation failed.
    Cause,
}

impl Severity {
    /// The word in the command line's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Cause => "cause",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// A guess from a pattern.
    Possible,
    /// The pattern is strong, or rests on an inferred figure.
    Likely,
    /// It follows from recorded figures.
    Certain,
}

impl Certainty {
    /// The word in the command line's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Certainty::Possible => "possible",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        }
    }
}

/// Bytes of one stack that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBytes {
    /// The stack; [`StackId::EMPTY`] for all blocks without one.
    pub stack: StackId,
    /// Its bytes, in the meaning of the finding.
    pub bytes: u64,
    /// Number of its blocks.
    pub count: u64,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// The rule's heading.
    pub title: &'static str,
    /// How grave.
    pub severity: Severity,
    /// How sure.
    pub certainty: Certainty,
    /// Why it is no surer, or on what it rests.
    pub because: &'static str,
    /// What was found, with its figures.
    pub sentence: String,
    /// The bytes it is about.
    pub bytes: u64,
    /// Whose they are, most first.
    pub stacks: Vec<StackBytes>,
    /// Blocks, segments and events to look at.
    pub evidence: Vec<Item>,
    /// What to try, and what it is expected to give; empty where nothing is advised.
    pub suggestion: String,
}

impl Finding {
    /// A finding that rests on recorded figures; the register puts the rule's name and heading in.
    pub fn new(severity: Severity, sentence: String, bytes: u64) -> Finding {
        Finding {
            rule: "",
            title: "",
            severity,
            certainty: Certainty::Certain,
            because: "It follows from the recorded state.",
            sentence,
            bytes,
            stacks: Vec::new(),
            evidence: Vec::new(),
            suggestion: String::new(),
        }
    }
    /// Says how sure it is, and why.
    pub fn sure(mut self, certainty: Certainty, because: &'static str) -> Finding {
        (self.certainty, self.because) = (certainty, because);
        self
    }
    /// Names whose bytes they are.
    pub fn of_stacks(mut self, stacks: Vec<StackBytes>) -> Finding {
        self.stacks = stacks;
        self
    }
    /// Points at things to look at.
    pub fn shown_by(mut self, evidence: Vec<Item>) -> Finding {
        self.evidence = evidence;
        self
    }
    /// Says what to try.
    pub fn advise(mut self, suggestion: impl Into<String>) -> Finding {
        self.suggestion = suggestion.into();
        self
    }
    pub(super) fn heap_size(&self) -> usize {
        size_of::<Finding>()
            + self.sentence.capacity()
            + self.suggestion.capacity()
            + self.stacks.capacity() * size_of::<StackBytes>()
            + self.evidence.capacity() * size_of::<Item>()
    }
}

/// One rule: a name for scripts, and how it looks.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stable name.
    pub name: &'static str,
    /// What it is about, in a few words, as a heading.
    pub title: &'static str,
    /// Looks; nothing found is no finding.
    pub look: fn(&Facts<'_>, Verdict, &Progress) -> Result<Vec<Finding>, Cancelled>,
}

/// Things a finding points at, at most.
pub const MOST_EVIDENCE: usize = 24;
/// Stacks a finding names, at most.
pub const MOST_STACKS: usize = 8;

/// Adds up bytes by stack, most first.
#[derive(Clone, Debug, Default)]
pub struct ByStack {
    rows: rustc_hash::FxHashMap<StackId, StackBytes>,
}

impl ByStack {
    /// Adds one block.
    pub fn add(&mut self, stack: StackId, bytes: u64) {
        let row = self.rows.entry(stack).or_insert(StackBytes { stack, bytes: 0, count: 0 });
        row.bytes = row.bytes.saturating_add(bytes);
        row.count += 1;
    }
    /// The rows, most bytes first, at most [`MOST_STACKS`].
    pub fn most(self) -> Vec<StackBytes> {
        let mut rows: Vec<StackBytes> = self.rows.into_values().collect();
        rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.bytes), row.stack));
        rows.truncate(MOST_STACKS);
        rows
    }
}
