//! Floor 6: drawings become egui shapes, and egui shapes become pixels without a GPU.
//!
//! [`screen::paint`] is the one painter of drawings: the window calls it on its canvas, the report calls it
//! off-screen through [`offscreen`], so both show the same. Nothing here decides where anything lies.

pub mod offscreen;
pub mod screen;
pub mod series;

pub use offscreen::{Canvas, Offscreen, picture, render};
pub use screen::{colour, paint, texture_image};
pub use series::{SeriesResponse, SeriesView};
