//! The page of captures, around a job that uses the stand-in for PyTorch.

use super::{click, events, open, until};
use crate::window::{Window_, remembering_window, rest, window};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable;
use fragscope::capture::Stacks;
use fragscope::session::capture_form::CaptureForm;
use fragscope::session::capturing::CaptureDeed;
use fragscope::session::{Command, Session};
use std::path::{Path, PathBuf};

/// The folder of the stand-in and its job.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capture")
}

fn job(what: &str) -> String {
    format!("python3 {} {what}", here().join("job.py").display())
}

fn environment(folder: &Path) -> String {
    format!("PYTHONPATH={} PYTHONDONTWRITEBYTECODE=1 FAKE_TRUTH={}", here().display(), folder.join("truth").display())
}

fn type_into(window: &mut Window_<'_>, label: &str, text: &str) {
    window.get_by_role_and_label(Role::TextInput, label).focus();
    window.step();
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.event(egui::Event::Text(text.to_owned()));
    window.step();
    window.step();
}

fn page(window: &mut Window_<'_>) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::R);
    rest(window);
}

fn is_over(session: &Session) -> bool {
    session.captures().last().is_some_and(|capture| capture.over.is_some())
}

#[test]
fn a_job_is_typed_in_and_watched_to_its_end_with_python() {
    let (folder, config) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut window = remembering_window(config.path().to_owned(), Vec::new());
    rest(&mut window);
    click(&mut window, "Record a job…");
    rest(&mut window);
    assert!(window.query_by_label("What can be recorded here").is_some());
    assert!(window.query_by_label_contains("caching allocator").is_some(), "the ways are listed with what they record");
    type_into(&mut window, "Command", &job("slow 400"));
    type_into(&mut window, "Working directory", &folder.path().display().to_string());
    type_into(&mut window, "Environment", &environment(folder.path()));
    type_into(&mut window, "Allocator settings", "max_split_size_mb:256");
    click(&mut window, "Record");
    until(&mut window, "events arrive", |session| {
        session.live_in_front().is_some_and(|live| live.is_growing()) && 100 < events(session)
    });
    let first = events(&window.state().session);
    until(&mut window, "more arrive", |session| first < events(session));
    assert!(window.query_by_label("Live").is_some(), "the document is in front");
    until(&mut window, "it ends", |session| {
        is_over(session) && session.live_in_front().is_some_and(|live| !live.is_growing()) && session.is_idle()
    });
    assert!(window.query_by_label_contains("The job ended well.").is_some());
    let log = folder.path().join("capture-1.fsl");
    let (shown, truth) = (open(&log), open(&folder.path().join("truth.main")));
    assert_eq!(events(&window.state().session), truth.devices.as_slice()[0].trace.len());
    assert_eq!(shown.devices.as_slice()[0].trace.actions(), truth.devices.as_slice()[0].trace.actions());
    assert_eq!(shown.settings.conf, "max_split_size_mb:256");
    page(&mut window);
    assert!(window.query_by_label_contains("done slow").is_some(), "what it printed is shown");
    rest(&mut window);
    // Another window knows the command.
    let again = fragscope::session::persist::load(config.path());
    assert_eq!(again.captures.len(), 1);
    assert_eq!(again.captures[0].command, job("slow 400"));
    // The log is copied elsewhere.
    let copy = folder.path().join("kept.fsl");
    window.state_mut().session.send(Command::Capture(CaptureDeed::SaveLog(log.clone(), copy.clone())));
    rest(&mut window);
    assert_eq!(std::fs::read(&copy).expect("copied"), std::fs::read(&log).expect("there"));
}

#[test]
fn a_job_is_stopped_and_then_killed_with_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = window(Vec::new());
    rest(&mut window);
    let form = CaptureForm {
        command: job("slow 100000"),
        folder: folder.path().display().to_string(),
        environment: environment(folder.path()),
        stacks: Stacks::None.name().into(),
        ..CaptureForm::default()
    };
    window.state_mut().session.send(Command::Capture(CaptureDeed::Start(Box::new(form.clone()))));
    until(&mut window, "events arrive", |session| 100 < events(session));
    click(&mut window, "Snapshot now");
    until(&mut window, "PyTorch's own snapshot", |_| folder.path().join("capture-1.1.pickle").exists());
    click(&mut window, "Stop job");
    until(&mut window, "it ends", |session| is_over(session) && session.live_in_front().is_some_and(|live| !live.is_growing()));
    let end = window.state().session.captures()[0].over.clone().expect("it is over");
    assert!(end.is_bad && end.sentence.contains("signal 2"), "{end:?}");
    // One that does not listen.
    let deaf = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv = sys.argv[1:]; \
                runpy.run_path(sys.argv[0], run_name='__main__')";
    let command = format!("python3 -c \"{deaf}\" {} slow 100000", here().join("job.py").display());
    window.state_mut().session.send(Command::Capture(CaptureDeed::Start(Box::new(CaptureForm { command, ..form }))));
    until(&mut window, "events of the second arrive", |session| {
        session.documents().len() == 2 && session.live_in_front().is_some_and(|live| live.is_growing()) && 100 < events(session)
    });
    click(&mut window, "Stop job");
    assert!(window.query_by_label("Kill now").is_none(), "a double click kills nothing");
    let asked = std::time::Instant::now();
    until(&mut window, "it can be killed", |_| std::time::Duration::from_secs(2) < asked.elapsed());
    click(&mut window, "Kill now");
    until(&mut window, "it is killed", |session| {
        is_over(session) && session.live_in_front().is_some_and(|live| !live.is_growing())
    });
    assert!(window.query_by_label_contains("killed (signal 9)").is_some());
    let log = open(&folder.path().join("capture-2.fsl"));
    until(&mut window, "all of it", |session| events(session) == log.devices.as_slice()[0].trace.len());
}

#[test]
fn what_cannot_be_started_is_said_on_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = window(Vec::new());
    rest(&mut window);
    page(&mut window);
    click(&mut window, "Record");
    rest(&mut window);
    assert!(window.query_by_label_contains("There is no command").is_some());
    type_into(&mut window, "Working directory", &folder.path().display().to_string());
    type_into(&mut window, "Record process", "4194000");
    click(&mut window, "Attach");
    rest(&mut window);
    assert!(window.query_by_label_contains("There is no process 4194000").is_some());
    for (command, out, sentence) in [
        ("/no/such/program --x", "", "Cannot start /no/such/program"),
        ("python3 'unclosed", "", "a quote that is not closed"),
        ("python3 x.py", "/proc/nowhere/x.fsl", "The folder of the log is not there: /proc/nowhere"),
        ("python3 x.py", "/proc/x.fsl", "No log can be written into /proc"),
    ] {
        type_into(&mut window, "Command", command);
        type_into(&mut window, "Log", out);
        if out.is_empty() {
            window.get_by_role_and_label(Role::TextInput, "Log").focus();
            window.step();
            window.key_press_modifiers(Modifiers::COMMAND, Key::A);
            window.key_press(Key::Delete);
            window.step();
        }
        click(&mut window, "Record");
        rest(&mut window);
        assert!(window.query_by_label_contains(sentence).is_some(), "{command}: {:?}", window.state().session.capture_refused());
        assert!(window.state().session.captures().is_empty());
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "nothing is left behind");
}

#[test]
fn a_job_that_fails_or_records_nothing_says_so_with_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = window(Vec::new());
    rest(&mut window);
    for (what, sentence) in [("oom 30", "exit code 3"), ("plain", "Nothing was recorded")] {
        let form = CaptureForm {
            command: job(what),
            folder: folder.path().display().to_string(),
            environment: environment(folder.path()),
            ..CaptureForm::default()
        };
        window.state_mut().session.send(Command::Capture(CaptureDeed::Start(Box::new(form))));
        window.step();
        until(&mut window, "it ends", |session| is_over(session) && session.is_idle());
        page(&mut window);
        let said = window.query_all_by_label_contains(sentence).count();
        assert!(0 < said, "{:?}", window.state().session.captures());
    }
    assert_eq!(window.state().session.documents().len(), 1, "a job without a log opens nothing");
}
