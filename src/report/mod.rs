//! Floor 7: a snapshot on paper, and the JSON of the command line.

pub mod json;
