//! `report`: the post-mortem on paper, of one file or of many with an overview.
//!
//! Always: a page is written whole or not at all; of many files a bad one is said and the others are written.

use crate::analysis::Moment;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output, picture, ranks, why};
use crate::model::{Position, Snapshot};
use crate::replay::Replay;
use crate::report::overview::{OverviewRow, overview_of};
use crate::report::{
    PageModel, Pages, REPORTS, Report, ReportOptions, ReportSubject, Section, Sections, page_path, report_of_extension,
};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, value_parser};
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "report", arguments, run };

/// Stands in OUT for the name of each file.
const NAME: &str = "{}";

fn arguments(command: clap::Command) -> clap::Command {
    const PAGE: &str = "Page";
    let command = command
        .about("The post-mortem on paper: verdict, where every byte is, pictures, findings, who holds the memory")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Snapshots and folders of them; * and ? in a name are filled in"),
        )
        .arg(output::place(&kinds()).help(format!(
            "Where to; its ending says what: {}. For several files a folder, or a name with {NAME} for each one's own: \
             out/{NAME}.md; an overview is written beside them",
            kinds()
        )))
        .args(why::card_arguments())
        .arg(
            Arg::new("sections")
                .long("sections")
                .value_name("A,B,…")
                .value_delimiter(',')
                .value_parser(section)
                .help_heading(PAGE)
                .help(format!("What stands on it; left out: all of {}", section_names())),
        )
        .arg(Arg::new("note").long("note").value_name("TEXT").help_heading(PAGE).help("A note below the verdict"))
        .arg(
            Arg::new("window")
                .long("window")
                .value_name("FROM..TO")
                .value_parser(window)
                .conflicts_with_all(["from", "to"])
                .help_heading(PAGE)
                .help("What pictures over time show: events (1000..5000), or moments (start..oom, event:10..peak)"),
        )
        .arg(moment_argument(
            "from",
            "Where pictures over time begin: event:N, time-us:T, peak, peak-reserved, oom, oom:K, start, end",
        ))
        .arg(moment_argument("to", "Where pictures over time end"))
        .arg(
            Arg::new("pages")
                .long("pages")
                .value_name("SIZE")
                .value_parser([Pages::Tall, Pages::A4, Pages::Wide].map(Pages::name))
                .help_heading(PAGE)
                .help("Cuts a picture into pages: OUT-1.png, OUT-2.png, …"),
        );
    let command = picture::arguments(command, "Size of a picture in points; it grows if it needs more");
    moment::arguments(command)
}

fn moment_argument(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("WHEN").value_parser(moment::of_word).help_heading("Page").help(help)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let named: Vec<&PathBuf> = matches.get_many::<PathBuf>("files").into_iter().flatten().collect();
    let (files, _) = ranks::named(named)?;
    let out = matches.get_one::<PathBuf>("out").context("no place to write to was named: add -o OUT")?;
    let place = Place::of(out, files.len())?;
    let wanted = Wanted {
        device: moment::device_of(matches),
        moment: moment::of(matches),
        window: window_of(matches),
        options: options_of(matches)?,
    };
    if wanted.options.pages != Pages::Tall && !place.kind.has_pages() {
        bail!("only a picture is cut into pages: leave --pages out, or let OUT end in .png");
    }
    if let Some(folder) = &place.folder {
        std::fs::create_dir_all(folder).map_err(|error| anyhow::anyhow!("{} cannot be made: {error}", folder.display()))?;
    }
    if let ([file], Names::One(out)) = (&files[..], &place.names) {
        write_one(file, &wanted, place.kind, out)?;
        return Ok(Outcome::Done);
    }
    write_many(&files, &wanted, &place)
}

/// What is wanted of every file.
struct Wanted {
    device: Option<i32>,
    moment: Moment,
    window: Option<(Moment, Moment)>,
    options: ReportOptions,
}

fn options_of(matches: &ArgMatches) -> anyhow::Result<ReportOptions> {
    let mut options = picture::options(matches, ReportOptions::paper());
    (options.known, options.written_us) = (why::params_of(matches)?, now_us());
    // Who names a theme wants it, whatever the reader has.
    options.follow_reader = matches.get_one::<String>("theme").is_none();
    if let Some(named) = matches.get_many::<Section>("sections") {
        options.sections = named.fold(Sections::NONE, |sections, section| sections.with(*section, true));
    }
    if let Some(note) = matches.get_one::<String>("note") {
        options.note = note.clone();
    }
    let pages = matches.get_one::<String>("pages");
    let named = |name: &String| [Pages::A4, Pages::Wide].into_iter().find(|pages| pages.name() == name);
    options.pages = pages.and_then(named).unwrap_or_default();
    Ok(options)
}

/// Now, in Unix µs; the time that reproducible builds set, where they do.
pub fn now_us() -> Option<i64> {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse::<i64>().ok());
    if let Some(seconds) = fixed {
        return seconds.checked_mul(1_000_000);
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

fn window_of(matches: &ArgMatches) -> Option<(Moment, Moment)> {
    if let Some(window) = matches.get_one::<(Moment, Moment)>("window") {
        return Some(*window);
    }
    let (from, to) = (matches.get_one::<Moment>("from"), matches.get_one::<Moment>("to"));
    (from.is_some() || to.is_some()).then(|| (from.copied().unwrap_or(Moment::Start), to.copied().unwrap_or(Moment::End)))
}

/// Where pages go.
struct Place {
    kind: &'static dyn Report,
    /// A folder that must be there.
    folder: Option<PathBuf>,
    names: Names,
}

enum Names {
    /// One file.
    One(PathBuf),
    /// Before and after each file's own name.
    Each(String, String),
}

impl Place {
    fn of(out: &Path, files: usize) -> anyhow::Result<Place> {
        let extension = |name: &Path| name.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
        let unknown = || {
            let hint = if files == 1 { "" } else { ", or it a folder" };
            anyhow::anyhow!("no report is called {}: its ending must be one of {}{hint}", out.display(), kinds())
        };
        let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some((before, after)) = name.split_once(NAME) {
            let kind = report_of_extension(&extension(out)).ok_or_else(unknown)?;
            let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
            return Ok(Place { kind, folder, names: Names::Each(before.to_owned(), after.to_owned()) });
        }
        let ends_as_folder = out.as_os_str().to_string_lossy().ends_with(['/', std::path::MAIN_SEPARATOR]);
        if out.is_dir() || ends_as_folder || (1 < files && extension(out).is_empty()) {
            let kind = report_of_extension("html").ok_or_else(unknown)?;
            return Ok(Place { kind, folder: Some(out.to_owned()), names: Names::Each(String::new(), ".html".to_owned()) });
        }
        let kind = report_of_extension(&extension(out)).ok_or_else(unknown)?;
        if files != 1 {
            bail!(
                "{} is the name of one file, {files} snapshots were named: name a folder, or put {NAME} where each one's name goes",
                out.display()
            );
        }
        Ok(Place { kind, folder: None, names: Names::One(out.to_owned()) })
    }
    /// A name in the folder.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }
}

/// A page each, and an overview where there are several.
fn write_many(files: &[PathBuf], wanted: &Wanted, place: &Place) -> anyhow::Result<Outcome> {
    let Names::Each(before, after) = &place.names else { bail!("no place for several pages was named") };
    let (ending, overview) = overview_of(place.kind.extension());
    let overview_name = format!("index.{ending}");
    let mut taken = vec![overview_name.clone()];
    let mut rows = Vec::new();
    let mut outcome = Outcome::Done;
    for file in files {
        let stem = stem_of(file);
        let number = (1..).map(|n| if n == 1 { String::new() } else { format!("-{n}") });
        let name = number.map(|number| format!("{before}{stem}{number}{after}")).find(|name| !taken.contains(name));
        let name = name.unwrap_or_default();
        taken.push(name.clone());
        let first = numbered(Path::new(&name), wanted.options.pages != Pages::Tall, 1);
        match write_one(file, wanted, place.kind, &place.path(&name)) {
            Ok(model) => rows.push(OverviewRow::of(&model, first.to_string_lossy().into_owned())),
            Err(error) => {
                output::complain(&error);
                rows.push(OverviewRow::failed(file.to_string_lossy().into_owned(), output::one_line(&error.to_string())));
                outcome = Outcome::Incomplete;
            }
        }
    }
    if 1 < files.len() {
        let path = place.path(&overview_name);
        put(&path, overview(&rows, &wanted.options).as_bytes())?;
        output::note(&format!("wrote {}", path.display()));
    }
    Ok(outcome)
}

/// Writes the report of one file at a moment, whole or not at all.
pub fn write(file: &Path, device: Option<i32>, moment: Moment, out: &Path, options: &ReportOptions) -> anyhow::Result<()> {
    let place = Place::of(out, 1)?;
    let Names::One(out) = &place.names else { bail!("{} is a folder: name a file in it", out.display()) };
    let wanted = Wanted { device, moment, window: None, options: ReportOptions { written_us: now_us(), ..options.clone() } };
    write_one(file, &wanted, place.kind, out)?;
    Ok(())
}

/// Writes the report of a snapshot that is no file, at its last failure, else at its peak.
pub fn write_snapshot(snapshot: &Snapshot, out: &Path) -> anyhow::Result<()> {
    let place = Place::of(out, 1)?;
    let Names::One(out) = &place.names else { bail!("{} is a folder: name a file in it", out.display()) };
    let options = ReportOptions { written_us: now_us(), ..ReportOptions::paper() };
    let wanted = Wanted { device: None, moment: Moment::default(), window: None, options };
    print(snapshot, &wanted, place.kind, out)?;
    Ok(())
}

fn write_one(file: &Path, wanted: &Wanted, kind: &dyn Report, out: &Path) -> anyhow::Result<PageModel> {
    print(&opening::open(file)?, wanted, kind, out)
}

fn print(snapshot: &Snapshot, wanted: &Wanted, kind: &dyn Report, out: &Path) -> anyhow::Result<PageModel> {
    let device = Device::pick(snapshot, wanted.device)?;
    let at = |moment: Moment| -> anyhow::Result<Position> {
        moment.position(device.memory, &device.timeline).map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))
    };
    let position = at(wanted.moment)?;
    let mut options = wanted.options.clone();
    if let Some((from, to)) = wanted.window {
        let (from, to) = (at(from)?, at(to)?);
        if to == from {
            bail!("the window of {} is empty: both its moments are the same", snapshot.origin.name);
        }
        if to < from {
            bail!("the window of {} ends before it begins: name the earlier moment first", snapshot.origin.name);
        }
        options.window = Some(from..to);
    }
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let subject = ReportSubject { snapshot, replays: &replays, device: device.id, position };
    let printed = opening::watched(|progress| kind.files(&subject, &options, progress))?;
    for (number, bytes) in printed.files.iter().enumerate() {
        let path = numbered(out, options.pages != Pages::Tall, number + 1);
        put(&path, bytes)?;
        output::note(&format!("wrote {}", path.display()));
    }
    Ok(printed.model)
}

fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", path.display()))
}

/// The name of a page, where there are pages.
fn numbered(out: &Path, is_page: bool, number: usize) -> PathBuf {
    if is_page { page_path(out, number) } else { out.to_owned() }
}

/// A file's name without the endings of snapshots.
fn stem_of(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut stem = name.as_str();
    while let Some((rest, ending)) = stem.rsplit_once('.') {
        let known = ["gz", "xz", "bz2", "zst", "zip", "pickle", "pkl", "json", "html"];
        if rest.is_empty() || !known.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            break;
        }
        stem = rest;
    }
    stem.to_owned()
}

fn kinds() -> String {
    let kinds: Vec<String> = REPORTS.iter().map(|report| format!(".{} ({})", report.extension(), report.name())).collect();
    kinds.join(", ")
}

fn section_names() -> String {
    Section::ALL.map(Section::name).join(", ")
}

fn section(text: &str) -> Result<Section, String> {
    Section::of_name(text.trim()).ok_or_else(|| format!("the sections are {}", section_names()))
}

fn window(text: &str) -> Result<(Moment, Moment), String> {
    let written = || "a window is written FROM..TO: 1000..5000, start..oom, event:10..peak".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(written)?;
    let side = |text: &str, open: Moment| match text.trim() {
        "" => Ok(open),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().map(Moment::Event).map_err(|_| written()),
        when => moment::of_word(when),
    };
    Ok((side(from, Moment::Start)?, side(to, Moment::End)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read() {
        for (text, wanted) in [
            ("10..20", Some((Moment::Event(10), Moment::Event(20)))),
            ("start..oom:2", Some((Moment::Start, Moment::Oom(Some(2))))),
            ("..peak", Some((Moment::Start, Moment::Peak))),
            ("event:5..", Some((Moment::Event(5), Moment::End))),
            ("10", None),
            ("a..b", None),
        ] {
            assert_eq!(window(text).ok(), wanted, "{text}");
        }
    }

    #[test]
    fn names_are_shortened() {
        for (file, stem) in [("/x/a.pickle.gz", "a"), ("b.v2.json", "b.v2"), (".gz", ".gz"), ("plain", "plain")] {
            assert_eq!(stem_of(Path::new(file)), stem);
        }
    }
}
