//! The value at the bottom of a file becomes what the builder knows of devices, settings and marks.

use crate::format::assembly::{Assembly, Fault, dict, list};
use crate::format::fields::integer;
use crate::format::pickle::value::Value;
use crate::format::version::Seen;
use crate::format::words::Key;
use crate::model::{AllocatorSettings, Trace, VersionRange, WarningKind};
use crate::replay::builder::DeviceRecord;

/// More devices than any machine has; a file that names more has its idle ones left out.
const MAX_DEVICES: usize = 4096;

/// What a file turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A snapshot, handed to the builder; with the releases that may have written it.
    Snapshot(VersionRange),
    /// Something else, in words: `a dict with the keys …`.
    Other(String),
}

impl Assembly<'_> {
    /// Hands everything to the builder. `whole` is false where the file ended early.
    pub(crate) fn finish(&mut self, root: Value, whole: bool) -> Result<Found, Fault> {
        match root {
            Value::Dict(row) => {
                let state = self.settle(row)?;
                if state.kind() != dict::OPEN {
                    return Ok(Found::Other(self.describe(root)));
                }
                let pairs = self.open_dicts.get(state.number()).to_vec();
                let known = |key: Key| matches!(key, Key::Segments | Key::DeviceTraces | Key::HostSegments | Key::HostTraces);
                if !pairs.iter().any(|(key, value)| known(self.words.key(*key)) && matches!(value, Value::List(_))) {
                    return Ok(Found::Other(self.describe(root)));
                }
                self.evidence.see(Seen::TopDict);
                let last = pairs.len().saturating_sub(1);
                for (row, (key, value)) in pairs.into_iter().enumerate() {
                    // Where the file ends early, the list it ends in is not all there.
                    self.top_level(key, value, whole || row < last)?;
                }
            }
            Value::List(row) if self.is_segment_list(row) => {
                self.segments_from(root, None)?;
                self.segments_stated[0] = whole;
                if self.ordinals.is_empty() {
                    self.device(0);
                }
            }
            other => return Ok(Found::Other(self.describe(other))),
        }
        self.builder.marks.append(&mut self.annotations);
        for ordinal in self.ordinals.clone() {
            self.builder.device(ordinal).segments_known = self.segments_stated[usize::from(ordinal < 0)];
        }
        Ok(Found::Snapshot(self.evidence.range()))
    }
    fn is_segment_list(&self, row: u32) -> bool {
        let state = self.lists[row as usize];
        match state.kind() {
            list::EMPTY => true,
            list::OPEN => self
                .open_lists
                .get(state.number())
                .iter()
                .any(|item| matches!(item, Value::Dict(inner) if self.dicts[*inner as usize].kind() == dict::SEGMENT)),
            _ => false,
        }
    }
    fn device(&mut self, ordinal: i32) -> &mut DeviceRecord {
        self.ordinals.insert(ordinal);
        self.builder.device(ordinal)
    }
    fn top_level(&mut self, name: crate::base::StringId, value: Value, whole: bool) -> Result<(), Fault> {
        match self.words.key(name) {
            Key::Segments => {
                self.segments_from(value, None)?;
                self.segments_stated[0] = whole;
            }
            Key::DeviceTraces => self.device_traces(value)?,
            Key::HostSegments => {
                self.evidence.see(Seen::Host);
                self.segments_from(value, Some(-1))?;
                self.segments_stated[1] = whole;
            }
            Key::HostTraces => {
                self.evidence.see(Seen::Host);
                let trace = self.take_trace(value, -1)?;
                if !trace.is_empty() {
                    self.device(-1).trace = trace;
                }
            }
            Key::AllocatorSettings => {
                self.evidence.see(Seen::Settings);
                self.settings(value);
            }
            Key::StartSegments => self.start_segments(value)?,
            Key::ExternalAnnotations => self.evidence.see(Seen::Annotations),
            _ => {
                self.unknown_key("the top level", name);
                self.other_setting(name, value);
            }
        }
        Ok(())
    }

    /// Hands what there was before the first event to the devices: a key of our own, in windows of longer recordings.
    fn start_segments(&mut self, value: Value) -> Result<(), Fault> {
        let items = match value {
            Value::List(row) if self.lists[row as usize].kind() == list::OPEN => {
                self.open_lists.get(self.lists[row as usize].number()).to_vec()
            }
            Value::List(row) if self.lists[row as usize].kind() == list::EMPTY => Vec::new(),
            _ => {
                self.builder.warnings.push(WarningKind::BadField, || "`start_segments` is no list".to_owned());
                return Ok(());
            }
        };
        for item in items {
            let Value::Dict(inner) = item else { continue };
            let state = self.settle(inner)?;
            if state.kind() != dict::SEGMENT {
                self.builder
                    .warnings
                    .push(WarningKind::BadRow, || "an item of the start's segments that is no segment".to_owned());
                continue;
            }
            let Some((ordinal, segment)) = self.segments.get(state.number() as usize).cloned() else { continue };
            self.spend_rows(segment.blocks.len() / 4)?;
            let device = self.device(ordinal);
            device.start.push(segment);
            device.start_is_exact = true;
        }
        Ok(())
    }

    /// Hands a list of segments to their devices.
    fn segments_from(&mut self, value: Value, device: Option<i32>) -> Result<(), Fault> {
        let Value::List(row) = value else {
            self.builder.warnings.push(WarningKind::BadField, || "the segments are no list".to_owned());
            return Ok(());
        };
        let state = self.lists[row as usize];
        if state.kind() != list::OPEN {
            return Ok(());
        }
        let items = self.open_lists.get(state.number()).to_vec();
        for item in items {
            let known = match item {
                Value::Dict(inner) => {
                    let state = self.settle(inner)?;
                    (state.kind() == dict::SEGMENT).then_some(state.number() as usize)
                }
                _ => None,
            };
            let Some((ordinal, segment)) = known.and_then(|row| self.segments.get_mut(row)) else {
                self.builder.warnings.push(WarningKind::BadRow, || "an item of the segments that is no segment".to_owned());
                continue;
            };
            let mut segment = segment.clone();
            if device.is_some() {
                // Host segments state their whole size as requested, used or not: nothing to compare with.
                segment.stated_totals[2] = None;
            }
            let ordinal = device.unwrap_or(*ordinal);
            self.spend_rows(segment.blocks.len() / 4)?;
            self.device(ordinal).segments.push(segment);
        }
        Ok(())
    }
    fn device_traces(&mut self, value: Value) -> Result<(), Fault> {
        let Value::List(row) = value else {
            self.builder.warnings.push(WarningKind::BadField, || "`device_traces` is no list".to_owned());
            return Ok(());
        };
        let state = self.lists[row as usize];
        let items = match state.kind() {
            list::OPEN => self.open_lists.get(state.number()).to_vec(),
            // One flat list of events, as tools write that know one device only.
            list::TRACE => {
                let trace = self.take_trace(value, 0)?;
                self.device(0).trace = trace;
                return Ok(());
            }
            _ => return Ok(()),
        };
        for (ordinal, item) in items.into_iter().enumerate() {
            let trace = self.take_trace(item, ordinal as i32)?;
            if MAX_DEVICES <= ordinal && trace.is_empty() {
                continue;
            }
            self.device(ordinal as i32).trace = trace;
        }
        Ok(())
    }
    /// The events of a list, for a device. A list that is named twice is copied.
    fn take_trace(&mut self, value: Value, ordinal: i32) -> Result<Trace, Fault> {
        let Value::List(row) = value else {
            self.builder.warnings.push(WarningKind::BadRow, || "a trace that is no list of events".to_owned());
            return Ok(Trace::default());
        };
        let state = self.lists[row as usize];
        match state.kind() {
            list::EMPTY => Ok(Trace::default()),
            list::TRACE => {
                let number = state.number() as usize;
                if let Some(earlier) = self.taken.get(&state.number()).copied() {
                    let trace = self.builder.device(earlier).trace.clone();
                    self.spend_rows(trace.len())?;
                    return Ok(trace);
                }
                self.taken.insert(state.number(), ordinal);
                Ok(std::mem::take(&mut self.traces[number]))
            }
            list::OPEN => {
                let mut trace = Trace::default();
                for item in self.open_lists.get(state.number()).to_vec() {
                    let event = match item {
                        Value::Dict(inner) => {
                            let state = self.settle(inner)?;
                            self.event_of(state)
                        }
                        _ => None,
                    };
                    match event {
                        Some(event) => {
                            let at = trace.push(event.entry);
                            trace.extras.extend(event.extras.iter().map(|(key, value)| crate::model::Extra {
                                event: at,
                                key: *key,
                                value: *value,
                            }));
                        }
                        None => {
                            self.builder.warnings.push(WarningKind::BadRow, || "an item of a trace that is no event".to_owned())
                        }
                    }
                }
                Ok(trace)
            }
            _ => {
                self.builder.warnings.push(WarningKind::BadRow, || "a trace that holds no events".to_owned());
                Ok(Trace::default())
            }
        }
    }

    fn settings(&mut self, value: Value) {
        let pairs = match value {
            Value::Dict(row) if self.dicts[row as usize].kind() == dict::OPEN => {
                self.open_dicts.get(self.dicts[row as usize].number()).to_vec()
            }
            Value::Dict(_) => Vec::new(),
            _ => {
                self.builder.warnings.push(WarningKind::BadField, || "`allocator_settings` is no dict".to_owned());
                return;
            }
        };
        let mut settings = AllocatorSettings { stated: true, ..std::mem::take(&mut self.builder.settings) };
        for (name, value) in pairs {
            match (self.words.key(name), value) {
                (Key::AllocConf | Key::AllocConfHip | Key::AllocConfPlain, Value::Str(text)) => {
                    settings.conf = self.builder.stacks.strings.get(text).to_owned();
                }
                (Key::MaxSplitSize, number) if integer(number).is_some() => {
                    settings.max_split_size = integer(number).and_then(|size| u64::try_from(size).ok());
                }
                (Key::GarbageCollectionThreshold, Value::Float(share)) => settings.garbage_collection_threshold = share,
                (Key::GarbageCollectionThreshold, Value::Int(share)) => settings.garbage_collection_threshold = share as f64,
                (Key::ExpandableSegments, Value::Bool(on)) => settings.expandable_segments = on,
                (Key::RoundupPower2Divisions, Value::Dict(row)) => self.divisions(row, &mut settings),
                (key, value) => {
                    match key {
                        Key::StreamReuse => self.evidence.see(Seen::StreamReuse),
                        Key::MaxRoundThreshold => self.evidence.see(Seen::RoundThreshold),
                        _ => {}
                    }
                    let text = self.text_of(value);
                    let strings = &self.builder.stacks.strings;
                    settings.other.push((strings.get(name).to_owned(), strings.get(text).to_owned()));
                }
            }
        }
        settings.resolve_conf();
        self.builder.settings = settings;
    }
    /// Keys `1` to `32768`: the MiB at which each of the sixteen classes begins.
    fn divisions(&mut self, row: u32, settings: &mut AllocatorSettings) {
        let state = self.dicts[row as usize];
        if state.kind() != dict::OPEN {
            return;
        }
        for (name, value) in self.open_dicts.get(state.number()).to_vec() {
            let class = self.builder.stacks.strings.get(name).parse::<u32>().ok().filter(|mib| mib.is_power_of_two());
            let class = class.map(|mib| mib.trailing_zeros() as usize).filter(|class| *class < 16);
            match (class, integer(value).and_then(|divisions| u64::try_from(divisions).ok())) {
                (Some(class), Some(divisions)) => settings.roundup_power2_divisions[class] = divisions,
                _ => self.bad_field("roundup_power2_divisions", name),
            }
        }
    }
    /// Keeps a scalar of the top level beside the settings.
    fn other_setting(&mut self, name: crate::base::StringId, value: Value) {
        if matches!(value, Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) | Value::Str(_)) {
            let text = self.text_of(value);
            let strings = &self.builder.stacks.strings;
            let pair = (strings.get(name).to_owned(), strings.get(text).to_owned());
            self.builder.settings.other.push(pair);
        }
    }

    /// Whether any event or segment was read.
    pub(crate) fn holds_rows(&mut self) -> bool {
        let ordinals = self.ordinals.clone();
        ordinals.into_iter().any(|ordinal| {
            let device = self.builder.device(ordinal);
            !device.trace.is_empty() || !device.segments.is_empty()
        })
    }
    /// Says that the file ended at this byte.
    pub(crate) fn warn_truncated(&mut self, at: u64) {
        self.builder.warnings.push(WarningKind::Truncated, || format!("it ends at byte {at}"));
    }
    /// What a value is, for people who opened something else.
    pub(crate) fn describe(&self, value: Value) -> String {
        let strings = &self.builder.stacks.strings;
        match value {
            Value::None => "nothing (None)".to_owned(),
            Value::Bool(_) => "a truth value".to_owned(),
            Value::Int(_) | Value::Big(_) | Value::Wide => "one integer".to_owned(),
            Value::Float(_) => "one number".to_owned(),
            Value::Str(_) => "one text".to_owned(),
            Value::Bytes => "one byte string".to_owned(),
            Value::Set => "a set".to_owned(),
            Value::Pair(_) => "a pair of integers".to_owned(),
            Value::Dict(row) => {
                let state = self.dicts[row as usize];
                match state.kind() {
                    dict::EMPTY => "an empty dict".to_owned(),
                    dict::OPEN => {
                        let pairs = self.open_dicts.get(state.number());
                        let mut keys: Vec<String> = Vec::new();
                        for (key, _) in pairs.iter().take(6) {
                            keys.push(format!("`{}`", strings.get(*key).chars().take(40).collect::<String>()));
                        }
                        let more = if keys.len() < pairs.len() {
                            format!(" and {} more", pairs.len() - keys.len())
                        } else {
                            String::new()
                        };
                        format!("a dict with the keys {}{more}", keys.join(", "))
                    }
                    dict::SEGMENT => "one segment".to_owned(),
                    dict::BLOCK => "one block".to_owned(),
                    dict::FRAME => "one stack frame".to_owned(),
                    _ => "one trace event".to_owned(),
                }
            }
            Value::List(row) => {
                let state = self.lists[row as usize];
                match state.kind() {
                    list::TRACE => "a list of trace events".to_owned(),
                    list::STACK => "a list of stack frames".to_owned(),
                    list::OPEN => {
                        let items = self.open_lists.get(state.number());
                        let first = items.first().map_or(String::new(), |first| match first {
                            Value::List(_) => "a list".to_owned(),
                            other => self.describe(*other),
                        });
                        format!("a list of {} items, the first {first}", items.len())
                    }
                    _ => "an empty list".to_owned(),
                }
            }
        }
    }
}
