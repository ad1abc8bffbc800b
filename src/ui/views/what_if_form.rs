//! The form of what if: the settings as controls and as one string, the card, and in what the run differs besides.
//!
//! Always: the string is the one source; a control reads its key from it and writes it back, so both say the same.

use crate::base::Bytes;
use crate::model::{DeviceMemory, Missing, Snapshot};
use crate::session::what_if::{Caches, WhatIfForm};
use crate::simulator::{POLICIES, conf};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::views::what_if_job as job;
use egui::{ComboBox, Grid, RichText, TextEdit, Ui, vec2};

/// Sizes of cards that are sold, in GiB.
const CARDS_GIB: [u64; 10] = [16, 24, 32, 40, 48, 80, 94, 141, 180, 192];
/// Width of a field, in points.
const FIELD_PT: f32 = 46.0 * UNIT;

/// A setting with the values that are offered, the first being the default.
struct Setting {
    key: &'static str,
    name: &'static str,
    help: &'static str,
    default: &'static str,
    values: &'static [&'static str],
}

const SETTINGS: [Setting; 4] = [
    Setting {
        key: "max_split_size_mb",
        name: "Largest split block",
        help: "max_split_size_mb: larger blocks are never split, so a small request cannot pin them. In MiB.",
        default: "no limit",
        values: &["64", "128", "256", "512", "1024", "2048"],
    },
    Setting {
        key: "roundup_power2_divisions",
        name: "Round up to",
        help: "roundup_power2_divisions: sizes are rounded to so many steps between powers of two, so more of them are alike.",
        default: "512 bytes",
        values: &["1", "2", "4", "8", "16", "[256:1,512:2,1024:4,>:8]", "[64:8,256:4,512:2,>:1]"],
    },
    Setting {
        key: "garbage_collection_threshold",
        name: "Collect above",
        help: "garbage_collection_threshold: the share of the memory limit from which unused segments go back to the driver. It \
               needs a memory fraction.",
        default: "never",
        values: &["0.6", "0.8", "0.9"],
    },
    Setting {
        key: "large_segment_size_mb",
        name: "Large segments",
        help: "large_segment_size_mb: the size of segments for requests of 1 to 10 MiB, in MiB.",
        default: "20",
        values: &["32", "64", "128", "256"],
    },
];

/// The value of a key in a settings string.
fn value_of<'a>(conf: &'a str, key: &str) -> Option<&'a str> {
    let pairs = conf::pairs(conf).into_iter().filter_map(|pair| pair.split_once(':'));
    pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back()
}

/// The string with a key given another value, or none; all others stay as they are.
fn with_value(conf: &str, key: &str, value: Option<&str>) -> String {
    let is_other = |pair: &&str| pair.split_once(':').is_none_or(|(name, _)| name.trim() != key);
    let mut pairs: Vec<String> = conf::pairs(conf).into_iter().filter(is_other).map(str::to_owned).collect();
    pairs.extend(value.map(|value| format!("{key}:{value}")));
    pairs.join(",")
}

/// Shows the form; what is filled in afterwards.
pub fn show(ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, memory: &DeviceMemory, form: &mut WhatIfForm) {
    job::show(ui, cx, &mut form.job);
    let recorded = form.conf(snapshot);
    let mut text = recorded.clone();
    Grid::new("what if form").num_columns(2).spacing(vec2(2.0 * UNIT, UNIT)).show(ui, |ui| {
        settings(ui, cx, &mut text);
        if form.conf.is_some() {
            ui.label("");
            if ui.small_button("As recorded").on_hover_text("Back to the settings of the recording").clicked() {
                form.conf = None;
                text.clone_from(&form.conf(snapshot));
            }
            ui.end_row();
        }
        card(ui, form);
        policy(ui, form);
        caches(ui, form);
        recorded_with(ui, snapshot, form);
    });
    ui.checkbox(&mut form.endless, "Go on behind a failure")
        .on_hover_text("From the first failure on as if memory had no end: then the figures are of all that was recorded.");
    ui.checkbox(&mut form.smallest, "Look for the smallest card").on_hover_text(
        "The least memory with which everything is served, what failed in the recording too. Takes some ten runs.",
    );
    if memory.coverage.lacks(Missing::Start) {
        ui.checkbox(&mut form.from_empty, "Begin with an empty card")
            .on_hover_text("The recording begins mid-run; without this, a run begins with the segments that were there.");
    }
    if text != recorded {
        form.conf = Some(text);
    }
}

fn settings(ui: &mut Ui, cx: &Cx<'_>, text: &mut String) {
    ui.label("");
    let mut expandable = value_of(text, "expandable_segments") == Some("True");
    let help = "expandable_segments:True: segments grow page by page, so free memory is not cut up between them.";
    if ui.checkbox(&mut expandable, "Expandable segments").on_hover_text(help).changed() {
        *text = with_value(text, "expandable_segments", expandable.then_some("True"));
    }
    ui.end_row();
    for Setting { key, name, help, default, values } in SETTINGS {
        let label = ui.label(name).on_hover_text(help);
        let now = value_of(text, key).map(str::to_owned);
        let words = now.clone().unwrap_or_else(|| default.to_owned());
        let combo = ComboBox::from_id_salt(key).width(FIELD_PT).selected_text(words).show_ui(ui, |ui| {
            if ui.selectable_label(now.is_none(), default).clicked() {
                *text = with_value(text, key, None);
            }
            for value in values {
                if ui.selectable_label(now.as_deref() == Some(*value), *value).clicked() {
                    *text = with_value(text, key, Some(value));
                }
            }
        });
        combo.response.labelled_by(label.id).on_hover_text(help);
        ui.end_row();
    }
    let label = ui.label("As a string").on_hover_text(conf::VARIABLE);
    let field = TextEdit::singleline(text)
        .id(egui::Id::unique("what if settings"))
        .font(egui::TextStyle::Monospace)
        .hint_text(RichText::new("PyTorch's defaults").color(cx.tokens.weak))
        .desired_width(FIELD_PT);
    let full = text_of_hover(field, ui);
    full.labelled_by(label.id);
    ui.end_row();
}

fn text_of_hover(field: TextEdit<'_>, ui: &mut Ui) -> egui::Response {
    ui.add(field).on_hover_text("The whole PYTORCH_CUDA_ALLOC_CONF: type or paste one; the choices above follow it.")
}

fn card(ui: &mut Ui, form: &mut WhatIfForm) {
    let label = ui.label("On a card of");
    ui.horizontal(|ui| {
        let field = TextEdit::singleline(&mut form.card)
            .id(egui::Id::unique("what if card"))
            .hint_text("as recorded")
            .desired_width(22.0 * UNIT);
        ui.add(field).labelled_by(label.id).on_hover_text("All memory of the card, as 80GiB or in bytes");
        let combo = ComboBox::from_id_salt("what if cards").width(18.0 * UNIT).selected_text("choose").show_ui(ui, |ui| {
            if ui.selectable_label(form.card.is_empty(), "as recorded").clicked() {
                form.card.clear();
            }
            for gib in CARDS_GIB {
                let is_this = Bytes::parse(&form.card) == Some(Bytes(gib << 30));
                if ui.selectable_label(is_this, format!("{gib} GiB")).clicked() {
                    form.card = format!("{gib}GiB");
                }
            }
        });
        combo.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, "sizes of cards"));
    });
    ui.end_row();
    let help =
        "What contexts and other processes hold of the card. As recorded: what a failure in the recording tells, else none.";
    let label = ui.label("Held by others").on_hover_text(help);
    let field = TextEdit::singleline(&mut form.outside)
        .id(egui::Id::unique("what if outside"))
        .hint_text("as recorded")
        .desired_width(22.0 * UNIT);
    ui.add(field).labelled_by(label.id).on_hover_text(help);
    ui.end_row();
}

fn policy(ui: &mut Ui, form: &mut WhatIfForm) {
    if POLICIES.len() < 2 {
        return;
    }
    let label = ui.label("Allocator");
    let now = POLICIES.iter().find(|info| info.name == form.policy).unwrap_or(&POLICIES[0]);
    let combo = ComboBox::from_id_salt("what if policy").width(FIELD_PT).selected_text(now.name).show_ui(ui, |ui| {
        for info in &POLICIES {
            if ui.selectable_label(info.name == now.name, info.name).on_hover_text(info.about).clicked() {
                info.name.clone_into(&mut form.policy);
            }
        }
    });
    combo.response.labelled_by(label.id).on_hover_text(now.about);
    ui.end_row();
}

fn caches(ui: &mut Ui, form: &mut WhatIfForm) {
    let label = ui.label("empty_cache()").on_hover_text("When the job calls torch.cuda.empty_cache()");
    let words = Caches::ALL.iter().find(|(caches, _)| *caches == form.caches).map_or("", |(_, words)| words);
    let combo = ComboBox::from_id_salt("what if caches").width(FIELD_PT).selected_text(words).show_ui(ui, |ui| {
        for (caches, words) in Caches::ALL {
            ui.selectable_value(&mut form.caches, caches, words);
        }
    });
    combo.response.labelled_by(label.id);
    ui.end_row();
}

fn recorded_with(ui: &mut Ui, snapshot: &Snapshot, form: &mut WhatIfForm) {
    let help = "What the recording ran with where the file does not say: settings before PyTorch 2.3, a memory fraction, the \
                card's size. Written as max_split_size_mb:128,per_process_memory_fraction:0.5,total:80GiB.";
    let label = ui.label("Recorded with").on_hover_text(help);
    let hint = if snapshot.settings.stated { "as the file says" } else { "the file does not say" };
    let field =
        TextEdit::singleline(&mut form.recorded).id(egui::Id::unique("what if recorded")).hint_text(hint).desired_width(FIELD_PT);
    ui.add(field).labelled_by(label.id).on_hover_text(help);
    ui.end_row();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_changes_its_own_key_alone() {
        let conf = "backend:native, roundup_power2_divisions:[64:8,>:1],max_split_size_mb:64";
        for (key, value, expected) in [
            ("max_split_size_mb", None, "backend:native,roundup_power2_divisions:[64:8,>:1]"),
            ("max_split_size_mb", Some("128"), "backend:native,roundup_power2_divisions:[64:8,>:1],max_split_size_mb:128"),
            ("roundup_power2_divisions", None, "backend:native,max_split_size_mb:64"),
            (
                "expandable_segments",
                Some("True"),
                "backend:native,roundup_power2_divisions:[64:8,>:1],max_split_size_mb:64,expandable_segments:True",
            ),
        ] {
            let changed = with_value(conf, key, value);
            assert_eq!((changed.as_str(), value_of(&changed, key)), (expected, value));
        }
        assert_eq!(value_of("expandable_segments:False,expandable_segments:True", "expandable_segments"), Some("True"));
    }
}
