//! Documents that grow: logs of jobs that still run.
//!
//! Always: what is on the screen is one snapshot with all its answers. A newer one is taken only when everything that
//! was shown of the older one has been answered about it, in a job; then all of it changes between two frames. Places
//! keep their meaning: a cursor that follows goes with the end, any other stays at its event, and what is selected is
//! found again by where and when it was born.

use crate::analysis::{Asked, Query as _, StateAt, Subject};
use crate::base::id::Id as _;
use crate::chart::TimeAxis;
use crate::model::{DeviceMemory, Item, JobEnd, Position, Snapshot};
use crate::session::document::{Document, DocumentId};
use crate::session::jobs::{JobContext, JobError, JobId, JobSpec, Lane};
use crate::session::live_job::{self, Built, Control, Reading};
use crate::session::memo::{Memo, Put, Retired, Scope};
use crate::session::persist::FileStamp;
use crate::session::workspace::{Place, Window, Workspace};
use crate::session::{Message, Session};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is known of a document that grows, or grew.
#[derive(Debug)]
pub struct Live {
    /// Its log.
    pub path: PathBuf,
    /// When it was opened.
    pub since: Instant,
    /// How it ended; none while it grows.
    pub ending: Option<Ending>,
    control: Arc<Control>,
    job: Option<JobId>,
    renewing: Option<JobId>,
    /// Answers of the state before, until nothing shows them any more: freeing them takes time, which is a job's.
    retired: Vec<Retired>,
}

impl Live {
    /// Whether it still grows.
    pub fn is_growing(&self) -> bool {
        self.ending.is_none()
    }
    /// Whether nothing new is shown at the user's wish.
    pub fn is_held(&self) -> bool {
        self.control.held.load(Ordering::Relaxed)
    }
    /// Events that were read, shown or not.
    pub fn events(&self) -> u64 {
        self.control.events.load(Ordering::Relaxed)
    }
    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.control.bytes.load(Ordering::Relaxed)
    }
    /// Events a second, of the last second or two.
    pub fn rate(&self) -> u64 {
        self.control.rate.load(Ordering::Relaxed)
    }
}

/// How a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its end was written down.
    Ended(JobEnd),
    /// It has no end and its writer, where that is known, is gone.
    Gone(Option<u32>),
    /// It cannot be read on; why.
    Unreadable(String),
}

impl Ending {
    /// Whether anything went wrong.
    pub fn is_bad(&self) -> bool {
        match self {
            Ending::Ended(end) => end.signal.is_some_and(|signal| 0 <= signal) || end.code.is_some_and(|code| 0 < code),
            Ending::Gone(_) | Ending::Unreadable(_) => true,
        }
    }
    /// What to tell people.
    pub fn sentence(&self) -> String {
        match self {
            Ending::Ended(JobEnd { code, signal, .. }) => match (signal, code) {
                (Some(9), _) => "The job was killed (signal 9). What it had logged is all here.".to_owned(),
                (Some(2), _) => "The job was stopped by Ctrl+C (signal 2).".to_owned(),
                (Some(signal), _) if 0 <= *signal => {
                    format!("The job was ended by signal {signal}. What it had logged is all here.")
                }
                (_, Some(code)) if 0 < *code => format!("The job ended with exit code {code}."),
                (_, Some(0)) => "The job ended well.".to_owned(),
                _ => "The recording is complete.".to_owned(),
            },
            Ending::Gone(Some(process)) => {
                format!("The job died (process {process} is gone) and could not end its log. What it had logged is all here.")
            }
            Ending::Gone(None) => "The log was not ended. What was logged is all here.".to_owned(),
            Ending::Unreadable(why) => format!("The log cannot be read on: {why}"),
        }
    }
}

/// What the jobs of a live document deliver.
pub enum News {
    /// An opened log that grows, with its first snapshot.
    Begun(Document, Box<Reading>, Built),
    /// How much was read has changed.
    Told,
    /// A newer snapshot.
    Built(DocumentId, Built),
    /// A newer snapshot, with the answers that were shown of the older one, and what they cost.
    Renewed(DocumentId, Built, Vec<Put>, Duration),
    /// The log is over, with its last snapshot where there is one.
    Over(DocumentId, Option<Built>, Ending),
}

impl Session {
    /// What is known of a document that grows, or grew while it was open.
    pub fn live(&self, id: DocumentId) -> Option<&Live> {
        self.lives.get(&id)
    }
    /// What is known of the document in front, if it grows or grew.
    pub fn live_in_front(&self) -> Option<&Live> {
        self.live(self.workspace.active?)
    }
    /// Whether the document in front grows and its cursor stays at the end.
    pub fn is_following(&self) -> bool {
        self.live_in_front().is_some_and(Live::is_growing) && self.workspace.place().is_some_and(|place| place.follows)
    }

    pub(super) fn arrive_live(&mut self, news: News) {
        match news {
            News::Begun(document, reading, built) => self.begin_live(document, *reading, built),
            News::Told => {}
            News::Built(id, built) => self.renew(id, built),
            News::Renewed(id, built, puts, cost) => {
                self.take_growth(id, built, puts);
                if let Some(live) = self.lives.get_mut(&id) {
                    live.renewing = None;
                    live.control.taking_us.store(cost.as_micros() as u64, Ordering::Relaxed);
                    live.control.taken.store(true, Ordering::Release);
                }
            }
            News::Over(id, built, ending) => {
                if let Some(built) = built {
                    if let Some(job) = self.lives.get(&id).and_then(|live| live.renewing) {
                        self.jobs.cancel(job);
                    }
                    // What was held stays held no longer: there is nothing more to come.
                    self.renew(id, built);
                }
                if let Some(live) = self.lives.get_mut(&id) {
                    live.job = None;
                    live.ending = Some(ending);
                }
                if let Some(document) = self.documents.iter_mut().find(|document| document.id == id) {
                    document.stamp = document.path.as_deref().and_then(FileStamp::of);
                }
            }
        }
    }

    fn begin_live(&mut self, document: Document, reading: Reading, built: Built) {
        let (id, path) = (document.id, document.path.clone().unwrap_or_default());
        self.arrive_document(document);
        self.for_places_of(id, |place, memory| {
            place.cursor = memory.end();
            place.follows = true;
        });
        self.history.restart(&self.workspace);
        let control = Arc::new(Control::default());
        control.taken.store(true, Ordering::Release);
        let own = Arc::clone(&control);
        let spec = JobSpec { title: "following a log".into(), slot: None, lane: Lane::Own, listed: false };
        let status = self.jobs.start(spec, move |cx| live_job::follow(reading, built, id, &own, cx));
        let live = Live {
            path,
            since: Instant::now(),
            ending: None,
            control,
            job: Some(status.id),
            renewing: None,
            retired: Vec::new(),
        };
        self.lives.insert(id, live);
    }

    /// Answers all that is shown of a document about its newer snapshot, before that is shown.
    fn renew(&mut self, id: DocumentId, built: Built) {
        let Some(document) = self.documents.iter().find(|document| document.id == id) else { return };
        let next = document.generation + 1;
        let shown = self.memo.get_mut().renewals(id, document.generation);
        // A cursor that follows will be at the end: what all views show of it is answered along.
        let front = self.workspace.devices.get(&id).copied();
        let following = front.filter(|device| self.workspace.places.get(&(id, *device)).is_some_and(|place| place.follows));
        let spec = JobSpec { title: "taking in what is new".into(), slot: None, lane: Lane::Own, listed: false };
        let status = self.jobs.start(spec, move |cx| {
            let began = Instant::now();
            let mut puts = Vec::with_capacity(shown.len());
            if built.keeps_rows {
                for renewal in shown {
                    let subject = Subject { snapshot: &built.snapshot, replays: &built.replays };
                    let asked = Asked { subject, baseline: None, device: renewal.device };
                    puts.push(renewal.answer(&asked, next, &cx.progress)?);
                }
                if let Some(memory) = following.and_then(|device| built.snapshot.devices.get(device))
                    && let Some(device) = following
                {
                    let (subject, end) = (Subject { snapshot: &built.snapshot, replays: &built.replays }, memory.end());
                    let asked = Asked { subject, baseline: None, device };
                    let state = Arc::new(StateAt::answer(&asked, &end, &cx.progress)?);
                    let scope = Scope::of(id, next, device);
                    puts.push(Box::new(move |memo: &mut Memo| memo.put::<StateAt>(scope, end, state)));
                }
            }
            cx.send(Message::Live(Box::new(News::Renewed(id, built, puts, began.elapsed()))));
            Ok(())
        });
        if let Some(live) = self.lives.get_mut(&id) {
            live.renewing = Some(status.id);
        }
    }

    fn take_growth(&mut self, id: DocumentId, built: Built, puts: Vec<Put>) {
        let Some(document) = self.documents.iter_mut().find(|document| document.id == id) else { return };
        let Built { snapshot, replays, keeps_rows } = built;
        let older = std::mem::replace(&mut document.snapshot, Arc::clone(&snapshot));
        let laid = document.replays.replace(replays);
        document.generation += 1;
        let generation = document.generation;
        let memo = self.memo.get_mut();
        if !keeps_rows {
            memo.forget(id);
            self.pictures.get_mut().forget(id);
        }
        for put in puts {
            put(memo);
        }
        let retired = memo.outgrow(id, generation);
        let carry = |workspace: &mut Workspace| carry(workspace, id, &older, &snapshot);
        carry(&mut self.workspace);
        // Growing is nobody's deed: there is nothing to undo or to remember in it.
        self.history.carry(carry);
        carry(&mut self.remembered);
        let before = self.lives.get_mut(&id).map(|live| std::mem::replace(&mut live.retired, retired));
        let spec = JobSpec { title: "freeing what is older".into(), slot: None, lane: Lane::Shared, listed: false };
        self.jobs.start(spec, move |_| {
            drop((older, laid, before));
            Ok(())
        });
    }

    /// A job of a live document that failed: the document stays as it is, and that is said.
    pub(super) fn live_job_ended(&mut self, job: JobId, error: &JobError) {
        for live in self.lives.values_mut() {
            if live.renewing == Some(job) {
                live.renewing = None;
                live.control.taken.store(true, Ordering::Release);
            }
            if live.job == Some(job) {
                live.job = None;
                live.ending.get_or_insert_with(|| Ending::Unreadable(error.to_string()));
            }
        }
    }

    /// Stops what runs for a document that is closed.
    pub(super) fn end_live(&mut self, id: DocumentId) {
        if let Some(live) = self.lives.remove(&id) {
            for job in live.job.into_iter().chain(live.renewing) {
                self.jobs.cancel(job);
            }
        }
    }

    /// The recording in front is over and that was seen.
    pub(super) fn dismiss_live(&mut self) {
        if let Some(id) = self.workspace.active.filter(|id| self.lives.get(id).is_some_and(|live| !live.is_growing())) {
            self.lives.remove(&id);
        }
    }
    /// Puts the cursor to the end of what grows, where it stays.
    pub(super) fn follow_end(&mut self) {
        if let Some(live) = self.live_in_front().filter(|live| live.is_growing()) {
            live.control.held.store(false, Ordering::Relaxed);
        }
        self.move_cursor(|_, memory| memory.end());
        self.stick();
    }
    /// A cursor that was put to the very end of what grows stays there.
    pub(super) fn stick(&mut self) {
        let growing = self.live_in_front().is_some_and(Live::is_growing);
        let at_end = self.front().is_some_and(|(_, _, memory)| self.workspace.place().is_some_and(|p| p.cursor == memory.end()));
        self.change_place(|place| place.follows = growing && at_end);
    }
    /// Shows nothing new, or goes on doing so.
    pub(super) fn hold_live(&mut self, held: bool) {
        if let Some(live) = self.live_in_front() {
            live.control.held.store(held, Ordering::Relaxed);
        }
    }

    fn for_places_of(&mut self, id: DocumentId, change: impl Fn(&mut Place, &DeviceMemory)) {
        let Some(document) = self.documents.iter().find(|document| document.id == id) else { return };
        for (device, memory) in document.snapshot.devices.iter() {
            change(self.workspace.places.entry((id, device)).or_default(), memory);
        }
    }
}

/// Says of a newer snapshot what a workspace said of the older one.
fn carry(workspace: &mut Workspace, id: DocumentId, older: &Snapshot, newer: &Snapshot) {
    let row_of = |ordinal: i32| newer.device_of_ordinal(ordinal);
    let mut before = BTreeMap::new();
    for (device, memory) in older.devices.iter() {
        if let Some(place) = workspace.places.remove(&(id, device)) {
            before.insert(memory.ordinal, (device, place));
        }
    }
    let in_front = workspace.devices.get(&id).and_then(|device| older.devices.get(*device)).and_then(|m| row_of(m.ordinal));
    if let Some(device) = in_front.or(newer.busiest_device()) {
        workspace.devices.insert(id, device);
    }
    for (device, memory) in newer.devices.iter() {
        let place = match before.remove(&memory.ordinal) {
            Some((old_device, place)) => carried(place, &older.devices[old_device], memory),
            None => Place { cursor: memory.end(), follows: true, ..Place::default() },
        };
        workspace.places.insert((id, device), place);
    }
}

fn carried(mut place: Place, older: &DeviceMemory, newer: &DeviceMemory) -> Place {
    if place.follows {
        place.cursor = newer.end();
        if let Window::Units(axis, range) = &mut place.window {
            let (from, to) = (last_unit(older, *axis), last_unit(newer, *axis));
            if range.start <= from && from <= range.end + 1.0 && from < to {
                (range.start, range.end) = (range.start + to - from, range.end + to - from);
            }
        }
    }
    place.selection.retain_mut(|item| match same(*item, older, newer) {
        Some(there) => {
            *item = there;
            true
        }
        None => false,
    });
    place
}

/// Where the end of a trace lies on an axis.
fn last_unit(memory: &DeviceMemory, axis: TimeAxis) -> f64 {
    match (axis, memory.trace.time_span_us()) {
        (TimeAxis::Time, Some((first, last))) => last.saturating_sub(first) as f64,
        (TimeAxis::Events, _) | (_, None) => f64::from(memory.end().0),
    }
}

/// The same thing in a newer snapshot; none where it is not there.
fn same(item: Item, older: &DeviceMemory, newer: &DeviceMemory) -> Option<Item> {
    match item {
        Item::Allocation(id) => {
            let row = id.row();
            let (born, address) = (*older.allocations.born().get(row)?, older.allocations.addresses()[row]);
            let fits = |row: &usize| newer.allocations.addresses()[*row] == address && newer.allocations.born()[*row] == born;
            if row < newer.allocations.len() && fits(&row) {
                return Some(item);
            }
            let first = born.0.checked_sub(1).map_or(0, |before| newer.allocations.born_by(Position(before)));
            let mut rows = first..newer.allocations.born_by(born);
            rows.find(fits).map(|row| Item::Allocation(crate::model::AllocationId::of_row(row)))
        }
        Item::Segment(id) => {
            let segment = older.segments.get(id)?;
            let is_same = |other: &crate::model::Segment| (other.address, other.born) == (segment.address, segment.born);
            if newer.segments.get(id).is_some_and(is_same) {
                return Some(item);
            }
            newer.segments.iter().find(|(_, other)| is_same(other)).map(|(id, _)| Item::Segment(id))
        }
        Item::Gap { .. } | Item::Event(_) | Item::Stack(_) => Some(item),
    }
}

/// Opens a log that grows: the opening's job.
pub(super) fn open(path: &Path, title: String, id: DocumentId, cx: &JobContext<Message>) -> Result<(), JobError> {
    let reading = Reading::begin(path, &cx.progress)?;
    let built = reading.build(None, &cx.progress)?;
    let document = Document {
        id,
        title,
        path: Some(path.to_owned()),
        // What is remembered of a file is of one state of it.
        stamp: None,
        snapshot: Arc::clone(&built.snapshot),
        replays: Some(Arc::clone(&built.replays)),
        generation: 0,
    };
    cx.send(Message::Live(Box::new(News::Begun(document, Box::new(reading), built))));
    Ok(())
}
