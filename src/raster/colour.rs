//! Colours by allocation, as a table: the raster looks up a row and knows no meaning.
//!
//! Always: [`ColourTable::row`] is the one place that says which row an allocation has; while something is searched
//! for, what was not found is faded towards the ground.

use crate::analysis::Found;
use crate::base::id::Id;
use crate::model::{AllocationId, BlockState, DeviceMemory, Position};
use std::sync::Arc;

/// What the colour of a block means, in all views at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColourBy {
    /// Where it was allocated.
    #[default]
    Stack,
    /// How large it is.
    Size,
    /// How many events it has lived.
    Age,
    /// Which pool it lies in.
    Pool,
    /// Which stream it was allocated on.
    Stream,
    /// Allocated or pending free.
    State,
    /// What it is for, by the rules in force.
    Category,
    /// How much free memory it held at most in its life: who is to blame for fragmentation.
    Held,
}

impl ColourBy {
    /// All meanings, in the order a menu shows them.
    pub const ALL: [ColourBy; 8] = [
        ColourBy::Stack,
        ColourBy::Category,
        ColourBy::Size,
        ColourBy::Age,
        ColourBy::Pool,
        ColourBy::Stream,
        ColourBy::State,
        ColourBy::Held,
    ];
    /// The word in menus.
    pub const fn name(self) -> &'static str {
        match self {
            ColourBy::Stack => "stack",
            ColourBy::Size => "size",
            ColourBy::Age => "age",
            ColourBy::Pool => "pool",
            ColourBy::Stream => "stream",
            ColourBy::State => "state",
            ColourBy::Category => "category",
            ColourBy::Held => "free memory held",
        }
    }
}

/// The colour of each row: stacks, classes, pools or streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColourTable {
    /// What the rows are.
    pub by: ColourBy,
    /// Red, green, blue by row.
    pub colours: Vec<[u8; 3]>,
    /// For rows beyond the table (no stack was kept).
    pub other: [u8; 3],
    /// Class of the free memory each block held, by block; empty where colours mean something else.
    pub held: Arc<[u8]>,
    /// What stands out; none: everything alike.
    pub spotlight: Option<Spotlight>,
}

/// What was found stands out from all else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spotlight {
    /// What was found.
    pub found: Arc<Found>,
    /// What all else fades towards: red, green, blue.
    pub ground: [u8; 3],
}

/// A colour as it is where it was not found: a fifth of it is left.
pub fn faded(colour: [u8; 3], ground: [u8; 3]) -> [u8; 3] {
    std::array::from_fn(|i| ((u16::from(colour[i]) + 4 * u16::from(ground[i])) / 5) as u8)
}

impl ColourTable {
    /// The row of an allocation at a moment; only age and state depend on the moment. `held` is what
    /// [`ColourTable::held`] is.
    #[inline]
    pub fn row(by: ColourBy, held: &[u8], memory: &DeviceMemory, id: AllocationId, at: Position) -> u32 {
        let (lives, row) = (&memory.allocations, id.row());
        match by {
            // A category is one of a stack's frames.
            ColourBy::Stack | ColourBy::Category => lives.stacks()[row].0,
            ColourBy::Size => u32::from(size_class(lives.sizes()[row])),
            ColourBy::Age => {
                let born = lives.born()[row];
                let age = (born != Position::START).then(|| at.0.saturating_sub(born.0));
                u32::from(age_class(age))
            }
            ColourBy::Pool => memory.segments.get(lives.segments()[row]).map_or(0, |segment| segment.pool.0),
            ColourBy::Stream => lives.streams()[row].0,
            ColourBy::State => u32::from(lives.get(id).state_at(at) == BlockState::ActivePendingFree),
            ColourBy::Held => held.get(row).copied().map_or(0, u32::from),
        }
    }
    /// The colour of an allocation at a moment.
    #[inline]
    pub fn of(&self, memory: &DeviceMemory, id: AllocationId, at: Position) -> [u8; 3] {
        let colour = self.colours.get(Self::row(self.by, &self.held, memory, id, at) as usize).copied().unwrap_or(self.other);
        match &self.spotlight {
            Some(light) if !light.found.has(id) => faded(colour, light.ground),
            Some(_) | None => colour,
        }
    }
    /// Whether an allocation stands out.
    #[inline]
    pub fn is_lit(&self, id: AllocationId) -> bool {
        self.spotlight.as_ref().is_some_and(|light| light.found.has(id))
    }
}

/// The class of a size in bytes, 0 to 7, at the allocator's own limits where it has some.
pub fn size_class(size: u64) -> u8 {
    const LIMITS: [u64; 7] =
        [(4 << 10) - 1, (64 << 10) - 1, 1 << 20, (10 << 20) - 1, (64 << 20) - 1, (256 << 20) - 1, (1 << 30) - 1];
    LIMITS.iter().filter(|limit| **limit < size).count() as u8
}

/// The class of free memory that a block held, in bytes, 0 (none) to 6.
pub fn held_class(bytes: u64) -> u8 {
    const LIMITS: [u64; 6] = [0, (64 << 10) - 1, (512 << 10) - 1, (2 << 20) - 1, (8 << 20) - 1, (20 << 20) - 1];
    LIMITS.iter().filter(|limit| **limit < bytes).count() as u8
}

/// The class of an age in events, 0 to 5 by powers of ten, 6 for what is older than the trace.
pub fn age_class(events: Option<u32>) -> u8 {
    const LIMITS: [u32; 5] = [9, 99, 999, 9_999, 99_999];
    events.map_or(6, |events| LIMITS.iter().filter(|limit| **limit < events).count() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_where_their_names_say() {
        for (size, class) in [
            (0, 0),
            (4095, 0),
            (4096, 1),
            (65_536, 2),
            (1 << 20, 2),
            ((1 << 20) + 512, 3),
            (10 << 20, 4),
            (1 << 30, 7),
            (u64::MAX, 7),
        ] {
            assert_eq!(size_class(size), class, "{size}");
        }
        for (bytes, class) in
            [(0, 0), (1, 1), (64 << 10, 2), (512 << 10, 3), (2 << 20, 4), (8 << 20, 5), (20 << 20, 6), (u64::MAX, 6)]
        {
            assert_eq!(held_class(bytes), class, "{bytes} held");
        }
        for (events, class) in [(Some(0), 0), (Some(9), 0), (Some(10), 1), (Some(100_000), 5), (Some(u32::MAX), 5), (None, 6)] {
            assert_eq!(age_class(events), class, "{events:?}");
        }
    }
}
