//! Two recordings on one time axis: which moments of both lie above one another.
//!
//! Always: an alignment names one moment of A and one of B; whatever the axis counts, these two stand at its zero.

use crate::analysis::query::{Asked, Query};
use crate::analysis::spans::{SpanKind, Spans};
use crate::base::{Cancelled, HeapSize, Progress, StringTable};
use crate::model::{DeviceId, DeviceMemory, Position};
use rustc_hash::FxHashMap;

/// What is put above one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AlignBy {
    /// The beginnings of both recordings.
    #[default]
    Start,
    /// The beginnings of the step of this row of [`CommonSteps::rows`].
    Step(usize),
    /// Where each has most allocated.
    Peak,
}

/// A step that both recordings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonStep {
    /// Its name.
    pub name: String,
    /// Where it first begins in A.
    pub a: Position,
    /// Where it first begins in B.
    pub b: Position,
}

/// The steps that both recordings name, in the order of A.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonSteps {
    /// The first [`MOST_STEPS`] of them.
    pub rows: Vec<CommonStep>,
}

/// Steps that are offered, at most.
pub const MOST_STEPS: usize = 200;

impl CommonSteps {
    /// The steps of two devices, each with the texts of its recording.
    pub fn of(
        a: (&DeviceMemory, &StringTable),
        b: (&DeviceMemory, &StringTable),
        progress: &Progress,
    ) -> Result<CommonSteps, Cancelled> {
        let in_b: FxHashMap<String, Position> = firsts(b.0, b.1, progress)?.into_iter().collect();
        let both = firsts(a.0, a.1, progress)?.into_iter().filter_map(|(name, a)| {
            let b = *in_b.get(&name)?;
            Some(CommonStep { name, a, b })
        });
        Ok(CommonSteps { rows: both.take(MOST_STEPS).collect() })
    }
    /// The moments that stand at zero; `peaks` are where A and B have most allocated. A step that is not there leaves the
    /// beginnings.
    pub fn anchors(&self, by: AlignBy, peaks: [Position; 2]) -> [Position; 2] {
        match by {
            AlignBy::Start => [Position::START; 2],
            AlignBy::Peak => peaks,
            AlignBy::Step(row) => self.rows.get(row).map_or([Position::START; 2], |step| [step.a, step.b]),
        }
    }
}

/// Names of spans with where each first begins, by that. What was compiled is no step.
fn firsts(memory: &DeviceMemory, texts: &StringTable, progress: &Progress) -> Result<Vec<(String, Position)>, Cancelled> {
    let spans = Spans::of(memory, progress)?;
    let mut firsts: FxHashMap<&str, Position> = FxHashMap::default();
    for span in spans.rows.iter().filter(|span| span.kind != SpanKind::Compile && !span.open_start) {
        let first = firsts.entry(texts.get(span.name)).or_insert(span.from);
        *first = span.from.min(*first);
    }
    let mut rows: Vec<(String, Position)> = firsts.into_iter().map(|(name, at)| (name.to_owned(), at)).collect();
    rows.sort_unstable_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Ok(rows)
}

impl Query for CommonSteps {
    const NAME: &'static str = "steps of both";
    /// The baseline's device.
    type Params = DeviceId;
    type Answer = CommonSteps;

    fn answer(asked: &Asked<'_>, device_a: &DeviceId, progress: &Progress) -> Result<CommonSteps, Cancelled> {
        let (a, b) = (asked.baseline.unwrap_or(asked.subject).snapshot, asked.subject.snapshot);
        let Some(memory) = a.devices.get(*device_a) else { return Ok(CommonSteps::default()) };
        CommonSteps::of((memory, &a.stacks.strings), (asked.memory(), &b.stacks.strings), progress)
    }
}

impl HeapSize for CommonSteps {
    fn heap_size(&self) -> usize {
        self.rows.capacity() * size_of::<CommonStep>() + self.rows.iter().map(|row| row.name.capacity()).sum::<usize>()
    }
}
