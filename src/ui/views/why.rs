//! Why it failed: the verdict, where every byte was, what was found, and what to try.
//!
//! Always: it is about a failure, not about the cursor: of several the one at the cursor is shown, else the one chosen
//! last; where nothing failed, it tells of the peak. All figures are those of `why` on the command line.

use crate::analysis::UsageTimeline;
use crate::analysis::diagnosis::{Card, Case, Certainty, Diagnosis, DiagnosisParams, Finding, OomMessage, Severity, Verdict};
use crate::base::{Bytes, counted, grouped};
use crate::chart::parts_bar::{self, PartLook};
use crate::model::{DeviceMemory, Item, Position, Snapshot};
use crate::paint;
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::byte_label::byte_label;
use crate::ui::widgets::text::{no_stack, telling_line};
use egui::{CollapsingHeader, ComboBox, Grid, RichText, ScrollArea, Sense, TextEdit, TextStyle, Ui, vec2};
use std::fmt::Write as _;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "why",
    title: "Why it failed",
    help: "The verdict on an out-of-memory error: where every byte was, what was found, what to try.",
    open: || Box::new(Why::default()),
};

/// Height of the bar of all bytes, in points.
const BAR_PT: f32 = 5.0 * UNIT;
/// Things to look at that are named under a finding.
const MOST_NAMED: usize = 6;

#[derive(Clone, Default)]
struct Why {
    /// The failure shown while the cursor is at none.
    chosen: Option<Position>,
    /// What stands in the field of the card's size; none: nobody writes in it.
    size: Option<String>,
    /// What stands in the field of PyTorch's message, while it is open.
    message: Option<String>,
}

impl View for Why {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let params = cx.session.card();
        let answer = cx.ask::<Diagnosis>(params.clone());
        cx.show(ui, &answer, |ui, diagnosis| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                egui::Frame::new().inner_margin(2.0 * UNIT).show(ui, |ui| {
                    self.body(ui, cx, &document.snapshot, memory, diagnosis, &params);
                });
            });
        });
    }
}

impl Why {
    fn body(
        &mut self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        snapshot: &Snapshot,
        memory: &DeviceMemory,
        diagnosis: &Diagnosis,
        params: &DiagnosisParams,
    ) {
        let at = |position: Position| diagnosis.cases.iter().find(|case| case.at == position);
        let shown = at(cx.cursor()).or_else(|| self.chosen.and_then(at)).or(diagnosis.cases.last());
        let Some(case) = shown else { return };
        self.chosen = Some(case.at);
        if 1 < diagnosis.cases.len() {
            self.chooser(ui, cx, diagnosis, case);
        }
        verdict(ui, cx, case);
        ui.add_space(UNIT);
        account(ui, cx, case);
        self.card(ui, cx, params);
        if case.at != cx.cursor() {
            let what = if case.request.is_some() { "Go to the failure" } else { "Go to the peak" };
            if ui.button(what).clicked() {
                cx.send(Command::MoveCursor(case.at));
            }
        }
        if memory.has_history() {
            let help = "Serves the recorded requests again under other settings or on another card";
            if ui.button("What if?").on_hover_text(help).clicked() {
                cx.show_view(ui.ctx(), "what-if");
            }
        }
        let dump = memory.end();
        if case.request.is_some() && case.at != dump && memory.has_history() {
            let answer = cx.ask::<UsageTimeline>(());
            if let Some(usage) = answer.value() {
                let totals = usage.totals_at(dump);
                let text = format!(
                    "When the file was written, {} later, {} were allocated and {} reserved.",
                    counted(u64::from(dump.0 - case.at.0), "event"),
                    Bytes(totals.allocated),
                    Bytes(totals.reserved)
                );
                ui.label(RichText::new(text).color(cx.tokens.weak));
            }
        }
        ui.add_space(UNIT);
        ui.horizontal(|ui| {
            ui.strong("Findings");
            if ui.small_button("Copy findings").clicked() {
                ui.copy_text(as_text(snapshot, memory, case));
            }
        });
        for (place, finding) in case.findings.iter().enumerate() {
            show_finding(ui, cx, snapshot, memory, finding, (case.at, place));
        }
    }

    fn chooser(&mut self, ui: &mut Ui, cx: &Cx<'_>, diagnosis: &Diagnosis, case: &Case) {
        let words = |case: &Case| match &case.request {
            Some(request) => format!("event {}: {}", grouped(u64::from(request.event.0)), Bytes(request.tried)),
            None => "the peak".to_owned(),
        };
        ui.horizontal(|ui| {
            let label = ui.label(format!("{} failures, shown:", grouped(diagnosis.cases.len() as u64)));
            let combo = ComboBox::from_id_salt("failure").selected_text(words(case)).show_ui(ui, |ui| {
                for other in &diagnosis.cases {
                    if ui.selectable_label(other.at == case.at, words(other)).clicked() {
                        self.chosen = Some(other.at);
                        cx.send(Command::MoveCursor(other.at));
                    }
                }
            });
            combo.response.labelled_by(label.id);
        });
    }

    /// The card's size and PyTorch's message: what a snapshot does not hold.
    fn card(&mut self, ui: &mut Ui, cx: &Cx<'_>, params: &DiagnosisParams) {
        let send = |card: Card, messages: Option<Vec<OomMessage>>| {
            let messages = messages.map_or_else(|| params.messages.clone(), Into::into);
            cx.send(Command::SetCard(DiagnosisParams { card, messages, tried: None }));
        };
        ui.horizontal(|ui| {
            let label = ui.label("Card");
            let known = params.card.total.map_or(String::new(), |total| Bytes(total).to_string());
            let text = self.size.get_or_insert_with(|| known.clone());
            let valid = text.trim().is_empty() || Bytes::parse(text).is_some_and(|bytes| 0 < bytes.0);
            let field = TextEdit::singleline(text)
                .id(egui::Id::unique("card size"))
                .hint_text("80GiB")
                .text_color_opt((!valid).then_some(cx.tokens.error))
                .desired_width(22.0 * UNIT);
            let response = ui.add(field).labelled_by(label.id);
            let response = response.on_hover_text("All memory of the card, as 80GiB or in bytes: a snapshot does not hold it.");
            if response.lost_focus() && valid {
                let total = Bytes::parse(text).map(|bytes| bytes.0);
                send(Card { total, ..params.card }, None);
                self.size = None;
            } else if !response.has_focus() && valid {
                // Undo, or another file, may have changed it.
                self.size = None;
            }
            let open = self.message.is_some();
            let title = if params.messages.is_empty() { "PyTorch's message…" } else { "PyTorch's message is known…" };
            if ui.selectable_label(open, title).clicked() {
                self.message = if open { None } else { Some(String::new()) };
            }
        });
        let Some(text) = &mut self.message else { return };
        let field = TextEdit::multiline(text)
            .id(egui::Id::unique("message"))
            .hint_text("Paste the log with “CUDA out of memory. Tried to allocate …”")
            .desired_rows(4)
            .desired_width(f32::INFINITY);
        let name = ui.label("The error's text tells the card's size and who else held memory.");
        ui.add(field).labelled_by(name.id);
        let found = OomMessage::all_of(text);
        let mut close = false;
        ui.horizontal(|ui| {
            ui.add_enabled_ui(!found.is_empty(), |ui| {
                if ui.button("Use it").clicked() {
                    send(params.card, Some(found.clone()));
                    close = true;
                }
            });
            if !params.messages.is_empty() && ui.button("Forget it").clicked() {
                send(params.card, Some(Vec::new()));
                close = true;
            }
            if found.is_empty() && !text.trim().is_empty() {
                ui.label(RichText::new("No such message stands in this text.").color(cx.tokens.caution));
            }
        });
        if close {
            self.message = None;
        }
    }
}

fn verdict(ui: &mut Ui, cx: &Cx<'_>, case: &Case) {
    let colour = match case.verdict {
        Verdict::None => cx.tokens.text,
        Verdict::Unknown => cx.tokens.caution,
        _ => cx.tokens.error,
    };
    ui.label(RichText::new(case.verdict.title()).text_style(TextStyle::Heading).color(colour));
    // The heading says the first words already.
    let sentence = case.sentence.strip_prefix(&format!("{}: ", case.verdict.title())).unwrap_or(&case.sentence);
    ui.add(egui::Label::new(sentence).wrap());
}

/// Name, look and meaning of each part, in the order of [`crate::analysis::diagnosis::Accounting::parts`].
const PARTS: [(&str, PartLook, &str); 8] = [
    ("live", PartLook::Live, "What the program asked for, over blocks in use."),
    ("rounding", PartLook::Rounding, "What rounding added to these blocks, and what was not split off."),
    ("pending free", PartLook::Pending, "Given back, still waiting for another stream."),
    ("free, usable", PartLook::Usable, "Gaps that could serve the request; where nothing failed, all gaps of the default pool."),
    ("free, too small", PartLook::TooSmall, "Gaps of the request's own pool and stream that are smaller than it."),
    ("free, trapped", PartLook::Trapped, "Gaps of other pools and streams, or kept from the request by a setting."),
    ("outside PyTorch", PartLook::Outside, "Held by contexts, libraries and other processes."),
    ("left on the device", PartLook::Untouched, "What the driver could still give."),
];

fn account(ui: &mut Ui, cx: &Cx<'_>, case: &Case) {
    let account = &case.accounting;
    let parts = account.parts();
    let looks: Vec<(PartLook, u64)> =
        PARTS.iter().zip(&parts).map(|((_, look, _), (_, bytes))| (*look, bytes.unwrap_or(0))).collect();
    let (response, painter) = ui.allocate_painter(vec2(ui.available_width(), BAR_PT), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, "Where every byte is"));
    let drawing = parts_bar::draw(&looks, response.rect.width(), BAR_PT);
    paint::paint(&painter, response.rect.min, &drawing, cx.tokens.palette, &|_| None);
    let within = account.within().max(1);
    Grid::new("account").num_columns(4).min_row_height(4.5 * UNIT).min_col_width(0.0).spacing(vec2(2.0 * UNIT, 0.0)).show(
        ui,
        |ui| {
            // A part without bytes has no place in the bar, and none here; what is not known is said.
            // What is free of segments that nothing tells of is said above, once.
            let shown = |part: &str, bytes: Option<u64>| bytes != Some(0) && !(account.free_unknown && part.starts_with("free"));
            for ((name, look, meaning), (_, bytes)) in PARTS.iter().zip(&parts).filter(|(_, (part, bytes))| shown(part, *bytes)) {
                let (swatch, painter) = ui.allocate_painter(vec2(2.5 * UNIT, 2.5 * UNIT), Sense::hover());
                let drawing = parts_bar::draw(&[(*look, 1)], swatch.rect.width(), swatch.rect.height());
                paint::paint(&painter, swatch.rect.min, &drawing, cx.tokens.palette, &|_| None);
                ui.label(*name).on_hover_text(*meaning);
                match bytes {
                    Some(bytes) => {
                        byte_label(ui, name, *bytes);
                        let share = format!("{:.1} %", *bytes as f64 * 100.0 / within as f64);
                        ui.label(RichText::new(share).color(cx.tokens.weak));
                    }
                    None => {
                        ui.label(RichText::new("unknown").color(cx.tokens.weak)).on_hover_text(
                            "The card's size, or a failure that tells what the driver had left, is needed for this.",
                        );
                    }
                }
                ui.end_row();
            }
        },
    );
}

fn show_finding(
    ui: &mut Ui,
    cx: &Cx<'_>,
    snapshot: &Snapshot,
    memory: &DeviceMemory,
    finding: &Finding,
    salt: (Position, usize),
) {
    let (word, colour) = match finding.severity {
        Severity::Cause => ("Cause", cx.tokens.error),
        Severity::Warning => ("Warning", cx.tokens.caution),
        Severity::Note => ("Note", cx.tokens.weak),
    };
    let title = RichText::new(format!("{word}: {}", finding.title)).color(colour);
    let header = CollapsingHeader::new(title).id_salt(salt).default_open(Severity::Note < finding.severity);
    header.show(ui, |ui| {
        ui.add(egui::Label::new(&finding.sentence).wrap());
        for row in &finding.stacks {
            let name = telling_line(&snapshot.stacks, row.stack).unwrap_or_else(|| no_stack(row.stack).to_owned());
            let text = format!("{}  {name}", Bytes(row.bytes));
            let selected = cx.selected() == Some(Item::Stack(row.stack));
            let response = ui.add(egui::Button::selectable(selected, text).truncate());
            if response.clicked() {
                cx.send(Command::Select(Item::Stack(row.stack)));
            }
            response.on_hover_text(format!("{} in {}", Bytes(row.bytes).exact(), counted(row.count, "block")));
        }
        if !finding.evidence.is_empty() {
            ui.horizontal_wrapped(|ui| {
                ui.label(RichText::new("Look at").color(cx.tokens.weak));
                for item in finding.evidence.iter().take(MOST_NAMED) {
                    if ui.link(item_words(snapshot, memory, *item)).clicked() {
                        cx.send(Command::Select(*item));
                    }
                }
                if MOST_NAMED < finding.evidence.len() {
                    let more = format!("and {} more", finding.evidence.len() - MOST_NAMED);
                    ui.label(RichText::new(more).color(cx.tokens.weak));
                }
            });
        }
        if !finding.suggestion.is_empty() {
            ui.add(egui::Label::new(format!("Try: {}", finding.suggestion)).wrap());
        }
        if finding.certainty != Certainty::Certain {
            let text = format!("{}: {}", sure(finding.certainty), finding.because);
            ui.add(egui::Label::new(RichText::new(text).color(cx.tokens.weak)).wrap());
        }
    });
}

fn sure(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Possible => "Possible",
        Certainty::Likely => "Likely",
        Certainty::Certain => "Certain",
    }
}

fn item_words(snapshot: &Snapshot, memory: &DeviceMemory, item: Item) -> String {
    match item {
        Item::Allocation(id) if (id.0 as usize) < memory.allocations.len() => {
            let life = memory.allocations.get(id);
            format!("{} ({})", life.label(), Bytes(life.size))
        }
        Item::Segment(id) => memory
            .segments
            .get(id)
            .map_or_else(|| "segment".to_owned(), |segment| format!("segment 0x{:x} ({})", segment.address, Bytes(segment.size))),
        Item::Gap { address, size } => format!("gap 0x{address:x} ({})", Bytes(size)),
        Item::Event(event) => format!("event {}", grouped(u64::from(event.0))),
        Item::Stack(stack) => telling_line(&snapshot.stacks, stack).unwrap_or_else(|| no_stack(stack).to_owned()),
        Item::Allocation(_) => "block".to_owned(),
    }
}

/// The case as people paste it. Writing into a text cannot fail, so results of `write!` are dropped here.
fn as_text(snapshot: &Snapshot, memory: &DeviceMemory, case: &Case) -> String {
    let mut text = format!("{}, {}\n{}\n\n", snapshot.origin.name, memory.title(), case.sentence);
    for ((name, ..), (_, bytes)) in PARTS.iter().zip(case.accounting.parts()) {
        let _ = writeln!(text, "{name}: {}", bytes.map_or("unknown".to_owned(), |bytes| Bytes(bytes).exact()));
    }
    for finding in &case.findings {
        let _ = writeln!(text, "\n{} ({}): {}", finding.rule, finding.severity.name(), finding.sentence);
        for row in &finding.stacks {
            let name = telling_line(&snapshot.stacks, row.stack).unwrap_or_else(|| no_stack(row.stack).to_owned());
            let _ = writeln!(text, "  {}  {name}", Bytes(row.bytes).exact());
        }
        if !finding.suggestion.is_empty() {
            let _ = writeln!(text, "  Try: {}", finding.suggestion);
        }
    }
    text
}
