//! What the user gave `whatif`: what the recording ran with, the scenarios, and in what they differ from the recording.

use crate::analysis::step_ends;
use crate::cli::opening::{self, Device};
use crate::model::{AllocatorSettings, Origin, Snapshot};
use crate::report::what_if_given;
use crate::simulator::{AtFailure, EmptyCaches, POLICIES, PolicyKind, Recorded, Scenario, Start, conf};
use anyhow::{anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches};

/// The flags that change more than settings and card.
pub fn variant_arguments() -> [Arg; 4] {
    [
        Arg::new("policy")
            .long("policy")
            .value_name("NAME")
            .value_parser(POLICIES.map(|policy| policy.name))
            .help(format!("The allocator: {}", POLICIES.map(|policy| format!("{} ({})", policy.name, policy.about)).join("; "))),
        Arg::new("empty-cache")
            .long("empty-cache")
            .value_name("WHICH")
            .value_parser(["recorded", "never", "each-step"])
            .help("Which calls of torch.cuda.empty_cache() are made; left out: the recorded ones"),
        Arg::new("endless")
            .long("endless")
            .action(ArgAction::SetTrue)
            .help("Go on behind a failure, from there on as if memory had no end"),
        Arg::new("from-empty")
            .long("from-empty")
            .action(ArgAction::SetTrue)
            .help("Where the recording begins mid-run: begin with an empty card instead of what lay there"),
    ]
}

/// What the recording ran with: the file, then `--recorded`.
pub fn recorded(snapshot: &Snapshot, matches: &ArgMatches) -> anyhow::Result<Recorded> {
    let text = matches.get_one::<String>("recorded").map_or("", String::as_str);
    what_if_given::recorded(snapshot, text).map_err(|error| anyhow!("--recorded: {error}"))
}

/// The settings of each scenario, with the words the user gave; none given: the recorded ones.
pub fn settings(recorded: &Recorded, origin: &Origin, matches: &ArgMatches) -> anyhow::Result<Vec<(String, AllocatorSettings)>> {
    let Some(given) = matches.get_many::<String>("set") else {
        return Ok(vec![(conf::of(&recorded.settings, origin), recorded.settings.clone())]);
    };
    given
        .map(|text| {
            let settings = what_if_given::settings(recorded, text, origin);
            let settings = settings.map_err(|error| anyhow!("--set {text}: {error}"))?;
            Ok((text.clone(), settings))
        })
        .collect()
}

/// The scenario that all of them are made of.
pub fn variant(base: Scenario, snapshot: &Snapshot, device: &Device<'_>, matches: &ArgMatches) -> anyhow::Result<Scenario> {
    let name = matches.get_one::<String>("policy");
    let policy = POLICIES.iter().find(|info| Some(info.name) == name.map(String::as_str));
    let empty_caches = match matches.get_one::<String>("empty-cache").map(String::as_str) {
        Some("never") => EmptyCaches::Without,
        Some("each-step") => {
            let ends = opening::watched(|progress| step_ends(snapshot, device.id, progress))?;
            if ends.is_empty() {
                bail!(
                    "no steps are found in the recording of {}, so no cache can be emptied at their ends",
                    device.memory.title()
                );
            }
            EmptyCaches::After(ends.into())
        }
        _ => EmptyCaches::Recorded,
    };
    Ok(Scenario {
        policy: policy.map_or(PolicyKind::default(), |info| info.kind),
        empty_caches,
        at_failure: if matches.get_flag("endless") { AtFailure::Endless } else { AtFailure::Stop },
        start: if matches.get_flag("from-empty") { Start::Empty } else { Start::Recorded },
        ..base
    })
}
