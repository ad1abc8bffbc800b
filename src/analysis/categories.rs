//! What memory is for: rules that give each stack a category by its frames.
//!
//! A file of rules holds one a line, `name: pattern`; the pattern is a regular expression that is looked for in each
//! frame of a stack, written `file:line function`. The first rule of the file that is found in any frame names the
//! stack's category. Lines that begin with `#` and empty ones say nothing.
//!
//! Always: every stack has exactly one category, [`OTHER`] where no rule applies; a line that is no rule is told in
//! a sentence, and the other rules still work.

use crate::base::id::Id as _;
use crate::model::{FrameId, StackId, StackTable};
use regex::{Regex, RegexBuilder};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

/// The category of stacks to which no rule applies.
pub const OTHER: &str = "other";

/// The rules that are there without a file of one's own.
pub const BUILT_IN: &str = include_str!("../../assets/categories.txt");

/// Bytes a compiled rule may take: a pattern such as `\w{9999}` is refused, not obeyed.
const LARGEST_RULE: usize = 1 << 20;
/// Categories are told apart by a byte.
const MOST_CATEGORIES: usize = 200;

/// The row of a category in [`Categories::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CategoryId(pub u8);

/// Rules, shared. Two are equal if their files are.
#[derive(Clone, Debug)]
pub struct Categories(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    text: String,
    names: Vec<String>,
    rules: Vec<(CategoryId, Regex)>,
    faults: Vec<String>,
}

impl Categories {
    /// Reads a file of rules.
    pub fn parse(text: &str) -> Categories {
        let mut found = Rules { text: text.to_owned(), names: Vec::new(), rules: Vec::new(), faults: Vec::new() };
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(fault) = found.add(line) {
                found.faults.push(format!("Line {number} of the categories is left out: {fault}."));
            }
        }
        found.names.push(OTHER.to_owned());
        Categories(Arc::new(found))
    }
    /// The rules that are there without a file of one's own.
    pub fn built_in() -> Categories {
        static RULES: LazyLock<Categories> = LazyLock::new(|| Categories::parse(BUILT_IN));
        RULES.clone()
    }
    /// The names of the categories, in the order of the file, [`OTHER`] last.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }
    /// The name of a category; [`OTHER`] for an id of other rules.
    pub fn name(&self, category: CategoryId) -> &str {
        self.0.names.get(usize::from(category.0)).map_or(OTHER, String::as_str)
    }
    /// The category of stacks to which no rule applies.
    pub fn other(&self) -> CategoryId {
        CategoryId((self.0.names.len() - 1) as u8)
    }
    /// What is wrong in the file, one sentence a line of it.
    pub fn faults(&self) -> &[String] {
        &self.0.faults
    }
    /// The category of each stack, by row of the table; each frame is looked at once.
    pub fn of(&self, stacks: &StackTable) -> Vec<CategoryId> {
        let none = self.0.rules.len();
        let first = |frame: FrameId| {
            let line = stacks.line(frame);
            self.0.rules.iter().position(|(_, rule)| rule.is_match(&line)).unwrap_or(none)
        };
        let frames: Vec<usize> = (0..stacks.frame_count()).map(FrameId::of_row).map(first).collect();
        let category = |stack: StackId| {
            let rule = stacks.frames(stack).iter().map(|frame| frames[frame.row()]).min().unwrap_or(none);
            self.0.rules.get(rule).map_or(self.other(), |(category, _)| *category)
        };
        (0..stacks.len()).map(StackId::of_row).map(category).collect()
    }
}

impl Rules {
    fn add(&mut self, line: &str) -> Result<(), String> {
        let (name, pattern) = line.split_once(':').ok_or("a rule reads `name: pattern`, and there is no colon")?;
        let (name, pattern) = (name.trim(), pattern.trim());
        if name.is_empty() {
            return Err("there is no name before the colon".to_owned());
        }
        if pattern.is_empty() {
            return Err(format!("there is no pattern behind `{name}:`"));
        }
        if name == OTHER {
            return Err(format!("`{OTHER}` is what no rule applies to, so it needs none"));
        }
        let rule = RegexBuilder::new(pattern).size_limit(LARGEST_RULE).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => format!("the pattern of `{name}` is too large"),
            // The library draws the place of the fault over several lines; the last one says what it is.
            error => {
                let told = error.to_string();
                let why = told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                format!("the pattern of `{name}` is no regular expression ({why})")
            }
        })?;
        let known = self.names.iter().position(|other| other == name);
        if known.is_none() && MOST_CATEGORIES <= self.names.len() {
            return Err(format!("there are more than {MOST_CATEGORIES} categories"));
        }
        let row = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.rules.push((CategoryId(row as u8), rule));
        Ok(())
    }
}

impl Default for Categories {
    fn default() -> Self {
        Categories::built_in()
    }
}
impl PartialEq for Categories {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}
impl Eq for Categories {}
impl Hash for Categories {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal texts make equal names; the whole text would be hashed anew every frame.
        self.0.names.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Frame;

    /// A table with one stack a row; frames are written `file:line function`.
    fn table(rows: &[&[&str]]) -> (StackTable, Vec<StackId>) {
        let mut stacks = StackTable::default();
        let ids = rows.iter().map(|frames| {
            let frames: Vec<FrameId> = frames
                .iter()
                .map(|line| {
                    let (place, function) = line.split_once(' ').expect("a function");
                    let (file, line) = place.rsplit_once(':').expect("a line");
                    let (name, filename) = (stacks.strings.intern(function), stacks.strings.intern(file));
                    stacks.intern_frame(Frame { name, filename, line: line.parse().expect("a number") })
                })
                .collect();
            stacks.intern(&frames)
        });
        let ids = ids.collect();
        (stacks, ids)
    }

    #[test]
    fn the_first_rule_found_in_any_frame_names_the_stack() {
        let rules = Categories::parse("# mine\n\nattention: attention\\.py\n mlp : Mlp|mlp\\.py:4\\d\nattention: flash_attn\n");
        assert_eq!((rules.faults(), rules.names()), (&[][..], &["attention", "mlp", OTHER].map(str::to_owned)[..]));
        let (stacks, ids) = table(&[
            &["mlp.py:41 forward", "attention.py:1 forward"],
            &["mlp.py:41 forward", "train.py:1 main"],
            &["mlp.py:51 forward"],
            &["x.cpp:0 flash_attn::run", "mlp.py:42 forward"],
            &["model.py:3 Mlp.forward"],
            &["train.py:1 main"],
        ]);
        let of = rules.of(&stacks);
        let names: Vec<&str> = ids.iter().map(|id| rules.name(of[id.row()])).collect();
        assert_eq!(names, ["attention", "mlp", OTHER, "mlp", "mlp", OTHER]);
        assert_eq!(rules.name(of[0]), OTHER, "the empty stack");
        assert_eq!(rules.name(CategoryId(99)), OTHER);
    }

    #[test]
    fn a_bad_line_is_told_and_the_others_work() {
        let large = format!("large: {}", r"\w{2000}".repeat(9));
        for (text, fault) in [
            (
                "good: a\nno colon here",
                "Line 2 of the categories is left out: a rule reads `name: pattern`, and there is no colon.",
            ),
            (": a\ngood: a", "Line 1 of the categories is left out: there is no name before the colon."),
            ("good: a\n\nx:", "Line 3 of the categories is left out: there is no pattern behind `x:`."),
            (
                "good: a\nx: (",
                "Line 2 of the categories is left out: the pattern of `x` is no regular expression (unclosed group).",
            ),
            ("other: a\ngood: a", "Line 1 of the categories is left out: `other` is what no rule applies to, so it needs none."),
            (&format!("{large}\ngood: a"), "Line 1 of the categories is left out: the pattern of `large` is too large."),
        ] {
            let rules = Categories::parse(text);
            assert_eq!(rules.faults(), [fault]);
            assert_eq!(rules.names(), ["good", OTHER]);
        }
        let many: String = (0..300).map(|n| format!("c{n}: {n}\n")).collect();
        let rules = Categories::parse(&many);
        assert_eq!((rules.names().len(), rules.faults().len()), (MOST_CATEGORIES + 1, 100));
        assert_eq!(rules.names()[usize::from(rules.other().0)], OTHER);
        assert_eq!(Categories::parse("").names(), [OTHER]);
    }

    #[test]
    fn the_built_in_rules_know_what_pytorch_does() {
        let rules = Categories::built_in();
        assert!(rules.faults().is_empty(), "{:?}", rules.faults());
        let site = "/usr/lib/python3/site-packages";
        let rows = [
            ("activations", vec![format!("{site}/torch/nn/modules/linear.py:116 forward"), "train.py:9 main".to_owned()]),
            ("activations", vec!["model.py:41 forward".to_owned()]),
            ("gradients", vec![format!("{site}/torch/autograd/graph.py:744 _engine_run_backward"), "train.py:9 main".to_owned()]),
            ("gradients", vec!["??:0 torch::autograd::Engine::thread_main(...)".to_owned()]),
            ("optimizer state", vec![format!("{site}/torch/optim/adam.py:166 _init_group"), "train.py:9 main".to_owned()]),
            ("parameters", vec![format!("{site}/torch/nn/modules/linear.py:98 __init__"), "model.py:3 __init__".to_owned()]),
            ("parameters", vec![format!("{site}/torch/nn/modules/module.py:1150 convert"), "train.py:9 main".to_owned()]),
            ("data loading", vec![format!("{site}/torch/utils/data/_utils/pin_memory.py:60 pin_memory")]),
            ("communication", vec![format!("{site}/torch/distributed/distributed_c10d.py:2050 all_reduce")]),
            ("compile", vec!["/tmp/torchinductor_u/ab/cab.py:80 call".to_owned(), "train.py:9 main".to_owned()]),
            // Plain code passes through this one too.
            ("activations", vec!["model.py:41 forward".to_owned(), format!("{site}/torch/_dynamo/eval_frame.py:1263 _fn")]),
            (OTHER, vec!["train.py:9 main".to_owned()]),
        ];
        let lines: Vec<Vec<&str>> = rows.iter().map(|(_, lines)| lines.iter().map(String::as_str).collect()).collect();
        let (stacks, ids) = table(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let of = rules.of(&stacks);
        for (id, (name, lines)) in ids.iter().zip(&rows) {
            assert_eq!(rules.name(of[id.row()]), *name, "{lines:?}");
        }
    }
}
