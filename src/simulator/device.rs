//! What the driver answers: whether there is memory, and at which address.
//!
//! Always in the model: growth succeeds exactly while what is reserved stays within the capacity; new segments get
//! the lowest address at which they fit, in pages of 2 MiB.

use std::collections::BTreeMap;

/// Who gives memory to the allocator. Sizes and addresses are bytes; `reserved` is what the allocator holds already.
pub trait Driver {
    /// `cudaMalloc`: the address, or none where there is no memory.
    fn allocate(&mut self, size: u64, reserved: u64) -> Option<u64>;
    /// `cudaFree`.
    fn release(&mut self, address: u64, size: u64);
    /// Reserves a range of addresses for an expandable segment: its base and its size.
    fn reserve(&mut self, granule: u64) -> Option<(u64, u64)>;
    /// Maps memory into a reserved range; false where there is none.
    fn map(&mut self, address: u64, size: u64, reserved: u64) -> bool;
    /// Takes memory out of a reserved range.
    fn unmap(&mut self, address: u64, size: u64);
    /// A segment that is there already: of `cudaMalloc`, or a mapped part of a reserved range.
    fn hold(&mut self, address: u64, size: u64, expandable: bool);
    /// From here on memory has no end.
    fn lift(&mut self);
}

/// Where segments begin.
const SEGMENTS_FROM: u64 = 0x7000_0000_0000;
/// Where reserved ranges begin: behind all segments, for ranges given back are not used again.
const RANGES_FROM: u64 = 0x8000_0000_0000;
/// Unit of addresses and of memory.
const PAGE: u64 = 2 << 20;
/// Addresses between two reserved ranges.
const BETWEEN: u64 = 32 * PAGE;
/// The card whose reserved ranges are as large where its size is not known: larger than any.
const UNKNOWN_CARD: u64 = 1 << 40;

/// Addresses reserved for an expandable segment on a card of `total` bytes, in granules: an eighth more than it holds.
pub fn range_size(total: Option<u64>, granule: u64) -> u64 {
    let total = total.unwrap_or(UNKNOWN_CARD);
    total.saturating_add(total / 8).checked_next_multiple_of(granule).unwrap_or(UNKNOWN_CARD)
}

/// Segments of this size and more are given downwards by [`Placement::BySize`].
const LARGE: u64 = 20 << 20;

/// Where a driver puts new segments. Only their order decides anything, and only up to PyTorch 2.11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// At the lowest address at which they fit.
    #[default]
    Lowest,
    /// Each behind all that were ever made: what was given back is not used again.
    Ascending,
    /// From 20 MiB on at the highest address at which they fit, smaller ones at the lowest: what drivers mostly do.
    BySize,
}

/// All of them.
pub const PLACEMENTS: [Placement; 3] = [Placement::Lowest, Placement::Ascending, Placement::BySize];

/// A card of a fixed capacity.
#[derive(Clone, Debug)]
pub struct Vram {
    /// The most the allocator may hold, bytes; none: no end.
    capacity: Option<u64>,
    /// Size of the card, bytes: reserved ranges follow from it.
    total: Option<u64>,
    placement: Placement,
    segments: BTreeMap<u64, u64>,
    /// Where segments begin.
    from: u64,
    /// Behind the last byte ever given.
    last: u64,
    next_range: u64,
}

impl Vram {
    /// A card that holds `capacity` bytes for the allocator, of `total` bytes in all.
    pub fn new(capacity: Option<u64>, total: Option<u64>, placement: Placement) -> Vram {
        let segments = BTreeMap::new();
        Vram { capacity, total, placement, segments, from: SEGMENTS_FROM, last: SEGMENTS_FROM, next_range: RANGES_FROM }
    }
    fn has_room(&self, size: u64, reserved: u64) -> bool {
        self.capacity.is_none_or(|capacity| reserved.saturating_add(size) <= capacity)
    }
    /// The lowest address at which so many bytes fit.
    fn lowest(&self, size: u64) -> u64 {
        let mut at = self.from;
        for (address, length) in &self.segments {
            if size <= address.saturating_sub(at) {
                break;
            }
            at = at.max(address + length);
        }
        at
    }
    /// The highest address below all reserved ranges at which so many bytes fit.
    fn highest(&self, size: u64) -> Option<u64> {
        let mut end = RANGES_FROM;
        for (address, length) in self.segments.iter().rev() {
            if size <= end.saturating_sub(address + length) {
                break;
            }
            end = *address;
        }
        end.checked_sub(size)
    }
}

impl Driver for Vram {
    fn allocate(&mut self, size: u64, reserved: u64) -> Option<u64> {
        if !self.has_room(size, reserved) {
            return None;
        }
        let pages = size.checked_next_multiple_of(PAGE)?;
        let at = match self.placement {
            Placement::Lowest => self.lowest(pages),
            Placement::Ascending => self.last,
            Placement::BySize if pages < LARGE => self.lowest(pages),
            Placement::BySize => self.highest(pages)?,
        };
        self.last = self.last.max(at.checked_add(pages)?);
        self.segments.insert(at, pages);
        Some(at)
    }
    fn release(&mut self, address: u64, _size: u64) {
        self.segments.remove(&address);
    }
    fn reserve(&mut self, granule: u64) -> Option<(u64, u64)> {
        let size = range_size(self.total, granule);
        let base = self.next_range;
        let pages = size.checked_next_multiple_of(PAGE)?;
        self.next_range = base.checked_add(pages)?.checked_add(BETWEEN)?;
        Some((base, size))
    }
    fn map(&mut self, _address: u64, size: u64, reserved: u64) -> bool {
        self.has_room(size, reserved)
    }
    fn unmap(&mut self, _address: u64, _size: u64) {}
    fn hold(&mut self, address: u64, size: u64, expandable: bool) {
        let end = address.saturating_add(size);
        if expandable {
            let range = end.saturating_add(range_size(self.total, PAGE));
            self.next_range = self.next_range.max(range.checked_next_multiple_of(PAGE).unwrap_or(range));
            return;
        }
        // New segments come among those that are there.
        self.from = if self.segments.is_empty() { address } else { self.from.min(address) };
        self.last = if self.segments.is_empty() { end } else { self.last.max(end) };
        self.segments.insert(address, size.checked_next_multiple_of(PAGE).unwrap_or(size));
    }
    fn lift(&mut self) {
        self.capacity = None;
    }
}
