//! How frames, values and moments of a flame graph read.
//!
//! Always: a difference carries its sign; what is said to the byte is the tree's value.

use crate::analysis::flame::{FlameLabel, FlameNodeId, FlameOf, FlameTree, NO_STACK, WindowSum};
use crate::base::{Bytes, grouped};
use crate::chart::block_words::{bare_moment, place_of, which_words};
use crate::chart::text::{file_name, short_path};
use crate::model::{FrameId, Position, StackTable};

/// A node's name for its box: `forward  mlp.py:41`.
pub fn node_name(stacks: &StackTable, label: FlameLabel) -> String {
    match label {
        FlameLabel::All => "all".to_owned(),
        FlameLabel::NoStack => NO_STACK.to_owned(),
        FlameLabel::Frame(frame) => frame_name(stacks, frame),
    }
}

/// A frame in short: `forward  mlp.py:41`; only the function where the file is not known.
pub fn frame_name(stacks: &StackTable, frame: FrameId) -> String {
    let (function, file, line) = (stacks.function(frame), stacks.file(frame), stacks.frame(frame).line);
    match file {
        "" | "??" => function.to_owned(),
        file => format!("{function}  {}:{line}", short_path(file_name(file), 60)),
    }
}

/// A frame in full, as other tools' flame graphs have it: `forward (/home/u/mlp.py:41)`.
pub fn frame_in_full(stacks: &StackTable, frame: FrameId) -> String {
    let (function, file, line) = (stacks.function(frame), stacks.file(frame), stacks.frame(frame).line);
    match file {
        "" | "??" => function.to_owned(),
        file => format!("{function} ({file}:{line})"),
    }
}

/// A value in short: `1.25 GiB`, `+27.50 MiB` in a difference, `12 034 blocks`, `3.10 TiB × events`.
pub fn value_text(of: FlameOf, value: i128) -> String {
    let size = || Bytes(u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX)).to_string();
    match of {
        FlameOf::Live { .. } | FlameOf::Window { sum: WindowSum::Allocated, .. } | FlameOf::Set(_) => size(),
        FlameOf::Window { sum: WindowSum::ByteEvents, .. } => format!("{} × events", size()),
        FlameOf::Window { sum: WindowSum::Count, .. } => blocks(value),
        FlameOf::Difference { .. } => format!("{}{}", sign(value), size()),
    }
}

/// A value to the unit, behind its short form.
pub fn exact_value(of: FlameOf, value: i128) -> String {
    let n = grouped(u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX));
    match of {
        FlameOf::Window { sum: WindowSum::Count, .. } => blocks(value),
        FlameOf::Window { sum: WindowSum::ByteEvents, .. } => format!("{} ({n} bytes × events)", value_text(of, value)),
        _ if value.unsigned_abs() < 1024 => value_text(of, value),
        FlameOf::Difference { .. } => format!("{} ({}{n} bytes)", value_text(of, value), sign(value)),
        FlameOf::Live { .. } | FlameOf::Window { .. } | FlameOf::Set(_) => format!("{} ({n} bytes)", value_text(of, value)),
    }
}

/// A share of the whole: `34.5 %`.
pub fn share_text(part: u128, whole: u128) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}

/// What a node is, line by line, as a tooltip has it: name, place, value, own part, blocks.
pub fn describe(tree: &FlameTree, stacks: &StackTable, node: FlameNodeId) -> Vec<String> {
    let Some(row) = tree.nodes.get(node) else { return Vec::new() };
    let of = tree.params.of;
    let mut lines = match row.label {
        FlameLabel::Frame(frame) => {
            let place = place_of(&short_path(stacks.file(frame), 120), stacks.frame(frame).line);
            vec![stacks.function(frame).to_owned(), place]
        }
        label => vec![node_name(stacks, label)],
    };
    let share =
        if of.is_difference() { String::new() } else { format!(", {} of all", share_text(row.weight, tree.root().weight)) };
    lines.push(format!("{}{share}", exact_value(of, row.value)));
    if row.self_value != row.value && row.self_value != 0 {
        lines.push(format!("{} where it is innermost", exact_value(of, row.self_value)));
    }
    let counted = matches!(of, FlameOf::Window { sum: WindowSum::Count, .. });
    if of.is_difference() {
        lines.push(format!("{}{} than before", blocks(i128::from(row.blocks)), if row.blocks < 0 { " fewer" } else { " more" }));
    } else if !counted {
        lines.push(blocks(i128::from(row.blocks)));
    }
    if 1 < row.ends {
        lines.push(format!("{} stacks", grouped(u64::from(row.ends))));
    }
    lines
}

/// What a flame graph counts, as a heading has it: `allocated by stack at event 35 572`.
pub fn heading(of: FlameOf) -> String {
    match of {
        FlameOf::Live { at, counter } => format!("{} by stack {}", counter.name(), moment(at)),
        FlameOf::Window { from, to, sum } => {
            let when = format!("from {} to {}", bare_moment(from), bare_moment(to));
            match sum {
                WindowSum::Allocated | WindowSum::Count => format!("newly allocated by stack {when}, whether freed since or not"),
                WindowSum::ByteEvents => format!("held by stack {when}: the size of each block times the events it was in use"),
            }
        }
        FlameOf::Difference { from, to, counter } => {
            format!("growth of {} by stack from {} to {}", counter.name(), bare_moment(from), bare_moment(to))
        }
        FlameOf::Set(which) => format!("{}, by stack", which_words(which)),
    }
}

/// Why there is nothing to see.
pub fn empty_sentence(of: FlameOf) -> String {
    match of {
        FlameOf::Live { at, counter } => format!("Nothing is {} {}.", counter.name(), moment(at)),
        FlameOf::Window { .. } => "Nothing was allocated in this window: choose a wider one.".to_owned(),
        FlameOf::Difference { .. } => "No stack holds more or less at one of the two moments than at the other.".to_owned(),
        FlameOf::Set(which) => format!("There is no block in this set: {}.", which_words(which)),
    }
}

fn moment(at: Position) -> String {
    at.event().map_or_else(|| "before the first event".to_owned(), |event| format!("at event {}", grouped(event.0.into())))
}
fn blocks(n: i128) -> String {
    let n = u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{} {}", grouped(n), if n == 1 { "block" } else { "blocks" })
}
const fn sign(value: i128) -> &'static str {
    if value < 0 {
        "−"
    } else if 0 < value {
        "+"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::LiveCounter;

    #[test]
    fn values_read_as_what_they_count() {
        let window = |sum| FlameOf::Window { from: Position(0), to: Position(9), sum };
        let live = FlameOf::Live { at: Position(3), counter: LiveCounter::Active };
        let difference = FlameOf::Difference { from: Position(0), to: Position(9), counter: LiveCounter::Allocated };
        for (of, value, short, exact) in [
            (live, 3 << 20, "3.00 MiB", "3.00 MiB (3 145 728 bytes)"),
            (live, 512, "512 bytes", "512 bytes"),
            (live, 0, "0 bytes", "0 bytes"),
            (difference, 3 << 20, "+3.00 MiB", "+3.00 MiB (+3 145 728 bytes)"),
            (difference, -(1 << 20), "−1.00 MiB", "−1.00 MiB (−1 048 576 bytes)"),
            (difference, -5, "−5 bytes", "−5 bytes"),
            (window(WindowSum::Count), 1, "1 block", "1 block"),
            (window(WindowSum::Count), 12_034, "12 034 blocks", "12 034 blocks"),
            (window(WindowSum::ByteEvents), 1 << 30, "1.00 GiB × events", "1.00 GiB × events (1 073 741 824 bytes × events)"),
        ] {
            assert_eq!((value_text(of, value).as_str(), exact_value(of, value).as_str()), (short, exact));
        }
        assert_eq!(heading(live), "active by stack at event 2");
        let anew = "newly allocated by stack from the start to event 8, whether freed since or not";
        assert_eq!([heading(window(WindowSum::Allocated)), heading(window(WindowSum::Count))], [anew, anew]);
        assert!(heading(window(WindowSum::ByteEvents)).starts_with("held by stack from the start to event 8: the size"));
        assert_eq!(heading(difference), "growth of allocated by stack from the start to event 8");
    }
}
