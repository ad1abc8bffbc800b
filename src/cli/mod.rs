//! Floor 10: the words of the command line, one file a subcommand.
//!
//! Standard output carries what was asked and nothing else; notes, progress and errors go to standard error,
//! progress only where that is a terminal. Exit codes: 0 done, 1 a gate or captured job failed, 2 wrong usage
//! or a file that cannot be read. All but `open` work without a display.

pub mod at;
pub mod attach;
pub mod capture;
pub mod check;
pub mod command;
pub mod convert;
pub mod diff;
pub mod flame;
pub mod info;
pub mod moment;
pub mod open;
pub mod opening;
pub mod output;
pub mod picture;
mod ranks;
pub mod report;
pub mod table;
pub mod whatif;
pub mod why;

pub use command::{Command, Outcome};

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// All subcommands, in the order of the help.
pub const COMMANDS: &[Command] = &[
    open::COMMAND,
    info::COMMAND,
    at::COMMAND,
    why::COMMAND,
    flame::COMMAND,
    report::COMMAND,
    diff::COMMAND,
    whatif::COMMAND,
    convert::COMMAND,
    capture::COMMAND,
    attach::COMMAND,
    check::COMMAND,
];

const ABOUT: &str = "Shows where GPU memory goes: opens PyTorch allocator snapshots and replays every segment and block.";
const USAGE_HINT: &str = "Without a subcommand the files are opened in the window, as with `open`.";

/// Runs the program with the arguments of its process, its own name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = with_subcommand(arguments.into_iter().collect());
    let matches = match parser().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Nothing can be done about a standard error that is closed.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let Some((name, arguments)) = matches.subcommand() else { return ExitCode::from(2) };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else { return ExitCode::from(2) };
    opening::listen(arguments);
    match (command.run)(arguments) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Ok(Outcome::Incomplete) => ExitCode::from(2),
        // Who pipes into `head` has read enough.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::from(2)
        }
    }
}

/// The whole command line, for parsing and for help.
pub fn parser() -> clap::Command {
    let all = clap::Command::new("fragscope")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(USAGE_HINT)
        .subcommand_required(true)
        .disable_help_subcommand(true);
    COMMANDS.iter().fold(all, |all, command| {
        let of_command = (command.arguments)(clap::Command::new(command.name));
        let records = matches!(command.name, "capture" | "attach");
        all.subcommand(if records { of_command } else { opening::arguments(of_command) })
    })
}

/// Puts `open` in front of arguments that begin with a file or with an option of `open`.
fn with_subcommand(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let opens = match arguments.get(1) {
        None => true,
        Some(first) => {
            let text = first.to_string_lossy();
            let known = COMMANDS.iter().any(|command| *text == *command.name);
            let asks = matches!(&*text, "-h" | "--help" | "-V" | "--version");
            // A lone word that is no file is a subcommand mistyped, and clap knows the nearest one.
            let file_like = text.starts_with('-') || text.contains(['.', '/', '\\']) || Path::new(first).exists();
            !known && !asks && file_like
        }
    };
    if opens {
        arguments.insert(arguments.len().min(1), "open".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        parser().debug_assert();
    }

    #[test]
    fn files_alone_are_opened() {
        for (given, understood) in [
            (&["fragscope"][..], &["fragscope", "open"][..]),
            (&["fragscope", "a.pickle"], &["fragscope", "open", "a.pickle"]),
            (&["fragscope", "--or-report", "x.png", "a"], &["fragscope", "open", "--or-report", "x.png", "a"]),
            (&["fragscope", "info", "a.pickle"], &["fragscope", "info", "a.pickle"]),
            (&["fragscope", "inof"], &["fragscope", "inof"]),
            (&["fragscope", "--version"], &["fragscope", "--version"]),
            (&["fragscope", "src"], &["fragscope", "open", "src"]),
        ] {
            let given = given.iter().map(OsString::from).collect();
            assert_eq!(with_subcommand(given), understood.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
