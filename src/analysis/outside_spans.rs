//! What stays allocated outside the program's annotated spans, its steps.
//!
//! A state holds from its event until the next one, the last for good. It counts as outside if at some µs of that time no
//! span is open: so what a step leaves behind counts, although the event that left it lies in the step. Spans that
//! the recording cut at one side are open on that side; the µs at which a span ends is outside. States that lasted no
//! µs are not counted. The spans that PyTorch itself puts around an optimizer's work are no steps of the program.

use crate::analysis::curve::Curve;
use crate::analysis::summary::Peak;
use crate::model::{Annotation, DeviceMemory, EventIdx, Position, StackTable};

/// How the spans begin that PyTorch writes for every optimizer (`torch/optim/optimizer.py`).
const OPTIMIZERS_OWN: [&str; 2] = ["Optimizer.step#", "Optimizer.zero_grad#"];

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSpans {
    /// No events.
    #[error("nothing was recorded")]
    History,
    /// Events carry no times.
    #[error("its events carry no time (PyTorch records it since 2.2)")]
    Times,
    /// No spans of the program.
    #[error(
        "it holds no annotations of the program's own (record with global_record_annotations=True, and put \
         torch.profiler.record_function around each step)"
    )]
    Annotations,
}

/// The most that a counter holds outside all annotated spans, and the first position that reaches it.
pub fn outside_spans(memory: &DeviceMemory, stacks: &StackTable, counter: &Curve) -> Result<Peak, NoSpans> {
    if memory.trace.is_empty() {
        return Err(NoSpans::History);
    }
    if !memory.trace.has_times() {
        return Err(NoSpans::Times);
    }
    let is_own = |span: &&Annotation| !OPTIMIZERS_OWN.iter().any(|start| stacks.strings.get(span.name).starts_with(start));
    let spans = merged(memory.annotations.iter().filter(is_own));
    if spans.is_empty() {
        return Err(NoSpans::Annotations);
    }
    let mut most = Peak::default();
    let mut from = i64::MIN;
    for position in (0..=memory.end().0).map(Position) {
        // Where time goes backwards, the later event counts as simultaneous.
        let next = EventIdx(position.0);
        let to = if position == memory.end() { i64::MAX } else { memory.trace.time_us(next).unwrap_or(from).max(from) };
        if from < to && !is_covered(&spans, from, to) {
            let bytes = counter.at(position);
            if most.bytes < bytes {
                most = Peak { position, bytes };
            }
        }
        from = to;
    }
    Ok(most)
}

/// Spans as their first µs and the one behind their last, in order, those that touch joined.
fn merged<'a>(annotations: impl Iterator<Item = &'a Annotation>) -> Vec<(i64, i64)> {
    let bounds = |span: &Annotation| (span.start_us.unwrap_or(i64::MIN), span.end_us.unwrap_or(i64::MAX));
    let mut spans: Vec<(i64, i64)> = annotations.map(bounds).filter(|(start, end)| start <= end).collect();
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Whether one span holds every µs of `from..to`.
fn is_covered(spans: &[(i64, i64)], from: i64, to: i64) -> bool {
    let place = spans.partition_point(|(start, _)| *start <= from);
    place.checked_sub(1).is_some_and(|place| to <= spans[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::StringId;
    use crate::model::{Action, StackId, StreamId, TraceEntry};

    /// Three blocks of 1, 2 and 4 bytes at 10, 20 and 30 µs.
    fn memory(times: bool, name: StringId, spans: &[(Option<i64>, Option<i64>)]) -> DeviceMemory {
        let mut memory = DeviceMemory::default();
        for time in [10, 20, 30] {
            memory.trace.push(TraceEntry {
                action: Action::Alloc,
                address: 0,
                size: 0,
                stream: StreamId::DEFAULT,
                time_us: times.then_some(time),
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        memory.annotations =
            spans.iter().map(|(start_us, end_us)| Annotation { name, start_us: *start_us, end_us: *end_us }).collect();
        memory
    }

    #[test]
    fn a_state_outside_is_one_that_lasts_beyond_the_spans() {
        for (spans, falling, wanted) in [
            // Everything after the span's end is outside.
            (&[(Some(5), Some(25))][..], false, Ok((3, 4))),
            // The last state holds for good, unless a span is open.
            (&[(Some(5), None)], false, Ok((0, 0))),
            (&[(None, None)], false, Ok((0, 0))),
            (&[(None, Some(9)), (Some(30), None)], false, Ok((2, 3))),
            // Spans that touch leave no µs between them; those that do not leave the state in between.
            (&[(Some(5), Some(15)), (Some(15), None)], false, Ok((0, 0))),
            (&[(Some(5), Some(14)), (Some(15), None)], false, Ok((1, 1))),
            // The µs of the end is outside: what the event there left counts.
            (&[(Some(5), Some(20)), (Some(21), None)], false, Ok((2, 3))),
            (&[(Some(5), Some(40)), (Some(7), Some(8))], true, Ok((3, 1))),
            (&[(Some(9), Some(5))], true, Err(NoSpans::Annotations)),
            (&[], false, Err(NoSpans::Annotations)),
        ] {
            let values = if falling { vec![0, 9, 5, 1] } else { vec![0, 1, 3, 4] };
            let curve = Curve::from_changes(vec![0, 1, 2, 3], values, Position(3));
            let wanted = wanted.map(|(position, bytes)| Peak { position: Position(position), bytes });
            let mut stacks = StackTable::default();
            let (step, own) = (stacks.strings.intern("step 1"), stacks.strings.intern("Optimizer.step#Adam.step"));
            assert_eq!(outside_spans(&memory(true, step, spans), &stacks, &curve), wanted, "{spans:?}");
            assert_eq!(outside_spans(&memory(true, own, spans), &stacks, &curve), Err(NoSpans::Annotations), "{spans:?}");
            assert_eq!(outside_spans(&memory(false, step, spans), &stacks, &curve), Err(NoSpans::Times));
            assert_eq!(outside_spans(&DeviceMemory::default(), &stacks, &curve), Err(NoSpans::History));
        }
    }
}
