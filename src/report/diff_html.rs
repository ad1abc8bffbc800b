//! A comparison as one HTML file that stands by itself: words, inline pictures, tables that sort, stacks that unfold.
//!
//! Always: it loads nothing; whatever comes from the files is escaped.

use crate::analysis::diff_words::{signed, signed_count};
use crate::base::{Bytes, Progress, grouped};
use crate::chart::overlay::{INK_A, INK_B};
use crate::chart::{Area, Drawing, Ink, Shape};
use crate::report::diff::DiffReport;
use crate::report::diff_model::{Compared, DiffModel, RowInfo, difference};
use crate::report::diff_pictures::{bars, flame, timelines};
use crate::report::html::document;
use crate::report::report::{ReportError, ReportOptions};
use crate::report::svg::{Colours, escaped, svg};
use std::fmt::Write as _;

/// Writes HTML.
pub(super) struct DiffHtml;

/// Width of the pictures, in points; they shrink with the window.
const WIDTH_PT: f32 = 1080.0;
/// Rows of each list; more would make a page of many megabytes.
const ROWS: usize = 500;

impl DiffReport for DiffHtml {
    fn name(&self) -> &'static str {
        "page for browsers"
    }
    fn extension(&self) -> &'static str {
        "html"
    }
    fn file(&self, compared: &Compared<'_>, options: &ReportOptions, progress: &Progress) -> Result<Vec<u8>, ReportError> {
        let model = DiffModel::of(compared, options);
        progress.stage("drawing the page", 0)?;
        let mut colours = Colours::default();
        let mut body = String::new();
        header(&mut body, &model, &mut colours);
        states(&mut body, &model, compared);
        pictures(&mut body, compared, &model, &mut colours);
        for (name, rows) in model.lists() {
            list(&mut body, name, rows, &mut colours);
        }
        if let Some(same) = model.same() {
            let _ = write!(body, "<p class=\"aside\">{same}</p>");
        }
        settings(&mut body, &model);
        let patterns = colours.patterns();
        let body = format!("{patterns}<main>{body}<footer>{}</footer></main>", escaped(&model.imprint()));
        Ok(document("Two snapshots compared", &body, &colours, options).into_bytes())
    }
}

// Writing into a text cannot fail, so results of `write!` are dropped in this file.
fn header(out: &mut String, model: &DiffModel, colours: &mut Colours) {
    out.push_str("<header><h1>Two snapshots compared</h1><dl>");
    for (name, side, ink) in [("A", &model.a, INK_A), ("B", &model.b, INK_B)] {
        let patch = patch(ink, colours);
        let _ =
            write!(out, "<div><dt>{patch} {name}</dt><dd title=\"{}\">{}</dd></div>", escaped(&side.file), escaped(&side.words));
    }
    out.push_str("</dl></header>");
    let [first, second] = &model.verdict;
    let _ = write!(out, "<p class=\"headline\">{}</p><p>{}</p>", escaped(first), escaped(second));
    if let Some(hint) = model.hint {
        let _ = write!(out, "<p class=\"aside\">{hint}</p>");
    }
    if let Some(note) = &model.note {
        let _ = write!(out, "<blockquote>{}</blockquote>", escaped(note));
    }
}

fn patch(ink: Ink, colours: &mut Colours) -> String {
    let mut patch = Drawing::new(12.0, 12.0);
    patch.push(Shape::Box(Area::new(0.0, 0.0, 12.0, 12.0)), ink);
    svg(&patch, "", colours, None).replacen("<svg ", "<svg width=\"12\" height=\"12\" ", 1)
}

fn states(out: &mut String, model: &DiffModel, compared: &Compared<'_>) {
    out.push_str("<section class=\"states\"><h2>The two states</h2><table><thead><tr><th>counter</th><th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">B − A</th></tr></thead><tbody>");
    for [name, a, b, more] in DiffModel::figure_rows(&compared.diff) {
        let _ =
            write!(out, "<tr><td>{name}</td><td class=\"n\">{a}</td><td class=\"n\">{b}</td><td class=\"n\">{more}</td></tr>");
    }
    out.push_str("</tbody></table>");
    if !model.pools.is_empty() {
        out.push_str("<details><summary>pools, halves and streams</summary><table><thead><tr><th>pool</th><th class=\"n\">reserved in A</th><th class=\"n\">in B</th><th class=\"n\">B − A</th><th class=\"n\">largest free in A</th><th class=\"n\">in B</th></tr></thead><tbody>");
        for row in &model.pools {
            let [a, b] = [row.a, row.b].map(Option::unwrap_or_default);
            let cells = [
                Bytes(a.reserved).to_string(),
                Bytes(b.reserved).to_string(),
                difference(a.reserved, b.reserved, true),
                Bytes(a.largest_free_block).to_string(),
                Bytes(b.largest_free_block).to_string(),
            ];
            let cells: String = cells.iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
            let _ = write!(out, "<tr><td>{}</td>{cells}</tr>", escaped(&row.name()));
        }
        out.push_str("</tbody></table></details>");
    }
    out.push_str("</section>");
}

fn pictures(out: &mut String, compared: &Compared<'_>, model: &DiffModel, colours: &mut Colours) {
    let mut section = |title: &str, aside: &str, drawing: &Drawing| {
        let picture = svg(drawing, title, colours, None);
        let _ = write!(out, "<section><h2>{title}</h2><p class=\"aside\">{aside}</p>{picture}</section>");
    };
    if let Some(drawing) = timelines(compared, WIDTH_PT, 330.0) {
        let aside = "both recordings from their beginnings; dashed lines are the two moments";
        section("Memory over time", aside, &drawing);
    }
    if let Some(drawing) = bars(&model.gaps, &model.segments, WIDTH_PT, 200.0) {
        section("Gaps and segments", "blue is A, orange is B", &drawing);
    }
    if let Some((drawing, cut)) = flame(compared, WIDTH_PT, 900.0) {
        let deeper = if 0 < cut { format!("; deeper levels that have no room on this page: {cut}") } else { String::new() };
        let aside = format!("allocated bytes by stack, as wide as what moved; orange grew, blue shrank{deeper}");
        section("What moved", &aside, &drawing);
    }
}

fn list(out: &mut String, name: &str, rows: &[RowInfo], colours: &mut Colours) {
    if rows.is_empty() {
        return;
    }
    let sum: i128 = rows.iter().map(RowInfo::delta).sum();
    let stacks = crate::base::counted(rows.len() as u64, "stack");
    let _ = write!(
        out,
        "<section><h2>Stacks {name}</h2><p class=\"aside\">{stacks}, {}</p><table class=\"sort\"><thead><tr><th></th><th class=\"n\">B − A</th><th class=\"n\">in A</th><th class=\"n\">in B</th><th class=\"n\">blocks</th><th>stack</th></tr></thead><tbody>",
        signed(sum)
    );
    for row in rows.iter().take(ROWS) {
        let patch = patch(Ink::Block(row.colour), colours);
        let name = format!("{} <span class=\"weak\">{}</span>", escaped(&row.place), escaped(&row.callers));
        let frames: Vec<String> = row.frames.iter().map(|frame| escaped(frame)).collect();
        let stack = match frames.is_empty() {
            true => name,
            false => format!("<details><summary>{name}</summary><pre>{}</pre></details>", frames.join("\n")),
        };
        let _ = write!(
            out,
            "<tr><td class=\"patch\">{patch}</td><td class=\"n\" data-v=\"{}\" title=\"{} bytes\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td><td class=\"stack\">{stack}</td></tr>",
            row.delta(),
            row.delta(),
            signed(row.delta()),
            row.bytes_a,
            Bytes(row.bytes_a),
            row.bytes_b,
            Bytes(row.bytes_b),
            row.count_delta(),
            signed_count(row.count_delta()),
        );
    }
    out.push_str("</tbody></table>");
    let further = &rows[rows.len().min(ROWS)..];
    if !further.is_empty() {
        let sum: i128 = further.iter().map(RowInfo::delta).sum();
        let _ = write!(out, "<p class=\"aside\">{} further stacks, {}.</p>", grouped(further.len() as u64), signed(sum));
    }
    out.push_str("</section>");
}

fn settings(out: &mut String, model: &DiffModel) {
    if model.settings.is_empty() {
        return;
    }
    out.push_str("<section class=\"states\"><h2>Settings that differ</h2><table><thead><tr><th>setting</th><th>A</th><th>B</th></tr></thead><tbody>");
    for row in &model.settings {
        let cells: String = [&row.name, &row.a, &row.b].map(|text| format!("<td>{}</td>", escaped(text))).concat();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</tbody></table></section>");
}
