//! `flame`: live bytes by stack at one moment, as a flame graph.

use crate::analysis::{FlameDirection, FlameOf, FlameParams, FlameTree, LiveCounter};
use crate::base::Progress;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output, picture};
use crate::report::{FLAMES, FlameSubject, ReportOptions, flame_of_name};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "flame", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("Live bytes by stack at one moment, as a flame graph")
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(output::place(&kinds()))
        .arg(
            Arg::new("counter")
                .long("counter")
                .value_name("COUNTER")
                .value_parser(LiveCounter::ALL.map(LiveCounter::name))
                .default_value(LiveCounter::Allocated.name())
                .help("Which bytes: of blocks in use, what the program asked for, or with pending frees"),
        )
        .arg(
            Arg::new("fold")
                .long("fold")
                .action(ArgAction::SetTrue)
                .help("Leave out frames of PyTorch, Python and the system; the sums stay"),
        );
    let command = picture::arguments(command, "Size of a picture in points; it is as high as the graph, and at least H");
    moment::arguments(command)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let out = matches.get_one::<PathBuf>("out").context("no place to write to was named: add -o OUT")?;
    let Some(form) = flame_of_name(&out.to_string_lossy()) else {
        bail!("no flame graph is called {}: its ending must be one of {}", out.display(), kinds());
    };
    let named = matches.get_one::<String>("counter");
    let counter = LiveCounter::ALL.into_iter().find(|counter| named.is_some_and(|name| name == counter.name()));
    let snapshot = opening::open(path)?;
    let device = Device::pick(&snapshot, moment::device_of(matches))?;
    let at = moment::of(matches)
        .position(device.memory, &device.timeline)
        .map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))?;
    let params = FlameParams {
        of: FlameOf::Live { at, counter: counter.unwrap_or_default() },
        direction: FlameDirection::TopDown,
        fold_framework: matches.get_flag("fold"),
    };
    let tree = FlameTree::of(device.memory, &device.replay, &snapshot.stacks, &params, &Progress::new())?;
    let subject = FlameSubject { snapshot: &snapshot, device: &device.memory.title(), tree: &tree };
    let mut bytes = Vec::new();
    let options = picture::options(matches, ReportOptions { height_pt: 0, ..ReportOptions::default() });
    form.write(&subject, &options, &mut bytes)?;
    std::fs::write(out, bytes).map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", out.display()))?;
    output::note(&format!("wrote {}", out.display()));
    Ok(Outcome::Done)
}

fn kinds() -> String {
    let kinds: Vec<String> = FLAMES.iter().map(|form| format!(".{} ({})", form.extension(), form.name())).collect();
    kinds.join(", ")
}
