//! All of a source as one reader, for formats that another library reads from front to back.
//!
//! Always: bytes are counted as they go, progress is told every quarter of a MiB, and reading stops where it is no longer
//! wanted or where a packed file unpacks to more than it may.

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::source::{Body, Source};
use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

/// Between two looks at the progress, in bytes.
pub(crate) const TICK: u64 = 256 << 10;

/// Hands all of a source to `read`, with the number of bytes that were read so far. A byte order mark is left out.
pub(crate) fn through<T>(
    source: &mut Source<'_>,
    progress: &Progress,
    read: impl FnOnce(&mut dyn Read, &Cell<u64>) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    let (name, size) = (source.name().to_owned(), source.size());
    progress.stage("reading", size)?;
    let (at, cancelled) = (Cell::new(0), Cell::new(false));
    let mut slice: &[u8];
    let (reader, on_disk): (&mut dyn Read, Option<Rc<Cell<u64>>>) = match source.body() {
        Body::Slice(bytes) => {
            slice = bytes;
            (&mut slice, None)
        }
        Body::Stream(stream) => {
            let on_disk = stream.on_disk();
            (stream.as_mut(), Some(on_disk))
        }
    };
    let mut watched = Watched { reader, on_disk, at: &at, next: TICK, progress, cancelled: &cancelled };
    // A byte order mark is no part of any of these formats, but editors write it.
    let mut mark = [0; 3];
    let got = read_some(&mut watched, &mut mark);
    let start = if &mark[..got] == b"\xef\xbb\xbf" { &[][..] } else { &mark[..got] };
    let done = read(&mut start.chain(watched), &at);
    if cancelled.get() {
        return Err(FormatError::Cancelled);
    }
    if let Body::Stream(stream) = source.body()
        && let Some(limit) = stream.bomb()
    {
        return Err(FormatError::Bomb { name, limit });
    }
    done
}

/// All bytes of a source, for formats that must be whole; mapped ones are not copied by whoever borrows them.
pub(crate) fn whole(source: &mut Source<'_>, progress: &Progress) -> Result<(Vec<u8>, Option<String>), FormatError> {
    let mut failure = None;
    let bytes = through(source, progress, |reader, _| {
        let mut bytes = Vec::new();
        // Whatever unpacking fails with, what came before is looked at.
        failure = reader.read_to_end(&mut bytes).err().map(|error| error.to_string());
        Ok(bytes)
    })?;
    Ok((bytes, failure))
}

/// Reads through, counting, and stops where the work is no longer wanted.
struct Watched<'a> {
    reader: &'a mut dyn Read,
    /// How far the file itself is read, where that is not the same.
    on_disk: Option<Rc<Cell<u64>>>,
    at: &'a Cell<u64>,
    next: u64,
    progress: &'a Progress,
    cancelled: &'a Cell<bool>,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(out)?;
        let at = self.at.get() + read as u64;
        self.at.set(at);
        if self.next <= at {
            self.next = at + TICK;
            let on_disk = self.on_disk.as_ref().map_or(at, |on_disk| on_disk.get());
            if self.progress.at(on_disk).is_err() {
                self.cancelled.set(true);
                return Err(std::io::Error::other("cancelled"));
            }
        }
        Ok(read)
    }
}

fn read_some(reader: &mut impl Read, out: &mut [u8]) -> usize {
    let mut got = 0;
    while got < out.len() {
        match reader.read(&mut out[got..]) {
            Ok(0) | Err(_) => break,
            Ok(read) => got += read,
        }
    }
    got
}
