//! Floor 8: what is open, what is asked, what the user chose. No toolkit.
//!
//! [`Session`] owns all shared state. Views read it through `&Session`, ask questions with
//! [`Session::ask`], and change things only by [`Session::send`]ing a [`Command`]. Once a frame
//! [`Session::tick`] takes in what jobs delivered, applies the commands, and lets the history settle.
//! Everything that takes time runs in a job ([`jobs`]).

mod apply;
mod arrive;
mod aside;
pub mod block_text;
pub mod capture_form;
pub mod capturing;
mod categories;
pub mod command;
pub mod comparison;
pub mod document;
pub mod event_rows;
pub mod export;
mod file_memory;
pub mod find;
pub mod history;
pub mod jobs;
pub mod live;
mod live_job;
pub mod lookups;
pub mod memo;
pub mod opening;
pub mod persist;
pub mod pictures;
pub mod rank_files;
pub mod ranks;
pub mod samples;
pub mod set_choice;
pub mod source_file;
pub mod what_if;
pub mod workspace;

pub use command::Command;
pub use document::{Document, DocumentId};
pub use jobs::{JobStatus, Waker};
pub use memo::Answer;
pub use persist::Saved;
pub use set_choice::{NoSet, SetChoice, SetKind, SetSpan};
pub use workspace::{EventFilter, Find, Place, Window, Workspace};

use crate::analysis::diagnosis::DiagnosisParams;
use crate::analysis::{Asked, Categories, CommonSteps, Found, Query, StateAt, Subject, UsageTimeline};
use crate::chart::{Clock, ColourBy, Theme};
use crate::format::Told;
use crate::model::{DeviceId, DeviceMemory, Item, Snapshot};
use crate::raster::{LivesIndex, Raster};
use crate::replay::{MemoryState, Replay};
use event_rows::EventRows;
use history::History;
use jobs::{JobError, JobId, JobSpec, Jobs, Lane, Slot};
use lookups::{ClockOf, FlameInksOf, InksOf, RangeTotals, WeighedClock, WeighedInks};
use memo::{Memo, Scope};
use pictures::{Look, PictureKey, Pictures};
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Bytes of answers that are kept. The snapshots themselves come on top.
const ANSWER_BUDGET: usize = 768 << 20;

/// The system's file dialogs; they may block, so they are only called from jobs.
pub trait Dialogs: Send + Sync {
    /// Files to open; none where the user cancelled or there is no dialog.
    fn pick_files(&self) -> Vec<PathBuf>;
    /// A folder of files to open; none where the user cancelled or there is no dialog.
    fn pick_folder(&self) -> Option<PathBuf> {
        None
    }
    /// Where to save; `name` is the suggestion.
    fn pick_target(&self, name: &str) -> Option<PathBuf>;
}

/// A line for the user about something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// To take it away.
    pub id: u64,
    /// The sentence.
    pub text: String,
    /// Whether something went wrong.
    pub is_error: bool,
}

/// What a tick asks of whoever drives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// Tick again after this many seconds even if nothing happens.
    pub again_after_s: Option<f64>,
}

/// What jobs deliver to the session.
pub(crate) enum Message {
    Document(Document),
    FirstCurves(DocumentId, DeviceId),
    Replays(DocumentId, Arc<Vec<Replay>>),
    Answer(Box<dyn FnOnce(&mut Memo) + Send>),
    Commands(Vec<Command>),
    Picture(PictureKey, u64, Look, Raster),
    Live(Box<live::News>),
    Capturing(capturing::Report),
    Target(PathBuf),
    Categories(PathBuf, Categories),
    Tries(Box<what_if::Delivery>),
    Rank(u64, usize, Box<crate::analysis::RankReading>),
    Note { text: String, is_error: bool },
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Message::Document(_) => "Document",
            Message::FirstCurves(..) => "FirstCurves",
            Message::Replays(..) => "Replays",
            Message::Answer(_) => "Answer",
            Message::Commands(_) => "Commands",
            Message::Picture(..) => "Picture",
            Message::Live(_) => "Live",
            Message::Capturing(_) => "Capturing",
            Message::Target(_) => "Target",
            Message::Categories(..) => "Categories",
            Message::Tries(_) => "Tries",
            Message::Rank(..) => "Rank",
            Message::Note { .. } => "Note",
        })
    }
}

/// Owner of all state that views share.
pub struct Session {
    documents: Vec<Document>,
    workspace: Workspace,
    history: History,
    /// What the workspace was when places in files were remembered last.
    remembered: Workspace,
    jobs: Jobs<Message>,
    opening: BTreeMap<JobId, DocumentId>,
    /// Documents that grow, or grew.
    lives: BTreeMap<DocumentId, live::Live>,
    captures: Vec<capturing::Capture>,
    capture_refused: Option<String>,
    around: Option<capturing::Around>,
    /// How often somebody asked to leave the page of captures.
    left_captures: u64,
    next_capture: u64,
    /// What the user said of files that do not say it themselves.
    told: Told,
    /// Jobs the user stopped: what they were to answer is not asked again.
    stopped: BTreeSet<JobId>,
    memo: RefCell<Memo>,
    pictures: RefCell<Pictures>,
    commands: RefCell<Vec<Command>>,
    /// While something is drawn aside: whether anything it asked for is on its way.
    aside: Cell<Option<bool>>,
    tries: BTreeMap<(DocumentId, DeviceId), what_if::Tries>,
    hovered: Option<Item>,
    hover_next: Cell<Option<Item>>,
    stepping: find::Stepping,
    notes: Vec<Note>,
    saved: Saved,
    folder: Option<PathBuf>,
    dialogs: Option<Arc<dyn Dialogs>>,
    target: Option<(u64, PathBuf)>,
    categories: Categories,
    shown_set: Option<(u64, &'static str)>,
    ranks: Option<ranks::RankSet>,
    next_ranks: u64,
    wanted_comparison: Option<ranks::WantedComparison>,
    next_document: u64,
    next_note: u64,
    next_save: u64,
    /// The newest saving that was written.
    stored: Arc<Mutex<u64>>,
}

impl Session {
    /// A session that remembers things in `folder`; without one it remembers nothing.
    pub fn new(folder: Option<PathBuf>) -> Session {
        let saved = folder.as_deref().map(persist::load).unwrap_or_default();
        let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2) - 1);
        let workspace = Workspace { axis: saved.axis(), colour_by: saved.colour_by(), ..Workspace::default() };
        let (categories, told) = categories::at_start(folder.as_deref(), &saved);
        let mut session = Session {
            documents: Vec::new(),
            remembered: workspace.clone(),
            workspace,
            history: History::default(),
            jobs: Jobs::new(workers),
            opening: BTreeMap::new(),
            lives: BTreeMap::new(),
            captures: Vec::new(),
            capture_refused: None,
            around: None,
            left_captures: 0,
            next_capture: 0,
            told: Told::default(),
            stopped: BTreeSet::new(),
            memo: RefCell::new(Memo::new(ANSWER_BUDGET)),
            pictures: RefCell::default(),
            commands: RefCell::default(),
            aside: Cell::default(),
            tries: BTreeMap::new(),
            hovered: None,
            hover_next: Cell::new(None),
            stepping: find::Stepping::default(),
            notes: Vec::new(),
            saved,
            folder,
            dialogs: None,
            target: None,
            categories,
            shown_set: None,
            ranks: None,
            next_ranks: 0,
            wanted_comparison: None,
            next_document: 0,
            next_note: 0,
            next_save: 0,
            stored: Arc::default(),
        };
        for text in told {
            session.note(text, true);
        }
        session
    }
    /// Sets what is called, from any thread, when there is something new to show.
    pub fn set_waker(&self, waker: Waker) {
        self.jobs.set_waker(waker);
    }
    /// What the user says a block of a KV cache has in bytes; files opened from here on take it.
    pub fn set_block_bytes(&mut self, block_bytes: Option<u64>) {
        self.told = Told { block_bytes };
    }
    /// Hands over the system's file dialogs.
    pub fn set_dialogs(&mut self, dialogs: Arc<dyn Dialogs>) {
        self.dialogs = Some(dialogs);
    }
    /// Once a frame, before anything is drawn: takes in what arrived, applies what was sent.
    pub fn tick(&mut self, now_s: f64) -> Tick {
        self.memo.get_mut().begin_tick();
        self.hovered = self.hover_next.take();
        for event in self.jobs.poll() {
            self.arrive(event);
        }
        self.judge_ranks();
        for command in self.commands.take() {
            self.apply(command);
        }
        self.step_when_found();
        let settling = self.history.feed(now_s, &self.workspace);
        if !settling && self.remembered != self.workspace {
            self.remembered = self.workspace.clone();
            for id in self.documents.iter().map(|document| document.id).collect::<Vec<_>>() {
                self.remember_place(id);
            }
        }
        Tick { again_after_s: settling.then_some(history::SETTLE_S) }
    }
    /// Asks for a change; it is applied at the next tick.
    pub fn send(&self, command: Command) {
        if self.is_aside() {
            return;
        }
        self.commands.borrow_mut().push(command);
        self.jobs.wake();
    }

    /// What is open, in order of opening.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }
    /// The document in front.
    pub fn active(&self) -> Option<&Document> {
        let id = self.workspace.active?;
        self.documents.iter().find(|document| document.id == id)
    }
    /// Document and device in front, with the device's memory.
    pub fn front(&self) -> Option<(&Document, DeviceId, &DeviceMemory)> {
        let document = self.active()?;
        let (_, device) = self.workspace.front()?;
        Some((document, device, document.snapshot.devices.get(device)?))
    }
    /// What the user chose.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }
    /// What is known of the card that the document in front was recorded on.
    pub fn card(&self) -> DiagnosisParams {
        self.workspace.active.and_then(|id| self.workspace.cards.get(&id)).cloned().unwrap_or_default()
    }
    /// What is remembered.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }
    /// Light or dark.
    pub fn theme(&self) -> Theme {
        self.saved.theme()
    }
    /// Messages that were not taken away yet.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
    /// The place to save to that was picked last, with a number that grows with each picking.
    pub fn target(&self) -> Option<&(u64, PathBuf)> {
        self.target.as_ref()
    }
    /// The view in which a set of blocks was last asked to be shown, with a number that grows with each asking.
    pub fn shown_set(&self) -> Option<(u64, &'static str)> {
        self.shown_set
    }
    /// How often it was asked to show a document instead of the page of captures: a number that grows with each asking.
    pub fn left_captures(&self) -> u64 {
        self.left_captures
    }
    /// Jobs under way.
    pub fn running(&self) -> Vec<JobStatus> {
        self.jobs.running()
    }
    /// Whether no job is under way and no command waits.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_idle() && self.commands.borrow().is_empty()
    }
    /// Whether something can be undone or redone.
    pub fn can_undo_redo(&self) -> (bool, bool) {
        (self.history.can_undo(), self.history.can_redo())
    }
    /// What the pointer was on in the last frame, in whichever view.
    pub fn hovered(&self) -> Option<Item> {
        if self.is_aside() { None } else { self.hovered }
    }
    /// Tells that the pointer is on something.
    pub fn set_hovered(&self, item: Item) {
        if self.is_aside() {
            return;
        }
        if self.hover_next.replace(Some(item)) != Some(item) && self.hovered != Some(item) {
            self.jobs.wake();
        }
    }

    /// Asks about the device in front. Views do this every frame and draw what they get.
    pub fn ask<Q: Query>(&self, params: Q::Params) -> Answer<Q::Answer> {
        self.ask_in::<Q>("", params)
    }
    /// As [`Session::ask`], from a place of its own: of each place only the newest request is worked on.
    pub fn ask_in<Q: Query>(&self, slot: &'static str, params: Q::Params) -> Answer<Q::Answer> {
        let Some((document, device, _)) = self.front() else {
            return Answer::Failed(Arc::new(JobError::Failed("No file is open.".into())));
        };
        self.ask_about::<Q>(slot, (document, device), None, params)
    }
    /// As [`Session::ask_in`], about a device of any document, compared with another one where that is named.
    pub fn ask_about<Q: Query>(
        &self,
        slot: &'static str,
        of: (&Document, DeviceId),
        baseline: Option<(&Document, DeviceId)>,
        params: Q::Params,
    ) -> Answer<Q::Answer> {
        let answer = self.look_up::<Q>(slot, of, baseline, params);
        if answer.status().is_some() {
            self.note_pending();
        }
        answer
    }
    fn look_up<Q: Query>(
        &self,
        slot: &'static str,
        (document, device): (&Document, DeviceId),
        baseline: Option<(&Document, DeviceId)>,
        params: Q::Params,
    ) -> Answer<Q::Answer> {
        let mut scope = Scope::of(document.id, document.generation, device);
        scope.baseline = baseline.map(|(other, device)| (other.id, other.generation, device));
        let mut memo = self.memo.borrow_mut();
        let unlaid = std::iter::once(document).chain(baseline.map(|(other, _)| other)).find(|of| of.replays.is_none());
        if let Some(unlaid) = unlaid.filter(|_| needs_replays::<Q>()) {
            return match self.opening_of(unlaid.id) {
                Some(status) => Answer::Pending(status),
                None => Answer::Failed(Arc::new(JobError::Failed("This file was not read to its end.".into()))),
            };
        }
        let asked_params = params.clone();
        memo.ask::<Q>(scope, slot, &params, move || {
            let shared = |of: &Document| (Arc::clone(&of.snapshot), of.replays.clone());
            let (of, other) = (shared(document), baseline.map(|(other, _)| shared(other)));
            let spec = JobSpec {
                title: Q::NAME.to_owned(),
                slot: Some(Slot::of(&(document.id, device, scope.baseline, TypeId::of::<Q>(), slot, self.is_aside()))),
                lane: Lane::Shared,
                listed: true,
            };
            self.jobs.start(spec, move |cx| {
                let asked = Asked { subject: subject_of(&of), baseline: other.as_ref().map(subject_of), device };
                opening::deliver::<Q>(&asked, scope, asked_params, cx)
            })
        })
    }
    /// The state at the cursor.
    pub fn state(&self) -> Answer<MemoryState> {
        let cursor = self.workspace.place().map(|place| place.cursor).unwrap_or_default();
        self.ask::<StateAt>(cursor)
    }
    /// The colours of blocks by the meaning in force.
    pub fn inks(&self) -> Answer<WeighedInks> {
        self.inks_of(self.workspace.colour_by)
    }
    /// The colours of blocks by one meaning.
    pub fn inks_of(&self, by: ColourBy) -> Answer<WeighedInks> {
        // Only one meaning depends on the rules; the others need not be worked out anew when these change.
        let rules = if by == ColourBy::Category { self.categories.clone() } else { Categories::built_in() };
        self.ask::<InksOf>((by, rules))
    }
    /// The clock of the current time axis.
    pub fn clock(&self) -> Option<Arc<WeighedClock>> {
        match self.ask::<ClockOf>(self.workspace.axis) {
            Answer::Ready(clock) => Some(clock),
            // The clock of the other axis would put everything in the wrong place.
            Answer::Stale(..) | Answer::Pending(_) | Answer::Failed(_) => None,
        }
    }
    /// The part of a clock's axis one sees.
    pub fn window(&self, clock: &Clock) -> Range<f64> {
        let span = clock.span();
        match self.workspace.place().map(|place| &place.window) {
            Some(Window::Units(axis, range)) if *axis == clock.axis() => range.clone(),
            Some(Window::Positions(range)) => {
                let (from, to) = (clock.unit(range.start), clock.unit(range.end));
                if from < to { from..to } else { span }
            }
            Some(Window::Whole | Window::Units(..)) | None => span,
        }
    }

    fn opening_of(&self, id: DocumentId) -> Option<JobStatus> {
        let job = self.opening.iter().find(|(_, document)| **document == id).map(|(job, _)| *job)?;
        self.jobs.running().into_iter().find(|status| status.id == job)
    }
    fn note(&mut self, text: impl Into<String>, is_error: bool) {
        self.next_note += 1;
        self.notes.push(Note { id: self.next_note, text: text.into(), is_error });
    }
    fn save(&mut self) {
        if let Some(folder) = self.folder.clone() {
            let saved = self.saved.clone();
            self.next_save += 1;
            let (number, stored) = (self.next_save, Arc::clone(&self.stored));
            let spec =
                JobSpec { title: "remembering".into(), slot: Some(Slot::of(&"remembering")), lane: Lane::Shared, listed: false };
            // Not being able to remember is no reason to disturb anybody.
            self.jobs.start(spec, move |_| {
                // One at a time, and never an older one over a newer.
                let mut stored = stored.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if *stored < number {
                    *stored = number;
                    persist::store(&folder, &saved).or(Ok(()))
                } else {
                    Ok(())
                }
            });
        }
    }
}

/// What a job asks about; replays that are not laid yet are none.
fn subject_of((snapshot, replays): &(Arc<Snapshot>, Option<Arc<Vec<Replay>>>)) -> Subject<'_> {
    Subject { snapshot, replays: replays.as_ref().map_or(&[][..], |replays| replays.as_slice()) }
}

/// Questions that look at lives and events only are answered before the replays are laid.
fn needs_replays<Q: Query>() -> bool {
    let without = [
        TypeId::of::<UsageTimeline>(),
        TypeId::of::<ClockOf>(),
        TypeId::of::<InksOf>(),
        TypeId::of::<FlameInksOf>(),
        TypeId::of::<LivesIndex>(),
        TypeId::of::<RangeTotals>(),
        TypeId::of::<Found>(),
        TypeId::of::<EventRows>(),
        TypeId::of::<CommonSteps>(),
    ];
    !without.contains(&TypeId::of::<Q>())
}
