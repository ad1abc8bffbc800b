//! Where every byte of the device is at one moment.
//!
//! Always: live, rounding, pending and the three kinds of free add up to what is reserved (where no block lies outside
//! the segments the file names); with the card's size known, all parts add up to it, unless they are more than it holds,
//! which a finding then says.

/// Bytes of a device by what they are good for; the names are those of `why --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accounting {
    /// What the program asked for, over blocks in use.
    pub live_requested: u64,
    /// What rounding added to them and what was not split off.
    pub rounding: u64,
    /// Given back, still waiting for another stream.
    pub pending_free: u64,
    /// Gaps that could serve the request; where nothing failed, all gaps of the default pool.
    pub free_usable: u64,
    /// Gaps in the request's own pool, half and stream that are smaller than it.
    pub free_too_small: u64,
    /// Gaps of other pools, halves and streams, and such that a setting keeps from the request.
    pub free_trapped: u64,
    /// Held by others on the card (contexts, libraries, other processes); none where the card's size is unknown.
    pub outside: Option<u64>,
    /// What the driver had left; none where no failure tells.
    pub device_free: Option<u64>,
    /// The card's size, if known.
    pub capacity: Option<u64>,
    /// The source tells nothing of segments: what is free of them is not known.
    pub free_unknown: bool,
}

impl Accounting {
    /// Blocks in use.
    pub fn live(&self) -> u64 {
        self.live_requested.saturating_add(self.rounding)
    }
    /// All gaps.
    pub fn free(&self) -> u64 {
        self.free_usable.saturating_add(self.free_too_small).saturating_add(self.free_trapped)
    }
    /// All that the allocator holds.
    pub fn held(&self) -> u64 {
        self.live().saturating_add(self.pending_free).saturating_add(self.free())
    }
    /// All parts.
    pub fn sum(&self) -> u64 {
        self.held().saturating_add(self.outside.unwrap_or(0)).saturating_add(self.device_free.unwrap_or(0))
    }
    /// The card's size, else all that the allocator could have had: what it holds and what the driver had left.
    pub fn within(&self) -> u64 {
        self.capacity.unwrap_or_else(|| self.held().saturating_add(self.device_free.unwrap_or(0)))
    }
    /// The parts by name, in the order of the bar.
    pub fn parts(&self) -> [(&'static str, Option<u64>); 8] {
        let free = |bytes| (!self.free_unknown).then_some(bytes);
        [
            ("live_requested", Some(self.live_requested)),
            ("rounding", Some(self.rounding)),
            ("pending_free", Some(self.pending_free)),
            ("free_usable", free(self.free_usable)),
            ("free_too_small", free(self.free_too_small)),
            ("free_trapped", free(self.free_trapped)),
            ("outside", self.outside),
            ("device_free", self.device_free),
        ]
    }
}
