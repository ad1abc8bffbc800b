//! The recorder that runs inside a PyTorch job: one Python file, with the library it loads inside it.

use crate::capture::source::CaptureError;
use base64::Engine as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The recorder without its library.
const RECORDER: &str = include_str!("../../assets/record.py");
/// What receives the allocator's trace entries; empty where it could not be built.
const TRACKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracker.so"));
/// The line of the recorder where the library goes.
const PLACE: &str = "LIBRARY = \"\"\n";

/// Runs at the start of every Python of the job: starts the recorder, then the `sitecustomize` that ours hides.
const SITE: &str = "\
import os as _os
import sys as _sys
_folder = _os.path.dirname(_os.path.abspath(__file__))
try:
    import fragscope_record as _record
    _record.from_environment()
except Exception:
    _record = None
if _record is not None:
    _record.chain(_folder)
";

/// Whether the faster way was built into this program.
pub fn has_tracker() -> bool {
    !TRACKER.is_empty()
}

/// The recorder as one file that needs nothing else.
pub fn text() -> String {
    if TRACKER.is_empty() {
        return RECORDER.to_owned();
    }
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let packed = packer.write_all(TRACKER).and_then(|()| packer.finish());
    let Ok(packed) = packed else { return RECORDER.to_owned() };
    let library = base64::engine::general_purpose::STANDARD.encode(packed);
    RECORDER.replacen(PLACE, &format!("LIBRARY = \"{library}\"\n"), 1)
}

/// Writes the recorder as `record.py` into a folder, for use by hand.
pub fn write_by_hand(folder: &Path) -> Result<PathBuf, CaptureError> {
    let path = folder.join("record.py");
    write(&path, &text())?;
    Ok(path)
}

/// Writes what goes on the path of a job.
pub fn write_for_job(folder: &Path) -> Result<(), CaptureError> {
    write(&folder.join("fragscope_record.py"), &text())?;
    write(&folder.join("sitecustomize.py"), SITE)
}

fn write(path: &Path, text: &str) -> Result<(), CaptureError> {
    let failed = |source| CaptureError::Write { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_inside() {
        assert!(RECORDER.contains(PLACE), "the recorder has a place for its library");
        assert_eq!(text().contains(PLACE), !has_tracker());
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            assert!(has_tracker(), "the library is built wherever this program is");
        }
    }
}
