//! The values of all inks, light and dark.
//!
//! Always: hues of equal lightness in OKLCh; text reaches a contrast of 4.5:1 on what it stands on; neighbouring classes
//! of a sequence can be told apart by the colour-blind (the tests beside [`crate::chart::ink`] hold both).

use crate::chart::ink::{BlockColour, Ink};
use crate::model::BlockState;
use crate::raster::faded;

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

/// The values of all inks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// Which of the two.
    pub theme: Theme,
}

/// Hues of stacks: 24 steps around the circle without its red eighth, which is kept for failures.
const HUES: u32 = 24;

/// Steps of hue of the first categories, and how much lighter each is: apart in both, for the colour-blind.
const CATEGORY_HUES: [(u32, f32); 7] = [(4, 0.0), (10, 0.05), (13, -0.05), (1, 0.03), (20, -0.06), (7, -0.03), (16, 0.0)];

/// Lines of charts in both palettes, none of them red: hues apart in lightness too, for the colour-blind.
pub(super) const SERIES: [(u32, u32); 9] = [
    (0x1f6fb4, 0x6db3f2),
    (0x8a6d00, 0xe3c04d),
    (0x2b8a5a, 0x63cf9b),
    (0x9a3fa5, 0xd79be0),
    (0xb35a00, 0xf0a35e),
    (0x007a80, 0x52c7cc),
    (0x6a5acd, 0xa99df5),
    (0x0f4a7d, 0xa8d4fa),
    (0x6d5a4a, 0xcbb7a4),
];

impl Palette {
    /// Dark on light.
    pub const LIGHT: Palette = Palette { theme: Theme::Light };
    /// Light on dark.
    pub const DARK: Palette = Palette { theme: Theme::Dark };

    /// The value of an ink, not premultiplied: red, green, blue, alpha.
    pub fn rgba(self, ink: Ink) -> [u8; 4] {
        let dark = self.theme == Theme::Dark;
        let pick = |light: [u8; 4], night: [u8; 4]| if dark { night } else { light };
        let solid = |light: u32, night: u32| {
            let [_, r, g, b] = if dark { night } else { light }.to_be_bytes();
            [r, g, b, 255]
        };
        match ink {
            Ink::Block(colour) => self.block(colour, 0.0),
            Ink::Part(colour, share) => {
                let [r, g, b, _] = self.block(colour, 0.0);
                [r, g, b, share]
            }
            Ink::Faded(colour) => {
                let [r, g, b, _] = self.block(colour, 0.0);
                let [r0, g0, b0, _] = self.rgba(Ink::Background);
                let [r, g, b] = faded([r, g, b], [r0, g0, b0]);
                [r, g, b, 255]
            }
            Ink::Found => solid(0xfdf0b4, 0x45401f),
            Ink::Rounding(colour) => self.block(colour, 1.0),
            Ink::OnBlock => solid(0x14161a, 0x0b0d10),
            Ink::Background => solid(0xffffff, 0x16181d),
            Ink::Panel => solid(0xf4f5f7, 0x1e2127),
            Ink::SegmentBorder => solid(0xa9afba, 0x565d69),
            Ink::Pending => solid(0x14161a, 0xf2f4f8),
            Ink::TooSmall => solid(0x8b919c, 0x767d8a),
            Ink::Grid => pick([0x20, 0x28, 0x38, 0x1c], [0xe0, 0xe8, 0xff, 0x1c]),
            Ink::AxisText => solid(0x4d535e, 0xb1b7c3),
            Ink::Text => solid(0x16181d, 0xe8eaef),
            Ink::WeakText => solid(0x565c67, 0xa6adba),
            Ink::Reserved => solid(0x2c3440, 0xd5dae4),
            Ink::Capacity => solid(0x7a4b00, 0xe0b060),
            Ink::DeviceUse => solid(0x00665c, 0x58c9b9),
            Ink::Usage => solid(0x8fa6c4, 0x52688a),
            Ink::Series(row) => {
                let (light, night) = SERIES[usize::from(row) % SERIES.len()];
                solid(light, night)
            }
            Ink::Oom => solid(0xc81e1e, 0xff6b62),
            Ink::Cursor => solid(0x0b57d0, 0x8ab4f8),
            Ink::Selected => solid(0x0b57d0, 0x9cc0ff),
            Ink::Hovered => solid(0x14161a, 0xffffff),
            Ink::Annotation(false) => solid(0xd9dee7, 0x39404c),
            Ink::Annotation(true) => solid(0xc7ceda, 0x474f5d),
            Ink::Shade => pick([0xf4, 0xf5, 0xf7, 0xb8], [0x10, 0x12, 0x16, 0xb8]),
            Ink::Range => pick([0x0b, 0x57, 0xd0, 0x28], [0x8a, 0xb4, 0xf8, 0x30]),
            Ink::UserMark => solid(0x6b2fb3, 0xcfa8ff),
            Ink::Shared => solid(0xe2e6ed, 0x333945),
            Ink::Delta(share) => self.delta(share),
        }
    }

    /// Orange where memory grew, blue where it shrank: the pair that every kind of colour vision tells apart.
    fn delta(self, share: i8) -> [u8; 4] {
        let t = (f32::from(share) / 127.0).clamp(-1.0, 1.0);
        let hue = if t < 0.0 { 250.0 } else { 65.0 };
        let lightness = if self.theme == Theme::Light { 0.90 - 0.15 * t.abs() } else { 0.70 + 0.06 * t.abs() };
        let [r, g, b] = oklch(lightness, 0.008 + 0.117 * t.abs(), hue);
        [r, g, b, 255]
    }

    /// A block's colour; `pale` moves it from 0 (full) towards the background.
    fn block(self, colour: BlockColour, pale: f32) -> [u8; 4] {
        // Lightness, chroma and hue in OKLCH, where equal lightness looks equally light in every hue.
        let hue = |step: u32| 50.0 + 312.0 * step as f32 / HUES as f32;
        let (lightness, chroma, hue) = match colour {
            // Three lightnesses a hue, so that stacks that share one still differ, also for the colour-blind.
            BlockColour::Stack(hash) => {
                let step = [0.0, 0.075, -0.075][(hash / HUES % 3) as usize];
                (0.76 + step, 0.105, hue(hash % HUES))
            }
            BlockColour::NoStack => (0.74, 0.012, 260.0),
            // Ordered classes run from light to dark in one hue family: order shows without a legend.
            BlockColour::Size(class) => {
                let t = f32::from(class.min(7)) / 7.0;
                (0.90 - 0.28 * t, 0.06 + 0.06 * t, 100.0 + 155.0 * t)
            }
            BlockColour::Age(class) => {
                let t = f32::from(class.min(6)) / 6.0;
                (0.92 - 0.30 * t, 0.08 + 0.03 * t, 95.0 + 205.0 * t)
            }
            // What holds nothing recedes; the more is held, the warmer and darker.
            BlockColour::Held(class) => {
                let t = f32::from(class.min(6)) / 6.0;
                (0.92 - 0.30 * t, 0.02 + 0.12 * t, 110.0 - 65.0 * t)
            }
            BlockColour::Pool(row) => (0.76 - 0.075 * (row / 6 % 2) as f32, 0.105, hue(row * 9 % HUES)),
            BlockColour::Stream(row) => (0.76 - 0.075 * (row / 6 % 2) as f32, 0.105, hue((row * 9 + 4) % HUES)),
            // Seven hues far apart, then the same lighter and darker.
            BlockColour::Category(row) => {
                let (step, lighter) = CATEGORY_HUES[usize::from(row) % CATEGORY_HUES.len()];
                let again = [0.0, 0.05, -0.05][usize::from(row) / CATEGORY_HUES.len() % 3];
                (0.76 + lighter + again, 0.105, hue(step))
            }
            BlockColour::OtherCategory => (0.84, 0.035, 75.0),
            BlockColour::State(BlockState::ActiveAllocated) => (0.74, 0.10, 250.0),
            BlockColour::State(BlockState::ActivePendingFree) => (0.82, 0.12, 90.0),
            BlockColour::State(BlockState::Inactive) => (0.90, 0.0, 0.0),
        };
        // On the dark background the same colours shine less.
        let (lightness, chroma) = match self.theme {
            Theme::Light => (lightness + (0.955 - lightness) * 0.62 * pale, chroma * (1.0 - 0.5 * pale)),
            Theme::Dark => (lightness - 0.02 + (0.30 - lightness) * 0.45 * pale, chroma * (1.0 - 0.3 * pale)),
        };
        let [r, g, b] = oklch(lightness, chroma, hue);
        [r, g, b, 255]
    }
}

/// OKLCH to sRGB (Björn Ottosson, "A perceptual color space for image processing", 2020); out of gamut is clipped.
fn oklch(lightness: f32, chroma: f32, hue_degrees: f32) -> [u8; 3] {
    let (sin, cos) = hue_degrees.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_78 * a + 0.215_803_76 * b).powi(3);
    let m = (lightness - 0.105_561_346 * a - 0.063_854_17 * b).powi(3);
    let s = (lightness - 0.089_484_18 * a - 1.291_485_5 * b).powi(3);
    let linear = [
        4.076_741_7 * l - 3.307_711_6 * m + 0.230_969_94 * s,
        -1.268_438 * l + 2.609_757_4 * m - 0.341_319_38 * s,
        -0.004_196_086_3 * l - 0.703_418_6 * m + 1.707_614_7 * s,
    ];
    linear.map(|value: f32| {
        let value = value.clamp(0.0, 1.0);
        let encoded = if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        (encoded * 255.0).round() as u8
    })
}
