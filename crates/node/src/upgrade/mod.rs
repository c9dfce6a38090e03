//! Live upgrade: a node hands everything over to another process without a visible interruption.
//!
//! Beside the path. The old process starts the new one, whose standard input is one end of a
//! control socket ([`net::system::Passage`]), and both go through two phases
//! (`docs/decisions/0011-live-upgrade.md`):
//!
//! 1. The old process continues to serve, and sends copies of its listeners and sockets. At the end
//!    of the phase, running TLS handshakes complete and no others begin.
//! 2. All shards stop between two of their turns, with nothing in flight between them and to logs
//!    on disk. Each sends its state, the memory of its segments, and its list of sockets; logs on
//!    disk are closed, and their locks are sent. The new process builds its shards, opens the logs
//!    without writing to them, and reports that it is ready. Then one message and its answer are
//!    the commit.
//!
//! Invariants: before the answer, the new process changes nothing that the old one needs, so the
//! old one continues if anything fails, is late, or the new process dies; after it, the old process
//! only ends. Every wait is bounded. Processes with different state layouts
//! ([`crate::reactor::state_layout`]) do not begin.

mod giving;
mod inherited;
mod messages;
mod taking;
mod thread;

pub use crate::fail::{SWITCHES, fail_at};
pub(crate) use giving::Coordinator;
pub use giving::{Giving, UpgradeError};
pub(crate) use inherited::Inherited;
pub(crate) use messages::{FREEZE_PATIENCE, Hello};
pub(crate) use taking::Adopting;
pub use taking::{INHERIT, Inheritance};
pub(crate) use thread::{Adoption, Given, adopt};

/// Reads bytes as each kind of message with values, for the fuzz target, and writes the values
/// again. None where the bytes are not such a message.
#[cfg(feature = "fuzzing")]
pub fn read_messages(bytes: &[u8]) -> [Option<Vec<u8>>; 4] {
    use stdx::handing::{Hand, Input};
    fn again<T: Hand>(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut input = Input::new(bytes);
        let value = T::take(&mut input)?;
        let mut out = Vec::new();
        value.give(&mut out);
        // The rest belongs to other values.
        out.extend_from_slice(&bytes[bytes.len() - input.left()..]);
        Some(out)
    }
    [
        again::<messages::Hello>(bytes),
        again::<Vec<net::Conn>>(bytes),
        again::<Vec<u64>>(bytes),
        crate::logs::read_again(bytes),
    ]
}
