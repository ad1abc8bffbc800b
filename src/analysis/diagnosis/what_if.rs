//! Whether other settings would have served the request: figures of the simulator, which whoever asks puts in.

use crate::analysis::diagnosis::MOST_CASES;
use crate::analysis::diagnosis::facts::Facts;
use crate::analysis::diagnosis::rule::{Certainty, Finding, Rule, Severity};
use crate::analysis::diagnosis::verdict::Verdict;
use crate::base::{Bytes, Cancelled, Progress, grouped};

/// The rule's entry in the register.
pub const RULE: Rule = Rule { name: "what_if", title: "Under other settings", look };

/// What came of serving a device's requests under other settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tried {
    /// The device's number.
    pub device: i32,
    /// What came of it.
    pub result: TriedResult,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TriedResult {
    /// Nothing was tried: there are so many requests.
    TooMany(u64),
    /// Under the recorded settings the model does not fail where the recording did.
    NotReproduced,
    /// Settings were tried, up to the first failure they do not avoid, or the first that they do.
    Ranked {
        /// How many.
        tried: u32,
        /// How many serve what failed.
        serving: u32,
        /// The best of those.
        best: Option<TriedBest>,
        /// The most the allocator can hold, bytes.
        capacity: u64,
        /// Whether the recorded settings reproduce the recording to the last address.
        is_exact: bool,
    },
}

/// The best settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TriedBest {
    /// The settings string; empty: PyTorch's defaults.
    pub conf: String,
    /// The most that is reserved under them, bytes.
    pub reserved: u64,
}

fn look(facts: &Facts<'_>, _verdict: Verdict, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    progress.check()?;
    let (Some(tried), Some(request)) = (facts.tried, &facts.request) else { return Ok(Vec::new()) };
    // It is about the first failure; where there are more than are looked into, it stands with the first of these.
    let ooms = facts.memory.trace.ooms();
    let stands_with = ooms.get(ooms.len().saturating_sub(MOST_CASES));
    if tried.device != facts.memory.ordinal || stands_with != Some(&request.event) {
        return Ok(Vec::new());
    }
    let which = match ooms.first() {
        Some(first) if *first != request.event => {
            format!("the request that failed first, at event {}", grouped(u64::from(first.0)))
        }
        _ => "the request that failed".to_owned(),
    };
    let sweep = "`fragscope whatif FILE --sweep`";
    let finding = match &tried.result {
        TriedResult::TooMany(requests) => {
            let sentence = format!("Other settings were not tried here: {} events take a while.", grouped(*requests));
            Finding::new(Severity::Note, sentence, 0).advise(format!("{sweep} tries them all."))
        }
        TriedResult::NotReproduced => {
            let sentence = format!(
                "Other settings were not tried: under the recorded ones a model of the allocator serves {which}, so something \
                 decided that the file does not hold, such as a memory fraction."
            );
            Finding::new(Severity::Note, sentence, 0)
                .advise("`fragscope whatif FILE --recorded per_process_memory_fraction:…,total:…` says what the job ran with.")
        }
        TriedResult::Ranked { tried, best: None, .. } => {
            let sentence = format!(
                "None of {tried} settings that were tried serves {which}: served again under each, the recorded requests run \
                 out of memory there or before."
            );
            Finding::new(Severity::Note, sentence, 0).advise(format!("{sweep} shows how far each comes."))
        }
        TriedResult::Ranked { tried, serving, best: Some(best), capacity, .. } => {
            let with = if best.conf.is_empty() { "PyTorch's default settings" } else { &best.conf };
            let sentence = format!(
                "With {with} {which} is served, and all before it: at most {} are reserved of the {} that PyTorch could have. \
                 {serving} of {tried} settings that were tried serve it.",
                Bytes(best.reserved),
                Bytes(*capacity),
            );
            let set = if best.conf.is_empty() {
                "Leave PYTORCH_CUDA_ALLOC_CONF unset".to_owned()
            } else {
                format!("Set PYTORCH_CUDA_ALLOC_CONF={}", best.conf)
            };
            Finding::new(Severity::Warning, sentence, best.reserved).advise(format!("{set}. {sweep} shows all."))
        }
    };
    let is_exact = matches!(tried.result, TriedResult::Ranked { is_exact: true, .. });
    let tried_any = matches!(tried.result, TriedResult::Ranked { .. });
    Ok(vec![match (tried_any, is_exact) {
        (true, true) => finding.sure(
            Certainty::Likely,
            "The recorded requests were served again by a model that places every recorded one where it lay; what the program \
             would have done next is not known.",
        ),
        (true, false) => finding.sure(
            Certainty::Possible,
            "The recorded requests were served again by a model that does not place every recorded one where it lay.",
        ),
        (false, _) => finding,
    }])
}
