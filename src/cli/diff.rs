//! `diff`: two files, or one file at two moments, matched by stack and size.

use crate::analysis::Moment;
use crate::base::{Bytes, counted};
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::table::{Align, Table};
use crate::cli::{moment, output, picture, report};
use crate::model::Snapshot;
use crate::replay::Replay;
use crate::report::diff_model::{Compared, ComparedSide, DiffModel, RowInfo, class_name, difference};
use crate::report::{DIFFS, ReportOptions, diff_of_extension};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// The subcommand.
pub const COMMAND: Command = Command { name: "diff", arguments, run };

/// Rows of each list that are written out for people.
const ROWS_SHOWN: usize = 15;

fn arguments(command: clap::Command) -> clap::Command {
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
    };
    let when = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("WHEN").value_parser(moment::of_word).help(help)
    };
    let device = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("D").allow_negative_numbers(true).value_parser(value_parser!(i32)).help(help)
    };
    let command = command
        .about("Two files, or one file at two moments: what came, what went, what is more fragmented")
        .arg(file("first", "A", "Snapshot to compare with").required(true))
        .arg(file("second", "B", "Snapshot in question; left out: A at another moment"))
        .arg(when(
            "a",
            "The moment of A: event:N, time-us:T, peak, peak-reserved, oom, oom:K, start, end; left out: the peak of each file",
        ))
        .arg(when("b", "The moment of B"))
        .arg(device("device", "Device number in both; left out: the one with the most events in each"))
        .arg(device("device-b", "Device number in B, where it is another one"))
        .arg(
            Arg::new("ignore-lines")
                .long("ignore-lines")
                .action(ArgAction::SetTrue)
                .help("Match frames by function and file alone: lines move from one version of a program to the next"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as one JSON object"))
        .arg(output::place(&kinds()).required(false))
        .arg(Arg::new("note").long("note").value_name("TEXT").help("A note below the verdict of a page"));
    picture::arguments(command, "Size of a picture in points; it is as high as it needs")
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let first = matches.get_one::<PathBuf>("first").context("no file was named")?;
    let second = matches.get_one::<PathBuf>("second");
    let [when_a, when_b] = ["a", "b"].map(|name| matches.get_one::<Moment>(name).copied());
    if second.is_none() && when_a == when_b {
        bail!("one file is compared with itself at another moment: name both with --a WHEN and --b WHEN, or name a second file");
    }
    let out = matches.get_one::<PathBuf>("out");
    let form =
        match out {
            Some(out) => {
                let extension = out.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
                let form = diff_of_extension(&extension);
                Some(form.with_context(|| {
                    format!("no comparison is called {}: its ending must be one of {}", out.display(), kinds())
                })?)
            }
            None => None,
        };
    let snapshot_a = opening::open(first)?;
    let opened = second.map(|second| opening::open(second)).transpose()?;
    let snapshot_b = opened.as_ref().unwrap_or(&snapshot_a);
    let ordinal = moment::device_of(matches);
    let a = Device::pick(&snapshot_a, ordinal)?;
    let b = Device::pick(snapshot_b, matches.get_one::<i32>("device-b").copied().or(ordinal))?;
    let at = |device: &Device<'_>, snapshot: &Snapshot, when: Option<Moment>| {
        let position = when.unwrap_or(Moment::Peak).position(device.memory, &device.timeline);
        position.map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))
    };
    let (at_a, at_b) = (at(&a, &snapshot_a, when_a)?, at(&b, snapshot_b, when_b)?);
    let replays_a: Vec<Replay> = snapshot_a.devices.as_slice().iter().map(Replay::new).collect();
    let laid: Option<Vec<Replay>> = opened.as_ref().map(|b| b.devices.as_slice().iter().map(Replay::new).collect());
    let replays_b = laid.as_ref().unwrap_or(&replays_a);
    let a = ComparedSide { snapshot: &snapshot_a, replays: &replays_a, device: a.id, at: at_a, curves: &a.timeline };
    let b = ComparedSide { snapshot: snapshot_b, replays: replays_b, device: b.id, at: at_b, curves: &b.timeline };
    let compared = opening::watched(|progress| Compared::of(a, b, matches.get_flag("ignore-lines"), progress))?;
    let options = options_of(matches);
    if let (Some(out), Some(form)) = (out, form) {
        let bytes = opening::watched(|progress| form.file(&compared, &options, progress))?;
        std::fs::write(out, bytes).map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", out.display()))?;
        output::note(&format!("wrote {}", out.display()));
        if !matches.get_flag("json") {
            return Ok(Outcome::Done);
        }
    }
    let model = DiffModel::of(&compared, &options);
    let mut answers = output::answers();
    if matches.get_flag("json") {
        model.write(&mut answers)?;
    } else {
        answers.write_all(text(&model, &compared).as_bytes())?;
    }
    answers.flush()?;
    Ok(Outcome::Done)
}

fn options_of(matches: &ArgMatches) -> ReportOptions {
    let mut options = picture::options(matches, ReportOptions::paper());
    options.written_us = report::now_us();
    options.follow_reader = matches.get_one::<String>("theme").is_none();
    if let Some(note) = matches.get_one::<String>("note") {
        options.note = note.clone();
    }
    options
}

fn kinds() -> String {
    let kinds: Vec<String> = DIFFS.iter().map(|form| format!(".{} ({})", form.extension(), form.name())).collect();
    kinds.join(", ")
}

/// The comparison for people. Writing into a text cannot fail, so results of `write!` are dropped here.
fn text(model: &DiffModel, compared: &Compared<'_>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "A  {}", output::one_line(&model.a.words));
    let _ = writeln!(text, "B  {}\n", output::one_line(&model.b.words));
    for sentence in &model.verdict {
        let _ = writeln!(text, "{}", output::one_line(sentence));
    }
    if let Some(hint) = model.hint {
        let _ = writeln!(text, "{hint} (--ignore-lines)");
    }
    text.push('\n');
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["", "A", "B", "B − A"]);
    for row in DiffModel::figure_rows(&compared.diff) {
        table.row(row);
    }
    text.push_str(&table.lines(2));
    for (name, rows) in model.lists() {
        list(&mut text, name, rows);
    }
    if let Some(same) = model.same() {
        let _ = writeln!(text, "\n{same}");
    }
    if !model.settings.is_empty() {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
        table.row(["", "A", "B"]);
        for row in &model.settings {
            table.row([&row.name, &row.a, &row.b].map(|text| output::one_line(text)));
        }
        let _ = write!(text, "\nsettings that differ\n{}", table.lines(2));
    }
    if !model.pools.is_empty() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
        table.row(["", "reserved A", "B", "B − A", "largest free A", "B"]);
        for row in &model.pools {
            let [a, b] = [row.a, row.b].map(Option::unwrap_or_default);
            let size = |bytes: u64| Bytes(bytes).to_string();
            table.row([
                row.name(),
                size(a.reserved),
                size(b.reserved),
                difference(a.reserved, b.reserved, true),
                size(a.largest_free_block),
                size(b.largest_free_block),
            ]);
        }
        let _ = write!(text, "\npools\n{}", table.lines(2));
    }
    for (name, rows) in [("gaps", &model.gaps), ("segments", &model.segments)] {
        if rows.is_empty() {
            continue;
        }
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
        table.row(["", "A", "B", "bytes in A", "in B"]);
        for row in rows {
            let (count_a, count_b) = (crate::base::grouped(row.count_a), crate::base::grouped(row.count_b));
            let (bytes_a, bytes_b) = (Bytes(row.bytes_a).to_string(), Bytes(row.bytes_b).to_string());
            table.row([class_name(row.from), count_a, count_b, bytes_a, bytes_b]);
        }
        let _ = write!(text, "\n{name} by size\n{}", table.lines(2));
    }
    text
}

fn list(text: &mut String, name: &str, rows: &[RowInfo]) {
    if rows.is_empty() {
        return;
    }
    let sum: i128 = rows.iter().map(RowInfo::delta).sum();
    let of = counted(rows.len() as u64, "stack");
    let _ = writeln!(text, "\n{name}: {of}, {}", crate::analysis::diff_words::signed(sum));
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    for row in rows.iter().take(ROWS_SHOWN) {
        let blocks = crate::analysis::diff_words::signed_count(row.count_delta());
        let place = output::one_line(&format!("{}  {}", row.place, row.callers));
        table.row([
            crate::analysis::diff_words::signed(row.delta()),
            Bytes(row.bytes_a).to_string(),
            Bytes(row.bytes_b).to_string(),
            format!("{blocks} blocks"),
            place,
        ]);
    }
    text.push_str(&table.lines(2));
    let further = &rows[rows.len().min(ROWS_SHOWN)..];
    if !further.is_empty() {
        let sum: i128 = further.iter().map(RowInfo::delta).sum();
        let of = counted(further.len() as u64, "further stack");
        let _ = writeln!(text, "  {of}, {}; --json lists all", crate::analysis::diff_words::signed(sum));
    }
}
