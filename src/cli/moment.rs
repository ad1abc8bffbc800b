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

/// The moment that a word names: the flags without their dashes, `event:7`, `time-us:T`, `oom:2`. The error is a sentence.
pub fn of_word(word: &str) -> Result<Moment, String> {
    let unknown = || format!("\"{word}\" names no moment: say event:N, time-us:T, peak, peak-reserved, oom, oom:K, start or end");
    let (name, number) = match word.split_once(':') {
        Some((name, number)) => (name, Some(number.trim().parse::<i64>().map_err(|_| unknown())?)),
        None => (word, None),
    };
    match (name.trim(), number) {
        ("event", Some(event)) => Ok(Moment::Event(event)),
        ("time-us", Some(time_us)) => Ok(Moment::TimeUs(time_us)),
        ("peak", None) => Ok(Moment::Peak),
        ("peak-reserved", None) => Ok(Moment::PeakReserved),
        ("oom", None) => Ok(Moment::Oom(None)),
        ("oom", Some(number)) => {
            let number = u32::try_from(number).ok().filter(|number| 0 < *number).ok_or_else(unknown)?;
            Ok(Moment::Oom(Some(number)))
        }
        ("start", None) => Ok(Moment::Start),
        ("end", None) => Ok(Moment::End),
        _ => Err(unknown()),
    }
}

/// The device the flag names.
pub fn device_of(matches: &ArgMatches) -> Option<i32> {
    matches.get_one::<i32>("device").copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_moments_of_the_flags() {
        for (word, moment) in [
            ("peak", Some(Moment::Peak)),
            ("peak-reserved", Some(Moment::PeakReserved)),
            ("oom", Some(Moment::Oom(None))),
            ("oom:2", Some(Moment::Oom(Some(2)))),
            ("event:-1", Some(Moment::Event(-1))),
            ("event: 7", Some(Moment::Event(7))),
            ("time-us:1700000000000000", Some(Moment::TimeUs(1_700_000_000_000_000))),
            ("start", Some(Moment::Start)),
            ("end", Some(Moment::End)),
            ("", None),
            ("oom:0", None),
            ("oom:-1", None),
            ("event", None),
            ("event:", None),
            ("peak:3", None),
            ("noon", None),
            ("event:99999999999999999999", None),
        ] {
            assert_eq!(of_word(word).ok(), moment, "{word}");
        }
    }
}
