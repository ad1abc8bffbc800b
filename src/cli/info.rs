//! `info`: what is in a file, in figures.

use crate::analysis::{Counters, MemorySummary, Moment, Peak, Summary};
use crate::base::{Bytes, Progress, counted, grouped};
use crate::cli::at::moment_sentence;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::table::{Align, Table};
use crate::cli::{moment, output, ranks};
use crate::model::{AllocatorSettings, DeviceId, DeviceMemory, Snapshot, Warnings};
use crate::report::json::{self, FileInfo};
use crate::report::memory_summary;
use crate::simulator::contiguous::KvCompared;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "info", arguments, run };

/// More failures than this are counted only, in the text for people.
const OOMS_SHOWN: usize = 20;

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("What is in it: per device the counters at start, peaks and end, failures, coverage, warnings")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Snapshots, folders of them, and names with * and ?; many files are one table, the odd ones first"),
        )
        .arg(
            Arg::new("ranks")
                .long("ranks")
                .action(ArgAction::SetTrue)
                .conflicts_with("summary")
                .help("One table of all files, as of a folder: which rank is the odd one, and why"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print a JSON list, one object a file"))
        .arg(
            Arg::new("summary")
                .long("summary")
                .value_name("WHEN")
                .num_args(0..=1)
                .require_equals(true)
                .value_parser(moment::of_word)
                .help("PyTorch's memory_summary() at a moment: --summary=peak, or with a flag of those below"),
        );
    moment::arguments(command)
        .mut_group("moment", |group| group.requires("summary"))
        .mut_arg("device", |device| device.requires("summary").help("Device number; left out: all that were used"))
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let as_json = matches.get_flag("json");
    let mut outcome = Outcome::Done;
    let mut infos = Vec::new();
    let mut out = output::answers();
    let mut first = true;
    let (paths, summary_at) = asked_for(matches)?;
    let (paths, together) = ranks::named(paths)?;
    if matches.get_flag("ranks") || (together && summary_at.is_none()) {
        return ranks::print(paths, as_json);
    }
    for path in &paths {
        let snapshot = match opening::open(path) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                output::complain(&error);
                outcome = Outcome::Incomplete;
                continue;
            }
        };
        let mut summaries = Vec::with_capacity(snapshot.devices.len());
        let mut tables = Vec::new();
        if let Some(moment) = summary_at {
            match memory_summaries(&snapshot, moment, moment::device_of(matches)) {
                Ok(found) => tables = found,
                Err(error) => {
                    output::complain(&error);
                    outcome = Outcome::Incomplete;
                    continue;
                }
            }
        }
        if as_json || summary_at.is_none() {
            for id in snapshot.devices.ids() {
                summaries.push(Device::prepare(&snapshot, id)?.summary(&snapshot)?);
            }
        }
        let caches = kv_caches(&snapshot)?;
        if as_json {
            infos.push(FileInfo::of(&snapshot, &summaries).with_memory_summaries(&tables).with_kv_caches(&caches));
        } else {
            let gap = if first { "" } else { "\n" };
            let told = if summary_at.is_some() { summary_text(&snapshot, &tables) } else { text(&snapshot, &summaries, &caches) };
            write!(out, "{gap}{told}")?;
            out.flush()?;
        }
        first = false;
    }
    if as_json {
        json::write_info(&infos, &mut out)?;
    }
    out.flush()?;
    Ok(outcome)
}

/// What the KV caches of a file held, one a device.
fn kv_caches(snapshot: &Snapshot) -> anyhow::Result<Vec<Option<KvCompared>>> {
    let compared = |memory| opening::watched(|progress| KvCompared::of(memory, progress));
    Ok(snapshot.devices.as_slice().iter().map(compared).collect::<Result<_, _>>()?)
}

/// The files, and the moment of `--summary` where it was asked for. Its word may stand behind a blank too: then it reads
/// like a file, which it is only where there is one of that name.
fn asked_for(matches: &ArgMatches) -> anyhow::Result<(Vec<&PathBuf>, Option<Moment>)> {
    let mut paths: Vec<&PathBuf> = matches.get_many::<PathBuf>("files").into_iter().flatten().collect();
    if !matches.contains_id("summary") {
        return Ok((paths, None));
    }
    let mut words: Vec<Moment> = matches.get_one::<Moment>("summary").copied().into_iter().collect();
    paths.retain(|path| match path.to_str().map(moment::of_word) {
        Some(Ok(word)) if !path.exists() => {
            words.push(word);
            false
        }
        _ => true,
    });
    let by_flag = moment::of(matches);
    if by_flag != Moment::Telling {
        words.push(by_flag);
    }
    anyhow::ensure!(!paths.is_empty(), "no file was named, only a moment");
    anyhow::ensure!(words.len() < 2, "more than one moment was named: `--summary` shows one");
    Ok((paths, Some(words.first().copied().unwrap_or_default())))
}

/// PyTorch's counters of the GPUs that were used, or of the one that was named.
fn memory_summaries(snapshot: &Snapshot, moment: Moment, ordinal: Option<i32>) -> anyhow::Result<Vec<MemorySummary>> {
    let mut found = Vec::new();
    let ids: Vec<DeviceId> = match ordinal {
        Some(_) => vec![Device::pick(snapshot, ordinal)?.id],
        None => snapshot.devices.iter().filter(|(_, memory)| memory.is_used() && 0 <= memory.ordinal).map(|(id, _)| id).collect(),
    };
    for id in ids {
        let device = Device::prepare(snapshot, id)?;
        anyhow::ensure!(
            0 <= device.memory.ordinal,
            "PyTorch's memory_summary() does not count pinned host memory: name a GPU with --device"
        );
        let position = moment
            .position(device.memory, &device.timeline)
            .map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))?;
        found.push(MemorySummary::of(snapshot, device.memory, &device.replay, position, &Progress::new())?);
    }
    Ok(found)
}

/// PyTorch's tables of one file.
fn summary_text(snapshot: &Snapshot, summaries: &[MemorySummary]) -> String {
    let name = output::one_line(&snapshot.origin.name);
    if summaries.is_empty() {
        return format!("{name}: no GPU was used, so there is nothing to sum up\n");
    }
    let mut text = String::new();
    for summary in summaries {
        let memory = snapshot.device_of_ordinal(summary.device).map(|id| &snapshot.devices[id]);
        let moment = memory.map_or_else(String::new, |memory| moment_sentence(memory, summary.position));
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{name}: device {} {moment}", summary.device);
        text.push_str(&memory_summary::text(summary));
        for note in memory_summary::notes(summary) {
            let _ = writeln!(text, "{note}");
        }
    }
    text
}

/// One file for people. Writing into a text cannot fail, so results of `write!` are dropped here.
fn text(snapshot: &Snapshot, summaries: &[Summary], caches: &[Option<KvCompared>]) -> String {
    let mut text = String::new();
    text.push_str(&head(snapshot));
    let devices = || snapshot.devices.as_slice().iter().zip(summaries);
    for ((memory, summary), cache) in devices().zip(caches).filter(|((memory, _), _)| memory.is_used()) {
        text.push('\n');
        text.push_str(&device(memory, summary));
        if let Some(compared) = cache {
            text.push_str(&kv_cache(compared, memory));
        }
    }
    let idle: Vec<String> = devices().filter(|(memory, _)| !memory.is_used()).map(|(memory, _)| memory.title()).collect();
    if !idle.is_empty() {
        let _ = writeln!(text, "\nidle, without events or segments: {}", idle.join(", "));
    } else if snapshot.devices.is_empty() {
        text.push_str("\nno device: nothing was allocated when this was written\n");
    }
    if !snapshot.warnings.is_empty() {
        text.push_str("\nwarnings\n");
        for (kind, count, first) in snapshot.warnings.iter() {
            let message = output::one_line(&Warnings::message(kind, count, first));
            let _ = writeln!(text, "  {}: {message}", kind.severity().name().replace('_', " "));
        }
    }
    text
}

/// File, origin and settings.
pub fn head(snapshot: &Snapshot) -> String {
    let origin = &snapshot.origin;
    let written_by = match &origin.written_by {
        Some(range) => match &range.at_most {
            Some(at_most) if *at_most == range.at_least => format!(", written by PyTorch {at_most}"),
            Some(at_most) => format!(", written by PyTorch {} to {at_most}", range.at_least),
            None => format!(", written by PyTorch {} or later", range.at_least),
        },
        None => String::new(),
    };
    // Other tools' files have no settings of PyTorch's allocator.
    let foreign = snapshot.devices.as_slice().iter().any(|memory| !memory.tells_segments());
    let settings = if foreign { String::new() } else { format!("\n  {}", settings(&snapshot.settings)) };
    format!("{}\n  {}, {}{written_by}{settings}\n", output::one_line(&origin.name), origin.format, Bytes(origin.bytes).exact())
}

fn settings(settings: &AllocatorSettings) -> String {
    if !settings.conf.is_empty() {
        format!("PYTORCH_CUDA_ALLOC_CONF={}", output::one_line(&settings.conf))
    } else if let Some((_, allocator)) = settings.other.iter().find(|(key, _)| key == "allocator") {
        // No PyTorch: what serves the program is told in words.
        format!("allocator: {}", output::one_line(allocator))
    } else if settings.stated {
        "allocator settings: PyTorch's defaults".to_owned()
    } else {
        "allocator settings: not in the file (PyTorch writes them since 2.3)".to_owned()
    }
}

fn device(memory: &DeviceMemory, summary: &Summary) -> String {
    let mut text = String::new();
    let span = summary.time_us.map_or(String::new(), |(first, last)| format!(" in {}", seconds(last.saturating_sub(first))));
    let _ = writeln!(text, "{}: {}{span}", memory.title(), counted(summary.events, "event"));
    if 0 < summary.events {
        let actions: Vec<String> = summary.events_by_action.iter().map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
        let _ = writeln!(text, "  {}", output::one_line(&actions.join(", ")));
    }
    let mut lives = vec![
        counted(summary.allocations, "allocation"),
        format!("{} older than the trace", grouped(summary.born_before)),
        format!("{} without a stack", grouped(summary.without_stack)),
    ];
    if 0 < summary.unmatched_frees {
        lives.push(format!("{} freed that the trace never saw allocated", grouped(summary.unmatched_frees)));
    }
    let _ = writeln!(text, "  {}", lives.join(", "));
    text.push('\n');
    text.push_str(&counters_table(memory, summary).lines(2));
    if !summary.ooms.is_empty() {
        text.push('\n');
    }
    for oom in summary.ooms.iter().take(OOMS_SHOWN) {
        let _ = writeln!(
            text,
            "  out of memory at event {}: {} wanted, {} left on the device; {} allocated of {} reserved, largest free block {}",
            grouped(u64::from(oom.event.0)),
            Bytes(oom.requested).exact(),
            Bytes(oom.device_free).exact(),
            Bytes(oom.state.totals.allocated),
            Bytes(oom.state.totals.reserved),
            Bytes(oom.state.largest_free_block)
        );
    }
    if OOMS_SHOWN < summary.ooms.len() {
        let _ = writeln!(text, "  … and {} more", counted((summary.ooms.len() - OOMS_SHOWN) as u64, "out-of-memory event"));
    }
    text.push_str(&coverage(memory));
    text
}

/// The figures of a KV cache; the moment is the end.
fn kv_cache(compared: &KvCompared, memory: &DeviceMemory) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    for row in crate::report::kv::rows(compared, memory.end()) {
        let name = if row.name == "held at the cursor" { "held at the end" } else { row.name };
        table.row([name.to_owned(), row.text]);
    }
    format!("\n{}", table.lines(2))
}

/// Whether a counter is known: of segments that nothing tells of there are no sums.
pub fn is_known(memory: &DeviceMemory, name: &str) -> bool {
    let of_segments = matches!(name, "reserved" | "free" | "inactive split" | "largest free block" | "segments");
    memory.tells_segments() || !of_segments
}

fn counters_table(memory: &DeviceMemory, summary: &Summary) -> Table {
    let (start, end) = (&summary.start, &summary.end);
    if summary.events == 0 {
        let mut table = Table::new(&[Align::Left, Align::Right]);
        for (name, value) in counter_rows(end).into_iter().filter(|(name, _)| is_known(memory, name)) {
            table.row([name.to_owned(), value]);
        }
        return table;
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["", "start", "peak", "at event", "end"]);
    let peaks = [summary.peak_reserved, summary.peak_allocated, summary.peak_active, summary.peak_requested];
    let peaks = peaks.into_iter().map(Some).chain(std::iter::repeat(None));
    let rows = counter_rows(start).into_iter().zip(counter_rows(end)).zip(peaks);
    for (((name, start), (_, end)), peak) in rows.filter(|(((name, _), _), _)| is_known(memory, name)) {
        let (most, at) =
            peak.map_or_else(Default::default, |peak: Peak| (Bytes(peak.bytes).exact(), event(peak.position.event_number())));
        table.row([name.to_owned(), start, most, at, end]);
    }
    table
}

/// The counters of a state by name, sizes with their exact bytes; the first four are those that have peaks.
pub fn counter_rows(counters: &Counters) -> [(&'static str, String); 10] {
    let totals = counters.totals;
    [
        ("reserved", Bytes(totals.reserved).exact()),
        ("allocated", Bytes(totals.allocated).exact()),
        ("active", Bytes(totals.active).exact()),
        ("requested", Bytes(totals.requested).exact()),
        ("pending free", Bytes(totals.pending_free()).exact()),
        ("free", Bytes(totals.free()).exact()),
        ("inactive split", Bytes(counters.inactive_split).exact()),
        ("largest free block", Bytes(counters.largest_free_block).exact()),
        ("segments", grouped(counters.segments)),
        ("active blocks", grouped(counters.blocks)),
    ]
}

/// What the recording cannot tell, one sentence a line; empty where it tells all.
pub fn coverage(memory: &DeviceMemory) -> String {
    let mut text = String::new();
    if !memory.coverage.gaps.is_empty() {
        text.push('\n');
    }
    for gap in &memory.coverage.gaps {
        let _ = writeln!(text, "  {}", output::one_line(&gap.sentence));
    }
    text
}

/// An event number as JSON has it: −1 before the first.
pub fn event(number: i64) -> String {
    u64::try_from(number).map_or_else(|_| number.to_string(), grouped)
}

fn seconds(us: i64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}
