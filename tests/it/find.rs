//! The search over all views: what it finds against a look at every life, and the window driven by keys.

use crate::samples;
use crate::window::{Window_, answered, cursor, opened, place, rest, with_sample};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable;
use fragscope::analysis::{
    Asked, FindTerms, FlameDirection, FlameMatch, FlameOf, FlameParams, Found, FoundHere, FoundKey, LifetimeParams, Lifetimes,
    LiveCounter, Query, StateAt, Subject,
};
use fragscope::base::{Bytes, Progress, grouped};
use fragscope::chart::segment_map::{self, SegmentMapInput};
use fragscope::chart::{ColourBy, Ink, Inks, Palette, Shape, Theme};
use fragscope::model::{
    Action, Allocation, AllocationId, DeviceId, DeviceMemory, EventIdx, Frame, Item, PoolId, Position, Snapshot, StackId,
    StreamId, Trace, TraceEntry,
};
use fragscope::raster::{ColourTable, LivesIndex, Raster, RasterView, Spotlight, StackRaster, faded};
use fragscope::replay::{Replay, SnapshotBuilder};
use fragscope::session::lookups::{BlocksOf, FlameFound};
use fragscope::session::samples::SAMPLES;
use fragscope::session::{Command, Session};
use std::sync::Arc;

fn terms(line: &str) -> Arc<FindTerms> {
    let terms = FindTerms::parse(line).unwrap_or_else(|why| panic!("{line}: {why}"));
    Arc::new(terms.unwrap_or_else(|| panic!("{line}: no words")))
}

fn find(snapshot: &Snapshot, memory: &DeviceMemory, line: &str) -> Arc<Found> {
    Arc::new(Found::of(snapshot, memory, &terms(line), &Progress::new()).expect("nobody cancels"))
}

fn here(snapshot: &Snapshot, replays: &[Replay], device: DeviceId, found: &Arc<Found>, at: Position) -> FoundHere {
    let asked = Asked { subject: Subject { snapshot, replays }, baseline: None, device };
    FoundHere::answer(&asked, &(FoundKey(Arc::clone(found)), at), &Progress::new()).expect("nobody cancels")
}

/// What a life must be to be found.
type Fits<'a> = Box<dyn Fn(AllocationId, &Allocation) -> bool + 'a>;

/// Whether a text stands in a stack, said plainly.
fn stack_holds(snapshot: &Snapshot, stack: StackId, text: &str) -> bool {
    let table = &snapshot.stacks;
    table.frames(stack).iter().any(|frame| {
        table.function(*frame).to_lowercase().contains(text)
            || format!("{}:{}", table.file(*frame), table.frame(*frame).line).to_lowercase().contains(text)
    })
}

/// Whether a text stands in a note of a life's events, or names an annotation it was born in.
fn noted(snapshot: &Snapshot, memory: &DeviceMemory, id: AllocationId, life: &Allocation, text: &str) -> bool {
    let strings = &snapshot.stacks.strings;
    let holds = |note| strings.get(note).to_lowercase().contains(text);
    let mut events = memory.trace.events().filter(|event| memory.subject(*event) == Some(id));
    let in_notes = events.any(|event| {
        let entry = memory.trace.entry(event);
        entry.compile_context.is_some_and(holds)
            || entry.user_metadata.is_some_and(holds)
            || memory.trace.extras_of(event).iter().any(|extra| holds(extra.value))
    });
    let born = life.born.event().and_then(|event| memory.trace.time_us(event));
    let in_span = |start: Option<i64>, end: Option<i64>| match born {
        Some(born) => start.is_none_or(|start| start <= born) && end.is_none_or(|end| born <= end),
        None => false,
    };
    in_notes || memory.annotations.iter().any(|span| holds(span.name) && in_span(span.start_us, span.end_us))
}

/// Lines worth searching for on a device, each with a plain test of its own.
fn lines<'a>(snapshot: &'a Snapshot, memory: &'a DeviceMemory) -> Vec<(String, Fits<'a>)> {
    let mut lines: Vec<(String, Fits<'a>)> = Vec::new();
    let end = memory.end();
    let lived = move |life: &Allocation| u64::from(life.died.min(end).0 - life.born.0);
    let pool = move |life: &Allocation| {
        memory.segments.get(life.segment).filter(|segment| !segment.inferred).map(|segment| snapshot.pools.pair(segment.pool))
    };
    lines.push((">=0".into(), Box::new(|_, _| true)));
    lines.push((">= 1 MiB".into(), Box::new(|_, life| 1 << 20 <= life.size)));
    lines.push(("513..4096".into(), Box::new(|_, life| (513..=4096).contains(&life.size))));
    lines.push(("requested<1KiB".into(), Box::new(|_, life| life.requested < 1024)));
    lines.push(("-requested<1KiB".into(), Box::new(|_, life| 1024 <= life.requested)));
    lines.push(("life<50".into(), Box::new(move |_, life| lived(life) < 50)));
    lines.push(("alive".into(), Box::new(move |_, life| end < life.freed)));
    lines.push(("-alive older".into(), Box::new(move |_, life| life.freed <= end && life.born == Position::START)));
    lines.push(("pool:default".into(), Box::new(move |_, life| pool(life) == Some((0, 0)))));
    lines.push(("pool:private".into(), Box::new(move |_, life| pool(life).is_some_and(|pool| pool != (0, 0)))));
    lines.push(("stream:default".into(), Box::new(|_, life| snapshot.streams.handle(life.stream) == 0)));
    lines.push(("stream:123456789".into(), Box::new(|_, life| snapshot.streams.handle(life.stream) == 123_456_789)));
    if snapshot.streams.len() > 1 {
        let handle = snapshot.streams.handle(StreamId(1));
        lines.push((format!("stream:{handle}"), Box::new(move |_, life| snapshot.streams.handle(life.stream) == handle)));
    }
    if snapshot.pools.len() > 1 {
        let (a, b) = snapshot.pools.pair(PoolId(1));
        lines.push((format!("pool:{a},{b}"), Box::new(move |_, life| pool(life) == Some((a, b)))));
    }
    let text = |wanted: String| -> Fits<'a> {
        Box::new(move |id, life| stack_holds(snapshot, life.stack, &wanted) || noted(snapshot, memory, id, life, &wanted))
    };
    for word in ["forward", "no such text anywhere"] {
        lines.push((format!("\"{}\"", word.to_uppercase()), text(word.to_owned())));
    }
    for row in
        [memory.allocations.len() / 3, memory.allocations.len() * 2 / 3].into_iter().filter(|row| *row < memory.allocations.len())
    {
        let life = memory.allocations.get(AllocationId(row as u32));
        let inside = life.address + life.size / 2;
        lines.push((format!("0x{inside:x}"), Box::new(move |_, life| life.address <= inside && inside < life.end())));
        let label = life.label();
        let wanted = label.clone();
        lines.push((label, Box::new(move |_, life| life.label() == wanted)));
        let digits = format!("{:x}", life.address);
        let begin = digits[..digits.len().min(7)].to_owned();
        let line = format!("b{begin}…_0 size<1GiB");
        lines.push((
            line,
            Box::new(move |_, life| {
                format!("{:x}", life.address).starts_with(&begin) && life.use_number == 0 && life.size < 1 << 30
            }),
        ));
        if let Some(frame) = snapshot.stacks.frames(life.stack).first() {
            let place = format!("{}:{}", snapshot.stacks.file(*frame), snapshot.stacks.frame(*frame).line);
            lines.push((format!("\"{place}\""), text(place.to_lowercase())));
        }
    }
    let note = memory.trace.events().find_map(|event| memory.trace.entry(event).user_metadata);
    let names = note.into_iter().chain(memory.annotations.first().map(|span| span.name));
    for name in names.map(|name| snapshot.stacks.strings.get(name).replace('"', " ")) {
        lines.push((format!("\"{name}\""), text(name.to_lowercase())));
    }
    lines
}

#[test]
fn what_is_found_equals_a_look_at_every_life() {
    for path in samples::pairs(&samples::folder()) {
        let snapshot = samples::open(&path);
        let replays: Vec<Replay> = snapshot.devices.as_slice().iter().map(Replay::new).collect();
        for (device, memory) in snapshot.devices.iter() {
            let all = Lifetimes::of(memory, &LifetimeParams::ALL, &Progress::new()).expect("nobody cancels").total;
            for (line, fits) in lines(&snapshot, memory) {
                let place = format!("{}, {}: {line}", samples::stem(&path), memory.title());
                let found = find(&snapshot, memory, &line);
                // A note is looked up event by event: a few lives of each file show as much as all.
                let step = if line.starts_with('"') { (memory.allocations.len() / 150).max(1) } else { 1 };
                for id in memory.allocations.ids().step_by(step) {
                    let life = memory.allocations.get(id);
                    assert_eq!(found.has(id), life.born < life.died && fits(id, &life), "{place}: {}", life.label());
                }
                let ids: Vec<AllocationId> = found.lives().collect();
                assert!(ids.iter().all(|id| found.has(*id)) && ids.is_sorted(), "{place}");
                let bytes: u64 = ids.iter().map(|id| memory.allocations.get(*id).size).sum();
                assert_eq!((found.sum.count, found.sum.bytes), (ids.len() as u64, bytes), "{place}");
                if line == ">=0" {
                    assert_eq!(found.sum, all, "{place}: all lives");
                }
                for part in 0..=3u64 {
                    let at = Position((u64::from(memory.end().0) * part / 3) as u32);
                    let now = here(&snapshot, &replays, device, &found, at);
                    let live = ids.iter().map(|id| memory.allocations.get(*id)).filter(|life| life.born <= at && at < life.freed);
                    let bytes: u64 = live.clone().map(|life| life.size).sum();
                    assert_eq!((now.sum.count, now.sum.bytes), (live.clone().count() as u64, bytes), "{place} at {at:?}");
                    if line == ">=0" {
                        let state = replays[device.0 as usize].state_at(memory, at);
                        assert_eq!(now.sum.bytes, state.totals.allocated, "{place} at {at:?}");
                    }
                    for life in live.take(50) {
                        assert!(
                            now.has_stack(&found, life.stack) && now.has_size(life.size) && found.has_stack(life.stack),
                            "{place}"
                        );
                    }
                }
                steps_lead_through_all(&snapshot, memory, &found, &place);
            }
        }
    }
}

/// F3 from the start meets every hit once, in order, then the first again; Shift+F3 the same backward.
fn steps_lead_through_all(_: &Snapshot, memory: &DeviceMemory, found: &Found, place: &str) {
    let lives = found.lives().map(|id| (memory.allocations.get(id).born, 0, Item::Allocation(id)));
    let events = found.events.iter().map(|event| (Position::after(*event), 1, Item::Event(*event)));
    let mut all: Vec<(Position, i32, Item)> = lives.chain(events).collect();
    all.sort_by_key(|(at, kind, item)| (*at, *kind, if let Item::Allocation(id) = item { id.0 } else { 0 }));
    let Some(last) = all.last().copied() else {
        assert_eq!(found.step(memory, Position::START, None, true), None, "{place}");
        return;
    };
    if 3000 < all.len() {
        return;
    }
    let (mut at, mut selected) = (Position::START, None);
    for (n, expected) in all.iter().enumerate() {
        let step = found.step(memory, at, selected, true).expect("there are some");
        assert_eq!((step.at, step.item, step.wrapped), (expected.0, expected.2, false), "{place}: step {n}");
        (at, selected) = (step.at, Some(step.item));
    }
    let around = found.step(memory, at, selected, true).expect("there are some");
    assert_eq!((around.item, around.wrapped), (all[0].2, true), "{place}: behind the last comes the first");
    let back = found.step(memory, around.at, Some(around.item), false).expect("there are some");
    assert_eq!((back.item, back.wrapped), (last.2, true), "{place}: before the first comes the last");
    (at, selected) = (back.at, Some(back.item));
    for expected in all.iter().rev().skip(1) {
        let step = found.step(memory, at, selected, false).expect("there are some");
        assert_eq!((step.item, step.wrapped), (expected.2, false), "{place}: backward");
        (at, selected) = (step.at, Some(step.item));
    }
}

#[test]
fn segments_and_failures_are_found_by_themselves() {
    let snapshot = samples::open(&samples::sample("fragmentation_oom"));
    let memory = &snapshot.devices.as_slice()[0];
    let (id, segment) = memory.segments.iter().last().expect("segments");
    let found = find(&snapshot, memory, &format!("0x{:x}", segment.end() - 1));
    assert!(found.has_segment(id));
    for (id, other) in memory.segments.iter() {
        let inside = other.address < segment.end() && segment.end() <= other.end();
        assert_eq!(found.has_segment(id), inside, "{other:?}");
    }
    for event in memory.trace.events().filter(|event| memory.subject(*event).is_none()) {
        let entry = memory.trace.entry(event);
        let of_segment =
            matches!(entry.action, Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap);
        let inside = entry.address < segment.end() && segment.end() <= entry.address.saturating_add(entry.size);
        assert_eq!(found.has_event(memory, event), of_segment && inside, "{entry:?}");
    }
    let oom = *memory.trace.ooms().last().expect("it failed");
    let wanted = memory.trace.sizes()[oom.0 as usize];
    let found = find(&snapshot, memory, &format!("={wanted}"));
    assert!(found.has_event(memory, oom) && found.events.contains(&oom));
    let none = find(&snapshot, memory, "0xffffffffffffffff");
    assert!(none.is_empty(), "nothing lies at the last address");
}

#[test]
fn a_cancelled_search_stops() {
    let snapshot = samples::open(&samples::sample("training"));
    let progress = Progress::new();
    progress.cancel();
    assert!(Found::of(&snapshot, &snapshot.devices.as_slice()[0], &terms("forward"), &progress).is_err());
}

#[test]
fn the_flame_graph_of_what_is_found_adds_up() {
    for sample in SAMPLES {
        let mut session = opened(&[sample.name]);
        let at = place(&session).cursor;
        for line in ["forward", ">=1MiB", "-alive", "no such text"] {
            let found = answered::<Found>(&mut session, terms(line));
            let now = answered::<FoundHere>(&mut session, (FoundKey(Arc::clone(&found)), at));
            for (direction, fold_framework) in [(FlameDirection::TopDown, false), (FlameDirection::BottomUp, true)] {
                let of = FlameOf::Live { at, counter: LiveCounter::Allocated };
                let params = FlameParams { of, direction, fold_framework };
                let flame = answered::<FlameFound>(&mut session, (params, FoundKey(Arc::clone(&found))));
                assert_eq!(flame.matches.value, i128::from(now.sum.bytes), "{}: {line}", sample.name);
                let nodes = &flame.matches.nodes;
                assert_eq!(nodes.len(), flame.tree.nodes.len());
                let hits = nodes.as_slice().iter().filter(|node| **node == FlameMatch::Hit).count();
                assert_eq!(hits, flame.matches.hits as usize);
                assert_eq!(hits == 0, now.sum.bytes == 0, "{}: {line}", sample.name);
                for (id, node) in flame.tree.nodes.iter().skip(1) {
                    assert!(
                        nodes[id] == FlameMatch::No || nodes[node.parent] != FlameMatch::No,
                        "what lies above a match is none"
                    );
                }
            }
        }
    }
}

/// Two blocks of stacks that read alike (frames that differ in an extra key), one of another, each of `size`.
fn three_blocks(size: u64) -> (Snapshot, [StackId; 3]) {
    let mut builder = SnapshotBuilder::default();
    let mut name = |text: &str| builder.stacks.strings.intern(text);
    let (forward, backward, file, key) = (name("forward"), name("backward"), name("model.py"), name("fx_node_op"));
    let frame = |name| Frame { name, filename: file, line: 7 };
    let plain = builder.stacks.intern_frame(frame(forward));
    let annotated = builder.stacks.push_frame_with_extras(frame(forward), &[(key, forward)]);
    let other = builder.stacks.intern_frame(frame(backward));
    let stacks = [plain, annotated, other].map(|frame| builder.stacks.intern(&[frame]));
    let mut trace = Trace::default();
    let mut push = |action, address: u64, size, stack| {
        let address = (1 << 40) + address;
        let (stream, time_us, pool, compile_context, user_metadata) = (StreamId::DEFAULT, None, None, None, None);
        trace.push(TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata });
    };
    push(Action::SegmentAlloc, 0, 64 << 20, StackId::ABSENT);
    for (n, stack) in stacks.iter().enumerate() {
        push(Action::Alloc, n as u64 * size, size, *stack);
    }
    for n in 0..97 {
        push(Action::Alloc, 32 << 20, 512, StackId::ABSENT);
        push(Action::FreeRequested, 32 << 20, 512, StackId::ABSENT);
        push(Action::FreeCompleted, 32 << 20, 512, StackId::ABSENT);
        assert!(n < 97);
    }
    builder.device(0).trace = trace;
    (builder.finish(Default::default(), &Progress::new()).expect("nobody cancels"), stacks)
}

#[test]
fn stacks_that_read_alike_are_found_and_marked_together() {
    let (snapshot, stacks) = three_blocks(8 << 20);
    let memory = &snapshot.devices.as_slice()[0];
    assert!(snapshot.stacks.are_alike(stacks[0], stacks[1]) && !snapshot.stacks.are_alike(stacks[0], stacks[2]));
    assert!(snapshot.stacks.are_alike(StackId::EMPTY, StackId::ABSENT) && !snapshot.stacks.are_alike(StackId::EMPTY, stacks[2]));
    // Only the first block has this address, but both stacks read the same.
    let found = find(&snapshot, memory, "0x10000000000");
    assert_eq!(found.sum.count, 1);
    assert!(found.has_stack(stacks[0]) && found.has_stack(stacks[1]) && !found.has_stack(stacks[2]));
    let replays = [Replay::new(memory)];
    let asked = Asked { subject: Subject { snapshot: &snapshot, replays: &replays }, baseline: None, device: DeviceId(0) };
    let of = |stack| BlocksOf::answer(&asked, &stack, &Progress::new()).expect("nobody cancels").blocks;
    assert_eq!((of(stacks[0]), of(stacks[2]).len()), (of(stacks[1]), 1));
    assert_eq!(of(stacks[0]).len(), 2);
    // In the layout both blocks are outlined, whichever of the two stacks is selected.
    let state = replays[0].state_at(memory, memory.end());
    let inks = Inks::new(&snapshot, ColourBy::Stack);
    let input = map_input(&snapshot, memory, &state, &inks);
    let outlined = |stack| {
        let drawn = segment_map::draw(&SegmentMapInput { selected: Some(Item::Stack(stack)), ..input });
        drawn.drawing.marks.iter().filter(|mark| mark.ink == Ink::Selected).count()
    };
    assert_eq!([outlined(stacks[0]), outlined(stacks[1]), outlined(stacks[2])], [2, 2, 1]);
}

fn map_input<'a>(
    snapshot: &'a Snapshot,
    memory: &'a DeviceMemory,
    state: &'a fragscope::replay::MemoryState,
    inks: &'a Inks,
) -> SegmentMapInput<'a> {
    SegmentMapInput {
        snapshot,
        memory,
        state,
        inks,
        width_pt: 800.0,
        height_pt: 300.0,
        scroll_pt: 0.0,
        bytes_per_row: None,
        focus: None,
        request: None,
        selected: None,
        hovered: None,
        found: None,
    }
}

#[test]
fn the_layout_fades_what_was_not_found() {
    let (snapshot, _) = three_blocks(8 << 20);
    let memory = &snapshot.devices.as_slice()[0];
    let state = Replay::new(memory).state_at(memory, memory.end());
    let inks = Inks::new(&snapshot, ColourBy::Stack);
    let found = find(&snapshot, memory, "backward");
    let drawn = segment_map::draw(&SegmentMapInput { found: Some(&found), ..map_input(&snapshot, memory, &state, &inks) });
    for mark in &drawn.drawing.marks {
        if let (Shape::Box(_), Some(Item::Allocation(id))) = (&mark.shape, mark.item) {
            let faded = matches!(mark.ink, Ink::Faded(_));
            assert_eq!(faded, !found.has(id), "{mark:?}");
        }
    }
    // Blocks a cell wide and less: the one that was found wins its cell.
    let (snapshot, _) = three_blocks(512);
    let memory = &snapshot.devices.as_slice()[0];
    let state = Replay::new(memory).state_at(memory, memory.end());
    let inks = Inks::new(&snapshot, ColourBy::Stack);
    let found = find(&snapshot, memory, "backward");
    let id = found.lives().next().expect("one");
    let strongest = |found: Option<&Found>| {
        let drawn = segment_map::draw(&SegmentMapInput { found, ..map_input(&snapshot, memory, &state, &inks) });
        let shares = drawn.drawing.marks.iter().filter_map(|mark| match mark.ink {
            Ink::Part(_, share) => Some((share, mark.item)),
            _ => None,
        });
        shares.max_by_key(|(share, _)| *share).expect("a cell")
    };
    assert!(strongest(None).0 < 192);
    assert_eq!(strongest(Some(&found)), (192, Some(Item::Allocation(id))));
    let other = find(&snapshot, memory, "no such text");
    assert!(strongest(Some(&other)).0 < 32, "nothing was found: all fades");
}

/// Both pictures over time, coloured by stack, in a light of what was found.
fn pictures(snapshot: &Snapshot, found: Option<Arc<Found>>, height: usize) -> [Raster; 2] {
    let memory = &snapshot.devices.as_slice()[0];
    let replay = Replay::new(memory);
    let usage = fragscope::analysis::UsageTimeline::of(memory, &Progress::new()).expect("nobody cancels");
    let palette = Palette { theme: Theme::Light };
    let [r, g, b, _] = palette.rgba(Ink::Background);
    let spotlight = found.map(|found| Spotlight { found, ground: [r, g, b] });
    let colours = ColourTable { spotlight, ..Inks::new(snapshot, ColourBy::Stack).table(palette) };
    let columns = (0..=100).map(|column| Position(column * memory.end().0 / 100)).collect::<Vec<_>>();
    let index = LivesIndex::new(memory, &Progress::new()).expect("nobody cancels");
    let view = |bytes: f64| RasterView { columns: columns.clone(), bytes: 0.0..bytes, height };
    let top = usage.active.peak().1 as f64;
    let stacked = StackRaster::new(memory, &replay, &usage).raster(&view(top), &colours, &Progress::new());
    let lying = index.raster(memory, &view(index.map.rows() as f64), &colours, Some([r, g, b]), &Progress::new());
    [stacked.expect("nobody cancels"), lying.expect("nobody cancels")]
}

fn pixels(raster: &Raster) -> impl Iterator<Item = [u8; 3]> + '_ {
    raster.rgba.chunks_exact(4).map(|pixel| [pixel[0], pixel[1], pixel[2]])
}

#[test]
fn pictures_keep_the_colour_of_what_was_found() {
    let (snapshot, stacks) = three_blocks(8 << 20);
    let memory = &snapshot.devices.as_slice()[0];
    let table = Inks::new(&snapshot, ColourBy::Stack).table(Palette { theme: Theme::Light });
    let [own, other] = [stacks[2], stacks[0]].map(|stack| table.colours[stack.0 as usize]);
    let pale = faded(other, [255; 3]);
    for (plain, lit) in
        pictures(&snapshot, None, 240).iter().zip(&pictures(&snapshot, Some(find(&snapshot, memory, "backward")), 240))
    {
        let count = |raster: &Raster, colour: [u8; 3]| pixels(raster).filter(|pixel| *pixel == colour).count();
        assert!(100 < count(plain, own) && 100 < count(plain, other) && count(plain, pale) == 0);
        assert_eq!(count(lit, own), count(plain, own), "what was found keeps its colour");
        assert_eq!((count(lit, other), count(lit, pale)), (0, count(plain, other)), "all else fades");
    }
    // Thinner than a pixel: 512 bytes of 64 MiB in 40 rows. It still wins.
    let (snapshot, stacks) = three_blocks(512);
    let memory = &snapshot.devices.as_slice()[0];
    let own = Inks::new(&snapshot, ColourBy::Stack).table(Palette { theme: Theme::Light }).colours[stacks[2].0 as usize];
    let strong = |raster: &Raster| {
        let near = |pixel: [u8; 3]| (0..3).all(|i| (i32::from(pixel[i]) - i32::from(own[i])).abs() <= 70);
        pixels(raster).filter(|pixel| near(*pixel) && *pixel != [255; 3]).count()
    };
    let [_, plain] = pictures(&snapshot, None, 40);
    let [_, lit] = pictures(&snapshot, Some(find(&snapshot, memory, "backward")), 40);
    assert!(strong(&plain) == 0 && 90 < strong(&lit), "{} {}", strong(&plain), strong(&lit));
}

// The window.

fn field<'a>(window: &'a Window_<'_>) -> Option<egui_kittest::Node<'a>> {
    window.query_by_role_and_label(Role::TextInput, "Find in all views")
}

fn type_in(window: &mut Window_<'_>, text: &str) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::F);
    rest(window);
    field(window).expect("the bar is open").type_text(text);
    rest(window);
}

/// Brings a tab to the front; a button of the same name may stand above it.
fn open_tab(window: &mut Window_<'_>, tab: &str) {
    let nodes = window.query_all_by_role_and_label(Role::Button, tab);
    nodes.max_by(|a, b| a.rect().min.y.total_cmp(&b.rect().min.y)).expect("a tab").click();
    rest(window);
}

fn searched(session: &Session) -> Arc<Found> {
    session.found().expect("something is searched for")
}

#[test]
fn a_search_is_typed_stepped_through_and_ended() {
    let mut window = with_sample("fragmentation_oom");
    assert!(field(&window).is_none(), "no bar yet");
    let start = cursor(&window);
    type_in(&mut window, ">=16MiB");
    assert_eq!(window.state().session.find().text(), ">=16MiB");
    let found = searched(&window.state().session);
    let count = grouped(found.sum.count);
    window.get_by_label(&format!("{count} allocations,"));
    assert!(window.query_all_by_label(&Bytes(found.sum.bytes).to_string()).next().is_some());
    let now = window.state().session.found_here().and_then(|here| here.value().cloned()).expect("known");
    window.get_by_label(&format!("{} live here,", grouped(now.sum.count)));
    // Keys of the pictures stay text in the field.
    window.key_press(Key::Home);
    rest(&mut window);
    assert_eq!(cursor(&window), start);
    let steps = |window: &mut Window_<'_>, modifiers: Modifiers, times: usize| -> Vec<(u32, Option<Item>)> {
        (0..times)
            .map(|_| {
                window.key_press_modifiers(modifiers, Key::F3);
                rest(window);
                (cursor(window), place(&window.state().session).selected())
            })
            .collect()
    };
    window.state().session.send(Command::MoveCursor(Position::START));
    rest(&mut window);
    let there = steps(&mut window, Modifiers::NONE, 3);
    assert!(there.is_sorted_by_key(|(at, _)| *at), "{there:?}");
    let memory = window.state().session.front().expect("open").2;
    for (at, item) in &there {
        match item {
            Some(Item::Allocation(id)) => {
                assert!(found.has(*id));
                assert_eq!(memory.allocations.get(*id).born.0, *at);
            }
            Some(Item::Event(event)) => assert!(found.has_event(memory, *event) && Position::after(*event).0 == *at),
            other => panic!("{other:?} is selected"),
        }
    }
    let back = steps(&mut window, Modifiers::SHIFT, 2);
    assert_eq!(back, [there[1], there[0]]);
    let wrapped = steps(&mut window, Modifiers::SHIFT, 1);
    window.get_by_label("· went on from the last");
    let around = steps(&mut window, Modifiers::NONE, 1);
    assert_eq!(around[0], there[0]);
    assert_ne!(wrapped[0], there[0]);
    window.get_by_label("· went on from the first");
    // The buttons do the same.
    window.get_by_label("next found").click();
    rest(&mut window);
    assert_eq!((cursor(&window), place(&window.state().session).selected()), there[1]);
    // Esc in the field ends it.
    window.run_steps(40);
    window.key_press_modifiers(Modifiers::COMMAND, Key::F);
    rest(&mut window);
    window.key_press(Key::Escape);
    rest(&mut window);
    assert!(field(&window).is_none() && window.state().session.found().is_none());
    assert_eq!(place(&window.state().session).selected(), there[1].1, "Esc ends the search and nothing else");
    // What was chosen is undone like everything else.
    window.run_steps(40);
    window.state().session.send(Command::Undo);
    rest(&mut window);
    assert_eq!(window.state().session.find().text(), ">=16MiB");
    assert!(field(&window).is_some(), "and the bar is back with it");
}

#[test]
fn enter_steps_and_what_cannot_be_read_is_said() {
    let mut window = with_sample("training");
    window.state().session.send(Command::MoveCursor(Position::START));
    rest(&mut window);
    type_in(&mut window, ">=10XB");
    window.get_by_label("`>=10XB`: unknown unit XB");
    assert!(window.state().session.found().is_none());
    window.key_press_modifiers(Modifiers::COMMAND, Key::F);
    rest(&mut window);
    field(&window).expect("open").type_text("alive");
    rest(&mut window);
    assert_eq!(window.state().session.find().text(), "alive", "the older line was chosen and typed over");
    let mut seen = Vec::new();
    for _ in 0..3 {
        window.key_press(Key::Enter);
        rest(&mut window);
        seen.push(place(&window.state().session).selected());
    }
    let expected: Vec<_> = searched(&window.state().session).lives().take(3).map(|id| Some(Item::Allocation(id))).collect();
    assert_eq!(seen, expected, "several of one moment come one after the other");
    window.state().session.send(Command::SetFind("no such text anywhere".to_owned()));
    rest(&mut window);
    window.get_by_label("Nothing was found on this device.");
    let before = cursor(&window);
    window.state().session.send(Command::StepFind { forward: true });
    rest(&mut window);
    assert_eq!(cursor(&window), before);
    window.get_by_role_and_label(Role::Button, "End the search").click();
    rest(&mut window);
    assert!(field(&window).is_none());
}

#[test]
fn every_view_shows_a_search_on_every_sample() {
    for sample in SAMPLES {
        let mut window = with_sample(sample.name);
        for (theme, line) in [(Theme::Light, "forward"), (Theme::Dark, "<1MiB")] {
            window.state().session.send(Command::SetTheme(theme));
            window.state().session.send(Command::SetFind(String::new()));
            rest(&mut window);
            for tab in ["Flame", "Live set", "Segments", "Sizes", "Events", "Address over time"] {
                window.state().session.send(Command::SetFind(String::new()));
                open_tab(&mut window, tab);
                let plain = window.render().expect("painted");
                window.state().session.send(Command::SetFind(line.to_owned()));
                rest(&mut window);
                window.run_steps(4);
                rest(&mut window);
                let lit = window.render().expect("painted");
                assert_ne!(plain, lit, "{}, {tab}: nothing shows {line}", sample.name);
            }
        }
        assert!(window.state().session.notes().is_empty(), "{}: {:?}", sample.name, window.state().session.notes());
    }
}

#[test]
fn a_step_waits_for_what_is_found() {
    let mut session = opened(&["streams"]);
    session.apply(Command::MoveCursor(Position::START));
    session.apply(Command::SetFind("alive".to_owned()));
    session.apply(Command::StepFind { forward: true });
    let first = answered::<Found>(&mut session, terms("alive")).lives().next().map(Item::Allocation);
    session.tick(100.0);
    assert_eq!(place(&session).selected(), first);
    assert_eq!(session.find_wrapped(), None);
    // A search that is ended takes its waiting step along.
    session.apply(Command::SetFind("forward".to_owned()));
    session.apply(Command::StepFind { forward: true });
    session.apply(Command::SetFind(String::new()));
    let state = answered::<StateAt>(&mut session, Position::START);
    assert_eq!((place(&session).selected(), state.position), (first, Position::START));
    session.apply(Command::Select(Item::Event(EventIdx(0))));
    session.apply(Command::StepFind { forward: true });
    assert_eq!(place(&session).selected(), Some(Item::Event(EventIdx(0))), "nothing is searched for");
}
