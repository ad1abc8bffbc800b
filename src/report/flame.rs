//! The contract of a flame graph as a file.
//!
//! To add a kind: one file with its [`FlameReport`], one line in the register. Always: what a file holds sums to the
//! root of its tree, to the byte.

use crate::analysis::flame::{FlameNodeId, FlameTree};
use crate::model::Snapshot;
use crate::report::report::{ReportError, ReportOptions};
use std::io::Write;

/// What a flame graph is about.
#[derive(Clone, Copy, Debug)]
pub struct FlameSubject<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device's name.
    pub device: &'a str,
    /// The tree.
    pub tree: &'a FlameTree,
}

/// One kind of flame graph.
pub trait FlameReport: Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;
    /// The extension of its files, without the dot.
    fn extension(&self) -> &'static str;
    /// Writes it.
    fn write(&self, subject: &FlameSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError>;
}

/// The nodes at which stacks end, wider branches first and each after what lies below it, as they lie in the picture
/// from left to right; with the way there from the root, which is left out.
pub(crate) fn for_each_end(tree: &FlameTree, mut end: impl FnMut(&[FlameNodeId], i128)) {
    let mut path: Vec<FlameNodeId> = Vec::new();
    // A node comes up twice: before its children and after them.
    let mut open: Vec<(FlameNodeId, bool)> = tree.children(FlameNodeId::ROOT).rev().map(|node| (node, false)).collect();
    while let Some((node, done)) = open.pop() {
        let row = &tree.nodes[node];
        if !done {
            path.truncate(row.depth as usize - 1);
            path.push(node);
            open.push((node, true));
            open.extend(tree.children(node).rev().map(|child| (child, false)));
        } else if row.self_value != 0 {
            path.truncate(row.depth as usize);
            end(&path, row.self_value);
        }
    }
}
