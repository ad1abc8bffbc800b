//! What if: the form of a device, what came out of serving its requests again, and the jobs that do it.
//!
//! Always: the form is part of where one is, so it is undone and remembered with it; rows are only ever added by jobs and
//! keep their number. The recording under its own settings is the first row.

use crate::analysis::{Asked, Curve, Subject, Workload, step_ends};
use crate::base::{Bytes, Progress};
use crate::model::{AllocatorSettings, DeviceId, Snapshot};
use crate::report::what_if::{WhatIf, WhatIfError};
use crate::report::what_if_given as given;
use crate::report::what_if_job::{ChangeError, ChangedJob, JobGiven, JobWords, Naming};
use crate::report::whatif_json::{ChangeNote, ScenarioRow};
use crate::session::document::{Document, DocumentId};
use crate::session::jobs::{JobContext, JobError, JobId, JobSpec, JobStatus, Lane, Slot};
use crate::session::{Message, Session, opening};
use crate::simulator::{
    AtFailure, EmptyCaches, POLICIES, PolicyKind, Recorded, RequestStream, Scenario, Start, SweepRow, conf, placement_range,
    record, simulate_over_time, smallest_card, sweep,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which calls of `empty_cache()` are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Caches {
    /// Those of the recording.
    #[default]
    Recorded,
    /// None.
    Never,
    /// One at each step's end.
    EachStep,
}

impl Caches {
    /// All of them, with their words.
    pub const ALL: [(Caches, &'static str); 3] =
        [(Caches::Recorded, "as recorded"), (Caches::Never, "never"), (Caches::EachStep, "at each step's end")];
}

/// What is filled in, as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhatIfForm {
    /// The whole settings string; none: the recorded one.
    pub conf: Option<String>,
    /// The card's memory; empty: as far as the recording tells.
    pub card: String,
    /// What others hold of it; empty: likewise.
    pub outside: String,
    /// What the recording ran with where the file does not say.
    pub recorded: String,
    /// Which calls of `empty_cache()` are made.
    pub caches: Caches,
    /// Whether a recording that begins mid-run is served from an empty card.
    pub from_empty: bool,
    /// Whether the run goes on behind a failure.
    pub endless: bool,
    /// Whether the smallest card that serves is looked for.
    pub smallest: bool,
    /// The allocator's name; empty: PyTorch's.
    pub policy: String,
    /// How the job itself is changed.
    pub job: JobWords,
}

/// The form, read.
#[derive(Clone, Debug)]
pub struct Given {
    recorded: Recorded,
    /// None: the recorded settings.
    settings: Option<(String, AllocatorSettings)>,
    card: Option<u64>,
    outside: Option<u64>,
    policy: PolicyKind,
    job: JobGiven,
}

impl WhatIfForm {
    /// The settings string in force.
    pub fn conf(&self, snapshot: &Snapshot) -> String {
        self.conf.clone().unwrap_or_else(|| conf::of(&snapshot.settings, &snapshot.origin))
    }
    /// What is filled in, or a sentence on what does not do.
    pub fn read(&self, snapshot: &Snapshot) -> Result<Given, String> {
        let size = |text: &str, what: &str| match (text.trim(), Bytes::parse(text)) {
            ("", _) => Ok(None),
            (_, Some(bytes)) => Ok(Some(bytes.0)),
            (text, None) => Err(format!("{what}: `{text}` is no size: they are written 80GiB, 512MiB or in bytes.")),
        };
        let recorded = given::recorded(snapshot, &self.recorded).map_err(|error| format!("Recorded with: {error}."))?;
        let settings = self
            .conf
            .as_ref()
            .map(|text| given::settings(&recorded, text, &snapshot.origin).map(|settings| (text.clone(), settings)));
        let settings = settings.transpose().map_err(|error| format!("Settings: {error}."))?;
        let card = size(&self.card, "Card")?;
        if card == Some(0) {
            return Err("Card: a card has memory.".to_owned());
        }
        let policy = POLICIES.iter().find(|info| info.name == self.policy).map_or(PolicyKind::default(), |info| info.kind);
        let outside = size(&self.outside, "Held by others")?;
        let job = self.job.read(Naming::Fields).map_err(|error| format!("{error}."))?;
        Ok(Given { recorded, settings, card, outside, policy, job })
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhatIfDeed {
    /// Serves what is filled in.
    Run,
    /// Tries all sensible settings on the card that is filled in.
    Sweep,
    /// Opens what a row stands for as a document of its own, by its number.
    Open(u32),
    /// Finds what a row reserved over time, by its number.
    Draw(u32),
    /// Takes all rows away.
    Clear,
}

/// A scenario that was tried.
#[derive(Debug)]
pub struct Try {
    /// Its number, from 1; never used again.
    pub number: u32,
    /// The recording that was served, as it is.
    pub what_if: Arc<WhatIf>,
    /// How the job was changed before that.
    pub job: JobWords,
    /// What came out; the same as on the command line.
    pub row: ScenarioRow,
    /// What was reserved over time, once it was asked for.
    pub reserved: Option<Curve>,
}

/// All that was tried on a device.
#[derive(Debug, Default)]
pub struct Tries {
    prepared: Prepared,
    rows: Vec<Try>,
    next: u32,
    newest: Option<u32>,
    job: Option<JobId>,
}

impl Tries {
    /// The rows, in the order in which they were tried.
    pub fn rows(&self) -> &[Try] {
        &self.rows
    }
    /// The number of the row that was asked for last: of all settings the best.
    pub fn newest(&self) -> Option<u32> {
        self.newest
    }
}

/// What is kept between runs, as it costs time to find out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// What is served, with the words it was prepared for.
    what_if: Option<(String, Arc<WhatIf>)>,
    /// What belongs to what in the job.
    workload: Option<Arc<Workload>>,
    /// The job that was changed last, with what it was made of.
    changed: Option<(Arc<WhatIf>, JobWords, Arc<ChangedJob>)>,
}

impl Prepared {
    /// The job as given, changed where anything is; what that took is kept.
    fn served(
        &mut self,
        what_if: &Arc<WhatIf>,
        words: &JobWords,
        given: &JobGiven,
        of: (&Snapshot, DeviceId),
        progress: &Progress,
    ) -> Result<Served, JobError> {
        let what_if = Arc::clone(what_if);
        if given.is_empty() {
            return Ok(Served { what_if, changed: None });
        }
        let known = self.changed.as_ref().filter(|(from, known, _)| Arc::ptr_eq(from, &what_if) && known == words);
        if let Some((_, _, changed)) = known {
            return Ok(Served { what_if, changed: Some(Arc::clone(changed)) });
        }
        let workload = match &self.workload {
            Some(workload) => Arc::clone(workload),
            None => Arc::new(Workload::of(of.0, of.1, progress)?),
        };
        self.workload = Some(Arc::clone(&workload));
        let changed = given.change(&what_if.asked, of.0, of.1, &workload, progress).map_err(|error| match error {
            ChangeError::Cancelled => JobError::Cancelled,
            ChangeError::Sentence(sentence) => JobError::Failed(format!("The job cannot be changed so: {sentence}.")),
        })?;
        let changed = Arc::new(changed);
        self.changed = Some((Arc::clone(&what_if), words.clone(), Arc::clone(&changed)));
        Ok(Served { what_if, changed: Some(changed) })
    }
    /// What a row served.
    fn served_by(&mut self, row: &TriedJob, of: (&Snapshot, DeviceId), progress: &Progress) -> Result<Served, JobError> {
        let given = row.job.read(Naming::Fields).map_err(JobError::Failed)?;
        self.served(&row.what_if, &row.job, &given, of, progress)
    }
}

/// What a row was made of.
struct TriedJob {
    what_if: Arc<WhatIf>,
    job: JobWords,
    scenario: Scenario,
}

/// A recording, or the job that was made of it.
#[derive(Clone, Debug)]
struct Served {
    what_if: Arc<WhatIf>,
    changed: Option<Arc<ChangedJob>>,
}

impl Served {
    fn asked(&self) -> &RequestStream {
        self.changed.as_ref().map_or(&self.what_if.asked, |changed| &changed.asked)
    }
    fn note(&self) -> Option<ChangeNote> {
        self.changed.as_ref().map(|changed| changed.note.clone())
    }
}

/// What a job delivers.
pub(crate) struct Delivery {
    document: DocumentId,
    device: DeviceId,
    prepared: Option<Prepared>,
    rows: Vec<(ScenarioRow, Option<Curve>)>,
    /// How the job was changed for the rows that were asked for.
    job: JobWords,
    /// Whether the first of the rows was not asked for: the recording.
    has_recording: bool,
    drawn: Option<(u32, Curve)>,
}

/// One device's requests, in a job.
struct Work {
    document: DocumentId,
    device: DeviceId,
    snapshot: Arc<Snapshot>,
    prepared: Prepared,
    what_if: Arc<WhatIf>,
}

impl Session {
    /// What was tried on the device in front.
    pub fn tries(&self) -> Option<&Tries> {
        self.tries.get(&self.workspace.front()?)
    }
    /// The job that tries something on the device in front.
    pub fn trying(&self) -> Option<JobStatus> {
        let job = self.tries()?.job?;
        self.jobs.running().into_iter().find(|status| status.id == job)
    }

    pub(super) fn what_if(&mut self, deed: WhatIfDeed) {
        let Some(front) = self.workspace.front() else { return };
        match deed {
            WhatIfDeed::Clear => {
                if let Some(tries) = self.tries.get_mut(&front) {
                    tries.rows.clear();
                }
            }
            WhatIfDeed::Run | WhatIfDeed::Sweep => self.try_form(front, deed == WhatIfDeed::Sweep),
            WhatIfDeed::Open(number) => self.open_try(front, number),
            WhatIfDeed::Draw(number) => self.draw_try(front, number),
        }
    }

    fn try_form(&mut self, front: (DocumentId, DeviceId), is_sweep: bool) {
        let (document, device) = front;
        let Some((open, _, _)) = self.front() else { return };
        let (snapshot, replays) = (Arc::clone(&open.snapshot), open.replays.clone());
        let Some(form) = self.workspace.place().map(|place| place.what_if.clone()) else { return };
        let (given, replays) = match (form.read(&snapshot), replays) {
            (Ok(given), Some(replays)) => (given, replays),
            (Err(error), _) => return self.note(error, true),
            (_, None) => return self.note("The file is still being read: try it when it is done.", true),
        };
        let tries = self.tries.entry(front).or_default();
        let words = form.recorded.trim().to_owned();
        let mut prepared = tries.prepared.clone();
        let is_first = tries.rows.is_empty();
        let title = if is_sweep { "trying all settings" } else { "serving the requests again" };
        let slot = Some(Slot::of(&("what if", document, device)));
        let spec = JobSpec { title: title.to_owned(), slot, lane: Lane::Own, listed: true };
        let status = self.jobs.start(spec, move |cx| {
            let known = prepared.what_if.as_ref().filter(|(known, _)| *known == words);
            let what_if = match known {
                Some((_, what_if)) => Arc::clone(what_if),
                None => {
                    let subject = Subject { snapshot: &snapshot, replays: &replays };
                    let asked = Asked { subject, baseline: None, device };
                    let prepared = WhatIf::prepare(&asked, given.recorded.clone(), None, &cx.progress);
                    Arc::new(prepared.map_err(|error| match error {
                        WhatIfError::Cancelled => JobError::Cancelled,
                        error => JobError::Failed(format!("{} cannot be served again: {error}.", asked.memory().title())),
                    })?)
                }
            };
            prepared.what_if = Some((words, Arc::clone(&what_if)));
            let work = Work { document, device, snapshot, prepared, what_if };
            work.run(&form, &given, is_first, is_sweep, cx)
        });
        if let Some(tries) = self.tries.get_mut(&front) {
            tries.job = Some(status.id);
        }
    }

    fn open_try(&mut self, front: (DocumentId, DeviceId), number: u32) {
        let Some((document, device, _)) = self.front() else { return };
        let (snapshot, file) = (Arc::clone(&document.snapshot), document.title.clone());
        let Some((made, mut prepared)) = self.made_of(front, number) else { return };
        let change = self.try_of(front, number).and_then(|row| row.row.change.as_ref());
        let change = change.map_or(String::new(), |change| format!(", {}", change.brief()));
        let title = format!("{file}{change}, what if {number}");
        self.next_document += 1;
        let id = DocumentId(self.next_document);
        let spec = JobSpec { title: format!("opening {title}"), slot: None, lane: Lane::Own, listed: true };
        let status = self.jobs.start(spec, move |cx| {
            let served = prepared.served_by(&made, (&snapshot, device), &cx.progress)?;
            let (_, simulated) = record(&snapshot, device, served.asked(), &made.scenario, &cx.progress)?;
            let snapshot = Arc::new(simulated);
            let document = Document { id, title, path: None, stamp: None, snapshot, replays: None, generation: 0 };
            opening::deliver_document(document, cx)
        });
        self.opening.insert(status.id, id);
    }

    fn draw_try(&mut self, front: (DocumentId, DeviceId), number: u32) {
        let Some((document, _, memory)) = self.front() else { return };
        let (snapshot, end) = (Arc::clone(&document.snapshot), memory.end());
        if self.try_of(front, number).is_none_or(|found| found.reserved.is_some()) {
            return;
        }
        let Some((made, mut prepared)) = self.made_of(front, number) else { return };
        let slot = Some(Slot::of(&("what if drawn", front, number)));
        let spec = JobSpec { title: "drawing a run".to_owned(), slot, lane: Lane::Shared, listed: true };
        self.jobs.start(spec, move |cx| {
            let (document, device) = front;
            let served = prepared.served_by(&made, (&snapshot, device), &cx.progress)?;
            let (_, over_time) = simulate_over_time(served.asked(), &made.scenario, &cx.progress)?;
            let drawn = Some((number, curve(over_time, end)));
            let (prepared, rows, job) = (None, Vec::new(), JobWords::default());
            let delivery = Delivery { document, device, prepared, rows, job, has_recording: false, drawn };
            cx.send(Message::Tries(Box::new(delivery)));
            Ok(())
        });
    }

    fn try_of(&self, front: (DocumentId, DeviceId), number: u32) -> Option<&Try> {
        self.tries.get(&front)?.rows.iter().find(|row| row.number == number)
    }

    /// What a row was made of, with what is kept.
    fn made_of(&self, front: (DocumentId, DeviceId), number: u32) -> Option<(TriedJob, Prepared)> {
        let row = self.try_of(front, number)?;
        let (what_if, job, scenario) = (Arc::clone(&row.what_if), row.job.clone(), row.row.scenario.clone());
        Some((TriedJob { what_if, job, scenario }, self.tries.get(&front)?.prepared.clone()))
    }

    pub(super) fn arrive_tries(&mut self, delivery: Delivery) {
        let Delivery { document, device, prepared, rows, job, has_recording, drawn } = delivery;
        let Some(tries) = self.tries.get_mut(&(document, device)) else { return };
        if let Some((number, curve)) = drawn
            && let Some(row) = tries.rows.iter_mut().find(|row| row.number == number)
        {
            row.reserved = Some(curve);
        }
        if let Some(prepared) = prepared {
            tries.prepared = prepared;
        }
        let Some(what_if) = tries.prepared.what_if.as_ref().map(|(_, what_if)| Arc::clone(what_if)) else { return };
        if usize::from(has_recording) < rows.len() {
            tries.newest = Some(tries.next + 1 + u32::from(has_recording));
        }
        for (row, reserved) in rows {
            tries.next += 1;
            // The recording is in front of what was asked for as it is.
            let job = if row.change.is_some() { job.clone() } else { JobWords::default() };
            tries.rows.push(Try { number: tries.next, what_if: Arc::clone(&what_if), job, row, reserved });
        }
    }
}

impl Work {
    fn run(
        mut self,
        form: &WhatIfForm,
        given: &Given,
        is_first: bool,
        is_sweep: bool,
        cx: &JobContext<Message>,
    ) -> Result<(), JobError> {
        let progress = &cx.progress;
        let own = &self.what_if.recorded.settings;
        let as_recorded = (conf::of(own, &self.snapshot.origin), own.clone());
        let first = self.what_if.scenario(own.clone(), None);
        let recorded = Served { what_if: Arc::clone(&self.what_if), changed: None };
        let served = self.prepared.served(&self.what_if, &form.job, &given.job, (&self.snapshot, self.device), progress)?;
        let base = self.scenario(form, given, progress)?;
        let mut rows = Vec::new();
        let (text, settings) = given.settings.clone().unwrap_or_else(|| as_recorded.clone());
        let chosen = Scenario { settings, ..base.clone() };
        // The recording itself comes first, unless it is what was asked for.
        let has_recording = is_first && (is_sweep || served.changed.is_some() || !is_same(&chosen, &first));
        if has_recording {
            rows.push(self.row(&recorded, as_recorded.0, first, false, progress)?);
        }
        if is_sweep {
            if base.policy != PolicyKind::Caching {
                return Err(JobError::Failed("The settings are PyTorch's: choose its allocator to try them all.".to_owned()));
            }
            for SweepRow { conf, settings, is_recorded, outcome, .. } in
                sweep(served.asked(), &base, &self.snapshot.origin, progress)?
            {
                let scenario = Scenario { settings, ..base.clone() };
                let range = placement_range(served.asked(), &scenario, progress)?;
                let change = served.note();
                rows.push((ScenarioRow { settings: conf, scenario, is_recorded, outcome, smallest: None, range, change }, None));
            }
        } else {
            rows.push(self.row(&served, text, chosen, form.smallest, progress)?);
        }
        let Work { document, device, prepared, .. } = self;
        let (prepared, job) = (Some(prepared), form.job.clone());
        cx.send(Message::Tries(Box::new(Delivery { document, device, prepared, rows, job, has_recording, drawn: None })));
        Ok(())
    }

    /// The recorded settings under all else that is filled in.
    fn scenario(&self, form: &WhatIfForm, given: &Given, progress: &Progress) -> Result<Scenario, JobError> {
        let base = self.what_if.scenario(self.what_if.recorded.settings.clone(), given.card);
        let capacity = match (given.outside, base.total) {
            (Some(outside), Some(total)) => Some(total.saturating_sub(outside)),
            _ => base.capacity,
        };
        let empty_caches = match form.caches {
            Caches::Recorded => EmptyCaches::Recorded,
            Caches::Never => EmptyCaches::Without,
            Caches::EachStep => {
                let ends = step_ends(&self.snapshot, self.device, progress)?;
                if ends.is_empty() {
                    let text = "No steps are found in this recording, so no cache can be emptied at their ends.";
                    return Err(JobError::Failed(text.to_owned()));
                }
                EmptyCaches::After(ends.into())
            }
        };
        Ok(Scenario {
            capacity,
            policy: given.policy,
            empty_caches,
            at_failure: if form.endless { AtFailure::Endless } else { AtFailure::Stop },
            start: if form.from_empty { Start::Empty } else { Start::Recorded },
            ..base
        })
    }

    fn row(
        &self,
        served: &Served,
        settings: String,
        scenario: Scenario,
        smallest: bool,
        progress: &Progress,
    ) -> Result<(ScenarioRow, Option<Curve>), JobError> {
        let asked = served.asked();
        let (outcome, over_time) = simulate_over_time(asked, &scenario, progress)?;
        let smallest = smallest.then(|| smallest_card(asked, &scenario, progress)).transpose()?;
        let range = placement_range(asked, &scenario, progress)?;
        let is_recorded = scenario.settings == self.what_if.recorded.settings;
        let end = self.snapshot.devices[self.device].end();
        let row = ScenarioRow { settings, scenario, is_recorded, outcome, smallest, range, change: served.note() };
        Ok((row, Some(curve(over_time, end))))
    }
}

fn curve(over_time: crate::simulator::ReservedOverTime, end: crate::model::Position) -> Curve {
    let changes = over_time.changes.iter().map(|position| position.0).collect();
    Curve::from_changes(changes, over_time.values, end)
}

/// Whether two scenarios differ in nothing that is filled in.
fn is_same(one: &Scenario, other: &Scenario) -> bool {
    one.settings == other.settings
        && (one.capacity, one.total, one.policy) == (other.capacity, other.total, other.policy)
        && (&one.empty_caches, one.at_failure, one.start) == (&other.empty_caches, other.at_failure, other.start)
}
