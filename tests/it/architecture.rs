//! The laws of the house, executed on the source text.
//!
//! One crate has no walls between its folders; this test is the wall. Every law is a table below: to move a
//! wall, change one row, with a reason. The text is read as Rust tokens, so comments and strings never count,
//! and what stands under `#[cfg(test)]` may use what it likes.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What each folder may import of this crate besides `base`, `model` and itself: the staircase, bottom first.
const STAIRCASE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("model", &[]),
    ("replay", &[]),
    ("format", &["replay"]),
    ("analysis", &["replay"]),
    // A change of the job goes by the roles that lives have.
    ("simulator", &["replay", "analysis"]),
    // A built-in workload is served by the simulator's own allocator, over memory of the device.
    ("capture", &["replay", "format", "simulator"]),
    ("raster", &["replay", "analysis"]),
    ("chart", &["replay", "analysis", "raster"]),
    ("paint", &["chart", "raster"]),
    ("report", &["replay", "simulator", "analysis", "raster", "chart", "paint"]),
    ("session", &["replay", "format", "capture", "simulator", "analysis", "raster", "chart", "paint", "report"]),
    // Of the simulator the window knows the registers and the types; who runs it is the session.
    ("ui", &["replay", "capture", "simulator", "analysis", "raster", "chart", "paint", "report", "session"]),
    ("cli", &["replay", "format", "capture", "simulator", "analysis", "raster", "chart", "paint", "report", "session", "ui"]),
];

/// Macros that stand at the crate's root, and the folder they come from.
const ROOT_MACROS: &[(&str, &str)] = &[("define_id", "base")];

/// Where each outside crate lives; `"*"` is everywhere. Every dependency needs a row.
const HOMES: &[(&str, &[&str])] = &[
    ("anyhow", &["cli/"]),
    ("clap", &["cli/"]),
    ("thiserror", &["*"]),
    ("base64", &["format/", "report/html.rs", "capture/recorder.rs"]),
    ("bzip2", &["format/source.rs"]),
    // The checksum of a log's records is that of gzip.
    (
        "flate2",
        &[
            "format/source.rs",
            "format/fsl/split.rs",
            "format/fsl/writer.rs",
            "format/export/place.rs",
            "report/pprof.rs",
            "capture/recorder.rs",
        ],
    ),
    ("liblzma", &["format/source.rs"]),
    // `open` itself maps the file, and looks into an archive for the member to read.
    ("memmap2", &["format/source.rs", "format/mod.rs"]),
    ("zip", &["format/source.rs", "format/mod.rs"]),
    ("zstd", &["format/source.rs", "format/export/place.rs"]),
    ("parquet", &["format/export/parquet_folder.rs"]),
    // One moment as a list of segments, which shares nothing; it has no memo, so traces are written by `pickle/writer.rs`.
    ("serde_pickle", &["format/export/moment.rs"]),
    // The arrangement of tiles is a value of egui_tiles, which only the window knows.
    // The fields of a page are the names of its JSON.
    (
        "serde",
        &[
            "format/",
            "report/diff_model.rs",
            "report/json.rs",
            "report/kv_json.rs",
            "report/overview.rs",
            "report/page_json.rs",
            "report/page_model.rs",
            "report/perfetto.rs",
            "report/speedscope.rs",
            "report/what_if_job.rs",
            "report/whatif_json.rs",
            "report/why_json.rs",
            "session/capture_form.rs",
            "session/persist.rs",
            "session/what_if.rs",
            "ui/tiles.rs",
        ],
    ),
    (
        "serde_json",
        &[
            "format/",
            "report/diff_model.rs",
            "report/json.rs",
            "report/overview.rs",
            "report/page_json.rs",
            "report/perfetto.rs",
            "report/speedscope.rs",
            "report/whatif_json.rs",
            "report/why_json.rs",
            "session/persist.rs",
            "ui/tiles.rs",
        ],
    ),
    // Other tools' files: a format, a library. (The exporter of CSV is a module of the same name.)
    ("csv", &["format/rmm_csv.rs", "format/export/mod.rs"]),
    ("prost", &["format/jax_pprof.rs"]),
    ("rmp_serde", &["format/vllm_kv/value.rs"]),
    ("regex", &["analysis/categories.rs"]),
    ("rayon", &["format/", "replay/", "simulator/", "analysis/", "raster/"]),
    ("hashbrown", &["*"]),
    ("rustc_hash", &["*"]),
    ("eframe", &["ui/"]),
    ("egui_plot", &["paint/series.rs"]),
    ("egui_tiles", &["ui/"]),
    ("rfd", &["ui/"]),
    ("egui", &["ui/", "paint/", "report/sheet.rs"]),
    ("inferno", &["report/flame_svg.rs"]),
    ("image", &["report/"]),
    ("rustix", &["capture/child.rs"]),
    ("signal_hook", &["capture/child.rs", "capture/workload/program.rs"]),
    ("cudarc", &["capture/workload/gpu.rs"]),
    ("nvml_wrapper", &["capture/gpus.rs"]),
    ("shlex", &["session/capture_form.rs"]),
];

/// Parts of `std` that a folder never touches.
const NEVER_STD: &[(&str, &[&str])] = &[
    ("base/", &["fs", "net", "process", "thread"]),
    ("model/", &["fs", "io", "net", "process", "thread", "time"]),
    ("replay/", &["fs", "io", "net", "process", "thread", "time"]),
    ("simulator/", &["fs", "io", "net", "process", "thread", "time"]),
    ("analysis/", &["fs", "io", "net", "process", "thread", "time"]),
    ("raster/", &["fs", "net", "process"]),
    ("chart/", &["fs", "io", "net", "process", "thread", "time"]),
    ("paint/", &["fs", "net", "process", "thread"]),
    ("report/", &["net", "process", "thread"]),
];

/// Sequences of tokens, the only places where they may stand, and why.
const ONLY_AT: &[(&[&str], &[&str], &str)] = &[
    (&[".", "unwrap", "("], &[], "an error is handled or passed on, never unwrapped"),
    (&[".", "expect", "("], &[], "an error is handled or passed on, never unwrapped"),
    (&["Color32", "::", "from_*"], &["ui/theme.rs", "paint/"], "colours are inks; the theme and the painter mix them"),
    (&["thread", "::", "spawn"], &["session/jobs.rs", "capture/child.rs"], "threads start in the jobs alone"),
    (
        &["thread", "::", "scope"],
        &["cli/opening.rs", "session/ranks.rs"],
        "threads start in the jobs alone; the progress line and the reading of many files are the exceptions",
    ),
    (&["println", "!"], &["cli/"], "only the command line prints"),
    (&["print", "!"], &["cli/"], "only the command line prints"),
    (&["eprintln", "!"], &["cli/", "ui/"], "only the command line and the window print"),
    (&["todo", "!"], &[], "what is not there is not promised"),
    (&["unimplemented", "!"], &[], "what is not there is not promised"),
    (&["#", "[", "allow"], &[], "`#[expect(lint, reason = …)]` says why and tells when it is no longer needed"),
    (&["#", "!", "[", "allow"], &[], "`#![expect(lint, reason = …)]` says why and tells when it is no longer needed"),
];

/// Folders with one file a member: the register in their `mod.rs`, and the files that are no members.
const WINGS: &[(&str, &str, &[&str])] = &[
    ("cli", "COMMANDS", &["command", "moment", "opening", "output", "picture", "ranks", "table"]),
    (
        "format",
        "IMPORTERS",
        &[
            "importer",
            "error",
            "source",
            "assembly",
            "fields",
            "finish",
            "records",
            "version",
            "words",
            "foreign",
            "neighbour",
            "watched",
        ],
    ),
    ("format/export", "EXPORTERS", &["exporter", "json_tree", "moment", "place", "redact", "tables", "torch", "tree"]),
    (
        "report",
        "REPORTS",
        &[
            "report",
            "block_csv",
            "material",
            "page_model",
            "page_facts",
            "page",
            "sheet",
            "diff",
            "diff_html",
            "diff_markdown",
            "diff_model",
            "diff_page",
            "diff_pictures",
            "compose",
            "flow",
            "pictures",
            "svg",
            "overview",
            "json",
            "kv",
            "kv_json",
            "whatif_json",
            "why_json",
            "flame",
            "flame_png",
            "flame_svg",
            "folded",
            "memory_summary",
            "perfetto",
            "pprof",
            "speedscope",
            "what_if",
            "what_if_given",
            "what_if_job",
            "what_if_words",
        ],
    ),
    ("capture", "SOURCES", &["source", "child", "logs", "recorder", "attach", "gpus", "sampling", "workload", "processes"]),
    ("ui/views", "VIEWS", &["view", "usage_header", "compare_parts", "what_if_form", "what_if_job", "what_if_chart"]),
];

/// What is no part of this crate but compiled for itself, by the build script or as it: no law of imports or prints.
const OWN_PROGRAMS: &[&str] = &["capture/inject/"];

/// From this length on a file says at its head why it is one file …
const LONG_FILE_LINES: usize = 600;
/// … in these words.
const LONG_FILE_REASON: &str = "One file because";

#[test]
fn the_house_keeps_its_laws() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources(&src);
    files.retain(|place, _| !OWN_PROGRAMS.iter().any(|folder| place.starts_with(folder)));
    assert!(30 < files.len(), "the sources are not where this test looks for them: {}", src.display());
    let mut broken = String::new();
    for (place, text) in &files {
        for breach in breaches(place, text) {
            let _ = writeln!(broken, "src/{place}:{}: {}", breach.line, breach.law);
        }
    }
    for problem in folder_breaches(&files).into_iter().chain(unhoused_dependencies()) {
        let _ = writeln!(broken, "{problem}");
    }
    assert!(broken.is_empty(), "laws broken (tables: tests/it/architecture.rs):\n{broken}");
}

/// Each law is broken once, so that a wall that fell silent is noticed.
#[test]
fn every_law_can_be_broken() {
    for (place, text, law) in [
        ("base/x.rs", "//! x\nuse crate::model::Trace;", Some("`base` may not import `model`")),
        ("model/x.rs", "//! x\nuse crate::{base::Bytes, replay::Replay};", Some("`model` may not import `replay`")),
        ("chart/x.rs", "//! x\nfn f(q: crate::session::Session) {}", Some("`chart` may not import `session`")),
        ("chart/x.rs", "//! x\nuse super::super::session::Session;", Some("climbs out of its folder")),
        ("chart/x.rs", "//! x\nmod inner { use super::super::Drawing; }", None),
        ("chart/x.rs", "//! x\n// use crate::ui::x;\nconst S: &str = \"crate::ui::x\";", None),
        ("chart/x.rs", "//! x\n#[cfg(test)]\nmod tests { use crate::ui::X; fn f() { a().unwrap(); } }", None),
        ("chart/x/tests.rs", "//! x\nuse crate::ui::X;\nfn f() { a().unwrap(); }", None),
        ("base/x.rs", "//! x\ncrate::define_id! { A }", None),
        ("raster/x.rs", "//! x\nuse egui::Color32;", Some("`egui` lives in")),
        ("session/x.rs", "//! x\nfn f(a: egui::Pos2) {}", Some("`egui` lives in")),
        ("report/sheet.rs", "//! x\nuse egui::Pos2;", None),
        ("replay/x.rs", "//! x\nfn f() { a.iter().zip(b); self.zip::<u8>(b); }", None),
        ("format/x.rs", "//! x\nuse flate2::read::GzDecoder;", Some("`flate2` lives in")),
        ("model/x.rs", "//! x\nuse std::{fmt, fs::File};", Some("never touches `std::fs`")),
        ("analysis/x.rs", "//! x\nfn f() { std::time::Instant::now(); }", Some("never touches `std::time`")),
        ("format/x.rs", "//! x\nfn f() { g(a.unwrap()); }", Some("never unwrapped")),
        ("format/x.rs", "//! x\nfn f() { format!(\"{}\", a.expect(\"b\")); }", Some("never unwrapped")),
        ("format/x.rs", "//! x\nfn f() { a.unwrap_or(1); }", None),
        ("ui/x.rs", "//! x\nconst A: Color32 = Color32::from_rgb(1, 2, 3);", Some("colours are inks")),
        ("ui/theme.rs", "//! x\nconst A: Color32 = Color32::from_rgb(1, 2, 3);", None),
        ("ui/x.rs", "//! x\nfn f() { std::thread::spawn(g); }", Some("threads start in the jobs")),
        ("base/x.rs", "//! x\n#[allow(dead_code)]\nfn f() {}", Some("says why")),
        ("base/x.rs", "//! x\nfn f() { println!(); }", Some("only the command line prints")),
        ("base/x.rs", "fn f() {}", Some("opens with `//!`")),
        ("base/x.rs", &format!("//! x\n{}", "const A: u8 = 0;\n".repeat(601)), Some("over 600 lines")),
        ("base/x.rs", &format!("//! One file because x.\n{}", "const A: u8 = 0;\n".repeat(601)), None),
        ("main.rs", "//! x\nuse fragscope::ui::run;", Some("hands its arguments to `cli`")),
    ] {
        let found = breaches(place, text);
        match law {
            Some(law) => {
                assert!(found.iter().any(|breach| breach.law.contains(law)), "{place}: {law}, found {found:?} in:\n{text:.200}");
            }
            None => assert!(found.is_empty(), "{place}: {found:?} in:\n{text:.200}"),
        }
    }
}

/// A law broken at a line.
#[derive(Debug)]
struct Breach {
    line: usize,
    law: String,
}

/// One token; groups are flattened to their delimiters.
#[derive(Debug)]
struct Token {
    text: String,
    line: usize,
}

/// The laws that one file can break by itself. `place` is its path below `src/`.
fn breaches(place: &str, text: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    if head.is_empty() && place != "lib.rs" {
        found.push(Breach { line: 1, law: "a file opens with `//!`: what it is and what always holds in it".into() });
    }
    let lines = text.lines().count();
    if LONG_FILE_LINES < lines && !head.iter().any(|line| line.contains(LONG_FILE_REASON)) {
        let law = format!("over {LONG_FILE_LINES} lines ({lines}) without a reason at its head (`{LONG_FILE_REASON} …`)");
        found.push(Breach { line: 1, law });
    }
    let stream = match text.parse::<TokenStream>() {
        Ok(stream) => stream,
        Err(error) => {
            found.push(Breach { line: error.span().start().line, law: format!("not Rust: {error}") });
            return found;
        }
    };
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    // A bare allow is one in tests too.
    check_sequences(place, &tokens, true, &mut found);
    // A file of tests stands under `#[cfg(test)]` in the file above it, which `folder_breaches` sees to.
    if place.ends_with("/tests.rs") {
        return found;
    }
    let tokens = without_tests(tokens);
    check_sequences(place, &tokens, false, &mut found);
    check_imports(place, &tokens, &mut found);
    check_climbing(place, &tokens, &mut found);
    check_homes(place, &tokens, &mut found);
    check_std(place, &tokens, &mut found);
    found
}

fn check_sequences(place: &str, tokens: &[Token], attributes: bool, found: &mut Vec<Breach>) {
    for (sequence, places, why) in ONLY_AT {
        if (sequence[0] == "#") != attributes || at_home(place, places) {
            continue;
        }
        for window in tokens.windows(sequence.len()) {
            let fits = |(wanted, token): (&&str, &Token)| match wanted.strip_suffix('*') {
                Some(prefix) => token.text.starts_with(prefix),
                None => token.text == **wanted,
            };
            if sequence.iter().zip(window).all(fits) {
                found.push(Breach { line: window[0].line, law: format!("`{}`: {why}", sequence.concat()) });
            }
        }
    }
}

/// `crate::…` goes down the staircase only.
fn check_imports(place: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    let Some((folder, _)) = place.split_once('/') else {
        for (token, next) in tokens.iter().zip(tokens.iter().skip(2)) {
            if place == "main.rs" && token.text == "fragscope" && next.text != "cli" {
                found.push(Breach {
                    line: token.line,
                    law: "`main.rs` hands its arguments to `cli` and knows nothing else".into(),
                });
            }
        }
        return;
    };
    let Some((_, may)) = STAIRCASE.iter().find(|(name, _)| *name == folder) else {
        found.push(Breach { line: 1, law: format!("the folder `{folder}` has no step on the staircase") });
        return;
    };
    for (line, name) in children_of("crate", tokens) {
        let target = ROOT_MACROS.iter().find(|(macro_name, _)| *macro_name == name).map_or(name, |(_, home)| home);
        let common = target == "base" || (target == "model" && folder != "base");
        if target != folder && !common && !may.contains(&target) {
            found.push(Breach { line, law: format!("`{folder}` may not import `{target}`") });
        }
    }
}

/// `super::` never leaves the folder: imports from elsewhere say `crate::`.
fn check_climbing(place: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    let folders = place.matches('/').count();
    let is_root_of_folder = place.ends_with("/mod.rs");
    let steps_to_crate = folders + usize::from(!is_root_of_folder);
    let (mut braces, mut modules) = (0usize, Vec::new());
    for (i, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => {
                braces += 1;
                if 2 <= i && tokens[i - 2].text == "mod" {
                    modules.push(braces);
                }
            }
            "}" => {
                if modules.last() == Some(&braces) {
                    modules.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "super" if i == 0 || tokens[i - 1].text != "::" => {
                let climbed = tokens[i..].iter().step_by(2).take_while(|token| token.text == "super").count();
                if 0 < folders && steps_to_crate + modules.len() <= climbed {
                    found.push(Breach { line: token.line, law: "`super` climbs out of its folder: say `crate::…`".into() });
                }
            }
            _ => {}
        }
    }
}

fn check_homes(place: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    for (i, token) in tokens.iter().enumerate() {
        let is_path = tokens.get(i + 1).is_some_and(|next| next.text == "::");
        let is_start = i == 0 || !matches!(tokens[i - 1].text.as_str(), "::" | ".");
        if !is_path || !is_start {
            continue;
        }
        if let Some((name, homes)) = HOMES.iter().find(|(name, _)| *name == token.text)
            && !at_home(place, homes)
        {
            found.push(Breach { line: token.line, law: format!("`{name}` lives in {}", homes.join(", ")) });
        }
    }
}

fn check_std(place: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    for (folder, parts) in NEVER_STD.iter().filter(|(folder, _)| place.starts_with(folder)) {
        for (line, name) in children_of("std", tokens) {
            if parts.contains(&name) {
                found.push(Breach { line, law: format!("`{folder}` never touches `std::{name}`") });
            }
        }
    }
}

/// The names that follow `root::`, also inside `root::{a::…, b}`.
fn children_of<'a>(root: &str, tokens: &'a [Token]) -> Vec<(usize, &'a str)> {
    let mut children = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        if token.text != root || tokens.get(i + 1).is_none_or(|next| next.text != "::") {
            continue;
        }
        let Some(first) = tokens.get(i + 2) else { continue };
        if first.text != "{" {
            children.push((first.line, first.text.as_str()));
            continue;
        }
        let mut depth = 0usize;
        for (before, inner) in tokens[i + 2..].iter().zip(&tokens[i + 3..]) {
            match before.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(before.text.as_str(), "{" | ",") && inner.text != "}" {
                children.push((inner.line, inner.text.as_str()));
            }
        }
    }
    children
}

/// Laws that need more than one file: registers, orphans, heads of folders.
fn folder_breaches(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for place in files.keys().filter(|place| !matches!(place.as_str(), "main.rs" | "lib.rs")) {
        let (folder, file) = place.rsplit_once('/').unwrap_or(("", place));
        // A module is declared by the file above it: `a/b.rs` in `a/mod.rs` (or `a.rs`), `a/mod.rs` one folder up.
        let (parent, name) = match file {
            "mod.rs" => match folder.rsplit_once('/') {
                Some((above, name)) => (above.to_owned(), name),
                None => (String::new(), folder),
            },
            _ => (folder.to_owned(), file.trim_end_matches(".rs")),
        };
        let declarers =
            if parent.is_empty() { vec!["lib.rs".to_owned()] } else { vec![format!("{parent}/mod.rs"), format!("{parent}.rs")] };
        let declared = declarers.iter().filter_map(|path| files.get(path)).any(|text| {
            let tokens = tokens_of(text);
            tokens.windows(2).any(|pair| pair[0].text == "mod" && pair[1].text == name)
        });
        let unguarded = declarers.iter().filter_map(|path| files.get(path)).any(|text| {
            let tokens = without_tests(tokens_of(text));
            tokens.windows(2).any(|pair| pair[0].text == "mod" && pair[1].text == name)
        });
        if name == "tests" && unguarded {
            found.push(format!("src/{place}: `mod tests` stands without `#[cfg(test)]`"));
        }
        if !declared {
            found.push(format!("src/{place}: no `mod {name}` names it in {}", declarers.join(" or ")));
        }
    }
    for (wing, register, others) in WINGS {
        let Some(text) = files.get(&format!("{wing}/mod.rs")) else {
            found.push(format!("src/{wing}/mod.rs: missing"));
            continue;
        };
        let tokens = tokens_of(text);
        let Some(start) = tokens.windows(2).position(|pair| pair[0].text == "const" && pair[1].text == *register) else {
            found.push(format!("src/{wing}/mod.rs: the register `{register}` is missing"));
            continue;
        };
        let listed: Vec<&str> = tokens[start..].iter().take_while(|token| token.text != ";").map(|t| t.text.as_str()).collect();
        for place in files.keys() {
            let member = place.strip_prefix(&format!("{wing}/")).and_then(|rest| rest.strip_suffix(".rs"));
            let Some(member) = member.filter(|name| *name != "mod" && !name.contains('/')) else { continue };
            if !others.contains(&member) && !listed.contains(&member) {
                found.push(format!("src/{place}: not listed in `{register}` of src/{wing}/mod.rs"));
            }
        }
    }
    found
}

/// Dependencies of `Cargo.toml` that no row of [`HOMES`] houses, and rows for what is no dependency.
fn unhoused_dependencies() -> Vec<String> {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("Cargo.toml");
    let named: Vec<String> = manifest
        .lines()
        .scan(false, |of_program, line| {
            if line.starts_with('[') {
                *of_program = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
            }
            Some((*of_program, line))
        })
        .filter(|(of_program, line)| *of_program && !line.starts_with(['#', '[']))
        .filter_map(|(_, line)| line.split_once('=').map(|(name, _)| name.trim().replace('-', "_")))
        .collect();
    let homeless = named.iter().filter(|name| !HOMES.iter().any(|(housed, _)| housed == *name));
    let gone = HOMES.iter().filter(|(housed, _)| !named.iter().any(|name| name == housed));
    homeless
        .map(|name| format!("Cargo.toml: the dependency `{name}` has no home (table HOMES)"))
        .chain(gone.map(|(name, _)| format!("HOMES: `{name}` is no dependency of Cargo.toml")))
        .collect()
}

/// Whether a path is one of the places: a folder with a slash at its end, a file, or `*`.
fn at_home(place: &str, places: &[&str]) -> bool {
    places.iter().any(|home| *home == "*" || place == *home || (home.ends_with('/') && place.starts_with(home)))
}

/// All Rust files below a folder: path below it with forward slashes, and text.
fn sources(src: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(src).expect("below src").to_string_lossy().replace('\\', "/");
                files.insert(below, std::fs::read_to_string(&path).expect("readable text"));
            }
        }
    }
    files
}

fn tokens_of(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    flatten(text.parse().unwrap_or_default(), &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut joined: Option<String> = None;
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token { text: open.into(), line });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.into(), line: group.span_close().start().line });
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                // `::` arrives as two signs, the first one joint.
                match joined.take() {
                    Some(first) => tokens.push(Token { text: first + ":", line }),
                    None if punct.spacing() == proc_macro2::Spacing::Joint => joined = Some(":".into()),
                    None => tokens.push(Token { text: ":".into(), line }),
                }
            }
            other => tokens.push(Token { text: other.to_string(), line }),
        }
    }
}

/// Leaves out every item under `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        if token.text != "#" || rest.peek().is_none_or(|next| next.text != "[") {
            kept.push(token);
            continue;
        }
        let attribute = take_group(&mut rest);
        let names = |name: &str| attribute.iter().any(|token| token.text == name);
        if !(attribute.get(1).is_some_and(|first| first.text == "cfg") && names("test") && !names("not")) {
            kept.push(token);
            kept.extend(attribute);
            continue;
        }
        let mut depth = 0usize;
        for token in rest.by_ref() {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" => depth -= 1,
                "}" => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                ";" if depth == 0 => break,
                _ => {}
            }
        }
    }
    kept
}

fn take_group(rest: &mut impl Iterator<Item = Token>) -> Vec<Token> {
    let mut group = Vec::new();
    let mut depth = 0usize;
    for token in rest {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        group.push(token);
        if depth == 0 {
            break;
        }
    }
    group
}
