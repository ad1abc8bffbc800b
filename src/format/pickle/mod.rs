//! A pickle reader that runs nothing: opcodes go in, values of the snapshot's own kinds come out.
//!
//! Always: one pass, no recursion, nothing of the file kept but what became a row.

pub(crate) mod machine;
pub(crate) mod opcode;
pub(crate) mod value;
pub(crate) mod writer;
