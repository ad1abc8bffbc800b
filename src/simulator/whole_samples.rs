//! A batch changed by whole samples, where the recording tells how many a step has.
//!
//! Always: a step keeps at least one sample; a step whose samples are not told is changed by the factor as it is.

use crate::analysis::Workload;
use crate::base::grouped;

/// Steps named in a sentence.
const NAMED: usize = 6;
/// A product of a count and a factor this close to a whole number is that number.
const CLOSE: f64 = 1e-9;

/// The samples of each step.
pub(super) struct Samples(Vec<Option<u64>>);

impl Samples {
    pub fn of(workload: &Workload) -> Samples {
        Samples(workload.samples.clone())
    }
    /// Makes the batches so many times as large, rounded down to whole samples: the factor of each step.
    pub fn scale(&mut self, factor: f64) -> Vec<f64> {
        let scaled = |count: &mut Option<u64>| {
            let Some(count) = count.as_mut() else { return factor };
            let whole = ((*count as f64 * factor) * (1.0 + CLOSE)).floor().max(1.0);
            let exact = whole / *count as f64;
            *count = whole as u64;
            exact
        };
        self.0.iter_mut().map(scaled).collect()
    }
    /// Takes the batches in so many parts, the first ones as large as any, as PyTorch's `chunk` does: the share of each
    /// part of each step. Where samples are not told all parts are equal.
    pub fn parts(&self, parts: u32) -> Vec<Vec<f64>> {
        let shares = |count: &Option<u64>| {
            let Some(count) = *count else { return vec![1.0 / f64::from(parts); parts as usize] };
            let each = count.div_ceil(u64::from(parts)).max(1);
            let sizes = (0..count.div_ceil(each)).map(|part| each.min(count - part * each));
            sizes.map(|size| size as f64 / count as f64).collect()
        };
        self.0.iter().map(shares).collect()
    }
    /// What is known of the samples, before they were changed and now.
    pub fn words(workload: &Workload, now: &Samples) -> String {
        let list = |counts: &[Option<u64>]| {
            let mut counts: Vec<u64> = counts.iter().copied().flatten().collect();
            counts.dedup();
            let more = if NAMED < counts.len() { ", …" } else { "" };
            let named: Vec<String> = counts.iter().take(NAMED).map(|count| grouped(*count)).collect();
            named.join(", ") + more
        };
        let before = &workload.samples;
        if before.iter().all(Option::is_none) {
            return "Nothing tells the samples of a batch, so nothing is rounded to whole ones.".to_owned();
        }
        let how = if workload.told.length {
            format!("The proportions of the steps tell batches of {} samples, if not of a multiple of these", list(before))
        } else {
            format!("The smallest blocks held for the backward pass count {} a step, samples or something finer", list(before))
        };
        let untold = if before.iter().any(Option::is_none) { "; other steps are not rounded" } else { "" };
        format!("{how}; rounded down to whole ones they are {}{untold}.", list(&now.0))
    }
}
