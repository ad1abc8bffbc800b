//! A stack with the framework's frames folded away, to unfold, copy and open.

use crate::chart::text::{file_name, is_framework, short_path};
use crate::model::{FrameId, StackId, StackTable};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::fold_line;
use crate::ui::widgets::text::no_stack;
use egui::{Label, RichText, Sense, Ui};

/// Shows a stack, innermost frame first. `salt` tells two lists of one view apart.
pub fn stack_list(ui: &mut Ui, cx: &Cx<'_>, stacks: &StackTable, stack: StackId, salt: &str) {
    let frames = stacks.frames(stack);
    if frames.is_empty() {
        let why = match no_stack(stack) {
            "no Python stack" => {
                "It has no Python stack: PyTorch's backward threads have none. Recording with stacks=\"all\" keeps the C++ frames."
            }
            _ => "No stack was kept for it: recording ran without stacks (context=None) or only for other events.",
        };
        ui.label(RichText::new(why).color(cx.tokens.weak));
        return;
    }
    ui.horizontal(|ui| {
        ui.strong("Stack");
        if ui.small_button("Copy").on_hover_text("Copies all frames").clicked() {
            let lines: Vec<String> = frames.iter().map(|frame| stacks.line(*frame)).collect();
            ui.copy_text(lines.join("\n"));
        }
    });
    // Runs of framework frames are one line; a stack of nothing else is shown in full.
    let own = |frame: &FrameId| !is_framework(stacks.file(*frame), stacks.function(*frame));
    let fold = frames.iter().any(own);
    let mut at = 0;
    while at < frames.len() {
        let run = if fold { frames[at..].iter().take_while(|frame| !own(frame)).count() } else { 0 };
        if run < 2 {
            frame_line(ui, cx, stacks, frames[at]);
            at += 1;
            continue;
        }
        let id = ui.make_persistent_id((salt, stack.0, at));
        let mut open = ui.data(|data| data.get_temp::<bool>(id)).unwrap_or(false);
        if fold_line(ui, open, &format!("{run} framework frames"), cx.tokens.weak) {
            open = !open;
            ui.data_mut(|data| data.insert_temp(id, open));
        }
        if open {
            ui.indent(id, |ui| {
                for frame in &frames[at..at + run] {
                    frame_line(ui, cx, stacks, *frame);
                }
            });
        }
        at += run;
    }
}

fn frame_line(ui: &mut Ui, cx: &Cx<'_>, stacks: &StackTable, frame: FrameId) {
    let (function, file, line) = (stacks.function(frame), stacks.file(frame), stacks.frame(frame).line);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 1.5 * UNIT;
        let place =
            if file == "??" || file.is_empty() { "no source known".to_owned() } else { format!("{}:{line}", file_name(file)) };
        ui.add(Label::new(short_function(function)).selectable(true).truncate());
        let link =
            ui.add(Label::new(RichText::new(place).color(cx.tokens.accent)).sense(Sense::click()).selectable(false).truncate());
        if link.clicked() {
            cx.send(Command::OpenSource { file: file.to_owned(), line });
        }
        link.on_hover_ui(|ui| {
            ui.label(format!("{}:{line}", short_path(file, 100)));
            for (key, value) in stacks.extras(frame) {
                ui.label(format!("{key} {value}"));
            }
            ui.weak("Click to open in your editor");
        })
        .context_menu(|ui| {
            if ui.button("Copy frame").clicked() {
                ui.copy_text(stacks.line(frame));
                ui.close();
            }
        });
    });
}

/// C++ names without their parameters, which are longer than any panel is wide.
fn short_function(function: &str) -> String {
    let cut = function.find('(').filter(|at| 0 < *at).map_or(function, |at| &function[..at]);
    if cut.chars().count() <= 60 { cut.to_owned() } else { cut.chars().take(59).chain(['…']).collect() }
}
