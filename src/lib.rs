#![doc = include_str!("map.md")]
#![warn(missing_docs)]

pub mod base;
pub mod model;

pub mod replay;

pub mod format;

pub mod simulator;

pub mod analysis;

pub mod capture;

pub mod raster;

pub mod chart;

pub mod paint;

pub mod report;

pub mod session;

pub mod ui;

pub mod cli;
