//! Hand-over of connections to the next process, for live upgrades: keys, numbers of records, and
//! buffered bytes.
//!
//! It takes place between two polls. An established connection is bytes, since its record layer is
//! our own; so is one of whose peer nothing was read. A running handshake is a state of the
//! library, which cannot be handed over: so none begins before the hand-over, and the running ones
//! complete ([`Tls::hold_handshakes`]); the next process ends the remaining ones.
//!
//! Invariants: only one process uses a record's number (the old one does not write any more, and
//! the new one does not write before); the bytes contain keys, so their owner wipes them.

use net::{Conn, Copying, Net, Passing, SendCopies};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;
use stdx::handing::{Hand, Input, Layout};

use crate::connection::{Buffers, Flags, Open, State};
use crate::record::RecordLayer;
use crate::{ENDING_TIMEOUT, Tls};

/// The stage of a handed-over connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
enum Stage {
    /// Nothing was read from it.
    Fresh,
    /// A running handshake, which is lost.
    Begun,
    /// Established.
    Open,
}

/// Describes the layout of [`Tls::hand_over`].
pub fn layout(layout: &mut Layout) {
    layout.name("Tls: conn, flags, stage, layer, buffers");
    Flags::layout(layout);
    Stage::layout(layout);
    RecordLayer::layout(layout);
    Buffers::layout(layout);
}

impl<N: Passing> Passing for Tls<N> {
    type Copied = N::Copied;

    fn copy_some(
        &mut self,
        copied: &mut N::Copied,
        send: &mut SendCopies<'_>,
    ) -> io::Result<Copying> {
        self.net.copy_some(copied, send)
    }

    fn conclude(&mut self, copied: &mut N::Copied, out: &mut Vec<u8>) -> bool {
        self.net.conclude(copied, out)
    }

    fn adopt(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        self.net.adopt(message, descriptors)
    }

    fn settle(&mut self, input: &mut Input<'_>) -> io::Result<()> {
        self.net.settle(input)
    }

    fn hold(&mut self) {
        self.net.hold();
        self.hold_handshakes();
    }

    fn begun_count(&self) -> usize {
        self.net.begun_count() + self.handshakes_count()
    }

    fn release(&mut self) {
        self.net.release();
        self.release_handshakes();
    }

    fn give_layers(&mut self, out: &mut Vec<u8>) {
        self.net.give_layers(out);
        self.hand_over(out);
    }

    fn take_layers(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.net.take_layers(input)?;
        self.take_over(input)
    }
}

impl<N: Net> Tls<N> {
    /// Begins no handshake until [`Tls::release_handshakes`]: peers wait. Running ones continue.
    pub fn hold_handshakes(&mut self) {
        self.is_held = true;
    }

    /// Number of running handshakes.
    pub fn handshakes_count(&self) -> usize {
        self.begun_count
    }

    /// Begins handshakes again.
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

    /// Appends all connections of a server, including keys.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        // The whole list at once, so that growth leaves no copy of the keys behind.
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

    /// An upper bound of the bytes of [`Tls::hand_over`].
    fn handed_bytes_max(&self) -> usize {
        let connections = self.connections.iter().map(|(_, connection)| connection);
        let bytes = connections.map(|connection| {
            let bytes = connection.state_bytes() + connection.buffer_bytes();
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        bytes.sum::<usize>() + size_of::<u64>()
    }

    /// Takes over connections, which the network below has or will have under the same keys. None
    /// if the bytes are malformed.
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

    /// Adds a connection, and puts it into the lists of its flags.
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
