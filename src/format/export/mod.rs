//! A snapshot becomes a file for other tools. One exporter a form; the name of the file decides.
//!
//! [`EXPORTERS`] is the register. Always: what an exporter gets is a snapshot, so a window, a redacted one and the result of
//! a simulation are written like a file that was read; files are put in place whole ([`place`]).

mod csv;
pub mod exporter;
mod json_tree;
mod moment;
mod parquet_folder;
pub mod place;
pub mod redact;
mod tables;
mod torch;
mod torch_json;
mod torch_pickle;
mod trace_text;
pub(crate) mod tree;

pub use exporter::{ExportError, ExportSubject, Exporter};
pub use place::Packing;
pub use redact::redacted;

use crate::base::Progress;
use std::path::Path;

/// All forms, in the order of the help.
pub const EXPORTERS: &[&dyn Exporter] =
    &[&torch_pickle::PickleFile, &torch_json::JsonFile, &csv::CsvFile, &parquet_folder::ParquetFolder, &trace_text::TraceFile];

/// The tables that a form of one table can hold.
pub fn table_names() -> Vec<&'static str> {
    tables::Table::ALL.into_iter().map(tables::Table::name).collect()
}

/// The form that a file's name asks for by its ending, letter case ignored, and how that name packs it.
pub fn exporter_of_file(name: &str) -> Option<(&'static dyn Exporter, Packing)> {
    let name = name.to_lowercase();
    let (packing, plain) = Packing::of_name(&name);
    let ends = |ending: &str| plain.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
    EXPORTERS.iter().copied().find(|exporter| ends(exporter.name())).map(|exporter| (exporter, packing))
}

/// Writes a snapshot in its place, whole or not at all: one file, packed as asked, or the folder of a form of several.
/// `moment`: only the segments at its end.
pub fn export(
    exporter: &dyn Exporter,
    packing: Packing,
    subject: &ExportSubject<'_>,
    place: &Path,
    moment: bool,
    progress: &Progress,
) -> Result<(), ExportError> {
    if exporter.parts().is_empty() {
        return place::write_beside(place, ExportError::Io, |file| {
            place::packed(file, packing, |out| {
                if moment {
                    exporter.write_moment(subject.snapshot, out, progress)
                } else {
                    exporter.write(subject, "", out, progress)
                }
            })
        });
    }
    place::write_folder_beside(place, exporter.parts(), ExportError::Io, |part, file| {
        place::packed(file, Packing::Plain, |out| exporter.write(subject, part, out, progress))
    })
}

/// What tables call the file they were made from: the name of where they go, without its endings.
pub fn title_of(place: &Path) -> String {
    let name = place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The form of this name.
pub fn exporter_of_name(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|exporter| exporter.name().eq_ignore_ascii_case(name))
}
