//! The allocations of a stretch of time, as a table: those born, freed, kept or grown over the window, a selected range,
//! or between marks.
//!
//! Always: the set is the workspace's, so the flame view shows the same; without a filter the rows add up to it.

use crate::analysis::GroupBy;
use crate::chart::block_words::which_words;
use crate::session::NoSet;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::BlockList;
use crate::ui::widgets::set_chooser::set_chooser;
use egui::Ui;
use std::time::Duration;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "allocations",
    title: "Allocations",
    help: "The blocks of a stretch of time, one by one or in groups: born, born and freed, kept, grown or gone over the window, a \
           selected range, or between marks.",
    open: || Box::new(Allocations(BlockList::new("allocations", GroupBy::Block))),
};

#[derive(Clone)]
struct Allocations(BlockList);

impl View for Allocations {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        if cx.session.front().is_none() {
            return cx.nothing(ui);
        }
        ui.horizontal_wrapped(|ui| {
            ui.add_space(UNIT);
            set_chooser(ui, cx);
        });
        match cx.session.which() {
            Ok(which) => self.0.show(ui, cx, which, |which| format!("There is no block in this set: {}.", which_words(which))),
            Err(NoSet::NotYet) => ui.ctx().request_repaint_after(Duration::from_millis(50)),
            Err(NoSet::Choose(sentence)) => cx.empty(ui, sentence),
        }
    }
}
