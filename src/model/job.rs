//! The job a recording was made of, where it is known: a capture writes it down, a snapshot of PyTorch does not.

/// What is known of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Facts by name, as text, in the order they were written: `pid`, `rank`, `argv`, `torch` …
    pub facts: Vec<(String, String)>,
    /// Its devices.
    pub devices: Vec<JobDevice>,
    /// What devices held, in the order of recording.
    pub samples: Vec<DeviceSample>,
    /// Snapshots that were written beside the recording: why, and where.
    pub saved: Vec<(String, String)>,
    /// Stretches in which events were missed.
    pub missed: Vec<MissedEvents>,
    /// How it ended; none while it runs, or where nobody saw the end.
    pub ended: Option<JobEnd>,
}

/// A device of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDevice {
    /// Its number, as PyTorch counts.
    pub ordinal: i32,
    /// What the driver calls it.
    pub name: String,
    /// All its memory in bytes, where known.
    pub total: Option<u64>,
}

/// What a device, or one process on it, held at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSample {
    /// The device.
    pub device: i32,
    /// The process; none: the whole device.
    pub process: Option<u32>,
    /// All memory in bytes, where known.
    pub total: Option<u64>,
    /// Memory in use in bytes, where known.
    pub used: Option<u64>,
    /// Memory not in use in bytes, where known.
    pub free: Option<u64>,
    /// Unix time in µs.
    pub time_us: i64,
}

/// Events that a recorder missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedEvents {
    /// The device.
    pub device: i32,
    /// They came before this event, by index in the device's trace.
    pub before: u32,
    /// How many, where known.
    pub count: Option<u64>,
    /// Why.
    pub why: String,
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobEnd {
    /// Its exit code, where known.
    pub code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// What else there is to say.
    pub text: String,
}

impl std::fmt::Display for MissedEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, before, count, why } = self;
        match count {
            Some(count) => write!(f, "device {device}, before event {before}: {} ({why})", crate::base::counted(*count, "event")),
            None => write!(f, "device {device}, before event {before}: nobody knows how many ({why})"),
        }
    }
}

impl Job {
    /// A fact by its name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
    /// All memory of a device in bytes, where known.
    pub fn total(&self, ordinal: i32) -> Option<u64> {
        let stated = self.devices.iter().find(|device| device.ordinal == ordinal).and_then(|device| device.total);
        let sampled = || {
            let of_device = self.samples.iter().filter(|sample| sample.device == ordinal && sample.process.is_none());
            of_device.rev().find_map(|sample| sample.total)
        };
        stated.or_else(sampled)
    }
}
