//! The tiles of the window. [`VIEWS`] is the register: one line a view, in the order of the View menu.

pub mod address_time;
pub mod allocations;
pub mod charts;
pub mod compare;
mod compare_parts;
pub mod details;
pub mod events;
pub mod flame;
pub mod kv;
pub mod live_set;
pub mod marks;
pub mod memory_summary;
pub mod segment_map;
pub mod segments;
pub mod sizes;
pub mod spans;
pub mod usage;
pub mod usage_header;
pub mod view;
pub mod what_if;
mod what_if_chart;
pub mod what_if_form;
mod what_if_job;
pub mod why;

pub use view::{Cx, View, ViewClass};

use crate::model::DeviceMemory;

/// All views.
pub const VIEWS: &[ViewClass] = &[
    usage::CLASS,
    segment_map::CLASS,
    events::CLASS,
    flame::CLASS,
    charts::CLASS,
    live_set::CLASS,
    allocations::CLASS,
    marks::CLASS,
    segments::CLASS,
    sizes::CLASS,
    spans::CLASS,
    compare::CLASS,
    kv::CLASS,
    memory_summary::CLASS,
    address_time::CLASS,
    what_if::CLASS,
    details::CLASS,
    why::CLASS,
];

/// Whether a view has something to show of the document in front: that of a KV cache only where it is one, the layout
/// where the file tells of segments, addresses where it tells these.
pub fn is_shown(class: &ViewClass, cx: &Cx<'_>) -> bool {
    let front = || cx.session.front().map(|(_, _, memory)| memory);
    match class.id {
        id if id == kv::CLASS.id => kv::is_for(cx),
        id if id == segment_map::CLASS.id => front().is_none_or(DeviceMemory::tells_segments),
        id if id == address_time::CLASS.id => front().is_none_or(|memory| cx.no_places(memory).is_none()),
        _ => true,
    }
}

/// The view of a name.
pub fn class_of(id: &str) -> Option<&'static ViewClass> {
    VIEWS.iter().find(|class| class.id == id)
}
