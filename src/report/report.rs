//! The contract of a report: a snapshot at one moment, written to files of one kind.
//!
//! To add a kind: one file with its [`Report`], one line in the register. Always: all kinds say the same, because all
//! are made from one [`crate::report::page_model::PageModel`]; the date comes from the caller, so the same subject and
//! options give the same bytes.

use crate::analysis::Categories;
use crate::analysis::diagnosis::DiagnosisParams;
use crate::base::{Cancelled, Progress};
use crate::model::{DeviceId, Position, Snapshot};
use crate::raster::ColourBy;
use crate::replay::Replay;
use crate::report::page_model::Printed;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use crate::chart::Theme;

/// A part of the page that can be left out. Title, moment and the user's note always stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// The verdict in words.
    Verdict,
    /// Where every byte is.
    Accounting,
    /// Live allocations over time.
    Timeline,
    /// Counters over time, the largest free block among them.
    Charts,
    /// Every segment at the moment.
    Layout,
    /// What was found, with what to try.
    Findings,
    /// Allocated bytes by stack.
    Stacks,
    /// Who keeps half-used segments from the driver.
    Pinned,
    /// What was live, as a flame graph.
    Flame,
    /// The counters at the moment and at the dump.
    States,
    /// The table that PyTorch's `memory_summary` prints.
    Summary,
    /// What the file cannot tell.
    Coverage,
}

impl Section {
    /// All of them, in the order of the page.
    pub const ALL: [Section; 12] = [
        Section::Verdict,
        Section::Accounting,
        Section::Timeline,
        Section::Charts,
        Section::Layout,
        Section::Findings,
        Section::Stacks,
        Section::Pinned,
        Section::Flame,
        Section::States,
        Section::Summary,
        Section::Coverage,
    ];
    /// Its word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Verdict => "verdict",
            Section::Accounting => "accounting",
            Section::Timeline => "timeline",
            Section::Charts => "charts",
            Section::Layout => "layout",
            Section::Findings => "findings",
            Section::Stacks => "stacks",
            Section::Pinned => "pinned",
            Section::Flame => "flame",
            Section::States => "states",
            Section::Summary => "summary",
            Section::Coverage => "coverage",
        }
    }
    /// Its heading on the page.
    pub const fn title(self) -> &'static str {
        match self {
            Section::Verdict => "Verdict",
            Section::Accounting => "Where every byte is",
            Section::Timeline => "Memory over time",
            Section::Charts => "Free memory and its largest piece",
            Section::Layout => "Layout",
            Section::Findings => "Findings",
            Section::Stacks => "Who holds the memory",
            Section::Pinned => "Who pins the holes",
            Section::Flame => "What was live",
            Section::States => "The moment and the dump",
            Section::Summary => "PyTorch's memory summary",
            Section::Coverage => "What this file cannot tell",
        }
    }
    /// The section of a word.
    pub fn of_name(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name().eq_ignore_ascii_case(name))
    }
}

/// Which parts a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sections(u16);

impl Sections {
    /// Every part.
    pub const ALL: Sections = Sections((1 << Section::ALL.len()) - 1);
    /// No part.
    pub const NONE: Sections = Sections(0);

    /// Whether a part is on the page.
    pub fn has(self, section: Section) -> bool {
        self.0 & Self::bit(section) != 0
    }
    /// With a part, or without it.
    #[must_use]
    pub fn with(self, section: Section, shown: bool) -> Sections {
        let bit = Self::bit(section);
        Sections(if shown { self.0 | bit } else { self.0 & !bit })
    }
    fn bit(section: Section) -> u16 {
        1 << section as u16
    }
}

/// How a picture is cut into pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pages {
    /// One page, as tall as its content.
    #[default]
    Tall,
    /// A4, upright.
    A4,
    /// 16:9, as slides are.
    Wide,
}

impl Pages {
    /// Its word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Pages::Tall => "tall",
            Pages::A4 => "a4",
            Pages::Wide => "16x9",
        }
    }
    /// Width and height of one page in points; none where it is as tall as its content.
    pub const fn size_pt(self) -> Option<(u32, u32)> {
        match self {
            Pages::Tall => None,
            Pages::A4 => Some((900, 1273)),
            Pages::Wide => Some((1280, 720)),
        }
    }
}

/// How a page looks and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportOptions {
    /// Width of the page in points; widened if less than what a page needs.
    pub width_pt: u32,
    /// Height of the page in points, filled by its pictures; it grows if its content needs more (nothing is ever
    /// cut off), and is less where there is no picture to fill it.
    pub height_pt: u32,
    /// Pixels a point.
    pub scale: f32,
    /// Light or dark.
    pub theme: Theme,
    /// Whether a page for browsers takes the reader's choice of light or dark instead.
    pub follow_reader: bool,
    /// What the colour of blocks means.
    pub colour_by: ColourBy,
    /// What categories there are.
    pub categories: Categories,
    /// How a picture is cut into pages; fixed pages have their own size.
    pub pages: Pages,
    /// What stands on it.
    pub sections: Sections,
    /// What the pictures over time show; none: the whole recording.
    pub window: Option<Range<Position>>,
    /// What the user adds.
    pub note: String,
    /// What the file does not hold and somebody knows.
    pub known: DiagnosisParams,
    /// When the report is written, in Unix µs.
    pub written_us: Option<i64>,
}

impl ReportOptions {
    /// Pixels a point that keep small text legible where a ticket shows the picture at half its size.
    pub const PAPER_SCALE: f32 = 2.0;

    /// A page to be handed on.
    pub fn paper() -> ReportOptions {
        ReportOptions { scale: Self::PAPER_SCALE, ..Self::default() }
    }
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            width_pt: 1120,
            height_pt: 0,
            scale: 1.0,
            theme: Theme::Light,
            follow_reader: true,
            colour_by: ColourBy::Stack,
            categories: Categories::built_in(),
            pages: Pages::Tall,
            sections: Sections::ALL,
            window: None,
            note: String::new(),
            known: DiagnosisParams::default(),
            written_us: None,
        }
    }
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct ReportSubject<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// One replay a device, by row.
    pub replays: &'a [Replay],
    /// The device in question.
    pub device: DeviceId,
    /// The moment in question.
    pub position: Position,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file could not be written.
    #[error("the report could not be written: {0}")]
    Io(#[from] io::Error),
    /// The picture could not be encoded.
    #[error("the picture could not be encoded as PNG: {0}")]
    Png(#[from] image::ImageError),
    /// The wanted picture is beyond what is sensible.
    #[error(
        "a picture of {width} x {height} pixels is too large: at most {limit} million pixels are drawn; lower --size or --scale"
    )]
    TooLarge {
        /// Wanted width in pixels.
        width: u64,
        /// Wanted height in pixels.
        height: u64,
        /// The limit in millions of pixels.
        limit: u64,
    },
    /// The snapshot holds no such device.
    #[error("the snapshot holds no device in row {0}")]
    NoDevice(u32),
    /// Somebody stopped it.
    #[error("the report was cancelled")]
    Cancelled(#[from] Cancelled),
}

/// The name of a page among several: `out-2.png`.
pub fn page_path(out: &Path, number: usize) -> PathBuf {
    let (stem, ending) = (out.file_stem().unwrap_or_default(), out.extension().unwrap_or_default());
    out.with_file_name(format!("{}-{number}.{}", stem.to_string_lossy(), ending.to_string_lossy()))
}

/// One kind of report.
pub trait Report: Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;
    /// The extension of its files, without the dot.
    fn extension(&self) -> &'static str;
    /// Whether it is cut into pages where that is asked for: one file each.
    fn has_pages(&self) -> bool {
        false
    }
    /// What it says, and its files: one, or one a page.
    fn files(&self, subject: &ReportSubject<'_>, options: &ReportOptions, progress: &Progress) -> Result<Printed, ReportError>;
    /// Writes it as one file, however its pages are to be cut.
    fn write(&self, subject: &ReportSubject<'_>, options: &ReportOptions, out: &mut dyn Write) -> Result<(), ReportError> {
        let options = ReportOptions { pages: Pages::Tall, ..options.clone() };
        for file in self.files(subject, &options, &Progress::new())?.files {
            out.write_all(&file)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_numbers() {
        for (out, number, page) in [("x/a.b.png", 3, "x/a.b-3.png"), ("a.png", 1, "a-1.png")] {
            assert_eq!(page_path(Path::new(out), number), Path::new(page));
        }
    }

    #[test]
    fn sections_are_chosen_one_by_one() {
        for (row, section) in Section::ALL.into_iter().enumerate() {
            assert_eq!(section as usize, row, "{section:?} stands where the page has it");
            assert_eq!(Section::of_name(&section.name().to_uppercase()), Some(section));
            assert!(Sections::ALL.has(section) && !Sections::NONE.has(section));
            let one = Sections::NONE.with(section, true);
            assert_eq!(Section::ALL.into_iter().filter(|other| one.has(*other)).collect::<Vec<_>>(), [section]);
            assert_eq!(one.with(section, false), Sections::NONE);
            assert!(!Sections::ALL.with(section, false).has(section));
        }
        assert_eq!(Section::of_name("x"), None);
    }
}
