//! How sets of blocks, their groups and their lives read in tables, headings and files.
//!
//! Always: what has no name is told in words ("no annotation"), never by an empty cell; a set's words name its very
//! moments.

use crate::analysis::{BlockLife, BlockRow, BlockTable, GroupKey, Which};
use crate::base::{Bytes, StringId, grouped};
use crate::chart::ink::{pool_name, stream_name};
use crate::chart::text::{file_name, short_path, telling_frame};
use crate::model::{DeviceMemory, Position, Snapshot, StackId, StackTable};

/// What a set is, with its moments: `born from event 10 to event 90 and freed by then`.
pub fn which_words(which: Which) -> String {
    let span = |from, to| format!("from {} to {}", bare_moment(from), bare_moment(to));
    match which {
        Which::Live { at } => format!("allocated at {}", bare_moment(at)),
        Which::Born { from, to } => format!("born {}", span(from, to)),
        Which::BornAndFreed { from, to } => format!("born {} and freed by then", span(from, to)),
        Which::Grown { from, to } => format!("born {} and still allocated then", span(from, to)),
        Which::Kept { from, to } => format!("allocated at {} and still at {}", bare_moment(from), bare_moment(to)),
        Which::Gone { from, to } => format!("allocated at {} and freed by {}", bare_moment(from), bare_moment(to)),
        Which::Lasting { from, to, at } => format!("born {} and still allocated at {}", span(from, to), bare_moment(at)),
    }
}

/// A moment inside a sentence: `event 35 572`, or `the start`.
pub fn bare_moment(at: Position) -> String {
    at.event().map_or_else(|| "the start".to_owned(), |event| format!("event {}", grouped(event.0.into())))
}

/// The frame that names a stack, in one line: `forward  mlp.py:41`.
pub fn telling_line(stacks: &StackTable, stack: StackId) -> Option<String> {
    let (frame, _) = telling_frame(stacks, stack)?;
    Some(format!("{}  {}", stacks.function(frame), place_of(file_name(stacks.file(frame)), stacks.frame(frame).line)))
}

/// Where a frame is: file and line; what is no file of a program has no line.
pub fn place_of(file: &str, line: i64) -> String {
    if line == 0 && !file.contains(['.', '/', '?']) { file.to_owned() } else { format!("{file}:{line}") }
}

/// What stands where a stack would.
pub const fn no_stack(stack: StackId) -> &'static str {
    if stack.0 == StackId::ABSENT.0 { "no stack was kept" } else { "no Python stack" }
}

/// What the blocks of a row have in common.
pub fn key_name(snapshot: &Snapshot, memory: &DeviceMemory, table: &BlockTable, row: &BlockRow) -> String {
    let stacks = &snapshot.stacks;
    let text = |id: Option<StringId>, none: &str| id.map_or_else(|| none.to_owned(), |id| stacks.strings.get(id).to_owned());
    match row.key {
        GroupKey::Stack(stack) => telling_line(stacks, stack).unwrap_or_else(|| no_stack(stack).to_owned()),
        GroupKey::Block(id) => memory.allocations.get(id).label(),
        GroupKey::Size(size) => Bytes(size).to_string(),
        GroupKey::Stream(stream) => stream_name(snapshot, stream),
        GroupKey::Pool(Some((pool, class))) => format!("{}, {}", pool_name(snapshot, pool), class.name()),
        GroupKey::Pool(None) => "in no known segment".to_owned(),
        GroupKey::Function(name) => text(name, no_stack(row.stack)),
        GroupKey::File(Some(name)) => match stacks.strings.get(name) {
            "" | "??" => "in no known file".to_owned(),
            file => short_path(file, 60),
        },
        GroupKey::File(None) => no_stack(row.stack).to_owned(),
        GroupKey::Module(module) => match module.and_then(|row| table.modules.get(row as usize)) {
            Some(name) => name.clone(),
            None if stacks.frames(row.stack).is_empty() => no_stack(row.stack).to_owned(),
            None => "in no known file".to_owned(),
        },
        GroupKey::Category(Some(category)) => table.params.categories.name(category).to_owned(),
        GroupKey::Category(None) => no_stack(row.stack).to_owned(),
        GroupKey::Annotation(name) => text(name, "no annotation"),
        GroupKey::CompileContext(name) => text(name, "no compile context"),
        GroupKey::UserMetadata(name) => text(name, "no user metadata"),
    }
}

/// A life in events: `1 234`, `more than 1 234` where the trace holds only a part of it.
pub fn life_words(life: BlockLife) -> String {
    let events = grouped(life.events.into());
    if life.whole { events } else { format!("over {events}") }
}

/// A length of time: `350 µs`, `1.25 ms`, `3.10 s`.
pub fn duration_words(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{:.1} min", us as f64 / 6e7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_lives_read_as_what_they_are() {
        let (from, to, at) = (Position::START, Position(1_235), Position(2_000));
        for (which, words) in [
            (Which::Live { at: to }, "allocated at event 1 234"),
            (Which::Born { from, to }, "born from the start to event 1 234"),
            (Which::BornAndFreed { from, to }, "born from the start to event 1 234 and freed by then"),
            (Which::Grown { from, to }, "born from the start to event 1 234 and still allocated then"),
            (Which::Kept { from, to }, "allocated at the start and still at event 1 234"),
            (Which::Gone { from, to }, "allocated at the start and freed by event 1 234"),
            (Which::Lasting { from, to, at }, "born from the start to event 1 234 and still allocated at event 1 999"),
        ] {
            assert_eq!(which_words(which), words);
        }
        let life = |whole| BlockLife { events: 1_234, whole, time_us: None };
        assert_eq!((life_words(life(true)).as_str(), life_words(life(false)).as_str()), ("1 234", "over 1 234"));
        for (us, words) in [(0, "0 µs"), (999, "999 µs"), (1_250, "1.25 ms"), (3_100_000, "3.10 s"), (90_000_000, "1.5 min")] {
            assert_eq!(duration_words(us), words);
        }
    }
}
