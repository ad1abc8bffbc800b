//! Floor 5: answers become drawings, in plain numbers. No toolkit, no files, no state.
