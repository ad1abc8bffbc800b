//! Pairs events into lives.

use crate::base::{Cancelled, Progress};
use crate::model::{AllocatorSettings, DeviceMemory, Pools, Warnings};
use crate::replay::builder::DeviceRecord;

/// What came to light while pairing.
#[derive(Clone, Debug, Default)]
pub struct Findings {}

/// A device's memory with what came to light while inferring it.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// The memory.
    pub memory: DeviceMemory,
    /// What came to light.
    pub findings: Findings,
}

/// Infers the lives of one device.
pub fn infer(
    ordinal: i32,
    record: DeviceRecord,
    _settings: &AllocatorSettings,
    _pools: &mut Pools,
    _warnings: &mut Warnings,
    _progress: &Progress,
) -> Result<Lives, Cancelled> {
    let memory = DeviceMemory { ordinal, trace: record.trace, ..DeviceMemory::default() };
    Ok(Lives { memory, findings: Findings::default() })
}
