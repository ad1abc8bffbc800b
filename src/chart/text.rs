//! How stacks, paths, moments and times read in pictures and reports.
//!
//! Always: a shortened path keeps its file name whole; a stack is named by the innermost frame of the user's
//! own program, because frames of PyTorch, Python and the system look alike in every stack.

use crate::model::{FrameId, StackId, StackTable};

/// A path of at most about `limit` letters, its middle left out; the file name is always whole.
pub fn short_path(path: &str, limit: usize) -> String {
    if path.chars().count() <= limit {
        return path.to_owned();
    }
    let name = file_name(path);
    let room = limit.saturating_sub(name.chars().count() + 2);
    let head: String = path.chars().take(room).collect();
    format!("{head}…/{name}")
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
    const STARTS: [&str; 9] = ["at::", "c10", "_Py", "Py", "std::", "__libc", "_start", "clone", "start_thread"];
    // C++ names carry their return type and template arguments in front, so these may stand anywhere.
    const PARTS: [&str; 3] = ["torch::", "at::native", "c10::"];
    let is_native = !file.ends_with(".py");
    let native = STARTS.iter().any(|start| function.starts_with(start)) || PARTS.iter().any(|part| function.contains(part));
    file.is_empty() || file == "??" || (is_native && native) || FILES.iter().any(|part| file.contains(part))
}

/// The frame that names a stack: the innermost of the user's program, else autograd's node (backward threads know
/// no other name), else the operator, else the innermost; and how many frames inside of it were folded.
pub fn telling_frame(stacks: &StackTable, stack: StackId) -> Option<(FrameId, usize)> {
    let frames = stacks.frames(stack);
    let own = frames.iter().position(|frame| !is_framework(stacks.file(*frame), stacks.function(*frame)));
    let named = |part: &str| frames.iter().position(|frame| stacks.function(*frame).contains(part));
    let place = own.or_else(|| named("autograd::generated::")).or_else(|| named("at::_ops::")).unwrap_or(0);
    frames.get(place).map(|frame| (*frame, place))
}

/// The user's frames of a stack, innermost first, at most `limit`.
pub fn own_frames(stacks: &StackTable, stack: StackId, limit: usize) -> Vec<FrameId> {
    let own = |frame: &&FrameId| !is_framework(stacks.file(**frame), stacks.function(**frame));
    stacks.frames(stack).iter().filter(own).take(limit).copied().collect()
}

/// Date and time of day in UTC: `2026-11-30 12:03:41`.
pub fn date_time(unix_us: i64) -> String {
    // Civil date from days since 1970-03-01 era by era (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let days = unix_us.div_euclid(86_400_000_000) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let seconds = unix_us.rem_euclid(86_400_000_000) / 1_000_000;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_path_keeps_its_file() {
        for (path, limit, short) in [
            ("/a/b.py", 20, "/a/b.py"),
            ("/home/user/projects/model/mlp.py", 20, "/home/user/p…/mlp.py"),
            ("/x/a_very_long_file_name_indeed.py", 10, "…/a_very_long_file_name_indeed.py"),
            ("", 3, ""),
        ] {
            assert_eq!(short_path(path, limit), short);
        }
    }

    #[test]
    fn frames_of_the_framework_are_known() {
        for (file, function, framework) in [
            ("/home/u/train.py", "forward", false),
            ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward", true),
            ("??", "main", true),
            ("", "at::native::add", true),
            ("/src/kernels.cpp", "at::empty", true),
            ("/src/kernels.cpp", "my::kernel", false),
            ("pthread_create.c", "start_thread", true),
            ("python_variable_methods.cpp", "_object* torch::autograd::TypeError(_object*)", true),
            ("<frozen runpy>", "_run_code", true),
        ] {
            assert_eq!(is_framework(file, function), framework, "{file} {function}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (us, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400_000_000, "2000-02-29 00:00:00"),
            (1_796_039_999_999_999, "2026-11-30 11:59:59"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(date_time(us), text);
        }
    }
}
