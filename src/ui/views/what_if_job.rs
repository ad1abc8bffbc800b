//! The job itself in the form of what if: batch, length, what is held between the passes, and blocks that a search finds.
//!
//! Always: it is folded away until something in it is filled in, and folded it still names what is.

use crate::analysis::FIND_HELP;
use crate::report::what_if_job::{BlockDeed, BlockWords, JobWords};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, fold_line, icon_button};
use egui::{ComboBox, Grid, Id, RichText, TextEdit, Ui, vec2};

/// Factors that are offered.
const FACTORS: [&str; 5] = ["0.5", "2", "4", "8", "16"];
/// Numbers of parts that are offered.
const PARTS: [&str; 4] = ["2", "4", "8", "16"];
/// Width of a field that holds a number, in points.
const NUMBER_PT: f32 = 22.0 * UNIT;
/// Width of a choice beside it, in points.
const CHOICE_PT: f32 = 18.0 * UNIT;
/// Width of a field on a line of its own, in points.
const FIELD_PT: f32 = 46.0 * UNIT;

/// A field with its choices.
struct Number {
    label: &'static str,
    choices_name: &'static str,
    help: &'static str,
    /// What stands in front of a number that is offered.
    sign: &'static str,
    choices: &'static [&'static str],
}

const BATCH: Number = Number {
    label: "Batch",
    choices_name: "factors of the batch",
    help: "So many times the batch. What grows with it is told by the steps of the recording; where all have one shape, \
           activations, inputs and temporaries are taken to grow.",
    sign: "×",
    choices: &FACTORS,
};
const LENGTH: Number = Number {
    label: "Sequence length",
    choices_name: "factors of the length",
    help: "Sequences so many times as long. Some blocks grow with the length, some with its square.",
    sign: "×",
    choices: &FACTORS,
};
const ACCUMULATE: Number = Number {
    label: "Accumulate over",
    choices_name: "numbers of parts",
    help: "The batch in so many parts, one after the other, with their gradients added up and one step of the optimizer.",
    sign: "",
    choices: &PARTS,
};

/// Shows the section; what is filled in afterwards.
pub fn show(ui: &mut Ui, cx: &Cx<'_>, job: &mut JobWords) {
    // Unfolded by hand, or because something was filled in elsewhere: by a command, by going back.
    let key = Id::unique("what if job is open");
    let (open, was_used) = ui.data(|data| data.get_temp::<(bool, bool)>(key)).unwrap_or_default();
    let is_used = !job.is_empty();
    let mut open = open || (is_used && !was_used);
    let title = if is_used && !open { format!("The job itself: {}", summary(job)) } else { "The job itself".to_owned() };
    if fold_line(ui, open, &title, cx.tokens.text) {
        open = !open;
    }
    ui.data_mut(|data| data.insert_temp(key, (open, is_used)));
    if !open {
        return;
    }
    Grid::new("what if job").num_columns(2).spacing(vec2(2.0 * UNIT, UNIT)).show(ui, |ui| {
        number(ui, &BATCH, &mut job.batch);
        number(ui, &LENGTH, &mut job.length);
        activations(ui, job);
        optimizer(ui, job);
        number(ui, &ACCUMULATE, &mut job.accumulate);
    });
    blocks(ui, job);
    ui.horizontal(|ui| {
        let help = "Blocks that a search finds are scaled, left out, made again, or wait on the host";
        if ui.small_button("Change blocks…").on_hover_text(help).clicked() {
            job.blocks.push(BlockWords::default());
        }
        if !job.is_empty() && ui.small_button("Job as recorded").on_hover_text("Takes all changes of the job back").clicked() {
            *job = JobWords::default();
        }
    });
    ui.label(RichText::new("Estimates: what each takes for granted stands below the table.").color(cx.tokens.weak));
}

/// What is filled in, in a few words.
fn summary(job: &JobWords) -> String {
    let times = |what: &str, factor: &str| (!factor.trim().is_empty()).then(|| format!("{what} ×{}", factor.trim()));
    let flag = |is_given: bool, words: &str| is_given.then(|| words.to_owned());
    let mut parts: Vec<String> = [
        times("batch", &job.batch),
        times("length", &job.length),
        flag(job.checkpoint, "checkpointed"),
        flag(job.offload_activations, "activations on the host"),
        flag(job.offload_optimizer, "optimizer state on the host"),
        flag(job.without_optimizer, "no optimizer state"),
        flag(!job.accumulate.trim().is_empty(), "accumulated"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !job.blocks.is_empty() {
        parts.push("blocks changed".to_owned());
    }
    parts.join(", ")
}

fn number(ui: &mut Ui, of: &Number, text: &mut String) {
    let label = ui.label(of.label).on_hover_text(of.help);
    ui.horizontal(|ui| {
        let field = TextEdit::singleline(text)
            .id(Id::unique(("what if job", of.label)))
            .hint_text("as recorded")
            .desired_width(NUMBER_PT);
        ui.add(field).labelled_by(label.id).on_hover_text(of.help);
        let combo = ComboBox::from_id_salt(("what if job", of.label)).width(CHOICE_PT).selected_text("choose");
        let combo = combo.show_ui(ui, |ui| {
            if ui.selectable_label(text.is_empty(), "as recorded").clicked() {
                text.clear();
            }
            for choice in of.choices {
                if ui.selectable_label(text.trim() == *choice, format!("{}{choice}", of.sign)).clicked() {
                    (*choice).clone_into(text);
                }
            }
        });
        combo.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, of.choices_name));
    });
    ui.end_row();
}

/// A choice of which each line sets two flags.
fn flags(ui: &mut Ui, title: &'static str, help: &str, lines: [&'static str; 3], one: &mut bool, other: &mut bool) {
    let label = ui.label(title).on_hover_text(help);
    let now = if *one { 1 } else { 2 * usize::from(*other) };
    let combo = ComboBox::from_id_salt(("what if job", title)).width(FIELD_PT).selected_text(lines[now]).show_ui(ui, |ui| {
        for (place, words) in lines.into_iter().enumerate() {
            if ui.selectable_label(place == now, words).clicked() {
                (*one, *other) = (place == 1, place == 2);
            }
        }
    });
    combo.response.labelled_by(label.id).on_hover_text(help);
    ui.end_row();
}

fn activations(ui: &mut Ui, job: &mut JobWords) {
    let help = "What the forward pass holds for the backward pass. Made again: each repeated layer keeps its input alone and runs \
                again in the backward pass (checkpointing).";
    let lines = ["held on the device", "made again, layer by layer", "on the host"];
    flags(ui, "Activations", help, lines, &mut job.checkpoint, &mut job.offload_activations);
}

fn optimizer(ui: &mut Ui, job: &mut JobWords) {
    let help = "On the host: the optimizer works there. None: an optimizer without state, as plain SGD.";
    let lines = ["on the device", "on the host", "none"];
    flags(ui, "Optimizer state", help, lines, &mut job.offload_optimizer, &mut job.without_optimizer);
}

fn blocks(ui: &mut Ui, job: &mut JobWords) {
    let mut gone = None;
    let words: Vec<String> = FIND_HELP.iter().map(|(written, meaning)| format!("{written}: {meaning}")).collect();
    for (place, BlockWords { deed, pattern, factor }) in job.blocks.iter_mut().enumerate() {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = UNIT;
            let name = BlockDeed::ALL.iter().find(|row| row.0 == *deed).map_or("", |row| row.1);
            let combo = ComboBox::from_id_salt(("what if blocks", place)).width(23.0 * UNIT).selected_text(name);
            let combo = combo.show_ui(ui, |ui| {
                for (other, words, _) in BlockDeed::ALL {
                    ui.selectable_value(deed, other, words);
                }
            });
            let label = format!("what becomes of blocks {}", place + 1);
            combo.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, &label));
            let is_scaled = *deed == BlockDeed::Scale;
            let field = TextEdit::singleline(pattern)
                .id(Id::unique(("what if blocks", place)))
                .hint_text("a search: attention >=1MiB")
                .desired_width(if is_scaled { 31.0 * UNIT } else { 44.0 * UNIT });
            let field = ui.add(field).on_hover_text(format!("Blocks that this finds:\n{}", words.join("\n")));
            field.widget_info(|| labelled(pattern, &format!("blocks {}", place + 1)));
            if is_scaled {
                ui.label("×");
                let field = TextEdit::singleline(factor)
                    .id(Id::unique(("what if block factor", place)))
                    .hint_text("2")
                    .desired_width(8.0 * UNIT);
                let field = ui.add(field).on_hover_text("So many times as large");
                field.widget_info(|| labelled(factor, &format!("factor of blocks {}", place + 1)));
            }
            if icon_button(ui, Icon::Close, &format!("take back the change of blocks {}", place + 1), false).clicked() {
                gone = Some(place);
            }
        });
    }
    if let Some(place) = gone {
        job.blocks.remove(place);
    }
}

/// A field that no text stands beside, with a name.
fn labelled(text: &str, name: &str) -> egui::WidgetInfo {
    egui::WidgetInfo { label: Some(name.to_owned()), ..egui::WidgetInfo::text_edit(true, text, text, "") }
}
