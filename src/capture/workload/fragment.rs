//! The worst case for an allocator that cannot move blocks: every segment is kept by one block, and what is free in it is
//! a little too small.

use crate::capture::workload::Next;
use crate::capture::workload::program::{Program, Stop};

/// Four of them fill a large segment of PyTorch's allocator.
const QUARTER: u64 = 5 << 20;
/// More than three quarters of a segment, and so large that it gets one of its own.
const TOO_LARGE: u64 = 16 << 20;

/// Fills half of the memory, gives three of each four blocks back, and asks for blocks that fit nowhere.
pub(super) fn run(program: &mut Program, next: Next<'_>) -> Result<(), Stop> {
    let filled = program.budget() / 2 / QUARTER;
    let (mut kept, mut given_back) = (Vec::new(), Vec::new());
    program.within("fill", |program| -> Result<(), Stop> {
        for number in 0..filled {
            let keeps = number % 4 == 0;
            let name = if keeps { "a block that stays" } else { "blocks that go" };
            let block = program.within(name, |program| program.alloc(QUARTER))?;
            if keeps { kept.push(block) } else { given_back.push(block) }
        }
        Ok(())
    })?;
    program.within("give back", |program| program.free_all(given_back));
    let mut large = Vec::new();
    while next(program)? {
        large.push(program.within("ask for more", |program| program.alloc(TOO_LARGE))?);
    }
    program.free_all(large);
    program.free_all(kept);
    Ok(())
}
