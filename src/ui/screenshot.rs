//! A part of the window as pixels, as it was painted.

use crate::session::Command;
use egui::{ColorImage, Context, Id, Rect};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Done(Arc<Mutex<Option<Command>>>);

fn slot(context: &Context) -> Done {
    context.data_mut(|data| data.get_temp_mut_or_default::<Done>(Id::unique("screenshot")).clone())
}

/// Asks for the pixels inside `rect` of this frame, to be saved at `path`.
pub fn request(context: &Context, path: PathBuf, rect: Rect) {
    let (done, waker, scale) = (slot(context), context.clone(), context.pixels_per_point());
    context.request_screenshot(move |image: Arc<ColorImage>| {
        if let Ok(mut done) = done.0.lock() {
            *done = Some(cut(&image, rect, scale, path));
        }
        waker.request_repaint();
    });
}

/// The command that saves the last picture, once it is there.
pub fn finished(context: &Context) -> Option<Command> {
    slot(context).0.lock().ok()?.take()
}

fn cut(image: &ColorImage, rect: Rect, scale: f32, path: PathBuf) -> Command {
    let [width, height] = image.size;
    let pixel = |at: f32, limit: usize| ((at * scale).round().max(0.0) as usize).min(limit);
    let (x0, x1) = (pixel(rect.min.x, width), pixel(rect.max.x, width));
    let (y0, y1) = (pixel(rect.min.y, height), pixel(rect.max.y, height));
    let rgb: Vec<u8> = (y0..y1)
        .flat_map(|y| &image.pixels[y * width + x0..y * width + x1])
        .flat_map(|colour| [colour.r(), colour.g(), colour.b()])
        .collect();
    Command::SavePicture { path, width: (x1 - x0) as u32, rgb: rgb.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_asked_part_is_saved() {
        let pixels = (0..6u8).map(egui::Color32::from_gray).collect();
        let image = ColorImage { size: [3, 2], pixels, source_size: egui::vec2(3.0, 2.0) };
        for (rect, width, greys) in [
            ([0.0, 0.0, 3.0, 2.0], 3, &[0u8, 1, 2, 3, 4, 5][..]),
            ([1.0, 1.0, 9.0, 9.0], 2, &[4, 5]),
            ([-5.0, 0.0, 1.0, 1.0], 1, &[0]),
        ] {
            let rect = Rect::from_min_max(egui::pos2(rect[0], rect[1]), egui::pos2(rect[2], rect[3]));
            let rgb: Vec<u8> = greys.iter().flat_map(|g| [*g; 3]).collect();
            let path = PathBuf::from("x.png");
            assert_eq!(cut(&image, rect, 1.0, path.clone()), Command::SavePicture { path, width, rgb: rgb.into() });
        }
    }
}
