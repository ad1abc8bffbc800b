//! One recording predicts the others: any two recordings of one job under different allocator settings, memory fractions
//! or cards. From the one alone, what PyTorch counted in the other; every figure must be the same.
//!
//! `FRAGSCOPE_TRUTH_DIR=FOLDER[:FOLDER…] cargo test --test it pairs -- --nocapture` prints the table of all pairs. A
//! recording is a `NAME.pickle.gz` with a `NAME.json` beside it that says which job it was (`name`, `options`, `torch`),
//! its environment (`env`) and what PyTorch counted (`devices`). Two recordings are of one job where these are equal but
//! for `PYTORCH_CUDA_ALLOC_CONF`, the card's size and the fraction. Without a folder it is the samples and `tests/pairs`.

use crate::samples;
use crate::simulator::{CONTEXT, asked, card, counters_of, files, recorded};
use fragscope::base::{Progress, grouped};
use fragscope::model::{Action, AllocatorSettings, DeviceId, EventIdx, Missing, Snapshot};
use fragscope::replay::Replay;
use fragscope::simulator::{
    Counters, Fidelity, FigureRange, Outcome, RequestStream, Rules, Scenario, capacity_told, conf, placement_range, simulate,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Larger recordings repeat what the others show.
const LARGEST: usize = 200_000;

/// A recording of a job.
struct Member {
    name: String,
    path: PathBuf,
    truth: Value,
}

/// What makes recordings members of one family: all that is said of them but what may differ.
fn job(truth: &Value) -> String {
    let mut options = truth["options"].clone();
    let mut env = truth["env"].clone();
    for (map, keys) in
        [(&mut options, &["fraction"][..]), (&mut env, &["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "FAKE_CUDA_MEM_GB"])]
    {
        if let Some(map) = map.as_object_mut() {
            map.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    format!("{} {} {options} {env}", truth["torch"], truth["name"])
}

fn families() -> Vec<Vec<Member>> {
    let mut families: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    for path in files() {
        let truth = counters_of(&path);
        let events = truth["n_events"].as_u64().unwrap_or_default() as usize;
        if truth["name"].is_string() && 1 < events && events <= LARGEST {
            families.entry(job(&truth)).or_default().push(Member { name: samples::stem(&path), path, truth });
        }
    }
    families.into_values().filter(|family| 1 < family.len()).collect()
}

/// The place of an event among the requests of the device.
fn place_of(snapshot: &Snapshot, id: DeviceId, event: EventIdx) -> u64 {
    let before = snapshot.devices[id].trace.actions()[..event.0 as usize].iter();
    before.filter(|action| matches!(action, Action::Alloc | Action::Oom)).count() as u64
}

/// The first failure of a recording: its place among the requests, and the bytes it says.
fn death(member: &Member) -> Option<(u64, u64)> {
    let snapshot = samples::open(&member.path);
    let id = snapshot.busiest_device()?;
    let trace = &snapshot.devices[id].trace;
    let event = *trace.ooms().first()?;
    Some((place_of(&snapshot, id, event), trace.entry(event).size))
}

/// The recording others are predicted from.
struct Base {
    snapshot: Snapshot,
    id: DeviceId,
    asked: RequestStream,
    rules: Rules,
    capacity: Option<u64>,
}

impl Base {
    /// None where it begins mid-run: what PyTorch counted is of the whole run.
    fn of(member: &Member) -> Option<Base> {
        let snapshot = samples::open(&member.path);
        let id = snapshot.busiest_device()?;
        let memory = &snapshot.devices[id];
        if memory.coverage.lacks(Missing::Start) || memory.ordinal < 0 {
            return None;
        }
        let replay = Replay::new(memory);
        let mut asked = asked(&snapshot, id, &replay);
        let recorded = recorded(&snapshot, &member.truth);
        let found = Fidelity::of(&snapshot, id, &replay, &mut asked, &recorded, &Progress::new()).expect("nobody cancels")?;
        let capacity = capacity_told(memory, &replay);
        Some(Base { snapshot, id, asked, rules: found.rules, capacity })
    }
    fn ordinal(&self) -> usize {
        self.snapshot.devices[self.id].ordinal as usize
    }
    /// What would be under the other's settings and on its card.
    fn predict(&self, own: &Value, other: &Value) -> (Outcome, Option<FigureRange>) {
        let mut settings = AllocatorSettings::default();
        let conf = other["env"]["PYTORCH_CUDA_ALLOC_CONF"].as_str().unwrap_or_default();
        conf::read(&mut settings, conf, &self.snapshot.origin).expect("settings PyTorch ran with");
        if let Some(fraction) = other["options"]["fraction"].as_str().and_then(|text| text.parse().ok()) {
            settings.per_process_memory_fraction = Some(fraction);
        }
        let total = card(other);
        let told = self.capacity.filter(|_| card(own) == total);
        let capacity = Some(told.unwrap_or(total - CONTEXT));
        let scenario = Scenario { capacity, total: Some(total), ..Scenario::new(settings, self.rules) };
        let outcome = simulate(&self.asked, &scenario, &Progress::new()).expect("nobody cancels");
        (outcome, placement_range(&self.asked, &scenario, &Progress::new()).expect("nobody cancels"))
    }
}

/// A figure: its name, PyTorch's key, ours, and its range.
type Figure = (&'static str, &'static str, fn(&Counters) -> u64, fn(&FigureRange) -> &RangeInclusive<u64>);

const FIGURES: [Figure; 9] = [
    ("reserved", "reserved_bytes.all.peak", |of| of.reserved.peak, |range| &range.reserved),
    ("allocated", "allocated_bytes.all.peak", |of| of.allocated.peak, |range| &range.allocated),
    ("active", "active_bytes.all.peak", |of| of.active.peak, |range| &range.active),
    ("requested", "requested_bytes.all.peak", |of| of.requested.peak, |range| &range.requested),
    ("segments", "segment.all.peak", |of| of.segments.peak, |range| &range.segments),
    ("retries", "num_alloc_retries", |of| of.retries, |range| &range.retries),
    ("ooms", "num_ooms", |of| of.ooms, |range| &range.ooms),
    ("gave", "num_device_alloc", |of| of.device_allocs, |range| &range.device_allocs),
    ("took", "num_device_free", |of| of.device_frees, |range| &range.device_frees),
];

#[test]
fn one_recording_predicts_the_others() {
    let head = FIGURES.map(|(name, ..)| format!("{name:>14}")).concat();
    println!("{:20} {:28} {:28}{head}  dies at request, bytes", "", "from", "predicted");
    let (mut exact, mut beyond, mut wrong, mut widths) = (0, 0, Vec::new(), Vec::new());
    for family in families() {
        let dies: Vec<_> = family.iter().map(death).collect();
        for (place, from) in family.iter().enumerate() {
            let Some(base) = Base::of(from) else { continue };
            let recorded_failure = base.snapshot.devices[base.id].trace.ooms().first().copied();
            for (other, member) in family.iter().enumerate().filter(|(other, _)| *other != place) {
                let (outcome, range) = base.predict(&from.truth, &member.truth);
                let (mut cells, mut same, mut within) = (String::new(), true, true);
                for (_, key, ours, span) in FIGURES {
                    let ours = ours(&outcome.counters);
                    // Old releases lack some counters.
                    let theirs = member.truth["devices"][base.ordinal()]["stats"][key].as_u64();
                    let differs = theirs.is_some_and(|theirs| theirs != ours);
                    same &= !differs;
                    within &= range.as_ref().zip(theirs).is_none_or(|(range, theirs)| span(range).contains(&theirs));
                    let cell = if differs { format!("{}!={}", ours, theirs.unwrap_or_default()) } else { grouped(ours) };
                    cells += &format!("{cell:>14} ");
                }
                let dies_here =
                    outcome.failure.map(|failure| (place_of(&base.snapshot, base.id, failure.event), failure.requested));
                same &= dies_here == dies[other];
                if let Some(reserved) = range.map(|range| range.reserved).filter(|reserved| reserved.start() < reserved.end()) {
                    let width = (reserved.end() - reserved.start()) as f64 / *reserved.end() as f64 * 100.0;
                    widths.push((width, format!("{} to {}", from.name, member.name)));
                }
                // The other job went on behind the failure that ends this recording.
                let went_on = outcome.served_instead.is_some()
                    || (recorded_failure.is_some() && outcome.failure.map(|failure| failure.event) == recorded_failure);
                let word = match (same, went_on) {
                    (true, _) => "exact",
                    (false, true) => "beyond the recording",
                    (false, false) => "WRONG",
                };
                let dies_there = if dies_here == dies[other] { String::new() } else { format!(" not {:?}", dies[other]) };
                let torch = member.truth["torch"].as_str().unwrap_or_default().split('+').next().unwrap_or_default();
                let row = format!(
                    "{word:20} {:28} {:28}{cells} {dies_here:?}{dies_there}",
                    format!("{torch}/{}", from.name),
                    member.name
                );
                println!("{row}");
                match (same, went_on) {
                    (true, _) => exact += 1,
                    (false, true) => beyond += 1,
                    (false, false) => wrong.push(row.clone()),
                }
                if same && !within {
                    wrong.push(format!("not within the range: {row}"));
                }
            }
        }
    }
    println!("{exact} exact, {beyond} beyond what was recorded, {} wrong", wrong.len());
    widths.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some(middle), Some((most, pair))) = (widths.get(widths.len() / 2), widths.last()) {
        println!(
            "reserved differs by placement in {}: by {:.2} % in the middle, {most:.2} % at most ({pair})",
            widths.len(),
            middle.0
        );
    }
    assert!(0 < exact, "no two recordings are of one job");
    assert!(wrong.is_empty(), "predictions that are not what PyTorch counted:\n{}", wrong.join("\n"));
}
