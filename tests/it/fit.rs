//! What one sees fits: tabs and columns in a narrow window, plots one below the other, words about nothing and about one.

use crate::window::{Window_, rest, sized_window, with_sample};
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT, Queryable};
use fragscope::chart::ColourBy;
use fragscope::session::Command;
use fragscope::ui::views::VIEWS;

/// The smallest window that has to be good.
const NARROW: [f32; 2] = [1280.0, 800.0];
/// A file with one block in one segment, and the event that made it.
const ONE: &str = r#"{"segments": [{"device": 0, "address": 4194304, "total_size": 2097152, "allocated_size": 512, "active_size": 512,
    "requested_size": 100, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
    "blocks": [{"address": 4194304, "size": 512, "requested_size": 100, "state": "active_allocated", "frames": []},
               {"address": 4194816, "size": 2096640, "requested_size": 0, "state": "inactive", "frames": []}]}],
    "device_traces": [[{"action": "alloc", "addr": 4194304, "size": 100, "stream": 0, "time_us": 1000, "frames": []}]]}"#;

fn narrow(sample: &'static str) -> Window_<'static> {
    let mut window = sized_window(NARROW, Vec::new());
    window.state_mut().session.send(Command::OpenSample(sample));
    rest(&mut window);
    window
}

/// A window on a file of this text.
fn with_text(folder: &tempfile::TempDir, text: &str) -> Window_<'static> {
    let path = folder.path().join("made.json");
    std::fs::write(&path, text).expect("written");
    let mut window = sized_window(NARROW, vec![path]);
    rest(&mut window);
    window
}

/// Where a tab stands; other things of its name stand elsewhere.
fn tab(window: &Window_<'_>, title: &str) -> egui::Rect {
    let bar = window.get_by_role_and_label(Role::Button, "Memory summary").rect().y_range();
    let mut all = window.query_all_by_role_and_label(Role::Button, title).map(|node| node.rect());
    all.find(|rect| bar.contains(rect.center().y)).unwrap_or_else(|| panic!("{title} has no tab"))
}

fn open_tab(window: &mut Window_<'_>, title: &str) {
    let at = tab(window, title).center();
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    rest(window);
}

fn is_told(window: &Window_<'_>, words: &str) -> bool {
    window.query_all_by_label_contains(words).next().is_some()
}

#[test]
fn all_tabs_stand_in_a_narrow_window_whichever_is_in_front() {
    let mut window = narrow("training");
    let tabbed = VIEWS.iter().filter(|class| !["usage", "layout", "why", "details", "kv"].contains(&class.id));
    let tabbed: Vec<&str> = tabbed.map(|class| class.title).collect();
    for front in &tabbed {
        open_tab(&mut window, front);
        let save = window.get_by_label(&format!("Save a picture of {front}")).rect();
        for title in &tabbed {
            let tab = tab(&window, title);
            assert!(tab.max.x < save.min.x, "{title} ends at {} behind {} while {front} is in front", tab.max.x, save.min.x);
        }
    }
}

#[test]
fn no_table_loses_its_stacks_in_a_narrow_window() {
    let mut window = narrow("training");
    for (tab, last) in [
        ("Events", "Stack"),
        ("Live set", "sort live set by Stack"),
        ("Allocations", "sort allocations by Allocated at"),
        ("Segments", "Created at"),
        ("Spans", "sort spans by Name"),
    ] {
        open_tab(&mut window, tab);
        let room = window.get_by_label(last).rect().width();
        assert!(100.0 <= room, "{tab}: {last} has {room} points");
    }
}

#[test]
fn several_plots_are_scrolled_before_they_are_squeezed() {
    let mut window = narrow("training");
    open_tab(&mut window, "Charts");
    for panel in ["Counts", "Shares", "Byte rates", "Call rates", "Driver time"] {
        window.get_by_label(panel).click();
        rest(&mut window);
    }
    for plot in ["charts", "chart of counts", "chart of driver time"] {
        let height = window.get_by_label(plot).rect().height();
        assert!(40.0 <= height, "{plot} is {height} points high");
    }
}

#[test]
fn a_file_without_a_device_is_not_called_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let window = with_text(&folder, r#"{"segments": [], "device_traces": []}"#);
    assert!(is_told(&window, "This file names no device"));
    assert!(!is_told(&window, "No file is open"));
}

#[test]
fn one_of_a_thing_is_not_called_several() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = with_text(&folder, ONE);
    for (tab, words) in
        [("Events", "1 event"), ("Live set", "1 row, 1 block:"), ("Segments", "1 segment at the dump:"), ("Sizes", "1 block")]
    {
        open_tab(&mut window, tab);
        assert!(is_told(&window, words), "{tab}: {words}");
        for wrong in ["1 events", "1 blocks", "1 segments", "1 rows"] {
            assert!(window.query_all_by_label(wrong).next().is_none(), "{tab}: {wrong}");
        }
    }
}

#[test]
fn what_is_known_only_at_the_dump_is_told_so_in_every_view() {
    let mut window = with_sample("segments_only");
    for (tab, words) in [
        ("Flame", "allocated by stack at the dump"),
        ("Live set", "allocated at the dump"),
        ("Segments", "at the dump:"),
        ("Memory summary", "at the dump: CUDA OOMs"),
    ] {
        open_tab(&mut window, tab);
        assert!(is_told(&window, words), "{tab}: {words}");
    }
}

#[test]
fn the_legend_never_stands_on_the_counters() {
    let mut window = narrow("training");
    for by in ColourBy::ALL {
        window.state().session.send(Command::SetColourBy(by));
        rest(&mut window);
        let tab = window.get_by_label("Usage").rect();
        let plot = window.get_by_label("usage timeline").rect();
        let texts: Vec<(String, egui::Rect)> = window
            .query_all_by_role(Role::Label)
            .filter(|node| tab.max.y <= node.rect().min.y && node.rect().max.y <= plot.min.y && node.rect().max.x <= plot.max.x)
            .map(|node| (node.accesskit_node().value().unwrap_or_default(), node.rect()))
            .collect();
        for (i, (one, rect)) in texts.iter().enumerate() {
            for (other, over) in &texts[i + 1..] {
                let shared = rect.intersect(*over);
                assert!(shared.width() < 1.0 || shared.height() < 1.0, "{by:?}: {one} stands on {other}");
            }
        }
        assert!(by == ColourBy::Stack || 5 < texts.len(), "{by:?}: {texts:?}");
    }
}
