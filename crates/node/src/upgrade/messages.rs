//! The messages of a live upgrade, and the time limits for them.

use broker::settings::Settings;
use net::system::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, Passage};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use stdx::handing::Hand;
use zeroize::Zeroizing;

/// Time limit for the new process to read its configuration, and for its threads to start.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for copying all sockets; each step must complete within [`STEP_PATIENCE`].
pub(super) const COPY_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for one message of a working peer.
pub(super) const STEP_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for running TLS handshakes; the remaining ones are lost.
pub(super) const HANDSHAKES_PATIENCE: Duration = Duration::from_secs(3);
/// Time limit from the end of service to the commit.
pub(crate) const FREEZE_PATIENCE: Duration = Duration::from_secs(10);

/// Kinds of messages: the first byte. The second is 1 for the last part of a message.
pub(super) mod kind {
    /// To the new process: the facts about the node.
    pub const HELLO: u8 = 1;
    /// The new process understands them, and its configuration fits.
    pub const ACCEPT: u8 = 2;
    /// The new process refuses, for this reason.
    pub const REFUSE: u8 = 3;
    /// The channels to the old process's threads.
    pub const THREADS: u8 = 4;
    /// All threads of the new process have everything.
    pub const READY: u8 = 5;
    /// Take over, if you are still there.
    pub const COMMIT: u8 = 6;
    /// From here on the new process is the node.
    pub const COMMITTED: u8 = 7;
    /// The state of the authenticator that no configuration has, after its last decision.
    pub const JUDGE: u8 = 8;
    /// The index of a log on disk and its thread's state, with its lock; one for each log, before
    /// the authenticator.
    pub const LOG: u8 = 9;
    /// The state of the engine's thread, after those of logs on disk; none without an engine.
    pub const ENGINE: u8 = 10;
    /// To a thread: copies of the network's sockets, as the network writes them.
    pub const NETWORK: u8 = 11;
    /// Memory of segments, with their names.
    pub const SEGMENTS: u8 = 12;
    /// The network's final state, and the state of the shard.
    pub const STATE: u8 = 13;
    /// The state of connections in the layers above the network, with keys of TLS.
    pub const LAYERS: u8 = 14;
}

/// A received message.
pub(super) struct Message {
    pub kind: u8,
    /// They may contain keys.
    pub bytes: Zeroizing<Vec<u8>>,
    pub descriptors: Vec<OwnedFd>,
}

/// Sends bytes of any length, with the descriptors in the last part.
pub(super) fn send(
    to: &Passage,
    kind: u8,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
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

/// Receives a message of [`send`].
pub(super) fn receive(from: &Passage) -> io::Result<Message> {
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

/// Appends, and leaves no copy of the bytes in memory that was outgrown.
fn append(bytes: &mut Zeroizing<Vec<u8>>, chunk: &[u8]) {
    let needed = bytes.len() + chunk.len();
    if needed > bytes.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * bytes.capacity())));
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
    bytes.extend_from_slice(chunk);
}

/// The first message of the old process.
#[derive(Debug, Hand)]
pub(crate) struct Hello {
    /// The layout of a shard's state.
    pub layout: u64,
    /// The old program's version.
    pub version: String,
    pub hash_seed: (u64, u64),
    /// The start of the node's clock, in nanoseconds of the system's monotonic clock.
    pub began_ns: u64,
    pub settings: Settings,
    /// The clients' addresses; those without TLS first.
    pub addresses: Vec<String>,
    pub plain_count: usize,
    /// Number of the operators' listeners, which are the first descriptors of the message; standard
    /// input follows.
    pub operators_count: usize,
    /// The listeners behind proxies, by their numbers; none if it is empty.
    pub proxied: Vec<bool>,
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
