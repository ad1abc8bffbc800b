//! The program's own steps, where it marked them: the annotations that repeat as its loop does.
//!
//! Always: steps come in order and are over by the moment; names that differ in a number alone (`step_0`, `step_1`,
//! `ProfilerStep#7`) are one. Of several that repeat, one whose name says that it is a step, else the one that takes
//! most of the time.

use crate::analysis::diagnosis::facts::Facts;
use crate::model::Position;
use rustc_hash::FxHashMap;

/// Fewer repetitions are no loop.
const ENOUGH: usize = 3;
/// Parts of names that mark a step.
const WORDS: [&str; 3] = ["step", "iter", "batch"];

/// Steps that were over at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Their name; `#` stands for the number in it.
    pub name: String,
    /// Where each begins, ascending.
    pub begins: Vec<Position>,
    /// Where each is over, ascending.
    pub ends: Vec<Position>,
}

impl Steps {
    /// Looks for them up to the moment.
    pub fn of(facts: &Facts<'_>) -> Option<Steps> {
        let trace = &facts.memory.trace;
        let mut groups: FxHashMap<String, Vec<(i64, i64)>> = FxHashMap::default();
        for span in &facts.memory.annotations {
            let (Some(begin), Some(end)) = (span.start_us, span.end_us) else { continue };
            if trace.position_at_time(end) <= facts.state.position {
                let name = without_numbers(facts.snapshot.stacks.strings.get(span.name));
                groups.entry(name).or_default().push((begin, end));
            }
        }
        let rank = |name: &str, spans: &[(i64, i64)]| {
            let said = WORDS.iter().any(|word| name.to_ascii_lowercase().contains(word));
            (said, spans.iter().fold(0i64, |sum, (begin, end)| sum.saturating_add(end.saturating_sub(*begin))))
        };
        let (name, mut spans) = groups
            .into_iter()
            .filter(|(_, spans)| ENOUGH <= spans.len())
            .max_by(|a, b| rank(&a.0, &a.1).cmp(&rank(&b.0, &b.1)).then_with(|| b.0.cmp(&a.0)))?;
        spans.sort_unstable();
        let mut ends: Vec<Position> = spans.iter().map(|(_, end)| trace.position_at_time(*end)).collect();
        ends.sort_unstable();
        Some(Steps { name, begins: spans.iter().map(|(begin, _)| trace.position_at_time(*begin)).collect(), ends })
    }
}

/// A name with `#` for each number in it.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_tell_steps_apart() {
        for (name, expected) in [
            ("step_0", "step_#"),
            ("step_12", "step_#"),
            ("ProfilerStep#7", "ProfilerStep#"),
            ("forward", "forward"),
            ("epoch 3, batch 40", "epoch #, batch #"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(name), expected);
        }
    }
}
