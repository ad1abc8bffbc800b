//! `check`: a gate for CI. It says of each limit whether a recording keeps it, and fails where one does not.
//!
//! Always: limits are compared to the byte; what the file cannot tell is an error, never a pass. Every GPU that was used
//! is held to every limit, unless one device is named.

use crate::analysis::fragmentation::{WHOLE_PPM, external_ppm};
use crate::analysis::{LiveByStack, Peak, outside_spans};
use crate::base::{Bytes, grouped};
use crate::chart::text::telling_frame;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output};
use crate::model::{DeviceId, Missing, Position, Snapshot};
use crate::report::json::{self, CheckInfo, CheckNumber};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, value_parser};
use std::io::Write as _;
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "check", arguments, run };

/// The limits, in the order of the help and of the answers.
const LIMITS: &[Limit] = &[
    Limit { name: "max-peak", value: "SIZE", help: "Most allocated at any moment of the recording", of: peak_allocated },
    Limit { name: "max-reserved", value: "SIZE", help: "Most reserved at any moment of the recording", of: peak_reserved },
    Limit {
        name: "max-outside-steps",
        value: "SIZE",
        help: "Most allocated while no annotated span (record_function) is open",
        of: outside_steps,
    },
    Limit {
        name: "max-fragmentation",
        value: "PERCENT",
        help: "1 - largest free block / free memory, at the moment",
        of: fragmentation,
    },
    Limit { name: "min-largest-free", value: "SIZE", help: "Size of the largest free block, at the moment", of: largest_free },
];

/// One limit a user can set.
struct Limit {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    of: fn(&Subject<'_>, Bound) -> anyhow::Result<Verdict>,
}

/// What is allowed: bytes, or parts per million of a share.
#[derive(Clone, Copy)]
struct Bound(u64);

/// What is checked.
struct Subject<'a> {
    snapshot: &'a Snapshot,
    device: &'a Device<'a>,
    /// The moment of the limits that are about one.
    at: Position,
}

/// Whether a limit is kept, and the words for it.
struct Verdict {
    holds: bool,
    value: u64,
    at: Position,
    /// `peak allocated 6.57 GiB ≤ 7.00 GiB`.
    sentence: String,
    /// What else there is to know; may be empty.
    detail: String,
    is_share: bool,
}

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("A gate for CI: exit code 1 when a recording passes a limit, with the sentence why")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Snapshots"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print a JSON list, one object a limit"))
        .group(ArgGroup::new("limit").args(LIMITS.iter().map(|limit| limit.name)).multiple(true).required(true));
    let command = LIMITS.iter().fold(command, |command, limit| {
        let parse = if limit.value == "SIZE" { size } else { percent };
        let arg = Arg::new(limit.name).long(limit.name).value_name(limit.value).help(limit.help).help_heading("Limits");
        command.arg(arg.value_parser(parse))
    });
    moment::arguments(command).mut_arg("device", |device| device.help("Device number; left out: all GPUs that were used"))
}

fn size(text: &str) -> Result<u64, String> {
    Bytes::parse(text).map(|bytes| bytes.0).ok_or_else(|| "say a size: 80GiB, 512MiB, or a number of bytes".to_owned())
}

fn percent(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let share = number.filter(|percent| (0.0..=100.0).contains(percent));
    share.map(|percent| (percent * 10_000.0).round() as u64).ok_or_else(|| "say a share from 0 to 100: 30, or 12.5%".to_owned())
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let as_json = matches.get_flag("json");
    let bounds: Vec<(&Limit, Bound)> =
        LIMITS.iter().filter_map(|limit| Some((limit, Bound(*matches.get_one::<u64>(limit.name)?)))).collect();
    let (mut is_kept, mut is_complete) = (true, true);
    let mut checks = Vec::new();
    let mut out = output::answers();
    let mut give_up = |error: &anyhow::Error| {
        output::complain(error);
        is_complete = false;
    };
    for path in matches.get_many::<PathBuf>("files").into_iter().flatten() {
        let (snapshot, ids) = match opening::open(path).and_then(|snapshot| devices(snapshot, moment::device_of(matches))) {
            Ok(opened) => opened,
            Err(error) => {
                give_up(&error);
                continue;
            }
        };
        for id in ids {
            let device = Device::prepare(&snapshot, id)?;
            let (file, title) = (&snapshot.origin.name, device.memory.title());
            let at = match moment::of(matches).position(device.memory, &device.timeline) {
                Ok(at) => at,
                Err(error) => {
                    give_up(&anyhow::anyhow!("{error} ({file})"));
                    continue;
                }
            };
            let subject = Subject { snapshot: &snapshot, device: &device, at };
            for (limit, bound) in &bounds {
                let verdict = match (limit.of)(&subject, *bound) {
                    Ok(verdict) => verdict,
                    Err(error) => {
                        give_up(&anyhow::anyhow!("--{} cannot be checked on {title} of {file}: {error}", limit.name));
                        continue;
                    }
                };
                is_kept &= verdict.holds;
                let check = told(&subject, limit, *bound, &verdict);
                if as_json {
                    checks.push(check);
                } else {
                    let kept = if verdict.holds { "ok" } else { "failed" };
                    writeln!(out, "{kept}: {}, {title}: {}", output::one_line(file), output::one_line(&check.sentence))?;
                }
            }
        }
    }
    if as_json {
        json::write_checks(&checks, &mut out)?;
    }
    out.flush()?;
    // A gate that could not be looked at in full has not been passed, whatever else it says.
    Ok(match (is_complete, is_kept) {
        (false, _) => Outcome::Incomplete,
        (true, false) => Outcome::Failed,
        (true, true) => Outcome::Done,
    })
}

/// The devices that are checked: the one that was named, else all GPUs that were used.
fn devices(snapshot: Snapshot, ordinal: Option<i32>) -> anyhow::Result<(Snapshot, Vec<DeviceId>)> {
    let ids = match ordinal {
        Some(_) => vec![Device::pick(&snapshot, ordinal)?.id],
        None => snapshot.devices.iter().filter(|(_, memory)| memory.is_used() && 0 <= memory.ordinal).map(|(id, _)| id).collect(),
    };
    anyhow::ensure!(!ids.is_empty(), "no GPU was used in {}: there is nothing to check", snapshot.origin.name);
    Ok((snapshot, ids))
}

/// A verdict with the place and the stack that lead to it, where it does not hold.
fn told(subject: &Subject<'_>, limit: &Limit, bound: Bound, verdict: &Verdict) -> CheckInfo {
    let (memory, stacks) = (subject.device.memory, &subject.snapshot.stacks);
    let (mut sentence, mut remarks) = (verdict.sentence.clone(), Vec::new());
    if !verdict.detail.is_empty() {
        remarks.push(verdict.detail.clone());
    }
    let mut stack = Vec::new();
    if !verdict.holds {
        let state = subject.device.replay.state_at(memory, verdict.at);
        let live = LiveByStack::of(&state, &memory.allocations, stacks);
        let place = match verdict.at.event() {
            Some(event) => format!("after event {}", grouped(u64::from(event.0))),
            None if memory.trace.is_empty() => "as it was written".to_owned(),
            None => "before the first event".to_owned(),
        };
        sentence = format!("{sentence} {place}");
        if let Some(share) = live.shares.first() {
            let frame = telling_frame(stacks, share.stack).map(|(frame, _)| stacks.line(frame));
            let holder = frame.unwrap_or_else(|| "blocks without a stack".to_owned());
            remarks.push(format!("most is held there by {holder}: {}", Bytes(share.bytes)));
            stack = stacks.frames(share.stack).iter().map(|frame| stacks.line(*frame)).collect();
        }
    }
    if !remarks.is_empty() {
        sentence = format!("{sentence}; {}", remarks.join("; "));
    }
    let number =
        |value: u64| if verdict.is_share { CheckNumber::Percent(value as f64 / 10_000.0) } else { CheckNumber::Bytes(value) };
    CheckInfo {
        file: subject.snapshot.origin.name.clone(),
        device: memory.ordinal,
        limit: limit.name,
        bound: number(bound.0),
        value: number(verdict.value),
        holds: verdict.holds,
        event: verdict.at.event_number(),
        stack,
        sentence,
    }
}

fn peak_allocated(subject: &Subject<'_>, bound: Bound) -> anyhow::Result<Verdict> {
    peak(subject, "peak allocated", subject.device.timeline.allocated.peak(), bound)
}

fn peak_reserved(subject: &Subject<'_>, bound: Bound) -> anyhow::Result<Verdict> {
    peak(subject, "peak reserved", subject.device.timeline.reserved.peak(), bound)
}

/// A peak over the recording. Without a history the state at the dump can only prove that a limit is passed.
fn peak(subject: &Subject<'_>, what: &str, (at, bytes): (Position, u64), bound: Bound) -> anyhow::Result<Verdict> {
    let coverage = &subject.device.memory.coverage;
    let verdict = at_most(what, Peak { position: at, bytes }, bound);
    anyhow::ensure!(
        !verdict.holds || !coverage.lacks(Missing::History),
        "without a history only the state at the dump is known, no peak; record with torch.cuda.memory._record_memory_history()"
    );
    if verdict.holds && coverage.lacks(Missing::Start) {
        return Ok(Verdict { detail: "the recording starts mid-run, what came before is not in it".to_owned(), ..verdict });
    }
    Ok(verdict)
}

fn outside_steps(subject: &Subject<'_>, bound: Bound) -> anyhow::Result<Verdict> {
    let most = outside_spans(subject.device.memory, &subject.snapshot.stacks, &subject.device.timeline.allocated)?;
    Ok(at_most("allocated outside steps", most, bound))
}

fn at_most(what: &str, most: Peak, bound: Bound) -> Verdict {
    let holds = most.bytes <= bound.0;
    let sentence = compared(what, most.bytes, if holds { "≤" } else { ">" }, bound.0);
    Verdict { holds, value: most.bytes, at: most.position, sentence, detail: String::new(), is_share: false }
}

/// Two sizes side by side; exact ones where the short ones would read alike.
fn compared(what: &str, bytes: u64, sign: &str, bound: u64) -> String {
    let (short, limit) = (Bytes(bytes).to_string(), Bytes(bound).to_string());
    if short == limit && bytes != bound {
        return format!("{what} {} {sign} {}", Bytes(bytes).exact(), Bytes(bound).exact());
    }
    format!("{what} {short} {sign} {limit}")
}

fn fragmentation(subject: &Subject<'_>, bound: Bound) -> anyhow::Result<Verdict> {
    let state = subject.device.replay.state_at(subject.device.memory, subject.at);
    let (largest, free) = (state.largest_free_block, state.totals.free());
    let ppm = external_ppm(largest, free);
    let holds = ppm <= bound.0;
    let sign = if holds { "≤" } else { ">" };
    let percent = |ppm: u64| format!("{:.2} %", ppm as f64 * 100.0 / WHOLE_PPM as f64);
    let sentence = format!("fragmentation {} {sign} {}", percent(ppm), percent(bound.0));
    let detail = format!("{} free, the largest block of it {}", Bytes(free), Bytes(largest));
    Ok(Verdict { holds, value: ppm, at: subject.at, sentence, detail, is_share: true })
}

fn largest_free(subject: &Subject<'_>, bound: Bound) -> anyhow::Result<Verdict> {
    let largest = subject.device.replay.state_at(subject.device.memory, subject.at).largest_free_block;
    let holds = bound.0 <= largest;
    let sentence = compared("largest free block", largest, if holds { "≥" } else { "<" }, bound.0);
    Ok(Verdict { holds, value: largest, at: subject.at, sentence, detail: String::new(), is_share: false })
}
