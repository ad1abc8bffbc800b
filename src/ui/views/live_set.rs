//! What is live at the cursor, as a table: grouped, filtered, sorted, copied.
//!
//! Always: without a filter the rows add up to the state's `allocated`.

use crate::analysis::{GroupBy, Which};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::block_list::BlockList;
use crate::ui::widgets::text::moment;
use egui::Ui;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "live_set",
    title: "Live set",
    help: "Who holds the allocated memory at the cursor: by stack, block, size, stream, pool, function, file, module, category, \
           annotation, compile context or user metadata.",
    open: || Box::new(LiveSet(BlockList::new("live set", GroupBy::Stack))),
};

#[derive(Clone)]
struct LiveSet(BlockList);

impl View for LiveSet {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        if cx.session.front().is_none() {
            return cx.nothing(ui);
        }
        let at = cx.cursor();
        self.0.show(ui, cx, Which::Live { at }, |which| {
            let at = if let Which::Live { at } = which { at } else { at };
            format!("Nothing is allocated at {}. Move the cursor to a moment when something is.", moment(at))
        });
    }
}
