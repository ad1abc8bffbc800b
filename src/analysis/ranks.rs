//! Many recordings of one job, one a rank: the figures of each, which are odd and why, and which is the usual one.
//!
//! Always: figures are those of the file's busiest device and of its replay; what is odd is measured against the median of
//! the files that could be read, never against an average that the odd one itself moves; a file that could not be read
//! is judged like the others, with its sentence.

use crate::analysis::timeline::UsageTimeline;
use crate::analysis::{Curve, Peak};
use crate::base::{Bytes, Cancelled, Progress, counted, grouped};
use crate::model::{Position, Snapshot};
use crate::replay::Replay;
use std::cmp::Reverse;
use std::sync::Arc;

/// Points of the small curves.
pub const CURVE_POINTS: usize = 96;
/// So many robust deviations from the median are odd: the modified z-score of Iglewicz and Hoaglin (1993).
const ODD_SCORE: f64 = 3.5;
/// What makes the median absolute deviation of normally spread values their standard deviation.
const NORMAL: f64 = 0.6745;
/// Differences below this share of the median are never odd, however alike the others are.
const LEAST_SHARE: f64 = 0.05;
/// Nor are differences below so many bytes.
const LEAST_BYTES: f64 = (1 << 20) as f64;
/// A largest free block is odd when it is this many times smaller than the median.
const FREE_TIMES: f64 = 4.0;
/// A recording is odd when it has this many times fewer or more events than the median.
const EVENT_TIMES: f64 = 2.0;
/// Of fewer files nobody can say which is the odd one.
const LEAST_FILES: usize = 3;

/// What is kept of a rank's recording when the recording itself is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankFigures {
    /// The device's number.
    pub device: i32,
    /// Devices of the file that hold anything.
    pub devices: usize,
    /// Number of events.
    pub events: u64,
    /// Most allocated.
    pub peak_allocated: Peak,
    /// Most reserved.
    pub peak_reserved: Peak,
    /// Allocated at the end, in bytes.
    pub end_allocated: u64,
    /// Reserved at the end, in bytes.
    pub end_reserved: u64,
    /// The largest gap where most is allocated, in bytes.
    pub free_at_peak: u64,
    /// The largest gap at the end, in bytes.
    pub free_at_end: u64,
    /// Failures.
    pub ooms: u64,
    /// The most allocated in each of [`CURVE_POINTS`] equal stretches of events.
    pub allocated: Arc<[u64]>,
    /// The most reserved in each of them.
    pub reserved: Arc<[u64]>,
}

impl RankFigures {
    /// The figures of a recording's busiest device; none where it has no device.
    pub fn of(snapshot: &Snapshot, progress: &Progress) -> Result<Option<RankFigures>, Cancelled> {
        let Some(memory) = snapshot.busiest_device().and_then(|id| snapshot.devices.get(id)) else { return Ok(None) };
        let timeline = UsageTimeline::of(memory, progress)?;
        let replay = Replay::new(memory);
        let peak = |curve: &Curve| {
            let (position, bytes) = curve.peak();
            Peak { position, bytes }
        };
        let (peak_allocated, end) = (peak(&timeline.allocated), memory.end());
        progress.check()?;
        Ok(Some(RankFigures {
            device: memory.ordinal,
            devices: snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()).count(),
            events: memory.trace.len() as u64,
            peak_allocated,
            peak_reserved: peak(&timeline.reserved),
            end_allocated: timeline.allocated.at(end),
            end_reserved: timeline.reserved.at(end),
            free_at_peak: replay.state_at(memory, peak_allocated.position).largest_free_block,
            free_at_end: replay.state_at(memory, end).largest_free_block,
            ooms: memory.trace.ooms().len() as u64,
            allocated: small(&timeline.allocated, end),
            reserved: small(&timeline.reserved, end),
        }))
    }
}

/// A curve's maxima in equal stretches.
fn small(curve: &Curve, end: Position) -> Arc<[u64]> {
    let slots = u64::from(end.0) + 1;
    let edge = |point: usize| Position((slots * point as u64 / CURVE_POINTS as u64) as u32);
    (0..CURVE_POINTS).map(|point| curve.max_in(edge(point), edge(point + 1)).1).collect()
}

/// How far a file is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RankReading {
    /// It was not read yet.
    #[default]
    Waiting,
    /// It was read.
    Read(RankFigures),
    /// It could not be; why, in a sentence.
    Unreadable(String),
}

impl RankReading {
    /// Its figures, where it was read.
    pub fn figures(&self) -> Option<&RankFigures> {
        match self {
            RankReading::Read(figures) => Some(figures),
            RankReading::Waiting | RankReading::Unreadable(_) => None,
        }
    }
}

/// Why a file is odd.
#[derive(Clone, Debug, PartialEq)]
pub struct RankReason {
    /// A stable name: `out_of_memory`, `peak_allocated`, `peak_reserved`, `end_allocated`, `largest_free_at_peak`,
    /// `largest_free_at_end`, `events`, `unreadable`.
    pub kind: &'static str,
    /// What people read, without a stop at its end.
    pub words: String,
    /// How odd: robust deviations from the median.
    score: f64,
}

/// What the files have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankMedians {
    /// Most allocated, in bytes.
    pub peak_allocated: u64,
    /// Most reserved, in bytes.
    pub peak_reserved: u64,
    /// Allocated at the end, in bytes.
    pub end_allocated: u64,
    /// The largest gap where most is allocated, in bytes.
    pub free_at_peak: u64,
    /// The largest gap at the end, in bytes.
    pub free_at_end: u64,
    /// Number of events.
    pub events: u64,
}

/// The files judged together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankVerdicts {
    /// Rows in the order to read them: odd ones first, the oddest first, then those that could not be read, then the
    /// others as given.
    pub order: Vec<usize>,
    /// Why each row is odd, the strongest reason first; empty: it is not.
    pub reasons: Vec<Vec<RankReason>>,
    /// The row that is nearest to the medians in all figures; none where nothing was read.
    pub median: Option<usize>,
    /// The medians; none where nothing was read.
    pub medians: Option<RankMedians>,
    /// Rows that were read.
    pub read: usize,
    /// Rows that could not be read.
    pub unreadable: usize,
    /// Rows with a failure.
    pub failed: usize,
    /// Whether a file holds several devices, of which the figures leave all but one out.
    pub several_devices: bool,
}

type Pick = fn(&RankFigures) -> u64;

/// The figures that place a rank between the others.
const PICKS: [Pick; 6] = [
    |of| of.peak_allocated.bytes,
    |of| of.peak_reserved.bytes,
    |of| of.end_allocated,
    |of| of.free_at_peak,
    |of| of.free_at_end,
    |of| of.events,
];

impl RankVerdicts {
    /// Judges files together.
    pub fn of(rows: &[RankReading]) -> RankVerdicts {
        let read: Vec<&RankFigures> = rows.iter().filter_map(RankReading::figures).collect();
        let failed = read.iter().filter(|figures| 0 < figures.ooms).count();
        let spreads = PICKS.map(|pick| Spread::of(read.iter().map(|figures| pick(figures)).collect()));
        // Where most failed, a failure is the rule and no oddity.
        let failure_is_odd = 2 * failed <= read.len() && LEAST_FILES <= read.len();
        let reasons: Vec<Vec<RankReason>> = rows
            .iter()
            .map(|row| match row {
                RankReading::Waiting => Vec::new(),
                RankReading::Unreadable(why) => {
                    vec![RankReason { kind: "unreadable", words: format!("cannot be read: {why}"), score: 0.0 }]
                }
                RankReading::Read(figures) if LEAST_FILES <= read.len() => reasons_of(figures, &spreads, failure_is_odd),
                RankReading::Read(_) => Vec::new(),
            })
            .collect();
        let rank_of = |row: usize| -> (u8, Reverse<u64>) {
            match (&rows[row], reasons[row].first()) {
                (RankReading::Unreadable(_), _) => (1, Reverse(0)),
                (_, Some(strongest)) => (0, Reverse(strongest.score.to_bits())),
                (_, None) => (2, Reverse(0)),
            }
        };
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|row| rank_of(*row));
        let distance = |figures: &RankFigures| -> f64 {
            let far = |(pick, spread): (&Pick, &Spread)| (pick(figures) as f64 - spread.median).abs() / spread.median.max(1.0);
            PICKS.iter().zip(&spreads).map(far).sum()
        };
        let usual = |odd_too: bool| {
            let rows = rows.iter().enumerate().filter(|(row, _)| odd_too || reasons[*row].is_empty());
            let near = rows.filter_map(|(row, reading)| Some((row, distance(reading.figures()?))));
            near.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(row, _)| row)
        };
        let median = usual(false).or_else(|| usual(true));
        let [peak_allocated, peak_reserved, end_allocated, free_at_peak, free_at_end, events] =
            spreads.each_ref().map(|spread| spread.median.round() as u64);
        let medians = RankMedians { peak_allocated, peak_reserved, end_allocated, free_at_peak, free_at_end, events };
        RankVerdicts {
            order,
            median,
            medians: (!read.is_empty()).then_some(medians),
            read: read.len(),
            unreadable: rows.iter().filter(|row| matches!(row, RankReading::Unreadable(_))).count(),
            failed,
            several_devices: read.iter().any(|figures| 1 < figures.devices),
            reasons,
        }
    }
    /// Rows that were read and are odd.
    pub fn odd(&self) -> usize {
        self.reasons.iter().filter(|reasons| reasons.first().is_some_and(|reason| reason.kind != "unreadable")).count()
    }
    /// What is found, in a sentence or three.
    pub fn sentence(&self) -> String {
        let files = self.read + self.unreadable;
        let mut words = match (self.read, self.odd()) {
            (0, _) => "Nothing could be read.".to_owned(),
            (read, 0) if read < LEAST_FILES => "Too few files to say which is odd.".to_owned(),
            (read, 0) => format!("{read} ranks are alike: none stands out."),
            (read, 1) => format!("1 of {read} ranks stands out."),
            (read, odd) => format!("{odd} of {read} ranks stand out."),
        };
        if 0 < self.failed {
            let all = if self.failed == self.read { "All".to_owned() } else { self.failed.to_string() };
            words.push_str(&format!(" {all} ran out of memory."));
        }
        if 0 < self.unreadable && 0 < self.read {
            words.push_str(&format!(" {} of {} cannot be read.", self.unreadable, counted(files as u64, "file")));
        }
        if self.several_devices {
            words.push_str(" Of a file with several devices the one with most events counts.");
        }
        words
    }
    /// Why a row is odd, in one line.
    pub fn words(&self, row: usize) -> String {
        let words: Vec<&str> = self.reasons.get(row).into_iter().flatten().map(|reason| reason.words.as_str()).collect();
        words.join("; ")
    }
}

/// Median and median absolute deviation.
struct Spread {
    median: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: Vec<u64>) -> Spread {
        let values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
        let median = median_of(values.clone());
        let deviation = median_of(values.into_iter().map(|value| (value - median).abs()).collect());
        Spread { median, deviation }
    }
    /// How many robust deviations a value lies from the median; those of equal values are `least`.
    fn score(&self, value: u64, least: f64) -> f64 {
        let unit = (self.deviation / NORMAL).max(least / ODD_SCORE);
        (value as f64 - self.median) / unit
    }
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (None, _) => 0.0,
        (Some(upper), 1) => *upper,
        (Some(upper), _) => (values[middle - 1] + upper) / 2.0,
    }
}

fn reasons_of(figures: &RankFigures, spreads: &[Spread; 6], failure_is_odd: bool) -> Vec<RankReason> {
    let mut reasons = Vec::new();
    let [allocated, reserved, end, free_at_peak, free_at_end, events] = spreads;
    let bytes = |name: &str, kind, value: u64, spread: &Spread| -> Option<RankReason> {
        let score = spread.score(value, (LEAST_SHARE * spread.median).max(LEAST_BYTES));
        let by = Bytes((value as f64 - spread.median).abs().round() as u64);
        let way = if score < 0.0 { "below" } else { "above" };
        let words = format!("{name} {by} {way} the median");
        (ODD_SCORE < score.abs()).then_some(RankReason { kind, words, score: score.abs() })
    };
    let (peak, most) = (figures.peak_allocated.bytes, figures.peak_reserved.bytes);
    reasons.extend(bytes("peak", "peak_allocated", peak, allocated));
    // Reserved memory follows what is allocated: it is told where it goes a way of its own.
    let (follows, led) = (most as f64 - reserved.median, peak as f64 - allocated.median);
    if reasons.is_empty() || follows * led < 0.0 || 1.5 * led.abs() < follows.abs() {
        reasons.extend(bytes("peak reserved", "peak_reserved", most, reserved));
    }
    reasons.extend(bytes("at the end", "end_allocated", figures.end_allocated, end));
    for (name, kind, value, spread) in [
        ("at the peak", "largest_free_at_peak", figures.free_at_peak, free_at_peak),
        ("at the end", "largest_free_at_end", figures.free_at_end, free_at_end),
    ] {
        let score = -spread.score(value, LEAST_BYTES);
        if ODD_SCORE < score && value as f64 * FREE_TIMES <= spread.median {
            let words = format!("largest free block {name} {} the others'", share_of(value as f64, spread.median));
            reasons.push(RankReason { kind, words, score });
        }
    }
    let score = events.score(figures.events, events.median * LEAST_SHARE).abs();
    let (few, many) = (figures.events as f64, events.median);
    if ODD_SCORE < score && (few * EVENT_TIMES <= many || many * EVENT_TIMES <= few) {
        let words = format!("{} events, the median is {}", grouped(figures.events), grouped(many.round() as u64));
        reasons.push(RankReason { kind: "events", words, score });
    }
    if 0 < figures.ooms && failure_is_odd {
        let words = if figures.ooms == 1 { "out of memory".to_owned() } else { format!("out of memory {} times", figures.ooms) };
        reasons.push(RankReason { kind: "out_of_memory", words, score: f64::INFINITY });
    }
    reasons.sort_by(|a, b| b.score.total_cmp(&a.score));
    reasons
}

/// A part of a whole in words: `a tenth of`.
fn share_of(part: f64, whole: f64) -> String {
    const NAMES: [&str; 7] = ["a quarter", "a fifth", "a sixth", "a seventh", "an eighth", "a ninth", "a tenth"];
    if part < 1.0 {
        return "is none, unlike".to_owned();
    }
    let times = (whole / part).round() as usize;
    match NAMES.get(times.wrapping_sub(FREE_TIMES as usize)) {
        Some(name) => format!("{name} of"),
        None => format!("1/{times} of"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn usual(rank: u64) -> RankFigures {
        let at = |bytes| Peak { position: Position(1), bytes };
        RankFigures {
            events: 10_000 + rank,
            peak_allocated: at(20 * GIB + rank * MIB),
            peak_reserved: at(22 * GIB + rank * MIB),
            end_allocated: 10 * GIB,
            end_reserved: 22 * GIB,
            free_at_peak: 400 * MIB,
            free_at_end: 4 * GIB,
            ..RankFigures::default()
        }
    }

    fn eight(change: impl Fn(&mut RankFigures)) -> Vec<RankReading> {
        let mut rows: Vec<RankFigures> = (0..8).map(usual).collect();
        change(&mut rows[5]);
        rows.into_iter().map(RankReading::Read).collect()
    }

    #[test]
    fn the_odd_one_is_first_and_says_why() {
        type Change = fn(&mut RankFigures);
        let rows: [(Change, &str); 10] = [
            (|of| of.peak_allocated.bytes += 2 * GIB, "peak 2.00 GiB above the median"),
            (|of| (of.peak_allocated.bytes, of.peak_reserved.bytes) = (23 * GIB, 25 * GIB), "peak 3.00 GiB above the median"),
            (|of| of.peak_allocated.bytes -= 8 * GIB, "peak 8.00 GiB below the median"),
            (|of| of.peak_reserved.bytes += 5 * GIB, "peak reserved 5.00 GiB above the median"),
            (|of| of.end_allocated += GIB, "at the end 1.00 GiB above the median"),
            (|of| of.free_at_peak = 40 * MIB, "largest free block at the peak a tenth of the others'"),
            (|of| of.free_at_peak = 0, "largest free block at the peak is none, unlike the others'"),
            (|of| of.free_at_end = 100 * MIB, "largest free block at the end 1/41 of the others'"),
            (|of| of.events = 100, "100 events, the median is 10 003"),
            (|of| of.ooms = 1, "out of memory"),
        ];
        for (change, words) in rows {
            let verdicts = RankVerdicts::of(&eight(change));
            let told = verdicts.words(5);
            assert!(told.starts_with(&words[..words.len().min(12)]), "{told} for {words}");
            assert_eq!((verdicts.order[0], verdicts.odd()), (5, 1), "{words}");
            assert_ne!(verdicts.median, Some(5));
            let near = |word: &str| told.split(' ').any(|other| other == word);
            assert!(words.split(' ').filter(|word| !word.contains('.')).all(near), "{told} for {words}");
        }
    }

    #[test]
    fn likeness_is_no_oddity() {
        let verdicts = RankVerdicts::of(&eight(|_| {}));
        assert_eq!((verdicts.odd(), &verdicts.order[..]), (0, &[0, 1, 2, 3, 4, 5, 6, 7][..]));
        assert_eq!(verdicts.sentence(), "8 ranks are alike: none stands out.");
        // Ranks of a pipeline differ all over: no one of them is odd.
        let stages: Vec<RankReading> =
            (0..8).map(|rank| RankReading::Read(RankFigures { end_allocated: rank * 2 * GIB, ..usual(0) })).collect();
        assert_eq!(RankVerdicts::of(&stages).odd(), 0);
        // Where all failed, a failure tells no one from the others.
        let all: Vec<RankReading> = (0..8).map(|rank| RankReading::Read(RankFigures { ooms: 1, ..usual(rank) })).collect();
        let verdicts = RankVerdicts::of(&all);
        assert_eq!((verdicts.odd(), verdicts.failed), (0, 8));
        assert!(verdicts.sentence().ends_with("All ran out of memory."));
    }

    #[test]
    fn files_that_cannot_be_read_stand_behind_the_odd_and_before_the_usual() {
        let mut rows = eight(|of| of.ooms = 2);
        rows[2] = RankReading::Unreadable("it ends early".into());
        rows[3] = RankReading::Waiting;
        let verdicts = RankVerdicts::of(&rows);
        assert_eq!(verdicts.order, [5, 2, 0, 1, 3, 4, 6, 7]);
        assert_eq!((verdicts.read, verdicts.unreadable, verdicts.failed), (6, 1, 1));
        assert_eq!(verdicts.words(2), "cannot be read: it ends early");
        assert_eq!(verdicts.words(5), "out of memory 2 times");
        assert_eq!(verdicts.sentence(), "1 of 6 ranks stands out. 1 ran out of memory. 1 of 7 files cannot be read.");
    }

    #[test]
    fn few_files_and_none_are_no_statistics() {
        assert_eq!(RankVerdicts::of(&[]).sentence(), "Nothing could be read.");
        let two = [RankReading::Read(usual(0)), RankReading::Read(RankFigures { ooms: 1, ..usual(3000) })];
        let verdicts = RankVerdicts::of(&two);
        assert_eq!((verdicts.odd(), verdicts.median.is_some()), (0, true));
        assert_eq!(verdicts.sentence(), "Too few files to say which is odd. 1 ran out of memory.");
    }
}
