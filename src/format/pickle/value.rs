//! What a pickle's values are while a file is being read: sixteen bytes on the stack, four in the memo.
//!
//! Always: a value never owns anything. Lists and dicts are rows in the tables of
//! [`Assembly`](crate::format::assembly::Assembly), so a shared object is one row however often it is named.

use crate::base::StringId;

/// A value on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// `None`, or JSON's `null`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of at most 64 bits with sign.
    Int(i64),
    /// An integer from 2^63 to 2^64 − 1.
    Big(u64),
    /// An integer that fits neither; its value is not kept.
    Wide,
    /// A floating point number.
    Float(f64),
    /// A text.
    Str(StringId),
    /// A byte string; its content is not kept.
    Bytes,
    /// A list or a tuple, by row in the list table.
    List(u32),
    /// A tuple of two integers, by row in the table of pairs.
    Pair(u32),
    /// A dict, by row in the dict table.
    Dict(u32),
    /// A set; its content is not kept.
    Set,
}

/// A row of the memo, the list table or the dict table: four bits of kind, 28 bits of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(u32);

/// The largest number a [`Packed`] can hold.
pub(crate) const PACKED_MAX: u32 = (1 << 28) - 1;

impl Packed {
    /// Packs a kind (below 16) and a number (at most [`PACKED_MAX`]).
    pub(crate) const fn new(kind: u8, number: u32) -> Self {
        Self((kind as u32) << 28 | (number & PACKED_MAX))
    }
    /// The kind.
    #[inline]
    pub(crate) const fn kind(self) -> u8 {
        (self.0 >> 28) as u8
    }
    /// The number.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0 & PACKED_MAX
    }
}

const UNSET: u8 = 0;
const STR: u8 = 1;
const LIST: u8 = 2;
const PAIR: u8 = 3;
const DICT: u8 = 4;
const SPILLED: u8 = 5;

/// What earlier values were called, in four bytes each.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    rows: Vec<Packed>,
    /// Values that do not fit a row: numbers, which no writer memoises, and rows beyond 28 bits.
    spilled: Vec<Value>,
}

impl Memo {
    /// Heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.len() * 4 + self.spilled.len() * size_of::<Value>()
    }
    /// Stores under the next free number.
    #[inline]
    pub(crate) fn push(&mut self, value: Value) {
        let packed = self.pack(value);
        self.rows.push(packed);
    }
    /// Stores under a given number; the caller has bounded it.
    pub(crate) fn put(&mut self, index: usize, value: Value) {
        let packed = self.pack(value);
        if self.rows.len() <= index {
            self.rows.resize(index + 1, Packed::new(UNSET, 0));
        }
        self.rows[index] = packed;
    }
    /// The value under a number, if one was stored.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        let row = *self.rows.get(index)?;
        let number = row.number();
        match row.kind() {
            STR => Some(Value::Str(StringId(number))),
            LIST => Some(Value::List(number)),
            PAIR => Some(Value::Pair(number)),
            DICT => Some(Value::Dict(number)),
            SPILLED => self.spilled.get(number as usize).copied(),
            _ => None,
        }
    }
    #[inline]
    fn pack(&mut self, value: Value) -> Packed {
        match value {
            Value::Str(StringId(n)) if n <= PACKED_MAX => Packed::new(STR, n),
            Value::List(n) if n <= PACKED_MAX => Packed::new(LIST, n),
            Value::Pair(n) if n <= PACKED_MAX => Packed::new(PAIR, n),
            Value::Dict(n) if n <= PACKED_MAX => Packed::new(DICT, n),
            other => {
                // Beyond 2^28 spilled values the row is left unset: a later look-up is then an error, not a wrong value.
                let number = self.spilled.len() as u32;
                if PACKED_MAX < number {
                    return Packed::new(UNSET, 0);
                }
                self.spilled.push(other);
                Packed::new(SPILLED, number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memo_gives_back_what_was_stored() {
        let values = [
            Value::Str(StringId(7)),
            Value::List(PACKED_MAX),
            Value::Dict(0),
            Value::Pair(3),
            Value::Int(-1),
            Value::Str(StringId(u32::MAX)),
            Value::None,
        ];
        let mut memo = Memo::default();
        for (i, value) in values.into_iter().enumerate() {
            if i % 2 == 0 { memo.push(value) } else { memo.put(i, value) }
        }
        for (i, value) in values.into_iter().enumerate() {
            assert_eq!(memo.get(i), Some(value));
        }
        memo.put(20, Value::None);
        assert_eq!(memo.get(19), None);
        assert_eq!(memo.get(21), None);
        assert_eq!(memo.heap_bytes(), 21 * 4 + 4 * 16);
    }
}
