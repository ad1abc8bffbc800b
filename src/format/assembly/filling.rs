//! Lists, tuples and dicts on the bench: how they fill, and when they become stacks, traces and rows.

use super::{Assembly, Fault, LooseEvent, Mark, ROW_COST, Run, dict, list, numbered};
use crate::base::StringId;
use crate::format::pickle::value::{PACKED_MAX, Packed, Value};
use crate::model::{EventIdx, Extra, FrameId, StackId, Trace, WarningKind};

impl Assembly<'_> {
    /// Puts an empty list or tuple on the stack.
    #[inline]
    pub(crate) fn empty_list(&mut self) -> Result<(), Fault> {
        let row = self.new_list()?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    fn new_list(&mut self) -> Result<u32, Fault> {
        let row = numbered(self.lists.len())?;
        self.lists.push(Packed::new(list::EMPTY, 0));
        Ok(row)
    }
    /// Puts an empty dict on the stack.
    #[inline]
    pub(crate) fn empty_dict(&mut self) -> Result<(), Fault> {
        let row = numbered(self.dicts.len())?;
        self.dicts.push(Packed::new(dict::EMPTY, 0));
        self.stack.push(Value::Dict(row));
        Ok(())
    }
    /// Puts a set of unknown content on the stack.
    pub(crate) fn opaque_since_mark(&mut self) -> Result<(), Fault> {
        self.pop_mark()?;
        self.stack.push(Value::Set);
        Ok(())
    }
    /// Makes a tuple of the top `n` values.
    pub(crate) fn tuple(&mut self, n: usize) -> Result<(), Fault> {
        let mark = self.marks.last().copied().unwrap_or(Mark { at: 0, early: 0 });
        if self.stack.len() < mark.at + mark.early + n {
            return Err(Fault::Underflow);
        }
        self.tuple_from(self.stack.len() - n)
    }
    /// Makes a tuple or a list of everything above the last MARK.
    pub(crate) fn list_since_mark(&mut self, tuple: bool) -> Result<(), Fault> {
        let mark = self.whole_mark()?;
        if tuple {
            return self.tuple_from(mark.at);
        }
        let row = self.new_list()?;
        self.append_from(row, mark.at, 0)?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    fn tuple_from(&mut self, from: usize) -> Result<(), Fault> {
        if let [Value::Int(a), Value::Int(b)] = self.stack[from..] {
            let row = match self.pair_rows.get(&(a, b)) {
                Some(row) => *row,
                None => {
                    let row = numbered(self.pairs.len())?;
                    self.pairs.push((a, b));
                    self.pair_rows.insert((a, b), row);
                    row
                }
            };
            self.stack.truncate(from);
            self.stack.push(Value::Pair(row));
            return Ok(());
        }
        let row = self.new_list()?;
        self.append_from(row, from, 0)?;
        self.stack.push(Value::List(row));
        Ok(())
    }
    /// Makes a dict of everything above the last MARK.
    pub(crate) fn dict_since_mark(&mut self) -> Result<(), Fault> {
        let mark = self.whole_mark()?;
        let row = numbered(self.dicts.len())?;
        self.dicts.push(Packed::new(dict::EMPTY, 0));
        self.stack.insert(mark.at, Value::Dict(row));
        self.set_from(mark.at + 1)
    }
    /// Appends the top value to the list below it.
    pub(crate) fn append(&mut self) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(1).ok_or(Fault::Underflow)?;
        self.pop_guard(at)?;
        let Some(Value::List(row)) = at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotList) };
        self.append_from(row, at, 0)
    }
    /// Appends everything above the last MARK to the list below it.
    pub(crate) fn appends(&mut self) -> Result<(), Fault> {
        let mark = self.marks.pop().ok_or(Fault::NoMark)?;
        let Some(Value::List(row)) = mark.at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotList) };
        self.append_from(row, mark.at, mark.early)
    }
    /// Sets the top value under the key below it in the dict below that.
    pub(crate) fn set_item(&mut self) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(2).ok_or(Fault::Underflow)?;
        self.pop_guard(at)?;
        let Some(Value::Dict(row)) = at.checked_sub(1).map(|below| self.stack[below]) else { return Err(Fault::NotDict) };
        let mut pairs = self.take_pairs(at)?;
        self.add_pairs(row, &pairs)?;
        pairs.clear();
        self.pair_scratch = pairs;
        Ok(())
    }
    /// Sets everything above the last MARK, key by key, in the dict below it.
    #[inline]
    pub(crate) fn set_items(&mut self) -> Result<(), Fault> {
        let mark = self.marks.pop().ok_or(Fault::NoMark)?;
        self.set_from(mark.at)
    }

    fn set_from(&mut self, at: usize) -> Result<(), Fault> {
        let Some(below) = at.checked_sub(1) else { return Err(Fault::Underflow) };
        let Value::Dict(row) = self.stack[below] else { return Err(Fault::NotDict) };
        let mut pairs = self.take_pairs(at)?;
        if self.dicts[row as usize].kind() == dict::EMPTY {
            // A dict that arrives in one piece is complete: make it a row now, so that a list of a million
            // events is never a million open dicts, and a file that ends here still has them.
            let known = self.row_of(&pairs)?;
            match known {
                Some(state) => {
                    self.dicts[row as usize] = state;
                    self.record_early(row, below)?;
                }
                None if pairs.is_empty() => {}
                None => self.add_pairs(row, &pairs)?,
            }
        } else {
            self.add_pairs(row, &pairs)?;
        }
        pairs.clear();
        self.pair_scratch = pairs;
        Ok(())
    }
    /// Puts an event into the trace it is about to be appended to, if all before it in this batch are there too.
    fn record_early(&mut self, row: u32, at: usize) -> Result<(), Fault> {
        if self.dicts[row as usize].kind() != dict::LOOSE_EVENT {
            return Ok(());
        }
        let Some(mark) = self.marks.last().copied() else { return Ok(()) };
        if mark.at + mark.early != at {
            return Ok(());
        }
        let Some(Value::List(target)) = mark.at.checked_sub(1).map(|below| self.stack[below]) else { return Ok(()) };
        if let Some(trace) = self.trace_of_list(target) {
            self.record(row, trace)?;
            if let Some(mark) = self.marks.last_mut() {
                mark.early += 1;
            }
        }
        Ok(())
    }
    /// The trace a list is or can become.
    fn trace_of_list(&mut self, target: u32) -> Option<u32> {
        let state = self.lists[target as usize];
        match state.kind() {
            list::TRACE => Some(state.number()),
            list::EMPTY => {
                let trace = self.traces.len() as u32;
                self.traces.push(Trace::default());
                self.lists[target as usize] = Packed::new(list::TRACE, trace);
                Some(trace)
            }
            _ => None,
        }
    }
    /// Moves the loose event of a dict into a trace.
    fn record(&mut self, row: u32, trace: u32) -> Result<(), Fault> {
        let number = self.dicts[row as usize].number() as usize;
        let last = number + 1 == self.loose.len();
        let event = if last { self.loose.pop() } else { self.loose.get(number).cloned() };
        let Some(event) = event else { return Ok(()) };
        let at = self.push_event(trace, &event)?;
        let number = self.events;
        if PACKED_MAX <= number {
            return Err(Fault::TooMany);
        }
        self.events += 1;
        match self.runs.last() {
            Some(run) if run.trace == trace && number - run.first == at.wrapping_sub(run.row) => {}
            _ => self.runs.push(Run { first: number, trace, row: at }),
        }
        self.dicts[row as usize] = Packed::new(dict::EVENT, number);
        Ok(())
    }
    fn push_event(&mut self, trace: u32, event: &LooseEvent) -> Result<u32, Fault> {
        let trace = &mut self.traces[trace as usize];
        if PACKED_MAX as usize <= trace.len() {
            return Err(Fault::TooMany);
        }
        let at = trace.push(event.entry);
        trace.extras.extend(event.extras.iter().map(|(key, value)| Extra { event: at, key: *key, value: *value }));
        Ok(at.0)
    }
    /// The event of a dict, wherever it lies.
    pub(in crate::format) fn event_of(&self, state: Packed) -> Option<LooseEvent> {
        match state.kind() {
            dict::LOOSE_EVENT => self.loose.get(state.number() as usize).cloned(),
            dict::EVENT => {
                let run = self.runs[..self.runs.partition_point(|run| run.first <= state.number())].last()?;
                let trace = &self.traces[run.trace as usize];
                let at = EventIdx(run.row + (state.number() - run.first));
                let extras = trace.extras_of(at).iter().map(|extra| (extra.key, extra.value)).collect();
                (at.0 < trace.len() as u32).then(|| LooseEvent { entry: trace.entry(at), extras })
            }
            _ => None,
        }
    }
    fn take_pairs(&mut self, at: usize) -> Result<Vec<(StringId, Value)>, Fault> {
        let mut pairs = std::mem::take(&mut self.pair_scratch);
        pairs.clear();
        if !(self.stack.len() - at).is_multiple_of(2) {
            return Err(Fault::OddItems);
        }
        for pair in self.stack[at..].chunks_exact(2) {
            let Value::Str(key) = pair[0] else { break };
            pairs.push((key, pair[1]));
        }
        // Keys that are no texts are rare enough to be written as such.
        for item in (at + 2 * pairs.len()..self.stack.len()).step_by(2) {
            let (key, value) = (self.text_of(self.stack[item]), self.stack[item + 1]);
            pairs.push((key, value));
        }
        self.stack.truncate(at);
        Ok(pairs)
    }
    fn add_pairs(&mut self, row: u32, pairs: &[(StringId, Value)]) -> Result<(), Fault> {
        let state = self.dicts[row as usize];
        let open = match state.kind() {
            dict::OPEN => state.number(),
            dict::EMPTY => {
                let open = self.open_dicts.open();
                self.dicts[row as usize] = Packed::new(dict::OPEN, open);
                open
            }
            _ => {
                let strings = &self.builder.stacks.strings;
                self.builder.warnings.push(WarningKind::BadField, || {
                    let keys: Vec<_> = pairs.iter().map(|(key, _)| strings.get(*key)).take(8).collect();
                    format!("keys added to a finished row and ignored: {}", keys.join(", "))
                });
                return Ok(());
            }
        };
        self.open_dicts.extend(open, pairs);
        Ok(())
    }
    /// Makes a row of a dict that was filled key by key, now that something holds it.
    pub(in crate::format) fn settle(&mut self, row: u32) -> Result<Packed, Fault> {
        let state = self.dicts[row as usize];
        if state.kind() != dict::OPEN {
            return Ok(state);
        }
        let open = state.number();
        if !self.is_row(self.open_dicts.get(open)) {
            return Ok(state);
        }
        let pairs = self.open_dicts.close(open);
        if let Some(known) = self.row_of(&pairs)? {
            self.dicts[row as usize] = known;
        }
        self.open_dicts.recycle(pairs);
        Ok(self.dicts[row as usize])
    }
    /// Appends the stack from `at` on, of which the first `early` are recorded already, to a list.
    fn append_from(&mut self, row: u32, at: usize, early: usize) -> Result<(), Fault> {
        let from = (at + early).min(self.stack.len());
        // One frame alone may be followed by more, one by one: each would leave a stack behind that nobody has.
        let batch = 1 < self.stack.len() - from;
        if from < self.stack.len() && !(batch && self.append_frames(row, from)?) {
            for item in from..self.stack.len() {
                let value = self.stack[item];
                if let Value::Dict(inner) = value {
                    let state = self.settle(inner)?;
                    if matches!(state.kind(), dict::EVENT | dict::LOOSE_EVENT)
                        && let Some(trace) = self.trace_of_list(row)
                    {
                        self.append_event(inner, state, trace)?;
                        continue;
                    }
                }
                self.append_value(row, value);
            }
        }
        self.stack.truncate(at);
        Ok(())
    }
    fn append_event(&mut self, inner: u32, state: Packed, trace: u32) -> Result<(), Fault> {
        if state.kind() == dict::LOOSE_EVENT {
            return self.record(inner, trace);
        }
        self.spend(ROW_COST)?;
        if let Some(event) = self.event_of(state) {
            self.push_event(trace, &event)?;
        }
        Ok(())
    }
    fn append_value(&mut self, row: u32, value: Value) {
        let state = self.lists[row as usize];
        let open = match state.kind() {
            list::OPEN => state.number(),
            list::EMPTY => self.open_lists.open(),
            list::STACK => {
                let open = self.open_lists.open();
                let frames = self.builder.stacks.frames(StackId(state.number())).to_vec();
                for frame in frames {
                    let inner = self.dicts.len() as u32;
                    self.dicts.push(Packed::new(dict::FRAME, frame.0));
                    self.open_lists.extend(open, &[Value::Dict(inner)]);
                }
                open
            }
            _ => {
                self.builder.warnings.push(WarningKind::BadRow, || "an item of a trace that is no event".to_owned());
                return;
            }
        };
        self.lists[row as usize] = Packed::new(list::OPEN, open);
        self.open_lists.extend(open, &[value]);
    }
    /// Makes a stack of a list that gets nothing but frames in one piece.
    fn append_frames(&mut self, row: u32, from: usize) -> Result<bool, Fault> {
        if self.lists[row as usize].kind() != list::EMPTY {
            return Ok(false);
        }
        let mut frames = std::mem::take(&mut self.frame_scratch);
        frames.clear();
        for item in from..self.stack.len() {
            let Value::Dict(inner) = self.stack[item] else { break };
            let state = self.settle(inner)?;
            if state.kind() != dict::FRAME {
                break;
            }
            frames.push(FrameId(state.number()));
        }
        let all = frames.len() == self.stack.len() - from;
        if all {
            self.make_stack(row, &frames)?;
        }
        self.frame_scratch = frames;
        Ok(all)
    }
    /// Turns a list into the stack of these frames.
    pub(in crate::format) fn make_stack(&mut self, row: u32, frames: &[FrameId]) -> Result<StackId, Fault> {
        let known = self.builder.stacks.slot_count();
        let stack = self.builder.stacks.intern(frames);
        // Slots that a file names by reference cost two bytes there and four here; what is more counts.
        self.spend((self.builder.stacks.slot_count() - known) as u64 / 4)?;
        if PACKED_MAX < stack.0 {
            return Err(Fault::TooMany);
        }
        self.lists[row as usize] = Packed::new(list::STACK, stack.0);
        Ok(stack)
    }
    /// Takes the items of an open list; the list is then empty until its state is set.
    pub(in crate::format) fn take_items(&mut self, open: u32) -> Vec<Value> {
        self.open_lists.close(open)
    }
    /// Hands a vector of [`Self::take_items`] back.
    pub(in crate::format) fn recycle_items(&mut self, items: Vec<Value>) {
        self.open_lists.recycle(items);
    }
    fn pop_guard(&self, at: usize) -> Result<(), Fault> {
        match self.marks.last() {
            Some(mark) if at <= mark.at + mark.early => Err(Fault::Underflow),
            _ => Ok(()),
        }
    }
}
