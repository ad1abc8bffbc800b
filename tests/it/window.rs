//! The window without a display: session commands, jobs' deliveries, and every view through egui's test harness,
//! painted by the CPU painter.

use eframe::App as _;
use egui_kittest::kittest::{NodeT, Queryable};
use egui_kittest::{Harness, TestRenderer};
use fragscope::analysis::{StateAt, UsageTimeline};
use fragscope::chart::{ColourBy, Theme, TimeAxis};
use fragscope::model::{Action, EventIdx, Item, Position};
use fragscope::paint::{Canvas, Offscreen};
use fragscope::report::ReportOptions;
use fragscope::session::event_rows::EventRows;
use fragscope::session::export::PictureWork;
use fragscope::session::samples::SAMPLES;
use fragscope::session::workspace::{ActionSet, Window};
use fragscope::session::{Answer, Command, EventFilter, Place, Session};
use fragscope::ui::app::App;
use fragscope::ui::views::VIEWS;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The CPU painter as the harness' renderer.
#[derive(Default)]
struct Cpu(Offscreen);

impl TestRenderer for Cpu {
    fn handle_delta(&mut self, delta: &mut egui::TexturesDelta) {
        self.0.apply(delta);
    }
    fn render(&mut self, context: &egui::Context, output: &egui::FullOutput) -> Result<image::RgbaImage, String> {
        let scale = context.pixels_per_point();
        let size = context.content_rect().size() * scale;
        let mut canvas = Canvas::filled(size.x.round() as usize, size.y.round() as usize, egui::Color32::TRANSPARENT);
        self.0.paint(&mut canvas, &context.tessellate(output.shapes.clone(), scale), scale);
        image::RgbaImage::from_raw(canvas.width as u32, canvas.height as u32, canvas.bytes().to_vec())
            .ok_or_else(|| "size".into())
    }
}

/// Ticks until nothing is under way.
pub(crate) fn settle(session: &mut Session) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut now = 0.0;
    loop {
        session.tick(now);
        now += 0.01;
        if session.is_idle() {
            session.tick(now);
            if session.is_idle() {
                return;
            }
        }
        assert!(Instant::now() < deadline, "jobs do not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A session with samples open, remembering nothing.
pub(crate) fn opened(names: &[&'static str]) -> Session {
    let mut session = Session::new(None);
    for name in names {
        session.apply(Command::OpenSample(name));
        settle(&mut session);
    }
    session
}

/// An answer, waited for.
pub(crate) fn answered<Q: fragscope::analysis::Query>(session: &mut Session, params: Q::Params) -> std::sync::Arc<Q::Answer> {
    session.ask::<Q>(params.clone());
    settle(session);
    match session.ask::<Q>(params) {
        Answer::Ready(answer) => answer,
        other => panic!("not answered: {:?}", other.status()),
    }
}

pub(crate) fn place(session: &Session) -> &Place {
    session.workspace().place().expect("something is open")
}

#[test]
fn commands_change_the_workspace() {
    let mut session = opened(&["fragmentation_oom"]);
    let (end, oom) = {
        let (_, _, memory) = session.front().expect("open");
        (memory.end(), Position::after(*memory.trace.ooms().last().expect("it failed")))
    };
    assert_eq!(place(&session).cursor, oom, "the first thing shown is the failure");
    let peak = answered::<UsageTimeline>(&mut session, ()).allocated.peak().0;
    let event = Item::Event(EventIdx(7));
    type Check = fn(&Place) -> String;
    let cursor: Check = |place| place.cursor.0.to_string();
    let rows: Vec<(&str, Command, Check, String)> = vec![
        ("move", Command::MoveCursor(Position(100)), cursor, "100".into()),
        ("step on", Command::StepCursor(1), cursor, "101".into()),
        ("step back", Command::StepCursor(-100), cursor, "1".into()),
        ("not before the start", Command::StepCursor(-100), cursor, "0".into()),
        ("not beyond the end", Command::MoveCursor(Position(u32::MAX)), cursor, end.0.to_string()),
        ("far on", Command::StepCursor(i64::MAX), cursor, end.0.to_string()),
        ("peak", Command::GoToPeak, cursor, peak.0.to_string()),
        ("start", Command::MoveCursor(Position::START), cursor, "0".into()),
        ("next failure", Command::StepOom { forward: true }, cursor, oom.0.to_string()),
        ("no failure after it", Command::StepOom { forward: true }, cursor, oom.0.to_string()),
        ("back to the start", Command::MoveCursor(Position::START), cursor, "0".into()),
        ("no failure before", Command::StepOom { forward: false }, cursor, "0".into()),
        ("last failure", Command::GoToLastOom, cursor, oom.0.to_string()),
        ("select", Command::Select(event), |place| format!("{:?}", place.selection), format!("{:?}", vec![event])),
        (
            "range",
            Command::SelectRange(Position(3)..Position(9)),
            |place| format!("{:?}", place.range),
            "Some(Position(3)..Position(9))".into(),
        ),
        ("empty range", Command::SelectRange(Position(9)..Position(9)), |place| format!("{:?}", place.range), "None".into()),
        ("clear", Command::ClearSelection, |place| format!("{:?}", place.selection), "[]".into()),
        ("mark", Command::ToggleMark, |place| place.marks.len().to_string(), "1".into()),
        ("unmark", Command::ToggleMark, |place| place.marks.len().to_string(), "0".into()),
        ("window", Command::SetWindow(100.0..200.0), |place| format!("{:?}", place.window), "Units(Events, 100.0..200.0)".into()),
        ("pan", Command::Pan(0.5), |place| format!("{:?}", place.window), "Units(Events, 150.0..250.0)".into()),
        ("pan stops at the start", Command::Pan(-9.0), |place| format!("{:?}", place.window), "Units(Events, 0.0..100.0)".into()),
        ("bytes", Command::SetBytes(Some(0.0..1e6)), |place| format!("{:?}", place.bytes), "Some(0.0..1000000.0)".into()),
        ("fit", Command::Fit, |place| format!("{:?} {:?}", place.window, place.bytes), "Whole None".into()),
        ("nonsense window", Command::SetWindow(f64::NAN..1.0), |place| format!("{:?}", place.window), "Whole".into()),
    ];
    for (name, command, look, expected) in rows {
        session.apply(command);
        settle(&mut session);
        assert_eq!(look(place(&session)), expected, "{name}");
    }
    session.apply(Command::SetColourBy(ColourBy::Age));
    session.apply(Command::SetTheme(Theme::Dark));
    assert_eq!((session.workspace().colour_by, session.theme()), (ColourBy::Age, Theme::Dark));
}

#[test]
fn the_window_keeps_its_moments_when_the_axis_changes() {
    let mut session = opened(&["fragmentation_oom"]);
    session.apply(Command::SetWindow(1000.0..2000.0));
    session.apply(Command::SetAxis(TimeAxis::Time));
    assert_eq!(place(&session).window, Window::Positions(Position(1000)..Position(2000)));
    let clock = answered::<fragscope::session::lookups::ClockOf>(&mut session, TimeAxis::Time);
    let window = session.window(&clock.clock);
    assert_eq!(window, clock.clock.unit(Position(1000))..clock.clock.unit(Position(2000)));
    assert!(window.start < window.end);
    session.apply(Command::Pan(0.1));
    assert!(matches!(place(&session).window, Window::Units(TimeAxis::Time, _)));
}

#[test]
fn undo_goes_back_step_by_step() {
    let mut session = opened(&["private_pools"]);
    let first = place(&session).cursor;
    let mut now = 10.0;
    let mut rest = |session: &mut Session| {
        for _ in 0..8 {
            now += 0.1;
            session.tick(now);
        }
    };
    rest(&mut session);
    for position in [5, 9] {
        session.apply(Command::MoveCursor(Position(position)));
        rest(&mut session);
    }
    for (command, expected) in [
        (Command::Undo, Position(5)),
        (Command::Undo, first),
        (Command::Undo, first),
        (Command::Redo, Position(5)),
        (Command::Redo, Position(9)),
        (Command::Redo, Position(9)),
    ] {
        session.apply(command.clone());
        assert_eq!(place(&session).cursor, expected, "{command:?}");
        rest(&mut session);
    }
}

#[test]
fn every_sample_opens_and_closes() {
    let names: Vec<_> = SAMPLES.iter().map(|sample| sample.name).collect();
    let mut session = opened(&names);
    assert!(session.notes().is_empty(), "{:?}", session.notes());
    assert_eq!(session.documents().len(), SAMPLES.len());
    for document in session.documents() {
        assert!(document.replays.is_some(), "{}", document.title);
    }
    while let Some(id) = session.workspace().active {
        session.apply(Command::Close(id));
    }
    assert!(session.documents().is_empty() && session.workspace().places.is_empty());
    session.apply(Command::Undo);
    assert_eq!(session.workspace().active, None, "a closed file is not undone");
    assert!(matches!(session.ask::<StateAt>(Position(0)), Answer::Failed(_)));
}

#[test]
fn devices_keep_their_place() {
    let mut session = opened(&["two_devices"]);
    let devices = session.active().expect("open").used_devices();
    assert_eq!(devices.len(), 2);
    session.apply(Command::MoveCursor(Position(11)));
    let (_, first, _) = session.front().expect("open");
    let other = devices.into_iter().find(|device| *device != first).expect("two");
    session.apply(Command::SetDevice(other));
    assert_ne!(place(&session).cursor, Position(11));
    session.apply(Command::SetDevice(first));
    assert_eq!(place(&session).cursor, Position(11));
    session.apply(Command::SetDevice(fragscope::model::DeviceId(99)));
    assert_eq!(session.front().map(|(_, device, _)| device), Some(first));
}

#[test]
fn what_cannot_be_opened_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let cases: [(&str, Option<&[u8]>); 4] = [
        ("missing.pickle", None),
        ("empty.pickle", Some(b"")),
        ("text.pickle", Some(b"hello, this is no snapshot")),
        ("cut.pickle", Some(b"\x80\x04}\x94(\x8c")),
    ];
    for (name, content) in cases {
        let path = dir.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).expect("written");
        }
        let mut session = Session::new(None);
        session.apply(Command::Open(path));
        settle(&mut session);
        if !session.documents().is_empty() {
            continue; // Opened as far as it was whole: the banner says the rest.
        }
        let notes = session.notes().to_vec();
        assert_eq!(notes.len(), 1, "{name}");
        assert!(notes[0].is_error && notes[0].text.contains(name), "{name}: {}", notes[0].text);
        session.apply(Command::Dismiss(notes[0].id));
        assert!(session.notes().is_empty());
    }
}

#[test]
fn opening_can_be_cancelled() {
    let mut session = Session::new(None);
    session.apply(Command::OpenSample("streams"));
    let job = session.running().first().expect("under way").id;
    session.apply(Command::Cancel(job));
    settle(&mut session);
    assert!(session.documents().is_empty() && session.notes().is_empty(), "{:?}", session.notes());
}

#[test]
fn recent_files_are_remembered() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a.pickle.gz");
    std::fs::write(&file, SAMPLES[3].bytes).expect("written");
    let folder = dir.path().join("config");
    let mut session = Session::new(Some(folder.clone()));
    session.apply(Command::Open(file.clone()));
    settle(&mut session);
    session.apply(Command::SetTheme(Theme::Dark));
    settle(&mut session);
    drop(session);
    let again = Session::new(Some(folder));
    assert_eq!((again.saved().recent.as_slice(), again.theme()), ([file].as_slice(), Theme::Dark));
}

#[test]
fn the_event_filter_equals_a_naive_one() {
    let mut session = opened(&["fragmentation_oom"]);
    let all = answered::<EventRows>(&mut session, EventFilter::default());
    let snapshot = std::sync::Arc::clone(&session.active().expect("open").snapshot);
    let memory = &snapshot.devices.as_slice()[0];
    assert_eq!(all.len(), memory.trace.len());
    let only = |keep: Action| {
        Action::KNOWN.into_iter().filter(|action| *action != keep).fold(ActionSet::default(), |set, action| set.toggled(action))
    };
    for action in [Action::Alloc, Action::Oom, Action::SegmentFree] {
        let rows = answered::<EventRows>(&mut session, EventFilter { hidden: only(action), text: String::new() });
        let naive: Vec<_> = memory.trace.events().filter(|event| memory.trace.actions()[event.0 as usize] == action).collect();
        assert_eq!(*rows, EventRows::Some(naive), "{action:?}");
    }
    let label = memory.subject(EventIdx(500)).map(|id| memory.allocations.get(id)).expect("event 500 is about a block");
    for (text, at_least) in [
        ("ATTEND", 1),
        (format!("0x{:x}", label.address).as_str(), 1),
        (label.label().as_str(), 1),
        (format!("{:x}", label.address + 16).as_str(), 1),
        ("segment_free", 1),
        ("no such thing anywhere", 0),
    ] {
        let rows = answered::<EventRows>(&mut session, EventFilter { text: text.to_owned(), ..EventFilter::default() });
        assert!(at_least <= rows.len() && rows.len() < memory.trace.len(), "{text}: {}", rows.len());
        assert_eq!(rows.is_empty(), at_least == 0, "{text}");
    }
    let rows = answered::<EventRows>(&mut session, EventFilter { text: label.label(), ..EventFilter::default() });
    for row in 0..rows.len() {
        let event = rows.event(row).expect("there");
        assert_eq!(memory.trace.addresses()[event.0 as usize], label.address);
    }
}

// The window itself.

pub(crate) type Window_<'a> = Harness<'a, App>;

pub(crate) fn window(files: Vec<PathBuf>) -> Window_<'static> {
    sized_window([1440.0, 900.0], files)
}

pub(crate) fn sized_window(size: [f32; 2], files: Vec<PathBuf>) -> Window_<'static> {
    Harness::builder()
        .with_size(size)
        .with_step_dt(1.0 / 60.0)
        .renderer(Cpu::default())
        .build_eframe(move |context| App::new(&context.egui_ctx, Session::new(None), files))
}

/// A window that remembers things in a folder.
pub(crate) fn remembering_window(folder: PathBuf, files: Vec<PathBuf>) -> Window_<'static> {
    Harness::builder()
        .with_size([1440.0, 900.0])
        .with_step_dt(1.0 / 60.0)
        .renderer(Cpu::default())
        .build_eframe(move |context| App::new(&context.egui_ctx, Session::new(Some(folder)), files))
}

/// Steps until no job is under way and the last delivery is on the screen.
pub(crate) fn rest(window: &mut Window_<'_>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut quiet = 0;
    while quiet < 4 {
        window.step();
        quiet = if window.state().session.is_idle() { quiet + 1 } else { 0 };
        assert!(Instant::now() < deadline, "the window does not come to rest");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn with_sample(name: &'static str) -> Window_<'static> {
    let mut window = window(Vec::new());
    window.state_mut().session.send(Command::OpenSample(name));
    rest(&mut window);
    window
}

pub(crate) fn cursor(window: &Window_<'_>) -> u32 {
    place(&window.state().session).cursor.0
}

/// The centre of what is named so.
pub(crate) fn centre_of(window: &Window_<'_>, name: &str) -> egui::Pos2 {
    window.get_by_label(name).rect().center()
}

pub(crate) fn shown_window(window: &Window_<'_>) -> std::ops::Range<f64> {
    let session = &window.state().session;
    session.window(&session.clock().expect("there").clock)
}

#[test]
fn every_view_opens_on_every_sample_in_light_and_dark() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        for theme in [Theme::Light, Theme::Dark] {
            for by in [ColourBy::Stack, ColourBy::Size] {
                window.state().session.send(Command::SetTheme(theme));
                window.state().session.send(Command::SetColourBy(by));
                rest(&mut window);
                for view in VIEWS.iter().filter(|view| view.id != "kv") {
                    assert!(window.query_all_by_label(view.title).next().is_some(), "{} has no tab on {}", view.id, sample.name);
                }
                let picture = window.render().expect("painted");
                let colours: std::collections::BTreeSet<_> = picture.pixels().map(|pixel| pixel.0).collect();
                assert!(20 < colours.len(), "{} is blank in {theme:?}", sample.name);
            }
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
        window.run_steps(2);
    }
}

#[test]
fn small_windows_are_survived() {
    for size in [[720.0, 480.0], [400.0, 300.0], [200.0, 120.0], [1440.0, 200.0]] {
        let mut window = sized_window(size, Vec::new());
        window.state_mut().session.send(Command::OpenSample("two_devices"));
        rest(&mut window);
        window.render().expect("painted");
    }
}

#[test]
fn keys_do_what_the_menu_says() {
    use egui::{Key, Modifiers};
    let mut window = with_sample("fragmentation_oom");
    let end = window.state().session.front().expect("open").2.end().0;
    let oom = cursor(&window);
    for (modifiers, key, expected) in [
        (Modifiers::NONE, Key::Home, 0),
        (Modifiers::NONE, Key::ArrowRight, 1),
        (Modifiers::SHIFT, Key::ArrowRight, 101),
        (Modifiers::NONE, Key::ArrowLeft, 100),
        (Modifiers::COMMAND, Key::ArrowRight, oom),
        (Modifiers::SHIFT, Key::ArrowLeft, oom - 100),
        (Modifiers::NONE, Key::O, oom),
        (Modifiers::NONE, Key::End, end),
    ] {
        window.key_press_modifiers(modifiers, key);
        rest(&mut window);
        assert_eq!(cursor(&window), expected, "{modifiers:?} {key:?}");
    }
    let whole = shown_window(&window);
    window.key_press(Key::W);
    rest(&mut window);
    let closer = shown_window(&window);
    assert!(closer.end - closer.start < whole.end - whole.start);
    window.key_press(Key::A);
    rest(&mut window);
    assert!(shown_window(&window).start < closer.start);
    window.key_press(Key::M);
    rest(&mut window);
    assert_eq!(place(&window.state().session).marks, [Position(end)]);
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    rest(&mut window);
    window.state().session.send(Command::Select(Item::Event(EventIdx(3))));
    rest(&mut window);
    window.key_press(Key::Escape);
    rest(&mut window);
    assert!(window.query_by_label("command").is_none(), "Esc closes the palette");
    assert_eq!(place(&window.state().session).selected(), Some(Item::Event(EventIdx(3))), "and does nothing else");
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    rest(&mut window);
    window.get_by_label("command").type_text("go to the start");
    rest(&mut window);
    window.key_press(Key::Enter);
    rest(&mut window);
    assert_eq!(cursor(&window), 0, "the palette did it");
    window.key_press_modifiers(Modifiers::COMMAND, Key::W);
    rest(&mut window);
    assert!(window.state().session.documents().is_empty());
    window.get_by_label("Open…");
}

#[test]
fn typing_in_the_filter_is_no_command() {
    let mut window = with_sample("fragmentation_oom");
    let before = cursor(&window);
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "Filter").focus();
    rest(&mut window);
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "Filter").type_text("attend");
    rest(&mut window);
    assert_eq!(window.state().session.workspace().filter.text, "attend");
    window.key_press(egui::Key::Home);
    rest(&mut window);
    assert_eq!(cursor(&window), before);
}

#[test]
fn the_wheel_zooms_at_the_pointer() {
    let mut window = with_sample("training");
    let rect = window.get_by_label("usage timeline").rect();
    let at = egui::pos2(rect.min.x + rect.width() * 0.7, rect.min.y + rect.height() * 0.4);
    let unit = |window: &Window_<'_>, share: f64| {
        let range = shown_window(window);
        range.start + (range.end - range.start) * share
    };
    window.hover_at(at);
    rest(&mut window);
    let before = shown_window(&window);
    // Where in the plot the pointer is, told by panning: the plot's edges are the picture's business.
    let wheel = |delta: f32, modifiers| egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, delta),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers,
    };
    window.event(wheel(120.0, egui::Modifiers::NONE));
    window.run_steps(30);
    rest(&mut window);
    let after = shown_window(&window);
    assert!((after.end - after.start) < 0.8 * (before.end - before.start), "{before:?} to {after:?}");
    // The fixed point of the zoom lies where the pointer is.
    let share = (after.start - before.start) / ((before.end - before.start) - (after.end - after.start));
    let pointer = f64::from((at.x - rect.min.x) / rect.width());
    assert!((share - pointer).abs() < 0.06, "zoomed at {share}, the pointer is at {pointer}");
    assert!((unit(&window, share) - (before.start + (before.end - before.start) * share)).abs() < 1.0);
    window.event(wheel(60.0, egui::Modifiers::COMMAND));
    window.run_steps(30);
    rest(&mut window);
    assert!(place(&window.state().session).bytes.is_some(), "with ctrl it zooms bytes");
    window.event(wheel(60.0, egui::Modifiers::SHIFT));
    window.run_steps(30);
    rest(&mut window);
    let panned = shown_window(&window);
    assert!(panned.start != after.start && ((panned.end - panned.start) - (after.end - after.start)).abs() < 1.0);
}

#[test]
fn click_drag_and_shift_drag_on_the_usage_picture() {
    let mut window = with_sample("training");
    let rect = window.get_by_label("usage timeline").rect();
    let low = |x: f32| egui::pos2(rect.min.x + rect.width() * x, rect.min.y + rect.height() * 0.66);
    let click = |window: &mut Window_<'_>, at| {
        window.hover_at(at);
        window.step();
        window.drag_at(at);
        window.step();
        window.drop_at(at);
        rest(window);
    };
    click(&mut window, low(0.5));
    let selected = place(&window.state().session).selected();
    assert!(matches!(selected, Some(Item::Allocation(_))), "{selected:?}");
    let clicked = cursor(&window);
    let Some(Item::Allocation(id)) = selected else { return };
    let label = window.state().session.front().expect("open").2.allocations.get(id).label();
    assert!(window.query_all_by_label(&label).next().is_some(), "the details name it");
    window.key_press(egui::Key::Escape);
    rest(&mut window);
    assert_eq!(place(&window.state().session).selected(), None);
    // Zoom in, then drag the picture to the right: earlier moments come into view.
    window.state().session.send(Command::SetWindow(4000.0..6000.0));
    rest(&mut window);
    window.drag_at(low(0.4));
    window.step();
    for x in [0.45, 0.5, 0.55] {
        window.hover_at(low(x));
        window.step();
    }
    window.drop_at(low(0.55));
    rest(&mut window);
    assert!(shown_window(&window).start < 4000.0, "{:?}", shown_window(&window));
    assert_eq!(cursor(&window), clicked, "a drag is no click");
    window.event(egui::Event::ModifiersChanged(egui::Modifiers::SHIFT));
    window.event(egui::Event::PointerMoved(low(0.4)));
    window.step();
    window.event(egui::Event::PointerButton {
        pos: low(0.4),
        button: egui::PointerButton::Primary,
        pressed: true,
        modifiers: egui::Modifiers::SHIFT,
    });
    window.step();
    for x in [0.45, 0.5, 0.6] {
        window.event(egui::Event::PointerMoved(low(x)));
        window.step();
    }
    let range = place(&window.state().session).range.clone();
    assert!(range.is_some_and(|range| range.start < range.end), "shift and drag measures a range");
    // On the ticks below the picture a plain drag selects, too.
    window.drop_at(low(0.6));
    window.event(egui::Event::ModifiersChanged(egui::Modifiers::NONE));
    window.key_press(egui::Key::Escape);
    rest(&mut window);
    let ticks = |x: f32| egui::pos2(rect.min.x + rect.width() * x, rect.min.y + rect.height() * 0.80);
    let before = shown_window(&window);
    window.drag_at(ticks(0.4));
    window.step();
    for x in [0.5, 0.6] {
        window.hover_at(ticks(x));
        window.step();
    }
    window.drop_at(ticks(0.6));
    rest(&mut window);
    let selected = place(&window.state().session).range.clone();
    assert!(selected.is_some_and(|range| range.start < range.end), "a drag on the axis selects");
    assert_eq!(shown_window(&window), before, "and moves nothing");
}

#[test]
fn the_event_list_reaches_its_last_row() {
    let mut window = with_sample("fragmentation_oom");
    let last = window.state().session.front().expect("open").2.trace.len() - 1;
    let has_row = |window: &Window_<'_>, event: usize| {
        let start = format!("event {event} ");
        window
            .root()
            .children_recursive()
            .any(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with(&start)))
    };
    assert!(has_row(&window, last), "the cursor's row is in view");
    window.key_press(egui::Key::Home);
    rest(&mut window);
    assert!(has_row(&window, 0) && !has_row(&window, last));
    let bar = window.get_by_label("scroll events").rect();
    window.drag_at(bar.center());
    window.step();
    window.hover_at(bar.center_bottom() + egui::vec2(0.0, 50.0));
    window.step();
    window.drop_at(bar.center_bottom() + egui::vec2(0.0, 50.0));
    rest(&mut window);
    assert!(has_row(&window, last), "the scroll bar's end is the last row");
    let row = window
        .root()
        .children_recursive()
        .find(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with(&format!("event {last} "))))
        .map(|node| node.rect().center())
        .expect("seen above");
    window.hover_at(row);
    window.step();
    window.drag_at(row);
    window.step();
    window.drop_at(row);
    rest(&mut window);
    assert_eq!(place(&window.state().session).selected(), Some(Item::Event(EventIdx(last as u32))));
    assert_eq!(cursor(&window), last as u32 + 1);
}

#[test]
fn a_typed_path_opens_and_a_wrong_one_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("typed.pickle.gz");
    std::fs::write(&file, SAMPLES[3].bytes).expect("written");
    let mut window = window(Vec::new());
    rest(&mut window);
    for (path, opens) in [(dir.path().join("nowhere.pickle"), false), (file, true)] {
        let field = window.get_by_role_and_label(egui::accesskit::Role::TextInput, "or type a path");
        field.focus();
        window.step();
        let field = window.get_by_role_and_label(egui::accesskit::Role::TextInput, "or type a path");
        window.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
        field.type_text(&path.display().to_string());
        window.step();
        window.key_press(egui::Key::Enter);
        rest(&mut window);
        assert_eq!(!window.state().session.documents().is_empty(), opens, "{}", path.display());
        assert_eq!(window.state().session.notes().len(), 1, "only the wrong one leaves a sentence");
    }
    assert!(window.state().session.notes()[0].text.contains("nowhere.pickle"));
}

#[test]
fn views_are_closed_and_brought_back_from_the_menu() {
    let mut window = with_sample("private_pools");
    window.get_by_label("View").click();
    rest(&mut window);
    window.get_by_role_and_label(egui::accesskit::Role::CheckBox, "Events").click();
    rest(&mut window);
    assert!(!window.state().session.saved().layout.is_empty(), "the arrangement is remembered");
    assert!(window.query_by_label("events").is_none());
    window.get_by_label("View").click();
    rest(&mut window);
    window.get_by_role_and_label(egui::accesskit::Role::CheckBox, "Events").click();
    rest(&mut window);
    assert!(window.query_by_label("events").is_some());
}

#[test]
fn the_slider_moves_the_one_cursor() {
    let mut window = with_sample("training");
    let at = centre_of(&window, "cursor");
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    rest(&mut window);
    let half = window.state().session.front().expect("open").2.end().0 / 2;
    assert!(cursor(&window).abs_diff(half) < half / 50, "{} of {half}", cursor(&window));
}

#[test]
fn an_idle_window_draws_nothing() {
    let mut window = with_sample("training");
    window.run_steps(60);
    rest(&mut window);
    window.step();
    let delay = window.output().viewport_output.values().map(|output| output.repaint_delay).min();
    assert!(delay.is_some_and(|delay| Duration::from_secs(5) < delay), "it wants to be painted again after {delay:?}");
}

#[test]
fn the_report_is_written_from_the_window() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut session = opened(&["private_pools"]);
    for (name, works) in [("a.png", true), ("b.tiff", false), ("none/c.png", false)] {
        let path = dir.path().join(name);
        let options = Box::new(ReportOptions::paper());
        session.apply(Command::ExportReport { path: path.clone(), moment: None, options });
        settle(&mut session);
        assert_eq!(path.exists(), works, "{name}");
        let note = session.notes().last().expect("it tells").clone();
        assert_eq!(!note.is_error, works, "{}", note.text);
        assert!(note.text.contains(name), "{}", note.text);
    }
    let picture = image::open(dir.path().join("a.png")).expect("a picture");
    assert!(1000 < picture.width());
    let path = dir.path().join("view.png");
    let picture = PictureWork::new(|| Canvas::filled(2, 2, egui::Color32::RED));
    session.apply(Command::SavePicture { path: path.clone(), picture });
    settle(&mut session);
    assert_eq!(image::open(path).expect("a picture").width(), 2);
}

#[test]
fn the_recording_is_exported_from_the_window() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut window = with_sample("private_pools");
    window.get_by_role_and_label(egui::accesskit::Role::Button, "File").click();
    rest(&mut window);
    window.get_by_label_contains("Export recording").click();
    rest(&mut window);
    window.get_by_label("Hide paths, names of functions, spans and notes").click();
    window.step();
    let path = dir.path().join("part.pickle.gz");
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "Export the recording as").focus();
    window.step();
    window.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
    window.event(egui::Event::Text(path.display().to_string()));
    window.step();
    window.key_press(egui::Key::Enter);
    rest(&mut window);
    assert!(path.is_file(), "{:?}", window.state().session.notes());
    assert!(window.query_by_label("Export the recording as").is_none(), "it is closed");
    let copy = crate::samples::open(&path);
    let texts = &copy.stacks.strings;
    assert!(
        texts.find("capture").is_none() && (0..100).any(|n| texts.find(&format!("function_{n}")).is_some()),
        "names are hidden"
    );

    let session = &mut window.state_mut().session;
    let part = fragscope::model::Position(100)..fragscope::model::Position(200);
    for (name, works) in [("p.pickle", true), ("p.parquet", true), ("p.docx", false), ("none/p.json", false)] {
        let path = dir.path().join(name);
        session.apply(Command::ExportRecording { path: path.clone(), window: Some(part.clone()), redact: false });
        settle(session);
        assert_eq!(path.exists(), works, "{name}");
        let note = session.notes().last().expect("it tells").clone();
        assert_eq!(!note.is_error, works, "{}", note.text);
    }
    assert_eq!(crate::samples::open(&dir.path().join("p.pickle")).devices.as_slice()[0].trace.len(), 100);
}

/// The harness wants a frame for an application; this keeps the trait in use where only `App` is named.
#[test]
fn the_application_clears_to_its_own_paper() {
    let context = egui::Context::default();
    let mut app = App::new(&context, Session::new(None), Vec::new());
    let light = app.clear_color(&egui::Visuals::light());
    app.session.apply(Command::SetTheme(Theme::Dark));
    assert_ne!(light, app.clear_color(&egui::Visuals::dark()));
}

#[test]
fn rows_of_a_filtered_list_are_found() {
    let some = EventRows::Some([2, 5, 9].map(EventIdx).to_vec());
    for (event, row, behind) in [(0, 0, 0), (2, 0, 1), (3, 1, 1), (9, 2, 0), (50, 2, 0)] {
        assert_eq!((some.row_of(EventIdx(event)), some.row_behind(EventIdx(event))), (row, behind), "{event}");
    }
    let all = EventRows::All(3);
    for (event, row, behind) in [(0, 0, 1), (2, 2, 0), (9, 2, 0)] {
        assert_eq!((all.row_of(EventIdx(event)), all.row_behind(EventIdx(event))), (row, behind), "{event} of all");
    }
}

#[test]
fn the_export_dialog_asks_where_to_save() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut window = with_sample("private_pools");
    window.get_by_role_and_label(egui::accesskit::Role::Button, "File").click();
    rest(&mut window);
    window.get_by_label_contains("Export report").click();
    rest(&mut window);
    let path = dir.path().join("page.png");
    window.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
    window.event(egui::Event::Text(path.display().to_string()));
    window.step();
    window.key_press(egui::Key::Enter);
    rest(&mut window);
    assert!(path.is_file(), "{:?}", window.state().session.notes());
    assert!(window.query_by_label("Save a report").is_none(), "it is closed");
}
