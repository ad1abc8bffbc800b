//! Floor 4: bytes become a `Snapshot`. One importer a file format; contents decide, not names.
//!
//! [`open`] looks into containers, asks every importer how sure it is and lets the surest read. Nothing in a
//! file is ever run, and whatever a file asks for is bounded by its size.

mod assembly;
pub mod chrome_trace;
pub mod error;
pub mod export;
mod fields;
mod finish;
mod foreign;
pub mod fsl;
pub mod importer;
pub mod jax_pprof;
pub mod memory_timeline;
mod neighbour;
mod pickle;
mod records;
pub mod rmm_csv;
pub mod source;
pub mod torch_html;
pub mod torch_json;
pub mod torch_pickle;
mod version;
pub mod vllm_kv;
mod watched;
mod words;

pub use error::FormatError;
pub use importer::{Confidence, Importer};
pub use source::Source;

use crate::base::Progress;
use crate::format::source::{Archive, Body, Container};
use crate::model::{Origin, OriginKind, Snapshot, VersionRange};
use crate::replay::SnapshotBuilder;
use std::io::Read as _;
use std::path::Path;

/// All file formats.
pub const IMPORTERS: &[&dyn Importer] = &[
    &torch_pickle::TorchPickle,
    &torch_json::TorchJson,
    &torch_html::TorchHtml,
    &fsl::Fsl,
    &memory_timeline::MemoryTimeline,
    &chrome_trace::ChromeTrace,
    &rmm_csv::RmmCsv,
    &jax_pprof::JaxPprof,
    &vllm_kv::VllmKv,
];

/// What the user says of a file, because it does not say it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Bytes of one block of a KV cache.
    pub block_bytes: Option<u64>,
}

impl Told {
    /// An empty builder that knows it.
    fn builder(self) -> SnapshotBuilder {
        let Told { block_bytes } = self;
        let mut builder = SnapshotBuilder::default();
        builder.block_bytes = block_bytes;
        builder
    }
}

/// Containers within containers that are opened.
const MAX_LAYERS: usize = 4;

/// Opens a file. It is mapped, not copied; packed files are unpacked as they are read.
pub fn open(path: &Path, progress: &Progress) -> Result<Snapshot, FormatError> {
    open_told(path, Told::default(), progress)
}

/// Opens a file with what the user says of it.
pub fn open_told(path: &Path, told: Told, progress: &Progress) -> Result<Snapshot, FormatError> {
    let mut builder = told.builder();
    let origin = read(path, &mut builder, progress)?;
    progress.stage("replaying", 0)?;
    Ok(builder.finish(origin, progress)?)
}

/// Opens bytes that are in memory: compiled-in samples, tests.
pub fn open_bytes(name: &str, bytes: &[u8], progress: &Progress) -> Result<Snapshot, FormatError> {
    open_bytes_told(name, bytes, Told::default(), progress)
}

/// Opens bytes that are in memory with what the user says of them.
pub fn open_bytes_told(name: &str, bytes: &[u8], told: Told, progress: &Progress) -> Result<Snapshot, FormatError> {
    let mut builder = told.builder();
    let origin = read_source(Source::of_bytes(name, bytes), &mut builder, progress)?;
    progress.stage("replaying", 0)?;
    Ok(builder.finish(origin, progress)?)
}

/// Reads a file into a builder, without replaying it.
pub fn read(path: &Path, builder: &mut SnapshotBuilder, progress: &Progress) -> Result<Origin, FormatError> {
    let name = path.display().to_string();
    let io = |source: std::io::Error| FormatError::Io { name: name.clone(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    let facts = file.metadata().map_err(io)?;
    if facts.is_dir() {
        return Err(FormatError::Directory { name });
    }
    if !facts.is_file() {
        return read_source(Source::of_reader(&name, 0, Box::new(file)), builder, progress);
    }
    if facts.len() == 0 {
        return Err(FormatError::Empty { name });
    }
    let map = source::map(&file).map_err(io)?;
    read_source(Source::of_bytes(&name, &map), builder, progress)
}

/// Reads any source into a builder, without replaying it.
pub fn read_source(source: Source<'_>, builder: &mut SnapshotBuilder, progress: &Progress) -> Result<Origin, FormatError> {
    let (name, bytes) = (source.name().to_owned(), source.size());
    let read = read_layer(source, builder, progress, 0)?;
    Ok(Origin { name, bytes, format: read.format, kind: OriginKind::File, written_by: read.written_by })
}

/// What was read, by whom.
struct Read {
    format: String,
    written_by: Option<VersionRange>,
}

fn read_layer(
    mut source: Source<'_>,
    builder: &mut SnapshotBuilder,
    progress: &Progress,
    depth: usize,
) -> Result<Read, FormatError> {
    if source.head().is_empty() {
        let name = source.name().to_owned();
        return Err(match (source.failure(), source.containers().last()) {
            (Some(why), Some(container)) => FormatError::Container { name, container, why: why.to_owned() },
            _ => FormatError::Empty { name },
        });
    }
    let head = source.head();
    if depth < MAX_LAYERS
        && let Some(container) = Container::of(head)
    {
        return match container {
            Container::Zip => read_zip(source, builder, progress, depth),
            packed => read_layer(source.unpacked(packed)?, builder, progress, depth + 1),
        };
    }
    let sniffed = IMPORTERS.iter().map(|importer| (importer.sniff(head), importer));
    let best = sniffed.max_by_key(|(confidence, _)| *confidence).filter(|(confidence, _)| Confidence::No < *confidence);
    let likely = best.is_some_and(|(confidence, _)| Confidence::Likely <= confidence);
    let foreign = foreign::recognise(head, likely).map(|kind| kind.error(source.name()));
    if let Some(foreign) = foreign {
        return Err(foreign);
    }
    let Some((_, importer)) = best else {
        return Err(FormatError::Unknown { name: source.name().to_owned() });
    };
    let mut format = importer.name().to_owned();
    for container in source.containers().iter().rev() {
        format.push_str(" in ");
        format.push_str(container);
    }
    let written_by = importer.read(&mut source, builder, progress)?;
    Ok(Read { format, written_by })
}

/// What a zip file inside another container may unpack to; only then it has to be whole in memory.
const MAX_NESTED_ZIP: u64 = 1 << 30;

fn read_zip(
    mut source: Source<'_>,
    builder: &mut SnapshotBuilder,
    progress: &Progress,
    depth: usize,
) -> Result<Read, FormatError> {
    let mut whole = Vec::new();
    let name = source.name().to_owned();
    let failed = |why: String| FormatError::Container { name: name.clone(), container: Container::Zip.name(), why };
    let bytes: &[u8] = match source.body() {
        Body::Slice(bytes) => bytes,
        Body::Stream(stream) => {
            std::io::Read::take(stream.as_mut(), MAX_NESTED_ZIP)
                .read_to_end(&mut whole)
                .map_err(|error| failed(error.to_string()))?;
            &whole
        }
    };
    let mut archive = Archive::new(bytes).map_err(failed)?;
    if let Some(foreign) = foreign::recognise_zip(&name, &archive.names()) {
        return Err(foreign);
    }
    let mut first_error = None;
    for member in 0..archive.len() {
        let Some(file) = archive.member(member).map_err(failed)? else { continue };
        let mut trial = Told { block_bytes: builder.block_bytes }.builder();
        match read_layer(source.member(file), &mut trial, progress, depth + 1) {
            Ok(read) => {
                *builder = trial;
                return Ok(read);
            }
            Err(FormatError::Cancelled) => return Err(FormatError::Cancelled),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| failed("it holds no files".to_owned())))
}
