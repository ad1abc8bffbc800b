//! What the recording does not hold, and the line of Python that would record it next time.

use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Cancelled, Progress};
use crate::model::{Gap, Missing};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "coverage", title: "what the recording does not hold", look };

fn look(facts: &Facts<'_>, verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let mut found = Vec::new();
    // A trace that holds a failure alone is no sign that recording was off.
    let bare = facts.request.is_some() && facts.memory.trace.len() == 1 && facts.state.totals.reserved == 0;
    for gap in facts.memory.coverage.gaps.iter().filter(|gap| !(bare && gap.missing == Missing::History)) {
        let advice = match gap.missing {
            // No setting would make this kind of file tell.
            _ if gap.why == Gap::BY_NATURE => "",
            Missing::History | Missing::Start => {
                "torch.cuda.memory._record_memory_history(max_entries=1_000_000), before the model is made."
            }
            Missing::Sizes if facts.settings().stated => {
                "torch.cuda.memory._record_memory_history(max_entries=1_000_000), before the model is made."
            }
            Missing::Stacks if gap.why.starts_with("recorded with context=None") => {
                "torch.cuda.memory._record_memory_history(context=\"all\") keeps the stack of each allocation."
            }
            Missing::Stacks if gap.why.starts_with("blocks older") => {
                "torch.cuda.memory._record_memory_history(max_entries=1_000_000), before the model is made."
            }
            Missing::Stacks => {
                "torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"all\") names backward threads too."
            }
            Missing::End if gap.why.starts_with("the file ends before") => {
                "torch.cuda.memory._dump_snapshot(path) writes the segments beside the events: keep both."
            }
            Missing::End => "Dump with torch.cuda.memory._dump_snapshot(path) while no other thread allocates.",
            Missing::Time | Missing::Settings | Missing::Sizes => {
                "Record with PyTorch 2.3 or later, which writes times and settings."
            }
            Missing::Segments | Missing::Addresses => "",
        };
        let severity = if verdict == Verdict::Unknown { Severity::Warning } else { Severity::Note };
        found.push(Finding::new(severity, gap.sentence.clone(), 0).advise(advice));
    }
    if facts.card.total.is_none() && facts.request.is_some() {
        let sentence =
            "The card's size is not in the file, so memory held by others cannot be told from what PyTorch could not have.";
        found.push(
            Finding::new(Severity::Note, sentence.to_owned(), 0)
                .advise("Give the card's size (--capacity 80GiB), or the log with PyTorch's error message (--log FILE)."),
        );
    }
    Ok(found)
}
