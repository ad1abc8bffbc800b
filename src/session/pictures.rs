//! Rasters of the pictures over time, made by jobs on the rasters' own threads.
//!
//! A view says every frame what it wants to see and gets the last finished picture. At most one job a
//! [`PictureKey`] is under way; when it is done, the newest wanted picture is begun. So a picture is
//! delivered even while the view moves on, and the last one is exact.

use crate::analysis::{FindTerms, UsageTimeline};
use crate::base::{Cancelled, Progress};
use crate::chart::address_time::GROUND;
use crate::chart::{ColourBy, Palette, PlacedRaster, RasterSlot, Theme, TimeAxis};
use crate::model::{DeviceId, DeviceMemory};
use crate::raster::{ColourTable, LivesIndex, Raster, RasterView, Spotlight, StackRaster};
use crate::replay::Replay;
use crate::session::document::DocumentId;
use crate::session::jobs::{JobId, JobSpec, Lane};
use crate::session::{Answer, Message, Session};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a picture is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PictureOf {
    /// Live allocations stacked over time.
    Usage,
    /// Where blocks lie, over time.
    Addresses,
}

/// Which picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PictureKey {
    /// Of which document.
    pub document: DocumentId,
    /// Of which of its devices.
    pub device: DeviceId,
    /// What it is of.
    pub of: PictureOf,
    /// The window or the whole.
    pub slot: RasterSlot,
    /// Whether it is asked for aside, for a saved picture.
    pub aside: bool,
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
    /// What stands out, if anything is searched for.
    pub find: Option<Arc<FindTerms>>,
}

/// A finished picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What it shows.
    pub look: Look,
    /// The document's state of growth that it is of.
    pub generation: u64,
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
    job: Option<(JobId, (u64, Look))>,
    /// What could not be painted, so that it is not tried again every frame.
    failed: Option<(u64, Look)>,
}

impl Pictures {
    pub(super) fn arrive(&mut self, key: PictureKey, generation: u64, look: Look, raster: Raster) {
        self.serial += 1;
        let picture = Picture { look, generation, raster, serial: self.serial };
        self.places.entry(key).or_default().shown = Some(Arc::new(picture));
    }
    pub(super) fn job_ended(&mut self, job: JobId, failed: bool) {
        for place in self.places.values_mut() {
            if let Some((_, look)) = place.job.take_if(|(running, _)| *running == job) {
                place.failed = failed.then_some(look);
            }
        }
    }
    pub(super) fn forget_aside(&mut self) {
        self.places.retain(|key, _| !key.aside);
    }
    /// Forgets all pictures: what their colours mean has changed.
    pub(super) fn start_anew(&mut self, cancel: impl Fn(JobId)) {
        for (job, _) in std::mem::take(&mut self.places).into_values().filter_map(|place| place.job) {
            cancel(job);
        }
    }
    pub(super) fn forget(&mut self, document: DocumentId) {
        self.places.retain(|key, _| key.document != document);
    }
}

impl Session {
    /// The last finished picture of the device in front on the current axis, if any; what is wanted is begun
    /// unless it is there. `view` is only called when a job is started.
    pub fn picture(&self, of: PictureOf, look: &Look, view: impl FnOnce() -> RasterView) -> Option<Arc<Picture>> {
        let (document, device, _) = self.front()?;
        let key = PictureKey { document: document.id, device, of, slot: look.placed.slot, aside: self.is_aside() };
        let mut pictures = self.pictures.borrow_mut();
        let place = pictures.places.entry(key).or_default();
        let shown = place.shown.clone().filter(|picture| picture.look.axis == look.axis && picture.look.theme == look.theme);
        let generation = document.generation;
        let is_there = shown.as_ref().is_some_and(|picture| picture.look == *look && picture.generation == generation);
        let has_failed = place.failed.as_ref().is_some_and(|(at, failed)| *at == generation && failed == look);
        if !has_failed && !is_there {
            self.note_pending();
        }
        if place.job.is_some() || has_failed || is_there {
            return shown;
        }
        let (Some(ground), Answer::Ready(inks)) = (self.ground_of(of), self.inks_of(look.colour_by)) else {
            return shown;
        };
        let Some(replays) = document.replays.clone() else { return shown };
        let found = self.found().filter(|found| look.find.as_ref() == Some(&found.terms));
        if look.find.is_some() && found.is_none() {
            return shown;
        }
        let (snapshot, view, wanted) = (Arc::clone(&document.snapshot), view(), look.clone());
        let look = look.clone();
        // No slot: a picture under way is never cancelled by the next one, or a moving view would stay blank.
        let spec = JobSpec { title: "painting".into(), slot: None, lane: Lane::Shared, listed: false };
        let status = self.jobs.start(spec, move |cx| {
            let (Some(memory), Some(replay)) = (snapshot.devices.get(device), replays.get(device.0 as usize)) else {
                return Ok(());
            };
            let palette = Palette { theme: look.theme };
            let [red, green, blue, _] = palette.rgba(GROUND);
            let spotlight = found.map(|found| Spotlight { found, ground: [red, green, blue] });
            let colours = ColourTable { spotlight, ..inks.inks.table(palette) };
            let raster = ground.raster((memory, replay), &view, &colours, look.theme, &cx.progress)?;
            cx.send(Message::Picture(key, generation, look, raster));
            Ok(())
        });
        place.job = Some((status.id, (generation, wanted)));
        shown
    }

    /// What a picture is painted from; none while that is on its way.
    fn ground_of(&self, of: PictureOf) -> Option<Ground> {
        match of {
            PictureOf::Usage => match self.ask::<UsageTimeline>(()) {
                Answer::Ready(usage) => Some(Ground::Usage(usage)),
                Answer::Stale(..) | Answer::Pending(_) | Answer::Failed(_) => None,
            },
            PictureOf::Addresses => match self.ask::<LivesIndex>(()) {
                Answer::Ready(index) => Some(Ground::Addresses(index)),
                Answer::Stale(..) | Answer::Pending(_) | Answer::Failed(_) => None,
            },
        }
    }
}

/// What a picture is painted from.
enum Ground {
    Usage(Arc<UsageTimeline>),
    Addresses(Arc<LivesIndex>),
}

impl Ground {
    fn raster(
        &self,
        (memory, replay): (&DeviceMemory, &Replay),
        view: &RasterView,
        colours: &ColourTable,
        theme: Theme,
        progress: &Progress,
    ) -> Result<Raster, Cancelled> {
        match self {
            Ground::Usage(usage) => StackRaster::new(memory, replay, usage).raster(view, colours, progress),
            Ground::Addresses(index) => {
                let [red, green, blue, _] = Palette { theme }.rgba(GROUND);
                index.raster(memory, view, colours, Some([red, green, blue]), progress)
            }
        }
    }
}
