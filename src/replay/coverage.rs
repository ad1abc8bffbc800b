//! What a recording cannot tell, judged once from what its lives turned out to be.
//!
//! Each gap is a sentence with the figures, a cause, and where there is one, what to do next time.

use crate::base::grouped;
use crate::model::{AllocationFlags, AllocatorSettings, Coverage, DeviceMemory, Gap, Missing, Position, StackTable};
use crate::replay::lives::Findings;

/// Judges one device. `segments_known`: the file states the segments at the dump.
pub fn judge(
    memory: &DeviceMemory,
    stacks: &StackTable,
    settings: &AllocatorSettings,
    segments_known: bool,
    findings: &Findings,
) -> Coverage {
    let mut gaps = Vec::new();
    let mut gap = |missing, why: &str, sentence: String| gaps.push(Gap { missing, why: why.to_owned(), sentence });
    if !memory.is_used() {
        return Coverage::default();
    }
    let events = memory.trace.len();
    match events {
        0 => gap(
            Missing::History,
            "recording was off",
            "No history: recording was off, so only the state at the dump is known. Call \
             torch.cuda.memory._record_memory_history() before the part of interest."
                .to_owned(),
        ),
        1 => gap(
            Missing::History,
            "enabled='state' or an old default keeps one event",
            "No history: the recording keeps its latest event only (enabled=\"state\", or the default of PyTorch 2.0), so just \
             the state at the dump is known. Record with enabled=\"all\"."
                .to_owned(),
        ),
        _ => {
            let older = memory.allocations.born_by(Position::START) as u64;
            let segments = memory.segments.as_slice().iter().filter(|s| s.born == Position::START && !s.inferred).count() as u64;
            if 0 < older + segments {
                let (blocks, segments) = (counted(older, "block"), counted(segments, "segment"));
                if memory.start_stated {
                    gap(
                        Missing::Start,
                        "a window was cut from a longer recording",
                        format!(
                            "Starts mid-run: {blocks} and {segments} are older than the trace; the file states them as they were."
                        ),
                    );
                } else {
                    gap(
                        Missing::Start,
                        "recording began late, or its ring buffer was full and the oldest events were overwritten",
                        format!("Starts mid-run: {blocks} and {segments} are older than the trace."),
                    );
                }
            }
        }
    }
    if !segments_known {
        gap(
            Missing::End,
            "the file ends before its segments, or holds none",
            "The file does not state its segments at the dump: the end is what the events add up to.".to_owned(),
        );
    } else if 0 < findings.missing_at_end {
        gap(
            Missing::End,
            "the trace was cut at its end, frees were not recorded, or other threads went on during the dump",
            format!(
                "The trace does not lead to the file's segments: {} (or segments) live at its end are not in them. They are shown as live.",
                counted(findings.missing_at_end, "block")
            ),
        );
    }
    stack_gap(memory, stacks, &mut gap);
    if 0 < events && !memory.trace.has_times() {
        gap(Missing::Time, "PyTorch before 2.2 writes no times", "Events carry no time: only their order is known.".to_owned());
    }
    if 0 < findings.without_segment {
        gap(
            Missing::Segments,
            "segment events were left out of the recording, or the file was edited",
            format!(
                "{} lie in no known segment; they are shown, but reserved does not count them.",
                counted(findings.without_segment, "block")
            ),
        );
    }
    if 0 <= memory.ordinal {
        size_gap(memory, settings, findings, &mut gap);
        if !settings.stated {
            gap(
                Missing::Settings,
                "PyTorch before 2.3 writes no allocator settings, and a list of segments holds none",
                "The allocator's settings are not in the file.".to_owned(),
            );
        }
    }
    Coverage { gaps }
}

/// The gaps of a device, with what its source never tells: that comes first, and what was judged gives way to it. A
/// source that tells nothing of segments has no dump to lead to, and no settings that shape them.
pub fn with_untold(judged: Coverage, untold: Vec<Gap>) -> Coverage {
    if untold.is_empty() {
        return judged;
    }
    let told_of = |missing| untold.iter().any(|gap: &Gap| gap.missing == missing);
    let no_segments = told_of(Missing::Segments);
    let moot = |missing| no_segments && matches!(missing, Missing::End | Missing::Settings);
    let rest: Vec<Gap> = judged.gaps.into_iter().filter(|gap| !told_of(gap.missing) && !moot(gap.missing)).collect();
    Coverage { gaps: untold.into_iter().chain(rest).collect() }
}

fn stack_gap(memory: &DeviceMemory, stacks: &StackTable, gap: &mut dyn FnMut(Missing, &str, String)) {
    let lives = memory.allocations.len();
    let bare = memory.allocations.stacks().iter().filter(|stack| stacks.frames(**stack).is_empty()).count();
    if bare == 0 {
        return;
    }
    let share = bare as f64 * 100.0 / lives as f64;
    if bare == lives {
        gap(
            Missing::Stacks,
            "recorded with context=None, or not recorded",
            "No allocation has a stack: history was off or recorded without context.".to_owned(),
        );
        return;
    }
    let older = memory.allocations.born_by(Position::START);
    let older_bare = memory.allocations.stacks()[..older].iter().filter(|s| stacks.frames(**s).is_empty()).count();
    let why = if older_bare * 2 > bare {
        "blocks older than the recording have none"
    } else {
        "autograd's backward threads have no Python frames; C++ threads have none either"
    };
    gap(
        Missing::Stacks,
        why,
        format!("{share:.0} % of allocations ({} of {}) have no stack: {why}.", grouped(bare as u64), grouped(lives as u64)),
    );
}

fn size_gap(
    memory: &DeviceMemory,
    settings: &AllocatorSettings,
    findings: &Findings,
    gap: &mut dyn FnMut(Missing, &str, String),
) {
    let unstated =
        memory.allocations.ids().filter(|id| !memory.allocations.get(*id).flags.has(AllocationFlags::SIZE_STATED)).count() as u64;
    if !settings.stated && 0 < unstated {
        let by = match findings.roundup_guessed {
            0 => "the default rounding".to_owned(),
            divisions => format!("roundup_power2_divisions:{divisions}, which explains the blocks in the file,"),
        };
        gap(
            Missing::Sizes,
            "event sizes are requested sizes, and the settings that round them are not in the file",
            format!(
                "Block sizes of {} freed before the dump are inferred with {by}; allocated and active are exact only if that was in force.",
                counted(unstated, "block")
            ),
        );
    } else if 0 < findings.sizes_guessed {
        gap(
            Missing::Sizes,
            "blocks older than the trace and freed in it left only their requested size",
            format!(
                "Block sizes of {} older than the trace are inferred from their neighbours; allocated and active may be off by up to 1 MiB each.",
                counted(findings.sizes_guessed, "block")
            ),
        );
    }
}

/// A number with what it counts, none in words.
fn counted(n: u64, what: &str) -> String {
    if n == 0 { format!("no {what}s") } else { crate::base::counted(n, what) }
}
