//! Hand-over of proxies' connections in live upgrades: incomplete headers with the received bytes
//! and the remaining time, and bytes read after headers. Other connections have no state.

use super::{Beginning, Proxied};
use net::{Conn, Copying, Net, Passing, SendCopies};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use stdx::handing::{Hand, Input, Layout};

/// A connection before the end of its header.
#[derive(Hand)]
struct Handed {
    conn: Conn,
    peer: IpAddr,
    peer_port: u16,
    listener: u8,
    bytes: Vec<u8>,
    given: usize,
    is_told: bool,
    is_ready: bool,
}

/// Describes the layout of [`Proxied::hand_over`].
pub(crate) fn layout(layout: &mut Layout) {
    layout.name("Proxied: beginnings, milliseconds left, again");
    <Vec<Handed>>::layout(layout);
}

impl<N: Passing> Passing for Proxied<N> {
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
    }

    fn begun_count(&self) -> usize {
        self.net.begun_count()
    }

    fn release(&mut self) {
        self.net.release();
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

impl<N: Net> Proxied<N> {
    /// Appends the stored state of connections.
    pub(crate) fn hand_over(&self, out: &mut Vec<u8>) {
        let handed = self.beginnings.iter().map(|(_, beginning)| Handed {
            conn: beginning.conn,
            peer: beginning.peer.ip(),
            peer_port: beginning.peer.port(),
            listener: beginning.listener,
            bytes: beginning.bytes.clone(),
            given: beginning.given,
            is_told: beginning.is_told,
            is_ready: beginning.is_ready,
        });
        handed.collect::<Vec<_>>().give(out);
        let now = Instant::now();
        let waiting = self.deadlines.iter();
        let deadlines: Vec<(u64, Conn)> = waiting
            .filter(|(_, conn)| self.waiting(*conn).is_some())
            .map(|(until, conn)| {
                let left = until.saturating_duration_since(now);
                (u64::try_from(left.as_millis()).unwrap_or(u64::MAX), *conn)
            })
            .collect();
        deadlines.give(out);
        self.again.give(out);
    }

    /// Takes over the state. None if it is malformed.
    pub(crate) fn take_over(&mut self, input: &mut Input<'_>) -> Option<()> {
        for handed in <Vec<Handed>>::take(input)? {
            if handed.given > handed.bytes.len() {
                return None;
            }
            let place = self.beginnings.insert(Beginning {
                conn: handed.conn,
                peer: SocketAddr::new(handed.peer, handed.peer_port),
                listener: handed.listener,
                bytes: handed.bytes,
                given: handed.given,
                is_told: handed.is_told,
                is_ready: handed.is_ready,
            });
            self.set(handed.conn, place + 1);
        }
        let now = Instant::now();
        for (left_ms, conn) in <Vec<(u64, Conn)>>::take(input)? {
            let until = now.checked_add(Duration::from_millis(left_ms))?;
            self.deadlines.push_back((until, conn));
        }
        self.again = Hand::take(input)?;
        Some(())
    }
}
