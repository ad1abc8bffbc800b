//! Where words go: answers to standard output, everything else to standard error.

use clap::{Arg, value_parser};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;

/// Standard output, buffered. Whoever writes flushes it, so that a full disk is noticed.
pub fn answers() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// The `-o OUT` of commands that write a file whose kind its ending names; `kinds` lists the endings.
pub fn place(kinds: &str) -> Arg {
    Arg::new("out")
        .short('o')
        .long("out")
        .value_name("OUT")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help(format!("Where to; its ending says what: {kinds}"))
}

/// Says something about how a command went, in one line on standard error.
pub fn note(sentence: &str) {
    // Nothing can be done about a standard error that is closed.
    let _ = writeln!(io::stderr(), "fragscope: {}", one_line(sentence));
}

/// Says an error in one sentence on standard error.
pub fn complain(error: &anyhow::Error) {
    note(&error.to_string());
}

/// Whether an error only says that nobody reads standard output any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Text of a file's own making on one line: control characters would move the user's cursor, and the marks that
/// turn the direction of writing would make it read as something else.
pub fn one_line(text: &str) -> String {
    let moves = |c: char| {
        c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if moves(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_turns_the_text() {
        for (text, shown) in [
            ("a\0b\nc\r\u{1b}[31md\u{9b}m\u{7f}", "a b c  [31md m "),
            ("x\u{202e}gpj.exe\u{2066}\u{2028}\u{200f}", "x gpj.exe   "),
            ("β — 模型\u{200d}", "β — 模型\u{200d}"),
        ] {
            assert_eq!(one_line(text), shown);
        }
    }
}
