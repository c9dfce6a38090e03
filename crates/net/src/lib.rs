//! The one seam between Crore and any network: connections and byte streams, no descriptors.
//!
//! First and last step of a message's path: bytes of a ready connection land in the reactor's
//! receive buffer through [`Net::read`], and at the end of the turn dirty connections leave through
//! [`Net::write`]. The kernel's sockets ([`kernel`]) are one implementation; the simulator has its
//! own, and a TCP of our own may become another. All of them keep the rules below.
//!
//! # Rules
//!
//! - **One thread.** A `Net` belongs to one reactor. Others reach it by [`Wake`] only.
//! - **Edges.** [`Event::Readable`] is said once; it is said again only after a read returned
//!   [`Read::Blocked`] or fewer bytes than the buffer could take (a *short* read). Until then the
//!   connection counts as readable, and a caller whose budget ran out keeps it in a list of its
//!   own. After a short read the caller may stop: later bytes, and an end of the stream that was
//!   already there, are announced by a new `Readable`.
//! - **Writing** is allowed from [`Event::Accepted`] or [`Event::Connected`] on, without waiting.
//!   [`Event::Writable`] is said once after a write that returned [`Write::Blocked`] or took fewer
//!   bytes than offered, as soon as there is room again; and at no other time.
//! - **The end of the peer's stream** is [`Read::Ended`]; our own direction stays open until
//!   [`Net::close`] or [`Net::shutdown_write`].
//! - **Failure.** [`Event::Closed`], [`Read::Failed`] and [`Write::Failed`] tell that the
//!   connection is lost. After `Closed` the key is dead and no call is needed; after the other two
//!   (as after `Ended`) the caller calls `close`, and `Closed` may come before it does.
//! - **Closing** takes effect in the next [`Net::poll`], before that poll waits, so that an index
//!   is never reused within one turn. From the call on, reads and writes on the key fail with
//!   `NotConnected` and no event for it ever appears: a `poll` that already returned may have left
//!   such events in the caller's list, which the caller skips by its own state.
//! - **Order** within one `poll`, for one connection: `Accepted` or `Connected`, `Readable`,
//!   `Writable`, `Closed`.
//! - **Bounds.** One `poll` returns a bounded number of events and accepts a bounded number of
//!   connections, whatever the peers do.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;
use stdx::memory::Components;

mod counters;
pub mod kernel;
pub mod system;

pub use counters::{AcceptErrors, Count, Counters, Statistics};

/// Time for a handshake that has begun to complete after [`Net::stop_accepting`].
pub const LISTENERS_END: Duration = Duration::from_millis(500);

/// Names one connection of one [`Net`].
///
/// `index` is small and dense, so that it may index the caller's slab; `generation` tells its
/// occupants apart and is never 0.
pub type Conn = stdx::key::Key;

/// What [`Net::poll`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer has connected to us; it may be written to at once.
    Accepted {
        /// The new connection.
        conn: Conn,
        /// Where it comes from.
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
    /// The connection is lost, or could not be established. Its key is dead; bytes not yet read
    /// are gone.
    Closed {
        /// The connection that was.
        conn: Conn,
        /// Why: `ConnectionReset`, `ConnectionRefused`, `TimedOut`, ...
        reason: io::ErrorKind,
    },
    /// Somebody called [`Wake::wake`]; said at most once per poll.
    Woken,
}

/// The answer of [`Net::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// So many bytes, at least one, are now at the start of the buffer.
    Data(usize),
    /// Nothing there now; `Readable` will tell.
    Blocked,
    /// The peer has ended its stream and everything before the end was read.
    Ended,
    /// The connection is lost; close it.
    Failed(io::ErrorKind),
}

/// The answer of [`Net::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// So many bytes of the parts, from the first on, were taken. Fewer than offered means that
    /// there is no more room: `Writable` will tell.
    Wrote(usize),
    /// No room at all now; `Writable` will tell.
    Blocked,
    /// The connection is lost; close it.
    Failed(io::ErrorKind),
}

/// How [`Net::close`] ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// What was written still goes out, then FIN (RFC 9293, 3.10.4). Bytes that still come from the
    /// peer are discarded for a short while, so that they do not turn the end into a reset which
    /// would destroy what we wrote last.
    Graceful,
    /// RST at once; what was written and not yet sent is discarded.
    Reset,
}

/// Connections and byte streams of one reactor. The module's introduction holds the rules.
pub trait Net {
    /// Waits until something happened, at most for `timeout` (`None`: without limit; zero: not at
    /// all), and appends what did to `events`. First carries out the closes asked for since. The
    /// kernel's sockets round a timeout up to whole milliseconds.
    ///
    /// # Errors
    /// Only when the network as a whole is unusable; a connection's trouble is an event.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// Reads into `buffer`, which must not be empty. One system call at most.
    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read;

    /// Writes the parts one after another, as if they were one. With no bytes at all it is
    /// `Wrote(0)`.
    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write;

    /// Ends our direction: what was written goes out, then FIN; the peer's bytes still come.
    /// Nothing can be written afterwards. No effect on a dead key.
    fn shutdown_write(&mut self, conn: Conn);

    /// Ends the connection in the next poll and forgets the key now. No effect on a dead key.
    fn close(&mut self, conn: Conn, how: Close);

    /// From now on the connection is lost (`TimedOut`, or `HostUnreachable`) when for so long the
    /// peer has acknowledged nothing of what was written, or had no room for what waits. Without it
    /// the kernel takes a quarter of an hour to give up a peer whose host has vanished, and waits
    /// for room for ever. A network whose peers cannot vanish has nothing to do. No effect on a
    /// dead key.
    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        let _ = (conn, within);
    }

    /// Where a connection's peer is, if that can still be told. For people who look: it may cost a
    /// system call.
    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        let _ = conn;
        None
    }

    /// Whether what a connection carries is encrypted here.
    fn is_encrypted(&self, conn: Conn) -> bool {
        let _ = conn;
        false
    }

    /// Takes no further connections from any listener for now; peers wait in the listener's queue.
    fn pause_accepting(&mut self);

    /// Takes no further connections from any listener, for good: those that the system has begun to
    /// take still come for [`LISTENERS_END`], then nobody listens any more.
    fn stop_accepting(&mut self) {
        self.pause_accepting();
    }

    /// Takes connections again.
    fn resume_accepting(&mut self);

    /// Adds what the network has touched in this process's own memory. The system's part is not in
    /// it.
    fn memory(&self, memory: &mut Components) {
        let _ = memory;
    }
}

/// Makes one reactor's [`Net::poll`] return with [`Event::Woken`]. Callable from any thread.
///
/// What the caller stored before `wake` (with at least release ordering, as mailboxes do) is
/// visible to the reactor when it sees `Woken`. Many calls in one turn cost one system call.
pub trait Wake: Send + Sync {
    /// Wakes the reactor, now or in its next poll.
    fn wake(&self);
}
