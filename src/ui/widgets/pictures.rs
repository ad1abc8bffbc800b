//! Finished rasters on the graphics card: the last picture stands, moved and scaled, until a fresh one is there.
//!
//! Always: a picture is uploaded once; what is wanted is asked of the session every frame.

use crate::chart::{Clock, PlacedRaster, RasterSlot};
use crate::paint;
use crate::raster::RasterView;
use crate::session::pictures::{Look, Picture, PictureOf};
use crate::ui::views::view::Cx;
use egui::{TextureHandle, TextureId, TextureOptions, Ui};
use std::collections::BTreeMap;

/// The pictures of one view.
pub struct Pictures {
    of: PictureOf,
    /// Uploaded pictures with their serials.
    textures: BTreeMap<RasterSlot, (u64, TextureHandle)>,
}

/// The copy begins without textures: they belong to the one egui context that handed them out.
impl Clone for Pictures {
    fn clone(&self) -> Self {
        Pictures::of(self.of)
    }
}

impl Pictures {
    /// None yet.
    pub fn of(of: PictureOf) -> Pictures {
        Pictures { of, textures: BTreeMap::new() }
    }
    /// The finished pictures, uploaded: the whole trace below, the window above it. `wanted` says what to raster for a
    /// slot; none: that slot is not needed now.
    pub fn place(
        &mut self,
        ui: &Ui,
        cx: &Cx<'_>,
        clock: &Clock,
        wanted: impl Fn(RasterSlot) -> Option<(RasterView, PlacedRaster)>,
    ) -> Vec<PlacedRaster> {
        let mut placed = Vec::new();
        let find = cx.session.found().map(|found| std::sync::Arc::clone(&found.terms));
        for slot in [RasterSlot::Whole, RasterSlot::Window] {
            let Some((view, to)) = wanted(slot) else {
                self.textures.remove(&slot);
                continue;
            };
            let look = Look {
                placed: PlacedRaster { slot, ..to },
                size_px: (view.columns.len().saturating_sub(1), view.height),
                axis: clock.axis(),
                colour_by: cx.session.workspace().colour_by,
                theme: cx.tokens.palette.theme,
                find: find.clone(),
            };
            if look.size_px.0 == 0 || look.size_px.1 == 0 {
                continue;
            }
            match cx.session.picture(self.of, &look, || view) {
                Some(picture) => {
                    self.upload(ui, slot, &picture);
                    placed.push(picture.look.placed.clone());
                }
                None => drop(self.textures.remove(&slot)),
            }
        }
        placed
    }
    /// The texture of a slot.
    pub fn texture(&self, slot: RasterSlot) -> Option<TextureId> {
        self.textures.get(&slot).map(|(_, texture)| texture.id())
    }

    fn upload(&mut self, ui: &Ui, slot: RasterSlot, picture: &Picture) {
        if self.textures.get(&slot).is_some_and(|(serial, _)| *serial == picture.serial) {
            return;
        }
        let image = paint::texture_image(&picture.raster);
        match self.textures.get_mut(&slot) {
            Some((serial, texture)) => {
                texture.set(image, TextureOptions::NEAREST);
                *serial = picture.serial;
            }
            None => {
                let name = format!("{:?} {slot:?}", self.of);
                let texture = ui.ctx().load_texture(name, image, TextureOptions::NEAREST);
                self.textures.insert(slot, (picture.serial, texture));
            }
        }
    }
}

/// Pixels a point of a picture so large, in points: the screen's, unless the card takes no texture of that size.
pub fn density(ui: &Ui, size_pt: [f32; 2]) -> f32 {
    let side = ui.input(|input| input.max_texture_side) as f32;
    size_pt.iter().fold(ui.ctx().pixels_per_point(), |density, length| density.min(side / length.max(1.0)))
}
