//! The notation of JSON: tuples are arrays, nothing is shared, whole numbers are exact.

use crate::base::StringId;
use crate::format::export::tree::Tree;
use crate::model::{StackId, StackTable};
use std::io::{self, Write};

/// Writes one JSON value.
pub(crate) struct JsonTree<W: Write> {
    out: W,
    /// Of each open dict or list, whether something stands in it.
    open: Vec<bool>,
    /// A key was written: its value follows.
    keyed: bool,
}

impl<W: Write> JsonTree<W> {
    /// Begins.
    pub(crate) fn new(out: W) -> Self {
        Self { out, open: Vec::new(), keyed: false }
    }
    /// Ends with a line end and hands the writer back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n")?;
        Ok(self.out)
    }
    fn before(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.keyed) {
            return Ok(());
        }
        match self.open.last_mut() {
            Some(filled) if *filled => self.out.write_all(b","),
            Some(filled) => {
                *filled = true;
                Ok(())
            }
            None => Ok(()),
        }
    }
    fn string(&mut self, text: &str) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, text).map_err(io::Error::from)
    }
}

impl<W: Write> Tree for JsonTree<W> {
    fn open_dict(&mut self) -> io::Result<()> {
        self.before()?;
        self.open.push(false);
        self.out.write_all(b"{")
    }
    fn close_dict(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(b"}")
    }
    fn open_list(&mut self) -> io::Result<()> {
        self.before()?;
        self.open.push(false);
        self.out.write_all(b"[")
    }
    fn close_list(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(b"]")
    }
    fn key(&mut self, key: &'static str) -> io::Result<()> {
        self.named_key(key)
    }
    fn named_key(&mut self, key: &str) -> io::Result<()> {
        self.before()?;
        self.string(key)?;
        self.keyed = true;
        self.out.write_all(b":")
    }
    fn word(&mut self, word: &'static str) -> io::Result<()> {
        self.text(word)
    }
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.before()?;
        self.string(text)
    }
    fn shared_text(&mut self, text: StringId, stacks: &StackTable) -> io::Result<()> {
        self.text(stacks.strings.get(text))
    }
    fn int(&mut self, number: i128) -> io::Result<()> {
        self.before()?;
        write!(self.out, "{number}")
    }
    fn float(&mut self, number: f64) -> io::Result<()> {
        self.before()?;
        // What JSON has no number for is nothing there.
        serde_json::to_writer(&mut self.out, &number).map_err(io::Error::from)
    }
    fn truth(&mut self, truth: bool) -> io::Result<()> {
        self.before()?;
        self.out.write_all(if truth { b"true" } else { b"false" })
    }
    fn pair(&mut self, (a, b): (i64, i64)) -> io::Result<()> {
        self.before()?;
        write!(self.out, "[{a},{b}]")
    }
    fn stack(&mut self, stack: StackId, stacks: &StackTable) -> io::Result<()> {
        self.open_list()?;
        for frame in stacks.frames(stack) {
            let content = stacks.frame(*frame);
            self.open_dict()?;
            self.key("name")?;
            self.shared_text(content.name, stacks)?;
            self.key("filename")?;
            self.shared_text(content.filename, stacks)?;
            self.key("line")?;
            self.int(i128::from(content.line))?;
            for (key, value) in stacks.extras(*frame) {
                self.named_key(key)?;
                self.text(value)?;
            }
            self.close_dict()?;
        }
        self.close_list()
    }
}
