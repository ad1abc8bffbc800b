//! What NVML says of the machine's cards: their memory, and who is on them. It is what `nvidia-smi` shows.
//!
//! Always: the library is looked for when it is asked, and its lack is a sentence; nothing here touches CUDA, so no context
//! is made and no memory taken.

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number, as NVML counts: by place in the machine.
    pub index: u32,
    /// Its unchanging name: `GPU-…`.
    pub uuid: String,
    /// What it is called.
    pub name: String,
    /// All its memory in bytes.
    pub total: u64,
    /// Memory in use in bytes, by whomever.
    pub used: u64,
    /// Memory not in use in bytes.
    pub free: u64,
    /// Who is on it, by number of the process.
    pub processes: Vec<GpuProcess>,
}

/// A process on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its number, as the machine itself counts: inside a container another one may be meant.
    pub process: u32,
    /// Memory it uses in bytes, where the driver tells.
    pub used: Option<u64>,
}

/// The library, ready to be asked.
#[derive(Debug)]
pub struct Nvidia(Nvml);

impl Nvidia {
    /// Looks for the library; a sentence where there is none.
    pub fn find() -> Result<Nvidia, String> {
        Nvml::init().map(Nvidia).map_err(|error| match error {
            NvmlError::LibloadingError(_) => {
                "what is on the cards cannot be told: this machine has no NVIDIA driver (libnvidia-ml.so.1 was not found)"
                    .to_owned()
            }
            other => sentence(&other),
        })
    }
    /// All cards with who is on them.
    pub fn gpus(&self) -> Result<Vec<Gpu>, String> {
        let count = self.0.device_count().map_err(|error| sentence(&error))?;
        (0..count).map(|index| self.gpu(index).map_err(|error| sentence(&error))).collect()
    }
    fn gpu(&self, index: u32) -> Result<Gpu, NvmlError> {
        let device = self.0.device_by_index(index)?;
        let memory = device.memory_info()?;
        // Who is on it may be nobody's to know; the memory is told all the same.
        let running = device.running_compute_processes().unwrap_or_default();
        let mut processes: Vec<GpuProcess> = running
            .into_iter()
            .map(|running| {
                let used = match running.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                };
                GpuProcess { process: running.pid, used }
            })
            .collect();
        processes.sort_by_key(|running| running.process);
        Ok(Gpu {
            index,
            uuid: device.uuid().unwrap_or_default(),
            name: device.name().unwrap_or_default(),
            total: memory.total,
            used: memory.used,
            free: memory.free,
            processes,
        })
    }
}

/// All cards with who is on them, asked once; a sentence why not.
pub fn gpus() -> Result<Vec<Gpu>, String> {
    Nvidia::find()?.gpus()
}

fn sentence(error: &NvmlError) -> String {
    format!("what is on the cards cannot be told: the driver's library answers \u{201c}{error}\u{201d}")
}
