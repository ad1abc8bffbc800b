//! Where the bytes come from: a memory map, or a window that slides over a stream.
//!
//! Always: a plain file is never copied, a packed one is never whole in memory; whatever is unpacked is
//! bounded by what the file has on disk. How far one is counts in bytes of the file itself.

use crate::format::error::FormatError;
use std::cell::Cell;
use std::io::{BufRead, Read};
use std::rc::Rc;

/// The window of a stream at the start; it grows only for a single longer value.
const WINDOW: usize = 256 << 10;
/// What is looked at to tell the format.
pub(crate) const HEAD: usize = 64 << 10;
/// Unpacked bytes for each byte on disk. Snapshots pack 10 to 30 times.
const RATIO: u64 = 1000;
/// Unpacked bytes that are always allowed.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// A window of bytes a machine reads from front to back.
pub(crate) trait Input {
    /// The next opcode, none at the end.
    fn opcode(&mut self) -> Option<u8>;
    /// The opcode that was read last.
    fn last_opcode(&self) -> u8;
    /// The next `len` bytes, none if there are not so many.
    fn take(&mut self, len: usize) -> Option<&[u8]>;
    /// The bytes up to the next newline, which is passed over; none if there is none within `max`.
    fn line(&mut self, max: usize) -> Option<&[u8]>;
    /// Bytes read so far.
    fn offset(&self) -> u64;
    /// Bytes known to be there: after a failed `take`, where the input ends.
    fn reach(&self) -> u64;
    /// How far one is in bytes of the file on disk.
    fn progress(&self) -> u64;
}

/// Bytes that lie in memory as a whole.
#[derive(Debug)]
pub(crate) struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
    last: u8,
}

impl<'a> Slice<'a> {
    /// From the first byte on.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, last: 0 }
    }
    /// What was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

impl Input for Slice<'_> {
    #[inline]
    fn opcode(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        self.last = byte;
        Some(byte)
    }
    fn last_opcode(&self) -> u8 {
        self.last
    }
    #[inline]
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(bytes)
    }
    fn line(&mut self, max: usize) -> Option<&[u8]> {
        let rest = &self.bytes[self.at..];
        let len = rest[..rest.len().min(max)].iter().position(|byte| *byte == b'\n')?;
        self.at += len + 1;
        Some(&rest[..len])
    }
    #[inline]
    fn offset(&self) -> u64 {
        self.at as u64
    }
    fn reach(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn progress(&self) -> u64 {
        self.at as u64
    }
}

/// A window over bytes that come one after another.
pub(crate) struct Stream<'a> {
    reader: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    before: u64,
    limit: u64,
    on_disk: Rc<Cell<u64>>,
    last: u8,
    failure: Option<String>,
    over: bool,
    bomb: bool,
}

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({} bytes read)", self.before + self.at as u64)
    }
}

impl<'a> Stream<'a> {
    /// A window over a reader; `on_disk` is moved on by whoever reads the file itself.
    pub(crate) fn new(reader: Box<dyn Read + 'a>, on_disk: Rc<Cell<u64>>, limit: u64) -> Self {
        let buffer = vec![0; WINDOW];
        Self { reader, buffer, at: 0, end: 0, before: 0, limit, on_disk, last: 0, failure: None, over: false, bomb: false }
    }
    /// How far the file itself is read.
    pub(crate) fn on_disk(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.on_disk)
    }
    /// What went wrong while unpacking, if the stream ended with that.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
    /// The bound that was passed, if the stream ended with that.
    pub(crate) fn bomb(&self) -> Option<u64> {
        self.bomb.then_some(self.limit)
    }
    /// Fills the window until `len` bytes lie ahead or the stream ends.
    fn ahead(&mut self, len: usize) -> &[u8] {
        if self.end - self.at < len {
            self.fill(len);
        }
        &self.buffer[self.at..self.end]
    }
    #[cold]
    fn fill(&mut self, len: usize) {
        self.before += self.at as u64;
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < len && !self.over {
            if self.end == self.buffer.len() {
                // A declared length alone allocates nothing: the window grows as bytes really come.
                let larger = (self.buffer.len() * 2).min(len.max(WINDOW));
                self.buffer.resize(larger, 0);
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over = true;
                    self.failure = Some(error.to_string());
                }
            }
            if self.limit < self.before + self.end as u64 {
                self.over = true;
                self.bomb = true;
            }
        }
    }
}

impl Input for Stream<'_> {
    #[inline]
    fn opcode(&mut self) -> Option<u8> {
        if self.at == self.end {
            self.fill(1);
        }
        let byte = *self.buffer[..self.end].get(self.at)?;
        self.at += 1;
        self.last = byte;
        Some(byte)
    }
    fn last_opcode(&self) -> u8 {
        self.last
    }
    #[inline]
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        if self.end - self.at < len {
            self.fill(len);
            if self.end - self.at < len {
                return None;
            }
        }
        self.at += len;
        Some(&self.buffer[self.at - len..self.at])
    }
    fn line(&mut self, max: usize) -> Option<&[u8]> {
        let mut seen = 0;
        loop {
            let ahead = self.ahead(seen + 1);
            if ahead.len() <= seen || max < seen {
                return None;
            }
            if let Some(len) = ahead[seen..].iter().position(|byte| *byte == b'\n') {
                let len = seen + len;
                self.at += len + 1;
                return Some(&self.buffer[self.at - len - 1..self.at - 1]);
            }
            seen = ahead.len();
        }
    }
    #[inline]
    fn offset(&self) -> u64 {
        self.before + self.at as u64
    }
    fn reach(&self) -> u64 {
        self.before + self.end as u64
    }
    fn progress(&self) -> u64 {
        self.on_disk.get()
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let ahead = self.fill_buf()?;
        let len = ahead.len().min(out.len());
        out[..len].copy_from_slice(&ahead[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Stream<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.at == self.end {
            self.fill(1);
            if self.at == self.end
                && let Some(failure) = &self.failure
            {
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, failure.clone()));
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }
    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.end);
    }
}

/// Counts what is read from the file itself.
struct Counted<R> {
    reader: R,
    on_disk: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(out)?;
        self.on_disk.set(self.on_disk.get() + read as u64);
        Ok(read)
    }
}

/// The bytes of a source.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// All of them, in memory or mapped.
    Slice(&'a [u8]),
    /// As they come.
    Stream(Box<Stream<'a>>),
}

/// What an importer reads from.
#[derive(Debug)]
pub struct Source<'a> {
    name: String,
    size: u64,
    containers: Vec<&'static str>,
    on_disk: Rc<Cell<u64>>,
    body: Body<'a>,
}

/// Containers that are opened here, by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Zip,
}

impl Container {
    /// Its usual name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Container::Gzip => "gzip",
            Container::Zstd => "zstd",
            Container::Xz => "xz",
            Container::Bzip2 => "bzip2",
            Container::Zip => "zip",
        }
    }
    /// The container a file is, by its magic number.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Container::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Container::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Container::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Container::Bzip2),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Container::Zip),
            _ => None,
        }
    }
}

impl<'a> Source<'a> {
    /// Bytes in memory, or mapped.
    pub fn of_bytes(name: &str, bytes: &'a [u8]) -> Self {
        Self::new(name, bytes.len() as u64, Body::Slice(bytes))
    }
    /// Bytes that come one after another and cannot be mapped (a pipe); `size` is 0 where it is not known.
    pub fn of_reader(name: &str, size: u64, reader: Box<dyn Read + 'a>) -> Self {
        let on_disk = Rc::new(Cell::new(0));
        let counted = Counted { reader, on_disk: Rc::clone(&on_disk) };
        let stream = Stream::new(Box::new(counted), Rc::clone(&on_disk), u64::MAX);
        Self { on_disk, ..Self::new(name, size, Body::Stream(Box::new(stream))) }
    }
    fn new(name: &str, size: u64, body: Body<'a>) -> Self {
        Self { name: name.to_owned(), size, containers: Vec::new(), on_disk: Rc::new(Cell::new(0)), body }
    }
    /// What the user called it.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its size on disk in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
    /// The containers that were opened, the outermost first.
    pub fn containers(&self) -> &[&'static str] {
        &self.containers
    }
    /// The first bytes, at most 64 KiB.
    pub fn head(&mut self) -> &[u8] {
        match &mut self.body {
            Body::Slice(bytes) => &bytes[..bytes.len().min(HEAD)],
            Body::Stream(stream) => {
                let ahead = stream.ahead(HEAD);
                &ahead[..ahead.len().min(HEAD)]
            }
        }
    }
    /// What went wrong while unpacking, if it ended with that.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.body {
            Body::Slice(_) => None,
            Body::Stream(stream) => stream.failure(),
        }
    }
    pub(crate) fn body(&mut self) -> &mut Body<'a> {
        &mut self.body
    }
    /// The content of a packed source; not for zip.
    pub(crate) fn unpacked(self, container: Container) -> Result<Source<'a>, FormatError> {
        let Self { name, size, mut containers, on_disk, body } = self;
        let reader: Box<dyn Read + 'a> = match body {
            Body::Slice(bytes) => Box::new(Counted { reader: bytes, on_disk: Rc::clone(&on_disk) }),
            Body::Stream(stream) => stream,
        };
        let failed = |error: std::io::Error| FormatError::Container {
            name: name.clone(),
            container: container.name(),
            why: error.to_string(),
        };
        let reader: Box<dyn Read + 'a> = match container {
            Container::Gzip => Box::new(flate2::read::MultiGzDecoder::new(reader)),
            Container::Zstd => Box::new(zstd::stream::read::Decoder::new(reader).map_err(failed)?),
            Container::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(reader)),
            Container::Xz | Container::Zip => {
                let limits = liblzma::stream::Stream::new_auto_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED);
                Box::new(liblzma::read::XzDecoder::new_stream(reader, limits.map_err(|error| failed(error.into()))?))
            }
        };
        containers.push(container.name());
        let stream = Stream::new(reader, Rc::clone(&on_disk), unpacked_limit(size));
        Ok(Source { name, size, containers, on_disk, body: Body::Stream(Box::new(stream)) })
    }
    /// A member of a zip file as a source of its own.
    pub(crate) fn member<'m>(&self, reader: Box<dyn Read + 'm>) -> Source<'m> {
        let counted = Counted { reader, on_disk: Rc::clone(&self.on_disk) };
        let stream = Stream::new(Box::new(counted), Rc::clone(&self.on_disk), unpacked_limit(self.size));
        let mut containers = self.containers.clone();
        containers.push(Container::Zip.name());
        let (name, size, on_disk) = (self.name.clone(), self.size, Rc::clone(&self.on_disk));
        Source { name, size, containers, on_disk, body: Body::Stream(Box::new(stream)) }
    }
}

/// What an xz decoder may take; the largest preset needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// How much a file of this size may unpack to: 64 MiB, and a thousand times its size.
pub(crate) fn unpacked_limit(size: u64) -> u64 {
    UNPACKED_FLOOR.saturating_add(size.saturating_mul(RATIO))
}

/// Maps a file into memory.
pub(crate) fn map(file: &std::fs::File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: the map is only read, and dropped before reading returns. Somebody who shortens the file meanwhile
    // can end this process with SIGBUS, as with every mapped file; nothing else can go wrong.
    unsafe { memmap2::Mmap::map(file) }
}

/// A zip file and its members.
pub(crate) struct Archive<'a>(zip::ZipArchive<std::io::Cursor<&'a [u8]>>);

impl<'a> Archive<'a> {
    /// Opens the list of members; the error is the reason in words.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, String> {
        zip::ZipArchive::new(std::io::Cursor::new(bytes)).map(Self).map_err(|error| error.to_string())
    }
    /// Number of members, folders included.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    /// The names of all members.
    pub(crate) fn names(&self) -> Vec<String> {
        (0..self.len()).filter_map(|member| self.0.name_for_index(member)?.ok().map(|name| name.into_owned())).collect()
    }
    /// The content of a member, none for a folder.
    pub(crate) fn member(&mut self, member: usize) -> Result<Option<Box<dyn Read + '_>>, String> {
        let file = self.0.by_index(member).map_err(|error| error.to_string())?;
        Ok(if file.is_dir() { None } else { Some(Box::new(file)) })
    }
}
