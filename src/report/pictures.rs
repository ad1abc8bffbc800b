//! The pictures of a page, as drawings: one source for PNG and HTML.
//!
//! Always: they are the window's own charts; what has no room is counted in words, never cut in silence.

use crate::analysis::capacity;
use crate::base::{Cancelled, Progress};
use crate::chart::flame::{self, FlameColour, FlameInks, FlameInput, LEVEL_PT};
use crate::chart::series::all_series;
use crate::chart::usage::{self, PlacedRaster};
use crate::chart::{
    Drawing, Group, GroupData, LinesInput, Palette, PartLook, SegmentMapInput, Series, Unit, UsageInput, lines, parts_bar,
    segment_map,
};
use crate::raster::{Raster, StackRaster};
use crate::report::kv::{self, KvPicture};
use crate::report::material::Material;
use crate::report::page_model::AccountInfo;
use crate::simulator::contiguous::KvCompared;

/// Height of the account's bar.
pub const BAR_PT: f32 = 26.0;

/// The bar of the account.
pub fn bar(account: &AccountInfo, width_pt: f32) -> Drawing {
    let parts = account.parts.iter().map(|part| (part.look, part.bytes.unwrap_or(0)));
    let parts: Vec<_> = parts.chain([(PartLook::Untouched, account.rest)]).collect();
    parts_bar::draw(&parts, width_pt, BAR_PT)
}

/// Live allocations over time, and the raster of single blocks that lies in it; none without a history.
pub fn timeline(
    material: &Material<'_>,
    width_pt: f32,
    height_pt: f32,
    scale: f32,
    palette: Palette,
    progress: &Progress,
) -> Result<Option<(Drawing, Raster)>, Cancelled> {
    if !material.memory.has_history() {
        return Ok(None);
    }
    let (view, placed) = usage::wanted_raster(&usage_input(material, width_pt, height_pt, &[]), scale);
    let stack = StackRaster::new(material.memory, material.replay, &material.curves);
    let raster = stack.raster(&view, &material.inks.table(palette), progress)?;
    let rasters: &[PlacedRaster] = if 0 < raster.width * raster.height { &[placed] } else { &[] };
    Ok(Some((usage::draw(&usage_input(material, width_pt, height_pt, rasters)), raster)))
}

fn usage_input<'a>(material: &'a Material<'_>, width_pt: f32, height_pt: f32, rasters: &'a [PlacedRaster]) -> UsageInput<'a> {
    UsageInput {
        snapshot: material.snapshot,
        memory: material.memory,
        usage: &material.curves,
        clock: &material.clock,
        width_pt,
        height_pt,
        overview: false,
        time: material.window.clone(),
        bytes: 0.0..0.0,
        rasters,
        capacity: capacity::at_last_oom(material.memory, &material.curves),
        device: Some(&material.device_use),
        cursor: Some(material.position()),
        range: None,
        marks: &[],
        selected: &[],
        hovered: None,
        selected_item: None,
        hovered_span: None,
    }
}

/// What is reserved, allocated and free, and below them the largest free piece on a scale of its own: next to the
/// others it would be a line at zero.
pub fn charts(material: &Material<'_>, width_pt: f32, height_pt: f32) -> Option<Drawing> {
    let all = all_series(&GroupData {
        group: Group::Device,
        usage: &material.curves,
        fragmentation: Some(material.fragmentation.as_ref()?),
        cost: None,
        rates: None,
    });
    let named = |names: &[&str]| -> Vec<Series<'_>> {
        let found = names.iter().filter_map(|name| all.iter().find(|s| s.group == Group::Device && s.name == *name));
        found.cloned().collect()
    };
    let upper = (height_pt * 0.55).round();
    let mut drawing = Drawing::new(width_pt, height_pt);
    let mut y = 0.0;
    for (names, height_pt, axis) in
        [(&["reserved", "allocated", "free"][..], upper, false), (&["largest free block"], height_pt - upper, true)]
    {
        let level = material.request().filter(|_| axis).map(|bytes| (bytes, "the request that failed"));
        let plot = lines::draw(&LinesInput {
            series: &named(names),
            unit: Unit::Bytes,
            memory: material.memory,
            clock: &material.clock,
            time: material.window.clone(),
            cursor: Some(material.position()),
            level,
            axis,
            width_pt,
            height_pt,
        });
        drawing.append(plot, 0.0, y);
        y += height_pt;
    }
    Some(drawing)
}

/// The KV cache over time: its lines and its block table.
pub fn kv(material: &Material<'_>, compared: &KvCompared, width_pt: f32, height_pt: f32) -> Vec<Drawing> {
    let picture = |height_pt: f32| KvPicture {
        memory: material.memory,
        clock: &material.clock,
        time: material.window.clone(),
        cursor: Some(material.position()),
        selected: None,
        size_pt: [width_pt, height_pt],
    };
    let lines = kv::draw_lines(compared, &picture(height_pt));
    std::iter::once(lines).chain(kv::draw_table(compared, &picture(height_pt * 1.4))).collect()
}

/// The layout at the moment.
pub struct Layout {
    /// What has room.
    pub drawing: Drawing,
    /// Bytes of a full row.
    pub bytes_per_row: u64,
    /// Whether not all of it has room.
    pub is_cut: bool,
}

/// Every segment to scale in at most `most` points of height, at a scale that would fit `room`; none without segments.
pub fn layout(material: &Material<'_>, width_pt: f32, room: f32, most: f32) -> Option<Layout> {
    if material.state.segments.is_empty() {
        return None;
    }
    let input = |height_pt, bytes_per_row| SegmentMapInput {
        snapshot: material.snapshot,
        memory: material.memory,
        state: &material.state,
        inks: &material.inks,
        width_pt,
        height_pt,
        scroll_pt: 0.0,
        bytes_per_row,
        focus: None,
        request: material.request(),
        selected: None,
        hovered: None,
        found: None,
    };
    let fitted = segment_map::draw(&input(room, None));
    let height = fitted.content_height_pt.ceil().min(most.max(room));
    let map = segment_map::draw(&input(height, Some(fitted.bytes_per_row)));
    let is_cut = height + 1.0 < map.content_height_pt;
    Some(Layout { drawing: map.drawing, bytes_per_row: map.bytes_per_row, is_cut })
}

/// What was live as a flame graph of at most `most` points of height, and how many levels have no room.
pub fn flame(material: &Material<'_>, width_pt: f32, most: f32) -> Option<(Drawing, u32)> {
    let tree = material.flame.as_ref().filter(|tree| !tree.is_empty())?;
    let stacks = &material.snapshot.stacks;
    let inks = FlameInks::new(stacks, FlameColour::Stack);
    let whole = (tree.levels() as f32 * LEVEL_PT).clamp(LEVEL_PT, 500.0 * LEVEL_PT);
    // What is too narrow to be drawn is often the deepest: the first layout tells the height that is needed.
    let needed = flame::draw(&FlameInput::whole(tree, stacks, &inks, width_pt, whole)).content_height_pt;
    let height = needed.clamp(LEVEL_PT, (most / LEVEL_PT).floor().max(1.0) * LEVEL_PT);
    let drawn = flame::draw(&FlameInput::whole(tree, stacks, &inks, width_pt, height));
    Some((drawn.drawing, ((needed - height).max(0.0) / LEVEL_PT).round() as u32))
}
