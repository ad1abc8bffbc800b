//! Tabs of what is open, and the device picker.

use crate::model::DeviceId;
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::widgets::icon::{Icon, icon, icon_button};
use egui::{Button, ComboBox, Ui};

/// The tabs, none of them lit where another page covers the documents; whether one was clicked.
pub fn tabs(ui: &mut Ui, cx: &Cx<'_>, covered: bool) -> bool {
    let mut chosen = false;
    let active = cx.session.workspace().active;
    for document in cx.session.documents() {
        ui.spacing_mut().item_spacing.x = UNIT / 2.0;
        if cx.session.live(document.id).is_some_and(|live| live.is_growing()) {
            icon(ui, Icon::Record, cx.tokens.error).on_hover_text("Being recorded");
        }
        let tab = ui.add(Button::selectable(!covered && active == Some(document.id), short(&document.title)));
        let origin = &document.snapshot.origin;
        let tab = tab.on_hover_ui(|ui| {
            ui.label(document.path.as_ref().map_or(document.title.clone(), |path| path.display().to_string()));
            ui.weak(format!("{}, {}", origin.format, crate::base::Bytes(origin.bytes)));
        });
        if tab.clicked() {
            cx.send(Command::Activate(document.id));
            chosen = true;
        }
        let close = icon_button(ui, Icon::Close, &format!("Close {}", document.title), false).on_hover_text("Close");
        if close.clicked() || tab.middle_clicked() {
            cx.send(Command::Close(document.id));
        }
        ui.add_space(UNIT);
    }
    chosen
}

/// The tab of the page of ranks, where there is one; whether it was clicked.
pub fn ranks_tab(ui: &mut Ui, cx: &Cx<'_>, in_front: bool) -> bool {
    let Some(ranks) = cx.session.ranks() else { return false };
    ui.spacing_mut().item_spacing.x = UNIT / 2.0;
    let tab = ui.add(Button::selectable(in_front, format!("Ranks ({})", ranks.files.len())));
    let tab = tab.on_hover_text(format!("All ranks of {}", ranks.title));
    let close = icon_button(ui, Icon::Close, "Close the ranks", false).on_hover_text("Close");
    if close.clicked() || tab.middle_clicked() {
        cx.send(Command::CloseRanks);
    }
    ui.add_space(UNIT);
    tab.clicked()
}

/// The device picker, where there is a choice.
pub fn device_picker(ui: &mut Ui, cx: &Cx<'_>) {
    let Some((document, device, memory)) = cx.session.front() else { return };
    let devices = document.used_devices();
    if devices.len() < 2 {
        return;
    }
    let title = |id: DeviceId| document.snapshot.devices.get(id).map_or(String::new(), |memory| memory.title());
    let combo = ComboBox::from_id_salt("device").selected_text(memory.title()).show_ui(ui, |ui| {
        for id in devices {
            if ui.selectable_label(id == device, title(id)).clicked() {
                cx.send(Command::SetDevice(id));
            }
        }
    });
    combo.response.on_hover_text("The device all views show");
}

fn short(title: &str) -> String {
    if title.chars().count() <= 32 { title.to_owned() } else { title.chars().take(31).chain(['…']).collect() }
}
