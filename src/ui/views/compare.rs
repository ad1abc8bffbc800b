//! Two moments side by side: of the file in front and another one, or of one file.
//!
//! Always: B is the file in front, A what it is compared with; tables, flame graph and figures are those of the command
//! line and come from one job; a row that is clicked is selected on both sides.

use crate::analysis::diff_words::{hint, signed, verdict};
use crate::analysis::{AlignBy, CommonSteps, Curve, DiffParams, Moment, UsageTimeline};
use crate::base::Bytes;
use crate::chart::block_words::bare_moment;
use crate::chart::overlay::{self, INK_A, INK_B, OverlayInput, OverlaySide};
use crate::chart::{Ink, TimeAxis};
use crate::model::{DeviceId, DeviceMemory, Position};
use crate::paint;
use crate::session::comparison::{Comparison, ComparisonOf};
use crate::session::lookups::{ClockOf, WeighedClock};
use crate::session::{Answer, Document, DocumentId};
use crate::ui::theme::UNIT;
use crate::ui::views::compare_parts::{Pages, Shown};
use crate::ui::views::view::{Cx, View, ViewClass};
use crate::ui::widgets::canvas::{Gesture, canvas, zoomed};
use crate::ui::widgets::set_chooser::mark_name;
use egui::{ComboBox, Frame, Label, Margin, RichText, Ui, vec2};
use std::ops::Range;
use std::sync::Arc;

/// The view's entry in the register.
pub const CLASS: ViewClass = ViewClass {
    id: "compare",
    title: "Compare",
    help: "Two moments of two files or of one, matched by stack and size: what came, what went, whether reserved memory \
           follows. Click a row selects its stack on both sides; a click on the curves compares these two moments.",
    open: || Box::new(Compare::default()),
};

/// A moment of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Named(Moment),
    Cursor,
    Mark(usize),
    /// Where the curves were clicked.
    At(Position),
}

impl When {
    const NAMED: [(Moment, &'static str); 5] = [
        (Moment::Peak, "peak allocated"),
        (Moment::PeakReserved, "peak reserved"),
        (Moment::Oom(None), "last OOM"),
        (Moment::Start, "start"),
        (Moment::End, "end"),
    ];
    fn name(self) -> String {
        match self {
            When::Named(moment) => {
                let named = When::NAMED.into_iter().find(|(other, _)| *other == moment);
                named.map_or_else(String::new, |(_, name)| name.to_owned())
            }
            When::Cursor => "cursor".to_owned(),
            When::Mark(place) => format!("mark {}", mark_name(place)),
            When::At(at) => bare_moment(at),
        }
    }
}

#[derive(Clone, Default)]
struct Compare {
    /// What is compared with, and which device of it; left open, another file that is open, and the same device.
    with: Option<DocumentId>,
    device: Option<DeviceId>,
    /// The moments of A and B; left open, the peaks of two files, start and cursor of one.
    when: [Option<When>; 2],
    /// The number of the last comparison that was asked for elsewhere.
    asked: u64,
    ignore_lines: bool,
    counter: usize,
    align: AlignBy,
    /// The visible part of the common axis; empty: all of it.
    window: Range<f64>,
    pages: Pages,
}

/// Which curve of a timeline.
type Pick = fn(&UsageTimeline) -> &Curve;

/// The counters of the curves.
const COUNTERS: [(&str, Pick); 4] = [
    ("allocated", |of| &of.allocated),
    ("reserved", |of| &of.reserved),
    ("active", |of| &of.active),
    ("requested", |of| &of.requested),
];

/// One side, as far as it is known.
struct Side<'a> {
    document: &'a Document,
    device: DeviceId,
    memory: &'a DeviceMemory,
    usage: Arc<UsageTimeline>,
    at: Position,
}

impl View for Compare {
    fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>) {
        let Some((front, device_b, _)) = cx.session.front() else {
            return cx.nothing(ui);
        };
        let wanted = cx.session.wanted_comparison().filter(|wanted| self.asked < wanted.number && wanted.front == front.id);
        // The baseline may still be on its way.
        let is_open = |id: DocumentId| cx.session.documents().iter().any(|document| document.id == id);
        if let Some(wanted) = wanted.filter(|wanted| is_open(wanted.baseline)) {
            (self.asked, self.with, self.device, self.when) = (wanted.number, Some(wanted.baseline), None, [None, None]);
        }
        let other = self.other(cx, front);
        let Some(device_a) = self.device_of(cx, front, device_b, other) else {
            return cx.empty(ui, "The file to compare with names no device: it holds neither segments nor events.");
        };
        let alone = other.id == front.id;
        self.controls(ui, cx, front, other, [device_a, device_b]);
        let sides = [(0, other, device_a), (1, front, device_b)].map(|(side, document, device)| {
            let when = self.when[side].unwrap_or(default_when(alone, side));
            prepare(cx, document, device, when)
        });
        let [a, b] = match sides {
            [Ok(a), Ok(b)] => [a, b],
            [Err(Missing::NotYet), _] | [_, Err(Missing::NotYet)] => {
                return ui.ctx().request_repaint_after(std::time::Duration::from_millis(50));
            }
            [Err(Missing::Told(sentence)), _] | [_, Err(Missing::Told(sentence))] => return cx.empty(ui, &sentence),
        };
        if alone && cx.session.documents().len() < 2 {
            weak_line(
                ui,
                cx,
                "Only this file is open, so two of its moments are compared. Open another file to compare with it.",
            );
        }
        let params = DiffParams { device_a, at_a: a.at, at_b: b.at, ignore_lines: self.ignore_lines };
        let baseline = Some((other, device_a));
        let answer = cx.session.ask_about::<ComparisonOf>("compare", (front, device_b), baseline, (params, self.pages.fold));
        // In a low tile the curves are a page like the others, and each sentence has one line.
        let low = ui.available_height() < LOW;
        if let Some(comparison) = answer.value() {
            words(ui, cx, comparison, low);
        }
        if !low {
            self.curves(ui, cx, &[&a, &b]);
        }
        if let (Some(comparison), Some(status)) = (answer.value(), answer.status()) {
            // What is shown is of the moments before; it says so by being pale.
            if std::time::Duration::from_millis(300) < status.since.elapsed() {
                ui.set_opacity(0.5);
            }
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
            return self.below(ui, cx, comparison, [&a, &b], low);
        }
        match answer {
            Answer::Ready(comparison) => self.below(ui, cx, &comparison, [&a, &b], low),
            other => cx.show(ui, &other, |_, _| {}),
        }
    }
}

/// Below this height a tile is low.
const LOW: f32 = 100.0 * UNIT;

fn shown<'a>(comparison: &'a Arc<Comparison>, [a, b]: [&Side<'_>; 2]) -> Shown<'a> {
    Shown { comparison, sides: [(a.document.id, a.device), (b.document.id, b.device)] }
}

const fn default_when(alone: bool, side: usize) -> When {
    match (alone, side) {
        (false, _) => When::Named(Moment::Peak),
        (true, 0) => When::Named(Moment::Start),
        (true, _) => When::Cursor,
    }
}

enum Missing {
    NotYet,
    Told(String),
}

fn prepare<'a>(cx: &Cx<'a>, document: &'a Document, device: DeviceId, when: When) -> Result<Side<'a>, Missing> {
    let memory = document.snapshot.devices.get(device).ok_or(Missing::NotYet)?;
    let usage = match cx.session.ask_about::<UsageTimeline>("", (document, device), None, ()) {
        Answer::Ready(usage) => usage,
        Answer::Stale(..) | Answer::Pending(_) => return Err(Missing::NotYet),
        Answer::Failed(error) => return Err(Missing::Told(error.to_string())),
    };
    let place = cx.session.workspace().places.get(&(document.id, device));
    let at = match when {
        When::Named(moment) => {
            moment.position(memory, &usage).map_err(|error| Missing::Told(format!("{}: {error}.", document.title)))?
        }
        When::Cursor => place.map(|place| place.cursor).unwrap_or_default(),
        When::Mark(mark) => *place.and_then(|place| place.marks.get(mark)).ok_or_else(|| {
            Missing::Told(format!("{} has no mark {}: choose another moment.", document.title, mark_name(mark)))
        })?,
        When::At(at) => at.min(memory.end()),
    };
    Ok(Side { document, device, memory, usage, at })
}

/// The verdict, and what to try where little matches.
fn words(ui: &mut Ui, cx: &Cx<'_>, comparison: &Comparison, low: bool) {
    ui.spacing_mut().item_spacing.y = UNIT / 2.0;
    for sentence in verdict(&comparison.diff) {
        let label = if low { Label::new(&sentence).truncate() } else { Label::new(&sentence).wrap() };
        line(ui, label);
    }
    if let Some(hint) = hint(&comparison.diff).filter(|_| !low) {
        weak_line(ui, cx, hint);
    }
    ui.reset_style();
}

fn weak_line(ui: &mut Ui, cx: &Cx<'_>, sentence: &str) {
    line(ui, Label::new(RichText::new(sentence).color(cx.tokens.weak)).wrap());
}

/// A text with the margin of the other lines.
fn line(ui: &mut Ui, label: Label) {
    Frame::NONE.inner_margin(Margin::symmetric((2.0 * UNIT) as i8, 0)).show(ui, |ui| ui.add(label));
}

impl Compare {
    /// The pages, and in a low tile the curves as one of them.
    fn below(&mut self, ui: &mut Ui, cx: &Cx<'_>, comparison: &Arc<Comparison>, sides: [&Side<'_>; 2], low: bool) {
        let shown = shown(comparison, sides);
        if self.pages.bar(ui, cx, &shown, low) {
            self.curves(ui, cx, &sides);
        } else {
            self.pages.show(ui, cx, &shown);
        }
    }

    /// What is compared with: what was chosen while it is open, else another file, else the same.
    fn other<'a>(&self, cx: &Cx<'a>, front: &'a Document) -> &'a Document {
        let documents = cx.session.documents();
        let chosen = self.with.and_then(|id| documents.iter().find(|document| document.id == id));
        chosen.or_else(|| documents.iter().find(|document| document.id != front.id)).unwrap_or(front)
    }

    fn device_of(&self, cx: &Cx<'_>, front: &Document, device_b: DeviceId, other: &Document) -> Option<DeviceId> {
        let devices = &other.snapshot.devices;
        if let Some(chosen) = self.device.filter(|device| devices.get(*device).is_some()) {
            return Some(chosen);
        }
        let ordinal = front.snapshot.devices.get(device_b).map(|memory| memory.ordinal);
        let same = ordinal.and_then(|ordinal| other.snapshot.device_of_ordinal(ordinal)).filter(|_| other.id != front.id);
        let shown = cx.session.workspace().devices.get(&other.id).copied();
        same.or(shown).or_else(|| other.snapshot.busiest_device())
    }

    fn controls(&mut self, ui: &mut Ui, cx: &Cx<'_>, front: &Document, other: &Document, [device_a, device_b]: [DeviceId; 2]) {
        let alone = other.id == front.id;
        let ink = |ink: Ink| paint::colour(cx.tokens.palette, ink);
        let named = |document: &Document| -> String {
            let twice = cx.session.documents().iter().filter(|other| other.title == document.title).count();
            let this = if document.id == front.id { " (this file)" } else { "" };
            let number = if 1 < twice { format!(" #{}", document.id.0) } else { String::new() };
            format!("{}{number}{this}", document.title)
        };
        ui.horizontal_wrapped(|ui| {
            ui.add_space(2.0 * UNIT);
            let label = ui.label(RichText::new("A").strong().color(ink(INK_A)));
            let combo = ComboBox::from_id_salt("compare with").selected_text(named(other)).width(0.0).show_ui(ui, |ui| {
                for document in cx.session.documents() {
                    if ui.selectable_label(document.id == other.id, named(document)).clicked() {
                        (self.with, self.device, self.when) = (Some(document.id), None, [None; 2]);
                        self.window = 0.0..0.0;
                    }
                }
            });
            combo.response.labelled_by(label.id);
            let used = other.used_devices();
            if 1 < used.len() {
                let title = |device: DeviceId| other.snapshot.devices.get(device).map_or(String::new(), DeviceMemory::title);
                ComboBox::from_id_salt("compare device").selected_text(title(device_a)).width(0.0).show_ui(ui, |ui| {
                    for device in used {
                        if ui.selectable_label(device == device_a, title(device)).clicked() {
                            self.device = Some(device);
                        }
                    }
                });
            }
            self.moment(ui, cx, 0, (other, device_a), alone);
            ui.add_space(2.0 * UNIT);
            ui.label(RichText::new("B").strong().color(ink(INK_B)));
            ui.label(named(front));
            self.moment(ui, cx, 1, (front, device_b), alone);
            ui.separator();
            if !alone
                && ui.button("Swap").on_hover_text("Brings the other file to the front and compares with this one").clicked()
            {
                (self.with, self.device) = (Some(front.id), Some(device_b));
                self.when.swap(0, 1);
                cx.send(crate::session::Command::Activate(other.id));
            }
            ui.checkbox(&mut self.ignore_lines, "Ignore line numbers")
                .on_hover_text("Matches frames by function and file alone: lines move from one version of a program to the next");
        });
    }

    fn moment(&mut self, ui: &mut Ui, cx: &Cx<'_>, side: usize, of: (&Document, DeviceId), alone: bool) {
        let now = self.when[side].unwrap_or(default_when(alone, side));
        let marks = cx.session.workspace().places.get(&(of.0.id, of.1)).map_or(0, |place| place.marks.len());
        let has_oom = of.0.snapshot.devices.get(of.1).is_some_and(|memory| !memory.trace.ooms().is_empty());
        let named = When::NAMED.into_iter().map(|(moment, _)| When::Named(moment));
        let named = named.filter(|when| has_oom || *when != When::Named(Moment::Oom(None)));
        let all = named.chain([When::Cursor]).chain((0..marks).map(When::Mark));
        let label = ui.label("at");
        let combo = ComboBox::from_id_salt(("compare at", side)).selected_text(now.name()).width(0.0).show_ui(ui, |ui| {
            for when in all {
                if ui.selectable_label(when == now, when.name()).clicked() {
                    self.when[side] = Some(when);
                }
            }
        });
        combo.response.labelled_by(label.id);
    }

    /// The two recordings on one axis.
    fn curves(&mut self, ui: &mut Ui, cx: &Cx<'_>, sides: &[&Side<'_>; 2]) {
        const HEIGHT: f32 = 40.0 * UNIT;
        if sides.iter().all(|side| !side.memory.has_history()) {
            return;
        }
        let [a, b] = *sides;
        let of = (b.document, b.device);
        let steps = cx.session.ask_about::<CommonSteps>("compare", of, Some((a.document, a.device)), a.device);
        let steps = steps.value().map(Arc::clone).unwrap_or_default();
        self.axis_controls(ui, &steps);
        let timed = sides.iter().all(|side| side.memory.trace.has_times());
        let axis = if timed { cx.session.workspace().axis } else { TimeAxis::Events };
        let clocks = sides.map(|side| clock(cx, side, axis));
        let [Some(clock_a), Some(clock_b)] = clocks else { return };
        let peaks = sides.map(|side| side.usage.allocated.peak().0);
        let anchors = steps.anchors(self.align, peaks);
        let (name, curve) = COUNTERS[self.counter.min(COUNTERS.len() - 1)];
        let side = |side: usize, clock: &'_ Arc<WeighedClock>| (curve(&sides[side].usage), Arc::clone(clock));
        let ((curve_a, clock_a), (curve_b, clock_b)) = (side(0, &clock_a), side(1, &clock_b));
        let lines = [
            OverlaySide { curve: curve_a, clock: &clock_a.clock, anchor: anchors[0], at: a.at },
            OverlaySide { curve: curve_b, clock: &clock_b.clock, anchor: anchors[1], at: b.at },
        ];
        let room = ui.available_height();
        let height = if room < LOW { room } else { HEIGHT.min(room * 0.4) };
        let size = vec2(ui.available_width(), height);
        let canvas = canvas(ui, "two timelines", size);
        let whole = overlay::whole(&lines);
        let input =
            OverlayInput { name, sides: lines, window: self.window.clone(), axis: true, width_pt: size.x, height_pt: size.y };
        let time = overlay::scale(&input);
        paint::paint(&ui.painter_at(canvas.rect), canvas.rect.min, &overlay::draw(&input), cx.tokens.palette, &|_| None);
        let window = time.from..time.to;
        for gesture in &canvas.gestures {
            match *gesture {
                Gesture::Zoom { at, factor } => self.window = inside(zoomed(&window, time.unit(at[0]), factor), &whole),
                Gesture::Pan([dx, _]) | Gesture::Drag { by: [dx, _], .. } => {
                    let by = f64::from(dx) * time.units_per_point();
                    self.window = inside(window.start - by..window.end - by, &whole);
                }
                Gesture::DoubleClick(_) => self.window = 0.0..0.0,
                Gesture::Click(at) => {
                    for (when, line) in self.when.iter_mut().zip(&lines) {
                        if let Some(position) = line.position(time.unit(at[0])) {
                            *when = Some(When::At(position));
                        }
                    }
                }
                Gesture::ZoomBytes { .. } | Gesture::Range(..) | Gesture::RangeDone | Gesture::Measure(..) => {}
            }
        }
        if let Some(at) = canvas.pointer {
            let places = lines.map(|line| line.position(time.unit(at[0])).map(|position| (position, line.curve.at(position))));
            canvas.response.on_hover_ui_at_pointer(|ui| {
                for (name, place) in ["A", "B"].into_iter().zip(places) {
                    ui.label(match place {
                        Some((position, bytes)) => format!("{name}  {}  at {}", Bytes(bytes), bare_moment(position)),
                        None => format!("{name}  not recorded here"),
                    });
                }
                if let [Some((_, a)), Some((_, b))] = places {
                    ui.strong(format!("B − A  {}", signed(i128::from(b) - i128::from(a))));
                }
                ui.label(RichText::new("Click compares these moments").color(cx.tokens.weak));
            });
        }
    }

    fn axis_controls(&mut self, ui: &mut Ui, steps: &CommonSteps) {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(2.0 * UNIT);
            for (place, (name, _)) in COUNTERS.into_iter().enumerate() {
                if ui.selectable_label(self.counter == place, name).clicked() {
                    self.counter = place;
                }
            }
            ui.separator();
            ui.label("Aligned by");
            let before = self.align;
            ui.selectable_value(&mut self.align, AlignBy::Start, "start");
            ui.selectable_value(&mut self.align, AlignBy::Peak, "peak");
            if steps.rows.is_empty() {
                ui.add_enabled(false, egui::Button::selectable(false, "step"))
                    .on_disabled_hover_text("No annotation or note has the same name in both recordings");
                if matches!(self.align, AlignBy::Step(_)) {
                    self.align = AlignBy::Start;
                }
            } else {
                let row = if let AlignBy::Step(row) = self.align { Some(row.min(steps.rows.len() - 1)) } else { None };
                let text = row.map_or_else(|| "step".to_owned(), |row| format!("step {}", steps.rows[row].name));
                ComboBox::from_id_salt("align step").selected_text(text).width(0.0).show_ui(ui, |ui| {
                    for (place, step) in steps.rows.iter().enumerate() {
                        ui.selectable_value(&mut self.align, AlignBy::Step(place), &step.name);
                    }
                });
            }
            if self.align != before {
                self.window = 0.0..0.0;
            }
        });
    }
}

fn clock(cx: &Cx<'_>, side: &Side<'_>, axis: TimeAxis) -> Option<Arc<WeighedClock>> {
    match cx.session.ask_about::<ClockOf>("", (side.document, side.device), None, axis) {
        Answer::Ready(clock) => Some(clock),
        Answer::Stale(..) | Answer::Pending(_) | Answer::Failed(_) => None,
    }
}

/// A window inside the whole axis, no shorter than one unit.
fn inside(window: Range<f64>, whole: &Range<f64>) -> Range<f64> {
    let length = (window.end - window.start).clamp(1.0, (whole.end - whole.start).max(1.0));
    let start = window.start.clamp(whole.start, (whole.end - length).max(whole.start));
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_on_the_axis() {
        for (window, shown) in [
            (0.0..10.0, 0.0..10.0),
            (-50.0..-30.0, -20.0..0.0),
            (95.0..115.0, 80.0..100.0),
            (-99.0..999.0, -20.0..100.0),
            (5.0..5.1, 5.0..6.0),
        ] {
            assert_eq!(inside(window, &(-20.0..100.0)), shown);
        }
    }
}
