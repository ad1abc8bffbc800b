//! What a frame costs the UI thread while the window follows a job, and how far behind it is.
//!
//! `cargo bench --bench live [-- RATE SECONDS]…`; without figures 10 000, 100 000 and 400 000 events a second for 20
//! seconds each. A thread writes a log at that rate, as a training loop does to an allocator (400 stacks, some thousand
//! live blocks); the real shell with all its first views follows it off-screen at 1440×900. Times of a frame are those
//! this thread computed, layout and tessellation; `wall` is by the clock, which on a busy machine also holds the time
//! others took. `behind` is the age of the newest event
//! shown, in every frame while the job runs. Fails where the 99th percentile of a frame is above 8 ms,
//! or the window does not show at the end all that was written.

use cpu_time::{ProcessTime, ThreadTime};
use egui::{Context, RawInput, Rect, Vec2, ViewportId};
use fragscope::format::fsl::{Event, LogWriter, NO_STACK};
use fragscope::model::Action;
use fragscope::session::{Command, Session};
use fragscope::ui::shell::Shell;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

const LIMIT_P99: Duration = Duration::from_millis(8);
const SIZE: Vec2 = Vec2::new(1440.0, 900.0);
const DEFAULT: [(u64, u64); 3] = [(10_000, 20), (100_000, 20), (400_000, 20)];
/// Between two writes: the recorder's own pace is about this.
const WRITES: Duration = Duration::from_millis(50);

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
    let figures: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let mut runs: Vec<(u64, u64)> = figures.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if runs.is_empty() {
        runs = DEFAULT.to_vec();
    }
    println!(
        "{:>9} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>13} {:>13} {:>6}",
        "a second",
        "events",
        "frames",
        "median",
        "p99",
        "worst",
        "wall p99",
        "pictures",
        "behind median",
        "behind worst",
        "cores"
    );
    let mut is_slow = false;
    for (rate, seconds) in runs {
        is_slow |= LIMIT_P99 < follow(rate, Duration::from_secs(seconds))?;
    }
    Ok(if is_slow { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Follows a log of so many events a second; the 99th percentile of a frame.
fn follow(rate: u64, length: Duration) -> Result<Duration, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("job.fsl");
    let mut writer = Writer::new(&path)?;
    let written = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&written);
    let writing = std::thread::spawn(move || -> std::io::Result<()> {
        let began = Instant::now();
        let mut done = 0;
        while began.elapsed() < length {
            let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
            while done < due {
                done += writer.block()?;
            }
            writer.log.flush()?;
            counted.store(done, Ordering::Relaxed);
            std::thread::sleep(WRITES);
        }
        Ok(())
    });
    let mut window = Window::open(&path);
    let (mut times, mut walls, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    let (began, computed) = (Instant::now(), ProcessTime::now());
    let mut generation;
    loop {
        let (time, wall) = window.frame();
        let session = &window.session;
        let Some((document, _, memory)) = session.front() else {
            if Duration::from_secs(60) < began.elapsed() {
                return Err("the log did not open within a minute".into());
            }
            continue;
        };
        times.push(time);
        walls.push(wall);
        generation = document.generation;
        if !writing.is_finished() {
            let newest = memory.trace.time_span_us().map_or(0, |(_, last)| last);
            behind.push(Duration::from_micros(now_us().saturating_sub(newest).max(0) as u64));
        }
        let shown = memory.trace.len() as u64;
        if writing.is_finished() && shown == written.load(Ordering::Relaxed) {
            break;
        }
        if length * 6 + Duration::from_secs(60) < began.elapsed() {
            return Err(format!("{shown} of {} events are shown", written.load(Ordering::Relaxed)).into());
        }
    }
    writing.join().map_err(|_| "the writer stopped")??;
    let cores = computed.elapsed().as_secs_f64() / began.elapsed().as_secs_f64();
    for list in [&mut times, &mut walls, &mut behind] {
        list.sort_unstable();
    }
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let s = |time: Option<&Duration>| time.map_or("–".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()));
    let p99 = times[times.len() * 99 / 100];
    println!(
        "{rate:>9} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9} {generation:>9} {:>13} {:>13} {cores:>6.2}",
        written.load(Ordering::Relaxed),
        times.len(),
        ms(times[times.len() / 2]),
        ms(p99),
        ms(times[times.len() - 1]),
        ms(walls[walls.len() * 99 / 100]),
        s(behind.get(behind.len() / 2)),
        s(behind.last()),
    );
    Ok(p99)
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_micros() as i64)
}

/// A training loop as an allocator sees it, written as a log.
struct Writer {
    log: LogWriter<BufWriter<File>>,
    stacks: Vec<u32>,
    live: Vec<(u64, u64)>,
    free: [Vec<u64>; SIZES.len()],
    end: u64,
    seed: u64,
}

const SIZES: [u64; 7] = [512, 4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20, 24 << 20];
const BASE: u64 = 0x7f00_0000_0000;
const SEGMENT: u64 = 64 << 20;

impl Writer {
    fn new(path: &Path) -> std::io::Result<Writer> {
        let mut log = LogWriter::new(BufWriter::with_capacity(1 << 20, File::create(path)?))?;
        log.facts(&format!(
            r#"{{"source":"torch","torch":"2.11.0","pid":{},"starts_empty":true,"allocator_settings":{{"PYTORCH_CUDA_ALLOC_CONF":"expandable_segments:True","expandable_segments":true}}}}"#,
            std::process::id()
        ))?;
        let mut stacks = Vec::new();
        for i in 0..400u32 {
            let mut frames = Vec::new();
            for depth in 0..12 {
                frames.push(log.frame(
                    &format!("layer_{}", (i * 7 + depth * 31) % 97),
                    &format!("/home/user/train/part_{}.py", (i + depth) % 11),
                    i64::from(i + depth),
                )?);
            }
            stacks.push(log.stack(&frames)?);
        }
        log.flush()?;
        let free = std::array::from_fn(|_| Vec::new());
        Ok(Writer { log, stacks, live: Vec::new(), free, end: BASE, seed: 0x9e37_79b9_7f4a_7c15 })
    }
    fn next(&mut self, n: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % n
    }
    fn event(&mut self, action: Action, address: u64, size: u64, stack: u32) -> std::io::Result<()> {
        let event = Event { action: action as u8, device: 0, pool: 0, stack, address, size, stream: 0, time_us: now_us() };
        self.log.event(&event)
    }
    /// A block comes, and others go while there are too many; the number of events.
    fn block(&mut self) -> std::io::Result<u64> {
        let mut events = 1;
        let class = self.next(SIZES.len() as u64).min(self.next(SIZES.len() as u64)) as usize;
        let size = SIZES[class];
        let address = match self.free[class].pop() {
            Some(address) => address,
            None => {
                let address = self.end;
                let mapped = (address - BASE).next_multiple_of(SEGMENT);
                self.end += size;
                if mapped < self.end - BASE {
                    let more = (self.end - BASE).next_multiple_of(SEGMENT) - mapped;
                    self.event(Action::SegmentMap, BASE + mapped, more, NO_STACK)?;
                    events += 1;
                }
                address
            }
        };
        let stack = self.next(400) as usize;
        let stack = self.stacks[stack];
        self.event(Action::Alloc, address, size - size / 7, stack)?;
        self.live.push((address, size));
        while 4000 < self.live.len() || (500 < self.live.len() && self.next(3) != 0) {
            let among = (self.live.len() as u64).min(if self.next(8) == 0 { u64::MAX } else { 64 });
            let place = self.live.len() - 1 - self.next(among) as usize;
            let (address, size) = self.live.swap_remove(place);
            for action in [Action::FreeRequested, Action::FreeCompleted] {
                self.event(action, address, size - size / 7, NO_STACK)?;
            }
            events += 2;
            let class = SIZES.iter().position(|other| *other == size).unwrap_or(0);
            self.free[class].push(address);
        }
        Ok(events)
    }
}

/// The shell without a screen.
struct Window {
    context: Context,
    session: Session,
    shell: Shell,
    began: Instant,
}

impl Window {
    fn open(path: &Path) -> Window {
        let mut session = Session::new(None);
        session.apply(Command::Open(path.to_owned()));
        Window { context: Context::default(), session, shell: Shell::new(""), began: Instant::now() }
    }
    /// One frame: what it took this thread, and by the clock.
    fn frame(&mut self) -> (Duration, Duration) {
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, SIZE)),
            time: Some(self.began.elapsed().as_secs_f64()),
            ..RawInput::default()
        };
        input.viewports.entry(ViewportId::ROOT).or_default().native_pixels_per_point = Some(1.0);
        let (start, computed) = (Instant::now(), ThreadTime::now());
        self.session.tick(self.began.elapsed().as_secs_f64());
        let (shell, session) = (&mut self.shell, &self.session);
        let mut output = self.context.run_ui(input, |ui| shell.show(ui, session));
        let shapes = std::mem::take(&mut output.shapes);
        std::hint::black_box(&self.context.tessellate(shapes, output.pixels_per_point));
        let (took, computed) = (start.elapsed(), computed.elapsed());
        output.textures_delta.clear();
        // What a 60 Hz screen would leave to the workers.
        std::thread::sleep(Duration::from_millis(16).saturating_sub(took));
        (computed, took)
    }
}
