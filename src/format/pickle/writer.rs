//! A pickle writer that keeps the sharing: equal texts, pairs, frames and stacks stand once, and are named after that.
//!
//! Protocol 4, since PyTorch's page reads none above it, with the opcodes of plain data only. Always: the memo's low
//! numbers belong to the format's own words, which every event names, so that naming one takes two bytes.

use crate::base::StringId;
use crate::format::export::tree::Tree;
use crate::format::pickle::opcode;
use crate::model::{FrameId, StackId, StackTable};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Memo numbers below this one are kept for words; all of them are named in two bytes.
const WORDS: u32 = 128;
/// Bytes of a frame, about what Python writes at once.
const FRAME_BYTES: usize = 64 << 10;
/// Items of a list or dict that are set at once, as Python does it: a file that is cut off keeps what came before.
const BATCH: usize = 1000;
const NO_NUMBER: u32 = u32::MAX;

/// Writes one pickle.
pub(crate) struct PickleTree<W: Write> {
    out: W,
    frame: Vec<u8>,
    open: Vec<Open>,
    words: FxHashMap<&'static str, u32>,
    next_word: u32,
    next: u32,
    texts: Vec<u32>,
    pairs: FxHashMap<(i64, i64), u32>,
    frames: Vec<u32>,
    stacks: Vec<u32>,
}

/// A dict or list that is not closed yet.
struct Open {
    dict: bool,
    /// Values since the last batch was set.
    items: usize,
}

impl<W: Write> PickleTree<W> {
    /// Begins a pickle.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[opcode::PROTO, 4])?;
        Ok(Self {
            out,
            frame: Vec::with_capacity(FRAME_BYTES + 1024),
            open: Vec::new(),
            words: FxHashMap::default(),
            next_word: 0,
            next: WORDS,
            texts: Vec::new(),
            pairs: FxHashMap::default(),
            frames: Vec::new(),
            stacks: Vec::new(),
        })
    }
    /// Ends the pickle and hands the writer back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.frame.push(opcode::STOP);
        self.flush_frame()?;
        Ok(self.out)
    }

    fn flush_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.out.write_all(&[opcode::FRAME])?;
        self.out.write_all(&(self.frame.len() as u64).to_le_bytes())?;
        self.out.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }
    /// Before a value or a key: opens a batch where none is open.
    fn before(&mut self) -> io::Result<()> {
        if FRAME_BYTES <= self.frame.len() {
            self.flush_frame()?;
        }
        if let Some(open) = self.open.last()
            && open.items == 0
        {
            self.frame.push(opcode::MARK);
        }
        Ok(())
    }
    /// After a value: closes a batch that is full. A key counts with its value.
    fn after(&mut self) {
        let Some(open) = self.open.last_mut() else { return };
        open.items += 1;
        if open.items == BATCH {
            open.items = 0;
            self.frame.push(if open.dict { opcode::SETITEMS } else { opcode::APPENDS });
        }
    }
    /// A value of a list begins; one of a dict has its key before it.
    fn value(&mut self) -> io::Result<()> {
        match self.open.last() {
            Some(open) if open.dict => Ok(()),
            _ => self.before(),
        }
    }
    fn begin(&mut self, dict: bool) -> io::Result<()> {
        self.value()?;
        self.frame.push(if dict { opcode::EMPTY_DICT } else { opcode::EMPTY_LIST });
        self.open.push(Open { dict, items: 0 });
        Ok(())
    }
    fn end(&mut self) {
        if let Some(Open { dict, items }) = self.open.pop()
            && 0 < items
        {
            self.frame.push(if dict { opcode::SETITEMS } else { opcode::APPENDS });
        }
        self.after();
    }
    fn name(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.frame.extend([opcode::BINGET, number]),
            Err(_) => {
                self.frame.push(opcode::LONG_BINGET);
                self.frame.extend(number.to_le_bytes());
            }
        }
    }
    fn keep(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.frame.extend([opcode::BINPUT, number]),
            Err(_) => {
                self.frame.push(opcode::LONG_BINPUT);
                self.frame.extend(number.to_le_bytes());
            }
        }
    }
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
    fn put_text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(length) => self.frame.extend([opcode::SHORT_BINUNICODE, length]),
            Err(_) => match u32::try_from(text.len()) {
                Ok(length) => {
                    self.frame.push(opcode::BINUNICODE);
                    self.frame.extend(length.to_le_bytes());
                }
                Err(_) => {
                    self.frame.push(opcode::BINUNICODE8);
                    self.frame.extend((text.len() as u64).to_le_bytes());
                }
            },
        }
        self.frame.extend(text.as_bytes());
    }
    fn put_word(&mut self, word: &'static str) {
        if let Some(number) = self.words.get(word) {
            return self.name(*number);
        }
        self.put_text(word);
        let number = if self.next_word < WORDS {
            self.next_word += 1;
            self.next_word - 1
        } else {
            self.number()
        };
        self.keep(number);
        self.words.insert(word, number);
    }
    fn put_shared(&mut self, text: StringId, stacks: &StackTable) {
        let row = text.0 as usize;
        let known = self.texts.get(row).copied().unwrap_or(NO_NUMBER);
        if known != NO_NUMBER {
            return self.name(known);
        }
        let content = stacks.strings.get(text);
        self.put_text(content);
        // To name a short text takes as many bytes as to write it.
        if content.len() <= 3 {
            return;
        }
        let number = self.number();
        self.keep(number);
        set(&mut self.texts, row, number);
    }
    fn put_int(&mut self, number: i128) {
        if let Ok(number) = u8::try_from(number) {
            self.frame.extend([opcode::BININT1, number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.frame.push(opcode::BININT2);
            self.frame.extend(number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.frame.push(opcode::BININT);
            self.frame.extend(number.to_le_bytes());
        } else {
            let bytes = number.to_le_bytes();
            // As few bytes as keep the sign.
            let mut length = bytes.len();
            while 1 < length {
                let (top, below) = (bytes[length - 1], bytes[length - 2]);
                let spare = (top == 0 && below < 0x80) || (top == 0xff && 0x80 <= below);
                if !spare {
                    break;
                }
                length -= 1;
            }
            self.frame.extend([opcode::LONG1, length as u8]);
            self.frame.extend(&bytes[..length]);
        }
    }
    fn put_frame(&mut self, frame: FrameId, stacks: &StackTable) {
        let row = frame.0 as usize;
        let known = self.frames.get(row).copied().unwrap_or(NO_NUMBER);
        if known != NO_NUMBER {
            return self.name(known);
        }
        let content = stacks.frame(frame);
        self.frame.push(opcode::EMPTY_DICT);
        let number = self.number();
        self.keep(number);
        set(&mut self.frames, row, number);
        self.frame.push(opcode::MARK);
        self.put_word("name");
        self.put_shared(content.name, stacks);
        self.put_word("filename");
        self.put_shared(content.filename, stacks);
        self.put_word("line");
        self.put_int(i128::from(content.line));
        for (key, value) in stacks.extras(frame) {
            self.put_text(key);
            self.put_text(value);
        }
        self.frame.push(opcode::SETITEMS);
    }
}

impl<W: Write> Tree for PickleTree<W> {
    fn open_dict(&mut self) -> io::Result<()> {
        self.begin(true)
    }
    fn close_dict(&mut self) -> io::Result<()> {
        self.end();
        Ok(())
    }
    fn open_list(&mut self) -> io::Result<()> {
        self.begin(false)
    }
    fn close_list(&mut self) -> io::Result<()> {
        self.end();
        Ok(())
    }
    fn key(&mut self, key: &'static str) -> io::Result<()> {
        self.before()?;
        self.put_word(key);
        Ok(())
    }
    fn named_key(&mut self, key: &str) -> io::Result<()> {
        self.before()?;
        self.put_text(key);
        Ok(())
    }
    fn word(&mut self, word: &'static str) -> io::Result<()> {
        self.value()?;
        self.put_word(word);
        self.after();
        Ok(())
    }
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.value()?;
        self.put_text(text);
        self.after();
        Ok(())
    }
    fn shared_text(&mut self, text: StringId, stacks: &StackTable) -> io::Result<()> {
        self.value()?;
        self.put_shared(text, stacks);
        self.after();
        Ok(())
    }
    fn int(&mut self, number: i128) -> io::Result<()> {
        self.value()?;
        self.put_int(number);
        self.after();
        Ok(())
    }
    fn float(&mut self, number: f64) -> io::Result<()> {
        self.value()?;
        self.frame.push(opcode::BINFLOAT);
        self.frame.extend(number.to_be_bytes());
        self.after();
        Ok(())
    }
    fn truth(&mut self, truth: bool) -> io::Result<()> {
        self.value()?;
        self.frame.push(if truth { opcode::NEWTRUE } else { opcode::NEWFALSE });
        self.after();
        Ok(())
    }
    fn pair(&mut self, pair: (i64, i64)) -> io::Result<()> {
        self.value()?;
        match self.pairs.get(&pair) {
            Some(number) => self.name(*number),
            None => {
                self.put_int(i128::from(pair.0));
                self.put_int(i128::from(pair.1));
                self.frame.push(opcode::TUPLE2);
                let number = self.number();
                self.keep(number);
                self.pairs.insert(pair, number);
            }
        }
        self.after();
        Ok(())
    }
    fn stack(&mut self, stack: StackId, stacks: &StackTable) -> io::Result<()> {
        self.value()?;
        let frames = stacks.frames(stack);
        let row = stack.0 as usize;
        let known = if frames.is_empty() { NO_NUMBER } else { self.stacks.get(row).copied().unwrap_or(NO_NUMBER) };
        if known != NO_NUMBER {
            self.name(known);
        } else {
            self.frame.push(opcode::EMPTY_LIST);
            if !frames.is_empty() {
                let number = self.number();
                self.keep(number);
                set(&mut self.stacks, row, number);
                self.frame.push(opcode::MARK);
                for frame in frames {
                    self.put_frame(*frame, stacks);
                }
                self.frame.push(opcode::APPENDS);
            }
        }
        self.after();
        Ok(())
    }
}

fn set(numbers: &mut Vec<u32>, row: usize, number: u32) {
    if numbers.len() <= row {
        numbers.resize(row + 1, NO_NUMBER);
    }
    numbers[row] = number;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_take_as_few_bytes_as_python_gives_them() {
        for (number, bytes) in [
            (0, &[opcode::BININT1, 0][..]),
            (255, &[opcode::BININT1, 255]),
            (256, &[opcode::BININT2, 0, 1]),
            (65_535, &[opcode::BININT2, 255, 255]),
            (65_536, &[opcode::BININT, 0, 0, 1, 0]),
            (-1, &[opcode::BININT, 255, 255, 255, 255]),
            (1 << 31, &[opcode::LONG1, 5, 0, 0, 0, 128, 0]),
            (-(1 << 31) - 1, &[opcode::LONG1, 5, 255, 255, 255, 127, 255]),
            (0x7f3c_0000_0000, &[opcode::LONG1, 6, 0, 0, 0, 0, 0x3c, 0x7f]),
            (1 << 63, &[opcode::LONG1, 9, 0, 0, 0, 0, 0, 0, 0, 128, 0]),
            (i128::from(i64::MIN), &[opcode::LONG1, 8, 0, 0, 0, 0, 0, 0, 0, 128]),
        ] {
            let mut tree = PickleTree::new(Vec::new()).expect("memory takes all");
            tree.int(number).expect("memory takes all");
            assert_eq!(tree.frame, bytes, "{number}");
        }
    }

    #[test]
    fn equal_things_stand_once_and_long_lists_come_in_batches() {
        let mut tree = PickleTree::new(Vec::new()).expect("memory takes all");
        tree.open_list().expect("memory takes all");
        for _ in 0..BATCH + 1 {
            tree.word("alloc").expect("memory takes all");
        }
        tree.pair((0, 1)).expect("memory takes all");
        tree.pair((0, 1)).expect("memory takes all");
        tree.open_dict().expect("memory takes all");
        tree.close_dict().expect("memory takes all");
        tree.close_list().expect("memory takes all");
        let bytes = tree.finish().expect("memory takes all");
        let count = |byte: u8| bytes.iter().filter(|other| **other == byte).count();
        assert_eq!((count(opcode::APPENDS), count(opcode::TUPLE2), count(opcode::SETITEMS)), (2, 1, 0));
        assert_eq!(bytes.windows(5).filter(|window| window == b"alloc").count(), 1);
        assert_eq!(bytes.last(), Some(&opcode::STOP));
    }
}
