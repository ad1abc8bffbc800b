//! `why`: why did it run out of memory; where it did not, what holds the memory at its peak.

use crate::analysis::diagnosis::{Accounting, Card, Case, Diagnosis, DiagnosisParams, Finding, MOST_CASES, OomMessage};
use crate::analysis::{Asked, Subject};
use crate::base::{Bytes, grouped};
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::output;
use crate::cli::table::{Align, Table};
use crate::model::{DeviceId, Snapshot};
use crate::replay::Replay;
use crate::report::{what_if, why_json};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "why", arguments, run };

/// Width to which sentences are wrapped, in letters.
const WIDTH: usize = 100;
/// Frames of a stack that are written out for people, innermost first.
const FRAMES_SHOWN: usize = 2;

fn arguments(command: clap::Command) -> clap::Command {
    command
        .about("Why did it run out of memory: the verdict, where every byte is, findings with their evidence")
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as one JSON list, one object a failure"))
        .args(card_arguments())
        .arg(
            crate::cli::moment::device()
                .help("Device number; left out: all that have a failure, else the one with the most events"),
        )
}

/// `--log` and `--capacity`, as all take them that look for causes.
pub fn card_arguments() -> [Arg; 2] {
    [
        Arg::new("log")
            .long("log")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Log with PyTorch's out-of-memory message: it tells the card's size and who else held memory"),
        Arg::new("capacity").long("capacity").value_name("SIZE").value_parser(size).help("The card's memory: 80GiB, 24576MiB"),
    ]
}

/// A size in the user's words, in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    match Bytes::parse(text) {
        Some(Bytes(bytes)) if 0 < bytes => Ok(bytes),
        _ => Err("a size is written 80GiB, 512MiB, or in bytes".to_owned()),
    }
}

/// What the arguments tell of the card.
pub fn params_of(matches: &ArgMatches) -> anyhow::Result<DiagnosisParams> {
    let mut params = DiagnosisParams::default();
    if let Some(path) = matches.get_one::<PathBuf>("log") {
        params.messages = messages(path)?.into();
    }
    params.card = Card { total: matches.get_one::<u64>("capacity").copied(), fraction_ppm: None };
    Ok(params)
}

/// The largest log that is read, in bytes.
const LARGEST_LOG: u64 = 256 << 20;

fn messages(path: &Path) -> anyhow::Result<Vec<OomMessage>> {
    let shown = path.display();
    let length = std::fs::metadata(path).map_err(|error| anyhow::anyhow!("the log {shown} cannot be read: {error}"))?.len();
    if LARGEST_LOG < length {
        bail!("the log {shown} holds {}; cut it to the part around the error ({} are read)", Bytes(length), Bytes(LARGEST_LOG));
    }
    let bytes = std::fs::read(path).map_err(|error| anyhow::anyhow!("the log {shown} cannot be read: {error}"))?;
    let found = OomMessage::all_of(&String::from_utf8_lossy(&bytes));
    if found.is_empty() {
        output::note(&format!("no out-of-memory message of PyTorch stands in {shown}; going on without it"));
    }
    Ok(found)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let params = params_of(matches)?;
    let snapshot = opening::open(path)?;
    let found = diagnose(&snapshot, crate::cli::moment::device_of(matches), &params)?;
    let cases: Vec<(DeviceId, &Case)> = found.iter().flat_map(|(id, d)| d.cases.iter().map(|case| (*id, case))).collect();
    let mut out = output::answers();
    if matches.get_flag("json") {
        let rows: Vec<(i32, &Case)> = cases.iter().map(|(id, case)| (snapshot.devices[*id].ordinal, *case)).collect();
        why_json::write_why(&snapshot, &rows, &mut out)?;
    } else {
        if cases.is_empty() {
            writeln!(out, "{}: nothing was allocated when it was written", output::one_line(&snapshot.origin.name))?;
        }
        for (place, (id, diagnosis)) in found.iter().enumerate() {
            if 0 < place {
                writeln!(out)?;
            }
            // Those before the last ones have a verdict and no findings: a line for all of them.
            let (earlier, last) = diagnosis.cases.split_at(diagnosis.cases.len().saturating_sub(MOST_CASES));
            if !earlier.is_empty() {
                writeln!(out, "{}\n", earlier_line(&snapshot, *id, earlier))?;
            }
            for (place, case) in last.iter().enumerate() {
                if 0 < place {
                    writeln!(out)?;
                }
                out.write_all(text(&snapshot, *id, case).as_bytes())?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The cases of the device asked for; left open, of all devices with a failure, else of the one with most events.
fn diagnose(snapshot: &Snapshot, ordinal: Option<i32>, params: &DiagnosisParams) -> anyhow::Result<Vec<(DeviceId, Diagnosis)>> {
    let failed: Vec<DeviceId> =
        snapshot.devices.iter().filter(|(_, memory)| !memory.trace.ooms().is_empty()).map(|(id, _)| id).collect();
    let ids = match (ordinal, failed.is_empty()) {
        (Some(_), _) => vec![Device::pick(snapshot, ordinal)?.id],
        (None, false) => failed,
        (None, true) => match snapshot.busiest_device() {
            Some(_) => vec![Device::pick(snapshot, None)?.id],
            None => Vec::new(),
        },
    };
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let subject = Subject { snapshot, replays: &replays };
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let asked = Asked { subject, baseline: None, device: id };
        let known = opening::watched(|progress| what_if::with_tried(&asked, params, progress))?;
        found.push((id, opening::answer::<Diagnosis>(&asked, &known)?));
    }
    Ok(found)
}

/// One case for people. Writing into a text cannot fail, so results of `write!` are dropped here.
fn text(snapshot: &Snapshot, id: DeviceId, case: &Case) -> String {
    let memory = &snapshot.devices[id];
    let mut text = String::new();
    let what = match &case.request {
        Some(request) => {
            format!("event {}: {} could not be allocated", grouped(u64::from(request.event.0)), request.words())
        }
        None if !memory.has_history() => "no failure; as it was written".to_owned(),
        None => format!("no failure; at the peak, event {}", grouped(u64::try_from(case.at.event_number()).unwrap_or(0))),
    };
    let _ = writeln!(text, "{}: {}, {what}\n", output::one_line(&snapshot.origin.name), memory.title());
    text.push_str(&wrapped(&case.sentence, 0));
    text.push_str("\nwhere every byte is\n");
    text.push_str(&account(&case.accounting).lines(2));
    if !case.findings.is_empty() {
        text.push_str("\nfindings\n");
    }
    for finding in &case.findings {
        text.push_str(&finding_text(snapshot, finding));
    }
    text
}

/// The verdicts of failures that are not written out.
fn earlier_line(snapshot: &Snapshot, id: DeviceId, cases: &[Case]) -> String {
    let mut verdicts: BTreeMap<&str, u64> = BTreeMap::new();
    for case in cases {
        *verdicts.entry(case.verdict.name()).or_default() += 1;
    }
    let verdicts: Vec<String> = verdicts.iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    let word = if cases.len() == 1 { "failure" } else { "failures" };
    format!(
        "{}: {}, {} {word} before the last {MOST_CASES}, which follow ({}); --json lists all",
        output::one_line(&snapshot.origin.name),
        snapshot.devices[id].title(),
        grouped(cases.len() as u64),
        verdicts.join(", "),
    )
}

fn account(accounting: &Accounting) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    let within = accounting.within().max(1);
    for (name, bytes) in accounting.parts() {
        let name = name.replace('_', " ");
        match bytes {
            Some(bytes) => table.row([
                name,
                Bytes(bytes).to_string(),
                format!("{:.1} %", bytes as f64 * 100.0 / within as f64),
                format!("{} bytes", grouped(bytes)),
            ]),
            None => table.row([name, "unknown".to_owned()]),
        }
    }
    match accounting.capacity {
        Some(capacity) => {
            table.row(["card".to_owned(), Bytes(capacity).to_string(), String::new(), format!("{} bytes", grouped(capacity))])
        }
        None => table.row(["card", "unknown"]),
    }
    table
}

fn finding_text(snapshot: &Snapshot, finding: &Finding) -> String {
    let mut text = format!("  {} · {}\n", finding.severity.name(), finding.rule);
    text.push_str(&wrapped(&output::one_line(&finding.sentence), 6));
    for row in &finding.stacks {
        let frames = snapshot.stacks.frames(row.stack);
        let shown = crate::analysis::framework::own_frames(&snapshot.stacks, row.stack, FRAMES_SHOWN);
        let shown = if shown.is_empty() { frames.iter().take(FRAMES_SHOWN).copied().collect() } else { shown };
        let names: Vec<String> = shown.iter().map(|frame| output::one_line(&snapshot.stacks.line(*frame))).collect();
        let names = if names.is_empty() { "(no stack)".to_owned() } else { names.join(" < ") };
        let blocks = if row.count == 1 { "1 block".to_owned() } else { format!("{} blocks", grouped(row.count)) };
        let _ = writeln!(text, "      {:>10}  {blocks:>12}  {names}", Bytes(row.bytes).to_string());
    }
    if !finding.suggestion.is_empty() {
        text.push_str(&wrapped(&format!("Try: {}", finding.suggestion), 6));
    }
    if finding.certainty != crate::analysis::diagnosis::Certainty::Certain {
        text.push_str(&wrapped(&format!("{}: {}", sure(finding), finding.because), 6));
    }
    text
}

fn sure(finding: &Finding) -> &'static str {
    match finding.certainty {
        crate::analysis::diagnosis::Certainty::Possible => "Possible",
        crate::analysis::diagnosis::Certainty::Likely => "Likely",
        crate::analysis::diagnosis::Certainty::Certain => "Certain",
    }
}

/// A text in lines of at most [`WIDTH`] letters, each behind `indent` spaces.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && WIDTH < indent + line.chars().count() + 1 + word.chars().count() {
            let _ = writeln!(lines, "{}{line}", " ".repeat(indent));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(lines, "{}{line}", " ".repeat(indent));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_wrap_between_words() {
        let word = "x".repeat(40);
        for (text, lines) in
            [(String::new(), 0), ("a b".to_owned(), 1), (format!("{word} {word} {word}"), 2), ("y".repeat(300), 1)]
        {
            assert_eq!(wrapped(&text, 2).lines().count(), lines, "{text}");
            assert_eq!(wrapped(&text, 2).split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
