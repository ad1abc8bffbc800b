//! Releases to the driver before the moment: retries under pressure, and `empty_cache()` called so often that the same
//! memory is taken again and again.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, MOST_EVIDENCE, Rule, Severity};
use crate::analysis::diagnosis::verdict::{Verdict, plural};
use crate::analysis::pressure::{Pressure, PressureRelease, ReleaseCause};
use crate::base::{Bytes, Cancelled, Progress, grouped};
use crate::model::{EventIdx, Item};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "pressure", title: "releases to the driver", look };

/// `empty_cache()` is often called once or twice with good reason: after loading, between phases.
const OFTEN: u64 = 10;

fn look(facts: &Facts<'_>, _verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let pressure = Pressure::of(facts.snapshot, facts.memory, facts.replay, progress)?;
    let before = |release: &&PressureRelease| release.end() <= facts.state.position;
    let mut found = Vec::new();

    let retries: Vec<&PressureRelease> = pressure.of_cause(ReleaseCause::Retry).filter(before).collect();
    // Every failure had its retry: one that gave nothing back says nothing.
    let bytes = sum(&retries, |retry| retry.bytes);
    if let Some(last) = retries.last().filter(|_| 0 < bytes) {
        let count = retries.len() as u64;
        let outcome = match (last.failed, last.bytes) {
            (false, _) => "the last one still succeeded.".to_owned(),
            (true, 0) => "the last one found nothing to give back.".to_owned(),
            (true, bytes) => format!("the last one gave {} back, and it was not enough.", Bytes(bytes)),
        };
        let sentence = format!(
            "{} {} up to here: the driver did not give what was asked, all that lay wholly free went back ({} in all), and it was tried again; {outcome}",
            grouped(count),
            if count == 1 { "retry" } else { "retries" },
            Bytes(bytes),
        );
        let finding = Finding::new(Severity::Note, sentence, bytes).shown_by(events(&retries));
        let finding = finding
            .advise("Each retry synchronises the device and asks the driver anew: a job that retries is slow before it fails.");
        found.push(if retries.iter().all(|retry| retry.certain) {
            finding
        } else {
            finding.sure(Certainty::Likely, "Some of these may have been garbage collections that left nothing.")
        });
    }

    let emptied: Vec<&PressureRelease> = pressure.of_cause(ReleaseCause::EmptyCache).filter(before).collect();
    let (bytes, again) = (sum(&emptied, |run| run.bytes), sum(&emptied, |run| run.regained.bytes));
    if OFTEN <= emptied.len() as u64 && bytes / 2 <= again {
        let segments = sum(&emptied, |run| u64::from(run.regained.count));
        let time = sum(&emptied, |run| run.regained.at_most_us.unwrap_or(0));
        let time =
            if time == 0 { String::new() } else { format!(", at events that took {:.1} ms at most", time as f64 / 1000.0) };
        let sentence = format!(
            "The cache was emptied {} times, {} in all, and {} of it {} taken from the driver again ({} {}{time}).",
            grouped(emptied.len() as u64),
            Bytes(bytes),
            Bytes(again),
            if again == 1 { "was" } else { "were" },
            grouped(segments),
            plural(segments, "call"),
        );
        found.push(
            Finding::new(Severity::Note, sentence, again)
                .shown_by(events(&emptied))
                .sure(Certainty::Likely, "Nothing in a recording names empty_cache(): releases that no allocation asked for are taken for it.")
                .advise("torch.cuda.empty_cache() in a loop costs time and gives nothing to PyTorch itself: call it once between phases."),
        );
    }
    Ok(found)
}

fn sum(releases: &[&PressureRelease], of: impl Fn(&PressureRelease) -> u64) -> u64 {
    releases.iter().fold(0u64, |sum, release| sum.saturating_add(of(release)))
}

fn events(releases: &[&PressureRelease]) -> Vec<Item> {
    releases.iter().rev().take(MOST_EVIDENCE).map(|release| Item::Event(EventIdx(release.events.start))).collect()
}
