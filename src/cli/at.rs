//! `at`: the whole state at one moment.

use crate::analysis::{Counters, LiveByStack};
use crate::base::{Bytes, counted, grouped};
use crate::cli::command::{Command, Outcome};
use crate::cli::info::{counter_rows, coverage, event, is_known};
use crate::cli::opening::{self, Device};
use crate::cli::table::{Align, Table};
use crate::cli::{moment, output};
use crate::model::{BlockState, DeviceMemory, Position, Snapshot};
use crate::replay::{MemoryState, StateSegment};
use crate::report::json;
use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "at", arguments, run };

/// Stacks that are written out for people; what the others hold is said in one line.
const STACKS_SHOWN: usize = 15;
/// Frames of a stack that are written out for people, innermost first.
const FRAMES_SHOWN: usize = 5;
/// Cells of the strip that stands for a segment.
const STRIP_CELLS: u64 = 32;

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("The whole state at one moment: segments, blocks, gaps, live bytes by stack")
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as one JSON object, with every block"));
    moment::arguments(command)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let snapshot = opening::open(path)?;
    let device = Device::pick(&snapshot, moment::device_of(matches))?;
    let position = moment::of(matches)
        .position(device.memory, &device.timeline)
        .map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))?;
    let state = device.replay.state_at(device.memory, position);
    let live = LiveByStack::of(&state, &device.memory.allocations, &snapshot.stacks);
    let mut out = output::answers();
    if matches.get_flag("json") {
        json::write_at(&snapshot, device.id, &state, &live, &mut out)?;
    } else {
        out.write_all(text(&snapshot, &device, &state, &live).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The state for people. Writing into a text cannot fail, so results of `write!` are dropped here.
fn text(snapshot: &Snapshot, device: &Device<'_>, state: &MemoryState, live: &LiveByStack) -> String {
    let mut text = String::new();
    let counters = Counters::of(state, &device.memory.trace);
    let _ = writeln!(
        text,
        "{}: {} {}",
        output::one_line(&snapshot.origin.name),
        device.memory.title(),
        moment_sentence(device.memory, state.position)
    );
    text.push('\n');
    let mut table = Table::new(&[Align::Left, Align::Right]);
    for (name, value) in counter_rows(&counters).into_iter().filter(|(name, _)| is_known(device.memory, name)) {
        table.row([name.to_owned(), value]);
    }
    text.push_str(&table.lines(2));
    text.push_str(&coverage(device.memory));
    if !state.pools.is_empty() && device.memory.tells_segments() {
        text.push_str("\npools\n");
        text.push_str(&pools(snapshot, state).lines(2));
    }
    if !live.shares.is_empty() {
        text.push_str("\nallocated, by stack (innermost frame first)\n");
        text.push_str(&stacks(snapshot, live));
    }
    if !state.segments.is_empty() {
        text.push_str("\nsegments (█ allocated, ▒ pending free, · free; a cell shows what fills most of it)\n");
        text.push_str(&segments(snapshot, state).lines(2));
    }
    text
}

/// Which moment of a device is meant: `after event 7 of 0 to 99 (alloc)`.
pub fn moment_sentence(memory: &DeviceMemory, position: Position) -> String {
    match position.event() {
        None if memory.trace.is_empty() => "as it was written, without history".to_owned(),
        None => "before the first event".to_owned(),
        Some(at) => {
            let entry = memory.trace.entry(at);
            let time = entry.time_us.map_or(String::new(), |time_us| format!(", {time_us} µs"));
            let last = memory.trace.len().saturating_sub(1) as u64;
            let action = entry.action.name();
            format!("after event {} of 0 to {} ({action}{time})", event(i64::from(at.0)), grouped(last))
        }
    }
}

fn pools(snapshot: &Snapshot, state: &MemoryState) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Right, Right, Right]);
    table.row(["pool", "kind", "stream", "segments", "reserved", "active", "free", "largest free block"]);
    for pool in &state.pools {
        table.row([
            pool_name(snapshot.pools.pair(pool.pool)),
            pool.class.name().to_owned(),
            snapshot.streams.handle(pool.stream).to_string(),
            grouped(pool.segments),
            Bytes(pool.reserved).to_string(),
            Bytes(pool.active).to_string(),
            Bytes(pool.free).to_string(),
            Bytes(pool.largest_free_block).to_string(),
        ]);
    }
    table
}

fn pool_name((a, b): (i64, i64)) -> String {
    if (a, b) == (0, 0) { "default".to_owned() } else { format!("({a}, {b})") }
}

fn stacks(snapshot: &Snapshot, live: &LiveByStack) -> String {
    let mut text = String::new();
    for share in live.shares.iter().take(STACKS_SHOWN) {
        let frames = snapshot.stacks.frames(share.stack);
        let _ = writeln!(text, "  {} in {}", Bytes(share.bytes).exact(), counted(share.count, "block"));
        for frame in frames.iter().take(FRAMES_SHOWN) {
            let _ = writeln!(text, "      {}", output::one_line(&snapshot.stacks.line(*frame)));
        }
        if frames.is_empty() {
            text.push_str("      (no stack)\n");
        } else if FRAMES_SHOWN < frames.len() {
            let _ = writeln!(text, "      … {} further out", counted((frames.len() - FRAMES_SHOWN) as u64, "frame"));
        }
    }
    let rest = live.shares.get(STACKS_SHOWN..).unwrap_or_default();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|share| share.bytes).sum();
        let _ = writeln!(text, "  {} at {}", Bytes(bytes).exact(), counted(rest.len() as u64, "further stack"));
    }
    text
}

fn segments(snapshot: &Snapshot, state: &MemoryState) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Left, Left, Right, Right, Right, Right, Left]);
    table.row(["address", "size", "pool", "kind", "stream", "blocks", "free", "largest free block", ""]);
    for segment in &state.segments {
        let blocks = state.blocks_of(segment);
        let gaps = || blocks.iter().filter(|block| block.state == BlockState::Inactive).map(|gap| gap.size);
        let kind = segment.class.name();
        table.row([
            format!("0x{:x}", segment.address),
            Bytes(segment.size).to_string(),
            pool_name(snapshot.pools.pair(segment.pool)),
            match (segment.inferred, segment.expandable) {
                (true, _) => format!("{kind}, not in the file"),
                (false, true) => format!("{kind}, expandable"),
                (false, false) => kind.to_owned(),
            },
            snapshot.streams.handle(segment.stream).to_string(),
            grouped(blocks.iter().filter(|block| block.state != BlockState::Inactive).count() as u64),
            Bytes(gaps().sum()).to_string(),
            Bytes(gaps().max().unwrap_or(0)).to_string(),
            strip(state, segment),
        ]);
    }
    table
}

/// A segment in a row of cells, each showing the state that most of its bytes are in.
fn strip(state: &MemoryState, segment: &StateSegment) -> String {
    let cells = STRIP_CELLS.min(segment.size).max(1);
    // Bytes of each cell by state; sums in 128 bits, since addresses times cells may pass 64.
    let mut filled = vec![[0u128; 3]; cells as usize];
    let bound = |cell: u64| u128::from(segment.size) * u128::from(cell) / u128::from(cells);
    for block in state.blocks_of(segment) {
        let from = u128::from(block.address.saturating_sub(segment.address));
        let to = from + u128::from(block.size);
        let first = (from * u128::from(cells) / u128::from(segment.size.max(1))).min(u128::from(cells - 1)) as u64;
        for cell in first..cells {
            if to <= bound(cell) {
                break;
            }
            let inside = to.min(bound(cell + 1)).saturating_sub(from.max(bound(cell)));
            filled[cell as usize][block.state as usize] += inside;
        }
    }
    filled
        .iter()
        .map(|[allocated, pending, free]| {
            if free <= allocated && pending <= allocated {
                '█'
            } else if free <= pending {
                '▒'
            } else {
                '·'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PoolId, SegmentId, SizeClass, StackId, StreamId};
    use crate::replay::StateBlock;

    #[test]
    fn a_strip_shows_what_fills_most_of_each_cell() {
        use BlockState::{ActiveAllocated as Used, ActivePendingFree as Pending, Inactive as Free};
        for (size, blocks, wanted) in [
            (320, &[(160, Used), (160, Free)][..], "████████████████················"),
            (320, &[(24, Used), (296, Free)], "██·····························"),
            (320, &[(26, Used), (294, Pending)], "███▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒"),
            (3, &[(1, Free), (1, Used), (1, Pending)], "·█▒"),
            (u64::MAX, &[(u64::MAX, Used)], "████████████████████████████████"),
        ] {
            let mut address = 0;
            let mut state = MemoryState::default();
            for (size, state_of_block) in blocks {
                let block = StateBlock { address, size: *size, requested: 0, state: *state_of_block, allocation: None };
                state.blocks.push(block);
                address += size;
            }
            let segment = StateSegment {
                address: 0,
                size,
                id: SegmentId(0),
                stream: StreamId::DEFAULT,
                pool: PoolId::DEFAULT,
                class: SizeClass::Large,
                expandable: false,
                stack: StackId::ABSENT,
                inferred: false,
                blocks: 0..state.blocks.len(),
            };
            let strip = strip(&state, &segment);
            assert!(strip.starts_with(wanted), "{strip} for {blocks:?}");
            assert_eq!(strip.chars().count() as u64, STRIP_CELLS.min(size));
        }
    }
}
