//! The page as JSON, for machines. Its names are a promise to scripts: add freely, rename nothing.
//!
//! One object: the fields of [`PageModel`] under their own names, and `why`, the list that `why --json` prints for this
//! device with the same log and capacity. All sizes are whole numbers of bytes, all times whole Unix µs, all events
//! 0-based. What a section that was not chosen would hold is null.

use crate::base::Progress;
use crate::report::material::Material;
use crate::report::page_model::{PageModel, Printed};
use crate::report::report::{Report, ReportError, ReportOptions, ReportSubject};
use crate::report::why_json::CaseInfo;
use serde::Serialize;
use std::io;

/// Writes JSON.
pub struct PageJson;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    model: &'a PageModel,
    why: Vec<CaseInfo<'a>>,
}

impl Report for PageJson {
    fn name(&self) -> &'static str {
        "for machines"
    }
    fn extension(&self) -> &'static str {
        "json"
    }
    fn files(&self, subject: &ReportSubject<'_>, options: &ReportOptions, progress: &Progress) -> Result<Printed, ReportError> {
        let material = Material::gather(subject, options, progress)?;
        let cases = material.diagnosis.cases.iter();
        let model = PageModel::of(&material, options);
        let page = Page {
            model: &model,
            why: cases.map(|case| CaseInfo::of(material.snapshot, material.memory.ordinal, case)).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&page).map_err(io::Error::from)?;
        bytes.push(b'\n');
        Ok(Printed { model, files: vec![bytes] })
    }
}
