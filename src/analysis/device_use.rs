//! What the whole device held while a job ran, as somebody looked at it from time to time, next to what the job's own
//! allocator had reserved.
//!
//! Always: a look counts from its moment until the next one; between looks nothing is known. Looks of the driver's own
//! (`cuMemGetInfo`, from inside the job) and of NVML (which `nvidia-smi` shows, from outside) stand in one row: NVML may
//! count what the driver keeps for itself apart.

use crate::analysis::query::{Asked, Query};
use crate::base::{Bytes, Cancelled, HeapSize, Progress, grouped};
use crate::model::{DeviceMemory, Job, Position};

/// A look at the whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLook {
    /// From this position on it counts.
    pub position: Position,
    /// Unix time in µs.
    pub time_us: i64,
    /// Bytes in use, by whomever.
    pub used: u64,
    /// All bytes, where known.
    pub total: Option<u64>,
}

/// A look at one process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessLook {
    time_us: i64,
    process: u32,
    used: u64,
}

/// What the whole device held, over a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    looks: Vec<DeviceLook>,
    processes: Vec<ProcessLook>,
    own: Option<u32>,
}

/// Looks at processes that lie this near to one at the device belong to it, µs.
const NEAR_US: i64 = 2_000_000;

impl DeviceUse {
    /// Reads the samples of a device.
    pub fn of(job: &Job, memory: &DeviceMemory) -> DeviceUse {
        let mut found = DeviceUse { own: job.fact("pid").and_then(|number| number.parse().ok()), ..DeviceUse::default() };
        for sample in job.samples.iter().filter(|sample| sample.device == memory.ordinal) {
            let used = sample.used.or_else(|| sample.total?.checked_sub(sample.free?));
            let (Some(used), time_us) = (used, sample.time_us) else { continue };
            match sample.process {
                Some(process) => found.processes.push(ProcessLook { time_us, process, used }),
                None => {
                    let position = memory.trace.position_at_time(time_us);
                    found.looks.push(DeviceLook { position, time_us, used, total: sample.total });
                }
            }
        }
        found.looks.sort_by_key(|look| look.time_us);
        found.processes.sort_by_key(|look| look.time_us);
        found
    }
    /// All looks, in order of time.
    pub fn looks(&self) -> &[DeviceLook] {
        &self.looks
    }
    /// The most that was in use at any look.
    pub fn peak(&self) -> Option<u64> {
        self.looks.iter().map(|look| look.used).max()
    }
    /// The last look at or before a position; before the first look, that one.
    pub fn at(&self, position: Position) -> Option<DeviceLook> {
        let later = self.looks.partition_point(|look| look.position <= position);
        self.looks.get(later.saturating_sub(1)).copied()
    }
    /// The last looks at single processes at about the time of a look, by number of the process.
    fn processes_near(&self, time_us: i64) -> Vec<(u32, u64)> {
        let until = self.processes.partition_point(|look| look.time_us <= time_us.saturating_add(NEAR_US));
        let near = self.processes[..until].iter().rev().take_while(|look| time_us.saturating_sub(NEAR_US) <= look.time_us);
        let mut found: Vec<(u32, u64)> = Vec::new();
        for look in near {
            if !found.iter().any(|(process, _)| *process == look.process) {
                found.push((look.process, look.used));
            }
        }
        found.sort_unstable();
        found
    }
    /// Why the device holds more than the job's allocator has reserved at a position, in a sentence.
    pub fn sentence(&self, position: Position, reserved: u64) -> Option<String> {
        let look = self.at(position)?;
        let of = look.total.map_or_else(String::new, |total| format!(" of {}", Bytes(total)));
        let mut sentence = format!("The device holds {}{of}, as nvidia-smi shows it", Bytes(look.used));
        let Some(beyond) = look.used.checked_sub(reserved) else {
            sentence +=
                &format!(": less than the {} reserved here, for it was looked at a moment earlier or later", Bytes(reserved));
            return Some(sentence + ".");
        };
        sentence += &format!(": {} reserved here and {} more", Bytes(reserved), Bytes(beyond));
        let near = self.processes_near(look.time_us);
        let own = near.iter().find(|(process, _)| Some(*process) == self.own).map(|(_, used)| *used);
        let others: Vec<u64> = near.iter().filter(|(process, _)| Some(*process) != self.own).map(|(_, used)| *used).collect();
        let mut parts = Vec::new();
        if let Some(inside) = own.and_then(|own| own.checked_sub(reserved)) {
            parts.push(format!("{} of this program's context, code and libraries", Bytes(inside)));
        }
        if !others.is_empty() {
            let sum: u64 = others.iter().sum();
            let whose = match others.len() {
                1 => "1 other process".to_owned(),
                many => format!("{} other processes", grouped(many as u64)),
            };
            parts.push(format!("{} of {whose}", Bytes(sum)));
        }
        if own.is_some() {
            let told = own.unwrap_or(0).max(reserved).saturating_add(others.iter().sum());
            if let Some(rest) = look.used.checked_sub(told).filter(|rest| 0 < *rest) {
                parts.push(format!("{} that the driver keeps or does not name", Bytes(rest)));
            }
            sentence += &format!(", which are {}", parts.join(", "));
        } else {
            sentence += &format!(
                ": this program's context, code and libraries, {}, and what the driver keeps",
                if parts.is_empty() { "other processes".to_owned() } else { parts.join(", ") }
            );
        }
        Some(sentence + ".")
    }
}

impl HeapSize for DeviceUse {
    fn heap_size(&self) -> usize {
        self.looks.capacity() * size_of::<DeviceLook>() + self.processes.capacity() * size_of::<ProcessLook>()
    }
}

impl Query for DeviceUse {
    const NAME: &'static str = "memory of the device";
    type Params = ();
    type Answer = DeviceUse;
    fn answer(asked: &Asked<'_>, (): &(), progress: &Progress) -> Result<DeviceUse, Cancelled> {
        progress.check()?;
        Ok(DeviceUse::of(&asked.subject.snapshot.job, asked.memory()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceSample;

    const MIB: u64 = 1 << 20;

    fn sample(process: Option<u32>, used: u64, time_us: i64) -> DeviceSample {
        DeviceSample { device: 0, process, total: process.is_none().then_some(1024 * MIB), used: Some(used), free: None, time_us }
    }

    #[test]
    fn the_gap_is_told_by_whom_it_is_held() {
        let memory = DeviceMemory::default();
        let facts = vec![("pid".to_owned(), "7".to_owned())];
        for (samples, reserved, told) in [
            (vec![], 0, None),
            (
                vec![sample(None, 500 * MIB, 10)],
                300 * MIB,
                Some(
                    "The device holds 500.00 MiB of 1.00 GiB, as nvidia-smi shows it: 300.00 MiB reserved here and 200.00 MiB \
                     more: this program's context, code and libraries, other processes, and what the driver keeps.",
                ),
            ),
            (
                vec![sample(Some(7), 380 * MIB, 9), sample(Some(8), 100 * MIB, 9), sample(None, 500 * MIB, 10)],
                300 * MIB,
                Some(
                    "The device holds 500.00 MiB of 1.00 GiB, as nvidia-smi shows it: 300.00 MiB reserved here and 200.00 MiB \
                     more, which are 80.00 MiB of this program's context, code and libraries, 100.00 MiB of 1 other process, \
                     20.00 MiB that the driver keeps or does not name.",
                ),
            ),
            (
                vec![sample(None, 100 * MIB, 10)],
                300 * MIB,
                Some(
                    "The device holds 100.00 MiB of 1.00 GiB, as nvidia-smi shows it: less than the 300.00 MiB reserved here, \
                     for it was looked at a moment earlier or later.",
                ),
            ),
        ] {
            let job = Job { facts: facts.clone(), samples, ..Job::default() };
            let found = DeviceUse::of(&job, &memory);
            assert_eq!(found.sentence(Position::START, reserved).as_deref(), told);
        }
    }
}
