//! The window on a real display. Tests here end in `on_a_display`: `tests/run` skips them by that name where there
//! is none, and each says so itself.

use crate::samples;
use std::process::{Child, Command, Stdio};
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

#[test]
fn a_sample_opens_on_a_display() {
    if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
        println!("skipped: a_sample_opens_on_a_display needs a display (DISPLAY is not set)");
        return;
    }
    let Some(before) = screen() else {
        println!("skipped: a_sample_opens_on_a_display needs ImageMagick's `import` to look at the display");
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fragscope"));
    command.arg("open").arg(samples::sample("two_devices")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, home.path());
    }
    let mut running = Running(command.spawn().expect("the program starts"));
    let start = Instant::now();
    loop {
        if let Some(status) = running.0.try_wait().expect("a child") {
            let mut said = String::new();
            let mut errors = running.0.stderr.take().expect("piped");
            std::io::Read::read_to_string(&mut errors, &mut said).expect("text");
            panic!("the window closed by itself ({status}): {said}");
        }
        // A loaded page in compressed pixels weighs far more than an empty screen or a lone spinner.
        if screen().is_some_and(|pixels| before.len() + 20_000 < pixels.len()) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "nothing was drawn on the display within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What the display shows, as PNG; none without the tool that takes pictures.
fn screen() -> Option<Vec<u8>> {
    let output = Command::new("import").args(["-window", "root", "png:-"]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}
