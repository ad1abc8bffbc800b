//! All integration tests in one binary, so that the window's libraries link once; one module a boundary.

mod architecture;
mod charts;
mod cli;
mod comfort;
mod display;
mod engine;
mod find;
mod fit;
mod flame;
mod format;
mod gate;
mod hostile;
mod memory_summary;
mod moments;
mod naive;
mod picture;
mod picture_views;
mod report;
mod samples;
mod sets;
mod simulator;
mod span_views;
mod tables;
mod truth;
mod why;
mod window;
