//! Small shared pieces with names of their own. No I/O, no clock, no entropy.
//!
//! `unsafe` is allowed here and in `net` only; each block says why it is sound.

pub mod key;
