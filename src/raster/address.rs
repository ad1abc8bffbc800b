//! A stable place for every address: segments stacked in address order, the gaps between them closed.
//!
//! Always: the map is made from all segments of the whole trace, so an address keeps its row whatever moment or
//! window is shown. Ranges that touch or overlap at different times are one span; the mapped ranges of an
//! expandable segment touch, so it is one span too, and what is not mapped at a moment stays open inside it.

use crate::base::HeapSize;
use crate::model::DeviceMemory;

/// A range of addresses and where it stands in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpan {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of spans below it: the row of its first byte.
    pub row: u64,
}

/// Addresses to rows and back. A row is a byte of segment memory, counted from the lowest address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    spans: Vec<AddressSpan>,
}

impl AddressMap {
    /// The map of a device.
    pub fn new(memory: &DeviceMemory) -> AddressMap {
        let mut ranges: Vec<(u64, u64)> = memory.segments.as_slice().iter().map(|s| (s.address, s.end())).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (start, end) in ranges {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        let mut row = 0u64;
        let spans = joined.into_iter().filter(|(start, end)| start < end).map(|(address, end)| {
            let span = AddressSpan { address, size: end - address, row };
            row = row.saturating_add(span.size);
            span
        });
        AddressMap { spans: spans.collect() }
    }
    /// All spans, the lowest first.
    pub fn spans(&self) -> &[AddressSpan] {
        &self.spans
    }
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.row.saturating_add(span.size))
    }
    /// The row of an address; none outside every segment.
    pub fn row(&self, address: u64) -> Option<u64> {
        let span = self.spans[..self.spans.partition_point(|span| span.address <= address)].last()?;
        (address - span.address < span.size).then(|| span.row + (address - span.address))
    }
    /// The address of a row; none beyond the last.
    pub fn address(&self, row: u64) -> Option<u64> {
        let span = self.spans[..self.spans.partition_point(|span| span.row <= row)].last()?;
        (row - span.row < span.size).then(|| span.address + (row - span.row))
    }
}

impl HeapSize for AddressMap {
    fn heap_size(&self) -> usize {
        self.spans.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PoolId, Position, Segment, SizeClass, StackId, StreamId};

    #[test]
    fn gaps_between_segments_are_closed() {
        let mut memory = DeviceMemory::default();
        for (address, size) in [(0x9000, 0x1000), (0x1000, 0x1000), (0x2000, 0x800), (0x9800, 0x1000), (0x5000, 0)] {
            memory.segments.push(Segment {
                address,
                size,
                born: Position::START,
                died: Position::NEVER,
                stream: StreamId::DEFAULT,
                pool: PoolId::DEFAULT,
                class: SizeClass::Large,
                expandable: false,
                stack: StackId::ABSENT,
                inferred: false,
            });
        }
        let map = AddressMap::new(&memory);
        assert_eq!(map.rows(), 0x1800 + 0x1800);
        for (address, row) in [
            (0x1000, Some(0)),
            (0x27ff, Some(0x17ff)),
            (0x2800, None),
            (0x9000, Some(0x1800)),
            (0xa7ff, Some(0x2fff)),
            (0xa800, None),
            (0, None),
        ] {
            assert_eq!(map.row(address), row, "0x{address:x}");
            assert_eq!(row.and_then(|row| map.address(row)), row.map(|_| address), "0x{address:x}");
        }
        assert_eq!(map.address(0x3000), None);
        assert_eq!(AddressMap::default().row(0), None);
    }
}
