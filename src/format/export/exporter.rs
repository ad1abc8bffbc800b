//! The contract of a file for other tools.
//!
//! To add one: one file with its [`Exporter`], one line in the register. Always: what is written is what the snapshot
//! holds, all devices of it; what the form cannot carry is said by [`Exporter::leaves_out`].

use crate::base::{Cancelled, Progress};
use crate::format::error::FormatError;
use crate::model::Snapshot;
use std::io::{self, Write};

/// What is to be written.
#[derive(Clone, Copy)]
pub struct ExportSubject<'a> {
    /// The snapshot: whole, or a window of one.
    pub snapshot: &'a Snapshot,
    /// What tables call it: what tells the files of many ranks apart.
    pub title: &'a str,
    /// The table, where one file holds one of them.
    pub table: Option<&'a str>,
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Nobody wants it any more.
    #[error("cancelled")]
    Cancelled,
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The form has no table of this name.
    #[error("there is no table \"{0}\": it is one of events, allocations, segments and stacks")]
    NoTable(String),
    /// A writer of another crate refused.
    #[error("{0}")]
    Writer(String),
}

impl From<Cancelled> for ExportError {
    fn from(Cancelled: Cancelled) -> Self {
        ExportError::Cancelled
    }
}

impl From<FormatError> for ExportError {
    fn from(error: FormatError) -> Self {
        ExportError::Writer(error.to_string())
    }
}

/// A kind of file for other tools.
pub trait Exporter: Sync {
    /// Its word on the command line, which is also how its files end.
    fn name(&self) -> &'static str;
    /// Who reads it, for people.
    fn about(&self) -> &'static str;
    /// The files of the folder it writes; none: it writes one file.
    fn parts(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether one file holds one table, so that a table is chosen.
    fn has_tables(&self) -> bool {
        false
    }
    /// Whether it knows one moment as segments alone.
    fn has_moment(&self) -> bool {
        false
    }
    /// What of this snapshot the form cannot carry, in one sentence.
    fn leaves_out(&self, _snapshot: &Snapshot) -> Option<String> {
        None
    }
    /// Writes it, or one part of it.
    fn write(
        &self,
        subject: &ExportSubject<'_>,
        part: &str,
        out: &mut (dyn Write + Send),
        progress: &Progress,
    ) -> Result<(), ExportError>;
    /// Writes the segments at the end of a snapshot alone, as a list.
    fn write_moment(&self, _snapshot: &Snapshot, _out: &mut (dyn Write + Send), _progress: &Progress) -> Result<(), ExportError> {
        Err(ExportError::Writer(format!("{} does not hold one moment alone", self.name())))
    }
}
