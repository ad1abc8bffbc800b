//! The counters over time: how much is reserved, in use, free, and how free memory is cut up.
//!
//! Always: the horizontal axis is the window all views share; lines come from curves that jobs made, and a
//! frame lays out the visible pixel columns of the visible series.

use crate::analysis::{Fragmentation, UsageTimeline};
use crate::base::Bytes;
use crate::chart::series::{Marker, all_series, markers};
use crate::chart::{Clock, Group, Ink, Scale, Series, Unit};
use crate::model::DeviceMemory;
use crate::paint::{SeriesResponse, SeriesView};
use crate::paint::{colour, series as plot};
use crate::session::Command;
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Canvas, Gesture, over};
use crate::ui::widgets::time_hand::act_on_time;
use egui::text::{LayoutJob, TextFormat};
use egui::{ComboBox, Id, Label, Rect, Response, Role, Sense, Stroke, StrokeKind, TextStyle, Ui, Vec2, WidgetInfo, pos2};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "charts",
    title: "Charts",
    help: "Counters over time, exact under the pointer. Click a name in the legend to show or hide its line.",
    open: || Box::new(Charts::default()),
};

#[derive(Clone)]
struct Charts {
    unit: Unit,
    group: Group,
    /// Failures and snapshots of the curves they belong to.
    markers: Option<(Arc<UsageTimeline>, Vec<Marker>)>,
    /// Names of series that were switched from what they are at first.
    switched: BTreeSet<&'static str>,
}

impl Default for Charts {
    fn default() -> Self {
        Charts { unit: Unit::Bytes, group: Group::Device, markers: None, switched: BTreeSet::new() }
    }
}

impl View for Charts {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.empty(ui, "No file is open. Open one from the File menu, or drop it onto the window.");
        };
        if !memory.has_history() {
            let why = "This device has no history, so nothing changes over time. The live set and the segments show its memory at the dump.";
            return cx.empty(ui, why);
        }
        let (usage, fragmentation) = (cx.ask::<UsageTimeline>(()), cx.ask::<Fragmentation>(()));
        let Some(usage) = usage.value() else { return cx.show(ui, &usage, |_, _| {}) };
        let Some(clock) = cx.session.clock() else {
            return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
        };
        cx.show(ui, &fragmentation, |ui, fragmentation| {
            let all = all_series(&document.snapshot, usage, fragmentation);
            self.show(ui, cx, &all, usage, memory, &clock.clock);
        });
    }
}

impl Charts {
    fn show(
        &mut self,
        ui: &mut Ui,
        cx: &Cx<'_>,
        all: &[Series<'_>],
        usage: &Arc<UsageTimeline>,
        memory: &DeviceMemory,
        clock: &Clock,
    ) {
        let Some(place) = cx.place() else { return };
        // Another file may not have the pool that was chosen.
        if !all.iter().any(|series| series.group == self.group) {
            self.group = Group::Device;
        }
        if !all.iter().any(|series| series.group == self.group && series.unit == self.unit) {
            self.unit = Unit::Bytes;
        }
        self.header(ui, cx, all);
        let hidden: BTreeSet<&'static str> =
            all.iter().filter(|series| !self.is_shown(series)).map(|series| series.name).collect();
        let series: Vec<Series<'_>> =
            all.iter().filter(|series| series.group == self.group && series.unit == self.unit).cloned().collect();
        if self.markers.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, usage)) {
            self.markers = Some((Arc::clone(usage), markers(memory)));
        }
        let user = ('A'..='Z').zip(&place.marks);
        let user = user.map(|(name, at)| Marker { position: *at, ink: Ink::UserMark, name: format!("mark {name}") });
        let mut shown: Vec<Marker> = self.markers.iter().flat_map(|(_, markers)| markers.iter().cloned()).chain(user).collect();
        shown.sort_by_key(|marker| marker.position);
        let view = SeriesView {
            id: Id::unique(("charts", self.unit as u8, &self.group)),
            series: &series,
            unit: self.unit,
            clock,
            time: cx.session.window(clock),
            markers: &shown,
            cursor: Some(place.cursor),
            range: place.range.clone(),
            hidden: &hidden,
            palette: cx.tokens.palette,
            size: ui.available_size(),
        };
        let SeriesResponse { response, plot: rect, .. } = plot::show(ui, &view);
        act(ui, cx, &over(ui, response, rect, "charts"), clock);
    }

    fn header(&mut self, ui: &mut Ui, cx: &Cx<'_>, all: &[Series<'_>]) {
        let margin = egui::Margin { left: UNIT as i8, ..egui::Margin::ZERO };
        let line = |ui: &mut Ui| {
            let label = ui.label("Of");
            let groups = all.iter().map(|series| &series.group);
            let combo = ComboBox::from_id_salt("chart group").selected_text(group_name(&self.group)).show_ui(ui, |ui| {
                let mut last = None;
                for group in groups {
                    if last.replace(group) != Some(group)
                        && ui.selectable_label(*group == self.group, group_name(group)).clicked()
                    {
                        self.group = group.clone();
                    }
                }
            });
            combo.response.labelled_by(label.id);
            for (unit, name) in [(Unit::Bytes, "Bytes"), (Unit::Count, "Counts"), (Unit::Share, "Shares")] {
                let some = all.iter().any(|series| series.group == self.group && series.unit == unit);
                if some && ui.selectable_label(unit == self.unit, name).clicked() {
                    self.unit = unit;
                }
            }
            ui.add_space(UNIT);
            for series in all.iter().filter(|series| series.group == self.group && series.unit == self.unit) {
                if legend_entry(ui, cx, series, self.is_shown(series)).clicked() && !self.switched.remove(series.name) {
                    self.switched.insert(series.name);
                }
            }
        };
        egui::Frame::new().inner_margin(margin).show(ui, |ui| ui.horizontal_wrapped(line));
    }

    fn is_shown(&self, series: &Series<'_>) -> bool {
        series.shown != self.switched.contains(series.name)
    }
}

/// A series' colour, name and value at the cursor; a click shows or hides its line.
fn legend_entry(ui: &mut Ui, cx: &Cx<'_>, series: &Series<'_>, shown: bool) -> Response {
    let swatch = 2.5 * UNIT;
    let font = TextStyle::Body.resolve(ui.style());
    let mut name = format!("{}, hidden", series.name);
    let mut job = LayoutJob::default();
    job.append(series.name, swatch + UNIT, TextFormat::simple(font.clone(), cx.tokens.weak));
    if shown {
        let value = series.curve.at(cx.cursor());
        let value = if series.unit == Unit::Bytes { Bytes(value).to_string() } else { series.label_at(cx.cursor()) };
        name = format!("{}, {value}", series.name);
        job.append(&value, UNIT, TextFormat::simple(font, cx.tokens.text));
    }
    let response = ui.add(Label::new(job).sense(Sense::click()).selectable(false).extend());
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, shown, &name));
    let square = Rect::from_min_size(pos2(response.rect.min.x, response.rect.center().y - swatch / 2.0), Vec2::splat(swatch));
    let colour = colour(cx.tokens.palette, series.ink);
    if shown {
        ui.painter().rect_filled(square, 0.0, colour);
    } else {
        ui.painter().rect_stroke(square, 0.0, Stroke::new(1.0, colour), StrokeKind::Inside);
    }
    let exact = format!("{} at the cursor: {}", series.name, series.label_at(cx.cursor()));
    response.on_hover_cursor(egui::CursorIcon::PointingHand).on_hover_ui(|ui| {
        ui.label(exact);
        ui.label(series.help);
        ui.weak(if shown { "Click to hide its line" } else { "Click to show its line" });
    })
}

fn group_name(group: &Group) -> &str {
    match group {
        Group::Device => "whole device",
        Group::Pool(name) => name,
    }
}

/// The same hand as on the usage picture: what moves there moves here.
fn act(ui: &Ui, cx: &Cx<'_>, canvas: &Canvas, clock: &Clock) {
    let time = Scale::new(cx.session.window(clock), 0.0, canvas.rect.width().max(1.0));
    for gesture in &canvas.gestures {
        match *gesture {
            Gesture::Click(at) => cx.send(Command::MoveCursor(clock.position(time.unit(at[0])))),
            // The value axis always holds what is visible.
            Gesture::ZoomBytes { .. } | Gesture::Measure(..) => {}
            Gesture::Zoom { .. }
            | Gesture::Pan(_)
            | Gesture::Drag { .. }
            | Gesture::Range(..)
            | Gesture::RangeDone
            | Gesture::DoubleClick(_) => act_on_time(ui, cx, clock, &time, gesture),
        }
    }
}
