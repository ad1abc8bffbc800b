//! What runs inside any CUDA program: logs what it asks of the driver, from the first allocation to the last free.
//!
//! A library of its own, compiled by `../build.rs`, carried in the program and preloaded into a job. It defines the
//! driver's functions that take and give memory ([`hooks`]), so that a program that links the driver calls these first;
//! it defines `dlsym` and `cuGetProcAddress`, so that one that looks them up gets these ([`lookup`]); each calls the real
//! one and tells [`books`] what came of it, which [`log`] writes down.
//! Always: the program gets what the driver answered, whatever goes wrong here; a failure here is counted and ends the
//! recording, not the program. What is logged is written before the call returns, in one piece, so that a process that is
//! killed leaves a whole log. A process that never asks for memory leaves none.

mod books;
mod hooks;
mod log;
mod lookup;
mod real;
mod stacks;
