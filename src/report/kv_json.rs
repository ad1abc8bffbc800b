//! A paged KV cache in the JSON of the command line.
//!
//! Always: its figures are those of the window and the page. Its names are a promise to scripts: add freely, rename
//! nothing.

use crate::simulator::contiguous::KvCompared;
use serde::Serialize;

/// A paged KV cache. `*_blocks` and what is counted are numbers of blocks; bytes are null where nobody said what a block
/// has.
#[derive(Debug, Serialize)]
pub struct KvInfo {
    block_bytes: Option<u64>,
    block_tokens: u32,
    stored: u64,
    removed: u64,
    cleared: u64,
    older: u64,
    stored_again: u64,
    stored_twice: u64,
    reused_by_prefix: u64,
    sequences: u64,
    peak_blocks: u64,
    peak_bytes: Option<u64>,
    peak_event: i64,
    end_blocks: u64,
    shared_peak_blocks: u64,
    empty_tokens_at_peak: u64,
    contiguous_written_blocks: u64,
    contiguous_reserved_blocks: u64,
    contiguous_blocks: u64,
    saved_blocks: i128,
    saved_bytes: Option<i128>,
}

impl KvInfo {
    /// Of one device.
    pub fn of(compared: &KvCompared) -> KvInfo {
        let KvCompared { paged, contiguous } = compared;
        let unit = paged.unit();
        let (at, peak) = paged.peak();
        let most = |curve: &crate::analysis::Curve| curve.peak().1 / unit;
        KvInfo {
            block_bytes: paged.block_bytes,
            block_tokens: paged.block_tokens,
            stored: paged.stored,
            removed: paged.removed,
            cleared: paged.cleared,
            older: paged.older,
            stored_again: paged.again,
            stored_twice: paged.twice,
            reused_by_prefix: paged.reused,
            sequences: paged.sequences.len() as u64,
            peak_blocks: peak / unit,
            peak_bytes: paged.block_bytes.map(|_| peak),
            peak_event: at.event_number(),
            end_blocks: paged.held.at(paged.held.last()) / unit,
            shared_peak_blocks: most(&paged.shared),
            empty_tokens_at_peak: paged.empty_tokens.at(at),
            contiguous_written_blocks: most(&contiguous.written),
            contiguous_reserved_blocks: most(&contiguous.reserved),
            contiguous_blocks: most(&contiguous.end),
            saved_blocks: compared.saved() / i128::from(unit),
            saved_bytes: paged.block_bytes.map(|_| compared.saved()),
        }
    }
}
