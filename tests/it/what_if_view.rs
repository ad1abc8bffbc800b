//! The what-if view: the form, the rows it makes, which are those of the command line, and what can be done with them.

use crate::window::{Window_, rest, window, with_sample};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::{NodeT, Queryable};
use fragscope::chart::Theme;
use fragscope::model::OriginKind;
use fragscope::report::what_if_job::{BlockDeed, BlockWords, JobWords};
use fragscope::session::Command;
use fragscope::session::what_if::{Caches, WhatIfDeed, WhatIfForm};
use fragscope::ui::views::VIEWS;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_snapshots").join(format!("{name}.pickle.gz"))
}

fn show(window: &mut Window_<'_>) {
    window.key_press(Key::T);
    rest(window);
}

fn click(window: &mut Window_<'_>, label: &str) {
    window.get_by_role_and_label(Role::Button, label).click();
    rest(window);
}

fn type_into(window: &mut Window_<'_>, label: &str, text: &str) {
    window.get_by_role_and_label(Role::TextInput, label).focus();
    window.step();
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.event(egui::Event::Text(text.to_owned()));
    window.step();
    rest(window);
}

/// What the command line prints for a file.
fn printed(path: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fragscope"))
        .arg("whatif")
        .arg(path)
        .args(arguments)
        .arg("--json")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The rows of the window as the command line's JSON writes them.
fn shown(window: &Window_<'_>) -> Vec<Value> {
    let tries = window.state().session.tries().expect("something was tried");
    let write = |tried: &fragscope::session::what_if::Try| {
        let mut out = Vec::new();
        let row = std::slice::from_ref(&tried.row);
        fragscope::report::whatif_json::write_whatif(row, &tried.what_if.fidelity, &mut out).expect("written");
        serde_json::from_slice::<Vec<Value>>(&out).expect("JSON").remove(0)
    };
    tries.rows().iter().map(write).collect()
}

fn form(window: &Window_<'_>) -> WhatIfForm {
    window.state().session.workspace().place().expect("open").what_if.clone()
}

#[test]
fn a_setting_that_is_typed_makes_the_row_that_the_command_line_prints() {
    let path = sample("fragmentation_oom");
    let mut window = window(vec![path.clone()]);
    rest(&mut window);
    show(&mut window);
    assert!(window.query_by_label_contains("Nothing was tried yet").is_some());
    type_into(&mut window, "As a string", "max_split_size_mb:64,expandable_segments:True");
    type_into(&mut window, "On a card of", "80GiB");
    click(&mut window, "Try it");
    let rows = shown(&window);
    assert_eq!(rows.len(), 2, "the recording comes first");
    let recorded = printed(&path, &[]);
    let set = ["--set", "max_split_size_mb:64,expandable_segments:True", "--capacity", "80GiB"];
    assert_eq!((&rows[0], &rows[1]), (&recorded[0], &printed(&path, &set)[0]));
    let peak = window.state().session.tries().expect("tried").rows()[1].row.outcome.counters.reserved.peak;
    let drawn = window.state().session.tries().expect("tried").rows()[1].reserved.as_ref().expect("drawn").peak().1;
    assert_eq!(drawn, peak, "the line reaches the peak of the row");
    let told = window.query_all_by_label_contains("allocations lie where they lay").next();
    assert!(told.is_some(), "how far the model reproduces the recording stands beside it");
    // The control follows the string, and the string the control.
    window.get_by_role_and_label(Role::CheckBox, "Expandable segments").click();
    rest(&mut window);
    assert_eq!(form(&window).conf.as_deref(), Some("max_split_size_mb:64"));
    window.state().session.send(Command::Undo);
    rest(&mut window);
    assert_ne!(form(&window).conf.as_deref(), Some("max_split_size_mb:64"), "the form is undone like all choices");
    assert_eq!(shown(&window).len(), 2, "what was tried stays");
}

#[test]
fn variants_are_those_of_the_command_line() {
    let path = sample("fragmentation_oom");
    let mut window = window(vec![path.clone()]);
    rest(&mut window);
    for (form, arguments) in [
        (WhatIfForm { endless: true, card: "1GiB".into(), ..WhatIfForm::default() }, &["--endless", "--capacity", "1GiB"][..]),
        (WhatIfForm { caches: Caches::Never, ..WhatIfForm::default() }, &["--empty-cache", "never"]),
        (WhatIfForm { smallest: true, ..WhatIfForm::default() }, &["--smallest-card"]),
        (
            WhatIfForm { outside: "512MiB".into(), card: "24GiB".into(), ..WhatIfForm::default() },
            &["--outside", "512MiB", "--capacity", "24GiB"],
        ),
        (WhatIfForm { recorded: "total:48GiB".into(), ..WhatIfForm::default() }, &["--recorded", "total:48GiB"]),
    ] {
        window.state().session.send(Command::SetWhatIf(Box::new(form.clone())));
        rest(&mut window);
        window.state().session.send(Command::WhatIf(WhatIfDeed::Run));
        rest(&mut window);
        assert_eq!(shown(&window).last(), printed(&path, arguments).first(), "{form:?}");
    }
}

#[test]
fn all_settings_are_tried_and_one_opens_as_a_document() {
    let path = sample("fragmentation_oom");
    let mut window = window(vec![path.clone()]);
    rest(&mut window);
    show(&mut window);
    click(&mut window, "Try all settings");
    let rows = shown(&window);
    let swept = printed(&path, &["--sweep"]);
    assert_eq!(rows[1..], swept[..], "in the order of their ranks");
    window.state().session.send(Command::WhatIf(WhatIfDeed::Draw(2)));
    rest(&mut window);
    let tried = &window.state().session.tries().expect("tried").rows()[1];
    let counters = tried.row.outcome.counters;
    assert_eq!(tried.reserved.as_ref().map(|curve| curve.peak().1), Some(counters.reserved.peak));
    window.state().session.send(Command::WhatIf(WhatIfDeed::Open(2)));
    rest(&mut window);
    let session = &window.state().session;
    let (document, _, memory) = session.front().expect("open");
    assert_eq!(document.snapshot.origin.kind, OriginKind::Simulation);
    assert_eq!((session.documents().len(), document.title.as_str()), (2, "fragmentation_oom.pickle.gz, what if 2"));
    let state = memory.end();
    assert!(0 < state.0, "it has a history, which all views show");
    for theme in [Theme::Light, Theme::Dark] {
        window.state().session.send(Command::SetTheme(theme));
        rest(&mut window);
        window.render().expect("painted");
    }
    let notes = window.state().session.notes();
    assert!(notes.iter().all(|note| !note.is_error), "{notes:?}");
}

#[test]
fn what_does_not_do_is_said_and_a_run_can_be_cancelled() {
    let mut window = with_sample("training");
    show(&mut window);
    for (label, text, sentence) in [
        ("As a string", "colour:blue", "Settings: no setting colour is known"),
        ("As a string", "max_split_size_mb:10", "at least the size of a large segment"),
        ("On a card of", "big", "Card: `big` is no size"),
        ("Held by others", "some", "Held by others: `some` is no size"),
        ("Recorded with", "total:much", "`total:much` does not do"),
    ] {
        let before = form(&window);
        type_into(&mut window, label, text);
        assert!(window.query_all_by_label_contains(sentence).next().is_some(), "{text}: {sentence}");
        let button = window.get_by_role_and_label(Role::Button, "Try it");
        assert!(button.accesskit_node().is_disabled(), "{text}");
        window.state().session.send(Command::SetWhatIf(Box::new(before)));
        rest(&mut window);
    }
    window.state().session.send(Command::WhatIf(WhatIfDeed::Sweep));
    window.step();
    let status = window.state().session.trying().expect("under way");
    window.state().session.send(Command::Cancel(status.id));
    rest(&mut window);
    assert!(window.state().session.tries().is_none_or(|tries| tries.rows().is_empty()), "nothing came of it");
    assert!(window.state().session.trying().is_none());
    click(&mut window, "Try it");
    assert_eq!(shown(&window).len(), 1, "and it can be tried again: the recorded settings are the recording's row");
}

#[test]
fn a_file_without_history_gets_a_sentence_and_the_verdict_leads_here() {
    let mut window = with_sample("segments_only");
    show(&mut window);
    assert!(window.query_by_label_contains("there are no requests to serve again").is_some());
    assert!(window.query_by_role_and_label(Role::Button, "Try it").is_none());
    let mut window = with_sample("fragmentation_oom");
    assert!(window.query_by_role_and_label(Role::Button, "Try it").is_none());
    click(&mut window, "What if?");
    assert!(window.query_by_role_and_label(Role::Button, "Try it").is_some());
}

/// Fills in a change of the job and serves it.
fn serve(window: &mut Window_<'_>, job: JobWords, deed: WhatIfDeed) {
    let form = WhatIfForm { job, ..WhatIfForm::default() };
    window.state().session.send(Command::SetWhatIf(Box::new(form)));
    rest(window);
    window.state().session.send(Command::WhatIf(deed));
    rest(window);
}

fn blocks(deed: BlockDeed, pattern: &str, factor: &str) -> JobWords {
    let blocks = vec![BlockWords { deed, pattern: pattern.into(), factor: factor.into() }];
    JobWords { blocks, ..JobWords::default() }
}

/// The sentences of errors that stand in the window.
fn errors(window: &Window_<'_>) -> Vec<String> {
    window.state().session.notes().iter().filter(|note| note.is_error).map(|note| note.text.clone()).collect()
}

#[test]
fn changes_of_the_job_are_those_of_the_command_line() {
    let path = sample("training");
    let mut window = window(vec![path.clone()]);
    rest(&mut window);
    let given = |set: fn(&mut JobWords)| {
        let mut job = JobWords::default();
        set(&mut job);
        job
    };
    let jobs = [
        (given(|job| job.batch = "2".into()), &["--batch", "2"][..]),
        (given(|job| job.length = "0.5".into()), &["--length", "0.5"]),
        (given(|job| job.offload_activations = true), &["--offload", "activations"]),
        (given(|job| job.offload_optimizer = true), &["--offload", "optimizer-state"]),
        (given(|job| job.without_optimizer = true), &["--without", "optimizer-state"]),
        (given(|job| (job.checkpoint, job.accumulate) = (true, "2".into())), &["--checkpoint", "--accumulate", "2"]),
        (blocks(BlockDeed::Scale, ">=1MiB", "1.5"), &["--scale", ">=1MiB=1.5"]),
        (blocks(BlockDeed::Drop, ">=16MiB", ""), &["--drop", ">=16MiB"]),
        (blocks(BlockDeed::Shorten, ">=1MiB", ""), &["--shorten", ">=1MiB"]),
        (blocks(BlockDeed::MoveOut, ">=1MiB", ""), &["--move-out", ">=1MiB"]),
    ];
    for (job, arguments) in jobs {
        serve(&mut window, job.clone(), WhatIfDeed::Run);
        assert_eq!(errors(&window), Vec::<String>::new(), "{job:?}");
        let last = shown(&window).pop().expect("a row");
        assert!(last["change"]["what"].is_string(), "{job:?}");
        assert_eq!(Some(&last), printed(&path, arguments).first(), "{job:?}");
    }
    let first = &shown(&window)[0];
    assert!(first["change"].is_null(), "the recording comes first, as it is: {first}");
    serve(&mut window, given(|job| job.batch = "2".into()), WhatIfDeed::Sweep);
    let rows = shown(&window);
    let swept = printed(&path, &["--sweep", "--batch", "2"]);
    assert_eq!(rows[rows.len() - swept.len()..], swept[..], "the sweep takes the changed job");
}

#[test]
fn a_change_that_does_not_do_is_a_sentence_and_one_that_does_says_what_it_assumes() {
    let mut window = with_sample("training");
    show(&mut window);
    assert!(window.query_by_role_and_label(Role::TextInput, "Batch").is_none(), "the job is folded away");
    window.get_by_label("The job itself").click();
    rest(&mut window);
    for (label, text, sentence) in [
        ("Batch", "0", "Batch: 0 is no factor: it must be above 0"),
        ("Sequence length", "long", "Sequence length: long is no number"),
        ("Accumulate over", "1", "Accumulate over: 1 is no number of parts"),
    ] {
        let before = form(&window);
        type_into(&mut window, label, text);
        assert!(window.query_all_by_label_contains(sentence).next().is_some(), "{label}: {sentence}");
        assert!(window.get_by_role_and_label(Role::Button, "Try it").accesskit_node().is_disabled(), "{label}");
        window.state().session.send(Command::SetWhatIf(Box::new(before)));
        rest(&mut window);
    }
    serve(&mut window, blocks(BlockDeed::Drop, "no_such_function", ""), WhatIfDeed::Run);
    let said = errors(&window);
    assert!(said.iter().any(|text| text.contains("no_such_function: no block is found by it")), "{said:?}");
    assert!(window.state().session.tries().is_none_or(|tries| tries.rows().is_empty()));
    window.state().session.send(Command::SetWhatIf(Box::default()));
    rest(&mut window);
    type_into(&mut window, "Batch", "2");
    click(&mut window, "Try it");
    assert_eq!(shown(&window).len(), 2);
    assert!(window.query_all_by_label_contains("The job is changed: batch ×2 (estimate).").next().is_some());
    assert!(window.query_all_by_label_contains("batch ×2 (estimate); ").next().is_some(), "the row says it");
    // Going back folds nothing and undoes the change.
    window.state().session.send(Command::Undo);
    rest(&mut window);
    assert_eq!(form(&window).job, JobWords::default());
}

#[test]
fn a_changed_job_opens_as_a_document_that_every_view_shows() {
    let path = sample("training");
    let mut window = window(vec![path]);
    rest(&mut window);
    let job = JobWords { batch: "2".into(), checkpoint: true, accumulate: "2".into(), ..JobWords::default() };
    serve(&mut window, job, WhatIfDeed::Run);
    let tried = window.state().session.tries().expect("tried").rows().last().expect("a row");
    let (counters, number) = (tried.row.outcome.counters, tried.number);
    window.state().session.send(Command::WhatIf(WhatIfDeed::Open(number)));
    rest(&mut window);
    assert_eq!(errors(&window), Vec::<String>::new());
    let session = &window.state().session;
    let (document, _, memory) = session.front().expect("open");
    let title = document.title.as_str();
    assert!(title.starts_with("training.pickle.gz, batch ×2, "), "{title}");
    assert!(title.contains("(estimate), what if 2"), "{title}");
    assert!(document.snapshot.origin.name.contains("each layer checkpointed"), "{}", document.snapshot.origin.name);
    let usage = fragscope::analysis::UsageTimeline::of(memory, &fragscope::base::Progress::new()).expect("nobody cancels");
    let peaks = [&usage.reserved, &usage.allocated, &usage.active, &usage.requested].map(|curve| curve.peak().1);
    let gauges = [counters.reserved, counters.allocated, counters.active, counters.requested].map(|gauge| gauge.peak);
    assert_eq!(peaks, gauges, "to the byte");
    let context = window.ctx.clone();
    for view in VIEWS {
        context.data_mut(|data| data.insert_temp(egui::Id::unique("wanted view"), view.id));
        rest(&mut window);
        window.render().expect("painted");
    }
    assert_eq!(errors(&window), Vec::<String>::new());
}

#[test]
fn rows_are_sorted_by_their_headers_kept_in_the_chart_and_copied() {
    let mut window = with_sample("fragmentation_oom");
    show(&mut window);
    click(&mut window, "Try all settings");
    let numbers = |window: &Window_<'_>| -> Vec<u32> {
        let rows = window.get_all_by_role(Role::ListBoxOption);
        let names = rows.filter_map(|row| row.accesskit_node().label()).filter(|name| name.starts_with("No. "));
        names.filter_map(|name| name[4..].split(':').next()?.parse().ok()).collect()
    };
    let reserved = |window: &Window_<'_>, number: u32| {
        let rows = window.state().session.tries().expect("tried").rows();
        rows.iter().find(|row| row.number == number).expect("shown").row.outcome.counters.reserved.peak
    };
    for descending in [true, false] {
        click(&mut window, "sort what was tried by Reserved");
        let shown = numbers(&window);
        let values: Vec<u64> = shown.iter().map(|number| reserved(&window, *number)).collect();
        let ordered = if descending { values.is_sorted_by(|one, other| other <= one) } else { values.is_sorted() };
        assert!(ordered && 2 < values.len(), "{values:?}");
    }
    // The row in front is drawn without being asked for; one that is kept stays beside it.
    let drawn = |window: &Window_<'_>, number: u32| {
        let rows = window.state().session.tries().expect("tried").rows();
        rows.iter().find(|row| row.number == number).is_some_and(|row| row.reserved.is_some())
    };
    let front = window.state().session.tries().and_then(|tries| tries.newest()).expect("a best one");
    assert!(drawn(&window, front), "what is best is drawn");
    window.get_by_role_and_label(Role::CheckBox, "Keep in chart").click();
    rest(&mut window);
    let other = numbers(&window).into_iter().find(|number| *number != front).expect("another");
    let row = format!("No. {other}: ");
    let node = window
        .get_all_by_role(Role::ListBoxOption)
        .find(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with(&row)));
    node.expect("shown").click_secondary();
    rest(&mut window);
    window.get_by_label("Copy as setting").click();
    window.step();
    let commands = &window.output().platform_output.commands;
    let copied = commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    let settings = {
        let rows = window.state().session.tries().expect("tried").rows();
        rows.iter().find(|row| row.number == other).expect("shown").row.settings.clone()
    };
    assert_eq!(copied, Some(format!("PYTORCH_CUDA_ALLOC_CONF={settings}")));
    rest(&mut window);
    let node = window
        .get_all_by_role(Role::ListBoxOption)
        .find(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with(&row)));
    node.expect("shown").click();
    rest(&mut window);
    assert!(drawn(&window, other), "the row in front is drawn");
    let out = format!("take No. {front} out of the chart");
    window.get_by_role_and_label(Role::Button, &out).click();
    rest(&mut window);
    assert!(window.query_by_role_and_label(Role::Button, &out).is_none());
}
