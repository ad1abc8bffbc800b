//! An open document: one frozen snapshot with the replays of its devices.
//!
//! Always: `replays` is either absent (still being laid) or has one entry a device. A document that
//! grows is replaced by one of the next generation; ids keep their meaning.

use crate::analysis::Subject;
use crate::model::{DeviceId, Snapshot};
use crate::replay::Replay;
use crate::session::persist::FileStamp;
use std::path::PathBuf;
use std::sync::Arc;

/// An open document of this session; ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId(pub u64);

/// An open document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Which.
    pub id: DocumentId,
    /// The short name on its tab.
    pub title: String,
    /// Where it was read from; none for a sample.
    pub path: Option<PathBuf>,
    /// The state in which the file was read, where there is a file.
    pub stamp: Option<FileStamp>,
    /// What it tells.
    pub snapshot: Arc<Snapshot>,
    /// One replay a device, once they are laid.
    pub replays: Option<Arc<Vec<Replay>>>,
    /// Counts how often it grew.
    pub generation: u64,
}

impl Document {
    /// Snapshot and replays as a question takes them; without replays none.
    pub fn subject(&self) -> Option<Subject<'_>> {
        self.replays.as_ref().map(|replays| Subject { snapshot: &self.snapshot, replays })
    }
    /// Devices that hold anything, in file order; all of them where none does.
    pub fn used_devices(&self) -> Vec<DeviceId> {
        let used: Vec<_> = self.snapshot.devices.iter().filter(|(_, memory)| memory.is_used()).map(|(id, _)| id).collect();
        if used.is_empty() { self.snapshot.devices.ids().collect() } else { used }
    }
}
