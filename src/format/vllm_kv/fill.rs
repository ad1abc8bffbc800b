//! Events become the lives of blocks: one life from each storing to its removal, on one device a rank and tier.
//!
//! Where vLLM keeps a block is not in its events: each takes the lowest place that is free, so that the highest place in
//! use is the most blocks there were. What the log removes without having stored it is older than the log.
//!
//! Always: hashes are counted as often as they are stored; a removal takes the oldest of equal ones.

use crate::base::{StringId, counted, grouped};
use crate::format::neighbour::{self, HOST, Plain};
use crate::format::vllm_kv::events::{self, Batch, Event, Stored};
use crate::format::vllm_kv::value::Value;
use crate::model::{
    Action, AnnotationMark, Frame, FrameId, KvBlock, KvDeed, KvLog, KvParent, KvSequence, KvStep, MarkStage, Missing, StackId,
    StreamId, WarningKind,
};
use crate::replay::SnapshotBuilder;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where the log's own blocks lie.
const PLACES_FROM: u64 = 1 << 44;
/// Where what is older than the log lies.
const OLDER_FROM: u64 = 1 << 12;
/// Frames of a stack at most: sequences behind sequences behind sequences.
const DEEPEST: usize = 64;

/// A block by its group and hash.
type Key = (i128, StringId);

/// The cache of one rank on one tier.
#[derive(Debug, Default)]
struct Cache {
    ordinal: i32,
    log: KvLog,
    /// Live blocks by hash, the oldest first.
    live: FxHashMap<Key, VecDeque<u32>>,
    /// The latest block of each hash, live or not.
    latest: FxHashMap<Key, u32>,
    /// The place of each live block.
    places: BTreeMap<u32, u64>,
    free: BTreeSet<u64>,
    next: u64,
    next_older: u64,
    /// The stack of each sequence.
    stacks: Vec<StackId>,
    frames: Vec<Vec<FrameId>>,
}

/// What takes records.
pub(super) struct Filling<'b> {
    builder: &'b mut SnapshotBuilder,
    /// By rank and tier; the GPU's is named by the empty text.
    caches: BTreeMap<(i128, String), Cache>,
    others: i32,
    older: u64,
    untimed: bool,
}

impl<'b> Filling<'b> {
    pub(super) fn new(builder: &'b mut SnapshotBuilder) -> Self {
        Self { builder, caches: BTreeMap::new(), others: HOST, older: 0, untimed: false }
    }

    /// A record that cannot be used.
    pub(super) fn bad(&mut self, what: impl FnOnce() -> String) {
        self.builder.warnings.push(WarningKind::BadRow, what);
    }

    /// The log ends inside a record.
    pub(super) fn cut(&mut self, offset: u64, place: &str) {
        neighbour::cut(&mut self.builder.warnings, offset, place);
    }

    pub(super) fn record(&mut self, record: &Value, place: &dyn Fn() -> String) {
        if let Err(why) = events::batches(record, &mut |batch| self.batch(&batch, place)) {
            self.bad(|| format!("{}: {why}", place()));
        }
    }

    fn batch(&mut self, batch: &Batch<'_>, place: &dyn Fn() -> String) {
        let micros = batch.seconds.map(|seconds| (seconds * 1e6).round()).filter(|micros| micros.abs() < 9.0e18);
        let time_us = micros.map(|micros| micros as i64);
        self.untimed |= time_us.is_none();
        let rank = batch.rank.unwrap_or(0);
        for (row, value) in batch.events.iter().enumerate() {
            let done = events::event(value).and_then(|event| match event {
                Event::Stored(stored) => self.stored(rank, &stored, time_us),
                Event::Removed { hashes, medium, group } => {
                    self.removed(rank, medium, group.unwrap_or(0), hashes, time_us);
                    Ok(())
                }
                Event::Cleared => {
                    self.cleared(rank, time_us);
                    Ok(())
                }
            });
            if let Err(why) = done {
                self.bad(|| format!("{}, event {row} of its batch: {why}", place()));
            }
        }
    }

    /// The key of a hash: numbers and texts as they are, bytes in hexadecimal.
    fn hash(&mut self, hash: &Value) -> StringId {
        let text = match hash {
            Value::Int(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Value::Float(number) => {
                self.builder.warnings.push(WarningKind::Note, || {
                    "block hashes beyond 64 bits stand in the JSON as numbers; they are told apart by their first 53 bits"
                        .to_owned()
                });
                format!("{number:e}")
            }
            Value::Nothing | Value::Truth(_) | Value::List(_) | Value::Map(_) => String::new(),
        };
        self.builder.stacks.strings.intern(&text)
    }

    fn cache(&mut self, rank: i128, medium: Option<&str>) -> (i128, String) {
        let tier = medium.filter(|medium| !medium.eq_ignore_ascii_case("gpu")).unwrap_or("").to_owned();
        let key = (rank, tier);
        if !self.caches.contains_key(&key) {
            // Ranks are devices by their number; a tier beside them has no number of PyTorch's.
            let ordinal = match i32::try_from(rank).ok().filter(|rank| 0 <= *rank && key.1.is_empty()) {
                Some(rank) => rank,
                None => {
                    self.others -= 1;
                    self.others + 1
                }
            };
            let log = KvLog { block_bytes: self.builder.block_bytes, ..KvLog::default() };
            let cache = Cache { ordinal, log, next: PLACES_FROM, next_older: OLDER_FROM, ..Cache::default() };
            self.caches.insert(key.clone(), cache);
        }
        key
    }

    fn stored(&mut self, rank: i128, stored: &Stored<'_>, time_us: Option<i64>) -> Result<(), String> {
        let Stored { hashes, parent, tokens, block_size, medium, group, lora } = stored;
        let group = group.unwrap_or(0);
        let keys: Vec<Key> = hashes.iter().map(|hash| (group, self.hash(hash))).collect();
        let parent = parent.map(|parent| (group, self.hash(parent)));
        let full = (*block_size as usize).saturating_mul(keys.len());
        let least = full.saturating_sub(*block_size as usize);
        // Tiers that hold copies name no tokens: then nothing is known of how full their blocks are.
        let told = 0 < *tokens && 0 < *block_size;
        if told && (full < *tokens || *tokens <= least) && !keys.is_empty() {
            let (tokens, blocks) = (*tokens, keys.len());
            self.builder.warnings.push(WarningKind::BadField, || {
                format!("{tokens} tokens in {} of {block_size} each", counted(blocks as u64, "block"))
            });
        }
        let cache_key = self.cache(rank, *medium);
        let Self { builder, caches, .. } = self;
        let Some(cache) = caches.get_mut(&cache_key) else { return Ok(()) };
        let from = builder.device(cache.ordinal).trace.len() as u32;
        let mut behind = match parent {
            None => KvParent::Root,
            Some(key) => {
                let live = cache.live.get(&key).and_then(|rows| rows.back());
                live.or(cache.latest.get(&key)).map_or(KvParent::Older, |row| KvParent::Block(*row))
            }
        };
        let mut left = *tokens;
        for key in keys {
            let inside = if told { left.min(*block_size as usize) as u32 } else { 0 };
            left -= left.min(inside as usize);
            let row = cache.store(builder, key, behind, lora.as_deref(), time_us)?;
            let block = &mut cache.log.blocks[row as usize];
            (block.tokens, block.capacity) = (inside, if told { *block_size } else { 0 });
            behind = KvParent::Block(row);
        }
        let to = builder.device(cache.ordinal).trace.len() as u32;
        cache.log.steps.push(KvStep { deed: KvDeed::Stored, events: from..to });
        Ok(())
    }

    fn removed(&mut self, rank: i128, medium: Option<&str>, group: i128, hashes: &[Value], time_us: Option<i64>) {
        let keys: Vec<Key> = hashes.iter().map(|hash| (group, self.hash(hash))).collect();
        let cache_key = self.cache(rank, medium);
        let Self { builder, caches, older, .. } = self;
        let Some(cache) = caches.get_mut(&cache_key) else { return };
        let from = builder.device(cache.ordinal).trace.len() as u32;
        for key in keys {
            match cache.live.get_mut(&key).and_then(VecDeque::pop_front) {
                Some(row) => cache.free(builder, row, time_us),
                None => {
                    // The log begins later than this block.
                    let size = cache.log.unit();
                    let address = cache.next_older;
                    cache.next_older = address.saturating_add(size);
                    *older += 1;
                    let (stream, stack) = (StreamId::DEFAULT, StackId::ABSENT);
                    let event = Plain { action: Action::FreeRequested, address, size, stream, time_us, stack };
                    neighbour::push(builder.device(cache.ordinal), event);
                }
            }
        }
        let to = builder.device(cache.ordinal).trace.len() as u32;
        cache.log.steps.push(KvStep { deed: KvDeed::Removed, events: from..to });
    }

    /// Everything of a rank goes, on all tiers: the event names none.
    fn cleared(&mut self, rank: i128, time_us: Option<i64>) {
        self.cache(rank, None);
        let Self { builder, caches, .. } = self;
        for (_, cache) in caches.range_mut((rank, String::new())..).take_while(|((of, _), _)| *of == rank) {
            let from = builder.device(cache.ordinal).trace.len() as u32;
            let rows: Vec<u32> = cache.places.keys().copied().collect();
            cache.live.clear();
            for row in rows {
                cache.free(builder, row, time_us);
            }
            let to = builder.device(cache.ordinal).trace.len() as u32;
            cache.log.steps.push(KvStep { deed: KvDeed::Cleared, events: from..to });
            if time_us.is_some() {
                let name = builder.stacks.strings.intern("AllBlocksCleared");
                for stage in [MarkStage::Start, MarkStage::End] {
                    builder.marks.push(AnnotationMark { name, stage, device: cache.ordinal, time_us });
                }
            }
        }
    }

    /// Hands everything to the builder; the error is the reason why there is nothing.
    pub(super) fn finish(self) -> Result<(), String> {
        let Self { builder, caches, older, untimed, .. } = self;
        let ranks: BTreeSet<i128> = caches.keys().map(|(rank, _)| *rank).collect();
        let used = |cache: &Cache| !cache.log.steps.is_empty();
        if !caches.values().any(used) {
            let bad = builder.warnings.iter().find(|(kind, ..)| *kind == WarningKind::BadRow);
            let first = bad.map_or_else(
                || "it holds no events".to_owned(),
                |(.., first)| format!("none of its records can be used; {first}"),
            );
            return Err(first);
        }
        if 0 < older {
            builder.warnings.push(WarningKind::Note, || {
                format!("the log removes {} that it did not store: it begins later than they", counted(older, "block"))
            });
        }
        for ((rank, tier), cache) in caches {
            if !used(&cache) {
                continue;
            }
            let mut name = if tier.is_empty() { "KV cache".to_owned() } else { format!("KV cache on {tier}") };
            if 1 < ranks.len() {
                name.push_str(&format!(", rank {rank}"));
            }
            let stored = cache.log.blocks.len() as u64;
            let device = builder.device(cache.ordinal);
            device.name = name;
            device.untold = untold(&cache.log, stored, untimed && !device.trace.has_times());
            device.kv = Some(cache.log);
        }
        Ok(())
    }
}

/// What a log of KV events never tells.
fn untold(log: &KvLog, stored: u64, untimed: bool) -> Vec<crate::model::Gap> {
    let mut gaps = Vec::new();
    if log.block_bytes.is_none() {
        gaps.push(neighbour::untold(
            Missing::Sizes,
            "How many bytes a block has is not in the log: each counts as one byte here, so read bytes as blocks. Say it with \
             --block-bytes SIZE.",
        ));
    }
    gaps.push(neighbour::untold(
        Missing::Addresses,
        &format!(
            "KV-cache events name blocks ({} were stored) by hash and not by place: each is shown at the lowest place that was free.",
            grouped(stored)
        ),
    ));
    gaps.push(neighbour::untold(
        Missing::Segments,
        "The pool that holds the blocks is not in the log: what is free of it is not known.",
    ));
    gaps.push(neighbour::untold(
        Missing::Stacks,
        "KV-cache events hold no stacks: the sequence a block belongs to, and those it is stored behind, stand in their place.",
    ));
    if untimed {
        gaps.push(neighbour::untold(Missing::Time, "The events of this log carry no time: only their order is known."));
    }
    gaps
}

impl Cache {
    /// Begins the life of a block.
    fn store(
        &mut self,
        builder: &mut SnapshotBuilder,
        key: Key,
        parent: KvParent,
        lora: Option<&str>,
        time_us: Option<i64>,
    ) -> Result<u32, String> {
        let row = self.log.blocks.len() as u32;
        let size = self.log.unit();
        let place = match self.free.pop_first() {
            Some(place) => place,
            None => {
                let place = self.next;
                self.next = place.checked_add(size).ok_or("blocks of this size do not fit into 64 bits")?;
                place
            }
        };
        let (sequence, depth) = self.sequence_of(builder, row, parent, lora);
        let twice = self.live.get(&key).is_some_and(|rows| !rows.is_empty());
        let again = !twice && self.latest.contains_key(&key);
        let plain = Plain {
            action: Action::Alloc,
            address: place,
            size,
            stream: StreamId::DEFAULT,
            time_us,
            stack: self.stacks[sequence as usize],
        };
        let event = neighbour::push(builder.device(self.ordinal), plain);
        let (tokens, capacity) = (0, 0);
        self.log.blocks.push(KvBlock { event, hash: key.1, parent, tokens, capacity, sequence, depth, again, twice });
        self.live.entry(key).or_default().push_back(row);
        self.latest.insert(key, row);
        self.places.insert(row, place);
        Ok(row)
    }

    /// The sequence a new block belongs to, and how deep in its text it is.
    fn sequence_of(&mut self, builder: &mut SnapshotBuilder, row: u32, parent: KvParent, lora: Option<&str>) -> (u32, u32) {
        let (behind, shared, depth) = match parent {
            KvParent::Root | KvParent::Older => (None, 0, 0),
            KvParent::Block(parent) => {
                let block = self.log.blocks[parent as usize];
                let sequence = &mut self.log.sequences[block.sequence as usize];
                if sequence.last == parent && self.places.contains_key(&parent) {
                    (sequence.last, sequence.own) = (row, sequence.own + 1);
                    return (block.sequence, block.depth + 1);
                }
                (Some(block.sequence), block.depth + 1, block.depth + 1)
            }
        };
        let sequence = self.log.sequences.len() as u32;
        self.log.sequences.push(KvSequence { first: row, last: row, own: 1, shared, behind });
        let outer = behind.map_or(&[][..], |behind| self.frames[behind as usize].as_slice());
        let strings = &mut builder.stacks.strings;
        let name = match shared {
            0 => format!("sequence {sequence}"),
            shared => format!("sequence {sequence}, behind {}", counted(u64::from(shared), "block")),
        };
        let frame = Frame { name: strings.intern(&name), filename: strings.intern("KV cache"), line: 0 };
        let root = lora.filter(|_| behind.is_none()).map(|lora| Frame {
            name: strings.intern(&format!("LoRA {lora}")),
            filename: strings.intern("KV cache"),
            line: 0,
        });
        let own = builder.stacks.intern_frame(frame);
        let root = root.map(|root| builder.stacks.intern_frame(root));
        // The outermost are kept: they are what is shared.
        let kept = outer.len().saturating_sub(DEEPEST - 1);
        let frames: Vec<FrameId> = std::iter::once(own).chain(outer[kept..].iter().copied()).chain(root).collect();
        self.stacks.push(builder.stacks.intern(&frames));
        self.frames.push(frames);
        (sequence, depth)
    }

    /// Ends the life of a block.
    fn free(&mut self, builder: &mut SnapshotBuilder, row: u32, time_us: Option<i64>) {
        let address = self.places.remove(&row).unwrap_or(PLACES_FROM);
        self.free.insert(address);
        let (size, stream, stack) = (self.log.unit(), StreamId::DEFAULT, StackId::ABSENT);
        neighbour::push(
            builder.device(self.ordinal),
            Plain { action: Action::FreeRequested, address, size, stream, time_us, stack },
        );
    }
}
