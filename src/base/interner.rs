//! Equal texts get equal ids; ids are given in the order of first appearance.
//!
//! A snapshot names the same files and functions millions of times; here each text stands once.
//! The hash is seeded per run, so a hostile file cannot aim for collisions; ids do not depend on it.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

crate::define_id! {
    /// One distinct text of a snapshot.
    StringId
}

/// All texts of one snapshot, each once, in one allocation.
#[derive(Clone, Default)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl StringTable {
    /// The id of a text, new or known.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hasher.hash_one(text);
        let (ends, all) = (&self.ends, &self.text);
        if let Some(&id) = self.index.find(hash, |&id| slice(all, ends, id) == text) {
            return StringId(id);
        }
        let id = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (ends, all, hasher) = (&self.ends, &self.text, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(slice(all, ends, id)));
        StringId(id)
    }
    /// The id of a text that is known already.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = self.hasher.hash_one(text);
        self.index.find(hash, |&id| slice(&self.text, &self.ends, id) == text).map(|&id| StringId(id))
    }
    /// The text of an id of this table; the empty text for an id of another one.
    pub fn get(&self, id: StringId) -> &str {
        if (id.0 as usize) < self.ends.len() { slice(&self.text, &self.ends, id.0) } else { "" }
    }
    /// Number of distinct texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether there is no text yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>() + self.index.capacity() * 5
    }
}

impl std::fmt::Debug for StringTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StringTable({} texts)", self.ends.len())
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &text[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id_and_read_back() {
        let mut table = StringTable::default();
        let ids: Vec<_> = ["a", "", "β", "a", "", "forward"].map(|t| table.intern(t)).to_vec();
        assert_eq!(ids, [0, 1, 2, 0, 1, 3].map(StringId));
        assert_eq!(table.get(ids[2]), "β");
        assert_eq!(table.get(ids[1]), "");
        assert_eq!(table.find("forward"), Some(StringId(3)));
        assert_eq!(table.find("backward"), None);
    }
}
