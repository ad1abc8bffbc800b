//! All integration tests in one binary, so that the window's libraries link once; one module a boundary.

mod architecture;
mod cli;
mod engine;
mod flame;
mod naive;
mod picture;
mod samples;
mod truth;
