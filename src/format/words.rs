//! The words of the format: keys of dicts and names of actions, found by number instead of by text.

use crate::base::{StringId, StringTable};
use crate::model::Action;

macro_rules! keys {
    ($($variant:ident = $text:literal,)*) => {
        /// A key this reader knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Key { $($variant,)* /// Any other key.
            Unknown }
        const KEYS: &[(Key, &str)] = &[$((Key::$variant, $text),)*];
    };
}

keys! {
    Action = "action",
    Addr = "addr",
    DeviceFree = "device_free",
    Size = "size",
    Stream = "stream",
    TimeUs = "time_us",
    Frames = "frames",
    CppFrames = "cpp_frames",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    InternalMetadata = "internal_metadata",
    PoolId = "pool_id",
    ForwardFrames = "forward_frames",
    Category = "category",
    Name = "name",
    Filename = "filename",
    Line = "line",
    FxNodeOp = "fx_node_op",
    FxNodeName = "fx_node_name",
    FxNodeTarget = "fx_node_target",
    FxNodeInfo = "fx_node_info",
    FxOriginalTrace = "fx_original_trace",
    Device = "device",
    Address = "address",
    TotalSize = "total_size",
    AllocatedSize = "allocated_size",
    ActiveSize = "active_size",
    RequestedSize = "requested_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    State = "state",
    History = "history",
    RealSize = "real_size",
    Stage = "stage",
    Segments = "segments",
    DeviceTraces = "device_traces",
    AllocatorSettings = "allocator_settings",
    ExternalAnnotations = "external_annotations",
    HostSegments = "host_segments",
    HostTraces = "host_traces",
    StartSegments = "start_segments",
    AllocConf = "PYTORCH_CUDA_ALLOC_CONF",
    AllocConfHip = "PYTORCH_HIP_ALLOC_CONF",
    AllocConfPlain = "PYTORCH_ALLOC_CONF",
    MaxSplitSize = "max_split_size",
    GarbageCollectionThreshold = "garbage_collection_threshold",
    ExpandableSegments = "expandable_segments",
    RoundupPower2Divisions = "roundup_power2_divisions",
    StreamReuse = "graph_capture_record_stream_reuse",
    MaxRoundThreshold = "max_round_threshold",
}

/// The known words by their number in one string table.
#[derive(Debug)]
pub(crate) struct Words {
    keys: Vec<Key>,
    actions: Vec<Option<Action>>,
    /// The number of the empty text.
    pub(crate) empty: StringId,
    /// The number of `N/A`, which stands for no compile context.
    pub(crate) not_available: StringId,
}

impl Words {
    /// Enters all known words into a table.
    pub(crate) fn new(strings: &mut StringTable) -> Self {
        let mut words =
            Self { keys: Vec::new(), actions: Vec::new(), empty: strings.intern(""), not_available: strings.intern("N/A") };
        for (key, text) in KEYS {
            put(&mut words.keys, strings.intern(text), *key, Key::Unknown);
        }
        for action in Action::KNOWN {
            put(&mut words.actions, strings.intern(action.name()), Some(action), None);
        }
        words
    }
    /// What a text means as a key.
    #[inline]
    pub(crate) fn key(&self, text: StringId) -> Key {
        self.keys.get(text.0 as usize).copied().unwrap_or(Key::Unknown)
    }
    /// What a text means as an action.
    #[inline]
    pub(crate) fn action(&self, text: StringId) -> Option<Action> {
        self.actions.get(text.0 as usize).copied().flatten()
    }
}

fn put<T: Clone>(column: &mut Vec<T>, id: StringId, value: T, empty: T) {
    let row = id.0 as usize;
    if column.len() <= row {
        column.resize(row + 1, empty);
    }
    column[row] = value;
}
