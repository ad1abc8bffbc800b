//! All integration tests in one binary, so that the window's libraries link once; one module a boundary.

mod architecture;
mod charts;
mod cli;
mod display;
mod engine;
mod flame;
mod format;
mod naive;
mod picture;
mod picture_views;
mod report;
mod samples;
mod tables;
mod truth;
mod window;
