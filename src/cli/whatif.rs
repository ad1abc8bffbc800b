//! `whatif`: the recording's requests served again under other settings or on another card.

use crate::analysis::{Asked, Subject};
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::output;
use crate::report::what_if::WhatIf;
use crate::report::whatif_json::{ScenarioRow, write_whatif};
use crate::simulator::{PolicyKind, Scenario, SweepRow, placement_range, record, simulate, smallest_card, sweep};
use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::io::Write as _;
use std::path::PathBuf;

mod change_args;
mod given;
mod text;

/// The subcommand.
pub const COMMAND: Command = Command { name: "whatif", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    let command = change_args::arguments(command);
    let size = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("SIZE").value_parser(crate::cli::why::size).help(help)
    };
    command
        .about("What if: the job's requests served again under other allocator settings or on another card")
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(
            Arg::new("set").long("set").value_name("K:V,…").action(ArgAction::Append).help(
                "A scenario: its whole PYTORCH_CUDA_ALLOC_CONF. Give it several times to compare; left out: the recorded one",
            ),
        )
        .arg(
            Arg::new("recorded")
                .long("recorded")
                .value_name("K:V,…")
                .help("What the recording ran with where the file does not say, and its card: max_split_size_mb:128,total:80GiB"),
        )
        .arg(size("capacity", "The card's memory: 80GiB, 24576MiB; left out: what the recording tells, else without end"))
        .arg(size("outside", "What others hold of the card: the driver's contexts, other processes"))
        .arg(
            Arg::new("sweep")
                .long("sweep")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["set", "smallest-card"])
                .help("Try all sensible settings that the recording's release knows, and rank them"),
        )
        .args(given::variant_arguments())
        .arg(
            Arg::new("smallest-card")
                .long("smallest-card")
                .action(ArgAction::SetTrue)
                .help("Look for the smallest card that serves all that was recorded"),
        )
        .arg(
            Arg::new("report")
                .long("report")
                .value_name("OUT")
                .value_parser(value_parser!(PathBuf))
                .help("Write the report of the run (with --sweep: of the best) to a file ending in .png, .html, .md or .json"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as one JSON list, one object a scenario"))
        .arg(crate::cli::moment::device())
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let snapshot = opening::open(path)?;
    let recorded = given::recorded(&snapshot, matches)?;
    let settings = given::settings(&recorded, &snapshot.origin, matches)?;
    let is_sweep = matches.get_flag("sweep");
    let report = matches.get_one::<PathBuf>("report");
    if report.is_some() && 1 < settings.len() {
        bail!("a report is of one run: give --set once, or --sweep for the best");
    }
    let device = Device::pick(&snapshot, crate::cli::moment::device_of(matches))?;
    let (memory, file) = (device.memory, output::one_line(&snapshot.origin.name));
    let replays: Vec<_> = snapshot.devices.as_slice().iter().map(crate::replay::Replay::new).collect();
    let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device: device.id };
    let outside = matches.get_one::<u64>("outside").copied();
    let what_if = opening::watched(|progress| WhatIf::prepare(&asked, recorded, outside, progress));
    let mut what_if = what_if.map_err(|error| anyhow!("{} of {file} cannot be served again: {error}", memory.title()))?;
    let changed = change_args::changed(matches, &snapshot, &device, &what_if.asked)?;
    let change = changed.as_ref().map(|changed| changed.note.clone());
    if let Some(changed) = changed {
        what_if.asked = changed.asked;
    }
    let own = what_if.recorded.settings.clone();
    let base = what_if.scenario(own.clone(), matches.get_one::<u64>("capacity").copied());
    let base = given::variant(base, &snapshot, &device, matches)?;
    let mut rows = Vec::new();
    if is_sweep {
        if base.policy != PolicyKind::Caching {
            bail!("settings are PyTorch's: leave --policy out, or --sweep");
        }
        let found = opening::watched(|progress| sweep(&what_if.asked, &base, &snapshot.origin, progress))?;
        for SweepRow { conf, settings, is_recorded, outcome, .. } in found {
            let scenario = Scenario { settings, ..base.clone() };
            rows.push(ScenarioRow {
                settings: conf,
                scenario,
                is_recorded,
                outcome,
                smallest: None,
                range: None,
                change: change.clone(),
            });
        }
    } else {
        for (settings, chosen) in settings {
            let is_recorded = chosen == own;
            let scenario = Scenario { settings: chosen, ..base.clone() };
            let outcome = opening::watched(|progress| simulate(&what_if.asked, &scenario, progress))?;
            let smallest = matches
                .get_flag("smallest-card")
                .then(|| opening::watched(|progress| smallest_card(&what_if.asked, &scenario, progress)));
            rows.push(ScenarioRow {
                settings,
                scenario,
                is_recorded,
                outcome,
                smallest: smallest.transpose()?,
                range: None,
                change: change.clone(),
            });
        }
    }
    for row in &mut rows {
        row.range = opening::watched(|progress| placement_range(&what_if.asked, &row.scenario, progress))?;
    }
    let mut out = output::answers();
    if matches.get_flag("json") {
        write_whatif(&rows, &what_if.fidelity, &mut out)?;
    } else {
        let told = text::Told { file: &file, snapshot: &snapshot, memory, what_if: &what_if, is_sweep };
        out.write_all(text::of(&rows, &told).as_bytes())?;
    }
    out.flush()?;
    if let (Some(path), Some(row)) = (report, rows.first()) {
        let run = opening::watched(|progress| record(&snapshot, device.id, &what_if.asked, &row.scenario, progress));
        let (_, simulated) = run?;
        crate::cli::report::write_snapshot(&simulated, path)?;
    }
    Ok(Outcome::Done)
}
