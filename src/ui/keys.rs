//! The keys of the window. [`KEYS`] is the register: what it lists is what is done, and what the page of keys shows.
//!
//! Always: a focused text field keeps its keys; rows that say `everywhere` work in it too. Of two chords that both fit,
//! that with more modifiers is meant.

use crate::model::Position;
use crate::session::Command;
use crate::session::live::Live;
use crate::ui::panels::help::HelpPage;
use crate::ui::panels::palette::Deed;
use crate::ui::views::view::Cx;
use egui::{Context, Key, Modifiers};

/// One key's share of a window's length when zooming and panning.
const ZOOM: f64 = 0.8;
const PAN: f64 = 0.15;

/// What a key did that is not a command.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyDeed {
    /// As if chosen in the palette.
    Deed(Deed),
    /// The command palette.
    Palette,
    /// The search over all views.
    Find,
    /// Play through the window, or stop.
    Play,
}

/// What a row of the register does.
#[derive(Clone, Copy)]
pub enum Act {
    /// Sends a command, where there is one to send.
    Send(fn(&Cx<'_>) -> Option<Command>),
    /// Does something with the window.
    Do(fn(&Context) -> KeyDeed),
    /// Steps through what is found. Without a search the key is left to the event list, which steps through its filter.
    Find {
        /// To the right on the time axis.
        forward: bool,
    },
}

/// Keys with what they do.
#[derive(Clone, Copy)]
pub struct KeyRow {
    /// What it is about, as a heading.
    pub group: &'static str,
    /// Chords that all do the same.
    pub chords: &'static [(Modifiers, Key)],
    /// What they do, in a few words.
    pub what: &'static str,
    /// Whether they work while a text field has the keys.
    pub everywhere: bool,
    act: Act,
}

const CTRL: Modifiers = Modifiers::COMMAND;
const SHIFT: Modifiers = Modifiers::SHIFT;
const NONE: Modifiers = Modifiers::NONE;

const FILES: &str = "Files and window";
const MOMENT: &str = "Moment";
const PICTURE: &str = "What one sees";
const CHOICE: &str = "Selection and marks";

const fn row(group: &'static str, chords: &'static [(Modifiers, Key)], what: &'static str, act: Act) -> KeyRow {
    KeyRow { group, chords, what, everywhere: false, act }
}

const fn everywhere(group: &'static str, chords: &'static [(Modifiers, Key)], what: &'static str, act: Act) -> KeyRow {
    KeyRow { group, chords, what, everywhere: true, act }
}

/// All keys, in the order of the page that lists them.
pub const KEYS: &[KeyRow] = &[
    everywhere(FILES, &[(CTRL, Key::O)], "Open a file", Act::Send(|_| Some(Command::OpenDialog))),
    everywhere(
        FILES,
        &[(CTRL, Key::W)],
        "Close the file in front",
        Act::Send(|cx| cx.session.workspace().active.map(Command::Close)),
    ),
    everywhere(
        FILES,
        &[(CTRL, Key::E)],
        "Save a picture of the view under the pointer",
        Act::Do(|_| KeyDeed::Deed(Deed::ExportView)),
    ),
    everywhere(FILES, &[(CTRL, Key::R)], "Record a job", Act::Do(|_| KeyDeed::Deed(Deed::Capture))),
    everywhere(FILES, &[(CTRL, Key::P)], "Find a command", Act::Do(|_| KeyDeed::Palette)),
    everywhere(CHOICE, &[(CTRL, Key::F)], "Find in all views", Act::Do(|_| KeyDeed::Find)),
    everywhere(CHOICE, &[(NONE, Key::F3)], "The next found", Act::Find { forward: true }),
    everywhere(CHOICE, &[(SHIFT, Key::F3)], "The found before", Act::Find { forward: false }),
    row(FILES, &[(NONE, Key::T)], "What if: the job under other settings", Act::Do(|_| KeyDeed::Deed(Deed::ShowView("what-if")))),
    everywhere(
        FILES,
        &[(CTRL, Key::Plus), (CTRL, Key::Equals)],
        "Make everything larger",
        Act::Do(|_| KeyDeed::Deed(Deed::Magnify(Magnify::Larger))),
    ),
    everywhere(
        FILES,
        &[(CTRL, Key::Minus)],
        "Make everything smaller",
        Act::Do(|_| KeyDeed::Deed(Deed::Magnify(Magnify::Smaller))),
    ),
    everywhere(
        FILES,
        &[(CTRL, Key::Num0)],
        "Back to the normal size",
        Act::Do(|_| KeyDeed::Deed(Deed::Magnify(Magnify::Normal))),
    ),
    everywhere(FILES, &[(NONE, Key::F1)], "List keys and mouse", Act::Do(|_| KeyDeed::Deed(Deed::Help(HelpPage::Keys)))),
    row(FILES, &[(NONE, Key::Questionmark)], "List keys and mouse", Act::Do(|_| KeyDeed::Deed(Deed::Help(HelpPage::Keys)))),
    row(MOMENT, &[(NONE, Key::ArrowLeft)], "One event back", Act::Send(|_| Some(Command::StepCursor(-1)))),
    row(MOMENT, &[(NONE, Key::ArrowRight)], "One event on", Act::Send(|_| Some(Command::StepCursor(1)))),
    row(MOMENT, &[(SHIFT, Key::ArrowLeft)], "100 events back", Act::Send(|_| Some(Command::StepCursor(-100)))),
    row(MOMENT, &[(SHIFT, Key::ArrowRight)], "100 events on", Act::Send(|_| Some(Command::StepCursor(100)))),
    row(MOMENT, &[(CTRL, Key::ArrowLeft)], "The out of memory before", Act::Send(|_| Some(Command::StepOom { forward: false }))),
    row(MOMENT, &[(CTRL, Key::ArrowRight)], "The next out of memory", Act::Send(|_| Some(Command::StepOom { forward: true }))),
    row(MOMENT, &[(NONE, Key::Home)], "Before the first event", Act::Send(|_| Some(Command::MoveCursor(Position::START)))),
    row(
        MOMENT,
        &[(NONE, Key::End)],
        "After the last event",
        Act::Send(|cx| Some(Command::MoveCursor(cx.session.front()?.2.end()))),
    ),
    row(MOMENT, &[(NONE, Key::P)], "Where most is allocated", Act::Send(|_| Some(Command::GoToPeak))),
    row(MOMENT, &[(NONE, Key::O)], "The last out of memory", Act::Send(|_| Some(Command::GoToLastOom))),
    row(MOMENT, &[(NONE, Key::L)], "Follow a recording that grows", Act::Send(|cx| growing(cx).map(|_| Command::FollowEnd))),
    row(
        MOMENT,
        &[(NONE, Key::H)],
        "Hold what is shown of it, or resume",
        Act::Send(|cx| growing(cx).map(|live| Command::HoldLive(!live.is_held()))),
    ),
    row(MOMENT, &[(NONE, Key::Space)], "Play through the window, or stop", Act::Do(|_| KeyDeed::Play)),
    row(PICTURE, &[(NONE, Key::W)], "Less time, closer", Act::Send(|_| Some(Command::ZoomAtCursor(ZOOM)))),
    row(PICTURE, &[(NONE, Key::S)], "More time", Act::Send(|_| Some(Command::ZoomAtCursor(1.0 / ZOOM)))),
    row(PICTURE, &[(NONE, Key::A)], "Earlier", Act::Send(|_| Some(Command::Pan(-PAN)))),
    row(PICTURE, &[(NONE, Key::D)], "Later", Act::Send(|_| Some(Command::Pan(PAN)))),
    row(PICTURE, &[(NONE, Key::F)], "The life of what is selected", Act::Send(|_| Some(Command::FrameSelection))),
    row(CHOICE, &[(NONE, Key::M)], "Set or remove a mark at the cursor", Act::Send(|_| Some(Command::ToggleMark))),
    row(CHOICE, &[(NONE, Key::Escape)], "Select nothing", Act::Send(|_| Some(Command::ClearSelection))),
    everywhere(CHOICE, &[(CTRL, Key::Z)], "Undo", Act::Send(|_| Some(Command::Undo))),
    everywhere(CHOICE, &[(CTRL.plus(SHIFT), Key::Z), (CTRL, Key::Y)], "Redo", Act::Send(|_| Some(Command::Redo))),
];

/// The recording in front, while it grows.
fn growing<'a>(cx: &Cx<'a>) -> Option<&'a Live> {
    cx.session.live_in_front().filter(|live| live.is_growing())
}

/// How large everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magnify {
    /// A step up.
    Larger,
    /// A step down.
    Smaller,
    /// As at first.
    Normal,
}

/// Reads the keys of this frame and sends their commands.
pub fn handle(context: &Context, cx: &Cx<'_>) -> Option<KeyDeed> {
    let typing = context.egui_wants_keyboard_input();
    let rows = KEYS.iter().filter(|row| row.everywhere || !typing);
    let mut chords: Vec<(&KeyRow, Modifiers, Key)> =
        rows.flat_map(|row| row.chords.iter().map(move |(modifiers, key)| (row, *modifiers, *key))).collect();
    // egui takes a chord with shift for the same chord without, too.
    chords.sort_by_key(|(_, modifiers, _)| std::cmp::Reverse(weight(*modifiers)));
    let mut done = None;
    for (row, modifiers, key) in chords {
        if matches!(row.act, Act::Find { .. }) && cx.session.find().terms().is_none() {
            continue;
        }
        if context.input_mut(|input| input.consume_key(modifiers, key)) {
            match row.act {
                Act::Send(command) => command(cx).into_iter().for_each(|command| cx.send(command)),
                Act::Do(deed) => done = Some(deed(context)),
                Act::Find { forward } => cx.send(Command::StepFind { forward }),
            }
        }
    }
    done
}

fn weight(modifiers: Modifiers) -> u32 {
    u32::from(modifiers.shift) + u32::from(modifiers.command) + u32::from(modifiers.alt)
}

/// A chord as people write it: `Ctrl+Shift+Z`.
pub fn chord_words(modifiers: Modifiers, key: Key) -> String {
    let key = match key {
        Key::ArrowLeft => "Left",
        Key::ArrowRight => "Right",
        Key::ArrowUp => "Up",
        Key::ArrowDown => "Down",
        Key::Escape => "Esc",
        Key::Plus => "+",
        Key::Equals => "=",
        Key::Minus => "−",
        Key::Questionmark => "?",
        key => key.name(),
    };
    let mut words = String::new();
    if modifiers.command {
        words += "Ctrl+";
    }
    if modifiers.alt {
        words += "Alt+";
    }
    if modifiers.shift {
        words += "Shift+";
    }
    words + key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chord_does_two_things() {
        let mut seen = std::collections::BTreeSet::new();
        for row in KEYS {
            assert!(!row.chords.is_empty() && !row.what.is_empty() && !row.group.is_empty());
            for (modifiers, key) in row.chords {
                assert!(seen.insert(chord_words(*modifiers, *key)), "{} twice", chord_words(*modifiers, *key));
            }
        }
        assert!(seen.contains("Ctrl+Shift+Z") && seen.contains("Esc") && seen.contains("Ctrl+−"));
    }
}
