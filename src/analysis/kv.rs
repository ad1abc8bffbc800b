//! The paged KV cache over time: what it holds, what is shared, what was found again, how old blocks were when they went.
//!
//! Counted from a log's own events ([`KvLog`]): what a cache holds at a position is what it held at the start, and what
//! was stored since, less what was removed since. A sequence is a run of blocks of which each is stored behind the one
//! before; one that begins behind a block of another sequence found all blocks up to there and re-used them. A block is
//! shared from the moment another sequence begins behind it or behind a later block of its own sequence.
//!
//! Always: curves count in [`KvLog::unit`]s, bytes where the user said what a block has, blocks where not; what is held
//! is the sum of the lives of the device, at every position.

use crate::analysis::curve::Curve;
use crate::analysis::query::{Asked, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{DeviceMemory, EventIdx, KvDeed, KvLog, KvParent, Position};

/// Steps that ages are counted in.
const AGE_STEPS: u64 = 40;

/// What a cache did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvCache {
    /// Bytes of a block, where the user said.
    pub block_bytes: Option<u64>,
    /// Blocks that were stored.
    pub stored: u64,
    /// Blocks that were removed one by one, of those the log stored.
    pub removed: u64,
    /// Blocks that went when all were cleared.
    pub cleared: u64,
    /// How often all were cleared.
    pub clears: u64,
    /// Blocks that were removed and that the log did not store: they are older than it.
    pub older: u64,
    /// Blocks stored again after they had been removed: they were computed twice.
    pub again: u64,
    /// Blocks stored while one of the same hash was there.
    pub twice: u64,
    /// Blocks that sequences found stored by others and re-used, as far as events show: one that stores nothing of its own
    /// leaves no event.
    pub reused: u64,
    /// Blocks that more than one sequence used.
    pub ever_shared: u64,
    /// Tokens in all stored blocks, where the log names them.
    pub tokens: u64,
    /// Tokens a block has room for, the most of any.
    pub block_tokens: u32,
    /// What is held at each position.
    pub held: Curve,
    /// What of it is shared.
    pub shared: Curve,
    /// Room for tokens that is empty inside the blocks held, in tokens.
    pub empty_tokens: Curve,
    /// The runs of blocks.
    pub sequences: Vec<KvRun>,
    /// The row of each block in the order of the tree: a sequence's blocks, then the sequences behind it.
    pub rows: Vec<u32>,
    /// How old blocks were when they were removed: how many in each step of [`KvCache::age_step`] from 0 on.
    pub ages: Vec<u64>,
    /// A step of ages: µs, or events where there are no times.
    pub age_step: u64,
    /// The least, the middle and the highest of these ages.
    pub age: Option<[u64; 3]>,
    /// Whether ages are in µs.
    pub by_time: bool,
}

/// A sequence with its span of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRun {
    /// When its first own block was stored.
    pub born: Position,
    /// When the last of its own blocks went.
    pub died: Position,
    /// Blocks it found stored by others.
    pub shared: u32,
    /// Blocks of its own.
    pub own: u32,
    /// The sequence that the text of all it stands behind begins with; itself where it stands behind none.
    pub root: u32,
}

impl KvRun {
    /// Blocks of its whole text.
    pub fn length(&self) -> u64 {
        u64::from(self.shared) + u64::from(self.own)
    }
}

impl KvCache {
    /// Adds up a device's log; none where it is no KV cache.
    pub fn of(memory: &DeviceMemory, progress: &Progress) -> Result<Option<KvCache>, Cancelled> {
        let Some(log) = &memory.kv else { return Ok(None) };
        progress.stage("adding up the cache", 4)?;
        let ends: Vec<Position> = log.blocks.iter().map(|block| died(memory, block.event)).collect();
        let mut cache = KvCache { block_bytes: log.block_bytes, stored: log.blocks.len() as u64, ..KvCache::default() };
        cache.count(memory, log);
        progress.at(1)?;
        cache.sequences = runs(log, &ends);
        cache.rows = tree_rows(log);
        progress.at(2)?;
        cache.curves(memory, log, &ends);
        progress.at(3)?;
        cache.ages(memory, log, &ends);
        Ok(Some(cache))
    }

    /// The most that was held, and the first position at which it was.
    pub fn peak(&self) -> (Position, u64) {
        self.held.peak()
    }

    /// Bytes, or blocks, that a block counts as.
    pub fn unit(&self) -> u64 {
        self.block_bytes.unwrap_or(1)
    }

    fn count(&mut self, memory: &DeviceMemory, log: &KvLog) {
        for block in &log.blocks {
            self.again += u64::from(block.again);
            self.twice += u64::from(block.twice);
            self.tokens += u64::from(block.tokens);
            self.block_tokens = self.block_tokens.max(block.capacity);
        }
        for step in &log.steps {
            let freed = u64::from(step.events.end - step.events.start);
            match step.deed {
                KvDeed::Stored => {}
                KvDeed::Removed => self.removed += freed,
                KvDeed::Cleared => (self.clears, self.cleared) = (self.clears + 1, self.cleared + freed),
            }
        }
        self.older = memory.allocations.born_by(Position::START) as u64;
        self.removed -= self.older.min(self.removed);
        self.reused = log.sequences.iter().map(|sequence| u64::from(sequence.shared)).sum();
    }

    fn curves(&mut self, memory: &DeviceMemory, log: &KvLog, ends: &[Position]) {
        let unit = i128::from(log.unit());
        let slots = memory.trace.len() + 1;
        let mut deltas = vec![[0i128; 3]; slots];
        let mut add = |line: usize, from: Position, to: Position, value: i128| {
            if from < to && (from.0 as usize) < slots {
                deltas[from.0 as usize][line] += value;
                if let Some(end) = deltas.get_mut(to.0 as usize) {
                    end[line] -= value;
                }
            }
        };
        let lives = &memory.allocations;
        for ((born, died), size) in lives.born().iter().zip(lives.died()).zip(lives.sizes()) {
            add(0, *born, *died, i128::from(*size));
        }
        let since = shared_since(log);
        for ((block, died), shared) in log.blocks.iter().zip(ends).zip(&since) {
            let born = Position::after(block.event);
            if let Some(shared) = shared.filter(|shared| shared < died) {
                self.ever_shared += 1;
                add(1, shared.max(born), *died, unit);
            }
            add(2, born, *died, i128::from(block.capacity.saturating_sub(block.tokens)));
        }
        let line = |line: usize| deltas.iter().map(|row| row[line]).collect::<Vec<i128>>();
        self.held = Curve::from_deltas(&line(0));
        self.shared = Curve::from_deltas(&line(1));
        self.empty_tokens = Curve::from_deltas(&line(2));
    }

    fn ages(&mut self, memory: &DeviceMemory, log: &KvLog, ends: &[Position]) {
        self.by_time = memory.trace.has_times();
        let cleared: Vec<_> =
            log.steps.iter().filter(|step| step.deed == KvDeed::Cleared).map(|step| step.events.clone()).collect();
        let was_cleared = |event: EventIdx| {
            let after = cleared.partition_point(|range| range.start <= event.0);
            after.checked_sub(1).is_some_and(|place| event.0 < cleared[place].end)
        };
        let mut ages: Vec<u64> = Vec::new();
        for (block, died) in log.blocks.iter().zip(ends) {
            let Some(end) = died.event().filter(|event| *died != Position::NEVER && !was_cleared(*event)) else { continue };
            let times = (memory.trace.time_us(block.event), memory.trace.time_us(end));
            ages.push(match times {
                (Some(from), Some(to)) if self.by_time => u64::try_from(to.saturating_sub(from)).unwrap_or(0),
                _ => u64::from(end.0 - block.event.0),
            });
        }
        ages.sort_unstable();
        let Some(most) = ages.last() else { return };
        self.age_step = most / AGE_STEPS + 1;
        self.ages = vec![0; (most / self.age_step) as usize + 1];
        for age in &ages {
            self.ages[(age / self.age_step) as usize] += 1;
        }
        self.age = match (ages.first(), ages.get(ages.len() / 2), ages.last()) {
            (Some(least), Some(middle), Some(most)) => Some([*least, *middle, *most]),
            _ => None,
        };
    }
}

/// When the life that an event began ended.
fn died(memory: &DeviceMemory, event: EventIdx) -> Position {
    memory.subject(event).map_or(Position::NEVER, |life| memory.allocations.get(life).died)
}

fn runs(log: &KvLog, ends: &[Position]) -> Vec<KvRun> {
    let mut runs: Vec<KvRun> = Vec::with_capacity(log.sequences.len());
    for (row, sequence) in log.sequences.iter().enumerate() {
        let born = Position::after(log.blocks[sequence.first as usize].event);
        let root = sequence.behind.map_or(row as u32, |behind| runs[behind as usize].root);
        runs.push(KvRun { born, died: born, shared: sequence.shared, own: sequence.own, root });
    }
    for (block, died) in log.blocks.iter().zip(ends) {
        let run = &mut runs[block.sequence as usize];
        run.died = run.died.max(*died);
    }
    runs
}

/// Since when each block is used by more than its own sequence.
fn shared_since(log: &KvLog) -> Vec<Option<Position>> {
    let mut since: Vec<Option<Position>> = vec![None; log.blocks.len()];
    for sequence in &log.sequences {
        let first = &log.blocks[sequence.first as usize];
        if let KvParent::Block(parent) = first.parent {
            // Sequences come in order of birth: the first one counts.
            since[parent as usize].get_or_insert(Position::after(first.event));
        }
    }
    // Who stands behind a block stands behind those before it too; parents come before what continues them.
    for row in (0..log.blocks.len()).rev() {
        if let (KvParent::Block(parent), Some(at)) = (log.blocks[row].parent, since[row]) {
            let before = &mut since[parent as usize];
            *before = Some(before.map_or(at, |known| known.min(at)));
        }
    }
    since
}

/// Rows in the order of the tree.
fn tree_rows(log: &KvLog) -> Vec<u32> {
    let mut behind: Vec<Vec<u32>> = vec![Vec::new(); log.sequences.len()];
    let mut stack: Vec<u32> = Vec::new();
    for (row, sequence) in log.sequences.iter().enumerate().rev() {
        match sequence.behind {
            Some(outer) => behind[outer as usize].push(row as u32),
            None => stack.push(row as u32),
        }
    }
    let (mut starts, mut next) = (vec![0u32; log.sequences.len()], 0);
    while let Some(sequence) = stack.pop() {
        starts[sequence as usize] = next;
        next += log.sequences[sequence as usize].own;
        // The latest were pushed first, so that the earliest is next.
        stack.append(&mut behind[sequence as usize]);
    }
    let place = |block: &crate::model::KvBlock| {
        let shared = log.sequences[block.sequence as usize].shared;
        starts[block.sequence as usize] + block.depth.saturating_sub(shared)
    };
    log.blocks.iter().map(place).collect()
}

impl Query for KvCache {
    const NAME: &'static str = "KV cache";
    type Params = ();
    type Answer = Option<KvCache>;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Option<KvCache>, Cancelled> {
        KvCache::of(asked.memory(), progress)
    }
}

impl HeapSize for KvCache {
    fn heap_size(&self) -> usize {
        self.held.heap_size()
            + self.shared.heap_size()
            + self.empty_tokens.heap_size()
            + self.sequences.capacity() * size_of::<KvRun>()
            + self.rows.capacity() * 4
            + self.ages.capacity() * 8
    }
}
