//! Why an allocation failed, or what holds the memory where none did: the verdict, the account of every byte, and
//! findings with their evidence.
//!
//! Always: one [`Case`] a failure, in order, or one for the peak where nothing failed; every figure is one of the
//! state **at that moment** (the file itself is written later, when Python has unwound); one verdict decides, all
//! other causes stay as findings. To add a rule: one file with its [`Rule`], one line in [`RULES`].

mod account;
mod facts;
mod rule;
mod steps;
mod verdict;

mod coverage;
mod fragmentation;
mod growth;
mod limit;
mod live;
mod log;
mod message;
mod outside;
mod pinned;
mod pressure;
mod rise;
mod rounding;
mod settings;
mod sizes;
mod stranded;
mod trapped;
mod what_if;

pub use account::Accounting;
pub use facts::{Card, Facts, PoolFrom, Request};
pub use message::OomMessage;
pub use rule::{Certainty, Finding, Rule, Severity, StackBytes};
pub use verdict::Verdict;
pub use what_if::{Tried, TriedBest, TriedResult};

use crate::analysis::moment::Moment;
use crate::analysis::query::{Asked, Query};
use crate::analysis::timeline::UsageTimeline;
use crate::base::{Cancelled, HeapSize, Progress};
use crate::model::Position;
use std::sync::Arc;

/// All rules, in the order in which equal findings are listed.
pub const RULES: &[Rule] = &[
    limit::RULE,
    live::RULE,
    fragmentation::RULE,
    pinned::RULE,
    stranded::RULE,
    trapped::RULE,
    outside::RULE,
    rounding::RULE,
    sizes::RULE,
    settings::RULE,
    what_if::RULE,
    growth::RULE,
    rise::RULE,
    pressure::RULE,
    log::RULE,
    coverage::RULE,
];

/// Failures of one device that are looked into by all rules, the last ones; those before them get verdict and account.
pub const MOST_CASES: usize = 16;

/// Failures of one device that a gap would have served, for which the whole state is asked; the recordings that hold more
/// of them contradict themselves.
pub const MOST_DOUBTS: u32 = 256;

/// What the file does not hold and somebody may know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiagnosisParams {
    /// The card, as far as it is known.
    pub card: Card,
    /// PyTorch's own messages, from a log.
    pub messages: Arc<[OomMessage]>,
    /// What came of serving the requests under other settings.
    pub tried: Option<Arc<Tried>>,
}

/// One failure, or the peak where there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The moment it is about.
    pub at: Position,
    /// What could not be had; none where nothing failed.
    pub request: Option<Request>,
    /// Which cause decides.
    pub verdict: Verdict,
    /// The verdict in one or two sentences, with the figures.
    pub sentence: String,
    /// Where every byte is.
    pub accounting: Accounting,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
}

/// All cases of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// In order of their events.
    pub cases: Vec<Case>,
}

impl Diagnosis {
    /// Looks into a device.
    pub fn of(
        asked: &Asked<'_>,
        timeline: &UsageTimeline,
        params: &DiagnosisParams,
        progress: &Progress,
    ) -> Result<Diagnosis, Cancelled> {
        let memory = asked.memory();
        let ooms = memory.trace.ooms();
        let mut cases: Vec<Case> = Vec::new();
        if ooms.is_empty() {
            progress.stage("looking for causes", 1)?;
            let peak = Moment::Peak.position(memory, timeline).unwrap_or(memory.end());
            cases.push(case(&Facts::at(asked, timeline, params, peak, None), progress)?);
        }
        let looked_into = ooms.len().saturating_sub(MOST_CASES);
        // Many failures cost one walk, not a state each.
        if 0 < looked_into {
            let mut doubts = 0;
            Facts::in_brief(asked, timeline, params, &ooms[..looked_into], progress, |facts| {
                // What would have served the request says that something is not as it seems: the state tells more, if
                // there is not too much of it.
                doubts += u32::from(0 < facts.accounting.free_usable);
                let doubt = facts.request.filter(|_| 0 < facts.accounting.free_usable && doubts <= MOST_DOUBTS);
                cases.push(match doubt {
                    Some(request) => brief(&Facts::at(asked, timeline, params, facts.state.position, Some(request.event))),
                    None => brief(facts),
                });
            })?;
        }
        progress.stage("looking for causes", ooms.len() as u64)?;
        for (done, event) in ooms.iter().enumerate().skip(cases.len()) {
            progress.at(done as u64)?;
            let facts = Facts::at(asked, timeline, params, Position::after(*event), Some(*event));
            cases.push(if looked_into <= done { case(&facts, progress)? } else { brief(&facts) });
        }
        Ok(Diagnosis { cases })
    }
}

/// Verdict and account.
fn brief(facts: &Facts<'_>) -> Case {
    let verdict = Verdict::of(facts);
    Case {
        at: facts.state.position,
        request: facts.request,
        verdict,
        sentence: verdict.sentence(facts),
        accounting: facts.accounting,
        findings: Vec::new(),
    }
}

fn case(facts: &Facts<'_>, progress: &Progress) -> Result<Case, Cancelled> {
    let mut case = brief(facts);
    for rule in RULES {
        let found = (rule.look)(facts, case.verdict, progress)?;
        case.findings.extend(found.into_iter().map(|finding| Finding { rule: rule.name, title: rule.title, ..finding }));
    }
    // Stable: findings of one severity stay in the order of the rules.
    case.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(case)
}

impl Query for Diagnosis {
    const NAME: &'static str = "why it failed";
    type Params = DiagnosisParams;
    type Answer = Diagnosis;

    fn answer(asked: &Asked<'_>, params: &DiagnosisParams, progress: &Progress) -> Result<Diagnosis, Cancelled> {
        let timeline = UsageTimeline::of(asked.memory(), progress)?;
        Diagnosis::of(asked, &timeline, params, progress)
    }
}

impl HeapSize for Diagnosis {
    fn heap_size(&self) -> usize {
        let of = |case: &Case| {
            size_of::<Case>() + case.sentence.capacity() + case.findings.iter().map(Finding::heap_size).sum::<usize>()
        };
        self.cases.iter().map(of).sum()
    }
}
