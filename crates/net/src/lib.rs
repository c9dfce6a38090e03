//! The one seam between Crore and any network: connections and byte streams ([`Net`]), the start of
//! a kind of network ([`Transport`]), and its hand-over to another process ([`Passing`]).
//!
//! First and last step of a message's path: bytes of a ready connection land in the reactor's
//! receive buffer through [`Net::read`], and at the end of the turn dirty connections leave through
//! [`Net::write`]. The kernel's sockets ([`kernel`]) are one implementation, a TCP of our own
//! ([`user`]) is another, [`mixed`] has both, and the simulator and tests have theirs. All of them
//! keep the rules below.
//!
//! # Rules
//!
//! - **One thread.** A `Net` belongs to one reactor. Others reach it by [`Wake`] only.
//! - **Edges.** [`Event::Readable`] is reported once, and again only after a read returned
//!   [`Read::Blocked`] or fewer bytes than the buffer could take (a *short* read). Until then the
//!   connection counts as readable, and a caller whose budget ran out keeps it in a list of its
//!   own. After a short read the caller may stop: later bytes, and an end of the stream that was
//!   already there, are announced by a new `Readable`.
//! - **Writing** is allowed from [`Event::Accepted`] or [`Event::Connected`] on, without waiting.
//!   [`Event::Writable`] is reported once after a write that returned [`Write::Blocked`] or took
//!   fewer bytes than offered, as soon as there is room again; and at no other time.
//! - **The end of the peer's stream** is [`Read::Ended`]; our own direction stays open until
//!   [`Net::close`] or [`Net::shutdown_write`].
//! - **A lost connection is read first.** Bytes that came before the loss are reported by
//!   `Readable`, and [`Read::Failed`] follows them. Until then writes are taken and dropped, like
//!   bytes in the buffer of a connection that is lost a moment later.
//! - **Failure.** [`Event::Closed`], [`Read::Failed`] and [`Write::Failed`] report a lost
//!   connection. After `Closed` the key is dead and no call is needed; after the other two
//!   (as after `Ended`) the caller calls `close`, and `Closed` may come before it does.
//! - **Closing** takes effect in the next [`Net::poll`], before that poll waits, so that an index
//!   is never reused within one turn. From the call on, reads and writes on the key fail with
//!   `NotConnected` and no event for it ever appears: a `poll` that already returned may have left
//!   such events in the caller's list, which the caller skips by its own state.
//! - **Order** within one `poll`, for one connection: `Accepted` or `Connected`, `Readable`,
//!   `Writable`, `Closed`.
//! - **Bounds.** One `poll` returns a bounded number of events and accepts a bounded number of
//!   connections, whatever the peers do.
#![deny(clippy::unwrap_used)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;
use stdx::memory::Components;

mod counters;
pub mod device;
pub mod kernel;
pub mod mixed;
mod passing;
pub mod system;
mod transport;
pub mod user;

pub use counters::{AcceptErrors, Count, Counters, Statistics, UserStatistics};
pub use passing::{Copying, Passing, SendCopies};
pub use transport::{ListenerOptions, OpenError, OpenOptions, Opened, Transport, Unopened};

/// Time for a handshake that has begun to complete after [`Net::stop_accepting`].
pub const LISTENERS_END: Duration = Duration::from_millis(500);

/// Names one connection of one [`Net`].
///
/// `index` is small and dense, so that it may index the caller's slab; `generation` tells its
/// occupants apart and is never 0.
pub type Conn = stdx::key::Key;

/// An event of [`Net::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer has connected to us; it may be written to at once.
    Accepted {
        /// The new connection.
        conn: Conn,
        /// Its address.
        peer: SocketAddr,
        /// Which of the listeners, in the order in which they were opened, from 0.
        listener: u8,
    },
    /// A connection that we began is established; it may be written to at once.
    Connected(Conn),
    /// Bytes, or the end of the peer's stream, can be read.
    Readable(Conn),
    /// There is room again after a write that was blocked or short.
    Writable(Conn),
    /// The connection is lost, or could not be established. Its key is dead; everything that came
    /// was read.
    Closed {
        /// The lost connection.
        conn: Conn,
        /// The reason: `ConnectionReset`, `ConnectionRefused`, `TimedOut`, ...
        reason: io::ErrorKind,
    },
    /// A thread called [`Wake::wake`]; reported at most once per poll.
    Woken,
}

/// A peer that has proved by a certificate who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certified {
    /// The connection.
    pub conn: Conn,
    /// The name in the certificate: 1 to 255 bytes without control characters.
    pub name: String,
    /// The end of the certificate's validity, in seconds since 1970.
    pub expires_s: u64,
}

/// The answer of [`Net::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// This number of bytes, at least one, is now at the start of the buffer.
    Data(usize),
    /// No bytes at present; `Readable` will follow.
    Blocked,
    /// The peer has ended its stream and everything before the end was read.
    Ended,
    /// The connection is lost; close it.
    Failed(io::ErrorKind),
}

/// The answer of [`Net::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// This number of bytes of the parts, from the first on, was taken. Fewer than offered means
    /// that there is no more room: `Writable` will follow.
    Wrote(usize),
    /// No room at all at present; `Writable` will follow.
    Blocked,
    /// The connection is lost; close it.
    Failed(io::ErrorKind),
}

/// The way in which [`Net::close`] ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// The written bytes still go out, then FIN (RFC 9293, 3.10.4). The peer's later bytes are
    /// discarded for a short while, so that they do not turn the end into a reset, which would
    /// destroy the last written bytes.
    Graceful,
    /// RST at once; written bytes that were not sent are discarded.
    Reset,
}

/// Connections and byte streams of one reactor. The module's introduction holds the rules.
pub trait Net {
    /// Waits for events, at most for `timeout` (`None`: without limit; zero: not at all), and
    /// appends them to `events`. First carries out the closes requested since the last poll. The
    /// kernel's sockets round a timeout up to whole milliseconds.
    ///
    /// # Errors
    /// The network as a whole is unusable; a connection's failure is an event.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// Reads into `buffer`, which must not be empty. One system call at most.
    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read;

    /// Writes the parts one after another, as if they were one. With no bytes at all it is
    /// `Wrote(0)`.
    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write;

    /// Ends our direction: the written bytes go out, then FIN; the peer's bytes still arrive.
    /// Nothing can be written afterwards. No effect on a dead key.
    fn shutdown_write(&mut self, conn: Conn);

    /// Ends the connection in the next poll and forgets the key now. No effect on a dead key.
    fn close(&mut self, conn: Conn, how: Close);

    /// Sets the time after which the connection is lost (`TimedOut`, or `HostUnreachable`) if the
    /// peer acknowledges nothing of the written bytes, or has no room for waiting ones. Without it
    /// the kernel takes a quarter of an hour to give up a peer whose host has vanished, and waits
    /// for room without limit. A network whose peers cannot vanish has nothing to do. No effect on
    /// a dead key.
    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        let _ = (conn, within);
    }

    /// The time since a connection's peer was heard, if only by an acknowledgement. None if this
    /// network does not know, or the key is dead.
    fn heard(&self, conn: Conn) -> Option<Duration> {
        let _ = conn;
        None
    }

    /// Whether [`Net::heard`] has answers.
    fn knows_heard(&self) -> bool {
        false
    }

    /// The address of a connection's peer, if it is still known. For operators' queries: it may
    /// cost a system call.
    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        let _ = conn;
        None
    }

    /// Whether this network encrypts the connection.
    fn is_encrypted(&self, conn: Conn) -> bool {
        let _ = conn;
        false
    }

    /// Takes the peers that have proved who they are since the last call. Each is reported in the
    /// poll before its first bytes.
    fn take_certified(&mut self) -> Vec<Certified> {
        Vec::new()
    }

    /// Suspends accepting from all listeners; peers wait in the listeners' queues.
    fn pause_accepting(&mut self);

    /// Ends accepting from all listeners: handshakes that have begun may still complete for
    /// [`LISTENERS_END`], then the listeners are closed.
    fn stop_accepting(&mut self) {
        self.pause_accepting();
    }

    /// Resumes accepting.
    fn resume_accepting(&mut self);

    /// Adds the bytes that the network has touched in this process's own memory, without the
    /// system's.
    fn memory(&self, memory: &mut Components) {
        let _ = memory;
    }
}

/// Makes one reactor's [`Net::poll`] return with [`Event::Woken`]. Callable from any thread.
///
/// Values that the caller stored before `wake` (with at least release ordering, as mailboxes do)
/// are visible to the reactor when it sees `Woken`. Many calls in one turn cost one system call.
pub trait Wake: Send + Sync {
    /// Wakes the reactor, now or in its next poll.
    fn wake(&self);
}
