//! Training steps: forward, backward, an optimizer with two states a parameter.

use crate::capture::workload::Next;
use crate::capture::workload::model::{Chance, LAYERS, VALUE, WORDS, matrices, width};
use crate::capture::workload::program::{Block, Program, Stop};

/// Bytes of a parameter with all that belongs to it: weight and gradient of two, two states of four.
const PER_PARAMETER: u64 = 12;

/// Steps of one shape.
pub(super) fn even(program: &mut Program, next: Next<'_>) -> Result<(), Stop> {
    run(program, next, |most| most)
}

/// Steps of changing length.
pub(super) fn variable(program: &mut Program, next: Next<'_>) -> Result<(), Stop> {
    let mut chance = Chance(7);
    run(program, next, move |most| chance.between(most / 4, most + 1).max(1))
}

fn run(program: &mut Program, next: Next<'_>, mut tokens_of: impl FnMut(u64) -> u64) -> Result<(), Stop> {
    let budget = program.budget();
    let width = width(budget / 100 * 40, PER_PARAMETER);
    // What a token keeps in a step: 34 bytes a unit of width in each layer, its logits and their gradient.
    let per_token = LAYERS * 34 * width + WORDS * (VALUE + 4 + VALUE);
    let most = (budget / 100 * 35 / per_token).max(1);
    let weights = program.within("load model", |program| parameters(program, width, VALUE))?;
    let mut states: Vec<Block> = Vec::new();
    while next(program)? {
        let tokens = tokens_of(most);
        let gradients = program.within("step", |program| step(program, width, tokens))?;
        program.within("optimizer", |program| -> Result<(), Stop> {
            if states.is_empty() {
                states = program.within("exp_avg", |program| parameters(program, width, 4))?;
                states.extend(program.within("exp_avg_sq", |program| parameters(program, width, 4))?);
            }
            // One matrix after another is worked on, with a temporary of its size.
            for gradient in &gradients {
                let temporary = program.alloc(gradient.size)?;
                program.free(temporary);
            }
            Ok(())
        })?;
        program.within("zero_grad", |program| program.free_all(gradients));
    }
    program.free_all(states);
    program.free_all(weights);
    Ok(())
}

fn parameters(program: &mut Program, width: u64, value: u64) -> Result<Vec<Block>, Stop> {
    let mut blocks = vec![program.within("embedding", |program| program.alloc(WORDS * width * value))?];
    for layer in 0..LAYERS {
        program.within(&format!("layer {layer}"), |program| -> Result<(), Stop> {
            for (name, values) in matrices(width) {
                blocks.push(program.within(name, |program| program.alloc(values * value))?);
            }
            blocks.push(program.within("norms", |program| program.alloc(4 * width * value))?);
            Ok(())
        })?;
    }
    Ok(blocks)
}

/// Forward and backward: what is left are the gradients.
fn step(program: &mut Program, width: u64, tokens: u64) -> Result<Vec<Block>, Stop> {
    let row = tokens * width;
    let mut kept: Vec<Vec<Block>> = Vec::new();
    let input = program.within("embedding", |program| program.alloc(row * VALUE))?;
    program.within("forward", |program| -> Result<(), Stop> {
        for layer in 0..LAYERS {
            let blocks = program.within(&format!("layer {layer}"), |program| forward(program, row))?;
            kept.push(blocks);
        }
        Ok(())
    })?;
    let logits = program.within("loss", |program| -> Result<Vec<Block>, Stop> {
        Ok(vec![program.alloc(tokens * WORDS * VALUE)?, program.alloc(tokens * WORDS * 4)?])
    })?;
    program.within("backward", |program| -> Result<Vec<Block>, Stop> {
        let mut gradients = Vec::new();
        let of_logits = program.within("loss", |program| program.alloc(tokens * WORDS * VALUE))?;
        program.free_all(logits);
        let mut flowing = program.alloc(row * VALUE)?;
        program.free(of_logits);
        for (layer, blocks) in kept.into_iter().enumerate().rev() {
            program.within(&format!("layer {layer}"), |program| -> Result<(), Stop> {
                for (name, values) in matrices(width).into_iter().rev() {
                    gradients.push(program.within(name, |program| program.alloc(values * VALUE))?);
                }
                gradients.push(program.within("norms", |program| program.alloc(4 * width * VALUE))?);
                let wide = program.alloc(4 * row * VALUE)?;
                program.free(wide);
                let below = program.alloc(row * VALUE)?;
                program.free(std::mem::replace(&mut flowing, below));
                program.free_all(blocks);
                Ok(())
            })?;
        }
        gradients.push(program.within("embedding", |program| program.alloc(WORDS * width * VALUE))?);
        program.free(flowing);
        program.free(input);
        Ok(gradients)
    })
}

/// What a layer keeps for its way back: 34 bytes a token and unit of width.
fn forward(program: &mut Program, row: u64) -> Result<Vec<Block>, Stop> {
    let mut kept = Vec::new();
    for (name, values) in
        [("norm 1", 1), ("qkv", 3), ("attention", 1), ("attention out", 1), ("norm 2", 1), ("feed-forward in", 4)]
    {
        kept.push(program.within(name, |program| program.alloc(values * row * VALUE))?);
    }
    let temporary = program.within("gelu", |program| program.alloc(4 * row * VALUE))?;
    kept.push(program.within("feed-forward out", |program| program.alloc(row * VALUE))?);
    kept.push(program.within("dropout masks", |program| program.alloc(2 * row))?);
    kept.push(temporary);
    Ok(kept)
}
