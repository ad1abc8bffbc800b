//! The pickle machine: reads opcodes of protocols 0 to 5 from a window of bytes and drives the bench.
//!
//! Always: every opcode that could load or run something is refused by name with its place; every
//! length is held against what is left; an end in the middle is reported with the byte, and what was whole stays.

use crate::base::{Cancelled, Progress};
use crate::format::assembly::{Assembly, Fault};
use crate::format::pickle::opcode::{self, *};
use crate::format::pickle::value::Value;
use crate::format::source::Input;

/// Between two looks at the budget, the progress and the cancel flag.
const TICK: u64 = 256 << 10;
/// The longest line of the text opcodes of protocol 0.
const MAX_LINE: usize = 64 << 20;

/// How a pickle ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// At its STOP, with this value.
    Whole(Value),
    /// In the middle; the byte at which the input was over.
    Early(u64),
}

/// Why a pickle was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Cancelled,
    /// An opcode that is never carried out.
    Refused {
        opcode: &'static str,
        at: u64,
    },
    /// An opcode that does not exist.
    NoOpcode {
        byte: u8,
        at: u64,
    },
    /// An opcode that is not possible here.
    Fault {
        opcode: &'static str,
        at: u64,
        fault: Fault,
    },
    /// An argument that cannot be read.
    BadArgument {
        opcode: &'static str,
        at: u64,
    },
}

impl From<Cancelled> for Trouble {
    fn from(_: Cancelled) -> Self {
        Trouble::Cancelled
    }
}

enum Stop {
    Value(Value),
    End,
    Fault(Fault),
    BadArgument,
    NoOpcode,
    Refused,
}

impl From<Fault> for Stop {
    #[cold]
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Reads one pickle. Bytes behind its STOP are left in the input.
pub(crate) fn run<I: Input>(input: &mut I, bench: &mut Assembly, progress: &Progress) -> Result<Ending, Trouble> {
    loop {
        let until = input.offset() + TICK;
        let mut at = input.offset();
        let outcome = stretch(input, bench, until, &mut at);
        let byte_name = |byte: u8| opcode::name(byte).unwrap_or("?");
        let byte = |input: &I| input.last_opcode();
        match outcome {
            Ok(()) => {}
            Err(Stop::Value(value)) => return Ok(Ending::Whole(value)),
            Err(Stop::End) => return Ok(Ending::Early(input.reach())),
            Err(Stop::Fault(fault)) => return Err(Trouble::Fault { opcode: byte_name(byte(input)), at, fault }),
            Err(Stop::BadArgument) => return Err(Trouble::BadArgument { opcode: byte_name(byte(input)), at }),
            Err(Stop::Refused) => return Err(Trouble::Refused { opcode: byte_name(byte(input)), at }),
            Err(Stop::NoOpcode) => return Err(Trouble::NoOpcode { byte: byte(input), at }),
        }
        progress.at(input.progress())?;
        bench.check_budget(input.offset()).map_err(|fault| Trouble::Fault { opcode: byte_name(byte(input)), at, fault })?;
    }
}

fn stretch<I: Input>(input: &mut I, bench: &mut Assembly, until: u64, at: &mut u64) -> Result<(), Stop> {
    while input.offset() < until {
        *at = input.offset();
        let Some(op) = input.opcode() else { return Err(Stop::End) };
        match op {
            BINGET => {
                let index = take::<1, I>(input)?[0];
                bench.get(u64::from(index))?;
            }
            LONG_BINGET => {
                let index = u32::from_le_bytes(take(input)?);
                bench.get(u64::from(index))?;
            }
            MEMOIZE => bench.memoize()?,
            SHORT_BINUNICODE => {
                let len = take::<1, I>(input)?[0];
                bench.push_text(bytes(input, usize::from(len))?);
            }
            BININT1 => {
                let number = take::<1, I>(input)?[0];
                bench.push(Value::Int(i64::from(number)));
            }
            BININT2 => {
                let number = u16::from_le_bytes(take(input)?);
                bench.push(Value::Int(i64::from(number)));
            }
            BININT => {
                let number = i32::from_le_bytes(take(input)?);
                bench.push(Value::Int(i64::from(number)));
            }
            LONG1 => {
                let len = take::<1, I>(input)?[0];
                bench.push(long(bytes(input, usize::from(len))?));
            }
            EMPTY_DICT => bench.empty_dict()?,
            EMPTY_LIST | EMPTY_TUPLE => bench.empty_list()?,
            MARK => bench.mark()?,
            SETITEMS => bench.set_items()?,
            APPENDS => bench.appends()?,
            APPEND => bench.append()?,
            SETITEM => bench.set_item()?,
            TUPLE1 => bench.tuple(1)?,
            TUPLE2 => bench.tuple(2)?,
            TUPLE3 => bench.tuple(3)?,
            NONE => bench.push(Value::None),
            NEWTRUE => bench.push(Value::Bool(true)),
            NEWFALSE => bench.push(Value::Bool(false)),
            BINUNICODE => {
                let len = u32::from_le_bytes(take(input)?);
                bench.push_text(bytes(input, len as usize)?);
            }
            BINPUT => {
                let index = take::<1, I>(input)?[0];
                bench.put(u64::from(index), input.offset())?;
            }
            LONG_BINPUT => {
                let index = u32::from_le_bytes(take(input)?);
                bench.put(u64::from(index), input.offset())?;
            }
            FRAME => {
                take::<8, I>(input)?;
            }
            BINFLOAT => {
                let number = f64::from_be_bytes(take(input)?);
                bench.push(Value::Float(number));
            }
            PROTO => {
                take::<1, I>(input)?;
            }
            STOP => return Err(Stop::Value(bench.pop()?)),
            _ => rare(op, input, bench)?,
        }
    }
    Ok(())
}

/// The opcodes that other writers and older protocols use.
#[cold]
fn rare<I: Input>(op: u8, input: &mut I, bench: &mut Assembly) -> Result<(), Stop> {
    match op {
        POP => {
            // POP right behind a MARK takes the mark.
            if bench.top().is_ok() { bench.pop().map(drop)? } else { bench.pop_mark()? }
        }
        POP_MARK => bench.pop_mark()?,
        DUP => {
            let value = bench.top()?;
            bench.push(value);
        }
        LIST => bench.list_since_mark(false)?,
        TUPLE => bench.list_since_mark(true)?,
        DICT => bench.dict_since_mark()?,
        LONG4 => {
            let len = i32::from_le_bytes(take(input)?);
            let len = usize::try_from(len).map_err(|_| Stop::BadArgument)?;
            bench.push(long(bytes(input, len)?));
        }
        INT => {
            let value = match line(input)? {
                b"00" => Value::Bool(false),
                b"01" => Value::Bool(true),
                text => decimal(text)?,
            };
            bench.push(value);
        }
        LONG => {
            let text = line(input)?;
            let value = decimal(text.strip_suffix(b"L").unwrap_or(text))?;
            bench.push(value);
        }
        FLOAT => {
            let number = std::str::from_utf8(line(input)?).ok().and_then(|text| text.trim().parse().ok());
            bench.push(Value::Float(number.ok_or(Stop::BadArgument)?));
        }
        UNICODE => {
            let text = raw_unicode(line(input)?);
            bench.push_text(text.as_bytes());
        }
        STRING => {
            let text = quoted(line(input)?).ok_or(Stop::BadArgument)?;
            bench.push_text(&text);
        }
        SHORT_BINSTRING => {
            let len = take::<1, I>(input)?[0];
            bench.push_text(bytes(input, usize::from(len))?);
        }
        BINSTRING => {
            let len = i32::from_le_bytes(take(input)?);
            let len = usize::try_from(len).map_err(|_| Stop::BadArgument)?;
            bench.push_text(bytes(input, len)?);
        }
        BINUNICODE8 => {
            let len = long_length(input)?;
            bench.push_text(bytes(input, len)?);
        }
        SHORT_BINBYTES => {
            let len = take::<1, I>(input)?[0];
            skip(input, u64::from(len))?;
            bench.push(Value::Bytes);
        }
        BINBYTES => {
            let len = u32::from_le_bytes(take(input)?);
            skip(input, u64::from(len))?;
            bench.push(Value::Bytes);
        }
        BINBYTES8 | BYTEARRAY8 => {
            let len = u64::from_le_bytes(take(input)?);
            skip(input, len)?;
            bench.push(Value::Bytes);
        }
        EMPTY_SET => bench.push(Value::Set),
        ADDITEMS => bench.pop_mark()?,
        FROZENSET => bench.opaque_since_mark()?,
        GET => {
            let index = index(line(input)?)?;
            bench.get(index)?;
        }
        PUT => {
            let index = index(line(input)?)?;
            bench.put(index, input.offset())?;
        }
        _ if opcode::is_refused(op) => return Err(Stop::Refused),
        _ => return Err(Stop::NoOpcode),
    }
    Ok(())
}

#[inline]
fn take<const N: usize, I: Input>(input: &mut I) -> Result<[u8; N], Stop> {
    let taken = input.take(N).and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    taken.ok_or(Stop::End)
}
#[inline]
fn bytes<I: Input>(input: &mut I, len: usize) -> Result<&[u8], Stop> {
    input.take(len).ok_or(Stop::End)
}
fn skip<I: Input>(input: &mut I, mut len: u64) -> Result<(), Stop> {
    while 0 < len {
        let step = len.min(64 << 10);
        bytes(input, step as usize)?;
        len -= step;
    }
    Ok(())
}
fn long_length<I: Input>(input: &mut I) -> Result<usize, Stop> {
    usize::try_from(u64::from_le_bytes(take(input)?)).map_err(|_| Stop::BadArgument)
}
fn line<I: Input>(input: &mut I) -> Result<&[u8], Stop> {
    let text = input.line(MAX_LINE).ok_or(Stop::End)?;
    Ok(text.strip_suffix(b"\r").unwrap_or(text))
}

/// A little-endian two's complement integer of any length.
#[inline]
fn long(bytes: &[u8]) -> Value {
    let Some(last) = bytes.last() else { return Value::Int(0) };
    let negative = last & 0x80 != 0;
    if bytes.len() <= 8 {
        let mut number = [if negative { 0xff } else { 0 }; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        return Value::Int(i64::from_le_bytes(number));
    }
    // Longer than needed is allowed: bytes that only repeat the sign do not change the number.
    let fill = if negative { 0xff } else { 0 };
    let used = bytes.iter().rposition(|byte| *byte != fill).map_or(0, |last| last + 1);
    let mut number = [fill; 16];
    if 16 < used {
        return Value::Wide;
    }
    number[..used].copy_from_slice(&bytes[..used]);
    of_wide(i128::from_le_bytes(number), used == 16 && (number[15] & 0x80 != 0) != negative)
}
fn of_wide(number: i128, overflown: bool) -> Value {
    match (i64::try_from(number), u64::try_from(number)) {
        _ if overflown => Value::Wide,
        (Ok(number), _) => Value::Int(number),
        (_, Ok(number)) => Value::Big(number),
        _ => Value::Wide,
    }
}
fn decimal(text: &[u8]) -> Result<Value, Stop> {
    let text = std::str::from_utf8(text).map_err(|_| Stop::BadArgument)?.trim();
    match text.parse::<i128>() {
        Ok(number) => Ok(of_wide(number, false)),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => Ok(Value::Wide),
            _ => Err(Stop::BadArgument),
        },
    }
}
fn index(text: &[u8]) -> Result<u64, Stop> {
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).ok_or(Stop::BadArgument)
}
/// Python's raw-unicode-escape: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
fn raw_unicode(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, tail)) = rest.split_first() {
        let digits = match (first, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let code = (0 < digits).then(|| tail.get(1..=digits)).flatten();
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = &tail[digits + 1..];
            }
            None => {
                text.push(char::from(*first));
                rest = tail;
            }
        }
    }
    text
}
/// A quoted text of protocol 0 with Python's escapes.
fn quoted(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let (first, last) = (line.first()?, line.last()?);
    if line.len() < 2 || first != last || !matches!(first, b'\'' | b'"') {
        return None;
    }
    let mut text = Vec::with_capacity(line.len());
    let mut rest = &line[1..line.len() - 1];
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'\\' {
            text.push(*byte);
            continue;
        }
        let (escape, tail) = rest.split_first()?;
        rest = tail;
        text.push(match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let hex = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                u8::from_str_radix(hex, 16).ok()?
            }
            other => *other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_length_are_exact() {
        for (bytes, value) in [
            (&[][..], Value::Int(0)),
            (&[0xff], Value::Int(-1)),
            (&[0x00, 0x80, 0x00], Value::Int(0x8000)),
            (&[0xff; 8], Value::Int(-1)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00], Value::Big(u64::MAX)),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80, 0], Value::Big(1 << 63)),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff], Value::Int(i64::MIN)),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 1], Value::Wide),
            (&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Value::Int(5)),
            (&[0xfe; 40], Value::Wide),
        ] {
            assert_eq!(long(bytes), value, "{bytes:x?}");
        }
    }

    #[test]
    fn texts_of_protocol_0_are_unescaped() {
        assert_eq!(raw_unicode(b"a\\u03b2\\U0001f600\\q"), "aβ😀\\q");
        assert_eq!(quoted(b"'a\\x41\\n\\'' "), Some(b"aA\n'".to_vec()));
        assert_eq!(quoted(b"'"), None);
        assert_eq!(quoted(b"'a\\'"), None);
    }
}
