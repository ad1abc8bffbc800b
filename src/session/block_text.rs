//! A table of blocks as text for the clipboard: made in a job, however long it is.

use crate::analysis::{Asked, BlockTable, BlockTableParams, Query};
use crate::base::{Cancelled, HeapSize, Progress};
use crate::report::block_csv::{self, TextForm};

/// Asks for the rows of a table as one text.
pub struct BlockText;

/// The text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedText(pub String);

impl Query for BlockText {
    const NAME: &'static str = "text of a table";
    /// The table, and how it is written.
    type Params = (BlockTableParams, TextForm);
    type Answer = CopiedText;

    fn answer(asked: &Asked<'_>, (params, form): &Self::Params, progress: &Progress) -> Result<CopiedText, Cancelled> {
        let table = BlockTable::answer(asked, params, progress)?;
        block_csv::text(&table, asked.subject.snapshot, asked.memory(), *form, progress).map(CopiedText)
    }
}

impl HeapSize for CopiedText {
    fn heap_size(&self) -> usize {
        self.0.capacity()
    }
}
