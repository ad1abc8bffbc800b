//! The views that lie behind the event list: charts and tables, driven by hand and held against the state.

use crate::window::{Window_, answered, cursor, opened, place, rest, shown_window, with_sample};
use egui_kittest::kittest::{NodeT, Queryable};
use fragscope::analysis::{
    BlockOrder, BlockRow, BlockTable, BlockTableParams, Categories, Churn, GroupBy, GroupKey, LifetimeParams, Pins, StateAt,
    UsageTimeline, Which,
};
use fragscope::chart::Theme;
use fragscope::model::{Item, Position};
use fragscope::session::samples::SAMPLES;
use fragscope::session::{Command, Session};

/// Brings a view to the front by its tab.
pub(crate) fn open_tab(window: &mut Window_<'_>, title: &str) {
    let at = window.get_by_role_and_label(egui::accesskit::Role::Button, title).rect().center();
    click_at(window, at);
}

pub(crate) fn click(window: &mut Window_<'_>, label: &str) {
    let at = window.get_by_label(label).rect().center();
    click_at(window, at);
}

pub(crate) fn click_at(window: &mut Window_<'_>, at: egui::Pos2) {
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    rest(window);
}

/// Names of all that is on the screen and begins so, from top to bottom.
pub(crate) fn named(window: &Window_<'_>, start: &str) -> Vec<(String, egui::Pos2)> {
    let nodes = window.root().children_recursive();
    let text = |node: egui_kittest::Node<'_>| node.accesskit_node().label().or_else(|| node.accesskit_node().value());
    let label = nodes.filter_map(|node| Some((text(node)?, node.rect().center())));
    let mut found: Vec<_> = label.filter(|(label, _)| label.starts_with(start)).collect();
    found.sort_by(|a, b| a.1.y.total_cmp(&b.1.y));
    found
}

/// Rows of a table: what is in the list of that name.
pub(crate) fn rows(window: &Window_<'_>, list: &str) -> Vec<(String, egui::Pos2)> {
    let area = window.get_by_role_and_label(egui::accesskit::Role::ListBox, list).rect();
    let options = window.root().children_recursive();
    let options = options.filter(|node| node.accesskit_node().role() == egui::accesskit::Role::ListBoxOption);
    let label = options.filter_map(|node| Some((node.accesskit_node().label()?, node.rect().center())));
    let mut found: Vec<_> = label.filter(|(_, at)| area.contains(*at)).collect();
    found.sort_by(|a, b| a.1.y.total_cmp(&b.1.y));
    found
}

#[test]
fn the_views_behind_the_event_list_open_on_every_sample() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        let history = window.state().session.front().expect("open").2.has_history();
        for theme in [Theme::Light, Theme::Dark] {
            window.state().session.send(Command::SetTheme(theme));
            for (title, shown, needs_history) in [
                ("Charts", "charts", true),
                ("Live set", "live set", false),
                ("Allocations", "allocations", true),
                ("Segments", "segments", false),
                ("Memory summary", "memory summary", false),
                ("Sizes", "histogram of sizes", false),
            ] {
                open_tab(&mut window, title);
                let there = window.query_by_label(shown).is_some();
                assert_eq!(there, history || !needs_history, "{title} of {}", sample.name);
                if !there {
                    assert!(!named(&window, "This device has no history").is_empty(), "{title} of {} is silent", sample.name);
                }
                window.render().expect("painted");
            }
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
    }
}

/// Moments spread over a trace, both ends included.
fn moments(session: &Session) -> Vec<Position> {
    let end = session.front().expect("open").2.end().0;
    (0..8u32).map(|i| Position((u64::from(end) * u64::from(i) / 7) as u32)).collect()
}

pub(crate) fn params(which: Which, by: GroupBy) -> BlockTableParams {
    let (filter, categories) = (String::new(), Categories::built_in());
    BlockTableParams { which, by, filter, order: BlockOrder::Bytes, descending: true, categories }
}

/// All rows of a table about the device in front.
pub(crate) fn rows_of(session: &Session, table: &BlockTable) -> Vec<BlockRow> {
    table.rows(&session.front().expect("open").2.allocations).collect()
}

#[test]
fn feet_equal_the_state_and_the_charts() {
    for sample in SAMPLES {
        let mut session = opened(&[sample.name]);
        let history = session.front().expect("open").2.has_history();
        let usage = answered::<UsageTimeline>(&mut session, ());
        for at in moments(&session) {
            let state = answered::<StateAt>(&mut session, at);
            for by in GroupBy::ALL {
                let live = answered::<BlockTable>(&mut session, params(Which::Live { at }, by));
                let rows = rows_of(&session, &live);
                let sum = |of: fn(&BlockRow) -> u64| rows.iter().map(of).sum::<u64>();
                let place = format!("{} by {} at {at:?}", sample.name, by.name());
                assert_eq!(live.total.bytes, state.totals.allocated, "{place}");
                assert_eq!((live.shown, sum(|row| row.sum.bytes)), (live.total, live.total.bytes), "{place}");
                assert_eq!(sum(|row| row.sum.requested), live.total.requested, "{place}");
                assert_eq!(sum(|row| row.sum.count), live.total.count, "{place}");
                let mut keys: Vec<_> = rows.iter().map(|row| row.key).collect();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), live.len(), "{place}: a group twice");
            }
            let pins = answered::<Pins>(&mut session, at);
            let reserved: u64 = pins.segments.iter().filter(|segment| !segment.inferred).map(|segment| segment.size).sum();
            assert_eq!(reserved, state.totals.reserved, "{} at {at:?}", sample.name);
            assert_eq!(pins.segments.iter().map(|s| s.active).sum::<u64>(), state.totals.active, "{} at {at:?}", sample.name);
            if history {
                assert_eq!(usage.totals_at(at), state.totals, "{} at {at:?}", sample.name);
            }
        }
    }
}

#[test]
fn a_filter_splits_the_live_set_in_two() {
    let mut session = opened(&["fragmentation_oom"]);
    let at = place(&session).cursor;
    let blocks = || params(Which::Live { at }, GroupBy::Block);
    let whole = answered::<BlockTable>(&mut session, blocks());
    let whole_rows = rows_of(&session, &whole);
    let snapshot = std::sync::Arc::clone(&session.active().expect("open").snapshot);
    let memory = &snapshot.devices.as_slice()[0];
    let Some(GroupKey::Block(id)) = whole_rows.first().map(|row| row.key) else { panic!("a row a block") };
    let label = memory.allocations.get(id).label();
    for (filter, some, all) in
        [("ATTEND", true, false), ("", true, true), ("nowhere at all", false, false), (&label, true, false)]
    {
        let asked = BlockTableParams { filter: filter.to_lowercase(), ..blocks() };
        let live = answered::<BlockTable>(&mut session, asked);
        assert_eq!((!live.is_empty(), live.len() == whole.len()), (some, all), "{filter}");
        assert_eq!(live.total, whole.total, "{filter}");
        let wanted = filter.to_lowercase();
        let naive: u64 = whole_rows
            .iter()
            .filter(|row| {
                let frames = snapshot.stacks.frames(row.stack).iter();
                let mut texts = frames.map(|frame| snapshot.stacks.line(*frame).to_lowercase());
                let GroupKey::Block(id) = row.key else { return false };
                texts.any(|text| text.contains(&wanted)) || memory.allocations.get(id).label().contains(&wanted)
            })
            .map(|row| row.sum.bytes)
            .sum();
        assert_eq!(live.shown.bytes, naive, "{filter}");
    }
    for by in GroupBy::ALL {
        for order in [BlockOrder::Name, BlockOrder::Bytes, BlockOrder::Requested, BlockOrder::Count] {
            let value = |row: &BlockRow| match order {
                BlockOrder::Bytes => row.sum.bytes,
                BlockOrder::Requested => row.sum.requested,
                BlockOrder::Count => row.sum.count,
                _ => 0,
            };
            let asked = params(Which::Live { at }, by);
            let up = answered::<BlockTable>(&mut session, BlockTableParams { order, descending: false, ..asked.clone() });
            let down = answered::<BlockTable>(&mut session, BlockTableParams { order, descending: true, ..asked });
            assert!(rows_of(&session, &up).is_sorted_by_key(value), "{by:?} {order:?}");
            assert!(rows_of(&session, &down).is_sorted_by_key(|row| std::cmp::Reverse(value(row))), "{by:?} {order:?}");
            assert_eq!(up.total, down.total);
        }
    }
}

#[test]
fn the_live_set_is_sorted_filtered_and_selected_by_hand() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Live set");
    let first = rows(&window, "live set");
    assert!(2 < first.len(), "{first:?}");
    click_at(&mut window, first[0].1);
    let selected = place(&window.state().session).selected();
    assert!(matches!(selected, Some(Item::Stack(_))), "{selected:?}");
    click(&mut window, "sort live set by Bytes");
    let up = rows(&window, "live set");
    assert_ne!(up[0].0, first[0].0, "the smallest comes first");
    click(&mut window, "sort live set by Bytes");
    assert_eq!(rows(&window, "live set")[0].0, first[0].0, "and back");
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "Holding").focus();
    window.step();
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "Holding").type_text("no such thing");
    rest(&mut window);
    assert!(!named(&window, "No block of this set passes this filter").is_empty());
    click(&mut window, "Clear filter");
    assert_eq!(rows(&window, "live set").len(), first.len());
    click(&mut window, "Copy CSV");
    window.state().session.send(Command::MoveCursor(Position::START));
    rest(&mut window);
    assert!(!named(&window, "Nothing is allocated at start").is_empty());
}

#[test]
fn segments_unfold_to_who_pins_them() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Segments");
    let folded = rows(&window, "segments");
    assert!(folded.iter().all(|(name, _)| name.starts_with("segment 0x")), "{folded:?}");
    click_at(&mut window, folded[0].1);
    assert!(matches!(place(&window.state().session).selected(), Some(Item::Segment(_))));
    let sign = named(&window, "unfold segment")[0].clone();
    click_at(&mut window, sign.1);
    let unfolded = rows(&window, "segments");
    let pin = unfolded.iter().find(|(name, _)| name.starts_with("pin 0x")).expect("a pin");
    click_at(&mut window, pin.1);
    assert!(matches!(place(&window.state().session).selected(), Some(Item::Allocation(_))));
    let sign = named(&window, "fold segment")[0].clone();
    click_at(&mut window, sign.1);
    assert!(rows(&window, "segments").iter().all(|(name, _)| name.starts_with("segment 0x")));
    click(&mut window, "sort segments by Segment");
    assert!(
        rows(&window, "segments").iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("segment")).is_sorted()
    );
}

#[test]
fn a_chart_shares_cursor_and_window_with_all_views() {
    let mut window = with_sample("training");
    open_tab(&mut window, "Charts");
    let rect = window.get_by_label("charts").rect();
    let end = window.state().session.front().expect("open").2.end().0;
    click_at(&mut window, rect.left_center() + egui::vec2(rect.width() * 0.25, 0.0));
    assert!(cursor(&window).abs_diff(end / 4) <= end / 100, "{} of {end}", cursor(&window));
    let usage = answered::<UsageTimeline>(&mut window.state_mut().session, ());
    let at = place(&window.state().session).cursor;
    let told = fragscope::base::Bytes(usage.allocated.at(at)).to_string();
    let entry = format!("allocated, {told}");
    click(&mut window, &entry);
    assert!(window.query_by_label(&entry).is_none(), "a click hides it");
    click(&mut window, "allocated, hidden");
    click(&mut window, "requested, hidden");
    assert!(window.query_by_label(&entry).is_some(), "and shows it again");
    let whole = shown_window(&window);
    window.hover_at(rect.center());
    window.step();
    window.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, 120.0),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers: egui::Modifiers::NONE,
    });
    window.run_steps(30);
    rest(&mut window);
    let closer = shown_window(&window);
    assert!(closer.end - closer.start < 0.8 * (whole.end - whole.start));
    let middle = |window: &std::ops::Range<f64>| (window.start + window.end) / 2.0;
    assert!((middle(&closer) - middle(&whole)).abs() < 0.02 * (whole.end - whole.start), "{closer:?} of {whole:?}");
    for unit in ["Counts", "Shares", "Bytes"] {
        click(&mut window, unit);
        window.render().expect("painted");
    }
}

#[test]
fn churn_and_growth_are_selected_by_hand() {
    let mut window = with_sample("training");
    open_tab(&mut window, "Sizes");
    for page in ["by count", "by bytes", "Sizes and lifetimes"] {
        click(&mut window, page);
    }
    window.get_by_label("histogram of lifetimes");
    let hover = window.get_by_label("histogram of sizes").rect().center();
    window.hover_at(hover);
    window.run_steps(30);
    window.render().expect("painted");
    click(&mut window, "Churn by stack");
    let churn =
        answered::<Churn>(&mut window.state_mut().session, LifetimeParams { from: Position::START, to: Position(u32::MAX) });
    let first = rows(&window, "churn");
    let largest = fragscope::base::Bytes(churn.stacks[0].churned.bytes).to_string();
    assert!(first[0].0.ends_with(&largest), "{} is not {largest}", first[0].0);
    click_at(&mut window, first[0].1);
    assert_eq!(place(&window.state().session).selected(), Some(Item::Stack(churn.stacks[0].stack)));
    click(&mut window, "sort churn by Times");
    assert!(!rows(&window, "churn").is_empty());
    click(&mut window, "What only grows");
    let told = ["No stack only grows", "Growth shows between"].iter().any(|start| !named(&window, start).is_empty());
    assert!(told || !rows(&window, "growth").is_empty());
    window.state().session.send(Command::SetWindow(0.0..1.0));
    rest(&mut window);
    click(&mut window, "Churn by stack");
    assert!(
        window.query_by_role_and_label(egui::accesskit::Role::ListBox, "churn").is_none() || rows(&window, "churn").len() <= 2
    );
}

#[test]
fn the_memory_summary_is_read_and_copied_by_hand() {
    for (name, at_end, parts) in [
        ("training", true, &["CUDA OOMs 0, cudaMalloc retries 0"][..]),
        ("fragmentation_oom", true, &["CUDA OOMs 1, cudaMalloc retries 5"]),
        ("late_start", true, &["* Peaks, totals and counts are those in the recording"]),
        ("segments_only", false, &["CUDA OOMs –", "* Peaks, totals and counts are not known"]),
    ] {
        let mut window = with_sample(name);
        open_tab(&mut window, "Memory summary");
        if at_end {
            let end = window.state().session.front().expect("open").2.end();
            window.state().session.send(Command::MoveCursor(end));
            rest(&mut window);
        }
        let at = place(&window.state().session).cursor;
        let state = answered::<StateAt>(&mut window.state_mut().session, at);
        let shown = rows(&window, "memory summary");
        let first = format!("allocated_bytes.all, {}", fragscope::base::Bytes(state.totals.allocated));
        assert_eq!(shown.first().map(|(name, _)| name.as_str()), Some(first.as_str()), "{name}");
        let said = named(&window, "Device 0 at ");
        for part in parts {
            assert!(said.iter().any(|(text, _)| text.contains(part)), "{name}: {part} is not in {said:?}");
        }
        click(&mut window, "Copy as text");
        window.hover_at(shown[0].1);
        window.run_steps(30);
        window.render().expect("painted");
        window.state().session.send(Command::MoveCursor(Position::START));
        rest(&mut window);
        assert!(!rows(&window, "memory summary").is_empty(), "{name}");
    }
}
