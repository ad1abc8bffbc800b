//! The integration tests, one binary: egui links once. A line a boundary.

mod engine;
mod picture;
