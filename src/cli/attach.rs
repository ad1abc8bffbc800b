//! `attach`: records a Python job that already runs.

use crate::capture::attach::Attached;
use crate::cli::capture;
use crate::cli::command::{Command, Outcome};
use crate::cli::output;
use anyhow::Context as _;
use clap::{Arg, ArgMatches, value_parser};
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "attach", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    capture::recording_arguments(command)
        .about("Record a Python job that already runs (Python 3.14 or later)")
        .arg(Arg::new("process").value_name("PID").required(true).value_parser(value_parser!(u32).range(1..)).help("The process"))
        .arg(
            Arg::new("python")
                .long("python")
                .value_name("PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .help("The Python it runs, where that cannot be found out"),
        )
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let process = *matches.get_one::<u32>("process").context("no process was named")?;
    let python = matches.get_one::<PathBuf>("python");
    let attached = Attached::to(process, python.map(PathBuf::as_path), &capture::request(matches))?;
    attached.wait_for_begin()?;
    output::note(&format!("process {process} is being recorded; the recording goes on without this program too"));
    capture::told(&attached.wait(), &[]);
    Ok(Outcome::Done)
}
