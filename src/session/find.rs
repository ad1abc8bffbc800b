//! The search over all views: one line of words, what it finds, and stepping through that.
//!
//! Always: what is found is a question like all others; a step that is asked for before its answer is there waits
//! for it. While a line is being typed views go on showing what the line before it found.

use crate::analysis::{Found, FoundHere, FoundKey, FoundStep};
use crate::session::workspace::Find;
use crate::session::{Answer, Command, Session};
use std::sync::Arc;

/// How stepping stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stepping {
    /// A step that waits for what is found.
    waits: Option<bool>,
    /// The last step led around the end of the trace, in this direction.
    wrapped: Option<bool>,
}

impl Session {
    /// What is searched for.
    pub fn find(&self) -> &Find {
        &self.workspace.find
    }
    /// What the search finds on the device in front; none where nothing is searched for.
    pub fn finding(&self) -> Option<Answer<Found>> {
        let terms = self.workspace.find.terms()?;
        Some(self.ask::<Found>(Arc::clone(terms)))
    }
    /// What views are to show as found now; none where nothing is searched for or nothing is known yet.
    pub fn found(&self) -> Option<Arc<Found>> {
        self.finding()?.value().cloned()
    }
    /// What of it is allocated at the cursor.
    pub fn found_here(&self) -> Option<Answer<FoundHere>> {
        let cursor = self.workspace.place()?.cursor;
        Some(self.ask::<FoundHere>((FoundKey(self.found()?), cursor)))
    }
    /// Whether the last step led around the end of the trace, and whether forward.
    pub fn find_wrapped(&self) -> Option<bool> {
        self.stepping.wrapped
    }

    pub(super) fn set_find(&mut self, text: String) {
        if self.workspace.find.text() != text {
            self.workspace.find = Find::new(text);
            self.stepping = Stepping::default();
        }
    }
    pub(super) fn step_find(&mut self, forward: bool) {
        self.stepping = Stepping { waits: Some(forward), wrapped: None };
        self.step_when_found();
    }
    /// Once a tick: takes the step that waits, if its answer is there.
    pub(super) fn step_when_found(&mut self) {
        let Some(forward) = self.stepping.waits else { return };
        match self.finding() {
            Some(Answer::Ready(found)) => {
                self.stepping.waits = None;
                self.step_to(&found, forward);
            }
            Some(Answer::Stale(..) | Answer::Pending(_)) => {}
            Some(Answer::Failed(_)) | None => self.stepping.waits = None,
        }
    }

    fn step_to(&mut self, found: &Found, forward: bool) {
        let (Some((_, _, memory)), Some(place)) = (self.front(), self.workspace.place()) else { return };
        if let Some(FoundStep { at, item, wrapped }) = found.step(memory, place.cursor, place.selected(), forward) {
            self.stepping.wrapped = wrapped.then_some(forward);
            self.apply(Command::MoveCursor(at));
            self.apply(Command::Select(item));
        }
    }
}
