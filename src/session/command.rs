//! Every way to change anything. Views send these; `Session::apply` is the one place that acts on them.

use crate::analysis::diagnosis::DiagnosisParams;
use crate::analysis::{BlockTableParams, Moment};
use crate::chart::{ColourBy, Theme, TimeAxis};
use crate::model::{DeviceId, Item, Position};
use crate::report::ReportOptions;
use crate::session::capturing::CaptureDeed;
use crate::session::document::DocumentId;
use crate::session::export::PictureWork;
use crate::session::jobs::JobId;
use crate::session::rank_files::RankFile;
use crate::session::set_choice::SetChoice;
use crate::session::what_if::{WhatIfDeed, WhatIfForm};
use crate::session::workspace::EventFilter;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A change somebody asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Opens a file beside what is open.
    Open(PathBuf),
    /// Opens what paths stand for: files, folders, patterns; many files are looked at as the ranks of a job.
    OpenAll(Vec<PathBuf>),
    /// Reads many files beside each other, as the ranks of a job.
    OpenRanks {
        /// Where they come from.
        title: String,
        /// The files.
        files: Vec<RankFile>,
    },
    /// Closes the page of ranks.
    CloseRanks,
    /// Opens a rank as a document, by its place.
    ShowRank(usize),
    /// Compares a rank with the usual one, by its place.
    CompareRank(usize),
    /// Opens bytes that came without a path: something dropped onto the window.
    OpenBytes {
        /// What to call it.
        name: String,
        /// Its content.
        bytes: Arc<[u8]>,
    },
    /// Opens a compiled-in sample by its name.
    OpenSample(&'static str),
    /// Asks for files through the system's dialog.
    OpenDialog,
    /// Asks for a folder of files through the system's dialog.
    OpenFolderDialog,
    /// Closes a document.
    Close(DocumentId),
    /// Brings a document to the front.
    Activate(DocumentId),
    /// Shows another device of the document in front.
    SetDevice(DeviceId),
    /// Puts the cursor at a position, as a link does.
    MoveCursor(Position),
    /// Records a job, or does something with one that is recorded.
    Capture(CaptureDeed),
    /// Shows a document instead of the page of captures.
    LeaveCaptures,
    /// Takes away the line that says how the recording in front ended.
    DismissLive,
    /// Puts the cursor to the end of a recording that grows, and keeps it there.
    FollowEnd,
    /// Shows nothing new of the recording in front while it grows, or goes on doing so.
    HoldLive(bool),
    /// Moves the cursor by events, as keys and buttons do; stops at both ends.
    StepCursor(i64),
    /// Puts the cursor at the next (or previous) out-of-memory event.
    StepOom {
        /// To the right on the time axis.
        forward: bool,
    },
    /// Puts the cursor at the last out-of-memory event.
    GoToLastOom,
    /// Puts the cursor where most is allocated.
    GoToPeak,
    /// Shows a range of units of the current time axis.
    SetWindow(Range<f64>),
    /// Shows `factor` times as much time around the cursor.
    ZoomAtCursor(f64),
    /// Moves the window by a share of its length.
    Pan(f64),
    /// Shows the whole trace and all bytes.
    Fit,
    /// Shows the life of what is selected, with some room around it.
    FrameSelection,
    /// Shows a part of the byte axis, or all of it.
    SetBytes(Option<Range<f64>>),
    /// Shows a part of the address axis, or all of it.
    SetRows(Option<Range<f64>>),
    /// Selects one thing.
    Select(Item),
    /// Selects one thing on a device of any document: what is compared with, for when it comes to the front.
    SelectIn(DocumentId, DeviceId, Item),
    /// Selects a stretch of time.
    SelectRange(Range<Position>),
    /// Selects nothing.
    ClearSelection,
    /// Sets the next mark at the cursor, or takes the one there away.
    ToggleMark,
    /// Takes a mark away, by its place in the list.
    RemoveMark(usize),
    /// Takes all marks away.
    ClearMarks,
    /// Looks at another set of blocks.
    ChooseSet(SetChoice),
    /// Looks at a set of blocks in the view of this name.
    ShowSet {
        /// The set.
        set: SetChoice,
        /// The view.
        view: &'static str,
    },
    /// Tells what a snapshot does not hold: the card's size, PyTorch's own message.
    SetCard(DiagnosisParams),
    /// Fills in what is to be served again.
    SetWhatIf(Box<WhatIfForm>),
    /// Serves again, or does something with what came out.
    WhatIf(WhatIfDeed),
    /// Filters the event list.
    SetFilter(EventFilter),
    /// Searches all views for a line of words; an empty one ends the search.
    SetFind(String),
    /// Puts the cursor at the next (or previous) thing found and selects it; behind the last comes the first.
    StepFind {
        /// To the right on the time axis.
        forward: bool,
    },
    /// Shows events evenly, or real time.
    SetAxis(TimeAxis),
    /// Gives block colours another meaning.
    SetColourBy(ColourBy),
    /// Light or dark.
    SetTheme(Theme),
    /// Back to the step before.
    Undo,
    /// Forward again.
    Redo,
    /// Stops a job.
    Cancel(JobId),
    /// Takes a message away.
    Dismiss(u64),
    /// Asks where to save through the system's dialog; what was picked is [`crate::session::Session::target`].
    AskTarget(String),
    /// Writes a report.
    ExportReport {
        /// Where to; the ending says what kind.
        path: PathBuf,
        /// The moment; none: the one at the cursor.
        moment: Option<Moment>,
        /// How it looks and what it holds; its date is set when it is written.
        options: Box<ReportOptions>,
    },
    /// Writes the recording in front for other tools.
    ExportRecording {
        /// Where to; the ending says what kind.
        path: PathBuf,
        /// Only what happened between two positions, with the states at both; none: everything.
        window: Option<Range<Position>>,
        /// Without paths and names.
        redact: bool,
    },
    /// Writes a table of blocks as CSV.
    SaveTable {
        /// Where to.
        path: PathBuf,
        /// The table.
        params: Box<BlockTableParams>,
    },
    /// Paints a picture and writes it.
    SavePicture {
        /// Where to.
        path: PathBuf,
        /// What paints it.
        picture: PictureWork,
    },
    /// Asks for a file to read through the system's dialog; what was picked is [`crate::session::Session::target`].
    AskSource,
    /// Reads the rules of categories from a file, and remembers the file.
    LoadCategories(PathBuf),
    /// Goes back to the built-in rules of categories.
    UseBuiltInCategories,
    /// Opens a source file at a line in the user's editor.
    OpenSource {
        /// The file as the snapshot names it.
        file: String,
        /// The line, from 1; 0 or less: none.
        line: i64,
    },
    /// Remembers how the user arranged the window's tiles: for the file in front, and for files without an arrangement
    /// of their own. Empty: as at first.
    KeepLayout(String),
    /// Remembers how large everything is, as a factor.
    KeepZoom(f32),
    /// Forgets the recent files.
    ForgetRecent,
    /// Forgets where one was in files.
    ForgetFiles,
}
