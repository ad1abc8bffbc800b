//! The window's program: ticks the session, then shows the shell. Everything else is in those two.

use crate::session::{Command, Dialogs, Session};
use crate::ui::shell::Shell;
use std::path::PathBuf;
use std::sync::Arc;

/// The application.
pub struct App {
    /// All shared state.
    pub session: Session,
    shell: Shell,
}

impl App {
    /// An application over a session; `files` are opened at once.
    pub fn new(context: &egui::Context, mut session: Session, files: Vec<PathBuf>) -> App {
        let waking = context.clone();
        session.set_waker(Arc::new(move || waking.request_repaint()));
        session.set_dialogs(Arc::new(SystemDialogs));
        context.set_zoom_factor(session.saved().zoom());
        // The window's own keys do that, so that their page can list it.
        context.options_mut(|options| options.zoom_with_keyboard = false);
        if crate::session::rank_files::MANY_FILES < files.len() {
            session.apply(Command::OpenAll(files));
        } else {
            for file in files {
                session.apply(Command::Open(file));
            }
        }
        let shell = Shell::new(&session.saved().layout);
        App { session, shell }
    }
}

impl eframe::App for App {
    fn logic(&mut self, context: &egui::Context, _frame: &mut eframe::Frame) {
        let (now, dropped) = context.input(|input| (input.time, input.raw.dropped_files.clone()));
        let mut paths = Vec::new();
        for file in dropped {
            let path = file.path().to_owned();
            if path.is_file() || path.is_absolute() {
                paths.push(path);
            } else if let Ok(bytes) = file.bytes() {
                self.session.send(Command::OpenBytes { name: path.display().to_string(), bytes: bytes.into() });
            }
        }
        if !paths.is_empty() {
            self.session.send(Command::OpenAll(paths));
        }
        let tick = self.session.tick(now);
        if let Some(seconds) = tick.again_after_s {
            context.request_repaint_after(std::time::Duration::from_secs_f64(seconds));
        }
    }
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        let began = std::time::Instant::now();
        self.shell.show(ui, &self.session);
        crate::ui::frame_times::note("whole frame", began.elapsed());
    }
    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.session.leave();
        for capture in self.session.captures().iter().filter(|capture| capture.over.is_none() && capture.output.is_some()) {
            let process = capture.process.map_or(String::new(), |process| format!(" (process {process})"));
            eprintln!("{}{process} goes on and is recorded into {}", capture.command, capture.out.display());
        }
    }
    fn clear_color(&self, _visuals: &egui::Visuals) -> [f32; 4] {
        let tokens = crate::ui::theme::Tokens::of(self.session.theme());
        tokens.panel.to_normalized_gamma_f32()
    }
}

struct SystemDialogs;

impl Dialogs for SystemDialogs {
    fn pick_files(&self) -> Vec<PathBuf> {
        rfd::FileDialog::new().set_title("Open a memory snapshot").pick_files().unwrap_or_default()
    }
    fn pick_folder(&self) -> Option<PathBuf> {
        rfd::FileDialog::new().set_title("Open a folder of snapshots").pick_folder()
    }
    fn pick_target(&self, name: &str) -> Option<PathBuf> {
        rfd::FileDialog::new().set_title("Save").set_file_name(name).save_file()
    }
}
