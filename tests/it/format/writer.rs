//! Writes a JSON value as a pickle in the dialects that are met: so every test has its twin in each.

use serde_json::Value;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// CPython's batches and memo, protocol 2 to 5.
    Python(u8),
    /// PyTorch's own pickler: protocol 2, one batch, memo after the object, integers of eight bytes.
    Cpp,
    /// Protocol 0 in its letters: every pair and item alone, numbers as text.
    OneByOne,
}

pub const DIALECTS: [Dialect; 6] =
    [Dialect::Python(2), Dialect::Python(3), Dialect::Python(4), Dialect::Python(5), Dialect::Cpp, Dialect::OneByOne];

pub fn pickle(value: &Value, dialect: Dialect) -> Vec<u8> {
    let mut out = Vec::new();
    match dialect {
        Dialect::Python(protocol) => out.extend([0x80, protocol]),
        Dialect::Cpp => out.extend([0x80, 2]),
        Dialect::OneByOne => {}
    }
    let mut writer = Writer { out, dialect, memo: 0 };
    writer.value(value, false);
    writer.out.push(b'.');
    writer.out
}

struct Writer {
    out: Vec<u8>,
    dialect: Dialect,
    memo: u32,
}

impl Writer {
    fn memoize(&mut self) {
        match self.dialect {
            Dialect::Python(4 | 5) => self.out.push(0x94),
            Dialect::OneByOne => self.out.extend(format!("p{}\n", self.memo).bytes()),
            _ if self.memo < 256 => self.out.extend([b'q', self.memo as u8]),
            _ => {
                self.out.push(b'r');
                self.out.extend(self.memo.to_le_bytes());
            }
        }
        self.memo += 1;
    }
    fn text(&mut self, text: &str) {
        match self.dialect {
            Dialect::OneByOne => {
                self.out.push(b'V');
                for c in text.chars() {
                    match c {
                        '\n' | '\\' => self.out.extend(format!("\\u{:04x}", c as u32).bytes()),
                        c if (c as u32) < 256 => self.out.push(c as u8),
                        c => self.out.extend(format!("\\u{:04x}", c as u32).bytes()),
                    }
                }
                self.out.push(b'\n');
            }
            Dialect::Python(4 | 5) if text.len() < 256 => self.out.extend([0x8c, text.len() as u8]),
            _ => {
                self.out.push(b'X');
                self.out.extend((text.len() as u32).to_le_bytes());
            }
        }
        if self.dialect != Dialect::OneByOne {
            self.out.extend(text.bytes());
        }
        self.memoize();
    }
    fn integer(&mut self, number: i128) {
        match self.dialect {
            Dialect::OneByOne => self.out.extend(format!("L{number}L\n").bytes()),
            _ if (0..256).contains(&number) => self.out.extend([b'K', number as u8]),
            _ if i128::from(i32::MIN) <= number && number <= i128::from(i32::MAX) => {
                self.out.push(b'J');
                self.out.extend((number as i32).to_le_bytes());
            }
            Dialect::Cpp => {
                self.out.extend([0x8a, 8]);
                self.out.extend((number as u64).to_le_bytes());
            }
            Dialect::Python(_) => {
                self.out.extend([0x8a, 9]);
                self.out.extend(&number.to_le_bytes()[..9]);
            }
        }
    }
    fn value(&mut self, value: &Value, tuple: bool) {
        match value {
            Value::Null => self.out.push(b'N'),
            Value::Bool(_) if self.dialect == Dialect::OneByOne => {
                self.out.extend(if value == &Value::Bool(true) { b"I01\n" } else { b"I00\n" });
            }
            Value::Bool(truth) => self.out.push(if *truth { 0x88 } else { 0x89 }),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => self.integer(i128::from(number)),
                (_, Some(number)) => self.integer(i128::from(number)),
                _ => {
                    let number = number.as_f64().expect("a float");
                    match self.dialect {
                        Dialect::OneByOne => self.out.extend(format!("F{number:?}\n").bytes()),
                        _ => {
                            self.out.push(b'G');
                            self.out.extend(number.to_be_bytes());
                        }
                    }
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(items) if tuple => {
                self.out.push(b'(');
                items.iter().for_each(|item| self.value(item, false));
                self.out.push(b't');
                self.memoize();
            }
            Value::Array(items) => self.list(items),
            Value::Object(pairs) => self.dict(pairs),
        }
    }
    fn list(&mut self, items: &[Value]) {
        match self.dialect {
            Dialect::OneByOne => {
                self.out.extend(b"(l");
                self.memoize();
                for item in items {
                    self.value(item, false);
                    self.out.push(b'a');
                }
            }
            Dialect::Cpp => {
                self.out.extend(b"](");
                items.iter().for_each(|item| self.value(item, false));
                self.out.push(b'e');
                self.memoize();
            }
            Dialect::Python(_) => {
                self.out.push(b']');
                self.memoize();
                for batch in items.chunks(3) {
                    if let [item] = batch {
                        self.value(item, false);
                        self.out.push(b'a');
                        continue;
                    }
                    self.out.push(b'(');
                    batch.iter().for_each(|item| self.value(item, false));
                    self.out.push(b'e');
                }
            }
        }
    }
    fn dict(&mut self, pairs: &serde_json::Map<String, Value>) {
        let begin: &[u8] = if self.dialect == Dialect::OneByOne { b"(d" } else { b"}" };
        self.out.extend(begin);
        if self.dialect != Dialect::Cpp {
            self.memoize();
        }
        let batch = self.dialect != Dialect::OneByOne && (self.dialect == Dialect::Cpp || 1 < pairs.len());
        if batch {
            self.out.push(b'(');
        }
        for (key, value) in pairs {
            self.text(key);
            self.value(value, key == "pool_id" || key == "segment_pool_id");
            if !batch {
                self.out.push(b's');
            }
        }
        if batch {
            self.out.push(b'u');
        }
        if self.dialect == Dialect::Cpp {
            self.memoize();
        }
    }
}
