//! The options of `whatif` that change the job itself.
//!
//! Always: they are read as the form of the window is; this only collects their words.

use crate::analysis::Workload;
use crate::cli::opening::{self, Device};
use crate::model::Snapshot;
use crate::report::what_if_job::{BlockDeed, BlockWords, ChangedJob, JobWords, Naming};
use crate::simulator::RequestStream;
use anyhow::{anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches};

/// What can wait on the host or be left out.
const ACTIVATIONS: &str = "activations";
const OPTIMIZER_STATE: &str = "optimizer-state";

/// Adds the options.
pub(super) fn arguments(command: clap::Command) -> clap::Command {
    let factor = |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("FACTOR").help(help);
    let pattern = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).action(ArgAction::Append).help(help)
    };
    let batch = "The job with so many times the batch: 0.5, 2, or as samples of the new and the recorded batch: 24/32";
    command
        .arg(factor("batch", batch))
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
                .help("The job with each batch in N parts and one step of the optimizer"),
        )
        .arg(pattern("scale", "PATTERN=FACTOR", "Blocks that the search finds, so many times as large"))
        .arg(pattern("drop", "PATTERN", "Without the blocks that the search finds"))
        .arg(pattern("shorten", "PATTERN", "Blocks that the search finds are made again in the backward pass"))
        .arg(pattern("move-out", "PATTERN", "Blocks that the search finds wait on the host"))
}

/// The changed job; none where no option changes it.
pub(super) fn changed(
    matches: &ArgMatches,
    snapshot: &Snapshot,
    device: &Device<'_>,
    asked: &RequestStream,
) -> anyhow::Result<Option<ChangedJob>> {
    let given = words(matches)?.read(Naming::Options).map_err(|sentence| anyhow!(sentence))?;
    if given.is_empty() {
        return Ok(None);
    }
    let workload = opening::watched(|progress| Workload::of(snapshot, device.id, progress))?;
    Ok(Some(opening::watched(|progress| given.change(asked, snapshot, device.id, &workload, progress))?))
}

fn words(matches: &ArgMatches) -> anyhow::Result<JobWords> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    for name in ["batch", "length", "accumulate"] {
        // In the form an empty field changes nothing; an option that is given is to change something.
        if text(name).is_some_and(|text| text.trim().is_empty()) {
            bail!("--{name}: nothing is given");
        }
    }
    let offloads = |what: &str| matches.get_many::<String>("offload").into_iter().flatten().any(|given| given == what);
    let mut blocks = Vec::new();
    for (deed, _, option) in BlockDeed::ALL {
        for text in matches.get_many::<String>(option.trim_start_matches("--")).into_iter().flatten() {
            let (pattern, factor) = if deed == BlockDeed::Scale {
                let told = text.rsplit_once('=');
                told.ok_or_else(|| anyhow!("{option} {text}: write a pattern, =, and a factor: attention=2"))?
            } else {
                (text.as_str(), "")
            };
            blocks.push(BlockWords { deed, pattern: pattern.to_owned(), factor: factor.to_owned() });
        }
    }
    Ok(JobWords {
        batch: text("batch").unwrap_or_default(),
        length: text("length").unwrap_or_default(),
        checkpoint: matches.get_flag("checkpoint"),
        offload_activations: offloads(ACTIVATIONS),
        offload_optimizer: offloads(OPTIMIZER_STATE),
        without_optimizer: matches.contains_id("without"),
        accumulate: text("accumulate").unwrap_or_default(),
        blocks,
    })
}
