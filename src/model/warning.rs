//! What was wrong in the input and what was done about it: counted per kind, shown, never hidden.
//!
//! To add a kind: one variant, its name, severity and sentence; the compiler finds the places.

use std::collections::BTreeMap;

/// How much a warning takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; every number is right.
    Info,
    /// Contradictory input was mended by a stated rule; totals may be off around it.
    Repaired,
    /// Something that was in the file, or should have been, is lost.
    DataLoss,
}

impl Severity {
    /// The word in the command line's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Repaired => "repaired",
            Severity::DataLoss => "data_loss",
        }
    }
}

macro_rules! warning_kinds {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $severity:ident, $sentence:literal;)*) => {
        /// A kind of trouble in the input.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum WarningKind { $($(#[$doc])* $variant,)* }
        impl WarningKind {
            /// All kinds.
            pub const ALL: &'static [WarningKind] = &[$(WarningKind::$variant,)*];
            /// The stable word for scripts.
            pub const fn name(self) -> &'static str { match self { $(WarningKind::$variant => $name,)* } }
            /// How bad it is.
            pub const fn severity(self) -> Severity { match self { $(WarningKind::$variant => Severity::$severity,)* } }
            /// What it means and what was done, for people.
            pub const fn sentence(self) -> &'static str { match self { $(WarningKind::$variant => $sentence,)* } }
        }
    };
}

warning_kinds! {
    /// The file stops in the middle.
    Truncated, "truncated", DataLoss, "The file ends early; what came before is shown.";
    /// Bytes after the end of the pickle.
    TrailingBytes, "trailing_bytes", Info, "Bytes after the end of the pickle were ignored.";
    /// Keys this version has no place for.
    UnknownKey, "unknown_key", Info, "Keys that this version does not know: kept as extra fields of events and frames, left out elsewhere.";
    /// Actions this version does not know.
    UnknownAction, "unknown_action", Info, "Events with an unknown action; they are listed but change nothing.";
    /// Block states this version does not know.
    UnknownState, "unknown_state", Repaired, "Blocks in an unknown state were taken for free.";
    /// A field is missing or of the wrong type.
    BadField, "bad_field", Repaired, "Fields that are missing or of the wrong type were taken as zero.";
    /// A row that cannot be used at all.
    BadRow, "bad_row", DataLoss, "Rows that are neither event, segment nor block were left out.";
    /// Text that is not valid UTF-8.
    BadText, "bad_text", Repaired, "Text that is not valid UTF-8 was shown with replacement characters.";
    /// An alloc of an address that is live.
    AlreadyLive, "already_live", Repaired, "Allocations of memory that was still live: its free must be missing, so the older block was ended there and counted once.";
    /// A free of an address that was never allocated or was freed already.
    FreeWithoutAlloc, "free_without_alloc", Repaired, "Frees of blocks that were free already: their allocation must be missing.";
    /// A block lies in no known segment.
    NoSegment, "no_segment", Repaired, "Blocks outside every known segment; a segment of their own size was assumed.";
    /// A segment event contradicts the segments known.
    SegmentMismatch, "segment_mismatch", Repaired, "Segment events that do not fit the segments known at that point.";
    /// Blocks live in a segment that was given back.
    BlocksInFreedSegment, "blocks_in_freed_segment", Repaired, "Blocks still live when their segment went back to the driver were ended there.";
    /// The trace's end and the file's segments disagree.
    EndMismatch, "end_mismatch", Repaired, "Blocks live at the end of the trace that the file's segments do not hold; they are shown as live.";
    /// Blocks in the file's segments that the trace contradicts.
    NewerThanTrace, "newer_than_trace", Repaired, "Blocks in the file's segments whose allocation the trace does not hold although it holds others at the same place; they were placed after the last free there.";
    /// Two blocks of a segment overlap or leave its bounds.
    BadLayout, "bad_layout", Repaired, "Blocks of the file's segments that overlap or leave their segment.";
    /// Totals the file states differ from the sum of its blocks.
    TotalsDiffer, "totals_differ", Repaired, "Segments whose stated totals differ from the sum of their blocks; the blocks are trusted.";
    /// The trace's own snapshot events state other totals.
    SnapshotTotalDiffers, "snapshot_total_differs", Info, "Snapshot events that state other active bytes than the replay has at that point.";
    /// Sizes of earlier blocks were corrected by later events.
    SizeCorrected, "size_corrected", Info, "Blocks whose size was corrected by what was allocated next to them later.";
    /// Time goes backwards.
    TimeBackwards, "time_backwards", Info, "Events whose time lies before that of an earlier event; the order of recording is kept.";
    /// The history's buffer was made larger or smaller on the way.
    RingOutOfOrder, "ring_out_of_order", Repaired, "The history's buffer was resized while it was full, which leaves its events out of order; they were put in the order of their times.";
    /// A recorder missed events.
    EventsMissed, "events_missed", DataLoss, "Events that the recorder missed; where the allocator's state is known after them, what must have happened was filled in there.";
    /// A recorder had trouble.
    RecorderTrouble, "recorder_trouble", DataLoss, "The recorder had trouble; the job went on.";
    /// Something else about the file as a whole.
    Note, "note", Info, "Worth knowing.";
}

/// All warnings of one snapshot, counted per kind, with the first example of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(BTreeMap<WarningKind, Counted>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counted {
    count: u64,
    first: String,
}

impl Warnings {
    /// Counts one case. `example` says what and where; only the first of each kind is kept.
    pub fn push(&mut self, kind: WarningKind, example: impl FnOnce() -> String) {
        let counted = self.0.entry(kind).or_default();
        counted.count += 1;
        if counted.count == 1 {
            counted.first = example();
        }
    }
    /// Kinds that occurred, the worst first, with count and first example.
    pub fn iter(&self) -> impl Iterator<Item = (WarningKind, u64, &str)> {
        let mut kinds: Vec<_> = self.0.iter().map(|(kind, c)| (*kind, c.count, c.first.as_str())).collect();
        kinds.sort_by_key(|(kind, ..)| (std::cmp::Reverse(kind.severity()), *kind));
        kinds.into_iter()
    }
    /// How often a kind occurred.
    pub fn count(&self, kind: WarningKind) -> u64 {
        self.0.get(&kind).map_or(0, |c| c.count)
    }
    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The sentence for people: what it means, how often, and the first case.
    pub fn message(kind: WarningKind, count: u64, first: &str) -> String {
        let times = if count == 1 { String::new() } else { format!(" ({} times)", crate::base::grouped(count)) };
        if first.is_empty() {
            format!("{}{times}", kind.sentence())
        } else {
            format!("{}{times} First: {first}.", kind.sentence())
        }
    }
}
