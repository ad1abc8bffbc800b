//! `report`: the post-mortem on paper.

use crate::analysis::Moment;
use crate::cli::command::{Command, Outcome};
use crate::cli::opening::{self, Device};
use crate::cli::{moment, output};
use crate::replay::Replay;
use crate::report::{REPORTS, ReportOptions, ReportSubject, report_of_extension};
use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, value_parser};
use std::path::{Path, PathBuf};

/// The subcommand.
pub const COMMAND: Command = Command { name: "report", arguments, run };

fn arguments(command: clap::Command) -> clap::Command {
    let command = command
        .about("The post-mortem on paper: facts, usage over time, layout at the moment, who holds the memory")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Snapshot"),
        )
        .arg(output::place(&kinds()))
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("WxH")
                .value_parser(size)
                .help("Page size in points; the page grows if it needs more"),
        )
        .arg(Arg::new("scale").long("scale").value_name("N").value_parser(scale).help("Pixels a point, 0.25 to 8"))
        .arg(Arg::new("theme").long("theme").value_name("THEME").value_parser(["light", "dark"]).help("Light or dark"));
    moment::arguments(command)
}

fn run(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let files: Vec<&PathBuf> = matches.get_many::<PathBuf>("files").into_iter().flatten().collect();
    let out = matches.get_one::<PathBuf>("out").context("no place to write to was named: add -o OUT")?;
    let mut options = ReportOptions::default();
    if let Some((width_pt, height_pt)) = matches.get_one::<(u32, u32)>("size") {
        (options.width_pt, options.height_pt) = (*width_pt, *height_pt);
    }
    if let Some(scale) = matches.get_one::<f32>("scale") {
        options.scale = *scale;
    }
    if matches.get_one::<String>("theme").is_some_and(|theme| theme == "dark") {
        options.theme = crate::chart::Theme::Dark;
    }
    let [file] = files[..] else { bail!("a picture shows one file, {} were named: run `report` once for each", files.len()) };
    write(file, moment::device_of(matches), moment::of(matches), out, &options)?;
    Ok(Outcome::Done)
}

/// Writes the report of one file at a moment, whole or not at all.
pub fn write(file: &Path, device: Option<i32>, moment: Moment, out: &Path, options: &ReportOptions) -> anyhow::Result<()> {
    let extension = out.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(report) = report_of_extension(&extension) else {
        bail!("no report is called {}: its ending must be one of {}", out.display(), kinds());
    };
    let snapshot = opening::open(file)?;
    let device = Device::pick(&snapshot, device)?;
    let position = moment
        .position(device.memory, &device.timeline)
        .map_err(|error| anyhow::anyhow!("{error} ({})", snapshot.origin.name))?;
    let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
    let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device: device.id, position };
    let mut bytes = Vec::new();
    report.write(&subject, options, &mut bytes)?;
    std::fs::write(out, bytes).map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", out.display()))?;
    output::note(&format!("wrote {}", out.display()));
    Ok(())
}

fn kinds() -> String {
    let kinds: Vec<String> = REPORTS.iter().map(|report| format!(".{} ({})", report.extension(), report.name())).collect();
    kinds.join(", ")
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once(['x', 'X', '×']).and_then(|(w, h)| Some((w.trim().parse().ok()?, h.trim().parse().ok()?)));
    match sides {
        Some((width, height)) if 0 < width && 0 < height => Ok((width, height)),
        _ => Err("a size is written 1600x1000, in points".to_owned()),
    }
}

fn scale(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(scale) if (0.25..=8.0).contains(&scale) => Ok(scale),
        _ => Err("a scale is a number from 0.25 to 8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_scales_are_read() {
        for (text, wanted) in
            [("1600x1000", Some((1600, 1000))), ("8×9", Some((8, 9))), ("0x9", None), ("12", None), ("axb", None)]
        {
            assert_eq!(size(text).ok(), wanted, "{text}");
        }
        for (text, wanted) in [("2", Some(2.0)), ("0.1", None), ("NaN", None), ("9", None), ("x", None)] {
            assert_eq!(scale(text).ok(), wanted, "{text}");
        }
    }
}
