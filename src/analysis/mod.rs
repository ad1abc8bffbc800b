//! Floor 4: pure questions. Same snapshot, same parameters, same answer, on any number of threads.
//!
//! To add a question: one file with its [`query::Query`], one `pub mod` line here.
//! A query does no IO, reads no clock, knows no colour, and cannot fail; it can only be cancelled.

pub mod capacity;
pub mod curve;
pub mod diagnosis;
pub mod flame;
pub mod flame_search;
pub mod fragmentation;
pub mod framework;
pub mod gaps;
pub mod lifetime;
pub mod live_by_stack;
pub mod live_table;
pub mod moment;
pub mod pins;
pub mod query;
pub mod state;
pub mod summary;
pub mod timeline;

pub use curve::{Curve, Extremes};
pub use flame::{FlameDirection, FlameLabel, FlameNode, FlameNodeId, FlameOf, FlameParams, FlameTree, LiveCounter, WindowSum};
pub use flame_search::{FlameMatch, FlameMatches};
pub use fragmentation::{Fragmentation, PoolCurves};
pub use framework::FrameworkFrames;
pub use lifetime::{Churn, LeakParams, LeakSuspects, LifetimeParams, Lifetimes, Slices, StackChurn, StackGrowth, Sum};
pub use live_by_stack::{LiveByStack, StackShare};
pub use live_table::{LiveBy, LiveKey, LiveOrder, LiveRow, LiveSum, LiveTable, LiveTableParams};
pub use moment::{Moment, NoSuchMoment};
pub use pins::{Pin, Pins, SegmentPins};
pub use query::{Asked, Query, Subject};
pub use state::StateAt;
pub use summary::{Counters, OomEvent, Peak, Summary};
pub use timeline::UsageTimeline;
