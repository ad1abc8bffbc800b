//! The JSON of `why`: one object a failure, or one for the whole file. Its names are a promise to scripts.

use crate::analysis::diagnosis::{Accounting, Case, Finding};
use crate::model::{Item, Snapshot, StackTable};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Writes the list of `why --json` and a line end; each case comes with the ordinal of its device.
pub fn write_why(snapshot: &Snapshot, cases: &[(i32, &Case)], out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<CaseInfo<'_>> = cases.iter().map(|(device, case)| CaseInfo::of(snapshot, *device, case)).collect();
    serde_json::to_writer(&mut *out, &rows)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
pub(crate) struct CaseInfo<'a> {
    file: &'a str,
    device: i32,
    /// Null where nothing failed.
    event: Option<u32>,
    /// The event the figures are of: that of the failure, else that of the peak.
    at: i64,
    requested: Option<u64>,
    needed: Option<u64>,
    verdict: &'static str,
    sentence: &'a str,
    #[serde(serialize_with = "parts")]
    accounting: &'a Accounting,
    capacity: Option<u64>,
    findings: Vec<FindingInfo<'a>>,
}

impl<'a> CaseInfo<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, device: i32, case: &'a Case) -> CaseInfo<'a> {
        CaseInfo {
            file: &snapshot.origin.name,
            device,
            event: case.request.map(|request| request.event.0),
            at: case.at.event_number(),
            requested: case.request.map(|request| request.requested),
            needed: case.request.map(|request| request.needed),
            verdict: case.verdict.name(),
            sentence: &case.sentence,
            accounting: &case.accounting,
            capacity: case.accounting.capacity,
            findings: case.findings.iter().map(|finding| FindingInfo::of(&snapshot.stacks, finding)).collect(),
        }
    }
}

fn parts<S: Serializer>(accounting: &&Accounting, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(accounting.parts())
}

#[derive(Serialize)]
struct FindingInfo<'a> {
    rule: &'static str,
    severity: &'static str,
    certainty: &'static str,
    because: &'static str,
    sentence: &'a str,
    bytes: u64,
    stacks: Vec<StackInfo>,
    evidence: Vec<EvidenceInfo>,
    suggestion: Option<&'a str>,
}

#[derive(Serialize)]
struct StackInfo {
    frames: Vec<String>,
    bytes: u64,
    count: u64,
}

impl<'a> FindingInfo<'a> {
    fn of(stacks: &StackTable, finding: &'a Finding) -> FindingInfo<'a> {
        let frames = |stack| stacks.frames(stack).iter().map(|frame| stacks.line(*frame)).collect();
        FindingInfo {
            rule: finding.rule,
            severity: finding.severity.name(),
            certainty: finding.certainty.name(),
            because: finding.because,
            sentence: &finding.sentence,
            bytes: finding.bytes,
            stacks: finding
                .stacks
                .iter()
                .map(|row| StackInfo { frames: frames(row.stack), bytes: row.bytes, count: row.count })
                .collect(),
            evidence: finding.evidence.iter().copied().map(EvidenceInfo).collect(),
            suggestion: Some(finding.suggestion.as_str()).filter(|text| !text.is_empty()),
        }
    }
}

/// One thing to look at: `{"allocation": 12}`, `{"gap": {"address": …, "size": …}}` …
struct EvidenceInfo(Item);

impl Serialize for EvidenceInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Range {
            address: u64,
            size: u64,
        }
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            Item::Allocation(id) => map.serialize_entry("allocation", &id.0)?,
            Item::Segment(id) => map.serialize_entry("segment", &id.0)?,
            Item::Gap { address, size } => map.serialize_entry("gap", &Range { address, size })?,
            Item::Event(event) => map.serialize_entry("event", &event.0)?,
            Item::Stack(stack) => map.serialize_entry("stack", &stack.0)?,
        }
        map.end()
    }
}
