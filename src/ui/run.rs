//! Opens the window: with wgpu, else with OpenGL in the same process, else a sentence that says what to install.
//!
//! Always: no panic of the windowing crates gets out, as some of them panic where a library is missing.

use crate::session::capturing::Adopted;
use crate::session::jobs::panic_text;
use crate::session::{Session, persist};
use crate::ui::app::App;
use eframe::{NativeOptions, Renderer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why there is no window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UiError {
    /// There is no display to open it on.
    #[error("{0}")]
    NoDisplay(String),
    /// There is one, but something it needs is missing.
    #[error("{0}")]
    NoWindow(String),
    /// It ran and stopped because of a defect.
    #[error("The window stopped because of a defect in Fragscope: {0}")]
    Stopped(String),
}

/// What the window begins with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Files to open.
    pub files: Vec<PathBuf>,
    /// What the user says a block of a KV cache has, bytes.
    pub block_bytes: Option<u64>,
    /// A job that runs already and is recorded.
    pub job: Option<Adopted>,
}

/// Why there can be no window here, as far as that shows before one is tried.
pub fn without_display() -> Option<UiError> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let windowed = !cfg!(target_os = "linux") || ["WAYLAND_DISPLAY", "WAYLAND_SOCKET", "DISPLAY"].into_iter().any(is_set);
    (!windowed).then(|| UiError::NoDisplay(NO_DISPLAY.to_owned()))
}

const NO_DISPLAY: &str = "There is no display: neither WAYLAND_DISPLAY nor DISPLAY is set.";

/// Opens the window and returns when it is closed.
pub fn run(opening: Opening) -> Result<(), UiError> {
    let started = Arc::new(AtomicBool::new(false));
    let mut failures = Vec::new();
    for renderer in [Renderer::Wgpu, Renderer::Glow] {
        match run_with(renderer, opening.clone(), &started) {
            Ok(()) => return Ok(()),
            Err(why) if started.load(Ordering::Relaxed) => return Err(UiError::Stopped(why)),
            Err(why) => failures.push(why),
        }
    }
    Err(explained(&failures))
}

fn run_with(renderer: Renderer, opening: Opening, started: &Arc<AtomicBool>) -> Result<(), String> {
    let viewport = egui::ViewportBuilder::default()
        .with_title("Fragscope")
        .with_app_id("fragscope")
        .with_inner_size([1440.0, 900.0])
        .with_min_inner_size([720.0, 480.0])
        .with_drag_and_drop(true);
    let options = NativeOptions { viewport, renderer, dithering: false, ..NativeOptions::default() };
    let quiet = quieten_panics(Arc::clone(started));
    let begun = Arc::clone(started);
    let result = catch_unwind(AssertUnwindSafe(|| {
        eframe::run_native(
            "fragscope",
            options,
            Box::new(move |context| {
                begun.store(true, Ordering::Relaxed);
                let mut session = Session::new(persist::folder());
                session.set_block_bytes(opening.block_bytes);
                let mut app = App::new(&context.egui_ctx, session, opening.files);
                opening.job.into_iter().for_each(|job| app.session.adopt(job));
                Ok(Box::new(app))
            }),
        )
    }));
    drop(quiet);
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("{error} ({error:?})")),
        Err(panic) => Err(panic_text(&*panic)),
    }
}

/// Until the window stands, a panic is a missing library: it becomes a sentence, not a backtrace.
fn quieten_panics(started: Arc<AtomicBool>) -> impl Drop {
    type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>;
    struct Restore(Arc<Hook>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = Arc::clone(&self.0);
            if !std::thread::panicking() {
                std::panic::set_hook(Box::new(move |info| before(info)));
            }
        }
    }
    let before: Arc<Hook> = Arc::new(std::panic::take_hook());
    let loud = Arc::clone(&before);
    std::panic::set_hook(Box::new(move |info| {
        if started.load(Ordering::Relaxed) {
            loud(info);
        }
    }));
    Restore(before)
}

/// Libraries that are opened at run time, as they appear in messages, with the Debian package that holds them.
const PACKAGES: [(&str, &str); 8] = [
    ("xkbcommon-x11", "libxkbcommon-x11-0"),
    ("xkbcommon", "libxkbcommon0"),
    ("libXcursor", "libxcursor1"),
    ("libXi.", "libxi6"),
    ("libX11-xcb", "libx11-xcb1"),
    ("libXrandr", "libxrandr2"),
    ("libX11", "libx11-6"),
    ("libwayland", "libwayland-client0"),
];

fn explained(failures: &[String]) -> UiError {
    let all = failures.join(" | ");
    if let Some((library, package)) = PACKAGES.iter().find(|(library, _)| all.contains(library)) {
        let library = library.trim_end_matches('.');
        return UiError::NoWindow(format!(
            "The window cannot open: the system library {library} is missing. Install it: apt-get install {package}"
        ));
    }
    if all.contains("neither WAYLAND_DISPLAY") || all.contains("WAYLAND_SOCKET") {
        return UiError::NoDisplay(NO_DISPLAY.to_owned());
    }
    if all.contains("XOpenDisplay") || all.contains("NoCompositor") || all.contains("ConnectionError") {
        let display = std::env::var("DISPLAY").unwrap_or_default();
        return UiError::NoDisplay(format!("There is no display: the one named by DISPLAY ({display}) cannot be reached."));
    }
    UiError::NoWindow(format!(
        "The window cannot open: neither Vulkan nor OpenGL could be used. Install a driver: apt-get install mesa-vulkan-drivers, \
         or libegl1 libgl1-mesa-dri. The system said: {all}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let no_display = |text: &str| UiError::NoDisplay(text.to_owned());
        let neither = "winit EventLoopError: os error: neither WAYLAND_DISPLAY nor WAYLAND_SOCKET nor DISPLAY is set.";
        assert_eq!(explained(&[neither.into()]), no_display("There is no display: neither WAYLAND_DISPLAY nor DISPLAY is set."));
        for (said, part) in [
            (
                "XNotSupported(LibraryOpenError(OpenError { kind: Library, detail: \"opening library failed (libXcursor.so.1: cannot\"",
                "apt-get install libxcursor1",
            ),
            ("Library libxkbcommon-x11.so could not be loaded.", "apt-get install libxkbcommon-x11-0"),
            ("libXi.so.6: cannot open shared object file", "apt-get install libxi6"),
            ("CreateSurfaceError(FailedToCreateSurfaceForAnyBackend)", "mesa-vulkan-drivers"),
        ] {
            match explained(&["first".into(), said.into()]) {
                UiError::NoWindow(text) => assert!(text.contains(part), "{text}"),
                other => panic!("{said}: {other:?}"),
            }
        }
    }
}
