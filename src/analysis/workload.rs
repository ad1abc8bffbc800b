//! What a job's memory is for: the role of each block life, told by when it is born, what it outlives and where it was
//! asked for; and how it grows with the batch and with the length of its sequences.
//!
//! Always: every life has exactly one role, so the sums over the roles are the sums over all lives. Lives older than the
//! recording are parameters as far as gradients of their size are seen, and the optimizer's state beyond.

use crate::analysis::growth::{Growth, Told, growths};
use crate::analysis::parts::{Part, Parts};
use crate::analysis::query::{Asked, Query};
use crate::analysis::samples::batch_of;
use crate::analysis::steps::{Step, Steps};
use crate::analysis::which::BlockSum;
use crate::base::id::Id as _;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::{AllocationId, Allocations, DeviceId, Position, Snapshot};
use rustc_hash::FxHashMap;

/// What a life is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// There before the first step and after it: the model, its buffers among it.
    Parameters,
    /// Made by the optimizer and kept.
    OptimizerState,
    /// Born in the backward pass and held beyond it.
    Gradients,
    /// A parameter's copy in fewer bits, as autocast makes them.
    WeightCasts,
    /// Born in the forward pass and held for the backward pass.
    Activations,
    /// A step's input: born before the step in which it goes.
    Inputs,
    /// Born and gone in the forward pass.
    ForwardTemporaries,
    /// Born and gone in the backward pass.
    BackwardTemporaries,
    /// Born and gone while the optimizer works.
    OptimizerTemporaries,
    /// Born in a step and kept for good: workspaces of libraries, what the program collects.
    Kept,
    /// Nothing tells.
    Unknown,
}

impl Role {
    /// All, in order.
    pub const ALL: [Role; 11] = [
        Role::Parameters,
        Role::OptimizerState,
        Role::Gradients,
        Role::WeightCasts,
        Role::Activations,
        Role::Inputs,
        Role::ForwardTemporaries,
        Role::BackwardTemporaries,
        Role::OptimizerTemporaries,
        Role::Kept,
        Role::Unknown,
    ];
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Parameters => "parameters",
            Role::OptimizerState => "optimizer state",
            Role::Gradients => "gradients",
            Role::WeightCasts => "weight casts",
            Role::Activations => "activations",
            Role::Inputs => "inputs",
            Role::ForwardTemporaries => "forward temporaries",
            Role::BackwardTemporaries => "backward temporaries",
            Role::OptimizerTemporaries => "optimizer temporaries",
            Role::Kept => "kept by libraries or the program",
            Role::Unknown => "unknown",
        }
    }
}

/// The roles of a device's lives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The steps they are told by.
    pub steps: Steps,
    /// By life.
    pub roles: Vec<Role>,
    /// By life: how it grows.
    pub growth: Vec<Growth>,
    /// How the growth is known.
    pub told: Told,
    /// By step: the samples of its batch, where the recording tells them; if not samples, then something finer.
    pub samples: Vec<Option<u64>>,
}

impl Workload {
    /// Tells the roles of a device.
    pub fn of(snapshot: &Snapshot, device: DeviceId, progress: &Progress) -> Result<Workload, Cancelled> {
        let memory = &snapshot.devices[device];
        let mut steps = Steps::of(snapshot, device, progress)?;
        let parts = Parts::of(snapshot, memory);
        let lives = &memory.allocations;
        progress.stage("telling roles", lives.len() as u64)?;
        let teller = Teller { lives, steps: &steps, parts: &parts };
        let mut roles = Vec::with_capacity(lives.len());
        for (done, id) in lives.ids().enumerate() {
            if done.is_multiple_of(1 << 16) {
                progress.at(done as u64)?;
            }
            roles.push(teller.role(id));
        }
        tell_until_zeroed(lives, &parts, &mut steps, &mut roles);
        tell_lasting(lives, &steps, &mut roles);
        tell_casts(lives, &steps, &mut roles);
        tell_cut_off(lives, &steps, &mut roles);
        progress.check()?;
        let (growth, told, samples) = growths(lives, &steps, &roles);
        // A cast is as large as its parameter tells: what grows is none.
        for (role, growth) in roles.iter_mut().zip(&growth) {
            if *role == Role::WeightCasts && growth.told && (0 < growth.batch || 0 < growth.length) {
                *role = Role::Activations;
            }
        }
        Ok(Workload { steps, roles, growth, told, samples })
    }
    /// The role of a life.
    pub fn role(&self, id: AllocationId) -> Role {
        self.roles.get(id.row()).copied().unwrap_or(Role::Unknown)
    }
    /// The step whose batch a life is of: that of its birth, or the next one's for an input that was made ahead.
    pub fn batch_of(&self, lives: &Allocations, id: AllocationId) -> Option<usize> {
        batch_of(lives, &self.steps, self.role(id), id)
    }
    /// The sums of each role over the lives allocated at a moment, in the order of [`Role::ALL`].
    pub fn at(&self, lives: &Allocations, at: Position) -> [BlockSum; Role::ALL.len()] {
        let mut sums = [BlockSum::default(); Role::ALL.len()];
        for id in (0..lives.born_by(at)).map(AllocationId::of_row) {
            if at < lives.freed()[id.row()] {
                sums[self.role(id) as usize].add(BlockSum::one(lives, id));
            }
        }
        sums
    }
}

struct Teller<'a> {
    lives: &'a Allocations,
    steps: &'a Steps,
    parts: &'a Parts,
}

impl Teller<'_> {
    fn role(&self, id: AllocationId) -> Role {
        let (born, freed) = (self.lives.born()[id.row()], self.lives.freed()[id.row()]);
        let Some(first) = self.steps.rows.first() else { return Role::Unknown };
        if born <= first.from {
            return if first.to < freed {
                Role::Parameters
            } else if first.from < freed {
                Role::Inputs
            } else {
                Role::Unknown
            };
        }
        let Some(row) = self.steps.at(born) else {
            // Behind the last step.
            return Role::Unknown;
        };
        let step = &self.steps.rows[row];
        let next = self.steps.rows.get(row + 1);
        // What goes in the next step's beginning was made for it, or was forgotten.
        let next_turn = next.map_or(step.to, |next| next.rounds.first().map_or(next.to, |round| round.turn));
        let goes_next = step.to < freed && next.is_some_and(|next| freed <= next.to);
        if step.optimizer < born {
            return if freed <= step.to {
                Role::OptimizerTemporaries
            } else if goes_next {
                Role::Inputs
            } else if self.parts.of_life(self.lives, id) == Part::Forward {
                Role::Kept
            } else {
                Role::OptimizerState
            };
        }
        let Some(round) = step.rounds.iter().find(|round| born <= round.to) else {
            return if step.to < freed { Role::Kept } else { Role::ForwardTemporaries };
        };
        if born <= round.turn {
            if freed <= round.turn {
                Role::ForwardTemporaries
            } else if freed <= step.to || goes_next {
                Role::Activations
            } else {
                Role::Kept
            }
        } else if freed <= round.to {
            Role::BackwardTemporaries
        } else if freed <= step.to || goes_next && freed <= next_turn {
            Role::Gradients
        } else {
            // Gradients that are set to zero stay; so do workspaces. Sizes tell them apart.
            Role::Kept
        }
    }
}

/// How many lives of a role there are of each requested size.
fn counts(lives: &Allocations, roles: &[Role], role: Role) -> FxHashMap<u64, usize> {
    let mut counts = FxHashMap::default();
    for id in lives.ids().filter(|id| roles[id.row()] == role) {
        *counts.entry(lives.requested()[id.row()]).or_insert(0) += 1;
    }
    counts
}

/// Takes one of a size where any are left.
fn take(counts: &mut FxHashMap<u64, usize>, size: u64) -> bool {
    counts.get_mut(&size).is_some_and(|left| {
        let any = 0 < *left;
        *left = left.saturating_sub(1);
        any
    })
}

/// Gradients of an optimizer that allocates nothing, behind which the backward pass would have no end: what is as large as
/// parameters and goes only after the last block of the pass was made.
fn tell_until_zeroed(lives: &Allocations, parts: &Parts, steps: &mut Steps, roles: &mut [Role]) {
    if !parts.tells(Part::Backward) {
        return;
    }
    let parameters = counts(lives, roles, Role::Parameters);
    for step in &mut steps.rows {
        let Some(last) = step.rounds.last().copied() else { continue };
        let ids = |from: Position, to: Position| (lives.born_by(from)..lives.born_by(to)).map(AllocationId::of_row);
        if ids(last.to, step.to).any(|id| parts.of_life(lives, id) == Part::Optimizer) {
            continue;
        }
        let mut of_pass = ids(last.turn, last.to).filter(|id| parts.of_life(lives, *id) == Part::Backward);
        let Some(end) = of_pass.next_back().map(|id| lives.born()[id.row()]) else { continue };
        let mut left = parameters.clone();
        let mut zeroed = None;
        for id in step.rounds.iter().flat_map(|round| ids(round.turn, round.to)) {
            let freed = lives.freed()[id.row()];
            if roles[id.row()] == Role::BackwardTemporaries && end < freed && take(&mut left, lives.requested()[id.row()]) {
                roles[id.row()] = Role::Gradients;
                zeroed = Some(zeroed.map_or(freed, |first: Position| first.min(freed)));
            }
        }
        // There the pass is over: what comes after a pass comes in front of it.
        if let (Some(zeroed), Some(last)) = (zeroed, step.rounds.last_mut()) {
            last.to = Position(zeroed.0 - 1).max(end);
            step.optimizer = last.to;
        }
    }
}

/// Gradients that stay for good; and, of the lives older than the recording, parameters and state.
fn tell_lasting(lives: &Allocations, steps: &Steps, roles: &mut [Role]) {
    let Some(first) = steps.rows.first() else { return };
    let born_backward = |step: &Step, born: Position| step.rounds.iter().any(|round| round.turn < born && born <= round.to);
    let mut left = counts(lives, roles, Role::Parameters);
    for id in lives.ids().filter(|id| first.to < lives.freed()[id.row()]) {
        let born = lives.born()[id.row()];
        if roles[id.row()] == Role::Kept
            && steps.at(born).is_some_and(|row| born_backward(&steps.rows[row], born))
            && take(&mut left, lives.requested()[id.row()])
        {
            roles[id.row()] = Role::Gradients;
        }
    }
    // A step's gradients are as many and as large as the parameters.
    let of_step = |step: &Step| {
        let ids = (lives.born_by(step.from)..lives.born_by(step.to)).map(AllocationId::of_row);
        let mut sizes: FxHashMap<u64, usize> = FxHashMap::default();
        for id in ids.filter(|id| roles[id.row()] == Role::Gradients) {
            *sizes.entry(lives.requested()[id.row()]).or_insert(0) += 1;
        }
        sizes
    };
    let mut gradients =
        steps.rows.iter().filter(|step| step.complete).map(of_step).max_by_key(|sizes| sizes.len()).unwrap_or_default();
    if gradients.is_empty() {
        return;
    }
    for id in lives.ids().take_while(|id| lives.born()[id.row()] == Position::START) {
        if roles[id.row()] == Role::Parameters && !take(&mut gradients, lives.requested()[id.row()]) {
            roles[id.row()] = Role::OptimizerState;
        }
    }
}

/// Copies of parameters in half their bits: in each pass at most one of each, the first of a run from one stack.
fn tell_casts(lives: &Allocations, steps: &Steps, roles: &mut [Role]) {
    let parameters = counts(lives, roles, Role::Parameters);
    for round in steps.rows.iter().flat_map(|step| &step.rounds) {
        let mut left = parameters.clone();
        let mut casts = 0usize;
        for id in (lives.born_by(round.from)..lives.born_by(round.turn)).map(AllocationId::of_row) {
            let wanted = matches!(roles[id.row()], Role::Activations | Role::ForwardTemporaries);
            let (stacks, rows) = (lives.stacks(), id.row());
            // The weight comes in front of the input it is multiplied with, by the same call.
            let second = 0 < rows
                && stacks[rows - 1] == stacks[rows]
                && lives.requested()[rows - 1] == lives.requested()[rows]
                && roles[rows - 1] == Role::WeightCasts;
            if wanted && !second && take(&mut left, lives.requested()[rows].saturating_mul(2)) {
                roles[rows] = Role::WeightCasts;
                casts += 1;
            }
        }
        // Autocast casts most weights and biases: a few coincidences are none.
        let all: usize = parameters.values().sum();
        if casts * 2 < all {
            for id in (lives.born_by(round.from)..lives.born_by(round.turn)).map(AllocationId::of_row) {
                if roles[id.row()] == Role::WeightCasts {
                    let crosses = round.turn < lives.freed()[id.row()];
                    roles[id.row()] = if crosses { Role::Activations } else { Role::ForwardTemporaries };
                }
            }
        }
    }
}

/// A step that was cut off has seen no backward pass: its lives are what those at the same place of the step before were.
fn tell_cut_off(lives: &Allocations, steps: &Steps, roles: &mut [Role]) {
    let Some(cut) = steps.rows.last().filter(|step| !step.complete || step.rounds.is_empty()) else { return };
    let Some(model) = steps.rows.iter().rev().find(|step| step.complete && !step.rounds.is_empty()) else { return };
    let ids = |step: &Step| (lives.born_by(step.from)..lives.born_by(step.to)).map(AllocationId::of_row);
    let mut seen: FxHashMap<_, Vec<Role>> = FxHashMap::default();
    for id in ids(model) {
        seen.entry(lives.stacks()[id.row()]).or_default().push(roles[id.row()]);
    }
    let mut uses: FxHashMap<_, usize> = FxHashMap::default();
    for id in ids(cut) {
        let stack = lives.stacks()[id.row()];
        let use_number = uses.entry(stack).or_insert(0);
        let told = seen.get(&stack).and_then(|roles| roles.get(*use_number)).copied();
        *use_number += 1;
        let open = cut.to < lives.freed()[id.row()];
        roles[id.row()] = match told {
            Some(role) => role,
            None if open => Role::Activations,
            None => roles[id.row()],
        };
    }
}

impl Query for Workload {
    const NAME: &'static str = "roles";
    type Params = ();
    type Answer = Workload;

    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<Workload, Cancelled> {
        Workload::of(asked.subject.snapshot, asked.device, progress)
    }
}

impl HeapSize for Workload {
    fn heap_size(&self) -> usize {
        self.steps.heap_size()
            + self.roles.capacity() * size_of::<Role>()
            + self.growth.capacity() * size_of::<Growth>()
            + self.samples.capacity() * size_of::<Option<u64>>()
    }
}
