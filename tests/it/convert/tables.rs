//! The tables in the hands of those who take over, and the pickle in those of Python: README's queries in DuckDB and in
//! Polars, PyTorch's own script. What is not installed here and cannot be fetched is said and left out.

use crate::samples;
use fragscope::analysis::UsageTimeline;
use fragscope::base::Progress;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn convert(from: &Path, to: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_fragscope")).arg("convert").args([from, to]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Python that has DuckDB and Polars, made once beside the build where the network gives them.
fn python_with_tables() -> Option<PathBuf> {
    let imports = |python: &Path| {
        let asked = Command::new(python).args(["-c", "import duckdb, polars"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let system = PathBuf::from("python3");
    if imports(&system) {
        return Some(system);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables-python");
    let own = folder.join("bin/python");
    if !imports(&own) {
        let made = Command::new(&system).args(["-m", "venv"]).arg(&folder).output();
        made.ok().filter(|made| made.status.success())?;
        let _ = Command::new(&own).args(["-m", "pip", "install", "-q", "duckdb", "polars"]).output();
    }
    imports(&own).then_some(own)
}

/// The queries that README shows, in its order.
fn queries() -> Vec<String> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md");
    readme.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

const ASK: &str = "
import duckdb, json, polars, sys
out = []
for query in json.load(sys.stdin):
    plain = lambda rows: [[int(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]
    out.append([plain(duckdb.sql(query).fetchall()), plain(polars.SQLContext().execute(query, eager=True).rows())])
json.dump(out, sys.stdout, default=int)
";

#[test]
fn the_ready_queries_answer_in_duckdb_and_polars() {
    let queries = queries();
    assert_eq!(queries.len(), 3, "README shows three queries");
    let Some(python) = python_with_tables() else {
        println!("skipped: no Python with DuckDB and Polars is here, and none could be installed");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("runs")).expect("a folder");
    let names = ["training", "fragmentation_oom", "two_devices"];
    for name in names {
        convert(&samples::sample(name), &folder.path().join("runs").join(format!("{name}.parquet")));
    }
    let mut asked = Command::new(python)
        .args(["-c", ASK])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("Python starts");
    serde_json::to_writer(asked.stdin.take().expect("open"), &queries).expect("Python reads");
    let output = asked.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<[Value; 2]> = serde_json::from_slice(&output.stdout).expect("JSON");
    for ([duckdb, polars], query) in answers.iter().zip(&queries) {
        assert_eq!(duckdb, polars, "{query}");
    }

    // They answer what the program answers.
    let (mut peaks, mut left) = (Vec::new(), 0);
    for name in names {
        let snapshot = samples::open(&samples::sample(name));
        for memory in snapshot.devices.as_slice().iter().filter(|memory| memory.is_used()) {
            let usage = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
            peaks.push((usage.allocated.peak().1, name, memory.ordinal));
            left += usage.allocated.at(memory.end());
        }
    }
    peaks.sort_unstable_by(|a, b| b.cmp(a));
    let wanted: Vec<Value> = peaks.iter().map(|(bytes, name, device)| serde_json::json!([name, device, bytes])).collect();
    assert_eq!(answers[0][0], Value::from(wanted));
    let rows = answers[1][0].as_array().expect("rows");
    let sum: u64 = rows.iter().filter_map(|row| row[2].as_u64()).sum();
    assert!(sum <= left && left / 2 < sum, "the ten largest hold {sum} of {left}");
    assert_eq!(
        answers[2][0],
        serde_json::json!([["fragmentation_oom", 0, 35_572, 53_878_272, 29_360_128, 1_796_059_111_072_092_u64]])
    );
}

/// The opcodes that PyTorch's page reads.
const PAGE: &str = "PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST SETITEM SETITEMS APPEND APPENDS TUPLE1 TUPLE2 TUPLE3 \
                    SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE NONE MEMOIZE \
                    BINPUT LONG_BINPUT BINGET LONG_BINGET";

const SAME: &str = "
import pickle, pickletools, sys
first, second = (open(path, 'rb').read() for path in sys.argv[1:3])
unread = {op.name for op, _, _ in pickletools.genops(second)} - set(sys.argv[3].split())
assert not unread, unread
def plain(snapshot):
    for segment in snapshot['segments']:
        for block in segment['blocks']:
            if block['state'] == 'inactive': block['requested_size'] = 0
    snapshot['segments'].sort(key=lambda segment: (segment['device'], segment['address']))
    snapshot.setdefault('external_annotations', []).sort(key=lambda mark: (mark['time_us'], mark['name'], mark['stage']))
    return snapshot
first, second = plain(pickle.loads(first)), plain(pickle.loads(second))
# Where a dump leaves out who made a segment, its event may tell.
for a, b in zip(first['segments'], second['segments']):
    if not a.get('frames'): a['frames'] = b['frames']
for key in first:
    assert first[key] == second[key], (key, [pair for pair in zip(first[key], second[key]) if pair[0] != pair[1]][:1])
";

/// Python reads the very same dicts and lists out of it.
#[test]
fn python_finds_the_same_values() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3 here");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["training", "fragmentation_oom", "two_devices", "private_pools", "expandable_segments", "streams", "late_start"]
    {
        let (first, second) = unpacked(name, folder.path());
        let output =
            Command::new("python3").args(["-c", SAME]).args([&first, &second]).arg(PAGE).output().expect("Python starts");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A sample without its gzip, and what is written of it.
fn unpacked(name: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let (first, second) = (folder.join("first.pickle"), folder.join("second.pickle"));
    let mut plain = Vec::new();
    let packed = std::fs::File::open(samples::sample(name)).expect("there");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut plain).expect("gzip");
    std::fs::write(&first, plain).expect("written");
    convert(&samples::sample(name), &second);
    (first, second)
}

/// PyTorch's own script, where `FRAGSCOPE_MEMORY_VIZ` names it (`torch/cuda/_memory_viz.py`; it needs no torch to run).
#[test]
fn pytorchs_script_says_the_same_of_both() {
    let Some(script) = std::env::var_os("FRAGSCOPE_MEMORY_VIZ") else {
        println!("skipped: FRAGSCOPE_MEMORY_VIZ names no _memory_viz.py of a PyTorch");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let say = |command: &str, file: &Path| {
        let output = Command::new("python3").arg(&script).arg(command).arg(file).output().expect("Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for path in samples::pairs(&samples::folder()) {
        let name = samples::stem(&path);
        let (first, second) = unpacked(&name, folder.path());
        for command in ["stats", "trace"] {
            assert!(say(command, &first) == say(command, &second), "{name}: {command}");
        }
        let moment = folder.path().join("moment.pickle");
        let wrote =
            Command::new(env!("CARGO_BIN_EXE_fragscope")).arg("convert").args([&path, &moment]).args(["--at", "end"]).output();
        assert!(wrote.is_ok_and(|output| output.status.success()));
        assert!(say("stats", &first) == say("stats", &moment), "{name}: one moment");
        for plot in ["trace_plot", "segment_plot"] {
            let page = folder.path().join("page.html");
            let output =
                Command::new("python3").arg(&script).arg(plot).arg(&second).arg("-o").arg(&page).output().expect("Python starts");
            assert!(output.status.success(), "{name}: {plot}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(samples::open(&page).devices.len(), samples::open(&second).devices.len(), "{name}: {plot}");
        }
    }
}
