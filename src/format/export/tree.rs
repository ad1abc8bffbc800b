//! The contract of a notation: nested dicts and lists of plain values, written one after the other.
//!
//! Always: whoever writes closes what it opens and puts a key before each value of a dict; a notation that can share
//! equal texts, pairs and stacks writes each once, one that cannot writes them in full.

use crate::base::StringId;
use crate::model::{StackId, StackTable};
use std::io;

/// A notation for nested values.
pub(crate) trait Tree {
    /// Begins a dict.
    fn open_dict(&mut self) -> io::Result<()>;
    /// Ends it.
    fn close_dict(&mut self) -> io::Result<()>;
    /// Begins a list.
    fn open_list(&mut self) -> io::Result<()>;
    /// Ends it.
    fn close_list(&mut self) -> io::Result<()>;
    /// The key of the next value, one of the format's own words.
    fn key(&mut self, key: &'static str) -> io::Result<()>;
    /// The key of the next value, a text of the file's making.
    fn named_key(&mut self, key: &str) -> io::Result<()>;
    /// A text that is one of the format's own words.
    fn word(&mut self, word: &'static str) -> io::Result<()>;
    /// A text that stands here only.
    fn text(&mut self, text: &str) -> io::Result<()>;
    /// A text of the snapshot's table.
    fn shared_text(&mut self, text: StringId, stacks: &StackTable) -> io::Result<()>;
    /// A whole number.
    fn int(&mut self, number: i128) -> io::Result<()>;
    /// A number.
    fn float(&mut self, number: f64) -> io::Result<()>;
    /// A truth value.
    fn truth(&mut self, truth: bool) -> io::Result<()>;
    /// A pair of whole numbers.
    fn pair(&mut self, pair: (i64, i64)) -> io::Result<()>;
    /// A stack: the list of its frames, innermost first.
    fn stack(&mut self, stack: StackId, stacks: &StackTable) -> io::Result<()>;
}
