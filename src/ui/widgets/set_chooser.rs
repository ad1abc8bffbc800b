//! The chooser of the set of blocks that is looked at: the same in every view that shows it.

use crate::session::{Command, SetChoice, SetKind, SetSpan};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use egui::{ComboBox, Ui};

/// What a mark is called: A, B, C …, and its number behind Z.
pub fn mark_name(place: usize) -> String {
    ('A'..='Z').nth(place).map_or_else(|| (place + 1).to_string(), String::from)
}

/// Shows the kind of set and the stretch of time, in the line that is being laid out.
pub fn set_chooser(ui: &mut Ui, cx: &Cx<'_>) {
    let Some(place) = cx.place() else { return };
    let mut set = place.set;
    // A third mark is what one kind is about; the others have none.
    choose(ui, "Blocks", SetKind::ALL.map(|kind| (kind, kind.name().to_owned())), &mut set.kind);
    let first = SetSpan::Marks { from: 0, to: 1, at: 2 };
    let marks = if matches!(set.span, SetSpan::Marks { .. }) { set.span } else { first };
    let mut spans = vec![(marks, "the time between marks".to_owned())];
    if set.kind == SetKind::Lasting {
        set.span = marks;
    } else {
        let others = [(SetSpan::Window, "the visible window".to_owned()), (SetSpan::Range, "the selected range".to_owned())];
        spans.splice(0..0, others);
    }
    choose(ui, "during", spans, &mut set.span);
    if let SetSpan::Marks { from, to, at } = &mut set.span {
        let third = set.kind == SetKind::Lasting;
        let count = place.marks.len();
        if (if third { 3 } else { 2 }) <= count {
            choose_mark(ui, "from", count, from);
            choose_mark(ui, "to", count, to);
            if third {
                choose_mark(ui, "third", count, at);
            }
        }
    }
    if set != place.set {
        cx.send(Command::ChooseSet(SetChoice { ..set }));
    }
}

/// A labelled choice of one of the marks.
pub fn choose_mark(ui: &mut Ui, label: &str, count: usize, chosen: &mut usize) {
    choose(ui, label, (0..count).map(|place| (place, mark_name(place))), chosen);
}

/// A labelled choice of one among several.
fn choose<T: Copy + PartialEq>(ui: &mut Ui, name: &str, all: impl IntoIterator<Item = (T, String)>, chosen: &mut T) {
    let all: Vec<(T, String)> = all.into_iter().collect();
    let now = all.iter().find(|(value, _)| value == chosen).map_or("", |(_, name)| name.as_str());
    let label = ui.label(name);
    let combo = ComboBox::from_id_salt(("set", name)).selected_text(now).width(0.0).height(100.0 * UNIT).show_ui(ui, |ui| {
        for (value, name) in &all {
            ui.selectable_value(chosen, *value, name);
        }
    });
    combo.response.labelled_by(label.id);
}
