//! A snapshot becomes a file for other tools. One exporter a form; the name of the file decides.
//!
//! [`EXPORTERS`] is the register. Always: what an exporter gets is a snapshot, so a window, a redacted one and the result of
//! a simulation are written like a file that was read; files are put in place whole ([`place`]).

mod csv;
pub mod exporter;
mod json_tree;
mod moment;
mod parquet;
pub mod place;
pub mod redact;
mod tables;
mod torch;
mod torch_json;
mod torch_pickle;
mod trace_text;
pub(crate) mod tree;

pub use exporter::{ExportError, ExportSubject, Exporter};
pub use redact::redacted;

/// All forms, in the order of the help.
pub const EXPORTERS: &[&dyn Exporter] =
    &[&torch_pickle::PickleFile, &torch_json::JsonFile, &csv::CsvFile, &parquet::ParquetFolder, &trace_text::TraceFile];

/// The tables that a form of one table can hold.
pub fn table_names() -> Vec<&'static str> {
    tables::Table::ALL.into_iter().map(tables::Table::name).collect()
}

/// The form of this name.
pub fn exporter_of_name(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|exporter| exporter.name().eq_ignore_ascii_case(name))
}
