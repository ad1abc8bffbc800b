//! Folded stacks: one line a stack, `root;outermost;…;innermost BYTES`, as flame graph tools read them.
//!
//! Always: the lines' numbers sum to the tree's root; names hold neither semicolons nor line ends, and none ends in a
//! number of its own, so that the last number of a line is its value.

use crate::analysis::flame::{FlameLabel, NO_STACK};
use crate::chart::flame_words::frame_in_full;
use crate::model::StackTable;
use crate::report::flame::{FlameReport, FlameSubject, for_each_end};
use crate::report::report::{ReportError, ReportOptions};
use std::fmt::Write as _;
use std::io::Write;

/// Writes folded lines.
pub struct Folded;

impl FlameReport for Folded {
    fn name(&self) -> &'static str {
        "folded stacks"
    }
    fn extension(&self) -> &'static str {
        "folded"
    }
    fn write(&self, subject: &FlameSubject<'_>, _options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut text = String::new();
        for (line, value) in lines(subject) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "root;{line} {value}");
        }
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The lines without their root, and their values.
pub(crate) fn lines(subject: &FlameSubject<'_>) -> Vec<(String, i128)> {
    let stacks = &subject.snapshot.stacks;
    let mut lines = Vec::new();
    for_each_end(subject.tree, |path, value| {
        let names: Vec<String> = path.iter().map(|node| name(stacks, subject.tree.nodes[*node].label)).collect();
        lines.push((names.join(";"), value));
    });
    lines
}

/// A frame's name as it may stand in a line.
pub(crate) fn name(stacks: &StackTable, label: FlameLabel) -> String {
    match label {
        FlameLabel::All => "all".to_owned(),
        FlameLabel::NoStack => NO_STACK.to_owned(),
        FlameLabel::Frame(frame) => plain(&frame_in_full(stacks, frame)),
    }
}

/// A text without what has a meaning in folded lines or none in XML.
fn plain(text: &str) -> String {
    let plain = |c: char| match c {
        ';' => ',',
        '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => ' ',
        c if c.is_control() => ' ',
        c => c,
    };
    let mut name: String = text.chars().map(plain).collect::<String>().trim().to_owned();
    if let Some((head, tail)) = name.rsplit_once(' ')
        && tail.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    {
        name = format!("{head}_{tail}");
    }
    // A sharp begins a comment; nothing would be no frame.
    if name.is_empty() || name.starts_with('#') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_form_of_a_line() {
        for (text, name) in [
            ("forward (mlp.py:41)", "forward (mlp.py:41)"),
            ("f; g\nh\t", "f, g h"),
            ("operator new 12", "operator new_12"),
            ("a 1.5", "a_1.5"),
            ("12", "12"),
            ("", "_"),
            ("# x", "_# x"),
            ("Ω::größe()", "Ω::größe()"),
        ] {
            assert_eq!(plain(text), name, "{text:?}");
        }
    }
}
