//! The allocator's settings and the rules they imply: rounding, pool half, segment size, splitting.
//!
//! Formulas are those of PyTorch's `CUDACachingAllocator.cpp` (`round_size`, `get_pool`,
//! `get_allocation_size`, `should_split`). The replay infers block sizes by them.

use crate::model::pool::SizeClass;

/// Smallest block and unit of rounding.
pub const MIN_BLOCK: u64 = 512;
/// Largest rounded request of the small pool, inclusive.
pub const SMALL_LIMIT: u64 = 1 << 20;
/// Segment size and granule of the small pool.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// Segment size and granule of the large pool unless `large_segment_size_mb` says otherwise.
pub const LARGE_SEGMENT: u64 = 20 << 20;
/// Requests from this size on get a segment of their own size.
pub const LARGE_OWN_SEGMENT: u64 = 10 << 20;
/// Unit to which segments of their own size are rounded.
pub const LARGE_ROUND: u64 = 2 << 20;

/// `PYTORCH_CUDA_ALLOC_CONF` as resolved, and whether the file stated it.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorSettings {
    /// The settings string as given, empty when none.
    pub conf: String,
    /// Whether the file states its settings (PyTorch 2.3 and later).
    pub stated: bool,
    /// Blocks of this size and more are never split; none: no limit.
    pub max_split_size: Option<u64>,
    /// Divisions between powers of two to which requests are rounded, by size class 1 MiB … 32 GiB; 0: off.
    pub roundup_power2_divisions: [u64; 16],
    /// Share of the memory limit at which cached blocks are collected; 0: off.
    pub garbage_collection_threshold: f64,
    /// Whether new memory is mapped into expandable segments (the setting at the dump).
    pub expandable_segments: bool,
    /// Segment size and granule of the large pool.
    pub large_segment_size: u64,
    /// How much larger than a request an unsplittable block may be.
    pub max_non_split_rounding: u64,
    /// Share of the device PyTorch may use, where the settings string says.
    pub per_process_memory_fraction: Option<f64>,
    /// Everything else the file states, as text, in the file's order.
    pub other: Vec<(String, String)>,
}

impl Default for AllocatorSettings {
    fn default() -> Self {
        Self {
            conf: String::new(),
            stated: false,
            max_split_size: None,
            roundup_power2_divisions: [0; 16],
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            large_segment_size: LARGE_SEGMENT,
            max_non_split_rounding: LARGE_SEGMENT,
            per_process_memory_fraction: None,
            other: Vec::new(),
        }
    }
}

impl AllocatorSettings {
    /// Takes what only the settings string holds (`large_segment_size_mb`, `max_non_split_rounding_mb`,
    /// `per_process_memory_fraction`) from `conf`. The rest of the string is resolved in the file already.
    pub fn resolve_conf(&mut self) {
        for pair in self.conf.split(',') {
            let Some((key, value)) = pair.split_once(':') else { continue };
            let mib = value.trim().parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20));
            match key.trim() {
                "large_segment_size_mb" => {
                    if let Some(size) = mib.filter(|size| LARGE_OWN_SEGMENT < *size) {
                        self.large_segment_size = size;
                        self.max_non_split_rounding = self.max_non_split_rounding.max(size);
                    }
                }
                "max_non_split_rounding_mb" => {
                    if let Some(size) = mib {
                        self.max_non_split_rounding = size;
                    }
                }
                "per_process_memory_fraction" => self.per_process_memory_fraction = value.trim().parse().ok(),
                _ => {}
            }
        }
    }
    /// The block size a request is rounded to, before anything is left unsplit (`round_size`).
    pub fn round(&self, requested: u64) -> u64 {
        if requested < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let class = (63 - requested.leading_zeros()).saturating_sub(20).min(15);
        let divisions = self.roundup_power2_divisions[class as usize];
        if 1 < divisions && MIN_BLOCK.saturating_mul(divisions) < requested {
            return round_power2_division(requested, divisions);
        }
        requested.checked_next_multiple_of(MIN_BLOCK).unwrap_or(u64::MAX)
    }
    /// Which half of its pool a rounded size is served from.
    pub fn class(rounded: u64) -> SizeClass {
        if rounded <= SMALL_LIMIT { SizeClass::Small } else { SizeClass::Large }
    }
    /// The largest request that a free block of `free` bytes in this half of its pool can serve, in bytes; 0 where
    /// it serves none. A block that fits to the byte passes every rule about oversize blocks (`get_free_block`).
    pub fn largest_request(&self, free: u64, class: SizeClass) -> u64 {
        let free = if class == SizeClass::Small { free.min(SMALL_LIMIT) } else { free };
        if free < MIN_BLOCK {
            return 0;
        }
        let power = 1u64 << (63 - free.leading_zeros());
        let divisions = self.roundup_power2_divisions[(63 - free.leading_zeros()).saturating_sub(20).min(15) as usize];
        let by_division = 1 < divisions && MIN_BLOCK.saturating_mul(divisions) < free;
        let unit = if by_division { (power / divisions).max(MIN_BLOCK) } else { MIN_BLOCK };
        let largest = free / unit * unit;
        if class == SizeClass::Large && largest <= SMALL_LIMIT { 0 } else { largest }
    }
    /// Whether a free block of `free` bytes, the smallest that is large enough, may serve `rounded` bytes: oversize blocks
    /// are kept for oversize requests (`get_free_block`).
    pub fn may_take(&self, rounded: u64, free: u64) -> bool {
        self.max_split_size.is_none_or(|limit| {
            if rounded < limit { free < limit } else { free < rounded.saturating_add(self.max_non_split_rounding) }
        })
    }
    /// The segment asked of the driver for a rounded size (`get_allocation_size`).
    pub fn segment_size(&self, rounded: u64) -> u64 {
        if rounded <= SMALL_LIMIT {
            SMALL_SEGMENT
        } else if rounded < LARGE_OWN_SEGMENT {
            self.large_segment_size
        } else {
            rounded.checked_next_multiple_of(LARGE_ROUND).unwrap_or(u64::MAX)
        }
    }
    /// Unit in which expandable segments of this class grow.
    pub fn granule(&self, class: SizeClass) -> u64 {
        match class {
            SizeClass::Small => SMALL_SEGMENT,
            SizeClass::Large => self.large_segment_size,
        }
    }
    /// The size a block gets when `rounded` bytes are taken from the start of `free` free bytes (`should_split`).
    pub fn block_size(&self, rounded: u64, free: u64, class: SizeClass, expandable: bool) -> u64 {
        let Some(rest) = free.checked_sub(rounded) else { return rounded };
        let split = match class {
            SizeClass::Small => MIN_BLOCK <= rest,
            SizeClass::Large if expandable => MIN_BLOCK <= rest,
            SizeClass::Large => self.max_split_size.is_none_or(|limit| rounded < limit) && SMALL_LIMIT < rest,
        };
        if split { rounded } else { free }
    }
}

/// Rounds up to a multiple of the largest power of two below, over the divisions (`roundup_power2_next_division`).
fn round_power2_division(size: u64, divisions: u64) -> u64 {
    if size.is_power_of_two() {
        return size;
    }
    let floor = 1u64 << (63 - size.leading_zeros());
    let quantum = floor / divisions;
    if quantum == 0 { floor.saturating_mul(2) } else { size.checked_next_multiple_of(quantum).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn requests_round_as_pytorch_rounds_them() {
        let plain = AllocatorSettings::default();
        let eighths = AllocatorSettings { roundup_power2_divisions: [8; 16], ..AllocatorSettings::default() };
        for (request, by_512, by_eighths) in [
            (1, 512, 512),
            (512, 512, 512),
            (513, 1024, 1024),
            (4096, 4096, 4096),
            (5000, 5120, 5120),
            (MIB, MIB, MIB),
            (MIB + 1, MIB + 512, MIB + MIB / 8),
            (1200 * 1024, 1200 * 1024, MIB + 2 * (MIB / 8)),
        ] {
            assert_eq!(plain.round(request), by_512, "{request} by 512");
            assert_eq!(eighths.round(request), by_eighths, "{request} by eighths");
        }
        assert_eq!(plain.round(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_largest_request_just_fits() {
        let list = |from: usize, divisions| {
            let mut all = [0; 16];
            all[from..].fill(divisions);
            AllocatorSettings { roundup_power2_divisions: all, ..AllocatorSettings::default() }
        };
        for settings in [list(16, 0), list(0, 8), list(0, 2), list(3, 4), list(0, 1), list(0, 256)] {
            for free in [0, 511, 512, 513, 4096, 5120, MIB - 512, MIB, MIB + 512, 2 * MIB, 27 * MIB + 512, 28_835_840, 3 << 30] {
                for class in [SizeClass::Small, SizeClass::Large] {
                    let serves = |request: u64| {
                        let rounded = settings.round(request);
                        0 < request && AllocatorSettings::class(rounded) == class && rounded <= free
                    };
                    let largest = settings.largest_request(free, class);
                    assert!(
                        largest == 0 || serves(largest),
                        "{largest} in {free}, {class:?}, {:?}",
                        settings.roundup_power2_divisions
                    );
                    assert!(!serves(largest + 1), "{largest} in {free}, {class:?}, {:?}", settings.roundup_power2_divisions);
                }
            }
        }
    }

    #[test]
    fn blocks_split_as_pytorch_splits_them() {
        let plain = AllocatorSettings::default();
        let limited = AllocatorSettings { max_split_size: Some(128 * MIB), ..AllocatorSettings::default() };
        use SizeClass::{Large, Small};
        for (settings, rounded, free, class, expandable, block) in [
            (&plain, 512, 2 * MIB, Small, false, 512),
            (&plain, 2 * MIB - 256, 2 * MIB, Small, false, 2 * MIB),
            (&plain, 2 * MIB, 3 * MIB, Large, false, 3 * MIB),
            (&plain, 2 * MIB, 3 * MIB + 512, Large, false, 2 * MIB),
            (&plain, 2 * MIB, 3 * MIB, Large, true, 2 * MIB),
            (&limited, 128 * MIB, 140 * MIB, Large, false, 140 * MIB),
            (&plain, 4 * MIB, 2 * MIB, Large, false, 4 * MIB),
        ] {
            assert_eq!(settings.block_size(rounded, free, class, expandable), block, "{rounded} of {free}");
        }
    }

    #[test]
    fn oversize_blocks_are_kept_for_oversize_requests() {
        let plain = AllocatorSettings::default();
        let limited = AllocatorSettings { max_split_size: Some(64 * MIB), ..AllocatorSettings::default() };
        for (settings, rounded, free, may) in [
            (&plain, MIB, 500 * MIB, true),
            (&limited, 10 * MIB, 64 * MIB - 512, true),
            (&limited, 10 * MIB, 64 * MIB, false),
            (&limited, 64 * MIB, 84 * MIB - 512, true),
            (&limited, 64 * MIB, 84 * MIB, false),
        ] {
            assert_eq!(settings.may_take(rounded, free), may, "{rounded} from {free}");
        }
    }

    #[test]
    fn segments_have_the_sizes_of_the_allocator() {
        let settings = AllocatorSettings::default();
        for (rounded, segment) in
            [(512, 2 * MIB), (MIB, 2 * MIB), (MIB + 512, 20 * MIB), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)]
        {
            assert_eq!(settings.segment_size(rounded), segment);
        }
        let mut large = AllocatorSettings { conf: "large_segment_size_mb:64,per_process_memory_fraction:0.5".into(), ..settings };
        large.resolve_conf();
        assert_eq!(large.segment_size(MIB + 512), 64 * MIB);
        assert_eq!(large.per_process_memory_fraction, Some(0.5));
    }
}
