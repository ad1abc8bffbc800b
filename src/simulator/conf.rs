//! The settings string, `PYTORCH_CUDA_ALLOC_CONF`: read as PyTorch reads it, and written so that it reads it.

use crate::model::settings::LARGE_OWN_SEGMENT;
use crate::model::{AllocatorSettings, Origin};

/// Keys that decide no placement.
const WITHOUT_EFFECT: [&str; 6] = [
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "backend",
];

/// Where the settings string goes. All releases read this one, and where it is set no other.
pub const VARIABLE: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// Where newer releases look when [`VARIABLE`] is not set.
pub const NEWER_VARIABLE: &str = "PYTORCH_ALLOC_CONF";

/// Whether the release that made a recording surely knows [`NEWER_VARIABLE`]: from 2.11 on.
pub fn knows_newer_variable(origin: &Origin) -> bool {
    origin.at_least().is_some_and(|oldest| (2, 11) <= oldest)
}

/// Reads a settings string into settings; what it does not name stays. The error is a sentence for the user.
pub fn read(settings: &mut AllocatorSettings, conf: &str, origin: &Origin) -> Result<(), String> {
    let mut split = None;
    let mut rounding = None;
    for pair in pairs(conf) {
        let Some((key, value)) = pair.split_once(':').map(|(key, value)| (key.trim(), value.trim())) else {
            return Err(format!("`{pair}` is no setting: they are written key:value, with commas between"));
        };
        let wrong = |what: &str| format!("`{value}` does not do for {key}: {what}");
        let mib = || value.parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20)).ok_or_else(|| wrong("a number of MiB"));
        match key {
            "expandable_segments" => {
                settings.expandable_segments = match value {
                    "True" => true,
                    "False" => false,
                    _ => return Err(wrong("True or False")),
                }
            }
            "max_split_size_mb" => split = Some(mib()?),
            "max_non_split_rounding_mb" => rounding = Some(mib()?),
            "large_segment_size_mb" => {
                settings.large_segment_size = mib()?;
                settings.max_non_split_rounding = settings.large_segment_size;
                if settings.large_segment_size <= LARGE_OWN_SEGMENT {
                    return Err(wrong("more than 10 MiB"));
                }
            }
            "garbage_collection_threshold" | "per_process_memory_fraction" => {
                let collects = key == "garbage_collection_threshold";
                let share =
                    value.parse::<f64>().ok().filter(|share| 0.0 < *share && (*share < 1.0 || (*share == 1.0 && !collects)));
                let share = share.ok_or_else(|| wrong("a share between 0 and 1"))?;
                if collects {
                    settings.garbage_collection_threshold = share;
                } else {
                    settings.per_process_memory_fraction = Some(share);
                }
            }
            "roundup_power2_divisions" => {
                settings.roundup_power2_divisions = divisions(value, rest_begins_at_the_last_key(origin))
                    .ok_or_else(|| wrong("powers of two, or [MiB:divisions,…]"))?;
            }
            _ if WITHOUT_EFFECT.contains(&key) || key.starts_with("pinned_") => {}
            _ => return Err(format!("no setting {key} is known that decides where blocks lie")),
        }
    }
    if let Some(rounding) = rounding {
        settings.max_non_split_rounding = rounding;
    }
    if let Some(split) = split {
        if split < settings.large_segment_size {
            let large = settings.large_segment_size >> 20;
            return Err(format!("max_split_size_mb must be at least the size of a large segment, {large}"));
        }
        settings.max_split_size = Some(split);
    }
    Ok(())
}

/// The pairs of a settings string; commas inside brackets do not part them.
pub fn pairs(conf: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = conf.split(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|pair| !pair.is_empty()).collect()
}

/// The pairs of a settings string that decide no placement.
pub fn without_effect(conf: &str) -> Vec<&str> {
    let key = |pair: &str| pair.split(':').next().unwrap_or_default().trim().to_owned();
    pairs(conf).into_iter().filter(|pair| WITHOUT_EFFECT.contains(&key(pair).as_str()) || pair.starts_with("pinned_")).collect()
}

/// The string that stands for settings: the one they came with, where it says what they are; else one is written. A
/// memory fraction is left out where that string does not hold it: the program sets it.
pub fn of(settings: &AllocatorSettings, origin: &Origin) -> String {
    let without_fraction = AllocatorSettings { per_process_memory_fraction: None, ..settings.clone() };
    let mut stated = AllocatorSettings {
        conf: settings.conf.clone(),
        stated: settings.stated,
        other: settings.other.clone(),
        ..AllocatorSettings::default()
    };
    let is_read = read(&mut stated, &settings.conf, origin).is_ok();
    stated.per_process_memory_fraction = None;
    if is_read && stated == without_fraction { settings.conf.clone() } else { write(&without_fraction) }
}

/// Writes settings as a settings string that every release that knows their keys reads back alike; what is as by default
/// is left out. Sizes are cut to MiB, as PyTorch holds them.
pub fn write(settings: &AllocatorSettings) -> String {
    let default = AllocatorSettings::default();
    let mut pairs = Vec::new();
    if settings.expandable_segments {
        pairs.push("expandable_segments:True".to_owned());
    }
    if settings.large_segment_size != default.large_segment_size {
        pairs.push(format!("large_segment_size_mb:{}", settings.large_segment_size >> 20));
    }
    if let Some(split) = settings.max_split_size {
        pairs.push(format!("max_split_size_mb:{}", split >> 20));
    }
    if settings.max_non_split_rounding != settings.large_segment_size {
        pairs.push(format!("max_non_split_rounding_mb:{}", settings.max_non_split_rounding >> 20));
    }
    if settings.roundup_power2_divisions != default.roundup_power2_divisions {
        pairs.push(format!("roundup_power2_divisions:{}", write_divisions(&settings.roundup_power2_divisions)));
    }
    if settings.garbage_collection_threshold != default.garbage_collection_threshold {
        pairs.push(format!("garbage_collection_threshold:{}", settings.garbage_collection_threshold));
    }
    if let Some(fraction) = settings.per_process_memory_fraction {
        pairs.push(format!("per_process_memory_fraction:{fraction}"));
    }
    pairs.join(",")
}

/// One number where all are equal; else a list, without the `>` that releases read differently: its first pair stands
/// for all below it, and what is not named is off.
fn write_divisions(all: &[u64; 16]) -> String {
    let first = all.iter().take_while(|divisions| **divisions == all[0]).count() - 1;
    if first == all.len() - 1 {
        return all[0].to_string();
    }
    let rest = all.iter().enumerate().skip(first).filter(|(place, divisions)| *place == first || **divisions != 0);
    let pairs: Vec<String> = rest.map(|(place, divisions)| format!("{}:{divisions}", 1u64 << place)).collect();
    format!("[{}]", pairs.join(","))
}

/// Up to PyTorch 2.8 the `>` of a list overwrites its last key too.
fn rest_begins_at_the_last_key(origin: &Origin) -> bool {
    let newest = origin.written_by.as_ref().and_then(|range| range.at_most.as_deref());
    let minor = newest.and_then(|newest| newest.strip_prefix("2.")).and_then(|minor| minor.parse::<u32>().ok());
    newest.is_some_and(|newest| newest.starts_with("1.")) || minor.is_some_and(|minor| minor <= 8)
}

fn divisions(value: &str, rest_overwrites: bool) -> Option<[u64; 16]> {
    let mut all = [0; 16];
    let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        all.fill(value.parse::<u64>().ok().filter(|divisions| divisions.is_power_of_two())?);
        return Some(all);
    };
    let mut last = None;
    for pair in list.split(',') {
        let (size, divisions) = pair.split_once(':')?;
        let divisions =
            divisions.trim().parse::<u64>().ok().filter(|divisions| *divisions == 0 || divisions.is_power_of_two())?;
        if size.trim() == ">" {
            let from = last.map_or(0, |last: usize| last + usize::from(!rest_overwrites)).min(16);
            all[from..].fill(divisions);
            break;
        }
        let size = size.trim().parse::<u64>().ok().filter(|size| size.is_power_of_two())?;
        let place = size.ilog2().min(15) as usize;
        if last.is_none() {
            all[..place].fill(divisions);
        }
        all[place] = divisions;
        last = Some(place);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::VersionRange;

    #[test]
    fn what_is_written_is_read_back() {
        let list = |pairs: &[(usize, u64)]| {
            let mut all = [0; 16];
            pairs.iter().for_each(|(place, divisions)| all[*place] = *divisions);
            all
        };
        let plain = AllocatorSettings::default();
        let range = VersionRange { at_least: "2.3".into(), at_most: Some("2.8".into()) };
        let older = Origin { written_by: Some(range), ..Origin::default() };
        let mib = |mib: u64| mib << 20;
        let large = AllocatorSettings { large_segment_size: mib(64), max_non_split_rounding: mib(64), ..plain.clone() };
        for (settings, written) in [
            (plain.clone(), ""),
            (AllocatorSettings { expandable_segments: true, ..plain.clone() }, "expandable_segments:True"),
            (AllocatorSettings { max_split_size: Some(mib(128)), ..plain.clone() }, "max_split_size_mb:128"),
            (large.clone(), "large_segment_size_mb:64"),
            (
                AllocatorSettings { max_non_split_rounding: mib(20), max_split_size: Some(mib(512)), ..large },
                "large_segment_size_mb:64,max_split_size_mb:512,max_non_split_rounding_mb:20",
            ),
            (
                AllocatorSettings { garbage_collection_threshold: 0.8, per_process_memory_fraction: Some(0.75), ..plain.clone() },
                "garbage_collection_threshold:0.8,per_process_memory_fraction:0.75",
            ),
            (AllocatorSettings { roundup_power2_divisions: [4; 16], ..plain.clone() }, "roundup_power2_divisions:4"),
            (
                AllocatorSettings { roundup_power2_divisions: list(&[(0, 8), (1, 8), (8, 4), (15, 1)]), ..plain.clone() },
                "roundup_power2_divisions:[2:8,256:4,32768:1]",
            ),
            (
                AllocatorSettings { roundup_power2_divisions: list(&[(3, 2)]), ..plain.clone() },
                "roundup_power2_divisions:[4:0,8:2]",
            ),
        ] {
            assert_eq!(write(&settings), written);
            for origin in [&older, &Origin::default()] {
                let mut again = AllocatorSettings::default();
                read(&mut again, written, origin).expect("a sound string");
                assert_eq!(again, settings, "{written}");
            }
        }
        let conf = "backend:native, expandable_segments:True,pinned_use_background_threads:True,max_split_size_mb:64";
        assert_eq!(without_effect(conf), ["backend:native", "pinned_use_background_threads:True"]);
    }

    #[test]
    fn settings_are_read_as_pytorch_reads_them() {
        let newer = Origin::default();
        let range = VersionRange { at_least: "2.8".into(), at_most: Some("2.8".into()) };
        let older = Origin { written_by: Some(range), ..Origin::default() };
        let of = |conf: &str, origin: &Origin| {
            let mut settings = AllocatorSettings::default();
            read(&mut settings, conf, origin).map(|()| settings)
        };
        let list = "roundup_power2_divisions:[64:8,256:4,512:2,>:1],expandable_segments:True";
        let read = of(list, &newer).expect("a sound string");
        assert!(read.expandable_segments);
        assert_eq!(read.roundup_power2_divisions, [8, 8, 8, 8, 8, 8, 8, 0, 4, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(of(list, &older).expect("a sound string").roundup_power2_divisions[9], 1);
        assert_eq!(of("roundup_power2_divisions:4", &newer).expect("a sound string").roundup_power2_divisions, [4; 16]);
        let large = of("max_split_size_mb:64,large_segment_size_mb:32", &newer).expect("a sound string");
        assert_eq!((large.large_segment_size, large.max_split_size), (32 << 20, Some(64 << 20)));
        assert_eq!(large.max_non_split_rounding, 32 << 20);
        for wrong in [
            "expandable_segments",
            "expandable_segments:yes",
            "max_split_size_mb:10",
            "max_split_size_mb:128,large_segment_size_mb:256",
            "max_split_size_mb:99999999999999999999",
            "garbage_collection_threshold:1.0",
            "roundup_power2_divisions:[64:3]",
            "roundup_power2_divisions:3",
            "large_segment_size_mb:10",
            "colour:blue",
        ] {
            assert!(of(wrong, &newer).is_err(), "{wrong}");
        }
    }
}
