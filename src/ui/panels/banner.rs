//! One line on what the file cannot tell, with everything behind a click.

use crate::model::{Severity, Warnings};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, fold_line, icon};
use egui::{Label, RichText, ScrollArea, Sense, Ui};

/// Whether there is anything to say.
pub fn is_needed(cx: &Cx<'_>) -> bool {
    cx.session.front().is_some_and(|(document, _, memory)| {
        !memory.coverage.gaps.is_empty() || document.snapshot.warnings.iter().any(|(kind, ..)| kind.severity() != Severity::Info)
    })
}

/// Shows the line; `open` remembers whether the details stand below it.
pub fn show(ui: &mut Ui, cx: &Cx<'_>, open: &mut bool) {
    let Some((document, _, memory)) = cx.session.front() else { return };
    let gaps = &memory.coverage.gaps;
    let warnings: Vec<_> = document.snapshot.warnings.iter().collect();
    let first = gaps.first().map(|gap| gap.sentence.clone());
    let first = first.or_else(|| warnings.first().map(|(kind, count, first)| Warnings::message(*kind, *count, first)));
    let more = (gaps.len() + warnings.len()).saturating_sub(1);
    ui.horizontal(|ui| {
        icon(ui, Icon::Caution, cx.tokens.caution);
        // The count stays in view however long the sentence is.
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let mut clicked = false;
            if 0 < more {
                ui.scope(|ui| {
                    ui.set_max_width(30.0 * UNIT);
                    clicked |= fold_line(ui, *open, &format!("{more} more"), cx.tokens.accent);
                });
            }
            ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                let sentence = first.unwrap_or_default();
                clicked |= ui.add(Label::new(sentence).truncate().sense(Sense::click()).selectable(false)).clicked();
            });
            if clicked {
                *open = !*open;
            }
        });
    });
    if !*open {
        return;
    }
    ScrollArea::vertical().id_salt("coverage").max_height(60.0 * UNIT).auto_shrink([false, true]).show(ui, |ui| {
        for gap in gaps {
            line(ui, cx, gap.missing.name(), &gap.sentence);
        }
        for (kind, count, first) in warnings {
            let severity = kind.severity().name().replace('_', " ");
            line(ui, cx, &severity, &Warnings::message(kind, count, first));
        }
    });
}

fn line(ui: &mut Ui, cx: &Cx<'_>, word: &str, sentence: &str) {
    ui.horizontal_top(|ui| {
        ui.add_sized([20.0 * UNIT, 4.0 * UNIT], Label::new(RichText::new(word).color(cx.tokens.weak)).truncate());
        ui.add(Label::new(sentence).wrap());
    });
}
