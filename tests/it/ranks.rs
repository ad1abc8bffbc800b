//! Many files of one job: as a table on the command line, and as a page of the window.

use crate::samples::sample;
use crate::window::{Window_, rest, window};
use egui_kittest::kittest::Queryable;
use fragscope::analysis::RankReading;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A folder of ranks: alike but for one of another job, one that is cut short, one that is none, and one beside them that
/// is no snapshot by its name.
fn job() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (usual, other) = (sample("training"), sample("fragmentation_oom"));
    for rank in 0..8 {
        let from = if rank == 5 { &other } else { &usual };
        std::fs::copy(from, folder.path().join(format!("snapshot_rank{rank}.pickle.gz"))).expect("copied");
    }
    let whole = std::fs::read(&usual).expect("read");
    std::fs::write(folder.path().join("snapshot_rank3.pickle.gz"), &whole[..whole.len() / 8]).expect("written");
    std::fs::write(folder.path().join("snapshot_rank6.pickle.gz"), "this is no snapshot").expect("written");
    std::fs::write(folder.path().join("settings.json"), "{}").expect("written");
    folder
}

fn fragscope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fragscope")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

#[test]
fn a_folder_is_one_table_with_the_odd_ones_first() {
    let job = job();
    let folder = job.path().to_string_lossy().into_owned();
    let pattern = job.path().join("*rank?.pickle.gz").to_string_lossy().into_owned();
    let mut tables = Vec::new();
    for named in [&folder, &pattern] {
        let output = fragscope(&["info", named]);
        assert_eq!(output.status.code(), Some(2), "one cannot be read");
        let said = text(&output.stderr);
        assert!(said.lines().count() == 1 && said.contains("snapshot_rank6.pickle.gz"), "{said}");
        tables.push(text(&output.stdout));
    }
    assert_eq!(tables[0], tables[1]);
    let lines: Vec<&str> = tables[0].lines().collect();
    assert!(
        lines[0].starts_with("8 files: ") && lines[0].contains("1 ran out of memory. 1 of 8 files cannot be read."),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with("snapshot_rank0.pickle.gz"), "the median is one of the usual: {}", lines[1]);
    assert!(lines[4].starts_with("rank 5") && lines[4].contains("out of memory"), "{}", tables[0]);
    let at = |rank: &str| lines.iter().position(|line| line.starts_with(rank)).expect("a row");
    assert!(lines[at("rank 6")].contains("cannot be read: "), "{}", lines[at("rank 6")]);
    assert!(at("rank 6") < at("rank 0") && at("rank 0") < at("rank 1") && at("rank 4") < at("rank 7"), "{}", tables[0]);
    assert_eq!(lines.len(), 12, "{}", tables[0]);
}

#[test]
fn the_list_of_ranks_is_that_of_single_files() {
    let job = job();
    let output = fragscope(&["info", "--json", &job.path().to_string_lossy()]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 7, "all that could be read");
    assert_eq!(list[0]["rank"]["rank"], 5);
    assert!(list[0]["rank"]["odd"].as_array().is_some_and(|odd| odd.iter().any(|reason| reason["kind"] == "out_of_memory")));
    assert_eq!(list.iter().filter(|file| file["rank"]["median"] == true).count(), 1);
    for file in list {
        let path = file["file"].as_str().expect("a path");
        let alone: Value = serde_json::from_slice(&fragscope(&["info", "--json", path]).stdout).expect("JSON");
        let mut file = file.clone();
        assert!(file.as_object_mut().expect("an object").remove("rank").is_some());
        assert_eq!(file, alone[0], "{path}");
    }
}

#[test]
fn few_files_are_told_one_by_one_unless_asked_together() {
    let (a, b) = (sample("training"), sample("private_pools"));
    let files = [a.to_string_lossy().into_owned(), b.to_string_lossy().into_owned()];
    let apart = text(&fragscope(&["info", &files[0], &files[1]]).stdout);
    assert!(apart.contains("device 0: "), "{apart}");
    let together = fragscope(&["info", "--ranks", &files[0], &files[1]]);
    assert_eq!(together.status.code(), Some(0), "{}", text(&together.stderr));
    assert!(text(&together.stdout).starts_with("2 files: Too few files to say which is odd."));
    let empty = tempfile::tempdir().expect("a folder");
    let named = empty.path().to_string_lossy().into_owned();
    let nothing = empty.path().join("*.pickle").to_string_lossy().into_owned();
    for (arguments, said) in [(["info", &named], "no snapshot is in"), (["info", &nothing], "no file is called")] {
        let output = fragscope(&arguments);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
}

#[test]
fn a_folder_has_a_report_each_and_an_overview() {
    let job = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        std::fs::copy(sample("private_pools"), job.path().join(format!("rank{rank}.pickle.gz"))).expect("copied");
    }
    let out = job.path().join("out");
    let output = fragscope(&["report", &job.path().to_string_lossy(), "-o", &out.join("{}.md").to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for name in ["rank0.md", "rank1.md", "index.md"] {
        assert!(out.join(name).is_file(), "{name}");
    }
}

/// The memory of the program while it reads many files does not grow with their number.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_number_of_files() {
    let most_kib = |files: usize| -> u64 {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..files {
            std::fs::copy(sample("fragmentation_oom"), folder.path().join(format!("rank{rank}.pickle.gz"))).expect("copied");
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_fragscope"))
            .args(["info", &folder.path().to_string_lossy()])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0;
        while child.try_wait().expect("it is ours").is_none() {
            let told = std::fs::read_to_string(&status).unwrap_or_default();
            let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
            most = most.max(line.trim().trim_end_matches(" kB").parse().unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        most
    };
    let (few, many) = (most_kib(8), most_kib(64));
    println!("{} MiB for 8 files, {} MiB for 64", few / 1024, many / 1024);
    assert!(0 < few && many < few + few / 2 + 64 * 1024, "{few} KiB for 8 files, {many} KiB for 64");
}

fn is_page(window: &Window_<'_>) -> bool {
    window.query_by_label("ranks").is_some()
}

fn opened(folder: &Path) -> Window_<'static> {
    let mut window = window(vec![folder.to_owned()]);
    rest(&mut window);
    window
}

#[test]
fn a_folder_opens_as_a_page_and_its_rows_as_files() {
    let job = job();
    let mut window = opened(job.path());
    assert!(is_page(&window) && window.state().session.documents().is_empty());
    {
        let ranks = window.state().session.ranks().expect("a set");
        assert_eq!((ranks.files.len(), ranks.done(), ranks.verdicts.order[0]), (8, 8, 5));
        assert!(matches!(ranks.readings[6], RankReading::Unreadable(_)));
    }
    window.query_all_by_label_contains("cannot be read: ").next().expect("the broken file has a row with its sentence");
    // The oddest is selected: one button compares it with the usual one.
    window.get_by_label("Compare with the median rank").click();
    rest(&mut window);
    let titles: Vec<String> = window.state().session.documents().iter().map(|document| document.title.clone()).collect();
    assert_eq!(titles, ["snapshot_rank0.pickle.gz", "snapshot_rank5.pickle.gz"]);
    assert!(!is_page(&window));
    assert_eq!(window.state().session.active().map(|document| document.title.as_str()), Some("snapshot_rank5.pickle.gz"));
    window.query_all_by_label_contains("snapshot_rank0.pickle.gz").next().expect("the comparison names its baseline");
    // Back to the page; a small picture opens its rank, here one that is open already.
    window.get_by_label("Ranks (8)").click();
    rest(&mut window);
    assert!(is_page(&window));
    window.get_by_label("Open rank 0, the median rank").click();
    rest(&mut window);
    assert!(!is_page(&window));
    assert_eq!(window.state().session.active().map(|document| document.title.as_str()), Some("snapshot_rank0.pickle.gz"));
    window.get_by_label("Ranks (8)").click();
    rest(&mut window);
    // A row: the first click selects, the second opens.
    for _ in 0..2 {
        window.get_by_role_and_label(egui::accesskit::Role::ListBoxOption, "rank 7").click();
        rest(&mut window);
    }
    assert_eq!(window.state().session.active().map(|document| document.title.as_str()), Some("snapshot_rank7.pickle.gz"));
    window.get_by_label("Close the ranks").click();
    rest(&mut window);
    assert!(window.state().session.ranks().is_none() && window.query_by_label("Ranks (8)").is_none());
}

#[test]
fn reading_can_be_stopped_and_keeps_what_was_read() {
    use fragscope::session::{Command, Session, rank_files};
    let mut session = Session::new(None);
    let files = rank_files::by_rank(vec![sample("streams"); 1].into_iter().chain([sample("training")]).collect());
    session.apply(Command::OpenRanks { title: "two".into(), files });
    let job = session.ranks().expect("a set").job();
    session.apply(Command::Cancel(job));
    crate::window::settle(&mut session);
    let ranks = session.ranks().expect("the page stays");
    assert!(ranks.done() < 2 && session.documents().is_empty());
    assert!(session.notes().is_empty(), "{:?}", session.notes());
}

/// A dialog that always answers.
struct Answering(std::path::PathBuf);

impl fragscope::session::Dialogs for Answering {
    fn pick_files(&self) -> Vec<std::path::PathBuf> {
        (0..9).map(|rank| self.0.join(format!("snapshot_rank{rank}.pickle.gz"))).collect()
    }
    fn pick_target(&self, _: &str) -> Option<std::path::PathBuf> {
        None
    }
    fn pick_folder(&self) -> Option<std::path::PathBuf> {
        Some(self.0.clone())
    }
}

#[test]
fn folders_patterns_and_many_files_are_ranks_and_few_files_are_documents() {
    use fragscope::session::{Command, Session};
    let job = job();
    let all: Vec<_> = (0..9).map(|rank| job.path().join(format!("snapshot_rank{rank}.pickle.gz"))).collect();
    for (command, ranks, documents, notes) in [
        (Command::OpenFolderDialog, 8, 0, 0),
        // The ninth file is not there: it has a row with its sentence.
        (Command::OpenDialog, 9, 0, 0),
        (Command::Open(job.path().to_owned()), 8, 0, 0),
        (Command::Open(job.path().join("*rank[12]*")), 0, 0, 1),
        (Command::Open(job.path().join("*rank?.*")), 8, 0, 0),
        (Command::Open(job.path().join("*rank1*")), 0, 1, 0),
        (Command::OpenAll(all[..2].to_vec()), 0, 2, 0),
        (Command::OpenAll(all.clone()), 9, 0, 0),
        (Command::Open(job.path().join("nothing*")), 0, 0, 1),
    ] {
        let mut session = Session::new(None);
        session.set_dialogs(std::sync::Arc::new(Answering(job.path().to_owned())));
        let told = format!("{command:?}");
        session.apply(command);
        crate::window::settle(&mut session);
        let found = session.ranks().map_or(0, |ranks| ranks.done());
        assert_eq!((found, session.documents().len(), session.notes().len()), (ranks, documents, notes), "{told}");
    }
}
