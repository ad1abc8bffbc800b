//! Which set of blocks is looked at: a kind of set over a stretch of time, as the user chose both.
//!
//! Always: the choice follows what it names (the window, the selected range, the marks); what it comes to at this
//! moment is [`Session::which`], the same for every view.

use crate::analysis::Which;
use crate::model::Position;
use crate::session::Session;

/// A kind of set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SetKind {
    /// Born in the stretch.
    #[default]
    Born,
    /// Born in it and freed by its end.
    BornAndFreed,
    /// Born in it and still allocated at its end.
    Grown,
    /// Allocated at both ends.
    Kept,
    /// Allocated at its start and freed by its end.
    Gone,
    /// Allocated at its start.
    LiveAtStart,
    /// Allocated at its end.
    LiveAtEnd,
    /// Born between two marks and still allocated at a third one.
    Lasting,
}

impl SetKind {
    /// All kinds, in the order a menu shows them.
    pub const ALL: [SetKind; 8] = [
        SetKind::Born,
        SetKind::BornAndFreed,
        SetKind::Grown,
        SetKind::Kept,
        SetKind::Gone,
        SetKind::LiveAtStart,
        SetKind::LiveAtEnd,
        SetKind::Lasting,
    ];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            SetKind::Born => "born",
            SetKind::BornAndFreed => "born and freed",
            SetKind::Grown => "born and kept",
            SetKind::Kept => "allocated at both ends",
            SetKind::Gone => "freed, born before",
            SetKind::LiveAtStart => "allocated at the start",
            SetKind::LiveAtEnd => "allocated at the end",
            SetKind::Lasting => "born, allocated at a third mark",
        }
    }
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SetSpan {
    /// The visible window.
    #[default]
    Window,
    /// The selected range.
    Range,
    /// From a mark to another, and a third one for the kind that needs it; by their places in the list of marks.
    Marks {
        /// Where it begins.
        from: usize,
        /// Where it ends.
        to: usize,
        /// The third.
        at: usize,
    },
}

/// A kind of set over a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetChoice {
    /// Which blocks.
    pub kind: SetKind,
    /// Of when.
    pub span: SetSpan,
}

impl SetChoice {
    /// The set over a stretch; `at` is the third moment, for the kind that has one.
    pub fn over(kind: SetKind, from: Position, to: Position, at: Position) -> Which {
        match kind {
            SetKind::Born => Which::Born { from, to },
            SetKind::BornAndFreed => Which::BornAndFreed { from, to },
            SetKind::Grown => Which::Grown { from, to },
            SetKind::Kept => Which::Kept { from, to },
            SetKind::Gone => Which::Gone { from, to },
            SetKind::LiveAtStart => Which::Live { at: from.min(to) },
            SetKind::LiveAtEnd => Which::Live { at: from.max(to) },
            SetKind::Lasting => Which::Lasting { from, to, at },
        }
    }
}

/// Why there is no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSet {
    /// The time axis is on its way.
    NotYet,
    /// Something has to be chosen first; the sentence says what.
    Choose(&'static str),
}

impl Session {
    /// The set that is looked at on the device in front.
    pub fn which(&self) -> Result<Which, NoSet> {
        let (Some((_, _, memory)), Some(place)) = (self.front(), self.workspace().place()) else {
            return Err(NoSet::Choose("No file is open."));
        };
        let SetChoice { kind, span } = place.set;
        let live = matches!(kind, SetKind::LiveAtStart | SetKind::LiveAtEnd);
        if !memory.has_history() && !live {
            return Err(NoSet::Choose(
                "This device has no history: nothing was recorded on it, so nothing is born or freed. What is allocated is in \
                 the live set.",
            ));
        }
        let (from, to, at) = match span {
            SetSpan::Window => {
                let clock = self.clock().ok_or(NoSet::NotYet)?;
                let window = self.window(&clock.clock);
                let (from, to) = (clock.clock.position(window.start), clock.clock.position(window.end));
                (from, to, None)
            }
            SetSpan::Range => match &place.range {
                Some(range) => (range.start, range.end, None),
                None => {
                    return Err(NoSet::Choose(
                        "No range is selected. Hold Shift and drag over the usage view to select one, or look at the window.",
                    ));
                }
            },
            SetSpan::Marks { from, to, at } => {
                let mark = |n: usize| place.marks.get(n).copied();
                match (mark(from), mark(to)) {
                    (Some(from), Some(to)) => (from, to, mark(at)),
                    _ => {
                        return Err(NoSet::Choose(
                            "A mark of this set is not there. Put the cursor at a moment and press M to set one.",
                        ));
                    }
                }
            }
        };
        match (kind, at) {
            (SetKind::Lasting, None) => Err(NoSet::Choose(
                "This set needs three marks: two for when blocks are born, one for when they are still there. Put the cursor at \
                 a moment and press M to set one.",
            )),
            (kind, at) => Ok(SetChoice::over(kind, from, to, at.unwrap_or(to)).within(memory.end())),
        }
    }
}
