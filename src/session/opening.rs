//! Opening a document: read the file, show it, lay the first curves, then the replays.
//!
//! Delivered in steps, so that the first picture does not wait for the last: the snapshot as soon as it
//! is read, the usage curves next, the replays of all devices last.

use crate::analysis::{Asked, Query, Subject, UsageTimeline};
use crate::base::Progress;
use crate::chart::TimeAxis;
use crate::format::{self, Told};
use crate::model::Snapshot;
use crate::replay::Replay;
use crate::session::Message;
use crate::session::document::{Document, DocumentId};
use crate::session::jobs::{JobContext, JobError};
use crate::session::lookups::ClockOf;
use crate::session::memo::{Memo, Scope};
use crate::session::persist::FileStamp;
use crate::session::{live, live_job};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a document's bytes come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    Path(PathBuf),
    /// Bytes with a name.
    Bytes(String, Arc<[u8]>),
    /// A compiled-in sample: its title and bytes.
    Sample(&'static str, &'static [u8]),
}

impl Source {
    /// The short name on the tab.
    pub fn title(&self) -> String {
        match self {
            Source::Path(path) => {
                path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
            }
            Source::Bytes(name, _) => name.clone(),
            Source::Sample(title, _) => (*title).to_owned(),
        }
    }
    /// The whole name in messages.
    pub fn name(&self) -> String {
        match self {
            Source::Path(path) => path.display().to_string(),
            Source::Bytes(name, _) => name.clone(),
            Source::Sample(title, _) => (*title).to_owned(),
        }
    }
}

/// The whole job of opening.
pub(super) fn open(source: &Source, told: Told, id: DocumentId, cx: &JobContext<Message>) -> Result<(), JobError> {
    let path = match source {
        Source::Path(path) => Some(path.clone()),
        Source::Bytes(..) | Source::Sample(..) => None,
    };
    if let Some(path) = path.as_deref().filter(|path| live_job::is_live(path)) {
        return live::open(path, source.title(), id, cx);
    }
    let stamp = path.as_deref().and_then(FileStamp::of);
    let snapshot = Arc::new(read(source, told, &cx.progress)?);
    cx.progress.check()?;
    let document = Document { id, title: source.title(), path, stamp, snapshot, replays: None, generation: 0 };
    deliver_document(document, cx)
}

/// Delivers what was read or made: the document at once, its first curves next, its replays last.
pub(super) fn deliver_document(document: Document, cx: &JobContext<Message>) -> Result<(), JobError> {
    let (id, snapshot) = (document.id, Arc::clone(&document.snapshot));
    cx.send(Message::Document(document));
    let subject = Subject { snapshot: &snapshot, replays: &[] };
    if let Some(device) = snapshot.busiest_device() {
        let asked = Asked { subject, baseline: None, device };
        let scope = Scope::of(id, 0, device);
        deliver::<UsageTimeline>(&asked, scope, (), cx)?;
        deliver::<ClockOf>(&asked, scope, TimeAxis::Events, cx)?;
        cx.send(Message::FirstCurves(id, device));
    }
    cx.progress.stage("laying checkpoints", snapshot.devices.len() as u64)?;
    let mut replays = Vec::with_capacity(snapshot.devices.len());
    for (i, memory) in snapshot.devices.as_slice().iter().enumerate() {
        cx.progress.at(i as u64)?;
        replays.push(Replay::new(memory));
    }
    cx.send(Message::Replays(id, Arc::new(replays)));
    Ok(())
}

/// Answers a question inside a job and delivers it to the memo.
pub(super) fn deliver<Q: Query>(
    asked: &Asked<'_>,
    scope: Scope,
    params: Q::Params,
    cx: &JobContext<Message>,
) -> Result<(), JobError> {
    let answer = Arc::new(Q::answer(asked, &params, &cx.progress)?);
    cx.send(Message::Answer(Box::new(move |memo: &mut Memo| memo.put::<Q>(scope, params, answer))));
    Ok(())
}

fn read(source: &Source, told: Told, progress: &Progress) -> Result<Snapshot, JobError> {
    let read = match source {
        Source::Path(path) => format::open_told(path, told, progress),
        Source::Bytes(name, bytes) => format::open_bytes_told(name, bytes, told, progress),
        Source::Sample(title, bytes) => format::open_bytes(title, bytes, progress),
    };
    read.map_err(|error| if progress.check().is_err() { JobError::Cancelled } else { JobError::Failed(error.to_string()) })
}
