//! Work off the UI thread: the only place of the viewer that starts threads.
//!
//! Always: a job that panics becomes a [`JobError`], never a crash; of two jobs in one [`Slot`] the
//! newer wins, the older is cancelled; every job that was started ends with exactly one
//! [`JobEvent::Ended`], also one that never ran. What jobs deliver is read by [`Jobs::poll`].

use crate::base::{Cancelled, Progress};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Called from any thread when there is something new to show.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Why a job ended without its result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// It was no longer wanted.
    #[error("cancelled")]
    Cancelled,
    /// It could not be done; a clear sentence.
    #[error("{0}")]
    Failed(String),
    /// A defect of this program; the window stays open.
    #[error("{job} stopped because of a defect in Fragscope: {message}")]
    Panicked {
        /// What the job was called.
        job: String,
        /// What the defect said.
        message: String,
    },
}

impl From<Cancelled> for JobError {
    fn from(Cancelled: Cancelled) -> Self {
        JobError::Cancelled
    }
}

/// One job of this session; ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// Where only the latest job counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u64);

impl Slot {
    /// The slot of a key: equal keys, equal slots.
    pub fn of(key: &impl Hash) -> Slot {
        let mut hasher = rustc_hash::FxHasher::default();
        key.hash(&mut hasher);
        Slot(hasher.finish())
    }
}

/// On which thread a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// On one of the shared workers, in order.
    Shared,
    /// On a thread of its own, at once: for what may wait long (a file dialog, a whole file).
    Own,
}

/// What a job is, before it runs.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its name for people.
    pub title: String,
    /// Only the latest job of a slot counts; none: all do.
    pub slot: Option<Slot>,
    /// Where it runs.
    pub lane: Lane,
    /// Whether the jobs panel lists it with a cancel.
    pub listed: bool,
}

/// A job that has not ended.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// Which.
    pub id: JobId,
    /// Its name for people.
    pub title: String,
    /// How far it is; cancels it too.
    pub progress: Progress,
    /// When it was started.
    pub since: Instant,
    /// Whether the jobs panel lists it.
    pub listed: bool,
    slot: Option<Slot>,
}

/// What [`Jobs::poll`] hands back, in the order in which it happened.
#[derive(Debug)]
pub enum JobEvent<M> {
    /// A job delivered something.
    Delivered(M),
    /// A job is over.
    Ended {
        /// What it was.
        status: JobStatus,
        /// How it went.
        result: Result<(), JobError>,
    },
}

/// What a running job may use.
pub struct JobContext<M> {
    /// Report here; the `?` behind the report is the cancel.
    pub progress: Progress,
    sender: Sender<JobEvent<M>>,
    waker: Waker,
}

impl<M> JobContext<M> {
    /// Delivers a result or a first part of it.
    pub fn send(&self, message: M) {
        // A closed channel means that the session is gone: nobody is left to tell.
        if self.sender.send(JobEvent::Delivered(message)).is_ok() {
            (self.waker)();
        }
    }
}

type Work<M> = Box<dyn FnOnce(&JobContext<M>) -> Result<(), JobError> + Send>;

struct Queue<M> {
    waiting: VecDeque<(JobStatus, Work<M>)>,
    closed: bool,
}

struct Shared<M> {
    queue: Mutex<Queue<M>>,
    ready: Condvar,
    sender: Sender<JobEvent<M>>,
    waker: Mutex<Waker>,
}

/// All jobs of a session.
pub struct Jobs<M> {
    shared: Arc<Shared<M>>,
    receiver: Receiver<JobEvent<M>>,
    running: Mutex<BTreeMap<JobId, JobStatus>>,
    next: Mutex<u64>,
    workers: usize,
    started_workers: Mutex<usize>,
}

impl<M: Send + 'static> Jobs<M> {
    /// Jobs on at most `workers` shared threads, which start with the first job.
    pub fn new(workers: usize) -> Self {
        let (sender, receiver) = channel();
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), closed: false });
        let waker: Mutex<Waker> = Mutex::new(Arc::new(|| {}));
        let shared = Arc::new(Shared { queue, ready: Condvar::new(), sender, waker });
        Self {
            shared,
            receiver,
            running: Mutex::default(),
            next: Mutex::new(0),
            workers: workers.max(1),
            started_workers: Mutex::new(0),
        }
    }
    /// Sets what is called when there is something new.
    pub fn set_waker(&self, waker: Waker) {
        *locked(&self.shared.waker) = waker;
    }
    /// Calls the waker, for those who have news without a job.
    pub fn wake(&self) {
        wake(&self.shared);
    }
    /// Starts a job. An older one in the same slot is cancelled.
    pub fn start<F>(&self, spec: JobSpec, work: F) -> JobStatus
    where
        F: FnOnce(&JobContext<M>) -> Result<(), JobError> + Send + 'static,
    {
        let JobSpec { title, slot, lane, listed } = spec;
        let id = {
            let mut next = locked(&self.next);
            *next += 1;
            JobId(*next)
        };
        let status = JobStatus { id, title, progress: Progress::new(), since: Instant::now(), listed, slot };
        let mut running = locked(&self.running);
        if slot.is_some() {
            for older in running.values().filter(|older| older.slot == slot) {
                older.progress.cancel();
            }
        }
        running.insert(id, status.clone());
        drop(running);
        match lane {
            Lane::Shared => {
                locked(&self.shared.queue).waiting.push_back((status.clone(), Box::new(work)));
                self.start_worker();
                self.shared.ready.notify_one();
            }
            Lane::Own => {
                let (shared, own) = (Arc::clone(&self.shared), status.clone());
                let name = format!("job {}", id.0);
                let spawned = std::thread::Builder::new().name(name).spawn(move || run(&shared, own, Box::new(work)));
                if let Err(error) = spawned {
                    let result = Err(JobError::Failed(format!("No thread for {}: {error}.", status.title)));
                    let _ = self.shared.sender.send(JobEvent::Ended { status: status.clone(), result });
                }
            }
        }
        status
    }
    /// Asks a job to stop.
    pub fn cancel(&self, id: JobId) {
        if let Some(status) = locked(&self.running).get(&id) {
            status.progress.cancel();
        }
    }
    /// What was delivered and what ended since the last call.
    pub fn poll(&self) -> Vec<JobEvent<M>> {
        let events: Vec<_> = self.receiver.try_iter().collect();
        let mut running = locked(&self.running);
        for event in &events {
            if let JobEvent::Ended { status, .. } = event {
                running.remove(&status.id);
            }
        }
        events
    }
    /// Jobs that have not ended, oldest first.
    pub fn running(&self) -> Vec<JobStatus> {
        locked(&self.running).values().cloned().collect()
    }
    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        locked(&self.running).is_empty()
    }

    fn start_worker(&self) {
        let mut started = locked(&self.started_workers);
        if *started < self.workers {
            let shared = Arc::clone(&self.shared);
            let name = format!("worker {started}");
            if std::thread::Builder::new().name(name).spawn(move || work_until_closed(&shared)).is_ok() {
                *started += 1;
            }
        }
    }
}

impl<M> Drop for Jobs<M> {
    fn drop(&mut self) {
        for status in locked(&self.running).values() {
            status.progress.cancel();
        }
        let mut queue = locked(&self.shared.queue);
        queue.closed = true;
        queue.waiting.clear();
        self.shared.ready.notify_all();
    }
}

fn work_until_closed<M: Send>(shared: &Shared<M>) {
    loop {
        let mut queue = locked(&shared.queue);
        let (status, work) = loop {
            if queue.closed {
                return;
            }
            match queue.waiting.pop_front() {
                Some(next) => break next,
                None => queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(queue);
        run(shared, status, work);
    }
}

/// Runs one job behind the panic fence and tells how it ended.
fn run<M: Send>(shared: &Shared<M>, status: JobStatus, work: Work<M>) {
    let waker = Arc::clone(&locked(&shared.waker));
    let context = JobContext { progress: status.progress.clone(), sender: shared.sender.clone(), waker };
    let result = match status.progress.check() {
        Err(cancelled) => Err(cancelled.into()),
        Ok(()) => catch_unwind(AssertUnwindSafe(|| work(&context)))
            .unwrap_or_else(|panic| Err(JobError::Panicked { job: status.title.clone(), message: panic_text(&*panic) })),
    };
    let _ = shared.sender.send(JobEvent::Ended { status, result });
    wake(shared);
}

fn wake<M>(shared: &Shared<M>) {
    let waker = Arc::clone(&locked(&shared.waker));
    waker();
}

/// The text of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no further words".to_owned()
    }
}

/// A panic cannot leave these values half-written: no lock is held while a job's own code runs.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn spec(slot: Option<Slot>, lane: Lane) -> JobSpec {
        JobSpec { title: "counting".into(), slot, lane, listed: true }
    }

    /// Waits for all jobs to end: what they delivered and how each ended, in order of their start.
    fn drain(jobs: &Jobs<i32>) -> (Vec<i32>, Vec<Result<(), JobError>>) {
        let (mut delivered, mut ended) = (Vec::new(), BTreeMap::new());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !jobs.is_idle() && Instant::now() < deadline {
            for event in jobs.poll() {
                match event {
                    JobEvent::Delivered(n) => delivered.push(n),
                    JobEvent::Ended { status, result } => {
                        ended.insert(status.id, result);
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(jobs.is_idle(), "jobs did not end");
        (delivered, ended.into_values().collect())
    }

    #[test]
    fn jobs_deliver_fail_and_panic_without_harm() {
        for lane in [Lane::Shared, Lane::Own] {
            let jobs: Jobs<i32> = Jobs::new(1);
            let woken = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&woken);
            jobs.set_waker(Arc::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }));
            jobs.start(spec(None, lane), |cx| {
                cx.send(1);
                cx.send(2);
                Ok(())
            });
            jobs.start(spec(None, lane), |_| Err(JobError::Failed("The file is empty.".into())));
            jobs.start(spec(None, lane), |_| panic!("index 7 of 3"));
            jobs.start(spec(None, lane), |cx| {
                cx.send(3);
                Ok(())
            });
            let (mut delivered, ended) = drain(&jobs);
            delivered.sort_unstable();
            assert_eq!(delivered, [1, 2, 3]);
            let panicked = JobError::Panicked { job: "counting".into(), message: "index 7 of 3".into() };
            assert_eq!(ended, [Ok(()), Err(JobError::Failed("The file is empty.".into())), Err(panicked), Ok(())]);
            assert_eq!(woken.load(Ordering::Relaxed), 7, "once a delivery, once an end");
        }
    }

    #[test]
    fn the_latest_of_a_slot_wins_and_other_slots_are_left_alone() {
        let jobs: Jobs<i32> = Jobs::new(1);
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let wait = Arc::clone(&gate);
        jobs.start(spec(None, Lane::Shared), move |_| {
            let mut open = locked(&wait.0);
            while !*open {
                open = wait.1.wait(open).expect("not poisoned");
            }
            Ok(())
        });
        for (slot, n) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            jobs.start(spec(Some(Slot::of(&slot)), Lane::Shared), move |cx| {
                cx.send(n);
                Ok(())
            });
        }
        *locked(&gate.0) = true;
        gate.1.notify_all();
        let (delivered, ended) = drain(&jobs);
        assert_eq!(delivered, [3, 4]);
        let cancelled = Err(JobError::Cancelled);
        assert_eq!(ended, [Ok(()), cancelled.clone(), cancelled, Ok(()), Ok(())]);
    }

    #[test]
    fn a_running_job_stops_at_its_next_report() {
        let jobs: Jobs<i32> = Jobs::new(1);
        let status = jobs.start(spec(None, Lane::Own), |cx| {
            loop {
                cx.progress.at(1)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(jobs.running().len(), 1);
        jobs.cancel(status.id);
        assert_eq!(drain(&jobs), (vec![], vec![Err(JobError::Cancelled)]));
    }
}
