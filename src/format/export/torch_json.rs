//! PyTorch's snapshot as JSON, for scripts and for the page that reads either.

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject, Exporter};
use crate::format::export::json_tree::JsonTree;
use crate::format::export::moment;
use crate::format::export::torch::{self, Release};
use crate::format::export::torch_pickle::torch_leaves_out;
use crate::model::Snapshot;
use crate::replay::recorded;
use std::io::Write;

/// See the head of this file.
pub struct JsonFile;

impl Exporter for JsonFile {
    fn name(&self) -> &'static str {
        "json"
    }
    fn about(&self) -> &'static str {
        "the same structure as JSON, every stack in full; PyTorch's page and fragscope open it"
    }
    fn has_moment(&self) -> bool {
        true
    }
    fn leaves_out(&self, snapshot: &Snapshot) -> Option<String> {
        torch_leaves_out(snapshot)
    }
    fn write(
        &self,
        subject: &ExportSubject<'_>,
        _part: &str,
        out: &mut (dyn Write + Send),
        progress: &Progress,
    ) -> Result<(), ExportError> {
        let records = recorded::recorded(subject.snapshot, progress)?;
        let mut tree = JsonTree::new(out);
        torch::write(&mut tree, &records, Release::of(&subject.snapshot.origin), progress)?;
        tree.finish()?.flush()?;
        Ok(())
    }
    fn write_moment(&self, snapshot: &Snapshot, out: &mut (dyn Write + Send), progress: &Progress) -> Result<(), ExportError> {
        moment::write_json(snapshot, out, progress)
    }
}
