//! How stacks, paths, moments and times read in pictures and reports.
//!
//! Always: a shortened path keeps its file name whole; which frame names a stack is said in
//! [`framework`](crate::analysis::framework).

pub use crate::analysis::framework::{is_framework, own_frames, telling_frame};

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
