//! The marks A, B, C … with what stood at each, and what came and went between two or three of them.
//!
//! Always: sums come from a job; those of a set are the table's and the flame graph's, which a click shows.

use crate::analysis::{BlockSum, SetSums, UsageTimeline, Which};
use crate::base::{Bytes, grouped};
use crate::chart::block_words::which_words;
use crate::model::{DeviceMemory, Position};
use crate::session::{Command, SetChoice, SetKind, SetSpan};
use crate::ui::theme::{ROW, UNIT};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::{byte_label, copyable};
use crate::ui::widgets::set_chooser::{choose_mark, mark_name};
use crate::ui::widgets::text::{moment, time_of_day};
use egui::{Align, Grid, Layout, RichText, ScrollArea, Ui, vec2};

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "marks",
    title: "Marks",
    help: "The marks A, B, C … and what is alive at them, born and freed between them, grown, gone or kept. M sets a mark at the \
           cursor.",
    open: || Box::new(Marks { chosen: [0, 1, 2] }),
};

#[derive(Clone)]
struct Marks {
    /// Places of the marks that are asked about: two, and a third.
    chosen: [usize; 3],
}

/// A question about marks: what it asks in letters, and the set.
struct Question {
    words: String,
    choice: SetChoice,
    which: Which,
}

impl View for Marks {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((_, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let marks = cx.place().map_or(&[][..], |place| &place.marks);
        if marks.is_empty() {
            return cx.empty(
                ui,
                "No mark is set. Put the cursor at a moment and press M; two marks show what came and went between them.",
            );
        }
        let wide = SIDE_BY_SIDE <= ui.available_width();
        ScrollArea::both().auto_shrink(false).show(ui, |ui| {
            ui.add_space(UNIT);
            let layout = if wide { Layout::left_to_right(Align::Min) } else { Layout::top_down(Align::Min) };
            ui.with_layout(layout, |ui| {
                ui.vertical(|ui| table(ui, cx, memory, marks));
                ui.add_space(if wide { 8.0 * UNIT } else { UNIT });
                ui.vertical(|ui| {
                    if marks.len() < 2 {
                        ui.horizontal(|ui| {
                            ui.add_space(2.0 * UNIT);
                            ui.weak("A second mark shows what came and went between both.");
                        });
                    }
                    self.questions(ui, cx, marks);
                });
            });
        });
    }
}

/// From this width on marks and questions stand beside one another.
const SIDE_BY_SIDE: f32 = 1340.0;

/// The marks, each with what stood there.
fn table(ui: &mut Ui, cx: &Cx<'_>, memory: &DeviceMemory, marks: &[Position]) {
    let answer = cx.ask::<UsageTimeline>(());
    let usage = answer.value();
    ui.horizontal(|ui| {
        ui.add_space(2.0 * UNIT);
        Grid::new("marks").spacing(vec2(5.0 * UNIT, 0.0)).min_row_height(ROW).show(ui, |ui| {
            for title in ["Mark", "Event", "Time", "Allocated", "Reserved", "Allocated since the mark before"] {
                ui.label(RichText::new(title).small().color(cx.tokens.weak));
            }
            if ui.small_button("Remove all marks").clicked() {
                cx.send(Command::ClearMarks);
            }
            ui.end_row();
            for (place, at) in marks.iter().enumerate() {
                let name = mark_name(place);
                ui.strong(&name);
                if ui.link(moment(*at)).on_hover_text(format!("Puts the cursor at mark {name}")).clicked() {
                    cx.send(Command::MoveCursor(*at));
                }
                let time = at.event().and_then(|event| memory.trace.time_us(event));
                ui.label(time.map_or(String::new(), |time| format!("{} UTC", time_of_day(time))));
                match usage {
                    Some(usage) => {
                        let totals = usage.totals_at(*at);
                        byte_label(ui, &format!("allocated at mark {name}"), totals.allocated);
                        byte_label(ui, &format!("reserved at mark {name}"), totals.reserved);
                        match place.checked_sub(1).and_then(|before| marks.get(before)) {
                            Some(before) => difference(ui, usage.allocated.at(*before), totals.allocated),
                            None => drop(ui.label("")),
                        }
                    }
                    None => (0..3).for_each(|_| drop(ui.label("…"))),
                }
                if named_button(ui, "Remove", &format!("remove mark {name}")) {
                    cx.send(Command::RemoveMark(place));
                }
                ui.end_row();
            }
        });
    });
}

fn difference(ui: &mut Ui, before: u64, after: u64) {
    let sign = if after < before { "−" } else { "+" };
    let by = after.abs_diff(before);
    let copied = i128::from(after) - i128::from(before);
    let hover = format!("{sign}{} bytes", grouped(by));
    copyable(ui, RichText::new(format!("{sign}{}", Bytes(by))), &hover, &copied.to_string());
}

fn named_button(ui: &mut Ui, text: &str, name: &str) -> bool {
    let response = ui.small_button(text);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    response.clicked()
}

impl Marks {
    fn questions(&mut self, ui: &mut Ui, cx: &Cx<'_>, marks: &[Position]) {
        // The choice waits for marks that are not there, or no longer.
        let last = marks.len() - 1;
        let mut shown = self.chosen.map(|place| place.min(last));
        let before = shown;
        ui.horizontal_wrapped(|ui| {
            ui.add_space(2.0 * UNIT);
            if 1 <= last {
                choose_mark(ui, "Between mark", marks.len(), &mut shown[0]);
                choose_mark(ui, "and mark", marks.len(), &mut shown[1]);
            }
            if 2 <= last {
                choose_mark(ui, "with a third mark", marks.len(), &mut shown[2]);
            }
        });
        for ((chosen, shown), before) in self.chosen.iter_mut().zip(shown).zip(before) {
            if shown != before {
                *chosen = shown;
            }
        }
        let questions = questions(&shown, marks);
        let sums = cx.session.ask_in::<SetSums>("marks", questions.iter().map(|question| question.which).collect());
        ui.horizontal(|ui| {
            ui.add_space(2.0 * UNIT);
            Grid::new("questions").spacing(vec2(5.0 * UNIT, 0.0)).min_row_height(ROW).show(ui, |ui| {
                for title in ["Blocks", "Count", "Bytes", "Requested"] {
                    ui.label(RichText::new(title).small().color(cx.tokens.weak));
                }
                ui.end_row();
                for (place, question) in questions.iter().enumerate() {
                    ui.label(&question.words).on_hover_text(which_words(question.which));
                    match sums.value().and_then(|sums| sums.0.get(place)) {
                        Some(BlockSum { bytes, requested, count }) => {
                            ui.label(grouped(*count));
                            byte_label(ui, "sizes of these blocks", *bytes);
                            byte_label(ui, "requested for these blocks", *requested);
                        }
                        None => (0..3).for_each(|_| drop(ui.label("…"))),
                    }
                    for (title, view) in [("Allocations", "allocations"), ("Flame", "flame")] {
                        if named_button(ui, title, &format!("{}, in {view}", question.words)) {
                            cx.send(Command::ShowSet { set: question.choice, view });
                        }
                    }
                    ui.end_row();
                }
            });
        });
    }
}

/// What can be asked about two or three of the marks; letters stand in the order of time, whichever was set first.
fn questions(chosen: &[usize; 3], marks: &[Position]) -> Vec<Question> {
    let mut asked: Vec<usize> = chosen.iter().copied().filter(|place| *place < marks.len()).collect();
    asked.sort_by_key(|place| (marks[*place], *place));
    asked.dedup();
    let (letter, at) = (|n: usize| mark_name(asked[n]), |n: usize| marks[asked[n]]);
    let question = |kind, words: String, from: usize, to: usize, third: usize| Question {
        words,
        choice: SetChoice { kind, span: SetSpan::Marks { from: asked[from], to: asked[to], at: asked[third] } },
        which: SetChoice::over(kind, at(from), at(to), at(third)),
    };
    let Some(last) = asked.len().checked_sub(1) else { return Vec::new() };
    let mut all: Vec<Question> =
        (0..=last).map(|n| question(SetKind::LiveAtStart, format!("Alive at {}", letter(n)), n, n, n)).collect();
    for (from, to) in [(0, 1), (1, 2)].into_iter().filter(|(_, to)| *to <= last) {
        let (a, b) = (letter(from), letter(to));
        for (kind, words) in [
            (SetKind::BornAndFreed, format!("Born and freed between {a} and {b}")),
            (SetKind::Grown, format!("Born between {a} and {b}, alive at {b}")),
            (SetKind::Gone, format!("Alive at {a}, freed by {b}")),
            (SetKind::Kept, format!("Born before {a}, alive at {b}")),
        ] {
            all.push(question(kind, words, from, to, to));
        }
    }
    if last == 2 {
        let (a, b, c) = (letter(0), letter(1), letter(2));
        all.push(question(SetKind::Kept, format!("Born before {a}, alive at {c}"), 0, 2, 2));
        all.push(question(SetKind::Lasting, format!("Born between {a} and {b}, alive at {c}"), 0, 1, 2));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_marks_in_the_order_of_time() {
        let words = |chosen, marks: &[u32]| {
            let marks: Vec<Position> = marks.iter().copied().map(Position).collect();
            questions(&chosen, &marks).into_iter().map(|question| (question.words, question.which)).collect::<Vec<_>>()
        };
        assert_eq!(words([0, 0, 0], &[7]), [("Alive at A".to_owned(), Which::Live { at: Position(7) })]);
        let two = words([0, 1, 1], &[9, 4]);
        assert_eq!(two.len(), 6);
        assert_eq!(two[0], ("Alive at B".to_owned(), Which::Live { at: Position(4) }));
        assert_eq!(
            two[2],
            ("Born and freed between B and A".to_owned(), Which::BornAndFreed { from: Position(4), to: Position(9) })
        );
        let three = words([0, 1, 2], &[1, 5, 3]);
        assert_eq!(three.len(), 13);
        let (last, lasting) = three.last().expect("thirteen");
        assert_eq!(last, "Born between A and C, alive at B");
        assert_eq!(*lasting, Which::Lasting { from: Position(1), to: Position(3), at: Position(5) });
        assert!(words([0, 1, 2], &[]).is_empty());
    }
}
