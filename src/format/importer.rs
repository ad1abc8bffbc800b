//! The contract of a file format.

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::source::Source;
use crate::model::VersionRange;
use crate::replay::SnapshotBuilder;

/// How sure an importer is that a file is its own, from the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// It may be; nothing speaks against it.
    Possible,
    /// It looks like it.
    Likely,
    /// It cannot be anything else.
    Certain,
}

/// A file format.
pub trait Importer: Sync {
    /// Its stable name, as `Origin::format` has it.
    fn name(&self) -> &'static str;
    /// How sure it is, from the first bytes (up to 64 KiB, unpacked).
    fn sniff(&self, head: &[u8]) -> Confidence;
    /// Reads the source into the builder; tells which releases may have written it, if the content shows.
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError>;
}
