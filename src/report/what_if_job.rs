//! What a user gives of a change of the job, in words: read for the command line and the window alike, and made.
//!
//! Always: what the two say of it is one sentence with another name in it; blocks are chosen by a line of the search, and
//! one that finds nothing is an error, for it would change nothing.

use crate::analysis::{FindTerms, Found, Workload};
use crate::base::{Cancelled, Progress};
use crate::model::{DeviceId, Snapshot};
use crate::report::whatif_json::ChangeNote;
use crate::simulator::{Change, Chosen, RequestStream, change};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A batch is taken in at most so many parts.
const MOST_PARTS: u32 = 1024;

/// What is filled in, as it was typed; what is empty changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct JobWords {
    /// So many times the batch.
    pub batch: String,
    /// So many times the length of the sequences.
    pub length: String,
    /// Whether each layer is checkpointed.
    pub checkpoint: bool,
    /// Whether activations wait on the host.
    pub offload_activations: bool,
    /// Whether the optimizer's state is on the host.
    pub offload_optimizer: bool,
    /// Whether the optimizer has no state.
    pub without_optimizer: bool,
    /// In how many parts the batch is taken.
    pub accumulate: String,
    /// Blocks that a search finds.
    pub blocks: Vec<BlockWords>,
}

/// What becomes of blocks that a search finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockWords {
    /// What becomes of them.
    pub deed: BlockDeed,
    /// A line of the search.
    pub pattern: String,
    /// So many times as large, where they are scaled.
    pub factor: String,
}

/// What can become of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockDeed {
    /// So many times as large.
    #[default]
    Scale,
    /// They are not asked for.
    Drop,
    /// They are made again in the backward pass.
    Shorten,
    /// They wait on the host.
    MoveOut,
}

impl BlockDeed {
    /// All of them: the word of the form, and the option of the command line.
    pub const ALL: [(BlockDeed, &'static str, &'static str); 4] = [
        (BlockDeed::Scale, "scaled", "--scale"),
        (BlockDeed::Drop, "left out", "--drop"),
        (BlockDeed::Shorten, "made again", "--shorten"),
        (BlockDeed::MoveOut, "on the host", "--move-out"),
    ];
}

/// By which names sentences call what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Options of the command line.
    Options,
    /// Fields of the form.
    Fields,
}

impl Naming {
    fn of(self, option: &'static str, field: &'static str) -> &'static str {
        if self == Naming::Options { option } else { field }
    }
    /// The name of what becomes of blocks.
    fn deed(self, deed: BlockDeed) -> String {
        let row = BlockDeed::ALL.iter().find(|row| row.0 == deed).unwrap_or(&BlockDeed::ALL[0]);
        if self == Naming::Options { row.2.to_owned() } else { format!("Blocks {}", row.1) }
    }
}

/// A change, read but for the search for its blocks.
#[derive(Clone, Debug)]
enum Read {
    Whole(Change),
    Blocks { name: String, deed: BlockDeed, words: String, terms: Arc<FindTerms>, factor: f64 },
}

/// The changes, read; blocks are still to be searched for.
#[derive(Clone, Debug, Default)]
pub struct JobGiven(Vec<Read>);

/// Why a changed job is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It was no longer wanted.
    #[error("cancelled")]
    Cancelled,
    /// It cannot be made; a sentence.
    #[error("{0}")]
    Sentence(String),
}

impl From<Cancelled> for ChangeError {
    fn from(Cancelled: Cancelled) -> Self {
        ChangeError::Cancelled
    }
}

/// A changed job, ready to be served.
#[derive(Clone, Debug)]
pub struct ChangedJob {
    /// What it asks for.
    pub asked: RequestStream,
    /// What was changed, in words.
    pub note: ChangeNote,
}

impl JobWords {
    /// Whether anything is changed.
    pub fn is_empty(&self) -> bool {
        *self == JobWords::default()
    }
    /// Reads what is given; the error is a sentence.
    pub fn read(&self, naming: Naming) -> Result<JobGiven, String> {
        let mut read = Vec::new();
        let whole = |change| Read::Whole(change);
        if let Some(factor) = factor(&self.batch, naming.of("--batch", "Batch"))? {
            read.push(whole(Change::Batch(factor)));
        }
        if let Some(factor) = factor(&self.length, naming.of("--length", "Sequence length"))? {
            read.push(whole(Change::Length(factor)));
        }
        if self.checkpoint && self.offload_activations {
            let (one, other) = match naming {
                Naming::Options => ("--checkpoint", "--offload activations"),
                Naming::Fields => ("Activations made again", "activations on the host"),
            };
            return Err(format!("{one} and {other} change the same blocks: give one of them"));
        }
        if self.offload_optimizer && self.without_optimizer {
            let (one, other) = match naming {
                Naming::Options => ("--offload optimizer-state", "--without optimizer-state"),
                Naming::Fields => ("Optimizer state on the host", "no optimizer state"),
            };
            return Err(format!("{one} and {other} change the same blocks: give one of them"));
        }
        for (is_given, change) in [
            (self.checkpoint, Change::Checkpoint),
            (self.offload_activations, Change::OffloadActivations),
            (self.offload_optimizer, Change::OffloadOptimizerState),
            (self.without_optimizer, Change::WithoutOptimizerState),
        ] {
            read.extend(is_given.then(|| whole(change)));
        }
        let parts = self.accumulate.trim();
        if !parts.is_empty() {
            let number = parts.parse::<u32>().ok().filter(|number| (2..=MOST_PARTS).contains(number));
            let name = naming.of("--accumulate", "Accumulate over");
            let number = number.ok_or_else(|| format!("{name}: {parts} is no number of parts: 2 to {MOST_PARTS}"))?;
            read.push(whole(Change::Accumulate(number)));
        }
        for BlockWords { deed, pattern, factor: text } in &self.blocks {
            let (name, words) = (naming.deed(*deed), pattern.trim());
            let factor = if *deed == BlockDeed::Scale {
                let named = format!("{name} {words}");
                factor(text, &named)?.ok_or_else(|| format!("{named}: {WANTED_FACTOR}"))?
            } else {
                1.0
            };
            let terms = FindTerms::parse(words).map_err(|error| format!("{name} {words}: {error}"))?;
            let terms = terms.map(Arc::new).ok_or_else(|| format!("{name}: the pattern is empty"))?;
            read.push(Read::Blocks { name, deed: *deed, words: words.to_owned(), terms, factor });
        }
        Ok(JobGiven(read))
    }
}

/// What is wanted of a factor.
const WANTED_FACTOR: &str = "write a factor above 0, as 0.5, 2 or 24/32";

/// A factor, as one number or as the new one over the recorded one; none where nothing is given.
fn factor(text: &str, name: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = |part: &str| {
        let number = part.trim().parse::<f64>();
        number.map_err(|_| format!("{name}: {text} is no number: {WANTED_FACTOR}"))
    };
    let factor = match text.split_once('/') {
        Some((new, recorded)) => number(new)? / number(recorded)?,
        None => number(text)?,
    };
    if factor.is_finite() && 0.0 < factor {
        Ok(Some(factor))
    } else {
        Err(format!("{name}: {text} is no factor: it must be above 0"))
    }
}

impl JobGiven {
    /// Whether anything is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Changes a job, of which a workload tells what belongs to what.
    pub fn change(
        &self,
        asked: &RequestStream,
        snapshot: &Snapshot,
        device: DeviceId,
        workload: &Workload,
        progress: &Progress,
    ) -> Result<ChangedJob, ChangeError> {
        let memory = &snapshot.devices[device];
        let mut changes = Vec::with_capacity(self.0.len());
        for read in &self.0 {
            let (name, deed, words, terms, factor) = match read {
                Read::Whole(change) => {
                    changes.push(change.clone());
                    continue;
                }
                Read::Blocks { name, deed, words, terms, factor } => (name, deed, words, terms, *factor),
            };
            let found = Found::of(snapshot, memory, terms, progress)?;
            if found.sum.count == 0 {
                return Err(ChangeError::Sentence(format!("{name} {words}: no block is found by it")));
            }
            let lives = memory.allocations.ids().map(|id| found.has(id)).collect();
            let chosen = Chosen { words: words.clone(), lives };
            changes.push(match deed {
                BlockDeed::Scale => Change::Scale(chosen, factor),
                BlockDeed::Drop => Change::Drop(chosen),
                BlockDeed::Shorten => Change::Shorten(chosen),
                BlockDeed::MoveOut => Change::MoveOut(chosen),
            });
        }
        progress.stage("changing the job", 0)?;
        let changed = change(asked, &memory.allocations, workload, &changes).map_err(ChangeError::Sentence)?;
        let note = ChangeNote::of(&changed);
        let mut asked = changed.asked;
        asked.change = Some(note.brief().into());
        Ok(ChangedJob { asked, note })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_do_is_a_sentence_with_the_name_of_what_was_given() {
        let blocks = |deed, pattern: &str, factor: &str| JobWords {
            blocks: vec![BlockWords { deed, pattern: pattern.into(), factor: factor.into() }],
            ..JobWords::default()
        };
        for (words, option, field) in [
            (
                JobWords { batch: "0".into(), ..JobWords::default() },
                "--batch: 0 is no factor: it must be above 0",
                "Batch: 0 is no factor: it must be above 0",
            ),
            (
                JobWords { length: "long".into(), ..JobWords::default() },
                "--length: long is no number: write a factor above 0, as 0.5, 2 or 24/32",
                "Sequence length: long is no number: write a factor above 0, as 0.5, 2 or 24/32",
            ),
            (
                JobWords { accumulate: "1".into(), ..JobWords::default() },
                "--accumulate: 1 is no number of parts: 2 to 1024",
                "Accumulate over: 1 is no number of parts: 2 to 1024",
            ),
            (
                JobWords { checkpoint: true, offload_activations: true, ..JobWords::default() },
                "--checkpoint and --offload activations change the same blocks: give one of them",
                "Activations made again and activations on the host change the same blocks: give one of them",
            ),
            (blocks(BlockDeed::Drop, " ", ""), "--drop: the pattern is empty", "Blocks left out: the pattern is empty"),
            (
                blocks(BlockDeed::Scale, "softmax", ""),
                "--scale softmax: write a factor above 0, as 0.5, 2 or 24/32",
                "Blocks scaled softmax: write a factor above 0, as 0.5, 2 or 24/32",
            ),
        ] {
            assert_eq!(words.read(Naming::Options).map(|_| ()), Err(option.to_owned()));
            assert_eq!(words.read(Naming::Fields).map(|_| ()), Err(field.to_owned()));
        }
        let all = JobWords { batch: " 2 ".into(), accumulate: "4".into(), checkpoint: true, ..JobWords::default() };
        assert_eq!(all.read(Naming::Fields).map(|given| given.0.len()), Ok(3));
        assert!(JobWords::default().read(Naming::Fields).is_ok_and(|given| given.is_empty()));
    }
}
