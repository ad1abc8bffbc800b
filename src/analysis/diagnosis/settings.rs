//! Settings that clash, do nothing, or cap.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "settings", title: "settings of the allocator", look };

fn look(facts: &Facts<'_>, _verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let settings = facts.settings();
    let mut found = Vec::new();
    if let Some(limit) = settings.max_split_size
        && settings.expandable_segments
    {
        let sentence = format!(
            "max_split_size_mb ({}) and expandable_segments are set together: ranges of that size and more are never split, so \
             each such request maps new memory and reserved climbs.",
            Bytes(limit)
        );
        found.push(Finding::new(Severity::Warning, sentence, 0).advise("Use one of the two: leave max_split_size_mb out."));
    }
    if let Some(limit) = settings.max_split_size
        && !settings.expandable_segments
        && facts.memory.has_history()
        && !facts.memory.segments.as_slice().iter().any(|segment| limit <= segment.size)
    {
        let sentence = format!("max_split_size_mb ({}) never took effect: no segment was that large.", Bytes(limit));
        found.push(Finding::new(Severity::Note, sentence, 0));
    }
    if 0.0 < settings.garbage_collection_threshold && settings.expandable_segments {
        let sentence = "garbage_collection_threshold does nothing with expandable_segments: ranges of these are never collected.";
        found.push(Finding::new(Severity::Note, sentence.to_owned(), 0).advise("Leave the threshold out."));
    } else if 0.0 < settings.garbage_collection_threshold {
        let threshold = settings.garbage_collection_threshold;
        let fraction = facts.fraction();
        match (fraction, facts.card.total) {
            (None, _) => {
                let sentence = format!(
                    "garbage_collection_threshold:{threshold} works only where a memory fraction below 1 is set, and the file does \
                     not tell of one."
                );
                let finding = Finding::new(Severity::Note, sentence, 0)
                    .sure(Certainty::Possible, "A fraction set by a call is not in the file.")
                    .advise("Call torch.cuda.set_per_process_memory_fraction(0.95), or leave the threshold out.");
                found.push(finding);
            }
            (Some(fraction), Some(total)) => {
                let from = (total as f64 * fraction * threshold) as u64;
                let peak = facts.timeline.reserved.peak().1;
                if peak < from {
                    let sentence = format!(
                        "garbage_collection_threshold:{threshold} never took effect: it begins at {}, and {} is the most ever reserved.",
                        Bytes(from),
                        Bytes(peak)
                    );
                    found.push(Finding::new(Severity::Note, sentence, 0));
                }
            }
            (Some(_), None) => {}
        }
    }
    if let Some(fraction) = settings.per_process_memory_fraction.filter(|fraction| *fraction < 1.0) {
        let sentence =
            format!("per_process_memory_fraction:{fraction} caps what PyTorch may reserve, whatever the card has left.");
        found.push(Finding::new(Severity::Note, sentence, 0));
    }
    if !settings.stated && facts.request.is_some() {
        let sentence = "The file does not hold the allocator's settings (PyTorch before 2.3), so the defaults are assumed here.";
        found.push(Finding::new(Severity::Note, sentence.to_owned(), 0));
    }
    Ok(found)
}
