//! Sizes as people read them, and what a value weighs on our own heap.
//!
//! Sizes are binary with two decimals, as PyTorch's own messages have them: `75.77 GiB`.
//! The same formatting serves window, command line and picture, so a number reads alike everywhere.

use std::fmt;

/// A size in bytes, displayed in binary units with two decimals (`27.50 MiB`, `512 bytes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Bytes {
    /// The short form with the exact count behind it: `75.77 GiB (81 352 720 384 bytes)`.
    pub fn exact(self) -> String {
        if self.0 < 1024 { self.to_string() } else { format!("{self} ({} bytes)", grouped(self.0)) }
    }

    /// Reads `80GiB`, `512 MiB`, `1.5g`, `4096` or `81 352 720 384`; units are binary, letter case is ignored.
    pub fn parse(text: &str) -> Option<Bytes> {
        let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" | "byte" | "bytes" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            _ => return None,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Bytes);
        }
        let value = number.parse::<f64>().ok()? * factor as f64;
        (value.is_finite() && 0.0 <= value && value < u64::MAX as f64).then_some(Bytes(value.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in UNITS {
            // 1023.996 KiB would print as 1024.00 KiB: take the larger unit as soon as rounding reaches it.
            if self.0 as f64 / factor as f64 >= 0.999_995 && factor <= self.0.saturating_add(factor / 200_000) {
                return write!(f, "{:.2} {unit}", self.0 as f64 / factor as f64);
            }
        }
        write!(f, "{} {}", self.0, if self.0 == 1 { "byte" } else { "bytes" })
    }
}

/// Digits in groups of three, parted by plain spaces: `81 352 720 384`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if 0 < i && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A number with what it counts: `1 block`, `35 573 events`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// What a value holds on the heap, in bytes, for the memory budget of the answers.
pub trait HeapSize {
    /// Bytes owned on the heap, not counting `size_of::<Self>()`; an estimate within a few percent.
    fn heap_size(&self) -> usize;
}

impl<T: HeapSize> HeapSize for Option<T> {
    fn heap_size(&self) -> usize {
        self.as_ref().map_or(0, T::heap_size)
    }
}

impl<T: Copy> HeapSize for Vec<T> {
    fn heap_size(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        for (n, words) in [(0, "0 blocks"), (1, "1 block"), (35_573, "35 573 blocks")] {
            assert_eq!(counted(n, "block"), words);
        }
    }

    #[test]
    fn sizes_read_as_pytorch_prints_them() {
        for (bytes, short) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.00 KiB"),
            (54_525_952, "52.00 MiB"),
            (81_352_720_384, "75.77 GiB"),
            (1_048_575, "1.00 MiB"),
            (3 << 40, "3.00 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), short, "{bytes}");
        }
        assert_eq!(Bytes(81_352_720_384).exact(), "75.77 GiB (81 352 720 384 bytes)");
    }

    #[test]
    fn sizes_are_read_back() {
        for (text, bytes) in [
            ("80GiB", Some(80 << 30)),
            ("512 MiB", Some(512 << 20)),
            ("4096", Some(4096)),
            ("1.5g", Some(3 << 29)),
            ("1 000", Some(1000)),
            ("", None),
            ("GiB", None),
            ("12 parsecs", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(Bytes::parse(text), bytes.map(Bytes), "{text}");
        }
    }
}
