//! Which annotation is open at a time: the innermost one.
//!
//! Always: a span holds for `start <= t < end`, without an end to the end of time and without a start from its
//! beginning; of several open ones the innermost is the one that began last, of those the one that ends first.

use crate::base::StringId;
use crate::model::Annotation;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The innermost annotation at every time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSpans {
    /// From when on, in Unix µs, ascending, and what is innermost from then on.
    changes: Vec<(i64, Option<StringId>)>,
}

impl OpenSpans {
    /// Sorts spans by time.
    pub fn of(spans: &[Annotation]) -> OpenSpans {
        // Begin and end of each span, ends first: at one moment what begins lies inside of what goes on.
        let mut ends: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * spans.len());
        for (row, span) in spans.iter().enumerate() {
            let (start, end) = (start_of(span), end_of(span));
            if start < end {
                ends.push((start, true, row));
                ends.push((end, false, row));
            }
        }
        ends.sort_unstable();
        let rank = |row: usize| (start_of(&spans[row]), Reverse(end_of(&spans[row])), row);
        let mut open = BTreeSet::new();
        let mut changes: Vec<(i64, Option<StringId>)> = Vec::new();
        for (at, begins, row) in ends {
            if begins {
                open.insert(rank(row));
            } else {
                open.remove(&rank(row));
            }
            let innermost = open.last().map(|(.., row)| spans[*row].name);
            match changes.last_mut().filter(|(last, _)| *last == at) {
                Some((_, name)) => *name = innermost,
                None => changes.push((at, innermost)),
            }
        }
        OpenSpans { changes }
    }
    /// The innermost annotation at a time in Unix µs.
    pub fn at(&self, time_us: i64) -> Option<StringId> {
        let after = self.changes.partition_point(|(from, _)| *from <= time_us);
        self.changes[..after].last().and_then(|(_, name)| *name)
    }
}

fn start_of(span: &Annotation) -> i64 {
    span.start_us.unwrap_or(i64::MIN)
}
fn end_of(span: &Annotation) -> i64 {
    span.end_us.unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_open_span_is_found() {
        let span = |name, start_us: Option<i64>, end_us: Option<i64>| Annotation { name: StringId(name), start_us, end_us };
        let spans = [
            span(0, Some(10), Some(50)),
            span(1, Some(20), Some(30)),
            span(2, Some(25), Some(40)),
            span(3, None, Some(5)),
            span(4, Some(60), None),
            span(5, Some(60), Some(70)),
            span(6, Some(80), Some(80)),
            span(7, Some(10), Some(15)),
        ];
        let open = OpenSpans::of(&spans);
        for (time, name) in [
            (-1_000_000, Some(3)),
            (4, Some(3)),
            (5, None),
            (10, Some(7)),
            (15, Some(0)),
            (20, Some(1)),
            (25, Some(2)),
            (30, Some(2)),
            (40, Some(0)),
            (50, None),
            (60, Some(5)),
            (70, Some(4)),
            (80, Some(4)),
        ] {
            assert_eq!(open.at(time), name.map(StringId), "at {time}");
            // The same by looking at all of them.
            let within = |s: &&Annotation| s.start_us.is_none_or(|start| start <= time) && s.end_us.is_none_or(|end| time < end);
            let naive = spans.iter().filter(within).max_by_key(|s| (start_of(s), Reverse(end_of(s))));
            assert_eq!(open.at(time), naive.map(|span| span.name), "at {time}");
        }
        assert_eq!(OpenSpans::of(&[]).at(0), None);
    }
}
