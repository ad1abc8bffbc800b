//! The report in all its kinds: the same numbers in each, nothing of a file is markup, nothing is cut off.
//!
//! Texts are compared with `tests/expected/`; `BLESS=1` writes them anew.

use crate::samples;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use fragscope::analysis::diagnosis::{Card, Diagnosis, DiagnosisParams};
use fragscope::analysis::{Asked, Counters, Moment, Subject, UsageTimeline};
use fragscope::base::{Bytes, Progress, grouped};
use fragscope::chart::{BlockColour, ColourBy, Palette, Theme};
use fragscope::model::{
    Action, BlockState, DeviceId, Frame, Origin, PoolId, Position, SizeClass, Snapshot, StackId, StreamId, TraceEntry,
};
use fragscope::replay::{BlockRecord, Replay, SegmentRecord, SnapshotBuilder};
use fragscope::report::overview::{OverviewRow, overview_of};
use fragscope::report::what_if::with_tried;
use fragscope::report::why_json::write_why;
use fragscope::report::{
    Pages, Printed, REPORTS, ReportError, ReportOptions, ReportSubject, Section, Sections, report_of_extension,
};
use fragscope::session::{Command, Session};
use fragscope::ui::panels::report_dialog::ReportDialog;
use fragscope::ui::theme::Tokens;
use fragscope::ui::views::view::Cx;
use serde_json::Value;
use std::path::Path;

const SAMPLES: [&str; 8] = [
    "training",
    "fragmentation_oom",
    "expandable_segments",
    "private_pools",
    "two_devices",
    "late_start",
    "segments_only",
    "streams",
];

/// A sample under its own name, and the replays of its devices.
fn sample(name: &str) -> (Snapshot, Vec<Replay>) {
    let mut snapshot = samples::open(&samples::sample(name));
    snapshot.origin.name = format!("{name}.pickle.gz");
    let replays = replays(&snapshot);
    (snapshot, replays)
}

fn replays(snapshot: &Snapshot) -> Vec<Replay> {
    snapshot.devices.as_slice().iter().map(Replay::new).collect()
}

fn printed(kind: &str, subject: &ReportSubject<'_>, options: &ReportOptions) -> Printed {
    let report = report_of_extension(kind).unwrap_or_else(|| panic!("{kind} is known"));
    report.files(subject, options, &Progress::new()).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn text(kind: &str, subject: &ReportSubject<'_>, options: &ReportOptions) -> String {
    let mut files = printed(kind, subject, options).files;
    assert_eq!(files.len(), 1, "{kind}");
    String::from_utf8(files.remove(0)).expect("UTF-8")
}

/// The moments looked at on a device: the telling one, before everything, and the dump.
fn moments(snapshot: &Snapshot, device: DeviceId) -> Vec<Position> {
    let memory = &snapshot.devices[device];
    let timeline = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
    let at = |moment: Moment| moment.position(memory, &timeline).expect("there");
    let mut all = vec![at(Moment::Telling), Position::START, Position(memory.end().0 / 3), memory.end()];
    all.dedup();
    all
}

fn check_expected(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{name} differs; if it is right, run with BLESS=1. Now:\n{text}");
}

#[test]
fn the_report_as_text() {
    for (name, capacity) in [("fragmentation_oom", Some(8 << 30)), ("private_pools", None)] {
        let (snapshot, replays) = sample(name);
        let device = snapshot.busiest_device().expect("used");
        let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device, position: moments(&snapshot, device)[0] };
        let card = Card { total: capacity, fraction_ppm: None };
        let options = ReportOptions {
            note: "Seen on <b>node_14</b>.\nTwice.".to_owned(),
            known: DiagnosisParams { card, ..DiagnosisParams::default() },
            ..ReportOptions::default()
        };
        for kind in ["md", "json"] {
            let text = text(kind, &subject, &options).replace(env!("CARGO_PKG_VERSION"), "VERSION");
            check_expected(&format!("report_{name}.{kind}"), &text);
        }
    }
}

/// Tags that close, attributes that end, nothing but what the page itself brings. Returns the tags by name.
fn well_formed(html: &str, what: &str) -> Vec<String> {
    let body = html.strip_prefix("<!DOCTYPE html>\n").unwrap_or_else(|| panic!("{what}: doctype"));
    let (mut open, mut names) = (Vec::<String>::new(), Vec::new());
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        let between = &rest[..start];
        assert!(!between.contains('>') || open.last().is_some_and(|tag| tag == "script" || tag == "style"), "{what}: {between}");
        let raw = open.last().is_some_and(|tag| tag == "script" || tag == "style");
        if !raw {
            for entity in between.split('&').skip(1) {
                assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|e| entity.starts_with(e)), "{what}: &{entity:.20}");
            }
        }
        let end = start + rest[start..].find('>').unwrap_or_else(|| panic!("{what}: a tag does not end"));
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<'), "{what}: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{what}: </{name}>");
        } else {
            let name = tag.split([' ', '/']).next().unwrap_or_default().to_owned();
            assert_eq!(tag.matches('"').count() % 2, 0, "{what}: {tag}");
            names.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{what}: {open:?}");
    names
}

fn loads_nothing(html: &str, what: &str) {
    // What a picture holds is letters by chance; only what stands around it is looked at.
    let mut parts = html.split("base64,");
    let mut around = parts.next().unwrap_or_default().to_owned();
    around.extend(parts.map(|part| format!("base64,{}", part.find('"').map_or("", |end| &part[end..]))));
    let html = around.as_str();
    assert!(!html.contains("http") && !html.contains("@import") && !html.contains("url(\"") && !html.contains("//"), "{what}");
    for address in html.split("href=\"").skip(1) {
        assert!(address.starts_with("data:image/png;base64,") || address.starts_with('#'), "{what}: {address:.40}");
    }
    assert!(!html.contains(" src=") && !html.contains("<link") && !html.contains("<iframe"), "{what}");
}

/// Whether a number stands in a text as a size and to the byte.
fn says(text: &str, bytes: u64) -> bool {
    text.contains(&Bytes(bytes).to_string()) && (bytes < 1024 || text.contains(&grouped(bytes)))
}

#[test]
fn every_kind_says_the_same_of_every_sample() {
    for name in SAMPLES {
        let (snapshot, replays) = sample(name);
        for (device, memory) in snapshot.devices.iter().filter(|(_, memory)| memory.is_used()) {
            for position in moments(&snapshot, device) {
                let what = format!("{name} {device:?} {position:?}");
                let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device, position };
                let options = ReportOptions::default();
                let page: Value = serde_json::from_str(&text("json", &subject, &options)).expect("JSON");
                let (html, markdown) = (text("html", &subject, &options), text("md", &subject, &options));
                let tags = well_formed(&html, &what);
                assert_eq!(tags.iter().filter(|tag| *tag == "script").count(), 1, "{what}");
                loads_nothing(&html, &what);

                let state = replays[device.0 as usize].state_at(memory, position);
                let counters = Counters::of(&state, &memory.trace);
                for (key, value) in [
                    ("reserved", counters.totals.reserved),
                    ("allocated", counters.totals.allocated),
                    ("active", counters.totals.active),
                    ("requested", counters.totals.requested),
                    ("free", counters.totals.free()),
                    ("inactive_split", counters.inactive_split),
                    ("largest_free_block", counters.largest_free_block),
                ] {
                    assert_eq!(page["states"]["moment"][key].as_u64(), Some(value), "{what}: {key}");
                    assert!(says(&html, value) && says(&markdown, value), "{what}: {key} {value}");
                }
                let parts = page["accounting"]["parts"].as_array().expect("a list");
                let sum: u64 = parts.iter().filter_map(|part| part["bytes"].as_u64()).sum();
                let within = page["accounting"]["within"].as_u64().expect("a size");
                assert_eq!(sum + page["accounting"]["rest"].as_u64().expect("a size"), within, "{what}");
                for bytes in parts.iter().filter_map(|part| part["bytes"].as_u64()).filter(|bytes| 0 < *bytes) {
                    assert!(says(&html, bytes) && says(&markdown, bytes), "{what}: {bytes}");
                }
                let stacks = &page["stacks"];
                let rows = stacks["rows"].as_array().expect("a list");
                let held: u64 = rows.iter().map(|row| row["bytes"].as_u64().expect("a size")).sum();
                let allocated = stacks["allocated"].as_u64().expect("a size");
                assert_eq!(held + stacks["further_bytes"].as_u64().expect("a size"), allocated, "{what}");
                assert_eq!(allocated, counters.totals.allocated, "{what}");
                for row in rows.iter().take(12) {
                    let bytes = row["bytes"].as_u64().expect("a size");
                    assert!(says(&html, bytes) && markdown.contains(&Bytes(bytes).to_string()), "{what}: {bytes}");
                }

                let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device };
                let timeline = UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
                let known = with_tried(&asked, &DiagnosisParams::default(), &Progress::new()).expect("nobody cancels");
                let why = Diagnosis::of(&asked, &timeline, &known, &Progress::new()).expect("nobody cancels");
                let cases: Vec<_> = why.cases.iter().map(|case| (memory.ordinal, case)).collect();
                let mut alone = Vec::new();
                write_why(&snapshot, &cases, &mut alone).expect("memory takes it");
                assert_eq!(page["why"], serde_json::from_slice::<Value>(&alone).expect("JSON"), "{what}");
            }
        }
    }
}

/// A snapshot whose every name is an attack on whoever shows it.
fn hostile() -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    let frames: Vec<_> = [
        ("</script><script>alert(1)</script>", "/x/<img src=x onerror=alert(2)>.py"),
        ("a`b``|c\n# title", "/y/\"'><svg onload=alert(3)>/\u{202e}yp.py"),
    ]
    .into_iter()
    .map(|(name, file)| {
        let (name, filename) = (builder.stacks.strings.intern(name), builder.stacks.strings.intern(file));
        builder.stacks.intern_frame(Frame { name, filename, line: 1 })
    })
    .collect();
    let stack = builder.stacks.intern(&frames);
    let record = builder.device(0);
    for (action, address, size) in [(Action::SegmentAlloc, 0, 20 << 20), (Action::Alloc, 0, 9 << 20), (Action::Oom, 5, 30 << 20)]
    {
        let address = if action == Action::Oom { address } else { 0x7000_0000_0000 + address };
        record.trace.push(TraceEntry {
            action,
            address,
            size,
            stream: StreamId::DEFAULT,
            time_us: Some(1),
            stack,
            pool: None,
            compile_context: None,
            user_metadata: None,
        });
    }
    builder.settings.stated = true;
    builder.settings.conf = "x:<b>`|\"".to_owned();
    let origin = Origin {
        name: "/tmp/<script>alert(0)</script>\"'&`|.pickle".into(),
        bytes: 7,
        format: "<i>".into(),
        ..Origin::default()
    };
    builder.finish(origin, &Progress::new()).expect("not cancelled")
}

#[test]
fn nothing_of_a_file_is_markup() {
    let snapshot = hostile();
    let replays = replays(&snapshot);
    let subject = ReportSubject {
        snapshot: &snapshot,
        replays: &replays,
        device: DeviceId(0),
        position: snapshot.devices[DeviceId(0)].end(),
    };
    let options = ReportOptions { note: "<script>alert(4)</script> & \"quoted\"".to_owned(), ..ReportOptions::default() };
    let html = text("html", &subject, &options);
    let tags = well_formed(&html, "hostile");
    for (tag, count) in [("script", 1), ("img", 0), ("b", html.matches("<b class=").count())] {
        assert_eq!(tags.iter().filter(|name| *name == tag).count(), count, "{tag}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("&lt;script&gt;alert(4)"), "it is shown");
    assert!(!html.contains('\u{202e}'));
    let markdown = text("md", &subject, &options);
    for line in markdown.lines().filter(|line| line.contains("alert(") && !line.starts_with("    ")) {
        // Outside of code spans no angle bracket is left.
        let outside: String = line.split('`').step_by(2).collect();
        assert!(!outside.contains("<script") && !outside.contains("<img"), "{line}");
    }
    assert!(!markdown.contains('\u{202e}') && !markdown.lines().any(|line| line.starts_with("# title")));
    let page: Value = serde_json::from_str(&text("json", &subject, &options)).expect("JSON");
    assert_eq!(page["file"], "/tmp/<script>alert(0)</script>\"'&`|.pickle", "JSON keeps names as they are");
    assert!(page["stacks"]["rows"][0]["frames"][0].as_str().expect("a text").contains("</script>"));
    let row = |model: &fragscope::report::PageModel| OverviewRow::of(model, "a \"b\".html".to_owned());
    let rows = [row(&printed("json", &subject, &options).model), OverviewRow::failed("<x>".to_owned(), "<no>".to_owned())];
    let (_, as_html) = overview_of("png");
    let overview = as_html(&rows, &options);
    well_formed(&overview, "overview");
    assert!(overview.contains("href=\"a%20%22b%22.html\"") && overview.contains("&lt;no&gt;"), "{overview}");
    let (ending, as_markdown) = overview_of("MD");
    assert_eq!(ending, "md");
    assert!(as_markdown(&rows, &options).contains("](a%20%22b%22.html)"));
    let (_, as_json) = overview_of("json");
    let list: Value = serde_json::from_str(&as_json(&rows, &options)).expect("JSON");
    assert_eq!((&list[1]["error"], &list[0]["failed"]), (&Value::from("<no>"), &Value::from(true)));
}

fn ground(theme: Theme) -> [u8; 3] {
    let [r, g, b, _] = Palette { theme }.rgba(fragscope::chart::Ink::Background);
    [r, g, b]
}

/// Whether an area of a page is bare, in points.
fn bare(page: &image::RgbImage, scale: f32, x: std::ops::Range<f32>, y: std::ops::Range<f32>, theme: Theme) -> bool {
    let pixels = |points: f32, most: u32| ((points * scale).round() as u32).min(most);
    (pixels(y.start, page.height())..pixels(y.end, page.height())).all(|row| {
        (pixels(x.start, page.width())..pixels(x.end, page.width())).all(|column| page.get_pixel(column, row).0 == ground(theme))
    })
}

#[test]
fn pages_are_cut_between_things() {
    let mut wide_names = sample("fragmentation_oom");
    wide_names.0.origin.name = format!("/{}/x.pickle", "very_long_folder/".repeat(40));
    wide_names.0.settings.conf = "expandable_segments:True,".repeat(40);
    wide_names.0.settings.stated = true;
    let many = [wide_names, sample("training"), sample("segments_only"), sample("private_pools")];
    for (snapshot, replays) in &many {
        let device = snapshot.busiest_device().expect("used");
        let subject = ReportSubject { snapshot, replays, device, position: moments(snapshot, device)[0] };
        for (pages, theme) in [(Pages::A4, Theme::Light), (Pages::Wide, Theme::Dark)] {
            let options = ReportOptions { pages, theme, ..ReportOptions::default() };
            let files = printed("png", &subject, &options).files;
            assert!(1 < files.len(), "{} pages", files.len());
            let (width, height) = pages.size_pt().expect("a size");
            for (number, file) in files.iter().enumerate() {
                let what = format!("{:.60} {pages:?} page {}", snapshot.origin.name, number + 1);
                let page = image::load_from_memory(file).expect("a PNG").to_rgb8();
                assert_eq!((page.width(), page.height()), (width, height), "{what}");
                let (width, height) = (width as f32, height as f32);
                for (side, x, y) in [
                    ("left", 0.0..39.0, 0.0..height),
                    ("right", width - 39.0..width, 0.0..height),
                    ("top", 0.0..width, 0.0..39.0),
                    ("above the foot", 0.0..width, height - 66.0..height - 54.0),
                    ("bottom", 0.0..width, height - 36.0..height),
                ] {
                    assert!(bare(&page, 1.0, x, y, theme), "{what}: something reaches the {side}");
                }
                assert!(!bare(&page, 1.0, 0.0..width, 40.0..height - 68.0, theme), "{what}: it is empty");
                assert!(!bare(&page, 1.0, 0.0..width, height - 54.0..height - 36.0, theme), "{what}: no foot");
            }
        }
    }
}

#[test]
fn sections_are_left_out_everywhere() {
    let (snapshot, replays) = sample("fragmentation_oom");
    let position = snapshot.devices[DeviceId(0)].end();
    let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device: DeviceId(0), position };
    let whole = |sections| ReportOptions { sections, ..ReportOptions::default() };
    let full = text("html", &subject, &whole(Sections::ALL));
    let none = text("html", &subject, &whole(Sections::NONE));
    assert!(none.len() < full.len() / 10 && !none.contains("<section"), "{}", none.len());
    assert!(none.contains("Out of memory at event 35 572"), "the moment is always told");
    for section in
        Section::ALL.into_iter().filter(|section| !matches!(section, Section::Verdict | Section::Summary | Section::Coverage))
    {
        let mark = format!("<section class=\"{}\">", section.name());
        let one = text("html", &subject, &whole(Sections::NONE.with(section, true)));
        assert!(full.contains(&mark) && one.contains(&mark), "{section:?}");
        assert_eq!(one.matches("<section").count(), 1, "{section:?}");
        let others = text("html", &subject, &whole(Sections::ALL.with(section, false)));
        assert!(!others.contains(&mark), "{section:?}");
    }
    let page: Value = serde_json::from_str(&text("json", &subject, &whole(Sections::NONE))).expect("JSON");
    for key in ["verdict", "accounting", "stacks", "pinned", "states", "coverage"] {
        assert!(page[key].is_null(), "{key}");
    }
    let short = ReportOptions { window: Some(Position(30_000)..Position(35_573)), ..ReportOptions::default() };
    let page: Value = serde_json::from_str(&text("json", &subject, &short)).expect("JSON");
    assert_eq!((&page["window"]["from_event"], &page["window"]["to_event"]), (&Value::from(29_999), &Value::from(35_572)));
    assert_eq!(page["window"]["markers"][0]["event"], 35_572);
    assert_ne!(text("html", &subject, &short), text("html", &subject, &ReportOptions::default()));
}

#[test]
fn what_cannot_be_is_refused_and_what_is_stopped_stops() {
    let (snapshot, replays) = sample("private_pools");
    let subject = ReportSubject { snapshot: &snapshot, replays: &replays, device: DeviceId(0), position: Position::NEVER };
    for report in REPORTS {
        let stopped = Progress::new();
        stopped.cancel();
        let result = report.files(&subject, &ReportOptions::default(), &stopped);
        assert!(matches!(result, Err(ReportError::Cancelled(_))), "{}", report.name());
        let missing = ReportSubject { device: DeviceId(9), ..subject };
        let result = report.files(&missing, &ReportOptions::default(), &Progress::new());
        assert!(matches!(result, Err(ReportError::NoDevice(9))), "{}", report.name());
        let mut out = Vec::new();
        report.write(&subject, &ReportOptions { pages: Pages::A4, ..ReportOptions::default() }, &mut out).expect("one file");
        assert!(!out.is_empty());
    }
    let mut empty = SnapshotBuilder::default();
    empty.device(0);
    let empty = empty.finish(Origin::default(), &Progress::new()).expect("not cancelled");
    let subject =
        ReportSubject { snapshot: &empty, replays: &self::replays(&empty), device: DeviceId(0), position: Position::START };
    for report in REPORTS {
        let options = ReportOptions { colour_by: ColourBy::Pool, ..ReportOptions::default() };
        let printed = report.files(&subject, &options, &Progress::new()).expect("written");
        assert!(printed.model.headline().0.contains("neither events nor segments"), "{}", report.name());
    }
}

/// Blocks that nobody named.
#[test]
fn blocks_without_a_stack_are_a_row() {
    let mut builder = SnapshotBuilder::default();
    let record = builder.device(0);
    record.segments_known = true;
    record.segments.push(SegmentRecord {
        address: 0x1000,
        size: 4096,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        class: SizeClass::Small,
        expandable: false,
        stack: StackId::EMPTY,
        blocks: vec![BlockRecord {
            address: None,
            size: 4096,
            requested: Some(4000),
            state: BlockState::ActiveAllocated,
            stack: StackId::EMPTY,
        }],
        stated_totals: [None; 3],
    });
    let snapshot = builder.finish(Origin::default(), &Progress::new()).expect("not cancelled");
    let subject =
        ReportSubject { snapshot: &snapshot, replays: &replays(&snapshot), device: DeviceId(0), position: Position::START };
    let stacks = printed("json", &subject, &ReportOptions::default()).model.stacks.expect("a table");
    assert_eq!((stacks.rows.len(), stacks.rows[0].bytes, stacks.rows[0].colour), (1, 4096, BlockColour::NoStack));
    assert!(text("md", &subject, &ReportOptions::default()).contains("`<no stack>`"));
}

struct Asking {
    session: Session,
    dialog: ReportDialog,
    sent: Option<Command>,
}

fn asking(size: [f32; 2]) -> Harness<'static, Asking> {
    let session = crate::window::opened(&["fragmentation_oom"]);
    let show = |ui: &mut egui::Ui, state: &mut Asking| {
        let tokens = Tokens::of(state.session.theme());
        let cx = Cx { session: &state.session, tokens: &tokens };
        if let Some(command) = state.dialog.show(ui, &cx) {
            state.sent = Some(command);
        }
    };
    let mut state = Asking { session, dialog: ReportDialog::default(), sent: None };
    let tokens = Tokens::of(state.session.theme());
    state.dialog.open(&Cx { session: &state.session, tokens: &tokens });
    let mut harness = Harness::builder().with_size(size).renderer(crate::picture::Cpu::default()).build_ui_state(show, state);
    harness.run_steps(4);
    harness
}

#[test]
fn the_dialog_asks_for_what_the_kind_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = asking([900.0, 800.0]);
    assert!(window.state().dialog.is_open());
    window.render().expect("painted");
    for (kind, pages, theme) in
        [(".md  for a ticket", false, false), (".html  page for browsers", false, true), (".png  picture", true, true)]
    {
        window.get_by_label(kind).click();
        window.run_steps(3);
        assert_eq!(window.query_by_label("one tall page").is_some(), pages, "{kind}");
        assert_eq!(window.query_by_label("dark").is_some(), theme, "{kind}");
    }
    for label in ["A4", "1×", "dark", "Layout", "what the window shows"] {
        window.get_by_label(label).click();
        window.run_steps(3);
    }
    window.get_by_label("Save").click();
    window.run_steps(3);
    assert!(!window.state().dialog.is_open());
    let Some(Command::ExportReport { path, moment, options }) = window.state().sent.clone() else { panic!("a command") };
    assert_eq!((path.to_str(), moment), (Some("Out_of_memory_by_fragmentation-report.png"), None));
    assert_eq!((options.pages, options.theme, options.scale), (Pages::A4, Theme::Dark, 1.0));
    assert!(!options.sections.has(Section::Layout) && options.sections.has(Section::Flame));
    let session = &mut window.state_mut().session;
    for (name, moment, files) in [
        ("a.png", Some(Moment::Peak), &["a-1.png", "a-2.png"][..]),
        ("a.md", Some(Moment::End), &["a.md"]),
        ("a.html", None, &["a.html"]),
    ] {
        let path = folder.path().join(name);
        session.apply(Command::ExportReport { path, moment, options: options.clone() });
        crate::window::settle(session);
        let note = session.notes().last().expect("it tells").clone();
        assert!(!note.is_error && note.text.contains("Report written"), "{}", note.text);
        for file in files {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
    }
    let path = folder.path().join("b.md");
    session.apply(Command::ExportReport { path, moment: Some(Moment::Oom(Some(9))), options });
    crate::window::settle(session);
    assert!(session.notes().last().is_some_and(|note| note.is_error && note.text.contains("no OOM 9")));
}

#[test]
fn the_dialog_can_be_left() {
    let mut window = asking([640.0, 420.0]);
    window.render().expect("painted");
    let button = window.get_by_label("Cancel").rect();
    assert!(egui::Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(640.0, 420.0)).contains_rect(button), "{button:?}");
    window.get_by_label("Cancel").click();
    window.run_steps(3);
    assert!(!window.state().dialog.is_open() && window.state().sent.is_none());
}
