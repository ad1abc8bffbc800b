//! The program: hands its arguments to the command line. Without a subcommand they are files for the window.

use std::process::ExitCode;

fn main() -> ExitCode {
    fragscope::cli::run(std::env::args_os())
}
