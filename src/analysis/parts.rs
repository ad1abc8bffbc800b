//! Which part of a training step a stack belongs to: forward, backward or the optimizer.
//!
//! Always: the innermost frame that tells decides, for an optimizer may run the passes inside of its own step; but what
//! a forward pass does inside of a backward pass (recomputing what was not kept) is backward. PyTorch's backward threads
//! have no Python frames: where other stacks are there, an empty one is backward.

use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations, DeviceMemory, FrameId, Position, Snapshot, StackId};

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The program itself: the forward pass, and what lies around the passes.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer, and the clipping of gradients in front of it.
    Optimizer,
    /// Nothing is known.
    Untold,
}

/// The part of each stack of a snapshot, for the lives of one device.
#[derive(Clone, Debug)]
pub struct Parts {
    stacks: Vec<Part>,
    empty: Part,
    seen: [bool; 3],
}

impl Parts {
    /// Reads all stacks once.
    pub fn of(snapshot: &Snapshot, memory: &DeviceMemory) -> Parts {
        let table = &snapshot.stacks;
        let frames: Vec<Option<Part>> = (0..table.frame_count())
            .map(FrameId::of_row)
            .map(|frame| part_of_frame(table.file(frame), table.function(frame)))
            .collect();
        let part = |stack: usize| {
            let mut told = table.frames(StackId::of_row(stack)).iter().filter_map(|frame| frames[frame.row()]);
            match told.next() {
                None => Part::Forward,
                Some(Part::Forward) if told.any(|part| part == Part::Backward) => Part::Backward,
                Some(part) => part,
            }
        };
        let lives = &memory.allocations;
        let has_frames = |id: AllocationId| !table.frames(lives.stacks()[id.row()]).is_empty();
        let empty = if lives.ids().any(has_frames) { Part::Backward } else { Part::Untold };
        let mut parts = Parts { stacks: (0..table.len()).map(part).collect(), empty, seen: [false; 3] };
        let born = lives.ids().filter(|id| lives.born()[id.row()] != Position::START);
        let seen = born.fold([false; 3], |mut seen, id| {
            match parts.of_life(lives, id) {
                Part::Forward => seen[0] = true,
                Part::Backward => seen[1] = true,
                Part::Optimizer => seen[2] = true,
                Part::Untold => {}
            }
            seen
        });
        parts.seen = seen;
        parts
    }
    /// The part a life was born in.
    pub fn of_life(&self, lives: &Allocations, id: AllocationId) -> Part {
        let stack = lives.stacks()[id.row()];
        if stack == StackId::EMPTY { self.empty } else { self.stacks.get(stack.row()).copied().unwrap_or(self.empty) }
    }
    /// Whether any life was born in a part.
    pub fn tells(&self, part: Part) -> bool {
        match part {
            Part::Forward => self.seen[0],
            Part::Backward => self.seen[1],
            Part::Optimizer => self.seen[2],
            Part::Untold => false,
        }
    }
}

/// What a frame tells by itself.
fn part_of_frame(file: &str, function: &str) -> Option<Part> {
    let folder = |name: &str| file.split(['/', '\\']).any(|piece| piece == name);
    let backward = function.contains("autograd::Engine")
        || function.contains("autograd::Node::operator()")
        || (matches!(function, "backward" | "_engine_run_backward" | "_make_grads" | "grad") && folder("torch"));
    if backward {
        Some(Part::Backward)
    } else if folder("optim") || folder("optimizers") || function.contains("clip_grad") {
        Some(Part::Optimizer)
    } else if matches!(function, "forward" | "_call_impl") {
        Some(Part::Forward)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_tell_their_part() {
        for (file, function, part) in [
            ("/site-packages/torch/optim/adam.py", "_multi_tensor_adam", Some(Part::Optimizer)),
            ("/site-packages/torch/nn/utils/clip_grad.py", "_clip_grads_with_norm_", Some(Part::Optimizer)),
            ("/site-packages/torch/_tensor.py", "backward", Some(Part::Backward)),
            ("/src/torch/csrc/autograd/engine.cpp", "torch::autograd::Engine::thread_main(…)", Some(Part::Backward)),
            ("/site-packages/torch/nn/modules/module.py", "_call_impl", Some(Part::Forward)),
            ("/job/optimal.py", "run", None),
            ("/job/train.py", "backward", None),
        ] {
            assert_eq!(part_of_frame(file, function), part, "{file} {function}");
        }
    }
}
