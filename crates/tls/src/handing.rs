//! Handing connections to the next process, for live upgrades: keys and numbers of records, and
//! what waits in buffers.
//!
//! Between two polls. An established connection is bytes, since its record layer is our own; so is
//! one whose peer has said nothing that was read. A handshake that has begun is a state of the
//! library, which cannot be handed over: before, nobody begins one and those that have begun come
//! to their end ([`Tls::hold_handshakes`]); what has not by then is ended by the next process.
//!
//! Invariants: a record's number is used by one process only (who hands over does not write any
//! more, and who takes over does not write before); the bytes hold keys, so that whoever has them
//! wipes them.

use net::{Conn, Net};
use std::time::Instant;
use stdx::handing::{Hand, Input, Layout};

use crate::connection::{Buffers, Flags, Open, State};
use crate::record::RecordLayer;
use crate::{ENDING_TIMEOUT, Tls};

/// How far a connection is that was handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
enum Stage {
    /// Nothing of it was read.
    Fresh,
    /// Within a handshake, which is lost.
    Begun,
    /// Established.
    Open,
}

/// Adds what [`Tls::hand_over`] writes.
pub fn layout(layout: &mut Layout) {
    layout.name("Tls: conn, flags, stage, layer, buffers");
    Flags::layout(layout);
    Stage::layout(layout);
    RecordLayer::layout(layout);
    Buffers::layout(layout);
}

impl<N: Net> Tls<N> {
    /// No handshake begins until [`Tls::release_handshakes`]: peers wait. Those that have begun go
    /// on.
    pub fn hold_handshakes(&mut self) {
        self.is_held = true;
    }

    /// Handshakes that have begun.
    pub fn handshakes_count(&self) -> usize {
        self.begun_count
    }

    /// Handshakes begin again.
    pub fn release_handshakes(&mut self) {
        if !std::mem::take(&mut self.is_held) {
            return;
        }
        let waiting: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.flags.has(Flags::NET_READY))
            .filter(|(_, connection)| matches!(connection.state, State::Fresh))
            .map(|(place, _)| place)
            .collect();
        for place in waiting {
            self.queue(place);
        }
    }

    /// Appends all connections of a server, keys included.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        // At once, so that no copy of the keys is left where the list has been.
        out.reserve(self.handed_bytes_max());
        self.connections.len().give(out);
        for (_, connection) in self.connections.iter() {
            debug_assert!(!connection.flags.has(Flags::CLIENT));
            connection.conn.give(out);
            connection.flags.give(out);
            match &connection.state {
                State::Fresh => Stage::Fresh.give(out),
                State::Handshake(_) => Stage::Begun.give(out),
                State::Open(open) => {
                    Stage::Open.give(out);
                    open.layer.give(out);
                    open.buffers.give(out);
                }
            }
        }
    }

    /// More than [`Tls::hand_over`] writes.
    fn handed_bytes_max(&self) -> usize {
        let connections = self.connections.iter().map(|(_, connection)| connection);
        let bytes = connections.map(|connection| {
            let bytes = connection.state_bytes() + connection.buffer_bytes();
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        bytes.sum::<usize>() + size_of::<u64>()
    }

    /// Takes connections over, which the network below has or will have under the same names. None
    /// if the bytes are not [`Tls::hand_over`]'s.
    pub fn take_over(&mut self, input: &mut Input<'_>) -> Option<()> {
        for _ in 0..usize::take(input)? {
            let conn = Conn::take(input)?;
            let mut flags = Flags::take(input)?;
            let state = match Stage::take(input)? {
                Stage::Fresh => State::Fresh,
                Stage::Begun => {
                    flags.set(Flags::FAILED);
                    State::Fresh
                }
                Stage::Open => State::Open(Box::new(Open {
                    layer: RecordLayer::take(input)?,
                    tickets: None,
                    buffers: Hand::take(input)?,
                })),
            };
            self.take_in(conn, state, flags);
        }
        Some(())
    }

    /// Puts a connection in, and into the lists that it was in.
    fn take_in(&mut self, conn: Conn, state: State, flags: Flags) {
        let is_fresh = matches!(state, State::Fresh);
        let mut kept = flags;
        kept.clear(Flags::QUEUED);
        self.insert(conn, state, kept);
        if is_fresh && flags.has_any(Flags::NET_READY | Flags::FAILED) {
            let place = self.place(conn);
            debug_assert!(place.is_some(), "just put in");
            place.into_iter().for_each(|place| self.queue(place));
        }
        if flags.has(Flags::AGAIN) {
            self.again.push(conn);
        }
        if flags.has(Flags::HELD) {
            self.held.push(conn);
        }
        if flags.has(Flags::CLOSED) {
            self.ending.push_back((Instant::now() + ENDING_TIMEOUT, conn));
        }
    }
}
