//! A flame graph for speedscope (<https://www.speedscope.app>): its JSON form, one sampled profile in bytes.
//!
//! Always: each frame stands once; a sample lists its frames outermost first; the weights sum to the tree's root.

use crate::analysis::flame::{FlameLabel, FlameOf, NO_STACK, WindowSum};
use crate::base::id::Id as _;
use crate::chart::flame_words::heading;
use crate::model::{FrameId, StackTable};
use crate::report::flame::{FlameReport, FlameSubject, for_each_end};
use crate::report::report::{ReportError, ReportOptions};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes speedscope's JSON.
pub struct Speedscope;

impl FlameReport for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }
    fn extension(&self) -> &'static str {
        "json"
    }
    fn write(&self, subject: &FlameSubject<'_>, _options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut out = io::BufWriter::new(out);
        serde_json::to_writer(&mut out, &File::of(subject)).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: &'static str,
    #[serde(rename = "activeProfileIndex")]
    active_profile_index: u32,
    shared: Shared<'a>,
    profiles: [Profile; 1],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<FrameRow<'a>>,
}

#[derive(Serialize)]
struct FrameRow<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<i64>,
}

#[derive(Serialize)]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start_value: u64,
    #[serde(rename = "endValue")]
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

impl<'a> File<'a> {
    fn of(subject: &FlameSubject<'a>) -> File<'a> {
        let (tree, stacks) = (subject.tree, &subject.snapshot.stacks);
        let mut rows: BTreeMap<FlameLabel, usize> = BTreeMap::new();
        let mut frames: Vec<FrameRow<'a>> = Vec::new();
        let (mut samples, mut weights, mut total) = (Vec::new(), Vec::new(), 0u64);
        for_each_end(tree, |path, value| {
            let sample = path.iter().map(|node| {
                let label = tree.nodes[*node].label;
                *rows.entry(label).or_insert_with(|| {
                    frames.push(FrameRow::of(stacks, label));
                    frames.len() - 1
                })
            });
            samples.push(sample.collect());
            let weight = u64::try_from(value).unwrap_or(if value < 0 { 0 } else { u64::MAX });
            weights.push(weight);
            total = total.saturating_add(weight);
        });
        let title = heading(tree.params.of);
        let unit = if matches!(tree.params.of, FlameOf::Window { sum: WindowSum::Count, .. }) { "none" } else { "bytes" };
        File {
            schema: "https://www.speedscope.app/file-format-schema.json",
            name: format!("{}, {}: {title}", subject.snapshot.origin.name, subject.device),
            exporter: concat!("fragscope@", env!("CARGO_PKG_VERSION")),
            active_profile_index: 0,
            shared: Shared { frames },
            profiles: [Profile { kind: "sampled", name: title, unit, start_value: 0, end_value: total, samples, weights }],
        }
    }
}

impl<'a> FrameRow<'a> {
    fn of(stacks: &'a StackTable, label: FlameLabel) -> FrameRow<'a> {
        match label {
            FlameLabel::All => FrameRow { name: "all", file: None, line: None },
            FlameLabel::NoStack => FrameRow { name: NO_STACK, file: None, line: None },
            FlameLabel::Frame(frame) => FrameRow::of_frame(stacks, frame),
        }
    }
    fn of_frame(stacks: &'a StackTable, frame: FrameId) -> FrameRow<'a> {
        if stacks.frame_count() <= frame.row() {
            return FrameRow { name: NO_STACK, file: None, line: None };
        }
        let file = Some(stacks.file(frame)).filter(|file| !matches!(*file, "" | "??"));
        // Tools write −1 or 0 where they know no line.
        FrameRow { name: stacks.function(frame), file, line: Some(stacks.frame(frame).line).filter(|line| 0 < *line) }
    }
}
