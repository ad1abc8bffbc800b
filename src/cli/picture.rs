//! The arguments of commands that paint: `--size`, `--scale`, `--theme`.

use crate::chart::Theme;
use crate::report::ReportOptions;
use clap::{Arg, ArgMatches, Command};

/// Adds them; `size` says what the size means.
pub fn arguments(command: Command, size_help: &'static str) -> Command {
    command
        .next_help_heading("Picture")
        .arg(Arg::new("size").long("size").value_name("WxH").value_parser(size).help(size_help))
        .arg(Arg::new("scale").long("scale").value_name("N").value_parser(scale).help("Pixels a point, 0.25 to 8"))
        .arg(Arg::new("theme").long("theme").value_name("THEME").value_parser(["light", "dark"]).help("Light or dark"))
}

/// What they say, in place of what `options` says.
pub fn options(matches: &ArgMatches, mut options: ReportOptions) -> ReportOptions {
    if let Some((width_pt, height_pt)) = matches.get_one::<(u32, u32)>("size") {
        (options.width_pt, options.height_pt) = (*width_pt, *height_pt);
    }
    if let Some(scale) = matches.get_one::<f32>("scale") {
        options.scale = *scale;
    }
    if matches.get_one::<String>("theme").is_some_and(|theme| theme == "dark") {
        options.theme = Theme::Dark;
    }
    options
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
