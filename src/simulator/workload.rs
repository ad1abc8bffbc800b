//! What if the job itself were another: its requests changed, to be served like the recorded ones.
//!
//! Always: requests stay in the recorded order, with what is new put between them; a life is still asked for once and
//! given back at most once. Every change says what it takes for granted ([`Changed::assumption`]) and which way it errs
//! ([`Bound`]): these are estimates, not reproductions.

use crate::analysis::{Role, StepWay, Workload};
use crate::base::id::Id as _;
use crate::model::{AllocationId, Allocations};
use crate::simulator::edit::Edit;
use crate::simulator::layers;
use crate::simulator::request::RequestStream;
use crate::simulator::whole_samples::Samples;

/// A change of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// So many times the batch.
    Batch(f64),
    /// So many times the length of the sequences.
    Length(f64),
    /// Each repeated layer keeps its input alone and runs again in the backward pass.
    Checkpoint,
    /// What the forward pass holds for the backward pass waits on the host.
    OffloadActivations,
    /// The optimizer works on the host.
    OffloadOptimizerState,
    /// An optimizer without state.
    WithoutOptimizerState,
    /// The batch in so many parts, with one step of the optimizer.
    Accumulate(u32),
    /// Lives chosen by the user, so many times as large.
    Scale(Chosen, f64),
    /// Lives chosen by the user are not asked for.
    Drop(Chosen),
    /// Lives chosen by the user go when used, and are made again for their last use.
    Shorten(Chosen),
    /// Lives chosen by the user wait on the host.
    MoveOut(Chosen),
}

/// Lives the user chose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// The words that chose them.
    pub words: String,
    /// By life.
    pub lives: Vec<bool>,
}

impl Chosen {
    fn has(&self, id: AllocationId) -> bool {
        self.lives.get(id.row()).copied().unwrap_or(false)
    }
}

/// Which way a change errs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Either way.
    Estimate,
    /// The peaks are no lower than this, where the assumption holds.
    Lower,
    /// The peaks are no higher than this, where the assumption holds.
    Upper,
}

impl Bound {
    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Estimate => "estimate",
            Bound::Lower => "lower bound",
            Bound::Upper => "upper bound",
        }
    }
}

/// A changed job.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What it asks for.
    pub asked: RequestStream,
    /// What was changed.
    pub what: String,
    /// What is taken for granted.
    pub assumption: String,
    /// Which way it errs.
    pub bound: Bound,
}

/// Changes a job; several changes hold together. A sentence says what a change cannot be made on.
pub fn change(asked: &RequestStream, lives: &Allocations, workload: &Workload, changes: &[Change]) -> Result<Changed, String> {
    let mut edit = Edit::new(asked, lives);
    let (mut what, mut assumptions, mut bound) = (Vec::new(), Vec::new(), None);
    let mut samples = Samples::of(workload);
    let mut ordered: Vec<&Change> = changes.iter().collect();
    // Sizes first, then lives, then passes that come again: each works on what the former left.
    ordered.sort_by_key(|change| match change {
        Change::Batch(_) | Change::Length(_) | Change::Scale(..) => 0,
        Change::Accumulate(_) => 2,
        _ => 1,
    });
    for change in ordered {
        let told = apply(&mut edit, workload, &mut samples, change)?;
        what.push(told.0);
        assumptions.push(told.1);
        // Together they err as they do alone only where all err one way.
        bound = Some(bound.map_or(told.2, |bound| if bound == told.2 { bound } else { Bound::Estimate }));
    }
    // Where steps of different shapes tell what grows, it does not matter where passes meet.
    let passes = |change: &Change| match change {
        Change::Batch(_) | Change::Length(_) => workload.told.shapes < 2,
        Change::Scale(..) | Change::Drop(_) => false,
        _ => true,
    };
    if workload.steps.way == Some(StepWay::LowWater) && changes.iter().any(passes) {
        assumptions.push("Without stacks the passes are taken to meet at the peak of memory, so what begins the backward pass may count as held for it.".to_owned());
    }
    if asked.start.is_some() {
        assumptions.push("What is older than the recording keeps its size and place, unless it is left out.".to_owned());
    }
    Ok(Changed {
        asked: edit.finish(),
        what: what.join(", "),
        assumption: assumptions.join(" "),
        bound: bound.unwrap_or(Bound::Estimate),
    })
}

type Told = (String, String, Bound);

fn apply(edit: &mut Edit<'_>, workload: &Workload, samples: &mut Samples, change: &Change) -> Result<Told, String> {
    let needs_steps = || {
        let any = workload.steps.rows.iter().any(|step| !step.rounds.is_empty());
        let sentence =
            "no step with a forward and a backward pass was found in the recording, so what belongs to which is not known";
        if any { Ok(()) } else { Err(sentence.to_owned()) }
    };
    Ok(match change {
        Change::Batch(factor) => {
            let factor = checked(*factor)?;
            if workload.growth.iter().all(|growth| growth.batch == 0) {
                return Err(NOTHING_GROWS.to_owned());
            }
            let (lives, of_step) = (edit.lives, samples.scale(factor));
            edit.scale(|id| match workload.growth[id.row()].batch {
                0 => 1.0,
                _ => workload.batch_of(lives, id).map_or(factor, |row| of_step[row]),
            });
            edit.scale_failures(factor);
            let assumption = format!("{} {}", batch_words(workload), Samples::words(workload, samples));
            (format!("batch ×{factor}"), assumption, Bound::Estimate)
        }
        Change::Length(factor) => {
            let factor = checked(*factor)?;
            if workload.growth.iter().all(|growth| growth.length == 0) {
                return Err(NOTHING_GROWS.to_owned());
            }
            edit.scale(|id| factor.powi(i32::from(workload.growth[id.row()].length)));
            edit.scale_failures(factor);
            (format!("length ×{factor}"), length_words(workload), Bound::Estimate)
        }
        Change::Scale(chosen, factor) => {
            let factor = checked(*factor)?;
            edit.scale(|id| if chosen.has(id) { factor } else { 1.0 });
            let assumption =
                format!("All blocks that \u{201c}{}\u{201d} finds grow in proportion; nothing else changes.", chosen.words);
            (format!("{} ×{factor}", chosen.words), assumption, Bound::Estimate)
        }
        Change::WithoutOptimizerState | Change::OffloadOptimizerState => {
            needs_steps()?;
            edit.drop_lives(|id| matches!(workload.role(id), Role::OptimizerState | Role::OptimizerTemporaries));
            let (what, who) = if *change == Change::WithoutOptimizerState {
                ("without optimizer state", "An optimizer without state asks for nothing in its step")
            } else {
                ("optimizer state on the host", "The optimizer works on the host and asks for nothing on the device")
            };
            let assumption = format!("{who}: its state and its temporaries are left out, all else stays.");
            (what.to_owned(), assumption, Bound::Estimate)
        }
        Change::Drop(chosen) => {
            edit.drop_lives(|id| chosen.has(id));
            let assumption =
                format!("Blocks that \u{201c}{}\u{201d} finds are not asked for; nothing takes their place.", chosen.words);
            (format!("without {}", chosen.words), assumption, Bound::Lower)
        }
        Change::OffloadActivations => {
            needs_steps()?;
            layers::move_out(edit, workload, |id| matches!(workload.role(id), Role::Activations | Role::WeightCasts));
            let assumption = "What is held for the backward pass goes when the second block after it is made, and is back \
                 for the call that frees it; a tensor that several calls need is brought back once.";
            ("activations on the host".to_owned(), assumption.to_owned(), Bound::Estimate)
        }
        Change::Shorten(chosen) => {
            needs_steps()?;
            layers::move_out(edit, workload, |id| chosen.has(id));
            let assumption = format!(
                "Blocks of the forward pass that \u{201c}{}\u{201d} finds go when the second block after them is made and are made again \
                 for the call that frees them; what making them again needs meanwhile is not counted.",
                chosen.words
            );
            (format!("{} made again", chosen.words), assumption, Bound::Lower)
        }
        Change::MoveOut(chosen) => {
            let lasts = |id: AllocationId| {
                matches!(workload.role(id), Role::Parameters | Role::OptimizerState | Role::Kept | Role::Unknown)
            };
            edit.drop_lives(|id| chosen.has(id) && lasts(id));
            layers::move_out(edit, workload, |id| chosen.has(id) && !lasts(id));
            let assumption = format!(
                "Blocks that \u{201c}{}\u{201d} finds wait on the host: those of a pass come back for the call that frees them, those that \
                 last do not come back.",
                chosen.words
            );
            (format!("{} on the host", chosen.words), assumption, Bound::Lower)
        }
        Change::Checkpoint => {
            needs_steps()?;
            let found = layers::checkpoint(edit, workload);
            if found == 0 {
                return Err(
                    "no layer repeats in the forward passes of the recording, so where to keep inputs is not known".into()
                );
            }
            let assumption = format!(
                "The forward pass repeats {found} layers; each keeps its input alone, holds the rest to its own end, and runs again, \
                 with its temporaries and weight casts, in front of its backward pass."
            );
            ("each layer checkpointed".to_owned(), assumption, Bound::Estimate)
        }
        Change::Accumulate(parts) => {
            needs_steps()?;
            if *parts < 2 {
                return Err(format!("a batch cannot be taken in {parts} parts: two is the least"));
            }
            let (lives, shares) = (edit.lives, samples.parts(*parts));
            let equal = vec![1.0 / f64::from(*parts); *parts as usize];
            let share_of = |row: Option<usize>| row.map_or(&equal, |row| &shares[row]);
            edit.scale(|id| match workload.role(id) {
                Role::Inputs => 1.0,
                _ if workload.growth[id.row()].batch == 0 => 1.0,
                _ => share_of(workload.batch_of(lives, id))[0],
            });
            layers::accumulate(edit, workload, |row| share_of(Some(row)));
            let assumption = format!(
                "Each pass comes {parts} times with one {parts}th of the batch, in whole samples where these are told, the larger parts \
                 first; gradients stay from the first on, later ones are added to them and go at once. {}",
                batch_words(workload)
            );
            (format!("gradients accumulated over {parts} parts"), assumption, Bound::Estimate)
        }
    })
}

fn checked(factor: f64) -> Result<f64, String> {
    if factor.is_finite() && 0.0 < factor { Ok(factor) } else { Err(format!("{factor} is no factor: it must be above 0")) }
}

/// Said where a factor would change nothing.
const NOTHING_GROWS: &str =
    "no block of the recording was found to grow: it shows no step with a pass, so the job would be as it was";

fn batch_words(workload: &Workload) -> String {
    if 1 < workload.told.shapes {
        format!("What grows with the batch is told by {} steps of different shapes.", workload.told.shapes)
    } else {
        "No steps of different shapes could be compared: activations, inputs and temporaries of the passes are taken to grow with \
         the batch, all else to stay."
            .to_owned()
    }
}

fn length_words(workload: &Workload) -> String {
    let told = workload.told;
    if told.length {
        return format!("Steps of {} shapes tell what grows with the length and what with its square.", told.shapes);
    }
    let shown = if told.one_measure {
        format!(
            "Steps of {} shapes differ in one measure alone, and nothing tells whether it is the batch or the length: what grows with \
             it is taken to grow with the length",
            told.shapes
        )
    } else {
        "No steps of different shapes could be compared, so nothing tells what grows with the length: activations, inputs and \
         temporaries of the passes are taken to grow with it"
            .to_owned()
    };
    let square = if 0 < told.guessed_square {
        "; of these, what is no whole multiple of a width of the model for each token, and is no smaller than the usual ones, with its \
         square"
    } else {
        ", and nothing looks as if it grew with its square"
    };
    format!("{shown}{square}. A job without sequences has no length: the figures are then those of another batch.")
}
