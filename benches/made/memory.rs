//! The peak of this process's anonymous memory, which a mapped file is not part of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Looks at the process's anonymous memory every two milliseconds.
pub struct PeakMemory {
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl PeakMemory {
    /// Begins to look; what is in use now is not counted.
    pub fn watch() -> Self {
        let (peak, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watch = Self { peak: Arc::clone(&peak), over: Arc::clone(&over) };
        let before = anonymous();
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(anonymous().saturating_sub(before), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        watch
    }
    /// Ends; the peak in bytes.
    pub fn stop(&self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.peak.load(Ordering::Relaxed)
    }
}

/// Anonymous memory in use, in bytes; 0 where the system does not say.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) << 10
}
