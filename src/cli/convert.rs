//! `convert`: a snapshot, a window of it or one moment as a file for another tool.

use crate::analysis::{FlameDirection, FlameOf, FlameParams, FlameTree, LiveCounter, Moment};
use crate::base::{Cancelled, Progress};
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output};
use crate::format::export::place::{self, Packing};
use crate::format::export::{
    EXPORTERS, ExportError, ExportSubject, Exporter, export, exporter_of_file, exporter_of_name, redacted, table_names, title_of,
};
use crate::model::{DeviceId, Origin, Position, Snapshot};
use crate::replay::{Cut, recorded};
use crate::report::{FlameReport, FlameSubject, ReportError, ReportOptions, flame_of_extension, perfetto};
use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "convert", arguments, run };

/// A form that reports write, and the command line calls by another name or ending.
struct Drawn {
    name: &'static str,
    ending: &'static str,
    about: &'static str,
    form: Form,
}

/// Who writes a form.
#[derive(Clone, Copy)]
enum Form {
    /// An exporter: the recording itself.
    Recording(&'static dyn Exporter),
    /// A flame graph of one moment, by its extension.
    Flame(&'static str),
    /// Counters over time.
    Perfetto,
}

/// What is drawn from the recording: no other reader makes a recording of it again.
const DRAWN: &[Drawn] = &[
    Drawn {
        name: "folded",
        ending: "folded",
        about: "live bytes by stack, as flame graph tools read them",
        form: Form::Flame("folded"),
    },
    Drawn {
        name: "speedscope",
        ending: "speedscope.json",
        about: "live bytes by stack for speedscope.app",
        form: Form::Flame("json"),
    },
    Drawn { name: "pprof", ending: "pb.gz", about: "live bytes by stack for pprof", form: Form::Flame("pb.gz") },
    Drawn { name: "svg", ending: "svg", about: "live bytes by stack as a flame graph for browsers", form: Form::Flame("svg") },
    Drawn {
        name: "perfetto",
        ending: "perfetto.json",
        about: "counters, spans and marks over time for ui.perfetto.dev and chrome://tracing",
        form: Form::Perfetto,
    },
    Drawn { name: "chrome", ending: "chrome.json", about: "the same as perfetto", form: Form::Perfetto },
];

fn arguments(command: clap::Command) -> clap::Command {
    let when = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("WHEN")
            .value_parser(moment::of_word)
            .help(help)
            .help_heading("Part (WHEN is event:N, time-us:T, peak, peak-reserved, oom, oom:K, start or end)")
    };
    let names = EXPORTERS.iter().map(|exporter| exporter.name()).chain(DRAWN.iter().map(|drawn| drawn.name));
    command
        .about("Write a snapshot, a window of it or one moment for another tool")
        .after_help(kinds_help())
        .arg(Arg::new("file").value_name("IN").required(true).value_parser(value_parser!(PathBuf)).help("Snapshot"))
        .arg(
            Arg::new("out")
                .value_name("OUT")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Where to; its ending says what, a further .gz or .zst packs it"),
        )
        .arg(
            Arg::new("as")
                .long("as")
                .value_name("KIND")
                .value_parser(clap::builder::PossibleValuesParser::new(names))
                .help("What to write, whatever OUT is called")
                .hide_possible_values(true),
        )
        .arg(
            Arg::new("table")
                .long("table")
                .value_name("TABLE")
                .value_parser(clap::builder::PossibleValuesParser::new(table_names()))
                .help("Which table a .csv holds; left out: events"),
        )
        .arg(
            Arg::new("counter")
                .long("counter")
                .value_name("COUNTER")
                .value_parser(LiveCounter::ALL.map(LiveCounter::name))
                .help("Which bytes a graph of stacks counts; left out: allocated"),
        )
        .arg(Arg::new("redact").long("redact").action(ArgAction::SetTrue).help("Hide paths, names of functions, spans and notes"))
        .arg(when("from", "The window starts in this state; left out: at the start"))
        .arg(when("to", "The window ends in this state; left out: at the end"))
        .arg(
            when("at", "One moment alone, as a list of segments or as a window without events")
                .conflicts_with_all(["from", "to"]),
        )
        .arg(moment::device())
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let path = matches.get_one::<PathBuf>("file").context("no file was named")?;
    let out = matches.get_one::<PathBuf>("out").context("no place to write to was named")?;
    let (form, packing) = form_of(out, matches.get_one::<String>("as").map(String::as_str))?;
    if place::is_same(path, out) {
        bail!("{} is the file that is read: name another one to write", out.display());
    }
    let table = matches.get_one::<String>("table").map(String::as_str);
    if table.is_some() && !matches!(form, Form::Recording(exporter) if exporter.has_tables()) {
        bail!("only a .csv holds one table: leave --table out, or name OUT so");
    }
    if matches.contains_id("counter") && !matches!(form, Form::Flame(_)) {
        bail!("only a graph of stacks counts one kind of bytes: leave --counter out, or name OUT so");
    }
    let mut snapshot = opening::open(path)?;
    if matches.get_flag("redact") {
        snapshot = redacted(snapshot);
    }
    let at = matches.get_one::<Moment>("at").copied();
    let ordinal = moment::device_of(matches);
    if let Form::Flame(extension) = form {
        if matches.contains_id("from") || matches.contains_id("to") {
            bail!("a graph of stacks is about one moment: name it with --at");
        }
        let counter = matches.get_one::<String>("counter");
        let counter = LiveCounter::ALL.into_iter().find(|known| counter.is_some_and(|name| name == known.name()));
        let form = flame_of_extension(extension).context("this graph of stacks is not known")?;
        let work = |out: &mut (dyn Write + Send)| {
            flame(&snapshot, ordinal, at.unwrap_or_default(), counter.unwrap_or_default(), form, out)
        };
        put(out, packing, work)?;
        return Ok(Outcome::Done);
    }
    let window = [at.or(matches.get_one::<Moment>("from").copied()), at.or(matches.get_one::<Moment>("to").copied())];
    if window != [None, None] {
        snapshot = cut(snapshot, ordinal, window)?;
    } else if let Some(ordinal) = ordinal {
        snapshot = alone(snapshot, ordinal)?;
    }
    match form {
        Form::Recording(exporter) => {
            if let Some(lost) = exporter.leaves_out(&snapshot) {
                output::note(&lost);
            }
            record(exporter, packing, &snapshot, out, table, at.is_some() && exporter.has_moment())?;
        }
        Form::Perfetto => put(out, packing, |out| {
            opening::watched(|progress| perfetto::write(&snapshot, out, progress)).map_err(Trouble::from)
        })?,
        Form::Flame(_) => {}
    }
    Ok(Outcome::Done)
}

/// What the name of a file, or the user, asks for.
fn form_of(out: &Path, named: Option<&str>) -> anyhow::Result<(Form, Packing)> {
    let name = out.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (packing, plain) = Packing::of_name(&name);
    let ends = |name: &str, ending: &str| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
    let found = match named {
        Some(word) => exporter_of_name(word)
            .map(Form::Recording)
            .or_else(|| DRAWN.iter().find(|drawn| drawn.name == word).map(|drawn| drawn.form))
            .map(|form| (form, packing)),
        // A longer ending says more: `.speedscope.json` is no `.json`. One that holds its packing comes before it is cut off.
        None => DRAWN
            .iter()
            .find(|drawn| ends(&name, drawn.ending))
            .map(|drawn| (drawn.form, Packing::Plain))
            .or_else(|| DRAWN.iter().find(|drawn| ends(plain, drawn.ending)).map(|drawn| (drawn.form, packing)))
            .or_else(|| exporter_of_file(&name).map(|(exporter, packing)| (Form::Recording(exporter), packing))),
    };
    let Some((form, packing)) = found else {
        let endings = EXPORTERS.iter().map(|exporter| exporter.name()).chain(DRAWN.iter().map(|drawn| drawn.ending));
        let endings: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
        bail!(
            "{} does not say what to write: end its name in one of {}, or name it with --as",
            out.display(),
            endings.join(", ")
        );
    };
    // pprof is gzip inside already.
    let packing = if matches!(form, Form::Flame("pb.gz")) { Packing::Plain } else { packing };
    if packing != Packing::Plain && matches!(form, Form::Recording(exporter) if !exporter.parts().is_empty()) {
        bail!("{} is to be a folder, which is not packed: leave the last ending out", out.display());
    }
    Ok((form, packing))
}

/// The window between two moments of one device, on all devices.
fn cut(snapshot: Snapshot, ordinal: Option<i32>, [from, to]: [Option<Moment>; 2]) -> anyhow::Result<Snapshot> {
    let cuts = {
        let device = Device::pick(&snapshot, ordinal)?;
        let position = |moment: Moment| {
            moment.position(device.memory, &device.timeline).map_err(|error| anyhow!("{error} ({})", snapshot.origin.name))
        };
        let (from, to) = (position(from.unwrap_or(Moment::Start))?, position(to.unwrap_or(Moment::End))?);
        if to < from {
            bail!(
                "the window would end before it starts: --from is event {}, --to is event {}",
                from.event_number(),
                to.event_number()
            );
        }
        let cuts = Cut::on_all_devices(&snapshot, Cut { device: device.id, from, to });
        said_of_others(&snapshot, &cuts, device.id);
        cuts
    };
    window(&snapshot, &cuts)
}

/// One device alone.
fn alone(snapshot: Snapshot, ordinal: i32) -> anyhow::Result<Snapshot> {
    let device = Device::pick(&snapshot, Some(ordinal))?.id;
    window(&snapshot, &[Cut::whole(&snapshot, device)])
}

fn window(snapshot: &Snapshot, cuts: &[Cut]) -> anyhow::Result<Snapshot> {
    let origin: Origin = snapshot.origin.clone();
    let cut = opening::watched(|progress| recorded::window(snapshot, cuts, progress)?.finish(origin, progress))?;
    Ok(cut)
}

/// Says which devices the window leaves out, since nothing tells where it lies on them.
fn said_of_others(snapshot: &Snapshot, cuts: &[Cut], picked: DeviceId) {
    let left_out: Vec<String> = snapshot
        .devices
        .iter()
        .filter(|(id, memory)| *id != picked && memory.is_used() && !cuts.iter().any(|cut| cut.device == *id))
        .map(|(_, memory)| memory.title())
        .collect();
    if !left_out.is_empty() {
        let title = snapshot.devices[picked].title();
        output::note(&format!(
            "{} left out: without times nothing tells which of its events belong to the window of {title}",
            left_out.join(", ")
        ));
    }
}

/// Writes a recording, as one file or as a folder.
fn record(
    exporter: &'static dyn Exporter,
    packing: Packing,
    snapshot: &Snapshot,
    out: &Path,
    table: Option<&str>,
    moment: bool,
) -> anyhow::Result<()> {
    let title = title_of(out);
    let subject = ExportSubject { snapshot, title: &title, table };
    let written = opening::watched(|progress| export(exporter, packing, &subject, out, moment, progress));
    said(out, written.map_err(Trouble::from))
}

/// Writes the live bytes by stack at a moment.
fn flame(
    snapshot: &Snapshot,
    ordinal: Option<i32>,
    at: Moment,
    counter: LiveCounter,
    form: &dyn FlameReport,
    out: &mut (dyn Write + Send),
) -> Result<(), Trouble> {
    let device = Device::pick(snapshot, ordinal).map_err(Trouble::Said)?;
    let at = at.position(device.memory, &device.timeline).map_err(|error| Trouble::Said(error.into()))?;
    let position: Position = at;
    let params =
        FlameParams { of: FlameOf::Live { at: position, counter }, direction: FlameDirection::TopDown, fold_framework: false };
    let tree = FlameTree::of(device.memory, &device.replay, &snapshot.stacks, &params, &Progress::new())?;
    let subject = FlameSubject { snapshot, device: &device.memory.title(), tree: &tree };
    form.write(&subject, &ReportOptions::default(), out)?;
    Ok(())
}

/// Why nothing was written.
enum Trouble {
    Io(io::Error),
    Said(anyhow::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}
impl From<Cancelled> for Trouble {
    fn from(error: Cancelled) -> Trouble {
        Trouble::Said(error.into())
    }
}
impl From<ExportError> for Trouble {
    fn from(error: ExportError) -> Trouble {
        match error {
            ExportError::Io(error) => Trouble::Io(error),
            error => Trouble::Said(error.into()),
        }
    }
}
impl From<ReportError> for Trouble {
    fn from(error: ReportError) -> Trouble {
        match error {
            ReportError::Io(error) => Trouble::Io(error),
            error => Trouble::Said(error.into()),
        }
    }
}

/// Writes one file in its place.
fn put(out: &Path, packing: Packing, work: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Trouble>) -> anyhow::Result<()> {
    let written = place::write_beside(out, Trouble::Io, |file| place::packed(file, packing, work));
    said(out, written)
}

fn said(out: &Path, written: Result<(), Trouble>) -> anyhow::Result<()> {
    match written {
        Ok(()) => {
            output::note(&format!("wrote {}", out.display()));
            Ok(())
        }
        Err(Trouble::Io(error)) => Err(anyhow!("{} cannot be written: {error}", out.display())),
        Err(Trouble::Said(error)) => Err(error),
    }
}

fn kinds_help() -> String {
    let mut text = String::from("Kinds, by the ending of OUT:\n");
    let recordings = EXPORTERS.iter().map(|exporter| (exporter.name(), exporter.about()));
    for (ending, about) in recordings.chain(DRAWN.iter().map(|drawn| (drawn.ending, drawn.about))) {
        text.push_str(&format!("  {:<18}{about}\n", format!(".{ending}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_to_write() {
        for (name, word, wanted) in [
            ("a.pickle", None, Some(("pickle", Packing::Plain))),
            ("a.PICKLE.gz", None, Some(("pickle", Packing::Gzip))),
            ("a.json.zst", None, Some(("json", Packing::Zstd))),
            ("a.speedscope.json", None, Some(("flame json", Packing::Plain))),
            ("a.perfetto.json.gz", None, Some(("perfetto", Packing::Gzip))),
            ("a.chrome.json", None, Some(("perfetto", Packing::Plain))),
            ("a.pb.gz", None, Some(("flame pb.gz", Packing::Plain))),
            ("a.parquet", None, Some(("parquet", Packing::Plain))),
            ("a.parquet.gz", None, None),
            ("a.txt", None, None),
            ("a.txt", Some("trace"), Some(("trace", Packing::Plain))),
            ("a.gz", Some("csv"), Some(("csv", Packing::Gzip))),
            ("a.json", Some("speedscope"), Some(("flame json", Packing::Plain))),
            ("json", None, None),
        ] {
            let found = form_of(Path::new(name), word).ok().map(|(form, packing)| {
                let form = match form {
                    Form::Recording(exporter) => exporter.name().to_owned(),
                    Form::Flame(extension) => format!("flame {extension}"),
                    Form::Perfetto => "perfetto".to_owned(),
                };
                (form, packing)
            });
            assert_eq!(found, wanted.map(|(form, packing)| (form.to_owned(), packing)), "{name} {word:?}");
        }
    }
}
