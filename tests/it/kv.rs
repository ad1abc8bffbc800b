//! The paged KV cache: what a log adds up to, beside buffers in one piece, and its view.

use crate::import::{file, folder, number, numbers, read};
use crate::window::{rest, sized_window, with_sample};
use egui_kittest::kittest::Queryable as _;
use fragscope::base::Progress;
use fragscope::chart::Theme;
use fragscope::model::{Action, DeviceMemory, KvDeed, Position, Snapshot};
use fragscope::report::kv;
use fragscope::session::Command;
use fragscope::simulator::contiguous::KvCompared;

fn compared(memory: &DeviceMemory) -> KvCompared {
    KvCompared::of(memory, &Progress::new()).expect("nobody cancels").expect("a cache")
}

/// A log of events, one a batch, in JSON: `S 1,2 <parent>`, `R 1`, `C`.
fn log(events: &[&str]) -> Snapshot {
    let mut text = String::new();
    for (at, event) in events.iter().enumerate() {
        let mut words = event.split(' ');
        let event = match words.next() {
            Some("S") => {
                let hashes = words.next().expect("hashes");
                let tokens = hashes.split(',').map(|_| "1,2,3,4").collect::<Vec<_>>().join(",");
                let parent = words.next().unwrap_or("null");
                format!("[\"BlockStored\",[{hashes}],{parent},[{tokens}],4]")
            }
            Some("R") => format!("[\"BlockRemoved\",[{}]]", words.next().expect("hashes")),
            _ => "[\"AllBlocksCleared\"]".to_owned(),
        };
        text.push_str(&format!("[{at}.5,[{event}]]\n"));
    }
    read(text.as_bytes()).expect("opens")
}

#[test]
fn a_cache_holds_what_was_stored_less_what_was_removed_at_every_event() {
    for name in ["kv_array.msgpack.gz", "kv_map.jsonl.gz"] {
        let snapshot = file(name);
        let memory = &snapshot.devices.as_slice()[0];
        let cache = compared(memory).paged;
        let mut held = memory.allocations.born_by(Position::START) as u64;
        assert_eq!(cache.held.at(Position::START), held);
        for event in memory.trace.events() {
            match memory.trace.actions()[event.0 as usize] {
                Action::Alloc => held += 1,
                Action::FreeRequested => held -= 1,
                other => panic!("{other:?} in a log of a cache"),
            }
            assert_eq!(cache.held.at(Position::after(event)), held, "{name}, event {}", event.0);
            assert!(cache.shared.at(Position::after(event)) <= held);
        }
        let told = numbers("kv");
        let found = [
            ("stored", cache.stored),
            ("removed", cache.removed),
            ("cleared", cache.clears),
            ("peak", cache.peak().1),
            ("end", held),
        ];
        for (key, value) in found {
            assert_eq!(value, number(&told, key), "{name}: {key}");
        }
        // The pool says how often it found a block; a request that found all it needed left no event.
        assert!(0 < cache.reused && cache.reused <= number(&told, "hits"), "{} re-used", cache.reused);
    }
}

#[test]
fn sequences_share_what_they_stand_behind() {
    let snapshot = log(&[
        "S 1,2,3", // the first sequence: three blocks
        "S 4 3",   // grows by one
        "S 5,6 2", // a second one behind block 2: re-uses two
        "S 7 6",   // grows
        "S 9",     // a third, of its own
        "R 4,3",   // the first loses its tail
        "S 3 2",   // what was block 3 is computed once more, by a new sequence
        "R 99",    // older than the log
        "S 9",     // twice
        "C",
    ]);
    let memory = &snapshot.devices.as_slice()[0];
    let KvCompared { paged, contiguous } = compared(memory);
    let lengths: Vec<(u32, u32)> = paged.sequences.iter().map(|run| (run.shared, run.own)).collect();
    assert_eq!(lengths, [(0, 4), (2, 3), (0, 1), (2, 1), (0, 1)]);
    assert_eq!(paged.sequences.iter().map(|run| run.root).collect::<Vec<_>>(), [0, 0, 2, 0, 4]);
    assert_eq!((paged.stored, paged.removed, paged.cleared, paged.clears, paged.older), (10, 2, 8, 1, 1));
    assert_eq!((paged.reused, paged.again, paged.twice, paged.ever_shared), (4, 1, 1, 2));
    // The block that is older than the log is there until it goes.
    assert_eq!(paged.held.peak().1, 1 + 8);
    assert_eq!((paged.held.at(memory.end()), paged.shared.peak().1), (0, 2));
    assert_eq!((paged.block_tokens, paged.empty_tokens.peak().1, paged.tokens), (4, 0, 40));
    // In the order of the tree: the first, what stands behind it, then the others.
    assert_eq!(paged.rows, [0, 1, 2, 3, 4, 5, 6, 8, 7, 9]);
    // Buffers: 4, 2+3, 1, 2+1 and 1; the first goes when blocks 1 and 2 do, at the clearing.
    assert_eq!((contiguous.reserved.peak().1, contiguous.end.peak().1), (14, 14));
    assert_eq!(contiguous.written.peak().1, 14);
    assert_eq!((contiguous.end.at(memory.end()), contiguous.reserved.at(memory.end())), (0, 0));
    let steps: Vec<KvDeed> = memory.kv.as_ref().expect("a cache").steps.iter().map(|step| step.deed).collect();
    assert_eq!(steps.iter().filter(|deed| **deed == KvDeed::Cleared).count(), 1);
}

#[test]
fn last_pages_that_are_not_full_are_counted() {
    let line = r#"{"ts":1,"events":[{"type":"BlockStored","block_hashes":["a","b"],"token_ids":[1,2,3,4,5],"block_size":4}]}"#;
    let snapshot = read(line.as_bytes()).expect("opens");
    let cache = compared(&snapshot.devices.as_slice()[0]).paged;
    assert_eq!((cache.tokens, cache.empty_tokens.peak().1), (5, 3));
    let snapshot = read(line.replace("[1,2,3,4,5]", "[]").as_bytes()).expect("opens");
    let cache = compared(&snapshot.devices.as_slice()[0]).paged;
    assert_eq!((cache.tokens, cache.empty_tokens.peak().1), (0, 0), "no tokens named: nothing is known");
}

#[test]
fn ranks_and_tiers_are_devices_of_their_own() {
    let stored = |hash: u32, medium: &str| format!(r#"["BlockStored",[{hash}],null,[1],1,null,"{medium}"]"#);
    let text = format!(
        "[1.0,[{},{}],0]\n[2.0,[{}],1]\n[3.0,[[\"AllBlocksCleared\"]],0]\n",
        stored(1, "GPU"),
        stored(1, "CPU"),
        stored(2, "GPU")
    );
    let snapshot = read(text.as_bytes()).expect("opens");
    let titles: Vec<(i32, String, u64)> = snapshot
        .devices
        .as_slice()
        .iter()
        .map(|memory| (memory.ordinal, memory.title(), compared(memory).paged.held.at(memory.end())))
        .collect();
    let expected = [(0, "KV cache, rank 0", 0), (1, "KV cache, rank 1", 1), (-2, "KV cache on CPU, rank 0", 0)];
    assert_eq!(titles, expected.map(|(ordinal, title, held)| (ordinal, title.to_owned(), held)));
}

#[test]
fn bytes_are_blocks_times_what_the_user_says() {
    use fragscope::format::{Told, open_told};
    let path = folder().join("kv_array.jsonl.gz");
    let plain = compared(&file("kv_array.jsonl.gz").devices.as_slice()[0]);
    let told = Told { block_bytes: Some(3 << 20) };
    let snapshot = open_told(&path, told, &Progress::new()).expect("opens");
    let sized = compared(&snapshot.devices.as_slice()[0]);
    for (a, b) in [
        (plain.paged.peak().1, sized.paged.peak().1),
        (plain.paged.shared.peak().1, sized.paged.shared.peak().1),
        (plain.contiguous.end.peak().1, sized.contiguous.end.peak().1),
        (plain.contiguous.written.peak().1, sized.contiguous.written.peak().1),
    ] {
        assert_eq!(a * (3 << 20), b);
    }
    assert_eq!(plain.saved() * (3 << 20), sized.saved());
    assert!(0 < plain.saved(), "shared prefixes are saved");
    let at = snapshot.devices.as_slice()[0].end();
    let held = kv::rows(&sized, at).into_iter().find(|row| row.name == "held at most").expect("named");
    assert!(held.text.starts_with("480.00 MiB (160 blocks)"), "{}", held.text);
}

#[test]
fn the_view_is_there_for_caches_alone_and_says_the_same_figures() {
    let window = with_sample("training");
    assert!(window.query_all_by_label("KV cache").next().is_none(), "a snapshot is no cache");
    drop(window);
    let mut window = sized_window([1440.0, 900.0], vec![folder().join("kv_map.msgpack.gz")]);
    rest(&mut window);
    assert!(window.query_all_by_label("KV cache").next().is_some());
    let snapshot = file("kv_map.msgpack.gz");
    let compared = compared(&snapshot.devices.as_slice()[0]);
    assert!(window.query_all_by_label_contains(&kv::saving(&compared)).next().is_some());
    for theme in [Theme::Light, Theme::Dark] {
        window.state().session.send(Command::SetTheme(theme));
        for page in ["Block table", "Figures", "Over time"] {
            window.get_by_label(page).click();
            rest(&mut window);
            window.render().expect("painted");
            if page == "Figures" {
                for row in kv::rows(&compared, Position::START).iter().skip(1) {
                    assert!(window.query_all_by_label(&row.text).next().is_some(), "{}: {}", row.name, row.text);
                }
            }
        }
    }
    assert!(window.state().session.notes().is_empty(), "{:?}", window.state().session.notes());
}
