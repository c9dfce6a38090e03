//! The interface between a worker's pool and a protocol.
//!
//! Place: between the pool and the transports. Protocols see bytes and places; sockets are the
//! pool's.

use std::collections::HashMap;

use stdx::prng::Prng;

use super::route::Route;
use super::tally::Tally;

/// Time that a stop grants for due answers, in nanoseconds.
pub(super) const SETTLE_NS: u64 = 3_000_000_000;

/// The meaning of the bytes of a worker's connections. Clients are named by their place in the
/// worker, from 0.
pub trait Protocol: Send + 'static {
    /// A connection is established: its first bytes.
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>);

    /// Bytes came; answers how many were taken. The rest comes again with more behind it.
    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String>;

    /// The connection is gone.
    fn lost(&mut self, place: u32, turn: &mut Turn<'_>);

    /// Clients may have come or gone: the wanted number of this worker.
    fn resize(&mut self, _clients: u32) {}

    /// The time of the next [`Protocol::tick`], on the monotonic clock.
    fn wake_ns(&self) -> Option<u64> {
        None
    }

    /// Whether what comes before the next [`Protocol::tick`] may wait for it.
    fn gathers(&self) -> bool {
        false
    }

    /// Its time has come.
    fn tick(&mut self, _turn: &mut Turn<'_>) {}

    /// The earliest time of a lost client's next attempt; none: after the pool's pause.
    fn return_ns(&self, _place: u32) -> Option<u64> {
        None
    }

    /// Called ten times a second, before counters are handed over.
    fn look(&mut self, _turn: &mut Turn<'_>) {}

    /// The owner wants to end: nothing new is begun.
    fn end(&mut self) {}

    /// Whether nothing is under way that a stop should wait for.
    fn is_settled(&self) -> bool {
        true
    }

    /// Maximum time that a stop waits for that, in nanoseconds.
    fn settle_ns(&self) -> u64 {
        SETTLE_NS
    }
}

/// The pool's services during a call.
pub struct Turn<'a> {
    /// Monotonic nanoseconds, read once per batch of bytes.
    pub now_ns: u64,
    /// The counts of the worker.
    pub tally: &'a mut Tally,
    /// The random numbers of the worker.
    pub random: &'a mut Prng,
    pub(super) outgoing: &'a mut Outgoing,
    /// The address of the client in question.
    pub(super) route: &'a Route,
    /// Time when all clients return, or returned, from their absence; 0 for never.
    pub(super) return_ns: u64,
    /// A client that loses its connection now is away until it is live again.
    pub(super) is_away: bool,
    /// Set when the connection in question has finished its handshake.
    pub(super) opened: bool,
    /// Set when the connection in question is to be closed after its output.
    pub(super) leaves: bool,
}

impl Turn<'_> {
    /// Output for the client; it is sent after the call.
    pub fn to(&mut self, place: u32) -> &mut Vec<u8> {
        if self.outgoing.marks.last().is_none_or(|(last, _)| *last != place) {
            self.outgoing.marks.push((place, self.outgoing.bytes.len()));
        }
        &mut self.outgoing.bytes
    }

    /// The handshake of the client in question is over.
    pub fn opened(&mut self) {
        self.opened = true;
    }

    /// Closes the connection of the client that receives, after its output. The client then counts
    /// as lost, and returns.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// Bytes that wait for sockets.
    pub fn backlog_bytes(&self) -> usize {
        self.outgoing.backlog_bytes + self.outgoing.bytes.len()
    }
}

/// Bytes on their way out.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    /// Whose bytes begin where.
    pub(super) marks: Vec<(u32, usize)>,
    /// Bytes that sockets have not accepted yet.
    pub(super) backlog: HashMap<u32, Vec<u8>>,
    pub(super) backlog_bytes: usize,
}
