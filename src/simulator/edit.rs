//! Requests being changed: sizes, lives left out, and new lives put between the recorded ones.
//!
//! Always: what is put behind an event stands behind all requests of that event, in the order in which it was put there.

use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, EventIdx};
use crate::simulator::request::{Request, RequestStream, Wanted};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A stream of requests with what is to become of it.
pub(super) struct Edit<'a> {
    /// The recorded lives.
    pub lives: &'a Allocations,
    stream: RequestStream,
    /// Where a life is asked for.
    wanted: FxHashMap<AllocationId, Wanted>,
    /// Requests put behind an event.
    added: Vec<(EventIdx, Request)>,
    /// Lives under whose new name the recorded free stands.
    renamed: FxHashMap<AllocationId, AllocationId>,
}

impl<'a> Edit<'a> {
    pub fn new(asked: &RequestStream, lives: &'a Allocations) -> Edit<'a> {
        let mut edit =
            Edit { lives, stream: asked.clone(), wanted: FxHashMap::default(), added: Vec::new(), renamed: FxHashMap::default() };
        edit.look();
        edit
    }
    fn look(&mut self) {
        for (_, request) in &self.stream.requests {
            if let Request::Alloc(life, wanted) = request {
                self.wanted.insert(*life, *wanted);
            }
        }
    }
    /// The changed requests.
    pub fn finish(mut self) -> RequestStream {
        self.settle();
        self.stream
    }
    /// Puts what was added to its place.
    pub fn settle(&mut self) {
        if self.added.is_empty() && self.renamed.is_empty() {
            return;
        }
        let renamed = std::mem::take(&mut self.renamed);
        let name = |life: AllocationId| renamed.get(&life).copied().unwrap_or(life);
        for (_, request) in &mut self.stream.requests {
            *request = match *request {
                Request::Free(life) => Request::Free(name(life)),
                Request::FreeRequested(life) => Request::FreeRequested(name(life)),
                Request::FreeCompleted(life) => Request::FreeCompleted(name(life)),
                Request::CompletedInRetry(life) => Request::CompletedInRetry(name(life)),
                other => other,
            };
        }
        // A stable sort keeps recorded requests in front of what was put behind their event.
        self.stream.requests.append(&mut self.added);
        self.stream.requests.sort_by_key(|(event, _)| *event);
        self.look();
    }
    /// The requests, with all that was added in its place.
    pub fn requests(&mut self) -> &[(EventIdx, Request)] {
        self.settle();
        &self.stream.requests
    }
    /// Whether a life is asked for.
    pub fn wanted(&self, life: AllocationId) -> Option<Wanted> {
        self.wanted.get(&life).copied()
    }
    /// Makes lives so many times as large.
    pub fn scale(&mut self, factor: impl Fn(AllocationId) -> f64) {
        let known = self.lives.len();
        for (_, request) in &mut self.stream.requests {
            if let Request::Alloc(life, wanted) = request
                && life.row() < known
            {
                wanted.size = scaled(wanted.size, factor(*life));
            }
        }
        self.look();
    }
    /// Requests that failed in the recording are taken to grow too.
    pub fn scale_failures(&mut self, factor: f64) {
        for (_, request) in &mut self.stream.requests {
            if let Request::Failed(wanted) = request {
                wanted.size = scaled(wanted.size, factor);
            }
        }
    }
    /// Leaves lives out.
    pub fn drop_lives(&mut self, chosen: impl Fn(AllocationId) -> bool) {
        self.settle();
        let known = self.lives.len();
        let gone = |life: &AllocationId| life.row() < known && chosen(*life);
        self.stream.requests.retain(|(_, request)| match request {
            Request::Alloc(life, _)
            | Request::Free(life)
            | Request::FreeRequested(life)
            | Request::FreeCompleted(life)
            | Request::CompletedInRetry(life) => !gone(life),
            Request::Failed(_) | Request::PoolEnds(_) | Request::EmptyCache => true,
        });
        self.wanted.retain(|life, _| !gone(life));
        if let Some(start) = &mut self.stream.start {
            Arc::make_mut(start).leave_out(|life| gone(&life));
        }
    }
    /// Puts a request behind an event.
    pub fn put(&mut self, behind: EventIdx, request: Request) {
        self.added.push((behind, request));
    }
    /// A life of a new name, asked for behind an event.
    pub fn ask(&mut self, behind: EventIdx, wanted: Wanted) -> AllocationId {
        let life = AllocationId::of_row(self.stream.lives);
        self.stream.lives += 1;
        self.added.push((behind, Request::Alloc(life, wanted)));
        life
    }
    /// The recorded free of a life becomes that of another.
    pub fn rename_free(&mut self, life: AllocationId, other: AllocationId) {
        self.renamed.insert(life, other);
    }
    /// Whether the free of a life already stands under another name.
    pub fn is_renamed(&self, life: AllocationId) -> bool {
        self.renamed.contains_key(&life)
    }
}

/// A size so many times as large, in whole bytes; what is something stays something.
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    if size == 0 { 0 } else { ((size as f64 * factor).round() as u64).max(1) }
}
