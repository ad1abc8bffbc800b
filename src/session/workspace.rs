//! What the user chose: a small value that is undone and redone as a whole.
//!
//! Always: it holds no data, only ids and positions. Each device of each document keeps its own
//! [`Place`] (cursor, window, selection, marks), so going to another one and back loses nothing.

use crate::analysis::FindTerms;
use crate::analysis::diagnosis::DiagnosisParams;
use crate::chart::{ColourBy, TimeAxis};
use crate::model::{Action, DeviceId, Item, Position};
use crate::session::document::DocumentId;
use crate::session::set_choice::SetChoice;
use crate::session::what_if::WhatIfForm;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Everything the user chose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workspace {
    /// The document in front.
    pub active: Option<DocumentId>,
    /// The device chosen in each document.
    pub devices: BTreeMap<DocumentId, DeviceId>,
    /// Where one is on each device.
    pub places: BTreeMap<(DocumentId, DeviceId), Place>,
    /// What somebody told of the card each document was recorded on.
    pub cards: BTreeMap<DocumentId, DiagnosisParams>,
    /// What the event list shows.
    pub filter: EventFilter,
    /// What all views search for.
    pub find: Find,
    /// What the horizontal axes count.
    pub axis: TimeAxis,
    /// What block colours mean, in all views.
    pub colour_by: ColourBy,
}

impl Workspace {
    /// Document and device in front.
    pub fn front(&self) -> Option<(DocumentId, DeviceId)> {
        let document = self.active?;
        Some((document, *self.devices.get(&document)?))
    }
    /// Where one is on the device in front.
    pub fn place(&self) -> Option<&Place> {
        self.places.get(&self.front()?)
    }
}

/// Where one is on one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The moment all views show.
    pub cursor: Position,
    /// The part of the time axis one sees.
    pub window: Window,
    /// The part of the byte axis one sees; none: all of it.
    pub bytes: Option<Range<f64>>,
    /// The part of the address axis one sees, in rows of the picture of addresses; none: all of it.
    pub rows: Option<Range<f64>>,
    /// What is selected, the leading one first.
    pub selection: Vec<Item>,
    /// A stretch of time whose totals are shown.
    pub range: Option<Range<Position>>,
    /// Marks A, B, C …
    pub marks: Vec<Position>,
    /// Which set of blocks the views of sets look at.
    pub set: SetChoice,
    /// What is filled in to be served again.
    pub what_if: WhatIfForm,
    /// The cursor stays at the end of a recording that grows.
    pub follows: bool,
    /// The user has moved the cursor: it is no longer put to the most telling moment.
    pub moved: bool,
}

impl Place {
    /// The leading selected thing.
    pub fn selected(&self) -> Option<Item> {
        self.selection.first().copied()
    }
}

/// A part of a time axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Window {
    /// All of it.
    #[default]
    Whole,
    /// A range of units of this axis.
    Units(TimeAxis, Range<f64>),
    /// A range of positions, for whichever axis: what a window becomes when the axis changes.
    Positions(Range<Position>),
}

/// Which events the list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFilter {
    /// Actions that are hidden.
    pub hidden: ActionSet,
    /// Text looked for in function, file and address; case is ignored. Empty: no filter.
    pub text: String,
}

impl EventFilter {
    /// Whether every event passes.
    pub fn is_open(&self) -> bool {
        self.hidden == ActionSet::default() && self.text.trim().is_empty()
    }
}

/// A search over all views: its line, and what that asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    text: String,
    terms: Result<Option<Arc<FindTerms>>, String>,
}

impl Default for Find {
    fn default() -> Self {
        Find { text: String::new(), terms: Ok(None) }
    }
}

impl Find {
    /// Reads a line.
    pub fn new(text: String) -> Find {
        let terms = FindTerms::parse(&text).map(|terms| terms.map(Arc::new));
        Find { text, terms }
    }
    /// The line as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// What it asks for; none: nothing is searched for.
    pub fn terms(&self) -> Option<&Arc<FindTerms>> {
        self.terms.as_ref().ok().and_then(Option::as_ref)
    }
    /// Why it cannot be read, in a sentence.
    pub fn error(&self) -> Option<&str> {
        self.terms.as_ref().err().map(String::as_str)
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ActionSet(u16);

impl ActionSet {
    /// Whether an action is in it.
    pub fn has(self, action: Action) -> bool {
        self.0 & bit(action) != 0
    }
    /// With an action put in if it was not there, else taken out.
    #[must_use]
    pub fn toggled(self, action: Action) -> ActionSet {
        ActionSet(self.0 ^ bit(action))
    }
}

fn bit(action: Action) -> u16 {
    1 << action as u16
}
