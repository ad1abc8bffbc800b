//! Where a file goes: beside its name first, packed as its name says, then put in place whole.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// How a file is packed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As it is.
    Plain,
    /// gzip, `.gz`.
    Gzip,
    /// zstd, `.zst`.
    Zstd,
}

impl Packing {
    /// The packing a name ends in, and the name without that ending.
    pub fn of_name(name: &str) -> (Packing, &str) {
        let without = |ending: &str| {
            let head = name.len().checked_sub(ending.len()).filter(|head| name.is_char_boundary(*head))?;
            name[head..].eq_ignore_ascii_case(ending).then(|| &name[..head])
        };
        match (without(".gz"), without(".zst")) {
            (Some(rest), _) => (Packing::Gzip, rest),
            (_, Some(rest)) => (Packing::Zstd, rest),
            (None, None) => (Packing::Plain, name),
        }
    }
}

/// The name a file has until it is whole.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(beside))
}

/// Writes a file whole or not at all; `write` gets it under another name, and `failed` words what the system said.
pub fn write_beside<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let beside = beside(path).map_err(&failed)?;
    let written = File::create(&beside).map_err(&failed).and_then(|mut file| write(&mut file));
    let written = written.and_then(|()| fs::rename(&beside, path).map_err(&failed));
    written.inspect_err(|_| {
        // What was written of it, if anything, is of no use.
        let _ = fs::remove_file(&beside);
    })
}

/// Writes a folder of files whole or not at all. A folder of that name that holds nothing but these files is replaced;
/// anything else there is left alone and refused.
pub fn write_folder_beside<E>(
    path: &Path,
    parts: &[&str],
    failed: impl Fn(io::Error) -> E,
    mut write: impl FnMut(&str, &mut File) -> Result<(), E>,
) -> Result<(), E> {
    let beside = beside(path).map_err(&failed)?;
    let place = || -> io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        if !path.is_dir() {
            return Err(io::Error::other("there is a file of that name, and a folder is to be written"));
        }
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if !parts.iter().any(|part| *part == name) {
                let name = name.to_string_lossy().into_owned();
                return Err(io::Error::other(format!("the folder is there and holds {name}, which is not replaced")));
            }
        }
        Ok(())
    };
    let mut work = || -> Result<(), E> {
        place().map_err(&failed)?;
        fs::create_dir(&beside).map_err(&failed)?;
        for part in parts {
            let mut file = File::create(beside.join(part)).map_err(&failed)?;
            write(part, &mut file)?;
        }
        if path.exists() {
            fs::remove_dir_all(path).map_err(&failed)?;
        }
        fs::rename(&beside, path).map_err(&failed)
    };
    work().inspect_err(|_| {
        let _ = fs::remove_dir_all(&beside);
    })
}

/// Hands `write` a writer that packs, and ends the packing.
pub fn packed<E: From<io::Error>>(
    file: &mut File,
    packing: Packing,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    match packing {
        Packing::Plain => write(&mut out)?,
        Packing::Gzip => {
            let mut packer = GzEncoder::new(&mut out, Compression::default());
            write(&mut packer)?;
            packer.finish()?;
        }
        Packing::Zstd => {
            let mut packer = zstd::Encoder::new(&mut out, 3)?;
            write(&mut packer)?;
            packer.finish()?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Whether two paths are the same file or folder.
pub fn is_same(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_it_is_packed() {
        for (name, packing, rest) in [
            ("a.pickle", Packing::Plain, "a.pickle"),
            ("a.pickle.gz", Packing::Gzip, "a.pickle"),
            ("a.json.ZST", Packing::Zstd, "a.json"),
            (".gz", Packing::Gzip, ""),
            ("ä", Packing::Plain, "ä"),
        ] {
            assert_eq!(Packing::of_name(name), (packing, rest));
        }
    }
}
