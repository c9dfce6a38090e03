//! What [`crate::Tls`] keeps of one connection.
//!
//! Place: entries of its slab. Invariant: an idle connection owns an [`Open`] and nothing else.

use net::Conn;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use std::sync::atomic::AtomicU64;
use stdx::handing::Hand;

use crate::counters::Counters;
use crate::handshake::Handshake;
use crate::record::{Inbox, RecordLayer, Version};

/// One connection with TLS.
pub(crate) struct Connection {
    pub(crate) conn: Conn,
    pub(crate) flags: Flags,
    pub(crate) state: State,
}

const _: () = assert!(size_of::<Connection>() <= 32);

/// How far it is.
pub(crate) enum State {
    /// Accepted; the peer has said nothing.
    Fresh,
    /// Within the handshake.
    Handshake(Box<Handshake>),
    /// Established.
    Open(Box<Open>),
}

/// An established connection.
pub(crate) struct Open {
    pub(crate) layer: RecordLayer,
    /// Takes session tickets, on a client that resumes.
    pub(crate) tickets: Option<Box<KernelConnection<ClientConnectionData>>>,
    /// Only while there is something in it.
    pub(crate) buffers: Option<Box<Buffers>>,
}

// What TLS 1.3 costs an idle connection beyond plain, the allocator's own not counted; with the
// slot of 32.
const _: () = assert!(size_of::<Open>() <= 264);

/// Bytes that belong to a connection for the moment.
#[derive(Default, Hand)]
pub(crate) struct Buffers {
    /// Records that have come and are not complete, or were not wanted yet.
    pub(crate) records: Vec<u8>,
    /// Text that the reader had no room for, from `text_from` on.
    pub(crate) text: Vec<u8>,
    pub(crate) text_from: usize,
    /// What the socket did not take of a record, or the end of the handshake.
    pub(crate) tail: Vec<u8>,
    /// Unfinished messages after the handshake.
    pub(crate) inbox: Inbox,
}

impl Buffers {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.text.is_empty()
            && self.tail.is_empty()
            && self.inbox.message.is_empty()
            && self.inbox.tickets.is_empty()
    }

    fn bytes(&self) -> usize {
        size_of::<Buffers>()
            + self.records.capacity()
            + self.text.capacity()
            + self.tail.capacity()
            + self.inbox.message.capacity()
    }
}

impl Open {
    /// Takes the buffers out, to be given back.
    pub(crate) fn take_buffers(&mut self) -> Buffers {
        self.buffers.take().map(|buffers| *buffers).unwrap_or_default()
    }

    /// Keeps what is in them, if anything.
    pub(crate) fn give_buffers(&mut self, buffers: Buffers) {
        self.buffers = (!buffers.is_empty()).then(|| Box::new(buffers));
    }

    /// Whether the socket still owes the peer a part of a record.
    pub(crate) fn has_tail(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| !buffers.tail.is_empty())
    }

    /// Keeps the rest of a record to be sent later.
    pub(crate) fn keep_tail(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.buffers.get_or_insert_default().tail.extend_from_slice(rest);
        }
    }
}

impl Connection {
    pub(crate) fn new(conn: Conn, state: State, flags: Flags) -> Connection {
        Connection { conn, flags, state }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        !matches!(self.state, State::Open(_))
    }

    /// Whether there is a handshake that only the library knows.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.state, State::Handshake(_))
    }

    /// What its state takes, without buffers. Of a handshake the library's own allocations are not
    /// known.
    pub(crate) fn state_bytes(&self) -> u64 {
        let state = match &self.state {
            State::Fresh => 0,
            State::Handshake(_) => Handshake::BYTES,
            State::Open(open) => {
                let tickets = open
                    .tickets
                    .as_ref()
                    .map_or(0, |_| size_of::<KernelConnection<ClientConnectionData>>());
                size_of::<Open>() + tickets
            }
        };
        (size_of::<Connection>() + state) as u64
    }

    /// What its buffers take.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let bytes = match &self.state {
            State::Fresh => 0,
            State::Handshake(handshake) => handshake.buffer_bytes(),
            State::Open(open) => open.buffers.as_ref().map_or(0, |buffers| buffers.bytes()),
        };
        bytes as u64
    }

    /// The gauge that counts connections in this state.
    pub(crate) fn gauge<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        match &self.state {
            State::Fresh | State::Handshake(_) => &counters.handshaking,
            State::Open(open) => match open.layer.version() {
                Version::Tls12 => &counters.open_tls12,
                Version::Tls13 => &counters.open_tls13,
            },
        }
    }
}

/// A set of small facts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hand)]
pub(crate) struct Flags(u16);

impl Flags {
    /// `Readable` was said and the reader has not been told that there is nothing left.
    pub(crate) const READ_TOLD: Flags = Flags(1);
    /// The network has said `Readable` and was not read empty since.
    pub(crate) const NET_READY: Flags = Flags(1 << 1);
    /// The writer was told that there is no room: the next room is worth a `Writable`.
    pub(crate) const WRITE_BLOCKED: Flags = Flags(1 << 2);
    /// In the list of handshakes that have something to do.
    pub(crate) const QUEUED: Flags = Flags(1 << 3);
    /// In the list of connections that are readable again.
    pub(crate) const AGAIN: Flags = Flags(1 << 4);
    /// The peer has ended its stream by `close_notify`.
    pub(crate) const ENDED: Flags = Flags(1 << 5);
    /// The peer's stream was cut off.
    pub(crate) const CUT: Flags = Flags(1 << 6);
    /// A fault, after which nothing is read or written. Of a connection that was not established:
    /// its handshake stayed with the process before.
    pub(crate) const FAILED: Flags = Flags(1 << 7);
    /// The caller has closed it; it lives until its last record is sent.
    pub(crate) const CLOSED: Flags = Flags(1 << 8);
    /// The caller has ended our direction.
    pub(crate) const SHUT: Flags = Flags(1 << 9);
    /// We began the connection, and its `Connected` is told after the handshake.
    pub(crate) const CLIENT: Flags = Flags(1 << 10);
    /// The end of the handshake is not sent yet: it goes with the first text, or in the next poll.
    pub(crate) const HELD: Flags = Flags(1 << 11);
    /// Our `close_notify` is sealed.
    pub(crate) const NOTIFIED: Flags = Flags(1 << 12);

    pub(crate) fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 == flag.0
    }

    pub(crate) fn has_any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    pub(crate) fn set(&mut self, flag: Flags) {
        self.0 |= flag.0;
    }

    pub(crate) fn clear(&mut self, flag: Flags) {
        self.0 &= !flag.0;
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}
