//! What stands on a page, as blocks from top to bottom, and how they are cut into pages; no toolkit.
//!
//! Always: a block is never parted; one that is kept with the next, as a heading is, stays on its page.

use crate::chart::{BlockColour, Drawing, Ink, PartLook};
use crate::raster::Raster;

/// The three text sizes.
pub(super) const LARGE: f32 = 19.0;
pub(super) const NORMAL: f32 = 13.0;
pub(super) const SMALL: f32 = 11.5;
/// Room for the word at the left of a finding.
pub(super) const HANG_PT: f32 = 62.0;

/// Words of one size and ink.
pub(super) type Run = (String, f32, Ink);

/// A piece of the page that is never parted.
pub(super) struct Block {
    pub(super) what: What,
    /// Whether it stays on the page of the block after it.
    pub(super) keep: bool,
}

pub(super) enum What {
    Space(f32),
    /// A thin line across.
    Rule,
    /// Words that wrap, behind so much room at the left; with a stroke at their left for what the user said.
    Words {
        runs: Vec<Run>,
        indent: f32,
        stroke: bool,
    },
    /// Words that wrap, with a word that stands alone at their left.
    Hanging {
        lead: Run,
        runs: Vec<Run>,
    },
    /// Words that stay together pair by pair.
    Pairs(Vec<Vec<Run>>),
    /// A row of a table.
    Row {
        patch: Option<Patch>,
        cells: Vec<Cell>,
        rest: Vec<Run>,
    },
    /// A picture, and the raster in it.
    Picture {
        drawing: Drawing,
        raster: Option<usize>,
    },
    /// Patches of colour with their names.
    Legend(Vec<(BlockColour, String)>),
}

#[derive(Clone, Copy)]
pub(super) enum Patch {
    Block(BlockColour),
    Part(PartLook),
    /// Room for one.
    None,
}

pub(super) struct Cell {
    pub(super) width: f32,
    pub(super) words: String,
    pub(super) ink: Ink,
    /// At the right edge of its column.
    pub(super) is_right: bool,
}

/// Blocks and the rasters their pictures show.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) blocks: Vec<Block>,
    pub(super) rasters: Vec<Raster>,
}

impl Flow {
    pub(super) fn put(&mut self, what: What) {
        self.blocks.push(Block { what, keep: false });
    }
    pub(super) fn keep(&mut self, what: What) {
        self.blocks.push(Block { what, keep: true });
    }
    pub(super) fn words(&mut self, words: impl Into<String>, size: f32, ink: Ink) {
        self.put(What::Words { runs: vec![(words.into(), size, ink)], indent: 0.0, stroke: false });
    }
    /// A heading, and in smaller words what it is about.
    pub(super) fn head(&mut self, title: &str, aside: &str) {
        self.keep(What::Space(26.0));
        let runs = vec![(title.to_owned(), LARGE, Ink::Text)];
        self.keep(What::Words { runs, indent: 0.0, stroke: false });
        if !aside.is_empty() {
            self.keep(What::Space(1.0));
            let runs = vec![(aside.to_owned(), SMALL, Ink::WeakText)];
            self.keep(What::Words { runs, indent: 0.0, stroke: false });
        }
        self.keep(What::Space(8.0));
    }
}

pub(super) fn left(width: f32, words: impl Into<String>, ink: Ink) -> Cell {
    Cell { width, words: words.into(), ink, is_right: false }
}
pub(super) fn right(width: f32, words: impl Into<String>, ink: Ink) -> Cell {
    Cell { width, words: words.into(), ink, is_right: true }
}

/// A text of at most `limit` letters, its middle left out.
pub(super) fn middle(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let (head, tail) = (limit / 2, limit - limit / 2 - 1);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}")
}

pub(super) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Which blocks stand on which page: as many as have room, a block that is kept with the next one together with it.
pub(super) fn cut(blocks: &[Block], heights: &[f32], room: f32) -> Vec<std::ops::Range<usize>> {
    let mut pages = Vec::new();
    let (mut from, mut used, mut at) = (0, 0.0, 0);
    while at < blocks.len() {
        let mut end = at;
        while end + 1 < blocks.len() && blocks[end].keep {
            end += 1;
        }
        let group: f32 = heights[at..=end].iter().sum();
        if from < at && room < used + group {
            pages.push(from..at);
            (from, used) = (at, 0.0);
        }
        // Space is for between blocks: a page does not begin with it.
        if from == at && matches!(blocks[at].what, What::Space(_)) && !pages.is_empty() {
            (from, at) = (at + 1, at + 1);
            continue;
        }
        used += group;
        at = end + 1;
    }
    if from < blocks.len() && blocks[from..].iter().any(|block| !matches!(block.what, What::Space(_))) {
        pages.push(from..blocks.len());
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_break_between_blocks_and_after_no_heading() {
        let block = |keep| Block { what: What::Rule, keep };
        let space = || Block { what: What::Space(10.0), keep: false };
        let keep = [false, true, false, true, true, false];
        let blocks: Vec<Block> = keep.into_iter().map(block).collect();
        for (heights, room, pages) in [
            ([10.0; 6], 100.0, vec![(0, 6)]),
            ([10.0; 6], 30.0, vec![(0, 3), (3, 6)]),
            ([10.0; 6], 20.0, vec![(0, 1), (1, 3), (3, 6)]),
            ([10.0, 10.0, 500.0, 1.0, 1.0, 1.0], 50.0, vec![(0, 1), (1, 3), (3, 6)]),
        ] {
            let cut: Vec<_> = cut(&blocks, &heights, room).into_iter().map(|page| (page.start, page.end)).collect();
            assert_eq!(cut, pages, "{heights:?} in {room}");
        }
        let spaced = vec![block(false), space(), block(false), space()];
        let pages: Vec<_> =
            cut(&spaced, &[30.0, 10.0, 30.0, 10.0], 30.0).into_iter().map(|page| (page.start, page.end)).collect();
        assert_eq!(pages, [(0, 1), (2, 3)]);
        assert!(cut(&[], &[], 10.0).is_empty());
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        for (text, limit, short) in [("abc", 3, "abc"), ("abcdef", 5, "ab…ef"), ("äöüß", 3, "ä…ß"), ("", 2, "")] {
            assert_eq!(middle(text, limit), short);
        }
        assert_eq!((capitalised("likely"), capitalised("")), ("Likely".to_owned(), String::new()));
    }
}
