//! The window under a user who does everything in any order, and with settings that somebody broke: it goes on.

use crate::window::{remembering_window, rest, window};
use fragscope::chart::{ColourBy, Theme, TimeAxis};
use fragscope::model::{AllocationId, EventIdx, Item, Position, SegmentId, StackId};
use fragscope::session::samples::SAMPLES;
use fragscope::session::set_choice::{SetChoice, SetKind, SetSpan};
use fragscope::session::{Command, DocumentId, EventFilter};
use fragscope::ui::views::VIEWS;

/// Numbers without a pattern, the same in each run (an LCG's high bits).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }
    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

const LINES: &[&str] = &[
    "",
    " ",
    "forward",
    ">=100MiB",
    ">= ",
    "size>",
    "0x",
    "0xffffffffffffffffff",
    "b7f_0",
    "b_",
    "\"",
    "a\"b",
    "((((",
    "*",
    "\\",
    "漢字",
    "\u{202e}",
    "stream:9",
    "pool:(",
    "-",
    "--",
    ":",
    "=",
    "<18446744073709551616",
    "NaN",
    "a b c d e f g",
];
const EDGES: &[f64] = &[0.0, -1e300, 1e300, 0.5, 40.0, 1e6, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300];
const PLACES: &[u32] = &[0, 1, 7, 1000, 35_572, 35_573, u32::MAX - 1, u32::MAX];

fn anything(dice: &mut Dice) -> Command {
    let position = |dice: &mut Dice| Position(dice.one_of(PLACES));
    let range = |dice: &mut Dice| dice.one_of(EDGES)..dice.one_of(EDGES);
    match dice.below(28) {
        0 => Command::OpenSample(dice.one_of(SAMPLES).name),
        1 => Command::OpenSample("no such sample"),
        2 => Command::OpenBytes { name: "x\ny".into(), bytes: vec![0u8; 9].into() },
        3 | 4 => Command::Close(DocumentId(dice.below(12))),
        5 | 6 => Command::Activate(DocumentId(dice.below(12))),
        7 => Command::MoveCursor(position(dice)),
        8 => Command::StepCursor(dice.one_of(&[i64::MIN, -1, 1, i64::MAX])),
        9 => dice.one_of(&[Command::StepOom { forward: true }, Command::StepOom { forward: false }, Command::GoToLastOom]),
        10 => Command::SetWindow(range(dice)),
        11 => dice.one_of(&[Command::ZoomAtCursor(1e300), Command::ZoomAtCursor(0.0), Command::ZoomAtCursor(0.5)]),
        12 => Command::Pan(dice.one_of(EDGES)),
        13 => dice.one_of(&[Command::Fit, Command::FrameSelection, Command::ClearSelection, Command::GoToPeak]),
        14 => Command::SetBytes(Some(range(dice))),
        15 => Command::SetRows(Some(range(dice))),
        16 => Command::Select(dice.one_of(&[
            Item::Allocation(AllocationId(0)),
            Item::Allocation(AllocationId(u32::MAX)),
            Item::Segment(SegmentId(u32::MAX)),
            Item::Gap { address: u64::MAX, size: u64::MAX },
            Item::Event(EventIdx(u32::MAX)),
            Item::Stack(StackId(u32::MAX)),
            Item::Stack(StackId(1)),
        ])),
        17 => Command::SelectRange(position(dice)..position(dice)),
        18 | 19 => Command::ToggleMark,
        20 => dice.one_of(&[Command::RemoveMark(0), Command::RemoveMark(usize::MAX), Command::ClearMarks]),
        21 => {
            let (from, to, at) = (dice.below(4) as usize, dice.below(4) as usize, usize::MAX);
            let span = dice.one_of(&[SetSpan::Window, SetSpan::Range, SetSpan::Marks { from, to, at }]);
            Command::ChooseSet(SetChoice { kind: dice.one_of(&SetKind::ALL), span })
        }
        22 => Command::SetFilter(EventFilter { text: dice.one_of(LINES).into(), ..EventFilter::default() }),
        23 => Command::SetFind(dice.one_of(LINES).into()),
        24 => Command::StepFind { forward: dice.below(2) == 0 },
        25 => dice.one_of(&[Command::SetAxis(TimeAxis::Time), Command::SetAxis(TimeAxis::Events)]),
        26 => {
            let colour = Command::SetColourBy(dice.one_of(&ColourBy::ALL));
            dice.one_of(&[colour, Command::SetTheme(Theme::Dark), Command::SetTheme(Theme::Light)])
        }
        _ => dice.one_of(&[Command::Undo, Command::Redo]),
    }
}

#[test]
fn anything_in_any_order_is_survived() {
    let mut dice = Dice(4);
    let mut window = window(Vec::new());
    // As in the program: a letter that no font has is a box.
    window.ctx.set_missing_glyph_policy(egui::MissingGlyphPolicy::Tofu);
    for round in 0..400 {
        for _ in 0..dice.below(4) {
            let command = anything(&mut dice);
            window.state().session.send(command);
        }
        window.step();
        if round % 40 == 0 {
            let view = VIEWS[(round / 40) % VIEWS.len()].id;
            window.state().session.send(Command::ShowSet { set: SetChoice::default(), view });
            rest(&mut window);
        }
    }
    rest(&mut window);
    let session = &window.state().session;
    let Some((document, device, memory)) = session.front() else { return };
    let place = &session.workspace().places[&(document.id, device)];
    assert!(place.cursor <= memory.end() && place.marks.iter().all(|mark| *mark <= memory.end()), "{place:?}");
}

#[test]
fn broken_settings_and_categories_only_mean_starting_afresh() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = folder.path().join("a.pickle.gz");
    let bytes = SAMPLES.iter().find(|sample| sample.name == "two_devices").expect("compiled in").bytes;
    std::fs::write(&sample, bytes).expect("written");
    let config = folder.path().join("config");
    {
        let mut first = remembering_window(config.clone(), vec![sample.clone()]);
        rest(&mut first);
        first.state().session.send(Command::ToggleMark);
        first.run_steps(60);
        rest(&mut first);
        first.state_mut().session.leave();
    }
    let kept = std::fs::read_to_string(config.join("window.json")).expect("it was written");
    assert!(kept.contains("\"cursor\""), "{kept}");
    let told = |text: &str| -> serde_json::Value { serde_json::from_str(text).expect("JSON") };
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut whole = told(&kept);
        change(&mut whole);
        whole.to_string().into_bytes()
    };
    let huge = folder.path().join("huge.txt");
    std::fs::write(&huge, vec![b'a'; 3 << 20]).expect("written");
    let foreign = folder.path().join("foreign.txt");
    std::fs::write(&foreign, b"\xff\xfe a: b").expect("written");
    let wrong = folder.path().join("wrong.txt");
    std::fs::write(&wrong, "a: (\nb: \\w{9999}\n: c\nnothing\nother: x\nfine: wl.py").expect("written");
    let nowhere = folder.path().join("nowhere");
    let categories = |path: &std::path::Path| with(&|whole| whole["categories"] = path.to_string_lossy().into_owned().into());
    let place = |name: &str, value: serde_json::Value| {
        with(&|whole| {
            for row in whole["files"][0]["places"].as_array_mut().expect("places") {
                row[name] = value.clone();
            }
        })
    };
    let settings: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{".to_vec(),
        b"\xff\xff".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        kept.as_bytes()[..kept.len() / 2].to_vec(),
        with(&|whole| whole["version"] = 99.into()),
        with(&|whole| whole["zoom"] = (-1e30).into()),
        with(&|whole| whole["layout"] = "{\"tiles\":[[[".into()),
        with(&|whole| whole["files"][0]["layout"] = "]".into()),
        with(&|whole| whole["files"][0]["device"] = u32::MAX.into()),
        with(&|whole| whole["colour_by"] = "no such colour".into()),
        place("cursor", u32::MAX.into()),
        place("marks", vec![u32::MAX; 500].into()),
        place("range", vec![9u32, 3].into()),
        place("window", serde_json::json!([true, 1e300, -1e300])),
        place("window", serde_json::json!([false, -1e300, 1e300])),
        place("bytes", serde_json::json!([1e299, 1e300])),
        place("rows", serde_json::json!([-1e300, 1e300])),
        categories(&huge),
        categories(&foreign),
        categories(&wrong),
        categories(&nowhere),
        categories(folder.path()),
    ];
    for bytes in settings {
        std::fs::write(config.join("window.json"), &bytes).expect("written");
        let mut again = remembering_window(config.clone(), vec![sample.clone()]);
        rest(&mut again);
        let session = &again.state().session;
        let said = || String::from_utf8_lossy(&bytes).into_owned();
        let (document, device, memory) = session.front().unwrap_or_else(|| panic!("nothing is open: {}", said()));
        let place = &session.workspace().places[&(document.id, device)];
        assert!(place.cursor <= memory.end() && place.marks.iter().all(|mark| *mark <= memory.end()), "{}", said());
        session.send(Command::SetColourBy(ColourBy::Category));
        rest(&mut again);
    }
    let mut window = window(vec![sample]);
    rest(&mut window);
    for (path, words) in
        [(&huge, "larger than 1 MiB"), (&foreign, "it is no text"), (&wrong, "regular expression"), (&nowhere, "Could not read")]
    {
        window.state().session.send(Command::LoadCategories(path.clone()));
        rest(&mut window);
        let notes: Vec<&str> = window.state().session.notes().iter().map(|note| note.text.as_str()).collect();
        assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:?}");
    }
}
