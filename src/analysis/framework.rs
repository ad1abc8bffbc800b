//! Which frames are PyTorch's, Python's or the system's, and which are the user's program.
//!
//! Always: one rule for the whole house; a stack is named by the innermost frame of the user's own program,
//! because frames of PyTorch, Python and the system look alike in every stack.

use crate::base::StringId;
use crate::base::id::Id as _;
use crate::model::{FrameId, StackId, StackTable};
use rustc_hash::FxHashMap;

/// Whether a frame belongs to PyTorch, Python or the system rather than to the user's program.
pub fn is_framework(file: &str, function: &str) -> bool {
    is_framework_file(file) || (!file.ends_with(".py") && is_framework_symbol(function))
}

/// The frame that names a stack: the innermost of the user's program, else autograd's node (backward threads know
/// no other name), else the operator, else the innermost; and how many frames inside of it were folded.
pub fn telling_frame(stacks: &StackTable, stack: StackId) -> Option<(FrameId, usize)> {
    let frames = stacks.frames(stack);
    let own = frames.iter().position(|frame| !is_framework(stacks.file(*frame), stacks.function(*frame)));
    let named = |rank: Rank| frames.iter().position(|frame| Rank::of_framework(stacks.function(*frame)) == rank);
    let place = own.or_else(|| named(Rank::Autograd)).or_else(|| named(Rank::Operator)).unwrap_or(0);
    frames.get(place).map(|frame| (*frame, place))
}

/// The user's frames of a stack, innermost first, at most `limit`.
pub fn own_frames(stacks: &StackTable, stack: StackId, limit: usize) -> Vec<FrameId> {
    let own = |frame: &&FrameId| !is_framework(stacks.file(**frame), stacks.function(**frame));
    stacks.frames(stack).iter().filter(own).take(limit).copied().collect()
}

/// How well a frame names its stack, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Autograd,
    Operator,
    Other,
}

impl Rank {
    fn of_framework(function: &str) -> Rank {
        if function.contains("autograd::generated::") {
            Rank::Autograd
        } else if function.contains("at::_ops::") {
            Rank::Operator
        } else {
            Rank::Other
        }
    }
}

/// The rule for every frame of a table, for whoever asks about all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameworkFrames {
    ranks: Vec<Rank>,
}

impl FrameworkFrames {
    /// Asks the rule once a frame; files, which many frames share, are searched once each.
    pub fn of(stacks: &StackTable) -> FrameworkFrames {
        let mut files: FxHashMap<StringId, (bool, bool)> = FxHashMap::default();
        let ranks = (0..stacks.frame_count()).map(|row| {
            let frame = stacks.frame(FrameId::of_row(row));
            let (framework, python) = *files.entry(frame.filename).or_insert_with(|| {
                let file = stacks.strings.get(frame.filename);
                (is_framework_file(file), file.ends_with(".py"))
            });
            let function = stacks.strings.get(frame.name);
            if framework || (!python && is_framework_symbol(function)) { Rank::of_framework(function) } else { Rank::Own }
        });
        FrameworkFrames { ranks: ranks.collect() }
    }
    /// Whether a frame of the table is the framework's.
    pub fn has(&self, frame: FrameId) -> bool {
        self.ranks.get(frame.row()).is_some_and(|rank| *rank != Rank::Own)
    }
    /// The frame that names a stack, given innermost first: as [`telling_frame`] says.
    pub fn telling(&self, frames: &[FrameId]) -> Option<FrameId> {
        frames.iter().copied().min_by_key(|frame| self.ranks.get(frame.row()).copied().unwrap_or(Rank::Own))
    }
}

fn is_framework_file(file: &str) -> bool {
    const PARTS: [&str; 17] = [
        "/torch/",
        "\\torch\\",
        "site-packages/",
        "dist-packages/",
        "<frozen",
        "/lib/python",
        "/csrc/",
        "/aten/",
        "/c10/",
        "Python/",
        "Objects/",
        "Modules/",
        // Native stacks name the library a frame lies in.
        "libcuda.so",
        "libcudart.so",
        "libpython",
        "/libc.so",
        "/libstdc++.so",
    ];
    file.is_empty() || file == "??" || PARTS.iter().any(|part| file.contains(part))
}

/// Whether a function outside Python files is one of PyTorch's, Python's or the C library's.
fn is_framework_symbol(function: &str) -> bool {
    const STARTS: [&str; 9] = ["at::", "c10", "_Py", "Py", "std::", "__libc", "_start", "clone", "start_thread"];
    // C++ names carry their return type and template arguments in front, so these may stand anywhere.
    const PARTS: [&str; 3] = ["torch::", "at::native", "c10::"];
    STARTS.iter().any(|start| function.starts_with(start)) || PARTS.iter().any(|part| function.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Frame;

    #[test]
    fn frames_of_the_framework_are_known() {
        let mut stacks = StackTable::default();
        let table = [
            ("/home/u/train.py", "forward", false),
            ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward", true),
            ("??", "main", true),
            ("", "at::native::add", true),
            ("/src/kernels.cpp", "at::empty", true),
            ("/src/kernels.cpp", "my::kernel", false),
            ("/home/u/train.py", "clone", false),
            ("pthread_create.c", "start_thread", true),
            ("python_variable_methods.cpp", "_object* torch::autograd::TypeError(_object*)", true),
            ("<frozen runpy>", "_run_code", true),
            ("", "torch::autograd::generated::AddmmBackward0::apply", true),
            ("", "at::_ops::addmm::call", true),
            ("libcuda.so.1", "cuMemAlloc_v2", true),
            ("/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6+0x2724a", true),
            ("/usr/bin/solver", "main", false),
        ];
        let ids = table.map(|(file, function, framework)| {
            assert_eq!(is_framework(file, function), framework, "{file} {function}");
            let (name, filename) = (stacks.strings.intern(function), stacks.strings.intern(file));
            stacks.intern_frame(Frame { name, filename, line: 1 })
        });
        let all = FrameworkFrames::of(&stacks);
        assert_eq!(ids.map(|id| all.has(id)), table.map(|(_, _, framework)| framework));
        for (stack, place) in [(&[1, 2, 0, 9][..], 2), (&[1, 2], 0), (&[11, 2, 10, 1], 2), (&[2, 11, 1], 1)] {
            let frames: Vec<FrameId> = stack.iter().map(|row| ids[*row]).collect();
            let stack = stacks.intern(&frames);
            assert_eq!(telling_frame(&stacks, stack), Some((frames[place], place)), "{frames:?}");
            assert_eq!(all.telling(&frames), Some(frames[place]), "{frames:?}");
            let own = frames.iter().filter(|frame| **frame == ids[0]).copied().collect::<Vec<_>>();
            assert_eq!(own_frames(&stacks, stack, 3), own);
        }
    }
}
