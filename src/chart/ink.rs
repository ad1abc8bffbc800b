//! What a colour means; the two palettes that give meanings their values are in [`crate::chart::palette`].
//!
//! Always: one meaning of block colour at a time ([`ColourBy`]); free memory is the background; red is
//! kept for what failed. A stack's colour follows from the text of its frames alone, so it is the same in
//! every view and in every file. Text reaches a contrast of 4.5:1 on what it stands on, in both palettes.

use crate::analysis::{Categories, CategoryId, Held};
use crate::base::Bytes;
pub use crate::chart::palette::{Palette, Theme};
use crate::model::{AllocationId, BlockState, DeviceMemory, Position, Snapshot, StackTable};
pub use crate::raster::ColourBy;
use crate::raster::{ColourTable, age_class, held_class, size_class};
use std::sync::Arc;

/// What the colour of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockColour {
    /// Allocated at the stack whose frames' text has this hash.
    Stack(u32),
    /// Allocated where no stack was kept.
    NoStack,
    /// Its size lies in this class of [`SIZE_CLASSES`].
    Size(u8),
    /// Its age lies in this class of [`AGE_CLASSES`].
    Age(u8),
    /// It lies in the pool of this row.
    Pool(u32),
    /// It was allocated on the stream of this row.
    Stream(u32),
    /// It is in this state.
    State(BlockState),
    /// It is for this category of the rules in force.
    Category(u8),
    /// It is for nothing that a rule knows.
    OtherCategory,
    /// The free memory it held lies in this class of [`HELD_CLASSES`].
    Held(u8),
}

/// Names of the size classes, by [`crate::raster::size_class`].
pub const SIZE_CLASSES: [&str; 8] = [
    "under 4 KiB",
    "under 64 KiB",
    "up to 1 MiB",
    "under 10 MiB",
    "under 64 MiB",
    "under 256 MiB",
    "under 1 GiB",
    "1 GiB and more",
];

/// Names of the age classes, by [`crate::raster::age_class`].
pub const AGE_CLASSES: [&str; 7] = [
    "under 10 events old",
    "under 100 events",
    "under 1 000 events",
    "under 10 000 events",
    "under 100 000 events",
    "100 000 events and more",
    "older than the trace",
];

/// Names of the classes of free memory that a block held at most in its life, by [`crate::raster::held_class`].
pub const HELD_CLASSES: [&str; 7] =
    ["held none", "under 64 KiB", "under 512 KiB", "under 2 MiB", "under 8 MiB", "under 20 MiB", "held 20 MiB and more"];

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ink {
    /// A block.
    Block(BlockColour),
    /// A part of a pixel filled by blocks, the largest of this colour; the share in 1/255.
    Part(BlockColour, u8),
    /// A block that was not found by what is searched for.
    Faded(BlockColour),
    /// Under a row of a table that holds what was found.
    Found,
    /// The part of a block that rounding added or that was not split off: its hue, paler.
    Rounding(BlockColour),
    /// Text on a block.
    OnBlock,
    /// The paper itself; free memory inside segments too.
    Background,
    /// What lies around pictures.
    Panel,
    /// The border of a segment.
    SegmentBorder,
    /// Hatching and outline of blocks that wait for another stream.
    Pending,
    /// Hatching of gaps too small for the request in question.
    TooSmall,
    /// Lines of an axis grid.
    Grid,
    /// Labels of an axis.
    AxisText,
    /// Normal text.
    Text,
    /// Text of second rank.
    WeakText,
    /// The line of reserved memory.
    Reserved,
    /// The line of the device's capacity.
    Capacity,
    /// The line of what the whole device holds.
    DeviceUse,
    /// Memory in use as one area, where single blocks are not shown.
    Usage,
    /// The line of a series in a chart; nine of them, then the first again.
    Series(u8),
    /// An allocation that failed.
    Oom,
    /// The cursor.
    Cursor,
    /// What is selected.
    Selected,
    /// What the pointer is on.
    Hovered,
    /// Named spans of time; neighbours alternate.
    Annotation(bool),
    /// What lies outside the visible window, in the overview.
    Shade,
    /// A selected range of time.
    Range,
    /// A mark the user set.
    UserMark,
    /// A frame that several stacks share.
    Shared,
    /// How far a difference is growth (127) or shrinkage (−127); around 0 both cancel.
    Delta(i8),
}

/// Colours of blocks for one snapshot, by one meaning; made once per snapshot and meaning.
#[derive(Clone, Debug)]
pub struct Inks {
    by: ColourBy,
    /// Content hash of each stack, by row; empty where colours do not follow stacks.
    stacks: Vec<u32>,
    /// Category of each stack, by row, with the rules; where colours follow them.
    categories: Option<(Categories, Vec<CategoryId>)>,
    pools: usize,
    streams: usize,
    /// Class of the free memory each block of one device held; empty where colours do not follow it.
    held: Arc<[u8]>,
}

impl Inks {
    /// Prepares the colours of a snapshot, with the built-in categories.
    pub fn new(snapshot: &Snapshot, by: ColourBy) -> Inks {
        Inks::with_categories(snapshot, by, &Categories::built_in())
    }
    /// As [`Inks::new`], with rules of one's own.
    pub fn with_categories(snapshot: &Snapshot, by: ColourBy, rules: &Categories) -> Inks {
        let stacks = if by == ColourBy::Stack { content_hashes(&snapshot.stacks) } else { Vec::new() };
        let categories = (by == ColourBy::Category).then(|| (rules.clone(), rules.of(&snapshot.stacks)));
        let (pools, streams) = (snapshot.pools.len(), snapshot.streams.len());
        Inks { by, stacks, categories, pools, streams, held: Arc::default() }
    }
    /// The same with the free memory that each block of a device held, for [`ColourBy::Held`].
    #[must_use]
    pub fn with_held(self, held: &Held) -> Inks {
        Inks { held: held.bytes().iter().map(|bytes| held_class(*bytes)).collect(), ..self }
    }
    /// What the colours mean.
    pub fn by(&self) -> ColourBy {
        self.by
    }
    /// The colour of an allocation at a moment (only age and state depend on it).
    pub fn block(&self, memory: &DeviceMemory, id: AllocationId, at: Position) -> BlockColour {
        self.of_row(ColourTable::row(self.by, &self.held, memory, id, at))
    }
    /// The colours as a table for the raster.
    pub fn table(&self, palette: Palette) -> ColourTable {
        let rows = match self.by {
            ColourBy::Stack => self.stacks.len(),
            ColourBy::Size => SIZE_CLASSES.len(),
            ColourBy::Age => AGE_CLASSES.len(),
            ColourBy::Pool => self.pools,
            ColourBy::Stream => self.streams,
            ColourBy::State => 2,
            ColourBy::Category => self.categories.as_ref().map_or(0, |(_, stacks)| stacks.len()),
            ColourBy::Held => HELD_CLASSES.len(),
        };
        let value = |row: usize| {
            let [r, g, b, _] = palette.rgba(Ink::Block(self.of_row(row as u32)));
            [r, g, b]
        };
        let [r, g, b, _] = palette.rgba(Ink::Block(BlockColour::NoStack));
        let (colours, held) = ((0..rows).map(value).collect(), Arc::clone(&self.held));
        ColourTable { by: self.by, colours, other: [r, g, b], held, spotlight: None }
    }
    /// The meanings with a name each; none for stacks, which are too many.
    pub fn legend(&self, snapshot: &Snapshot) -> Vec<(BlockColour, String)> {
        match self.by {
            ColourBy::Stack => Vec::new(),
            ColourBy::Size => (0..).zip(SIZE_CLASSES).map(|(i, name)| (BlockColour::Size(i), name.to_owned())).collect(),
            ColourBy::Age => (0..).zip(AGE_CLASSES).map(|(i, name)| (BlockColour::Age(i), name.to_owned())).collect(),
            ColourBy::Pool => (0..self.pools as u32)
                .map(|row| (BlockColour::Pool(row), pool_name(snapshot, crate::model::PoolId(row))))
                .collect(),
            ColourBy::Stream => (0..self.streams as u32)
                .map(|row| (BlockColour::Stream(row), stream_name(snapshot, crate::model::StreamId(row))))
                .collect(),
            ColourBy::State => [BlockState::ActiveAllocated, BlockState::ActivePendingFree]
                .map(|state| (BlockColour::State(state), state.name().replace('_', " ")))
                .to_vec(),
            ColourBy::Category => self.categories.as_ref().map_or(Vec::new(), |(rules, stacks)| {
                // Only what the snapshot holds: rules are written for many files.
                let mut held: Vec<CategoryId> = stacks.iter().skip(1).copied().collect();
                held.sort_unstable();
                held.dedup();
                let named = |category: CategoryId| (category_colour(rules, category), rules.name(category).to_owned());
                held.into_iter().map(named).chain([(BlockColour::NoStack, "no stack".to_owned())]).collect()
            }),
            ColourBy::Held => (0..).zip(HELD_CLASSES).map(|(i, name)| (BlockColour::Held(i), name.to_owned())).collect(),
        }
    }

    fn of_row(&self, row: u32) -> BlockColour {
        match self.by {
            ColourBy::Stack => match self.stacks.get(row as usize) {
                Some(hash) if row != 0 => BlockColour::Stack(*hash),
                _ => BlockColour::NoStack,
            },
            ColourBy::Size => BlockColour::Size(row as u8),
            ColourBy::Age => BlockColour::Age(row as u8),
            ColourBy::Pool => BlockColour::Pool(row),
            ColourBy::Stream => BlockColour::Stream(row),
            ColourBy::State if row == 0 => BlockColour::State(BlockState::ActiveAllocated),
            ColourBy::State => BlockColour::State(BlockState::ActivePendingFree),
            ColourBy::Category => match &self.categories {
                Some((rules, stacks)) if row != 0 => {
                    stacks.get(row as usize).map_or(BlockColour::NoStack, |category| category_colour(rules, *category))
                }
                _ => BlockColour::NoStack,
            },
            ColourBy::Held => BlockColour::Held(row as u8),
        }
    }
}

fn category_colour(rules: &Categories, category: CategoryId) -> BlockColour {
    if category == rules.other() { BlockColour::OtherCategory } else { BlockColour::Category(category.0) }
}

/// The size class of a size, as a colour.
pub fn size_colour(size: Bytes) -> BlockColour {
    BlockColour::Size(size_class(size.0))
}

/// The age class of an age in events, as a colour; none: older than the trace.
pub fn age_colour(events: Option<u32>) -> BlockColour {
    BlockColour::Age(age_class(events))
}

/// A pool's name: `default pool`, or `pool (1, 0)` with PyTorch's pair.
pub fn pool_name(snapshot: &Snapshot, pool: crate::model::PoolId) -> String {
    match snapshot.pools.pair(pool) {
        (0, 0) => "default pool".to_owned(),
        (a, b) => format!("private pool ({a}, {b})"),
    }
}

/// A stream's name: `default stream`, or `stream 0x7f…` with its raw handle.
pub fn stream_name(snapshot: &Snapshot, stream: crate::model::StreamId) -> String {
    match snapshot.streams.handle(stream) {
        0 => "default stream".to_owned(),
        handle if 0 < handle && handle < 4096 => format!("stream {handle}"),
        handle => format!("stream 0x{handle:x}"),
    }
}

/// A hash of each stack's text (functions, files, lines), equal in all files that hold the same code.
pub fn content_hashes(stacks: &StackTable) -> Vec<u32> {
    let frames: Vec<u64> = (0..stacks.frame_count() as u32)
        .map(|row| {
            let id = crate::model::FrameId(row);
            let text = fnv(fnv(FNV_START, stacks.function(id).as_bytes()), b"\0");
            let file = fnv(fnv(text, stacks.file(id).as_bytes()), b"\0");
            fnv(file, &stacks.frame(id).line.to_le_bytes())
        })
        .collect();
    (0..stacks.len() as u32)
        .map(|row| {
            let ids = stacks.frames(crate::model::StackId(row));
            let hash = ids.iter().fold(FNV_START, |hash, id| fnv(hash, &frames[id.0 as usize].to_le_bytes()));
            mixed(hash)
        })
        .collect()
}

/// A hash of a text, equal in all files, for colours by file or name.
pub fn text_hash(text: &str) -> u32 {
    mixed(fnv(FNV_START, text.as_bytes()))
}

/// The low bits of FNV mix poorly; the palette takes remainders.
fn mixed(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32 ^ ((hash >> 17) as u32).rotate_left(7)
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, whose value is the same on every machine and in every run.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::palette::SERIES;
    use crate::model::{Frame, StackId};

    /// Contrast of two colours as WCAG 2 defines it.
    fn contrast(a: [u8; 4], b: [u8; 4]) -> f64 {
        let luminance = |c: [u8; 4]| {
            let linear = |v: u8| {
                let v = f64::from(v) / 255.0;
                if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2])
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn all_blocks() -> Vec<BlockColour> {
        let mut all: Vec<_> = (0..72).map(BlockColour::Stack).collect();
        all.extend((0..12).flat_map(|row| [BlockColour::Pool(row), BlockColour::Stream(row)]));
        all.extend((0..8).map(BlockColour::Size));
        all.extend((0..7).map(BlockColour::Age));
        all.extend((0..7).map(BlockColour::Held));
        all.extend([BlockState::ActiveAllocated, BlockState::ActivePendingFree].map(BlockColour::State));
        all.extend((0..21).map(BlockColour::Category));
        all.extend([BlockColour::OtherCategory, BlockColour::NoStack]);
        all
    }

    #[test]
    fn text_has_contrast_on_everything_it_stands_on() {
        for palette in [Palette::LIGHT, Palette::DARK] {
            for paper in [Ink::Background, Ink::Panel] {
                for text in
                    [Ink::Text, Ink::WeakText, Ink::AxisText, Ink::Oom, Ink::Cursor, Ink::Reserved, Ink::Capacity, Ink::DeviceUse]
                {
                    let reached = contrast(palette.rgba(text), palette.rgba(paper));
                    assert!(4.5 <= reached, "{text:?} on {paper:?}, {:?}: {reached:.2}", palette.theme);
                }
            }
            for colour in all_blocks() {
                let reached = contrast(palette.rgba(Ink::OnBlock), palette.rgba(Ink::Block(colour)));
                assert!(4.5 <= reached, "on {colour:?}, {:?}: {reached:.2}", palette.theme);
            }
            for ground in all_blocks().into_iter().map(Ink::Faded).chain([Ink::Found]) {
                let reached = contrast(palette.rgba(Ink::WeakText), palette.rgba(ground));
                assert!(4.5 <= reached, "on {ground:?}, {:?}: {reached:.2}", palette.theme);
            }
            for share in [-127, -64, -1, 0, 1, 64, 127].map(Ink::Delta) {
                let reached = contrast(palette.rgba(Ink::OnBlock), palette.rgba(share));
                assert!(4.5 <= reached, "on {share:?}, {:?}: {reached:.2}", palette.theme);
            }
            for text in [Ink::Text, Ink::WeakText] {
                let reached = contrast(palette.rgba(text), palette.rgba(Ink::Shared));
                assert!(4.5 <= reached, "{text:?} on shared frames, {:?}: {reached:.2}", palette.theme);
            }
            for row in 0..SERIES.len() as u8 {
                // WCAG 2 asks 3:1 of lines.
                let reached = contrast(palette.rgba(Ink::Series(row)), palette.rgba(Ink::Background));
                assert!(3.0 <= reached, "series {row}, {:?}: {reached:.2}", palette.theme);
            }
            for annotation in [false, true] {
                let reached = contrast(palette.rgba(Ink::Text), palette.rgba(Ink::Annotation(annotation)));
                assert!(4.5 <= reached, "on annotations, {:?}: {reached:.2}", palette.theme);
            }
        }
    }

    #[test]
    fn blocks_are_neither_red_nor_background() {
        for palette in [Palette::LIGHT, Palette::DARK] {
            for colour in all_blocks() {
                let [r, g, b, _] = palette.rgba(Ink::Block(colour));
                assert!(r < 200 || 90 < g || 90 < b, "{colour:?} is red: {r} {g} {b}");
                let ground = contrast(palette.rgba(Ink::Block(colour)), palette.rgba(Ink::Background));
                assert!(1.25 <= ground, "{colour:?} vanishes on {:?}: {ground:.2}", palette.theme);
            }
        }
    }

    /// What a colour looks like to people without one of the three kinds of cones: matrices in linear RGB by Machado,
    /// Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, at full
    /// severity; the last is everybody else.
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("deuteranopia", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
        ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
        ("three cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ];

    /// A colour as seen, in OKLab.
    fn seen([r, g, b, _]: [u8; 4], vision: [[f64; 3]; 3]) -> [f64; 3] {
        let linear = [r, g, b].map(|v| {
            let v = f64::from(v) / 255.0;
            if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        });
        let times = |m: [[f64; 3]; 3], v: [f64; 3]| m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
        let [r, g, b] = times(vision, linear).map(|v| v.clamp(0.0, 1.0));
        let lms = [
            0.412_221_47 * r + 0.536_332_54 * g + 0.051_445_99 * b,
            0.211_903_5 * r + 0.680_699_55 * g + 0.107_396_96 * b,
            0.088_302_46 * r + 0.281_718_84 * g + 0.629_978_7 * b,
        ];
        let roots = lms.map(f64::cbrt);
        times(
            [
                [0.210_454_26, 0.793_617_8, -0.004_072_05],
                [1.977_998_5, -2.428_592_2, 0.450_593_7],
                [0.025_904_04, 0.782_771_77, -0.808_675_77],
            ],
            roots,
        )
    }

    #[test]
    fn neighbouring_classes_differ_for_every_kind_of_colour_vision() {
        let scales: [(&str, Vec<BlockColour>); 3] = [
            ("size", (0..8).map(BlockColour::Size).collect()),
            ("age", (0..7).map(BlockColour::Age).collect()),
            ("free memory held", (0..7).map(BlockColour::Held).collect()),
        ];
        for palette in [Palette::LIGHT, Palette::DARK] {
            for (name, classes) in &scales {
                for (vision, matrix) in VISIONS {
                    let colours: Vec<[f64; 3]> =
                        classes.iter().map(|class| seen(palette.rgba(Ink::Block(*class)), matrix)).collect();
                    for (class, pair) in colours.windows(2).enumerate() {
                        let distance = (0..3).map(|i| (pair[0][i] - pair[1][i]).powi(2)).sum::<f64>().sqrt();
                        // A difference of 0.02 is what an eye just sees beside each other.
                        assert!(
                            0.028 <= distance,
                            "{name} {class} and {}, {vision}, {:?}: {distance:.3}",
                            class + 1,
                            palette.theme
                        );
                        assert!(
                            pair[1][0] < pair[0][0],
                            "{name} {class}: order shows in lightness, {vision}, {:?}",
                            palette.theme
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_stack_has_its_colour_in_every_file() {
        let build = |before: &[&str]| {
            let mut stacks = StackTable::default();
            let mut last = StackId::EMPTY;
            for function in before.iter().chain(&["forward"]) {
                let name = stacks.strings.intern(function);
                let filename = stacks.strings.intern("mlp.py");
                let frame = stacks.intern_frame(Frame { name, filename, line: 41 });
                last = stacks.intern(&[frame]);
            }
            content_hashes(&stacks)[last.0 as usize]
        };
        assert_eq!(build(&[]), build(&["backward", "step"]));
    }
}
