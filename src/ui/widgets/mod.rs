//! Building blocks of views: a canvas for pictures, stacks, sizes, signs, a legend.

pub mod block_list;
pub mod byte_label;
pub mod canvas;
pub mod icon;
pub mod legend;
pub mod pictures;
pub mod set_chooser;
pub mod span_hand;
pub mod stack_list;
pub mod table;
pub mod text;
pub mod time_hand;
