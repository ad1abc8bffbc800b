//! `capture`: runs a GPU job, or a built-in workload, and records it.

use crate::base::Bytes;
use crate::capture::child;
use crate::capture::workload::{self, Ended, Options, SHARE_PERCENT, WORKLOADS, Workload};
use crate::capture::{CaptureSource, Request, Running, SOURCES, Stacks, gpus, logs, recorder};
use crate::cli::command::{Command, Outcome};
use crate::cli::output;
use crate::session::capturing::Adopted;
use crate::ui::Opening;
use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "capture", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    let sources: Vec<&str> = SOURCES.iter().map(|source| source.name()).collect();
    recording_arguments(command)
        .about("Run a GPU job and record it: `fragscope capture -- python train.py`")
        .arg(
            Arg::new("source").long("source").value_name("SOURCE").value_parser(sources).default_value("torch").help(
                SOURCES.iter().map(|source| format!("{}: {}", source.name(), source.about())).collect::<Vec<_>>().join("; "),
            ),
        )
        .arg(
            Arg::new("workload")
                .long("workload")
                .value_name("NAME")
                .value_parser(clap::builder::PossibleValuesParser::new(
                    WORKLOADS.iter().map(|workload| clap::builder::PossibleValue::new(workload.name).help(workload.about)),
                ))
                .conflicts_with_all(["command", "source", "write-recorder", "stacks", "max-entries", "interval", "ring"])
                .help("Run a built-in workload on the GPU in place of a job, and record it"),
        )
        .arg(
            Arg::new("steps")
                .long("steps")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .requires("workload")
                .help("Steps of the workload"),
        )
        .arg(
            Arg::new("share")
                .long("share")
                .value_name("PERCENT")
                .value_parser(value_parser!(u32).range(1..=95))
                .requires("workload")
                .help(format!("The part of the GPU's free memory that the workload may take (left out: {SHARE_PERCENT})")),
        )
        .arg(
            Arg::new("pace")
                .long("pace")
                .value_name("MS")
                .value_parser(value_parser!(u32).range(..=600_000))
                .requires("workload")
                .help("The least time that a step of the workload takes"),
        )
        .arg(
            Arg::new("gpus")
                .long("gpus")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["command", "workload", "write-recorder"])
                .help("Only tell which GPUs there are, what they hold, and which processes are on them"),
        )
        .arg(Arg::new("run-here").long("run-here").action(ArgAction::SetTrue).requires("workload").hide(true))
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("K:V,…")
                .action(ArgAction::Append)
                .help("Allocator settings to run the job with, added to its PYTORCH_CUDA_ALLOC_CONF"),
        )
        .arg(
            Arg::new("live")
                .long("live")
                .action(ArgAction::SetTrue)
                .conflicts_with("write-recorder")
                .help("Open the window on the log while the job runs; closing it leaves the job running"),
        )
        .arg(
            Arg::new("write-recorder")
                .long("write-recorder")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("command")
                .help("Only write the recorder there, one file: `python record.py train.py` records by hand"),
        )
        .arg(
            Arg::new("command")
                .value_name("CMD")
                .num_args(1..)
                .last(true)
                .required_unless_present_any(["write-recorder", "workload", "gpus"])
                .value_parser(value_parser!(OsString))
                .help("The job, behind `--`"),
        )
}

/// The arguments that say how to record.
pub(super) fn recording_arguments(command: clap::Command) -> clap::Command {
    command
        .arg(
            Arg::new("out")
                .short('o')
                .long("out")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The log; several ranks write FILE.rank0.fsl … (left out: capture-1.fsl, or the next free number)"),
        )
        .arg(
            Arg::new("stacks")
                .long("stacks")
                .value_name("WHICH")
                .value_parser(["python", "all", "none"])
                .default_value("python")
                .help("Stacks to record: of Python, all (C++ too, which costs much), or none"),
        )
        .arg(
            Arg::new("max-entries")
                .long("max-entries")
                .value_name("N")
                .value_parser(value_parser!(u32).range(100..=10_000_000))
                .help("Entries of PyTorch's own history; more make its snapshots longer and each look at it slower"),
        )
        .arg(
            Arg::new("interval")
                .long("interval")
                .value_name("MS")
                .value_parser(value_parser!(u32).range(10..=60_000))
                .help("Longest time between two looks at the job, where the allocator's ring is fetched"),
        )
        .arg(
            Arg::new("ring")
                .long("ring")
                .action(ArgAction::SetTrue)
                .help("Fetch the allocator's ring only: slower, and asks nothing of PyTorch's inside"),
        )
}

/// What the arguments ask for.
pub(super) fn request(matches: &ArgMatches) -> Request {
    let stacks = matches.get_one::<String>("stacks").and_then(|word| Stacks::of_name(word));
    Request {
        command: Vec::new(),
        out: matches.get_one::<PathBuf>("out").cloned().unwrap_or_else(logs::free_name),
        stacks: stacks.unwrap_or_default(),
        max_entries: matches.get_one::<u32>("max-entries").copied(),
        interval_ms: matches.get_one::<u32>("interval").copied(),
        settings: None,
        only_ring: matches.get_flag("ring"),
    }
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    if let Some(folder) = matches.get_one::<PathBuf>("write-recorder") {
        let path = recorder::write_by_hand(folder)?;
        output::note(&format!("the recorder is {}; `python {} train.py` records a script", path.display(), path.display()));
        return Ok(Outcome::Done);
    }
    if matches.get_flag("gpus") {
        return list_gpus();
    }
    if let Some(workload) = matches.get_one::<String>("workload").and_then(|name| workload::by_name(name)) {
        return run_workload(workload, matches);
    }
    let name = matches.get_one::<String>("source").context("no source was named")?;
    let source = SOURCES.iter().find(|source| source.name() == name).context("no such source")?;
    let given = |name: &&&str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    if let Some(name) = ["max-entries", "interval", "ring"].iter().filter(|_| source.name() != "torch").find(given) {
        return Err(anyhow!(
            "--{name} is about PyTorch's own history, which --source {} does not look at; leave it out",
            source.name()
        ));
    }
    if let Some(why) = source.unavailable() {
        return Err(anyhow!("{why}"));
    }
    let set = settings(matches);
    let request = Request {
        command: matches.get_many::<OsString>("command").into_iter().flatten().cloned().collect(),
        settings: (!set.is_empty()).then_some(set),
        ..request(matches)
    };
    if matches.get_flag("live") {
        return record_live(*source, &request);
    }
    let ended = Running::start(*source, &request)?.wait().context(NOT_WAITED)?;
    end(*source, &ended)
}

fn list_gpus() -> anyhow::Result<Outcome> {
    let gpus = gpus::gpus().map_err(|why| anyhow!("{why}"))?;
    let mut out = output::answers();
    for gpu in gpus {
        let name = output::one_line(&gpu.name);
        writeln!(out, "{}  {name}  {} of {} in use", gpu.index, Bytes(gpu.used), Bytes(gpu.total))?;
        for running in gpu.processes {
            let used = running.used.map_or_else(|| "not told".to_owned(), |bytes| Bytes(bytes).to_string());
            writeln!(out, "   process {}  {used}", running.process)?;
        }
    }
    Ok(Outcome::Done)
}

fn settings(matches: &ArgMatches) -> String {
    matches.get_many::<String>("set").into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// Runs a workload: in a child process of this program, which is told to run it in place.
fn run_workload(workload: &Workload, matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let options = Options {
        settings: settings(matches),
        steps: matches.get_one::<u32>("steps").copied(),
        share_percent: matches.get_one::<u32>("share").copied().unwrap_or(SHARE_PERCENT),
        pace_ms: matches.get_one::<u32>("pace").copied().unwrap_or(0),
    };
    let request = request(matches);
    workload::settings_of(&options.settings).map_err(|why| anyhow!("--set: {why}"))?;
    if matches.get_flag("run-here") {
        return match workload::run_here(workload, &options, &request.out).map_err(|why| anyhow!("{why}"))? {
            Ended::Done => Ok(Outcome::Done),
            Ended::Stopped => {
                output::note("the workload was asked to stop, and gave all its memory back");
                Ok(Outcome::Done)
            }
            Ended::Failed(why) => {
                output::note(&why);
                Ok(Outcome::Failed)
            }
        };
    }
    let command = workload::command(workload, &options, &request.out).context("this program cannot be run again")?;
    let ended = Running::start(&workload::Child, &Request { command, ..request })?.wait().context("it cannot be waited for")?;
    told(&ended.logs, &ended.complaints);
    // Why it did not begin, or went no further, it has said itself.
    Ok(match (ended.status.code(), ended.logs.is_empty()) {
        (Some(0), false) => Outcome::Done,
        (Some(2), _) | (_, true) => Outcome::Incomplete,
        (Some(_), false) => Outcome::Failed,
        (None, false) => {
            output::note(&format!("the workload was ended: {}", ended.status));
            Outcome::Failed
        }
    })
}

const NOT_WAITED: &str = "the job cannot be waited for";
const WITHOUT_WINDOW: &str = "leave out --live to record without a window, and open the log later or with `fragscope info`";

/// Records with the window open. The job and its log do not depend on the window.
fn record_live(source: &dyn CaptureSource, request: &Request) -> anyhow::Result<Outcome> {
    if let Some(why) = crate::ui::without_display() {
        bail!("{}; {WITHOUT_WINDOW}", why.to_string().trim_end_matches('.'));
    }
    let watch = Running::start(source, request)?.watched(true).context(NOT_WAITED)?;
    let words: Vec<_> = request.command.iter().map(|word| word.to_string_lossy()).collect();
    let job = Adopted { watch: watch.clone(), command: words.join(" ") };
    let shown = crate::ui::run(Opening { job: Some(job), ..Opening::default() });
    let log = request.out.display();
    match &shown {
        Ok(()) if watch.over().is_none() => output::note(&format!(
            "the window is closed; the job (process {}) goes on and is recorded into {log}",
            watch.process()
        )),
        Ok(()) => {}
        Err(error) => {
            let why = error.to_string();
            output::note(&format!("{}; the job is recorded into {log} all the same", why.trim_end_matches('.')));
        }
    }
    match &*watch.wait() {
        Ok(ended) => end(source, ended),
        Err(error) => bail!("{NOT_WAITED}: {error}"),
    }
}

/// Says how a job ended and what it left.
fn end(source: &dyn CaptureSource, ended: &child::Ended) -> anyhow::Result<Outcome> {
    told(&ended.logs, &ended.complaints);
    if ended.logs.is_empty() && ended.complaints.is_empty() {
        output::note(&format!("nothing was recorded: {}", source.why_nothing()));
    }
    if ended.status.success() {
        return Ok(if ended.logs.is_empty() { Outcome::Incomplete } else { Outcome::Done });
    }
    output::note(&format!("the job failed: {}", ended.status));
    Ok(Outcome::Failed)
}

/// Says where the logs are and what could not be logged.
pub(super) fn told(logs: &[PathBuf], complaints: &[String]) {
    for complaint in complaints {
        output::note(&format!("the recorder: {complaint}"));
    }
    for log in logs {
        output::note(&format!("{} ({})", log.display(), Bytes(size(log))));
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |facts| facts.len())
}
