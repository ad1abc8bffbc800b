//! Searching a flame graph: which nodes match, and what they hold together.
//!
//! Always: a match inside a match is counted once, so the sum never exceeds the root; what lies above a match is
//! told from what has none below.

use crate::analysis::flame::{FlameLabel, FlameNodeId, FlameTree, NO_STACK};
use crate::base::id::Id as _;
use crate::base::{Column, HeapSize};
use crate::model::StackTable;
use rustc_hash::FxHashMap;

/// How a node answers a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlameMatch {
    /// Not at all.
    #[default]
    No,
    /// It lies below a match.
    Below,
    /// A match lies below it.
    Above,
    /// It matches.
    Hit,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameMatches {
    /// The answer of each node.
    pub nodes: Column<FlameNodeId, FlameMatch>,
    /// Number of nodes that match.
    pub hits: u32,
    /// Their values added up, each byte once.
    pub value: i128,
    /// Their widths added up, each byte once.
    pub weight: u128,
}

impl FlameMatches {
    /// Finds a text in functions and in `file:line`, letter case ignored; an empty text matches nothing.
    pub fn of(tree: &FlameTree, stacks: &StackTable, text: &str) -> FlameMatches {
        let wanted = text.trim().to_lowercase();
        let mut known: Vec<Option<bool>> = vec![None; stacks.frame_count()];
        let mut matches = FlameMatches::default();
        for node in tree.nodes.as_slice() {
            let hit = !wanted.is_empty()
                && match node.label {
                    FlameLabel::All => false,
                    FlameLabel::NoStack => NO_STACK.contains(&wanted),
                    FlameLabel::Frame(frame) => *known[frame.row()].get_or_insert_with(|| {
                        let place = format!("{}:{}", stacks.file(frame), stacks.frame(frame).line);
                        stacks.function(frame).to_lowercase().contains(&wanted) || place.to_lowercase().contains(&wanted)
                    }),
                };
            // The parent, which comes first, is in already; the root is its own and never matches.
            let covered = matches.nodes.get(node.parent).is_some_and(|above| *above != FlameMatch::No);
            if hit {
                matches.hits += 1;
            }
            if hit && !covered {
                matches.value = matches.value.saturating_add(node.value);
                matches.weight = matches.weight.saturating_add(node.weight);
            }
            matches.nodes.push(match (hit, covered) {
                (true, _) => FlameMatch::Hit,
                (false, true) => FlameMatch::Below,
                (false, false) => FlameMatch::No,
            });
        }
        // Children come after their parents.
        for node in (0..tree.nodes.len()).rev().map(FlameNodeId::of_row) {
            let parent = tree.nodes[node].parent;
            if matches!(matches.nodes[node], FlameMatch::Hit | FlameMatch::Above) && matches.nodes[parent] == FlameMatch::No {
                matches.nodes[parent] = FlameMatch::Above;
            }
        }
        matches
    }
    /// The nodes that hold something of `part`, the same tree of fewer blocks: where its stacks end is a match, and its
    /// whole is the sum.
    pub fn of_part(tree: &FlameTree, part: &FlameTree) -> FlameMatches {
        let places: FxHashMap<(FlameNodeId, FlameLabel), FlameNodeId> =
            tree.nodes.iter().map(|(id, node)| ((node.parent, node.label), id)).collect();
        let mut matches = FlameMatches {
            nodes: vec![FlameMatch::No; tree.nodes.len()].into(),
            hits: 0,
            value: part.root().value,
            weight: part.root().weight,
        };
        // By node of the part: the same one of the whole. Parents come first.
        let mut same: Column<FlameNodeId, Option<FlameNodeId>> = Column::new();
        for (id, node) in part.nodes.iter() {
            let here = if id == FlameNodeId::ROOT {
                Some(FlameNodeId::ROOT)
            } else {
                same[node.parent].and_then(|parent| places.get(&(parent, node.label)).copied())
            };
            same.push(here);
            let Some(here) = here.filter(|_| !part.is_empty()) else { continue };
            // What is left of the value after the children ends here.
            let ends = id != FlameNodeId::ROOT && (node.self_value != 0 || node.children == 0);
            matches.nodes[here] = if ends { FlameMatch::Hit } else { FlameMatch::Above };
            matches.hits += u32::from(ends);
        }
        matches
    }
}

impl HeapSize for FlameMatches {
    fn heap_size(&self) -> usize {
        self.nodes.heap_bytes()
    }
}
