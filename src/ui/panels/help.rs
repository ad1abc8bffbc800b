//! What lies on top at F1: all keys and gestures, and the words of the field.
//!
//! Always: nothing is written here: keys come from the register that acts on them, words from the glossary.

use crate::model::glossary::TERMS;
use crate::ui::keys::{KEYS, chord_words};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::canvas::HAND;
use egui::{Grid, Label, Modal, RichText, ScrollArea, Ui};

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpPage {
    /// Keys and gestures.
    Keys,
    /// The words of the field.
    Glossary,
}

/// The help while it is open.
#[derive(Default)]
pub struct Help {
    page: Option<HelpPage>,
}

impl Help {
    /// Opens a page.
    pub fn open(&mut self, page: HelpPage) {
        self.page = Some(page);
    }
    /// Whether it is open: it then has the keys.
    pub fn is_open(&self) -> bool {
        self.page.is_some()
    }
    /// Shows it.
    pub fn show(&mut self, ui: &Ui, cx: &Cx<'_>) {
        let Some(mut page) = self.page else { return };
        let room = ui.ctx().content_rect();
        let mut close = false;
        let modal = Modal::new(egui::Id::unique("help")).frame(egui::Frame::window(ui.style())).show(ui.ctx(), |ui| {
            ui.set_width((200.0 * UNIT).min(room.width() - 16.0 * UNIT));
            ui.horizontal(|ui| {
                ui.selectable_value(&mut page, HelpPage::Keys, "Keys and mouse");
                ui.selectable_value(&mut page, HelpPage::Glossary, "Glossary");
                ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| close = ui.button("Close").clicked());
            });
            ui.separator();
            // A page with less in it is as high, so that nothing jumps when one turns it.
            let height = (room.height() - 40.0 * UNIT).clamp(20.0 * UNIT, 160.0 * UNIT);
            ui.set_min_height(height);
            let area = ScrollArea::vertical().id_salt(("help", page == HelpPage::Keys)).max_height(height);
            area.auto_shrink(false).show(ui, |ui| match page {
                HelpPage::Keys => keys(ui, cx),
                HelpPage::Glossary => glossary(ui, cx),
            });
        });
        self.page = (!close && !modal.should_close()).then_some(page);
    }
}

/// Two columns of groups where there is room for them.
fn keys(ui: &mut Ui, cx: &Cx<'_>) {
    let mut groups: Vec<(&str, Vec<(String, &str)>)> = Vec::new();
    for row in KEYS {
        let chords: Vec<String> = row.chords.iter().map(|(modifiers, key)| chord_words(*modifiers, *key)).collect();
        let chords = chords.join(" or ");
        match groups.iter_mut().find(|(name, _)| *name == row.group) {
            Some((_, lines)) => match lines.iter_mut().find(|(_, what)| *what == row.what) {
                Some((keys, _)) => *keys = format!("{keys} or {chords}"),
                None => lines.push((chords, row.what)),
            },
            None => groups.push((row.group, vec![(chords, row.what)])),
        }
    }
    groups.push(("Mouse on pictures", HAND.iter().map(|(hand, what)| ((*hand).to_owned(), *what)).collect()));
    let columns = if 160.0 * UNIT < ui.available_width() { 2 } else { 1 };
    let all: usize = groups.iter().map(|(_, lines)| lines.len() + 2).sum();
    ui.columns(columns, |columns| {
        let mut above = 0;
        for (name, lines) in groups {
            let middle = above + lines.len() / 2 + 1;
            let column = if middle * columns.len() <= all { 0 } else { columns.len() - 1 };
            above += lines.len() + 2;
            group(&mut columns[column], cx, name, &lines);
        }
    });
}

fn group(ui: &mut Ui, cx: &Cx<'_>, name: &str, lines: &[(String, &str)]) {
    ui.add_space(UNIT);
    ui.strong(name);
    Grid::new(name).num_columns(2).min_col_width(34.0 * UNIT).spacing([3.0 * UNIT, UNIT]).show(ui, |ui| {
        for (keys, what) in lines {
            ui.label(keys);
            ui.add(Label::new(RichText::new(*what).color(cx.tokens.weak)).wrap());
            ui.end_row();
        }
    });
    ui.add_space(2.0 * UNIT);
}

fn glossary(ui: &mut Ui, cx: &Cx<'_>) {
    ui.add_space(UNIT);
    Grid::new("glossary").num_columns(2).spacing([4.0 * UNIT, 1.5 * UNIT]).show(ui, |ui| {
        for term in TERMS {
            ui.label(term.word);
            ui.add(Label::new(RichText::new(term.meaning).color(cx.tokens.weak)).wrap());
            ui.end_row();
        }
    });
}
