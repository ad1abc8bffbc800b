//! The contract of a comparison as a file, and its register.
//!
//! To add a kind: one file with its [`DiffReport`], one line in [`DIFFS`]. Always: all kinds say the same, because all are
//! made from one [`DiffModel`] and one set of pictures.

use crate::base::Progress;
use crate::report::diff_html::DiffHtml;
use crate::report::diff_markdown::DiffMarkdown;
use crate::report::diff_model::{Compared, DiffModel};
use crate::report::diff_page::DiffPng;
use crate::report::report::{ReportError, ReportOptions};

/// One kind of file.
pub trait DiffReport: Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;
    /// The extension of its files, without the dot.
    fn extension(&self) -> &'static str;
    /// Its bytes.
    fn file(&self, compared: &Compared<'_>, options: &ReportOptions, progress: &Progress) -> Result<Vec<u8>, ReportError>;
}

/// All kinds, in the order the help shows them.
pub const DIFFS: &[&dyn DiffReport] = &[&DiffPng, &DiffHtml, &DiffMarkdown, &DiffJson];

/// The kind of a file extension, letter case ignored.
pub fn diff_of_extension(extension: &str) -> Option<&'static dyn DiffReport> {
    DIFFS.iter().copied().find(|form| form.extension().eq_ignore_ascii_case(extension))
}

/// Writes what `diff --json` prints.
struct DiffJson;

impl DiffReport for DiffJson {
    fn name(&self) -> &'static str {
        "for machines"
    }
    fn extension(&self) -> &'static str {
        "json"
    }
    fn file(&self, compared: &Compared<'_>, options: &ReportOptions, _: &Progress) -> Result<Vec<u8>, ReportError> {
        let mut bytes = Vec::new();
        DiffModel::of(compared, options).write(&mut bytes)?;
        Ok(bytes)
    }
}
