//! Cuts bytes that come in any pieces into sound records.
//!
//! Always: a record is given out only when its checksum holds; what does not hold is passed over up to the next
//! record that does, and said once a stretch. What is waiting is never more than one record and one feed.

use crate::format::fsl::{HEAD, MAGIC, MARKER, MAX_PAYLOAD, PREAMBLE, VERSION};
use flate2::Crc;

/// What came out of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A sound record.
    Record {
        /// Its kind, by number.
        kind: u16,
        /// What it holds.
        payload: &'a [u8],
        /// The byte at which it begins.
        at: u64,
    },
    /// Bytes that are no sound record.
    Damage {
        /// The first of them.
        from: u64,
        /// The first behind them.
        to: u64,
    },
    /// The preamble is not that of a log. Nothing follows.
    Foreign,
    /// The log is of a later version than this reader. Nothing follows.
    Newer(u16),
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Splitter {
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer.
    before: u64,
    begun: bool,
    refused: bool,
    finished: bool,
    /// Where bytes that are no record began.
    damaged_from: Option<u64>,
    torn_at: Option<u64>,
}

enum Look {
    Record { kind: u16, end: usize },
    Waiting,
    Nothing,
}

impl Splitter {
    /// Hands over the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.before += self.at as u64;
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }
    /// No more bytes will come: what waits for its rest is given up.
    pub fn finish(&mut self) {
        self.finished = true;
    }
    /// Whether the preamble was there and understood.
    pub fn begun(&self) -> bool {
        self.begun
    }
    /// Bytes passed so far.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }
    /// After the end: where a record began that the end of the bytes cut.
    pub fn torn_at(&self) -> Option<u64> {
        self.torn_at
    }

    /// The next piece; none until more bytes come.
    pub fn next_piece(&mut self) -> Option<Piece<'_>> {
        if self.refused || (!self.begun && !self.preamble()?) {
            return self.refuse();
        }
        loop {
            match self.look(self.at) {
                Look::Record { kind, end } => {
                    let at = self.offset();
                    if let Some(from) = self.damaged_from.take() {
                        return Some(Piece::Damage { from, to: at });
                    }
                    let payload = self.at + HEAD..end;
                    self.at = end;
                    return Some(Piece::Record { kind, payload: &self.buffer[payload], at });
                }
                Look::Waiting if !self.finished => return None,
                Look::Waiting | Look::Nothing => {
                    if self.at == self.buffer.len() {
                        return self.last();
                    }
                    let from = self.offset();
                    self.damaged_from.get_or_insert(from);
                    self.at = self.next_marker(self.at + 1);
                }
            }
        }
    }

    /// What is left at the end: nothing, a record that was cut, or bytes that are none.
    fn last(&mut self) -> Option<Piece<'_>> {
        let from = self.damaged_from.filter(|_| self.finished)?;
        self.damaged_from = None;
        self.torn_at = Some(from);
        None
    }

    /// Whether the preamble is one that can be read; none while it is not all there.
    fn preamble(&mut self) -> Option<bool> {
        let ahead = &self.buffer[self.at..];
        let known = ahead.len().min(MAGIC.len());
        if ahead[..known] != MAGIC[..known] {
            return Some(false);
        }
        let head = ahead.get(..PREAMBLE)?;
        if u16::from_le_bytes([head[8], head[9]]) != VERSION {
            return Some(false);
        }
        self.begun = true;
        self.at += PREAMBLE;
        Some(true)
    }

    fn refuse(&mut self) -> Option<Piece<'_>> {
        if std::mem::replace(&mut self.refused, true) {
            return None;
        }
        match self.buffer[self.at..].get(..PREAMBLE) {
            Some(head) if head[..8] == MAGIC && VERSION < u16::from_le_bytes([head[8], head[9]]) => {
                Some(Piece::Newer(u16::from_le_bytes([head[8], head[9]])))
            }
            _ => Some(Piece::Foreign),
        }
    }

    fn look(&self, at: usize) -> Look {
        let ahead = &self.buffer[at..];
        let known = ahead.len().min(MARKER.len());
        if ahead[..known] != MARKER[..known] {
            return Look::Nothing;
        }
        let Some(head) = ahead.get(..HEAD) else { return Look::Waiting };
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let (len, sum) = (word(4) as usize, word(8));
        if MAX_PAYLOAD < len {
            return Look::Nothing;
        }
        let Some(checked) = ahead.get(12..HEAD + len) else { return Look::Waiting };
        let mut crc = Crc::new();
        crc.update(checked);
        if crc.sum() != sum {
            return Look::Nothing;
        }
        Look::Record { kind: u16::from_le_bytes([head[12], head[13]]), end: at + HEAD + len }
    }

    /// The next place at or behind `from` where a marker may begin, or the end.
    fn next_marker(&self, from: usize) -> usize {
        let ahead = &self.buffer[from..];
        let begins = |place: &usize| {
            let known = (ahead.len() - place).min(MARKER.len());
            ahead[*place..place + known] == MARKER[..known]
        };
        let mut places = ahead.iter().enumerate().filter(|(_, byte)| **byte == MARKER[0]).map(|(place, _)| place);
        from + places.find(begins).unwrap_or(ahead.len())
    }
}
