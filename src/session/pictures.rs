//! Rasters of the usage picture, made by jobs on the rasters' own threads.
//!
//! A view says every frame what it wants to see and gets the last finished picture. At most one job a
//! [`RasterSlot`] is under way; when it is done, the newest wanted picture is begun. So a picture is
//! delivered even while the view moves on, and the last one is exact.

use crate::analysis::UsageTimeline;
use crate::chart::{ColourBy, Palette, PlacedRaster, RasterSlot, Theme, TimeAxis};
use crate::model::DeviceId;
use crate::raster::{Raster, RasterView, StackRaster};
use crate::session::document::DocumentId;
use crate::session::jobs::{JobId, JobSpec, Lane};
use crate::session::lookups::InksOf;
use crate::session::{Answer, Message, Session};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PictureKey {
    /// Of which document.
    pub document: DocumentId,
    /// Of which of its devices.
    pub device: DeviceId,
    /// The window or the whole.
    pub slot: RasterSlot,
}

/// What a picture shows apart from the data: two equal looks of one key are the same picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Where it goes.
    pub placed: PlacedRaster,
    /// Pixel columns and rows.
    pub size_px: (usize, usize),
    /// The horizontal axis.
    pub axis: TimeAxis,
    /// What colours mean.
    pub colour_by: ColourBy,
    /// Light or dark.
    pub theme: Theme,
}

/// A finished picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What it shows.
    pub look: Look,
    /// Its pixels.
    pub raster: Raster,
    /// Grows with each picture of the session: equal serials, equal pixels.
    pub serial: u64,
}

/// The pictures of a session.
#[derive(Default)]
pub(super) struct Pictures {
    places: BTreeMap<PictureKey, PicturePlace>,
    serial: u64,
}

#[derive(Default)]
struct PicturePlace {
    shown: Option<Arc<Picture>>,
    job: Option<(JobId, Look)>,
    /// What could not be painted, so that it is not tried again every frame.
    failed: Option<Look>,
}

impl Pictures {
    pub(super) fn arrive(&mut self, key: PictureKey, look: Look, raster: Raster) {
        self.serial += 1;
        let picture = Picture { look, raster, serial: self.serial };
        self.places.entry(key).or_default().shown = Some(Arc::new(picture));
    }
    pub(super) fn job_ended(&mut self, job: JobId, failed: bool) {
        for place in self.places.values_mut() {
            if let Some((_, look)) = place.job.take_if(|(running, _)| *running == job) {
                place.failed = failed.then_some(look);
            }
        }
    }
    pub(super) fn forget(&mut self, document: DocumentId) {
        self.places.retain(|key, _| key.document != document);
    }
}

impl Session {
    /// The last finished picture of the device in front on the current axis, if any; what is wanted is begun
    /// unless it is there. `view` is only called when a job is started.
    pub fn picture(&self, look: &Look, view: impl FnOnce() -> RasterView) -> Option<Arc<Picture>> {
        let (document, device, _) = self.front()?;
        let key = PictureKey { document: document.id, device, slot: look.placed.slot };
        let mut pictures = self.pictures.borrow_mut();
        let place = pictures.places.entry(key).or_default();
        let shown = place.shown.clone().filter(|picture| picture.look.axis == look.axis && picture.look.theme == look.theme);
        if place.job.is_some()
            || place.failed.as_ref() == Some(look)
            || shown.as_ref().is_some_and(|picture| picture.look == *look)
        {
            return shown;
        }
        let (Answer::Ready(usage), Answer::Ready(inks)) = (self.ask::<UsageTimeline>(()), self.ask::<InksOf>(look.colour_by))
        else {
            return shown;
        };
        let Some(replays) = document.replays.clone() else { return shown };
        let (snapshot, view, wanted) = (Arc::clone(&document.snapshot), view(), look.clone());
        let look = look.clone();
        // No slot: a picture under way is never cancelled by the next one, or a moving view would stay blank.
        let spec = JobSpec { title: "painting".into(), slot: None, lane: Lane::Shared, listed: false };
        let status = self.jobs.start(spec, move |cx| {
            let (Some(memory), Some(replay)) = (snapshot.devices.get(device), replays.get(device.0 as usize)) else {
                return Ok(());
            };
            let colours = inks.inks.table(Palette { theme: look.theme });
            let raster = StackRaster::new(memory, replay, &usage).raster(&view, &colours, &cx.progress)?;
            cx.send(Message::Picture(key, look, raster));
            Ok(())
        });
        place.job = Some((status.id, wanted));
        shown
    }
}
