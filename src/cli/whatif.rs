//! `whatif`: the recording's requests served again under other settings or on another card.

use crate::analysis::{Asked, Releases, Subject};
use crate::base::{Bytes, grouped};
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::output;
use crate::cli::table::{Align, Table};
use crate::model::{AllocatorSettings, Missing, Origin, Snapshot};
use crate::report::whatif_json::{ChangeNote, ScenarioRow, write_whatif};
use crate::simulator::{Fidelity, Recorded, RequestStream, Scenario, TieBreak, capacity_told, conf, placement_range, simulate};
use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

mod change_args;
mod words;

/// The subcommand.
pub const COMMAND: Command = Command { name: "whatif", arguments, run };

/// Cards come in whole units of this.
const CARD_UNIT: u64 = 1 << 30;

fn arguments(command: clap::Command) -> clap::Command {
    let command = change_args::arguments(command);
    let size = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("SIZE").value_parser(crate::cli::why::size).help(help)
    };
    command
        .about("What if: the job's requests served again under other allocator settings or on another card")
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(
            Arg::new("set").long("set").value_name("K:V,…").action(ArgAction::Append).help(
                "A scenario: its whole PYTORCH_CUDA_ALLOC_CONF. Give it several times to compare; left out: the recorded one",
            ),
        )
        .arg(
            Arg::new("recorded")
                .long("recorded")
                .value_name("K:V,…")
                .help("What the recording ran with where the file does not say, and its card: max_split_size_mb:128,total:80GiB"),
        )
        .arg(size("capacity", "The card's memory: 80GiB, 24576MiB; left out: what the recording tells, else without end"))
        .arg(size("outside", "What others hold of the card: the driver's contexts, other processes"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as one JSON list, one object a scenario"))
        .arg(crate::cli::moment::device())
}

/// What the recording ran with: the file, then `--recorded`.
fn recorded(snapshot: &Snapshot, matches: &ArgMatches) -> anyhow::Result<Recorded> {
    let mut recorded = Recorded { settings: snapshot.settings.clone(), total: None };
    let Some(text) = matches.get_one::<String>("recorded") else { return Ok(recorded) };
    let (totals, rest): (Vec<&str>, Vec<&str>) = conf::pairs(text).into_iter().partition(|pair| pair.starts_with("total:"));
    for total in totals {
        let size = total.trim_start_matches("total:");
        recorded.total = Some(crate::cli::why::size(size).map_err(|error| anyhow!("--recorded {total}: {error}"))?);
    }
    conf::read(&mut recorded.settings, &rest.join(","), &snapshot.origin).map_err(|error| anyhow!("--recorded: {error}"))?;
    Ok(recorded)
}

/// The settings of each scenario, with the words the user gave.
fn scenarios(recorded: &Recorded, origin: &Origin, matches: &ArgMatches) -> anyhow::Result<Vec<(String, AllocatorSettings)>> {
    let Some(given) = matches.get_many::<String>("set") else {
        return Ok(vec![(recorded.settings.conf.clone(), recorded.settings.clone())]);
    };
    given
        .map(|text| {
            // A fraction is set by the program too: it stays unless the scenario says another.
            let per_process_memory_fraction = recorded.settings.per_process_memory_fraction;
            let mut settings =
                AllocatorSettings { conf: text.clone(), per_process_memory_fraction, ..AllocatorSettings::default() };
            conf::read(&mut settings, text, origin).map_err(|error| anyhow!("--set {text}: {error}"))?;
            Ok((text.clone(), settings))
        })
        .collect()
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let snapshot = opening::open(path)?;
    let mut recorded = recorded(&snapshot, matches)?;
    let scenarios = scenarios(&recorded, &snapshot.origin, matches)?;
    let device = Device::pick(&snapshot, crate::cli::moment::device_of(matches))?;
    let (memory, file) = (device.memory, output::one_line(&snapshot.origin.name));
    if memory.ordinal < 0 {
        bail!("{} of {file} is served by another allocator; name a GPU with --device", memory.title());
    }
    if !memory.has_history() {
        bail!("{file} holds no history of {}: there are no requests to serve again", memory.title());
    }
    let replays: Vec<_> = snapshot.devices.as_slice().iter().map(crate::replay::Replay::new).collect();
    let subject = Subject { snapshot: &snapshot, replays: &replays };
    let releases = opening::answer::<Releases>(&Asked { subject, baseline: None, device: device.id }, &())?;
    let caches: Vec<_> = releases.empty_caches().map(|run| run.events.clone()).collect();
    let mut asked = RequestStream::of(&snapshot, device.id, &caches);
    let told = capacity_told(memory, &device.replay);
    recorded.total = recorded.total.or(told.and_then(|told| told.checked_next_multiple_of(CARD_UNIT)));
    let fidelity =
        opening::watched(|progress| Fidelity::of(&snapshot, device.id, &device.replay, &mut asked, &recorded, progress))?
            .context("the release that wrote the file is not known")?;
    let changed = change_args::changed(matches, &snapshot, &device, &asked)?;
    let asked = changed.as_ref().map_or(asked, |changed| changed.asked.clone());
    let outside = match (matches.get_one::<u64>("outside"), recorded.total, told) {
        (Some(outside), ..) => *outside,
        (None, Some(total), Some(told)) => total.saturating_sub(told),
        _ => 0,
    };
    let total = matches.get_one::<u64>("capacity").copied().or(recorded.total);
    let mut rows = Vec::with_capacity(scenarios.len());
    for (settings, chosen) in scenarios {
        let capacity = total.map(|total| total.saturating_sub(outside));
        let scenario = Scenario { capacity, total, ..Scenario::new(chosen, fidelity.rules) };
        let outcome = opening::watched(|progress| simulate(&asked, &scenario, progress))?;
        let range = opening::watched(|progress| placement_range(&asked, &scenario, progress))?;
        let change = changed.as_ref().map(ChangeNote::of);
        rows.push(ScenarioRow { settings, capacity: total, outcome, range, change });
    }
    let mut out = output::answers();
    if matches.get_flag("json") {
        write_whatif(&rows, &fidelity, &mut out)?;
    } else {
        out.write_all(text(&file, &device, &rows, &fidelity, outside).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The scenarios for people. Writing into a text cannot fail, so results of `write!` are dropped here.
fn text(file: &str, device: &Device<'_>, rows: &[ScenarioRow], fidelity: &Fidelity, outside: u64) -> String {
    let mut text = String::new();
    let card = match rows.first().and_then(|row| row.capacity) {
        Some(total) if 0 < outside => format!("a card of {}, {} of it held by others", Bytes(total), Bytes(outside)),
        Some(total) => format!("a card of {}", Bytes(total)),
        None => "a card without end".to_owned(),
    };
    let _ = writeln!(text, "{file}, {}: its requests on {card}\n", device.memory.title());
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    table.row(["settings", "reserved", "allocated", "segments", "retries", "driver gave", "took back", "ends"]);
    for row in rows {
        let counters = &row.outcome.counters;
        let range = row.range.as_ref();
        let end = words::end(&row.outcome, range);
        let name = if row.settings.is_empty() { "PyTorch's defaults".to_owned() } else { output::one_line(&row.settings) };
        table.row([
            name,
            words::bytes(counters.reserved.peak, range.map(|range| &range.reserved)),
            words::bytes(counters.allocated.peak, range.map(|range| &range.allocated)),
            words::count(counters.segments.peak, range.map(|range| &range.segments)),
            words::count(counters.retries, range.map(|range| &range.retries)),
            words::count(counters.device_allocs, range.map(|range| &range.device_allocs)),
            words::count(counters.device_frees, range.map(|range| &range.device_frees)),
            end,
        ]);
    }
    text.push_str(&table.lines(2));
    let _ = writeln!(
        text,
        "\nWith the recorded settings {} of {} allocations lie where they lay.",
        grouped(fidelity.placed_as_recorded),
        grouped(fidelity.allocations)
    );
    if let Some(event) = fidelity.first_divergence {
        let _ = writeln!(
            text,
            "From event {} on the model went another way: settings the file does not hold (--recorded) may be why.",
            grouped(u64::from(event.0))
        );
    }
    if fidelity.rules.tie == TieBreak::Address {
        text.push_str(
            "Up to PyTorch 2.11 the addresses of new segments decide: ranges are over the places a driver could give them.\n",
        );
    }
    if device.memory.coverage.lacks(Missing::Start) {
        text.push_str(
            "The recording begins mid-run: every row begins with the segments and blocks that were there, at their addresses, \
             whatever its settings, and counts from there on.\n",
        );
    }
    match rows.first().and_then(|row| row.change.as_ref()) {
        Some(change) => {
            let _ = writeln!(
                text,
                "The job is changed: {} ({}). {}",
                output::one_line(&change.what),
                change.bound,
                output::one_line(&change.assumption)
            );
        }
        None => text.push_str("Sizes, streams, order and pools of the requests stay as recorded.\n"),
    }
    text
}
