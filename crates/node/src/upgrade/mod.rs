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

mod fail;
mod giving;
mod log;
mod node;
mod passing;
mod taking;
mod thread;

pub use fail::{SWITCHES, fail_at};
use giving::Coordinator;
pub use giving::{Giving, UpgradeError};
pub(crate) use log::{HandedOver, LogAdoption, LogOrder};
pub(crate) use node::{Inherited, LogWay};
pub(crate) use passing::{Passing, layout};
use stdx::handing::Hand;
pub(crate) use taking::Adopting;
pub use taking::{INHERIT, Inheritance};
pub(crate) use thread::{Given, Order, adopt};

use net::system::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, Passage};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use zeroize::Zeroizing;

/// Time limit for the new process to read its configuration, and for its threads to start.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for copying all sockets; each step must complete within [`STEP_PATIENCE`].
const COPY_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for one message of a working peer.
const STEP_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for running TLS handshakes; the remaining ones are lost.
const HANDSHAKES_PATIENCE: Duration = Duration::from_secs(3);
/// Time limit from the end of service to the commit.
const FREEZE_PATIENCE: Duration = Duration::from_secs(10);

/// What a message is about: the first byte of it. The second says whether it is the last one of
/// several.
mod kind {
    /// To the new process: what the node is.
    pub const HELLO: u8 = 1;
    /// It understands that, and its configuration fits.
    pub const ACCEPT: u8 = 2;
    /// It does not; why.
    pub const REFUSE: u8 = 3;
    /// The ends for its threads.
    pub const THREADS: u8 = 4;
    /// All its threads have everything.
    pub const READY: u8 = 5;
    /// Go on, if you are still there.
    pub const COMMIT: u8 = 6;
    /// From here on the new process is the node.
    pub const COMMITTED: u8 = 7;
    /// What the judge of credentials knows that no configuration says, once nobody is judged any
    /// more.
    pub const JUDGE: u8 = 8;
    /// The index of a log on disk and what its thread knows, with its lock; before the judge, one
    /// for each.
    pub const LOG: u8 = 9;
    /// To a thread: listeners, in order.
    pub const LISTENERS: u8 = 10;
    /// Sockets with their keys.
    pub const CONNECTIONS: u8 = 11;
    /// Memory of segments, with their names.
    pub const SEGMENTS: u8 = 12;
    /// What the layers above the sockets know of connections, with keys of TLS.
    pub const LAYERS: u8 = 14;
    /// The roster of connections and the state of the shard.
    pub const STATE: u8 = 13;
}

/// A message that came, its parts put together.
struct Message {
    kind: u8,
    /// They may hold keys.
    bytes: Zeroizing<Vec<u8>>,
    descriptors: Vec<OwnedFd>,
}

/// Sends bytes of any length, with descriptors at their end.
fn send(to: &Passage, kind: u8, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut chunks = bytes.chunks(MESSAGE_BYTES_MAX - 2).peekable();
    let mut message =
        Zeroizing::new(Vec::with_capacity(bytes.len().min(MESSAGE_BYTES_MAX - 2) + 2));
    loop {
        let chunk = chunks.next().unwrap_or_default();
        let is_last = chunks.peek().is_none();
        message.clear();
        message.extend_from_slice(&[kind, u8::from(is_last)]);
        message.extend_from_slice(chunk);
        let descriptors = if is_last { descriptors } else { &[] };
        to.send(&message, descriptors)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Receives what [`send`] sent.
fn receive(from: &Passage) -> io::Result<Message> {
    let mut whole = Message { kind: 0, bytes: Zeroizing::default(), descriptors: Vec::new() };
    let mut message = Zeroizing::new(Vec::new());
    loop {
        from.receive(&mut message, &mut whole.descriptors)?;
        let Some((&[kind, is_last], chunk)) = message.split_first_chunk() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if whole.kind != 0 && whole.kind != kind {
            return Err(io::ErrorKind::InvalidData.into());
        }
        whole.kind = kind;
        append(&mut whole.bytes, chunk);
        if is_last != 0 {
            return Ok(whole);
        }
    }
}

/// Appends without leaving a copy where the bytes have been.
fn append(bytes: &mut Zeroizing<Vec<u8>>, chunk: &[u8]) {
    let needed = bytes.len() + chunk.len();
    if needed > bytes.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * bytes.capacity())));
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
    bytes.extend_from_slice(chunk);
}

/// What the old process says first.
#[derive(Debug, Hand)]
struct Hello {
    /// Of the state of shards.
    layout: u64,
    /// The old program's version.
    version: String,
    hash_seed: (u64, u64),
    /// Where the clock of the node begins, in nanoseconds of the system's monotonic clock.
    began_ns: u64,
    settings: broker::settings::Settings,
    /// Where clients connect; the plain ones first.
    addresses: Vec<String>,
    plain_count: usize,
    /// Of the descriptors that come with it: so many are the operators' listeners, then standard
    /// input.
    operators_count: usize,
    /// Which listeners proxies connect to, by their numbers; none of them if it is shorter.
    proxied: Vec<bool>,
}

/// Reads bytes as each kind of message that carries values, for the fuzz target; what was read is
/// written again. None for those that are not such a message.
#[cfg(feature = "fuzzing")]
pub fn read_messages(bytes: &[u8]) -> [Option<Vec<u8>>; 4] {
    use stdx::handing::{Hand, Input};
    fn again<T: Hand>(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut input = Input::new(bytes);
        let value = T::take(&mut input)?;
        let mut out = Vec::new();
        value.give(&mut out);
        // What follows is somebody else's.
        out.extend_from_slice(&bytes[bytes.len() - input.left()..]);
        Some(out)
    }
    [
        again::<Hello>(bytes),
        again::<Vec<net::Conn>>(bytes),
        again::<Vec<u64>>(bytes),
        crate::logs::read_again(bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_come_whole() {
        let (one, other) = Passage::pair().unwrap();
        let bytes: Vec<u8> = (0..3 * MESSAGE_BYTES_MAX as u32).map(|at| at as u8).collect();
        let sent = bytes.clone();
        let sender = std::thread::spawn(move || {
            send(&one, kind::STATE, &sent, &[]).unwrap();
            send(&one, kind::READY, &[], &[]).unwrap();
        });
        let message = receive(&other).unwrap();
        assert!(message.kind == kind::STATE && *message.bytes == bytes);
        assert_eq!(receive(&other).unwrap().kind, kind::READY);
        sender.join().unwrap();
    }
}
