//! Documents that grow: a log that is written while the window shows it, by the test or by a job that uses the stand-in
//! for PyTorch (`tests/capture/`).

mod page;
mod processes;

use crate::window::{Window_, place, window};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable;
use fragscope::analysis::StateAt;
use fragscope::base::Progress;
use fragscope::chart::{Theme, TimeAxis};
use fragscope::format;
use fragscope::format::fsl::{self, End, Event, LogWriter, NO_STACK};
use fragscope::model::{Action, AllocationId, Item, Position, Snapshot};
use fragscope::session::live::Ending;
use fragscope::session::workspace::Window;
use fragscope::session::{Answer, Command, Session};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A log that the test writes on.
struct Growing {
    folder: tempfile::TempDir,
    log: LogWriter<File>,
    /// Live blocks, oldest first.
    live: Vec<u64>,
    next: u64,
    time_us: i64,
}

impl Growing {
    /// A log of a process that runs: this one.
    fn new() -> Growing {
        Growing::of(std::process::id())
    }
    fn of(process: u32) -> Growing {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("job.fsl")).expect("a file");
        let mut log = LogWriter::new(file).expect("room on the disk");
        log.facts(&format!(
            r#"{{"source":"torch","torch":"2.11.0","pid":{process},"starts_empty":true,"argv":["python","train.py"],
                "allocator_settings":{{"PYTORCH_CUDA_ALLOC_CONF":""}}}}"#
        ))
        .expect("room on the disk");
        Growing { folder, log, live: Vec::new(), next: 0, time_us: 1_790_000_000_000_000 }
    }
    fn path(&self) -> PathBuf {
        self.folder.path().join("job.fsl")
    }
    fn event(&mut self, action: Action, address: u64, size: u64, stack: u32) {
        self.time_us += 10;
        let event = Event { action: action as u8, device: 0, pool: 0, stack, address, size, stream: 0, time_us: self.time_us };
        self.log.event(&event).expect("room on the disk");
    }
    /// Blocks of 1 MiB come, each in a segment of its own; of every three two go again.
    fn grow(&mut self, blocks: u32) {
        let frame = self.log.frame("forward", "model.py", 41).expect("room on the disk");
        let stack = self.log.stack(&[frame]).expect("room on the disk");
        for _ in 0..blocks {
            let address = 0x7000_0000_0000 + self.next * 2 * MIB;
            self.next += 1;
            self.event(Action::SegmentAlloc, address, 2 * MIB, stack);
            self.event(Action::Alloc, address, MIB, stack);
            self.live.push(address);
            if !self.next.is_multiple_of(3) && 1 < self.live.len() {
                let freed = self.live.remove(0);
                self.event(Action::FreeRequested, freed, MIB, NO_STACK);
                self.event(Action::FreeCompleted, freed, MIB, NO_STACK);
            }
        }
        self.log.flush().expect("room on the disk");
    }
    fn end(&mut self, code: Option<i32>, signal: Option<i32>) {
        let end = End { time_us: Some(self.time_us), code, signal, text: String::new() };
        self.log.end(&end).expect("room on the disk");
    }
    /// What the file holds now.
    fn read(&self) -> Snapshot {
        open(&self.path())
    }
}

fn open(path: &Path) -> Snapshot {
    format::open(path, &Progress::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// Steps until something holds.
pub(crate) fn until(window: &mut Window_<'_>, what: &str, holds: impl Fn(&Session) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds(&window.state().session) {
        window.step();
        assert!(Instant::now() < deadline, "{what}: not within a minute; {:?}", window.state().session.notes());
        std::thread::sleep(Duration::from_millis(2));
    }
    for _ in 0..3 {
        window.step();
    }
}

fn events(session: &Session) -> usize {
    session.front().map_or(0, |(_, _, memory)| memory.trace.len())
}

/// Opens a log and waits until all of it is shown.
fn watch(growing: &Growing) -> Window_<'static> {
    let mut window = window(vec![growing.path()]);
    let all = growing.read().devices.as_slice().first().map_or(0, |device| device.trace.len());
    until(&mut window, "it opens", |session| session.live_in_front().is_some() && events(session) == all);
    window
}

/// Waits until the window shows what the file holds, and compares all of it.
fn caught_up(window: &mut Window_<'_>, growing: &Growing) {
    let whole = growing.read();
    let device = &whole.devices.as_slice()[0];
    until(window, "it catches up", |session| events(session) == device.trace.len());
    let session = &window.state().session;
    let shown = session.front().expect("open").2;
    assert_eq!(shown.trace.actions(), device.trace.actions());
    assert_eq!(shown.trace.addresses(), device.trace.addresses());
    assert_eq!(shown.allocations.sizes(), device.allocations.sizes());
    assert_eq!(shown.allocations.died(), device.allocations.died());
    assert_eq!(shown.segments.len(), device.segments.len());
}

fn click(window: &mut Window_<'_>, label: &str) {
    window.get_by_role_and_label(Role::Button, label).click();
    window.step();
    window.step();
}

#[test]
fn a_log_that_grows_is_followed_to_its_end() {
    let mut growing = Growing::new();
    growing.grow(10);
    let mut window = watch(&growing);
    assert!(window.state().session.is_following());
    for _ in 0..4 {
        growing.grow(200);
        caught_up(&mut window, &growing);
        let session = &window.state().session;
        let end = session.front().expect("open").2.end();
        assert_eq!(place(session).cursor, end, "the cursor is at the end");
        let generation = session.active().expect("open").generation;
        assert!(0 < generation);
    }
    // What is shown at the end is what the allocator has there.
    let (session, whole) = (&window.state().session, growing.read());
    let end = place(session).cursor;
    session.ask::<StateAt>(end);
    until(&mut window, "the state at the end", |session| matches!(session.ask::<StateAt>(end), Answer::Ready(_)));
    let Answer::Ready(state) = window.state().session.ask::<StateAt>(end) else { panic!("it was ready") };
    let device = &whole.devices.as_slice()[0];
    let live: u64 = device.allocations.ids().map(|id| device.allocations.get(id)).filter(|l| end < l.died).map(|l| l.size).sum();
    assert_eq!(state.totals.allocated, live);
    // Counted once a second.
    growing.grow(200);
    let grows = |session: &Session| session.live_in_front().is_some_and(|live| live.rate() != 0);
    until(&mut window, "growth is counted", grows);
    let told = window.query_all_by_label_contains("a second").next().is_some();
    assert!(told || !grows(&window.state().session), "the line says how fast it grows");
    assert!(window.state().session.notes().is_empty(), "{:?}", window.state().session.notes());
    assert!(window.query_by_label_contains("does not state its segments").is_none(), "no word on an end that is not there yet");
}

#[test]
fn scrubbing_leaves_the_end_and_follow_goes_back_to_it() {
    let mut growing = Growing::new();
    growing.grow(50);
    let mut window = watch(&growing);
    window.state_mut().session.send(Command::MoveCursor(Position(20)));
    window.step();
    assert!(!window.state().session.is_following());
    growing.grow(50);
    caught_up(&mut window, &growing);
    assert_eq!(place(&window.state().session).cursor, Position(20), "a cursor that was put somewhere stays there");
    for back in [
        |window: &mut Window_<'_>| window.key_press(Key::L),
        |window: &mut Window_<'_>| click(window, "Follow"),
        |window: &mut Window_<'_>| window.key_press(Key::End),
    ] {
        window.key_press(Key::Home);
        window.step();
        window.step();
        assert!(!window.state().session.is_following());
        back(&mut window);
        window.step();
        window.step();
        assert!(window.state().session.is_following());
        growing.grow(5);
        caught_up(&mut window, &growing);
        let session = &window.state().session;
        assert_eq!(place(session).cursor, session.front().expect("open").2.end());
    }
    window.state_mut().session.send(Command::GoToPeak);
    window.step();
    assert!(!window.state().session.is_following(), "a moment that was asked for is no end, wherever it lies");
}

#[test]
fn held_shows_nothing_new_and_loses_nothing() {
    let mut growing = Growing::new();
    growing.grow(50);
    let mut window = watch(&growing);
    let before = events(&window.state().session);
    click(&mut window, "Hold");
    growing.grow(300);
    let all = growing.read().devices.as_slice()[0].trace.len();
    until(&mut window, "it is read on", |session| session.live_in_front().is_some_and(|live| live.events() == all as u64));
    for _ in 0..200 {
        window.step();
        std::thread::sleep(Duration::from_millis(4));
    }
    assert_eq!(events(&window.state().session), before, "held");
    assert!(window.query_by_label("Held").is_some());
    assert!(window.query_by_label_contains("not shown").is_some());
    window.key_press(Key::H);
    caught_up(&mut window, &growing);
    assert!(window.query_by_label("Live").is_some());
}

#[test]
fn what_is_selected_stays_what_it_was() {
    let mut growing = Growing::new();
    growing.grow(50);
    let mut window = watch(&growing);
    let of = |session: &Session| {
        let Some(Item::Allocation(id)) = place(session).selected() else { panic!("a block is selected") };
        let life = session.front().expect("open").2.allocations.get(id);
        (life.address, life.born)
    };
    window.state_mut().session.send(Command::Select(Item::Allocation(AllocationId(30))));
    window.step();
    let before = of(&window.state().session);
    for _ in 0..3 {
        growing.grow(70);
        caught_up(&mut window, &growing);
        assert_eq!(of(&window.state().session), before);
    }
}

/// A program that was attached to frees blocks that are older than the recording: they change their rows.
#[test]
fn what_is_selected_is_found_again_where_rows_move() {
    let mut growing = Growing::new();
    let older: Vec<u64> = (0..40).map(|i| 0x6000_0000_0000 + i * 2 * MIB).collect();
    let segments = older.iter().map(|address| fsl::StateSegment {
        address: *address,
        size: 2 * MIB,
        stream: 0,
        stack: NO_STACK,
        pool: 0,
        large: false,
        expandable: false,
        blocks: vec![
            fsl::StateBlock { address: *address, size: MIB, requested: Some(MIB), stack: NO_STACK, state: 1 },
            fsl::StateBlock { address: *address + MIB, size: MIB, requested: None, stack: NO_STACK, state: 0 },
        ],
    });
    let state = fsl::StateRecord { device: 0, when: fsl::When::Start, time_us: None, segments: segments.collect() };
    growing.log.state(&state).expect("room on the disk");
    growing.grow(20);
    let mut window = watch(&growing);
    let of = |session: &Session| {
        let Some(Item::Allocation(id)) = place(session).selected() else { panic!("a block is selected") };
        session.front().expect("open").2.allocations.get(id).address
    };
    window.state_mut().session.send(Command::Select(Item::Allocation(AllocationId(5))));
    window.step();
    let before = of(&window.state().session);
    for address in older.into_iter().filter(|address| *address != before) {
        growing.event(Action::FreeRequested, address, MIB, NO_STACK);
        growing.event(Action::FreeCompleted, address, MIB, NO_STACK);
        growing.grow(1);
    }
    caught_up(&mut window, &growing);
    assert_eq!(of(&window.state().session), before);
}

#[test]
fn undo_goes_over_the_users_deeds_and_not_over_growth() {
    let mut growing = Growing::new();
    growing.grow(50);
    let mut window = watch(&growing);
    window.state_mut().session.send(Command::MoveCursor(Position(9)));
    for _ in 0..60 {
        window.step();
    }
    for _ in 0..2 {
        growing.grow(50);
        caught_up(&mut window, &growing);
        for _ in 0..60 {
            window.step();
        }
    }
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.step();
    window.step();
    let session = &window.state().session;
    assert!(session.is_following(), "before the scrubbing the cursor followed");
    assert_eq!(place(session).cursor, session.front().expect("open").2.end());
    window.key_press_modifiers(Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::Z);
    window.step();
    window.step();
    assert_eq!(place(&window.state().session).cursor, Position(9));
}

#[test]
fn a_zoomed_window_goes_with_the_end() {
    for axis in [TimeAxis::Events, TimeAxis::Time] {
        let mut growing = Growing::new();
        growing.grow(200);
        let mut window = watch(&growing);
        window.state_mut().session.send(Command::SetAxis(axis));
        window.step();
        until(&mut window, "the clock", |session| session.clock().is_some());
        let span = window.state().session.clock().expect("there").clock.span();
        window.state_mut().session.send(Command::SetWindow(span.end - (span.end - span.start) / 4.0..span.end));
        window.step();
        let length = |session: &Session| match &place(session).window {
            Window::Units(_, range) => range.end - range.start,
            other => panic!("{other:?}"),
        };
        let before = length(&window.state().session);
        growing.grow(300);
        caught_up(&mut window, &growing);
        let session = &window.state().session;
        assert!((length(session) - before).abs() < 1.0, "as long as before");
        let clock = session.clock().expect("the clock of what grew is there at once");
        let (shown, at) = (session.window(&clock.clock), clock.clock.unit(place(session).cursor));
        assert!(shown.start <= at && at <= shown.end + 1.0, "{axis:?}: {at} in {shown:?}");
    }
}

#[test]
fn the_end_of_a_job_makes_it_an_ordinary_file() {
    for (code, signal, sentence) in [
        (Some(0), None, "The job ended well."),
        (Some(3), None, "The job ended with exit code 3."),
        (None, Some(9), "The job was killed (signal 9). What it had logged is all here."),
        (None, Some(11), "The job was ended by signal 11. What it had logged is all here."),
    ] {
        let mut growing = Growing::new();
        growing.grow(20);
        let mut window = watch(&growing);
        growing.grow(20);
        growing.end(code, signal);
        until(&mut window, "it ends", |session| session.live_in_front().is_some_and(|live| !live.is_growing()));
        caught_up(&mut window, &growing);
        let session = &window.state().session;
        let ending = session.live_in_front().and_then(|live| live.ending.clone()).expect("it ended");
        assert_eq!(ending.sentence(), sentence);
        assert!(session.active().expect("open").stamp.is_some(), "it is remembered like any file");
        assert!(window.query_by_label_contains(sentence).is_some());
        click(&mut window, "Dismiss the end of the recording");
        assert!(window.query_by_label_contains(sentence).is_none());
    }
}

#[test]
fn a_writer_that_is_gone_leaves_all_it_logged_and_a_torn_record_is_said() {
    let mut writer = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let mut growing = Growing::of(writer.id());
    growing.grow(30);
    let mut window = watch(&growing);
    growing.grow(30);
    let whole = growing.read().devices.as_slice()[0].trace.len();
    growing.log.get_mut().write_all(&fsl::writer::record(fsl::kind::EVENTS, &[0; 80])[..50]).expect("room on the disk");
    writer.kill().expect("it runs");
    writer.wait().expect("it ends");
    until(&mut window, "it is noticed", |session| session.live_in_front().is_some_and(|live| !live.is_growing()));
    until(&mut window, "the last of it", |session| events(session) == whole);
    let session = &window.state().session;
    let ending = session.live_in_front().and_then(|live| live.ending.clone());
    assert_eq!(ending, Some(Ending::Gone(Some(writer.id()))));
    until(&mut window, "the last words", |session| {
        let snapshot = &session.active().expect("open").snapshot;
        snapshot.warnings.count(fragscope::model::WarningKind::Truncated) == 1
    });
    assert!(window.query_by_label_contains("died").is_some());
}

#[test]
fn a_log_that_became_another_file_says_so_and_stays_shown() {
    let mut growing = Growing::new();
    growing.grow(30);
    let mut window = watch(&growing);
    let before = events(&window.state().session);
    std::fs::write(growing.path(), b"").expect("a file of our own");
    until(&mut window, "it is noticed", |session| session.live_in_front().is_some_and(|live| !live.is_growing()));
    assert!(window.query_by_label_contains("became shorter").is_some());
    assert_eq!(events(&window.state().session), before);
}

#[test]
fn a_log_without_events_opens_and_fills() {
    let mut growing = Growing::new();
    growing.log.flush().expect("room on the disk");
    let mut window = window(vec![growing.path()]);
    until(&mut window, "it opens", |session| session.live_in_front().is_some());
    assert!(window.query_all_by_label_contains("has not allocated anything yet").next().is_some());
    growing.grow(20);
    caught_up(&mut window, &growing);
    assert!(window.state().session.is_following());
}

#[test]
fn a_second_device_takes_its_place_and_nobody_elses() {
    let mut growing = Growing::new();
    let host = Event {
        action: Action::SegmentAlloc as u8,
        device: -1,
        pool: 0,
        stack: NO_STACK,
        address: 0x1000,
        size: 512,
        stream: 0,
        time_us: 5,
    };
    growing.log.event(&host).expect("room on the disk");
    growing.grow(20);
    let mut window = watch(&growing);
    window.state_mut().session.send(Command::MoveCursor(Position(7)));
    window.step();
    // Devices stand in the order of their numbers, pinned memory last: this one comes between.
    growing.log.event(&Event { device: 1, ..host }).expect("room on the disk");
    growing.grow(20);
    caught_up(&mut window, &growing);
    let session = &window.state().session;
    let ordinals: Vec<i32> = session.active().expect("open").snapshot.devices.as_slice().iter().map(|d| d.ordinal).collect();
    assert_eq!(ordinals, [0, 1, -1]);
    assert_eq!((session.front().expect("open").2.ordinal, place(session).cursor), (0, Position(7)));
    assert_eq!(session.workspace().places.len(), 3);
}

#[test]
fn a_log_that_is_over_opens_like_any_file() {
    let mut growing = Growing::new();
    growing.grow(20);
    growing.end(Some(0), None);
    let mut window = window(vec![growing.path()]);
    crate::window::rest(&mut window);
    let session = &window.state().session;
    assert!(session.live_in_front().is_none());
    assert_eq!(events(session), growing.read().devices.as_slice()[0].trace.len());
}

#[test]
fn a_live_document_can_be_closed() {
    let mut growing = Growing::new();
    growing.grow(20);
    let mut window = watch(&growing);
    growing.grow(20);
    window.key_press_modifiers(Modifiers::COMMAND, Key::W);
    until(&mut window, "its jobs end", |session| session.documents().is_empty() && session.is_idle());
    assert!(window.state().session.live_in_front().is_none());
}

/// All views over what grows, in both themes: nothing is out of step with a newer snapshot.
#[test]
fn every_view_stands_growth() {
    for theme in [Theme::Light, Theme::Dark] {
        let mut growing = Growing::new();
        growing.grow(30);
        let mut window = watch(&growing);
        window.state_mut().session.send(Command::SetTheme(theme));
        for view in fragscope::ui::views::VIEWS {
            let Some(tab) = window.query_all_by_label(view.title).next() else { continue };
            tab.click();
            window.step();
            growing.grow(7);
            caught_up(&mut window, &growing);
        }
        let picture = window.render().expect("painted");
        assert_eq!(picture.dimensions(), (1440, 900));
    }
}
