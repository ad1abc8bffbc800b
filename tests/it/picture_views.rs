//! The flame view and the picture of addresses over time, driven like a hand would: every number they show is the
//! allocator's.

use crate::window::{Window_, place, rest, shown_window, with_sample};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable;
use fragscope::analysis::{
    FlameDirection, FlameMatches, FlameNodeId, FlameOf, FlameParams, FlameTree, LiveCounter, StateAt, UsageTimeline, WindowSum,
};
use fragscope::base::Progress;
use fragscope::chart::address_time::{self, AddressTimeInput};
use fragscope::chart::flame_words::{describe, exact_value, heading};
use fragscope::chart::{Clock, FlameColour, FlameInks, FlameInput, Theme, TimeAxis, flame};
use fragscope::model::{Item, Position};
use fragscope::raster::LivesIndex;
use fragscope::session::samples::SAMPLES;
use fragscope::session::{Answer, Command};
use std::sync::Arc;

fn open_tab(window: &mut Window_<'_>, title: &str) {
    window.get_by_label(title).click();
    rest(window);
}

/// An answer the window has asked for, or will.
fn answer<Q: fragscope::analysis::Query>(window: &mut Window_<'_>, params: Q::Params) -> Arc<Q::Answer> {
    window.state().session.ask_in::<Q>("test", params.clone());
    rest(window);
    match window.state().session.ask_in::<Q>("test", params) {
        Answer::Ready(answer) => answer,
        other => panic!("not answered: {:?}", other.status()),
    }
}

fn live(at: Position, counter: LiveCounter) -> FlameOf {
    FlameOf::Live { at, counter }
}

fn tree(window: &mut Window_<'_>, of: FlameOf) -> Arc<FlameTree> {
    answer::<FlameTree>(window, FlameParams { of, direction: FlameDirection::TopDown, fold_framework: false })
}

/// Whether this very text stands in the tile of a tab: other views show sizes too.
fn stands_below(window: &Window_<'_>, tab: &str, text: &str) -> bool {
    let tab = window.get_by_label(tab).rect();
    let inside = |rect: egui::Rect| tab.max.y <= rect.min.y && rect.center().x < window.ctx.content_rect().width() * 0.74;
    window.query_all_by_label(text).any(|node| inside(node.rect()))
}

fn choose(window: &mut Window_<'_>, combo: &str, option: &str) {
    window.get_by_role_and_label(Role::ComboBox, combo).click();
    rest(window);
    window.get_by_role_and_label(Role::Button, option).click();
    rest(window);
}

fn click(window: &mut Window_<'_>, at: egui::Pos2) {
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    rest(window);
}

fn wheel(window: &mut Window_<'_>, points: f32, modifiers: egui::Modifiers) {
    window.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, points),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers,
    });
    window.run_steps(30);
    rest(window);
}

#[test]
fn the_flame_header_is_the_state_at_every_moment() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        open_tab(&mut window, "Flame");
        let end = window.state().session.front().expect("open").2.end().0;
        for (theme, part) in [(Theme::Light, 0), (Theme::Dark, 1), (Theme::Dark, 2), (Theme::Light, 3)] {
            let at = Position((u64::from(end) * part / 3) as u32);
            window.state().session.send(Command::SetTheme(theme));
            window.state().session.send(Command::MoveCursor(at));
            rest(&mut window);
            let state = answer::<StateAt>(&mut window, at);
            let of = live(at, LiveCounter::Allocated);
            let shown = exact_value(of, i128::from(state.totals.allocated));
            assert!(stands_below(&window, "Flame", &shown), "{}: {shown} at {at:?} is not shown", sample.name);
            let has_history = window.state().session.front().expect("open").2.has_history();
            let told = if has_history { heading(of) } else { "allocated by stack at the dump".to_owned() };
            assert!(stands_below(&window, "Flame", &told), "{}: {told}", sample.name);
            window.render().expect("painted");
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
    }
}

#[test]
fn the_flame_counts_what_one_chooses() {
    let mut window = with_sample("streams");
    open_tab(&mut window, "Flame");
    let at = place(&window.state().session).cursor;
    let state = answer::<StateAt>(&mut window, at);
    for (counter, value) in [(LiveCounter::Active, state.totals.active), (LiveCounter::Requested, state.totals.requested)] {
        choose(&mut window, "Count", counter.name());
        assert!(stands_below(&window, "Flame", &exact_value(live(at, counter), value.into())), "{counter:?}");
        assert!(stands_below(&window, "Flame", &heading(live(at, counter))), "{counter:?}");
    }
    choose(&mut window, "Count", "allocated");
    choose(&mut window, "Show", "at the peak");
    window.state().session.send(Command::MoveCursor(Position::START));
    rest(&mut window);
    let (peak, bytes) = answer::<UsageTimeline>(&mut window, ()).allocated.peak();
    let of = live(peak, LiveCounter::Allocated);
    assert!(stands_below(&window, "Flame", &exact_value(of, bytes.into())) && stands_below(&window, "Flame", &heading(of)));

    choose(&mut window, "Show", "over the window");
    let range = shown_window(&window);
    let clock = Clock::of(window.state().session.front().expect("open").2, TimeAxis::default());
    let (from, to) = (clock.position(range.start), clock.position(range.end));
    let lives = &window.state().session.front().expect("open").2.allocations;
    let born: Vec<u64> = (0..lives.len())
        .filter(|row| from < lives.born()[*row] && lives.born()[*row] <= to)
        .map(|row| lives.sizes()[row])
        .collect();
    for (name, sum, value) in [
        ("bytes allocated", WindowSum::Allocated, born.iter().sum::<u64>()),
        ("allocations", WindowSum::Count, born.len() as u64),
    ] {
        choose(&mut window, "Count", name);
        let of = FlameOf::Window { from, to, sum };
        assert!(stands_below(&window, "Flame", &exact_value(of, value.into())), "{name}");
    }

    choose(&mut window, "Show", "between marks");
    assert!(window.query_by_label_contains("Two marks are compared").is_some(), "it says what is missing");
    for moment in [Position(3), peak] {
        window.state().session.send(Command::MoveCursor(moment));
        window.state().session.send(Command::ToggleMark);
    }
    rest(&mut window);
    let before = answer::<StateAt>(&mut window, Position(3)).totals.allocated;
    let (from, to) = (Position(3), peak);
    let of = FlameOf::Difference { from, to, counter: LiveCounter::Allocated };
    let value = i128::from(bytes) - i128::from(before);
    assert!(value != 0 && stands_below(&window, "Flame", &exact_value(of, value)), "{}", exact_value(of, value));
    window.get_by_role_and_label(Role::ComboBox, "to").click();
    rest(&mut window);
    window.get_by_role_and_label(Role::Button, "A").click();
    rest(&mut window);
    assert!(window.query_by_label_contains("No stack holds more or less").is_some(), "a moment less itself is nothing");
}

#[test]
fn a_flame_is_hovered_focused_left_and_searched() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Flame");
    let at = place(&window.state().session).cursor;
    let tree = tree(&mut window, live(at, LiveCounter::Allocated));
    let snapshot = Arc::clone(&window.state().session.active().expect("open").snapshot);
    let inks = FlameInks::new(&snapshot.stacks, FlameColour::Stack);
    let canvas = window.get_by_label("flame graph").rect();
    let drawn = flame::draw(&FlameInput::whole(&tree, &snapshot.stacks, &inks, canvas.width(), canvas.height()));
    let visible = |node: FlameNodeId| drawn.area_of(node).filter(|area| area.y1 < canvas.height() && 40.0 < area.width());
    let (node, area, stack) = (0..tree.nodes.len() as u32)
        .map(FlameNodeId)
        .find_map(|node| Some((node, visible(node)?, tree.nodes[node].its_stack()?)))
        .expect("a box with one stack");
    let centre = canvas.min + egui::vec2((area.x0 + area.x1) / 2.0, (area.y0 + area.y1) / 2.0);
    window.hover_at(centre);
    window.run_steps(30);
    for line in describe(&tree, &snapshot.stacks, node) {
        assert!(window.query_all_by_label(&line).next().is_some(), "the tooltip says {line}");
    }
    assert!(window.query_by_label("all").is_none(), "nothing is focused yet");
    click(&mut window, centre);
    assert_eq!(place(&window.state().session).selected(), Some(Item::Stack(stack)), "selected everywhere");
    assert!(window.query_by_label("all").is_some(), "the way back is shown");
    window.get_by_label("all").click();
    rest(&mut window);
    assert!(window.query_by_label("all").is_none(), "and it leads back");

    for (text, hits) in [("EXTEND", true), ("wl.py:188", true), ("no such function", false)] {
        let field = window.get_by_role_and_label(Role::TextInput, "Find");
        field.focus();
        window.step();
        window.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
        window.get_by_role_and_label(Role::TextInput, "Find").type_text(text);
        rest(&mut window);
        let found = FlameMatches::of(&tree, &snapshot.stacks, text);
        assert_eq!(0 < found.hits, hits, "{text}");
        let sum = format!("together {}", exact_value(tree.params.of, found.value));
        let told = window.query_all_by_label_contains(&sum).next().is_some();
        assert_eq!(told, hits, "{text}: {sum}");
        assert_eq!(window.query_by_label("no frame matches").is_some(), !hits, "{text}");
    }
    window.get_by_label("End the search").click();
    rest(&mut window);
    assert!(window.query_by_label("no frame matches").is_none());
    for switch in ["Rising", "Bottom-up", "Fold framework"] {
        let before = window.render().expect("painted");
        window.get_by_label(switch).click();
        rest(&mut window);
        window.hover_at(egui::pos2(1.0, 1.0));
        rest(&mut window);
        let after = window.render().expect("painted");
        assert!(before != after, "{switch} changes the picture");
        assert!(stands_below(&window, "Flame", &exact_value(tree.params.of, tree.root().value)), "and not the sum");
    }
}

#[test]
fn addresses_over_time_on_every_sample() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        open_tab(&mut window, "Address over time");
        let has_history = window.state().session.front().expect("open").2.has_history();
        for theme in [Theme::Light, Theme::Dark] {
            window.state().session.send(Command::SetTheme(theme));
            rest(&mut window);
            assert_eq!(window.query_by_label("address over time").is_some(), has_history, "{}", sample.name);
            if !has_history {
                assert!(window.query_all_by_label_contains("shows the memory at the dump").next().is_some(), "{}", sample.name);
            }
            window.render().expect("painted");
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
    }
}

#[test]
fn the_hand_on_addresses_over_time() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Address over time");
    let canvas = window.get_by_label("address over time").rect();
    let snapshot = Arc::clone(&window.state().session.active().expect("open").snapshot);
    let memory = &snapshot.devices.as_slice()[0];
    let index = LivesIndex::new(memory, &Progress::default()).expect("not cancelled");
    let clock = Clock::of(memory, TimeAxis::Events);
    let input = AddressTimeInput {
        snapshot: &snapshot,
        memory,
        index: &index,
        clock: &clock,
        width_pt: canvas.width(),
        height_pt: canvas.height(),
        time: 0.0..0.0,
        rows: 0.0..0.0,
        rasters: &[],
        cursor: None,
        range: None,
        marks: &[],
        selected: &[],
        hovered: None,
        hovered_span: None,
    };
    let frame = address_time::frame(&input);
    let points =
        (0..100).map(|n| [frame.plot.x0 + frame.plot.width() * 0.6, frame.plot.y0 + frame.plot.height() * n as f32 / 100.0]);
    let (point, id) = points
        .rev()
        .find_map(|at| match address_time::hit(&input, at[0], at[1]) {
            Some(Item::Allocation(id)) => Some((at, id)),
            _ => None,
        })
        .expect("a block lies there");
    let at = canvas.min + egui::vec2(point[0], point[1]);
    window.hover_at(at);
    window.run_steps(30);
    let label = memory.allocations.get(id).label();
    assert!(window.query_all_by_label_contains(&label).next().is_some(), "the tooltip names {label}");
    assert_eq!(window.state().session.hovered(), Some(Item::Allocation(id)), "and all views know");
    click(&mut window, at);
    assert_eq!(place(&window.state().session).selected(), Some(Item::Allocation(id)));
    let cursor = place(&window.state().session).cursor;
    let life = memory.allocations.get(id);
    assert!(life.born <= cursor && cursor < life.died, "{cursor:?} is in its life");

    let whole = shown_window(&window);
    assert!(window.query_by_label("All addresses").is_none());
    window.hover_at(at);
    rest(&mut window);
    wheel(&mut window, 120.0, egui::Modifiers::COMMAND);
    assert!(window.query_by_label("All addresses").is_some(), "ctrl and wheel zooms addresses");
    assert_eq!(shown_window(&window), whole, "and not time");
    assert_eq!(place(&window.state().session).bytes, None, "nor the bytes of the usage picture");
    wheel(&mut window, 120.0, egui::Modifiers::NONE);
    let closer = shown_window(&window);
    assert!(closer.end - closer.start < whole.end - whole.start, "the wheel zooms time");
    let before = window.render().expect("painted");
    window.drag_at(at);
    window.step();
    for by in [20.0, 60.0, 100.0] {
        window.hover_at(at + egui::vec2(by, 0.0));
        window.step();
    }
    window.drop_at(at + egui::vec2(100.0, 0.0));
    rest(&mut window);
    assert!(shown_window(&window).start < closer.start, "a drag pans");
    assert!(before != window.render().expect("painted"));
    window.get_by_label("All addresses").click();
    rest(&mut window);
    assert!(window.query_by_label("All addresses").is_none());
}
