//! What was reserved over time in what if: the recording, the row in front, and rows that are kept beside them.
//!
//! Always: a row keeps its colour as long as it is drawn; a line that is not known yet is asked for once.

use crate::analysis::UsageTimeline;
use crate::base::Bytes;
use crate::chart::{Group, Ink, Series, Unit};
use crate::paint::{SeriesView, series as plot};
use crate::session::Command;
use crate::session::what_if::{Try, WhatIfDeed};
use crate::ui::theme::UNIT;
use crate::ui::views::view::Cx;
use crate::ui::views::what_if::name_of;
use crate::ui::widgets::icon::{Icon, icon_button};
use egui::text::{LayoutJob, TextFormat};
use egui::{Color32, Id, RichText, TextStyle, Ui, Vec2, vec2};
use std::collections::BTreeSet;

/// Rows drawn at once beside the recording; each has a colour of its own.
pub const MOST_LINES: usize = 6;
/// The inks of the rows: neighbours are far apart in hue.
const INKS: [Ink; MOST_LINES] = [Ink::Series(0), Ink::Series(4), Ink::Series(2), Ink::Series(3), Ink::Series(1), Ink::Series(5)];

/// Which rows are drawn.
#[derive(Clone, Debug, Default)]
pub struct WhatIfChart {
    /// Rows that stay, by their numbers, each in the place of its ink.
    kept: [Option<u32>; MOST_LINES],
    /// Rows whose line was asked for.
    asked: BTreeSet<u32>,
    /// No line of the chart is hidden; it asks for a set.
    unseen: BTreeSet<&'static str>,
}

impl WhatIfChart {
    /// Whether a row stays in the chart.
    pub fn keeps(&self, number: u32) -> bool {
        self.kept.contains(&Some(number))
    }
    /// Whether there is an ink left to keep another row.
    pub fn has_room(&self) -> bool {
        self.kept.iter().filter(|kept| kept.is_none()).count() > 1
    }
    /// Keeps a row, or keeps it no longer.
    pub fn toggle(&mut self, number: u32) {
        if let Some(place) = self.kept.iter().position(|kept| *kept == Some(number)) {
            self.kept[place] = None;
        } else if self.has_room()
            && let Some(free) = self.kept.iter().position(Option::is_none)
        {
            self.kept[free] = Some(number);
        }
    }
    /// Forgets rows that are no longer there.
    pub fn retain(&mut self, rows: &[Try]) {
        for kept in &mut self.kept {
            *kept = kept.filter(|number| rows.iter().any(|row| row.number == *number));
        }
    }
    /// The ink of a row that is drawn: one that is kept, or the row in front, which takes what is free.
    fn ink(&self, number: u32, front: u32) -> Option<Ink> {
        let place = self.kept.iter().position(|kept| *kept == Some(number));
        let free = || self.kept.iter().position(Option::is_none).filter(|_| number == front);
        place.or_else(free).map(|place| INKS[place])
    }
    /// The colour a row is drawn with.
    pub fn colour(&self, cx: &Cx<'_>, number: u32, front: u32) -> Option<Color32> {
        self.ink(number, front).map(|ink| crate::paint::colour(cx.tokens.palette, ink))
    }
    /// Shows the chart in a room of this size.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, rows: &[Try], front: &Try, size: Vec2) {
        let usage = cx.ask::<UsageTimeline>(());
        let (Some(usage), Some(clock), Some(place)) = (usage.value(), cx.session.clock(), cx.place()) else { return };
        let drawn: Vec<(&Try, Ink)> = rows.iter().filter_map(|row| Some((row, self.ink(row.number, front.number)?))).collect();
        for (row, _) in &drawn {
            if row.reserved.is_none() && self.asked.insert(row.number) {
                cx.send(Command::WhatIf(WhatIfDeed::Draw(row.number)));
            }
        }
        let capacity = front.row.scenario.capacity;
        let top = ui.cursor().min.y;
        let taken_out = legend(ui, cx, &drawn, front, capacity);
        if let Some(number) = taken_out {
            self.toggle(number);
        }
        let line = |name, help, label, ink, curve| {
            let (unit, group, shown, bucket) = (Unit::Bytes, Group::Device, true, None);
            Series { name, label, help, ink, unit, group, shown, curve, bucket }
        };
        let recorded = line("recorded", "What was reserved in the recording", None, Ink::Reserved, &usage.reserved);
        let others = drawn.iter().filter_map(|(row, ink)| {
            let label = Some(format!("No. {}", row.number));
            Some(line("what if", "What a row reserves", label, *ink, row.reserved.as_ref()?))
        });
        let series: Vec<Series<'_>> = std::iter::once(recorded).chain(others).collect();
        let height = size.y - (ui.cursor().min.y - top) - UNIT;
        let view = SeriesView {
            id: Id::unique("what if over time"),
            series: &series,
            unit: Unit::Bytes,
            clock: &clock.clock,
            time: cx.session.window(&clock.clock),
            markers: &[],
            level: capacity.map(|bytes| (bytes, Ink::Capacity)),
            labels: true,
            pointer: None,
            cursor: Some(place.cursor),
            range: None,
            hidden: &self.unseen,
            palette: cx.tokens.palette,
            size: vec2(size.x, height.max(10.0 * UNIT)),
        };
        plot::show(ui, &view);
    }
}

/// What each line is; gives the row that was taken out.
fn legend(ui: &mut Ui, cx: &Cx<'_>, drawn: &[(&Try, Ink)], front: &Try, capacity: Option<u64>) -> Option<u32> {
    let mut taken_out = None;
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(2.0 * UNIT, 0.0);
        ui.add_space(2.0 * UNIT);
        ui.label(RichText::new("Reserved over time").color(cx.tokens.weak));
        let entry = |ui: &mut Ui, ink: Ink, text: &str| {
            let mut job = LayoutJob::default();
            let font = TextStyle::Body.resolve(ui.style());
            let colour = crate::paint::colour(cx.tokens.palette, ink);
            job.append("— ", 0.0, TextFormat::simple(font.clone(), colour));
            job.append(text, 0.0, TextFormat::simple(font, cx.tokens.text));
            ui.label(job)
        };
        entry(ui, Ink::Reserved, "recorded");
        for (row, ink) in drawn {
            let wait = if row.reserved.is_none() { " (under way)" } else { "" };
            entry(ui, *ink, &format!("No. {}{wait}", row.number)).on_hover_text(name_of(row));
            if row.number != front.number {
                let name = format!("take No. {} out of the chart", row.number);
                if icon_button(ui, Icon::Close, &name, false).on_hover_text(&name).clicked() {
                    taken_out = Some(row.number);
                }
            }
        }
        if let Some(capacity) = capacity {
            entry(ui, Ink::Capacity, &format!("can hold {}", Bytes(capacity)))
                .on_hover_text("The most that the allocator can hold of the card");
        }
    });
    taken_out
}
