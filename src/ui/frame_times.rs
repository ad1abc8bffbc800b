//! How long views take on the UI thread, for whoever wants to know: `FRAGSCOPE_FRAME_TIMES=1` prints, once a
//! second, each view's median and worst time since the last line.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When the last line was printed, and the times since, by name.
type Times = (Option<Instant>, BTreeMap<&'static str, Vec<Duration>>);

thread_local! {
    static TIMES: RefCell<Times> = const { RefCell::new((None, BTreeMap::new())) };
}

/// Notes how long a part of a frame took.
pub fn note(name: &'static str, took: Duration) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if !*WANTED.get_or_init(|| std::env::var_os("FRAGSCOPE_FRAME_TIMES").is_some()) {
        return;
    }
    TIMES.with_borrow_mut(|(since, times)| {
        times.entry(name).or_default().push(took);
        let since = since.get_or_insert_with(Instant::now);
        if since.elapsed() < Duration::from_secs(1) {
            return;
        }
        *since = Instant::now();
        for (name, times) in times.iter_mut() {
            times.sort_unstable();
            if let (Some(median), Some(worst)) = (times.get(times.len() / 2), times.last()) {
                eprintln!("{name}: {} times, median {median:.2?}, worst {worst:.2?}", times.len());
            }
            times.clear();
        }
    });
}
