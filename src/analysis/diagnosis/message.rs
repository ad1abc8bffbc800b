//! PyTorch's out-of-memory message, as it stands in a log: the figures that a snapshot does not hold.
//!
//! Always: a figure the text does not state is none; sizes are read as printed, with two digits behind the point, so
//! they are exact to 0.005 of their unit. The wording of all releases from 1.0 on is read (`CUDACachingAllocator.cpp`,
//! the end of `malloc`), of ROCm too.

use crate::base::Bytes;

/// What one message says, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OomMessage {
    /// The device's number as the process counts.
    pub device: Option<i32>,
    /// What was asked for.
    pub requested: u64,
    /// All memory of the card.
    pub total: Option<u64>,
    /// What the driver had left.
    pub free: Option<u64>,
    /// What the process held in all, its context and libraries included.
    pub process: Option<u64>,
    /// Other processes and what they held.
    pub others: Vec<(u64, u64)>,
    /// The cap of a memory fraction.
    pub allowed: Option<u64>,
    /// Blocks in use.
    pub allocated: Option<u64>,
    /// Free blocks of private pools, which the message counts as allocated.
    pub in_private_pools: Option<u64>,
    /// Reserved and not in use.
    pub unallocated: Option<u64>,
    /// Reserved in all, in the words of older releases.
    pub reserved: Option<u64>,
}

impl OomMessage {
    /// What it says is reserved, in either wording.
    pub fn reserved_in_all(&self) -> Option<u64> {
        self.reserved.or_else(|| self.allocated?.checked_add(self.unallocated?))
    }
    /// All messages of a text, in order; the same message printed twice in a row (by Python's chained tracebacks) is one.
    pub fn all_of(text: &str) -> Vec<OomMessage> {
        let mut found: Vec<OomMessage> = Vec::new();
        for (at, _) in text.match_indices("out of memory. Tried to allocate ") {
            let rest = &text[at..];
            let end = rest.match_indices("out of memory. Tried to allocate ").nth(1).map_or(rest.len(), |(next, _)| next);
            let rest = &rest[..end];
            let paragraph = rest.find("\n\n").map_or(rest, |end| &rest[..end]);
            // Terminals and loggers wrap lines.
            let paragraph: String = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            if let Some(message) = OomMessage::of(&paragraph)
                && found.last() != Some(&message)
            {
                found.push(message);
            }
        }
        found
    }

    fn of(text: &str) -> Option<OomMessage> {
        let requested = size_after(text, "Tried to allocate ")?;
        let mut message = OomMessage { requested, ..OomMessage::default() };
        message.device = number_after(text, "(GPU ").or_else(|| number_after(text, "GPU ")).and_then(|n| i32::try_from(n).ok());
        message.total = size_before(text, " total capacity")
            .or_else(|| size_after(text, "total capacity of "))
            .or_else(|| size_after(text, "total capacty of "));
        message.free = size_before(text, " is free.").or_else(|| size_before(text, " free;"));
        message.process = size_after(text, "this process has ");
        message.allowed = size_before(text, " allowed;");
        message.allocated = size_before(text, " is allocated by PyTorch").or_else(|| size_before(text, " already allocated"));
        message.in_private_pools = size_before(text, " allocated in private pools");
        message.unallocated = size_before(text, " is reserved by PyTorch but unallocated");
        message.reserved = size_before(text, " reserved in total by PyTorch").or_else(|| size_before(text, " cached"));
        for (at, phrase) in text.match_indices("Process ") {
            let rest = &text[at + phrase.len()..];
            if let (Some(pid), Some(bytes)) = (leading_number(rest), size_after(rest, " has "))
                && rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" has ")
            {
                message.others.push((pid, bytes));
            }
        }
        Some(message)
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn number_after(text: &str, phrase: &str) -> Option<u64> {
    let at = text.find(phrase)? + phrase.len();
    leading_number(&text[at..])
}

/// The size behind a phrase: `52.00 MiB`, or `0 bytes`.
fn size_after(text: &str, phrase: &str) -> Option<u64> {
    let rest = &text[text.find(phrase)? + phrase.len()..];
    let mut words = rest.split_whitespace();
    size(words.next()?, words.next()?)
}

/// The size in front of a phrase.
fn size_before(text: &str, phrase: &str) -> Option<u64> {
    let mut words = text[..text.find(phrase)?].rsplit([' ', '\n', '(', '\t']).filter(|word| !word.is_empty());
    let unit = words.next()?;
    size(words.next()?, unit)
}

fn size(number: &str, unit: &str) -> Option<u64> {
    let unit = unit.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    if unit == "bytes" { number.parse().ok() } else { Bytes::parse(&format!("{number}{unit}")).map(|bytes| bytes.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn gib(hundredths: u64) -> u64 {
        (hundredths as f64 / 100.0 * GIB as f64).round() as u64
    }

    #[test]
    fn every_wording_is_read() {
        let older = OomMessage {
            device: Some(0),
            requested: 20 * MIB,
            total: Some(gib(1076)),
            free: Some((13.44 * MIB as f64).round() as u64),
            allocated: Some(gib(968)),
            reserved: Some(gib(972)),
            ..OomMessage::default()
        };
        let newer = OomMessage {
            device: Some(0),
            requested: 512 * MIB,
            total: Some(80 * GIB),
            free: Some(488 * MIB),
            process: Some(gib(952)),
            others: vec![(424_242, 70 * GIB)],
            allocated: Some(gib(871)),
            unallocated: Some((324.38 * MIB as f64).round() as u64),
            ..OomMessage::default()
        };
        for (text, expected) in [
            (
                "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.68 GiB already allocated; 13.44 MiB free; 9.72 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
                vec![older.clone()],
            ),
            (
                "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.68 GiB already allocated; 13.44 MiB free; 9.72 GiB cached)",
                vec![older],
            ),
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 80.00 GiB of which 488.00 MiB is free. Including non-PyTorch memory, this process has 9.52 GiB memory in use. Process 424242 has 70.00 GiB memory in use. Of the allocated memory 8.71 GiB is allocated by PyTorch, and 324.38 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try",
                vec![newer.clone()],
            ),
            (
                "HIP out of memory. Tried to allocate 36.00 MiB. GPU 3 has a total capacty of 8.00 GiB of which 0 bytes is free. 7.60 GiB allowed; Of the allocated memory 6.84 GiB is allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but unallocated.",
                vec![OomMessage {
                    device: Some(3),
                    requested: 36 * MIB,
                    total: Some(8 * GIB),
                    free: Some(0),
                    allowed: Some(gib(760)),
                    allocated: Some(gib(684)),
                    in_private_pools: Some(GIB),
                    unallocated: Some(0),
                    ..OomMessage::default()
                }],
            ),
            ("CUDA out of memory. Tried to allocate a lot", vec![]),
            ("nothing of the kind", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(OomMessage::all_of(text), expected, "{text}");
        }
        let text = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 MiB is free.\n\nDuring handling … CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 MiB is free.\nlater\nCUDA out of memory. Tried to allocate 2.00 MiB. GPU 1 has a total capacity of 8.00 GiB of which 0 bytes is free.";
        let all = OomMessage::all_of(text);
        assert_eq!(all.iter().map(|m| (m.device, m.requested)).collect::<Vec<_>>(), [(Some(0), GIB), (Some(1), 2 * MIB)]);
    }
}
