//! Floor 4: pure questions. Same snapshot, same parameters, same answer, on any number of threads.
//!
//! To add a question: one file with its [`query::Query`], one `pub mod` line here.
//! A query does no IO, reads no clock, knows no colour, and cannot fail; it can only be cancelled.

pub mod block_sums;
pub mod block_table;
pub mod capacity;
pub mod categories;
pub mod curve;
pub mod diagnosis;
pub mod find;
mod find_match;
pub mod find_words;
pub mod flame;
pub mod flame_search;
pub mod fragmentation;
pub mod framework;
pub mod gaps;
pub mod held;
pub mod lifetime;
pub mod live_by_stack;
pub mod memory_summary;
pub mod module_name;
pub mod moment;
pub mod open_spans;
pub mod outside_spans;
pub mod pins;
pub mod pressure;
pub mod query;
pub mod rates;
pub mod releases;
pub mod segment_cost;
pub mod spans;
pub mod state;
pub mod summary;
pub mod timeline;
pub mod which;

pub use block_table::{BlockLife, BlockOrder, BlockRow, BlockTable, BlockTableParams, GroupBy, GroupKey, pool_of};
pub use capacity::Capacity;
pub use categories::{Categories, CategoryId};
pub use curve::{Curve, Extremes};
pub use find::{Found, FoundHere, FoundKey, FoundStep};
pub use find_words::{FIND_HELP, FindTerms};
pub use flame::{FlameDirection, FlameLabel, FlameNode, FlameNodeId, FlameOf, FlameParams, FlameTree, LiveCounter, WindowSum};
pub use flame_search::{FlameMatch, FlameMatches};
pub use fragmentation::{Fragmentation, Group, GroupCurves};
pub use framework::FrameworkFrames;
pub use held::Held;
pub use lifetime::{Churn, LeakParams, LeakSuspects, LifetimeParams, Lifetimes, Slices, StackChurn, StackGrowth, Sum};
pub use live_by_stack::{LiveByStack, StackShare};
pub use memory_summary::{MemorySummary, Metric, StatFigures, StatScope, SummaryReach};
pub use moment::{Moment, NoSuchMoment};
pub use outside_spans::{NoSpans, outside_spans};
pub use pins::{Pin, Pins, SegmentPins};
pub use pressure::{Pressure, PressureRelease, Regained, ReleaseCause};
pub use query::{Asked, Query, Subject};
pub use rates::{RateParams, Rates};
pub use releases::{Release, ReleaseReason, Releases};
pub use segment_cost::SegmentCost;
pub use spans::{Span, SpanFigures, SpanGroup, SpanKind, SpanSums, Spans, Spread};
pub use state::StateAt;
pub use summary::{Counters, OomEvent, Peak, Summary};
pub use timeline::UsageTimeline;
pub use which::{BlockSum, SetSums, Which};
