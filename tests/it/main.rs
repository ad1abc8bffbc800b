//! All integration tests in one binary, so that the window's libraries link once; one module a boundary.

mod architecture;
mod charts;
mod cli;
mod engine;
mod naive;
mod samples;
mod truth;
