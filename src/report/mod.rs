//! Floor 7: a snapshot on paper, and the JSON of the command line.
//!
//! [`REPORTS`] is the register: one line a kind of file, in the order the help shows them. [`FLAMES`] is the one of
//! flame graphs as files.

pub mod block_csv;
mod compose;
pub mod diff;
mod diff_html;
mod diff_markdown;
pub mod diff_model;
mod diff_page;
mod diff_pictures;
pub mod flame;
pub mod flame_png;
pub mod flame_svg;
mod flow;
pub mod folded;
pub mod html;
pub mod json;
pub mod kv;
pub mod kv_json;
pub mod markdown;
pub mod material;
pub mod memory_summary;
pub mod overview;
pub mod page;
mod page_facts;
pub mod page_json;
pub mod page_model;
pub mod perfetto;
pub mod pictures;
pub mod png;
pub mod pprof;
#[expect(clippy::module_inception, reason = "every wing names its contract's file after itself")]
pub mod report;
mod sheet;
pub mod speedscope;
pub mod svg;
pub mod what_if;
pub mod what_if_given;
pub mod what_if_job;
pub mod what_if_words;
pub mod whatif_json;
pub mod why_json;

pub use diff::{DIFFS, DiffReport, diff_of_extension};
pub use flame::{FlameReport, FlameSubject};
pub use page::render_report;
pub use page_model::{PageModel, Printed};
pub use report::{Pages, Report, ReportError, ReportOptions, ReportSubject, Section, Sections, page_path};

/// All kinds of report.
pub const REPORTS: &[&dyn Report] = &[&png::Png, &html::Html, &markdown::Markdown, &page_json::PageJson];

/// The report of a file extension, letter case ignored.
pub fn report_of_extension(extension: &str) -> Option<&'static dyn Report> {
    REPORTS.iter().copied().find(|report| report.extension().eq_ignore_ascii_case(extension))
}

/// All kinds of flame graph.
pub const FLAMES: &[&dyn FlameReport] =
    &[&flame_svg::FlameSvg, &folded::Folded, &speedscope::Speedscope, &pprof::Pprof, &flame_png::FlamePng];

/// The flame graph of a file extension, letter case ignored.
pub fn flame_of_extension(extension: &str) -> Option<&'static dyn FlameReport> {
    FLAMES.iter().copied().find(|flame| flame.extension().eq_ignore_ascii_case(extension))
}

/// The flame graph that a file's name asks for by its ending, letter case ignored.
pub fn flame_of_name(name: &str) -> Option<&'static dyn FlameReport> {
    let name = name.to_lowercase();
    FLAMES.iter().copied().find(|flame| name.strip_suffix(flame.extension()).is_some_and(|stem| stem.ends_with('.')))
}
