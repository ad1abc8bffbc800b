//! Marks a program put on the time axis: `external_annotations`.
//!
//! The file holds START and END marks of all threads mixed; here they are spans. A mark without its
//! partner stays, open at that side: ends before the recording and starts after its end are normal.

use crate::base::StringId;

/// Which end of a span a recorded mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkStage {
    /// The span begins.
    Start,
    /// The span ends.
    End,
}

/// One recorded mark, as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotationMark {
    /// The span's name.
    pub name: StringId,
    /// Begin or end.
    pub stage: MarkStage,
    /// Device ordinal of the recording thread.
    pub device: i32,
    /// Unix time in µs, where recorded.
    pub time_us: Option<i64>,
}

/// A named span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The span's name.
    pub name: StringId,
    /// Begin in Unix µs; none if it began before the recording.
    pub start_us: Option<i64>,
    /// End in Unix µs; none if it ended after the recording.
    pub end_us: Option<i64>,
}
