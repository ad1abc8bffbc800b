//! Serving: sequences come and go, each with the keys and values of all its tokens; one token a step for each.

use crate::capture::workload::Next;
use crate::capture::workload::model::{Chance, LAYERS, VALUE, matrices, width};
use crate::capture::workload::program::{Block, Program, Stop};

/// Tokens of a page, and by which a contiguous block grows.
const PAGE: u64 = 256;

/// A sequence that is being served.
struct Sequence {
    tokens: u64,
    ends_at: u64,
    /// Its blocks: one a layer where they are contiguous, pages of all layers in a row otherwise.
    blocks: Vec<Block>,
}

/// Keys and values of a sequence in one block a layer, which is copied into a larger one when it is full.
pub(super) fn contiguous(program: &mut Program, next: Next<'_>) -> Result<(), Stop> {
    run(program, next, |program, sequence, per_token| {
        let capacity = sequence.tokens.next_multiple_of(PAGE);
        if sequence.blocks.first().is_some_and(|block| capacity * per_token <= block.size) {
            return Ok(());
        }
        for layer in 0..LAYERS as usize {
            let larger = program.within(&format!("layer {layer}"), |program| program.alloc(capacity * per_token))?;
            match sequence.blocks.get_mut(layer) {
                Some(block) => program.free(std::mem::replace(block, larger)),
                None => sequence.blocks.push(larger),
            }
        }
        Ok(())
    })
}

/// Keys and values in pages of one size: a sequence that grows takes one more for each layer.
pub(super) fn paged(program: &mut Program, next: Next<'_>) -> Result<(), Stop> {
    run(program, next, |program, sequence, per_token| {
        while (sequence.blocks.len() as u64) < LAYERS * sequence.tokens.div_ceil(PAGE) {
            sequence.blocks.push(program.within("page", |program| program.alloc(PAGE * per_token))?);
        }
        Ok(())
    })
}

/// Serves, with what makes room for a sequence's tokens.
fn run(
    program: &mut Program,
    next: Next<'_>,
    mut make_room: impl FnMut(&mut Program, &mut Sequence, u64) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let budget = program.budget();
    let width = width(budget / 100 * 30, VALUE);
    let mut weights = Vec::new();
    program.within("load model", |program| -> Result<(), Stop> {
        for layer in 0..LAYERS {
            for (name, values) in matrices(width) {
                weights.push(program.within(&format!("layer {layer} {name}"), |program| program.alloc(values * VALUE))?);
            }
        }
        Ok(())
    })?;
    // A key and a value a token in each layer.
    let per_token = 2 * width * VALUE;
    let room = budget / 100 * 40 / (per_token * LAYERS);
    let longest = (room / 6).max(2 * PAGE);
    let (mut chance, mut served): (Chance, Vec<Sequence>) = (Chance(11), Vec::new());
    while next(program)? {
        let planned: u64 = served.iter().map(|sequence| sequence.ends_at).sum();
        if planned + longest <= room || served.is_empty() {
            let tokens = chance.between(longest / 8, longest / 2).max(1);
            let ends_at = tokens + chance.between(longest / 8, longest / 2);
            let mut sequence = Sequence { tokens, ends_at, blocks: Vec::new() };
            program.within("prefill", |program| -> Result<(), Stop> {
                program.within("kv cache", |program| make_room(program, &mut sequence, per_token))?;
                let hidden = program.within("hidden", |program| program.alloc(tokens.min(4 * PAGE) * width * VALUE))?;
                program.free(hidden);
                Ok(())
            })?;
            served.push(sequence);
        }
        program.within("decode", |program| -> Result<(), Stop> {
            let hidden = program.within("hidden", |program| program.alloc(served.len() as u64 * width * VALUE * 4))?;
            for sequence in &mut served {
                // So that a run of a few hundred steps sees whole lives, a step stands for several tokens.
                sequence.tokens += (longest / 64).max(1);
                program.within("kv cache", |program| make_room(program, sequence, per_token))?;
            }
            program.free(hidden);
            Ok(())
        })?;
        let (over, going): (Vec<_>, Vec<_>) = served.into_iter().partition(|sequence| sequence.ends_at <= sequence.tokens);
        served = going;
        program.within("finish", |program| {
            for sequence in over {
                program.free_all(sequence.blocks);
            }
        });
    }
    for sequence in served {
        program.free_all(sequence.blocks);
    }
    program.free_all(weights);
    Ok(())
}
