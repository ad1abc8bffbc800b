//! One page about many files: a row each, with a link to its own page.
//!
//! Always: its figures are those of the pages it links to; a file that could not be read has its row too, with the
//! reason.

use crate::base::Bytes;
use crate::report::html;
use crate::report::markdown;
use crate::report::page_model::PageModel;
use crate::report::report::ReportOptions;
use crate::report::svg::{Colours, escaped};
use serde::Serialize;
use std::fmt::Write as _;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverviewRow {
    /// The file as it was named.
    pub file: String,
    /// Its page, as the overview reaches it; none where there is none.
    pub page: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// The verdict's word; none where nothing was allocated.
    pub verdict: Option<&'static str>,
    /// What people call it.
    #[serde(skip)]
    pub title: &'static str,
    /// Whether its moment is a failure.
    pub failed: bool,
    /// What its page says first.
    pub sentence: String,
    /// The most that was allocated.
    pub peak_allocated: u64,
    /// The most that was reserved.
    pub peak_reserved: u64,
    /// The largest gap at the moment.
    pub largest_free_block: u64,
    /// Number of failures.
    pub ooms: u64,
}

impl OverviewRow {
    /// The row of a page.
    pub fn of(model: &PageModel, page: String) -> OverviewRow {
        let verdict = model.verdict.as_ref();
        let (first, more) = model.headline();
        // That nothing failed stands in the verdict's column; what was live is more to say.
        let sentence = if model.failed() { first } else { more.into_iter().next().unwrap_or(first) };
        OverviewRow {
            file: model.file.clone(),
            page: Some(page),
            error: None,
            verdict: verdict.map(|verdict| verdict.verdict),
            title: verdict.map_or("", |verdict| verdict.title),
            failed: model.failed(),
            sentence,
            peak_allocated: model.peak_allocated.bytes,
            peak_reserved: model.peak_reserved.bytes,
            largest_free_block: model.largest_free_block,
            ooms: model.ooms,
        }
    }
    /// The row of a file that could not be read.
    pub fn failed(file: String, error: String) -> OverviewRow {
        OverviewRow {
            file,
            page: None,
            error: Some(error),
            verdict: None,
            title: "",
            failed: false,
            sentence: String::new(),
            peak_allocated: 0,
            peak_reserved: 0,
            largest_free_block: 0,
            ooms: 0,
        }
    }
    fn title(&self) -> &str {
        crate::chart::text::file_name(&self.file)
    }
}

/// A kind of overview: the ending of its file, and how it is written.
pub type Overview = (&'static str, fn(&[OverviewRow], &ReportOptions) -> String);

/// The overview that goes with pages of an ending: of its own kind where that can link, else HTML.
pub fn overview_of(extension: &str) -> Overview {
    match extension.to_ascii_lowercase().as_str() {
        "md" => ("md", as_markdown),
        "json" => ("json", as_json),
        _ => ("html", as_html),
    }
}

// Writing into a text cannot fail, so results of `write!` are dropped in this file.
fn as_html(rows: &[OverviewRow], options: &ReportOptions) -> String {
    let mut body = format!("<main><header><h1>{}</h1></header><table class=\"sort\"><thead><tr>", counted(rows.len()));
    for (name, class) in COLUMNS {
        let _ = write!(body, "<th class=\"{class}\">{name}</th>");
    }
    body.push_str("</tr></thead><tbody>");
    for row in rows {
        let name = match &row.page {
            Some(page) => format!("<a href=\"{}\">{}</a>", escaped(&address(page)), escaped(row.title())),
            None => escaped(row.title()),
        };
        let words = match (&row.error, &row.page) {
            (Some(error), _) => format!("<span class=\"weak\">no page: {}</span>", escaped(error)),
            (None, Some(page)) if page.ends_with(".png") => {
                let address = escaped(&address(page));
                format!(
                    "{}<br/><a href=\"{address}\"><img src=\"{address}\" alt=\"\" width=\"240\"/></a>",
                    escaped(&row.sentence)
                )
            }
            (None, _) => escaped(&row.sentence),
        };
        let class = if row.failed { "failed" } else { "weak" };
        let _ = write!(body, "<tr><td>{name}</td><td class=\"{class}\">{}</td>", escaped(row.title));
        for bytes in row.bytes() {
            match row.error {
                Some(_) => body.push_str("<td class=\"n\" data-v=\"-1\"></td>"),
                None => {
                    let _ = write!(body, "<td class=\"n\" data-v=\"{bytes}\">{}</td>", Bytes(bytes));
                }
            }
        }
        let _ = write!(body, "<td>{words}</td></tr>");
    }
    let _ = write!(body, "</tbody></table><footer>{}</footer></main>", escaped(&imprint(options)));
    html::document(&counted(rows.len()), &body, &Colours::default(), options)
}

fn as_markdown(rows: &[OverviewRow], options: &ReportOptions) -> String {
    let mut out = format!("## {}\n\n|", counted(rows.len()));
    for (name, _) in COLUMNS {
        let _ = write!(out, " {name} |");
    }
    out.push_str("\n|");
    for (_, class) in COLUMNS {
        out.push_str(if class.is_empty() { " --- |" } else { " ---: |" });
    }
    out.push('\n');
    for row in rows {
        let name = markdown::code(row.title()).replace('|', "\\|");
        let name = row.page.as_ref().map_or(name.clone(), |page| format!("[{name}]({})", address(page)));
        let _ = write!(out, "| {name} | {} |", row.title);
        for bytes in row.bytes() {
            let text = if row.error.is_some() { String::new() } else { Bytes(bytes).to_string() };
            let _ = write!(out, " {text} |");
        }
        let words = row.error.as_ref().map_or_else(|| row.sentence.clone(), |error| format!("no page: {error}"));
        let _ = writeln!(out, " {} |", markdown::escaped(&words));
    }
    let _ = writeln!(out, "\n<sub>{}</sub>", imprint(options));
    out
}

fn as_json(rows: &[OverviewRow], _: &ReportOptions) -> String {
    // Rows hold texts and numbers only: nothing that JSON could not say.
    serde_json::to_string_pretty(rows).unwrap_or_default() + "\n"
}

impl OverviewRow {
    fn bytes(&self) -> [u64; 3] {
        [self.peak_allocated, self.peak_reserved, self.largest_free_block]
    }
}

/// Names of the columns, and the class of those that hold numbers.
const COLUMNS: [(&str, &str); 6] = [
    ("file", ""),
    ("verdict", ""),
    ("peak allocated", "n"),
    ("peak reserved", "n"),
    ("largest free block", "n"),
    ("what it was", ""),
];

fn counted(files: usize) -> String {
    if files == 1 { "1 snapshot".to_owned() } else { format!("{files} snapshots") }
}

fn imprint(options: &ReportOptions) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match options.written_us {
        Some(us) => format!("Fragscope {version}, {} UTC", crate::chart::text::date_time(us)),
        None => format!("Fragscope {version}"),
    }
}

/// A file's name as part of an address.
fn address(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hold_nothing_that_ends_them() {
        for (name, safe) in [("a.html", "a.html"), ("a b)\"<.md", "a%20b%29%22%3C.md"), ("ä", "%C3%A4")] {
            assert_eq!(address(name), safe);
        }
    }
}
