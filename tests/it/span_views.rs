//! Spans under the pictures, their table, and the plots of the charts view, driven like a hand would.

use crate::window::{Window_, place, rest, shown_window, with_sample};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable;
use fragscope::analysis::{Group, GroupCurves, SpanFigures, SpanKind};
use fragscope::base::Bytes;
use fragscope::chart::axis::Span;
use fragscope::chart::{Area, Clock, ColourBy, Scale, Theme, TimeAxis, spans};
use fragscope::model::Position;
use fragscope::paint::series::{RIGHT_PT, VALUE_AXIS_PT};
use fragscope::session::lookups::ClockOf;
use fragscope::session::samples::SAMPLES;
use fragscope::session::{Answer, Command};
use std::sync::Arc;

fn open_tab(window: &mut Window_<'_>, title: &str) {
    let tab = window.get_all_by_label(title).next().expect("a tab");
    tab.click();
    rest(window);
}

fn answer<Q: fragscope::analysis::Query>(window: &mut Window_<'_>, params: Q::Params) -> Arc<Q::Answer> {
    window.state().session.ask_in::<Q>("test", params.clone());
    rest(window);
    match window.state().session.ask_in::<Q>("test", params) {
        Answer::Ready(answer) => answer,
        other => panic!("not answered: {:?}", other.status()),
    }
}

fn click(window: &mut Window_<'_>, at: egui::Pos2) {
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    rest(window);
}

/// The widest annotation of the sample, where the pointer finds it between the usage picture and its overview.
fn span_below_usage(window: &mut Window_<'_>, clock: &Clock) -> (Span, egui::Pos2) {
    let canvas = window.get_by_label("usage timeline").rect();
    let (overview, height) = (42.0, spans::height_pt(clock, canvas.height()));
    let bottom = canvas.height() - overview;
    let area = Area::new(VALUE_AXIS_PT, bottom - height, canvas.width() - RIGHT_PT, bottom);
    let time = Scale::new(shown_window(window), area.x0, area.x1);
    let width = |span: &&Span| span.units.end - span.units.start;
    let in_lane = clock.spans().iter().filter(|span| span.lane == 0 && span.kind == SpanKind::Annotation);
    let span = in_lane.max_by(|a, b| width(a).total_cmp(&width(b))).expect("an annotation").clone();
    let x = time.point((span.units.start + span.units.end) / 2.0);
    (span, canvas.min + egui::vec2(x, area.y0 + spans::ROW_PT / 2.0))
}

#[test]
fn a_click_on_a_span_makes_it_the_window() {
    let mut window = with_sample("training");
    let clock = answer::<ClockOf>(&mut window, TimeAxis::Events);
    let (span, at) = span_below_usage(&mut window, &clock.clock);
    let figures = answer::<SpanFigures>(&mut window, ());
    let name = {
        let (document, ..) = window.state().session.front().expect("open");
        document.snapshot.stacks.strings.get(span.name).to_owned()
    };
    window.hover_at(at);
    window.run_steps(30);
    assert!(window.query_all_by_label_contains(&name).next().is_some(), "the tooltip names {name}");
    let events = fragscope::base::grouped(u64::from(figures.spans.rows[span.row].events()));
    assert!(window.query_all_by_label_contains(&format!("{events} events")).next().is_some(), "{events} events are told");
    window.hover_at(egui::pos2(2.0, 2.0));
    rest(&mut window);
    click(&mut window, at);
    let shown = shown_window(&window);
    assert_eq!(shown, span.units, "the span is the window");
}

#[test]
fn the_table_of_spans_tells_their_figures_and_compares_two() {
    let mut window = with_sample("training");
    open_tab(&mut window, "Spans");
    let figures = answer::<SpanFigures>(&mut window, ());
    assert!(2 < figures.spans.rows.len());
    let name = |window: &Window_<'_>, row: usize| {
        let (document, ..) = window.state().session.front().expect("open");
        document.snapshot.stacks.strings.get(figures.spans.rows[row].name).to_owned()
    };
    // A name leads to its spans.
    window.get_by_label("By name").click();
    rest(&mut window);
    let group = figures.groups.iter().find(|group| 1 < group.rows.len()).expect("a name that comes twice").clone();
    let first_row = group.rows[0] as usize;
    let label = format!("{}, {} spans", name(&window, first_row), group.rows.len());
    window.get_by_role_and_label(Role::ListBoxOption, &label).click();
    rest(&mut window);
    let span = figures.spans.rows[first_row];
    window.get_by_label("Compare with the next").click();
    rest(&mut window);
    let sums = [figures.sums[first_row], figures.sums[group.rows[1] as usize]];
    for sum in sums {
        assert!(window.query_all_by_label(&Bytes(sum.peak).exact()).next().is_some(), "{sum:?}");
    }
    let marks = place(&window.state().session).marks.len();
    window.get_by_label("Mark both ends for the flame graph").click();
    rest(&mut window);
    let session = &window.state().session;
    assert_eq!(place(session).marks.len(), marks + 2);
    assert!(place(session).marks.contains(&span.to));
    window.get_by_label("Make it the window").click();
    rest(&mut window);
    let clock = answer::<ClockOf>(&mut window, TimeAxis::Events);
    let units = clock.clock.unit(span.from)..clock.clock.unit(span.to);
    assert_eq!(shown_window(&window), units);
    let row = format!("{}, event {}", name(&window, first_row), fragscope::base::grouped(u64::from(span.from.0)));
    window.get_all_by_role_and_label(Role::ListBoxOption, &row).next().expect("its row").click();
    rest(&mut window);
    assert_eq!(place(&window.state().session).range, Some(span.from..span.to), "a click selects the range");
    window.get_by_label("Clear filter").click();
    rest(&mut window);
    for theme in [Theme::Light, Theme::Dark] {
        window.state().session.send(Command::SetTheme(theme));
        rest(&mut window);
        window.render().expect("painted");
    }
}

#[test]
fn charts_show_every_group_and_several_plots() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        open_tab(&mut window, "Charts");
        open_spans_or_say_why(&mut window);
        open_tab(&mut window, "Charts");
        let Some(groups) = window.state().session.front().map(|(_, _, memory)| Group::all(memory)) else { continue };
        if !window.state().session.front().expect("open").2.has_history() {
            continue;
        }
        for panel in ["Counts", "Shares", "Byte rates", "Call rates"] {
            window.get_by_label(panel).click();
            rest(&mut window);
        }
        for plot in ["charts", "chart of counts", "chart of shares", "chart of byte rates", "chart of call rates"] {
            assert!(window.query_by_label(plot).is_some(), "{}: {plot}", sample.name);
        }
        let xs: Vec<(f32, f32)> = ["charts", "chart of counts", "chart of shares"]
            .map(|plot| window.get_by_label(plot).rect())
            .map(|rect| (rect.min.x, rect.max.x))
            .to_vec();
        assert!(xs.windows(2).all(|pair| pair[0] == pair[1]), "{}: plots stand under one another: {xs:?}", sample.name);
        // What stands further down in a long list is out of reach without scrolling.
        let group = groups[(groups.len() - 1).min(4)];
        let named = {
            let (document, ..) = window.state().session.front().expect("open");
            fragscope::chart::series::group_name(&document.snapshot, group)
        };
        window.get_by_role_and_label(Role::ComboBox, "Of").click();
        rest(&mut window);
        window.get_all_by_role_and_label(Role::Button, &named).last().expect("the group").click();
        rest(&mut window);
        let at = place(&window.state().session).cursor;
        let curves = answer::<GroupCurves>(&mut window, group);
        let reserved = format!("reserved, {}", Bytes(curves.usage.reserved.at(at)));
        assert!(window.query_by_label(&reserved).is_some(), "{}: {reserved} of {named}", sample.name);
        for theme in [Theme::Light, Theme::Dark] {
            window.state().session.send(Command::SetTheme(theme));
            rest(&mut window);
            window.render().expect("painted");
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
    }
}

fn open_spans_or_say_why(window: &mut Window_<'_>) {
    open_tab(window, "Spans");
    let figures = answer::<SpanFigures>(window, ());
    let table = window.query_by_label("spans").is_some();
    assert_eq!(table, !figures.spans.rows.is_empty(), "a table or a sentence");
}

#[test]
fn markers_and_lines_are_switched() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Charts");
    let before = window.render().expect("painted");
    window.get_by_role_and_label(Role::CheckBox, "failures").click();
    rest(&mut window);
    assert!(window.query_by_label("failures, hidden").is_some());
    window.hover_at(egui::pos2(2.0, 2.0));
    rest(&mut window);
    assert!(before != window.render().expect("painted"), "the failure's line is gone");
    window.get_by_label("failures, hidden").click();
    rest(&mut window);
    assert!(window.query_by_label("failures").is_some());
    // The last plot cannot be switched off.
    window.get_by_label("Bytes").click();
    rest(&mut window);
    assert!(window.query_by_label("charts").is_some());
    assert!(window.query_all_by_label_contains("most the allocator could hold: ").next().is_some());
}

#[test]
fn colours_by_free_memory_held() {
    let mut window = with_sample("fragmentation_oom");
    open_tab(&mut window, "Address over time");
    let before = window.render().expect("painted");
    window.state().session.send(Command::SetColourBy(ColourBy::Held));
    rest(&mut window);
    assert!(window.query_all_by_label("held none").next().is_some(), "the legend names the classes");
    window.state().session.send(Command::MoveCursor(Position(20_000)));
    rest(&mut window);
    assert!(before != window.render().expect("painted"));
}
