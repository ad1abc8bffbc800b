//! `MOMENT` and `--device`, as several subcommands take them.

use crate::analysis::Moment;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};

const HEADING: &str = "Moment (left out: the last OOM, else the peak)";

/// Puts the moment's flags and `--device` on a subcommand.
pub fn arguments(command: clap::Command) -> clap::Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).help_heading(HEADING).action(ArgAction::SetTrue)
    };
    let number = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help(help)
            .help_heading(HEADING)
            .allow_negative_numbers(true)
            .value_parser(clap::value_parser!(i64))
    };
    command
        .arg(number("event", "N", "After event N, counted from 0; -1 is before the first"))
        .arg(number("time-us", "T", "After the last event not later than T, in Unix µs"))
        .arg(flag("peak", "Where most was allocated"))
        .arg(flag("peak-reserved", "Where most was reserved"))
        .arg(
            Arg::new("oom")
                .long("oom")
                .value_name("K")
                .help("At the K-th out-of-memory event, counted from 1; without K the last")
                .help_heading(HEADING)
                .num_args(0..=1)
                .value_parser(clap::value_parser!(u32).range(1..)),
        )
        .arg(flag("start", "Before the first event"))
        .arg(flag("end", "After the last event"))
        .group(ArgGroup::new("moment").args(["event", "time-us", "peak", "peak-reserved", "oom", "start", "end"]))
        .arg(device())
}

/// `--device D`.
pub fn device() -> Arg {
    Arg::new("device")
        .long("device")
        .value_name("D")
        .help("Device number; -1 is pinned host memory; left out: the one with the most events")
        .allow_negative_numbers(true)
        .value_parser(clap::value_parser!(i32))
}

/// The moment the flags name.
pub fn of(matches: &ArgMatches) -> Moment {
    if let Some(event) = matches.get_one::<i64>("event") {
        Moment::Event(*event)
    } else if let Some(time_us) = matches.get_one::<i64>("time-us") {
        Moment::TimeUs(*time_us)
    } else if matches.get_flag("peak") {
        Moment::Peak
    } else if matches.get_flag("peak-reserved") {
        Moment::PeakReserved
    } else if matches.contains_id("oom") {
        Moment::Oom(matches.get_one::<u32>("oom").copied())
    } else if matches.get_flag("start") {
        Moment::Start
    } else if matches.get_flag("end") {
        Moment::End
    } else {
        Moment::Telling
    }
}

/// Reads `WHEN`: a moment in one word, as `event:N`, `time-us:T`, `peak`, `peak-reserved`, `oom`, `oom:K`, `start`, `end`.
pub fn when(text: &str) -> Result<Moment, String> {
    let (word, number) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
    let moment = match (word, number) {
        ("event", Some(number)) => number.parse().ok().map(Moment::Event),
        ("time-us", Some(number)) => number.parse().ok().map(Moment::TimeUs),
        ("oom", Some(number)) => number.parse().ok().filter(|number| 0 < *number).map(|number| Moment::Oom(Some(number))),
        ("oom", None) => Some(Moment::Oom(None)),
        ("peak", None) => Some(Moment::Peak),
        ("peak-reserved", None) => Some(Moment::PeakReserved),
        ("start", None) => Some(Moment::Start),
        ("end", None) => Some(Moment::End),
        _ => None,
    };
    moment.ok_or_else(|| "a moment is event:N, time-us:T, peak, peak-reserved, oom, oom:K, start or end".to_owned())
}

/// The device the flag names.
pub fn device_of(matches: &ArgMatches) -> Option<i32> {
    matches.get_one::<i32>("device").copied()
}
