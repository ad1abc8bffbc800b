//! Reads a log on as it grows.
//!
//! Always: each call gives what is new and whole and stops where the file ends today; nothing is read twice. A file
//! that became shorter is another file, and is an error.

use crate::format::error::FormatError;
use crate::format::fsl::split::{Piece, Splitter};
use crate::format::fsl::{CHUNK, Filling, VERSION};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// See the head of this file.
#[derive(Debug)]
pub struct Tail {
    name: String,
    file: File,
    read: u64,
    chunk: Vec<u8>,
    splitter: Splitter,
}

impl Tail {
    /// Opens a log, which may still be empty.
    pub fn open(path: &Path) -> Result<Tail, FormatError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| FormatError::Io { name: name.clone(), source })?;
        Ok(Tail { name, file, read: 0, chunk: vec![0; CHUNK], splitter: Splitter::default() })
    }
    /// Hands each new piece to `each`, up to about `most` bytes of them, and tells how many bytes were read:
    /// 0 says that nothing is new.
    pub fn pieces(&mut self, most: u64, mut each: impl FnMut(Piece<'_>)) -> Result<u64, FormatError> {
        let failed = |source| FormatError::Io { name: self.name.clone(), source };
        let size = self.file.metadata().map_err(failed)?.len();
        if size < self.read {
            let what = format!("it became shorter than the {} bytes that were read of it", self.read);
            return Err(FormatError::Broken { name: self.name.clone(), what, offset: size });
        }
        let mut read_now = 0;
        while read_now < most {
            let read = self.file.read(&mut self.chunk).map_err(failed)?;
            if read == 0 {
                break;
            }
            read_now += read as u64;
            self.splitter.feed(&self.chunk[..read]);
            while let Some(piece) = self.splitter.next_piece() {
                match piece {
                    Piece::Foreign => {
                        let what = "the first bytes are not those of a log".to_owned();
                        return Err(FormatError::Broken { name: self.name.clone(), what, offset: 0 });
                    }
                    Piece::Newer(version) => {
                        return Err(FormatError::NewerLog { name: self.name.clone(), version, known: VERSION });
                    }
                    sound => each(sound),
                }
            }
        }
        self.read += read_now;
        Ok(read_now)
    }
    /// The file will not grow any more: what is whole of its rest is taken, and where it ends in the middle of a record
    /// that is said.
    pub fn end(&mut self, filling: &mut Filling) {
        self.splitter.finish();
        while let Some(piece) = self.splitter.next_piece() {
            match piece {
                Piece::Record { kind, payload, at } => filling.take(kind, payload, at),
                Piece::Damage { from, to } => filling.damage(from, to),
                Piece::Foreign | Piece::Newer(_) => {}
            }
        }
        if let Some(at) = self.splitter.torn_at() {
            filling.torn(at);
        }
    }
    /// Bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }
    /// Takes what is new into a snapshot that is being filled; tells how many bytes were read.
    pub fn fill(&mut self, filling: &mut Filling, most: u64) -> Result<u64, FormatError> {
        self.pieces(most, |piece| match piece {
            Piece::Record { kind, payload, at } => filling.take(kind, payload, at),
            Piece::Damage { from, to } => filling.damage(from, to),
            Piece::Foreign | Piece::Newer(_) => {}
        })
    }
}
