//! How things are called on the screen.

use crate::base::grouped;
use crate::model::{Position, StackId, StackTable};

/// A path with its middle left out: the file name is always whole.
pub fn short_path(path: &str, limit: usize) -> String {
    let length = path.chars().count();
    if length <= limit {
        return path.to_owned();
    }
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let room = limit.saturating_sub(name.chars().count() + 2);
    let head: String = path.chars().take(room).collect();
    if head.is_empty() { format!("…/{name}") } else { format!("{head}…/{name}") }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether a frame belongs to PyTorch, Python or the system rather than to the user's program.
pub fn is_framework(file: &str, function: &str) -> bool {
    const FILES: [&str; 12] = [
        "/torch/",
        "\\torch\\",
        "site-packages/",
        "dist-packages/",
        "<frozen",
        "/lib/python",
        "/csrc/",
        "/aten/",
        "/c10/",
        "Python/",
        "Objects/",
        "Modules/",
    ];
    const FUNCTIONS: [&str; 11] =
        ["torch::", "at::", "c10::", "c10d::", "_Py", "Py", "std::", "__libc", "_start", "clone", "start_thread"];
    let native = file == "??" || file.is_empty();
    FILES.iter().any(|part| file.contains(part))
        || native
        || (!file.ends_with(".py") && FUNCTIONS.iter().any(|f| function.starts_with(f)))
}

/// The frame of a stack that says most: the innermost of the user's program, else the innermost.
pub fn telling_frame(stacks: &StackTable, stack: StackId) -> Option<String> {
    let frames = stacks.frames(stack);
    let own = frames.iter().find(|frame| !is_framework(stacks.file(**frame), stacks.function(**frame)));
    let frame = *own.or(frames.first())?;
    Some(format!("{}  {}:{}", stacks.function(frame), file_name(stacks.file(frame)), stacks.frame(frame).line))
}

/// What stands where a stack would.
pub const fn no_stack(stack: StackId) -> &'static str {
    if stack.0 == StackId::ABSENT.0 { "no stack was kept" } else { "no Python stack" }
}

/// A moment: `event 35 572`, or `start`.
pub fn moment(position: Position) -> String {
    position.event().map_or_else(|| "start".to_owned(), |event| format!("event {}", grouped(u64::from(event.0))))
}

/// Time of day in UTC to the microsecond: `12:03:41.250 118`.
pub fn time_of_day(unix_us: i64) -> String {
    let us = unix_us.rem_euclid(86_400_000_000);
    let (s, rest) = (us / 1_000_000, us % 1_000_000);
    format!("{:02}:{:02}:{:02}.{:03} {:03}", s / 3600, s / 60 % 60, s % 60, rest / 1000, rest % 1000)
}

/// Date in UTC: `2026-11-30` (civil-from-days, Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub fn date(unix_us: i64) -> String {
    let days = unix_us.div_euclid(86_400_000_000) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_their_file() {
        for (path, limit, short) in [
            ("/a/b.py", 20, "/a/b.py"),
            ("/home/user/projects/model/mlp.py", 20, "/home/user/…/mlp.py"),
            ("/x/a_very_long_file_name_indeed.py", 10, "…/a_very_long_file_name_indeed.py"),
        ] {
            assert_eq!(short_path(path, limit), short);
        }
    }

    #[test]
    fn framework_frames_are_told_from_the_users() {
        for (file, function, framework) in [
            ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward", true),
            ("/home/me/train.py", "forward", false),
            ("/home/me/kernels.cu", "launch", false),
            ("??", "at::native::add", true),
            ("", "clone", true),
            ("<frozen runpy>", "_run_code", true),
        ] {
            assert_eq!(is_framework(file, function), framework, "{file} {function}");
        }
    }

    #[test]
    fn times_read_as_utc() {
        for (us, day, time) in [
            (0, "1970-01-01", "00:00:00.000 000"),
            (1_709_208_000_123_456, "2024-02-29", "12:00:00.123 456"),
            (-1, "1969-12-31", "23:59:59.999 999"),
        ] {
            assert_eq!((date(us), time_of_day(us)), (day.to_owned(), time.to_owned()));
        }
    }
}
