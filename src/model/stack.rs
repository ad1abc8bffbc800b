//! Stacks and their frames, each distinct one once.
//!
//! A stack is a list of frames, innermost first, as in the file. Row 0 is the empty stack.
//! Sharing is the point: a file with 600 000 frame references may hold 354 distinct frames.

use crate::base::{Column, StringId, StringTable};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

crate::define_id! {
    /// One distinct frame.
    FrameId
}
crate::define_id! {
    /// One distinct stack.
    StackId
}

impl StackId {
    /// A stack without frames, as PyTorch writes for what has no Python stack (`frames: []`).
    pub const EMPTY: StackId = StackId(0);
    /// No stack was kept at all (the key is absent).
    pub const ABSENT: StackId = StackId(u32::MAX);
}

/// One line of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name.
    pub name: StringId,
    /// File, as written.
    pub filename: StringId,
    /// Line, or a byte offset in C++ frames of PyTorch 2.15; −1 is written by some tools.
    pub line: i64,
}

/// All stacks of one snapshot.
#[derive(Clone)]
pub struct StackTable {
    /// The texts that frames and everything else point to.
    pub strings: StringTable,
    frames: Column<FrameId, Frame>,
    frame_index: HashTable<FrameId>,
    ends: Vec<u32>,
    slots: Vec<FrameId>,
    stack_index: HashTable<u32>,
    /// Extra keys of frames (`fx_node_op` …), sorted by frame once the snapshot is built.
    frame_extras: Vec<(FrameId, StringId, StringId)>,
    hasher: DefaultHashBuilder,
}

impl Default for StackTable {
    fn default() -> Self {
        let mut table = Self {
            strings: StringTable::default(),
            frames: Column::new(),
            frame_index: HashTable::new(),
            ends: Vec::new(),
            slots: Vec::new(),
            stack_index: HashTable::new(),
            frame_extras: Vec::new(),
            hasher: DefaultHashBuilder::default(),
        };
        table.intern(&[]);
        table
    }
}

impl StackTable {
    /// The id of a frame, new or known.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let hash = self.hasher.hash_one(frame);
        if let Some(&id) = self.frame_index.find(hash, |&id| self.frames[id] == frame) {
            return id;
        }
        let id = self.frames.push(frame);
        let (frames, hasher) = (&self.frames, &self.hasher);
        self.frame_index.insert_unique(hash, id, |&id| hasher.hash_one(frames[id]));
        id
    }
    /// A new frame that equals no other, for frames that differ only in extra keys.
    pub fn push_frame_with_extras(&mut self, frame: Frame, extras: &[(StringId, StringId)]) -> FrameId {
        if extras.is_empty() {
            return self.intern_frame(frame);
        }
        let id = self.frames.push(frame);
        self.frame_extras.extend(extras.iter().map(|(key, value)| (id, *key, *value)));
        id
    }
    /// The id of a stack, innermost frame first, new or known.
    pub fn intern(&mut self, stack: &[FrameId]) -> StackId {
        let hash = self.hasher.hash_one(stack);
        let (ends, slots) = (&self.ends, &self.slots);
        if let Some(&id) = self.stack_index.find(hash, |&id| frames_of(ends, slots, id) == stack) {
            return StackId(id);
        }
        let id = self.ends.len() as u32;
        self.slots.extend_from_slice(stack);
        self.ends.push(self.slots.len() as u32);
        let (ends, slots, hasher) = (&self.ends, &self.slots, &self.hasher);
        self.stack_index.insert_unique(hash, id, |&id| hasher.hash_one(frames_of(ends, slots, id)));
        StackId(id)
    }
    /// The frames of a stack, innermost first; none for [`StackId::ABSENT`].
    pub fn frames(&self, stack: StackId) -> &[FrameId] {
        if (stack.0 as usize) < self.ends.len() { frames_of(&self.ends, &self.slots, stack.0) } else { &[] }
    }
    /// Whether two stacks read alike: frames that differ only in extra keys have ids of their own, and all stacks
    /// without frames are one.
    pub fn are_alike(&self, a: StackId, b: StackId) -> bool {
        if a == b {
            return true;
        }
        let (a, b) = (self.frames(a), self.frames(b));
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || self.frames[*a] == self.frames[*b])
    }
    /// A frame.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id]
    }
    /// A frame's function name.
    pub fn function(&self, id: FrameId) -> &str {
        self.strings.get(self.frames[id].name)
    }
    /// A frame's file as written.
    pub fn file(&self, id: FrameId) -> &str {
        self.strings.get(self.frames[id].filename)
    }
    /// A frame in one line, as the command line's JSON has it: `file:line function`.
    pub fn line(&self, id: FrameId) -> String {
        format!("{}:{} {}", self.file(id), self.frames[id].line, self.function(id))
    }
    /// Extra keys of a frame with their values as text.
    pub fn extras(&self, id: FrameId) -> impl Iterator<Item = (&str, &str)> {
        let from = self.frame_extras.partition_point(|(frame, ..)| *frame < id);
        self.frame_extras[from..]
            .iter()
            .take_while(move |(frame, ..)| *frame == id)
            .map(|(_, key, value)| (self.strings.get(*key), self.strings.get(*value)))
    }
    /// All extra keys of frames: frame, key, value.
    pub fn all_extras(&self) -> impl Iterator<Item = (FrameId, StringId, StringId)> + '_ {
        self.frame_extras.iter().copied()
    }
    /// Gives texts other words, `alias` by id and text, and the keys of frames' extras those of `key`. Ids stay: equal
    /// texts stay equal and different ones different, whatever the words.
    pub fn rename(&mut self, alias: impl Fn(StringId, &str) -> Option<String>, key: impl Fn(StringId, &str) -> String) {
        let old = std::mem::take(&mut self.strings);
        for row in 0..old.len() as u32 {
            let text = old.get(StringId(row));
            let mut word = alias(StringId(row), text).unwrap_or_else(|| text.to_owned());
            // A text of the file may look like the alias of another.
            while self.strings.find(&word).is_some() {
                word.push('_');
            }
            self.strings.intern(&word);
        }
        for (_, name, _) in &mut self.frame_extras {
            let kept = key(*name, old.get(*name));
            *name = self.strings.intern(&kept);
        }
    }
    /// Number of distinct stacks, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Never true: the empty stack is always there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// Number of distinct frames.
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }
    /// Total frame slots of all distinct stacks, to bound memory while reading.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.strings.heap_bytes()
            + self.frames.heap_bytes()
            + (self.ends.capacity() + self.slots.capacity()) * 4
            + (self.frame_index.capacity() + self.stack_index.capacity()) * 5
            + self.frame_extras.capacity() * 12
    }
}

impl std::fmt::Debug for StackTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StackTable({} stacks, {} frames)", self.len(), self.frame_count())
    }
}

fn frames_of<'a>(ends: &[u32], slots: &'a [FrameId], id: u32) -> &'a [FrameId] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &slots[start as usize..ends[id] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one() {
        let mut table = StackTable::default();
        let name = table.strings.intern("forward");
        let file = table.strings.intern("mlp.py");
        let a = table.intern_frame(Frame { name, filename: file, line: 41 });
        let b = table.intern_frame(Frame { name, filename: file, line: 42 });
        assert_eq!(table.intern_frame(Frame { name, filename: file, line: 41 }), a);
        let one = table.intern(&[a, b]);
        let two = table.intern(&[b, a]);
        assert_ne!(one, two);
        assert_eq!(table.intern(&[a, b]), one);
        assert_eq!(table.intern(&[]), StackId::EMPTY);
        assert_eq!(table.frames(two), [b, a]);
        assert_eq!(table.frames(StackId::ABSENT), []);
        assert_eq!(table.line(a), "mlp.py:41 forward");
    }
}
