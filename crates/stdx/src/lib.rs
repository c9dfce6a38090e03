//! Small shared building blocks. No I/O, no clock, no entropy.
//!
//! This crate knows no topics, connections or frames. `unsafe` is allowed here and in `net` only;
//! each block says why it is sound, and only `chunk` and `prefetch` have any.
#![deny(clippy::unwrap_used)]

// The derives name `::stdx`, in this crate as well.
extern crate self as stdx;

pub mod blocks;
pub mod chunk;
pub mod handing;
pub mod hash;
pub mod histogram;
pub mod key;
pub mod memory;
pub mod metrics;
pub mod names;
pub mod networks;
pub mod pages;
pub mod prefetch;
pub mod prng;
pub mod rate;
pub mod slab;

pub use derive::Counters;
