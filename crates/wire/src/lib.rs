//! Bytes to frames and back: the codecs of every protocol of Crore.
//!
//! Place on the path: step 2. Pure: no I/O, no clock, no threads, no entropy, no knowledge of
//! topics or sessions. The server, the client, the benchmark, the simulator and the fuzzers use the
//! same codecs. [`codec`] has their common contract.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod codec;
pub mod http;
pub mod mqtt;
pub mod native;
pub mod proxy;
pub mod websocket;

pub use codec::Step;
