//! How things are called on the screen.

use crate::base::grouped;
pub use crate::chart::block_words::{no_stack, telling_line};
use crate::model::{DeviceMemory, Position};

/// A moment: `event 35 572`, or `start`.
pub fn moment(position: Position) -> String {
    position.event().map_or_else(|| "start".to_owned(), |event| format!("event {}", grouped(u64::from(event.0))))
}

/// The moment at the cursor, as it is said in a sentence: `event 35 572`, or `the dump` where only that is known.
pub fn known_moment(memory: &DeviceMemory, position: Position) -> String {
    if memory.has_history() { moment(position) } else { "the dump".to_owned() }
}

/// Time of day in UTC to the microsecond: `12:03:41.250 118`.
pub fn time_of_day(unix_us: i64) -> String {
    let us = unix_us.rem_euclid(86_400_000_000);
    let (s, rest) = (us / 1_000_000, us % 1_000_000);
    format!("{:02}:{:02}:{:02}.{:03} {:03}", s / 3600, s / 60 % 60, s % 60, rest / 1000, rest % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_utc() {
        for (us, time) in [(0, "00:00:00.000 000"), (1_709_208_000_123_456, "12:00:00.123 456"), (-1, "23:59:59.999 999")] {
            assert_eq!(time_of_day(us), time);
        }
    }
}
