//! The contract of a subcommand.
//!
//! To add one: a file with a `pub const COMMAND`, and its line in `COMMANDS`. A subcommand holds no logic
//! that a test cannot reach through the library; it asks, and words the answer.

use clap::ArgMatches;

/// One subcommand of the program.
pub struct Command {
    /// What the user types.
    pub name: &'static str,
    /// Puts its help and arguments on the clap command of that name.
    pub arguments: fn(clap::Command) -> clap::Command,
    /// Runs it. An error is one sentence: what, where, what to do; the exit code is then 2.
    pub run: fn(&ArgMatches) -> anyhow::Result<Outcome>,
}

/// How a subcommand that ran to its end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All done: exit code 0.
    Done,
    /// A gate did not hold, and it was said why: exit code 1.
    Failed,
    /// Part of it failed, each failure is said on stderr already: exit code 2.
    Incomplete,
}
