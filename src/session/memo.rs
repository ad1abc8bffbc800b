//! Answers that were asked for, and those on their way.
//!
//! Views ask every frame and draw what they get. A key is (document, generation, device, question,
//! parameters); a *slot* is a place that asks, of which only the newest request is worked on. While it
//! is on its way the slot's last answer is shown as stale. What all answers weigh stays under a budget:
//! the least recently asked go first, never one that was asked since the last [`Memo::begin_tick`].

use crate::analysis::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::DeviceId;
use crate::session::document::DocumentId;
use crate::session::jobs::{JobError, JobId, JobStatus};
use rustc_hash::FxHashMap;
use std::any::{Any, TypeId};
use std::sync::Arc;

/// What asking gives.
#[derive(Debug)]
pub enum Answer<T> {
    /// The answer to exactly this question.
    Ready(Arc<T>),
    /// The last answer of this slot, while the new one is on its way.
    Stale(Arc<T>, JobStatus),
    /// On its way, and nothing to show yet.
    Pending(JobStatus),
    /// There will be none; the error says why.
    Failed(Arc<JobError>),
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        match self {
            Answer::Ready(value) => Answer::Ready(Arc::clone(value)),
            Answer::Stale(value, status) => Answer::Stale(Arc::clone(value), status.clone()),
            Answer::Pending(status) => Answer::Pending(status.clone()),
            Answer::Failed(error) => Answer::Failed(Arc::clone(error)),
        }
    }
}

impl<T> Answer<T> {
    /// What can be shown: the answer, or the stale one.
    pub fn value(&self) -> Option<&Arc<T>> {
        match self {
            Answer::Ready(value) | Answer::Stale(value, _) => Some(value),
            Answer::Pending(_) | Answer::Failed(_) => None,
        }
    }
    /// The job under way, if it is not ready.
    pub fn status(&self) -> Option<&JobStatus> {
        match self {
            Answer::Stale(_, status) | Answer::Pending(status) => Some(status),
            Answer::Ready(_) | Answer::Failed(_) => None,
        }
    }
}

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The document.
    pub document: DocumentId,
    /// Its state of growth.
    pub generation: u64,
    /// The device.
    pub device: DeviceId,
    /// What it is compared with, where the question compares: document, state of growth, device.
    pub baseline: Option<(DocumentId, u64, DeviceId)>,
}

impl Scope {
    /// One device of a document, compared with nothing.
    pub fn of(document: DocumentId, generation: u64, device: DeviceId) -> Scope {
        Scope { document, generation, device, baseline: None }
    }
    fn is_about(&self, document: DocumentId) -> bool {
        self.document == document || self.baseline.is_some_and(|(other, ..)| other == document)
    }
    fn place(&self, slot: &'static str) -> Place {
        (self.document, self.device, self.baseline.map(|(document, _, device)| (document, device)), slot)
    }
}

/// A place that asks: document and device, those it is compared with, and the slot.
type Place = (DocumentId, DeviceId, Option<(DocumentId, DeviceId)>, &'static str);

/// All answers of a session.
#[derive(Default)]
pub struct Memo {
    tables: FxHashMap<TypeId, Box<dyn Table>>,
    clock: u64,
    tick_began: u64,
    /// Where the tick before this one began.
    before: u64,
    bytes: usize,
    budget: usize,
}

impl Memo {
    /// A memo that keeps at most `budget` bytes of answers, plus what one tick asks for.
    pub fn new(budget: usize) -> Self {
        Self { budget, ..Self::default() }
    }
    /// A new tick: what is asked from now on stays until the next.
    pub fn begin_tick(&mut self) {
        self.before = self.tick_began;
        self.tick_began = self.clock;
    }
    /// What all kept answers weigh, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Looks a question up; `start` is called where its answer is neither there nor on its way.
    pub fn ask<Q: Query>(
        &mut self,
        scope: Scope,
        slot: &'static str,
        params: &Q::Params,
        start: impl FnOnce() -> JobStatus,
    ) -> Answer<Q::Answer> {
        self.clock += 1;
        let clock = self.clock;
        let Some(table) = table_of::<Q>(&mut self.tables) else {
            return Answer::Failed(Arc::new(JobError::Failed(format!("{} has two kinds of answer.", Q::NAME))));
        };
        let place = scope.place(slot);
        let key = (scope, params.clone());
        let entry = table.entries.entry(key).or_insert_with(|| Entry { state: State::Pending(start()), bytes: 0, asked: clock });
        entry.asked = clock;
        match &entry.state {
            State::Ready(value) => {
                table.last.insert(place, Arc::clone(value));
                Answer::Ready(Arc::clone(value))
            }
            State::Pending(status) => match table.last.get(&place) {
                Some(value) => Answer::Stale(Arc::clone(value), status.clone()),
                None => Answer::Pending(status.clone()),
            },
            State::Failed(error) => Answer::Failed(Arc::clone(error)),
        }
    }
    /// An answer that is there, without asking for it.
    pub fn peek<Q: Query>(&mut self, scope: Scope, params: &Q::Params) -> Option<Arc<Q::Answer>> {
        let table = table_of::<Q>(&mut self.tables)?;
        match &table.entries.get(&(scope, params.clone()))?.state {
            State::Ready(value) => Some(Arc::clone(value)),
            State::Pending(_) | State::Failed(_) => None,
        }
    }
    /// Keeps an answer.
    pub fn put<Q: Query>(&mut self, scope: Scope, params: Q::Params, answer: Arc<Q::Answer>) {
        let bytes = answer.heap_size() + size_of::<Q::Answer>();
        let clock = self.clock;
        let Some(table) = table_of::<Q>(&mut self.tables) else { return };
        let entry = Entry { state: State::Ready(answer), bytes, asked: clock };
        if let Some(older) = table.entries.insert((scope, params), entry) {
            self.bytes -= older.bytes;
        }
        self.bytes += bytes;
        self.evict();
    }
    /// A job ended without its answer: cancelled ones may be asked again, failures stay.
    pub fn job_ended(&mut self, id: JobId, error: &JobError) {
        for table in self.tables.values_mut() {
            table.job_ended(id, error);
        }
    }
    /// What was asked in the last tick about one state of a document and compares it with nothing, to be answered again
    /// about another state of it.
    pub fn renewals(&self, document: DocumentId, generation: u64) -> Vec<Renewal> {
        let of = |scope: &Scope| scope.document == document && scope.generation == generation && scope.baseline.is_none();
        self.tables.values().flat_map(|table| table.renewals(&of, self.before)).collect()
    }
    /// A document has grown: its answers of other states go, but for what places show until they have newer ones. They are
    /// handed over, as freeing them takes time.
    pub fn outgrow(&mut self, document: DocumentId, generation: u64) -> Vec<Retired> {
        let mut retired = Vec::new();
        let freed: usize = self.tables.values_mut().map(|table| table.outgrow(document, generation, &mut retired)).sum();
        self.bytes -= freed;
        retired
    }
    /// Forgets all answers of a document.
    pub fn forget(&mut self, document: DocumentId) {
        self.bytes -= self.tables.values_mut().map(|table| table.forget(document)).sum::<usize>();
    }

    fn evict(&mut self) {
        while self.budget < self.bytes {
            let oldest = self.tables.iter().filter_map(|(kind, table)| table.oldest().map(|asked| (asked, *kind))).min();
            let Some((asked, kind)) = oldest.filter(|(asked, _)| *asked <= self.tick_began) else { return };
            let freed = self.tables.get_mut(&kind).map_or(0, |table| table.evict(asked));
            if freed == 0 {
                return;
            }
            self.bytes -= freed;
        }
    }
}

/// What puts an answer in its place.
pub type Put = Box<dyn FnOnce(&mut Memo) + Send>;
type Work = Box<dyn FnOnce(&Asked<'_>, u64, &Progress) -> Result<Put, Cancelled> + Send>;

/// A question to be asked again when its document has grown.
pub struct Renewal {
    /// The device it is about.
    pub device: DeviceId,
    work: Work,
}

impl Renewal {
    /// Answers it about the state of growth `generation`.
    pub fn answer(self, asked: &Asked<'_>, generation: u64, progress: &Progress) -> Result<Put, Cancelled> {
        (self.work)(asked, generation, progress)
    }
}

/// An answer that nobody asks for any more.
pub struct Retired(#[expect(dead_code, reason = "it is only kept, and freed in the end")] Box<dyn Any + Send>);

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Retired")
    }
}

struct Entry<A> {
    state: State<A>,
    bytes: usize,
    asked: u64,
}

enum State<A> {
    Pending(JobStatus),
    Ready(Arc<A>),
    Failed(Arc<JobError>),
}

struct Typed<Q: Query> {
    entries: FxHashMap<(Scope, Q::Params), Entry<Q::Answer>>,
    last: FxHashMap<Place, Arc<Q::Answer>>,
}

trait Table: Any {
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn job_ended(&mut self, id: JobId, error: &JobError);
    fn renewals(&self, of: &dyn Fn(&Scope) -> bool, since: u64) -> Vec<Renewal>;
    fn outgrow(&mut self, document: DocumentId, generation: u64, retired: &mut Vec<Retired>) -> usize;
    fn forget(&mut self, document: DocumentId) -> usize;
    fn oldest(&self) -> Option<u64>;
    fn evict(&mut self, asked: u64) -> usize;
}

impl<Q: Query> Table for Typed<Q> {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn job_ended(&mut self, id: JobId, error: &JobError) {
        let of_job = |entry: &Entry<Q::Answer>| matches!(&entry.state, State::Pending(status) if status.id == id);
        if *error == JobError::Cancelled {
            self.entries.retain(|_, entry| !of_job(entry));
        } else {
            for entry in self.entries.values_mut().filter(|entry| of_job(entry)) {
                entry.state = State::Failed(Arc::new(error.clone()));
            }
        }
    }
    fn renewals(&self, of: &dyn Fn(&Scope) -> bool, since: u64) -> Vec<Renewal> {
        let asked = self.entries.iter().filter(|((scope, _), entry)| since < entry.asked && of(scope));
        asked
            .map(|((scope, params), _)| {
                let (scope, params) = (*scope, params.clone());
                let work = move |asked: &Asked<'_>, generation: u64, progress: &Progress| {
                    let answer = Arc::new(Q::answer(asked, &params, progress)?);
                    let scope = Scope { generation, ..scope };
                    Ok(Box::new(move |memo: &mut Memo| memo.put::<Q>(scope, params, answer)) as Put)
                };
                Renewal { device: scope.device, work: Box::new(work) }
            })
            .collect()
    }
    fn outgrow(&mut self, document: DocumentId, generation: u64, retired: &mut Vec<Retired>) -> usize {
        let is_older = |of: DocumentId, at: u64| of == document && at != generation;
        let mut freed = 0;
        self.entries.retain(|(scope, _), entry| {
            let older = is_older(scope.document, scope.generation)
                || scope.baseline.is_some_and(|(other, generation, _)| is_older(other, generation));
            if let (true, State::Ready(answer)) = (older, &entry.state) {
                retired.push(Retired(Box::new(Arc::clone(answer))));
                freed += entry.bytes;
            }
            !older
        });
        freed
    }
    fn forget(&mut self, document: DocumentId) -> usize {
        let mut freed = 0;
        self.entries.retain(|(scope, _), entry| {
            let keep = !scope.is_about(document);
            freed += if keep { 0 } else { entry.bytes };
            keep
        });
        self.last.retain(|(of, _, baseline, _), _| *of != document && baseline.is_none_or(|(other, _)| other != document));
        freed
    }
    fn oldest(&self) -> Option<u64> {
        self.entries.values().filter(|entry| 0 < entry.bytes).map(|entry| entry.asked).min()
    }
    fn evict(&mut self, asked: u64) -> usize {
        let Self { entries, last } = self;
        let mut freed = 0;
        entries.retain(|_, entry| {
            if entry.bytes == 0 || entry.asked != asked {
                return true;
            }
            freed += entry.bytes;
            if let State::Ready(value) = &entry.state {
                last.retain(|_, shown| !Arc::ptr_eq(shown, value));
            }
            false
        });
        freed
    }
}

fn table_of<Q: Query>(tables: &mut FxHashMap<TypeId, Box<dyn Table>>) -> Option<&mut Typed<Q>> {
    tables
        .entry(TypeId::of::<Q>())
        .or_insert_with(|| Box::new(Typed::<Q> { entries: FxHashMap::default(), last: FxHashMap::default() }))
        .as_any_mut()
        .downcast_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Asked;
    use crate::base::{Cancelled, Progress};
    use crate::session::jobs::{JobSpec, Jobs, Lane};

    /// A question whose answer weighs as many bytes as its parameter says.
    struct Weigh;
    impl Query for Weigh {
        const NAME: &'static str = "weighing";
        type Params = usize;
        type Answer = Vec<u8>;
        fn answer(_: &Asked<'_>, bytes: &usize, _: &Progress) -> Result<Vec<u8>, Cancelled> {
            Ok(vec![0; *bytes])
        }
    }

    const HERE: Scope = Scope { document: DocumentId(1), generation: 0, device: DeviceId(0), baseline: None };

    fn status() -> JobStatus {
        Jobs::<()>::new(1).start(JobSpec { title: "x".into(), slot: None, lane: Lane::Own, listed: false }, |_| Ok(()))
    }
    fn kind<T>(answer: &Answer<T>) -> &'static str {
        match answer {
            Answer::Ready(_) => "ready",
            Answer::Stale(..) => "stale",
            Answer::Pending(_) => "pending",
            Answer::Failed(_) => "failed",
        }
    }

    #[test]
    fn an_answer_goes_from_pending_over_stale_to_ready_or_failed() {
        let mut memo = Memo::new(1 << 20);
        assert_eq!(kind(&memo.ask::<Weigh>(HERE, "a", &10, status)), "pending");
        let asked = memo.ask::<Weigh>(HERE, "a", &10, || panic!("asked twice"));
        assert_eq!(kind(&asked), "pending", "the same question is worked on once");
        memo.put::<Weigh>(HERE, 10, Arc::new(vec![0; 10]));
        assert_eq!(kind(&memo.ask::<Weigh>(HERE, "a", &10, status)), "ready");
        let newer = memo.ask::<Weigh>(HERE, "a", &20, status);
        assert_eq!((kind(&newer), newer.value().map(|v| v.len())), ("stale", Some(10)));
        assert_eq!(kind(&memo.ask::<Weigh>(HERE, "b", &20, status)), "pending", "another slot has no older answer");
        let id = newer.status().expect("under way").id;
        memo.job_ended(id, &JobError::Cancelled);
        let again = memo.ask::<Weigh>(HERE, "a", &20, status);
        assert_eq!(kind(&again), "stale", "a cancelled question is asked anew");
        memo.job_ended(again.status().expect("under way").id, &JobError::Failed("no".into()));
        assert_eq!(kind(&memo.ask::<Weigh>(HERE, "a", &20, status)), "failed");
        let grown = Scope { generation: 1, ..HERE };
        assert_eq!(kind(&memo.ask::<Weigh>(grown, "a", &10, status)), "stale", "a new generation is a new question");
    }

    #[test]
    fn the_least_recently_asked_go_first_and_the_current_tick_stays() {
        let weight = 1000 + size_of::<Vec<u8>>();
        let mut memo = Memo::new(3 * weight);
        let fill = |memo: &mut Memo, n: usize| {
            memo.ask::<Weigh>(HERE, "a", &n, status);
            memo.put::<Weigh>(HERE, n, Arc::new(vec![0; 1000]));
        };
        for n in 0..3 {
            fill(&mut memo, n);
        }
        memo.ask::<Weigh>(HERE, "a", &0, status);
        memo.begin_tick();
        fill(&mut memo, 3);
        assert_eq!(memo.bytes(), 3 * weight);
        for (n, there) in [(0, true), (1, false), (2, true), (3, true)] {
            let mut asked = false;
            memo.ask::<Weigh>(HERE, "b", &n, || {
                asked = true;
                status()
            });
            assert_eq!(!asked, there, "{n}");
        }
        for n in 10..20 {
            fill(&mut memo, n);
        }
        assert!(3 * weight < memo.bytes(), "what this tick asks for is never thrown away under it");
        memo.begin_tick();
        fill(&mut memo, 20);
        assert!(memo.bytes() <= 3 * weight);
        memo.forget(DocumentId(1));
        assert_eq!(memo.bytes(), 0);
    }

    #[test]
    fn a_comparison_is_forgotten_with_either_document() {
        let against = Scope { baseline: Some((DocumentId(2), 0, DeviceId(0))), ..HERE };
        let mut memo = Memo::new(1 << 20);
        for closed in [1, 2] {
            for scope in [HERE, against] {
                assert_eq!(kind(&memo.ask::<Weigh>(scope, "a", &10, status)), "pending", "{scope:?}");
                memo.put::<Weigh>(scope, 10, Arc::new(vec![0; 10]));
            }
            memo.forget(DocumentId(closed));
            let there = |memo: &mut Memo, scope| memo.peek::<Weigh>(scope, &10).is_some();
            assert_eq!((there(&mut memo, HERE), there(&mut memo, against)), (closed == 2, false));
            memo.forget(DocumentId(1));
        }
    }
}
