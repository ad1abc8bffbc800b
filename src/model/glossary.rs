//! The words of the field, each explained in a sentence. Tooltips, legends and the glossary page all say it from here.

/// A word with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The word.
    pub word: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

macro_rules! terms {
    ($($name:ident, $word:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $meaning;)*
        /// All words, those that build on others after them.
        pub const TERMS: &[Term] = &[$(Term { word: $word, meaning: $name }),*];
    };
}

terms! {
    SEGMENT, "segment", "A range of addresses the allocator took from the driver with one call; blocks are cut from it.";
    BLOCK, "block", "A part of a segment that was handed to the program in answer to one request.";
    GAP, "gap", "Free memory between blocks inside a segment; a request fits into one gap or none.";
    POOL, "pool", "Segments that serve only certain requests: small ones, large ones, or those of one CUDA graph.";
    PRIVATE_POOL, "private pool", "A pool of its own for CUDA graphs or a MemPool; other requests never get its free memory.";
    STREAM, "stream", "A queue of work on the device; a free block serves only the stream its segment was taken for.";
    EXPANDABLE_SEGMENT, "expandable segment", "A reserved range of addresses to which physical pages are mapped as it grows.";
    RESERVED, "reserved", "Memory taken from the driver: the sum of all segments.";
    DEVICE_USE, "whole device", "Memory of the card in use by whomever, as nvidia-smi shows it: more than is reserved, by contexts, loaded code, other processes and the driver itself.";
    ALLOCATED, "allocated", "Blocks in use, rounding included.";
    ACTIVE, "active", "Blocks in use, and blocks given back that still wait for another stream.";
    REQUESTED, "requested", "What the program asked for, before rounding.";
    PENDING_FREE, "pending free", "Given back by the program, still waiting for another stream.";
    FREE, "free", "Reserved but not in use.";
    LARGEST_FREE, "largest free block", "The largest gap: no request above it fits without a new segment.";
    LARGEST_REQUEST, "largest request", "The largest request that would be served without a new segment: a gap of the right pool and stream, after rounding.";
    INACTIVE_SPLIT, "inactive split", "Gaps in segments that blocks in use keep from going back to the driver.";
    INTERNAL, "rounding and remainders", "What rounding added to blocks and what was not split off: active less requested.";
    EXTERNAL, "external fragmentation", "1 − largest gap / free: 0 % is one gap, near 100 % many small ones.";
    INTERNAL_FRAGMENTATION, "internal fragmentation", "Memory inside blocks that nobody asked for: rounding, and remainders too small to split off.";
    ROUNDING, "lost to rounding", "What rounding up to whole units added to the blocks.";
    PINNED, "pin", "A live block that keeps its whole segment from going back to the driver.";
    RELEASABLE, "could go back to the driver", "Segments that hold no block, and pages of expandable ones: what empty_cache() would give back.";
    SEGMENTS, "segments", "Ranges of memory taken from the driver.";
    ACTIVE_BLOCKS, "active blocks", "Blocks in use or pending free.";
    OOM, "out of memory", "A request that found no gap, and for which the driver had no room for a new segment either.";
    DEVICE_FREE, "device free", "What the driver still had to give when the request failed.";
    CAPACITY, "capacity", "All memory of the device, known from what was reserved and left when a request failed.";
    CHURN, "churn", "Memory allocated and freed again within the window.";
    LEAK_SUSPECT, "leak suspect", "A stack whose live memory never shrinks from one compared moment to the next.";
    SPARE, "spare", "What is left of the memory the allocator can hold where most is reserved.";
    RETRY, "retry", "A request for which the allocator gave its cache back to the driver and asked once more.";
    POSITION, "event", "An entry of the recording; the cursor stands between two of them.";
}

/// The meaning of a word, in whichever case it is written.
pub fn meaning(word: &str) -> Option<&'static str> {
    TERMS.iter().find(|term| term.word.eq_ignore_ascii_case(word)).map(|term| term.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_stands_once_with_one_sentence() {
        for (i, term) in TERMS.iter().enumerate() {
            assert!(TERMS[..i].iter().all(|other| other.word != term.word), "{} twice", term.word);
            assert!(term.meaning.ends_with('.') && !term.meaning.contains(". "), "{}", term.word);
            assert_eq!(meaning(&term.word.to_uppercase()), Some(term.meaning));
        }
        assert_eq!(meaning("no such word"), None);
    }
}
