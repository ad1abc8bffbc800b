//! Floor 4: pure questions. Same snapshot, same parameters, same answer, on any number of threads.
//!
//! To add a question: one file with its [`query::Query`], one `pub mod` line here.
//! A query does no IO, reads no clock, knows no colour, and cannot fail; it can only be cancelled.

pub mod curve;
pub mod query;
pub mod state;
pub mod timeline;

pub use curve::Curve;
pub use query::{Asked, Query, Subject};
pub use state::StateAt;
pub use timeline::UsageTimeline;
