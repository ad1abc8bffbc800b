//! Moments by name: the peak, an OOM, an event, a time.
//!
//! Window and command line mean the same position by the same word. Left to itself a recording opens where
//! it matters: at the last OOM, else where most was allocated.

use crate::analysis::timeline::UsageTimeline;
use crate::model::{DeviceMemory, Position};

/// A moment of a recording, as a user names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The last OOM, else the peak.
    #[default]
    Telling,
    /// After the event of this number; −1 is before the first.
    Event(i64),
    /// After the last event that is not later than this Unix time in µs.
    TimeUs(i64),
    /// First position at which most was allocated.
    Peak,
    /// First position at which most was reserved.
    PeakReserved,
    /// The OOM of this number, counted from 1; none: the last.
    Oom(Option<u32>),
    /// Before the first event.
    Start,
    /// After the last event.
    End,
}

/// Why a recording has no such moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchMoment {
    /// No event of this number.
    #[error("{device} has no event {event}: {}", events_sentence(*.events))]
    Event {
        /// The device's name.
        device: String,
        /// The number asked for.
        event: i64,
        /// How many events there are.
        events: usize,
    },
    /// The events carry no time.
    #[error("the events of {device} carry no time (PyTorch records it since 2.2): name the event instead")]
    NoTimes {
        /// The device's name.
        device: String,
    },
    /// No OOM of this number.
    #[error("{device} has {}, so there is no OOM {}", ooms_sentence(*.ooms), number.map_or_else(|| "to look at".to_owned(), |n| n.to_string()))]
    Oom {
        /// The device's name.
        device: String,
        /// The number asked for, from 1.
        number: Option<u32>,
        /// How many there are.
        ooms: usize,
    },
}

impl Moment {
    /// The position this moment is at on one device.
    pub fn position(self, memory: &DeviceMemory, timeline: &UsageTimeline) -> Result<Position, NoSuchMoment> {
        let ooms = memory.trace.ooms();
        match self {
            Moment::Telling => Ok(match ooms.last() {
                Some(event) => Position::after(*event),
                None => timeline.allocated.peak().0,
            }),
            Moment::Event(event) => u32::try_from(event.saturating_add(1))
                .ok()
                .map(Position)
                .filter(|position| *position <= memory.end())
                .ok_or_else(|| NoSuchMoment::Event { device: memory.title(), event, events: memory.trace.len() }),
            Moment::TimeUs(_) if !memory.trace.has_times() => Err(NoSuchMoment::NoTimes { device: memory.title() }),
            Moment::TimeUs(time_us) => {
                let last = memory.trace.events().rfind(|event| memory.trace.time_us(*event).is_some_and(|t| t <= time_us));
                Ok(last.map_or(Position::START, Position::after))
            }
            Moment::Peak => Ok(timeline.allocated.peak().0),
            Moment::PeakReserved => Ok(timeline.reserved.peak().0),
            Moment::Oom(number) => {
                let row = match number {
                    None => ooms.len().checked_sub(1),
                    Some(number) => (number as usize).checked_sub(1),
                };
                let event = row.and_then(|row| ooms.get(row));
                event.map(|event| Position::after(*event)).ok_or_else(|| NoSuchMoment::Oom {
                    device: memory.title(),
                    number,
                    ooms: ooms.len(),
                })
            }
            Moment::Start => Ok(Position::START),
            Moment::End => Ok(memory.end()),
        }
    }
}

fn events_sentence(events: usize) -> String {
    match events {
        0 => "nothing was recorded, only -1, the state in the file, is there".to_owned(),
        1 => "it has event 0 and -1, the state before it".to_owned(),
        _ => format!("it has 0 to {}, and -1 for the state before the first", events - 1),
    }
}

fn ooms_sentence(ooms: usize) -> String {
    match ooms {
        0 => "no out-of-memory event".to_owned(),
        1 => "one out-of-memory event".to_owned(),
        _ => format!("{ooms} out-of-memory events"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Progress;
    use crate::model::{Action, StackId, StreamId, Trace, TraceEntry};
    use crate::replay::SnapshotBuilder;

    fn recorded(actions: &[Action], times: bool) -> DeviceMemory {
        let mut trace = Trace::default();
        for (i, action) in actions.iter().enumerate() {
            let at = if matches!(action, Action::SegmentAlloc) { 0 } else { 4096 * i as u64 };
            trace.push(TraceEntry {
                action: *action,
                address: (1 << 40) + at,
                size: if *action == Action::SegmentAlloc { 2 << 20 } else { 4096 },
                stream: StreamId::DEFAULT,
                time_us: times.then_some(100 + 10 * i as i64),
                stack: StackId::ABSENT,
                pool: None,
                compile_context: None,
                user_metadata: None,
            });
        }
        let mut builder = SnapshotBuilder::default();
        builder.device(0).trace = trace;
        let snapshot = builder.finish(Default::default(), &Progress::new()).expect("nobody cancels");
        snapshot.devices.as_slice()[0].clone()
    }

    #[test]
    fn names_lead_to_positions() {
        use Action::{Alloc, Oom, SegmentAlloc};
        let calm = recorded(&[SegmentAlloc, Alloc, Alloc], true);
        let dead = recorded(&[SegmentAlloc, Alloc, Oom, Alloc, Oom], false);
        let empty = recorded(&[], false);
        for (memory, moment, found) in [
            (&calm, Moment::Telling, Ok(3)),
            (&calm, Moment::Event(-1), Ok(0)),
            (&calm, Moment::Event(2), Ok(3)),
            (&calm, Moment::Event(3), Err("device 0 has no event 3: it has 0 to 2, and -1 for the state before the first")),
            (&calm, Moment::Event(i64::MAX), Err("has no event 9223372036854775807")),
            (&calm, Moment::Event(-2), Err("has no event -2")),
            (&calm, Moment::TimeUs(99), Ok(0)),
            (&calm, Moment::TimeUs(110), Ok(2)),
            (&calm, Moment::TimeUs(119), Ok(2)),
            (&calm, Moment::TimeUs(1 << 50), Ok(3)),
            (&calm, Moment::PeakReserved, Ok(1)),
            (&calm, Moment::Oom(None), Err("no out-of-memory event, so there is no OOM to look at")),
            (&dead, Moment::Telling, Ok(5)),
            (&dead, Moment::Oom(None), Ok(5)),
            (&dead, Moment::Oom(Some(1)), Ok(3)),
            (&dead, Moment::Oom(Some(3)), Err("2 out-of-memory events, so there is no OOM 3")),
            (&dead, Moment::Oom(Some(0)), Err("no OOM 0")),
            (&dead, Moment::TimeUs(0), Err("carry no time")),
            (&empty, Moment::Telling, Ok(0)),
            (&empty, Moment::Event(0), Err("nothing was recorded")),
            (&empty, Moment::End, Ok(0)),
        ] {
            let timeline = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            match (moment.position(memory, &timeline), found) {
                (Ok(position), Ok(wanted)) => assert_eq!(position, Position(wanted), "{moment:?}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{moment:?}: {error}"),
                (got, wanted) => panic!("{moment:?}: {got:?}, wanted {wanted:?}"),
            }
        }
    }
}
