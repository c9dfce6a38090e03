//! The state of one connection in [`crate::Tls`].
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

/// The stage of a connection.
pub(crate) enum State {
    /// Accepted; nothing was read from the peer.
    Fresh,
    /// Within the handshake.
    Handshake(Box<Handshake>),
    /// Established.
    Open(Box<Open>),
}

/// An established connection.
pub(crate) struct Open {
    pub(crate) layer: RecordLayer,
    /// The store of session tickets, on a client that resumes.
    pub(crate) tickets: Option<Box<KernelConnection<ClientConnectionData>>>,
    /// Buffers; none while they are empty.
    pub(crate) buffers: Option<Box<Buffers>>,
}

// The cost of TLS 1.3 for an idle connection, without the allocator's overhead; the slot has 32.
const _: () = assert!(size_of::<Open>() <= 264);

/// The buffered bytes of a connection.
#[derive(Default, Hand)]
pub(crate) struct Buffers {
    /// Received records that are incomplete, or were not read yet.
    pub(crate) records: Vec<u8>,
    /// Text for which the reader had no room, from `text_from` on.
    pub(crate) text: Vec<u8>,
    pub(crate) text_from: usize,
    /// The rest of a record that the socket did not take, or the end of the handshake.
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
    /// Lends the buffers, until `give_buffers`.
    pub(crate) fn take_buffers(&mut self) -> Buffers {
        self.buffers.take().map(|buffers| *buffers).unwrap_or_default()
    }

    /// Stores the buffers again, unless they are empty.
    pub(crate) fn give_buffers(&mut self, buffers: Buffers) {
        self.buffers = (!buffers.is_empty()).then(|| Box::new(buffers));
    }

    /// Whether a part of a record is still to be sent.
    pub(crate) fn has_tail(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| !buffers.tail.is_empty())
    }

    /// Stores the rest of a record, to be sent later.
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

    /// Whether a handshake is running.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.state, State::Handshake(_))
    }

    /// Bytes of the state, without buffers. The library's allocations for a handshake are unknown.
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

    /// Bytes of the buffers.
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
    /// `Readable` was reported, and no read has returned `Blocked` or was short since.
    pub(crate) const READ_TOLD: Flags = Flags(1);
    /// The network has reported `Readable`, and was not read empty since.
    pub(crate) const NET_READY: Flags = Flags(1 << 1);
    /// A write was blocked or short: `Writable` is reported when there is room.
    pub(crate) const WRITE_BLOCKED: Flags = Flags(1 << 2);
    /// In the list of handshakes with work to do.
    pub(crate) const QUEUED: Flags = Flags(1 << 3);
    /// In the list of connections that are readable again.
    pub(crate) const AGAIN: Flags = Flags(1 << 4);
    /// The peer has ended its stream by `close_notify`.
    pub(crate) const ENDED: Flags = Flags(1 << 5);
    /// The peer's stream was cut off.
    pub(crate) const CUT: Flags = Flags(1 << 6);
    /// A fault, after which nothing is read or written. On a connection that is not established:
    /// its handshake stayed with the previous process.
    pub(crate) const FAILED: Flags = Flags(1 << 7);
    /// The caller has closed it; it lives until its last record is sent.
    pub(crate) const CLOSED: Flags = Flags(1 << 8);
    /// The caller has ended our direction.
    pub(crate) const SHUT: Flags = Flags(1 << 9);
    /// An outgoing connection, whose `Connected` is reported after the handshake.
    pub(crate) const CLIENT: Flags = Flags(1 << 10);
    /// The end of the handshake is not sent yet: it goes with the first data, or in the next poll.
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
