//! What a file can tell and what it cannot, said once.

/// What part of the story is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// No events, or one: only the state at the dump is known.
    History,
    /// The trace begins in the middle of the run.
    Start,
    /// The trace does not lead to the final segments, or the file is cut off.
    End,
    /// Some or all allocations have no stack.
    Stacks,
    /// Events carry no time.
    Time,
    /// Block sizes had to be inferred without the allocator's settings.
    Sizes,
    /// Segments are unknown or incomplete.
    Segments,
    /// Nothing tells where blocks lie; their places are made up.
    Addresses,
    /// The allocator's settings are not in the file.
    Settings,
}

impl Missing {
    /// The word in the command line's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Missing::History => "history",
            Missing::Start => "start",
            Missing::End => "end",
            Missing::Stacks => "stacks",
            Missing::Time => "time",
            Missing::Sizes => "sizes",
            Missing::Segments => "segments",
            Missing::Addresses => "addresses",
            Missing::Settings => "settings",
        }
    }
}

/// One thing a device's recording cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// What.
    pub missing: Missing,
    /// The cause in a few words: `ring buffer or late start`, `context=None` …
    pub why: String,
    /// One sentence for people, with the figures.
    pub sentence: String,
}

impl Gap {
    /// The cause where a kind of file never holds something, whoever writes it.
    pub const BY_NATURE: &str = "files of this kind do not hold it";
}

/// All that a device's recording cannot tell, most important first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The gaps in the story.
    pub gaps: Vec<Gap>,
}

impl Coverage {
    /// Whether something is missing.
    pub fn lacks(&self, missing: Missing) -> bool {
        self.gaps.iter().any(|gap| gap.missing == missing)
    }
}
