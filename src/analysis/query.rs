//! The contract of a question.

use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceId, DeviceMemory, Snapshot};
use crate::replay::Replay;
use std::hash::Hash;

/// A snapshot with the replays of its devices, by [`DeviceId`] row.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// One replay a device.
    pub replays: &'a [Replay],
}

/// What a question is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The snapshot in question.
    pub subject: Subject<'a>,
    /// The one to compare with, if the question compares.
    pub baseline: Option<Subject<'a>>,
    /// The device in question.
    pub device: DeviceId,
}

impl<'a> Asked<'a> {
    /// The device's memory.
    pub fn memory(&self) -> &'a DeviceMemory {
        &self.subject.snapshot.devices[self.device]
    }
    /// The device's replay.
    pub fn replay(&self) -> &'a Replay {
        &self.subject.replays[self.device.0 as usize]
    }
}

/// A pure question about a snapshot.
pub trait Query: 'static {
    /// Name for the jobs panel: `usage timeline`.
    const NAME: &'static str;
    /// What varies from one asking to the next.
    type Params: Clone + Eq + Hash + Send + Sync + 'static;
    /// The answer.
    type Answer: HeapSize + Send + Sync + 'static;
    /// Answers. Long work reports to `progress` every few thousand rows and stops when cancelled.
    fn answer(asked: &Asked<'_>, params: &Self::Params, progress: &Progress) -> Result<Self::Answer, Cancelled>;
}
