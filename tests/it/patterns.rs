//! Blocks chosen by a search and scaled, left out, made again or moved out: through the command line, against recordings of
//! the job that really did so where there are any, and against the changes by name on a sample.

use crate::samples;
use serde_json::Value;
use std::path::{Path, PathBuf};

const GIB: f64 = (1u64 << 30) as f64;

fn row(file: &Path, options: &[&str]) -> Value {
    let program = env!("CARGO_BIN_EXE_fragscope");
    let output = std::process::Command::new(program).arg("whatif").arg(file).args(options).arg("--json").output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).expect("one JSON value")[0].take()
}

fn peak(row: &Value) -> f64 {
    row["peak_allocated"].as_f64().expect("a peak")
}

/// A change of one recording, the recording it is to be like, and how many times its peak the prediction may be.
type Case = (&'static str, &'static [&'static str], &'static str, std::ops::RangeInclusive<f64>);

const CASES: [Case; 8] = [
    // The optimizer's own frames left out: an optimizer without state.
    ("train_default", &["--drop", "adam.py"], "train_sgd", 0.99..=1.01),
    ("train_default_all", &["--drop", "torch/optim/"], "train_sgd", 0.99..=1.01),
    // What the model's forward pass made waits on the host.
    ("train_default", &["--move-out", "forward"], "train_offload_act", 0.9..=1.01),
    ("train_default_all", &["--move-out", "forward -autograd::Engine"], "train_offload_act", 0.9..=1.01),
    // What the layers made is made again; what that needs meanwhile is not counted, so it is a lower bound.
    ("train_default", &["--shorten", "forward"], "train_checkpoint", 0.8..=1.0),
    ("train_default_all", &["--shorten", "forward -autograd::Engine"], "train_checkpoint", 0.8..=1.0),
    // A pattern that is all of the passes, twice as large: no less than twice the batch, for gradients grow as well.
    ("train_default", &["--scale", "forward=2"], "train_batch_double", 0.9..=1.05),
    ("train_default_all", &["--scale", "forward=2"], "train_batch_double", 0.9..=1.05),
];

#[test]
fn chosen_blocks_predict_the_job_that_did_so() {
    let Some(root) = std::env::var_os("FRAGSCOPE_TRUTH_DIR") else {
        println!("skipped: FRAGSCOPE_TRUTH_DIR names no folder of snapshots with their counters");
        return;
    };
    let folder = PathBuf::from(root).join("2.11.0");
    let mut wrong = Vec::new();
    for (base, options, like, times) in CASES {
        let (file, counters) = (folder.join(format!("{base}.pickle.gz")), folder.join(format!("{like}.json")));
        let (true, Ok(counters)) = (file.is_file(), std::fs::read_to_string(&counters)) else {
            println!("skipped: the folder holds no {base} or no {like}");
            continue;
        };
        let counters: Value = serde_json::from_str(&counters).expect("counters are JSON");
        let truth = counters["devices"][0]["stats"]["allocated_bytes.all.peak"].as_f64().expect("a peak");
        let row = row(&file, options);
        let (peak, bound) = (peak(&row), row["change"]["bound"].clone());
        let said = format!("{base} {options:?}: {:.3} GiB, {like} {:.3} GiB, {bound}", peak / GIB, truth / GIB);
        println!("{said}");
        if !times.contains(&(peak / truth)) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn chosen_blocks_of_the_sample_are_changed_and_no_others() {
    let file = samples::sample("training");
    let whole = row(&file, &[]);
    let is = |options: &[&str], what: &str, bound: &str| {
        let row = row(&file, options);
        assert_eq!((row["change"]["what"].as_str(), row["change"]["bound"].as_str()), (Some(what), Some(bound)), "{options:?}");
        row
    };
    // Left out by its frames or by its role, the optimizer's part is the same.
    let dropped = is(&["--drop", "torch/optim/"], "without torch/optim/", "lower bound");
    let by_role = row(&file, &["--without", "optimizer-state"]);
    assert!((peak(&dropped) / peak(&by_role) - 1.0).abs() < 0.01, "{} {}", peak(&dropped), peak(&by_role));
    // On the host by its frames or by its role.
    let moved = is(&["--move-out", "forward"], "forward on the host", "lower bound");
    let by_role = row(&file, &["--offload", "activations"]);
    assert!((peak(&moved) / peak(&by_role) - 1.0).abs() < 0.05, "{} {}", peak(&moved), peak(&by_role));
    // Made again without what that needs: no more than with it.
    let shortened = is(&["--shorten", "forward"], "forward made again", "lower bound");
    let checkpointed = row(&file, &["--checkpoint"]);
    assert!(peak(&shortened) <= peak(&checkpointed) && peak(&checkpointed) < peak(&whole));
    // A factor of one changes nothing, of two what was chosen alone.
    let same = is(&["--scale", "forward=1"], "forward ×1", "estimate");
    assert_eq!(same["peak_reserved"], whole["peak_reserved"]);
    let (twice, half) = (row(&file, &["--scale", "forward=2"]), row(&file, &["--scale", "forward=0.5"]));
    assert!(peak(&half) < peak(&whole) && peak(&whole) < peak(&twice) && peak(&twice) <= peak(&whole) * 2.0);
    // Several together.
    let both = row(&file, &["--drop", "torch/optim/", "--scale", "forward=0.5"]);
    assert!(peak(&both) < peak(&dropped).min(peak(&half)));
    assert!(both["change"]["assumption"].as_str().is_some_and(|text| text.contains("nothing takes their place")));
}
