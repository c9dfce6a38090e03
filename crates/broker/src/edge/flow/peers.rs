//! Addresses of clients: the peer's own, or that of the client whom a trusted proxy speaks for.
//!
//! Step 3 of the path, before a request is looked at. When a proxy's connection brings a request of
//! another client, the shell is asked first (`Outputs::clients`) and the connection waits for its
//! answer.

use crate::edge::Edge;
use crate::edge::connections::peers::{UNKNOWN, known};
use crate::ids::ConnIndex;
use crate::protocol::Protocol;
use crate::protocol::flag;
use crate::session::refuse_client;
use std::net::IpAddr;
use stdx::key::Key;
use stdx::networks::{UNNAMED, number_of};
use wire::http::Request;
use wire::http::forwarded::forwarded_client;
use wire::native::ErrorCode;

impl Edge {
    pub(crate) fn note_peer(&mut self, index: ConnIndex, peer: IpAddr) {
        let addresses = &self.settings.addresses;
        if addresses.are_kept() || !self.connections.peers.own.is_empty() {
            self.connections.peers.own.grow_to(index, || UNKNOWN);
            self.connections.peers.own[index] = number_of(peer);
        }
        if !addresses.trusted_proxies.is_empty() || !self.connections.peers.clients.is_empty() {
            self.connections.peers.clients.grow_to(index, || UNKNOWN);
            self.connections.peers.clients[index] = number_of(peer);
        }
    }

    /// The address of the connection's client: the peer, or the client behind a trusted proxy. None
    /// where addresses are not kept (`AddressSettings`), and of a client that its proxy does not
    /// name.
    pub fn client_address(&self, index: ConnIndex) -> Option<IpAddr> {
        let address = known(&self.connections.peers.clients, index)
            .or_else(|| known(&self.connections.peers.own, index))?;
        (address != UNNAMED).then_some(address)
    }

    /// All connections that are there: what a shell that has just been given this edge counts
    /// again.
    pub fn connections(&self) -> impl Iterator<Item = Key> {
        let places = 0..self.connections.slots.places();
        let present =
            places.filter(|index| self.connections.slots[*index].protocol != Protocol::Free);
        present.map(|index| self.connections.slots.key(index))
    }

    /// The client that a trusted proxy speaks for; none where there are no such proxies, or were
    /// none when the connection came.
    pub(crate) fn client_of_proxy(&self, index: ConnIndex) -> Option<IpAddr> {
        known(&self.connections.peers.clients, index)
    }

    /// Finds out whose request this is. False: the shell has to be asked, and the request waits,
    /// not consumed.
    pub(crate) fn settle_client(&mut self, index: ConnIndex, request: &Request<'_>) -> bool {
        let addresses = &self.settings.addresses;
        let trusted = &addresses.trusted_proxies;
        if trusted.is_empty() && self.connections.peers.clients.is_empty() {
            return true;
        }
        let Some(own) = known(&self.connections.peers.own, index) else {
            return true;
        };
        let is_trusted = |address| trusted.contains(address);
        let (client, is_unreadable) = match is_trusted(own) {
            true => match forwarded_client(&request.fields, addresses.field, is_trusted) {
                Ok(client) => (client.unwrap_or(UNNAMED), false),
                Err(_) => (UNNAMED, true),
            },
            // Perhaps not any more: it speaks for no other client then.
            false => (own, false),
        };
        let number = number_of(client);
        self.connections.peers.clients.grow_to(index, || UNKNOWN);
        if number != self.connections.peers.clients[index] {
            if addresses.are_counted {
                self.connections.slots[index].set(flag::PAUSED);
                self.out.clients.push((self.connections.slots.key(index), client));
                return false;
            }
            self.connections.peers.clients[index] = number;
        }
        self.statistics.turned_away.clients_unknown += u64::from(is_unreadable);
        true
    }

    /// The shell's answer: the connection counts for this client now.
    pub fn client_admitted(&mut self, key: Key, client: IpAddr) {
        if self.connections.slots.get(key).is_some() {
            self.connections.peers.clients[key.index] = number_of(client);
            self.resume(key.index);
        }
    }

    /// The shell's answer: the client has no room left, and is told so. The connection is closed.
    pub fn client_refused(&mut self, key: Key, code: ErrorCode) {
        if self.connections.slots.get(key).is_some() {
            refuse_client(self, key.index, code);
        }
    }
}
