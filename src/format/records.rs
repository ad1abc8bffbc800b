//! Complete dicts become rows: what each kind of row takes from its keys, and what happens to the rest.
//!
//! Always: a field that is missing or of the wrong type is counted and read as zero; a key without a
//! place is kept as an extra where the model has room for extras, and counted.

use crate::base::StringId;
use crate::format::assembly::{Assembly, Fault, LooseEvent, dict, list};
use crate::format::fields::integer;
use crate::format::pickle::value::{Packed, Value};
use crate::format::version::Seen;
use crate::format::words::Key;
use crate::model::{
    Action, AnnotationMark, BlockState, Frame, FrameId, MarkStage, PoolId, SizeClass, StackId, TraceEntry, WarningKind,
};
use crate::replay::{BlockRecord, SegmentRecord};

type Pairs<'a> = &'a [(StringId, Value)];

impl Assembly<'_> {
    /// Whether a dict with these keys is a row of some kind.
    pub(super) fn is_row(&self, pairs: Pairs) -> bool {
        self.kind_of(pairs).is_some()
    }
    #[inline]
    fn kind_of(&self, pairs: Pairs) -> Option<u8> {
        let mut frame = 0;
        for (key, _) in pairs {
            match self.words.key(*key) {
                Key::Action => return Some(dict::LOOSE_EVENT),
                Key::TotalSize | Key::Blocks => return Some(dict::SEGMENT),
                Key::State => return Some(dict::BLOCK),
                Key::RealSize => return Some(dict::HISTORY),
                Key::Stage => return Some(dict::ANNOTATION),
                Key::Segments | Key::DeviceTraces => return None,
                Key::Filename => frame += 2,
                Key::Line | Key::Name => frame += 1,
                _ => {}
            }
        }
        (2 <= frame).then_some(dict::FRAME)
    }
    /// Makes a row of a complete dict, if it is one.
    pub(super) fn row_of(&mut self, pairs: Pairs) -> Result<Option<Packed>, Fault> {
        let Some(kind) = self.kind_of(pairs) else { return Ok(None) };
        let number = match kind {
            dict::LOOSE_EVENT => {
                let event = self.event(pairs)?;
                self.loose.push(event);
                self.loose.len() - 1
            }
            dict::FRAME => self.frame(pairs).0 as usize,
            dict::BLOCK => {
                let block = self.block(pairs)?;
                self.blocks.push(block);
                self.blocks.len() - 1
            }
            dict::SEGMENT => {
                let segment = self.segment(pairs)?;
                self.segments.push(segment);
                self.segments.len() - 1
            }
            dict::HISTORY => {
                let history = self.history(pairs)?;
                self.histories.push(history);
                self.histories.len() - 1
            }
            _ => {
                let annotation = self.annotation(pairs);
                self.annotations.push(annotation);
                self.annotations.len() - 1
            }
        };
        let number = u32::try_from(number).ok().filter(|n| *n < crate::format::pickle::value::PACKED_MAX);
        Ok(Some(Packed::new(kind, number.ok_or(Fault::TooMany)?)))
    }

    fn event(&mut self, pairs: Pairs) -> Result<LooseEvent, Fault> {
        self.evidence.see(Seen::Event);
        let mut entry = TraceEntry {
            action: Action::Unknown,
            address: 0,
            size: 0,
            stream: crate::model::StreamId::DEFAULT,
            time_us: None,
            stack: StackId::ABSENT,
            pool: None,
            compile_context: None,
            user_metadata: None,
        };
        let (mut address, mut free, mut size, mut cpp) = (None, None, None, None);
        let mut extras = Vec::new();
        for (name, value) in pairs {
            let key = self.words.key(*name);
            self.evidence.see_event_key(key);
            match key {
                Key::Action => match *value {
                    Value::Str(word) => match self.words.action(word) {
                        Some(action) => entry.action = action,
                        None => {
                            let strings = &self.builder.stacks.strings;
                            self.builder.warnings.push(WarningKind::UnknownAction, || strings.get(word).to_owned());
                            extras.push((*name, word));
                        }
                    },
                    other => {
                        self.bad_field("event", *name);
                        extras.push((*name, self.text_of(other)));
                    }
                },
                Key::Addr => address = Some(self.address(*value, "event", *name)),
                Key::DeviceFree => free = Some(self.address(*value, "event", *name)),
                Key::Size => size = Some(self.size(*value, "event", *name)),
                Key::Stream => entry.stream = self.stream(*value, "event", *name),
                Key::TimeUs => match integer(*value) {
                    Some(time) => entry.time_us = Some(time),
                    None if *value == Value::None => {}
                    None => self.bad_field("event", *name),
                },
                Key::Frames => entry.stack = self.stack_of(*value)?,
                Key::CppFrames => cpp = Some(*value),
                Key::CompileContext => entry.compile_context = self.note_text(*value),
                Key::UserMetadata => entry.user_metadata = self.note_text(*value),
                Key::PoolId => match self.pool_of(*value) {
                    Some(pool) => entry.pool = Some(pool),
                    None => self.bad_field("event", *name),
                },
                Key::ForwardFrames | Key::InternalMetadata | Key::Category => {
                    if *value != Value::None && *value != Value::Str(self.words.empty) {
                        extras.push((*name, self.text_of(*value)));
                    }
                }
                _ => {
                    self.unknown_key("event", *name);
                    extras.push((*name, self.text_of(*value)));
                }
            }
        }
        if let Some(cpp) = cpp {
            entry.stack = self.with_cpp_frames(entry.stack, cpp)?;
        }
        entry.address = match entry.action {
            // Older pickles written by C++ have the free bytes of an out-of-memory event under `addr`.
            Action::Oom => free.or(address).unwrap_or(0),
            _ => address.or(free).unwrap_or(0),
        };
        if entry.action == Action::Annotate {
            self.evidence.see(Seen::Annotate);
        }
        entry.size = size.unwrap_or(0);
        if size.is_none() || (address.is_none() && free.is_none()) {
            let missing = if size.is_none() { "size" } else { "addr" };
            self.builder
                .warnings
                .push(WarningKind::BadField, || format!("an event of action {} has no `{missing}`", entry.action.name()));
        }
        Ok(LooseEvent { entry, extras })
    }

    fn frame(&mut self, pairs: Pairs) -> FrameId {
        let empty = self.words.empty;
        let mut frame = Frame { name: empty, filename: empty, line: 0 };
        let mut extras = Vec::new();
        for (name, value) in pairs {
            match self.words.key(*name) {
                Key::Name => frame.name = self.text_of_field(*value),
                Key::Filename => frame.filename = self.text_of_field(*value),
                Key::Line => match integer(*value) {
                    Some(line) => frame.line = line,
                    None if *value == Value::None => {}
                    None => self.bad_field("frame", *name),
                },
                key => {
                    if key == Key::Unknown {
                        self.unknown_key("frame", *name);
                    }
                    extras.push((*name, self.text_of(*value)));
                }
            }
        }
        if extras.is_empty() {
            return self.builder.stacks.intern_frame(frame);
        }
        if let Some(known) = self.rich_frames.get(&(frame, extras.clone())) {
            return *known;
        }
        let id = self.builder.stacks.push_frame_with_extras(frame, &extras);
        self.rich_frames.insert((frame, extras), id);
        id
    }

    fn block(&mut self, pairs: Pairs) -> Result<BlockRecord, Fault> {
        self.evidence.see(Seen::Block);
        let mut block =
            BlockRecord { address: None, size: 0, requested: None, state: BlockState::Inactive, stack: StackId::ABSENT };
        let mut history = None;
        let mut sized = false;
        for (name, value) in pairs {
            match self.words.key(*name) {
                Key::Address | Key::Addr => {
                    self.evidence.see(Seen::BlockAddress);
                    block.address = Some(self.address(*value, "block", *name));
                }
                Key::Size => {
                    block.size = self.size(*value, "block", *name);
                    sized = true;
                }
                Key::RequestedSize => {
                    self.evidence.see(Seen::RequestedSize);
                    block.requested = Some(self.size(*value, "block", *name));
                }
                Key::State => block.state = self.state(*value),
                Key::Frames => block.stack = self.stack_of(*value)?,
                Key::History => history = Some(*value),
                _ => self.unknown_key("block", *name),
            }
        }
        if !sized {
            self.builder.warnings.push(WarningKind::BadField, || "a block has no `size`".to_owned());
        }
        // Newest first: the current occupant of an active block; a free one keeps its last, which is not there any more.
        if let Some((stack, real_size)) = history.and_then(|history| self.newest_history(history))
            && block.state != BlockState::Inactive
        {
            block.requested = block.requested.or(real_size);
            if block.stack == StackId::ABSENT {
                block.stack = stack;
            }
        }
        Ok(block)
    }

    fn history(&mut self, pairs: Pairs) -> Result<(StackId, Option<u64>), Fault> {
        let (mut stack, mut size, mut cpp) = (StackId::ABSENT, None, None);
        for (name, value) in pairs {
            match self.words.key(*name) {
                Key::RealSize => size = Some(self.size(*value, "history", *name)),
                Key::Frames => stack = self.stack_of(*value)?,
                Key::CppFrames => cpp = Some(*value),
                Key::Addr => {}
                _ => self.unknown_key("history", *name),
            }
        }
        if let Some(cpp) = cpp {
            stack = self.with_cpp_frames(stack, cpp)?;
        }
        Ok((stack, size))
    }
    fn newest_history(&self, value: Value) -> Option<(StackId, Option<u64>)> {
        let Value::List(row) = value else { return None };
        let state = self.lists[row as usize];
        if state.kind() != list::OPEN {
            return None;
        }
        let Some(Value::Dict(first)) = self.open_lists.get(state.number()).first() else { return None };
        let state = self.dicts[*first as usize];
        if state.kind() == dict::HISTORY { self.histories.get(state.number() as usize).copied() } else { None }
    }

    fn segment(&mut self, pairs: Pairs) -> Result<(i32, SegmentRecord), Fault> {
        self.evidence.see(Seen::Segment);
        let mut device = 0;
        let mut class = None;
        let mut segment = SegmentRecord {
            address: 0,
            size: 0,
            stream: crate::model::StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            class: SizeClass::Large,
            expandable: false,
            stack: StackId::ABSENT,
            blocks: Vec::new(),
            stated_totals: [None; 3],
        };
        let (mut sized, mut placed) = (false, false);
        for (name, value) in pairs {
            match self.words.key(*name) {
                Key::Device => match integer(*value).and_then(|device| i32::try_from(device).ok()) {
                    Some(ordinal) => device = ordinal,
                    None => self.bad_field("segment", *name),
                },
                Key::Address => {
                    segment.address = self.address(*value, "segment", *name);
                    placed = true;
                }
                Key::TotalSize => {
                    segment.size = self.size(*value, "segment", *name);
                    sized = true;
                }
                Key::AllocatedSize => segment.stated_totals[0] = Some(self.size(*value, "segment", *name)),
                Key::ActiveSize => segment.stated_totals[1] = Some(self.size(*value, "segment", *name)),
                Key::RequestedSize => segment.stated_totals[2] = Some(self.size(*value, "segment", *name)),
                Key::Stream => segment.stream = self.stream(*value, "segment", *name),
                Key::SegmentType => match *value {
                    Value::Str(text) if self.builder.stacks.strings.get(text) == "small" => class = Some(SizeClass::Small),
                    Value::Str(text) if self.builder.stacks.strings.get(text) == "large" => class = Some(SizeClass::Large),
                    _ => self.bad_field("segment", *name),
                },
                Key::SegmentPoolId | Key::PoolId => match self.pool_of(*value) {
                    Some(pool) => segment.pool = pool,
                    None => self.bad_field("segment", *name),
                },
                Key::IsExpandable => match *value {
                    Value::Bool(expandable) => segment.expandable = expandable,
                    Value::Int(number) => segment.expandable = number != 0,
                    _ => self.bad_field("segment", *name),
                },
                Key::Frames => segment.stack = self.stack_of(*value)?,
                Key::Blocks => segment.blocks = self.blocks_of(*value)?,
                _ => self.unknown_key("segment", *name),
            }
        }
        if !sized {
            segment.size = segment.blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.size));
        }
        if !placed || !sized {
            let missing = if placed { "total_size" } else { "address" };
            self.builder.warnings.push(WarningKind::BadField, || format!("a segment has no `{missing}`"));
        }
        // Segments of the small pool are 2 MiB each; expandable ones of files that do not say cannot be told apart.
        let by_size = if segment.size <= 2 << 20 { SizeClass::Small } else { SizeClass::Large };
        segment.class = class.unwrap_or(by_size);
        Ok((device, segment))
    }
    fn blocks_of(&mut self, value: Value) -> Result<Vec<BlockRecord>, Fault> {
        let Value::List(row) = value else {
            self.builder.warnings.push(WarningKind::BadField, || "the `blocks` of a segment are no list".to_owned());
            return Ok(Vec::new());
        };
        let state = self.lists[row as usize];
        if state.kind() != list::OPEN {
            return Ok(Vec::new());
        }
        let items = self.take_items(state.number());
        self.lists[row as usize] = Packed::new(list::EMPTY, 0);
        let mut blocks = Vec::with_capacity(items.len());
        let mut bad = 0;
        for item in &items {
            match *item {
                Value::Dict(inner) if self.dicts[inner as usize].kind() == dict::BLOCK => {
                    blocks.extend(self.blocks.get(self.dicts[inner as usize].number() as usize));
                }
                _ => bad += 1,
            }
        }
        self.recycle_items(items);
        for _ in 0..bad {
            self.builder.warnings.push(WarningKind::BadRow, || "an item of a segment's `blocks` that is no block".to_owned());
        }
        Ok(blocks)
    }

    fn annotation(&mut self, pairs: Pairs) -> AnnotationMark {
        let mut mark = AnnotationMark { name: self.words.empty, stage: MarkStage::Start, device: 0, time_us: None };
        for (name, value) in pairs {
            match self.words.key(*name) {
                Key::Name => mark.name = self.text_of_field(*value),
                Key::Stage => {
                    let text = self.text_of_field(*value);
                    mark.stage = match self.builder.stacks.strings.get(text) {
                        "START" => MarkStage::Start,
                        "END" => MarkStage::End,
                        _ => {
                            self.bad_field("annotation", *name);
                            MarkStage::Start
                        }
                    };
                }
                Key::Device => match integer(*value).and_then(|device| i32::try_from(device).ok()) {
                    Some(device) => mark.device = device,
                    None => self.bad_field("annotation", *name),
                },
                Key::TimeUs => mark.time_us = integer(*value),
                _ => self.unknown_key("annotation", *name),
            }
        }
        mark
    }
}
