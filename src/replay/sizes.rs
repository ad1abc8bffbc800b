//! Block sizes.
