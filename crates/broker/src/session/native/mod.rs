//! The native protocol (`spec/protocol.md`): frames to commands. `native_notices` has the way back.

pub(crate) mod decode;

/// Clients cannot ask for pings more often than this.
pub(crate) const PING_INTERVAL_MIN_S: u32 = 5;
