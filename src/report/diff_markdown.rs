//! A comparison as Markdown, to be pasted into a ticket (GitHub's flavour).
//!
//! Always: whatever comes from the files is a code span or escaped.

use crate::analysis::diff_words::{signed, signed_count};
use crate::base::{Bytes, Progress, grouped};
use crate::report::diff::DiffReport;
use crate::report::diff_model::{Compared, DiffModel, RowInfo, class_name, difference};
use crate::report::markdown::{code, escaped};
use crate::report::report::{ReportError, ReportOptions};
use std::fmt::Write as _;

/// Writes Markdown.
pub(super) struct DiffMarkdown;

/// Rows of each list.
const ROWS: usize = 15;

impl DiffReport for DiffMarkdown {
    fn name(&self) -> &'static str {
        "for a ticket"
    }
    fn extension(&self) -> &'static str {
        "md"
    }
    fn file(&self, compared: &Compared<'_>, options: &ReportOptions, _: &Progress) -> Result<Vec<u8>, ReportError> {
        Ok(page(&DiffModel::of(compared, options), compared).into_bytes())
    }
}

// Writing into a text cannot fail, so results of `write!` are dropped in this file.
fn page(model: &DiffModel, compared: &Compared<'_>) -> String {
    let mut out = String::from("## Two snapshots compared\n\n");
    for (name, side) in [("A", &model.a), ("B", &model.b)] {
        let settings = side.settings.as_deref().map_or("not in the file".to_owned(), |conf| match conf {
            "" => "defaults".to_owned(),
            conf => code(conf),
        });
        let _ = writeln!(out, "- **{name}** {}, settings {settings}", code(&side.words));
    }
    for sentence in &model.verdict {
        let _ = writeln!(out, "\n{}", escaped(sentence));
    }
    if let Some(hint) = model.hint {
        let _ = writeln!(out, "\n{hint}");
    }
    for line in model.note.iter().flat_map(|note| note.lines()) {
        let _ = writeln!(out, "\n> {}", escaped(line));
    }
    out.push_str("\n| counter | A | B | B − A |\n| --- | ---: | ---: | ---: |\n");
    for [name, a, b, more] in DiffModel::figure_rows(&compared.diff) {
        let _ = writeln!(out, "| {name} | {a} | {b} | {more} |");
    }
    for (name, rows) in model.lists() {
        list(&mut out, name, rows);
    }
    if let Some(same) = model.same() {
        let _ = writeln!(out, "\n{same}");
    }
    if !model.settings.is_empty() {
        out.push_str("\n### Settings that differ\n\n| setting | A | B |\n| --- | --- | --- |\n");
        for row in &model.settings {
            let cell = |text: &str| code(text).replace('|', "\\|");
            let _ = writeln!(out, "| {} | {} | {} |", cell(&row.name), cell(&row.a), cell(&row.b));
        }
    }
    if !model.pools.is_empty() {
        out.push_str("\n<details><summary>Pools</summary>\n\n| pool | reserved A | B | B − A | largest free A | B |\n| --- | ---: | ---: | ---: | ---: | ---: |\n");
        for row in &model.pools {
            let [a, b] = [row.a, row.b].map(Option::unwrap_or_default);
            let more = difference(a.reserved, b.reserved, true);
            let [a, b, free_a, free_b] = [a.reserved, b.reserved, a.largest_free_block, b.largest_free_block].map(Bytes);
            let _ = writeln!(out, "| {} | {a} | {b} | {more} | {free_a} | {free_b} |", escaped(&row.name()));
        }
        out.push_str("\n</details>\n");
    }
    for (name, rows) in [("Gaps by size", &model.gaps), ("Segments by size", &model.segments)] {
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n<details><summary>{name}</summary>\n\n| size | A | B | bytes in A | in B |\n| --- | ---: | ---: | ---: | ---: |"
        );
        for row in rows {
            let (count_a, count_b) = (grouped(row.count_a), grouped(row.count_b));
            let (bytes_a, bytes_b) = (Bytes(row.bytes_a), Bytes(row.bytes_b));
            let _ = writeln!(out, "| {} | {count_a} | {count_b} | {bytes_a} | {bytes_b} |", class_name(row.from));
        }
        out.push_str("\n</details>\n");
    }
    let _ = writeln!(out, "\n<sub>{}</sub>", escaped(&model.imprint()));
    out
}

fn list(out: &mut String, name: &str, rows: &[RowInfo]) {
    if rows.is_empty() {
        return;
    }
    let sum: i128 = rows.iter().map(RowInfo::delta).sum();
    let _ = writeln!(out, "\n### Stacks {name}: {}\n", signed(sum));
    out.push_str("| B − A | A | B | blocks | stack |\n| ---: | ---: | ---: | ---: | --- |\n");
    for row in rows.iter().take(ROWS) {
        let callers = if row.callers.is_empty() { String::new() } else { format!(" {}", escaped(row.callers.trim())) };
        let (more, blocks) = (signed(row.delta()), signed_count(row.count_delta()));
        let place = code(&row.place).replace('|', "\\|");
        let _ = writeln!(out, "| {more} | {} | {} | {blocks} | {place}{callers} |", Bytes(row.bytes_a), Bytes(row.bytes_b));
    }
    let further = &rows[rows.len().min(ROWS)..];
    if !further.is_empty() {
        let sum: i128 = further.iter().map(RowInfo::delta).sum();
        let _ = writeln!(out, "\n{} further, {}.", crate::base::counted(further.len() as u64, "stack"), signed(sum));
    }
}
