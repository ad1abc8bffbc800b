//! Floor 5: what if? A recording's requests, served again by a model of the allocator under other settings.
//!
//! [`request`] takes from a recording what the program asked for; [`policy`] is what serves it; [`caching`] and [`expandable`] are PyTorch's caching
//! allocator, over a [`device::Driver`]; [`scenario`] serves the requests under settings and on a card; [`fidelity`] says
//! how far the recorded settings reproduce the recording (`layout.rs` puts it back where they do not); [`refusals`] says what
//! the recording tells of the card;
//! [`record`] makes a snapshot of a run, from what the allocator tells its [`journal`];
//! [`sweep`] tries all sensible settings at once; [`workload`] changes the job itself;
//! [`conf`] reads and writes the settings string. No part that decides a placement sees a recorded address.

pub mod caching;
pub mod card;
pub mod conf;
pub mod contiguous;
pub mod device;
mod edit;
mod expandable;
pub mod fidelity;
pub mod journal;
mod layers;
pub mod layout;
pub mod over_time;
pub mod paged;
pub mod placements;
pub mod policy;
pub mod record;
pub mod refusals;
mod releasing;
pub mod request;
pub mod scenario;
pub mod stream_ordered;
pub mod sweep;
mod whole_samples;
pub mod workload;

pub use card::{SmallestCard, smallest_card};
pub use device::Placement;
pub use fidelity::{Fidelity, Recorded};
pub use layout::Layout;
pub use over_time::{ReservedOverTime, simulate_over_time};
pub use placements::{FigureRange, placement_range};
pub use policy::{POLICIES, Policy, PolicyInfo, PolicyKind};
pub use record::record;
pub use refusals::{CapacityTold, capacity_told};
pub use request::{Request, RequestStream, Wanted};
pub use scenario::{AtFailure, Counters, EmptyCaches, Failure, Outcome, Rules, Scenario, Start, TieBreak, simulate};
pub use sweep::{SweepRow, sweep};
pub use workload::{Bound, Change, Changed, Chosen, change};
