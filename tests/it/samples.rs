//! The samples and their counters, and how tests open a file.

use fragscope::analysis::{Summary, UsageTimeline};
use fragscope::base::Progress;
use fragscope::model::{DeviceId, Snapshot};
use fragscope::replay::Replay;
use std::path::{Path, PathBuf};

/// The folder of the samples.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_snapshots")
}

/// A sample by its name.
pub fn sample(name: &str) -> PathBuf {
    folder().join(format!("{name}.pickle.gz"))
}

/// All snapshots below a folder that have their counters beside them, by path.
pub fn pairs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".pickle.gz") && counters_of(&path).is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Where the counters of a snapshot stand.
pub fn counters_of(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace(".pickle.gz", ".json"))
}

/// The name of a snapshot without its endings.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".pickle.gz").to_owned()
}

/// Opens a file that must open.
pub fn open(path: &Path) -> Snapshot {
    fragscope::format::open(path, &Progress::new()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One device, ready for questions.
pub fn prepare(snapshot: &Snapshot, id: DeviceId) -> (Replay, UsageTimeline, Summary) {
    let memory = &snapshot.devices[id];
    let replay = Replay::new(memory);
    let timeline = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
    let summary = Summary::of(memory, &replay, &snapshot.stacks, &timeline, &Progress::new()).expect("nobody cancels");
    (replay, timeline, summary)
}
