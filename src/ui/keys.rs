//! The keys of the window. A focused text field keeps its keys; the chords with Ctrl work everywhere.

use crate::model::Position;
use crate::session::Command;
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

/// Reads the keys of this frame and sends their commands.
pub fn handle(context: &Context, cx: &Cx<'_>) -> Option<KeyDeed> {
    let pressed = |modifiers, key| context.input_mut(|input| input.consume_key(modifiers, key));
    let ctrl = Modifiers::COMMAND;
    for (modifiers, key, command) in [
        (ctrl | Modifiers::SHIFT, Key::Z, Command::Redo),
        (ctrl, Key::Y, Command::Redo),
        (ctrl, Key::Z, Command::Undo),
        (ctrl, Key::O, Command::OpenDialog),
    ] {
        if pressed(modifiers, key) {
            cx.send(command);
        }
    }
    if pressed(ctrl, Key::W)
        && let Some(id) = cx.session.workspace().active
    {
        cx.send(Command::Close(id));
    }
    if pressed(ctrl, Key::P) {
        return Some(KeyDeed::Palette);
    }
    if pressed(ctrl, Key::E) {
        return Some(KeyDeed::Deed(Deed::ExportView));
    }
    if pressed(ctrl, Key::F) {
        return Some(KeyDeed::Find);
    }
    // Without a search the key is left to the event list, which goes on through its filter.
    if cx.session.find().terms().is_some() {
        for (modifiers, forward) in [(Modifiers::SHIFT, false), (Modifiers::NONE, true)] {
            if pressed(modifiers, Key::F3) {
                cx.send(Command::StepFind { forward });
            }
        }
    }
    if context.egui_wants_keyboard_input() {
        return None;
    }
    let end = cx.session.front().map_or(Position::START, |(_, _, memory)| memory.end());
    let none = Modifiers::NONE;
    for (modifiers, key, command) in [
        (ctrl, Key::ArrowLeft, Command::StepOom { forward: false }),
        (ctrl, Key::ArrowRight, Command::StepOom { forward: true }),
        (Modifiers::SHIFT, Key::ArrowLeft, Command::StepCursor(-100)),
        (Modifiers::SHIFT, Key::ArrowRight, Command::StepCursor(100)),
        (none, Key::ArrowLeft, Command::StepCursor(-1)),
        (none, Key::ArrowRight, Command::StepCursor(1)),
        (none, Key::Home, Command::MoveCursor(Position::START)),
        (none, Key::End, Command::MoveCursor(end)),
        (none, Key::W, Command::ZoomAtCursor(ZOOM)),
        (none, Key::S, Command::ZoomAtCursor(1.0 / ZOOM)),
        (none, Key::A, Command::Pan(-PAN)),
        (none, Key::D, Command::Pan(PAN)),
        (none, Key::P, Command::GoToPeak),
        (none, Key::O, Command::GoToLastOom),
        (none, Key::M, Command::ToggleMark),
        (none, Key::F, Command::FrameSelection),
        (none, Key::Escape, Command::ClearSelection),
    ] {
        if pressed(modifiers, key) {
            cx.send(command);
        }
    }
    pressed(none, Key::Space).then_some(KeyDeed::Play)
}
