//! Floor 7: a snapshot on paper, and the JSON of the command line.
//!
//! [`REPORTS`] is the register: one line a kind of file, in the order the help shows them.

pub mod facts;
pub mod json;
pub mod page;
pub mod png;
#[expect(clippy::module_inception, reason = "every wing names its contract's file after itself")]
pub mod report;

pub use page::render_report;
pub use report::{Report, ReportError, ReportOptions, ReportSubject};

/// All kinds of report.
pub const REPORTS: &[&dyn Report] = &[&png::Png];

/// The report of a file extension, letter case ignored.
pub fn report_of_extension(extension: &str) -> Option<&'static dyn Report> {
    REPORTS.iter().copied().find(|report| report.extension().eq_ignore_ascii_case(extension))
}
