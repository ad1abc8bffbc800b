//! `report`: the post-mortem on paper.

use crate::analysis::Moment;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output, picture};
use crate::replay::Replay;
use crate::report::{REPORTS, ReportOptions, ReportSubject, report_of_extension};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, value_parser};
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "report", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("The post-mortem on paper: facts, usage over time, layout at the moment, who holds the memory")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Snapshot"),
        )
        .arg(output::place(&kinds()));
    let command = picture::arguments(command, "Page size in points; the page grows if it needs more");
    moment::arguments(command)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let files: Vec<&PathBuf> = matches.get_many::<PathBuf>("files").into_iter().flatten().collect();
    let out = matches.get_one::<PathBuf>("out").context("no place to write to was named: add -o OUT")?;
    let options = picture::options(matches, ReportOptions::default());
    let [file] = files[..] else { bail!("a picture shows one file, {} were named: run `report` once for each", files.len()) };
    write(file, moment::device_of(matches), moment::of(matches), out, &options)?;
    Ok(Outcome::Done)
}

/// Writes the report of one file at a moment, whole or not at all.
pub fn write(file: &Path, device: Option<i32>, moment: Moment, out: &Path, options: &ReportOptions) -> anyhow::Result<()> {
    let extension = out.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(report) = report_of_extension(&extension) else {
        bail!("no report is called {}: its ending must be one of {}", out.display(), kinds());
    };
    let snapshot = opening::open(file)?;
    let device = Device::pick(&snapshot, device)?;
    let position = moment
        .position(device.memory, &device.timeline)
        .map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))?;
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device: device.id, position };
    let mut bytes = Vec::new();
    report.write(&subject, options, &mut bytes)?;
    std::fs::write(out, bytes).map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", out.display()))?;
    output::note(&format!("wrote {}", out.display()));
    Ok(())
}

fn kinds() -> String {
    let kinds: Vec<String> = REPORTS.iter().map(|report| format!(".{} ({})", report.extension(), report.name())).collect();
    kinds.join(", ")
}
