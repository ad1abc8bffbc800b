//! Looks at the cards while a job runs, and writes what they hold into the job's logs.
//!
//! Always: each look is one record at the end of a log, written in one piece, as the job's own are; where NVML is not
//! there nothing is written. A look never delays the job: it is made from outside.

use crate::capture::gpus::{Gpu, Nvidia};
use crate::capture::logs;
use crate::format::fsl::LogWriter;
use crate::model::DeviceSample;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(250);
/// Processes of one card that are written down at a look.
const MOST_PROCESSES: usize = 32;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Sampling {
    nvidia: Option<Nvidia>,
    last: Option<Instant>,
    /// The cards of each log's devices, once the log names them.
    devices: BTreeMap<PathBuf, Vec<(i32, u32)>>,
}

impl Sampling {
    /// Looks for NVML.
    pub(super) fn new() -> Sampling {
        Sampling { nvidia: Nvidia::find().ok(), last: None, devices: BTreeMap::new() }
    }
    /// Looks, where it is time to, and writes into the logs of the job that was told to write `out`.
    pub(super) fn look(&mut self, out: &Path) {
        let Some(nvidia) = &self.nvidia else { return };
        if self.last.is_some_and(|last| last.elapsed() < BETWEEN) {
            return;
        }
        self.last = Some(Instant::now());
        let found = logs::of(out);
        if found.is_empty() {
            return;
        }
        let gpus = match nvidia.gpus() {
            Ok(gpus) => gpus,
            // A card that is lost stays so.
            Err(_) => {
                self.nvidia = None;
                return;
            }
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let time_us = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        for log in found {
            let devices = match self.devices.get(&log) {
                Some(known) => known,
                None => {
                    let Some(devices) = logs::devices_of(&log) else { continue };
                    self.devices.entry(log.clone()).or_insert(places(&devices, &gpus))
                }
            };
            let samples: Vec<DeviceSample> = devices
                .iter()
                .filter_map(|(ordinal, index)| Some((*ordinal, gpus.iter().find(|gpu| gpu.index == *index)?)))
                .flat_map(|(ordinal, gpu)| samples_of(ordinal, gpu, time_us))
                .collect();
            // A log that cannot be written to is still whole.
            let _ = append(&log, &samples);
        }
    }
}

fn samples_of(device: i32, gpu: &Gpu, time_us: i64) -> Vec<DeviceSample> {
    let of = |running: &crate::capture::gpus::GpuProcess| DeviceSample {
        device,
        process: Some(running.process),
        total: None,
        used: running.used,
        free: None,
        time_us,
    };
    let whole =
        DeviceSample { device, process: None, total: Some(gpu.total), used: Some(gpu.used), free: Some(gpu.free), time_us };
    std::iter::once(whole).chain(gpu.processes.iter().take(MOST_PROCESSES).map(of)).collect()
}

fn append(log: &Path, samples: &[DeviceSample]) -> std::io::Result<()> {
    let mut record = Vec::new();
    LogWriter::appending(&mut record).samples(samples)?;
    std::fs::OpenOptions::new().append(true).open(log)?.write_all(&record)
}

/// The card of each device: by its unchanging name where the log has it; else by what the job may see.
fn places(devices: &[(i32, Option<String>)], gpus: &[Gpu]) -> Vec<(i32, u32)> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let place = |(ordinal, uuid): &(i32, Option<String>)| {
        let by_name = |name: &str| gpus.iter().find(|gpu| !name.is_empty() && gpu.uuid.starts_with(name)).map(|gpu| gpu.index);
        let index = match (uuid, gpus) {
            (Some(uuid), _) => by_name(uuid),
            (None, [only]) => Some(only.index),
            (None, _) if visible.is_empty() => u32::try_from(*ordinal).ok(),
            (None, _) => {
                let word = visible.split(',').map(str::trim).nth(usize::try_from(*ordinal).ok()?)?;
                word.parse().ok().or_else(|| by_name(word))
            }
        };
        Some((*ordinal, index?))
    };
    devices.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_among_the_cards() {
        let gpu = |index: u32, uuid: &str| Gpu {
            index,
            uuid: uuid.to_owned(),
            name: String::new(),
            total: 10,
            used: 4,
            free: 6,
            processes: Vec::new(),
        };
        let two = [gpu(0, "GPU-aa"), gpu(1, "GPU-bb")];
        assert_eq!(places(&[(0, Some("GPU-bb".into())), (1, Some("GPU-cc".into()))], &two), [(0, 1)]);
        assert_eq!(places(&[(0, None)], &two[1..]), [(0, 1)]);
        assert_eq!(places(&[(1, None), (-1, None)], &two), [(1, 1)]);
    }
}
