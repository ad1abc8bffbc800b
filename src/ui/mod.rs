//! Floor 9: the window. With `paint` the only folder that knows egui.
//!
//! [`run`] opens it. A frame is: tick the session ([`app`]), show the shell ([`shell`]), which shows the
//! [`views`] as tiles. Views read the session and send commands; nothing here starts a thread or opens a file.

pub mod app;
pub mod frame_times;
pub mod keys;
pub mod off_screen;
pub mod panels;
mod run;
pub mod shell;
pub mod theme;
pub mod tiles;
pub mod views;
pub mod widgets;

pub use run::{Opening, UiError, run, without_display};
