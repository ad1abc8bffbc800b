//! What a frame costs the UI thread while one zooms, pans and scrubs through five million allocations.
//!
//! `cargo bench --bench frame [-- FILE…]`; without files one of five million allocations is made (it takes a minute
//! and 2 GB of disk). The real shell runs with all its views open, at 1440×900, off-screen: layout and tessellation
//! are counted, the upload of textures and the GPU are not. Times are those this thread computed; `wall` is the 99th
//! percentile by the clock, which on a busy machine also holds the time others took. Fails where the 99th percentile
//! of this thread is above 8 ms.

mod made;

use cpu_time::ThreadTime;
use egui::{Context, Event, Modifiers, MouseWheelUnit, Pos2, RawInput, Rect, Vec2, ViewportId};
use fragscope::model::Position;
use fragscope::session::{Command, Session};
use fragscope::ui::shell::Shell;
use fragscope::ui::tiles::Layout;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const FRAMES: u32 = 400;
const MADE_ALLOCATIONS: u32 = 5_000_000;
const LIMIT_P99: Duration = Duration::from_millis(8);
const SIZE: Vec2 = Vec2::new(1440.0, 900.0);

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.starts_with("--bench")).collect();
    let folder = tempfile::tempdir()?;
    if files.is_empty() {
        let file = folder.path().join("made.pickle");
        made::write_snapshot(&file, MADE_ALLOCATIONS)?;
        files.push(file);
    }
    println!(
        "{:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}  what, file",
        "events", "lives", "median", "p99", "worst", "wall p99", "frames"
    );
    let mut slow = false;
    for (file, front) in files.iter().flat_map(|file| FRONTS.map(|front| (file, front))) {
        let mut window = Window::open(file.clone(), front)?;
        let (_, _, memory) = window.session.front().ok_or("no device in the file")?;
        let (events, lives) = (memory.trace.len(), memory.allocations.len());
        for (what, act) in ACTS {
            let runs: Vec<_> = (0..FRAMES).map(|n| window.frame(|window| act(window, n, events as u32))).collect();
            let (mut times, mut walls): (Vec<Duration>, Vec<Duration>) = runs.into_iter().unzip();
            times.sort_unstable();
            walls.sort_unstable();
            let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            let (median, p99, worst) = (times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]);
            slow |= LIMIT_P99 < p99;
            println!(
                "{events:>10} {lives:>10} {:>9} {:>9} {:>9} {:>9} {FRAMES:>9}  {what}, {front} in front, {}",
                ms(median),
                ms(p99),
                ms(worst),
                ms(walls[walls.len() * 99 / 100]),
                file.display()
            );
        }
    }
    Ok(if slow { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The views that share a tile at first: which of them is in front.
const FRONTS: [&str; 11] = [
    "events",
    "flame",
    "charts",
    "live_set",
    "allocations",
    "marks",
    "segments",
    "sizes",
    "spans",
    "memory_summary",
    "addresses",
];

/// What a hand does from one frame to the next: the window, the frame's number, the number of events.
type Act = fn(&mut Window, u32, u32);
const ACTS: [(&str, Act); 5] = [
    ("zooming at the pointer", |window, n, _| {
        let into = n % 100 < 50;
        window.wheel(if into { 60.0 } else { -60.0 }, Modifiers::NONE);
    }),
    ("panning, zoomed in", |window, n, events| {
        if n == 0 {
            window.session.send(Command::SetWindow(f64::from(events) * 0.4..f64::from(events) * 0.45));
        }
        window.session.send(Command::Pan(if n % 200 < 100 { 0.01 } else { -0.01 }));
    }),
    ("scrubbing all over", |window, n, events| {
        let place = u64::from(n) * 7919 * 131 % u64::from(events.max(1));
        window.session.send(Command::MoveCursor(Position(place as u32)));
    }),
    ("hovering", |window, n, _| {
        let at = Pos2::new(100.0 + (n * 37 % 900) as f32, 120.0 + (n * 53 % 740) as f32);
        window.events.push(Event::PointerMoved(at));
    }),
    // The last, so that nothing is searched for in the others.
    ("scrubbing while a search is shown", |window, n, events| {
        if n == 0 {
            window.search(SEARCH);
        }
        let place = u64::from(n) * 7919 * 131 % u64::from(events.max(1));
        window.session.send(Command::MoveCursor(Position(place as u32)));
    }),
];
/// What is searched for: a part of all stacks and sizes.
const SEARCH: &str = "-life<10 512..8MiB layer";

/// The shell without a screen.
struct Window {
    context: Context,
    session: Session,
    shell: Shell,
    events: Vec<Event>,
    began: Instant,
}

impl Window {
    fn open(file: PathBuf, front: &'static str) -> Result<Window, Box<dyn Error>> {
        let context = Context::default();
        let mut session = Session::new(None);
        session.apply(Command::Open(file));
        let mut layout = Layout::of_saved("");
        layout.show_view(front);
        let shell = Shell::new(&layout.to_saved());
        let mut window = Window { context, session, shell, events: Vec::new(), began: Instant::now() };
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut quiet = 0;
        while quiet < 20 {
            if deadline < Instant::now() {
                return Err("the file did not open within five minutes".into());
            }
            window.frame(|_| {});
            quiet = if window.session.is_idle() && window.session.front().is_some() { quiet + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(window)
    }
    /// Searches, waits until it is found and says how long that took.
    fn search(&mut self, line: &str) {
        let began = Instant::now();
        self.session.send(Command::SetFind(line.to_owned()));
        self.session.tick(self.began.elapsed().as_secs_f64());
        while matches!(self.session.finding(), Some(answer) if answer.status().is_some()) && began.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(1));
            self.session.tick(self.began.elapsed().as_secs_f64());
        }
        let lives = self.session.found().map_or(0, |found| found.sum.count);
        println!("{:>10.0} ms until {lives} lives were found by {line:?}", began.elapsed().as_secs_f64() * 1e3);
    }
    fn wheel(&mut self, points: f32, modifiers: Modifiers) {
        self.events.push(Event::PointerMoved(Pos2::new(500.0, 200.0)));
        let delta = Vec2::new(0.0, points);
        self.events.push(Event::MouseWheel {
            unit: MouseWheelUnit::Point,
            delta,
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers,
        });
    }
    /// One frame with what `act` does before it: what it took this thread, and by the clock.
    fn frame(&mut self, act: impl FnOnce(&mut Window)) -> (Duration, Duration) {
        act(self);
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, SIZE)),
            time: Some(self.began.elapsed().as_secs_f64()),
            events: std::mem::take(&mut self.events),
            ..RawInput::default()
        };
        input.viewports.entry(ViewportId::ROOT).or_default().native_pixels_per_point = Some(1.0);
        let (start, computed) = (Instant::now(), ThreadTime::now());
        self.session.tick(self.began.elapsed().as_secs_f64());
        let (shell, session) = (&mut self.shell, &self.session);
        let mut output = self.context.run_ui(input, |ui| shell.show(ui, session));
        let shapes = std::mem::take(&mut output.shapes);
        let primitives = self.context.tessellate(shapes, output.pixels_per_point);
        let (took, computed) = (start.elapsed(), computed.elapsed());
        std::hint::black_box(&primitives);
        output.textures_delta.clear();
        // What a 60 Hz screen would leave to the workers.
        std::thread::sleep(Duration::from_millis(16).saturating_sub(took));
        (computed, took)
    }
}
