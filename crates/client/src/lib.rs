//! The Rust client of Crore: subscribe, publish, resume, with the proof that nothing was lost.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod proof;
pub mod session;
pub mod url;

pub use wire::native::{GapReason, Position, SkipReason, Start};
