//! The options of `whatif` that change the job itself.
//!
//! Always: a pattern is a line of the search; one that finds nothing is an error, for it would change nothing.

use crate::analysis::{FindTerms, Found, Workload};
use crate::cli::opening::{self, Device};
use crate::model::Snapshot;
use crate::simulator::{Change, Changed, Chosen, RequestStream, change};
use anyhow::{anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::sync::Arc;

/// What can wait on the host or be left out.
const ACTIVATIONS: &str = "activations";
const OPTIMIZER_STATE: &str = "optimizer-state";

/// A change of chosen blocks.
type Kind = fn(Chosen) -> Change;

/// Adds the options.
pub(super) fn arguments(command: clap::Command) -> clap::Command {
    let factor = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FACTOR").value_parser(value_parser!(f64)).help(help)
    };
    let pattern = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).action(ArgAction::Append).help(help)
    };
    let batch = "The job with so many times the batch: 0.5, 2, or as samples of the new and the recorded batch: 24/32";
    command
        .arg(Arg::new("batch").long("batch").value_name("FACTOR").value_parser(times).help(batch))
        .arg(factor("length", "The job with sequences so many times as long"))
        .arg(
            Arg::new("checkpoint")
                .long("checkpoint")
                .action(ArgAction::SetTrue)
                .help("The job with each layer checkpointed: activations are made again in the backward pass"),
        )
        .arg(
            Arg::new("offload")
                .long("offload")
                .value_name("WHAT")
                .action(ArgAction::Append)
                .value_parser([ACTIVATIONS, OPTIMIZER_STATE])
                .help("The job with this on the host"),
        )
        .arg(
            Arg::new("without")
                .long("without")
                .value_name("WHAT")
                .value_parser([OPTIMIZER_STATE])
                .help("The job with an optimizer that has no state"),
        )
        .arg(
            Arg::new("accumulate")
                .long("accumulate")
                .value_name("N")
                .value_parser(value_parser!(u32).range(2..=1024))
                .help("The job with each batch in N parts and one step of the optimizer"),
        )
        .arg(pattern("scale", "PATTERN=FACTOR", "Blocks that the search finds, so many times as large"))
        .arg(pattern("drop", "PATTERN", "Without the blocks that the search finds"))
        .arg(pattern("shorten", "PATTERN", "Blocks that the search finds are made again in the backward pass"))
        .arg(pattern("move-out", "PATTERN", "Blocks that the search finds wait on the host"))
}

/// A factor: `0.5`, or `24/32`.
fn times(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("{text} is no number: write 0.5 or 24/32"));
    match text.split_once('/') {
        Some((new, recorded)) => Ok(number(new)? / number(recorded)?),
        None => number(text),
    }
}

/// The changed job; none where no option changes it.
pub(super) fn changed(
    matches: &ArgMatches,
    snapshot: &Snapshot,
    device: &Device<'_>,
    asked: &RequestStream,
) -> anyhow::Result<Option<Changed>> {
    let changes = changes(matches, snapshot, device)?;
    if changes.is_empty() {
        return Ok(None);
    }
    let workload = opening::watched(|progress| Workload::of(snapshot, device.id, progress))?;
    let changed = change(asked, &device.memory.allocations, &workload, &changes).map_err(|sentence| anyhow!(sentence))?;
    Ok(Some(changed))
}

fn changes(matches: &ArgMatches, snapshot: &Snapshot, device: &Device<'_>) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    changes.extend(matches.get_one::<f64>("batch").map(|factor| Change::Batch(*factor)));
    changes.extend(matches.get_one::<f64>("length").map(|factor| Change::Length(*factor)));
    changes.extend(matches.get_flag("checkpoint").then_some(Change::Checkpoint));
    for what in matches.get_many::<String>("offload").into_iter().flatten() {
        changes.push(if what == ACTIVATIONS { Change::OffloadActivations } else { Change::OffloadOptimizerState });
    }
    changes.extend(matches.get_one::<String>("without").map(|_| Change::WithoutOptimizerState));
    changes.extend(matches.get_one::<u32>("accumulate").map(|parts| Change::Accumulate(*parts)));
    if changes.contains(&Change::Checkpoint) && changes.contains(&Change::OffloadActivations) {
        bail!("--checkpoint and --offload activations change the same blocks: give one of them");
    }
    for text in matches.get_many::<String>("scale").into_iter().flatten() {
        let told = text.rsplit_once('=').and_then(|(words, factor)| Some((words, factor.parse::<f64>().ok()?)));
        let Some((words, factor)) = told else { bail!("--scale {text}: write a pattern, =, and a factor: attention=2") };
        changes.push(Change::Scale(chosen("scale", words, snapshot, device)?, factor));
    }
    let kinds: [(&str, Kind); 3] = [("drop", Change::Drop), ("shorten", Change::Shorten), ("move-out", Change::MoveOut)];
    for (name, kind) in kinds {
        for words in matches.get_many::<String>(name).into_iter().flatten() {
            changes.push(kind(chosen(name, words, snapshot, device)?));
        }
    }
    Ok(changes)
}

/// The blocks a pattern finds.
fn chosen(option: &str, words: &str, snapshot: &Snapshot, device: &Device<'_>) -> anyhow::Result<Chosen> {
    let terms = FindTerms::parse(words).map_err(|error| anyhow!("--{option} {words}: {error}"))?;
    let Some(terms) = terms.map(Arc::new) else { bail!("--{option}: the pattern is empty") };
    let found = opening::watched(|progress| Found::of(snapshot, device.memory, &terms, progress))?;
    if found.sum.count == 0 {
        bail!("--{option} {words}: no block is found by it");
    }
    let lives = device.memory.allocations.ids().map(|id| found.has(id)).collect();
    Ok(Chosen { words: words.to_owned(), lives })
}
