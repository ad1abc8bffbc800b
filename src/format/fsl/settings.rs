//! Facts of a job: its settings as the allocator resolved them, its devices, and the rest as text.

use crate::model::{AllocatorSettings, JobDevice};
use serde_json::Value;

/// The allocator's settings, as PyTorch's snapshots state them.
pub(super) fn allocator(value: &Value) -> Option<AllocatorSettings> {
    let mut settings = AllocatorSettings { stated: true, ..AllocatorSettings::default() };
    for (key, value) in value.as_object()? {
        match (key.as_str(), value) {
            ("PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_HIP_ALLOC_CONF" | "PYTORCH_ALLOC_CONF", Value::String(conf)) => {
                settings.conf.clone_from(conf);
            }
            ("max_split_size", Value::Number(_)) => settings.max_split_size = value.as_u64(),
            ("garbage_collection_threshold", Value::Number(share)) => {
                settings.garbage_collection_threshold = share.as_f64().unwrap_or(0.0);
            }
            ("expandable_segments", Value::Bool(on)) => settings.expandable_segments = *on,
            ("roundup_power2_divisions", Value::Object(classes)) => {
                for (mib, divisions) in classes {
                    let class =
                        mib.parse::<u32>().ok().filter(|mib| mib.is_power_of_two()).map(|mib| mib.trailing_zeros() as usize);
                    if let (Some(class), Some(divisions)) = (class.filter(|class| *class < 16), divisions.as_u64()) {
                        settings.roundup_power2_divisions[class] = divisions;
                    }
                }
            }
            (key, value) => settings.other.push((key.to_owned(), text(value))),
        }
    }
    settings.resolve_conf();
    Some(settings)
}

/// The devices of the job.
pub(super) fn devices(value: &Value) -> Vec<JobDevice> {
    let device = |value: &Value| {
        Some(JobDevice {
            ordinal: i32::try_from(value.get("ordinal")?.as_i64()?).ok()?,
            name: value.get("name").map_or_else(String::new, text),
            total: value.get("total").and_then(Value::as_u64),
        })
    };
    value.as_array().into_iter().flatten().filter_map(device).collect()
}

/// One fact of a record of facts, as text.
pub fn fact(json: &str, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    value.get(name).map(text)
}

/// The devices that a record of facts names: their number, and their unchanging name where it is there.
pub fn devices_named(json: &str) -> Vec<(i32, Option<String>)> {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let device = |value: &Value| {
        let uuid = value.get("uuid").and_then(Value::as_str).map(str::to_owned);
        Some((i32::try_from(value.get("ordinal")?.as_i64()?).ok()?, uuid))
    };
    value.get("devices").and_then(Value::as_array).into_iter().flatten().filter_map(device).collect()
}

/// A value for people: a list of words as one line.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| item.is_string()) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
