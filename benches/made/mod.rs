//! Snapshots of any size, written as Python's pickler writes them: protocol 4, every object memoised, keys and
//! frames shared, a new frame list for each event. What a training loop looks like to an allocator: a few
//! thousand blocks that stay, the rest short-lived, sizes from 512 bytes to 64 MiB, 400 stacks.

use std::io::{BufWriter, Write};
use std::path::Path;

const SIZES: [u64; 8] = [512, 4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20, 24 << 20, 64 << 20];
const BASE: u64 = 0x7f00_0000_0000;
const GRANULE: u64 = 20 << 20;

/// Writes a snapshot with about `allocations` block lives (three events each) to `path`.
pub fn write_snapshot(path: &Path, allocations: u32) -> std::io::Result<()> {
    let mut pickler =
        Pickler { out: BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?), memo: 0, texts: Vec::new() };
    pickler.out.write_all(&[0x80, 4])?;
    pickler.container(b'}')?;
    pickler.out.write_all(b"(")?;
    let mut heap = Heap { free: Default::default(), end: BASE, mapped: BASE, live: Vec::new(), seed: 0x9e37_79b9_7f4a_7c15 };
    pickler.text("device_traces")?;
    pickler.container(b']')?;
    pickler.container(b']')?;
    let frames = pickler.frames()?;
    let mut event = 0u64;
    pickler.out.write_all(b"(")?;
    for n in 0..allocations {
        let size = heap.pick();
        let (address, grown) = heap.take(size);
        if grown != 0 {
            let mapped = heap.mapped - grown;
            pickler.event("segment_map", mapped, grown, event, &frames, n)?;
            event += 1;
        }
        pickler.event("alloc", address, size - size / 7, event, &frames, n)?;
        event += 1;
        heap.live.push((address, size));
        while 6000 < heap.live.len() || (n % 97 < 60 && 200 < heap.live.len() && heap.next(4) != 0) {
            // Mostly the youngest go first, as activations do.
            let among = if heap.next(8) == 0 { heap.live.len() as u64 } else { 64 };
            let place = heap.live.len() - 1 - heap.next(among.min(heap.live.len() as u64)) as usize;
            let (address, size) = heap.live.swap_remove(place);
            for action in ["free_requested", "free_completed"] {
                pickler.event(action, address, size - size / 7, event, &frames, n)?;
                event += 1;
            }
            heap.give(address, size);
        }
        if n % 1000 == 999 {
            pickler.out.write_all(b"e(")?;
        }
    }
    // Leave the inner list, close the outer one, and state the one mapped range.
    pickler.out.write_all(b"ea")?;
    pickler.text("segments")?;
    pickler.container(b']')?;
    pickler.segment(&mut heap)?;
    pickler.out.write_all(b"au.")?;
    pickler.out.flush()
}

struct Heap {
    free: [Vec<u64>; SIZES.len()],
    end: u64,
    mapped: u64,
    live: Vec<(u64, u64)>,
    seed: u64,
}

impl Heap {
    fn next(&mut self, n: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % n
    }
    fn pick(&mut self) -> u64 {
        let a = self.next(SIZES.len() as u64);
        SIZES[a.min(self.next(SIZES.len() as u64)) as usize]
    }
    fn take(&mut self, size: u64) -> (u64, u64) {
        let class = SIZES.iter().position(|s| *s == size).unwrap_or(0);
        if let Some(address) = self.free[class].pop() {
            return (address, 0);
        }
        let address = self.end;
        self.end += size;
        let before = self.mapped;
        self.mapped = self.mapped.max(BASE + (self.end - BASE).next_multiple_of(GRANULE));
        (address, self.mapped - before)
    }
    fn give(&mut self, address: u64, size: u64) {
        let class = SIZES.iter().position(|s| *s == size).unwrap_or(0);
        self.free[class].push(address);
    }
}

struct Pickler<W> {
    out: W,
    memo: u32,
    texts: Vec<(&'static str, u32)>,
}

impl<W: Write> Pickler<W> {
    fn memoize(&mut self) -> std::io::Result<u32> {
        self.memo += 1;
        self.out.write_all(&[0x94])?;
        Ok(self.memo - 1)
    }
    fn container(&mut self, opcode: u8) -> std::io::Result<u32> {
        self.out.write_all(&[opcode])?;
        self.memoize()
    }
    fn get(&mut self, id: u32) -> std::io::Result<()> {
        match u8::try_from(id) {
            Ok(id) => self.out.write_all(&[b'h', id]),
            Err(_) => {
                self.out.write_all(b"j")?;
                self.out.write_all(&id.to_le_bytes())
            }
        }
    }
    fn text(&mut self, text: &'static str) -> std::io::Result<()> {
        if let Some((_, id)) = self.texts.iter().find(|(known, _)| *known == text) {
            return self.get(*id);
        }
        self.fresh_text(text)?;
        self.texts.push((text, self.memo - 1));
        Ok(())
    }
    fn fresh_text(&mut self, text: &str) -> std::io::Result<()> {
        self.out.write_all(&[0x8c, text.len() as u8])?;
        self.out.write_all(text.as_bytes())?;
        self.memoize().map(|_| ())
    }
    fn int(&mut self, value: u64) -> std::io::Result<()> {
        if let Ok(small) = u8::try_from(value) {
            return self.out.write_all(&[b'K', small]);
        }
        let bytes = value.to_le_bytes();
        let length = 8 - (value.leading_zeros() as usize) / 8;
        let length = if bytes[length - 1] & 0x80 == 0 { length } else { length + 1 };
        self.out.write_all(&[0x8a, length as u8])?;
        self.out.write_all(&bytes[..length.min(8)])?;
        if length == 9 { self.out.write_all(&[0]) } else { Ok(()) }
    }
    /// Frame dicts, kept by a list that is dropped again, so that events only refer to them.
    fn frames(&mut self) -> std::io::Result<Vec<u32>> {
        let mut ids = Vec::new();
        for i in 0..400u64 {
            ids.push(self.container(b'}')?);
            self.out.write_all(b"(")?;
            self.text("name")?;
            self.fresh_text(&format!("layer_{}", i % 37))?;
            self.text("filename")?;
            self.fresh_text(&format!("/home/user/train/part_{}.py", i % 11))?;
            self.text("line")?;
            self.int(i + 10)?;
            self.out.write_all(b"u0")?;
        }
        Ok(ids)
    }
    fn event(
        &mut self,
        action: &'static str,
        address: u64,
        size: u64,
        n: u64,
        frames: &[u32],
        stack: u32,
    ) -> std::io::Result<()> {
        self.container(b'}')?;
        self.out.write_all(b"(")?;
        self.text("action")?;
        self.text(action)?;
        for (key, value) in [("addr", address), ("size", size), ("stream", 0), ("time_us", 1_790_000_000_000_000 + n * 3)] {
            self.text(key)?;
            self.int(value)?;
        }
        for (key, value) in [("compile_context", "N/A"), ("user_metadata", "")] {
            self.text(key)?;
            self.fresh_text(value)?;
        }
        self.text("frames")?;
        self.container(b']')?;
        self.out.write_all(b"(")?;
        let first = stack as usize % 400;
        for depth in 0..7 {
            self.get(frames[(first + depth * 31 * (1 + first % 3)) % frames.len()])?;
        }
        self.out.write_all(b"eu")
    }
    fn segment(&mut self, heap: &mut Heap) -> std::io::Result<()> {
        self.container(b'}')?;
        self.out.write_all(b"(")?;
        for (key, value) in [("device", 0), ("address", BASE), ("total_size", heap.mapped - BASE), ("stream", 0)] {
            self.text(key)?;
            self.int(value)?;
        }
        self.text("segment_type")?;
        self.text("large")?;
        self.text("is_expandable")?;
        self.out.write_all(&[0x88])?;
        self.text("blocks")?;
        self.container(b']')?;
        self.out.write_all(b"(")?;
        heap.live.sort_unstable();
        let mut cursor = BASE;
        for (address, size) in heap.live.clone() {
            self.block(cursor, address - cursor, 0)?;
            self.block(address, size, size - size / 7)?;
            cursor = address + size;
        }
        self.block(cursor, heap.mapped - cursor, 0)?;
        self.out.write_all(b"eu")
    }
    fn block(&mut self, address: u64, size: u64, requested: u64) -> std::io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        self.container(b'}')?;
        self.out.write_all(b"(")?;
        for (key, value) in [("address", address), ("size", size), ("requested_size", requested)] {
            self.text(key)?;
            self.int(value)?;
        }
        self.text("state")?;
        self.text(if requested == 0 { "inactive" } else { "active_allocated" })?;
        self.out.write_all(b"u")
    }
}
