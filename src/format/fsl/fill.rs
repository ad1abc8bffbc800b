//! Records of a log become rows of a [`SnapshotBuilder`], one record at a time.
//!
//! Always: what was taken can be looked at between any two records, so that a log may grow; a record that cannot be
//! used is counted as a warning, with its place, and the next one is taken.

use crate::base::StringId;
use crate::format::fsl::decode::{self, BadRecord, Event, GapRecord, Record, Severity, StateRecord, When};
use crate::format::fsl::{NO_STACK, resync, settings};
use crate::model::{
    Action, AnnotationMark, BlockState, EventIdx, Extra, Frame, FrameId, JobEnd, MarkStage, MissedEvents, PoolId, SizeClass,
    StackId, TraceEntry, VersionRange, WarningKind,
};
use crate::replay::{BlockRecord, SegmentRecord, SnapshotBuilder};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Filling {
    builder: SnapshotBuilder,
    texts: Vec<StringId>,
    frames: Vec<FrameId>,
    pools: Vec<PoolId>,
    stacks: FxHashMap<u32, StackId>,
    /// Events whose stack is not defined yet, by its number.
    unnamed: FxHashMap<u32, Vec<(i32, EventIdx)>>,
    /// Notes on events that are still to come, by device and row.
    ahead: BTreeMap<(i32, u32), Vec<(StringId, StringId)>>,
    states: BTreeMap<i32, States>,
    written_by: Option<String>,
    last_stream: Option<(i64, crate::model::StreamId)>,
}

/// What is known of one device besides its events. States are kept as they came: their stacks may be defined later.
#[derive(Clone, Debug, Default)]
struct States {
    start: Option<StateRecord>,
    end: Option<StateRecord>,
    /// The row before which the oldest gap lies that no state has mended, and when it was noticed.
    gap: Option<(u32, Option<i64>)>,
}

impl Filling {
    /// Goes on filling a builder.
    pub fn into_builder(builder: SnapshotBuilder) -> Filling {
        Filling { builder, ..Filling::default() }
    }
    /// Number of events so far, over all devices.
    pub fn events(&mut self) -> u64 {
        self.builder.devices().map(|(_, record)| record.trace.len() as u64).sum()
    }
    /// What is known of the job so far.
    pub fn job(&self) -> &crate::model::Job {
        &self.builder.job
    }
    /// Whether the job is over.
    pub fn ended(&self) -> bool {
        self.builder.job.ended.is_some()
    }
    /// The PyTorch that ran, where the log says so.
    pub fn written_by(&self) -> Option<VersionRange> {
        let version = self.written_by.clone()?;
        Some(VersionRange { at_least: version.clone(), at_most: Some(version) })
    }
    /// Bytes that are no record were passed over.
    pub fn damage(&mut self, from: u64, to: u64) {
        self.builder.warnings.push(WarningKind::BadRow, || {
            format!("{} bytes of the log from byte {from} on are damaged and were passed over", to - from)
        });
    }
    /// The log ends in the middle of a record.
    pub fn torn(&mut self, at: u64) {
        self.cut(format!("it ends in the middle of a record that begins at byte {at}"));
    }
    /// The log ends early, for a reason.
    pub fn cut(&mut self, why: String) {
        self.builder.warnings.push(WarningKind::Truncated, || why);
    }

    /// Takes one record; `at` is its first byte in the log.
    pub fn take(&mut self, kind: u16, payload: &[u8], at: u64) {
        let taken = Record::decode(kind, payload).and_then(|record| self.record(record));
        if let Err(BadRecord(why)) = taken {
            self.builder.warnings.push(WarningKind::BadRow, || format!("the record of kind {kind} at byte {at}: {why}"));
        }
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), BadRecord> {
        match record {
            Record::Facts(json) => return self.facts(&json),
            Record::Texts(first, texts) => {
                let lost = self.builder.stacks.strings.intern(LOST);
                catch_up(&mut self.texts, first as usize, lost)?;
                for text in texts {
                    if matches!(text, Cow::Owned(_)) {
                        self.builder.warnings.push(WarningKind::BadText, || text.chars().take(80).collect());
                    }
                    self.texts.push(self.builder.stacks.strings.intern(&text));
                }
            }
            Record::Frames(first, frames) => {
                let lost = self.builder.stacks.strings.intern(LOST);
                let lost = self.builder.stacks.intern_frame(Frame { name: lost, filename: lost, line: 0 });
                catch_up(&mut self.frames, first as usize, lost)?;
                for (name, filename, line) in frames {
                    let frame = Frame { name: self.text(name)?, filename: self.text(filename)?, line };
                    self.frames.push(self.builder.stacks.intern_frame(frame));
                }
            }
            Record::Stacks(stacks) => {
                for (number, frames) in stacks {
                    let frames: Option<Vec<FrameId>> = frames.iter().map(|f| self.frames.get(*f as usize).copied()).collect();
                    let stack = self.builder.stacks.intern(&frames.ok_or(UNDEFINED)?);
                    self.stacks.insert(number, stack);
                    for (device, event) in self.unnamed.remove(&number).unwrap_or_default() {
                        self.builder.device(device).trace.name_stack(event, stack);
                    }
                }
            }
            Record::Pools(first, pools) => {
                catch_up(&mut self.pools, usize::from(first), PoolId::DEFAULT)?;
                for pair in pools {
                    self.pools.push(self.builder.pools.intern(pair));
                }
            }
            Record::Events(payload) => {
                for event in decode::events(payload) {
                    self.event(event)?;
                }
            }
            Record::Gap(gap) => self.gap(gap)?,
            Record::Samples(samples) => self.builder.job.samples.extend(samples),
            Record::State(state) => self.state(state),
            Record::Marks(marks) => {
                for (when, device, text, stage) in marks {
                    let mark =
                        AnnotationMark { name: self.text(text)?, stage: MarkStage::Start, device, time_us: decode::time(when) };
                    if stage != 1 {
                        self.builder.marks.push(mark);
                    }
                    if stage != 0 {
                        self.builder.marks.push(AnnotationMark { stage: MarkStage::End, ..mark });
                    }
                }
            }
            Record::Note(_, severity, text) => {
                let text = text.into_owned();
                let kind = match severity {
                    Severity::Info => WarningKind::Note,
                    Severity::Warning | Severity::Error => WarningKind::RecorderTrouble,
                };
                self.builder.warnings.push(kind, || text);
            }
            Record::Saved(_, reason, path) => self.builder.job.saved.push((reason.into_owned(), path.into_owned())),
            Record::Extras(extras) => {
                for (device, key, value, ahead) in extras {
                    let (key, value) = (self.text(key)?, self.text(value)?);
                    let row = (self.builder.device(device).trace.len() as u32).saturating_add(ahead);
                    self.ahead.entry((device, row)).or_default().push((key, value));
                }
            }
            Record::End(end) => {
                self.builder.job.ended = Some(JobEnd { code: end.code, signal: end.signal, text: end.text });
            }
            Record::Unknown(kind) => {
                self.builder.warnings.push(WarningKind::UnknownKey, || format!("records of kind {kind} of a log"));
            }
        }
        Ok(())
    }

    fn text(&self, number: u32) -> Result<StringId, BadRecord> {
        self.texts.get(number as usize).copied().ok_or(UNDEFINED)
    }

    fn facts(&mut self, json: &str) -> Result<(), BadRecord> {
        let value: serde_json::Value = serde_json::from_str(json).map_err(|_| BadRecord("its facts are no JSON"))?;
        let Some(pairs) = value.as_object() else { return Err(BadRecord("its facts are no JSON object")) };
        for (key, value) in pairs {
            match key.as_str() {
                "allocator_settings" => {
                    if let Some(settings) = settings::allocator(value) {
                        self.builder.settings = settings;
                    }
                    continue;
                }
                "devices" => {
                    self.builder.job.devices = settings::devices(value);
                    continue;
                }
                "torch" => {
                    let version = settings::text(value);
                    self.written_by = Some(version.split('+').next().unwrap_or_default().to_owned());
                }
                _ => {}
            }
            let (facts, text) = (&mut self.builder.job.facts, settings::text(value));
            match facts.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => *known = text,
                None => facts.push((key.clone(), text)),
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), BadRecord> {
        let stream = match self.last_stream {
            Some((handle, stream)) if handle == event.stream => stream,
            _ => {
                let stream = self.builder.streams.intern(event.stream);
                self.last_stream = Some((event.stream, stream));
                stream
            }
        };
        let action = Action::KNOWN.get(usize::from(event.action)).copied().unwrap_or(Action::Unknown);
        let pool = match event.pool.checked_sub(1) {
            Some(number) => Some(*self.pools.get(usize::from(number)).ok_or(UNDEFINED)?),
            None => None,
        };
        let device = i32::from(event.device);
        let known = self.known_stack(event.stack);
        let notes = if self.ahead.is_empty() { None } else { self.notes(device) };
        let (mut compile_context, mut user_metadata, mut others) = (None, None, Vec::new());
        for (key, value) in notes.into_iter().flatten() {
            match self.builder.stacks.strings.get(key) {
                "compile_context" => compile_context = Some(value),
                "user_metadata" => user_metadata = Some(value),
                _ => others.push((key, value)),
            }
        }
        let trace = &mut self.builder.device(device).trace;
        let row = trace.push(TraceEntry {
            action,
            address: event.address,
            size: event.size,
            stream,
            time_us: decode::time(event.time_us),
            stack: known.unwrap_or(StackId::ABSENT),
            pool,
            compile_context,
            user_metadata,
        });
        trace.extras.extend(others.into_iter().map(|(key, value)| Extra { event: row, key, value }));
        if known.is_none() {
            self.unnamed.entry(event.stack).or_default().push((device, row));
        }
        if action == Action::Unknown {
            self.builder.warnings.push(WarningKind::UnknownAction, || format!("action number {}", event.action));
        }
        Ok(())
    }

    /// The notes on the next event of a device.
    fn notes(&mut self, device: i32) -> Option<Vec<(StringId, StringId)>> {
        let row = self.builder.device(device).trace.len() as u32;
        self.ahead.remove(&(device, row))
    }

    /// The stack of a number; none while it is not defined.
    fn known_stack(&self, number: u32) -> Option<StackId> {
        match number {
            0 => Some(StackId::EMPTY),
            NO_STACK => Some(StackId::ABSENT),
            number => self.stacks.get(&number).copied(),
        }
    }

    fn gap(&mut self, gap: GapRecord) -> Result<(), BadRecord> {
        let why = self.builder.stacks.strings.get(self.text(gap.reason)?).to_owned();
        let before = self.builder.device(gap.device).trace.len() as u32;
        self.states.entry(gap.device).or_default().gap.get_or_insert((before, gap.time_us));
        let missed = MissedEvents { device: gap.device, before, count: gap.missed, why };
        self.builder.warnings.push(WarningKind::EventsMissed, || missed.to_string());
        self.builder.job.missed.push(missed);
        Ok(())
    }

    fn state(&mut self, state: StateRecord) {
        let segments = self.segments(&state);
        let device = state.device;
        let states = self.states.entry(device).or_default();
        if let Some((gap, time_us)) = states.gap.take() {
            let start = states.start.clone();
            let start = start.map_or_else(Vec::new, |start| self.segments(&start));
            let trace = &self.builder.device(device).trace;
            let time_us = time_us.or(state.time_us).filter(|_| trace.has_times());
            let missing = resync::missing_events(trace, gap as usize, &start, &segments, time_us);
            self.put_in(device, gap, missing);
        }
        let states = self.states.entry(device).or_default();
        match state.when {
            When::Start if self.builder.device(device).trace.is_empty() => states.start = Some(state),
            When::End => states.end = Some(state),
            When::Start | When::AfterGap | When::Between => {}
        }
    }

    /// Puts events into a trace before a row.
    fn put_in(&mut self, device: i32, before: u32, events: Vec<TraceEntry>) {
        let trace = &mut self.builder.device(device).trace;
        let behind = trace.slice(before as usize..trace.len());
        *trace = trace.slice(0..before as usize);
        let count = events.len() as u32;
        for event in events {
            trace.push(event);
        }
        trace.append(&behind);
        let waiting = self.unnamed.values_mut().flatten();
        for (_, event) in waiting.filter(|(of, event)| *of == device && before <= event.0) {
            event.0 += count;
        }
        let ahead = std::mem::take(&mut self.ahead);
        let moved = ahead.into_iter().map(|((of, row), notes)| ((of, if of == device { row + count } else { row }), notes));
        self.ahead = moved.collect();
    }

    /// The segments of a state as the builder takes them.
    fn segments(&mut self, state: &StateRecord) -> Vec<SegmentRecord> {
        let mut segments = Vec::with_capacity(state.segments.len());
        for segment in &state.segments {
            let pool = segment.pool.checked_sub(1).and_then(|number| self.pools.get(usize::from(number)).copied());
            let block = |block: &decode::StateBlock| BlockRecord {
                address: Some(block.address),
                size: block.size,
                requested: block.requested,
                state: match block.state {
                    1 => BlockState::ActiveAllocated,
                    2 => BlockState::ActivePendingFree,
                    _ => BlockState::Inactive,
                },
                stack: self.known_stack(block.stack).unwrap_or(StackId::ABSENT),
            };
            segments.push(SegmentRecord {
                address: segment.address,
                size: segment.size,
                pool: pool.unwrap_or(PoolId::DEFAULT),
                class: if segment.large { SizeClass::Large } else { SizeClass::Small },
                expandable: segment.expandable,
                stack: self.known_stack(segment.stack).unwrap_or(StackId::ABSENT),
                stated_totals: [None; 3],
                blocks: segment.blocks.iter().map(block).collect(),
                stream: self.builder.streams.intern(segment.stream),
            });
        }
        segments
    }

    /// The builder with all that was taken so far, of a log that goes on: that it has no end yet is no news.
    pub fn so_far(&self) -> SnapshotBuilder {
        let mut so_far = self.clone();
        so_far.lay_states();
        so_far.builder
    }

    /// The builder with all that was taken.
    pub fn finish(mut self) -> SnapshotBuilder {
        self.lay_states();
        let unnamed: usize = self.unnamed.values().map(Vec::len).sum();
        if 0 < unnamed {
            self.builder.warnings.push(WarningKind::Note, || {
                format!(
                    "the frames of {} were not written down, so they have no stack",
                    crate::base::counted(unnamed as u64, "event")
                )
            });
        }
        if self.builder.job.ended.is_none() {
            self.builder.warnings.push(WarningKind::Note, || {
                "the log has no end: the job still ran when it was read, or was ended from outside".to_owned()
            });
        }
        let SnapshotBuilder { warnings, job, .. } = &mut self.builder;
        for (reason, path) in &job.saved {
            warnings.push(WarningKind::Note, || format!("a snapshot was written ({reason}): {path}"));
        }
        self.builder
    }

    /// What the states of the log say of its start and its end goes to the builder.
    fn lay_states(&mut self) {
        for (device, states) in std::mem::take(&mut self.states) {
            let segments = states.end.as_ref().map(|end| self.segments(end));
            let start = states.start.as_ref().map(|start| self.segments(start));
            let record = self.builder.device(device);
            record.segments_known = segments.is_some();
            record.segments = segments.unwrap_or_default();
            record.start = start.unwrap_or_default();
        }
    }
}

const UNDEFINED: BadRecord = BadRecord("it names what was not defined before it");

/// What stands for a definition that was lost with a damaged record.
const LOST: &str = "(lost with a damaged part of the log)";

/// Fills in what a lost record would have defined.
fn catch_up<T: Copy>(known: &mut Vec<T>, first: usize, lost: T) -> Result<(), BadRecord> {
    /// More than one lost record can define: a number beyond that is none.
    const MOST: usize = 1 << 22;
    if first < known.len() || known.len() + MOST < first {
        return Err(BadRecord("it does not go on where the last one of its kind ended"));
    }
    known.resize(first, lost);
    Ok(())
}
