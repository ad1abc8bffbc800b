//! The counters over time: how much is reserved, in use, free, how free memory is cut up, how fast it moves.
//!
//! Always: the horizontal axis is the window all views share, the same in every plot; lines come from curves that jobs
//! made, and a frame lays out the visible pixel columns of the visible series.

use crate::analysis::{Capacity, Fragmentation, GroupCurves, RateParams, Rates, SegmentCost, UsageTimeline};
use crate::base::Bytes;
use crate::chart::series::{Marker, MarkerKind, all_series, bucket_of, bucket_words, capacity_words, group_name};
use crate::chart::{Area, Clock, Drawing, Group, GroupData, Ink, Scale, Series, TimeAxis, Unit, spans};
use crate::model::{DeviceMemory, Position, Snapshot};
use crate::paint::{self, SeriesResponse, SeriesView};
use crate::paint::{colour, series as plot};
use crate::session::lookups::{MarkersOf, WeighedMarkers};
use crate::session::{Answer, Command};
use crate::ui::theme::UNIT;
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Canvas, Gesture, canvas, over};
use crate::ui::widgets::span_hand;
use crate::ui::widgets::time_hand::act_on_time;
use egui::scroll_area::ScrollSource;
use egui::text::{LayoutJob, TextFormat};
use egui::{
    ComboBox, Id, Label, Rect, Response, RichText, Role, ScrollArea, Sense, Stroke, StrokeKind, TextStyle, Ui, Vec2, WidgetInfo,
};
use egui::{pos2, vec2};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "charts",
    title: "Charts",
    help: "Counters over time, exact under the pointer: for the device, a pool or a stream. Click a name in a legend to show \
           or hide its line, and the names above to show several plots one below the other.",
    open: || Box::new(Charts::default()),
};

/// Series of one unit share a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Panel {
    Bytes,
    Counts,
    Shares,
    ByteRates,
    CountRates,
    DriverTime,
}

impl Panel {
    const ALL: [Panel; 6] = [Panel::Bytes, Panel::Counts, Panel::Shares, Panel::ByteRates, Panel::CountRates, Panel::DriverTime];

    const fn of(unit: Unit) -> Panel {
        match unit {
            Unit::Bytes => Panel::Bytes,
            Unit::Count => Panel::Counts,
            Unit::Share => Panel::Shares,
            Unit::ByteRate(_) => Panel::ByteRates,
            Unit::CountRate(_) => Panel::CountRates,
            Unit::Micros => Panel::DriverTime,
        }
    }
    const fn name(self) -> &'static str {
        match self {
            Panel::Bytes => "Bytes",
            Panel::Counts => "Counts",
            Panel::Shares => "Shares",
            Panel::ByteRates => "Byte rates",
            Panel::CountRates => "Call rates",
            Panel::DriverTime => "Driver time",
        }
    }
    /// What assistive tools and tests call its plot.
    const fn canvas(self) -> &'static str {
        match self {
            Panel::Bytes => "charts",
            Panel::Counts => "chart of counts",
            Panel::Shares => "chart of shares",
            Panel::ByteRates => "chart of byte rates",
            Panel::CountRates => "chart of call rates",
            Panel::DriverTime => "chart of driver time",
        }
    }
    const fn help(self) -> &'static str {
        match self {
            Panel::Bytes => "Sizes",
            Panel::Counts => "Numbers of blocks and segments",
            Panel::Shares => "Parts of a whole",
            Panel::ByteRates => "How many bytes are allocated and freed in a stretch of the axis",
            Panel::CountRates => "How many blocks are allocated and freed in a stretch of the axis",
            Panel::DriverTime => "How long calls to the driver took at most",
        }
    }
}

/// A plot with its legend needs so much, in points, for spans to stand below it.
const LEAST_PT: f32 = 150.0;
/// No plot with its legend is smaller; several that would be are scrolled.
const SMALLEST_PT: f32 = 110.0;
/// Below this height of a plot with its legend, the legend is one line.
const TIGHT_PT: f32 = 220.0;

#[derive(Clone)]
struct Charts {
    panels: BTreeSet<Panel>,
    group: Group,
    /// The groups there are, of the device whose curves these are.
    groups: Option<(Arc<UsageTimeline>, Vec<Group>)>,
    /// Kinds of markers that are not drawn.
    unmarked: BTreeSet<MarkerKind>,
    marked: Option<Marked>,
    /// Names of series that were switched from what they are at first.
    switched: BTreeSet<&'static str>,
    /// Where the pointer was on a plot in the last frame, and on which.
    pointer: Option<(Panel, f64)>,
}

/// The markers that are drawn, with what they follow from.
#[derive(Clone)]
struct Marked {
    of: Arc<WeighedMarkers>,
    unmarked: BTreeSet<MarkerKind>,
    user: Vec<Position>,
    /// Kinds that occur in the recording.
    kinds: BTreeSet<MarkerKind>,
    shown: Vec<Marker>,
}

impl Default for Charts {
    fn default() -> Self {
        Charts {
            panels: BTreeSet::from([Panel::Bytes]),
            group: Group::Device,
            groups: None,
            unmarked: BTreeSet::new(),
            marked: None,
            switched: BTreeSet::new(),
            pointer: None,
        }
    }
}

/// What one frame shows.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    usage: &'a UsageTimeline,
    clock: &'a Clock,
    series: &'a [Series<'a>],
    rates: Option<&'a Rates>,
    markers: &'a [Marker],
}

impl View for Charts {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((document, _, memory)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        if !memory.has_history() {
            let why = "This device has no history, so nothing changes over time. The live set and the segments show its memory at the dump.";
            return cx.empty(ui, why);
        }
        let usage = cx.ask::<UsageTimeline>(());
        let Some(usage) = usage.value() else { return cx.show(ui, &usage, |_, _| {}) };
        let Some(clock) = cx.session.clock() else {
            return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
        };
        let clock = &clock.clock;
        self.find_groups(memory, usage);
        self.mark(cx);
        self.header(ui, cx, &document.snapshot, Capacity::of(memory, usage));
        let cost = cx.ask::<SegmentCost>(self.group);
        let rates = self.panels.iter().any(|panel| matches!(panel, Panel::ByteRates | Panel::CountRates)).then(|| {
            let bucket = bucket_of(&cx.session.window(clock));
            cx.ask::<Rates>(RateParams { group: self.group, by_time: clock.axis() == TimeAxis::Time, bucket })
        });
        let rates = rates.as_ref().and_then(Answer::value).filter(|rates| rates.by_time == (clock.axis() == TimeAxis::Time));
        // Of another group there is nothing to show while this one's curves are on their way.
        let cost = if let Answer::Ready(cost) = &cost { Some(&**cost) } else { None };
        let (device, group);
        let data = if self.group == Group::Device {
            device = cx.ask::<Fragmentation>(());
            let Some(fragmentation) = device.value() else { return cx.show(ui, &device, |_, _| {}) };
            GroupData { group: self.group, usage, fragmentation: Some(fragmentation), cost, rates: rates.map(|rates| &**rates) }
        } else {
            group = cx.ask::<GroupCurves>(self.group);
            match &group {
                Answer::Ready(curves) => GroupData {
                    group: self.group,
                    usage: &curves.usage,
                    fragmentation: Some(&curves.fragmentation),
                    cost,
                    rates: rates.map(|rates| &**rates),
                },
                Answer::Stale(_, status) | Answer::Pending(status) => return cx.pending(ui, status),
                Answer::Failed(error) => return cx.empty(ui, &error.to_string()),
            }
        };
        let series = all_series(&data);
        let marked = self.marked.take();
        let markers = marked.as_ref().map_or(&[][..], |marked| &marked.shown);
        let snapshot = &document.snapshot;
        let shown = Shown { snapshot, memory, usage, clock, series: &series, rates: rates.map(|rates| &**rates), markers };
        self.show(ui, cx, &shown);
        self.marked = marked;
    }
}

impl Charts {
    /// Finds the groups of another device once.
    fn find_groups(&mut self, memory: &DeviceMemory, usage: &Arc<UsageTimeline>) {
        if self.groups.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, usage)) {
            return;
        }
        let groups = Group::all(memory);
        // Another file may not have the pool that was chosen.
        if !groups.contains(&self.group) {
            self.group = Group::Device;
        }
        self.groups = Some((Arc::clone(usage), groups));
    }
    /// Brings the markers up to date with what was recorded, marked and switched off.
    fn mark(&mut self, cx: &Cx<'_>) {
        let Answer::Ready(of) = cx.ask::<MarkersOf>(()) else { return };
        let user: Vec<Position> = cx.place().map(|place| place.marks.clone()).unwrap_or_default();
        let is_same = |marked: &Marked| Arc::ptr_eq(&marked.of, &of) && marked.unmarked == self.unmarked && marked.user == user;
        if self.marked.as_ref().is_some_and(is_same) {
            return;
        }
        let kinds = of.markers.iter().map(|marker| marker.kind).collect();
        let recorded = of.markers.iter().filter(|marker| !self.unmarked.contains(&marker.kind)).cloned();
        let named = ('A'..='Z').zip(&user);
        let named = named.map(|(name, at)| Marker { position: *at, kind: MarkerKind::User, name: format!("mark {name}") });
        let mut shown: Vec<Marker> = recorded.chain(named).collect();
        shown.sort_by_key(|marker| marker.position);
        self.marked = Some(Marked { of, unmarked: self.unmarked.clone(), user, kinds, shown });
    }

    fn header(&mut self, ui: &mut Ui, cx: &Cx<'_>, snapshot: &Snapshot, capacity: Capacity) {
        in_line(ui, |ui| {
            let label = ui.label("Of");
            let combo = ComboBox::from_id_salt("chart group").selected_text(group_name(snapshot, self.group));
            let combo = combo.show_ui(ui, |ui| {
                for group in self.groups.iter().flat_map(|(_, groups)| groups) {
                    if ui.selectable_label(*group == self.group, group_name(snapshot, *group)).clicked() {
                        self.group = *group;
                    }
                }
            });
            combo.response.labelled_by(label.id);
            for panel in Panel::ALL {
                let on = self.panels.contains(&panel);
                // One plot is always left.
                if ui.selectable_label(on, panel.name()).on_hover_text(panel.help()).clicked() && !(on && self.panels.len() == 1)
                {
                    toggle(&mut self.panels, panel);
                }
            }
            let kinds = self.marked.as_ref().map(|marked| marked.kinds.clone()).unwrap_or_default();
            if !kinds.is_empty() {
                ui.add_space(UNIT);
                ui.label(RichText::new("Marked:").color(cx.tokens.weak));
            }
            for kind in MarkerKind::RECORDED.into_iter().filter(|kind| kinds.contains(kind)) {
                let shown = !self.unmarked.contains(&kind);
                let response = entry(ui, cx, kind.ink(), kind.name(), None, shown).on_hover_ui(|ui| {
                    ui.label(kind.help());
                    ui.weak(if shown { "Click to hide them" } else { "Click to show them" });
                });
                if response.clicked() {
                    toggle(&mut self.unmarked, kind);
                }
            }
            ui.add_space(UNIT);
            let (words, help) = capacity_words(capacity);
            ui.label(RichText::new(words).color(cx.tokens.weak)).on_hover_text(help);
        });
    }

    fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>) {
        let Some(place) = cx.place() else { return };
        let panels: Vec<Panel> = self.panels.iter().copied().collect();
        // Plots come first: spans stand below them where that leaves enough.
        let below = spans::height_pt(shown.clock, ui.available_height());
        let below = if below + LEAST_PT * panels.len() as f32 <= ui.available_height() { below } else { 0.0 };
        let hidden: BTreeSet<&'static str> =
            shown.series.iter().filter(|series| !self.is_shown(series)).map(|series| series.name).collect();
        let capacity = match Capacity::of(shown.memory, shown.usage) {
            Capacity::Known { bytes, .. } if self.group == Group::Device => Some((bytes, Ink::Capacity)),
            Capacity::Known { .. } | Capacity::AtLeast(_) => None,
        };
        let mut pointer = None;
        let mut frame = None;
        let room = (ui.available_height() - below).max(1.0);
        let height = room.max(SMALLEST_PT * panels.len() as f32);
        // The wheel zooms time, so what does not fit is reached by the bar.
        let area = ScrollArea::vertical().max_height(room).auto_shrink(false).scroll_source(ScrollSource::SCROLL_BAR);
        area.show(ui, |ui| {
            ui.set_max_height(height);
            let bottom = ui.cursor().min.y + height;
            for (row, panel) in panels.iter().enumerate() {
                let (top, left) = (ui.cursor().min.y, (panels.len() - row) as f32);
                let slot = (bottom - top) / left;
                self.legend(ui, cx, shown, *panel, slot < TIGHT_PT);
                let series: Vec<Series<'_>> =
                    shown.series.iter().filter(|series| Panel::of(series.unit) == *panel).cloned().collect();
                if series.is_empty() && shown.rates.is_none() && matches!(panel, Panel::ByteRates | Panel::CountRates) {
                    // On its way: the plot's place is kept.
                    let room = vec2(ui.available_width(), (slot - (ui.cursor().min.y - top)).max(20.0));
                    let words = RichText::new("counting by buckets …").color(cx.tokens.weak);
                    ui.add_sized(room, Label::new(words));
                    continue;
                }
                let is_last = row + 1 == panels.len();
                let unit = series.first().map_or(Unit::Bytes, |series| series.unit);
                let view = SeriesView {
                    id: Id::unique(("charts", panel, self.group)),
                    series: &series,
                    unit,
                    clock: shown.clock,
                    time: cx.session.window(shown.clock),
                    markers: shown.markers,
                    level: capacity.filter(|_| *panel == Panel::Bytes),
                    labels: is_last,
                    pointer: self.pointer.filter(|(on, _)| on != panel).map(|(_, at)| at),
                    cursor: Some(place.cursor),
                    range: place.range.clone(),
                    hidden: &hidden,
                    palette: cx.tokens.palette,
                    size: vec2(ui.available_width(), (slot - (ui.cursor().min.y - top)).max(20.0)),
                };
                let SeriesResponse { response, plot: rect, pointer_unit } = plot::show(ui, &view);
                pointer = pointer.or(pointer_unit.map(|at| (*panel, at)));
                act(ui, cx, &over(ui, response, rect, panel.canvas()), shown.clock);
                frame = Some(rect);
            }
        });
        if let Some(frame) = frame.filter(|_| 0.0 < below) {
            spans_below(ui, cx, shown, frame, below);
        }
        if self.pointer != pointer {
            // The other plots follow in the next frame.
            ui.ctx().request_repaint();
        }
        self.pointer = pointer;
    }

    /// The legend of a plot; where room is short it is one line that scrolls.
    fn legend(&mut self, ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, panel: Panel, tight: bool) {
        let mut entries = |ui: &mut Ui| {
            for series in shown.series.iter().filter(|series| Panel::of(series.unit) == panel) {
                if legend_entry(ui, cx, shown.clock, series, self.is_shown(series)).clicked() {
                    toggle(&mut self.switched, series.name);
                }
            }
            if let Some(rates) = shown.rates.filter(|_| matches!(panel, Panel::ByteRates | Panel::CountRates)) {
                ui.label(RichText::new(bucket_words(rates)).color(cx.tokens.weak));
            }
            if panel == Panel::DriverTime && !shown.memory.trace.has_times() {
                ui.label(RichText::new("The events of this recording carry no times.").color(cx.tokens.weak));
            }
        };
        if tight {
            let margin = egui::Margin { left: UNIT as i8, ..egui::Margin::ZERO };
            let line = |ui: &mut Ui| ScrollArea::horizontal().id_salt(panel).show(ui, |ui| ui.horizontal(&mut entries));
            egui::Frame::new().inner_margin(margin).show(ui, line);
        } else {
            in_line(ui, entries);
        }
    }

    fn is_shown(&self, series: &Series<'_>) -> bool {
        series.shown != self.switched.contains(series.name)
    }
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if !set.remove(&value) {
        set.insert(value);
    }
}

fn in_line(ui: &mut Ui, show: impl FnOnce(&mut Ui)) {
    let margin = egui::Margin { left: UNIT as i8, ..egui::Margin::ZERO };
    egui::Frame::new().inner_margin(margin).show(ui, |ui| ui.horizontal_wrapped(show));
}

/// The named spans below the plots, exactly under them.
fn spans_below(ui: &mut Ui, cx: &Cx<'_>, shown: &Shown<'_>, plot: Rect, height: f32) {
    let canvas = canvas(ui, "spans below charts", vec2(ui.available_width(), height));
    let (left, right) = (plot.min.x - canvas.rect.min.x, plot.max.x - canvas.rect.min.x);
    let area = Area::new(left, 0.0, right, height);
    let time = Scale::new(cx.session.window(shown.clock), left, right);
    let hovered = canvas.pointer.and_then(|at| spans::hit(shown.clock, area, &time, at[0], at[1]));
    let mut drawing = Drawing::new(canvas.rect.width(), height);
    spans::draw(&mut drawing, shown.snapshot, shown.clock, area, &time, hovered.map(|span| span.row));
    paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &drawing, cx.tokens.palette, &|_| None);
    for gesture in &canvas.gestures {
        if !span_hand::act(ui, cx, shown.clock, hovered, gesture) {
            act_on_time(ui, cx, shown.clock, &time, gesture);
        }
    }
    if let Some(span) = hovered {
        canvas.response.on_hover_ui_at_pointer(|ui| span_hand::tooltip(ui, cx, shown.snapshot, span));
    }
}

/// A series' colour, name and value at the cursor; a click shows or hides its line.
fn legend_entry(ui: &mut Ui, cx: &Cx<'_>, clock: &Clock, series: &Series<'_>, shown: bool) -> Response {
    let at = clock.unit(cx.cursor());
    let exact = series.label_at(clock, at);
    let value = if series.unit == Unit::Bytes { Bytes(series.value_at(clock, at)).to_string() } else { exact.clone() };
    let response = entry(ui, cx, series.ink, series.name, Some(&value), shown);
    response.on_hover_ui(|ui| {
        ui.label(format!("{} at the cursor: {exact}", series.name));
        ui.label(series.help);
        ui.weak(if shown { "Click to hide its line" } else { "Click to show its line" });
    })
}

/// A switch with its colour: what it shows, and its value while it is on.
fn entry(ui: &mut Ui, cx: &Cx<'_>, ink: Ink, name: &str, value: Option<&str>, shown: bool) -> Response {
    let swatch = 2.5 * UNIT;
    let font = TextStyle::Body.resolve(ui.style());
    let mut told = if shown { name.to_owned() } else { format!("{name}, hidden") };
    let mut job = LayoutJob::default();
    job.append(name, swatch + UNIT, TextFormat::simple(font.clone(), cx.tokens.weak));
    if let Some(value) = value.filter(|_| shown) {
        told = format!("{name}, {value}");
        job.append(value, UNIT, TextFormat::simple(font, cx.tokens.text));
    }
    let response = ui.add(Label::new(job).sense(Sense::click()).selectable(false).extend());
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, shown, &told));
    let square = Rect::from_min_size(pos2(response.rect.min.x, response.rect.center().y - swatch / 2.0), Vec2::splat(swatch));
    let colour = colour(cx.tokens.palette, ink);
    if shown {
        ui.painter().rect_filled(square, 0.0, colour);
    } else {
        ui.painter().rect_stroke(square, 0.0, Stroke::new(1.0, colour), StrokeKind::Inside);
    }
    response.on_hover_cursor(egui::CursorIcon::PointingHand)
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
