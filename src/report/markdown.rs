//! The page as Markdown, to be pasted into a ticket (GitHub's flavour).
//!
//! Always: whatever comes from the file is a code span or escaped, so that nothing of it is markup; the verdict, the
//! account, the findings and the top stacks are open, everything longer is folded.

use crate::base::{Bytes, Progress, grouped};
use crate::report::material::Material;
use crate::report::page_model::{PageModel, Printed, StackRow, blocks, share_of, value};
use crate::report::report::{Report, ReportError, ReportOptions, ReportSubject, Section};
use std::fmt::Write as _;

/// Writes Markdown.
pub struct Markdown;

/// Rows of the table of stacks.
const STACK_ROWS: usize = 12;

impl Report for Markdown {
    fn name(&self) -> &'static str {
        "for a ticket"
    }
    fn extension(&self) -> &'static str {
        "md"
    }
    fn files(&self, subject: &ReportSubject<'_>, options: &ReportOptions, progress: &Progress) -> Result<Printed, ReportError> {
        // It has no pictures, so nothing is asked that only they show.
        let pictures = [Section::Timeline, Section::Charts, Section::Layout, Section::Flame];
        let sections = pictures.into_iter().fold(options.sections, |sections, picture| sections.with(picture, false));
        let options = ReportOptions { sections, ..options.clone() };
        let material = Material::gather(subject, &options, progress)?;
        let model = PageModel::of(&material, &options);
        Ok(Printed { files: vec![page(&model).into_bytes()], model })
    }
}

// Writing into a text cannot fail, so results of `write!` are dropped in this file.
fn page(model: &PageModel) -> String {
    let mut out = String::new();
    let (headline, more) = model.headline();
    let _ = writeln!(out, "## {}\n", code(model.title()));
    match headline.split_once(": ") {
        Some((cause, rest)) if model.failed() => {
            let _ = writeln!(out, "**{}:** {}", escaped(cause), escaped(rest));
        }
        _ => {
            let _ = writeln!(out, "{}", escaped(&headline));
        }
    }
    for sentence in more {
        let _ = writeln!(out, "\n{}", escaped(&sentence));
    }
    if let Some(note) = &model.note {
        out.push('\n');
        for line in note.lines() {
            let _ = writeln!(out, "> {}", escaped(line));
        }
    }
    out.push('\n');
    let facts = model.origin();
    let facts: Vec<String> = facts
        .iter()
        .map(|(name, text)| {
            let is_words = matches!(*name, "file" | "allocator settings");
            format!("{name} {}", if is_words { code(text) } else { escaped(text) })
        })
        .collect();
    let _ = writeln!(out, "{}", facts.join(" · "));
    accounting(&mut out, model);
    findings(&mut out, model);
    stacks(&mut out, model);
    states(&mut out, model);
    rest(&mut out, model);
    let _ = writeln!(out, "\n<sub>{}</sub>", escaped(&model.imprint()));
    out
}

fn accounting(out: &mut String, model: &PageModel) {
    let Some(account) = &model.accounting else { return };
    let _ = writeln!(out, "\n### {}\n", Section::Accounting.title());
    let _ = writeln!(out, "{}, in shares of {}:\n", capital(&model.moment.words), account.whole());
    out.push_str("| part | size | share | bytes | what it is |\n| --- | ---: | ---: | ---: | --- |\n");
    for part in account.shown() {
        let (size, share, bytes) = match part.bytes {
            Some(bytes) => (Bytes(bytes).to_string(), account.share(bytes), grouped(bytes)),
            None => ("unknown".to_owned(), String::new(), String::new()),
        };
        let _ = writeln!(out, "| {} | {size} | {share} | {bytes} | {} |", part.label, part.meaning);
    }
}

fn findings(out: &mut String, model: &PageModel) {
    let Some(findings) = model.findings.as_ref().filter(|findings| !findings.rows.is_empty()) else { return };
    let _ = writeln!(out, "\n### {}\n", Section::Findings.title());
    if !findings.aside.is_empty() {
        let _ = writeln!(out, "{}:\n", capital(&findings.aside));
    }
    for finding in &findings.rows {
        let _ = writeln!(out, "- **{}** {}", finding.severity.name(), escaped(&finding.sentence));
        if !finding.suggestion.is_empty() {
            let _ = writeln!(out, "  <br>_Try:_ {}", escaped(&finding.suggestion));
        }
        if finding.certainty != "certain" {
            let _ = writeln!(out, "  <br>_{}:_ {}", capital(finding.certainty), escaped(finding.because));
        }
    }
}

fn stacks(out: &mut String, model: &PageModel) {
    if let Some(stacks) = model.stacks.as_ref().filter(|stacks| !stacks.rows.is_empty()) {
        let _ = writeln!(out, "\n### {}\n", Section::Stacks.title());
        let _ = writeln!(out, "Allocated bytes by allocating stack, {}:\n", model.moment.words);
        let (rows, (further, bytes, count)) = stacks.top(STACK_ROWS);
        table(out, rows, stacks.allocated);
        if 0 < further {
            let share = share_of(bytes, stacks.allocated);
            let _ = writeln!(out, "| {} | {share} | {} | {} further stacks |", Bytes(bytes), grouped(count), grouped(further));
        }
        frames(out, rows);
    }
    if let Some(pinned) = model.pinned.as_ref().filter(|pinned| !pinned.rows.is_empty()) {
        let _ = writeln!(out, "\n### {}\n\n{}\n", Section::Pinned.title(), escaped(&pinned.sentence));
        table(out, &pinned.rows, pinned.bytes);
        // Stacks that stand above already are not written out again.
        let known: Vec<&StackRow> = model.stacks.iter().flat_map(|stacks| stacks.top(STACK_ROWS).0).collect();
        let new = pinned.rows.iter().filter(|row| known.iter().all(|known| known.frames != row.frames));
        frames(out, &new.cloned().collect::<Vec<_>>());
    }
}

fn table(out: &mut String, rows: &[StackRow], whole: u64) {
    out.push_str("| bytes | share | blocks | stack |\n| ---: | ---: | ---: | --- |\n");
    for row in rows {
        let callers = if row.callers.is_empty() { String::new() } else { format!(" {}", escaped(row.callers.trim())) };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {}{callers} |",
            Bytes(row.bytes),
            share_of(row.bytes, whole),
            grouped(row.count),
            code(&row.place).replace('|', "\\|")
        );
    }
}

/// All frames of some stacks, folded away.
fn frames(out: &mut String, rows: &[StackRow]) {
    let known: Vec<&StackRow> = rows.iter().filter(|row| !row.frames.is_empty()).collect();
    if known.is_empty() {
        return;
    }
    let mut block = String::new();
    for row in known {
        let _ = writeln!(block, "{} ({} bytes) in {}", Bytes(row.bytes), grouped(row.bytes), blocks(row.count));
        for frame in &row.frames {
            let _ = writeln!(block, "    {}", one_line(frame));
        }
    }
    fold(out, "all frames, innermost first", &fenced(&block));
}

fn states(out: &mut String, model: &PageModel) {
    let Some(states) = &model.states else { return };
    let same = states.moment.event == states.dump.event;
    let mut table = String::new();
    if same {
        table.push_str("| counter | value | bytes |\n| --- | ---: | ---: |\n");
    } else {
        let here = if model.failed() { "at the failure" } else { "at the moment" };
        let _ = writeln!(table, "| counter | {here} | bytes | at the dump | bytes |\n| --- | ---: | ---: | ---: | ---: |");
    }
    let exact = |number: u64, is_bytes: bool| if is_bytes { grouped(number) } else { String::new() };
    for ((name, here, is_bytes), (_, there, _)) in states.moment.rows().into_iter().zip(states.dump.rows()) {
        let _ = write!(table, "| {name} | {} | {} |", value(here, is_bytes), exact(here, is_bytes));
        if !same {
            let _ = write!(table, " {} | {} |", value(there, is_bytes), exact(there, is_bytes));
        }
        table.push('\n');
    }
    fold(out, Section::States.title(), &table);
}

fn rest(out: &mut String, model: &PageModel) {
    if let Some(summary) = &model.memory_summary {
        fold(out, Section::Summary.title(), &fenced(summary));
    }
    let gaps: Vec<&String> = model.coverage.iter().flatten().map(|gap| &gap.sentence).collect();
    let warnings: Vec<&String> = model.warnings.iter().flatten().map(|warning| &warning.message).collect();
    for (title, sentences) in [(Section::Coverage.title(), gaps), ("What was mended or left out", warnings)] {
        if sentences.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n### {title}\n");
        for sentence in sentences {
            let _ = writeln!(out, "- {}", escaped(sentence));
        }
    }
}

fn fold(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(out, "\n<details><summary>{title}</summary>\n\n{}\n\n</details>", content.trim_end());
}

/// A block of code whose fence is longer than any in it.
fn fenced(content: &str) -> String {
    let fence = "`".repeat(longest_run(content).max(2) + 1);
    format!("{fence}text\n{}\n{fence}", content.trim_end())
}

/// A code span, whatever is in the text.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    let room = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{room}{text}{room}{fence}")
}

/// A text of which nothing is markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A text on one line, without what turns the direction of writing.
fn one_line(text: &str) -> String {
    let moves = |c: char| {
        c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if moves(c) { ' ' } else { c }).collect()
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        for (text, safe, span) in [
            ("a_b*c|d", "a\\_b\\*c\\|d", "`a_b*c|d`"),
            ("<script>&", "&lt;script&gt;&amp;", "`<script>&`"),
            ("x`y``z", "x\\`y\\`\\`z", "```x`y``z```"),
            ("`", "\\`", "`` ` ``"),
            ("a\nb\u{202e}c", "a b c", "`a b c`"),
            ("", "", "`  `"),
        ] {
            assert_eq!((escaped(text).as_str(), code(text).as_str()), (safe, span), "{text:?}");
        }
        assert_eq!(fenced("a\n```\nb\n"), "````text\na\n```\nb\n````");
    }
}
