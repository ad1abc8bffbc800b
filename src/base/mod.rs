//! Floor 1: tools that know no domain.
//!
//! Nothing here names a segment, opens a file or draws. Everything above may use it.

pub mod bytes;
pub mod id;
pub mod interner;
pub mod progress;
pub mod range_map;

pub use bytes::{Bytes, HeapSize, counted, grouped};
pub use id::Column;
pub use interner::{StringId, StringTable};
pub use progress::{Cancelled, Progress};
pub use range_map::RangeMap;
