//! The frame around the views: menus, tabs, banner, tiles, scrubber, jobs, what lies on top.

use crate::chart::Theme;
use crate::session::capturing::CaptureDeed;
use crate::session::what_if::WhatIfDeed;
use crate::session::{Command, DocumentId, Session};
use crate::ui::keys::{self, KeyDeed, Magnify};
use crate::ui::panels::capture::CapturePage;
use crate::ui::panels::export::{Export, ExportDialog};
use crate::ui::panels::find::FindBar;
use crate::ui::panels::help::{Help, HelpPage};
use crate::ui::panels::live::LiveDeed;
use crate::ui::panels::palette::{CommandPalette, Deed};
use crate::ui::panels::ranks::RanksPage;
use crate::ui::panels::report_dialog::ReportDialog;
use crate::ui::panels::save_picture::SavePicture;
use crate::ui::panels::welcome::Welcome;
use crate::ui::panels::{banner, documents, jobs, live, scrubber};
use crate::ui::theme;
use crate::ui::theme::{Tokens, UNIT};
use crate::ui::tiles::Layout;
use crate::ui::views::{Cx, VIEWS, class_of, is_shown};
use crate::ui::widgets::icon::{Icon, icon_button};
use crate::ui::widgets::legend;
use egui::{Align, Button, CentralPanel, Frame, Margin, MenuBar, Panel, RichText, Ui};

/// State of the window that is nobody else's business.
pub struct Shell {
    layout: Layout,
    /// The document whose arrangement the tiles have.
    laid_out_for: Option<DocumentId>,
    /// The arrangement the tiles were given last, by the user or from what is remembered.
    arrangement: String,
    dressed: Option<Theme>,
    welcome: Welcome,
    palette: CommandPalette,
    export: ExportDialog,
    report: ReportDialog,
    save_picture: SavePicture,
    help: Help,
    find: FindBar,
    banner_open: bool,
    /// A new tab: the start page over open documents.
    starting: bool,
    /// The page of captures, while it is shown.
    capture: CapturePage,
    capturing: bool,
    left_captures: u64,
    /// The page of ranks over open documents.
    ranks_in_front: bool,
    ranks: RanksPage,
    /// The number of the last set of ranks that was opened, and of the last comparison that was shown.
    shown_ranks: u64,
    shown_comparison: u64,
    shown_documents: usize,
    /// The number of the last set that was asked to be shown in a view.
    shown_set: u64,
    playing: Option<f64>,
    title: String,
}

impl Shell {
    /// A shell with the saved arrangement.
    pub fn new(saved_layout: &str) -> Shell {
        Shell {
            layout: Layout::of_saved(saved_layout),
            laid_out_for: None,
            arrangement: saved_layout.to_owned(),
            dressed: None,
            welcome: Welcome::default(),
            palette: CommandPalette::default(),
            export: ExportDialog::default(),
            report: ReportDialog::default(),
            save_picture: SavePicture::default(),
            help: Help::default(),
            find: FindBar::default(),
            banner_open: false,
            starting: false,
            capture: CapturePage::default(),
            capturing: false,
            left_captures: 0,
            ranks_in_front: false,
            ranks: RanksPage::default(),
            shown_ranks: 0,
            shown_comparison: 0,
            shown_documents: 0,
            shown_set: 0,
            playing: None,
            title: String::new(),
        }
    }
    /// One frame.
    pub fn show(&mut self, ui: &mut Ui, session: &Session) {
        if self.dressed != Some(session.theme()) {
            theme::apply(ui.ctx(), session.theme());
            self.dressed = Some(session.theme());
            // The frame that is being built still has the old style.
            ui.ctx().request_repaint();
            let style = ui.ctx().global_style();
            ui.set_style(style);
        }
        let tokens = Tokens::of(session.theme());
        let cx = Cx { session, tokens: &tokens };
        // A file that arrives ends the start page.
        if self.shown_documents < session.documents().len() || self.left_captures < session.left_captures() {
            self.uncover();
        }
        match session.ranks() {
            Some(ranks) if self.shown_ranks < ranks.number => {
                self.show_ranks();
                self.shown_ranks = ranks.number;
            }
            Some(_) => {}
            None => self.ranks_in_front = false,
        }
        self.left_captures = session.left_captures();
        self.shown_documents = session.documents().len();
        self.lay_out(session);
        // What lies on top has the keys: Esc closes it and does nothing else.
        let covered = self.palette.is_open()
            || self.export.is_open()
            || self.report.is_open()
            || self.save_picture.is_open()
            || self.help.is_open()
            || self.capture.is_asking()
            || ui.ctx().memory(|memory| memory.top_modal_layer().is_some());
        if !covered {
            self.find.read_escape(ui.ctx(), &cx);
        }
        match if covered { None } else { keys::handle(ui.ctx(), &cx) } {
            Some(KeyDeed::Palette) => self.palette.open(),
            Some(KeyDeed::Find) => self.find.open(),
            Some(KeyDeed::Deed(deed)) => self.act(ui, &cx, deed),
            Some(KeyDeed::Play) => self.playing = if self.playing.is_some() { None } else { Some(f64::from(cx.cursor().0)) },
            None => {}
        }
        self.play(ui, &cx);
        if let Some(view) = cx.take_wanted_view(ui.ctx()) {
            self.layout.show_view(view);
        }
        if let Some((number, view)) = session.shown_set().filter(|(number, _)| self.shown_set < *number) {
            self.shown_set = number;
            self.layout.show_view(view);
        }
        let arrived = session.wanted_comparison().filter(|wanted| session.workspace().active == Some(wanted.front));
        if let Some(wanted) = arrived.filter(|wanted| self.shown_comparison < wanted.number) {
            self.shown_comparison = wanted.number;
            self.layout.show_view("compare");
        }
        let bar = Frame::new().fill(tokens.panel).inner_margin(Margin::symmetric(2 * UNIT as i8, UNIT as i8));
        Panel::top("menu").frame(bar).show(ui, |ui| self.menu_bar(ui, &cx));
        let starting = self.starting || self.capturing || self.ranks_in_front || session.active().is_none();
        if !starting && self.find.is_open(&cx) {
            Panel::top("find").frame(bar).show(ui, |ui| self.find.show(ui, &cx));
        }
        if !starting && banner::is_needed(&cx) {
            Panel::top("coverage").frame(bar).show(ui, |ui| banner::show(ui, &cx, &mut self.banner_open));
        }
        let running = jobs::visible(ui, &cx);
        if !running.is_empty() || !session.notes().is_empty() {
            Panel::bottom("jobs").frame(bar).show(ui, |ui| jobs::show(ui, &cx, &running));
        }
        if live::is_needed(&cx) {
            match Panel::bottom("live").frame(bar).show(ui, |ui| live::show(ui, &cx)).inner {
                Some(LiveDeed::Page) => self.show_captures(),
                Some(LiveDeed::SaveLog(log)) => self.capture.save_log(log, &cx),
                None => {}
            }
        }
        if !starting {
            Panel::bottom("scrubber").frame(bar).show(ui, |ui| scrubber::show(ui, &cx));
        }
        CentralPanel::default().frame(Frame::new().fill(tokens.line)).show(ui, |ui| {
            if starting {
                ui.painter().rect_filled(ui.max_rect(), 0.0, tokens.panel);
                if self.capturing {
                    self.capturing = !self.capture.show(ui, &cx);
                } else if self.ranks_in_front {
                    // What is open already does not arrive: the page goes at once.
                    self.ranks_in_front = !self.ranks.show(ui, &cx);
                } else if self.welcome.show(ui, &cx) {
                    self.show_captures();
                }
            } else if self.layout.show(ui, &cx) {
                self.keep_layout(&cx, self.layout.to_saved());
            }
        });
        if let Some(deed) = self.palette.show(ui, &cx) {
            self.act(ui, &cx, deed);
        }
        if let Some(id) = self.layout.take_wanted_picture() {
            self.ask_picture(&cx, id);
        }
        match self.export.show(ui, &cx) {
            Some((Export::Categories, path)) => cx.send(Command::LoadCategories(path)),
            // Tables ask by themselves.
            Some((Export::Table(_) | Export::Recording, _)) | None => {}
        }
        if let Some(command) = self.report.show(ui, &cx) {
            cx.send(command);
        }
        self.save_picture.show(ui, &cx, |class| self.layout.twin(class));
        self.help.show(ui, &cx);
        self.capture.ask(ui, &cx);
        self.keep_zoom(ui, &cx);
        self.drop_hint(ui, &cx);
        self.name_window(ui, session);
    }

    fn menu_bar(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        MenuBar::new().ui(ui, |ui| {
            self.file_menu(ui, cx);
            self.view_menu(ui, cx);
            self.capture_menu(ui, cx);
            self.what_if_menu(ui, cx);
            self.help_menu(ui, cx);
            ui.add_space(2.0 * UNIT);
            ui.separator();
            if documents::ranks_tab(ui, cx, self.ranks_in_front && !self.capturing) {
                self.show_ranks();
            }
            if documents::tabs(ui, cx, self.ranks_in_front || self.capturing) {
                self.uncover();
            }
            if !cx.session.documents().is_empty() {
                let plus = icon_button(ui, Icon::Plus, "Open another file", false).on_hover_text("Open another file");
                if plus.clicked() {
                    let starting = !self.starting || self.capturing || self.ranks_in_front;
                    self.uncover();
                    self.starting = starting;
                }
            }
            ui.with_layout(egui::Layout::right_to_left(Align::Center), |ui| {
                let (other, help) = match cx.session.theme() {
                    Theme::Light => (Theme::Dark, "Dark theme"),
                    Theme::Dark => (Theme::Light, "Light theme"),
                };
                let toggle = icon_button(ui, Icon::Theme, help, true).on_hover_text(help);
                if toggle.clicked() {
                    cx.send(Command::SetTheme(other));
                }
                if cx.session.active().is_some() {
                    if icon_button(ui, Icon::Find, "Find in all views", true)
                        .on_hover_text("Find in all views (Ctrl+F)")
                        .clicked()
                    {
                        self.find.toggle(cx);
                    }
                    legend::chooser(ui, cx);
                }
                documents::device_picker(ui, cx);
            });
        });
    }

    fn file_menu(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.menu_button("File", |ui| {
            if item(ui, cx, "Open…", "Ctrl+O") {
                cx.send(Command::OpenDialog);
            }
            if item(ui, cx, "Open folder…", "") {
                cx.send(Command::OpenFolderDialog);
            }
            if item(ui, cx, "Record a job…", "Ctrl+R") {
                self.show_captures();
            }
            if item(ui, cx, "Start page", "") {
                self.uncover();
                self.starting = true;
            }
            let recent = &cx.session.saved().recent;
            if !recent.is_empty() {
                ui.menu_button("Recent files", |ui| {
                    for path in recent {
                        let text = path.display().to_string();
                        if ui.button(crate::chart::text::short_path(&text, 70)).clicked() {
                            cx.send(Command::Open(path.clone()));
                            ui.close();
                        }
                    }
                });
            }
            ui.separator();
            let open = cx.session.workspace().active;
            ui.add_enabled_ui(open.is_some(), |ui| {
                if item(ui, cx, "Export report…", "") {
                    self.act(ui, cx, Deed::ExportReport);
                }
                if item(ui, cx, "Export recording…", "") {
                    self.act(ui, cx, Deed::ExportRecording);
                }
                if item(ui, cx, "Save a picture of this view…", "Ctrl+E") {
                    self.act(ui, cx, Deed::ExportView);
                }
                if item(ui, cx, "Close", "Ctrl+W")
                    && let Some(id) = open
                {
                    cx.send(Command::Close(id));
                }
            });
            ui.separator();
            if item(ui, cx, "Load categories…", "") {
                self.act(ui, cx, Deed::LoadCategories);
            }
            if item(ui, cx, "Use the built-in categories", "") {
                cx.send(Command::UseBuiltInCategories);
            }
            ui.separator();
            if item(ui, cx, "Forget what is remembered of files", "") {
                cx.send(Command::ForgetFiles);
            }
            if item(ui, cx, "Quit", "") {
                ui.ctx().send_viewport_cmd(egui::ViewportCommand::Close);
            }
        });
    }

    fn view_menu(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.menu_button("View", |ui| {
            for class in VIEWS.iter().filter(|class| is_shown(class, cx)) {
                let mut open = self.layout.is_open(class.id);
                if ui.checkbox(&mut open, class.title).on_hover_text(class.help).changed() {
                    if open {
                        self.layout.show_view(class.id)
                    } else {
                        self.layout.close_view(class.id)
                    }
                    self.keep_layout(cx, self.layout.to_saved());
                }
            }
            if item(ui, cx, "Reset layout", "") {
                self.act(ui, cx, Deed::ResetLayout);
            }
            ui.separator();
            let (undo, redo) = cx.session.can_undo_redo();
            for (title, keys, possible, command) in
                [("Undo", "Ctrl+Z", undo, Command::Undo), ("Redo", "Ctrl+Shift+Z", redo, Command::Redo)]
            {
                ui.add_enabled_ui(possible, |ui| {
                    if item(ui, cx, title, keys) {
                        cx.send(command);
                    }
                });
            }
            ui.separator();
            if item(ui, cx, "Find in all views…", "Ctrl+F") {
                self.find.open();
            }
            for (title, keys, command) in [
                ("Show the whole trace", "", Command::Fit),
                ("Frame the selection", "F", Command::FrameSelection),
                ("Clear the selection", "Esc", Command::ClearSelection),
                ("Set or remove a mark at the cursor", "M", Command::ToggleMark),
                ("Go to the peak", "P", Command::GoToPeak),
                ("Go to the last out of memory", "O", Command::GoToLastOom),
            ] {
                if item(ui, cx, title, keys) {
                    cx.send(command);
                }
            }
            ui.separator();
            for (title, keys, how) in [
                ("Larger", "Ctrl++", Magnify::Larger),
                ("Smaller", "Ctrl+−", Magnify::Smaller),
                ("Normal size", "Ctrl+0", Magnify::Normal),
            ] {
                if item(ui, cx, title, keys) {
                    self.act(ui, cx, Deed::Magnify(how));
                }
            }
            ui.separator();
            if item(ui, cx, "All commands…", "Ctrl+P") {
                self.palette.open();
            }
        });
    }

    fn capture_menu(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.menu_button("Capture", |ui| {
            if item(ui, cx, "Record a job…", "Ctrl+R") {
                self.show_captures();
            }
            ui.separator();
            let live = cx.session.live_in_front();
            let growing = live.filter(|live| live.is_growing());
            ui.add_enabled_ui(growing.is_some(), |ui| {
                if item(ui, cx, "Follow the recording", "L") {
                    cx.send(Command::FollowEnd);
                }
                let held = growing.is_some_and(|live| live.is_held());
                if item(ui, cx, if held { "Resume" } else { "Hold" }, "H") {
                    cx.send(Command::HoldLive(!held));
                }
                if item(ui, cx, "Snapshot now", "")
                    && let Some(live) = growing
                {
                    cx.send(Command::Capture(CaptureDeed::SnapshotNow(live.path.clone())));
                }
            });
            ui.add_enabled_ui(live.is_some(), |ui| {
                if item(ui, cx, "Save the log as…", "")
                    && let Some(live) = live
                {
                    self.capture.save_log(live.path.clone(), cx);
                }
            });
        });
    }

    /// Whatever covers the documents goes.
    fn uncover(&mut self) {
        (self.starting, self.capturing, self.ranks_in_front) = (false, false, false);
    }

    fn show_ranks(&mut self) {
        self.uncover();
        self.ranks_in_front = true;
    }

    fn show_captures(&mut self) {
        self.uncover();
        self.capturing = true;
        self.capture.enter();
    }

    fn what_if_menu(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.menu_button("What if", |ui| {
            ui.add_enabled_ui(cx.session.front().is_some(), |ui| {
                if item(ui, cx, "Other settings or another card…", "T") {
                    self.layout.show_view("what-if");
                }
                if item(ui, cx, "Try all settings", "") {
                    self.layout.show_view("what-if");
                    cx.send(Command::WhatIf(WhatIfDeed::Sweep));
                }
            });
        });
    }

    fn help_menu(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.menu_button("Help", |ui| {
            for (title, keys, page) in [("Keys and mouse", "F1", HelpPage::Keys), ("Glossary", "", HelpPage::Glossary)] {
                if item(ui, cx, title, keys) {
                    self.help.open(page);
                }
            }
        });
    }

    fn act(&mut self, ui: &Ui, cx: &Cx<'_>, deed: Deed) {
        match deed {
            Deed::Send(command) => cx.send(command),
            Deed::ShowView(id) => self.layout.show_view(id),
            Deed::ResetLayout => {
                self.layout.reset();
                self.keep_layout(cx, String::new());
            }
            Deed::Capture => self.show_captures(),
            Deed::Find => self.find.open(),
            Deed::ExportReport => self.report.open(cx),
            Deed::ExportRecording => self.export.open(Export::Recording, cx),
            Deed::LoadCategories => self.export.open(Export::Categories, cx),
            Deed::ExportView => {
                if let Some(id) = self.layout.view_at(ui.input(|input| input.pointer.hover_pos())) {
                    self.ask_picture(cx, id);
                }
            }
            Deed::Help(page) => self.help.open(page),
            Deed::Magnify(how) => match how {
                Magnify::Larger => egui::gui_zoom::zoom_in(ui.ctx()),
                Magnify::Smaller => egui::gui_zoom::zoom_out(ui.ctx()),
                Magnify::Normal => ui.ctx().set_zoom_factor(1.0),
            },
        }
    }

    fn ask_picture(&mut self, cx: &Cx<'_>, id: &str) {
        if let (Some(class), Some(rect), true) = (class_of(id), self.layout.rect_of(id), cx.session.front().is_some()) {
            self.save_picture.open(class, rect.size(), cx);
        }
    }

    /// Another file in front has its own arrangement, if the user gave it one.
    fn lay_out(&mut self, session: &Session) {
        let active = session.workspace().active;
        if self.laid_out_for == active {
            return;
        }
        self.laid_out_for = active;
        if active.is_some() && self.arrangement != session.layout() {
            session.layout().clone_into(&mut self.arrangement);
            self.layout.arrange(session.layout());
        }
    }

    fn keep_layout(&mut self, cx: &Cx<'_>, layout: String) {
        self.arrangement.clone_from(&layout);
        cx.send(Command::KeepLayout(layout));
    }

    fn keep_zoom(&self, ui: &Ui, cx: &Cx<'_>) {
        let zoom = ui.ctx().zoom_factor();
        if 0.001 < (zoom - cx.session.saved().zoom).abs() {
            cx.send(Command::KeepZoom(zoom));
        }
    }

    /// Space: the cursor runs through the window in ten seconds.
    fn play(&mut self, ui: &Ui, cx: &Cx<'_>) {
        let (Some(at), Some(clock), Some((_, _, memory))) = (self.playing, cx.session.clock(), cx.session.front()) else {
            self.playing = None;
            return;
        };
        let window = cx.session.window(&clock.clock);
        let (first, last) = (clock.clock.position(window.start), clock.clock.position(window.end).min(memory.end()));
        let length = f64::from(last.0.saturating_sub(first.0));
        // A cursor that somebody else moved since ends the play.
        let moved = 1.0 < (at - f64::from(cx.cursor().0)).abs();
        let step = length * f64::from(ui.input(|input| input.stable_dt)).min(0.1) / 10.0;
        let next = if f64::from(last.0) <= at { f64::from(first.0) } else { at + step };
        if moved || f64::from(last.0) <= next || length <= 0.0 {
            self.playing = None;
            return;
        }
        self.playing = Some(next);
        cx.send(Command::MoveCursor(crate::model::Position(next as u32)));
        ui.ctx().request_repaint();
    }

    fn drop_hint(&self, ui: &Ui, cx: &Cx<'_>) {
        if ui.input(|input| input.raw.hovered_files.is_empty()) {
            return;
        }
        let painter = ui.ctx().layer_painter(egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("drop")));
        let rect = ui.ctx().content_rect();
        painter.rect_filled(rect, 0.0, cx.tokens.panel.gamma_multiply(0.9));
        let font = egui::TextStyle::Heading.resolve(ui.style());
        painter.text(rect.center(), egui::Align2::CENTER_CENTER, "Drop to open", font, cx.tokens.text);
    }

    fn name_window(&mut self, ui: &Ui, session: &Session) {
        let title = session.active().map_or("Fragscope".to_owned(), |document| format!("{} – Fragscope", document.title));
        if title != self.title {
            ui.ctx().send_viewport_cmd(egui::ViewportCommand::Title(title.clone()));
            self.title = title;
        }
    }
}

/// A line of a menu; closes the menu when clicked.
fn item(ui: &mut Ui, cx: &Cx<'_>, title: &str, keys: &str) -> bool {
    let clicked = ui.add(Button::new(title).shortcut_text(RichText::new(keys).color(cx.tokens.weak))).clicked();
    if clicked {
        ui.close();
    }
    clicked
}
