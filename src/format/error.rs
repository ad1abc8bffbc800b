//! Why a file was not opened: each arm one sentence that says what, where, and what to do instead.

use crate::base::Cancelled;

/// A file that was not opened.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The user cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The operating system could not read it.
    #[error("cannot read {name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder instead of a file.
    #[error("{name} is a folder; open one of the snapshots in it")]
    Directory {
        /// The folder.
        name: String,
    },
    /// Nothing is in it.
    #[error("{name} is empty: the dump failed before it wrote anything; take the snapshot again")]
    Empty {
        /// The file.
        name: String,
    },
    /// Another kind of file, which we know.
    #[error("{name} is {what}, not an allocator snapshot; {advice}")]
    Foreign {
        /// The file.
        name: String,
        /// What it is.
        what: String,
        /// What to do instead.
        advice: String,
    },
    /// A file of another tool that we read, with nothing of use in it.
    #[error("{name} is {kind}, but {why}")]
    Neighbour {
        /// The file.
        name: String,
        /// What it is.
        kind: String,
        /// What is wrong with it: where, and what to do.
        why: String,
    },
    /// Readable, but of another content.
    #[error(
        "{name} is readable, but it is no allocator snapshot: its top level holds {holds}; a snapshot is a dict with \
         `segments` and `device_traces`, as torch.cuda.memory._dump_snapshot() writes it"
    )]
    NotASnapshot {
        /// The file.
        name: String,
        /// What its top level holds.
        holds: String,
    },
    /// The pickle wants to run something.
    #[error(
        "{name} holds objects, not only data: opcode {opcode} at byte {offset} would load or run code and is refused; \
         nothing was run. Write the snapshot with torch.cuda.memory._dump_snapshot(), or as plain dicts, lists and numbers"
    )]
    Refused {
        /// The file.
        name: String,
        /// The opcode, in pickletools' words.
        opcode: &'static str,
        /// Its place in the pickle.
        offset: u64,
    },
    /// The file contradicts its own format.
    #[error("{name} is damaged: {what} at byte {offset}; get a fresh copy of the file")]
    Broken {
        /// The file.
        name: String,
        /// What is wrong.
        what: String,
        /// Where, in the unpacked content.
        offset: u64,
    },
    /// JSON that is not well formed.
    #[error("{name} begins like JSON but is not well formed: {why}; a snapshot in JSON has the structure of the pickle")]
    BadJson {
        /// The file.
        name: String,
        /// What the JSON reader said, with line and column.
        why: String,
    },
    /// The file ends before anything in it was whole.
    #[error("{name} ends early, at byte {offset}, before anything in it was complete; the dump or the copy was cut off")]
    EndsEarly {
        /// The file.
        name: String,
        /// The byte, in the unpacked content.
        offset: u64,
    },
    /// A container that cannot be opened.
    #[error("{name} is a {container} file that cannot be unpacked: {why}; get a fresh copy, or unpack it yourself")]
    Container {
        /// The file.
        name: String,
        /// gzip, zip …
        container: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A file that unpacks to far more than a snapshot of its size could.
    #[error("{name} unpacks to more than {limit} bytes, far more than a snapshot of its size can hold; it is not opened")]
    Bomb {
        /// The file.
        name: String,
        /// The bound in bytes.
        limit: u64,
    },
    /// A log of a later version.
    #[error(
        "{name} was written by a newer Fragscope: its log is of version {version}, and this one reads up to {known}; update \
         Fragscope to open it"
    )]
    NewerLog {
        /// The file.
        name: String,
        /// Its version.
        version: u16,
        /// The latest that can be read.
        known: u16,
    },
    /// Nothing we know.
    #[error(
        "{name} is of no kind that is known here: it is neither a snapshot (pickle, JSON or a page of PyTorch's memory \
         viewer) nor a file of another tool that is read, plain or in gzip, zstd, xz, bzip2 or zip; write a snapshot with torch.cuda.memory._dump_snapshot()"
    )]
    Unknown {
        /// The file.
        name: String,
    },
}

impl From<Cancelled> for FormatError {
    fn from(_: Cancelled) -> Self {
        FormatError::Cancelled
    }
}
