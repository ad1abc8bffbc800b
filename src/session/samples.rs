//! Small real snapshots, compiled in so that they are there from any folder.
//!
//! To add one: its file in `sample_snapshots/`, its row here and in that folder's README.

/// A compiled-in snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its stable name.
    pub name: &'static str,
    /// What it is called on the welcome page.
    pub title: &'static str,
    /// What it shows, in a sentence.
    pub what: &'static str,
    /// The file's content.
    pub bytes: &'static [u8],
}

macro_rules! sample {
    ($name:literal, $title:literal, $what:literal) => {
        Sample {
            name: $name,
            title: $title,
            what: $what,
            bytes: include_bytes!(concat!("../../sample_snapshots/", $name, ".pickle.gz")),
        }
    };
}

/// All samples, in the order of the welcome page.
pub const SAMPLES: &[Sample] = &[
    sample!(
        "fragmentation_oom",
        "Out of memory by fragmentation",
        "A server on 8 GiB dies wanting 52 MiB while 972 MiB of its reserved memory are free, in 179 gaps of at most 27.5 MiB."
    ),
    sample!(
        "training",
        "Five training steps",
        "A transformer with Adam and mixed precision: activations pile up in forward and melt away in backward."
    ),
    sample!(
        "expandable_segments",
        "Expandable segments",
        "The training job with expandable_segments:True: two ranges that grow by mapping instead of a hundred segments."
    ),
    sample!("private_pools", "CUDA graphs", "Memory in private pools, which serves no other request."),
    sample!(
        "streams",
        "Several streams",
        "Blocks given back that wait for another stream, and free memory of one stream that serves no other."
    ),
    sample!("two_devices", "Two devices", "One process on two devices, each with its own history."),
    sample!(
        "late_start",
        "Recorded from the middle",
        "Recording was switched on late: what was live by then has no allocation event."
    ),
    sample!("segments_only", "Without history", "Recording was never switched on: only the memory at the moment of the dump."),
];

/// The sample of a name.
pub fn by_name(name: &str) -> Option<&'static Sample> {
    SAMPLES.iter().find(|sample| sample.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_a_gzip_file_with_a_name_of_its_own() {
        for (i, sample) in SAMPLES.iter().enumerate() {
            assert_eq!(sample.bytes[..2], [0x1f, 0x8b], "{}", sample.name);
            assert!(SAMPLES[..i].iter().all(|other| other.name != sample.name), "{}", sample.name);
            assert!(sample.what.ends_with('.'), "{}", sample.name);
        }
    }
}
