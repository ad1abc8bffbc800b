//! The answers a report is made of, asked once for all its words and pictures.
//!
//! Always: every answer is one the window asks too, so both show the same; what no chosen section needs is not asked.

use crate::analysis::diagnosis::{Accounting, Diagnosis, Facts};
use crate::analysis::{
    Asked, DeviceUse, FlameDirection, FlameOf, FlameParams, FlameTree, Fragmentation, Held, LiveCounter, MemorySummary, Releases,
    Subject, UsageTimeline,
};
use crate::base::Progress;
use crate::chart::{Clock, ColourBy, Inks, TimeAxis};
use crate::model::{Action, DeviceMemory, EventIdx, Position, Snapshot};
use crate::replay::{MemoryState, Replay};
use crate::report::report::{ReportError, ReportOptions, ReportSubject, Section};
use crate::report::what_if;
use crate::simulator::contiguous::KvCompared;
use std::ops::Range;

/// All answers about one device at one moment.
pub struct Material<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub memory: &'a DeviceMemory,
    /// Its states.
    pub replay: &'a Replay,
    /// Its counters over time.
    pub curves: UsageTimeline,
    /// What the whole device held, where somebody looked.
    pub device_use: DeviceUse,
    /// How its free memory is cut up over time; none where no section shows it.
    pub fragmentation: Option<Fragmentation>,
    /// The state at the moment.
    pub state: MemoryState,
    /// The state when the file was written.
    pub dump: MemoryState,
    /// Why it failed, failure by failure.
    pub diagnosis: Diagnosis,
    /// Where every byte is at the moment.
    pub accounting: Accounting,
    /// What was live at the moment, frames of the framework folded; none where no section shows it.
    pub flame: Option<FlameTree>,
    /// The horizontal axis of pictures over time.
    pub clock: Clock,
    /// What of it they show.
    pub window: Range<f64>,
    /// The colours of blocks.
    pub inks: Inks,
    /// PyTorch's counters at the moment; none where no section shows them.
    pub summary: Option<MemorySummary>,
    /// When memory went back to the driver, and why.
    pub releases: Releases,
    /// What a paged KV cache held; none where it is none.
    pub kv: Option<KvCompared>,
}

impl<'a> Material<'a> {
    /// Asks for everything that the chosen sections need.
    pub fn gather(
        subject: &ReportSubject<'a>,
        options: &ReportOptions,
        progress: &Progress,
    ) -> Result<Material<'a>, ReportError> {
        let ReportSubject { snapshot, replays, device, position } = *subject;
        let missing = || ReportError::NoDevice(device.0);
        let memory = snapshot.devices.get(device).ok_or_else(missing)?;
        let replay = replays.get(device.0 as usize).ok_or_else(missing)?;
        let position = position.min(memory.end());
        let wants = |section| options.sections.has(section);
        let curves = UsageTimeline::of(memory, progress)?;
        let asked = Asked { subject: Subject { snapshot, replays }, baseline: None, device };
        // Also where no section shows findings: the JSON holds them all.
        let known = what_if::with_tried(&asked, &options.known, progress)?;
        let diagnosis = Diagnosis::of(&asked, &curves, &known, progress)?;
        let accounting = match diagnosis.cases.iter().find(|case| case.at == position) {
            Some(case) => case.accounting,
            None => Facts::at(&asked, &curves, &options.known, position, oom_at(memory, position)).accounting,
        };
        let fragmentation = match wants(Section::Charts) && memory.has_history() {
            true => Some(Fragmentation::of(memory, &snapshot.settings, progress)?),
            false => None,
        };
        let params = FlameParams {
            of: FlameOf::Live { at: position, counter: LiveCounter::Allocated },
            direction: FlameDirection::TopDown,
            fold_framework: true,
        };
        let flame = match wants(Section::Flame) {
            true => Some(FlameTree::of(memory, replay, &snapshot.stacks, &params, progress)?),
            false => None,
        };
        let summary = match wants(Section::Summary) && 0 <= memory.ordinal && memory.is_used() && memory.tells_segments() {
            true => Some(MemorySummary::of(snapshot, memory, replay, position, progress)?),
            false => None,
        };
        let inks = Inks::with_categories(snapshot, options.colour_by, &options.categories);
        let inks = match options.colour_by {
            ColourBy::Held => inks.with_held(&Held::of(memory, progress)?),
            _ => inks,
        };
        let clock = Clock::of(memory, TimeAxis::Events);
        let window = match &options.window {
            Some(window) if window.start < window.end => {
                let (from, to) = (clock.unit(window.start), clock.unit(window.end));
                if from < to { from..to } else { clock.span() }
            }
            _ => clock.span(),
        };
        Ok(Material {
            snapshot,
            memory,
            replay,
            device_use: DeviceUse::of(&snapshot.job, memory),
            fragmentation,
            state: replay.state_at(memory, position),
            dump: replay.state_at(memory, memory.end()),
            diagnosis,
            accounting,
            flame,
            clock,
            window,
            inks,
            summary,
            releases: Releases::of(memory, replay, &snapshot.settings, &snapshot.stacks, progress)?,
            kv: if wants(Section::Charts) { KvCompared::of(memory, progress)? } else { None },
            curves,
        })
    }
    /// The moment.
    pub fn position(&self) -> Position {
        self.state.position
    }
    /// The failure that led to the moment.
    pub fn oom(&self) -> Option<EventIdx> {
        oom_at(self.memory, self.position())
    }
    /// The bytes that could not be had at the moment.
    pub fn request(&self) -> Option<u64> {
        self.oom().map(|event| self.memory.trace.sizes()[event.0 as usize])
    }
}

fn oom_at(memory: &DeviceMemory, position: Position) -> Option<EventIdx> {
    let event = position.event()?;
    (memory.trace.actions().get(event.0 as usize) == Some(&Action::Oom)).then_some(event)
}
