//! Where words go: answers to standard output, everything else to standard error.

use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output, buffered. Whoever writes flushes it, so that a full disk is noticed.
pub fn answers() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// Says something about how a command went, in one line on standard error.
pub fn note(sentence: &str) {
    // Nothing can be done about a standard error that is closed.
    let _ = writeln!(io::stderr(), "fragscope: {sentence}");
}

/// Says an error in one sentence on standard error.
pub fn complain(error: &anyhow::Error) {
    note(&one_line(&error.to_string()));
}

/// Whether an error only says that nobody reads standard output any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Text of a file's own making on one line: control characters would move the user's cursor.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
