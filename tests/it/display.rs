//! The window on a real display. Tests here end in `on_a_display`: `tests/run` skips them by that name where there
//! is none, and each says so itself.

use crate::samples;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A debug build on a software renderer with a busy machine needs its time.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process that ends with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program on a sample, with a home of its own; none where something is missing, which is then said.
fn start(test: &str, sample: &str, home: &Path) -> Option<(Running, Vec<u8>)> {
    if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
        println!("skipped: {test} needs a display (DISPLAY is not set)");
        return None;
    }
    let Some(before) = screen() else {
        println!("skipped: {test} needs ImageMagick's `import` to look at the display");
        return None;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.arg("open").arg(samples::sample(sample)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "FRAGSCOPE_CONFIG_DIR"] {
        command.env(variable, home);
    }
    Some((Running(command.spawn().expect("the program starts")), before))
}

/// Waits until something holds; the program must not end meanwhile.
fn wait_until(running: &mut Running, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        if let Some(status) = running.0.try_wait().expect("a child") {
            let mut said = String::new();
            let mut errors = running.0.stderr.take().expect("piped");
            std::io::Read::read_to_string(&mut errors, &mut said).expect("text");
            panic!("{what}: the window closed by itself ({status}): {said}");
        }
        if holds() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_sample_opens_on_a_display() {
    let _alone = alone();
    let home = tempfile::tempdir().expect("a folder");
    let Some((mut running, before)) = start("a_sample_opens_on_a_display", "two_devices", home.path()) else { return };
    // A loaded page in compressed pixels weighs far more than an empty screen or a lone spinner.
    wait_until(&mut running, "something is drawn", || screen().is_some_and(|pixels| before.len() + 20_000 < pixels.len()));
}

/// Keys and mouse of a real window: marks at the start and at the end, a search, a click on the picture. What they did
/// is seen on the screen, and in what the program remembers of the file.
#[test]
fn hand_and_keys_move_a_window_on_a_display() {
    let _alone = alone();
    let test = "hand_and_keys_move_a_window_on_a_display";
    let home = tempfile::tempdir().expect("a folder");
    if xdotool(&["version"]).is_none() {
        println!("skipped: {test} needs xdotool");
        return;
    }
    let Some((mut running, before)) = start(test, "fragmentation_oom", home.path()) else { return };
    wait_until(&mut running, "something is drawn", || screen().is_some_and(|pixels| before.len() + 20_000 < pixels.len()));
    let id = running.0.id().to_string();
    let window = xdotool(&["search", "--onlyvisible", "--pid", &id])
        .or_else(|| xdotool(&["search", "--onlyvisible", "--name", "Fragscope"]));
    let window = window.and_then(|ids| Some(ids.lines().next()?.to_owned())).expect("a window");
    let act = |arguments: &[&str]| assert!(xdotool(arguments).is_some(), "xdotool {arguments:?}");
    act(&["windowfocus", &window]);
    let remembered = || -> Option<serde_json::Value> {
        let saved = std::fs::read(home.path().join("window.json")).ok()?;
        let saved: serde_json::Value = serde_json::from_slice(&saved).ok()?;
        Some(saved["files"][0]["places"][0].clone())
    };
    // Without a window manager a key may come before the focus does: it is sent again until it is seen.
    let mark = |key: &'static str, at: u64| {
        let place = remembered().unwrap_or_default();
        let there = |place: &serde_json::Value| place["marks"].as_array().is_some_and(|marks| marks.contains(&at.into()));
        if !there(&place) {
            if place["cursor"] != at {
                act(&["key", key]);
            } else {
                act(&["key", "m"]);
            }
            std::thread::sleep(Duration::from_millis(1500));
        }
        remembered().is_some_and(|place| there(&place))
    };
    wait_until(&mut running, "a mark at the start", || mark("Home", 0));
    wait_until(&mut running, "a mark at the end", || mark("End", 35_573));
    let size = xdotool(&["getwindowgeometry", "--shell", &window]).expect("a size");
    let side = |name: &str| -> u32 {
        let line = size.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no {name} in {size}"))
    };
    let (x, y) = ((side("WIDTH") * 35 / 100).to_string(), (side("HEIGHT") * 25 / 100).to_string());
    wait_until(&mut running, "a click on the picture moves the cursor", || {
        act(&["mousemove", "--window", &window, &x, &y, "click", "1"]);
        std::thread::sleep(Duration::from_millis(1500));
        let cursor = remembered().and_then(|place| place["cursor"].as_u64()).unwrap_or(0);
        (5_000..30_000).contains(&cursor)
    });
    act(&["key", "ctrl+f"]);
    std::thread::sleep(Duration::from_millis(1500));
    let calm = screen().expect("a picture");
    act(&["type", "--delay", "40", "attend"]);
    // A blinking caret is a few bytes; a faded picture is thousands.
    wait_until(&mut running, "what is not found fades", || {
        screen().is_some_and(|pixels| 3_000 < pixels.len().abs_diff(calm.len()))
    });
    if let (Some(folder), Some(pixels)) = (std::env::var_os("FRAGSCOPE_SCREENSHOTS"), screen()) {
        std::fs::write(Path::new(&folder).join("driven.png"), pixels).expect("a folder that can be written to");
    }
}

/// One window at a time: both tests look at the whole display.
fn alone() -> MutexGuard<'static, ()> {
    static DISPLAY: Mutex<()> = Mutex::new(());
    DISPLAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What xdotool says; none where it fails or is not there.
fn xdotool(arguments: &[&str]) -> Option<String> {
    let output = Command::new("xdotool").args(arguments).stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(said)
}

/// What the display shows, as PNG; none without the tool that takes pictures.
fn screen() -> Option<Vec<u8>> {
    let output = Command::new("import").args(["-window", "root", "png:-"]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}
