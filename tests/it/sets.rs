//! Sets of blocks in every place that shows one: tables, flame graphs, charts, marks, files. All say the same.

use crate::tables::{click, click_at, named, open_tab, params, rows, rows_of};
use crate::window::{Window_, answered, opened, place, rest, settle, with_sample};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable;
use fragscope::analysis::{
    BlockLife, BlockOrder, BlockSum, BlockTable, BlockTableParams, Categories, Churn, FlameDirection, FlameOf, FlameParams,
    FlameTree, GroupBy, GroupKey, LifetimeParams, SetSums, StateAt, UsageTimeline, Which, WindowSum, pool_of,
};
use fragscope::base::Bytes;
use fragscope::chart::{BlockColour, ColourBy};
use fragscope::model::{Allocation, Item, Position};
use fragscope::report::block_csv::TextForm;
use fragscope::session::block_text::BlockText;
use fragscope::session::samples::SAMPLES;
use fragscope::session::{Command, NoSet, Session, SetChoice, SetKind, SetSpan};

/// All kinds of set over a stretch of time.
fn sets(from: Position, to: Position) -> Vec<Which> {
    let at = Position(to.0.saturating_add(to.0.abs_diff(from.0)));
    SetKind::ALL.into_iter().map(|kind| SetChoice::over(kind, from, to, at)).collect()
}

/// Stretches of a trace: all of it, parts of it, nothing, and one that is the wrong way round.
fn stretches(session: &Session) -> Vec<(Position, Position)> {
    let end = session.front().expect("open").2.end().0;
    let at = |part: u32| Position((u64::from(end) * u64::from(part) / 8) as u32);
    vec![
        (at(0), at(8)),
        (at(1), at(3)),
        (at(3), at(4)),
        (at(2), at(7)),
        (at(5), at(5)),
        (at(6), at(2)),
        (at(4), Position(u32::MAX)),
    ]
}

/// The sum of a set by looking at every life.
fn naive(session: &Session, which: Which) -> BlockSum {
    let memory = session.front().expect("open").2;
    let which = which.within(memory.end());
    let mut sum = BlockSum::default();
    for id in memory.allocations.ids() {
        let Allocation { born, freed, .. } = memory.allocations.get(id);
        if which.has(born, freed) {
            sum.add(BlockSum::one(&memory.allocations, id));
        }
    }
    sum
}

#[test]
fn sets_have_one_sum_in_tables_flames_charts_and_states() {
    for sample in SAMPLES {
        let mut session = opened(&[sample.name]);
        let usage = answered::<UsageTimeline>(&mut session, ());
        let history = session.front().expect("open").2.has_history();
        let end = session.front().expect("open").2.end();
        for (from, to) in stretches(&session) {
            let sets = sets(from, to);
            let sums = answered::<SetSums>(&mut session, sets.clone());
            for (which, sum) in sets.iter().zip(&sums.0) {
                let place = format!("{} {which:?}", sample.name);
                assert_eq!(*sum, naive(&session, *which), "{place}");
                let table = answered::<BlockTable>(&mut session, params(*which, GroupBy::Block));
                assert_eq!((table.total, table.shown), (*sum, *sum), "{place}");
                let params = FlameParams { of: FlameOf::Set(*which), direction: FlameDirection::TopDown, fold_framework: false };
                let flame = answered::<FlameTree>(&mut session, params);
                assert_eq!(flame.root().value, i128::from(sum.bytes), "{place}");
                assert_eq!(flame.root().blocks, sum.count as i64, "{place}");
                if let Which::Live { at } = which.within(end) {
                    assert_eq!(sum.bytes, answered::<StateAt>(&mut session, at).totals.allocated, "{place}");
                    assert!(!history || sum.bytes == usage.allocated.at(at), "{place}");
                }
            }
            let [born, freed, grown, kept, gone, at_start, at_end, _] = sums.0[..] else { panic!("eight kinds") };
            let and = |a: BlockSum, b: BlockSum| {
                let mut both = a;
                both.add(b);
                both
            };
            let place = format!("{} {from:?}..{to:?}", sample.name);
            assert_eq!(and(kept, gone), at_start, "{place}");
            assert_eq!(and(kept, grown), at_end, "{place}");
            assert_eq!(and(grown, freed), born, "{place}");
            if !history {
                continue;
            }
            let (low, high) = (from.min(to).min(end), from.max(to).min(end));
            let change = i128::from(usage.allocated.at(high)) - i128::from(usage.allocated.at(low));
            assert_eq!(i128::from(grown.bytes) - i128::from(gone.bytes), change, "{place}: the chart");
            let flame = |of| FlameParams { of, direction: FlameDirection::BottomUp, fold_framework: true };
            let window = FlameOf::Window { from: low, to: high, sum: WindowSum::Allocated };
            let window = answered::<FlameTree>(&mut session, flame(window));
            assert_eq!(window.root().value, i128::from(born.bytes), "{place}: the flame graph of the window");
        }
        if history {
            let churn = answered::<Churn>(&mut session, LifetimeParams::ALL);
            let all = |which| naive(&session, which);
            let freed = all(Which::BornAndFreed { from: Position::START, to: end });
            assert_eq!((churn.churned.bytes, churn.churned.count), (freed.bytes, freed.count), "{}: churn", sample.name);
        }
    }
}

#[test]
fn groups_add_up_to_every_set() {
    for sample in SAMPLES {
        let mut session = opened(&[sample.name]);
        for (from, to) in stretches(&session).into_iter().take(3) {
            for which in sets(from, to) {
                for by in GroupBy::ALL {
                    let table = answered::<BlockTable>(&mut session, params(which, by));
                    let place = format!("{} {which:?} by {}", sample.name, by.name());
                    let mut sum = BlockSum::default();
                    let mut keys = Vec::new();
                    for row in rows_of(&session, &table) {
                        sum.add(row.sum);
                        keys.push(row.key);
                    }
                    assert_eq!((sum, table.shown), (table.total, table.total), "{place}");
                    keys.sort_unstable();
                    keys.dedup();
                    assert_eq!(keys.len(), table.len(), "{place}: a group twice");
                    assert_eq!(table.row(&session.front().expect("open").2.allocations, table.len()), None);
                }
            }
        }
    }
}

#[test]
fn single_blocks_are_sorted_by_what_their_columns_show() {
    let mut session = opened(&["streams"]);
    let end = session.front().expect("open").2.end();
    let which = Which::Born { from: Position::START, to: end };
    let all = naive(&session, which).count as usize;
    for order in [
        BlockOrder::Name,
        BlockOrder::Bytes,
        BlockOrder::Requested,
        BlockOrder::Born,
        BlockOrder::Freed,
        BlockOrder::Life,
        BlockOrder::Time,
        BlockOrder::Stream,
        BlockOrder::Pool,
        BlockOrder::Stack,
    ] {
        for descending in [false, true] {
            let asked = BlockTableParams { order, descending, ..params(which, GroupBy::Block) };
            let table = answered::<BlockTable>(&mut session, asked);
            let memory = session.front().expect("open").2;
            let stacks = &session.active().expect("open").snapshot.stacks;
            let value = |row: &fragscope::analysis::BlockRow| -> (i128, String) {
                let GroupKey::Block(id) = row.key else { panic!("a row a block") };
                let life = memory.allocations.get(id);
                let number = match order {
                    BlockOrder::Name => life.address.into(),
                    BlockOrder::Bytes | BlockOrder::Count => life.size.into(),
                    BlockOrder::Requested => life.requested.into(),
                    BlockOrder::Born => life.born.0.into(),
                    BlockOrder::Freed => life.freed.0.into(),
                    BlockOrder::Life => BlockLife::of(memory, id).events.into(),
                    BlockOrder::Time => BlockLife::of(memory, id).time_us.map_or(-1, i128::from),
                    BlockOrder::Stream => session.active().expect("open").snapshot.streams.handle(life.stream).into(),
                    BlockOrder::Pool => pool_of(memory, id).map_or(i128::MAX, |(pool, class)| (2 * pool.0 + class as u32).into()),
                    BlockOrder::Stack => 0,
                };
                let frame = fragscope::chart::text::telling_frame(stacks, life.stack).map(|(frame, _)| frame);
                let name = frame.map_or("\u{10ffff}".to_owned(), |frame| stacks.function(frame).to_lowercase());
                (number, if order == BlockOrder::Stack { name } else { String::new() })
            };
            let mut values: Vec<_> = rows_of(&session, &table).iter().map(value).collect();
            if descending {
                values.reverse();
            }
            assert_eq!(values.len(), all);
            assert!(values.is_sorted(), "{order:?} {descending}");
        }
    }
}

/// Cells of a CSV text (RFC 4180), line by line.
fn parsed(text: &str) -> Vec<Vec<String>> {
    let mut lines = vec![vec![String::new()]];
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(c) = letters.next() {
        let cells = lines.last_mut().expect("a line");
        let cell = cells.last_mut().expect("a cell");
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => cell.push(letters.next().expect("a quote")),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            '\n' if !quoted => lines.push(vec![String::new()]),
            c => cell.push(c),
        }
    }
    lines
}

#[test]
fn what_is_copied_and_saved_parses_back_to_the_totals() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["training", "private_pools", "segments_only"] {
        let mut session = opened(&[name]);
        let end = session.front().expect("open").2.end();
        for which in [Which::Live { at: end }, Which::Born { from: Position::START, to: end }] {
            for by in GroupBy::ALL {
                let asked = params(which, by);
                let table = answered::<BlockTable>(&mut session, asked.clone());
                let csv = answered::<BlockText>(&mut session, (asked.clone(), TextForm::Csv));
                let lines = parsed(&csv.0);
                let place = format!("{name} {which:?} by {}", by.name());
                assert_eq!(lines.len(), table.len() + 1, "{place}");
                assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{place}");
                let sum = |column: &str| -> u64 {
                    let at = lines[0].iter().position(|head| head == column).expect("a column");
                    lines[1..].iter().map(|line| line[at].parse::<u64>().expect("bare digits")).sum()
                };
                assert_eq!((sum("bytes"), sum("requested")), (table.total.bytes, table.total.requested), "{place}");
                assert!(by == GroupBy::Block || sum("blocks") == table.total.count, "{place}");
                let tabs = answered::<BlockText>(&mut session, (asked.clone(), TextForm::Tabs));
                assert!(tabs.0.lines().all(|line| line.split('\t').count() == lines[0].len()), "{place}");
                let path = folder.path().join(format!("{}.csv", by.name()));
                session.apply(Command::SaveTable { path: path.clone(), params: Box::new(asked) });
                settle(&mut session);
                assert_eq!(std::fs::read_to_string(&path).expect("written"), csv.0, "{place}");
                let note = session.notes().last().expect("told").clone();
                assert!(!note.is_error && note.text.starts_with("Table of "), "{note:?}");
            }
        }
        let asked = params(Which::Live { at: end }, GroupBy::Block);
        session.apply(Command::SaveTable { path: folder.path().join("no/such/folder.csv"), params: Box::new(asked) });
        settle(&mut session);
        let note = session.notes().last().expect("told");
        assert!(note.is_error && note.text.starts_with("Could not write "), "{note:?}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".csv")), "no half file: {left:?}");
}

/// A made recording with annotations, compile contexts and metadata: one block an event.
fn annotated() -> Session {
    let block = |n: u64, time: i64, file: &str, metadata: &str, context: &str| {
        serde_json::json!({
            "action": "alloc", "addr": (1u64 << 40) + n * 1024, "size": 1000, "stream": 0, "time_us": time,
            "frames": [{"filename": file, "line": 7, "name": "forward"}],
            "user_metadata": metadata, "compile_context": context,
        })
    };
    let site = "/x/site-packages";
    let mut trace = vec![serde_json::json!(
        {"action": "segment_alloc", "addr": 1u64 << 40, "size": 2 << 20, "stream": 0, "time_us": 1, "frames": []}
    )];
    trace.push(block(0, 10, "/a/train.py", "", "N/A"));
    trace.push(block(1, 20, "/a/train.py", "phase=train", "N/A"));
    trace.push(block(2, 30, &format!("{site}/torch/optim/adam.py"), "phase=train", "Region 0/0"));
    trace.push(block(3, 40, &format!("{site}/torch/nn/modules/linear.py"), "", "Region 0/0"));
    let blocks: Vec<_> = (0..4u64)
        .map(|n| serde_json::json!({"address": (1u64 << 40) + n * 1024, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []}))
        .chain([serde_json::json!({"address": (1u64 << 40) + 4096, "size": (2 << 20) - 4096, "state": "inactive"})])
        .collect();
    let mark =
        |stage: &str, name: &str, time: i64| serde_json::json!({"stage": stage, "name": name, "device": 0, "time_us": time});
    let file = serde_json::json!({
        "segments": [{
            "device": 0, "address": 1u64 << 40, "total_size": 2 << 20, "allocated_size": 4096, "active_size": 4096,
            "requested_size": 4000, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false,
            "frames": [], "blocks": blocks,
        }],
        "device_traces": [trace],
        "external_annotations": [
            mark("START", "step", 15), mark("START", "optimizer", 25), mark("END", "optimizer", 35), mark("END", "step", 40),
        ],
    });
    let mut session = Session::new(None);
    session.apply(Command::OpenBytes { name: "made.json".into(), bytes: file.to_string().into_bytes().into() });
    settle(&mut session);
    session
}

#[test]
fn groups_know_annotations_contexts_metadata_modules_and_categories() {
    let mut session = annotated();
    assert!(session.notes().is_empty(), "{:?}", session.notes());
    let which = Which::Live { at: session.front().expect("open").2.end() };
    for (by, expected) in [
        (GroupBy::Annotation, &[("no annotation", 2), ("optimizer", 1), ("step", 1)][..]),
        (GroupBy::CompileContext, &[("Region 0/0", 2), ("no compile context", 2)]),
        (GroupBy::UserMetadata, &[("no user metadata", 2), ("phase=train", 2)]),
        (GroupBy::Module, &[("torch.nn", 1), ("torch.optim", 1), ("train", 2)]),
        (GroupBy::Category, &[("activations", 3), ("optimizer state", 1)]),
        (
            GroupBy::File,
            &[
                ("/a/train.py", 2),
                ("/x/site-packages/torch/nn/modules/linear.py", 1),
                ("/x/site-packages/torch/optim/adam.py", 1),
            ],
        ),
    ] {
        let table = answered::<BlockTable>(&mut session, params(which, by));
        let (document, _, memory) = session.front().expect("open");
        let name = |row| fragscope::chart::block_words::key_name(&document.snapshot, memory, &table, row);
        let mut found: Vec<_> = rows_of(&session, &table).iter().map(|row| (name(row), row.sum.count)).collect();
        found.sort();
        let expected: Vec<_> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(found, expected, "by {}", by.name());
    }
    for (filter, count) in [
        ("OPTIMIZER", 1),
        ("phase=", 2),
        ("region 0", 2),
        ("activations", 3),
        ("train.py:7", 2),
        ("step", 1),
        ("b10000000400_0", 1),
    ] {
        let asked = BlockTableParams { filter: filter.to_owned(), ..params(which, GroupBy::Block) };
        assert_eq!(answered::<BlockTable>(&mut session, asked).shown.count, count, "{filter}");
    }
    let own = Categories::parse("mine: train\\.py\n");
    let asked = BlockTableParams { categories: own, ..params(which, GroupBy::Category) };
    assert_eq!(answered::<BlockTable>(&mut session, asked).len(), 2, "mine and other");
}

#[test]
fn categories_are_loaded_told_and_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("rules.txt");
    std::fs::write(&mine, "model: models\\.py\nbroken (\nbad: (\n").expect("written");
    let mut session = Session::new(Some(folder.path().to_owned()));
    session.apply(Command::OpenSample("training"));
    session.apply(Command::SetColourBy(ColourBy::Category));
    settle(&mut session);
    let legend = |session: &mut Session| -> Vec<String> {
        session.inks();
        settle(session);
        let fragscope::session::Answer::Ready(inks) = session.inks() else { panic!("no colours") };
        let snapshot = &session.active().expect("open").snapshot;
        let legend = inks.inks.legend(snapshot);
        assert_eq!(legend.last().map(|(colour, _)| *colour), Some(BlockColour::NoStack));
        legend.into_iter().map(|(_, name)| name).collect()
    };
    let built_in = legend(&mut session);
    assert!(built_in.iter().any(|name| name == "activations"), "{built_in:?}");
    session.apply(Command::LoadCategories(mine.clone()));
    settle(&mut session);
    assert_eq!(legend(&mut session), ["model", "other", "no stack"]);
    let told: Vec<String> = session.notes().iter().map(|note| note.text.clone()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("Line 2 of the categories is left out: "), "{told:?}");
    assert!(told[1].starts_with("Line 3 of the categories is left out: "), "{told:?}");
    assert!(told[2].starts_with("Read 1 category from "), "{told:?}");
    // The same after a new start, and what is wrong with it is told again.
    let again = Session::new(Some(folder.path().to_owned()));
    assert_eq!((again.categories(), again.notes().len()), (session.categories(), 2));
    for (path, told) in
        [(folder.path().join("nowhere.txt"), "Could not read the categories "), (folder.path().to_owned(), "Could not read")]
    {
        session.apply(Command::LoadCategories(path));
        settle(&mut session);
        let note = session.notes().last().expect("told");
        assert!(note.is_error && note.text.starts_with(told), "{note:?}");
        assert_eq!(session.categories().names()[0], "model", "a file that cannot be read changes nothing");
    }
    session.apply(Command::UseBuiltInCategories);
    settle(&mut session);
    assert_eq!(legend(&mut session), built_in);
    // The file of the folder needs no asking; one that went away is told.
    std::fs::write(folder.path().join("categories.txt"), "mine: x\n").expect("written");
    assert_eq!(Session::new(Some(folder.path().to_owned())).categories().names()[0], "mine");
    let mut other = Session::new(Some(folder.path().to_owned()));
    other.apply(Command::LoadCategories(mine.clone()));
    settle(&mut other);
    std::fs::remove_file(mine).expect("removed");
    let afresh = Session::new(Some(folder.path().to_owned()));
    assert_eq!(*afresh.categories(), Categories::built_in());
    assert!(afresh.notes()[0].text.ends_with("The built-in categories are used."), "{:?}", afresh.notes());
}

#[test]
fn the_set_follows_what_it_names_and_is_undone() {
    let mut session = opened(&["training"]);
    settle(&mut session);
    let end = session.front().expect("open").2.end();
    assert_eq!(session.which(), Ok(Which::Born { from: Position::START, to: end }));
    session.apply(Command::SetWindow(100.0..200.0));
    assert_eq!(session.which(), Ok(Which::Born { from: Position(100), to: Position(200) }));
    let choose = |session: &mut Session, kind, span| session.apply(Command::ChooseSet(SetChoice { kind, span }));
    choose(&mut session, SetKind::Gone, SetSpan::Range);
    assert!(matches!(session.which(), Err(NoSet::Choose(why)) if why.starts_with("No range is selected")));
    session.apply(Command::SelectRange(Position(7)..Position(90)));
    assert_eq!(session.which(), Ok(Which::Gone { from: Position(7), to: Position(90) }));
    let marks = SetSpan::Marks { from: 0, to: 1, at: 2 };
    choose(&mut session, SetKind::Grown, marks);
    assert!(matches!(session.which(), Err(NoSet::Choose(why)) if why.starts_with("A mark of this set is not there")));
    for at in [900, 300] {
        session.apply(Command::MoveCursor(Position(at)));
        session.apply(Command::ToggleMark);
    }
    assert_eq!(session.which(), Ok(Which::Grown { from: Position(300), to: Position(900) }), "in the order of time");
    choose(&mut session, SetKind::Lasting, marks);
    assert!(matches!(session.which(), Err(NoSet::Choose(why)) if why.starts_with("This set needs three marks")));
    session.apply(Command::MoveCursor(Position(1000)));
    session.apply(Command::ToggleMark);
    let lasting = Which::Lasting { from: Position(300), to: Position(900), at: Position(1000) };
    assert_eq!(session.which(), Ok(lasting));
    let mut now = 10.0;
    let mut pause = |session: &mut Session| {
        for _ in 0..8 {
            now += 0.1;
            session.tick(now);
        }
    };
    pause(&mut session);
    session.apply(Command::RemoveMark(9));
    session.apply(Command::RemoveMark(0));
    assert_eq!(place(&session).marks, [Position(300), Position(1000)]);
    pause(&mut session);
    session.apply(Command::ClearMarks);
    choose(&mut session, SetKind::Kept, SetSpan::Window);
    pause(&mut session);
    session.apply(Command::Undo);
    assert_eq!((place(&session).marks.len(), place(&session).set.kind), (2, SetKind::Lasting));
    session.apply(Command::Undo);
    assert_eq!(session.which(), Ok(lasting));
    let without = opened(&["segments_only"]);
    assert!(matches!(without.which(), Err(NoSet::Choose(why)) if why.starts_with("This device has no history")));
    assert!(matches!(Session::new(None).which(), Err(NoSet::Choose("No file is open."))));
}

/// Chooses an entry of the combo box of a label.
fn choose(window: &mut Window_<'_>, combo: &str, entry: &str) {
    let at = window.get_by_role_and_label(Role::ComboBox, combo).rect().center();
    click_at(window, at);
    let at = window.get_by_role_and_label(Role::Button, entry).rect().center();
    click_at(window, at);
}

#[test]
fn the_allocations_are_chosen_sorted_filtered_and_saved_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = with_sample("training");
    open_tab(&mut window, "Allocations");
    let end = window.state().session.front().expect("open").2.end();
    let born = naive(&window.state().session, Which::Born { from: Position::START, to: end });
    assert!(!named(&window, &Bytes(born.bytes).to_string()).is_empty(), "the foot is the sum");
    let first = rows(&window, "allocations");
    click_at(&mut window, first[0].1);
    assert!(matches!(place(&window.state().session).selected(), Some(Item::Allocation(_))));
    for column in ["Block", "Requested", "Born", "Freed", "Events", "Time", "Allocated at"] {
        click(&mut window, &format!("sort allocations by {column}"));
        assert!(!rows(&window, "allocations").is_empty(), "{column}");
    }
    choose(&mut window, "Group by", "category");
    assert!(rows(&window, "allocations").iter().any(|(name, _)| name.starts_with("activations, ")));
    choose(&mut window, "Blocks", "born and kept");
    let grown = naive(&window.state().session, Which::Grown { from: Position::START, to: end });
    assert!(!named(&window, &Bytes(grown.bytes).to_string()).is_empty());
    choose(&mut window, "during", "the selected range");
    assert!(!named(&window, "No range is selected").is_empty());
    window.state().session.send(Command::SelectRange(Position(1000)..Position(5000)));
    rest(&mut window);
    assert!(!named(&window, "born from event 999 to event 4 999 and still allocated then").is_empty());
    click(&mut window, "Copy CSV");
    click(&mut window, "Copy table");
    click(&mut window, "Save CSV…");
    let label = "Save all rows of this table as";
    let field = window.get_by_role_and_label(Role::TextInput, label);
    assert!(field.value().is_some_and(|value| value.ends_with("-allocations.csv")), "{:?}", field.value());
    let path = folder.path().join("table.csv");
    field.focus();
    window.step();
    window.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
    window.step();
    window.get_by_role_and_label(Role::TextInput, label).type_text(&path.display().to_string());
    rest(&mut window);
    click(&mut window, "Save");
    let lines = parsed(&std::fs::read_to_string(&path).expect("written"));
    let total: u64 = lines[1..].iter().map(|line| line[1].parse::<u64>().expect("digits")).sum();
    assert_eq!(total, naive(&window.state().session, Which::Grown { from: Position(1000), to: Position(5000) }).bytes);
    choose(&mut window, "Blocks", "born, allocated at a third mark");
    assert!(!named(&window, "A mark of this set is not there").is_empty());
}

#[test]
fn marks_are_set_asked_and_taken_away_by_hand() {
    let mut window = with_sample("training");
    window.set_size(egui::vec2(1440.0, 1600.0));
    rest(&mut window);
    open_tab(&mut window, "Marks");
    assert!(!named(&window, "No mark is set").is_empty());
    for at in [2000, 5000, 9000] {
        window.state().session.send(Command::MoveCursor(Position(at)));
        rest(&mut window);
        window.key_press(egui::Key::M);
        rest(&mut window);
    }
    let usage = answered::<UsageTimeline>(&mut window.state_mut().session, ());
    for at in [2000, 5000, 9000] {
        let told = Bytes(usage.allocated.at(Position(at))).to_string();
        assert!(!named(&window, &told).is_empty(), "{told}");
    }
    let born = Which::BornAndFreed { from: Position(2000), to: Position(5000) };
    let sum = naive(&window.state().session, born);
    assert!(!named(&window, &fragscope::base::grouped(sum.count)).is_empty());
    click(&mut window, "Born and freed between A and B, in allocations");
    assert_eq!(window.state().session.which(), Ok(born));
    assert!(!rows(&window, "allocations").is_empty(), "the view comes to the front");
    assert!(!named(&window, &Bytes(sum.bytes).to_string()).is_empty(), "with the same sum");
    open_tab(&mut window, "Marks");
    click(&mut window, "Born between A and B, alive at B, in flame");
    let grown = naive(&window.state().session, Which::Grown { from: Position(2000), to: Position(5000) });
    window.get_by_label("flame graph");
    let exact = format!("{} ({} bytes)", Bytes(grown.bytes), fragscope::base::grouped(grown.bytes));
    assert!(!named(&window, &exact).is_empty(), "the flame graph's root is {exact}");
    choose(&mut window, "Show", "at the cursor");
    open_tab(&mut window, "Marks");
    choose(&mut window, "and mark", "C");
    assert!(!named(&window, "Alive at C").is_empty());
    click(&mut window, "event 1 999");
    assert_eq!(place(&window.state().session).cursor, Position(2000), "a mark is gone to");
    click(&mut window, "remove mark B");
    assert_eq!(place(&window.state().session).marks, [Position(2000), Position(9000)]);
    click(&mut window, "Remove all marks");
    assert!(!named(&window, "No mark is set").is_empty());
    window.render().expect("painted");
}
