//! The native protocol (`spec/protocol.md`): frames to commands, and notices to frames.

pub(crate) mod decode;
pub(crate) mod encode;

/// Clients cannot ask for pings more often than this.
pub(crate) const PING_INTERVAL_MIN_S: u32 = 5;
