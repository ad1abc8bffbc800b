//! The pages that `_memory_viz.py trace_plot`, `segment_plot` and `profile_plot` write: a pickle in base64.
//!
//! The page is scanned and decoded as it comes; what surrounds the pickle is never whole in memory.

use crate::base::Progress;
use crate::format::error::FormatError;
use crate::format::importer::{Confidence, Importer};
use crate::format::source::{Body, Input, Source, Stream};
use crate::format::torch_pickle::read_pickle;
use crate::model::{VersionRange, WarningKind};
use crate::replay::SnapshotBuilder;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::cell::Cell;
use std::io::{BufRead, Read};
use std::rc::Rc;

/// See the head of this file.
#[derive(Debug)]
pub struct TorchHtml;

/// PyTorch appends zero bytes so that no padding is needed; other writers may pad.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true),
);
/// Longer names are cut.
const MAX_NAME: usize = 200;

impl Importer for TorchHtml {
    fn name(&self) -> &'static str {
        "torch-html"
    }
    fn sniff(&self, head: &[u8]) -> Confidence {
        let holds = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
        if head.trim_ascii_start().first() != Some(&b'<') {
            Confidence::No
        } else if holds(b"local_files") && holds(b"base64") {
            Confidence::Certain
        } else {
            Confidence::No
        }
    }
    fn read(
        &self,
        source: &mut Source<'_>,
        builder: &mut SnapshotBuilder,
        progress: &Progress,
    ) -> Result<Option<VersionRange>, FormatError> {
        let (name, size) = (source.name().to_owned(), source.size());
        progress.stage("reading", size)?;
        match source.body() {
            Body::Slice(bytes) => {
                let on_disk = Rc::new(Cell::new(0));
                let mut page = *bytes;
                read_page(&name, &mut page, &on_disk, true, builder, progress)
            }
            Body::Stream(stream) => {
                let on_disk = stream.on_disk();
                let read = read_page(&name, stream.as_mut(), &on_disk, false, builder, progress);
                match stream.bomb() {
                    Some(limit) => Err(FormatError::Bomb { name, limit }),
                    None => read,
                }
            }
        }
    }
}

fn read_page<R: BufRead>(
    name: &str,
    page: &mut R,
    on_disk: &Rc<Cell<u64>>,
    count: bool,
    builder: &mut SnapshotBuilder,
    progress: &Progress,
) -> Result<Option<VersionRange>, FormatError> {
    let io = |source: std::io::Error| FormatError::Io { name: name.to_owned(), source };
    let none =
        || FormatError::NotASnapshot { name: name.to_owned(), holds: "a web page without an embedded snapshot".to_owned() };
    // The first `local_files` may be the imported function's name: what counts is the array behind the `=`.
    loop {
        if !skip_past(page, b"local_files").map_err(io)? {
            return Err(none());
        }
        if next_is(page, b'=').map_err(io)? && next_is(page, b'[').map_err(io)? {
            break;
        }
    }
    let mut files: Vec<String> = Vec::new();
    let mut shown: Option<(usize, Option<VersionRange>)> = None;
    let (mut file, mut holds) = (String::new(), false);
    loop {
        let key = match next_token(page).map_err(io)? {
            Token::Text(key) => key,
            Token::EntryEnd => {
                if std::mem::take(&mut holds) {
                    files.push(std::mem::take(&mut file));
                }
                continue;
            }
            Token::Over => break,
        };
        if !next_is(page, b':').map_err(io)? {
            continue;
        }
        match key.as_str() {
            "base64" if shown.is_none() => {
                if !next_is(page, b'"').map_err(io)? {
                    return Err(none());
                }
                let encoded = UntilQuote { page: &mut *page, over: false, on_disk: count.then_some(on_disk) };
                let decoded = base64::read::DecoderReader::new(encoded, &BASE64);
                let mut input = Stream::new(Box::new(decoded), Rc::clone(on_disk), u64::MAX);
                let range = read_pickle(name, &mut input, builder, progress)?;
                if builder.warnings.count(WarningKind::Truncated) == 0
                    && let Some(failure) = input.failure()
                {
                    let (failure, at) = (failure.to_owned(), input.reach());
                    builder
                        .warnings
                        .push(WarningKind::Truncated, || format!("the base64 text ends at byte {at} of the pickle: {failure}"));
                }
                shown = Some((files.len(), range));
                holds = true;
                // Behind the pickle stand a few zero bytes, still encoded; what is wrong with them harms nobody.
                while !input.fill_buf().unwrap_or_default().is_empty() {
                    let rest = input.fill_buf().map_or(0, <[u8]>::len);
                    input.consume(rest);
                }
            }
            "base64" => holds = true,
            "name" => {
                if let Token::Text(text) = next_token(page).map_err(io)? {
                    file = text;
                }
            }
            _ => {}
        }
        progress.check()?;
    }
    if holds {
        files.push(file);
    }
    let Some((row, range)) = shown else { return Err(none()) };
    if 1 < files.len() {
        builder.warnings.push(WarningKind::Note, || {
            let others: Vec<_> =
                files.iter().enumerate().filter(|(other, _)| *other != row).map(|(_, file)| file.as_str()).collect();
            format!("the page holds {} snapshots; `{}` is shown, not {}", files.len(), files[row], others.join(", "))
        });
    }
    Ok(range)
}

/// Reads on until behind the next `needle`, whose first byte occurs in it only once; false at the end.
fn skip_past(page: &mut impl BufRead, needle: &[u8]) -> std::io::Result<bool> {
    let mut matched = 0;
    loop {
        let ahead = page.fill_buf()?;
        if ahead.is_empty() {
            return Ok(false);
        }
        let mut used = ahead.len();
        for (i, byte) in ahead.iter().enumerate() {
            matched = if *byte == needle[matched] { matched + 1 } else { usize::from(*byte == needle[0]) };
            if matched == needle.len() {
                used = i + 1;
                break;
            }
        }
        page.consume(used);
        if matched == needle.len() {
            return Ok(true);
        }
    }
}
/// Skips blanks; whether the next byte is this one, which is then passed over.
fn next_is(page: &mut impl BufRead, wanted: u8) -> std::io::Result<bool> {
    loop {
        let Some(byte) = page.fill_buf()?.first().copied() else { return Ok(false) };
        if byte == wanted {
            page.consume(1);
            return Ok(true);
        }
        if !byte.is_ascii_whitespace() {
            return Ok(false);
        }
        page.consume(1);
    }
}
/// A piece of the array of files.
enum Token {
    /// A text, cut to a sensible length.
    Text(String),
    /// The end of one file's entry.
    EntryEnd,
    /// The end of the array, or of the page.
    Over,
}

/// The next piece of the array.
fn next_token(page: &mut impl BufRead) -> std::io::Result<Token> {
    loop {
        let Some(byte) = page.fill_buf()?.first().copied() else { return Ok(Token::Over) };
        page.consume(1);
        match byte {
            b'"' => break,
            b'}' => return Ok(Token::EntryEnd),
            b']' => return Ok(Token::Over),
            _ => {}
        }
    }
    let mut text = Vec::new();
    let mut escaped = false;
    loop {
        let ahead = page.fill_buf()?;
        if ahead.is_empty() {
            return Ok(Token::Over);
        }
        let mut used = ahead.len();
        let mut done = false;
        for (i, byte) in ahead.iter().enumerate() {
            if *byte == b'"' && !escaped {
                (used, done) = (i + 1, true);
                break;
            }
            escaped = *byte == b'\\' && !escaped;
            if !escaped && text.len() < MAX_NAME {
                text.push(*byte);
            }
        }
        page.consume(used);
        if done {
            return Ok(Token::Text(String::from_utf8_lossy(&text).into_owned()));
        }
    }
}

/// Reads up to a quote, which it leaves passed over.
struct UntilQuote<'a, R> {
    page: &'a mut R,
    over: bool,
    on_disk: Option<&'a Rc<Cell<u64>>>,
}

impl<R: BufRead> Read for UntilQuote<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.over {
            return Ok(0);
        }
        let ahead = self.page.fill_buf()?;
        let ahead = &ahead[..ahead.len().min(out.len())];
        let (len, over) = match ahead.iter().position(|byte| *byte == b'"') {
            Some(len) => (len, true),
            None => (ahead.len(), false),
        };
        out[..len].copy_from_slice(&ahead[..len]);
        self.over = over;
        self.page.consume(len + usize::from(over));
        if let Some(on_disk) = self.on_disk {
            on_disk.set(on_disk.get() + len as u64);
        }
        Ok(len)
    }
}
