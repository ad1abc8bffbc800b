//! Files that people drop here by mistake: what they are, and what to open instead.
//!
//! To add one: a row in [`KINDS`] with a test of the first bytes.

use crate::format::error::FormatError;

/// A kind of file that is familiar, but no snapshot.
pub(crate) struct Kind {
    /// Whether the test is never true of a snapshot, even where an importer finds that the file looks like its own.
    sure: bool,
    is: fn(&[u8]) -> bool,
    what: &'static str,
    advice: &'static str,
}

const RECORD: &str =
    "record one with torch.cuda.memory._record_memory_history() and write it with torch.cuda.memory._dump_snapshot()";

/// All kinds, the surest first.
const KINDS: &[Kind] = &[
    Kind {
        sure: true,
        is: |head| head.starts_with(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"),
        what: "a checkpoint in torch.save's old format",
        advice: "it holds weights, no memory history; open the file that torch.cuda.memory._dump_snapshot() wrote",
    },
    Kind {
        sure: false,
        is: is_safetensors,
        what: "a safetensors file (model weights)",
        advice: "it holds weights, no memory history; open the file that torch.cuda.memory._dump_snapshot() wrote",
    },
    Kind {
        sure: false,
        is: |head| head.starts_with(b"GGUF"),
        what: "a GGUF model file",
        advice: "it holds weights, no memory history; open the file that torch.cuda.memory._dump_snapshot() wrote",
    },
    Kind {
        sure: false,
        is: |head| head.starts_with(b"\x89HDF\r\n") || head.starts_with(b"\x93NUMPY"),
        what: "a file of arrays (HDF5 or NumPy)",
        advice: RECORD,
    },
    Kind {
        sure: false,
        is: |head| head.starts_with(b"SQLite format 3\0"),
        what: "an SQLite database",
        advice: "write the snapshot as a pickle",
    },
    Kind {
        sure: false,
        is: |head| head.get(257..262) == Some(b"ustar"),
        what: "a tar archive",
        advice: "unpack it and open the snapshot in it",
    },
    Kind {
        sure: false,
        is: |head| head.starts_with(b"\x89PNG") || head.starts_with(b"\xff\xd8\xff") || head.starts_with(b"%PDF"),
        what: "a picture",
        advice: "open the snapshot it was made from",
    },
    Kind {
        sure: false,
        is: |head| head.starts_with(b"version https://git-lfs"),
        what: "a Git LFS pointer, not the file itself",
        advice: "run `git lfs pull` where it came from",
    },
    Kind {
        sure: false,
        is: |head| is_html(head) && (holds(head, b"GPU Memory Timeline") || holds(head, b"data:image/png;base64")),
        what: "a memory timeline of torch.profiler (a picture in a web page)",
        advice: "it has no addresses and no stacks, so no layout can be shown; record a snapshot with torch.cuda.memory._record_memory_history()",
    },
    Kind {
        sure: false,
        is: |head| is_html(head) && (holds(head, b"alloc_data") || holds(head, b"suffix_table")),
        what: "a plot that PyTorch 2.0's _memory_viz.py drew",
        advice: "it holds sizes without addresses; open the pickle it was made from",
    },
    Kind {
        sure: false,
        is: |head| is_html(head) && !holds(head, b"local_files"),
        what: "a web page",
        advice: "if it was to be a download, a sign-in page may have been saved instead; get the snapshot itself",
    },
    Kind {
        sure: false,
        is: |head| holds(head, b"PyTorch CUDA memory summary"),
        what: "the text of torch.cuda.memory_summary()",
        advice: RECORD,
    },
    Kind { sure: false, is: is_text, what: "plain text", advice: RECORD },
];

impl Kind {
    /// The sentence for a file of this kind.
    pub(crate) fn error(&self, name: &str) -> FormatError {
        FormatError::Foreign { name: name.to_owned(), what: self.what.to_owned(), advice: self.advice.to_owned() }
    }
}

/// The kind of a file, if it is one of these; `likely` where an importer claims it.
pub(crate) fn recognise(head: &[u8], likely: bool) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| (kind.sure || !likely) && (kind.is)(head))
}

/// The sentence for what torch.save wrote in its zip format, if the names of a zip file's members say so.
pub(crate) fn recognise_zip(name: &str, members: &[String]) -> Option<FormatError> {
    let folder = members.iter().find_map(|member| member.strip_suffix("data.pkl"))?;
    let sibling =
        |file: &str| members.iter().any(|member| member.strip_prefix(folder).is_some_and(|rest| rest.starts_with(file)));
    (sibling("version") || sibling("data/") || sibling("byteorder")).then(|| FormatError::Foreign {
        name: name.to_owned(),
        what: "a checkpoint that torch.save wrote".to_owned(),
        advice:
            "it holds weights, no memory history; if a snapshot was saved with torch.save, load it with torch.load and write it \
                 with pickle.dump"
                .to_owned(),
    })
}

/// Whether a word stands anywhere in the first bytes.
pub(crate) fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
/// Whether a file begins as JSON does.
pub(crate) fn is_json(head: &[u8]) -> bool {
    matches!(head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().first(), Some(b'{' | b'['))
}
fn is_html(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    let start: Vec<u8> = head.iter().take(14).map(u8::to_ascii_lowercase).collect();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html") || start.starts_with(b"<head")
}
/// An array of arrays of numbers: no snapshot begins so.
pub(crate) fn starts_with_numbers(head: &[u8]) -> bool {
    let Some(rest) = head.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else { return false };
    let Some(rest) = rest.strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else { return false };
    matches!(rest.first(), Some(b'-' | b'0'..=b'9'))
}
fn is_safetensors(head: &[u8]) -> bool {
    let Some((len, rest)) = head.split_first_chunk::<8>() else { return false };
    let len = u64::from_le_bytes(*len);
    (2..=100 << 20).contains(&len) && rest.starts_with(b"{\"")
}
fn is_text(head: &[u8]) -> bool {
    let whole = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end inside a character.
        Err(error) if head.len() < error.valid_up_to() + 4 => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or(""),
        Err(_) => return false,
    };
    !is_json(head) && !whole.is_empty() && whole.chars().all(|c| !c.is_control() || c.is_whitespace())
}
