//! Hides what a snapshot tells of its job: paths, names of files and functions, of spans and of notes.
//!
//! Always: the same text gets the same alias wherever it stands, so stacks that were equal stay equal; numbers,
//! addresses, times and PyTorch's own words stay. Nothing else of the file is left in what is written.

use crate::base::StringId;
use crate::base::id::Id as _;
use crate::model::{FrameId, Snapshot};

/// Keys of events and frames that are PyTorch's own.
const OWN_KEYS: &[&str] = &[
    "action",
    "forward_frames",
    "internal_metadata",
    "category",
    "fx_node_op",
    "fx_node_name",
    "fx_node_target",
    "fx_node_info",
    "fx_original_trace",
];
/// Settings whose value is PyTorch's own.
const OWN_SETTINGS: &[&str] = &[
    "pinned_num_register_threads",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "graph_capture_record_stream_reuse",
    "max_round_threshold",
    "max_cached_size",
    "trace_alloc_overflowed",
    "trace_alloc_max_entries",
];
/// Texts that tell nothing.
const BLANK: &[&str] = &["", "??", "N/A"];

/// The snapshot without its job's words.
#[must_use]
pub fn redacted(mut snapshot: Snapshot) -> Snapshot {
    let mut roles: Vec<Option<&'static str>> = vec![None; snapshot.stacks.strings.len()];
    let mut hide = |text: StringId, role: &'static str| {
        if let Some(known) = roles.get_mut(text.row()) {
            known.get_or_insert(role);
        }
    };
    for row in 0..snapshot.stacks.frame_count() {
        let frame = snapshot.stacks.frame(FrameId::of_row(row));
        hide(frame.name, "function");
        hide(frame.filename, "file");
    }
    for (_, _, value) in snapshot.stacks.all_extras() {
        hide(value, "text");
    }
    for memory in snapshot.devices.as_slice() {
        for span in &memory.annotations {
            hide(span.name, "span");
        }
        if memory.trace.has_notes() {
            for event in memory.trace.events() {
                memory.trace.notes(event).into_iter().flatten().for_each(|note| hide(note, "note"));
            }
        }
        memory.trace.extras.iter().for_each(|extra| hide(extra.value, "text"));
    }
    let strings = &snapshot.stacks.strings;
    let extras = snapshot.devices.as_slice().iter().flat_map(|memory| &memory.trace.extras);
    let keys: Vec<String> = extras.map(|extra| own_key(extra.key, strings.get(extra.key))).collect();
    snapshot.stacks.rename(
        |id, text| {
            let role = roles.get(id.row()).copied().flatten()?;
            (!BLANK.contains(&text)).then(|| format!("{role}_{}", id.0))
        },
        own_key,
    );
    for (extra, kept) in snapshot.devices.as_mut_slice().iter_mut().flat_map(|memory| &mut memory.trace.extras).zip(keys) {
        extra.key = snapshot.stacks.strings.intern(&kept);
    }
    for (row, (key, value)) in snapshot.settings.other.iter_mut().enumerate() {
        if !OWN_SETTINGS.contains(&key.as_str()) {
            *key = format!("key_{row}");
            *value = "hidden".to_owned();
        }
    }
    snapshot.settings.conf = own_conf(&snapshot.settings.conf);
    snapshot.origin.name = "redacted".to_owned();
    snapshot.job = crate::model::Job::default();
    snapshot.warnings = crate::model::Warnings::default();
    snapshot
}

fn own_key(key: StringId, text: &str) -> String {
    if OWN_KEYS.contains(&text) { text.to_owned() } else { format!("key_{}", key.0) }
}

/// The settings' text without what is no setting: every part must be a name and a plain value.
fn own_conf(conf: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:,.[]>-".contains(c);
    conf.chars().filter(|c| plain(*c)).collect()
}
