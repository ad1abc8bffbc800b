//! The one place where commands take effect.

use crate::analysis::{Categories, UsageTimeline};
use crate::base::id::Id as _;
use crate::chart::{Theme, TimeAxis};
use crate::model::{AllocationId, DeviceMemory, Item, Position, StackTable};
use crate::session::document::DocumentId;
use crate::session::jobs::{JobSpec, Lane};
use crate::session::opening::{self, Source};
use crate::session::workspace::{Place, Window, Workspace};
use crate::session::{Answer, Command, Dialogs, Message, Session, rank_files, samples, source_file};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The part of the axis that no zoom goes below, in axis units: an event, or a microsecond, fills the view.
const SHORTEST_WINDOW: f64 = 1.0;
/// The part of the byte axis that no zoom goes below.
const SHORTEST_BYTES: f64 = 4096.0;
/// A dialog that closes sooner than this was never there (`rfd` cannot tell "cancelled" from "no dialog").
pub(super) const NO_DIALOG: Duration = Duration::from_millis(300);

impl Session {
    /// Applies one command.
    pub fn apply(&mut self, command: Command) {
        match command {
            Command::Open(path) if rank_files::is_many(&path) => self.open_all(vec![path]),
            Command::Open(path) => drop(self.open(Source::Path(path))),
            Command::OpenAll(paths) => self.open_all(paths),
            Command::OpenRanks { title, files } => self.open_ranks(title, files),
            Command::CloseRanks => self.close_ranks(),
            Command::ShowRank(row) => drop(self.show_rank(row)),
            Command::CompareRank(row) => self.compare_rank(row),
            Command::OpenBytes { name, bytes } => drop(self.open(Source::Bytes(name, bytes))),
            Command::OpenSample(name) => match samples::by_name(name) {
                Some(sample) => drop(self.open(Source::Sample(sample.title, sample.bytes))),
                None => self.note(format!("There is no sample called {name}."), true),
            },
            Command::OpenDialog => self.open_dialog(|dialogs| dialogs.pick_files()),
            Command::OpenFolderDialog => self.open_dialog(|dialogs| dialogs.pick_folder().into_iter().collect()),
            Command::Close(id) => self.close(id),
            Command::Activate(id) => {
                if self.documents.iter().any(|document| document.id == id) {
                    self.workspace.active = Some(id);
                }
            }
            Command::SetDevice(device) => self.set_device(device),
            Command::MoveCursor(position) => {
                self.move_cursor(|_, _| position);
                self.stick();
            }
            Command::Capture(deed) => self.capture(deed),
            Command::LeaveCaptures => self.left_captures += 1,
            Command::DismissLive => self.dismiss_live(),
            Command::FollowEnd => self.follow_end(),
            Command::HoldLive(held) => self.hold_live(held),
            Command::StepCursor(events) => {
                self.move_cursor(|place, _| {
                    Position((i64::from(place.cursor.0).saturating_add(events)).clamp(0, i64::from(u32::MAX)) as u32)
                });
                self.stick();
            }
            Command::StepOom { forward } => self.move_cursor(|place, memory| {
                let ooms = memory.trace.ooms().iter().map(|event| Position::after(*event));
                let next = if forward {
                    ooms.clone().find(|oom| place.cursor < *oom)
                } else {
                    ooms.rev().find(|oom| *oom < place.cursor)
                };
                next.unwrap_or(place.cursor)
            }),
            Command::GoToLastOom => {
                self.move_cursor(|place, memory| memory.trace.ooms().last().map_or(place.cursor, |oom| Position::after(*oom)));
            }
            Command::GoToPeak => {
                if let Answer::Ready(usage) = self.ask::<UsageTimeline>(()) {
                    self.move_cursor(|_, _| usage.allocated.peak().0);
                }
            }
            Command::SetWindow(range) => self.set_window(range),
            Command::ZoomAtCursor(factor) => self.change_window(|window, cursor| {
                let at = if window.contains(&cursor) { cursor } else { (window.start + window.end) / 2.0 };
                at - (at - window.start) * factor..at + (window.end - at) * factor
            }),
            Command::Pan(share) => self.change_window(|window, _| {
                let by = (window.end - window.start) * share;
                window.start + by..window.end + by
            }),
            Command::Fit => self.change_place(|place| (place.window, place.bytes, place.rows) = (Window::Whole, None, None)),
            Command::FrameSelection => self.frame_selection(),
            Command::SetBytes(bytes) => self.change_place(|place| place.bytes = bytes.and_then(checked_bytes)),
            Command::SetRows(rows) => self.change_place(|place| place.rows = rows.filter(is_sound)),
            Command::Select(item) => {
                // What was sent from one document may arrive when another one is in front.
                if self.front().is_some_and(|(document, _, memory)| is_in(item, memory, &document.snapshot.stacks)) {
                    self.change_place(|place| (place.selection, place.range) = (vec![item], None));
                }
            }
            Command::SelectIn(id, device, item) => {
                let document = self.documents.iter().find(|document| document.id == id);
                let there = document.and_then(|document| Some((document.snapshot.devices.get(device)?, document)));
                if there.is_some_and(|(memory, document)| is_in(item, memory, &document.snapshot.stacks)) {
                    let place = self.workspace.places.entry((id, device)).or_default();
                    (place.selection, place.range) = (vec![item], None);
                }
            }
            Command::SelectRange(range) => {
                let Some(end) = self.front().map(|(_, _, memory)| memory.end()) else { return };
                let range = range.start..range.end.min(end);
                self.change_place(|place| place.range = (range.start < range.end).then_some(range));
            }
            Command::ClearSelection => self.change_place(|place| {
                place.selection.clear();
                place.range = None;
            }),
            Command::ToggleMark => self.change_place(|place| match place.marks.iter().position(|mark| *mark == place.cursor) {
                Some(at) => drop(place.marks.remove(at)),
                None => place.marks.push(place.cursor),
            }),
            Command::RemoveMark(place_of_mark) => self.change_place(|place| {
                if place_of_mark < place.marks.len() {
                    place.marks.remove(place_of_mark);
                }
            }),
            Command::ClearMarks => self.change_place(|place| place.marks.clear()),
            Command::ChooseSet(set) => self.change_place(|place| place.set = set),
            Command::ShowSet { set, view } => {
                self.change_place(|place| place.set = set);
                self.shown_set = Some((self.shown_set.map_or(0, |(number, _)| number) + 1, view));
            }
            Command::SetCard(params) => {
                if let Some(id) = self.workspace.active {
                    self.workspace.cards.insert(id, params);
                }
            }
            Command::SetWhatIf(form) => self.change_place(|place| place.what_if = *form),
            Command::WhatIf(deed) => self.what_if(deed),
            Command::SetFilter(filter) => self.workspace.filter = filter,
            Command::SetFind(text) => self.set_find(text),
            Command::StepFind { forward } => self.step_find(forward),
            Command::SetAxis(axis) => self.set_axis(axis),
            Command::SetColourBy(by) => {
                self.workspace.colour_by = by;
                self.saved.colour_by = by.name().to_owned();
                self.save();
            }
            Command::SetTheme(theme) => {
                self.saved.dark = theme == Theme::Dark;
                self.save();
            }
            Command::Undo => {
                let older = self.history.undo(&self.workspace);
                self.restore(older);
            }
            Command::Redo => {
                let newer = self.history.redo(&self.workspace);
                self.restore(newer);
            }
            Command::Cancel(job) => {
                self.stopped.insert(job);
                self.jobs.cancel(job);
            }
            Command::Dismiss(note) => self.notes.retain(|other| other.id != note),
            Command::AskTarget(name) => self.ask_target(name),
            Command::AskSource => self.ask_source(),
            Command::LoadCategories(path) => self.load_categories(path),
            Command::UseBuiltInCategories => self.use_categories(None, Categories::built_in()),
            Command::SaveTable { path, params } => self.save_table(path, *params),
            Command::ExportRecording { path, window, redact } => self.export_recording(path, window, redact),
            Command::ExportReport { path, moment, options } => self.export_report(path, moment, *options),
            Command::SavePicture { path, picture } => self.save_picture(path, picture),
            Command::OpenSource { file, line } => {
                let editor = std::env::var("FRAGSCOPE_EDITOR").ok();
                let spec = JobSpec { title: "starting the editor".into(), slot: None, lane: Lane::Own, listed: false };
                self.jobs.start(spec, move |cx| {
                    if let Err(text) = source_file::open(&file, line, editor.as_deref()) {
                        cx.send(Message::Note { text, is_error: true });
                    }
                    Ok(())
                });
            }
            Command::KeepLayout(layout) => self.keep_layout(layout),
            Command::KeepZoom(zoom) => {
                self.saved.zoom = zoom;
                self.save();
            }
            Command::ForgetFiles => {
                self.saved.files.clear();
                self.save();
            }
            Command::ForgetRecent => {
                self.saved.recent.clear();
                self.save();
            }
        }
    }

    pub(super) fn open(&mut self, source: Source) -> DocumentId {
        self.next_document += 1;
        let id = DocumentId(self.next_document);
        let spec = JobSpec { title: format!("opening {}", source.title()), slot: None, lane: Lane::Own, listed: true };
        let told = self.told;
        let status = self.jobs.start(spec, move |cx| {
            opening::open(&source, told, id, cx).map_err(|error| match error {
                crate::session::jobs::JobError::Failed(text) if !text.contains(&source.name()) => {
                    crate::session::jobs::JobError::Failed(format!("Could not open {}: {text}", source.name()))
                }
                other => other,
            })
        });
        self.opening.insert(status.id, id);
        id
    }

    fn open_dialog(&mut self, pick: fn(&dyn Dialogs) -> Vec<PathBuf>) {
        let Some(dialogs) = self.dialogs.clone() else {
            self.note("There is no file dialog on this system: type a path on the start page, or drop the file here.", true);
            return;
        };
        let spec = JobSpec { title: "choosing a file".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let asked = Instant::now();
            let files = pick(dialogs.as_ref());
            if files.is_empty() && asked.elapsed() < NO_DIALOG {
                let text = "There is no file dialog on this system: type a path on the start page, or drop the file here.".into();
                cx.send(Message::Note { text, is_error: true });
            }
            if !files.is_empty() {
                cx.send(Message::Commands(vec![Command::OpenAll(files)]));
            }
            Ok(())
        });
    }

    pub(super) fn close(&mut self, id: DocumentId) {
        let Some(at) = self.documents.iter().position(|document| document.id == id) else { return };
        self.remember_place(id);
        self.end_live(id);
        self.documents.remove(at);
        self.memo.get_mut().forget(id);
        self.pictures.get_mut().forget(id);
        for (job, document) in &self.opening {
            if *document == id {
                self.jobs.cancel(*job);
            }
        }
        self.workspace.devices.remove(&id);
        self.workspace.cards.remove(&id);
        self.tries.retain(|(document, _), _| *document != id);
        self.workspace.places.retain(|(document, _), _| *document != id);
        if self.workspace.active == Some(id) {
            let neighbour = self.documents.get(at).or_else(|| self.documents.last());
            self.workspace.active = neighbour.map(|document| document.id);
        }
        self.history.restart(&self.workspace);
    }

    fn set_device(&mut self, device: crate::model::DeviceId) {
        let Some(document) = self.active() else { return };
        if document.snapshot.devices.get(device).is_none() {
            return;
        }
        let id = document.id;
        self.workspace.devices.insert(id, device);
        if let Answer::Ready(_) = self.ask::<UsageTimeline>(()) {
            self.place_cursor(id, device);
        }
    }

    /// Puts the workspace back; what was opened since stays open.
    fn restore(&mut self, workspace: Option<Workspace>) {
        let Some(mut workspace) = workspace else { return };
        let open = |id: &DocumentId| self.documents.iter().any(|document| document.id == *id);
        if workspace.active.is_none_or(|id| !open(&id)) {
            workspace.active = self.workspace.active;
        }
        self.workspace = workspace;
    }

    pub(super) fn change_place(&mut self, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.workspace.front().and_then(|front| self.workspace.places.get_mut(&front)) {
            change(place);
        }
    }

    pub(super) fn move_cursor(&mut self, to: impl FnOnce(&Place, &DeviceMemory) -> Position) {
        let Some((_, _, memory)) = self.front() else { return };
        let Some(place) = self.workspace.place() else { return };
        let cursor = to(place, memory).min(memory.end());
        self.change_place(|place| {
            place.cursor = cursor;
            (place.moved, place.follows) = (true, false);
        });
        self.keep_cursor_in_window();
    }

    /// A cursor that leaves the window takes it along, just far enough to be seen with some room.
    fn keep_cursor_in_window(&mut self) {
        self.change_window(|window, cursor| {
            let room = (window.end - window.start) * 0.1;
            let by = if cursor < window.start {
                cursor - room - window.start
            } else if window.end < cursor {
                cursor + room - window.end
            } else {
                0.0
            };
            window.start + by..window.end + by
        });
    }

    fn change_window(&mut self, change: impl FnOnce(Range<f64>, f64) -> Range<f64>) {
        let Some(clock) = self.clock() else { return };
        let Some(cursor) = self.workspace.place().map(|place| clock.clock.unit(place.cursor)) else { return };
        let before = self.window(&clock.clock);
        let after = change(before.clone(), cursor);
        if after != before {
            self.set_window(after);
        }
    }

    fn set_window(&mut self, range: Range<f64>) {
        let Some(clock) = self.clock() else { return };
        let (span, axis) = (clock.clock.span(), clock.clock.axis());
        let window = match limited(range, &span) {
            None => Window::Whole,
            Some(range) => Window::Units(axis, range),
        };
        self.change_place(|place| place.window = window);
    }

    fn set_axis(&mut self, axis: TimeAxis) {
        if axis == self.workspace.axis {
            return;
        }
        // The same moments stay in view, counted by the other clock.
        let window = self.clock().map(|clock| {
            let units = self.window(&clock.clock);
            let whole = units == clock.clock.span();
            (whole, clock.clock.position(units.start)..clock.clock.position(units.end))
        });
        self.change_place(|place| {
            place.window = match window {
                Some((false, range)) if range.start < range.end => Window::Positions(range),
                Some(_) | None => Window::Whole,
            };
        });
        self.workspace.axis = axis;
        self.saved.real_time = axis == TimeAxis::Time;
        self.save();
    }

    fn frame_selection(&mut self) {
        let Some((_, _, memory)) = self.front() else { return };
        let Some(place) = self.workspace.place() else { return };
        let range = match (place.range.clone(), place.selected()) {
            (Some(range), _) => range,
            (None, Some(item)) => match life_of(memory, item) {
                Some(range) => range,
                None => return,
            },
            (None, None) => return,
        };
        self.change_window(|window, _| window);
        if let Some(clock) = self.clock() {
            let (from, to) = (clock.clock.unit(range.start), clock.clock.unit(range.end));
            let room = ((to - from) * 0.1).max(SHORTEST_WINDOW);
            self.set_window(from - room..to + room);
        }
    }
}

/// The positions through which an item lives, cut to the trace.
fn life_of(memory: &DeviceMemory, item: Item) -> Option<Range<Position>> {
    let cut = |from: Position, to: Position| from.min(memory.end())..to.min(memory.end());
    match item {
        Item::Allocation(AllocationId(row)) if (row as usize) < memory.allocations.len() => {
            let life = memory.allocations.get(AllocationId(row));
            Some(cut(life.born, life.died))
        }
        Item::Segment(id) => memory.segments.get(id).map(|segment| cut(segment.born, segment.died)),
        Item::Event(event) => Some(cut(Position(event.0), Position::after(event))),
        Item::Allocation(_) | Item::Gap { .. } | Item::Stack(_) => None,
    }
}

/// A window inside the span, at least [`SHORTEST_WINDOW`] long; none where it would be all of it.
fn limited(range: Range<f64>, span: &Range<f64>) -> Option<Range<f64>> {
    let whole = span.end - span.start;
    let length = (range.end - range.start).max(SHORTEST_WINDOW.min(whole));
    if !length.is_finite() || whole <= length || !range.start.is_finite() {
        return None;
    }
    let middle = (range.start + range.end) / 2.0;
    let start = (middle - length / 2.0).clamp(span.start, span.end - length);
    Some(start..start + length)
}

/// A range of bytes that is worth looking at; none where it is not.
/// Whether a device holds a thing.
fn is_in(item: Item, memory: &DeviceMemory, stacks: &StackTable) -> bool {
    match item {
        Item::Allocation(id) => id.row() < memory.allocations.len(),
        Item::Segment(id) => id.row() < memory.segments.len(),
        Item::Gap { address, size } => address.checked_add(size).is_some(),
        Item::Event(event) => (event.0 as usize) < memory.trace.len(),
        Item::Stack(stack) => stack.row() < stacks.len(),
    }
}

/// Two numbers in order.
fn is_sound(range: &Range<f64>) -> bool {
    range.start.is_finite() && range.end.is_finite() && range.start < range.end
}

fn checked_bytes(range: Range<f64>) -> Option<Range<f64>> {
    let length = (range.end - range.start).max(SHORTEST_BYTES);
    (length.is_finite() && range.start.is_finite()).then(|| range.start.max(0.0)..range.start.max(0.0) + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_inside_the_trace() {
        let span = 0.0..1000.0;
        for (range, expected) in [
            (100.0..200.0, Some(100.0..200.0)),
            (-50.0..50.0, Some(0.0..100.0)),
            (950.0..1050.0, Some(900.0..1000.0)),
            (-10.0..1010.0, None),
            (500.0..500.0, Some(499.5..500.5)),
            (500.2..500.1, Some(499.65..500.65)),
            (f64::NAN..1.0, None),
            (f64::NEG_INFINITY..1.0, None),
        ] {
            let got = limited(range.clone(), &span);
            let near = match (&got, &expected) {
                (Some(a), Some(b)) => (a.start - b.start).abs() < 1e-6 && (a.end - b.end).abs() < 1e-6,
                (a, b) => a == b,
            };
            assert!(near, "{range:?}: {got:?}");
        }
        for (range, expected) in [
            (0.0..1e9, Some(0.0..1e9)),
            (-5e3..1e6, Some(0.0..1.005e6)),
            (1e6..1e6, Some(1e6..1e6 + SHORTEST_BYTES)),
            (f64::NAN..1.0, None),
            (0.0..f64::INFINITY, None),
        ] {
            assert_eq!(checked_bytes(range), expected);
        }
    }
}
