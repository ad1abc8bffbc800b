//! The search over all views: one field, what it finds in words, and the way from one found thing to the next.
//!
//! Always: the numbers are those of the line that stands in the field; while they are on their way nothing older
//! stands in their place.

use crate::analysis::{FIND_HELP, Found};
use crate::base::grouped;
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::icon::{Icon, icon, icon_button};
use egui::text::{CCursor, CCursorRange};
use egui::{Align, Grid, Key, Label, Layout, Modifiers, RichText, TextEdit, Ui};

/// The bar. It stands there too while something is searched for, however that came.
#[derive(Default)]
pub struct FindBar {
    open: bool,
    /// The field is to get the keys in this frame.
    focus: bool,
    /// It had them in the last frame.
    has_keys: bool,
}

impl FindBar {
    /// Opens it and gives it the keys.
    pub fn open(&mut self) {
        (self.open, self.focus) = (true, true);
    }
    /// Opens it, or closes it and ends the search.
    pub fn toggle(&mut self, cx: &Cx<'_>) {
        if self.is_open(cx) {
            self.close(cx);
        } else {
            self.open();
        }
    }
    /// Esc in the field closes the bar. Asked before other keys are read: pressed elsewhere Esc has another meaning.
    pub fn read_escape(&mut self, context: &egui::Context, cx: &Cx<'_>) {
        let had_keys = std::mem::take(&mut self.has_keys);
        if had_keys && context.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) {
            self.close(cx);
        }
    }
    /// Whether it is to be shown.
    pub fn is_open(&self, cx: &Cx<'_>) -> bool {
        self.open || !cx.session.find().text().is_empty()
    }
    /// Shows it.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = UNIT;
            icon(ui, Icon::Find, cx.tokens.weak);
            self.field(ui, cx);
            let searching = cx.session.find().terms().is_some();
            ui.add_enabled_ui(searching, |ui| {
                for (sign, name, help, forward) in [
                    (Icon::Previous, "previous found", "The one before (Shift+F3)", false),
                    (Icon::Next, "next found", "The next one (F3)", true),
                ] {
                    if icon_button(ui, sign, name, true).on_hover_text(help).clicked() {
                        cx.send(Command::StepFind { forward });
                    }
                }
            });
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                if icon_button(ui, Icon::Close, "End the search", false).on_hover_text("End the search (Esc)").clicked() {
                    self.close(cx);
                }
                ui.menu_button("What can be found", help).response.on_hover_ui(help);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    ui.add_space(UNIT);
                    words(ui, cx);
                });
            });
        });
    }

    fn field(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let mut text = cx.session.find().text().to_owned();
        let id = egui::Id::unique("find in all views");
        let width = (ui.available_width() * 0.35).clamp(30.0 * UNIT, 100.0 * UNIT);
        let field = TextEdit::singleline(&mut text)
            .id(id)
            .hint_text("function, file:line, 0x address, label, >=100MiB …")
            .align(egui::Align2::LEFT_CENTER)
            .desired_width(width);
        let mut output = field.show(ui);
        let response = output.response.response.clone();
        response.widget_info(|| {
            let mut info = egui::WidgetInfo::text_edit(true, text.as_str(), text.as_str(), "");
            info.label = Some("Find in all views".to_owned());
            info
        });
        if std::mem::take(&mut self.focus) {
            response.request_focus();
            let all = CCursorRange::two(CCursor::new(0), CCursor::new(text.chars().count()));
            output.state.cursor.set_char_range(Some(all));
            output.state.store(ui.ctx(), id);
        }
        if response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
            cx.send(Command::StepFind { forward: !ui.input(|input| input.modifiers.shift) });
            response.request_focus();
        }
        self.has_keys = response.has_focus();
        if response.changed() {
            cx.send(Command::SetFind(text));
        }
    }

    fn close(&mut self, cx: &Cx<'_>) {
        self.open = false;
        cx.send(Command::SetFind(String::new()));
    }
}

/// What was found, or why nothing is.
fn words(ui: &mut Ui, cx: &Cx<'_>) {
    let weak = |text: &str| Label::new(RichText::new(text.to_owned()).color(cx.tokens.weak)).truncate();
    if let Some(error) = cx.session.find().error() {
        ui.add(Label::new(RichText::new(error).color(cx.tokens.error)).truncate());
        return;
    }
    match cx.session.finding() {
        None => drop(ui.add(weak("Words search functions, files, notes and annotations; all of them must hold."))),
        Some(Answer::Ready(found)) => told(ui, cx, &found),
        Some(Answer::Stale(_, status) | Answer::Pending(status)) => {
            let share = status.progress.fraction().map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
            ui.add(weak(&format!("searching …{share}")));
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
        }
        Some(Answer::Failed(error)) => drop(ui.add(weak(&error.to_string()))),
    }
}

fn told(ui: &mut Ui, cx: &Cx<'_>, found: &Found) {
    let weak = |ui: &mut Ui, text: &str| drop(ui.add(Label::new(RichText::new(text).color(cx.tokens.weak))));
    if found.is_empty() {
        return weak(ui, "Nothing was found on this device.");
    }
    let counted =
        |count: usize, one: &str, many: &str| format!("{} {}", grouped(count as u64), if count == 1 { one } else { many });
    ui.label(counted(found.sum.count as usize, "allocation,", "allocations,"));
    byte_label(ui, "found over the whole trace", found.sum.bytes);
    weak(ui, "over the trace");
    if let Some(Answer::Ready(here)) = cx.session.found_here() {
        weak(ui, "·");
        ui.label(format!("{} live here,", grouped(here.sum.count)));
        byte_label(ui, "found and allocated at the cursor", here.sum.bytes);
    }
    for (count, one, many) in [(found.segments.len(), "segment", "segments"), (found.events.len(), "event", "events")] {
        if 0 < count {
            weak(ui, "·");
            let help = if one == "event" { "Out of memory, and segments that came and went" } else { "Over the whole trace" };
            ui.label(counted(count, one, many)).on_hover_text(help);
        }
    }
    match cx.session.find_wrapped() {
        Some(true) => weak(ui, "· went on from the first"),
        Some(false) => weak(ui, "· went on from the last"),
        None => {}
    }
}

/// The language, by examples.
fn help(ui: &mut Ui) {
    ui.set_max_width(150.0 * UNIT);
    Grid::new("what can be found").num_columns(2).spacing([4.0 * UNIT, UNIT]).show(ui, |ui| {
        for (written, meaning) in FIND_HELP {
            ui.label(RichText::new(written).monospace());
            ui.label(meaning);
            ui.end_row();
        }
    });
}
