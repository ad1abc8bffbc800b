//! PyTorch's snapshot as a pickle, which its own viewer and scripts open.

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject, Exporter};
use crate::format::export::moment;
use crate::format::export::torch::{self, Release};
use crate::format::pickle::writer::PickleTree;
use crate::model::{Job, Snapshot};
use crate::replay::recorded;
use std::io::Write;

/// See the head of this file.
pub struct PickleFile;

impl Exporter for PickleFile {
    fn name(&self) -> &'static str {
        "pickle"
    }
    fn about(&self) -> &'static str {
        "PyTorch's own format: pytorch.org/memory_viz and torch/cuda/_memory_viz.py open it"
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
        let mut tree = PickleTree::new(out)?;
        torch::write(&mut tree, &records, Release::of(&subject.snapshot.origin), progress)?;
        tree.finish()?.flush()?;
        Ok(())
    }
    fn write_moment(&self, snapshot: &Snapshot, out: &mut (dyn Write + Send), progress: &Progress) -> Result<(), ExportError> {
        moment::write_pickle(snapshot, out, progress)
    }
}

/// What PyTorch's format has no place for, or had and the reader did not keep.
pub(crate) fn torch_leaves_out(snapshot: &Snapshot) -> Option<String> {
    if snapshot.job != Job::default() {
        return Some(
            "what is known of the job (its facts, its devices, what they held) has no place in PyTorch's format".to_owned(),
        );
    }
    (!Release::of(&snapshot.origin).has_block_stacks())
        .then(|| "who used a block before its last owner (`history` of PyTorch 2.0 and before) is not kept".to_owned())
}
