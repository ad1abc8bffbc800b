//! The sensible settings of a release, all served at once and ranked: which of them does best.
//!
//! Always: a row's figures are those of a run of its own; two rows that come out equal stand with the simpler one first.
//! Only settings that the recording's release knows are tried (`c10/cuda/CUDAAllocatorConfig.h` of the releases).

use crate::base::{Cancelled, Progress};
use crate::model::{AllocatorSettings, Origin};
use crate::simulator::conf;
use crate::simulator::policy::PolicyKind;
use crate::simulator::request::RequestStream;
use crate::simulator::scenario::{AtRecordedFailure, Outcome, Scenario, limit, simulate_as};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

/// Settings that were tried, and what came out.
#[derive(Clone, Debug)]
pub struct SweepRow {
    /// The settings string to set, empty for PyTorch's defaults. Keys of the recorded one that decide no placement stay.
    pub conf: String,
    /// The settings it stands for. A memory fraction that the program sets stays, though no string holds it.
    pub settings: AllocatorSettings,
    /// Whether it is what the recording ran with.
    pub is_recorded: bool,
    /// What came out.
    pub outcome: Outcome,
    /// What is left of the capacity where most is reserved, bytes; none without a capacity.
    pub spare: Option<u64>,
}

impl SweepRow {
    /// Whether all requests were served, up to where the recording tells.
    pub fn completes(&self) -> bool {
        self.outcome.failure.is_none()
    }
    /// Calls that took memory from the driver or gave it back.
    pub fn driver_calls(&self) -> u64 {
        self.outcome.counters.device_allocs + self.outcome.counters.device_frees
    }
}

const SPLITS: [u64; 6] = [64, 128, 256, 512, 1024, 2048];
const ROUNDUPS: [&str; 6] = ["2", "4", "8", "16", "[256:1,512:2,1024:4,>:8]", "[64:8,256:4,512:2,>:1]"];
const THRESHOLDS: [&str; 3] = ["0.6", "0.8", "0.9"];
const LARGE_SEGMENTS: [u64; 4] = [32, 64, 128, 256];

/// The settings strings worth trying for a recording, the simplest first: the defaults, one setting, two.
pub fn sensible(base: &Scenario, origin: &Origin) -> Vec<String> {
    let knows = |release: (u32, u32)| origin.at_least().is_some_and(|oldest| release <= oldest);
    let expandable: &[&str] = if knows((2, 1)) { &["expandable_segments:True"] } else { &[] };
    let splits = |sizes: &[u64]| sizes.iter().map(|size| format!("max_split_size_mb:{size}")).collect::<Vec<_>>();
    // Lists are read since 2.0; before, one number.
    let roundups = ROUNDUPS.iter().filter(|value| !value.starts_with('[') || knows((2, 0)));
    let roundups: Vec<String> = roundups.map(|value| format!("roundup_power2_divisions:{value}")).collect();
    // Garbage is collected under a limit only.
    let collects = limit(&base.settings, base.rules, base.total).is_some();
    let thresholds = THRESHOLDS.iter().filter(|_| collects);
    let thresholds: Vec<String> = thresholds.map(|share| format!("garbage_collection_threshold:{share}")).collect();
    let large = LARGE_SEGMENTS.iter().filter(|_| knows((2, 11)));
    let large: Vec<String> = large.map(|size| format!("large_segment_size_mb:{size}")).collect();
    let both = |firsts: &[String], seconds: &[String]| -> Vec<String> {
        firsts.iter().flat_map(|first| seconds.iter().map(move |second| format!("{first},{second}"))).collect()
    };
    let expandable: Vec<String> = expandable.iter().map(|text| (*text).to_owned()).collect();
    let few = splits(&[128, 512]);
    [
        vec![String::new()],
        expandable.clone(),
        splits(&SPLITS),
        roundups.clone(),
        thresholds.clone(),
        large.clone(),
        both(&expandable, &roundups),
        both(&expandable, &large),
        both(&few, &roundups[1..3]),
        both(&few, &thresholds),
        both(&few, &large),
    ]
    .concat()
}

/// Serves the requests under the recorded settings and all [`sensible`] ones, on the card and by the rules of `base`,
/// whose settings are the recorded ones, on all cores.
///
/// Ranked: those that serve all first, among the others those that come furthest; then by the most reserved, the memory
/// to spare, the calls of the driver, the retries; of equal ones the simpler.
pub fn sweep(asked: &RequestStream, base: &Scenario, origin: &Origin, progress: &Progress) -> Result<Vec<SweepRow>, Cancelled> {
    let tried = candidates(base, origin);
    progress.stage("trying settings", tried.len() as u64)?;
    let done = AtomicU64::new(0);
    let run = |(conf, settings): (String, AllocatorSettings)| {
        let scenario = Scenario { policy: PolicyKind::Caching, settings, ..base.clone() };
        let outcome = simulate_as(asked, &scenario, AtRecordedFailure::AsScenario, &progress.part())?;
        progress.at(done.fetch_add(1, Ordering::Relaxed) + 1)?;
        let spare = scenario.capacity.map(|capacity| capacity.saturating_sub(outcome.counters.reserved.peak));
        let is_recorded = scenario.settings == base.settings;
        Ok(SweepRow { conf, settings: scenario.settings, is_recorded, outcome, spare })
    };
    let mut rows = tried.into_par_iter().map(run).collect::<Result<Vec<_>, Cancelled>>()?;
    rows.sort_by_key(|row| {
        let came_to = row.outcome.failure.map_or(u32::MAX, |failure| failure.event.0);
        let counters = &row.outcome.counters;
        (Reverse(came_to), counters.reserved.peak, Reverse(row.spare), row.driver_calls(), counters.retries)
    });
    Ok(rows)
}

/// What is tried: each string with its settings, the recorded ones among them, each once.
fn candidates(base: &Scenario, origin: &Origin) -> Vec<(String, AllocatorSettings)> {
    let recorded = &base.settings;
    let kept = conf::without_effect(&recorded.conf);
    let mut tried: Vec<(String, AllocatorSettings)> = Vec::new();
    for text in sensible(base, origin) {
        let mut settings = AllocatorSettings {
            conf: text.clone(),
            stated: recorded.stated,
            per_process_memory_fraction: recorded.per_process_memory_fraction,
            other: recorded.other.clone(),
            ..AllocatorSettings::default()
        };
        // What is written above is read; a release that does not is left out.
        if conf::read(&mut settings, &text, origin).is_err() {
            continue;
        }
        let fraction = conf::pairs(&recorded.conf).into_iter().filter(|pair| pair.starts_with("per_process_memory_fraction"));
        let pairs: Vec<&str> =
            (!text.is_empty()).then_some(text.as_str()).into_iter().chain(fraction).chain(kept.clone()).collect();
        settings.conf = pairs.join(",");
        tried.push((settings.conf.clone(), settings));
    }
    let same = |settings: &AllocatorSettings| AllocatorSettings { conf: recorded.conf.clone(), ..settings.clone() } == *recorded;
    let own = (conf::of(recorded, origin), recorded.clone());
    match tried.iter_mut().find(|(_, settings)| same(settings)) {
        Some(row) => *row = own,
        None => tried.push(own),
    }
    tried
}
