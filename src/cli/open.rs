//! `open`: the window; where there is no display, a sentence or a report instead.

use crate::analysis::Moment;
use crate::cli::command::{Command, Outcome};
use crate::cli::{opening, output, report};
use crate::report::ReportOptions;
use crate::session::rank_files;
use crate::ui::{Opening, UiError};
use anyhow::bail;
use clap::{Arg, ArgMatches, value_parser};
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "open", arguments, run };

const WITHOUT_WINDOW: &str = "`fragscope report FILE -o OUT.png` draws it and `fragscope info FILE` prints it without a display";

fn arguments(command: clap::Command) -> clap::Command {
    command
        .about("Open the window")
        .arg(Arg::new("files").value_name("FILE").num_args(0..).value_parser(value_parser!(PathBuf)).help(
            "Snapshots; a folder or a name with * is opened as the ranks of a job; without any the welcome page offers samples",
        ))
        .arg(
            Arg::new("or-report")
                .long("or-report")
                .value_name("OUT")
                .value_parser(value_parser!(PathBuf))
                .help("Where no window can be opened, write the first file's report there instead"),
        )
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let files: Vec<PathBuf> = matches.get_many::<PathBuf>("files").into_iter().flatten().cloned().collect();
    let instead = matches.get_one::<PathBuf>("or-report");
    if instead.is_some() && files.is_empty() {
        bail!("--or-report needs a file to report on: name a snapshot");
    }
    // A path that leads nowhere is wrong usage whether or not there is a display.
    for file in &files {
        if rank_files::is_many(file) {
            rank_files::filled_in(file).map_err(anyhow::Error::msg)?;
        } else if let Err(error) = std::fs::metadata(file) {
            bail!("{} cannot be opened: {error}", file.display());
        }
    }
    let first = files.first().map(|file| rank_files::filled_in(file).map_err(anyhow::Error::msg)).transpose()?;
    let first = first.and_then(|found| found.into_iter().next());
    let opening = Opening { files, block_bytes: opening::told().block_bytes, job: None };
    let why = match crate::ui::run(opening) {
        Ok(()) => return Ok(Outcome::Done),
        Err(error @ UiError::Stopped(_)) => bail!("{error}"),
        Err(error @ (UiError::NoDisplay(_) | UiError::NoWindow(_))) => error.to_string().trim_end_matches('.').to_owned(),
    };
    let (Some(out), Some(file)) = (instead, first) else { bail!("{why}; {WITHOUT_WINDOW}") };
    output::note(&format!("{why}; writing the report instead"));
    report::write(&file, None, Moment::Telling, out, &ReportOptions::paper())?;
    Ok(Outcome::Done)
}
