//! Small made-up jobs whose batches and lengths are known: what a recording tells of them, what is assumed where it tells
//! nothing, and that a changed job is the job that has that batch or length.

use fragscope::analysis::Workload;
use fragscope::base::Progress;
use fragscope::model::{Action, AllocatorSettings, Frame, Origin, Snapshot, StackId, StreamId, TraceEntry};
use fragscope::replay::SnapshotBuilder;
use fragscope::simulator::{Change, Changed, RequestStream, Rules, Scenario, change, simulate};

/// What a job looks like.
#[derive(Clone, Copy)]
struct Kind {
    /// Scores of each place against each other, and numbers of the places.
    attention: bool,
    /// Numbers for each sample that a norm keeps.
    norm: bool,
    stacks: bool,
}

const PLAIN: Kind = Kind { attention: false, norm: false, stacks: true };
const NORM: Kind = Kind { norm: true, ..PLAIN };
const ATTENTION: Kind = Kind { attention: true, norm: true, ..PLAIN };

const WIDTH: u64 = 96;
const CLASSES: u64 = 50;

struct Made {
    builder: SnapshotBuilder,
    end: u64,
}

impl Made {
    fn stack(&mut self, frames: &[(&str, &str)]) -> StackId {
        let stacks = &mut self.builder.stacks;
        let frames: Vec<_> = frames
            .iter()
            .map(|(function, file)| {
                let (name, filename) = (stacks.strings.intern(function), stacks.strings.intern(file));
                stacks.intern_frame(Frame { name, filename, line: 1 })
            })
            .collect();
        stacks.intern(&frames)
    }
    fn event(&mut self, action: Action, (address, size): (u64, u64), stack: StackId) {
        let (stream, time_us, pool) = (StreamId::DEFAULT, None, None);
        let (compile_context, user_metadata) = (None, None);
        let entry = TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata };
        self.builder.device(0).trace.push(entry);
    }
    fn ask(&mut self, size: u64, stack: StackId) -> (u64, u64) {
        let life = (0x7000_0000_0000 + self.end, size);
        self.end += size.next_multiple_of(512);
        self.event(Action::Alloc, life, stack);
        life
    }
    fn give(&mut self, life: (u64, u64)) {
        self.event(Action::FreeRequested, life, StackId::EMPTY);
        self.event(Action::FreeCompleted, life, StackId::EMPTY);
    }
}

/// A job of one step for each batch and length: six layers, and an optimizer with state.
fn job(kind: Kind, steps: &[(u64, u64)]) -> Snapshot {
    let mut made = Made { builder: SnapshotBuilder::default(), end: 0 };
    let stacks: [&[(&str, &str)]; 4] = [
        &[("main", "/job/train.py")],
        &[("forward", "/job/model.py"), ("main", "/job/train.py")],
        &[("backward", "/lib/torch/_tensor.py"), ("main", "/job/train.py")],
        &[("step", "/lib/torch/optim/adam.py"), ("main", "/job/train.py")],
    ];
    let [setup, forward, backward, optimizer] =
        stacks.map(|frames| if kind.stacks { made.stack(frames) } else { StackId::EMPTY });
    let weights: Vec<_> = (0..6).map(|_| made.ask(WIDTH * WIDTH * 4, setup)).collect();
    for (row, (batch, length)) in steps.iter().enumerate() {
        let tokens = batch * length;
        let mut inputs = vec![made.ask(tokens * WIDTH * 4, setup), made.ask(tokens * 8, setup)];
        if kind.attention {
            inputs.push(made.ask(length * 8, forward));
        }
        let mut held = Vec::new();
        for _ in &weights {
            let temporary = made.ask(tokens * WIDTH * 4, forward);
            held.push(made.ask(tokens * WIDTH * 4, forward));
            held.push(made.ask(tokens * WIDTH, forward));
            if kind.norm {
                held.push(made.ask(tokens * 4, forward));
                held.push(made.ask(tokens * 4, forward));
            }
            if kind.attention {
                held.push(made.ask(tokens * length * 12, forward));
            }
            made.give(temporary);
        }
        held.push(made.ask(tokens * CLASSES * 4, forward));
        let per_layer = held.len() / weights.len();
        let mut gradients = Vec::new();
        for weight in weights.iter().rev() {
            let temporary = made.ask(tokens * WIDTH * 4, backward);
            gradients.push(made.ask(weight.1, backward));
            for _ in 0..per_layer {
                held.pop().into_iter().for_each(|life| made.give(life));
            }
            made.give(temporary);
        }
        held.drain(..).chain(inputs).for_each(|life| made.give(life));
        if row == 0 {
            weights.iter().for_each(|weight| {
                made.ask(weight.1 * 2, optimizer);
            });
        }
        let temporary = made.ask(WIDTH * WIDTH * 4, optimizer);
        made.give(temporary);
        gradients.into_iter().for_each(|life| made.give(life));
    }
    made.builder.finish(Origin::default(), &Progress::new()).expect("nobody cancels")
}

fn workload(snapshot: &Snapshot) -> Workload {
    Workload::of(snapshot, snapshot.busiest_device().expect("a device"), &Progress::new()).expect("nobody cancels")
}

fn changed(snapshot: &Snapshot, what: Change) -> Result<Changed, String> {
    let device = snapshot.busiest_device().expect("a device");
    let asked = RequestStream::of(snapshot, device, &[]);
    change(&asked, &snapshot.devices[device].allocations, &workload(snapshot), &[what])
}

/// The most requested at once.
fn peak(asked: &RequestStream) -> u64 {
    let scenario = Scenario::new(AllocatorSettings::default(), Rules::of(&Origin::default())[0]);
    simulate(asked, &scenario, &Progress::new()).expect("nobody cancels").counters.requested.peak
}

fn recorded(snapshot: &Snapshot) -> u64 {
    peak(&RequestStream::of(snapshot, snapshot.busiest_device().expect("a device"), &[]))
}

#[test]
fn recordings_tell_their_samples() {
    for (kind, steps, samples) in [
        (PLAIN, vec![(37, 1); 3], Some(vec![37; 3])),
        (PLAIN, vec![(74, 1); 3], Some(vec![74; 3])),
        (NORM, vec![(37, 1); 3], Some(vec![37; 3])),
        (NORM, vec![(74, 1); 3], Some(vec![74; 3])),
        (PLAIN, vec![(37, 1), (37, 1), (37, 1), (13, 1)], Some(vec![37, 37, 37, 13])),
        (ATTENTION, vec![(16, 24), (4, 56), (27, 16), (9, 40)], Some(vec![16, 4, 27, 9])),
    ] {
        let found = workload(&job(kind, &steps));
        let told: Option<Vec<u64>> = found.samples.iter().copied().collect();
        assert_eq!(told, samples, "{steps:?} {:?}", found.told);
        assert_eq!(found.told.length, kind.attention, "{steps:?}");
    }
    // Tokens are finer than samples: rounding to them is no coarser than what is shown.
    let found = workload(&job(ATTENTION, &[(5, 20); 3]));
    assert!(found.samples.iter().flatten().all(|count| count.is_multiple_of(5)), "{:?}", found.samples);
    // Without any step nothing is told.
    assert!(workload(&job(PLAIN, &[])).samples.is_empty());
}

#[test]
fn a_changed_batch_is_the_job_with_that_batch() {
    let whole = |batch: u64, factor: f64| ((batch as f64 * factor) as u64).max(1);
    for (kind, steps) in [
        (PLAIN, vec![(37, 1); 3]),
        (NORM, vec![(37, 1); 3]),
        (PLAIN, vec![(37, 1), (37, 1), (37, 1), (13, 1)]),
        (ATTENTION, vec![(16, 24), (4, 56), (27, 16), (9, 40)]),
        (PLAIN, vec![(3, 1); 4]),
    ] {
        let base = job(kind, &steps);
        for factor in [0.5, 2.0, 1.5, 0.1] {
            let truth: Vec<(u64, u64)> = steps.iter().map(|(batch, length)| (whole(*batch, factor), *length)).collect();
            let changed = changed(&base, Change::Batch(factor)).expect("a batch");
            assert_eq!(peak(&changed.asked), recorded(&job(kind, &truth)), "{steps:?} ×{factor}: {}", changed.assumption);
            assert!(changed.assumption.contains("rounded down to whole ones"), "{}", changed.assumption);
        }
    }
    // In parts of whole samples, the larger first.
    let changed = changed(&job(PLAIN, &[(37, 1); 3]), Change::Accumulate(2)).expect("two parts");
    let sizes: Vec<u64> = changed
        .asked
        .requests
        .iter()
        .filter_map(|(_, request)| match request {
            fragscope::simulator::Request::Alloc(_, wanted) => Some(wanted.size),
            _ => None,
        })
        .collect();
    let count = |size: u64| sizes.iter().filter(|other| **other == size).count();
    assert_eq!((count(19 * WIDTH), count(18 * WIDTH), count(37 * WIDTH)), (18, 18, 0));
}

#[test]
fn length_says_what_is_told_and_what_is_assumed() {
    let steps = [(16, 24), (4, 56), (27, 16), (9, 40)];
    let told = changed(&job(ATTENTION, &steps), Change::Length(0.5)).expect("a length");
    assert!(told.assumption.contains("Steps of 4 shapes tell what grows with the length"), "{}", told.assumption);
    let half = steps.map(|(batch, length)| (batch, length / 2));
    assert_eq!(peak(&told.asked), recorded(&job(ATTENTION, &half)));

    let no_stacks = Kind { stacks: false, ..ATTENTION };
    for (kind, steps, sentences) in [
        (
            PLAIN,
            vec![(37, 1); 3],
            vec!["No steps of different shapes could be compared", "A job without sequences has no length"],
        ),
        (PLAIN, vec![(37, 1), (37, 1), (13, 1)], vec!["differ in one measure alone", "A job without sequences has no length"]),
        (no_stacks, vec![(5, 20); 4], vec!["No steps of different shapes", "Without stacks the passes are taken to meet"]),
    ] {
        let changed = changed(&job(kind, &steps), Change::Length(2.0)).expect("a length");
        for sentence in sentences {
            assert!(changed.assumption.contains(sentence), "{steps:?}: {}", changed.assumption);
        }
        assert!(!changed.assumption.contains("tell what grows with the length"), "{}", changed.assumption);
    }
    for what in [Change::Length(2.0), Change::Batch(2.0)] {
        let error = changed(&job(PLAIN, &[]), what).expect_err("nothing grows");
        assert!(error.contains("no block of the recording was found to grow"), "{error}");
    }
}
