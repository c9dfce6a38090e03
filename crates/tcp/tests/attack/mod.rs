//! The attacks, and the host that they are on.

mod addresses;
mod blind;

mod flood;
mod greedy;
mod host;
