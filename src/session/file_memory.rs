//! Where one was in each file: taken down when things rest, found again when the file is opened in the same state.
//!
//! Always: a file comes up in the arrangement the user gave the tiles while it was in front; a file that was never
//! rearranged comes up in the newest arrangement of all. Samples and bytes without a path are not remembered.

use crate::session::document::DocumentId;
use crate::session::persist::{self, FileMemory, PlaceMemory};
use crate::session::{Session, workspace::Workspace};

impl Session {
    /// The arrangement of tiles that belongs to what is in front, in the window's own words.
    pub fn layout(&self) -> &str {
        let own = self.active().and_then(|document| self.saved.file(document.stamp.as_ref()?));
        own.map(|file| file.layout.as_str()).filter(|layout| !layout.is_empty()).unwrap_or(&self.saved.layout)
    }
    /// Before the program ends: what was not taken down yet, written at once.
    pub fn leave(&mut self) {
        for id in self.documents.iter().map(|document| document.id).collect::<Vec<_>>() {
            self.remember_place(id);
        }
        if let Some(folder) = &self.folder {
            let mut stored = self.stored.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *stored = u64::MAX;
            // Not being able to remember is no reason to disturb anybody.
            let _ = persist::store(folder, &self.saved);
        }
    }

    pub(super) fn keep_layout(&mut self, layout: String) {
        let before = self.saved.clone();
        if let Some(mut memory) = self.workspace.active.and_then(|id| self.memory_of(id)) {
            memory.layout.clone_from(&layout);
            self.saved.remember_file(memory);
        }
        self.saved.layout = layout;
        if self.saved != before {
            self.save();
        }
    }

    /// Takes down where one is in a document.
    pub(super) fn remember_place(&mut self, id: DocumentId) {
        let Some(memory) = self.memory_of(id) else { return };
        if self.saved.file(&memory.stamp) != Some(&memory) {
            self.saved.remember_file(memory);
            self.save();
        }
    }

    fn memory_of(&self, id: DocumentId) -> Option<FileMemory> {
        let document = self.documents.iter().find(|document| document.id == id)?;
        let stamp = document.stamp.clone()?;
        let before = self.saved.file(&stamp);
        let Workspace { devices, places, colour_by, active, .. } = &self.workspace;
        let in_front = *active == Some(id);
        let own = places.iter().filter(|((document, _), _)| *document == id);
        Some(FileMemory {
            device: devices.get(&id)?.0,
            colour_by: match before {
                Some(before) if !in_front => before.colour_by.clone(),
                _ => colour_by.name().to_owned(),
            },
            layout: before.map(|before| before.layout.clone()).unwrap_or_default(),
            places: own.map(|((_, device), place)| PlaceMemory::of(*device, place)).collect(),
            stamp,
        })
    }
}
