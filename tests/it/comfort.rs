//! What makes the window pleasant: saved pictures, the pages of help, what is remembered of files, names for assistive
//! tools.

use crate::window::{Window_, place, remembering_window, rest, window, with_sample};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::{NodeT, Queryable};
use fragscope::chart::{ColourBy, Theme};
use fragscope::model::Position;
use fragscope::model::glossary::TERMS;
use fragscope::session::samples::SAMPLES;
use fragscope::session::workspace::Window;
use fragscope::session::{Command, Session};
use fragscope::ui::keys::KEYS;
use fragscope::ui::views::VIEWS;
use std::collections::BTreeSet;
use std::path::Path;

/// Brings a view to the front; its tab is the lowest button of that name.
fn show(window: &mut Window_<'_>, title: &str) {
    let buttons = window.query_all_by_role_and_label(Role::Button, title);
    buttons.max_by(|a, b| a.rect().min.y.total_cmp(&b.rect().min.y)).expect("it has a tab").click();
    rest(window);
}

/// Brings a view to the front and asks for its picture.
fn ask_picture(window: &mut Window_<'_>, title: &str) {
    show(window, title);
    window.get_by_label(&format!("Save a picture of {title}")).click();
    window.step();
    window.step();
}

fn type_path(window: &mut Window_<'_>, path: &Path) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.event(egui::Event::Text(path.display().to_string()));
    window.step();
}

fn save(window: &mut Window_<'_>) {
    window.get_by_role_and_label(Role::Button, "Save").click();
    // While the picture waits for its answers no job need be under way.
    window.run_steps(3);
    rest(window);
    window.run_steps(20);
    rest(window);
}

#[test]
fn every_view_is_saved_as_a_picture_in_both_themes() {
    let dir = tempfile::tempdir().expect("a folder");
    for (sample, theme) in [
        ("fragmentation_oom", Theme::Light),
        ("fragmentation_oom", Theme::Dark),
        ("two_devices", Theme::Dark),
        ("segments_only", Theme::Light),
    ] {
        let mut window = with_sample(sample);
        for view in VIEWS.iter().filter(|view| view.id != "kv") {
            let path = dir.path().join(format!("{sample}-{}-{theme:?}.png", view.id));
            ask_picture(&mut window, view.title);
            type_path(&mut window, &path);
            window.get_by_role_and_label(Role::ComboBox, "Size").click();
            rest(&mut window);
            window.get_by_label("1280 × 800").click();
            window.step();
            window.get_by_label("1 ×").click();
            window.get_by_role_and_label(Role::Button, if theme == Theme::Dark { "Dark" } else { "Light" }).click();
            window.step();
            assert!(window.query_by_label("makes 1280 × 800 pixels").is_some(), "it says what comes out");
            save(&mut window);
            let picture = image::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).to_rgb8();
            assert_eq!(picture.dimensions(), (1280, 800), "{}", view.id);
            // Below the title's line something is drawn, on the ground of the theme.
            let colours: BTreeSet<_> = picture.rows().skip(40).flat_map(|row| row.map(|pixel| pixel.0)).collect();
            assert!(8 < colours.len(), "{} of {sample} is blank", view.id);
            assert_eq!(picture.get_pixel(1279, 1).0[0] < 128, theme == Theme::Dark, "{}", view.id);
            assert_eq!(window.state().session.theme(), Theme::Light, "the window keeps its own");
            let notes = window.state().session.notes().to_vec();
            assert!(notes.iter().all(|note| !note.is_error), "{notes:?}");
            notes.iter().for_each(|note| window.state().session.send(Command::Dismiss(note.id)));
            rest(&mut window);
        }
    }
}

#[test]
fn a_picture_has_the_size_one_chooses_or_a_sentence_says_why_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("flame.png");
    let mut window = with_sample("streams");
    let before = window.state().session.workspace().clone();
    ask_picture(&mut window, "Flame");
    type_path(&mut window, &path);
    window.get_by_label("3 ×").click();
    window.step();
    let told = window.get_by_label_contains("makes ");
    let told = told.accesskit_node().value().expect("a text");
    let numbers: Vec<u32> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
    save(&mut window);
    let picture = image::open(&path).expect("a picture");
    assert_eq!([picture.width(), picture.height()], numbers[..], "{told}");
    assert_eq!(*window.state().session.workspace(), before, "nothing was changed by it");

    for (name, sentence) in [("", "Type where to save"), ("no/such/folder/x.png", "no/such/folder/x.png")] {
        ask_picture(&mut window, "Events");
        let path = if name.is_empty() { Path::new(" ").to_owned() } else { dir.path().join(name) };
        type_path(&mut window, &path);
        save(&mut window);
        assert!(window.query_all_by_label_contains(sentence).next().is_some(), "{sentence}");
        window.key_press(Key::Escape);
        rest(&mut window);
        assert!(window.query_by_label("Save a picture of Events as").is_none(), "Esc closes it");
    }
}

#[test]
fn a_picture_in_the_making_can_be_given_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut window = with_sample("training");
    ask_picture(&mut window, "Usage");
    type_path(&mut window, &dir.path().join("usage.png"));
    window.get_by_role_and_label(Role::Button, "Save").click();
    window.run_steps(2);
    assert!(window.query_by_label("Making the picture of Usage").is_some(), "it says what it does");
    window.key_press(Key::Escape);
    rest(&mut window);
    assert!(window.query_by_label("Making the picture of Usage").is_none());
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "nothing was written");
}

#[test]
fn tables_are_copied_whole_and_by_value() {
    let copied = |window: &Window_<'_>| {
        let commands = &window.output().platform_output.commands;
        commands.iter().find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        })
    };
    let mut window = with_sample("fragmentation_oom");
    for (view, page, head, rows) in [
        ("Events", "", "event,time in microseconds,action", 1),
        ("Segments", "", "address,size,active", 172),
        ("Sizes", "Sizes and lifetimes", "of,from,to,blocks,bytes", 10),
        ("Sizes", "Churn by stack", "churned,times,kept", 5),
    ] {
        show(&mut window, view);
        if !page.is_empty() {
            window.get_by_label(page).click();
            rest(&mut window);
        }
        let buttons = window.query_all_by_label("Copy CSV");
        buttons.max_by(|a, b| a.rect().min.y.total_cmp(&b.rect().min.y)).expect("it can be copied").click();
        // Down, then up: the click is known in the second frame.
        let text = (0..4).find_map(|_| {
            window.step();
            copied(&window)
        });
        let text = text.unwrap_or_else(|| panic!("{view} {page} was not copied"));
        assert!(text.starts_with(head), "{view} {page}: {text:.80}");
        assert!(rows < text.lines().count(), "{view} {page}: {} lines", text.lines().count());
    }
    show(&mut window, "Segments");
    let state = answered_state(&mut window);
    let largest = state
        .segments
        .iter()
        .map(|segment| state.blocks_of(segment))
        .max_by_key(|blocks| blocks.iter().filter(|block| block.allocation.is_none()).map(|block| block.size).sum::<u64>());
    let free: u64 = largest.expect("segments").iter().filter(|block| block.allocation.is_none()).map(|block| block.size).sum();
    // The first row holds most free bytes; its fourth cell says how many.
    let head = window.get_by_label("sort segments by Free").rect();
    let cell = egui::pos2(head.center().x, head.max.y + 10.0);
    window.hover_at(cell);
    window.step();
    for pressed in [true, false] {
        let button = egui::PointerButton::Secondary;
        window.event(egui::Event::PointerButton { pos: cell, button, pressed, modifiers: Modifiers::NONE });
        window.step();
    }
    window.run_steps(2);
    window.get_by_label("Copy Free").click();
    let text = (0..4).find_map(|_| {
        window.step();
        copied(&window)
    });
    assert_eq!(text, Some(free.to_string()), "bare bytes");
}

/// The state at the cursor, as the window knows it.
fn answered_state(window: &mut Window_<'_>) -> std::sync::Arc<fragscope::replay::MemoryState> {
    rest(window);
    match window.state().session.state() {
        fragscope::session::Answer::Ready(state) => state,
        other => panic!("not answered: {:?}", other.status()),
    }
}

#[test]
fn the_tab_offers_its_picture_and_ctrl_e_that_under_the_pointer() {
    let mut window = with_sample("private_pools");
    let tab = window.get_by_label("Layout").rect().center();
    window.hover_at(tab);
    window.step();
    window.get_by_label("Layout").click_secondary();
    window.run_steps(2);
    window.get_by_label("Save picture…").click();
    window.run_steps(2);
    assert!(window.query_by_label("Save a picture of Layout as").is_some());
    window.get_by_role_and_label(Role::Button, "Cancel").click();
    window.run_steps(2);
    window.hover_at(window.get_by_label("usage timeline").rect().center());
    window.step();
    window.key_press_modifiers(Modifiers::COMMAND, Key::E);
    window.run_steps(2);
    assert!(window.query_by_label("Save a picture of Usage as").is_some());
}

#[test]
fn the_help_lists_all_keys_and_all_words() {
    let mut window = window(Vec::new());
    rest(&mut window);
    for (modifiers, key) in [(Modifiers::NONE, Key::F1), (Modifiers::SHIFT, Key::Questionmark)] {
        // The start page's field does not have the keys.
        window.key_press_modifiers(modifiers, key);
        rest(&mut window);
        for row in KEYS {
            assert!(window.query_all_by_label(row.what).next().is_some(), "{}", row.what);
        }
        assert!(window.query_by_label("Ctrl+Shift+Z or Ctrl+Y").is_some());
        window.get_by_role_and_label(Role::Button, "Glossary").click();
        rest(&mut window);
        for term in TERMS {
            assert!(window.query_all_by_label(term.meaning).next().is_some(), "{}", term.word);
        }
        window.key_press(Key::Escape);
        rest(&mut window);
        assert!(window.query_by_label(TERMS[0].meaning).is_none(), "Esc closes it");
    }
}

#[test]
fn the_whole_window_is_made_larger_and_stays_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut window = remembering_window(dir.path().to_owned(), Vec::new());
    rest(&mut window);
    for key in [Key::Plus, Key::Plus, Key::Minus, Key::Plus] {
        window.key_press_modifiers(Modifiers::COMMAND, key);
        rest(&mut window);
    }
    let zoom = window.ctx.zoom_factor();
    assert!(1.1 < zoom && zoom < 1.5, "{zoom}");
    drop(window);
    let mut again = remembering_window(dir.path().to_owned(), Vec::new());
    rest(&mut again);
    assert_eq!(again.ctx.zoom_factor(), zoom);
    again.key_press_modifiers(Modifiers::COMMAND, Key::Num0);
    rest(&mut again);
    assert_eq!(again.ctx.zoom_factor(), 1.0);
}

fn still(window: &mut Window_<'_>) {
    // A value becomes a step, and is remembered, after half a second.
    window.run_steps(60);
    rest(window);
}

#[test]
fn each_file_comes_up_as_it_was_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = dir.path().join("config");
    let (a, b) = (dir.path().join("a.pickle.gz"), dir.path().join("b.pickle.gz"));
    for (path, name) in [(&a, "fragmentation_oom"), (&b, "two_devices")] {
        let sample = SAMPLES.iter().find(|sample| sample.name == name).expect("compiled in");
        std::fs::write(path, sample.bytes).expect("written");
    }
    let mut first = remembering_window(config.clone(), vec![a.clone()]);
    rest(&mut first);
    let session = &first.state().session;
    for command in [
        Command::MoveCursor(Position(40)),
        Command::ToggleMark,
        Command::MoveCursor(Position(70)),
        Command::ToggleMark,
        Command::SetWindow(20.0..400.0),
        Command::SetRows(Some(0.0..1e6)),
        Command::SelectRange(Position(30)..Position(60)),
        Command::SetColourBy(ColourBy::Size),
    ] {
        session.send(command);
    }
    still(&mut first);
    first.get_by_label("View").click();
    rest(&mut first);
    first.get_by_role_and_label(Role::CheckBox, "Details").click();
    still(&mut first);
    let left = place(&first.state().session).clone();
    first.state().session.send(Command::Open(b.clone()));
    still(&mut first);
    first.state().session.send(Command::SetColourBy(ColourBy::Stack));
    let other = first.state().session.active().expect("open").used_devices()[1];
    first.state().session.send(Command::SetDevice(other));
    still(&mut first);
    first.get_by_label("View").click();
    rest(&mut first);
    first.get_by_role_and_label(Role::CheckBox, "Details").click();
    still(&mut first);
    let details = |window: &Window_<'_>| window.query_by_label("Details").is_some();
    assert!(details(&first));
    drop(first);

    let mut second = remembering_window(config.clone(), vec![a.clone()]);
    still(&mut second);
    let session = &second.state().session;
    assert_eq!(*place(session), left, "cursor, window, addresses, range and marks");
    assert_eq!(left.marks, [Position(40), Position(70)]);
    assert_eq!(left.window, Window::Units(Default::default(), 20.0..400.0));
    assert_eq!(session.workspace().colour_by, ColourBy::Size);
    assert!(!details(&second), "its own arrangement");
    session.send(Command::Open(b.clone()));
    still(&mut second);
    assert_eq!(second.state().session.front().map(|(_, device, _)| device), Some(other));
    assert!(details(&second), "the other's arrangement");
    let id = second.state().session.documents()[0].id;
    second.state().session.send(Command::Activate(id));
    still(&mut second);
    assert!(!details(&second), "each file in front has its own");
    second.state().session.send(Command::ForgetFiles);
    rest(&mut second);
    drop(second);

    let mut third = remembering_window(config, vec![a]);
    rest(&mut third);
    assert!(place(&third.state().session).marks.is_empty(), "it was forgotten");
}

#[test]
fn a_file_that_changed_is_another_file_and_what_lies_beyond_it_is_dropped() {
    use fragscope::model::DeviceId;
    use fragscope::session::persist::{FileMemory, FileStamp, PlaceMemory, Saved, load, store};
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.pickle.gz");
    let sample = SAMPLES.iter().find(|sample| sample.name == "private_pools").expect("compiled in");
    std::fs::write(&path, sample.bytes).expect("written");
    let stamp = FileStamp::of(&path).expect("it is there");
    let other = FileStamp { bytes: stamp.bytes + 1, ..stamp.clone() };
    for (stamp, known) in [(stamp, true), (other, false)] {
        let folder = dir.path().join(format!("config {known}"));
        let wild = PlaceMemory {
            cursor: 3,
            moved: true,
            window: Some((false, 5.0, 1.0)),
            range: Some((2, u32::MAX)),
            marks: vec![2, u32::MAX],
            ..PlaceMemory::default()
        };
        let memory = FileMemory { stamp, device: 77, colour_by: "nonsense".into(), places: vec![wild], ..FileMemory::default() };
        let mut saved = Saved::default();
        saved.remember_file(memory);
        store(&folder, &saved).expect("stored");
        assert_eq!(load(&folder), saved);
        let mut window = remembering_window(folder, vec![path.clone()]);
        rest(&mut window);
        let place = place(&window.state().session);
        assert_eq!(place.cursor == Position(3), known);
        assert_eq!(place.marks, if known { vec![Position(2)] } else { Vec::new() });
        assert_eq!((&place.window, &place.range), (&Window::Whole, &None));
        assert_eq!(window.state().session.front().map(|(_, device, _)| device), Some(DeviceId(0)));
    }
    let mut saved = Saved::default();
    for n in 0..80 {
        let stamp = FileStamp { path: format!("/data/{n}").into(), ..FileStamp::default() };
        saved.remember_file(FileMemory { stamp, ..FileMemory::default() });
    }
    assert_eq!((saved.files.len(), saved.files[0].stamp.path.as_path()), (50, Path::new("/data/79")), "the oldest are dropped");
}

#[test]
fn visible_addresses_are_undone_and_fitted() {
    let mut session = crate::window::opened(&["private_pools"]);
    let mut now = 10.0;
    let mut still = |session: &mut Session| {
        for _ in 0..8 {
            now += 0.1;
            session.tick(now);
        }
    };
    still(&mut session);
    for rows in [0.0..1e6, 5e5..1e6] {
        session.apply(Command::SetRows(Some(rows)));
        still(&mut session);
    }
    session.apply(Command::Undo);
    assert_eq!(place(&session).rows, Some(0.0..1e6));
    session.apply(Command::Fit);
    assert_eq!(place(&session).rows, None);
}

#[test]
fn every_control_of_every_view_has_a_name() {
    const CONTROLS: [Role; 10] = [
        Role::Button,
        Role::CheckBox,
        Role::TextInput,
        Role::ComboBox,
        Role::Slider,
        Role::SpinButton,
        Role::RadioButton,
        Role::Link,
        Role::Tab,
        Role::ListBox,
    ];
    let nameless = |window: &Window_<'_>, place: &str| {
        for node in window.root().children_recursive() {
            let node = node.accesskit_node();
            let named = node.label().or(node.value()).is_some_and(|name| !name.trim().is_empty());
            assert!(named || !CONTROLS.contains(&node.role()), "{place}: a {:?} without a name", node.role());
            let text = node.label().unwrap_or_default();
            let field = matches!(node.role(), Role::TextInput | Role::ComboBox | Role::SpinButton);
            assert!(!field || !text.trim().is_empty(), "{place}: a {:?} named by nothing but its value", node.role());
        }
    };
    for sample in ["fragmentation_oom", "segments_only"] {
        let mut window = with_sample(sample);
        for view in VIEWS.iter().filter(|view| view.id != "kv") {
            show(&mut window, view.title);
            nameless(&window, &format!("{} of {sample}", view.title));
        }
        for menu in ["File", "View", "Help"] {
            window.get_by_label(menu).click();
            rest(&mut window);
            nameless(&window, menu);
            window.key_press(Key::Escape);
            rest(&mut window);
        }
        window.key_press_modifiers(Modifiers::COMMAND, Key::E);
        rest(&mut window);
        nameless(&window, "the question for a picture");
    }
    let mut start = window(Vec::new());
    rest(&mut start);
    nameless(&start, "the start page");
}
