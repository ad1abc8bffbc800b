//! What jobs deliver, taken into the session.

use crate::analysis::UsageTimeline;
use crate::model::{DeviceId, Position};
use crate::session::document::{Document, DocumentId};
use crate::session::jobs::{JobError, JobEvent, JobStatus};
use crate::session::workspace::Place;
use crate::session::{Message, Session, persist};

impl Session {
    pub(super) fn arrive(&mut self, event: JobEvent<Message>) {
        match event {
            JobEvent::Delivered(Message::Document(document)) => self.arrive_document(document),
            JobEvent::Delivered(Message::FirstCurves(id, device)) => self.place_cursor(id, device),
            JobEvent::Delivered(Message::Replays(id, replays)) => {
                if let Some(document) = self.documents.iter_mut().find(|document| document.id == id) {
                    document.replays = Some(replays);
                }
            }
            JobEvent::Delivered(Message::Answer(put)) => put(self.memo.get_mut()),
            JobEvent::Delivered(Message::Commands(commands)) => self.commands.get_mut().extend(commands),
            JobEvent::Delivered(Message::Picture(key, generation, look, raster)) => {
                self.pictures.get_mut().arrive(key, generation, look, raster);
            }
            JobEvent::Delivered(Message::Capturing(report)) => self.arrive_report(report),
            JobEvent::Delivered(Message::Live(news)) => self.arrive_live(*news),
            JobEvent::Delivered(Message::Target(path)) => {
                let number = self.target.as_ref().map_or(0, |(number, _)| *number) + 1;
                self.target = Some((number, path));
            }
            JobEvent::Delivered(Message::Categories(path, rules)) => self.use_categories(Some(path), rules),
            JobEvent::Delivered(Message::Tries(delivery)) => self.arrive_tries(*delivery),
            JobEvent::Delivered(Message::Rank(number, place, reading)) => self.arrive_rank(number, place, *reading),
            JobEvent::Delivered(Message::Note { text, is_error }) => self.note(text, is_error),
            JobEvent::Ended { status, result } => self.job_ended(&status, result),
        }
    }

    pub(super) fn arrive_document(&mut self, document: Document) {
        let id = document.id;
        let known = document.stamp.as_ref().and_then(|stamp| self.saved.file(stamp)).cloned();
        let device = known.as_ref().map(|known| DeviceId(known.device)).filter(|id| document.snapshot.devices.get(*id).is_some());
        let device = device.or(document.snapshot.busiest_device());
        if let Some(path) = &document.path {
            self.saved.remember(path);
            self.save();
        }
        for (device, memory) in document.snapshot.devices.iter() {
            let cursor = memory.trace.ooms().last().map_or(memory.end(), |oom| Position::after(*oom));
            let place = known.as_ref().and_then(|known| known.place(device, memory.end()));
            self.workspace.places.insert((id, device), place.unwrap_or(Place { cursor, ..Place::default() }));
        }
        if let Some(device) = device {
            self.workspace.devices.insert(id, device);
        }
        // Files that were opened together may be read in any order: tabs keep the order of opening, and the
        // one that was opened last is in front.
        if self.workspace.active.is_none_or(|active| active < id) {
            self.workspace.active = Some(id);
            if let Some(by) = known.and_then(|known| persist::colour_by(&known.colour_by)) {
                self.workspace.colour_by = by;
            }
        }
        let at = self.documents.partition_point(|other| other.id < id);
        self.documents.insert(at, document);
        self.keep_compared_in_front(id);
        self.history.restart(&self.workspace);
    }

    /// The first thing shown is the last OOM (the cursor stands there already), else the peak.
    pub(super) fn place_cursor(&mut self, id: DocumentId, device: DeviceId) {
        let Some(document) = self.documents.iter().find(|document| document.id == id) else { return };
        let has_oom = document.snapshot.devices.get(device).is_some_and(|memory| !memory.trace.ooms().is_empty());
        let scope = crate::session::memo::Scope::of(id, document.generation, device);
        let usage = self.memo.get_mut().peek::<UsageTimeline>(scope, &());
        let (Some(usage), Some(place)) = (usage, self.workspace.places.get_mut(&(id, device))) else { return };
        if !has_oom && !place.moved {
            place.cursor = usage.allocated.peak().0;
            self.history.restart(&self.workspace);
        }
    }

    fn job_ended(&mut self, status: &JobStatus, result: Result<(), JobError>) {
        let opened = self.opening.remove(&status.id);
        let stopped = self.stopped.remove(&status.id);
        self.pictures.get_mut().job_ended(status.id, matches!(&result, Err(error) if *error != JobError::Cancelled));
        let Err(error) = result else { return };
        let told = if stopped {
            JobError::Failed(format!("Stopped: {}. Ask again in another way.", status.title))
        } else {
            error.clone()
        };
        self.memo.get_mut().job_ended(status.id, &told);
        self.live_job_ended(status.id, &error);
        if let Some(id) = opened {
            // Shown in part already: without its replays it is of no use.
            if self.documents.iter().any(|document| document.id == id) {
                self.close(id);
            }
        }
        match &error {
            JobError::Cancelled => {}
            JobError::Failed(_) | JobError::Panicked { .. } => self.note(error.to_string(), true),
        }
    }
}
