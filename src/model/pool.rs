//! Pools and streams: the two walls no free block crosses.
//!
//! A free block serves only requests of its own pool, size class and stream
//! (`get_free_block` in PyTorch's `CUDACachingAllocator.cpp`).

use crate::base::Column;
use rustc_hash::FxHashMap;

crate::define_id! {
    /// A pool id of the snapshot, by row in [`Pools`].
    PoolId
}
crate::define_id! {
    /// A stream of the snapshot, by row in [`Streams`].
    StreamId
}

impl PoolId {
    /// The default pool, `(0, 0)`: always row 0.
    pub const DEFAULT: PoolId = PoolId(0);
}
impl StreamId {
    /// The legacy default stream, handle 0: always row 0.
    pub const DEFAULT: StreamId = StreamId(0);
}

/// Which of a pool's two halves a segment belongs to: requests up to 1 MiB are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// Requests up to 1 MiB, segments of 2 MiB.
    Small,
    /// Everything larger.
    Large,
}

impl SizeClass {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            SizeClass::Small => "small",
            SizeClass::Large => "large",
        }
    }
}

/// The pool ids of a snapshot, each once. `(0, 0)` is the default pool, `(n, 0)`/`(0, n)` are private.
#[derive(Clone, Debug)]
pub struct Pools {
    ids: Column<PoolId, (i64, i64)>,
    rows: FxHashMap<(i64, i64), PoolId>,
}

impl Default for Pools {
    fn default() -> Self {
        let mut pools = Self { ids: Column::new(), rows: FxHashMap::default() };
        pools.intern((0, 0));
        pools
    }
}

impl Pools {
    /// The row of a pool id, new or known.
    pub fn intern(&mut self, id: (i64, i64)) -> PoolId {
        *self.rows.entry(id).or_insert_with(|| self.ids.push(id))
    }
    /// The pair PyTorch names a pool with.
    pub fn pair(&self, pool: PoolId) -> (i64, i64) {
        self.ids.get(pool).copied().unwrap_or((0, 0))
    }
    /// Number of distinct pools, the default one included.
    pub fn len(&self) -> usize {
        self.ids.len()
    }
    /// Never true: the default pool is always there.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// The raw stream handles of a snapshot, each once, in order of appearance; row 0 is handle 0.
#[derive(Clone, Debug)]
pub struct Streams {
    handles: Column<StreamId, i64>,
    rows: FxHashMap<i64, StreamId>,
}

impl Default for Streams {
    fn default() -> Self {
        let mut streams = Self { handles: Column::new(), rows: FxHashMap::default() };
        streams.intern(0);
        streams
    }
}

impl Streams {
    /// The row of a raw handle, new or known.
    pub fn intern(&mut self, handle: i64) -> StreamId {
        *self.rows.entry(handle).or_insert_with(|| self.handles.push(handle))
    }
    /// The raw handle, as in the file.
    pub fn handle(&self, stream: StreamId) -> i64 {
        self.handles.get(stream).copied().unwrap_or(0)
    }
    /// Number of distinct streams, the default one included.
    pub fn len(&self) -> usize {
        self.handles.len()
    }
    /// Never true: the default stream is always there.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }
}
