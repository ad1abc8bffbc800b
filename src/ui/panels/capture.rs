//! The page of captures: what can be recorded here, the form of a job, the jobs that were started, and what they say.

use crate::capture::Stacks;
use crate::chart::text::{file_name, short_path};
use crate::session::capture_form::CaptureForm;
use crate::session::capturing::{Capture, CaptureDeed, Way};
use crate::session::{Command, Saved};
use crate::ui::panels::export::TargetField;
use crate::ui::panels::live;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, icon, icon_button};
use egui::{ComboBox, Grid, Key, Label, Modal, RichText, ScrollArea, TextEdit, Ui, vec2};
use std::path::PathBuf;

/// Choices of the longest time between two looks at a job, in ms.
const INTERVALS_MS: [u32; 6] = [20, 50, 100, 500, 1000, 5000];
/// Choices of the entries of the allocator's own history.
const ENTRIES: [u32; 6] = [5_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];
/// Height of what is shown of a job's output, in points.
const OUTPUT_PT: f32 = 40.0 * UNIT;

/// The page.
#[derive(Default)]
pub struct CapturePage {
    form: Option<CaptureForm>,
    /// A process to attach to, as it is typed.
    process: String,
    saving: Option<(PathBuf, TargetField)>,
    looked: bool,
    /// Shown just now: the command takes the keys.
    fresh: bool,
}

impl CapturePage {
    /// Whether a question lies on top: it then has the keys.
    pub fn is_asking(&self) -> bool {
        self.saving.is_some()
    }
    /// The page is about to be shown: what this machine can do is looked up anew.
    pub fn enter(&mut self) {
        (self.looked, self.fresh) = (false, true);
    }
    /// Asks where to copy a log.
    pub fn save_log(&mut self, log: PathBuf, cx: &Cx<'_>) {
        let name = file_name(&log.display().to_string()).trim_end_matches(".fsl").to_owned();
        let suggestion = log.with_file_name(format!("{name}-copy.fsl"));
        let field = TargetField::at(suggestion.display().to_string(), cx);
        self.saving = Some((log, field));
    }
    /// Shows the question where to copy a log, while it is open.
    pub fn ask(&mut self, ui: &Ui, cx: &Cx<'_>) {
        let Some((log, field)) = &mut self.saving else { return };
        let (mut save, mut cancel) = (false, false);
        let modal = Modal::new(egui::Id::unique("save log")).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width(120.0 * UNIT);
            save = field.show(ui, cx, "Save the log as");
            ui.weak("A log that still grows is copied as far as it is now.");
            ui.horizontal(|ui| {
                save |= ui.button("Save").clicked();
                field.choose_button(ui, cx);
                cancel = ui.button("Cancel").clicked();
            });
        });
        if save && let Some(to) = field.path() {
            cx.send(Command::Capture(CaptureDeed::SaveLog(log.clone(), to)));
            cancel = true;
        }
        if cancel || modal.should_close() {
            self.saving = None;
        }
    }
    /// Shows the page; whether it was left.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        if !std::mem::replace(&mut self.looked, true) {
            cx.send(Command::Capture(CaptureDeed::LookAround));
        }
        let mut leave = false;
        ScrollArea::vertical().id_salt("captures").auto_shrink(false).show(ui, |ui| {
            let room = ui.available_width();
            let width = (320.0 * UNIT).min(room - 8.0 * UNIT);
            ui.add_space(6.0 * UNIT);
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing.x = 0.0;
                ui.add_space(((room - width) / 2.0).max(0.0));
                let two = 200.0 * UNIT < width;
                let left = if two { width * 0.6 - 4.0 * UNIT } else { width };
                ui.vertical(|ui| {
                    ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                    ui.set_width(left);
                    ui.horizontal(|ui| {
                        ui.heading("Record a job");
                        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                            leave =
                                icon_button(ui, Icon::Close, "Leave this page", false).on_hover_text("Leave this page").clicked();
                        });
                    });
                    self.form(ui, cx);
                    jobs(ui, cx, &mut self.saving);
                    if !two {
                        ui.add_space(4.0 * UNIT);
                        self.around(ui, cx);
                    }
                });
                if two {
                    ui.add_space(8.0 * UNIT);
                    ui.vertical(|ui| {
                        ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
                        ui.set_width(width * 0.4 - 4.0 * UNIT);
                        self.around(ui, cx);
                    });
                }
            });
            ui.add_space(6.0 * UNIT);
        });
        leave
    }

    fn form(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let saved = cx.session.saved();
        let form = self.form.get_or_insert_with(|| first_form(saved));
        let weak = |text: &str| RichText::new(text.to_owned()).color(cx.tokens.weak);
        ui.label(weak("The job runs unchanged; every allocation goes into a log that opens here as it grows."));
        ui.add_space(2.0 * UNIT);
        let mut start = false;
        let field_pt = (ui.available_width() - 40.0 * UNIT).clamp(40.0 * UNIT, 140.0 * UNIT);
        Grid::new("capture form").num_columns(2).spacing(vec2(3.0 * UNIT, 1.5 * UNIT)).show(ui, |ui| {
            ways(ui, cx, form, field_pt);
            let label = ui.label("Command");
            ui.horizontal(|ui| {
                let recent = &saved.captures;
                let width = field_pt - if recent.is_empty() { 0.0 } else { 16.5 * UNIT };
                let field = TextEdit::singleline(&mut form.command).hint_text(weak("python train.py --batch 8"));
                let field = ui.add(field.font(egui::TextStyle::Monospace).desired_width(width)).labelled_by(label.id);
                if std::mem::take(&mut self.fresh) {
                    field.request_focus();
                }
                start |= field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
                if !recent.is_empty() {
                    ui.menu_button("Recent", |ui| {
                        for other in recent {
                            let full = format!("{}\n{}", other.command, other.folder);
                            if ui.button(short(&other.command, 60)).on_hover_text(full).clicked() {
                                form.clone_from(other);
                                ui.close();
                            }
                        }
                    })
                    .response
                    .on_hover_text("What was recorded lately, with all that was filled in");
                }
            });
            ui.end_row();
            let here = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
            line(ui, "Working directory", &mut form.folder, weak(&short_path(&here, 60)), "Where the job runs", field_pt);
            let help = "Variables for the job besides those of this program, as NAME=value with spaces between";
            line(ui, "Environment", &mut form.environment, weak("CUDA_VISIBLE_DEVICES=0"), help, field_pt);
            let help = "Added to the job's PYTORCH_CUDA_ALLOC_CONF";
            line(ui, "Allocator settings", &mut form.settings, weak("as the job has them"), help, field_pt);
            ui.label("Stacks").on_hover_text("The stack of every allocation. Those of C++ cost much.");
            ui.horizontal(|ui| {
                for (stacks, words) in [(Stacks::Python, "Python"), (Stacks::All, "Python and C++"), (Stacks::None, "none")] {
                    if ui.selectable_label(form.stacks() == stacks, words).clicked() {
                        stacks.name().clone_into(&mut form.stacks);
                    }
                }
            });
            ui.end_row();
            ring(ui, form);
            let help = "Where the log goes. Ranks write theirs beside it: run.rank0.fsl … Beside it lies the job's output too.";
            line(ui, "Log", &mut form.out, weak("the first free capture-1.fsl in the working directory"), help, field_pt);
        });
        ui.add_space(2.0 * UNIT);
        ui.horizontal(|ui| {
            start |= ui.button(RichText::new("Record").strong()).on_hover_text("Starts the job (Enter in the command)").clicked();
            ui.label(weak("Closing this window leaves jobs running; their logs are kept."));
        });
        if start {
            cx.send(Command::Capture(CaptureDeed::Start(Box::new(form.clone()))));
        }
        if let Some(why) = cx.session.capture_refused() {
            ui.add_space(UNIT);
            ui.add(Label::new(RichText::new(why).color(cx.tokens.error)).wrap());
        }
    }

    /// What this machine can do, and what runs on it.
    fn around(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let weak = |text: String| Label::new(RichText::new(text).color(cx.tokens.weak)).wrap();
        ui.heading("What can be recorded here");
        let Some(around) = cx.session.around() else {
            ui.weak("looking …");
            return;
        };
        for Way { name, about, unavailable } in &around.ways {
            ui.add_space(UNIT);
            ui.horizontal(|ui| {
                let (sign, colour) =
                    if unavailable.is_none() { (Icon::Done, cx.tokens.accent) } else { (Icon::Close, cx.tokens.weak) };
                icon(ui, sign, colour);
                ui.strong(*name);
            });
            ui.indent(name, |ui| {
                ui.add(weak(format!("{about}.")));
                if let Some(why) = unavailable {
                    ui.add(Label::new(why).wrap());
                }
            });
        }
        ui.add_space(4.0 * UNIT);
        ui.horizontal(|ui| {
            ui.strong("Programs that use CUDA now");
            if ui.small_button("Look again").clicked() {
                cx.send(Command::Capture(CaptureDeed::LookAround));
            }
        });
        match &around.processes {
            Err(why) => drop(ui.add(weak(why.clone()))),
            Ok(found) if found.is_empty() => {
                ui.add(weak("None of yours: no process that you may look into has loaded the CUDA driver.".to_owned()));
            }
            Ok(found) => {
                for process in found {
                    ui.horizontal(|ui| {
                        let can = process.is_python();
                        let button = ui.add_enabled(can, egui::Button::new("Record"));
                        let button = button.on_hover_text("Hands the recorder to it: Python 3.14 and later");
                        if button.on_disabled_hover_text("Only programs of Python can be attached to").clicked() {
                            self.attach(cx, process.process);
                        }
                        ui.label(process.process.to_string());
                        ui.add(Label::new(RichText::new(&process.command).color(cx.tokens.weak)).truncate());
                    });
                }
            }
        }
        ui.add_space(2.0 * UNIT);
        ui.horizontal(|ui| {
            let label = ui.label("Record process");
            let field = TextEdit::singleline(&mut self.process).hint_text("number").desired_width(20.0 * UNIT);
            ui.add(field).labelled_by(label.id);
            let number = self.process.trim().parse::<u32>().ok().filter(|number| 0 < *number);
            let button = ui.add_enabled(number.is_some(), egui::Button::new("Attach"));
            let help = "A program of Python 3.14 or later that runs already; stacks, ring and log are those of the form";
            if let (true, Some(number)) = (button.on_hover_text(help).clicked(), number) {
                self.attach(cx, number);
            }
        });
    }

    fn attach(&self, cx: &Cx<'_>, process: u32) {
        let form = self.form.clone().unwrap_or_default();
        cx.send(Command::Capture(CaptureDeed::Attach(process, Box::new(form))));
    }
}

/// The way to capture, where there is a choice.
fn ways(ui: &mut Ui, cx: &Cx<'_>, form: &mut CaptureForm, width: f32) {
    let ways = cx.session.around().map(|around| around.ways.as_slice()).unwrap_or_default();
    let choices: Vec<&Way> = ways.iter().filter(|way| way.starts_jobs()).collect();
    if choices.len() < 2 {
        return;
    }
    if form.source.is_empty()
        && let Some(first) = choices.iter().find(|way| way.unavailable.is_none()).or(choices.first())
    {
        first.name.clone_into(&mut form.source);
    }
    let label = ui.label("By way of");
    let combo = ComboBox::from_id_salt("capture source").width(width).selected_text(form.source.clone()).show_ui(ui, |ui| {
        for way in choices {
            if ui.selectable_label(way.name == form.source, way.name).on_hover_text(way.about).clicked() {
                way.name.clone_into(&mut form.source);
            }
        }
    });
    combo.response.labelled_by(label.id);
    ui.end_row();
}

fn ring(ui: &mut Ui, form: &mut CaptureForm) {
    let help = "Only where the allocator's ring is fetched: the longest time between two looks at the job, and how many entries \
                the ring has. Longer rings lose nothing under heavier loads, and each look at them takes longer.";
    ui.label("Ring").on_hover_text(help);
    ui.horizontal(|ui| {
        let words = |value: Option<u32>, unit: &str, default: &str| {
            value.map_or(default.to_owned(), |value| format!("{} {unit}", crate::base::grouped(u64::from(value))))
        };
        for (name, value, choices, unit, default) in [
            ("Interval", &mut form.interval_ms, INTERVALS_MS, "ms", "interval as it fits"),
            ("Entries", &mut form.max_entries, ENTRIES, "entries", "entries as they fit"),
        ] {
            let combo = ComboBox::from_id_salt(name).width(34.0 * UNIT).selected_text(words(*value, unit, default));
            let shown = combo.show_ui(ui, |ui| {
                ui.selectable_value(value, None, default);
                for choice in choices {
                    ui.selectable_value(value, Some(choice), words(Some(choice), unit, default));
                }
            });
            shown.response.on_hover_text(help);
        }
        ui.checkbox(&mut form.only_ring, "ring only")
            .on_hover_text("Fetch the allocator's ring only: slower, and asks nothing of PyTorch's inside");
    });
    ui.end_row();
}

fn line(ui: &mut Ui, name: &str, value: &mut String, hint: RichText, help: &str, width: f32) {
    let label = ui.label(name).on_hover_text(help);
    ui.add(TextEdit::singleline(value).hint_text(hint).desired_width(width)).labelled_by(label.id).on_hover_text(help);
    ui.end_row();
}

/// The jobs that were started from this window, the newest first.
fn jobs(ui: &mut Ui, cx: &Cx<'_>, saving: &mut Option<(PathBuf, TargetField)>) {
    for capture in cx.session.captures().iter().rev() {
        ui.add_space(4.0 * UNIT);
        ui.separator();
        ui.push_id(capture.id.0, |ui| job(ui, cx, capture, saving));
    }
}

fn job(ui: &mut Ui, cx: &Cx<'_>, capture: &Capture, saving: &mut Option<(PathBuf, TargetField)>) {
    let weak = |text: String| RichText::new(text).color(cx.tokens.weak);
    ui.horizontal(|ui| {
        let colour = match &capture.over {
            None => cx.tokens.error,
            Some(end) if end.is_bad => cx.tokens.caution,
            Some(_) => cx.tokens.weak,
        };
        icon(ui, Icon::Record, colour);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            if capture.over.is_some() {
                if icon_button(ui, Icon::Close, "Take off the list", false).on_hover_text("Takes it off this list").clicked() {
                    cx.send(Command::Capture(CaptureDeed::Forget(capture.id)));
                }
            } else {
                live::stop_button(ui, cx, capture);
            }
            if let Some(log) = capture.logs.first() {
                if ui.button("Save log as…").clicked() {
                    let name = log.with_extension("copy.fsl");
                    *saving = Some((log.clone(), TargetField::at(name.display().to_string(), cx)));
                }
                if capture.over.is_none() && ui.button("Snapshot now").clicked() {
                    cx.send(Command::Capture(CaptureDeed::SnapshotNow(log.clone())));
                }
            }
            ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                ui.add(Label::new(RichText::new(&capture.command).monospace()).truncate());
            });
        });
    });
    match &capture.over {
        None => drop(ui.label(weak(live::state_of(capture)))),
        Some(end) => {
            let colour = if end.is_bad { cx.tokens.caution } else { cx.tokens.text };
            ui.add(Label::new(RichText::new(&end.sentence).color(colour)).wrap());
        }
    }
    for log in &capture.logs {
        let path = log.display().to_string();
        if ui.link(short_path(&path, 80)).on_hover_text("Opens this log").clicked() {
            let open = cx.session.documents().iter().find(|document| document.path.as_ref() == Some(log));
            cx.send(open.map_or_else(|| Command::Open(log.clone()), |document| Command::Activate(document.id)));
            cx.send(Command::LeaveCaptures);
        }
    }
    if let Some(output) = &capture.output {
        if capture.said.trim().is_empty() {
            ui.label(weak("It has printed nothing yet.".to_owned())).on_hover_text(output.display().to_string());
        } else {
            ui.label(weak(format!("What it prints ({}):", file_name(&output.display().to_string()))));
            egui::Frame::new().fill(cx.tokens.paper).inner_margin(2.0 * UNIT).show(ui, |ui| {
                let area = ScrollArea::both().id_salt("output").max_height(OUTPUT_PT).auto_shrink([false, true]);
                area.stick_to_bottom(true).show(ui, |ui| {
                    ui.add(Label::new(RichText::new(&capture.said).monospace()).extend());
                });
            });
        }
    }
}

fn first_form(saved: &Saved) -> CaptureForm {
    saved.captures.first().cloned().unwrap_or_default()
}

fn short(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit { text.to_owned() } else { text.chars().take(limit - 1).chain(['…']).collect() }
}
