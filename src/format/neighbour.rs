//! What the readers of other tools' files share: places for blocks that have none, and the words for what such a file
//! never tells.
//!
//! Always: a made-up place is used once; what a file does not hold is said, and no number stands for it.

use crate::format::error::FormatError;
use crate::model::{Action, EventIdx, Frame, Gap, Missing, StackId, StackTable, StreamId, TraceEntry, WarningKind, Warnings};
use crate::replay::builder::DeviceRecord;

/// The ordinal of memory of the host that a GPU's allocator does not serve.
pub(crate) const HOST: i32 = -2;
/// Places in a row, for blocks whose addresses nothing tells.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    next: u64,
}

impl Default for Places {
    fn default() -> Self {
        // Page 0 stays free, as everywhere.
        Self { next: 1 << 12 }
    }
}

impl Places {
    /// A place for so many bytes that nothing was at before; none where there is no room left.
    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        let address = self.next;
        self.next = address.checked_add(size)?;
        Some(address)
    }
}

/// An event of a device whose file states block sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub action: Action,
    pub address: u64,
    pub size: u64,
    pub stream: StreamId,
    pub time_us: Option<i64>,
    pub stack: StackId,
}

/// Appends an event; what its file calls the size is the block's size and the request at once.
pub(crate) fn push(device: &mut DeviceRecord, event: Plain) -> EventIdx {
    let Plain { action, address, size, stream, time_us, stack } = event;
    device.block_sizes.push(if matches!(action, Action::Alloc | Action::FreeRequested) { size } else { 0 });
    let (pool, compile_context, user_metadata) = (None, None, None);
    device.trace.push(TraceEntry { action, address, size, stream, time_us, stack, pool, compile_context, user_metadata })
}

/// The stack of one frame that is a name and nothing else.
pub(crate) fn named_stack(stacks: &mut StackTable, name: &str, of: &str) -> StackId {
    let frame = Frame { name: stacks.strings.intern(name), filename: stacks.strings.intern(of), line: 0 };
    let frame = stacks.intern_frame(frame);
    stacks.intern(&[frame])
}

/// What a kind of file never tells, in a sentence.
pub(crate) fn untold(missing: Missing, sentence: &str) -> Gap {
    Gap { missing, why: Gap::BY_NATURE.to_owned(), sentence: sentence.to_owned() }
}

/// Notes that a file ends early.
pub(crate) fn cut(warnings: &mut Warnings, offset: u64, place: &str) {
    warnings.push(WarningKind::Truncated, || format!("at byte {offset}, {place}"));
}

/// The error for a file that is of a kind but holds nothing of use.
pub(crate) fn useless(name: &str, kind: &str, why: String) -> FormatError {
    FormatError::Neighbour { name: name.to_owned(), kind: kind.to_owned(), why }
}
